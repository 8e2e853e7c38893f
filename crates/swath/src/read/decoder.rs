//! Creates the decoder of a level from its tags: the parameters that each codec needs in addition to its
//! streams.

use swath_codec::{Codec, DType, Decoder, OldJpeg, Predictor, ccitt, codecs, jpeg2000, lerc, sgilog};
use swath_tiff::{ByteOrder, Compression, Fields, ImageLayout, Limits, ReadAt, Tag};

use crate::dataset::level::Level;
use crate::error::{Error, Result};
use crate::read::color::ycbcr;

/// Returns the type that the samples have in memory.
pub(crate) fn dtype(layout: &ImageLayout) -> Option<DType> {
    DType::for_stored(layout.format(), usize::from(layout.bits))
}

/// Returns the number of bits per decoded sample. Image codecs return whole samples: 12 bits come out of a
/// JPEG as 16.
pub(crate) fn decoded_bits(layout: &ImageLayout) -> usize {
    let bits = usize::from(layout.bits);
    if layout.compression.is_picture() || layout.compression == Compression::LERC {
        dtype(layout).map_or(bits, |dtype| dtype.size() * 8)
    } else {
        bits
    }
}

/// Creates the decoder for the blocks of a level.
pub(crate) fn build(level: &Level, limits: &Limits) -> Result<Decoder> {
    let layout = &level.layout;
    let failed = |cause| Error::Codec { file: level.file.clone(), cause };
    let info = codecs::check_decodable(layout.compression).map_err(failed)?;
    // libtiff ignores the Predictor tag for codecs that do not support one.
    let predictor = match Predictor::from_tag(layout.predictor) {
        _ if !info.takes_predictor() => Predictor::None,
        Some(predictor) => predictor,
        None => return Err(failed(swath_codec::Error::UnknownPredictor { value: layout.predictor })),
    };
    let codec = codec(level, limits)?;
    Ok(Decoder {
        codec,
        name: layout.compression.name(),
        predictor,
        big_endian: layout.order == ByteOrder::Big,
        lsb_first: layout.lsb_first,
        subsampling: level.subsampling,
        max_memory: limits.max_codec_memory,
    })
}

fn codec(level: &Level, limits: &Limits) -> Result<Codec> {
    let layout = &level.layout;
    let fields = level.ifd.fields(level.source.as_ref(), limits);
    let container = |error| level.container_error(error);
    let failed = |cause| Error::Codec { file: level.file.clone(), cause };
    let uints = |tag| fields.uints(tag).map(Option::unwrap_or_default).map_err(container);
    let fax = |scheme, options: u64| {
        Codec::Ccitt(ccitt::Params { scheme, lsb_first: layout.lsb_first, uncompressed: options & 2 != 0 })
    };
    Ok(match layout.compression {
        Compression::NONE => Codec::None,
        Compression::LZW => Codec::Lzw,
        Compression::DEFLATE | Compression::OLD_DEFLATE => Codec::Deflate,
        Compression::PACKBITS => Codec::PackBits,
        Compression::ZSTD => Codec::Zstd,
        Compression::LZ4 => Codec::Lz4,
        Compression::LZMA => Codec::Lzma,
        Compression::CCITT_RLE => fax(ccitt::Scheme::Rle, 0),
        Compression::CCITT_RLE_WORD => fax(ccitt::Scheme::RleWord, 0),
        Compression::CCITT_G3 => {
            let options = uints(Tag::T4_OPTIONS)?.first().copied().unwrap_or(0);
            fax(ccitt::Scheme::Group3 { two_dimensional: options & 1 != 0 }, options)
        }
        Compression::CCITT_G4 => fax(ccitt::Scheme::Group4, uints(Tag::T6_OPTIONS)?.first().copied().unwrap_or(0)),
        Compression::NEXT => Codec::Next,
        Compression::THUNDERSCAN => Codec::ThunderScan,
        Compression::LERC => {
            let values: Vec<u32> = uints(Tag::LERC_PARAMETERS)?.iter().map(|&value| value as u32).collect();
            Codec::Lerc(lerc::Params::from_tag(&values).map_err(failed)?)
        }
        Compression::JPEG => Codec::Jpeg {
            tables: fields.bytes(Tag::JPEG_TABLES).map_err(container)?.map(check_tables).transpose().map_err(failed)?,
            photometric: layout.photometric.0,
        },
        Compression::JPEG_2000 | Compression::APERIO_J2K_RGB => Codec::Jpeg2000(jpeg2000::Colour::Stored),
        Compression::APERIO_J2K_YCBCR => Codec::Jpeg2000(jpeg2000::Colour::Ycc),
        Compression::SGI_LOG | Compression::SGI_LOG_24 => {
            let kind = sgilog::PixelEncoding::from_tags(layout.compression.0, layout.photometric.0);
            let (name, code) = (layout.compression.name(), layout.compression.0);
            Codec::SgiLog(kind.ok_or_else(|| failed(swath_codec::Error::Unsupported { name, code }))?)
        }
        Compression::OLD_JPEG => Codec::OldJpeg(Box::new(old_jpeg(level, &fields))),
        Compression::WEBP => Codec::WebP,
        Compression::JPEG_XL | Compression::JPEG_XL_DNG => Codec::JpegXl,
        other => {
            return Err(failed(swath_codec::Error::Unsupported { name: other.name(), code: other.0 }));
        }
    })
}

