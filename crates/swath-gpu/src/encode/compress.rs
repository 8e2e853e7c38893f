//! Tiles are compressed where they were cut: into a pool with room for the largest that each may become, whose sizes come to the host,
//! and then, side by side, all of them in one copy.

use std::fmt;
use std::ops::Range;

use swath_codec::{Compress, Shape};

use super::check::Check;
use super::pictures::PictureCodec;
use super::tiles::Made;
use super::{Fetched, TileEncoder, room_on_host};
use crate::backend::Api;
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::Status;
use crate::decode::route::CodecBackend;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Pinned;
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;
use crate::vendor::nvcomp::{self, Chunked, NvComp};
use crate::vendor::{Library, version_of};

/// Compressed tiles and the arrays of nvCOMP begin at multiples of this in the pool.
const POOL_ALIGN: u64 = 16;

/// Working memory of nvCOMP that is worth having, so that a call compresses many tiles: Deflate needs 5 to 34 times a tile for each.
const SCRATCH_BYTES: u64 = 256 << 20;

/// Pieces that a tile is gathered from at most: what stands before it in a COG, itself, what stands behind it.
const SPANS: u64 = 3;

/// The arrays of nvCOMP, each of 64-bit numbers: where tiles lie, their sizes, where they go; what it writes: sizes, and outcomes, which are
/// only half as wide.
const ARRAYS: u64 = 5;

/// Room before and behind what nvCOMP makes of a tile, for what frames it.
const FRAME_ROOM: u64 = 16;

/// How tiles are compressed before they come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TileCodec {
    /// Not at all: that is left to the CPU.
    #[default]
    None,
    /// PackBits, by our kernel.
    PackBits,
    /// By nvCOMP.
    NvComp(NvCompCodec),
    /// By nvJPEG2000 or nvJPEG.
    Picture(PictureCodec),
}

/// What nvCOMP compresses to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvCompCodec {
    codec: Chunked,
    /// Deflate's way to search, from fast to small.
    algorithm: i32,
    /// The two bytes before a stream of Deflate.
    header: u16,
}

impl TileCodec {
    /// What a device can do to compress tiles of this shape, or why not, where it was asked to.
    ///
    /// # Errors
    /// What is missing, in a sentence.
    pub fn new(
        gpu: &Gpu,
        compress: &Compress,
        shape: Shape,
        choice: CodecBackend,
    ) -> std::result::Result<TileCodec, String> {
        let nvcomp = |codec, algorithm, header| TileCodec::NvComp(NvCompCodec { codec, algorithm, header });
        let codec = match *compress {
            Compress::PackBits => return Ok(TileCodec::PackBits),
            Compress::Deflate { level } => {
                let (algorithm, header) = deflate_algorithm(level);
                nvcomp(Chunked::Deflate, algorithm, header)
            }
            Compress::Zstd { .. } => nvcomp(Chunked::Zstd, 0, 0),
            Compress::Lz4 => nvcomp(Chunked::Lz4, 0, 0),
            _ => PictureCodec::new(compress, shape).map_or(TileCodec::None, TileCodec::Picture),
        };
        let usable = match choice {
            CodecBackend::Builtin => return Ok(TileCodec::None),
            _ if codec == TileCodec::None => return Ok(codec),
            _ if gpu.info().api != Api::Cuda => Err(format!("{} is no CUDA device", gpu.info().name)),
            _ => match &codec {
                TileCodec::NvComp(codec) => codec.usable(),
                TileCodec::Picture(codec) => codec.usable(),
                TileCodec::None | TileCodec::PackBits => Ok(()),
            },
        };
        match usable {
            Ok(()) => Ok(codec),
            Err(_) if choice == CodecBackend::Auto => Ok(TileCodec::None),
            Err(missing) => Err(missing),
        }
    }

    /// The fewest rows and columns that a tile may have.
    pub fn least_side(&self) -> u64 {
        match self {
            TileCodec::Picture(codec) => codec.least_side(),
            TileCodec::None | TileCodec::PackBits | TileCodec::NvComp(_) => 1,
        }
    }
}

impl fmt::Display for TileCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TileCodec::None => write!(f, "the CPU"),
            TileCodec::PackBits => write!(f, "kernel {}", Kernel::PackBitsEncode.name()),
            TileCodec::NvComp(_) => write!(f, "{}", version_of(Library::NvComp)),
            TileCodec::Picture(codec) => write!(f, "{}", codec.name()),
        }
    }
}

