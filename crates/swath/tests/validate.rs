//! Validates a COG with all features that `validate` checks, undamaged and damaged.

use std::sync::Arc;

use swath::io::Memory;
use swath::validate::{Rule, Severity};
use swath::{Dataset, Limits, validate};

const TEXT: &str = "LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n\
                    BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n MASK_INTERLEAVED_WITH_IMAGERY=YES\n";
const TILE: usize = 256;
const TABLES: usize = 1000;
const DATA: usize = 1200;

/// An image of 2 x 2 tiles and its mask, with one overview each, in a COG with a ghost area.
fn cog() -> Vec<u8> {
    let mut file = b"II*\0\0\0\0\0".to_vec();
    file.extend(format!("GDAL_STRUCTURAL_METADATA_SIZE={:06} bytes\n{TEXT}", TEXT.len()).bytes());
    file.resize(file.len().next_multiple_of(2), 0);
    let first_ifd = file.len() as u32;
    file[4..8].copy_from_slice(&first_ifd.to_le_bytes());

    // Data: the overview and its mask, then the tiles of the image, each followed by its mask tile.
    let slot = |i: usize| (DATA + i * (TILE + 8) + 4) as u32;
    let levels = [(0, 32, vec![2, 4, 6, 8]), (4, 32, vec![3, 5, 7, 9]), (1, 16, vec![0]), (5, 16, vec![1])];
    let mut tables = Vec::new();
    for (i, (kind, size, slots)) in levels.iter().enumerate() {
        let offsets: Vec<u32> = slots.iter().map(|&i| slot(i)).collect();
        let mut column = |values: &[u32]| match values {
            [one] => *one,
            _ => {
                let at = TABLES + tables.len();
                tables.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                at as u32
            }
        };
        let entries = [
            (254_u16, 1, *kind),
            (256, 1, *size),
            (257, 1, *size),
            (258, 1, 8),
            (259, 1, 1),
            (262, 1, if kind & 4 == 0 { 1 } else { 4 }),
            (322, 1, 16),
            (323, 1, 16),
            (324, slots.len() as u32, column(&offsets)),
            (325, slots.len() as u32, column(&vec![TILE as u32; slots.len()])),
        ];
        file.extend((entries.len() as u16).to_le_bytes());
        for (tag, count, value) in entries {
            file.extend(tag.to_le_bytes().into_iter().chain(4_u16.to_le_bytes()));
            file.extend(u32::to_le_bytes(count).into_iter().chain(u32::to_le_bytes(value)));
        }
        let next = if i + 1 < levels.len() { file.len() as u32 + 4 } else { 0 };
        file.extend(next.to_le_bytes());
    }
    assert!(file.len() <= TABLES && TABLES + tables.len() <= DATA);
    file.resize(TABLES, 0);
    file.extend(tables);
    file.resize(DATA, 0);
    for i in 0..10_u8 {
        file.extend((TILE as u32).to_le_bytes());
        file.extend((0..TILE).map(|at| (at as u8).wrapping_mul(i)));
        file.extend_from_within(file.len() - 4..);
    }
    file
}

fn rules(bytes: Vec<u8>) -> Vec<Rule> {
    let validation = validate(&Dataset::from_bytes(bytes).unwrap()).unwrap();
    let errors = validation.counts.iter().filter(|(rule, _)| rule.severity() == Severity::Error);
    errors.map(|(rule, _)| *rule).collect()
}

#[test]
fn undamaged_file_is_valid_and_summarised() {
    let validation = validate(&Dataset::from_bytes(cog()).unwrap()).unwrap();
    assert!(validation.is_valid() && validation.ghost_area, "{:?}", validation.findings);
    let levels: Vec<_> = validation.levels.iter().map(|level| (level.level, level.mask, level.stored_blocks)).collect();
    assert_eq!(levels, [(0, false, 4), (1, false, 1), (0, true, 4), (1, true, 1)]);
}

#[test]
fn one_wrong_byte_is_reported_at_its_offset() {
    let leader = DATA + 4 * (TILE + 8);
    for (at, rule) in
        [(leader, Rule::TileLeader), (leader - 1, Rule::TileTrailer), (leader + TILE + 3, Rule::TileTrailer)]
    {
        let mut bytes = cog();
        bytes[at] ^= 0x40;
        assert_eq!(rules(bytes), [rule], "byte {at}");
    }
}

#[test]
fn leader_is_little_endian_and_has_four_bytes() {
    let mut bytes = cog();
    let leader = DATA + 2 * (TILE + 8);
    bytes[leader..leader + 4].copy_from_slice(&(TILE as u32).to_be_bytes());
    assert_eq!(rules(bytes), [Rule::TileLeader]);
}

#[test]
fn blocks_beyond_the_limit_are_an_error_not_a_long_wait() {
    let mut limits = Limits::default();
    limits.max_blocks = 9;
    let dataset = Dataset::from_source(Arc::new(Memory::new(cog())), limits).unwrap();
    assert!(matches!(validate(&dataset), Err(swath::Error::Limit { value: 10, limit: 9, .. })));
}

#[test]
fn every_damaged_byte_gives_findings_or_an_error_and_never_a_panic() {
    let whole = cog();
    for at in 0..DATA + 20 {
        for value in [0, 1, 0x7f, 0xff, whole[at] ^ 0x10] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Ok(dataset) = Dataset::from_bytes(bytes) {
                let _ = validate(&dataset).map(|found| found.findings.iter().map(ToString::to_string).count());
            }
        }
    }
}

#[test]
fn file_cut_off_anywhere_is_not_valid() {
    let whole = cog();
    for len in (0..whole.len()).step_by(3) {
        let valid = Dataset::from_bytes(whole[..len].to_vec()).and_then(|dataset| validate(&dataset));
        assert!(valid.is_err() || valid.is_ok_and(|found| !found.is_valid()), "{len} bytes");
    }
}
