//! Stored samples and their types in memory.

use std::ops::BitOrAssign;

use crate::{Error, Result, SampleFormat, Shape};

/// The type of a sample in memory, in native byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit signed integer.
    I8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit signed integer.
    I16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit unsigned integer.
    U64,
    /// 64-bit signed integer.
    I64,
    /// Half precision float.
    F16,
    /// Single precision float.
    F32,
    /// Double precision float.
    F64,
    /// Two 16-bit signed integers, real part first.
    CI16,
    /// Two 32-bit signed integers, real part first.
    CI32,
    /// Two single precision floats, real part first.
    CF32,
    /// Two double precision floats, real part first.
    CF64,
}

impl DType {
    /// Every type, in the order of the enum.
    pub const ALL: [Self; 15] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::CI16,
        Self::CI32,
        Self::CF32,
        Self::CF64,
    ];

    /// Returns the type in which samples of this format and width are read, or `None` if there is none.
    ///
    /// The mapping is GDAL's. A signed integer whose width is not 8, 16, 32 or 64 bits is read as unsigned,
    /// without sign extension: GDAL reads it so, and tifffile does not read such files. Unsigned integers of 33
    /// to 63 bits are an extension of Swath.
    pub fn for_stored(format: SampleFormat, bits: usize) -> Option<Self> {
        Some(match (format, bits) {
            (SampleFormat::Int, 8) => Self::I8,
            (SampleFormat::Int, 16) => Self::I16,
            (SampleFormat::Int, 32) => Self::I32,
            (SampleFormat::Int, 64) => Self::I64,
            (SampleFormat::Uint | SampleFormat::Int, 1..=8) => Self::U8,
            (SampleFormat::Uint | SampleFormat::Int, 9..=16) => Self::U16,
            (SampleFormat::Uint | SampleFormat::Int, 17..=32) => Self::U32,
            (SampleFormat::Uint | SampleFormat::Int, 33..=64) => Self::U64,
            (SampleFormat::Float, 16) => Self::F16,
            (SampleFormat::Float, 24 | 32) => Self::F32,
            (SampleFormat::Float, 64) => Self::F64,
            (SampleFormat::ComplexInt, 32) => Self::CI16,
            (SampleFormat::ComplexInt, 64) => Self::CI32,
            (SampleFormat::ComplexFloat, 32 | 64) => Self::CF32,
            (SampleFormat::ComplexFloat, 128) => Self::CF64,
            _ => return None,
        })
    }

    /// The interpretation of the bits of a sample.
    pub fn format(self) -> SampleFormat {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => SampleFormat::Uint,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => SampleFormat::Int,
            Self::F16 | Self::F32 | Self::F64 => SampleFormat::Float,
            Self::CI16 | Self::CI32 => SampleFormat::ComplexInt,
            Self::CF32 | Self::CF64 => SampleFormat::ComplexFloat,
        }
    }

    /// The number of bytes of one sample.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::CI16 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::CI32 | Self::CF32 => 8,
            Self::CF64 => 16,
        }
    }

    /// The name of the type in numpy. numpy has no complex integers: they are `complex_int16` and
    /// `complex_int32`, as in GDAL's Python tools.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::CI16 => "complex_int16",
            Self::CI32 => "complex_int32",
            Self::CF32 => "complex64",
            Self::CF64 => "complex128",
        }
    }

    /// The code of the type in numpy's array interface, without byte order; `None` for complex integers.
    pub fn numpy_code(self) -> Option<&'static str> {
        Some(match self {
            Self::U8 => "u1",
            Self::I8 => "i1",
            Self::U16 => "u2",
            Self::I16 => "i2",
            Self::U32 => "u4",
            Self::I32 => "i4",
            Self::U64 => "u8",
            Self::I64 => "i8",
            Self::F16 => "f2",
            Self::F32 => "f4",
            Self::F64 => "f8",
            Self::CI16 | Self::CI32 => return None,
            Self::CF32 => "c8",
            Self::CF64 => "c16",
        })
    }

    /// The type in which Swath returns this one to numpy users: single precision for complex integers, as in
    /// GDAL's Python tools, and the type itself for all others. Single precision rounds 32-bit parts beyond
    /// 2^24.
    pub fn widened(self) -> Self {
        match self {
            Self::CI16 | Self::CI32 => Self::CF32,
            other => other,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether samples of this format and width are stored in another form than their [`DType`] in memory, so that
/// [`unpack_row`] must convert them.
pub fn is_packed(format: SampleFormat, bits: usize) -> bool {
    DType::for_stored(format, bits).is_some_and(|dtype| dtype.size() * 8 != bits)
}

/// Unpacks one stored row to samples of [`DType::for_stored`].
///
/// `row` comes from [`crate::predictor::undo`]. `out` receives the samples of the row (all bands of each
/// pixel), starting with the first sample, until it is full. A shorter `out` drops the padding on the right of
/// a row.
///
/// # Errors
/// Returns an error if there is no type for these samples, or if the row ends before `out` is full.
pub fn unpack_row(shape: Shape, row: &[u8], out: &mut [u8]) -> Result<()> {
    const CODEC: &str = "sample";
    let Some(dtype) = DType::for_stored(shape.format, shape.bits) else {
        return Err(Error::Unsuited { codec: CODEC, what: "samples of this format and width" });
    };
    let count = out.len() / dtype.size();
    let want = (count as u128 * shape.bits as u128).div_ceil(8);
    if (row.len() as u128) < want {
        return Err(Error::Truncated { codec: CODEC, got: row.len(), want: want.try_into().unwrap_or(usize::MAX) });
    }
    match (dtype, shape.bits) {
        (DType::F32, 24) => widen::<3, 7, 16>(row, out),
        (DType::CF32, 32) => widen::<2, 5, 10>(row, out),
        (DType::U8, 1) => unpack_by_table(&ONE_BIT, row, out, 1),
        (DType::U8, 2) => unpack_by_table(&TWO_BITS, row, out, 2),
        (DType::U8, 4) => unpack_by_table(&FOUR_BITS, row, out, 4),
        (DType::U16, 12) => unpack_12(row, out),
        (DType::U32, 24) => unpack_24(row, out),
        (_, bits) if bits == dtype.size() * 8 => {
            let bytes = count * dtype.size();
            out[..bytes].copy_from_slice(&row[..bytes]);
        }
        (DType::U8, bits) => unpack_any(bits, row, out, |value| [value as u8]),
        (DType::U16, bits) => unpack_any(bits, row, out, |value| (value as u16).to_ne_bytes()),
        (DType::U32, bits) => unpack_any(bits, row, out, |value| (value as u32).to_ne_bytes()),
        (_, bits) => unpack_any(bits, row, out, u64::to_ne_bytes),
    }
    Ok(())
}

/// Packs samples of [`DType::for_stored`] to one stored row: the inverse of [`unpack_row`].
///
/// All of `samples` are packed at the start of `row`, from the most significant bit of each byte (FillOrder 1).
/// The bits after them become zero. The previous content of `row` does not matter, and its content after an
/// error is unspecified. Signed integers of odd widths are packed as the unsigned integers that they are read
/// as.
///
/// # Errors
/// Returns an error if a value does not fit in the bits of a stored sample, if the row is too short for the
/// samples, or if samples of this format and width cannot be packed: only floats of whole widths can be stored.
pub fn pack_row(shape: Shape, samples: &[u8], row: &mut [u8]) -> Result<()> {
    const CODEC: &str = "sample";
    let bits = shape.bits;
    let dtype = match DType::for_stored(shape.format, bits) {
        Some(dtype) if matches!(shape.format, SampleFormat::Uint | SampleFormat::Int) || dtype.size() * 8 == bits => {
            dtype
        }
        _ => return Err(Error::Unsuited { codec: CODEC, what: "samples of this format and width" }),
    };
    let count = samples.len() / dtype.size();
    let want = (count as u128 * bits as u128).div_ceil(8);
    if (row.len() as u128) < want {
        return Err(Error::Unsuited { codec: CODEC, what: "more samples than the row has room for" });
    }
    let (row, padding) = row.split_at_mut(want as usize);
    padding.fill(0);
    let all = match (dtype, bits) {
        _ if bits == dtype.size() * 8 => {
            row.copy_from_slice(&samples[..row.len()]);
            return Ok(());
        }
        (DType::U8, 1) => pack_together::<8, u64>(samples, row, |group| {
            // The multiplication puts each bit at its own position in the product; the eight bits that form the
            // packed byte meet in the top byte.
            let word = u64::from_le_bytes(group);
            (word, (word.wrapping_mul(0x8040_2010_0804_0201) >> 56) as u8)
        }),
        (DType::U8, 2) => pack_together::<4, u32>(samples, row, |group| {
            let word = u32::from_le_bytes(group);
            (word, (word.wrapping_mul(0x4010_0401) >> 24) as u8)
        }),
        (DType::U8, 4) => pack_together::<2, u8>(samples, row, |[a, b]| (a | b, a << 4 | b & 15)),
        (DType::U16, 12) => pack_12(samples, row),
        (DType::U8, _) => pack_any(bits, samples, row, |[value]| value.into()),
        (DType::U16, _) => pack_any(bits, samples, row, |value| u16::from_ne_bytes(value).into()),
        (DType::U32, _) => pack_any(bits, samples, row, |value| u32::from_ne_bytes(value).into()),
        (_, _) => pack_any(bits, samples, row, u64::from_ne_bytes),
    };
    if all >> bits == 0 { Ok(()) } else { Err(too_wide(bits, dtype.size(), samples)) }
}

/// Packs groups of `N` one-byte samples into one byte each. The function `pack` also returns all bits that the
/// samples of the group use. Returns the bits that any sample uses: they are checked once, after the loop,
/// which makes this function fast.
fn pack_together<const N: usize, U: Default + BitOrAssign + Into<u64>>(
    samples: &[u8],
    row: &mut [u8],
    pack: impl Fn([u8; N]) -> (U, u8),
) -> u64 {
    let (groups, rest) = samples.as_chunks::<N>();
    let mut all = U::default();
    for (byte, group) in row.iter_mut().zip(groups) {
        let (used, packed) = pack(*group);
        all |= used;
        *byte = packed;
    }
    if let Some(byte) = row.get_mut(groups.len()) {
        let mut last = [0; N];
        last[..rest.len()].copy_from_slice(rest);
        let (used, packed) = pack(last);
        all |= used;
        *byte = packed;
    }
    // The bitwise OR of all samples.
    all.into().to_ne_bytes().into_iter().fold(0, |bits, byte| bits | u64::from(byte))
}

fn pack_12(samples: &[u8], row: &mut [u8]) -> u64 {
    let (pairs, rest) = samples.as_chunks::<2>().0.as_chunks::<2>();
    let mut all = 0;
    for (bytes, pair) in row.as_chunks_mut::<3>().0.iter_mut().zip(pairs) {
        let [a, b] = pair.map(u16::from_ne_bytes);
        all |= a | b;
        *bytes = [(a >> 4) as u8, (a << 4) as u8 | (b >> 8) as u8 & 15, b as u8];
    }
    let done = pairs.len() * 3;
    u64::from(all) | pack_any(12, rest.as_flattened(), &mut row[done..], |value| u16::from_ne_bytes(value).into())
}

/// Packs samples of any width up to 63 bits, `S` bytes each in memory. Returns the bits that any sample uses.
fn pack_any<const S: usize>(bits: usize, samples: &[u8], row: &mut [u8], value: impl Fn([u8; S]) -> u64) -> u64 {
    let (mut all, mut window, mut filled, mut done) = (0, 0u128, 0, 0);
    for sample in samples.as_chunks::<S>().0 {
        let value = value(*sample);
        all |= value;
        // A value that is too wide overwrites bits of its neighbours, but the caller then discards the row.
        window = window << bits | u128::from(value);
        filled += bits;
        if filled >= 64
            && let Some(word) = row.get_mut(done..).and_then(|rest| rest.first_chunk_mut::<8>())
        {
            filled -= 64;
            done += 8;
            *word = ((window >> filled) as u64).to_be_bytes();
        }
    }
    let tail = window.checked_shl(128 - filled as u32).unwrap_or(0).to_be_bytes();
    let rest = &mut row[done..];
    rest.copy_from_slice(&tail[..rest.len()]);
    all
}

/// Returns the error for the first sample that needs more than `bits` bits.
fn too_wide(bits: usize, size: usize, samples: &[u8]) -> Error {
    let mut values = samples.chunks_exact(size).map(|sample| {
        let mut word = [0; 8];
        if cfg!(target_endian = "big") {
            word[8 - size..].copy_from_slice(sample);
        } else {
            word[..size].copy_from_slice(sample);
        }
        u64::from_ne_bytes(word)
    });
    Error::TooWide { value: values.find(|value| value >> bits != 0).unwrap_or_default(), bits }
}

/// Returns sample `at` of a row that is a bit string, most significant bit first. `bits` is at most 64.
///
/// Bits after the end of the row are zero.
pub(crate) fn get_bits(row: &[u8], at: usize, bits: usize) -> u64 {
    let first = at * bits;
    let window = window_at(row, first / 8) << (first % 8);
    (window >> (128 - bits)) as u64
}

/// Writes the low `bits` of `value` as sample `at`: the inverse of [`get_bits`].
pub(crate) fn put_bits(row: &mut [u8], at: usize, bits: usize, value: u64) {
    let first = at * bits;
    let shift = 128 - bits - first % 8;
    let mask = ((1u128 << bits) - 1) << shift;
    let window = window_at(row, first / 8) & !mask | (u128::from(value) << shift) & mask;
    let rest = &mut row[first / 8..];
    let length = rest.len().min(16);
    rest[..length].copy_from_slice(&window.to_be_bytes()[..length]);
}

/// Returns the 16 bytes from `start`; bytes after the end of the row are zero.
fn window_at(row: &[u8], start: usize) -> u128 {
    let rest = row.get(start..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<16>() {
        return u128::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 16];
    bytes[..rest.len()].copy_from_slice(rest);
    u128::from_be_bytes(bytes)
}

/// Unpacks samples of any width up to 64 bits, `S` bytes each in memory.
fn unpack_any<const S: usize>(bits: usize, row: &[u8], out: &mut [u8], to_bytes: impl Fn(u64) -> [u8; S]) {
    for (at, sample) in out.as_chunks_mut::<S>().0.iter_mut().enumerate() {
        // Eight bytes contain any sample of up to 57 bits at any bit offset. This is twice as fast as the 16
        // bytes of `get_bits`.
        let first = at * bits;
        let value = match row.get(first / 8..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) if bits <= 57 => u64::from_be_bytes(*bytes) << (first % 8) >> (64 - bits),
            _ => get_bits(row, at, bits),
        };
        *sample = to_bytes(value);
    }
}

/// The samples that each byte of 1-bit samples unpacks to. The next two tables are the same for 2 and 4 bits.
static ONE_BIT: [[u8; 8]; 256] = table(1);
static TWO_BITS: [[u8; 4]; 256] = table(2);
static FOUR_BITS: [[u8; 2]; 256] = table(4);

const fn table<const N: usize>(bits: usize) -> [[u8; N]; 256] {
    let mut table = [[0; N]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut at = 0;
        while at < N {
            table[byte][at] = ((byte >> (8 - bits * (at + 1))) & ((1 << bits) - 1)) as u8;
            at += 1;
        }
        byte += 1;
    }
    table
}

fn unpack_by_table<const N: usize>(table: &[[u8; N]; 256], row: &[u8], out: &mut [u8], bits: usize) {
    let (whole, rest) = out.as_chunks_mut::<N>();
    for (samples, byte) in whole.iter_mut().zip(row) {
        *samples = table[usize::from(*byte)];
    }
    let done = whole.len() * N;
    for (at, sample) in rest.iter_mut().enumerate() {
        *sample = get_bits(row, done + at, bits) as u8;
    }
}

fn unpack_12(row: &[u8], out: &mut [u8]) {
    let (pairs, rest) = out.as_chunks_mut::<2>().0.as_chunks_mut::<2>();
    for ([a, b], bytes) in pairs.iter_mut().zip(row.as_chunks::<3>().0) {
        let [x, y, z] = bytes.map(u16::from);
        *a = (x << 4 | y >> 4).to_ne_bytes();
        *b = ((y & 15) << 8 | z).to_ne_bytes();
    }
    let done = pairs.len() * 2;
    for (at, sample) in rest.iter_mut().enumerate() {
        *sample = (get_bits(row, done + at, 12) as u16).to_ne_bytes();
    }
}

fn unpack_24(row: &[u8], out: &mut [u8]) {
    for (sample, [x, y, z]) in out.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<3>().0) {
        *sample = u32::from_be_bytes([0, *x, *y, *z]).to_ne_bytes();
    }
}

/// Converts floats of `N` bytes in native order, with `EXPONENT` and `MANTISSA` bits, to single precision.
fn widen<const N: usize, const EXPONENT: u32, const MANTISSA: u32>(row: &[u8], out: &mut [u8]) {
    for (sample, bytes) in out.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<N>().0) {
        let mut word = [0; 4];
        if cfg!(target_endian = "big") {
            word[4 - N..].copy_from_slice(bytes);
        } else {
            word[..N].copy_from_slice(bytes);
        }
        *sample = widen_float::<EXPONENT, MANTISSA>(u32::from_ne_bytes(word)).to_ne_bytes();
    }
}

