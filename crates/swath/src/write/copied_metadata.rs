//! Copies the metadata of an image to a new file.

use swath_codec::lerc::{LercCompression, Params};
use swath_codec::{CodecInfo, DType};
use swath_tiff::gdal_metadata::Item;
use swath_tiff::geo::{Crs, GeoKeys};
use swath_tiff::nodata::NoData;
use swath_tiff::{Compression, FieldType, Limits, Photometric, Tag, Value};

use crate::dataset::image::Image;
use crate::dataset::level::Level;
use crate::dataset::mask::MaskOrigin;
use crate::dataset::metadata::ImageMetadata;
use crate::error::Result;
use crate::write::options::WriteOptions;
use crate::write::plan::can_hold;
use crate::write::source::ImageSource;

impl WriteOptions {
    /// Copies the metadata of an image, as far as it is valid for the part that the source reads:
    /// georeferencing, nodata, colours, names, items, statistics, unknown tags, and whether there is a mask.
    /// The options for blocks and codec do not change.
    ///
    /// # Errors
    /// [`Error::Container`](crate::Error::Container) if a tag cannot be read.
    pub fn like(mut self, image: &Image, source: &ImageSource<'_>) -> Result<WriteOptions> {
        let layout = image.layout();
        let all_bands = source.bands().iter().copied().eq(0..image.bands());
        self.metadata = part(image, source);
        self.mask = image.mask_origin() == MaskOrigin::MaskImage;
        let level = &image.levels[0];
        // Packed integers stay packed.
        let packed = usize::from(layout.bits) != image.dtype().size() * 8;
        if packed && level.conversion.is_none() && matches!(layout.sample_format, 1 | 2 | 4) {
            self.bits = Some(layout.bits);
        }
        let stays = !matches!(
            layout.photometric,
            Photometric::PALETTE | Photometric::MASK | Photometric::YCBCR | Photometric::LOG_L | Photometric::LOG_LUV
        );
        let has_palette = self.metadata.palette.is_some();
        let can_index = image.bands() <= 2 && matches!(image.dtype(), DType::U8 | DType::U16);
        let can_index = can_index && layout.photometric != Photometric::MIN_IS_WHITE;
        let has_colors = has_palette && layout.bits > 1 && can_index;
        if all_bands && level.conversion.is_none() && stays && !has_colors {
            self.photometric = Some(layout.photometric);
            self.extra_samples = Some(layout.extra_samples.clone());
        }
        self.extra_tags = other_tags(image, source.bands())?;
        // If the samples are not written as palette indexes, the palette is copied like any other tag.
        if has_palette && !can_index {
            let fields = level.ifd.fields(level.source.as_ref(), &image.limits);
            let map = fields.value(Tag::COLOR_MAP).map_err(|error| level.container_error(error))?;
            self.extra_tags.extend(map.map(|map| (Tag::COLOR_MAP, map)));
        }
        // A nodata value that no sample can have marks no pixel, but the copy keeps it.
        let bits = self.bits.unwrap_or(image.dtype().size() as u16 * 8);
        let nodata = self.metadata.nodata;
        self.metadata.nodata.take_if(|nodata| !can_hold(image.dtype(), bits, *nodata));
        if let Some(nodata) = nodata {
            let fields = level.ifd.fields(level.source.as_ref(), &image.limits);
            let text = fields.text(Tag::GDAL_NODATA).ok().flatten();
            let same = |text: &String| NoData::parse(text, layout.format(), u32::from(layout.bits)) == Some(nodata);
            let text = text.filter(same).unwrap_or_else(|| nodata.to_string());
            self.extra_tags.push((Tag::GDAL_NODATA, Value::Text(text)));
        }
        Ok(self)
    }

    /// Replaces the nodata value that [`like`](WriteOptions::like) copied, or removes it. Copied statistics are dropped, because they were
    /// computed with the old value.
    #[must_use]
    pub fn replace_nodata(mut self, nodata: Option<NoData>) -> WriteOptions {
        self.metadata.nodata = nodata;
        self.extra_tags.retain(|(tag, _)| *tag != Tag::GDAL_NODATA);
        self.drop_statistics()
    }

    /// Drops the statistics that [`like`](WriteOptions::like) copied. They are not valid for other pixels.
    #[must_use]
    pub fn drop_statistics(mut self) -> WriteOptions {
        drop_statistics(&mut self.metadata);
        self
    }
}

