//! Decodes scans of DCT blocks, sequential and progressive, into sample planes (ITU-T T.81, annexes F and G).

use crate::Result;
use crate::jpeg::header::{Component, Frame, Scan, Tables, ZIGZAG};
use crate::jpeg::huffman::{Bits, Huffman};
use crate::jpeg::output::Output;
use crate::jpeg::{CONTEXT, corrupt, idct};

/// The decoded samples of one component, padded to whole MCUs: all of its rows, or a window of rows that moves
/// down.
pub(super) struct Plane {
    pub(super) samples: Vec<u16>,
    pub(super) stride: usize,
    /// The number of rows in `samples`. Row `n` of the component is row `n % rows` here.
    pub(super) rows: usize,
}

impl Plane {
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[u16] {
        &self.samples[row % self.rows * self.stride..][..self.stride]
    }

    /// Writes an 8x8 block at block coordinates.
    #[inline(always)]
    fn put(&mut self, x: usize, y: usize, block: &[[u16; 8]; 8]) {
        let rows = &mut self.samples[y * 8 % self.rows * self.stride..][..8 * self.stride];
        for (row, values) in rows.chunks_exact_mut(self.stride).zip(block) {
            row[x * 8..x * 8 + 8].copy_from_slice(values);
        }
    }
}

/// The end of a scan.
pub(super) enum Ended {
    /// All blocks were present. The next marker is at or after this position.
    Complete(usize),
    /// The data ended in this row of MCUs.
    Cut { row: usize },
}

/// The operations on the blocks of a scan.
pub(super) trait Visit {
    /// Resets the state of earlier blocks at a restart.
    fn reset(&mut self);

    /// Decodes the block at these block coordinates for the scan's component `place`.
    fn block(&mut self, bits: &mut Bits<'_>, place: usize, x: usize, y: usize) -> Result<()>;

    /// Called when the first `rows` pixel rows are complete in the components of this scan.
    fn completed(&mut self, _rows: usize) {}
}

/// Visits the MCUs of a scan, including restarts. Stops after the MCU rows that contain the first `rows` pixel
/// rows.
#[inline(always)]
pub(super) fn walk(
    frame: &Frame,
    scan: &Scan,
    restart: usize,
    mut bits: Bits<'_>,
    rows: usize,
    visitor: &mut impl Visit,
) -> Result<Ended> {
    let mut parts = [(1, 1); 4];
    let (mut across, mut down, mut unit_height) = (frame.mcus_x, frame.mcus_y, 8 * frame.v_max);
    if scan.components.len() > 1 {
        for (part, member) in parts.iter_mut().zip(&scan.components) {
            *part = (frame.components[member.index].h, frame.components[member.index].v);
        }
    } else {
        // A scan of one component has no padding blocks: its unit is one block (T.81 A.2.2).
        let component = &frame.components[scan.components[0].index];
        (across, down) = (component.width.div_ceil(8), component.height.div_ceil(8));
        unit_height = 8 * frame.v_max / component.v;
    }
    let parts = &parts[..scan.components.len()];
    let down = down.min(rows.div_ceil(unit_height));
    let (mut until_restart, mut number) = (restart, 0u8);
    for y in 0..down {
        for x in 0..across {
            if restart != 0 && until_restart == 0 {
                if bits.overrun() {
                    break;
                }
                bits.restart(number)?;
                number = number.wrapping_add(1);
                until_restart = restart;
                visitor.reset();
            }
            until_restart = until_restart.wrapping_sub(1);
            for (place, &(h, v)) in parts.iter().enumerate() {
                for row in 0..v {
                    for column in 0..h {
                        if let Err(error) = visitor.block(&mut bits, place, x * h + column, y * v + row) {
                            // The zeros after the end of the data are not a valid code in many tables: the
                            // cause is the truncation.
                            let cut = bits.overrun() && bits.at_end();
                            return if cut { Ok(Ended::Cut { row: y }) } else { Err(error) };
                        }
                    }
                }
            }
        }
        if bits.overrun() {
            return match bits.at_end() {
                true => Ok(Ended::Cut { row: y }),
                false => Err(corrupt("a scan ends before its last block")),
            };
        }
        visitor.completed((y + 1) * unit_height);
    }
    Ok(Ended::Complete(bits.position()))
}

/// The state of a component in a sequential scan.
struct Member<'a> {
    plane: usize,
    quant: &'a [u16; 64],
    dc: &'a Huffman,
    ac: &'a Huffman,
    /// The DC value of its last block.
    previous: i32,
}

