// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files before the clock starts (layout, cache), whose they are, how they are
//! named, and what is in them in the end.

use crate::common::{can, plumb, Loop};
use crate::run::{dir, traced, Run};
use clap::ValueEnum;
use plumb_load::data::read_stamp;
use plumb_load::job::{Cache, Layout, Sharing};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

const CALLS: &str =
    "openat,read,write,pread64,pwrite64,lseek,fallocate,ftruncate,fadvise64,sync,umount2,mount,fsync";

#[test]
fn every_layout() {
    if !traced("every_layout") {
        return;
    }
    for &layout in Layout::value_variants() {
        let word = layout.to_string();
        // The second of four blocks of 64 KiB stays as the layout left it.
        let (size, run) = match layout {
            Layout::Append => (0, Run::new(CALLS, &["--layout", &word, "--size", "256K", "--block", "64K"])),
            _ => {
                let args = ["--layout", &word, "--size", "256K", "--block", "64K", "--operations", "1"];
                (256 << 10, Run::new(CALLS, &args))
            }
        };
        run.faultless();
        let ends = run.on_data(&["lseek"]);
        assert_eq!(
            (ends[0].args[2].as_str(), ends[0].result),
            ("SEEK_END", Some(size)),
            "{layout}: at the start"
        );
        let before = |name: &str| -> Vec<_> {
            run.program(&[name]).into_iter().filter(|c| c.path(0).ends_with("data.0.0")).collect()
        };
        let written: i64 = before("pwrite64").iter().filter_map(|c| c.result).sum();
        let allocated = std::fs::metadata(run.file("data.0.0")).expect("the file").blocks() * 512;
        match layout {
            Layout::Append => {
                assert_eq!((written, before("fallocate").len()), (0, 0));
                assert_eq!(std::fs::metadata(run.file("data.0.0")).expect("the file").len(), 256 << 10);
            }
            Layout::Overwrite => {
                assert_eq!(written, 256 << 10);
                assert!(!before("fsync").is_empty(), "none of it is written back while the clock runs");
            }
            Layout::Preallocated => {
                let calls = before("fallocate");
                assert_eq!((calls.len(), written), (1, 0));
                let numbers = (calls[0].number(1), calls[0].number(2), calls[0].number(3), calls[0].result);
                assert_eq!(numbers, (0, 0, 256 << 10, Some(0)));
                assert!(allocated >= 256 << 10, "{allocated}");
            }
            Layout::Sparse => {
                assert_eq!((written, before("fallocate").len()), (0, 0));
                assert!(before("ftruncate").iter().any(|c| c.number(1) == 256 << 10));
                assert!((64 << 10..256 << 10).contains(&allocated), "{allocated}");
            }
        }
    }
}

/// Pages of a file that the page cache holds, of how many.
fn cached(path: &Path) -> (usize, usize) {
    let file = File::open(path).expect("the file");
    let length = file.metadata().expect("the file").len() as usize;
    let mut pages = vec![0u8; length.div_ceil(4096)];
    // SAFETY: a mapping of the whole file, a byte a page, and no access to the mapping.
    unsafe {
        let map =
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mincore(map, length, pages.as_mut_ptr()), 0);
        libc::munmap(map, length);
    }
    (pages.iter().filter(|p| **p & 1 == 1).count(), pages.len())
}

