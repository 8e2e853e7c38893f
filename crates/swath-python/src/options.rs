//! Turns the dictionary `Options` into the engine's `WriteOptions`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use swath::dataset::{BandMetadata, ImageMetadata};
use swath::tiff::SampleFormat;
use swath::tiff::geo::{Gcp, GeoKeys, GeoTransform, KeyValue, RasterType};
use swath::tiff::geodata_xform::Resolution;
use swath::tiff::nodata::NoData;
use swath::tiff::palette::Palette;
use swath::tiff::{FieldType, Photometric, Planar, Tag, Value};
use swath::write::{BigTiff, BlockSize, FileLayout, Overviews, PredictorChoice, Resampling, Statistics};
use swath::{Compress, DType, Predictor, WriteOptions};
use swath_codec::CodecOptions;

use crate::errors::crs_to_python;
use crate::metadata::{Entry, item_of};

/// The keys of `Options` in `_swath.pyi`.
const OPTIONS: [&str; 32] = [
    "cog",
    "tile",
    "strip_rows",
    "planar",
    "compression",
    "level",
    "quality",
    "max_z_error",
    "predictor",
    "overviews",
    "resampling",
    "big_tiff",
    "statistics",
    "measure",
    "skip_empty",
    "nan_to_nodata",
    "nodata",
    "photometric",
    "extra_samples",
    "transform",
    "raster_type",
    "gcps",
    "epsg",
    "wkt",
    "geo_keys",
    "colormap",
    "metadata",
    "metadata_xml",
    "band_info",
    "texts",
    "resolution",
    "extra_tags",
];

/// The keys of `BandInfo` in `_swath.pyi`.
const BAND_INFO: [&str; 6] = ["description", "units", "scale", "offset", "color", "categories"];

/// The options of a dictionary, for samples of this type.
///
/// # Errors
/// A TypeError that names the key of an unknown option or of a value of the wrong type, a ValueError for other values.
pub(crate) fn options(dict: &Bound<'_, PyDict>, dtype: DType) -> PyResult<WriteOptions> {
    check_keys(dict, &OPTIONS, "option")?;
    let codec: String = get(dict, "compression")?.unwrap_or_else(|| "zstd".into());
    let compress = Compress::with_options(&codec, codec_options(dict)?)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut options = WriteOptions::new()
        .blocks(blocks(dict)?)
        .compression(compress)
        .predictor(predictor(dict)?)
        .overviews(match item(dict, "overviews")? {
            None => Overviews::None,
            Some(value) => match value.extract::<Vec<u32>>() {
                Ok(factors) => Overviews::Factors(factors),
                Err(_) => one_of(dict, "overviews", ["auto"]).map(|_| Overviews::Auto)?,
            },
        })
        .big_tiff(match get(dict, "big_tiff")? {
            None => BigTiff::Auto,
            Some(true) => BigTiff::Yes,
            Some(false) => BigTiff::No,
        })
        .statistics(match (get(dict, "statistics")?.unwrap_or(false), get(dict, "measure")?.unwrap_or(false)) {
            (true, _) => Statistics::Embed,
            (false, true) => Statistics::Report,
            (false, false) => Statistics::Off,
        })
        .skip_empty(get(dict, "skip_empty")?.unwrap_or(false))
        .nan_to_nodata(get(dict, "nan_to_nodata")?.unwrap_or(false));
    if get(dict, "cog")?.unwrap_or(false) {
        options = options.layout(FileLayout::Cog);
    }
    if one_of(dict, "planar", ["chunky", "separate"])? == "separate" {
        options = options.planar(Planar::Separate);
    }
    if let Some(name) = get::<String>(dict, "resampling")? {
        let method = Resampling::from_name(&name);
        let unknown = || PyValueError::new_err(format!("there is no resampling method '{name}'"));
        options = options.resampling(method.ok_or_else(unknown)?);
    }
    if let Some(photometric) = get(dict, "photometric")? {
        options = options.photometric(Photometric(photometric));
    }
    if let Some(extra_samples) = get::<Vec<u16>>(dict, "extra_samples")? {
        options = options.extra_samples(extra_samples);
    }
    for (tag, value) in extra_tags(dict)? {
        options = options.extra_tag(tag, value);
    }
    let mut metadata = metadata(dict)?;
    if let Some(colors) = get::<Vec<u16>>(dict, "colormap")? {
        let palette = Palette::from_color_map(&colors, dtype.size() as u32 * 8);
        metadata.palette = Some(palette.map_err(|error| PyValueError::new_err(error.to_string()))?);
        options = options.extra_tag(Tag::COLOR_MAP, Value::Short(colors));
    }
    if let Some((text, nodata)) = nodata(dict, dtype)? {
        metadata.nodata = nodata;
        options = options.extra_tag(Tag::GDAL_NODATA, Value::Text(text));
    }
    Ok(options.metadata(metadata))
}

