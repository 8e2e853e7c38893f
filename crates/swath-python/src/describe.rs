//! The description of a file, as a dictionary.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use pyo3::{IntoPyObjectExt, intern};
use swath::dataset::ImageMetadata;
use swath::tiff::gdal_metadata::GdalMetadata;
use swath::tiff::geo::{GeoKeys, GeoTransform, KeyValue};
use swath::tiff::nodata::NoData;
use swath::tiff::pam::Pam;
use swath::tiff::world_file::GeorefSource;
use swath::tiff::{ByteOrder, Entry, FieldType, Planar, SampleFormat, Tag, Value};

use crate::file::File;
use crate::nodata;
use crate::pam::names_and_colors;

/// The dictionary `Description` of `_swath.pyi`.
pub(crate) fn describe<'py>(py: Python<'py>, file: &File) -> PyResult<Bound<'py, PyDict>> {
    let (dataset, image) = (file.dataset(), file.image());
    let (about, layout) = (image.metadata(), image.layout());
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "name"), dataset.name())?;
    dict.set_item(intern!(py, "file_bytes"), dataset.source().size())?;
    dict.set_item(intern!(py, "big_tiff"), dataset.header().big)?;
    dict.set_item(
        intern!(py, "byte_order"),
        if dataset.header().order == ByteOrder::Little { "little" } else { "big" },
    )?;
    dict.set_item(intern!(py, "images"), dataset.image_count())?;
    dict.set_item(intern!(py, "width"), image.width())?;
    dict.set_item(intern!(py, "height"), image.height())?;
    dict.set_item(intern!(py, "bands"), image.bands())?;
    dict.set_item(intern!(py, "dtype"), file.dtype().name())?;
    dict.set_item(intern!(py, "bits"), layout.bits)?;
    dict.set_item(intern!(py, "sample_format"), layout.sample_format)?;
    dict.set_item(intern!(py, "compression"), layout.compression.name())?;
    dict.set_item(intern!(py, "compression_code"), layout.compression.0)?;
    dict.set_item(intern!(py, "predictor"), layout.predictor)?;
    dict.set_item(intern!(py, "planar"), if layout.planar == Planar::Chunky { "chunky" } else { "separate" })?;
    dict.set_item(intern!(py, "photometric"), layout.photometric.0)?;
    dict.set_item(intern!(py, "orientation"), layout.orientation)?;
    dict.set_item(intern!(py, "extra_samples"), &layout.extra_samples)?;
    dict.set_item(intern!(py, "tiled"), layout.grid.tiled)?;
    dict.set_item(intern!(py, "block"), (layout.grid.block_height, layout.grid.block_width))?;
    dict.set_item(intern!(py, "levels"), file.levels())?;

    dict.set_item(intern!(py, "transform"), about.transform.map(affine))?;
    dict.set_item(intern!(py, "raw_transform"), about.raw_transform.map(affine))?;
    dict.set_item(intern!(py, "transform_source"), about.georef_source.map(source_name))?;
    dict.set_item(intern!(py, "raster_type"), if about.is_point() { "point" } else { "area" })?;
    let gcps: Vec<_> = about.gcps.iter().map(|gcp| (gcp.pixel, gcp.line, gcp.x, gcp.y, gcp.z)).collect();
    dict.set_item(intern!(py, "gcps"), gcps)?;
    let crs = CrsCodes::of(about);
    dict.set_item(intern!(py, "epsg"), crs.epsg)?;
    dict.set_item(intern!(py, "horizontal_epsg"), crs.horizontal)?;
    dict.set_item(intern!(py, "wkt"), crs.wkt.as_deref())?;
    dict.set_item(intern!(py, "crs_from_pam"), about.crs_text.is_some())?;
    dict.set_item(intern!(py, "geo_keys"), geo_keys(py, about.geo_keys.as_ref())?)?;
    dict.set_item(intern!(py, "nodata"), about.nodata.map(|nodata| nodata::to_python(py, nodata)).transpose()?)?;

    let items: Vec<_> =
        about.metadata.iter().map(|item| (&item.name, &item.value, item.sample, &item.domain, &item.role)).collect();
    dict.set_item(intern!(py, "metadata"), items)?;
    dict.set_item(intern!(py, "metadata_xml"), about.metadata_xml.as_deref())?;
    let texts = PyDict::new(py);
    for (tag, text) in &about.texts {
        texts.set_item(tag.0, text)?;
    }
    dict.set_item(intern!(py, "texts"), texts)?;
    dict.set_item(
        intern!(py, "resolution"),
        about.resolution.map(|resolution| (resolution.x, resolution.y, resolution.unit)),
    )?;
    let bands = PyList::empty(py);
    for band in &about.bands {
        let entry = PyDict::new(py);
        entry.set_item(intern!(py, "description"), band.description.as_deref())?;
        entry.set_item(intern!(py, "units"), band.units.as_deref())?;
        entry.set_item(intern!(py, "scale"), band.scale)?;
        entry.set_item(intern!(py, "offset"), band.offset)?;
        entry.set_item(intern!(py, "color"), band.color)?;
        entry.set_item(intern!(py, "categories"), &band.categories)?;
        bands.append(entry)?;
    }
    dict.set_item(intern!(py, "band_info"), bands)?;
    let classes = dataset.pam().and_then(Pam::classes).map(names_and_colors);
    let (names, colors) = classes.unzip();
    dict.set_item(intern!(py, "category_names"), names)?;
    dict.set_item(intern!(py, "category_colors"), colors.flatten())?;
    tags(&dict, file)?;
    dict.set_item(intern!(py, "mask"), image.mask_origin().name())?;
    dict.set_item(intern!(py, "warnings"), &about.warnings)?;
    dict.set_item(intern!(py, "broken_chain"), dataset.broken_chain().map(|why| format!("{}: {why}", dataset.name())))?;
    Ok(dict)
}

