//! OpenCL devices of any vendor. The library is opened at run time.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use opencl3::command_queue::{
    CommandQueue, enqueue_barrier_with_wait_list, enqueue_copy_buffer, enqueue_map_buffer,
    enqueue_marker_with_wait_list, enqueue_nd_range_kernel, enqueue_read_buffer, enqueue_unmap_mem_object,
    enqueue_write_buffer, finish, flush,
};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, Device as ClDevice};
use opencl3::error_codes::{
    CL_DEVICE_NOT_FOUND, CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY,
    CL_OUT_OF_RESOURCES, ClError, DLOPEN_RUNTIME_LOAD_FAILED,
};
use opencl3::event::release_event;
use opencl3::kernel::{Kernel as ClKernel, set_kernel_arg};
use opencl3::memory::{
    CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, create_buffer, release_mem_object,
};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, CL_NON_BLOCKING, cl_event, cl_int, cl_mem};

use crate::backend::kernel::{Arg, Kernel, PRELUDE};
use crate::backend::{Api, Device, DeviceInfo, Handle, Mark, MemoryInfo, Queue};
use crate::error::{Error, Result};

/// The environment variable that selects a device: its number in `swath devices`, `gpu` or `cpu`, or a part of the name of the device or its
/// driver.
const CHOICE: &str = "SWATH_OPENCL_DEVICE";

/// A device that is driven through OpenCL.
#[derive(Debug)]
pub struct OpenCl {
    info: DeviceInfo,
    inner: Arc<Inner>,
}

/// The state that queues share with their device.
#[derive(Debug)]
struct Inner {
    context: Context,
    device: ClDevice,
    name: String,
    /// Programs by source file, compiled when their first kernel is needed.
    programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    /// For mapping and unmapping pinned memory.
    queue: CommandQueue,
}

/// A device that was found, with the name of its platform.
struct Found {
    device: ClDevice,
    info: DeviceInfo,
    platform: String,
    is_cpu: bool,
}

impl OpenCl {
    /// Opens the device that `SWATH_OPENCL_DEVICE` names, or else the first GPU. A device that is not a GPU is used only when it is named: it
    /// would be slower than the CPU path.
    ///
    /// # Errors
    /// [`Error::NoDevice`] states what is missing.
    pub fn open() -> Result<OpenCl> {
        let choice = std::env::var(CHOICE).ok().filter(|choice| !choice.trim().is_empty());
        OpenCl::choose(choice.as_deref())
    }

    /// Opens the device that `choice` selects as `SWATH_OPENCL_DEVICE` would: its number, `gpu` or `cpu`, or a part of the name of the device
    /// or its driver. Without a choice, the first GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] states what is missing.
    pub fn choose(choice: Option<&str>) -> Result<OpenCl> {
        let found = find()?;
        let wanted = |found: &Found| match choice.map(str::trim) {
            None | Some("gpu") => found.info.is_gpu,
            Some("cpu") => found.is_cpu,
            Some(text) => match text.parse::<usize>() {
                Ok(index) => found.info.index == index,
                Err(_) => {
                    let text = text.to_lowercase();
                    let named = |name: &str| name.to_lowercase().contains(&text);
                    named(&found.info.name) || named(&found.info.driver)
                }
            },
        };
        let names = found.iter().map(|found| format!("{} ({})", found.info.name, found.platform)).collect::<Vec<_>>();
        match found.into_iter().find(wanted) {
            Some(found) => OpenCl::new(found),
            None => {
                let reason = match choice {
                    Some(choice) => format!("{CHOICE}={choice} names none of {}", names.join(", ")),
                    None => format!(
                        "none of its devices is a GPU; {CHOICE} can name one of {} all the same",
                        names.join(", ")
                    ),
                };
                Err(no_device(reason))
            }
        }
    }

    /// All devices of every type.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is none.
    pub fn list() -> Result<Vec<DeviceInfo>> {
        Ok(find()?.into_iter().map(|found| found.info).collect())
    }

    fn new(found: Found) -> Result<OpenCl> {
        let largest = Kernel::ALL.iter().map(|kernel| kernel.group() as usize).max().unwrap_or(0);
        let group = found.device.max_work_group_size().unwrap_or(largest);
        if group < largest {
            let name = &found.info.name;
            return Err(no_device(format!("{name} has groups of {group} work items, and the kernels need {largest}")));
        }
        let context = Context::from_device(&found.device).map_err(failed("clCreateContext"))?;
        let queue = command_queue(&context, &found.device)?;
        let (info, name) = (found.info.clone(), found.info.name);
        let inner = Inner { context, device: found.device, name, programs: Mutex::default(), queue };
        Ok(OpenCl { info, inner: Arc::new(inner) })
    }
}