impl NvCompCodec {
    fn usable(&self) -> std::result::Result<(), String> {
        let library = NvComp::get().map_err(ToString::to_string)?;
        let align = library.compress_alignment(self.codec, self.algorithm).map_err(|error| error.to_string())?;
        let most = align.input.max(align.output);
        match most <= POOL_ALIGN {
            true => Ok(()),
            false => Err(format!("nvCOMP wants tiles at multiples of {most} bytes")),
        }
    }

    /// Bytes of the frame before a stream.
    fn before(&self) -> u64 {
        match self.codec {
            Chunked::Zstd => 0,
            Chunked::Deflate => 2,
            Chunked::Lz4 => 11,
        }
    }

    pub(super) fn is_deflate(&self) -> bool {
        self.codec == Chunked::Deflate
    }

    /// Bytes of the largest tile that this compresses. An LZ4 frame has blocks of 4 MiB at most. Of ZSTD, one sentence of nvCOMP's
    /// header allows 2 GiB, another 16 MB and nothing defined beyond that.
    fn largest(&self) -> u64 {
        match self.codec {
            Chunked::Deflate => i32::MAX as u64,
            Chunked::Zstd => 16 << 20,
            Chunked::Lz4 => (4 << 20) - (64 << 10),
        }
    }
}

/// nvCOMP's way to search for a level of Deflate, and zlib's header for it (RFC 1950: how hard was it tried).
fn deflate_algorithm(level: i32) -> (i32, u16) {
    match level {
        ..=2 => (1, 0x0178),
        3..=5 => (2, 0x5e78),
        6..=8 => (4, 0x9c78),
        _ => (5, 0xda78),
    }
}

/// Tiles of the same size that lie one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) level: usize,
    /// The number of the first, among all tiles.
    pub(super) first: u64,
    pub(super) tiles: u64,
    /// Where the first begins, and from each to the next.
    pub(super) at: u64,
    pub(super) stride: u64,
    pub(super) row_bytes: u64,
    pub(super) bytes: u64,
}

impl Piece {
    /// The number of the one in the middle.
    pub(super) fn middle(&self) -> u64 {
        self.first + self.tiles / 2
    }
}

/// Memory for tiles that are compressed on the device.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The sizes, the arrays of nvCOMP, and a slot for each tile that holds the largest that it may become.
    slots: Slot,
    /// Which piece goes where.
    spans: Slot,
    /// Working memory of nvCOMP.
    scratch: Slot,
    check: Check,
    /// Bytes of each slot, by piece, and tiles that are compressed at a time: what room was made for.
    slot_bytes: Vec<u64>,
    /// Bytes that nvCOMP may make of a tile.
    bound: u64,
    wave: u64,
    scratch_bytes: u64,
}

/// Where sizes, arrays and slots begin in the pool, for so many tiles.
struct Places {
    chunks_at: u64,
    slots_at: u64,
}

impl Places {
    fn new(codec: &TileCodec, count: u64) -> Places {
        let chunks_at = (count * 4).next_multiple_of(POOL_ALIGN);
        let arrays = if matches!(codec, TileCodec::NvComp(_)) { count * ARRAYS * 8 } else { 0 };
        Places { chunks_at, slots_at: (chunks_at + arrays).next_multiple_of(POOL_ALIGN) }
    }
}

fn tiles_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.tiles).sum()
}

impl Pool {
    pub(super) fn clear(&mut self, budget: &mut Budget) {
        [&mut self.slots, &mut self.spans, &mut self.scratch].into_iter().for_each(|slot| slot.clear(budget));
        self.check.clear(budget);
    }

