//! `swath convert`: write an image again, as a COG or otherwise.

use std::io::Write;

use swath::codec::Tuning;
use swath::codec::jpeg::EncodeColour;
use swath::tiff::nodata::NoData;
use swath::tiff::{Compression, Photometric, Planar};
use swath::{
    BandSource, BigTiff, BlockSize, Compress, Dataset, Image, ImageSource, Measure, Overviews, Plan, Predictor,
    PredictorChoice, Resampling, Running, WriteOptions, WriteReport,
};

use crate::command::{
    Arguments, BANDS, Command, DECODER, DEVICE, ENCODER, FALLBACK, Failure, Flag, GPU_MEMORY, STORAGE, THREADS, WINDOW,
};
use crate::progress::Bar;
use crate::read::{on_device, part, print_device};

pub(crate) const COMMAND: Command = Command {
    name: "convert",
    operands: &["IN", "OUT"],
    summary: "Write an image again: as a Cloud Optimized GeoTIFF, with another codec, a part of it",
    details: "Streams: the memory needed does not depend on the height of the image. OUT appears complete or not at all; the bytes are the\n\
              same on every run and with any number of threads. Georeferencing, nodata, colours, names, metadata, masks and unknown tags\n\
              carry over (docs/writing.md has the exceptions). Blocks whose codec and layout do not change are taken over as they are, without a\n\
              look inside, unless --level, --quality, --subsampling, --max-z-error or --skip-empty is given. OUT may be - (standard output).\n\n\
              Examples:\n  \
              swath convert scene.tif scene_cog.tif --cog\n  \
              swath convert dem.tif dem_cog.tif --cog --compression deflate --level 9 --stats\n  \
              swath convert scene.tif chip.tif --window 0,0,512,512 --bands 4,3,2 --compression jpeg --quality 85\n",
    flags: &[
        Flag {
            name: "--cog",
            value: None,
            help: "Write a Cloud Optimized GeoTIFF, with overviews unless told otherwise.",
        },
        Flag {
            name: "--compression",
            value: Some("NAME"),
            help: "none, lzw, deflate, zstd, packbits, lz4, lzma, lerc, lerc_deflate, lerc_zstd, jpeg, jpeg2000, webp, or keep: that \
                   of IN. Default: zstd.",
        },
        Flag {
            name: "--level",
            value: Some("N"),
            help: "Fast to small: deflate 1 to 12, zstd 1 to 22, lzma 0 to 9. Default: 6.",
        },
        Flag {
            name: "--quality",
            value: Some("Q"),
            help: "jpeg 1 to 100 (default 75), webp 0 to 100, jpeg2000 above 0 to 100 (both lossless by default).",
        },
        Flag {
            name: "--subsampling",
            value: Some("420|422|444|rgb"),
            help: "How jpeg stores three bands: YCbCr with less chroma or with all of it, or RGB. Default: 420.",
        },
        Flag {
            name: "--max-z-error",
            value: Some("E"),
            help: "lerc: no value changes by more than this. Default: 0, lossless.",
        },
        Flag {
            name: "--predictor",
            value: Some("auto|1|2|3"),
            help: "1 none, 2 differences, 3 for floats; auto takes 3 for floats and 2 for integers. Default: auto, or that of IN where the codec stays.",
        },
        Flag { name: "--tile", value: Some("N or WxH"), help: "Size of the tiles, in multiples of 16. Default: 512." },
        Flag { name: "--strips", value: Some("ROWS"), help: "Strips of so many rows instead of tiles." },
        Flag {
            name: "--interleave",
            value: Some("pixel|band"),
            help: "Bands side by side, or each in blocks of its own. Default: that of IN.",
        },
        Flag {
            name: "--overviews",
            value: Some("auto|none|2,4,8"),
            help: "By factors of two until one fits in a tile; none; or by these factors. Default: auto with --cog, else none.",
        },
        Flag {
            name: "--resampling",
            value: Some("METHOD"),
            help: "How overviews are made: nearest, mean (average), min, max, median, mode, bilinear, cubic, gauss. Default: mean, and \
                   nearest for palettes and classes.",
        },
        Flag {
            name: "--nodata",
            value: Some("X"),
            help: "The nodata value; NaN becomes X where X is a number. 'none' takes it away. Default: that of IN.",
        },
        Flag {
            name: "--bigtiff",
            value: Some("auto|yes|no"),
            help: "BigTIFF when the file is really too large for a classic TIFF, always, never. Default: auto.",
        },
        WINDOW,
        BANDS,
        Flag { name: "--image", value: Some("N"), help: "Which image (page) of IN, counted from 0. Default: 0." },
        Flag { name: "--stats", value: None, help: "Write exact statistics of each band, and print them." },
        Flag {
            name: "--skip-empty",
            value: None,
            help: "Leave out blocks that hold nothing but nodata (or 0, where there is none).",
        },
        THREADS,
        DEVICE,
        FALLBACK,
        DECODER,
        ENCODER,
        STORAGE,
        GPU_MEMORY,
        Flag {
            name: "--memory",
            value: Some("256MiB"),
            help: "Memory for rows of pixels. One row of tiles and of the blocks of IN is kept in any case. Default: 256MiB.",
        },
        Flag { name: "--overwrite", value: None, help: "Replace OUT if it exists." },
        Flag { name: "--verbose", value: None, help: "Print what was done and how long it took to stderr." },
    ],
    run,
};

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let (input, output) = (arguments.operand(0), arguments.operand(1));
    let device = arguments.device()?;
    // What is read and what is written share the memory.
    let gpu_memory = arguments.gpu_memory()?.map(|bytes| bytes / 2);
    let dataset = Dataset::open(input)?;
    let image = dataset.image(arguments.number("--image")?.unwrap_or(0))?;
    let mut source = ImageSource::new(&image, on_device(part(arguments)?, &device, arguments, gpu_memory)?)?;
    let options = options(arguments, &image, &source)?;
    if ["--level", "--quality", "--max-z-error", "--subsampling"].iter().any(|flag| arguments.has(flag)) {
        source = source.recompress();
    }
    let (width, height, bands, dtype) = source.shape();
    let plan = Plan::new(width, height, bands, dtype, options)
        .map_err(|error| Failure::Failed(format!("{output}: {error}")))?;

    let bar = Bar::of(width as f64 * height as f64 * bands as f64 * dtype.size() as f64);
    let show = |progress| bar.show(progress);
    let running = Running {
        threads: arguments.number("--threads")?,
        buffer_bytes: arguments.text("--memory").map(bytes).transpose()?,
        device: device.clone(),
        fallback: arguments.fallback()?,
        encoder: arguments.codec("--encoder")?,
        storage: arguments.storage()?,
        gpu_memory_budget: gpu_memory,
        progress: Some(&show),
        ..Running::default()
    };
    let report = if output == "-" {
        let mut stdout = std::io::stdout().lock();
        let report = plan.write_to(&mut stdout, &mut source, &running)?;
        stdout.flush().map_err(|error| Failure::file("write", "standard output", error))?;
        report
    } else {
        plan.write_file(output, arguments.has("--overwrite"), &mut source, &running)?
    };
    drop(bar);
    if arguments.has("--stats") {
        print_statistics(&report, output == "-");
    }
    if arguments.has("--verbose") {
        print_report(&plan, &report);
    }
    Ok(())
}

