// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which versions are searched, and where each is built and run.

use super::options::Options;
use super::repository;
use super::state::{Asked, Version};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// What in a command stands for the version.
const PLACE: &str = "{}";

/// What the options ask.
///
/// # Errors
/// Versions are missing, or not to be found.
pub fn asked(options: &Options) -> Result<Asked> {
    let (repository, versions) = match (&options.good, &options.bad, options.among.as_slice()) {
        (Some(good), Some(bad), []) => {
            let dir = options.repository.clone().unwrap_or_else(|| ".".into());
            let found = repository::find(&dir)?;
            (Some(found), repository::commits(&dir, good, bad)?)
        }
        (None, None, words @ [_, _, ..]) => {
            let in_command = options.command.iter().chain(&options.build).any(|w| w.contains(PLACE));
            if !in_command {
                bail!("cannot search --among: neither COMMAND nor --build has {PLACE}, which each version takes the place of");
            }
            let version = |word: &String| Version { id: word.clone(), subject: String::new() };
            (None, words.iter().map(version).collect())
        }
        (None, None, [only]) => bail!("cannot search --among {only}: at least two versions are needed"),
        _ => bail!("cannot search: give --good REV and --bad REV, or --among VERSION,VERSION,..., or -o DIR of a search that was begun"),
    };
    let here = || std::env::current_dir().context("cannot find the current directory");
    Ok(Asked {
        directory: if repository.is_none() { Some(here()?) } else { None },
        repository,
        versions,
        command: options.command.clone(),
        build: options.build.clone(),
        figure: options.figure.clone(),
        error: options.error,
        least: options.least,
        warm_up: options.warm_up,
    })
}

/// Where a version is built and run: a worktree that is made, or the directory in which the search was begun.
///
/// # Errors
/// Git's.
pub fn place(asked: &Asked, version: usize, dir: &Path, is_built: bool) -> Result<PathBuf> {
    let Some(repository) = &asked.repository else {
        let directory = asked.directory.clone().context("the search has no directory")?;
        if !directory.is_dir() {
            bail!("cannot run in {}, where the search was begun: no such directory", directory.display());
        }
        return Ok(directory);
    };
    let id = &asked.versions[version].id;
    let (clone, tree) = (dir.join("repository"), dir.join("trees").join(id));
    if !is_built || !tree.exists() {
        repository::borrow(repository, &clone)?;
        repository::worktree(&clone, &tree, id)?;
    }
    Ok(tree)
}

/// The words with the version's name in its place; of commits they stay as they are.
pub fn filled(asked: &Asked, version: usize, words: &[String]) -> Vec<String> {
    match asked.repository {
        Some(_) => words.to_vec(),
        None => words.iter().map(|w| w.replace(PLACE, &asked.versions[version].id)).collect(),
    }
}

/// A name of files for a version.
pub fn file_name(asked: &Asked, version: usize) -> String {
    asked.versions[version].id.replace(|c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c)), "_")
}
