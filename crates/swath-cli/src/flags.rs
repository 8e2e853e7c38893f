//! Flags that several commands share, and the parsers of their values.

use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use swath::device::{CodecBackend, DeviceSettings, EncoderBackend, Storage};
use swath::io::LocalFile;
use swath::{Dataset, Device, FallbackPolicy, Limits, ReadRequest};
use swath_gpu::UnknownName;

use crate::failure::Failure;

/// Flags that choose the part of an image to read.
#[derive(Args)]
pub(crate) struct Selection {
    /// Rows R0 to R1 and columns C0 to C1, without R1 and C1. Default: the whole image.
    ///
    /// Rows and columns are those of the resolution that is read.
    #[arg(long, value_name = "R0,C0,R1,C1")]
    pub(crate) window: Option<Window>,

    /// Bands to read, counted from 1, in this order. Default: all bands.
    #[arg(long, value_name = "B1,B2,...")]
    pub(crate) bands: Option<Bands>,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

impl Selection {
    /// Returns a request for this part of the image.
    pub(crate) fn request<'a>(&self) -> ReadRequest<'a> {
        let mut request = self.threads.apply(ReadRequest::new());
        if let Some(window) = &self.window {
            request = window.apply(request);
        }
        match &self.bands {
            Some(bands) => request.bands(bands.0.clone()),
            None => request,
        }
    }
}

#[derive(Args)]
pub(crate) struct Threads {
    /// Number of threads. Default: SWATH_THREADS, or else the number of available cores.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: Option<usize>,
}

impl Threads {
    pub(crate) fn apply<'a>(&self, request: ReadRequest<'a>) -> ReadRequest<'a> {
        match self.threads {
            Some(threads) => request.threads(threads),
            None => request,
        }
    }
}

/// Flags that choose the device and how it is used.
#[derive(Args)]
pub(crate) struct DeviceFlags {
    /// Device that decodes and encodes. Default: SWATH_DEVICE, or else cpu.
    ///
    /// One of cpu, opencl, opencl:N, cuda, cuda:N, auto. "auto" uses the first GPU, or the CPU if there is no GPU. Several
    /// GPUs, such as cuda:0,cuda:1, share the work.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,

    /// On work that the device cannot do: "auto" uses the CPU, "strict" fails. Default: auto.
    #[arg(long, value_name = "POLICY", value_parser = fallback_parser())]
    fallback: Option<FallbackPolicy>,

    /// Decoder on a CUDA device. Default: SWATH_DECODER, or else auto.
    ///
    /// "nvcomp" uses NVIDIA's libraries. "builtin" uses Swath's kernels; use it for files from untrusted sources.
    /// "auto" uses NVIDIA's libraries where they are installed.
    #[arg(long, value_parser = names::<CodecBackend>(CodecBackend::NAMES))]
    decoder: Option<CodecBackend>,

    /// How bytes move between storage and a CUDA device. Default: SWATH_STORAGE, or else auto.
    ///
    /// "cufile" uses cuFile. "posix" copies through host memory. "auto" uses cuFile where it avoids that copy.
    #[arg(long, value_parser = names::<Storage>(Storage::NAMES))]
    storage: Option<Storage>,

    /// Limit of device memory, in millions of bytes. Default: SWATH_GPU_MEMORY, or else as below.
    ///
    /// Without a limit: a quarter of the free memory for a read, up to 4 GiB; for a write, what a strip of rows needs.
    #[arg(long, value_name = "MB", value_parser = number::<u64>)]
    gpu_memory: Option<u64>,
}

impl DeviceFlags {
    /// The name of the device: the flag, or else the environment variable.
    pub(crate) fn device_name(&self) -> String {
        self.device.clone().or_else(|| variable("SWATH_DEVICE")).unwrap_or_else(|| "cpu".into())
    }

