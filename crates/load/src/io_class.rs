// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The I/O priority class of a load, as ionice(1) sets that of a command.

use anyhow::{bail, Result};
use clap::ValueEnum;
use std::io;

/// Of ioprio_set(2): the calling thread.
const THREAD: libc::c_int = 1;
const CLASS_SHIFT: libc::c_int = 13;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IoClass {
    /// Before all others (root)
    Realtime,
    /// As most processes, level 4
    BestEffort,
    /// The background: when nobody else wants the disk
    Idle,
}

impl IoClass {
    fn value(self) -> libc::c_int {
        match self {
            IoClass::Realtime => 1 << CLASS_SHIFT | 4,
            IoClass::BestEffort => 2 << CLASS_SHIFT | 4,
            IoClass::Idle => 3 << CLASS_SHIFT,
        }
    }

    /// Gives it to the calling thread, and to what that starts from here on.
    ///
    /// # Errors
    /// The kernel refuses; the class is named, with the next step.
    pub fn take(self) -> Result<()> {
        // SAFETY: a call with numbers.
        match unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, self.value()) } {
            0 => Ok(()),
            _ => {
                let name = self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_string());
                let error = io::Error::last_os_error();
                bail!("cannot set the I/O priority class {name}: {error}\nhint: realtime needs root; best-effort and idle do not")
            }
        }
    }
}

#[test]
fn a_thread_and_the_processes_that_it_starts_have_the_class() {
    let told = std::thread::spawn(|| {
        IoClass::Idle.take().expect("no privilege is needed");
        // SAFETY: a call with numbers.
        let own = unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, 0) };
        let child = std::process::Command::new("ionice").output();
        (own, child.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string()))
    });
    let (own, child) = told.join().expect("a thread");
    assert_eq!(own, 3 << 13);
    match child {
        Ok(said) => assert_eq!(said, "idle"),
        Err(e) => println!("SKIP the child of a_thread_and_the_processes_that_it_starts: ionice: {e}"),
    }
}
