//! Each check finds its mistake, and nothing where there is none.

use super::super::error::{LoadProblem, Other, Space, Touch};
use super::super::{Misdeed, Order, Program, SourceLines};
use super::{aligned, fault, kernel, run, words};

const SHARED: &str = ".shared .align 4 .b8 s[256]; .shared .align 4 .b8 t[6];";
/// Puts the address of `s` for the thread into `%rd3`.
const OWN: &str = "mov.u64 %rd3, s;\nadd.s64 %rd3, %rd3, %rd2;\n";

#[test]
fn unknown_opcode_is_an_error_with_its_line() {
    let load = |body: &str| Program::load(&kernel("", body), SourceLines::default()).expect_err("it is unknown");
    let error = load("add.s32 %r2, %r1, 1;\ndp4a.u32.u32 %r2, %r1, %r1, %r1;");
    assert_eq!((error.line, matches!(error.problem, LoadProblem::Opcode { .. })), (22, true), "{error}");
    assert_eq!(error.to_string(), "line 22: unknown instruction dp4a.u32.u32");
    // Approximations differ between GPUs.
    assert!(matches!(load("div.approx.f32 %f1, %f2, %f3;").problem, LoadProblem::Opcode { .. }));
    assert!(matches!(load("add.s32 %r2, %r99, 1;").problem, LoadProblem::Undeclared { .. }));
    assert!(matches!(load("bra nowhere;").problem, LoadProblem::Undeclared { .. }));
    assert!(matches!(load("bar.sync 0, 32;").problem, LoadProblem::Operands { .. }));
}

#[test]
fn access_outside_of_live_memory_is_found() {
    let bounds = |body| matches!(fault(SHARED, body), Misdeed::Bounds { .. });
    assert!(bounds("ld.global.u8 %r2, [%rd1+256];"));
    assert!(bounds("ld.global.u8 %r2, [%rd1+-1];"));
    assert!(bounds("mov.u64 %rd3, 0;\nst.global.u32 [%rd3], %r1;"));
    // The gap between two variables.
    assert!(bounds("mov.u64 %rd3, s;\nst.shared.u8 [%rd3+256], %r1;"));
    assert!(bounds("ld.const.u32 %r2, [table+8];"));
    // Four aligned bytes, of which two are in the variable.
    assert!(bounds("mov.u32 %r3, 1;\nst.shared.u32 [t+4], %r3;"));
    let Misdeed::Bounds { space, touch, bytes, .. } = fault("", "st.global.u64 [%rd1+256], %rd1;") else {
        panic!("a store behind the buffer");
    };
    assert_eq!((space, touch, bytes), (Space::Global, Touch::Write, 8));
}

#[test]
fn address_that_is_not_a_multiple_of_the_size_is_found() {
    let alignment = |body| matches!(fault(SHARED, body), Misdeed::Alignment { .. });
    assert!(alignment("ld.global.u32 %r2, [%rd1+2];"));
    assert!(alignment("st.shared.u16 [s+1], %rs1;"));
    // A vector is aligned as a whole.
    assert!(alignment("ld.global.v2.u32 {%r2, %r3}, [%rd1+4];"));
    assert_eq!(
        words("", "ld.const.u32 %r2, [table+4];\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;")[63],
        0x0807_0605
    );
}

