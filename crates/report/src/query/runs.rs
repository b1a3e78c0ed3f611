// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which runs the directories that are named hold.

use anyhow::{bail, Context as _, Result};
use std::path::{Path, PathBuf};

/// How deep below a named directory runs are looked for: a plan has them in cells/CELL/REPETITION.
const DEEP: usize = 3;

/// A directory that is a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    /// As it was given; what lies below, with its path.
    pub name: String,
    pub path: PathBuf,
    pub trace: bool,
    /// What loads said: `load.json`, and of a plan's copies `load.2.json` ...
    pub loads: Vec<PathBuf>,
    /// What `plumb watch` kept there: windows/DATE.jsonl; its runs are runs of their own, in runs/.
    pub windows: Vec<PathBuf>,
}

fn has_trace(path: &Path) -> bool {
    path.join("metadata").is_file() || path.join("trace").join("metadata").is_file()
}

fn loads(path: &Path) -> Vec<PathBuf> {
    let others = (2..).map(|n| path.join(format!("load.{n}.json")));
    std::iter::once(path.join("load.json")).chain(others).take_while(|p| p.is_file()).collect()
}

fn windows(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.join("windows")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    files.sort();
    files
}

/// The runs in some directories: the directory itself, or those of a set or plan below it.
///
/// # Errors
/// A directory is not there, holds no run, or is named twice.
pub fn runs(named: &[PathBuf]) -> Result<Vec<RunDir>> {
    let mut out: Vec<RunDir> = Vec::new();
    let mut seen: Vec<(PathBuf, String)> = Vec::new();
    for path in named {
        let mut name = path.display().to_string();
        while name.len() > 1 && name.ends_with('/') {
            name.pop();
        }
        let before = out.len();
        if !path.is_dir() {
            bail!("{name}: no such directory; plumb run -o DIR -- COMMAND makes one");
        }
        if crate::lake::looks_like(path) {
            bail!("{name}: is a lake, and no run; plumb query and plumb compare --lake read lakes");
        }
        look(path, &name, DEEP, &mut out)?;
        if out.len() == before {
            bail!("{name}: holds neither a trace nor a load.json nor windows, and no directory below does");
        }
        for run in &out[before..] {
            let real = run.path.canonicalize().with_context(|| run.name.clone())?;
            if let Some((_, other)) = seen.iter().find(|(path, _)| *path == real) {
                bail!("{} and {other} are the same run: its rows would count twice; name it once", run.name);
            }
            seen.push((real, run.name.clone()));
        }
    }
    Ok(out)
}

fn look(path: &Path, name: &str, deep: usize, out: &mut Vec<RunDir>) -> Result<()> {
    let (trace, loads) = (has_trace(path), loads(path));
    let windows = windows(path);
    if trace || !loads.is_empty() || !windows.is_empty() {
        out.push(RunDir { name: name.into(), path: path.into(), trace, loads, windows });
        return Ok(());
    }
    if deep == 0 {
        return Ok(());
    }
    let mut below = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| name.to_string())? {
        let entry = entry.with_context(|| name.to_string())?;
        // Not through links: they may lead anywhere, and back.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            below.push(entry.file_name());
        }
    }
    // 2 before 10.
    below.sort_by_key(|n| (n.to_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(u64::MAX), n.clone()));
    for child in below {
        look(&path.join(&child), &format!("{name}/{}", child.to_string_lossy()), deep - 1, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(named: &[PathBuf]) -> Result<Vec<String>, String> {
        runs(named).map(|r| r.into_iter().map(|r| r.name).collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_set_is_its_runs_in_their_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = dir.path().join("set");
        for n in ["10", "2"] {
            fs::create_dir_all(set.join(n).join("trace")).expect("made");
            fs::write(set.join(n).join("trace/metadata"), "").expect("written");
        }
        fs::create_dir_all(set.join("charts")).expect("made");
        let name = set.display().to_string();
        assert_eq!(names(std::slice::from_ref(&set)), Ok(vec![format!("{name}/2"), format!("{name}/10")]));
        let again = names(&[set.clone(), set.join("2/")]);
        assert!(again.is_err_and(|e| e.contains("same run")), "a run twice");
    }

    #[test]
    fn a_plans_cells_have_their_loads() {
        let dir = tempfile::tempdir().expect("a directory");
        let cell = dir.path().join("cells/001-a/1");
        fs::create_dir_all(&cell).expect("made");
        for name in ["load.json", "load.2.json", "load.4.json"] {
            fs::write(cell.join(name), "{}").expect("written");
        }
        let found = runs(&[dir.path().into()]).expect("a run");
        assert_eq!((found.len(), found[0].trace, found[0].loads.len()), (1, false, 2));
    }

    #[test]
    fn what_a_watch_keeps_is_a_run_with_windows() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["windows", "runs/20261128-130158-flock/trace"] {
            fs::create_dir_all(dir.path().join(name)).expect("made");
        }
        fs::write(dir.path().join("runs/20261128-130158-flock/trace/metadata"), "").expect("written");
        for name in ["2026-11-28.jsonl", "2026-11-27.jsonl", "notes"] {
            fs::write(dir.path().join("windows").join(name), "").expect("written");
        }
        let found = runs(&[dir.path().into()]).expect("a watch");
        assert_eq!((found.len(), found[0].trace, found[0].windows.len()), (1, false, 2));
        assert!(found[0].windows[0].ends_with("2026-11-27.jsonl"), "in the order of time");
        assert_eq!(runs(&[dir.path().join("runs")]).expect("its runs").len(), 1);
    }

    #[test]
    fn what_is_no_run_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = names(&[dir.path().into()]);
        assert!(empty.is_err_and(|e| e.contains("holds neither")));
        let missing = names(&[dir.path().join("missing")]);
        assert!(missing.is_err_and(|e| e.contains("missing: no such directory")));
    }
}
