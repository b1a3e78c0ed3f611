// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever is killed, whenever: nobody waits for ever, and nothing is left.

use super::registry::{able, bounded, device, devices, kill, queue, tried, DiskRegistry};
use std::path::Path;
use std::time::Duration;

/// For what the kernel does by itself.
const SOON: Duration = Duration::from_secs(15);
/// For what waits until users have had time to let go.
const GRACE: Duration = Duration::from_secs(40);

/// Data in the page cache that the disk has not seen.
fn dirty(dir: &Path) {
    std::fs::write(dir.join("dirty"), vec![7; 16 << 20]).expect("write");
}

/// Dirty pages of the device itself: its last close has to write them.
fn dirty_device(device: &str) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(device).expect("open");
    file.write_all_at(&vec![9; 16 << 20], 8 << 20).expect("write");
}

/// What a served disk's mount becomes when the disk is gone: errors, and an unmount that ends.
fn fails_and_is_unmounted(disks: &DiskRegistry, point: &Path) {
    // What is cached may be read still; what must reach the disk may not look as if it had.
    let file = point.join("after");
    let wrote =
        tried("dd", &["if=/dev/zero", &format!("of={}", file.display()), "bs=1M", "count=4", "conv=fsync"]);
    assert!(!wrote.status.success(), "a write to a dead disk succeeded");
    disks.umount();
}

#[test]
fn ctrl_c_and_the_other_signals_end_a_foreground_disk() {
    if !able("ctrl_c_and_the_other_signals_end_a_foreground_disk", &[]) {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let disks = DiskRegistry::new();
        let (running, disk) = disks.foreground(&["instant", "--size", "64M", "--no-calibrate"], "signals");
        dirty_device(&device(&disk));
        running.signal(signal);
        let out = running.end();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        // At once: it waits until all of it is gone.
        assert_eq!(disks.left(&["signals"]), [""; 0]);
    }
}

#[test]
fn ctrl_c_waits_for_users_and_the_second_one_does_not() {
    if !able("ctrl_c_waits_for_users_and_the_second_one_does_not", &["mkfs.ext4"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let (running, disk) = disks.foreground(&["instant", "--size", "64M", "--no-calibrate"], "used");
    let point = disks.ext4(&device(&disk));
    dirty(&point);
    running.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(disks.list().len(), 1, "it waits");
    std::fs::write(point.join("still"), "served").expect("it is served still");
    running.signal(libc::SIGINT);
    let out = running.end();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("is in use: mounted on") && said.contains(&*point.to_string_lossy()), "{said}");
    disks.empty(&["used"], SOON);
}

#[test]
fn a_killed_owner_ends_its_disk() {
    if !able("a_killed_owner_ends_its_disk", &[]) {
        return;
    }
    let disks = DiskRegistry::alone();
    let (running, disk) = disks.foreground(&["instant", "--size", "64M", "--no-calibrate"], "owned");
    dirty_device(&device(&disk));
    running.signal(libc::SIGKILL);
    assert!(!running.end().status.success());
    disks.empty(&["owned"], SOON);
}

#[test]
fn a_killed_server_fails_what_is_under_way_and_leaves_nothing() {
    if !able("a_killed_server_fails_what_is_under_way_and_leaves_nothing", &["mkfs.ext4", "dd"]) {
        return;
    }
    let disks = DiskRegistry::alone();
    // Without a volatile cache, so that the queue is changed, too.
    let disk = disks.serve(&["atlas10k4", "--size", "64M", "--name", "server", "--no-calibrate"]);
    let device = device(&disk);
    assert_eq!(queue(&device, "write_cache"), "write through");
    super::common::scratch::make_ext4(&device);
    let point = disks.mount(&device);
    dirty(&point);
    let (server, _) = disks.pair();
    kill(server, libc::SIGKILL);
    fails_and_is_unmounted(&disks, &point);
    assert!(disks.list().is_empty(), "a dead entry is removed by who looks");
    disks.empty(&["server"], SOON);
    assert_eq!(
        (queue(&device, "write_cache"), queue(&device, "max_sectors_kb") != "1024"),
        ("write back".into(), true)
    );
}

#[test]
fn a_killed_holder_ends_the_disk_when_nobody_uses_it() {
    if !able("a_killed_holder_ends_the_disk_when_nobody_uses_it", &[]) {
        return;
    }
    let disks = DiskRegistry::alone();
    let disk = disks.serve(&["instant", "--size", "64M", "--name", "holder", "--no-calibrate"]);
    dirty_device(&device(&disk));
    kill(disks.pair().1, libc::SIGKILL);
    disks.empty(&["holder"], SOON);
    assert_eq!(queue(&device(&disk), "write_cache"), "write back");
}

#[test]
fn a_killed_holder_leaves_users_time_and_then_fails_them() {
    if !able("a_killed_holder_leaves_users_time_and_then_fails_them", &["mkfs.ext4", "dd"]) {
        return;
    }
    let disks = DiskRegistry::alone();
    let disk = disks.serve(&["instant", "--size", "64M", "--name", "holder", "--no-calibrate"]);
    let point = disks.ext4(&device(&disk));
    kill(disks.pair().1, libc::SIGKILL);
    // As long as it is served, nothing is lost.
    dirty(&point);
    bounded("sync", &["-f", &point.display().to_string()]);
    assert!(super::registry::within(GRACE, || disks.processes().is_empty()), "{:?}", disks.processes());
    dirty(&point);
    fails_and_is_unmounted(&disks, &point);
    disks.empty(&["holder"], SOON);
}

#[test]
fn both_killed_at_once_leave_nothing_but_the_kernels_errors() {
    if !able("both_killed_at_once_leave_nothing_but_the_kernels_errors", &["mkfs.ext4", "dd"]) {
        return;
    }
    for mounted in [true, false] {
        let disks = DiskRegistry::alone();
        // So slow that much is under way and dirty.
        let disk = disks.serve(&["atlas10k4", "--size", "64M", "--name", "both", "--no-calibrate"]);
        let device = device(&disk);
        let point = mounted.then(|| disks.ext4(&device));
        match &point {
            Some(point) => dirty(point),
            None => dirty_device(&device),
        }
        let (server, holder) = disks.pair();
        kill(holder, libc::SIGKILL);
        kill(server, libc::SIGKILL);
        assert!(super::registry::within(SOON, || disks.processes().is_empty()), "{:?}", disks.processes());
        if let Some(point) = point {
            fails_and_is_unmounted(&disks, &point);
        }
        // A process whose last thread still waits for the disk has no name any more, but has its locks.
        assert!(super::registry::within(SOON, || disks.list().is_empty()));
        disks.empty(&["both"], SOON);
        assert_eq!(queue(&device, "write_cache"), "write back", "what was changed is changed back");
    }
}

#[test]
fn a_server_that_hangs_is_killed_by_force() {
    if !able("a_server_that_hangs_is_killed_by_force", &[]) {
        return;
    }
    let disks = DiskRegistry::alone();
    disks.serve(&["instant", "--size", "64M", "--name", "hung", "--no-calibrate"]);
    kill(disks.pair().0, libc::SIGSTOP);
    let out = disks.disk(&["stop", "hung", "--force"]);
    assert!(devices("hung").is_empty() || !out.status.success());
    disks.empty(&["hung"], SOON);
}
