// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes that make it worse, guides that are killed, changes that are kept.

use super::common::scratch::Scratch;
use super::common::{must, output, plumb, stderr, workload};
use super::{ended, found, guide, read, ready, state, tried, Disk};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The words of a guide of a sequential reader of a disk.
fn reader(disk: &Disk, count: u32) -> (String, Vec<String>) {
    let cold = format!("blockdev --flushbufs {}", disk.device);
    let words = format!("dd if={} of=/dev/null bs=4k count={count}", disk.device);
    (cold, words.split(' ').map(str::to_string).collect())
}

#[test]
fn a_change_that_makes_it_worse_is_undone() {
    const TEST: &str = "a_change_that_makes_it_worse_is_undone";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    disk.set("read_ahead_kb", "32");
    let scratch = Scratch::new();
    let before = found(&scratch, Some(&disk), None);
    let (cold, command) = reader(&disk, 512);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let words = ["-o", "g", "--goal", "elapsed -50%", "--prepare", &cold, "--may", "read-ahead=4"];
    ended(&output(&mut guide(&scratch, &words, &command)), 1);
    assert_eq!(tried(&state(&scratch, "g")), ["read-ahead: worse"]);
    assert_eq!(found(&scratch, Some(&disk), None), before);
}

#[test]
fn commands_of_the_user_are_undone_by_commands_of_the_user() {
    const TEST: &str = "commands_of_the_user_are_undone_by_commands_of_the_user";
    let Some(_alone) = ready(TEST, &[]) else { return };
    let scratch = Scratch::new();
    let flag = scratch.path().join("flag");
    let (file, program) = (flag.display(), workload());
    let script = format!("if [ -e {file} ]; then exec {program} sleep 50; else exec {program} sleep 300; fi");
    let trial = format!("fast@wait.sleep: touch {file} ; rm -f {file}");
    let words = ["-o", "g", "--goal", "elapsed -50%", "--try", &trial];
    let out = output(&mut guide(&scratch, &words, &["sh", "-c", &script]));
    ended(&out, 0);
    assert_eq!(tried(&state(&scratch, "g")), ["fast: accepted"]);
    assert!(!flag.exists(), "{}", stderr(&out));
    // What is kept is undone from anywhere, where it was made.
    let words =
        ["-o", "kept", "--goal", "elapsed -50%", "--keep", "--try", "fast@wait.sleep: touch flag ; rm flag"];
    ended(&output(&mut guide(&scratch, &words, &["sh", "-c", &script])), 0);
    assert!(flag.exists());
    must(plumb().args(["guide", "undo"]).arg(scratch.path().join("kept")).current_dir("/"));
    assert!(!flag.exists());
}

#[test]
fn kept_changes_stay_until_they_are_undone() {
    const TEST: &str = "kept_changes_stay_until_they_are_undone";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    disk.set("read_ahead_kb", "4");
    let scratch = Scratch::new();
    let before = found(&scratch, Some(&disk), None);
    let (cold, command) = reader(&disk, 512);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let words =
        ["-o", "g", "--goal", "elapsed -50%", "--prepare", &cold, "--may", "read-ahead=1024", "--keep"];
    ended(&output(&mut guide(&scratch, &words, &command)), 0);
    assert_eq!(read(disk.queue("read_ahead_kb")), "1024");
    // What has ended says the same again, and changes nothing.
    ended(&output(&mut guide(&scratch, &["g"], &[])), 0);
    assert_eq!(read(disk.queue("read_ahead_kb")), "1024");
    let told = must(plumb().args(["guide", "undo", "g"]).current_dir(scratch.path()));
    assert!(told.contains("4 again"), "{told}");
    assert_eq!(found(&scratch, Some(&disk), None), before);
}

/// The guide's guardian.
fn guardian(guide: &Child) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", guide.id())).ok()?;
    let mut pids = children.split_whitespace().filter_map(|p| p.parse::<i32>().ok());
    pids.find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "plumb-guardian")
    })
}

fn kill(pid: i32) {
    // SAFETY: a process that this test started, or its child.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// A guide that is killed as soon as it has made its change; with its guardian, where both are to go.
fn killed(scratch: &Scratch, disk: &Disk, both: bool) {
    let (cold, command) = reader(disk, 512);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let words =
        ["-o", "g", "--goal", "elapsed -50%", "--prepare", &cold, "--may", "read-ahead=1024", "--quiet"];
    let mut child = guide(scratch, &words, &command);
    let mut child =
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    until("it changes the disk", || read(disk.queue("read_ahead_kb")) == "1024");
    if both {
        kill(guardian(&child).expect("a guardian"));
    }
    kill(child.id() as i32);
    child.wait().expect("waited");
}

#[test]
fn a_killed_guide_is_undone_by_its_guardian_and_goes_on() {
    const TEST: &str = "a_killed_guide_is_undone_by_its_guardian_and_goes_on";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    disk.set("read_ahead_kb", "4");
    let scratch = Scratch::new();
    let before = found(&scratch, Some(&disk), None);
    killed(&scratch, &disk, false);
    until("the guardian puts it back", || found(&scratch, Some(&disk), None) == before);
    ended(&output(&mut guide(&scratch, &["g"], &[])), 0);
    assert_eq!(tried(&state(&scratch, "g")), ["read-ahead: accepted"]);
    assert_eq!(found(&scratch, Some(&disk), None), before);
}

#[test]
fn what_a_guide_left_that_was_killed_with_its_guardian_is_put_back_by_the_next_call() {
    const TEST: &str = "what_a_guide_left_that_was_killed_with_its_guardian_is_put_back_by_the_next_call";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    for undo in [true, false] {
        let Some(disk) = Disk::serve(TEST, "gp3") else { return };
        disk.set("read_ahead_kb", "4");
        let scratch = Scratch::new();
        let before = found(&scratch, Some(&disk), None);
        killed(&scratch, &disk, true);
        assert_eq!(read(disk.queue("read_ahead_kb")), "1024", "nobody was there to put it back");
        if undo {
            let told = must(plumb().args(["guide", "undo", "g"]).current_dir(scratch.path()));
            assert!(told.contains("4 again"), "{told}");
        } else {
            let out = output(&mut guide(&scratch, &["g"], &[]));
            ended(&out, 0);
            assert!(stderr(&out).contains("left by an interrupted guide"), "{}", stderr(&out));
        }
        assert_eq!(found(&scratch, Some(&disk), None), before);
    }
}

#[test]
fn a_command_that_fails_is_not_measured() {
    const TEST: &str = "a_command_that_fails_is_not_measured";
    let Some(_alone) = ready(TEST, &[]) else { return };
    let scratch = Scratch::new();
    let out = output(&mut guide(
        &scratch,
        &["-o", "g", "--goal", "elapsed -5%"],
        &["sh", "-c", "echo why >&2; exit 7"],
    ));
    ended(&out, 2);
    let said = stderr(&out);
    assert!(said.contains("exit code 7") && said.contains("why"), "{said}");
    assert!(Path::new(&scratch.path().join("g")).exists());
}
