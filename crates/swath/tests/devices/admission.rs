//! Checks which streams reach nvCOMP, whose behaviour is undefined for invalid streams.

use std::ops::Range;

use swath_gpu::{Block, Kernel};
use twox_hash::XxHash32;

use crate::files::Dice;
use crate::launch::{Given, bytes_of, launch, numbers};
use crate::streams::{CORRUPT, LZ4, LZ4_MAGIC, OK, Stream, TRUNCATED, UNSUPPORTED, ZLIB, ZSTD, cpu, streams};
use crate::subject::Subject;

/// The range of the stream that nvCOMP decodes, or the status with which the kernel rejects the stream.
type Verdict = Result<Range<usize>, u32>;

/// Takes bytes from the front.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], u32> {
    rest.split_off(..len).ok_or(TRUNCATED)
}

/// Takes a little-endian number from the front.
fn number(rest: &mut &[u8], len: usize) -> Result<u64, u32> {
    Ok(take(rest, len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn check(holds: bool, otherwise: u32) -> Result<(), u32> {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Applies the rules, implemented from the specifications of the formats and not from the kernel.
fn verdict(codec: u32, src: &[u8], dst_len: u32) -> Verdict {
    match codec {
        ZLIB => zlib_verdict(src),
        ZSTD => zstd_verdict(src, dst_len.into()),
        _ => lz4_verdict(src, dst_len.into()),
    }
}

fn zlib_verdict(src: &[u8]) -> Verdict {
    let &[cmf, flg, _, .., _, _, _, _] = src else { return Err(TRUNCATED) };
    let sound = cmf & 0x8F == 8 && u16::from_be_bytes([cmf, flg]).is_multiple_of(31);
    check(sound, CORRUPT)?;
    check(flg & 0x20 == 0, UNSUPPORTED)?;
    Ok(2..src.len() - 4)
}

fn zstd_verdict(src: &[u8], dst_len: u64) -> Verdict {
    let mut rest = src;
    let (magic, descriptor) = (number(&mut rest, 4)?, number(&mut rest, 1)?);
    check(magic == 0xFD2F_B528 && descriptor & 0b1_1111 == 0, UNSUPPORTED)?;
    let single = descriptor & 0b10_0000 != 0;
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(single),
        log => 1 << log,
    };
    let mut fields = take(&mut rest, usize::from(!single) + size_bytes)?;
    let mut window = dst_len;
    if !single {
        let byte = number(&mut fields, 1)?;
        window = (1 << (10 + (byte >> 3))) / 8 * (8 + (byte & 7));
        check(window <= 8 << 20, UNSUPPORTED)?;
    }
    if size_bytes > 0 {
        let content_size = number(&mut fields, size_bytes)?;
        check(content_size.checked_add(if size_bytes == 2 { 256 } else { 0 }) == Some(dst_len), CORRUPT)?;
    }
    let mut plain = 0;
    for _ in 0..1024 + dst_len / 256 {
        let header = number(&mut rest, 3)?;
        let (kind, size) = (header >> 1 & 3, header >> 3);
        check(size <= window.min(128 << 10), CORRUPT)?;
        let stored = match kind {
            0 => size,
            1 => 1,
            2 if size >= 2 => size,
            _ => return Err(CORRUPT),
        };
        plain += if kind == 2 { 0 } else { size };
        check(plain <= dst_len, CORRUPT)?;
        take(&mut rest, stored as usize)?;
        if header & 1 != 0 {
            check(rest.is_empty(), UNSUPPORTED)?;
            return Ok(0..src.len());
        }
    }
    Err(UNSUPPORTED)
}

fn lz4_verdict(src: &[u8], dst_len: u64) -> Verdict {
    let mut rest = src;
    match take(&mut rest, 4) {
        _ if src.is_empty() => return Err(TRUNCATED),
        Ok([0x50..=0x5F, 0x2A, 0x4D, 0x18]) => return Err(UNSUPPORTED),
        Ok(magic) if magic == LZ4_MAGIC => {}
        _ => return Ok(0..src.len()),
    }
    let header = rest;
    let (flg, bd) = (number(&mut rest, 1)?, number(&mut rest, 1)?);
    let known = flg >> 6 == 1 && flg & 0b1_0011 == 0 && bd & 0b1000_1111 == 0;
    check(known, UNSUPPORTED)?;
    let content_size = if flg & 8 != 0 { Some(number(&mut rest, 8)?) } else { None };
    let fields = &header[..header.len() - rest.len()];
    let (sum, size) = (number(&mut rest, 1)?, number(&mut rest, 4)?);
    check(sum == u64::from(XxHash32::oneshot(0, fields) >> 8 & 0xFF), CORRUPT)?;
    let largest = match bd >> 4 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(CORRUPT),
    };
    check(content_size.is_none_or(|content_size| content_size == dst_len), CORRUPT)?;
    let (stored, size) = (size >> 31 != 0, size & 0x7FFF_FFFF);
    check(size != 0 && (!stored || size == dst_len), UNSUPPORTED)?;
    check(size <= largest, CORRUPT)?;
    let begin = src.len() - rest.len();
    take(&mut rest, size as usize)?;
    let end_mark = number(&mut rest, 4)?;
    if flg & 4 != 0 {
        number(&mut rest, 4)?;
    }
    check(end_mark == 0 && rest.is_empty(), UNSUPPORTED)?;
    // Stored blocks are copied and not passed to nvCOMP.
    Ok(begin..begin + if stored { 0 } else { size as usize })
}

/// A changed stream, and the position of the change.
struct Case<'a> {
    of: &'a Stream,
    bytes: Vec<u8>,
    dst_len: usize,
    flags: u32,
    changed: Option<usize>,
}

/// Streams unchanged, truncated at every length, and with every byte of their start changed. The kernel
/// admits exactly those that the rules admit, and the CPU also reads the admitted streams with a changed
/// header.
pub(crate) fn invalid_streams_never_reach_nvcomp(subject: &Subject) {
    let streams = streams();
    for stream in &streams {
        let found = verdict(stream.codec, &stream.bytes, stream.dst_len as u32).err().unwrap_or(OK);
        assert_eq!(found, stream.status, "{}", stream.name);
    }
    let mut dice = Dice::new(5);
    let (mut admitted, mut refused, mut read) = (0, 0, 0);
    for codec in [ZLIB, ZSTD, LZ4] {
        let streams = || streams.iter().filter(|stream| stream.codec == codec);
        let cut: Vec<Case<'_>> = streams().flat_map(cut_off).collect();
        let changed: Vec<Case<'_>> = streams().flat_map(|stream| changed(subject, stream, &mut dice)).collect();
        // Under Oclgrind each truncated stream ends with its buffer.
        let batches = cut.chunks(subject.amount(1000, 1)).chain(changed.chunks(subject.amount(5000, 500)));
        for batch in batches {
            for (case, status) in batch.iter().zip(admit(subject, codec, batch, &mut dice)) {
                *if status == OK { &mut admitted } else { &mut refused } += 1;
                let header = case.changed.is_some_and(|at| case.of.header().contains(&at));
                if header && case.of.status == OK && status == OK {
                    let expected = cpu(codec, &case.of.bytes, case.dst_len).expect("it decodes");
                    assert_eq!(cpu(codec, &case.bytes, case.dst_len), Ok(expected), "{}", describe(case));
                    read += 1;
                }
            }
        }
    }
    let least = subject.amount((10_000, 10_000, 400), (100, 100, 0));
    assert!(admitted >= least.0 && refused >= least.1 && read >= least.2, "{admitted} {refused} {read}");
}

fn cut_off(of: &Stream) -> impl Iterator<Item = Case<'_>> {
    let lens = 0..of.bytes.len().min(40);
    lens.map(|len| Case { of, bytes: of.bytes[..len].to_vec(), dst_len: of.dst_len, flags: 0, changed: None })
}

