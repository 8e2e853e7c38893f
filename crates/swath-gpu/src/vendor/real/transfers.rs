//! NVIDIA's real cuFile reads and writes by our code, on a machine that `machine.c` completes: memory of the host that cuFile takes for a
//! device's. It copies through memory of its own then, as without `nvidia-fs` on a real one.
//!
//! In a process of its own, because that needs another CUDA driver than the machine's, and with a time limit: what cuFile lacks it may
//! wait for without end.

use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, iter, thread};

use libloading::os::unix;

use super::super::cufile::{self, CuFile, Mode, Transfer};
use super::super::{Library, Loaded};
use super::wheel;
use crate::error::Error;
use crate::transfer_pool::TransferPool;

const TEST: &str = "vendor::real::transfers::cufile_moves_bytes_by_our_code";
const CHILD: &str = "SWATH_REAL_CUFILE_TRANSFERS";
const MACHINE: &str = include_str!("machine.c");
const PATIENCE: Duration = Duration::from_secs(120);

const FILE_BYTES: usize = 16 << 20;
/// A byte near the end of the file that cannot be read.
const BAD_BYTE: usize = FILE_BYTES - 5000;

fn not_checked(why: &str) {
    // Not by `eprintln`, which is not seen when the test passes.
    let _ = writeln!(io::stderr(), "\n*** TRANSFERS OF THE REAL cuFile WERE NOT CHECKED: {why} ***\n");
}

#[test]
fn cufile_moves_bytes_by_our_code() {
    if let Some(file) = env::var_os(CHILD) {
        transfers(Path::new(&file));
        // SAFETY: it ends the process, without what cuFile does then.
        unsafe { libc::_exit(0) };
    }
    for wheels in ["nvcomp6", "cuda13"] {
        if let Some(library) = wheel(wheels, Library::CuFile) {
            in_a_process_of_its_own(&library);
        }
    }
}

fn in_a_process_of_its_own(library: &Path) {
    let folder = env::temp_dir().join(format!("swath-real-transfers-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    fs::write(path("machine.c"), format!("{MACHINE}\n{}", refusals(library))).unwrap();
    fs::write(path("modules"), "ext4 1000000 1 - Live 0x0000000000000000\n").unwrap();
    fs::write(path("udev"), "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\n").unwrap();
    // By the driver's name, so that whoever asks for the driver gets it.
    let arguments = ["-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libcuda.so.1", "-o"];
    let mut compiler = Command::new("cc");
    compiler.args(arguments).arg(path("machine.so")).arg(path("machine.c")).arg("-ldl");
    match compiler.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return not_checked(&format!("cc does not start: {error}")),
    }
    let said = File::create(path("said")).unwrap();
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", TEST, "--nocapture"]).current_dir(&folder).stdin(Stdio::null());
    child.stdout(said.try_clone().unwrap()).stderr(said).env(CHILD, library);
    child.env("LD_PRELOAD", path("machine.so")).env("CUFILE_LOGFILE_PATH", "/dev/null");
    child.env("MACHINE_MODULES", path("modules")).env("MACHINE_UDEV", path("udev"));
    child.env("MACHINE_BAD_BYTE", BAD_BYTE.to_string());
    let mut child = child.spawn().unwrap();
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            None if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    let said = fs::read_to_string(path("said")).unwrap_or_default();
    let _ = fs::remove_dir_all(&folder);
    match (ended, said.split_once("not checked: ")) {
        (None, _) => panic!("the real cuFile did not come to an end:\n{said}"),
        (Some(status), Some((_, why))) if status.success() => not_checked(why.lines().next().unwrap_or_default()),
        (Some(status), _) => assert!(status.success() && said.contains("all was checked"), "{status}: {said}"),
    }
}

/// The library, opened as it is for a device.
fn open(file: &Path) -> &'static CuFile {
    let (functions, found) = cufile::bind(&Loaded::open(file).unwrap()).unwrap();
    let library = CuFile::new(functions, found).unwrap_or_else(|missing| panic!("{missing}"));
    assert_eq!(library.mode(), Mode::Compatible);
    Box::leak(Box::new(library))
}

