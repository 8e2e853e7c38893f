//! The memory that a launch sees, with the checks of every access.

use std::collections::HashMap;

use super::error::{Misdeed, Place, Space, Touch};
use super::inst::Access;
use super::lower::Kernel;
use super::race::{Cell, Conflict, Now, Warps};
use super::segment::Segment;
use super::{CONSTANT_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};

/// The bytes for which cells are allocated together.
const PAGE: usize = 1024;
/// The pages of cells that are kept for the next launch.
const MOST_PAGES: usize = 8192;
/// The content of shared and local memory at the start.
const UNWRITTEN: u8 = 0xA5;

/// The cells of global memory, by page.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    index: HashMap<usize, usize>,
    pages: Vec<Box<[Cell]>>,
}

impl Shadow {
    /// Forgets the accesses of earlier launches if they take much memory.
    pub(super) fn trim(&mut self) {
        if self.pages.len() > MOST_PAGES {
            *self = Shadow::default();
        }
    }

    fn page(&mut self, number: usize) -> usize {
        *self.index.entry(number).or_insert_with(|| {
            self.pages.push(vec![Cell::default(); PAGE].into_boxed_slice());
            self.pages.len() - 1
        })
    }
}

/// What an instruction accessed last; it often accesses the same allocation and page again.
#[derive(Debug, Clone, Copy)]
struct Hint {
    allocation: (u64, u64),
    page: usize,
    cells: usize,
}

/// The memory of a launch. One block runs at a time, so there is one shared memory.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    /// The live allocations of the device, in ascending order: first address and address after the last.
    allocations: &'a [(u64, u64)],
    constants: &'a Segment,
    kernel: &'a Kernel,
    shared: Vec<u8>,
    shared_cells: Vec<Cell>,
    /// The local memory of all threads.
    local: Vec<u8>,
    shadow: &'a mut Shadow,
    hints: Vec<Hint>,
}

/// An access that passed the checks.
#[derive(Debug)]
pub(super) struct Located {
    /// The host address.
    pub(super) at: *mut u8,
    /// Why the value that it reads must not be used.
    pub(super) doubt: Option<Box<Misdeed>>,
}

type Checked = Result<Located, Box<Misdeed>>;

