//! `cvt`: conversions between integers and floats.

use super::float::{Float, Mode, Rounding, directed};
use super::inst::{Alu, Frame, Inst};
use super::parse::{Kind, Ty};

/// The parts of a conversion, packed into the number of an instruction: the mode of [`Mode`] in the low four
/// bits, then the source type, the target type and the bytes of the target register.
#[derive(Debug, Clone, Copy)]
struct Conversion {
    mode: Mode,
    from: Number,
    to: Number,
    register: u32,
}

/// An integer type.
#[derive(Debug, Clone, Copy)]
struct Number {
    bytes: u32,
    signed: bool,
}

impl Number {
    fn new(ty: Ty) -> Number {
        Number { bytes: ty.bytes as u32, signed: ty.kind == Kind::Signed }
    }

    fn range(self) -> (i128, i128) {
        let bits = self.bytes * 8;
        if self.signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }

    fn value(self, slot: u64) -> i128 {
        let unused = 128 - self.bytes * 8;
        let bits = u128::from(slot) << unused;
        if self.signed { bits.cast_signed() >> unused } else { (bits >> unused).cast_signed() }
    }
}

impl Conversion {
    fn pack(self) -> i64 {
        let number = |of: Number| i64::from(of.bytes) | i64::from(of.signed) << 4;
        self.mode.pack() | number(self.from) << 8 | number(self.to) << 16 | i64::from(self.register) << 24
    }

    fn unpack(number: i64) -> Conversion {
        let of = |bits: i64| Number { bytes: (bits & 15) as u32, signed: bits & 16 != 0 };
        let register = (number >> 24 & 15) as u32;
        Conversion { mode: Mode::unpack(number), from: of(number >> 8), to: of(number >> 16), register }
    }
}

/// Keeps the bits of the type, and extends them to the register.
fn store(value: i128, to: Number, register: u32) -> u64 {
    let bits = value as u64;
    let kept = to.value(bits) as u64;
    if register >= 8 { kept } else { kept & ((1 << (register * 8)) - 1) }
}

fn integer(frame: &mut Frame, inst: &Inst) {
    let conversion = Conversion::unpack(inst.number);
    let value = conversion.from.value(frame[inst.slot(1)]);
    let (least, most) = conversion.to.range();
    let value = if conversion.mode.saturate { value.clamp(least, most) } else { value };
    frame[inst.slot(0)] = store(value, conversion.to, conversion.register);
}

/// A slot between unsigned types is only masked; this is the commonest conversion.
fn narrow(frame: &mut Frame, inst: &Inst) {
    frame[inst.slot(0)] = frame[inst.slot(1)] & inst.number.cast_unsigned();
}

trait FromInteger: Float {
    fn nearest(value: i128) -> Self;
    /// The sign of `value` minus `nearest`.
    fn error(value: i128, nearest: Self) -> Self;
}

macro_rules! from_integer {
    ($($float:ident)*) => {
        $(
            impl FromInteger for $float {
                fn nearest(value: i128) -> $float {
                    value as $float
                }

                fn error(value: i128, nearest: $float) -> $float {
                    (value - nearest as i128).signum() as $float
                }
            }
        )*
    };
}
from_integer!(f32 f64);

fn to_float<T: FromInteger>(frame: &mut Frame, inst: &Inst) {
    let conversion = Conversion::unpack(inst.number);
    let value = conversion.from.value(frame[inst.slot(1)]);
    let nearest = T::nearest(value);
    let value = directed(nearest, T::error(value, nearest), conversion.mode.rounding, true);
    frame[inst.slot(0)] = if conversion.mode.saturate { value.clamped() } else { value }.put();
}

