//! Memory that is kept from batch to batch, so that a steady sequence of batches allocates nothing.

use crate::error::{Error, Result};
use crate::gpu::{Gpu, MemoryUse};
use crate::memory::buffer::{Buffer, Pinned};

/// The bytes that an operation may hold on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) limit: u64,
    pub(crate) held: u64,
    /// Allocates exactly what is needed, without a reserve, because memory is short.
    pub(crate) exact: bool,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { limit, held: 0, exact: false }
    }
}

/// Device memory for one stage. It grows when a batch needs more.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    buffer: Option<Buffer>,
    /// Whether cuFile reads or writes the memory.
    for_files: bool,
}

impl Slot {
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, Buffer::bytes)
    }

    /// Sets whether cuFile reads or writes the memory that [`room`](Slot::room) makes next.
    pub(crate) fn use_for_files(&mut self, for_files: bool) {
        self.for_files = for_files;
    }

    /// The buffer. If it is too small, it is replaced and its content is lost. Nothing may be using it.
    pub(crate) fn room(
        &mut self,
        gpu: &Gpu,
        stage: &'static str,
        needed: Option<u64>,
        budget: &mut Budget,
    ) -> Result<&Buffer> {
        let suits = self.buffer.as_ref().is_some_and(|buffer| !self.for_files || buffer.suits_files());
        if !suits || needed.is_none_or(|bytes| bytes > self.bytes()) {
            self.clear(budget);
            let left = budget.limit.saturating_sub(budget.held);
            if let Some(needed) = needed.filter(|&bytes| bytes > left) {
                return Err(Error::Budget { stage, needed, left, budget: budget.limit });
            }
            // Allocates a little more than needed, because the next batch seldom has the same size; but not more than the budget allows.
            let more = needed.map(|bytes| if budget.exact { bytes } else { roomy(bytes).min(left).max(bytes) });
            let usage = if self.for_files { MemoryUse::Files } else { MemoryUse::Queues };
            let buffer = gpu.alloc_for(usage, stage, more).or_else(|error| match error {
                Error::Memory { .. } => gpu.alloc_for(usage, stage, needed),
                other => Err(other),
            })?;
            budget.held += buffer.bytes();
            self.buffer = Some(buffer);
        }
        Ok(self.get())
    }

    /// The buffer that [`room`](Slot::room) made.
    pub(crate) fn get(&self) -> &Buffer {
        self.buffer.as_ref().expect("room was asked for before")
    }

    /// Frees the memory. Nothing may be using it.
    pub(crate) fn clear(&mut self, budget: &mut Budget) {
        budget.held -= self.bytes();
        self.buffer = None;
    }
}

/// Pinned host memory for one stage. It grows when a batch needs more.
#[derive(Debug, Default)]
pub(crate) struct PinnedSlot(Option<Pinned>);

impl PinnedSlot {
    /// The first `bytes` of the memory; nothing may be using it.
    pub(crate) fn room(&mut self, gpu: &Gpu, bytes: usize) -> Result<&mut [u8]> {
        if self.0.as_ref().is_none_or(|pinned| pinned.len() < bytes) {
            self.0 = None;
            self.0 = Some(gpu.pin(roomy(bytes as u64) as usize)?);
        }
        Ok(&mut self.0.as_mut().expect("made above")[..bytes])
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |pinned| pinned.len())
    }

    /// The first `bytes` of what [`room`](PinnedSlot::room) gave.
    pub(crate) fn get(&self, bytes: usize) -> &[u8] {
        self.0.as_ref().map_or(&[], |pinned| &pinned[..bytes])
    }

    pub(crate) fn get_mut(&mut self, bytes: usize) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |pinned| pinned.head_mut(bytes))
    }
}