#[test]
fn unwritten_shared_memory_may_be_loaded_but_not_used() {
    let used = |body: &str| matches!(fault(SHARED, &format!("{OWN}{body}")), Misdeed::Uninitialised { .. });
    assert!(used("ld.shared.u32 %r2, [%rd3];\nst.global.u32 [%rd1], %r2;"));
    assert!(used("ld.shared.u32 %r2, [%rd3];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;\nL:"));
    assert!(used(
        "ld.shared.u32 %r2, [%rd3];\nadd.s32 %r2, %r2, 4;\ncvt.u64.u32 %rd4, %r2;\nld.global.u8 %r5, [%rd4];"
    ));
    // Half of the word is written.
    assert!(used("st.shared.u16 [%rd3], %r1;\nld.shared.u32 %r2, [%rd3];\nst.shared.u32 [%rd3], %r2;"));
    // The compiler loads early what the other operand makes unnecessary.
    let unused = "ld.shared.u32 %r2, [%rd3];\nsetp.eq.u32 %p1, %r2, 0;\nsetp.lt.u32 %p2, %r1, 64;\n\
        or.pred %p3, %p1, %p2;\n@%p3 bra L;\nld.global.u8 %r2, [0];\nL:\nadd.s64 %rd4, %rd1, %rd2;\n\
        st.global.u32 [%rd4], %r1;";
    assert_eq!(words(SHARED, &format!("{OWN}{unused}"))[5], 5);
    // The next block does not see the shared memory of the one before.
    let text = kernel(
        SHARED,
        &format!(
            "{OWN}mov.u32 %r5, %ctaid.x;\nsetp.eq.u32 %p1, %r5, 1;\n@%p1 bra L;\n\
        st.shared.u32 [%rd3], %r1;\nL:\nld.shared.u32 %r2, [%rd3];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra M;\nM:"
        ),
    );
    let mut memory = Vec::new();
    let fault = run(&text, 2, Order::Forward, aligned(&mut memory, 256)).expect_err("block 1 writes nothing");
    assert_eq!((fault.block, matches!(fault.misdeed, Misdeed::Uninitialised { .. })), (1, true));
}

/// Each thread writes its word and reads that of the next thread.
fn exchange(barrier: &str) -> String {
    format!(
        "{OWN}st.shared.u32 [%rd3], %r1;\n{barrier}\nadd.s32 %r2, %r1, 1;\nand.b32 %r2, %r2, 63;\n\
         mul.wide.u32 %rd4, %r2, 4;\nmov.u64 %rd5, s;\nadd.s64 %rd4, %rd5, %rd4;\nld.shared.u32 %r3, [%rd4];\n\
         add.s64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd4], %r3;"
    )
}

#[test]
fn missing_barrier_is_a_race_in_every_order() {
    let with = words(SHARED, &exchange("bar.sync 0;"));
    assert_eq!(with, (1..64).chain([0]).collect::<Vec<u32>>());
    // The words have values already, so that only the order of the accesses is wrong.
    let without = format!("{OWN}st.shared.u32 [%rd3], 5;\nbar.sync 0;\n{}", exchange(""));
    assert!(matches!(fault(SHARED, &without), Misdeed::Race { space: Space::Shared, .. }));
    let mut memory = Vec::new();
    let fault = run(&kernel(SHARED, &without), 1, Order::Forward, aligned(&mut memory, 256)).expect_err("a race");
    let Misdeed::Race { touch, earlier, other, .. } = fault.misdeed else { panic!("{fault}") };
    assert_eq!((fault.thread, touch, earlier, other), (1, Touch::Write, Touch::Read, Other::Thread(0)));
}

#[test]
fn threads_that_write_one_byte_race_also_in_global_memory_and_between_blocks() {
    let race = |body: &str| matches!(fault("", body), Misdeed::Race { space: Space::Global, .. });
    assert!(race("st.global.u8 [%rd1], %r1;"));
    assert!(race(
        "mul.wide.u32 %rd3, %r1, 2;\nadd.s64 %rd3, %rd1, %rd3;\nand.b64 %rd3, %rd3, -4;\nst.global.u32 [%rd3], %r1;"
    ));
    // Threads of one block write words of their own, and the other block writes them again.
    let text = kernel("", "add.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r1;");
    let mut memory = Vec::new();
    assert!(run(&text, 1, Order::Forward, aligned(&mut memory, 256)).is_ok());
    let fault = run(&text, 2, Order::Forward, aligned(&mut memory, 256)).expect_err("two blocks");
    assert!(matches!(fault.misdeed, Misdeed::Race { other: Other::AnotherBlock, .. }), "{fault}");
    // Atomic operations do not race with each other.
    let text = kernel("", "atom.global.add.u32 %r2, [%rd1], 1;\nred.global.max.s32 [%rd1+4], %r1;");
    let buffer = aligned(&mut memory, 256);
    buffer.fill(0);
    run(&text, 3, Order::Random(9), buffer).expect("no race");
    assert_eq!((buffer[0], buffer[4]), (192, 63));
    assert!(race("red.global.add.u32 [%rd1], 1;\nld.global.u32 %r2, [%rd1];"));
}

