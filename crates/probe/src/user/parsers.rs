// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers of bytes that others wrote, for `fuzz/`. No part of the library's interface.

use super::elf::Elf;
use super::maps;
use super::names;
use super::records;
use super::walk::{At, Code, Copied, Step, Walker};
use super::Registers;

/// Most frames that are walked.
const FRAMES: usize = 200;

/// This process's vdso.
pub fn vdso() -> Option<Vec<u8>> {
    names::vdso()
}

/// Walks a stack by an ELF file's tables; returns how far.
pub fn walk([ip, sp, bp, lr]: [u64; 4], stack: &[u8], file: &[u8]) -> u64 {
    let mut walker = Walker::default();
    if let Some(elf) = Elf::of_memory(&aligned(file)) {
        walker.add(1, elf);
    }
    walker.begin(Registers { ip, sp, bp, lr });
    let copy = Copied { start: sp, bytes: stack };
    let mut at = At::Instruction(ip);
    for n in 0..FRAMES {
        // Every third frame a signal's: its registers come from the stack.
        let code = Code { module: (n % 5 != 4).into(), shift: 0, trampoline: n % 3 == 2 };
        match walker.step(at, code, copy) {
            Step::Frame(next) => at = next,
            Step::End(end) => return (n as u64) << 8 | end as u64,
        }
    }
    u64::MAX
}

/// As memory and mappings of files are: headers at an odd address are refused.
fn aligned(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

/// Reads bytes as what the number says; returns about how much was found (its logarithm).
pub fn read(which: u8, bytes: &[u8]) -> u64 {
    let found = match which {
        3 => records::Record::parse(bytes).is_some().into(),
        6 => maps::of_text(&String::from_utf8_lossy(bytes)).len(),
        _ => names::read(which, &aligned(bytes)),
    };
    // How much about: every length is no other way to read.
    found.checked_ilog2().map_or(0, |n| u64::from(n) + 1)
}