/// Checks the JPEGTables tag. All possible tables together take 3 KB, and they are parsed again for each
/// block, so a tag that is far too long would cost minutes.
fn check_tables(tables: Vec<u8>) -> swath_codec::Result<Vec<u8>> {
    const MOST: usize = 64 << 10;
    if tables.len() > MOST {
        return Err(swath_codec::Error::Corrupt {
            codec: "JPEG",
            what: "its tables are longer than all possible tables together",
        });
    }
    Ok(tables)
}

/// Returns the tables of an old-style JPEG file. They can lie anywhere in the file: the tags give offsets,
/// and only sometimes lengths.
fn old_jpeg<R: ReadAt + ?Sized>(level: &Level, fields: &Fields<'_, R>) -> OldJpeg {
    /// Tables are small. This bounds the cost of a wrong length.
    const MAX_TABLES: u64 = 1 << 20;
    let source = level.source.as_ref();
    let uints = |tag| fields.uints(tag).ok().flatten().unwrap_or_default();
    let first = |tag| uints(tag).first().copied().unwrap_or(0);
    let bytes = |offset: u64, len: u64| {
        let mut bytes = vec![0; len.min(source.size().saturating_sub(offset)) as usize];
        source.read_at(offset, &mut bytes).ok().map(|()| bytes)
    };
    // One table per component: without this limit, a list of a million offsets would make a million copies.
    let tables = |tag, len| uints(tag).iter().take(4).filter_map(|&offset| bytes(offset, len)).collect();

    let start = first(Tag::JPEG_INTERCHANGE_FORMAT);
    let mut spans = Vec::new();
    let blocks = level.layout.grid.count().unwrap_or(0).min(level.layout.table.offsets().count).min(4096);
    let _ = level.layout.table.spans(source, 0, blocks, &mut spans);
    let next_block = spans.iter().map(|span| span.offset).filter(|&offset| offset > start).min();
    let announced = first(Tag::JPEG_INTERCHANGE_FORMAT_LENGTH);
    let len = if announced > 0 { announced } else { next_block.unwrap_or(source.size()).saturating_sub(start) };
    let several_blocks = level.layout.grid.count().is_some_and(|count| count > 1);
    let quant_tables: Vec<Vec<u8>> = tables(Tag::JPEG_Q_TABLES, 64);
    // Without tags for the header, the first block begins with it.
    let in_first_block = || spans.first().filter(|_| several_blocks && quant_tables.is_empty());
    let interchange = match start {
        0 => in_first_block().and_then(|span| bytes(span.offset, span.len.min(MAX_TABLES))),
        _ => bytes(start, len.min(MAX_TABLES)),
    };
    OldJpeg {
        interchange,
        quant_tables,
        several_blocks,
        dc_tables: tables(Tag::JPEG_DC_TABLES, 16 + 256),
        ac_tables: tables(Tag::JPEG_AC_TABLES, 16 + 256),
        restart_interval: first(Tag::JPEG_RESTART_INTERVAL) as u16,
        subsampling: match uints(Tag::YCBCR_SUBSAMPLING).as_slice() {
            &[h, v] => Some((h as u16, v as u16)),
            _ => None,
        },
        photometric: level.layout.photometric.0,
        ycbcr: ycbcr(fields),
    }
}
