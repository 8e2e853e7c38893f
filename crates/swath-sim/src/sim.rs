//! Devices, their contexts and their streams.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use swath_gpu::Kernel;

use crate::code::{Code, Done};
use crate::executor::Executor;
use crate::fail;
use crate::memory::{DeviceMemory, PinnedMemory};
use crate::opencl::Parameter;

/// A work item of a stream. Its argument is the device of the stream.
pub(crate) type Work = Box<dyn FnOnce(&mut Sim, i32) -> Done + Send>;

/// A stream, with its pending work.
struct Stream {
    device: i32,
    work: VecDeque<Work>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream of device {} with {} to do", self.device, self.work.len())
    }
}

/// The driver. There is one, behind one lock. The thread that waits for work executes it while it holds the
/// lock.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) executor: Executor,
    pub(crate) memory: DeviceMemory,
    pub(crate) pinned: PinnedMemory,
    /// The number of references to the primary context of each device.
    retained: BTreeMap<i32, u32>,
    /// The modules, with the device of each.
    modules: BTreeMap<usize, i32>,
    /// The functions: the module and the kernel.
    functions: BTreeMap<usize, (usize, Kernel)>,
    streams: BTreeMap<usize, Stream>,
    /// The code that ended a context. Every later call in it fails, as on real devices.
    dead: BTreeMap<i32, Code>,
    /// The lost devices: a new context fails too.
    lost: BTreeSet<i32>,
    /// The events, with the stream in which each was recorded last.
    events: BTreeMap<usize, Option<usize>>,
    last_handle: usize,
}

static SIM: Mutex<Option<Sim>> = Mutex::new(None);
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The handles of contexts start with this number, so that they differ from all other handles.
const CONTEXT: usize = 0x5EED_0000;

thread_local! {
    /// The contexts that this thread pushed.
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The number of this thread.
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

fn lock() -> MutexGuard<'static, Option<Sim>> {
    SIM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the driver, if it is not started.
pub(crate) fn start() -> Done {
    let mut sim = lock();
    if sim.is_none() {
        *sim = Some(Sim {
            executor: Executor::open()?,
            memory: DeviceMemory::default(),
            pinned: PinnedMemory::default(),
            retained: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            dead: BTreeMap::new(),
            lost: BTreeSet::new(),
            events: BTreeMap::new(),
            last_handle: 0x1000,
        });
    }
    Ok(())
}

/// Runs `act` with the driver, if the driver is started.
pub(crate) fn with<T>(act: impl FnOnce(&mut Sim) -> Done<T>) -> Done<T> {
    act(lock().as_mut().ok_or(Code::NOT_INITIALIZED)?)
}

/// Runs `act` in the current context of this thread, unless an error has killed the context or its device is
/// lost.
pub(crate) fn in_context<T>(act: impl FnOnce(&mut Sim, i32) -> Done<T>) -> Done<T> {
    let current = CURRENT.with_borrow(|stack| stack.last().copied()).ok_or(Code::INVALID_CONTEXT)?;
    with(|sim| {
        let device = sim.device_of(current)?;
        sim.present(device)?;
        sim.dead.get(&device).map_or(Ok(()), |&code| Err(code))?;
        act(sim, device)
    })
}

/// Makes a context current on this thread.
pub(crate) fn push(context: usize) -> Done {
    with(|sim| sim.device_of(context))?;
    CURRENT.with_borrow_mut(|stack| stack.push(context));
    Ok(())
}

/// Restores the context that was current before the last push.
pub(crate) fn pop() -> Done<usize> {
    CURRENT.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)
}

/// The number of devices.
pub(crate) fn device_count() -> i32 {
    i32::try_from(fail::number("SWATH_SIM_DEVICES", 1)).unwrap_or(i32::MAX)
}

/// The memory of each device in bytes.
pub(crate) fn total_memory() -> u64 {
    fail::number("SWATH_SIM_MEMORY", 8 << 30)
}

/// The number of multiprocessors of each device.
pub(crate) fn multiprocessors() -> i32 {
    i32::try_from(fail::number("SWATH_SIM_MULTIPROCESSORS", 28)).unwrap_or(i32::MAX)
}

