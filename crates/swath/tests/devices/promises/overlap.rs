//! Copies run while the device computes: on the timeline that the simulator computes, the upload of a batch overlaps
//! the decoding of an earlier one, and the upload of a strip the compression of the one before it.

use swath::device::{CodecBackend, Storage};
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{
    Compress, DType, Dataset, Device, FallbackPolicy, ReadRequest, RowFn, WriteConfig, WriteOptions, WritePlan,
};
use swath_sim::TimedWork;

use crate::subject::{Subject, same_pixels};
use crate::writing::large;

/// Runs `work` and returns the work of the streams with its times.
fn timeline<T>(work: impl FnOnce() -> T) -> (T, Vec<TimedWork>) {
    swath_sim::forget();
    let done = work();
    (done, swath_sim::timeline())
}

fn named<'a>(timeline: &'a [TimedWork], name: &str) -> Vec<&'a TimedWork> {
    timeline.iter().filter(|work| work.name.contains(name)).collect()
}

/// A plan for 8192 columns of floats in tiles of 512, in 8 rows of tiles.
fn plan(compress: Compress) -> (WritePlan, ImageShape) {
    let options = WriteOptions::default()
        .blocks(BlockSize::Tiles { width: 512, height: 512 })
        .compression(compress)
        .overviews(Overviews::None);
    let shape = ImageShape::new(4096, 8192, 1, DType::F32);
    (WritePlan::new(shape, options).expect("a plan"), shape)
}

pub(super) fn transfers_of_batches_overlap_the_decoding_of_others(subject: &Subject) {
    let (plan, shape) = plan(Compress::Deflate { level: 1 });
    let (bytes, _) = plan.to_bytes(&mut RowFn::new(shape, 512, large), &WriteConfig::new()).expect("it writes");
    let image = Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("it opens");
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    let request = ReadRequest::new().decoder(CodecBackend::Builtin).storage(Storage::Posix).gpu_memory_budget(72 << 20);
    let (raster, timeline) = timeline(|| image.read(&subject.strict(&request)).expect("it reads"));
    same_pixels("batches", expected.pixels.as_bytes(), raster.pixels.as_bytes());
    let (uploads, decodings, downloads) =
        (named(&timeline, "upload"), named(&timeline, "inflate"), named(&timeline, "download"));
    let batches = raster.report.batches as usize;
    assert!(batches >= 8, "{batches} batches");
    assert_eq!((uploads.len(), decodings.len(), downloads.len()), (batches, batches, batches));
    // The kernels of a batch run from `inflate` to `place`.
    let placings = named(&timeline, "place");
    let decodings: Vec<TimedWork> = decodings
        .iter()
        .zip(placings)
        .map(|(inflate, place)| TimedWork { end: place.end, ..(*inflate).clone() })
        .collect();
    for n in 1..batches {
        assert!(decodings.iter().take(n).any(|earlier| earlier.overlaps(uploads[n])), "upload {n}: {timeline:#?}");
        assert!(downloads[n - 1].overlaps(&decodings[n]), "download {n}: {timeline:#?}");
        assert!(decodings[n].begin <= decodings[n - 1].end, "the device waits for batch {n}: {timeline:#?}");
    }
}

pub(super) fn upload_of_a_strip_overlaps_the_compression_of_the_one_before(subject: &Subject) {
    let (plan, shape) = plan(Compress::Zstd { level: 1 });
    let (expected, _) = plan.to_bytes(&mut RowFn::new(shape, 512, large), &WriteConfig::new()).expect("it writes");
    let config =
        WriteConfig::new().device(Device::Gpu(subject.gpu.clone())).fallback(FallbackPolicy::Strict).buffer_bytes(1);
    let ((bytes, report), timeline) =
        timeline(|| plan.to_bytes(&mut RowFn::new(shape, 512, large), &config).expect("it writes"));
    assert!(report.gpu.expect("a device did it").compressed_by.contains("nvCOMP"));
    let [expected, found] = [expected, bytes].map(|bytes| {
        let image = Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("it opens");
        image.read(&ReadRequest::new()).expect("the CPU reads it")
    });
    same_pixels("strips", expected.pixels.as_bytes(), found.pixels.as_bytes());
    let (uploads, compressions) = (named(&timeline, "upload"), named(&timeline, "CompressAsync"));
    assert!(uploads.len() >= 8 && compressions.len() == 8, "{timeline:#?}");
    // The first push allocates memory, and the source may be late for another one.
    let overlaps = |upload: &&&TimedWork| compressions.iter().any(|compression| compression.overlaps(upload));
    let overlapping = uploads.iter().filter(overlaps).count();
    assert!(overlapping >= 4, "{overlapping} of 8 uploads overlap a compression: {timeline:#?}");
}
