//! A source that holds some bytes of a file in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use swath_io::{Source, Span};
use swath_tiff::ReadAt;

/// A source that holds some of its bytes in memory and reads only the others from the file.
#[derive(Debug)]
pub(crate) struct PrefetchedSource {
    under: Arc<dyn Source>,
    /// The spans of the file that are in memory, sorted by offset, each with its start in `bytes`.
    pieces: Vec<(Span, usize)>,
    bytes: Vec<u8>,
}

impl PrefetchedSource {
    /// Creates the source. `bytes` holds the contents of the spans, one after another.
    pub(crate) fn new(
        under: Arc<dyn Source>,
        spans: impl IntoIterator<Item = Span>,
        bytes: Vec<u8>,
    ) -> PrefetchedSource {
        let mut at = 0;
        let mut pieces: Vec<_> = spans
            .into_iter()
            .map(|span| {
                let start = at;
                at += span.len as usize;
                (span, start)
            })
            .collect();
        debug_assert_eq!(at, bytes.len(), "`bytes` has the total length of the spans");
        pieces.sort_by_key(|(span, _)| span.offset);
        PrefetchedSource { under, pieces, bytes }
    }
}

impl ReadAt for PrefetchedSource {
    fn size(&self) -> u64 {
        self.under.size()
    }

    fn read_at(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            // Blocks may overlap, so the span that starts last is not always the one that holds the range.
            let after = self.pieces.partition_point(|(span, _)| span.offset <= offset);
            let holds = |(span, _): &&(Span, usize)| offset < span.offset + span.len;
            let (here, rest) = match self.pieces[..after].iter().rev().find(holds) {
                Some((span, start)) => {
                    let inside = (offset - span.offset) as usize;
                    let len = out.len().min(span.len as usize - inside);
                    let (here, rest) = out.split_at_mut(len);
                    here.copy_from_slice(&self.bytes[start + inside..][..len]);
                    (len, rest)
                }
                None => {
                    let next = self.pieces.get(after).map_or(u64::MAX, |(span, _)| span.offset);
                    let len = usize::try_from(next - offset).map_or(out.len(), |gap| gap.min(out.len()));
                    let (here, rest) = out.split_at_mut(len);
                    self.under.read_at(offset, here)?;
                    (len, rest)
                }
            };
            offset += here as u64;
            out = rest;
        }
        Ok(())
    }
}

impl Source for PrefetchedSource {
    fn name(&self) -> String {
        self.under.name()
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> swath_io::Result<Option<Box<dyn Source>>> {
        self.under.sibling(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swath_io::Memory;

    #[test]
    fn prefetched_bytes_and_file_bytes_together_give_the_whole_file() {
        let file: Vec<u8> = (0..=255).collect();
        let spans = [(200, 20), (10, 30), (35, 40), (100, 0)].map(|(offset, len)| Span { offset, len });
        // The bytes in memory differ from the file, so that the test can tell where a byte came from.
        let bytes = spans.iter().flat_map(|span| &file[span.offset as usize..][..span.len as usize]).map(|byte| !byte);
        let held = PrefetchedSource::new(Arc::new(Memory::new(file.clone())), spans, bytes.collect());
        let mut out = vec![0; 256];
        held.read_at(0, &mut out).unwrap();
        for (at, (&found, &stored)) in out.iter().zip(&file).enumerate() {
            let inside = (10..75).contains(&at) || (200..220).contains(&at);
            assert_eq!(found, if inside { !stored } else { stored }, "{at}");
        }
        assert!(held.read_at(250, &mut [0; 7]).is_err());
    }
}
