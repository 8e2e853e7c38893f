//! Damaged files: small files of every kind, with bits flipped, pieces moved and ends cut off, are opened and
//! read. For any contents, the outcome is pixels or an error, in limited time and memory.
//!
//! The test is the same in every run and needs no fuzzer. `make fuzz` starts from the same files
//! (`SWATH_SEEDS` names their folder).

#[path = "support/measure.rs"]
mod measure;
#[path = "support/seeds.rs"]
mod seeds;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::peak_bytes;
use swath::io::Memory;
use swath::read::OnCorrupt;
use swath::{Dataset, Layout, Limits, ReadRequest};

/// The time limit for one damaged file, on a slow machine, unoptimised.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of damaged copies of each file.
const COPIES: usize = 400;
const COPIES_OF_CORPUS_FILES: usize = 60;

/// The number of damaged files from the corpus, and their maximum size.
const CORPUS_FILES: usize = 200;
const CORPUS_FILE_BYTES: u64 = 16 << 10;

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_ifds = 16;
    limits.max_tag_bytes = 1 << 20;
    limits.max_pixels = 250_000;
    limits.max_block_pixels = 250_000;
    limits.max_block_bytes = 1 << 20;
    limits.max_xml_bytes = 1 << 20;
    limits
}

/// The memory limit of a file under these limits: the samples of a read, twice (for the colour conversion),
/// and those of a block, of 16 bytes each; the tables of the JPEG 2000 decoder; and the file itself.
const MEMORY: usize = 96 << 20;

/// Opens and reads the file in all ways. Returns whether the whole image could be read.
fn exercise(bytes: &[u8]) -> bool {
    let Ok(dataset) = Dataset::from_source(Arc::new(Memory::new(bytes)), limits()) else { return false };
    let _ = swath::validate(&dataset);
    let mut sound = false;
    for number in 0..dataset.image_count().min(2) {
        let Ok(image) = dataset.image(number) else { continue };
        let _ = (image.metadata().wkt(), image.metadata().crs_name());
        for level in 0..image.levels().len().min(2) {
            let Some(layout) = image.levels().nth(level) else { continue };
            let (width, height) = (layout.grid.width, layout.grid.height);
            let request = ReadRequest::new().level(level).threads(1);
            let whole = image.read(&request);
            sound |= number == 0 && whole.is_ok();
            let window = request.clone().window(height / 3..height / 3 + 1, width / 2..width);
            let part = image.read(&window);
            if let (Ok(whole), Ok(part)) = (&whole, &part) {
                let size = whole.pixels.dtype().size();
                let start = (height / 3 * width + width / 2) as usize * size;
                let expected = &whole.pixels.as_bytes()[start..start + (width - width / 2) as usize * size];
                assert_eq!(&part.pixels.as_bytes()[..expected.len()], expected, "the window differs");
            }
            let filled = image.read(&request.clone().on_corrupt(OnCorrupt::Fill).layout(Layout::BandsLast));
            assert!(whole.is_err() || filled.is_ok(), "a valid image cannot be read with OnCorrupt::Fill");
            let _ = image.read_mask(&request);
        }
    }
    sound
}

/// Exercises one file within the limits of time and memory.
fn survive(name: &str, bytes: &[u8]) {
    let start = Instant::now();
    let peak = peak_bytes(|| {
        exercise(bytes);
    });
    let took = start.elapsed();
    if took > PATIENCE || peak > MEMORY {
        let kept = std::env::temp_dir().join("swath-mutation.tif");
        let _ = std::fs::write(&kept, bytes);
        panic!("{name}: {took:?} and {peak} bytes; the file is {}", kept.display());
    }
}

/// Random numbers, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}

/// Returns a damaged copy. Directories are small and have the most effect, so half of the damage goes to
/// small offsets.
fn damage(original: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=dice.below(4) {
        if bytes.len() < 8 {
            break;
        }
        let at = dice.below(bytes.len());
        let len = 1 + dice.below(16).min(bytes.len() - at - 1);
        match dice.below(7) {
            0 | 1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes[at] = [0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 127, 128, 254, 255][dice.below(15)],
            3 => bytes[at..at + len].fill([0, 255][dice.below(2)]),
            4 => {
                let to = dice.below(bytes.len() - len);
                bytes.copy_within(at..at + len, to);
            }
            5 => {
                bytes.splice(at..at, original[..len.min(original.len())].to_vec());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn seeds_are_valid_files() {
    let folder = std::env::var_os("SWATH_SEEDS").map(PathBuf::from);
    for (name, bytes) in seeds::all() {
        assert!(exercise(&bytes), "{name}");
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.tif")), bytes).unwrap();
        }
    }
}

#[test]
fn damaged_files_give_pixels_or_an_error_in_time() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for (name, bytes) in seeds::all() {
        for _ in 0..COPIES {
            survive(&name, &damage(&bytes, &mut dice));
        }
    }
}

#[test]
fn files_cut_off_anywhere_give_pixels_or_an_error() {
    for (name, bytes) in seeds::all().into_iter().step_by(3) {
        for len in (0..bytes.len()).step_by(7) {
            survive(&name, &bytes[..len]);
        }
    }
}

#[test]
fn damaged_files_of_the_corpus_give_pixels_or_an_error_in_time() {
    let root = match std::env::var_os("SWATH_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    let mut files = Vec::new();
    small_files(&root, &mut files);
    files.sort();
    // Evenly spaced over the corpus, which is sorted by origin.
    let step = files.len().div_ceil(CORPUS_FILES).max(1);
    let mut dice = Dice(0xD1B5_4A32_D192_ED03);
    for path in files.iter().step_by(step) {
        let Ok(bytes) = std::fs::read(path) else { continue };
        survive(&path.to_string_lossy(), &bytes);
        for _ in 0..COPIES_OF_CORPUS_FILES {
            survive(&path.to_string_lossy(), &damage(&bytes, &mut dice));
        }
    }
}

/// Collects the TIFF files below a folder that are small enough.
fn small_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.to_string_lossy().to_lowercase();
        if path.is_dir() {
            small_files(&path, files);
        } else if [".tif", ".tiff", ".btf", ".tf8"].iter().any(|end| name.ends_with(end))
            && path.metadata().is_ok_and(|data| data.len() <= CORPUS_FILE_BYTES)
        {
            files.push(path);
        }
    }
}
