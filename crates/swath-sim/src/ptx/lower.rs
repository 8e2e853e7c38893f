//! Turns a parsed kernel into instructions with slots and branch targets.

use std::collections::HashMap;

use super::error::{LoadError, LoadProblem};
use super::inst::{Code, Inst};
use super::parse::{Entry, Instruction, Operand, Ty};
use super::segment::Segment;

/// The content of registers that a thread has not written.
pub(super) const UNWRITTEN: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// A special register whose value depends on the thread, the block or the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Thread,
    Block,
    Threads,
    Blocks,
    Lane,
    Warp,
    LaneEqual,
    LaneLess,
    LaneLessEqual,
    LaneGreater,
    LaneGreaterEqual,
}

/// A kernel that is ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(super) name: String,
    pub(super) code: Vec<Inst>,
    /// The line of each instruction.
    pub(super) lines: Vec<u32>,
    /// The targets of `brx.idx`.
    pub(super) tables: Vec<Vec<usize>>,
    /// The slots of a thread at the start, without parameters and special registers.
    pub(super) frame: Vec<u64>,
    /// The slots and the bytes of the parameters.
    pub(super) parameters: Vec<(u16, usize)>,
    pub(super) specials: Vec<(u16, Special)>,
    /// Whether a slot holds a predicate.
    pub(super) predicates: Vec<bool>,
    pub(super) shared: Segment,
    pub(super) local: Segment,
}

/// The addresses of the module's variables.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    pub(super) constants: Segment,
    pub(super) globals: HashMap<String, u64>,
}

/// A kernel that is being lowered.
pub(super) struct Lowering<'a> {
    entry: &'a Entry,
    symbols: &'a Symbols,
    registers: HashMap<&'a str, (usize, Ty)>,
    immediates: HashMap<u64, u16>,
    specials: HashMap<Special, u16>,
    pub(super) kernel: Kernel,
    /// The instruction that is being lowered.
    pub(super) now: &'a Instruction,
}

pub(super) type Lowered<T = ()> = Result<T, LoadError>;

/// Lowers a kernel.
pub(super) fn lower(entry: &Entry, symbols: &Symbols) -> Lowered<Kernel> {
    let Some(first) = entry.instructions.first() else {
        return Err(LoadError {
            line: entry.line,
            problem: LoadProblem::Syntax { expected: "instructions", found: "}".into() },
        });
    };
    let kernel = Kernel {
        name: entry.name.clone(),
        code: Vec::new(),
        lines: Vec::new(),
        tables: Vec::new(),
        frame: Vec::new(),
        parameters: Vec::new(),
        specials: Vec::new(),
        predicates: Vec::new(),
        shared: Segment::new(&entry.shared),
        local: Segment::new(&entry.local),
    };
    let mut lowering = Lowering {
        entry,
        symbols,
        registers: HashMap::new(),
        immediates: HashMap::new(),
        specials: HashMap::new(),
        kernel,
        now: first,
    };
    lowering.declare()?;
    // The first instruction in the code of each instruction of the text.
    let mut starts = Vec::with_capacity(entry.instructions.len() + 1);
    for instruction in &entry.instructions {
        starts.push(lowering.kernel.code.len());
        lowering.now = instruction;
        lowering.instruction()?;
    }
    // A label may follow the last instruction; a thread that arrives there ends.
    starts.push(lowering.kernel.code.len());
    lowering.emit(Code::Exit, [0; 6], 0);
    lowering.finish(&starts)
}

impl<'a> Lowering<'a> {
    /// Assigns slots to the registers and parameters.
    fn declare(&mut self) -> Lowered {
        // Slot 0 is that of operands that an instruction does not have.
        self.add_slot(0)?;
        for registers in &self.entry.registers {
            self.registers.insert(&registers.name, (self.kernel.frame.len(), registers.ty));
            let count = registers.count.unwrap_or(1) as usize;
            let bits = 8 * registers.ty.bytes;
            let content = if bits == 64 { UNWRITTEN } else { UNWRITTEN & ((1 << bits) - 1) };
            self.kernel.frame.resize(self.kernel.frame.len() + count, content);
        }
        for parameter in &self.entry.parameters {
            let slot = self.add_slot(0)?;
            self.kernel.parameters.push((slot, parameter.ty.bytes));
        }
        Ok(())
    }