    pub(crate) fn device(&self) -> Result<Device, Failure> {
        Device::open(&self.device_name()).map_err(|error| match error {
            swath::Error::DeviceName { .. } | swath::Error::DeviceTwice { .. } => {
                Failure::Usage(format!("--device: {error}"))
            }
            other => other.into(),
        })
    }

    pub(crate) fn fallback(&self) -> FallbackPolicy {
        self.fallback.unwrap_or(FallbackPolicy::Auto)
    }

    fn settings(&self) -> DeviceSettings {
        DeviceSettings::new().decoder(self.decoder).storage(self.storage).gpu_memory(self.gpu_memory)
    }

    pub(crate) fn decoder(&self) -> Result<CodecBackend, Failure> {
        Ok(self.settings().chosen_decoder()?)
    }

    pub(crate) fn storage(&self) -> Result<Storage, Failure> {
        Ok(self.settings().chosen_storage()?)
    }

    /// The limit of device memory, in bytes.
    pub(crate) fn gpu_memory(&self) -> Result<Option<u64>, Failure> {
        Ok(self.settings().gpu_memory_budget()?)
    }

    /// The request, executed on `device` with at most `memory` bytes of device memory.
    pub(crate) fn apply<'a>(
        &self,
        request: ReadRequest<'a>,
        device: &Device,
        memory: Option<u64>,
    ) -> Result<ReadRequest<'a>, Failure> {
        let request = request.device(device).fallback(self.fallback());
        let request = request.decoder(self.decoder()?).storage(self.storage()?);
        Ok(match memory {
            Some(bytes) => request.gpu_memory_budget(bytes),
            None => request,
        })
    }
}

#[derive(Args)]
pub(crate) struct Encoder {
    /// Encoder with --device. Default: SWATH_ENCODER, or else auto.
    ///
    /// "auto" uses NVIDIA's libraries on a CUDA device where they are installed, or else the CPU. "nvcomp" requires
    /// NVIDIA's libraries. "builtin" uses Swath's kernels for deflate (any level is compressed as level 1), lzw and
    /// packbits. "cpu" compresses on the CPU. The pixels are always the same; "nvcomp" and "builtin" deflate give other
    /// bytes than the CPU.
    #[arg(long, value_parser = names::<EncoderBackend>(EncoderBackend::NAMES))]
    encoder: Option<EncoderBackend>,
}

impl Encoder {
    pub(crate) fn choice(&self) -> Result<EncoderBackend, Failure> {
        Ok(DeviceSettings::new().encoder(self.encoder).chosen_encoder()?)
    }
}

/// Flags about the files that a command opens.
#[derive(Args)]
pub(crate) struct OpenFlags {
    /// Change a limit that protects against hostile files; may be given several times.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit, long_help = limits_help())]
    limits: Vec<(String, u64)>,
}

impl OpenFlags {
    /// Opens a file with the limits of the flags, or else of the environment.
    pub(crate) fn open(&self, path: &Path) -> Result<Dataset, Failure> {
        let mut limits = Limits::try_from_env().map_err(|error| Failure::Usage(error.to_string()))?;
        for (name, value) in &self.limits {
            limits.set(name, *value).map_err(|unknown| Failure::Usage(format!("--limit: {unknown}")))?;
        }
        let file = LocalFile::open(path).map_err(swath::Error::from)?;
        Ok(Dataset::from_source(Arc::new(file), limits)?)
    }
}

/// A limit, as `NAME=VALUE`.
fn limit(text: &str) -> Result<(String, u64), InvalidValue> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(InvalidValue::new("expected NAME=VALUE, such as max_pixels=2000000000"));
    };
    // Only the names matter here.
    Limits::default().set(name, 1).map_err(|unknown| InvalidValue(unknown.to_string()))?;
    match value.trim().parse() {
        Ok(0) | Err(_) => Err(InvalidValue::new("the value of a limit is a whole number of at least 1")),
        Ok(value) => Ok((name.to_owned(), value)),
    }
}

