//! Our declarations against NVIDIA's real libraries: every function that answers without a GPU is called.
//!
//! They are the wheels that `scripts/nvidia-wheels` fetches, in `target/nvidia-wheels` or where `SWATH_NVIDIA_WHEELS` says:
//! `nvcomp6` has nvCOMP 6 and the other libraries for CUDA 12, `nvcomp5` and `nvcomp4` have those of nvCOMP, `cuda13` has some for CUDA
//! 13.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io, ptr};

use swath_codec::Shape;
use swath_codec::jpeg2000::{self, EncodeParams, Quality};

use super::cufile::{self, CuFile};
use super::nvcomp::{Alignment, Chunked, Compress, Decompress, NvComp, Options};
use super::nvjpeg::{Handle, NvJpeg, Subsampling};
use super::nvjpeg2k::{Component, NvJpeg2000, PixelType, Pixels};
use super::search::Environment;
use super::{Library, Loaded, Refusal};

#[cfg(target_os = "linux")]
mod transfers;

/// A folder of the wheels; `None`, and a loud message, if it is not there.
fn site_packages(folder: &str, library: Library) -> Option<PathBuf> {
    let wheels = match env::var_os("SWATH_NVIDIA_WHEELS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvidia-wheels"),
    };
    let site = wheels.join(folder);
    if !site.exists() {
        // Not by `eprintln`, which is not seen when the test passes.
        let _ = writeln!(
            io::stderr(),
            "\n*** NVIDIA's wheels are not in {}: {} WAS NOT CHECKED. 'make setup' fetches them. ***\n",
            site.display(),
            library.name()
        );
        return None;
    }
    Some(site)
}

/// The file of a library in a folder of the wheels, found as it is found in `site-packages`.
fn wheel(folder: &str, library: Library) -> Option<PathBuf> {
    let site = site_packages(folder, library)?;
    let environment = Environment { site_packages: vec![site], ..Environment::default() };
    let places = environment.places(library);
    let file = places.iter().flat_map(|place| &place.files).find(|file| file.is_absolute());
    Some(file.unwrap_or_else(|| panic!("no {} in {places:?}", library.name())).clone())
}

/// Both versions of nvCOMP.
fn nvcomps() -> Vec<NvComp> {
    let files = ["nvcomp5", "nvcomp6"].into_iter().filter_map(|folder| wheel(folder, Library::NvComp));
    files.map(|file| NvComp::open(&file).unwrap_or_else(|why| panic!("{} {why}", file.display()))).collect()
}

/// Whether an error is of this code.
fn has_code<T: std::fmt::Debug>(result: crate::Result<T>, wanted: &str) {
    match result {
        Err(crate::Error::Library { code, .. }) if code == wanted => (),
        other => panic!("{wanted} was expected, not {other:?}"),
    }
}

const CODECS: [Chunked; 3] = [Chunked::Deflate, Chunked::Zstd, Chunked::Lz4];

#[test]
fn nvcomp_tells_its_version_and_where_it_is() {
    for nvcomp in nvcomps() {
        let major = nvcomp.version() / 1000;
        let (found, name) = (nvcomp.found(), format!("libnvcomp.so.{major}"));
        assert!(found.version.starts_with(&format!("{major}.")), "{found:?}");
        assert!(found.path.is_file() && found.path.ends_with(&name), "{found:?}");
        assert_eq!(nvcomp.cudart() / 1000, 12, "the CUDA that the wheel is made for");
    }
}

#[test]
fn nvcomp_4_is_refused_by_its_version_although_it_has_the_functions_of_6() {
    let Some(site) = site_packages("nvcomp4", Library::NvComp) else { return };
    let file = site.join("nvidia/nvcomp/libnvcomp.so.4");
    let refusal = NvComp::open(&file).unwrap_err();
    assert_eq!(refusal, Refusal::Version { found: "4.2.0".to_owned(), wanted: "5 or 6" });
}

#[test]
fn another_library_in_place_of_nvcomp_is_refused_by_the_symbol_it_lacks() {
    if let Some(file) = wheel("nvcomp6", Library::NvJpeg) {
        assert_eq!(NvComp::open(&file).unwrap_err(), Refusal::Symbol("nvcompGetProperties".to_owned()));
    }
}

