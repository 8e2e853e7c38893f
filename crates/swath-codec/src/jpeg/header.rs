//! Marker segments: quantisation and Huffman tables, the frame and the scans (ITU-T T.81, annex B).

use crate::jpeg::huffman::Huffman;
use crate::jpeg::{CODEC, DHT, DQT, DRI, corrupt};
use crate::{Error, Result};

/// The position in the 8x8 block of the n-th coefficient of the stream. The table has 16 more entries than
/// coefficients, so that a run past the end of the block can be detected afterwards.
#[rustfmt::skip]
pub(super) const ZIGZAG: [u8; 80] = [
     0,  1,  8, 16,  9,  2,  3, 10, 17, 24, 32, 25, 18, 11,  4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,  6,  7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
];

/// The coding of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Sequential,
    Progressive,
    Lossless,
}

/// One component of the frame.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Sampling factors, 1 to 4.
    pub(super) h: usize,
    pub(super) v: usize,
    /// The index of its quantisation table.
    pub(super) quant: usize,
    /// The number of samples that belong to the image, without the padding to whole blocks.
    pub(super) width: usize,
    pub(super) height: usize,
}

/// The frame header.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) coding: Coding,
    pub(super) precision: u32,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
    /// The largest sampling factors.
    pub(super) h_max: usize,
    pub(super) v_max: usize,
    /// The number of interleaved units in a row and in a column.
    pub(super) mcus_x: usize,
    pub(super) mcus_y: usize,
}

/// The parameters of a component in a scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanComponent {
    pub(super) index: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// The scan header.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    pub(super) components: Vec<ScanComponent>,
    /// The first and the last coefficient; in a lossless scan the first is the predictor.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Successive approximation: the bit position before and after this scan; in a lossless scan the point transform.
    pub(super) high: u32,
    pub(super) low: u32,
}

/// The tables that DQT, DHT and DRI have defined so far.
#[derive(Clone, Default)]
pub(super) struct Tables {
    quant: [Option<[u16; 64]>; 4],
    dc: [Option<Box<Huffman>>; 4],
    ac: [Option<Box<Huffman>>; 4],
    /// The number of MCUs between restart markers, 0 for none.
    pub(super) restart: usize,
}

impl Tables {
    /// Returns the quantisation table in stream order.
    pub(super) fn quant(&self, number: usize) -> Result<&[u16; 64]> {
        let table = self.quant.get(number).and_then(Option::as_ref);
        table.ok_or(corrupt("a component uses a quantisation table that is not defined"))
    }

    pub(super) fn dc(&self, number: usize) -> Result<&Huffman> {
        let table = self.dc.get(number).and_then(Option::as_deref);
        table.ok_or(corrupt("a scan uses a DC Huffman table that is not defined"))
    }

    pub(super) fn ac(&self, number: usize) -> Result<&Huffman> {
        let table = self.ac.get(number).and_then(Option::as_deref);
        table.ok_or(corrupt("a scan uses an AC Huffman table that is not defined"))
    }

    /// Reads a segment if it defines tables.
    pub(super) fn define(&mut self, marker: u8, body: &[u8]) -> Result<()> {
        match marker {
            DQT => self.define_quant(body),
            DHT => self.define_huffman(body),
            DRI => self.define_restart(body),
            _ => Ok(()),
        }
    }

    fn define_quant(&mut self, mut body: &[u8]) -> Result<()> {
        while let Some((&kind, rest)) = body.split_first() {
            let mut table = [0u16; 64];
            let wide = kind >> 4 != 0;
            let (values, behind) = rest
                .split_at_checked(if wide { 128 } else { 64 })
                .ok_or(corrupt("a quantisation table is truncated"))?;
            for (k, value) in table.iter_mut().enumerate() {
                *value = match wide {
                    true => u16::from_be_bytes([values[2 * k], values[2 * k + 1]]),
                    false => u16::from(values[k]),
                };
            }
            let slot = self.quant.get_mut(usize::from(kind & 15));
            *slot.ok_or(corrupt("a quantisation table has a number above 3"))? = Some(table);
            body = behind;
        }
        Ok(())
    }

    fn define_huffman(&mut self, mut body: &[u8]) -> Result<()> {
        while let Some((&kind, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or(corrupt("a Huffman table is truncated"))?;
            let total = counts.iter().map(|&n| usize::from(n)).sum();
            let (symbols, behind) = rest.split_at_checked(total).ok_or(corrupt("a Huffman table is truncated"))?;
            let class = match kind >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err(corrupt("a Huffman table is neither DC nor AC")),
            };
            let slot = class.get_mut(usize::from(kind & 15));
            let slot = slot.ok_or(corrupt("a Huffman table has a number above 3"))?;
            *slot = Some(Box::new(Huffman::new(counts, symbols)?));
            body = behind;
        }
        Ok(())
    }

