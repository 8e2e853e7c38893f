//! The plan of a file: everything that is decided and checked before the first pixel.

use swath_codec::{Compress, DType, Encoder, Predictor, SampleFormat, Shape, jpeg};
use swath_tiff::nodata::NoData;
use swath_tiff::{BlockGrid, Photometric, Planar, Tag, Value};

use crate::dataset::metadata::fill_bytes;
use crate::read::pixels::kind_of;
use crate::write::error::PlanError;
use crate::write::options::{BlockSize, FileLayout, Overviews, PredictorChoice, Statistics, WriteOptions};
use crate::write::reduce::{Reduction, Resampling};

/// The most decoded bytes of a block. The leader of a block in a COG has 32 bits for its encoded size.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// The most blocks of all levels together: their table takes 1.2 GB.
const MAX_BLOCKS: u64 = 100_000_000;

/// The size of an image and the type of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageShape {
    /// Height in pixels.
    pub height: u64,
    /// Width in pixels.
    pub width: u64,
    /// The number of bands.
    pub bands: usize,
    /// The type of the samples.
    pub dtype: DType,
}

impl ImageShape {
    /// An image of `height` x `width` pixels.
    pub fn new(height: u64, width: u64, bands: usize, dtype: DType) -> ImageShape {
        ImageShape { height, width, bands, dtype }
    }
}

impl std::fmt::Display for ImageShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ImageShape { height, width, bands, dtype } = self;
        write!(f, "{width} x {height} pixels of {bands} bands of {dtype}")
    }
}

/// Everything about a file that is decided before its first row arrives: the block grid of every level, the
/// codec, the predictor and the tags. A plan is immutable, and equal inputs make equal plans, so rows can be
/// encoded in any process.
///
/// A plan can be sent to another process: it implements `serde::Serialize` and `serde::Deserialize`. Loading
/// checks a plan like a new one, and a loaded plan writes the same bytes as the stored one.
///
/// A Cloud Optimized GeoTIFF with a coordinate reference system and a transform:
///
/// ```
/// use swath::tiff::geo::{GeoKeys, GeoTransform, RasterType};
/// use swath::tiff::nodata::NoData;
/// use swath::{ArraySource, Dataset, Layout, RowSource, WriteConfig, WriteOptions, WritePlan};
///
/// let (height, width) = (600, 800);
/// let elevations: Vec<f32> = (0..height * width).map(|i| (i % 97) as f32).collect();
///
/// let options = WriteOptions::new()
///     .cog()
///     .geo_keys(GeoKeys::from_epsg(32633, RasterType::Area)?)
///     .transform(GeoTransform([500_000.0, 30.0, 0.0, 5_200_000.0, 0.0, -30.0]))
///     .nodata(NoData::Float(-9999.0));
/// let mut source = ArraySource::new(&elevations, 1, height, width, Layout::BandsFirst)?;
/// let plan = WritePlan::new(source.shape(), options)?;
///
/// let path = std::env::temp_dir().join(format!("swath-example-{}.tif", std::process::id()));
/// plan.write_file(&path, &mut source, &WriteConfig::new().overwrite(true))?;
///
/// let image = Dataset::open(&path)?.image(0)?;
/// assert_eq!(image.metadata().epsg(), Some(32633));
/// assert_eq!(image.levels().len(), 2);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// The options with all choices made: no `Auto` and no default is left.
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
    /// The bytes of one sample that readers use for blocks which are not stored.
    pub(crate) fill: Vec<u8>,
    /// The band that says which pixels are valid, if the colours are not premultiplied by it.
    pub(crate) alpha: Option<usize>,
    /// The size limit of a classic TIFF.
    pub(crate) classic_limit: u64,
}

/// One resolution.
#[derive(Debug, Clone)]
pub(crate) struct PlannedLevel {
    pub(crate) grid: BlockGrid,
    /// The level from which it is computed; for the full resolution, its own number.
    pub(crate) parent: usize,
    /// How it is computed from that level.
    pub(crate) reduction: Option<Reduction>,
}

impl PlannedLevel {
    /// The grid of the mask: always one plane.
    pub(crate) fn mask_grid(&self) -> BlockGrid {
        BlockGrid { planes: 1, ..self.grid }
    }
}

