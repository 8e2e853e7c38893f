//! A CUDA driver in software, for tests: `libcuda.so.1` with the real C ABI. The unmodified CUDA code of `swath-gpu` runs on it where there is
//! no GPU.
//!
//! Device memory is host memory that PoCL, an OpenCL implementation for CPUs, can run kernels on. New memory is poisoned and surrounded by
//! guards, and every range of a call must lie in a live allocation. Streams do nothing until they are synchronised, so that code that
//! forgets to wait reads poison; the default streams, 1 and 2, exist for other libraries. The kernels are those of `swath-gpu` as OpenCL
//! C: the PTX that the caller loads is only compared with the PTX of `swath-gpu`. The driver rejects what GPUs do not allow (blocks of
//! more than 1,024 threads, more than 48 KB of shared memory).
//!
//! [`CopyDevice`] and [`SlowSource`] are simpler: a device that only copies bytes, and a source with latency. The bench `seeds` uses both.
//!
//! Environment variables, read at each call, make it fail:
//!
//! * `SWATH_SIM_FAIL=alloc:3` lets the third allocation fail, `alloc:3+` all from the third on; several are separated by
//!   commas. What can fail: `init`, `module`, `alloc`, `pin`, `stream`, `upload`, `download`, `copy`, `launch`, `synchronize`.
//!   `lost:5` loses the device at the fifth call that needs it, for good: that call and all after it fail, in new contexts too.
//!   `wrong:2` turns a bit round in the middle of the second download, as a device that computes wrongly would.
//!   Each failure is a line among the [`events`] that begins with `told to fail: `; [`reset`] restarts the counts.
//! * `SWATH_SIM_MEMORY=bytes` is the memory of a device (8 GiB), `SWATH_SIM_DEVICES=n` the number of devices (1).
//! * cuFile (`libcufile.so.0`) reads and writes ordinary files, and where it could be seen what version 1.19 does, it does that.
//!   `SWATH_SIM_CUFILE` is `direct`, `p2p` (the kernel copies without NVIDIA's part of it), `compat` (the kernel's part is missing, which
//!   the properties say), `absent` (opening fails with 5033) or `closed` (with 5001). A file must have a name that it can be opened by once
//!   more. `SWATH_SIM_CUFILE_LATENCY_US=n` is what each read takes (0), `SWATH_SIM_CUFILE_WORKERS=n` how many go on at the same time
//!   (8). `SWATH_SIM_CUFILE_STRICT=1` refuses
//!   files that are not open with `O_DIRECT`, in direct mode; `SWATH_SIM_CUFILE_REGISTER=fail` refuses to register memory.
//!   In `SWATH_SIM_FAIL`, `read` and `write` are reads and writes that fail with `EIO`, `short` and `short-write` those that move
//!   half of their bytes, counted in the order of submission; `hung` is a read or write that never ends; `register`
//!   a file that is not registered.
//!   Misuse that the caller may not notice is a line among the [`events`] that begins with `reported: `.
//!
//! It is nvCOMP too (Deflate, ZSTD and LZ4). Its calls answer what the real library answers; when the stream gets to their work, every
//! array and chunk must lie in live device memory, be aligned and be nothing else that is written, or the context dies:
//!
//! * `SWATH_SIM_NVCOMP=6000` is the version (6000): functions that it declares otherwise, or not at all, refuse to work. A test
//!   that finds it as `libnvcomp.so.5` sets 5300.
//! * `SWATH_SIM_CUDART=13000` is the CUDA that it, nvJPEG2000 and nvJPEG say they were made for (12090); `13000@/a/folder` is so only
//!   of copies of the simulator in that folder.
//! * `SWATH_SIM_NVCOMP_CORRUPT=silent` lets corrupt chunks pass for good ones, full of garbage, as the real library may.
//! * `SWATH_SIM_FAIL`, over all calls: `nvcomp:2` lets the second call that compresses or decompresses fail, `nvcomp-temp:1` the first
//!   that asks for the size of temporary memory; `chunk:3` gives the third chunk that is decompressed a bad status, `chunk-size:3` a size that
//!   is one too small, `chunk-large:3` one that is one too large; `compress-chunk:2` gives the second that is compressed a bad status,
//!   `compress-large:2` a size that there is no room for, `compress-wrong:2` one byte that is not what it should be; `nvcomp-idle:1` lets the first call succeed and do nothing.
//!
//! nvJPEG2000 and nvJPEG decode and encode with `swath-codec`: the host's part of a call at once, what concerns device memory when
//! the stream gets there. A state that is used again before its stream was synchronised is refused, and so is a picture in memory
//! that is not the device's. They fail with
//!
//! * `SWATH_SIM_FAIL=j2k-parse:2` (a bad stream), `j2k-state:3` (no memory for a state of either direction), `j2k-decode:2`,
//!   `j2k-encode:2` (the call fails), `j2k-wrong:2` (the second picture is encoded with another pixel), `j2k-late:2` (the call succeeds, and the stream fails when it is synchronised); `jpeg-info:2`,
//!   `jpeg-interpolate:1` (a handle with that flag), `jpeg-state:3`, `jpeg-decode:1` (counted by picture, also in batches), `jpeg-encode:2`.
//!
//! It says nothing about speed, nor about what warps do: between two barriers PoCL runs the threads of a block one after another.
//!
//! [`inside`] runs a test in a process that finds this library in place of NVIDIA's.

mod child;
mod code;
mod copy_device;
mod cudart;
mod cufile;
mod driver;
mod event;
mod fail;
mod memory;
mod nvcomp;
mod nvjpeg;
mod nvjpeg2k;
mod opencl;
mod picture;
mod sim;
mod slow_source;

pub use child::{folder, inside, inside_with, rerun, without};
pub use copy_device::CopyDevice;
pub use event::{device_bytes, events, forget, pinned_bytes, reset};
pub use slow_source::SlowSource;