fn no_device(reason: String) -> Error {
    Error::NoDevice { api: Api::OpenCl, reason }
}

fn failed(call: &'static str) -> impl Fn(ClError) -> Error {
    move |error| Error::Driver { api: Api::OpenCl, call, code: error.to_string() }
}

fn failed_code(call: &'static str) -> impl Fn(cl_int) -> Error {
    move |code| failed(call)(ClError(code))
}

/// The error of work that could not be enqueued. Many drivers allocate the memory of a buffer at its first use, and there may be less than
/// the guard computed: `bytes` is the size of the buffers.
fn refused(call: &'static str, stage: &'static str, bytes: u64) -> impl Fn(cl_int) -> Error {
    move |code| match code {
        CL_MEM_OBJECT_ALLOCATION_FAILURE => Error::OutOfMemory { stage, needed: bytes },
        code => failed_code(call)(code),
    }
}

/// Every device of every platform.
fn find() -> Result<Vec<Found>> {
    // PoCL 3.1 reports no device to a thread that asks while it still initialises for another thread.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let platforms = get_platforms().map_err(|error| {
        let reason = match error.0 {
            DLOPEN_RUNTIME_LOAD_FAILED => {
                "libOpenCL.so.1 is not in the library path of this system (OPENCL_DYLIB_PATH names another place)"
                    .into()
            }
            // The code of a loader without any driver.
            -1001 => "the OpenCL loader has no driver: nothing in /etc/OpenCL/vendors".into(),
            _ => format!("clGetPlatformIDs failed with {error}"),
        };
        no_device(reason)
    })?;
    let mut found = Vec::new();
    for platform in &platforms {
        let name = platform.name().unwrap_or_default();
        let devices = match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Ok(devices) => devices,
            Err(ClError(CL_DEVICE_NOT_FOUND)) => continue,
            Err(error) => return Err(failed("clGetDeviceIDs")(error)),
        };
        for id in devices {
            let device = ClDevice::new(id);
            let text = |text: opencl3::Result<String>| text.unwrap_or_default().trim().to_owned();
            let kind = device.dev_type().unwrap_or(0);
            let memory = device.global_mem_size().unwrap_or(0);
            let info = DeviceInfo {
                api: Api::OpenCl,
                index: found.len(),
                name: text(device.name()),
                driver: format!("{name} {}, {}", text(device.driver_version()), text(device.version())),
                is_gpu: kind & CL_DEVICE_TYPE_GPU != 0,
                memory,
                largest_buffer: device.max_mem_alloc_size().unwrap_or(memory),
                doubles: device.double_fp_config().unwrap_or(0) != 0,
                multiprocessors: device.max_compute_units().unwrap_or(1).max(1),
            };
            let is_cpu = kind & CL_DEVICE_TYPE_CPU != 0;
            found.push(Found { device, info, platform: name.clone(), is_cpu });
        }
    }
    if found.is_empty() { Err(no_device("no platform has a device".into())) } else { Ok(found) }
}

fn command_queue(context: &Context, device: &ClDevice) -> Result<CommandQueue> {
    // The function of OpenCL 1.2, which later versions keep: Apple has no other.
    // SAFETY: the context was created for this device.
    let queue = unsafe { CommandQueue::create(context, device.id(), 0) };
    queue.map_err(failed("clCreateCommandQueue"))
}

/// Releases an event that nothing waits for: queues run in order and are synchronised as a whole.
fn forget(event: cl_event) {
    // SAFETY: the event came from an enqueue call just now and is released once.
    let _ = unsafe { release_event(event) };
}