    fn define_restart(&mut self, body: &[u8]) -> Result<()> {
        let value = body.first_chunk::<2>().ok_or(corrupt("the restart interval is truncated"))?;
        self.restart = usize::from(u16::from_be_bytes(*value));
        Ok(())
    }
}

impl Frame {
    /// Reads a SOF segment; `marker` determines the coding.
    pub(super) fn parse(marker: u8, body: &[u8]) -> Result<Frame> {
        let coding = match marker {
            0xc0 | 0xc1 => Coding::Sequential,
            0xc2 => Coding::Progressive,
            0xc3 => Coding::Lossless,
            0xc9..=0xcb => return Err(Error::Unsuited { codec: CODEC, what: "arithmetic coding" }),
            _ => return Err(Error::Unsuited { codec: CODEC, what: "hierarchical images" }),
        };
        let cut = corrupt("the frame header is truncated");
        let (head, rest) = body.split_first_chunk::<6>().ok_or(cut.clone())?;
        let precision = u32::from(head[0]);
        let height = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let width = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if width == 0 || height == 0 {
            return Err(corrupt("the frame has no pixels"));
        }
        let mut components = Vec::with_capacity(usize::from(head[5]));
        let (mut h_max, mut v_max) = (1, 1);
        for entry in rest.chunks_exact(3).take(usize::from(head[5])) {
            let (h, v) = (usize::from(entry[1] >> 4), usize::from(entry[1] & 15));
            if !(1..=4).contains(&h) || !(1..=4).contains(&v) {
                return Err(corrupt("a sampling factor is not 1 to 4"));
            }
            (h_max, v_max) = (h_max.max(h), v_max.max(v));
            let quant = usize::from(entry[2]);
            components.push(Component { id: entry[0], h, v, quant, width: 0, height: 0 });
        }
        if components.is_empty() || components.len() != usize::from(head[5]) {
            return Err(cut);
        }
        for component in &mut components {
            component.width = (width * component.h).div_ceil(h_max);
            component.height = (height * component.v).div_ceil(v_max);
        }
        let unit = if coding == Coding::Lossless { 1 } else { 8 };
        let (mcus_x, mcus_y) = (width.div_ceil(unit * h_max), height.div_ceil(unit * v_max));
        Ok(Frame { coding, precision, width, height, components, h_max, v_max, mcus_x, mcus_y })
    }
}

impl Scan {
    /// Reads a SOS segment and checks it against the frame.
    pub(super) fn parse(body: &[u8], frame: &Frame) -> Result<Scan> {
        let cut = corrupt("a scan header is truncated");
        let (&count, rest) = body.split_first().ok_or(cut.clone())?;
        let (entries, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or(cut.clone())?;
        let mut components: Vec<ScanComponent> = Vec::with_capacity(4);
        for entry in entries.chunks_exact(2) {
            // Identifiers may repeat in broken files. The scan then uses the first component with that
            // identifier that is not yet in the scan.
            let index = (0..frame.components.len())
                .find(|&n| frame.components[n].id == entry[0] && components.iter().all(|c| c.index != n))
                .ok_or(corrupt("a scan names a component that the frame does not have"))?;
            let (dc, ac) = (usize::from(entry[1] >> 4), usize::from(entry[1] & 15));
            components.push(ScanComponent { index, dc, ac });
        }
        if components.is_empty() || components.len() > 4 {
            return Err(corrupt("a scan does not have one to four components"));
        }
        let units: usize = components.iter().map(|c| frame.components[c.index].h * frame.components[c.index].v).sum();
        if components.len() > 1 && units > 10 {
            return Err(corrupt("a scan interleaves more than ten blocks"));
        }
        let tail = rest.first_chunk::<3>().ok_or(cut)?;
        let (first, last) = (usize::from(tail[0]), usize::from(tail[1]));
        let (high, low) = (u32::from(tail[2] >> 4), u32::from(tail[2] & 15));
        let scan = Scan { components, first, last, high, low };
        let valid = match frame.coding {
            // Sequential scans always contain the whole block. The header fields for the range are ignored, as
            // in other decoders.
            Coding::Sequential => true,
            Coding::Lossless => (1..=7).contains(&first) && low < frame.precision,
            Coding::Progressive if first == 0 => last == 0 && low <= 13,
            Coding::Progressive => first <= last && last < 64 && low <= 13 && scan.components.len() == 1,
        };
        if !valid {
            return Err(corrupt("a scan header has parameters that its coding does not support"));
        }
        Ok(scan)
    }
}
