//! The guarantees of a read: correct pixels in every layout, errors that name the block, no lost blocks, no
//! global state.

mod files;

use std::ops::Range;
use std::sync::Mutex;

use files::{Plan, sample};
use swath::read::{Cancel, OnCorrupt, Progress};
use swath::tiff::{ByteOrder, Compression, Tag, Value};
use swath::{Dataset, Error, Image, Layout, Limits, ReadRequest};
use swath_codec::predictor::Predictor;

fn open(bytes: Vec<u8>) -> Image {
    Dataset::from_bytes(bytes).unwrap().image(0).unwrap()
}

/// Reads a window and compares every sample with the written one.
fn check(image: &Image, rows: Range<usize>, cols: Range<usize>, bands: &[usize], layout: Layout, threads: usize) {
    let window = (rows.start as u64..rows.end as u64, cols.start as u64..cols.end as u64);
    let request = ReadRequest::new().window(window.0, window.1).bands(bands).layout(layout).threads(threads);
    let raster = image.read(&request).unwrap();
    let pixels: &[u16] = raster.pixels.as_slice().unwrap();
    let (height, width) = (rows.len(), cols.len());
    for (i, row) in rows.clone().enumerate() {
        for (j, col) in cols.clone().enumerate() {
            for (k, &band) in bands.iter().enumerate() {
                let at = match layout {
                    Layout::BandsFirst => (k * height + i) * width + j,
                    Layout::BandsLast => (i * width + j) * bands.len() + k,
                };
                assert_eq!(pixels[at], sample(row, col, band), "row {row}, column {col}, band {band}");
            }
        }
    }
}

#[test]
fn every_pixel_is_in_its_place_in_every_layout() {
    let codecs = [Compression::NONE, Compression::LZW, Compression::DEFLATE, Compression::ZSTD, Compression::PACKBITS];
    for (n, compression) in codecs.into_iter().enumerate() {
        for (tile, strips) in [((16, 16), 0), ((32, 16), 0), ((64, 64), 0), ((0, 0), 1), ((0, 0), 7), ((0, 0), 100)] {
            for (planar, bands) in [(false, 1), (false, 3), (true, 3)] {
                let order = if (n + strips) % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
                // PackBits does not support a predictor.
                let predictor =
                    if compression == Compression::PACKBITS { Predictor::None } else { Predictor::Horizontal };
                let mut plan =
                    Plan { tile, planar, bands, compression, order, predictor, big: planar, ..Plan::default() };
                if strips > 0 {
                    plan = plan.strips(strips);
                }
                let image = open(plan.build());
                let all: Vec<usize> = (0..bands).collect();
                for layout in [Layout::BandsFirst, Layout::BandsLast] {
                    check(&image, 0..40, 0..50, &all, layout, 1);
                    check(&image, 0..40, 0..50, &all, layout, 3);
                    check(&image, 17..39, 3..49, &[bands - 1, 0, bands - 1], layout, 2);
                    check(&image, 15..16, 15..17, &all, layout, 1);
                    check(&image, 39..40, 49..50, &[0], layout, 1);
                }
            }
        }
    }
}

#[test]
fn sparse_blocks_are_nodata_or_zero() {
    for (nodata, expected) in [(None, 0), (Some("65535"), 65535), (Some("-1"), 0)] {
        let extra = nodata.map(|text| (Tag::GDAL_NODATA, Value::Text(text.into()))).into_iter().collect();
        let plan = Plan { sparse: vec![1, 5], extra, ..Plan::default() };
        let raster = open(plan.build()).read(&ReadRequest::new()).unwrap();
        assert_eq!(raster.report.sparse_blocks, 2);
        let pixels: &[u16] = raster.pixels.as_slice().unwrap();
        assert_eq!(pixels[16], expected, "tile (0, 1) is not stored");
        assert_eq!(pixels[20 * 50 + 20], expected, "tile (1, 1) is not stored");
        assert_eq!(pixels[20 * 50], sample(20, 0, 0), "tile (1, 0) is");
    }
}

#[test]
fn truncated_tile_is_an_error_that_names_it_not_zeros() {
    for compression in [Compression::LZW, Compression::DEFLATE, Compression::ZSTD] {
        let plan = Plan { compression, ..Plan::default() };
        let image = open(
            plan.build_with(|number, block| block.truncate(if number == 6 { block.len() / 2 } else { block.len() })),
        );
        let error = image.read(&ReadRequest::new()).unwrap_err();
        assert!(matches!(&error, Error::Block { block, .. } if (block.row, block.col) == (1, 2)), "{error}");
        assert!(error.to_string().contains("tile (1, 2)"), "{error}");
        // A window that does not touch the tile is not affected.
        check(&image, 0..16, 0..50, &[0], Layout::BandsFirst, 1);
    }
}

