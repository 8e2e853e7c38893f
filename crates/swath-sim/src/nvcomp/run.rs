//! Executes a batch when its stream reaches it.
//!
//! Only then does a device read the arrays and the chunks, and it has no information about their validity.
//! Every access that is not allowed kills the context; real hardware does the same at best.

use std::ops::Range;
use std::ptr;

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use lz4_flex::block::DecompressError;

use super::size::{Alignments, Codec, Compression, Decompression};
use super::{CANNOT_COMPRESS, CANNOT_DECOMPRESS, SUCCESS, Status};
use crate::code::{Code, Done};
use crate::fail;
use crate::memory::POISON;
use crate::sim::Sim;

/// The largest chunk that may be compressed to ZSTD.
const ZSTD_MOST: usize = 16 << 20;

/// The operation on the chunks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    /// Compress chunks of at most this many bytes.
    Compress(Compression, usize),
    /// Decompress, with an array of the buffer size of each chunk.
    Decompress(Decompression, u64),
}

/// A call: addresses of arrays on the device, with one entry per chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// The name of the function, for messages.
    pub(super) call: &'static str,
    pub(super) task: Task,
    pub(super) count: usize,
    pub(super) inputs: u64,
    pub(super) input_bytes: u64,
    pub(super) outputs: u64,
    pub(super) output_bytes: u64,
    /// Null if the caller does not need statuses.
    pub(super) statuses: u64,
    pub(super) temp: u64,
    pub(super) temp_bytes: usize,
}

/// A chunk in live memory of the device.
#[derive(Debug)]
struct Chunk {
    input: Range<usize>,
    /// All bytes that may be written.
    room: Range<usize>,
}

/// The result of a chunk.
enum Outcome {
    Bytes(Vec<u8>),
    /// The output exceeds its buffer.
    TooLarge,
    Corrupt,
}

impl Batch {
    pub(super) fn run(&self, sim: &mut Sim, device: i32) -> Done {
        let memory = Memory { sim, device, call: self.call };
        let arrays = self.arrays(&memory)?;
        let chunks = self.chunks(&memory)?;
        let temp = self.temp(&memory, &chunks)?;
        self.apart(arrays, &chunks, &temp)?;

        // A real library stores its own data there.
        poison(&temp);
        for (index, chunk) in chunks.iter().enumerate() {
            let (status, bytes) = match self.task {
                Task::Compress(how, _) => compress(how, chunk),
                Task::Decompress(how, _) => decompress(how.codec, chunk),
            };
            // SAFETY: `arrays` checked that both arrays are in live memory with an entry for each chunk, and
            // that their addresses are multiples of the size of an entry.
            unsafe {
                (self.output_bytes as *mut u64).add(index).write(bytes as u64);
                if self.statuses != 0 {
                    (self.statuses as *mut Status).add(index).write(status);
                }
            }
        }
        Ok(())
    }

    /// Returns the location of each array, and whether it is written.
    fn arrays(&self, memory: &Memory<'_>) -> Done<Vec<(Range<usize>, bool)>> {
        let rooms = match self.task {
            Task::Compress(..) => None,
            Task::Decompress(_, rooms) => Some((rooms, "the array of rooms", 8, false)),
        };
        let statuses = (self.statuses != 0).then_some((self.statuses, "the array of statuses", 4, true));
        let always = [
            (self.inputs, "the array of inputs", 8, false),
            (self.input_bytes, "the array of input sizes", 8, false),
            (self.outputs, "the array of outputs", 8, false),
            (self.output_bytes, "the array of output sizes", 8, true),
        ];
        let all = always.into_iter().chain(rooms).chain(statuses);
        all.map(|(at, what, width, written)| {
            let bytes = self.count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
            Ok((memory.range(at, bytes, what)?, written))
        })
        .collect()
    }

