//! Nodata to NaN, scale and offset on the device: the numbers are those of the CPU, bit for bit.

use half::f16;
use swath::read::{Placement, Unpack};
use swath::tiff::nodata::NoData;
use swath::tiff::{ByteOrder, Compression};
use swath::{DType, Device, FallbackPolicy, Image, Layout, ReadRequest};
use swath_codec::SampleFormat;
use swath_codec::predictor::Predictor;

use crate::files::{Cut, File, Missing, open};
use crate::subject::{Subject, same_pixels};

const TYPES: [(SampleFormat, usize); 12] = [
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
    (SampleFormat::Uint, 5),
];

/// Floats whose arithmetic devices get wrong: zeros, the smallest, the largest, infinities and NaN of all kinds. `0` are the bits of the sign,
/// and of the exponent.
fn specials(mantissa: u32, exponent: u32) -> Vec<u64> {
    let infinity = ((1_u64 << exponent) - 1) << mantissa;
    let positive = [
        0,
        1,
        2,
        (1 << mantissa) - 1,
        1 << mantissa,
        (1 << mantissa) + 1,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity + (1 << (mantissa - 1)),
        infinity + (1 << (mantissa - 1)) + 5,
        ((1_u64 << (exponent - 1)) - 1) << mantissa,
    ];
    let negative = positive.map(|bits| bits | 1 << (mantissa + exponent));
    positive.into_iter().chain(negative).collect()
}

/// Replaces samples of an uncompressed block by floats that are special.
fn make_special(bits: usize, block: &mut [u8]) {
    let values = match bits {
        16 => specials(10, 5),
        32 => specials(23, 8),
        _ => specials(52, 11),
    };
    let size = bits / 8;
    for (sample, value) in block.chunks_exact_mut(size).step_by(3).zip(values.iter().cycle()) {
        sample.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// A sample as the CPU has it.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Single(f32),
    Double(f64),
}

fn number(dtype: DType, bytes: &[u8]) -> Number {
    macro_rules! from {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.try_into().expect("a sample"))
        };
    }
    match dtype {
        DType::U8 => Number::Whole(from!(u8).into()),
        DType::I8 => Number::Whole(from!(i8).into()),
        DType::U16 => Number::Whole(from!(u16).into()),
        DType::I16 => Number::Whole(from!(i16).into()),
        DType::U32 => Number::Whole(from!(u32).into()),
        DType::I32 => Number::Whole(from!(i32).into()),
        DType::U64 => Number::Whole(from!(u64).into()),
        DType::I64 => Number::Whole(from!(i64).into()),
        DType::F16 => Number::Single(f16::from_ne_bytes(bytes.try_into().expect("a sample")).to_f32()),
        DType::F32 => Number::Single(from!(f32)),
        DType::F64 => Number::Double(from!(f64)),
        other => panic!("{other}"),
    }
}

/// What the CPU makes of a sample: the bytes of the result, and whether the sample is nodata.
fn expected(
    (dtype, target): (DType, DType),
    sample: &[u8],
    (nodata, mask): (Option<NoData>, bool),
    factors: Option<(f64, f64)>,
) -> (Vec<u8>, bool) {
    let value = number(dtype, sample);
    let hit = nodata.is_some_and(|nodata| match (value, nodata) {
        (Number::Whole(value), NoData::Uint(nodata)) => value == i128::from(nodata),
        (Number::Whole(value), NoData::Int(nodata)) => value == i128::from(nodata),
        (Number::Whole(value), NoData::Float(nodata)) => nodata.fract() == 0.0 && value == nodata as i128,
        (Number::Single(value), nodata) => {
            let nodata = nodata.value_f64() as f32;
            value == nodata || (value.is_nan() && nodata.is_nan())
        }
        (Number::Double(value), nodata) => {
            value == nodata.value_f64() || (value.is_nan() && nodata.value_f64().is_nan())
        }
    });
    let becomes_nan = hit && mask && !nodata.is_some_and(|nodata| nodata.value_f64().is_nan());
    let changes = becomes_nan || factors.is_some() || mask;
    if dtype == target && !changes {
        return (sample.to_vec(), hit);
    }
    let bytes = match value {
        Number::Single(value) => {
            let scaled = factors.map_or(value, |(scale, offset)| value * scale as f32 + offset as f32);
            let result = if becomes_nan { f32::NAN } else { scaled };
            if target == DType::F64 { f64::from(result).to_ne_bytes().to_vec() } else { result.to_ne_bytes().to_vec() }
        }
        Number::Whole(_) | Number::Double(_) => {
            let value = match value {
                Number::Whole(value) => value as f64,
                Number::Double(value) => value,
                Number::Single(value) => value.into(),
            };
            let scaled = factors.map_or(value, |(scale, offset)| value * scale + offset);
            let result = if becomes_nan { f64::NAN } else { scaled };
            if target == DType::F32 { (result as f32).to_ne_bytes().to_vec() } else { result.to_ne_bytes().to_vec() }
        }
    };
    (bytes, hit)
}

