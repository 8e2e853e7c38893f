//! Calls the simulator's nvJPEG2000 and nvJPEG in the same way as NVIDIA's libraries: by name, through their C
//! interfaces.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LAZY};
use swath_codec::{SampleFormat, Shape};
use swath_sim::{device_bytes, inside_with};

use jpeg::Jpeg;
use jpeg2000::Jpeg2000;

type Handle = *mut c_void;

/// The functions of a library, by name.
macro_rules! library {
    ($library:ident, $file:literal, { $($function:ident($($kind:ty),*);)* }) => {
        #[allow(non_snake_case)]
        pub(crate) struct $library { $(pub(crate) $function: unsafe extern "C" fn($($kind),*) -> c_int,)* }

        impl $library {
            pub(crate) fn load() -> $library {
                // SAFETY: the library is the simulator, which has no initialisers, and the types are those of
                // the C header.
                unsafe {
                    let library = $crate::Library::open(Some($file), $crate::RTLD_LAZY).expect("the simulator stands in for it");
                    let loaded = $library {
                        $($function: *library.get(concat!(stringify!($function), "\0").as_bytes()).expect(stringify!($function)),)*
                    };
                    std::mem::forget(library);
                    loaded
                }
            }
        }
    };
}

mod jpeg;
mod jpeg2000;

library!(Driver, "libcuda.so.1", {
    cuInit(c_uint);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuCtxPushCurrent_v2(Handle);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemHostAlloc(*mut Handle, usize, c_uint);
    cuMemFreeHost(Handle);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle);
    cuMemcpyDtoHAsync_v2(Handle, u64, usize, Handle);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamSynchronize(Handle);
});

const INVALID_PARAMETER: c_int = 2;
const BAD_JPEG: c_int = 3;
const NOT_SUPPORTED: c_int = 4;
const ALLOCATOR_FAILURE: c_int = 5;
const EXECUTION_FAILED: c_int = 6;
const ILLEGAL_ADDRESS: c_int = 700;
const LAUNCH_FAILED: c_int = 719;
const POISON: u8 = 0xA5;

/// A device and one of its streams.
struct Gpu {
    cuda: Driver,
    stream: Handle,
}

/// Returns the handle that a call writes.
fn made(make: impl FnOnce(*mut Handle) -> c_int) -> Handle {
    let mut handle = null_mut();
    assert_eq!(make(&mut handle), 0);
    handle
}

impl Gpu {
    fn open() -> Gpu {
        let cuda = Driver::load();
        // SAFETY: the arguments follow the manual.
        unsafe {
            assert_eq!((cuda.cuInit)(0), 0, "the simulator does not start");
            let context = made(|context| (cuda.cuDevicePrimaryCtxRetain)(context, 0));
            assert_eq!((cuda.cuCtxPushCurrent_v2)(context), 0);
            let stream = made(|stream| (cuda.cuStreamCreate)(stream, 1));
            Gpu { cuda, stream }
        }
    }

    fn alloc(&self, bytes: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the arguments follow the manual.
        assert_eq!(unsafe { (self.cuda.cuMemAlloc_v2)(&mut address, bytes) }, 0);
        address
    }

    fn free(&self, address: u64) {
        // SAFETY: the simulator refuses handles that it did not create.
        assert_eq!(unsafe { (self.cuda.cuMemFree_v2)(address) }, 0);
    }

    /// Returns memory with these bytes.
    fn put(&self, bytes: &[u8]) -> u64 {
        let address = self.alloc(bytes.len());
        // SAFETY: the arguments follow the manual.
        let code =
            unsafe { (self.cuda.cuMemcpyHtoDAsync_v2)(address, bytes.as_ptr().cast(), bytes.len(), self.stream) };
        assert_eq!(code, 0);
        address
    }

    /// Returns the content of memory as seen by another stream, which waits for nothing.
    fn peek(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        // SAFETY: the arguments follow the manual; memory that is not pinned is written before the call
        // returns.
        unsafe {
            let other = made(|stream| (self.cuda.cuStreamCreate)(stream, 1));
            assert_eq!((self.cuda.cuMemcpyDtoHAsync_v2)(out.as_mut_ptr().cast(), address, bytes, other), 0);
        }
        out
    }

