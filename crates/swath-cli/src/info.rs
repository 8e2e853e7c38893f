//! `swath info`: everything about a file except its pixels.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use swath::tiff::gdal_metadata::Item;
use swath::tiff::geo::KeyValue;
use swath::tiff::nodata::NoData;
use swath::tiff::world_file::GeorefSource;
use swath::tiff::{ByteOrder, FieldType, Fields, ImageLayout, Planar, ReadAt};
use swath::{Dataset, Image};

use crate::failure::Failure;
use crate::flags::{OpenFlags, number};
use crate::output::{one_line, warn_of_chain};

/// The most values of a tag that `--tags` prints.
const SHOWN_VALUES: u64 = 16;

/// Show the size, type, georeferencing, overviews and metadata of a file
///
/// Reads only headers, so the size of the file does not matter. docs/info.md describes each field of the JSON, which is stable.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath info dem.tif
  swath info dem.tif --json
  swath info odd.tif --tags")]
pub(crate) struct Info {
    /// The file to describe.
    file: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Also list every directory (IFD) with its tags.
    #[arg(long)]
    tags: bool,

    /// Image (page) of the file, counted from 0.
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value_t = 0)]
    image: usize,

    #[command(flatten)]
    open: OpenFlags,
}

impl Info {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let dataset = self.open.open(&self.file)?;
        let image = dataset.image(self.image)?;
        let mut info = describe(&dataset, self.image, &image);
        if self.tags {
            info.insert("ifds".into(), tags(&dataset));
        }
        if self.json {
            println!("{:#}", Value::Object(info));
        } else {
            print!("{}", Human(&info));
        }
        warn_of_chain(&dataset);
        Ok(())
    }
}

/// The fields of the JSON, in the order in which they are printed.
fn describe(dataset: &Dataset, number: usize, image: &Image) -> Map<String, Value> {
    let (about, layout) = (image.metadata(), image.layout());
    let header = dataset.header();
    let grid = layout.grid;
    let mut info = Map::new();
    let mut put = |name: &str, value: Value| {
        info.insert(name.into(), value);
    };
    put("file", json!(dataset.name()));
    put("size", json!(dataset.source().size()));
    put("bigtiff", json!(header.big));
    put("byte_order", json!(if header.order == ByteOrder::Little { "little" } else { "big" }));
    put("images", json!(dataset.image_count()));
    put("image", json!(number));
    put("width", json!(image.width()));
    put("height", json!(image.height()));
    put("bands", json!(image.bands()));
    put("dtype", json!(image.dtype().name()));
    put("bits", json!(layout.bits));
    put("compression", json!(layout.compression.name()));
    put("compression_code", json!(layout.compression.0));
    put("predictor", json!(layout.predictor));
    // A single band is a plane, whatever the PlanarConfiguration tag says.
    let interleaved = layout.planar == Planar::Chunky && layout.samples > 1;
    put("interleave", json!(if interleaved { "pixel" } else { "band" }));
    put("photometric", json!(layout.photometric.name()));
    put("orientation", json!(layout.orientation));
    put("tiled", json!(grid.tiled));
    put("block", json!([grid.block_height, grid.block_width]));
    put("blocks", json!(grid.count()));
    put("levels", image.levels().map(level).collect());
    put("mask", json!(image.mask_origin().name()));
    put("alpha_band", json!(about.alpha_band().map(|band| band + 1)));
    put("nodata", about.nodata.map_or(Value::Null, nodata));
    put("transform", json!(about.transform.map(|transform| transform.0)));
    put("rotated", json!(about.transform.is_some_and(|transform| transform.is_rotated())));
    put("transform_source", json!(about.georef_source.map(source_name)));
    put("raster_type", json!(if about.is_point() { "point" } else { "area" }));
    let bounds = about.transform.map(|transform| transform.bounds(image.width(), image.height()));
    put("bounds", json!(bounds.map(|(x0, y0, x1, y1)| [x0, y0, x1, y1])));
    put("epsg", json!(about.epsg()));
    put("crs", crs(image));
    put("gcps", about.gcps.iter().map(|gcp| json!([gcp.pixel, gcp.line, gcp.x, gcp.y, gcp.z])).collect());
    put("gcp_epsg", json!(about.gcp_epsg()));
    put("rpc", json!(about.rpc.is_some()));
    put("band_info", bands(image));
    put("metadata", by_domain(about.metadata.iter().filter(|item| item.sample.is_none())));
    put("texts", texts(image));
    put("resolution", json!(about.resolution.map(|resolution| json!([resolution.x, resolution.y, resolution.unit]))));
    put("palette", json!(about.palette.as_ref().map(|palette| &palette.entries)));
    put("structural_metadata", json!(dataset.structural_metadata().map(structure)));
    put("warnings", json!(about.warnings));
    info
}