fn options(arguments: &Arguments<'_>, image: &Image, source: &ImageSource<'_>) -> Result<WriteOptions, Failure> {
    let cog = arguments.has("--cog");
    let mut options = if cog { WriteOptions::cog() } else { WriteOptions::default() };
    options = options.like(image, source)?;
    options.compress = compress(arguments, image)?;
    options.predictor = match arguments.text("--predictor") {
        None if image.layout().compression.0 == options.compress.tag() && options.compress.takes_predictor() => {
            // The codec stays, so the blocks can.
            let whole = matches!(image.layout().bits, 8 | 16 | 32 | 64);
            let stored = Predictor::from_tag(image.layout().predictor).filter(|_| whole);
            stored.map_or(PredictorChoice::Auto, PredictorChoice::Always)
        }
        None | Some("auto") => PredictorChoice::Auto,
        Some(number) => {
            let predictor = number.parse().ok().and_then(Predictor::from_tag);
            PredictorChoice::Always(predictor.ok_or_else(|| one_of("--predictor", "auto, 1, 2 or 3", number))?)
        }
    };
    if let Some(text) = arguments.text("--tile") {
        let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
        let side =
            |text: &str| text.trim().parse().map_err(|_| one_of("--tile", "a size such as 512 or 256x512", text));
        options.blocks = BlockSize::Tiles { width: side(width)?, height: side(height)? };
    }
    if let Some(rows) = arguments.number("--strips")? {
        if arguments.has("--tile") {
            return Err(Failure::Misuse("--tile and --strips exclude each other".into()));
        }
        options.blocks = BlockSize::Strips { rows };
    }
    options.planar = match arguments.text("--interleave") {
        None => image.layout().planar,
        Some("pixel") => Planar::Chunky,
        Some("band") => Planar::Separate,
        Some(other) => return Err(one_of("--interleave", "pixel or band", other)),
    };
    match arguments.text("--overviews") {
        None => {}
        Some("auto") => options.overviews = Overviews::Auto,
        Some("none") => options.overviews = Overviews::None,
        Some(_) => options.overviews = Overviews::Factors(arguments.numbers("--overviews")?.unwrap_or_default()),
    }
    if let Some(name) = arguments.text("--resampling") {
        let method = Resampling::from_name(name);
        options.resampling = Some(method.ok_or_else(|| one_of("--resampling", &Resampling::NAMES.join(", "), name))?);
    }
    match arguments.text("--nodata") {
        None => {}
        Some("none") => options.set_nodata(None),
        Some(text) => {
            let nodata = NoData::stated(text, image.layout().kind(), u32::from(image.layout().bits));
            let nodata = nodata.ok_or_else(|| one_of("--nodata", "a number, nan or none", text))?;
            if nodata.value_f64().is_infinite() && !text.to_ascii_lowercase().contains("inf") {
                return Err(Failure::Misuse(format!(
                    "--nodata {text} is not a value that {} samples can have",
                    image.dtype()
                )));
            }
            options.set_nodata(Some(nodata));
            options.nan_to_nodata = true;
        }
    }
    options.big_tiff = match arguments.text("--bigtiff") {
        None | Some("auto") => BigTiff::Auto,
        Some("yes") => BigTiff::Yes,
        Some("no") => BigTiff::No,
        Some(other) => return Err(one_of("--bigtiff", "auto, yes or no", other)),
    };
    let lossy = matches!(options.compress, Compress::Jpeg { .. })
        || arguments.has("--quality")
        || arguments.has("--max-z-error");
    if lossy && image.codec_name() != Some(options.compress.name()) {
        options.drop_statistics();
    }
    if arguments.has("--stats") {
        options.statistics = Measure::Store;
    }
    options.skip_empty = arguments.has("--skip-empty");
    Ok(options)
}

