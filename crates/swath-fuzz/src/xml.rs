//! Parses any text as the XML documents that stand in or beside a file, and as the other small text formats.

use swath_tiff::gdal_metadata::{self, GdalMetadata};
use swath_tiff::geo::Rpc;
use swath_tiff::nodata::NoData;
use swath_tiff::pam::{self, Pam};
use swath_tiff::xml::{self, XmlLimits};
use swath_tiff::{SampleFormat, geodata_xform, world_file};

const LIMITS: XmlLimits = XmlLimits { bytes: 1 << 20, depth: 64, nodes: 1 << 14 };

/// A document that Swath writes must be readable and must keep its items.
pub fn run(data: &[u8]) {
    if xml::parse(data, &LIMITS).is_ok() {
        documents(data);
    }
    if let Ok(transform) = world_file::parse(data) {
        let again = world_file::parse(world_file::format(&transform).as_bytes());
        assert!(
            again.is_ok_and(|again| again.map(f64::to_bits) == transform.map(f64::to_bits)),
            "a world file changed"
        );
    }
    let _ = world_file::TabFile::parse(data).map(|tab| tab.geo_transform());
    if let Ok(text) = std::str::from_utf8(data) {
        let escaped = xml::escape(text);
        assert!(!escaped.contains('<'), "markup is not escaped");
        let _ = (xml::unescape(text), Rpc::from_rpc_txt(text), Rpc::from_rpb(text));
        for (format, bits) in [(SampleFormat::Uint, 8), (SampleFormat::Int, 64), (SampleFormat::Float, 32)] {
            let Some(nodata) = NoData::parse(text, format, bits) else { continue };
            let _ = (nodata.value_f64(), nodata.fits(format, bits), nodata.sample_match(format, bits));
            let _ = (nodata.in_range(format, bits), nodata.as_bytes(format, bits));
        }
    }
}

fn documents(data: &[u8]) {
    let _ = geodata_xform::esri_metadata_srs(data, &LIMITS);
    // Without items there is no document to write.
    if let Ok(metadata) = GdalMetadata::parse(data, &LIMITS)
        && !metadata.items.is_empty()
    {
        let _ = (metadata.bands(4), metadata.domains(None), metadata.statistics(0), metadata.scale(1));
        let text = gdal_metadata::encode(&metadata.items);
        let again = GdalMetadata::parse(text.as_bytes(), &LIMITS).expect("written GDAL metadata can be parsed");
        let kept = metadata.items.iter().filter(|item| again.items.contains(item)).count();
        assert!(kept == metadata.items.len(), "items changed: {:?} {:?}", metadata.items, again.items);
    }
    if let Ok(pam) = Pam::parse(data, &LIMITS) {
        for band in &pam.bands {
            let _ = (band.statistics(), band.no_data(SampleFormat::Uint, 16));
        }
        let _ = (pam.placement(100, None), pam.srs_text(), pam.classes());
        Pam::parse(pam::encode(&pam).as_bytes(), &LIMITS).expect("a written PAM document can be parsed");
    }
}
