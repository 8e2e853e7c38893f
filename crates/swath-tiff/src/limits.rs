//! Limits on the resources that a file may require. They stop hostile files early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::xml::XmlLimits;

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
    /// The size in bytes of all tag values that one open reads, or one listing of tags (128 MiB). Many directories
    /// can share one large value, so the size of the file is not a bound. Block tables do not count: they are read
    /// in pieces.
    pub max_metadata_bytes: u64,
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
    /// The number of elements and attributes of an XML document (1,048,576).
    pub max_xml_nodes: usize,
    /// The depth of nested elements of an XML document (64).
    pub max_xml_depth: usize,
    meter: Meter,
}

/// Counts the bytes of tag values. Limits are equal whatever was counted.
#[derive(Debug, Clone, Default)]
struct Meter(Option<Arc<AtomicU64>>);

impl PartialEq for Meter {
    fn eq(&self, _other: &Meter) -> bool {
        true
    }
}

impl Eq for Meter {}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_ifds: 256,
            max_ifd_entries: 4096,
            max_tag_bytes: 16 << 20,
            max_metadata_bytes: 128 << 20,
            max_blocks: 100_000_000,
            max_pixels: 1_000_000_000,
            max_block_pixels: 1_000_000_000,
            max_block_bytes: 256 << 20,
            max_xml_bytes: 64 << 20,
            max_xml_nodes: 1 << 20,
            max_xml_depth: 64,
            meter: Meter::default(),
        }
    }
}

impl Limits {
    /// Returns the defaults, changed by environment variables that are positive numbers: `SWATH_MAX_TILE_BYTES`
    /// is `max_block_bytes`; `SWATH_MAX_TAG_BYTES`, `SWATH_MAX_METADATA_BYTES`, `SWATH_MAX_XML_BYTES`,
    /// `SWATH_MAX_XML_NODES` and `SWATH_MAX_XML_DEPTH` are the fields of these names.
    pub fn from_env() -> Limits {
        fn set<T: std::str::FromStr + PartialOrd + From<u8>>(limit: &mut T, name: &str) {
            let value = std::env::var(name).ok().and_then(|text| text.trim().parse().ok());
            if let Some(value) = value.filter(|value| *value > T::from(0)) {
                *limit = value;
            }
        }
        let mut limits = Limits::default();
        set(&mut limits.max_block_bytes, "SWATH_MAX_TILE_BYTES");
        set(&mut limits.max_tag_bytes, "SWATH_MAX_TAG_BYTES");
        set(&mut limits.max_metadata_bytes, "SWATH_MAX_METADATA_BYTES");
        set(&mut limits.max_xml_bytes, "SWATH_MAX_XML_BYTES");
        set(&mut limits.max_xml_nodes, "SWATH_MAX_XML_NODES");
        set(&mut limits.max_xml_depth, "SWATH_MAX_XML_DEPTH");
        limits
    }

    /// The limits on XML documents.
    pub fn xml(&self) -> XmlLimits {
        XmlLimits { bytes: self.max_xml_bytes, depth: self.max_xml_depth, nodes: self.max_xml_nodes }
    }

    /// Returns the same limits with a new count of tag values, which the result and its clones share. Use them for
    /// one operation that reads many tags; without a count, each value has only its own limit.
    #[must_use]
    pub fn metered(&self) -> Limits {
        Limits { meter: Meter(Some(Arc::default())), ..self.clone() }
    }

    /// Counts bytes of tag values, or of what is made of them.
    ///
    /// # Errors
    /// [`Error::Limit`] if all bytes that were counted are more than `max_metadata_bytes`.
    pub fn count_metadata(&self, bytes: u64) -> Result<()> {
        let Some(counted) = &self.meter.0 else { return Ok(()) };
        let (what, name, limit) =
            ("the size of the metadata of one open", "max_metadata_bytes", self.max_metadata_bytes);
        let add = |before: u64| before.checked_add(bytes).filter(|after| *after <= limit);
        match counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(before) => Err(Error::Limit { what, name, value: before.saturating_add(bytes), limit }),
        }
    }

    /// Returns the number of samples of a read: `height` x `width` pixels times the samples of each pixel.
    ///
    /// # Errors
    /// The number if it is above `max_pixels`; `u64::MAX` if it does not fit 64 bits.
    pub fn samples_of_read(&self, height: u64, width: u64, samples: u64) -> std::result::Result<u64, u64> {
        let count = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(samples));
        count.filter(|&count| count <= self.max_pixels).ok_or(count.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_of_many_values_is_limited_for_each_metered_operation() {
        let limits = Limits { max_metadata_bytes: 100, ..Limits::default() };
        assert!((0..10).all(|_| limits.count_metadata(60).is_ok()), "without a count there is no total");
        let metered = limits.metered();
        assert!(metered.count_metadata(60).is_ok());
        let refused = metered.clone().count_metadata(60);
        assert!(matches!(refused, Err(Error::Limit { name: "max_metadata_bytes", value: 120, limit: 100, .. })));
        assert!(metered.count_metadata(40).is_ok(), "what was refused does not count");
        assert!(limits.metered().count_metadata(60).is_ok());
        assert_eq!(limits, metered);
    }

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
