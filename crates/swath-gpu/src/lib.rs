//! GPUs for Swath. A batch of compressed blocks goes to a device in one transfer; the device decodes the blocks, undoes the predictor
//! and places the pixels. Writing is batched in the same way.
//!
//! [`Gpu`] is the device that the engine uses: it guards allocations and counts transfers. [`Device`] is the interface that it drives,
//! with the implementations [`OpenCl`] and [`Cuda`]. Building needs no driver, and nothing is linked: a driver that is missing at run
//! time is an [`Error::NoDevice`].
//!
//! [`Gpu::decode`] decodes batches for a [`DecodeJob`]; [`BatchFailure`] says why one could not be submitted. [`vendor`] finds and binds NVIDIA's
//! libraries.

mod backend;
mod decode;
mod encode;
mod error;
mod gpu;
mod memory;
mod profile;
mod stats;
mod storage;
mod stream;
mod stream_set;
mod transfer_pool;
pub mod vendor;

pub use backend::kernel::{Arg, Kernel, PTX};
pub use backend::{Api, Cuda, Device, DeviceInfo, Handle, Mark, MemoryInfo, OpenCl, Queue};
pub use decode::block::Block;
pub use decode::job::{DecodeJob, DeviceCodec};
pub use decode::outcome::{BatchFailure, BlockStatus, FinishedBatch, Unsupported};
pub use decode::route::CodecBackend;
pub use decode::unpack::{NodataSample, Unpack};
pub use decode::{Decoding, LANES, LargestBatch, Target};
pub use encode::{
    Downsample, EncodeFailure, EncodeJob, EncodeLevel, EncoderBackend, InputRows, LevelStep, LevelTiles, PushError,
    TileCodec, TileEncoder, Tiles,
};
pub use error::{Error, Result, UnknownName};
pub use gpu::Gpu;
pub use memory::allocator::{AllocatorError, DeviceAllocator};
pub use memory::buffer::{Buffer, Pinned};
pub use memory::caller_stream::CallerStream;
pub use memory::raster::{DeviceRaster, Geometry};
pub use profile::Stage;
pub use stats::DeviceStats;
pub use storage::{DeviceFile, Storage, Transfer};
pub use transfer_pool::RangeReader;

// Unit tests run on the simulator's copy device. That crate depends on this one, so its types do not fit here: the tests include its
// source instead.
#[cfg(test)]
#[expect(unreachable_pub, reason = "it is public in swath-sim")]
#[path = "../../swath-sim/src/copy_device.rs"]
mod copy_device;
#[cfg(test)]
extern crate self as swath_gpu;

#[cfg(test)]
mod on_pocl;
