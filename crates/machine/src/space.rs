// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a file system still takes, from statvfs(3).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The room in the file system that a directory lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that a user may take. What is reserved for root's daemons is not among them, also when root asks.
    pub free: u64,
    /// Files that can be made; none of a file system that makes inodes as it goes (btrfs).
    pub free_files: Option<u64>,
    pub read_only: bool,
}

impl Space {
    /// Of that directory.
    ///
    /// # Errors
    /// It is not there, cannot be looked at, or its path holds a zero byte.
    pub fn of(dir: &Path) -> io::Result<Space> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: statvfs is plain numbers, for which zeros are a value.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: name ends with a zero, facts may be written; both live through the call.
        if unsafe { libc::statvfs(name.as_ptr(), &mut facts) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Space {
            free: facts.f_bavail.saturating_mul(facts.f_frsize),
            free_files: (facts.f_files > 0).then_some(facts.f_favail),
            read_only: facts.f_flag & libc::ST_RDONLY != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_one_that_is_missing_an_errno() {
        let dir = tempfile::TempDir::new().unwrap();
        let space = Space::of(dir.path()).unwrap();
        assert!(space.free > 0 && !space.read_only && space.free_files != Some(0), "{space:?}");
        let error = Space::of(&dir.path().join("none")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
