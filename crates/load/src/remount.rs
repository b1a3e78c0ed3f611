// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmounts a file system and mounts it again with the same options, so that
//! nothing of it is cached.

use plumb_machine::{mount_of, mounts, Root};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Unmounts the file system that holds `path` and mounts it again.
///
/// # Errors
/// It is the root file system, in use, mounted elsewhere too, on no block
/// device, or there is no right to do it; a sentence that names the mount point.
pub fn remount(path: &Path) -> Result<(), String> {
    let root = Root::real();
    let mount = mount_of(path, &root).ok_or_else(|| format!("{}: no mount holds it", path.display()))?;
    let point = mount.point.display();
    if mount.point == Path::new("/") {
        return Err("--cache remount: the load's files are on the root file system; mount a file system of its own for them, or choose --cache drop".into());
    }
    if mounts(&root).iter().filter(|m| m.number == mount.number).count() > 1
        || mount.subtree != Path::new("/")
    {
        return Err(format!("--cache remount: {point} is mounted in several places; choose --cache drop"));
    }
    if !mount.source.is_absolute() {
        return Err(format!(
            "--cache remount: {point} ({}) is on no block device; choose --cache drop",
            mount.kind
        ));
    }
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| format!("{point}: a name with a NUL"));
    let target = c(mount.point.as_os_str().as_bytes())?;
    let (flags, data) = options(&mount.kind, &mount.options);
    let source = c(mount.source.as_os_str().as_bytes())?;
    let (kind, data) = (c(mount.kind.as_bytes())?, c(data.as_bytes())?);
    // A loop device that mount(8) made goes with its last user, and could not be mounted again.
    let _held = File::open(&mount.source).map_err(|e| format!("{}: {e}", mount.source.display()))?;
    // SAFETY: all strings end in NUL and outlive the calls.
    unsafe {
        if libc::umount2(target.as_ptr(), 0) != 0 {
            let e = io::Error::last_os_error();
            return Err(format!("--cache remount: cannot unmount {point}: {e} (is another process in it?)"));
        }
        if libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) != 0 {
            let e = io::Error::last_os_error();
            return Err(format!(
                "--cache remount: {point} was unmounted and cannot be mounted again: {e}; mount {} there by hand",
                mount.source.display()
            ));
        }
    }
    Ok(())
}

/// What the kernel's ext4 driver lists of itself in a file system that is mounted as ext2 or ext3 (of
/// `data=journal`, `nodioread_nolock`), and refuses as an option of those: `MOPT_NO_EXT2` and `MOPT_NO_EXT3`
/// in fs/ext4/super.c. So nobody can have asked for it.
const NOT_OF_EXT3: &[&str] = &[
    "delalloc",
    "nodelalloc",
    "dioread_nolock",
    "nodioread_nolock",
    "journal_checksum",
    "nojournal_checksum",
    "journal_async_commit",
];

/// Flags and data of mount(2) for the options that mountinfo lists of a file system of this kind.
fn options(kind: &str, listed: &str) -> (libc::c_ulong, String) {
    let known = [
        ("ro", libc::MS_RDONLY),
        ("nosuid", libc::MS_NOSUID),
        ("nodev", libc::MS_NODEV),
        ("noexec", libc::MS_NOEXEC),
        ("noatime", libc::MS_NOATIME),
        ("nodiratime", libc::MS_NODIRATIME),
        ("relatime", libc::MS_RELATIME),
        ("sync", libc::MS_SYNCHRONOUS),
    ];
    let mut flags = 0;
    let mut data: Vec<&str> = Vec::new();
    for option in listed.split(',') {
        match known.iter().find(|(word, _)| *word == option) {
            Some((_, flag)) => flags |= flag,
            // What the kernel lists but does not take.
            None if matches!(option, "" | "rw" | "seclabel") => {}
            None if matches!(kind, "ext2" | "ext3") && NOT_OF_EXT3.contains(&option) => {}
            None => data.push(option),
        }
    }
    (flags, data.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_options_become_flags_and_data() {
        assert_eq!(
            options("ext4", "rw,noatime,rw,data=journal"),
            (libc::MS_NOATIME, "data=journal".to_string())
        );
    }

    #[test]
    fn what_ext3_lists_of_itself_is_not_asked_for() {
        let listed = "rw,relatime,rw,nodioread_nolock,nodelalloc,stripe=16,data=journal";
        assert_eq!(options("ext3", listed), (libc::MS_RELATIME, "stripe=16,data=journal".to_string()));
        // There somebody may have asked for it.
        let all = "nodioread_nolock,nodelalloc,stripe=16,data=journal";
        assert_eq!(options("ext4", listed), (libc::MS_RELATIME, all.to_string()));
    }

    #[test]
    fn the_root_file_system_stays() {
        let said = remount(Path::new("/")).expect_err("never");
        assert!(said.contains("root file system"), "{said}");
    }
}
