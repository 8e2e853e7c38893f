//! A float that keeps all its bits when it is stored and loaded, except the payload of NaN in text formats.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Exact(pub(super) f64);

pub(super) fn all(values: &[f64]) -> Vec<Exact> {
    values.iter().copied().map(Exact).collect()
}

pub(super) fn values(values: Vec<Exact>) -> Vec<f64> {
    values.into_iter().map(|value| value.0).collect()
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The debug form has the fewest digits that parse to the same number.
        if serializer.is_human_readable() {
            serializer.collect_str(&format_args!("{:?}", self.0))
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exact, D::Error> {
        if !deserializer.is_human_readable() {
            return f64::deserialize(deserializer).map(Exact);
        }
        let text = String::deserialize(deserializer)?;
        text.parse().map(Exact).map_err(|_| D::Error::custom(format_args!("'{text}' is not a number")))
    }
}
