//! Decodes a Zstandard frame. It must give the same bytes as libzstd, and every frame that it accepts must be one that
//! libzstd accepts.

use swath_codec::unzstd::Unzstd;
use swath_codec::zstd::Encoder;
use zstd_safe::DCtx;

/// The first bytes say what the rest is: a frame, or data to be compressed into a frame, which is then damaged or not.
pub fn run(data: &[u8]) {
    let Some((&[kind, room, at, flip], rest)) = data.split_first_chunk() else { return };
    let mut frame = Vec::new();
    let room = if kind & 1 == 0 {
        // Add a header, which mutations would rarely leave intact: a window of 128 KiB, no size.
        frame.extend_from_slice(&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x38]);
        frame.extend_from_slice(rest);
        usize::from(room) << (kind >> 4)
    } else {
        let Ok(mut encoder) = Encoder::new(1 + i32::from(kind >> 1) % 5) else { return };
        if encoder.encode(rest, &mut frame).is_err() {
            return;
        }
        let at = usize::from(at) * frame.len() / 256;
        frame[at] ^= flip;
        rest.len() + usize::from(room)
    };
    let Some(mut unzstd) = Unzstd::try_new() else { return };
    // The bytes after the output must stay.
    let mut own = vec![0xA5; room + 64];
    let Some(len) = unzstd.decode_any(&frame, &mut own[..room]) else {
        assert!(kind & 1 == 0 || flip != 0, "a frame of libzstd is refused");
        return;
    };
    assert!(own[room..].iter().all(|byte| *byte == 0xA5), "written after the output");
    let mut expected = vec![0; room];
    assert_eq!(
        DCtx::create().decompress(&mut expected[..], &frame),
        Ok(len),
        "libzstd decodes another number of bytes"
    );
    assert!(own[..len] == expected[..len], "other bytes than libzstd");
}
