//! What is to be written, decided and checked before the first pixel.

use swath_codec::{Compress, DType, Encoder, Predictor, SampleFormat, Shape, jpeg};
use swath_tiff::nodata::NoData;
use swath_tiff::{BlockGrid, Photometric, Planar, Tag, Value};

use crate::dataset::metadata::fill_bytes;
use crate::read::pixels::kind_of;
use crate::write::error::PlanError;
use crate::write::options::{BlockSize, FileLayout, Overviews, PredictorChoice, Statistics, WriteOptions};
use crate::write::reduce::{Reduction, Resampling};

/// The most that one block may hold decoded. The frame of a COG has 32 bits for its encoded size.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// The most blocks of all levels together: 1.2 GB of table.
const MAX_BLOCKS: u64 = 100_000_000;

/// A file that is to be written: the grid of blocks of every level, the encoder, the tags. Immutable, and the same for whoever makes
/// it from the same numbers, so that bands can be encoded anywhere.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) options: WriteOptions,
    pub(crate) bands: usize,
    pub(crate) dtype: DType,
    pub(crate) bits: u16,
    pub(crate) photometric: Photometric,
    pub(crate) extra_samples: Vec<u16>,
    pub(crate) encoder: Encoder,
    pub(crate) mask_encoder: Encoder,
    pub(crate) levels: Vec<PlannedLevel>,
    pub(crate) nodata: Option<NoData>,
    /// The bytes of a sample that is not stored.
    pub(crate) fill: Vec<u8>,
    /// The band that tells which pixels are there, if the colours do not know of it.
    pub(crate) alpha: Option<usize>,
    /// The largest classic TIFF.
    pub(crate) classic_limit: u64,
}

/// One resolution.
#[derive(Debug, Clone)]
pub(crate) struct PlannedLevel {
    pub(crate) grid: BlockGrid,
    /// The level it is made from; itself for the full resolution.
    pub(crate) parent: usize,
    /// How it is made from that.
    pub(crate) reduction: Option<Reduction>,
}

impl PlannedLevel {
    /// The grid of the mask: always one plane.
    pub(crate) fn mask_grid(&self) -> BlockGrid {
        BlockGrid { planes: 1, ..self.grid }
    }
}

impl Plan {
    /// Plan an image of `width` x `height` pixels.
    ///
    /// # Errors
    /// [`PlanError`] says which wishes cannot be met, or not together.
    pub fn new(
        width: u64,
        height: u64,
        bands: usize,
        dtype: DType,
        options: WriteOptions,
    ) -> std::result::Result<Plan, PlanError> {
        let largest = u64::from(u32::MAX);
        if width == 0 || height == 0 || width > largest || height > largest || bands == 0 || bands > 65535 {
            return Err(PlanError::Size { width, height, bands });
        }
        let format = dtype.format();
        let whole = dtype.size() as u16 * 8;
        let bits = options.bits.unwrap_or(whole);
        if bits != whole && DType::for_stored(format, usize::from(bits)) != Some(dtype) {
            return Err(PlanError::Bits { bits, dtype });
        }
        let planes = if options.planar == Planar::Separate { bands as u64 } else { 1 };
        let base = grid(width, height, planes, &options)?;

        let predictor = match options.predictor {
            PredictorChoice::Always(predictor) => predictor,
            PredictorChoice::Auto => Encoder::best_predictor(&options.compress, format, usize::from(bits)),
        };
        if predictor != Predictor::None && !options.compress.takes_predictor() {
            return Err(PlanError::Predictor { predictor: predictor.tag(), codec: options.compress.name() });
        }
        if predictor != Predictor::None && !matches!(bits, 8 | 16 | 32 | 64) {
            // The format allows it, but libtiff does not read it.
            let what = "samples of this width";
            return Err(PlanError::Codec(swath_codec::Error::Unsuited { codec: "the predictor", what }));
        }
        let (photometric, extra_samples) = meaning(&options, bands, dtype, bits)?;
        let mut options = options;
        if let (Compress::Jpeg { colour, .. }, false) = (&mut options.compress, photometric == Photometric::YCBCR) {
            // Bands that are no colours have no luma and chroma.
            *colour = swath_codec::jpeg::EncodeColour::Stored;
        }
        let encoder = Encoder { compress: options.compress, predictor };
        let mask_compress = match options.compress {
            same @ (Compress::Lzw | Compress::Zstd { .. } | Compress::Deflate { .. }) => same,
            _ => Compress::Deflate { level: 6 },
        };
        let mask_encoder = Encoder { compress: mask_compress, predictor: Predictor::None };

        let nodata = options.about.nodata;
        if let Some(nodata) = nodata.filter(|&nodata| !can_hold(dtype, bits, nodata)) {
            return Err(PlanError::NoData { nodata: nodata.to_string(), dtype });
        }
        // Colours that are premultiplied (1) are nothing where alpha is 0, and count as that.
        let alpha = extra_samples.iter().position(|kind| *kind == 2);
        let alpha = alpha.map(|extra| bands - extra_samples.len() + extra);

        let mut plan = Plan {
            fill: fill_bytes(announced(&options, dtype), dtype),
            bands,
            dtype,
            bits,
            photometric,
            extra_samples,
            encoder,
            mask_encoder,
            levels: vec![PlannedLevel { grid: base, parent: 0, reduction: None }],
            nodata,
            alpha,
            classic_limit: u64::from(u32::MAX),
            options,
        };
        let shape = plan.block_shape(0, base.block_height);
        let bits =
            [shape.width, shape.height, shape.samples, shape.bits].map(|size| size as u128).iter().product::<u128>();
        if bits / 8 > u128::from(MAX_BLOCK_BYTES) {
            let (width, height) = (base.block_width, base.block_height);
            return Err(PlanError::BlockBytes { width, height, limit: MAX_BLOCK_BYTES });
        }
        plan.encoder.check(shape).map_err(PlanError::Codec)?;
        plan.add_overviews()?;
        plan.check_blocks()?;
        Ok(plan)
    }

