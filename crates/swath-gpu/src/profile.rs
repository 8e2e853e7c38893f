//! Optional measurement of the time that each kind of work takes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::gpu::Gpu;

/// One kind of work that a device did while it was profiled.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stage {
    /// The name: `upload`, `download`, `copy`, `synchronise`, `cuFile read`, `cuFile write`, the name of a kernel such as `kernel inflate`, or a
    /// library and its work such as `nvCOMP decompress`.
    pub name: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Bytes moved; 0 for kernels and libraries, for which only the time is measured.
    pub bytes: u64,
    /// Total time from the request to the completion.
    pub seconds: f64,
}

/// The times of a device, if profiling is on.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    on: AtomicBool,
    stages: Mutex<Vec<Stage>>,
}

impl Profile {
    /// The current time, if profiling is on.
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.on.load(Relaxed).then(Instant::now)
    }

    /// Records work that is done.
    pub(crate) fn end(&self, begun: Option<Instant>, name: &'static str, bytes: u64) {
        if let Some(begun) = begun {
            self.add(name, bytes, begun.elapsed());
        }
    }

    fn add(&self, name: &'static str, bytes: u64, time: Duration) {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let at = stages.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
            stages.push(Stage { name, calls: 0, bytes: 0, seconds: 0.0 });
            stages.len() - 1
        });
        let stage = &mut stages[at];
        stage.calls += 1;
        stage.bytes += bytes;
        stage.seconds += time.as_secs_f64();
    }
}

impl Gpu {
    /// Turns profiling on, and discards earlier times; or turns it off. While it is on, the device finishes each piece of work before it gets
    /// the next: nothing overlaps, so the sum of the stages exceeds the time of the same operation without profiling.
    /// [`stats`](Gpu::stats) does not count these waits.
    pub fn profile(&self, on: bool) {
        let profile = &self.shared.profile;
        if on {
            profile.stages.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        profile.on.store(on, Relaxed);
    }

    /// The work since [`profile`](Gpu::profile) was last turned on, each kind in the order of its first occurrence.
    pub fn profile_report(&self) -> Vec<Stage> {
        self.shared.profile.stages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use swath_codec::DType;

    use crate::copy_device::CopyDevice;
    use crate::{DeviceRaster, Gpu};

    const LATENCY: Duration = Duration::from_millis(2);

    /// Two transfers up, one down, by streams of their own.
    fn transfer(gpu: &Gpu) {
        let raster = DeviceRaster::upload(gpu, DType::U8, (1, 8, 8), false, &[7; 64]).unwrap();
        raster.fill(&[8; 64]).unwrap();
        raster.download(&mut [0; 64]).unwrap();
    }

    #[test]
    fn times_and_bytes_are_those_of_the_work() {
        let gpu = Gpu::new(CopyDevice::new().latency(LATENCY));
        gpu.profile(true);
        transfer(&gpu);
        gpu.profile(false);
        let stages = gpu.profile_report();
        let found: Vec<_> = stages.iter().map(|stage| (stage.name, stage.calls, stage.bytes)).collect();
        assert_eq!(found, [("upload", 2, 128), ("synchronise", 3, 0), ("download", 1, 64)]);
        assert!(stages[0].seconds >= 2.0 * LATENCY.as_secs_f64(), "{stages:?}");
        assert!(stages[2].seconds >= LATENCY.as_secs_f64(), "{stages:?}");
    }

    #[test]
    fn waits_that_profiling_adds_are_not_counted() {
        let count = |on| {
            let gpu = Gpu::new(CopyDevice::new().latency(Duration::ZERO));
            gpu.profile(on);
            transfer(&gpu);
            gpu.stats()
        };
        assert_eq!(count(true), count(false));
    }

    #[test]
    fn nothing_is_timed_before_it_is_turned_on_or_after_it_is_turned_off() {
        let gpu = Gpu::new(CopyDevice::new().latency(Duration::ZERO));
        transfer(&gpu);
        assert_eq!(gpu.profile_report(), []);
        gpu.profile(true);
        transfer(&gpu);
        gpu.profile(false);
        let before = gpu.profile_report();
        transfer(&gpu);
        assert_eq!(gpu.profile_report(), before);
        gpu.profile(true);
        assert_eq!(gpu.profile_report(), [], "earlier times are forgotten");
    }
}
