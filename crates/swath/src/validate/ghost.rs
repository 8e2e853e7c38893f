//! The ghost area: text that GDAL's COG driver writes after the header to declare properties that readers can
//! rely on.

use super::findings::{Findings, Subject};
use super::{Part, Rule};
use crate::dataset::Dataset;
use crate::error::{Error, Result};

const MARK: &[u8] = b"GDAL_STRUCTURAL_METADATA_SIZE=";
const MARK_END: &[u8] = b" bytes\n";
/// The mark, six digits, and the end of the mark.
const HEAD: usize = MARK.len() + 6 + MARK_END.len();

/// The defined keys, each with its defined values.
const KEYS: &[(&str, &[&str])] = &[
    ("LAYOUT", &["IFDS_BEFORE_DATA"]),
    ("BLOCK_ORDER", &["ROW_MAJOR"]),
    ("BLOCK_LEADER", &["SIZE_AS_UINT4"]),
    ("BLOCK_TRAILER", &["LAST_4_BYTES_REPEATED"]),
    ("KNOWN_INCOMPATIBLE_EDITION", &["NO", "YES"]),
    ("MASK_INTERLEAVED_WITH_IMAGERY", &["YES"]),
    ("INTERLEAVE", &["BAND", "TILE", "PIXEL"]),
];

/// The properties that the ghost area declares.
#[derive(Debug, Default)]
pub(super) struct Ghost {
    pub(super) present: bool,
    pub(super) row_major: bool,
    pub(super) leaders: bool,
    pub(super) trailers: bool,
    pub(super) masks_interleaved: bool,
    /// The offset at which the header and the ghost area end.
    pub(super) end: u64,
}

pub(super) fn check(dataset: &Dataset, parts: &[Part<'_>], findings: &mut Findings) -> Result<Ghost> {
    let start: u64 = if dataset.header().big { 16 } else { 8 };
    let first_ifd = dataset.header().first_ifd;
    let mut head = [0; HEAD];
    let source = dataset.source();
    let has_head = source.size() >= start + HEAD as u64;
    if has_head {
        read(dataset, start, &mut head)?;
    }
    let mut ghost = Ghost { end: start, ..Ghost::default() };
    let Some(rest) = head.strip_prefix(MARK).filter(|_| has_head) else {
        if first_ifd != start {
            findings.add(Rule::FirstIfd, Subject::File, Some(first_ifd), || {
                format!("the first IFD lies here instead of directly after the header, at {start}")
            });
        }
        return Ok(ghost);
    };
    ghost.present = true;
    let (digits, end) = rest.split_at(6);
    let size = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(size) = size.and_then(|text| text.parse::<u64>().ok()).filter(|_| end == MARK_END) else {
        findings.add(Rule::GhostSyntax, Subject::File, Some(start), || {
            "the ghost area does not start with its size in six digits".into()
        });
        return Ok(ghost);
    };
    ghost.end = start + HEAD as u64 + size;
    // IFDs start at even offsets.
    let expected = ghost.end.next_multiple_of(2);
    if first_ifd != expected {
        findings.add(Rule::FirstIfd, Subject::File, Some(first_ifd), || {
            format!("the first IFD lies here instead of directly after the ghost area, at {expected}")
        });
    }
    if ghost.end > source.size() {
        findings.add(Rule::GhostSyntax, Subject::File, Some(start), || {
            format!("the ghost area declares {size} bytes, but the file ends before that")
        });
        ghost.end = start;
        return Ok(ghost);
    }
    // A size of six digits is at most a megabyte.
    let mut text = vec![0; size as usize];
    read(dataset, start + HEAD as u64, &mut text)?;
    ghost.lines(&String::from_utf8_lossy(&text), start + HEAD as u64, findings);
    if ghost.masks_interleaved && !parts.iter().any(|part| part.mask) {
        findings.add(Rule::MaskDeclared, Subject::File, Some(start), || {
            "MASK_INTERLEAVED_WITH_IMAGERY=YES, but the file has no mask".into()
        });
    }
    Ok(ghost)
}

fn read(dataset: &Dataset, offset: u64, out: &mut [u8]) -> Result<()> {
    let len = out.len();
    dataset.source().read_at(offset, out).map_err(|source| Error::Container {
        file: dataset.name(),
        cause: swath_tiff::Error::Read { offset, len, cause: source },
    })
}

impl Ghost {
    fn lines(&mut self, text: &str, start: u64, findings: &mut Findings) {
        let mut layout = false;
        // GDAL writes a space after KNOWN_INCOMPATIBLE_EDITION=NO and its newline, so that YES fits in the
        // same place.
        for line in text.split('\n').map(str::trim).filter(|line| !line.is_empty()) {
            let shown = || line.chars().take(60).collect::<String>().escape_debug().to_string();
            let known = line.split_once('=').and_then(|(key, value)| {
                KEYS.iter().find(|(name, _)| *name == key).map(|(_, values)| (key, value, *values))
            });
            let Some((key, value, values)) = known else {
                findings.add(Rule::GhostKey, Subject::File, Some(start), || {
                    format!("'{}' is not a defined KEY=VALUE line of the ghost area", shown())
                });
                continue;
            };
            layout |= key == "LAYOUT";
            if !values.contains(&value) {
                findings.add(Rule::GhostValue, Subject::File, Some(start), || {
                    format!("'{}' is not defined; the value must be {}", shown(), values.join(" or "))
                });
                continue;
            }
            match (key, value) {
                ("BLOCK_ORDER", _) => self.row_major = true,
                ("BLOCK_LEADER", _) => self.leaders = true,
                ("BLOCK_TRAILER", _) => self.trailers = true,
                ("MASK_INTERLEAVED_WITH_IMAGERY", _) => self.masks_interleaved = true,
                ("KNOWN_INCOMPATIBLE_EDITION", "YES") => {
                    findings.add(Rule::Edition, Subject::File, Some(start), || {
                        "KNOWN_INCOMPATIBLE_EDITION=YES: another program changed the file after it became a COG; create the COG again"
                            .into()
                    });
                }
                _ => (),
            }
        }
        if !layout {
            findings.add(Rule::GhostValue, Subject::File, Some(start), || {
                "the ghost area does not declare LAYOUT=IFDS_BEFORE_DATA".into()
            });
        }
    }
}
