//! Compresses tiles on the device into a pool with a slot for each tile, then gathers them and sends them to
//! the host or to the file.

use std::ops::Range;

use super::outcome::EncodeFailure;
use super::pool::{ARRAYS, FRAME_ROOM, Pool, PoolLayout, TileRun, failed, slots_of};
use super::tile_codec::{NvCompCodec, TileCodec};
use super::tiles::TileData;
use super::{Fetched, TileEncoder, room_on_host};
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::Status;
use crate::error::{Error, Result};
use crate::memory::buffer::Pinned;
use crate::vendor::nvcomp::{self, NvComp};

/// The tiles that are compressed together, and their slots in the pool.
struct Batch<'a> {
    runs: &'a [TileRun],
    /// The offset of each slot in the pool. A tile has one slot, or one for each of its parts.
    slots: Vec<u64>,
    /// The offset of the arrays of nvCOMP in the pool.
    arrays_at: u64,
    /// The number of bytes from the start of a slot to the start of the compressed tile with its frame.
    frame_gap: u64,
}

impl<'a> Batch<'a> {
    fn new(codec: &TileCodec, runs: &'a [TileRun], pool: &Pool) -> Batch<'a> {
        let count = slots_of(codec, runs);
        let layout = PoolLayout::new(codec, count);
        let mut slots: Vec<u64> = Vec::with_capacity(count as usize);
        let mut at = layout.slots_at;
        for (run, &slot) in runs.iter().zip(&pool.slot_bytes) {
            let number = run.tiles * codec.slots(run.bytes);
            slots.extend((0..number).map(|index| at + index * slot));
            at += number * slot;
        }
        let frame_gap = match codec {
            TileCodec::NvComp(codec) => FRAME_ROOM - codec.before(),
            _ => 0,
        };
        Batch { runs, slots, arrays_at: layout.arrays_at, frame_gap }
    }

    /// Changes `slots` to the offsets of the compressed tiles.
    fn skip_frame_room(&mut self) {
        let gap = std::mem::take(&mut self.frame_gap);
        self.slots.iter_mut().for_each(|slot| *slot += gap);
    }
}

/// The result of writing tiles from the device to the file.
enum DirectWrite {
    /// The device does not write to the file.
    Off,
    /// The tiles are in the file.
    Written(TileData),
    /// cuFile failed. The tiles are still in the pool.
    Failed(Error),
}

impl TileEncoder {
    /// Compresses all tiles, gathers them into contiguous memory, and copies them to the host or writes them to
    /// the file.
    pub(super) fn compress(&mut self, runs: &[TileRun], memory: &mut Pinned) -> Result<Fetched> {
        if let TileCodec::Picture(codec) = self.job.compress {
            return self.make_pictures(codec, runs, memory);
        }
        let mut batch = Batch::new(&self.job.compress, runs, &self.pool);
        let checked = self.pool.check.run(&self.job.compress, runs);
        let mut sizes = self.compress_to_pool(&batch, checked.as_ref(), memory)?;
        let status = checked.and_then(|_| sizes.pop()).map_or(Status::OK, Status);
        self.check_sizes(&batch, &sizes)?;
        if let Some(run) = checked {
            self.check_passed(&run, status, sizes[run.middle() as usize])?;
        }
        batch.skip_frame_room();
        let failure = match self.write_directly(&batch, &sizes)? {
            DirectWrite::Written(made) => return Ok((made, None)),
            DirectWrite::Failed(error) => Some(EncodeFailure::DirectWrite(error)),
            DirectWrite::Off => None,
        };
        let (mut spans, mut total) = (Vec::with_capacity(sizes.len()), 0);
        for (slot, size) in batch.slots.iter().zip(sizes) {
            spans.push([*slot, total, u64::from(size)]);
            total += u64::from(size);
        }
        self.download(&spans, total, memory)?;
        Ok((TileData::Compressed(self.places(runs, &spans)), failure))
    }

