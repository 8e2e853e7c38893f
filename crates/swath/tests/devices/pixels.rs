//! The device gives the same pixels as the CPU for every kind of file.

use swath::dataset::MaskOrigin;
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{Dataset, Error, FallbackPolicy, Layout, ReadRequest};
use swath_codec::SampleFormat;
use swath_codec::predictor::Predictor;

use crate::cover;
use crate::files::{Cut, Dice, File, Missing, compress, open, texture};
use crate::seeds;
use crate::subject::{Subject, same_pixels};

/// The codecs that devices decode.
pub(crate) const CODECS: [Compression; 5] =
    [Compression::NONE, Compression::LZW, Compression::DEFLATE, Compression::PACKBITS, Compression::ZSTD];

const PREDICTORS: [Predictor; 3] = [Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint];

/// Every sample type in memory, and samples of widths that start and end anywhere in a byte.
const SAMPLES: [(SampleFormat, usize); 32] = [
    (SampleFormat::Uint, 8),
    (SampleFormat::Int, 8),
    (SampleFormat::Uint, 16),
    (SampleFormat::Int, 16),
    (SampleFormat::Uint, 32),
    (SampleFormat::Int, 32),
    (SampleFormat::Uint, 64),
    (SampleFormat::Int, 64),
    (SampleFormat::Float, 16),
    (SampleFormat::Float, 32),
    (SampleFormat::Float, 64),
    (SampleFormat::ComplexInt, 32),
    (SampleFormat::ComplexInt, 64),
    (SampleFormat::ComplexFloat, 64),
    (SampleFormat::ComplexFloat, 128),
    (SampleFormat::Uint, 1),
    (SampleFormat::Uint, 2),
    (SampleFormat::Uint, 3),
    (SampleFormat::Uint, 4),
    (SampleFormat::Int, 5),
    (SampleFormat::Uint, 7),
    (SampleFormat::Uint, 9),
    (SampleFormat::Uint, 10),
    (SampleFormat::Uint, 12),
    (SampleFormat::Int, 14),
    (SampleFormat::Uint, 17),
    (SampleFormat::Uint, 20),
    (SampleFormat::Uint, 24),
    (SampleFormat::Uint, 31),
    (SampleFormat::Uint, 33),
    (SampleFormat::Uint, 48),
    (SampleFormat::Uint, 63),
];

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];
/// Bands, sizes and blocks; the first row is for runs that need small inputs.
const BANDS: [[usize; 3]; 2] = [[1, 2, 1], [1, 3, 5]];
const SIZES: [[(usize, usize); 3]; 2] = [[(17, 3), (3, 17), (1, 1)], [(17, 33), (100, 67), (1, 1)]];
const CUTS: [[Cut; 6]; 2] = [
    [Cut::Tiles(16, 16), Cut::Tiles(32, 16), Cut::Tiles(16, 32), Cut::Strips(1), Cut::Strips(3), Cut::Strips(200)],
    [Cut::Tiles(16, 16), Cut::Tiles(32, 16), Cut::Tiles(64, 64), Cut::Strips(1), Cut::Strips(7), Cut::Strips(200)],
];
const MISSING: [Missing; 4] = [Missing::None, Missing::Some, Missing::SomeWithNodata, Missing::AllWithNodata];
const LAYOUTS: [Layout; 2] = [Layout::BandsFirst, Layout::BandsLast];
/// Parts of an image: all of it, its middle, its last pixel, a row that ends before the last pixel.
const WINDOWS: usize = 4;
/// Lists of bands: all, all in reverse order, some more than once, only the last.
const BAND_LISTS: usize = 4;

/// The properties of a file and of a read, with the number of values of each. The properties that decide
/// which kernels run, and with which arguments, come first.
const COUNTS: [usize; 13] = [
    PREDICTORS.len(),
    CODECS.len(),
    SAMPLES.len(),
    ORDERS.len(),
    2,
    BANDS[0].len(),
    SIZES[0].len(),
    CUTS[0].len(),
    2,
    MISSING.len(),
    LAYOUTS.len(),
    WINDOWS,
    BAND_LISTS,
];
const PREDICTOR: usize = 0;
const CODEC: usize = 1;
const SAMPLE: usize = 2;
const ORDER: usize = 3;

/// Whether two values can be combined; the first property comes before the second.
fn go_together(property: usize, value: usize, other: usize, its_value: usize) -> bool {
    match (property, other) {
        (PREDICTOR, CODEC) => {
            PREDICTORS[value] == Predictor::None
                || !matches!(CODECS[its_value], Compression::NONE | Compression::PACKBITS)
        }
        (PREDICTOR, SAMPLE) => match (PREDICTORS[value], SAMPLES[its_value]) {
            (Predictor::None, _) => true,
            (Predictor::Horizontal, (_, bits)) => matches!(bits, 8 | 16 | 32 | 64),
            (Predictor::FloatingPoint, (format, _)) => format == SampleFormat::Float,
        },
        // Samples of three bytes have a special byte order in big-endian files, which only the CPU supports.
        (SAMPLE, ORDER) => SAMPLES[value].1 != 24 || ORDERS[its_value] == ByteOrder::Little,
        _ => true,
    }
}

