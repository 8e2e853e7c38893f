//! The interpretation of the bits of a sample.

/// The interpretation of the bits of a sample (the SampleFormat tag).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleFormat {
    /// Unsigned integer. "Undefined" (4) is read as an unsigned integer too.
    Uint,
    /// Two's complement signed integer.
    Int,
    /// IEEE floating point (16, 24, 32 or 64 bits).
    Float,
    /// A pair of signed integers, real part first. A nodata value applies to the real part.
    ComplexInt,
    /// A pair of floats, real part first. A nodata value applies to the real part.
    ComplexFloat,
}

impl SampleFormat {
    /// Returns the format for a value of the SampleFormat tag. An undefined value counts as unsigned.
    pub fn from_tag(value: u16) -> SampleFormat {
        match value {
            2 => SampleFormat::Int,
            3 => SampleFormat::Float,
            5 => SampleFormat::ComplexInt,
            6 => SampleFormat::ComplexFloat,
            _ => SampleFormat::Uint,
        }
    }

    /// The value of the SampleFormat tag.
    pub fn to_tag(self) -> u16 {
        match self {
            SampleFormat::Uint => 1,
            SampleFormat::Int => 2,
            SampleFormat::Float => 3,
            SampleFormat::ComplexInt => 5,
            SampleFormat::ComplexFloat => 6,
        }
    }
}
