//! Tests of the hazards of overviews.

use super::*;
use crate::read::pixels::Pixels;

pub(crate) const METHODS: [Resampling; 9] = [
    Resampling::Nearest,
    Resampling::Mean,
    Resampling::Min,
    Resampling::Max,
    Resampling::Median,
    Resampling::Mode,
    Resampling::Bilinear,
    Resampling::Cubic,
    Resampling::Gauss,
];

/// Reduces whole images in calls of `group` rows. Each call gets only the source rows that it needs.
fn reduce_grouped<T: crate::Sample>(
    reduction: &Reduction,
    samples: &[T],
    mask: Option<&[u8]>,
    width: usize,
    group: u64,
) -> (Vec<T>, Vec<u8>) {
    let height = (samples.len() / width) as u64;
    let (rows, cols) = (height.div_ceil(reduction.factor as u64), width.div_ceil(reduction.factor));
    let mut out: Vec<T> = bytemuck::zeroed_vec(rows as usize * cols);
    let mut out_mask = vec![7; rows as usize * cols];
    let mut scratch = ReduceScratch::default();
    let mut row = 0;
    while row < rows {
        let end = (row + group).min(rows);
        let source = reduction.source_rows(row..end, height);
        let cut = source.start as usize * width..source.end as usize * width;
        let plane = |samples| Plane { samples, first: source.start, width, height };
        let mask = mask.map(|mask| plane(&mask[cut.clone()]));
        let to = row as usize * cols..end as usize * cols;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut out[to.clone()]);
        reduction.reduce(plane(bytemuck::cast_slice(&samples[cut.clone()])), mask, row..end, bytes, &mut scratch);
        if let Some(mask) = mask {
            reduction.reduce_mask(mask, row..end, &mut out_mask[to]);
        }
        row = end;
    }
    (out, out_mask)
}

fn reduction<T: crate::Sample>(method: Resampling, factor: usize, nodata: Option<NoData>) -> Reduction {
    Reduction { method, factor, dtype: T::DTYPE, nodata }
}

/// Reduces one block of `samples` with `width` columns.
fn one<T: crate::Sample>(method: Resampling, samples: &[T], width: usize, nodata: Option<NoData>) -> T {
    let factor = width.max(samples.len() / width).max(2);
    reduce_grouped(&reduction::<T>(method, factor, nodata), samples, None, width, 1).0[0]
}

