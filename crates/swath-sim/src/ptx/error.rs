//! Errors when PTX is loaded, and faults when it runs.

use std::fmt;

use super::lines::SourceLine;

/// The reason why a PTX text cannot be loaded, and the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct LoadError {
    pub(crate) line: u32,
    pub(crate) problem: LoadProblem,
}

/// A reason why a PTX text cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadProblem {
    #[error("expected {expected}, found '{found}'")]
    Syntax { expected: &'static str, found: String },
    #[error("unknown instruction {opcode}")]
    Opcode { opcode: String },
    #[error("{opcode} has operands that the simulator does not support")]
    Operands { opcode: String },
    #[error("{name} is not declared")]
    Undeclared { name: String },
    #[error("kernel {kernel} is too large: {what}")]
    TooLarge { kernel: String, what: &'static str },
}

/// An address space, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Constant,
    Generic,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Constant => "constant",
            Space::Generic => "generic",
        })
    }
}

/// An access to memory, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Touch::Read => "read",
            Touch::Write => "write",
            Touch::Atomic => "atomic access",
        })
    }
}

/// The other thread of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    Thread(u32),
    /// Several threads of the block.
    Several,
    /// A thread of another block.
    AnotherBlock,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Thread(thread) => write!(f, "thread {thread}"),
            Other::Several => f.write_str("several threads"),
            Other::AnotherBlock => f.write_str("another block"),
        }
    }
}

/// A position in a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The line of the PTX.
    pub(crate) line: u32,
    /// The line of the kernel's C source, if it is known.
    pub(crate) source: Option<SourceLine>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}", self.line)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

/// What a kernel did wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misdeed {
    #[error("{touch} of {bytes} bytes at {space} address {address:#x}, which is outside the live memory")]
    Bounds { space: Space, touch: Touch, address: u64, bytes: u64 },
    #[error("{touch} of {bytes} bytes at {space} address {address:#x}, which is not aligned")]
    Alignment { space: Space, touch: Touch, address: u64, bytes: u64 },
    #[error("use of a value from shared memory that the block has not written, loaded at {place}")]
    Uninitialised { place: Place },
    #[error(
        "race at {space} address {address:#x}: this {touch} is not ordered after the {earlier} of {other} at {place}"
    )]
    Race { space: Space, address: u64, touch: Touch, earlier: Touch, other: Other, place: Place },
    #[error("use of the value that was loaded at {place}: {race}")]
    RacingValue { place: Place, race: Box<Misdeed> },
    #[error("barrier that thread {other} does not reach: it has exited")]
    BarrierAfterExit { other: u32 },
    #[error("barrier that thread {other} does not reach: it waits at {place}")]
    DivergentBarrier { other: u32, place: Place },
    #[error("warp instruction with the mask {mask:#010x}, but lane {lane} does not execute it")]
    MissingLane { mask: u32, lane: u32 },
    #[error("warp instruction whose mask {mask:#010x} does not contain the lane {lane} that executes it")]
    ForeignMask { mask: u32, lane: u32 },
    #[error("shuffle from lane {lane}, which is not in the mask {mask:#010x}")]
    ShuffleSource { mask: u32, lane: u32 },
    #[error("branch to entry {index} of a table with {entries}")]
    Table { index: u64, entries: usize },
    #[error("more than {limit} instructions in one thread")]
    Endless { limit: u64 },
    #[error("trap")]
    Trap,
}

/// A fault of a kernel, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kernel}, block {block}, thread {thread}, {place}: {misdeed}")]
pub(crate) struct Fault {
    pub(crate) kernel: String,
    pub(crate) block: u32,
    pub(crate) thread: u32,
    pub(crate) place: Place,
    pub(crate) misdeed: Misdeed,
}
