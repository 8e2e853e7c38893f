//! The metadata of an image: georeferencing, nodata, colours, names and metadata items.

use std::sync::OnceLock;

use swath_codec::DType;
use swath_tiff::gdal_metadata::{GdalMetadata, Item, Statistics};
use swath_tiff::geo::{Crs, Gcp, GeoKeys, GeoTransform, RasterType, RawGeoref, Rpc, compound_epsg, resolve};
use swath_tiff::geodata_xform::Resolution;
use swath_tiff::nodata::NoData;
use swath_tiff::palette::Palette;
use swath_tiff::pam::{Pam, PamBand};
use swath_tiff::world_file::GeorefSource;
use swath_tiff::{Fields, Limits, Photometric, ReadAt, Tag};

use crate::dataset::band_color;
use crate::dataset::level::Level;
use crate::dataset::sidecar::{Sidecars, placed_beside};
use crate::error::Result;
use crate::nodata::is_nodata::{nearest_sample, with_number};

/// Everything known about an image except its pixels, sidecar files included. Where several sources give the
/// same value, GDAL's order applies: `.aux.xml`, then the file itself, then a world file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImageMetadata {
    /// The transform from pixel corners to coordinates, with the coefficients in GDAL's order.
    pub transform: Option<GeoTransform>,
    /// The transform exactly as the tags state it, without the half-pixel shift of PixelIsPoint.
    pub raw_transform: Option<GeoTransform>,
    /// The source of the transform or of the control points.
    pub georef_source: Option<GeorefSource>,
    /// Whether a pixel represents an area or a point.
    pub raster_type: RasterType,
    /// Ground control points, if there is no transform.
    pub gcps: Vec<Gcp>,
    /// Rational polynomial coefficients.
    pub rpc: Option<Rpc>,
    /// The coordinate reference system as text, if a sidecar file gives it as text.
    pub crs_text: Option<String>,
    /// The GeoKeys as the file stores them.
    pub geo_keys: Option<GeoKeys>,
    /// The nodata value.
    pub nodata: Option<NoData>,
    /// The colours of a palette image.
    pub palette: Option<Palette>,
    /// The items of the GDAL_METADATA tag and of the `.aux.xml` file.
    pub metadata: Vec<Item>,
    /// The text of the GDAL_METADATA tag.
    pub metadata_xml: Option<String>,
    /// The tags that hold descriptive text: ImageDescription, Software, DateTime, Artist and others.
    pub texts: Vec<(Tag, String)>,
    /// Pixels per unit of length in print, from the resolution tags.
    pub resolution: Option<Resolution>,
    /// The metadata of each band.
    pub bands: Vec<BandMetadata>,
    /// Problems that Swath worked around, one sentence each.
    pub warnings: Vec<String>,
    /// Created on first use: finding the EPSG code of a user-defined system takes longer than reading a
    /// window.
    crs: OnceLock<Option<Crs>>,
}

/// The metadata of one band.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BandMetadata {
    /// The name of the band.
    pub description: Option<String>,
    /// The unit of the values.
    pub units: Option<String>,
    /// The scale of the values: `value * scale + offset`.
    pub scale: Option<f64>,
    /// The offset of the values.
    pub offset: Option<f64>,
    /// The stored statistics, if any.
    pub statistics: Option<Statistics>,
    /// The colour interpretation: `red`, `gray`, `alpha`, `palette` and others.
    pub color: &'static str,
    /// The names of the classes.
    pub categories: Vec<String>,
}

impl ImageMetadata {
    pub(crate) fn gather(level: &Level, sidecars: &Sidecars, limits: &Limits) -> Result<ImageMetadata> {
        let fields = level.ifd.fields(level.source.as_ref(), limits);
        let mut about = ImageMetadata::default();
        about.place(level, &fields, sidecars.pam.as_ref())?;
        about.describe(level, &fields, sidecars.pam.as_ref(), limits);
        about.color(level, &fields, sidecars.pam.as_ref());
        let unreadable = sidecars.unreadable.iter();
        about.warnings.extend(unreadable.map(|sidecar| format!("ignoring unreadable sidecar: {}", sidecar.error)));
        Ok(about)
    }

    /// Returns the value of a tag. A tag that cannot be read gives a warning and counts as absent.
    fn tag<T>(&mut self, value: swath_tiff::Result<Option<T>>) -> Option<T> {
        value.unwrap_or_else(|error| {
            self.warnings.push(error.to_string());
            None
        })
    }

