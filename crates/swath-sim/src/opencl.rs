//! Memory and kernels on PoCL.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_kernel};
use cl3::{command_queue, context, device, event, kernel, memory, platform, program};
use swath_gpu::Kernel;

use crate::code::{Code, Done};

/// What stands in front of each kernel file, as `swath-gpu` puts it there.
const PRELUDE: &str = include_str!("../../swath-gpu/kernels/prelude.h");

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameter {
    /// A pointer to device memory.
    Pointer,
    /// A number of so many bytes.
    Number(usize),
}

/// A kernel that is ready to run.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernel: cl_kernel,
    pub(crate) parameters: Vec<Parameter>,
    /// Bytes of shared memory that it declares.
    pub(crate) shared: u64,
}

/// PoCL.
#[derive(Debug)]
pub(crate) struct OpenCl {
    device: cl_device_id,
    context: cl_context,
    queue: cl_command_queue,
    kernels: HashMap<Kernel, Compiled>,
}

// SAFETY: OpenCL's objects belong to no thread; setting arguments of a kernel is not thread-safe, and the one lock around the
// simulator keeps threads apart.
unsafe impl Send for OpenCl {}

impl OpenCl {
    /// The device, or a sentence about what is missing.
    pub(crate) fn open() -> Result<OpenCl, String> {
        let failed = |what: &str, code: i32| {
            format!(
                "{what} failed with {code}: the simulator needs PoCL (packages pocl-opencl-icd and ocl-icd-libopencl1)"
            )
        };
        let platforms = platform::get_platform_ids().map_err(|code| failed("clGetPlatformIDs", code))?;
        let is_pocl = |platform: &&_| {
            let name = platform::get_platform_info(**platform, platform::CL_PLATFORM_NAME).map(String::from);
            name.is_ok_and(|name| name.contains("Portable Computing Language"))
        };
        let pocl =
            platforms.iter().find(is_pocl).ok_or_else(|| failed("looking for PoCL among the OpenCL platforms", 0))?;
        let devices = device::get_device_ids(*pocl, device::CL_DEVICE_TYPE_ALL);
        let devices = devices.map_err(|code| failed("clGetDeviceIDs", code))?;
        let &device = devices.first().ok_or_else(|| failed("looking for a device of PoCL", 0))?;
        let context = context::create_context(&[device], ptr::null(), None, ptr::null_mut());
        let context = context.map_err(|code| failed("clCreateContext", code))?;
        // SAFETY: the context has this device, and null stands for no properties.
        let queue = unsafe { command_queue::create_command_queue_with_properties(context, device, ptr::null()) };
        let queue = queue.map_err(|code| failed("clCreateCommandQueueWithProperties", code))?;
        Ok(OpenCl { device, context, queue, kernels: HashMap::new() })
    }

    /// Memory that host and kernels share.
    pub(crate) fn allocate(&self, bytes: usize) -> Option<usize> {
        let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_SVM_FINE_GRAIN_BUFFER;
        // SAFETY: the context is alive; 0 is the alignment of the largest type.
        let memory = unsafe { memory::svm_alloc(self.context, flags, bytes, 0) };
        memory.ok().filter(|memory| !memory.is_null()).map(|memory| memory as usize)
    }

    pub(crate) fn free(&self, memory: usize) {
        // SAFETY: it came from `allocate` and is freed once; no kernel runs, because `run` waits for its own.
        let _ = unsafe { memory::svm_free(self.context, memory as *mut c_void) };
    }

    /// A kernel, compiled when it is first asked for.
    pub(crate) fn kernel(&mut self, kernel: Kernel) -> Done<&Compiled> {
        if !self.kernels.contains_key(&kernel) {
            let compiled = self.compile(kernel).map_err(|what| {
                eprintln!("swath-sim: {} does not compile: {what}", kernel.file());
                Code::INVALID_SOURCE
            })?;
            self.kernels.insert(kernel, compiled);
        }
        self.kernels.get(&kernel).ok_or(Code::UNKNOWN)
    }

