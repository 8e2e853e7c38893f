//! Blocks that are pictures, decoded by nvJPEG2000 and nvJPEG: all of a batch into one pool, and nobody waits for any of them before
//! the whole batch is waited for.
//!
//! Both libraries take compressed bytes from the host. Whether a block holds the picture that the file announces is looked at before,
//! so that nothing is written beside its place; what does not, and what a library refuses, gets a status like any bad block.

use swath_codec::{SampleFormat, Shape, jpeg2000};

use super::interchange::splice;
use crate::decode::block::{Block, Status};
use crate::decode::job::DecodeJob;
use crate::decode::route::Route;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Buffer;
use crate::stream::Stream;
use crate::vendor::context::InContext;
use crate::vendor::nvjpeg::{self, NvJpeg, Output, Planes, Subsampling};
use crate::vendor::nvjpeg2k::{self, Codestream, NvJpeg2000, Picture, PixelType};

/// What a lane keeps of the libraries from batch to batch. Nothing of it is touched between the start of a batch and its end.
#[derive(Debug)]
pub(super) struct Pictures {
    jpeg2000: InContext<Option<Jpeg2000>>,
    jpeg: InContext<Option<Jpeg>>,
    /// What a library said first when it failed at a picture of this batch.
    failure: Option<Error>,
}

/// nvJPEG2000 decodes one picture with one state at a time.
#[derive(Debug)]
struct Jpeg2000 {
    decoder: nvjpeg2k::Decoder,
    states: Vec<(nvjpeg2k::DecodeState, Codestream)>,
}

/// nvJPEG decodes a batch with one state.
#[derive(Debug)]
struct Jpeg {
    handle: nvjpeg::Handle,
    state: nvjpeg::DecodeState,
    /// Complete streams of the blocks, which stay until they are decoded.
    streams: Vec<Vec<u8>>,
}

impl Pictures {
    pub(super) fn new(gpu: &Gpu) -> Pictures {
        Pictures { jpeg2000: InContext::new(gpu, None), jpeg: InContext::new(gpu, None), failure: None }
    }

    /// Give back the memory of the libraries. Nothing may be using it.
    pub(super) fn clear(&mut self) {
        self.jpeg2000.clear();
        self.jpeg.clear();
    }

    /// What a library said when it failed at a picture of the last batch.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Let the stream decode all blocks into their places of `decoded`; `bytes` is what the blocks count from, and stays until the stream
    /// was waited for. Tells the statuses of the blocks.
    pub(super) fn decode(
        &mut self,
        job: &DecodeJob,
        blocks: &[Block],
        bytes: &[u8],
        decoded: &Buffer,
        stream: &mut Stream,
    ) -> Result<Vec<u32>> {
        assert!(blocks.len() <= job.most_blocks(), "a batch has no more blocks than there are states");
        let mut statuses = vec![Status::OK; blocks.len()];
        self.failure = None;
        let mut refused = |error: Error| match error.is_library() {
            // It is about one picture, and the CPU may take that.
            true => {
                self.failure.get_or_insert(error);
                Ok(Status::REFUSED)
            }
            false => Err(error),
        };
        match job.route {
            Route::NvJpeg2000(pixel) => {
                let library = Jpeg2000::with(&mut self.jpeg2000, blocks.len(), stream)?;
                for (at, (block, status)) in blocks.iter().zip(&mut statuses).enumerate() {
                    if block.flags & Block::SPARSE == 0 {
                        let begun = library.decode(at, job, pixel, block, bytes, decoded, stream);
                        *status = begun.or_else(&mut refused)?;
                    }
                }
            }
            _ => {
                let library = Jpeg::with(&mut self.jpeg, stream)?;
                library.decode(job, blocks, bytes, decoded, stream, &mut statuses, refused)?;
            }
        }
        Ok(statuses.iter().map(|status| status.0).collect())
    }
}

/// The pixels of a block.
fn shape(job: &DecodeJob, block: &Block) -> Shape {
    let row = job.pixel_row_bytes().max(1);
    let format = match job.route {
        Route::NvJpeg2000(pixel) => pixel.format(),
        _ => SampleFormat::Uint,
    };
    Shape {
        width: job.width as usize,
        height: (u64::from(block.dst_len) / row) as usize,
        samples: job.samples as usize,
        bits: job.bits as usize,
        format,
    }
}

