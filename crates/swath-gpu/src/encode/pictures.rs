//! Tiles that nvJPEG2000 and nvJPEG make pictures of, where they were cut: in waves, since each has working memory of its own until
//! its stream is on the host. A wave is waited for twice: for the sizes of its streams, and for the streams.

use std::ops::Range;

use swath_codec::{Compress, DType, SampleFormat, Shape, jpeg, jpeg2000};

use super::check::is_telling;
use super::compress::Piece;
use super::tiles::Made;
use super::{Fetched, TileEncoder};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Pinned;
use crate::vendor::context::InContext;
use crate::vendor::nvcomp::CudaStream;
use crate::vendor::nvjpeg::{self, NvJpeg, Planes, Subsampling};
use crate::vendor::nvjpeg2k::{self, NvJpeg2000, PixelType, Pixels};
use crate::vendor::{Library, version_of};

/// Tiles that are encoded at a time: so many, and of large ones so many bytes. Their working memory is a multiple of that.
const WAVE: usize = 32;
const WAVE_BYTES: u64 = 64 << 20;

/// Bytes that a stream may have beside those of its tile, and as many again: the libraries tell sizes, and nobody else can.
const STREAM_BYTES: u64 = 64 << 10;

/// What tiles become pictures by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureCodec {
    kind: Kind,
    /// Bands of a tile.
    samples: u32,
    /// Bytes of a sample.
    size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jpeg2000(PixelType),
    Jpeg { quality: u8, subsampling: Subsampling },
}

impl PictureCodec {
    /// What makes such pictures of tiles of this shape; `None` when no library does.
    pub(super) fn new(compress: &Compress, shape: Shape) -> Option<PictureCodec> {
        let dtype = DType::for_stored(shape.format, shape.bits).filter(|dtype| dtype.size() * 8 == shape.bits)?;
        let kind = match compress {
            Compress::Jpeg2000(jpeg2000::Quality::Lossless) if (1..=4).contains(&shape.samples) => {
                Kind::Jpeg2000(PixelType::of(dtype)?)
            }
            Compress::Jpeg { .. } if (shape.bits, shape.format) == (8, SampleFormat::Uint) => {
                let jpeg::EncodeParams { quality, colour } = compress.jpeg(shape.samples)?;
                let subsampling = match (shape.samples, colour) {
                    (1, jpeg::EncodeColour::Stored) => Subsampling::Gray,
                    (3, jpeg::EncodeColour::YCbCr { subsampling: (1, 1) }) => Subsampling::S444,
                    (3, jpeg::EncodeColour::YCbCr { subsampling: (2, 1) }) => Subsampling::S422,
                    (3, jpeg::EncodeColour::YCbCr { subsampling: (2, 2) }) => Subsampling::S420,
                    // Red, green and blue as they are would have to lie in planes.
                    _ => return None,
                };
                Kind::Jpeg { quality, subsampling }
            }
            _ => return None,
        };
        Some(PictureCodec { kind, samples: shape.samples as u32, size: dtype.size() as u32 })
    }

    fn library(&self) -> Library {
        match self.kind {
            Kind::Jpeg2000(_) => Library::NvJpeg2000,
            Kind::Jpeg { .. } => Library::NvJpeg,
        }
    }

    /// What making pictures and bringing them to the host are called in a profile.
    fn stages(&self) -> [&'static str; 2] {
        match self.kind {
            Kind::Jpeg2000(_) => ["nvJPEG2000 encode", "nvJPEG2000 retrieve"],
            Kind::Jpeg { .. } => ["nvJPEG encode", "nvJPEG retrieve"],
        }
    }

    /// nvJPEG2000 refuses pictures of one row or column.
    pub(super) fn least_side(&self) -> u64 {
        match self.kind {
            Kind::Jpeg2000(_) => 2,
            Kind::Jpeg { .. } => 1,
        }
    }

    /// The pixels of a tile, if they must come back as they are.
    fn lossless(&self, piece: &Piece) -> Option<Shape> {
        let Kind::Jpeg2000(pixel) = self.kind else { return None };
        let (width, height) = self.sides(piece);
        let (width, height, samples) = (width as usize, height as usize, self.samples as usize);
        Some(Shape { width, height, samples, bits: pixel.bits().into(), format: pixel.format() })
    }

