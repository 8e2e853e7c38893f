//! Memory and kernels on PoCL.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_kernel};
use cl3::{command_queue, context, device, event, kernel, memory, platform, program};
use swath_gpu::Kernel;

use crate::code::{Code, Done};

/// The text that `swath-gpu` prepends to each kernel file.
const PRELUDE: &str = include_str!("../../swath-gpu/kernels/prelude.h");

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameter {
    /// A pointer to device memory.
    Pointer,
    /// A number with this many bytes.
    Number(usize),
}

/// A kernel that is ready to run.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernel: cl_kernel,
    pub(crate) parameters: Vec<Parameter>,
    /// The number of bytes of shared memory that the kernel declares.
    pub(crate) shared: u64,
}

/// The reason why PoCL cannot be used or cannot compile a kernel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoclError {
    /// No platform of OpenCL is PoCL.
    #[error("PoCL is not among the OpenCL platforms")]
    NoPlatform,
    /// PoCL has no device.
    #[error("PoCL has no device")]
    NoDevice,
    /// A call failed.
    #[error("{call} failed with {code}")]
    Call { call: &'static str, code: i32 },
    /// The compiler rejected a kernel.
    #[error("{log}")]
    Build { log: String },
    /// The simulator does not support the type of a parameter.
    #[error("parameter {index} has the unsupported type {name}")]
    ParameterType { index: u32, name: String },
}

/// Maps the code of a failed call to an error.
fn failed(call: &'static str) -> impl Fn(i32) -> PoclError {
    move |code| PoclError::Call { call, code }
}

/// PoCL.
#[derive(Debug)]
pub(crate) struct OpenCl {
    device: cl_device_id,
    context: cl_context,
    queue: cl_command_queue,
    kernels: HashMap<Kernel, Compiled>,
}

// SAFETY: OpenCL's objects do not belong to a thread. Setting the arguments of a kernel is not thread-safe, but
// one lock protects the whole simulator.
unsafe impl Send for OpenCl {}

impl OpenCl {
    /// Opens the first device of PoCL.
    pub(crate) fn open() -> Result<OpenCl, PoclError> {
        let platforms = platform::get_platform_ids().map_err(failed("clGetPlatformIDs"))?;
        let is_pocl = |platform: &&_| {
            let name = platform::get_platform_info(**platform, platform::CL_PLATFORM_NAME).map(String::from);
            name.is_ok_and(|name| name.contains("Portable Computing Language"))
        };
        let pocl = platforms.iter().find(is_pocl).ok_or(PoclError::NoPlatform)?;
        let devices = device::get_device_ids(*pocl, device::CL_DEVICE_TYPE_ALL);
        let devices = devices.map_err(failed("clGetDeviceIDs"))?;
        let &device = devices.first().ok_or(PoclError::NoDevice)?;
        let context = context::create_context(&[device], ptr::null(), None, ptr::null_mut());
        let context = context.map_err(failed("clCreateContext"))?;
        // SAFETY: the context has this device, and null means no properties.
        let queue = unsafe { command_queue::create_command_queue_with_properties(context, device, ptr::null()) };
        let queue = queue.map_err(failed("clCreateCommandQueueWithProperties"))?;
        Ok(OpenCl { device, context, queue, kernels: HashMap::new() })
    }

    /// Allocates memory that the host and the kernels share.
    pub(crate) fn allocate(&self, bytes: usize) -> Option<usize> {
        let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_SVM_FINE_GRAIN_BUFFER;
        // SAFETY: the context is alive; 0 is the alignment of the largest type.
        let memory = unsafe { memory::svm_alloc(self.context, flags, bytes, 0) };
        memory.ok().filter(|memory| !memory.is_null()).map(|memory| memory as usize)
    }

    pub(crate) fn free(&self, memory: usize) {
        // SAFETY: it came from `allocate` and is freed once; no kernel runs, because `run` waits for its
        // kernel.
        let _ = unsafe { memory::svm_free(self.context, memory as *mut c_void) };
    }

    /// Returns a kernel. It is compiled on first use.
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

    fn compile(&self, kernel: Kernel) -> Result<Compiled, PoclError> {
        // The text is one string: with several, cl3 0.13 passes wrong pointers.
        let text = [PRELUDE, kernel.text()].concat();
        let built = program::create_program_with_source(self.context, &[&text]);
        let built = built.map_err(failed("clCreateProgramWithSource"))?;
        let options = c"-cl-std=CL1.2 -cl-kernel-arg-info";
        program::build_program(built, &[self.device], options, None, ptr::null_mut()).map_err(|code| {
            let log =
                program::get_program_build_info(built, self.device, program::CL_PROGRAM_BUILD_LOG).map(String::from);
            log.map_or_else(|_| failed("clBuildProgram")(code), |log| PoclError::Build { log })
        })?;
        let name = CString::new(kernel.name()).expect("names of kernels have no zero bytes");
        let compiled = kernel::create_kernel(built, &name).map_err(failed("clCreateKernel"))?;
        let count = kernel::get_kernel_info(compiled, kernel::CL_KERNEL_NUM_ARGS);
        let count: u32 = count.map_err(failed("clGetKernelInfo"))?.into();
        let parameters = (0..count).map(|index| parameter(compiled, index)).collect::<Result<_, _>>()?;
        let shared = kernel::get_kernel_work_group_info(compiled, self.device, kernel::CL_KERNEL_LOCAL_MEM_SIZE);
        Ok(Compiled {
            kernel: compiled,
            parameters,
            shared: shared.map_err(failed("clGetKernelWorkGroupInfo"))?.into(),
        })
    }

    /// Runs a kernel and waits for it. `values` are its arguments.
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
                    // SAFETY: the caller checked that the pointer is in live memory of this context or is null.
                    unsafe { kernel::set_kernel_arg_svm_pointer(compiled.kernel, index, *value as *const c_void) }
                }
                Parameter::Number(bytes) => {
                    // SAFETY: a number has at most the eight bytes of the value, low bytes first on hosts with
                    // PoCL.
                    unsafe { kernel::set_kernel_arg(compiled.kernel, index, bytes, ptr::from_ref(value).cast()) }
                }
            };
            set.map_err(|code| failed("clSetKernelArg", code))?;
        }
        let group = kernel.group() as usize;
        let global = groups.checked_mul(group).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: one dimension, with its two sizes; the kernel only accesses memory that lives until the
        // kernel ends.
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
        // SAFETY: this function owns the event and releases it once.
        let _ = unsafe { event::release_event(started) };
        finished.map_err(|code| failed("clFinish", code))
    }
}

fn parameter(compiled: cl_kernel, index: u32) -> Result<Parameter, PoclError> {
    let info = |name| kernel::get_kernel_arg_info(compiled, index, name).map_err(failed("clGetKernelArgInfo"));
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
        other => Err(PoclError::ParameterType { index, name: other.to_owned() }),
    }
}
