//! Damaged files: the device gives the same pixels or the same error as the CPU.

use swath::read::OnCorrupt;
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{Image, Layout, ReadRequest};
use swath_codec::predictor::Predictor;

use crate::files::{Cut, Dice, File, compress, open, texture};
use crate::pixels::CODECS;
use crate::subject::{Subject, failing, same_pixels};

pub(crate) fn damaged_lzw_is_what_the_cpu_makes_of_it(subject: &Subject) {
    damaged_streams(subject, Compression::LZW);
}

pub(crate) fn damaged_deflate_is_what_the_cpu_makes_of_it(subject: &Subject) {
    damaged_streams(subject, Compression::DEFLATE);
}

pub(crate) fn damaged_packbits_is_what_the_cpu_makes_of_it(subject: &Subject) {
    damaged_streams(subject, Compression::PACKBITS);
}

pub(crate) fn damaged_zstd_is_what_the_cpu_makes_of_it(subject: &Subject) {
    damaged_streams(subject, Compression::ZSTD);
}

/// Files in which every block is damaged in a different way, read whole, and only the first rows of every
/// block.
fn damaged_streams(subject: &Subject, compression: Compression) {
    let (mut sound, mut corrupt) = (0, 0);
    for round in 0..subject.amount(24, 1) {
        let mut dice = Dice::new(1000 + round);
        let side = [16, 32, 64][dice.below(subject.amount(3, 1))];
        let blocks = subject.amount(96, 24);
        let predicted = round % 2 == 1 && compression != Compression::PACKBITS;
        let file = File {
            width: side * blocks,
            height: side - dice.below(2),
            bands: 1 + dice.below(subject.amount(3, 1)),
            bits: 8,
            cut: Cut::Tiles(side, side),
            compression,
            predictor: if predicted { Predictor::Horizontal } else { Predictor::None },
            ..File::default()
        };
        let image = open(file.build_with(|_, block| damage(block, &mut dice)));
        let name = format!("{compression:?}, round {round}");
        let top = ReadRequest::new().window(0..1 + dice.below(side / 2) as u64, 0..file.width as u64);
        let requests = [ReadRequest::new(), top, ReadRequest::new().layout(Layout::BandsLast)];
        for request in requests.into_iter().take(subject.amount(3, 2)) {
            let filled = same_outcome(subject, &name, &image, &request.clone().on_corrupt(OnCorrupt::Fill));
            let Outcome::Pixels { filled, .. } = filled else { panic!("{name}: nothing is filled") };
            corrupt += filled.len();
            sound += blocks - filled.len();
            if !subject.slow {
                same_outcome(subject, &name, &image, &request);
            }
        }
    }
    // One corrupt block among valid ones, which must not be affected.
    for round in 0..subject.amount(60, 0) {
        let mut dice = Dice::new(7000 + round);
        let file = File { compression, bands: 2, planar: round % 2 == 0, ..File::default() };
        let bad = dice.below(file.blocks());
        let image = open(file.build_with(|number, block| {
            if number == bad {
                damage(block, &mut dice);
            }
        }));
        for on_corrupt in [OnCorrupt::Fail, OnCorrupt::Fill] {
            same_outcome(
                subject,
                &format!("{compression:?}, block {bad}"),
                &image,
                &ReadRequest::new().on_corrupt(on_corrupt),
            );
        }
    }
    let (least_sound, least_corrupt) = subject.amount((1000, 1000), (5, 5));
    assert!(sound >= least_sound && corrupt >= least_corrupt, "{compression:?}: {sound} sound, {corrupt} corrupt");
}

/// Truncates a stream, flips bits, moves pieces, or appends bytes.
fn damage(stream: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let len = stream.len();
        if len < 4 {
            return;
        }
        let at = if dice.below(3) == 0 { dice.below(len.min(16)) } else { dice.below(len) };
        let piece = (1 + dice.below(8)).min(len - at);
        match dice.below(8) {
            0 | 1 => stream[at] ^= 1 << dice.below(8),
            2 => stream[at] = [0, 1, 2, 127, 128, 129, 254, 255][dice.below(8)],
            3 => stream[at..at + piece].fill([0, 255][dice.below(2)]),
            4 => stream.copy_within(at..at + piece, dice.below(len - piece + 1)),
            5 => stream.truncate(at.max(1)),
            6 => drop(stream.drain(at..at + piece)),
            _ => stream.extend((0..piece).map(|i| i as u8)),
        }
        if dice.below(2) == 0 {
            return;
        }
    }
}

