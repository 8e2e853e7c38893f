//! Compares the decoder with libdeflate: libdeflate accepts every stream that the decoder accepts, with the
//! same bytes, and the decoder accepts all streams that encoders write.

use libdeflater::{CompressionLvl, Compressor, Decompressor, adler32};
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, compress, create_comp_flags_from_zip_params};

use super::{Inflater, Stream};
use crate::deflate;
use crate::torture::{classes, noise, ramp};

/// The number of bytes after each output that must not change.
const GUARD: usize = 64;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) as usize) % limit
    }
}

/// A stream, the size of its output buffer, and whether it must be accepted.
#[derive(Clone)]
struct Case {
    stream: Vec<u8>,
    room: usize,
    sound: bool,
}

/// Decodes all cases in one batch and compares each with libdeflate. Returns the number of accepted cases.
fn check(inflater: &mut Inflater, cases: &[Case]) -> usize {
    let mut outs: Vec<Vec<u8>> = cases.iter().map(|case| vec![0xA5; case.room + GUARD]).collect();
    let mut streams: Vec<Stream<'_>> =
        cases.iter().zip(&mut outs).map(|(case, out)| Stream::new(&case.stream, &mut out[..case.room])).collect();
    inflater.decode(&mut streams);
    let lens: Vec<Option<usize>> = streams.iter().map(|stream| stream.len).collect();
    for ((case, out), len) in cases.iter().zip(&outs).zip(&lens) {
        assert!(out[case.room..].iter().all(|&byte| byte == 0xA5), "the decoder wrote beyond its slice");
        let mut expected = vec![0; case.room];
        let oracle = Decompressor::new().zlib_decompress(&case.stream, &mut expected);
        if let Some(len) = len {
            assert_eq!(oracle, Ok(*len));
            assert!(out[..*len] == expected[..*len], "the bytes differ from libdeflate");
        } else {
            assert!(!case.sound, "the decoder refused a valid stream; libdeflate: {oracle:?}");
        }
    }
    lens.iter().flatten().count()
}

fn plains() -> Vec<Vec<u8>> {
    let mut plains = vec![vec![], vec![7], vec![0; 70_000], (0..=255).cycle().take(90_000).collect()];
    for len in [2, 15, 16, 17, 100, 3000, 66_000, 200_000] {
        plains.extend([noise(len, 256), noise(len, 3), noise(len, 90), classes(len), ramp(len)]);
    }
    // Skewed values, which produce codes of many lengths.
    plains.push(noise(150_000, 256).iter().zip(noise(150_001, 256)).map(|(&a, b)| a & b & b.rotate_left(3)).collect());
    plains.push(noise(150_000, 256).iter().map(|a| (a.trailing_zeros() * 31) as u8 ^ (a & 1)).collect());
    plains
}