/// Decodes a sequential scan directly into the planes.
pub(super) struct Sequential<'a, 'b> {
    precision: u32,
    members: Vec<Member<'a>>,
    planes: &'a mut [Plane],
    output: Option<&'a mut Output<'b>>,
}

impl<'a, 'b> Sequential<'a, 'b> {
    /// `output`, if given, receives the pixel rows as soon as they are complete.
    pub(super) fn new(
        frame: &Frame,
        scan: &Scan,
        tables: &'a Tables,
        planes: &'a mut [Plane],
        output: Option<&'a mut Output<'b>>,
    ) -> Result<Sequential<'a, 'b>> {
        let mut members = Vec::with_capacity(4);
        for part in &scan.components {
            let quant = tables.quant(frame.components[part.index].quant)?;
            let (dc, ac) = (tables.dc(part.dc)?, tables.ac(part.ac)?);
            members.push(Member { plane: part.index, quant, dc, ac, previous: 0 });
        }
        Ok(Sequential { precision: frame.precision, members, planes, output })
    }
}

impl Visit for Sequential<'_, '_> {
    fn reset(&mut self) {
        self.members.iter_mut().for_each(|member| member.previous = 0);
    }

    #[inline(always)]
    fn block(&mut self, bits: &mut Bits<'_>, place: usize, x: usize, y: usize) -> Result<()> {
        let member = &mut self.members[place];
        let mut block = [0i16; 64];
        member.previous = member.previous.wrapping_add(dc_difference(bits, member.dc)?);
        block[0] = member.previous.wrapping_mul(i32::from(member.quant[0])) as i16;
        let mut k = 1;
        while k < 64 {
            let Some((run, value)) = bits.coefficient(member.ac)? else { break };
            k += run;
            if value != 0 {
                block[usize::from(ZIGZAG[k])] = value.wrapping_mul(i32::from(member.quant[k & 63])) as i16;
                k += 1;
            }
        }
        if k > 64 {
            return Err(corrupt("a block has more than 64 coefficients"));
        }
        let samples = match k {
            1 => [[idct::flat(block[0], self.precision); 8]; 8],
            _ => idct::inverse(&block, self.precision),
        };
        self.planes[member.plane].put(x, y, &samples);
        Ok(())
    }

    #[inline(always)]
    fn completed(&mut self, rows: usize) {
        if let Some(output) = &mut self.output {
            output.write(self.planes, rows.saturating_sub(CONTEXT));
        }
    }
}

#[inline(always)]
fn dc_difference(bits: &mut Bits<'_>, table: &Huffman) -> Result<i32> {
    bits.refill();
    let size = u32::from(bits.symbol(table)?);
    if size > 15 {
        return Err(corrupt("a DC difference has more than 15 bits"));
    }
    Ok(bits.magnitude(size))
}

/// The coefficients of a progressive image. They are complete after the last scan.
pub(super) struct Progress {
    components: Vec<Coefficients>,
}

struct Coefficients {
    blocks: Vec<[i16; 64]>,
    across: usize,
    /// For each coefficient in stream order, the lowest bit position that is known; 255 before its first scan.
    known: [u8; 64],
    /// The quantisation table at the start of the component's first scan (T.81 B.2.4.1 allows it to change
    /// later).
    quant: Option<[u16; 64]>,
}

