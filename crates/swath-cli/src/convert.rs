//! `swath convert`: writes an image to a new file, as a COG or with another codec or layout.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use swath::io::SyncPolicy;
use swath::tiff::nodata::NoData;
use swath::tiff::{Compression, Photometric, Planar};
use swath::write::{BigTiff, BlockSize, Overviews, PredictorChoice, Resampling, Statistics};
use swath::{Compress, Image, ImageSource, Predictor, RowSource, WriteConfig, WriteOptions, WritePlan, WriteReport};
use swath_codec::CodecOptions;
use swath_codec::jpeg::EncodeColour;

use crate::failure::Failure;
use crate::flags::{DeviceFlags, Encoder, InvalidValue, OpenFlags, Selection, number, numbers};
use crate::output::warn_of_chain;
use crate::progress::Bar;
use crate::read::print_device;

/// Convert an image to a COG, to another codec or layout, or extract a part of it
///
/// Streams the image, so the memory does not depend on its height. OUT appears complete or not at all, and has the same
/// bytes on every run and with any number of threads. Georeferencing, nodata, colours, names, metadata, masks and unknown
/// tags are kept; docs/writing.md lists the exceptions.
///
/// Blocks whose codec and layout do not change are copied without being decoded, unless --compression-level, --quality,
/// --subsampling, --max-z-error or --skip-empty is given.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath convert scene.tif scene_cog.tif --cog
  swath convert dem.tif dem_cog.tif --cog --statistics \\
      --compression deflate --compression-level 9
  swath convert scene.tif chip.tif --window 0,0,512,512 --bands 4,3,2 \\
      --compression jpeg --quality 85

Defaults of Python's to_geotiff that differ (docs/python.md has the table):
  tiles of 256, no predictor, deflate levels up to 9, an existing file is replaced")]
pub(crate) struct Convert {
    /// The file to read.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The file to write, or - for standard output.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Write a Cloud Optimized GeoTIFF; with overviews, unless --overviews none is given.
    #[arg(long)]
    cog: bool,

    /// Codec of the pixels; "keep" is the codec of IN.
    #[arg(long, value_name = "NAME", ignore_case = true, value_parser = codecs(), default_value = "zstd")]
    compression: String,

    /// Compression level, from fast to small: deflate 1 to 12, zstd 1 to 22, lzma 0 to 9. Default: 6.
    #[arg(long, value_name = "N", value_parser = number::<i32>, allow_negative_numbers = true)]
    compression_level: Option<i32>,

    /// Quality of lossy codecs: jpeg 1 to 100, webp 0 to 100, jpeg2000 above 0 to 100.
    ///
    /// Default: 75 for jpeg; webp and jpeg2000 are lossless by default.
    #[arg(long, value_name = "Q")]
    quality: Option<f32>,

    /// How jpeg stores three bands: as YCbCr with less or full chroma resolution, or as RGB. Default: 420.
    #[arg(long, value_name = "MODE", value_enum)]
    subsampling: Option<Subsampling>,

    /// Largest change of a value with lerc. Default: 0, lossless.
    #[arg(long, value_name = "E")]
    max_z_error: Option<f64>,

    /// Predictor: 1 none, 2 differences, 3 for floats; auto chooses 3 for floats and 2 for integers.
    ///
    /// Default: the predictor of IN if the codec stays the same, else auto.
    #[arg(long, value_parser = ["auto", "1", "2", "3"])]
    predictor: Option<String>,

    /// Size of the tiles, such as 512 or 256x512 (width x height), in multiples of 16. Default: 512.
    #[arg(long, value_name = "SIZE", value_parser = tile, conflicts_with = "strips")]
    tile: Option<BlockSize>,

    /// Write strips of this many rows instead of tiles.
    #[arg(long, value_name = "ROWS", value_parser = strips)]
    strips: Option<BlockSize>,

    /// Store the bands of a pixel together, or each band in separate blocks. Default: as in IN.
    #[arg(long, value_name = "ORDER", value_enum)]
    interleave: Option<Interleave>,

    /// Overviews: auto, none, or factors such as 2,4,8. Default: auto with --cog, else none.
    ///
    /// "auto" makes overviews by factors of two until one fits in a tile.
    #[arg(long, value_name = "auto|none|FACTORS", value_parser = overviews)]
    overviews: Option<Overviews>,

