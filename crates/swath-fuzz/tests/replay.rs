//! Runs every fuzz target on the inputs in the repository: the seeds, and the inputs that once failed.

use std::collections::BTreeSet;
use std::path::Path;

use swath_fuzz::TARGETS;

/// The inputs in `fuzz/KIND/FOLDER`, in a fixed order.
fn inputs(kind: &str, folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn no_target_fails_on_the_inputs_in_the_repository() {
    for (target, folder, run) in TARGETS {
        let seeds = inputs("seeds", folder);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for (name, data) in seeds.into_iter().chain(inputs("regressions", folder)) {
            if let Err(panic) = std::panic::catch_unwind(|| run(&data)) {
                eprintln!("{target} fails on {name}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn no_target_fails_on_empty_and_short_inputs() {
    for (_, _, run) in TARGETS {
        for len in 0..12 {
            for byte in [0, 1, b'{', b'<', 255] {
                run(&vec![byte; len]);
            }
        }
    }
}

#[test]
fn the_inputs_in_the_repository_stay_small() {
    let folders: BTreeSet<&str> = TARGETS.iter().map(|(_, folder, _)| *folder).collect();
    let all = folders.iter().flat_map(|folder| [inputs("seeds", folder), inputs("regressions", folder)].concat());
    let total: usize = all.map(|(_, data)| data.len()).sum();
    assert!(total < 300_000, "{total} bytes");
}
