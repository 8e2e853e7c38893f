//! Whether a read is faster on the device or on the CPU: a model with one table of costs.
//!
//! A block is decoded by a few threads of the device, so the time of a read is that of one block, as often as the device is filled. A CPU
//! thread decodes a block ten to thirty times as fast. So the device wins with many blocks, and the CPU with few blocks or with one huge strip.

use std::fmt;

use swath_gpu::{DecodeJob, DeviceCodec};

use crate::error::{Error, Result};
use crate::read::plan::ReadPlan;
use crate::read::request::default_threads;

/// The environment variable that replaces costs, for example `deflate.kernel=40,transfer=0.04`.
const VARIABLE: &str = "SWATH_GPU_COSTS";

/// The costs of a codec, in nanoseconds for each decoded byte.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CodecCost {
    codec: DeviceCodec,
    /// Swath's kernel, for one block.
    kernel: f64,
    /// The library of NVIDIA, for one block.
    library: f64,
    /// A thread of the CPU.
    cpu: f64,
}

/// The costs of a read.
#[derive(Debug, Clone, PartialEq)]
struct Costs {
    /// Launches and the wait for a batch, in nanoseconds.
    start: f64,
    /// A copy between host and device, in nanoseconds for each byte.
    transfer: f64,
    codecs: [CodecCost; 6],
}

/// The costs. Kernels: instructions on the longest path for each byte of the slowest image in `docs/gpu.md`, at 6 cycles each and 1.4 GHz.
/// The CPU: measured with 2 threads. Transfers: PCIe 4 in practice. Not measured on a GPU.
const COSTS: Costs = Costs {
    start: 60_000.0,
    transfer: 0.08,
    codecs: [
        CodecCost { codec: DeviceCodec::None, kernel: 0.0, library: 0.0, cpu: 0.33 },
        CodecCost { codec: DeviceCodec::PackBits, kernel: 11.0, library: 11.0, cpu: 0.33 },
        CodecCost { codec: DeviceCodec::Lzw, kernel: 20.0, library: 20.0, cpu: 1.75 },
        CodecCost { codec: DeviceCodec::Deflate, kernel: 30.0, library: 30.0, cpu: 1.9 },
        CodecCost { codec: DeviceCodec::Zstd, kernel: 49.0, library: 40.0, cpu: 1.7 },
        CodecCost { codec: DeviceCodec::Lz4, kernel: 10.0, library: 10.0, cpu: 0.5 },
    ],
};

/// What a read has to do.
#[derive(Debug, Clone, Copy)]
struct Work {
    blocks: u64,
    /// Decoded bytes of a block.
    block_bytes: u64,
    /// Compressed bytes of a block.
    compressed_bytes: u64,
    /// Bytes of all pixels.
    pixels: u64,
    /// Whether the pixels stay on the device.
    stays: bool,
    codec: DeviceCodec,
    by_library: bool,
    /// Blocks that the device decodes at the same time.
    wave: u64,
    threads: u64,
}

/// The estimated times of a read in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    device: f64,
    cpu: f64,
}

impl Estimate {
    /// Estimates a read, if the model has its codec.
    ///
    /// # Errors
    /// [`Error::Setting`] if the variable with costs has an unknown name or value.
    pub(super) fn of(
        plan: &ReadPlan<'_>,
        job: &DecodeJob,
        compressed_bytes: u64,
        stays: bool,
    ) -> Result<Option<Estimate>> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let costs = COSTS.replaced(&text)?;
        let work = Work {
            blocks: plan.count(&plan.all_blocks()),
            block_bytes: plan.level.block_bytes(),
            compressed_bytes,
            pixels: plan.output_bytes() as u64,
            stays,
            codec: job.codec(),
            by_library: job.is_by_nvcomp(),
            wave: job.wave(),
            threads: plan.request.threads.unwrap_or_else(default_threads) as u64,
        };
        Ok(costs.estimate(&work))
    }

    /// Whether the device is at least as fast.
    pub(super) fn prefers_device(&self) -> bool {
        self.device <= self.cpu
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faster = if self.prefers_device() { "the device" } else { "the CPU" };
        write!(f, "{faster}: estimated {:.2} ms on the device, {:.2} ms on the CPU", self.device / 1e6, self.cpu / 1e6)
    }
}

