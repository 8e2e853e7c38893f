//! The statistics of a band, which GDAL stores as items `STATISTICS_*`.

use super::Item;
use crate::number;

/// The stored statistics of a band.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// The smallest valid value.
    pub minimum: Option<f64>,
    /// The largest valid value.
    pub maximum: Option<f64>,
    /// The mean of the valid values.
    pub mean: Option<f64>,
    /// The standard deviation of the valid values.
    pub std_dev: Option<f64>,
    /// The percentage of valid pixels.
    pub valid_percent: Option<f64>,
    /// Whether the statistics were computed from an overview or from a part of the pixels.
    pub approximate: bool,
}

impl Statistics {
    /// Collects the `STATISTICS_*` items; returns `None` if there are none.
    pub fn from_items<'a>(items: impl Iterator<Item = &'a Item>) -> Option<Self> {
        let mut found = false;
        let mut out = Self::default();
        for item in items {
            let value = number::leading_f64(&item.value);
            let slot = match item.name.to_ascii_uppercase().as_str() {
                "STATISTICS_MINIMUM" => &mut out.minimum,
                "STATISTICS_MAXIMUM" => &mut out.maximum,
                "STATISTICS_MEAN" => &mut out.mean,
                "STATISTICS_STDDEV" => &mut out.std_dev,
                "STATISTICS_VALID_PERCENT" => &mut out.valid_percent,
                "STATISTICS_APPROXIMATE" => {
                    out.approximate = item.value.eq_ignore_ascii_case("YES");
                    continue;
                }
                _ => continue,
            };
            *slot = value.or(*slot);
            found |= value.is_some();
        }
        found.then_some(out)
    }

    /// Returns the items of a band (counted from 0), or items without a band for a sidecar that names the band
    /// elsewhere. Names, order and digits are those of GDAL.
    pub fn to_items(&self, sample: Option<usize>) -> Vec<Item> {
        let valid = self.valid_percent.map(|percent| match number::format_g(percent, 4).as_str() {
            // 100 means that every pixel is valid, so a smaller percentage must not round to it.
            "100" if percent < 100.0 => "99.999".to_owned(),
            text => text.to_owned(),
        });
        let digits = |value: Option<f64>| value.map(|value| number::format_g(value, 14));
        let items = [
            ("STATISTICS_APPROXIMATE", self.approximate.then(|| "YES".to_owned())),
            ("STATISTICS_MINIMUM", digits(self.minimum)),
            ("STATISTICS_MAXIMUM", digits(self.maximum)),
            ("STATISTICS_MEAN", digits(self.mean)),
            ("STATISTICS_STDDEV", digits(self.std_dev)),
            ("STATISTICS_VALID_PERCENT", valid),
        ];
        let item = |(name, value): (&str, Option<String>)| {
            Some(Item { name: name.to_owned(), value: value?, sample, ..Item::default() })
        };
        items.into_iter().filter_map(item).collect()
    }
}
