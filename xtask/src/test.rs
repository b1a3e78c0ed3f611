// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every test of the repository, by what it needs: nothing, root, a virtual
//! machine. A stage that fails does not stop those behind it, nor does one that hangs.

use crate::counts::{count, Counts, Failures};
use crate::gen;
use crate::limit::{self, End, Limit};
use crate::page;
use crate::programs::{self, Program};
use anyhow::{anyhow, bail, Context, Result};
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

const CLANG_FORMAT: &str = "clang-format-14";
const FORMATTED: [&str; 6] = ["bpf", "iosched", "iosched/user", "iosched/test", "kmod", "tests/vm/device"];
/// Failed root tests up to this many are tried once more.
const FEW: u64 = 5;

/// What all stages together may take; those that it leaves no time for count as failed.
const TOTAL: Duration = minutes(80);
/// Between the stop of a stage that takes too long and its end by force.
const GRACE: Duration = Duration::from_secs(10);

pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

/// Runs all stages.
///
/// # Errors
/// Something failed; what, was printed.
pub fn run(root: &Path) -> Result<()> {
    let mut session = Session::new(root, TOTAL, GRACE);
    session.stage("generated files", minutes(5), |_| gen::run(root, true).map(|()| Counts::one(true)));
    session.check("rustfmt", minutes(5), |s| s.cargo(["fmt", "--all", "--check"]));
    session.clang_format();
    session.check("clippy", minutes(15), |s| {
        s.cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    });
    let programs = session.programs();
    // The program's integration tests record this machine; all others need nothing.
    session.tests("tests", minutes(15), |s| {
        let plain = programs.iter().filter(|p| !p.records());
        s.programs_in_turn(plain, &[], &mut Failures::default())
    });
    session.policy();
    page::stage(&mut session);
    session.root_tests(&programs);
    session.release();
    session.faults();
    session.crash();
    session.vm_tests();
    session.module_tests();
    session.package_tests();

    session.end()
}

/// Runs the stage of the report's page alone.
///
/// # Errors
/// Something failed; what, was printed.
pub fn page(root: &Path) -> Result<()> {
    let mut session = Session::new(root, TOTAL, GRACE);
    page::stage(&mut session);
    session.end()
}

/// Writes anew what the golden tests compare.
///
/// # Errors
/// A test failed for another reason than a difference.
pub fn golden(root: &Path) -> Result<()> {
    let all = [("golden", ""), ("docs", ""), ("plumb", "plan::report")];
    let mut session = Session::new(root, TOTAL, GRACE);
    let programs = session.programs();
    for (name, tests) in all {
        let found: Vec<&Program> = programs.iter().filter(|p| p.name == name).collect();
        if found.is_empty() {
            bail!("there is no test program '{name}': the build failed");
        }
        for program in found {
            let mut command = program.command();
            let status = command.arg(tests).env("PLUMB_GOLDEN", "1").status().context("a test program")?;
            if !status.success() {
                bail!("{}: the test '{name}' failed; its words are above", program.package);
            }
        }
    }
    println!("written: tests/golden, docs/load.md, docs/findings.md, docs/tables.md; 'git diff' shows what changed");
    Ok(())
}

pub struct Session<'a> {
    pub root: &'a Path,
    total: Counts,
    broken: Vec<&'static str>,
    /// When no stage may run any more.
    end: Instant,
    grace: Duration,
    /// The present stage, how long it may take, and when that is over.
    stage: (&'static str, Duration, Instant),
}

impl<'a> Session<'a> {
    fn new(root: &'a Path, total: Duration, grace: Duration) -> Self {
        let now = Instant::now();
        Self {
            root,
            total: Counts::default(),
            broken: Vec::new(),
            end: now + total,
            grace,
            stage: ("", total, now + total),
        }
    }