/// Returns the bits of the single precision float that has the value of a narrower float. The result is exact:
/// every narrower value, including denormals, is a normal number in single precision. The payload of a NaN is
/// kept.
fn widen_float<const EXPONENT: u32, const MANTISSA: u32>(narrow: u32) -> u32 {
    let shift = 23 - MANTISSA;
    let sign = narrow >> (EXPONENT + MANTISSA) << 31;
    let magnitude = narrow & ((1 << (EXPONENT + MANTISSA)) - 1);
    let exponent = magnitude >> MANTISSA;
    // The difference of the biases: 127 - (2^(EXPONENT - 1) - 1).
    let rebias = 128 - (1 << (EXPONENT - 1));
    sign | if exponent == (1 << EXPONENT) - 1 {
        0xff << 23 | (magnitude << shift) & 0x007f_ffff
    } else if exponent == 0 {
        // Each unit of the mantissa is 2^(1 - bias - MANTISSA); the product is exact.
        let unit = f32::from_bits((rebias + 1 - MANTISSA) << 23);
        (magnitude as f32 * unit).to_bits()
    } else {
        (magnitude << shift) + (rebias << 23)
    }
}

/// Converts complex integers to complex floats, which numpy supports.
///
/// `to` is normally [`DType::widened`] of `from`. [`DType::CF64`] is also possible and always exact. All
/// samples that fit in both slices are converted.
///
/// # Errors
/// Returns an error if `from` is not a complex integer or `to` is not a complex float.
pub fn widen_complex_int(from: DType, src: &[u8], to: DType, out: &mut [u8]) -> Result<()> {
    match (from, to) {
        (DType::CI16, DType::CF32) => convert(src, out, |part| f32::from(i16::from_ne_bytes(part)).to_ne_bytes()),
        (DType::CI16, DType::CF64) => convert(src, out, |part| f64::from(i16::from_ne_bytes(part)).to_ne_bytes()),
        (DType::CI32, DType::CF32) => convert(src, out, |part| (i32::from_ne_bytes(part) as f32).to_ne_bytes()),
        (DType::CI32, DType::CF64) => convert(src, out, |part| f64::from(i32::from_ne_bytes(part)).to_ne_bytes()),
        _ => {
            return Err(Error::Unsuited {
                codec: "the conversion to complex floats",
                what: "samples other than complex integers",
            });
        }
    }
    Ok(())
}