/// Returns the number of blocks of a component, padded to whole MCUs.
pub(super) fn padded_blocks(frame: &Frame, component: &Component) -> (usize, usize) {
    (frame.mcus_x * component.h, frame.mcus_y * component.v)
}

impl Progress {
    pub(super) fn new(frame: &Frame) -> Progress {
        let components = frame.components.iter().map(|component| {
            let (across, down) = padded_blocks(frame, component);
            Coefficients { blocks: vec![[0; 64]; across * down], across, known: [255; 64], quant: None }
        });
        Progress { components: components.collect() }
    }

    /// Whether every coefficient is known to its last bit, so that nothing can be missing.
    pub(super) fn is_complete(&self) -> bool {
        self.components.iter().all(|component| component.known == [0; 64])
    }

    /// Decodes one scan into the coefficients.
    pub(super) fn scan(&mut self, frame: &Frame, scan: &Scan, tables: &Tables, bits: Bits<'_>) -> Result<Ended> {
        for member in &scan.components {
            let component = &mut self.components[member.index];
            if component.quant.is_none() {
                component.quant = Some(*tables.quant(frame.components[member.index].quant)?);
            }
            component.known[scan.first..=scan.last].fill(scan.low as u8);
        }
        if scan.first == 0 { self.dc(frame, scan, tables, bits) } else { self.ac(frame, scan, tables, bits) }
    }

    fn dc(&mut self, frame: &Frame, scan: &Scan, tables: &Tables, bits: Bits<'_>) -> Result<Ended> {
        let mut members = Vec::with_capacity(4);
        for part in &scan.components {
            // A refining scan contains plain bits and does not have to define a table.
            let table = if scan.high == 0 { Some(tables.dc(part.dc)?) } else { None };
            members.push((part.index, table));
        }
        let mut visitor = DcScan { components: &mut self.components, members, previous: [0; 4], low: scan.low };
        walk(frame, scan, tables.restart, bits, frame.height, &mut visitor)
    }

    fn ac(&mut self, frame: &Frame, scan: &Scan, tables: &Tables, bits: Bits<'_>) -> Result<Ended> {
        let component = &mut self.components[scan.components[0].index];
        let table = tables.ac(scan.components[0].ac)?;
        let mut visitor = AcScan { component, table, scan, ended: 0 };
        walk(frame, scan, tables.restart, bits, frame.height, &mut visitor)
    }

    /// Transforms the complete coefficients into the planes.
    #[inline(always)]
    pub(super) fn finish(&self, precision: u32, planes: &mut [Plane]) -> Result<()> {
        for (component, plane) in self.components.iter().zip(planes) {
            let quant = component.quant.ok_or(corrupt("a component has no scan"))?;
            let mut natural = [0i16; 64];
            for (k, &value) in quant.iter().enumerate() {
                natural[usize::from(ZIGZAG[k])] = value as i16;
            }
            for (y, row) in component.blocks.chunks_exact(component.across).enumerate() {
                for (x, coefficients) in row.iter().enumerate() {
                    let block = std::array::from_fn(|n| coefficients[n].wrapping_mul(natural[n]));
                    plane.put(x, y, &idct::inverse(&block, precision));
                }
            }
        }
        Ok(())
    }
}

/// A progressive scan of DC coefficients.
struct DcScan<'a> {
    components: &'a mut [Coefficients],
    /// For each component of the scan, its index and, in a first scan, its table.
    members: Vec<(usize, Option<&'a Huffman>)>,
    previous: [i32; 4],
    low: u32,
}

impl Visit for DcScan<'_> {
    fn reset(&mut self) {
        self.previous = [0; 4];
    }

    fn block(&mut self, bits: &mut Bits<'_>, place: usize, x: usize, y: usize) -> Result<()> {
        let (index, table) = self.members[place];
        let component = &mut self.components[index];
        let block = &mut component.blocks[y * component.across + x];
        if let Some(table) = table {
            self.previous[place] = self.previous[place].wrapping_add(dc_difference(bits, table)?);
            block[0] = (self.previous[place] << self.low) as i16;
        } else {
            bits.refill();
            block[0] |= (bits.take(1) << self.low) as i16;
        }
        Ok(())
    }
}