fn blocks(dict: &Bound<'_, PyDict>) -> PyResult<BlockSize> {
    let tile: u32 = get(dict, "tile")?.unwrap_or(256);
    Ok(match tile {
        0 => BlockSize::Strips { rows: get(dict, "strip_rows")?.unwrap_or(256) },
        side => BlockSize::Tiles { height: side, width: side },
    })
}

fn codec_options(dict: &Bound<'_, PyDict>) -> PyResult<CodecOptions> {
    Ok(CodecOptions {
        compression_level: get(dict, "level")?,
        quality: get(dict, "quality")?,
        max_z_error: get(dict, "max_z_error")?,
        ..CodecOptions::default()
    })
}

fn predictor(dict: &Bound<'_, PyDict>) -> PyResult<PredictorChoice> {
    let predictor: u16 = get(dict, "predictor")?.unwrap_or(1);
    match Predictor::from_tag(predictor) {
        Some(predictor) => Ok(PredictorChoice::Always(predictor)),
        None if predictor == 0 => Ok(PredictorChoice::Auto),
        None => Err(PyValueError::new_err(format!("there is no predictor {predictor}"))),
    }
}

/// Refuses a key that no option has: it would otherwise have no effect.
fn check_keys(dict: &Bound<'_, PyDict>, known: &[&str], what: &str) -> PyResult<()> {
    for key in dict.keys() {
        if !key.extract::<String>().is_ok_and(|key| known.contains(&key.as_str())) {
            return Err(PyTypeError::new_err(format!("unknown {what} {}", key.repr()?)));
        }
    }
    Ok(())
}

/// The value of a key; `None` where the key is missing or its value is None.
fn item<'py>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(dict.get_item(name)?.filter(|value| !value.is_none()))
}

/// A text that must be one of these; the first of them where the key is missing.
fn one_of<const N: usize>(dict: &Bound<'_, PyDict>, name: &str, allowed: [&'static str; N]) -> PyResult<&'static str> {
    let Some(given) = get::<String>(dict, name)? else { return Ok(allowed[0]) };
    let found = allowed.into_iter().find(|allowed| *allowed == given);
    found.ok_or_else(|| PyValueError::new_err(format!("option {name} must be one of {allowed:?}, not {given:?}")))
}

fn get<'py, T: for<'a> FromPyObject<'a, 'py>>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
    let Some(value) = item(dict, name)? else { return Ok(None) };
    let extracted: Result<T, PyErr> = value.extract().map_err(Into::into);
    extracted.map(Some).map_err(|error| PyTypeError::new_err(format!("option {name}: {error}")))
}

/// The text of the nodata value, and the value if samples can have it.
fn nodata(dict: &Bound<'_, PyDict>, dtype: DType) -> PyResult<Option<(String, Option<NoData>)>> {
    let Some(value) = item(dict, "nodata")? else { return Ok(None) };
    let text = value.str()?.to_string();
    let (kind, bits) = (dtype.format(), dtype.size() as u32 * 8);
    let nodata = NoData::stated(&text, kind, bits)
        .ok_or_else(|| PyTypeError::new_err(format!("nodata must be a number, not {text}")))?;
    // Readers would take 1e+18 for 1 in these types.
    let digits = text.contains(['e', 'E']) && bits == 64 && matches!(kind, SampleFormat::Uint | SampleFormat::Int);
    let text = if digits { nodata.to_string() } else { text };
    Ok(Some((text, Some(nodata).filter(|nodata| nodata.fits(kind, bits)))))
}