    /// Fills in the georeferencing.
    fn place<R: ReadAt + ?Sized>(&mut self, level: &Level, fields: &Fields<'_, R>, pam: Option<&Pam>) -> Result<()> {
        let directory = self.tag(fields.uints(Tag::GEO_KEY_DIRECTORY)).unwrap_or_default();
        let doubles = self.tag(fields.floats(Tag::GEO_DOUBLE_PARAMS)).unwrap_or_default();
        let ascii = self.tag(fields.bytes(Tag::GEO_ASCII_PARAMS)).unwrap_or_default();
        if !directory.is_empty() {
            let directory: Vec<u16> = directory.iter().map(|&value| value as u16).collect();
            let keys = GeoKeys::parse(&directory, &doubles, &ascii);
            self.raster_type = RasterType::from_key(keys.short(RASTER_TYPE_KEY));
            self.warnings.extend(keys.warnings.iter().map(ToString::to_string));
            self.geo_keys = Some(keys);
        }
        let scale = self.tag(fields.floats(Tag::MODEL_PIXEL_SCALE)).unwrap_or_default();
        let tiepoints = self.tag(fields.floats(Tag::MODEL_TIEPOINT)).unwrap_or_default();
        let matrix = self.tag(fields.floats(Tag::MODEL_TRANSFORMATION)).unwrap_or_default();
        let inside = resolve(RawGeoref { scale: &scale, tiepoints: &tiepoints, matrix: &matrix }, self.raster_type);

        let resolution = |tag| fields.floats(tag).ok().flatten().and_then(|values| values.first().copied());
        self.resolution = resolution(Tag::X_RESOLUTION).zip(resolution(Tag::Y_RESOLUTION)).map(|(x, y)| Resolution {
            x,
            y,
            unit: fields.uint(Tag::RESOLUTION_UNIT).ok().flatten().unwrap_or(2) as u16,
        });
        let beside = pam.map(|pam| pam.placement(level.layout.grid.height, self.resolution)).unwrap_or_default();
        self.gcps = beside.gcps;
        if let Some(transform) = beside.geo_transform {
            self.transform = Some(GeoTransform(transform));
            self.georef_source = Some(GeorefSource::Pam);
        } else if let Some(transform) = inside.transform {
            self.transform = Some(transform);
            self.raw_transform = inside.raw;
            self.georef_source = Some(GeorefSource::Internal);
        } else if let Some((transform, from)) = placed_beside(level.source.as_ref())? {
            self.transform = Some(GeoTransform(transform));
            self.georef_source = Some(from);
        }
        if !self.gcps.is_empty() {
            self.georef_source = self.georef_source.or(Some(GeorefSource::Pam));
        } else if !inside.gcps.is_empty() {
            self.gcps = inside.gcps;
            self.georef_source = self.georef_source.or(Some(GeorefSource::Internal));
        }
        self.raw_transform = self.raw_transform.or(self.transform);
        self.crs_text = pam.and_then(Pam::srs_text).map(str::to_owned);
        self.rpc = self.tag(fields.floats(Tag::RPC_COEFFICIENT)).and_then(|values| Rpc::from_tag(&values).ok());
        Ok(())
    }

