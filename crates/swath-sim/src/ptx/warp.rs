//! Instructions in which the lanes of a warp take part together: shuffles, votes and synchronisation.

use super::block::{Block, State, Wrong};
use super::error::Misdeed;
use super::inst::{Code, Inst, WarpOp};
use super::race::WARP;

impl Block<'_> {
    /// Executes the warp instructions that all lanes of their mask have reached. Returns whether there was one.
    pub(super) fn finish_warps(&mut self) -> Result<bool, Wrong> {
        let mut advanced = false;
        for first in (0..self.threads.len()).step_by(WARP) {
            let lanes = WARP.min(self.threads.len() - first);
            for lane in 0..lanes {
                let Some((op, mask)) = self.waiting(first + lane) else { continue };
                if mask >> lane & 1 == 0 {
                    let misdeed = Misdeed::ForeignMask { mask, lane: lane as u32 };
                    return Err((first + lane, Box::new(misdeed)));
                }
                if self.arrived(first, mask, op).all(|(_, arrived)| arrived) {
                    self.execute(first, op, mask)?;
                    advanced = true;
                }
            }
        }
        Ok(advanced)
    }

    /// The warp instruction that a thread waits at, and its mask.
    fn waiting(&self, thread: usize) -> Option<(WarpOp, u32)> {
        let state = self.threads.get(thread).filter(|thread| thread.state == State::Warp)?;
        let inst = &self.kernel.code[state.pc];
        match inst.code {
            Code::Warp(op) => Some((op, self.slot(thread, inst, 5) as u32)),
            _ => None,
        }
    }

    fn slot(&self, thread: usize, inst: &Inst, index: usize) -> u64 {
        self.frames[thread * self.stride + inst.slot(index)]
    }

    /// The lanes of a mask, and whether they wait at the instruction.
    fn arrived(&self, first: usize, mask: u32, op: WarpOp) -> impl Iterator<Item = (usize, bool)> + '_ {
        let named = (0..WARP).filter(move |lane| mask >> lane & 1 == 1);
        named.map(move |lane| (lane, self.waiting(first + lane) == Some((op, mask))))
    }

    /// Returns the fault of lanes that wait for a lane that does not come.
    pub(super) fn missing_lane(&self) -> Wrong {
        let waiting = (0..self.threads.len()).find_map(|thread| Some((thread, self.waiting(thread)?)));
        let (thread, (op, mask)) = waiting.unwrap_or((0, (WarpOp::Sync, 0)));
        let missing = self.arrived(thread - thread % WARP, mask, op).find(|(_, arrived)| !arrived);
        (thread, Box::new(Misdeed::MissingLane { mask, lane: missing.map_or(0, |(lane, _)| lane as u32) }))
    }

    fn execute(&mut self, first: usize, op: WarpOp, mask: u32) -> Result<(), Wrong> {
        let lanes: Vec<usize> = (0..WARP).filter(|lane| mask >> lane & 1 == 1).collect();
        let insts: Vec<Inst> = lanes.iter().map(|lane| self.kernel.code[self.threads[first + lane].pc]).collect();
        let slot = |of: usize, index: usize| self.slot(first + lanes[of], &insts[of], index);
        let true_lanes =
            (0..lanes.len()).filter(|&of| slot(of, 1) != 0).fold(0_u32, |ballot, of| ballot | 1 << lanes[of]);
        let mut results = Vec::with_capacity(lanes.len());
        for of in 0..lanes.len() {
            results.push(match op {
                WarpOp::Sync => (0, 0),
                WarpOp::Ballot => (u64::from(true_lanes), 0),
                WarpOp::Any => (u64::from(true_lanes != 0), 0),
                WarpOp::All => (u64::from(true_lanes == mask), 0),
                WarpOp::Uniform => (u64::from(true_lanes == mask || true_lanes == 0), 0),
                WarpOp::MatchAny => {
                    let equal = (0..lanes.len()).filter(|&other| slot(other, 1) == slot(of, 1));
                    (equal.fold(0, |found, other| found | 1 << lanes[other]), 0)
                }
                WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor | WarpOp::ShuffleIndex => {
                    let (from, valid) = source(op, lanes[of], slot(of, 3), slot(of, 4));
                    let Some(at) = lanes.iter().position(|&lane| lane == from) else {
                        let misdeed = Misdeed::ShuffleSource { mask, lane: from as u32 };
                        return Err((first + lanes[of], Box::new(misdeed)));
                    };
                    (slot(at, 2), u64::from(valid))
                }
            });
        }
        let shuffles =
            matches!(op, WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor | WarpOp::ShuffleIndex);
        for ((lane, inst), (value, valid)) in lanes.iter().zip(&insts).zip(results) {
            let thread = first + lane;
            let frame = &mut self.frames[thread * self.stride..];
            if op != WarpOp::Sync {
                frame[inst.slot(0)] = value;
            }
            if shuffles {
                frame[inst.slot(1)] = valid;
            }
            self.threads[thread].pc += 1;
            self.threads[thread].state = State::Ready;
        }
        if op == WarpOp::Sync {
            self.order_lanes(first, mask);
        }
        Ok(())
    }

    /// Orders the accesses of the lanes before and after a synchronisation. If they are all threads of the block,
    /// a new epoch begins.
    fn order_lanes(&mut self, first: usize, mask: u32) {
        let alone = self.threads.len() <= WARP;
        let whole = (0..self.threads.len().min(WARP)).all(|lane| mask >> lane & 1 == 1);
        if alone && whole {
            self.next_epoch();
        } else {
            self.warps.synchronize(first / WARP, mask);
        }
    }
}

/// The lane that a shuffle reads, and whether it is inside the segment; else the lane reads its own value.
fn source(op: WarpOp, lane: usize, by: u64, control: u64) -> (usize, bool) {
    let (by, clamp, segment) = ((by & 31) as usize, (control & 31) as usize, (control >> 8 & 31) as usize);
    let last = lane & segment | clamp & !segment;
    let (from, valid) = match op {
        WarpOp::ShuffleUp => (lane.wrapping_sub(by), lane as isize - by as isize >= last as isize),
        WarpOp::ShuffleDown => (lane + by, lane + by <= last),
        WarpOp::ShuffleXor => (lane ^ by, lane ^ by <= last),
        _ => {
            let from = lane & segment | by & !segment;
            (from, from <= last)
        }
    };
    if valid { (from, true) } else { (lane, false) }
}