    /// Whether a stream is that tile without any loss, as the CPU's decoder has it.
    fn prove(&self, stream: &[u8], shape: Shape, tile: &[u8]) -> Result<()> {
        let mut decoded = vec![0; shape.len()];
        match jpeg2000::decode(stream, shape, jpeg2000::Colour::Stored, &mut decoded) {
            Ok(()) if decoded == tile[..shape.len()] => Ok(()),
            Ok(()) => Err(self.failed("encode", "a picture that has other pixels when it is decoded")),
            Err(error) => Err(self.failed("encode", format!("a picture that cannot be decoded: {error}"))),
        }
    }

    /// Whether the library is there.
    pub(super) fn usable(&self) -> std::result::Result<(), String> {
        match self.kind {
            Kind::Jpeg2000(_) => NvJpeg2000::get().map(|_| ()).map_err(ToString::to_string),
            Kind::Jpeg { .. } => NvJpeg::get().map(|_| ()).map_err(ToString::to_string),
        }
    }

    /// The library with its version.
    pub(super) fn name(&self) -> String {
        version_of(self.library())
    }

    fn failed(&self, call: &'static str, what: impl ToString) -> Error {
        Error::Library { library: self.library(), call, code: what.to_string() }
    }

    /// Pixels in a row of a tile, and its rows.
    fn sides(&self, piece: &Piece) -> (u32, u32) {
        let width = piece.row_bytes / u64::from(self.samples * self.size).max(1);
        // Blocks have sides of 32 bits.
        (width as u32, (piece.bytes / piece.row_bytes.max(1)) as u32)
    }
}

/// What is kept of a library from band to band.
#[derive(Debug)]
pub(super) struct Encoders {
    encoder: InContext<Option<Encoder>>,
    trust: Trust,
}

/// Whether a picture that is to be without loss was decoded again, and what that showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Unknown,
    Proven,
    Lost,
}

#[derive(Debug)]
enum Encoder {
    Jpeg2000 { encoder: nvjpeg2k::Encoder, states: Vec<nvjpeg2k::EncodeState> },
    Jpeg { handle: nvjpeg::Handle, states: Vec<nvjpeg::EncodeState> },
}

/// How the tiles of a piece are encoded.
#[derive(Debug)]
enum Params {
    Jpeg2000(nvjpeg2k::EncodeParams),
    Jpeg(nvjpeg::EncodeParams),
}

impl Encoders {
    pub(super) fn new(gpu: &Gpu) -> Encoders {
        Encoders { encoder: InContext::new(gpu, None), trust: Trust::Unknown }
    }

    /// Give back the memory of the library. Nothing may be using it.
    pub(super) fn clear(&mut self) {
        self.encoder.clear();
    }
}

impl Encoder {
    fn new(codec: PictureCodec) -> Result<Encoder> {
        match codec.kind {
            Kind::Jpeg2000(_) => Ok(Encoder::Jpeg2000 { encoder: NvJpeg2000::get()?.encoder()?, states: Vec::new() }),
            Kind::Jpeg { .. } => Ok(Encoder::Jpeg { handle: NvJpeg::get()?.handle()?, states: Vec::new() }),
        }
    }

    /// States for so many tiles.
    ///
    /// # Safety
    /// The stream is one of the context that is current.
    unsafe fn make_states(&mut self, count: usize, cuda: CudaStream) -> Result<()> {
        match self {
            Encoder::Jpeg2000 { encoder, states } => {
                while states.len() < count {
                    states.push(encoder.state()?);
                }
            }
            Encoder::Jpeg { handle, states } => {
                while states.len() < count {
                    // SAFETY: the caller's promise.
                    states.push(unsafe { handle.encode_state(cuda)? });
                }
            }
        }
        Ok(())
    }

