//! Every class of opcodes against Rust's own arithmetic.

use super::super::{Launch, Order, Program, SourceLines};
use super::{aligned, kernel};

/// An instruction that computes register 4 of some type from registers 1, 2 and 3, and its result in Rust.
type Case = (&'static str, fn(u64, u64, u64) -> u64);

const VALUES: [u64; 18] = [
    0,
    1,
    2,
    31,
    33,
    0x7F,
    0x80,
    0xFFFF,
    0x7FFF_8000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x0123_4567_89AB_CDEF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x4009_21FB_5444_2D18,
    0xC1E0_0000_3FC0_0000,
];

/// Runs the instructions on all combinations of the values.
fn check(cases: &[Case], values: &[u64]) {
    let mut body =
        "ld.global.u64 %rd5, [%rd1];\nld.global.u64 %rd6, [%rd1+8];\nld.global.u64 %rd7, [%rd1+16];\n".to_owned();
    for (index, (instruction, _)) in cases.iter().enumerate() {
        // The operands again before each, because the registers of the results are other ones.
        for n in 1..=3 {
            body += &format!(
                "mov.u64 %rd1{n}, %rd{0};\ncvt.u32.u64 %r1{n}, %rd{0};\ncvt.u16.u64 %rs1{n}, %rd{0};\n\
                 mov.b32 %f1{n}, %r1{n};\nmov.b64 %fd1{n}, %rd{0};\nsetp.ne.u64 %p1{n}, %rd{0}, 0;\n",
                n + 4
            );
        }
        let target = instruction.split([' ', ',']).nth(1).unwrap_or("").trim_end_matches("14");
        let to = 24 + 8 * index;
        let store = match target {
            "%p" => format!("selp.u64 %rd20, 1, 0, %p14;\nst.global.u64 [%rd1+{to}], %rd20;"),
            "%rs" => format!("st.global.u16 [%rd1+{to}], %rs14;"),
            "%r" => format!("st.global.u32 [%rd1+{to}], %r14;"),
            "%rd" => format!("st.global.u64 [%rd1+{to}], %rd14;"),
            "%f" => format!("st.global.f32 [%rd1+{to}], %f14;"),
            _ => format!("st.global.f64 [%rd1+{to}], %fd14;"),
        };
        body += &format!("{instruction};\n{store}\n");
    }
    let mut program = Program::load(&kernel("", &body), SourceLines::default()).expect("all opcodes are known");
    let mut memory = Vec::new();
    let buffer = aligned(&mut memory, 24 + 8 * cases.len());
    for &a in values {
        for &b in values {
            for c in [a ^ b, 5, b.rotate_left(32)] {
                buffer.fill(0);
                [a, b, c]
                    .iter()
                    .zip(buffer.chunks_exact_mut(8))
                    .for_each(|(v, to)| to.copy_from_slice(&v.to_le_bytes()));
                let range = buffer.as_mut_ptr_range();
                let (start, end) = (range.start as u64, range.end as u64);
                let launch = Launch {
                    kernel: "k",
                    blocks: 1,
                    threads: 1,
                    values: &[start],
                    allocations: &[(start, end)],
                    order: Order::Forward,
                    limit: 1_000_000,
                };
                program.run(&launch).unwrap_or_else(|error| panic!("{error}"));
                for ((instruction, expected), found) in cases.iter().zip(buffer[24..].chunks_exact(8)) {
                    let found = u64::from_le_bytes(found.try_into().expect("8 bytes"));
                    let expected = expected(a, b, c);
                    assert_eq!(found, expected, "{instruction} of {a:#x}, {b:#x}, {c:#x}: {found:#x}, {expected:#x}");
                }
            }
        }
    }
}

fn s32(value: u64) -> i64 {
    i64::from(value as i32)
}

fn u32s(value: u64) -> u64 {
    value & 0xFFFF_FFFF
}

#[test]
fn integer_arithmetic_is_rusts() {
    check(
        &[
            ("add.s32 %r14, %r11, %r12", |a, b, _| u32s(a.wrapping_add(b))),
            ("add.s16 %rs14, %rs11, %rs12", |a, b, _| a.wrapping_add(b) & 0xFFFF),
            ("add.s64 %rd14, %rd11, -7", |a, _, _| a.wrapping_sub(7)),
            ("sub.u32 %r14, %r11, %r12", |a, b, _| u32s(a.wrapping_sub(b))),
            ("mul.lo.s32 %r14, %r11, %r12", |a, b, _| u32s(a.wrapping_mul(b))),
            ("mul.lo.s64 %rd14, %rd11, %rd12", |a, b, _| a.wrapping_mul(b)),
            ("mul.hi.u64 %rd14, %rd11, %rd12", |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
            ("mul.hi.s64 %rd14, %rd11, %rd12", |a, b, _| ((a as i64 as i128 * b as i64 as i128) >> 64) as u64),
            ("mul.hi.u32 %r14, %r11, %r12", |a, b, _| (u32s(a) * u32s(b)) >> 32),
            ("mul.hi.s32 %r14, %r11, %r12", |a, b, _| u32s(((s32(a) * s32(b)) >> 32) as u64)),
            ("mul.wide.u16 %r14, %rs11, %rs12", |a, b, _| (a & 0xFFFF) * (b & 0xFFFF)),
            ("mul.wide.s32 %rd14, %r11, %r12", |a, b, _| (s32(a) * s32(b)) as u64),
            ("mul.wide.u32 %rd14, %r11, %r12", |a, b, _| u32s(a) * u32s(b)),
            ("mad.lo.s32 %r14, %r11, %r12, %r13", |a, b, c| u32s(a.wrapping_mul(b).wrapping_add(c))),
            ("mad.wide.u32 %rd14, %r11, %r12, %rd13", |a, b, c| (u32s(a) * u32s(b)).wrapping_add(c)),
            ("div.u32 %r14, %r11, %r12", |a, b, _| u32s(u32s(a).checked_div(u32s(b)).unwrap_or(u64::MAX))),
            ("div.s32 %r14, %r11, %r12", |a, b, _| u32s(s32(a).checked_div(s32(b)).unwrap_or(-1) as u64)),
            ("rem.u64 %rd14, %rd11, %rd12", |a, b, _| a.checked_rem(b).unwrap_or(a)),
            ("min.s32 %r14, %r11, %r12", |a, b, _| u32s(s32(a).min(s32(b)) as u64)),
            ("max.u64 %rd14, %rd11, %rd12", |a, b, _| a.max(b)),
            ("abs.s32 %r14, %r11", |a, _, _| u32s(s32(a).unsigned_abs())),
            ("neg.s64 %rd14, %rd11", |a, _, _| a.wrapping_neg()),
            ("sad.u32 %r14, %r11, %r12, %r13", |a, b, c| u32s(u32s(a).abs_diff(u32s(b)).wrapping_add(c))),
        ],
        &VALUES,
    );
}

#[test]
fn bit_instructions_are_rusts() {
    check(
        &[
            ("and.b32 %r14, %r11, 65280", |a, _, _| a & 0xFF00),
            ("or.b16 %rs14, %rs11, %rs12", |a, b, _| (a | b) & 0xFFFF),
            ("xor.b64 %rd14, %rd11, %rd12", |a, b, _| a ^ b),
            ("not.b32 %r14, %r11", |a, _, _| u32s(!a)),
            ("not.pred %p14, %p11", |a, _, _| u64::from(a == 0)),
            ("xor.pred %p14, %p11, %p12", |a, b, _| u64::from((a != 0) != (b != 0))),
            ("cnot.b32 %r14, %r11", |a, _, _| u64::from(u32s(a) == 0)),
            ("shl.b32 %r14, %r11, %r12", |a, b, _| {
                u32::try_from(u32s(b)).ok().filter(|b| *b < 32).map_or(0, |b| u32s(a << b))
            }),
            ("shr.u64 %rd14, %rd11, %r12", |a, b, _| a.checked_shr(b as u32).unwrap_or(0)),
            ("shr.s64 %rd14, %rd11, %r12", |a, b, _| ((a as i64) >> u32s(b).min(63)) as u64),
            ("shr.s32 %r14, %r11, 3", |a, _, _| u32s((s32(a) >> 3) as u64)),
            ("shr.u16 %rs14, %rs11, %r12", |a, b, _| if u32s(b) < 16 { (a & 0xFFFF) >> u32s(b) } else { 0 }),
            ("shf.l.wrap.b32 %r14, %r11, %r12, %r13", |a, b, c| u32s((b << 32 | u32s(a)) << (c & 31) >> 32)),
            ("shf.r.clamp.b32 %r14, %r11, %r12, %r13", |a, b, c| u32s((b << 32 | u32s(a)) >> u32s(c).min(32))),
            ("popc.b32 %r14, %r11", |a, _, _| u64::from((a as u32).count_ones())),
            ("clz.b32 %r14, %r11", |a, _, _| u64::from((a as u32).leading_zeros())),
            ("clz.b64 %r14, %rd11", |a, _, _| u64::from(a.leading_zeros())),
            ("brev.b32 %r14, %r11", |a, _, _| u64::from((a as u32).reverse_bits())),
            ("bfind.u32 %r14, %r11", |a, _, _| u64::from((a as u32).checked_ilog2().unwrap_or(u32::MAX))),
            ("bfi.b32 %r14, %r11, %r12, 5, 9", |a, b, _| u32s(b & !(511 << 5) | (a & 511) << 5)),
            ("bfi.b64 %rd14, %rd11, %rd12, 60, 40", |a, b, _| b & !(15 << 60) | a << 60),
            ("bfe.u32 %r14, %r11, 4, 7", |a, _, _| a >> 4 & 127),
            ("bfe.s32 %r14, %r11, 4, 7", |a, _, _| u32s(((a << 53) as i64 >> 57) as u64)),
            ("bfe.u64 %rd14, %rd11, 60, 8", |a, _, _| a >> 60),
            ("prmt.b32 %r14, %r11, %r12, 29985", |a, b, _| {
                let bytes = [(a as u32).to_le_bytes(), (b as u32).to_le_bytes()].concat();
                u64::from(u32::from_le_bytes([bytes[1], bytes[2], bytes[5], bytes[7]]))
            }),
            ("prmt.b32 %r14, %r11, %r12, 8", |a, _, _| {
                let byte = (a as u8).cast_signed();
                u64::from(u32::from_le_bytes([if byte < 0 { 255 } else { 0 }, a as u8, a as u8, a as u8]))
            }),
            ("lop3.b32 %r14, %r11, %r12, %r13, 150", |a, b, c| u32s(a ^ b ^ c)),
            ("lop3.b32 %r14, %r11, %r12, %r13, 202", |a, b, c| u32s(a & b | !a & c)),
            ("selp.b32 %r14, %r11, %r12, %p13", |a, b, c| u32s(if c != 0 { a } else { b })),
            ("slct.u32.s32 %r14, %r11, %r12, %r13", |a, b, c| u32s(if s32(c) >= 0 { a } else { b })),
            ("mov.b64 %rd14, {%r12, %r11}", |a, b, _| u32s(b) | a << 32),
        ],
        &VALUES,
    );
}

#[test]
fn comparisons_are_rusts() {
    check(
        &[
            ("setp.eq.s32 %p14, %r11, %r12", |a, b, _| u64::from(u32s(a) == u32s(b))),
            ("setp.ne.s16 %p14, %rs11, %rs12", |a, b, _| u64::from(a as u16 != b as u16)),
            ("setp.lt.s32 %p14, %r11, %r12", |a, b, _| u64::from(s32(a) < s32(b))),
            ("setp.lt.u32 %p14, %r11, -2", |a, _, _| u64::from(u32s(a) < 0xFFFF_FFFE)),
            ("setp.lo.u32 %p14, %r11, %r12", |a, b, _| u64::from(u32s(a) < u32s(b))),
            ("setp.hs.u32 %p14, %r11, %r12", |a, b, _| u64::from(u32s(a) >= u32s(b))),
            ("setp.ge.u64 %p14, %rd11, %rd12", |a, b, _| u64::from(a >= b)),
            ("setp.gt.s64 %p14, %rd11, %rd12", |a, b, _| u64::from(a as i64 > b as i64)),
            ("setp.le.and.u32 %p14, %r11, %r12, %p13", |a, b, c| u64::from(u32s(a) <= u32s(b) && c != 0)),
            ("setp.le.or.u32 %p14, %r11, %r12, !%p13", |a, b, c| u64::from(u32s(a) <= u32s(b) || c == 0)),
            ("set.lt.u32.s32 %r14, %r11, %r12", |a, b, _| if s32(a) < s32(b) { 0xFFFF_FFFF } else { 0 }),
            ("setp.lt.f64 %p14, %fd11, %fd12", |a, b, _| u64::from(f64::from_bits(a) < f64::from_bits(b))),
            ("setp.neu.f64 %p14, %fd11, %fd12", |a, b, _| u64::from(f64::from_bits(a) != f64::from_bits(b))),
            ("setp.ge.f32 %p14, %f11, %f12", |a, b, _| u64::from(f32::from_bits(a as u32) >= f32::from_bits(b as u32))),
            ("setp.nan.f32 %p14, %f11, %f12", |a, b, _| {
                u64::from(f32::from_bits(a as u32).is_nan() || f32::from_bits(b as u32).is_nan())
            }),
        ],
        &VALUES,
    );
}

/// A result in single precision; every NaN is the one that GPUs return.
fn single(value: f32) -> u64 {
    u64::from(if value.is_nan() { 0x7FFF_FFFF } else { value.to_bits() })
}

fn singles(a: u64, b: u64) -> (f32, f32) {
    (f32::from_bits(a as u32), f32::from_bits(b as u32))
}

const FLOATS: [f64; 14] =
    [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, -0.3, 1e-40, 3e38, 1e300, 5e-324, f64::INFINITY, -2_147_483_649.0, 9.3e18];

#[test]
fn float_arithmetic_is_rusts() {
    let values: Vec<u64> = FLOATS.iter().map(|value| value.to_bits()).collect();
    let singles_of: Vec<u64> = FLOATS.iter().map(|value| u64::from((*value as f32).to_bits())).collect();
    check(
        &[
            ("add.rn.f64 %fd14, %fd11, %fd12", |a, b, _| (f64::from_bits(a) + f64::from_bits(b)).to_bits()),
            ("sub.f64 %fd14, %fd11, %fd12", |a, b, _| (f64::from_bits(a) - f64::from_bits(b)).to_bits()),
            ("mul.rn.f64 %fd14, %fd11, 0d3FB999999999999A", |a, _, _| (f64::from_bits(a) * 0.1).to_bits()),
            ("div.rn.f64 %fd14, %fd11, %fd12", |a, b, _| (f64::from_bits(a) / f64::from_bits(b)).to_bits()),
            ("fma.rn.f64 %fd14, %fd11, %fd12, 0d3FF0000000000000", |a, b, _| {
                f64::from_bits(a).mul_add(f64::from_bits(b), 1.0).to_bits()
            }),
            ("neg.f64 %fd14, %fd11", |a, _, _| a ^ 1 << 63),
            ("abs.f64 %fd14, %fd11", |a, _, _| a & !(1 << 63)),
            ("cvt.rni.f64.f64 %fd14, %fd11", |a, _, _| f64::from_bits(a).round_ties_even().to_bits()),
            ("cvt.rn.f32.f64 %f14, %fd11", |a, _, _| single(f64::from_bits(a) as f32)),
            ("cvt.rzi.u32.f64 %r14, %fd11", |a, _, _| u64::from(f64::from_bits(a) as u32)),
            ("cvt.rmi.s64.f64 %rd14, %fd11", |a, _, _| f64::from_bits(a).floor() as i64 as u64),
            ("cvt.rn.f64.s32 %fd14, %r11", |a, _, _| f64::from(a as i32).to_bits()),
            ("cvt.rn.f64.u64 %fd14, %rd11", |a, _, _| (a as f64).to_bits()),
            ("cvt.rn.f32.u64 %f14, %rd11", |a, _, _| single(a as f32)),
        ],
        &values.iter().copied().filter(|bits| f64::from_bits(*bits).is_finite()).collect::<Vec<_>>(),
    );
    check(
        &[
            ("add.f32 %f14, %f11, %f12", |a, b, _| single(singles(a, b).0 + singles(a, b).1)),
            ("mul.rn.f32 %f14, %f11, %f12", |a, b, _| single(singles(a, b).0 * singles(a, b).1)),
            ("sqrt.rn.f32 %f14, %f11", |a, b, _| single(singles(a, b).0.sqrt())),
            ("min.f32 %f14, %f11, 0f3F800000", |a, b, _| single(singles(a, b).0.min(1.0))),
            ("max.f32 %f14, %f11, 0f7FC00000", |a, b, _| single(singles(a, b).0)),
            ("add.ftz.f32 %f14, %f11, 0f00000000", |a, b, _| {
                let value = singles(a, b).0 + 0.0;
                single(if value.is_subnormal() { 0.0 } else { value })
            }),
            ("add.sat.f32 %f14, %f11, %f12", |a, b, _| {
                let sum = singles(a, b).0 + singles(a, b).1;
                single(if sum > 0.0 { sum.min(1.0) } else { 0.0 })
            }),
            ("cvt.f64.f32 %fd14, %f11", |a, b, _| f64::from(singles(a, b).0).to_bits()),
            ("cvt.rni.s32.f32 %r14, %f11", |a, b, _| u32s(singles(a, b).0.round_ties_even() as i32 as u64)),
            ("cvt.sat.f32.f32 %f14, %f11", |a, b, _| single(singles(a, b).0.clamp(0.0, 1.0) + 0.0)),
        ],
        &singles_of,
    );
}

#[test]
fn directed_rounding_encloses_the_exact_value() {
    // In double precision, sums and products of these singles are exact.
    let values: Vec<u64> =
        [1.0_f32, -1.5, 0.1, -0.3, 12_345.678, 7e-3].map(|value| u64::from(value.to_bits())).to_vec();
    fn directed(exact: f64, up: bool) -> u64 {
        let nearest = exact as f32;
        let wrong = if up { f64::from(nearest) < exact } else { f64::from(nearest) > exact };
        let moved = if up { nearest.next_up() } else { nearest.next_down() };
        single(if wrong { moved } else { nearest })
    }
    fn product(a: u64, b: u64) -> f64 {
        f64::from(singles(a, b).0) * f64::from(singles(a, b).1)
    }
    fn sum(a: u64, b: u64) -> f64 {
        f64::from(singles(a, b).0) + f64::from(singles(a, b).1)
    }
    check(
        &[
            ("mul.rp.f32 %f14, %f11, %f12", |a, b, _| directed(product(a, b), true)),
            ("mul.rm.f32 %f14, %f11, %f12", |a, b, _| directed(product(a, b), false)),
            ("mul.rz.f32 %f14, %f11, %f12", |a, b, _| directed(product(a, b), product(a, b) < 0.0)),
            ("add.rp.f32 %f14, %f11, %f12", |a, b, _| directed(sum(a, b), true)),
            ("add.rz.f32 %f14, %f11, %f12", |a, b, _| directed(sum(a, b), sum(a, b) < 0.0)),
            ("cvt.rm.f32.s32 %f14, %r11", |a, _, _| directed(f64::from(a as i32), false)),
            ("cvt.rz.f32.u32 %f14, %r11", |a, _, _| directed(f64::from(a as u32), false)),
        ],
        &values,
    );
}

#[test]
fn conversions_between_integers_extend_and_saturate() {
    check(
        &[
            ("cvt.u64.u32 %rd14, %r11", |a, _, _| u32s(a)),
            ("cvt.s64.s32 %rd14, %r11", |a, _, _| s32(a) as u64),
            ("cvt.u32.u16 %r14, %rs11", |a, _, _| a & 0xFFFF),
            ("cvt.s16.s8 %rs14, %r11", |a, _, _| a as i8 as u64 & 0xFFFF),
            ("cvt.s32.s8 %r14, %r11", |a, _, _| u32s(a as i8 as u64)),
            ("cvt.u8.u32 %r14, %r11", |a, _, _| a & 0xFF),
            ("cvt.sat.u8.s32 %r14, %r11", |a, _, _| s32(a).clamp(0, 255) as u64),
            ("cvt.sat.s16.s64 %r14, %rd11", |a, _, _| u32s((a as i64).clamp(-32768, 32767) as u64)),
            ("cvt.sat.s32.u64 %r14, %rd11", |a, _, _| a.min(0x7FFF_FFFF)),
        ],
        &VALUES,
    );
}
