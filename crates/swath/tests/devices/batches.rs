//! The costs of a read: copies, synchronisations and allocations are counted, and memory is bounded.

use std::sync::Mutex;

use swath::read::{Cancel, OnCorrupt, Progress};
use swath::tiff::Compression;
use swath::{Error, Image, Layout, Raster, ReadRequest};
use swath_codec::predictor::Predictor;
use swath_gpu::{DeviceStats, Error as DeviceError};

use crate::files::{Cut, File, Missing};
use crate::pixels::CODECS;
use crate::subject::{Subject, failing, same_pixels};

fn stats(raster: &Raster) -> DeviceStats {
    raster.report.gpu.as_ref().expect("a device did it").stats
}

/// A thousand tiles are one batch: one upload, one synchronisation, one download, and memory for compressed
/// bytes, decoded bytes and pixels. A second read reuses that memory.
pub(crate) fn allocations_uploads_and_waits_do_not_grow_with_the_tiles(subject: &Subject) {
    for compression in CODECS {
        let name = format!("{compression:?}");
        let predicted = !matches!(compression, Compression::NONE | Compression::PACKBITS);
        let file = File {
            width: 4096,
            height: 4096,
            cut: Cut::Tiles(128, 128),
            bits: 8,
            compression,
            predictor: if predicted { Predictor::Horizontal } else { Predictor::None },
            ..File::default()
        };
        let (tiles, bytes) = (file.blocks() as u64, (file.block_bytes() * file.blocks()) as u64);
        assert_eq!((tiles, file.block_bytes()), (1024, 16 << 10));
        let image = file.open();
        subject.gpu.trim();
        let held = subject.gpu.stats().current_bytes;
        assert_eq!(held, 0, "nothing is kept after a trim");
        // Uncompressed blocks are placed directly from the compressed buffer; ZSTD needs space for decoded
        // bytes.
        let buffers = match compression {
            Compression::NONE => 2,
            Compression::ZSTD => 4,
            _ => 3,
        };
        for allocations in [buffers, 0] {
            let raster = subject.check(&name, &image, &ReadRequest::new());
            let stats = stats(&raster);
            assert_eq!((raster.report.blocks, raster.report.batches), (tiles, 1), "{name}: blocks and batches");
            assert_eq!((stats.uploads, stats.downloads, stats.synchronisations), (1, 1, 1), "{name}: {stats}");
            assert_eq!(stats.allocations, allocations, "{name}: {stats}");
            // Decode, undo the predictor, place. ZSTD decodes 256 blocks at a time.
            assert!(stats.launches <= 2 + tiles.div_ceil(256), "{name}: {stats}");
            let brought = stats.uploaded_bytes + stats.file_read_bytes;
            assert!(brought >= raster.report.bytes_fetched, "{name}: {stats}");
            assert!(brought <= raster.report.bytes_fetched + tiles * 128, "{name}: {stats}");
            assert!(subject.nvidia == (stats.file_reads > 0), "{name}: {stats}");
            assert!((bytes..=bytes + tiles * 8).contains(&stats.downloaded_bytes), "{name}: {stats}");
        }
        // If the raster stays on the device, only the status of each block is downloaded.
        let (_raster, report) = image.read_to_device(&subject.strict(&ReadRequest::new()), &subject.gpu).expect("room");
        let stats = report.gpu.expect("a device did it").stats;
        assert_eq!((stats.uploads, stats.downloads, stats.synchronisations), (1, 1, 1), "{name}: {stats}");
        assert_eq!(stats.allocations, 1, "{name}: the raster alone: {stats}");
        assert!(stats.downloaded_bytes <= tiles * 8, "{name}: {stats}");
    }
}