impl WritePlan {
    /// Plans a file for an image of this shape.
    ///
    /// # Errors
    /// [`PlanError`] names the option that is not supported, or the options that contradict each other.
    pub fn new(shape: ImageShape, mut options: WriteOptions) -> std::result::Result<WritePlan, PlanError> {
        let ImageShape { height, width, bands, dtype } = shape;
        let largest = u64::from(u32::MAX);
        if width == 0 || height == 0 || width > largest || height > largest || bands == 0 || bands > 65535 {
            return Err(PlanError::Size { width, height, bands });
        }
        let bits = choose_bits(dtype, options.bits)?;
        let planes = if options.planar == Planar::Separate { bands as u64 } else { 1 };
        let base = grid(width, height, planes, &options)?;
        let predictor = choose_predictor(&options, dtype, bits)?;
        let (photometric, extra_samples) = choose_photometric(&options, bands, dtype, bits)?;
        if let (Compress::Jpeg { colour, .. }, false) = (&mut options.compress, photometric == Photometric::YCBCR) {
            // Bands that are not colours have no luma and chroma.
            *colour = swath_codec::jpeg::EncodeColour::Stored;
        }
        let nodata = options.metadata.nodata;
        if let Some(nodata) = nodata.filter(|&nodata| !can_hold(dtype, bits, nodata)) {
            return Err(PlanError::NoData { nodata: nodata.to_string(), dtype });
        }
        // Premultiplied colours (1) are 0 where alpha is 0, and count as valid zeros.
        let alpha = extra_samples.iter().position(|kind| *kind == 2);
        let alpha = alpha.map(|extra| bands - extra_samples.len() + extra);
        let mut plan = WritePlan {
            fill: fill_bytes(announced(&options, dtype), dtype),
            bands,
            dtype,
            bits,
            photometric,
            extra_samples,
            encoder: Encoder { compress: options.compress, predictor },
            mask_encoder: mask_encoder(&options.compress),
            levels: vec![PlannedLevel { grid: base, parent: 0, reduction: None }],
            nodata,
            alpha,
            classic_limit: u64::from(u32::MAX),
            options,
        };
        plan.check_block_bytes()?;
        plan.add_overviews()?;
        plan.check_block_count()?;
        plan.settle_options();
        Ok(plan)
    }

    /// The size of the image and the type of its samples.
    pub fn shape(&self) -> ImageShape {
        ImageShape { height: self.height(), width: self.width(), bands: self.bands, dtype: self.dtype }
    }

    /// The order of directories and blocks in the file.
    pub fn layout(&self) -> FileLayout {
        self.options.layout
    }

    /// The codec and its settings.
    pub fn compression(&self) -> Compress {
        self.encoder.compress
    }

    /// Width of the full resolution in pixels.
    pub fn width(&self) -> u64 {
        self.levels[0].grid.width
    }

    /// Height of the full resolution in pixels.
    pub fn height(&self) -> u64 {
        self.levels[0].grid.height
    }

    /// The number of bands.
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

    /// The options of the plan, with all choices made.
    pub fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Whether statistics are computed.
    pub(crate) fn has_statistics(&self) -> bool {
        self.options.statistics != Statistics::Off
    }

    /// Whether a mask is written.
    pub fn has_mask(&self) -> bool {
        self.options.mask
    }

    /// The number of bytes of a row of a level in memory, interleaved by pixel.
    pub(crate) fn row_bytes(&self, level: usize) -> usize {
        self.levels[level].grid.width as usize * self.bands * self.dtype.size()
    }

    /// Whether each block of the mask directly follows its block of the image.
    pub(crate) fn mask_is_interleaved(&self) -> bool {
        self.options.mask && self.is_cog() && self.options.planar == Planar::Chunky
    }

    /// Whether the stored pixels differ from those of the source.
    pub(crate) fn changes_pixels(&self) -> bool {
        let has_nan = matches!(self.dtype, DType::F16 | DType::F32 | DType::F64);
        self.options.nan_to_nodata && has_nan && self.nodata.is_some_and(|nodata| !nodata.value_f64().is_nan())
    }

