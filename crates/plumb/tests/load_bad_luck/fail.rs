// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What fails while the load runs is counted by kind, named with its place,
//! and in no latency.

use crate::common::scratch::{job, kind, number, reason, result, rows, text, until, Scratch};
use crate::common::{can, must};
use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The sums hold, and what failed is in no latency.
pub fn sums_hold(kind: &Value, block: u64) {
    let [count, errors, short, bytes] = ["count", "errors", "short", "bytes"].map(|f| number(kind, f));
    assert_eq!(number(&kind["service"], "count"), count - errors, "{kind:#}");
    if kind["response"].is_object() {
        assert_eq!(number(&kind["response"], "count"), count - errors, "{kind:#}");
    }
    assert!(bytes >= (count - errors - short) * block && bytes <= (count - errors) * block, "{kind:#}");
    assert!(short > 0 || bytes == (count - errors) * block, "{kind:#}");
}

/// The words of the first failure.
pub fn failure(job: &Value) -> &str {
    job["failures"][0].as_str().unwrap_or_else(|| panic!("no failure is named: {job:#}"))
}

#[test]
fn a_device_that_cannot_be_read_from_a_place_on() {
    if !can("a_device_that_cannot_be_read_from_a_place_on", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    // The disk keeps its length; from the middle on nothing lies behind it any more.
    let image = OpenOptions::new().write(true).open(scratch.path().join("image")).expect("the image");
    image.set_len(8 * MIB).expect("half of it");
    let base = ["--what", "read", "--block", "64K", "--direct", &device];
    for engine in ["pwrite", "io-uring", "libaio", "posix-aio"] {
        let queue: &[&str] = if engine == "pwrite" { &[] } else { &["--depth", "8"] };
        let (code, all) =
            scratch.coded(&[&["--through", engine, "--log", engine][..], queue, &base].concat());
        assert_eq!(code, 3, "{engine}: a half that fails is no measurement");
        let read = kind(job(&all), "read");
        assert_eq!((number(read, "count"), number(read, "errors")), (256, 128), "{engine}: {read:#}");
        sums_hold(read, 64 << 10);
        assert_eq!(reason(&all, "errors"), Some("invalid"), "{engine}");
        let said = failure(job(&all));
        for word in ["128 failed", "the first: read", &device, "Input/output error"] {
            assert!(said.contains(word), "{engine}: lacks {word}: {said}");
        }
        let first = said.split(" at ").nth(1).and_then(|s| s.split(':').next()).and_then(|s| s.parse().ok());
        let rows = rows(&scratch, engine);
        let failed: Vec<u64> =
            rows.iter().filter(|r| r["result"] == -libc::EIO).map(|r| number(r, "offset")).collect();
        assert!(failed.len() == 128 && failed.iter().all(|o| *o >= 8 * MIB), "{engine}: {failed:?}");
        assert!(first.is_some_and(|f: u64| failed.contains(&f)), "{engine}: {said}");
    }
    // People are told the same.
    let shown = text(&scratch.load(&base).stdout);
    assert!(shown.contains("128 failed") && shown.contains("Input/output error"), "{shown}");
    // An open loop: what failed is in no response either.
    let (_, all) = scratch.coded(&[&["--rate", "1000", "--operations", "256"][..], &base].concat());
    let read = kind(job(&all), "read");
    assert_eq!((number(read, "count"), number(read, "errors")), (256, 128));
    sums_hold(read, 64 << 10);
}

#[test]
fn a_broken_target_ends_a_run_and_is_not_tried_for_ever() {
    if !can("a_broken_target_ends_a_run_and_is_not_tried_for_ever", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    let image = OpenOptions::new().write(true).open(scratch.path().join("image")).expect("the image");
    let running = scratch.start(&[
        "--what", "read", "--order", "random", "--direct", "--log", "log", "--time", "600s", "--json",
        "--quiet", &device,
    ]);
    let log = scratch.path().join("log");
    until("the log grows", || log.metadata().is_ok_and(|m| m.len() > 1 << 12));
    image.set_len(0).expect("all of it is gone");
    let (code, all) = result(&running.end());
    assert_eq!(code, 3);
    let read = kind(job(&all), "read");
    assert!(number(read, "errors") >= 1000 && number(read, "count") > number(read, "errors"), "{read:#}");
    sums_hold(read, 4096);
    assert_eq!(all["interrupted"], false);
}

#[test]
fn a_mapping_whose_device_fails_names_the_worker() {
    if !can("a_mapping_whose_device_fails_names_the_worker", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    let image = OpenOptions::new().write(true).open(scratch.path().join("image")).expect("the image");
    image.set_len(8 * MIB).expect("half of it");
    scratch.refused(
        &["--what", "read", "--through", "mmap", &device],
        &["worker process", "SIGBUS", "its device failed"],
    );
}

#[test]
fn a_file_system_that_others_fill() {
    if !can("a_file_system_that_others_fill", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 64), "mount", &[]);
    let running = scratch.start(&[
        "--layout",
        "sparse",
        "--size",
        "16M",
        "--order",
        "random-once",
        "--rate",
        "100",
        "--time",
        "8s",
        "--stamp",
        "--log",
        "log",
        "--json",
        "--quiet",
        "mount",
    ]);
    let log = scratch.path().join("log");
    until("the log is there", || log.exists());
    std::thread::sleep(Duration::from_millis(500));
    let hog = std::fs::File::create(point.join("hog")).expect("a hog");
    let mut size = MIB;
    let mut at = 0;
    while size >= 4096 {
        match hog.write_all_at(&vec![1; size as usize], at) {
            Ok(()) => at += size,
            Err(_) => size /= 2,
        }
    }
    let (code, all) = result(&running.end());
    std::fs::remove_file(point.join("hog")).expect("the hog");
    let write = kind(job(&all), "write");
    let errors = number(write, "errors");
    assert!(errors > 0 && code == 3, "{code}: {write:#}");
    sums_hold(write, 4096);
    let said = failure(job(&all));
    assert!(said.contains("write") && said.contains("No space left on device"), "{said}");
    let rows = rows(&scratch, "log");
    let failed = rows.iter().filter(|r| r["result"] == -libc::ENOSPC).count() as u64;
    assert_eq!((rows.len() as u64, failed), (number(write, "count"), errors));
    let schedule = &job(&all)["schedule"];
    assert_eq!((number(schedule, "due"), number(schedule, "never_begun")), (800, 0), "{schedule:#}");
    assert_eq!(std::fs::read_dir(&point).expect("the mount").count(), 1, "lost+found alone");
}

#[test]
fn a_thin_disk_that_runs_out() {
    if !can("a_thin_disk_that_runs_out", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 16), "mount", &[]);
    std::fs::File::create(point.join("thin"))
        .expect("an image")
        .set_len(32 * MIB)
        .expect("more than there is");
    let device = scratch.attach(&point.join("thin"), &[]);
    let (code, all) = scratch.coded(&["--block", "64K", "--direct", &device]);
    let write = kind(job(&all), "write");
    assert_eq!((code, number(write, "count")), (3, 512), "{write:#}");
    assert!((256..512).contains(&number(write, "errors")), "{write:#}");
    sums_hold(write, 64 << 10);
    assert!(failure(job(&all)).contains(&device), "{}", failure(job(&all)));

    // Through the page cache the writes succeed; it is the synchronisation that fails.
    let args = ["--block", "64K", "--sync", "fdatasync", "--every", "16", "--destroy", &device, &device];
    let (code, all) = scratch.coded(&args);
    let (write, sync) = (kind(job(&all), "write"), kind(job(&all), "sync"));
    assert_eq!((code, number(write, "errors"), number(sync, "count")), (3, 0, 32), "{all:#}");
    assert!(number(sync, "errors") > 0, "{sync:#}");
    assert_eq!(number(&sync["service"], "count"), 32 - number(sync, "errors"));
    assert!(failure(job(&all)).contains("sync"), "{}", failure(job(&all)));
    assert_eq!(reason(&all, "errors"), Some("invalid"));
}

#[test]
fn a_file_that_is_cut_short_while_it_is_read() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    std::fs::write(&file, vec![7; 256 << 10]).expect("a file");
    let running = scratch.start(&[
        "--what", "read", "--block", "64K", "--rate", "100", "--time", "4s", "--log", "log", "--json",
        "--quiet", "file",
    ]);
    let log = scratch.path().join("log");
    until("the log is there", || log.exists());
    std::thread::sleep(Duration::from_millis(700));
    OpenOptions::new().write(true).open(&file).expect("the file").set_len(96 << 10).expect("its first part");
    let (_, all) = result(&running.end());
    let read = kind(job(&all), "read");
    let rows = rows(&scratch, "log");
    let moved: Vec<i64> = rows.iter().map(|r| r["result"].as_i64().expect("bytes")).collect();
    let short = moved.iter().filter(|n| **n < 64 << 10).count() as u64;
    assert!(short > 0 && short < 400, "{short} of {}", moved.len());
    assert!(moved.iter().all(|n| [64 << 10, 32 << 10, 0].contains(n)), "{moved:?}");
    let told = ["count", "errors", "short", "bytes"].map(|f| number(read, f));
    assert_eq!(told, [400, 0, short, moved.iter().sum::<i64>() as u64], "{read:#}");
    assert_eq!(reason(&all, "short-transfers"), Some("suspect"));
}