    /// Resampling method of the overviews. Default: mean; nearest for palettes and classes.
    #[arg(long, value_name = "METHOD", value_parser = resampling_methods())]
    resampling: Option<String>,

    /// The nodata value, or "none" to remove it. Default: that of IN.
    ///
    /// If the value is a number, NaN pixels become that number.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    nodata: Option<String>,

    /// Write a BigTIFF: auto if the file is too large for a classic TIFF, yes always, no never. Default: auto.
    #[arg(long, value_name = "WHEN", value_enum)]
    bigtiff: Option<Big>,

    #[command(flatten)]
    selection: Selection,

    /// Image (page) of IN, counted from 0.
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value_t = 0)]
    image: usize,

    /// Compute exact statistics of each band, write them to OUT, and print them.
    #[arg(long)]
    statistics: bool,

    /// Do not store blocks that contain only nodata, or only 0 if there is no nodata value.
    #[arg(long)]
    skip_empty: bool,

    #[command(flatten)]
    device: DeviceFlags,

    #[command(flatten)]
    encoder: Encoder,

    #[command(flatten)]
    open: OpenFlags,

    /// Memory for rows of pixels, such as 256MiB or 1GB. Default: 256MiB.
    ///
    /// Swath needs at least one row of tiles and one row of the blocks of IN, even if that is more.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,

    /// Replace OUT if it exists.
    #[arg(long)]
    overwrite: bool,

    /// When to wait until OUT is on the disk.
    ///
    /// A file that Swath did not wait for may be lost if the power fails within the next seconds. Nothing is lost
    /// if only Swath is killed.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "replacing")]
    sync: Sync,

    /// Print timings, counts and fallbacks to stderr.
    #[arg(long)]
    timings: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sync {
    /// If OUT replaces a file.
    Replacing,
    Always,
    Never,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subsampling {
    #[value(name = "420")]
    Half,
    #[value(name = "422")]
    HalfColumns,
    #[value(name = "444")]
    Full,
    Rgb,
}

#[derive(Clone, Copy, ValueEnum)]
enum Interleave {
    Pixel,
    Band,
}

#[derive(Clone, Copy, ValueEnum)]
enum Big {
    Auto,
    Yes,
    No,
}

impl Convert {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let device = self.device.device()?;
        // Reading and writing share the device memory.
        let gpu_memory = self.device.gpu_memory()?.map(|bytes| bytes / 2);
        let dataset = self.open.open(&self.input)?;
        let image = dataset.image(self.image)?;
        let request = self.device.apply(self.selection.request(), &device, gpu_memory)?;
        let mut source = ImageSource::new(&image, request)?;
        let options = self.options(&image, &source)?;
        if self.tunes_the_codec() {
            source = source.recompress();
        }
        let shape = source.shape();
        let plan = WritePlan::new(shape, options)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.output.display())))?;

        let pixels = shape.width.saturating_mul(shape.height).saturating_mul(shape.bands as u64);
        let bar = Bar::of(pixels.saturating_mul(shape.dtype.size() as u64));
        let show = |progress| bar.show(progress);
        let config = WriteConfig::new()
            .overwrite(self.overwrite)
            .sync(match self.sync {
                Sync::Replacing => SyncPolicy::WhenReplacing,
                Sync::Always => SyncPolicy::Always,
                Sync::Never => SyncPolicy::Never,
            })
            .threads(self.selection.threads.threads)
            .buffer_bytes(self.memory)
            .device(device.clone())
            .fallback(self.device.fallback())
            .encoder(self.encoder.choice()?)
            .storage(self.device.storage()?)
            .gpu_memory_budget(gpu_memory)
            .progress(&show);
        let to_stdout = self.output == Path::new("-");
        let report = if to_stdout {
            let mut stdout = std::io::stdout().lock();
            let report = plan.write_to(&mut stdout, &mut source, &config)?;
            stdout.flush().map_err(|error| Failure::file("write", Path::new("standard output"), error))?;
            report
        } else {
            plan.write_file(&self.output, &mut source, &config)?
        };
        drop(bar);
        warn_of_chain(&dataset);
        if self.statistics {
            print_statistics(&report, to_stdout);
        }
        if self.timings {
            print_timings(&plan, &report);
        }
        Ok(())
    }

    /// Whether a flag changes the compressed bytes although the codec stays the same.
    fn tunes_the_codec(&self) -> bool {
        self.compression_level.is_some()
            || self.quality.is_some()
            || self.max_z_error.is_some()
            || self.subsampling.is_some()
    }

    fn options(&self, image: &Image, source: &ImageSource<'_>) -> Result<WriteOptions, Failure> {
        let options = if self.cog { WriteOptions::new().cog() } else { WriteOptions::new() };
        let compress = self.compress(image)?;
        let mut options = options
            .like(image, source)?
            .compression(compress)
            .predictor(self.predictor(image, &compress))
            .planar(match self.interleave {
                None => image.layout().planar,
                Some(Interleave::Pixel) => Planar::Chunky,
                Some(Interleave::Band) => Planar::Separate,
            })
            .big_tiff(match self.bigtiff {
                None | Some(Big::Auto) => BigTiff::Auto,
                Some(Big::Yes) => BigTiff::Yes,
                Some(Big::No) => BigTiff::No,
            })
            .skip_empty(self.skip_empty);
        if let Some(blocks) = self.tile.or(self.strips) {
            options = options.blocks(blocks);
        }
        if let Some(overviews) = &self.overviews {
            options = options.overviews(overviews.clone());
        }
        if let Some(method) = self.resampling.as_deref().and_then(Resampling::from_name) {
            options = options.resampling(method);
        }
        options = match self.nodata.as_deref() {
            None => options,
            Some("none") => options.replace_nodata(None),
            Some(text) => options.replace_nodata(Some(nodata(text, image)?)).nan_to_nodata(true),
        };
        let lossy = matches!(compress, Compress::Jpeg { .. }) || self.quality.is_some() || self.max_z_error.is_some();
        if lossy && image.codec_name() != Some(compress.name()) {
            options = options.drop_statistics();
        }
        if self.statistics {
            options = options.statistics(Statistics::Embed);
        }
        Ok(options)
    }

    /// The predictor that the flags choose. If the codec stays the same, so does the predictor: then the blocks can be copied.
    fn predictor(&self, image: &Image, compress: &Compress) -> PredictorChoice {
        let stored = || {
            let whole = matches!(image.layout().bits, 8 | 16 | 32 | 64);
            Predictor::from_tag(image.layout().predictor).filter(|_| whole)
        };
        let predictor = match self.predictor.as_deref() {
            None if image.layout().compression.0 == compress.tag() && compress.takes_predictor() => stored(),
            None => None,
            // "auto" is not a number and gives `None`.
            Some(text) => text.parse().ok().and_then(Predictor::from_tag),
        };
        predictor.map_or(PredictorChoice::Auto, PredictorChoice::Always)
    }

    /// The codec that the flags choose.
    fn compress(&self, image: &Image) -> Result<Compress, Failure> {
        let colour = self.subsampling.map(|subsampling| match subsampling {
            Subsampling::Half => EncodeColour::YCbCr { subsampling: (2, 2) },
            Subsampling::HalfColumns => EncodeColour::YCbCr { subsampling: (2, 1) },
            Subsampling::Full => EncodeColour::YCbCr { subsampling: (1, 1) },
            Subsampling::Rgb => EncodeColour::Stored,
        });
        let name = self.compression.to_ascii_lowercase();
        // JPEG to JPEG keeps the stored colours, so that the blocks can be copied.
        let stays_jpeg = image.layout().compression == Compression::JPEG && matches!(name.as_str(), "jpeg" | "keep");
        let colour = colour.or_else(|| stays_jpeg.then(|| stored_colour(image)).flatten());
        let options = CodecOptions {
            compression_level: self.compression_level,
            quality: self.quality,
            max_z_error: self.max_z_error,
            colour,
        };
        let name = match name.as_str() {
            "keep" => image.codec_name().ok_or_else(|| {
                let kept = image.layout().compression.name();
                Failure::Failed(format!("compression {kept} cannot be kept; there is no encoder for it"))
            })?,
            name => name,
        };
        Compress::with_options(name, options).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// The names of the codecs, and "keep".
fn codecs() -> PossibleValuesParser {
    PossibleValuesParser::new(Compress::names().chain(["keep"]))
}

/// The names of the resampling methods. GDAL's name for the mean is accepted too.
fn resampling_methods() -> PossibleValuesParser {
    PossibleValuesParser::new(Resampling::NAMES.map(|name| match name {
        "mean" => PossibleValue::new(name).alias("average"),
        _ => PossibleValue::new(name),
    }))
}

fn nodata(text: &str, image: &Image) -> Result<NoData, Failure> {
    let nodata = NoData::stated(text, image.layout().format(), u32::from(image.layout().bits));
    let nodata =
        nodata.ok_or_else(|| Failure::Usage(format!("--nodata must be a number, nan or none, not '{text}'")))?;
    if nodata.value_f64().is_infinite() && !text.to_ascii_lowercase().contains("inf") {
        return Err(Failure::Usage(format!("--nodata {text} is not a value that {} samples can have", image.dtype())));
    }
    Ok(nodata)
}

fn tile(text: &str) -> Result<BlockSize, InvalidValue> {
    let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
    let side =
        |text: &str| text.trim().parse().map_err(|_| InvalidValue::new("expected a size such as 512 or 256x512"));
    Ok(BlockSize::Tiles { width: side(width)?, height: side(height)? })
}

fn strips(text: &str) -> Result<BlockSize, InvalidValue> {
    let rows = text.parse().map_err(|_| InvalidValue::new("expected a number of rows"))?;
    Ok(BlockSize::Strips { rows })
}

fn overviews(text: &str) -> Result<Overviews, InvalidValue> {
    match text {
        "auto" => Ok(Overviews::Auto),
        "none" => Ok(Overviews::None),
        factors => numbers(factors).map(Overviews::Factors),
    }
}

/// How the blocks of a JPEG store three bands.
fn stored_colour(image: &Image) -> Option<EncodeColour> {
    match (image.layout().photometric, image.chroma_subsampling()) {
        (Photometric::YCBCR, subsampling @ ((1 | 2, 1) | (2, 2))) => {
            Some(EncodeColour::YCbCr { subsampling: (subsampling.0 as u8, subsampling.1 as u8) })
        }
        (Photometric::YCBCR, _) => None,
        _ => Some(EncodeColour::Stored),
    }
}

/// A size such as `256MiB`, `1GB` or `1000000`.
fn bytes(text: &str) -> Result<u64, InvalidValue> {
    const UNITS: [(&str, u64); 10] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("b", 1),
    ];
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(name, size)| lower.strip_suffix(name).map(|rest| (rest.trim(), *size)));
    let (number, size) = unit.unwrap_or((&lower, 1));
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(size));
    bytes.ok_or_else(|| InvalidValue::new("expected a size such as 256MiB"))
}

