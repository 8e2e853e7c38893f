//! `swath validate`: checks whether a file is a valid Cloud Optimized GeoTIFF.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use swath::validate::{Finding, LevelSummary, Severity, Subject, Validation};

use crate::failure::Failure;
use crate::flags::OpenFlags;

/// Check whether a file is a valid Cloud Optimized GeoTIFF
///
/// Prints what is wrong and where. Checks the rules of GDAL's validate_cloud_optimized_geotiff --full-check=yes, of rio
/// cogeo validate and of OGC 21-026, and that no block lies outside the file or on top of other data. Reads directories,
/// block tables, leaders and trailers, and decodes no pixels. docs/validate.md lists the rules and describes the JSON.
///
/// Exit codes: 0 valid, 1 not valid or not readable.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath validate cog.tif
  swath validate cog.tif --strict
  swath validate cog.tif --json")]
pub(crate) struct Validate {
    /// The file to check.
    file: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Treat warnings as errors.
    ///
    /// rio cogeo validate --strict and the requirements of OGC 21-026 do the same.
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    open: OpenFlags,
}

impl Validate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let dataset = self.open.open(&self.file)?;
        let validation = swath::validate(&dataset)?;
        let valid = if self.strict { validation.is_strictly_valid() } else { validation.is_valid() };
        if self.json {
            let info = describe(&dataset.name(), &validation, valid, self.strict);
            let text = serde_json::to_string_pretty(&info).map_err(|error| Failure::Failed(error.to_string()))?;
            println!("{text}");
        } else {
            print!("{}", human(&validation, valid));
        }
        if valid { Ok(()) } else { Err(Failure::No) }
    }
}

/// The fields of the JSON, in the order in which they are printed.
fn describe(file: &str, validation: &Validation, valid: bool, strict: bool) -> Map<String, Value> {
    let of = |severity: Severity| -> Value {
        validation.findings.iter().filter(|finding| finding.rule.severity() == severity).map(finding_json).collect()
    };
    let counts = validation.counts.iter().map(|(rule, count)| (rule.id().to_owned(), json!(count)));
    let fields = json!({
        "file": file,
        "valid": valid,
        "strict": strict,
        "errors": of(Severity::Error),
        "warnings": of(Severity::Warning),
        "notes": of(Severity::Note),
        "counts": counts.collect::<Map<_, _>>(),
        "ghost_area": validation.ghost_area,
        "levels": validation.levels.iter().map(level_json).collect::<Vec<_>>(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn finding_json(finding: &Finding) -> Value {
    let (level, mask, tile, band) = match finding.subject {
        Subject::Level { level, mask } => (Some(level), mask, None, None),
        Subject::Block(block) => (Some(block.level), block.mask, Some([block.row, block.col]), block.band),
        _ => (None, false, None, None),
    };
    json!({
        "rule": finding.rule.id(),
        "authorities": finding.rule.authorities().iter().map(|authority| authority.name()).collect::<Vec<_>>(),
        "level": level,
        "mask": mask,
        "block": tile,
        "band": band,
        "offset": finding.offset,
        "message": finding.message,
        "text": finding.to_string(),
    })
}

fn level_json(level: &LevelSummary) -> Value {
    let grid = level.layout.grid;
    json!({
        "level": level.level,
        "mask": level.mask,
        "width": grid.width,
        "height": grid.height,
        "tiled": grid.tiled,
        "block": [grid.block_height, grid.block_width],
        "blocks": grid.count(),
        "stored_blocks": level.stored_blocks,
        "stored_bytes": level.stored_bytes,
        "compression": level.layout.compression.name(),
        "ifd_offset": level.ifd_offset,
    })
}

/// The result as text: one sentence, then one line for each finding.
fn human(validation: &Validation, valid: bool) -> String {
    let count = |number: u64, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    };
    let severities = [Severity::Error, Severity::Warning, Severity::Note];
    let totals: Vec<String> =
        severities.iter().filter_map(|&severity| count(validation.count(severity), severity.name())).collect();
    let mut facts = Vec::new();
    if valid {
        let levels = || validation.levels.iter().filter(|level| !level.mask);
        facts.push(count(levels().count() as u64 - 1, "overview").unwrap_or_else(|| "no overviews".into()));
        if let Some(full) = levels().next() {
            let grid = full.layout.grid;
            let kind = if grid.tiled { "tiles" } else { "strips" };
            facts.push(format!("{} x {} {kind}", grid.block_width, grid.block_height));
            facts.push(match full.layout.compression {
                swath::tiff::Compression::NONE => "uncompressed".into(),
                codec => codec.name().to_owned(),
            });
        }
    }
    facts.extend(totals);
    let mut text = format!("{}: {}\n", if valid { "valid COG" } else { "not a valid COG" }, facts.join(", "));

    let width = validation.counts.iter().map(|(rule, _)| rule.id().len()).max().unwrap_or(0);
    for (rule, total) in &validation.counts {
        let listed = || validation.findings.iter().filter(|finding| finding.rule == *rule);
        let start = format!("{:<9}{:<width$}", rule.severity().name(), rule.id());
        for finding in listed() {
            text += &format!("{start}  {finding}\n");
        }
        let more = total.saturating_sub(listed().count() as u64);
        if more > 0 {
            text += &format!("{start}  and {more} more\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use swath::tiff::{Builder, ByteOrder, Tag, Value as TagValue};

    fn striped() -> Validation {
        let mut builder = Builder::new(ByteOrder::Little, false);
        let data = builder.append(&[0; 30]);
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, TagValue::Short(vec![600])),
            (Tag::IMAGE_LENGTH, TagValue::Short(vec![13])),
            (Tag::ROWS_PER_STRIP, TagValue::Short(vec![1])),
            (Tag::STRIP_OFFSETS, TagValue::offsets(&[data.offset + 100_000; 13])),
            (Tag::STRIP_BYTE_COUNTS, TagValue::offsets(&[1; 13])),
        ]);
        swath::validate(&Dataset::from_bytes(builder.finish()).unwrap()).unwrap()
    }

    #[test]
    fn every_field_of_the_json_is_documented() {
        let info = describe("f", &striped(), false, false);
        let documentation = include_str!("../../../docs/validate.md");
        let fields = info.keys().chain(info["errors"][0].as_object().unwrap().keys());
        for field in fields.chain(info["levels"][0].as_object().unwrap().keys()) {
            assert!(documentation.contains(&format!("`{field}`")), "docs/validate.md does not describe {field}");
        }
    }

    #[test]
    fn repeated_findings_are_cut_and_counted() {
        let validation = striped();
        let text = human(&validation, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("not a valid COG: 15 errors, "), "{text}");
        assert_eq!(lines.iter().filter(|line| line.contains("block-inside")).count(), Validation::MAX_LISTED + 1);
        assert!(lines.iter().any(|line| line.starts_with("error") && line.ends_with("and 3 more")), "{text}");
    }
}
