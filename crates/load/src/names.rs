// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of many files: `0000012345.txt`, evenly over directories, made
//! without allocating.
//!
//! The pattern is that of S. Yamaguchi, M. Oguchi, M. Kitsuregawa, "Trace
//! system of iSCSI storage access": ten digits and `.txt`.

use std::ffi::CStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The names of one worker's files.
#[derive(Debug, Clone)]
pub struct Names {
    dir: PathBuf,
    count: u64,
    dirs: u64,
}

/// A path under construction, kept between operations.
#[derive(Debug, Clone, Default)]
pub struct NameBuffer(Vec<u8>);

impl Names {
    /// `count` names in `dir`, or in `dirs` directories below it.
    pub fn new(dir: &Path, count: u64, dirs: u64) -> Self {
        Names { dir: dir.to_owned(), count, dirs: dirs.min(count) }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The directory that they lie in or below.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directories.
    ///
    /// # Errors
    /// One cannot be made; named.
    pub fn make_dirs(&self) -> io::Result<()> {
        let named = |path: &Path, e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        std::fs::create_dir_all(&self.dir).map_err(|e| named(&self.dir, e))?;
        for i in 0..self.dirs {
            let path = self.dir.join(format!("{i:05}"));
            std::fs::create_dir_all(&path).map_err(|e| named(&path, e))?;
        }
        Ok(())
    }

    /// The path of name `i`; `other` gives the one that a rename goes to.
    pub fn path<'b>(&self, i: u64, other: bool, buffer: &'b mut NameBuffer) -> &'b CStr {
        let out = &mut buffer.0;
        out.clear();
        out.extend_from_slice(self.dir.as_os_str().as_bytes());
        out.push(b'/');
        if self.dirs > 0 {
            digits(out, i % self.dirs, 5);
            out.push(b'/');
        }
        digits(out, i, 10);
        out.extend_from_slice(if other { b".new\0" } else { b".txt\0" });
        CStr::from_bytes_until_nul(out).unwrap_or_default()
    }
}

fn digits(out: &mut Vec<u8>, mut n: u64, width: usize) {
    let at = out.len();
    out.resize(at + width, b'0');
    for place in (at..at + width).rev() {
        out[place] = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_ten_digits_and_lie_evenly() {
        let mut buffer = NameBuffer::default();
        let plain = Names::new(Path::new("/d"), 100_000, 0);
        assert_eq!(plain.path(12_345, false, &mut buffer).to_str(), Ok("/d/0000012345.txt"));
        let tree = Names::new(Path::new("/d"), 100, 10);
        assert_eq!(tree.path(27, true, &mut buffer).to_str(), Ok("/d/00007/0000000027.new"));
    }
}
