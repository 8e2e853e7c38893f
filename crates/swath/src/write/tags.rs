//! The tags of the directories of a file: levels, masks and metadata.

use swath_codec::{Compress, Predictor, lerc};
use swath_tiff::gdal_metadata::{self, GdalMetadata, Item, Statistics};
use swath_tiff::geo::{GeoKeys, KeyValue, RasterType, georef_tags};
use swath_tiff::xml::XmlLimits;
use swath_tiff::{BlockGrid, FieldType, Photometric, Planar, Tag, Value};

use crate::dataset::metadata::{ImageMetadata, RASTER_TYPE_KEY};
use crate::write::error::PlanError;
use crate::write::plan::WritePlan;
use crate::write::statistics::BandStatistics;

/// NewSubfileType of an overview, and of a mask.
const OVERVIEW: u32 = 1;
const MASK: u32 = 4;

/// Returns the directories in file order: the level of each, and whether it is a mask.
pub(crate) fn order(plan: &WritePlan) -> Vec<(usize, bool)> {
    let levels = plan.levels.len();
    let overviews = |mask| (1..levels).map(move |level| (level, mask));
    let masked = plan.has_mask();
    let first_mask = masked.then_some((0, true));
    let mask_overviews = overviews(true).filter(|_| masked);
    [(0, false)].into_iter().chain(first_mask).chain(overviews(false)).chain(mask_overviews).collect()
}

/// Returns the tags of a level without its block tables. `stored` holds the tags of the codec, if the blocks
/// are copied.
pub(crate) fn level_tags(
    plan: &WritePlan,
    level: usize,
    stored: Option<&[(Tag, Value)]>,
    statistics: &[BandStatistics],
) -> std::result::Result<Vec<(Tag, Value)>, PlanError> {
    let mut tags = block_tags(&plan.levels[level].grid, if level > 0 { OVERVIEW } else { 0 });
    let bands = plan.bands;
    let format = plan.dtype.format().to_tag();
    let planar = if plan.options.planar == Planar::Separate && bands > 1 { 2 } else { 1 };
    tags.extend([
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![plan.bits; bands])),
        (Tag::COMPRESSION, Value::Short(vec![plan.encoder.compress.tag()])),
        (Tag::PHOTOMETRIC, Value::Short(vec![plan.photometric.0])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![bands as u16])),
        (Tag::PLANAR_CONFIGURATION, Value::Short(vec![planar])),
        (Tag::SAMPLE_FORMAT, Value::Short(vec![format; bands])),
    ]);
    if plan.encoder.predictor != Predictor::None {
        tags.push((Tag::PREDICTOR, Value::Short(vec![plan.encoder.predictor.tag()])));
    }
    if !plan.extra_samples.is_empty() {
        tags.push((Tag::EXTRA_SAMPLES, Value::Short(plan.extra_samples.clone())));
    }
    match stored {
        Some(stored) => tags.extend_from_slice(stored),
        None => tags.extend(codec_tags(plan)?),
    }
    let about = &plan.options.metadata;
    if let (Photometric::PALETTE, Some(palette)) = (plan.photometric, &about.palette) {
        // A ColorMap of 16 bits is more precise than the palette, and is written unchanged.
        let stored = plan.options.extra_tags.iter().find(|(tag, _)| *tag == Tag::COLOR_MAP).map(|(_, map)| map.clone());
        let map = stored.map_or_else(|| palette.to_color_map(u32::from(plan.bits)).map(Value::Short), Ok)?;
        tags.push((Tag::COLOR_MAP, map));
    }
    if let Some(nodata) = about.nodata {
        // The same number can be written as different texts: the text of the source is kept.
        let stored =
            plan.options.extra_tags.iter().find(|(tag, _)| *tag == Tag::GDAL_NODATA).map(|(_, text)| text.clone());
        tags.push((Tag::GDAL_NODATA, stored.unwrap_or_else(|| Value::Text(nodata.to_string()))));
    }
    if level == 0 {
        tags.extend(about_tags(plan, about, statistics)?);
        let ours: Vec<Tag> = tags.iter().map(|(tag, _)| *tag).collect();
        tags.extend(plan.options.extra_tags.iter().filter(|(tag, _)| !ours.contains(tag)).cloned());
    }
    Ok(tags)
}