    /// Fills in nodata, metadata items, names and scales.
    fn describe<R: ReadAt + ?Sized>(
        &mut self,
        level: &Level,
        fields: &Fields<'_, R>,
        pam: Option<&Pam>,
        limits: &Limits,
    ) {
        let xml = limits.xml();
        let (kind, bits) = (level.layout.format(), u32::from(level.layout.bits));
        let text = self.tag(fields.text(Tag::GDAL_NODATA));
        let beside = pam.and_then(|pam| pam.band(1)).and_then(|band| band.no_data(kind, bits));
        self.nodata = beside.or_else(|| NoData::parse(&text?, kind, bits));
        let inside =
            self.tag(fields.bytes(Tag::GDAL_METADATA)).and_then(|bytes| match GdalMetadata::parse(&bytes, &xml) {
                Ok(metadata) => Some(metadata),
                Err(error) => {
                    self.warnings.push(format!("GDAL_METADATA: {error}"));
                    None
                }
            });
        let inside = inside.unwrap_or_default();
        self.metadata_xml = Some(inside.xml.clone()).filter(|xml| !xml.is_empty());
        self.metadata.clone_from(&inside.items);
        self.metadata.extend(pam.iter().flat_map(|pam| pam.metadata.iter().cloned()));
        for band in pam.iter().flat_map(|pam| &pam.bands).filter(|band| band.band > 0) {
            let items = band.metadata.iter().cloned();
            self.metadata.extend(items.map(|item| Item { sample: Some(band.band - 1), ..item }));
        }

        for tag in TEXTS {
            let text = self.tag(fields.text(tag)).filter(|text| !text.is_empty());
            self.texts.extend(text.map(|text| (tag, text)));
        }
        // A file with a vertical coordinate system holds heights, unless its band names say otherwise. The
        // vertical system is created only if the file has vertical keys; most files have none.
        let has_heights =
            self.geo_keys.as_ref().is_some_and(|keys| keys.keys.iter().any(|key| key.id >= VERTICAL_KEYS));
        let heights = has_heights.then(|| self.crs()).flatten().and_then(|crs| crs.vertical.as_ref());
        let heights = heights.filter(|vertical| !vertical.ellipsoidal);
        let height_unit = heights.map(|vertical| vertical.unit.name.to_string());
        let packed = if heights.is_some() && level.bands() == 1 { self.heights_by_place(fields) } else { None };
        let none = PamBand::default();
        for (band, inside) in inside.bands(level.bands()).into_iter().enumerate() {
            let beside = pam.and_then(|pam| pam.band(band + 1)).unwrap_or(&none);
            let own = inside.items.iter().copied().filter(|item| item.domain.is_none());
            // Scale and offset come from the same source. If the first source gives only one of them, the
            // other is not taken from a second source.
            let (scale, offset) = match packed {
                _ if beside.scale.is_some() || beside.offset.is_some() => {
                    (beside.scale.or(Some(1.0)), beside.offset.or(Some(0.0)))
                }
                Some((scale, offset)) => (Some(scale), Some(offset)),
                None => (inside.scale, inside.offset),
            };
            self.bands.push(BandMetadata {
                description: beside.description.clone().or(inside.description.map(str::to_owned)),
                units: beside.units.clone().or(inside.units.map(str::to_owned)).or_else(|| height_unit.clone()),
                scale,
                offset,
                statistics: beside.statistics().or_else(|| Statistics::from_items(own)),
                color: "undefined",
                categories: beside.categories.clone(),
            });
        }
    }

    /// Returns scale and offset of heights from the third dimension of the georeferencing tags. GDAL stores
    /// them there in GeoTIFF 1.1 if the file has one band and a vertical system. Zeros mean that the writer
    /// stored no scale.
    fn heights_by_place<R: ReadAt + ?Sized>(&mut self, fields: &Fields<'_, R>) -> Option<(f64, f64)> {
        self.geo_keys.as_ref().filter(|keys| keys.revision >= (1, 1))?;
        let scale = self.tag(fields.floats(Tag::MODEL_PIXEL_SCALE))?;
        let tiepoint = self.tag(fields.floats(Tag::MODEL_TIEPOINT))?;
        let (&[_, _, scale], &[_, _, level, _, _, height, ..]) = (scale.as_slice(), tiepoint.as_slice()) else {
            return None;
        };
        let offset = height - level * scale;
        let says = scale.is_finite() && offset.is_finite() && [scale, level, height] != [0.0; 3];
        says.then_some((scale, offset))
    }