fn metadata(dict: &Bound<'_, PyDict>) -> PyResult<ImageMetadata> {
    let mut metadata = ImageMetadata::default();
    metadata.raster_type = match one_of(dict, "raster_type", ["area", "point"])? {
        "point" => RasterType::Point,
        _ => RasterType::Area,
    };
    if let Some((a, b, c, d, e, f)) = get(dict, "transform")? {
        let raw = GeoTransform([c, a, b, f, d, e]);
        metadata.raw_transform = Some(raw);
        metadata.transform = Some(if metadata.is_point() { raw.from_centres() } else { raw });
    }
    let gcps: Vec<(f64, f64, f64, f64, f64)> = get(dict, "gcps")?.unwrap_or_default();
    let gcp = |(pixel, line, x, y, z)| Gcp { id: String::new(), info: String::new(), pixel, line, x, y, z };
    metadata.gcps = gcps.into_iter().map(gcp).collect();
    metadata.geo_keys = geo_keys(dict, metadata.raster_type)?;
    let items: Vec<Entry> = get(dict, "metadata")?.unwrap_or_default();
    metadata.metadata = items.into_iter().map(item_of).collect();
    metadata.metadata_xml = get(dict, "metadata_xml")?;
    let texts: std::collections::BTreeMap<u16, String> = get(dict, "texts")?.unwrap_or_default();
    metadata.texts = texts.into_iter().map(|(tag, text)| (Tag(tag), text)).collect();
    metadata.resolution = get(dict, "resolution")?.map(|(x, y, unit)| Resolution { x, y, unit });
    if let Some(bands) = item(dict, "band_info")? {
        for band in bands.try_iter()? {
            metadata.bands.push(band_metadata(band?.cast::<PyDict>()?)?);
        }
    }
    Ok(metadata)
}

fn band_metadata(dict: &Bound<'_, PyDict>) -> PyResult<BandMetadata> {
    check_keys(dict, &BAND_INFO, "key of band_info")?;
    let mut band = BandMetadata::default();
    band.description = get(dict, "description")?;
    band.units = get(dict, "units")?;
    band.scale = get(dict, "scale")?;
    band.offset = get(dict, "offset")?;
    band.categories = get(dict, "categories")?.unwrap_or_default();
    if let Some(color) = get::<String>(dict, "color")?.filter(|color| !color.is_empty()) {
        band.color = swath::dataset::band_color_named(&color);
    }
    Ok(band)
}

fn geo_keys(dict: &Bound<'_, PyDict>, raster_type: RasterType) -> PyResult<Option<GeoKeys>> {
    let py = dict.py();
    if let Some(given) = item(dict, "geo_keys")? {
        let mut keys = GeoKeys::without_crs(raster_type);
        for (id, value) in given.cast::<PyDict>()? {
            keys.set(id.extract()?, key_value(&value)?);
        }
        // Heights came with GeoTIFF 1.1, and readers of files that say 1.0 do not look for them.
        if keys.keys.iter().any(|key| (4096..5120).contains(&key.id)) {
            keys.revision = (1, 1);
        }
        return Ok(Some(keys));
    }
    let made = if let Some(code) = get::<u32>(dict, "epsg")? {
        GeoKeys::from_epsg(code, raster_type)
    } else if let Some(text) = get::<String>(dict, "wkt")? {
        GeoKeys::from_text(&text, raster_type)
    } else {
        return Ok(None);
    };
    made.map(Some).map_err(|error| crs_to_python(py, &error))
}

fn key_value(value: &Bound<'_, PyAny>) -> PyResult<KeyValue> {
    if let Ok(short) = value.extract::<u16>() {
        return Ok(KeyValue::Short(short));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(KeyValue::Ascii(text));
    }
    if let Ok(shorts) = value.extract::<Vec<u16>>() {
        return Ok(KeyValue::Shorts(shorts));
    }
    value.extract::<Vec<f64>>().map(KeyValue::Doubles)
}