/// Rounds to a whole number.
fn whole(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

fn to_integer<T: Float + Into<f64>>(frame: &mut Frame, inst: &Inst) {
    let conversion = Conversion::unpack(inst.number);
    let value = T::get(frame[inst.slot(1)]);
    let value: f64 = if conversion.mode.flush { value.flushed() } else { value }.into();
    let (least, most) = conversion.to.range();
    // The manual: NaN is 0 if neither type has 64 bits, else the value with only the top bit.
    let wide = size_of::<T>() == 8 || conversion.to.bytes == 8;
    let number = match value.is_nan() {
        true if wide => 1 << (conversion.to.bytes * 8 - 1),
        true => 0,
        false => (whole(value, conversion.mode.rounding) as i128).clamp(least, most),
    };
    frame[inst.slot(0)] = store(number, conversion.to, conversion.register);
}

fn widen(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let value = f32::get(frame[inst.slot(1)]);
    let value = f64::from(if mode.flush { value.flushed() } else { value });
    frame[inst.slot(0)] = if mode.saturate { value.clamped() } else { value }.put();
}

fn shorten(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let value = f64::get(frame[inst.slot(1)]);
    let nearest = value as f32;
    let error = (value - f64::from(nearest)) as f32;
    // A tiny error must not vanish when it becomes a float.
    let error = if error == 0.0 && value != f64::from(nearest) { f32::MIN_POSITIVE } else { error };
    let error = error.copysign((value - f64::from(nearest)) as f32);
    let rounded = if nearest.is_nan() { nearest } else { directed(nearest, error, mode.rounding, value.is_finite()) };
    let rounded = if mode.flush { rounded.flushed() } else { rounded };
    frame[inst.slot(0)] = if mode.saturate { rounded.clamped() } else { rounded }.put();
}

/// Rounds a float to a whole number of the same type.
fn integral<T: Float + Into<f64> + FromDouble>(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let value = T::get(frame[inst.slot(1)]);
    let value = if mode.flush { value.flushed() } else { value };
    let value = T::from_double(whole(value.into(), mode.rounding));
    frame[inst.slot(0)] = if mode.saturate { value.clamped() } else { value }.put();
}

trait FromDouble {
    fn from_double(value: f64) -> Self;
}

impl FromDouble for f32 {
    fn from_double(value: f64) -> f32 {
        value as f32
    }
}

impl FromDouble for f64 {
    fn from_double(value: f64) -> f64 {
        value
    }
}

/// Keeps a float of the same type, except for flushing and saturation.
fn same<T: Float>(frame: &mut Frame, inst: &Inst) {
    let mode = Mode::unpack(inst.number);
    let value = T::get(frame[inst.slot(1)]);
    let value = if mode.flush { value.flushed() } else { value };
    frame[inst.slot(0)] = if mode.saturate { value.clamped() } else { value }.put();
}

/// Returns the conversion of `cvt.modifiers.to.from` into a register of this many bytes, and its number.
pub(super) fn find(modifiers: &[&str], to: Ty, from: Ty, register: usize) -> Option<(Alu, i64)> {
    let to_whole = modifiers.iter().any(|modifier| matches!(*modifier, "rni" | "rzi" | "rmi" | "rpi"));
    let names: Vec<&str> = modifiers.iter().map(|modifier| modifier.strip_suffix('i').unwrap_or(modifier)).collect();
    let mode = Mode::parse(&names)?;
    let rounds = names.iter().any(|name| name.starts_with('r'));
    let conversion = Conversion { mode, from: Number::new(from), to: Number::new(to), register: register as u32 };
    let (from_float, to_float_type) = (from.kind == Kind::Float, to.kind == Kind::Float);
    let plain = from.kind != Kind::Signed && to.kind != Kind::Signed && !mode.saturate;
    let alu: Alu = match (from_float, to_float_type) {
        (false, false) if rounds => return None,
        (false, false) if plain => {
            let bits = 8 * to.bytes.min(from.bytes);
            return Some((narrow, (u64::MAX >> (64 - bits)).cast_signed()));
        }
        (false, false) => integer,
        (false, true) if !rounds || to_whole => return None,
        (false, true) if to.bytes == 4 => to_float::<f32>,
        (false, true) => to_float::<f64>,
        (true, false) if !to_whole => return None,
        (true, false) if from.bytes == 4 => to_integer::<f32>,
        (true, false) => to_integer::<f64>,
        (true, true) if from.bytes == to.bytes && to_whole => match to.bytes {
            4 => integral::<f32>,
            _ => integral::<f64>,
        },
        (true, true) if to_whole => return None,
        (true, true) => match (from.bytes, to.bytes) {
            (4, 8) => widen,
            (8, 4) if rounds => shorten,
            (4, 4) => same::<f32>,
            (8, 8) => same::<f64>,
            _ => return None,
        },
    };
    Some((alu, conversion.pack()))
}
