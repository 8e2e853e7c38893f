//! Loads any bytes as the document of a write plan, and writes small images with the plan.

use swath::write::PlanDocument;
use swath::{ArraySource, Dataset, Layout, ReadRequest, WriteConfig, WritePlan, validate};

/// The largest image that is written.
const MAX_BYTES: u64 = 1 << 16;

/// The document is JSON, or postcard after a zero byte. A plan must survive storing, and must write a file that
/// can be read.
pub fn run(data: &[u8]) {
    let document: Option<PlanDocument> = match data.split_first() {
        Some((0, rest)) => postcard::from_bytes(rest).ok(),
        _ => serde_json::from_slice(data).ok(),
    };
    let Some(Ok(plan)) = document.map(WritePlan::try_from) else { return };
    let stored = serde_json::to_string(&plan).expect("a plan can be stored");
    let again: WritePlan = serde_json::from_str(&stored).expect("a stored plan can be loaded");
    assert_eq!(serde_json::to_string(&again).expect("a plan can be stored"), stored);
    write(&plan, data);
}

fn write(plan: &WritePlan, data: &[u8]) {
    let shape = plan.shape();
    let sizes = [shape.height, shape.width, shape.bands as u64];
    let len = sizes.iter().try_fold(shape.dtype.size() as u64, |len, &size| len.checked_mul(size));
    let Some(len) = len.filter(|&len| len <= MAX_BYTES) else { return };
    // A block may be much larger than the image.
    if plan.levels().any(|grid| grid.block_width * grid.block_height * shape.bands as u64 > MAX_BYTES) {
        return;
    }
    let samples: Vec<u8> = data.iter().copied().cycle().take(len as usize).collect();
    let source =
        ArraySource::from_bytes(&samples, shape.dtype, shape.bands, shape.height, shape.width, Layout::BandsFirst);
    let mut source = source.expect("the size was computed from the shape");
    let Ok((bytes, _)) = plan.to_bytes(&mut source, &WriteConfig::new().threads(1)) else { return };
    let dataset = Dataset::from_bytes(bytes).expect("a written file can be opened");
    let image = dataset.image(0).expect("a written file has an image");
    image.read(&ReadRequest::new().threads(1)).expect("a written file can be read");
    let _ = validate(&dataset);
}
