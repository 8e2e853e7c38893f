//! Instructions with resolved registers and branch targets, as the simulator executes them.
//!
//! Every value of a thread has a slot of 64 bits in the thread's frame: registers, immediate values, parameters
//! and special registers. A slot holds the bits of its type and zeros above them; a predicate is 0 or 1.

use super::error::{Space, Touch};

/// The slots of a thread.
pub(super) type Frame = [u64];

/// An instruction that only reads and writes slots.
pub(super) type Alu = fn(&mut Frame, &Inst);

/// An instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inst {
    pub(super) code: Code,
    /// The slots of the operands, in the order of the PTX. Vectors are spread out.
    pub(super) slots: [u16; 6],
    /// The target of a branch, the offset of an access or the control bits of the opcode.
    pub(super) number: i64,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    /// Computes.
    Alu(Alu),
    /// Jumps to `number`.
    Jump,
    /// Jumps to `number` if slot 0 is true.
    JumpIf,
    /// Jumps to `number` if slot 0 is false.
    JumpUnless,
    /// Jumps to the entry of the table `number` that slot 0 selects.
    JumpTable,
    /// Slots 0 to `count` - 1 = memory at slot 4 + `number`.
    Load(Access),
    /// Memory at slot 4 + `number` = slots 0 to `count` - 1.
    Store(Access),
    /// Slot 0 = memory at slot 4 + `number`, which is then changed with slots 1 and 2.
    Atomic(Access, Update),
    /// Waits for all threads of the block; `bar.red` combines the predicates in slot 1 into slot 0.
    Barrier(Reduction),
    /// Waits for the lanes in the mask, which is in slot 5.
    Warp(WarpOp),
    Exit,
    Trap,
}

/// An access to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) space: Space,
    pub(super) touch: Touch,
    /// The bytes of an element.
    pub(super) bytes: u8,
    /// The number of elements.
    pub(super) count: u8,
    /// The bytes that a loaded value is sign-extended to, or 0.
    pub(super) extend: u8,
    pub(super) signed: bool,
    /// Whether the compiler may have moved the load before the condition that makes it necessary.
    pub(super) early: bool,
}

/// The new value of an atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// What `bar.red` computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    None,
    Count,
    And,
    Or,
}

/// An instruction of a warp. The slots are those of the PTX, and the mask is in slot 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpOp {
    Sync,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    ShuffleIndex,
    Ballot,
    Any,
    All,
    Uniform,
    MatchAny,
}