fn print_statistics(report: &WriteReport, to_stderr: bool) {
    for (band, statistics) in report.statistics.iter().enumerate() {
        let number = |value: Option<f64>| value.map_or("none".into(), |value| value.to_string());
        let text = format!(
            "band {}: {} of {} pixels valid, minimum {}, maximum {}, mean {}, standard deviation {}",
            band + 1,
            statistics.count(),
            statistics.total(),
            number(statistics.minimum()),
            number(statistics.maximum()),
            number(statistics.mean()),
            number(statistics.std_dev()),
        );
        // Standard output may hold the file itself.
        if to_stderr {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }
}

fn print_timings(plan: &WritePlan, report: &WriteReport) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    eprintln!(
        "{} x {} x {} {}, {} levels, {}; {} threads; {} blocks ({} sparse, {} copied)",
        plan.bands(),
        plan.height(),
        plan.width(),
        plan.dtype(),
        plan.levels().len(),
        plan.compression().name(),
        report.threads,
        report.blocks,
        report.sparse_blocks,
        report.copied_blocks,
    );
    eprintln!(
        "{:.3} MB {}; {:.3} MB of rows in memory at most",
        mb(report.file_bytes),
        if report.big_tiff { "BigTIFF" } else { "classic TIFF" },
        mb(report.peak_buffer_bytes),
    );
    eprintln!(
        "{:.3} s in all; {:.3} s waiting for the source, {:.3} s appending, {:.3} s putting the file together",
        report.wall_time.as_secs_f64(),
        report.source_wait.as_secs_f64(),
        report.append_time.as_secs_f64(),
        report.commit_time.as_secs_f64(),
    );
    print_device(report.gpu.as_ref());
}