/// One conversion.
struct Case {
    nodata: Option<NoData>,
    mask: bool,
    factors: Vec<(f64, f64)>,
    dtype: Option<DType>,
}

impl Case {
    fn unpack(&self) -> Unpack {
        let unpack = Unpack::new().mask(self.mask).factors(self.factors.clone());
        let unpack = self.nodata.into_iter().fold(unpack, |unpack, nodata| unpack.nodata(nodata));
        self.dtype.into_iter().fold(unpack, |unpack, dtype| unpack.dtype(dtype))
    }

    /// Reads on the device, and compares every sample with what the CPU makes of it.
    fn check(&self, subject: &Subject, name: &str, image: &Image, request: &ReadRequest<'_>) -> swath::ReadReport {
        let stored = image.read(&request.clone().device(Device::Cpu).layout(Layout::BandsLast)).expect("the CPU reads");
        let (dtype, [rows, cols, bands]) = (image.dtype(), stored.shape);
        let (raster, report) = image
            .read_to_device_unpacked(request, &self.unpack(), &subject.gpu)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let target = raster.dtype();
        let mut found = false;
        let size = target.size();
        let mut wanted = vec![0; rows * cols * bands * size];
        let samples = stored.pixels.as_bytes().chunks_exact(dtype.size());
        for (index, sample) in samples.enumerate() {
            let (pixel, band) = (index / bands, index % bands);
            let factors = self.factors.get(if self.factors.len() == 1 { 0 } else { band }).copied();
            let (bytes, hit) = expected((dtype, target), sample, (self.nodata, self.mask), factors);
            found |= hit;
            let at = if raster.bands_last() { index } else { band * rows * cols + pixel };
            wanted[at * size..(at + 1) * size].copy_from_slice(&bytes);
        }
        let mut pixels = vec![0xa5; raster.bytes() as usize];
        raster.download(&mut pixels).expect("it downloads");
        same_pixels(name, &wanted, &pixels);
        let looked = self.nodata.is_some();
        assert!(report.nodata_found.unwrap_or(false) == (looked && found), "{name}: {:?}", report.nodata_found);
        report
    }
}

/// A sample of the image as a nodata value.
fn some_sample(image: &Image) -> NoData {
    let raster = image.read(&ReadRequest::new()).expect("the CPU reads");
    let samples = raster.pixels.as_bytes().chunks_exact(image.dtype().size());
    let value = samples.skip(20).find_map(|sample| match number(image.dtype(), sample) {
        Number::Whole(value) => Some(i64::try_from(value).map_or(NoData::Uint(value as u64), NoData::Int)),
        Number::Single(value) => value.is_normal().then(|| NoData::Float(value.into())),
        Number::Double(value) => value.is_normal().then_some(NoData::Float(value)),
    });
    value.expect("a number")
}

fn cases(image: &Image, little: bool) -> Vec<Case> {
    let value = Some(some_sample(image));
    let case = |nodata, mask, factors: &[(f64, f64)], dtype| Case { nodata, mask, factors: factors.to_vec(), dtype };
    let mut cases = vec![
        case(value, true, &[(0.25, -3.5)], None),
        case(value, true, &[], None),
        case(value, false, &[], None),
        case(Some(NoData::Float(f64::NAN)), true, &[], Some(DType::F64)),
        case(value, true, &[(1e-3, -273.15), (1.0, 0.0), (-3e7, 0.1)], Some(DType::F32)),
    ];
    if !little {
        cases.extend([
            case(value, true, &[], Some(DType::F32)),
            case(value, true, &[(0.1, 0.0)], Some(DType::F64)),
            case(None, false, &[(1.0, 5.0)], None),
            case(None, true, &[], Some(DType::F64)),
            // Out of the range of most integers, and a fraction.
            case(Some(NoData::Float(1e30)), true, &[(2.0, 1.0)], None),
            case(Some(NoData::Float(0.5)), true, &[], Some(DType::F64)),
            case(Some(NoData::Int(0)), true, &[(0.5, 0.0)], None),
            // Factors that are 0, infinite or very small as singles.
            case(value, true, &[(1e-60, 1.0)], None),
            case(value, true, &[(1e60, -1e60)], None),
            case(value, true, &[(1e-40, 1e-44)], None),
        ]);
    }
    cases
}