    /// Says what passed; ends the process where something failed.
    fn end(self) -> Result<()> {
        let Session { total, broken, .. } = self;
        println!();
        if !broken.is_empty() {
            println!("failed: {}", broken.join(", "));
        }
        println!(
            "{} passed, {} failed, {} skipped",
            total.passed,
            total.failed,
            total.ignored + total.skipped
        );
        if total.failed > 0 {
            // The counts are the last line; an error's text would follow them.
            std::process::exit(1);
        }
        Ok(())
    }

    /// A command without tests of its own; it counts as one.
    fn check(&mut self, name: &'static str, limit: Duration, command: impl FnOnce(&Self) -> Command) {
        self.stage(name, limit, |s| {
            let (status, _) = s.lines(command(s))?;
            Ok(Counts::one(status.success()))
        });
    }

    /// A stage whose output tells what passed.
    pub fn tests(
        &mut self,
        name: &'static str,
        limit: Duration,
        work: impl FnOnce(&Self) -> Result<(ExitStatus, Counts)>,
    ) {
        self.stage(name, limit, |s| {
            let (status, mut counts) = work(s)?;
            // What did not compile has no result line.
            if !status.success() && counts.failed == 0 {
                counts.failed = 1;
            }
            Ok(counts)
        });
    }

    fn stage(&mut self, name: &'static str, limit: Duration, work: impl FnOnce(&Self) -> Result<Counts>) {
        println!("\n== {name}");
        let started = Instant::now();
        let limit = limit.min(self.end.saturating_duration_since(started));
        self.stage = (name, limit, started + limit);
        let result = if limit.is_zero() {
            Err(anyhow!("not run: the stages before took all the time that there is for a test run"))
        } else {
            work(self)
        };
        let counts = result.unwrap_or_else(|e| {
            println!("{e:#}");
            Counts { failed: 1, ..Counts::default() }
        });
        let word = match counts {
            Counts { failed: 1.., .. } => "FAILED",
            Counts { passed: 0, .. } => "skipped",
            _ => "ok",
        };
        println!("== {name}: {word}, {:.1} s", started.elapsed().as_secs_f64());
        if counts.failed > 0 {
            self.broken.push(name);
        }
        self.total.add(counts);
    }

