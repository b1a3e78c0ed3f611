// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cases with a remedy that the guide must find.

use super::common::scratch::Scratch;
use super::common::{must, plumb, workload};
use super::{reaches, read, ready, Case, Disk, Neighbour};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

fn nothing(_: &mut Command) {}

#[test]
fn a_scheduler_that_lets_a_neighbours_writes_go_first() {
    const TEST: &str = "a_scheduler_that_lets_a_neighbours_writes_go_first";
    let Some(_alone) = ready(TEST, &["dd"]) else { return };
    let Some(disk) = Disk::serve(TEST, "atlas10k4") else { return };
    if !read(disk.queue("scheduler")).contains("bfq") {
        println!("SKIP {TEST}: this kernel has no bfq");
        return;
    }
    // The disk takes four requests at once, and the others wait where the scheduler has them. While there is no
    // scheduler this is the driver's depth, and it stays so under one.
    for (attribute, value) in [("scheduler", "none"), ("nr_requests", "4"), ("scheduler", "mq-deadline")] {
        disk.set(attribute, value);
    }
    let scratch = Scratch::new();
    let words = "load --what write --order random --through io-uring --depth 64 --block 64K --direct";
    let mut load = plumb();
    load.args(words.split(' ')).args([
        "--size",
        "200M",
        "--time",
        "300s",
        "--quiet",
        "--destroy",
        &disk.device,
        &disk.device,
    ]);
    let mut writer = Neighbour::start(&mut load);
    std::thread::sleep(Duration::from_secs(2));
    assert!(writer.0.try_wait().expect("waited").is_none(), "the neighbour ended");
    let reads = format!("if={}", disk.device);
    let case = Case {
        scratch: &scratch,
        disk: Some(&disk),
        group: None,
        words: &["--goal", "elapsed -50%", "--may", "all"],
        start: nothing,
        command: &["dd", &reads, "of=/dev/null", "bs=4k", "count=30", "iflag=direct"],
    };
    reaches(&case, &["scheduler"]);
    drop(writer);
}

#[test]
fn no_read_ahead() {
    const TEST: &str = "no_read_ahead";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    for kib in ["0", "4"] {
        let Some(disk) = Disk::serve(TEST, "gp3") else { return };
        disk.set("read_ahead_kb", kib);
        let scratch = Scratch::new();
        let (reads, cold) = (format!("if={}", disk.device), format!("blockdev --flushbufs {}", disk.device));
        let case = Case {
            scratch: &scratch,
            disk: Some(&disk),
            group: None,
            words: &["--goal", "elapsed -50%", "--may", "all", "--prepare", &cold],
            start: nothing,
            command: &["dd", &reads, "of=/dev/null", "bs=4k", "count=1024"],
        };
        reaches(&case, &["read-ahead"]);
    }
}

