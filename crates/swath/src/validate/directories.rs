//! The rules for directories and their tags: tiles, overviews, masks, georeferencing.

use swath_tiff::{BlockGrid, Tag};

use super::findings::{Findings, Subject};
use super::{Part, Rule};
use crate::dataset::Dataset;

/// Images up to this width and height need neither tiles nor overviews, because readers fetch them whole.
const SMALL: u64 = 512;
/// The end of the range that the offsets of a classic TIFF can address.
const CLASSIC_MAX: u64 = 1 << 32;

pub(super) fn check(dataset: &Dataset, parts: &[Part<'_>], findings: &mut Findings) {
    for part in parts {
        tiles(part, findings);
    }
    overviews(dataset, parts, findings);
    masks(dataset, parts, findings);
    order(parts, findings);
    georeferencing(dataset, parts, findings);

    let size = dataset.source().size();
    if size < CLASSIC_MAX && dataset.header().big {
        findings.add(Rule::BigTiff, Subject::File, None, || {
            format!("it is a BigTIFF of only {size} bytes, and some readers do not support BigTIFF")
        });
    }
    if size > CLASSIC_MAX && !dataset.header().big {
        findings.add(Rule::BigTiffNeeded, Subject::File, None, || format!("{size} bytes in a classic TIFF"));
    }
}

fn is_large(grid: &BlockGrid) -> bool {
    grid.width.max(grid.height) > SMALL
}

fn tiles(part: &Part<'_>, findings: &mut Findings) {
    let grid = part.layout.grid;
    let place = Some(part.ifd.offset);
    if !grid.tiled {
        let rule = if is_large(&grid) && !part.mask { Rule::Tiled } else { Rule::TiledSmall };
        findings.add(rule, part.subject(), place, || {
            format!("{} x {} pixels in strips of {} rows", grid.width, grid.height, grid.block_height)
        });
        return;
    }
    let (width, height) = (grid.block_width, grid.block_height);
    if width != height {
        findings.add(Rule::SquareTiles, part.subject(), place, || format!("tiles of {width} x {height} pixels"));
    } else if ![256, 512, 1024].contains(&width) {
        findings.add(Rule::TileSize, part.subject(), place, || format!("tiles of {width} x {height} pixels"));
    }
}

fn overviews(dataset: &Dataset, parts: &[Part<'_>], findings: &mut Findings) {
    let levels: Vec<&Part<'_>> = parts.iter().filter(|part| !part.mask).collect();
    if !dataset.sidecars().overviews.is_empty() {
        findings
            .add(Rule::ExternalOverviews, Subject::File, None, || "overviews lie in an .ovr beside the file".into());
    }
    let full = levels[0].layout.grid;
    if levels.len() == 1 && is_large(&full) {
        findings.add(Rule::Overviews, levels[0].subject(), Some(levels[0].ifd.offset), || {
            format!("{} x {} pixels without overviews", full.width, full.height)
        });
    }
    for pair in levels.windows(2) {
        let (before, level) = (pair[0].layout.grid, pair[1].layout.grid);
        let sizes = || {
            format!(
                "{} x {} pixels, the level before has {} x {}",
                level.width, level.height, before.width, before.height
            )
        };
        let larger = level.width > before.width || level.height > before.height;
        let place = Some(pair[1].ifd.offset);
        if larger || (level.width, level.height) == (before.width, before.height) {
            findings.add(Rule::OverviewSize, pair[1].subject(), place, sizes);
            continue;
        }
        // Compare the longer side: the shorter side of a thin image cannot shrink below one pixel. Writers
        // may round sizes up or down.
        let (long, longer) =
            if before.width >= before.height { (level.width, before.width) } else { (level.height, before.height) };
        if long > longer.div_ceil(2) || long < longer / 10 {
            findings.add(Rule::OverviewFactor, pair[1].subject(), place, sizes);
        }
    }
    if let Some(last) = levels.last().filter(|last| levels.len() > 1 && last.layout.grid.tiled) {
        let grid = last.layout.grid;
        if grid.across() > 1 && grid.down() > 1 {
            findings.add(Rule::LastOverview, last.subject(), Some(last.ifd.offset), || {
                format!("{} x {} tiles", grid.across(), grid.down())
            });
        }
    }
}

fn masks(dataset: &Dataset, parts: &[Part<'_>], findings: &mut Findings) {
    if !parts.iter().any(|part| part.mask) {
        if !dataset.sidecars().masks.is_empty() {
            findings.add(Rule::ExternalMask, Subject::File, None, || "the mask lies in a .msk beside the file".into());
        }
        return;
    }
    for level in parts.iter().filter(|part| !part.mask) {
        let grid = level.layout.grid;
        let fits = |mask: &Part<'_>| {
            (mask.layout.grid.width, mask.layout.grid.height) == (grid.width, grid.height) && mask.mask
        };
        if !parts.iter().any(fits) {
            findings.add(Rule::MaskOverviews, level.subject(), Some(level.ifd.offset), || {
                "it has no mask of its size, but another level has one".into()
            });
        }
    }
}

/// Checks the order of directories in the file: image, mask, overviews, masks of overviews.
fn order(parts: &[Part<'_>], findings: &mut Findings) {
    let levels: Vec<&Part<'_>> = parts.iter().filter(|part| !part.mask).collect();
    for pair in levels.windows(2).filter(|pair| pair[1].ifd.offset < pair[0].ifd.offset) {
        findings.add(Rule::IfdOffsets, pair[1].subject(), Some(pair[1].ifd.offset), || {
            format!("its IFD lies before the IFD of the larger level, which is at {}", pair[0].ifd.offset)
        });
    }
    let rank = |part: &Part<'_>| (part.level > 0, part.mask, part.level);
    let mut ranked: Vec<&Part<'_>> = parts.iter().collect();
    ranked.sort_by_key(|part| rank(part));
    let strayed =
        ranked.windows(2).find(|pair| pair[1].ifd.offset < pair[0].ifd.offset && (pair[0].mask || pair[1].mask));
    if let Some(pair) = strayed {
        findings.add(Rule::IfdOrder, pair[1].subject(), Some(pair[1].ifd.offset), || {
            format!("its IFD lies before the IFD of the {}, which is at {}", pair[0].subject(), pair[0].ifd.offset)
        });
    }
}

fn georeferencing(dataset: &Dataset, parts: &[Part<'_>], findings: &mut Findings) {
    const TAGS: [Tag; 4] =
        [Tag::MODEL_PIXEL_SCALE, Tag::MODEL_TIEPOINT, Tag::MODEL_TRANSFORMATION, Tag::GEO_KEY_DIRECTORY];
    for part in parts {
        let fields = part.ifd.fields(dataset.source().as_ref(), dataset.limits());
        let has = |tag: Tag| fields.entry(tag).is_some();
        let place = Some(part.ifd.offset);
        if part.level > 0 || part.mask {
            if let Some(tag) = TAGS.into_iter().find(|&tag| has(tag)) {
                findings.add(Rule::OverviewGeoreference, part.subject(), place, || format!("it has a {tag} tag"));
            }
            continue;
        }
        let placed = has(Tag::MODEL_TRANSFORMATION) || has(Tag::MODEL_PIXEL_SCALE) && has(Tag::MODEL_TIEPOINT);
        let missing = match (placed, has(Tag::GEO_KEY_DIRECTORY)) {
            (true, true) => continue,
            (true, false) => "it has a transform but no GeoKeyDirectory",
            (false, true) => "it has a GeoKeyDirectory but no pixel scale with a tie point, and no transformation",
            (false, false) => "it has no georeferencing tags",
        };
        findings.add(Rule::Georeferenced, part.subject(), place, || missing.into());
    }
}
