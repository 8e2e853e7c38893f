//! Limits on the resources that a file may require. They stop hostile files early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::xml::XmlLimits;

/// One entry of [`Limits::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitInfo {
    /// The field of [`Limits`].
    pub name: &'static str,
    /// The environment variable that sets it.
    pub variable: &'static str,
    /// The default.
    pub default: u64,
    /// What is limited.
    pub description: &'static str,
}

/// No limit has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a limit; the limits are {}", Limits::TABLE.map(|limit| limit.name).join(", "))]
pub struct UnknownLimit {
    /// The name.
    pub name: String,
}

/// The variable that sets several limits, as `NAME=VALUE,NAME=VALUE`.
pub const LIMITS_VARIABLE: &str = "SWATH_LIMITS";

/// `SWATH_LIMITS` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsVariableError {
    /// An entry has a name that no limit has.
    #[error("{LIMITS_VARIABLE}: {0}")]
    Name(#[source] UnknownLimit),
    /// An entry is not `NAME=VALUE`, or its value is not a positive whole number.
    #[error("{LIMITS_VARIABLE}: expected NAME=VALUE with a whole number of at least 1, found '{entry}'")]
    Entry {
        /// The entry.
        entry: String,
    },
}

/// The one table of the limits: the struct, the defaults, the variables and the help come from it.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $variable:literal;)*) => {
        /// Limits on the resources that a file may require. All are on by default; raise one if a file is trusted.
        ///
        /// The numbers are those of `xrspatial.geotiff`, except `max_tag_bytes`: tag values are read on demand, so a
        /// large ICC profile or XMP packet does not have to make a file unreadable.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: $type,)*
            meter: Meter,
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($name: $default,)* meter: Meter::default() }
            }
        }

        impl Limits {
            /// All limits, in the order of the fields.
            pub const TABLE: [LimitInfo; [$(stringify!($name)),*].len()] = [$(LimitInfo {
                name: stringify!($name),
                variable: $variable,
                default: $default,
                description: concat!($($doc),+),
            }),*];

            /// Sets the limit of this name.
            ///
            /// # Errors
            /// If no limit has this name.
            pub fn set(&mut self, name: &str, value: u64) -> std::result::Result<(), UnknownLimit> {
                match name {
                    $(stringify!($name) => self.$name = <$type>::try_from(value).unwrap_or(<$type>::MAX),)*
                    _ => return Err(UnknownLimit { name: name.to_owned() }),
                }
                Ok(())
            }

            /// Returns the limit of this name.
            fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name as u64),)*
                    _ => None,
                }
            }
        }
    };
}

