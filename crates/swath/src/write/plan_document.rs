//! A plan as data, for other processes: the form in which a [`WritePlan`] is stored and sent.
//!
//! The document has its own types, so that its form does not change when the engine's types do. It holds the
//! shape of the image and the options with all choices made. Everything else in a plan follows from them.
//! Loading a document creates the plan again, so an untrusted document passes the same checks as the
//! arguments of [`WritePlan::new`].
//!
//! In text formats, floats are stored as text: JSON has no NaN, and not every JSON parser reads all digits.

mod codec;
mod exact;
mod metadata;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use swath_codec::{DType, Predictor};
use swath_tiff::{FieldType, Photometric, Planar, Tag, Value};

use self::codec::CodecDocument;
use self::exact::Exact;
use self::metadata::MetadataDocument;
use crate::write::error::PlanError;
use crate::write::options::{BigTiff, BlockSize, FileLayout, Overviews, PredictorChoice, Statistics, WriteOptions};
use crate::write::plan::{ImageShape, WritePlan};
use crate::write::reduce::Resampling;

/// The version of the documents that this build writes and reads.
const VERSION: u32 = 1;

/// The stored form of a [`WritePlan`].
///
/// `WritePlan` itself can be serialised and deserialised. This type is for callers that need the reason of a
/// failure as a [`PlanError`] and not as text in an error of the format: deserialise a `PlanDocument`, then
/// convert it with `WritePlan::try_from`.
#[derive(Debug, Clone)]
pub struct PlanDocument {
    version: u32,
    /// `None` if the version is not the one that this build reads.
    content: Option<Box<Content>>,
}