    /// Width of the full resolution in pixels.
    pub fn width(&self) -> u64 {
        self.levels[0].grid.width
    }

    /// Height of the full resolution in pixels.
    pub fn height(&self) -> u64 {
        self.levels[0].grid.height
    }

    /// Bands.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The grids of blocks, the full resolution first, then the overviews from large to small.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &BlockGrid> {
        self.levels.iter().map(|level| &level.grid)
    }

    /// What the plan was made from.
    pub fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Whether pixels are measured.
    pub(crate) fn measures(&self) -> bool {
        self.options.statistics != Statistics::Off
    }

    /// Whether a mask is written.
    pub fn has_mask(&self) -> bool {
        self.options.mask
    }

    /// Bytes of a row of pixels of a level in memory, all bands of each pixel side by side.
    pub(crate) fn row_bytes(&self, level: usize) -> usize {
        self.levels[level].grid.width as usize * self.bands * self.dtype.size()
    }

    /// Whether each block of the mask stands right behind the block it belongs to.
    pub(crate) fn mask_is_interleaved(&self) -> bool {
        self.options.mask && self.is_cog() && self.options.planar == Planar::Chunky
    }

    /// Whether pixels are stored otherwise than the source gives them.
    pub(crate) fn changes_pixels(&self) -> bool {
        let has_nan = matches!(self.dtype, DType::F16 | DType::F32 | DType::F64);
        self.options.nan_to_nodata && has_nan && self.nodata.is_some_and(|nodata| !nodata.value_f64().is_nan())
    }

    /// The colour that a reader takes a band for, from the tags alone.
    pub(crate) fn color_by_tags(&self, band: usize) -> &'static str {
        let first_extra = self.bands - self.extra_samples.len();
        let alpha = self.extra_samples.iter().position(|kind| matches!(kind, 1 | 2));
        if alpha.is_some_and(|extra| first_extra + extra == band) {
            return "alpha";
        }
        let names: &[&str] = match self.photometric {
            Photometric::RGB | Photometric::YCBCR => &["red", "green", "blue"],
            Photometric::PALETTE => &["palette"],
            Photometric::MIN_IS_BLACK if self.bits == 1 && self.bands == 1 => &["palette"],
            Photometric::MIN_IS_BLACK => &["gray"],
            Photometric::MIN_IS_WHITE if self.bits <= 16 => &["palette"],
            Photometric::SEPARATED => &["cyan", "magenta", "yellow", "black"],
            _ => &[],
        };
        names.get(band).copied().unwrap_or("undefined")
    }

    pub(crate) fn is_cog(&self) -> bool {
        self.options.arrangement == FileLayout::Cog
    }

    /// The tables that all blocks of JPEG share; `None` for other codecs.
    pub(crate) fn jpeg_tables(&self) -> std::result::Result<Option<Vec<u8>>, PlanError> {
        let samples = self.block_shape(0, 1).samples;
        let params = self.encoder.compress.jpeg(samples);
        params.map(|params| jpeg::encode_tables(&params, samples)).transpose().map_err(PlanError::Codec)
    }

    /// The shape of a block of `height` rows as it is handed to the encoder.
    pub(crate) fn block_shape(&self, level: usize, height: u64) -> Shape {
        let grid = &self.levels[level].grid;
        Shape {
            width: grid.block_width as usize,
            height: height as usize,
            samples: if grid.planes > 1 { 1 } else { self.bands },
            bits: usize::from(self.bits),
            format: self.dtype.format(),
        }
    }

    /// The shape of a block of the mask.
    pub(crate) fn mask_shape(&self, level: usize, height: u64) -> Shape {
        Shape { samples: 1, bits: 1, format: SampleFormat::Uint, ..self.block_shape(level, height) }
    }

    fn add_overviews(&mut self) -> std::result::Result<(), PlanError> {
        let base = self.levels[0].grid;
        let factors = match &self.options.overviews {
            Overviews::None => Vec::new(),
            Overviews::Factors(factors) => factors.iter().map(|&factor| u64::from(factor)).collect(),
            Overviews::Auto => {
                // Strips have no size of their own to stop at.
                let (width, height) = if base.tiled { (base.block_width, base.block_height) } else { (512, 512) };
                let larger =
                    |factor: &u64| base.width.div_ceil(*factor) > width || base.height.div_ceil(*factor) > height;
                std::iter::successors(Some(1_u64), |factor| Some(factor * 2))
                    .take_while(larger)
                    .map(|f| f * 2)
                    .collect()
            }
        };
        let mut made: Vec<u64> = vec![1];
        for factor in factors {
            let previous = &self.levels[self.levels.len() - 1].grid;
            let (width, height) = (base.width.div_ceil(factor.max(1)), base.height.div_ceil(factor.max(1)));
            let grows = made.last().is_some_and(|&last| factor <= last);
            // From the smallest level that it can be made from: each level costs a quarter of the one before.
            let parent = (0..made.len()).rev().find(|&level| factor % made[level] == 0).unwrap_or(0);
            let step = factor / made[parent];
            let too_large = step > Reduction::MAX_FACTOR as u64;
            if grows || too_large || (width, height) == (previous.width, previous.height) {
                return Err(PlanError::Overview { factor });
            }
            let (method, dtype, nodata) = (self.resampling()?, self.dtype, self.nodata);
            let reduction = Reduction { method, factor: step as usize, dtype, nodata };
            let grid = grid(width, height, base.planes, &self.options)?;
            self.levels.push(PlannedLevel { grid, parent, reduction: Some(reduction) });
            made.push(factor);
        }
        Ok(())
    }

    /// Refuse what nobody could hold: the table of blocks is kept in memory while a file is written.
    fn check_blocks(&self) -> std::result::Result<(), PlanError> {
        let counts = self.levels.iter().map(|level| level.grid.count().unwrap_or(u64::MAX));
        let blocks = counts.fold(0, u64::saturating_add);
        if blocks > MAX_BLOCKS { Err(PlanError::Blocks { blocks, limit: MAX_BLOCKS }) } else { Ok(()) }
    }

    /// How overviews are made: as asked, else the nearest pixel where a mean of values means nothing.
    fn resampling(&self) -> std::result::Result<Resampling, PlanError> {
        let classes = self.photometric == Photometric::PALETTE
            || self.bits < 8
            || self.options.about.bands.iter().any(|band| !band.categories.is_empty());
        let method = self.options.resampling.unwrap_or(if classes { Resampling::Nearest } else { Resampling::Mean });
        if method.applies_to(self.dtype) {
            Ok(method)
        } else {
            Err(PlanError::Resampling { method: method.name(), dtype: self.dtype })
        }
    }
}