    /// Fills in the palette and the colour of each band.
    fn color<R: ReadAt + ?Sized>(&mut self, level: &Level, fields: &Fields<'_, R>, pam: Option<&Pam>) {
        let layout = &level.layout;
        let bits = u32::from(layout.bits);
        // If a palette is set after the first pixels, GDAL leaves the photometric interpretation unchanged,
        // and treats the palette as that of the first band, regardless of the number of bands.
        if level.conversion.is_none() {
            let values = self.tag(fields.uints(Tag::COLOR_MAP)).unwrap_or_default();
            let values: Vec<u16> = values.iter().map(|&value| value as u16).collect();
            self.palette = Palette::from_color_map(&values, bits).ok();
        }
        if layout.samples == 1 && self.palette.is_none() && matches!(layout.sample_format, 1 | 4) {
            // GDAL represents MinIsWhite as a palette where a viewer would show the image inverted otherwise.
            match layout.photometric {
                Photometric::MIN_IS_WHITE if bits <= 16 => self.palette = Palette::min_is_white(bits).ok(),
                Photometric::MIN_IS_BLACK if bits == 1 => self.palette = Some(Palette::bilevel()),
                _ => {}
            }
        }
        if let Some(table) = pam.and_then(|pam| pam.band(1)).map(|band| &band.color_table)
            && !table.is_empty()
        {
            self.palette = Some(Palette { entries: table.clone() });
        }
        if let (Some(palette), Some(nodata)) = (&mut self.palette, self.nodata) {
            palette.hide(nodata);
        }
        let has_palette = self.palette.is_some();
        // One pass over the items and the extra samples instead of one pass per band: there may be many of
        // each.
        let alpha = layout.alpha_band().map(usize::from);
        let mut named: Vec<Option<&str>> = vec![None; self.bands.len()];
        for item in self.metadata.iter().filter(|item| item.role.as_deref() == Some("colorinterp")) {
            if let Some(name) = item.sample.and_then(|band| named.get_mut(band)) {
                name.get_or_insert(&item.value);
            }
        }
        for (band, about) in self.bands.iter_mut().enumerate() {
            let beside = pam.and_then(|pam| pam.band(band + 1)).and_then(|band| band.color_interpretation.as_deref());
            // For converted colours and bilevel palettes, the metadata items do not change the colour
            // interpretation.
            let inside = named[band].filter(|_| level.conversion.is_none() && !(has_palette && bits == 1));
            about.color = match beside.or(inside) {
                Some(name) => band_color::from_name(name),
                None if alpha == Some(band) => "alpha",
                None => band_color::from_tags(layout, band, has_palette),
            };
        }
    }

    /// The coordinate reference system of the file's GeoKeys. If control points locate the image, it is the
    /// system of the points.
    pub fn crs(&self) -> Option<&Crs> {
        self.crs.get_or_init(|| self.geo_keys.as_ref().and_then(Crs::from_keys)).as_ref()
    }

    /// The EPSG code of the coordinates that the transform gives. `None` if control points locate the image:
    /// then the code belongs to the points, see [`gcp_epsg`](ImageMetadata::gcp_epsg).
    pub fn epsg(&self) -> Option<u32> {
        if self.is_placed_by_gcps() { None } else { self.any_epsg() }
    }

    /// The EPSG code of the control points' coordinates, if control points locate the image.
    pub fn gcp_epsg(&self) -> Option<u32> {
        if self.is_placed_by_gcps() { self.any_epsg() } else { None }
    }

    fn is_placed_by_gcps(&self) -> bool {
        self.transform.is_none() && !self.gcps.is_empty()
    }

    /// The EPSG code of the sidecar file if it has one, else that of the GeoKeys.
    fn any_epsg(&self) -> Option<u32> {
        match &self.crs_text {
            Some(text) => epsg_of_text(text),
            None => self.crs().and_then(Crs::epsg),
        }
    }

    /// The name of the coordinate reference system.
    pub fn crs_name(&self) -> Option<String> {
        match &self.crs_text {
            Some(text) => text.split('"').nth(1).map(str::to_owned).or_else(|| Some(by_code(text)?.name)),
            None => self.crs().map(|crs| crs.name.clone()),
        }
    }

    /// The coordinate reference system as WKT: the text of the sidecar file, or text made from the GeoKeys.
    pub fn wkt(&self) -> Option<String> {
        match &self.crs_text {
            Some(text) if text.trim().starts_with("EPSG:") => by_code(text)?.to_wkt(),
            Some(text) => Some(text.clone()),
            None => self.crs().and_then(Crs::to_wkt),
        }
    }

    /// The number of the alpha band.
    pub fn alpha_band(&self) -> Option<usize> {
        self.bands.iter().position(|band| band.color == "alpha")
    }

    /// Whether a pixel represents a point (PixelIsPoint) instead of an area.
    pub fn is_point(&self) -> bool {
        self.raster_type == RasterType::Point
    }

    /// The values of the NODATA_VALUES metadata item, one per band.
    pub(crate) fn nodata_values(&self) -> Option<Vec<f64>> {
        let item = self.metadata.iter().find(|item| item.name == "NODATA_VALUES" && item.sample.is_none())?;
        item.value.split_whitespace().map(|value| value.parse().ok()).collect()
    }
}

