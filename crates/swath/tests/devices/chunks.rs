//! The kernels that process the input and output of nvCOMP. nvCOMP itself is not called: the tests make up
//! its output.

use swath_codec::{deflate, zstd};
use swath_gpu::{Block, Kernel};
use twox_hash::XxHash32;

use crate::launch::{Given, bytes_of, launch, numbers};
use crate::streams::{
    CHECKSUM, CORRUPT, LZ4, OK, REFUSED, TRUNCATED, UNSUPPORTED, ZLIB, ZSTD, cpu, lz4_block, lz4_frame, plain,
};
use crate::subject::Subject;

/// The checksum as RFC 1950 defines it.
fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}

/// Bytes of 255 give the largest sums; a group adds up 1 MB between two divisions.
fn tiles(subject: &Subject) -> Vec<Vec<u8>> {
    let lens = [0, 1, 255, 256, 257, subject.amount(70_000, 1000)];
    lens.into_iter().map(plain).chain([vec![255; subject.amount(2_200_000, 700)]]).collect()
}

pub(crate) fn decoded_chunks_are_checked_before_anybody_looks_at_them(subject: &Subject) {
    /// The status that nvCOMP reports for a block, its output, and the expected result.
    struct Decoded {
        tile: Vec<u8>,
        sum: u32,
        flags: u32,
        before: u32,
        written: u64,
        outcome: u32,
        after: u32,
    }
    let mut all = Vec::new();
    for tile in tiles(subject) {
        let len = tile.len() as u64;
        let sum = adler32(&tile);
        let sound = || Decoded { tile: tile.clone(), sum, flags: 0, before: OK, written: len, outcome: 0, after: OK };
        all.push(sound());
        all.extend([1, 0x80, 0x1_0000, 0x8000_0000].map(|bit| Decoded { sum: sum ^ bit, after: CHECKSUM, ..sound() }));
        all.push(Decoded { outcome: 12, after: REFUSED, ..sound() });
        all.push(Decoded { outcome: u32::MAX, after: REFUSED, ..sound() });
        all.push(Decoded { written: len + 1, after: CORRUPT, ..sound() });
        all.push(Decoded { written: len | 1 << 32, after: CORRUPT, ..sound() });
        // The status of a sparse block is ignored.
        all.push(Decoded { flags: Block::SPARSE, outcome: 12, written: 99, ..sound() });
        all.push(Decoded { before: UNSUPPORTED, outcome: 12, written: 4, after: UNSUPPORTED, ..sound() });
        all.push(Decoded { before: TRUNCATED, sum: !sum, after: TRUNCATED, ..sound() });
        if len > 0 {
            all.push(Decoded { written: len - 1, after: TRUNCATED, ..sound() });
            all.push(Decoded { written: 0, after: TRUNCATED, ..sound() });
            for at in [0, tile.len() / 2, tile.len() - 1] {
                let mut wrong = sound();
                wrong.tile[at] ^= 4;
                all.push(Decoded { after: CHECKSUM, ..wrong });
            }
        }
    }

    let (mut blocks, mut streams, mut decoded) = (Vec::new(), vec![0xEE; 3], b"odd".to_vec());
    let streams_at = all.len() * (size_of::<Block>() + 44);
    for block in &all {
        let (src, dst) = ((streams_at + streams.len()) as u64, decoded.len() as u64);
        let dst_len = block.tile.len() as u32;
        blocks.push(Block { src, src_len: 11, dst, dst_len, flags: block.flags, ..Block::default() });
        streams.extend(b"\x78\x9Cstream!".iter().take(7).chain(&block.sum.to_be_bytes()));
        decoded.extend(&block.tile);
    }
    let written: Vec<u64> = all.iter().map(|block| block.written).collect();
    let outcomes: Vec<u32> = all.iter().map(|block| block.outcome).collect();
    let chunks_at = all.len() * size_of::<Block>();
    let admitted = vec![0; all.len() * 32];
    let mut batch = [bytes_of(&blocks), admitted, bytes_of(&written), bytes_of(&outcomes), streams].concat();
    for zlib in [true, false] {
        let mut status = bytes_of(&all.iter().map(|block| block.before).collect::<Vec<u32>>());
        launch(
            subject,
            Kernel::ChunkCheck,
            all.len(),
            &mut [
                Given::Bytes(&mut batch),
                Given::Bytes(&mut decoded),
                Given::Bytes(&mut status),
                Given::U64(chunks_at as u64),
                Given::U32(all.len() as u32),
                Given::U32(zlib.into()),
            ],
        );
        for (i, (block, found)) in all.iter().zip(numbers::<u32>(&status)).enumerate() {
            let expected = if block.after == CHECKSUM && !zlib { OK } else { block.after };
            assert_eq!(found, expected, "block {i} of {} bytes, zlib: {zlib}", block.tile.len());
        }
    }
}

