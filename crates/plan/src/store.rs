// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plan.json` on the disk: whole at every moment, whatever happens.

use super::state::State;
use anyhow::{Context, Result};
use plumb_machine::Space;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

/// Its name in a plan's directory.
pub const STATE: &str = "plan.json";
/// The plan as it runs, in the same place.
pub const PLAN: &str = "plan.toml";
const NEW: &str = "plan.json.new";
/// Room that is given up when there is no other left to say what was made.
const RESERVE: &str = "reserve";
const RESERVE_BYTES: usize = 1 << 20;
/// Room without which no repetition is begun, bytes.
const LEAST: u64 = 16 << 20;

/// The state of a plan that was begun in this directory.
///
/// # Errors
/// None was; or as [`read`].
pub fn state(dir: &Path) -> Result<State> {
    read(dir)?.with_context(|| {
        if dir.extension().is_some_and(|e| e == "toml") {
            return format!("{0}: a plan, not a run of one; 'plumb plan run {0} -o DIR' makes one", dir.display());
        }
        format!(
            "{}: holds no run of a plan ({STATE} is missing); give the directory that 'plumb plan run -o DIR' wrote",
            dir.display()
        )
    })
}

/// The same where there may be none.
///
/// # Errors
/// It cannot be read, or is of another version's making.
pub fn read(dir: &Path) -> Result<Option<State>> {
    let path = dir.join(STATE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None)
        }
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let state = serde_json::from_reader(BufReader::new(file)).with_context(|| {
        format!("{}: damaged, or of another version of plumb; run the plan again", path.display())
    })?;
    Ok(Some(state))
}

/// Makes a new directory a plan's.
///
/// # Errors
/// A file cannot be written.
pub fn begin(dir: &Path, state: &State) -> Result<()> {
    let text = state.plan.text().context("the plan as TOML")?;
    std::fs::write(dir.join(PLAN), text).with_context(|| dir.join(PLAN).display().to_string())?;
    reserve(dir);
    write(dir, state)
}

/// Takes the room that [`write`] may need later.
pub fn reserve(dir: &Path) {
    // Without it the last repetition of a full disk is made again, no more.
    let _ = std::fs::write(dir.join(RESERVE), vec![0x55; RESERVE_BYTES]);
}

pub fn release(dir: &Path) {
    let _ = std::fs::remove_file(dir.join(RESERVE));
}

/// Writes it: a new file, on the disk before it takes the old one's name.
///
/// # Errors
/// There is no room, or the disk fails; the old one stands.
pub fn write(dir: &Path, state: &State) -> Result<()> {
    let text = serde_json::to_vec_pretty(state).context(STATE)?;
    let put = || -> io::Result<()> {
        let mut out = BufWriter::new(File::create(dir.join(NEW))?);
        out.write_all(&text)?;
        out.write_all(b"\n")?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(dir.join(NEW), dir.join(STATE))?;
        File::open(dir)?.sync_all()
    };
    let done = match put() {
        Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => {
            release(dir);
            put()
        }
        done => done,
    };
    done.with_context(|| dir.join(STATE).display().to_string())
}

/// Why there is too little room for another repetition, if there is.
pub fn lacks_room(dir: &Path) -> Option<String> {
    let free = Space::of(dir).ok()?.free;
    (free < LEAST)
        .then(|| format!("no room: {} are free in {}", plumb_trace::units::bytes(free), dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let dir = tempfile::TempDir::new().expect("a directory");
        assert!(read(dir.path()).expect("none").is_none());
        let plan = toml::from_str(
            r#"
            name = "t"
            title = "t"
            purpose = "t"
            hypothesis = "t"
            takes = "1s"
            [device.disk]
            model = "instant"
            [cell]
            device = "disk"
            sysctl = { "vm.swappiness" = 1 }
            [[factor]]
            name = "size"
            level = [{ name = "4K", load = { block = "4K" } }, { name = "8K", load = { block = "8K", direct = true } }]
            "#,
        )
        .expect("a plan");
        let state = State { arguments: vec!["plumb".into()], schedule: vec![(0, 1)], ..State::empty(plan) };
        begin(dir.path(), &state).expect("written");
        assert_eq!(read(dir.path()).expect("read"), Some(state.clone()));
        let text = std::fs::read_to_string(dir.path().join(PLAN)).expect("TOML");
        assert_eq!(toml::from_str::<super::super::file::PlanFile>(&text).expect("TOML"), state.plan);
        assert!(!dir.path().join(NEW).exists());
    }

    #[test]
    fn what_is_no_run_is_named_with_the_next_step() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let said = |path: &Path| format!("{:#}", state(path).expect_err("no run"));
        let none = said(dir.path());
        assert!(none.contains("plan.json") && none.contains("plumb plan run"), "{none}");
        let plan = dir.path().join("mine.toml");
        std::fs::write(&plan, "name = \"mine\"").expect("a file");
        let file = said(&plan);
        assert!(file.contains("a plan, not a run") && file.contains("mine.toml -o"), "{file}");
        std::fs::write(dir.path().join(STATE), "{").expect("a file");
        let half = said(dir.path());
        assert!(half.contains("damaged") && half.contains("plan.json"), "{half}");
    }
}
