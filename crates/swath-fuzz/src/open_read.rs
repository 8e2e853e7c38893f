//! Opens any bytes, reads them in every way and writes them in some way. Errors are allowed; panics, hangs,
//! excessive memory and different pixels are not.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use swath::io::{Memory, ReadAt, Source};
use swath::read::OnCorrupt;
use swath::tiff::Planar;
use swath::write::{BlockSize, Overviews, Resampling, Statistics};
use swath::{
    Compress, Dataset, Image, ImageSource, Layout, Limits, Raster, ReadRequest, RowSource, WriteConfig, WriteOptions,
    WritePlan, validate,
};

/// The limits of one input: low enough that the fuzzer runs thousands of inputs per second.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_ifds = 16;
    limits.max_tag_bytes = 1 << 20;
    limits.max_pixels = 1_000_000;
    limits.max_block_pixels = 1_000_000;
    limits.max_block_bytes = 16 << 20;
    limits.max_xml_bytes = 1 << 20;
    limits
}

/// A file and, after [`MARK`] and a letter for its kind, a sidecar file.
#[derive(Debug)]
struct Files {
    image: Memory,
    beside: Option<(&'static str, Memory)>,
}

const MARK: &[u8] = b"<!--beside:";

impl Files {
    fn split(data: &[u8]) -> Files {
        let at = data.windows(MARK.len()).rposition(|part| part == MARK);
        let beside = at.and_then(|at| data[at + MARK.len()..].split_first()).map(|(kind, rest)| {
            let suffix = match kind {
                b'o' => ".tif.ovr",
                b'm' => ".tif.msk",
                b'w' => ".tfw",
                _ => ".tif.aux.xml",
            };
            (suffix, Memory::new(rest))
        });
        Files { image: Memory::new(&data[..at.unwrap_or(data.len())]), beside }
    }
}

impl ReadAt for Files {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.image.read_at(offset, out)
    }
}