    fn clang_format(&mut self) {
        self.stage("clang-format", minutes(5), |s| {
            if Command::new(CLANG_FORMAT).arg("--version").output().is_err() {
                return Ok(skip("clang-format", &format!("needs {CLANG_FORMAT} (make deps)")));
            }
            // Not event.h: the generator reads it line by line, in its own form.
            let mut files = vec![s.root.join("include/plumb/probe.h")];
            for dir in FORMATTED {
                for entry in std::fs::read_dir(s.root.join(dir)).with_context(|| dir.to_string())? {
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
            let (status, _) = s.lines(command)?;
            Ok(Counts::one(status.success()))
        });
    }

    /// Builds the test programs of the whole workspace; none where that failed.
    fn programs(&mut self) -> Vec<Program> {
        let mut found = Vec::new();
        self.tests("test programs", minutes(25), |s| {
            let mut broken = None;
            let (status, _) = s.lines_to(s.cargo(programs::BUILD), |line| match programs::told(line) {
                Ok(None) => println!("{line}"),
                Ok(Some(program)) => found.extend(program),
                Err(e) => broken = Some(e),
            })?;
            match broken {
                Some(e) => Err(e),
                None => Ok((status, Counts::one(status.success()))),
            }
        });
        found
    }

    /// Calls test programs one after the other. Its status is the first that is not success.
    fn programs_in_turn<'p>(
        &self,
        programs: impl Iterator<Item = &'p Program>,
        args: &[&str],
        failures: &mut Failures,
    ) -> Result<(ExitStatus, Counts)> {
        let (mut status, mut counts) = (ExitStatus::default(), Counts::default());
        let mut any = false;
        for program in programs {
            any = true;
            println!("\n-- {} {}", program.package, program.name);
            let mut command = program.command();
            command.args(args);
            let (ended, mut told) = self.lines_to(command, |line| {
                failures.take(line);
                println!("{line}");
            })?;
            // One that was killed has no result line.
            if !ended.success() && told.failed == 0 {
                told.failed = 1;
            }
            counts.add(told);
            if status.success() {
                status = ended;
            }
        }
        if !any {
            bail!("there are no test programs: their build failed");
        }
        Ok((status, counts))
    }

    fn root_tests(&mut self, programs: &[Program]) {
        self.tests("root tests", minutes(20), |s| {
            let recording: Vec<&Program> = programs.iter().filter(|p| p.records()).collect();
            // One after the other: they record the machine that they run on.
            let alone = ["--test-threads=1", "--nocapture"];
            let mut failures = Failures::default();
            let (mut status, mut counts) =
                s.programs_in_turn(recording.iter().copied(), &alone, &mut failures)?;
            let again = failures.names.len() as u64;
            // A machine that others share takes the CPU away in the middle of a measurement. What fails for
            // another reason fails again.
            if (1..=FEW).contains(&again) && counts.failed == again {
                println!("== tried again: {}", failures.names.join(", "));
                let mut args = alone.to_vec();
                args.push("--exact");
                args.extend(failures.names.iter().map(String::as_str));
                let (second, counted) =
                    s.programs_in_turn(recording.iter().copied(), &args, &mut Failures::default())?;
                if second.success() && counted.passed == again {
                    println!("== passed when tried again: {}", failures.names.join(", "));
                    status = second;
                    counts.failed = 0;
                    counts.passed += again;
                }
            }
            // A test that skips returns, and so was counted as passed too.
            counts.passed = counts.passed.saturating_sub(counts.skipped);
            Ok((status, counts))
        });
    }

    /// The policy of the low-priority scheduler, against what plain arrays say.
    fn policy(&mut self) {
        self.tests("lp-deadline's policy", minutes(10), |s| {
            s.lines(Command::new(s.root.join("iosched/test/run.sh")))
        });
    }

    /// What the stages behind it call: one build, as features differ between packages that are built alone.
    fn release(&mut self) {
        self.check("release", minutes(20), |s| {
            s.cargo(["build", "--release", "--locked", "-p", "plumb", "-p", "plumb-faults"])
        });
    }

    fn built(&self, name: &str) -> Result<PathBuf> {
        let path = self.target_dir().join("release").join(name);
        if !path.is_file() {
            bail!("{} is missing: the stage 'release' makes it", path.display());
        }
        Ok(path)
    }

    /// The strong faults and the clean runs; weak ones and bounds are `make faults`.
    fn faults(&mut self) {
        self.tests("injected faults", minutes(15), |s| {
            if !is_root() {
                let counts = skip("injected faults", "needs root to record (run make test as root)");
                return Ok((ExitStatus::default(), counts));
            }
            let out = s.target_dir().join("faults");
            if out.exists() {
                std::fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
            }
            let mut command = Command::new(s.built("plumb-faults")?);
            command.args(["suite", "--strong-only", "--no-bounds", "--retries", "2", "--out"]).arg(&out);
            let (status, _) = s.lines(command)?;
            Ok((status, Counts::one(status.success())))
        });
    }

    /// What survives a power cut. The script has a limit of its own, so that it can be run alone.
    fn crash(&mut self) {
        self.tests("crash consistency", minutes(10), |s| {
            if !is_root() {
                let counts = skip("crash consistency", "needs root for its disk (run make test as root)");
                return Ok((ExitStatus::default(), counts));
            }
            let mut command = Command::new("timeout");
            command.args(["-k", "10", "600"]).arg(s.root.join("tests/faults/crash.sh"));
            command.arg(s.built("plumb-faults")?).arg(s.built("plumb")?);
            s.lines(command)
        });
    }

    fn vm_tests(&mut self) {
        self.tests("tests on other kernels, in virtual machines", minutes(15), |s| {
            let mut command = Command::new(s.root.join("tests/vm/run.sh"));
            command.arg(s.built("plumb")?);
            s.lines(command)
        });
    }

    fn module_tests(&mut self) {
        self.tests("the I/O scheduler's module, in virtual machines", minutes(45), |s| {
            s.lines(Command::new(s.root.join("tests/vm/iosched.sh")))
        });
    }

    fn package_tests(&mut self) {
        self.tests("the module's package, in a Debian of its own", minutes(20), |s| {
            s.lines(Command::new(s.root.join("tests/vm/dkms.sh")))
        });
    }

    pub fn target_dir(&self) -> PathBuf {
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    fn cargo<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(words).current_dir(self.root);
        command
    }

    /// Runs a command, shows its output and counts what it tells.
    pub fn lines(&self, command: Command) -> Result<(ExitStatus, Counts)> {
        self.lines_to(command, |line| println!("{line}"))
    }

    /// As [`Self::lines`], but who calls it shows the output.
    fn lines_to(&self, mut command: Command, mut show: impl FnMut(&str)) -> Result<(ExitStatus, Counts)> {
        let shown: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_string_lossy)
            .collect();
        let shown = shown.join(" ");
        println!("$ {shown}");
        let (name, whole, end) = self.stage;
        let limit = Limit { time: end.saturating_duration_since(Instant::now()), grace: self.grace };
        let mut counts = Counts::default();
        if command.get_current_dir().is_none() {
            command.current_dir(self.root);
        }
        let ended = limit::run(&mut command, limit, |line| {
            count(line, &mut counts);
            show(line);
        })?;
        let status = match ended {
            End::Exited(status) => status,
            End::Stopped(running) => {
                let minutes = whole.as_secs_f64() / 60.0;
                println!("== {name}: stopped after {minutes:.1} min: still running:");
                running.iter().for_each(|line| println!("  {line}"));
                counts.failed += 1;
                ExitStatus::from_raw(libc::SIGKILL)
            }
        };
        Ok((status, counts))
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// A stage that cannot run, and why.
pub fn skip(name: &str, reason: &str) -> Counts {
    println!("SKIP {name}: {reason}");
    Counts { skipped: 1, ..Counts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with little time, whose stages run shell scripts.
    fn session(total: u64) -> Session<'static> {
        let second = Duration::from_secs(1);
        Session::new(Path::new("/"), second * total as u32, second / 5)
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_stage_that_hangs_has_failed_and_the_next_one_runs() {
        let mut session = session(600);
        let result = "test result: ok. 3 passed; 0 failed; 0 ignored";
        let hangs = format!("echo '{result}'; sleep 1000");
        session.tests("hangs", Duration::from_secs(1), |s| s.lines(shell(&hangs)));
        assert_eq!(session.total, Counts { passed: 3, failed: 1, ..Counts::default() });
        session.check("hangs too", Duration::from_secs(1), |_| shell("sleep 1000"));
        session.check("next", minutes(1), |_| shell("true"));
        assert_eq!(session.broken, ["hangs", "hangs too"]);
        assert_eq!(session.total, Counts { passed: 4, failed: 2, ..Counts::default() });
    }

    #[test]
    fn the_commands_of_a_stage_share_its_time() {
        let mut session = session(600);
        session.tests("two", Duration::from_secs(2), |s| {
            let (status, _) = s.lines(shell("sleep 0.1"))?;
            assert!(status.success());
            s.lines(shell("sleep 1000"))
        });
        assert_eq!(session.total.failed, 1);
    }

    #[test]
    fn stages_that_no_time_is_left_for_have_failed() {
        let mut session = session(1);
        session.check("takes it all", minutes(10), |_| shell("sleep 1000"));
        session.check("too late", minutes(10), |_| panic!("it must not run"));
        assert_eq!(session.broken, ["takes it all", "too late"]);
    }

    #[test]
    fn what_a_stage_leaves_behind_does_not_hold_up_the_next() {
        let mut session = session(600);
        session.check("leaves", minutes(5), |_| shell("sleep 1000 & true"));
        session.check("next", minutes(5), |_| shell("true"));
        assert_eq!(session.total, Counts { passed: 2, ..Counts::default() });
    }
}
