//! The decoder for the blocks of one image: it decompresses, undoes the predictor and swaps bytes to native order.

use crate::error::{Error, Result};
use crate::predictor::{Predictor, RowUndo};
use crate::sample::{is_packed, reverse_bits};
use crate::shape::Shape;
use crate::{
    byteorder, ccitt, color, contain, deflate, inflate, jpeg, jpeg2000, jxl, lerc, lz4, lzma, lzw, memory, next, ojpeg,
    packbits, sgilog, thunderscan, webp, zstd,
};

/// A compression scheme with the parameters that its decoder needs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Codec {
    /// No compression.
    None,
    /// LZW in either bit order.
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
    /// The validity masks of LERC blobs: one byte per pixel, 255 for valid and 0 for invalid. The shape is that
    /// of the samples in the blobs.
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
    /// Old-style JPEG, as TIFF 6.0 first defined it.
    OldJpeg(Box<OldJpeg>),
    /// JPEG 2000.
    Jpeg2000(jpeg2000::Colour),
    /// WebP.
    WebP,
    /// JPEG XL.
    JpegXl,
}

impl Codec {
    /// Whether the codec decodes to samples. The other codecs decode to bytes, to which a predictor may have
    /// been applied.
    fn is_picture(&self) -> bool {
        matches!(
            self,
            Codec::Jpeg { .. }
                | Codec::OldJpeg(_)
                | Codec::Jpeg2000(_)
                | Codec::WebP
                | Codec::JpegXl
                | Codec::SgiLog(_)
                | Codec::Lerc(_)
                | Codec::LercMask(..)
        )
    }

    /// An estimate of the memory that the decoder allocates itself for a block of this shape, in bytes, where the shape
    /// decides it. The other codecs allocate little, or get the limit themselves.
    fn working_bytes(&self, shape: Shape) -> usize {
        let pixels = shape.width.saturating_mul(shape.height);
        match self {
            Codec::Lerc(params) => lerc_bytes(params, shape.len()),
            Codec::LercMask(params, stored) => {
                let stored = Shape { width: shape.width, height: shape.height, ..*stored };
                lerc_bytes(params, stored.len()).saturating_add(stored.len())
            }
            // 32-bit coefficients of each sample, and buffers for one component. Measured: 13 bytes for each pixel of
            // one component, 21 of three.
            Codec::Jpeg2000(_) => pixels.saturating_mul(shape.samples.saturating_mul(4).saturating_add(9)),
            // Two buffers of 32 bits for each sample. Measured: 2 to 8 bytes.
            Codec::JpegXl => pixels.saturating_mul(shape.samples).saturating_mul(8),
            _ => 0,
        }
    }

    /// Whether FillOrder applies to the stored bytes. Fax decoders handle both bit orders themselves. Picture
    /// formats define their own order.
    fn has_bit_order(&self) -> bool {
        !matches!(
            self,
            Codec::Ccitt(_) | Codec::Jpeg { .. } | Codec::OldJpeg(_) | Codec::Jpeg2000(_) | Codec::WebP | Codec::JpegXl
        )
    }
}

/// The memory of the LERC decoder: the samples of the blob; a wrapped blob also needs room for the blob itself.
fn lerc_bytes(params: &lerc::Params, samples: usize) -> usize {
    let wrapped = params.compression != lerc::LercCompression::None;
    samples.saturating_mul(if wrapped { 5 } else { 2 })
}

/// The tables of an old-style JPEG file, which are stored outside its blocks. [`ojpeg::Params`] describes each
/// field.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the fields are those of ojpeg::Params, owned")]
pub struct OldJpeg {
    pub interchange: Option<Vec<u8>>,
    pub quant_tables: Vec<Vec<u8>>,
    pub dc_tables: Vec<Vec<u8>>,
    pub ac_tables: Vec<Vec<u8>>,
    pub restart_interval: u16,
    pub several_blocks: bool,
    pub subsampling: Option<(u16, u16)>,
    pub photometric: u16,
    pub ycbcr: color::YCbCr,
}

impl OldJpeg {
    fn decode(&self, src: &[u8], shape: Shape, dst: &mut [u8], max_memory: u64) -> Result<()> {
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
            several_blocks: self.several_blocks,
            subsampling: self.subsampling.unwrap_or(defaults.subsampling),
            photometric: self.photometric,
            ycbcr: self.ycbcr,
        };
        ojpeg::decode_within(&params, src, shape, dst, max_memory)
    }
}

