//! PTX text as a tree: variables, and kernels with their instructions. Opcodes are not interpreted here.

use std::str::FromStr;

use super::error::{LoadError, LoadProblem};

type Parsed<T> = Result<T, LoadError>;

/// A variable with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) align: usize,
    pub(super) bytes: usize,
    /// The initial bytes, if there are any; the rest is zero.
    pub(super) initial: Vec<u8>,
}

/// Registers that one declaration declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) name: String,
    /// `Some(n)` for `name<n>`, which declares `name0` to `name{n-1}`.
    pub(super) count: Option<u32>,
    pub(super) ty: Ty,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) ty: Ty,
}

/// A fundamental type: `.u32` has the kind [`Kind::Unsigned`] and 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ty {
    pub(super) kind: Kind,
    pub(super) bytes: usize,
}

/// What the bits of a type mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Bits,
    Unsigned,
    Signed,
    Float,
    Predicate,
}

impl FromStr for Ty {
    type Err = ();

    fn from_str(name: &str) -> Result<Ty, ()> {
        if name == "pred" {
            return Ok(Ty { kind: Kind::Predicate, bytes: 1 });
        }
        let kind = match name.get(..1) {
            Some("b") => Kind::Bits,
            Some("u") => Kind::Unsigned,
            Some("s") => Kind::Signed,
            Some("f") => Kind::Float,
            _ => return Err(()),
        };
        let bytes = match &name[1..] {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return Err(()),
        };
        if kind == Kind::Float && bytes < 4 {
            return Err(());
        }
        Ok(Ty { kind, bytes })
    }
}

/// An operand of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operand {
    /// A register, a variable, a parameter or a label.
    Name(String),
    /// `!name`
    Not(String),
    /// An integer, in two's complement.
    Integer(u64),
    /// The bits of a float, and its number of bytes.
    Float(u64, usize),
    /// `[base+offset]`
    Memory(Box<Operand>, i64),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    /// The number of its line, from 1.
    pub(super) line: u32,
    /// The predicate of `@p` and whether it is negated.
    pub(super) guard: Option<(String, bool)>,
    /// The opcode with its modifiers, separated by dots.
    pub(super) opcode: String,
    pub(super) operands: Vec<Operand>,
}

/// A kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) parameters: Vec<Parameter>,
    pub(super) registers: Vec<Registers>,
    pub(super) shared: Vec<Variable>,
    pub(super) local: Vec<Variable>,
    pub(super) instructions: Vec<Instruction>,
    /// The labels, each with the index of the instruction after it.
    pub(super) labels: Vec<(String, usize)>,
    /// The tables of `brx.idx`: lists of labels.
    pub(super) tables: Vec<(String, Vec<String>)>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(super) struct Text {
    pub(super) constants: Vec<Variable>,
    pub(super) globals: Vec<Variable>,
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    line: u32,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, code) in (1..).zip(text.lines()) {
        let mut rest = code.split("//").next().unwrap_or("").trim_start();
        while let Some(first) = rest.chars().next() {
            let len = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if first == '"' {
                rest[1..].find('"').map_or(rest.len(), |end| end + 2)
            } else {
                first.len_utf8()
            };
            let (text, after) = rest.split_at(len);
            tokens.push(Token { text, line });
            rest = after.trim_start();
        }
    }
    tokens
}

/// A position among the tokens.
struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    fn after(&self, count: usize) -> &'a str {
        self.tokens.get(self.at + count).map_or("", |token| token.text)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |token| token.line)
    }

    fn next(&mut self) -> &'a str {
        let text = self.peek();
        self.at += 1;
        text
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.peek() == text;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &'static str) -> Parsed<()> {
        if self.accept(text) { Ok(()) } else { Err(self.unexpected(text)) }
    }

    fn unexpected(&self, expected: &'static str) -> LoadError {
        let problem = LoadProblem::Syntax { expected, found: self.peek().to_owned() };
        LoadError { line: self.line(), problem }
    }

    /// Skips the rest of the line, for directives that have no semicolon.
    fn skip_line(&mut self) {
        let line = self.line();
        while self.at < self.tokens.len() && self.line() == line {
            self.at += 1;
        }
    }

    fn skip_statement(&mut self) {
        while self.at < self.tokens.len() && self.next() != ";" {}
    }

    fn integer(&mut self) -> Parsed<u64> {
        let negative = self.accept("-");
        let value = integer(self.peek()).ok_or_else(|| self.unexpected("an integer"))?;
        self.at += 1;
        Ok(if negative { value.wrapping_neg() } else { value })
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Parsed<T> {
        let value = self.integer()?;
        T::try_from(value).map_err(|_| self.unexpected("a smaller number"))
    }

    fn ty(&mut self) -> Parsed<Ty> {
        let ty = self.peek().strip_prefix('.').and_then(|name| name.parse().ok());
        let ty = ty.ok_or_else(|| self.unexpected("a type"))?;
        self.at += 1;
        Ok(ty)
    }
}

