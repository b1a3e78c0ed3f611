// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The power cut as a user calls it, and that nothing of it is left whoever is killed when.
//! Needs root, /dev/fuse and loop devices.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No single wait here takes longer; what does has hung.
const HANG: Duration = Duration::from_secs(30);

fn able(test: &str) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let able = root && Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists();
    if !able {
        println!("SKIP {test}: needs root, /dev/fuse and /dev/loop-control");
    }
    able
}

/// Everything that the checker makes lies below `dir`, which is how it is found again.
fn crash(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb-faults"));
    command.arg("crash").args(args).env("TMPDIR", dir).stdin(Stdio::null());
    command
}

fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Runs it to its end; one that hangs is a failure and not a hang.
fn output(dir: &Path, args: &[&str]) -> Output {
    let path = dir.join("said");
    let file = std::fs::File::create(&path).expect("file");
    let mut child =
        crash(dir, args).stdout(file.try_clone().expect("file")).stderr(file).spawn().expect("plumb-faults");
    let mut status = None;
    let ended = within(2 * HANG, || {
        status = child.try_wait().expect("wait");
        status.is_some()
    });
    let said = std::fs::read(&path).expect("output");
    std::fs::remove_file(&path).expect("output");
    if !ended {
        kill(child.id());
        panic!("crash {args:?} hangs; left: {:?}; it said {}", left(dir), String::from_utf8_lossy(&said));
    }
    Output { status: status.expect("status"), stdout: said, stderr: Vec::new() }
}

fn kill(pid: u32) {
    // SAFETY: a call with plain numbers, for a child of this process.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

/// Mounts, processes and loop devices that have to do with `dir`.
fn left(dir: &Path) -> Vec<String> {
    let name = dir.to_str().expect("UTF-8");
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let text = |file: &str| String::from_utf8_lossy(&read(file)).replace('\0', " ");
        let words = text("cmdline");
        if words.contains(name) || text("environ").contains(name) {
            left.push(format!("process {pid} ({}): {words}", text("stat").split(' ').nth(2).unwrap_or("")));
        }
        for line in text("mountinfo").lines().filter(|l| l.contains(name)) {
            left.push(format!("mount seen by {pid}: {line}"));
        }
    }
    for entry in std::fs::read_dir("/sys/block").expect("/sys/block").flatten() {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if file.contains(name) {
            left.push(format!("{}: {}", entry.file_name().to_string_lossy(), file.trim()));
        }
    }
    left
}

fn assert_nothing_left(dir: &Path, after: &str) {
    if !within(Duration::from_secs(10), || left(dir).is_empty()) {
        let what = left(dir).join("\n  ");
        // The next run must not find them.
        for line in what.lines().filter_map(|l| l.trim().strip_prefix("process ")) {
            line.split(' ').next().and_then(|pid| pid.parse().ok()).into_iter().for_each(kill);
        }
        panic!("ten seconds after {after} there is still:\n  {what}");
    }
}

/// After an orderly end its directory is gone too.
fn assert_tidy(dir: &Path, after: &str) {
    assert_nothing_left(dir, after);
    assert_eq!(std::fs::read_dir(dir).expect("directory").count(), 0, "files after {after}");
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Keeps all of it busy: pages in the cache, commits of the journal, requests under way.
const BUSY: &str = "echo READY; cd $DIR; while :; do \
    dd if=/dev/zero of=a bs=64k count=40 conv=fsync status=none; \
    dd if=/dev/zero of=b bs=64k count=40 status=none; done";

/// Leaves a process behind that no parent waits for, and that holds the mount.
fn with_orphan() -> String {
    format!("(cd $DIR; exec sleep 1000 &); {BUSY}")
}

#[test]
fn what_was_synced_is_there_after_the_cut_and_the_rest_is_not() {
    if !able("what_was_synced_is_there_after_the_cut_and_the_rest_is_not") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let out = output(
        dir.path(),
        &[
            "check",
            "--command",
            "echo safe > $DIR/synced; sync $DIR/synced; echo lost > $DIR/not; echo noted > $SAFE/note",
            "--verify",
            "cat $DIR/synced $SAFE/note; test ! -s $DIR/not && exit 7",
        ],
    );
    assert_eq!(out.status.code(), Some(7), "{}", text(&out));
    assert!(text(&out).contains("safe\nnoted\n"), "{}", text(&out));
    assert_tidy(dir.path(), "an orderly end");
}

#[test]
fn power_goes_while_the_command_runs_and_it_is_killed() {
    if !able("power_goes_while_the_command_runs_and_it_is_killed") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let command = with_orphan();
    let args = ["check", "--command", &command, "--verify", "ls $DIR"];
    for cut in [&["--cut-after", "300ms"][..], &["--cut-after-ready", "100ms", "--keep", "50"]] {
        let out = output(dir.path(), &[&args[..], cut].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out));
        assert!(text(&out).contains("power cut while the command ran"), "{}", text(&out));
        assert_tidy(dir.path(), "an orderly end");
    }
}

