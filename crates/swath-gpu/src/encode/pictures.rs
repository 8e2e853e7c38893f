//! Encodes tiles with nvJPEG2000 and nvJPEG on the device, in waves: each tile needs its own working memory
//! until its stream is on the host. A wave is synchronised twice: for the sizes of its streams, and for the
//! streams.

use std::ops::Range;

use swath_codec::{Compress, DType, SampleFormat, Shape, jpeg, jpeg2000};

use super::nvcomp_check::is_telling;
use super::pool::TileRun;
use super::tiles::TileData;
use super::{Fetched, TileEncoder};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::{Buffer, Pinned};
use crate::stream::Stream;
use crate::stream_set::StreamSet;
use crate::vendor::context::InContext;
use crate::vendor::nvcomp::CudaStream;
use crate::vendor::nvjpeg::{self, NvJpeg, Planes, Subsampling};
use crate::vendor::nvjpeg2k::{self, NvJpeg2000, PixelType, Pixels};
use crate::vendor::{Library, version_of};

/// The largest number of tiles, and of bytes of tiles, that are encoded at a time. Their working memory is a
/// multiple of that.
const WAVE: usize = 32;
const WAVE_BYTES: u64 = 64 << 20;

/// A stream may have twice the bytes of its tile plus this many. A library that reports a larger size has
/// failed.
const STREAM_BYTES: u64 = 64 << 10;

/// The codec and the library that encode tiles as pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureCodec {
    kind: Kind,
    /// The number of bands of a tile.
    samples: u32,
    /// The number of bytes of a sample.
    size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jpeg2000(PixelType),
    Jpeg { quality: u8, subsampling: Subsampling },
}

impl PictureCodec {
    /// Returns the codec for tiles of this shape, or `None` if no library supports it.
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
                    // For RGB that is stored as RGB, nvJPEG needs planes.
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

    /// The names of the stages encode and retrieve in a profile.
    fn stages(&self) -> [&'static str; 2] {
        match self.kind {
            Kind::Jpeg2000(_) => ["nvJPEG2000 encode", "nvJPEG2000 retrieve"],
            Kind::Jpeg { .. } => ["nvJPEG encode", "nvJPEG retrieve"],
        }
    }

    /// The smallest side of a picture: nvJPEG2000 refuses pictures of one row or column.
    pub(super) fn least_side(&self) -> u64 {
        match self.kind {
            Kind::Jpeg2000(_) => 2,
            Kind::Jpeg { .. } => 1,
        }
    }

    /// Returns the shape of a tile, if the codec is lossless.
    fn lossless(&self, run: &TileRun) -> Option<Shape> {
        let Kind::Jpeg2000(pixel) = self.kind else { return None };
        let (width, height) = self.sides(run);
        let (width, height, samples) = (width as usize, height as usize, self.samples as usize);
        Some(Shape { width, height, samples, bits: pixel.bits().into(), format: pixel.format() })
    }

    /// Checks with the CPU's decoder that a stream decodes to exactly that tile.
    fn prove(&self, stream: &[u8], shape: Shape, tile: &[u8]) -> Result<()> {
        let mut decoded = vec![0; shape.len()];
        match jpeg2000::decode(stream, shape, jpeg2000::Colour::Stored, &mut decoded) {
            Ok(()) if decoded == tile[..shape.len()] => Ok(()),
            Ok(()) => Err(self.failed("encode", "a picture that has other pixels when it is decoded")),
            Err(error) => Err(self.failed("encode", format!("a picture that cannot be decoded: {error}"))),
        }
    }

    /// Whether the library can be loaded.
    pub(super) fn available(&self) -> Result<()> {
        match self.kind {
            Kind::Jpeg2000(_) => NvJpeg2000::get().map(|_| ())?,
            Kind::Jpeg { .. } => NvJpeg::get().map(|_| ())?,
        }
        Ok(())
    }

    /// The name of the library with its version.
    pub(super) fn name(&self) -> String {
        version_of(self.library())
    }

    fn failed(&self, call: &'static str, what: impl ToString) -> Error {
        Error::Library { library: self.library(), call, code: what.to_string() }
    }

    /// The number of pixels in a row of a tile, and the number of its rows.
    fn sides(&self, run: &TileRun) -> (u32, u32) {
        let width = run.row_bytes / u64::from(self.samples * self.size).max(1);
        // The sides of blocks have 32 bits.
        (width as u32, (run.bytes / run.row_bytes.max(1)) as u32)
    }
}

