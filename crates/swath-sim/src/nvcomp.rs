//! nvCOMP: its batched interface for Deflate, ZSTD and LZ4, as versions 5 and 6 declare it.
//!
//! Calls refuse the same arguments that the real library refuses before it needs a device, with its codes and
//! in its order. The rest is work for a stream (`run`), which CPU libraries do. One library simulates both
//! versions. An environment variable selects the version, and the functions of the other version refuse to
//! work, because a caller that mixes them up passes wrong arguments.

mod run;
mod size;

use std::ffi::{c_char, c_int, c_void};

use self::run::{Batch, Task};
use self::size::{Alignments, Codec, Compression, Decompression, Options};
use crate::code::Code;
use crate::cudart;
use crate::driver::give;
use crate::event::record;
use crate::fail;
use crate::sim::{Sim, in_context};

/// A `nvcompStatus_t`.
type Status = c_int;

const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 10;
const NOT_SUPPORTED: Status = 11;
const CANNOT_DECOMPRESS: Status = 12;
const MISALIGNED: Status = 17;
const CHUNK_TOO_LARGE: Status = 18;
const CANNOT_COMPRESS: Status = 19;
const BATCH_TOO_LARGE: Status = 21;
const CUDA_ERROR: Status = 1000;
const INTERNAL: Status = 10_000;

/// The version, and the CUDA runtime for which the library was built.
#[derive(Debug)]
#[repr(C)]
struct Properties {
    version: u32,
    cudart: u32,
}

fn version() -> u32 {
    u32::try_from(fail::number("SWATH_SIM_NVCOMP", 6000)).unwrap_or(0)
}

fn answer(done: Result<(), Status>) -> Status {
    done.map_or_else(|status| status, |()| SUCCESS)
}

/// Checks that the selected version declares a function as it is declared here.
fn declared(call: &str, majors: &[u32]) -> Result<(), Status> {
    let version = version();
    if majors.contains(&(version / 1000)) {
        return Ok(());
    }
    eprintln!("swath-sim: {call} was called, but nvCOMP {version} does not declare it with these arguments");
    Err(INVALID_VALUE)
}

/// Writes a result to the caller's pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn tell<T>(to: *mut T, value: T) -> Result<(), Status> {
    // SAFETY: guaranteed by the caller.
    unsafe { give(to, value) }.map_err(|_| INVALID_VALUE)
}

// Callers of the C interface pass every function below the pointers that nvCOMP's headers require: null, or
// valid for the write. Each comment `SAFETY: by the headers` refers to this. Addresses of device memory are
// checked before they are used.

#[unsafe(no_mangle)]
unsafe extern "C" fn nvcompGetProperties(properties: *mut Properties) -> Status {
    // SAFETY: by the headers.
    answer(unsafe { tell(properties, Properties { version: version(), cudart: cudart::version() }) })
}

#[unsafe(no_mangle)]
extern "C" fn nvcompGetStatusString(status: Status) -> *const c_char {
    let text = match status {
        SUCCESS => c"simulated: success",
        INVALID_VALUE => c"simulated: an invalid value",
        NOT_SUPPORTED => c"simulated: not supported",
        CANNOT_DECOMPRESS => c"simulated: cannot decompress",
        MISALIGNED => c"simulated: misaligned",
        CHUNK_TOO_LARGE => c"simulated: a chunk is too large",
        CANNOT_COMPRESS => c"simulated: cannot compress",
        BATCH_TOO_LARGE => c"simulated: too many chunks",
        CUDA_ERROR => c"simulated: an error of CUDA",
        INTERNAL => c"simulated: an internal error",
        _ => c"simulated: no such status",
    };
    text.as_ptr()
}

/// The arguments of a request for the size of temporary memory.
struct TempQuery {
    count: usize,
    chunk: usize,
    total: usize,
    options: Options,
    to: *mut usize,
}