    fn synchronize(&self) -> c_int {
        // SAFETY: the stream is alive.
        unsafe { (self.cuda.cuStreamSynchronize)(self.stream) }
    }

    /// Returns the content of memory after all work is done.
    fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        assert_eq!(self.synchronize(), 0);
        self.peek(address, bytes)
    }
}

/// Returns bytes with a long period.
fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32).map(|i| ((i ^ seed << 20).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Returns colours that change slowly, which JPEG compresses well.
fn waves(width: usize, height: usize, samples: usize) -> Vec<u8> {
    let value = |i: usize| {
        let (x, y, c) = (i / samples % width, i / samples / width, i % samples);
        (128.0 + 60.0 * (x as f64 / 7.0).sin() + 50.0 * (y as f64 / 9.0 + c as f64).cos()) as u8
    };
    (0..width * height * samples).map(value).collect()
}

const TYPES: [(c_int, usize, SampleFormat); 3] =
    [(0, 8, SampleFormat::Uint), (1, 16, SampleFormat::Uint), (2, 16, SampleFormat::Int)];

fn shape(width: usize, height: usize, samples: usize, (_, bits, format): (c_int, usize, SampleFormat)) -> Shape {
    Shape { width, height, samples, bits, format }
}

/// Returns rows at a pitch, with poison between them, as on the device.
fn pitched(rows: &[u8], row: usize, pitch: usize) -> Vec<u8> {
    rows.chunks(row).flat_map(|row| row.iter().copied().chain(vec![POISON; pitch - row.len()])).collect()
}

fn plane(interleaved: &[u8], n: usize, samples: usize, bytes: usize) -> Vec<u8> {
    interleaved.chunks(bytes).skip(n).step_by(samples).flatten().copied().collect()
}

#[test]
fn states_need_device_memory_and_a_context() {
    let memory = 3 << 16;
    let variables = [("SWATH_SIM_MEMORY", &*memory.to_string())];
    if !inside_with("states_need_device_memory_and_a_context", &["nvjpeg2k", "nvjpeg"], &variables) {
        return;
    }
    let (api, jpeg) = (Jpeg2000::load(), Jpeg::load());
    let (mut handle, mut state) = (null_mut(), null_mut());
    // SAFETY: the arguments follow the manual.
    unsafe {
        // A handle of nvJPEG2000 needs no device, a handle of nvJPEG does.
        assert_eq!((api.nvjpeg2kCreateSimple)(&mut handle), 0);
        assert_eq!((api.nvjpeg2kDecodeStateCreate)(handle, &mut state), EXECUTION_FAILED);
        assert_eq!((jpeg.nvjpegCreateSimple)(&mut state), EXECUTION_FAILED);
        let gpu = Gpu::open();
        assert_eq!((jpeg.nvjpegCreateEx)(3, null(), null(), 0, &mut state), INVALID_PARAMETER);
        let library = made(|to| (jpeg.nvjpegCreateEx)(2, null(), null(), 0, to));
        let first = made(|to| (api.nvjpeg2kDecodeStateCreate)(handle, to));
        let second = made(|to| (jpeg.nvjpegJpegStateCreate)(library, to));
        let third = made(|to| (jpeg.nvjpegEncoderStateCreate)(library, to, gpu.stream));
        assert_eq!((api.nvjpeg2kDecodeStateCreate)(handle, &mut state), ALLOCATOR_FAILURE);
        assert_eq!((jpeg.nvjpegJpegStateCreate)(library, &mut state), ALLOCATOR_FAILURE);
        assert_eq!((api.nvjpeg2kDecodeStateDestroy)(first), 0);
        assert_eq!((jpeg.nvjpegJpegStateDestroy)(second), 0);
        assert_eq!((jpeg.nvjpegEncoderStateDestroy)(first), INVALID_PARAMETER, "the state of another library");
        assert_eq!((jpeg.nvjpegEncoderStateDestroy)(third), 0);
        assert_eq!(((jpeg.nvjpegDestroy)(library), (api.nvjpeg2kDestroy)(handle)), (0, 0));
    }
    assert_eq!(device_bytes(), 0);
}