    /// Returns the chunks after checking each. `arrays` must have been called before.
    fn chunks(&self, memory: &Memory<'_>) -> Done<Vec<Chunk>> {
        // SAFETY: `arrays` checked that the array is in live memory, and that its address is a multiple of 8.
        let entry = |array: u64, index: usize| unsafe { (array as *const u64).add(index).read() };
        let aligned = self.alignments();
        (0..self.count)
            .map(|index| {
                let bytes = entry(self.input_bytes, index) as usize;
                let (room, fits) = match self.task {
                    Task::Compress(how, most) => (how.max_output(most), bytes <= most),
                    Task::Decompress(how, rooms) => {
                        let room = entry(rooms, index) as usize;
                        (Ok(room), how.chunk(bytes).and(how.chunk(room)).is_ok())
                    }
                };
                // The header requires this, although the calls have a different limit. The behaviour for larger
                // chunks is unknown.
                let fits = fits && !(matches!(self.task, Task::Compress(Compression::Zstd, _)) && bytes > ZSTD_MOST);
                let room = room.ok().filter(|_| fits);
                let room =
                    room.ok_or_else(|| memory.bad(&format!("chunk {index} is too large: it has {bytes} bytes")))?;
                let (input, output) = (entry(self.inputs, index), entry(self.outputs, index));
                memory.aligned(input, aligned.input, index, "input")?;
                memory.aligned(output, aligned.output, index, "output")?;
                Ok(Chunk {
                    input: memory.range(input, bytes, &format!("the input of chunk {index}"))?,
                    room: memory.range(output, room, &format!("the output of chunk {index}"))?,
                })
            })
            .collect()
    }

    pub(super) fn alignments(&self) -> Alignments {
        match self.task {
            Task::Compress(how, _) => how.alignments(),
            Task::Decompress(how, _) => how.alignments(),
        }
    }

    /// Returns the temporary memory, if it is as large as the library requires.
    fn temp(&self, memory: &Memory<'_>, chunks: &[Chunk]) -> Done<Range<usize>> {
        let needed = match self.task {
            Task::Compress(how, most) => how.temp(self.count, most),
            Task::Decompress(how, _) => how.temp(self.count, chunks.iter().map(|chunk| chunk.room.len()).sum()),
        };
        let needed = needed.map_err(|_| Code::INVALID_VALUE)?;
        if self.temp_bytes < needed {
            return Err(memory.bad(&format!("{} bytes of temporary memory, but {needed} are needed", self.temp_bytes)));
        }
        memory.range(self.temp, self.temp_bytes, "the temporary memory")
    }

    /// Checks that written memory does not overlap with anything else, because chunks are processed in
    /// parallel.
    fn apart(&self, arrays: Vec<(Range<usize>, bool)>, chunks: &[Chunk], temp: &Range<usize>) -> Done {
        let mut all = arrays;
        all.push((temp.clone(), true));
        all.extend(chunks.iter().flat_map(|chunk| [(chunk.input.clone(), false), (chunk.room.clone(), true)]));
        all.retain(|(range, _)| !range.is_empty());
        all.sort_by_key(|(range, _)| range.start);
        // The end of everything that starts earlier, and the end of everything earlier that is written.
        let (mut touched, mut written) = (0, 0);
        for (range, writes) in all {
            if range.start < written || (writes && range.start < touched) {
                eprintln!("swath-sim: {}: what is written overlaps something else at {:#x}", self.call, range.start);
                return Err(Code::ILLEGAL_ADDRESS);
            }
            touched = touched.max(range.end);
            if writes {
                written = written.max(range.end);
            }
        }
        Ok(())
    }
}

/// The memory of a device, for a call.
struct Memory<'a> {
    sim: &'a Sim,
    device: i32,
    call: &'static str,
}

impl Memory<'_> {
    fn bad(&self, what: &str) -> Code {
        eprintln!("swath-sim: {}: {what}", self.call);
        Code::ILLEGAL_ADDRESS
    }

    /// Returns a range that must lie in live memory. The address of an empty range does not matter.
    fn range(&self, at: u64, bytes: usize, what: &str) -> Done<Range<usize>> {
        if bytes == 0 {
            return Ok(0..0);
        }
        let found = self.sim.memory.at_work(self.device, at, bytes).ok();
        found.ok_or_else(|| self.bad(&format!("{what}, {bytes} bytes at {at:#x}, is not in live device memory")))
    }

    fn aligned(&self, at: u64, to: usize, index: usize, what: &str) -> Done {
        if at.is_multiple_of(to as u64) {
            return Ok(());
        }
        self.bad(&format!("the {what} of chunk {index} is at {at:#x}, which is not a multiple of {to}"));
        Err(Code::MISALIGNED_ADDRESS)
    }
}

/// Decompresses a chunk and returns its status and the size that it reports.
fn decompress(codec: Codec, chunk: &Chunk) -> (Status, usize) {
    // Each failure point counts every chunk, so all are evaluated.
    let (bad, small, large) = (fail::now("chunk"), fail::now("chunk-size"), fail::now("chunk-large"));
    let outcome = if bad { Outcome::TooLarge } else { decode(codec, input(chunk), chunk.room.len()) };
    match outcome {
        Outcome::Bytes(bytes) => {
            put(&chunk.room, &bytes);
            (SUCCESS, (bytes.len() + usize::from(large)).saturating_sub(small.into()))
        }
        Outcome::Corrupt if std::env::var("SWATH_SIM_NVCOMP_CORRUPT").is_ok_and(|how| how == "silent") => {
            put(&chunk.room, &(0..chunk.room.len()).map(garbage).collect::<Vec<u8>>());
            (SUCCESS, chunk.room.len())
        }
        Outcome::TooLarge | Outcome::Corrupt => {
            poison(&chunk.room);
            (CANNOT_DECOMPRESS, 0)
        }
    }
}