    /// The colour interpretation that a reader derives for a band from the tags alone.
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
        self.options.layout == FileLayout::Cog
    }

    /// The number of bytes of the blocks of a plain, uncompressed file; `None` for other files, where it is not
    /// known before the blocks are encoded.
    pub(crate) fn stored_bytes(&self) -> Option<u64> {
        let options = &self.options;
        if self.is_cog() || self.compression() != Compress::None || options.mask || options.skip_empty {
            return None;
        }
        let grid = &self.levels[0].grid;
        let rows = if grid.tiled { grid.down() * grid.block_height } else { grid.height };
        let row_of_block = self.block_shape(0, 1).row_bytes() as u64;
        rows.checked_mul(grid.across() * grid.planes)?.checked_mul(row_of_block)
    }

    /// The tables that all JPEG blocks share; `None` for other codecs.
    pub(crate) fn jpeg_tables(&self) -> std::result::Result<Option<Vec<u8>>, PlanError> {
        let samples = self.block_shape(0, 1).samples;
        let params = self.encoder.compress.jpeg(samples);
        params.map(|params| jpeg::encode_tables(&params, samples)).transpose().map_err(PlanError::Codec)
    }

    /// The shape of a block of `height` rows as the encoder receives it.
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

    /// Rejects blocks that are too large to be encoded, and samples that the codec does not support.
    fn check_block_bytes(&self) -> std::result::Result<(), PlanError> {
        let base = &self.levels[0].grid;
        let shape = self.block_shape(0, base.block_height);
        let bits =
            [shape.width, shape.height, shape.samples, shape.bits].map(|size| size as u128).iter().product::<u128>();
        if bits / 8 > u128::from(MAX_BLOCK_BYTES) {
            let (width, height) = (base.block_width, base.block_height);
            return Err(PlanError::BlockBytes { width, height, limit: MAX_BLOCK_BYTES });
        }
        self.encoder.check(shape).map_err(PlanError::Codec)
    }

    /// The factors of the overviews.
    fn overview_factors(&self) -> Vec<u64> {
        let base = self.levels[0].grid;
        match &self.options.overviews {
            Overviews::None => Vec::new(),
            Overviews::Factors(factors) => factors.iter().map(|&factor| u64::from(factor)).collect(),
            Overviews::Auto => {
                // Strips are as wide as the image, so their width cannot end the series.
                let (width, height) = if base.tiled { (base.block_width, base.block_height) } else { (512, 512) };
                let larger =
                    |factor: &u64| base.width.div_ceil(*factor) > width || base.height.div_ceil(*factor) > height;
                let powers = std::iter::successors(Some(1_u64), |factor| Some(factor * 2));
                powers.take_while(larger).map(|factor| factor * 2).collect()
            }
        }
    }

    fn add_overviews(&mut self) -> std::result::Result<(), PlanError> {
        let base = self.levels[0].grid;
        let mut made: Vec<u64> = vec![1];
        for factor in self.overview_factors() {
            let previous = &self.levels[self.levels.len() - 1].grid;
            let (width, height) = (base.width.div_ceil(factor.max(1)), base.height.div_ceil(factor.max(1)));
            let grows = made.last().is_some_and(|&last| factor <= last);
            // Use the smallest level from which it can be computed: each level costs a quarter of the one
            // before.
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
        // The factors fit in 32 bits: a larger one leaves no smaller image.
        self.options.overviews = match made.len() {
            1 => Overviews::None,
            _ => Overviews::Factors(made[1..].iter().map(|&factor| factor as u32).collect()),
        };
        Ok(())
    }

    /// Rejects more blocks than fit in memory: the block table is in memory while a file is written.
    fn check_block_count(&self) -> std::result::Result<(), PlanError> {
        let counts = self.levels.iter().map(|level| level.grid.count().unwrap_or(u64::MAX));
        let blocks = counts.fold(0, u64::saturating_add);
        if blocks > MAX_BLOCKS { Err(PlanError::Blocks { blocks, limit: MAX_BLOCKS }) } else { Ok(()) }
    }

    /// Replaces every open choice of the options by the decision. These options give the same plan again.
    fn settle_options(&mut self) {
        let options = &mut self.options;
        options.bits = Some(self.bits);
        options.predictor = PredictorChoice::Always(self.encoder.predictor);
        options.photometric = Some(self.photometric);
        options.extra_samples = Some(self.extra_samples.clone());
        let method = self.levels.iter().find_map(|level| level.reduction).map(|reduction| reduction.method);
        options.resampling = method.or(options.resampling);
    }

    /// Returns how overviews are computed: by default from the nearest pixel if a mean of values has no
    /// meaning.
    fn resampling(&self) -> std::result::Result<Resampling, PlanError> {
        let classes = self.photometric == Photometric::PALETTE
            || self.bits < 8
            || self.options.metadata.bands.iter().any(|band| !band.categories.is_empty());
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
        BlockSize::Strips { .. } if options.layout == FileLayout::Cog => return Err(PlanError::StripsInCog),
        BlockSize::Strips { rows: 0 } => return Err(PlanError::StripRows),
        BlockSize::Strips { rows } => (width, u64::from(rows).min(height), false),
    };
    Ok(BlockGrid { width, height, block_width, block_height, planes, tiled })
}