/// The state of a library, which is reused from push to push.
#[derive(Debug)]
pub(super) struct Encoders {
    // First, so that they are dropped first: their drop waits for the work that uses the states.
    streams: StreamSet,
    encoder: InContext<Option<Encoder>>,
    trust: Trust,
}

/// Whether a lossless picture was decoded as a check, and the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// No tile that proves anything was decoded yet.
    Unknown,
    /// A decoded tile was unchanged.
    Proven,
    /// A decoded tile was changed, or could not be decoded.
    Lost,
}

#[derive(Debug)]
enum Encoder {
    Jpeg2000 { encoder: nvjpeg2k::Encoder, states: Vec<nvjpeg2k::EncodeState> },
    Jpeg { handle: nvjpeg::Handle, states: Vec<nvjpeg::EncodeState> },
}

/// The library's parameters for the tiles of a run.
#[derive(Debug)]
enum Params {
    Jpeg2000(nvjpeg2k::EncodeParams),
    Jpeg(nvjpeg::EncodeParams),
}

impl Encoders {
    pub(super) fn new(gpu: &Gpu) -> Encoders {
        Encoders { streams: StreamSet::default(), encoder: InContext::new(gpu, None), trust: Trust::Unknown }
    }

    /// Frees the memory of the library. No work that uses it may be pending.
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

    /// Creates states for this number of tiles.
    ///
    /// # Safety
    /// The stream belongs to the current context.
    unsafe fn make_states(&mut self, count: usize, cuda: CudaStream) -> Result<()> {
        match self {
            Encoder::Jpeg2000 { encoder, states } => {
                while states.len() < count {
                    states.push(encoder.state()?);
                }
            }
            Encoder::Jpeg { handle, states } => {
                while states.len() < count {
                    // SAFETY: guaranteed by the caller.
                    states.push(unsafe { handle.encode_state(cuda)? });
                }
            }
        }
        Ok(())
    }

    /// Returns the library's parameters for tiles of this size.
    ///
    /// # Safety
    /// The same requirements as [`make_states`](Encoder::make_states).
    unsafe fn params(&self, codec: PictureCodec, (width, height): (u32, u32), cuda: CudaStream) -> Result<Params> {
        match (self, codec.kind) {
            (Encoder::Jpeg2000 { encoder, .. }, Kind::Jpeg2000(pixel)) => {
                let components = codec.samples;
                // The same colour transform as the CPU's encoder.
                let pixels = Pixels { width, height, components, pixel, rgb: components == 3 };
                encoder.params(&pixels).map(Params::Jpeg2000)
            }
            (Encoder::Jpeg { handle, .. }, Kind::Jpeg { quality, subsampling }) => {
                // SAFETY: guaranteed by the caller.
                unsafe { handle.encode_params(quality, subsampling, cuda).map(Params::Jpeg) }
            }
            _ => Err(codec.failed("encode", "it was made for another codec")),
        }
    }

    /// Enqueues the encoding of a tile with the state of this index.
    ///
    /// # Safety
    /// The stream belongs to the current context. Until the result is retrieved, the tile is device memory with
    /// that many rows of `pitch` bytes, and nothing else uses the state.
    unsafe fn encode(
        &mut self,
        state: usize,
        params: &Params,
        (at, pitch): (u64, u64),
        sides: (u32, u32),
        cuda: CudaStream,
        codec: PictureCodec,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller, for all calls.
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

    /// Returns the size in bytes of the stream in the state of this index.
    ///
    /// # Safety
    /// The CUDA stream is the one that encoded it.
    unsafe fn len(&mut self, state: usize, cuda: CudaStream) -> Result<u64> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Encoder::Jpeg2000 { encoder, states } => encoder.encoded_len(&mut states[state], cuda),
                Encoder::Jpeg { handle, states } => handle.encoded_len(&mut states[state], cuda),
            }
        }
    }

    /// Enqueues the copy of the stream in the state of this index.
    ///
    /// # Safety
    /// The same requirements as [`len`](Encoder::len). Nothing else uses `to` until the CUDA stream is
    /// synchronised.
    unsafe fn retrieve(&mut self, state: usize, to: &mut [u8], cuda: CudaStream) -> Result<u64> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Encoder::Jpeg2000 { encoder, states } => encoder.retrieve(&mut states[state], to, cuda),
                Encoder::Jpeg { handle, states } => handle.retrieve(&mut states[state], to, cuda),
            }
        }
    }
}

