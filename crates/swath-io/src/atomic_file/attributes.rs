//! Gives a new file the owner, the permissions and the extended attributes of the file that it replaces.

use std::fs::File;
use std::io;
use std::path::Path;

/// Copies owner, group, mode, access control list and extended attributes of the file at `old` to `new`, as
/// far as the system permits. Does nothing if `old` is not a regular file.
///
/// No user gets more access than before. If the system does not keep the group, the new group gets only the
/// permissions that all users had.
///
/// # Errors
/// The system cannot read or set the mode. Everything else that it refuses is left out.
#[cfg(unix)]
pub(super) fn keep(old: &Path, new: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    const SET_USER_AND_GROUP_ID: u32 = 0o6000;
    let before = match std::fs::symlink_metadata(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !before.is_file() {
        return Ok(());
    }
    let now = new.metadata()?;
    let same_owner = before.uid() == now.uid() || fchown(new, Some(before.uid()), None).is_ok();
    let same_group = before.gid() == now.gid() || fchown(new, None, Some(before.gid())).is_ok();
    let mut mode = before.mode() & 0o7777;
    if !same_owner || !same_group {
        mode &= !SET_USER_AND_GROUP_ID;
    }
    if !same_group {
        mode &= !0o070 | ((mode & 0o007) << 3);
    }
    // The entry of the owning group in the list would apply to another group.
    extended::copy(old, new, same_group);
    // The mode comes last: without a permission to write, attributes could not be set.
    new.set_permissions(std::fs::Permissions::from_mode(mode))
}

/// The system has no modes; the new file has the permissions of its folder.
#[cfg(not(unix))]
pub(super) fn keep(_old: &Path, _new: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod extended {
    use std::ffi::{CStr, CString};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    const ACCESS_LIST: &CStr = c"system.posix_acl_access";
    /// Hashes of the contents, which the system keeps itself.
    const OF_CONTENTS: [&CStr; 2] = [c"security.ima", c"security.evm"];

    /// Copies the extended attributes. What the system refuses is left out.
    pub(super) fn copy(old: &Path, new: &File, with_access_list: bool) {
        let Ok(path) = CString::new(old.as_os_str().as_bytes()) else { return };
        let names = list(&path);
        let names: Vec<&CStr> = names
            .split_inclusive(|byte| *byte == 0)
            .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
            .filter(|name| !OF_CONTENTS.contains(name) && (with_access_list || *name != ACCESS_LIST))
            .collect();
        if !names.contains(&ACCESS_LIST) {
            // The folder can have a default list, which the new file has inherited.
            // SAFETY: the descriptor is open, and the name ends in NUL.
            unsafe { libc::fremovexattr(new.as_raw_fd(), ACCESS_LIST.as_ptr()) };
        }
        for name in names {
            let Some(value) = value(&path, name) else { continue };
            // SAFETY: the descriptor is open, the name ends in NUL, and the value has the given length.
            unsafe { libc::fsetxattr(new.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
        }
    }

    /// The names of the attributes, each with a NUL at its end; empty if the file system has none.
    fn list(path: &CStr) -> Vec<u8> {
        // SAFETY: the path ends in NUL, and the system writes at most `len` bytes to `buffer`.
        read(|buffer, len| unsafe { libc::llistxattr(path.as_ptr(), buffer.cast(), len) }).unwrap_or_default()
    }

    fn value(path: &CStr, name: &CStr) -> Option<Vec<u8>> {
        // SAFETY: both texts end in NUL, and the system writes at most `len` bytes to `buffer`.
        read(|buffer, len| unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), buffer.cast(), len) })
    }

    /// Reads bytes whose length the system reports if the length of the buffer is zero.
    fn read(call: impl Fn(*mut u8, usize) -> isize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(call(std::ptr::null_mut(), 0)).ok()?];
        let len = usize::try_from(call(bytes.as_mut_ptr(), bytes.len())).ok()?;
        bytes.truncate(len);
        Some(bytes)
    }
}

/// Extended attributes are kept on Linux only.
#[cfg(all(unix, not(target_os = "linux")))]
mod extended {
    pub(super) fn copy(_old: &std::path::Path, _new: &std::fs::File, _with_access_list: bool) {}
}
