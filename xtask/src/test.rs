// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every test of the repository, by what it needs: nothing, root, a virtual
//! machine. A stage that fails does not stop those behind it.

use crate::gen;
use anyhow::{bail, Context, Result};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

const CLANG_FORMAT: &str = "clang-format-14";

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    /// By the test harness, at #[ignore].
    ignored: u64,
    /// Lines that begin with SKIP and give a reason.
    skipped: u64,
}

impl Counts {
    fn one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed), ..Self::default() }
    }
}

/// Runs all stages.
///
/// # Errors
/// Something failed; what, was printed.
pub fn run(root: &Path) -> Result<()> {
    let mut session = Session { root, total: Counts::default(), broken: Vec::new() };
    session.stage("generated files", |_| gen::run(root, true).map(|()| Counts::one(true)));
    session.check("rustfmt", |s| s.cargo(["fmt", "--all", "--check"]));
    session.clang_format();
    session.check("clippy", |s| {
        s.cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    });
    // The program's integration tests record this machine; all others need nothing.
    session.tests("tests", |s| {
        s.lines(s.cargo(["test", "--workspace", "--exclude", "plumb", "--locked", "--no-fail-fast"]))
    });
    session.tests("tests of the program's parts", |s| {
        s.lines(s.cargo(["test", "--package", "plumb", "--lib", "--bins", "--locked", "--no-fail-fast"]))
    });
    session.root_tests();
    session.faults();
    session.vm_tests();

    let Session { total, broken, .. } = session;
    println!();
    if !broken.is_empty() {
        println!("failed: {}", broken.join(", "));
    }
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.ignored + total.skipped);
    if total.failed > 0 {
        // The counts are the last line; an error's text would follow them.
        std::process::exit(1);
    }
    Ok(())
}

/// Writes anew what the golden tests compare.
///
/// # Errors
/// A test failed for another reason than a difference.
pub fn golden(root: &Path) -> Result<()> {
    for (package, test) in [("plumb", "golden"), ("plumb-diagnose", "docs")] {
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["test", "--package", package, "--test", test])
            .env("PLUMB_GOLDEN", "1")
            .current_dir(root)
            .status()
            .context("cargo test")?;
        if !status.success() {
            bail!("{package}: the test '{test}' failed; its words are above");
        }
    }
    println!("written: tests/golden, docs/findings.md; 'git diff' shows what changed");
    Ok(())
}

struct Session<'a> {
    root: &'a Path,
    total: Counts,
    broken: Vec<&'static str>,
}

