// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounting: at a path, or nowhere at all.

use super::MAX;
use anyhow::{bail, Context, Result};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Opens a connection to the kernel; it serves nothing until [`mount`] or [`detached`].
///
/// # Errors
/// No /dev/fuse, no root.
pub fn open() -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .context("/dev/fuse (is the module fuse loaded, and are you root?)")
}

/// Mounts the connection's file on the (new) file `path`. Whoever opens it waits until somebody
/// serves the connection.
///
/// # Errors
/// No root, or the kernel refuses the mount.
pub fn mount(device: &File, path: &Path) -> Result<()> {
    File::create(path).with_context(|| path.display().to_string())?;
    let target = CString::new(path.as_os_str().as_encoded_bytes())?;
    let options =
        format!("fd={},rootmode=100600,user_id=0,group_id=0,allow_other,max_read={MAX}", device.as_raw_fd());
    let options = CString::new(options)?;
    // SAFETY: all strings end in NUL and live long enough.
    let done = unsafe {
        libc::mount(
            c"plumb".as_ptr(),
            target.as_ptr(),
            c"fuse".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            options.as_ptr().cast(),
        )
    };
    if done != 0 {
        bail!("{}: mount as fuse: {} (this needs root)", path.display(), io::Error::last_os_error());
    }
    Ok(())
}

/// include/uapi/linux/mount.h
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const MOUNT_ATTR_NOSUID_NODEV: libc::c_uint = 2 | 4;

fn descriptor(result: libc::c_long, what: &str) -> Result<OwnedFd> {
    if result < 0 {
        bail!("{what}: {} (this needs root and Linux 5.8)", io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that the kernel gave for this.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

/// Mounts the connection nowhere: the mount is the descriptor that comes back, and ends with it and
/// with the last file that was opened in it. No path shows it, no namespace holds it, and it holds no
/// other mount. A file of it is opened as `/proc/PID/fd/N/NAME`. fsopen(2), fsmount(2).
///
/// # Errors
/// No root, or the kernel refuses.
pub fn detached(device: &File) -> Result<OwnedFd> {
    // SAFETY: a string that ends in NUL, and a number.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"fuse".as_ptr(), FSOPEN_CLOEXEC) };
    let context = descriptor(context, "fsopen of fuse")?;
    let configure = |command: libc::c_uint, key: Option<&CStr>, value: Option<&CStr>| {
        let pointer = |s: Option<&CStr>| s.map_or(std::ptr::null(), CStr::as_ptr);
        let fd = context.as_raw_fd();
        // SAFETY: null, or strings that end in NUL, as the command wants them.
        let done = unsafe { libc::syscall(libc::SYS_fsconfig, fd, command, pointer(key), pointer(value), 0) };
        if done != 0 {
            let key = key.map(CStr::to_string_lossy).unwrap_or_default();
            bail!("mount as fuse: {key}: {} (this needs root)", io::Error::last_os_error());
        }
        Ok(())
    };
    let numbers = [
        (c"fd", device.as_raw_fd().to_string()),
        (c"rootmode", "40500".into()),
        (c"user_id", "0".into()),
        (c"group_id", "0".into()),
        (c"max_read", MAX.to_string()),
        (c"source", "plumb".into()),
    ];
    for (key, value) in numbers {
        configure(FSCONFIG_SET_STRING, Some(key), Some(&CString::new(value)?))?;
    }
    configure(FSCONFIG_SET_FLAG, Some(c"allow_other"), None)?;
    configure(FSCONFIG_CMD_CREATE, None, None)?;
    let fd = context.as_raw_fd();
    // SAFETY: plain numbers.
    let mount = unsafe { libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID_NODEV) };
    descriptor(mount, "fsmount of fuse")
}
