// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load` as its users call it. A directory on a disk is enough; only the
//! block device needs root.

mod common;

use common::{can, Loop};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes on a machine that others use too.
const LIMIT: Duration = Duration::from_secs(120);

/// One loop device at a time: losetup opens the one that it would like to have, and
/// a device that anybody has open for writing is refused.
static LOOPS: Mutex<()> = Mutex::new(());

/// A directory on a disk: that of the build, since /tmp may lie in memory.
fn dir() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn start(args: &[&str], dir: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("load").args(args).current_dir(dir).env_remove("PLUMB_TRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Waits for the end; what does not end is killed, and fails the test.
fn end(child: Child) -> Output {
    let pid = child.id() as i32;
    let (done, over) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = done.send(());
        output
    });
    if over.recv_timeout(LIMIT).is_err() {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("process {pid} did not end in {LIMIT:?}");
    }
    reader.join().expect("the reader").expect("output")
}

fn load(args: &[&str], dir: &Path) -> Output {
    end(start(args, dir))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap_or_else(|| panic!("{}: {}", out.status, text(&out.stderr)))
}

/// The result; 3 says that a short run on a busy machine is no measurement, which is so.
fn json(args: &[&str], dir: &Path) -> Value {
    let out = load(&[args, &["--json", "--quiet"]].concat(), dir);
    assert!([0, 3].contains(&code(&out)), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", text(&out.stdout)))
}

/// What is refused, with its words; nothing may have been made.
fn refused(args: &[&str], dir: &Path, words: &[&str]) {
    let before = names(dir);
    let out = load(args, dir);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 2, "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: lacks {word}: {said}");
    }
    assert_eq!(names(dir), before, "{args:?}");
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).expect("directory").map(|e| e.expect("entry").path()).collect();
    names.sort();
    names
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: our own child, not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Waits until the load's files are there and have been written.
fn until_it_writes(dir: &Path) {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        let claim = names(dir).into_iter().find(|p| p.to_string_lossy().contains("plumb-load."));
        let file = claim.map(|c| c.join("1/data.0.0"));
        if file.is_some_and(|f| f.metadata().is_ok_and(|m| m.len() >= 1 << 20)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{}: no file in {LIMIT:?}", dir.display());
}

#[test]
fn the_result_has_exactly_what_was_done() {
    let dir = dir();
    let all = json(&["--size", "256K", "--threads", "2", "--sync", "fdatasync", "--every", "8"], dir.path());
    let step = &all["cells"][0]["rounds"][0][0];
    let kinds = step["jobs"][0]["operations"].as_array().expect("kinds");
    let of =
        |kind: &str| kinds.iter().find(|k| k["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"));
    assert_eq!((of("write")["count"].as_u64(), of("sync")["count"].as_u64()), (Some(128), Some(16)));
    assert_eq!(of("write")["bytes"].as_u64(), Some(512 << 10));
    assert_eq!(all["interrupted"], false);
    let series: u64 = step["jobs"][0]["series"]
        .as_array()
        .expect("seconds")
        .iter()
        .map(|s| s["operations"].as_u64().expect("a count"))
        .sum();
    assert_eq!(series, 128, "the seconds add up to the writes");
    assert!(["valid", "suspect", "invalid"].contains(&step["verdict"]["word"].as_str().expect("a word")));
    assert!(all["environment"]["kernel"].is_object() && all["clock"]["resolution_ns"].as_u64().is_some());
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new(), "all is removed");
}

#[test]
fn people_are_told_the_same() {
    let dir = dir();
    let out = load(&["--size", "256K"], dir.path());
    let shown = text(&out.stdout);
    for word in ["write", "64", "closed loop", "Verdict:", "CPU: user", "Clock:", "kernel"] {
        assert!(shown.contains(word), "lacks {word}: {shown}");
    }
    let open = text(&load(&["--size", "256K", "--rate", "1000", "--time", "300ms"], dir.path()).stdout);
    for word in ["response", "service", "300 due", "due"] {
        assert!(open.contains(word), "lacks {word}: {open}");
    }
    assert!(!open.contains("closed loop"), "{open}");
}

#[test]
fn csv_has_a_line_a_kind_and_as_many_fields_as_its_head() {
    let dir = dir();
    let args = ["--size", "64K", "--sync", "fsync", "--repeat", "2", "--csv", "--quiet"];
    let out = text(&load(&args, dir.path()).stdout);
    let lines: Vec<Vec<&str>> = out.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 2 * 2, "{out}");
    assert!(lines.iter().all(|l| l.len() == lines[0].len()), "{out}");
    let count = lines[0].iter().position(|h| *h == "count").expect("a count");
    let verdict = lines[0].iter().position(|h| *h == "verdict").expect("a verdict");
    assert!(lines[1..].iter().all(|l| ["valid", "suspect", "invalid"].contains(&l[verdict])), "{out}");
    assert!(lines[1..].iter().all(|l| l[count] == "16"), "{out}");
}