/// The tags that a decoder of the blocks needs.
fn codec_tags(plan: &WritePlan) -> std::result::Result<Vec<(Tag, Value)>, PlanError> {
    let compress = &plan.encoder.compress;
    let samples = plan.block_shape(0, 1).samples;
    let mut tags = Vec::new();
    if let Compress::Lerc { wrapped, .. } = *compress {
        let params = lerc::Params { version: lerc::VERSION, compression: wrapped };
        tags.push((Tag::LERC_PARAMETERS, Value::Long(params.to_tag().to_vec())));
    }
    if let Some(tables) = plan.jpeg_tables()? {
        tags.push((Tag::JPEG_TABLES, Value::Bytes(tables)));
    }
    if let Some((across, down)) = compress.chroma(samples) {
        let full_range = [0, 255, 128, 255, 128, 255].map(|value| (value, 1));
        tags.push((Tag::YCBCR_SUBSAMPLING, Value::Short(vec![across.into(), down.into()])));
        tags.push((Tag::REFERENCE_BLACK_WHITE, Value::Rational(full_range.to_vec())));
    }
    Ok(tags)
}

/// Returns the tags of a mask without its block tables.
pub(crate) fn mask_tags(plan: &WritePlan, level: usize) -> Vec<(Tag, Value)> {
    let kind = MASK | if level > 0 { OVERVIEW } else { 0 };
    let mut tags = block_tags(&plan.levels[level].mask_grid(), kind);
    tags.extend([
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![1])),
        (Tag::COMPRESSION, Value::Short(vec![plan.mask_encoder.compress.tag()])),
        (Tag::PHOTOMETRIC, Value::Short(vec![Photometric::MASK.0])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![1])),
        (Tag::PLANAR_CONFIGURATION, Value::Short(vec![1])),
        (Tag::SAMPLE_FORMAT, Value::Short(vec![1])),
    ]);
    tags
}

/// Returns the tags for the size of the image and its blocks.
fn block_tags(grid: &BlockGrid, kind: u32) -> Vec<(Tag, Value)> {
    // Many readers expect 16-bit values if the size fits.
    let size = |value: u64| match u16::try_from(value) {
        Ok(short) => Value::Short(vec![short]),
        Err(_) => Value::Long(vec![value as u32]),
    };
    let mut tags = vec![(Tag::IMAGE_WIDTH, size(grid.width)), (Tag::IMAGE_LENGTH, size(grid.height))];
    if kind > 0 {
        tags.push((Tag::NEW_SUBFILE_TYPE, Value::Long(vec![kind])));
    }
    if grid.tiled {
        tags.extend([(Tag::TILE_WIDTH, size(grid.block_width)), (Tag::TILE_LENGTH, size(grid.block_height))]);
    } else {
        tags.push((Tag::ROWS_PER_STRIP, size(grid.block_height)));
    }
    tags
}

/// Returns the block tables: the offset and the size of each block. Offsets have 64 bits in a BigTIFF and 32
/// bits otherwise; sizes have 32 bits.
pub(crate) fn tables(grid: &BlockGrid, big: bool, offsets: Vec<u64>, lens: Vec<u32>) -> [(Tag, Value); 2] {
    let (offsets_tag, lens_tag) = if grid.tiled {
        (Tag::TILE_OFFSETS, Tag::TILE_BYTE_COUNTS)
    } else {
        (Tag::STRIP_OFFSETS, Tag::STRIP_BYTE_COUNTS)
    };
    let offsets = if big {
        Value::Long8(offsets)
    } else {
        Value::Long(offsets.into_iter().map(|offset| offset as u32).collect())
    };
    [(offsets_tag, offsets), (lens_tag, Value::Long(lens))]
}

