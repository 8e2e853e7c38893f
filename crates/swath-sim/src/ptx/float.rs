//! Instructions of floats, with the rounding and flushing that their modifiers say.

use super::inst::{Alu, Frame, Inst};
use super::parse::Ty;

/// The rounding of an inexact result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// The modifiers of an instruction, packed into its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    pub(super) flush: bool,
    pub(super) saturate: bool,
}

impl Mode {
    pub(super) fn pack(self) -> i64 {
        self.rounding as i64 | i64::from(self.flush) << 2 | i64::from(self.saturate) << 3
    }

    pub(super) fn unpack(number: i64) -> Mode {
        let rounding = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up][(number & 3) as usize];
        Mode { rounding, flush: number & 4 != 0, saturate: number & 8 != 0 }
    }

    /// Parses modifiers; `None` if one of them is unknown.
    pub(super) fn parse(modifiers: &[&str]) -> Option<Mode> {
        let mut mode = Mode { rounding: Rounding::Nearest, flush: false, saturate: false };
        for modifier in modifiers {
            match *modifier {
                "rn" => mode.rounding = Rounding::Nearest,
                "rz" => mode.rounding = Rounding::Zero,
                "rm" => mode.rounding = Rounding::Down,
                "rp" => mode.rounding = Rounding::Up,
                "ftz" => mode.flush = true,
                "sat" => mode.saturate = true,
                _ => return None,
            }
        }
        Some(mode)
    }
}

/// The types of floats.
pub(super) trait Float: Copy + PartialOrd {
    fn get(slot: u64) -> Self;
    fn put(self) -> u64;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn root(self) -> Self;
    fn fused(self, factor: Self, sum: Self) -> Self;
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    fn flushed(self) -> Self;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
    fn is_sign_negative(self) -> bool;
    fn next(self, up: bool) -> Self;
    fn clamped(self) -> Self;
    const NAN: Self;
    const ZERO: Self;
}

macro_rules! float {
    ($($float:ident $bits:ident $canonical:literal $nan:literal;)*) => {
        $(
            impl Float for $float {
                #[inline(always)]
                fn get(slot: u64) -> $float {
                    $float::from_bits(slot as $bits)
                }

                /// In single precision, GPUs return one NaN, whatever the operands were.
                #[inline(always)]
                fn put(self) -> u64 {
                    u64::from(if $canonical && $float::is_nan(self) { $nan } else { self.to_bits() })
                }

                fn add(self, other: $float) -> $float {
                    self + other
                }

                fn sub(self, other: $float) -> $float {
                    self - other
                }

                fn mul(self, other: $float) -> $float {
                    self * other
                }

                fn div(self, other: $float) -> $float {
                    self / other
                }

                fn root(self) -> $float {
                    self.sqrt()
                }

                fn fused(self, factor: $float, sum: $float) -> $float {
                    self.mul_add(factor, sum)
                }

                fn negative(self) -> $float {
                    -self
                }

                fn magnitude(self) -> $float {
                    self.abs()
                }

                fn flushed(self) -> $float {
                    if self.is_subnormal() { (0.0 as $float).copysign(self) } else { self }
                }

                fn is_nan(self) -> bool {
                    $float::is_nan(self)
                }

                fn is_infinite(self) -> bool {
                    $float::is_infinite(self)
                }

                fn is_sign_negative(self) -> bool {
                    $float::is_sign_negative(self)
                }

                fn next(self, up: bool) -> $float {
                    if up { self.next_up() } else { self.next_down() }
                }

                fn clamped(self) -> $float {
                    if self > 0.0 { self.min(1.0) } else { 0.0 }
                }

                const NAN: $float = $float::from_bits($nan);
                const ZERO: $float = 0.0;
            }
        )*
    };
}

float! {
    f32 u32 true 0x7FFF_FFFF;
    f64 u64 false 0x7FF8_0000_0000_0000;
}

/// Rounds in a direction: `nearest` is the nearest value, `error` has the sign of the exact value minus it.
pub(super) fn directed<T: Float>(nearest: T, error: T, rounding: Rounding, from_finite: bool) -> T {
    let (below, above) = (error < T::ZERO, error > T::ZERO);
    if nearest.is_infinite() {
        // The exact value is finite, so it lies between the largest finite value and infinity.
        let inward = match rounding {
            Rounding::Nearest => false,
            Rounding::Zero => true,
            Rounding::Down => !nearest.is_sign_negative(),
            Rounding::Up => nearest.is_sign_negative(),
        };
        return if from_finite && inward { nearest.next(nearest.is_sign_negative()) } else { nearest };
    }
    match rounding {
        Rounding::Down if below => nearest.next(false),
        Rounding::Up if above => nearest.next(true),
        Rounding::Zero if below && nearest > T::ZERO => nearest.next(false),
        Rounding::Zero if above && nearest < T::ZERO => nearest.next(true),
        _ => nearest,
    }
}

fn finite<T: Float>(values: &[T]) -> bool {
    values.iter().all(|value| !value.is_nan() && !value.is_infinite())
}

/// The error of a rounded sum (Knuth's TwoSum).
fn sum_error<T: Float>(a: T, b: T, sum: T) -> T {
    let b_part = sum.sub(a);
    let a_part = sum.sub(b_part);
    a.sub(a_part).add(b.sub(b_part))
}

