// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb load` shows is so: its operations are in the recording's account
//! one for one; an open loop tells of a standstill what its users felt; what is
//! not there is found; what is no measurement is called so; a rate is that of
//! the device.

mod common;

use common::scratch::{job, kind, number, reason, rows, text, until, Scratch};
use common::{can, explain, must, plumb, sum};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of each kind of operation: count, errors, bytes.
type Sums = BTreeMap<String, [u64; 3]>;

fn add(sums: &mut Sums, row: &Value, word: &str) {
    let sum = sums.entry(word.to_string()).or_default();
    for (sum, field) in sum.iter_mut().zip(["count", "errors", "bytes"]) {
        *sum += number(row, field);
    }
}

#[test]
fn every_operation_of_a_load_is_in_the_account() {
    if !can("every_operation_of_a_load_is_in_the_account", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4(&scratch.disk("image", 64), "mount", &[]);
    let steps = [
        "what = \"write\"\nsync = \"fdatasync\"\nevery = 4\nthreads = 2",
        "what = \"read\"\nprocesses = 2",
        "what = \"mix\"\norder = \"random\"\ntime-close = \"in\"",
        "what = \"rewrite\"\nthrough = \"io-uring\"\ndepth = 8",
        "what = \"copy\"\nthrough = \"copy-file-range\"",
        "what = \"create\"\nfiles = 50\nblock = \"1K\"",
        "what = \"open\"\nfiles = 50",
        "what = \"stat\"\nfiles = 50",
        "what = \"rename\"\nfiles = 50",
        "what = \"unlink\"\nfiles = 50",
        "what = \"fsync-only\"\nsync = \"fsync\"\noperations = 10",
        "what = \"write\"\nrate = 200\noperations = 50",
    ];
    let file: String = steps.iter().map(|s| format!("[[step]]\n{s}\n")).collect();
    std::fs::write(scratch.path().join("job.toml"), format!("size = \"256K\"\n{file}")).expect("a job");
    let run = scratch.path().join("run");
    let script = "exec \"$0\" load --job job.toml --json --quiet mount > load.json";
    let mut command = plumb();
    command.args(["run", "--quiet", "--json", "--output"]).arg(&run);
    command.args(["--", "sh", "-c", script, env!("CARGO_BIN_EXE_plumb")]).current_dir(scratch.path());
    let out = common::scratch::Running::of(command).end();
    let told = std::fs::read(scratch.path().join("load.json")).expect("the load's result");
    let told: Value = serde_json::from_slice(&told).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));

    let mut expected = Sums::new();
    for job in told["cells"][0]["rounds"][0].as_array().expect("steps").iter().map(|s| &s["jobs"][0]) {
        assert_eq!(number(job, "events_lost"), 0);
        job["operations"]
            .as_array()
            .expect("kinds")
            .iter()
            .for_each(|k| add(&mut expected, k, k["kind"].as_str().expect("a kind")));
    }
    for word in
        ["write", "read", "rewrite", "copy", "create", "open", "stat", "rename", "unlink", "sync", "close"]
    {
        assert!(expected.contains_key(word), "the load did no {word}: {expected:?}");
    }
    let result: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));
    assert_eq!(result["quality"]["operation_events"], 2 * expected.values().map(|s| s[0]).sum::<u64>());
    let mut found = Sums::new();
    for row in result["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .filter_map(|p| p["operations"].as_array())
        .flatten()
    {
        add(&mut found, row, row["kind"].as_str().expect("a kind"));
        assert_eq!(sum(&row["account"]), number(row, "accounted"), "{row:#}");
        assert_eq!(number(row, "unfinished"), 0, "{row:#}");
        if row["overlapping"] == false {
            assert_eq!(number(row, "accounted"), number(row, "total"), "{row:#}");
        }
    }
    assert_eq!(found, expected);
    assert_eq!(explain(&run)["processes"], result["processes"], "and so it is when it is asked again");
    // The calls of the operations that are one call each are as many.
    let calls = |name: &str| -> u64 {
        let all = result["processes"].as_array().expect("processes").iter();
        let of = all.filter_map(|p| p["syscalls"].as_array()).flatten().filter(|c| c["name"] == name);
        of.map(|c| number(c, "calls")).sum()
    };
    assert_eq!(calls("fdatasync"), 2 * 16);
}

