// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb govern` on a loop device: when background I/O is limited, when it is unlimited, and that nothing is left,
//! whoever is killed when. Needs root, and a cgroup hierarchy that can limit block I/O.

mod common;

use common::schema::is_valid;
use common::scratch::Scratch;
use common::{can, output, plumb, stderr};
use plumb_govern::cgroup::{Controller, Version};
use plumb_machine::Root;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// For what happens by itself, on a machine that others use too.
const SOON: Duration = Duration::from_secs(20);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A disk, a cgroup, and a place for journals, of one test.
struct Place {
    scratch: Scratch,
    device: String,
    number: String,
    controller: Controller,
    group: PathBuf,
}

impl Place {
    /// None, and said so, where this machine cannot do it.
    fn new(test: &str) -> Option<Place> {
        if !can(test, &["losetup", "dd"]) {
            return None;
        }
        let controller = match Controller::find(&Root::real()) {
            Ok(controller) => controller,
            Err(why) => {
                println!("SKIP {test}: {why}");
                return None;
            }
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = controller.mount.join(format!("plumb-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&group).expect("a cgroup");
        let place = Place::at(controller, group);
        if place
            .controller
            .group(&place.group.display().to_string())
            .and_then(|g| g.can_be_limited())
            .is_err()
        {
            println!("SKIP {test}: new cgroups have no controller of I/O here");
            return None;
        }
        Some(place)
    }

    fn at(controller: Controller, group: PathBuf) -> Place {
        let scratch = Scratch::new();
        let device = scratch.attach(&scratch.image("disk", 64), &["--direct-io=on"]);
        let rdev = std::fs::metadata(&device).expect("the device").rdev();
        let number = format!("{}:{}", libc::major(rdev), libc::minor(rdev));
        Place { scratch, device, number, controller, group }
    }

    fn files(&self) -> &'static [&'static str] {
        match self.controller.version {
            Version::V1 => &[
                "blkio.throttle.read_bps_device",
                "blkio.throttle.write_bps_device",
                "blkio.throttle.read_iops_device",
                "blkio.throttle.write_iops_device",
            ],
            Version::V2 => &["io.max"],
        }
    }

    /// What the group's files say of the disk.
    fn limits(&self) -> Vec<String> {
        self.limits_of(&self.group)
    }

    fn limits_of(&self, group: &Path) -> Vec<String> {
        let line = |name: &&str| {
            let text = std::fs::read_to_string(group.join(name)).unwrap_or_default();
            text.lines().find(|l| l.starts_with(&format!("{} ", self.number))).map(str::to_string)
        };
        self.files().iter().filter_map(line).collect()
    }

    fn plumb(&self) -> Command {
        let mut command = plumb();
        command.env("PLUMB_RUNTIME_DIR", self.scratch.path().join("run")).arg("govern");
        command
    }

    /// Governs the group on the disk until it is ended.
    fn govern(&self, more: &[&str]) -> Running {
        let mut command = self.plumb();
        command.args(["--protect", &self.device, "--json"]).args(more);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running(child.expect("plumb govern"))
    }

    fn low(&self) -> [String; 2] {
        ["--low".into(), self.group.display().to_string()]
    }

    /// One read past the page cache, by nobody of the group.
    fn read(&self) {
        let out = output(Command::new("dd").args([
            &format!("if={}", self.device),
            "of=/dev/null",
            "bs=4k",
            "count=1",
            "iflag=direct",
        ]));
        assert!(out.status.success(), "{}", stderr(&out));
    }

    /// Reads without end in the group.
    fn reader(&self) -> Running {
        let script = format!(
            "echo $$ > {}/cgroup.procs && while dd if={} of=/dev/null bs=64k iflag=direct 2>/dev/null; do :; done",
            self.group.display(),
            self.device
        );
        Running(Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).spawn().expect("a reader"))
    }

    /// Ends everything of the group.
    fn clear(&self) {
        let text = std::fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for pid in text.lines().filter_map(|l| l.parse::<i32>().ok()) {
            // SAFETY: a process that this test put into its own group.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        until("the group is empty", || {
            self.clear();
            std::fs::remove_dir(&self.group).is_ok() || !self.group.exists()
        });
    }
}