impl Session<'_> {
    /// A command without tests of its own; it counts as one.
    fn check(&mut self, name: &'static str, command: impl FnOnce(&Self) -> Command) {
        self.stage(name, |s| {
            let (status, _) = s.lines(command(s))?;
            Ok(Counts::one(status.success()))
        });
    }

    /// A stage whose output tells what passed.
    fn tests(&mut self, name: &'static str, work: impl FnOnce(&Self) -> Result<(ExitStatus, Counts)>) {
        self.stage(name, |s| {
            let (status, mut counts) = work(s)?;
            // What did not compile has no result line.
            if !status.success() && counts.failed == 0 {
                counts.failed = 1;
            }
            Ok(counts)
        });
    }

    fn stage(&mut self, name: &'static str, work: impl FnOnce(&Self) -> Result<Counts>) {
        println!("\n== {name}");
        let started = Instant::now();
        let counts = work(self).unwrap_or_else(|e| {
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
        self.total.passed += counts.passed;
        self.total.failed += counts.failed;
        self.total.ignored += counts.ignored;
        self.total.skipped += counts.skipped;
    }

    fn clang_format(&mut self) {
        self.stage("clang-format", |s| {
            if Command::new(CLANG_FORMAT).arg("--version").output().is_err() {
                return Ok(skip("clang-format", &format!("needs {CLANG_FORMAT} (make deps)")));
            }
            // Not event.h: the generator reads it line by line, in its own form.
            let mut files = vec![s.root.join("include/plumb/probe.h")];
            for entry in std::fs::read_dir(s.root.join("bpf"))? {
                let path = entry?.path();
                if path.extension().is_some_and(|e| e == "c" || e == "h") {
                    files.push(path);
                }
            }
            files.sort();
            let mut command = Command::new(CLANG_FORMAT);
            command.args(["--dry-run", "-Werror"]).args(files);
            let (status, _) = s.lines(command)?;
            Ok(Counts::one(status.success()))
        });
    }

    fn root_tests(&mut self) {
        self.tests("root tests", |s| {
            let dir = s.root.join("crates/plumb/tests");
            let any = std::fs::read_dir(&dir)
                .is_ok_and(|d| d.flatten().any(|f| f.path().extension().is_some_and(|e| e == "rs")));
            // cargo calls it an error when no target matches.
            if !any {
                bail!("{} holds no tests", dir.display());
            }
            let mut command =
                s.cargo(["test", "--package", "plumb", "--test", "*", "--locked", "--no-fail-fast"]);
            // One after the other: they record the machine that they run on.
            command.args(["--", "--test-threads=1", "--nocapture"]);
            let (status, mut counts) = s.lines(command)?;
            // A test that skips returns, and so was counted as passed too.
            counts.passed = counts.passed.saturating_sub(counts.skipped);
            Ok((status, counts))
        });
    }

    /// The strong faults and the clean runs; weak ones and bounds are `make faults`.
    fn faults(&mut self) {
        self.tests("injected faults", |s| {
            if !is_root() {
                let counts = skip("injected faults", "needs root to record (run make test as root)");
                return Ok((Command::new("true").status()?, counts));
            }
            let (status, _) = s.lines(s.cargo([
                "build",
                "--release",
                "--package",
                "plumb",
                "--package",
                "plumb-faults",
                "--locked",
            ]))?;
            if !status.success() {
                return Ok((status, Counts::one(false)));
            }
            let out = s.target_dir().join("faults");
            if out.exists() {
                std::fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
            }
            let mut command = Command::new(s.target_dir().join("release/plumb-faults"));
            command.args(["suite", "--strong-only", "--no-bounds", "--retries", "2", "--out"]).arg(&out);
            let (status, _) = s.lines(command)?;
            Ok((status, Counts::one(status.success())))
        });
    }

    fn vm_tests(&mut self) {
        self.tests("tests on other kernels, in virtual machines", |s| {
            let (status, counts) =
                s.lines(s.cargo(["build", "--release", "--package", "plumb", "--locked"]))?;
            if !status.success() {
                return Ok((status, counts));
            }
            let mut command = Command::new(s.root.join("tests/vm/run.sh"));
            command.arg(s.target_dir().join("release/plumb"));
            s.lines(command)
        });
    }

    fn target_dir(&self) -> PathBuf {
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    fn cargo<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(words).current_dir(self.root);
        command
    }

    /// Runs a command, shows its output and counts what it tells.
    fn lines(&self, mut command: Command) -> Result<(ExitStatus, Counts)> {
        let shown: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_string_lossy)
            .collect();
        let shown = shown.join(" ");
        println!("$ {shown}");
        let mut child = command
            .current_dir(self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {shown}"))?;
        let counts = Mutex::new(Counts::default());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            scope.spawn(|| out.map(|pipe| follow(pipe, &counts)));
            scope.spawn(|| err.map(|pipe| follow(pipe, &counts)));
        });
        let status = child.wait().with_context(|| shown.clone())?;
        let counts = *counts.lock().expect("no reader panicked");
        Ok((status, counts))
    }
}

fn follow(pipe: impl Read, counts: &Mutex<Counts>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let mut counts = counts.lock().expect("no reader panicked");
        count(text, &mut counts);
        println!("{text}");
        line.clear();
    }
}

/// Adds what one line of output tells.
fn count(line: &str, counts: &mut Counts) {
    // With one thread the harness begins a line, and the test's own text follows on it.
    let own = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")).map_or(line, |(_, text)| text);
    if own.starts_with("SKIP ") {
        counts.skipped += 1;
    }
    let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|l| l.split_once(". ")) else {
        return;
    };
    for part in numbers.split("; ") {
        let mut words = part.split(' ');
        let (Some(Ok(n)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else { continue };
        match what {
            "passed" => counts.passed += n,
            "failed" => counts.failed += n,
            "ignored" => counts.ignored += n,
            _ => {}
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

fn skip(name: &str, reason: &str) -> Counts {
    println!("SKIP {name}: {reason}");
    Counts { skipped: 1, ..Counts::default() }
}

#[cfg(test)]
mod tests {
    use super::{count, Counts};

    fn counted(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines().for_each(|l| count(l, &mut counts));
        counts
    }

    #[test]
    fn result_lines_are_summed() {
        let text = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
                    test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(counted(text), Counts { passed: 14, failed: 3, ignored: 1, skipped: 0 });
    }

    #[test]
    fn skips_are_found_at_a_lines_start_and_behind_the_harness() {
        let text = "SKIP a: needs root\ntest b ... SKIP b: needs root\nok\ntest c ... ok\nwe do not SKIP d: at all\n";
        assert_eq!(counted(text), Counts { skipped: 2, ..Counts::default() });
    }
}
