// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stages of the test run: what each needs, when it runs, and what it calls.

use super::job::Job;
use super::retries::Retry;
use super::times::Division;
use super::{minutes, Session, Task};
use crate::counts::{Counts, Failures};
use crate::killpoints::{self, Extent};
use crate::programs::{self, Kind, Program};
use crate::{gen, page};
use anyhow::{bail, Context, Result};
use std::path::Path;
use std::process::Command;

const CLANG_FORMAT: &str = "clang-format-14";
const FORMATTED: [&str; 8] = [
    "bpf",
    "bpf/protocols",
    "iosched",
    "iosched/user",
    "iosched/test",
    "kmod",
    "kmod/test",
    "tests/vm/device",
];
/// Failed root tests up to this many are tried once more.
const FEW: u64 = 5;

/// Kernels that plumb is tried on, and those that the module is built for and tried on.
const KERNELS: &str = "tests/vm/kernels";
const MODULE_KERNELS: &str = "tests/vm/module-kernels";

/// When a stage runs, in this order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// Compilers and downloads, concurrently.
    Build,
    /// It measures this machine in real time: nothing else may run.
    Alone,
    /// It measures nothing, or has a virtual clock.
    Concurrent,
}

pub struct Stage {
    pub name: &'static str,
    /// A line for the list of stages.
    pub about: &'static str,
    pub phase: Phase,
    /// Minutes that it may take. Those of [`Phase::Concurrent`] share the processors.
    minutes: u64,
    /// Stages whose results it uses.
    needs: &'static [&'static str],
    /// A list of kernels: the stage is a task for each of them.
    kernels: Option<&'static str>,
    /// No two stages that hold the same thing run concurrently.
    holds: Option<&'static str>,
    work: fn(&Job, Option<&str>) -> Result<Counts>,
}

/// Cargo locks this directory of target/ while it builds.
const DEBUG: Option<&str> = Some("target/debug");