#[test]
fn what_goes_wrong_is_told_and_cleared_up() {
    if !able("what_goes_wrong_is_told_and_cleared_up") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let cases: [(&[&str], &str); 5] = [
        (&["check", "--fs", "none", "--command", "exit 9", "--verify", "true"], "exit status: 9"),
        (
            &["check", "--fs", "none", "--command", "true", "--verify", "true", "--cut-after-ready", "0s"],
            "READY",
        ),
        (&["check", "--mib", "1", "--fs", "xfs", "--command", "true", "--verify", "true"], "mkfs.xfs"),
        (&["check", "--options", "no_such", "--command", "true", "--verify", "true"], "mount"),
        (&["prove", "--case", "nonsense"], "device-unflushed-lost"),
    ];
    for (args, words) in cases {
        let out = output(dir.path(), args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out));
        assert!(text(&out).contains(words), "{args:?}: {}", text(&out));
        assert_tidy(dir.path(), "an error");
    }
}

#[test]
fn a_command_that_takes_too_long_is_given_up() {
    if !able("a_command_that_takes_too_long_is_given_up") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let args = ["check", "--command", BUSY, "--verify", "true", "--deadline", "2s"];
    let out = output(dir.path(), &args);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
    assert!(text(&out).contains("--deadline allows more time"), "{}", text(&out));
    assert_tidy(dir.path(), "the deadline");
}

fn start(dir: &Path, command: &str) -> Child {
    let mut command =
        crash(dir, &["check", "--command", command, "--verify", "ls $DIR", "--cut-after", "700ms"]);
    command.args(["--keep", "50"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("plumb-faults")
}

fn assert_ends(child: &mut Child, dir: &Path, why: &str) {
    if !within(HANG, || child.try_wait().is_ok_and(|status| status.is_some())) {
        panic!("{why}, the checker does not end; left: {:#?}", left(dir));
    }
}

#[test]
fn a_checker_that_is_killed_leaves_nothing() {
    if !able("a_checker_that_is_killed_leaves_nothing") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let begun = Instant::now();
    let mut whole = start(dir.path(), &with_orphan());
    assert_ends(&mut whole, dir.path(), "undisturbed");
    // The moments lie between its start and a little after its end.
    let length = begun.elapsed().as_millis() as u64 * 11 / 10;
    assert_tidy(dir.path(), "an orderly end");
    let mut random = 20_u64;
    for _ in 0..10 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_millis((random >> 33) % length);
        let mut child = start(dir.path(), &with_orphan());
        std::thread::sleep(moment);
        kill(child.id());
        let why = format!("killed {moment:?} after its start");
        assert_ends(&mut child, dir.path(), &why);
        assert_nothing_left(dir.path(), &why);
    }
}

/// The processes that serve disks below `dir`.
fn servers(dir: &Path) -> Vec<u32> {
    let servers = left(dir).into_iter().filter(|l| l.contains("crash serve"));
    servers.filter_map(|l| l.strip_prefix("process ")?.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn a_server_that_is_killed_ends_the_check_with_an_error() {
    if !able("a_server_that_is_killed_ends_the_check_with_an_error") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    for moment in [20, 150, 500, 750].map(Duration::from_millis) {
        let mut child = start(dir.path(), &with_orphan());
        std::thread::sleep(moment);
        let why = format!("its server killed {moment:?} after the start");
        let killed = servers(dir.path());
        killed.iter().copied().for_each(kill);
        assert_ends(&mut child, dir.path(), &why);
        // It may have been too early or too late for it.
        let code = child.wait().expect("ended").code();
        assert!(killed.is_empty() || code == Some(2) || code == Some(0), "{why}: {code:?}");
        assert_nothing_left(dir.path(), &why);
    }
}

/// Then there is nobody to look for orphans; all else must go by itself.
#[test]
fn checker_and_server_killed_together_leave_nothing() {
    if !able("checker_and_server_killed_together_leave_nothing") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    for moment in [100, 400].map(Duration::from_millis) {
        let mut child = start(dir.path(), BUSY);
        std::thread::sleep(moment);
        let why = format!("both killed {moment:?} after the start");
        let served = servers(dir.path());
        kill(child.id());
        served.into_iter().for_each(kill);
        assert_ends(&mut child, dir.path(), &why);
        assert_nothing_left(dir.path(), &why);
    }
}

/// Every request waits then, in the kernel: only the deadline helps.
#[test]
fn a_server_that_answers_no_more_is_given_up() {
    if !able("a_server_that_answers_no_more_is_given_up") {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let args = ["check", "--command", BUSY, "--verify", "true", "--cut-after", "60s", "--deadline", "3s"];
    let said = std::fs::File::create(dir.path().join("said")).expect("file");
    let mut child =
        crash(dir.path(), &args).stdout(Stdio::null()).stderr(said).spawn().expect("plumb-faults");
    assert!(within(HANG, || !servers(dir.path()).is_empty()), "no server");
    // Until the command is at work on it, or in the middle of the set-up: both must end.
    std::thread::sleep(Duration::from_millis(500));
    for server in servers(dir.path()) {
        // SAFETY: a call with plain numbers, for a process that this test started.
        unsafe { libc::kill(server as libc::pid_t, libc::SIGSTOP) };
    }
    assert_ends(&mut child, dir.path(), "its server stopped");
    assert_eq!(child.wait().expect("ended").code(), Some(2));
    let said = std::fs::read_to_string(dir.path().join("said")).expect("output");
    assert!(said.contains("the disk is given up"), "{said}");
    assert_nothing_left(dir.path(), "a server that was stopped");
}
