// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop device that goes by itself when its last user does (include/uapi/linux/loop.h).

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config` with its `struct loop_info64`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    /// Device, inode, its device, offset, size limit.
    numbers: [u64; 5],
    /// Number, encryption type and key size.
    kind: [u32; 3],
    flags: u32,
    /// File name, name of the encryption, key.
    names: [u8; 64 + 64 + 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// The device; detached when this and all other users are gone.
pub struct LoopDevice {
    path: PathBuf,
    /// Keeps the device while nothing is mounted.
    holder: File,
}

/// A file of a device's queue in /sys that was changed. Those of a loop device stay when it is
/// detached, and the next one to get its number would have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub path: PathBuf,
    pub old: String,
    /// What was written to it.
    pub new: String,
}

impl Changed {
    /// A change of `/sys/block/NAME/queue/FILE` to `new`, not yet made; none when it says so already,
    /// or this kernel has no such file.
    pub fn plan(device: &Path, file: &str, new: &str) -> Option<Self> {
        let path = sys(device).join("queue").join(file);
        let old = std::fs::read_to_string(&path).ok()?.trim().to_owned();
        (old != new).then(|| Self { path, old, new: new.to_owned() })
    }

    /// Makes it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn make(&self) -> io::Result<()> {
        std::fs::write(&self.path, &self.new)
    }

    /// Takes it back, unless somebody else has changed it since, or the device shows another file by
    /// now: its number is used again soon, and what its next user set is his.
    pub fn restore_after(&self, file: &str) {
        let shown = self.path.parent().and_then(Path::parent).and_then(backing);
        if shown.is_none_or(|now| now.ends_with(file)) {
            self.restore();
        }
    }

    /// Takes it back, unless somebody else has changed it since.
    pub fn restore(&self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|now| now.trim() == self.new) {
            if let Err(e) = std::fs::write(&self.path, &self.old) {
                eprintln!("plumb: {}: writing '{}' back: {e}", self.path.display(), self.old);
            }
        }
    }
}

fn sys(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default())
}

/// What a loop device shows; none when it shows nothing.
pub fn backing(device: &Path) -> Option<String> {
    let text = std::fs::read_to_string(sys(device).join("loop/backing_file")).ok()?;
    // While the kernel lets go of the file (__loop_clr_fd), its name is empty before it is gone.
    Some(text.trim_end_matches('\n').to_owned()).filter(|name| !name.is_empty())
}

/// Looks every few milliseconds whether `done`, until `limit`. Whether it was.
pub(super) fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

impl LoopDevice {
    /// Attaches a file by direct I/O, so that nothing of it stays in the page cache; sectors of 512
    /// bytes.
    ///
    /// # Errors
    /// No root, no free loop device, or a kernel before 5.8.
    pub fn attach(file: &Path) -> Result<Self> {
        let backing =
            File::options().read(true).write(true).open(file).with_context(|| file.display().to_string())?;
        let control = "/dev/loop-control";
        let control = File::options().read(true).write(true).open(control).with_context(|| {
            format!("{control} (is the module loop loaded, does this container have it, and are you root?)")
        })?;
        for _ in 0..100 {
            // SAFETY: a call with plain numbers on an open descriptor.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                bail!(
                    "no free loop device: {}; losetup --list shows who has them",
                    io::Error::last_os_error()
                );
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            // Its node may appear a little later.
            let mut device = None;
            within(Duration::from_secs(2), || {
                device = File::options().read(true).write(true).open(&path).ok();
                device.is_some()
            });
            let device = device.with_context(|| {
                format!("{}: does not open (in a container its node may be missing)", path.display())
            })?;
            let config = Config {
                fd: backing.as_raw_fd() as u32,
                block_size: 512,
                numbers: [0; 5],
                kind: [0; 3],
                flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
                names: [0; 160],
                init: [0; 2],
                reserved: [0; 8],
            };
            // SAFETY: the descriptor is open, and the structure the one that the call wants.
            if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) } == 0 {
                // Read-only: some kernels refuse to mount what is open for writing.
                let holder = File::open(&path).with_context(|| path.display().to_string())?;
                return Ok(Self { path, holder });
            }
            let error = io::Error::last_os_error();
            // Somebody else was quicker.
            if error.raw_os_error() != Some(libc::EBUSY) {
                bail!("{}: attaching {}: {error}", path.display(), file.display());
            }
        }
        bail!("no free loop device: others take each before it can be configured")
    }

    /// `/dev/loopN`
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of its queue in /sys: `fua`, `write_cache`.
    ///
    /// # Errors
    /// The kernel has no such file.
    pub fn queue(&self, name: &str) -> Result<String> {
        let path = sys(&self.path).join("queue").join(name);
        Ok(std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim().to_owned())
    }

    /// Lets go of it and waits until the kernel has too.
    ///
    /// # Errors
    /// Somebody still uses it after ten seconds.
    pub fn detach(self, file: &Path) -> Result<()> {
        let Self { path, holder } = self;
        drop(holder);
        // A number is used again soon: another file is as good as none.
        let gone = within(Duration::from_secs(10), || {
            backing(&path).is_none_or(|now| !now.ends_with(&*file.to_string_lossy()))
        });
        if !gone {
            bail!("{}: still in use ten seconds after it was released", path.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_that_the_kernel_wants() {
        // 8 and struct loop_info64 with its 232 bytes, and 64 reserved ones.
        assert_eq!(size_of::<Config>(), 8 + 232 + 64);
    }

    #[test]
    fn what_was_changed_is_taken_back_unless_somebody_else_changed_it() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("write_cache");
        std::fs::write(&path, "write back\n").expect("write");
        let changed = Changed { path: path.clone(), old: "write back".into(), new: "write through".into() };
        changed.make().expect("write");
        changed.restore();
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "write back");
        std::fs::write(&path, "none\n").expect("write");
        changed.restore();
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "none\n");
    }
}
