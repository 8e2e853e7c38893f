//! Counts of what a device does.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of what a device did since it was opened. Tests use them to check claims such as "one upload for 1,024 tiles".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Allocations of device memory.
    pub allocations: u64,
    /// Bytes of device memory in use.
    pub current_bytes: u64,
    /// The most bytes in use at once, since the device was opened or the peak was reset.
    pub peak_bytes: u64,
    /// Copies to the device.
    pub uploads: u64,
    /// Bytes copied to the device.
    pub uploaded_bytes: u64,
    /// Copies from the device.
    pub downloads: u64,
    /// Bytes copied from the device.
    pub downloaded_bytes: u64,
    /// Copies from the device to itself.
    pub copies: u64,
    /// Bytes copied from the device to itself.
    pub copied_bytes: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Waits for the device.
    pub synchronisations: u64,
    /// Calls that gave work to NVIDIA's libraries.
    pub library_calls: u64,
    /// Reads of files directly into device memory.
    pub file_reads: u64,
    /// Bytes of them.
    pub file_read_bytes: u64,
    /// Writes of files directly from device memory.
    pub file_writes: u64,
    /// Bytes of them.
    pub file_written_bytes: u64,
}

impl DeviceStats {
    /// The counts since `before` was taken. The bytes in use and their peak are the current ones.
    #[must_use]
    pub fn since(&self, before: &DeviceStats) -> DeviceStats {
        DeviceStats {
            allocations: self.allocations - before.allocations,
            current_bytes: self.current_bytes,
            peak_bytes: self.peak_bytes,
            uploads: self.uploads - before.uploads,
            uploaded_bytes: self.uploaded_bytes - before.uploaded_bytes,
            downloads: self.downloads - before.downloads,
            downloaded_bytes: self.downloaded_bytes - before.downloaded_bytes,
            copies: self.copies - before.copies,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            launches: self.launches - before.launches,
            synchronisations: self.synchronisations - before.synchronisations,
            library_calls: self.library_calls - before.library_calls,
            file_reads: self.file_reads - before.file_reads,
            file_read_bytes: self.file_read_bytes - before.file_read_bytes,
            file_writes: self.file_writes - before.file_writes,
            file_written_bytes: self.file_written_bytes - before.file_written_bytes,
        }
    }
}

impl DeviceStats {
    /// The counts of two devices together.
    #[must_use]
    pub fn plus(&self, other: &DeviceStats) -> DeviceStats {
        DeviceStats {
            allocations: self.allocations + other.allocations,
            current_bytes: self.current_bytes + other.current_bytes,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            uploads: self.uploads + other.uploads,
            uploaded_bytes: self.uploaded_bytes + other.uploaded_bytes,
            downloads: self.downloads + other.downloads,
            downloaded_bytes: self.downloaded_bytes + other.downloaded_bytes,
            copies: self.copies + other.copies,
            copied_bytes: self.copied_bytes + other.copied_bytes,
            launches: self.launches + other.launches,
            synchronisations: self.synchronisations + other.synchronisations,
            library_calls: self.library_calls + other.library_calls,
            file_reads: self.file_reads + other.file_reads,
            file_read_bytes: self.file_read_bytes + other.file_read_bytes,
            file_writes: self.file_writes + other.file_writes,
            file_written_bytes: self.file_written_bytes + other.file_written_bytes,
        }
    }
}

impl fmt::Display for DeviceStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "{} allocations, {:.3} MB at most; {} uploads ({:.3} MB), {} downloads ({:.3} MB), {} copies; {} launches, {} \
             synchronisations",
            self.allocations,
            mb(self.peak_bytes),
            self.uploads,
            mb(self.uploaded_bytes),
            self.downloads,
            mb(self.downloaded_bytes),
            self.copies,
            self.launches,
            self.synchronisations,
        )?;
        for (what, count, bytes) in [
            ("calls of NVIDIA's libraries", self.library_calls, None),
            ("reads straight from the file", self.file_reads, Some(self.file_read_bytes)),
            ("writes straight to the file", self.file_writes, Some(self.file_written_bytes)),
        ] {
            match bytes {
                _ if count == 0 => {}
                None => write!(f, "; {count} {what}")?,
                Some(bytes) => write!(f, "; {count} {what} ({:.3} MB)", mb(bytes))?,
            }
        }
        Ok(())
    }
}

/// The counters behind [`DeviceStats`], shared by all users of a device.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    allocations: AtomicU64,
    current: AtomicU64,
    peak: AtomicU64,
    uploads: AtomicU64,
    uploaded: AtomicU64,
    downloads: AtomicU64,
    downloaded: AtomicU64,
    copies: AtomicU64,
    copied: AtomicU64,
    launches: AtomicU64,
    synchronisations: AtomicU64,
    library_calls: AtomicU64,
    file_reads: AtomicU64,
    file_read_bytes: AtomicU64,
    file_writes: AtomicU64,
    file_written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn allocated(&self, bytes: u64) {
        self.allocations.fetch_add(1, Relaxed);
        let current = self.current.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(current, Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn uploaded(&self, bytes: u64) {
        self.uploads.fetch_add(1, Relaxed);
        self.uploaded.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn downloaded(&self, bytes: u64) {
        self.downloads.fetch_add(1, Relaxed);
        self.downloaded.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.copies.fetch_add(1, Relaxed);
        self.copied.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Relaxed);
    }

    pub(crate) fn synchronised(&self) {
        self.synchronisations.fetch_add(1, Relaxed);
    }

    pub(crate) fn called_library(&self) {
        self.library_calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn read_file(&self, reads: u64, bytes: u64) {
        self.file_reads.fetch_add(reads, Relaxed);
        self.file_read_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn wrote_file(&self, writes: u64, bytes: u64) {
        self.file_writes.fetch_add(writes, Relaxed);
        self.file_written_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn current_bytes(&self) -> u64 {
        self.current.load(Relaxed)
    }

    /// Resets the peak to the bytes in use now.
    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.current.load(Relaxed), Relaxed);
    }

    pub(crate) fn snapshot(&self) -> DeviceStats {
        DeviceStats {
            allocations: self.allocations.load(Relaxed),
            current_bytes: self.current.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            uploads: self.uploads.load(Relaxed),
            uploaded_bytes: self.uploaded.load(Relaxed),
            downloads: self.downloads.load(Relaxed),
            downloaded_bytes: self.downloaded.load(Relaxed),
            copies: self.copies.load(Relaxed),
            copied_bytes: self.copied.load(Relaxed),
            launches: self.launches.load(Relaxed),
            synchronisations: self.synchronisations.load(Relaxed),
            library_calls: self.library_calls.load(Relaxed),
            file_reads: self.file_reads.load(Relaxed),
            file_read_bytes: self.file_read_bytes.load(Relaxed),
            file_writes: self.file_writes.load(Relaxed),
            file_written_bytes: self.file_written_bytes.load(Relaxed),
        }
    }
}