/// Bytes that do not repeat soon.
fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Pieces of many sizes, side by side: whole pages and parts, at multiples of pages and elsewhere, in the file and in memory.
fn pieces() -> Vec<Transfer> {
    let sizes = [1, 7, 4096, 100, 511, 65_536, 512, 4000, 4097, 8192, 100_001, 20_480];
    let (mut file_offset, mut buffer_offset) = (4096, 8192);
    let next = |(i, len): (usize, u64)| {
        file_offset = if i % 3 == 2 { u64::next_multiple_of(file_offset, 4096) } else { file_offset + 13 };
        buffer_offset = if i % 2 == 0 { u64::next_multiple_of(buffer_offset, 4096) } else { buffer_offset + 5 };
        let piece = Transfer { file_offset, buffer_offset, len };
        (file_offset, buffer_offset) = (file_offset + len, buffer_offset + len);
        piece
    };
    let pieces: Vec<Transfer> = sizes.into_iter().cycle().take(500).enumerate().map(next).collect();
    let whole = |piece: &&Transfer| piece.file_offset.is_multiple_of(4096) && piece.len.is_multiple_of(4096);
    assert!((20..400).contains(&pieces.iter().filter(whole).count()));
    assert!(file_offset < BAD_BYTE as u64 && buffer_offset < FILE_BYTES as u64);
    pieces
}

fn range(at: u64, len: u64) -> std::ops::Range<usize> {
    at as usize..(at + len) as usize
}

/// Functions of a driver that the library looks up and the machine does not have: each refuses.
fn refusals(library: &Path) -> String {
    let bytes = fs::read(library).unwrap();
    let texts = bytes.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let is_function = |text: &&str| {
        let name = text.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
        name && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let missing = texts.filter(is_function).filter(|name| !name.starts_with("cuFile"));
    let missing: BTreeSet<&str> = missing
        .filter(|name| !MACHINE.contains(&format!(" {name}(")) && !MACHINE.contains(&format!("({name})")))
        .collect();
    missing.iter().map(|name| format!("int {name}(void) {{ return 801; }}\n")).collect()
}

/// A function of the machine.
fn machine<F: Copy>(name: &[u8]) -> F {
    // SAFETY: the caller says its type, and the machine stays as long as the process.
    unsafe { *unix::Library::this().get::<F>(name).expect("the machine is loaded before all else") }
}

/// Memory that is taken for the device's.
fn device_memory(bytes: usize) -> &'static mut [u8] {
    let allocate = machine::<unsafe extern "C" fn(*mut *mut u8, usize) -> i32>(b"cuMemAlloc_v2\0");
    let mut memory = std::ptr::null_mut();
    // SAFETY: there is room for the address, and nobody else has the memory, which has that many bytes and stays.
    unsafe {
        assert_eq!(allocate(&mut memory, bytes), 0);
        memory.write_bytes(0, bytes);
        std::slice::from_raw_parts_mut(memory, bytes)
    }
}

/// With the device's context current.
fn inside() -> cufile::Inside {
    let enter = machine::<unsafe extern "C" fn(*mut c_void) -> i32>(b"cuCtxSetCurrent\0");
    Arc::new(move |work| {
        // SAFETY: it is the number of the machine's only context.
        unsafe { enter(std::ptr::without_provenance_mut(0x1000)) };
        work();
    })
}

/// Memory that pieces of a file are read into.
fn read(file: &cufile::FileHandle, memory: &mut [u8], pieces: &[Transfer]) -> crate::Result<()> {
    memory.fill(0xA5);
    // SAFETY: the pieces lie in the memory, and nothing here goes on after an error that says that something is under way.
    unsafe { file.read(memory.as_mut_ptr().expose_provenance() as u64, pieces, (&TransferPool::default(), &inside())) }
}

/// Read pieces, and see that those bytes are there and no others.
fn arrives(file: &cufile::FileHandle, memory: &mut [u8], pieces: &[Transfer], stored: &[u8]) {
    read(file, memory, pieces).unwrap();
    let mut expected = vec![0xA5; memory.len()];
    for piece in pieces {
        let from = range(piece.file_offset, piece.len);
        expected[range(piece.buffer_offset, piece.len)].copy_from_slice(&stored[from]);
    }
    assert!(memory == expected, "other bytes were read");
}