#[test]
fn a_job_that_is_shown_is_read_back() {
    let dir = dir();
    let words =
        ["--what", "mix", "--block", "8K", "--order", "zipf", "--rate", "2.5k", "--time", "90s", "--stamp"];
    let shown = load(&[&words[..], &["--show-job"]].concat(), dir.path());
    assert_eq!(code(&shown), 0, "{}", text(&shown.stderr));
    std::fs::write(dir.path().join("job.toml"), &shown.stdout).expect("a file");
    let again = load(&["--job", "job.toml", "--show-job"], dir.path());
    assert_eq!(text(&again.stdout), text(&shown.stdout));
    let over = text(&load(&["--job", "job.toml", "--block", "16K", "--show-job"], dir.path()).stdout);
    assert_eq!(
        over,
        text(&shown.stdout).replace("block = \"8K\"", "block = \"16K\""),
        "only the block differs"
    );
}

#[test]
fn a_job_file_runs_its_steps_and_options_go_over_it() {
    let dir = dir();
    let file = "name = \"two\"\nsize = \"64K\"\n[[step]]\nname = \"fill\"\nstamp = true\n\
                [[step]]\nname = \"check\"\nwhat = \"read\"\nstamp = true\n";
    std::fs::write(dir.path().join("job.toml"), file).expect("a file");
    let all = json(&["--job", "job.toml", "--block", "8K"], dir.path());
    let steps = all["cells"][0]["rounds"][0].as_array().expect("steps");
    let told: Vec<_> = steps
        .iter()
        .map(|s| {
            (
                s["label"].as_str(),
                s["jobs"][0]["operations"][0]["count"].as_u64(),
                s["jobs"][0]["damaged"].as_u64(),
            )
        })
        .collect();
    assert_eq!(told, [(Some("fill"), Some(8), Some(0)), (Some("check"), Some(8), Some(0))]);
    std::fs::write(dir.path().join("job.toml"), "blokc = \"8K\"\n").expect("a file");
    refused(&["--job", "job.toml"], dir.path(), &["job.toml", "blokc"]);
}