/// Returns the metadata of the part of an image that a source reads.
fn part(image: &Image, source: &ImageSource<'_>) -> ImageMetadata {
    let mut about = image.metadata().clone();
    let (rows, cols) = source.window();
    let size = |level: usize| (image.levels[level].layout.grid.width, image.levels[level].layout.grid.height);
    let (full, level) = (size(0), size(source.level()));
    let scale = (full.0 as f64 / level.0 as f64, full.1 as f64 / level.1 as f64);
    let (col, row) = (cols.start as f64, rows.start as f64);
    let is_whole = (rows, cols) == (0..full.1, 0..full.0) && source.level() == 0;
    if !is_whole {
        about.transform = about.transform.map(|transform| transform.scaled(scale.0, scale.1).window(col, row));
        for gcp in &mut about.gcps {
            (gcp.pixel, gcp.line) = (gcp.pixel / scale.0 - col, gcp.line / scale.1 - row);
        }
        if let Some(rpc) = &mut about.rpc {
            // Lines and samples count from the centre of the first pixel.
            let moved = |value: f64, scale: f64, first: f64| (value + 0.5) / scale - 0.5 - first;
            rpc.offset[0] = moved(rpc.offset[0], scale.1, row);
            rpc.offset[1] = moved(rpc.offset[1], scale.0, col);
            rpc.scale[0] /= scale.1;
            rpc.scale[1] /= scale.0;
        }
    }
    // Tags hold GeoKeys, not text, so the text of a sidecar file is converted.
    if let Some(text) = &about.crs_text {
        let code = image.metadata().epsg().or(image.metadata().gcp_epsg());
        let of_text = GeoKeys::from_text(text, about.raster_type).ok();
        let says_code = |keys: &GeoKeys| Crs::from_keys(keys).and_then(|crs| crs.epsg()) == code;
        let of_code = || code.and_then(|code| GeoKeys::from_epsg(code, about.raster_type).ok());
        about.geo_keys = of_text.clone().filter(says_code).or_else(of_code).or(of_text);
    }
    let bands = source.bands();
    about.bands = bands.iter().filter_map(|&band| image.metadata().bands.get(band).cloned()).collect();
    about.metadata = items(&image.metadata().metadata, bands);
    if !is_whole {
        drop_statistics(&mut about);
    }
    if bands != [0] && !bands.iter().copied().eq(0..image.bands()) {
        about.palette = None;
    }
    about
}

fn drop_statistics(about: &mut ImageMetadata) {
    about.metadata.retain(|item| !item.name.to_ascii_uppercase().starts_with("STATISTICS_"));
    about.bands.iter_mut().for_each(|band| band.statistics = None);
}

/// Returns the items of the image and of the bands that are read, with the new band numbers.
fn items(items: &[Item], bands: &[usize]) -> Vec<Item> {
    let of_image = items.iter().filter(|item| item.sample.is_none()).cloned();
    let of_band = |(new, old): (usize, &usize)| {
        let old = *old;
        let own = items.iter().filter(move |item| item.sample == Some(old));
        own.cloned().map(move |item| Item { sample: Some(new), ..item })
    };
    of_image.chain(bands.iter().enumerate().flat_map(of_band)).collect()
}

/// Returns the tags that nothing else copies: tags that Swath does not interpret, and that do not describe
/// blocks or codec.
fn other_tags(image: &Image, bands: &[usize]) -> Result<Vec<(Tag, Value)>> {
    let level = &image.levels[0];
    // Entries can share one large value.
    let limits = image.limits.metered();
    let fields = level.ifd.fields(level.source.as_ref(), &limits);
    // Profiles, inks and dot ranges describe the stored colours, not the converted ones.
    let of_colors =
        |tag: Tag| level.conversion.is_some() && matches!(tag, Tag::ICC_PROFILE | Tag(333 | 334 | 336 | 337));
    let known = |tag: Tag| tag.describes_storage() || tag.is_about() || of_colors(tag);
    let mut tags = Vec::new();
    // The entries are sorted by tag. If a tag occurs twice, the first is used.
    for entry in level.ifd.entries.chunk_by(|a, b| a.tag == b.tag).filter_map(<[_]>::first) {
        // A pointer to a directory has no meaning in another file, and an unknown type has no size.
        let pointer = matches!(entry.field_type, FieldType::IFD | FieldType::IFD8);
        if !known(entry.tag) && !pointer && entry.field_type.size().is_some() {
            let value = fields.value(entry.tag).map_err(|error| level.container_error(error))?;
            tags.extend(value.map(|value| (entry.tag, of_bands(entry.tag, value, image.bands(), bands))));
        }
    }
    Ok(tags)
}

/// Returns the values of the bands that are read, for a tag with one value per band: MinSampleValue,
/// SMinSampleValue and others.
fn of_bands(tag: Tag, value: Value, count: usize, bands: &[usize]) -> Value {
    match value {
        Value::Raw(kind, values, bytes) if matches!(tag.0, 280 | 281 | 340 | 341) && values == count as u64 => {
            let size = bytes.len() / count;
            let chosen = bands.iter().flat_map(|band| bytes[band * size..(band + 1) * size].iter().copied()).collect();
            Value::Raw(kind, bands.len() as u64, chosen)
        }
        other => other,
    }
}

impl Image {
    /// The name of the image's codec, in the form that
    /// [`Compress::with_options`](swath_codec::Compress::with_options) accepts; `None` if Swath has no
    /// encoder for it.
    pub fn codec_name(&self) -> Option<&'static str> {
        let level = &self.levels[0];
        Some(match level.layout.compression {
            Compression::OLD_DEFLATE => "deflate",
            Compression::LERC => match lerc_wrapper(level, &self.limits)? {
                LercCompression::None => "lerc",
                LercCompression::Deflate => "lerc_deflate",
                LercCompression::Zstd => "lerc_zstd",
            },
            other => CodecInfo::from_tag(other).filter(|info| info.can_write() && info.tags[0] == other)?.name,
        })
    }
}

/// Returns the compression around the LERC blobs of a level.
pub(crate) fn lerc_wrapper(level: &Level, limits: &Limits) -> Option<LercCompression> {
    let fields = level.ifd.fields(level.source.as_ref(), limits);
    let values: Vec<u32> = fields.uints(Tag::LERC_PARAMETERS).ok()??.iter().map(|&value| value as u32).collect();
    Params::from_tag(&values).ok().map(|params| params.compression)
}