fn changed<'a>(subject: &Subject, of: &'a Stream, dice: &mut Dice) -> Vec<Case<'a>> {
    let whole = |dst_len, flags| Case { of, bytes: of.bytes.clone(), dst_len, flags, changed: None };
    let flags = [0, Block::SPARSE, Block::TOP, Block::SPARSE | Block::TOP];
    let mut cases: Vec<Case<'_>> = flags.map(|flags| whole(of.dst_len, flags)).into();
    cases.extend([0, of.dst_len + 1].map(|dst_len| whole(dst_len, 0)));
    // Long streams take minutes under Oclgrind.
    let places = if subject.slow && of.bytes.len() > 1000 { 0 } else { of.bytes.len().min(20) };
    for at in 0..places {
        for value in 0..subject.amount(256, 3) {
            let value = if subject.slow { dice.below(256) } else { value };
            let mut bytes = of.bytes.clone();
            bytes[at] = value as u8;
            cases.push(Case { bytes: bytes.clone(), changed: Some(at), ..whole(of.dst_len, 0) });
            // The bytes after a checksum are checked only if the checksum matches.
            let sized = bytes.get(4).is_some_and(|flg| flg & 8 != 0);
            let sum_at = if sized { 14 } else { 6 };
            if of.codec == LZ4 && bytes.starts_with(&LZ4_MAGIC) && sum_at < bytes.len() {
                bytes[sum_at] = (XxHash32::oneshot(0, &bytes[4..sum_at]) >> 8) as u8;
                cases.push(Case { bytes, changed: Some(at), ..whole(of.dst_len, 0) });
            }
        }
    }
    cases
}

