//! Small text files beside an image that georeference it: world files and MapInfo tables.
//!
//! The sources of a transform or of ground control points have an order: PAM (`.aux.xml`), the tags inside the
//! file, a MapInfo table, a world file. The first source that has any replaces all later ones. The coordinate
//! system is searched in the same order, but independently, so a world file can locate an image whose tags
//! contain only the coordinate system.

use crate::geo::Gcp;
use crate::number;

/// The sources of a transform or of ground control points, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GeorefSource {
    /// The `.aux.xml` file.
    Pam,
    /// The tags of the image.
    Internal,
    /// A MapInfo `.tab` file.
    TabFile,
    /// A world file.
    WorldFile,
}

/// The reason why a text is not a valid world file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldFileError {
    /// The text has fewer than six lines that are not blank.
    #[error("the world file has {found} lines; 6 are required")]
    Lines {
        /// The number of lines that are not blank.
        found: usize,
    },
    /// The transform maps all pixels to one point or one line, or is not finite.
    #[error("the transform in the world file is degenerate or not finite")]
    Degenerate,
}

/// Parses a world file and returns GDAL's geotransform, which refers to the corner of the image, not to the
/// centre of its first pixel.
///
/// Each number is at the start of a line and has a dot or a comma as the decimal mark; any text may follow it.
/// Blank lines and lines after the sixth are ignored. Text in place of a number is 0, as in GDAL.
///
/// ```
/// let transform = swath_tiff::world_file::parse(b"10\n0\n0\n-10\n105\n195\n")?;
/// assert_eq!(transform, [100.0, 10.0, 0.0, 200.0, 0.0, -10.0]);
/// # Ok::<(), swath_tiff::world_file::WorldFileError>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<[f64; 6], WorldFileError> {
    let mut numbers = [0.0; 6];
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut lines = lines.filter(|line| line.iter().any(|byte| !byte.is_ascii_whitespace()));
    for (found, slot) in numbers.iter_mut().enumerate() {
        let line = lines.next().ok_or(WorldFileError::Lines { found })?;
        *slot = number::leading(&String::from_utf8_lossy(line), true).map_or(0.0, number::Leading::value);
    }
    let [a, d, b, e, x, y] = numbers;
    let moves_both_ways = (a != 0.0 && e != 0.0) || (b != 0.0 && d != 0.0);
    let transform = [x - 0.5 * a - 0.5 * b, a, b, y - 0.5 * d - 0.5 * e, d, e];
    if moves_both_ways && transform.iter().all(|number| number.is_finite()) {
        Ok(transform)
    } else {
        Err(WorldFileError::Degenerate)
    }
}

/// Returns the text of a world file for a geotransform.
pub fn format(transform: &[f64; 6]) -> String {
    let [x, a, b, y, d, e] = *transform;
    let numbers = [a, d, b, e, x + 0.5 * a + 0.5 * b, y + 0.5 * d + 0.5 * e];
    numbers.iter().map(|number| number::format_g17(*number) + "\n").collect()
}

/// Returns the possible names of the world file of this image, in GDAL's order: `.tfw`, `.tifw`, `.wld`, each
/// in lower and upper case. File systems and users differ in case, so compare these with the names in the
/// directory if you can list it.
pub fn candidates(file_name: &str) -> Vec<String> {
    let name_start = file_name.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    let (stem, extension) = match file_name.rfind('.') {
        Some(dot) if dot > name_start => (&file_name[..dot], &file_name[dot + 1..]),
        _ => (file_name, ""),
    };
    let mut extensions = Vec::new();
    if let (Some(first), Some(last)) = (extension.chars().next(), extension.chars().next_back()) {
        if extension.chars().nth(1).is_some() {
            extensions.push(format!("{first}{last}w"));
        }
        extensions.push(format!("{extension}w"));
    }
    extensions.push("wld".to_owned());
    let cases = |extension: String| [extension.to_lowercase(), extension.to_uppercase()];
    extensions.into_iter().flat_map(cases).map(|extension| format!("{stem}.{extension}")).collect()
}

/// The georeferencing of a raster in a MapInfo table.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TabFile {
    /// The control points.
    pub points: Vec<Gcp>,
    /// The `CoordSys` clause as written, including the word `CoordSys`.
    pub coord_sys: Option<String>,
}

