//! Encodes a block of any samples and decodes it again.

use swath_codec::deflate_encode::LongMatchEncoder;
use swath_codec::{
    Codec, CodecInfo, CodecOptions, Compress, Decoder, EncodeScratch, Encoder, Extent, Predictor, SampleFormat,
    Scratch, jpeg, jpeg2000,
};
use swath_codec::{deflate, lerc};

use crate::block::{Block, PREFIX};

/// The largest block; the slow encoders need a millisecond for it.
const MAX_BYTES: usize = 1 << 15;

/// The input is a prefix of six bytes, which selects the codec and the shape, and samples, which are repeated.
pub fn run(data: &[u8]) {
    let Some((prefix, samples)) = data.split_first_chunk::<PREFIX>() else { return };
    let block = Block::new(prefix);
    let shape = block.shape;
    let names: Vec<&str> = Compress::names().collect();
    let Some(compress) = compress(names[block.codec % names.len()], block.option) else { return };
    if shape.len() > MAX_BYTES || samples.is_empty() {
        return;
    }
    let original: Vec<u8> = samples.iter().copied().cycle().take(shape.len()).collect();
    // A write plan allows a predictor only with these codecs, so the encoders of others ignore it.
    let predictor = if compress.takes_predictor() { block.predictor } else { Predictor::None };
    if matches!(compress, Compress::Deflate { .. }) {
        long_matches(&original);
    }
    let encoder = Encoder { compress, predictor };
    let mut scratch = EncodeScratch::default();
    let mut stored = vec![7];
    if encoder.encode(&mut original.clone(), shape, &mut stored, &mut scratch).is_err() {
        return assert_eq!(stored, [7], "the output changed although encoding failed");
    }
    let mut again = vec![7];
    let second = encoder.encode(&mut original.clone(), shape, &mut again, &mut scratch);
    assert!(second.is_ok() && stored == again, "encoding twice gives different bytes");
    let decoder = Decoder {
        codec: codec(compress, shape.samples),
        name: compress.name(),
        predictor,
        big_endian: false,
        lsb_first: false,
        subsampling: (1, 1),
        max_memory: u64::MAX,
    };
    let mut out = Vec::new();
    let decoded = decoder.decode(&mut stored[1..], shape, Extent::Whole, &mut out, &mut Scratch::default());
    let decoded = decoded.unwrap_or_else(|error| panic!("{compress:?} {shape:?}: {error}"));
    if is_exact(compress, shape.format) {
        assert!(decoded == original, "{compress:?} {shape:?}: the samples changed");
    }
}

/// Encodes samples with the encoder that Deflate only chooses for larger blocks.
fn long_matches(samples: &[u8]) {
    let mut stream = Vec::new();
    LongMatchEncoder::new().encode(samples, &mut stream);
    let mut out = vec![0; samples.len()];
    assert_eq!(deflate::Decoder::new().decode(&stream, &mut out), Ok(samples.len()));
    assert!(out == samples, "the encoder for long matches changed the samples");
}

/// Returns a codec with settings. Levels are low, because high ones are slow and differ only in how hard they
/// search.
fn compress(name: &str, option: u8) -> Option<Compress> {
    let info = CodecInfo::from_name(name)?;
    let mut options = CodecOptions::default();
    if let Some(levels) = info.level {
        options.compression_level = Some((levels.min + i32::from(option % 4)).min(levels.max));
    }
    if option & 128 != 0 {
        options.quality = Some(f32::from(1 + option % 100));
    }
    Compress::with_options(name, options).or_else(|_| name.parse()).ok()
}

fn codec(compress: Compress, samples: usize) -> Codec {
    match compress {
        Compress::Lzw => Codec::Lzw,
        Compress::Deflate { .. } => Codec::Deflate,
        Compress::Zstd { .. } => Codec::Zstd,
        Compress::PackBits => Codec::PackBits,
        Compress::Lz4 => Codec::Lz4,
        Compress::Lzma { .. } => Codec::Lzma,
        Compress::Lerc { wrapped, .. } => Codec::Lerc(lerc::Params { version: lerc::VERSION, compression: wrapped }),
        Compress::Jpeg { .. } => {
            let photometric = match (compress.chroma(samples), samples) {
                (Some(_), _) => 6,
                (None, 3) => 2,
                (None, _) => 1,
            };
            // Blocks lack the tables, which a file stores once.
            let tables = compress.jpeg(samples).and_then(|params| jpeg::encode_tables(&params, samples).ok());
            Codec::Jpeg { tables, photometric }
        }
        Compress::Jpeg2000(_) => Codec::Jpeg2000(jpeg2000::Colour::Stored),
        Compress::WebP { .. } => Codec::WebP,
        _ => Codec::None,
    }
}

/// Whether decoding returns the bits that were encoded.
fn is_exact(compress: Compress, format: SampleFormat) -> bool {
    match compress {
        // LERC keeps values, not the bits of NaN and of negative zero.
        Compress::Lerc { max_z_error, .. } => {
            max_z_error == 0.0 && matches!(format, SampleFormat::Uint | SampleFormat::Int)
        }
        Compress::Jpeg { .. } => false,
        Compress::Jpeg2000(quality) => quality == jpeg2000::Quality::Lossless,
        Compress::WebP { quality } => quality.is_none(),
        _ => true,
    }
}