/// # Safety
/// The pointer is null or valid for a write.
unsafe fn compress_temp(call: &str, major: u32, codec: Codec, query: TempQuery) -> Result<(), Status> {
    declared(call, &[major])?;
    let how = Compression::new(codec, query.options)?;
    how.chunk(query.chunk)?;
    if codec == Codec::Zstd {
        // The real library queries the device for the size.
        in_context(|_, _| Ok(())).map_err(|code| failed(call, code))?;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { tell_temp(query.to, how.temp(query.count, query.chunk)?) }
}

/// # Safety
/// The pointer is null or valid for a write.
unsafe fn decompress_temp(call: &str, major: u32, codec: Codec, query: TempQuery) -> Result<(), Status> {
    declared(call, &[major])?;
    let how = Decompression::new(codec, query.options)?;
    how.chunk(query.chunk)?;
    // SAFETY: guaranteed by the caller.
    unsafe { tell_temp(query.to, how.temp(query.count, query.total)?) }
}

/// # Safety
/// The pointer is null or valid for a write.
unsafe fn tell_temp(to: *mut usize, bytes: usize) -> Result<(), Status> {
    if fail::now("nvcomp-temp") {
        return Err(CUDA_ERROR);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { tell(to, bytes) }
}

/// Prints the error of CUDA for a call.
fn failed(call: &str, Code(code): Code) -> Status {
    eprintln!("swath-sim: {call} failed because CUDA has no context or stream for it (code {code})");
    CUDA_ERROR
}

/// Adds a batch to a stream.
fn enqueue(batch: Batch, stream: *mut c_void) -> Result<(), Status> {
    let Batch { call, count, .. } = batch;
    let rooms = match batch.task {
        Task::Compress(..) => None,
        Task::Decompress(_, rooms) => Some(rooms),
    };
    let statuses = batch.statuses;
    let arrays = [batch.inputs, batch.input_bytes, batch.outputs, batch.output_bytes];
    let arrays = || arrays.into_iter().chain(rooms);
    if arrays().any(|at| at == 0) || (rooms.is_some() && statuses == 0) || (batch.temp == 0 && batch.temp_bytes > 0) {
        return Err(INVALID_VALUE);
    }
    let temp = batch.alignments().temp as u64;
    if arrays().any(|at| !at.is_multiple_of(8)) || !statuses.is_multiple_of(4) || !batch.temp.is_multiple_of(temp) {
        return Err(MISALIGNED);
    }
    match batch.task {
        Task::Compress(how, most) => how.chunk(most)?,
        Task::Decompress(how, _) if how.hardware => return Err(NOT_SUPPORTED),
        Task::Decompress(..) => {}
    }
    if count > i32::MAX as usize {
        return Err(BATCH_TOO_LARGE);
    }
    if fail::now("nvcomp") {
        return Err(INTERNAL);
    }
    record(format!("{call} {count}"));
    crate::timeline::compute(call, stream as usize, count as u64);
    if fail::now("nvcomp-idle") || count == 0 {
        return Ok(());
    }
    let work = move |sim: &mut Sim, device| batch.run(sim, device);
    in_context(|sim, device| sim.later(device, stream as usize, Box::new(work))).map_err(|code| failed(call, code))
}

macro_rules! codec {
    (
        $codec:expr, $compress_alignments:ident, $decompress_alignments:ident, $max_output:ident,
        $compress_temp:ident, $decompress_temp:ident, $compress_temp_5:ident, $decompress_temp_5:ident,
        $compress:ident, $decompress:ident
    ) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $compress_alignments(options: Options, to: *mut Alignments) -> Status {
            let known = declared(stringify!($compress_alignments), &[5, 6]);
            let how = known.and_then(|()| Compression::new($codec, options));
            // SAFETY: by the headers.
            answer(how.and_then(|how| unsafe { tell(to, how.alignments()) }))
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $decompress_alignments(options: Options, to: *mut Alignments) -> Status {
            let known = declared(stringify!($decompress_alignments), &[5, 6]);
            let how = known.and_then(|()| Decompression::new($codec, options));
            // SAFETY: by the headers.
            answer(how.and_then(|how| unsafe { tell(to, how.alignments()) }))
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $max_output(chunk: usize, options: Options, to: *mut usize) -> Status {
            let known = declared(stringify!($max_output), &[5, 6]);
            let most = known.and_then(|()| Compression::new($codec, options)?.max_output(chunk));
            // SAFETY: by the headers.
            answer(most.and_then(|most| unsafe { tell(to, most) }))
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $compress_temp(
            count: usize,
            chunk: usize,
            options: Options,
            to: *mut usize,
            total: usize,
            _stream: *mut c_void,
        ) -> Status {
            let query = TempQuery { count, chunk, total, options, to };
            // SAFETY: by the headers.
            answer(unsafe { compress_temp(stringify!($compress_temp), 6, $codec, query) })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $decompress_temp(
            count: usize,
            chunk: usize,
            options: Options,
            to: *mut usize,
            total: usize,
            _stream: *mut c_void,
        ) -> Status {
            let query = TempQuery { count, chunk, total, options, to };
            // SAFETY: by the headers.
            answer(unsafe { decompress_temp(stringify!($decompress_temp), 6, $codec, query) })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $compress_temp_5(
            count: usize,
            chunk: usize,
            options: Options,
            to: *mut usize,
            total: usize,
        ) -> Status {
            let query = TempQuery { count, chunk, total, options, to };
            // SAFETY: by the headers.
            answer(unsafe { compress_temp(stringify!($compress_temp_5), 5, $codec, query) })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $decompress_temp_5(
            count: usize,
            chunk: usize,
            options: Options,
            to: *mut usize,
            total: usize,
        ) -> Status {
            let query = TempQuery { count, chunk, total, options, to };
            // SAFETY: by the headers.
            answer(unsafe { decompress_temp(stringify!($decompress_temp_5), 5, $codec, query) })
        }

        #[unsafe(no_mangle)]
        extern "C" fn $compress(
            inputs: u64,
            input_bytes: u64,
            most: usize,
            count: usize,
            temp: u64,
            temp_bytes: usize,
            outputs: u64,
            output_bytes: u64,
            options: Options,
            statuses: u64,
            stream: *mut c_void,
        ) -> Status {
            let call = stringify!($compress);
            let how = declared(call, &[5, 6]).and_then(|()| Compression::new($codec, options));
            answer(how.and_then(|how| {
                let task = Task::Compress(how, most);
                let batch =
                    Batch { call, task, count, inputs, input_bytes, outputs, output_bytes, statuses, temp, temp_bytes };
                enqueue(batch, stream)
            }))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $decompress(
            inputs: u64,
            input_bytes: u64,
            rooms: u64,
            output_bytes: u64,
            count: usize,
            temp: u64,
            temp_bytes: usize,
            outputs: u64,
            options: Options,
            statuses: u64,
            stream: *mut c_void,
        ) -> Status {
            let call = stringify!($decompress);
            let how = declared(call, &[5, 6]).and_then(|()| Decompression::new($codec, options));
            answer(how.and_then(|how| {
                let task = Task::Decompress(how, rooms);
                let batch =
                    Batch { call, task, count, inputs, input_bytes, outputs, output_bytes, statuses, temp, temp_bytes };
                enqueue(batch, stream)
            }))
        }
    };
}

codec!(
    Codec::Deflate,
    nvcompBatchedDeflateCompressGetRequiredAlignments,
    nvcompBatchedDeflateDecompressGetRequiredAlignments,
    nvcompBatchedDeflateCompressGetMaxOutputChunkSize,
    nvcompBatchedDeflateCompressGetTempSize,
    nvcompBatchedDeflateDecompressGetTempSize,
    nvcompBatchedDeflateCompressGetTempSizeAsync,
    nvcompBatchedDeflateDecompressGetTempSizeAsync,
    nvcompBatchedDeflateCompressAsync,
    nvcompBatchedDeflateDecompressAsync
);
codec!(
    Codec::Zstd,
    nvcompBatchedZstdCompressGetRequiredAlignments,
    nvcompBatchedZstdDecompressGetRequiredAlignments,
    nvcompBatchedZstdCompressGetMaxOutputChunkSize,
    nvcompBatchedZstdCompressGetTempSize,
    nvcompBatchedZstdDecompressGetTempSize,
    nvcompBatchedZstdCompressGetTempSizeAsync,
    nvcompBatchedZstdDecompressGetTempSizeAsync,
    nvcompBatchedZstdCompressAsync,
    nvcompBatchedZstdDecompressAsync
);
codec!(
    Codec::Lz4,
    nvcompBatchedLZ4CompressGetRequiredAlignments,
    nvcompBatchedLZ4DecompressGetRequiredAlignments,
    nvcompBatchedLZ4CompressGetMaxOutputChunkSize,
    nvcompBatchedLZ4CompressGetTempSize,
    nvcompBatchedLZ4DecompressGetTempSize,
    nvcompBatchedLZ4CompressGetTempSizeAsync,
    nvcompBatchedLZ4DecompressGetTempSizeAsync,
    nvcompBatchedLZ4CompressAsync,
    nvcompBatchedLZ4DecompressAsync
);