/// Encodes the tiles of one push, wave by wave.
struct Waves<'a> {
    codec: PictureCodec,
    gpu: &'a Gpu,
    stream: &'a mut Stream,
    /// Streams beside `stream`: the library encodes several tiles at a time.
    streams: &'a mut StreamSet,
    encoder: &'a mut Encoder,
    trust: &'a mut Trust,
    /// The buffer of the uncompressed tiles.
    tiles: &'a Buffer,
    /// Host memory for the streams.
    memory: &'a mut Pinned,
    /// The range of each stream in the host memory.
    places: Vec<Range<usize>>,
}

/// One tile of a wave.
#[derive(Clone, Copy)]
struct WaveTile<'a> {
    run: &'a TileRun,
    params: &'a Params,
    /// Its offset in the buffer of tiles.
    at: u64,
}

impl TileEncoder {
    /// Encodes all tiles as pictures and copies them to the host.
    pub(super) fn make_pictures(
        &mut self,
        codec: PictureCodec,
        runs: &[TileRun],
        memory: &mut Pinned,
    ) -> Result<Fetched> {
        let mut params = InContext::new(&self.gpu, Vec::new());
        let made = self.make_waves(codec, runs, &mut params, memory);
        if made.is_err() {
            // Pending work uses the states, the parameters and the memory. The states are freed, because other
            // work may need memory.
            let joined = self.encoders.streams.join(&mut self.stream);
            self.stream.synchronize().and(joined)?;
            self.encoders.clear();
            if self.encoders.trust == Trust::Lost {
                // The library would probably fail on other tiles too.
                self.stop_compressing();
            }
        }
        Ok((TileData::Compressed(made?), None))
    }

    fn make_waves(
        &mut self,
        codec: PictureCodec,
        runs: &[TileRun],
        params: &mut InContext<Vec<Params>>,
        memory: &mut Pinned,
    ) -> Result<Vec<Range<usize>>> {
        let TileEncoder { gpu, stream, tiles, encoders: Encoders { streams, encoder, trust }, .. } = self;
        let count = runs.iter().map(|run| run.tiles as usize).sum();
        let largest = runs.iter().map(|run| run.bytes).max().unwrap_or(0).max(1);
        let at_once = WAVE.min((WAVE_BYTES / largest).max(1) as usize);
        stream.ask_library(|cuda| {
            if encoder.is_none() {
                **encoder = Some(Encoder::new(codec)?);
            }
            let Some(encoder) = &mut **encoder else { return Ok(()) };
            // SAFETY: the stream belongs to the current context.
            unsafe { encoder.make_states(at_once.min(count), cuda)? };
            for run in runs {
                // SAFETY: as above.
                params.push(unsafe { encoder.params(codec, codec.sides(run), cuda)? });
            }
            Ok(())
        })?;
        let all: Vec<WaveTile<'_>> = runs
            .iter()
            .zip(&**params)
            .flat_map(|(run, params)| {
                (0..run.tiles).map(move |tile| WaveTile { run, params, at: run.at + tile * run.stride })
            })
            .collect();
        let encoder = encoder.as_mut().expect("made above");
        let places = Vec::with_capacity(count);
        let mut waves = Waves { codec, gpu, stream, streams, encoder, trust, tiles: tiles.get(), memory, places };
        all.chunks(at_once).try_for_each(|wave| waves.encode(wave))?;
        Ok(waves.places)
    }
}

