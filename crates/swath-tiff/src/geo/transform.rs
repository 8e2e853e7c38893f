//! Computes one affine transform from the three model tags, and operations on it.

use super::gcp::{self, Gcp};
use crate::build::Value;
use crate::tag::Tag;

/// The area or point that the value of a pixel represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RasterType {
    /// The value represents the area of the pixel; coordinates refer to its corner.
    #[default]
    Area,
    /// The value represents a point; coordinates refer to the centre of the pixel.
    Point,
}

impl RasterType {
    /// Returns the raster type of a GTRasterTypeGeoKey. Every value other than 2 is an area, as in GDAL.
    pub fn from_key(value: Option<u16>) -> Self {
        if value == Some(2) { Self::Point } else { Self::Area }
    }
}

/// Six numbers in GDAL's order: `x = t[0] + col * t[1] + row * t[2]`, `y = t[3] + col * t[4] + row * t[5]`, where (0, 0) is
/// the outer corner of the first pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoTransform(pub [f64; 6]);

/// The error for a level whose transform cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the size of the image and of its overview must both be more than zero")]
pub struct EmptyLevel;

impl GeoTransform {
    /// The identity: row and column are the coordinates.
    pub const IDENTITY: Self = Self([0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);

    /// Returns the coordinates of a (fractional) column and row.
    pub fn apply(&self, col: f64, row: f64) -> (f64, f64) {
        let t = &self.0;
        (t[0] + col * t[1] + row * t[2], t[3] + col * t[4] + row * t[5])
    }

    /// Returns the transform from coordinates to columns and rows, or `None` if the pixels have no area.
    pub fn invert(&self) -> Option<Self> {
        let t = &self.0;
        if t[2] == 0.0 && t[4] == 0.0 {
            // This branch is faster, and it avoids the rounding of the determinant for an axis-aligned grid.
            let ok = t[1] != 0.0 && t[5] != 0.0 && self.is_finite();
            return ok.then(|| Self([-t[0] / t[1], 1.0 / t[1], 0.0, -t[3] / t[5], 0.0, 1.0 / t[5]]));
        }
        let determinant = t[1] * t[5] - t[2] * t[4];
        let magnitude = t[1].abs().max(t[2].abs()).max(t[4].abs().max(t[5].abs()));
        // A determinant this far below the square of the coefficients is a rounding error, not an area.
        if !self.is_finite() || determinant.abs() <= 1e-10 * magnitude * magnitude {
            return None;
        }
        let (a, b, d, e) = (t[5] / determinant, -t[2] / determinant, -t[4] / determinant, t[1] / determinant);
        Some(Self([-t[0] * a - t[3] * b, a, b, -t[0] * d - t[3] * e, d, e]))
    }

    /// Returns the transform of the window whose first pixel is (`col`, `row`) of this grid.
    pub fn window(&self, col: f64, row: f64) -> Self {
        let (x, y) = self.apply(col, row);
        let t = &self.0;
        Self([x, t[1], t[2], y, t[4], t[5]])
    }

    /// Returns the transform of a level of `level` (width, height) pixels that covers the same ground as `full`
    /// pixels of this grid.
    pub fn level(&self, full: (u64, u64), level: (u64, u64)) -> Result<Self, EmptyLevel> {
        if full.0 == 0 || full.1 == 0 || level.0 == 0 || level.1 == 0 {
            return Err(EmptyLevel);
        }
        Ok(self.scaled(full.0 as f64 / level.0 as f64, full.1 as f64 / level.1 as f64))
    }

    /// Returns the transform of pixels that are `x` times as wide and `y` times as high, with the same outer
    /// corner.
    pub fn scaled(&self, x: f64, y: f64) -> Self {
        let t = &self.0;
        Self([t[0], t[1] * x, t[2] * y, t[3], t[4] * x, t[5] * y])
    }

    /// Converts a transform whose coordinates are pixel centres to the corner-based transform.
    pub fn from_centres(&self) -> Self {
        let t = &self.0;
        // This order of operations returns exactly the same bits as GDAL.
        Self([t[0] - (t[1] * 0.5 + t[2] * 0.5), t[1], t[2], t[3] - (t[4] * 0.5 + t[5] * 0.5), t[4], t[5]])
    }

    /// Returns the transform whose coordinates are pixel centres of this grid.
    /// [`from_centres`](Self::from_centres) returns this transform again, exact to the last bit if a number
    /// exists for which it does.
    pub fn to_centres(&self) -> Self {
        let t = &self.0;
        Self([moved(t[0], t[1] * 0.5 + t[2] * 0.5), t[1], t[2], moved(t[3], t[4] * 0.5 + t[5] * 0.5), t[4], t[5]])
    }

    /// Whether the rows or columns are not parallel to the axes.
    pub fn is_rotated(&self) -> bool {
        self.0[2] != 0.0 || self.0[4] != 0.0
    }

    /// Whether this is the identity, which some programs write for files without georeferencing.
    pub fn is_identity(&self) -> bool {
        *self == Self::IDENTITY
    }

    /// Whether every coefficient is finite.
    pub fn is_finite(&self) -> bool {
        self.0.iter().all(|v| v.is_finite())
    }

    /// Returns (min x, min y, max x, max y) of a raster of this size, whatever the direction of its axes.
    pub fn bounds(&self, width: u64, height: u64) -> (f64, f64, f64, f64) {
        let (w, h) = (width as f64, height as f64);
        let corners = [self.apply(0.0, 0.0), self.apply(w, 0.0), self.apply(0.0, h), self.apply(w, h)];
        corners
            .iter()
            .fold((f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY), |(x0, y0, x1, y1), &(x, y)| {
                (x0.min(x), y0.min(y), x1.max(x), y1.max(y))
            })
    }
}

/// Returns the number nearest to `origin + half` from which subtracting `half` returns `origin`. The sum is
/// rounded, so often only a neighbour of the sum has that property. If a power of two lies between the two,
/// such a number may not exist, and the function returns the sum.
fn moved(origin: f64, half: f64) -> f64 {
    let sum = origin + half;
    let candidates = [sum, sum.next_up(), sum.next_down()];
    candidates.into_iter().find(|candidate| candidate - half == origin).unwrap_or(sum)
}

/// The values of the model tags in the file.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RawGeoref<'a> {
    /// ModelPixelScale (33550).
    pub scale: &'a [f64],
    /// ModelTiepoint (33922).
    pub tiepoints: &'a [f64],
    /// ModelTransformation (34264).
    pub matrix: &'a [f64],
}