impl Source for Files {
    fn name(&self) -> String {
        "image.tif".into()
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> swath::io::Result<Option<Box<dyn Source>>> {
        let name = change(Path::new("image.tif"));
        let beside = self.beside.as_ref().filter(|(suffix, _)| name.to_string_lossy().ends_with(suffix));
        Ok(beside.map(|(_, file)| Box::new(file.clone()) as Box<dyn Source>))
    }
}

/// Reads the first images with their overviews, and writes them again.
pub fn run(data: &[u8]) {
    let Ok(dataset) = Dataset::from_source(Arc::new(Files::split(data)), limits()) else { return };
    let _ = dataset.structural_metadata();
    for number in 0..dataset.image_count().min(4) {
        if let Ok(image) = dataset.image(number) {
            let about = image.metadata();
            let _ = (format!("{about:?}"), about.wkt(), about.crs_name(), about.epsg(), image.mask_origin());
            for level in 0..image.levels().len().min(2) {
                read(&image, level, data);
            }
            write(&image, data);
        }
    }
}

/// Reads a level whole and in parts, which must agree.
fn read(image: &Image, level: usize, data: &[u8]) {
    let Some(layout) = image.levels().nth(level) else { return };
    let (width, height) = (layout.grid.width, layout.grid.height);
    let request = ReadRequest::new().level(level).threads(1);
    let rows = pick(data, 0, height);
    let cols = pick(data, 6, width);

    let full = image.read(&request);
    if let Ok(full) = &full {
        let bands = if level == 0 { image.bands() } else { full.shape[0] };
        assert_eq!(full.shape, [bands, height as usize, width as usize]);
        assert_eq!(full.pixels.as_bytes().len(), bands * (width * height) as usize * full.pixels.dtype().size());
    }
    let part = image.read(&request.clone().window(rows.clone(), cols.clone()));
    if let Ok(part) = &part {
        assert_eq!(part.shape[1..], [(rows.end - rows.start) as usize, (cols.end - cols.start) as usize]);
        if let Ok(full) = &full {
            assert_part(full, part, &rows, &cols);
        }
    }
    // Reading the bands in another order, interleaved by pixel, must give the same numbers.
    let last = image.bands() - 1;
    let turned = request.clone().window(rows.clone(), cols.clone()).bands([last, 0]).layout(Layout::BandsLast);
    if let (Ok(turned), Ok(part)) = (image.read(&turned), &part) {
        let size = part.pixels.dtype().size();
        let plane = part.shape[1] * part.shape[2];
        let planes: Vec<&[u8]> = part.pixels.as_bytes().chunks_exact(size).collect();
        let pairs = turned.pixels.as_bytes().chunks_exact(2 * size);
        assert_eq!(pairs.len(), plane);
        for (i, pair) in pairs.enumerate() {
            assert!(pair[..size] == *planes[last * plane + i] && pair[size..] == *planes[i], "pixel {i} differs");
        }
    }
    let filled = image.read(&request.clone().on_corrupt(OnCorrupt::Fill));
    match (&full, &filled) {
        (Ok(full), Ok(filled)) => assert!(full.pixels.as_bytes() == filled.pixels.as_bytes()),
        (Ok(_), Err(error)) => panic!("a valid image cannot be read with OnCorrupt::Fill: {error}"),
        (Err(_), Ok(filled)) => assert!(!filled.report.filled.is_empty(), "an error is hidden by OnCorrupt::Fill"),
        (Err(_), Err(_)) => {}
    }
    if let Ok(mask) = image.read_mask(&request.clone().window(rows.clone(), cols.clone())) {
        assert_eq!((mask.height as u64, mask.width as u64), (rows.end - rows.start, cols.end - cols.start));
        assert_eq!(mask.values.len(), mask.width * mask.height);
        assert!(mask.values.iter().all(|&value| matches!(value, 0 | 255)));
    }
}

/// Writes the image again with options that the input chooses. The pixels must be unchanged, and a COG must
/// be valid.
fn write(image: &Image, data: &[u8]) {
    let request = ReadRequest::new().threads(1);
    let Ok(full) = image.read(&request) else { return };
    if full.pixels.as_bytes().len() > 1 << 18 {
        return;
    }
    let Ok(mut source) = ImageSource::new(image, request.clone()) else { return };
    let mut choices = data.iter().rev().skip(12).copied();
    let mut choose = |of: usize| usize::from(choices.next().unwrap_or(0)) % of;
    let cog = choose(2) == 1;
    let options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
    let Ok(mut options) = options.like(image, &source) else { return };
    let codecs = ["none", "lzw", "deflate", "zstd", "packbits", "lz4", "lerc", "lerc_zstd", "webp"];
    let Ok(compress) = codecs[choose(codecs.len())].parse::<Compress>() else { return };
    options = options.compression(compress);
    options = options.blocks(match choose(4) {
        0 if !cog => BlockSize::Strips { rows: 1 + choose(20) as u32 },
        1 => BlockSize::Tiles { width: 16, height: 48 },
        _ => BlockSize::Tiles { width: 64, height: 64 },
    });
    options = options.planar([Planar::Chunky, Planar::Separate][choose(2)]);
    if choose(2) == 1 {
        options = options.overviews(Overviews::Factors(vec![2, 6, 7]));
    }
    if let Some(method) = Resampling::from_name(Resampling::NAMES[choose(Resampling::NAMES.len())]) {
        options = options.resampling(method);
    }
    options = options.skip_empty(choose(2) == 1);
    options = options.statistics(if choose(2) == 1 { Statistics::Embed } else { Statistics::Off });
    let Ok(plan) = WritePlan::new(source.shape(), options) else { return };
    let config = WriteConfig::new().threads(1).buffer_bytes(1 << choose(20));
    let bytes = match plan.to_bytes(&mut source, &config) {
        Ok((bytes, _)) => bytes,
        // The mask may be corrupt even if the pixels are not.
        Err(error) => return assert!(plan.has_mask(), "an image that was read cannot be written: {error}"),
    };
    let dataset = Dataset::from_bytes(bytes).expect("a written file can be opened");
    let again = dataset.image(0).and_then(|image| image.read(&request)).expect("a written file can be read");
    assert_eq!((again.shape, again.pixels.dtype()), (full.shape, full.pixels.dtype()));
    // LERC keeps values, not the bits of NaN and of negative zero.
    if !matches!(plan.compression(), Compress::Lerc { .. }) {
        assert!(again.pixels.as_bytes() == full.pixels.as_bytes(), "the pixels changed");
    }
    if cog {
        let validation = validate(&dataset).expect("a written file can be validated");
        assert!(validation.is_valid(), "{:?}", validation.findings);
    }
}

/// Returns a range inside `0..len` that the last bytes of the input choose.
fn pick(data: &[u8], skip: usize, len: u64) -> Range<u64> {
    let mut bytes = data.iter().rev().skip(skip).map(|&byte| u64::from(byte));
    let mut next = || bytes.next().unwrap_or(0) << 8 | bytes.next().unwrap_or(0);
    let start = (next() << 16 | next()) % len;
    // At most three hundred, so that a part of an image is read even if the whole is too large.
    let count = 1 + next() % (len - start).min(300);
    start..start + count
}

/// Checks that the pixels of a window equal the same pixels of the whole image.
fn assert_part(full: &Raster, part: &Raster, rows: &Range<u64>, cols: &Range<u64>) {
    assert_eq!((full.pixels.dtype(), full.shape[0]), (part.pixels.dtype(), part.shape[0]));
    let size = full.pixels.dtype().size();
    let [bands, height, width] = full.shape;
    let mut parts = part.pixels.as_bytes().chunks_exact(part.shape[2] * size);
    for band in 0..bands {
        for row in rows.clone() {
            let start = ((band * height + row as usize) * width + cols.start as usize) * size;
            let expected = &full.pixels.as_bytes()[start..start + part.shape[2] * size];
            assert!(parts.next() == Some(expected), "band {band}, row {row} of the window differs");
        }
    }
}
