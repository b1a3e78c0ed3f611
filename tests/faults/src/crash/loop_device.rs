// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop device that goes by itself when its last user does (include/uapi/linux/loop.h).

use super::within;
use anyhow::{bail, Context, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    _holder: File,
}

impl LoopDevice {
    /// Attaches a file by direct I/O, so that nothing of it stays in the page cache.
    ///
    /// # Errors
    /// No root, no free loop device, or a kernel before 5.8.
    pub fn attach(file: &Path) -> Result<Self> {
        let backing =
            File::options().read(true).write(true).open(file).with_context(|| file.display().to_string())?;
        let control = "/dev/loop-control";
        let control = File::options().read(true).write(true).open(control).context(control)?;
        for _ in 0..100 {
            // SAFETY: a call with plain numbers on an open descriptor.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                bail!("no free loop device: {}", io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            // Its node may appear a little later.
            let mut device = None;
            within(Duration::from_secs(2), || {
                device = File::options().read(true).write(true).open(&path).ok();
                device.is_some()
            });
            let device = device.with_context(|| format!("{}: does not open", path.display()))?;
            let config = Config {
                fd: backing.as_raw_fd() as u32,
                block_size: 0,
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
                return Ok(Self { path, _holder: holder });
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
        let path = self.sys().join("queue").join(name);
        Ok(std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim().to_owned())
    }

    fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.path.file_name().unwrap_or_default())
    }

    /// Lets go of it and waits until the kernel has too.
    ///
    /// # Errors
    /// Somebody still uses it after ten seconds.
    pub fn detach(self, file: &Path) -> Result<()> {
        let backing = self.sys().join("loop/backing_file");
        let path = self.path;
        drop(self._holder);
        let gone = within(Duration::from_secs(10), || {
            // A number is used again soon: another file is as good as none.
            std::fs::read_to_string(&backing)
                .map_or(true, |now| !now.trim_end().ends_with(&*file.to_string_lossy()))
        });
        if !gone {
            bail!("{}: still in use ten seconds after it was let go of", path.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn the_structure_has_the_size_that_the_kernel_wants() {
        // 8 and struct loop_info64 with its 232 bytes, and 64 reserved ones.
        assert_eq!(size_of::<Config>(), 8 + 232 + 64);
    }
}