/// Raises the budget from one that is too small for any block to one that holds all blocks in one batch. If a budget
/// is enough to read each block alone, it is enough to read the whole image in several batches. The memory in use
/// never exceeds the budget.
pub(crate) fn batches_keep_to_any_budget_that_holds_one_block(subject: &Subject) {
    for (i, compression) in CODECS.into_iter().enumerate() {
        let file = File {
            width: 200,
            height: 170,
            bands: 3,
            planar: i % 2 == 0,
            cut: if i % 2 == 0 { Cut::Tiles(32, 32) } else { Cut::Strips(10) },
            compression,
            ..File::default()
        };
        let image = file.open();
        let (rows, cols) = match file.cut {
            Cut::Tiles(width, height) => (height as u64, width as u64),
            Cut::Strips(rows) => (rows as u64, file.width as u64),
        };
        let (mut refused, mut most_batches, mut whole) = (0, 0, false);
        let mut budget = 256_u64;
        while !whole {
            assert!(budget < 1 << 30, "{compression:?}: no budget is enough");
            let request = ReadRequest::new().gpu_memory_budget(budget).layout(Layout::BandsLast);
            let name = format!("{compression:?}, budget {budget}");
            let alone = (0..file.height as u64).step_by(rows as usize).all(|row| {
                (0..file.width as u64).step_by(cols as usize).all(|col| {
                    let (bottom, right) = ((row + rows).min(file.height as u64), (col + cols).min(file.width as u64));
                    let window = request.clone().window(row..bottom, col..right);
                    (0..file.bands).all(|band| {
                        let bands = if file.planar { vec![band] } else { (0..file.bands).collect() };
                        subject.gpu.trim();
                        image.read(&subject.strict(&window.clone().bands(bands))).is_ok()
                    })
                })
            });
            if alone {
                let raster = subject.check(&name, &image, &request);
                let peak = stats(&raster).peak_bytes;
                assert!(peak <= budget, "{name}: {peak} bytes were held");
                most_batches = most_batches.max(raster.report.batches);
                whole = raster.report.batches == 1;
            } else {
                refused += 1;
            }
            budget = budget * 5 / 4;
        }
        assert!(refused > 0 && most_batches >= 6, "{compression:?}: {refused} refused, {most_batches} batches");
    }
}

/// The error names the stage, the bytes needed and the bytes available.
pub(crate) fn budget_too_small_for_a_block_is_an_error_with_the_needed_bytes(subject: &Subject) {
    for compression in CODECS {
        let file = File { width: 64, height: 64, cut: Cut::Tiles(64, 64), compression, ..File::default() };
        let image = file.open();
        // Our ZSTD kernel needs additional working memory.
        let kernel = compression == Compression::ZSTD && !subject.nvidia;
        let limits: &[u64] = if kernel { &[0, 9000, 100_000] } else { &[0, 9000] };
        for &budget in limits {
            let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(budget);
            let error = image.read(&request).expect_err("8,192 bytes do not fit");
            let Error::Device(DeviceError::Budget { stage, needed, left, budget: reported }) = &error else {
                panic!("{compression:?}: {error}")
            };
            assert_eq!(*reported, budget, "{error}");
            assert!(needed > left && *left <= budget, "{error}");
            assert!(!stage.is_empty() && error.to_string().contains(stage), "{error}");
            assert!(error.to_string().contains(&needed.to_string()), "{error}");
            assert!(error.to_string().contains(&left.to_string()), "{error}");
        }
        // The failed read leaves nothing behind.
        subject.check(&format!("{compression:?}, after it failed"), &image, &ReadRequest::new());
    }
}

/// Finished reads keep their memory for later reads. A read with a small budget must not hold more than its
/// budget, including kept memory.
pub(crate) fn memory_left_by_other_reads_counts_against_the_budget(subject: &Subject) {
    let file = File { width: 256, height: 256, cut: Cut::Tiles(32, 32), ..File::default() };
    let image = file.open();
    // One read runs inside another, so both hold their memory.
    let within = |_: Progress| {
        subject.check("a read within a read", &image, &ReadRequest::new());
    };
    image.read(&subject.strict(&ReadRequest::new()).progress(&within)).expect("it reads");
    let budget = 40_000;
    assert!(subject.gpu.stats().current_bytes > 2 * budget, "much is kept");
    // Memory that was kept before the read starts does not count, but from its first batch on it does.
    let most = Mutex::new(0);
    let look = |_: Progress| {
        let mut most = most.lock().expect("no panic");
        *most = subject.gpu.stats().current_bytes.max(*most);
    };
    let request = ReadRequest::new().gpu_memory_budget(budget);
    image.read(&subject.strict(&request).progress(&look)).expect("it reads");
    subject.check("a small budget", &image, &request);
    let most = *most.lock().expect("no panic");
    assert!((1..=budget).contains(&most), "{most} bytes were held, {budget} were allowed");
}

