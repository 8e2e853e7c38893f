//! Parses any text as a coordinate reference system.

use swath_tiff::geo::{Crs, GeoKeys, RasterType};

/// Text that Swath writes for a system must be readable.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let raster_type = if data.len().is_multiple_of(2) { RasterType::Area } else { RasterType::Point };
    if let Ok(keys) = GeoKeys::from_text(text, raster_type) {
        let _ = keys.encode();
        if let Some(crs) = Crs::from_keys(&keys) {
            written_again(&crs);
        }
    }
    if let Ok(crs) = Crs::from_wkt(text) {
        written_again(&crs);
    }
}

fn written_again(crs: &Crs) {
    let _ = crs.epsg();
    let Some(wkt) = crs.to_wkt() else { return };
    let again = Crs::from_wkt(&wkt).unwrap_or_else(|error| panic!("written WKT cannot be parsed: {error}\n{wkt}"));
    let second = again.to_wkt().expect("a system that was written once is written again");
    Crs::from_wkt(&second).unwrap_or_else(|error| panic!("WKT written twice cannot be parsed: {error}\n{second}"));
}
