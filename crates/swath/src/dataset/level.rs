//! One resolution of an image: the position of its blocks and how to decode them.

use std::sync::Arc;

use swath_codec::{Codec, DType, Decoder, SampleFormat, Shape};
use swath_io::{Source, Span};
use swath_tiff::{BlockGrid, Compression, Ifd, ImageLayout, Limits};

use crate::error::{Error, Result};
use crate::read::cache;
use crate::read::color::{Conversion, subsampling};
use crate::read::decoder;
use crate::read::gpu::DirectFile;
use crate::read::plan::BlockCoord;

/// Size of the pieces in which a large uncompressed strip is read, in bytes.
const PIECE_BYTES: u64 = 512 << 10;

/// What a directory of the file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LevelRole {
    /// A resolution of the image; number 0 is the full resolution.
    Image { number: usize },
    /// The mask of a resolution.
    Mask,
}

/// One resolution of an image, or of its mask.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// A unique number, which identifies this level in the cache of decoded blocks.
    pub(crate) id: u64,
    pub(crate) source: Arc<dyn Source>,
    /// The name of the file, for messages.
    pub(crate) file: String,
    pub(crate) ifd: Ifd,
    pub(crate) layout: ImageLayout,
    pub(crate) blocks: Blocks,
    pub(crate) dtype: DType,
    /// 0 for the full resolution.
    pub(crate) number: usize,
    pub(crate) is_mask: bool,
    /// The colour conversion that reads apply, if any.
    pub(crate) conversion: Option<Conversion>,
    /// The number of pixels that share one chroma sample, across and down.
    pub(crate) subsampling: (usize, usize),
    /// Whether to decode the validity masks of the LERC blobs instead of their pixels.
    lerc_mask: bool,
    /// The bytes of one sample (nodata or zeros) that fills blocks which are not stored.
    pub(crate) fill: Vec<u8>,
    /// The file handle for direct reads by a device.
    pub(crate) direct_file: DirectFile,
}

impl Level {
    /// Reads the layout of a level from its directory. Blocks that are not stored read as zeros until the
    /// caller sets another value with [`filled_with`](Level::filled_with).
    pub(crate) fn new(source: Arc<dyn Source>, ifd: Ifd, role: LevelRole, limits: &Limits) -> Result<Level> {
        let file = source.name();
        let layout = ImageLayout::read(&ifd, source.as_ref(), limits)
            .map_err(|cause| Error::Container { file: file.clone(), cause })?;
        let dtype = decoder::dtype(&layout).ok_or_else(|| Error::SampleType {
            file: file.clone(),
            format: layout.sample_format,
            bits: layout.bits,
        })?;
        let fields = ifd.fields(source.as_ref(), limits);
        let conversion = Conversion::of(&layout, &fields);
        let subsampling = subsampling(&layout, &fields);
        let blocks = Blocks::new(&layout, subsampling);
        let fill = vec![0; dtype.size()];
        let (number, is_mask) = match role {
            LevelRole::Image { number } => (number, false),
            LevelRole::Mask => (0, true),
        };
        Ok(Level {
            id: cache::new_id(),
            source,
            file,
            ifd,
            layout,
            blocks,
            dtype,
            number,
            is_mask,
            conversion,
            subsampling,
            lerc_mask: false,
            fill,
            direct_file: DirectFile::default(),
        })
    }

    /// Returns the same level with another fill sample for blocks that are not stored.
    pub(crate) fn filled_with(self, fill: Vec<u8>) -> Level {
        Level { fill, ..self }
    }

    /// The number of bands that a read returns.
    pub(crate) fn bands(&self) -> usize {
        self.conversion.as_ref().map_or(usize::from(self.layout.samples), Conversion::bands)
    }

    /// Returns a level that reads the validity masks of this level's LERC blobs. A block that is not stored
    /// gives zeros, which mean "valid".
    pub(crate) fn lerc_mask(&self) -> Level {
        Level {
            id: cache::new_id(),
            blocks: Blocks { grid: self.blocks.grid, pieces: None },
            dtype: DType::U8,
            is_mask: true,
            conversion: None,
            lerc_mask: true,
            fill: vec![255],
            ..self.clone()
        }
    }