fn convert<const A: usize, const B: usize>(src: &[u8], out: &mut [u8], value: impl Fn([u8; A]) -> [u8; B]) {
    for (out, part) in out.as_chunks_mut::<B>().0.iter_mut().zip(src.as_chunks::<A>().0) {
        *out = value(*part);
    }
}

/// Reverses the bits of each byte, which FillOrder 2 requires before decompression.
pub fn reverse_bits(data: &mut [u8]) {
    data.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    fn unpacked(format: SampleFormat, bits: usize, row: &[u8], count: usize) -> Vec<u8> {
        let shape = Shape { width: count, height: 1, samples: 1, bits, format };
        let mut out = vec![0xaa; count * DType::for_stored(format, bits).expect("mapped").size()];
        unpack_row(shape, row, &mut out).expect("the row is long enough");
        out
    }

    fn f32s(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
    }

    /// Compares every width, and lengths with every padding, with the bits of a row, most significant first.
    #[test]
    fn samples_of_every_width_are_a_bit_string_from_the_most_significant_bit() {
        for bits in (1..=64_usize).filter(|bits| ![8, 16, 32, 64].contains(bits)) {
            for count in [0, 1, 2, 3, 7, 8, 9, 17, 100] {
                let row = noise((count * bits).div_ceil(8));
                let size = DType::for_stored(SampleFormat::Uint, bits).expect("mapped").size();
                let out = unpacked(SampleFormat::Uint, bits, &row, count);
                for (at, sample) in out.chunks_exact(size).enumerate() {
                    let mut want = 0u64;
                    for bit in at * bits..(at + 1) * bits {
                        want = want << 1 | u64::from(row[bit / 8] >> (7 - bit % 8) & 1);
                    }
                    let mut word = [0; 8];
                    if cfg!(target_endian = "big") {
                        word[8 - size..].copy_from_slice(sample);
                    } else {
                        word[..size].copy_from_slice(sample);
                    }
                    assert_eq!(u64::from_ne_bytes(word), want, "{bits} bits, sample {at} of {count}");
                }
            }
        }
    }

    #[test]
    fn written_bits_are_read_back_and_their_neighbours_stay() {
        for bits in 1..=64_usize {
            let before = noise((5 * bits).div_ceil(8));
            let mut row = before.clone();
            let value = 0x0123_4567_89ab_cdef_u64;
            put_bits(&mut row, 2, bits, value);
            for at in 0..5 {
                let want = if at == 2 { value << (64 - bits) >> (64 - bits) } else { get_bits(&before, at, bits) };
                assert_eq!(get_bits(&row, at, bits), want, "{bits} bits, sample {at}");
            }
        }
    }

    fn integer(bits: usize, count: usize) -> Shape {
        Shape { width: count, height: 1, samples: 1, bits, format: SampleFormat::Uint }
    }

    #[test]
    fn packed_samples_of_every_width_unpack_and_the_padding_is_zero() {
        for bits in 1..=64_usize {
            for count in [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 100] {
                let mut stored = noise((count * bits).div_ceil(8));
                if let Some(last) = stored.last_mut() {
                    *last &= 0xff << ((8 - count * bits % 8) % 8);
                }
                let samples = unpacked(SampleFormat::Uint, bits, &stored, count);
                let mut row = vec![0xaa; stored.len() + 2];
                pack_row(integer(bits, count), &samples, &mut row).expect("it fits");
                stored.extend([0, 0]);
                assert_eq!(row, stored, "{count} samples of {bits} bits");
            }
        }
    }

    #[test]
    fn value_too_wide_for_its_bits_is_an_error_not_truncated() {
        for bits in (1..=63_usize).filter(|bits| ![8, 16, 32].contains(bits)) {
            let dtype = DType::for_stored(SampleFormat::Uint, bits).expect("mapped");
            for at in [0, 3, 7, 8, 12] {
                for place in bits..dtype.size() * 8 {
                    let mut samples = vec![0; 13 * dtype.size()];
                    let wide = 1u64 << place | 1;
                    let bytes = if cfg!(target_endian = "big") { wide << (64 - dtype.size() * 8) } else { wide };
                    samples[at * dtype.size()..][..dtype.size()].copy_from_slice(&bytes.to_ne_bytes()[..dtype.size()]);
                    let result = pack_row(integer(bits, 13), &samples, &mut [0; 13 * 8]);
                    assert_eq!(result, Err(Error::TooWide { value: wide, bits }), "sample {at}");
                }
            }
        }
    }

    #[test]
    fn rows_too_short_and_narrow_floats_are_not_packed() {
        let result = pack_row(integer(12, 3), &[0; 6], &mut [0; 4]);
        assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
        for (format, bits) in [(SampleFormat::Float, 24), (SampleFormat::ComplexFloat, 32), (SampleFormat::Uint, 65)] {
            let result = pack_row(Shape { bits, format, ..integer(1, 1) }, &[0; 8], &mut [0; 64]);
            assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
        }
        let mut row = [9; 9];
        pack_row(Shape { bits: 32, format: SampleFormat::Float, ..integer(1, 2) }, &[1, 2, 3, 4, 5, 6, 7, 8], &mut row)
            .expect("whole floats are copied");
        assert_eq!(row, [1, 2, 3, 4, 5, 6, 7, 8, 0]);
    }

    #[test]
    fn signed_integers_of_odd_widths_are_read_as_unsigned_like_gdal() {
        assert_eq!(DType::for_stored(SampleFormat::Int, 12), Some(DType::U16));
        let out = unpacked(SampleFormat::Int, 12, &[0xff, 0xf8, 0x00], 2);
        assert_eq!(out, [0x0fff_u16.to_ne_bytes(), 0x0800_u16.to_ne_bytes()].concat());
    }

    /// The values come from the definition of the format: 1 sign, 7 exponent (bias 63) and 16 mantissa bits.
    /// GDAL 3.12 returns the same bits.
    #[test]
    fn float24_keeps_zero_sign_denormals_infinity_and_nan() {
        let cases = [
            (0x00_0000, 0.0_f32.to_bits()),
            (0x80_0000, (-0.0_f32).to_bits()),
            (0x3f_0000, 1.0_f32.to_bits()),
            (0xc0_8000, (-3.0_f32).to_bits()),
            (0x00_0001, 2.0_f32.powi(-78).to_bits()),
            (0x80_8000, (-(2.0_f32.powi(-63))).to_bits()),
            (0x01_0000, 2.0_f32.powi(-62).to_bits()),
            (0x7e_ffff, 0x5f7f_ff80),
            (0x7f_0000, f32::INFINITY.to_bits()),
            (0xff_0000, f32::NEG_INFINITY.to_bits()),
            (0x7f_0001, 0x7f80_0080),
        ];
        for (stored, want) in cases {
            let bytes = u32::to_ne_bytes(stored);
            let bytes = if cfg!(target_endian = "big") { &bytes[1..] } else { &bytes[..3] };
            assert_eq!(f32s(&unpacked(SampleFormat::Float, 24, bytes, 1)), [want], "{stored:#08x}");
        }
    }

    #[test]
    fn complex_halves_become_complex_singles() {
        let row = [0x3c00_u16, 0xc000, 0x0001, 0x7bff, 0x7c00, 0xfc00].map(u16::to_ne_bytes).concat();
        let want = [1.0, -2.0, 2.0_f32.powi(-24), 65504.0, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_bits);
        assert_eq!(f32s(&unpacked(SampleFormat::ComplexFloat, 32, &row, 3)), want);
    }

    #[test]
    fn short_rows_and_unknown_samples_are_errors() {
        let mut shape = Shape { width: 3, height: 1, samples: 1, bits: 12, format: SampleFormat::Uint };
        let result = unpack_row(shape, &[0; 4], &mut [0; 6]);
        assert!(matches!(result, Err(Error::Truncated { got: 4, want: 5, .. })), "{result:?}");
        shape.bits = 65;
        let result = unpack_row(shape, &[0; 64], &mut [0; 6]);
        assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
    }

    #[test]
    fn whole_samples_are_copied_and_a_short_output_cuts_the_row() {
        assert_eq!(unpacked(SampleFormat::Int, 16, &[1, 2, 3, 4, 5, 6], 2), [1, 2, 3, 4]);
        assert!(!is_packed(SampleFormat::Int, 16));
        assert!(is_packed(SampleFormat::Float, 24) && is_packed(SampleFormat::Uint, 1));
        assert!(is_packed(SampleFormat::ComplexFloat, 32) && !is_packed(SampleFormat::ComplexInt, 32));
    }

    #[test]
    fn complex_integers_widen_as_in_gdal_and_exactly_to_double_precision() {
        let src = [i32::MAX, i32::MIN].map(i32::to_ne_bytes).concat();
        let mut out = [0; 8];
        widen_complex_int(DType::CI32, &src, DType::CI32.widened(), &mut out).expect("complex");
        assert_eq!(out.as_slice(), [i32::MAX as f32, i32::MIN as f32].map(f32::to_ne_bytes).concat());
        let mut out = [0; 16];
        widen_complex_int(DType::CI32, &src, DType::CF64, &mut out).expect("complex");
        assert_eq!(out.as_slice(), [f64::from(i32::MAX), f64::from(i32::MIN)].map(f64::to_ne_bytes).concat());
        let src = [-5_i16, 7].map(i16::to_ne_bytes).concat();
        let mut out = [0; 8];
        widen_complex_int(DType::CI16, &src, DType::CI16.widened(), &mut out).expect("complex");
        assert_eq!(out.as_slice(), [-5.0_f32, 7.0].map(f32::to_ne_bytes).concat());
        assert!(widen_complex_int(DType::U8, &src, DType::CF32, &mut out).is_err());
    }

    #[test]
    fn names_and_codes_are_unique_and_agree_with_the_size() {
        let mut names = std::collections::HashSet::new();
        for dtype in DType::ALL {
            assert!(names.insert(dtype.name()));
            if let Some(code) = dtype.numpy_code() {
                assert_eq!(code[1..].parse(), Ok(dtype.size()), "{code}");
            } else {
                assert_eq!(dtype.widened(), DType::CF32);
            }
        }
    }

    #[test]
    fn bits_are_reversed_in_each_byte() {
        let mut data = [0b1000_0000, 0b0001_0011, 0xff];
        reverse_bits(&mut data);
        assert_eq!(data, [0b0000_0001, 0b1100_1000, 0xff]);
    }
}
