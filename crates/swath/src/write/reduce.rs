//! Computes a level from a finer one: the arithmetic of overviews.
//!
//! An output pixel represents a block of `factor` x `factor` source pixels, clipped at the right and lower
//! edge. Every output row is computed as a whole and only from its own source rows, so it does not matter how
//! calls group the rows.
//!
//! A source pixel is missing if the mask says so, if it is nodata (see [`NodataTest`]), or if it is NaN.
//! Missing pixels do not contribute. An output pixel without any contribution is nodata; if the type cannot
//! hold a nodata value, it is NaN or, for integers, 0. A computed value that happens to equal nodata is moved
//! to the next value that does not, as in GDAL, so that valid data does not turn into a hole.
//!
//! For images whose size is not a multiple of the factor, GDAL samples overviews at `size / ceil(size /
//! factor)` instead of `factor`, so its pixels are not whole blocks. Swath keeps the factor for all methods.
//! For sizes that are multiples, the results equal GDAL's with two exceptions: GDAL lets NaN spread, and
//! bilinear and cubic differ next to missing pixels, where Swath keeps the weight of each remaining pixel.

mod cells;
mod device;
mod filters;
mod ranks;
mod scratch;

use std::borrow::Cow;
use std::ops::Range;

use swath_codec::DType;
use swath_tiff::nodata::NoData;

use self::cells::Summable;
use self::filters::Kernel;
pub(crate) use self::scratch::ReduceScratch;
use crate::nodata::is_nodata::{NodataTest, Number, with_number};

/// How overviews are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resampling {
    /// The first pixel of the block, missing or not.
    Nearest,
    /// The mean of the block. Integers are rounded, halves away from zero; 64-bit integers are exact.
    Mean,
    /// The least value of the block.
    Min,
    /// The greatest value of the block.
    Max,
    /// The middle value of the block; for an even number of pixels, the mean of the middle two.
    Median,
    /// The most frequent value of the block; among equally frequent values, the first to reach that count,
    /// row by row.
    Mode,
    /// A triangle filter twice as wide as the block.
    Bilinear,
    /// The cubic convolution of Catmull and Rom, four times as wide as the block. Next to missing pixels it
    /// is bilinear.
    Cubic,
    /// Binomial weights of 3 pixels (factor 2), 5 pixels (up to 4) or 7 pixels.
    Gauss,
}

impl Resampling {
    /// Every method with its names; the first name is the main one.
    const TABLE: [(Self, &'static [&'static str]); 9] = [
        (Self::Nearest, &["nearest"]),
        (Self::Mean, &["mean", "average"]),
        (Self::Min, &["min"]),
        (Self::Max, &["max"]),
        (Self::Median, &["median"]),
        (Self::Mode, &["mode"]),
        (Self::Bilinear, &["bilinear"]),
        (Self::Cubic, &["cubic"]),
        (Self::Gauss, &["gauss"]),
    ];

    /// The names of all methods, without aliases, for help texts.
    pub const NAMES: [&'static str; Self::TABLE.len()] = {
        let mut names = [""; Self::TABLE.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::TABLE[at].1[0];
            at += 1;
        }
        names
    };

    /// The names of all methods, aliases included.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::TABLE.iter().flat_map(|(_, names)| *names).copied()
    }

    /// Returns the method with this name or alias.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, names)| names.contains(&name)).map(|(method, _)| *method)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(method, _)| *method == self).map_or("", |(_, names)| names[0])
    }

    /// Whether the method is defined for this sample type: complex numbers have no order.
    pub fn applies_to(self, dtype: DType) -> bool {
        let complex = matches!(dtype, DType::CI16 | DType::CI32 | DType::CF32 | DType::CF64);
        !(complex && matches!(self, Self::Min | Self::Max | Self::Median | Self::Mode))
    }

    /// The weights of the methods that use pixels outside their block.
    fn kernel(self) -> Option<Kernel> {
        match self {
            Self::Bilinear => Some(Kernel::Triangle),
            Self::Cubic => Some(Kernel::Cubic),
            Self::Gauss => Some(Kernel::Binomial),
            _ => None,
        }
    }
}

