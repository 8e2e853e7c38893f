//! Decodes several zlib streams at once. Each must give the same bytes as when libdeflate decodes it alone, even
//! beside damaged streams, and also if only its first bytes are needed.

use swath_codec::deflate::{Decoder, Encoder, SLACK};
use swath_codec::inflate::{Inflater, Stream};

/// Number of streams in a batch: more than there are lanes, so that lanes are reused.
const STREAMS: usize = 6;

/// A stream, the size of its output, and whether only the bytes that fill the output are needed.
struct Case {
    stream: Vec<u8>,
    room: usize,
    top: bool,
}

/// The input is split into pieces; each gives a stream.
pub fn run(data: &[u8]) {
    let size = data.len().div_ceil(STREAMS).max(1);
    let cases: Vec<Case> = data.chunks(size).filter_map(case).collect();
    let mut outs: Vec<Vec<u8>> = cases.iter().map(|case| vec![0; case.room]).collect();
    let mut streams: Vec<Stream<'_>> = cases.iter().zip(&mut outs).map(|(case, out)| new_stream(case, out)).collect();
    Inflater::new().decode(&mut streams);
    let lens: Vec<Option<usize>> = streams.iter().map(|stream| stream.len).collect();
    let mut decoder = Decoder::new();
    for ((case, out), len) in cases.iter().zip(&outs).zip(lens) {
        let mut alone = vec![0; case.room + if case.top { SLACK } else { 0 }];
        let expected = if case.top {
            decoder.decode_top(&case.stream, &mut alone, case.room)
        } else {
            decoder.decode(&case.stream, &mut alone)
        };
        if let Some(len) = len {
            assert_eq!(expected, Ok(len));
            assert!(out[..len] == alone[..len], "other bytes than libdeflate");
        }
    }
    // The batch falls back to libdeflate, so it must agree about errors too.
    let mut outs: Vec<Vec<u8>> = cases.iter().map(|case| vec![0; case.room]).collect();
    let mut streams: Vec<Stream<'_>> = cases.iter().zip(&mut outs).map(|(case, out)| new_stream(case, out)).collect();
    let results = decoder.decode_batch(&mut streams);
    for ((case, out), result) in cases.iter().zip(&outs).zip(results) {
        let mut alone = vec![0; case.room];
        let expected = decoder.decode(&case.stream, &mut alone);
        match (&result, &expected) {
            (Ok(len), Ok(_)) => assert!(out[..*len] == alone[..*len], "a batch gives other bytes than a single stream"),
            // The checksum of a stream whose top is needed is ignored.
            (Ok(_), Err(_)) => assert!(case.top, "a batch accepts a damaged stream"),
            (Err(error), Ok(_)) => panic!("a batch refuses a valid stream: {error}"),
            (Err(_), Err(_)) => {}
        }
    }
}

fn new_stream<'a>(case: &'a Case, out: &'a mut [u8]) -> Stream<'a> {
    if case.top { Stream::top(&case.stream, out) } else { Stream::new(&case.stream, out) }
}

/// The first bytes of a piece say what the rest is: a stream, or data to be compressed into a stream, which is
/// then damaged or not.
fn case(piece: &[u8]) -> Option<Case> {
    let (&[kind, room, at, flip], rest) = piece.split_first_chunk()?;
    let top = room & 1 == 1;
    if kind & 1 == 0 {
        // Add a valid header, which mutations would rarely leave intact.
        let stream = [&[0x78, 0x9C], rest].concat();
        return Some(Case { stream, room: usize::from(room) << (kind >> 5), top });
    }
    let mut stream = Vec::new();
    Encoder::new(1 + i32::from(kind >> 1) % 12).ok()?.encode(rest, &mut stream);
    let at = usize::from(at) * stream.len() / 256;
    stream[at] ^= flip;
    let room = if top { rest.len() * usize::from(room) / 256 } else { rest.len() + usize::from(room % 4) };
    Some(Case { stream, room, top })
}