/// Pseudo-random numbers, the same in every run.
fn noise(count: usize, mut seed: u64) -> Vec<u64> {
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 33
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn names_are_those_of_the_table() {
    assert_eq!(METHODS.map(Resampling::name), Resampling::NAMES);
    assert!(METHODS.iter().all(|method| Resampling::from_name(method.name()) == Some(*method)));
    assert_eq!(Resampling::from_name("average"), Some(Resampling::Mean));
    assert_eq!(Resampling::from_name("Mean "), None);
}

#[test]
fn sentinel_is_never_averaged() {
    for method in METHODS.into_iter().skip(1) {
        let nodata = Some(NoData::Int(-9999));
        assert_eq!(one(method, &[7_i16, -9999, -9999, 7], 2, nodata), 7, "{method:?}");
        let nodata = Some(NoData::Float(-9999.0));
        assert_eq!(one(method, &[7.0_f32, -9999.0, -9998.999, 7.0], 2, nodata), 7.0, "{method:?}");
        assert_eq!(one(method, &[7.0_f64, -9999.0, 7.0, 7.0], 2, nodata), 7.0, "{method:?}");
    }
    assert_eq!(one(Resampling::Mean, &[7_i16, -9999, 7, 8], 2, None), -2494);
}

#[test]
fn nan_is_missing_whatever_nodata_is() {
    for nodata in [None, Some(NoData::Float(-9999.0)), Some(NoData::Float(f64::NAN))] {
        for method in METHODS.into_iter().skip(1) {
            assert_eq!(one(method, &[f32::NAN, 3.0, 3.0, f32::NAN], 2, nodata), 3.0, "{method:?}");
            assert_eq!(one(method, &[f64::NAN, 3.0, 3.0, f64::NAN], 2, nodata), 3.0, "{method:?}");
        }
    }
    let half = half::f16::from_f32;
    assert_eq!(one(Resampling::Mean, &[half::f16::NAN, half(3.0), half(4.0), half::f16::NAN], 2, None), half(3.5));
}

#[test]
fn nearest_takes_the_first_pixel_even_if_missing() {
    let nodata = Some(NoData::Int(-9999));
    assert_eq!(one(Resampling::Nearest, &[-9999_i16, 2, 3, 4], 2, nodata), -9999);
    let samples: Vec<u16> = (0..35).collect();
    let nearest = reduce_grouped(&reduction::<u16>(Resampling::Nearest, 2, None), &samples, None, 7, 2).0;
    assert_eq!(nearest, [0, 2, 4, 6, 14, 16, 18, 20, 28, 30, 32, 34]);
    let nearest = reduce_grouped(&reduction::<u16>(Resampling::Nearest, 3, None), &samples, None, 7, 1).0;
    assert_eq!(nearest, [0, 3, 6, 21, 24, 27]);
}

#[test]
fn halves_are_rounded_away_from_zero() {
    assert_eq!(one(Resampling::Mean, &[1_u8, 2, 1, 2], 2, None), 2);
    assert_eq!(one(Resampling::Mean, &[-1_i16, -2, -1, -2], 2, None), -2);
    assert_eq!(one(Resampling::Mean, &[-1_i32, -1, -1, -2], 2, None), -1);
    assert_eq!(one(Resampling::Mean, &[-1_i8, -2], 2, None), -2);
    assert_eq!(one(Resampling::Median, &[-1_i16, -2, -9, 5], 2, None), -2);
    // Means of 2, 3 and 6 pixels, with and without a missing pixel.
    for (a, b, c) in [(5_i64, 6, 6), (-5, -6, -5), (-3, 4, -6)] {
        let half_away = |sum: i64, count: i64| sum.signum() * ((2 * sum.abs() + count) / (2 * count));
        let (x, y, z) = (a as i16, b as i16, c as i16);
        let nodata = Some(NoData::Int(99));
        assert_eq!(i64::from(one(Resampling::Mean, &[x, y, z, 99], 2, nodata)), half_away(a + b + c, 3));
        assert_eq!(i64::from(one(Resampling::Mean, &[x, y, 99, 99], 2, nodata)), half_away(a + b, 2));
        assert_eq!(i64::from(one(Resampling::Mean, &[x, y, z, x, y, z], 3, None)), half_away(2 * (a + b + c), 6));
        assert_eq!(one(Resampling::Mean, &[a, b, c, 99], 2, nodata), half_away(a + b + c, 3));
    }
}

#[test]
fn mean_that_equals_nodata_is_not_a_hole() {
    assert_eq!(one(Resampling::Mean, &[1_u8, 3, 1, 3], 2, Some(NoData::Uint(2))), 3);
    assert_eq!(one(Resampling::Mean, &[-1_i64, 1, -3, 3], 2, Some(NoData::Int(0))), 1);
    assert_eq!(one(Resampling::Mean, &[1_i16, 3, 2, 2], 2, Some(NoData::Int(2))), 3);
    assert_eq!(one(Resampling::Median, &[1_u8, 3, 1, 3], 2, Some(NoData::Uint(2))), 3);
    assert_eq!(one(Resampling::Bilinear, &[1_u8, 3, 1, 3], 2, Some(NoData::Uint(2))), 3);
    for nodata in [2.0, -2.0] {
        let samples = [nodata - 1.0, nodata + 1.0, nodata - 1.0, nodata + 1.0];
        let mean = one(Resampling::Mean, &samples.map(|sample| sample as f32), 2, Some(NoData::Float(nodata)));
        assert!(mean > nodata as f32 && mean < nodata as f32 + 3e-6, "{mean}");
        let pixels = Pixels::F32(vec![mean]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(nodata)).unwrap(), [255], "the reader sees {mean} as nodata");
    }
}

#[test]
fn block_without_data_is_nodata_or_nan_or_zero() {
    for method in METHODS.into_iter().skip(1) {
        assert_eq!(one(method, &[-9999_i32; 4], 2, Some(NoData::Int(-9999))), -9999, "{method:?}");
        assert_eq!(one(method, &[f32::NAN; 4], 2, Some(NoData::Float(-9999.0))), -9999.0, "{method:?}");
        assert!(one(method, &[f32::NAN; 4], 2, None).is_nan(), "{method:?}");
        // No half float equals -9999, so a reader would not recognise such a value as nodata.
        assert!(one(method, &[half::f16::NAN; 4], 2, Some(NoData::Float(-9999.0))).is_nan(), "{method:?}");
        let masked = reduce_grouped(&reduction::<u8>(method, 2, Some(NoData::Int(-1))), &[9; 4], Some(&[0; 4]), 2, 1);
        assert_eq!(masked, (vec![0], vec![0]), "{method:?}");
    }
}