    fn finish(mut self, starts: &[usize]) -> Lowered<Kernel> {
        let labels: HashMap<&str, usize> =
            self.entry.labels.iter().map(|(name, at)| (name.as_str(), starts[*at])).collect();
        let entry = self.entry;
        let target = |name: &str, line: u32| {
            let problem = LoadProblem::Undeclared { name: name.to_owned() };
            labels.get(name).copied().ok_or(LoadError { line, problem })
        };
        for (instruction, &start) in entry.instructions.iter().zip(starts) {
            if let (true, [Operand::Name(name)]) = (instruction.opcode.starts_with("bra"), &instruction.operands[..]) {
                self.kernel.code[start].number = target(name, instruction.line)? as i64;
            }
        }
        for (_, names) in &entry.tables {
            let targets = names.iter().map(|name| target(name, entry.line)).collect::<Lowered<_>>()?;
            self.kernel.tables.push(targets);
        }
        let name = &entry.name;
        let too_large =
            |what| LoadError { line: entry.line, problem: LoadProblem::TooLarge { kernel: name.clone(), what } };
        if self.kernel.code.len() > usize::from(u16::MAX) {
            return Err(too_large("more than 65,535 instructions"));
        }
        self.kernel.predicates = vec![false; self.kernel.frame.len()];
        for registers in entry.registers.iter().filter(|registers| registers.ty == super::PREDICATE) {
            let (first, _) = self.registers[registers.name.as_str()];
            self.kernel.predicates[first..][..registers.count.unwrap_or(1) as usize].fill(true);
        }
        super::taint::mark_early_loads(&mut self.kernel);
        self.kernel.specials = self.specials.iter().map(|(special, slot)| (*slot, *special)).collect();
        Ok(self.kernel)
    }

    pub(super) fn error<T>(&self, problem: LoadProblem) -> Lowered<T> {
        Err(LoadError { line: self.now.line, problem })
    }

    pub(super) fn unknown<T>(&self) -> Lowered<T> {
        self.error(LoadProblem::Opcode { opcode: self.now.opcode.clone() })
    }

    pub(super) fn bad_operands<T>(&self) -> Lowered<T> {
        self.error(LoadProblem::Operands { opcode: self.now.opcode.clone() })
    }

    pub(super) fn emit(&mut self, code: Code, slots: [u16; 6], number: i64) {
        self.kernel.code.push(Inst { code, slots, number });
        self.kernel.lines.push(self.now.line);
    }

    fn add_slot(&mut self, content: u64) -> Lowered<u16> {
        let Ok(slot) = u16::try_from(self.kernel.frame.len()) else {
            let kernel = self.entry.name.clone();
            return self.error(LoadProblem::TooLarge { kernel, what: "more than 65,536 registers and values" });
        };
        self.kernel.frame.push(content);
        Ok(slot)
    }

    /// Returns a slot for a value that only one instruction uses.
    pub(super) fn temporary(&mut self) -> Lowered<u16> {
        self.add_slot(0)
    }

    /// Returns the slot of a constant.
    pub(super) fn constant(&mut self, value: u64) -> Lowered<u16> {
        if let Some(&slot) = self.immediates.get(&value) {
            return Ok(slot);
        }
        let slot = self.add_slot(value)?;
        self.immediates.insert(value, slot);
        Ok(slot)
    }