/// The outcome of a read.
#[derive(Debug, PartialEq)]
enum Outcome {
    Pixels { pixels: Vec<u8>, filled: Vec<(String, String)>, filled_blocks: u64 },
    Error(String),
}

impl Outcome {
    fn of(image: &Image, request: &ReadRequest<'_>) -> Outcome {
        Outcome::with_threads(image, request, 1)
    }

    fn with_threads(image: &Image, request: &ReadRequest<'_>, threads: usize) -> Outcome {
        match image.read(&request.clone().threads(threads)) {
            Ok(raster) => {
                let filled = raster.report.filled.iter();
                let filled = filled.map(|(block, reason)| (block.to_string(), lasting(reason)));
                let mut filled: Vec<_> = filled.collect();
                filled.sort();
                let pixels = raster.pixels.as_bytes().to_vec();
                Outcome::Pixels { pixels, filled, filled_blocks: raster.report.filled_blocks }
            }
            Err(error) => Outcome::Error(lasting(&error.to_string())),
        }
    }

    fn error(&self) -> Option<&str> {
        match self {
            Outcome::Pixels { .. } => None,
            Outcome::Error(error) => Some(error),
        }
    }
}

/// Returns the part of an error that does not depend on what was decoded before: for a corrupt stream,
/// libzstd detects one problem or another first, depending on the size of its buffers.
fn lasting(error: &str) -> String {
    let end = error.find("ZSTD stream is corrupt").map_or(error.len(), |at| at + "ZSTD stream is corrupt".len());
    error[..end].to_owned()
}

/// Reads on both, compares, and returns the outcome.
fn same_outcome(subject: &Subject, name: &str, image: &Image, request: &ReadRequest<'_>) -> Outcome {
    let expected = Outcome::of(image, request);
    let found = Outcome::of(image, &request.clone().device(&subject.gpu));
    if let (Outcome::Pixels { pixels: expected, .. }, Outcome::Pixels { pixels: found, .. }) = (&expected, &found) {
        same_pixels(name, expected, found);
    }
    assert!(expected == found, "{name}: {}, the CPU has {}", brief(&found), brief(&expected));
    found
}

/// Describes an outcome without its pixels.
fn brief(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pixels { filled, .. } => format!("pixels, {} blocks filled: {filled:?}", filled.len()),
        Outcome::Error(error) => error.clone(),
    }
}

/// Tables that point past the end of the file, or declare a block longer than it is.
pub(crate) fn blocks_outside_the_file_are_named_or_filled(subject: &Subject) {
    for compression in CODECS {
        for planar in [false, true] {
            let file = File { compression, planar, bands: 2, ..File::default() };
            let mut builder = Builder::new(ByteOrder::Little, false);
            let mut tags = file.level(&mut builder, |_, _| {});
            for (tag, value) in &mut tags {
                let Value::Long(numbers) = value else { continue };
                match *tag {
                    Tag::TILE_OFFSETS => (numbers[3], numbers[6]) = (1 << 30, u32::MAX),
                    Tag::TILE_BYTE_COUNTS => numbers[8] = 1 << 20,
                    _ => {}
                }
            }
            builder.ifd(&tags);
            let image = open(builder.finish());
            let name = format!("{compression:?}, planar {planar}");
            for request in [ReadRequest::new(), ReadRequest::new().bands([1]).layout(Layout::BandsLast)] {
                same_outcome(subject, &name, &image, &request.clone().bands([1]));
                let filled = same_outcome(subject, &name, &image, &request.on_corrupt(OnCorrupt::Fill));
                assert!(matches!(filled, Outcome::Pixels { .. }), "{name}: {}", brief(&filled));
            }
        }
    }
}

/// A disk with one unreadable place.
pub(crate) fn failing_source_gives_the_same_error_as_the_cpu(subject: &Subject) {
    for compression in [Compression::NONE, Compression::DEFLATE] {
        let image = failing(&File { compression, ..File::default() }.build());
        let failed = same_outcome(subject, "a source that fails", &image, &ReadRequest::new());
        assert!(matches!(&failed, Outcome::Error(error) if error.contains("out of order")), "{}", brief(&failed));
        let filled =
            same_outcome(subject, "a source that fails", &image, &ReadRequest::new().on_corrupt(OnCorrupt::Fill));
        assert!(matches!(&filled, Outcome::Pixels { filled_blocks: 1.., .. }), "{}", brief(&filled));
    }
}