fn describe(case: &Case<'_>) -> String {
    let start = &case.bytes[..case.bytes.len().min(40)];
    format!("{}, {} bytes for {}, flags {}: {start:02x?}", case.of.name, case.bytes.len(), case.dst_len, case.flags)
}

/// Runs the kernel over a batch, compares all its output with the expected output, and returns the statuses.
fn admit(subject: &Subject, codec: u32, cases: &[Case<'_>], dice: &mut Dice) -> Vec<u32> {
    const BATCH: u64 = 0x7F00_1234_5000;
    const DECODED: u64 = 0x7E00_0000_0100;
    const STAND_IN: &[u8] = b"stand-in";
    let count = cases.len();
    let chunks_at = count * size_of::<Block>();
    let stand_in = chunks_at + count * 44;
    // The streams start at arbitrary addresses, and the last one ends with the buffer.
    let mut batch = vec![0xEE; stand_in];
    batch.extend(STAND_IN);
    let (mut blocks, mut dst) = (Vec::new(), 3);
    for case in cases {
        batch.resize(batch.len() + dice.below(4), 0xEE);
        let (src, src_len, dst_len) = (batch.len() as u64, case.bytes.len() as u32, case.dst_len as u32);
        blocks.push(Block { src, src_len, dst, dst_len, flags: case.flags, ..Block::default() });
        batch.extend(&case.bytes);
        dst += u64::from(dst_len);
    }
    batch[..chunks_at].copy_from_slice(&bytes_of(&blocks));

    let mut columns: [Vec<u64>; 4] = Default::default();
    let mut statuses = Vec::new();
    for (case, block) in cases.iter().zip(&blocks) {
        let sparse = case.flags & Block::SPARSE != 0;
        let verdict = match case.flags {
            0 => verdict(codec, &case.bytes, block.dst_len),
            _ => Err(if sparse { OK } else { UNSUPPORTED }),
        };
        statuses.push(verdict.clone().err().unwrap_or(OK));
        let row = match verdict {
            Ok(raw) if !raw.is_empty() => {
                [BATCH + block.src + raw.start as u64, raw.len() as u64, u64::from(block.dst_len), DECODED + block.dst]
            }
            _ => [BATCH + stand_in as u64, STAND_IN.len() as u64, 4, DECODED + block.dst],
        };
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    let mut expected = batch.clone();
    expected[chunks_at..chunks_at + count * 32].copy_from_slice(&bytes_of(&columns.concat()));
    // The output of nvCOMP is filled with values that nvCOMP cannot write.
    expected[chunks_at + count * 32..][..count * 8].fill(0);
    expected[chunks_at + count * 40..][..count * 4].fill(0xFF);

    let mut status = vec![0xEE; count * 4];
    launch(
        subject,
        Kernel::ChunkAdmit,
        count.div_ceil(32),
        &mut [
            Given::Bytes(&mut batch),
            Given::Bytes(&mut status),
            Given::U64(BATCH),
            Given::U64(DECODED),
            Given::U64(chunks_at as u64),
            Given::U32(count as u32),
            Given::U32(codec),
            Given::U64(stand_in as u64),
            Given::U32(STAND_IN.len() as u32),
        ],
    );
    for ((case, found), expected) in cases.iter().zip(numbers::<u32>(&status)).zip(&statuses) {
        assert_eq!(found, *expected, "{}", describe(case));
    }
    assert!(batch == expected, "the table is another one, or something beside it was written");
    statuses
}