/// A process of the test's.
struct Running(Child);

impl Running {
    fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }

    /// Waits for its end; its exit code, standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        use std::io::Read;
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_string(&mut out).expect("text");
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut err).expect("text");
        }
        (self.0.wait().expect("its end").code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < SOON, "after {} s not yet: {what}", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// It is limited, unlimited without foreground I/O although background I/O continues, limited again with the first
/// foreground request; and as before in the end.
fn limited_and_free(place: &Place, more: &[&str]) -> Value {
    let own = place.group.join(place.files()[place.files().len() - 1]);
    let mine = match place.controller.version {
        Version::V1 => format!("{} 900", place.number),
        Version::V2 => format!("{} rbps=max wbps=max riops=max wiops=900", place.number),
    };
    std::fs::write(&own, &mine).expect("a limit of one's own");
    let before = place.limits();
    assert_eq!(before, [mine]);
    let low = place.low();
    let mut words = vec!["--delay", "700ms", "--limit", "1M,800iops", &low[0], &low[1]];
    words.extend(more);
    let governor = place.govern(&words);
    let limited = || place.limits().iter().any(|l| l.contains("1048576"));
    until("limited at the start", limited);
    let _reader = place.reader();
    until("unlimited without foreground I/O", || place.limits() == before);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(place.limits(), before, "background I/O does not count as foreground");
    place.read();
    until("limited by one foreground read", limited);
    let mut last = Instant::now();
    for _ in 0..8 {
        place.read();
        // On a machine that is busy elsewhere the pause may have been as long as the delay.
        assert!(limited() || last.elapsed() > Duration::from_millis(400), "foreground I/O goes on");
        last = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
    }
    until("free again", || place.limits() == before);
    place.read();
    until("limited again", limited);
    governor.signal(libc::SIGINT);
    let (code, out, err) = governor.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(place.limits(), before, "as before");
    assert!(
        err.contains("background I/O is unlimited")
            && err.contains("foreground I/O: background I/O is limited to"),
        "{err}"
    );
    json(&out)
}

#[test]
fn low_io_is_limited_beside_normal_io_and_free_without() {
    let Some(place) = Place::new("low_io_is_limited_beside_normal_io_and_free_without") else { return };
    let result = limited_and_free(&place, &[]);
    assert_eq!(result["watch"], "requests", "{result:#}");
    let disk = &result["disks"][0];
    assert!(disk["switches"].as_u64() >= Some(4), "{disk:#}");
    let normal = disk["limited"]["normal"]["requests"].as_u64().expect("seen");
    let reads = disk["free"]["normal"]["requests"].as_u64().expect("seen") + normal;
    assert_eq!(reads, 10, "the test's own reads, and no low one: {disk:#}");
    assert!(disk["limited"]["normal"]["p50_ns"].as_u64() > Some(0));
    assert!(disk["free"]["low"]["bytes"].as_u64() > disk["limited"]["low"]["bytes"].as_u64(), "{disk:#}");
}

#[test]
fn without_bpf_it_goes_by_sums_of_bytes() {
    let Some(place) = Place::new("without_bpf_it_goes_by_sums_of_bytes") else { return };
    let result = limited_and_free(&place, &["--sums"]);
    assert_eq!(result["watch"], "sums");
    assert_eq!(result["disks"][0]["limited"]["normal"]["requests"], Value::Null);
    let normal: u64 =
        ["limited", "free"].iter().filter_map(|s| result["disks"][0][s]["normal"]["bytes"].as_u64()).sum();
    assert_eq!(normal, 10 * 4096, "{result:#}");
}

#[test]
fn a_group_that_is_made_below_is_limited_too() {
    let Some(place) = Place::new("a_group_that_is_made_below_is_limited_too") else { return };
    let low = place.low();
    let governor = place.govern(&["--delay", "60s", &low[0], &low[1]]);
    until("limited", || !place.limits().is_empty());
    let below = place.group.join("below");
    std::fs::create_dir(&below).expect("a cgroup");
    if place.controller.version == Version::V1 {
        until("the new one is limited", || place.limits_of(&below).len() == 4);
    }
    governor.signal(libc::SIGTERM);
    assert_eq!(governor.end().0, Some(0));
    assert_eq!((place.limits(), place.limits_of(&below)), (vec![], vec![]));
    std::fs::remove_dir(&below).expect("empty");
}

#[test]
fn killed_at_any_moment_it_leaves_no_limit_and_no_group() {
    let Some(place) = Place::new("killed_at_any_moment_it_leaves_no_limit_and_no_group") else { return };
    // Ten moments from before the first change on to well behind it; a round's time is not the same twice anyway.
    let mut worst = Duration::ZERO;
    for round in 0..10u64 {
        let low = place.low();
        let pid = place.scratch.path().join(format!("pid{round}"));
        let script = format!("echo $$ > {}; exec sleep 1000", pid.display());
        // Every other one is free soon, and may be killed while it switches.
        let delay = if round % 2 == 1 { "60s" } else { "30ms" };
        let governor = place.govern(&["--delay", delay, &low[0], &low[1], "--", "sh", "-c", &script]);
        let name = format!("plumb-govern-{}", governor.0.id());
        if round % 2 == 1 {
            until("limited", || !place.limits().is_empty());
        }
        std::thread::sleep(Duration::from_micros(
            round * round * 6_000 + u64::from(std::process::id() % 7) * 900,
        ));
        governor.signal(libc::SIGKILL);
        let begun = Instant::now();
        // Other tests have groups of this kind meanwhile.
        let made = place.controller.mount.join(&name);
        until("no limit and no group", || place.limits().is_empty() && !made.exists());
        worst = worst.max(begun.elapsed());
        drop(governor);
        // The command lives on, as it would without plumb; it is this test's to end.
        if let Ok(pid) = std::fs::read_to_string(&pid).unwrap_or_default().trim().parse::<i32>() {
            // SAFETY: ends what this test's governor started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    println!("limits were gone within {worst:?}");
    let said = output(place.plumb().arg("--restore"));
    assert!(said.status.success(), "{}", stderr(&said));
    assert_eq!(std::fs::read_dir(place.scratch.path().join("run/govern")).expect("there").count(), 0);
}

#[test]
fn when_its_guardian_is_killed_too_the_next_one_puts_back() {
    let Some(place) = Place::new("when_its_guardian_is_killed_too_the_next_one_puts_back") else { return };
    let low = place.low();
    let governor = place.govern(&["--delay", "60s", &low[0], &low[1]]);
    until("limited", || !place.limits().is_empty());
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", governor.0.id()));
    let guardian: i32 =
        children.expect("children").split_whitespace().next().expect("one").parse().expect("a pid");
    // SAFETY: the guardian of this test's governor.
    unsafe { libc::kill(guardian, libc::SIGKILL) };
    governor.signal(libc::SIGKILL);
    drop(governor);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!place.limits().is_empty(), "nobody is there to put it back");
    let said = output(place.plumb().args(["--restore", "--json"]));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    is_valid("govern --restore", &said);
    let done = json(&said);
    assert!(done["done"].as_array().is_some_and(|d| !d.is_empty()), "{done}");
    assert_eq!(place.limits(), [""; 0]);
}

#[test]
fn a_command_runs_in_a_group_of_its_own_and_its_failure_is_told() {
    let Some(place) = Place::new("a_command_runs_in_a_group_of_its_own_and_its_failure_is_told") else {
        return;
    };
    let governor = place.govern(&["--quiet", "--", "sh", "-c", "cat /proc/self/cgroup; exit 7"]);
    let name = format!("plumb-govern-{}", governor.0.id());
    let (code, out, err) = governor.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(&name), "the command's own words, in its group: {err}");
    is_valid("govern", &out);
    assert_eq!(json(&out)["exit_code"], 7);
    assert!(!place.controller.mount.join(&name).exists());
    let (code, _, err) = place.govern(&["--", "plumb-no-such-program"]).end();
    assert_eq!(code, Some(2));
    assert!(err.contains("plumb-no-such-program") && err.contains("PATH"), "{err}");
    // What goes on behind the command's end goes on, without a limit.
    let (code, _, err) = place.govern(&["--", "sh", "-c", "sleep 0.5 & exit 0"]).end();
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn groups_that_are_removed_are_told_and_the_last_one_ends_it() {
    let Some(place) = Place::new("groups_that_are_removed_are_told_and_the_last_one_ends_it") else { return };
    let other = place.group.with_extension("other");
    std::fs::create_dir(&other).expect("a cgroup");
    let (low, second) = (place.low(), other.display().to_string());
    let governor = place.govern(&["--delay", "60s", "--for", "60s", &low[0], &low[1], "--low", &second]);
    until("limited", || !place.limits().is_empty() && !place.limits_of(&other).is_empty());
    std::fs::remove_dir(&other).expect("empty");
    std::thread::sleep(Duration::from_millis(300));
    std::fs::remove_dir(&place.group).expect("empty");
    let (code, out, err) = governor.end();
    assert_eq!(code, Some(0), "{err}");
    for words in [
        format!("background cgroup {second} was removed"),
        format!("background cgroup {} was removed", low[1]),
        "no background cgroup is left".into(),
        " MB/s and ".into(),
    ] {
        assert!(err.contains(&words), "lacks {words}: {err}");
    }
    assert_eq!(json(&out)["ended_by"], "no low cgroup");
}

#[test]
fn a_disk_that_loses_what_it_holds_ends_it_and_keeps_no_limit() {
    let Some(place) = Place::new("a_disk_that_loses_what_it_holds_ends_it_and_keeps_no_limit") else {
        return;
    };
    let low = place.low();
    let governor = place.govern(&["--delay", "60s", "--for", "60s", &low[0], &low[1]]);
    until("limited", || !place.limits().is_empty());
    // As a device without its file, but so that nobody else gets it meanwhile.
    std::fs::File::options()
        .write(true)
        .open(place.scratch.path().join("disk"))
        .expect("the image")
        .set_len(0)
        .expect("cut");
    let shrunk = output(Command::new("losetup").args(["--set-capacity", &place.device]));
    assert!(shrunk.status.success(), "{}", stderr(&shrunk));
    let (code, out, err) = governor.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("no disk is left") && err.contains("the disk was removed"), "{err}");
    assert_eq!((json(&out)["ended_by"].as_str(), place.limits()), (Some("no disk"), vec![]));
}

#[test]
fn the_end_of_the_time_ends_the_command_and_says_so() {
    let Some(place) = Place::new("the_end_of_the_time_ends_the_command_and_says_so") else { return };
    let (code, out, err) = place.govern(&["--for", "300ms", "--", "sleep", "1000"]).end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("--for is over: sending SIGTERM to the command"), "{err}");
    assert_eq!(json(&out)["ended_by"], "command");
}

