//! The primary context of a device and the kernels in it.

use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys::{CUcontext, CUdevice, CUfunction, CUjit_option_enum, CUmodule};

use super::driver::Driver;
use super::memory_stream::MemoryStream;
use crate::backend::kernel::{Kernel, PTX};
use crate::error::{Error, Result};

/// The state that the device shares with its queues. It is the primary context, which every library of the process that uses CUDA works in,
/// so that their pointers are valid here.
#[derive(Debug)]
pub(super) struct Context {
    driver: &'static Driver,
    device: CUdevice,
    context: CUcontext,
    /// Null until the kernels are loaded.
    module: CUmodule,
    /// The functions of the module, in the order of `Kernel::ALL`.
    functions: Vec<CUfunction>,
    pub(super) memory: MemoryStream,
}

// SAFETY: contexts, modules and functions belong to no thread, and the driver does the locking.
unsafe impl Send for Context {}
// SAFETY: as above, and nothing is changed through a shared reference.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the context of a device and loads all kernels into it. `name` is the name of the device.
    pub(super) fn new(driver: &'static Driver, device: CUdevice, name: &str) -> Result<Context> {
        let mut context = ptr::null_mut();
        // SAFETY: the device came from `cuDeviceGet`, and the context is written where there is room for it.
        let code = unsafe { (driver.context_retain)(&mut context, device) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        // From here on, the drop releases what was created, whatever fails.
        let mut this = Context {
            driver,
            device,
            context,
            module: ptr::null_mut(),
            functions: Vec::new(),
            memory: MemoryStream::none(),
        };
        this.create_memory_stream()?;
        this.module = this.load(PTX, name)?;
        this.functions = Kernel::ALL.iter().map(|&kernel| this.find(kernel, name)).collect::<Result<_>>()?;
        Ok(this)
    }

    /// Makes the context current on this thread until the guard is dropped. Then the previous context is current again: it may belong to
    /// another library and another device.
    pub(super) fn enter(&self) -> Result<Current<'_>> {
        // SAFETY: the context is retained until the drop.
        let code = unsafe { (self.driver.context_push)(self.context) };
        self.driver.check("cuCtxPushCurrent", code)?;
        Ok(Current { driver: self.driver, thread: PhantomData })
    }

    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    pub(super) fn function(&self, kernel: Kernel) -> CUfunction {
        // `new` found all of `Kernel::ALL`, which has every variant in its order.
        self.functions[kernel as usize]
    }

    /// The number of groups of a kernel that one multiprocessor holds: the limit is its registers, its shared memory or its slots.
    pub(super) fn resident_groups(&self, kernel: Kernel) -> Result<u32> {
        let mut groups = 0;
        let current = self.enter()?;
        // SAFETY: the function belongs to a module of this context, and a number is written where there is room for it.
        let code =
            unsafe { (current.driver.occupancy)(&mut groups, self.function(kernel), kernel.group() as c_int, 0) };
        current.driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(u32::try_from(groups).unwrap_or(1).max(1))
    }

    /// Lets the driver compile the kernels for its device. The driver caches the result.
    fn load(&self, ptx: &str, name: &str) -> Result<CUmodule> {
        let failed = |log: String| Error::Build { kernel: "kernels.ptx", device: name.to_owned(), log };
        // The driver reads PTX as a text that ends with a zero byte.
        let image = CString::new(ptx).map_err(|_| failed("the text has a zero in it".to_owned()))?;
        let mut log = vec![0_u8; 16 << 10];
        // An option that is a number is passed in place of a pointer.
        let mut options =
            [CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER, CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
        let mut module = ptr::null_mut();
        let current = self.enter()?;
        // SAFETY: the image ends in a zero; there are two options with a value each; the log has the size that they say and
        // outlives the call.
        let code = unsafe {
            (current.driver.module_load)(
                &mut module,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        current.driver.check("cuModuleLoadDataEx", code).map_err(|error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let said = String::from_utf8_lossy(&log[..end]);
            failed(format!("{error}{}{}", if end > 0 { ": " } else { "" }, said.trim_end()))
        })?;
        Ok(module)
    }

    fn find(&self, kernel: Kernel, name: &str) -> Result<CUfunction> {
        let failed = |log: String| Error::Build { kernel: kernel.name(), device: name.to_owned(), log };
        let symbol = CString::new(kernel.name()).map_err(|_| failed("its name has a zero in it".to_owned()))?;
        let mut function = ptr::null_mut();
        let current = self.enter()?;
        // SAFETY: the module was loaded into this context, and the name ends in a zero.
        let code = unsafe { (current.driver.module_function)(&mut function, self.module, symbol.as_ptr()) };
        current.driver.check("cuModuleGetFunction", code).map_err(|error| failed(error.to_string()))?;
        Ok(function)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.destroy_memory_stream();
        if !self.module.is_null()
            && let Ok(current) = self.enter()
        {
            // SAFETY: the module was loaded into this context and is unloaded once. Queues hold the context and wait for their work before they
            // release it, so no kernel is running.
            unsafe { (current.driver.module_unload)(self.module) };
        }
        // SAFETY: `new` retained it once.
        unsafe { (self.driver.context_release)(self.device) };
    }
}

/// A guard: while it lives, the context is current on this thread.
#[derive(Debug)]
pub(super) struct Current<'a> {
    pub(super) driver: &'static Driver,
    /// The raw pointer keeps the guard on the thread that created it.
    thread: PhantomData<(&'a Context, *mut c_void)>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: `enter` pushed a context on this thread, and guards are dropped in the reverse order of their making.
        unsafe { (self.driver.context_pop)(&mut popped) };
    }
}
