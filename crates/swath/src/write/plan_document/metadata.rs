//! The metadata of an image that a write stores, as data. It excludes the origin of the metadata and warnings
//! about it.

use serde::{Deserialize, Serialize};
use swath_tiff::Tag;
use swath_tiff::gdal_metadata::{Item, Statistics};
use swath_tiff::geo::{Gcp, GeoKey, GeoKeys, GeoTransform, KeyValue, RasterType, Rpc};
use swath_tiff::geodata_xform::Resolution;
use swath_tiff::nodata::NoData;
use swath_tiff::palette::Palette;

use super::exact::{self, Exact};
use super::field;
use crate::dataset::band_color;
use crate::dataset::metadata::{BandMetadata, ImageMetadata};
use crate::write::error::PlanError;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetadataDocument {
    transform: Option<[Exact; 6]>,
    raw_transform: Option<[Exact; 6]>,
    pixel_is_point: bool,
    gcps: Vec<GcpDocument>,
    /// The values of the RPCCoefficient tag.
    rpc: Option<Vec<Exact>>,
    crs_text: Option<String>,
    geo_keys: Option<GeoKeysDocument>,
    nodata: Option<NoDataDocument>,
    palette: Option<Vec<[u8; 4]>>,
    items: Vec<ItemDocument>,
    metadata_xml: Option<String>,
    texts: Vec<(u16, String)>,
    resolution: Option<ResolutionDocument>,
    bands: Vec<BandDocument>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GcpDocument {
    id: String,
    info: String,
    pixel: Exact,
    line: Exact,
    x: Exact,
    y: Exact,
    z: Exact,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeoKeysDocument {
    version: u16,
    revision: (u16, u16),
    keys: Vec<(u16, KeyDocument)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyDocument {
    Short(u16),
    Shorts(Vec<u16>),
    Doubles(Vec<Exact>),
    Ascii(String),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NoDataDocument {
    Uint(u64),
    Int(i64),
    Float(Exact),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemDocument {
    name: String,
    value: String,
    domain: Option<String>,
    role: Option<String>,
    sample: Option<u32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolutionDocument {
    x: Exact,
    y: Exact,
    unit: u16,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BandDocument {
    description: Option<String>,
    units: Option<String>,
    scale: Option<Exact>,
    offset: Option<Exact>,
    statistics: Option<StatisticsDocument>,
    color: String,
    categories: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatisticsDocument {
    minimum: Option<Exact>,
    maximum: Option<Exact>,
    mean: Option<Exact>,
    std_dev: Option<Exact>,
    valid_percent: Option<Exact>,
    approximate: bool,
}

impl MetadataDocument {
    pub(super) fn new(metadata: &ImageMetadata) -> MetadataDocument {
        let transform = |transform: &GeoTransform| transform.0.map(Exact);
        MetadataDocument {
            transform: metadata.transform.as_ref().map(transform),
            raw_transform: metadata.raw_transform.as_ref().map(transform),
            pixel_is_point: metadata.raster_type == RasterType::Point,
            gcps: metadata.gcps.iter().map(GcpDocument::new).collect(),
            rpc: metadata.rpc.as_ref().map(|rpc| exact::all(&rpc.to_tag())),
            crs_text: metadata.crs_text.clone(),
            geo_keys: metadata.geo_keys.as_ref().map(GeoKeysDocument::new),
            nodata: metadata.nodata.map(|nodata| match nodata {
                NoData::Uint(value) => NoDataDocument::Uint(value),
                NoData::Int(value) => NoDataDocument::Int(value),
                NoData::Float(value) => NoDataDocument::Float(Exact(value)),
            }),
            palette: metadata.palette.as_ref().map(|palette| palette.entries.clone()),
            items: metadata.metadata.iter().map(ItemDocument::new).collect(),
            metadata_xml: metadata.metadata_xml.clone(),
            texts: metadata.texts.iter().map(|(tag, text)| (tag.0, text.clone())).collect(),
            resolution: metadata.resolution.map(|Resolution { x, y, unit }| ResolutionDocument {
                x: Exact(x),
                y: Exact(y),
                unit,
            }),
            bands: metadata.bands.iter().map(BandDocument::new).collect(),
        }
    }

    pub(super) fn into_metadata(self) -> Result<ImageMetadata, PlanError> {
        let transform = |transform: [Exact; 6]| GeoTransform(transform.map(|value| value.0));
        let mut metadata = ImageMetadata::default();
        metadata.transform = self.transform.map(transform);
        metadata.raw_transform = self.raw_transform.map(transform);
        metadata.raster_type = if self.pixel_is_point { RasterType::Point } else { RasterType::Area };
        metadata.gcps = self.gcps.into_iter().map(GcpDocument::into_gcp).collect();
        let rpc = self.rpc.map(|values| Rpc::from_tag(&exact::values(values)).map_err(|_| field("rpc")));
        metadata.rpc = rpc.transpose()?;
        metadata.crs_text = self.crs_text;
        metadata.geo_keys = self.geo_keys.map(GeoKeysDocument::into_keys);
        metadata.nodata = self.nodata.map(|nodata| match nodata {
            NoDataDocument::Uint(value) => NoData::Uint(value),
            NoDataDocument::Int(value) => NoData::Int(value),
            NoDataDocument::Float(value) => NoData::Float(value.0),
        });
        metadata.palette = self.palette.map(|entries| Palette { entries });
        metadata.metadata = self.items.into_iter().map(ItemDocument::into_item).collect();
        metadata.metadata_xml = self.metadata_xml;
        metadata.texts = self.texts.into_iter().map(|(tag, text)| (Tag(tag), text)).collect();
        metadata.resolution =
            self.resolution.map(|ResolutionDocument { x, y, unit }| Resolution { x: x.0, y: y.0, unit });
        metadata.bands = self.bands.into_iter().map(BandDocument::into_band).collect();
        Ok(metadata)
    }
}

impl GcpDocument {
    fn new(gcp: &Gcp) -> GcpDocument {
        let Gcp { id, info, pixel, line, x, y, z } = gcp.clone();
        GcpDocument { id, info, pixel: Exact(pixel), line: Exact(line), x: Exact(x), y: Exact(y), z: Exact(z) }
    }

    fn into_gcp(self) -> Gcp {
        let GcpDocument { id, info, pixel, line, x, y, z } = self;
        Gcp { id, info, pixel: pixel.0, line: line.0, x: x.0, y: y.0, z: z.0 }
    }
}

impl GeoKeysDocument {
    fn new(keys: &GeoKeys) -> GeoKeysDocument {
        let value = |value: &KeyValue| match value {
            KeyValue::Short(value) => KeyDocument::Short(*value),
            KeyValue::Shorts(values) => KeyDocument::Shorts(values.clone()),
            KeyValue::Doubles(values) => KeyDocument::Doubles(exact::all(values)),
            KeyValue::Ascii(text) => KeyDocument::Ascii(text.clone()),
        };
        let entries = keys.keys.iter().map(|key| (key.id, value(&key.value))).collect();
        GeoKeysDocument { version: keys.version, revision: keys.revision, keys: entries }
    }

    fn into_keys(self) -> GeoKeys {
        let value = |value: KeyDocument| match value {
            KeyDocument::Short(value) => KeyValue::Short(value),
            KeyDocument::Shorts(values) => KeyValue::Shorts(values),
            KeyDocument::Doubles(values) => KeyValue::Doubles(exact::values(values)),
            KeyDocument::Ascii(text) => KeyValue::Ascii(text),
        };
        let keys = self.keys.into_iter().map(|(id, key)| GeoKey { id, value: value(key) }).collect();
        GeoKeys { version: self.version, revision: self.revision, keys, warnings: Vec::new() }
    }
}

impl ItemDocument {
    fn new(item: &Item) -> ItemDocument {
        let Item { name, value, domain, role, sample } = item.clone();
        // TIFF counts bands in 16 bits; an item of a band beyond that is not written.
        let sample = sample.map(|band| u32::try_from(band).unwrap_or(u32::MAX));
        ItemDocument { name, value, domain, role, sample }
    }

    fn into_item(self) -> Item {
        let ItemDocument { name, value, domain, role, sample } = self;
        Item { name, value, domain, role, sample: sample.map(|band| band as usize) }
    }
}

impl BandDocument {
    fn new(band: &BandMetadata) -> BandDocument {
        let statistics = band.statistics.map(|known| StatisticsDocument {
            minimum: known.minimum.map(Exact),
            maximum: known.maximum.map(Exact),
            mean: known.mean.map(Exact),
            std_dev: known.std_dev.map(Exact),
            valid_percent: known.valid_percent.map(Exact),
            approximate: known.approximate,
        });
        BandDocument {
            description: band.description.clone(),
            units: band.units.clone(),
            scale: band.scale.map(Exact),
            offset: band.offset.map(Exact),
            statistics,
            color: band.color.to_owned(),
            categories: band.categories.clone(),
        }
    }

    fn into_band(self) -> BandMetadata {
        let value = |value: Option<Exact>| value.map(|value| value.0);
        let statistics = self.statistics.map(|known| Statistics {
            minimum: value(known.minimum),
            maximum: value(known.maximum),
            mean: value(known.mean),
            std_dev: value(known.std_dev),
            valid_percent: value(known.valid_percent),
            approximate: known.approximate,
        });
        BandMetadata {
            description: self.description,
            units: self.units,
            scale: value(self.scale),
            offset: value(self.offset),
            statistics,
            // No colour is not the same as an undefined one.
            color: if self.color.is_empty() { "" } else { band_color::from_name(&self.color) },
            categories: self.categories,
        }
    }
}