/// The part of a block to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole block.
    Whole,
    /// The first rows of the block. The stream continues after them.
    Top,
}

/// The rows that a decoder can return without decoding the whole block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowAccess {
    /// Any row, because each row has a known position in the stored bytes.
    Any,
    /// The first rows, because decoding can stop early.
    Prefix,
    /// Only all rows together.
    All,
}

/// Decodes the blocks of one image. Threads share it; each has its own [`Scratch`].
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The codec.
    pub codec: Codec,
    /// The name of the codec.
    pub name: &'static str,
    /// The predictor to undo.
    pub predictor: Predictor,
    /// Whether the file is big-endian.
    pub big_endian: bool,
    /// FillOrder 2: the bits of each stored byte are in reverse order.
    pub lsb_first: bool,
    /// The number of pixels across and down that share one chroma pair, for the packed YCbCr of byte codecs;
    /// (1, 1) for everything else.
    pub subsampling: (usize, usize),
    /// The number of bytes of memory that the codec may use for one block in addition to the stored and the decoded bytes.
    pub max_memory: u64,
}

/// The working memory of one thread, reused for every block. A context is created when the first block needs
/// it.
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
    /// The capacity in bytes of the buffers whose size depends on the block.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity()
    }
}

/// A block of a group, and the buffer for its bytes, which is reused.
#[derive(Debug, Default)]
pub struct GroupBlock {
    bytes: Vec<u8>,
    outcome: Option<Result<usize>>,
}

impl GroupBlock {
    /// Returns the outcome for the block, or `None` if [`Decoder::decompress_group`] has not decompressed a block since
    /// the last call.
    pub fn take(&mut self) -> Option<Decompressed<'_>> {
        let outcome = self.outcome.take()?;
        Some(Decompressed { bytes: &mut self.bytes, outcome })
    }

    /// The capacity of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The outcome for one block of a group.
#[derive(Debug)]
pub struct Decompressed<'a> {
    bytes: &'a mut Vec<u8>,
    outcome: Result<usize>,
}

impl<'a> Decompressed<'a> {
    /// Returns the bytes as [`Decoder::decompress`] does.
    ///
    /// # Errors
    /// The reason why the block cannot be decompressed.
    pub fn bytes(self) -> Result<&'a mut [u8]> {
        self.outcome.map(|len| &mut self.bytes[..len])
    }

    /// Returns the bytes and their buffer. The next block gets a new buffer.
    ///
    /// # Errors
    /// The reason why the block cannot be decompressed.
    pub fn into_vec(self) -> Result<Vec<u8>> {
        let len = self.outcome?;
        self.bytes.truncate(len);
        Ok(std::mem::take(self.bytes))
    }
}

impl Decoder {
    /// Whether blocks are stored without compression.
    pub fn is_copy(&self) -> bool {
        matches!(self.codec, Codec::None)
    }

    /// Whether stored blocks of this shape are native samples of whole bytes, which need no decoding at all.
    pub fn stores_native_samples(&self, shape: Shape) -> bool {
        let swaps = byteorder::is_foreign(self.big_endian) && byteorder::swap_width(shape.format, shape.bits) > 1;
        let plain = self.is_copy() && self.subsampling == (1, 1) && !self.lsb_first;
        plain && !swaps && !is_packed(shape.format, shape.bits)
    }

    /// The rows that can be decoded without decoding the whole block.
    pub fn row_access(&self) -> RowAccess {
        match self.codec {
            _ if self.subsampling != (1, 1) => RowAccess::All,
            Codec::None => RowAccess::Any,
            Codec::Lzw | Codec::PackBits | Codec::Deflate | Codec::Zstd | Codec::Lz4 | Codec::Lzma => RowAccess::Prefix,
            _ => RowAccess::All,
        }
    }

    /// Decodes one block to native samples, still packed if they are not a whole number of bytes.
    ///
    /// `shape` gives the rows to decode: those of the whole block, or only its first rows if
    /// [`row_access`](Decoder::row_access) allows that. `src` is the stored block; its content is undefined
    /// afterwards. `block` grows at most to the size of a decoded block. The result is a slice of `src` or
    /// `block` and has `shape.len()` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the stream ends before the block is full, [`Error::Corrupt`] if the codec panics,
    /// and the errors of the codecs.
    pub fn decode<'a>(
        &self,
        src: &'a mut [u8],
        shape: Shape,
        extent: Extent,
        block: &'a mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<&'a [u8]> {
        let bytes = self.decompress(src, shape, extent, block, scratch)?;
        self.row_undo(shape)?.block(bytes, &mut scratch.rows)?;
        Ok(bytes)
    }

