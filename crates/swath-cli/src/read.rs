//! `swath read`: pixels to .npy or to a picture.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use swath::io::NewFile;
use swath::{Dataset, Device, DeviceReport, Image, Layout, OnCorrupt, Pixels, ReadRequest, Report};

use crate::command::{
    Arguments, BANDS, Command, DECODER, DEVICE, FALLBACK, Failure, Flag, GPU_MEMORY, STORAGE, THREADS, WINDOW,
};
use crate::progress::Bar;
use crate::{npy, picture};

pub(crate) const COMMAND: Command = Command {
    name: "read",
    operands: &["FILE", "OUT"],
    summary: "Read pixels into a .npy array or a .png picture",
    details: "OUT ends in .npy: the samples as they are, shape (bands, rows, columns), little-endian. A single band has the shape\n\
              (1, rows, columns). OUT ends in .png: a picture to look at: 1 or 3 bands, or 2 or 4 of which the last is alpha in the\n\
              file; stretched from the 2nd to the 98th percentile unless they are bytes, nodata transparent, the palette applied.\n\n\
              Examples:\n  \
              swath read dem.tif dem.npy\n  \
              swath read scene.tif chip.npy --window 0,0,256,256 --bands 4,3,2 --layout bands-last\n  \
              swath read scene.tif look.png --level 3\n",
    flags: &[
        WINDOW,
        BANDS,
        Flag { name: "--level", value: Some("N"), help: "0 is the full resolution, 1 the first overview. Default: 0." },
        Flag { name: "--image", value: Some("N"), help: "Which image (page) of the file, counted from 0. Default: 0." },
        Flag {
            name: "--layout",
            value: Some("bands-first|bands-last"),
            help: "Order of the axes in a .npy file. Default: bands-first.",
        },
        Flag {
            name: "--mask",
            value: None,
            help: "Read the validity mask instead of pixels: uint8 of shape (rows, columns), 255 valid, 0 not.",
        },
        Flag {
            name: "--on-corrupt",
            value: Some("fail|fill"),
            help: "What to do with a block that cannot be decoded: fail, or fill it with nodata and say so. Default: fail.",
        },
        THREADS,
        DEVICE,
        FALLBACK,
        DECODER,
        STORAGE,
        GPU_MEMORY,
        Flag { name: "--stats", value: None, help: "Print what was done and how long it took to stderr." },
    ],
    run,
};

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let (file, out) = (arguments.operand(0), arguments.operand(1));
    let lower = out.to_ascii_lowercase();
    let as_picture = lower.ends_with(".png");
    if !as_picture && !lower.ends_with(".npy") {
        return Err(Failure::Misuse(format!("{out} must end in .npy or .png")));
    }
    let bar = Bar::new();
    let show = |progress| bar.show(progress);
    let request = request(arguments)?.progress(&show);

    let dataset = Dataset::open(file)?;
    let image = dataset.image(arguments.number("--image")?.unwrap_or(0))?;
    let report = if arguments.has("--mask") {
        let mask = image.read_mask(&request)?;
        let pixels = Pixels::U8(mask.values);
        write_file(out, |writer| match as_picture {
            true => picture::write_gray(writer, &pixels, mask.width, mask.height),
            false => npy::write(writer, &pixels, &[mask.height, mask.width]),
        })?;
        mask.report
    } else if as_picture {
        picture::write(out, &image, request)?
    } else {
        let raster = image.read(&request)?;
        write_file(out, |writer| npy::write(writer, &raster.pixels, &raster.shape))?;
        raster.report
    };
    drop(bar);
    for (block, reason) in &report.filled {
        eprintln!("swath: warning: {block} was filled: {reason}");
    }
    let unlisted = report.filled_blocks - report.filled.len() as u64;
    if unlisted > 0 {
        eprintln!("swath: warning: {unlisted} more blocks were filled");
    }
    if arguments.has("--stats") {
        print_stats(&image, &report);
    }
    Ok(())
}

/// The part of a request that the flags decide.
pub(crate) fn request<'a>(arguments: &Arguments<'_>) -> Result<ReadRequest<'a>, Failure> {
    let mut request = part(arguments)?.level(arguments.number("--level")?.unwrap_or(0));
    request = match arguments.text("--layout") {
        None | Some("bands-first") => request.layout(Layout::BandsFirst),
        Some("bands-last") => request.layout(Layout::BandsLast),
        Some(other) => return Err(Failure::Misuse(format!("--layout is bands-first or bands-last, not '{other}'"))),
    };
    request = on_device(request, &arguments.device()?, arguments, arguments.gpu_memory()?)?;
    request = match arguments.text("--on-corrupt") {
        None | Some("fail") => request.on_corrupt(OnCorrupt::Fail),
        Some("fill") => request.on_corrupt(OnCorrupt::Fill),
        Some(other) => return Err(Failure::Misuse(format!("--on-corrupt is fail or fill, not '{other}'"))),
    };
    Ok(request)
}

/// The same request on a device, as the flags say, with so much memory of it.
pub(crate) fn on_device<'a>(
    request: ReadRequest<'a>,
    device: &Device,
    arguments: &Arguments<'_>,
    memory: Option<u64>,
) -> Result<ReadRequest<'a>, Failure> {
    let request = request.device(device).fallback(arguments.fallback()?);
    let request = request.decoder(arguments.codec("--decoder")?).storage(arguments.storage()?);
    Ok(match memory {
        Some(bytes) => request.gpu_memory_budget(bytes),
        None => request,
    })
}

/// Window, bands and threads.
pub(crate) fn part<'a>(arguments: &Arguments<'_>) -> Result<ReadRequest<'a>, Failure> {
    let mut request = ReadRequest::new();
    if let Some(window) = arguments.numbers::<u64>("--window")? {
        let &[r0, c0, r1, c1] = window.as_slice() else {
            return Err(Failure::Misuse("--window takes four numbers: R0,C0,R1,C1".into()));
        };
        request = request.window(r0..r1, c0..c1);
    }
    if let Some(bands) = arguments.numbers::<usize>("--bands")? {
        if bands.contains(&0) {
            return Err(Failure::Misuse("--bands counts from 1".into()));
        }
        request = request.bands(bands.into_iter().map(|band| band - 1).collect::<Vec<_>>());
    }
    match arguments.number::<usize>("--threads")? {
        Some(0) => Err(Failure::Misuse("--threads must be at least 1".into())),
        Some(threads) => Ok(request.threads(threads)),
        None => Ok(request),
    }
}

/// Write a file that appears complete or not at all.
pub(crate) fn write_file(
    path: &str,
    write: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let attempt = || {
        let new = NewFile::create(path.as_ref())?;
        let mut writer = BufWriter::with_capacity(1 << 20, new.file());
        write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        new.publish(true)
    };
    attempt().map_err(|error| Failure::file("write", path, error))
}

fn print_stats(image: &Image, report: &Report) {
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

/// What a device did, and what it did not.
pub(crate) fn print_device(report: Option<&DeviceReport>) {
    let Some(device) = report else { return };
    eprintln!("{}: {}", device.name, device.stats);
    for (what, by) in [
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
