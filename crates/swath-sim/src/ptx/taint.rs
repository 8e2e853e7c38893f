//! Values that a thread should not have loaded: from shared memory that its block has not written, or while
//! another thread writes them.
//!
//! Loading such a value is no fault: the compiler loads early what a later condition may not need. Using it is:
//! as an address, as a condition, or as a value that is stored or given to another thread. While a thread has
//! such values, it runs more slowly, because each instruction that computes with one gives another.

use std::rc::Rc;

use super::error::Misdeed;
use super::inst::{Alu, Code, Frame, Inst};
use super::lower::Kernel;

/// The tainted slots of a thread, each with the reason why it must not be used.
#[derive(Debug, Clone, Default)]
pub(super) struct Taints(Vec<(u16, Rc<Misdeed>)>);

impl Taints {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Taints the targets of a load.
    pub(super) fn load(&mut self, inst: &Inst, count: u8, doubt: Box<Misdeed>) {
        let doubt: Rc<Misdeed> = Rc::from(doubt);
        for &slot in &inst.slots[..usize::from(count)] {
            self.set(slot, Some(Rc::clone(&doubt)));
        }
    }

    fn origin(&self, slot: u16) -> Option<&Rc<Misdeed>> {
        self.0.iter().find(|(tainted, _)| *tainted == slot).map(|(_, doubt)| doubt)
    }

    fn set(&mut self, slot: u16, origin: Option<Rc<Misdeed>>) {
        self.0.retain(|(tainted, _)| *tainted != slot);
        self.0.extend(origin.map(|doubt| (slot, doubt)));
    }

    /// Computes, and taints the result if it depends on a tainted operand.
    pub(super) fn compute(&mut self, frame: &mut Frame, inst: &Inst, alu: Alu, kernel: &Kernel) {
        // Slot 0 is nothing's, so the other slots of an instruction are its operands.
        let operands = || inst.slots[1..].iter().copied().filter(|slot| *slot != 0);
        let origin = operands().find_map(|slot| self.origin(slot).cloned());
        let tainted = || operands().filter(|slot| self.origin(*slot).is_some());
        let only_predicates = tainted().all(|slot| kernel.predicates[usize::from(slot)]);
        let mut depends = origin.is_some();
        if depends && only_predicates {
            // `or` with a true operand and `and` with a false one do not depend on the other operand.
            let flipped: Vec<u16> = tainted().collect();
            let saved = inst.slots.map(|slot| frame[usize::from(slot)]);
            let results = [0, 1].map(|value| {
                flipped.iter().for_each(|slot| frame[usize::from(*slot)] = value);
                alu(frame, inst);
                let result = frame[inst.slot(0)];
                inst.slots.iter().zip(saved).for_each(|(slot, value)| frame[usize::from(*slot)] = value);
                result
            });
            depends = results[0] != results[1];
        }
        alu(frame, inst);
        self.set(inst.slots[0], origin.filter(|_| depends));
    }

    /// Checks that an instruction other than a computation uses no tainted value, and clears what it loads.
    pub(super) fn check(&mut self, inst: &Inst) -> Result<(), Box<Misdeed>> {
        let used: &[usize] = match inst.code {
            Code::JumpIf | Code::JumpUnless | Code::JumpTable => &[0],
            Code::Load(_) => &[4],
            Code::Store(access) if access.count == 1 => &[0, 4],
            Code::Store(_) => &[0, 1, 2, 3, 4],
            Code::Atomic(..) => &[1, 2, 4],
            Code::Barrier(_) => &[1],
            Code::Warp(_) => &[1, 2, 3, 4, 5],
            Code::Alu(_) | Code::Jump | Code::Exit | Code::Trap => &[],
        };
        if let Some(doubt) = used.iter().find_map(|index| self.origin(inst.slots[*index])) {
            return Err(Box::new(Misdeed::clone(doubt)));
        }
        match inst.code {
            Code::Load(access) => inst.slots[..usize::from(access.count)].iter().for_each(|slot| self.set(*slot, None)),
            Code::Atomic(..) | Code::Warp(_) => self.set(inst.slots[0], None),
            _ => {}
        }
        Ok(())
    }
}

/// Marks the loads that the compiler may have moved before their condition: the next branch depends on their
/// values only together with another predicate.
pub(super) fn mark_early_loads(kernel: &mut Kernel) {
    for at in 0..kernel.code.len() {
        let inst = kernel.code[at];
        let Code::Load(mut access) = inst.code else { continue };
        let mut values = inst.slots[..usize::from(access.count)].to_vec();
        for next in &kernel.code[at + 1..] {
            let is_value = |slot: &u16| *slot != 0 && values.contains(slot);
            match next.code {
                Code::Alu(_) => {
                    let predicates = next.slots[..3].iter().all(|slot| kernel.predicates[usize::from(*slot)]);
                    if !next.slots[1..].iter().any(is_value) {
                        continue;
                    }
                    access.early |= predicates;
                    values.push(next.slots[0]);
                }
                Code::Load(_) if !is_value(&next.slots[4]) => {}
                _ => break,
            }
        }
        kernel.code[at].code = Code::Load(access);
    }
}
