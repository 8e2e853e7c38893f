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

/// The number of bytes that are copied at once, while the driver's lock is held.
const STEP: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the file to the device.
    Read,
    Write,
}

impl Direction {
    /// The name of a transfer in the timeline.
    pub(super) fn name(self) -> &'static str {
        match self {
            Direction::Read => "cuFileRead",
            Direction::Write => "cuFileWrite",
        }
    }
}

/// The arguments of the caller, before any check.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) base: usize,
    pub(super) base_offset: i64,
    pub(super) bytes: usize,
    pub(super) file_offset: i64,
}

/// The requested outcome of a transfer, whatever the file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Half,
    Fails,
}

/// The reason why nothing, or not everything, was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// An error of cuFile, by its code.
    Refused(c_int),
    /// An error of the file system.
    Errno(c_int),
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        Failure::Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A transfer whose arguments were valid when it was requested.
#[derive(Debug)]
pub(super) struct Transfer {
    direction: Direction,
    file: Arc<Registered>,
    device: i32,
    /// The allocation that contains the memory: another one may be there when it is written.
    serial: u64,
    memory: Range<usize>,
    offset: u64,
    fate: Fate,
}

impl Transfer {
    /// Checks the caller's arguments against the registered files and the memory of the device whose context is
    /// current.
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
        // A transfer to memory given by its registered address must not leave that range.
        match files::registered_end(target.base) {
            Some(end) if memory.end > end => return Err(Status::INVALID_MAPPING_RANGE),
            // The library finds registered memory by its start address; any other address costs another copy.
            None if mode()? == Mode::Direct && files::is_registered(memory.clone()) => {
                report("registered memory is used with an address other than its start")
            }
            _ => {}
        }
        Ok(Transfer { direction, file, device, serial: allocation.serial, memory, offset, fate: Fate::Whole })
    }

    /// Determines whether `SWATH_SIM_FAIL` selects this transfer, and counts it.
    pub(super) fn tell_fate(&mut self) {
        let (fails, half) = match self.direction {
            Direction::Read => ("read", "short"),
            Direction::Write => ("write", "short-write"),
        };
        let fails_at = |what| fail::point(what, Code::UNKNOWN).is_err();
        // Both are counted, whichever applies.
        self.fate = match (fails_at(fails), fails_at(half)) {
            (true, _) => Fate::Fails,
            (false, true) => Fate::Half,
            (false, false) => Fate::Whole,
        };
    }

    /// Performs the transfer. Returns the number of bytes moved, which is smaller than requested if the file
    /// ends.
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

    /// Reads a part that starts `done` bytes after the first byte.
    fn read(&self, done: usize, staged: &mut [u8]) -> Result<usize, Failure> {
        let read = self.again(|| self.file.file.read_at(staged, self.offset + done as u64))?;
        let staged = &staged[..read];
        self.in_memory(done, read, |memory| {
            // SAFETY: that many bytes are alive there, and the driver's lock, under which kernels run too, is
            // held.
            unsafe { std::ptr::copy_nonoverlapping(staged.as_ptr(), memory as *mut u8, staged.len()) };
        })?;
        Ok(read)
    }

    /// Writes a part that starts `done` bytes after the first byte.
    fn write(&self, done: usize, staged: &mut [u8]) -> Result<usize, Failure> {
        self.in_memory(done, staged.len(), |memory| {
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(memory as *const u8, staged.as_mut_ptr(), staged.len()) };
        })?;
        self.again(|| self.file.file.write_at(staged, self.offset + done as u64))
    }

    /// Repeats a call until it is not interrupted.
    fn again(&self, mut act: impl FnMut() -> io::Result<usize>) -> Result<usize, Failure> {
        loop {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(|error| Failure::of(&error)),
            }
        }
    }

    /// Runs `act` on a part of the memory if its allocation is still the same, while the driver's lock is held.
    fn in_memory(&self, done: usize, bytes: usize, act: impl FnOnce(usize)) -> Result<(), Failure> {
        let start = self.memory.start + done;
        let found: Done = sim::with(|sim| {
            sim.memory.at_work(self.device, start as u64, bytes)?;
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