/// In the order in which they run; within [`Phase::Concurrent`] the longest first.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "gen",
        about: "generated files are what their sources make",
        phase: Phase::Build,
        minutes: 5,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| gen::run(job.root, true).map(|()| Counts::one(true)),
    },
    Stage {
        name: "fmt",
        about: "rustfmt finds nothing to change",
        phase: Phase::Build,
        minutes: 5,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| job.check(job.cargo(["fmt", "--all", "--check"])),
    },
    Stage {
        name: "clang-format",
        about: "clang-format finds nothing to change in the C files",
        phase: Phase::Build,
        minutes: 5,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| clang_format(job),
    },
    Stage {
        name: "guests",
        about: "fetches kernels, compilers and the Debian of the guests; kept in target/vm",
        phase: Phase::Build,
        minutes: 30,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| {
            // The stages that need what cannot be fetched say why and skip.
            job.run(script(job, "tests/vm/fetch.sh"), Division::Whole, "guests", |line| job.say(line))?;
            Ok(Counts::default())
        },
    },
    Stage {
        name: "build",
        about: "builds all programs and their tests",
        phase: Phase::Build,
        minutes: 35,
        needs: &[],
        kernels: None,
        holds: DEBUG,
        work: |job, _| build(job),
    },
    Stage {
        name: "clippy",
        about: "clippy finds nothing in any crate",
        phase: Phase::Build,
        minutes: 25,
        needs: &[],
        kernels: None,
        holds: DEBUG,
        work: |job, _| {
            job.check(job.cargo([
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ]))
        },
    },
    Stage {
        name: "root",
        about: "tests that record this machine (as root)",
        phase: Phase::Alone,
        minutes: 30,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| root_tests(job),
    },
    Stage {
        name: "faults",
        about: "injected faults of known cause, strong doses, and clean runs (as root)",
        phase: Phase::Alone,
        minutes: 15,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| faults(job),
    },
    Stage {
        name: "crash",
        about: "what survives a power cut (as root)",
        phase: Phase::Alone,
        minutes: 10,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| crash(job),
    },
    Stage {
        name: "killpoints",
        about: "plumb killed behind system calls that change the system: what is left (as root)",
        phase: Phase::Alone,
        minutes: 6,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| kill_points(job),
    },
    Stage {
        name: "unit",
        about: "unit tests of all crates",
        phase: Phase::Alone,
        minutes: 15,
        needs: &["build"],
        kernels: None,
        holds: None,
        // They measure nothing, but some have a limit in real time.
        work: |job, _| {
            let plain = job.programs().iter().filter(|p| p.kind() == Kind::Unit);
            job.in_turn(plain, &[], Division::Whole, &mut Failures::default())
        },
    },
    Stage {
        name: "package",
        about: "the packages of the program and the module, in Debians of their own (as root)",
        phase: Phase::Concurrent,
        minutes: 45,
        needs: &["build", "guests"],
        kernels: None,
        holds: None,
        work: |job, _| packages(job),
    },
    Stage {
        name: "module",
        about: "the I/O scheduler's module, in guests of each of its kernels",
        phase: Phase::Concurrent,
        minutes: 30,
        needs: &["guests"],
        kernels: Some(MODULE_KERNELS),
        holds: None,
        work: |job, kernel| {
            let mut command = script(job, "tests/vm/iosched.sh");
            command.args(kernel);
            job.tests(command, Division::Answers)
        },
    },
    Stage {
        name: "vm",
        about: "plumb on other kernels, in guests",
        phase: Phase::Concurrent,
        minutes: 15,
        needs: &["build", "guests"],
        kernels: Some(KERNELS),
        holds: None,
        work: |job, kernel| {
            let mut command = script(job, "tests/vm/run.sh");
            command.arg(job.built("plumb")?).args(kernel);
            job.tests(command, Division::Answers)
        },
    },
    Stage {
        name: "arm64",
        about: "plumb built for arm64, with tests of its own, in a guest of that architecture",
        phase: Phase::Concurrent,
        minutes: 60,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| arm64(job),
    },
    Stage {
        name: "lake",
        about: "the questions of sql/ to plumb, DuckDB, ClickHouse and Spark, in a directory and a bucket; workers are killed (as root)",
        phase: Phase::Concurrent,
        minutes: 40,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| lake(job),
    },
    Stage {
        name: "ip-san",
        about: "a disk over iSCSI and NVMe/TCP, followed from one guest to the other",
        phase: Phase::Concurrent,
        minutes: 10,
        needs: &["build", "guests"],
        kernels: None,
        holds: None,
        work: |job, _| {
            let mut command = script(job, "tests/vm/ip-san.sh");
            // With a known cause: a slow link from the target.
            command.arg(job.built("plumb")?).args(["--delay", "10", "--expect"]);
            command.arg("target: answer in the queue of the network device");
            job.tests(command, Division::Answers)
        },
    },
    Stage {
        name: "plan-guests",
        about: "plans whose cells run in guests",
        phase: Phase::Concurrent,
        minutes: 10,
        needs: &["build", "guests"],
        kernels: None,
        holds: None,
        work: |job, _| {
            let mut command = script(job, "tests/vm/plan.sh");
            command.arg(job.built("plumb")?);
            job.tests(command, Division::Answers)
        },
    },
    Stage {
        name: "offline",
        about: "tests of plumb on recorded and simulated traces: golden results, queries, pages",
        phase: Phase::Concurrent,
        minutes: 15,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| {
            let offline = job.programs().iter().filter(|p| p.kind() == Kind::Offline);
            // One thread, so that each test can be timed; the other lanes have the other processors.
            let alone = ["--test-threads=1", "--nocapture"];
            job.in_turn(offline, &alone, Division::Harness, &mut Failures::default())
        },
    },
    Stage {
        name: "page",
        about: "the report's page: types, unit tests, and in a browser",
        phase: Phase::Concurrent,
        minutes: 20,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| page::stage(job),
    },
    Stage {
        name: "fuzz",
        about: "a fixed number of mutated inputs for every reader of bytes that others wrote",
        phase: Phase::Concurrent,
        minutes: 10,
        needs: &["build"],
        kernels: None,
        holds: None,
        work: |job, _| {
            let fuzz = job.programs().iter().filter(|p| p.kind() == Kind::Fuzz);
            job.in_turn(fuzz, &[], Division::Harness, &mut Failures::default())
        },
    },
    Stage {
        name: "policy",
        about: "lp-deadline's policy against its oracle, with sanitizers",
        phase: Phase::Concurrent,
        minutes: 10,
        needs: &[],
        kernels: None,
        holds: None,
        work: |job, _| job.tests(script(job, "iosched/test/run.sh"), Division::Whole),
    },
];

/// The stages of these names with those that they need, in their order; all of them for no names.
///
/// # Errors
/// A name that no stage has; the error lists all.
pub fn select(names: &[&str]) -> Result<Vec<&'static Stage>> {
    if let Some(name) = names.iter().find(|name| !STAGES.iter().any(|s| s.name == **name)) {
        bail!("there is no stage '{name}'; the stages are\n{}", list());
    }
    let mut chosen: Vec<&str> =
        if names.is_empty() { STAGES.iter().map(|s| s.name).collect() } else { names.to_vec() };
    // What is needed needs nothing itself.
    for stage in STAGES.iter().filter(|s| names.contains(&s.name)) {
        chosen.extend(stage.needs);
    }
    Ok(STAGES.iter().filter(|s| chosen.contains(&s.name)).collect())
}