impl TabFile {
    /// Parses the lines of a `.tab` file that describe a raster: `(x,y) (pixel,line) Label "name",` and
    /// `CoordSys`. Returns `None` if there is no control point.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut out = Self::default();
        for line in text.lines().map(str::trim) {
            if line.starts_with('(') {
                out.points.extend(tab_point(line));
            } else if line.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("CoordSys")) {
                out.coord_sys = Some(line.to_owned());
            }
        }
        (!out.points.is_empty()).then_some(out)
    }

    /// Returns the affine transform that fits the points best by least squares, as GDAL computes it for three
    /// or more points. Returns `None` for fewer points and for points on a line.
    pub fn geo_transform(&self) -> Option<[f64; 6]> {
        match self.points.as_slice() {
            [] | [_] | [_, _] => return None,
            [first, second, third] => return through(first, second, third),
            _ => {}
        }
        // Coordinates relative to the centre keep digits that large coordinates would lose.
        let count = self.points.len() as f64;
        let mean = |value: fn(&Gcp) -> f64| self.points.iter().map(value).sum::<f64>() / count;
        let (pixel, line, x, y) = (mean(|p| p.pixel), mean(|p| p.line), mean(|p| p.x), mean(|p| p.y));
        let [mut pp, mut pl, mut ll, mut px, mut lx, mut py, mut ly] = [0.0; 7];
        for point in &self.points {
            let (p, l) = (point.pixel - pixel, point.line - line);
            pp += p * p;
            pl += p * l;
            ll += l * l;
            px += p * (point.x - x);
            lx += l * (point.x - x);
            py += p * (point.y - y);
            ly += l * (point.y - y);
        }
        let determinant = pp * ll - pl * pl;
        if determinant.abs() <= 1e-12 * pp * ll || !determinant.is_finite() {
            return None;
        }
        let a = (px * ll - lx * pl) / determinant;
        let b = (lx * pp - px * pl) / determinant;
        let d = (py * ll - ly * pl) / determinant;
        let e = (ly * pp - py * pl) / determinant;
        let transform = [x - a * pixel - b * line, a, b, y - d * pixel - e * line, d, e];
        transform.iter().all(|number| number.is_finite()).then_some(transform)
    }
}

/// Returns the transform that maps three points exactly, without the rounding of a least squares fit.
fn through(first: &Gcp, second: &Gcp, third: &Gcp) -> Option<[f64; 6]> {
    let (p1, l1, p2, l2) =
        (second.pixel - first.pixel, second.line - first.line, third.pixel - first.pixel, third.line - first.line);
    let determinant = p1 * l2 - p2 * l1;
    if determinant.abs() <= 1e-12 * (p1.hypot(l1) * p2.hypot(l2)) {
        return None;
    }
    let solve = |value: fn(&Gcp) -> f64| {
        let (v1, v2) = (value(second) - value(first), value(third) - value(first));
        let (by_pixel, by_line) = ((v1 * l2 - v2 * l1) / determinant, (v2 * p1 - v1 * p2) / determinant);
        [value(first) - by_pixel * first.pixel - by_line * first.line, by_pixel, by_line]
    };
    let ([c, a, b], [f, d, e]) = (solve(|point| point.x), solve(|point| point.y));
    let transform = [c, a, b, f, d, e];
    transform.iter().all(|number| number.is_finite()).then_some(transform)
}