    /// The shape of `height` rows of a block as the decoder returns them.
    pub(crate) fn shape(&self, height: usize) -> Shape {
        let pixels = self.pixel_shape(height);
        if self.lerc_mask { Shape { samples: 1, bits: 8, format: SampleFormat::Uint, ..pixels } } else { pixels }
    }

    /// The shape of `height` rows of pixels.
    fn pixel_shape(&self, height: usize) -> Shape {
        Shape {
            width: self.blocks.grid.block_width as usize,
            height,
            samples: usize::from(self.layout.block_samples()),
            bits: decoder::decoded_bits(&self.layout),
            format: self.layout.format(),
        }
    }

    /// The number of bytes of a whole decoded block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.shape(self.blocks.grid.block_height as usize).len() as u64
    }

    /// The number of bytes of a whole block according to the tags. For a mask inside LERC blobs, this is not
    /// the decoded size.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let BlockGrid { block_width, block_height, .. } = self.layout.grid;
        let bits = block_width * u64::from(self.layout.block_samples()) * u64::from(self.layout.bits);
        bits.div_ceil(8).saturating_mul(block_height)
    }

    /// Creates the decoder of this level's blocks.
    pub(crate) fn decoder(&self, limits: &Limits) -> Result<Decoder> {
        let mut decoder = decoder::build(self, limits)?;
        if let (Codec::Lerc(params), true) = (&decoder.codec, self.lerc_mask) {
            decoder.codec = Codec::LercMask(*params, self.pixel_shape(0));
        }
        Ok(decoder)
    }

    pub(crate) fn container_error(&self, source: swath_tiff::Error) -> Error {
        Error::Container { file: self.file.clone(), cause: source }
    }
}

/// The blocks as a read sees them. They are the stored blocks, with one exception: a single large
/// uncompressed strip is read in pieces, which avoids a second copy in memory and allows several threads.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    pub(crate) grid: BlockGrid,
    /// Bytes of a row, if a strip is read in pieces.
    pieces: Option<u64>,
}

impl Blocks {
    fn new(layout: &ImageLayout, subsampling: (usize, usize)) -> Blocks {
        let grid = layout.grid;
        let row_bytes = (grid.width * u64::from(layout.block_samples()) * u64::from(layout.bits)).div_ceil(8);
        let rows = (PIECE_BYTES / row_bytes.max(1)).max(1);
        let one_strip = !grid.tiled && grid.down() == 1 && subsampling == (1, 1);
        if one_strip && layout.compression == Compression::NONE && rows < grid.block_height {
            return Blocks { grid: BlockGrid { block_height: rows, ..grid }, pieces: Some(row_bytes) };
        }
        Blocks { grid, pieces: None }
    }

    /// Returns the stored block row that contains block row `row`.
    pub(crate) fn stored_row(&self, row: u64) -> u64 {
        if self.pieces.is_some() { 0 } else { row }
    }

    /// Finds the byte ranges of the blocks at `places`. Neighbours in the table are looked up together.
    pub(crate) fn spans(&self, level: &Level, places: &[BlockCoord], spans: &mut Vec<Span>) -> swath_tiff::Result<()> {
        let table = &level.layout.table;
        let index = |at: &BlockCoord| level.layout.grid.index(at.plane, self.stored_row(at.row), at.col);
        for run in places.chunk_by(|a, b| index(b) == index(a) + 1) {
            table.spans(level.source.as_ref(), index(&run[0]), run.len() as u64, spans)?;
        }
        if level.layout.grid.count() == Some(1) {
            // A single block with an offset but no size: some writers do not fill in the byte count.
            spans.iter_mut().filter(|span| span.offset != 0 && span.len == 0).for_each(|span| span.len = u64::MAX);
        }
        if let Some(row_bytes) = self.pieces {
            for (span, place) in spans.iter_mut().zip(places).filter(|(span, _)| !span.is_sparse()) {
                span.offset = span.offset.saturating_add(place.row * self.grid.block_height * row_bytes);
            }
        }
        Ok(())
    }
}