fn grid(width: u64, height: u64, planes: u64, options: &WriteOptions) -> std::result::Result<BlockGrid, PlanError> {
    let (block_width, block_height, tiled) = match options.blocks {
        BlockSize::Tiles { width, height } => {
            let sound = |side: u32| side > 0 && side.is_multiple_of(16);
            if !sound(width) || !sound(height) {
                return Err(PlanError::TileSize { width, height });
            }
            (u64::from(width), u64::from(height), true)
        }
        BlockSize::Strips { .. } if options.arrangement == FileLayout::Cog => return Err(PlanError::StripsInCog),
        BlockSize::Strips { rows: 0 } => return Err(PlanError::StripRows),
        BlockSize::Strips { rows } => (width, u64::from(rows).min(height), false),
    };
    Ok(BlockGrid { width, height, block_width, block_height, planes, tiled })
}

/// The nodata value that the file will announce: readers put it where no block is stored, also where no sample can have it.
fn announced(options: &WriteOptions, dtype: DType) -> Option<NoData> {
    let (kind, bits) = kind_of(dtype);
    let text = options.extra_tags.iter().find_map(|(tag, value)| match value {
        Value::Text(text) if *tag == Tag::GDAL_NODATA => Some(text),
        _ => None,
    });
    let own = || options.about.nodata.map(|nodata| nodata.to_string());
    text.cloned().or_else(own).and_then(|text| NoData::parse(&text, kind, bits))
}

