// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup's limit of a disk: a line of `blkio.throttle.*_device` (v1) or of `io.max` (v2).

use plumb_machine::DeviceNumber;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// A disk that `io.max` does not limit.
pub const NONE_V2: &str = "rbps=max wbps=max riops=max wiops=max";
/// A disk that a file of v1 does not limit.
pub const NONE_V1: &str = "0";

/// What such a file says of a disk that it does not limit.
pub fn none(path: &Path) -> &'static str {
    if path.ends_with("io.max") {
        NONE_V2
    } else {
        NONE_V1
    }
}

/// A limit of a disk in a file, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub path: PathBuf,
    pub device: DeviceNumber,
    /// What the file said of it, to be written again.
    pub before: String,
    /// What it said when it was changed; none where it may be changed often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Limit {
    /// What the file says of the disk where that is not what it said before; None too where it is gone.
    pub fn changed(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let unset = [NONE_V2, NONE_V1].into_iter().find(|none| *none == self.before);
        let now = line(&text, self.device).or(unset.map(str::to_string)).unwrap_or_default();
        (now != self.before).then_some(now)
    }

    /// What the file says of the disk where somebody else wrote it: it is neither what was found there nor what was made
    /// of it.
    pub fn foreign(&self) -> Option<String> {
        let after = self.after.as_ref()?;
        let text = std::fs::read_to_string(&self.path).ok()?;
        let now = line(&text, self.device).unwrap_or_else(|| none(&self.path).into());
        (now != self.before && now != *after).then_some(now)
    }

    /// Makes it what it was. False: it is so already, or it is gone with its group or its disk.
    ///
    /// # Errors
    /// The file does not take it.
    pub fn put_back(&self) -> io::Result<bool> {
        if self.changed().is_none() {
            return Ok(false);
        }
        match std::fs::write(&self.path, format!("{} {}\n", self.device, self.before)) {
            Err(e) if is_gone(&e) => Ok(false),
            done => done.map(|()| true),
        }
    }
}

/// Whether a file's group or its disk is no more.
pub fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO))
}

/// What a file says of a device.
pub fn line(text: &str, device: DeviceNumber) -> Option<String> {
    let device = device.to_string();
    text.lines().find_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        (name == device).then(|| rest.trim().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_is_known() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("io.max");
        let device = DeviceNumber { major: 8, minor: 0 };
        let (before, after) = ("rbps=1 wbps=max riops=max wiops=max".to_owned(), Some(NONE_V2.to_owned()));
        let limit = Limit { path: path.clone(), device, before: before.clone(), after };
        let says = |text: String| {
            std::fs::write(&path, text).expect("written");
            limit.foreign()
        };
        // As it was, as it was made (no line is no limit), and as neither.
        assert_eq!(says(format!("8:0 {before}\n")), None);
        assert_eq!(says("8:16 rbps=9 wbps=max riops=max wiops=max\n".into()), None);
        assert_eq!(
            says("8:0 rbps=7 wbps=max riops=max wiops=max\n".into()).as_deref(),
            Some("rbps=7 wbps=max riops=max wiops=max")
        );
    }
}
