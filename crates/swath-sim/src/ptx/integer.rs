//! Integer, bit and selection instructions.

use super::inst::{Alu, Frame, Inst};
use super::parse::{Kind, Ty};

/// The integer types of registers.
pub(super) trait Int: Copy + Ord {
    /// The type that a product of two values fits into.
    type Wide: Int;
    const BITS: u32;
    fn get(slot: u64) -> Self;
    fn put(self) -> u64;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn high(self, other: Self) -> Self;
    fn wide(self, other: Self) -> Self::Wide;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn shr(self, by: u64) -> Self;
    fn fill(self) -> Self;
    fn is_negative(self) -> bool;
}

macro_rules! int {
    ($($int:ident $unsigned:ident $wide:ident $product:ident;)*) => {
        $(
            impl Int for $int {
                type Wide = $wide;
                const BITS: u32 = $int::BITS;

                #[inline(always)]
                fn get(slot: u64) -> $int {
                    slot as $int
                }

                #[inline(always)]
                fn put(self) -> u64 {
                    u64::from(self as $unsigned)
                }

                #[inline(always)]
                fn add(self, other: $int) -> $int {
                    self.wrapping_add(other)
                }

                #[inline(always)]
                fn sub(self, other: $int) -> $int {
                    self.wrapping_sub(other)
                }

                #[inline(always)]
                fn mul(self, other: $int) -> $int {
                    self.wrapping_mul(other)
                }

                fn high(self, other: $int) -> $int {
                    ((self as $product * other as $product) >> $int::BITS) as $int
                }

                #[inline(always)]
                fn wide(self, other: $int) -> $wide {
                    (self as $wide).wrapping_mul(other as $wide)
                }

                /// GPUs return a value with all bits set for a division by zero.
                fn div(self, other: $int) -> $int {
                    if other == 0 { !0 } else { self.wrapping_div(other) }
                }

                /// GPUs return the dividend for a division by zero.
                fn rem(self, other: $int) -> $int {
                    if other == 0 { self } else { self.wrapping_rem(other) }
                }

                #[allow(unused_comparisons)]
                fn abs(self) -> $int {
                    if self < 0 { (0 as $int).wrapping_sub(self) } else { self }
                }

                /// Shifts by the width or more leave only sign bits.
                #[inline(always)]
                fn shr(self, by: u64) -> $int {
                    if by < u64::from($int::BITS) { self >> by } else { self.fill() }
                }

                #[allow(unused_comparisons)]
                fn fill(self) -> $int {
                    if self < 0 { !0 } else { 0 }
                }

                #[allow(unused_comparisons)]
                fn is_negative(self) -> bool {
                    self < 0
                }
            }
        )*
    };
}

int! {
    u16 u16 u32 u32;
    u32 u32 u64 u64;
    u64 u64 u64 u128;
    i16 u16 i32 i32;
    i32 u32 i64 i64;
    i64 u64 i64 i128;
}

/// Selects the instance of a generic function for a type.
macro_rules! by_type {
    ($ty:expr, $function:ident) => {
        match ($ty.kind, $ty.bytes) {
            (Kind::Signed, 2) => Some($function::<i16> as Alu),
            (Kind::Signed, 4) => Some($function::<i32> as Alu),
            (Kind::Signed, 8) => Some($function::<i64> as Alu),
            (Kind::Unsigned | Kind::Bits, 2) => Some($function::<u16> as Alu),
            (Kind::Unsigned | Kind::Bits, 4) => Some($function::<u32> as Alu),
            (Kind::Unsigned | Kind::Bits, 8) => Some($function::<u64> as Alu),
            _ => None,
        }
    };
}

impl Inst {
    #[inline(always)]
    pub(super) fn slot(&self, index: usize) -> usize {
        self.slots[index] as usize
    }
}

