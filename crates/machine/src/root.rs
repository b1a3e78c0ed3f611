// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where /proc, /sys and /dev are read from: the machine's own, or a tree that
//! a test wrote. Everything that guard, environment and witness ask the kernel
//! goes through here.

use crate::DeviceNumber;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory that stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    base: PathBuf,
}

impl Root {
    pub fn real() -> Root {
        Root { base: PathBuf::from("/") }
    }

    /// A tree that holds `proc`, `sys` and `dev` as the kernel would show them.
    /// A plain file under its `dev` stands for the block device of that name in
    /// its `sys/class/block`; links in it must be relative, as udev makes them.
    pub fn at(dir: &Path) -> Root {
        Root { base: dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()) }
    }

    /// Whether this is the machine itself.
    pub fn is_real(&self) -> bool {
        self.base == Path::new("/")
    }

    /// Where an absolute path of that tree lies.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let path = absolute.as_ref();
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A small file's text without the blanks around it; None where it is missing or unreadable.
    pub fn text(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.path(absolute)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_string())
    }

    /// A file that holds one number.
    pub fn number<T: FromStr>(&self, absolute: impl AsRef<Path>) -> Option<T> {
        self.text(absolute)?.parse().ok()
    }

    /// A file of lines `key value` or `key: value unit`, as /proc/vmstat,
    /// /proc/meminfo and cpu.stat are; None where it is missing.
    pub fn table(&self, absolute: impl AsRef<Path>) -> Option<BTreeMap<String, u64>> {
        let text = self.text(absolute)?;
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let key = words.next()?.trim_end_matches(':').to_string();
            Some((key, words.next()?.parse().ok()?))
        };
        Some(text.lines().filter_map(line).collect())
    }

    /// Names in a directory, in order; none where it is missing.
    pub fn names(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(absolute)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Follows every link of a path; the answer is again a path of this tree.
    pub fn resolve(&self, absolute: impl AsRef<Path>) -> Option<PathBuf> {
        let found = self.path(absolute).canonicalize().ok()?;
        Some(Path::new("/").join(found.strip_prefix(&self.base).ok()?))
    }

    /// The number of the block device that a node, or a link to one, stands for.
    pub fn device(&self, absolute: impl AsRef<Path>) -> Option<DeviceNumber> {
        let path = self.path(absolute);
        let meta = std::fs::metadata(&path).ok()?;
        self.device_of(&path, &meta)
    }

    /// The same for a path that was looked up already; `path` is not taken as one of this tree.
    pub fn device_of(&self, path: &Path, meta: &Metadata) -> Option<DeviceNumber> {
        if meta.file_type().is_block_device() {
            return Some(DeviceNumber::from_dev_t(meta.rdev()));
        }
        if self.is_real() || !meta.is_file() {
            return None;
        }
        let node = path.canonicalize().ok()?;
        let name = node.strip_prefix(self.base.join("dev")).ok()?.file_name()?.to_str()?;
        DeviceNumber::parse(&self.text(format!("/sys/class/block/{name}/dev"))?)
    }
}

/// Undoes the kernel's `\040` for blanks in /proc/mounts and /proc/swaps.
pub fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let octal = (bytes[i] == b'\\').then(|| bytes.get(i + 1..i + 4)).flatten();
        let value = octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
        out.push(value.unwrap_or(bytes[i]));
        i += if value.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_blanks_come_back() {
        assert_eq!(unescape(r"/mnt/a\040b\134c"), Path::new("/mnt/a b\\c"));
        assert_eq!(unescape(r"/plain\"), Path::new("/plain\\"));
    }

    #[test]
    fn a_link_in_a_written_tree_stays_in_it() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::create_dir_all(dir.path().join("dev/disk/by-id")).unwrap();
        std::fs::create_dir_all(dir.path().join("sys/class/block/sda")).unwrap();
        std::fs::write(dir.path().join("dev/sda"), "").unwrap();
        std::fs::write(dir.path().join("sys/class/block/sda/dev"), "8:0\n").unwrap();
        std::os::unix::fs::symlink("../../sda", dir.path().join("dev/disk/by-id/x")).unwrap();
        let root = Root::at(dir.path());
        assert_eq!(root.resolve("/dev/disk/by-id/x"), Some(PathBuf::from("/dev/sda")));
        assert_eq!(root.device("/dev/disk/by-id/x"), Some(DeviceNumber { major: 8, minor: 0 }));
        assert_eq!(root.device("/dev/sdb"), None);
    }
}