#[test]
fn of_several_damaged_blocks_the_first_in_file_order_is_reported_for_any_number_of_threads() {
    let per_band = 32 * 32;
    for planar in [false, true] {
        let plan = Plan { width: 512, height: 512, bands: 2, planar, ..Plan::default() };
        // In a planar file the damaged blocks of the second band come first at their position in the image.
        let damaged = if planar { [900, per_band + 3, per_band + 700] } else { [77, 500, 1023] };
        let image = open(plan.build_with(|number, block| {
            if damaged.contains(&number) {
                block.fill(0xff);
            }
        }));
        for layout in [Layout::BandsFirst, Layout::BandsLast] {
            for bands in [[0, 1], [1, 0]] {
                for threads in [1, 2, 3, 8] {
                    let request = ReadRequest::new().bands(bands).layout(layout).threads(threads);
                    let error = image.read(&request).unwrap_err();
                    let first = (damaged[0] as u64 / 32, damaged[0] as u64 % 32);
                    assert!(
                        matches!(&error, Error::Block { block, .. } if (block.row, block.col) == first),
                        "planar {planar}, {layout:?}, bands {bands:?}, {threads} threads: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn corrupt_block_is_filled_and_reported_on_request() {
    let extra = vec![(Tag::GDAL_NODATA, Value::Text("7".into()))];
    let plan = Plan { extra, ..Plan::default() };
    let image = open(plan.build_with(|number, block| {
        if number == 0 {
            block.fill(0xff)
        }
    }));
    assert!(image.read(&ReadRequest::new()).is_err());
    let raster = image.read(&ReadRequest::new().on_corrupt(OnCorrupt::Fill).threads(2)).unwrap();
    assert_eq!(raster.report.filled.len(), 1);
    assert_eq!(raster.report.filled[0].0.to_string(), "tile (0, 0)");
    let pixels: &[u16] = raster.pixels.as_slice().unwrap();
    assert_eq!((pixels[0], pixels[15], pixels[16]), (7, 7, sample(0, 16, 0)));
}

#[test]
fn block_past_the_end_of_the_file_is_named() {
    let plan = Plan { compression: Compression::NONE, ..Plan::default() }.strips(10);
    let bytes = plan.build();
    let offsets = vec![8, 8, 8, bytes.len() as u32 - 1];
    let extra = vec![(Tag::STRIP_OFFSETS, Value::Long(offsets))];
    let image = open(Plan { extra, ..plan }.build());
    let error = image.read(&ReadRequest::new().window(30..40, 0..50)).unwrap_err();
    assert!(matches!(&error, Error::BlockPastEnd { block, .. } if block.row == 3), "{error}");
}

#[test]
fn decompression_bomb_costs_no_more_than_its_block() {
    // 16 MiB of zeros in a block that needs 512 bytes.
    let mut bomb = Vec::new();
    swath_codec::deflate::Encoder::new(9).unwrap().encode(&vec![0; 16 << 20], &mut bomb);
    let plan = Plan { predictor: Predictor::None, ..Plan::default() };
    let image = open(plan.build_with(|_, block| block.clone_from(&bomb)));
    let raster = image.read(&ReadRequest::new().threads(1)).unwrap();
    assert!(raster.report.working_bytes < 1 << 20, "{} bytes", raster.report.working_bytes);
    // Padding rows below the image are not decoded: 4 columns of tiles, 40 rows of 32 bytes.
    assert_eq!(raster.report.bytes_decoded, 4 * 40 * 32);
}

#[test]
fn windows_bands_and_levels_outside_the_image_are_refused() {
    let image = open(Plan::default().build());
    for (rows, cols) in [(0..41, 0..50), (0..40, 0..51), (5..5, 0..50), (u64::MAX - 1..u64::MAX, 0..1)] {
        assert!(matches!(image.read(&ReadRequest::new().window(rows, cols)), Err(Error::Window { .. })));
    }
    assert!(matches!(image.read(&ReadRequest::new().bands([1])), Err(Error::Band { band: 1, count: 1, .. })));
    assert!(matches!(image.read(&ReadRequest::new().level(1)), Err(Error::Level { level: 1, count: 1, .. })));
    assert!(matches!(Dataset::from_bytes(Plan::default().build()).unwrap().image(1), Err(Error::Image { .. })));
}

#[test]
fn buffer_of_another_type_or_size_is_refused_before_anything_is_read() {
    let image = open(Plan::default().build());
    assert!(matches!(image.read_into(&ReadRequest::new(), &mut [0_i16; 2000]), Err(Error::DType { .. })));
    assert!(matches!(image.read_into(&ReadRequest::new(), &mut [0_u16; 1999]), Err(Error::BufferSize { .. })));
    let mut pixels = [0_u16; 2000];
    image.read_into(&ReadRequest::new(), &mut pixels).unwrap();
    assert_eq!(pixels[1999], sample(39, 49, 0));
}

#[test]
fn limits_stop_a_read_before_its_memory_is_allocated() {
    let huge = vec![(Tag::IMAGE_WIDTH, Value::Long(vec![200_000])), (Tag::IMAGE_LENGTH, Value::Long(vec![200_000]))];
    let image = open(Plan { extra: huge, ..Plan::default() }.build());
    assert!(matches!(image.read(&ReadRequest::new()), Err(Error::Limit { name: "max_pixels", .. })));
    check(&image, 0..10, 0..16, &[0], Layout::BandsFirst, 1);
    let mut limits = Limits::default();
    limits.max_block_pixels = 255;
    let request = ReadRequest::new().window(0..1, 0..1).limits(limits);
    assert!(matches!(image.read(&request), Err(Error::Limit { name: "max_block_pixels", .. })));

    let mut limits = Limits::default();
    limits.max_block_memory = 15;
    let request = ReadRequest::new().window(0..1, 0..1).limits(limits);
    let too_large = |result| matches!(result, Err(Error::Limit { name: "max_block_memory", value: 16.., .. }));
    let compressed = image.codec_name() != Some("none");
    assert_eq!(too_large(image.read(&request)), compressed, "rows of blocks without compression are read alone");
}

#[test]
fn cancelled_read_stops_and_progress_counts_to_the_end() {
    let image = open(Plan::default().strips(1).build());
    let seen = Mutex::new(Vec::new());
    let note = |progress: Progress| seen.lock().unwrap().push(progress);
    image.read(&ReadRequest::new().progress(&note).threads(2)).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() > 1 && seen.iter().all(|progress| progress.total == 40));
    assert_eq!(seen.iter().map(|progress| progress.done).max(), Some(40));

    let cancel = Cancel::new();
    let stop = |progress: Progress| {
        if progress.done > 0 {
            cancel.cancel()
        }
    };
    let result = image.read(&ReadRequest::new().progress(&stop).cancel(&cancel).threads(1));
    assert!(matches!(result, Err(Error::Cancelled)));
}

#[test]
fn one_image_is_read_from_many_threads_at_once() {
    let image = open(Plan { bands: 3, ..Plan::default() }.build());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let image = &image;
            scope.spawn(move || {
                for round in 0..20 {
                    let row = (thread * 3 + round) % 30;
                    check(image, row..row + 9, thread..thread + 30, &[2, 0], Layout::BandsLast, 1 + thread % 3);
                }
            });
        }
    });
}

#[test]
fn codec_that_is_not_supported_is_named_by_name_and_number() {
    let open_with = |code: u16| {
        let extra = vec![(Tag::COMPRESSION, Value::Short(vec![code]))];
        open(Plan { extra, ..Plan::default() }.build()).read(&ReadRequest::new()).unwrap_err().to_string()
    };
    assert!(open_with(34661).contains("JBIG (34661) is not supported"), "{}", open_with(34661));
    assert!(open_with(12345).contains("unknown (12345) is not supported"), "{}", open_with(12345));
}

#[test]
fn missing_byte_counts_do_not_prevent_a_read() {
    for compression in [Compression::NONE, Compression::LZW, Compression::ZSTD, Compression::DEFLATE] {
        let plan = Plan { compression, ..Plan::default() }.strips(40);
        // A value of 0 counts as absent.
        let extra = vec![(Tag::STRIP_BYTE_COUNTS, Value::Long(vec![0]))];
        check(&open(Plan { extra, ..plan }.build()), 0..40, 0..50, &[0], Layout::BandsFirst, 1);
    }
}

#[test]
fn large_uncompressed_strip_is_read_in_pieces_by_all_threads() {
    let plan = Plan { width: 2000, height: 1500, compression: Compression::NONE, ..Plan::default() }.strips(1500);
    let image = open(plan.build());
    let raster = image.read(&ReadRequest::new().threads(2)).unwrap();
    assert!(raster.report.blocks > 8, "{} pieces", raster.report.blocks);
    assert!(raster.report.working_bytes < 4 << 20, "{} bytes", raster.report.working_bytes);
    check(&image, 0..1500, 0..2000, &[0], Layout::BandsFirst, 2);
    check(&image, 777..779, 5..1995, &[0], Layout::BandsFirst, 1);
}

#[test]
fn opening_and_reading_one_tile_does_not_load_ten_million_table_entries() {
    // A sparse file of 10 million tiles: the tables lie in a hole of the file.
    let (across, down, tile) = (4000_u32, 2500_u32, 256_u32);
    let count = u64::from(across * down);
    let dir = std::env::temp_dir().join(format!("swath-ten-million-{}.tif", std::process::id()));
    let extra = vec![
        (Tag::IMAGE_WIDTH, Value::Long(vec![across * tile])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![down * tile])),
        (Tag::TILE_WIDTH, Value::Long(vec![tile])),
        (Tag::TILE_LENGTH, Value::Long(vec![tile])),
        (Tag::TILE_OFFSETS, Value::Raw(swath::tiff::FieldType::LONG8, count, vec![0; 16])),
        (Tag::TILE_BYTE_COUNTS, Value::Raw(swath::tiff::FieldType::LONG8, count, vec![0; 16])),
    ];
    std::fs::write(&dir, Plan { big: true, extra, ..Plan::default() }.build()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&dir).unwrap().set_len(200_000_000).unwrap();
    let start = std::time::Instant::now();
    let image = Dataset::open(&dir).unwrap().image(0).unwrap();
    assert_eq!(image.layout().grid.count(), Some(count));
    let request = ReadRequest::new().window(500_000..500_001, 900_000..900_001);
    assert_eq!(image.read(&request).unwrap().report.sparse_blocks, 1);
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    std::fs::remove_file(dir).unwrap();
}
