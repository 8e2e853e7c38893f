//! Writing: the engine works in a thread of its own, and asks the calling thread for all that is Python's.
//!
//! So a producer of rows runs where the user called, with the user's dask scheduler and context, and Ctrl-C ends it as it ends any other
//! Python code.

mod keywords;
mod mask;

use std::io::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use swath::device::{DeviceRaster, Gpu};
use swath::read::{Cancel, Progress};
use swath::write::{ExtraSidecars, ImageShape};
use swath::{ArraySource, Device, Error, Layout, RowSource, WriteConfig, WritePlan, WriteReport};
use swath_gpu::Api;

use crate::array::{Bytes, named};
use crate::device::{Expected, raster_of};
use crate::errors::{plan_to_python, to_python};
use crate::options::options;
use crate::pam::{NamesAndColors, classes_of};
use crate::waiting::{Failure, LOOK, contained};
use crate::{device, report};

use self::keywords::WriteKeywords;
use self::mask::{Mask, MaskedRaster};

/// Write a file, complete or not at all.
#[pyfunction]
#[pyo3(signature = (target, source, **keywords))]
pub(crate) fn write<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    source: &Bound<'py, PyAny>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let keywords = WriteKeywords::new(py, keywords)?;
    let dtype = named(&keywords.dtype)?;
    let (bands, height, width) = keywords.shape;
    let mask = Mask::of(keywords.mask.as_ref(), height, width)?;
    let options = options(&keywords.options, dtype)?.mask(mask.is_written());
    let image_shape = ImageShape::new(height, width, bands, dtype);
    let plan = WritePlan::new(image_shape, options).map_err(plan_to_python)?;
    let cancel = Cancel::new();
    let (ask, asked) = channel();
    let shared = Mutex::new(ask.clone());
    let show = |progress: Progress| {
        // Nobody listens any more once the write has been interrupted.
        let Ok(ask) = shared.lock().map(|ask| ask.clone()) else { return };
        let (answer, answered) = channel();
        let last = progress.done == progress.total;
        // What is raised at the end still has to come before the file gets its name; until then nobody waits.
        if ask.send(Ask::Progress(progress, answer)).is_ok() && last {
            answered.recv().ok();
        }
    };
    // Opening a device for the first time takes a while.
    let device = keywords.device.as_deref();
    let write_device = py.detach(|| device.map_or(Ok(Device::Cpu), device::named)).map_err(to_python)?;
    let mut config = WriteConfig::new()
        .overwrite(keywords.overwrite)
        .sync(keywords.sync)
        .threads(keywords.threads)
        .buffer_bytes(keywords.buffer_bytes)
        .device(&write_device)
        .fallback(device::fallback_policy(keywords.strict))
        .encoder(keywords.settings.chosen_encoder().map_err(to_python)?)
        .storage(keywords.settings.chosen_storage().map_err(to_python)?)
        .gpu_memory_budget(keywords.settings.gpu_memory_budget().map_err(to_python)?)
        .cancel(&cancel);
    if keywords.progress.is_some() {
        config = config.progress(&show);
    }
    let beside = |report: &WriteReport| {
        let (answer, answered) = channel();
        let sent = shared.lock().is_ok_and(|ask| ask.send(Ask::Sidecars(Box::new(report.clone()), answer)).is_ok());
        // What Python raised is with the calling thread.
        sent.then(|| answered.recv().ok()).flatten().ok_or(Error::Cancelled)
    };
    if keywords.sidecars.is_some() {
        config = config.sidecars(&beside);
    }
    let target = match target.extract::<std::path::PathBuf>() {
        Ok(path) => Target::Path(path),
        Err(_) => Target::Object(target.clone().unbind()),
    };
    let image = Expected { dtype, bands, rows: height, cols: width, bands_last: keywords.bands_last };
    let (progress, sidecars) = (keywords.progress, keywords.sidecars);
    let caller = Caller { image, producer: None, target: None, progress, sidecars };
    let job = Job { plan: &plan, target: &target, config: &config, ask, asked, cancel: &cancel };
    let report = if let Ok(array) = source.cast::<PyUntypedArray>() {
        caller.serve(py, job, array_source(array, &image, mask.for_array()?)?)?
    } else if let Some(raster) = raster_of(source, &image, keywords.stream.as_ref())? {
        // The device that holds the pixels encodes them, unless the caller names another one.
        let device = if device.is_none() { raster.gpu().into() } else { write_device };
        // SAFETY: as for the samples in `array_source`.
        let mask = mask.for_array()?.map(|mask| unsafe { mask.slice() });
        let config = config.clone().device(device);
        caller.serve(py, Job { config: &config, ..job }, MaskedRaster { raster, mask })?
    } else if source.is_callable() {
        let rows = Rows {
            ask: job.ask.clone(),
            shape: image_shape,
            ends: chunk_ends(&keywords.chunk_rows, height)?,
            // The engine takes pixels with a mask on the host only.
            on_device: !mask.for_rows()? && keywords.rows_on_device,
        };
        Caller { producer: Some(source.clone()), ..caller }.serve(py, job, rows)?
    } else {
        return Err(PyTypeError::new_err("the source is neither an array nor a function that makes rows"));
    };
    report::of_write(py, &report)
}

