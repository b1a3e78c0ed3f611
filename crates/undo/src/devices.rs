// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What crates above this one know of devices, and undoing needs: disks that plumb serves, file systems that a killed
//! run left unfinished.

use anyhow::Result;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Answers of whoever serves disks and makes file systems.
pub trait Devices: Sync + std::fmt::Debug {
    fn is_served(&self, disk: &str) -> bool;

    /// Stops a served disk; with `force` its requests fail.
    ///
    /// # Errors
    /// It is in use, or does not end.
    fn stop(&self, disk: &str, force: bool) -> Result<()>;

    /// Whether a file is one of the kernel's settings (/proc, /sys, cgroups): a journal puts back no other.
    fn is_setting(&self, path: &Path) -> bool {
        kernels_own(path)
    }

    /// Whether a change may be undone by a command that the journal holds.
    fn runs_commands(&self) -> bool {
        false
    }

    /// Whether a device holds a file system that was not finished, and nothing else that is known.
    fn is_unfinished(&self, device: &Path) -> bool;

    /// Clears such a device; says whether it did.
    ///
    /// # Errors
    /// The device's.
    fn clear_unfinished(&self, device: &Path) -> Result<bool>;
}

/// Whether a path is on a file system that the kernel makes up.
fn kernels_own(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: plain numbers, for which zeros are a value.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: name ends with a zero, facts may be written; both live through the call.
    if unsafe { libc::statfs(name.as_ptr(), &mut facts) } != 0 {
        // What is gone is put back by nobody.
        return io::Error::last_os_error().kind() == io::ErrorKind::NotFound;
    }
    let kinds =
        [libc::SYSFS_MAGIC, libc::PROC_SUPER_MAGIC, libc::CGROUP_SUPER_MAGIC, libc::CGROUP2_SUPER_MAGIC];
    kinds.contains(&facts.f_type)
}

/// Of a journal that has neither: no disk is served, and no device unfinished.
#[derive(Debug)]
pub struct NoDevices;

/// The same of a tree that is not this machine's root: its settings are plain files.
#[derive(Debug)]
pub struct PlainFiles;

impl Devices for PlainFiles {
    fn is_served(&self, disk: &str) -> bool {
        NoDevices.is_served(disk)
    }

    fn stop(&self, disk: &str, force: bool) -> Result<()> {
        NoDevices.stop(disk, force)
    }

    fn is_setting(&self, _: &Path) -> bool {
        true
    }

    fn is_unfinished(&self, device: &Path) -> bool {
        NoDevices.is_unfinished(device)
    }

    fn clear_unfinished(&self, device: &Path) -> Result<bool> {
        NoDevices.clear_unfinished(device)
    }
}

impl Devices for NoDevices {
    fn is_served(&self, _: &str) -> bool {
        false
    }

    fn stop(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    fn is_unfinished(&self, _: &Path) -> bool {
        false
    }

    fn clear_unfinished(&self, _: &Path) -> Result<bool> {
        Ok(false)
    }
}