fn libdeflate(plain: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
    let len = compressor.zlib_compress(plain, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Strategies: 0 default, 1 filtered, 2 Huffman only, 3 run lengths, 4 fixed codes.
fn miniz(plain: &[u8], level: i32, strategy: i32) -> Vec<u8> {
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(level, 15, strategy));
    let mut out = vec![0; plain.len() * 2 + 1000];
    let (_, read, len) = compress(&mut compressor, plain, &mut out, TDEFLFlush::Finish);
    assert_eq!(read, plain.len());
    out.truncate(len);
    out
}

#[test]
fn streams_of_all_levels_and_strategies_are_accepted() {
    let mut cases = Vec::new();
    for plain in plains() {
        let mut add = |stream| cases.push(Case { stream, room: plain.len(), sound: true });
        [0, 1, 3, 6, 9, 12].into_iter().for_each(|level| add(libdeflate(&plain, level)));
        [0, 1, 6, 9].into_iter().for_each(|level| add(miniz(&plain, level, 0)));
        (1..5).for_each(|strategy| add(miniz(&plain, 6, strategy)));
    }
    let mut inflater = Inflater::new();
    assert_eq!(check(&mut inflater, &cases), cases.len());
    // Each stream alone, in pairs and in threes, to test the loops for fewer lanes.
    for count in 1..4 {
        for some in cases.chunks(count).step_by(3) {
            check(&mut inflater, some);
        }
    }
}

#[test]
fn top_of_a_stream_is_its_first_bytes_beside_other_streams_and_damage() {
    let mut random = Random(0xA076_1D64_78BD_642F);
    let mut inflater = Inflater::new();
    for plain in plains().into_iter().filter(|plain| plain.len() > 1) {
        for stream in [libdeflate(&plain, 0), libdeflate(&plain, 6), miniz(&plain, 6, 2), miniz(&plain, 1, 4)] {
            let mut damaged = stream.clone();
            let at = random.below(damaged.len());
            damaged[at] ^= 1 << random.below(8);
            let rooms = [1, plain.len() / 3, plain.len() - 1, random.below(plain.len())];
            let mut outs: Vec<Vec<u8>> = rooms.iter().map(|room| vec![0xA5; room + GUARD]).collect();
            let mut hostile = vec![0; plain.len() / 2];
            let mut streams: Vec<Stream<'_>> =
                outs.iter_mut().zip(rooms).map(|(out, room)| Stream::top(&stream, &mut out[..room])).collect();
            streams.insert(random.below(4), Stream::top(&damaged, &mut hostile));
            inflater.decode(&mut streams);
            let accepted = streams.iter().filter(|other| other.src == stream && other.len.is_some()).count();
            assert_eq!(accepted, rooms.len(), "a valid stream was refused");
            for (out, room) in outs.iter().zip(rooms) {
                assert!(out[..room] == plain[..room], "{room} of {} bytes", plain.len());
                assert!(out[room..].iter().all(|&byte| byte == 0xA5), "the decoder wrote beyond its slice");
            }
        }
    }
}

#[test]
fn output_size_and_trailing_bytes_are_handled_as_in_libdeflate() {
    let mut cases = Vec::new();
    for plain in [noise(3000, 90), classes(3000), ramp(40_000), noise(3000, 256), vec![1; 500]] {
        for level in [0, 1, 6, 12] {
            let stream = libdeflate(&plain, level);
            for room in (0..40).chain(plain.len() - 40..plain.len()) {
                cases.push(Case { stream: stream.clone(), room, sound: false });
            }
            for room in plain.len()..plain.len() + 40 {
                cases.push(Case { stream: stream.clone(), room, sound: true });
            }
            for count in [1, 2, 3, 4, 5, 8, 100, 5000] {
                let stream = [stream.clone(), noise(count, 256)].concat();
                cases.push(Case { stream, room: plain.len() + count, sound: true });
            }
        }
    }
    assert!(check(&mut Inflater::new(), &cases) < cases.len());
}

#[test]
fn damaged_streams_are_accepted_only_if_libdeflate_does_and_do_not_disturb_others() {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let sound: Vec<Case> = [noise(5000, 90), ramp(9000), classes(7000), noise(2500, 256), noise(6000, 7)]
        .iter()
        .flat_map(|plain| {
            let streams = [libdeflate(plain, 1), libdeflate(plain, 9), miniz(plain, 6, 4), miniz(plain, 6, 2)];
            streams.map(|stream| Case { stream, room: plain.len(), sound: true })
        })
        .collect();
    let mut inflater = Inflater::new();
    for _ in 0..600 {
        let cases: Vec<Case> = (0..9)
            .map(|_| {
                let mut case = sound[random.below(sound.len())].clone();
                let len = case.stream.len();
                match random.below(8) {
                    0 | 1 => return case,
                    2 => case.stream.truncate(random.below(len)),
                    3 => case.stream.truncate(len - 1 - random.below(12)),
                    4 => case.stream[random.below(40)] ^= 1 << random.below(8),
                    5 => {
                        let from = random.below(len);
                        let count = (random.below(60) + 1).min(len - from);
                        case.stream[from..from + count].copy_from_slice(&noise(count, 256));
                    }
                    _ => (0..=random.below(3)).for_each(|_| case.stream[random.below(len)] ^= 1 << random.below(8)),
                }
                case.sound = false;
                case
            })
            .collect();
        check(&mut inflater, &cases);
    }
}

#[test]
fn random_bytes_are_refused_or_decoded_as_in_libdeflate() {
    let mut inflater = Inflater::new();
    let mut random = Random(99);
    for _ in 0..400 {
        let cases: Vec<Case> = (0..8)
            .map(|_| {
                let len = 2 + random.below(300);
                let mut stream: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
                stream[..2].copy_from_slice(&[0x78, 0x9C]);
                Case { stream, room: random.below(2000), sound: false }
            })
            .collect();
        check(&mut inflater, &cases);
    }
}

/// Writes Deflate blocks bit by bit.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn put(&mut self, value: usize, bits: usize) {
        for bit in 0..bits {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> bit & 1) as u8) << (self.used % 8);
            self.used += 1;
        }
    }

    /// Writes a code, highest bit first.
    fn put_code(&mut self, (code, bits): (usize, usize)) {
        (0..bits).rev().for_each(|bit| self.put(code >> bit & 1, 1));
    }
}

