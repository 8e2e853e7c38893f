//! The life of a file that is written with the help of a device: rows go there in bands, and come back as tiles of all levels, cut and
//! predicted, ready to be compressed.
//!
//! Three things happen at once: the source makes a band in pinned memory, the device works on the one before it, and the CPU compresses
//! the tiles of the one before that, unless the device has done that too. The blocks are those that the CPU would have made, and so are
//! the bytes, if it is the CPU that compresses.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Instant;

use swath_codec::Predictor;
use swath_gpu::{
    CodecBackend, CutJob, CutLevel, DeviceRaster, Downsample, Gpu, Pinned, RowsIn, Storage, TileCodec, TileEncoder,
    Tiles,
};
use swath_io::{Span, Spool};
use swath_tiff::BlockGrid;

use super::{COMPRESSING, Job, REDUCE_BYTES, State, Streamed, WRITING};
use crate::error::{Error, Result};
use crate::nodata::to_nan::nan_to_nodata;
use crate::write::plan::Plan;
use crate::write::rows::RowsView;
use crate::write::source::RowSource;
use crate::write::stream::Spools;

/// Bands of pinned memory that go round: one that is made, one on the device, one that is measured.
const BANDS_IN_TURN: usize = 3;

/// A band of rows.
struct Band {
    rows: Range<u64>,
    place: Place,
}

/// Where the rows of a band lie.
enum Place {
    /// In pinned memory of the host.
    Host(Pinned),
    /// On the device, in a raster of their own.
    Device(DeviceRaster),
    /// On the device, in the raster that is written.
    Whole(DeviceRaster),
    /// In the raster that is written, and on the host to be measured.
    Both(DeviceRaster, Pinned),
}

impl Place {
    /// The rows on the host.
    fn on_host(&self) -> Option<&Pinned> {
        match self {
            Place::Host(memory) | Place::Both(_, memory) => Some(memory),
            Place::Device(_) | Place::Whole(_) => None,
        }
    }

    /// The rows for the device.
    fn rows(&self) -> RowsIn<'_> {
        match self {
            Place::Host(memory) => RowsIn::Host(memory),
            Place::Device(raster) => RowsIn::Band { raster, first: 0 },
            Place::Whole(raster) | Place::Both(raster, _) => RowsIn::Raster(raster),
        }
    }
}

/// What the device made of rows.
struct Cut {
    tiles: Vec<Tiles>,
    band: Band,
}

/// What the device has to do for a plan, or why it cannot.
pub(super) fn job(plan: &Plan, gpu: &Gpu) -> std::result::Result<CutJob, String> {
    if plan.has_mask() {
        return Err("no kernel packs masks".into());
    }
    let size = plan.dtype.size();
    if usize::from(plan.bits) != size * 8 {
        return Err("no kernel packs samples that are not whole bytes".into());
    }
    let mut levels = Vec::with_capacity(plan.levels.len());
    for planned in &plan.levels {
        let grid = &planned.grid;
        let halving = match &planned.reduction {
            None => None,
            Some(reduction) => {
                let Some(rules) = reduction.for_device() else {
                    let (method, factor) = (reduction.method.name(), reduction.factor);
                    return Err(format!(
                        "no kernel makes overviews of {} by {method} of {factor} pixels a side",
                        plan.dtype
                    ));
                };
                if rules.needs_doubles() && !gpu.info().doubles {
                    return Err("the device has no double precision for the means of floats".into());
                }
                Some(Downsample {
                    parent: planned.parent,
                    dtype: rules.dtype,
                    method: rules.method,
                    alpha: plan.alpha.map_or(u32::MAX, |band| band as u32),
                    low: rules.low,
                    high: rules.high,
                    fill: rules.fill,
                    beside: rules.beside,
                    any: rules.any,
                })
            }
        };
        levels.push(CutLevel {
            width: grid.width,
            height: grid.height,
            block_width: grid.block_width,
            block_height: grid.block_height,
            tiled: grid.tiled,
            planes: grid.planes,
            halving,
        });
    }
    // Codecs that take no predictor find the samples as they are.
    let predictor = plan.encoder.predictor;
    if predictor == Predictor::Horizontal && size > 8 {
        return Err("no kernel makes differences of such samples".into());
    }
    let nan_to_nodata = plan.nodata.filter(|_| plan.changes_pixels()).map(|nodata| {
        let mut sample = [0xff; 8];
        nan_to_nodata(plan.dtype, nodata, &mut sample[..size]);
        sample[size..].fill(0);
        u64::from_ne_bytes(sample)
    });
    let (predictor, compress) = (predictor.tag().into(), TileCodec::None);
    let job = CutJob { levels, bands: plan.bands, size, predictor, nan_to_nodata, compress };
    // Compilers are part of drivers, and not all drivers are good.
    gpu.can_cut(&job).map_err(|error| error.to_string())?;
    Ok(job)
}