#[test]
fn what_cannot_be_governed_is_refused_with_the_next_step() {
    let Some(place) = Place::new("what_cannot_be_governed_is_refused_with_the_next_step") else { return };
    let group = place.group.display().to_string();
    for (words, said) in [
        (&["--protect", "loop0"][..], "no background I/O given"),
        (&["--low", "no-such-group"], "no-such-group"),
        (&["--low", "/"], "cannot limit the root cgroup"),
        (&["--low", &group, "--protect", "/dev/no-such-disk"], "lsblk"),
        (&["--low", &group, "--protect", "no-such-thing"], "neither a disk nor a cgroup"),
        (
            &["--protect", "no-such-thing", "--", "true"],
            "neither a disk nor a cgroup; 'lsblk' lists the disks",
        ),
        (&["--low", &group, "--protect", &group], "cannot protect cgroup"),
        (&["--low", &group, "--limit", "0"], "2M,50iops"),
        (&["--low", &group, "--target", "10ms", "--sums"], "--sums"),
    ] {
        let out = output(place.plumb().args(words));
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        assert!(stderr(&out).contains(said), "{words:?}: {}", stderr(&out));
    }
    let low = place.low();
    let governor = place.govern(&["--delay", "60s", &low[0], &low[1]]);
    until("limited", || !place.limits().is_empty());
    let twice = output(place.plumb().args(["--protect", &place.device, &low[0], &low[1]]));
    let pid = governor.0.id().to_string();
    assert!(
        stderr(&twice).contains("governs it already") && stderr(&twice).contains(&pid),
        "{}",
        stderr(&twice)
    );
    drop(governor);
    until("put back", || place.limits().is_empty());
}