/// The codes and the text of a coordinate reference system.
struct CrsCodes {
    epsg: Option<u32>,
    horizontal: Option<u16>,
    wkt: Option<String>,
}

/// The system of the last file whose GeoKeys define it. Most files of a folder have the same keys, and to find the code
/// and to write the text takes as long as to read the header.
static LAST_CRS: Mutex<Option<(GeoKeys, Arc<CrsCodes>)>> = Mutex::new(None);

impl CrsCodes {
    fn of(about: &ImageMetadata) -> Arc<CrsCodes> {
        // A sidecar can define the system too. A busy lock counts as another system: it may have been held at a fork.
        let keys = about.geo_keys.as_ref().filter(|_| about.crs_text.is_none());
        let (Some(keys), Ok(mut last)) = (keys, LAST_CRS.try_lock()) else { return Arc::new(CrsCodes::found(about)) };
        match &*last {
            Some((same, crs)) if same == keys => Arc::clone(crs),
            _ => {
                let crs = Arc::new(CrsCodes::found(about));
                *last = Some((keys.clone(), Arc::clone(&crs)));
                crs
            }
        }
    }

    fn found(about: &ImageMetadata) -> CrsCodes {
        CrsCodes {
            epsg: about.epsg().or(about.gcp_epsg()),
            horizontal: about.crs().and_then(|crs| crs.horizontal),
            wkt: about.wkt(),
        }
    }
}

/// In rasterio's order.
pub(crate) fn affine(GeoTransform([c, a, b, f, d, e]): GeoTransform) -> (f64, f64, f64, f64, f64, f64) {
    (a, b, c, d, e, f)
}

fn source_name(source: GeorefSource) -> &'static str {
    match source {
        GeorefSource::Pam => "pam",
        GeorefSource::Internal => "tags",
        GeorefSource::TabFile => "tab",
        GeorefSource::WorldFile => "world",
    }
}