/// Returns the bytes of one sample for blocks that are not stored: the nodata value, or the nearest value
/// that the type can hold, or 0 if there is no nodata value.
pub(crate) fn fill_bytes(nodata: Option<NoData>, dtype: DType) -> Vec<u8> {
    let mut sample = vec![0; dtype.size()];
    if let Some(nodata) = nodata {
        // A complex sample gets the nodata value as its real part.
        let number = with_number!(dtype, T => bytemuck::bytes_of(&nearest_sample::<T>(nodata)).to_vec(),
            complex => bytemuck::bytes_of(&nearest_sample::<T>(nodata)).to_vec());
        sample[..number.len()].copy_from_slice(&number);
    }
    sample
}

/// The tags that hold descriptive text.
const TEXTS: [Tag; 8] = [
    Tag::DOCUMENT_NAME,
    Tag::IMAGE_DESCRIPTION,
    Tag::PAGE_NAME,
    Tag::SOFTWARE,
    Tag::DATE_TIME,
    Tag::ARTIST,
    Tag::HOST_COMPUTER,
    Tag::COPYRIGHT,
];

/// The first of the GeoKeys that describe the vertical coordinate system.
const VERTICAL_KEYS: u16 = 4096;

/// GTRasterTypeGeoKey.
pub(crate) const RASTER_TYPE_KEY: u16 = 1025;

/// Returns the system that a text such as `EPSG:32617` names.
fn by_code(text: &str) -> Option<Crs> {
    Crs::from_keys(&GeoKeys::from_text(text.trim(), RasterType::Area).ok()?)
}

/// Returns the EPSG code of a WKT text. A compound system that has no code gets the code of the combination
/// of its parts.
fn epsg_of_text(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Some(code) = text.strip_prefix("EPSG:") {
        return code.parse().ok();
    }
    code_at_end(text).or_else(|| {
        let inner = text.strip_prefix("COMPD_CS[").or_else(|| text.strip_prefix("COMPOUNDCRS["))?.strip_suffix(']')?;
        let vertical = ["VERT_CS[", "VERTCRS["].iter().find_map(|element| inner.find(element))?;
        let (horizontal, vertical) = inner.split_at(vertical);
        compound_epsg(code_at_end(horizontal.trim().trim_end_matches(','))?, code_at_end(vertical)?)
    })
}

/// Returns the code of the outermost element of a WKT text: `AUTHORITY["EPSG","32617"]]` or
/// `ID["EPSG",32617]]`.
fn code_at_end(text: &str) -> Option<u32> {
    let inner = text.trim().strip_suffix("]]")?;
    let start = inner.rfind('[')?;
    let element = inner[..start].rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    let mut parts = inner[start + 1..].split(',').map(|part| part.trim().trim_matches('"'));
    let epsg = matches!(element, "AUTHORITY" | "ID") && parts.next()?.eq_ignore_ascii_case("EPSG");
    epsg.then(|| parts.next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::epsg_of_text;

    #[test]
    fn only_the_code_of_the_outermost_element_is_used() {
        assert_eq!(
            epsg_of_text(r#"PROJCS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],AUTHORITY["EPSG","32617"]]"#),
            Some(32617)
        );
        assert_eq!(epsg_of_text(r#"GEOGCRS["x",ID["EPSG",4326]]"#), Some(4326));
        assert_eq!(epsg_of_text(r#"PROJCS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],UNIT["m",1]]"#), None);
        assert_eq!(epsg_of_text("EPSG:3857"), Some(3857));
        assert_eq!(epsg_of_text("]]"), None);
    }

    #[test]
    fn compound_without_a_code_gets_the_code_of_its_combined_parts() {
        let compound = |end: &str| {
            epsg_of_text(&format!(
                r#"COMPD_CS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],VERT_CS["z",AUTHORITY["EPSG","3855"]]{end}]"#
            ))
        };
        assert_eq!(compound(""), Some(9518));
        assert_eq!(compound(r#",AUTHORITY["EPSG","1"]"#), Some(1));
        assert_eq!(epsg_of_text(r#"COMPD_CS["x",GEOGCS["y"],VERT_CS["z",AUTHORITY["EPSG","3855"]]]"#), None);
        assert_eq!(epsg_of_text("COMPD_CS[VERT_CS[,]]"), None);
    }
}
