//! Decodes any bytes with any codec into a block of any shape.

use swath_codec::ccitt::{self, Scheme};
use swath_codec::lerc::{self, LercCompression};
use swath_codec::{Codec, Decoder, Extent, OldJpeg, Predictor, RowAccess, Scratch, Shape, jpeg2000, sgilog};

use crate::block::{Block, PREFIX};

/// The input is a prefix of six bytes, which selects the codec and the shape, and the stored block.
///
/// Decoding again with the same scratch memory must give the same bytes, and decoding only the first rows the
/// same rows.
pub fn run(data: &[u8]) {
    let Some((prefix, rest)) = data.split_first_chunk::<PREFIX>() else { return };
    let block = Block::new(prefix);
    let shape = block.shape;
    let Some((codec, stream)) = codec(&block, rest) else { return };
    let plain = block.subsampled || block.predictor == Predictor::None;
    let decoder = Decoder {
        codec,
        name: "the codec",
        predictor: if plain { Predictor::None } else { block.predictor },
        big_endian: block.big_endian,
        lsb_first: block.lsb_first,
        subsampling: if block.subsampled { (2, 2) } else { (1, 1) },
        max_memory: 1 << 30,
    };
    let mut scratch = Scratch::default();
    let mut decode = |shape: Shape, extent: Extent| {
        let mut stored = stream.to_vec();
        let mut out = Vec::new();
        decoder.decode(&mut stored, shape, extent, &mut out, &mut scratch).map(<[u8]>::to_vec)
    };
    let whole = decode(shape, Extent::Whole);
    if let Ok(bytes) = &whole {
        assert_eq!(bytes.len(), shape.len());
    }
    let again = decode(shape, Extent::Whole);
    assert!(whole.as_ref().ok() == again.as_ref().ok(), "decoding twice gives different bytes");
    if decoder.row_access() != RowAccess::All {
        let top = Shape { height: shape.height.div_ceil(2), ..shape };
        match (&whole, decode(top, Extent::Top)) {
            (Ok(whole), Ok(top)) => assert!(whole.starts_with(&top), "the first rows differ"),
            (Ok(_), Err(error)) => panic!("a valid block whose first rows cannot be decoded: {error}"),
            (Err(_), _) => {}
        }
    }
}

/// Returns the codec and the part of the input that is the stored block. `None` if the codec does not occur with
/// this shape.
fn codec<'a>(block: &Block, rest: &'a [u8]) -> Option<(Codec, &'a [u8])> {
    let option = block.option;
    let lerc = || lerc::Params {
        version: lerc::VERSION,
        compression: [LercCompression::None, LercCompression::Deflate, LercCompression::Zstd][usize::from(option % 3)],
    };
    let codec = match block.codec % 18 {
        0 => Codec::None,
        1 => Codec::Lzw,
        2 => Codec::Deflate,
        3 => Codec::PackBits,
        4 => Codec::Zstd,
        5 => Codec::Lz4,
        6 => Codec::Lzma,
        7 => Codec::Ccitt(ccitt::Params {
            scheme: match option % 5 {
                0 => Scheme::Rle,
                1 => Scheme::RleWord,
                2 => Scheme::Group4,
                kind => Scheme::Group3 { two_dimensional: kind == 3 },
            },
            lsb_first: block.lsb_first,
            uncompressed: option & 128 != 0,
        }),
        8 => Codec::Next,
        9 => Codec::ThunderScan,
        10 => Codec::Lerc(lerc()),
        11 => {
            // The mask has one byte per pixel, whatever the samples are.
            let samples = Block::new(&[0, 0, 0, 0, option, option >> 3]).shape;
            let samples = Shape { width: block.shape.width, height: block.shape.height, ..samples };
            if block.shape.bits != 8 || block.shape.samples != 1 {
                return None;
            }
            Codec::LercMask(lerc(), samples)
        }
        12 => Codec::SgiLog(
            [sgilog::PixelEncoding::LogL16, sgilog::PixelEncoding::LogLuv32, sgilog::PixelEncoding::LogLuv24]
                [usize::from(option % 3)],
        ),
        13 => return Some(jpeg(option, rest)),
        14 => return Some(old_jpeg(option, rest)),
        15 => Codec::Jpeg2000(if option & 1 == 0 { jpeg2000::Colour::Stored } else { jpeg2000::Colour::Ycc }),
        16 => Codec::WebP,
        _ => Codec::JpegXl,
    };
    Some((codec, rest))
}

const PHOTOMETRICS: [u16; 4] = [1, 2, 5, 6];

/// A quarter of the options has a JPEGTables tag, which is a part of the input.
fn jpeg(option: u8, rest: &[u8]) -> (Codec, &[u8]) {
    let photometric = PHOTOMETRICS[usize::from(option & 3)];
    let (tables, stream) = rest.split_at(if option & 12 == 12 { rest.len() / 2 } else { 0 });
    (Codec::Jpeg { tables: (!tables.is_empty()).then(|| tables.to_vec()), photometric }, stream)
}

/// Takes the tables of an old-style JPEG from the input, in the sizes that tables usually have.
fn old_jpeg(option: u8, rest: &[u8]) -> (Codec, &[u8]) {
    let mut old = OldJpeg { photometric: PHOTOMETRICS[usize::from(option & 3)], ..OldJpeg::default() };
    old.several_blocks = option & 32 != 0;
    old.restart_interval = u16::from(option >> 6);
    old.subsampling = (option & 16 != 0).then_some((2, 2));
    if option & 4 != 0 {
        let (interchange, stream) = rest.split_at(rest.len() / 2);
        old.interchange = Some(interchange.to_vec());
        return (Codec::OldJpeg(Box::new(old)), stream);
    }
    let (quant, rest) = rest.split_at(64.min(rest.len()));
    let (dc, rest) = rest.split_at(28.min(rest.len()));
    let (ac, stream) = rest.split_at(178.min(rest.len()));
    old.quant_tables = vec![quant.to_vec()];
    old.dc_tables = vec![dc.to_vec()];
    old.ac_tables = vec![ac.to_vec()];
    (Codec::OldJpeg(Box::new(old)), stream)
}