/// The source of an array that holds the whole image.
fn array_source<'a>(
    array: &'a Bound<'_, PyUntypedArray>,
    image: &Expected,
    mask: Option<Bytes>,
) -> PyResult<ArraySource<'a>> {
    let Expected { dtype, bands, rows, cols, bands_last } = *image;
    let bytes = Bytes::of(array)?;
    if bytes.dtype != dtype {
        return Err(PyTypeError::new_err(format!("the array holds {}, not {}", bytes.dtype.name(), dtype.name())));
    }
    let layout = if bands_last { Layout::BandsLast } else { Layout::BandsFirst };
    // SAFETY: both arrays are alive until the call of `write` ends. The caller must not write to them meanwhile, as with every function
    // that reads an array without the GIL.
    let (samples, mask) = unsafe { (bytes.slice(), mask.map(|mask| mask.slice())) };
    let source = ArraySource::from_bytes(samples, dtype, bands, rows, cols, layout).map_err(to_python)?;
    mask.map_or(Ok(source), |mask| source.with_mask(mask)).map_err(to_python)
}

/// The end row of each chunk of a producer. Chunks are optional; where there are any, they must cover all rows of the image.
fn chunk_ends(rows: &[u64], height: u64) -> PyResult<Vec<u64>> {
    let mut end = 0;
    let ends: Vec<u64> = rows
        .iter()
        .map(|rows| {
            end += rows;
            end
        })
        .collect();
    if !rows.is_empty() && end != height {
        return Err(PyValueError::new_err(format!("the chunks have {end} rows, the image {height}")));
    }
    Ok(ends)
}

enum Target {
    Path(std::path::PathBuf),
    Object(Py<PyAny>),
}

/// Classes, statistics (names and texts) and the style, as Python returns them.
type SidecarContents = (Option<NamesAndColors>, Vec<(String, String)>, Option<Vec<u8>>);

/// What the engine asks the calling thread.
enum Ask {
    /// Fill the buffers, which are alive until the answer comes, with rows of pixels and of the mask.
    Rows {
        rows: Range<u64>,
        pixels: Address,
        mask: Option<Address>,
        answer: Sender<bool>,
    },
    /// Fill the first rows of the raster with rows.
    RowsOn(Range<u64>, DeviceRaster, Sender<bool>),
    /// Write the bytes, which are alive until the answer comes.
    Bytes(Address, Sender<bool>),
    /// Make the sidecars of a file with this report.
    Sidecars(Box<WriteReport>, Sender<ExtraSidecars>),
    /// Tell how far it is. The answer comes when this is dropped.
    Progress(Progress, Sender<()>),
    Done(Box<Result<WriteReport, Failure>>),
}

/// Where bytes lie.
#[derive(Clone, Copy)]
struct Address(*mut u8, usize);

// SAFETY: an address; it is used while the thread that sent it waits for the answer.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    fn of(bytes: &mut [u8]) -> Address {
        Address(bytes.as_mut_ptr(), bytes.len())
    }

    /// Fill it with the bytes of an array.
    ///
    /// # Safety
    /// Both must be alive and of one length, and nobody else may use this one meanwhile.
    unsafe fn copy_from(self, bytes: Bytes) {
        // SAFETY: the caller promises it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.pointer, self.0, self.1) };
    }
}

/// The source of rows, on the engine's side.
struct Rows {
    ask: Sender<Ask>,
    shape: ImageShape,
    /// Where the producer's chunks end.
    ends: Vec<u64>,
    /// Whether the producer makes its arrays on a CUDA device.
    on_device: bool,
}

impl RowSource for Rows {
    fn shape(&self) -> ImageShape {
        self.shape
    }

