//! Runs kernels: from their OpenCL source with PoCL, by executing their PTX, or from a library.

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use swath_gpu::{Kernel, PTX};

use crate::code::{Code, Done};
use crate::event::{record, report};
use crate::fail::number;
use crate::kernel_library::KernelLibrary;
use crate::opencl::{OpenCl, Parameter};
use crate::ptx::{Launch, LaunchError, Misdeed, Order, Program, SourceLines};

/// The lines of the kernel files from which the PTX was compiled.
pub(crate) const LINES: &str = include_str!("../../swath-gpu/kernels/kernels.lines");
/// The instructions of one thread after which it counts as endless; ordinary threads need a hundredth.
const INSTRUCTIONS: u64 = 1_000_000_000;

/// What runs the kernels.
#[derive(Debug)]
pub(crate) enum Executor {
    OpenCl(OpenCl),
    Ptx(Box<Ptx>),
    Library(KernelLibrary),
}

/// The PTX of `swath-gpu`, and the order of its threads.
#[derive(Debug)]
pub(crate) struct Ptx {
    program: Program,
    order: Order,
}

/// The parameters of a kernel and the bytes of its shared memory.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) shared: u64,
}

/// Where the kernels come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KernelSource {
    /// The OpenCL source.
    OpenCl,
    /// The PTX.
    Ptx,
    /// A library.
    Library(PathBuf),
}

impl KernelSource {
    /// What `SWATH_SIM_KERNELS` selects: `ptx`, or the path of a library.
    pub(crate) fn selected() -> KernelSource {
        match std::env::var_os("SWATH_SIM_KERNELS") {
            Some(kernels) if kernels == "ptx" => KernelSource::Ptx,
            Some(kernels) if Path::new(&kernels).is_absolute() => KernelSource::Library(kernels.into()),
            _ => KernelSource::OpenCl,
        }
    }

    /// The part of the device's name that tells it.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            KernelSource::OpenCl => "",
            KernelSource::Ptx => ", executing PTX",
            KernelSource::Library(_) => ", with a library of kernels",
        }
    }
}

impl Executor {
    /// Opens what the environment selects.
    pub(crate) fn open() -> Done<Executor> {
        match KernelSource::selected() {
            KernelSource::Ptx => return Ptx::open().map(|ptx| Executor::Ptx(Box::new(ptx))),
            KernelSource::Library(path) => return KernelLibrary::open(&path).map(Executor::Library),
            KernelSource::OpenCl => {}
        }
        OpenCl::open().map(Executor::OpenCl).map_err(|missing| {
            eprintln!(
                "swath-sim: {missing}; the simulator needs PoCL (packages pocl-opencl-icd and ocl-icd-libopencl1)"
            );
            Code::SYSTEM_NOT_READY
        })
    }

    /// Allocates memory that the host and the kernels share.
    pub(crate) fn allocate(&self, bytes: usize) -> Option<usize> {
        match self {
            Executor::OpenCl(opencl) => opencl.allocate(bytes),
            Executor::Ptx(_) | Executor::Library(_) => {
                // SAFETY: any size is allowed; the result may be null.
                let memory = unsafe { libc::malloc(bytes) };
                (!memory.is_null()).then_some(memory as usize)
            }
        }
    }

    pub(crate) fn free(&self, memory: usize) {
        match self {
            Executor::OpenCl(opencl) => opencl.free(memory),
            // SAFETY: it came from `allocate` and is freed once; no kernel runs, because `run` waits for its
            // kernel.
            Executor::Ptx(_) | Executor::Library(_) => unsafe { libc::free(memory as *mut c_void) },
        }
    }

    /// Returns the signature of a kernel.
    pub(crate) fn signature(&mut self, kernel: Kernel) -> Done<Signature> {
        match self {
            Executor::OpenCl(opencl) => {
                let compiled = opencl.kernel(kernel)?;
                Ok(Signature { parameters: compiled.parameters.clone(), shared: compiled.shared })
            }
            Executor::Ptx(ptx) => {
                let (parameters, shared) = ptx.program.signature(kernel.name()).ok_or(Code::NOT_FOUND)?;
                Ok(Signature {
                    parameters: parameters.into_iter().map(Parameter::Number).collect(),
                    shared: shared as u64,
                })
            }
            Executor::Library(library) => {
                let (parameters, shared) = library.signature(kernel)?;
                Ok(Signature { parameters: parameters.into_iter().map(Parameter::Number).collect(), shared })
            }
        }
    }

    /// Runs a kernel to its end. `allocations` are the live allocations of the device in ascending order: first
    /// address and address after the last.
    pub(crate) fn run(&mut self, kernel: Kernel, groups: u32, values: &[u64], allocations: &[(u64, u64)]) -> Done {
        match self {
            Executor::OpenCl(opencl) => opencl.run(kernel, groups as usize, values),
            Executor::Ptx(ptx) => ptx.run(kernel, groups, values, allocations),
            Executor::Library(library) => library.run(kernel, groups, values, allocations),
        }
    }
}

impl Ptx {
    fn open() -> Done<Ptx> {
        let order = std::env::var("SWATH_SIM_ORDER").unwrap_or_else(|_| "forward".to_owned());
        let order: Order = order.parse().map_err(|unknown| {
            eprintln!("swath-sim: SWATH_SIM_ORDER: {unknown}");
            Code::SYSTEM_NOT_READY
        })?;
        let program = Program::load(PTX, SourceLines::parse(LINES, PTX)).map_err(|error| {
            eprintln!("swath-sim: kernels.ptx, {error}");
            Code::INVALID_PTX
        })?;
        record(format!("kernels: PTX, threads in the order {order}"));
        Ok(Ptx { program, order })
    }

    fn run(&mut self, kernel: Kernel, groups: u32, values: &[u64], allocations: &[(u64, u64)]) -> Done {
        let launch = Launch {
            kernel: kernel.name(),
            blocks: groups,
            threads: kernel.group() as usize,
            values,
            allocations,
            order: self.order,
            limit: number("SWATH_SIM_INSTRUCTIONS", INSTRUCTIONS),
        };
        self.program.run(&launch).map(|_| ()).map_err(|error| {
            report(&error.to_string());
            match error {
                LaunchError::Fault(fault) if matches!(fault.misdeed, Misdeed::Bounds { .. }) => Code::ILLEGAL_ADDRESS,
                LaunchError::Fault(fault) if matches!(fault.misdeed, Misdeed::Alignment { .. }) => {
                    Code::MISALIGNED_ADDRESS
                }
                _ => Code::LAUNCH_FAILED,
            }
        })
    }
}
