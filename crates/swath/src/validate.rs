//! Checks whether a file is a Cloud Optimized GeoTIFF and reports what is wrong and where.
//!
//! The check reads the directories, the block tables and, if the file declares them, the leaders and trailers
//! of blocks. It never reads a whole block. It reads tables in pieces, so ten million tiles need no more
//! memory than ten thousand.

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

/// The result of [`validate`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Validation {
    /// The violations, in the order of [`Rule::ALL`]; at most [`MAX_LISTED`](Validation::MAX_LISTED) findings
    /// per rule.
    pub findings: Vec<Finding>,
    /// The number of violations of each broken rule.
    pub counts: Vec<(Rule, u64)>,
    /// The levels of the image, the full resolution first, then their masks.
    pub levels: Vec<LevelSummary>,
    /// Whether the file has GDAL's ghost area.
    pub ghost_area: bool,
}

impl Validation {
    /// The most findings per rule that [`findings`](Validation::findings) lists. All are counted.
    pub const MAX_LISTED: usize = 10;

    /// Whether there is no error.
    pub fn is_valid(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Whether there is neither an error nor a warning.
    pub fn is_strictly_valid(&self) -> bool {
        self.is_valid() && self.count(Severity::Warning) == 0
    }

    /// The number of findings of a severity, including those that are not listed.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(rule, _)| rule.severity() == severity).map(|(_, count)| count).sum()
    }
}

/// A summary of one level or mask.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LevelSummary {
    /// The number of the level; 0 is the full resolution.
    pub level: usize,
    /// True for a mask.
    pub mask: bool,
    /// The offset of its IFD.
    pub ifd_offset: u64,
    /// How the level is stored.
    pub layout: ImageLayout,
    /// The number of stored blocks.
    pub stored_blocks: u64,
    /// The total size of the stored blocks in bytes.
    pub stored_bytes: u64,
}

/// Checks the first image of a file against the rules for Cloud Optimized GeoTIFF.
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
/// When the check is impossible: [`Error::Container`] when the first IFD is invalid, [`Error::Limit`] when
/// the file has more blocks than `Limits::max_blocks`, [`Error::Fetch`] when reading fails.
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

    if let Some(broken) = &dataset.chain().broken {
        findings.add(Rule::IfdChain, Subject::File, None, || broken.to_string());
    }
    let ghost = ghost::check(dataset, &parts, &mut findings)?;
    directories::check(dataset, &parts, &mut findings);
    if roles.images.len() > 1 {
        let others = roles.images.len() - 1;
        findings.add(Rule::OneImage, Subject::File, Some(roles.images[1].full.offset), || {
            format!(
                "{others} more {} stored at or after this offset and not checked",
                if others == 1 { "image is" } else { "images are" }
            )
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

/// A level or mask of the image under test.
struct Part<'a> {
    ifd: &'a Ifd,
    layout: ImageLayout,
    level: usize,
    mask: bool,
}

impl Part<'_> {
    /// Returns the number of a level. Overviews are numbered in file order; a mask has the number of the
    /// level of the same size.
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

    /// The number of blocks that have a table entry and that the grid needs. Both numbers are bounded: tables
    /// have at most `max_blocks` entries.
    fn blocks(&self) -> u64 {
        self.layout.grid.count().unwrap_or(0).min(self.layout.table.offsets().count)
    }
}
