//! One decoder for the blocks of one image: decompress, undo the predictor, put the bytes into native order.

use crate::error::{Error, Result};
use crate::predictor::{self, Predictor};
use crate::sample::reverse_bits;
use crate::shape::Shape;
use crate::{
    byteorder, ccitt, color, deflate, jpeg, jpeg2000, jxl, lerc, lz4, lzma, lzw, next, ojpeg, packbits, sgilog,
    thunderscan, webp, zstd,
};

/// A compression scheme with what its streams need beside themselves.
#[derive(Debug, Clone)]
pub enum Codec {
    /// Stored as is.
    None,
    /// LZW, both bit orders.
    Lzw,
    /// Deflate in zlib framing.
    Deflate,
    /// PackBits run lengths.
    PackBits,
    /// Zstandard.
    Zstd,
    /// LZ4 frames.
    Lz4,
    /// LZMA2 in an xz container.
    Lzma,
    /// CCITT fax: RLE, Group 3, Group 4.
    Ccitt(ccitt::Params),
    /// NeXT 2-bit.
    Next,
    /// ThunderScan 4-bit.
    ThunderScan,
    /// LERC, alone or in Deflate or ZSTD.
    Lerc(lerc::Params),
    /// The masks of LERC blobs: a byte per pixel, 255 valid, 0 not. The shape says what the blobs hold.
    LercMask(lerc::Params, Shape),
    /// SGI LogL and LogLuv.
    SgiLog(sgilog::PixelEncoding),
    /// JPEG.
    Jpeg {
        /// The JPEGTables tag.
        tables: Option<Vec<u8>>,
        /// The PhotometricInterpretation tag.
        photometric: u16,
    },
    /// JPEG as TIFF 6.0 first had it.
    OldJpeg(Box<OldJpeg>),
    /// JPEG 2000.
    Jpeg2000(jpeg2000::Colour),
    /// WebP.
    WebP,
    /// JPEG XL.
    JpegXl,
}

/// The tables of an old-style JPEG file, which lie outside its blocks; see [`ojpeg::Params`] for what each is.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the fields are those of ojpeg::Params, owned")]
pub struct OldJpeg {
    pub interchange: Option<Vec<u8>>,
    pub quant_tables: Vec<Vec<u8>>,
    pub dc_tables: Vec<Vec<u8>>,
    pub ac_tables: Vec<Vec<u8>>,
    pub restart_interval: u16,
    pub subsampling: Option<(u16, u16)>,
    pub photometric: u16,
    pub ycbcr: color::YCbCr,
}

impl OldJpeg {
    fn decode(&self, src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
        fn slices(tables: &[Vec<u8>]) -> Vec<&[u8]> {
            tables.iter().map(Vec::as_slice).collect()
        }
        let defaults = ojpeg::Params::default();
        let params = ojpeg::Params {
            interchange: self.interchange.as_deref(),
            quant_tables: &slices(&self.quant_tables),
            dc_tables: &slices(&self.dc_tables),
            ac_tables: &slices(&self.ac_tables),
            restart_interval: self.restart_interval,
            subsampling: self.subsampling.unwrap_or(defaults.subsampling),
            photometric: self.photometric,
            ycbcr: self.ycbcr,
        };
        ojpeg::decode(&params, src, shape, dst)
    }
}

/// How much of a block is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Its first rows; the stream goes on behind them.
    Top,
}

/// Which rows a decoder can give without decoding the whole block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowAccess {
    /// Any: rows lie at known places in the stored bytes.
    Any,
    /// Rows from the top down: decoding can stop early.
    Prefix,
    /// All or nothing.
    All,
}

/// Decodes the blocks of one image. Shared between threads; what changes lies in [`Scratch`].
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The codec.
    pub codec: Codec,
    /// The name of the codec.
    pub name: &'static str,
    /// The predictor to undo.
    pub predictor: Predictor,
    /// Byte order of the file.
    pub big_endian: bool,
    /// FillOrder 2: the bits of each stored byte are in reverse order.
    pub lsb_first: bool,
    /// How many pixels share their chroma, across and down, in the packed YCbCr of byte codecs; (1, 1) for all else.
    pub subsampling: (usize, usize),
}

