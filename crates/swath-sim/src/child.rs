//! Tests in a process that finds the simulator in place of NVIDIA's driver.
//!
//! The driver's library is found by the loader, which looks at `LD_LIBRARY_PATH` once, when a process starts. So a test starts
//! its own program again, told to run that test alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, process};

/// Tells the child that it is one.
const CHILD: &str = "SWATH_SIM_CHILD";

/// A folder to put in `LD_LIBRARY_PATH`: the simulator under the names of the libraries that it stands in for.
///
/// # Errors
/// When the library is not beside the program that runs, where cargo puts what it builds for a crate that depends on this one.
pub fn folder() -> io::Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
    let program = env::current_exe()?;
    let beside = program.ancestors().skip(1).take(2);
    let library = beside.map(|folder| folder.join("libswath_sim.so")).find(|library| library.exists());
    let library = library.ok_or_else(|| {
        let text = format!("no libswath_sim.so beside {}: build swath-sim", program.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    let folder = library.with_file_name("swath-sim");
    fs::create_dir_all(&folder)?;
    for name in NAMES {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == library) {
            continue;
        }
        // By a name that no other process uses, then all at once: programs of tests run side by side.
        let fresh = folder.join(format!("{name}.{}", process::id()));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(&library, &fresh)?;
        fs::rename(&fresh, &link)?;
    }
    Ok(folder)
}

/// Whether this is the process that has the simulator. If not, the test is run in one that has, with these variables set, and
/// this process has nothing else to do:
///
/// ```no_run
/// # use swath_sim::inside;
/// // #[test]
/// fn third_allocation_fails() {
///     if inside("third_allocation_fails", &[("SWATH_SIM_FAIL", "alloc:3")]) {
///         // Here `swath_gpu::Cuda::open(0)` opens the simulator.
///     }
/// }
/// ```
///
/// # Panics
/// When the test fails there, with what it said; and when there is no such test.
pub fn inside(test: &str, variables: &[(&str, &str)]) -> bool {
    match folder() {
        Ok(folder) => rerun(test, &folder, variables),
        Err(missing) => panic!("{missing}"),
    }
}

/// As [`inside`], with other libraries than the simulator's.
///
/// # Panics
/// As [`inside`].
pub fn rerun(test: &str, libraries: &Path, variables: &[(&str, &str)]) -> bool {
    if env::var(CHILD).is_ok_and(|running| running == test) {
        return true;
    }
    let mut path = OsString::from(libraries);
    if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    let program = env::current_exe().expect("a program that runs has a name");
    let mut child = Command::new(program);
    child.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    child.env(CHILD, test).env("LD_LIBRARY_PATH", path).envs(variables.iter().copied());
    let output = child.output().expect("the test's program starts again");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} failed on the simulator ({}):\n{said}\n{complained}",
        output.status
    );
    false
}
