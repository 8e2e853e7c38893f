//! CUDA devices.
//!
//! Nothing of CUDA is linked: the driver's library is opened when a device is first requested, and the machine needs nothing but NVIDIA's
//! driver. The kernels are shipped as PTX, which the driver compiles for its device.

mod context;
mod driver;
mod memory_stream;
mod queue;

use std::ffi::{c_char, c_int, c_uint};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_PORTABLE, CUdevice, CUdevice_attribute_enum as Attribute,
    CUpointer_attribute_enum as PointerAttribute,
};

use self::context::Context;
use self::driver::{Driver, no_device, visible_devices};
use self::queue::CudaQueue;
use crate::backend::kernel::Kernel;
use crate::backend::{Api, Device, DeviceInfo, Handle, MemoryInfo, Queue};
use crate::error::{Error, Result};

/// The lowest compute capability that the PTX runs on: the one that `make ptx` compiles for.
const CAPABILITY: c_int = 7;

/// A CUDA device.
#[derive(Debug)]
pub struct Cuda {
    context: Arc<Context>,
    driver: &'static Driver,
    info: DeviceInfo,
    /// Whether the device allocates and frees memory in the order of a stream.
    has_pool: bool,
}

impl Cuda {
    /// Whether NVIDIA's driver is installed.
    pub(crate) fn is_installed() -> bool {
        self::driver::is_installed()
    }

    /// The newest CUDA version that the driver of this machine supports (12090 is 12.9); `None` without a driver.
    pub(crate) fn driver_version() -> Option<u32> {
        Driver::version()
    }

    /// Opens the device with this number, and loads all kernels.
    ///
    /// # Errors
    /// [`Error::NoDevice`] states what is missing and where the search looked; [`Error::Build`] why the driver rejects the kernels;
    /// [`Error::Unable`] that the device is too old for them.
    pub fn open(index: usize) -> Result<Cuda> {
        let driver = Driver::get()?;
        let (device, info, capability) = describe(driver, index, count(driver)?)?;
        if capability < CAPABILITY {
            return Err(Error::Unable { device: info.name, what: "run kernels of compute capability 7.0" });
        }
        let pools = Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        // A driver that does not know the attribute has no pools.
        let has_pool = attribute(driver, device, pools).is_ok_and(|pools| pools != 0);
        Ok(Cuda { context: Arc::new(Context::new(driver, device, &info.name)?), driver, info, has_pool })
    }

    /// All devices, in the order of their numbers. None is opened.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is none: it states what is missing and where the search looked.
    pub fn list() -> Result<Vec<DeviceInfo>> {
        let driver = Driver::get()?;
        let count = count(driver)?;
        (0..count).map(|index| describe(driver, index, count).map(|(_, info, _)| info)).collect()
    }

    /// The number of the device that an address of device memory belongs to, whatever library allocated it.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is no device; the driver's error for an unknown address.
    pub fn device_of(address: u64) -> Result<usize> {
        let driver = Driver::get()?;
        let mut ordinal: c_uint = 0;
        // SAFETY: for this attribute the driver writes an unsigned int, for which there is room; it only looks up the address.
        let code = unsafe {
            (driver.pointer_attribute)(
                ptr::from_mut(&mut ordinal).cast(),
                PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                address,
            )
        };
        driver.check("cuPointerGetAttribute", code)?;
        Ok(ordinal as usize)
    }
}

