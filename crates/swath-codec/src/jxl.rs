//! stub
use crate::*;
/// x
pub fn decode(_s: &[u8], _h: Shape, _d: &mut [u8]) -> Result<()> {
    Err(Error::Unsupported { name: "jxl", code: 0 })
}