/// A progressive scan of a range of AC coefficients of one component.
struct AcScan<'a> {
    component: &'a mut Coefficients,
    table: &'a Huffman,
    scan: &'a Scan,
    /// The number of following blocks whose range already ended in an earlier block.
    ended: u32,
}

impl Visit for AcScan<'_> {
    fn reset(&mut self) {
        self.ended = 0;
    }

    fn block(&mut self, bits: &mut Bits<'_>, _: usize, x: usize, y: usize) -> Result<()> {
        let block = &mut self.component.blocks[y * self.component.across + x];
        self.ended = match self.scan.high {
            0 if self.ended > 0 => self.ended - 1,
            0 => first_band(bits, self.table, self.scan, block)?,
            _ => refine_band(bits, self.table, self.scan, block, self.ended)?,
        };
        Ok(())
    }
}

/// The first scan of a range of AC coefficients (T.81 G.1.2.2). Returns the number of blocks after this one
/// that are all zero.
fn first_band(bits: &mut Bits<'_>, table: &Huffman, scan: &Scan, block: &mut [i16; 64]) -> Result<u32> {
    let mut k = scan.first;
    while k <= scan.last {
        bits.refill();
        let symbol = bits.symbol(table)?;
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 {
            if run < 15 {
                return Ok((1 << run) - 1 + bits.take(run as u32));
            }
            k += 16;
            continue;
        }
        k += run;
        if k > scan.last {
            return Err(corrupt("a run of zeros exceeds the range of its scan"));
        }
        block[usize::from(ZIGZAG[k])] = (bits.magnitude(size) << scan.low) as i16;
        k += 1;
    }
    Ok(0)
}

/// A refining scan of a range of AC coefficients (T.81 G.1.2.3): a correction bit for each coefficient that is
/// not zero, and new coefficients of magnitude one among the zeros. Returns the number of blocks after this one
/// that only have correction bits.
fn refine_band(bits: &mut Bits<'_>, table: &Huffman, scan: &Scan, block: &mut [i16; 64], ended: u32) -> Result<u32> {
    let one = 1i16 << scan.low;
    let correct = |bits: &mut Bits<'_>, value: &mut i16| {
        bits.refill();
        if bits.take(1) == 1 && *value & one == 0 {
            *value = value.wrapping_add(if *value > 0 { one } else { -one });
        }
    };
    let mut k = scan.first;
    let mut ended = ended;
    while ended == 0 && k <= scan.last {
        bits.refill();
        let symbol = bits.symbol(table)?;
        let (mut run, size) = (symbol >> 4, symbol & 15);
        let mut fresh = 0;
        match size {
            0 if run < 15 => {
                ended = (1 << run) + bits.take(u32::from(run));
                break;
            }
            0 => {}
            1 => fresh = if bits.take(1) == 1 { one } else { -one },
            _ => return Err(corrupt("a refining scan has a new coefficient above one")),
        }
        // Skips `run` zeros, correcting the non-zero coefficients on the way, and stops at the zero that
        // receives the new coefficient.
        while k <= scan.last {
            let value = &mut block[usize::from(ZIGZAG[k])];
            k += 1;
            if *value != 0 {
                correct(bits, value);
            } else if run == 0 {
                *value = fresh;
                break;
            } else {
                run -= 1;
            }
        }
    }
    if ended > 0 {
        while k <= scan.last {
            let value = &mut block[usize::from(ZIGZAG[k])];
            if *value != 0 {
                correct(bits, value);
            }
            k += 1;
        }
        ended -= 1;
    }
    Ok(ended)
}
