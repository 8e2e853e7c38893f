//! Instructions of warps, of barriers and of tables.

use super::super::{Misdeed, Order};
use super::{aligned, fault, kernel, run, words};

/// Stores `%r5` as the thread's word.
const STORE: &str = "add.s64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd4], %r5;";

fn lanes(body: &str) -> Vec<u32> {
    words("", &format!("mov.u32 %r2, %laneid;\n{body}\n{STORE}"))
}

fn expected(of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..64).map(of).collect()
}

#[test]
fn shuffles_read_the_lane_that_the_manual_says() {
    let shuffle = |mode: &str| lanes(&format!("shfl.sync.{mode}, -1;"));
    assert_eq!(shuffle("idx.b32 %r5|%p1, %r1, 3, 31"), expected(|thread| thread & 32 | 3));
    assert_eq!(shuffle("down.b32 %r5, %r1, 4, 31"), expected(|t| if t % 32 < 28 { t + 4 } else { t }));
    assert_eq!(shuffle("up.b32 %r5, %r1, 1, 0"), expected(|t| if t % 32 == 0 { t } else { t - 1 }));
    assert_eq!(shuffle("bfly.b32 %r5, %r1, 16, 31"), expected(|thread| thread ^ 16));
    // Segments of eight lanes.
    assert_eq!(shuffle("down.b32 %r5, %r1, 4, 6175"), expected(|t| if t % 8 < 4 { t + 4 } else { t }));
    let found = lanes("shfl.sync.up.b32 %r6|%p1, %r1, 2, 0, -1;\nselp.u32 %r5, 1, 0, %p1;");
    assert_eq!(found, expected(|thread| u32::from(thread % 32 >= 2)));
}

#[test]
fn votes_count_the_lanes_of_the_mask() {
    let odd = "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 1;\n";
    assert_eq!(lanes(&format!("{odd}vote.sync.ballot.b32 %r5, %p1, -1;")), expected(|_| 0xAAAA_AAAA));
    let predicate = |vote: &str| {
        lanes(&format!("{odd}vote.sync.{vote}.pred %p2, {vote_of}, -1;\nselp.u32 %r5, 1, 0, %p2;", vote_of = "%p1"))
    };
    assert_eq!([predicate("any")[0], predicate("all")[0], predicate("uni")[0]], [1, 0, 0]);
    assert_eq!(lanes("and.b32 %r3, %r1, 3;\nmatch.any.sync.b32 %r5, %r3, -1;"), expected(|t| 0x1111_1111 << (t & 3)));
    assert_eq!(lanes("activemask.b32 %r5;"), expected(|thread| 1 << (thread % 32)));
    assert_eq!(lanes("mov.u32 %r5, %lanemask_lt;"), expected(|thread| (1 << (thread % 32)) - 1));
    assert_eq!(lanes(&format!("{odd}bar.red.popc.u32 %r5, 0, %p1;")), expected(|_| 32));
}

#[test]
fn lane_that_does_not_come_is_found() {
    let half = "mov.u32 %r2, %laneid;\nsetp.lt.u32 %p1, %r2, 16;\n";
    let missing = fault("", &format!("{half}@%p1 bra L;\nret;\nL:\nshfl.sync.idx.b32 %r5, %r1, 0, 31, -1;"));
    assert_eq!(missing, Misdeed::MissingLane { mask: u32::MAX, lane: 16 });
    let missing = fault("", &format!("{half}@%p1 bra L;\nbar.sync 0;\nret;\nL:\nbar.warp.sync -1;"));
    assert!(matches!(missing, Misdeed::MissingLane { lane: 16, .. }), "{missing}");
    let foreign = fault("", "vote.sync.ballot.b32 %r5, %p1, 1;");
    assert!(matches!(foreign, Misdeed::ForeignMask { mask: 1, .. }), "{foreign}");
    // Half of the lanes with their own mask is right.
    let body = "mov.u32 %r2, %laneid;\nmov.u32 %r5, 7;\nsetp.ge.u32 %p1, %r2, 16;\n@%p1 bra L;\n\
        shfl.sync.idx.b32 %r5, %r1, 5, 31, 65535;\nL:\n";
    assert_eq!(words("", &format!("{body}{STORE}")), expected(|t| if t % 32 < 16 { t & 32 | 5 } else { 7 }));
    let source = fault("", &body.replace(", 5, 31", ", 20, 31"));
    assert!(matches!(source, Misdeed::ShuffleSource { lane: 20, mask: 65535 }), "{source}");
}

/// Each thread writes its word and reads that of the neighbour with the other last bit.
fn exchange(synchronise: &str) -> String {
    format!(
        "mov.u64 %rd3, s;\nadd.s64 %rd3, %rd3, %rd2;\nst.shared.u32 [%rd3], %r1;\n{synchronise}\n\
         xor.b64 %rd3, %rd3, 4;\nld.shared.u32 %r5, [%rd3];\n{STORE}"
    )
}

#[test]
fn synchronised_lanes_see_each_others_values() {
    let shared = ".shared .align 8 .b8 s[256];";
    assert_eq!(words(shared, &exchange("bar.warp.sync -1;")), expected(|thread| thread ^ 1));
    // A shuffle orders nothing.
    let text = kernel(shared, &exchange("shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;"));
    let mut memory = Vec::new();
    let fault = run(&text, 1, Order::Forward, aligned(&mut memory, 256)).expect_err("a race");
    assert!(matches!(fault.misdeed, Misdeed::Race { .. }), "{fault}");
}

#[test]
fn branch_table_selects_its_target() {
    let body = "and.b32 %r2, %r1, 3;\nmov.u32 %r5, 9;\nT: .branchtargets A, B, C, A;\nbrx.idx %r2, T;\n\
        A:\nmov.u32 %r5, 1;\nbra.uni D;\nB:\nmov.u32 %r5, 2;\nbra.uni D;\nC:\nmov.u32 %r5, 3;\nD:\n";
    assert_eq!(words("", &format!("{body}{STORE}")), expected(|thread| [1, 2, 3, 1][thread as usize & 3]));
    assert!(matches!(fault("", &body.replace("and.b32 %r2, %r1, 3", "mov.u32 %r2, 4")), Misdeed::Table { .. }));
}
