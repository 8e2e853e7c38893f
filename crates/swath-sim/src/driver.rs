//! The driver's functions as `cuda.h` declares them, under the names that its macros define.
//!
//! The simulator has only the functions that `swath-gpu` calls: a call of another function must fail at look-up
//! and not later.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use swath_gpu::PTX;

use crate::code::{Code, Done, describe};
use crate::event::record;
use crate::executor::KernelSource;
use crate::fail;
use crate::opencl::Parameter;
use crate::sim::{self, device_count, in_context, multiprocessors, total_memory, with};
use crate::timeline::{self, Engine};

/// The limits that GPUs of every generation have.
const MOST_THREADS: u64 = 1024;
const MOST_SHARED: u64 = 48 << 10;
const MOST_GROUPS: u32 = i32::MAX as u32;

/// The compute capability that the simulator reports, and the version of CUDA.
const CAPABILITY: (c_int, c_int) = (8, 6);
const VERSION: c_int = 12_080;

fn answer(done: Done) -> c_uint {
    done.map_or_else(|Code(code)| code, |()| 0)
}

/// Writes a result to the caller's pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { to.write(value) };
    Ok(())
}

fn known_device(device: c_int) -> Done {
    if (0..device_count()).contains(&device) { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}

// Callers of the C interface pass every function below the pointers that the CUDA manual requires: null, or
// valid for the read or write. Each comment `SAFETY: by the manual` refers to this.

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_uint {
    answer(match fail::point("init", Code::UNKNOWN) {
        Ok(()) if flags != 0 => Err(Code::INVALID_VALUE),
        Ok(()) if device_count() <= 0 => Err(Code::NO_DEVICE),
        Ok(()) => sim::start(),
        failed => failed,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_uint {
    // SAFETY: by the manual.
    answer(unsafe { give(version, VERSION) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: c_uint, text: *mut *const c_char) -> c_uint {
    let name = describe(code).map(|(name, _)| name.as_ptr());
    // SAFETY: by the manual.
    answer(unsafe { give(text, name.unwrap_or(ptr::null())) }.and(name.map(|_| ()).ok_or(Code::INVALID_VALUE)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: c_uint, text: *mut *const c_char) -> c_uint {
    let string = describe(code).map(|(_, string)| string.as_ptr());
    // SAFETY: by the manual.
    answer(unsafe { give(text, string.unwrap_or(ptr::null())) }.and(string.map(|_| ()).ok_or(Code::INVALID_VALUE)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_uint {
    // SAFETY: by the manual.
    answer(with(|_| unsafe { give(count, device_count()) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, index: c_int) -> c_uint {
    // SAFETY: by the manual.
    answer(with(|_| known_device(index).and_then(|()| unsafe { give(device, index) })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) -> c_uint {
    answer(with(|_| {
        known_device(device)?;
        let room = usize::try_from(room).ok().filter(|room| *room > 0 && !name.is_null()).ok_or(Code::INVALID_VALUE)?;
        let executor = KernelSource::selected().description();
        let text = format!("Swath's simulated GPU {device}{executor}");
        let length = text.len().min(room - 1);
        // SAFETY: by the manual there is space for that many bytes. The last one is for the zero.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), length);
            name.add(length).write(0);
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> c_uint {
    answer(with(|_| {
        known_device(device)?;
        let found = match attribute {
            1 => MOST_THREADS as c_int,
            8 => MOST_SHARED as c_int,
            10 => 32,
            16 => multiprocessors(),
            75 => CAPABILITY.0,
            76 => CAPABILITY.1,
            115 => c_int::from(fail::number("SWATH_SIM_POOLS", 1) > 0),
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: by the manual.
        unsafe { give(value, found) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_uint {
    // SAFETY: by the manual.
    answer(with(|_| known_device(device).and_then(|()| unsafe { give(bytes, total_memory() as usize) })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_uint {
    answer(with(|sim| {
        known_device(device)?;
        sim.present(device)?;
        // SAFETY: by the manual.
        unsafe { give(context, sim.retain(device) as *mut c_void) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_uint {
    answer(with(|sim| {
        // The resources of the context are released even if the device is lost.
        let present = sim.present(device);
        sim.release(device).and(present)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: *mut c_void) -> c_uint {
    answer(sim::push(context as usize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut *mut c_void) -> c_uint {
    answer(sim::pop().map(|popped| {
        if !context.is_null() {
            // SAFETY: by the manual.
            unsafe { context.write(popped as *mut c_void) };
        }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_void,
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> c_uint {
    answer(in_context(|sim, device| {
        if image.is_null() || (count > 0 && (options.is_null() || values.is_null())) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the manual a PTX image ends with a zero.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        let loaded = fail::point("module", Code::INVALID_PTX);
        let message = match loaded {
            Err(_) => c"ptxas fatal : an injected failure",
            Ok(()) if text.to_bytes() != PTX.as_bytes() => c"ptxas fatal : this is not the PTX of swath-gpu",
            Ok(()) => {
                // SAFETY: by the manual.
                return unsafe { give(module, sim.add_module(device) as *mut c_void) };
            }
        };
        // SAFETY: by the manual there are that many options and values, and the log has the size that they
        // state.
        unsafe { log(message, count as usize, options, values) };
        Err(Code::INVALID_PTX)
    }))
}

/// Writes to the error log that the options contain, if any.
///
/// # Safety
/// There are `count` options and values, and the buffer among them has the size among them.
unsafe fn log(text: &CStr, count: usize, options: *const c_uint, values: *const *mut c_void) {
    const BUFFER: c_uint = 5;
    const SIZE: c_uint = 6;
    let find = |wanted: c_uint| {
        // SAFETY: guaranteed by the caller.
        (0..count).find(|&i| unsafe { *options.add(i) } == wanted).map(|i| unsafe { *values.add(i) })
    };
    if let (Some(buffer), Some(size)) = (find(BUFFER), find(SIZE))
        && !buffer.is_null()
        && text.to_bytes_with_nul().len() <= size as usize
    {
        // SAFETY: the text fits.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.to_bytes_with_nul().len()) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_uint {
    answer(in_context(|sim, _| {
        if name.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the manual.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Code::NOT_FOUND)?;
        if !PTX.contains(&format!(".entry {name}(")) {
            return Err(Code::NOT_FOUND);
        }
        // SAFETY: by the manual.
        unsafe { give(function, sim.add_function(module as usize, name)? as *mut c_void) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    groups: *mut c_int,
    function: *mut c_void,
    threads: c_int,
    _shared: usize,
) -> c_uint {
    answer(in_context(|sim, device| {
        let kernel = sim.function(device, function as usize)?;
        if i64::from(threads) != i64::from(kernel.group()) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the manual.
        unsafe { give(groups, kernel.usual_residency() as c_int) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| sim.drain_device(device).and_then(|()| sim.remove_module(module as usize))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_uint {
    answer(in_context(|sim, device| {
        let all = total_memory();
        // SAFETY: by the manual.
        unsafe {
            give(free, all.saturating_sub(sim.memory.used(device) + sim.memory.pooled(device)) as usize)?;
            give(total, all as usize)
        }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_uint {
    answer(in_context(|sim, device| {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        fail::point("alloc", Code::OUT_OF_MEMORY)?;
        if bytes as u64 > total_memory().saturating_sub(sim.memory.used(device) + sim.memory.pooled(device)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        record(format!("alloc {bytes}"));
        // SAFETY: by the manual.
        unsafe { give(address, sim.memory.allocate(&sim.executor, device, bytes)? as u64) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> c_uint {
    answer(in_context(|sim, device| {
        sim.drain_device(device)?;
        record("free");
        sim.memory.free(&sim.executor, device, address as usize)
    }))
}

/// Allocates as late as the order of streams allows: no work may use the memory before the stream has reached the allocation.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        if bytes == 0 || fail::number("SWATH_SIM_POOLS", 1) == 0 {
            return Err(Code::INVALID_VALUE);
        }
        fail::point("alloc", Code::OUT_OF_MEMORY)?;
        if bytes as u64 > total_memory().saturating_sub(sim.memory.used(device)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        record(format!("alloc {bytes}"));
        let start = sim.memory.allocate_in_order(&sim.executor, device, bytes)?;
        sim.later(
            device,
            stream as usize,
            Box::new(move |sim, _| {
                sim.memory.arrive(start);
                Ok(())
            }),
        )?;
        // SAFETY: by the manual.
        unsafe { give(address, start as u64) }
    }))
}

/// Frees as early as the order of streams allows: work of other streams that does not wait for this memory finds it freed.
#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        sim.drain(device, stream as usize)?;
        record("free async");
        sim.memory.free_in_order(&sim.executor, device, address as usize)
    }))
}

/// The pool of a device: its handle is this number plus that of the device.
const POOL: usize = 0x9001_0000;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut *mut c_void, device: c_int) -> c_uint {
    // SAFETY: by the manual.
    answer(with(|_| known_device(device).and_then(|()| unsafe { give(pool, (POOL + device as usize) as *mut c_void) })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolGetAttribute(pool: *mut c_void, attribute: c_uint, value: *mut c_void) -> c_uint {
    const RESERVED: c_uint = 5;
    const USED: c_uint = 7;
    answer(with(|sim| {
        let device = (pool as usize).checked_sub(POOL).and_then(|device| c_int::try_from(device).ok());
        let device = device.ok_or(Code::INVALID_VALUE)?;
        known_device(device)?;
        let used = sim.memory.used_of_pool(device);
        let found = match attribute {
            RESERVED => used + sim.memory.pooled(device),
            USED => used,
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: by the manual there is space for a number of 64 bits.
        unsafe { give(value.cast::<u64>(), found) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: u64) -> c_uint {
    const DEVICE_ORDINAL: c_uint = 9;
    answer(with(|sim| {
        if attribute != DEVICE_ORDINAL {
            return Err(Code::INVALID_VALUE);
        }
        let device = sim.memory.device_of(address).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: by the manual there is space for a number.
        unsafe { give(value.cast::<c_uint>(), device as c_uint) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, _flags: c_uint) -> c_uint {
    answer(in_context(|sim, _| {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        fail::point("pin", Code::OUT_OF_MEMORY)?;
        record(format!("pin {bytes}"));
        // SAFETY: by the manual.
        unsafe { give(memory, sim.pinned.allocate(bytes)? as *mut c_void) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(memory: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        sim.drain_device(device)?;
        sim.pinned.free(memory as usize)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        fail::point("upload", Code::UNKNOWN)?;
        record(format!("upload {bytes}"));
        timeline::copy(Engine::Upload, stream as usize, bytes);
        sim.memory.range(device, to, bytes).ok_or(Code::INVALID_VALUE)?;
        if from.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let from = from as usize;
        // Pinned memory is read when the stream reaches the copy; other memory is copied before the call
        // returns.
        let staged = (!sim.pinned.contains(from, bytes)).then(|| {
            // SAFETY: by the manual that many bytes can be read there.
            unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.to_vec()
        });
        let work = move |sim: &mut sim::Sim, device| {
            let from = staged.as_ref().map_or(from as *const u8, |staged| staged.as_ptr());
            let to = sim.memory.at_work(device, to, bytes)?.start;
            // SAFETY: the target is alive, and code that frees pinned memory first drains all streams.
            unsafe { ptr::copy_nonoverlapping(from, to as *mut u8, bytes) };
            Ok(())
        };
        sim.later(device, stream as usize, Box::new(work))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        fail::point("download", Code::UNKNOWN)?;
        record(format!("download {bytes}"));
        timeline::copy(Engine::Download, stream as usize, bytes);
        sim.memory.range(device, from, bytes).ok_or(Code::INVALID_VALUE)?;
        if to.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let to = to as usize;
        let wrong = bytes > 0 && fail::now("wrong");
        let work = move |sim: &mut sim::Sim, device| {
            let from = sim.memory.at_work(device, from, bytes)?.start;
            // SAFETY: as for copies to the device. Memory that is not pinned is written before the call
            // returns.
            unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
            if wrong {
                // SAFETY: one of the bytes that were just written.
                unsafe { *(to as *mut u8).add(bytes / 2) ^= 1 };
            }
            Ok(())
        };
        sim.later(device, stream as usize, Box::new(work))?;
        if sim.pinned.contains(to, bytes) { Ok(()) } else { sim.drain(device, stream as usize) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        fail::point("copy", Code::UNKNOWN)?;
        record(format!("copy {bytes}"));
        timeline::compute("copy", stream as usize, 0);
        let range = |at| sim.memory.range(device, at, bytes).ok_or(Code::INVALID_VALUE);
        let (source, target) = (range(from)?, range(to)?);
        // Overlapping ranges are undefined on real devices.
        if source.start < target.end && target.start < source.end {
            return Err(Code::INVALID_VALUE);
        }
        let work = move |sim: &mut sim::Sim, device| {
            let (from, to) = (sim.memory.at_work(device, from, bytes)?, sim.memory.at_work(device, to, bytes)?);
            // SAFETY: both ranges are alive and do not overlap.
            unsafe { ptr::copy_nonoverlapping(from.start as *const u8, to.start as *mut u8, bytes) };
            Ok(())
        };
        sim.later(device, stream as usize, Box::new(work))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _flags: c_uint) -> c_uint {
    answer(in_context(|sim, device| {
        fail::point("stream", Code::UNKNOWN)?;
        record("stream");
        // SAFETY: by the manual.
        unsafe { give(stream, sim.add_stream(device) as *mut c_void) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        record("synchronize");
        timeline::wait(Some(stream as usize));
        fail::point("synchronize", Code::ILLEGAL_ADDRESS).or_else(|code| sim.kill(device, code))?;
        sim.drain(device, stream as usize)?;
        sim.release_pool(device);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_uint {
    answer(in_context(|sim, device| {
        record("synchronize context");
        timeline::wait(None);
        fail::point("synchronize", Code::ILLEGAL_ADDRESS).or_else(|code| sim.kill(device, code))?;
        sim.drain_device(device)?;
        sim.release_pool(device);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _flags: c_uint) -> c_uint {
    // SAFETY: by the manual.
    answer(in_context(|sim, _| unsafe { give(event, sim.add_event() as *mut c_void) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        timeline::record(event as usize, stream as usize);
        sim.record_event(device, event as usize, stream as usize)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_uint {
    answer(in_context(|sim, device| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        record("stream wait");
        timeline::wait_for_event(stream as usize, event as usize);
        // An event that was never recorded has nothing to wait for.
        let Some(other) = sim.event(event as usize)? else { return Ok(()) };
        sim.later(device, stream as usize, Box::new(move |sim, device| sim.drain_for_event(device, other)))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_uint {
    answer(in_context(|sim, _| sim.remove_event(event as usize)))
}

/// Makes a stream wait for the work that another one has, as `cuEventRecord` and `cuStreamWaitEvent` do, for tests that act as
/// another library.
#[unsafe(no_mangle)]
extern "C" fn swath_sim_stream_wait(stream: *mut c_void, other: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| {
        record("stream wait");
        // Now: the default stream of this thread has another meaning in other threads.
        let other = sim.named(device, other as usize);
        sim.later(device, stream as usize, Box::new(move |sim, device| sim.drain_for_event(device, other)))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> c_uint {
    answer(in_context(|sim, device| sim.remove_stream(device, stream as usize)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> c_uint {
    answer(in_context(|sim, device| {
        fail::point("launch", Code::LAUNCH_OUT_OF_RESOURCES)?;
        let kernel = sim.function(device, function as usize)?;
        record(format!("launch {} {grid_x}", kernel.name()));
        timeline::compute(kernel.name(), stream as usize, grid_x.into());
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        // Swath's kernels have one dimension, and blocks of the declared size.
        let shape = (grid_y, grid_z, block_x, block_y, block_z) == (1, 1, kernel.group(), 1, 1);
        if !shape || grid_x == 0 || grid_x > MOST_GROUPS || threads > MOST_THREADS || !extra.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let signature = sim.executor.signature(kernel)?;
        if signature.shared + u64::from(shared) > MOST_SHARED {
            return Err(Code::LAUNCH_OUT_OF_RESOURCES);
        }
        if parameters.is_null() && !signature.parameters.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        // The values are read now and not when the stream reaches the launch.
        let read = |(index, parameter): (usize, &Parameter)| {
            // SAFETY: by the manual there is a pointer for each parameter, to a value of its size.
            unsafe {
                let value = *parameters.add(index);
                match parameter {
                    Parameter::Pointer | Parameter::Number(8) => value.cast::<u64>().read_unaligned(),
                    Parameter::Number(4) => value.cast::<u32>().read_unaligned().into(),
                    Parameter::Number(2) => value.cast::<u16>().read_unaligned().into(),
                    Parameter::Number(_) => value.cast::<u8>().read().into(),
                }
            }
        };
        let values: Vec<u64> = signature.parameters.iter().enumerate().map(read).collect();
        let work = move |sim: &mut sim::Sim, device| sim.run(device, kernel, grid_x, &values);
        sim.later(device, stream as usize, Box::new(work))
    }))
}