    /// Decompresses one block as [`decode`](Decoder::decode) does, but does not convert its rows to native samples:
    /// [`row_undo`](Decoder::row_undo) does that, for a row just before it is used.
    ///
    /// # Errors
    /// Those of [`decode`](Decoder::decode).
    pub fn decompress<'a>(
        &self,
        src: &'a mut [u8],
        shape: Shape,
        extent: Extent,
        block: &'a mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<&'a mut [u8]> {
        let result = contain::decoding(self.name, || self.decompress_uncontained(src, shape, extent, block, scratch));
        // A panic can leave a context of a codec in any state.
        result.inspect_err(|_| *scratch = Scratch::default())
    }

    fn decompress_uncontained<'a>(
        &self,
        src: &'a mut [u8],
        shape: Shape,
        extent: Extent,
        block: &'a mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<&'a mut [u8]> {
        if self.lsb_first && self.codec.has_bit_order() {
            reverse_bits(src);
        }
        let want = shape.len();
        if self.is_copy() && self.subsampling == (1, 1) {
            let got = src.len();
            return src.get_mut(..want).ok_or(Error::Truncated { codec: self.name, got, want });
        }
        // Only decoding the first rows of a Deflate stream needs room after the requested bytes.
        let slack = if extent == Extent::Top && matches!(self.codec, Codec::Deflate) { deflate::SLACK } else { 0 };
        memory::grow(self.name, block, want + slack)?;
        let block = &mut block[..want + slack];
        if self.codec.is_picture() {
            let needed = self.codec.working_bytes(shape);
            memory::check_limit(self.name, needed as u64, self.max_memory)?;
            memory::check(self.name, needed)?;
            self.decode_picture(src, shape, block, scratch)?;
        } else if self.subsampling != (1, 1) {
            self.decode_subsampled(src, shape, extent, block, scratch)?;
        } else {
            self.decompress_bytes(src, shape, extent, block, want, scratch)?;
        }
        Ok(&mut block[..want])
    }

    /// Returns the conversion of the rows of a [decompressed](Decoder::decompress) block to native samples.
    ///
    /// # Errors
    /// If the predictor is not defined for these samples.
    pub fn row_undo(&self, shape: Shape) -> Result<RowUndo> {
        if self.codec.is_picture() || (self.subsampling != (1, 1)) {
            Ok(RowUndo::nothing(shape))
        } else if self.is_copy() {
            RowUndo::new(Predictor::None, shape, self.big_endian)
        } else {
            RowUndo::new(self.predictor, shape, self.big_endian)
        }
    }

    /// The number of blocks to decompress at once with [`decompress_group`](Decoder::decompress_group); 1 if the
    /// codec does not gain from that.
    pub fn group_size(&self) -> usize {
        let interleaves = matches!(self.codec, Codec::Deflate) && self.subsampling == (1, 1) && !self.lsb_first;
        if interleaves { inflate::LANES } else { 1 }
    }

    /// Whether decompressing this block together with others is likely to be faster than alone. `whole` is the
    /// number of bytes of the whole decoded block.
    pub fn gains(&self, src: &[u8], whole: usize) -> bool {
        self.group_size() > 1 && inflate::gains(src.len(), whole)
    }