/// GeoKeys by their numbers.
pub(crate) fn geo_keys<'py>(py: Python<'py>, keys: Option<&GeoKeys>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for key in keys.iter().flat_map(|keys| &keys.keys) {
        match &key.value {
            KeyValue::Short(value) => dict.set_item(key.id, value)?,
            KeyValue::Shorts(values) => dict.set_item(key.id, PyTuple::new(py, values)?)?,
            KeyValue::Doubles(values) => dict.set_item(key.id, PyTuple::new(py, values)?)?,
            KeyValue::Ascii(text) => dict.set_item(key.id, text)?,
        }
    }
    Ok(dict)
}

/// The size of a Python number with its place in a tuple.
const PYTHON_NUMBER_BYTES: u64 = 36;

/// The tags of the full resolution, nodata, the colour map and GDAL_METADATA.
fn tags(dict: &Bound<'_, PyDict>, file: &File) -> PyResult<()> {
    let py = dict.py();
    let (dataset, image) = (file.dataset(), file.image());
    let ifd = image.ifd();
    let limits = dataset.limits().metered();
    let fields = ifd.fields(dataset.source().as_ref(), &limits);
    let list = PyList::empty(py);
    let (mut nodata, mut colors) = (None::<String>, None);
    // The entries are sorted by tag. Of a tag that appears twice the first counts.
    for entry in ifd.entries.chunk_by(|a, b| a.tag == b.tag).filter_map(<[_]>::first) {
        // The positions of blocks may be millions of numbers, and users have no use for them.
        if matches!(entry.tag, Tag::STRIP_OFFSETS | Tag::STRIP_BYTE_COUNTS | Tag::TILE_OFFSETS | Tag::TILE_BYTE_COUNTS)
        {
            continue;
        }
        // A tag that cannot be read is listed in the warnings.
        let Ok(Some(Value::Raw(_, _, bytes))) = fields.value(entry.tag) else { continue };
        // A number takes far more memory in Python than in the file.
        let is_numbers = !matches!(entry.field_type, FieldType::ASCII | FieldType::BYTE | FieldType::UNDEFINED);
        if is_numbers && limits.count_metadata(entry.count.saturating_mul(PYTHON_NUMBER_BYTES)).is_err() {
            continue;
        }
        let Some(value) = tag_value(py, entry, &bytes)? else { continue };
        match entry.tag {
            Tag::GDAL_NODATA => nodata = fields.text(entry.tag).ok().flatten(),
            Tag::COLOR_MAP if entry.field_type == FieldType::SHORT => colors = Some(value.clone()),
            _ => {}
        }
        list.append((entry.tag.0, entry.field_type.0, entry.count, value))?;
    }
    // The tag does not count where a sidecar states another value.
    let (kind, bits) = (image.layout().format(), u32::from(image.layout().bits));
    let known = image.metadata().nodata;
    let text = nodata.filter(|text| NoData::parse(text, kind, bits) == known);
    // GDAL reads whole numbers for 64-bit integers in a way of its own: -1 is the greatest one without a sign.
    let is_wide = bits == 64 && matches!(kind, SampleFormat::Uint | SampleFormat::Int);
    let is_whole = |text: &str| text.trim().trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
    let stated = match &text {
        Some(text) if !(is_wide && is_whole(text)) => NoData::number(text),
        _ => known,
    };
    dict.set_item(intern!(py, "nodata_text"), text)?;
    dict.set_item(intern!(py, "nodata_stated"), stated.map(|nodata| nodata::to_python(py, nodata)).transpose()?)?;
    gdal_metadata(dict, file, fields.bytes(Tag::GDAL_METADATA).ok().flatten())?;
    dict.set_item(intern!(py, "colormap"), colors)?;
    dict.set_item(intern!(py, "tags"), list)
}