    /// Returns the range of each tile in host memory. The parts of a tile follow one another.
    fn places(&self, runs: &[TileRun], spans: &[[u64; 3]]) -> Vec<Range<usize>> {
        let mut spans = spans.iter();
        let mut place = |slots: u64| {
            let mut tile = 0..0;
            for (index, [_, to, len]) in spans.by_ref().take(slots as usize).enumerate() {
                let start = if index == 0 { *to as usize } else { tile.start };
                tile = start..(to + len) as usize;
            }
            tile
        };
        let slots = |run: &TileRun| std::iter::repeat_n(self.job.compress.slots(run.bytes), run.tiles as usize);
        runs.iter().flat_map(slots).map(&mut place).collect()
    }

    /// Compresses all tiles into the pool. Returns the sizes of the contents of the slots, followed by the status
    /// of the checked tile, if one is checked.
    fn compress_to_pool(
        &mut self,
        batch: &Batch<'_>,
        checked: Option<&TileRun>,
        memory: &mut Pinned,
    ) -> Result<Vec<u32>> {
        let count = batch.slots.len() as u64;
        // nvCOMP reads these arrays until the stream is synchronised.
        let mut arrays = Vec::new();
        let made = match self.job.compress {
            TileCodec::NvComp(codec) => self.compress_by_nvcomp(codec, batch, &mut arrays),
            _ => self.compress_by_kernel(batch),
        };
        let made = made.and_then(|()| match checked {
            Some(run) => {
                let (pool, slot) = (&mut self.pool, batch.slots[run.middle() as usize]);
                let room = pool.slot_bytes.iter().min().map_or(0, |bytes| bytes - batch.frame_gap);
                pool.check.enqueue(&pool.slots, run, (slot + batch.frame_gap, room), count * 4, &mut self.stream)
            }
            None => Ok(()),
        });
        let words = made.and_then(|()| self.words(count + u64::from(checked.is_some()), memory));
        if words.is_err() {
            self.stream.synchronize()?;
        }
        words
    }

    /// Checks that every tile was compressed and fits in its slot.
    fn check_sizes(&self, batch: &Batch<'_>, sizes: &[u32]) -> Result<()> {
        let runs = batch.runs.iter().zip(&self.pool.slot_bytes);
        let gap = batch.frame_gap;
        let slots = |run: &TileRun| (run.tiles * self.job.compress.slots(run.bytes)) as usize;
        let mut rooms = runs.flat_map(|(run, &slot)| std::iter::repeat_n(slot - gap, slots(run)));
        match sizes.iter().all(|&size| rooms.next().is_some_and(|room| u64::from(size) <= room)) {
            true => Ok(()),
            false => Err(failed("it did not compress a tile".to_owned())),
        }
    }

    /// Evaluates the check of one tile. If the decoded tile is wrong, the device compresses no more tiles.
    fn check_passed(&mut self, run: &TileRun, status: Status, size: u32) -> Result<()> {
        if !status.is_ok() {
            // The other tiles, and later ones, are probably wrong too.
            self.stop_compressing();
            let (bytes, why) = (run.bytes, status.reason());
            return Err(failed(format!("a tile of {bytes} bytes is not what it was when it is decoded: {why}")));
        }
        self.pool.check.pass(run, size, &mut self.budget);
        Ok(())
    }

    /// Writes the compressed tiles from the device to the file, if direct writes are set up.
    fn write_directly(&mut self, batch: &Batch<'_>, sizes: &[u32]) -> Result<DirectWrite> {
        let Some(mut direct) = self.direct.take() else { return Ok(DirectWrite::Off) };
        match self.write(&mut direct, batch.runs, &batch.slots, sizes) {
            Ok(written) => {
                let by = direct.description();
                self.direct = Some(direct);
                Ok(DirectWrite::Written(TileData::Written(written, by)))
            }
            Err(error @ Error::Stalled { .. }) => {
                // cuFile may still read this memory and write to the file, so neither can be used again.
                std::mem::forget(std::mem::take(&mut self.tiles));
                Err(error)
            }
            // The compressed tiles are still in the pool.
            Err(error) if error.is_library() => Ok(DirectWrite::Failed(error)),
            Err(error) => Err(error),
        }
    }