#[test]
fn a_job_file_of_fio_is_run_and_what_it_lacks_is_named() {
    let dir = dir();
    let file = "[global]\nbs=8k\nsize=64k\nioengine=psync\nno_such_option=7\n[seq]\nrw=write\n";
    std::fs::write(dir.path().join("job.fio"), file).expect("a file");
    let out = load(&["--fio", "job.fio", "--json", "--quiet"], dir.path());
    let said = text(&out.stderr);
    assert!(said.contains("line 5") && said.contains("no_such_option"), "{said}");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(all["cells"][0]["rounds"][0][0]["jobs"][0]["operations"][0]["count"].as_u64(), Some(8));
    assert_eq!(all["warnings"].as_array().map(Vec::len), Some(1));
    refused(&["--fio", "job.fio", "--job", "job.fio"], dir.path(), &["--job"]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let dir = dir();
    refused(&["--depth", "4"], dir.path(), &["--depth 4", "io-uring"]);
    refused(&["--direct", "--block", "100"], dir.path(), &["--block", "512"]);
    refused(&["--what", "wirte"], dir.path(), &["wirte", "rewrite"]);
    refused(&["--until", "p98:5%"], dir.path(), &["p98:5%", "p99.9"]);
    refused(&["--until", "p99:5%", "--repeat", "2"], dir.path(), &["--until p99:5%", "at least 3"]);
    refused(&["--block", "8K", "verify"], dir.path(), &["verify", "./verify"]);
    refused(&["syncwrit"], dir.path(), &["did you mean 'plumb load syncwrite'", "./syncwrit"]);
    refused(&["log", "no-log", "--from", "0"], dir.path(), &["--from 0: rows are counted from 1\n"]);
    refused(&["log", "no-log", "--from", "10", "--to", "5"], dir.path(), &["--from 10 is behind --to 5"]);
    refused(&["syncwrite", "--sync", "fsync"], dir.path(), &["--sync", "--methods"]);
    refused(&["--what", "read", "nowhere"], dir.path(), &["nowhere"]);
    refused(&["--what", "create", "new-file"], dir.path(), &["new-file", "directory"]);
    refused(&["--size", "1M", "no/such/file"], dir.path(), &["no/such"]);
    refused(&["clean", "nowhere"], dir.path(), &["nowhere", "directory"]);
}

#[test]
fn too_much_for_the_disk_is_known_before() {
    let dir = dir();
    refused(&["--size", "900000G"], dir.path(), &["needed", "free"]);
    refused(&["--size", "9000G", "--threads", "100"], dir.path(), &["900000.00 GiB", "free"]);
}

#[test]
fn a_users_file_is_read_and_never_changed() {
    let dir = dir();
    let file = dir.path().join("precious");
    let bytes: Vec<u8> = (0..50_000u32).map(|i| i as u8).collect();
    std::fs::write(&file, &bytes).expect("a file");
    let state = || {
        let meta = std::fs::metadata(&file).expect("the file");
        (std::fs::read(&file).expect("bytes"), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec(), meta.ino())
    };
    let before = state();
    let all = json(&["--what", "read", "precious"], dir.path());
    let read = &all["cells"][0]["rounds"][0][0]["jobs"][0]["operations"][0];
    assert_eq!(read["count"].as_u64(), Some(12), "every whole block of the file");
    json(&["--what", "read", "--order", "random", "--through", "mmap", "precious"], dir.path());
    json(&["--what", "backwards-read", "--cache", "fadvise", "precious"], dir.path());
    for job in [&["--what", "write"][..], &["--what", "mix"], &["--what", "fsync-only", "--sync", "fsync"]] {
        refused(&[job, &["precious"]].concat(), dir.path(), &["precious", "--destroy"]);
    }
    refused(&["--what", "unlink", "precious"], dir.path(), &["precious", "directory"]);
    assert!(state() == before, "the file was touched");
    json(&["--what", "write", "--size", "64K", "--destroy", "precious", "precious"], dir.path());
    assert!(state().0 != before.0 && file.exists(), "it was named, so it is written, and not removed");
}

#[test]
fn workers_lie_in_several_directories_in_turn() {
    let (one, two) = (dir(), dir());
    let also = two.path().to_str().expect("UTF-8");
    let args = ["--processes", "3", "--size", "64K", "--block", "4K", "--also", also];
    let result = json(&[&args[..], &["--keep"]].concat(), one.path());
    assert_eq!(result["cells"][0]["rounds"][0][0]["jobs"][0]["operations"][0]["count"], 48);
    let files = |dir: &Path| names(&names(dir).remove(0).join("1")).len();
    assert_eq!((files(one.path()), files(two.path())), (2, 1), "workers 0 and 2, and 1");
    let (one, two) = (dir(), dir());
    json(&[&args[..7], &[two.path().to_str().expect("UTF-8")]].concat(), one.path());
    assert!(names(one.path()).is_empty() && names(two.path()).is_empty(), "all is removed");
    refused(&["--also", "/dev/null"], one.path(), &["/dev/null", "is no directory"]);
}

#[test]
fn a_file_that_was_not_there_is_gone_again_unless_kept() {
    let dir = dir();
    json(&["--size", "64K", "new"], dir.path());
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
    json(&["--size", "64K", "--keep", "new"], dir.path());
    assert_eq!(std::fs::metadata(dir.path().join("new")).expect("kept").len(), 64 << 10);
}

#[test]
fn ctrl_c_leaves_a_result_that_says_so_and_no_files() {
    let dir = dir();
    let child = start(&["--size", "1M", "--time", "60s", "--repeat", "3", "--json", "--quiet"], dir.path());
    until_it_writes(dir.path());
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    signal(&child, libc::SIGINT);
    let out = end(child);
    assert!(asked.elapsed() < Duration::from_secs(30), "it went on");
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(all["interrupted"], true);
    let rounds = all["cells"][0]["rounds"].as_array().expect("rounds");
    assert_eq!(rounds.len(), 1);
    assert_eq!(rounds[0][0]["interrupted"], true);
    assert!(rounds[0][0]["jobs"][0]["operations"][0]["count"].as_u64() > Some(0));
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_a_killed_run_left_is_named_and_cleaned() {
    let dir = dir();
    let mut child = start(&["--size", "1M", "--time", "60s", "--quiet"], dir.path());
    until_it_writes(dir.path());
    // A run that lives is not cleaned away.
    let live = text(&load(&["clean", ".", "--yes"], dir.path()).stdout);
    assert!(live.contains("nothing was left"), "{live}");
    signal(&child, libc::SIGKILL);
    child.wait().expect("killed");
    let [left] = names(dir.path()).try_into().expect("one claim");
    let name = left.file_name().expect("a name").to_string_lossy().into_owned();
    // Its workers die with it, and hold the sign until then.
    let begun = Instant::now();
    let named = loop {
        let named = text(&load(&["clean", "."], dir.path()).stdout);
        if named.contains(&name) || begun.elapsed() > LIMIT {
            break named;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(named.contains(&name) && named.contains("--yes"), "{named}");
    let next = text(&load(&["--size", "64K"], dir.path()).stderr);
    assert!(next.contains(&name) && next.contains("plumb load clean") && next.contains("--yes"), "{next}");
    let removed = load(&["clean", "--yes", "."], dir.path());
    assert_eq!(code(&removed), 0, "{}", text(&removed.stderr));
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_log_tells_what_must_be_there() {
    let dir = dir();
    let run = ["--size", "64K", "--stamp", "--sync", "fsync", "--every", "4", "--log", "run.log", "--keep"];
    let all = json(&run, dir.path());
    assert_eq!(all["logs"][0]["path"], "run.log");
    let whole = load(&["verify", "run.log", "--json"], dir.path());
    assert_eq!(code(&whole), 0, "{}", text(&whole.stdout));
    let seen: Value = serde_json::from_slice(&whole.stdout).expect("JSON");
    assert_eq!((seen["blocks"].as_u64(), seen["promised"].as_u64()), (Some(16), Some(16)));
    let file = PathBuf::from(all["kept"].as_str().expect("a path")).join("1/data.0.0");
    let mut bytes = std::fs::read(&file).expect("the file");
    bytes[8192..12288].fill(0);
    std::fs::write(&file, bytes).expect("damage");
    let damaged = load(&["verify", "run.log"], dir.path());
    assert_eq!(code(&damaged), 1);
    let said = text(&damaged.stdout);
    assert!(said.contains("1 missing") && said.contains("at 8192"), "{said}");

    let rows = text(&load(&["log", "run.log", "--csv"], dir.path()).stdout);
    assert_eq!(rows.lines().count(), 1 + 16 + 4, "{rows}");
    let some = text(&load(&["log", "run.log", "--json", "--from", "5", "--to", "6"], dir.path()).stdout);
    let some = common::items(&some, "plumb.load-log");
    let told: Vec<_> = some.iter().map(|r| (r["row"].as_u64(), r["kind"].as_str())).collect();
    assert_eq!(told, [(Some(5), Some("sync")), (Some(6), Some("write"))]);
    refused(&["log", "run.log", "--from", "99"], dir.path(), &["20 rows"]);
    refused(&run, dir.path(), &["run.log", "already"]);
    std::fs::write(dir.path().join("no-log"), "some other file").expect("a file");
    refused(&["verify", "no-log"], dir.path(), &["no-log", "not a log"]);
}

#[test]
fn stamps_that_go_with_their_files_are_announced() {
    let dir = dir();
    let run = ["--size", "64K", "--stamp", "--csv"];
    let said = |more: &[&str]| text(&load(&[&run[..], more].concat(), dir.path()).stderr);
    let gone = said(&["--log", "1.log"]);
    assert!(gone.contains("--keep") && gone.contains("verify"), "{gone}");
    for quiet in [&["--log", "2.log", "--quiet"][..], &["--log", "3.log", "--keep"], &[]] {
        let said = said(quiet);
        assert!(!said.contains("verify"), "{quiet:?}: {said}");
    }
}

#[test]
fn much_that_will_be_written_is_announced() {
    let dir = dir();
    let little = text(&load(&["--size", "64K", "--csv"], dir.path()).stderr);
    assert!(!little.contains("each round writes"), "{little}");
    let much = ["--layout", "sparse", "--size", "5G", "--rate", "100", "--csv"];
    let free = Command::new("df").args(["--output=avail", "-k", "."]).current_dir(dir.path()).output();
    let free = text(&free.expect("df").stdout).lines().nth(1).and_then(|l| l.trim().parse::<u64>().ok());
    if free.expect("free KiB") < 8 << 20 {
        println!("SKIP much_that_will_be_written_is_announced: less than 8 GiB free");
        return;
    }
    let child = start(&much, dir.path());
    until_it_writes(dir.path());
    signal(&child, libc::SIGINT);
    let said = text(&end(child).stderr);
    assert!(said.contains("each round writes at least 5.00 GiB"), "{said}");
}

#[test]
fn rounds_go_on_until_they_agree_or_the_budget_is_used() {
    let dir = dir();
    let job = ["--size", "64K", "--through", "null", "--what", "read"];
    // An interval of nearly 100 % is reached as soon as there is one.
    let all = json(&[&job[..], &["--until", "rate:99%", "--repeat", "20"]].concat(), dir.path());
    let rounds = all["cells"][0]["rounds"].as_array().expect("rounds").len();
    assert!((3..=20).contains(&rounds), "{rounds}");
    let all = json(&[&job[..], &["--repeat", "50", "--budget", "1ns"]].concat(), dir.path());
    assert_eq!(all["cells"][0]["rounds"].as_array().expect("rounds").len(), 1);
    assert!(all["ended"].as_str().is_some_and(|e| e.contains("budget")), "{}", all["ended"]);
}

#[test]
fn a_preset_has_its_tables_and_its_cells_interleave() {
    let dir = dir();
    let args = [
        "syncwrite",
        "--methods",
        "fsync,o-dsync",
        "--orders",
        "sequential",
        "--operations",
        "8",
        "--repeat",
        "4",
    ];
    let all = json(&args, dir.path());
    assert_eq!(all["preset"]["name"], "syncwrite");
    assert!(all["preset"]["parameters_after"].is_null(), "{}", all["preset"]);
    assert!(!all["preset"]["tables"][0]["rows"].as_array().expect("rows").is_empty());
    let cells = all["cells"].as_array().expect("cells");
    assert!(cells.len() >= 2 && cells.iter().all(|c| c["rounds"].as_array().map(Vec::len) == Some(4)));
    let orders = all["orders"].as_array().expect("orders");
    assert!(orders.iter().any(|o| *o != orders[0]), "{orders:?}");
    let shown = text(&load(&args, dir.path()).stdout);
    assert!(shown.contains("Parameters:") && shown.contains("Parameters afterwards: the same."), "{shown}");
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn engines_are_listed_with_whether_they_are_here() {
    let dir = dir();
    let out = load(&["engines", "--json"], dir.path());
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let pwrite =
        all["engines"].as_array().expect("rows").iter().find(|e| e["engine"] == "pwrite").expect("pwrite");
    assert_eq!((&pwrite["available"], &pwrite["queues"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(text(&load(&["engines"], dir.path()).stdout).contains("io-uring"));
}

#[test]
fn a_device_is_written_only_when_it_is_empty_or_named() {
    if !can("a_device_is_written_only_when_it_is_empty_or_named", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let _alone = LOOPS.lock().unwrap_or_else(|failed| failed.into_inner());
    let dir = dir();
    let mut disk = Loop::new(16);
    let device = disk.device.clone();
    let count = |all: &Value| all["cells"][0]["rounds"][0][0]["jobs"][0]["operations"][0]["count"].as_u64();
    let written = json(&["--block", "64K", &device], dir.path());
    assert_eq!(count(&written), Some(256), "the whole of an empty device");
    refused(&["--size", "1M", &device], dir.path(), &["data of no known format", "--destroy"]);
    let mounted = disk.ext4();
    std::fs::write(mounted.join("precious"), "x").expect("a file");
    refused(
        &["--destroy", &device, "--size", "1M", &device],
        dir.path(),
        &["is mounted", "does not overrule"],
    );
    let read = json(&["--what", "read", "--size", "1M", &device], dir.path());
    assert_eq!(count(&read), Some(256), "reading needs no leave");
    assert_eq!(std::fs::read(mounted.join("precious")).expect("the file"), b"x");
}

#[test]
fn a_file_system_is_mounted_again_under_the_load() {
    if !can("a_file_system_is_mounted_again_under_the_load", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let _alone = LOOPS.lock().unwrap_or_else(|failed| failed.into_inner());
    let dir = dir();
    let mut disk = Loop::new(32);
    let mounted = disk.ext4();
    let reads = || disk.stat()[1];
    let target = mounted.to_str().expect("a path");
    let before = reads();
    let all = json(&["--what", "read", "--cache", "remount", "--size", "4M", target], dir.path());
    assert_eq!(all["cells"][0]["rounds"][0][0]["jobs"][0]["operations"][0]["count"].as_u64(), Some(1024));
    assert!(reads() - before >= (4 << 20) / 512, "the device was read: nothing was cached");
    assert_eq!(names(&mounted), [mounted.join("lost+found")]);
}

#[test]
fn a_stop_before_anything_was_measured_leaves_nothing() {
    let dir = dir();
    // Written in full before the clock starts, which takes longer than this test waits.
    let child = start(&["--what", "read", "--size", "2G", "--quiet"], dir.path());
    until_it_writes(dir.path());
    signal(&child, libc::SIGTERM);
    let out = end(child);
    assert_eq!((code(&out), out.stdout.len()), (3, 0), "{}", text(&out.stderr));
    assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
}
