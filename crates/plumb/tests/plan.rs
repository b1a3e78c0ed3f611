// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan run`: every repetition once, whatever happens to it, and the system as it was.
//! Devices are loop devices over files of the test's own.

mod common;

use common::room::{number, refuses, text, until, Room, Running};
use common::{can, must, plumb};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;

const TOOLS: [&str; 5] = ["losetup", "mkfs.ext4", "mount", "umount", "fsfreeze"];

/// A parameter of the kernel that does nothing on a machine without swap.
const PARAMETER: &str = "/proc/sys/vm/page-cluster";

/// One test at a time: they look at a kernel parameter, and losetup opens the device that it
/// would like to have.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).trim().to_string()
}

/// Writes a plan; `rest` is what stands below its head.
fn plan(room: &Room, name: &str, rest: &str) -> PathBuf {
    let path = room.path().join(format!("{name}.toml"));
    let head = format!(
        "name = \"{name}\"\ntitle = \"a test\"\npurpose = \"does it work?\"\nhypothesis = \"it does\"\n\
         takes = \"10s\"\norder = \"given\"\n"
    );
    std::fs::write(&path, head + rest).expect("a plan");
    path
}

/// A cell on an ext4 of a device of this machine, with everything that a plan can change.
fn busy(device: &str, script: &str, repeat: u32) -> String {
    let now: u32 = read(PARAMETER).parse().expect("a number");
    let scheduler = read(queue(device).join("scheduler"));
    let other = scheduler.split(' ').find(|w| !w.starts_with('[')).unwrap_or("none");
    format!(
        r#"
        repeat = {repeat}
        [device.disk]
        path = "{device}"
        [device.served]
        model = "instant"
        size = "64M"
        [cell]
        device = ["disk", "served"]
        file-system = {{ kind = "ext4" }}
        prepare = ["sh", "-c", "echo prepared > {{dir}}/file"]
        remount = true
        queue = {{ scheduler = "{other}", read_ahead_kb = 64, nr_requests = 32 }}
        sysctl = {{ "vm.page-cluster" = {} }}
        command = ["sh", "-c", "{script}"]
        [[factor]]
        name = "how"
        level = [{{ name = "one" }}, {{ name = "two", file-system = {{ kind = "ext2" }} }}]
        "#,
        now + 1
    )
}

fn queue(device: &str) -> PathBuf {
    Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join("queue")
}

/// What a plan may change of a device and of the machine.
fn settings(device: &str) -> Vec<String> {
    let mut all: Vec<String> = ["scheduler", "read_ahead_kb", "nr_requests", "wbt_lat_usec"]
        .iter()
        .map(|name| {
            format!("{name} {}", std::fs::read_to_string(queue(device).join(name)).unwrap_or_default())
        })
        .collect();
    all.push(read(PARAMETER));
    all
}

fn start(room: &Room, words: &[&str]) -> Running {
    let mut command = plumb();
    command.arg("plan").args(words).current_dir(room.path());
    Running::of(command)
}

fn run(room: &Room, words: &[&str]) -> Output {
    start(room, words).end()
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap_or_else(|| panic!("{}: {}", out.status, text(&out.stderr)))
}

fn state(dir: &Path) -> Value {
    serde_json::from_str(&read(dir.join("plan.json"))).expect("plan.json")
}

/// The cells and repetitions that were made, with the end of each.
fn made(dir: &Path) -> Vec<(u64, u64, Value)> {
    let state = state(dir);
    let all = state["made"].as_array().expect("made").iter();
    let mut made: Vec<_> =
        all.map(|m| (number(m, "cell"), number(m, "repetition"), m["end"].clone())).collect();
    made.sort_by_key(|(cell, repetition, _)| (*cell, *repetition));
    made
}

/// Nothing of a plan is left on the system: no mount, no served disk, no process, no open change.
fn nothing_left(room: &Room, dir: &Path) {
    let mounts = read("/proc/mounts");
    assert!(!mounts.contains(&dir.display().to_string()), "{mounts}");
    let mut open = Vec::new();
    for line in read(dir.join("changes.jsonl")).lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        match (line["number"].as_u64(), line["done"].as_u64()) {
            (Some(number), _) if line["change"] != "began" && line["change"] != "formatted" => {
                open.push((number, line.clone()));
            }
            (_, Some(done)) => open.retain(|(number, _)| *number != done),
            _ => {}
        }
        if let Some(name) = line["name"].as_str().filter(|_| line["change"] == "disk") {
            assert!(!Path::new("/run/plumb/disks").join(format!("{name}.json")).exists(), "{name} is served");
            for disk in std::fs::read_dir("/sys/block").expect("sysfs").flatten() {
                let backing = std::fs::read_to_string(disk.path().join("loop/backing_file"));
                assert!(!backing.unwrap_or_default().contains(name), "{name} has a node");
            }
        }
    }
    assert!(open.is_empty(), "{open:#?}");
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    for process in processes.filter(|p| p.file_name().to_string_lossy().parse::<u32>().is_ok()) {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        assert!(!words.contains(&room.path().display().to_string()), "still runs: {words}");
    }
    assert!(!dir.join("mount").exists());
}

