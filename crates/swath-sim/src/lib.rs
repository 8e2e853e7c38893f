//! A CUDA driver in software, for tests: `libcuda.so.1` with the real C ABI, on which the unmodified CUDA code of `swath-gpu`
//! runs where there is no GPU.
//!
//! Device memory is host memory that PoCL, an OpenCL implementation for CPUs, can run kernels on. It is poisoned, it has guards
//! around it, and every range that the caller names must lie in a live allocation. Streams do nothing until they are
//! synchronised, so that whoever forgets to gets poison. Kernels are those of `swath-gpu` as OpenCL C: the PTX that the
//! caller loads is only compared with what `swath-gpu` has. What GPUs do not allow (blocks of more than 1,024 threads, more
//! than 48 KB of shared memory) is refused.
//!
//! Environment variables, read at each call, make it fail:
//!
//! * `SWATH_SIM_FAIL=alloc:3` lets the third allocation fail, `alloc:3+` all from the third on; several are separated by
//!   commas. What can fail: `init`, `module`, `alloc`, `pin`, `stream`, `upload`, `download`, `copy`, `launch`, `synchronize`.
//! * `SWATH_SIM_MEMORY=bytes` is the memory of a device (8 GiB), `SWATH_SIM_DEVICES=n` the number of devices (1).
//!
//! It says nothing about speed, nor about what warps do: between two barriers PoCL runs the threads of a block one after another.
//!
//! [`inside`] runs a test in a process that finds this library in place of NVIDIA's.

mod child;
mod code;
mod driver;
mod fail;
mod memory;
mod opencl;
mod sim;

pub use child::{folder, inside, rerun};
