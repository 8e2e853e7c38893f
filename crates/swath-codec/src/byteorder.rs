//! Converts between the byte order of a file and the byte order of this machine.

use crate::{SampleFormat, Shape};

/// Whether data of this byte order must be swapped before this machine can use it.
pub fn is_foreign(big_endian: bool) -> bool {
    big_endian != cfg!(target_endian = "big")
}

/// The number of bytes of the units that are swapped between byte orders; 1 if nothing is swapped.
///
/// The two parts of a complex sample are swapped separately. A sample with a width such as 12 bits is part of a
/// bit string, which starts at the most significant bit in files of either byte order. Samples of 24 bits are
/// an exception: in a big-endian file, GDAL swaps their three bytes and then reads them as a bit string. Such
/// files, and only such files, store integers with the least significant byte first. This function follows
/// GDAL, both for reading and for writing; tifffile reads other values.
pub fn swap_width(format: SampleFormat, bits: usize) -> usize {
    match (format, bits) {
        (SampleFormat::ComplexInt | SampleFormat::ComplexFloat, 32) => 2,
        (SampleFormat::ComplexInt | SampleFormat::ComplexFloat, 64) => 4,
        (SampleFormat::ComplexInt | SampleFormat::ComplexFloat, 128) => 8,
        (_, 24) => 3,
        (_, 16) => 2,
        (_, 32) => 4,
        (_, 64) => 8,
        _ => 1,
    }
}

/// Converts the samples of a decoded block from the file's byte order to this machine's, or back.
pub fn swap_block(shape: Shape, big_endian: bool, block: &mut [u8]) {
    if is_foreign(big_endian) {
        swap_in_place(swap_width(shape.format, shape.bits), block);
    }
}

/// Reverses the bytes of every unit of `width` bytes (2, 3, 4 or 8; any other width changes nothing). An
/// incomplete unit at the end does not change.
pub fn swap_in_place(width: usize, data: &mut [u8]) {
    // There is one arm per width, so that the compiler recognises a byte swap and emits vector shuffles.
    match width {
        2 => {
            data.as_chunks_mut::<2>().0.iter_mut().for_each(|b| *b = u16::from_ne_bytes(*b).swap_bytes().to_ne_bytes())
        }
        3 => data.as_chunks_mut::<3>().0.iter_mut().for_each(|b| b.swap(0, 2)),
        4 => {
            data.as_chunks_mut::<4>().0.iter_mut().for_each(|b| *b = u32::from_ne_bytes(*b).swap_bytes().to_ne_bytes())
        }
        8 => {
            data.as_chunks_mut::<8>().0.iter_mut().for_each(|b| *b = u64::from_ne_bytes(*b).swap_bytes().to_ne_bytes())
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    #[test]
    fn every_unit_is_reversed_and_an_incomplete_one_stays() {
        for width in [1, 2, 3, 4, 8] {
            for length in (0..40).chain([1000]) {
                let data = noise(length);
                let mut model = data.clone();
                model.chunks_exact_mut(width).for_each(<[u8]>::reverse);
                let mut swapped = data.clone();
                swap_in_place(width, &mut swapped);
                assert!(swapped == model, "width {width} length {length}");
            }
        }
    }

    #[test]
    fn bit_strings_have_no_byte_order_but_24_bits_do() {
        assert_eq!(swap_width(SampleFormat::Uint, 24), 3);
        assert_eq!(swap_width(SampleFormat::Uint, 12), 1);
        assert_eq!(swap_width(SampleFormat::Float, 24), 3);
        assert_eq!(swap_width(SampleFormat::ComplexInt, 32), 2);
        assert_eq!(swap_width(SampleFormat::ComplexFloat, 128), 8);
        assert_eq!(swap_width(SampleFormat::Int, 64), 8);
    }
}
