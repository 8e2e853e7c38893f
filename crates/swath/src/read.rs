//! How a window is read, from top to bottom:
//!
//! 1. `request.rs`: what the caller requests.
//! 2. `plan.rs`: the request checked against the image, and the blocks that it needs with their byte ranges.
//! 3. `cpu.rs` or `gpu.rs`: the executor, which fetches, decodes and places the blocks of the plan.
//!
//! `decoder.rs` builds the decoder of an image, `placement.rs` and `output_splitter.rs` put decoded blocks into the caller's buffer,
//! `prefetch.rs` requests all blocks of a high-latency source at once, and `cache.rs` keeps decoded blocks between reads.

pub(crate) mod cache;
pub(crate) mod color;
pub(crate) mod cpu;
pub(crate) mod decoder;
pub(crate) mod gpu;
pub(crate) mod output_splitter;
pub(crate) mod pixels;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod prefetch;
pub(crate) mod prefetched_source;
pub(crate) mod request;
pub(crate) mod unpack;

pub use self::cache::BlockCache;
pub use self::pixels::{Pixels, Sample};
pub use self::request::{Cancel, Layout, OnCorrupt, Placement, Progress, ReadRequest, default_threads};
pub use self::unpack::Unpack;
pub use crate::error::BlockName;
pub use crate::nodata::to_nan::nodata_to_nan;
pub use crate::report::ReadReport;

use crate::error::{Error, Result};
use crate::fallback::read::{Alternatives, Setback};
use crate::fallback::stage;
use crate::report::DeviceReport;
use plan::ReadPlan;

/// Executes a plan on the device of its request. `out` must have exactly the size of the result.
pub(crate) fn execute(plan: &ReadPlan<'_>, out: &mut [u8]) -> Result<ReadReport> {
    let needed = plan.output_bytes();
    if out.len() != needed {
        return Err(Error::BufferSize { buffer: out.len(), needed: needed as u64 });
    }
    let request = plan.request;
    match request.device.gpus() {
        [] => {}
        [gpu] => return gpu::execute(plan, gpu, out),
        gpus => return gpu::several::execute(plan, gpus, out),
    }
    let Some(missing) = request.device.missing_gpu() else { return cpu::execute(plan, out) };
    if let Some(decision) = request.fallback.next_step(request.decoder, Setback::Unsupported, Alternatives::default()) {
        decision.permit(stage::EVERYTHING, missing)?;
    }
    let mut report = cpu::execute(plan, out)?;
    report.gpu = Some(DeviceReport::none(missing, report.blocks));
    Ok(report)
}