#[test]
fn barrier_that_not_all_threads_reach_is_found() {
    let half = "setp.lt.u32 %p1, %r1, 32;\n";
    let exited = fault("", &format!("{half}@%p1 bra L;\nret;\nL:\nbar.sync 0;"));
    assert!(matches!(exited, Misdeed::BarrierAfterExit { other: 32.. }), "{exited}");
    let divergent = fault("", &format!("{half}@%p1 bra L;\nbar.sync 0;\nret;\nL:\nbar.sync 0;"));
    let Misdeed::DivergentBarrier { other: 32, place } = divergent else { panic!("{divergent}") };
    assert_eq!(place.line, 23);
}

#[test]
fn thread_that_never_ends_and_trap_are_found() {
    assert!(matches!(fault("", "L:\nadd.s32 %r1, %r1, 1;\nbra.uni L;"), Misdeed::Endless { .. }));
    assert!(matches!(fault("", "trap;"), Misdeed::Trap));
}

#[test]
fn generic_and_local_addresses_reach_their_spaces() {
    let declarations = ".shared .align 4 .b8 s[256]; .local .align 8 .b8 depot[16];";
    let body = format!(
        "{OWN}cvta.shared.u64 %rd6, %rd3;\nst.u32 [%rd6], %r1;\nld.shared.u32 %r2, [%rd3];\n\
         mov.u64 %rd7, depot;\ncvta.local.u64 %rd8, %rd7;\nst.local.u32 [%rd7+4], %r2;\nld.u32 %r3, [%rd8+4];\n\
         cvta.to.global.u64 %rd9, %rd1;\nadd.s64 %rd4, %rd9, %rd2;\nst.u32 [%rd4], %r3;"
    );
    assert_eq!(words(declarations, &body), (0..64).collect::<Vec<u32>>());
    assert!(matches!(
        fault(declarations, "st.local.u32 [depot+16], %r1;"),
        Misdeed::Bounds { space: Space::Local, .. }
    ));
}

#[test]
fn fault_names_the_kernel_the_line_and_the_thread() {
    let text = kernel("", "setp.ne.u32 %p1, %r1, 3;\n@%p1 ret;\nld.global.u8 %r2, [%rd1+256];");
    let mut memory = Vec::new();
    let fault = run(&text, 1, Order::Forward, aligned(&mut memory, 256)).expect_err("a load behind the buffer");
    let message = fault.to_string();
    assert!(
        message.starts_with("k, block 0, thread 3, PTX line 23: read of 1 bytes at global address 0x"),
        "{message}"
    );
}

#[test]
fn value_that_another_thread_writes_may_be_loaded_early_but_not_used() {
    // Thread 0 counts in `s`; the others load it only because the compiler moved the load before the condition.
    let count = format!(
        "{OWN}st.shared.u32 [%rd3], 5;\nbar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n\
         ld.shared.u32 %r3, [s];\nsetp.gt.u32 %p2, %r3, 9;\nor.pred %p3, %p1, %p2;\n@%p3 bra L;\n\
         add.s32 %r3, %r3, 1;\nst.shared.u32 [s], %r3;\nL:\nbar.sync 0;\nld.shared.u32 %r4, [s];\n\
         add.s64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd4], %r4;"
    );
    assert_eq!(words(SHARED, &count), vec![6; 64]);
    // Now the condition is false in all threads, so that all of them use the value.
    let used = kernel(SHARED, &count.replace("%p1, %r1, 0", "%p1, %r1, %r1"));
    for order in [Order::Forward, Order::Reverse, Order::Warp, Order::Random(4)] {
        let mut memory = Vec::new();
        let fault = run(&used, 1, order, aligned(&mut memory, 256)).expect_err("64 threads write one word");
        assert!(matches!(fault.misdeed, Misdeed::RacingValue { .. } | Misdeed::Race { .. }), "{order}: {fault}");
    }
}
