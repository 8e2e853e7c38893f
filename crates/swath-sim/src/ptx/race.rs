//! Finds races: two accesses of one byte by different threads, at least one of them a write, that no barrier
//! orders.
//!
//! Time is divided into epochs. A new epoch begins with each block and with each barrier of a block, so two
//! accesses in one epoch are accesses of one block between two barriers. `bar.warp.sync` orders the lanes that
//! take part in it; a clock for each warp counts these.

use super::error::{Other, Touch};

/// What the last accesses of a byte were. Epochs begin with 1, so a new cell was never accessed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    pub(super) write_epoch: u32,
    read_epoch: u32,
    /// The thread, and [`ATOMIC`].
    writer: u16,
    /// The thread, or several: [`MANY`] or a warp and [`LANES`].
    reader: u16,
    write_clock: u16,
    read_clock: u16,
    write_at: u16,
    read_at: u16,
}

const ATOMIC: u16 = 0x8000;
const MANY: u16 = 0xFFFF;
const LANES: u16 = 0x8000;
/// The lanes of a warp.
pub(super) const WARP: usize = 32;

/// The clocks of a block's warps.
#[derive(Debug, Default)]
pub(super) struct Warps {
    clocks: Vec<u16>,
    /// For two lanes of a warp, the clock after the last synchronisation of both.
    met: Vec<[[u16; WARP]; WARP]>,
}

impl Warps {
    pub(super) fn new(threads: usize) -> Warps {
        let warps = threads.div_ceil(WARP);
        Warps { clocks: vec![0; warps], met: vec![[[0; WARP]; WARP]; warps] }
    }

    /// Forgets all synchronisations, when a new epoch begins.
    pub(super) fn reset(&mut self) {
        for (clock, met) in self.clocks.iter_mut().zip(&mut self.met).filter(|(clock, _)| **clock > 0) {
            (*clock, *met) = (0, [[0; WARP]; WARP]);
        }
    }

    /// Orders the lanes in the mask.
    pub(super) fn synchronize(&mut self, warp: usize, mask: u32) {
        let clock = self.clocks[warp].saturating_add(1);
        self.clocks[warp] = clock;
        let lanes = || (0..WARP).filter(move |lane| mask >> lane & 1 == 1);
        for a in lanes() {
            lanes().for_each(|b| self.met[warp][a][b] = clock);
        }
    }

    fn clock(&self, thread: u16) -> u16 {
        self.clocks[usize::from(thread) / WARP]
    }

    /// Whether an access of `earlier` at a clock is ordered before one of `thread` now.
    fn orders(&self, earlier: u16, clock: u16, thread: u16) -> bool {
        let (earlier, thread) = (usize::from(earlier), usize::from(thread));
        earlier / WARP == thread / WARP && self.met[thread / WARP][earlier % WARP][thread % WARP] > clock
    }

    /// Whether accesses of any lanes of a warp are ordered before one of `thread` now.
    fn orders_all(&self, warp: u16, clock: u16, thread: u16) -> bool {
        let first = warp * WARP as u16;
        (first..first + WARP as u16).all(|lane| lane == thread || self.orders(lane, clock, thread))
    }
}

/// The position in time and in the code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) epoch: u32,
    /// The first epoch of the block.
    pub(super) block: u32,
    /// The first epoch of the launch.
    pub(super) launch: u32,
    pub(super) thread: u16,
    /// The index of the instruction.
    pub(super) at: u16,
}

/// The earlier access of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) earlier: Touch,
    pub(super) other: Other,
    pub(super) at: u16,
}

impl Cell {
    /// Records an access, and returns the earlier access that it races with.
    #[inline]
    pub(super) fn touch(&mut self, touch: Touch, now: &Now, warps: &Warps) -> Option<Conflict> {
        if self.write_epoch >= now.launch
            && let Some(conflict) = self.after_write(touch, now, warps)
        {
            return Some(conflict);
        }
        if touch == Touch::Read {
            self.record_read(now, warps);
            return None;
        }
        if self.read_epoch >= now.launch
            && let Some(conflict) = self.after_read(now, warps)
        {
            return Some(conflict);
        }
        self.write_epoch = now.epoch;
        self.writer = now.thread | if touch == Touch::Atomic { ATOMIC } else { 0 };
        self.write_clock = warps.clock(now.thread);
        self.write_at = now.at;
        None
    }

    /// Returns the write that a read races with, and does not record the read.
    pub(super) fn peek(&self, now: &Now, warps: &Warps) -> Option<Conflict> {
        if self.write_epoch >= now.launch { self.after_write(Touch::Read, now, warps) } else { None }
    }

    fn after_write(&self, touch: Touch, now: &Now, warps: &Warps) -> Option<Conflict> {
        let (writer, atomic) = (self.writer & !ATOMIC, self.writer & ATOMIC != 0);
        let earlier = if atomic { Touch::Atomic } else { Touch::Write };
        let conflict = |other| Some(Conflict { earlier, other, at: self.write_at });
        if atomic && touch == Touch::Atomic {
            return None;
        }
        if self.write_epoch < now.block {
            return conflict(Other::AnotherBlock);
        }
        let ordered =
            self.write_epoch < now.epoch || writer == now.thread || warps.orders(writer, self.write_clock, now.thread);
        if ordered { None } else { conflict(Other::Thread(writer.into())) }
    }