/// What compresses the tiles on the device; the error says why nvCOMP cannot, where it was asked to.
pub(super) fn compress(plan: &Plan, gpu: &Gpu, encoder: CodecBackend) -> std::result::Result<TileCodec, String> {
    let shape = plan.block_shape(0, plan.levels[0].grid.block_height);
    let codec = TileCodec::new(gpu, &plan.encoder.compress, shape, encoder)?;
    let by_library = matches!(codec, TileCodec::NvComp(_) | TileCodec::Picture(_));
    let thin = |grid: &BlockGrid| grid.block_width.min(grid.decoded_height(grid.down() - 1)) < codec.least_side();
    // Both are known before the first row is taken.
    let unable = if by_library && plan.options.skip_empty {
        // Whether a block is empty is seen by comparing it with what the CPU makes of one.
        "it does not find the blocks that are empty".to_owned()
    } else if plan.levels.iter().any(|level| thin(&level.grid)) {
        format!("{codec} takes no picture of one row or column")
    } else {
        return Ok(codec);
    };
    if encoder == CodecBackend::NvComp { Err(unable) } else { Ok(TileCodec::None) }
}

impl State<'_> {
    /// Take all bands of the source through the device.
    pub(super) fn run_on_device(
        &mut self,
        gpu: &Gpu,
        job: CutJob,
        source: &mut dyn RowSource,
        bands: &[Range<u64>],
        spools: &mut Spools,
    ) -> Result<()> {
        let compresses = matches!(job.compress, TileCodec::NvComp(_));
        let mut cutting = gpu.cut(job, self.running.gpu_memory_budget.unwrap_or(u64::MAX))?;
        if compresses {
            self.write_by_device(gpu, &mut cutting, spools)?;
        } else if self.running.storage == Storage::CuFile {
            self.note_other_way(WRITING, "blocks that nvCOMP does not compress are made by the host".into(), 0)?;
        }
        let row_bytes = self.plan.row_bytes(0);
        let tallest = bands.iter().map(|band| band.end - band.start).max().unwrap_or(0);
        let places = self.places(gpu, source, tallest, bands.len())?;
        let min_rows = self.plan.levels[0].grid.block_height;
        std::thread::scope(|scope| {
            let (empty_to, empty) = channel::<Place>();
            let (full_to, full) = sync_channel::<Result<Band>>(1);
            let (cut_to, cut) = sync_channel::<Result<Cut>>(1);
            let (spent_to, spent) = channel::<Pinned>();
            // The source is not there yet, and so cannot be gone.
            places.into_iter().for_each(|place| drop(empty_to.send(place)));
            spawn(scope, "swath-source", move || produce(source, bands, row_bytes, &empty, &full_to))?;
            spawn(scope, "swath-device", move || work_on_device(cutting, row_bytes, min_rows, &full, &spent, &cut_to))?;
            let mut done = 0;
            while done < self.plan.height() {
                let waiting = Instant::now();
                // If nobody sends any more, a thread has panicked, and the panic is passed on when it is joined.
                let Cut { tiles, band } = cut.recv().map_err(|_| Error::Cancelled)??;
                self.streamed.report.source_wait += waiting.elapsed();
                self.compress(&tiles, &band, row_bytes, spools)?;
                done = band.rows.end;
                self.note_progress(done);
                // Memory that nobody takes back is freed.
                for tiles in tiles {
                    let _ = spent_to.send(tiles.into_memory());
                }
                let _ = empty_to.send(band.place);
            }
            Ok(())
        })
    }

    /// Places for the bands that are under way at once: in the raster that is written, if it is one on this device; in rasters on the
    /// device, if the source makes its rows there; else on the host, and so from a raster on another device.
    fn places(&self, gpu: &Gpu, source: &dyn RowSource, tallest: u64, bands: usize) -> Result<Vec<Place>> {
        let count = BANDS_IN_TURN.min(bands);
        let measured = self.plan.measures();
        let pin = || gpu.pin(tallest as usize * self.plan.row_bytes(0));
        if let Some(raster) = source.on_device().filter(|raster| raster.gpu().is(gpu)) {
            let place = || match measured {
                true => Ok(Place::Both(raster.clone(), pin()?)),
                false => Ok(Place::Whole(raster.clone())),
            };
            return (0..count).map(|_| place()).collect();
        }
        // What the rasters take is not in anybody's budget, so where there is one the rows come by way of the host.
        if !measured && self.running.gpu_memory_budget.is_none() && source.reads_on(gpu) {
            let (width, bands, dtype) = (self.plan.width(), self.plan.bands, self.plan.dtype);
            let raster = || DeviceRaster::new(gpu, dtype, bands, tallest, width, true).map(Place::Device);
            // One that is read into, one that is cut.
            match (0..count.min(2)).map(|_| raster()).collect::<swath_gpu::Result<Vec<_>>>() {
                Err(error) if error.is_memory() => {}
                places => return Ok(places?),
            }
        }
        (0..count).map(|_| Ok(Place::Host(pin()?))).collect()
    }

    /// A library failed at tiles: the CPU compresses them, or they are written by way of the host.
    fn note_failure(&mut self, failure: &swath_gpu::Error, tiles: &Tiles) -> Result<()> {
        let stage = if failure.is_about_files() { WRITING } else { COMPRESSING };
        self.note_other_way(stage, failure.to_string(), tiles.count())
    }

    /// Note where the device has put blocks by itself.
    fn take_written(&mut self, tiles: &Tiles, places: &[Range<u64>], spools: &mut Spools) -> Result<()> {
        let mut places = places.iter();
        // A frame repeats the end of its block.
        let behind = if self.plan.is_cog() { 4 } else { 0 };
        let Streamed { index, report, .. } = &mut *self.streamed;
        for of in &tiles.levels {
            let runs = of.rows.clone().flat_map(|row| self.plan.runs(of.level, row));
            let grid = &self.plan.levels[of.level].grid;
            for (run, col) in runs.flat_map(|run| run.cols.clone().map(move |col| (run.clone(), col))) {
                let place = places.next().expect("the device tells of every tile that it wrote");
                let span = Span { offset: place.start, len: place.end - place.start };
                index.place(of.level, false, grid.index(run.plane, run.row, col), span)?;
                let spool = if of.level == 0 { &mut spools.full } else { &mut spools.overviews };
                spool.written_to(place.end + behind);
                report.blocks += 1;
                report.bytes_encoded += span.len;
            }
        }
        Ok(())
    }

    /// Let the device write by itself what it compresses, if that is wanted and it can.
    fn write_by_device(&mut self, gpu: &Gpu, cutting: &mut TileEncoder, spools: &Spools) -> Result<()> {
        let storage = self.running.storage;
        let open = |spool: &Spool| match spool.file() {
            Some((file, end)) => {
                let opened = gpu.open_file(file, true, storage).map_err(|error| error.to_string())?;
                Ok(opened.map(|file| (file, end)))
            }
            None if storage == Storage::CuFile => Err("only files of this machine can be written by cuFile".to_owned()),
            None => Ok(None),
        };
        let files = open(&spools.full).and_then(|full| match self.plan.levels.len() {
            1 => Ok((full, None)),
            _ => Ok((full, open(&spools.overviews)?)),
        });
        match files {
            Ok((Some(full), overviews)) if overviews.is_some() || self.plan.levels.len() == 1 => {
                cutting.write_to(full, overviews, self.plan.is_cog());
            }
            Ok(_) => {}
            Err(reason) => self.note_other_way(WRITING, reason, 0)?,
        }
        Ok(())
    }

    /// Compress the tiles of a band, and measure its rows.
    fn compress(&mut self, tiles: &[Tiles], band: &Band, row_bytes: usize, spools: &mut Spools) -> Result<()> {
        let mut jobs = Vec::new();
        for tiles in tiles {
            if let Some(failure) = tiles.failure() {
                self.note_failure(failure, tiles)?;
            }
            self.compressed |= tiles.are_compressed() || tiles.written().is_some();
            if let Some((places, by)) = tiles.written() {
                self.written_by = by;
                self.take_written(tiles, places, spools)?;
                continue;
            }
            for of in &tiles.levels {
                let runs = of.rows.clone().flat_map(|row| self.plan.runs(of.level, row));
                jobs.extend(runs.map(|run| Job::Compress { run, tiles }));
            }
        }
        let mut views = Vec::new();
        if let (true, Some(memory)) = (self.plan.measures(), band.place.on_host()) {
            let count = (band.rows.end - band.rows.start) as usize;
            let samples = &memory[..count * row_bytes];
            views.push(RowsView { samples, mask: None, first: band.rows.start, row_bytes, mask_bytes: 0 });
            let step = (REDUCE_BYTES / row_bytes.max(1) as u64).max(1);
            let starts = band.rows.clone().step_by(step as usize);
            jobs.extend(starts.map(|start| Job::Statistics(start..(start + step).min(band.rows.end))));
        }
        let mut workers = std::mem::take(&mut self.workers);
        let outcome = self.work(jobs, &views, &mut workers, spools);
        self.workers = workers;
        // Tiles of two bands: these, and those that the device is bringing.
        let tiles = 2 * tiles.iter().map(Tiles::host_bytes).sum::<usize>();
        let held = BANDS_IN_TURN * band.place.on_host().map_or(0, |memory| memory.len()) + tiles;
        let report = &mut self.streamed.report;
        report.peak_buffer_bytes = report.peak_buffer_bytes.max(held as u64);
        outcome
    }
}

fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, work);
    thread.map(|_| ()).map_err(|source| Error::Thread { source })
}

/// The thread of the source: fill each place that comes back.
fn produce(
    source: &mut dyn RowSource,
    bands: &[Range<u64>],
    row_bytes: usize,
    empty: &Receiver<Place>,
    full: &SyncSender<Result<Band>>,
) {
    for rows in bands.iter().cloned() {
        let Ok(mut place) = empty.recv() else { return };
        let bytes = (rows.end - rows.start) as usize * row_bytes;
        let made = match &mut place {
            Place::Host(memory) | Place::Both(_, memory) => source.read(rows.clone(), &mut memory[..bytes], None),
            Place::Device(raster) => source.read_on(rows.clone(), raster),
            Place::Whole(_) => Ok(()),
        };
        let failed = made.is_err();
        if full.send(made.map(|()| Band { rows, place })).is_err() || failed {
            return;
        }
    }
}

/// The thread of the device: cut each band that comes.
fn work_on_device(
    mut cutting: TileEncoder,
    row_bytes: usize,
    min_rows: u64,
    full: &Receiver<Result<Band>>,
    spent: &Receiver<Pinned>,
    cut: &SyncSender<Result<Cut>>,
) {
    for band in full {
        let made = band.and_then(|band| {
            let mut tiles = Vec::new();
            let count = band.rows.end - band.rows.start;
            push(&mut cutting, band.place.rows(), count, row_bytes, min_rows, spent, &mut tiles)?;
            Ok(Cut { tiles, band })
        });
        let failed = made.is_err();
        if cut.send(made).is_err() || failed {
            return;
        }
    }
}