impl Waves<'_> {
    /// Encodes the tiles of a wave and copies their streams to the host.
    fn encode(&mut self, wave: &[WaveTile<'_>]) -> Result<()> {
        let [encode, _] = self.codec.stages();
        let (codec, encoder) = (self.codec, &mut *self.encoder);
        if let Encoder::Jpeg2000 { .. } = encoder {
            self.streams.fork(self.stream, wave.len())?;
        }
        for (state, WaveTile { run, params, at }) in wave.iter().enumerate() {
            let tile = (self.tiles.handle() + at, run.row_bytes);
            // SAFETY: the CUDA stream belongs to the current context. The tile lies in the buffer of tiles, and
            // no other tile of the wave uses its state.
            unsafe {
                self.streams
                    .of(self.stream, state)
                    .library(encode, |cuda| encoder.encode(state, params, tile, codec.sides(run), cuda, codec))?;
            }
        }
        self.wait()?;
        let first = self.places.len();
        self.place(wave)?;
        self.make_room(first)?;
        self.retrieve(first)?;
        self.finish(wave, first)
    }

    /// Waits for the work of a wave in all streams.
    fn wait(&mut self) -> Result<()> {
        self.streams.join(self.stream)?;
        self.stream.synchronize()?;
        self.streams.was_waited_for();
        Ok(())
    }

    /// Queries the sizes of the streams of a wave, and assigns them ranges after those of earlier waves.
    fn place(&mut self, wave: &[WaveTile<'_>]) -> Result<()> {
        let encoder = &mut *self.encoder;
        let mut end = self.places.last().map_or(0, |place| place.end);
        for (state, WaveTile { run, .. }) in wave.iter().enumerate() {
            let mut len = 0;
            self.streams.of(self.stream, state).ask_library(|cuda| {
                // SAFETY: this CUDA stream encoded the tile.
                len = unsafe { encoder.len(state, cuda)? };
                Ok(())
            })?;
            if len == 0 || len > 2 * run.bytes + STREAM_BYTES {
                return Err(self.codec.failed("retrieve", format!("a stream of {len} bytes")));
            }
            self.places.push(end..end + len as usize);
            end += len as usize;
        }
        Ok(())
    }

    /// Reserves memory for all streams with a range, and keeps the streams before index `first`.
    fn make_room(&mut self, first: usize) -> Result<()> {
        let total = self.places.last().map_or(0, |place| place.end);
        if self.memory.len() < total {
            // The reserve is half as much again, so that this is rare. If there is no memory, the uncompressed
            // tiles still fit.
            let more = self.gpu.pin(total + total / 2).map_err(|error| self.codec.failed("retrieve", error))?;
            let before = std::mem::replace(self.memory, more);
            let copied = self.places[first].start;
            self.memory[..copied].copy_from_slice(&before[..copied]);
        }
        Ok(())
    }

    /// Enqueues the copies of the streams from index `first` on.
    fn retrieve(&mut self, first: usize) -> Result<()> {
        let [_, retrieve] = self.codec.stages();
        let encoder = &mut *self.encoder;
        for (state, place) in self.places[first..].iter().enumerate() {
            let to = &mut self.memory[place.clone()];
            let room = to.len() as u64;
            let mut len = 0;
            // SAFETY: this CUDA stream encoded the tile, and nothing uses the memory until `finish` has synchronised it.
            unsafe {
                self.streams.of(self.stream, state).library(retrieve, |cuda| {
                    len = encoder.retrieve(state, to, cuda)?;
                    Ok(())
                })?;
            }
            if len != room {
                return Err(self.codec.failed("retrieve", format!("{len} of {room} bytes")));
            }
        }
        Ok(())
    }

    /// Waits for the streams of a wave. Until a check has proven that the library encodes without loss, one
    /// tile is downloaded with them and compared, because Swath's authors could not test the library on a real
    /// GPU.
    fn finish(&mut self, wave: &[WaveTile<'_>], first: usize) -> Result<()> {
        let sample = wave.len() / 2;
        let WaveTile { run, at, .. } = wave[sample];
        let mut tile = None;
        if let Some(shape) = self.codec.lossless(run).filter(|_| *self.trust == Trust::Unknown) {
            let memory = self.gpu.pin(shape.len()).map_err(|error| self.codec.failed("encode", error))?;
            let (_, memory) = tile.insert((shape, memory));
            // SAFETY: nothing uses the memory before the stream is synchronised, which happens next.
            unsafe { self.stream.download(self.tiles, at, &mut memory[..shape.len()])? };
        }
        self.wait()?;
        if let Some((shape, tile)) = tile {
            let made = &self.memory[self.places[first + sample].clone()];
            *self.trust = Trust::Lost;
            self.codec.prove(made, shape, &tile)?;
            let telling = is_telling(shape.len() as u64, made.len() as u64);
            *self.trust = if telling { Trust::Proven } else { Trust::Unknown };
        }
        Ok(())
    }
}