/// The window and the bands that the last two properties select.
fn request(window: usize, list: usize, layout: Layout, file: &File) -> ReadRequest<'static> {
    let (width, height, bands) = (file.width as u64, file.height as u64, file.bands);
    let request = ReadRequest::new().layout(layout);
    let request = match window {
        0 => request,
        1 => request.window(height / 4..height - height / 4, width / 3..width),
        2 => request.window(height - 1..height, width - 1..width),
        _ => request.window(height / 2..height / 2 + 1, 0..(width - 1).max(1)),
    };
    match list {
        0 => request,
        1 => request.bands((0..bands).rev().collect::<Vec<_>>()),
        2 => request.bands([bands - 1, 0, bands - 1, bands / 2]),
        _ => request.bands([bands - 1]),
    }
}

/// Every predictor with every codec, sample type and byte order, planar and interleaved; and every pair of
/// all properties.
pub(crate) fn every_combination_is_the_cpus(subject: &Subject) {
    let rows = cover::rows(&COUNTS, subject.amount(ORDER + 2, 0), go_together);
    assert!(rows.len() >= subject.amount(700, 150), "{} combinations are too few", rows.len());
    let table = subject.amount(1, 0);
    for row in rows {
        let [predictor, codec, sample, order, planar, bands, size, cut, turned, missing, layout, window, list] =
            row[..]
        else {
            panic!("a value for each property")
        };
        let file = File {
            predictor: PREDICTORS[predictor],
            compression: CODECS[codec],
            format: SAMPLES[sample].0,
            bits: SAMPLES[sample].1,
            order: ORDERS[order],
            planar: planar == 1,
            bands: BANDS[table][bands],
            width: SIZES[table][size].0,
            height: SIZES[table][size].1,
            cut: CUTS[table][cut],
            lsb_first: turned == 1,
            missing: MISSING[missing],
        };
        let request = request(window, list, LAYOUTS[layout], &file);
        subject.check(&format!("{file:?} {request:?}"), &file.open(), &request);
    }
}

/// Streams of zeros, noise, text, long and short repetitions, at all compression levels: every kind of block,
/// table and length that the formats have.
pub(crate) fn every_form_of_a_stream_is_decoded(subject: &Subject) {
    // More data than a window of Deflate, a table of LZW or a block of ZSTD holds; or little more than a row.
    let (width, height) = subject.amount((640, 480), (64, 24));
    let len = width * height;
    let noise: Vec<u8> = {
        let mut dice = Dice::new(5);
        (0..len).map(|_| dice.below(256) as u8).collect()
    };
    let period = |period: usize| (0..len).map(|i| noise[i % period]).collect::<Vec<u8>>();
    let contents = [
        ("zeros", vec![0; len]),
        ("noise", noise.clone()),
        ("texture", texture(1, len)),
        ("few values", noise.iter().map(|byte| b"aaaabbc "[usize::from(byte & 7)]).collect()),
        ("period 3", period(3)),
        ("period 259", period(259)),
        ("far repetitions", period(33_000.min(len / 2))),
        ("zeros and noise", (0..len).map(|i| if i / 2000 % 2 == 0 { 0 } else { noise[i] }).collect()),
    ];
    for compression in CODECS {
        let levels: &[i32] = match compression {
            Compression::DEFLATE => subject.amount(&[1, 6, 9, 12], &[6]),
            Compression::ZSTD => subject.amount(&[1, 3, 9, 19, 22], &[19]),
            _ => &[6],
        };
        for &level in levels {
            // All contents in one file, one above the other, so that work groups do different work at the
            // same time.
            let file = File {
                width,
                height: height * contents.len(),
                cut: Cut::Strips(height),
                compression,
                bits: 8,
                ..File::default()
            };
            let bytes =
                file.build_with(|number, block| *block = compress(compression, level, width, &contents[number].1));
            let raster = subject.check(&format!("{compression:?} {level}"), &open(bytes), &ReadRequest::new());
            for (pixels, (name, content)) in raster.pixels.as_bytes().chunks(len).zip(&contents) {
                same_pixels(&format!("{name} in {compression:?} {level}"), content, pixels);
            }
        }
    }
}

/// Rows that are longer than a group can sum at once, and pixels with more bands than a group has items.
pub(crate) fn long_rows_and_many_bands_are_the_cpus(subject: &Subject) {
    let samples = [
        (SampleFormat::Uint, 8, Predictor::Horizontal),
        (SampleFormat::Float, 32, Predictor::FloatingPoint),
        (SampleFormat::Uint, 64, Predictor::Horizontal),
        (SampleFormat::Uint, 12, Predictor::None),
    ];
    let sizes = subject.amount([(5001, 1), (1700, 3), (60, 70), (9, 600)], [(1101, 1), (370, 3), (3, 40), (2, 70)]);
    for (width, bands) in sizes {
        for (format, bits, predictor) in samples.into_iter().take(subject.amount(4, 2)) {
            for (order, layout) in ORDERS.into_iter().zip(LAYOUTS).take(subject.amount(2, 1)) {
                let (height, cut) = subject.amount((5, Cut::Strips(2)), (1, Cut::Strips(1)));
                let file = File { width, height, bands, cut, format, bits, predictor, order, ..File::default() };
                let image = file.open();
                let name = format!("{file:?} {layout:?}");
                subject.check(&name, &image, &ReadRequest::new().layout(layout));
                subject.check(&name, &image, &ReadRequest::new().layout(layout).bands([bands - 1, 0]));
            }
        }
    }
}