/// Defines instructions of one, two or three operands of the same type.
macro_rules! instructions {
    ($($name:ident($a:ident $(, $b:ident $(, $c:ident)?)?) = $value:expr;)*) => {
        $(
            fn $name<T: Int>(frame: &mut Frame, inst: &Inst) {
                let $a = T::get(frame[inst.slot(1)]);
                $(let $b = T::get(frame[inst.slot(2)]);
                $(let $c = T::get(frame[inst.slot(3)]);)?)?
                frame[inst.slot(0)] = $value;
            }
        )*
    };
}

instructions! {
    add(a, b) = a.add(b).put();
    sub(a, b) = a.sub(b).put();
    mul_lo(a, b) = a.mul(b).put();
    mul_hi(a, b) = a.high(b).put();
    mul_wide(a, b) = a.wide(b).put();
    mad_lo(a, b, c) = a.mul(b).add(c).put();
    mad_hi(a, b, c) = a.high(b).add(c).put();
    div(a, b) = a.div(b).put();
    rem(a, b) = a.rem(b).put();
    min(a, b) = a.min(b).put();
    max(a, b) = a.max(b).put();
    abs(a) = a.abs().put();
    neg(a) = T::get(0).sub(a).put();
    sad(a, b, c) = c.add(a.max(b).sub(a.min(b))).put();
    equal(a, b) = u64::from(a == b);
    not_equal(a, b) = u64::from(a != b);
    less(a, b) = u64::from(a < b);
    less_or_equal(a, b) = u64::from(a <= b);
    greater(a, b) = u64::from(a > b);
    greater_or_equal(a, b) = u64::from(a >= b);
}

fn mad_wide<T: Int>(frame: &mut Frame, inst: &Inst) {
    let product = T::get(frame[inst.slot(1)]).wide(T::get(frame[inst.slot(2)]));
    frame[inst.slot(0)] = product.add(T::Wide::get(frame[inst.slot(3)])).put();
}

fn shr<T: Int>(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = T::get(frame[inst.slot(1)]).shr(frame[inst.slot(2)] & 0xFFFF_FFFF).put();
}

fn shl<T: Int>(frame: &mut Frame, inst: &Inst) {
    let by = frame[inst.slot(2)] & 0xFFFF_FFFF;
    let value = if by < u64::from(T::BITS) { frame[inst.slot(1)] << by } else { 0 };
    frame[inst.slot(0)] = T::get(value).put();
}

fn not<T: Int>(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = T::get(!frame[inst.slot(1)]).put();
}

fn cnot<T: Int>(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = u64::from(T::get(frame[inst.slot(1)]) == T::get(0));
}

fn popc(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = u64::from(frame[inst.slot(1)].count_ones());
}

fn clz<T: Int>(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = u64::from(T::get(frame[inst.slot(1)]).put().leading_zeros() - (64 - T::BITS));
}

fn brev<T: Int>(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = T::get(frame[inst.slot(1)]).put().reverse_bits() >> (64 - T::BITS);
}

fn bfind<T: Int>(frame: &mut Frame, inst: &Inst) {
    let value = T::get(frame[inst.slot(1)]);
    let bits = if value.is_negative() { T::get(!frame[inst.slot(1)]).put() } else { value.put() };
    frame[inst.slot(0)] = if bits == 0 { 0xFFFF_FFFF } else { 63 - u64::from(bits.leading_zeros()) };
}

/// Extracts a bit field; above the value's top bit, it continues with the sign.
fn bfe<T: Int>(frame: &mut Frame, inst: &Inst) {
    let value = T::get(frame[inst.slot(1)]);
    let (at, len) = (frame[inst.slot(2)] & 0xFF, frame[inst.slot(3)] & 0xFF);
    if len == 0 {
        frame[inst.slot(0)] = 0;
        return;
    }
    let last = (at + len - 1).min(u64::from(T::BITS) - 1);
    let negative = value.is_negative() || T::get(1 << (T::BITS - 1)).is_negative();
    let sign = negative && value.put() >> last & 1 == 1;
    let field = if at < u64::from(T::BITS) { value.put() >> at } else { 0 };
    let kept = len.min((last + 1).saturating_sub(at));
    let mask = if kept >= 64 { u64::MAX } else { (1 << kept) - 1 };
    let extended = field & mask | if sign { !mask } else { 0 };
    frame[inst.slot(0)] = T::get(extended).put();
}

