//! The simulated device for the tests of cuFile.

use std::ffi::{c_int, c_uint};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libloading::os::unix::{Library, RTLD_NOW};
use swath_gpu::{Buffer, Cuda, Device, Gpu};

use crate::library::{CuFile, Entry, Pointer};

/// A device. Its context is current on the thread that opened it.
pub(crate) struct Card {
    pub(crate) device: Cuda,
    pub(crate) gpu: Gpu,
}

impl Card {
    pub(crate) fn open() -> Card {
        // The tests use memory without streams of Swath, so it comes from `cuMemAlloc`.
        // SAFETY: no other thread of this process runs yet.
        unsafe { std::env::set_var("SWATH_SIM_POOLS", "0") };
        let device = Cuda::open(0).unwrap_or_else(|error| panic!("the simulator does not open: {error}"));
        let gpu = Gpu::new(Cuda::open(0).expect("it opened before"));
        // SAFETY: the types are those of `cuda.h`. The two above retain the context; this one is never
        // released.
        unsafe {
            let driver = Library::open(Some("libcuda.so.1"), RTLD_NOW).expect("the simulator");
            let retain =
                driver.get::<unsafe extern "C" fn(*mut Pointer, c_int) -> c_uint>(b"cuDevicePrimaryCtxRetain\0");
            let push = driver.get::<unsafe extern "C" fn(Pointer) -> c_uint>(b"cuCtxPushCurrent_v2\0");
            let mut context = ptr::null_mut();
            assert_eq!(retain.expect("a function")(&mut context, 0), 0);
            assert_eq!(push.expect("a function")(context), 0);
        }
        Card { device, gpu }
    }

    pub(crate) fn buffer(&self, bytes: usize) -> Buffer {
        self.gpu.alloc("test", Some(bytes as u64)).expect("there is memory")
    }

    /// Returns device memory with these bytes.
    pub(crate) fn holding(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.buffer(bytes.len());
        let mut queue = self.device.queue().expect("a queue");
        // SAFETY: the whole buffer, and the copy is synchronised.
        unsafe { queue.upload(bytes, buffer.handle(), 0) }.expect("an upload");
        queue.synchronize().expect("nothing went wrong");
        buffer
    }

    /// Runs all of these at once, with that many threads, and returns the result of each.
    pub(crate) fn at_once(&self, library: &CuFile, entries: &[Entry], threads: usize) -> Vec<isize> {
        let (next, moved) = (AtomicUsize::new(0), Mutex::new(vec![0; entries.len()]));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut work = || {
                        while let Some((i, entry)) =
                            entries.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
                        {
                            let came_to = library.one(entry);
                            moved.lock().unwrap()[i] = came_to;
                        }
                    };
                    assert!(self.device.in_cuda_context(&mut work));
                });
            }
        });
        moved.into_inner().unwrap()
    }

    pub(crate) fn contents(&self, buffer: &Buffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.bytes() as usize];
        let mut queue = self.device.queue().expect("a queue");
        // SAFETY: the whole buffer, and nothing reads it before the next line.
        unsafe { queue.download(buffer.handle(), 0, &mut bytes) }.expect("a download");
        queue.synchronize().expect("nothing went wrong");
        bytes
    }
}

/// A read of a part of a file to a position in a buffer.
pub(crate) fn piece(file: Pointer, buffer: &Buffer, file_offset: usize, base_offset: usize, bytes: usize) -> Entry {
    let (file_offset, base_offset) = (file_offset as i64, base_offset as i64);
    Entry { base: buffer.handle(), file_offset, base_offset, bytes, file, write: false }
}