#[test]
fn nvcomp_alignments_are_those_that_the_layout_of_tiles_is_made_for() {
    for nvcomp in nvcomps() {
        let decompress = CODECS.map(|codec| nvcomp.decompress_alignment(codec).unwrap());
        let compress = CODECS.map(|codec| nvcomp.compress_alignment(codec, 1).unwrap());
        let alignment = |input, output, temp| Alignment { input, output, temp };
        // A Deflate stream behind the two bytes of zlib's header begins at a multiple of 4.
        assert_eq!(decompress[0].input, 4);
        assert_eq!(decompress, [alignment(4, 1, 1), alignment(1, 1, 8), alignment(1, 1, 1)], "{}", nvcomp.version());
        assert_eq!(compress, [alignment(1, 8, 8), alignment(4, 1, 1), alignment(1, 1, 2)], "{}", nvcomp.version());
    }
}

#[test]
fn nvcomp_reads_the_options_that_are_passed_by_value() {
    let wrong = "nvcompErrorNotSupported (11)";
    for nvcomp in nvcomps() {
        for algorithm in 0..=5 {
            nvcomp.compress_alignment(Chunked::Deflate, algorithm).unwrap();
            nvcomp.compress_bound(Chunked::Deflate, algorithm, 1 << 16).unwrap();
        }
        for algorithm in [-1, 6, 99] {
            has_code(nvcomp.compress_alignment(Chunked::Deflate, algorithm), wrong);
            has_code(nvcomp.compress_bound(Chunked::Deflate, algorithm, 1 << 16), wrong);
            // SAFETY: a null stream is the default one.
            let temp = unsafe { nvcomp.compress_temp(Chunked::Deflate, algorithm, 9, 9, 81, ptr::null_mut()) };
            has_code(temp, wrong);
        }
        // The first word of what is decompressed by is the backend; the hardware's, 1, does no ZSTD.
        for (codec, backends, wrong) in [
            (Chunked::Deflate, &[0, 1, 2][..], wrong),
            (Chunked::Zstd, &[0, 2], "nvcompErrorInvalidValue (10)"),
            (Chunked::Lz4, &[0, 1, 2], wrong),
        ] {
            for backend in -1..=7 {
                let [decompress, _] = nvcomp.alignments_with(codec, Options::wrong(0, backend));
                match decompress {
                    Ok(_) => assert!(backends.contains(&backend), "{codec:?} {backend}"),
                    error => has_code(error, wrong),
                }
            }
        }
        // The first word of what LZ4 is compressed by is the type of its data. What follows is read by 6 only.
        let [_, compress] = nvcomp.alignments_with(Chunked::Lz4, Options::wrong(0, 99));
        has_code(compress, wrong);
        if nvcomp.version() >= 6000 {
            let [_, compress] = nvcomp.alignments_with(Chunked::Lz4, Options::wrong(1, 9));
            has_code(compress, wrong);
            let [decompress, _] = nvcomp.alignments_with(Chunked::Lz4, Options::wrong(3, 9));
            has_code(decompress, wrong);
        }
    }
}

