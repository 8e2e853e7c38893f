//! Ground control points.

use super::transform::RasterType;

/// A point with a known position in the raster and a known position on the ground.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gcp {
    /// A name, often empty. TIFF tags do not store it.
    pub id: String,
    /// A remark, often empty. TIFF tags do not store it.
    pub info: String,
    /// Column, with 0 at the left edge of the first pixel.
    pub pixel: f64,
    /// Row, with 0 at the top edge of the first pixel.
    pub line: f64,
    /// Easting or longitude.
    pub x: f64,
    /// Northing or latitude.
    pub y: f64,
    /// Height.
    pub z: f64,
}

/// Returns the points of a ModelTiepoint tag. An incomplete last point is dropped, as in GDAL.
///
/// A PixelIsPoint tiepoint refers to the centre of a pixel, so it is moved by half a pixel to the edge-based
/// convention of [`Gcp`].
pub(super) fn from_tiepoints(tiepoints: &[f64], raster_type: RasterType) -> Vec<Gcp> {
    let shift = shift(raster_type);
    let (points, _) = tiepoints.as_chunks::<6>();
    let gcp = |&[i, j, _, x, y, z]: &[f64; 6]| Gcp { pixel: i + shift, line: j + shift, x, y, z, ..Gcp::default() };
    points.iter().map(gcp).collect()
}

/// Returns the numbers of a ModelTiepoint tag that is read back as these points.
pub(super) fn to_tiepoints(gcps: &[Gcp], raster_type: RasterType) -> Vec<f64> {
    let shift = shift(raster_type);
    gcps.iter().flat_map(|gcp| [gcp.pixel - shift, gcp.line - shift, 0.0, gcp.x, gcp.y, gcp.z]).collect()
}

/// Returns the distance from the position of a tiepoint to that of a [`Gcp`].
fn shift(raster_type: RasterType) -> f64 {
    match raster_type {
        RasterType::Area => 0.0,
        RasterType::Point => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_last_tiepoint_is_dropped() {
        let tags = [0.0, 0.0, 0.0, 10.0, 20.0, 5.0, 3.0, 4.0, 0.0];
        let points = from_tiepoints(&tags, RasterType::Area);
        assert_eq!(points, [Gcp { x: 10.0, y: 20.0, z: 5.0, ..Gcp::default() }]);
    }

    #[test]
    fn pixel_is_point_tiepoints_move_to_the_pixel_centre() {
        let points = from_tiepoints(&[5.0, 4.0, 0.0, 1.0, 2.0, 0.0], RasterType::Point);
        assert_eq!((points[0].pixel, points[0].line), (5.5, 4.5));
    }
}
