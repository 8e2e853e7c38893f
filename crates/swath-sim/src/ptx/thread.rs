//! Executes the instructions of one thread.

use super::block::{Block, State};
use super::error::Misdeed;
use super::inst::{Access, Code, Frame, Inst, Update};

/// Why the instructions of a thread are not executed further for now.
enum Stop {
    State(State),
    /// The thread has got its first tainted value, or lost its last.
    Taint,
}

/// Runs a thread until it waits, exits or has executed this many instructions.
pub(super) fn run(block: &mut Block<'_>, thread: usize, slice: u64) -> Result<(), Box<Misdeed>> {
    let end = block.threads[thread].executed + slice;
    loop {
        let left = end - block.threads[thread].executed;
        let tainted = !block.taints[thread].is_empty();
        let stop = if tainted { steps::<true>(block, thread, left) } else { steps::<false>(block, thread, left) };
        if let Stop::State(state) = stop? {
            block.threads[thread].state = state;
            return Ok(());
        }
    }
}

/// Executes at most `slice` instructions. `TAINTED` says whether the thread has tainted values.
fn steps<const TAINTED: bool>(block: &mut Block<'_>, thread: usize, slice: u64) -> Result<Stop, Box<Misdeed>> {
    let Block { kernel, memory, threads, frames, stride, warps, taints, now, .. } = block;
    let frame: &mut Frame = &mut frames[thread * *stride..(thread + 1) * *stride];
    let taints = &mut taints[thread];
    now.thread = thread as u16;
    let mut pc = threads[thread].pc;
    let mut left = slice;
    let stopped = loop {
        if left == 0 {
            break Ok(Stop::State(State::Ready));
        }
        if TAINTED {
            if taints.is_empty() {
                break Ok(Stop::Taint);
            }
            if let Err(misdeed) = taints.check(&kernel.code[pc]) {
                break Err(misdeed);
            }
        }
        left -= 1;
        let inst = &kernel.code[pc];
        match inst.code {
            Code::Alu(alu) => {
                if TAINTED {
                    taints.compute(frame, inst, alu, kernel);
                } else {
                    alu(frame, inst);
                }
                pc += 1;
            }
            Code::Jump => pc = inst.number as usize,
            Code::JumpIf => pc = if frame[inst.slot(0)] != 0 { inst.number as usize } else { pc + 1 },
            Code::JumpUnless => pc = if frame[inst.slot(0)] == 0 { inst.number as usize } else { pc + 1 },
            Code::JumpTable => {
                let table = &kernel.tables[inst.number as usize];
                let index = frame[inst.slot(0)];
                match usize::try_from(index).ok().and_then(|index| table.get(index)) {
                    Some(target) => pc = *target,
                    None => break Err(Box::new(Misdeed::Table { index, entries: table.len() })),
                }
            }
            Code::Load(access) | Code::Store(access) | Code::Atomic(access, _) => {
                now.at = pc as u16;
                let address = frame[inst.slot(4)].wrapping_add_signed(inst.number);
                let located = match memory.locate(access, address, now, warps) {
                    Ok(located) => located,
                    Err(misdeed) => break Err(misdeed),
                };
                // SAFETY: `locate` returns the address of memory that is alive and has the bytes of the access, and
                // refuses to write constants.
                unsafe { access_memory(frame, inst, access, located.at) };
                pc += 1;
                if let Some(doubt) = located.doubt {
                    taints.load(inst, access.count, doubt);
                    break Ok(Stop::Taint);
                }
            }
            Code::Barrier(_) => break Ok(Stop::State(State::Barrier)),
            Code::Warp(_) => break Ok(Stop::State(State::Warp)),
            Code::Exit => break Ok(Stop::State(State::Exited)),
            Code::Trap => break Err(Box::new(Misdeed::Trap)),
        }
    };
    threads[thread].pc = pc;
    threads[thread].executed += slice - left;
    stopped
}

/// Moves the values of an access.
///
/// # Safety
/// The bytes of the access at this address can be read, and written if the instruction writes.
unsafe fn access_memory(frame: &mut Frame, inst: &Inst, access: Access, at: *mut u8) {
    let bytes = usize::from(access.bytes);
    match inst.code {
        Code::Load(_) => {
            for index in 0..usize::from(access.count) {
                // SAFETY: the element is inside the access.
                let value = unsafe { read(at.add(index * bytes), bytes) };
                let value = if access.signed { extend(value, bytes, access.extend) } else { value };
                frame[inst.slot(index)] = value;
            }
        }
        Code::Store(_) => {
            for index in 0..usize::from(access.count) {
                // SAFETY: the element is inside the access.
                unsafe { write(at.add(index * bytes), bytes, frame[inst.slot(index)]) };
            }
        }
        Code::Atomic(_, update) => {
            // SAFETY: guaranteed by the caller.
            let old = unsafe { read(at, bytes) };
            let [a, b] = [1, 2].map(|index| frame[inst.slot(index)]);
            // SAFETY: guaranteed by the caller.
            unsafe { write(at, bytes, updated(update, old, [a, b], access)) };
            frame[inst.slot(0)] = old;
        }
        _ => {}
    }
}

/// # Safety
/// That many bytes, 1, 2, 4 or 8, can be read.
#[inline(always)]
unsafe fn read(at: *const u8, bytes: usize) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match bytes {
            1 => u64::from(*at),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// # Safety
/// That many bytes, 1, 2, 4 or 8, can be written.
#[inline(always)]
unsafe fn write(at: *mut u8, bytes: usize, value: u64) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match bytes {
            1 => *at = value as u8,
            2 => at.cast::<u16>().write_unaligned(value as u16),
            4 => at.cast::<u32>().write_unaligned(value as u32),
            _ => at.cast::<u64>().write_unaligned(value),
        }
    }
}

fn signed(value: u64, bytes: usize) -> i64 {
    let unused = 64 - 8 * bytes;
    (value << unused).cast_signed() >> unused
}

fn extend(value: u64, bytes: usize, register: u8) -> u64 {
    let value = signed(value, bytes).cast_unsigned();
    if register >= 8 { value } else { value & ((1 << (8 * register)) - 1) }
}

/// The value of memory after an atomic operation.
fn updated(update: Update, old: u64, [a, b]: [u64; 2], access: Access) -> u64 {
    let bytes = usize::from(access.bytes);
    let less = if access.signed { signed(a, bytes) < signed(old, bytes) } else { a < old };
    match update {
        Update::Add => old.wrapping_add(a),
        Update::And => old & a,
        Update::Or => old | a,
        Update::Xor => old ^ a,
        Update::Min if less => a,
        Update::Min => old,
        Update::Max if less => old,
        Update::Max => a,
        Update::Exchange => a,
        Update::CompareAndSwap if old == a => b,
        Update::CompareAndSwap => old,
        Update::Increment if old >= a => 0,
        Update::Increment => old + 1,
        Update::Decrement if old == 0 || old > a => a,
        Update::Decrement => old - 1,
    }
}
