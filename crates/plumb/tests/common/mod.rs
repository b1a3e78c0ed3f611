// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests share: the program, loads with a known answer, a loop device
//! of their own, and babeltrace2 as the independent reader of every trace.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod schema;
pub mod scratch;
pub mod servers;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

pub fn plumb() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plumb"))
}

/// The known loads (tests/workload), which are built with the whole workspace.
pub fn workload() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_plumb")).with_file_name("plumb-workload");
        assert!(path.exists(), "{}: is missing; 'cargo test --workspace --no-run' builds it", path.display());
        path.display().to_string()
    })
}

/// True as root with the tool there; otherwise says that the test is skipped, and why.
pub fn can(test: &str, tools: &[&str]) -> bool {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP {test}: needs root to record (run make test as root)");
        return false;
    }
    for tool in tools {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|d| d.join(tool).exists())
        {
            println!("SKIP {test}: '{tool}' is not installed (make deps)");
            return false;
        }
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(free_loop_devices_as_made);
    true
}

/// Gives the queues of loop devices that show nothing the values that the kernel makes them with. A test run that was
/// killed with its served disks leaves theirs, and the kernel gives those to whoever gets the number next.
fn free_loop_devices_as_made() {
    for device in std::fs::read_dir("/sys/block").expect("sysfs").flatten() {
        let name = device.file_name();
        if !name.to_string_lossy().starts_with("loop") || device.path().join("loop/backing_file").exists() {
            continue;
        }
        for (file, left, made) in
            [("write_cache", "write through", "write back"), ("max_sectors_kb", "1024", "1280")]
        {
            let path = device.path().join("queue").join(file);
            if std::fs::read_to_string(&path).is_ok_and(|now| now.trim() == left) {
                // One that never showed anything has no cache, and refuses.
                let _ = std::fs::write(path, made);
            }
        }
    }
}

/// Runs and returns everything; the command's own failure is the caller's business.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs what must succeed and returns its standard output.
pub fn must(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

pub fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// `plumb explain --json` of a run or trace.
pub fn explain(dir: &Path) -> Value {
    let out = output(plumb().arg("explain").arg(dir).arg("--json"));
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("explain {}: {e}\n{}", dir.display(), stderr(&out)))
}

/// The items of a stream of this format.
pub fn items(stream: &str, format: &str) -> Vec<Value> {
    let mut lines = stream.lines().map(|l| serde_json::from_str::<Value>(l).expect("a line of JSON"));
    let head = lines.next().expect("format and version");
    assert!(head["format"] == format && head["version"].is_u64(), "{head}");
    lines.collect()
}

/// Sum of an account, ns.
pub fn sum(account: &Value) -> u64 {
    account.as_object().expect("an account").values().map(|v| v.as_u64().expect("ns")).sum()
}

/// The only process with this name.
pub fn process<'a>(result: &'a Value, comm: &str) -> &'a Value {
    let all = result["processes"].as_array().expect("processes");
    let found: Vec<&Value> = all.iter().filter(|p| p["comm"] == comm).collect();
    assert_eq!(found.len(), 1, "processes called {comm}: {all:#?}");
    found[0]
}

/// babeltrace2 must read the trace, say nothing, and see as many events as plumb.
pub fn babeltrace_agrees(dir: &Path) {
    let trace = if dir.join("trace").exists() { dir.join("trace") } else { dir.to_path_buf() };
    let out = output(Command::new("babeltrace2").arg(&trace));
    assert!(out.status.success() && out.stderr.is_empty(), "babeltrace2: {}", stderr(&out));
    let quality = &explain(dir)["quality"];
    let ours = quality["events"].as_u64().expect("events")
        + quality["state_events"].as_u64().expect("events")
        + quality["operation_events"].as_u64().unwrap_or(0);
    let theirs = out.stdout.iter().filter(|b| **b == b'\n').count() as u64;
    assert_eq!(ours, theirs, "events that plumb and babeltrace2 count in {}", trace.display());
    assert!(ours > 0);
}

/// A file behind a loop device, gone at the end.
pub struct Loop {
    /// The device, /dev/loopN.
    pub device: String,
    mounted: Option<PathBuf>,
    dir: tempfile::TempDir,
}

impl Loop {
    /// Attaches a sparse file of so many MiB.
    pub fn new(mib: u64) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let image = dir.path().join("image");
        std::fs::File::create(&image).expect("image").set_len(mib << 20).expect("size");
        let device = must(Command::new("losetup").args(["--find", "--show"]).arg(&image)).trim().to_string();
        Self { device, mounted: None, dir }
    }

    /// Makes an ext4 on it and mounts it; returns where.
    pub fn ext4(&mut self) -> PathBuf {
        self.made("ext4", &["-E", "lazy_itable_init=0,lazy_journal_init=0"], "defaults")
    }

    /// Makes a file system of that kind on it and mounts it with these options; returns where.
    pub fn made(&mut self, kind: &str, mkfs: &[&str], options: &str) -> PathBuf {
        must(Command::new(format!("mkfs.{kind}")).args(["-q", "-F"]).args(mkfs).arg(&self.device));
        let mount = self.dir.path().join("mount");
        std::fs::create_dir(&mount).expect("mount point");
        must(Command::new("mount").args(["-t", kind, "-o", options]).arg(&self.device).arg(&mount));
        self.mounted = Some(mount.clone());
        mount
    }

    /// Kernel name, loopN.
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// /sys/block/loopN/stat: read I/Os, read sectors, write I/Os, write sectors.
    pub fn stat(&self) -> [u64; 4] {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name())).expect("stat");
        stat_of(&text)
    }
}

/// Reads, sectors read, writes, sectors written, from a line of /sys/block/NAME/stat.
pub fn stat_of(line: &str) -> [u64; 4] {
    let n: Vec<u64> = line.split_whitespace().map(|w| w.parse().expect("number")).collect();
    [n[0], n[2], n[4], n[6]]
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(mount) = &self.mounted {
            let _ = Command::new("umount").arg(mount).status();
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// Starts a recording and waits until its trace grows.
#[allow(clippy::zombie_processes, reason = "the caller waits; after the panic the test is over")]
pub fn start(command: &mut Command, trace: &Path) -> Child {
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    for _ in 0..500 {
        if trace.join("cpu_0").exists() || trace.join("cpu_1").exists() {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} did not grow in 10 s", trace.display());
}

pub fn signal(child: &Child, signal: i32) {
    // SAFETY: our own child, not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// No BPF program of a process is left. Shared machines run others' too, so by pid.
pub fn no_program_left(pid: u32) {
    let programs = must(Command::new("bpftool").args(["prog", "show"]));
    assert!(!programs.contains(&format!("plumb({pid})")), "{programs}");
}
