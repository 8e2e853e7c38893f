//! Compares every file of the corpus with GDAL: pixels, georeferencing, CRS, nodata, first overview, mask.
//!
//! `make corpus` prints the table. The corpus is outside the repository; `SWATH_CORPUS` holds its path.
#![allow(clippy::print_stdout, reason = "the table is what the test is for")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use swath::device::Gpu;
use swath::tiff::nodata::NoData;
use swath::{DType, Dataset, Error, Image, Limits, Pixels, ReadRequest};
use swath_codec::sample::widen_complex_int;
use swath_gpu::OpenCl;

/// Files that are not read as the index says, for a reason that docs/corpus.md gives.
const KNOWN: &[&str] = &[
    // The file, and GDAL's WKT for it, have EPSG 2193. rasterio does not find the code because of the axis
    // order.
    "gcore/data/gtiff/epsg_2193_override.tif",
];

/// One row of `index.csv`, by column name.
type Row = BTreeMap<String, String>;

/// The time limit for one file, in an optimised build, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });

fn corpus() -> Option<PathBuf> {
    let root = match std::env::var_os("SWATH_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    root.join("index.csv").is_file().then_some(root)
}

/// CSV with quoted fields; the first record names the columns.
fn parse_csv(text: &str) -> Vec<Row> {
    let (mut records, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            '\r' if !quoted => {}
            c => field.push(c),
        }
    }
    let mut records = records.into_iter();
    let names = records.next().unwrap_or_default();
    records.map(|record| names.iter().cloned().zip(record).collect()).collect()
}