#[test]
fn a_sync_for_each_row() {
    const TEST: &str = "a_sync_for_each_row";
    let Some(_alone) = ready(TEST, &["mkfs.ext4", "mount", "umount"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    let scratch = Scratch::new();
    let point = scratch.ext4(&disk.device, "mount", &[]);
    let file = point.join("rows.log").display().to_string();
    let case = Case {
        scratch: &scratch,
        disk: Some(&disk),
        group: None,
        words: &["--goal", "elapsed -60%", "--may", "all", "--may", "env:SYNC_EVERY=100"],
        start: nothing,
        command: &[workload(), "rows", "300", &file],
    };
    reaches(&case, &["env:SYNC_EVERY"]);
    must(Command::new("umount").arg(&point));
}

/// A cgroup of the test's own with a limit, in either version.
struct Limited(PathBuf);

impl Limited {
    /// Of CPU time.
    fn cpu(percent: u64) -> Option<Limited> {
        Self::new(&[
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", (percent * 1000).to_string()),
            ("/sys/fs/cgroup", "cpu.max", format!("{} 100000", percent * 1000)),
        ])
    }

    /// Of what is read of a device, bytes a second.
    fn reads(number: &str, rate: u64) -> Option<Limited> {
        Self::new(&[
            ("/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", format!("{number} {rate}")),
            ("/sys/fs/cgroup", "io.max", format!("{number} rbps={rate}")),
        ])
    }

    fn new(places: &[(&str, &str, String)]) -> Option<Limited> {
        let name = format!("plumb-guide-{}", std::process::id());
        for (top, file, text) in places {
            let dir = PathBuf::from(top).join(&name);
            if std::fs::create_dir(&dir).is_err() {
                continue;
            }
            if std::fs::write(dir.join(file), text).is_ok() {
                return Some(Limited(dir));
            }
            let _ = std::fs::remove_dir(&dir);
        }
        None
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpu_quota() {
    const TEST: &str = "a_cpu_quota";
    let Some(_alone) = ready(TEST, &[]) else { return };
    let Some(quota) = Limited::cpu(20) else {
        println!("SKIP {TEST}: no cgroup with a quota of CPU time can be made here");
        return;
    };
    let scratch = Scratch::new();
    let script =
        format!("echo $$ > {}/cgroup.procs; exec {} compute 400000000", quota.0.display(), workload());
    let case = Case {
        scratch: &scratch,
        disk: None,
        group: Some(&quota.0),
        words: &["--goal", "elapsed -50%", "--may", "all"],
        start: nothing,
        command: &["sh", "-c", &script],
    };
    reaches(&case, &["cpu-max"]);
}

#[test]
fn a_limit_of_a_device() {
    const TEST: &str = "a_limit_of_a_device";
    let Some(_alone) = ready(TEST, &["dd"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    let number = read(disk.queue("../dev"));
    let Some(limited) = Limited::reads(number.trim(), 1 << 20) else {
        println!("SKIP {TEST}: no cgroup with a limit of a device can be made here");
        return;
    };
    let scratch = Scratch::new();
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec dd if={} of=/dev/null bs=64k count=48 iflag=direct",
        limited.0.display(),
        disk.device
    );
    let case = Case {
        scratch: &scratch,
        disk: Some(&disk),
        group: Some(&limited.0),
        words: &["--goal", "elapsed -50%", "--may", "all"],
        start: nothing,
        command: &["sh", "-c", &script],
    };
    reaches(&case, &["io-max"]);
}

#[test]
fn a_file_system_that_is_mounted_sync() {
    const TEST: &str = "a_file_system_that_is_mounted_sync";
    let Some(_alone) = ready(TEST, &["mkfs.ext4", "mount", "umount", "dd"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    let scratch = Scratch::new();
    let point = scratch.ext4(&disk.device, "mount", &["-o", "sync,nosuid"]);
    let file = format!("of={}", point.join("file").display());
    let case = Case {
        scratch: &scratch,
        disk: Some(&disk),
        group: None,
        words: &["--goal", "elapsed -50%", "--may", "all"],
        start: nothing,
        command: &["dd", "if=/dev/zero", &file, "bs=4k", "count=300"],
    };
    reaches(&case, &["mount-sync"]);
    must(Command::new("umount").arg(&point));
}

/// A kernel parameter that is put back.
struct Parameter(&'static str, &'static str, String, String);

impl Drop for Parameter {
    fn drop(&mut self) {
        // Of the two the kernel takes no 0.
        let back = if self.2 == "0" { (self.1, &self.3) } else { (self.0, &self.2) };
        let _ = std::fs::write(back.0, back.1);
    }
}

#[test]
fn a_tiny_dirty_limit() {
    const TEST: &str = "a_tiny_dirty_limit";
    let Some(_alone) = ready(TEST, &["mkfs.ext4", "mount", "umount", "dd"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    let (bytes, ratio) = ("/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio");
    let _back = Parameter(bytes, ratio, read(bytes), read(ratio));
    if let Err(why) = std::fs::write(bytes, "262144") {
        println!("SKIP {TEST}: {bytes}: {why}");
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&disk.device, "mount", &[]);
    let file = format!("of={}", point.join("file").display());
    let cold = format!("rm -f {}; sync -f {}", point.join("file").display(), point.display());
    let case = Case {
        scratch: &scratch,
        disk: Some(&disk),
        group: None,
        words: &["--goal", "elapsed -50%", "--may", "all", "--prepare", &cold],
        start: nothing,
        command: &["dd", "if=/dev/zero", &file, "bs=64k", "count=512"],
    };
    reaches(&case, &["dirty-bytes"]);
    must(Command::new("umount").arg(&point));
}

fn pin(command: &mut Command) {
    let first = || {
        // SAFETY: plain data, and calls on this process alone.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
        Ok(())
    };
    // SAFETY: the closure only makes a system call.
    unsafe { command.pre_exec(first) };
}

#[test]
fn a_crowded_cpu() {
    const TEST: &str = "a_crowded_cpu";
    let Some(_alone) = ready(TEST, &["taskset", "nice"]) else { return };
    let scratch = Scratch::new();
    let mut hogs = Command::new(workload());
    hogs.args(["hogs", "3", "600000"]);
    pin(&mut hogs);
    let _hogs = Neighbour::start(&mut hogs);
    let case = Case {
        scratch: &scratch,
        disk: None,
        group: None,
        words: &["--goal", "elapsed -40%", "--may", "nice"],
        start: pin,
        command: &[workload(), "compute", "300000000"],
    };
    reaches(&case, &["nice"]);
}

#[test]
fn an_affinity_to_a_crowded_cpu() {
    const TEST: &str = "an_affinity_to_a_crowded_cpu";
    let Some(_alone) = ready(TEST, &["taskset", "nice"]) else { return };
    if read("/sys/devices/system/cpu/online") == "0" {
        println!("SKIP {TEST}: this machine has one CPU");
        return;
    }
    let scratch = Scratch::new();
    let mut hogs = Command::new(workload());
    hogs.args(["hogs", "3", "600000"]);
    pin(&mut hogs);
    let _hogs = Neighbour::start(&mut hogs);
    let case = Case {
        scratch: &scratch,
        disk: None,
        group: None,
        words: &["--goal", "elapsed -40%", "--may", "all"],
        start: pin,
        command: &[workload(), "compute", "300000000"],
    };
    // Others may have the second CPU: then a larger share of the first one helps.
    reaches(&case, &["affinity", "nice"]);
}