impl Costs {
    /// The same costs, with those of a list of names and numbers.
    fn replaced(&self, list: &str) -> Result<Costs> {
        let mut costs = self.clone();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let number = |text: &str| text.trim().parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost >= 0.0);
            let place =
                entry.split_once('=').and_then(|(name, value)| Some((costs.named(name.trim())?, number(value)?)));
            let Some((place, value)) = place else {
                return Err(Error::Setting {
                    name: VARIABLE,
                    value: entry.to_owned(),
                    expected: "start=NS, transfer=NS, or CODEC.kernel=NS, CODEC.library=NS, CODEC.cpu=NS".into(),
                });
            };
            *place = value;
        }
        Ok(costs)
    }

    /// The cost with this name.
    fn named(&mut self, name: &str) -> Option<&mut f64> {
        match name.split_once('.') {
            None if name == "start" => Some(&mut self.start),
            None if name == "transfer" => Some(&mut self.transfer),
            None => None,
            Some((codec, which)) => {
                let cost = self.codecs.iter_mut().find(|cost| cost.codec.name() == codec)?;
                match which {
                    "kernel" => Some(&mut cost.kernel),
                    "library" => Some(&mut cost.library),
                    "cpu" => Some(&mut cost.cpu),
                    _ => None,
                }
            }
        }
    }

    fn estimate(&self, work: &Work) -> Option<Estimate> {
        let cost = self.codecs.iter().find(|cost| cost.codec == work.codec)?;
        let (blocks, block_bytes) = (work.blocks as f64, work.block_bytes as f64);
        let rounds = work.blocks.div_ceil(work.wave.max(1)) as f64;
        let decode = rounds * block_bytes * if work.by_library { cost.library } else { cost.kernel };
        let pixels = work.pixels as f64 * self.transfer;
        let upload = blocks * work.compressed_bytes as f64 * self.transfer;
        let download = if work.stays { 0.0 } else { pixels };
        // With several batches, the longest of the three hides the others.
        let on_device = if rounds > 1.0 { decode.max(upload).max(download) } else { decode + upload + download };
        let threads = work.threads.clamp(1, work.blocks.max(1)) as f64;
        let on_cpu = blocks * block_bytes * cost.cpu / threads + if work.stays { pixels } else { 0.0 };
        Some(Estimate { device: self.start + on_device, cpu: on_cpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Tiles of 1 MiB, compressed to half their size, on a device of 108 multiprocessors and 8 threads of a CPU.
    fn work(blocks: u64, codec: DeviceCodec, stays: bool) -> Work {
        let pixels = blocks * MIB;
        let wave = 108 * 18;
        Work {
            blocks,
            block_bytes: MIB,
            compressed_bytes: MIB / 2,
            pixels,
            stays,
            codec,
            by_library: false,
            wave,
            threads: 8,
        }
    }

    fn prefers_device(work: Work) -> bool {
        COSTS.estimate(&work).unwrap().prefers_device()
    }

    #[test]
    fn few_blocks_and_one_huge_strip_go_to_the_cpu_and_thousands_of_tiles_to_the_device() {
        for codec in [DeviceCodec::Deflate, DeviceCodec::Zstd, DeviceCodec::Lzw] {
            assert!(!prefers_device(work(4, codec, false)), "{codec:?}: 4 tiles");
            let strip = Work { blocks: 1, block_bytes: 256 * MIB, pixels: 256 * MIB, ..work(1, codec, true) };
            assert!(!prefers_device(strip), "{codec:?}: one strip of 256 MiB");
            assert!(prefers_device(work(4096, codec, true)), "{codec:?}: 4096 tiles");
        }
    }

    #[test]
    fn codec_that_a_warp_decodes_slowly_needs_more_blocks() {
        let fewest = |codec| (1..4096).find(|&blocks| prefers_device(work(blocks, codec, true)));
        let (lzw, deflate) = (fewest(DeviceCodec::Lzw), fewest(DeviceCodec::Deflate));
        assert!(lzw.is_some() && deflate.is_some() && lzw < deflate, "{lzw:?} {deflate:?}");
    }

    #[test]
    fn costs_are_replaced_by_name() {
        let costs = COSTS.replaced("deflate.kernel = 5, transfer=1,,start=0").unwrap();
        assert_eq!((costs.transfer, costs.start), (1.0, 0.0));
        assert_eq!(costs.codecs[3], CodecCost { kernel: 5.0, ..COSTS.codecs[3] });
        assert_eq!(COSTS.replaced("").unwrap(), COSTS);
        for wrong in
            ["deflate=1", "deflate.gpu=1", "jpeg.kernel=1", "transfer=-1", "transfer=NaN", "transfer", "start=x"]
        {
            assert!(matches!(COSTS.replaced(wrong), Err(Error::Setting { .. })), "{wrong}");
        }
    }

    #[test]
    fn report_names_the_choice_and_both_estimates() {
        let text = Estimate { device: 2e6, cpu: 1e6 }.to_string();
        assert_eq!(text, "the CPU: estimated 2.00 ms on the device, 1.00 ms on the CPU");
    }
}
