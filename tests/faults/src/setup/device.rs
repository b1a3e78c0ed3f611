// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loop devices on slow and fast files, file systems on them, swap.

use super::slow::{SlowFile, Timing};
use super::{patiently, tool, unmount, Stage, Undo};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

impl Stage {
    /// A loop device with direct I/O on a file whose requests take as long as [`Stage::slow`] says;
    /// fast until then.
    ///
    /// # Errors
    /// No root, no /dev/fuse, no free loop device.
    pub fn slow_device(&mut self, mib: u64) -> Result<()> {
        self.slow_file(mib)?;
        self.loop_device(&self.home.path().join("disk"))
    }

    /// The file `disk` whose requests this process serves (FUSE), as slowly as [`Stage::slow`] says.
    ///
    /// # Errors
    /// No root, no /dev/fuse.
    pub fn slow_file(&mut self, mib: u64) -> Result<()> {
        self.slow = Some(SlowFile::mount(&self.home.path().join("disk"), mib << 20)?);
        Ok(())
    }

    /// A loop device with direct I/O on a file in memory.
    ///
    /// # Errors
    /// No root, no free loop device, no space in /dev/shm.
    pub fn fast_device(&mut self, mib: u64) -> Result<()> {
        let dir =
            tempfile::Builder::new().prefix("plumb-faults-").tempdir_in("/dev/shm").context("/dev/shm")?;
        let path = dir.path().join("disk");
        std::fs::File::create(&path)?.set_len(mib << 20)?;
        self.guards.push(Box::new(Directory(Some(dir))));
        self.loop_device(&path)
    }

    /// Files go to a directory in memory from now on.
    ///
    /// # Errors
    /// No /dev/shm.
    pub fn in_memory(&mut self) -> Result<()> {
        let dir =
            tempfile::Builder::new().prefix("plumb-faults-").tempdir_in("/dev/shm").context("/dev/shm")?;
        self.place.dir = dir.path().to_owned();
        self.guards.push(Box::new(Directory(Some(dir))));
        Ok(())
    }

    fn loop_device(&mut self, file: &Path) -> Result<()> {
        let words = ["--find", "--show", "--direct-io=on"].map(AsRef::as_ref);
        let device = PathBuf::from(tool("losetup", &[&words[..], &[file.as_os_str()]].concat())?);
        self.guards.push(Box::new(Loop(device.clone())));
        self.place.device = Some(device);
        Ok(())
    }

    /// From now on the slow device is as slow as this.
    pub fn slow(&self, timing: Timing) {
        if let Some(slow) = &self.slow {
            slow.set(timing);
        }
    }

    fn device(&self) -> Result<&Path> {
        self.place.device.as_deref().context("the set-up made no device")
    }

    /// Makes an ext4 on the stage's own device and mounts it; files go there from now on.
    ///
    /// # Errors
    /// mkfs.ext4 is missing or failed; the kernel refuses the mount.
    pub fn ext4(&mut self, options: &str) -> Result<()> {
        let device = self.device()?.to_owned();
        let words = "-q -F -N 4096 -J size=8 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        let mut words: Vec<_> = words.split(' ').map(AsRef::as_ref).collect();
        words.push(device.as_os_str());
        tool("mkfs.ext4", &words)?;
        let dir = self.home.path().join("mnt");
        std::fs::create_dir(&dir)?;
        let options = format!("noatime,{options}");
        tool(
            "mount",
            &["-t".as_ref(), "ext4".as_ref(), "-o".as_ref(), options.as_ref(), device.as_ref(), dir.as_ref()],
        )?;
        self.guards.push(Box::new(Mount(dir.clone())));
        self.place.dir = dir;
        Ok(())
    }

    /// The device's directory in /sys/block.
    ///
    /// # Errors
    /// There is no device.
    pub fn sys_block(&self) -> Result<PathBuf> {
        Ok(Path::new("/sys/block").join(self.device()?.file_name().unwrap_or_default()))
    }

    /// Major and minor number of the device, as `7:0`.
    ///
    /// # Errors
    /// There is no device.
    pub fn number(&self) -> Result<String> {
        let path = self.sys_block()?.join("dev");
        Ok(std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim().to_owned())
    }

    /// A zram device of its own as swap.
    ///
    /// # Errors
    /// The kernel has no zram, or no root.
    pub fn zram_swap(&mut self, mib: u64) -> Result<()> {
        let control = "/sys/class/zram-control/hot_add";
        let number = std::fs::read_to_string(control).context(control)?;
        let zram = Zram(number.trim().to_owned());
        let size = format!("/sys/block/zram{}/disksize", zram.0);
        let device = PathBuf::from(format!("/dev/zram{}", zram.0));
        self.guards.push(Box::new(zram));
        std::fs::write(&size, format!("{mib}M")).context(size)?;
        self.swap_on(&device)
    }

    /// Swaps to the stage's own device.
    ///
    /// # Errors
    /// mkswap or swapon failed.
    pub fn device_swap(&mut self) -> Result<()> {
        let device = self.device()?.to_owned();
        self.swap_on(&device)
    }

    fn swap_on(&mut self, device: &Path) -> Result<()> {
        patiently(|| tool("mkswap", &["-q".as_ref(), device.as_ref()]).map(drop))?;
        tool("swapon", &["-p".as_ref(), "100".as_ref(), device.as_ref()])?;
        self.guards.push(Box::new(Swap(device.to_owned())));
        Ok(())
    }
}

struct Directory(Option<tempfile::TempDir>);

impl Undo for Directory {
    fn undo(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), |dir| dir.close().context("temporary directory"))
    }
}

struct Loop(PathBuf);

impl Undo for Loop {
    fn undo(&mut self) -> Result<()> {
        tool("losetup", &["--detach".as_ref(), self.0.as_ref()]).map(drop)
    }
}

struct Mount(PathBuf);

impl Undo for Mount {
    fn undo(&mut self) -> Result<()> {
        unmount(&self.0)
    }
}

struct Zram(String);

impl Undo for Zram {
    fn undo(&mut self) -> Result<()> {
        let control = "/sys/class/zram-control/hot_remove";
        patiently(|| std::fs::write(control, &self.0).with_context(|| format!("{control}: zram{}", self.0)))
    }
}

struct Swap(PathBuf);

impl Undo for Swap {
    fn undo(&mut self) -> Result<()> {
        patiently(|| tool("swapoff", &[self.0.as_ref()]).map(drop))
    }
}