/// Working memory of one thread, kept from block to block. Contexts are made when the first block needs them.
#[derive(Default)]
pub struct Scratch {
    lzw: Option<Box<lzw::Decoder>>,
    deflate: Option<deflate::Decoder>,
    zstd: Option<zstd::Decoder>,
    ccitt: ccitt::Scratch,
    lerc: Option<Box<lerc::Scratch>>,
    bytes: Vec<u8>,
    rows: Vec<u8>,
}

impl Scratch {
    /// Bytes of the buffers that grow with the blocks.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity()
    }
}

impl Decoder {
    /// Whether there is nothing to decode.
    pub fn is_copy(&self) -> bool {
        matches!(self.codec, Codec::None)
    }

    /// Which rows can be had without decoding the whole block.
    pub fn row_access(&self) -> RowAccess {
        match self.codec {
            _ if self.subsampling != (1, 1) => RowAccess::All,
            Codec::None => RowAccess::Any,
            Codec::Lzw | Codec::PackBits | Codec::Deflate | Codec::Zstd | Codec::Lz4 | Codec::Lzma => RowAccess::Prefix,
            _ => RowAccess::All,
        }
    }

    /// Decode one block to native samples, still packed if they are not a whole number of bytes.
    ///
    /// `shape` has the rows that are wanted: those of the whole block, or its first rows where [`row_access`](Decoder::row_access)
    /// allows that. `src` is the stored block; it is scratch memory afterwards. `block` grows to the size of a decoded block and no further.
    /// The result lies in one of the two and has `shape.len()` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the stream ends before the block is full, and what the codecs say.
    pub fn decode<'a>(
        &self,
        src: &'a mut [u8],
        shape: Shape,
        extent: Extent,
        block: &'a mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<&'a [u8]> {
        let want = shape.len();
        // Fax decoders read either bit order themselves; pictures are defined as bytes.
        let reversible = !matches!(
            self.codec,
            Codec::Ccitt(_) | Codec::Jpeg { .. } | Codec::OldJpeg(_) | Codec::Jpeg2000(_) | Codec::WebP | Codec::JpegXl
        );
        if self.lsb_first && reversible {
            reverse_bits(src);
        }
        if matches!(self.codec, Codec::None) && self.subsampling == (1, 1) {
            let got = src.len();
            let block = src.get_mut(..want).ok_or(Error::Truncated { codec: self.name, got, want })?;
            predictor::undo(Predictor::None, shape, self.big_endian, block, &mut scratch.rows)?;
            return Ok(block);
        }
        // Only the top of a Deflate stream needs room behind the bytes that are wanted.
        let slack = if extent == Extent::Top && matches!(self.codec, Codec::Deflate) { deflate::SLACK } else { 0 };
        if block.len() < want + slack {
            // Zeroed by the allocator: pages that the stream does not reach cost nothing.
            *block = vec![0; want + slack];
        }
        let block = &mut block[..want + slack];
        match &self.codec {
            Codec::Jpeg { tables, photometric } => {
                let params = jpeg::Params { tables: tables.as_deref(), photometric: *photometric };
                jpeg::decode(&params, src, shape, block)?;
            }
            Codec::OldJpeg(params) => params.decode(src, shape, block)?,
            Codec::Jpeg2000(colour) => jpeg2000::decode(src, shape, *colour, block)?,
            Codec::WebP => webp::decode(src, shape, block)?,
            Codec::JpegXl => jxl::decode(src, shape, block)?,
            Codec::SgiLog(kind) => {
                sgilog::decode(*kind, src, shape, block)?;
            }
            Codec::Lerc(params) => {
                let scratch = scratch.lerc.get_or_insert_default();
                lerc::decode(params, src, shape, block, None, scratch)?;
                // A blob has a byte order of its own, but libtiff swaps what any codec gives: big-endian files hold blobs
                // of swapped samples.
                byteorder::swap_block(shape, self.big_endian, block);
            }
            Codec::LercMask(params, stored) => {
                let stored = Shape { width: shape.width, height: shape.height, ..*stored };
                scratch.bytes.resize(stored.len(), 0);
                let inner = scratch.lerc.get_or_insert_default();
                lerc::decode(params, src, stored, &mut scratch.bytes, Some(block), inner)?;
            }
            _ if self.subsampling != (1, 1) => {
                let (width, height) = (shape.width, shape.height);
                let packed = color::subsampled_len(width, height, self.subsampling)
                    .ok_or(Error::Unsuited { codec: self.name, what: "a block of this size" })?;
                let mut bytes = std::mem::take(&mut scratch.bytes);
                bytes.resize(packed, 0);
                let result = self.decompress(src, shape, extent, &mut bytes, packed, scratch);
                let result =
                    result.and_then(|()| color::expand_subsampled(&bytes, width, height, self.subsampling, block));
                scratch.bytes = bytes;
                result?;
            }
            _ => {
                self.decompress(src, shape, extent, block, want, scratch)?;
                predictor::undo(self.predictor, shape, self.big_endian, &mut block[..want], &mut scratch.rows)?;
            }
        }
        Ok(&block[..want])
    }