/// How a level is computed from a finer one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    pub(crate) method: Resampling,
    /// The number of source pixels per output pixel in each direction: 2 to [`Self::MAX_FACTOR`].
    pub(crate) factor: usize,
    pub(crate) dtype: DType,
    pub(crate) nodata: Option<NoData>,
}

/// Rows of one band of a level, in native byte order without gaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane<'a> {
    pub(crate) samples: &'a [u8],
    /// The row number in the level of the first row in `samples`.
    pub(crate) first: u64,
    pub(crate) width: usize,
    /// The height of the level.
    pub(crate) height: u64,
}

/// The rows of a plane with a sample type.
struct Rows<'a, T: Number> {
    samples: Cow<'a, [T]>,
    first: u64,
    width: usize,
    height: u64,
}

impl<T: Number> Rows<'_, T> {
    /// Returns one row of the level.
    ///
    /// # Panics
    /// If the plane does not hold the row. It must hold [`Reduction::source_rows`].
    fn row(&self, row: u64) -> &[T] {
        &self.samples[(row - self.first) as usize * self.width..][..self.width]
    }

    /// Returns the source rows of the block that an output row represents.
    fn block(&self, row: u64, factor: usize) -> Range<u64> {
        row * factor as u64..(row + 1).saturating_mul(factor as u64).min(self.height)
    }
}

impl<'a> Plane<'a> {
    fn typed<T: Number>(self) -> Rows<'a, T> {
        // Samples may start at any address in a larger buffer, so they may not be aligned.
        let samples = match bytemuck::try_cast_slice(self.samples) {
            Ok(samples) => Cow::Borrowed(samples),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(self.samples)),
        };
        Rows { samples, first: self.first, width: self.width, height: self.height }
    }
}

/// The parameters of the arithmetic on one type of numbers.
#[derive(Clone, Copy)]
struct Rules<T> {
    method: Resampling,
    factor: usize,
    missing: NodataTest<T>,
    /// The value of output pixels without any contribution.
    fill: T,
}

impl<T: Number> Rules<T> {
    fn new(reduction: &Reduction) -> Self {
        let missing = NodataTest::new(reduction.nodata);
        let fill = missing.sample().unwrap_or(if T::FLOAT { T::from_f64(f64::NAN) } else { T::ZERO });
        Self { method: reduction.method, factor: reduction.factor, missing, fill }
    }

    /// Replaces computed values that equal nodata.
    fn keep_valid(&self, values: &mut [T]) {
        if self.missing.has_number() {
            let beside = self.missing.beside();
            values.iter_mut().for_each(|value| *value = if self.missing.is_nodata(*value) { beside } else { *value });
        }
    }

    /// Whether any pixel can be missing.
    fn may_miss(&self, mask: Option<&Rows<'_, u8>>) -> bool {
        T::FLOAT || mask.is_some() || self.missing.has_number()
    }

    /// Returns the valid samples of a part of a row.
    fn valid_of<'a>(
        &'a self,
        src: &'a Rows<'_, T>,
        mask: Option<&'a Rows<'_, u8>>,
        row: u64,
        cols: Range<usize>,
    ) -> impl Iterator<Item = T> + 'a {
        let samples = &src.row(row)[cols.clone()];
        let mask = mask.map(|mask| &mask.row(row)[cols]);
        let valid = move |at: usize, sample| self.missing.is_number(sample) && mask.is_none_or(|mask| mask[at] != 0);
        samples.iter().copied().enumerate().filter_map(move |(at, sample)| valid(at, sample).then_some(sample))
    }

    /// Writes 1 for a valid pixel, else 0.
    fn flags(&self, samples: &[T], mask: Option<&[u8]>, flags: &mut [u8]) {
        let missing = self.missing;
        match mask {
            None => flags.iter_mut().zip(samples).for_each(|(flag, &sample)| {
                *flag = u8::from(missing.is_number(sample));
            }),
            Some(mask) => flags.iter_mut().zip(samples.iter().zip(mask)).for_each(|(flag, (&sample, &mask))| {
                *flag = u8::from(missing.is_number(sample) & (mask != 0));
            }),
        }
    }
}