/// The hash that `README.md` of the corpus defines: over `"<dtype code>:<shape tuple>"` and the little-endian
/// samples.
fn hash(pixels: &Pixels, shape: &[usize]) -> String {
    let widened = pixels.dtype().widened();
    let bytes = if widened == pixels.dtype() {
        pixels.as_bytes().to_vec()
    } else {
        let mut wide = vec![0; pixels.as_bytes().len() / pixels.dtype().size() * widened.size()];
        widen_complex_int(pixels.dtype(), pixels.as_bytes(), widened, &mut wide).unwrap();
        wide
    };
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let head = format!("{}:({})", widened.numpy_code().unwrap(), dims.join(", "));
    let digest = Sha256::new().chain_update(head).chain_update(bytes).finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the errors of one file; empty if everything is correct.
fn check(root: &Path, row: &Row) -> Vec<String> {
    let oracle = row["oracle"].as_str();
    let opened = Dataset::open(root.join(&row["path"])).and_then(|dataset| dataset.image(0));
    let image = match opened {
        Ok(image) => image,
        Err(error) => return if oracle == "reject" { vec![] } else { vec![format!("open: {error}")] },
    };
    let mut wrong = Vec::new();
    if !matches!(oracle, "reject" | "open-only" | "huge") {
        check_about(&image, row, &mut wrong);
    }
    match oracle {
        "huge" => return wrong,
        "reject" | "open-only" => {
            // For these files any result is allowed, pixels or an error, in time and in bounded memory.
            let mut limits = Limits::default();
            limits.max_pixels = 100_000_000;
            let _ = image.read(&ReadRequest::new().limits(limits));
            return wrong;
        }
        _ => {}
    }
    let raster = match image.read(&ReadRequest::new()) {
        Ok(raster) => raster,
        Err(error) => {
            wrong.push(format!("read: {error}"));
            return wrong;
        }
    };
    if oracle == "lossy" {
        check_lossy(&raster.pixels, raster.shape, row, &mut wrong);
    } else if hash(&raster.pixels, &raster.shape) != row["pix_sha256"] {
        wrong.push(format!(
            "pixels differ: {} {:?} where GDAL has {} {}",
            raster.pixels.dtype(),
            raster.shape,
            row["pix_dtype"],
            row["pix_shape"]
        ));
    }
    if !row["ov0_sha256"].is_empty() {
        match image.read(&ReadRequest::new().level(1)) {
            Ok(level) if oracle == "lossy" => {
                let dims: Vec<String> = level.shape.iter().map(ToString::to_string).collect();
                if dims.join("x") != row["ov0_shape"] {
                    wrong.push(format!("overview shape {dims:?}, not {}", row["ov0_shape"]));
                }
            }
            Ok(level) if hash(&level.pixels, &level.shape) != row["ov0_sha256"] => {
                wrong.push(format!("overview differs: {:?} where GDAL has {}", level.shape, row["ov0_shape"]));
            }
            Ok(_) => {}
            Err(error) => wrong.push(format!("overview: {error}")),
        }
    }
    if !row["mask_sha256"].is_empty() {
        match image.read_mask(&ReadRequest::new()) {
            Ok(mask) => {
                let shape = [mask.height, mask.width];
                if hash(&Pixels::U8(mask.values), &shape) != row["mask_sha256"] {
                    wrong.push(format!("mask differs ({:?})", mask.origin));
                }
            }
            Err(error) => wrong.push(format!("mask: {error}")),
        }
    }
    wrong
}

fn check_about(image: &Image, row: &Row, wrong: &mut Vec<String>) {
    let about = image.metadata();
    let epsg = about.epsg().map(|code| code.to_string()).unwrap_or_default();
    if epsg != row["epsg"] {
        wrong.push(format!("EPSG {epsg:?}, not {:?}", row["epsg"]));
    }
    let expected: Vec<f64> = row["geotransform"].split(',').filter_map(|text| text.parse().ok()).collect();
    match about.transform {
        Some(transform) if transform.0.as_slice() != expected && !(expected.is_empty() && transform.is_identity()) => {
            wrong.push(format!("transform {:?}, not {expected:?}", transform.0));
        }
        None if !expected.is_empty() => wrong.push(format!("no transform, not {expected:?}")),
        _ => {}
    }
    let nodata = about.nodata.filter(|nodata| in_range(*nodata, image));
    let expected = row["nodata"].as_str();
    let same = match nodata {
        None => expected.is_empty(),
        Some(NoData::Uint(value)) => expected == value.to_string() || expected.parse() == Ok(value as f64),
        Some(NoData::Int(value)) => expected == value.to_string() || expected.parse() == Ok(value as f64),
        Some(NoData::Float(value)) => {
            expected.parse().is_ok_and(|other: f64| other == value || (other.is_nan() && value.is_nan()))
        }
    };
    if !same {
        wrong.push(format!("nodata {nodata:?}, not {expected:?}"));
    }
    let (gcps, rpc) = (about.gcps.len().to_string(), about.rpc.is_some());
    if gcps != row["n_gcp"] {
        wrong.push(format!("{gcps} GCPs, not {}", row["n_gcp"]));
    }
    if (row["rpc"] == "True") != rpc {
        wrong.push(format!("RPC {rpc}, not {}", row["rpc"]));
    }
}

/// The column comes from rasterio, which does not report a nodata value that the samples cannot hold.
fn in_range(nodata: NoData, image: &Image) -> bool {
    nodata.in_range(image.layout().format(), u32::from(image.layout().bits))
}

/// Checks a lossy codec: the index has only the range and the mean of GDAL's pixels.
fn check_lossy(pixels: &Pixels, shape: [usize; 3], row: &Row, wrong: &mut Vec<String>) {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    if dims.join("x") != row["pix_shape"] || pixels.dtype().widened().name() != row["pix_dtype"] {
        wrong.push(format!("{} {dims:?}, not {} {}", pixels.dtype(), row["pix_dtype"], row["pix_shape"]));
        return;
    }
    let values = pixels.to_f64(0..shape.iter().product());
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(min, max), &v| (min.min(v), max.max(v)));
    let column = |name: &str| row[name].parse::<f64>().unwrap_or(f64::NAN);
    let near = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance;
    let tolerance = if pixels.dtype() == DType::U8 { 2.0 } else { 2.0 * (max - min) / 255.0 };
    if !near(mean, column("pix_mean"), tolerance / 8.0)
        || !near(min, column("pix_min"), tolerance)
        || !near(max, column("pix_max"), tolerance)
    {
        let expected = (column("pix_min"), column("pix_max"), column("pix_mean"));
        wrong.push(format!("range and mean {:?}, not {expected:?}", (min, max, mean)));
    }
}

