//! Small kernels, and the shipped ones with mistakes.

mod checks;
mod mutants;
mod opcodes;
mod warps;

use super::{Fault, Launch, LaunchError, Misdeed, Order, Program, SourceLines};

/// The head of a file, as NVRTC writes it.
const HEAD: &str = ".version 8.1\n.target sm_70\n.address_size 64\n";

/// A kernel `k` with a parameter for a buffer, whose address is in `%rd1`, and the thread's number in `%r1`. The
/// first line of the body is line 21 of the text.
fn kernel(declarations: &str, body: &str) -> String {
    let registers = ".reg .pred %p<16>;\n.reg .b16 %rs<16>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<32>;\n\
        .reg .f32 %f<16>;\n.reg .f64 %fd<16>;\n";
    let declarations = declarations.replace('\n', " ");
    format!(
        "{HEAD}.const .align 4 .b8 table[8] = {{1, 2, 3, 4, 5, 6, 7, 8}};\n\
         .visible .entry k(\n.param .u64 k_param_0\n)\n.maxntid 64, 1, 1\n{{\n{registers}{declarations}\n\n\
         ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n\
         {body}\nret;\n}}\n"
    )
}

/// Runs `k` on a buffer with blocks of 64 threads.
fn run(text: &str, blocks: u32, order: Order, buffer: &mut [u8]) -> Result<u64, Box<Fault>> {
    let mut program = Program::load(text, SourceLines::default()).expect("it is valid PTX");
    let range = buffer.as_mut_ptr_range();
    let launch = Launch {
        kernel: "k",
        blocks,
        threads: 64,
        values: &[range.start as u64],
        allocations: &[(range.start as u64, range.end as u64)],
        order,
        limit: 1_000_000,
    };
    match program.run(&launch) {
        Ok(executed) => Ok(executed),
        Err(LaunchError::Fault(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

/// Bytes at an address that is a multiple of 16.
fn aligned(words: &mut Vec<u128>, bytes: usize) -> &mut [u8] {
    words.resize(bytes.div_ceil(16), 0);
    // SAFETY: the vector has that many bytes, and any bytes are valid.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) }
}

/// Runs a body in every order, expects equal results, and returns the buffer's words.
fn words(declarations: &str, body: &str) -> Vec<u32> {
    let text = kernel(declarations, body);
    let orders = [Order::Forward, Order::Reverse, Order::Warp, Order::Random(1), Order::Random(2)];
    let results = orders.map(|order| {
        let mut memory = Vec::new();
        let buffer = aligned(&mut memory, 256);
        run(&text, 1, order, buffer).unwrap_or_else(|fault| panic!("{order}: {fault}"));
        buffer.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect::<Vec<_>>()
    });
    assert!(results.iter().all(|result| *result == results[0]), "the order of threads matters");
    results.into_iter().next().unwrap_or_default()
}

/// Runs a body in every order on a buffer of 256 bytes; each must give the same fault.
fn fault(declarations: &str, body: &str) -> Misdeed {
    let text = kernel(declarations, body);
    let faults = [Order::Forward, Order::Reverse, Order::Warp, Order::Random(5)].map(|order| {
        let mut memory = Vec::new();
        let fault = run(&text, 1, order, aligned(&mut memory, 256)).expect_err("it has a fault");
        fault.misdeed
    });
    let kinds = faults.each_ref().map(std::mem::discriminant);
    assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{faults:?}");
    let [forward, ..] = faults;
    forward
}
