//! Reads a file of several compressed tiles with the kernels of a GPU, which run on PoCL, and on the CPU. Both must give the
//! same pixels and report the same tiles as damaged, and a damaged tile must not change its neighbours.

use std::sync::OnceLock;

use swath::device::Gpu;
use swath::read::OnCorrupt;
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{Dataset, Image, ReadRequest};
use swath_codec::{deflate, lzw, packbits, zstd};
use swath_gpu::OpenCl;

const CODECS: [Compression; 4] = [Compression::DEFLATE, Compression::ZSTD, Compression::LZW, Compression::PACKBITS];
const SIDES: [usize; 3] = [16, 32, 64];
/// The number of tiles that one input can describe: those of a work group and some of the next.
const MOST_TILES: usize = 12;

/// The first three bytes select the codec, the shape of the tiles and their number; the rest is divided among the tiles.
pub fn run(data: &[u8]) {
    let Some((&[codec, shape, tiles], rest)) = data.split_first_chunk() else { return };
    let Some(gpu) = gpu() else { return };
    let file = File {
        compression: CODECS[usize::from(codec) % CODECS.len()],
        side: SIDES[usize::from(shape) % SIDES.len()],
        bands: 1 + usize::from(shape >> 2) % 3,
        bytes_per_sample: 1 + usize::from(shape >> 4) % 2,
        predictor: 1 + u16::from(shape & 0x80 != 0),
        order: if shape & 0x40 == 0 { ByteOrder::Little } else { ByteOrder::Big },
    };
    let tiles = 1 + usize::from(tiles) % MOST_TILES;
    let streams: Vec<Vec<u8>> =
        rest.chunks(rest.len().div_ceil(tiles).max(1)).map(|piece| file.stream(piece)).collect();
    if streams.is_empty() {
        return;
    }
    let Ok(image) = Dataset::from_bytes(file.build(&streams)).and_then(|dataset| dataset.image(0)) else { return };
    let whole = ReadRequest::new().on_corrupt(OnCorrupt::Fill).threads(1);
    let top = whole.clone().window(0..file.side as u64 / 4, 0..(file.side * streams.len()) as u64);
    for request in [whole, top] {
        let (expected, found) = (outcome(&image, &request), outcome(&image, &request.device(gpu)));
        assert_eq!(found.1, expected.1, "other tiles are damaged than on the CPU");
        assert!(found.0 == expected.0, "other pixels than on the CPU");
    }
}

/// Opens PoCL once; `None` if it is not installed.
fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| OpenCl::choose(Some("pocl")).ok().map(Gpu::new)).as_ref()
}

/// The pixels, and the tiles that could not be decoded. `None` if the read fails.
fn outcome(image: &Image, request: &ReadRequest<'_>) -> (Option<Vec<u8>>, Vec<String>) {
    let Ok(raster) = image.read(request) else { return (None, Vec::new()) };
    let mut filled: Vec<String> = raster.report.filled.iter().map(|(block, _)| block.to_string()).collect();
    filled.sort();
    (Some(raster.pixels.as_bytes().to_vec()), filled)
}

/// The tiles of a file. They lie side by side.
struct File {
    compression: Compression,
    side: usize,
    bands: usize,
    bytes_per_sample: usize,
    predictor: u16,
    order: ByteOrder,
}

impl File {
    /// The first byte of a piece says what the rest is: a stream, or data to be compressed into a stream, which is then
    /// damaged or not.
    fn stream(&self, piece: &[u8]) -> Vec<u8> {
        let Some((&[kind, at, flip], rest)) = piece.split_first_chunk() else { return piece.to_vec() };
        if kind & 1 == 0 {
            // Add a valid header, which mutations would rarely leave intact.
            let header: &[u8] = match self.compression {
                Compression::DEFLATE => &[0x78, 0x9C],
                Compression::ZSTD => &[0x28, 0xB5, 0x2F, 0xFD],
                _ => &[],
            };
            return [header, rest].concat();
        }
        let row = self.side * self.bands * self.bytes_per_sample;
        let block: Vec<u8> =
            rest.iter().copied().cycle().take(if rest.is_empty() { 0 } else { row * self.side }).collect();
        let mut stream = self.compress(&block, row, i32::from(kind >> 1));
        let at = usize::from(at) * stream.len() / 256;
        if let Some(byte) = stream.get_mut(at) {
            *byte ^= flip;
        }
        if kind & 2 != 0 {
            stream.truncate(stream.len() - usize::from(flip) % (stream.len() + 1));
        }
        stream
    }

    fn compress(&self, block: &[u8], row: usize, level: i32) -> Vec<u8> {
        let mut out = Vec::new();
        match self.compression {
            Compression::LZW => lzw::encode(block, &mut out),
            Compression::PACKBITS => packbits::encode(block, row, &mut out),
            Compression::ZSTD => {
                if let Ok(mut encoder) = zstd::Encoder::new(1 + level % 19) {
                    let _ = encoder.encode(block, &mut out);
                }
            }
            _ => {
                if let Ok(mut encoder) = deflate::Encoder::new(1 + level % 12) {
                    encoder.encode(block, &mut out);
                }
            }
        }
        out
    }

    fn build(&self, streams: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = Builder::new(self.order, false);
        let spans: Vec<_> = streams.iter().map(|stream| builder.append(stream)).collect();
        let offsets: Vec<u64> = spans.iter().map(|span| span.offset).collect();
        let counts: Vec<u64> = spans.iter().map(|span| span.len).collect();
        let short = |value: usize| Value::Short(vec![value as u16]);
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, short(self.side * streams.len())),
            (Tag::IMAGE_LENGTH, short(self.side)),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![8 * self.bytes_per_sample as u16; self.bands])),
            (Tag::COMPRESSION, short(self.compression.0.into())),
            (Tag::PHOTOMETRIC, short(1)),
            (Tag::SAMPLES_PER_PIXEL, short(self.bands)),
            (Tag::PREDICTOR, Value::Short(vec![self.predictor])),
            (Tag::TILE_WIDTH, short(self.side)),
            (Tag::TILE_LENGTH, short(self.side)),
            (Tag::TILE_OFFSETS, Value::offsets(&offsets)),
            (Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)),
        ]);
        builder.finish()
    }
}
