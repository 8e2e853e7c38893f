//! The .npy file format, version 1.0: a header that is a Python literal, then the samples.

use std::io::{self, Write};

use swath::{DType, Pixels};

/// Writes pixels as a .npy array of this shape, little-endian. NumPy has no complex integers, so they become complex floats.
pub(crate) fn write(out: &mut dyn Write, pixels: &Pixels, shape: &[usize]) -> io::Result<()> {
    let dtype = pixels.dtype();
    let widened = dtype.widened();
    let code = widened.numpy_code().unwrap_or("u1");
    let order = if widened.size() == 1 { '|' } else { '<' };
    let mut dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    if shape.len() > 1 {
        dims.truncate(dims.len() - 2);
    } else {
        dims.truncate(dims.len().saturating_sub(1));
    }
    let mut header = format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The samples start at a multiple of 64 bytes, as in files of NumPy.
    let padding = (10 + header.len() + 1).next_multiple_of(64) - 10 - header.len() - 1;
    header += &" ".repeat(padding);
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;

    let size = dtype.size();
    let part = if size > 1 && cfg!(target_endian = "big") || dtype != widened { 1 << 16 } else { usize::MAX / 64 };
    let mut wide = Vec::new();
    for samples in pixels.as_bytes().chunks(part.saturating_mul(size)) {
        let bytes = if dtype == widened {
            wide.clear();
            samples
        } else {
            wide.resize(samples.len() / size * widened.size(), 0);
            swath_codec::sample::widen_complex_int(dtype, samples, widened, &mut wide).map_err(io::Error::other)?;
            &wide
        };
        if cfg!(target_endian = "big") {
            let mut swapped = bytes.to_vec();
            swath_codec::byteorder::swap_in_place(component_bytes(widened), &mut swapped);
            out.write_all(&swapped)?;
        } else {
            out.write_all(bytes)?;
        }
    }
    Ok(())
}

fn component_bytes(dtype: DType) -> usize {
    match dtype {
        DType::CF32 | DType::CF64 | DType::CI16 | DType::CI32 => dtype.size() / 2,
        _ => dtype.size(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_what_numpy_writes() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Pixels::U16(vec![1, 2, 3, 4, 5, 6]), &[1, 2, 3]).unwrap();
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert!(bytes[10..].starts_with(b"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2, 3), }"));
        assert_eq!((bytes.len() - 12) % 64, 0);
        assert_eq!(&bytes[bytes.len() - 12..], [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    }

    #[test]
    fn complex_integers_become_complex_floats() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Pixels::CI16(vec![[-2, 3]]), &[1]).unwrap();
        assert!(bytes[10..].starts_with(b"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"));
        let (re, im) = ((-2.0_f32).to_le_bytes(), 3.0_f32.to_le_bytes());
        assert_eq!(&bytes[bytes.len() - 8..], [re, im].concat());
    }
}
