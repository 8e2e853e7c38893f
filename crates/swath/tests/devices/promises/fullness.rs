//! A large GPU is full: all blocks of a read are in flight, as far as memory allows, at the price of one wait for
//! each batch and of no allocation after the first read.

use std::ops::Range;

use swath::device::{CodecBackend, EncoderBackend, Storage};
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{
    Compress, DType, Dataset, Device, FallbackPolicy, Image, ReadRequest, RowFn, WriteConfig, WriteOptions, WritePlan,
};

use super::timeline::Timeline;
use crate::subject::{Subject, same_pixels};
use crate::writing::large;

/// 8192 x 8192 float32 in tiles of 512, written by the CPU.
fn terrain() -> Image {
    let options = WriteOptions::default()
        .blocks(BlockSize::Tiles { width: 512, height: 512 })
        .compression(Compress::Deflate { level: 1 })
        .overviews(Overviews::None);
    let shape = ImageShape::new(8192, 8192, 1, DType::F32);
    let plan = WritePlan::new(shape, options).expect("a plan");
    let (bytes, _) = plan.to_bytes(&mut RowFn::new(shape, 512, large), &WriteConfig::new()).expect("it writes");
    Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("it opens")
}

pub(super) fn all_tiles_of_a_large_image_are_in_flight(subject: &Subject) {
    let image = terrain();
    let request = ReadRequest::new().decoder(CodecBackend::Builtin).storage(Storage::Posix);
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    for round in 0..2 {
        let (raster, timeline) = Timeline::of(|| image.read(&subject.strict(&request)).expect("it reads"));
        same_pixels("terrain", expected.pixels.as_bytes(), raster.pixels.as_bytes());
        assert_eq!(timeline.numbers("launch inflate"), [256], "all tiles are one launch");
        assert_eq!(timeline.count("synchronize") as u64, raster.report.batches, "one wait for each batch");
        assert_eq!(timeline.count("alloc") == 0, round > 0, "a second read allocates nothing: {timeline:?}");
        assert_eq!(timeline.count("pin") == 0, round > 0, "also in host memory: {timeline:?}");
    }
    // The pixels that stay on the device are not counted twice: 256 tiles of 2 MiB fit where those of 3 MiB would not.
    subject.gpu.trim();
    let request = request.gpu_memory_budget(3 * 256 * (5 << 19));
    let (done, timeline) =
        Timeline::of(|| image.read_to_device(&subject.strict(&request), &subject.gpu).expect("it reads"));
    assert_eq!(timeline.numbers("launch inflate"), [256], "{}", done.1.batches);
}

pub(super) fn batches_of_a_long_read_wait_once_and_allocate_once(subject: &Subject) {
    let image = terrain();
    // A budget for 25 of the 256 tiles.
    let request = ReadRequest::new().decoder(CodecBackend::Builtin).storage(Storage::Posix).gpu_memory_budget(72 << 20);
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    subject.gpu.trim();
    let (raster, timeline) = Timeline::of(|| image.read(&subject.strict(&request)).expect("it reads"));
    same_pixels("terrain", expected.pixels.as_bytes(), raster.pixels.as_bytes());
    let batches = raster.report.batches;
    assert!(batches >= 16, "{batches} batches");
    assert_eq!(timeline.count("synchronize") as u64, batches, "one wait for each batch");
    // Compressed bytes, decoded bytes and pixels of three batches in flight.
    assert_eq!(timeline.count("alloc"), 9, "{timeline:?}");
    let warm = timeline.last("alloc").expect("memory was allocated");
    let third = timeline.nth("launch inflate", 2).expect("a third batch");
    assert!(warm < third, "the third batch in flight is the last one that allocates");
}

/// The rows of an image of 640 columns of floats.
fn slope(rows: Range<u64>, out: &mut [u8], _: Option<&mut [u8]>) -> swath::Result<()> {
    for (row, line) in rows.zip(out.chunks_exact_mut(640 * 4)) {
        for (col, sample) in line.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *sample = (row as f32 * 0.5 + (col / 16) as f32).to_ne_bytes();
        }
    }
    Ok(())
}

