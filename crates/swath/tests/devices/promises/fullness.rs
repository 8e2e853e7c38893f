//! A large GPU is full: all blocks of a read are in flight, as far as memory allows, at the price of one wait for
//! each batch and of no allocation after the first read.

use swath::device::{CodecBackend, Storage};
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{Compress, DType, Dataset, Image, ReadRequest, RowFn, WriteConfig, WriteOptions, WritePlan};

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