    fn compile(&self, kernel: Kernel) -> Result<Compiled, String> {
        let failed = |code: i32| format!("code {code}");
        // One text: of several, cl3 0.13 hands over the wrong pointers.
        let text = [PRELUDE, kernel.text()].concat();
        let built = program::create_program_with_source(self.context, &[&text]).map_err(failed)?;
        let options = c"-cl-std=CL1.2 -cl-kernel-arg-info";
        program::build_program(built, &[self.device], options, None, ptr::null_mut()).map_err(|code| {
            let log =
                program::get_program_build_info(built, self.device, program::CL_PROGRAM_BUILD_LOG).map(String::from);
            log.unwrap_or_else(|_| failed(code))
        })?;
        let name = CString::new(kernel.name()).map_err(|error| error.to_string())?;
        let compiled = kernel::create_kernel(built, &name).map_err(failed)?;
        let count: u32 = kernel::get_kernel_info(compiled, kernel::CL_KERNEL_NUM_ARGS).map_err(failed)?.into();
        let parameters = (0..count).map(|index| parameter(compiled, index)).collect::<Result<_, _>>()?;
        let shared = kernel::get_kernel_work_group_info(compiled, self.device, kernel::CL_KERNEL_LOCAL_MEM_SIZE);
        Ok(Compiled { kernel: compiled, parameters, shared: shared.map_err(failed)?.into() })
    }

    /// Run a kernel to its end. The values are those of its parameters.
    pub(crate) fn run(&mut self, kernel: Kernel, groups: usize, values: &[u64]) -> Done {
        let queue = self.queue;
        let compiled = self.kernel(kernel)?;
        let failed = |call: &str, code: i32| {
            eprintln!("swath-sim: {call} failed with {code} for {}", kernel.name());
            Code::LAUNCH_FAILED
        };
        for ((index, parameter), value) in (0..).zip(&compiled.parameters).zip(values) {
            let set = match *parameter {
                Parameter::Pointer => {
                    // SAFETY: the caller checked that it points into live memory of this context, or is null.
                    unsafe { kernel::set_kernel_arg_svm_pointer(compiled.kernel, index, *value as *const c_void) }
                }
                Parameter::Number(bytes) => {
                    // SAFETY: a number has at most the eight bytes of the value, the low ones first on hosts with PoCL.
                    unsafe { kernel::set_kernel_arg(compiled.kernel, index, bytes, ptr::from_ref(value).cast()) }
                }
            };
            set.map_err(|code| failed("clSetKernelArg", code))?;
        }
        let group = kernel.group() as usize;
        let global = groups.checked_mul(group).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: one dimension, with its two sizes; what the kernel touches lies in memory that lives until it has ended.
        let started = unsafe {
            command_queue::enqueue_nd_range_kernel(
                queue,
                compiled.kernel,
                1,
                ptr::null(),
                &global,
                &group,
                0,
                ptr::null(),
            )
        };
        let started = started.map_err(|code| failed("clEnqueueNDRangeKernel", code))?;
        let finished = command_queue::finish(queue);
        // SAFETY: the event is ours and is released once.
        let _ = unsafe { event::release_event(started) };
        finished.map_err(|code| failed("clFinish", code))
    }
}

fn parameter(compiled: cl_kernel, index: u32) -> Result<Parameter, String> {
    let info = |name| {
        kernel::get_kernel_arg_info(compiled, index, name).map_err(|code| format!("parameter {index}: code {code}"))
    };
    let space: u32 = info(kernel::CL_KERNEL_ARG_ADDRESS_QUALIFIER)?.into();
    if space == kernel::CL_KERNEL_ARG_ADDRESS_GLOBAL {
        return Ok(Parameter::Pointer);
    }
    let name: String = info(kernel::CL_KERNEL_ARG_TYPE_NAME)?.into();
    match name.trim_end_matches('\0') {
        "u8" | "uchar" | "char" => Ok(Parameter::Number(1)),
        "u16" | "ushort" | "short" => Ok(Parameter::Number(2)),
        "u32" | "i32" | "uint" | "int" | "float" => Ok(Parameter::Number(4)),
        "u64" | "i64" | "ulong" | "long" | "double" => Ok(Parameter::Number(8)),
        other => Err(format!("parameter {index} is a {other}, whose size nobody knows")),
    }
}