    /// All memory that compressing these tiles needs. Tells what the largest of them may become.
    pub(super) fn make_room(
        &mut self,
        codec: &TileCodec,
        pieces: &[Piece],
        largest: u64,
        gpu: &Gpu,
        stream: &mut Stream,
        budget: &mut Budget,
    ) -> Result<u64> {
        let count = tiles_of(pieces);
        self.plan(codec, pieces, largest)?;
        let mut slots = pieces.iter().zip(&self.slot_bytes).map(|(piece, slot)| piece.tiles.checked_mul(*slot));
        let bytes = slots.try_fold(Places::new(codec, count).slots_at, |sum, bytes| sum.checked_add(bytes?));
        self.slots.room(gpu, "the pool of compressed tiles", bytes, budget)?;
        self.spans.room(gpu, "the table of compressed tiles", Some(count * SPANS * 24), budget)?;
        self.check.make_room(codec, pieces, gpu, budget)?;
        if let TileCodec::NvComp(nvcomp) = codec {
            let tiles = pieces.iter().map(|piece| piece.tiles * piece.stride).sum::<u64>();
            let mut most = SCRATCH_BYTES.min(budget.limit / 4).max(tiles);
            // What there is no memory for is done with less of it, in more calls.
            while self.plan_wave(*nvcomp, largest, most, stream)? > 0 {
                match self.scratch.room(gpu, "working memory of nvCOMP", Some(self.scratch_bytes), budget) {
                    Err(error) if error.is_memory() && self.wave > 1 => most = self.scratch_bytes / 2,
                    made => {
                        made?;
                        break;
                    }
                }
            }
        }
        Ok(self.slot_bytes.iter().copied().max().unwrap_or(0))
    }

    /// How large slots must be. `largest` is the largest tile of the file: what nvCOMP makes of a tile may depend on it, and must not on
    /// which tiles it comes with.
    fn plan(&mut self, codec: &TileCodec, pieces: &[Piece], largest: u64) -> Result<()> {
        (self.wave, self.scratch_bytes) = (tiles_of(pieces), 0);
        self.slot_bytes.clear();
        let TileCodec::NvComp(nvcomp) = codec else {
            // A byte more for every 128 of a row.
            let bound = |piece: &Piece| piece.bytes + piece.bytes / piece.row_bytes * piece.row_bytes.div_ceil(128);
            self.slot_bytes.extend(pieces.iter().map(|piece| bound(piece).next_multiple_of(POOL_ALIGN)));
            return Ok(());
        };
        if largest > nvcomp.largest() {
            let most = nvcomp.largest();
            return Err(failed(format!("tiles of {largest} bytes are larger than the {most} that it is given")));
        }
        self.bound = NvComp::get()?.compress_bound(nvcomp.codec, nvcomp.algorithm, largest)?;
        let slot = (self.bound + 2 * FRAME_ROOM).next_multiple_of(POOL_ALIGN);
        self.slot_bytes.resize(pieces.len(), slot);
        Ok(())
    }

    /// How many tiles are compressed at a time, so that no more than `most` bytes of working memory are needed, if possible. Tells how
    /// many are.
    fn plan_wave(&mut self, nvcomp: NvCompCodec, largest: u64, most: u64, stream: &mut Stream) -> Result<u64> {
        let library = NvComp::get()?;
        loop {
            let total = self.wave.saturating_mul(largest);
            let asked = stream.ask_library(|stream| {
                let (codec, algorithm) = (nvcomp.codec, nvcomp.algorithm);
                // SAFETY: sizes are asked for, and the stream is one of the context that is current.
                let asked = unsafe { library.compress_temp(codec, algorithm, self.wave, largest, total, stream) };
                self.scratch_bytes = asked?;
                Ok(())
            });
            // Some ways to search do not count beyond 2 GiB at a time.
            match asked {
                Ok(()) if self.wave <= 1 || self.scratch_bytes <= most => return Ok(self.scratch_bytes),
                Err(error) if self.wave <= 1 => return Err(error),
                _ => self.wave = self.wave.div_ceil(2),
            }
        }
    }
}

