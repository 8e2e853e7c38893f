//! Small hostile files: each would cost gigabytes or minutes if a reader trusted the numbers in it.

#[path = "support/measure.rs"]
mod measure;

use std::time::{Duration, Instant};

use measure::peak_bytes;
use swath::tiff::{Builder, ByteOrder, Tag, Value};
use swath::{Dataset, Layout, ReadRequest};

const MIB: usize = 1 << 20;

/// The tags of an image whose blocks are the first bytes of the file.
fn image(width: u32, height: u32, bits: u16, samples: u16, compression: u16) -> Vec<(Tag, Value)> {
    vec![
        (Tag::IMAGE_WIDTH, Value::Long(vec![width])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![height])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![bits])),
        (Tag::COMPRESSION, Value::Short(vec![compression])),
        (Tag::PHOTOMETRIC, Value::Short(vec![1])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![samples])),
    ]
}

fn strips(rows: u32, offsets: Vec<u32>, counts: Vec<u32>) -> Vec<(Tag, Value)> {
    vec![
        (Tag::ROWS_PER_STRIP, Value::Long(vec![rows])),
        (Tag::STRIP_OFFSETS, Value::Long(offsets)),
        (Tag::STRIP_BYTE_COUNTS, Value::Long(counts)),
    ]
}

fn tiles(width: u32, height: u32, offsets: Vec<u32>, counts: Vec<u32>) -> Vec<(Tag, Value)> {
    vec![
        (Tag::TILE_WIDTH, Value::Long(vec![width])),
        (Tag::TILE_LENGTH, Value::Long(vec![height])),
        (Tag::TILE_OFFSETS, Value::Long(offsets)),
        (Tag::TILE_BYTE_COUNTS, Value::Long(counts)),
    ]
}

/// A file with `data`, followed by its directories.
fn file(data: &[u8], tags: &[Vec<(Tag, Value)>]) -> Vec<u8> {
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.append(data);
    builder.ifd(&tags.concat());
    builder.finish()
}

/// Opens and reads everything in both layouts, and ignores errors. Returns the peak memory and the time.
fn cost(bytes: Vec<u8>) -> (usize, Duration) {
    let start = Instant::now();
    let peak = peak_bytes(|| {
        let Ok(dataset) = Dataset::from_bytes(bytes) else { return };
        let Ok(image) = dataset.image(0) else { return };
        for layout in [Layout::BandsFirst, Layout::BandsLast] {
            let _ = image.read(&ReadRequest::new().threads(1).layout(layout));
        }
    });
    (peak, start.elapsed())
}

#[test]
fn tiles_of_one_pixel_cost_little_more_than_their_pixels() {
    for (width, height) in [(1_000_000, 1), (1, 1_000_000), (1000, 1000)] {
        let bytes = file(&[], &[image(width, height, 8, 1, 1), tiles(1, 1, vec![0], vec![0])]);
        let (peak, _) = cost(bytes);
        assert!(peak < 16 * MIB, "{width} x {height}: {peak} bytes for a million pixels");
    }
}

#[test]
fn strip_of_narrow_rows_costs_little_more_than_its_pixels() {
    for samples in [1, 2] {
        let bytes = file(&[1; 64], &[image(1, 4_000_000, 8, samples, 8), strips(4_000_000, vec![8], vec![64])]);
        let (peak, _) = cost(bytes);
        assert!(peak < 24 * MIB, "{samples} samples: {peak} bytes");
    }
}

#[test]
fn blocks_that_all_claim_the_whole_file_are_fetched_in_bounded_memory() {
    const BLOCKS: usize = 10_000;
    let data = vec![0; 4 * MIB];
    for compression in [1, 5, 8] {
        let (offsets, counts) = (vec![8; BLOCKS], vec![data.len() as u32; BLOCKS]);
        let bytes = file(&data, &[image(100, 100, 8, 1, compression), tiles(1, 1, offsets, counts)]);
        let (peak, took) = cost(bytes);
        assert!(peak < 32 * MIB, "compression {compression}: {peak} bytes");
        assert!(took < Duration::from_secs(10), "compression {compression}: {took:?}");
    }
}

#[test]
fn blocks_with_gaps_between_them_are_fetched_in_bounded_memory() {
    const BLOCKS: u32 = 40_000;
    // Each block is one byte, 4000 bytes after the previous one; the second half wraps around.
    let data = vec![0; 16 * MIB];
    let offsets = (0..BLOCKS).map(|i| 8 + i % 4000 * 4000).collect();
    let bytes = file(&data, &[image(200, 200, 8, 1, 1), tiles(1, 1, offsets, vec![1; BLOCKS as usize])]);
    let (peak, _) = cost(bytes);
    assert!(peak < 24 * MIB, "{peak} bytes");
}