    fn compress_by_kernel(&mut self, batch: &Batch<'_>) -> Result<()> {
        // The index of the first slot of a run.
        let mut first = 0;
        for (index, run) in batch.runs.iter().enumerate() {
            let (slots_at, slot) = (batch.slots[first as usize], self.pool.slot_bytes[index]);
            match self.job.compress {
                TileCodec::Deflate => self.deflate(run, slots_at, first)?,
                TileCodec::Lzw => self.encode_run(Kernel::LzwEncode, run, (slots_at, slot), &[])?,
                _ => {
                    let row_bytes = Arg::U32(run.row_bytes as u32);
                    self.encode_run(Kernel::PackBitsEncode, run, (slots_at, slot), &[row_bytes])?;
                }
            }
            first += run.tiles * self.job.compress.slots(run.bytes);
        }
        Ok(())
    }

    /// Enqueues a kernel that compresses a run with one group for each tile. The slots begin at `slots_at` in the
    /// pool and have `slot` bytes.
    fn encode_run(
        &mut self,
        kernel: Kernel,
        run: &TileRun,
        (slots_at, slot): (u64, u64),
        more: &[Arg<'_>],
    ) -> Result<()> {
        let mut args = vec![
            Arg::Buffer(self.tiles.get()),
            Arg::U64(run.at),
            Arg::U64(run.stride),
            Arg::U64(run.bytes),
            Arg::Buffer(self.pool.slots.get()),
            Arg::U64(slots_at),
            Arg::U64(slot),
            Arg::Buffer(self.pool.slots.get()),
            Arg::U32(run.first as u32),
        ];
        args.extend(more);
        // SAFETY: the arguments are those of the kernel; the pool has a slot for every tile, and the kernel stops
        // at its end, or a slot has space for every possible result.
        unsafe { self.stream.launch(kernel, run.tiles as u32, &args) }
    }

    /// The caller keeps `arrays` until the stream is synchronised.
    fn compress_by_nvcomp(&mut self, nvcomp: NvCompCodec, batch: &Batch<'_>, arrays: &mut Vec<u64>) -> Result<()> {
        let library = NvComp::get()?;
        let Batch { runs, slots, arrays_at, .. } = batch;
        let (tiles, pool, count) = (self.tiles.get(), self.pool.slots.get(), slots.len() as u64);
        // The arrays that nvCOMP reads: the addresses of tiles, their sizes, and the addresses of the results.
        let places = runs.iter().flat_map(|run| (0..run.tiles).map(|tile| run.at + tile * run.stride));
        arrays.extend(places.map(|at| tiles.handle + at));
        arrays.extend(runs.iter().flat_map(|run| std::iter::repeat_n(run.bytes, run.tiles as usize)));
        arrays.extend(slots.iter().map(|slot| pool.handle + slot + FRAME_ROOM));
        // The arrays that it writes. They start with impossible sizes and statuses, so that a skipped tile is
        // detected.
        arrays.resize(ARRAYS as usize * slots.len(), u64::MAX);
        // SAFETY: the caller keeps the arrays until the stream is synchronised.
        unsafe { self.stream.upload(bytemuck::cast_slice(arrays), pool, *arrays_at)? };
        let array = |n: u64, first: u64| pool.handle + arrays_at + (n * count + first) * 8;
        let largest = self.job.largest_tile();
        for first in (0..count).step_by(self.pool.wave.max(1) as usize) {
            let work = nvcomp::Compress {
                from: array(0, first),
                from_bytes: array(1, first),
                largest,
                to: array(2, first),
                written: array(3, first),
                statuses: array(4, 0) + first * 4,
                count: (count - first).min(self.pool.wave),
                temp: if self.pool.scratch_bytes > 0 { self.pool.scratch.get().handle } else { 0 },
                temp_bytes: self.pool.scratch_bytes,
            };
            // SAFETY: the tiles lie in their buffer, and every slot of the pool is as large as nvCOMP may need.
            unsafe {
                self.stream.library("nvCOMP compress", |stream| {
                    library.compress(nvcomp.codec, nvcomp.algorithm, &work, stream)
                })?
            };
        }
        let args = [
            Arg::Buffer(tiles),
            Arg::Buffer(pool),
            Arg::U64(tiles.handle),
            Arg::U64(pool.handle),
            Arg::U64(*arrays_at),
            Arg::U32(count as u32),
            Arg::U32(nvcomp.codec.frame()),
            Arg::U32(nvcomp.header.into()),
            Arg::U64(self.pool.bound),
            Arg::Buffer(pool),
        ];
        // SAFETY: the arguments are those of the kernel; there is space for a frame around each stream.
        unsafe { self.stream.launch(Kernel::ChunkFrame, count as u32, &args) }
    }

    /// Downloads the words at the start of the pool: the sizes of the compressed tiles, followed by the status
    /// of a check.
    fn words(&mut self, count: u64, memory: &mut Pinned) -> Result<Vec<u32>> {
        let bytes = count as usize * 4;
        if memory.len() < bytes {
            *memory = self.gpu.pin(bytes)?;
        }
        // SAFETY: nothing reads the memory before the stream is synchronised, which happens next.
        unsafe { self.stream.download(self.pool.slots.get(), 0, &mut memory[..bytes])? };
        self.start_ahead()?;
        self.stream.synchronize()?;
        Ok(memory[..bytes].as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect())
    }

    /// Gathers spans of the pool into contiguous memory and copies them to the host. The uncompressed tiles are
    /// no longer needed, so the spans are gathered in their memory. Only if they do not fit there is more than
    /// one copy needed.
    fn download(&mut self, spans: &[[u64; 3]], total: u64, memory: &mut Pinned) -> Result<()> {
        if (memory.len() as u64) < total {
            *memory = room_on_host(&self.gpu, None, total)?;
        }
        self.gather(spans, total, |encoder, part| {
            // SAFETY: nothing reads the memory before the stream is synchronised, which happens next.
            unsafe {
                encoder.stream.download(encoder.tiles.get(), 0, &mut memory[part.start as usize..part.end as usize])
            }
        })
    }

    /// Gathers spans of the pool in the memory of the uncompressed tiles, as many at a time as fit, and calls
    /// `take` with the range of the output that they cover. A span is its offset in the pool, its offset in the
    /// output and its length; the output ends at `end`.
    pub(super) fn gather(
        &mut self,
        spans: &[[u64; 3]],
        end: u64,
        mut take: impl FnMut(&mut TileEncoder, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let room = self.tiles.get().bytes();
        let mut rest = spans;
        while let Some([_, start, _]) = rest.first().copied() {
            let fitting = rest.iter().take_while(|[_, to, len]| to + len - start <= room).count();
            // `make_room` reserved space for the largest possible result of a tile, and `check_sizes` compared
            // the sizes with that.
            assert!(fitting > 0, "a tile fits in the memory of the tiles");
            let (some, others) = rest.split_at(fitting);
            let until = others.first().map_or(end, |[_, to, _]| *to);
            let table: Vec<u64> = some.iter().flat_map(|[from, to, len]| [*from, to - start, *len]).collect();
            let taken = self.gather_once(&table).and_then(|()| take(self, start..until));
            let waited = self.stream.synchronize();
            match taken {
                // cuFile may still read this memory, even after another error.
                Err(error @ Error::Stalled { .. }) => return Err(error),
                taken => waited.and(taken)?,
            }
            rest = others;
        }
        Ok(())
    }

    /// The caller keeps the table until the stream is synchronised.
    fn gather_once(&mut self, table: &[u64]) -> Result<()> {
        let (pool, packed) = (&self.pool, self.tiles.get());
        let args = [Arg::Buffer(pool.spans.get()), Arg::Buffer(pool.slots.get()), Arg::Buffer(packed)];
        // SAFETY: the caller keeps the table. The spans lie in the slots, and their offsets in the output lie
        // in a buffer that has their total size.
        unsafe {
            self.stream.upload(bytemuck::cast_slice(table), pool.spans.get(), 0)?;
            self.stream.launch(Kernel::Gather, (table.len() / 3) as u32, &args)
        }
    }
}
