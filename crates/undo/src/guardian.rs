// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that puts things back when the run itself is killed.
//!
//! It is told over a pipe which process groups the run has. When the pipe closes without a
//! good-bye, the run is dead: it kills those groups and undoes what stands open in the journal.
//! It shares the run's locks, so that nobody else begins before it has ended.

use crate::change::Held;
use crate::devices::Devices;
use crate::journal::restore;
use crate::undo;
use anyhow::Result;
use plumb_machine::child::{ours_alone, Child};
use plumb_machine::descriptors;
use plumb_machine::process::start_of;
use plumb_machine::signals::{self, pipe};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const BEGINS: i32 = 1;
const ENDED: i32 = 2;
const GOODBYE: i32 = 3;

/// Whose changes are put back, in words.
#[derive(Debug, Clone, Copy)]
pub struct Whose {
    pub who: &'static str,
    /// The command that puts back what cannot be now; the directory follows.
    pub restore: &'static str,
    /// The directory is there for the journal alone, and goes with it.
    pub only_journal: bool,
    pub devices: &'static dyn Devices,
}

/// The guardian of a run.
#[derive(Debug)]
pub struct Guardian {
    dir: PathBuf,
    whose: Whose,
    end: Option<(Child, File)>,
}

impl Guardian {
    /// Starts it. This process must have one thread, and the locks that it shares.
    ///
    /// # Errors
    /// No process can be made.
    pub fn start(dir: &Path, whose: Whose) -> Result<Guardian> {
        let (read, write) = pipe(0)?;
        let (read, write) = (File::from(read), File::from(write));
        let child = Child::fork(|| {
            // SAFETY: the descriptor is ours; in this process nobody else knows it.
            unsafe { libc::close(write.as_raw_fd()) };
            watch(read, dir, whose);
            0
        })?;
        ours_alone(write.as_raw_fd());
        Ok(Guardian { dir: dir.into(), whose, end: Some((child, write)) })
    }

    /// The process, for whoever is to end with it.
    pub fn pid(&self) -> u32 {
        self.end.as_ref().map_or(0, |(child, _)| child.pid() as u32)
    }

    /// Starts another one if somebody killed it; true if so.
    ///
    /// # Errors
    /// No process can be made.
    pub fn renew(&mut self) -> Result<bool> {
        let dead = match &mut self.end {
            Some((child, _)) => child.has_ended(),
            None => true,
        };
        if dead {
            self.end = None;
            ours_alone(-1);
            *self = Guardian::start(&self.dir, self.whose)?;
        }
        Ok(dead)
    }

    pub fn begins(&mut self, group: i32) {
        self.tell(BEGINS, group);
    }

    pub fn ended(&mut self, group: i32) {
        self.tell(ENDED, group);
    }

    fn tell(&mut self, word: i32, group: i32) {
        if let Some((_, pipe)) = &mut self.end {
            let message = [word.to_ne_bytes(), group.to_ne_bytes()].concat();
            // That it is dead is seen by `renew`.
            let _ = pipe.write_all(&message);
        }
    }

    pub fn goodbye(mut self) {
        self.tell(GOODBYE, 0);
    }
}

impl Drop for Guardian {
    /// Without a good-bye it puts back what stands open; its end is waited for in any case.
    fn drop(&mut self) {
        if let Some((child, pipe)) = self.end.take() {
            ours_alone(-1);
            drop(pipe);
            child.wait();
        }
    }
}

fn watch(mut pipe: File, dir: &Path, whose: Whose) {
    // SAFETY: calls on this process alone. Signals of the terminal and of `kill` are the run's business.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"plumb-guardian".as_ptr());
        signals::ignore();
        // A lock or pipe of the caller's is not held by who waits for its end.
        descriptors::close_inherited();
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // Who reads the run's result waits for the run, not for this.
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            libc::dup2(null.as_raw_fd(), 0);
            libc::dup2(null.as_raw_fd(), 1);
        }
    }
    let mut groups: Vec<(i32, u64)> = Vec::new();
    let mut message = [0; 8];
    while pipe.read_exact(&mut message).is_ok() {
        let [word, group] = [0, 4].map(|at| {
            let mut number = [0; 4];
            number.copy_from_slice(&message[at..at + 4]);
            i32::from_ne_bytes(number)
        });
        match word {
            BEGINS => groups.extend(start_of(group).map(|start| (group, start))),
            ENDED => groups.retain(|(g, _)| *g != group),
            _ => return,
        }
    }
    for (group, start) in groups {
        undo::kill(group, start);
    }
    let say = |line: &str| {
        let _ = writeln!(std::io::stderr(), "plumb: {} is gone; {line}", whose.who);
    };
    match restore(dir, Held::Ever, whose.devices, &mut |line| say(line)) {
        Ok(true) if whose.only_journal => drop(std::fs::remove_dir_all(dir)),
        Ok(true) => {}
        Ok(false) => say(&format!("call '{} {}' when that is mended", whose.restore, dir.display())),
        Err(error) => say(&format!("{error:#}")),
    }
}