/// Inserts a bit field of slot 1 into slot 2.
fn bfi<T: Int>(frame: &mut Frame, inst: &Inst) {
    let (field, into) = (frame[inst.slot(1)], frame[inst.slot(2)]);
    let (at, len) = (frame[inst.slot(3)] & 0xFF, frame[inst.slot(4)] & 0xFF);
    let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let mask = if at < 64 { ones << at } else { 0 };
    let moved = if at < 64 { field << at } else { 0 };
    frame[inst.slot(0)] = T::get(into & !mask | moved & mask).put();
}

fn and(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)] & frame[inst.slot(2)];
}

fn or(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)] | frame[inst.slot(2)];
}

fn xor(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)] ^ frame[inst.slot(2)];
}

fn not_predicate(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)] ^ 1;
}

pub(super) fn mov(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)];
}

fn selp(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = if frame[inst.slot(3)] != 0 { frame[inst.slot(1)] } else { frame[inst.slot(2)] };
}

fn slct(frame: &mut Frame, inst: &Inst) {
    let positive = (frame[inst.slot(3)] as i32) >= 0;
    frame[inst.slot(0)] = if positive { frame[inst.slot(1)] } else { frame[inst.slot(2)] };
}

/// Funnel shift: slot 1 is the low word, slot 2 the high word. `number` limits the amount: 31 wraps, 32 clamps.
fn shf<const LEFT: bool>(frame: &mut Frame, inst: &Inst) {
    let words = frame[inst.slot(2)] << 32 | frame[inst.slot(1)] & 0xFFFF_FFFF;
    let amount = frame[inst.slot(3)] & 0xFFFF_FFFF;
    let by = if inst.number == 31 { amount & 31 } else { amount.min(32) };
    frame[inst.slot(0)] = if LEFT { words << by >> 32 } else { words >> by & 0xFFFF_FFFF };
}

/// Selects bytes of slots 1 and 2 by the nibbles of slot 3; the top bit of a nibble selects the byte's sign.
fn prmt(frame: &mut Frame, inst: &Inst) {
    let bytes = (frame[inst.slot(2)] << 32 | frame[inst.slot(1)] & 0xFFFF_FFFF).to_le_bytes();
    let control = frame[inst.slot(3)];
    let select = |nibble: u64| {
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() }
    };
    let out = [0, 4, 8, 12].map(|shift| select(control >> shift & 15));
    frame[inst.slot(0)] = u64::from(u32::from_le_bytes(out));
}

/// Any function of three bits, given as a table in `number`.
fn lop3(frame: &mut Frame, inst: &Inst) {
    let [a, b, c] = [1, 2, 3].map(|index| frame[inst.slot(index)]);
    let term = |bit: i64| {
        let pick = |value: u64, shift: i64| if bit >> shift & 1 == 1 { value } else { !value };
        pick(a, 2) & pick(b, 1) & pick(c, 0)
    };
    let value = (0..8).filter(|bit| inst.number >> bit & 1 == 1).fold(0, |all, bit| all | term(bit));
    frame[inst.slot(0)] = value & 0xFFFF_FFFF;
}

/// Puts the low half of a pair of slots before the high half.
fn pack<const BITS: u32>(frame: &mut Frame, inst: &Inst) {
    let mask = (1 << BITS) - 1;
    frame[inst.slot(0)] = frame[inst.slot(2)] << BITS | frame[inst.slot(1)] & mask;
}

fn unpack<const BITS: u32>(frame: &mut Frame, inst: &Inst) {
    let (value, mask) = (frame[inst.slot(2)], (1 << BITS) - 1);
    frame[inst.slot(0)] = value & mask;
    frame[inst.slot(1)] = value >> BITS & mask;
}