#[test]
fn wide_integers_are_exact() {
    const BIG: i64 = (1 << 53) + 1;
    assert_eq!(one(Resampling::Mean, &[BIG; 4], 2, None), BIG);
    assert_eq!(one(Resampling::Mean, &[i64::MIN; 4], 2, None), i64::MIN);
    assert_eq!(one(Resampling::Mean, &[u64::MAX, u64::MAX, u64::MAX, u64::MAX - 2], 2, None), u64::MAX);
    assert_eq!(one(Resampling::Mean, &[u64::MAX, u64::MAX, u64::MAX, u64::MAX - 3], 2, None), u64::MAX - 1);
    assert_eq!(one(Resampling::Max, &[BIG - 1, BIG], 2, None), BIG);
    assert_eq!(one(Resampling::Min, &[u64::MAX, u64::MAX - 1], 2, None), u64::MAX - 1);
    assert_eq!(one(Resampling::Mean, &[BIG, BIG - 1, BIG, BIG], 2, Some(NoData::Int(BIG - 1))), BIG);
    assert_eq!(one(Resampling::Mean, &[u32::MAX; 4], 2, None), u32::MAX);
    assert_eq!(one(Resampling::Cubic, &[u64::MAX; 4], 2, None), u64::MAX);
}

#[test]
fn sum_of_large_blocks_does_not_overflow() {
    let samples = vec![u16::MAX; 200 * 300];
    assert_eq!(one(Resampling::Mean, &samples, 300, None), u16::MAX);
    let samples = vec![i16::MIN; 200 * 300];
    assert_eq!(one(Resampling::Mean, &samples, 300, None), i16::MIN);
}

#[test]
fn greatest_floats_do_not_overflow() {
    assert_eq!(one(Resampling::Mean, &[f32::MAX; 4], 2, None), f32::MAX);
    assert_eq!(one(Resampling::Mean, &[f64::MAX; 4], 2, None), f64::MAX);
    assert_eq!(one(Resampling::Mean, &[f64::MAX, f64::MAX, f64::MIN, f64::MIN], 2, None), 0.0);
    assert_eq!(one(Resampling::Mean, &[f64::MAX, f64::MAX, f64::NAN, f64::NAN], 2, None), f64::MAX);
    assert_eq!(one(Resampling::Mean, &[f32::INFINITY, 1.0, 1.0, 1.0], 2, None), f32::INFINITY);
    assert_eq!(one(Resampling::Mean, &[f64::NEG_INFINITY, 1.0, 1.0, 1.0], 2, None), f64::NEG_INFINITY);
}

#[test]
fn cubic_does_not_overshoot_at_the_edge_of_data() {
    let row = |col: usize| if col < 8 { 100.0_f32 } else { 200.0 };
    let samples: Vec<f32> = (0..256).map(|at| if at % 16 < 12 { row(at % 16) } else { -9999.0 }).collect();
    let nodata = Some(NoData::Float(-9999.0));
    let out = reduce_grouped(&reduction::<f32>(Resampling::Cubic, 2, nodata), &samples, None, 16, 8).0;
    // The step between two valid regions overshoots as in GDAL; the border to missing pixels does not.
    assert!((out[26] - 98.828125).abs() < 1e-4, "{}", out[26]);
    assert!(out[29] <= 200.0 && out[30] == 200.0 && out[31] == -9999.0, "{:?}", &out[24..32]);
}

#[test]
fn kernels_of_infinities_do_not_spread_through_weights_of_zero() {
    let mut samples = vec![1.0_f32; 81];
    samples[4 * 9 + 2] = f32::INFINITY;
    let out = reduce_grouped(&reduction::<f32>(Resampling::Cubic, 3, None), &samples, None, 9, 1).0;
    assert!(out.iter().all(|value| !value.is_nan()), "{out:?}");
}