#[test]
fn a_file_system_that_is_shut_down() {
    if !can("a_file_system_that_is_shut_down", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 64), "mount", &[]);
    let args =
        ["--size", "16M", "--order", "random", "--sync", "fsync", "--time", "600s", "--log", "log", "--json"];
    let running = scratch.start(&[&args[..], &["--quiet", "mount"]].concat());
    let log = scratch.path().join("log");
    until("the log grows", || log.metadata().is_ok_and(|m| m.len() > 1 << 12));
    shut_down(&point);
    let out = running.end();
    // The files cannot be removed from it, and that is said; what was measured is told all the same.
    let said = text(&out.stderr);
    assert!(said.contains("cannot remove") && said.contains("plumb-load."), "{said}");
    assert_eq!(out.status.code(), Some(2), "{said}");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let write = kind(job(&all), "write");
    assert!(number(write, "count") > number(write, "errors") && number(write, "errors") > 0, "{write:#}");
    sums_hold(write, 4096);
    assert!(failure(job(&all)).contains("Input/output error"), "{}", failure(job(&all)));
}

/// As after a fault of its device: nothing is written any more (EXT4_IOC_SHUTDOWN,
/// fs/ext4/ext4.h, with EXT4_GOING_FLAGS_NOLOGFLUSH).
fn shut_down(point: &Path) {
    const REQUEST: libc::c_ulong = 2 << 30 | 4 << 16 | (b'X' as libc::c_ulong) << 8 | 125;
    let flags: u32 = 2;
    let dir = std::fs::File::open(point).expect("the mount");
    // SAFETY: the descriptor is open, and the argument is the u32 that the request asks for.
    let done = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&dir), REQUEST, &flags) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_file_system_that_is_mounted_again_is_mounted_as_before() {
    if !can("a_file_system_that_is_mounted_again_is_mounted_as_before", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 32), "mount", &["-o", "noatime,nodev,nosuid"]);
    std::fs::write(point.join("precious"), "x").expect("a file");
    let as_mounted = || {
        let all = std::fs::read_to_string("/proc/mounts").expect("mounts");
        let ours = all.lines().filter(|l| l.contains(scratch.path().to_str().expect("a path")));
        ours.map(str::to_string).collect::<Vec<_>>()
    };
    let args = ["--what", "read", "--size", "1M", "--cache", "remount", "mount"];
    let before = as_mounted();
    assert_eq!(number(kind(job(&scratch.json(&args)), "read"), "count"), 256);
    assert_eq!(as_mounted(), before);
    let held = std::fs::File::open(point.join("precious")).expect("the file");
    scratch.refused(&args, &["cannot unmount", "mount", "is another process in it?"]);
    assert_eq!(as_mounted(), before);
    drop(held);
    // A loop device that mount made goes when it is unmounted, if nobody holds it.
    must(Command::new("umount").arg(&point));
    must(Command::new("mount").args(["-o", "loop"]).arg(scratch.path().join("image")).arg(&point));
    let before = as_mounted();
    assert_eq!(number(kind(job(&scratch.json(&args)), "read"), "count"), 256);
    assert_eq!(as_mounted(), before);
}