    /// How tiles of this size are encoded.
    ///
    /// # Safety
    /// As [`make_states`](Encoder::make_states).
    unsafe fn params(&self, codec: PictureCodec, (width, height): (u32, u32), cuda: CudaStream) -> Result<Params> {
        match (self, codec.kind) {
            (Encoder::Jpeg2000 { encoder, .. }, Kind::Jpeg2000(pixel)) => {
                let components = codec.samples;
                // As the CPU's encoder has it.
                let pixels = Pixels { width, height, components, pixel, rgb: components == 3 };
                encoder.params(&pixels).map(Params::Jpeg2000)
            }
            (Encoder::Jpeg { handle, .. }, Kind::Jpeg { quality, subsampling }) => {
                // SAFETY: the caller's promise.
                unsafe { handle.encode_params(quality, subsampling, cuda).map(Params::Jpeg) }
            }
            _ => Err(codec.failed("encode", "it was made for another codec")),
        }
    }

    /// Let the stream encode a tile with the state of that number.
    ///
    /// # Safety
    /// The stream is one of the context that is current. Until its result was retrieved the tile is device memory of so many rows
    /// of `pitch` bytes, and the state is used for nothing else.
    unsafe fn encode(
        &mut self,
        state: usize,
        params: &Params,
        (at, pitch): (u64, u64),
        sides: (u32, u32),
        cuda: CudaStream,
        codec: PictureCodec,
    ) -> Result<()> {
        // SAFETY: the caller's promise, for all of them.
        unsafe {
            match (self, params) {
                (Encoder::Jpeg2000 { encoder, states }, Params::Jpeg2000(params)) => {
                    encoder.encode(&mut states[state], params, at, pitch, cuda)
                }
                (Encoder::Jpeg { handle, states }, Params::Jpeg(params)) => {
                    let (state, planes) = (&mut states[state], Planes::one(at, pitch));
                    match codec.samples {
                        1 => handle.encode_planes(state, params, planes, Subsampling::Gray, sides, cuda),
                        _ => handle.encode_rgb(state, params, planes, sides, cuda),
                    }
                }
                _ => Err(codec.failed("encode", "it was made for another codec")),
            }
        }
    }

    /// The size of what the state of that number holds.
    ///
    /// # Safety
    /// The stream is the one that it was encoded in.
    unsafe fn len(&mut self, state: usize, cuda: CudaStream) -> Result<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Encoder::Jpeg2000 { encoder, states } => encoder.encoded_len(&mut states[state], cuda),
                Encoder::Jpeg { handle, states } => handle.encoded_len(&mut states[state], cuda),
            }
        }
    }

    /// Let the stream copy what the state of that number holds.
    ///
    /// # Safety
    /// As [`len`](Encoder::len), and until the stream was waited for nothing else uses `to`.
    unsafe fn retrieve(&mut self, state: usize, to: &mut [u8], cuda: CudaStream) -> Result<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Encoder::Jpeg2000 { encoder, states } => encoder.retrieve(&mut states[state], to, cuda),
                Encoder::Jpeg { handle, states } => handle.retrieve(&mut states[state], to, cuda),
            }
        }
    }
}

impl TileEncoder {
    /// Make pictures of all tiles, and bring them to the host.
    pub(super) fn make_pictures(
        &mut self,
        codec: PictureCodec,
        pieces: &[Piece],
        memory: &mut Pinned,
    ) -> Result<Fetched> {
        let mut params = InContext::new(&self.gpu, Vec::new());
        let made = self.make_waves(codec, pieces, &mut params, memory);
        if made.is_err() {
            // What was begun uses the states, the parameters and the memory. The states are not left to those who need memory too.
            self.stream.synchronize()?;
            self.encoders.clear();
            if self.encoders.trust == Trust::Lost {
                // What it makes of other tiles is not better.
                self.stop_compressing();
            }
        }
        Ok((Made::Compressed(made?), None))
    }

