//! Decodes several zlib streams at once. Each must give the same bytes as when it is decoded alone, even
//! beside damaged streams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use swath_codec::deflate::{Decoder, Encoder};
use swath_codec::inflate::{Inflater, Stream};

/// Number of streams in a batch: more than there are lanes, so that lanes are reused.
const STREAMS: usize = 6;

fuzz_target!(|data: &[u8]| {
    let size = data.len().div_ceil(STREAMS).max(1);
    let cases: Vec<(Vec<u8>, usize)> = data.chunks(size).filter_map(case).collect();
    let mut outs: Vec<Vec<u8>> = cases.iter().map(|(_, room)| vec![0; *room]).collect();
    let mut streams: Vec<Stream<'_>> =
        cases.iter().zip(&mut outs).map(|((stream, _), out)| Stream::new(stream, out)).collect();
    Inflater::new().decode(&mut streams);
    let lens: Vec<Option<usize>> = streams.iter().map(|stream| stream.len).collect();
    let mut decoder = Decoder::new();
    for (((stream, room), out), len) in cases.iter().zip(&outs).zip(lens) {
        let mut alone = vec![0; *room];
        let expected = decoder.decode(stream, &mut alone);
        if let Some(len) = len {
            assert_eq!(expected, Ok(len));
            assert!(out[..len] == alone[..len], "other bytes than libdeflate");
        }
    }
});

/// Returns a stream and the size of its output. The first bytes of the input say what the rest is: a stream,
/// or data to be compressed into a stream, which is then damaged or not.
fn case(piece: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (&[kind, room, at, flip], rest) = piece.split_first_chunk()?;
    if kind & 1 == 0 {
        // Add a valid header, which mutations would rarely leave intact.
        let stream = [&[0x78, 0x9C], rest].concat();
        return Some((stream, usize::from(room) << (kind >> 5)));
    }
    let mut stream = Vec::new();
    Encoder::new(1 + i32::from(kind >> 1) % 12).ok()?.encode(rest, &mut stream);
    let at = usize::from(at) * stream.len() / 256;
    stream[at] ^= flip;
    Some((stream, rest.len() + usize::from(room % 4)))
}