fn level(layout: &ImageLayout) -> Value {
    let grid = layout.grid;
    json!({
        "width": grid.width,
        "height": grid.height,
        "block": [grid.block_height, grid.block_width],
        "blocks": grid.count(),
        "compression": layout.compression.name(),
    })
}

fn source_name(source: GeorefSource) -> &'static str {
    match source {
        GeorefSource::Pam => "aux.xml",
        GeorefSource::Internal => "tags",
        GeorefSource::TabFile => "tab",
        GeorefSource::WorldFile => "world file",
    }
}

/// A nodata value as a JSON number, exact for 64-bit integers, or as the text `"nan"`, `"inf"` or `"-inf"`.
fn nodata(value: NoData) -> Value {
    match value {
        NoData::Uint(value) => json!(value),
        NoData::Int(value) => json!(value),
        NoData::Float(value) if value.is_finite() => json!(value),
        NoData::Float(value) if value.is_nan() => json!("nan"),
        NoData::Float(value) => json!(if value > 0.0 { "inf" } else { "-inf" }),
    }
}

fn crs(image: &Image) -> Value {
    let about = image.metadata();
    if about.crs().is_none() && about.crs_text.is_none() {
        return Value::Null;
    }
    let keys = about.geo_keys.iter().flat_map(|keys| &keys.keys).map(|key| {
        let name = key.name().map_or_else(|| key.id.to_string(), str::to_owned);
        let value = match &key.value {
            KeyValue::Short(value) => json!(value),
            KeyValue::Shorts(values) => json!(values),
            KeyValue::Doubles(values) => json!(values),
            KeyValue::Ascii(text) => json!(text),
        };
        json!([name, value])
    });
    json!({
        "epsg": about.epsg().or(about.gcp_epsg()),
        "name": about.crs_name(),
        "kind": about.crs().map(|crs| format!("{:?}", crs.kind).to_lowercase()),
        "wkt": about.wkt(),
        "geo_keys": keys.collect::<Vec<_>>(),
    })
}

fn bands(image: &Image) -> Value {
    let about = image.metadata();
    let mut items: Vec<Vec<&Item>> = vec![Vec::new(); about.bands.len()];
    for item in &about.metadata {
        if let Some(band) = item.sample.and_then(|band| items.get_mut(band)) {
            band.push(item);
        }
    }
    let one = |(i, band): (usize, &swath::dataset::BandMetadata)| {
        json!({
            "band": i + 1,
            "description": band.description,
            "units": band.units,
            "scale": band.scale,
            "offset": band.offset,
            "color": band.color,
            "statistics": band.statistics.as_ref().map(|statistics| json!({
                "minimum": statistics.minimum,
                "maximum": statistics.maximum,
                "mean": statistics.mean,
                "std_dev": statistics.std_dev,
                "valid_percent": statistics.valid_percent,
                "approximate": statistics.approximate,
            })),
            "categories": band.categories,
            "metadata": by_domain(items[i].iter().copied()),
        })
    };
    about.bands.iter().enumerate().map(one).collect()
}

/// The texts of ImageDescription, Software, DateTime and similar tags, by tag name.
fn texts(image: &Image) -> Value {
    let texts = image.metadata().texts.iter();
    Value::Object(texts.map(|(tag, text)| (tag.name().unwrap_or_default().to_owned(), json!(text))).collect())
}

/// Groups metadata items by domain; `""` is the default domain.
fn by_domain<'a>(items: impl Iterator<Item = &'a Item>) -> Value {
    let mut domains = Map::new();
    // Items with a role (scale, offset, description ...) have their own fields.
    for item in items.filter(|item| item.role.is_none()) {
        let domain = domains.entry(item.domain.clone().unwrap_or_default()).or_insert_with(|| json!({}));
        domain[&item.name] = json!(item.value);
    }
    Value::Object(domains)
}

fn structure(text: String) -> Value {
    let pairs = text.lines().filter_map(|line| line.trim().split_once('='));
    Value::Object(pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect())
}

