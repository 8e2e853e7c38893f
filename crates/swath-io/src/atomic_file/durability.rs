//! When a new file must be on the disk before it gets its name.

use std::fs::File;

/// When a write waits until its file is on the disk (`fsync`). A file that the write did not wait for is
/// complete for every reader, and survives the end of the process, but may be lost if the power fails within
/// the next seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// If the file replaces another one, so that a power failure leaves the old file or the new one; and on
    /// file systems that report a full or failing disk only when they are asked to sync, such as NFS.
    #[default]
    WhenReplacing,
    /// Always.
    Always,
    /// Never. On a network file system, a failure of the disk may stay unnoticed.
    Never,
}

/// Whether the file system may report that a write failed only when the file is synced. Local file systems
/// reserve the space when they accept the bytes.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "the numbers have other types on other targets")]
pub(super) fn reports_failures_late(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    /// ZFS is not part of Linux, so `libc` does not have its number.
    const ZFS_SUPER_MAGIC: i128 = 0x2fc1_2fc1;
    let local = [
        i128::from(libc::EXT4_SUPER_MAGIC),
        i128::from(libc::XFS_SUPER_MAGIC),
        i128::from(libc::BTRFS_SUPER_MAGIC),
        i128::from(libc::F2FS_SUPER_MAGIC),
        i128::from(libc::TMPFS_MAGIC),
        i128::from(libc::OVERLAYFS_SUPER_MAGIC),
        ZFS_SUPER_MAGIC,
    ];
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `found` has the size that the call fills, and the descriptor is open as long as `file` is
    // borrowed.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return true;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let kind = unsafe { found.assume_init() }.f_type;
    !local.contains(&i128::from(kind))
}

/// This system does not tell which file systems are local.
#[cfg(not(target_os = "linux"))]
pub(super) fn reports_failures_late(_file: &File) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn local_disk_is_not_waited_for_and_an_unknown_file_system_is() {
        let local = File::open(std::env::temp_dir()).unwrap();
        assert!(!reports_failures_late(&local), "the folder for temporary files is expected on a local file system");
        assert!(reports_failures_late(&File::open("/proc/self/status").unwrap()));
    }
}