impl TileEncoder {
    /// Compress all tiles, bring their sizes to the host, lay them side by side, and bring them to the host or write them.
    pub(super) fn compress(&mut self, pieces: &[Piece], memory: &mut Pinned) -> Result<Fetched> {
        if let TileCodec::Picture(codec) = self.job.compress {
            return self.make_pictures(codec, pieces, memory);
        }
        let count = tiles_of(pieces);
        let places = Places::new(&self.job.compress, count);
        let mut slots: Vec<u64> = Vec::with_capacity(count as usize);
        let mut at = places.slots_at;
        for (piece, &slot) in pieces.iter().zip(&self.pool.slot_bytes) {
            slots.extend((0..piece.tiles).map(|tile| at + tile * slot));
            at += piece.tiles * slot;
        }
        // The arrays of nvCOMP must not go before they were read.
        let mut arrays = Vec::new();
        let checked = self.pool.check.piece(&self.job.compress, pieces);
        let (made, before) = match self.job.compress {
            TileCodec::NvComp(codec) => {
                let made = self.compress_by_nvcomp(codec, pieces, &slots, &places, &mut arrays);
                (made, FRAME_ROOM - codec.before())
            }
            _ => (self.compress_by_kernel(pieces, &slots), 0),
        };
        let made = made.and_then(|()| match &checked {
            Some(piece) => {
                let (pool, slot) = (&mut self.pool, slots[piece.middle() as usize]);
                let room = pool.slot_bytes.iter().min().map_or(0, |bytes| bytes - before);
                pool.check.enqueue(&pool.slots, piece, (slot + before, room), count * 4, &mut self.stream)
            }
            None => Ok(()),
        });
        let words = made.and_then(|()| self.words(count + u64::from(checked.is_some()), memory));
        if words.is_err() {
            self.stream.synchronize()?;
        }
        let mut sizes = words?;
        let status = checked.and_then(|_| sizes.pop()).map_or(Status::OK, Status);
        let slot_of = pieces.iter().zip(&self.pool.slot_bytes);
        let rooms = slot_of.flat_map(|(piece, &slot)| std::iter::repeat_n(slot - before, piece.tiles as usize));
        if sizes.iter().zip(rooms).any(|(&size, room)| u64::from(size) > room) {
            return Err(failed("it did not compress a tile".to_owned()));
        }
        if let Some(piece) = checked {
            if !status.is_ok() {
                // What it made of the other tiles is not better, nor what it will make.
                self.stop_compressing();
                let (bytes, why) = (piece.bytes, status.reason());
                return Err(failed(format!("a tile of {bytes} bytes is not what it was when it is decoded: {why}")));
            }
            self.pool.check.pass(&piece, sizes[piece.middle() as usize], &mut self.budget);
        }
        slots.iter_mut().for_each(|slot| *slot += before);
        let mut failure = None;
        if let Some(mut direct) = self.direct.take() {
            match self.write(&mut direct, pieces, &slots, &sizes) {
                Ok(written) => {
                    let by = direct.description();
                    self.direct = Some(direct);
                    return Ok((Made::Written(written, by), None));
                }
                Err(error @ Error::Stalled { .. }) => {
                    // Something may still read there, and write to the file: neither can be used any more.
                    std::mem::forget(std::mem::take(&mut self.tiles));
                    return Err(error);
                }
                // They are still in the pool.
                Err(error) if error.is_library() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        let (mut spans, mut total) = (Vec::with_capacity(sizes.len()), 0);
        for (slot, size) in slots.iter().zip(sizes) {
            spans.push([*slot, total, u64::from(size)]);
            total += u64::from(size);
        }
        self.download(&spans, total, memory)?;
        let places = spans.iter().map(|[_, to, len]| *to as usize..(to + len) as usize).collect();
        Ok((Made::Compressed(places), failure))
    }

    fn compress_by_kernel(&mut self, pieces: &[Piece], slots: &[u64]) -> Result<()> {
        for (piece, &slot) in pieces.iter().zip(&self.pool.slot_bytes) {
            let args = [
                Arg::Buffer(self.tiles.get()),
                Arg::U64(piece.at),
                Arg::U64(piece.stride),
                Arg::U64(piece.bytes),
                Arg::Buffer(self.pool.slots.get()),
                Arg::U64(slots[piece.first as usize]),
                Arg::U64(slot),
                Arg::Buffer(self.pool.slots.get()),
                Arg::U32(piece.first as u32),
                Arg::U32(piece.row_bytes as u32),
            ];
            // SAFETY: as everywhere here; the pool has a slot for every tile, and the kernel stops at its end.
            unsafe { self.stream.launch(Kernel::PackBitsEncode, piece.tiles as u32, &args)? };
        }
        Ok(())
    }

    /// `arrays` live until the stream is synchronised.
    fn compress_by_nvcomp(
        &mut self,
        nvcomp: NvCompCodec,
        pieces: &[Piece],
        slots: &[u64],
        at: &Places,
        arrays: &mut Vec<u64>,
    ) -> Result<()> {
        let library = NvComp::get()?;
        let (tiles, pool, count) = (self.tiles.get(), self.pool.slots.get(), slots.len() as u64);
        // The arrays that nvCOMP reads: where tiles lie, their sizes, where they go.
        let places = pieces.iter().flat_map(|piece| (0..piece.tiles).map(|tile| piece.at + tile * piece.stride));
        arrays.extend(places.map(|at| tiles.handle + at));
        arrays.extend(pieces.iter().flat_map(|piece| std::iter::repeat_n(piece.bytes, piece.tiles as usize)));
        arrays.extend(slots.iter().map(|slot| pool.handle + slot + FRAME_ROOM));
        // And what it writes, so that what it does not write is seen: sizes and outcomes that there are not.
        arrays.resize(ARRAYS as usize * slots.len(), u64::MAX);
        // SAFETY: the caller keeps the arrays until the stream is synchronised.
        unsafe { self.stream.upload(bytemuck::cast_slice(arrays), pool, at.chunks_at)? };
        let array = |n: u64, first: u64| pool.handle + at.chunks_at + (n * count + first) * 8;
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
            // SAFETY: the tiles lie in their buffer, and every slot of the pool holds as much as nvCOMP said that it may need.
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
            Arg::U64(at.chunks_at),
            Arg::U32(count as u32),
            Arg::U32(nvcomp.codec.frame()),
            Arg::U32(nvcomp.header.into()),
            Arg::U64(self.pool.bound),
            Arg::Buffer(pool),
        ];
        // SAFETY: as everywhere here; there is room for a frame around each stream.
        unsafe { self.stream.launch(Kernel::ChunkFrame, count as u32, &args) }
    }

    /// The words at the beginning of the pool: the sizes of the compressed tiles, in the order of the tiles, and what is behind them.
    fn words(&mut self, count: u64, memory: &mut Pinned) -> Result<Vec<u32>> {
        let bytes = count as usize * 4;
        if memory.len() < bytes {
            *memory = self.gpu.pin(bytes)?;
        }
        // SAFETY: nobody looks at the memory before the stream is synchronised, which is the next thing to happen.
        unsafe { self.stream.download(self.pool.slots.get(), 0, &mut memory[..bytes])? };
        self.stream.synchronize()?;
        Ok(memory[..bytes].as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect())
    }

    /// Lay pieces of the pool side by side and bring them to the host. The tiles as they were cut are not needed any more, so that
    /// they are gathered there; only if they grew that much that they do not fit it takes more than one copy.
    fn download(&mut self, spans: &[[u64; 3]], total: u64, memory: &mut Pinned) -> Result<()> {
        if (memory.len() as u64) < total {
            *memory = room_on_host(&self.gpu, None, total)?;
        }
        self.gather(spans, total, |cutting, part| {
            // SAFETY: nobody looks at the memory before the stream is synchronised, which is the next thing to happen.
            unsafe {
                cutting.stream.download(cutting.tiles.get(), 0, &mut memory[part.start as usize..part.end as usize])
            }
        })
    }

    /// Lay pieces of the pool side by side where the tiles were, as many at a time as fit there, and let `take` have what is to be at
    /// those places: spans are where each piece comes from, where it goes and its length, and all of them end at `end`.
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
            // Room was made for the largest that any may become, and all were compared with that.
            assert!(fitting > 0, "a tile fits where the tiles were");
            let (some, others) = rest.split_at(fitting);
            let until = others.first().map_or(end, |[_, to, _]| *to);
            let table: Vec<u64> = some.iter().flat_map(|[from, to, len]| [*from, to - start, *len]).collect();
            let taken = self.gather_once(&table).and_then(|()| take(self, start..until));
            let waited = self.stream.synchronize();
            match taken {
                // Whatever else is wrong, something may still read there.
                Err(error @ Error::Stalled { .. }) => return Err(error),
                taken => waited.and(taken)?,
            }
            rest = others;
        }
        Ok(())
    }

    /// The table lives until the stream is synchronised.
    fn gather_once(&mut self, table: &[u64]) -> Result<()> {
        let (pool, packed) = (&self.pool, self.tiles.get());
        let args = [Arg::Buffer(pool.spans.get()), Arg::Buffer(pool.slots.get()), Arg::Buffer(packed)];
        // SAFETY: the caller keeps the table; the spans lie in the slots that the sizes were made in, and side by side in a buffer that
        // holds their sum.
        unsafe {
            self.stream.upload(bytemuck::cast_slice(table), pool.spans.get(), 0)?;
            self.stream.launch(Kernel::Gather, (table.len() / 3) as u32, &args)
        }
    }
}

fn failed(what: String) -> Error {
    Error::Library { library: Library::NvComp, call: "compress", code: what }
}
