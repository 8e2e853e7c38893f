//! Lossless scans: each sample is coded as its difference from a prediction (ITU-T T.81, annex H).

use crate::jpeg::header::{Frame, Scan, Tables};
use crate::jpeg::huffman::{Bits, Huffman};
use crate::jpeg::scan::{Ended, Plane};
use crate::jpeg::{CODEC, corrupt};
use crate::{Error, Result};

/// Decodes the first `rows` rows of a lossless scan into the planes.
pub(super) fn lossless(
    frame: &Frame,
    scan: &Scan,
    tables: &Tables,
    mut bits: Bits<'_>,
    rows: usize,
    planes: &mut [Plane],
) -> Result<Ended> {
    if frame.components.len() > 1 && frame.components.iter().any(|c| (c.h, c.v) != (1, 1)) {
        return Err(Error::Unsuited { codec: CODEC, what: "subsampled lossless images" });
    }
    let mut members: Vec<(usize, &Huffman)> = Vec::with_capacity(4);
    for member in &scan.components {
        members.push((member.index, tables.dc(member.dc)?));
    }
    if !tables.restart.is_multiple_of(frame.width) {
        return Err(corrupt("a lossless restart interval is not a number of whole rows"));
    }
    let rows_per_interval = tables.restart / frame.width;
    let middle = 1 << (frame.precision - scan.low - 1);
    let mut intervals = 0u8;
    for y in 0..frame.height.min(rows) {
        let mut predictor = scan.first;
        if y == 0 {
            predictor = 0;
        } else if rows_per_interval != 0 && y.is_multiple_of(rows_per_interval) {
            bits.restart(intervals)?;
            intervals = intervals.wrapping_add(1);
            predictor = 0;
        }
        for x in 0..frame.width {
            for &(index, table) in &members {
                bits.refill();
                let difference = match bits.symbol(table) {
                    Ok(size @ 0..=15) => bits.magnitude(u32::from(size)),
                    Ok(16) => 32768,
                    Ok(_) => return Err(corrupt("a difference has more than 16 bits")),
                    Err(_) if bits.overrun() && bits.at_end() => return Ok(Ended::Cut { row: y }),
                    Err(error) => return Err(error),
                };
                let plane = &mut planes[index];
                let (above, row) = plane.samples[..(y + 1) * frame.width].split_at_mut(y * frame.width);
                let above = above.get(above.len().wrapping_sub(frame.width)..).unwrap_or(&[]);
                let predicted = match (predictor, x) {
                    (0, 0) => middle,
                    (0, _) => i32::from(row[x - 1]),
                    (_, 0) => i32::from(above[0]),
                    _ => predict(predictor, row[x - 1], above[x], above[x - 1]),
                };
                row[x] = predicted.wrapping_add(difference) as u16;
            }
        }
        if bits.overrun() {
            return match bits.at_end() {
                true => Ok(Ended::Cut { row: y }),
                false => Err(corrupt("a scan ends before its last sample")),
            };
        }
    }
    if scan.low > 0 {
        for &(index, _) in &members {
            planes[index].samples.iter_mut().for_each(|sample| *sample <<= scan.low);
        }
    }
    Ok(Ended::Complete(bits.position()))
}

/// Returns the prediction from the samples to the left, above, and above left (table H.1).
fn predict(predictor: usize, left: u16, above: u16, corner: u16) -> i32 {
    let (left, above, corner) = (i32::from(left), i32::from(above), i32::from(corner));
    match predictor {
        1 => left,
        2 => above,
        3 => corner,
        4 => left + above - corner,
        5 => left + ((above - corner) >> 1),
        6 => above + ((left - corner) >> 1),
        _ => (left + above) >> 1,
    }
}