fn tab_point(line: &str) -> Option<Gcp> {
    let pair = |text: &str| {
        let (first, second) = text.split_once(',')?;
        Some((number::leading_f64(first)?, number::leading_f64(second)?))
    };
    let (ground, rest) = line.strip_prefix('(')?.split_once(')')?;
    let (image, rest) = rest.split_once('(')?.1.split_once(')')?;
    let ((x, y), (pixel, line)) = (pair(ground)?, pair(image)?);
    let id = rest.split('"').nth(1).unwrap_or_default().to_owned();
    Some(Gcp { id, info: String::new(), pixel, line, x, y, z: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_points_give_the_transform_without_rounding() {
        let text = b"(440720,3751320) (0,0) Label \"1\",\n(441320,3751320) (10,0) Label \"2\",\n(440720,3750120) (0,20) Label \"3\"";
        let transform = TabFile::parse(text).and_then(|tab| tab.geo_transform());
        assert_eq!(transform, Some([440_720.0, 60.0, 0.0, 3_751_320.0, 0.0, -60.0]));
    }

    const SKEWED: [f64; 6] = [94.0, 10.0, 2.0, 209.5, 1.0, -20.0];

    #[test]
    fn every_layout_that_gdal_accepts_is_read() {
        for text in [
            "10\n1\n2\n-20\n100\n200",
            "10\r\n1\r\n2\r\n-20\r\n100\r\n200\r\n",
            "10\r1\r2\r-20\r100\r200\r",
            "\n 10 junk\n\n\t+1\n2;\n-2E1\n1e2\n200\ntrail\nmore",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(SKEWED), "{text:?}");
        }
        assert_eq!(parse(b"10,5\n0\n0\n-20,125\n100\n200\n").map(|t| (t[1], t[5])), Ok((10.5, -20.125)));
    }

    #[test]
    fn degenerate_transforms_are_refused() {
        for text in
            ["0\n0\n0\n0\n1\n2", "1\n0\n0\n0\n5\n5", "0\n1\n0\n0\n1\n1", "nan\n1\n2\n3\n4\n5", "1\n0\n0\n1\ninf\n0"]
        {
            assert_eq!(parse(text.as_bytes()), Err(WorldFileError::Degenerate), "{text:?}");
        }
        assert_eq!(parse(b"10 1 2 -20 100 200"), Err(WorldFileError::Lines { found: 1 }));
        assert_eq!(parse(b""), Err(WorldFileError::Lines { found: 0 }));
        assert!(parse(b"0\n1\n2\n0\n100\n200\n").is_ok());
    }

    #[test]
    fn names_follow_the_extension() {
        assert_eq!(candidates("d.x/a.tif"), ["tfw", "TFW", "tifw", "TIFW", "wld", "WLD"].map(|e| format!("d.x/a.{e}")));
        assert_eq!(candidates("a.TIFF")[..4], ["a.tfw", "a.TFW", "a.tiffw", "a.TIFFW"]);
        assert_eq!(candidates("d.x/a"), ["d.x/a.wld", "d.x/a.WLD"]);
        assert_eq!(candidates("")[0], ".wld");
        assert!(candidates("a.é").contains(&"a.éw".to_owned()));
    }

    #[test]
    fn written_world_file_reads_back() {
        assert_eq!(parse(format(&SKEWED).as_bytes()), Ok(SKEWED));
    }

    #[test]
    fn mapinfo_points_become_a_transform() {
        let tab = "!table\n  Type \"RASTER\"\n  (105,200) (0,0) Label \"Pt 1\",\n  (205,210) (10,0) Label \"Pt 2\",\n  \
                   (195,110) (10,10) Label \"Pt 3\"\n  CoordSys Earth Projection 8, 104\n";
        let tab = TabFile::parse(tab.as_bytes()).expect("the table has points");
        assert_eq!(tab.coord_sys.as_deref(), Some("CoordSys Earth Projection 8, 104"));
        assert_eq!((tab.points[1].id.as_str(), tab.points[1].x, tab.points[1].pixel), ("Pt 2", 205.0, 10.0));
        let transform = tab.geo_transform().expect("three points");
        for (found, expected) in transform.iter().zip([105.0, 10.0, -1.0, 200.0, 1.0, -10.0]) {
            assert!((found - expected).abs() < 1e-9, "{transform:?}");
        }
    }

    #[test]
    fn points_on_a_line_give_no_transform() {
        let tab = "(1,1) (1,1) x\n(2,2) (2,2) x\n(3,3) (3,3) x\n";
        assert_eq!(TabFile::parse(tab.as_bytes()).and_then(|tab| tab.geo_transform()), None);
        assert_eq!(TabFile::parse(b"(1,1) (1\n(a,b) (c,d)\n"), None);
    }

    #[test]
    fn mutated_files_never_panic() {
        crate::mutate::each(b"10.5\n1\n2\n-20,5\n1e2\n200\n", 20_000, |bytes| {
            let _ = parse(bytes);
        });
        crate::mutate::each(b"(1,2) (3,4) Label \"P\",\n(5,7) (9,1) \nCoordSys x\n(1,1) (0,0)", 20_000, |bytes| {
            let _ = TabFile::parse(bytes).map(|tab| tab.geo_transform());
        });
    }
}
