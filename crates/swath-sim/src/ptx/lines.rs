//! The lines of the kernels' C source from which the lines of the PTX were compiled.
//!
//! `make ptx` writes them to `kernels.lines`: a first line with the CRC-32 of the PTX, then for each file a line
//! with its name and lines with two numbers, where the code of a source line begins in the PTX and the source
//! line.

use std::fmt;

/// A line of a kernel file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The source lines of a PTX text.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceLines {
    files: Vec<String>,
    /// Lines of the PTX in ascending order, each with a file and a line of it.
    starts: Vec<(u32, usize, u32)>,
}

impl SourceLines {
    /// Parses a map. It is empty if the map was made for another PTX text.
    pub(crate) fn parse(map: &str, ptx: &str) -> SourceLines {
        let mut lines = SourceLines::default();
        let mut rows = map.lines();
        let checksum = rows.next().and_then(|head| head.rsplit(' ').next());
        if checksum != Some(format!("{:08x}", libdeflater::crc32(ptx.as_bytes())).as_str()) {
            return lines;
        }
        for row in rows {
            match row.split_once(' ').and_then(|(ptx, line)| Some((ptx.parse().ok()?, line.parse().ok()?))) {
                Some((ptx, line)) => lines.starts.push((ptx, lines.files.len().saturating_sub(1), line)),
                None => lines.files.push(row.to_owned()),
            }
        }
        lines.starts.sort_unstable();
        lines
    }

    /// Returns the source line of a line of the PTX.
    pub(crate) fn of(&self, ptx: u32) -> Option<SourceLine> {
        let after = self.starts.partition_point(|(start, ..)| *start <= ptx);
        let (_, file, line) = self.starts.get(after.checked_sub(1)?)?;
        Some(SourceLine { file: self.files.get(*file)?.clone(), line: *line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_another_text_are_not_used() {
        let ptx = "some text";
        let map = format!("crc32 {:08x}\na.c\n3 10\n9 12\nb.c\n5 7\n", libdeflater::crc32(ptx.as_bytes()));
        let lines = SourceLines::parse(&map, ptx);
        let at = |ptx| lines.of(ptx).map(|line| line.to_string());
        assert_eq!([at(2), at(3), at(4)], [None, Some("a.c:10".into()), Some("a.c:10".into())]);
        assert_eq!([at(6), at(100)], [Some("b.c:7".into()), Some("a.c:12".into())]);
        assert_eq!(SourceLines::parse(&map, "another text").of(5), None);
    }
}