    fn after_read(&self, now: &Now, warps: &Warps) -> Option<Conflict> {
        let conflict = |other| Some(Conflict { earlier: Touch::Read, other, at: self.read_at });
        if self.read_epoch < now.block {
            return conflict(Other::AnotherBlock);
        }
        if self.read_epoch < now.epoch || self.reader == now.thread {
            return None;
        }
        let (ordered, other) = match self.reader {
            MANY => (false, Other::Several),
            lanes if lanes & LANES != 0 => {
                (warps.orders_all(lanes & !LANES, self.read_clock, now.thread), Other::Several)
            }
            reader => (warps.orders(reader, self.read_clock, now.thread), Other::Thread(reader.into())),
        };
        if ordered { None } else { conflict(other) }
    }

    #[inline]
    fn record_read(&mut self, now: &Now, warps: &Warps) {
        if self.read_epoch == now.epoch && self.reader != now.thread {
            let warp = |thread: u16| thread / WARP as u16;
            let lanes = LANES | warp(now.thread);
            let same_warp = self.reader == lanes || self.reader & LANES == 0 && warp(self.reader) == warp(now.thread);
            self.reader = if same_warp { lanes } else { MANY };
        } else {
            self.reader = now.thread;
        }
        self.read_epoch = now.epoch;
        self.read_clock = warps.clock(now.thread);
        self.read_at = now.at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses of one byte, each with its epoch and thread, in a launch of two blocks of 64 threads: the first
    /// block has the epochs 10 to 19.
    fn conflict(accesses: &[(u32, u16, Touch)]) -> Option<Conflict> {
        let warps = Warps::new(64);
        let mut cell = Cell::default();
        let mut conflicts = accesses.iter().filter_map(|&(epoch, thread, touch)| {
            let block = if epoch < 20 { 10 } else { 20 };
            cell.touch(touch, &Now { epoch, block, launch: 10, thread, at: 7 }, &warps)
        });
        conflicts.next()
    }

    #[test]
    fn accesses_without_a_barrier_between_them_race() {
        use Touch::{Atomic, Read, Write};
        let other = |accesses: &[_]| conflict(accesses).map(|conflict| (conflict.earlier, conflict.other));
        assert_eq!(other(&[(10, 0, Write), (10, 0, Read), (10, 0, Write)]), None);
        assert_eq!(other(&[(10, 0, Write), (11, 1, Read), (12, 2, Write)]), None);
        assert_eq!(other(&[(9, 0, Write), (10, 1, Read)]), None, "an earlier launch");
        assert_eq!(other(&[(10, 0, Write), (10, 1, Read)]), Some((Write, Other::Thread(0))));
        assert_eq!(other(&[(10, 3, Write), (10, 1, Write)]), Some((Write, Other::Thread(3))));
        assert_eq!(other(&[(10, 3, Read), (10, 1, Write)]), Some((Read, Other::Thread(3))));
        assert_eq!(other(&[(10, 3, Read), (10, 1, Read), (10, 1, Write)]), Some((Read, Other::Several)));
        assert_eq!(other(&[(10, 3, Read), (10, 40, Read), (10, 40, Write)]), Some((Read, Other::Several)));
        assert_eq!(other(&[(10, 3, Atomic), (10, 1, Atomic), (20, 1, Atomic)]), None);
        assert_eq!(other(&[(10, 3, Atomic), (10, 1, Read)]), Some((Atomic, Other::Thread(3))));
        assert_eq!(other(&[(10, 3, Write), (20, 3, Read)]), Some((Write, Other::AnotherBlock)));
        assert_eq!(other(&[(10, 3, Read), (20, 3, Write)]), Some((Read, Other::AnotherBlock)));
    }

    #[test]
    fn synchronised_lanes_do_not_race() {
        let now = |thread| Now { epoch: 10, block: 10, launch: 10, thread, at: 0 };
        let mut warps = Warps::new(64);
        let mut cell = Cell::default();
        assert_eq!(cell.touch(Touch::Write, &now(1), &warps), None);
        warps.synchronize(0, 0b0111);
        assert_eq!(cell.touch(Touch::Read, &now(2), &warps), None);
        assert!(cell.touch(Touch::Read, &now(3), &warps).is_some(), "lane 3 was not in the mask");
        assert!(cell.touch(Touch::Read, &now(33), &warps).is_some(), "another warp");
        assert_eq!(cell.touch(Touch::Read, &now(1), &warps), None);
        assert!(cell.touch(Touch::Write, &now(0), &warps).is_some(), "lanes 1 and 2 read it");
        warps.synchronize(0, u32::MAX);
        assert_eq!(cell.touch(Touch::Write, &now(0), &warps), None);
    }
}