/// The task of a stage that is one.
///
/// # Panics
/// There is no such stage.
pub fn task(name: &str) -> Task<'static> {
    let stage = STAGES.iter().find(|s| s.name == name).expect("a stage");
    stage.task(stage.name.into(), None)
}

/// A line for each stage.
pub fn list() -> String {
    STAGES.iter().map(|s| format!("  {:<13} {}\n", s.name, s.about)).collect()
}

impl Stage {
    /// One, or one for each kernel of its list.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn tasks(&'static self, session: &Session) -> Result<Vec<Task<'static>>> {
        let Some(list) = self.kernels else { return Ok(vec![self.task(self.name.into(), None)]) };
        let text = std::fs::read_to_string(session.root.join(list)).with_context(|| list.to_owned())?;
        Ok(kernels(&text)
            .map(|kernel| self.task(format!("{} {kernel}", self.name), Some(kernel.into())))
            .collect())
    }

    fn task(&'static self, name: String, kernel: Option<String>) -> Task<'static> {
        Task::new(name, minutes(self.minutes), self.holds, move |job| (self.work)(job, kernel.as_deref()))
    }
}

/// The names in a list of kernels.
pub fn kernels(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_whitespace().next())
}

fn script(job: &Job, path: &str) -> Command {
    Command::new(job.root.join(path))
}

fn clang_format(job: &Job) -> Result<Counts> {
    if Command::new(CLANG_FORMAT).arg("--version").output().is_err() {
        return Ok(job.skip("clang-format", &format!("needs {CLANG_FORMAT} (make deps)")));
    }
    // Not event.h: the generator reads it line by line, in its own form.
    let mut files = vec![job.root.join("include/plumb/probe.h")];
    for dir in FORMATTED {
        for entry in std::fs::read_dir(job.root.join(dir)).with_context(|| dir.to_string())? {
            let path = entry?.path();
            // Made for one kernel at a time.
            let made = path.ends_with("lp_abi.h") || path.to_string_lossy().ends_with(".mod.c");
            if !made && path.extension().is_some_and(|e| e == "c" || e == "h") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut command = Command::new(CLANG_FORMAT);
    command.args(["--dry-run", "-Werror"]).args(files);
    job.check(command)
}

/// Builds the test programs of the whole workspace; none where that failed.
pub fn build(job: &Job) -> Result<Counts> {
    let (status, found) = job.build(job.cargo(programs::BUILD))?;
    job.set_programs(found);
    Ok(Counts::one(status.success()))
}

/// What is tried on arm64, where an emulated processor takes its time: stacks, tables of system calls, known answers.
const ARM64_TESTS: [(&str, &str); 8] = [
    ("plumb-trace", "plumb_trace"),
    ("plumb-machine", "plumb_machine"),
    ("plumb-probe", "plumb_probe"),
    ("plumb-model", "plumb_model"),
    ("plumb-workload", "usage"),
    ("plumb", "known_answer"),
    ("plumb", "locks"),
    ("plumb", "profile_truth"),
];

fn arm64(job: &Job) -> Result<Counts> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    if !job.named() {
        return Ok(
            job.skip("arm64", "an emulated processor takes 40 minutes; 'cargo xtask test arm64' runs it")
        );
    }
    for tool in ["aarch64-linux-gnu-gcc", "qemu-system-aarch64"] {
        if !programs::on_path(tool) {
            return Ok(job.skip("arm64", &format!("needs {tool} (scripts/deps.sh arm64)")));
        }
    }
    // Not the whole workspace: nothing else is built for this architecture.
    let mut cargo = job.cargo(["test", "--no-run", "--locked", programs::JSON, "--target", TARGET, "--lib"]);
    for (package, name) in ARM64_TESTS {
        cargo.args(["-p", package]);
        if matches!(package, "plumb" | "plumb-workload") {
            cargo.args(["--test", name]);
        }
    }
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    let (status, built) = job.build(cargo)?;
    if !status.success() {
        return Ok(Counts::one(false));
    }
    let plumb =
        job.target_dir().join(TARGET).join("debug/plumb").canonicalize().context("plumb for arm64")?;
    let mut command = script(job, "tests/vm/run.sh");
    command.arg(job.built("plumb")?).arg("--arm64").arg(&plumb);
    let mut counts = job.tests(command, Division::Answers)?;
    let mut command = script(job, "tests/vm/arm64.sh");
    command.arg(plumb);
    for (package, name) in ARM64_TESTS {
        let program = built.iter().find(|p| (p.package.as_str(), p.name.as_str()) == (package, name));
        command.arg(program.with_context(|| format!("no test program '{name}' of {package}"))?.place());
    }
    counts.add(job.tests(command, Division::Answers)?);
    Ok(counts)
}

/// The engines come from Python's registry, what Spark needs to read a bucket from Maven's, and the bucket from make deps.
fn lake(job: &Job) -> Result<Counts> {
    if !job.named() {
        return Ok(job.skip("lake", "its engines are 2 GB to fetch; 'cargo xtask test lake' runs it"));
    }
    if !is_root() {
        return Ok(job.skip("lake", "benchmarks need root (run it as root)"));
    }
    let mut counts = Counts::default();
    let small: [(&str, &[&str]); 2] =
        [("engines", &["--bucket"]), ("spark", &["--runs", "100", "--hosts", "20", "--kills", "5"])];
    for (name, words) in small {
        let out = job.target_dir().join("lake").join(name);
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
        }
        let mut command = script(job, &format!("benches/lake/{name}.py"));
        command.args(words).arg("--plumb").arg(job.built("plumb")?).arg("--out").arg(out);
        counts.add(job.tests(command, Division::Whole)?);
    }
    Ok(counts)
}

