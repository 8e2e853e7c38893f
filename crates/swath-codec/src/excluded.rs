//! Replacements for the codecs whose Cargo feature is off: the same functions, each of which returns
//! [`Error::NotIncluded`].
//!
//! The rest of the crate calls these functions in the same way as the real codecs, so no other code depends on
//! the features.

#[cfg(not(feature = "jxl"))]
pub mod jxl {
    //! JPEG XL is not included in this build.
    use crate::{Error, Result, Shape};

    /// Returns [`Error::NotIncluded`].
    pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
        decode_within(src, shape, dst, u64::MAX)
    }

    pub(crate) fn decode_within(_src: &[u8], _shape: Shape, _dst: &mut [u8], _max_memory: u64) -> Result<()> {
        Err(Error::NotIncluded { codec: "JPEG XL", feature: "jxl" })
    }
}

#[cfg(not(feature = "lzma"))]
pub mod lzma {
    //! LZMA is not included in this build.
    use crate::{Error, Result};

    const NOT_INCLUDED: Error = Error::NotIncluded { codec: "LZMA", feature: "lzma" };

    /// Returns [`Error::NotIncluded`].
    pub fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize> {
        decode_within(src, dst, u64::MAX)
    }

    pub(crate) fn decode_within(_src: &[u8], _dst: &mut [u8], _max_memory: u64) -> Result<usize> {
        Err(NOT_INCLUDED)
    }

    /// Returns [`Error::NotIncluded`].
    pub fn encode(_src: &[u8], _preset: u32, _out: &mut Vec<u8>) -> Result<()> {
        Err(NOT_INCLUDED)
    }
}

#[cfg(not(feature = "webp"))]
pub mod webp {
    //! WebP is not included in this build.
    use crate::{Error, Result, Shape};

    const NOT_INCLUDED: Error = Error::NotIncluded { codec: "WebP", feature: "webp" };

    /// Returns [`Error::NotIncluded`].
    pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
        decode_within(src, shape, dst, u64::MAX)
    }

    pub(crate) fn decode_within(_src: &[u8], _shape: Shape, _dst: &mut [u8], _max_memory: u64) -> Result<()> {
        Err(NOT_INCLUDED)
    }

    /// Returns [`Error::NotIncluded`].
    pub fn encode(_quality: Option<f32>, _src: &[u8], _shape: Shape, _out: &mut Vec<u8>) -> Result<()> {
        Err(NOT_INCLUDED)
    }
}

#[cfg(not(feature = "jpeg2000"))]
pub(crate) mod jpeg2000 {
    use crate::jpeg2000::{Colour, EncodeParams};
    use crate::{Error, Result, Shape};

    const NOT_INCLUDED: Error = Error::NotIncluded { codec: "JPEG 2000", feature: "jpeg2000" };

    /// Returns [`Error::NotIncluded`].
    pub fn decode(src: &[u8], shape: Shape, colour: Colour, dst: &mut [u8]) -> Result<()> {
        decode_within(src, shape, colour, dst, u64::MAX)
    }

    pub(crate) fn decode_within(
        _src: &[u8],
        _shape: Shape,
        _colour: Colour,
        _dst: &mut [u8],
        _max_memory: u64,
    ) -> Result<()> {
        Err(NOT_INCLUDED)
    }

    /// Returns [`Error::NotIncluded`].
    pub fn encode(_params: &EncodeParams, _src: &[u8], _shape: Shape, _out: &mut Vec<u8>) -> Result<()> {
        Err(NOT_INCLUDED)
    }
}

#[cfg(not(feature = "lerc"))]
pub(crate) mod lerc {
    use crate::lerc::Params;
    use crate::{Error, Result, Shape};

    const NOT_INCLUDED: Error = Error::NotIncluded { codec: "LERC", feature: "lerc" };

    /// An empty type: LERC has no buffers in this build.
    #[derive(Debug, Default)]
    pub struct Scratch;

    /// Returns [`Error::NotIncluded`].
    pub fn decode(
        _params: &Params,
        _src: &[u8],
        _shape: Shape,
        _dst: &mut [u8],
        _mask: Option<&mut [u8]>,
        _scratch: &mut Scratch,
    ) -> Result<bool> {
        Err(NOT_INCLUDED)
    }

    /// A type without values: this build has no LERC encoder.
    #[derive(Debug)]
    pub struct Encoder(());

    impl Encoder {
        /// Returns [`Error::NotIncluded`].
        pub fn new(_params: &Params, _max_z_error: f64, _level: i32) -> Result<Encoder> {
            Err(NOT_INCLUDED)
        }

        /// Returns [`Error::NotIncluded`].
        pub fn encode(&mut self, _src: &[u8], _shape: Shape, _out: &mut Vec<u8>) -> Result<()> {
            Err(NOT_INCLUDED)
        }
    }
}