#[test]
fn an_open_loop_tells_of_a_standstill_what_its_users_felt() {
    if !can("an_open_loop_tells_of_a_standstill_what_its_users_felt", &["losetup", "mkfs.ext4", "fsfreeze"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 64), "mount", &[]);
    let running = scratch.start(&[
        "--size", "4M", "--order", "random", "--rate", "100", "--time", "6s", "--log", "log", "--json",
        "--quiet", "mount",
    ]);
    let log = scratch.path().join("log");
    until("the log is there", || log.exists());
    std::thread::sleep(Duration::from_secs(2));
    must(Command::new("fsfreeze").arg("-f").arg(&point));
    let frozen = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let at_least = frozen.elapsed().as_secs_f64();
    must(Command::new("fsfreeze").arg("-u").arg(&point));
    let out = running.end();
    let (_, all) = common::scratch::result(&out);
    let write = kind(job(&all), "write");
    let seconds = |of: &str, figure: &str| {
        write[of][figure].as_f64().unwrap_or_else(|| panic!("{of} {figure}: {write:#}")) / 1e9
    };
    assert_eq!((number(write, "count"), number(write, "errors")), (600, 0), "all that were due were done");
    // A hundred were due while it stood still; one of them was under way.
    assert!(seconds("response", "max") >= 0.9 * at_least, "{write:#}");
    assert!(seconds("response", "p99") >= 0.8 * at_least, "{write:#}");
    assert!(seconds("service", "max") >= 0.9 * at_least, "{write:#}");
    assert!(seconds("service", "p99") < 0.5 * seconds("response", "p99"), "{write:#}");
    // Of a standstill of T the responses fall from T to nothing: T/2 each on the mean, of rate * T operations.
    let stood = seconds("service", "max");
    let computed = 100.0 * stood * stood / 2.0 / 600.0;
    let mean = seconds("response", "mean_ns");
    assert!(mean >= 0.9 * computed, "mean {mean} s, computed {computed} s");
    // Above it lies the machine's own slowness alone, which the log has of every operation.
    let rows = rows(&scratch, "log");
    let ns = |row: &Value, from: &str| number(row, "end_ns") - number(row, from);
    let of_log = rows.iter().map(|r| ns(r, "intended_ns")).sum::<u64>() as f64 / 600.0 / 1e9;
    assert_eq!(rows.len(), 600);
    assert!((mean - of_log).abs() < 1e-6, "mean {mean} s, of the log's rows {of_log} s");
    let others: f64 = rows.iter().map(|r| ns(r, "begin_ns") as f64 / 1e9).sum::<f64>() - stood;
    if others < 0.1 * stood {
        assert!(mean < 1.25 * computed, "mean {mean} s, computed {computed} s, of others {others} s");
    }
}

fn verified(scratch: &Scratch, args: &[&str]) -> (Option<i32>, Value) {
    let out = scratch.load(&[&["verify"], args, &["--json"]].concat());
    let said = || panic!("{}", text(&out.stderr));
    (out.status.code(), serde_json::from_slice(&out.stdout).unwrap_or_else(|_| said()))
}

#[test]
fn a_lost_write_is_found_and_named() {
    if !can("a_lost_write_is_found_and_named", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 4);
    let base =
        ["--stamp", "--sync", "fsync", "--every", "16", "--order", "random", "--operations", "512", "--log"];
    let lose = |path: &Path, offset: u64, bytes: &[u8]| {
        let file = std::fs::File::options().write(true).open(path).expect("the data");
        file.write_all_at(bytes, offset).expect("damage");
        file.sync_all().expect("it stays");
    };
    // On a device, then in the files of two workers; the same promises of both.
    scratch.json(&[&base[..], &["device.log", &device]].concat());
    let all = scratch.json(&[&base[..], &["files.log", "--threads", "2", "--size", "1M", "--keep"]].concat());
    let kept = PathBuf::from(all["kept"].as_str().expect("files are kept"));
    for (log, path) in [("device.log", PathBuf::from(&device)), ("files.log", kept.join("1/data.1.0"))] {
        for acknowledged in [&[][..], &["--acknowledged"]] {
            let (code, seen) = verified(&scratch, &[&[log], acknowledged].concat());
            assert_eq!((code, number(&seen, "missing")), (Some(0), 0), "{log}: {seen:#}");
            assert!(
                number(&seen, "promised") > 0 && number(&seen, "ok") == number(&seen, "blocks"),
                "{log}: {seen:#}"
            );
        }
        let of_path = |row: &Value| log != "files.log" || row["worker"] == 1;
        let written = rows(&scratch, log);
        let offset = written
            .iter()
            .find(|r| r["kind"] == "write" && of_path(r))
            .map(|r| number(r, "offset"))
            .expect("a write");
        let whole = std::fs::read(&path).expect("the data");
        let block = &whole[offset as usize..][..4096];
        lose(&path, offset, &[0; 4096]);
        let (code, seen) = verified(&scratch, &[log]);
        let counts = ["missing", "torn", "corrupt", "misplaced"].map(|f| number(&seen, f));
        assert_eq!((code, counts), (Some(1), [1, 0, 0, 0]), "{log}: {seen:#}");
        let fault = &seen["faults"][0];
        assert_eq!(
            (fault["path"].as_str(), number(fault, "offset")),
            (path.to_str(), offset),
            "{log}: {seen:#}"
        );
        // One flipped bit is no missing write, and half a block is a torn one.
        let mut flipped = block.to_vec();
        flipped[700] ^= 1;
        lose(&path, offset, &flipped);
        let (code, seen) = verified(&scratch, &[log]);
        assert_eq!((code, number(&seen, "corrupt")), (Some(1), 1), "{log}: {seen:#}");
        lose(&path, offset, block);
        assert_eq!(verified(&scratch, &[log]).0, Some(0), "{log}: it is as it was");
    }
    // A load that reads what it wrote finds it while it runs.
    lose(Path::new(&device), 0, &[7; 4096]);
    let args = ["--what", "read", "--stamp", "--json", "--quiet", &device];
    let out = scratch.load(&args);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(number(job(&all), "damaged") >= 1, "{all:#}");
    assert_eq!(reason(&all, "verification"), Some("invalid"));
}

