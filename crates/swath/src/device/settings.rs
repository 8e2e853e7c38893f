//! How a device is used: the values that a caller chose, or else those of the environment, or else the defaults.

use std::str::FromStr;

use swath_gpu::{CodecBackend, EncoderBackend, Storage, UnknownName};

use crate::error::{Error, Result};

/// The bytes of one unit of [`DeviceSettings::gpu_memory`].
const MEGABYTE: u64 = 1_000_000;

/// How a device is used. The command, the Python package and the environment have the same names and values.
///
/// A value that is `None` comes from the environment: `SWATH_DECODER`, `SWATH_ENCODER`, `SWATH_STORAGE` and
/// `SWATH_GPU_MEMORY`. A variable that is not set or empty stands for the default.
///
/// ```
/// use swath::device::{CodecBackend, DeviceSettings};
/// # fn main() -> swath::Result<()> {
/// let settings = DeviceSettings::new().decoder(CodecBackend::Builtin);
/// let request = swath::ReadRequest::new().decoder(settings.chosen_decoder()?).storage(settings.chosen_storage()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    decoder: Option<CodecBackend>,
    encoder: Option<EncoderBackend>,
    storage: Option<Storage>,
    gpu_memory: Option<u64>,
}

impl DeviceSettings {
    /// Leaves everything to the environment.
    pub fn new() -> DeviceSettings {
        DeviceSettings::default()
    }

    /// Sets the decoder. [`CodecBackend::Builtin`] passes no stream of the file to NVIDIA's libraries.
    #[must_use]
    pub fn decoder(self, decoder: impl Into<Option<CodecBackend>>) -> Self {
        DeviceSettings { decoder: decoder.into(), ..self }
    }

    /// Sets the encoder.
    #[must_use]
    pub fn encoder(self, encoder: impl Into<Option<EncoderBackend>>) -> Self {
        DeviceSettings { encoder: encoder.into(), ..self }
    }

    /// Sets how bytes move between storage and the device.
    #[must_use]
    pub fn storage(self, storage: impl Into<Option<Storage>>) -> Self {
        DeviceSettings { storage: storage.into(), ..self }
    }

    /// Sets the limit of device memory, in millions of bytes.
    #[must_use]
    pub fn gpu_memory(self, megabytes: impl Into<Option<u64>>) -> Self {
        DeviceSettings { gpu_memory: megabytes.into(), ..self }
    }

    /// The decoder for [`ReadRequest::decoder`](crate::ReadRequest::decoder).
    ///
    /// # Errors
    /// [`Error::Setting`] when the variable has an unknown value, as for all settings.
    pub fn chosen_decoder(&self) -> Result<CodecBackend> {
        or_variable(self.decoder, "SWATH_DECODER")
    }

    /// The encoder for [`WriteConfig::encoder`](crate::WriteConfig::encoder).
    ///
    /// # Errors
    /// As [`chosen_decoder`](DeviceSettings::chosen_decoder).
    pub fn chosen_encoder(&self) -> Result<EncoderBackend> {
        or_variable(self.encoder, "SWATH_ENCODER")
    }

    /// The path of the bytes for `ReadRequest::storage` and `WriteConfig::storage`.
    ///
    /// # Errors
    /// As [`chosen_decoder`](DeviceSettings::chosen_decoder).
    pub fn chosen_storage(&self) -> Result<Storage> {
        or_variable(self.storage, "SWATH_STORAGE")
    }

    /// The limit of device memory in bytes, if there is one, for `gpu_memory_budget` of a read or a write.
    ///
    /// # Errors
    /// As [`chosen_decoder`](DeviceSettings::chosen_decoder).
    pub fn gpu_memory_budget(&self) -> Result<Option<u64>> {
        let name = "SWATH_GPU_MEMORY";
        let megabytes = match (self.gpu_memory, variable(name)) {
            (Some(megabytes), _) => Some(megabytes),
            (None, None) => None,
            (None, Some(text)) => Some(text.trim().parse().map_err(|_| Error::Setting {
                name,
                value: text,
                expected: "a whole number, in millions of bytes".into(),
            })?),
        };
        Ok(megabytes.map(|megabytes| megabytes.saturating_mul(MEGABYTE)))
    }
}

/// The value that the caller chose, or else that of the environment variable, or else the default.
fn or_variable<T: Default + FromStr<Err = UnknownName>>(chosen: Option<T>, name: &'static str) -> Result<T> {
    match (chosen, variable(name)) {
        (Some(value), _) => Ok(value),
        (None, None) => Ok(T::default()),
        (None, Some(text)) => text.trim().parse().map_err(|unknown: UnknownName| Error::Setting {
            name,
            value: unknown.name,
            expected: format!("one of {}", unknown.names),
        }),
    }
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