/// The codec that the flags choose.
fn compress(arguments: &Arguments<'_>, image: &Image) -> Result<Compress, Failure> {
    let colour = match arguments.text("--subsampling") {
        None => None,
        Some("420") => Some(EncodeColour::YCbCr { subsampling: (2, 2) }),
        Some("422") => Some(EncodeColour::YCbCr { subsampling: (2, 1) }),
        Some("444") => Some(EncodeColour::YCbCr { subsampling: (1, 1) }),
        Some("rgb") => Some(EncodeColour::Stored),
        Some(other) => return Err(one_of("--subsampling", "420, 422, 444 or rgb", other)),
    };
    let name = arguments.text("--compression").unwrap_or("zstd");
    // A JPEG that stays one keeps its colours as they are stored, so that its blocks can be taken over.
    let stays_jpeg = image.layout().compression == Compression::JPEG && matches!(name, "jpeg" | "keep");
    let colour = colour.or_else(|| stays_jpeg.then(|| stored_colour(image)).flatten());
    let tuning = Tuning {
        level: arguments.number("--level")?,
        quality: arguments.number("--quality")?,
        max_z_error: arguments.number("--max-z-error")?,
        colour,
    };
    let name = match name {
        "keep" => image.codec_name().ok_or_else(|| {
            let kept = image.layout().compression.name();
            Failure::Failed(format!("compression {kept} cannot be kept: there is no encoder for it"))
        })?,
        name => name,
    };
    Compress::named(name, tuning).map_err(|error| Failure::Misuse(error.to_string()))
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

fn one_of(flag: &str, wanted: &str, found: &str) -> Failure {
    Failure::Misuse(format!("{flag} is {wanted}, not '{found}'"))
}

/// A size such as `256MiB`, `1GB` or `1000000`.
fn bytes(text: &str) -> Result<u64, Failure> {
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
    bytes.ok_or_else(|| one_of("--memory", "a size such as 256MiB", text))
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
        // The file itself may have gone to standard output.
        if to_stderr {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }
}

fn print_report(plan: &Plan, report: &WriteReport) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    eprintln!(
        "{} x {} x {} {}, {} levels, {}; {} threads; {} blocks ({} sparse, {} copied)",
        plan.bands(),
        plan.height(),
        plan.width(),
        plan.dtype(),
        plan.levels().len(),
        plan.options().compress.name(),
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
