//! Turns one PTX instruction into executable ones: every opcode that the simulator supports.

use super::error::{Space, Touch};
use super::inst::{Access, Alu, Code, Reduction, Update, WarpOp};
use super::lower::{Lowered, Lowering, Special};
use super::parse::{Kind, Operand, Ty};
use super::{CONSTANT_WINDOW, LOCAL_WINDOW, PREDICATE, SHARED_WINDOW, convert, float, integer};

/// The operands and modifiers of `ld`, `st`, `atom` and `red`.
struct MemoryForm<'m> {
    access: Access,
    ty: Ty,
    /// The modifiers that belong to the operation and not to the access.
    rest: Vec<&'m str>,
}

/// Returns an instruction that only computes, and its number.
fn find_alu(name: &str, modifiers: &[&str], ty: Ty) -> Option<(Alu, i64)> {
    // These move bits of any type.
    let moves = matches!(name, "selp" | "slct" | "mov");
    if ty.kind == Kind::Float && !moves { float::find(name, modifiers, ty) } else { integer::find(name, modifiers, ty) }
}

impl Lowering<'_> {
    /// Lowers the current instruction. An instruction with a guard becomes a branch around it.
    pub(super) fn instruction(&mut self) -> Lowered {
        let now = self.now;
        let mut parts = now.opcode.split('.');
        let name = parts.next().unwrap_or("");
        let modifiers: Vec<&str> = parts.collect();
        let guard = match &now.guard {
            Some((guard, negated)) => match self.register(guard) {
                Some((slot, _)) => Some((slot, *negated)),
                None => return self.bad_operands(),
            },
            None => None,
        };
        if name == "bra" {
            let code = match guard {
                None => Code::Jump,
                Some((_, false)) => Code::JumpIf,
                Some((_, true)) => Code::JumpUnless,
            };
            // The target is filled in when all labels have positions.
            self.emit(code, [guard.map_or(0, |(slot, _)| slot), 0, 0, 0, 0, 0], 0);
            return if now.operands.len() == 1 { Ok(()) } else { self.bad_operands() };
        }
        let around = self.kernel.code.len();
        if let Some((slot, negated)) = guard {
            let code = if negated { Code::JumpIf } else { Code::JumpUnless };
            self.emit(code, [slot, 0, 0, 0, 0, 0], 0);
        }
        self.operation(name, &modifiers)?;
        if guard.is_some() {
            self.kernel.code[around].number = self.kernel.code.len() as i64;
        }
        Ok(())
    }

    fn operation(&mut self, name: &str, modifiers: &[&str]) -> Lowered {
        match name {
            "ret" | "exit" => self.emit(Code::Exit, [0; 6], 0),
            "trap" => self.emit(Code::Trap, [0; 6], 0),
            // Memory is sequentially consistent here, so fences have nothing to do.
            "membar" | "fence" => {}
            "brx" => return self.branch_table(),
            "bar" | "barrier" => return self.barrier(modifiers),
            "ld" | "ldu" => return self.load(modifiers),
            "st" => return self.store(modifiers),
            "atom" | "red" => return self.atomic(name == "atom", modifiers),
            "cvta" => return self.cvta(modifiers),
            "cvt" => return self.cvt(modifiers),
            "mov" => return self.mov(modifiers),
            "setp" => return self.setp(modifiers),
            "set" => return self.set(modifiers),
            "shfl" | "vote" | "match" | "activemask" => return self.warp(name, modifiers),
            _ => return self.compute(name, modifiers),
        }
        Ok(())
    }

    /// Emits an instruction of `integer` or `float`.
    pub(super) fn alu(&mut self, name: &str, modifiers: &[&str], ty: Ty, slots: [u16; 6]) -> Lowered {
        let Some((alu, number)) = find_alu(name, modifiers, ty) else { return self.unknown() };
        self.emit(Code::Alu(alu), slots, number);
        Ok(())
    }

    /// Splits the type from the other modifiers.
    fn typed<'m>(&self, modifiers: &[&'m str]) -> Lowered<(Ty, Vec<&'m str>)> {
        match modifiers.split_last().and_then(|(last, rest)| Some((last.parse().ok()?, rest.to_vec()))) {
            Some(found) => Ok(found),
            None => self.unknown(),
        }
    }

    /// An instruction whose operands are a register and values.
    fn compute(&mut self, name: &str, modifiers: &[&str]) -> Lowered {
        let (mut ty, mut rest) = self.typed(modifiers)?;
        if name == "slct" {
            // slct.type.s32: the last type is that of the selector.
            let selector = modifiers.last().copied().unwrap_or("");
            (ty, rest) = self.typed(&rest)?;
            rest.push(selector);
        }
        if find_alu(name, &rest, ty).is_none() {
            return self.unknown();
        }
        let Some((target, sources)) = self.now.operands.split_first() else { return self.bad_operands() };
        let count = match name {
            "neg" | "not" | "cnot" | "abs" | "popc" | "clz" | "brev" | "bfind" | "sqrt" => 1,
            "mad" | "sad" | "fma" | "bfe" | "selp" | "slct" | "shf" | "prmt" => 3,
            "bfi" | "lop3" => 4,
            _ => 2,
        };
        if sources.len() != count {
            return self.bad_operands();
        }
        let mut slots = [0; 6];
        slots[0] = self.target(target)?.0;
        for (index, source) in sources.iter().enumerate().take(if name == "lop3" { 3 } else { 4 }) {
            // The last operand of `mad.wide` has the width of the product; shift amounts and positions have 32
            // bits.
            let wide = name == "mad" && rest == ["wide"] && index == 2;
            let amount =
                matches!((name, index), ("shl" | "shr", 1) | ("shf" | "slct", 2) | ("bfe", 1 | 2) | ("bfi", 2 | 3));
            let bytes = if amount {
                4
            } else if wide {
                2 * ty.bytes
            } else {
                ty.bytes
            };
            slots[index + 1] = self.source(source, bytes)?;
        }
        self.alu(name, &rest, ty, slots)?;
        if let (true, Operand::Integer(table), Some(last)) =
            (name == "lop3", &sources[count - 1], self.kernel.code.last_mut())
        {
            last.number = *table as i64;
        }
        Ok(())
    }

    fn mov(&mut self, modifiers: &[&str]) -> Lowered {
        let (ty, rest) = self.typed(modifiers)?;
        let pair = |alu: Option<Alu>| alu.filter(|_| rest.is_empty());
        match &self.now.operands[..] {
            [target, Operand::Vector(parts)] if parts.len() == 2 => {
                let Some(alu) = pair(integer::pair(4 * ty.bytes, false)) else { return self.unknown() };
                let (low, high) = (self.source(&parts[0], ty.bytes / 2)?, self.source(&parts[1], ty.bytes / 2)?);
                let target = self.target(target)?.0;
                self.emit(Code::Alu(alu), [target, low, high, 0, 0, 0], 0);
                Ok(())
            }
            [Operand::Vector(parts), source] if parts.len() == 2 => {
                let Some(alu) = pair(integer::pair(4 * ty.bytes, true)) else { return self.unknown() };
                let (low, high) = (self.target(&parts[0])?.0, self.target(&parts[1])?.0);
                let source = self.source(source, ty.bytes)?;
                self.emit(Code::Alu(alu), [low, high, source, 0, 0, 0], 0);
                Ok(())
            }
            [target, source] => {
                let slots = [self.target(target)?.0, self.source(source, ty.bytes)?, 0, 0, 0, 0];
                self.alu("mov", &rest, ty, slots)
            }
            _ => self.bad_operands(),
        }
    }

    fn cvt(&mut self, modifiers: &[&str]) -> Lowered {
        let (from, rest) = self.typed(modifiers)?;
        let (to, rest) = self.typed(&rest)?;
        let [target, source] = &self.now.operands[..] else { return self.bad_operands() };
        let (slot, register) = self.target(target)?;
        let source = self.source(source, from.bytes)?;
        let Some((alu, number)) = convert::find(&rest, to, from, register.bytes) else { return self.unknown() };
        self.emit(Code::Alu(alu), [slot, source, 0, 0, 0, 0], number);
        Ok(())
    }

    /// Converts an address between a space and the generic space, in which each space has a window.
    fn cvta(&mut self, modifiers: &[&str]) -> Lowered {
        let (to, space) = match modifiers {
            ["to", space, "u64"] => (true, *space),
            [space, "u64"] => (false, *space),
            _ => return self.unknown(),
        };
        let window = match space {
            "global" => 0,
            "shared" => SHARED_WINDOW,
            "local" => LOCAL_WINDOW,
            "const" => CONSTANT_WINDOW,
            _ => return self.unknown(),
        };
        let [target, source] = &self.now.operands[..] else { return self.bad_operands() };
        let (slot, _) = self.target(target)?;
        let source = self.source(source, 8)?;
        let window = self.constant(window)?;
        self.alu(if to { "sub" } else { "add" }, &[], super::BITS64, [slot, source, window, 0, 0, 0])
    }

    /// Emits a comparison of the first two of `operands` into a slot.
    fn compare(&mut self, modifiers: &[&str], ty: Ty, operands: &[Operand], into: u16) -> Lowered {
        let (name, flush) = match modifiers {
            [name] => (*name, false),
            [name, "ftz"] => (*name, true),
            _ => return self.unknown(),
        };
        let [a, b, ..] = operands else { return self.bad_operands() };
        let slots = [into, self.source(a, ty.bytes)?, self.source(b, ty.bytes)?, 0, 0, 0];
        let found = match ty.kind {
            Kind::Float => float::comparison(name, flush, ty),
            _ => integer::comparison(name, ty).map(|alu| (alu, 0)),
        };
        let Some((alu, number)) = found else { return self.unknown() };
        self.emit(Code::Alu(alu), slots, number);
        Ok(())
    }

    fn setp(&mut self, modifiers: &[&str]) -> Lowered {
        let (ty, mut rest) = self.typed(modifiers)?;
        let logic = rest.iter().position(|name| matches!(*name, "and" | "or" | "xor")).map(|at| rest.remove(at));
        let operands = &self.now.operands[..];
        match (operands, logic) {
            ([Operand::Pair(first, second), values @ ..], None) if values.len() == 2 => {
                let (first, second) = (self.target(first)?.0, self.target(second)?.0);
                self.compare(&rest, ty, values, first)?;
                self.alu("not", &[], PREDICATE, [second, first, 0, 0, 0, 0])
            }
            ([target, values @ ..], None) if values.len() == 2 => {
                let target = self.target(target)?.0;
                self.compare(&rest, ty, values, target)
            }
            ([target, a, b, with], Some(logic)) => {
                let (target, with, result) = (self.target(target)?.0, self.source(with, 1)?, self.temporary()?);
                self.compare(&rest, ty, &[a.clone(), b.clone()], result)?;
                self.alu(logic, &[], PREDICATE, [target, result, with, 0, 0, 0])
            }
            _ => self.bad_operands(),
        }
    }

    /// `set`: all bits, or 1.0, if the comparison is true.
    fn set(&mut self, modifiers: &[&str]) -> Lowered {
        let (ty, rest) = self.typed(modifiers)?;
        let (to, rest) = self.typed(&rest)?;
        let [target, values @ ..] = &self.now.operands[..] else { return self.bad_operands() };
        if values.len() != 2 || to.bytes != 4 {
            return self.bad_operands();
        }
        let one = if to.kind == Kind::Float { 1.0_f32.to_bits() } else { u32::MAX };
        let (target, result) = (self.target(target)?.0, self.temporary()?);
        let (yes, no) = (self.constant(one.into())?, self.constant(0)?);
        self.compare(&rest, ty, values, result)?;
        self.alu("selp", &[], to, [target, yes, no, result, 0, 0])
    }

    fn branch_table(&mut self) -> Lowered {
        let [index, Operand::Name(table)] = &self.now.operands[..] else { return self.bad_operands() };
        let Some(table) = self.table(table) else { return self.bad_operands() };
        let index = self.source(index, 4)?;
        self.emit(Code::JumpTable, [index, 0, 0, 0, 0, 0], table as i64);
        Ok(())
    }

    fn barrier(&mut self, modifiers: &[&str]) -> Lowered {
        let modifiers: Vec<&str> = modifiers.iter().copied().filter(|it| !matches!(*it, "cta" | "aligned")).collect();
        match (&modifiers[..], &self.now.operands[..]) {
            (["warp", "sync"], [mask]) => {
                let mask = self.source(mask, 4)?;
                self.emit(Code::Warp(WarpOp::Sync), [0, 0, 0, 0, 0, mask], 0);
            }
            // Swath uses one barrier, of all threads.
            (["sync"], [Operand::Integer(0)]) => self.emit(Code::Barrier(Reduction::None), [0; 6], 0),
            (["red", what, "u32" | "pred"], [target, Operand::Integer(0), predicate]) => {
                let reduction = match *what {
                    "popc" => Reduction::Count,
                    "and" => Reduction::And,
                    "or" => Reduction::Or,
                    _ => return self.unknown(),
                };
                let slots = [self.target(target)?.0, self.source(predicate, 1)?, 0, 0, 0, 0];
                self.emit(Code::Barrier(reduction), slots, 0);
            }
            (["sync"] | ["red", ..], _) => return self.bad_operands(),
            _ => return self.unknown(),
        }
        Ok(())
    }

    fn warp(&mut self, name: &str, modifiers: &[&str]) -> Lowered {
        let operands = &self.now.operands[..];
        match (name, modifiers, operands) {
            ("activemask", ["b32"], [target]) => {
                // The manual promises only that the executing lane is in the mask.
                let slots = [self.target(target)?.0, self.special(Special::LaneEqual)?, 0, 0, 0, 0];
                self.alu("mov", &[], super::BITS32, slots)
            }
            ("shfl", ["sync", mode, "b32"], [target, value, lane, clamp, mask]) => {
                let op = match *mode {
                    "up" => WarpOp::ShuffleUp,
                    "down" => WarpOp::ShuffleDown,
                    "bfly" => WarpOp::ShuffleXor,
                    "idx" => WarpOp::ShuffleIndex,
                    _ => return self.unknown(),
                };
                let (target, found) = match target {
                    Operand::Pair(target, found) => (self.target(target)?.0, self.target(found)?.0),
                    target => (self.target(target)?.0, self.temporary()?),
                };
                let [value, lane, clamp, mask] = [value, lane, clamp, mask].map(|operand| self.source(operand, 4));
                self.emit(Code::Warp(op), [target, found, value?, lane?, clamp?, mask?], 0);
                Ok(())
            }
            ("vote", ["sync", mode, "b32" | "pred"], [target, predicate, mask]) => {
                let op = match *mode {
                    "ballot" => WarpOp::Ballot,
                    "any" => WarpOp::Any,
                    "all" => WarpOp::All,
                    "uni" => WarpOp::Uniform,
                    _ => return self.unknown(),
                };
                let slots = [self.target(target)?.0, self.source(predicate, 1)?, 0, 0, 0, self.source(mask, 4)?];
                self.emit(Code::Warp(op), slots, 0);
                Ok(())
            }
            ("match", ["any", "sync", ty @ ("b32" | "b64")], [target, value, mask]) => {
                let bytes = if *ty == "b32" { 4 } else { 8 };
                let slots = [self.target(target)?.0, self.source(value, bytes)?, 0, 0, 0, self.source(mask, 4)?];
                self.emit(Code::Warp(WarpOp::MatchAny), slots, 0);
                Ok(())
            }
            _ => self.unknown(),
        }
    }

    /// Reads the modifiers of an access.
    fn access<'m>(&self, modifiers: &[&'m str], touch: Touch) -> Lowered<MemoryForm<'m>> {
        let (ty, names) = self.typed(modifiers)?;
        let mut access = Access {
            space: Space::Generic,
            touch,
            bytes: ty.bytes as u8,
            count: 1,
            extend: 0,
            signed: false,
            early: false,
        };
        let mut rest = Vec::new();
        for name in names {
            match name {
                "global" => access.space = Space::Global,
                "shared" => access.space = Space::Shared,
                "local" => access.space = Space::Local,
                "const" => access.space = Space::Constant,
                "v2" => access.count = 2,
                "v4" => access.count = 4,
                // Ordered accesses may meet other ordered accesses.
                "relaxed" | "acquire" | "release" | "acq_rel" => access.touch = Touch::Atomic,
                // Scopes and hints for caches.
                "cta" | "gpu" | "sys" | "cluster" | "weak" | "volatile" | "nc" | "ca" | "cg" | "cs" | "lu" | "cv"
                | "wb" | "wt" => {}
                other => rest.push(other),
            }
        }
        if ty.kind == Kind::Predicate { self.unknown() } else { Ok(MemoryForm { access, ty, rest }) }
    }

    /// Returns the slot of the address and the offset of a memory operand.
    fn address(&mut self, operand: &Operand) -> Lowered<(u16, i64)> {
        let Operand::Memory(base, offset) = operand else { return self.bad_operands() };
        Ok((self.source(base, 8)?, *offset))
    }

    fn load(&mut self, modifiers: &[&str]) -> Lowered {
        if let Some(("param", rest)) = modifiers.split_first().map(|(first, rest)| (*first, rest)) {
            return self.load_parameter(rest);
        }
        let MemoryForm { mut access, ty, rest } = self.access(modifiers, Touch::Read)?;
        let [target, address] = &self.now.operands[..] else { return self.bad_operands() };
        let targets = match target {
            Operand::Vector(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        if !rest.is_empty() {
            return self.unknown();
        }
        if targets.len() != usize::from(access.count) {
            return self.bad_operands();
        }
        let mut slots = [0; 6];
        for (slot, target) in slots.iter_mut().zip(targets) {
            let (register, register_ty) = self.target(target)?;
            (*slot, access.extend) = (register, register_ty.bytes as u8);
        }
        access.signed = ty.kind == Kind::Signed;
        let (base, offset) = self.address(address)?;
        slots[4] = base;
        self.emit(Code::Load(access), slots, offset);
        Ok(())
    }

    fn load_parameter(&mut self, modifiers: &[&str]) -> Lowered {
        let (ty, rest) = self.typed(modifiers)?;
        let [target, Operand::Memory(base, 0)] = &self.now.operands[..] else { return self.bad_operands() };
        let Operand::Name(name) = &**base else { return self.bad_operands() };
        let Some((slot, bytes)) = self.parameter(name).map(|index| self.kernel.parameters[index]) else {
            return self.bad_operands();
        };
        if bytes != ty.bytes || !rest.is_empty() {
            return self.bad_operands();
        }
        let slots = [self.target(target)?.0, slot, 0, 0, 0, 0];
        self.alu("mov", &[], ty, slots)
    }

    fn store(&mut self, modifiers: &[&str]) -> Lowered {
        let MemoryForm { access, ty, rest } = self.access(modifiers, Touch::Write)?;
        let [address, value] = &self.now.operands[..] else { return self.bad_operands() };
        let values = match value {
            Operand::Vector(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        if !rest.is_empty() || access.space == Space::Constant {
            return self.unknown();
        }
        if values.len() != usize::from(access.count) {
            return self.bad_operands();
        }
        let mut slots = [0; 6];
        for (slot, value) in slots.iter_mut().zip(values) {
            *slot = self.source(value, ty.bytes)?;
        }
        let (base, offset) = self.address(address)?;
        slots[4] = base;
        self.emit(Code::Store(access), slots, offset);
        Ok(())
    }

    fn atomic(&mut self, returns: bool, modifiers: &[&str]) -> Lowered {
        let MemoryForm { mut access, ty, rest } = self.access(modifiers, Touch::Atomic)?;
        access.signed = ty.kind == Kind::Signed;
        let update = match rest[..] {
            ["add"] => Update::Add,
            ["and"] => Update::And,
            ["or"] => Update::Or,
            ["xor"] => Update::Xor,
            ["min"] => Update::Min,
            ["max"] => Update::Max,
            ["exch"] => Update::Exchange,
            ["cas"] => Update::CompareAndSwap,
            ["inc"] => Update::Increment,
            ["dec"] => Update::Decrement,
            _ => return self.unknown(),
        };
        if ty.kind == Kind::Float || ty.bytes < 4 {
            return self.unknown();
        }
        let (target, operands) = match (&self.now.operands[..], returns) {
            ([target, operands @ ..], true) => (self.target(target)?.0, operands),
            (operands, _) => (self.temporary()?, operands),
        };
        let [address, values @ ..] = operands else { return self.bad_operands() };
        if values.len() != 1 + usize::from(update == Update::CompareAndSwap) {
            return self.bad_operands();
        }
        let mut slots = [target, 0, 0, 0, 0, 0];
        for (slot, value) in slots[1..].iter_mut().zip(values) {
            *slot = self.source(value, ty.bytes)?;
        }
        let (base, offset) = self.address(address)?;
        slots[4] = base;
        self.emit(Code::Atomic(access, update), slots, offset);
        Ok(())
    }
}