/// Every sample type with every conversion, in both layouts, chunky and planar.
pub(crate) fn every_type_is_converted_as_on_the_cpu(subject: &Subject) {
    for (i, (format, bits)) in TYPES.into_iter().enumerate() {
        let planar = i % 2 == 1;
        let (width, height) = subject.amount((50, 40), (18, 17));
        let cut = [Cut::Tiles(16, 16), Cut::Strips(9)][i % 2];
        let compression = [Compression::NONE, Compression::DEFLATE][usize::from(bits < 16)];
        let file = File { width, height, bands: 3, cut, planar, compression, format, bits, ..File::default() };
        let image = open(file.build_with(|_, block| {
            if format == SampleFormat::Float {
                make_special(bits, block);
            }
        }));
        for (number, case) in cases(&image, subject.slow).into_iter().enumerate() {
            let layout = [Layout::BandsFirst, Layout::BandsLast][(i + number) % 2];
            let name = format!("{format:?} {bits}, case {number}, planar {planar}, {layout:?}");
            let request = subject.strict(&ReadRequest::new()).layout(layout);
            case.check(subject, &name, &image, &request);
            if number == 0 {
                case.check(subject, &name, &image, &request.window(3..17, 15..18));
            }
        }
    }
}

/// Predictors, byte orders and blocks that the file does not store, in many batches: each costs one wait.
pub(crate) fn converted_samples_of_every_storage_cost_one_wait_per_batch(subject: &Subject) {
    let both = [ByteOrder::Little, ByteOrder::Big];
    for (i, predictor) in [Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint].into_iter().enumerate() {
        for order in both {
            let format = if i == 2 { SampleFormat::Float } else { SampleFormat::Int };
            let (width, height) = subject.amount((70, 60), (18, 17));
            let missing = Missing::SomeWithNodata;
            let compression = Compression::PACKBITS;
            let base = File { width, height, compression, predictor, order, format, bits: 32, ..File::default() };
            let image = File { missing, ..base }.open();
            let unpack = [(0.25, 1.0)];
            let case = Case { nodata: Some(NoData::Int(7)), mask: true, factors: unpack.to_vec(), dtype: None };
            for budget in [1 << 20, 30_000] {
                let name = format!("{predictor:?} {order:?}, budget {budget}");
                let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(budget);
                let report = case.check(subject, &name, &image, &request);
                assert_eq!(report.nodata_found, Some(true), "{name}: the blocks that are not stored are nodata");
                let stats = report.gpu.expect("a device read").stats;
                assert_eq!((stats.synchronisations, stats.downloads), (report.batches, report.batches), "{name}");
            }
        }
    }
}

/// Blocks that the CPU reads, and reads that it does alone, are converted by the same kernel.
pub(crate) fn samples_that_the_cpu_decodes_are_converted_too(subject: &Subject) {
    let factors = vec![(0.5, 1.0), (2.0, -1.0), (1.0, 0.0)];
    let auto = ReadRequest::new().device(&subject.gpu).fallback(FallbackPolicy::Auto).placement(Placement::Device);
    for planar in [false, true] {
        for compression in [Compression::DEFLATE, Compression::LZMA] {
            let (width, height) = subject.amount((50, 40), (33, 20));
            let file = File { width, height, bands: 3, planar, compression, bits: 8, ..File::default() };
            let image = file.open();
            let nodata = Some(some_sample(&image));
            let case = Case { nodata, mask: true, factors: factors.clone(), dtype: Some(DType::F32) };
            for layout in [Layout::BandsFirst, Layout::BandsLast] {
                let name = format!("{compression:?}, planar {planar}, {layout:?}");
                case.check(subject, &name, &image, &auto.clone().layout(layout));
            }
        }
        // Corrupt blocks are filled with nodata.
        let file = File { bands: 3, planar, compression: Compression::DEFLATE, bits: 16, ..File::default() };
        let image = open(file.build_with(|number, block| {
            if number % 5 == 2 {
                block.truncate(block.len() / 2);
            }
        }));
        let case = Case { nodata: Some(NoData::Int(0)), mask: true, factors: factors.clone(), dtype: None };
        let request = auto.clone().on_corrupt(swath::read::OnCorrupt::Fill);
        let report = case.check(subject, "corrupt", &image, &request);
        assert_eq!(report.nodata_found, Some(true));
    }
}

/// Conversions that no kernel does are refused before the device gets anything.
pub(crate) fn conversion_without_a_kernel_is_a_typed_error(subject: &Subject) {
    let read = |file: &File, unpack: Unpack| {
        file.open().read_to_device_unpacked(&subject.strict(&ReadRequest::new()), &unpack, &subject.gpu).map(drop)
    };
    let complex = File { format: SampleFormat::ComplexFloat, bits: 64, ..File::default() };
    let error = read(&complex, Unpack::new().nodata(NoData::Int(0)).mask(true)).expect_err("complex");
    assert!(matches!(error, swath::Error::Unpack { stored: DType::CF32, .. }), "{error}");
    let error = read(&File::default(), Unpack::new().dtype(DType::I32)).expect_err("integers");
    assert!(matches!(error, swath::Error::Unpack { stored: DType::U16, dtype: DType::I32 }), "{error}");
    let three = File { bands: 3, ..File::default() };
    let error = read(&three, Unpack::new().factors([(1.0, 0.0), (2.0, 0.0)])).expect_err("two pairs for three bands");
    assert!(matches!(error, swath::Error::UnpackFactors { given: 2, bands: 3 }), "{error}");
}