impl Inner {
    fn program(&self, kernel: Kernel) -> Result<Arc<Program>> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(kernel.file()) {
            return Ok(Arc::clone(program));
        }
        let source = format!("{PRELUDE}\n{}", kernel.text());
        let program = Program::create_and_build_from_source(&self.context, &source, "-cl-std=CL1.2");
        let program = program.map_err(|log| Error::Build { kernel: kernel.name(), device: self.name.clone(), log })?;
        let program = Arc::new(program);
        programs.insert(kernel.file(), Arc::clone(&program));
        Ok(program)
    }

    /// A kernel that is ready to launch. A driver knows how many of its work items fit on a core only after it compiled the kernel.
    fn kernel(&self, kernel: Kernel) -> Result<ClKernel> {
        let program = self.program(kernel)?;
        let made = ClKernel::create(&program, kernel.name()).map_err(failed("clCreateKernel"))?;
        let group = kernel.group() as usize;
        match made.get_work_group_size(self.device.id()) {
            Ok(most) if most < group => {
                let log = format!("its groups have {group} work items, and the device runs at most {most} of it");
                Err(Error::Build { kernel: kernel.name(), device: self.name.clone(), log })
            }
            _ => Ok(made),
        }
    }

    fn create(&self, stage: &'static str, flags: u64, bytes: u64) -> Result<cl_mem> {
        let size = usize::try_from(bytes).map_err(|_| Error::OutOfMemory { stage, needed: bytes })?;
        // SAFETY: no host pointer is given.
        unsafe { create_buffer(self.context.get(), flags, size, ptr::null_mut()) }.map_err(|code| match code {
            CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_RESOURCES | CL_OUT_OF_HOST_MEMORY | CL_INVALID_BUFFER_SIZE => {
                Error::OutOfMemory { stage, needed: bytes }
            }
            code => failed_code("clCreateBuffer")(code),
        })
    }
}

// SAFETY: `allocate` is clCreateBuffer, whose memory stays until it is released, and `pin` maps such a buffer for the host.
unsafe impl Device for OpenCl {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self, held: u64) -> Result<MemoryInfo> {
        // OpenCL has no function that reports free memory.
        Ok(MemoryInfo { total: self.info.memory, free: self.info.memory.saturating_sub(held) })
    }

    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        Ok(self.inner.create(stage, CL_MEM_READ_WRITE, bytes)? as Handle)
    }

    unsafe fn release(&self, handle: Handle) {
        // SAFETY: the caller's promise.
        let _ = unsafe { release_mem_object(handle as cl_mem) };
    }

    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)> {
        let stage = "staging";
        let memory = self.inner.create(stage, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes as u64)?;
        let mut pointer: *mut c_void = ptr::null_mut();
        // SAFETY: the range is the whole buffer, which stays mapped until `unpin`.
        let mapped = unsafe {
            enqueue_map_buffer(
                self.inner.queue.get(),
                memory,
                CL_BLOCKING,
                CL_MAP_READ | CL_MAP_WRITE,
                0,
                bytes,
                &mut pointer,
                0,
                ptr::null(),
            )
        };
        match mapped {
            Ok(event) if !pointer.is_null() => {
                forget(event);
                Ok((memory as Handle, pointer.cast()))
            }
            _ => {
                // SAFETY: created above, and not in use.
                let _ = unsafe { release_mem_object(memory) };
                Err(Error::OutOfMemory { stage, needed: bytes as u64 })
            }
        }
    }

    unsafe fn unpin(&self, handle: Handle, memory: *mut u8) {
        let queue = self.inner.queue.get();
        // SAFETY: the buffer was mapped at this address by `pin`, and the caller promises that nothing uses it.
        unsafe {
            if let Ok(event) = enqueue_unmap_mem_object(queue, handle as cl_mem, memory.cast(), 0, ptr::null()) {
                forget(event);
            }
            let _ = finish(queue);
            let _ = release_mem_object(handle as cl_mem);
        }
    }

    fn prepare(&self, kernel: Kernel) -> Result<()> {
        self.inner.kernel(kernel).map(|_| ())
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        let queue = command_queue(&self.inner.context, &self.inner.device)?;
        Ok(Box::new(ClQueue { queue, kernels: HashMap::new(), inner: Arc::clone(&self.inner) }))
    }
}

/// An in-order queue. It has its own kernel objects, because their arguments are set before each launch.
#[derive(Debug)]
struct ClQueue {
    queue: CommandQueue,
    kernels: HashMap<Kernel, ClKernel>,
    inner: Arc<Inner>,
}

// SAFETY: OpenCL objects may be used from any thread; only `clSetKernelArg` must not be called from two at once, and the
// kernels of a queue are behind `&mut self`.
unsafe impl Send for ClQueue {}

