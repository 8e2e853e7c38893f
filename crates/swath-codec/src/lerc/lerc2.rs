//! Decodes the common kinds of Lerc2 blobs faster than `lerc-rs`: one band in which every pixel is valid.
//!
//! Every function here returns `None` for a blob that it does not support and for a damaged blob. The caller
//! then passes the blob to `lerc-rs`, which decodes it or returns the error. So `lerc-rs` alone decides which
//! blobs are refused, and with which error.

use lerc::{DataType, LercInfo};

use super::blocks::{self, Layout};
use super::decode::Value;
use super::huffman;

/// Where the checksummed part of a blob starts: after the signature, the version and the checksum.
const AFTER_CHECKSUM: usize = 14;

/// Decodes `src`, whose header is `info`, into `out`. Returns `None` if `lerc-rs` must decode the blob; `out`
/// is then undefined.
pub(super) fn decode<T: Value>(src: &[u8], info: &LercInfo, out: &mut [T]) -> Option<()> {
    let (width, height, depth) = (info.width as usize, info.height as usize, info.depth as usize);
    let all_valid = u64::from(info.valid_pixels) == u64::from(info.width) * u64::from(info.height);
    // Version 2 stores bits in another order, and blobs with a nodata value need a second pass.
    if info.version < 3 || info.bands != 1 || !all_valid || info.no_data_value.is_some() {
        return None;
    }
    if out.len() != width.checked_mul(height)?.checked_mul(depth)? {
        return None;
    }
    let checked = src.get(AFTER_CHECKSUM..info.blob_size as usize)?;
    if fletcher32(checked) != u32_at(src, AFTER_CHECKSUM - 4)? {
        return None;
    }
    let header = Header::of(info.version);
    let micro_block = u32_at(src, header.micro_block)? as usize;
    let mut pos = header.len;
    // The length of the mask, which has no meaning if all pixels are valid.
    take(src, &mut pos, 4)?;
    if info.min_value == info.max_value {
        out.fill(T::from_f64(info.min_value));
        return Some(());
    }
    let max_values = read_max_values::<T>(src, &mut pos, info)?;
    let one_sweep = take(src, &mut pos, 1)?[0] != 0;
    if one_sweep {
        copy_values(take(src, &mut pos, out.len() * T::BYTES)?, out);
        return Some(());
    }
    let bytes = matches!(info.data_type, DataType::Char | DataType::Byte) && info.tolerance == 0.5;
    let floats = info.version >= 6 && !info.data_type.is_integer() && info.tolerance == 0.0;
    if bytes || floats {
        match (take(src, &mut pos, 1)?[0], bytes) {
            (0, _) => {}
            (1, true) => return huffman::decode_deltas(&src[pos..], info, bytemuck::cast_slice_mut(out)),
            (2, true) if info.version >= 4 => {
                return huffman::decode_values(&src[pos..], info, bytemuck::cast_slice_mut(out));
            }
            _ => return None,
        }
    }
    let layout = Layout {
        version: info.version,
        width,
        height,
        depth,
        micro_block,
        step: 2.0 * info.tolerance,
        max_values: &max_values,
    };
    blocks::decode(src, pos, &layout, out)
}

/// The positions in a header that `LercInfo` does not contain.
struct Header {
    micro_block: usize,
    len: usize,
}

impl Header {
    fn of(version: i32) -> Header {
        match version {
            3 => Header { micro_block: 26, len: 62 },
            4 | 5 => Header { micro_block: 30, len: 66 },
            _ => Header { micro_block: 30, len: 90 },
        }
    }
}

/// Returns the largest value of each sample of a pixel. `None` includes the case that all samples are constant.
fn read_max_values<T: Value>(src: &[u8], pos: &mut usize, info: &LercInfo) -> Option<Vec<f64>> {
    if info.version < 4 {
        return Some(vec![info.max_value]);
    }
    let len = info.depth as usize * T::BYTES;
    let (low, high) = (take(src, pos, len)?, take(src, pos, len)?);
    let values = |bytes: &[u8]| bytes.chunks_exact(T::BYTES).map(|v| T::from_le_slice(v).to_f64()).collect::<Vec<_>>();
    let high = values(high);
    if values(low) == high {
        return None;
    }
    Some(if info.depth == 1 { vec![info.max_value] } else { high })
}

/// Copies little-endian values.
pub(super) fn copy_values<T: Value>(src: &[u8], out: &mut [T]) {
    for (value, bytes) in out.iter_mut().zip(src.chunks_exact(T::BYTES)) {
        *value = T::from_le_slice(bytes);
    }
}