// SAFETY: `cuMemAlloc`, `cuMemAllocAsync` and `cuMemHostAlloc` return memory of the requested size, and only `release`, `release_in_order`
// and `unpin` free it. Queues wait for the stream that `cuMemAllocAsync` gets.
unsafe impl Device for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self, _held: u64) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        let _current = self.context.enter()?;
        // SAFETY: two numbers are written where there is room for them.
        let code = unsafe { (self.driver.memory_info)(&mut free, &mut total) };
        self.driver.check("cuMemGetInfo", code)?;
        Ok(MemoryInfo { total: total as u64, free: free as u64 })
    }

    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        let size = usize::try_from(bytes).map_err(|_| Error::OutOfMemory { stage, needed: bytes })?;
        let mut address = 0;
        let _current = self.context.enter()?;
        // SAFETY: an address is written where there is room for it.
        let code = unsafe { (self.driver.memory_alloc)(&mut address, size) };
        self.driver.check_memory("cuMemAlloc", code, stage, bytes)?;
        Ok(address)
    }

    unsafe fn release(&self, handle: Handle) {
        // If the driver fails here, an earlier call reported why, and nothing else can be done.
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the caller promises that the address came from `allocate`, is freed once, and is not in use.
            unsafe { (self.driver.memory_free)(handle) };
        }
    }

    fn allocate_in_order(&self, stage: &'static str, bytes: u64) -> Option<Result<Handle>> {
        self.has_pool.then(|| self.context.allocate_in_order(stage, bytes))
    }

    unsafe fn release_in_order(&self, handle: Handle) {
        // SAFETY: the caller's promise.
        unsafe { self.context.free_in_order(handle) };
    }

    fn free_in_pool(&self) -> Result<u64> {
        if self.has_pool { self.context.free_in_pool() } else { Ok(0) }
    }

    fn memory_stream(&self) -> Result<u64> {
        Ok(self.context.memory_stream().expose_provenance() as u64)
    }

    fn follow_memory_stream(&self) {
        self.context.memory.add_entry();
    }

    unsafe fn order_after_stream(&self, stream: u64) -> Result<()> {
        let memory = self.context.memory_stream();
        // SAFETY: the caller promises that the stream is a default one or alive in this context; a handle is an address or one of two
        // numbers.
        unsafe { self.context.order(memory, ptr::without_provenance_mut(stream as usize)) }
    }

    fn wait_for_memory_stream(&self) -> Result<()> {
        self.context.wait_for_memory()
    }

    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)> {
        let mut memory = ptr::null_mut();
        let _current = self.context.enter()?;
        // SAFETY: an address is written where there is room for it.
        let code = unsafe { (self.driver.host_alloc)(&mut memory, bytes, CU_MEMHOSTALLOC_PORTABLE) };
        self.driver.check_memory("cuMemHostAlloc", code, "pinned host memory", bytes as u64)?;
        Ok((memory.addr() as Handle, memory.cast()))
    }

    unsafe fn unpin(&self, _handle: Handle, memory: *mut u8) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the caller promises that the memory came from `pin`, is freed once, and is not in use.
            unsafe { (self.driver.host_free)(memory.cast()) };
        }
    }

    fn in_cuda_context(&self, work: &mut dyn FnMut()) -> bool {
        self.context.enter().map(|_current| work()).is_ok()
    }

    unsafe fn wait_for_stream(&self, stream: u64) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the caller promises that the stream is a default one or alive in this context; a handle is an address or one of two
        // numbers.
        let code = unsafe { (self.driver.stream_synchronize)(ptr::without_provenance_mut(stream as usize)) };
        self.driver.check("cuStreamSynchronize", code)
    }

    fn wait_for_context(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the function takes nothing and waits for the current context.
        let code = unsafe { (self.driver.context_synchronize)() };
        self.driver.check("cuCtxSynchronize", code)
    }

    fn resident_groups(&self, kernel: Kernel) -> u32 {
        // A driver that does not answer has no influence on pixels: batches get their usual size.
        self.context.resident_groups(kernel).unwrap_or_else(|_| kernel.usual_residency())
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(CudaQueue::new(Arc::clone(&self.context))?))
    }
}

fn count(driver: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: a number is written where there is room for it.
    let code = unsafe { (driver.device_count)(&mut count) };
    driver.check("cuDeviceGetCount", code)?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => {
            Err(no_device(format!("NVIDIA's driver is installed and runs, but it has no device{}", visible_devices())))
        }
    }
}

/// An attribute of a device.
fn attribute(driver: &Driver, device: CUdevice, attribute: Attribute) -> Result<c_int> {
    let mut value = 0;
    // SAFETY: a number is written where there is room for it.
    let code = unsafe { (driver.device_attribute)(&mut value, attribute, device) };
    driver.check("cuDeviceGetAttribute", code).map(|()| value)
}

/// A device, its properties and the major number of its compute capability.
fn describe(driver: &Driver, index: usize, count: usize) -> Result<(CUdevice, DeviceInfo, c_int)> {
    let number = c_int::try_from(index).ok().filter(|_| index < count).ok_or_else(|| {
        no_device(format!("device {index} was asked for, but there are {count}, from 0 on{}", visible_devices()))
    })?;
    let mut device = 0;
    // SAFETY: a device is written where there is room for it.
    let code = unsafe { (driver.device_get)(&mut device, number) };
    driver.check("cuDeviceGet", code)?;

    let mut name = [0_u8; 256];
    // SAFETY: at most as many bytes are written as the name has room for.
    let code = unsafe { (driver.device_name)(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) };
    driver.check("cuDeviceGetName", code)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());

    let attribute = |wanted: Attribute| attribute(driver, device, wanted);
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;

    let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;

    let (mut version, mut memory) = (0, 0);
    // SAFETY: a number is written where there is room for it.
    driver.check("cuDriverGetVersion", unsafe { (driver.driver_version)(&mut version) })?;
    // SAFETY: as above.
    driver.check("cuDeviceTotalMem", unsafe { (driver.device_memory)(&mut memory, device) })?;

    let info = DeviceInfo {
        api: Api::Cuda,
        index,
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        driver: format!("CUDA {}.{}, compute capability {major}.{minor}", version / 1000, version % 1000 / 10),
        is_gpu: true,
        memory: memory as u64,
        largest_buffer: memory as u64,
        doubles: true,
        multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1),
    };
    Ok((device, info, major))
}