/// Kills what a test left of a plan's own processes, when it fails.
struct Restore<'a>(&'a Path);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.join("changes.jsonl").exists() {
            let _ = plumb().args(["plan", "restore"]).arg(self.0).status();
        }
    }
}

#[test]
fn a_plan_runs_to_its_end_on_disks_of_its_own() {
    if !can("a_plan_runs_to_its_end_on_disks_of_its_own", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let before = read(PARAMETER);
    let plan = plan(
        &room,
        "whole",
        r#"
        repeat = 2
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        sysctl = { "vm.page-cluster" = 5 }
        load = { size = "1M", block = "4K" }
        [[factor]]
        name = "ground"
        level = [{ name = "ext4", file-system = { kind = "ext4", mount = "noatime" } }, { name = "bare" }]
        [[factor]]
        name = "sync"
        level = [{ name = "never" }, { name = "fsync", load = { sync = "fsync" } }]
        [[chart]]
        name = "all"
        title = "every operation"
        kind = "operations"
        figure = "write"
        "#,
    );
    let plan = plan.display().to_string();
    let out = run(&room, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert!([0, 3].contains(&code(&out)), "{said}");
    let made = made(&dir);
    assert_eq!(made.len(), 8, "{made:?}");
    assert!(made.iter().all(|(_, _, end)| end == "measured"), "{made:?}\n{said}");
    for n in 1..=8 {
        assert!(said.contains(&format!("[{n}/8]")), "{said}");
    }
    for m in state(&dir)["made"].as_array().expect("made") {
        let repetition = dir.join(m["dir"].as_str().expect("a directory"));
        let load: Value = serde_json::from_str(&read(repetition.join("load.json"))).expect("load.json");
        assert!(load["environment"]["kernel"].is_object());
        assert!(repetition.join("log").exists() && number(m, "elapsed_ns") > 0);
        let cell: Value = serde_json::from_str(&read(repetition.join("cell.json"))).expect("cell.json");
        assert_eq!(cell, *m);
        let ext4 = load["environment"]["file_system"]["kind"] == "ext4";
        assert_eq!(ext4, number(m, "cell") < 2, "{load:#}");
    }
    assert_eq!(read(PARAMETER), before);
    nothing_left(&room, &dir);
    // Once more: there is nothing to do, and it is the same answer.
    let again = run(&room, &["run", "out"]);
    assert_eq!(code(&again), code(&out), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("resuming: 8 of 8 done"));
    // Another plan does not go there.
    std::fs::write(&plan, read(&plan).replace("repeat = 2", "repeat = 3")).expect("another");
    refuses(&run(&room, &["run", &plan, "-o", "out"]), &["holds another plan", "-o"]);
}

#[test]
fn a_killed_plan_goes_on_and_every_repetition_is_made_once() {
    if !can("a_killed_plan_goes_on_and_every_repetition_is_made_once", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let device = room.disk("image", 64);
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    // Each appends a line where the next one would see it, and the file of `prepare` must be cold and there.
    let script = "cat {dir}/file && echo ran >> {out}/ran && sleep 0.15 && echo x > {dir}/new";
    let plan = plan(&room, "killed", &busy(&device, script, 4)).display().to_string();
    let mut random = 88_172_645_463_325_252_u64;
    let mut kills = 0;
    for _ in 0..10 {
        let going = start(&room, &["run", &plan, "-o", "out"]);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_millis(50 + random % 900));
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(going.pid(), libc::SIGKILL) };
        // The guardian holds its standard error until all is put back.
        let out = going.end();
        kills += u32::from(out.status.code().is_none());
        assert_eq!(settings(&device), before, "{}", text(&out.stderr));
        if dir.join("changes.jsonl").exists() {
            nothing_left(&room, &dir);
        }
    }
    assert!(kills >= 5, "{kills} of 10 were killed");
    let out = run(&room, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 0, "{said}");
    let made = made(&dir);
    let expected: Vec<(u64, u64)> = (0..2).flat_map(|c| (1..=4).map(move |r| (c, r))).collect();
    assert_eq!(made.iter().map(|(c, r, _)| (*c, *r)).collect::<Vec<_>>(), expected, "{said}");
    assert!(made.iter().all(|(_, _, end)| end == "measured"), "{made:?}");
    for m in state(&dir)["made"].as_array().expect("made") {
        let repetition = dir.join(m["dir"].as_str().expect("a directory"));
        assert_eq!(read(repetition.join("ran")), "ran");
        assert_eq!(read(repetition.join("output.txt")).lines().last(), Some("prepared"));
    }
    assert_eq!(settings(&device), before);
    nothing_left(&room, &dir);
}

#[test]
fn what_a_run_leaves_whose_guardian_is_killed_too_is_put_back_by_the_next() {
    if !can("what_a_run_leaves_whose_guardian_is_killed_too_is_put_back_by_the_next", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let device = room.disk("image", 64);
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    let script = "echo ran > {out}/ran; setsid true; sleep 3";
    let plan = plan(&room, "orphan", &busy(&device, script, 1)).display().to_string();
    for next in [&["restore", "out"][..], &["run", "out"][..]] {
        // What the first one that was killed began would look like what this one begins.
        let _ = std::fs::remove_dir_all(dir.join("cells"));
        let going = start(&room, &["run", &plan, "-o", "out"]);
        let ran = || {
            std::fs::read_dir(dir.join("cells")).is_ok_and(|cells| {
                cells
                    .flatten()
                    .any(|c| c.path().join("1/ran").exists() && !c.path().join("1/cell.json").exists())
            })
        };
        until("the command runs", ran);
        let guardian =
            going.workers().into_iter().find(|pid| read(format!("/proc/{pid}/comm")) == "plumb-guardian");
        // SAFETY: our own child and its, not waited for yet.
        unsafe {
            libc::kill(guardian.expect("a guardian"), libc::SIGKILL);
            libc::kill(going.pid(), libc::SIGKILL);
        }
        going.end();
        assert!(read("/proc/mounts").contains(&dir.display().to_string()), "it was mounted");
        assert_ne!(settings(&device), before);
        let out = run(&room, next);
        let said = text(&out.stderr) + &text(&out.stdout);
        assert_eq!(code(&out), 0, "{said}");
        for word in ["unmounted", "read_ahead_kb", "page-cluster"] {
            assert!(said.contains(word), "lacks {word}: {said}");
        }
        assert_eq!(settings(&device), before, "{said}");
        nothing_left(&room, &dir);
    }
    assert_eq!(made(&dir).len(), 2);
    let out = run(&room, &["restore", "out"]);
    assert_eq!((code(&out), text(&out.stdout).trim()), (0, "nothing was left changed"));
}

#[test]
fn what_somebody_else_set_meanwhile_is_left_alone_and_named() {
    if !can("what_somebody_else_set_meanwhile_is_left_alone_and_named", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let device = room.disk("image", 64);
    let dir = room.path().join("out");
    let plan = plan(&room, "else", &busy(&device, "echo 4096 > /sys/block/LOOP/queue/read_ahead_kb", 1));
    let name = device.trim_start_matches("/dev/");
    std::fs::write(&plan, read(&plan).replace("LOOP", name)).expect("written");
    let out = run(&room, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert!(
        said.contains("read_ahead_kb is 4096: somebody changed it since the plan set it to 64"),
        "{said}"
    );
    nothing_left(&room, &dir);
}

#[test]
fn an_interrupted_plan_keeps_what_was_made_and_says_how_to_go_on() {
    if !can("an_interrupted_plan_keeps_what_was_made_and_says_how_to_go_on", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let device = room.disk("image", 64);
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    let script = "echo ran > {out}/ran; test {out} = DIR/cells/001-one/1 || sleep 2";
    let script = script.replace("DIR", &dir.display().to_string());
    let plan = plan(&room, "stop", &busy(&device, &script, 1)).display().to_string();
    let going = start(&room, &["run", &plan, "-o", "out"]);
    until("the second cell runs", || dir.join("cells/002-two/1/ran").exists());
    going.signal(libc::SIGINT);
    let out = going.end();
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    assert!(said.contains(&format!("plumb plan run {}", dir.display())), "{said}");
    assert_eq!(made(&dir).len(), 1);
    assert!(!dir.join("cells/002-two").exists(), "the repetition that was interrupted does not count");
    let why = state(&dir)["ended_early"].to_string();
    assert!(why.contains("stopped by the user in two, repetition 1"), "{why}");
    assert_eq!(settings(&device), before);
    nothing_left(&room, &dir);
    let out = run(&room, &["run", "out"]);
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("resuming: 1 of 2 done"));
    assert!(state(&dir)["ended_early"].is_null());
}

#[test]
fn what_hangs_is_ended_and_told() {
    if !can("what_hangs_is_ended_and_told", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &room,
        "hang",
        r#"
        limit = "1s"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        [[factor]]
        name = "how"
        level = [
            { name = "asleep", command = ["sleep", "1000"] },
            { name = "deaf", command = ["sh", "-c", "trap '' TERM; sleep 1000 & sleep 1001"] },
            { name = "frozen", command = ["sh", "-c", "fsfreeze -f {dir}; echo x > {dir}/file"] },
            { name = "well", command = ["true"] },
        ]
        "#,
    );
    let out = run(&room, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    let ends: Vec<Value> = made(&dir).into_iter().map(|(_, _, end)| end).collect();
    assert_eq!(ends, ["timed-out", "timed-out", "timed-out", "measured"], "{said}");
    for (cell, words) in
        [("001-asleep", "sleep: S"), ("002-deaf", "sleep: S"), ("003-frozen", ": D (disk sleep)")]
    {
        let stuck = read(dir.join("cells").join(cell).join("1/stuck.txt"));
        assert!(stuck.contains(words) && stuck.contains("system call: "), "{cell}: {stuck}");
    }
    assert!(said.contains("was frozen, and was thawed"), "{said}");
    nothing_left(&room, &dir);
}

#[test]
fn failures_are_told_and_the_others_go_on() {
    if !can("failures_are_told_and_the_others_go_on", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let rest = r#"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        command = ["sh", "-c", "echo last words >&2; exit 7"]
        [[factor]]
        name = "how"
        level = [
            { name = "fails" },
            { name = "mkfs", file-system = { kind = "ext4", mkfs = ["-O", "no-such-feature"] } },
            { name = "mount", file-system = { kind = "ext4", mount = "no-such-option" } },
            { name = "setting", sysctl = { "vm.no-such" = 1 } },
            { name = "prepare", prepare = ["sh", "-c", "echo not ready; exit 1"] },
            { name = "missing", command = ["/no/such/program"] },
            { name = "well", command = ["true"] },
        ]
        "#;
    let plan = plan(&room, "fail", rest).display().to_string();
    let out = run(&room, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    let words = [
        "exit code 7: last words",
        "mkfs.ext4: exit code 1",
        "mount: exit code",
        "vm/no-such: this kernel has no such file",
        "prepare: sh: exit code 1: not ready",
        "/no/such/program: No such file",
    ];
    for (made, words) in made(&dir).iter().zip(words) {
        assert!(made.2["failed"].as_str().is_some_and(|f| f.contains(words)), "lacks {words}: {made:?}");
    }
    assert_eq!(made(&dir)[6].2, "measured");
    nothing_left(&room, &dir);
    // One of them again; the others stay as they are.
    let out = run(&room, &["run", "out", "--again", "fails"]);
    assert!(text(&out.stderr).contains("resuming: 6 of 7 done"), "{}", text(&out.stderr));
    refuses(&run(&room, &["run", "out", "--again", "nobody"]), &["no such cell", "well"]);
    // When none of them can be measured, that is an error.
    let rest = rest.replace("{ name = \"well\", command = [\"true\"] },", "");
    let plan = self::plan(&room, "none", &rest).display().to_string();
    refuses(&run(&room, &["run", &plan, "-o", "none"]), &["nothing could be measured", "last words"]);
}

#[test]
fn a_full_disk_ends_the_plan_and_loses_nothing_that_was_made() {
    if !can("a_full_disk_ends_the_plan_and_loses_nothing_that_was_made", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let small = room.ext4(&room.disk("small.image", 48), "small", &[]);
    let dir = small.join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &room,
        "full",
        r#"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        command = ["sh", "-c", "cat /dev/zero > {out}/much"]
        [[factor]]
        name = "which"
        level = [{ name = "first" }, { name = "second" }]
        "#,
    );
    let words = ["run", &plan.display().to_string(), "-o", &dir.display().to_string()];
    let out = run(&room, &words);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    assert!(said.contains("no room:") && said.contains("to go on"), "{said}");
    assert_eq!(made(&dir).len(), 1, "{said}");
    nothing_left(&room, &dir);
    std::fs::remove_file(dir.join("cells/001-first/1/much")).expect("the file that fills it");
    assert!(text(&run(&room, &words).stderr).contains("resuming: 1 of 2 done"));
}

#[test]
fn two_plans_do_not_meet_on_one_device_or_in_one_directory() {
    if !can("two_plans_do_not_meet_on_one_device_or_in_one_directory", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let device = room.disk("image", 64);
    let dir = room.path().join("one");
    let _restore = Restore(&dir);
    let plan = plan(&room, "two", &busy(&device, "echo ran > {out}/ran; sleep 4", 1)).display().to_string();
    let first = start(&room, &["run", &plan, "-o", "one"]);
    until("the first one runs", || dir.join("cells/001-one/1/ran").exists());
    let who = format!("process {}", first.pid());
    refuses(&run(&room, &["run", &plan, "-o", "two"]), &[&device, &who]);
    assert!(!room.path().join("two").exists(), "nothing was made");
    refuses(&run(&room, &["run", &plan, "-o", "one"]), &["one", &who]);
    refuses(&run(&room, &["restore", "one"]), &["one", &who]);
    first.signal(libc::SIGTERM);
    assert_eq!(code(&first.end()), 3);
    nothing_left(&room, &dir);
}

#[test]
fn copies_and_recordings_have_their_files_and_devices() {
    if !can("copies_and_recordings_have_their_files_and_devices", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let dir = room.path().join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &room,
        "copies",
        r#"
        [device.a]
        model = "instant"
        size = "64M"
        [device.b]
        model = "instant"
        size = "64M"
        [cell]
        device = ["a", "b"]
        file-system = { kind = "ext4" }
        copies = 2
        [[factor]]
        name = "what"
        level = [
            { name = "load", load = { size = "1M" } },
            { name = "command", command = ["sh", "-c", "echo {dir} {dir2} it\\'s"] },
        ]
        [[factor]]
        name = "recorded"
        level = [{ name = "no" }, { name = "yes", record = ["--sample", "0"] }]
        "#,
    );
    let out = run(&room, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert!([0, 3].contains(&code(&out)), "{said}");
    assert!(made(&dir).iter().all(|(_, _, end)| end == "measured"), "{said}\n{:?}", made(&dir));
    for cell in ["001-load-no", "002-load-yes"] {
        let at = dir.join("cells").join(cell).join("1");
        let targets = ["load.json", "load.2.json"].map(|name| {
            let load: Value = serde_json::from_str(&read(at.join(name))).expect("a result");
            load["target"].as_str().map(str::to_string)
        });
        assert_ne!(targets[0], targets[1], "each on a device of its own");
    }
    for cell in ["003-command-no", "004-command-yes"] {
        let mut said: Vec<String> =
            read(dir.join("cells").join(cell).join("1/output.txt")).lines().map(str::to_string).collect();
        said.sort();
        let (a, b) = (dir.join("mount/a"), dir.join("mount/b"));
        let line = |a: &Path, b: &Path| format!("{} {} it's", a.display(), b.display());
        assert_eq!(said, [line(&a, &b), line(&b, &a)], "{cell}");
    }
    for cell in ["002-load-yes", "004-command-yes"] {
        let at = dir.join("cells").join(cell).join("1");
        assert!(at.join("run.json").exists() && at.join("result.json").exists() && at.join("trace").exists());
    }
    nothing_left(&room, &dir);
}

#[test]
fn a_budget_ends_before_it_is_over() {
    if !can("a_budget_ends_before_it_is_over", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let dir = room.path().join("out");
    let rest = format!(
        "repeat = 50\nbudget = \"2s\"\n[device.d]\ndirectory = \"{}\"\n[cell]\ndevice = \"d\"\n\
         command = [\"sleep\", \"0.6\"]\n",
        room.path().display()
    );
    let plan = plan(&room, "budget", &rest).display().to_string();
    let out = run(&room, &["run", &plan, "-o", "out"]);
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let why = state(&dir)["ended_early"].to_string();
    assert!(why.contains("the budget of 2s") && (1..=3).contains(&made(&dir).len()), "{why}");
}

/// Devices that must not be touched, by whatever is on them; the same bytes stand there afterwards.
#[test]
fn precious_devices_are_not_touched() {
    if !can("precious_devices_are_not_touched", &TOOLS) {
        return;
    }
    let _alone = alone();
    let room = Room::new();
    let magic = |name: &str, at: u64, magic: &[u8]| {
        let image = room.image(name, 96);
        std::fs::File::options()
            .write(true)
            .open(&image)
            .expect("it")
            .write_all_at(magic, at)
            .expect("written");
        image
    };
    let made = |name: &str, tool: &str, options: &[&str]| {
        let image = room.image(name, 320);
        let done = Command::new(tool).args(options).arg(&image).output();
        done.is_ok_and(|o| o.status.success()).then_some(image)
    };
    let mut precious: Vec<(&str, PathBuf, &str)> = vec![
        ("LVM", magic("lvm", 512, b"LABELONE"), "LVM2"),
        ("btrfs", magic("btrfs", 0x1_0040, b"_BHRfS_M"), "btrfs"),
        ("LUKS", magic("luks", 0, b"LUKS\xba\xbe"), "LUKS"),
        ("partitions", magic("mbr", 510, b"\x55\xaa"), "partition table"),
        ("noise", magic("noise", 70_000, b"a letter to my grandchildren"), "no known format"),
    ];
    let tools: [(&str, &str, &[&str], &str); 4] = [
        ("swap", "mkswap", &["-q"], "swap"),
        ("ext4", "mkfs.ext4", &["-q", "-F"], "ext4"),
        ("labelled", "mkfs.ext4", &["-q", "-F", "-L", "plumb-plans"], "ext4"),
        ("xfs", "mkfs.xfs", &["-q", "-f"], "XFS"),
    ];
    for (name, tool, options, word) in tools {
        match made(name, tool, options) {
            Some(image) => precious.push((name, image, word)),
            None => println!("SKIP precious_devices_are_not_touched ({name}): no {tool} here"),
        }
    }
    let sum = |image: &Path| must(Command::new("sha256sum").arg(image));
    let cell = |fs: &str| format!("[cell]\ndevice = \"d\"\n{fs}\nload = {{ size = \"1M\" }}\n");
    let kinds = [cell("file-system = { kind = \"ext4\" }"), cell("")];
    let refused = |rest: &str, words: &[&str]| {
        let plan = plan(&room, "precious", rest).display().to_string();
        refuses(&run(&room, &["run", &plan, "-o", "out"]), words);
        assert!(!room.path().join("out").exists(), "nothing was made");
    };
    for (name, image, word) in &precious {
        let before = sum(image);
        let device = room.attach(image, &[]);
        for kind in &kinds {
            refused(&format!("[device.d]\npath = \"{device}\"\n{kind}"), &[&device, word, "--destroy"]);
        }
        must(Command::new("losetup").args(["-d", &device]));
        until("it is detached", || !read("/proc/self/mountinfo").contains(&device));
        assert_eq!(sum(image), before, "{name}");
    }
    // Mounted, held open for writing, used twice: neither --destroy nor a plan's label helps.
    let image = made("ours", "mkfs.ext4", &["-q", "-F", "-L", "plumb-plan"]).expect("mkfs.ext4");
    let device = room.attach(&image, &[]);
    let rest = format!("[device.d]\npath = \"{device}\"\n{}", kinds[0]);
    let point = room.mount(&device, "mounted", &["-o", "ro,noload"]);
    let before = sum(&image);
    let plan_file = plan(&room, "precious", &rest).display().to_string();
    refused(&rest, &["is mounted at"]);
    refuses(&run(&room, &["run", &plan_file, "-o", "out", "--destroy", &device]), &["is mounted at"]);
    must(Command::new("umount").arg(&point));
    let held = std::fs::File::options().write(true).open(&device).expect("open");
    refused(&rest, &["open for writing"]);
    drop(held);
    std::os::unix::fs::symlink(&device, room.path().join("link")).expect("a link");
    let twice = format!(
        "[device.d]\npath = \"{device}\"\n[device.e]\npath = \"{}\"\n{}",
        room.path().join("link").display(),
        kinds[0].replace("\"d\"", "[\"d\", \"e\"]")
    );
    refused(&twice, &["devices d and e are one device"]);
    assert_eq!(sum(&image), before);
    // What carries a plan's label alone is a plan's own.
    let plan_file = plan(&room, "precious", &rest).display().to_string();
    let out = run(&room, &["run", &plan_file, "-o", "out"]);
    assert!([0, 3].contains(&code(&out)), "{}", text(&out.stderr));
    nothing_left(&room, &room.path().join("out"));
}