impl Queue for ClQueue {
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()> {
        let (queue, len, from) = (self.queue.get(), from.len(), from.as_ptr().cast());
        // SAFETY: the caller's promise.
        unsafe { enqueue_write_buffer(queue, to as cl_mem, CL_NON_BLOCKING, at as usize, len, from, 0, ptr::null()) }
            .map(forget)
            .map_err(refused("clEnqueueWriteBuffer", "upload", len as u64))
    }

    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()> {
        let (queue, len, to) = (self.queue.get(), to.len(), to.as_mut_ptr().cast());
        // SAFETY: the caller's promise.
        unsafe { enqueue_read_buffer(queue, from as cl_mem, CL_NON_BLOCKING, at as usize, len, to, 0, ptr::null()) }
            .map(forget)
            .map_err(refused("clEnqueueReadBuffer", "download", len as u64))
    }

    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()> {
        let (from, to) = (from as cl_mem, to as cl_mem);
        let (from_at, to_at, bytes) = (from_at as usize, to_at as usize, bytes as usize);
        // SAFETY: the caller's promise.
        unsafe { enqueue_copy_buffer(self.queue.get(), from, to, from_at, to_at, bytes, 0, ptr::null()) }
            .map(forget)
            .map_err(refused("clEnqueueCopyBuffer", "copy", bytes as u64))
    }

    unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()> {
        if !self.kernels.contains_key(&kernel) {
            self.kernels.insert(kernel, self.inner.kernel(kernel)?);
        }
        let compiled = self.kernels[&kernel].get();
        let mut bytes = 0;
        for (index, arg) in args.iter().enumerate() {
            let handle;
            let (size, value): (usize, *const c_void) = match arg {
                Arg::Buffer(buffer) => {
                    handle = buffer.handle as cl_mem;
                    bytes += buffer.bytes();
                    (size_of::<cl_mem>(), (&raw const handle).cast())
                }
                Arg::U32(value) => (4, ptr::from_ref(value).cast()),
                Arg::U64(value) => (8, ptr::from_ref(value).cast()),
            };
            // SAFETY: the value has that size, and is copied by the call.
            unsafe { set_kernel_arg(compiled, index as u32, size, value) }.map_err(failed_code("clSetKernelArg"))?;
        }
        let (local, global) = (kernel.group() as usize, groups as usize * kernel.group() as usize);
        // SAFETY: the sizes live until the call returns; what the kernel does is the caller's promise.
        unsafe { enqueue_nd_range_kernel(self.queue.get(), compiled, 1, ptr::null(), &global, &local, 0, ptr::null()) }
            .map(forget)
            .map_err(refused("clEnqueueNDRangeKernel", kernel.stage(), bytes))
    }

    fn mark(&mut self) -> Result<Mark> {
        // SAFETY: the queue is alive, and the list of events is empty.
        let event = unsafe { enqueue_marker_with_wait_list(self.queue.get(), 0, ptr::null()) };
        let event = event.map_err(failed_code("clEnqueueMarkerWithWaitList"))?;
        // A queue that waits for another one waits forever if the other was not flushed.
        self.flush()?;
        Ok(Mark(event as u64))
    }

    fn wait_for_mark(&mut self, Mark(event): Mark) -> Result<()> {
        let event = event as cl_event;
        // SAFETY: the mark came from a queue of this device and is used once.
        let waits = unsafe { enqueue_barrier_with_wait_list(self.queue.get(), 1, &event) };
        forget(event);
        waits.map(forget).map_err(failed_code("clEnqueueBarrierWithWaitList"))
    }

    fn flush(&mut self) -> Result<()> {
        // Drivers may hold work back until a flush.
        flush(self.queue.get()).map_err(failed_code("clFlush"))
    }

    fn synchronize(&mut self) -> Result<()> {
        finish(self.queue.get()).map_err(failed_code("clFinish"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_that_gets_no_memory_when_it_is_used_is_a_reason_to_ask_for_less() {
        let refused = refused("clEnqueueNDRangeKernel", Kernel::Lzw.stage(), 4096);
        let error = refused(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        assert_eq!(error, Error::OutOfMemory { stage: "kernel lzw", needed: 4096 });
        assert!(error.is_memory());
        // This code says nothing about memory: a fault of a kernel has the same code.
        assert!(!refused(CL_OUT_OF_RESOURCES).is_memory());
    }
}