fn transfers(library: &Path) {
    let library = open(library);
    let mut stored = noise(FILE_BYTES, 0);
    let Some((path, handle)) = registered(library, &stored) else { return };
    let memory = device_memory(FILE_BYTES);
    let address = memory.as_mut_ptr().expose_provenance() as u64;
    let mut registration = None;
    inside()(&mut || registration = Some(library.register_buffer(address, FILE_BYTES as u64).unwrap()));
    let pieces = pieces();
    // Whole pages take another way.
    let page =
        |i: u64| Transfer { file_offset: 8192 * i, buffer_offset: 12_288 * i + 512 * (i % 2), len: 4096 * (1 + i % 2) };
    let pages: Vec<Transfer> = (1..300).map(page).collect();
    arrives(&handle, memory, &pieces, &stored);
    arrives(&handle, memory, &pages, &stored);

    // The other way, over what the file has.
    for (seed, pieces) in [(1, &pieces), (2, &pages)] {
        memory.copy_from_slice(&noise(FILE_BYTES, seed << 24));
        // SAFETY: the pieces lie in the memory.
        unsafe { handle.write(address, pieces, (&TransferPool::default(), &inside())) }.unwrap();
        for piece in pieces {
            let from = range(piece.buffer_offset, piece.len);
            stored[range(piece.file_offset, piece.len)].copy_from_slice(&memory[from]);
        }
        assert!(fs::read(&path).unwrap() == stored, "other bytes were written");
    }

    // Half way there is a piece that cannot be read; the rest is.
    let bad = Transfer { file_offset: BAD_BYTE as u64 - 9, buffer_offset: FILE_BYTES as u64 - 100, len: 50 };
    let mut broken = pieces.clone();
    broken.insert(250, bad);
    let begun = Instant::now();
    let error = read(&handle, memory, &broken).unwrap_err();
    assert!(matches!(error, Error::Library { .. }), "{error}");
    eprintln!("a read that fails: {error}, after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "it was waited for in vain");
    arrives(&handle, memory, &pieces, &stored);

    // And one that goes over the end of the file.
    broken[250] = Transfer { file_offset: FILE_BYTES as u64 - 30, ..bad };
    let short = Error::Transfer { what: "read", offset: FILE_BYTES as u64 - 30, got: 30, want: 50 };
    assert_eq!(read(&handle, memory, &broken), Err(short));
    arrives(&handle, memory, &pieces, &stored);

    // Many small ones, and one that is shared by all threads.
    let small = (0..20_000).map(|i| Transfer { file_offset: 701 * i + 1, buffer_offset: 16 * i, len: 16 });
    let small: Vec<Transfer> = small.collect();
    let begun = Instant::now();
    read(&handle, memory, &small).unwrap();
    eprintln!("20,000 reads: {:?}", begun.elapsed());
    assert!(small.iter().all(|one| memory[range(one.buffer_offset, 16)] == stored[range(one.file_offset, 16)]));
    let large = [Transfer { file_offset: 3, buffer_offset: 5, len: BAD_BYTE as u64 - 10 }];
    arrives(&handle, memory, &large, &stored);

    // A file that has no name yet, as those that are written.
    let folder = path.parent().unwrap();
    let nameless = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).unwrap();
    let names = || fs::read_dir(folder).unwrap().count();
    let before = names();
    let unnamed = library.register_file(&nameless, true).unwrap();
    assert_eq!(names(), before, "it still has none");
    // SAFETY: as above.
    unsafe { unnamed.write(address, &large, (&TransferPool::default(), &inside())) }.unwrap();
    let mut written = vec![0; BAD_BYTE - 10];
    nameless.read_exact_at(&mut written, 3).unwrap();
    assert!(written == memory[5..][..BAD_BYTE - 10]);
    drop(unnamed);
    let named = folder.join(format!("named-{}", std::process::id()));
    let here = CString::new(format!("/proc/self/fd/{}", nameless.as_raw_fd())).unwrap();
    let there = CString::new(named.as_os_str().as_bytes()).unwrap();
    // SAFETY: both are texts that end in a zero.
    let linked =
        unsafe { libc::linkat(libc::AT_FDCWD, here.as_ptr(), libc::AT_FDCWD, there.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    assert_eq!(linked, 0, "it can still be given one: {}", io::Error::last_os_error());
    fs::remove_file(named).unwrap();
    drop((handle, registration));
    let _ = fs::remove_file(path);
    eprintln!("all was checked");
}

/// A file of these bytes that cuFile takes, on the first file system that it knows.
fn registered(library: &'static CuFile, bytes: &[u8]) -> Option<(PathBuf, cufile::FileHandle)> {
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let folders = iter::once(env::current_dir().unwrap()).chain(beside);
    let mut refused = String::new();
    for path in folders.map(|folder| folder.join(format!("cufile-{}", std::process::id()))) {
        fs::write(&path, bytes).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        match library.register_file(&file, true) {
            Ok(handle) => return Some((path, handle)),
            Err(error) => refused.push_str(&format!("{error}; ")),
        }
        let _ = fs::remove_file(path);
    }
    eprintln!("not checked: it takes no file of this machine: {refused}");
    None
}
