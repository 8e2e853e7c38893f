//! Device memory: buffers that free themselves, slots that are reused from batch to batch, and rasters that stay on the device.

pub(crate) mod allocator;
pub(crate) mod buffer;
pub(crate) mod caller_stream;
pub(crate) mod pinned_pool;
pub(crate) mod raster;
pub(crate) mod slot;