fn root_tests(job: &Job) -> Result<Counts> {
    let recording: Vec<&Program> = job.programs().iter().filter(|p| p.kind() == Kind::Records).collect();
    // One after the other: they record the machine that they run on.
    let alone = ["--test-threads=1", "--nocapture"];
    let mut failures = Failures::default();
    let mut counts = job.in_turn(recording.iter().copied(), &alone, Division::Harness, &mut failures)?;
    let again = failures.names.len() as u64;
    // A machine that others share takes the CPU away in the middle of a measurement. What fails for
    // another reason fails again.
    if (1..=FEW).contains(&again) && counts.failed == again {
        job.say(&format!("== tried again: {}", failures.names.join(", ")));
        let mut args = alone.to_vec();
        args.push("--exact");
        args.extend(failures.names.iter().map(String::as_str));
        let mut failed = Failures::default();
        let second = job.in_turn(recording.iter().copied(), &args, Division::Harness, &mut failed)?;
        for name in &failures.names {
            let passed = Some(!failed.names.contains(name));
            job.notes.borrow_mut().retries.push(Retry { stage: "root".into(), test: name.clone(), passed });
        }
        if second.failed == 0 && second.passed == again {
            job.say(&format!("== passed when tried again: {}", failures.names.join(", ")));
            counts.failed = 0;
            counts.passed += again;
        }
    }
    // A test that skips returns, and so was counted as passed too.
    counts.passed = counts.passed.saturating_sub(counts.skipped);
    Ok(counts)
}

/// The strong faults and the clean runs; weak ones and speed-ups are `make faults`.
fn faults(job: &Job) -> Result<Counts> {
    if !is_root() {
        return Ok(job.skip("injected faults", "needs root to record (run make test as root)"));
    }
    let out = job.target_dir().join("faults");
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
    }
    let mut command = Command::new(job.built("plumb-faults")?);
    command.args(["suite", "--strong-only", "--no-speedups", "--retries", "2", "--out"]).arg(&out);
    let (status, _) = job.run(command, Division::Answers, "faults", |line| job.say(line))?;
    Ok(Counts::one(status.success()))
}

/// Some of the kill points; `cargo xtask killpoints` tries them all.
fn kill_points(job: &Job) -> Result<Counts> {
    if let Some(why) = killpoints::lacks() {
        return Ok(job.skip("kill points", &why));
    }
    let plumb = job.built("plumb")?.canonicalize().context("plumb")?;
    let base = job.target_dir().canonicalize().context("target")?;
    let defects = killpoints::all(&plumb, &base, Extent::Spread(3), "", &mut |line| job.say(line))?;
    Ok(Counts::one(defects == 0))
}

/// The script has a limit of its own, so that it can be run alone.
fn crash(job: &Job) -> Result<Counts> {
    if !is_root() {
        return Ok(job.skip("crash consistency", "needs root for its disk (run make test as root)"));
    }
    let mut command = Command::new("timeout");
    command.args(["-k", "10", "600"]).arg(job.root.join("tests/faults/crash.sh"));
    command.arg(job.built("plumb-faults")?).arg(job.built("plumb")?);
    job.tests(command, Division::Answers)
}

fn packages(job: &Job) -> Result<Counts> {
    let mut counts = job.tests(script(job, "tests/vm/dkms.sh"), Division::Answers)?;
    let mut program = script(job, "tests/vm/packages.sh");
    program.arg(job.built("plumb")?);
    counts.add(job.tests(program, Division::Answers)?);
    Ok(counts)
}

fn is_root() -> bool {
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
