//! The life of a window, from top to bottom:
//!
//! 1. `request.rs`: what the caller asks for.
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

use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallback::{Alternatives, Setback, stage};
use crate::report::{DeviceReport, ReadReport};
use plan::ReadPlan;

/// Executes a plan into `out`, which must have the exact size, on the device of its request.
pub(crate) fn execute(plan: &ReadPlan<'_>, out: &mut [u8]) -> Result<ReadReport> {
    let needed = plan.output_bytes();
    if out.len() != needed {
        return Err(Error::BufferSize { buffer: out.len(), needed: needed as u64 });
    }
    match &plan.request.device {
        Device::Gpu(gpu) => gpu::execute(plan, gpu, out),
        Device::Cpu => cpu::execute(plan, out),
        Device::NoGpu(reason) => {
            let request = plan.request;
            let decision = request.fallback.next_step(request.decoder, Setback::Unsupported, Alternatives::default());
            decision.map_or(Ok(()), |decision| decision.permit(stage::EVERYTHING, reason))?;
            let mut report = cpu::execute(plan, out)?;
            report.gpu = Some(DeviceReport::none(reason, report.blocks));
            Ok(report)
        }
    }
}
