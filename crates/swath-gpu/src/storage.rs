//! Files that the device reads and writes without host memory in between: GPUDirect Storage, through cuFile.

use std::fs::File;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::Api;
use crate::error::{Error, Result, UnknownName};
use crate::gpu::Gpu;
use crate::memory::buffer::{Buffer, Shared};
pub use crate::vendor::cufile::Transfer;
use crate::vendor::cufile::{CuFile, FileHandle, Inside, Mode, PAGE, Threads};

/// How the compressed bytes of a file move between storage and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Storage {
    /// cuFile where it does not pass through host memory; pinned host memory otherwise.
    #[default]
    Auto,
    /// cuFile, even where it goes through host memory itself. It counts as a fallback where cuFile cannot be used.
    CuFile,
    /// Ordinary reads and writes, and pinned host memory.
    Posix,
}

impl Storage {
    /// All names, separated by `|`.
    pub const NAMES: &'static str = "auto|cufile|posix";

    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Storage::Auto => "auto",
            Storage::CuFile => "cufile",
            Storage::Posix => "posix",
        }
    }
}

impl FromStr for Storage {
    type Err = UnknownName;

    fn from_str(name: &str) -> std::result::Result<Storage, UnknownName> {
        match name {
            "auto" => Ok(Storage::Auto),
            "cufile" => Ok(Storage::CuFile),
            "posix" => Ok(Storage::Posix),
            _ => Err(UnknownName { name: name.to_owned(), names: Storage::NAMES }),
        }
    }
}

/// A file that is registered with cuFile, so that a device reads and writes it by itself.
#[derive(Debug)]
pub struct DeviceFile {
    handle: FileHandle,
    shared: Arc<Shared>,
    mode: Mode,
    /// Whether cuFile could not register the device memory, and so copies through its own memory.
    unregistered: AtomicBool,
    /// Whether a write covered parts of pages.
    parts_written: AtomicBool,
}

