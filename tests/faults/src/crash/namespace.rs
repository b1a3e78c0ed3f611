// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mount namespace of the checker's own: who lives in it, and how a disk in it is given up.

use crate::sys;
use anyhow::{bail, Context, Result};
use std::path::Path;

/// Gives the calling thread, and what it starts from now on, mounts that nobody else sees.
///
/// # Errors
/// No root.
pub fn leave() -> Result<()> {
    // SAFETY: calls with plain numbers and strings that end in NUL.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
    };
    if !done {
        bail!("own mount namespace: {} (this needs root)", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Processes that see something mounted on `mount`. By its path, which holds a random part: the
/// number of a namespace is used again soon after its end.
pub fn inhabitants(mount: &Path) -> Vec<u32> {
    let Ok(proc) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = proc.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        device_of(&mounts, mount).is_some()
    })
    .collect()
}

/// Kills all inhabitants but one; those that were there.
pub fn evacuate(mount: &Path, but: u32) -> Vec<u32> {
    let mut there = inhabitants(mount);
    there.retain(|&pid| pid != but);
    for &pid in &there {
        sys::kill(pid, libc::SIGKILL);
    }
    there
}

/// Aborts the FUSE connection whose file is mounted on `mount`: the kernel answers every request,
/// waiting and to come, with an error.
///
/// # Errors
/// Nothing is mounted there; the control file system cannot be mounted or written.
pub fn abort_connection(mount: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").context("mountinfo")?;
    let device = device_of(&mounts, mount)
        .with_context(|| format!("{}: nothing is mounted there any more", mount.display()))?;
    let minor = device.split_once(':').map_or(device, |(_, minor)| minor);
    let control = Path::new("/sys/fs/fuse/connections");
    if !control.join(minor).exists() {
        // SAFETY: all strings end in NUL.
        let done = unsafe {
            libc::mount(
                c"none".as_ptr(),
                c"/sys/fs/fuse/connections".as_ptr(),
                c"fusectl".as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        if done != 0 {
            bail!("{}: mount as fusectl: {}", control.display(), std::io::Error::last_os_error());
        }
    }
    let abort = control.join(minor).join("abort");
    std::fs::write(&abort, "1").with_context(|| abort.display().to_string())
}

/// The device, as `0:45`, of what is mounted on a directory or file: no question to the file system
/// itself, which might not answer (proc_pid_mountinfo(5)).
fn device_of<'a>(mounts: &'a str, mount: &Path) -> Option<&'a str> {
    let mount = mount.as_os_str().to_str()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let (device, _root, place) = (words.next()?, words.next()?, words.next()?);
        (place == mount).then_some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_whole_path() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                      90 22 0:45 / /tmp/x/disk rw,nosuid - fuse plumb-faults rw\n";
        assert_eq!(device_of(mounts, Path::new("/tmp/x/disk")), Some("0:45"));
        assert_eq!(device_of(mounts, Path::new("/tmp/x")), None);
        assert_eq!(device_of(mounts, Path::new("/")), Some("254:0"));
    }

    #[test]
    fn who_sees_the_root_is_an_inhabitant_of_it() {
        assert!(inhabitants(Path::new("/")).contains(&std::process::id()));
        assert!(inhabitants(Path::new("/no/such/mount")).is_empty());
    }
}