/// An image of 8 rows of tiles with overviews, and its plan.
fn pyramid(compress: Compress) -> (WritePlan, ImageShape) {
    let options = WriteOptions::new()
        .cog()
        .blocks(BlockSize::Tiles { width: 64, height: 64 })
        .compression(compress)
        .overviews(Overviews::Factors(vec![2, 4]));
    let shape = ImageShape::new(512, 640, 1, DType::F32);
    (WritePlan::new(shape, options).expect("a plan"), shape)
}

pub(super) fn second_write_allocates_neither_device_memory_nor_pinned_memory(subject: &Subject) {
    let codecs = [
        (Compress::None, EncoderBackend::Builtin),
        (Compress::Deflate { level: 6 }, EncoderBackend::Builtin),
        (Compress::Lzw, EncoderBackend::Builtin),
        (Compress::Zstd { level: 3 }, EncoderBackend::NvComp),
    ];
    for (compress, encoder) in codecs {
        let (plan, shape) = pyramid(compress);
        // With one row of tiles for each strip, strips are uploaded ahead. How many, depends on the threads.
        for buffer_bytes in [None, Some(1)] {
            subject.gpu.trim();
            let config = WriteConfig::new()
                .device(Device::Gpu(subject.gpu.clone()))
                .fallback(FallbackPolicy::Strict)
                .encoder(encoder)
                .buffer_bytes(buffer_bytes);
            let mut first = Vec::new();
            let (mut of_first, mut of_others) = ((0, 0), (0, 0));
            for round in 0..4 {
                let write = || plan.to_bytes(&mut RowFn::new(shape, 64, slope), &config).expect("it writes");
                let ((bytes, _), timeline) = Timeline::of(write);
                let calls = (timeline.count("alloc"), timeline.count("pin"));
                let what = format!("{compress:?} {buffer_bytes:?}, write {round}");
                match round {
                    0 => {
                        assert!(calls.0 >= 3 && calls.1 > 1, "{what}: {timeline:?}");
                        of_first = calls;
                        first.clone_from(&bytes);
                    }
                    _ if buffer_bytes.is_none() => assert_eq!(calls, (0, 0), "{what}: {timeline:?}"),
                    // A write may be the first one whose threads are fast enough to need more memory at the same time.
                    _ => of_others = (of_others.0 + calls.0, of_others.1 + calls.1),
                }
                assert!(bytes == first, "{what}: other bytes");
            }
            let kept = of_others.0 <= of_first.0 && of_others.1 <= 2 * of_first.1;
            assert!(kept, "{compress:?}: {of_first:?} calls of the first write, {of_others:?} of three others");
        }
    }
}

pub(super) fn write_with_little_pinned_memory_uses_lower_strips(subject: &Subject) {
    let (plan, shape) = pyramid(Compress::Deflate { level: 6 });
    let config = WriteConfig::new()
        .device(Device::Gpu(subject.gpu.clone()))
        .fallback(FallbackPolicy::Strict)
        .encoder(EncoderBackend::Builtin);
    let write = || plan.to_bytes(&mut RowFn::new(shape, 64, slope), &config);
    let (expected, _) = write().expect("it writes");
    for (fault, lower) in [("pin:1", true), ("pin:1,pin:2", true), ("pin:2+", false)] {
        subject.gpu.trim();
        swath_sim::reset();
        // SAFETY: no operation runs, so no other thread reads environment variables.
        unsafe { std::env::set_var(crate::subject::FAIL, fault) };
        let written = write();
        // SAFETY: as above.
        unsafe { std::env::remove_var(crate::subject::FAIL) };
        match written {
            Ok((bytes, _)) => assert!(bytes == expected, "{fault}: other bytes"),
            Err(error) => assert!(!lower && matches!(&error, swath::Error::Device(_)), "{fault}: {error}"),
        }
        let events = swath_sim::events();
        let pushes = events.iter().filter(|event| event.starts_with("launch cut")).count();
        assert!(pushes > 3 || !lower, "{fault}: lower strips: {events:?}");
    }
}