#[test]
fn grouping_of_rows_does_not_matter() {
    for method in METHODS {
        for (width, height) in [(1, 1), (1, 37), (41, 1), (2, 3), (29, 23)] {
            for factor in [2, 3, 4, 5, 8, 64] {
                let noise = noise(width * height, 11 * (width * factor) as u64);
                let floats: Vec<f32> =
                    noise.iter().map(|&x| if x % 7 == 0 { f32::NAN } else { (x % 1000) as f32 * 0.37 }).collect();
                let bytes: Vec<u8> = noise.iter().map(|&x| (x % 11) as u8).collect();
                let mask: Vec<u8> = noise.iter().map(|&x| if x % 3 == 0 { 0 } else { 255 }).collect();
                let float = reduction::<f32>(method, factor, Some(NoData::Float(3.7)));
                let byte = reduction::<u8>(method, factor, Some(NoData::Uint(4)));
                let bits =
                    |(out, mask): (Vec<f32>, Vec<u8>)| (out.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), mask);
                for mask in [None, Some(&mask[..])] {
                    let whole = bits(reduce_grouped(&float, &floats, mask, width, u64::MAX / 2));
                    let whole_bytes = reduce_grouped(&byte, &bytes, mask, width, u64::MAX / 2);
                    for group in [1, 2, 3, 7] {
                        assert_eq!(
                            bits(reduce_grouped(&float, &floats, mask, width, group)),
                            whole,
                            "{method:?} {factor} {width}"
                        );
                        assert_eq!(
                            reduce_grouped(&byte, &bytes, mask, width, group),
                            whole_bytes,
                            "{method:?} {factor} {width}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn mask_is_valid_exactly_where_there_is_a_value() {
    for method in METHODS {
        for (width, height) in [(1, 1), (1, 37), (41, 1), (29, 23), (64, 64)] {
            for factor in [2, 3, 5, 8] {
                for sparse in [2, 9, 40] {
                    let noise = noise(width * height, (factor * sparse) as u64);
                    let mask: Vec<u8> = noise.iter().map(|&x| if x % sparse as u64 == 0 { 1 } else { 0 }).collect();
                    let samples: Vec<f32> = mask.iter().map(|&valid| if valid == 0 { f32::NAN } else { 1.0 }).collect();
                    let reduction = reduction::<f32>(method, factor, None);
                    let (out, out_mask) = reduce_grouped(&reduction, &samples, Some(&mask), width, 3);
                    let expected: Vec<u8> = out.iter().map(|value| if value.is_nan() { 0 } else { 255 }).collect();
                    assert_eq!(out_mask, expected, "{method:?} {factor} {width} x {height}");
                }
            }
        }
    }
}

#[test]
fn missing_by_mask_by_nodata_and_by_nan_are_the_same() {
    for method in METHODS.into_iter().skip(1) {
        for factor in [2, 3, 4, 6] {
            let noise = noise(45 * 31, 5);
            let hole = |x: u64| (x / 64).is_multiple_of(3);
            let mask: Vec<u8> = noise.iter().map(|&x| u8::from(!hole(x))).collect();
            let with = |missing: f32| -> Vec<f32> {
                noise.iter().map(|&x| if hole(x) { missing } else { (x % 512) as f32 }).collect()
            };
            let reduced = |samples: &[f32], mask: Option<&[u8]>, nodata| -> Vec<f32> {
                let nodata = Some(NoData::Float(nodata));
                reduce_grouped(&reduction::<f32>(method, factor, nodata), samples, mask, 45, 2).0
            };
            let masked = reduced(&with(12345.0), Some(&mask), -1e6);
            assert_eq!(reduced(&with(-1e6), None, -1e6), masked, "{method:?} {factor}");
            assert_eq!(reduced(&with(f32::NAN), None, -1e6), masked, "{method:?} {factor}");
        }
    }
}

/// Computes the result directly from the definition, pixel by pixel.
fn by_definition(method: Resampling, factor: usize, samples: &[i32], width: usize, nodata: i32) -> Vec<i32> {
    let height = samples.len() / width;
    let mut out = Vec::new();
    for top in (0..height).step_by(factor) {
        for left in (0..width).step_by(factor) {
            let rows = top..(top + factor).min(height);
            let block =
                rows.flat_map(|row| (left..(left + factor).min(width)).map(move |col| samples[row * width + col]));
            let mut values: Vec<i64> = block.filter(|&value| value != nodata).map(i64::from).collect();
            let rounded = |sum: i64, count: i64| (sum as f64 / count as f64).round() as i64;
            let mean = |values: &[i64]| rounded(values.iter().sum(), values.len() as i64);
            let value = if values.is_empty() {
                i64::from(nodata)
            } else {
                match method {
                    Resampling::Min => *values.iter().min().unwrap(),
                    Resampling::Max => *values.iter().max().unwrap(),
                    Resampling::Mean => mean(&values),
                    _ => {
                        values.sort_unstable();
                        mean(&values[(values.len() - 1) / 2..=values.len() / 2])
                    }
                }
            };
            let moved = !values.is_empty() && value == i64::from(nodata);
            out.push((value + i64::from(moved)) as i32);
        }
    }
    out
}

#[test]
fn results_follow_the_definitions_in_every_type() {
    fn check<T: Number>(modulus: u64, less: i32, nodata: i32) {
        // Wider than a segment of the fast loops, with long runs of data between the gaps.
        for (width, height, factor) in
            [(1, 9, 2), (9, 1, 4), (5001, 5, 2), (4100, 7, 3), (4097, 8, 4), (2600, 11, 5), (3, 40, 16)]
        {
            let noise = noise(width * height, modulus + width as u64);
            let hole = |at: usize, x: u64| at / 1500 % 2 == 1 && x % 5 < 3;
            let value = |(at, &x): (usize, &u64)| if hole(at, x) { nodata } else { (x % modulus) as i32 - less };
            let samples: Vec<i32> = noise.iter().enumerate().map(value).collect();
            let typed: Vec<T> = samples.iter().map(|&sample| T::from_f64(sample.into())).collect();
            for method in [Resampling::Mean, Resampling::Min, Resampling::Max, Resampling::Median] {
                let expected = by_definition(method, factor, &samples, width, nodata);
                let reduction = reduction::<T>(method, factor, Some(NoData::Int(nodata.into())));
                let out = reduce_grouped(&reduction, &typed, None, width, 2).0;
                let out: Vec<i32> = out
                    .iter()
                    .map(|value| if T::FLOAT { value.to_f64().round() } else { value.to_f64() } as i32)
                    .collect();
                let wrong =
                    out.iter().zip(&expected).position(|(a, b)| (a - b).abs() > i32::from(T::FLOAT && *a == nodata));
                assert_eq!(wrong, None, "{method:?} {width} x {height} / {factor} {}", T::DTYPE);
            }
        }
    }
    check::<u8>(256, 0, 77);
    check::<i8>(256, 128, -3);
    check::<u16>(65536, 0, 65535);
    check::<i16>(65536, 32768, -32768);
    check::<u32>(1 << 30, 0, 5);
    check::<i32>(1 << 30, 1 << 29, -9999);
    check::<u64>(1 << 30, 0, 5);
    check::<i64>(1 << 30, 1 << 29, -9999);
    check::<f64>(1 << 20, 1 << 19, -999_999);
}

#[test]
fn complex_parts_are_reduced_together() {
    let nodata = Some(NoData::Float(-9.0));
    let samples = [[1.0_f32, 2.0], [3.0, 4.0], [-9.0, 50.0], [f32::NAN, 7.0]];
    assert_eq!(one(Resampling::Mean, &samples, 2, nodata), [2.0, 3.0]);
    assert_eq!(one(Resampling::Bilinear, &samples, 2, nodata), [2.0, 3.0]);
    assert_eq!(one(Resampling::Nearest, &samples, 2, nodata), [1.0, 2.0]);
    assert_eq!(one(Resampling::Mean, &[[5.0_f64, f64::NAN], [3.0, 4.0]], 2, nodata), [3.0, 4.0]);
    assert_eq!(one(Resampling::Mean, &[[-9.0_f32, 1.0]], 1, nodata), [-9.0, 0.0]);
    assert_eq!(one(Resampling::Mean, &[[1_i16, -1], [2, -2]], 2, Some(NoData::Int(7))), [2, -2]);
    assert!(!Resampling::Max.applies_to(DType::CF32) && Resampling::Max.applies_to(DType::F32));
    let wide: Vec<[i32; 2]> = (0..63).map(|at| [at, -at]).collect();
    let reduction = reduction::<[i32; 2]>(Resampling::Mean, 2, None);
    let whole = reduce_grouped(&reduction, &wide, None, 9, 100).0;
    assert_eq!(reduce_grouped(&reduction, &wide, None, 9, 1).0, whole);
    assert_eq!((whole[0], whole[4], whole[19]), ([5, -5], [13, -13], [62, -62]));
}

#[test]
fn unaligned_samples_are_read() {
    let mut bytes = [0; 17];
    bytes[1..].copy_from_slice(bytemuck::cast_slice(&[1.0_f32, 2.0, 3.0, 4.0]));
    let mut out = [0; 5];
    let plane = Plane { samples: &bytes[1..], first: 0, width: 2, height: 2 };
    let reduction = reduction::<f32>(Resampling::Mean, 2, None);
    reduction.reduce(plane, None, 0..1, &mut out[1..], &mut ReduceScratch::default());
    assert_eq!(out[1..], 2.5_f32.to_ne_bytes());
}
