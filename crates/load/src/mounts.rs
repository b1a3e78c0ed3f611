// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmounts a file system and mounts it again with the same options, so that
//! nothing of it is cached.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo, as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    source: String,
    options: String,
    super_options: String,
    device: String,
    root: String,
}

/// Unmounts the file system that holds `path` and mounts it again.
///
/// # Errors
/// It is the root file system, in use, not on a block device, or there is no
/// right to do it; a sentence that names the mount point.
pub fn remount(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let device = format!("{}:{}", libc::major(meta.dev()), libc::minor(meta.dev()));
    let text = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| format!("mountinfo: {e}"))?;
    let full = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
    let mounts: Vec<Mount> = text.lines().filter_map(parse).collect();
    let of_device: Vec<&Mount> = mounts.iter().filter(|m| m.device == device).collect();
    let mount = of_device
        .iter()
        .filter(|m| full.starts_with(&m.point))
        .max_by_key(|m| m.point.as_os_str().len())
        .ok_or_else(|| format!("{}: no mount holds it", path.display()))?;
    let point = mount.point.display();
    if mount.point == Path::new("/") {
        return Err("--cache remount: the load's files are on the root file system; mount a file system of its own for them, or choose --cache drop".into());
    }
    if of_device.len() > 1 || mount.root != "/" {
        return Err(format!("--cache remount: {point} is mounted in several places; choose --cache drop"));
    }
    if !mount.source.starts_with('/') {
        return Err(format!("--cache remount: {point} ({}) is on no block device; choose --cache drop", mount.kind));
    }
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| format!("{point}: a name with a NUL"));
    let target = c(mount.point.as_os_str().as_bytes())?;
    let (flags, data) = options(&mount.options, &mount.super_options);
    let (source, kind, data) = (c(mount.source.as_bytes())?, c(mount.kind.as_bytes())?, c(data.as_bytes())?);
    // SAFETY: all strings end in NUL and outlive the calls.
    unsafe {
        if libc::umount2(target.as_ptr(), 0) != 0 {
            let e = std::io::Error::last_os_error();
            return Err(format!("--cache remount: cannot unmount {point}: {e} (is another process in it?)"));
        }
        if libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) != 0 {
            let e = std::io::Error::last_os_error();
            return Err(format!(
                "--cache remount: {point} was unmounted and cannot be mounted again: {e}; mount {} there by hand",
                mount.source
            ));
        }
    }
    Ok(())
}

fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    Some(Mount {
        point: PathBuf::from(unescape(left.get(4)?)),
        options: (*left.get(5)?).to_string(),
        device: (*left.get(2)?).to_string(),
        root: unescape(left.get(3)?),
        kind: (*right.first()?).to_string(),
        source: unescape(right.get(1)?),
        super_options: (*right.get(2)?).to_string(),
    })
}

/// mountinfo writes blanks as `\040`.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

/// Flags and data of mount(2) for what mountinfo lists.
fn options(of_mount: &str, of_super: &str) -> (libc::c_ulong, String) {
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
    for option in of_mount.split(',') {
        flags |= known.iter().find(|(word, _)| *word == option).map_or(0, |(_, flag)| *flag);
    }
    for option in of_super.split(',') {
        match known.iter().find(|(word, _)| *word == option) {
            Some((_, flag)) => flags |= flag,
            // What the kernel lists but does not take.
            None if matches!(option, "rw" | "seclabel") => {}
            None => data.push(option),
        }
    }
    (flags, data.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_is_read() {
        let line = r"36 35 7:1 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/loop1 rw,data=journal";
        let mount = parse(line).expect("a line");
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/loop1"));
        let (flags, data) = options(&mount.options, &mount.super_options);
        assert_eq!((flags, data.as_str()), (libc::MS_NOATIME, "data=journal"));
    }

    #[test]
    fn the_root_file_system_stays() {
        let said = remount(Path::new("/")).expect_err("never");
        assert!(said.contains("root file system") || said.contains("mounted in several") || said.contains("no block"), "{said}");
    }
}
