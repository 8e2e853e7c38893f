//! Findings: what is wrong, where, and how often.

use std::fmt;

use super::{Rule, Validation};
use crate::error::BlockName;

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The part of the image that breaks it.
    pub subject: Subject,
    /// The offset in the file, if the finding has one.
    pub offset: Option<u64>,
    /// The difference between the file and the rule.
    pub message: String,
}

impl fmt::Display for Finding {
    /// For example `tile (0, 3) of level 1 at offset 123: the leader says 5 bytes, the table 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The part of the file that a finding concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The file as a whole.
    File,
    /// A level (0 is the full resolution), or its mask.
    Level {
        /// The level.
        level: usize,
        /// True for its mask.
        mask: bool,
    },
    /// A tile or strip.
    Block(BlockName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::File => f.write_str("file"),
            Subject::Level { level: 0, mask: false } => f.write_str("full resolution"),
            Subject::Level { level: 0, mask: true } => f.write_str("mask"),
            Subject::Level { level, mask: false } => write!(f, "level {level}"),
            Subject::Level { level, mask: true } => write!(f, "mask of level {level}"),
            Subject::Block(block) => write!(f, "{block}"),
        }
    }
}

/// Collects findings. It counts all of them and keeps only the first ones of each rule, so that a file with
/// ten million wrong tiles needs no more memory than a file with ten.
#[derive(Default)]
pub(super) struct Findings {
    rules: Vec<(Rule, u64, Vec<Finding>)>,
}

impl Findings {
    pub(super) fn add(&mut self, rule: Rule, subject: Subject, offset: Option<u64>, message: impl FnOnce() -> String) {
        let place = match self.rules.iter().position(|(other, ..)| *other == rule) {
            Some(place) => place,
            None => {
                self.rules.push((rule, 0, Vec::new()));
                self.rules.len() - 1
            }
        };
        let (_, count, list) = &mut self.rules[place];
        *count += 1;
        if list.len() < Validation::MAX_LISTED {
            list.push(Finding { rule, subject, offset, message: message() });
        }
    }

    /// Returns the listed findings and the counts, in the order of the rules, errors first.
    pub(super) fn finish(mut self) -> (Vec<Finding>, Vec<(Rule, u64)>) {
        let place = |rule: Rule| Rule::ALL.iter().position(|other| *other == rule);
        self.rules.sort_by_key(|(rule, ..)| (rule.severity(), place(*rule)));
        let counts = self.rules.iter().map(|(rule, count, _)| (*rule, *count)).collect();
        (self.rules.into_iter().flat_map(|(_, _, list)| list).collect(), counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millions_of_findings_are_counted_but_not_kept() {
        let mut findings = Findings::default();
        for i in 0..1_000_000 {
            findings.add(Rule::TileLeader, Subject::File, Some(i), || i.to_string());
        }
        findings.add(Rule::FirstIfd, Subject::File, None, || "late".into());
        let (list, counts) = findings.finish();
        assert_eq!(counts, [(Rule::FirstIfd, 1), (Rule::TileLeader, 1_000_000)]);
        assert_eq!(list.len(), 1 + Validation::MAX_LISTED);
        assert_eq!(list[0].to_string(), "file: late");
        assert_eq!(list[10].to_string(), "file at offset 9: 9");
    }
}
