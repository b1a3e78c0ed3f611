// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of a mounted file system that can be changed while it is mounted, each alone: fspick(2) and fsconfig(2), which
//! leave all that is not named as it is (fs/fsopen.c, Linux 5.2).

use plumb_machine::{mounts, DeviceNumber, Root};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Each with what it is the opposite of. The first is listed among a mount's options, the second is not.
pub const WORDS: [[&str; 2]; 1] = [["sync", "async"]];

const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_CMD_RECONFIGURE: libc::c_uint = 7;
const FSPICK_CLOEXEC: libc::c_uint = 1;

/// The word of a pair that holds at a mount point; none where another device is mounted, or nothing.
pub fn word(
    point: &Path,
    device: DeviceNumber,
    pair: [&'static str; 2],
    root: &Root,
) -> Option<&'static str> {
    // Of several mounts at one point the last is seen.
    let mount = mounts(root).into_iter().rfind(|m| m.point == point)?;
    if mount.number != device {
        return None;
    }
    Some(if mount.options.split(',').any(|w| w == pair[0]) { pair[0] } else { pair[1] })
}

/// The pair that has the word.
pub fn pair(word: &str) -> Option<[&'static str; 2]> {
    WORDS.into_iter().find(|pair| pair.contains(&word))
}

/// Has the file system at a mount point take a word of [`WORDS`].
///
/// # Errors
/// The kernel's.
pub fn set(point: &Path, word: &str) -> io::Result<()> {
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (point, word) = (c(point.as_os_str().as_bytes())?, c(word.as_bytes())?);
    let done = |result: libc::c_long| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the texts end in NUL and outlive the calls; the descriptor is new and ours.
    unsafe {
        let fd = done(libc::syscall(libc::SYS_fspick, libc::AT_FDCWD, point.as_ptr(), FSPICK_CLOEXEC))?;
        let held = OwnedFd::from_raw_fd(fd as i32);
        let fd = held.as_raw_fd();
        done(libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_SET_FLAG, word.as_ptr(), none, 0))?;
        done(libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_RECONFIGURE, none, none, 0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_machine::Fake;

    #[test]
    fn a_word_is_that_of_the_device_that_is_seen() {
        let fake = Fake::new();
        fake.disk("sda", "8:0").disk("sdb", "8:16");
        let of = |device: &str| {
            let device = DeviceNumber::parse(device).expect("a number");
            word(Path::new("/data"), device, WORDS[0], &fake.root())
        };
        assert_eq!(of("8:0"), None, "nothing is mounted");
        fake.mount("self", "8:0", "/data", "ext4", "/dev/sda rw,sync");
        assert_eq!((of("8:0"), of("8:16")), (Some("sync"), None));
        fake.mount("self", "8:16", "/data", "ext4", "/dev/sdb");
        assert_eq!((of("8:0"), of("8:16")), (None, Some("async")));
        assert_eq!((pair("async"), pair("ro")), (Some(WORDS[0]), None));
    }
}
