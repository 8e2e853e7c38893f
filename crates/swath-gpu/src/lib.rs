//! GPUs for Swath: compressed blocks go to a device in one batch, are decoded, un-predicted and placed there, and the way back
//! is just as batched.
//!
//! [`Device`] is what an interface to GPUs must be able to do; [`OpenCl`] and [`Cuda`] are the two there are, beside [`Sim`], which only moves bytes. Neither needs
//! anything to be installed to build, and neither is linked: a library that is missing is an [`Error::NoDevice`].
//! [`Gpu`] is a device that is guarded and counted: what the engine uses.

mod backend;
mod decode;
mod encode;
mod error;
mod gpu;
mod memory;
mod profile;
mod sim;
mod stats;
mod storage;
mod stream;
pub mod vendor;

pub use backend::cuda::Cuda;
pub use backend::kernel::{Arg, Kernel, PTX};
pub use backend::opencl::OpenCl;
pub use backend::{Api, Device, DeviceInfo, Handle, MemoryInfo, Queue};
pub use decode::block::{Block, Status};
pub use decode::job::{DecodeJob, DeviceCodec, Unfit};
pub use decode::route::CodecBackend;
pub use decode::{Decoding, Finished, LANES, Target};
pub use encode::{
    Downsample, EncodeFailure, EncodeJob, EncodeLevel, InputRows, LevelStep, LevelTiles, PushError, TileCodec,
    TileEncoder, Tiles,
};
pub use error::{Error, Result};
pub use gpu::Gpu;
pub use memory::buffer::{Buffer, Pinned};
pub use memory::raster::{DeviceRaster, Geometry};
pub use profile::Stage;
pub use sim::Sim;
pub use stats::DeviceStats;
pub use storage::{DeviceFile, Storage, Transfer};

#[cfg(test)]
mod on_pocl;