/// The text of GDAL_METADATA, with items for what a sidecar or the height system says of bands, and the items of that text.
fn gdal_metadata(dict: &Bound<'_, PyDict>, file: &File, tag: Option<Vec<u8>>) -> PyResult<()> {
    let py = dict.py();
    let xml = file.dataset().limits().xml();
    let parsed = tag.as_deref().map_or_else(|| Ok(GdalMetadata::default()), |tag| GdalMetadata::parse(tag, &xml));
    let text = tag.as_deref().map(text_of);
    let Ok(mut metadata) = parsed else {
        dict.set_item(intern!(py, "gdal_metadata_xml"), text)?;
        return dict.set_item(intern!(py, "gdal_metadata"), py.None());
    };
    let bands = file.image().metadata().bands.iter().map(|band| (band.scale, band.offset, band.units.as_deref()));
    let text = if metadata.state_bands(bands) { Some(metadata.xml) } else { text };
    let items = PyDict::new(py);
    for item in &metadata.items {
        match item.sample {
            None => items.set_item(&item.name, &item.value)?,
            Some(band) => items.set_item((&item.name, band), &item.value)?,
        }
    }
    dict.set_item(intern!(py, "gdal_metadata_xml"), text)?;
    dict.set_item(intern!(py, "gdal_metadata"), items)
}

/// A text without the zeros at its end; what is not UTF-8 is Latin-1.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = std::str::from_utf8(&bytes[..end]).map(str::to_owned);
    text.unwrap_or_else(|_| bytes[..end].iter().map(|byte| char::from(*byte)).collect())
}

/// One value as a scalar, several as a tuple; text is str, bytes are bytes. `None` for an unknown field type.
fn tag_value<'py>(py: Python<'py>, entry: &Entry, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
    }
    fn one_or_more<'py, T: IntoPyObject<'py>>(py: Python<'py>, mut values: Vec<T>) -> PyResult<Bound<'py, PyAny>> {
        if values.len() == 1 {
            return values.remove(0).into_bound_py_any(py);
        }
        Ok(PyTuple::new(py, values)?.into_any())
    }
    let pair =
        |bytes: [u8; 8]| bytes.as_chunks::<4>().0.iter().map(|part| u32::from_le_bytes(*part)).collect::<Vec<_>>();
    Ok(Some(match entry.field_type {
        FieldType::ASCII => text_of(bytes).into_bound_py_any(py)?,
        FieldType::BYTE if entry.count == 1 => bytes[0].into_bound_py_any(py)?,
        FieldType::BYTE | FieldType::UNDEFINED => PyBytes::new(py, bytes).into_any(),
        FieldType::SBYTE => one_or_more(py, each(bytes, i8::from_le_bytes))?,
        FieldType::SHORT => one_or_more(py, each(bytes, u16::from_le_bytes))?,
        FieldType::SSHORT => one_or_more(py, each(bytes, i16::from_le_bytes))?,
        FieldType::LONG | FieldType::IFD => one_or_more(py, each(bytes, u32::from_le_bytes))?,
        FieldType::SLONG => one_or_more(py, each(bytes, i32::from_le_bytes))?,
        FieldType::LONG8 | FieldType::IFD8 => one_or_more(py, each(bytes, u64::from_le_bytes))?,
        FieldType::SLONG8 => one_or_more(py, each(bytes, i64::from_le_bytes))?,
        FieldType::FLOAT => one_or_more(py, each(bytes, f32::from_le_bytes))?,
        FieldType::DOUBLE => one_or_more(py, each(bytes, f64::from_le_bytes))?,
        FieldType::RATIONAL => one_or_more(py, each(bytes, |bytes| (pair(bytes)[0], pair(bytes)[1])))?,
        FieldType::SRATIONAL => one_or_more(py, each(bytes, |bytes| (pair(bytes)[0] as i32, pair(bytes)[1] as i32)))?,
        _ => return Ok(None),
    }))
}