/// A file of 4 MiB that the page cache holds, or of which it holds nothing.
fn file(path: &Path, held: bool) {
    let mut file = File::create(path).expect("a file");
    file.write_all(&vec![7; 4 << 20]).expect("written");
    file.sync_all().expect("synchronised");
    if !held {
        // SAFETY: a plain call on an open file.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}

/// Reads one block of a file with what the cache is told before; the calls, and what is held of it then.
fn read_one(dir: &Path, cache: Cache, held: bool) -> (Run, usize, usize) {
    let path = dir.join("held");
    file(&path, held);
    let word = cache.to_string();
    let args = ["--what", "read", "--order", "random", "--operations", "1", "--cache", &word];
    let run = Run::within(dir, CALLS, &[&args[..], &[path.to_str().expect("a path")]].concat());
    run.faultless();
    let (pages, all) = cached(&path);
    (run, pages, all)
}

/// The cache is everybody's: another may drop it in between, but not each time.
fn tries(held: impl Fn() -> bool) -> bool {
    (0..4).any(|_| held())
}

#[test]
fn every_state_of_the_cache() {
    if !can("every_state_of_the_cache", &["losetup", "mkfs.ext4"]) || !traced("every_state_of_the_cache") {
        return;
    }
    let dir = dir();
    for &cache in Cache::value_variants() {
        match cache {
            Cache::AsFound => {
                let all_held = || {
                    let (run, pages, all) = read_one(dir.path(), cache, true);
                    assert_eq!(run.program(&["fadvise64", "umount2"]).len(), 0);
                    pages == all
                };
                assert!(tries(all_held), "something was dropped");
                let (_, pages, all) = read_one(dir.path(), cache, false);
                assert!(pages < all / 2, "{pages} of {all}");
            }
            Cache::Warm => {
                let all_held = || {
                    let (run, pages, all) = read_one(dir.path(), cache, false);
                    let calls = run.program(&["read"]);
                    let read = calls.iter().filter(|c| c.path(0).ends_with("/held")).filter_map(|c| c.result);
                    assert_eq!(read.sum::<i64>(), 4 << 20);
                    pages == all
                };
                assert!(tries(all_held), "something was not held");
            }
            Cache::Fadvise => {
                let (run, pages, all) = read_one(dir.path(), cache, true);
                let calls = run.program(&["fadvise64"]);
                let [call] = calls[..] else { panic!("{calls:?}") };
                assert!(call.path(0).ends_with("/held") && call.args[3] == "POSIX_FADV_DONTNEED", "{call:?}");
                assert!(pages < all / 2, "{pages} of {all}");
            }
            Cache::Drop => {
                let (run, pages, all) = read_one(dir.path(), cache, true);
                let calls = run.program(&["sync", "write"]);
                let at = calls.iter().position(|c| c.path(0) == "/proc/sys/vm/drop_caches").expect("dropped");
                assert_eq!(calls[at].args[1], "\"3\"");
                assert_eq!(calls[at - 1].name, "sync", "dirty pages cannot be dropped");
                assert!(pages < all / 2, "{pages} of {all}");
            }
            Cache::Remount => {
                let mut disk = Loop::new(64);
                let point = disk.ext4();
                let target = point.join("held");
                file(&target, true);
                // A file, and the load's own: its log must not lie there, that would keep the file system busy.
                let of = |what: &str, target: &Path| {
                    let (block, target) =
                        (["--size", "4M", "--order", "random", "--operations", "1"], target.to_str());
                    let args = ["--cache", "remount", "--what", what, target.expect("a path")];
                    let run = Run::within(dir.path(), CALLS, &[&block[..], &args].concat());
                    run.faultless();
                    let calls = run.program(&["umount2", "mount"]);
                    let told: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.result)).collect();
                    assert_eq!(told, [("umount2", Some(0)), ("mount", Some(0))]);
                    assert_eq!(calls[1].args[1].trim_matches('"'), point.to_str().expect("a path"));
                    run
                };
                assert_eq!(of("write", &point).on_data(&["pwrite64"]).len(), 1);
                of("read", &target);
                let (pages, all) = cached(&target);
                assert!(pages < all / 2, "{pages} of {all}");
            }
        }
    }
}

#[test]
fn ext3_is_mounted_again_with_the_options_that_it_had() {
    if !can("ext3_is_mounted_again_with_the_options_that_it_had", &["losetup", "mkfs.ext3"]) {
        return;
    }
    for options in ["data=journal", "data=ordered,noatime", "data=writeback"] {
        let mut disk = Loop::new(64);
        let point = disk.made("ext3", &[], options);
        let mounted = || {
            let all = std::fs::read_to_string("/proc/mounts").expect("/proc/mounts");
            let is = |l: &&str| l.split(' ').nth(1) == point.to_str();
            all.lines().find(is).map(str::to_string).unwrap_or_default()
        };
        let before = mounted();
        assert!(before.contains(options.split(',').next().expect("one")), "{before}");
        let dir = tempfile::tempdir().expect("a directory");
        let mut load = plumb();
        load.args(["load", "--cache", "remount", "--size", "1M", "--quiet"]).arg(&point);
        load.current_dir(dir.path());
        let out = load.output().expect("plumb");
        // 3 says that on a busy machine it is no measurement.
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code().is_some_and(|c| [0, 3].contains(&c)), "{options}: {said}");
        assert_eq!(mounted(), before);
    }
}

/// Files that each worker (a thread, in the order of its first block) wrote, with the blocks.
fn written(run: &Run) -> BTreeMap<u32, Vec<(String, i64)>> {
    let mut all: BTreeMap<u32, Vec<(String, i64)>> = BTreeMap::new();
    for call in run.on_data(&["pwrite64"]) {
        let name = call.path(0).rsplit('/').next().unwrap_or_default().to_string();
        all.entry(call.tid).or_default().push((name, call.number(3) / 4096));
    }
    all
}