fn integer(text: &str) -> Option<u64> {
    let text = text.strip_suffix('U').unwrap_or(text);
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Parsed<Text> {
    let mut cursor = Cursor { tokens: tokens(text), at: 0 };
    let mut file = Text::default();
    while cursor.at < cursor.tokens.len() {
        match cursor.peek() {
            ".version" | ".target" | ".address_size" | ".file" | ".loc" => cursor.skip_line(),
            ".visible" | ".weak" | ".extern" => cursor.at += 1,
            ".const" => file.constants.push(variable(&mut cursor)?),
            ".global" => file.globals.push(variable(&mut cursor)?),
            ".entry" => file.entries.push(entry(&mut cursor)?),
            _ => return Err(cursor.unexpected("a directive that the simulator supports")),
        }
    }
    Ok(file)
}

/// Parses `.space .align 4 .b8 name[16] = {1, 2};`, or one without an array or initial values.
fn variable(cursor: &mut Cursor<'_>) -> Parsed<Variable> {
    cursor.at += 1;
    let align = if cursor.accept(".align") { Some(cursor.number()?) } else { None };
    let ty = cursor.ty()?;
    let name = cursor.next().to_owned();
    let mut count = 1_usize;
    if cursor.accept("[") {
        count = cursor.number()?;
        cursor.expect("]")?;
    }
    let mut initial = Vec::new();
    if cursor.accept("=") {
        let braces = cursor.accept("{");
        loop {
            initial.extend_from_slice(&cursor.integer()?.to_le_bytes()[..ty.bytes]);
            if !braces || !cursor.accept(",") {
                break;
            }
        }
        if braces {
            cursor.expect("}")?;
        }
    }
    cursor.expect(";")?;
    Ok(Variable { name, align: align.unwrap_or(ty.bytes), bytes: ty.bytes * count, initial })
}

fn entry(cursor: &mut Cursor<'_>) -> Parsed<Entry> {
    cursor.at += 1;
    let mut entry = Entry { line: cursor.line(), name: cursor.next().to_owned(), ..Entry::default() };
    if cursor.accept("(") {
        while !cursor.accept(")") {
            cursor.expect(".param")?;
            let ty = cursor.ty()?;
            entry.parameters.push(Parameter { name: cursor.next().to_owned(), ty });
            cursor.accept(",");
        }
    }
    while cursor.peek() != "{" {
        match cursor.peek() {
            ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnreg" => cursor.skip_line(),
            _ => return Err(cursor.unexpected("the body of the kernel")),
        }
    }
    cursor.at += 1;
    let mut depth = 1;
    while depth > 0 {
        match cursor.peek() {
            "{" => {
                depth += 1;
                cursor.at += 1;
            }
            "}" => {
                depth -= 1;
                cursor.at += 1;
            }
            ".loc" => cursor.skip_line(),
            ".pragma" => cursor.skip_statement(),
            ".reg" => registers(cursor, &mut entry)?,
            ".shared" => entry.shared.push(variable(cursor)?),
            ".local" => entry.local.push(variable(cursor)?),
            _ if cursor.after(1) == ":" && cursor.after(2) != ":" => label(cursor, &mut entry)?,
            _ => entry.instructions.push(instruction(cursor)?),
        }
    }
    Ok(entry)
}

fn registers(cursor: &mut Cursor<'_>, entry: &mut Entry) -> Parsed<()> {
    cursor.at += 1;
    let ty = cursor.ty()?;
    loop {
        let name = cursor.next().to_owned();
        let mut count = None;
        if cursor.accept("<") {
            count = Some(cursor.number()?);
            cursor.expect(">")?;
        }
        entry.registers.push(Registers { name, count, ty });
        if !cursor.accept(",") {
            return cursor.expect(";");
        }
    }
}

fn label(cursor: &mut Cursor<'_>, entry: &mut Entry) -> Parsed<()> {
    let name = cursor.next().to_owned();
    cursor.at += 1;
    if cursor.accept(".branchtargets") {
        let mut targets = vec![cursor.next().to_owned()];
        while cursor.accept(",") {
            targets.push(cursor.next().to_owned());
        }
        entry.tables.push((name, targets));
        return cursor.expect(";");
    }
    entry.labels.push((name, entry.instructions.len()));
    Ok(())
}

fn instruction(cursor: &mut Cursor<'_>) -> Parsed<Instruction> {
    let line = cursor.line();
    let mut guard = None;
    if cursor.accept("@") {
        let negated = cursor.accept("!");
        guard = Some((cursor.next().to_owned(), negated));
    }
    let opcode = opcode(cursor)?;
    let mut operands = Vec::new();
    while !cursor.accept(";") {
        operands.push(operand(cursor)?);
        if !cursor.accept(",") && cursor.peek() != ";" {
            return Err(cursor.unexpected("a semicolon"));
        }
    }
    Ok(Instruction { line, guard, opcode, operands })
}

/// Parses an opcode. `L1::no_allocate` and similar modifiers contain colons; they concern caches only and are
/// left out.
fn opcode(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let first = cursor.peek();
    if !first.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(cursor.unexpected("an instruction"));
    }
    let mut opcode = cursor.next().to_owned();
    while cursor.peek() == ":" && cursor.after(1) == ":" {
        cursor.at += 2;
        let rest = cursor.next();
        // `shared::cta` is the space `shared`.
        if !opcode.ends_with(".shared") {
            opcode.truncate(opcode.rfind('.').unwrap_or(opcode.len()));
        }
        opcode.push_str(rest.find('.').map_or("", |dot| &rest[dot..]));
    }
    Ok(opcode)
}

