//! Finds blocks that overlap each other or the directories.

use swath_io::Span;

use super::blocks::Extent;
use super::file_order::{KEPT, Merge, Passes, Piece};
use super::findings::Findings;
use super::ghost::Ghost;
use super::{Part, Rule, Subject};
use crate::dataset::Dataset;

pub(super) fn check(dataset: &Dataset, parts: &[Part<'_>], ghost: &Ghost, extents: &[Extent], findings: &mut Findings) {
    let structures = structures(dataset, ghost);
    let ascending = extents.iter().all(|extent| extent.ascending);
    match Merge::new(dataset, parts).filter(|_| ascending) {
        Some(pieces) => sweep(pieces, &structures, parts, findings),
        None => sweep(Passes::new(KEPT, dataset, parts), &structures, parts, findings),
    }
}

/// Checks the blocks in file order.
fn sweep(pieces: impl Iterator<Item = Piece>, structures: &[Span], parts: &[Part<'_>], findings: &mut Findings) {
    let name = |piece: &Piece| -> Subject { parts[piece.part].block(piece.index) };
    let on_structure = |block: &Piece, offset: u64, findings: &mut Findings| {
        findings.add(Rule::BlockOverlap, name(block), Some(offset), || {
            "it overlaps the header, an IFD or the values of a tag".into()
        });
    };
    let mut structures = structures.iter().peekable();
    let mut structure_end = 0;
    // The block that reaches furthest is the only one that the next block needs to be compared with.
    let mut furthest: Option<Piece> = None;
    for piece in pieces {
        while let Some(structure) = structures.next_if(|structure| structure.offset <= piece.offset) {
            if let Some(block) = furthest.filter(|block| structure.offset < block.end) {
                on_structure(&block, structure.offset, findings);
            }
            structure_end = structure_end.max(structure.offset.saturating_add(structure.len));
        }
        if piece.offset < structure_end {
            on_structure(&piece, piece.offset, findings);
        }
        match furthest {
            Some(before) if (before.offset, before.end) == (piece.offset, piece.end) => {
                findings.add(Rule::BlockShared, name(&piece), Some(piece.offset), || {
                    format!("it shares its bytes with {}", name(&before))
                });
            }
            Some(before) if piece.offset < before.end => {
                findings.add(Rule::BlockOverlap, name(&piece), Some(piece.offset), || {
                    format!("it starts within {}, which ends at {}", name(&before), before.end)
                });
            }
            _ => (),
        }
        if furthest.is_none_or(|before| piece.end >= before.end) {
            furthest = Some(piece);
        }
    }
    for structure in structures {
        if let Some(block) = furthest.filter(|block| structure.offset < block.end) {
            on_structure(&block, structure.offset, findings);
        }
    }
}

/// The byte ranges that blocks must not overlap, in file order: the header, the IFDs and the values of tags.
fn structures(dataset: &Dataset, ghost: &Ghost) -> Vec<Span> {
    let mut spans = vec![Span { offset: 0, len: ghost.end }];
    let (fixed, entry_bytes) = if dataset.header().big { (16, 20) } else { (6, 12) };
    for link in &dataset.chain().links {
        for ifd in std::iter::once(&link.ifd).chain(&link.subs) {
            spans.push(Span { offset: ifd.offset, len: fixed + entry_bytes * ifd.entries.len() as u64 });
            let outside = ifd.entries.iter().filter(|entry| !entry.is_inline());
            spans.extend(outside.filter_map(|entry| Some(Span { offset: entry.offset(), len: entry.byte_len()? })));
        }
    }
    spans.retain(|span| span.len > 0);
    spans.sort_unstable_by_key(|span| (span.offset, span.len));
    spans
}

#[cfg(test)]
mod tests {
    use swath_tiff::{Builder, ByteOrder, ImageLayout, Tag, Value};

    use super::*;
    use crate::validate::Validation;

    /// Checks a row of one-pixel-high tiles with the given table entries, in a file of 4 KiB.
    fn rules(kept: Option<usize>, spans: &[(u64, u64)]) -> (Vec<(Rule, u64)>, Vec<String>) {
        let (offsets, counts): (Vec<u64>, Vec<u64>) = spans.iter().copied().unzip();
        let mut builder = Builder::new(ByteOrder::Little, false);
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, Value::Long(vec![16 * spans.len() as u32])),
            (Tag::IMAGE_LENGTH, Value::Short(vec![16])),
            (Tag::TILE_WIDTH, Value::Short(vec![16])),
            (Tag::TILE_LENGTH, Value::Short(vec![16])),
            (Tag::TILE_OFFSETS, Value::offsets(&offsets)),
            (Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)),
        ]);
        let mut bytes = builder.finish();
        assert!(bytes.len() < 1000, "the blocks start at 1000");
        bytes.resize(4096, 0);
        let dataset = Dataset::from_bytes(bytes).unwrap();
        let ifd = &dataset.chain().links[0].ifd;
        let layout = ImageLayout::read(ifd, dataset.source().as_ref(), dataset.limits()).unwrap();
        let part = Part { ifd, layout, level: 0, mask: false };
        let mut findings = Findings::default();
        let structures = structures(&dataset, &Ghost { end: 8, ..Ghost::default() });
        let parts = [part];
        match kept {
            Some(kept) => sweep(Passes::new(kept, &dataset, &parts), &structures, &parts, &mut findings),
            None => sweep(Merge::new(&dataset, &parts).unwrap(), &structures, &parts, &mut findings),
        }
        let (list, counts) = findings.finish();
        (counts, list.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn overlaps_are_found_in_any_order_and_with_any_memory() {
        let apart: Vec<(u64, u64)> = (0..30).map(|i| (1000 + (i * 7 % 30) * 100, 100)).collect();
        for kept in [1, 2, 3, 7, 100] {
            assert_eq!(rules(Some(kept), &apart).0, [], "keeping {kept}");
            for moved in 0..30 {
                let mut spans = apart.clone();
                spans[moved].1 = 101;
                let expected: &[(Rule, u64)] = if spans[moved].0 == 3900 { &[] } else { &[(Rule::BlockOverlap, 1)] };
                assert_eq!(rules(Some(kept), &spans).0, expected, "keeping {kept}, block {moved}");
            }
        }
    }

    #[test]
    fn blocks_at_one_offset_are_compared_even_when_a_pass_ends_there() {
        let mut spans: Vec<(u64, u64)> = (0..20).map(|i| (1000 + i * 100, 100)).collect();
        spans.push((1500, 90));
        spans.push((1900, 100));
        for kept in [2, 3, 5, 10, 15, 100] {
            assert_eq!(
                rules(Some(kept), &spans).0,
                [(Rule::BlockOverlap, 1), (Rule::BlockShared, 1)],
                "keeping {kept}"
            );
        }
    }

    #[test]
    fn blocks_in_order_are_compared_in_one_pass() {
        let mut spans: Vec<(u64, u64)> = (0..20).map(|i| (1000 + i * 100, 100)).collect();
        assert_eq!(rules(None, &spans).0, []);
        spans[7].1 = 101;
        spans[12] = spans[11];
        assert_eq!(rules(None, &spans), rules(Some(100), &spans));
        assert_eq!(rules(None, &spans).0, [(Rule::BlockOverlap, 1), (Rule::BlockShared, 1)]);
    }

    #[test]
    fn block_on_header_ifd_or_table_is_named() {
        for offset in [4, 8, 300] {
            let (counts, texts) = rules(Some(100), &[(offset, 4); 40]);
            assert_eq!(counts[0], (Rule::BlockOverlap, 40), "offset {offset}");
            assert!(texts[0].contains("IFD"), "{}", texts[0]);
        }
        // One block that overlaps everything.
        assert!(rules(Some(100), &[(1, 4000)]).0[0].1 >= 1);
    }

    #[test]
    fn many_findings_are_all_counted() {
        let (counts, texts) = rules(Some(4), &[(1000, 10); 60]);
        assert_eq!(counts[0].0, Rule::BlockShared);
        assert!(texts.len() <= Validation::MAX_LISTED);
    }
}