    fn make_waves(
        &mut self,
        codec: PictureCodec,
        pieces: &[Piece],
        params: &mut InContext<Vec<Params>>,
        memory: &mut Pinned,
    ) -> Result<Vec<Range<usize>>> {
        let TileEncoder { gpu, stream, tiles, encoders, .. } = self;
        let (Encoders { encoder: encoders, trust }, kept) = (encoders, tiles.get());
        let [encode, retrieve] = codec.stages();
        let count = pieces.iter().map(|piece| piece.tiles as usize).sum();
        let largest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0).max(1);
        let at_once = WAVE.min((WAVE_BYTES / largest).max(1) as usize);
        stream.ask_library(|cuda| {
            if encoders.is_none() {
                **encoders = Some(Encoder::new(codec)?);
            }
            let Some(encoder) = &mut **encoders else { return Ok(()) };
            // SAFETY: here and below: the stream is that of this context.
            unsafe { encoder.make_states(at_once.min(count), cuda)? };
            for piece in pieces {
                // SAFETY: as above.
                params.push(unsafe { encoder.params(codec, codec.sides(piece), cuda)? });
            }
            Ok(())
        })?;
        let encoder = encoders.as_mut().expect("made above");
        let all: Vec<(&Piece, &Params, u64)> = pieces
            .iter()
            .zip(&**params)
            .flat_map(|(piece, params)| {
                (0..piece.tiles).map(move |tile| (piece, params, piece.at + tile * piece.stride))
            })
            .collect();
        let mut places = Vec::with_capacity(count);
        let mut total = 0;
        for wave in all.chunks(at_once) {
            for (state, (piece, params, at)) in wave.iter().enumerate() {
                let tile = (kept.handle() + at, piece.row_bytes);
                // SAFETY: as above; the tile lies in the buffer of tiles, and its state is its own until the wave is over.
                unsafe {
                    stream
                        .library(encode, |cuda| encoder.encode(state, params, tile, codec.sides(piece), cuda, codec))?;
                }
            }
            stream.synchronize()?;
            let first = places.len();
            for (state, (piece, ..)) in wave.iter().enumerate() {
                let mut len = 0;
                stream.ask_library(|cuda| {
                    // SAFETY: as above.
                    len = unsafe { encoder.len(state, cuda)? };
                    Ok(())
                })?;
                if len == 0 || len > 2 * piece.bytes + STREAM_BYTES {
                    return Err(codec.failed("retrieve", format!("a stream of {len} bytes")));
                }
                places.push(total..total + len as usize);
                total += len as usize;
            }
            if memory.len() < total {
                // As much again, so that it is seldom done. That there is none is no reason to give up: the tiles have room.
                let more = gpu.pin(total + total / 2).map_err(|error| codec.failed("retrieve", error))?;
                let before = std::mem::replace(memory, more);
                let copied = places[first].start;
                memory[..copied].copy_from_slice(&before[..copied]);
            }
            for (state, place) in places[first..].iter().enumerate() {
                let to = &mut memory[place.clone()];
                let room = to.len() as u64;
                let mut len = 0;
                // SAFETY: as above; the memory is left alone until the stream was waited for.
                unsafe {
                    stream.library(retrieve, |cuda| {
                        len = encoder.retrieve(state, to, cuda)?;
                        Ok(())
                    })?;
                }
                if len != room {
                    return Err(codec.failed("retrieve", format!("{len} of {room} bytes")));
                }
            }
            // Nobody saw the library encode on a GPU before it was used here: one picture is looked at, in the same wait.
            let sample = wave.len() / 2;
            let (piece, _, at) = wave[sample];
            let mut tile = None;
            if let Some(shape) = codec.lossless(piece).filter(|_| *trust == Trust::Unknown) {
                let tile =
                    &mut tile.insert((shape, gpu.pin(shape.len()).map_err(|error| codec.failed("encode", error))?)).1;
                // SAFETY: as above; nothing comes between this and the wait for it.
                unsafe { stream.download(kept, at, &mut tile[..])? };
            }
            stream.synchronize()?;
            if let Some((shape, tile)) = tile {
                let made = &memory[places[first + sample].clone()];
                *trust = Trust::Lost;
                codec.prove(made, shape, &tile)?;
                let telling = is_telling(shape.len() as u64, made.len() as u64);
                *trust = if telling { Trust::Proven } else { Trust::Unknown };
            }
        }
        Ok(places)
    }
}