/// The peak memory of the process in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn corpus_is_read_as_gdal_reads_it() {
    let Some(root) = corpus() else {
        eprintln!("\n*** THE CORPUS IS NOT HERE: set SWATH_CORPUS to its folder. This test checked NOTHING. ***\n");
        return;
    };
    let rows = parse_csv(&std::fs::read_to_string(root.join("index.csv")).unwrap());
    assert!(rows.len() > 100, "index.csv was not understood");
    let only = std::env::var("SWATH_CORPUS_ONLY").unwrap_or_default();

    let mut table: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let (mut georeferenced_wrong, mut disasters, mut listing) = (Vec::new(), Vec::new(), String::new());
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for row in rows.iter().filter(|row| row["path"].contains(&only)) {
        let start = Instant::now();
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| check(&root, row)));
        let wrong = result.unwrap_or_else(|_| {
            disasters.push(format!("{} panicked", row["path"]));
            vec!["panicked".into()]
        });
        if start.elapsed() > PATIENCE {
            disasters.push(format!("{} took {:?}", row["path"], start.elapsed()));
        }
        let oracle = row["oracle"].as_str();
        let entry = table.entry(oracle).or_default();
        entry.0 += 1;
        if wrong.is_empty() {
            entry.1 += 1;
        } else {
            let _ = writeln!(listing, "{oracle:16} {}\n    {}", row["path"], wrong.join("\n    "));
            if oracle == "exact" && row["geokeys"] == "True" && !KNOWN.iter().any(|known| row["path"].ends_with(known))
            {
                georeferenced_wrong.push(row["path"].clone());
            }
        }
    }
    std::panic::set_hook(quiet);

    println!("\n{listing}\n{:16} {:>6} {:>6} {:>8}", "oracle", "files", "right", "percent");
    for (oracle, (files, right)) in &table {
        println!("{oracle:16} {files:>6} {right:>6} {:>7.2}%", f64::from(*right) * 100.0 / f64::from(*files));
    }
    let peak = peak_memory();
    println!("peak memory {} MB", peak / 1_000_000);
    assert!(disasters.is_empty(), "{disasters:#?}");
    if only.is_empty() {
        assert!(georeferenced_wrong.is_empty(), "georeferenced files that are wrong: {georeferenced_wrong:#?}");
        let (files, right) = table["exact"];
        assert!(f64::from(right) >= 0.98 * f64::from(files), "only {right} of {files} exact files are right");
        assert!(peak < 4_000_000_000, "the largest file needs {peak} bytes");
    }
}

/// A device gives the same pixels or the same error as the CPU for every file.
#[test]
fn devices_read_the_corpus_as_the_cpu_does() {
    let Some(root) = corpus() else {
        eprintln!("\n*** THE CORPUS IS NOT HERE: set SWATH_CORPUS to its folder. This test checked NOTHING. ***\n");
        return;
    };
    let pocl = OpenCl::choose(Some("pocl"));
    let gpu = Gpu::new(pocl.expect("PoCL is needed: package pocl-opencl-icd, which `make test` installs"));
    let rows = parse_csv(&std::fs::read_to_string(root.join("index.csv")).unwrap());
    let (mut on_device, mut by_cpu, mut refused, mut wrong) = (0, 0, 0, Vec::new());
    for row in &rows {
        let image = Dataset::open(root.join(&row["path"])).and_then(|dataset| dataset.image(0));
        let Ok(image) = image else { continue };
        // The largest files take too long on a CPU that acts as a device.
        if image.width() * image.height() * image.bands() as u64 > 16 << 20 {
            continue;
        }
        let expected = image.read(&ReadRequest::new());
        match (expected, image.read(&ReadRequest::new().device(&gpu))) {
            (Ok(expected), Ok(found)) => {
                if expected.pixels.as_bytes() != found.pixels.as_bytes() || expected.shape != found.shape {
                    wrong.push(format!("{}: other pixels", row["path"]));
                }
                let fell_back = found.report.gpu.is_none_or(|gpu| !gpu.fallbacks.is_empty());
                *(if fell_back { &mut by_cpu } else { &mut on_device }) += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (expected, found) => {
                wrong.push(format!("{}: {:?}, on the device {:?}", row["path"], expected.err(), found.err()));
            }
        }
    }
    println!("\n{on_device} files on the device, {by_cpu} with help of the CPU, {refused} refused by both");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(on_device > by_cpu, "most files are decoded on the device");
}

#[test]
fn error_messages_of_the_corpus_are_one_line() {
    let Some(root) = corpus() else {
        eprintln!("\n*** THE CORPUS IS NOT HERE: set SWATH_CORPUS to its folder. This test checked NOTHING. ***\n");
        return;
    };
    let rows = parse_csv(&std::fs::read_to_string(root.join("index.csv")).unwrap());
    for row in rows.iter().filter(|row| row["oracle"] == "reject") {
        let outcome: Result<_, Error> = Dataset::open(root.join(&row["path"])).and_then(|dataset| dataset.image(0));
        if let Err(error) = outcome {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.contains(": "), "{text}");
        }
    }
}
