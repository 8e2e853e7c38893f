//! Blocks whose components are in separate planes, as image decoders return them.

use swath_gpu::{Block, Kernel};

use crate::files::Dice;
use crate::launch::{Given, bytes_of, launch};
use crate::subject::{Subject, same_pixels};

/// `PLACE_COMPONENTS` of `kernels/place.c`.
const COMPONENTS: u32 = 3;
const BLOCK: (usize, usize) = (7, 11);
const OUTPUT: (usize, usize) = (10, 14);
/// Bytes that no kernel writes keep this value.
const UNTOUCHED: u8 = 0xCC;
const FILL: u64 = 0x0807_0605_0403_0201;

/// Every sample size, any number of components, requested in any order and in either layout, at aligned and
/// unaligned addresses. Of three blocks, one is placed in part, one is sparse and one was refused.
pub(crate) fn components_in_planes_of_their_own_are_placed_as_pixels(subject: &Subject) {
    let mut dice = Dice::new(11);
    for size in [1, 2, 4].into_iter().take(subject.amount(3, 2)) {
        for samples in (1..=subject.amount(5, 3)).step_by(subject.amount(1, 2)) {
            let all: Vec<u32> = (0..samples as u32).collect();
            let reversed: Vec<u32> = all.iter().rev().copied().collect();
            for bands in [&all, &all[samples - 1..], &reversed, &all[..1]].into_iter().take(subject.amount(4, 2)) {
                for (bands_last, odd) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                    place(subject, &mut dice, size, samples, bands, bands_last, odd);
                }
            }
        }
    }
}

fn place(subject: &Subject, dice: &mut Dice, size: usize, samples: usize, bands: &[u32], bands_last: bool, odd: usize) {
    let (height, width) = BLOCK;
    let bytes = height * width * samples * size;
    let stored: Vec<u8> = (0..bytes).map(|_| dice.below(256) as u8).collect();
    let mut decoded = [vec![0; odd], stored.clone()].concat();
    let part = Block {
        dst: odd as u64,
        dst_len: bytes as u32,
        from_row: 1,
        from_col: 2,
        rows: 5,
        cols: 8,
        to_row: 3,
        to_col: 4,
        ..Block::default()
    };
    let sparse = Block { rows: 1, cols: 2, to_row: 0, to_col: 0, flags: Block::SPARSE, ..part };
    let refused = Block { to_row: 0, to_col: 2, ..part };
    let mut batch = bytes_of(&[part, sparse, refused]);
    let bands_at = batch.len() as u64;
    batch.extend(bytes_of(bands));

    let (rows, cols) = OUTPUT;
    let (row_stride, pixel_stride, band_stride) = if bands_last {
        (cols * bands.len() * size, bands.len() * size, size)
    } else {
        (cols * size, size, rows * cols * size)
    };
    let mut out = vec![UNTOUCHED; odd + rows * cols * bands.len() * size];
    let mut expected = out.clone();
    let mut put = |row: usize, col: usize, band: usize, sample: &[u8]| {
        expected[odd + row * row_stride + col * pixel_stride + band * band_stride..][..size].copy_from_slice(sample);
    };
    for (band, &component) in bands.iter().enumerate() {
        for (row, col) in (0..5).flat_map(|row| (0..8).map(move |col| (row, col))) {
            let at = ((component as usize * height + row + 1) * width + col + 2) * size;
            put(row + 3, col + 4, band, &stored[at..at + size]);
        }
        put(0, 0, band, &FILL.to_le_bytes()[..size]);
        put(0, 1, band, &FILL.to_le_bytes()[..size]);
    }

    let parts = 2;
    launch(
        subject,
        Kernel::Place,
        3 * parts,
        &mut [
            Given::Bytes(&mut batch),
            Given::Bytes(&mut decoded),
            Given::Bytes(&mut bytes_of(&[0_u32, 0, 2])),
            Given::Bytes(&mut out),
            Given::U64(odd as u64),
            Given::U64(row_stride as u64),
            Given::U64(pixel_stride as u64),
            Given::U64(band_stride as u64),
            Given::U64(bands_at),
            Given::U32(bands.len() as u32),
            Given::U32(0),
            Given::U32((width * size) as u32),
            Given::U32(width as u32),
            Given::U32(samples as u32),
            Given::U32(size as u32 * 8),
            Given::U32(size as u32),
            Given::U32(COMPONENTS),
            Given::U32(0),
            Given::U64(FILL),
            Given::U64(0),
            Given::U32(parts as u32),
        ],
    );
    let name = format!("{samples} components of {size} bytes, bands {bands:?}, bands last: {bands_last}, at {odd}");
    same_pixels(&name, &expected, &out);
}