/// Whether samples of a type that are stored in so many bits can have exactly this value.
pub(crate) fn can_hold(dtype: DType, bits: u16, nodata: NoData) -> bool {
    let (kind, _) = kind_of(dtype);
    let value = nodata.value_f64();
    // Rounded, the missing pixels would have another value than the one that is announced.
    let exact = dtype != DType::F16 || value.is_nan() || f64::from(half::f16::from_f64(value)) == value;
    nodata.fits(kind, u32::from(bits)) && exact
}

/// What the samples mean: photometric interpretation and extra samples.
fn meaning(
    options: &WriteOptions,
    bands: usize,
    dtype: DType,
    bits: u16,
) -> std::result::Result<(Photometric, Vec<u16>), PlanError> {
    let block_samples = if options.planar == Planar::Separate { 1 } else { bands };
    let colors: Vec<&str> = options.about.bands.iter().map(|band| band.color).collect();
    // Without a word about its bands, what GDAL takes three or four bytes for.
    let unnamed = colors.iter().all(|color| matches!(*color, "" | "undefined"));
    let rgb = colors.starts_with(&["red", "green", "blue"])
        || (unnamed && dtype == DType::U8 && matches!(bands, 3 | 4) && bits == 8);
    let palette = options.about.palette.is_some() && bands <= 2 && matches!(dtype, DType::U8 | DType::U16);
    let photometric = options.photometric.unwrap_or(match (palette, rgb) {
        (true, _) => Photometric::PALETTE,
        (_, true) if bands >= 3 => Photometric::RGB,
        _ => Photometric::MIN_IS_BLACK,
    });
    let plain = matches!(
        photometric,
        Photometric::MIN_IS_WHITE
            | Photometric::MIN_IS_BLACK
            | Photometric::RGB
            | Photometric::PALETTE
            | Photometric::YCBCR
    );
    let photometric = match (photometric, options.compress.chroma(block_samples)) {
        (Photometric::RGB, Some(_)) => Photometric::YCBCR,
        (Photometric::YCBCR, None) => Photometric::RGB,
        // Codecs for pictures have their own idea of what other samples mean.
        _ if !plain && !options.compress.is_lossless_of_bytes() => Photometric::MIN_IS_BLACK,
        (other, _) => other,
    };
    let own = match photometric {
        Photometric::RGB | Photometric::YCBCR | Photometric::CIELAB | Photometric::ICCLAB | Photometric::ITULAB => 3,
        Photometric::SEPARATED => 4,
        Photometric::LINEAR_RAW | Photometric::CFA => {
            bands - options.extra_samples.as_ref().map_or(0, Vec::len).min(bands - 1)
        }
        _ => 1,
    };
    if bands < own {
        return Err(PlanError::Photometric { photometric: photometric.name(), bands });
    }
    let extras = match &options.extra_samples {
        Some(extras) if extras.len() == bands - own => extras.clone(),
        _ => (own..bands)
            .map(|band| match colors.get(band) {
                Some(&"alpha") => 2,
                _ if unnamed && photometric == Photometric::RGB && bands == 4 && colors.is_empty() => 2,
                _ => 0,
            })
            .collect(),
    };
    Ok((photometric, extras))
}