impl Reduction {
    /// The greatest factor. The pixels of such a block can be counted in 32 bits.
    pub(crate) const MAX_FACTOR: usize = 1 << 15;

    /// Returns the source rows that output rows need. The source level has `height` rows.
    pub(crate) fn source_rows(&self, rows: Range<u64>, height: u64) -> Range<u64> {
        let factor = self.factor as u64;
        let rows = rows.start..rows.end.min(height.div_ceil(factor));
        if rows.is_empty() {
            return 0..0;
        }
        let first = rows.start * factor;
        match self.method.kernel() {
            Some(kernel) => {
                let (first, last) = (rows.start, rows.end - 1);
                kernel.reach(first, self.factor, height).start..kernel.reach(last, self.factor, height).end
            }
            None if self.method == Resampling::Nearest => first..(rows.end - 1) * factor + 1,
            None => first..rows.end.saturating_mul(factor).min(height),
        }
    }

    /// Computes output rows of one band. `valid` holds the same rows of the mask, 0 for a missing pixel.
    /// `out` receives the output rows of `ceil(width / factor)` samples each.
    ///
    /// # Panics
    /// If the planes do not hold the [source rows](Self::source_rows), if `out` is too short, or if the
    /// method is not defined for the type ([`Resampling::applies_to`]).
    pub(crate) fn reduce(
        &self,
        src: Plane<'_>,
        valid: Option<Plane<'_>>,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut ReduceScratch,
    ) {
        if src.width == 0 || self.source_rows(rows.clone(), src.height).is_empty() {
            return;
        }
        assert!((2..=Self::MAX_FACTOR).contains(&self.factor), "factor {}", self.factor);
        assert!(self.method.applies_to(self.dtype), "{} of {}", self.method.name(), self.dtype);
        if self.method == Resampling::Nearest {
            return self.pick(src, rows, out, self.dtype.size());
        }
        let mask = valid.map(Plane::typed::<u8>);
        with_number!(self.dtype, T => {
            let rules = Rules::<T>::new(self);
            let count = (rows.end - rows.start) as usize * src.width.div_ceil(self.factor);
            let out = &mut out[..count * size_of::<T>()];
            into_samples(out, |out| rules.reduce(&src.typed(), mask.as_ref(), rows, out, scratch));
        }, complex => self.reduce_pairs::<T>(src, mask, rows, out, scratch));
    }

