// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A name that is given to something else while plumb works on it leads no write astray. `PLUMB_SWAPS` says how many
//! loads there are to be in place of a few.

use plumb_load::guard::sign;
use plumb_load::job::{Bytes, Given, Job, Layout, What};
use plumb_load::run::Progress;
use plumb_load::session::{Observer, Options, Session};
use plumb_load::workload::Workload;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

struct Silent;

impl Observer for Silent {
    fn say(&self, _: &str) {}
    fn begins(&self, _: &str) {}
    fn progress(&self, _: &str, _: &Progress) {}
    fn ends(&self) {}
}

const SIZE: u64 = 4096;

/// Writes one block.
fn load(target: &Path, destroy: &[PathBuf]) -> anyhow::Result<()> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let job = Job {
        what: What::Write,
        layout: Layout::Overwrite,
        size: Bytes(SIZE),
        operations: Some(1),
        ..Job::default()
    };
    let mut workload = Workload::of_job(&job, &Given::default());
    workload.whole_target = false;
    let options = Options { destroy: destroy.to_vec(), ..Options::default() };
    let outcome = Session::prepare(&mut workload, target, &options, &STOP, &Silent)?.run()?;
    match outcome.and_then(|outcome| outcome.error) {
        None => Ok(()),
        Some(error) => Err(anyhow::anyhow!(error)),
    }
}

/// Loads `target` while `swap` puts another thing in its place and back; how many loads ran, were refused and how
/// often it was swapped. `intact` is asked after each.
fn swapped(target: &Path, destroy: &[PathBuf], mut swap: impl FnMut() + Send, intact: impl Fn() -> bool) {
    let loads = std::env::var("PLUMB_SWAPS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let (over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut ran, mut refused, mut foreign) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                swap();
                swaps.fetch_add(1, Relaxed);
            }
        });
        for _ in 0..loads {
            match load(target, destroy) {
                Ok(()) => ran += 1,
                Err(_) => refused += 1,
            }
            foreign += u64::from(!intact());
        }
        over.store(true, Relaxed);
    });
    println!(
        "{ran} loads ran, {refused} were refused, {} swaps, {foreign} looks found it written",
        swaps.into_inner()
    );
    assert_eq!(foreign, 0, "what was put in its place was written");
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} were refused: nothing was tried");
}

/// Puts what `make` makes at `target`, over what stands there.
fn put(target: &Path, make: impl FnOnce(&Path) -> bool) {
    let beside = target.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    assert!(make(&beside) && std::fs::rename(&beside, target).is_ok());
}

#[test]
fn a_link_in_place_of_a_file_is_not_written() {
    let dir = tempfile::tempdir().expect("directory");
    let at = |name: &str| dir.path().join(name);
    let (ours, precious, target) = (at("ours"), at("precious"), at("target"));
    let file = std::fs::File::create(&ours).expect("file");
    file.set_len(SIZE).expect("length");
    let destroy = if sign(&file) { vec![] } else { vec![ours.clone()] };
    drop(file);
    let text = vec![b'p'; SIZE as usize];
    std::fs::write(&precious, &text).expect("file");
    std::fs::hard_link(&ours, &target).expect("link");
    let mut turn = false;
    let swap = || {
        turn = !turn;
        match turn {
            true => put(&target, |new| symlink(&precious, new).is_ok()),
            false => put(&target, |new| std::fs::hard_link(&ours, new).is_ok()),
        }
    };
    swapped(&target, &destroy, swap, || std::fs::read(&precious).is_ok_and(|now| now == text));
}

struct Loop(PathBuf);

impl Loop {
    fn of(image: &Path) -> Option<Loop> {
        let made = Command::new("losetup").args(["-f", "--show"]).arg(image).output().ok()?;
        let node = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Loop(node.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn a_link_in_place_of_a_node_is_not_written() {
    let test = "a_link_in_place_of_a_node_is_not_written";
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP {test}: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let image = |name: &str, value: u8| {
        let path = dir.path().join(name);
        std::fs::write(&path, vec![value; 1 << 20]).expect("image");
        path
    };
    let (empty, precious) = (image("empty", 0), image("precious", b'p'));
    let (Some(ours), Some(others)) = (Loop::of(&empty), Loop::of(&precious)) else {
        println!("SKIP {test}: losetup makes no loop device here");
        return;
    };
    let (target, kept) = (dir.path().join("target"), dir.path().join("node"));
    let number = std::fs::metadata(&ours.0).expect("a node").rdev();
    let (major, minor) = (libc::major(number).to_string(), libc::minor(number).to_string());
    let made = Command::new("mknod").arg(&kept).args(["b", &major, &minor]).status();
    if !made.is_ok_and(|s| s.success()) || std::fs::File::open(&kept).is_err() {
        println!("SKIP {test}: no device node can be made or opened in {}", dir.path().display());
        return;
    }
    std::fs::hard_link(&kept, &target).expect("link");
    let mut turn = false;
    let swap = || {
        turn = !turn;
        match turn {
            true => put(&target, |new| symlink(&others.0, new).is_ok()),
            false => put(&target, |new| std::fs::hard_link(&kept, new).is_ok()),
        }
    };
    // By the node that nobody swaps.
    let destroy = [ours.0.clone()];
    let intact = || std::fs::read(&others.0).is_ok_and(|now| now.iter().all(|b| *b == b'p'));
    swapped(&target, &destroy, swap, intact);
}