/// Windows that start and end inside blocks, of which only a part is decoded.
pub(crate) fn windows_that_cut_blocks_are_the_cpus(subject: &Subject) {
    for (i, compression) in CODECS.into_iter().enumerate() {
        let predicted = !matches!(compression, Compression::NONE | Compression::PACKBITS);
        let file = File {
            width: 61,
            height: 53,
            bands: 3,
            compression,
            planar: i % 2 == 0,
            cut: if i % 2 == 0 { Cut::Tiles(32, 32) } else { Cut::Strips(20) },
            predictor: if predicted { Predictor::Horizontal } else { Predictor::None },
            ..File::default()
        };
        let image = file.open();
        for rows in [0..1, 0..31, 31..33, 5..40, 20..21, 52..53, 0..53] {
            for cols in [0..1, 0..61, 31..33, 60..61] {
                for layout in LAYOUTS {
                    let request = ReadRequest::new().window(rows.clone(), cols.clone()).bands([2, 0]).layout(layout);
                    subject.check(&format!("{compression:?} {request:?}"), &image, &request);
                }
            }
        }
    }
}

/// All kinds of files from the other tests, many of them with codecs and colours that have no kernel.
pub(crate) fn files_of_every_kind_are_the_cpus(subject: &Subject) {
    let (mut on_device, mut refused) = (0, 0);
    for (name, bytes) in seeds::all() {
        let dataset = Dataset::from_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let image = dataset.image(0).unwrap_or_else(|error| panic!("{name}: {error}"));
        for level in 0..image.levels().len() {
            let request = ReadRequest::new().level(level);
            let expected = image.read(&request).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
            let on = request.clone().device(&subject.gpu);
            let found = image.read(&on).unwrap_or_else(|error| panic!("{name}: {error}"));
            same_pixels(&name, expected.pixels.as_bytes(), found.pixels.as_bytes());
            let fallbacks = found.report.gpu.map_or(0, |gpu| gpu.fallbacks.len());
            match image.read(&on.fallback(FallbackPolicy::Strict)) {
                Ok(_) => on_device += 1,
                Err(Error::Fallback { .. }) if fallbacks > 0 => refused += 1,
                Err(error) => panic!("{name}: {fallbacks} fallbacks were reported, but then: {error}"),
            }
        }
        let expected = image.read_mask(&ReadRequest::new()).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
        let found = image.read_mask(&ReadRequest::new().device(&subject.gpu));
        let found = found.unwrap_or_else(|error| panic!("{name}: mask: {error}"));
        assert_eq!((found.origin, found.values == expected.values), (expected.origin, true), "{name}: mask");
    }
    assert!(on_device >= 35 && refused >= 20, "{on_device} were read on the device, {refused} were not");
}

/// Overviews with their own blocks, and the masks of all levels, with one bit per pixel.
pub(crate) fn overviews_and_masks_are_the_cpus(subject: &Subject) {
    for order in ORDERS {
        let full =
            File { width: 70, height: 45, bands: 3, order, compression: Compression::DEFLATE, ..File::default() };
        let half = File { width: 35, height: 23, cut: Cut::Tiles(32, 16), ..full };
        let mask = |file: File| File { bands: 1, bits: 1, ..file };
        let mut builder = Builder::new(order, false);
        for (kind, file) in [(0, full), (1, half), (4, mask(full)), (5, mask(half))] {
            let mut tags = file.level(&mut builder, |_, _| {});
            tags.push((Tag::NEW_SUBFILE_TYPE, Value::Long(vec![kind])));
            if kind & 4 != 0 {
                tags.retain(|(tag, _)| *tag != Tag::PHOTOMETRIC);
                tags.push((Tag::PHOTOMETRIC, Value::Short(vec![4])));
            }
            builder.ifd(&tags);
        }
        let image = open(builder.finish());
        assert_eq!((image.levels().len(), image.masks().len()), (2, 2));
        for level in 0..2 {
            for request in [ReadRequest::new(), ReadRequest::new().window(3..20, 1..34).bands([2, 1])] {
                let request = request.level(level);
                subject.check(&format!("level {level}"), &image, &request);
                let expected = image.read_mask(&request).expect("the CPU reads the mask");
                let found = image.read_mask(&subject.strict(&request)).expect("the device reads the mask");
                assert_eq!(found.origin, MaskOrigin::MaskImage);
                assert!(expected.values.contains(&0) && expected.values.contains(&255));
                same_pixels(&format!("mask of level {level}"), &expected.values, &found.values);
                let device = found.report.gpu.expect("the mask was read by the device");
                assert!(device.stats.launches > 0);
            }
        }
    }
}