/// Defines an instruction: its operands, the nearest value and the sign of its error.
macro_rules! rounded {
    ($($name:ident($($operand:ident $index:literal),*) = $nearest:expr, error $error:expr;)*) => {
        $(
            fn $name<T: Float>(frame: &mut Frame, inst: &Inst) {
                let mode = Mode::unpack(inst.number);
                $(
                    let $operand = T::get(frame[inst.slot($index)]);
                    let $operand = if mode.flush { $operand.flushed() } else { $operand };
                )*
                let nearest: T = $nearest;
                let error = |nearest: T| -> T { $error(nearest) };
                let value = if mode.rounding == Rounding::Nearest || nearest.is_nan() {
                    nearest
                } else {
                    directed(nearest, error(nearest), mode.rounding, finite(&[$($operand),*]))
                };
                frame[inst.slot(0)] = finish(value, mode).put();
            }
        )*
    };
}

fn finish<T: Float>(value: T, mode: Mode) -> T {
    let value = if mode.flush { value.flushed() } else { value };
    if mode.saturate { value.clamped() } else { value }
}

rounded! {
    add(a 1, b 2) = a.add(b), error |sum| sum_error(a, b, sum);
    sub(a 1, b 2) = a.sub(b), error |sum| sum_error(a, b.negative(), sum);
    mul(a 1, b 2) = a.mul(b), error |product: T| a.fused(b, product.negative());
    div(a 1, b 2) = a.div(b), error |quotient: T| {
        let rest = quotient.negative().fused(b, a);
        if b.is_sign_negative() { rest.negative() } else { rest }
    };
    sqrt(a 1) = a.root(), error |root: T| root.negative().fused(root, a);
}

fn fma<T: Float>(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let [a, b, c] = [1, 2, 3].map(|index| T::get(frame[inst.slot(index)]));
    let [a, b, c] = [a, b, c].map(|value| if mode.flush { value.flushed() } else { value });
    frame[inst.slot(0)] = finish(a.fused(b, c), mode).put();
}

/// The sign of a NaN is kept as it is, because `neg` and `abs` only change bits.
fn neg<T: Float>(frame: &mut Frame, inst: &Inst) {
    let value = T::get(frame[inst.slot(1)]);
    let value = if Mode::unpack(inst.number).flush { value.flushed() } else { value };
    frame[inst.slot(0)] = value.negative().put();
}

fn abs<T: Float>(frame: &mut Frame, inst: &Inst) {
    let value = T::get(frame[inst.slot(1)]);
    let value = if Mode::unpack(inst.number).flush { value.flushed() } else { value };
    frame[inst.slot(0)] = value.magnitude().put();
}

/// The smaller or the larger operand; a NaN is ignored, and -0 is less than +0.
fn extreme<T: Float, const MAX: bool>(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let [a, b] = [1, 2].map(|index| T::get(frame[inst.slot(index)]));
    let [a, b] = [a, b].map(|value| if mode.flush { value.flushed() } else { value });
    let first = if a == b { a.is_sign_negative() != MAX } else { (a < b) != MAX };
    let value = match (a.is_nan(), b.is_nan()) {
        (true, true) => T::NAN,
        (true, false) => b,
        (false, true) => a,
        _ if first => a,
        _ => b,
    };
    frame[inst.slot(0)] = value.put();
}

/// The bits of a comparison: less, equal, greater, unordered.
fn compare<T: Float>(frame: &mut Frame, inst: &Inst) {
    let flush = inst.number & 16 != 0;
    let [a, b] = [1, 2].map(|index| T::get(frame[inst.slot(index)]));
    let [a, b] = [a, b].map(|value| if flush { value.flushed() } else { value });
    let relation = match a.partial_cmp(&b) {
        Some(order) => 1 << (order as i8 + 1),
        None => 8,
    };
    frame[inst.slot(0)] = u64::from(inst.number & relation != 0);
}

macro_rules! by_float {
    ($ty:expr, $function:ident $(, $parameter:literal)?) => {
        if $ty.bytes == 4 { $function::<f32 $(, $parameter)?> as Alu } else { $function::<f64 $(, $parameter)?> }
    };
}

/// Returns the instruction of an opcode without its modifiers, and its mode. Approximations are not supported:
/// their results differ between GPUs.
pub(super) fn find(name: &str, modifiers: &[&str], ty: Ty) -> Option<(Alu, i64)> {
    let mode = Mode::parse(modifiers)?;
    let rounds = modifiers.iter().any(|modifier| matches!(*modifier, "rn" | "rz" | "rm" | "rp"));
    let alu = match name {
        "add" => by_float!(ty, add),
        "sub" => by_float!(ty, sub),
        "mul" => by_float!(ty, mul),
        "div" if rounds => by_float!(ty, div),
        "sqrt" if rounds => by_float!(ty, sqrt),
        "fma" if modifiers.contains(&"rn") => by_float!(ty, fma),
        "neg" => by_float!(ty, neg),
        "abs" => by_float!(ty, abs),
        "min" => by_float!(ty, extreme, false),
        "max" => by_float!(ty, extreme, true),
        _ => return None,
    };
    Some((alu, mode.pack()))
}

/// Returns the comparison of floats with a name, and its number.
pub(super) fn comparison(name: &str, flush: bool, ty: Ty) -> Option<(Alu, i64)> {
    let (ordered, unordered) = match name.strip_suffix('u') {
        Some(base) => (base, 8),
        None => (name, 0),
    };
    let relations = match ordered {
        "lt" => 1,
        "eq" => 2,
        "le" => 3,
        "gt" => 4,
        "ne" => 5,
        "ge" => 6,
        "num" => 7,
        "nan" => 8,
        _ => return None,
    };
    Some((by_float!(ty, compare), relations | unordered | if flush { 16 } else { 0 }))
}