    /// Decompress the first `want` bytes of a stream; fewer are an error. `dst` has more room only for the top of a Deflate
    /// stream.
    fn decompress(
        &self,
        src: &[u8],
        shape: Shape,
        extent: Extent,
        dst: &mut [u8],
        want: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let got = match &self.codec {
            Codec::None => {
                let got = src.len().min(want);
                dst[..got].copy_from_slice(&src[..got]);
                got
            }
            Codec::Lzw => scratch.lzw.get_or_insert_with(|| Box::new(lzw::Decoder::new())).decode(src, dst)?,
            Codec::Deflate => {
                let decoder = scratch.deflate.get_or_insert_with(deflate::Decoder::new);
                if extent == Extent::Top { decoder.decode_top(src, dst, want)? } else { decoder.decode(src, dst)? }
            }
            Codec::Zstd => {
                let decoder = scratch.zstd.get_or_insert_with(zstd::Decoder::new);
                if extent == Extent::Top { decoder.decode_top(src, dst)? } else { decoder.decode(src, dst)? }
            }
            Codec::Lzma => lzma::decode(src, dst)?,
            Codec::PackBits => packbits::decode(src, dst)?,
            Codec::Lz4 => lz4::decode(src, dst)?,
            Codec::Ccitt(params) => ccitt::decode(params, src, shape, dst, &mut scratch.ccitt)?,
            Codec::Next => next::decode(src, shape, dst)?,
            Codec::ThunderScan => thunderscan::decode(src, shape, dst)?,
            // The rest are pictures, which `decode` handles whole.
            _ => 0,
        };
        if got < want { Err(Error::Truncated { codec: self.name, got, want }) } else { Ok(()) }
    }
}

#[cfg(all(test, feature = "lerc"))]
mod tests {
    use super::*;
    use crate::SampleFormat;

    #[test]
    fn lerc_samples_of_big_endian_files_are_swapped_as_libtiff_swaps_them() {
        let blob = include_bytes!("../testdata/lerc-zstd-i16.bin");
        let params = lerc::Params { version: 4, compression: lerc::LercCompression::Zstd };
        let shape = Shape { width: 16, height: 12, samples: 1, bits: 16, format: SampleFormat::Int };
        let decoded = |big_endian| {
            let decoder = Decoder {
                codec: Codec::Lerc(params),
                name: "LERC",
                predictor: Predictor::None,
                big_endian,
                lsb_first: false,
                subsampling: (1, 1),
            };
            decoder
                .decode(&mut blob.to_vec(), shape, Extent::Whole, &mut Vec::new(), &mut Scratch::default())
                .unwrap()
                .to_vec()
        };
        let mut swapped = decoded(true);
        byteorder::swap_in_place(2, &mut swapped);
        assert_eq!(swapped, decoded(false));
        assert_ne!(swapped, decoded(true));
    }
}
