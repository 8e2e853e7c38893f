//! Targets that are not regular files: pipes and devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a pipe or a device for writing.
///
/// Without a reader, the system would let the open of a named pipe wait for ever. A reader that starts together with
/// this process gets some seconds.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::TimedOut`] if no process reads the pipe.
#[cfg(unix)]
pub fn open_stream(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(5);
    let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
    let start = Instant::now();
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(file) => return blocking(file),
            Err(error) if is_pipe && error.raw_os_error() == Some(libc::ENXIO) => {
                if start.elapsed() > PATIENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it is a pipe that no process reads"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes writes wait until the reader has taken the bytes.
#[cfg(unix)]
fn blocking(file: File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let descriptor = file.as_raw_fd();
    // SAFETY: the calls read and change the flags of a descriptor that `file` owns and keeps open.
    let done = unsafe {
        match libc::fcntl(descriptor, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(descriptor, libc::F_SETFL, flags & !libc::O_NONBLOCK),
        }
    };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// Opens a pipe or a device for writing.
///
/// # Errors
/// The error of the system.
#[cfg(not(unix))]
pub fn open_stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Makes a write beyond the largest size of a file (`ulimit -f`) return an error. By default, the system ends the process.
/// A command calls this when it starts.
pub fn report_file_size_limit() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal runs no code when the signal arrives.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn pipe_without_a_reader_is_an_error_and_a_late_reader_gets_the_bytes() {
        let folder = std::env::temp_dir().join(format!("swath-pipe-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(open_stream(&path).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                let mut bytes = Vec::new();
                File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        // More than a pipe holds: the writes must wait for the reader.
        let bytes = vec![7; 1 << 20];
        open_stream(&path).unwrap().write_all(&bytes).unwrap();
        assert!(reader.join().unwrap() == bytes);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
