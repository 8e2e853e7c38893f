//! Runs the threads of one block after another.

use super::error::{Fault, Misdeed, Place};
use super::inst::{Code, Reduction};
use super::lines::SourceLines;
use super::lower::{Kernel, Special};
use super::memory::Memory;
use super::order::{Dice, Order};
use super::race::{Now, WARP, Warps};
use super::taint::Taints;
use super::thread;

/// The instructions after which the next thread runs, unless the order is random. Threads that wait for a value
/// of another thread get it nevertheless.
const SLICE: u64 = 1 << 20;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Waits at a barrier of the block.
    Barrier,
    /// Waits for lanes of its warp.
    Warp,
    Exited,
}

/// A thread without its slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) pc: usize,
    pub(super) state: State,
    /// The instructions that it executed.
    pub(super) executed: u64,
}

/// How a launch runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) order: Order,
    /// The most instructions of a thread.
    pub(super) limit: u64,
}

/// The blocks of a launch, which run one after another with the same slots.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) kernel: &'a Kernel,
    sources: &'a SourceLines,
    pub(super) memory: Memory<'a>,
    pub(super) threads: Vec<Thread>,
    /// The slots of all threads.
    pub(super) frames: Vec<u64>,
    pub(super) stride: usize,
    pub(super) warps: Warps,
    pub(super) taints: Vec<Taints>,
    pub(super) now: Now,
    rules: Rules,
    dice: Dice,
    number: u32,
}

/// A thread and what it did wrong.
pub(super) type Wrong = (usize, Box<Misdeed>);

