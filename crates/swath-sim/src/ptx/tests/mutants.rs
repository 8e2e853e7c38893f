//! The shipped kernels, as they are and with mistakes in their text.

use swath_gpu::{Block, Kernel, PTX};

use super::super::{Launch, LaunchError, Misdeed, Order, Program, SourceLines};
use super::aligned;

/// Runs the LZW kernel of a text on two blocks, and returns whether the bytes are right.
fn decodes_lzw(text: &str, order: Order) -> Result<bool, LaunchError> {
    let plain: Vec<Vec<u8>> =
        [3000_u32, 5000].map(|len| (0..len).map(|i| (i * i / 700 + i % 7 * (i / 100 % 2)) as u8).collect()).to_vec();
    let (mut table, mut streams, mut src, mut dst) = (Vec::new(), Vec::new(), 2 * size_of::<Block>() as u64, 0);
    for bytes in &plain {
        let mut encoder = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
        let stream = encoder.encode(bytes).expect("LZW");
        let (src_len, dst_len) = (stream.len() as u32, bytes.len() as u32);
        table.push(Block { src, dst, src_len, dst_len, ..Block::default() });
        (src, dst) = (src + u64::from(src_len), dst + u64::from(dst_len));
        streams.extend(stream);
    }
    let input = [bytemuck::cast_slice(&table), &streams].concat();
    let (mut batch, mut decoded, mut status) = (Vec::new(), Vec::new(), Vec::new());
    let batch = aligned(&mut batch, input.len());
    batch.copy_from_slice(&input);
    let (decoded, status) = (aligned(&mut decoded, dst as usize), aligned(&mut status, 8));
    let ranges = [&*batch, &*decoded, &*status].map(|buffer| {
        let range = buffer.as_ptr_range();
        (range.start as u64, range.end as u64)
    });
    let mut allocations = ranges.to_vec();
    allocations.sort_unstable();
    let launch = Launch {
        kernel: "lzw",
        blocks: 2,
        threads: Kernel::Lzw.group() as usize,
        values: &ranges.map(|(start, _)| start),
        allocations: &allocations,
        order,
        limit: 10_000_000,
    };
    let sources = SourceLines::parse(crate::executor::LINES, text);
    Program::load(text, sources).expect("it is valid PTX").run(&launch)?;
    Ok(*decoded == plain.concat() && status.iter().all(|byte| *byte == 0))
}

/// The lines of the LZW kernel that contain a text, from 0.
fn lines_of_lzw(instruction: &str) -> Vec<usize> {
    let mut lines = PTX.lines().enumerate().skip_while(|(_, line)| !line.contains(".entry lzw("));
    let mut kernel = lines.by_ref().take_while(|(_, line)| *line != "}");
    let mut found = Vec::new();
    kernel.by_ref().filter(|(_, line)| line.trim_start().starts_with(instruction)).for_each(|(at, _)| found.push(at));
    found
}

/// The PTX with one line changed.
fn changed(at: usize, change: impl Fn(&str) -> String) -> String {
    let lines = PTX.lines().enumerate().map(|(line, text)| if line == at { change(text) } else { text.to_owned() });
    lines.fold(String::with_capacity(PTX.len()), |all, line| all + &line + "\n")
}

#[test]
fn shipped_kernel_decodes_in_every_order() {
    for order in [Order::Forward, Order::Reverse, Order::Warp, Order::Random(11)] {
        let right = decodes_lzw(PTX, order).unwrap_or_else(|error| panic!("{order}: {error}"));
        assert!(right, "{order}: the bytes are wrong");
    }
}

#[test]
fn removed_barrier_is_reported() {
    let barriers = lines_of_lzw("bar.sync");
    assert!(barriers.len() >= 2, "the kernel has barriers");
    for at in barriers {
        let text = changed(at, |_| String::new());
        match decodes_lzw(&text, Order::Forward) {
            Err(LaunchError::Fault(fault)) => {
                let found = matches!(fault.misdeed, Misdeed::Race { .. } | Misdeed::Uninitialised { .. });
                assert!(found, "without the barrier in line {}: {fault}", at + 1);
            }
            other => panic!("without the barrier in line {}: {other:?}", at + 1),
        }
    }
}

#[test]
fn wrong_shift_is_reported_or_gives_wrong_bytes() {
    let shifts = ["shl.b32", "shr.u32", "shl.b64", "shr.u64"].map(lines_of_lzw).concat();
    let amount = |line: &str| line.trim_end_matches(';').rsplit(' ').next().and_then(|last| last.parse::<u32>().ok());
    let (mut caught, mut missed) = (0, Vec::new());
    for at in shifts {
        let Some(by) = amount(PTX.lines().nth(at).unwrap_or("")) else { continue };
        // A mistake in an instruction that the two blocks do not need cannot be noticed.
        let needed = decodes_lzw(&changed(at, |_| "trap;".to_owned()), Order::Forward).is_err();
        let text = changed(at, |line| line.replace(&format!(" {by};"), &format!(" {};", by + 1)));
        match decodes_lzw(&text, Order::Forward) {
            Ok(true) if needed => missed.push(at + 1),
            Ok(true) => {}
            _ => caught += 1,
        }
    }
    // Some shifts matter only for other streams: the kernel needs their results, but not the changed bits.
    assert!(caught >= 10 && caught >= 2 * missed.len(), "{caught} caught; not noticed in the lines {missed:?}");
}
