// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of user code, each known by a number and kept open, so that a file that is
//! deleted, replaced or left behind by its container can still be read at the end.

use plumb_trace::schema::StateModule;
use std::fs::File;

/// What a module is; numbers as in `state_module`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A file.
    File = 0,
    /// Code that a process made itself.
    Jit = 1,
    /// The kernel's vdso.
    Vdso = 2,
    /// Nothing was mapped there when it was looked for.
    Nothing = 3,
}

/// One source of user code.
#[derive(Debug)]
pub struct Module {
    /// Its number, from 1 on.
    pub number: u32,
    /// What it is.
    pub kind: Kind,
    /// Process whose code it is; 0 for files and the vdso.
    pub pid: u32,
    /// GNU build id in hex, empty where there is none.
    pub build_id: String,
    /// Path as its process saw it.
    pub path: String,
    /// The file, kept open; of [`Kind::Jit`] the process's perf map (`/tmp/perf-PID.map`) where
    /// there was one when the module was first met. `None` where it could not be opened.
    pub file: Option<File>,
    /// Why there is no file; empty when there is.
    pub lacking: String,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Modules {
    all: Vec<Module>,
    told: usize,
}

impl Modules {
    /// Every module, by number.
    pub fn all(&self) -> &[Module] {
        &self.all
    }

    /// Those that came since the last call, as the trace tells them.
    pub fn news(&mut self) -> Vec<StateModule> {
        let from = std::mem::replace(&mut self.told, self.all.len());
        self.all[from..]
            .iter()
            .map(|m| StateModule {
                module: m.number,
                kind: m.kind as u32,
                pid: m.pid,
                build_id: m.build_id.clone(),
                path: m.path.clone(),
            })
            .collect()
    }
}