/// The compressed bytes of a block.
fn compressed<'a>(block: &Block, bytes: &'a [u8]) -> &'a [u8] {
    // `check` has seen that it lies in the payload.
    &bytes[block.src as usize..][..block.src_len as usize]
}

/// Where each component of a block goes.
fn planes<'a>(job: &'a DecodeJob, block: &Block, decoded: &Buffer) -> impl Iterator<Item = u64> + use<'a> {
    let (at, plane) = (decoded.handle() + block.dst, u64::from(block.dst_len / job.samples));
    (0..u64::from(job.samples)).map(move |sample| at + sample * plane)
}

impl Jpeg2000 {
    /// The library, with states for so many pictures.
    fn with<'a>(
        kept: &'a mut InContext<Option<Jpeg2000>>,
        pictures: usize,
        stream: &mut Stream,
    ) -> Result<&'a mut Jpeg2000> {
        stream.ask_library(|_| {
            if kept.is_none() {
                **kept = Some(Jpeg2000 { decoder: NvJpeg2000::get()?.decoder()?, states: Vec::new() });
            }
            if let Some(Jpeg2000 { decoder, states }) = &mut **kept {
                while states.len() < pictures {
                    states.push((decoder.state()?, decoder.codestream()?));
                }
            }
            Ok(())
        })?;
        Ok(kept.as_mut().expect("made above"))
    }

    /// Let the stream decode one block, with a state of its own.
    #[expect(clippy::too_many_arguments, reason = "a block, where it comes from and where it goes")]
    fn decode(
        &mut self,
        at: usize,
        job: &DecodeJob,
        pixel: PixelType,
        block: &Block,
        bytes: &[u8],
        decoded: &Buffer,
        stream: &mut Stream,
    ) -> Result<Status> {
        let (shape, source) = (shape(job, block), compressed(block, bytes));
        // Boxes may say that three components are no red, green and blue, which the library does not look at.
        let boxed = source.starts_with(b"\0\0\0\x0cjP  ");
        if boxed && shape.samples > 2 {
            return Ok(Status::UNKNOWN_FORM);
        }
        // What asks for a table per pixel is not handed on.
        if let Err(error) = jpeg2000::check(source, shape) {
            return Ok(match error {
                swath_codec::Error::Mismatch { .. } => Status::OTHER_PICTURE,
                swath_codec::Error::Unsupported { .. } => Status::UNKNOWN_FORM,
                _ => Status::BROKEN,
            });
        }
        let (state, codestream) = &mut self.states[at];
        let mut parsed = None;
        stream.ask_library(|_| {
            parsed = Some(self.decoder.parse(codestream, source)?);
            Ok(())
        })?;
        if parsed.is_none_or(|picture| !is_picture(&picture, shape)) {
            return Ok(Status::OTHER_PICTURE);
        }
        let planes: Vec<u64> = planes(job, block, decoded).collect();
        let pitch = u64::from(job.row_bytes);
        // SAFETY: the bytes lie in the lane, and state and codestream are this block's: none is touched before the lane was waited
        // for. The planes are the block's share of the pool, and the picture has exactly their size.
        unsafe {
            stream.library("nvJPEG2000 decode", |cuda| {
                self.decoder.decode(state, codestream, &planes, pitch, pixel, cuda)
            })?;
        }
        Ok(Status::OK)
    }
}

/// Whether a picture has these samples, in components of this size. Samples may have fewer bits than their type, as for the CPU.
fn is_picture(picture: &Picture, shape: Shape) -> bool {
    let size = (shape.width as u32, shape.height as u32);
    let signed = shape.format == SampleFormat::Int;
    let bits = shape.bits - 8 + 1..=shape.bits;
    (picture.width, picture.height) == size
        && picture.components.len() == shape.samples
        && picture.components.iter().all(|component| {
            (component.width, component.height) == size
                && bits.contains(&usize::from(component.bits))
                && component.signed == signed
        })
}

