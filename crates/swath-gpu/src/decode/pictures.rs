//! Decodes blocks that are pictures with nvJPEG2000 and nvJPEG: all blocks of a batch into one buffer, with one wait for the batch.
//!
//! Both libraries take compressed bytes from the host. Before a library gets a block, the host checks that the block holds the picture
//! that the file states, so that the library writes only where it may. A block that fails the check, or that a library refuses, gets
//! a status like any damaged block.

use swath_codec::{SampleFormat, Shape, jpeg2000};

use super::interchange::splice;
use crate::decode::block::{Block, Status};
use crate::decode::job::DecodeJob;
use crate::decode::route::Route;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Buffer;
use crate::stream::Stream;
use crate::stream_set::StreamSet;
use crate::vendor::context::InContext;
use crate::vendor::nvjpeg::{self, NvJpeg, Output, Planes, Subsampling};
use crate::vendor::nvjpeg2k::{self, Codestream, NvJpeg2000, Picture, PixelType};

/// The state of the libraries that a lane keeps from batch to batch. Nothing touches it between the start of a batch and its end.
#[derive(Debug)]
pub(super) struct Pictures {
    // First, so that they are dropped first: their drop waits for the work that uses the states.
    streams: StreamSet,
    jpeg2000: InContext<Option<Jpeg2000>>,
    jpeg: InContext<Option<Jpeg>>,
    /// The first error that a library reported about a picture of this batch.
    failure: Option<Error>,
}

/// nvJPEG2000 needs one state for each picture that is being decoded.
#[derive(Debug)]
struct Jpeg2000 {
    decoder: nvjpeg2k::Decoder,
    states: Vec<(nvjpeg2k::DecodeState, Codestream)>,
}

/// nvJPEG decodes a whole batch with one state.
#[derive(Debug)]
struct Jpeg {
    handle: nvjpeg::Handle,
    state: nvjpeg::DecodeState,
    /// The complete JPEG stream of each block. They must stay until they are decoded.
    streams: Vec<Vec<u8>>,
}

impl Pictures {
    pub(super) fn new(gpu: &Gpu) -> Pictures {
        Pictures {
            streams: StreamSet::default(),
            jpeg2000: InContext::new(gpu, None),
            jpeg: InContext::new(gpu, None),
            failure: None,
        }
    }

    /// Frees the memory of the libraries. Nothing may be using it.
    pub(super) fn clear(&mut self) {
        self.jpeg2000.clear();
        self.jpeg.clear();
    }

    /// The first error that a library reported about a picture of the last batch.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Enqueues the decoding of all blocks into their positions in `decoded`, and returns the statuses of the blocks. `bytes` is the
    /// buffer that the blocks' offsets count from, and must stay until the stream is synchronised. nvJPEG2000 decodes in several streams,
    /// which `stream` waits for.
    pub(super) fn decode(
        &mut self,
        job: &DecodeJob,
        blocks: &[Block],
        bytes: &[u8],
        decoded: &Buffer,
        stream: &mut Stream,
    ) -> Result<Vec<u32>> {
        assert!(blocks.len() <= job.most_blocks(), "a batch has no more blocks than there are states");
        let batch = PictureBatch { job, blocks, bytes, decoded };
        let mut statuses = vec![Status::OK; blocks.len()];
        self.failure = None;
        let mut refused = |error: Error| match error.is_library() {
            // The error concerns one picture, which the CPU may decode.
            true => {
                self.failure.get_or_insert(error);
                Ok(Status::REFUSED)
            }
            false => Err(error),
        };
        match job.route {
            Route::NvJpeg2000(pixel) => {
                let library = Jpeg2000::with(&mut self.jpeg2000, blocks.len(), stream)?;
                // The last batch of the lane was waited for.
                self.streams.was_waited_for();
                self.streams.fork(stream, blocks.len())?;
                let stored = (0..blocks.len()).filter(|&at| blocks[at].flags & Block::SPARSE == 0);
                let decoded = stored.enumerate().try_for_each(|(picture, at)| {
                    let stream = self.streams.of(stream, picture);
                    statuses[at] = library.decode(&batch, at, pixel, stream).or_else(&mut refused)?;
                    Ok(())
                });
                self.streams.join(stream).and(decoded)?;
            }
            _ => {
                let library = Jpeg::with(&mut self.jpeg, stream)?;
                library.decode(&batch, stream, &mut statuses, refused)?;
            }
        }
        Ok(statuses.iter().map(|status| status.0).collect())
    }
}

/// The blocks of a batch, where they come from and where they go.
#[derive(Debug, Clone, Copy)]
struct PictureBatch<'a> {
    job: &'a DecodeJob,
    blocks: &'a [Block],
    /// Compressed bytes: the buffer that the blocks' offsets count from.
    bytes: &'a [u8],
    decoded: &'a Buffer,
}

impl<'a> PictureBatch<'a> {
    /// The pixels of a block.
    fn shape(&self, block: &Block) -> Shape {
        let job = self.job;
        let format = match job.route {
            Route::NvJpeg2000(pixel) => pixel.format(),
            _ => SampleFormat::Uint,
        };
        Shape {
            width: job.width as usize,
            height: (u64::from(block.dst_len) / job.pixel_row_bytes().max(1)) as usize,
            samples: job.samples as usize,
            bits: job.bits as usize,
            format,
        }
    }