#[test]
fn list_of_corrupt_blocks_does_not_outgrow_the_pixels() {
    const BLOCKS: usize = 1_000_000;
    let tags = vec![
        (Tag::TILE_WIDTH, Value::Short(vec![1])),
        (Tag::TILE_LENGTH, Value::Short(vec![1])),
        (Tag::TILE_OFFSETS, Value::Long(vec![u32::MAX; BLOCKS])),
        (Tag::TILE_BYTE_COUNTS, Value::Bytes(vec![1; BLOCKS])),
    ];
    let bytes = file(&[], &[image(1000, 1000, 8, 1, 8), tags]);
    let peak = peak_bytes(|| {
        let image = Dataset::from_bytes(bytes).unwrap().image(0).unwrap();
        let request = ReadRequest::new().threads(1).on_corrupt(swath::read::OnCorrupt::Fill);
        let report = image.read(&request).unwrap().report;
        assert_eq!((report.filled_blocks, report.filled.len()), (BLOCKS as u64, swath::ReadReport::MAX_LISTED));
    });
    assert!(peak < 16 * MIB, "{peak} bytes");
}

#[test]
fn overlapping_directories_are_not_all_loaded() {
    // 200 SubIFDs, two bytes apart, of 65,535 entries each.
    let mut builder = Builder::new(ByteOrder::Little, false);
    let subs = builder.append(&vec![0xFF; 2 * 200 + 65_536 * 12]);
    let mut tags = image(1, 1, 8, 1, 1);
    tags.extend(strips(1, vec![8], vec![1]));
    tags.push((Tag::SUB_IFDS, Value::Long((0..200).map(|i| subs.offset as u32 + 2 * i).collect())));
    builder.ifd(&tags);
    let (peak, took) = cost(builder.finish());
    assert!(peak < 64 * MIB, "{peak} bytes");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn old_jpeg_tables_are_read_once_for_each_component() {
    let tables = || Value::Bytes(vec![8; MIB]);
    let tags = vec![
        (Tag::JPEG_Q_TABLES, tables()),
        (Tag::JPEG_DC_TABLES, tables()),
        (Tag::JPEG_AC_TABLES, tables()),
        (Tag::JPEG_PROC, Value::Short(vec![1])),
    ];
    let bytes = file(&[0; 1024], &[image(8, 8, 8, 1, 6), strips(8, vec![8], vec![64]), tags]);
    let (peak, _) = cost(bytes);
    assert!(peak < 48 * MIB, "{peak} bytes");
}

#[test]
fn jpeg_tables_are_not_read_again_for_each_block() {
    const BLOCKS: usize = 10_000;
    let tags = vec![(Tag::JPEG_TABLES, Value::Bytes(vec![0; 8 * MIB]))];
    let data = [0xFF, 0xD8, 0xFF, 0xD9];
    let bytes = file(&data, &[image(100, 100, 8, 1, 7), tiles(1, 1, vec![8; BLOCKS], vec![4; BLOCKS]), tags]);
    let dataset = Dataset::from_bytes(bytes).unwrap();
    let start = Instant::now();
    let request = ReadRequest::new().threads(1).on_corrupt(swath::read::OnCorrupt::Fill);
    let _ = dataset.image(0).unwrap().read(&request);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn metadata_of_many_items_for_many_bands_is_read_in_one_pass() {
    let item = "<Item name=\"a\" sample=\"1\">1</Item>";
    let xml = format!("<GDALMetadata>{}</GDALMetadata>", item.repeat(20_000));
    let tags = vec![(Tag::GDAL_METADATA, Value::Text(xml))];
    let bytes = file(&[0; 64], &[image(1, 1, 8, 65_535, 1), strips(1, vec![8], vec![64]), tags]);
    let (peak, took) = cost(bytes);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(peak < 64 * MIB, "{peak} bytes");
}

#[test]
fn extra_samples_are_not_searched_again_for_each_band() {
    let tags = vec![(Tag::EXTRA_SAMPLES, Value::Short(vec![0; 65_535]))];
    let bytes = file(&[0; 64], &[image(1, 1, 8, 65_535, 1), strips(1, vec![8], vec![64]), tags]);
    let (_, took) = cost(bytes);
    assert!(took < Duration::from_secs(1), "{took:?}");
}
