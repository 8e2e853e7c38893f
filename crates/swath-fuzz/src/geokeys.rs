//! Reads any numbers as GeoKeys and as the tags that place an image.

use swath_tiff::geo::{Crs, GeoKeys, RasterType, RawGeoref, Rpc, georef_tags, resolve};

/// The first byte is the number of doubles, the second the number of bytes of text. The keys follow. Keys that
/// are encoded again must keep their values.
pub fn run(data: &[u8]) {
    let Some((&[doubles, text], rest)) = data.split_first_chunk() else { return };
    let (doubles, rest) = rest.split_at((8 * usize::from(doubles)).min(rest.len()));
    let (text, rest) = rest.split_at(usize::from(text).min(rest.len()));
    let doubles: Vec<f64> = doubles.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect();
    let directory: Vec<u16> = rest.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes)).collect();
    let keys = GeoKeys::parse(&directory, &doubles, text);
    if let Ok(encoded) = keys.encode() {
        let again = GeoKeys::parse(&encoded.directory, &encoded.doubles, &encoded.ascii);
        for key in &keys.keys {
            // A text may lose its last separator; NaN differs from itself.
            assert!(again.get(key.id).is_some(), "key {} is lost", key.id);
        }
    }
    if let Some(crs) = Crs::from_keys(&keys) {
        let _ = (crs.epsg(), GeoKeys::from_crs(&crs, RasterType::Area));
        if let Some(wkt) = crs.to_wkt()
            && let Err(error) = Crs::from_wkt(&wkt)
        {
            panic!("{error}: {wkt}");
        }
    }
    place(&doubles);
    if let Ok(rpc) = Rpc::from_tag(&doubles) {
        assert_eq!(rpc.to_tag().len(), 92);
    }
}

/// Reads the doubles as each of the tags that place an image.
fn place(doubles: &[f64]) {
    let (scale, tiepoints) = doubles.split_at(3.min(doubles.len()));
    for raster_type in [RasterType::Area, RasterType::Point] {
        for raw in [RawGeoref { scale, tiepoints, matrix: &[] }, RawGeoref { scale: &[], tiepoints, matrix: doubles }] {
            let georef = resolve(raw, raster_type);
            let _ = georef_tags(georef.transform.as_ref(), &georef.gcps, raster_type);
            if let Some(transform) = georef.transform {
                let _ = (transform.invert(), transform.bounds(100, 200), transform.level((100, 200), (50, 100)));
            }
        }
    }
}
