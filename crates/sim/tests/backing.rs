// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that a loop device has is not served, by whatever name it is called. Needs root.

use plumb_sim::serve::media::Media;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE: u64 = 1 << 20;

/// A loop device, detached when it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Self {
        let output = Command::new("losetup").args(["-f", "--show"]).arg(file).output().expect("losetup");
        assert!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8_lossy(&output.stdout).trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if !Command::new("losetup").arg("-d").arg(&self.0).status().is_ok_and(|status| status.success()) {
            eprintln!("{}: not detached", self.0.display());
        }
    }
}

#[test]
fn a_file_below_a_loop_device_is_refused() {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/dev/loop-control").exists() {
        println!("skipped: needs root and loop devices");
        return;
    }
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let (path, link) = (dir.path().join("disk"), dir.path().join("link"));
    drop(Media::file(&path, SIZE).expect("made"));
    std::fs::hard_link(&path, &link).expect("link");
    let device = Loop::over(&path);
    for name in [&path, &link] {
        let why = Media::file(name, SIZE).err().expect("refused").to_string();
        assert!(why.contains(&name.display().to_string()), "{why}");
        assert!(why.contains(&device.0.display().to_string()), "{why}");
    }
    drop(device);
    Media::file(&path, SIZE).expect("free again");
}