impl<'a> Memory<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        threads: usize,
        allocations: &'a [(u64, u64)],
        constants: &'a Segment,
        shadow: &'a mut Shadow,
    ) -> Memory<'a> {
        shadow.trim();
        let shared = kernel.shared.initial.len();
        Memory {
            allocations,
            constants,
            kernel,
            shared: vec![UNWRITTEN; shared],
            shared_cells: vec![Cell::default(); shared],
            local: vec![UNWRITTEN; threads * kernel.local.initial.len()],
            shadow,
            hints: vec![Hint { allocation: (0, 0), page: usize::MAX, cells: 0 }; kernel.code.len()],
        }
    }

    /// Prepares the shared memory for the next block. No cell says that this block wrote it, because its epochs
    /// are new.
    pub(super) fn next_block(&mut self) {
        self.shared.fill(UNWRITTEN);
    }

    /// Checks an access.
    pub(super) fn locate(&mut self, access: Access, address: u64, now: &Now, warps: &Warps) -> Checked {
        let bytes = usize::from(access.bytes) * usize::from(access.count);
        let (space, offset) = match access.space {
            Space::Generic => match address {
                SHARED_WINDOW.. if address < SHARED_WINDOW + WINDOW_BYTES => (Space::Shared, address - SHARED_WINDOW),
                LOCAL_WINDOW.. if address < LOCAL_WINDOW + WINDOW_BYTES => (Space::Local, address - LOCAL_WINDOW),
                CONSTANT_WINDOW.. if address < CONSTANT_WINDOW + WINDOW_BYTES => {
                    (Space::Constant, address - CONSTANT_WINDOW)
                }
                _ => (Space::Global, address),
            },
            space => (space, address),
        };
        let touch = access.touch;
        if offset & (bytes as u64 - 1) != 0 {
            return Err(Box::new(Misdeed::Alignment { space, touch, address, bytes: bytes as u64 }));
        }
        let found = match space {
            Space::Shared => return self.shared(access, offset, bytes, now, warps),
            Space::Local => self.kernel.local.range(offset, bytes).map(|at| {
                let thread = usize::from(now.thread) * self.kernel.local.initial.len();
                self.local[thread + at..].as_mut_ptr()
            }),
            Space::Constant if touch == Touch::Read => {
                self.constants.range(offset, bytes).map(|at| self.constants.initial[at..].as_ptr().cast_mut())
            }
            Space::Constant => None,
            Space::Global | Space::Generic => return self.global(access, offset, bytes, now, warps),
        };
        let located = |at| Located { at, doubt: None };
        found.map(located).ok_or_else(|| outside(space, touch, address, bytes))
    }

    fn shared(&mut self, access: Access, address: u64, bytes: usize, now: &Now, warps: &Warps) -> Checked {
        let touch = access.touch;
        let at = self.kernel.shared.range(address, bytes);
        let at = at.ok_or_else(|| outside(Space::Shared, touch, address, bytes))?;
        let cells = &mut self.shared_cells[at..at + bytes];
        let unwritten = touch != Touch::Write && cells.iter().any(|cell| cell.write_epoch < now.block);
        // Other blocks have other shared memory.
        let now = &Now { launch: now.block, ..*now };
        let conflict = first_conflict(cells, access, now, warps);
        let doubt = unwritten.then(|| Box::new(Misdeed::Uninitialised { place: self.place(now.at) }));
        self.judge(Space::Shared, access, address, conflict, now)
            .map(|race| Located { at: self.shared[at..].as_mut_ptr(), doubt: race.or(doubt) })
    }

    fn global(&mut self, access: Access, address: u64, bytes: usize, now: &Now, warps: &Warps) -> Checked {
        let touch = access.touch;
        let hint = self.hints[usize::from(now.at)];
        let end = address.checked_add(bytes as u64);
        let end = end.ok_or_else(|| outside(Space::Global, touch, address, bytes))?;
        let mut allocation = hint.allocation;
        if address < allocation.0 || end > allocation.1 {
            let after = self.allocations.partition_point(|(start, _)| *start <= address);
            let found = after.checked_sub(1).map(|index| self.allocations[index]);
            let found = found.filter(|allocation| end <= allocation.1);
            allocation = found.ok_or_else(|| outside(Space::Global, touch, address, bytes))?;
        }
        let place = address as usize;
        let page = place / PAGE;
        let cells = if page == hint.page { hint.cells } else { self.shadow.page(page) };
        self.hints[usize::from(now.at)] = Hint { allocation, page, cells };
        // Aligned accesses of at most 16 bytes lie in one page.
        let in_page = place % PAGE;
        let cells = &mut self.shadow.pages[cells][in_page..in_page + bytes];
        let conflict = first_conflict(cells, access, now, warps);
        self.judge(Space::Global, access, address, conflict, now).map(|doubt| Located { at: place as *mut u8, doubt })
    }

    /// Returns the race of an access as an error, or as a doubt about the value of an early load.
    fn judge(
        &self,
        space: Space,
        access: Access,
        address: u64,
        conflict: Option<(usize, Conflict)>,
        now: &Now,
    ) -> Result<Option<Box<Misdeed>>, Box<Misdeed>> {
        let Some((index, Conflict { earlier, other, at })) = conflict else { return Ok(None) };
        let (touch, address) = (access.touch, address + index as u64);
        let race = Box::new(Misdeed::Race { space, address, touch, earlier, other, place: self.place(at) });
        if !access.early {
            return Err(race);
        }
        Ok(Some(Box::new(Misdeed::RacingValue { place: self.place(now.at), race })))
    }

    fn place(&self, at: u16) -> Place {
        Place { line: self.kernel.lines[usize::from(at)], source: None }
    }
}

/// An early load is not recorded, because its value may not be used. If it is used, the race is found in the
/// orders of threads in which the write comes first.
#[inline]
fn first_conflict(cells: &mut [Cell], access: Access, now: &Now, warps: &Warps) -> Option<(usize, Conflict)> {
    cells.iter_mut().enumerate().find_map(|(index, cell)| {
        let conflict = if access.early { cell.peek(now, warps) } else { cell.touch(access.touch, now, warps) };
        Some((index, conflict?))
    })
}

#[cold]
fn outside(space: Space, touch: Touch, address: u64, bytes: usize) -> Box<Misdeed> {
    Box::new(Misdeed::Bounds { space, touch, address, bytes: bytes as u64 })
}