fn decode(codec: Codec, input: &[u8], room: usize) -> Outcome {
    let mut bytes = vec![0; room];
    let length = match codec {
        Codec::Deflate => Decompressor::new().deflate_decompress(input, &mut bytes).map_err(|error| match error {
            DecompressionError::InsufficientSpace => Outcome::TooLarge,
            DecompressionError::BadData => Outcome::Corrupt,
        }),
        // Exactly one frame, with nothing after it.
        Codec::Zstd if zstd_safe::find_frame_compressed_size(input) != Ok(input.len()) => Err(Outcome::Corrupt),
        Codec::Zstd => {
            zstd_safe::decompress(&mut bytes[..], input).map_err(|code| match zstd_safe::get_error_name(code) {
                "Destination buffer is too small" => Outcome::TooLarge,
                _ => Outcome::Corrupt,
            })
        }
        Codec::Lz4 => lz4_flex::block::decompress_into(input, &mut bytes).map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } => Outcome::TooLarge,
            _ => Outcome::Corrupt,
        }),
    };
    match length {
        Ok(length) => {
            bytes.truncate(length);
            Outcome::Bytes(bytes)
        }
        Err(outcome) => outcome,
    }
}

/// Compresses a chunk and returns its status and its size.
fn compress(how: Compression, chunk: &Chunk) -> (Status, usize) {
    let (bad, large) = (fail::now("compress-chunk"), fail::now("compress-large"));
    let wrong = fail::now("compress-wrong");
    match encode(how, input(chunk)).filter(|bytes| bytes.len() <= chunk.room.len() && !bad) {
        Some(mut bytes) => {
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle).filter(|_| wrong) {
                *byte ^= 0x55;
            }
            put(&chunk.room, &bytes);
            // A size larger than the buffer.
            (SUCCESS, if large { chunk.room.len() + 1 } else { bytes.len() })
        }
        None => {
            poison(&chunk.room);
            (CANNOT_COMPRESS, 0)
        }
    }
}

fn encode(how: Compression, input: &[u8]) -> Option<Vec<u8>> {
    match how {
        Compression::Deflate(algorithm) => {
            let level = match algorithm {
                0 | 1 => 1,
                2 | 3 => 3,
                4 => 6,
                _ => 9,
            };
            let mut compressor = Compressor::new(CompressionLvl::new(level).ok()?);
            let mut bytes = vec![0; compressor.deflate_compress_bound(input.len())];
            let length = compressor.deflate_compress(input, &mut bytes).ok()?;
            bytes.truncate(length);
            Some(bytes)
        }
        Compression::Zstd => {
            let mut bytes = vec![0; zstd_safe::compress_bound(input.len())];
            let length = zstd_safe::compress(&mut bytes[..], input, 3).ok()?;
            bytes.truncate(length);
            Some(bytes)
        }
        Compression::Lz4(_) => Some(lz4_flex::block::compress(input)),
    }
}

fn input(chunk: &Chunk) -> &[u8] {
    if chunk.input.is_empty() {
        return &[];
    }
    // SAFETY: the range lies in live device memory, which stays alive while the driver is locked, and `apart`
    // checked that the batch does not write there.
    unsafe { std::slice::from_raw_parts(chunk.input.start as *const u8, chunk.input.len()) }
}

/// Returns a byte of garbage, as a decoder might produce.
fn garbage(index: usize) -> u8 {
    (index.wrapping_mul(0x9E37_79B1) >> 11) as u8
}

/// Writes bytes to the start of a range.
fn put(range: &Range<usize>, bytes: &[u8]) {
    let length = bytes.len().min(range.len());
    if length == 0 {
        return;
    }
    // SAFETY: the range lies in live device memory, which stays alive while the driver is locked, and nothing
    // borrows it: `apart` checked that it does not overlap with the rest of the batch. The caller owns the
    // bytes.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), range.start as *mut u8, length) };
}

/// Overwrites the whole range with poison.
fn poison(range: &Range<usize>) {
    if !range.is_empty() {
        // SAFETY: as for `put`.
        unsafe { ptr::write_bytes(range.start as *mut u8, POISON, range.len()) };
    }
}
