//! The conversion of samples while they are placed: nodata to NaN, scale and offset, and the type of the result.

use swath_codec::DType;

/// The sample that means nodata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodataSample {
    /// A sample with these bits; those of an `f32` for half floats. Zeros of both signs are equal.
    Bits(u64),
    /// Every NaN.
    Nan,
}

/// How a device converts the samples of a read. The arithmetic is in `f64` for integers and `f64`, and in `f32` for other floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpack {
    source: DType,
    target: DType,
    nodata: Option<NodataSample>,
    mask: bool,
    factors: Vec<(f64, f64)>,
}

impl Unpack {
    const EQUALS: u32 = 1;
    const IS_NAN: u32 = 2;
    const MASK: u32 = 4;
    const SCALE: u32 = 8;
    const LOOK: u32 = 16;

    /// Converts samples of one type to another.
    ///
    /// `nodata` is the sample whose occurrence is reported, and which becomes NaN if `mask` is set. `factors` has the scale and the offset
    /// of each band of the result, or is empty. Returns `None` for types that no kernel converts: complex samples, and results other than
    /// `f32` and `f64`, unless the samples stay as they are.
    pub fn new(
        source: DType,
        target: DType,
        nodata: Option<NodataSample>,
        mask: bool,
        factors: Vec<(f64, f64)>,
    ) -> Option<Unpack> {
        let mask = mask && matches!(nodata, Some(NodataSample::Bits(_)));
        let stays = source == target && source != DType::F16 && !mask && factors.is_empty();
        let converts = matches!(target, DType::F32 | DType::F64);
        let complex = matches!(source, DType::CI16 | DType::CI32 | DType::CF32 | DType::CF64);
        let unpack = Unpack { source, target, nodata, mask, factors };
        (!complex && (stays || converts)).then(|| unpack.with_rounded_factors())
    }

    /// Rounds the factors to the type of the arithmetic.
    fn with_rounded_factors(mut self) -> Unpack {
        if self.work() == 4 {
            let single = |value: f64| f64::from(value as f32);
            self.factors.iter_mut().for_each(|(scale, offset)| (*scale, *offset) = (single(*scale), single(*offset)));
        }
        self
    }

    /// The type of the samples in the blocks.
    pub fn source(&self) -> DType {
        self.source
    }

    /// The type of the result.
    pub fn target(&self) -> DType {
        self.target
    }

    /// Whether samples change, or nodata is looked for.
    pub fn is_needed(&self) -> bool {
        self.source != self.target || self.nodata.is_some() || !self.factors.is_empty()
    }

    /// The scale and the offset of each band as bits: the table of the kernel.
    pub(super) fn table(&self) -> Vec<[u64; 2]> {
        self.factors.iter().map(|(scale, offset)| [scale.to_bits(), offset.to_bits()]).collect()
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> usize {
        self.factors.len() * 16
    }

    /// `kind` of the kernel.
    pub(super) fn kind(&self) -> u32 {
        match self.source {
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 0,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 1,
            _ => 2,
        }
    }

    /// Bytes of the float in which is computed, or 0 if samples stay as they are.
    pub(super) fn work(&self) -> u32 {
        match self.source {
            source if source == self.target && !self.mask && self.factors.is_empty() => 0,
            DType::F16 | DType::F32 => 4,
            _ => 8,
        }
    }

    /// `flags` of the kernel.
    pub(super) fn flags(&self) -> u32 {
        let test = match self.nodata {
            None => 0,
            Some(NodataSample::Bits(_)) => Unpack::EQUALS | Unpack::LOOK,
            Some(NodataSample::Nan) => Unpack::IS_NAN | Unpack::LOOK,
        };
        let mask = if self.mask { Unpack::MASK } else { 0 };
        test | mask | if self.factors.is_empty() { 0 } else { Unpack::SCALE }
    }

    /// The bits of the sample that means nodata.
    pub(super) fn nodata_bits(&self) -> u64 {
        match self.nodata {
            Some(NodataSample::Bits(bits)) => bits,
            _ => 0,
        }
    }

    /// Whether nodata is looked for.
    pub fn looks(&self) -> bool {
        self.nodata.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_kernel_are_refused() {
        let new = |source, target, mask| Unpack::new(source, target, Some(NodataSample::Bits(0)), mask, Vec::new());
        assert!(new(DType::U8, DType::U8, false).is_some());
        assert!(new(DType::U8, DType::U8, true).is_none(), "integers have no NaN");
        assert!(new(DType::U8, DType::U16, false).is_none());
        assert!(new(DType::F16, DType::F16, false).is_none(), "halves are compared as singles");
        assert!(new(DType::CF32, DType::CF32, false).is_none());
        assert!(new(DType::F32, DType::F32, true).is_some_and(|unpack| unpack.work() == 4));
        assert!(new(DType::I64, DType::F32, true).is_some_and(|unpack| unpack.work() == 8));
    }
}
