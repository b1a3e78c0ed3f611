// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User code: where it lies in each process, how its stacks are walked without
//! frame pointers, and what its functions are called.
//!
//! A stack comes as registers and a bounded copy of its memory; it is walked here at
//! once, by the tables that compilers write for exceptions (`.eh_frame`), and only its
//! return addresses are kept: no stack memory goes to disk.

mod elf;
mod maps;
mod modules;
mod names;
pub mod parsers;
mod python;
mod records;
mod rings;
mod spaces;
mod walk;

#[cfg(test)]
mod tests;

pub use elf::Elf;
pub use modules::{Kind, Module, Modules};
pub use names::Places;
pub use spaces::Spaces;

/// User registers that walking begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    /// Frame pointer: rbp, x29.
    pub bp: u64,
    /// Link register x30; 0 on x86-64.
    pub lr: u64,
}

/// How far a stack was walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum End {
    Root = 0,
    /// To the end of the copy: more of it must be copied.
    Copy = 1,
    /// To a frame of which no rule tells the caller.
    NoRule = 2,
    /// Only the registers were there.
    Registers = 3,
}

/// A user stack, as places in modules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserStack {
    /// Innermost first: number of the module, and the offset in its file (address where
    /// the module is no file). Callers' are return addresses.
    pub frames: Vec<(u32, u64)>,
    pub end: End,
}
