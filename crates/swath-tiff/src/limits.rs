//! Limits on the resources that a file may require. They stop hostile files early.

/// Limits on the resources that a file may require. All are on by default; raise one if a file is trusted.
///
/// The numbers are those of `xrspatial.geotiff`, except `max_tag_bytes`: tag values are read on demand, so a
/// large ICC profile or XMP packet does not have to make a file unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The number of IFDs in the main chain and, separately, in SubIFDs (256).
    pub max_ifds: usize,
    /// The number of entries of one IFD (4096, as in libtiff). The size of the file is not a bound, because
    /// directories may overlap.
    pub max_ifd_entries: u64,
    /// The size in bytes of one tag value other than a block table (16 MiB).
    pub max_tag_bytes: u64,
    /// The number of entries of a block table (100 million).
    pub max_blocks: u64,
    /// The number of pixels times bands of one read (1e9).
    pub max_pixels: u64,
    /// The number of pixels times samples of one block (1e9).
    pub max_block_pixels: u64,
    /// The compressed size in bytes of one block (256 MiB; see [`Limits::from_env`]).
    pub max_block_bytes: u64,
    /// The size in bytes of an XML document, such as GDAL metadata or PAM (64 MiB).
    pub max_xml_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_ifds: 256,
            max_ifd_entries: 4096,
            max_tag_bytes: 16 << 20,
            max_blocks: 100_000_000,
            max_pixels: 1_000_000_000,
            max_block_pixels: 1_000_000_000,
            max_block_bytes: 256 << 20,
            max_xml_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// Returns the defaults, with `max_block_bytes` from the environment variable `SWATH_MAX_TILE_BYTES` if
    /// that is a positive number.
    pub fn from_env() -> Limits {
        let mut limits = Limits::default();
        let bytes = std::env::var("SWATH_MAX_TILE_BYTES").ok().and_then(|text| text.trim().parse().ok());
        limits.max_block_bytes = bytes.filter(|bytes| *bytes > 0).unwrap_or(limits.max_block_bytes);
        limits
    }

    /// Returns the number of samples of a read: `height` x `width` pixels times the samples of each pixel.
    ///
    /// # Errors
    /// The number if it is above `max_pixels`; `u64::MAX` if it does not fit 64 bits.
    pub fn samples_of_read(&self, height: u64, width: u64, samples: u64) -> Result<u64, u64> {
        let count = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(samples));
        count.filter(|&count| count <= self.max_pixels).ok_or(count.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_samples_that_overflows_exceeds_every_limit() {
        let limits = Limits { max_pixels: 24, ..Limits::default() };
        assert_eq!(limits.samples_of_read(2, 3, 4), Ok(24));
        assert_eq!(limits.samples_of_read(5, 5, 1), Err(25));
        let unlimited = Limits { max_pixels: u64::MAX, ..Limits::default() };
        assert_eq!(unlimited.samples_of_read(1 << 32, 1 << 32, 1), Err(u64::MAX));
        assert_eq!(unlimited.samples_of_read(1 << 32, 1 << 31, 2), Err(u64::MAX));
    }
}
