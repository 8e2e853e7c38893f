//! The additions of GDAL's COG layout to a TIFF: the ghost area after the header, and a frame around each
//! block.
//!
//! With the frame, a reader can fetch a block without its byte count: the four bytes before the block give its
//! size. The four bytes after it repeat its last four bytes; if they differ, a program changed the file without
//! updating the frame.

/// The number of frame bytes of each block: four before and four after it.
pub const FRAME_BYTES: u64 = 8;

/// Returns the ghost area, which states the order of the data that follows it.
pub fn ghost_area(mask_interleaved: bool, planar: bool) -> Vec<u8> {
    let mut text = String::from(
        "LAYOUT=IFDS_BEFORE_DATA\n\
         BLOCK_ORDER=ROW_MAJOR\n\
         BLOCK_LEADER=SIZE_AS_UINT4\n\
         BLOCK_TRAILER=LAST_4_BYTES_REPEATED\n\
         KNOWN_INCOMPATIBLE_EDITION=NO\n ",
    );
    // The space leaves room to change NO to YES.
    if mask_interleaved {
        text += "MASK_INTERLEAVED_WITH_IMAGERY=YES\n";
    }
    if planar {
        text += "INTERLEAVE=BAND\n";
    }
    format!("GDAL_STRUCTURAL_METADATA_SIZE={:06} bytes\n{text}", text.len()).into_bytes()
}

/// Appends a block and its frame; `payload` appends the block itself. Returns the size of the block. The size
/// before the block is little-endian in every file.
pub fn framed<E>(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<usize, E> {
    let start = out.len();
    out.extend([0; 4]);
    payload(out)?;
    let len = out.len() - start - 4;
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
    let mut last = [0; 4];
    let tail = len.min(4);
    last[..tail].copy_from_slice(&out[out.len() - tail..]);
    out.extend(last);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghost_area_has_the_sizes_of_gdal() {
        assert_eq!(ghost_area(false, false).len(), 43 + 140);
        assert_eq!(ghost_area(true, false).len(), 43 + 174);
        assert!(ghost_area(false, false).starts_with(b"GDAL_STRUCTURAL_METADATA_SIZE=000140 bytes\nLAYOUT="));
    }

    #[test]
    fn frame_has_the_size_and_repeats_the_last_bytes() {
        let mut out = vec![9];
        let len = framed::<()>(&mut out, |out| {
            out.extend([1, 2, 3, 4, 5]);
            Ok(())
        });
        assert_eq!(len, Ok(5));
        assert_eq!(out, [9, 5, 0, 0, 0, 1, 2, 3, 4, 5, 2, 3, 4, 5]);
        out.clear();
        framed::<()>(&mut out, |out| {
            out.push(7);
            Ok(())
        })
        .unwrap();
        assert_eq!(out, [1, 0, 0, 0, 7, 7, 0, 0, 0], "a block of less than four bytes is padded");
    }
}