impl<'a> Block<'a> {
    /// Prepares the slots of the threads. `epoch` is the first that is free.
    pub(super) fn new(
        kernel: &'a Kernel,
        sources: &'a SourceLines,
        memory: Memory<'a>,
        (blocks, threads): (u32, usize),
        values: &[u64],
        rules: Rules,
    ) -> Block<'a> {
        // Not a multiple of a large power of two, so that equal slots of threads do not compete for cache lines.
        let stride = kernel.frame.len().next_multiple_of(8) + 8;
        let mut frames = vec![0; stride * threads];
        for (thread, frame) in frames.chunks_exact_mut(stride).enumerate() {
            frame[..kernel.frame.len()].copy_from_slice(&kernel.frame);
            for ((slot, _), value) in kernel.parameters.iter().zip(values) {
                frame[usize::from(*slot)] = *value;
            }
            let lane = (thread % WARP) as u32;
            let equal = 1_u32 << lane;
            for (slot, special) in &kernel.specials {
                let value = match special {
                    Special::Thread => thread as u32,
                    Special::Block => 0,
                    Special::Threads => threads as u32,
                    Special::Blocks => blocks,
                    Special::Lane => lane,
                    Special::Warp => (thread / WARP) as u32,
                    Special::LaneEqual => equal,
                    Special::LaneLess => equal - 1,
                    Special::LaneLessEqual => equal | (equal - 1),
                    Special::LaneGreater => !(equal | (equal - 1)),
                    Special::LaneGreaterEqual => !(equal - 1),
                };
                frame[usize::from(*slot)] = value.into();
            }
        }
        let seed = if let Order::Random(seed) = rules.order { seed } else { 0 };
        Block {
            kernel,
            sources,
            memory,
            threads: vec![Thread { pc: 0, state: State::Ready, executed: 0 }; threads],
            frames,
            stride,
            warps: Warps::new(threads),
            taints: vec![Taints::default(); threads],
            now: Now { epoch: 0, block: 0, launch: 0, thread: 0, at: 0 },
            rules,
            dice: Dice::new(seed),
            number: 0,
        }
    }

    /// Runs all blocks. `epoch` is the last epoch that was used, and is updated.
    pub(super) fn run_all(&mut self, blocks: u32, epoch: &mut u32) -> Result<u64, Box<Fault>> {
        let mut numbers: Vec<u32> = (0..blocks).collect();
        match self.rules.order {
            Order::Forward | Order::Warp => {}
            Order::Reverse => numbers.reverse(),
            Order::Random(_) => self.dice.shuffle(&mut numbers),
        }
        self.now.epoch = *epoch;
        self.now.launch = *epoch + 1;
        let mut executed = 0;
        for number in numbers {
            self.number = number;
            let done = self.run();
            *epoch = self.now.epoch;
            done.map_err(|(thread, misdeed)| self.fault(thread, *misdeed))?;
            executed += self.threads.iter().map(|thread| thread.executed).sum::<u64>();
        }
        Ok(executed)
    }

    fn run(&mut self) -> Result<(), Wrong> {
        self.next_epoch();
        self.now.block = self.now.epoch;
        self.memory.next_block();
        self.taints.iter_mut().for_each(Taints::clear);
        self.threads.fill(Thread { pc: 0, state: State::Ready, executed: 0 });
        for (slot, _) in self.kernel.specials.iter().filter(|(_, special)| *special == Special::Block) {
            for frame in self.frames.chunks_exact_mut(self.stride) {
                frame[usize::from(*slot)] = self.number.into();
            }
        }
        loop {
            self.run_ready()?;
            let advanced = self.finish_warps()?;
            let waits = |state| self.threads.iter().any(|thread| thread.state == state);
            if advanced || waits(State::Ready) {
                continue;
            }
            if waits(State::Warp) {
                return Err(self.missing_lane());
            }
            if !waits(State::Barrier) {
                return Ok(());
            }
            self.finish_barrier()?;
        }
    }

    /// Runs every thread that can run, once.
    fn run_ready(&mut self) -> Result<(), Wrong> {
        let count = self.threads.len();
        match self.rules.order {
            Order::Forward => (0..count).try_for_each(|thread| self.run_thread(thread, SLICE)),
            Order::Reverse => (0..count).rev().try_for_each(|thread| self.run_thread(thread, SLICE)),
            Order::Random(_) => {
                let mut threads: Vec<usize> = (0..count).collect();
                self.dice.shuffle(&mut threads);
                threads.into_iter().try_for_each(|thread| {
                    let slice = self.dice.slice();
                    self.run_thread(thread, slice)
                })
            }
            Order::Warp => (0..count).step_by(WARP).try_for_each(|first| self.run_warp(first)),
        }
    }

    fn run_thread(&mut self, thread: usize, slice: u64) -> Result<(), Wrong> {
        if self.threads[thread].state != State::Ready {
            return Ok(());
        }
        let left = self.rules.limit.saturating_sub(self.threads[thread].executed);
        if left == 0 {
            return Err((thread, Box::new(Misdeed::Endless { limit: self.rules.limit })));
        }
        thread::run(self, thread, slice.min(left)).map_err(|misdeed| (thread, misdeed))
    }

    /// Runs the lanes of a warp together: always those that are at the first instruction.
    fn run_warp(&mut self, first: usize) -> Result<(), Wrong> {
        let lanes = first..(first + WARP).min(self.threads.len());
        loop {
            let ready = self.threads[lanes.clone()].iter().filter(|thread| thread.state == State::Ready);
            let Some(pc) = ready.map(|thread| thread.pc).min() else { return Ok(()) };
            for lane in lanes.clone() {
                if self.threads[lane].pc == pc {
                    self.run_thread(lane, 1)?;
                }
            }
        }
    }

    pub(super) fn next_epoch(&mut self) {
        self.now.epoch += 1;
        self.warps.reset();
    }

    /// Lets the threads continue after a barrier that all of them have reached.
    fn finish_barrier(&mut self) -> Result<(), Wrong> {
        let find = |state| self.threads.iter().position(|thread| thread.state == state);
        let Some(first) = find(State::Barrier) else { return Ok(()) };
        if let Some(other) = find(State::Exited) {
            return Err((first, Box::new(Misdeed::BarrierAfterExit { other: other as u32 })));
        }
        let pc = self.threads[first].pc;
        if let Some(other) = self.threads.iter().position(|thread| thread.pc != pc) {
            let place = self.place(self.threads[other].pc);
            return Err((first, Box::new(Misdeed::DivergentBarrier { other: other as u32, place })));
        }
        let inst = self.kernel.code[pc];
        if let Code::Barrier(reduction) = inst.code
            && reduction != Reduction::None
        {
            let frames = || self.frames.chunks_exact(self.stride);
            let count = frames().filter(|frame| frame[inst.slot(1)] != 0).count();
            let value = match reduction {
                Reduction::Count => count as u64,
                Reduction::And => u64::from(count == self.threads.len()),
                _ => u64::from(count > 0),
            };
            self.frames.chunks_exact_mut(self.stride).for_each(|frame| frame[inst.slot(0)] = value);
        }
        for thread in &mut self.threads {
            (thread.pc, thread.state) = (pc + 1, State::Ready);
        }
        self.next_epoch();
        Ok(())
    }

    fn place(&self, pc: usize) -> Place {
        let line = self.kernel.lines[pc];
        Place { line, source: self.sources.of(line) }
    }

    fn fault(&self, thread: usize, mut misdeed: Misdeed) -> Box<Fault> {
        let name = |place: &mut Place| place.source = self.sources.of(place.line);
        match &mut misdeed {
            Misdeed::Race { place, .. } | Misdeed::Uninitialised { place } => name(place),
            Misdeed::RacingValue { place, race } => {
                name(place);
                if let Misdeed::Race { place, .. } = &mut **race {
                    name(place);
                }
            }
            _ => {}
        }
        Box::new(Fault {
            kernel: self.kernel.name.clone(),
            block: self.number,
            thread: thread as u32,
            place: self.place(self.threads[thread].pc),
            misdeed,
        })
    }
}