    fn chunk_end(&self, row: u64) -> u64 {
        let next = self.ends.partition_point(|end| *end <= row);
        self.ends.get(next).copied().unwrap_or(if self.ends.is_empty() { row + 1 } else { self.shape.height })
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> swath::Result<()> {
        let (answer, answered) = channel();
        let (pixels, mask) = (Address::of(pixels), mask.map(Address::of));
        let sent = self.ask.send(Ask::Rows { rows, pixels, mask, answer });
        // What Python raised is with the calling thread.
        if sent.is_ok() && answered.recv() == Ok(true) { Ok(()) } else { Err(Error::Cancelled) }
    }

    fn reads_on(&self, gpu: &Gpu) -> bool {
        self.on_device && gpu.info().api == Api::Cuda
    }

    fn read_on(&mut self, rows: Range<u64>, raster: &DeviceRaster) -> swath::Result<()> {
        let (answer, answered) = channel();
        let sent = self.ask.send(Ask::RowsOn(rows, raster.clone(), answer));
        if sent.is_ok() && answered.recv() == Ok(true) { Ok(()) } else { Err(Error::Cancelled) }
    }
}

/// The target, on the engine's side.
struct Writer(Sender<Ask>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let (answer, answered) = channel();
        let sent = self.0.send(Ask::Bytes(Address(bytes.as_ptr().cast_mut(), bytes.len()), answer));
        if sent.is_ok() && answered.recv() == Ok(true) {
            Ok(bytes.len())
        } else {
            Err(std::io::Error::other("the file object failed"))
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One write: what the engine needs for it, and both ends of the channel between the engine and the calling thread.
struct Job<'a, 'b> {
    plan: &'a WritePlan,
    target: &'a Target,
    config: &'a WriteConfig<'b>,
    ask: Sender<Ask>,
    asked: Receiver<Ask>,
    cancel: &'a Cancel,
}

/// The calling thread's side.
struct Caller<'py> {
    /// What is written.
    image: Expected,
    producer: Option<Bound<'py, PyAny>>,
    target: Option<Bound<'py, PyAny>>,
    progress: Option<Bound<'py, PyAny>>,
    /// A function that makes the contents of sidecars from the report.
    sidecars: Option<Bound<'py, PyAny>>,
}

impl<'py> Caller<'py> {
    /// Let the engine work, and do what it asks for until it is done.
    fn serve<S: RowSource>(mut self, py: Python<'py>, job: Job<'_, '_>, mut source: S) -> PyResult<WriteReport> {
        let Job { plan, target, config, ask, asked, cancel } = job;
        if let Target::Object(object) = target {
            self.target = Some(object.bind(py).clone());
        }
        std::thread::scope(|scope| {
            let work = move || {
                // The calling thread listens until this comes, after a panic too: it keeps a sender of its own, so the channel stays open.
                let done = contained(|| match target {
                    Target::Path(path) => plan.write_file(path, &mut source, config),
                    Target::Object(_) => plan.write_to(&mut Writer(ask.clone()), &mut source, config),
                });
                ask.send(Ask::Done(Box::new(done))).ok()
            };
            let started = std::thread::Builder::new().name("swath-write".into()).spawn_scoped(scope, work);
            let thread = started.map_err(|cause| to_python(Error::Thread { cause }))?;
            let done = self.listen(py, &asked, cancel);
            // Without the GIL: at its end the thread drops the source, and an array of another library takes the GIL to be freed.
            py.detach(move || thread.join()).ok();
            done
        })
    }

    /// Do what the engine asks for until it is done.
    fn listen(&self, py: Python<'py>, asked: &Receiver<Ask>, cancel: &Cancel) -> PyResult<WriteReport> {
        let mut raised = None;
        loop {
            // The receiver stays in this thread; only the waiting is done without the GIL.
            let asked = Listening(asked);
            match py.detach(move || asked.next()) {
                Ok(Ask::Done(done)) => return raised.map_or_else(|| done.map_err(Failure::into_python), Err),
                Ok(Ask::Progress(progress, answer)) => {
                    if let Some(Err(error)) =
                        self.progress.as_ref().map(|show| show.call1((progress.done, progress.total)))
                    {
                        cancel.cancel();
                        raised.get_or_insert(error);
                    }
                    drop(answer);
                }
                Ok(other) => self.answer(py, other).unwrap_or_else(|error| {
                    cancel.cancel();
                    raised.get_or_insert(error);
                }),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = py.check_signals() {
                        cancel.cancel();
                        raised.get_or_insert(error);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(to_python(Error::Cancelled)),
            }
        }
    }

    fn answer(&self, py: Python<'py>, ask: Ask) -> PyResult<()> {
        match ask {
            Ask::Rows { rows, pixels, mask, answer } => {
                let done = self.rows(py, &rows, pixels, mask);
                // The engine waits for every answer.
                answer.send(done.is_ok()).ok();
                done
            }
            Ask::RowsOn(rows, raster, answer) => {
                let done = self.rows_on(py, &rows, &raster);
                // Before the engine goes on: it may be the last to let go of the raster.
                drop(raster);
                answer.send(done.is_ok()).ok();
                done
            }
            Ask::Bytes(Address(pointer, len), answer) => {
                // SAFETY: the engine keeps the bytes until it is answered.
                let bytes = PyBytes::new(py, unsafe { std::slice::from_raw_parts(pointer, len) });
                let written = self.target.as_ref().map_or(Ok(()), |target| write_all(target, bytes));
                answer.send(written.is_ok()).ok();
                written
            }
            Ask::Sidecars(report, answer) => {
                // Without an answer, the engine stops.
                answer.send(self.make_sidecars(py, &report)?).ok();
                Ok(())
            }
            Ask::Progress(..) | Ask::Done(_) => Ok(()),
        }
    }

    fn make_sidecars(&self, py: Python<'py>, report: &WriteReport) -> PyResult<ExtraSidecars> {
        let Some(make) = &self.sidecars else { return Ok(ExtraSidecars::default()) };
        let made = make.call1((report::of_write(py, report)?,))?;
        let (classes, statistics, style): SidecarContents = made.extract()?;
        Ok(ExtraSidecars { classes: classes.map(classes_of), statistics, style })
    }

    fn rows(&self, py: Python<'py>, rows: &Range<u64>, pixels: Address, mask: Option<Address>) -> PyResult<()> {
        let Some(producer) = &self.producer else { return Ok(()) };
        let made = producer.call1((rows.start, rows.end))?;
        let Some(mask) = mask else { return self.put_pixels(py, rows, &made, pixels) };
        let (made, valid) = mask::pair(&made)?;
        let bytes = mask::bytes_of(&valid, rows.end - rows.start, self.image.cols)?;
        // SAFETY: both have a byte for each pixel of the rows; the array is alive, and the engine keeps its buffer until it is answered.
        py.detach(|| unsafe { mask.copy_from(bytes) });
        self.put_pixels(py, rows, &made, pixels)
    }

    fn put_pixels(&self, py: Python<'py>, rows: &Range<u64>, made: &Bound<'py, PyAny>, place: Address) -> PyResult<()> {
        let Address(pointer, len) = place;
        let Ok(array) = made.cast::<PyUntypedArray>() else {
            let raster = raster_of(made, &self.expected(rows), None)?
                .ok_or_else(|| PyTypeError::new_err("the producer of rows gave no array"))?;
            // SAFETY: the engine keeps the buffer, of this length, until it is answered.
            let out = unsafe { std::slice::from_raw_parts_mut(pointer, len) };
            return device::download(py, raster, out);
        };
        let bytes = Bytes::of(array)?;
        // Samples of another type can have the same size.
        if bytes.dtype != self.image.dtype {
            let (start, end) = (rows.start, rows.end);
            return Err(PyTypeError::new_err(format!(
                "the producer gave an array of {} for rows {start}..{end}, not of {}",
                bytes.dtype.name(),
                self.image.dtype.name()
            )));
        }
        if bytes.len != len {
            let (start, end, shape) = (rows.start, rows.end, array.shape());
            return Err(PyValueError::new_err(format!(
                "the producer gave an array of shape {shape:?} ({} bytes) for rows {start}..{end}, which have {len}",
                bytes.len
            )));
        }
        // SAFETY: both are of this length; the array is alive, and the engine keeps its buffer until it is answered.
        py.detach(|| unsafe { place.copy_from(bytes) });
        Ok(())
    }

    fn rows_on(&self, py: Python<'py>, rows: &Range<u64>, raster: &DeviceRaster) -> PyResult<()> {
        let Some(producer) = &self.producer else { return Ok(()) };
        let made = producer.call1((rows.start, rows.end))?;
        device::put_rows(py, &made, &self.expected(rows), raster)
    }

    /// What the producer makes of rows.
    fn expected(&self, rows: &Range<u64>) -> Expected {
        Expected { rows: rows.end - rows.start, bands_last: true, ..self.image }
    }
}

/// A receiver that only the thread that holds it uses.
struct Listening<'a>(&'a Receiver<Ask>);

// SAFETY: `Python::detach` runs the closure in the same thread.
unsafe impl Send for Listening<'_> {}

impl Listening<'_> {
    fn next(self) -> Result<Ask, RecvTimeoutError> {
        self.0.recv_timeout(LOOK)
    }
}

/// Some objects take only a part of what they are given.
fn write_all(target: &Bound<'_, PyAny>, bytes: Bound<'_, PyBytes>) -> PyResult<()> {
    let all = bytes.as_bytes().len();
    let mut rest = bytes;
    loop {
        let taken = target.call_method1("write", (&rest,))?.extract::<usize>().unwrap_or(rest.as_bytes().len());
        if taken >= rest.as_bytes().len() || all == 0 {
            return Ok(());
        }
        if taken == 0 {
            return Err(pyo3::exceptions::PyOSError::new_err("the file object takes no more bytes"));
        }
        rest = PyBytes::new(target.py(), &rest.as_bytes()[taken..]);
    }
}