    /// Decompresses several blocks at once. Each has its own outcome: [`GroupBlock::take`].
    pub fn decompress_group<'a>(
        &self,
        blocks: impl Iterator<Item = (&'a [u8], Shape, Extent, &'a mut GroupBlock)>,
        scratch: &mut Scratch,
    ) {
        let mut outcomes = Vec::with_capacity(self.group_size());
        let mut streams = Vec::with_capacity(self.group_size());
        for (src, shape, extent, GroupBlock { bytes, outcome }) in blocks {
            let want = shape.len();
            if let Err(error) = memory::grow(self.name, bytes, want) {
                *outcome = Some(Err(error));
                continue;
            }
            let dst = &mut bytes[..want];
            streams.push(match extent {
                Extent::Whole => inflate::Stream::new(src, dst),
                Extent::Top => inflate::Stream::top(src, dst),
            });
            outcomes.push((want, outcome));
        }
        let decoder = scratch.deflate.get_or_insert_with(deflate::Decoder::new);
        let Ok(decoded) = contain::decoding(self.name, || Ok(decoder.decode_batch(&mut streams))) else {
            // After a panic no block has an outcome, so the caller decompresses each alone and finds the bad one.
            scratch.deflate = None;
            return;
        };
        for ((want, outcome), got) in outcomes.into_iter().zip(decoded) {
            *outcome = Some(match got {
                Ok(got) if got < want => Err(Error::Truncated { codec: self.name, got, want }),
                other => other,
            });
        }
    }

    /// Decodes a block with a codec that produces samples, not bytes.
    fn decode_picture(&self, src: &[u8], shape: Shape, block: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        match &self.codec {
            Codec::Jpeg { tables, photometric } => {
                let params = jpeg::Params { tables: tables.as_deref(), photometric: *photometric };
                jpeg::decode_within(&params, src, shape, block, self.max_memory)
            }
            Codec::OldJpeg(params) => params.decode(src, shape, block, self.max_memory),
            Codec::Jpeg2000(colour) => jpeg2000::decode_within(src, shape, *colour, block, self.max_memory),
            Codec::WebP => webp::decode_within(src, shape, block, self.max_memory),
            Codec::JpegXl => jxl::decode_within(src, shape, block, self.max_memory),
            Codec::SgiLog(encoding) => sgilog::decode(*encoding, src, shape, block).map(|_| ()),
            Codec::Lerc(params) => {
                let scratch = scratch.lerc.get_or_insert_default();
                lerc::decode(params, src, shape, block, None, scratch)?;
                // A blob defines its own byte order, but libtiff swaps the output of every codec. Blobs in
                // big-endian files therefore hold swapped samples.
                byteorder::swap_block(shape, self.big_endian, block);
                Ok(())
            }
            Codec::LercMask(params, stored) => {
                let stored = Shape { width: shape.width, height: shape.height, ..*stored };
                memory::grow(self.name, &mut scratch.bytes, stored.len())?;
                let inner = scratch.lerc.get_or_insert_default();
                let samples = &mut scratch.bytes[..stored.len()];
                lerc::decode(params, src, stored, samples, Some(block), inner).map(|_| ())
            }
            // `is_picture` lists the codecs above.
            _ => Err(Error::Unsuited { codec: self.name, what: "pictures" }),
        }
    }

    /// Decodes a block of packed YCbCr with shared chroma: decompresses it and repeats the chroma for every
    /// pixel.
    fn decode_subsampled(
        &self,
        src: &[u8],
        shape: Shape,
        extent: Extent,
        block: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (width, height) = (shape.width, shape.height);
        let packed = color::subsampled_len(width, height, self.subsampling)
            .ok_or(Error::Unsuited { codec: self.name, what: "a block of this size" })?;
        let mut bytes = std::mem::take(&mut scratch.bytes);
        memory::grow(self.name, &mut bytes, packed)?;
        let result = self.decompress_bytes(src, shape, extent, &mut bytes[..packed], packed, scratch);
        let result =
            result.and_then(|()| color::expand_subsampled(&bytes[..packed], width, height, self.subsampling, block));
        scratch.bytes = bytes;
        result
    }

    /// Decompresses the first `want` bytes of a stream. Fewer bytes are an error. `dst` is longer than `want`
    /// only when the first rows of a Deflate stream are decoded.
    fn decompress_bytes(
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
                let decoder = match &mut scratch.zstd {
                    Some(decoder) => decoder,
                    empty => empty.insert(zstd::Decoder::try_new()?),
                };
                decoder.set_max_window(self.max_memory);
                if extent == Extent::Top { decoder.decode_top(src, dst)? } else { decoder.decode(src, dst)? }
            }
            Codec::Lzma => lzma::decode_within(src, dst, self.max_memory)?,
            Codec::PackBits => packbits::decode(src, dst)?,
            Codec::Lz4 => lz4::decode(src, dst)?,
            Codec::Ccitt(params) => {
                memory::check_limit(self.name, ccitt::working_bytes(src, shape), self.max_memory)?;
                ccitt::decode(params, src, shape, dst, &mut scratch.ccitt)?
            }
            Codec::Next => next::decode(src, shape, dst)?,
            Codec::ThunderScan => thunderscan::decode(src, shape, dst)?,
            // All other codecs are pictures, which `decode_picture` decodes.
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
                max_memory: u64::MAX,
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