/// The help of `--limit`, with all limits.
fn limits_help() -> String {
    let mut help = "Change a limit that protects against hostile files; may be given several times.\n\n\
                    The limits, their environment variables and defaults:"
        .to_owned();
    for limit in Limits::TABLE {
        let (name, variable, default) = (limit.name, limit.variable, limit.default);
        help += &format!("\n* {name} ({variable}, {default}):{}", limit.description);
    }
    help
}

/// A window, as `R0,C0,R1,C1`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    rows: Range<u64>,
    columns: Range<u64>,
}

impl Window {
    pub(crate) fn apply<'a>(&self, request: ReadRequest<'a>) -> ReadRequest<'a> {
        request.window(self.rows.clone(), self.columns.clone())
    }
}

/// Why the value of a flag is not valid. clap prints it after the name of the flag.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidValue(String);

impl InvalidValue {
    pub(crate) fn new(message: &str) -> InvalidValue {
        InvalidValue(message.to_owned())
    }
}

impl FromStr for Window {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Window, InvalidValue> {
        match numbers(text)?[..] {
            [r0, c0, r1, c1] => Ok(Window { rows: r0..r1, columns: c0..c1 }),
            _ => Err(InvalidValue::new("a window has four numbers: R0,C0,R1,C1")),
        }
    }
}

/// Bands, counted from 0; the text counts them from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bands(pub(crate) Vec<usize>);

impl FromStr for Bands {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Bands, InvalidValue> {
        let from_zero = |band: usize| band.checked_sub(1).ok_or_else(|| InvalidValue::new("bands are counted from 1"));
        numbers(text)?.into_iter().map(from_zero).collect::<Result<_, _>>().map(Bands)
    }
}

/// Numbers separated by commas.
pub(crate) fn numbers<T: FromStr>(text: &str) -> Result<Vec<T>, InvalidValue> {
    text.split(',').map(number).collect()
}

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, InvalidValue> {
    text.trim().parse().map_err(|_| InvalidValue(format!("'{text}' is not a whole number in the allowed range")))
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, InvalidValue> {
    match text.parse() {
        Ok(0) | Err(_) => Err(InvalidValue::new("expected a whole number of at least 1")),
        Ok(number) => Ok(number),
    }
}

/// A parser of the names in `list`, which are separated by `|`.
fn names<T>(list: &'static str) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownName> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(list.split('|')).try_map(|name| name.parse())
}

fn fallback_parser() -> impl TypedValueParser<Value = FallbackPolicy> {
    PossibleValuesParser::new(["auto", "strict"]).map(|name| match name.as_str() {
        "strict" => FallbackPolicy::Strict,
        _ => FallbackPolicy::Auto,
    })
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_four_numbers() {
        assert_eq!("0, 1,2,3".parse(), Ok(Window { rows: 0..2, columns: 1..3 }));
        for wrong in ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "-1,0,1,1"] {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_have_a_known_name_and_a_value() {
        assert_eq!(limit("max_pixels=7"), Ok(("max_pixels".into(), 7)));
        for wrong in ["", "max_pixels", "max_pixels=", "max_pixels=0", "max_pixels=-1", "max_pixels=1e9"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        let unknown = limit("max_pixel=7").unwrap_err().to_string();
        assert!(Limits::TABLE.iter().all(|limit| unknown.contains(limit.name)), "{unknown}");
    }

    #[test]
    fn documentation_lists_every_limit() {
        let page = include_str!("../../../docs/limits.md");
        for limit in Limits::TABLE {
            let row = format!("| `{}` | `{}` | {} |{} |", limit.name, limit.variable, limit.default, limit.description);
            assert!(page.contains(&row), "docs/limits.md lacks: {row}");
        }
    }

    #[test]
    fn bands_are_counted_from_one() {
        assert_eq!("4,3,2".parse(), Ok(Bands(vec![3, 2, 1])));
        assert!("0".parse::<Bands>().is_err() && "1,x".parse::<Bands>().is_err());
    }
}
