//! Executes PTX, with the checks that a GPU does not have.
//!
//! [`Program::load`] compiles a text once: every register and value gets a slot, every branch a target. A launch
//! runs its blocks one after another. A thread is a position and its slots; it runs until a barrier, an
//! instruction of its warp or its end, or until it is preempted.
//!
//! Checked at every access: it lies in a live allocation or in a variable of its space, it is aligned, the
//! block has written the shared memory that it reads, unless the value is not used, and no access of another
//! thread to the same byte races with it. Checked at barriers: all threads of the block reach the same one. Checked at warp instructions: all
//! lanes of the mask execute them. An instruction that the simulator does not support is an error when the text
//! is loaded.
//!
//! A core executes about 300 million instructions per second with all checks, half of that in lockstep (a loop of
//! ten instructions with a load and a store).
//!
//! Memory is sequentially consistent, so a missing fence is not found unless a race shows it.

mod block;
mod convert;
mod error;
mod float;
mod inst;
mod integer;
mod lines;
mod lower;
mod memory;
mod opcode;
mod order;
mod parse;
mod race;
mod segment;
mod taint;
#[cfg(test)]
mod tests;
mod thread;
mod warp;

use std::collections::HashMap;

pub(crate) use error::{Fault, LoadError, Misdeed};
pub(crate) use lines::SourceLines;
pub(crate) use lower::Kernel;
pub(crate) use order::Order;

use block::{Block, Rules};
use lower::{Symbols, lower};
use memory::{Memory, Shadow};
use parse::{Kind, Ty, parse};
use segment::Segment;

const PREDICATE: Ty = Ty { kind: Kind::Predicate, bytes: 1 };
const BITS32: Ty = Ty { kind: Kind::Bits, bytes: 4 };
const BITS64: Ty = Ty { kind: Kind::Bits, bytes: 8 };

/// The windows of the spaces among generic addresses. No host address lies there.
const SHARED_WINDOW: u64 = 1 << 60;
const LOCAL_WINDOW: u64 = 2 << 60;
const CONSTANT_WINDOW: u64 = 3 << 60;
const WINDOW_BYTES: u64 = 1 << 32;

/// A PTX text that is ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    kernels: Vec<Kernel>,
    constants: Segment,
    /// The variables in global memory.
    globals: Box<[u64]>,
    sources: SourceLines,
    shadow: Shadow,
    /// The last epoch that a launch used.
    epoch: u32,
}

/// A launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) blocks: u32,
    /// The threads of a block.
    pub(crate) threads: usize,
    /// The values of the parameters.
    pub(crate) values: &'a [u64],
    /// The live allocations in ascending order: first address and address after the last.
    pub(crate) allocations: &'a [(u64, u64)],
    pub(crate) order: Order,
    /// The most instructions of one thread.
    pub(crate) limit: u64,
}

/// The reason why a launch did not start or did not end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("there is no kernel {0}")]
    NoKernel(String),
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

impl Program {
    /// Compiles a text.
    pub(crate) fn load(text: &str, sources: SourceLines) -> Result<Program, LoadError> {
        let file = parse(text)?;
        let globals = Segment::new(&file.globals);
        let words = globals.initial.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        let words: Box<[u64]> = words.collect();
        let base = words.as_ptr() as u64;
        let addresses =
            file.globals.iter().filter_map(|global| Some((global.name.clone(), base + globals.address(&global.name)?)));
        let symbols =
            Symbols { constants: Segment::new(&file.constants), globals: addresses.collect::<HashMap<_, _>>() };
        let kernels = file.entries.iter().map(|entry| lower(entry, &symbols)).collect::<Result<_, _>>()?;
        Ok(Program {
            kernels,
            constants: symbols.constants,
            globals: words,
            sources,
            shadow: Shadow::default(),
            epoch: 0,
        })
    }

    fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Returns the bytes of each parameter and of the shared memory of a kernel.
    pub(crate) fn signature(&self, name: &str) -> Option<(Vec<usize>, usize)> {
        let kernel = self.kernel(name)?;
        Some((kernel.parameters.iter().map(|(_, bytes)| *bytes).collect(), kernel.shared.used))
    }

    /// Runs a launch to its end and returns the number of executed instructions. `launch.allocations` must be
    /// memory that the caller may read and write.
    pub(crate) fn run(&mut self, launch: &Launch<'_>) -> Result<u64, LaunchError> {
        // Epochs of one launch must not wrap around.
        if self.epoch > u32::MAX / 2 {
            (self.epoch, self.shadow) = (0, Shadow::default());
        }
        let Program { kernels, constants, globals, sources, shadow, epoch } = self;
        let kernel = kernels.iter().find(|kernel| kernel.name == launch.kernel);
        let kernel = kernel.ok_or_else(|| LaunchError::NoKernel(launch.kernel.to_owned()))?;
        let own = (globals.as_ptr() as u64, globals.as_ptr_range().end as u64);
        let mut allocations = launch.allocations.to_vec();
        if !globals.is_empty() {
            allocations.push(own);
            allocations.sort_unstable();
        }
        let memory = Memory::new(kernel, launch.threads, &allocations, constants, shadow);
        let rules = Rules { order: launch.order, limit: launch.limit };
        let mut block = Block::new(kernel, sources, memory, (launch.blocks, launch.threads), launch.values, rules);
        Ok(block.run_all(launch.blocks, epoch)?)
    }
}