impl Gpu {
    /// Register a file with cuFile, so that the device reads or writes it by itself. Returns `None` when the host should read the file:
    /// `storage` is [`Posix`](Storage::Posix), or it is [`Auto`](Storage::Auto) and cuFile would go through host memory or cannot be used.
    ///
    /// # Errors
    /// With [`Storage::CuFile`] only: [`Error::NotCuda`], [`Error::NoLibrary`], or [`Error::Library`] when cuFile rejects the file.
    pub fn open_file(&self, file: &File, writable: bool, storage: Storage) -> Result<Option<DeviceFile>> {
        let asked = storage == Storage::CuFile;
        if storage == Storage::Posix || (!asked && self.info().api != Api::Cuda) {
            return Ok(None);
        }
        // If cuFile goes through host memory anyway, the file need not be registered.
        if !asked && !CuFile::get().is_ok_and(|library| library.mode() == Mode::Direct) {
            return Ok(None);
        }
        match self.register(file, writable) {
            Ok(file) if asked || file.mode == Mode::Direct => Ok(Some(file)),
            Err(reason) if asked => Err(reason),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn register(&self, file: &File, writable: bool) -> Result<DeviceFile> {
        let mut opened = Err(Error::NotCuda { device: self.info().name.clone() });
        self.shared.device.in_cuda_context(&mut || {
            opened = CuFile::get().map_err(Error::from).and_then(|library| {
                let handle = library.register_file(file, writable)?;
                let (shared, mode) = (Arc::clone(&self.shared), handle.mode());
                let (unregistered, parts_written) = (AtomicBool::new(false), AtomicBool::new(false));
                Ok(DeviceFile { handle, shared, mode, unregistered, parts_written })
            });
        });
        opened
    }
}

impl DeviceFile {
    /// Whether the file was opened for this device.
    pub fn is_for(&self, gpu: &Gpu) -> bool {
        Arc::ptr_eq(&self.shared, &gpu.shared)
    }

    /// Whether the file may be used: no transfer of it stalled.
    pub fn is_alive(&self) -> bool {
        !self.handle.is_stalled()
    }

    /// Whether the bytes bypass host memory.
    pub fn is_direct(&self) -> bool {
        self.mode == Mode::Direct
    }

    /// Describes how the bytes move, for reports.
    pub fn description(&self) -> &'static str {
        let told = |what: &AtomicBool| what.load(Ordering::Relaxed);
        match (self.mode, told(&self.unregistered), told(&self.parts_written)) {
            (Mode::Compatible, ..) => "cuFile in compatibility mode, through host memory",
            (Mode::Direct, true, _) => "cuFile, through memory of its own: the device's could not be registered",
            (Mode::Direct, false, true) => "cuFile (GPUDirect Storage, parts of pages through host memory)",
            (Mode::Direct, false, false) => "cuFile (GPUDirect Storage)",
        }
    }

    /// Reads pieces of the file into a buffer, starting at `at`. All reads are submitted before the first is waited for.
    pub(crate) fn read(&self, to: &Buffer, at: u64, transfers: &[Transfer]) -> Result<()> {
        let begun = self.shared.profile.begin();
        let bytes = self.transfer(to, at, transfers, |handle, pieces, threads| {
            // SAFETY: all pieces lie in the buffer, which lives until the call returns; if the read stalls, the caller never frees it.
            unsafe { handle.read(to.handle, pieces, threads) }
        })?;
        self.shared.profile.end(begun, "cuFile read", bytes);
        self.shared.counters.read_file(transfers.len() as u64, bytes);
        Ok(())
    }

    /// Writes pieces of a buffer, starting at `at`, to the file.
    pub(crate) fn write(&self, from: &Buffer, at: u64, transfers: &[Transfer]) -> Result<()> {
        let begun = self.shared.profile.begin();
        // cuFile reads, changes and writes partial pages in host memory. It reads partial pages through its own device memory.
        if transfers.iter().any(|piece| piece.file_offset % PAGE != 0 || piece.len % PAGE != 0) {
            self.parts_written.store(true, Ordering::Relaxed);
        }
        let bytes = self.transfer(from, at, transfers, |handle, pieces, threads| {
            // SAFETY: as for reads.
            unsafe { handle.write(from.handle, pieces, threads) }
        })?;
        self.shared.profile.end(begun, "cuFile write", bytes);
        self.shared.counters.wrote_file(transfers.len() as u64, bytes);
        Ok(())
    }

    /// Checks that the pieces lie in the buffer, registers the buffer with cuFile, and does the transfers. Returns the number of bytes.
    fn transfer(
        &self,
        buffer: &Buffer,
        at: u64,
        transfers: &[Transfer],
        work: impl Fn(&FileHandle, &[Transfer], Threads<'_>) -> Result<()>,
    ) -> Result<u64> {
        assert!(Arc::ptr_eq(&self.shared, &buffer.shared), "the buffer lies on another device");
        // `nvidia-fs` finds a registered buffer by its first address only.
        let moved = |piece: &Transfer| Transfer { buffer_offset: at + piece.buffer_offset, ..*piece };
        let pieces: Vec<Transfer> = transfers.iter().map(moved).collect();
        let mut bytes = 0;
        for piece in &pieces {
            let end = piece.buffer_offset.checked_add(piece.len);
            assert!(end.is_some_and(|end| end <= buffer.bytes), "{piece:?} lies outside a buffer of {}", buffer.bytes);
            bytes += piece.len;
        }
        self.shared.device.in_cuda_context(&mut || {
            let registered = buffer.registration.get_or_init(|| {
                let library = CuFile::get().ok()?;
                // cuFile uses no stream.
                if buffer.is_in_order() {
                    self.shared.device.wait_for_memory_stream().ok()?;
                }
                library.register_buffer(buffer.handle, buffer.bytes).ok()
            });
            if registered.is_none() {
                self.unregistered.store(true, Ordering::Relaxed);
            }
        });
        let shared = Arc::clone(&self.shared);
        let inside: Inside = Arc::new(move |work| {
            shared.device.in_cuda_context(work);
        });
        work(&self.handle, &pieces, (&self.shared.transfers, &inside)).map(|()| bytes)
    }
}