impl Sim {
    fn handle(&mut self) -> usize {
        self.last_handle += 16;
        self.last_handle
    }

    fn device_of(&self, context: usize) -> Done<i32> {
        let device = context.checked_sub(CONTEXT).and_then(|device| i32::try_from(device).ok());
        device.filter(|device| self.retained.contains_key(device)).ok_or(Code::INVALID_CONTEXT)
    }

    /// Checks that the device is not lost. Every call that needs the device calls this, so that any of them can
    /// be the one that loses it.
    pub(crate) fn present(&mut self, device: i32) -> Done {
        if !self.lost.contains(&device) && fail::now("lost") {
            self.lost.insert(device);
            self.discard(device);
        }
        if self.lost.contains(&device) { Err(Code::DEVICE_UNAVAILABLE) } else { Ok(()) }
    }

    /// Makes lost devices available again.
    pub(crate) fn find_devices(&mut self) {
        self.lost.clear();
    }

    pub(crate) fn retain(&mut self, device: i32) -> usize {
        *self.retained.entry(device).or_default() += 1;
        CONTEXT + device as usize
    }

    /// Releases the primary context. The last release destroys everything in it.
    pub(crate) fn release(&mut self, device: i32) -> Done {
        let count = self.retained.get_mut(&device).ok_or(Code::INVALID_CONTEXT)?;
        *count -= 1;
        if *count == 0 {
            let _ = self.drain_device(device);
            self.retained.remove(&device);
            self.streams.retain(|_, stream| stream.device != device);
            self.modules.retain(|_, of| *of != device);
            self.functions.retain(|_, (module, _)| self.modules.contains_key(module));
            self.memory.clear(&self.executor, device);
            self.dead.remove(&device);
            if self.retained.is_empty() {
                self.pinned.clear();
            }
        }
        Ok(())
    }

    pub(crate) fn add_module(&mut self, device: i32) -> usize {
        let handle = self.handle();
        self.modules.insert(handle, device);
        handle
    }

    pub(crate) fn remove_module(&mut self, module: usize) -> Done {
        self.modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
        self.functions.retain(|_, (of, _)| *of != module);
        Ok(())
    }

    pub(crate) fn add_function(&mut self, module: usize, name: &str) -> Done<usize> {
        self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let &kernel = Kernel::ALL.iter().find(|kernel| kernel.name() == name).ok_or(Code::NOT_FOUND)?;
        let handle = self.handle();
        self.functions.insert(handle, (module, kernel));
        Ok(handle)
    }

    /// Returns the kernel of a function of the device.
    pub(crate) fn function(&self, device: i32, function: usize) -> Done<Kernel> {
        let (module, kernel) = self.functions.get(&function).ok_or(Code::INVALID_HANDLE)?;
        let of = self.modules.get(module);
        of.filter(|of| **of == device).map(|_| *kernel).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn add_stream(&mut self, device: i32) -> usize {
        let handle = self.handle();
        self.streams.insert(handle, Stream { device, work: VecDeque::new() });
        handle
    }

    pub(crate) fn add_event(&mut self) -> usize {
        let handle = self.handle();
        self.events.insert(handle, None);
        handle
    }

    /// Records an event in a stream.
    pub(crate) fn record_event(&mut self, device: i32, event: usize, stream: usize) -> Done {
        let stream = self.named(device, stream);
        self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?;
        *self.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)? = Some(stream);
        Ok(())
    }

