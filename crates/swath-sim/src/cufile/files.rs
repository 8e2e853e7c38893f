//! The registered files and memory, and the number of times that the driver was opened.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Answer, Status, report};
use crate::sim::in_context;

/// A registered file.
#[derive(Debug)]
pub(super) struct Registered {
    handle: usize,
    /// The caller's descriptor, which must stay open.
    fd: c_int,
    identity: (u64, u64),
    /// The same file, opened again without `O_DIRECT`: the alignment rules of that flag apply to devices.
    pub(super) file: File,
}

#[derive(Debug)]
struct Registry {
    opened: u32,
    files: BTreeMap<usize, Arc<Registered>>,
    /// The start and the end of each registered range of memory.
    buffers: BTreeMap<usize, usize>,
    last_handle: usize,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { opened: 0, files: BTreeMap::new(), buffers: BTreeMap::new(), last_handle: 0xF11E_0000 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the driver once more.
pub(super) fn open() {
    registry().opened += 1;
}

/// Closes the driver once. A real library releases the remaining registrations; here they are reported, because
/// the caller has forgotten them.
pub(super) fn close() -> Answer {
    let mut registry = registry();
    match registry.opened {
        0 => return Err(Status::DRIVER_NOT_INITIALIZED),
        1 if registry.files.len() + registry.buffers.len() > 0 => {
            let (files, buffers) = (registry.files.len(), registry.buffers.len());
            report(&format!("cuFile is closed with {files} files and {buffers} buffers still registered"));
            return Err(Status::INVALID_VALUE);
        }
        _ => registry.opened -= 1,
    }
    Ok(())
}

pub(super) fn opened() -> u32 {
    registry().opened
}

pub(super) fn require_open() -> Answer {
    if opened() > 0 { Ok(()) } else { Err(Status::DRIVER_NOT_INITIALIZED) }
}

/// Returns the identity of the regular file of a descriptor.
fn identity(fd: c_int) -> Option<(u64, u64)> {
    let metadata = fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// Registers a file. In strict mode it must be open for direct reads and writes.
pub(super) fn register_file(fd: c_int, strict: bool) -> Answer<usize> {
    let identity = identity(fd).ok_or(Status::INVALID_FILE_TYPE)?;
    // SAFETY: this only queries, and an invalid descriptor is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 || (strict && flags & libc::O_DIRECT == 0) {
        return Err(Status::INVALID_FILE_OPEN_FLAG);
    }
    let access = flags & libc::O_ACCMODE;
    let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
    // The file is opened by its name, as in the real library: a file without a name cannot be registered.
    let file = fs::read_link(format!("/proc/self/fd/{fd}"))
        .and_then(|path| File::options().read(reads).write(writes).open(path));
    let file = file.map_err(|_| Status::GETNEWFD_FAILED)?;
    if file.metadata().ok().map(|found| (found.dev(), found.ino())) != Some(identity) {
        return Err(Status::GETNEWFD_FAILED);
    }
    let mut registry = registry();
    if registry.files.values().any(|registered| registered.fd == fd) {
        return Err(Status::HANDLE_ALREADY_REGISTERED);
    }
    registry.last_handle += 16;
    let handle = registry.last_handle;
    registry.files.insert(handle, Arc::new(Registered { handle, fd, identity, file }));
    Ok(handle)
}

pub(super) fn deregister_file(handle: usize) {
    let removed = registry().files.remove(&handle);
    match removed {
        None => report("a file that is not registered is deregistered"),
        Some(registered) if !registered.is_open() => report("a file is deregistered after it was closed"),
        Some(_) => {}
    }
}

/// Returns the file of a handle.
pub(super) fn file(handle: usize) -> Option<Arc<Registered>> {
    registry().files.get(&handle).cloned()
}

impl Registered {
    /// Whether the caller's descriptor still refers to the file.
    pub(super) fn is_open(&self) -> bool {
        identity(self.fd) == Some(self.identity)
    }

    pub(super) fn is_registered(&self) -> bool {
        registry().files.contains_key(&self.handle)
    }
}

/// Registers memory of the device whose context is current.
pub(super) fn register_buffer(base: usize, bytes: usize) -> Answer {
    let checked = in_context(|sim, device| {
        let Some(allocation) = sim.memory.allocation(device, base) else {
            return Ok(Err(Status::CUDA_POINTER_INVALID));
        };
        // The kernel module cannot map memory of a pool.
        if sim.memory.is_of_pool(base) {
            return Ok(Err(Status::CUDA_POINTER_INVALID));
        }
        let Some(end) = base.checked_add(bytes).filter(|end| *end <= allocation.end) else {
            return Ok(Err(Status::CUDA_POINTER_RANGE_ERROR));
        };
        // No other thread can free it between these two calls, because the driver's lock is held.
        let mut registry = registry();
        if registry.overlap(&(base..end)) {
            return Ok(Err(Status::MEMORY_ALREADY_REGISTERED));
        }
        registry.buffers.insert(base, end);
        Ok(Ok(()))
    });
    checked.unwrap_or_else(|code| Err(Status::cuda(code)))
}

pub(super) fn deregister_buffer(base: usize) -> Answer {
    registry().buffers.remove(&base).map(|_| ()).ok_or(Status::INVALID_VALUE)
}

/// Returns the end of the registered memory that starts at `base`.
pub(super) fn registered_end(base: usize) -> Option<usize> {
    registry().buffers.get(&base).copied()
}

/// Whether any of this memory is registered.
pub(crate) fn is_registered(memory: Range<usize>) -> bool {
    registry().overlap(&memory)
}

impl Registry {
    fn overlap(&self, memory: &Range<usize>) -> bool {
        // Registered ranges do not overlap, so the last one that starts before the end is also the last one to
        // end.
        self.buffers.range(..memory.end).next_back().is_some_and(|(_, end)| *end > memory.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let buffers = BTreeMap::from([(100, 200), (300, 400)]);
        let registry = Registry { opened: 1, files: BTreeMap::new(), buffers, last_handle: 0 };
        for apart in [0..100, 200..300, 400..500] {
            assert!(!registry.overlap(&apart), "{apart:?}");
        }
        for over in [0..101, 0..1000, 150..160, 199..300, 200..301, 399..400] {
            assert!(registry.overlap(&over), "{over:?}");
        }
    }
}