/// At most an eighth more than needed, or the rest of a page.
fn roomy(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 16).max(4096);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::copy_device::CopyDevice;

    fn sim() -> CopyDevice {
        CopyDevice::new().latency(Duration::ZERO)
    }

    #[test]
    fn room_of_the_same_or_a_smaller_size_allocates_nothing() {
        let gpu = Gpu::new(sim());
        let (mut slot, mut budget) = (Slot::default(), Budget::new(1 << 20));
        let first = slot.room(&gpu, "test", Some(100_000), &mut budget).unwrap().handle();
        for bytes in [100_000, 1, 0, 99_999] {
            let again = slot.room(&gpu, "test", Some(bytes), &mut budget).unwrap().handle();
            assert_eq!(again, first, "{bytes}");
        }
        assert_eq!(gpu.stats().allocations, 1);
        assert_eq!(budget.held, gpu.stats().current_bytes);
    }

    #[test]
    fn slot_that_grows_gives_its_old_memory_back_first() {
        let sim = sim();
        let gpu = Gpu::new(sim.clone());
        let (mut slot, mut budget) = (Slot::default(), Budget::new(1 << 20));
        slot.room(&gpu, "test", Some(100_000), &mut budget).unwrap();
        slot.room(&gpu, "test", Some(300_000), &mut budget).unwrap();
        let stats = gpu.stats();
        assert_eq!((stats.allocations, stats.current_bytes), (2, slot.bytes()));
        assert_eq!(stats.peak_bytes, slot.bytes(), "the old and the new were never held together");
        assert_eq!(budget.held, slot.bytes());
        slot.clear(&mut budget);
        assert_eq!((gpu.stats().current_bytes, sim.held()), (0, 0));
    }

    #[test]
    fn budget_is_shared_by_slots_and_not_passed_by_a_byte() {
        let gpu = Gpu::new(sim());
        let mut budget = Budget::new(200_000);
        let (mut first, mut second) = (Slot::default(), Slot::default());
        first.room(&gpu, "the first", Some(65_536), &mut budget).unwrap();
        let left = budget.limit - budget.held;
        let allocations = gpu.stats().allocations;

        let error = second.room(&gpu, "the second", Some(left + 1), &mut budget).unwrap_err();
        assert_eq!(error, Error::Budget { stage: "the second", needed: left + 1, left, budget: 200_000 });
        assert!(error.is_memory() && error.to_string().contains("the second needs"));
        assert_eq!(gpu.stats().allocations, allocations, "refused before anything was allocated");

        let bytes = second.room(&gpu, "the second", Some(left), &mut budget).unwrap().bytes();
        assert_eq!(bytes, left, "what is rounded up stays in the budget");
        assert_eq!(budget.held, budget.limit);
        assert_eq!(gpu.stats().current_bytes, budget.limit);
    }

    #[test]
    fn room_that_is_refused_leaves_an_empty_slot_and_a_true_budget() {
        let sim = sim().fail_allocation(2);
        let gpu = Gpu::new(sim.clone());
        let (mut slot, mut budget) = (Slot::default(), Budget::new(u64::MAX));
        slot.room(&gpu, "test", Some(5_000), &mut budget).unwrap();
        let error = slot.room(&gpu, "test", Some(50_000), &mut budget).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { stage: "test", .. }), "{error}");
        assert_eq!((slot.bytes(), budget.held, sim.held()), (0, 0, 0));

        let error = slot.room(&gpu, "test", None, &mut budget).unwrap_err();
        assert!(matches!(error, Error::Memory { needed: u64::MAX, .. }), "{error}");
        assert_eq!((slot.bytes(), budget.held), (0, 0));
        assert!(slot.room(&gpu, "test", Some(50_000), &mut budget).is_ok(), "and may be asked again");
    }

    #[test]
    fn rounding_up_stays_below_an_eighth_and_a_page_and_never_overflows() {
        for bytes in [0, 1, 4_096, 4_097, 65_537, 1 << 20, (1 << 20) + 1, u64::MAX / 2 + 2, u64::MAX] {
            let rounded = roomy(bytes);
            assert!(rounded >= bytes && rounded - bytes <= (bytes / 8).max(4_096), "{bytes} became {rounded}");
        }
    }

    #[test]
    fn pinned_memory_is_kept_too_and_grows() {
        let gpu = Gpu::new(sim());
        let mut slot = PinnedSlot::default();
        assert!(slot.get(0).is_empty() && slot.get_mut(0).is_empty());
        slot.room(&gpu, 5_000).unwrap().fill(7);
        let first = slot.get(5_000).as_ptr();
        slot.room(&gpu, 4_000).unwrap();
        assert_eq!((slot.get(5_000).as_ptr(), slot.get(5_000)), (first, &[7; 5_000][..]));
        assert_eq!(slot.room(&gpu, 50_000).unwrap().len(), 50_000);
    }
}