/// Returns the next `len` bytes and moves `pos` after them.
pub(super) fn take<'a>(src: &'a [u8], pos: &mut usize, len: usize) -> Option<&'a [u8]> {
    let bytes = src.get(*pos..)?.get(..len)?;
    *pos += len;
    Some(bytes)
}

pub(super) fn u32_at(src: &[u8], pos: usize) -> Option<u32> {
    src.get(pos..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the same value as `lerc::checksum::fletcher32`, with vector instructions: each of eight lanes sums every
/// eighth word. On a 16-bit scene, the plain loop takes a quarter of the time of the decoder.
fn fletcher32(data: &[u8]) -> u32 {
    /// As many words as the sums can add in 32 bits.
    const BATCH: usize = 359;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut sum1, mut sum2) = (0xffff_u32, 0xffff_u32);
    let (words, last) = data.as_chunks::<2>();
    for batch in words.chunks(BATCH) {
        let (steps, rest) = batch.as_chunks::<LANES>();
        let (plain, weighted) = lane_sums(steps);
        sum2 = sum2.wrapping_add((steps.len() * LANES) as u32 * sum1).wrapping_add(weighted);
        sum1 += plain;
        for word in rest {
            sum1 += u32::from(u16::from_be_bytes(*word));
            sum2 += sum1;
        }
        (sum1, sum2) = (fold(sum1), fold(sum2));
    }
    if let [byte] = last {
        sum1 += u32::from(*byte) << 8;
        sum2 += sum1;
    }
    (fold(sum2) << 16) | fold(sum1)
}

const LANES: usize = 8;

/// Returns the sum of the words, and the sum in which the first word counts as often as there are words, the next
/// word once less, and so on.
fn lane_sums(steps: &[[[u8; 2]; LANES]]) -> (u32, u32) {
    let (mut plain, mut running) = ([0u32; LANES], [0u32; LANES]);
    for step in steps {
        for lane in 0..LANES {
            plain[lane] += u32::from(u16::from_be_bytes(step[lane]));
            running[lane] += plain[lane];
        }
    }
    // In `running`, a word counts once for each step from its own to the last. A step is `LANES` words, and
    // `lane` of them come before the word.
    let weighted = (0..LANES).fold(0u32, |sum, lane| {
        sum.wrapping_add(running[lane].wrapping_mul(LANES as u32)).wrapping_sub(lane as u32 * plain[lane])
    });
    (plain.iter().sum(), weighted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;
    use lerc::Precision;

    const SIDES: [(u32, u32); 5] = [(64, 64), (37, 29), (1, 5), (16, 1), (200, 130)];

    /// Images from constant to noise, in the range of `limit`.
    fn images(len: usize, limit: f64) -> Vec<Vec<f64>> {
        let noise: Vec<f64> =
            noise(2 * len).chunks_exact(2).map(|n| f64::from(n[0]) * 256.0 + f64::from(n[1])).collect();
        let mut images: Vec<Vec<f64>> = [1.0, 0.3, 0.02, 0.002]
            .iter()
            .map(|part| noise.iter().map(|n| (n / 65536.0 * limit * part).floor()).collect())
            .collect();
        images.push((0..len).map(|k| (k / 7 % 100) as f64 % limit).collect());
        images.push(noise.iter().map(|n| if *n > 65000.0 { limit - 1.0 } else { 3.0 }).collect());
        images.push(
            noise
                .iter()
                .map(|n| ((n / 257.0 - 128.0).powi(3) / 128f64.powi(3) * 20.0 + 100.0).floor() % limit)
                .collect(),
        );
        images.push(vec![5.0; len]);
        images
    }

    /// Compares the decoder with `lerc-rs` and returns how many blobs it decoded.
    fn compare<T: Value>(limit: f64, low: f64, errors: &[f64]) -> usize {
        let mut decoded = 0;
        for (width, height) in SIDES {
            for depth in [1, 3] {
                let len = (width * height * depth) as usize;
                for values in images(len, limit) {
                    for &error in errors {
                        let values: Vec<T> = values.iter().map(|v| T::from_f64(v + low)).collect();
                        let blob = encode(&values, width, height, depth, error);
                        decoded += usize::from(same_as_lerc_rs::<T>(&blob, len));
                    }
                }
            }
        }
        decoded
    }

    fn encode<T: Value>(values: &[T], width: u32, height: u32, depth: u32, error: f64) -> Vec<u8> {
        let image = lerc::Image {
            width,
            height,
            depth,
            bands: 1,
            data_type: T::DATA_TYPE,
            valid_masks: vec![lerc::bitmask::BitMask::all_valid((width * height) as usize)],
            data: T::into_lerc_data(values.to_vec()),
            no_data_value: None,
        };
        let precision = if error == 0.0 { Precision::Lossless } else { Precision::Tolerance(error) };
        lerc::encode(&image, precision).unwrap()
    }

    /// Returns whether the decoder supports the blob. If so, `lerc-rs` must decode it to the same bits.
    fn same_as_lerc_rs<T: Value>(blob: &[u8], len: usize) -> bool {
        let mut ours = vec![T::default(); len];
        let Ok(info) = lerc::decode_info(blob) else { return false };
        if info.data_type != T::DATA_TYPE || lerc2_len(&info) != Some(len) || decode(blob, &info, &mut ours).is_none() {
            return false;
        }
        let mut theirs = vec![T::default(); len];
        lerc::decode_into(blob, &mut theirs).expect("the fast decoder must not accept more than lerc-rs");
        assert!(bytemuck::cast_slice::<T, u8>(&ours) == bytemuck::cast_slice::<T, u8>(&theirs), "{info:?}");
        true
    }

    fn lerc2_len(info: &LercInfo) -> Option<usize> {
        (info.width as usize * info.height as usize).checked_mul(info.depth as usize)
    }

    #[test]
    fn pixels_equal_those_of_lerc_rs() {
        let each = SIDES.len() * 2 * 8;
        assert!(compare::<u8>(256.0, 0.0, &[0.0, 2.0]) > each);
        assert!(compare::<i8>(256.0, -128.0, &[0.0, 2.0]) > each);
        assert!(compare::<u16>(65536.0, 0.0, &[0.0, 3.0]) > each);
        assert!(compare::<i16>(65536.0, -32768.0, &[0.0, 3.0]) > each);
        assert!(compare::<u32>(4_294_967_296.0, 0.0, &[0.0, 100.0]) > each);
        assert!(compare::<i32>(1e6, -5e5, &[0.0, 2.0]) > each);
        assert!(compare::<f32>(1e5, -700.0, &[0.01, 0.5]) > each);
        assert!(compare::<f64>(1e9, -700.5, &[0.01, 0.5]) > each);
    }

    /// The checksum is repaired, because otherwise both decoders would refuse every mutation at once.
    #[test]
    fn a_damaged_blob_decodes_as_with_lerc_rs_or_not_at_all() {
        let (width, height) = (40, 24);
        let mut accepted = 0;
        for values in images((width * height * 2) as usize, 200.0) {
            for blob in [
                encode(&values.iter().map(|v| *v as u8).collect::<Vec<_>>(), width, height, 2, 0.0),
                encode(&values.iter().map(|v| *v as u8).collect::<Vec<_>>()[..960], width, height, 1, 0.0),
                encode(&values.iter().map(|v| *v as u16).collect::<Vec<_>>()[..960], width, height, 1, 0.0),
                encode(&values.iter().map(|v| *v as f32).collect::<Vec<_>>()[..960], width, height, 1, 0.2),
            ] {
                for (n, random) in noise(8 * 400).chunks_exact(8).enumerate() {
                    let mut damaged = blob.clone();
                    let at = usize::from(u16::from_le_bytes([random[0], random[1]]));
                    // Every other mutation changes the first bytes after the header, where the tables are.
                    let at = AFTER_CHECKSUM + at % if n % 2 == 0 { 120 } else { damaged.len() };
                    if let Some(byte) = damaged.get_mut(at) {
                        *byte = random[2];
                    }
                    damaged.truncate(damaged.len() - usize::from(random[3] < 20) * usize::from(random[4] % 16));
                    let size = (damaged.len() as u32).to_le_bytes();
                    let version = damaged[6];
                    let blob_size = if version == 3 { 30 } else { 34 };
                    damaged[blob_size..blob_size + 4].copy_from_slice(&size);
                    let sum = lerc::checksum::fletcher32(&damaged[AFTER_CHECKSUM..]);
                    damaged[10..14].copy_from_slice(&sum.to_le_bytes());
                    accepted += usize::from(same_as_lerc_rs::<u8>(&damaged, 1920));
                    accepted += usize::from(same_as_lerc_rs::<u8>(&damaged, 960));
                    accepted += usize::from(same_as_lerc_rs::<u16>(&damaged, 960));
                    accepted += usize::from(same_as_lerc_rs::<f32>(&damaged, 960));
                }
            }
        }
        assert!(accepted > 1000, "the mutations must get past the header, {accepted} did");
    }

    #[test]
    fn the_checksum_is_that_of_lerc_rs() {
        let bytes = noise(5000);
        for len in (0..40).chain(700..740).chain([1435, 1436, 1437, 4999, 5000]) {
            assert_eq!(fletcher32(&bytes[..len]), lerc::checksum::fletcher32(&bytes[..len]), "{len}");
            let ones = vec![0xff; len];
            assert_eq!(fletcher32(&ones), lerc::checksum::fletcher32(&ones), "{len}");
        }
    }
}