impl Jpeg {
    /// The library, with its state.
    fn with<'a>(kept: &'a mut InContext<Option<Jpeg>>, stream: &mut Stream) -> Result<&'a mut Jpeg> {
        stream.ask_library(|_| {
            if kept.is_none() {
                let handle = NvJpeg::get()?.handle()?;
                let state = handle.decode_state()?;
                **kept = Some(Jpeg { handle, state, streams: Vec::new() });
            }
            Ok(())
        })?;
        Ok(kept.as_mut().expect("made above"))
    }

    /// Let the stream decode all blocks that are there. `refused` says what an error about one of them means.
    #[expect(clippy::too_many_arguments, reason = "blocks, where they come from and where they go")]
    fn decode(
        &mut self,
        job: &DecodeJob,
        blocks: &[Block],
        bytes: &[u8],
        decoded: &Buffer,
        stream: &mut Stream,
        statuses: &mut [Status],
        mut refused: impl FnMut(Error) -> Result<Status>,
    ) -> Result<()> {
        let Jpeg { handle, state, streams } = self;
        let output = if job.route == (Route::NvJpeg { ycbcr: true }) { Output::Rgbi } else { Output::Unchanged };
        streams.resize_with(streams.len().max(blocks.len()), Vec::new);
        for ((block, status), spliced) in blocks.iter().zip(&mut *statuses).zip(&mut *streams) {
            if block.flags & Block::SPARSE == 0 {
                let source = compressed(block, bytes);
                *status = prepare(handle, job, block, source, output, spliced, stream).or_else(&mut refused)?;
            }
        }
        let mut pictures = Vec::with_capacity(blocks.len());
        for ((block, status), spliced) in blocks.iter().zip(&*statuses).zip(&*streams) {
            if *status == Status::OK && block.flags & Block::SPARSE == 0 {
                let mut to = Planes::one(decoded.handle() + block.dst, job.row_bytes.into());
                if output == Output::Unchanged {
                    for (at, plane) in planes(job, block, decoded).enumerate() {
                        (to.at[at], to.pitch[at]) = (plane, job.row_bytes.into());
                    }
                }
                pictures.push((spliced.as_slice(), to));
            }
        }
        if pictures.is_empty() {
            return Ok(());
        }
        // SAFETY: the streams and the state lie in the lane and are not touched before it was waited for. The planes are the blocks'
        // shares of the pool, and each picture has exactly the size of its own.
        let begun = unsafe { stream.library("nvJPEG decode", |cuda| handle.decode(state, &pictures, output, cuda)) };
        if let Err(error) = begun {
            // Which of them it was is not told.
            let refused = refused(error)?;
            for (block, status) in blocks.iter().zip(statuses) {
                if *status == Status::OK && block.flags & Block::SPARSE == 0 {
                    *status = refused;
                }
            }
        }
        Ok(())
    }
}

/// Make a complete stream of a block, if it holds the picture that is wanted.
fn prepare(
    handle: &nvjpeg::Handle,
    job: &DecodeJob,
    block: &Block,
    source: &[u8],
    output: Output,
    spliced: &mut Vec<u8>,
    stream: &mut Stream,
) -> Result<Status> {
    let shape = shape(job, block);
    let frame = match splice(&job.tables, source, output == Output::Rgbi, spliced) {
        Ok(frame) => frame,
        Err(status) => return Ok(status),
    };
    let (size, samples) = ((shape.width as u32, shape.height as u32), shape.samples);
    // Rows and columns that are missing or too many are the CPU's business, and so are components of other sizes as they are.
    let fits = (frame.width, frame.height) == size && frame.components == samples && frame.bits == 8;
    if !fits || (output == Output::Unchanged && !frame.even) {
        return Ok(Status::OTHER_PICTURE);
    }
    let mut told = None;
    stream.ask_library(|_| {
        told = Some(handle.image_info(spliced)?);
        Ok(())
    })?;
    let same = told.is_some_and(|info| {
        (info.widths[0], info.heights[0], info.components as usize) == (size.0, size.1, samples)
            && (output == Output::Rgbi || matches!(info.subsampling, Subsampling::S444 | Subsampling::Gray))
    });
    // One that the library refuses costs all of its batch.
    let odd = told.is_some_and(|info| info.subsampling == Subsampling::Other);
    Ok(match same {
        true if odd => Status::UNKNOWN_FORM,
        true => Status::OK,
        false => Status::OTHER_PICTURE,
    })
}