    /// Returns the stream in which an event was recorded.
    pub(crate) fn event(&self, event: usize) -> Done<Option<usize>> {
        self.events.get(&event).copied().ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn remove_event(&mut self, event: usize) -> Done {
        self.events.remove(&event).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    /// Removes a stream. A real driver finishes its work later; the simulator does it now.
    pub(crate) fn remove_stream(&mut self, device: i32, stream: usize) -> Done {
        let done = self.drain(device, stream);
        self.streams.remove(&stream);
        done
    }

    /// Returns the stream of a handle. 1 and 2 are the default streams, which programs other than Swath may
    /// use: the legacy one, and that of the thread.
    pub(crate) fn named(&mut self, device: i32, stream: usize) -> usize {
        let handle = match stream {
            1 => usize::MAX - device as usize,
            2 => usize::MAX / 2 - (THREAD.with(|thread| *thread) << 8) - device as usize,
            other => return other,
        };
        self.streams.entry(handle).or_insert_with(|| Stream { device, work: VecDeque::new() });
        handle
    }

    /// Adds work to a stream of the device. The handle 0 of the legacy default stream is refused: Swath never
    /// uses it, and work that a library does there would not wait for Swath's own work.
    pub(crate) fn later(&mut self, device: i32, stream: usize, work: Work) -> Done {
        if stream == 0 {
            eprintln!("swath-sim: work was added to the legacy default stream, which Swath does not use");
        }
        let stream = self.named(device, stream);
        let stream = self.streams.get_mut(&stream).filter(|stream| stream.device == device);
        stream.ok_or(Code::INVALID_HANDLE)?.work.push_back(work);
        Ok(())
    }

    /// Executes the work that an event of a stream waits for. A stream that was removed has done its work.
    pub(crate) fn drain_for_event(&mut self, device: i32, stream: usize) -> Done {
        if self.streams.contains_key(&stream) { self.drain(device, stream) } else { Ok(()) }
    }

    /// Executes all work of a stream. An error kills the context.
    pub(crate) fn drain(&mut self, device: i32, stream: usize) -> Done {
        let stream = self.named(device, stream);
        let found = self.streams.get_mut(&stream).filter(|stream| stream.device == device);
        let work = std::mem::take(&mut found.ok_or(Code::INVALID_HANDLE)?.work);
        for step in work {
            step(self, device).or_else(|code| self.kill(device, code))?;
        }
        Ok(())
    }

    /// Records an error in the middle of work: from now on, nothing in the context is reliable.
    pub(crate) fn kill(&mut self, device: i32, code: Code) -> Done {
        self.dead.insert(device, code);
        self.discard(device);
        Err(code)
    }

    /// Discards the pending work of the streams of a device.
    fn discard(&mut self, device: i32) {
        self.streams.values_mut().filter(|stream| stream.device == device).for_each(|stream| stream.work.clear());
    }

    /// Executes all work of the streams of a device, as freeing memory does on real devices.
    pub(crate) fn drain_device(&mut self, device: i32) -> Done {
        let streams: Vec<usize> = self.streams.iter().filter(|(_, s)| s.device == device).map(|(h, _)| *h).collect();
        streams.into_iter().try_for_each(|stream| self.drain(device, stream))
    }

    /// Gives what the memory pool of a device holds without an allocation back, as drivers do when the host waits, unless
    /// `SWATH_SIM_POOL_KEEPS` says that the pool keeps it.
    pub(crate) fn release_pool(&mut self, device: i32) {
        if fail::number("SWATH_SIM_POOL_KEEPS", 0) == 0 {
            self.memory.empty_pool(device);
        }
    }

    /// Runs a kernel to its end, and checks whether it wrote outside its buffers.
    pub(crate) fn run(&mut self, device: i32, kernel: Kernel, groups: u32, values: &[u64]) -> Done {
        let parameters = self.executor.signature(kernel)?.parameters;
        for (index, (_, &value)) in
            parameters.iter().zip(values).enumerate().filter(|(_, (p, _))| matches!(p, Parameter::Pointer))
        {
            if value != 0 && self.memory.at_work(device, value, 1).is_err() {
                eprintln!("swath-sim: argument {index} of {} does not point to live device memory", kernel.name());
                return Err(Code::ILLEGAL_ADDRESS);
            }
        }
        self.executor.run(kernel, groups, values, &self.memory.live(device))?;
        if let Some((at, bytes)) = self.memory.trampled() {
            eprintln!("swath-sim: {} wrote outside the {bytes} bytes at {at:#x}", kernel.name());
            return Err(Code::ILLEGAL_ADDRESS);
        }
        Ok(())
    }
}