    /// Returns the slot and type of a register.
    pub(super) fn register(&self, name: &str) -> Option<(u16, Ty)> {
        if let Some((slot, ty)) = self.registers.get(name) {
            return Some((u16::try_from(*slot).ok()?, *ty));
        }
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let (first, ty) = *self.registers.get(prefix)?;
        let index: usize = name[prefix.len()..].parse().ok()?;
        let count = self.entry.registers.iter().find(|registers| registers.name == prefix)?.count? as usize;
        (index < count).then_some(())?;
        Some((u16::try_from(first + index).ok()?, ty))
    }

    pub(super) fn special(&mut self, special: Special) -> Lowered<u16> {
        if let Some(&slot) = self.specials.get(&special) {
            return Ok(slot);
        }
        let slot = self.add_slot(0)?;
        self.specials.insert(special, slot);
        Ok(slot)
    }

    fn special_register(&mut self, name: &str) -> Lowered<Option<u16>> {
        let special = match name {
            "%tid.x" => Special::Thread,
            "%ctaid.x" => Special::Block,
            "%ntid.x" => Special::Threads,
            "%nctaid.x" => Special::Blocks,
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%lanemask_eq" => Special::LaneEqual,
            "%lanemask_lt" => Special::LaneLess,
            "%lanemask_le" => Special::LaneLessEqual,
            "%lanemask_gt" => Special::LaneGreater,
            "%lanemask_ge" => Special::LaneGreaterEqual,
            "%tid.y" | "%tid.z" | "%ctaid.y" | "%ctaid.z" => return self.constant(0).map(Some),
            "%ntid.y" | "%ntid.z" | "%nctaid.y" | "%nctaid.z" => return self.constant(1).map(Some),
            "WARP_SZ" => return self.constant(32).map(Some),
            _ => return Ok(None),
        };
        self.special(special).map(Some)
    }

    /// Returns the address of a variable in its own space.
    pub(super) fn variable(&self, name: &str) -> Option<u64> {
        let Kernel { shared, local, .. } = &self.kernel;
        let in_segment = [shared, local, &self.symbols.constants].into_iter().find_map(|space| space.address(name));
        in_segment.or_else(|| self.symbols.globals.get(name).copied())
    }

    /// Returns the slot of an operand that is read, with this many bytes.
    pub(super) fn source(&mut self, operand: &Operand, bytes: usize) -> Lowered<u16> {
        match operand {
            Operand::Name(name) => {
                if let Some((slot, _)) = self.register(name) {
                    return Ok(slot);
                }
                if let Some(slot) = self.special_register(name)? {
                    return Ok(slot);
                }
                match self.variable(name) {
                    Some(address) => self.constant(address),
                    None => self.error(LoadProblem::Undeclared { name: name.clone() }),
                }
            }
            Operand::Integer(value) if bytes >= 8 => self.constant(*value),
            Operand::Integer(value) => self.constant(value & ((1 << (8 * bytes)) - 1)),
            Operand::Float(bits, _) => self.constant(*bits),
            Operand::Not(name) => {
                let Some((slot, _)) = self.register(name) else { return self.bad_operands() };
                let (inverse, one) = (self.temporary()?, self.constant(1)?);
                self.alu("xor", &[], super::PREDICATE, [inverse, slot, one, 0, 0, 0])?;
                Ok(inverse)
            }
            _ => self.bad_operands(),
        }
    }

    /// Returns the slot and type of a register that is written. `_` discards the value.
    pub(super) fn target(&mut self, operand: &Operand) -> Lowered<(u16, Ty)> {
        let Operand::Name(name) = operand else { return self.bad_operands() };
        if name == "_" {
            return Ok((self.temporary()?, super::BITS64));
        }
        match self.register(name) {
            Some(found) => Ok(found),
            None => self.error(LoadProblem::Undeclared { name: name.clone() }),
        }
    }

    /// Returns the index of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<usize> {
        self.entry.parameters.iter().position(|parameter| parameter.name == name)
    }

    /// Returns the index of a branch table.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        self.entry.tables.iter().position(|(table, _)| table == name)
    }
}