/// Several corrupt blocks: every device and any number of threads name the first in file order, with one batch
/// and with many, and also if the device leaves blocks to the CPU that are valid.
pub(crate) fn first_corrupt_block_in_file_order_is_reported(subject: &Subject) {
    for (round, compression) in [Compression::DEFLATE, Compression::LZW, Compression::ZSTD].into_iter().enumerate() {
        // A budget for few blocks in a batch. ZSTD needs 128 KiB of working memory for each of two batches.
        let few = if compression == Compression::ZSTD { 288 << 10 } else { 8 << 10 };
        for planar in [false, true] {
            let file = File { width: 70, height: 60, bands: 3, bits: 8, planar, compression, ..File::default() };
            let (across, plane) = (5, 20);
            let mut dice = Dice::new(900 + round as u64);
            for damaged in 0..subject.amount(12, 1) {
                // The last blocks of the first plane and the first ones of the last, or any.
                let bad: Vec<usize> = match damaged {
                    0 if planar => vec![plane - 1, plane, 2 * plane],
                    0 => vec![plane - 1, 7, 13],
                    _ => (0..2 + damaged).map(|_| dice.below(file.blocks())).collect(),
                };
                let two_frames = dice.below(file.blocks());
                let image = open(file.build_with(|number, block| {
                    if bad.contains(&number) {
                        block.truncate(block.len() / 2);
                    } else if number == two_frames && compression == Compression::ZSTD {
                        // The kernel does not decode two frames, the CPU does.
                        let (first, second) = (texture(1, 100), texture(2, file.block_bytes() - 100));
                        *block = compress(compression, 3, 16, &first);
                        block.extend(compress(compression, 3, 16, &second));
                    }
                }));
                for bands in [vec![0, 1, 2], vec![2, 0], vec![1]] {
                    let planes = if planar { bands.clone() } else { vec![0] };
                    let read = bad.iter().copied().filter(|number| planes.contains(&(number / plane)));
                    let first = read.min().map(|number| {
                        let (row, col) = (number % plane / across, number % across);
                        let band = if planar { format!(" of band {}", number / plane) } else { String::new() };
                        format!("tile ({row}, {col}){band}: ")
                    });
                    let name = format!("{compression:?}, planar {planar}, {bad:?} of bands {bands:?}");
                    let request = ReadRequest::new().bands(bands);
                    names_first_block(subject, &name, &image, (&request, few), first.as_deref());
                }
            }
        }
    }
}

/// Reads with several numbers of threads and of batches. `few` is a budget for few blocks in a batch.
fn names_first_block(
    subject: &Subject,
    name: &str,
    image: &Image,
    (request, few): (&ReadRequest<'_>, u64),
    first: Option<&str>,
) {
    let is_named = |outcome: &Outcome| match (outcome, first) {
        (Outcome::Error(error), Some(first)) => error.contains(first),
        (outcome, first) => matches!(outcome, Outcome::Pixels { .. }) && first.is_none(),
    };
    for layout in [Layout::BandsFirst, Layout::BandsLast] {
        let request = request.clone().layout(layout);
        for threads in [1, 4] {
            let on_cpu = Outcome::with_threads(image, &request, threads);
            assert!(is_named(&on_cpu), "{name}: {threads} threads: {}, not {first:?}", brief(&on_cpu));
        }
        for budget in [few, 2 * few, 16 << 20] {
            let request = request.clone().gpu_memory_budget(budget);
            let found = same_outcome(subject, name, image, &request);
            assert!(is_named(&found), "{name}: budget {budget}: {}, not {first:?}", brief(&found));
            let to_device = image.read_to_device(&request, &subject.gpu).map(drop).map_err(|error| error.to_string());
            let is_same = to_device.as_ref().err().map(String::as_str).map(lasting) == found.error().map(lasting);
            assert!(is_same, "{name}: budget {budget}: {to_device:?}, not {}", brief(&found));
        }
    }
}
