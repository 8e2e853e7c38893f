//! Is a file a Cloud Optimized GeoTIFF, and if not, what is wrong and where?
//!
//! Reads the directories, the block tables and, where the file says that it has them, the leaders and trailers of blocks; never a
//! whole block. Tables are walked in pieces, so that ten million tiles take no more memory than ten thousand.

mod blocks;
mod directories;
mod file_order;
mod findings;
mod ghost;
mod overlap;
mod rule;

use swath_tiff::{Ifd, ImageLayout, Roles};

pub use findings::{Finding, Subject};
pub use rule::{Authority, Rule, Severity};

use crate::dataset::Dataset;
use crate::error::{BlockName, Error, Result};
use findings::Findings;

/// What [`validate`] found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Validation {
    /// What is wrong, by rule in the order of [`Rule::ALL`]; at most [`MAX_LISTED`](Validation::MAX_LISTED) findings a rule.
    pub findings: Vec<Finding>,
    /// How often each broken rule is broken.
    pub counts: Vec<(Rule, u64)>,
    /// The levels of the image, the full resolution first, and their masks.
    pub levels: Vec<LevelSummary>,
    /// Whether the file has GDAL's ghost area.
    pub ghost_area: bool,
}

impl Validation {
    /// The most findings of a rule that are listed; all are counted.
    pub const MAX_LISTED: usize = 10;

    /// Whether there is no error.
    pub fn is_valid(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Whether there is neither an error nor a warning.
    pub fn is_strictly_valid(&self) -> bool {
        self.is_valid() && self.count(Severity::Warning) == 0
    }

    /// How many findings there are of a severity, those that are not listed included.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(rule, _)| rule.severity() == severity).map(|(_, count)| count).sum()
    }
}

/// One level or mask, as a summary shows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LevelSummary {
    /// 0 for the full resolution.
    pub level: usize,
    /// True for a mask.
    pub mask: bool,
    /// Where its IFD lies.
    pub ifd_offset: u64,
    /// How it is stored.
    pub layout: ImageLayout,
    /// Blocks that are stored.
    pub stored_blocks: u64,
    /// Their bytes.
    pub stored_bytes: u64,
}

/// Check the first image of a file against the rules of the Cloud Optimized GeoTIFF.
///
/// ```
/// use swath::tiff::{Builder, ByteOrder, Tag, Value};
/// use swath::validate::{Rule};
/// use swath::{Dataset, validate};
///
/// let mut file = Builder::new(ByteOrder::Little, false);
/// let data = file.append(&[0; 600]);
/// file.ifd(&[
///     (Tag::IMAGE_WIDTH, Value::Short(vec![600])),
///     (Tag::IMAGE_LENGTH, Value::Short(vec![1])),
///     (Tag::BITS_PER_SAMPLE, Value::Short(vec![8])),
///     (Tag::STRIP_OFFSETS, Value::offsets(&[data.offset])),
///     (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[data.len])),
/// ]);
/// let validation = validate(&Dataset::from_bytes(file.finish())?)?;
/// assert!(!validation.is_valid());
/// assert!(validation.findings.iter().any(|finding| finding.rule == Rule::Tiled));
/// # Ok::<(), swath::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be judged at all: [`Error::Container`] when its first IFD makes no sense, [`Error::Limit`] when it has
/// more blocks than `Limits::max_blocks`, [`Error::Fetch`] when reading fails.
pub fn validate(dataset: &Dataset) -> Result<Validation> {
    let mut findings = Findings::default();
    let source = dataset.source().as_ref();
    let roles = Roles::of(dataset.chain(), source, dataset.limits());
    let image = &roles.images[0];

    let full = ImageLayout::read(image.full, source, dataset.limits())
        .map_err(|cause| Error::Container { file: dataset.name(), cause })?;
    let mut parts = vec![Part { ifd: image.full, layout: full, level: 0, mask: false }];
    for (mask, ifds) in
        [(false, &image.overviews[..]), (true, image.mask.as_slice()), (true, &image.mask_overviews[..])]
    {
        for &ifd in ifds {
            match ImageLayout::read(ifd, source, dataset.limits()) {
                Ok(layout) => {
                    let level = Part::level_of(&parts, mask, &layout);
                    parts.push(Part { ifd, layout, level, mask });
                }
                Err(error) => findings.add(Rule::Readable, Subject::File, Some(ifd.offset), || error.to_string()),
            }
        }
    }

    let ghost = ghost::check(dataset, &parts, &mut findings)?;
    directories::check(dataset, &parts, &mut findings);
    if roles.images.len() > 1 {
        let others = roles.images.len() - 1;
        findings.add(Rule::OneImage, Subject::File, Some(roles.images[1].full.offset), || {
            format!("{others} more {} here or behind, not checked", if others == 1 { "image is" } else { "images are" })
        });
    }
    let extents = blocks::check(dataset, &parts, &ghost, &mut findings)?;
    blocks::check_order(dataset, &parts, &extents, &mut findings);
    overlap::check(dataset, &parts, &ghost, &extents, &mut findings);

    let levels = parts.iter().zip(&extents).map(|(part, extent)| LevelSummary {
        level: part.level,
        mask: part.mask,
        ifd_offset: part.ifd.offset,
        layout: part.layout.clone(),
        stored_blocks: extent.stored,
        stored_bytes: extent.bytes,
    });
    let levels = levels.collect();
    let (findings, counts) = findings.finish();
    Ok(Validation { findings, counts, levels, ghost_area: ghost.present })
}

/// A level or mask of the image that is checked.
struct Part<'a> {
    ifd: &'a Ifd,
    layout: ImageLayout,
    level: usize,
    mask: bool,
}

impl Part<'_> {
    /// Overviews are numbered as they come; a mask belongs to the level of its size.
    fn level_of(parts: &[Part<'_>], mask: bool, layout: &ImageLayout) -> usize {
        let same_size = |part: &&Part<'_>| {
            !part.mask && (part.layout.grid.width, part.layout.grid.height) == (layout.grid.width, layout.grid.height)
        };
        let before = parts.iter().filter(|part| part.mask == mask).count();
        if mask { parts.iter().find(same_size).map_or(before, |part| part.level) } else { before }
    }

    fn subject(&self) -> Subject {
        Subject::Level { level: self.level, mask: self.mask }
    }

    /// The name of a block.
    fn block_name(&self, index: u64) -> BlockName {
        let grid = self.layout.grid;
        let (plane, row, col) = grid.position(index);
        let band = (grid.planes > 1).then_some(plane);
        BlockName { tiled: grid.tiled, row, col, band, level: self.level, mask: self.mask }
    }

    fn block(&self, index: u64) -> Subject {
        Subject::Block(self.block_name(index))
    }

    /// Blocks that have an offset and should have one. Both numbers are bounded: tables have at most `max_blocks` entries.
    fn blocks(&self) -> u64 {
        self.layout.grid.count().unwrap_or(0).min(self.layout.table.offsets().count)
    }
}