fn operand(cursor: &mut Cursor<'_>) -> Parsed<Operand> {
    let first = simple_operand(cursor)?;
    if cursor.accept("|") {
        let second = simple_operand(cursor)?;
        return Ok(Operand::Pair(Box::new(first), Box::new(second)));
    }
    Ok(first)
}

fn simple_operand(cursor: &mut Cursor<'_>) -> Parsed<Operand> {
    if cursor.accept("[") {
        let base = simple_operand(cursor)?;
        let negative = cursor.peek() == "-";
        let offset = if cursor.accept("+") || negative { cursor.integer()?.cast_signed() } else { 0 };
        cursor.expect("]")?;
        return Ok(Operand::Memory(Box::new(base), offset));
    }
    if cursor.accept("{") {
        let mut parts = vec![simple_operand(cursor)?];
        while cursor.accept(",") {
            parts.push(simple_operand(cursor)?);
        }
        cursor.expect("}")?;
        return Ok(Operand::Vector(parts));
    }
    if cursor.accept("!") {
        return Ok(Operand::Not(cursor.next().to_owned()));
    }
    let text = cursor.peek();
    let float = |prefix: &str, bytes: usize| {
        let digits = text.strip_prefix(prefix).filter(|digits| digits.len() == 2 * bytes)?;
        u64::from_str_radix(digits, 16).ok().map(|bits| Operand::Float(bits, bytes))
    };
    if let Some(float) = float("0f", 4).or_else(|| float("0d", 8)) {
        cursor.at += 1;
        return Ok(float);
    }
    if text == "-" || text.starts_with(|c: char| c.is_ascii_digit()) {
        return cursor.integer().map(Operand::Integer);
    }
    if !text.starts_with(is_word) {
        return Err(cursor.unexpected("an operand"));
    }
    Ok(Operand::Name(cursor.next().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = ".version 8.1\n.target sm_70\n.address_size 64\n\
        .const .align 4 .b8 table[8] = {1, 0, 255};\n\
        .visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u32 k_param_1\n)\n.maxntid 32, 1, 1\n{\n\
        \t.reg .pred \t%p<2>;\n\t.reg .b32 \t%r<3>;\n\t.shared .align 2 .b8 s[6];\n\
        \t@!%p1 bra \t$L__BB0_2; // a comment\n\
        \tst.shared.v2.u32 \t[s+-4], {%r1, -2};\n\
        $L__BB0_2:\n\tshfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;\n\tld.global.L1::no_allocate.u8 %r1, [%r2];\n\tret;\n}\n";

    #[test]
    fn every_part_of_a_file_is_parsed() {
        let file = parse(SMALL).expect("it is valid");
        assert_eq!(file.constants[0].initial, [1, 0, 255]);
        assert_eq!((file.constants[0].bytes, file.constants[0].align), (8, 4));
        let entry = &file.entries[0];
        assert_eq!((entry.name.as_str(), entry.parameters.len(), entry.line), ("k", 2, 5));
        assert_eq!(entry.registers[1].count, Some(3));
        assert_eq!(entry.shared[0].bytes, 6);
        assert_eq!(entry.labels, [("$L__BB0_2".to_owned(), 2)]);
        let [branch, store, shuffle, load, ret] = entry.instructions.as_slice() else { panic!("five instructions") };
        assert_eq!((branch.line, branch.guard.clone()), (14, Some(("%p1".to_owned(), true))));
        let address = Operand::Memory(Box::new(Operand::Name("s".into())), -4);
        let values = Operand::Vector(vec![Operand::Name("%r1".into()), Operand::Integer(-2_i64 as u64)]);
        assert_eq!(store.operands, [address, values]);
        assert!(matches!(shuffle.operands[0], Operand::Pair(..)));
        assert_eq!((load.opcode.as_str(), ret.operands.len()), ("ld.global.u8", 0));
    }

    #[test]
    fn text_that_is_no_ptx_is_refused_with_its_line() {
        let broken = SMALL.replace("%r1, -2}", "%r1, -2");
        let error = parse(&broken).expect_err("a brace is missing");
        assert_eq!(error.line, 15);
        let error = parse(&SMALL.replace(".entry", ".func")).expect_err("functions are not supported");
        assert_eq!(error.line, 5);
    }
}