    /// The compressed bytes of a block.
    fn compressed(&self, block: &Block) -> &'a [u8] {
        // `check` made sure that it lies in the payload.
        &self.bytes[block.src as usize..][..block.src_len as usize]
    }

    /// The address of the decoded block.
    fn address(&self, block: &Block) -> u64 {
        self.decoded.handle() + block.dst
    }

    /// The address of each component of a block.
    fn planes(&self, block: &Block) -> impl Iterator<Item = u64> + use<> {
        let (at, samples) = (self.address(block), self.job.samples);
        let plane = u64::from(block.dst_len / samples);
        (0..u64::from(samples)).map(move |sample| at + sample * plane)
    }
}

impl Jpeg2000 {
    /// The library, with states for `pictures` pictures.
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

    /// Enqueues the decoding of the block at position `at`, with a state of its own.
    fn decode(&mut self, batch: &PictureBatch<'_>, at: usize, pixel: PixelType, stream: &mut Stream) -> Result<Status> {
        let block = &batch.blocks[at];
        let (shape, source) = (batch.shape(block), batch.compressed(block));
        // Boxes may state that three components are not red, green and blue. The library ignores the boxes.
        let boxed = source.starts_with(b"\0\0\0\x0cjP  ");
        if boxed && shape.samples > 2 {
            return Ok(Status::UNKNOWN_FORM);
        }
        // Rejects streams that would need memory for every pixel, among others.
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
        let planes: Vec<u64> = batch.planes(block).collect();
        let pitch = u64::from(batch.job.row_bytes);
        // SAFETY: the bytes lie in the lane, and only this block uses the state and the codestream: nothing touches them before the lane
        // is synchronised. The planes are the block's part of the buffer, and the picture has exactly their size.
        unsafe {
            stream.library("nvJPEG2000 decode", |cuda| {
                self.decoder.decode(state, codestream, &planes, pitch, pixel, cuda)
            })?;
        }
        Ok(Status::OK)
    }
}

/// Whether a picture has these samples, in components of this size. As on the CPU, samples may have fewer bits than their type.
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

    /// Enqueues the decoding of all blocks that the file stores. `refused` turns an error about a block into its status.
    fn decode(
        &mut self,
        batch: &PictureBatch<'_>,
        stream: &mut Stream,
        statuses: &mut [Status],
        mut refused: impl FnMut(Error) -> Result<Status>,
    ) -> Result<()> {
        let PictureBatch { job, blocks, .. } = *batch;
        let Jpeg { handle, state, streams } = self;
        let output = if job.route == (Route::NvJpeg { ycbcr: true }) { Output::Rgbi } else { Output::Unchanged };
        streams.resize_with(streams.len().max(blocks.len()), Vec::new);
        for ((block, status), spliced) in blocks.iter().zip(&mut *statuses).zip(&mut *streams) {
            if block.flags & Block::SPARSE == 0 {
                *status = prepare(handle, batch, block, output, spliced, stream).or_else(&mut refused)?;
            }
        }
        let mut pictures = Vec::with_capacity(blocks.len());
        for ((block, status), spliced) in blocks.iter().zip(&*statuses).zip(&*streams) {
            if *status == Status::OK && block.flags & Block::SPARSE == 0 {
                let mut to = Planes::one(batch.address(block), job.row_bytes.into());
                if output == Output::Unchanged {
                    for (at, plane) in batch.planes(block).enumerate() {
                        (to.at[at], to.pitch[at]) = (plane, job.row_bytes.into());
                    }
                }
                pictures.push((spliced.as_slice(), to));
            }
        }
        if pictures.is_empty() {
            return Ok(());
        }
        // SAFETY: the streams and the state belong to the lane, and nothing touches them before it is synchronised. The planes are the
        // blocks' parts of the buffer, and each picture has exactly the size of its planes.
        let begun = unsafe { stream.library("nvJPEG decode", |cuda| handle.decode(state, &pictures, output, cuda)) };
        if let Err(error) = begun {
            // The library does not report which picture it was.
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

/// Builds the complete JPEG stream of a block, and checks that it holds the expected picture.
fn prepare(
    handle: &nvjpeg::Handle,
    batch: &PictureBatch<'_>,
    block: &Block,
    output: Output,
    spliced: &mut Vec<u8>,
    stream: &mut Stream,
) -> Result<Status> {
    let shape = batch.shape(block);
    let frame = match splice(&batch.job.tables, batch.compressed(block), output == Output::Rgbi, spliced) {
        Ok(frame) => frame,
        Err(status) => return Ok(status),
    };
    let (size, samples) = ((shape.width as u32, shape.height as u32), shape.samples);
    // The CPU decodes pictures with missing or extra rows and columns, and unconverted components of different sizes.
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
    // A picture that the library refuses fails the whole batch, so it must not get there.
    let odd = told.is_some_and(|info| info.subsampling == Subsampling::Other);
    Ok(match same {
        true if odd => Status::UNKNOWN_FORM,
        true => Status::OK,
        false => Status::OTHER_PICTURE,
    })
}