/// Returns the nodata value for the GDAL_NODATA tag. Readers use it for blocks that are not stored, even if
/// no sample can hold it.
fn announced(options: &WriteOptions, dtype: DType) -> Option<NoData> {
    let (kind, bits) = kind_of(dtype);
    let text = options.extra_tags.iter().find_map(|(tag, value)| match value {
        Value::Text(text) if *tag == Tag::GDAL_NODATA => Some(text),
        _ => None,
    });
    let own = || options.metadata.nodata.map(|nodata| nodata.to_string());
    text.cloned().or_else(own).and_then(|text| NoData::parse(&text, kind, bits))
}

/// Whether samples of a type that are stored in this number of bits can hold exactly this value.
pub(crate) fn can_hold(dtype: DType, bits: u16, nodata: NoData) -> bool {
    let (kind, _) = kind_of(dtype);
    let value = nodata.value_f64();
    // If the value were rounded, missing pixels would differ from the value in the tag.
    let exact = dtype != DType::F16 || value.is_nan() || f64::from(half::f16::from_f64(value)) == value;
    nodata.fits(kind, u32::from(bits)) && exact
}

/// Returns the number of bits of a sample in the file.
fn choose_bits(dtype: DType, chosen: Option<u16>) -> std::result::Result<u16, PlanError> {
    let whole = dtype.size() as u16 * 8;
    let bits = chosen.unwrap_or(whole);
    if bits != whole && DType::for_stored(dtype.format(), usize::from(bits)) != Some(dtype) {
        return Err(PlanError::Bits { bits, dtype });
    }
    Ok(bits)
}

fn choose_predictor(options: &WriteOptions, dtype: DType, bits: u16) -> std::result::Result<Predictor, PlanError> {
    let predictor = match options.predictor {
        PredictorChoice::Always(predictor) => predictor,
        PredictorChoice::Auto => Encoder::best_predictor(&options.compress, dtype.format(), usize::from(bits)),
    };
    if predictor != Predictor::None && !options.compress.takes_predictor() {
        return Err(PlanError::Predictor { predictor: predictor.tag(), codec: options.compress.name() });
    }
    if predictor != Predictor::None && !matches!(bits, 8 | 16 | 32 | 64) {
        // The format allows it, but libtiff does not read it.
        let what = "samples of this width";
        return Err(PlanError::Codec(swath_codec::Error::Unsuited { codec: "the predictor", what }));
    }
    Ok(predictor)
}

/// Returns the encoder of the mask. It has the codec of the image, if that is a lossless codec that every
/// reader supports.
fn mask_encoder(compress: &Compress) -> Encoder {
    let compress = match *compress {
        same @ (Compress::Lzw | Compress::Zstd { .. } | Compress::Deflate { .. }) => same,
        _ => Compress::Deflate { level: 6 },
    };
    Encoder { compress, predictor: Predictor::None }
}

/// Returns the meaning of the samples: photometric interpretation and extra samples.
fn choose_photometric(
    options: &WriteOptions,
    bands: usize,
    dtype: DType,
    bits: u16,
) -> std::result::Result<(Photometric, Vec<u16>), PlanError> {
    let block_samples = if options.planar == Planar::Separate { 1 } else { bands };
    let colors: Vec<&str> = options.metadata.bands.iter().map(|band| band.color).collect();
    // If the bands have no colours, follow GDAL's interpretation of three or four bands of bytes.
    let unnamed = colors.iter().all(|color| matches!(*color, "" | "undefined"));
    let rgb = colors.starts_with(&["red", "green", "blue"])
        || (unnamed && dtype == DType::U8 && matches!(bands, 3 | 4) && bits == 8);
    let palette = options.metadata.palette.is_some() && bands <= 2 && matches!(dtype, DType::U8 | DType::U16);
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
        // Lossy codecs give other photometric interpretations another meaning.
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