/// Returns the lengths of a complete code for `count` symbols of `total`, chosen by splitting random leaves.
fn random_lengths(random: &mut Random, count: usize, total: usize, must: &[usize]) -> Vec<u8> {
    let mut leaves = vec![1, 1];
    while leaves.len() < count {
        // Often a deep tree, so that subtables are used.
        let at = if random.below(3) == 0 { leaves.len() - 1 } else { random.below(leaves.len()) };
        if leaves[at] < 15 {
            leaves[at] += 1;
            leaves.push(leaves[at]);
        }
    }
    let mut symbols: Vec<usize> = (0..total).filter(|symbol| !must.contains(symbol)).collect();
    let mut lengths = vec![0; total];
    for (i, length) in leaves.into_iter().enumerate() {
        let symbol = match must.get(i) {
            Some(&symbol) => symbol,
            None => symbols.swap_remove(random.below(symbols.len())),
        };
        lengths[symbol] = length;
    }
    lengths
}

fn codes(lengths: &[u8]) -> Vec<(usize, usize)> {
    let mut codes = vec![(0, 0); lengths.len()];
    let mut next = 0;
    for bits in 1..16 {
        for (symbol, _) in lengths.iter().enumerate().filter(|&(_, &length)| length == bits) {
            codes[symbol] = (next, bits.into());
            next += 1;
        }
        next <<= 1;
    }
    codes
}