#[test]
fn every_sharing() {
    if !traced("every_sharing") {
        return;
    }
    for &sharing in Sharing::value_variants() {
        let word = sharing.to_string();
        let run = Run::new(CALLS, &["--sharing", &word, "--threads", "4", "--size", "64K"]);
        run.faultless();
        let mut workers: Vec<_> = written(&run).into_values().collect();
        workers.sort();
        let blocks = |name: &str, range: std::ops::Range<i64>| {
            range.map(|b| (name.to_string(), b)).collect::<Vec<_>>()
        };
        let expected: Vec<_> = match sharing {
            Sharing::Each => (0..4).map(|w| blocks(&format!("data.{w}.0"), 0..16)).collect(),
            Sharing::Shared => (0..4).map(|w| blocks("data.0", w * 4..w * 4 + 4)).collect(),
        };
        assert_eq!(workers, expected, "{sharing}");
    }
}

#[test]
fn files_lie_evenly_in_directories() {
    if !traced("files_lie_evenly_in_directories") {
        return;
    }
    let run = Run::new(CALLS, &["--files", "5", "--dirs", "2", "--size", "8K"]);
    run.faultless();
    let calls = run.on_data(&["pwrite64"]);
    let kept = run.file("");
    let within =
        |path: &str| path.strip_prefix(kept.to_str().expect("a path")).unwrap_or_default().to_string();
    let told: Vec<_> = calls.iter().map(|c| (within(c.path(0)), c.number(3))).collect();
    let path = |i: i64| format!("0000{}/data.0.{i}", i % 2);
    let expected: Vec<_> = (0..5).flat_map(|i| [(path(i), 0), (path(i), 4096)]).collect();
    assert_eq!(told, expected);
    let run = Run::new(CALLS, &["--prefix", "base", "--size", "8K"]);
    assert!(run.workers(&["pwrite64"]).iter().all(|c| c.path(0).ends_with("/base.0.0")));
    assert_eq!((run.on_data(&["pwrite64"]).len(), run.count("write")), (0, 2));
    let run = Run::new(CALLS, &["--what", "create", "--files", "6", "--dirs", "3", "--block", "0"]);
    run.faultless();
    for d in 0..3 {
        let inside = std::fs::read_dir(run.file("names").join(format!("0000{d}"))).expect("a directory");
        assert_eq!(inside.count(), 2);
    }
}

#[test]
fn stamps_tell_who_wrote_where_and_when() {
    if !traced("stamps_tell_who_wrote_where_and_when") {
        return;
    }
    let args = ["--stamp", "--threads", "2", "--size", "32K", "--order", "random", "--operations", "32"];
    let run = Run::new(CALLS, &args);
    run.faultless();
    let rows = run.rows();
    for worker in 0..2 {
        let bytes = std::fs::read(run.file(&format!("data.{worker}.0"))).expect("the file");
        for (i, block) in bytes.chunks(4096).enumerate() {
            let at = i as u64 * 4096;
            let last = rows.iter().rfind(|r| r.worker == worker && r.offset == at);
            for (s, sector) in block.chunks(512).enumerate() {
                let stamp = read_stamp(sector).unwrap_or_else(|e| panic!("sector {s} of block {i}: {e:?}"));
                assert_eq!(
                    (stamp.offset, stamp.generation),
                    (at + s as u64 * 512, last.map_or(0, |r| r.generation))
                );
                if last.is_some() {
                    assert_eq!((stamp.worker, stamp.file, stamp.length), (worker, worker, 4096));
                }
            }
        }
    }
}

#[test]
fn a_compressor_takes_away_the_share_that_was_asked_for() {
    if !traced("a_compressor_takes_away_the_share_that_was_asked_for") {
        return;
    }
    for percent in [0, 30, 80, 100] {
        let word = percent.to_string();
        let run = Run::new(
            CALLS,
            &["--size", "1M", "--block", "64K", "--layout", "append", "--compressible", &word],
        );
        run.faultless();
        let file = File::open(run.file("data.0.0")).expect("the file");
        let mut gzip = Command::new("gzip");
        let gzip = gzip.args(["-1", "-c"]).stdin(file).stdout(Stdio::piped()).output().expect("gzip");
        assert!(gzip.status.success());
        let left = gzip.stdout.len() as f64 / f64::from(1 << 20);
        let expected = 1.0 - f64::from(percent) / 100.0;
        assert!((left - expected).abs() < 0.02, "{percent} %: {left} is left");
    }
}