/// The georeferencing of the model tags.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Georef {
    /// The corner-based transform, after subtracting the half pixel of PixelIsPoint.
    pub transform: Option<GeoTransform>,
    /// The transform in the tags, without the half-pixel shift. Equal to `transform` for PixelIsArea.
    pub raw: Option<GeoTransform>,
    /// Ground control points, only if there is no transform.
    pub gcps: Vec<Gcp>,
    /// The area or point that the value of a pixel represents.
    pub raster_type: RasterType,
}

/// Reads the model tags with GDAL's precedence: a usable pixel scale, then a matrix of 16 numbers, then control
/// points.
///
/// * A pixel scale is used if its first two numbers are not zero. The sign of the second is ignored: rows
///   always run south, because writers of a negative scale meant that. The first tiepoint gives the origin,
///   even if there are several. Without a complete tiepoint the origin is (0, 0).
/// * A matrix is used only if it has exactly 16 numbers; its third row and column are ignored.
/// * NaN and infinity are kept: [`GeoTransform::is_finite`] detects them.
pub fn resolve(tags: RawGeoref<'_>, raster_type: RasterType) -> Georef {
    let raw = from_scale(tags.scale, tags.tiepoints).or_else(|| from_matrix(tags.matrix));
    let transform = match raster_type {
        RasterType::Area => raw,
        RasterType::Point => raw.map(|t| t.from_centres()),
    };
    let gcps = if transform.is_none() { gcp::from_tiepoints(tags.tiepoints, raster_type) } else { Vec::new() };
    Georef { transform, raw, gcps, raster_type }
}