/// Returns the tags for georeferencing, names and metadata.
fn about_tags(
    plan: &WritePlan,
    about: &ImageMetadata,
    statistics: &[BandStatistics],
) -> std::result::Result<Vec<(Tag, Value)>, PlanError> {
    // Adding and subtracting half a pixel may change the last bit: if the transform is unchanged, the tags of the source are written.
    let raw = about.raw_transform.filter(|raw| about.is_point() && about.transform == Some(raw.from_centres()));
    let mut tags = match raw {
        Some(raw) => georef_tags(Some(&raw), &[], RasterType::Area),
        None => georef_tags(about.transform.as_ref(), &about.gcps, about.raster_type),
    };
    if let Some(keys) = &about.geo_keys {
        let mut keys = keys.clone();
        if RasterType::from_key(keys.short(RASTER_TYPE_KEY)) != about.raster_type {
            keys.set(RASTER_TYPE_KEY, KeyValue::Short(if about.is_point() { 2 } else { 1 }));
        }
        tags.extend(geo_key_tags(&keys)?);
    } else if about.is_point() {
        tags.extend(geo_key_tags(&GeoKeys::without_crs(about.raster_type))?);
    }
    if let Some(rpc) = &about.rpc {
        tags.push((Tag::RPC_COEFFICIENT, Value::Double(rpc.to_tag())));
    }
    for (tag, text) in &about.texts {
        tags.push((*tag, Value::Text(text.clone())));
    }
    if let Some(resolution) = &about.resolution {
        tags.extend([
            (Tag::X_RESOLUTION, Value::rational(resolution.x)),
            (Tag::Y_RESOLUTION, Value::rational(resolution.y)),
            (Tag::RESOLUTION_UNIT, Value::Short(vec![resolution.unit])),
        ]);
    }
    let items = items(plan, about, statistics);
    if !items.is_empty() {
        // A text with the same items is written unchanged.
        let text =
            about.metadata_xml.as_ref().map(|text| text.trim_end_matches('\0')).filter(|text| says(text, &items));
        tags.push((Tag::GDAL_METADATA, Value::Text(text.map_or_else(|| gdal_metadata::encode(&items), str::to_owned))));
    }
    Ok(tags)
}

/// Whether a text has exactly these items, in any order.
fn says(text: &str, items: &[Item]) -> bool {
    fn sorted(items: &[Item]) -> Vec<&Item> {
        let mut items: Vec<&Item> = items.iter().collect();
        items.sort_by_key(|item| (item.sample, &item.domain, &item.role, &item.name, &item.value));
        items
    }
    GdalMetadata::parse(text.as_bytes(), &XmlLimits::default()).is_ok_and(|found| sorted(&found.items) == sorted(items))
}

fn geo_key_tags(keys: &GeoKeys) -> std::result::Result<Vec<(Tag, Value)>, PlanError> {
    let encoded = keys.encode()?;
    let mut tags = vec![(Tag::GEO_KEY_DIRECTORY, Value::Short(encoded.directory))];
    if !encoded.doubles.is_empty() {
        tags.push((Tag::GEO_DOUBLE_PARAMS, Value::Double(encoded.doubles)));
    }
    if !encoded.ascii.is_empty() {
        tags.push((Tag::GEO_ASCII_PARAMS, Value::Raw(FieldType::ASCII, encoded.ascii.len() as u64, encoded.ascii)));
    }
    Ok(tags)
}

/// Returns the items of the GDAL_METADATA tag: the items of the image, then those of each band.
fn items(plan: &WritePlan, about: &ImageMetadata, statistics: &[BandStatistics]) -> Vec<Item> {
    let measured = |item: &Item| !statistics.is_empty() && item.name.to_ascii_uppercase().starts_with("STATISTICS_");
    let of_a_band_that_is_there = |item: &Item| item.sample.is_none_or(|band| band < plan.bands);
    // The roles that are written from the metadata of the bands.
    let roles = ["scale", "offset", "unittype", "description", "colorinterp"];
    let has_role =
        |item: &Item| item.sample.is_some() && item.role.as_deref().is_some_and(|role| roles.contains(&role));
    let mut items: Vec<Item> = about
        .metadata
        .iter()
        .filter(|item| !has_role(item) && !measured(item) && of_a_band_that_is_there(item))
        .cloned()
        .collect();
    for (band, known) in about.bands.iter().enumerate().take(plan.bands) {
        let scale_offset = match (known.scale, known.offset) {
            (None, None) => None,
            (scale, offset) => Some((scale.unwrap_or(1.0), offset.unwrap_or(0.0))),
        };
        let color = Some(known.color).filter(|color| *color != plan.color_by_tags(band) && !color.is_empty());
        items.extend(gdal_metadata::band_items(
            band,
            scale_offset,
            known.units.as_deref(),
            known.description.as_deref(),
            color,
        ));
    }
    for (band, statistics) in statistics.iter().enumerate() {
        items.extend(Statistics::from(*statistics).to_items(Some(band)));
    }
    items
}
