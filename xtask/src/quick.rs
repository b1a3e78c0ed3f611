// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks what changed since main, in under a minute: what a change breaks most often, without recording anything.

use crate::counts::{Counts, Failures};
use crate::programs;
use crate::test::{minutes, task, Division, Job, Session, Task};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Nothing of it may keep a developer waiting for longer; cold builds are slow.
const TOTAL: Duration = minutes(15);
const GRACE: Duration = Duration::from_secs(5);

/// What crates are built from that lies outside of their directories.
const OUTSIDE: [(&str, &str); 5] = [
    ("bpf", "plumb-probe"),
    ("include", "plumb-probe"),
    ("include", "plumb-trace"),
    ("iosched", "plumb-sim"),
    // Its call-backs are tested with the policy.
    ("kmod", "plumb-sim"),
];

/// The policy's property tests take 10 million steps in the whole test run.
const POLICY_STEPS: &str = "1000000";

/// A crate of the workspace.
#[derive(Debug, Deserialize)]
struct Crate {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
}

/// Runs the checks.
///
/// # Errors
/// Git or cargo cannot be asked. When a check failed the process ends with 1.
pub fn run(root: &Path) -> Result<()> {
    let session = Session::new(root, TOTAL, GRACE);
    let (base, files) = changed(root)?;
    let crates = crates(root)?;
    let touched = touched(root, &crates, &files);
    let names: Vec<_> = touched.iter().copied().collect();
    println!("{} files changed since {base}, in the crates: {}", files.len(), names.join(", "));
    session.alone(&task("gen"));
    session.alone(&task("fmt"));
    if touched.is_empty() {
        session.alone(&Task::new("clippy, unit".into(), TOTAL, None, |job| {
            let mut counts = job.skip("clippy", "no crate changed");
            counts.add(job.skip("unit", "no crate changed"));
            Ok(counts)
        }));
    } else {
        // Of the whole workspace: cargo looks again only at crates that changed and at those that use them.
        session.alone(&task("clippy"));
        session.alone(&Task::new("unit".into(), TOTAL, None, |job| {
            let library = |c: &Crate| c.targets.iter().any(|t| t.kind.iter().any(|k| k == "lib"));
            unit(job, &touched, crates.iter().any(|c| touched.contains(c.name.as_str()) && library(c)))
        }));
    }
    session.alone(&Task::new("policy".into(), TOTAL, None, |job| {
        // Which is also built from iosched/; see OUTSIDE.
        if !touched.contains("plumb-sim") {
            return Ok(job.skip("policy", "none of iosched/, kmod/ and crates/sim changed"));
        }
        let mut command = Command::new(job.root.join("iosched/test/run.sh"));
        command.arg(POLICY_STEPS);
        job.tests(command, Division::Whole)
    }));
    session.end()
}

/// Builds the unit tests of the touched crates and calls them. Cargo rejects `--lib` where none has a library.
fn unit(job: &Job, touched: &BTreeSet<&str>, library: bool) -> Result<Counts> {
    let mut words = vec!["test", "--no-run", "--bins", "--locked", programs::JSON];
    words.extend(library.then_some("--lib"));
    for name in touched {
        words.extend(["-p", name]);
    }
    let (status, found) = job.build(job.cargo(words))?;
    if !status.success() {
        return Ok(Counts::one(false));
    }
    if found.is_empty() {
        return Ok(job.skip("unit", "the changed crates have no unit tests"));
    }
    job.in_turn(found.iter(), &[], Division::Whole, &mut Failures::default())
}

/// The commit that the working tree is compared with, and the files that differ or are new.
fn changed(root: &Path) -> Result<(String, Vec<String>)> {
    let base = ["main", "origin/main", "HEAD"]
        .iter()
        .find_map(|name| git(root, &["merge-base", "HEAD", name]).ok())
        .context("git knows neither main nor HEAD: not a checkout?")?;
    let base = base.trim();
    let mut files = git(root, &["diff", "--name-only", "--no-renames", base])?;
    files += &git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok((base.chars().take(9).collect(), files.lines().map(str::to_owned).collect()))
}

fn git(root: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git").args(words).current_dir(root).output().context("git")?;
    if !output.status.success() {
        bail!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn crates(root: &Path) -> Result<Vec<Crate>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(metadata.packages)
}

/// The crates that the files belong to or are built from.
fn touched<'c>(root: &Path, crates: &'c [Crate], files: &[String]) -> BTreeSet<&'c str> {
    let mut touched = BTreeSet::new();
    for file in files {
        let path = root.join(file);
        let inside =
            |c: &&Crate| c.manifest_path.parent().is_some_and(|dir| path.starts_with(dir) && dir != root);
        let outside = |c: &&Crate| {
            OUTSIDE.iter().any(|(dir, name)| *name == c.name && file.starts_with(&format!("{dir}/")))
        };
        touched.extend(crates.iter().filter(|c| inside(c) || outside(c)).map(|c| c.name.as_str()));
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, dir: &str) -> Crate {
        Crate { name: name.into(), manifest_path: format!("/r/{dir}/Cargo.toml").into(), targets: Vec::new() }
    }

    fn workspace() -> Vec<Crate> {
        vec![
            made("plumb-trace", "crates/trace"),
            made("plumb-sim", "crates/sim"),
            made("plumb-probe", "crates/probe"),
            made("plumb", "crates/plumb"),
            made("xtask", "xtask"),
        ]
    }

    fn touched_by(files: &[&str]) -> Vec<String> {
        let files: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
        touched(Path::new("/r"), &workspace(), &files).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_file_touches_its_crate() {
        assert_eq!(touched_by(&["crates/sim/src/lib.rs", "crates/sim/Cargo.toml"]), ["plumb-sim"]);
        assert_eq!(touched_by(&["xtask/src/main.rs", "crates/plumb/src/a/b.rs"]), ["plumb", "xtask"]);
        assert!(touched_by(&["README.md", "Cargo.lock", "crates/other/x.rs", "crates/simple.rs"]).is_empty());
    }

    #[test]
    fn what_a_crate_is_built_from_elsewhere_touches_it() {
        assert_eq!(touched_by(&["iosched/lp_gate.c"]), ["plumb-sim"]);
        assert_eq!(touched_by(&["kmod/test/module.c"]), ["plumb-sim"]);
        assert_eq!(touched_by(&["bpf/block.bpf.c"]), ["plumb-probe"]);
        assert_eq!(touched_by(&["include/plumb/event.h"]), ["plumb-probe", "plumb-trace"]);
        assert!(touched_by(&["iosched.md", "bpf.md"]).is_empty());
    }

    #[test]
    fn commits_changes_and_new_files_since_main_are_found() {
        let dir = std::env::temp_dir().join(format!("plumb-quick-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let git = |words: &str| {
            let mut all = vec!["-c", "user.name=a", "-c", "user.email=a@b"];
            all.extend(words.split(' '));
            super::git(&dir, &all).expect("git")
        };
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
        git("init -q -b main");
        for name in ["old", "committed", "changed"] {
            write(name, "1");
        }
        git("add .");
        git("commit -q -m one");
        git("checkout -q -b branch");
        write("committed", "2");
        git("commit -q -a -m two");
        write("changed", "2");
        write("new", "1");
        let found = changed(&dir);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(found.expect("changes").1, ["changed", "committed", "new"]);
    }
}