fn extra_tags(dict: &Bound<'_, PyDict>) -> PyResult<Vec<(Tag, Value)>> {
    let given: Vec<(u16, u16, u64, Bound<'_, PyAny>)> = get(dict, "extra_tags")?.unwrap_or_default();
    given
        .into_iter()
        .map(|(id, kind, _, value)| {
            let wrong = |error: PyErr| PyValueError::new_err(format!("tag {id} of type {kind}: {error}"));
            Ok((Tag(id), tag_value(FieldType(kind), &value).map_err(wrong)?))
        })
        .collect()
}

/// A scalar, or several; text is str, bytes are bytes. The count is that of the values.
fn tag_value(kind: FieldType, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if kind == FieldType::ASCII
        && let Ok(text) = value.extract::<String>()
    {
        return Ok(Value::Text(text));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let bytes = bytes.as_bytes().to_vec();
        let count = bytes.len() as u64 / kind.size().unwrap_or(1).max(1);
        return Ok(Value::Raw(kind, count, bytes));
    }
    fn each<'py, const N: usize, T: for<'a> FromPyObject<'a, 'py>>(
        values: &[Bound<'py, PyAny>],
        write: impl Fn(T) -> [u8; N],
    ) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::with_capacity(values.len() * N);
        for value in values {
            bytes.extend(write(value.extract().map_err(Into::into)?));
        }
        Ok(bytes)
    }
    let fraction = matches!(kind, FieldType::RATIONAL | FieldType::SRATIONAL);
    let sequence = value.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect::<Vec<_>>());
    let sequence = sequence.or_else(|| {
        value.extract::<Vec<Bound<'_, PyAny>>>().ok().filter(|_| !value.is_instance_of::<pyo3::types::PyString>())
    });
    // A pair of numbers is one fraction, a sequence of pairs several.
    let pair = |values: &[Bound<'_, PyAny>]| fraction && values.len() == 2 && values[0].extract::<i64>().is_ok();
    let values = match sequence {
        Some(values) if !pair(&values) => values,
        _ => vec![value.clone()],
    };
    let bytes = match kind {
        FieldType::BYTE | FieldType::UNDEFINED => each(&values, u8::to_le_bytes)?,
        FieldType::SBYTE => each(&values, i8::to_le_bytes)?,
        FieldType::SHORT => each(&values, u16::to_le_bytes)?,
        FieldType::SSHORT => each(&values, i16::to_le_bytes)?,
        FieldType::LONG => each(&values, u32::to_le_bytes)?,
        FieldType::SLONG => each(&values, i32::to_le_bytes)?,
        FieldType::LONG8 => each(&values, u64::to_le_bytes)?,
        FieldType::SLONG8 => each(&values, i64::to_le_bytes)?,
        FieldType::FLOAT => each(&values, f32::to_le_bytes)?,
        FieldType::DOUBLE => each(&values, f64::to_le_bytes)?,
        FieldType::RATIONAL | FieldType::SRATIONAL => rationals(kind, &values)?,
        other => return Err(PyTypeError::new_err(format!("field type {} cannot be written", other.0))),
    };
    Ok(Value::Raw(kind, values.len() as u64, bytes))
}

fn rationals(kind: FieldType, values: &[Bound<'_, PyAny>]) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    for value in values {
        if let Ok((numerator, denominator)) = value.extract::<(i64, i64)>() {
            let part = |value: i64| {
                let fits = if kind == FieldType::RATIONAL {
                    u32::try_from(value).is_ok()
                } else {
                    i32::try_from(value).is_ok()
                };
                if fits {
                    Ok(value as u32)
                } else {
                    Err(PyValueError::new_err(format!("{value} does not fit a fraction")))
                }
            };
            bytes.extend(part(numerator)?.to_le_bytes());
            bytes.extend(part(denominator)?.to_le_bytes());
            continue;
        }
        let number: f64 = value.extract()?;
        let Value::Rational(parts) = Value::rational(number.abs()) else { continue };
        for (numerator, denominator) in parts {
            let signed = if number < 0.0 && kind == FieldType::SRATIONAL {
                (numerator as i32).wrapping_neg() as u32
            } else {
                numerator
            };
            bytes.extend(signed.to_le_bytes());
            bytes.extend(denominator.to_le_bytes());
        }
    }
    Ok(bytes)
}
