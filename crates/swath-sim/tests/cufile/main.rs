//! The simulated cuFile, called through its C ABI.

mod card;
mod library;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::{Duration, Instant};

use card::{Card, piece};
use library::{CuFile, Descriptor, Entry, Pointer, Properties};
use swath_gpu::{Device, Gpu};
use swath_sim::{device_bytes, events, forget, inside_with};

/// Runs a test in a process with cuFile.
fn with_cufile(test: &str, variables: &[(&str, &str)]) -> bool {
    inside_with(test, &["cufile"], variables)
}

/// Returns bytes with a long period.
fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Returns a file of a test, open for reading and writing.
fn file(name: &str, bytes: &[u8]) -> (PathBuf, File) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cufile-{name}"));
    fs::write(&path, bytes).expect("a file");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("a file");
    (path, file)
}

/// Returns the misuses that the simulator reported since the events were last discarded.
fn reported() -> Vec<String> {
    events().into_iter().filter(|line| line.starts_with("reported: ")).collect()
}

#[test]
fn use_of_registered_memory_by_another_address_than_its_start_is_reported() {
    if !with_cufile("use_of_registered_memory_by_another_address_than_its_start_is_reported", &[]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (_path, opened) = file("not-the-beginning", &noise(100));
    let (handle, buffer) = (library.register(&opened).unwrap(), card.buffer(1000));
    assert_eq!(library.read(handle, buffer.handle() + 100, 11, 5, 200), 11);
    assert!(!swath_sim::events().iter().any(|event| event.starts_with("reported")), "nothing is registered");
    assert_eq!(library.register_buffer(buffer.handle(), 1000), 0);
    assert_eq!(library.read(handle, buffer.handle() + 100, 11, 5, 200), 11);
    assert!(swath_sim::events().iter().any(|event| event.contains("an address other than its start")));
    assert_eq!(library.deregister_buffer(buffer.handle()), 0);
    library.deregister(handle);
}

#[test]
fn parts_are_read_and_written_at_their_positions() {
    if !with_cufile("parts_are_read_and_written_at_their_positions", &[]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let stored = noise(3 << 20);
    let (path, opened) = file("both-ways", &stored);
    let handle = library.register(&opened).unwrap();
    // A hundred parts with odd sizes and odd offsets, the last one first, with gaps; and one that is copied in
    // several steps.
    let buffer = card.buffer(4 << 20);
    assert_eq!(library.register_buffer(buffer.handle(), 4 << 20), 0);
    let mut expected = vec![0xA5; 4 << 20];
    let mut entries = Vec::new();
    for i in (0..100).rev() {
        let (from, to, bytes) = (7919 * i + 3, 5003 * i + 1, 37 * i + 1);
        entries.push(piece(handle, &buffer, from, to, bytes));
        expected[to..to + bytes].copy_from_slice(&stored[from..from + bytes]);
    }
    entries.push(piece(handle, &buffer, 12_345, 1 << 20, (5 << 19) + 77));
    expected[1 << 20..][..(5 << 19) + 77].copy_from_slice(&stored[12_345..][..(5 << 19) + 77]);
    let wanted: Vec<_> = entries.iter().map(|entry| entry.bytes as isize).collect();
    assert_eq!(card.at_once(&library, &entries, 8), wanted);
    assert!(card.contents(&buffer) == expected);
    // One by one.
    assert_eq!(library.read(handle, buffer.handle(), 11, 5, 300), 11);
    expected[300..311].copy_from_slice(&stored[5..16]);
    assert!(card.contents(&buffer) == expected);

    // The other direction, over the existing bytes and after the end of the file.
    let fresh: Vec<u8> = noise(2 << 20).into_iter().rev().collect();
    let source = card.holding(&fresh);
    let mut stored = stored;
    let mut entries = Vec::new();
    for i in 0..100 {
        let (to, from, bytes) = (7919 * i + 3, 5003 * i + 1, 37 * i + 1);
        entries.push(Entry { write: true, ..piece(handle, &source, to, from, bytes) });
        stored[to..to + bytes].copy_from_slice(&fresh[from..from + bytes]);
    }
    assert!(library.all(&entries).iter().zip(&entries).all(|(moved, entry)| *moved == entry.bytes as isize));
    assert_eq!(library.write(handle, source.handle(), 2 << 20, (3 << 20) + 10, 0), 2 << 20);
    stored.extend([0; 10]);
    stored.extend(&fresh);
    assert!(fs::read(path).unwrap() == stored);

    assert_eq!(library.deregister_buffer(buffer.handle()), 0);
    library.deregister(handle);
    assert_eq!(library.close(), 0);
    assert_eq!(reported(), [""; 0]);
    drop((buffer, source));
    assert_eq!(device_bytes(), 0);
}

#[test]
fn read_over_the_end_of_the_file_is_short() {
    if !with_cufile("read_over_the_end_of_the_file_is_short", &[]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (_, opened) = file("end", &noise(1000));
    let handle = library.register(&opened).unwrap();
    let buffer = card.buffer(200);
    let entries = [piece(handle, &buffer, 950, 0, 100), piece(handle, &buffer, 1000, 100, 100)];
    assert_eq!(library.all(&entries), [50, 0]);
    assert_eq!(library.read(handle, buffer.handle(), 100, 999, 0), 1);
    let contents = card.contents(&buffer);
    assert!(contents[0] == noise(1000)[999] && contents[1..50] == noise(1000)[951..]);
    assert!(contents[50..].iter().all(|&byte| byte == 0xA5), "more was written than was read");
}

#[test]
fn reads_and_writes_fail_or_are_short_on_request() {
    let fail = "read:3,short:5,read:7,short:8,write:2,short-write:3,write:5,register:2";
    if !with_cufile("reads_and_writes_fail_or_are_short_on_request", &[("SWATH_SIM_FAIL", fail)]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (path, opened) = file("faults", &noise(1000));
    let handle = library.register(&opened).unwrap();
    assert_eq!(library.register(&File::open(&path).unwrap()), Err(5008));
    let buffer = card.buffer(1000);
    let reads: Vec<_> = (0..6).map(|i| piece(handle, &buffer, 100 * i, 100 * i, 100)).collect();
    assert_eq!(library.all(&reads), [100, 100, -5, 100, 50, 100]);
    let contents = card.contents(&buffer);
    assert!(contents[200..300].iter().chain(&contents[450..500]).all(|&byte| byte == 0xA5));
    assert!(contents[400..450] == noise(1000)[400..450] && contents[500..600] == noise(1000)[500..600]);
    // For single transfers, the error number of the system is returned.
    assert_eq!(library.read(handle, buffer.handle(), 100, 0, 0), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(5));
    assert_eq!(library.read(handle, buffer.handle(), 101, 0, 0), 50);

    let source = card.holding(&[9; 1000]);
    let write = |i: usize| Entry { write: true, ..piece(handle, &source, 100 * i, 0, 100) };
    assert_eq!(library.all(&[0, 1, 2].map(write)), [100, -5, 50]);
    assert_eq!(library.write(handle, source.handle(), 10, 900, 0), 10);
    assert_eq!(library.write(handle, source.handle(), 10, 910, 0), -1);
    let mut expected = noise(1000);
    [0..100, 200..250, 900..910].into_iter().for_each(|written| expected[written].fill(9));
    assert!(fs::read(path).unwrap() == expected);
}

#[test]
fn only_live_device_memory_is_accepted() {
    if !with_cufile("only_live_device_memory_is_accepted", &[("SWATH_SIM_DEVICES", "2")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (_, opened) = file("memory", &noise(100));
    let handle = library.register(&opened).unwrap();
    let (buffer, host, pinned) = (card.buffer(100), vec![0_u8; 100], card.gpu.pin(100).unwrap());
    let second = Gpu::cuda(1).unwrap();
    let other = second.alloc("test", Some(100)).unwrap();
    let outside = [host.as_ptr() as u64, pinned.as_ptr() as u64, other.handle(), buffer.handle() + 100, 0];
    for base in outside {
        assert_eq!(library.register_buffer(base, 10), 5012, "{base:#x}");
        assert_eq!(library.read(handle, base, 10, 0, 0), -5012, "{base:#x}");
        assert_eq!(library.write(handle, base, 10, 0, 0), -5012, "{base:#x}");
    }
    assert_eq!(library.register_buffer(buffer.handle() + 1, 100), 5014);
    assert_eq!(library.read(handle, buffer.handle(), 100, 0, 1), -5014);
    assert_eq!(library.read(handle, buffer.handle(), usize::MAX, 0, 1), -5014);
    for (bytes, file_offset, base_offset) in [(0, 0, 0), (1, -1, 0), (1, 0, -1)] {
        assert_eq!(library.read(handle, buffer.handle(), bytes, file_offset, base_offset), -5022);
    }

    // A thread without a context has no memory.
    let (address, file) = (buffer.handle(), handle as usize);
    let elsewhere = std::thread::spawn(move || CuFile::load().read(file as Pointer, address, 10, 0, 0));
    assert_eq!(elsewhere.join().unwrap(), -5011);
}

#[test]
fn registrations_are_counted_and_released() {
    if !with_cufile("registrations_are_counted_and_released", &[]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (path, opened) = file("registered", &noise(100));
    let handle = library.register(&opened).unwrap();
    assert_eq!(library.register(&opened), Err(5028));
    let again = File::open(path).unwrap();
    let second = library.register(&again).expect("another descriptor of the same file is another one");
    library.deregister(second);

    let buffer = card.buffer(1000);
    let base = buffer.handle();
    assert_eq!(library.register_buffer(base, 600), 0);
    assert_eq!(library.register_buffer(base, 600), 5023);
    assert_eq!(library.register_buffer(base + 500, 500), 5023);
    assert_eq!(library.register_buffer(base + 600, 400), 0);
    assert_eq!(library.deregister_buffer(base + 1), 5022);
    // Memory given by its registered address must not be left.
    assert_eq!(library.read(handle, base, 100, 0, 550), -5017);
    assert_eq!(library.read(handle, base, 100, 0, 500), 100);
    assert_eq!(reported(), [""; 0]);

    // SAFETY: the simulator refuses it.
    unsafe { card.device.release(base) };
    assert_eq!(reported(), ["reported: the caller frees memory that is registered with cuFile"]);
    assert_eq!(device_bytes(), 1000);
    forget();
    assert_eq!(library.close(), 5022);
    assert_eq!(reported(), ["reported: cuFile is closed with 1 files and 2 buffers still registered"]);
    assert_eq!(library.deregister_buffer(base), 0);
    assert_eq!(library.deregister_buffer(base), 5022);
    assert_eq!(library.deregister_buffer(base + 600), 0);
    library.deregister(handle);
    forget();
    library.deregister(handle);
    assert_eq!(reported(), ["reported: a file that is not registered is deregistered"]);
    assert_eq!(library.close(), 0);
    drop(buffer);
    assert_eq!(device_bytes(), 0);
}

#[test]
fn closed_files_are_not_read() {
    if !with_cufile("closed_files_are_not_read", &[("SWATH_SIM_CUFILE_LATENCY_US", "300000")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let buffer = card.buffer(100);
    let (path, opened) = file("gone", &noise(100));
    let handle = library.register(&opened).unwrap();
    library.deregister(handle);
    assert_eq!(library.read(handle, buffer.handle(), 10, 0, 0), -5027);
    let handle = library.register(&opened).unwrap();
    let entry = piece(handle, &buffer, 0, 0, 10);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| card.at_once(&library, &[entry], 1));
        while !events().iter().any(|event| event.starts_with("cuFileRead 0 10")) {
            std::thread::yield_now();
        }
        library.deregister(entry.file);
        assert_eq!(reading.join().unwrap(), [-5027]);
    });
    assert_eq!(reported(), ["reported: a file was closed or deregistered while it was read or written"]);

    let handle = library.register(&opened).unwrap();
    drop(opened);
    forget();
    assert_eq!(library.read(handle, buffer.handle(), 10, 0, 0), -5027);
    library.deregister(handle);
    let used = "reported: a file is used after it was closed";
    assert_eq!(reported(), [used, "reported: a file is deregistered after it was closed"]);

    // An operation that the descriptor does not allow is an error of the system.
    let reads = File::open(path).unwrap();
    let handle = library.register(&reads).unwrap();
    assert_eq!(library.write(handle, buffer.handle(), 10, 0, 0), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
}

#[test]
fn only_regular_files_are_registered_and_only_direct_ones_in_strict_mode() {
    let test = "only_regular_files_are_registered_and_only_direct_ones_in_strict_mode";
    if !with_cufile(test, &[("SWATH_SIM_CUFILE_STRICT", "1")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    for other in ["/dev/null", "/"] {
        assert_eq!(library.register(&File::open(other).unwrap()), Err(5018), "{other}");
    }
    let mut handle = ptr::null_mut();
    for (kind, fd, code) in [(1, u64::from(u32::MAX), 5018), (2, 0, 5022), (3, 0, 5022)] {
        let descriptor = Descriptor { kind, fd, operations: ptr::null_mut() };
        // SAFETY: both exist.
        assert_eq!(unsafe { (library.handle_register)(&mut handle, &descriptor) }.code, code);
    }
    // SAFETY: null is refused.
    assert_eq!(unsafe { (library.handle_register)(&mut handle, ptr::null()) }.code, 5022);

    let (path, buffered) = file("direct", &noise(10_000));
    assert_eq!(library.register(&buffered), Err(5019));
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).expect("direct reads");
    let handle = library.register(&direct).unwrap();
    let buffer = card.buffer(10_000);
    // None of it is aligned.
    assert_eq!(library.read(handle, buffer.handle(), 777, 1001, 13), 777);
    assert!(card.contents(&buffer)[13..790] == noise(10_000)[1001..1778]);
}

#[test]
fn driver_is_opened_before_anything_else() {
    if !with_cufile("driver_is_opened_before_anything_else", &[("SWATH_SIM_CUFILE_REGISTER", "fail")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::load());
    let (_, opened) = file("order", &noise(100));
    let buffer = card.buffer(100);
    let (mut version, mut properties) = (0, Properties::default());
    // SAFETY: there is space for the number.
    assert_eq!((unsafe { (library.version)(&mut version) }.code, version), (0, 1140));
    let all_closed = |properties: &mut Properties| {
        // SAFETY: there is space for the properties, and the others have no arguments.
        unsafe {
            assert_eq!((library.properties)(properties).code, 5001);
            assert_eq!((library.close_v1)().code, 5001);
            assert_eq!((library.use_count)(), 0);
        }
        assert_eq!(library.register(&opened), Err(5001));
        assert_eq!((library.register_buffer(buffer.handle(), 1), library.deregister_buffer(0)), (5001, 5001));
        assert_eq!(library.read(ptr::null_mut(), buffer.handle(), 1, 0, 0), -5001);
    };
    all_closed(&mut properties);
    assert_eq!((library.open(), library.open()), (0, 0));
    // SAFETY: there is space for the properties.
    let answer = unsafe { (library.properties)(&mut properties) };
    assert_eq!((answer.code, properties.batch_entries), (0, 128));
    assert!(properties.version[0] > 0 && properties.storage != 0 && properties.features & 2 != 0);
    assert_eq!(library.register_buffer(buffer.handle(), 100), 5036);
    // SAFETY: no arguments.
    assert_eq!(unsafe { (library.use_count)() }, 2);
    assert_eq!((library.close(), library.close()), (0, 0));
    all_closed(&mut properties);
}

#[test]
fn without_the_kernel_module_reads_use_compatibility_mode() {
    let test = "without_the_kernel_module_reads_use_compatibility_mode";
    if !with_cufile(test, &[("SWATH_SIM_CUFILE", "compat"), ("SWATH_SIM_CUFILE_STRICT", "1")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let mut properties = Properties::default();
    // SAFETY: there is space for the properties.
    assert_eq!(unsafe { (library.properties)(&mut properties) }.code, 0);
    assert_eq!((properties.version, properties.storage, properties.control & 2), ([0, 0], 0, 2));
    assert_eq!(properties.features, 15);
    let (_, opened) = file("compatible", &noise(100));
    let handle = library.register(&opened).unwrap();
    let buffer = card.buffer(100);
    assert_eq!(library.register_buffer(buffer.handle(), 100), 0);
    assert_eq!(library.all(&[piece(handle, &buffer, 0, 0, 100)]), [100]);
    assert!(card.contents(&buffer) == noise(100));
}

#[test]
fn absent_driver_does_not_open() {
    if with_cufile("absent_driver_does_not_open", &[("SWATH_SIM_CUFILE", "absent")]) {
        assert_eq!(CuFile::load().open(), 5033);
    }
}

#[test]
fn closed_driver_does_not_open() {
    if with_cufile("closed_driver_does_not_open", &[("SWATH_SIM_CUFILE", "closed")]) {
        assert_eq!(CuFile::load().open(), 5001);
    }
}

#[test]
fn limited_number_of_reads_run_at_once_and_the_timeline_shows_it() {
    let test = "limited_number_of_reads_run_at_once_and_the_timeline_shows_it";
    if !with_cufile(test, &[("SWATH_SIM_CUFILE_LATENCY_US", "1000")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (_, opened) = file("latency", &noise(256 * 16));
    let handle = library.register(&opened).unwrap();
    let buffer = card.buffer(256 * 16);
    let entries: Vec<_> = (0..256).map(|i| piece(handle, &buffer, 16 * i, 16 * i, 16)).collect();
    // The best of several runs, because the machine may be busy.
    let together = (0..5).map(|_| {
        let started = Instant::now();
        assert_eq!(card.at_once(&library, &entries, 16), [16; 256]);
        started.elapsed()
    });
    let together = together.min().unwrap();
    forget();
    let started = Instant::now();
    assert_eq!(library.all(&entries), [16; 256]);
    let apart = started.elapsed();
    assert_eq!(events()[..4], ["cuFileRead 0 16", "ended 0 16", "cuFileRead 16 16", "ended 16 16"]);
    eprintln!("256 reads of 1 ms: {together:?} by 16 threads, {apart:?} one by one");
    assert!(together >= Duration::from_millis(32) && together < Duration::from_millis(100), "{together:?}");
    assert!(apart >= Duration::from_millis(256), "{apart:?}");
    assert!(card.contents(&buffer) == noise(256 * 16));
}

#[test]
fn memory_freed_before_the_transfer_is_reported_and_not_written() {
    let test = "memory_freed_before_the_transfer_is_reported_and_not_written";
    if !with_cufile(test, &[("SWATH_SIM_CUFILE_LATENCY_US", "300000")]) {
        return;
    }
    let (card, library) = (Card::open(), CuFile::opened());
    let (_, opened) = file("freed", &noise(4096));
    let handle = library.register(&opened).unwrap();
    let (lost, kept) = (card.buffer(100_000), card.buffer(4096));
    let entries = [piece(handle, &lost, 0, 1000, 4096), piece(handle, &kept, 0, 0, 4096)];
    let next = std::thread::scope(|scope| {
        let reading = scope.spawn(|| card.at_once(&library, &entries, 2));
        while events().iter().filter(|event| event.starts_with("cuFileRead ")).count() < 2 {
            std::thread::yield_now();
        }
        drop(lost);
        // A smaller allocation is placed where the larger one was, so that the addresses are valid again.
        let next = card.buffer(50_000);
        assert_eq!(reading.join().unwrap(), [-5012, 4096]);
        next
    });
    assert_eq!(reported(), ["reported: 4096 bytes of device memory were freed while cuFile used them"]);
    assert!(card.contents(&next).iter().all(|&byte| byte == 0xA5) && card.contents(&kept) == noise(4096));
}

#[test]
fn file_without_a_name_is_refused() {
    if !with_cufile("file_without_a_name_is_refused", &[]) {
        return;
    }
    let (_card, library) = (Card::open(), CuFile::opened());
    let (path, opened) = file("nameless", &noise(10));
    fs::remove_file(&path).unwrap();
    assert_eq!(library.register(&opened), Err(5031));
    // A file whose name now belongs to another file is refused too.
    fs::write(format!("{} (deleted)", path.display()), "other").unwrap();
    assert_eq!(library.register(&opened), Err(5031));
    fs::remove_file(format!("{} (deleted)", path.display())).unwrap();
}

#[test]
fn transfers_and_streams_do_not_wait_for_each_other() {
    let test = "transfers_and_streams_do_not_wait_for_each_other";
    if !with_cufile(test, &[("SWATH_SIM_CUFILE_LATENCY_US", "100")]) {
        return;
    }
    let (_, library) = (Card::open(), CuFile::opened());
    let (_, opened) = file("crowd", &noise(1 << 16));
    let handle = library.register(&opened).unwrap() as usize;
    // Each thread reads, copies, registers, frees and opens, all at once.
    let crowd: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                let (card, library, handle) = (Card::open(), CuFile::opened(), handle as Pointer);
                for round in 0..30 {
                    let buffer = card.buffer(64 * 100);
                    assert_eq!(library.register_buffer(buffer.handle(), 6400), 0);
                    let from = |i| 100 * i + 10 * round + thread;
                    let entries: Vec<_> = (0..64).map(|i| piece(handle, &buffer, from(i), 100 * i, 100)).collect();
                    assert_eq!(card.at_once(&library, &entries, 4), [100; 64]);
                    let copied = card.holding(&[7; 5000]);
                    assert!(card.contents(&copied) == [7; 5000]);
                    assert!(card.contents(&buffer) == noise(1 << 16)[from(0)..from(64)]);
                    assert_eq!(library.deregister_buffer(buffer.handle()), 0);
                }
                assert_eq!(library.close(), 0);
            })
        })
        .collect();
    crowd.into_iter().for_each(|thread| thread.join().unwrap());
    library.deregister(handle as Pointer);
    assert_eq!(library.close(), 0);
    assert_eq!((device_bytes(), reported().len()), (0, 0));
}