/// Returns a stream of blocks with random codes and random symbols, and its decoded size. If `hostile`, it also
/// uses symbols that the format does not define.
fn random_stream(random: &mut Random, hostile: bool) -> (Vec<u8>, usize) {
    let mut bits = Bits::default();
    bits.put(0x78, 8);
    bits.put(0x9C, 8);
    let mut plain: Vec<u8> = Vec::new();
    let blocks = 1 + random.below(3);
    for block in 0..blocks {
        bits.put((block + 1 == blocks).into(), 1);
        bits.put(2, 2);
        let (most, most_distances) = if hostile { (288, 32) } else { (286, 30) };
        let (count, distance_count) = (2 + random.below(most - 2), random.below(most_distances + 1));
        let literal_lengths = random_lengths(random, count, most, &[256]);
        let distance_lengths = match distance_count {
            0 => vec![0],
            1 => [vec![0; random.below(most_distances)], vec![1]].concat(),
            count => random_lengths(random, count, most_distances, &[]),
        };
        bits.put(most - 257, 5);
        bits.put(distance_lengths.len() - 1, 5);
        bits.put(15, 4);
        // The code of the code lengths: 16 symbols of 4 bits.
        bits.put(0, 9);
        (0..16).for_each(|_| bits.put(4, 3));
        for &length in literal_lengths.iter().chain(&distance_lengths) {
            bits.put_code((length.into(), 4));
        }
        let (literal_codes, distance_codes) = (codes(&literal_lengths), codes(&distance_lengths));
        let used: Vec<usize> = (0..most).filter(|&symbol| literal_lengths[symbol] != 0 && symbol != 256).collect();
        let distances: Vec<usize> = (0..distance_lengths.len()).filter(|&i| distance_lengths[i] != 0).collect();
        for _ in 0..random.below(3000) {
            let symbol = used[random.below(used.len())];
            if symbol < 256 {
                bits.put_code(literal_codes[symbol]);
                plain.push(symbol as u8);
                continue;
            }
            // RFC 1951, 3.2.5, written independently of the decoder's tables.
            let extra = if symbol < 265 || symbol == 285 { 0 } else { (symbol - 261) / 4 };
            let base = match symbol {
                ..265 => symbol - 254,
                285 => 258,
                286.. => 0,
                _ => 3 + ((4 + (symbol - 265) % 4) << extra),
            };
            let Some(&distance_symbol) = distances.get(random.below(distances.len().max(1))) else { continue };
            let more_distance = if distance_symbol < 4 { 0 } else { distance_symbol / 2 - 1 };
            let distance_base = match distance_symbol {
                ..4 => distance_symbol + 1,
                _ => 1 + ((2 + distance_symbol % 2) << more_distance),
            };
            let (length_bits, distance_bits) = (random.below(1 << extra), random.below(1 << more_distance));
            let (length, distance) = (base + length_bits, distance_base + distance_bits);
            let far = distance > plain.len() || distance_symbol > 29 || symbol > 285;
            if far && !(hostile && random.below(400) == 0) {
                continue;
            }
            bits.put_code(literal_codes[symbol]);
            bits.put(length_bits, extra);
            bits.put_code(distance_codes[distance_symbol]);
            bits.put(distance_bits, more_distance);
            for _ in 0..length {
                plain.push(if far { 0 } else { plain[plain.len() - distance] });
            }
        }
        bits.put_code(literal_codes[256]);
    }
    let mut stream = bits.bytes;
    stream.extend(adler32(&plain).to_be_bytes());
    (stream, plain.len())
}

#[test]
fn random_codes_and_symbols_decode_as_in_libdeflate() {
    let mut random = Random(0xABCD_EF01_2345);
    let mut inflater = Inflater::new();
    for _ in 0..150 {
        let cases: Vec<Case> = (0..7)
            .map(|_| {
                let hostile = random.below(3) == 0;
                let (stream, len) = random_stream(&mut random, hostile);
                let room = if hostile { len + random.below(20) } else { len };
                Case { stream, room, sound: !hostile }
            })
            .collect();
        check(&mut inflater, &cases);
    }
}

#[test]
fn batches_return_the_same_as_single_streams() {
    let mut random = Random(5);
    let mut alone = deflate::Decoder::new();
    let mut together = deflate::Decoder::new();
    for _ in 0..200 {
        let cases: Vec<(Vec<u8>, usize)> = (0..random.below(8))
            .map(|_| {
                let len = random.below(6000);
                let plain = vec![noise(len, 50), classes(len), ramp(len)].swap_remove(random.below(3));
                let mut stream = libdeflate(&plain, 1 + random.below(12) as i32);
                if random.below(2) == 0 {
                    let at = random.below(stream.len());
                    stream[at] ^= 1 << random.below(8);
                }
                stream.truncate(stream.len() - random.below(2) * random.below(9));
                (stream, len.saturating_sub(random.below(2) * random.below(9)) + random.below(2) * random.below(99))
            })
            .collect();
        let mut outs: Vec<Vec<u8>> = cases.iter().map(|(_, room)| vec![0; *room]).collect();
        let mut streams: Vec<Stream<'_>> =
            cases.iter().zip(&mut outs).map(|((stream, _), out)| Stream::new(stream, out)).collect();
        let results = together.decode_batch(&mut streams);
        for (((stream, room), out), result) in cases.iter().zip(&outs).zip(results) {
            let mut expected = vec![0; *room];
            assert_eq!(alone.decode(stream, &mut expected), result);
            let len = result.unwrap_or(0);
            assert!(out[..len] == expected[..len]);
        }
    }
}