/// LZ4 frames may have a checksum of their contents, and may store the contents uncompressed, which are then
/// copied.
pub(crate) fn checksums_and_stored_blocks_of_lz4_are_checked(subject: &Subject) {
    let mut all = Vec::new();
    for tile in tiles(subject).into_iter().filter(|tile| !tile.is_empty() && tile.len() <= 1 << 16) {
        let sum = XxHash32::oneshot(0, &tile);
        for (stored, sized, wrong) in [(true, false, 0), (false, true, 0), (true, true, 1), (false, false, 1)] {
            let content_size = sized.then_some(tile.len() as u64);
            let (flg, size) = (if sized { 0x6C } else { 0x64 }, tile.len() as u32);
            let end = [[0; 4], (sum ^ wrong).to_le_bytes()].concat();
            let frame = match stored {
                true => lz4_frame(flg, 0x40, content_size, size | 1 << 31, &[&tile[..], &end].concat()),
                false => lz4_frame(flg, 0x40, content_size, 3, &[b"abc", &end[..]].concat()),
            };
            all.push((tile.clone(), frame, stored, if wrong == 0 { OK } else { CHECKSUM }));
        }
    }
    let (mut blocks, mut streams, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    let chunks_at = all.len() * size_of::<Block>();
    let streams_at = chunks_at + all.len() * 44;
    for (tile, frame, stored, _) in &all {
        let (src, src_len) = ((streams_at + streams.len()) as u64, frame.len() as u32);
        let (dst, dst_len) = (decoded.len() as u64, tile.len() as u32);
        blocks.push(Block { src, src_len, dst, dst_len, ..Block::default() });
        streams.extend(frame);
        // The output of nvCOMP; for stored blocks it differs from the contents.
        decoded.extend(tile.iter().map(|byte| if *stored { !byte } else { *byte }));
    }
    let written: Vec<u64> =
        all.iter().map(|(tile, _, stored, _)| if *stored { 4 } else { tile.len() as u64 }).collect();
    let tables = [bytes_of(&blocks), vec![0; all.len() * 32], bytes_of(&written), vec![0; all.len() * 4]];
    let mut batch = [tables.concat(), streams].concat();
    let mut status = vec![0; all.len() * 4];
    launch(
        subject,
        Kernel::ChunkCheck,
        all.len(),
        &mut [
            Given::Bytes(&mut batch),
            Given::Bytes(&mut decoded),
            Given::Bytes(&mut status),
            Given::U64(chunks_at as u64),
            Given::U32(all.len() as u32),
            Given::U32(2),
        ],
    );
    let plain: Vec<u8> = all.iter().flat_map(|(tile, ..)| tile.clone()).collect();
    assert!(decoded == plain, "what is stored is what it holds");
    for ((tile, _, stored, expected), found) in all.iter().zip(numbers::<u32>(&status)) {
        assert_eq!(found, *expected, "{} bytes, stored: {stored}", tile.len());
    }
}

pub(crate) fn frames_around_encoded_chunks_are_read_by_the_cpu(subject: &Subject) {
    const TILES: u64 = 0x7F11_0000_0001;
    const POOL: u64 = 0x7F22_0000_0003;
    const FAILED: u32 = u32::MAX;
    let tiles: Vec<Vec<u8>> = tiles(subject).into_iter().filter(|tile| tile.len() > 200).collect();
    // The framing of the kernel, which equals that of the codec except for ZSTD, and the bytes it adds before
    // and after the stream.
    for (framing, codec, before, behind) in [(0, ZSTD, 0, 0), (1, ZLIB, 2, 4), (2, LZ4, 11, 4)] {
        let encoded = |tile: &[u8]| {
            let mut bytes = Vec::new();
            match codec {
                ZSTD => zstd::Encoder::new(3).unwrap().encode(tile, &mut bytes).unwrap(),
                ZLIB => {
                    deflate::Encoder::new(6).unwrap().encode(tile, &mut bytes);
                    bytes = bytes[2..bytes.len() - 4].to_vec();
                }
                // The CPU's encoder splits larger data into several blocks.
                _ => bytes = lz4_block(&tile[..tile.len().min(200_000)]),
            }
            bytes
        };
        let tiles: Vec<&[u8]> =
            tiles.iter().map(|tile| if codec == LZ4 { &tile[..tile.len().min(200_000)] } else { tile }).collect();
        let streams: Vec<Vec<u8>> = tiles.iter().map(|tile| encoded(tile)).collect();
        // The bound that nvCOMP reports. A stream reported as longer was written outside its buffer.
        let room = streams.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let mut failed = vec![(1, 0, 12), (1, 0xFFFF_FF01, 0), (1, 1 << 40, 0), (1, room + 1, 0)];
        if codec == LZ4 {
            failed.extend([(1, (4 << 20) + 1, 0), ((4 << 20) + 1, 1, 0)]);
        }
        let count = tiles.len() + failed.len();

        let (mut data, mut pool) = (vec![0xEE; 5], vec![0xCC; count * 36]);
        let (mut from, mut lens, mut to, mut written, mut outcomes) = (vec![], vec![], vec![], vec![], vec![]);
        for (i, (&tile, stream)) in tiles.iter().zip(&streams).enumerate() {
            from.push(TILES + data.len() as u64);
            lens.push(tile.len() as u64);
            data.extend(tile);
            pool.resize(pool.len() + 1 + i % 4 + before, 0xCC);
            to.push(POOL + pool.len() as u64);
            written.push(stream.len() as u64);
            outcomes.push(0);
            pool.extend(stream);
            pool.resize(pool.len() + behind + 1, 0xCC);
        }
        for &(len, size, outcome) in &failed {
            from.push(TILES);
            lens.push(len);
            to.push(POOL + pool.len() as u64 - 1);
            written.push(size);
            outcomes.push(outcome);
        }
        let heads = bytes_of(&[from, lens, to.clone(), written].concat());
        pool[..count * 36].copy_from_slice(&[heads, bytes_of::<u32>(&outcomes)].concat());
        let untouched = pool.clone();

        let mut sizes = vec![0; count * 4];
        launch(
            subject,
            Kernel::ChunkFrame,
            count,
            &mut [
                Given::Bytes(&mut data),
                Given::Bytes(&mut pool),
                Given::U64(TILES),
                Given::U64(POOL),
                Given::U64(0),
                Given::U32(count as u32),
                Given::U32(framing),
                Given::U32(0x9C78),
                Given::U64(room),
                Given::Bytes(&mut sizes),
            ],
        );
        let sizes = numbers::<u32>(&sizes);
        assert!(sizes[tiles.len()..].iter().all(|&size| size == FAILED), "{sizes:?}");
        let mut expected = untouched;
        for (i, (tile, stream)) in tiles.iter().zip(&streams).enumerate() {
            let at = (to[i] - POOL) as usize - before;
            let end = at + before + stream.len() + behind;
            assert_eq!(sizes[i] as usize, end - at, "framing {framing}, tile {i}");
            assert!(cpu(codec, &pool[at..end], tile.len()).as_deref() == Ok(tile), "framing {framing}, tile {i}");
            if codec == ZLIB {
                assert_eq!(pool[at..at + 2], [0x78, 0x9C]);
                assert_eq!(pool[end - 4..end], adler32(tile).to_be_bytes(), "tile {i}");
            } else if codec == LZ4 {
                let frame = lz4_frame(0x60, 0x70, None, stream.len() as u32, &[&stream[..], &[0; 4]].concat());
                assert!(pool[at..end] == frame, "tile {i}");
            }
            expected[at..at + before].copy_from_slice(&pool[at..at + before]);
            expected[end - behind..end].copy_from_slice(&pool[end - behind..end]);
        }
        assert!(pool == expected, "framing {framing}: something else was written");
    }
}
