//! `swath read`: writes pixels to a .npy array or a .png picture.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use swath::device::DeviceReport;
use swath::io::NewFile;
use swath::read::OnCorrupt;
use swath::{Image, Layout, Pixels, ReadReport, ReadRequest};

use crate::failure::Failure;
use crate::flags::{DeviceFlags, OpenFlags, Selection, number};
use crate::output::warn_of_chain;
use crate::progress::Bar;
use crate::{npy, picture};

/// Read pixels into a .npy array or a .png picture
///
/// If OUT ends in .npy, it gets the samples unchanged, in the shape (bands, rows, columns), little-endian. A single band
/// has the shape (1, rows, columns).
///
/// If OUT ends in .png, it gets a picture of 1 or 3 bands, or of 2 or 4 bands if the last one is alpha. Samples other than
/// bytes are stretched from the 2nd to the 98th percentile, nodata is transparent, and the palette is applied.
///
/// OUT appears complete or not at all.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath read dem.tif dem.npy
  swath read scene.tif chip.npy --window 0,0,256,256 --bands 4,3,2 \\
      --layout bands-last
  swath read scene.tif look.png --overview 3 --overwrite")]
pub(crate) struct Read {
    /// The file to read.
    file: PathBuf,

    /// The file to write, which ends in .npy or .png.
    out: PathBuf,

    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Resolution to read: 0 is the full resolution, 1 is the first overview.
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value_t = 0)]
    overview: usize,

    /// Image (page) of the file, counted from 0.
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value_t = 0)]
    image: usize,

    /// Order of the axes in a .npy file.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Axes::BandsFirst)]
    layout: Axes,

    /// Read the mask instead of pixels: uint8 of shape (rows, columns), 255 for valid pixels, else 0.
    #[arg(long)]
    mask: bool,

    /// On a block that cannot be decoded: fail, or fill it with nodata and print a warning.
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = Corrupt::Fail)]
    on_corrupt: Corrupt,

    #[command(flatten)]
    device: DeviceFlags,

    #[command(flatten)]
    open: OpenFlags,

    /// Replace OUT if it exists.
    #[arg(long)]
    overwrite: bool,

    /// Print timings, counts and fallbacks to stderr.
    #[arg(long)]
    timings: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Axes {
    BandsFirst,
    BandsLast,
}

#[derive(Clone, Copy, ValueEnum)]
enum Corrupt {
    Fail,
    Fill,
}

impl Read {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let out = self.out.as_path();
        let extension = out.extension().map(|text| text.to_string_lossy().to_ascii_lowercase());
        let as_picture = match extension.as_deref() {
            Some("png") => true,
            Some("npy") => false,
            _ => return Err(Failure::Usage(format!("{} must end in .npy or .png", out.display()))),
        };
        // Checked before the work; `write_file` notices a file that appears during the work.
        if !self.overwrite && out.exists() {
            return Err(Failure::exists(out.display()));
        }
        let bar = Bar::new();
        let show = |progress| bar.show(progress);
        let request = self.request()?.progress(&show);

        let dataset = self.open.open(&self.file)?;
        let image = dataset.image(self.image)?;
        let report = if self.mask {
            let mask = image.read_mask(&request)?;
            let pixels = Pixels::U8(mask.values);
            write_file(out, self.overwrite, |writer| match as_picture {
                true => picture::write_gray(writer, &pixels, mask.width, mask.height),
                false => npy::write(writer, &pixels, &[mask.height, mask.width]),
            })?;
            mask.report
        } else if as_picture {
            picture::write(out, self.overwrite, &image, request)?
        } else {
            let raster = image.read(&request)?;
            write_file(out, self.overwrite, |writer| npy::write(writer, &raster.pixels, &raster.shape))?;
            raster.report
        };
        drop(bar);
        warn_of_chain(&dataset);
        for (block, reason) in &report.filled {
            eprintln!("swath: warning: {block} was filled: {reason}");
        }
        let unlisted = report.filled_blocks - report.filled.len() as u64;
        if unlisted > 0 {
            eprintln!("swath: warning: {unlisted} more blocks were filled");
        }
        if self.timings {
            print_timings(&image, &report);
        }
        Ok(())
    }

    /// The request that the flags describe.
    fn request<'a>(&self) -> Result<ReadRequest<'a>, Failure> {
        let request = self.selection.request().level(self.overview);
        let request = request.layout(match self.layout {
            Axes::BandsFirst => Layout::BandsFirst,
            Axes::BandsLast => Layout::BandsLast,
        });
        let request = request.on_corrupt(match self.on_corrupt {
            Corrupt::Fail => OnCorrupt::Fail,
            Corrupt::Fill => OnCorrupt::Fill,
        });
        self.device.apply(request, &self.device.device()?, self.device.gpu_memory()?)
    }
}

/// Writes a file that appears complete or not at all. Without `overwrite`, an existing file is an error.
pub(crate) fn write_file(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let attempt = || {
        let new = NewFile::create(path)?;
        let mut writer = BufWriter::with_capacity(32 << 10, new.file());
        write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        new.publish(overwrite)
    };
    attempt().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::exists(path.display()),
        _ => Failure::file("write", path, error),
    })
}

fn print_timings(image: &Image, report: &ReadReport) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    eprintln!(
        "device {}, codec {}, {} threads; {} x {} x {} {}",
        report.device,
        report.codec,
        report.threads,
        image.bands(),
        image.height(),
        image.width(),
        image.dtype(),
    );
    eprintln!(
        "{} blocks decoded, {} sparse, {} filled, in {} batches; {:.3} MB fetched, {:.3} MB decoded, {:.3} MB working memory",
        report.blocks,
        report.sparse_blocks,
        report.filled_blocks,
        report.batches,
        mb(report.bytes_fetched),
        mb(report.bytes_decoded),
        mb(report.working_bytes),
    );
    eprintln!(
        "{:.3} ms in all; over all threads {:.3} ms fetching, {:.3} ms decoding; {:.0} MB/s",
        ms(report.wall_time),
        ms(report.fetch_time),
        ms(report.decode_time),
        mb(report.bytes_decoded) / report.wall_time.as_secs_f64().max(1e-9),
    );
    print_device(report.gpu.as_ref());
}

/// Prints the work of a device, and the fallbacks.
pub(crate) fn print_device(report: Option<&DeviceReport>) {
    let Some(device) = report else { return };
    eprintln!("{}: {}", device.name, device.stats);
    for (what, by) in [
        ("placed on", &device.placement),
        ("read by", &device.read_by),
        ("decoded by", &device.decoded_by),
        ("compressed by", &device.compressed_by),
        ("written by", &device.written_by),
    ] {
        if !by.is_empty() {
            eprintln!("{what} {by}");
        }
    }
    for fallback in &device.fallbacks {
        eprintln!("{fallback}");
    }
}