/// A batch is refused for an argument before a device is looked for: so each stands where the library takes it from. Which of the arrays
/// is which it does not tell.
#[test]
fn nvcomp_refuses_a_batch_for_the_argument_that_is_wrong() {
    let (missing, odd) = ("nvcompErrorInvalidValue (10)", "nvcompErrorAlignment (17)");
    let (too_many, too_large) = ("nvcompErrorBatchSizeTooLarge (21)", "nvcompErrorChunkSizeTooLarge (18)");
    let memory = [0_u64; 64];
    let at = |n: u64| ptr::from_ref(&memory).addr() as u64 + n * 64;
    for nvcomp in nvcomps() {
        for codec in CODECS {
            let refused = |work: Decompress, code: &str| {
                // SAFETY: it is refused, and until then nothing of what it names is looked at.
                has_code(unsafe { nvcomp.decompress(codec, &work, ptr::null_mut()) }, code);
            };
            let (from, from_bytes, room, written, to, statuses) = (at(0), at(1), at(2), at(3), at(4), at(5));
            let work =
                Decompress { from, from_bytes, room, written, to, statuses, count: 3, temp: at(6), temp_bytes: 64 };
            for array in [Decompress { from: 0, ..work }, Decompress { room: 0, ..work }, Decompress { to: 0, ..work }]
            {
                refused(array, missing);
            }
            refused(Decompress { from: from + 4, ..work }, odd);
            // That of ZSTD's sizes is not looked at before.
            if codec != Chunked::Zstd {
                refused(Decompress { from_bytes: from_bytes + 4, ..work }, odd);
            }
            refused(Decompress { room: room + 4, ..work }, odd);
            refused(Decompress { written: written + 4, ..work }, odd);
            refused(Decompress { to: to + 4, ..work }, odd);
            refused(Decompress { statuses: statuses + 2, ..work }, odd);
            refused(Decompress { count: 1 << 33, ..work }, too_many);

            let refused = |algorithm, work: Compress, code: &str| {
                // SAFETY: as above.
                has_code(unsafe { nvcomp.compress(codec, algorithm, &work, ptr::null_mut()) }, code);
            };
            let (largest, count, temp, temp_bytes) = (1 << 16, 3, at(6), 64);
            let work = Compress { from, from_bytes, largest, to, written, statuses, count, temp, temp_bytes };
            for (array, shifted) in [
                (Compress { from: 0, ..work }, Compress { from: from + 4, ..work }),
                (Compress { from_bytes: 0, ..work }, Compress { from_bytes: from_bytes + 4, ..work }),
                (Compress { to: 0, ..work }, Compress { to: to + 4, ..work }),
                (Compress { written: 0, ..work }, Compress { written: written + 4, ..work }),
            ] {
                refused(1, array, missing);
                refused(1, shifted, odd);
            }
            refused(1, Compress { temp: 0, ..work }, missing);
            refused(1, Compress { statuses: statuses + 2, ..work }, odd);
            refused(1, Compress { largest: 1 << 40, ..work }, too_large);
            refused(1, Compress { count: 1 << 33, ..work }, too_many);
            if codec == Chunked::Deflate {
                refused(99, work, "nvcompErrorNotSupported (11)");
            }
        }
    }
}

#[test]
fn nvcomp_bounds_hold_what_does_not_compress() {
    for nvcomp in nvcomps() {
        for (codec, at_64k, at_512k) in
            [(Chunked::Deflate, 148_256, 1_185_824), (Chunked::Zstd, 65_547, 524_322), (Chunked::Lz4, 65_800, 526_352)]
        {
            assert_eq!(nvcomp.compress_bound(codec, 1, 64 << 10).unwrap(), at_64k, "{codec:?}");
            assert_eq!(nvcomp.compress_bound(codec, 1, 512 << 10).unwrap(), at_512k, "{codec:?}");
        }
    }
}

#[test]
fn nvcomp_working_memory_grows_with_the_batch() {
    for nvcomp in nvcomps() {
        // SAFETY: a null stream is the default one.
        let decompress = |codec, count| unsafe {
            nvcomp.decompress_temp(codec, count, 128 << 10, count * (128 << 10), ptr::null_mut()).unwrap()
        };
        // SAFETY: as above.
        let compress = |codec, count| unsafe {
            nvcomp.compress_temp(codec, 1, count, 64 << 10, count * (64 << 10), ptr::null_mut())
        };
        assert_eq!(decompress(Chunked::Deflate, 100), 0);
        assert_eq!(decompress(Chunked::Lz4, 100), 0);
        assert_eq!(decompress(Chunked::Zstd, 100), 40_015_200);
        assert!(decompress(Chunked::Zstd, 200) > decompress(Chunked::Zstd, 100));
        assert_eq!(compress(Chunked::Deflate, 100), Ok(36_048_000));
        assert_eq!(compress(Chunked::Lz4, 100), Ok(3_276_800));
        // It asks for the device.
        match compress(Chunked::Zstd, 100) {
            Ok(bytes) => assert!(bytes > 0),
            error => has_code(error, "nvcompErrorCudaError (1000)"),
        }
    }
}