/// Every directory with its tags. Of a tag with many values, only their number is shown.
fn tags(dataset: &Dataset) -> Value {
    let source = dataset.source();
    let mut ifds = Vec::new();
    // Entries can share one large value.
    let limits = dataset.limits().metered();
    for link in &dataset.chain().links {
        for (sub, ifd) in std::iter::once((false, &link.ifd)).chain(link.subs.iter().map(|sub| (true, sub))) {
            let fields = ifd.fields(source.as_ref(), &limits);
            let entry = |entry: &swath::tiff::Entry| {
                json!({
                    "tag": entry.tag.0,
                    "name": entry.tag.name(),
                    "type": entry.field_type.to_string(),
                    "count": entry.count,
                    "value": value(&fields, entry),
                })
            };
            ifds.push(json!({
                "offset": ifd.offset,
                "sub_ifd": sub,
                "tags": ifd.entries.iter().map(entry).collect::<Vec<_>>(),
            }));
        }
    }
    Value::Array(ifds)
}

fn value<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, entry: &swath::tiff::Entry) -> Value {
    if entry.field_type == FieldType::ASCII {
        return fields.text(entry.tag).ok().flatten().map_or(Value::Null, Value::String);
    }
    if entry.count > SHOWN_VALUES {
        return json!(format!("{} values", entry.count));
    }
    let values = match entry.field_type {
        FieldType::FLOAT | FieldType::DOUBLE | FieldType::RATIONAL | FieldType::SRATIONAL => {
            fields.floats(entry.tag).ok().flatten().map(|values| json!(values))
        }
        FieldType::SBYTE | FieldType::SSHORT | FieldType::SLONG | FieldType::SLONG8 => {
            fields.ints(entry.tag).ok().flatten().map(|values| json!(values))
        }
        _ => fields.uints(entry.tag).ok().flatten().map(|values| json!(values)),
    };
    match values {
        Some(Value::Array(mut values)) if values.len() == 1 => values.remove(0),
        Some(values) => values,
        None => Value::Null,
    }
}

/// The fields as text for people: one line per field, without empty fields.
struct Human<'a>(&'a Map<String, Value>);

impl fmt::Display for Human<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.0.iter().filter(|(_, value)| !is_empty(value)) {
            let label = name.replace('_', " ");
            match (name.as_str(), value) {
                ("palette", Value::Array(entries)) => writeln!(f, "{label}: {} colours", entries.len())?,
                ("gcps", Value::Array(points)) if points.len() > 4 => writeln!(f, "{label}: {} points", points.len())?,
                (_, Value::Array(items)) if items.iter().any(Value::is_object) => {
                    writeln!(f, "{label}:")?;
                    for item in items {
                        writeln!(f, "  {}", Inline(item))?;
                    }
                }
                (_, Value::Object(items)) => {
                    writeln!(f, "{label}:")?;
                    for (name, value) in items.iter().filter(|(_, value)| !value.is_null()) {
                        let name = if name.is_empty() { "items" } else { name };
                        writeln!(f, "  {}: {}", one_line(name), Inline(value))?;
                    }
                }
                (_, value) => writeln!(f, "{label}: {}", Inline(value))?,
            }
        }
        Ok(())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    }
}

/// A value in one line.
struct Inline<'a>(&'a Value);

impl fmt::Display for Inline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => one_line(text).fmt(f),
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if n > 0 { ", " } else { "" }, Inline(item))?;
                }
                Ok(())
            }
            Value::Object(items) => {
                for (n, (name, value)) in items.iter().filter(|(_, value)| !is_empty(value)).enumerate() {
                    write!(f, "{}{} {}", if n > 0 { ", " } else { "" }, one_line(name), Inline(value))?;
                }
                Ok(())
            }
            other => other.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swath::tiff::{Builder, Tag};

    #[test]
    fn every_field_of_the_json_is_documented() {
        let mut builder = Builder::new(ByteOrder::Little, false);
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, swath::tiff::Value::Short(vec![1])),
            (Tag::IMAGE_LENGTH, swath::tiff::Value::Short(vec![1])),
            (Tag::STRIP_OFFSETS, swath::tiff::Value::Short(vec![8])),
        ]);
        let dataset = Dataset::from_bytes(builder.finish()).unwrap();
        let info = describe(&dataset, 0, &dataset.image(0).unwrap());
        let documentation = include_str!("../../../docs/info.md");
        let fields = info.keys().chain(info["band_info"][0].as_object().unwrap().keys());
        for field in fields.chain(info["levels"][0].as_object().unwrap().keys()) {
            assert!(documentation.contains(&format!("`{field}`")), "docs/info.md does not describe {field}");
        }
    }
}