/// Push rows; if the memory is not enough for all at once, in halves.
fn push(
    cutting: &mut TileEncoder,
    rows: RowsIn<'_>,
    count: u64,
    row_bytes: usize,
    min_rows: u64,
    spent: &Receiver<Pinned>,
    tiles: &mut Vec<Tiles>,
) -> Result<()> {
    match cutting.push(rows, count, spent.try_recv().ok()) {
        Ok(made) => {
            tiles.push(made);
            Ok(())
        }
        Err(error) if error.is_memory() && count > min_rows => {
            // Whole block rows, so that no more is kept than must be.
            let half = (count / 2).next_multiple_of(min_rows).min(count - 1);
            let second = match rows {
                RowsIn::Host(pixels) => RowsIn::Host(&pixels[half as usize * row_bytes..]),
                RowsIn::Raster(raster) => RowsIn::Raster(raster),
                RowsIn::Band { raster, first } => RowsIn::Band { raster, first: first + half },
            };
            push(cutting, rows, half, row_bytes, min_rows, spent, tiles)?;
            push(cutting, second, count - half, row_bytes, min_rows, spent, tiles)
        }
        // TileEncoder needs less memory than compressing does too.
        Err(error) if error.is_memory() && cutting.compress_no_more(error.clone()) => {
            push(cutting, rows, count, row_bytes, min_rows, spent, tiles)
        }
        Err(error) => Err(error.into()),
    }
}