/// Returns the model tags that [`resolve`] reads as this transform, or as these points if there is no
/// transform.
///
/// As in GDAL, a grid whose rows run south is written as a scale and a tiepoint, and every other grid as a
/// matrix. The tags can store either a transform or points: write the points of an image that has a transform
/// to a sidecar. The raster type is a GeoKey, and the caller writes it as one ([`GeoKeys`](super::GeoKeys)).
pub fn georef_tags(transform: Option<&GeoTransform>, gcps: &[Gcp], raster_type: RasterType) -> Vec<(Tag, Value)> {
    let Some(transform) = transform else {
        let tiepoints = gcp::to_tiepoints(gcps, raster_type);
        return if tiepoints.is_empty() { vec![] } else { vec![(Tag::MODEL_TIEPOINT, Value::Double(tiepoints))] };
    };
    let GeoTransform([x, a, b, y, d, e]) = match raster_type {
        RasterType::Area => *transform,
        RasterType::Point => transform.to_centres(),
    };
    // A scale of zero would be read as no transform, and a scale that is not finite as no origin.
    if b == 0.0 && d == 0.0 && a != 0.0 && a.is_finite() && e < 0.0 && e.is_finite() {
        return vec![
            (Tag::MODEL_PIXEL_SCALE, Value::Double(vec![a, -e, 0.0])),
            (Tag::MODEL_TIEPOINT, Value::Double(vec![0.0, 0.0, 0.0, x, y, 0.0])),
        ];
    }
    let matrix = vec![a, b, 0.0, x, d, e, 0.0, y, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    vec![(Tag::MODEL_TRANSFORMATION, Value::Double(matrix))]
}

fn from_scale(scale: &[f64], tiepoints: &[f64]) -> Option<GeoTransform> {
    let &[sx, sy, ..] = scale else { return None };
    if sx == 0.0 || sy == 0.0 {
        return None;
    }
    let sy = -sy.abs();
    let &[i, j, _, x, y, _, ..] = tiepoints else { return Some(GeoTransform([0.0, sx, 0.0, 0.0, 0.0, sy])) };
    Some(GeoTransform([x - i * sx, sx, 0.0, y - j * sy, 0.0, sy]))
}

fn from_matrix(matrix: &[f64]) -> Option<GeoTransform> {
    let &[a, b, _, c, d, e, _, f, _, _, _, _, _, _, _, _] = matrix else { return None };
    Some(GeoTransform([c, a, b, f, d, e]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIE: [f64; 6] = [2.0, 3.0, 0.0, 1000.0, 2000.0, 5.0];
    const MATRIX: [f64; 16] = [1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];

    fn read(scale: &[f64], tiepoints: &[f64], matrix: &[f64], raster_type: RasterType) -> Georef {
        resolve(RawGeoref { scale, tiepoints, matrix }, raster_type)
    }

    #[test]
    fn tiepoint_away_from_the_origin_gives_the_origin() {
        let got = read(&[10.0, 20.0, 0.0], &TIE, &[], RasterType::Area).transform;
        assert_eq!(got, Some(GeoTransform([980.0, 10.0, 0.0, 2060.0, 0.0, -20.0])));
    }

    #[test]
    fn pixel_is_point_shifts_half_a_pixel_and_keeps_the_raw_origin() {
        let got = read(&[10.0, 20.0, 0.0], &TIE, &[], RasterType::Point);
        assert_eq!(got.transform, Some(GeoTransform([975.0, 10.0, 0.0, 2070.0, 0.0, -20.0])));
        assert_eq!(got.raw, Some(GeoTransform([980.0, 10.0, 0.0, 2060.0, 0.0, -20.0])));
        let got = read(&[], &[], &MATRIX, RasterType::Point).transform;
        assert_eq!(got, Some(GeoTransform([1.5, 1.0, 2.0, 1.5, 4.0, 5.0])));
    }

    #[test]
    fn negative_y_scale_still_runs_south() {
        let got = read(&[10.0, -20.0, 0.0], &[0.0; 6], &[], RasterType::Area).transform;
        assert_eq!(got, Some(GeoTransform([0.0, 10.0, 0.0, 0.0, 0.0, -20.0])));
    }

    #[test]
    fn scale_takes_precedence_over_matrix_and_many_tiepoints() {
        let tie = [0.0, 0.0, 0.0, 1000.0, 2000.0, 0.0, 5.0, 4.0, 0.0, 1055.0, 1920.0, 0.0];
        let got = read(&[10.0, 20.0], &tie, &MATRIX, RasterType::Area);
        assert_eq!(got.transform, Some(GeoTransform([1000.0, 10.0, 0.0, 2000.0, 0.0, -20.0])));
        assert!(got.gcps.is_empty());
    }

    #[test]
    fn tiepoints_with_a_zero_scale_are_control_points() {
        for scale in [&[0.0, 20.0, 0.0][..], &[10.0, 0.0, 0.0], &[10.0]] {
            let got = read(scale, &TIE, &[], RasterType::Area);
            assert_eq!(got.transform, None);
            assert_eq!(got.gcps.len(), 1);
        }
    }

    #[test]
    fn matrix_of_a_wrong_length_is_ignored() {
        assert_eq!(read(&[], &[], &MATRIX[..15], RasterType::Area), Georef::default());
        assert_eq!(read(&[], &[], &[1.0; 20], RasterType::Area), Georef::default());
        assert!(read(&[], &[], &MATRIX, RasterType::Area).transform.is_some_and(|t| t.is_rotated()));
    }

    #[test]
    fn incomplete_tiepoint_gives_the_origin_zero() {
        let got = read(&[10.0, 20.0, 0.0], &[1.0, 2.0, 3.0], &[], RasterType::Area).transform;
        assert_eq!(got, Some(GeoTransform([0.0, 10.0, 0.0, 0.0, 0.0, -20.0])));
    }

    #[test]
    fn nan_scale_is_kept_and_reported() {
        let got = read(&[f64::NAN, 20.0, 0.0], &TIE, &[], RasterType::Area).transform.unwrap();
        assert!(!got.is_finite());
        assert_eq!(got.invert(), None);
    }

    /// Returns the georeferencing that a reader gets from the written tags.
    fn read_back(transform: Option<&GeoTransform>, gcps: &[Gcp], raster_type: RasterType) -> Georef {
        let tags = georef_tags(transform, gcps, raster_type);
        let doubles = |wanted| {
            let found = tags.iter().find(|(tag, _)| *tag == wanted);
            found.map_or(vec![], |(_, value)| match value {
                Value::Double(values) => values.clone(),
                other => panic!("{other:?}"),
            })
        };
        read(
            &doubles(Tag::MODEL_PIXEL_SCALE),
            &doubles(Tag::MODEL_TIEPOINT),
            &doubles(Tag::MODEL_TRANSFORMATION),
            raster_type,
        )
    }

    #[test]
    fn written_tags_are_those_of_gdal() {
        let tags = |t, raster_type| -> Vec<_> {
            georef_tags(Some(&GeoTransform(t)), &[], raster_type).into_iter().map(|(tag, _)| tag).collect()
        };
        let (scale, matrix) = ([Tag::MODEL_PIXEL_SCALE, Tag::MODEL_TIEPOINT], [Tag::MODEL_TRANSFORMATION]);
        assert_eq!(tags([5e5, 10.0, 0.0, 4e6, 0.0, -20.0], RasterType::Area), scale);
        assert_eq!(tags([5e5, -10.0, 0.0, 4e6, 0.0, -20.0], RasterType::Point), scale);
        assert_eq!(tags([5e5, 10.0, 0.0, 4e6, 0.0, 20.0], RasterType::Area), matrix);
        assert_eq!(tags([5e5, 10.0, 1.0, 4e6, 0.0, -20.0], RasterType::Area), matrix);
        assert_eq!(tags(GeoTransform::IDENTITY.0, RasterType::Point), matrix);
        assert_eq!(tags([5.0, 0.0, 0.0, 6.0, 0.0, -1.0], RasterType::Area), matrix);
        assert_eq!(tags([f64::NAN, f64::INFINITY, 0.0, 6.0, 0.0, -1.0], RasterType::Area), matrix);
        assert_eq!(georef_tags(None, &[], RasterType::Point), []);
        let point = georef_tags(Some(&GeoTransform([5e5, 10.0, 0.0, 4e6, 0.0, -20.0])), &[], RasterType::Point);
        assert_eq!(point[1].1, Value::Double(vec![0.0, 0.0, 0.0, 500_005.0, 3_999_990.0, 0.0]));
    }

    #[test]
    fn written_transforms_are_read_back_bit_for_bit() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut lost = 0;
        for round in 0..100_000 {
            let pixel = 10_f64.powf(next() * 8.0 - 5.0);
            let origin = |n: f64| pixel * 10_f64.powf(2.0 + n * 6.0);
            let mut t = [next() - 0.5, pixel, 0.0, next() - 0.5, 0.0, -pixel * (0.5 + next())];
            t[0] *= origin(next());
            t[3] *= origin(next());
            match round % 4 {
                0 => (t[2], t[4]) = (pixel * (next() - 0.5), pixel * (next() - 0.5)),
                1 => t[5] = -t[5],
                _ => {}
            }
            let transform = GeoTransform(t);
            assert_eq!(read_back(Some(&transform), &[], RasterType::Area).transform, Some(transform));
            let back = read_back(Some(&transform), &[], RasterType::Point).transform.unwrap();
            for i in [0, 3] {
                // Above a power of two the distance between numbers doubles, so the required number may not
                // exist.
                assert!((back.0[i] - t[i]).abs() <= 2.0 * f64::EPSILON * (t[i].abs() + pixel), "{t:?} {back:?}");
            }
            lost += u32::from(back != transform);
        }
        assert!(lost < 1000, "{lost} of 100,000 PixelIsPoint transforms changed");
    }

    #[test]
    fn written_control_points_are_read_back_for_areas_and_points() {
        let point = |pixel, line, x| Gcp { pixel, line, x, y: -2.5, z: 7.0, ..Gcp::default() };
        let gcps = [point(0.0, 0.5, 10.0), point(3.25, 4.0, 11.0)];
        for raster_type in [RasterType::Area, RasterType::Point] {
            assert_eq!(read_back(None, &gcps, raster_type).gcps, gcps);
            let both = read_back(Some(&GeoTransform::IDENTITY), &gcps, raster_type);
            assert_eq!((both.transform, both.gcps), (Some(GeoTransform::IDENTITY), vec![]));
        }
    }

    #[test]
    fn inverse_of_a_sheared_grid_returns_to_the_pixel() {
        let t = GeoTransform([-2301052.2, 27897.1, 10688.1, -1958391.5, 10153.7, -29365.3]);
        let (x, y) = t.apply(12.25, 7.5);
        let (col, row) = t.invert().unwrap().apply(x, y);
        assert!((col - 12.25).abs() < 1e-9 && (row - 7.5).abs() < 1e-9);
    }

    #[test]
    fn collapsed_grid_has_no_inverse() {
        assert_eq!(GeoTransform([0.0, 1.0, 2.0, 0.0, 2.0, 4.0]).invert(), None);
        assert_eq!(GeoTransform([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).invert(), None);
    }

    #[test]
    fn bounds_of_a_south_up_rotated_grid_are_ordered() {
        let t = GeoTransform([10.0, 0.0, 2.0, 20.0, 3.0, 0.0]);
        assert_eq!(t.bounds(4, 5), (10.0, 20.0, 20.0, 32.0));
    }

    #[test]
    fn overview_of_an_odd_size_covers_the_same_ground() {
        let t = GeoTransform([100.0, 2.0, 0.0, 50.0, 0.0, -2.0]);
        let level = t.level((101, 51), (51, 26)).unwrap();
        let (a, b) = (t.bounds(101, 51), level.bounds(51, 26));
        assert!((a.2 - b.2).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9);
        assert_eq!(t.level((101, 51), (0, 26)), Err(EmptyLevel));
        assert_eq!(t.window(3.0, 4.0), GeoTransform([106.0, 2.0, 0.0, 42.0, 0.0, -2.0]));
    }
}