/// The smallest possible requests.
pub(crate) fn empty_window_single_block_and_sparse_blocks(subject: &Subject) {
    for compression in CODECS {
        let file = File { compression, bands: 3, ..File::default() };
        let image = file.open();
        let name = format!("{compression:?}");
        let raster = subject.check(&name, &image, &ReadRequest::new().bands([]));
        assert_eq!((raster.pixels.as_bytes().len(), stats(&raster).uploads), (0, 0), "{name}: no bands");
        let (empty, _) =
            image.read_to_device(&subject.strict(&ReadRequest::new().bands([])), &subject.gpu).expect("no bands");
        empty.download(&mut []).expect("nothing can be downloaded");
        let error = image.read(&subject.strict(&ReadRequest::new().window(5..5, 0..9))).expect_err("an empty window");
        assert!(matches!(error, Error::Window { .. }), "{name}: {error}");

        let raster = subject.check(&name, &image, &ReadRequest::new().window(20..30, 20..30));
        assert_eq!((raster.report.blocks, stats(&raster).uploads), (1, 1), "{name}: one tile");
        for missing in [Missing::Some, Missing::AllWithNodata] {
            for planar in [false, true] {
                let file = File { missing, planar, ..file };
                let raster = subject.check(&name, &file.open(), &ReadRequest::new());
                let sparse = raster.report.sparse_blocks as usize;
                let expected = if missing == Missing::Some { (file.blocks() + 1) / 3 } else { file.blocks() };
                assert_eq!(sparse, expected, "{name}: {missing:?}");
                if missing == Missing::AllWithNodata {
                    let pixels: &[u16] = raster.pixels.as_slice().expect("16 bits");
                    assert!(pixels.iter().all(|&pixel| pixel == 7), "{name}: nodata");
                    assert_eq!(stats(&raster).synchronisations, 1, "{name}");
                }
            }
        }
    }
}

/// An image that needs several batches, and the budget for that.
fn several_batches() -> (Image, u64) {
    let file = File { width: 160, height: 160, bands: 2, planar: true, ..File::default() };
    (file.open(), 30_000)
}

/// Progress reaches the total on the device, on the CPU as a fallback, and when blocks cannot be fetched.
pub(crate) fn progress_reaches_its_total(subject: &Subject) {
    let (image, budget) = several_batches();
    let progress_of = |image: &Image, request: &ReadRequest<'_>| {
        let seen = Mutex::new(Vec::new());
        let note = |progress: Progress| seen.lock().expect("no panic").push(progress);
        image.read(&request.clone().progress(&note).threads(1)).expect("it reads");
        seen.into_inner().expect("no panic")
    };
    let lzma = File { compression: Compression::LZMA, ..File::default() }.open();
    let unreadable = failing(&File::default().build());
    let on = ReadRequest::new().device(&subject.gpu).gpu_memory_budget(budget);
    let plain = ReadRequest::new();
    let fill = OnCorrupt::Fill;
    for (name, image, cpu, device, steps) in [
        ("batches", &image, plain.clone(), on.clone(), 3),
        ("fallback", &lzma, plain.clone(), on.clone(), 1),
        ("unreadable", &unreadable, plain.on_corrupt(fill), on.on_corrupt(fill), 1),
    ] {
        let (expected, seen) = (progress_of(image, &cpu), progress_of(image, &device));
        assert!(seen.len() >= steps, "{name}: {seen:?}");
        assert!(seen.is_sorted_by_key(|progress| progress.done), "{name}: {seen:?}");
        let (last, total) = (seen.last().expect("at least one"), expected.last().map(|progress| progress.total));
        assert_eq!((Some(last.done), Some(last.total)), (total, total), "{name}: {seen:?}");
    }
}

/// A cancelled read ends with `Error::Cancelled`, and the device stays usable.
pub(crate) fn cancelled_read_stops_between_batches(subject: &Subject) {
    let (image, budget) = several_batches();
    let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(budget);
    let cancel = Cancel::new();
    let calls = Mutex::new(0);
    let stop = |progress: Progress| {
        assert!(progress.done < progress.total, "it went on to the end");
        *calls.lock().expect("no panic") += 1;
        cancel.cancel();
    };
    let stopped = image.read(&request.clone().progress(&stop).cancel(&cancel));
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(*calls.lock().expect("no panic"), 1, "batches that were finished after it was cancelled");
    let uploads = subject.gpu.stats().uploads;
    let stopped = image.read_to_device(&request.clone().cancel(&cancel), &subject.gpu);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(subject.gpu.stats().uploads, uploads, "it was cancelled before it began");
    subject.check("after it was cancelled", &image, &ReadRequest::new());
}

/// Threads that share a device and an image get their own pixels.
pub(crate) fn reads_at_the_same_time_do_not_mix(subject: &Subject) {
    let images = [Compression::LZW, Compression::NONE, Compression::DEFLATE].map(|compression| {
        let file = File { compression, bands: 3, predictor: Predictor::None, ..File::default() };
        let image = file.open();
        let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
        (image, expected)
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let images = &images;
            scope.spawn(move || {
                for round in 0..12 {
                    let (image, expected) = &images[(thread + round) % images.len()];
                    let budget = [20_000, 1 << 20][round % 2];
                    let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(budget);
                    let raster = image.read(&request).expect("the device reads it");
                    same_pixels("side by side", expected.pixels.as_bytes(), raster.pixels.as_bytes());
                }
            });
        }
    });
}
