// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever is killed, whenever: nobody waits for ever, and nothing is left.

use super::house::{able, bounded, device, devices, kill, queue, tried, House};
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
fn fails_and_is_unmounted(house: &House, point: &Path) {
    // What is cached may be read still; what must reach the disk may not look as if it had.
    let file = point.join("after");
    let wrote =
        tried("dd", &["if=/dev/zero", &format!("of={}", file.display()), "bs=1M", "count=4", "conv=fsync"]);
    assert!(!wrote.status.success(), "a write to a dead disk succeeded");
    house.umount();
}

#[test]
fn ctrl_c_and_the_other_signals_end_a_foreground_disk() {
    if !able("ctrl_c_and_the_other_signals_end_a_foreground_disk", &[]) {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let house = House::new();
        let (running, disk) = house.foreground(&["instant", "--size", "64M", "--no-calibrate"], "signals");
        dirty_device(&device(&disk));
        running.signal(signal);
        let out = running.end();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        // At once: it waits until all of it is gone.
        assert_eq!(house.left(&["signals"]), [""; 0]);
    }
}

#[test]
fn ctrl_c_waits_for_users_and_the_second_one_does_not() {
    if !able("ctrl_c_waits_for_users_and_the_second_one_does_not", &["mkfs.ext4"]) {
        return;
    }
    let house = House::new();
    let (running, disk) = house.foreground(&["instant", "--size", "64M", "--no-calibrate"], "used");
    let point = house.ext4(&device(&disk));
    dirty(&point);
    running.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(house.list().len(), 1, "it waits");
    std::fs::write(point.join("still"), "served").expect("it is served still");
    running.signal(libc::SIGINT);
    let out = running.end();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("is in use: mounted on") && said.contains(&*point.to_string_lossy()), "{said}");
    house.empty(&["used"], SOON);
}

#[test]
fn a_killed_owner_ends_its_disk() {
    if !able("a_killed_owner_ends_its_disk", &[]) {
        return;
    }
    let house = House::alone();
    let (running, disk) = house.foreground(&["instant", "--size", "64M", "--no-calibrate"], "owned");
    dirty_device(&device(&disk));
    running.signal(libc::SIGKILL);
    assert!(!running.end().status.success());
    house.empty(&["owned"], SOON);
}

#[test]
fn a_killed_server_fails_what_is_under_way_and_leaves_nothing() {
    if !able("a_killed_server_fails_what_is_under_way_and_leaves_nothing", &["mkfs.ext4", "dd"]) {
        return;
    }
    let house = House::alone();
    // Without a volatile cache, so that the queue is changed, too.
    let disk = house.serve(&["atlas10k4", "--size", "64M", "--name", "server", "--no-calibrate"]);
    let device = device(&disk);
    assert_eq!(queue(&device, "write_cache"), "write through");
    super::common::room::make_ext4(&device);
    let point = house.mount(&device);
    dirty(&point);
    let (server, _) = house.pair();
    kill(server, libc::SIGKILL);
    fails_and_is_unmounted(&house, &point);
    assert!(house.list().is_empty(), "a dead entry is removed by who looks");
    house.empty(&["server"], SOON);
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
    let house = House::alone();
    let disk = house.serve(&["instant", "--size", "64M", "--name", "holder", "--no-calibrate"]);
    dirty_device(&device(&disk));
    kill(house.pair().1, libc::SIGKILL);
    house.empty(&["holder"], SOON);
    assert_eq!(queue(&device(&disk), "write_cache"), "write back");
}

#[test]
fn a_killed_holder_leaves_users_time_and_then_fails_them() {
    if !able("a_killed_holder_leaves_users_time_and_then_fails_them", &["mkfs.ext4", "dd"]) {
        return;
    }
    let house = House::alone();
    let disk = house.serve(&["instant", "--size", "64M", "--name", "holder", "--no-calibrate"]);
    let point = house.ext4(&device(&disk));
    kill(house.pair().1, libc::SIGKILL);
    // As long as it is served, nothing is lost.
    dirty(&point);
    bounded("sync", &["-f", &point.display().to_string()]);
    assert!(super::house::within(GRACE, || house.processes().is_empty()), "{:?}", house.processes());
    dirty(&point);
    fails_and_is_unmounted(&house, &point);
    house.empty(&["holder"], SOON);
}

#[test]
fn both_killed_at_once_leave_nothing_but_the_kernels_errors() {
    if !able("both_killed_at_once_leave_nothing_but_the_kernels_errors", &["mkfs.ext4", "dd"]) {
        return;
    }
    for mounted in [true, false] {
        let house = House::alone();
        // So slow that much is under way and dirty.
        let disk = house.serve(&["atlas10k4", "--size", "64M", "--name", "both", "--no-calibrate"]);
        let device = device(&disk);
        let point = mounted.then(|| house.ext4(&device));
        match &point {
            Some(point) => dirty(point),
            None => dirty_device(&device),
        }
        let (server, holder) = house.pair();
        kill(holder, libc::SIGKILL);
        kill(server, libc::SIGKILL);
        assert!(super::house::within(SOON, || house.processes().is_empty()), "{:?}", house.processes());
        if let Some(point) = point {
            fails_and_is_unmounted(&house, &point);
        }
        // A process whose last thread still waits for the disk has no name any more, but has its locks.
        assert!(super::house::within(SOON, || house.list().is_empty()));
        house.empty(&["both"], SOON);
        assert_eq!(queue(&device, "write_cache"), "write back", "what was changed is changed back");
    }
}

#[test]
fn a_server_that_hangs_is_killed_by_force() {
    if !able("a_server_that_hangs_is_killed_by_force", &[]) {
        return;
    }
    let house = House::alone();
    house.serve(&["instant", "--size", "64M", "--name", "hung", "--no-calibrate"]);
    kill(house.pair().0, libc::SIGSTOP);
    let out = house.disk(&["stop", "hung", "--force"]);
    assert!(devices("hung").is_empty() || !out.status.success());
    house.empty(&["hung"], SOON);
}