/// Returns the instruction of an opcode without its modifiers, and the number that belongs to it.
pub(super) fn find(name: &str, modifiers: &[&str], ty: Ty) -> Option<(Alu, i64)> {
    let predicate = ty.kind == Kind::Predicate;
    // Bitwise instructions do the same in all types, because the bits above the type are zero.
    let alu = match (name, modifiers) {
        ("add", []) => by_type!(ty, add),
        ("sub", []) => by_type!(ty, sub),
        ("mul", ["lo"]) => by_type!(ty, mul_lo),
        ("mul", ["hi"]) => by_type!(ty, mul_hi),
        ("mul", ["wide"]) if ty.bytes < 8 => by_type!(ty, mul_wide),
        ("mad", ["lo"]) => by_type!(ty, mad_lo),
        ("mad", ["hi"]) => by_type!(ty, mad_hi),
        ("mad", ["wide"]) if ty.bytes < 8 => by_type!(ty, mad_wide),
        ("div", []) => by_type!(ty, div),
        ("rem", []) => by_type!(ty, rem),
        ("min", []) => by_type!(ty, min),
        ("max", []) => by_type!(ty, max),
        ("abs", []) => by_type!(ty, abs),
        ("neg", []) => by_type!(ty, neg),
        ("sad", []) => by_type!(ty, sad),
        ("shr", []) => by_type!(ty, shr),
        ("shl", []) => by_type!(ty, shl),
        ("not", []) if predicate => Some(not_predicate as Alu),
        ("not", []) => by_type!(ty, not),
        ("cnot", []) => by_type!(ty, cnot),
        ("and", []) => Some(and as Alu),
        ("or", []) => Some(or as Alu),
        ("xor", []) => Some(xor as Alu),
        ("popc", []) => Some(popc as Alu),
        ("clz", []) => by_type!(ty, clz),
        ("brev", []) => by_type!(ty, brev),
        ("bfind", []) => by_type!(ty, bfind),
        ("bfe", []) => by_type!(ty, bfe),
        ("bfi", []) => by_type!(ty, bfi),
        ("mov", []) => Some(mov as Alu),
        ("selp", []) => Some(selp as Alu),
        ("slct", ["s32"]) => Some(slct as Alu),
        ("shf", ["l", "wrap" | "clamp"]) if ty.bytes == 4 => Some(shf::<true> as Alu),
        ("shf", ["r", "wrap" | "clamp"]) if ty.bytes == 4 => Some(shf::<false> as Alu),
        ("prmt", []) if ty.bytes == 4 => Some(prmt as Alu),
        ("lop3", []) if ty.bytes == 4 => Some(lop3 as Alu),
        _ => None,
    };
    let limit = if modifiers.last() == Some(&"wrap") { 31 } else { 32 };
    alu.map(|alu| (alu, if name == "shf" { limit } else { 0 }))
}

/// Returns the comparison of integers with a name.
pub(super) fn comparison(name: &str, ty: Ty) -> Option<Alu> {
    // `lo`, `ls`, `hi` and `hs` are names of the unsigned comparisons.
    match name {
        "eq" => by_type!(ty, equal),
        "ne" => by_type!(ty, not_equal),
        "lt" | "lo" => by_type!(ty, less),
        "le" | "ls" => by_type!(ty, less_or_equal),
        "gt" | "hi" => by_type!(ty, greater),
        "ge" | "hs" => by_type!(ty, greater_or_equal),
        _ => None,
    }
}

/// Returns `mov` with a pair of registers of this many bits as its source or target.
pub(super) fn pair(bits: usize, to: bool) -> Option<Alu> {
    match (bits, to) {
        (16, true) => Some(unpack::<16>),
        (32, true) => Some(unpack::<32>),
        (16, false) => Some(pack::<16>),
        (32, false) => Some(pack::<32>),
        _ => None,
    }
}
