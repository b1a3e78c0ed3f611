// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commits and worktrees. The user's repository is only read: worktrees belong to a bare clone in the directory of the
//! search, which borrows the objects. So a killed search leaves nothing in it either.

use super::state::Version;
use anyhow::{bail, Context, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What git takes its repository from where it is called by a hook.
pub const FOREIGN: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"];

/// Git in a directory. No hook of the user's runs.
fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(dir)
        .args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"])
        .args(words);
    FOREIGN.iter().for_each(|name| _ = command.env_remove(name));
    // Ctrl-C reaches this program alone, which ends the search when git is done.
    let out = command.stdin(Stdio::null()).process_group(0).output();
    let out = out.context("cannot start git: install it, or search with --among")?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("git {}: {}", words.first().unwrap_or(&""), said.trim().trim_start_matches("fatal: "));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_string())
}

/// Git's directory of the repository that `dir` is in.
///
/// # Errors
/// There is none, or it is another user's.
pub fn find(dir: &Path) -> Result<PathBuf> {
    git(dir, &["rev-parse", "--path-format=absolute", "--git-common-dir"])
        .map(PathBuf::from)
        .with_context(|| format!("cannot search {}", dir.display()))
}

/// `good`, and the commits after it up to `bad` along first parents.
///
/// # Errors
/// One is no commit, or `good` is no ancestor of `bad`.
pub fn commits(dir: &Path, good: &str, bad: &str) -> Result<Vec<Version>> {
    let commit = |word: &str| {
        let asked = format!("{word}^{{commit}}");
        git(dir, &["rev-parse", "--verify", "--quiet", "--end-of-options", &asked]).map_err(|_| {
            anyhow::anyhow!("cannot find {word}: {} has no such commit; see git log", dir.display())
        })
    };
    let (first, last) = (commit(good)?, commit(bad)?);
    if git(dir, &["merge-base", "--is-ancestor", &first, &last]).is_err() || first == last {
        bail!("cannot search from {good} to {bad}: {good} is no ancestor of {bad}\nhint: git merge-base {good} {bad} names one");
    }
    let show = |words: &[&str]| -> Result<Vec<Version>> {
        let text = git(
            dir,
            &[&["log", "--no-show-signature", "--first-parent", "--reverse", "--format=%H %s"], words]
                .concat(),
        )?;
        let version = |line: &str| {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            Version { id: id.into(), subject: subject.into() }
        };
        Ok(text.lines().map(version).collect())
    };
    Ok([show(&["-1", &first])?, show(&[&format!("{first}..{last}")])?].concat())
}

/// How many parents a commit has.
pub fn parents(repository: &Path, commit: &str) -> usize {
    git(repository, &["rev-list", "--parents", "-1", commit]).map_or(0, |line| line.split(' ').count() - 1)
}

/// Makes the bare clone, if it is not there yet. A killed search may have left a half of one.
///
/// # Errors
/// Git's.
pub fn borrow(repository: &Path, clone: &Path) -> Result<()> {
    if clone.exists() {
        return Ok(());
    }
    let half = clone.with_extension("half");
    remove(&half)?;
    let (from, to) = (repository.display().to_string(), half.display().to_string());
    git(Path::new("/"), &["clone", "--quiet", "--bare", "--shared", &from, &to])?;
    std::fs::rename(&half, clone).with_context(|| clone.display().to_string())
}

/// A worktree of the clone at a commit.
///
/// # Errors
/// Git's.
pub fn worktree(clone: &Path, tree: &Path, commit: &str) -> Result<()> {
    remove(tree)?;
    git(clone, &["worktree", "prune"])?;
    git(
        clone,
        &[
            "worktree",
            "add",
            "--force",
            "--force",
            "--quiet",
            "--detach",
            &tree.display().to_string(),
            commit,
        ],
    )
    .map(drop)
}

/// Removes a directory, if it is there.
///
/// # Errors
/// It cannot be removed.
pub fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}