#[derive(Debug, Clone)]
struct Content {
    shape: ShapeDocument,
    options: OptionsDocument,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeDocument {
    height: u64,
    width: u64,
    bands: u64,
    dtype: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionsDocument {
    layout: LayoutDocument,
    blocks: BlocksDocument,
    /// Whether each band has its own blocks.
    separate_bands: bool,
    codec: CodecDocument,
    /// The value of the Predictor tag.
    predictor: u16,
    bits: u16,
    /// The factors of the overviews.
    overviews: Vec<u32>,
    resampling: Option<String>,
    mask: bool,
    photometric: u16,
    extra_samples: Vec<u16>,
    big_tiff: BigTiffDocument,
    skip_empty: bool,
    statistics: StatisticsDocument,
    nan_to_nodata: bool,
    metadata: MetadataDocument,
    extra_tags: Vec<(u16, ValueDocument)>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LayoutDocument {
    Cog,
    Plain,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BlocksDocument {
    Tiles { height: u32, width: u32 },
    Strips { rows: u32 },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BigTiffDocument {
    Auto,
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatisticsDocument {
    Off,
    Report,
    Embed,
}

/// The value of a tag.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ValueDocument {
    Bytes(Vec<u8>),
    Text(String),
    Short(Vec<u16>),
    Long(Vec<u32>),
    Long8(Vec<u64>),
    Double(Vec<Exact>),
    Rational(Vec<(u32, u32)>),
    Ifd(Vec<u32>),
    /// The field type, the number of values, and their bytes.
    Raw(u16, u64, Vec<u8>),
}

impl ValueDocument {
    /// Returns `None` for a kind of value that documents of this version do not support.
    fn new(value: &Value) -> Option<ValueDocument> {
        Some(match value {
            Value::Bytes(values) => ValueDocument::Bytes(values.clone()),
            Value::Text(text) => ValueDocument::Text(text.clone()),
            Value::Short(values) => ValueDocument::Short(values.clone()),
            Value::Long(values) => ValueDocument::Long(values.clone()),
            Value::Long8(values) => ValueDocument::Long8(values.clone()),
            Value::Double(values) => ValueDocument::Double(exact::all(values)),
            Value::Rational(values) => ValueDocument::Rational(values.clone()),
            Value::Ifd(values) => ValueDocument::Ifd(values.clone()),
            Value::Raw(field_type, count, bytes) => ValueDocument::Raw(field_type.0, *count, bytes.clone()),
            _ => return None,
        })
    }

    fn into_value(self) -> Result<Value, PlanError> {
        Ok(match self {
            ValueDocument::Bytes(values) => Value::Bytes(values),
            ValueDocument::Text(text) => Value::Text(text),
            ValueDocument::Short(values) => Value::Short(values),
            ValueDocument::Long(values) => Value::Long(values),
            ValueDocument::Long8(values) => Value::Long8(values),
            ValueDocument::Double(values) => Value::Double(exact::values(values)),
            ValueDocument::Rational(values) => Value::Rational(values),
            ValueDocument::Ifd(values) => Value::Ifd(values),
            ValueDocument::Raw(field_type, count, bytes) => {
                let field_type = FieldType(field_type);
                let size = field_type.size().ok_or(PlanError::Document { field: "extra_tags: the field type" })?;
                if count.checked_mul(size) != Some(bytes.len() as u64) {
                    return Err(PlanError::Document { field: "extra_tags: the number of values" });
                }
                Value::Raw(field_type, count, bytes)
            }
        })
    }
}

impl From<&WritePlan> for PlanDocument {
    fn from(plan: &WritePlan) -> PlanDocument {
        let ImageShape { height, width, bands, dtype } = plan.shape();
        let shape = ShapeDocument { height, width, bands: bands as u64, dtype: dtype.name().to_owned() };
        let content = Content { shape, options: OptionsDocument::new(plan) };
        PlanDocument { version: VERSION, content: Some(Box::new(content)) }
    }
}

impl OptionsDocument {
    fn new(plan: &WritePlan) -> OptionsDocument {
        let options = &plan.options;
        OptionsDocument {
            layout: match options.layout {
                FileLayout::Cog => LayoutDocument::Cog,
                FileLayout::Plain => LayoutDocument::Plain,
            },
            blocks: match options.blocks {
                BlockSize::Tiles { height, width } => BlocksDocument::Tiles { height, width },
                BlockSize::Strips { rows } => BlocksDocument::Strips { rows },
            },
            separate_bands: options.planar == Planar::Separate,
            codec: CodecDocument::new(&plan.encoder.compress),
            predictor: plan.encoder.predictor.tag(),
            bits: plan.bits,
            overviews: match &options.overviews {
                Overviews::Factors(factors) => factors.clone(),
                // A plan always holds explicit factors, so these variants do not occur.
                Overviews::None | Overviews::Auto => Vec::new(),
            },
            resampling: options.resampling.map(|method| method.name().to_owned()),
            mask: options.mask,
            photometric: plan.photometric.0,
            extra_samples: plan.extra_samples.clone(),
            big_tiff: match options.big_tiff {
                BigTiff::Auto => BigTiffDocument::Auto,
                BigTiff::Yes => BigTiffDocument::Yes,
                BigTiff::No => BigTiffDocument::No,
            },
            skip_empty: options.skip_empty,
            statistics: match options.statistics {
                Statistics::Off => StatisticsDocument::Off,
                Statistics::Report => StatisticsDocument::Report,
                Statistics::Embed => StatisticsDocument::Embed,
            },
            nan_to_nodata: options.nan_to_nodata,
            metadata: MetadataDocument::new(&options.metadata),
            extra_tags: options
                .extra_tags
                .iter()
                .filter_map(|(tag, value)| Some((tag.0, ValueDocument::new(value)?)))
                .collect(),
        }
    }

    fn into_options(self) -> Result<WriteOptions, PlanError> {
        let resampling = self.resampling.map(|name| Resampling::from_name(&name).ok_or(field("resampling")));
        let predictor = Predictor::from_tag(self.predictor).ok_or(field("predictor"))?;
        let tags = self.extra_tags.into_iter().map(|(tag, value)| Ok((Tag(tag), value.into_value()?)));
        Ok(WriteOptions {
            layout: match self.layout {
                LayoutDocument::Cog => FileLayout::Cog,
                LayoutDocument::Plain => FileLayout::Plain,
            },
            blocks: match self.blocks {
                BlocksDocument::Tiles { height, width } => BlockSize::Tiles { height, width },
                BlocksDocument::Strips { rows } => BlockSize::Strips { rows },
            },
            planar: if self.separate_bands { Planar::Separate } else { Planar::Chunky },
            compress: self.codec.into_compress()?,
            predictor: PredictorChoice::Always(predictor),
            bits: Some(self.bits),
            overviews: if self.overviews.is_empty() { Overviews::None } else { Overviews::Factors(self.overviews) },
            resampling: resampling.transpose()?,
            mask: self.mask,
            photometric: Some(Photometric(self.photometric)),
            extra_samples: Some(self.extra_samples),
            big_tiff: match self.big_tiff {
                BigTiffDocument::Auto => BigTiff::Auto,
                BigTiffDocument::Yes => BigTiff::Yes,
                BigTiffDocument::No => BigTiff::No,
            },
            skip_empty: self.skip_empty,
            statistics: match self.statistics {
                StatisticsDocument::Off => Statistics::Off,
                StatisticsDocument::Report => Statistics::Report,
                StatisticsDocument::Embed => Statistics::Embed,
            },
            nan_to_nodata: self.nan_to_nodata,
            metadata: self.metadata.into_metadata()?,
            extra_tags: tags.collect::<Result<_, PlanError>>()?,
        })
    }
}

/// The error of a field that has no valid value.
fn field(field: &'static str) -> PlanError {
    PlanError::Document { field }
}

impl TryFrom<PlanDocument> for WritePlan {
    type Error = PlanError;

    fn try_from(document: PlanDocument) -> Result<WritePlan, PlanError> {
        let version = document.version;
        let content = document.content.ok_or(PlanError::Version { version, supported: VERSION })?;
        let Content { shape: ShapeDocument { height, width, bands, dtype }, options } = *content;
        let dtype = DType::ALL.into_iter().find(|known| known.name() == dtype).ok_or(field("dtype"))?;
        let bands = usize::try_from(bands).map_err(|_| field("bands"))?;
        WritePlan::new(ImageShape::new(height, width, bands, dtype), options.into_options()?)
    }
}

impl Serialize for WritePlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlanDocument::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WritePlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WritePlan, D::Error> {
        WritePlan::try_from(PlanDocument::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for PlanDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error as _, SerializeStruct};
        let Some(content) = &self.content else {
            return Err(S::Error::custom(PlanError::Version { version: self.version, supported: VERSION }));
        };
        // The version comes first, so that a reader checks it before it reads anything else.
        let mut document = serializer.serialize_struct("WritePlan", FIELDS.len())?;
        document.serialize_field("version", &self.version)?;
        document.serialize_field("shape", &content.shape)?;
        document.serialize_field("options", &content.options)?;
        document.end()
    }
}

const FIELDS: &[&str] = &["version", "shape", "options"];

impl<'de> Deserialize<'de> for PlanDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PlanDocument, D::Error> {
        let self_describing = deserializer.is_human_readable();
        deserializer.deserialize_struct("WritePlan", FIELDS, DocumentVisitor { self_describing })
    }
}

/// Reads a document. If it has another version, the rest is skipped, because its form is unknown.
struct DocumentVisitor {
    /// Whether the format is self-describing. Text formats can, and must, skip values of unknown form. Binary
    /// formats cannot.
    self_describing: bool,
}

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = PlanDocument;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the plan of a file")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<PlanDocument, A::Error> {
        let missing = |at| A::Error::invalid_length(at, &self);
        let version: u32 = fields.next_element()?.ok_or_else(|| missing(0))?;
        if version != VERSION {
            while self.self_describing && fields.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(PlanDocument { version, content: None });
        }
        let shape = fields.next_element()?.ok_or_else(|| missing(1))?;
        let options = fields.next_element()?.ok_or_else(|| missing(2))?;
        Ok(PlanDocument { version, content: Some(Box::new(Content { shape, options })) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<PlanDocument, A::Error> {
        let (mut version, mut shape, mut options) = (None, None, None);
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "version" => version = Some(fields.next_value()?),
                _ if version.is_some_and(|version| version != VERSION) => {
                    fields.next_value::<IgnoredAny>()?;
                }
                "shape" => shape = Some(fields.next_value()?),
                "options" => options = Some(fields.next_value()?),
                other => return Err(A::Error::unknown_field(other, FIELDS)),
            }
        }
        let version = version.ok_or_else(|| A::Error::missing_field("version"))?;
        if version != VERSION {
            return Ok(PlanDocument { version, content: None });
        }
        let shape = shape.ok_or_else(|| A::Error::missing_field("shape"))?;
        let options = options.ok_or_else(|| A::Error::missing_field("options"))?;
        Ok(PlanDocument { version, content: Some(Box::new(Content { shape, options })) })
    }
}

#[cfg(test)]
mod tests;