limits! {
    /// The number of IFDs in the main chain and, separately, in SubIFDs.
    max_ifds: usize = 256, "SWATH_MAX_IFDS";
    /// The number of entries of one IFD, as in libtiff. The size of the file is not a bound, because directories may
    /// overlap.
    max_ifd_entries: u64 = 4096, "SWATH_MAX_IFD_ENTRIES";
    /// The size in bytes of one tag value other than a block table.
    max_tag_bytes: u64 = 16 << 20, "SWATH_MAX_TAG_BYTES";
    /// The size in bytes of all tag values that one open reads, or one listing of tags. Many directories can share one
    /// large value, so the size of the file is not a bound. Block tables do not count: they are read in pieces.
    max_metadata_bytes: u64 = 128 << 20, "SWATH_MAX_METADATA_BYTES";
    /// The number of entries of a block table.
    max_blocks: u64 = 100_000_000, "SWATH_MAX_BLOCKS";
    /// The number of pixels times bands of one read, or of a conversion of a file that is small for its pixels.
    max_pixels: u64 = 1_000_000_000, "SWATH_MAX_PIXELS";
    /// The number of pixels times bands for each byte that the file uses for them: its blocks and its block table, not
    /// other contents. A conversion, which does not hold all pixels in memory, may exceed max_pixels if the file has a
    /// byte for each so many pixels. Sparse files of many blocks stay below it.
    max_pixels_per_byte: u64 = 1 << 14, "SWATH_MAX_PIXELS_PER_BYTE";
    /// The number of pixels times samples of one block.
    max_block_pixels: u64 = 1_000_000_000, "SWATH_MAX_BLOCK_PIXELS";
    /// The size in bytes of the rows of one compressed block that are decoded at once. Blocks without compression do not
    /// count, because only the rows of the window are read.
    max_block_memory: u64 = 1 << 30, "SWATH_MAX_BLOCK_MEMORY";
    /// The compressed size in bytes of one block.
    max_block_bytes: u64 = 256 << 20, "SWATH_MAX_TILE_BYTES";
    /// The size in bytes of the memory that the decoder of one block uses in addition to the compressed and the decoded
    /// bytes: the planes of a picture, the dictionary of LZMA, the window of ZSTD. Where a decoder cannot be given a
    /// limit, it is estimated before the decoder starts.
    max_codec_memory: u64 = 2 << 30, "SWATH_MAX_CODEC_MEMORY";
    /// The size in bytes of an XML document, such as GDAL metadata or PAM.
    max_xml_bytes: usize = 64 << 20, "SWATH_MAX_XML_BYTES";
    /// The number of elements and attributes of an XML document.
    max_xml_nodes: usize = 1 << 19, "SWATH_MAX_XML_NODES";
    /// The depth of nested elements of an XML document.
    max_xml_depth: usize = 64, "SWATH_MAX_XML_DEPTH";
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

impl Limits {
    /// Returns the defaults, changed by the environment variables of [`Limits::TABLE`] that are positive numbers, then by
    /// [`LIMITS_VARIABLE`]. Entries of that variable that cannot be used are ignored.
    pub fn from_env() -> Limits {
        let mut limits = Limits::from_single_variables();
        let text = std::env::var(LIMITS_VARIABLE).unwrap_or_default();
        for (name, value) in entries(&text).filter_map(std::result::Result::ok) {
            let _ = limits.set(name, value);
        }
        limits
    }

    /// Returns the same limits, or the reason why [`LIMITS_VARIABLE`] cannot be used.
    ///
    /// # Errors
    /// An entry of the variable has an unknown name or no positive whole number.
    pub fn try_from_env() -> std::result::Result<Limits, LimitsVariableError> {
        let mut limits = Limits::from_single_variables();
        let text = std::env::var(LIMITS_VARIABLE).unwrap_or_default();
        for entry in entries(&text) {
            let (name, value) = entry?;
            limits.set(name, value).map_err(LimitsVariableError::Name)?;
        }
        Ok(limits)
    }

    fn from_single_variables() -> Limits {
        let mut limits = Limits::default();
        for LimitInfo { name, variable, .. } in Limits::TABLE {
            let value = std::env::var(variable).ok().and_then(|text| text.trim().parse().ok());
            if let Some(value) = value.filter(|value| *value > 0) {
                // The name is one of the table, so it is known.
                let _ = limits.set(name, value);
            }
        }
        limits
    }

    /// Returns the limits in the order of [`Limits::TABLE`].
    pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Limits::TABLE.iter().map(|limit| (limit.name, self.get(limit.name).unwrap_or(limit.default)))
    }

    /// Returns the number of samples of a read: `height` x `width` pixels times the samples of each pixel.
    ///
    /// # Errors
    /// The number if it is above `max_pixels`; `u64::MAX` if it does not fit 64 bits.
    pub fn samples_of_read(&self, height: u64, width: u64, samples: u64) -> std::result::Result<u64, u64> {
        let count = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(samples));
        count.filter(|&count| count <= self.max_pixels).ok_or(count.unwrap_or(u64::MAX))
    }

    /// Returns the number of samples of a conversion, which streams the pixels of a file that uses `used_bytes` bytes for
    /// them.
    ///
    /// # Errors
    /// The number if it is above `max_pixels` and above `max_pixels_per_byte` for each of these bytes; `u64::MAX` if it
    /// does not fit 64 bits.
    pub fn samples_of_conversion(
        &self,
        height: u64,
        width: u64,
        samples: u64,
        used_bytes: u64,
    ) -> std::result::Result<u64, u64> {
        match self.samples_of_read(height, width, samples) {
            Err(count) if count < u64::MAX && count <= used_bytes.saturating_mul(self.max_pixels_per_byte) => Ok(count),
            other => other,
        }
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
}

/// The entries of [`LIMITS_VARIABLE`].
fn entries(text: &str) -> impl Iterator<Item = std::result::Result<(&str, u64), LimitsVariableError>> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
        let pair = entry.split_once('=').and_then(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
        pair.filter(|(_, value)| *value > 0).ok_or_else(|| LimitsVariableError::Entry { entry: entry.to_owned() })
    })
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

    #[test]
    fn conversion_may_exceed_the_pixels_of_a_read_only_if_the_file_is_large() {
        let limits = Limits { max_pixels: 24, max_pixels_per_byte: 10, ..Limits::default() };
        assert_eq!(limits.samples_of_conversion(2, 3, 4, 0), Ok(24));
        assert_eq!(limits.samples_of_conversion(5, 5, 4, 10), Ok(100));
        assert_eq!(limits.samples_of_conversion(5, 5, 4, 9), Err(100));
        assert_eq!(limits.samples_of_conversion(1 << 32, 1 << 32, 1, u64::MAX), Err(u64::MAX));
    }

    #[test]
    fn every_limit_of_the_table_can_be_set_and_no_other() {
        let mut limits = Limits::default();
        for limit in Limits::TABLE {
            limits.set(limit.name, limit.default).unwrap();
            assert!(!limit.description.is_empty() && limit.variable.starts_with("SWATH_MAX_"), "{}", limit.name);
        }
        assert_eq!(limits, Limits::default(), "the defaults of the table are those of the struct");
        limits.set("max_xml_depth", 3).unwrap();
        assert_eq!(limits.max_xml_depth, 3);
        let unknown = limits.set("max_pixel", 3).unwrap_err();
        assert!(unknown.to_string().contains("max_pixels, "), "{unknown}");
    }

    #[test]
    fn list_of_limits_is_read_entry_by_entry() {
        let found: std::result::Result<Vec<_>, _> = entries(" max_ifds = 3,, max_blocks=9 ").collect();
        assert_eq!(found, Ok(vec![("max_ifds", 3), ("max_blocks", 9)]));
        for wrong in ["max_ifds", "max_ifds=", "max_ifds=0", "max_ifds=-1", "max_ifds=1e9"] {
            assert_eq!(entries(wrong).next(), Some(Err(LimitsVariableError::Entry { entry: wrong.into() })));
        }
        let limits = Limits { max_ifds: 3, ..Limits::default() };
        assert_eq!(limits.values().next(), Some(("max_ifds", 3)));
        assert_eq!(limits.values().count(), Limits::TABLE.len());
    }

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
}