/// nvJPEG2000, which is never unloaded.
fn nvjpeg2k() -> Option<&'static NvJpeg2000> {
    let file = wheel("nvcomp6", Library::NvJpeg2000)?;
    Some(Box::leak(Box::new(NvJpeg2000::open(&file).unwrap())))
}

/// A codestream of noise.
fn codestream(width: usize, height: usize, samples: usize, pixel: PixelType) -> Vec<u8> {
    let shape = Shape { width, height, samples, bits: pixel.bits().into(), format: pixel.format() };
    let pixels: Vec<u8> = (0..shape.len()).map(|i| (i * i % 251) as u8).collect();
    let mut out = Vec::new();
    let params = EncodeParams { quality: Quality::Lossless, rgb: samples == 3 };
    jpeg2000::encode(&params, &pixels, shape, &mut out).unwrap();
    out
}

const PIXELS: [PixelType; 3] = [PixelType::U8, PixelType::U16, PixelType::I16];

#[test]
fn nvjpeg2000_parser_sees_what_our_encoder_wrote() {
    let Some(library) = nvjpeg2k() else { return };
    assert!(library.found().version.starts_with("0."), "{:?}", library.found());
    assert_eq!(library.cudart().map(|version| version / 1000), Ok(12), "the CUDA that the wheel is made for");
    let decoder = library.decoder().unwrap();
    let mut stream = decoder.codestream().unwrap();
    for pixel in PIXELS {
        for samples in 1..=4 {
            let bytes = codestream(37, 21, samples, pixel);
            let picture = decoder.parse(&mut stream, &bytes).unwrap();
            assert_eq!((picture.width, picture.height), (37, 21));
            let bits = if pixel == PixelType::U8 { 8 } else { 16 };
            let component = Component { width: 37, height: 21, bits, signed: pixel == PixelType::I16 };
            assert_eq!(picture.components, vec![component; samples], "{pixel:?}");
        }
    }
}

#[test]
fn nvjpeg2000_parser_refuses_what_is_cut_off_or_no_codestream() {
    let Some(library) = nvjpeg2k() else { return };
    let decoder = library.decoder().unwrap();
    let mut stream = decoder.codestream().unwrap();
    let whole = codestream(64, 64, 1, PixelType::U8);
    for (what, bytes) in
        [("nothing", &[][..]), ("two bytes", &whole[..2]), ("half a header", &whole[..40]), ("zeros", &[0; 200])]
    {
        decoder.parse(&mut stream, bytes).expect_err(what);
    }
    let mut components = whole.clone();
    // The number of components, in the SIZ marker.
    components[40..42].copy_from_slice(&[0xff; 2]);
    decoder.parse(&mut stream, &components).expect_err("components that are not described");
    // What failed leaves nothing behind.
    assert_eq!(decoder.parse(&mut stream, &whole).unwrap().components.len(), 1);
}

#[test]
fn nvjpeg2000_takes_the_settings_for_pictures_of_all_sizes_and_kinds() {
    let Some(library) = nvjpeg2k() else { return };
    let encoder = library.encoder().unwrap();
    for (width, height) in [(2, 2), (3, 40), (31, 31), (32, 32), (33, 63), (64, 1000), (256, 256), (512, 512)] {
        for pixel in PIXELS {
            for (components, rgb) in [(1, false), (2, false), (3, false), (3, true), (4, false), (4, true)] {
                let pixels = Pixels { width, height, components, pixel, rgb };
                encoder.params(&pixels).unwrap_or_else(|error| panic!("{pixels:?}: {error}"));
            }
        }
    }
    let pixels = Pixels { width: 64, height: 64, components: 1, pixel: PixelType::U8, rgb: false };
    has_code(encoder.params(&Pixels { width: 1, height: 1, ..pixels }), "NVJPEG2K_STATUS_JPEG_NOT_SUPPORTED (4)");
}

