//! One read or write.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::files::{self, Registered};
use super::{Answer, Mode, Status, mode, report};
use crate::code::{Code, Done};
use crate::fail;
use crate::sim::{self, in_context};

/// Bytes that are copied at once, with the driver's lock held.
const STEP: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the file to the device.
    Read,
    Write,
}

impl Direction {
    /// What a transfer is called in the timeline.
    pub(super) fn name(self) -> &'static str {
        match self {
            Direction::Read => "cuFileRead",
            Direction::Write => "cuFileWrite",
        }
    }
}

/// What the caller says: nothing of it is checked.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) base: usize,
    pub(super) base_offset: i64,
    pub(super) bytes: usize,
    pub(super) file_offset: i64,
}

/// What becomes of a transfer, whatever the file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Half,
    Fails,
}

/// Why nothing was moved, or not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// What cuFile says, by its code.
    Refused(c_int),
    /// What the file's system says.
    Errno(c_int),
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        Failure::Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A transfer that was in order when it was asked for.
#[derive(Debug)]
pub(super) struct Transfer {
    direction: Direction,
    file: Arc<Registered>,
    device: i32,
    /// The allocation that the memory lies in: another one may lie there by the time it is written.
    serial: u64,
    memory: Range<usize>,
    offset: u64,
    fate: Fate,
}

impl Transfer {
    /// Check what the caller says against the files that are registered and the memory of the device whose context is current.
    pub(super) fn new(direction: Direction, file: usize, target: Target) -> Answer<Transfer> {
        let file = files::file(file).ok_or(Status::HANDLE_NOT_REGISTERED)?;
        if !file.is_open() {
            report("a file is used after it was closed");
            return Err(Status::HANDLE_NOT_REGISTERED);
        }
        let offset = u64::try_from(target.file_offset).map_err(|_| Status::INVALID_VALUE)?;
        let into = usize::try_from(target.base_offset).map_err(|_| Status::INVALID_VALUE)?;
        if target.bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let found = in_context(|sim, device| Ok((device, sim.memory.allocation(device, target.base))));
        let (device, allocation) = found.map_err(Status::cuda)?;
        let allocation = allocation.ok_or(Status::CUDA_POINTER_INVALID)?;
        let start = target.base.checked_add(into);
        let memory = start.and_then(|start| Some(start..start.checked_add(target.bytes)?));
        let memory = memory.filter(|memory| memory.end <= allocation.end).ok_or(Status::CUDA_POINTER_RANGE_ERROR)?;
        // Memory that is named by where it was registered is not left either.
        match files::registered_end(target.base) {
            Some(end) if memory.end > end => return Err(Status::INVALID_MAPPING_RANGE),
            // The library finds registered memory by its beginning, and any other address costs another copy.
            None if mode()? == Mode::Direct && files::is_registered(memory.clone()) => {
                report("registered memory is named by another address than its beginning")
            }
            _ => {}
        }
        Ok(Transfer { direction, file, device, serial: allocation.serial, memory, offset, fate: Fate::Whole })
    }

    /// Find out whether it is one that was told to go wrong. It counts as asked for from here on.
    pub(super) fn tell_fate(&mut self) {
        let (fails, half) = match self.direction {
            Direction::Read => ("read", "short"),
            Direction::Write => ("write", "short-write"),
        };
        let told = |what| fail::point(what, Code::UNKNOWN).is_err();
        // Both are counted, whichever comes to pass.
        self.fate = match (told(fails), told(half)) {
            (true, _) => Fate::Fails,
            (false, true) => Fate::Half,
            (false, false) => Fate::Whole,
        };
    }

    /// Do it. How many bytes were moved: fewer than were asked for if the file ends.
    pub(super) fn run(&self) -> Result<usize, Failure> {
        if self.direction == Direction::Read {
            thread::sleep(Duration::from_micros(fail::number("SWATH_SIM_CUFILE_LATENCY_US", 0)));
        }
        if !self.file.is_registered() || !self.file.is_open() {
            report("a file was closed or deregistered while it was read or written");
            return Err(Failure::Refused(Status::HANDLE_NOT_REGISTERED.code));
        }
        let bytes = match self.fate {
            Fate::Whole => self.memory.len(),
            Fate::Half => self.memory.len() / 2,
            Fate::Fails => return Err(Failure::Errno(libc::EIO)),
        };
        let mut staged = vec![0; bytes.min(STEP)];
        let mut done = 0;
        while done < bytes {
            let staged = &mut staged[..STEP.min(bytes - done)];
            let moved = match self.direction {
                Direction::Read => self.read(done, staged),
                Direction::Write => self.write(done, staged),
            }?;
            if moved == 0 {
                break;
            }
            done += moved;
        }
        Ok(done)
    }

    /// Read a part of it that begins `done` bytes behind the first.
    fn read(&self, done: usize, staged: &mut [u8]) -> Result<usize, Failure> {
        let read = self.again(|| self.file.file.read_at(staged, self.offset + done as u64))?;
        let staged = &staged[..read];
        self.in_memory(done, read, |memory| {
            // SAFETY: so many bytes are alive there, and the driver's lock, which kernels run under too, is held.
            unsafe { std::ptr::copy_nonoverlapping(staged.as_ptr(), memory as *mut u8, staged.len()) };
        })?;
        Ok(read)
    }

    /// Write a part of it that begins `done` bytes behind the first.
    fn write(&self, done: usize, staged: &mut [u8]) -> Result<usize, Failure> {
        self.in_memory(done, staged.len(), |memory| {
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(memory as *const u8, staged.as_mut_ptr(), staged.len()) };
        })?;
        self.again(|| self.file.file.write_at(staged, self.offset + done as u64))
    }

    /// Until it is not interrupted.
    fn again(&self, mut act: impl FnMut() -> io::Result<usize>) -> Result<usize, Failure> {
        loop {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(|error| Failure::of(&error)),
            }
        }
    }

    /// Do something with a part of the memory if it is still what it was, with the driver's lock held.
    fn in_memory(&self, done: usize, bytes: usize, act: impl FnOnce(usize)) -> Result<(), Failure> {
        let start = self.memory.start + done;
        let found: Done = sim::with(|sim| {
            let allocation = sim.memory.allocation(self.device, start);
            let alive = allocation.is_some_and(|found| found.serial == self.serial && start + bytes <= found.end);
            alive.then(|| act(start)).ok_or(Code::INVALID_VALUE)
        });
        found.map_err(|_| {
            report(&format!("{} bytes of device memory were freed while cuFile used them", self.memory.len()));
            Failure::Refused(Status::CUDA_POINTER_INVALID.code)
        })
    }
}