    /// Computes complex samples: both parts are reduced separately, as numbers. A pixel is missing if its
    /// real part is, or if one of the parts is NaN.
    fn reduce_pairs<T: Summable>(
        &self,
        src: Plane<'_>,
        mask: Option<Rows<'_, u8>>,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut ReduceScratch,
    ) {
        let real = Rules::<T>::new(self);
        let imaginary = Rules { missing: NodataTest::new(None), fill: T::ZERO, ..real };
        let Range { start: first, end } = self.source_rows(rows.clone(), src.height);
        let skip = (first - src.first) as usize * src.width;
        let count = (end - first) as usize * src.width;
        let pairs: Vec<[T; 2]> =
            bytemuck::pod_collect_to_vec(&src.samples[skip * 2 * size_of::<T>()..][..count * 2 * size_of::<T>()]);
        let part = |part: usize| -> Rows<'_, T> {
            let samples = pairs.iter().map(|pair| pair[part]).collect();
            Rows { samples: Cow::Owned(samples), first, width: src.width, height: src.height }
        };
        let mut flags = vec![0; count];
        let allowed = mask.as_ref().map(|mask| &mask.samples[(first - mask.first) as usize * mask.width..][..count]);
        for (at, (flag, pair)) in flags.iter_mut().zip(&pairs).enumerate() {
            let numbers = real.missing.is_number(pair[0]) && imaginary.missing.is_number(pair[1]);
            *flag = u8::from(numbers && allowed.is_none_or(|mask| mask[at] != 0));
        }
        let valid = Rows { samples: Cow::Owned(flags), first, width: src.width, height: src.height };
        let results = (rows.end - rows.start) as usize * src.width.div_ceil(self.factor);
        let mut values = vec![T::ZERO; results];
        for (at, rules) in [real, imaginary].iter().enumerate() {
            rules.reduce(&part(at), Some(&valid), rows.clone(), &mut values, scratch);
            let slots = out.chunks_exact_mut(size_of::<T>()).skip(at).step_by(2);
            slots.zip(&values).for_each(|(slot, value)| slot.copy_from_slice(bytemuck::bytes_of(value)));
        }
    }

    /// Computes the mask of output rows: 255 where [`reduce`](Self::reduce) computes a value from pixels that
    /// are valid in this mask, else 0.
    ///
    /// # Panics
    /// As [`reduce`](Self::reduce).
    pub(crate) fn reduce_mask(&self, valid: Plane<'_>, rows: Range<u64>, out: &mut [u8]) {
        if valid.width == 0 || self.source_rows(rows.clone(), valid.height).is_empty() {
            return;
        }
        if self.method == Resampling::Nearest {
            self.pick(valid, rows, out, 1);
            return out.iter_mut().for_each(|mask| *mask = if *mask == 0 { 0 } else { 255 });
        }
        let width = valid.width.div_ceil(self.factor);
        let mask = valid.typed::<u8>();
        let mut scratch = ReduceScratch::default();
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            match self.method.kernel() {
                Some(kernel) => filters::mask_row(kernel, self.factor, &mask, row, out, &mut scratch),
                None => cells::mask_row(self.factor, &mask, row, out),
            }
        }
    }

    /// Copies the first pixel of every block, `size` bytes each.
    fn pick(&self, src: Plane<'_>, rows: Range<u64>, out: &mut [u8], size: usize) {
        let width = src.width.div_ceil(self.factor);
        for (row, out) in rows.zip(out.chunks_exact_mut(width * size)) {
            let at = (row * self.factor as u64 - src.first) as usize * src.width * size;
            let from = &src.samples[at..][..src.width * size];
            match size {
                1 => pick_row::<1>(from, out, self.factor),
                2 => pick_row::<2>(from, out, self.factor),
                4 => pick_row::<4>(from, out, self.factor),
                8 => pick_row::<8>(from, out, self.factor),
                _ => pick_row::<16>(from, out, self.factor),
            }
        }
    }
}

/// Generic over the size, not the type, so that the compiler makes one fast loop for each size.
fn pick_row<const SIZE: usize>(from: &[u8], out: &mut [u8], factor: usize) {
    let (from, _) = from.as_chunks::<SIZE>();
    let (out, _) = out.as_chunks_mut::<SIZE>();
    if factor == 2 {
        let (pairs, rest) = from.as_chunks::<2>();
        out.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair[0]);
        if let (Some(out), Some(&last)) = (out.last_mut(), rest.first()) {
            *out = last;
        }
    } else {
        out.iter_mut().zip(from.iter().step_by(factor)).for_each(|(out, &first)| *out = first);
    }
}

/// Passes bytes to `write` as samples, through a copy if they are not aligned.
fn into_samples<T: Number>(bytes: &mut [u8], write: impl FnOnce(&mut [T])) {
    if let Ok(samples) = bytemuck::try_cast_slice_mut(bytes) {
        return write(samples);
    }
    let mut samples: Vec<T> = bytemuck::pod_collect_to_vec(bytes);
    write(&mut samples);
    bytes.copy_from_slice(bytemuck::cast_slice(&samples));
}

impl<T: Summable> Rules<T> {
    fn reduce(
        &self,
        src: &Rows<'_, T>,
        mask: Option<&Rows<'_, u8>>,
        rows: Range<u64>,
        out: &mut [T],
        scratch: &mut ReduceScratch,
    ) {
        let width = src.width.div_ceil(self.factor);
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            match (self.method, self.method.kernel()) {
                (_, Some(kernel)) => filters::row(self, kernel, src, mask, row, out, scratch),
                (Resampling::Median | Resampling::Mode, _) => ranks::row(self, src, mask, row, out, scratch),
                (_, None) => cells::row(self, src, mask, row, out, scratch),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