#[test]
fn nvjpeg2000_is_not_asked_for_what_ends_the_process() {
    let Some(library) = nvjpeg2k() else { return };
    let encoder = library.encoder().unwrap();
    // The real one divides by zero.
    for (width, height, components) in [(0, 64, 1), (64, 0, 1), (64, 64, 0), (64, 64, 5)] {
        let pixels = Pixels { width, height, components, pixel: PixelType::U8, rgb: false };
        assert!(matches!(encoder.params(&pixels), Err(crate::Error::Unable { .. })), "{pixels:?}");
    }
}

#[test]
fn nvjpeg2000_without_a_gpu_has_no_state_and_says_so() {
    let Some(library) = nvjpeg2k() else { return };
    // SAFETY: loading runs the initialisers of NVIDIA's driver, which are made to be run in any process.
    if unsafe { cudarc::driver::sys::is_culib_present() } {
        return;
    }
    has_code(library.decoder().unwrap().state(), "NVJPEG2K_STATUS_EXECUTION_FAILED (6)");
    has_code(library.encoder().unwrap().state(), "NVJPEG2K_STATUS_EXECUTION_FAILED (6)");
}

#[test]
fn nvjpeg_tells_its_version_and_needs_a_gpu_even_to_read_a_header() {
    for (folder, version, cuda) in [("nvcomp6", "12.", 12), ("cuda13", "13.", 13)] {
        let Some(file) = wheel(folder, Library::NvJpeg) else { continue };
        let library: &'static NvJpeg = Box::leak(Box::new(NvJpeg::open(&file).unwrap()));
        assert!(library.found().version.starts_with(version), "{:?}", library.found());
        assert_eq!(library.cudart().map(|version| version / 1000), Ok(cuda), "the CUDA that the wheel is made for");
        match library.handle() {
            Ok(handle) => nvjpeg_reads_headers(&handle),
            error => has_code(error, "NVJPEG_STATUS_EXECUTION_FAILED (6)"),
        }
    }
}

fn nvjpeg_reads_headers(handle: &Handle) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../swath-codec/testdata");
    let bytes = fs::read(data.join("jpeg-420.jpg")).unwrap();
    let info = handle.image_info(&bytes).unwrap();
    assert_eq!((info.components, info.subsampling), (3, Subsampling::S420));
    assert_eq!(info.widths[1], info.widths[0].div_ceil(2));
    handle.image_info(&bytes[..40]).unwrap_err();
}

#[test]
fn cufile_tells_its_version_and_without_a_driver_that_it_is_missing() {
    for (folder, version) in [("nvcomp6", "1.14"), ("cuda13", "1.")] {
        let Some(file) = wheel(folder, Library::CuFile) else { continue };
        let (functions, found) = cufile::bind(&Loaded::open(&file).unwrap()).unwrap();
        assert!(found.version.starts_with(version), "{found:?}");
        // SAFETY: loading runs the initialisers of NVIDIA's driver, which are made to be run in any process.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            let missing = CuFile::new(functions, found).unwrap_err().to_string();
            assert!(missing.ends_with("cannot be used: NVIDIA's driver, libcuda.so.1, is not there"), "{missing}");
            assert!(!Path::new("cufile.log").exists(), "it was opened nevertheless");
        }
    }
}

/// In a process of its own, because cuFile leaves a log in the working folder.
#[test]
fn cufile_that_does_not_open_says_why_by_name() {
    const CHILD: &str = "SWATH_REAL_CUFILE";
    if let Some(file) = env::var_os(CHILD) {
        let (functions, _) = cufile::bind(&Loaded::open(Path::new(&file)).unwrap()).unwrap();
        let _ = write!(io::stderr(), "opened: {}.", cufile::try_open(&functions));
        return;
    }
    let Some(file) = wheel("nvcomp6", Library::CuFile) else { return };
    let folder = env::temp_dir().join(format!("swath-real-cufile-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "vendor::real::cufile_that_does_not_open_says_why_by_name", "--nocapture"]);
    let output = child.env(CHILD, file).current_dir(&folder).output().unwrap();
    let _ = fs::remove_dir_all(&folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let without_driver = said.contains("opened: CU_FILE_NVFS_SETUP_ERROR (5033).");
    assert!(without_driver || said.contains("opened: yes."), "{said}");
}