#[test]
fn what_is_no_measurement_is_called_so() {
    if !can("what_is_no_measurement_is_called_so", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let point = scratch.ext4(&device, "mount", &[]);
    // The device is claimed, and all passes but the first come from the page cache.
    let passes = [
        "--what",
        "read",
        "--size",
        "4M",
        "--block",
        "64K",
        "--cache",
        "fadvise",
        "--operations",
        "640",
        "mount",
    ];
    let (code, all) = scratch.coded(&passes);
    assert_eq!((code, reason(&all, "read-from-cache")), (3, Some("invalid")), "{all:#}");
    let (_, all) = scratch.coded(&[&["--direct"][..], &passes].concat());
    assert_eq!(reason(&all, "read-from-cache"), None, "read past the cache");
    let warm = [
        "--what",
        "read",
        "--size",
        "4M",
        "--block",
        "64K",
        "--cache",
        "warm",
        "--operations",
        "640",
        "mount",
    ];
    assert_eq!(
        reason(&scratch.coded(&warm).1, "read-from-cache"),
        Some("note"),
        "the cache is what is measured"
    );
    // Durability is promised, and nothing was synchronised when it ended.
    let (code, all) = scratch.coded(&["--size", "4M", "--sync", "fsync", "--every", "100000", "mount"]);
    assert_eq!((code, reason(&all, "promise-without-sync")), (3, Some("invalid")), "{all:#}");
    // Synchronised, and the file system was told not to flush the device's cache.
    let synced = ["--size", "1M", "--sync", "fsync", "mount"];
    let write_cache =
        std::fs::read_to_string(format!("/sys/block/{}/queue/write_cache", &device["/dev/".len()..]));
    let flushes = |all: &Value| all["cells"][0]["rounds"][0][0]["evidence"].to_string();
    let (_, all) = scratch.coded(&synced);
    assert_eq!(reason(&all, "sync-without-flush"), None, "{}", flushes(&all));
    must(Command::new("mount").args(["-o", "remount,nobarrier"]).arg(&point));
    let (code, all) = scratch.coded(&synced);
    if write_cache.is_ok_and(|w| w.trim() == "write back") {
        assert_eq!((code, reason(&all, "sync-without-flush")), (3, Some("invalid")), "{}", flushes(&all));
    } else {
        println!("SKIP what_is_no_measurement_is_called_so (nobarrier): the loop device has no write cache");
    }
    // Somebody else writes sixteen times as much to the same device.
    let log = scratch.path().join("log");
    let args = ["--size", "1M", "--order", "random", "--direct", "--think", "20ms", "--time", "600s"];
    let running = scratch.start(&[&args[..], &["--log", "log", "--json", "--quiet", "mount"]].concat());
    until("the log is there", || log.exists());
    std::thread::sleep(Duration::from_millis(500));
    let other = std::fs::File::create(point.join("other")).expect("a file");
    other.write_all_at(&vec![7; 40 << 20], 0).and_then(|()| other.sync_all()).expect("written");
    // What of the machine changes meanwhile is told too.
    let setting = format!("/sys/block/{}/queue/read_ahead_kb", &device["/dev/".len()..]);
    std::fs::write(setting, "64").expect("read-ahead");
    running.signal(libc::SIGINT);
    let (_, all) = common::scratch::result(&running.end());
    assert!(["suspect", "invalid"].map(Some).contains(&reason(&all, "other-writers")), "{}", flushes(&all));
    assert_eq!(reason(&all, "environment-changed"), Some("suspect"));
}

/// A control group whose I/O to a device is limited; gone at the end.
struct Throttle(PathBuf);

impl Throttle {
    /// Operations a second, reads and writes each.
    fn new(device: &str, rate: u64) -> Result<Self, String> {
        let number = std::fs::metadata(device).expect("a device").rdev();
        let number = format!("{}:{}", libc::major(number), libc::minor(number));
        let name = format!("plumb-test-{}", std::process::id());
        let why = |e: std::io::Error| format!("no control group limits I/O here ({e})");
        if Path::new("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device").exists() {
            let group = Throttle(Path::new("/sys/fs/cgroup/blkio").join(name));
            std::fs::create_dir(&group.0).map_err(why)?;
            for way in ["read", "write"] {
                let file = group.0.join(format!("blkio.throttle.{way}_iops_device"));
                std::fs::write(file, format!("{number} {rate}")).map_err(why)?;
            }
            return Ok(group);
        }
        let top = Path::new("/sys/fs/cgroup");
        std::fs::write(top.join("cgroup.subtree_control"), "+io").map_err(why)?;
        let group = Throttle(top.join(name));
        std::fs::create_dir(&group.0).map_err(why)?;
        std::fs::write(group.0.join("io.max"), format!("{number} riops={rate} wiops={rate}")).map_err(why)?;
        Ok(group)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Its processes have ended; the kernel may take a moment to see that.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(std::thread::panicking(), "{} is left", self.0.display());
    }
}

#[test]
fn the_rate_is_that_of_the_device() {
    let test = "the_rate_is_that_of_the_device";
    if !can(test, &["losetup"]) {
        return;
    }
    const LIMIT: u64 = 50;
    let scratch = Scratch::new();
    let device = scratch.disk("image", 4);
    let group = match Throttle::new(&device, LIMIT) {
        Ok(group) => group,
        Err(why) => return println!("SKIP {test}: {why}"),
    };
    let within = |args: &[&str]| {
        let mut command = scratch.command(&[args, &["--direct", "--json", "--quiet", &device]].concat());
        let members = group.0.join("cgroup.procs");
        let members = std::ffi::CString::new(members.to_str().expect("a path")).expect("no zero");
        // SAFETY: open, write and close may be called between fork and exec; "0" is the caller itself.
        unsafe {
            command.pre_exec(move || {
                let file = libc::open(members.as_ptr(), libc::O_WRONLY);
                let joined = libc::write(file, c"0".as_ptr().cast(), 1) == 1;
                let error = std::io::Error::last_os_error();
                libc::close(file);
                joined.then_some(()).ok_or(error)
            })
        };
        common::scratch::result(&common::scratch::Running::of(command).end())
    };
    let near = |rate: f64, what: &str| {
        let limit = LIMIT as f64;
        assert!((rate - limit).abs() <= 0.05 * limit, "{what}: {rate} operations/s, the limit is {limit}");
    };
    for what in ["read", "write"] {
        // Long enough that what the kernel lets through at once at the begin is within the 5 %.
        let (_, all) = within(&["--what", what, "--order", "random", "--time", "6s", "--ramp", "1s"]);
        let done = kind(job(&all), what);
        near(done["rate"].as_f64().expect("a rate"), what);
        // One at a time: the mean latency is the distance of two.
        near(1e9 / done["service"]["mean_ns"].as_f64().expect("a mean"), "of the mean latency");
        let seconds = job(&all)["series"].as_array().expect("seconds");
        assert!(seconds.len() >= 6, "{seconds:?}");
        let limits = all["environment"]["cgroup"].to_string();
        assert!(limits.contains(&LIMIT.to_string()), "the limit is in the environment: {limits}");
    }
    // In an open loop that asks for four times as much, what is not served is told.
    let (code, all) = within(&["--what", "read", "--rate", &(4 * LIMIT).to_string(), "--time", "2s"]);
    let (schedule, done) = (&job(&all)["schedule"], kind(job(&all), "read"));
    assert_eq!(number(schedule, "due"), 8 * LIMIT);
    assert!(number(schedule, "never_begun") > 0, "{schedule:#}");
    assert_eq!(number(done, "count") + number(schedule, "never_begun"), 8 * LIMIT);
    assert!(done["response"]["max"].as_u64() > done["service"]["max"].as_u64(), "{done:#}");
    assert_eq!((code, reason(&all, "never-begun")), (3, Some("invalid")));
}
