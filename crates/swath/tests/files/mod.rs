//! Small files in memory with known pixels.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath_codec::predictor::{self, Predictor};
use swath_codec::{SampleFormat, Shape, deflate, lzw, packbits, zstd};

/// How a test file is laid out.
#[derive(Clone)]
pub struct Plan {
    pub width: usize,
    pub height: usize,
    pub bands: usize,
    /// Tile width and height; a tile of width `usize::MAX` is a strip.
    pub tile: (usize, usize),
    pub planar: bool,
    pub compression: Compression,
    pub predictor: Predictor,
    pub order: ByteOrder,
    pub big: bool,
    /// Table indices of the blocks that are not stored.
    pub sparse: Vec<usize>,
    pub extra: Vec<(Tag, Value)>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            width: 50,
            height: 40,
            bands: 1,
            tile: (16, 16),
            planar: false,
            compression: Compression::DEFLATE,
            predictor: Predictor::Horizontal,
            order: ByteOrder::Little,
            big: false,
            sparse: Vec::new(),
            extra: Vec::new(),
        }
    }
}

/// The value of a pixel: different everywhere, so that a misplaced pixel is detected.
pub fn sample(row: usize, col: usize, band: usize) -> u16 {
    (row * 251 + col * 7 + band * 10_007) as u16
}

impl Plan {
    pub fn strips(mut self, rows: usize) -> Plan {
        self.tile = (usize::MAX, rows);
        self
    }

    fn blocks(&self) -> Vec<Vec<u8>> {
        let strips = self.tile.0 == usize::MAX;
        let (tile_width, tile_height) = (self.tile.0.min(if strips { self.width } else { usize::MAX }), self.tile.1);
        let samples = if self.planar { 1 } else { self.bands };
        let mut blocks = Vec::new();
        for plane in 0..if self.planar { self.bands } else { 1 } {
            for top in (0..self.height).step_by(tile_height) {
                for left in (0..self.width).step_by(tile_width) {
                    let height = if strips { tile_height.min(self.height - top) } else { tile_height };
                    let shape = Shape { width: tile_width, height, samples, bits: 16, format: SampleFormat::Uint };
                    let mut block = Vec::with_capacity(shape.len());
                    for row in top..top + height {
                        for col in left..left + tile_width {
                            for band in 0..samples {
                                let inside = row < self.height && col < self.width;
                                let value = if inside { sample(row, col, plane + band) } else { 0xdead };
                                block.extend(value.to_ne_bytes());
                            }
                        }
                    }
                    blocks.push(self.encode(shape, block));
                }
            }
        }
        blocks
    }

    fn encode(&self, shape: Shape, mut block: Vec<u8>) -> Vec<u8> {
        let predictor = if self.compression == Compression::NONE { Predictor::None } else { self.predictor };
        predictor::apply(predictor, shape, self.order == ByteOrder::Big, &mut block, &mut Vec::new()).unwrap();
        let mut out = Vec::new();
        match self.compression {
            Compression::LZW => lzw::encode(&block, &mut out),
            Compression::DEFLATE => deflate::Encoder::new(6).unwrap().encode(&block, &mut out),
            Compression::ZSTD => zstd::Encoder::new(3).unwrap().encode(&block, &mut out).unwrap(),
            Compression::PACKBITS => packbits::encode(&block, shape.row_bytes(), &mut out),
            _ => out = block,
        }
        out
    }

    /// The bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        self.build_with(|_, _| {})
    }

    /// Builds the file. `damage(number, bytes)` may modify each block first.
    pub fn build_with(&self, damage: impl Fn(usize, &mut Vec<u8>)) -> Vec<u8> {
        let mut builder = Builder::new(self.order, self.big);
        let (mut offsets, mut counts) = (Vec::new(), Vec::new());
        for (number, mut block) in self.blocks().into_iter().enumerate() {
            damage(number, &mut block);
            let sparse = self.sparse.contains(&number);
            let span = if sparse { Default::default() } else { builder.append(&block) };
            offsets.push(span.offset);
            counts.push(span.len);
        }
        let mut tags = vec![
            (Tag::IMAGE_WIDTH, Value::Long(vec![self.width as u32])),
            (Tag::IMAGE_LENGTH, Value::Long(vec![self.height as u32])),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![16; self.bands])),
            (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![self.bands as u16])),
            (Tag::COMPRESSION, Value::Short(vec![self.compression.0])),
            (Tag::PREDICTOR, Value::Short(vec![self.predictor.tag()])),
            (Tag::PHOTOMETRIC, Value::Short(vec![1])),
            (Tag::PLANAR_CONFIGURATION, Value::Short(vec![if self.planar { 2 } else { 1 }])),
        ];
        if self.tile.0 == usize::MAX {
            tags.push((Tag::ROWS_PER_STRIP, Value::Long(vec![self.tile.1 as u32])));
            tags.push((Tag::STRIP_OFFSETS, Value::offsets(&offsets)));
            tags.push((Tag::STRIP_BYTE_COUNTS, Value::offsets(&counts)));
        } else {
            tags.push((Tag::TILE_WIDTH, Value::Long(vec![self.tile.0 as u32])));
            tags.push((Tag::TILE_LENGTH, Value::Long(vec![self.tile.1 as u32])));
            tags.push((Tag::TILE_OFFSETS, Value::offsets(&offsets)));
            tags.push((Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)));
        }
        tags.retain(|(tag, _)| !self.extra.iter().any(|(other, _)| tag == other));
        tags.extend(self.extra.iter().cloned());
        builder.ifd(&tags);
        builder.finish()
    }
}
