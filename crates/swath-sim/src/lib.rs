//! A CUDA driver in software, for tests: `libcuda.so.1` with the real C ABI. The unmodified CUDA code of
//! `swath-gpu` runs on it on machines without a GPU.
//!
//! Device memory is host memory on which PoCL, an OpenCL implementation for CPUs, can run kernels. New memory
//! is poisoned and surrounded by guards, and every range of a call must lie in a live allocation. Streams do
//! nothing until they are synchronised, so that code without a wait reads poison. The default streams, 1 and 2,
//! exist for other libraries. The kernels are those of `swath-gpu`, compiled as OpenCL C: the PTX that the
//! caller loads is only compared with the PTX of `swath-gpu`. The driver rejects launches that GPUs do not
//! allow (blocks of more than 1,024 threads, more than 48 KB of shared memory).
//!
//! `SWATH_SIM_KERNELS=ptx` executes that PTX instead, without PoCL, and checks every access: its bounds and
//! alignment, shared memory that the block has not written, and races; also barriers that not all threads of a
//! block reach, and warp instructions that not all lanes of the mask execute. `SWATH_SIM_ORDER` is the order of
//! the threads: `forward`, `reverse`, `warp` (lanes in lockstep) or `random:SEED` (with preemption). A thread
//! with more than `SWATH_SIM_INSTRUCTIONS` (1,000,000,000) counts as endless. A fault ends the context, and is a
//! line among the [`events`] that starts with `reported: ` and names the kernel, the line of the PTX and the line
//! of the C source.
//!
//! `SWATH_SIM_KERNELS=/a/library.so` runs the kernels of a library that another program compiled from the PTX (`kernel_library.rs`
//! describes its functions). The library must have been compiled from the PTX of `swath-gpu`, unless `SWATH_SIM_OTHER_PTX` is set. Tests of
//! devices then use small images.
//!
//! [`CopyDevice`] and [`SlowSource`] are simpler: a device that only copies bytes, and a source with latency.
//! The bench `seeds` uses both.
//!
//! Environment variables, read at each call, make calls fail:
//!
//! * `SWATH_SIM_FAIL=alloc:3` makes the third allocation fail, `alloc:3+` all from the third on; a comma
//!   separates several entries. These calls can fail: `init`, `module`, `alloc`, `pin`, `stream`, `upload`,
//!   `download`, `copy`, `launch`, `synchronize`. `lost:5` loses the device permanently at the fifth call that
//!   needs it: that call and all later ones fail, in new contexts too. `wrong:2` flips a bit in the middle of
//!   the second download, as a device that computes wrongly would. Each failure is a line among the [`events`]
//!   that starts with `injected failure: `; [`reset`] restarts the counts.
//! * `SWATH_SIM_POOLS=0` is a device without memory pools (1). Memory of `cuMemAllocAsync` may be used only by work that is ordered after
//!   the allocation, and `cuMemFreeAsync` frees it as early as the order of streams allows, so that work which does not order the free
//!   after itself ends the context. The pool gives memory back to the device when the host waits; with
//!   `SWATH_SIM_POOL_KEEPS=1` it never does.
//! * `SWATH_SIM_MEMORY=bytes` sets the memory of a device (8 GiB), `SWATH_SIM_MULTIPROCESSORS=n` its
//!   multiprocessors (28), `SWATH_SIM_DEVICES=n` the number of devices (1).
//! * cuFile (`libcufile.so.0`) reads and writes ordinary files. Wherever the behaviour of version 1.19 could be
//!   observed, the simulator has the same behaviour. `SWATH_SIM_CUFILE` is `direct`, `p2p` (the kernel copies
//!   without NVIDIA's kernel module), `compat` (the kernel module is missing, which the properties report),
//!   `absent` (opening fails with 5033) or `closed` (with 5001). A file must have a name under which it can be
//!   opened again. `SWATH_SIM_CUFILE_LATENCY_US=n` sets the duration of each read (0),
//!   `SWATH_SIM_CUFILE_WORKERS=n` the number of transfers that run at once (8). `SWATH_SIM_CUFILE_STRICT=1`
//!   refuses files that are not open with `O_DIRECT`, in direct mode; `SWATH_SIM_CUFILE_REGISTER=fail` refuses
//!   to register memory. In `SWATH_SIM_FAIL`, `read` and `write` are reads and writes that fail with `EIO`;
//!   `short` and `short-write` are those that move half of their bytes, counted in the order of submission;
//!   `hung` is a read or write that never ends; `register` is a file that is not registered. Misuse that the
//!   caller may not notice is a line among the [`events`] that starts with `reported: `.
//!
//! The simulator is nvCOMP too (Deflate, ZSTD and LZ4). Its calls return the same results as the real library.
//! When the stream reaches their work, every array and chunk must lie in live device memory, be aligned, and
//! not overlap with memory that is written; otherwise the context dies:
//!
//! * `SWATH_SIM_NVCOMP=6000` sets the version (6000): functions that this version declares differently, or not
//!   at all, refuse to work. A test that loads it as `libnvcomp.so.5` sets 5300.
//! * `SWATH_SIM_CUDART=13000` sets the CUDA version that nvCOMP, nvJPEG2000 and nvJPEG report as the one they
//!   were built for (12090). `13000@/a/folder` applies only to copies of the simulator in that folder.
//! * `SWATH_SIM_NVCOMP_CORRUPT=silent` reports corrupt chunks as valid and fills them with garbage, as the real
//!   library may do.
//! * `SWATH_SIM_FAIL`, counted over all calls: `nvcomp:2` makes the second call that compresses or decompresses
//!   fail, `nvcomp-temp:1` the first call that requests the size of temporary memory. `chunk:3` gives the third
//!   decompressed chunk a bad status, `chunk-size:3` a size that is one too small, `chunk-large:3` a size that
//!   is one too large. `compress-chunk:2` gives the second compressed chunk a bad status, `compress-large:2` a
//!   size that exceeds its buffer, `compress-wrong:2` one wrong byte. `nvcomp-idle:1` makes the first call
//!   succeed and do nothing.
//!
//! nvJPEG2000 and nvJPEG decode and encode with `swath-codec`: the host's part of a call runs immediately, and
//! the part in device memory runs when the stream reaches it. A state that is used again before its stream was
//! synchronised is refused, and so is a picture in memory that does not belong to the device. These calls can
//! fail:
//!
//! * `SWATH_SIM_FAIL=j2k-parse:2` (a bad stream), `j2k-state:3` (no memory for a state of either direction),
//!   `j2k-decode:2`, `j2k-encode:2` (the call fails), `j2k-wrong:2` (the second picture is encoded with a
//!   different pixel), `j2k-late:2` (the call succeeds, and the stream fails when it is synchronised);
//!   `jpeg-info:2`, `jpeg-interpolate:1` (a handle with that flag), `jpeg-state:3`, `jpeg-decode:1` (counted by
//!   picture, also in batches), `jpeg-encode:2`.
//!
//! The simulator does not model speed. Between two barriers PoCL runs the threads of a block one after another;
//! only PTX is executed in other orders.
//!
//! [`inside`] runs a test in a process that loads this library in place of NVIDIA's.

mod child;
mod code;
mod copy_device;
mod cudart;
mod cufile;
mod driver;
mod event;
mod executor;
mod fail;
mod kernel_library;
mod memory;
mod nvcomp;
mod nvjpeg;
mod nvjpeg2k;
mod opencl;
mod picture;
mod ptx;
mod sim;
mod slow_source;
mod timeline;

pub use child::{folder, inside, inside_with, rerun, without};
pub use copy_device::CopyDevice;
pub use event::{device_bytes, events, forget, pinned_bytes, reset, timeline};
pub use slow_source::SlowSource;
pub use timeline::TimedWork;
