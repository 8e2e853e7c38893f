//! Runs tests in a process that loads the simulator in place of NVIDIA's driver.
//!
//! The dynamic loader finds the driver's library. It reads `LD_LIBRARY_PATH` once, when a process starts. So a
//! test starts its own program again, with arguments that run only that test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, process};

/// The environment variable that marks a child process.
const CHILD: &str = "SWATH_SIM_CHILD";

/// The libraries of NVIDIA, other than the driver, that the simulator replaces: their names in tests, and the
/// file names that the loader searches.
const LIBRARIES: [(&str, &str); 5] = [
    ("nvcomp.5", "libnvcomp.so.5"),
    ("nvcomp.6", "libnvcomp.so.6"),
    ("nvjpeg2k", "libnvjpeg2k.so.0"),
    ("nvjpeg", "libnvjpeg.so.12"),
    ("cufile", "libcufile.so.0"),
];

/// The variables with the paths of those libraries. They are `none` in a child, so that the child does not load
/// the machine's real libraries, which do not work with the simulated driver.
const PATHS: [(&str, &str); 4] = [
    ("nvcomp", "SWATH_NVCOMP_PATH"),
    ("nvjpeg2k", "SWATH_NVJPEG2K_PATH"),
    ("nvjpeg", "SWATH_NVJPEG_PATH"),
    ("cufile", "SWATH_CUFILE_PATH"),
];

/// Returns a folder for `LD_LIBRARY_PATH`. It contains the simulator under the file names of the driver's
/// library and of `libraries`.
///
/// # Errors
/// Returns an error if the library is not beside the running program, where cargo puts the libraries that it
/// builds for a dependent crate.
pub fn folder(libraries: &[&str]) -> io::Result<PathBuf> {
    let library = built()?;
    let folder = library.with_file_name(["swath-sim"].iter().chain(libraries).copied().collect::<Vec<_>>().join("-"));
    link(&library, &folder, libraries)?;
    Ok(folder)
}

/// Does the same as [`folder`], with a copy of the library that lacks one function: the function has another
/// name in it.
///
/// # Errors
/// The errors of [`folder`], and an error if the library has no such function.
pub fn without(symbol: &str, libraries: &[&str]) -> io::Result<PathBuf> {
    let library = built()?;
    let folder = library.with_file_name(format!("swath-sim-without-{symbol}"));
    fs::create_dir_all(&folder)?;
    let mut bytes = fs::read(&library)?;
    let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let found: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| *at == name).map(|(at, _)| at).collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("the simulator has no {symbol}")));
    }
    found.into_iter().for_each(|at| bytes[at + 1] = b'_');
    let copy = folder.join("libswath_sim.so");
    let fresh = folder.join(format!("libswath_sim.so.{}", process::id()));
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, &copy)?;
    link(&copy, &folder, libraries)?;
    Ok(folder)
}

/// Returns the path of the library that cargo built.
fn built() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let mut beside = program.ancestors().skip(1).take(2).map(|folder| folder.join("libswath_sim.so"));
    beside.find(|library| library.exists()).ok_or_else(|| {
        let text = format!("no libswath_sim.so beside {}: build swath-sim", program.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Links a library into a folder under the file names of the driver's library and of `libraries`.
fn link(library: &Path, folder: &Path, libraries: &[&str]) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(folder)?;
    let others = LIBRARIES.iter().filter(|(name, _)| libraries.contains(name)).map(|(_, file)| *file);
    for name in ["libcuda.so", "libcuda.so.1"].into_iter().chain(others) {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == library) {
            continue;
        }
        // Creates the link under a unique name and renames it atomically, because test programs run in
        // parallel.
        let fresh = folder.join(format!("{name}.{}", process::id()));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(library, &fresh)?;
        fs::rename(&fresh, &link)?;
    }
    Ok(())
}

/// Returns whether this process has the simulator. If not, it runs the test in a child process that has it,
/// with these environment variables, and the caller has nothing else to do:
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
/// Panics with the output of the test if the test fails in the child process, and if there is no such test.
pub fn inside(test: &str, variables: &[(&str, &str)]) -> bool {
    inside_with(test, &[], variables)
}

/// Does the same as [`inside`], with more of NVIDIA's libraries than the driver: `nvcomp.5`, `nvcomp.6`,
/// `nvjpeg2k`, `nvjpeg`, `cufile`.
///
/// # Panics
/// Panics as [`inside`] does.
pub fn inside_with(test: &str, libraries: &[&str], variables: &[(&str, &str)]) -> bool {
    let hidden =
        PATHS.iter().filter(|(name, _)| !libraries.iter().any(|library| library.split('.').next() == Some(name)));
    let hidden = hidden.map(|(_, variable)| (*variable, "none"));
    let variables: Vec<_> = hidden.chain(variables.iter().copied()).collect();
    match folder(libraries) {
        Ok(folder) => rerun(test, &folder, &variables),
        Err(missing) => panic!("{missing}"),
    }
}

/// Does the same as [`inside`], with other libraries than the simulator's.
///
/// # Panics
/// Panics as [`inside`] does.
pub fn rerun(test: &str, libraries: &Path, variables: &[(&str, &str)]) -> bool {
    if env::var(CHILD).is_ok_and(|running| running == test) {
        return true;
    }
    let mut path = OsString::from(libraries);
    if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    let program = env::current_exe().expect("the path of the running program is known");
    let mut child = Command::new(program);
    child.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    // Tests read small images, which a real GPU would leave to the CPU.
    child
        .env(CHILD, test)
        .env("LD_LIBRARY_PATH", path)
        .env("SWATH_PLACEMENT", "device")
        .envs(variables.iter().copied());
    let output = child.output().expect("the program of the test can be started again");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{test} failed on the simulator ({}):\n{stdout}\n{stderr}",
        output.status
    );
    false
}
