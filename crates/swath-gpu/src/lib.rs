//! GPUs for Swath: compressed blocks go to a device in one batch, are decoded, un-predicted and placed there, and the way back
//! is just as batched.
//!
//! [`Device`] is what an interface to GPUs must be able to do; [`OpenCl`] and [`Cuda`] are the two there are, beside [`Sim`], which only moves bytes. Neither needs
//! anything to be installed to build, and neither is linked: a library that is missing is an [`Error::NoDevice`].
//! [`Gpu`] is a device that is guarded and counted: what the engine uses.

mod block;
mod buffer;
mod context;
mod cuda;
mod cut;
mod decode;
mod device;
mod error;
mod gpu;
mod job;
mod kernel;
pub mod nvidia;
mod opencl;
mod profile;
mod raster;
mod route;
mod sim;
mod slot;
mod stats;
mod storage;
mod stream;

pub use block::{Block, Status};
pub use buffer::{Buffer, Pinned};
pub use cuda::Cuda;
pub use cut::{CutJob, CutLevel, Cutting, Halving, LevelTiles, RowsIn, TileCodec, Tiles};
pub use decode::{Decoding, Finished, LANES, Target};
pub use device::{Api, Device, DeviceInfo, Handle, MemoryInfo, Queue};
pub use error::{Error, Result};
pub use gpu::Gpu;
pub use job::{DecodeJob, DeviceCodec, Unfit};
pub use kernel::{Arg, Kernel, PTX};
pub use opencl::OpenCl;
pub use profile::Stage;
pub use raster::{DeviceRaster, Geometry};
pub use route::CodecChoice;
pub use sim::Sim;
pub use stats::DeviceStats;
pub use storage::{DeviceFile, Storage, Transfer};

#[cfg(test)]
mod on_pocl;
