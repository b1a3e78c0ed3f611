// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks one stack by its modules' unwind tables.
//!
//! A file's tables are asked by the addresses that the file states, so one reader and one
//! cache of rules serve all processes that have it mapped.
//!
//! Known limit: of the registers only instruction, stack and frame pointer are followed.
//! A frame whose rule needs another one (a function that realigns its stack without rbp)
//! is walked by its frame pointer, which may be wrong. Signal frames, whose rules are of that kind,
//! are walked here on x86-64; on other machines they end the walk.

use super::elf::Elf;
use super::{End, Registers};
use framehop::{Error, FrameAddress, Module, Unwinder};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{
    CacheAarch64 as Cache, PtrAuthMask, UnwindRegsAarch64 as Regs, UnwinderAarch64 as Native,
};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64 as Regs, UnwinderX86_64 as Native};

/// Tables in memory at most, bytes; beyond it all are dropped, and read again when they are needed.
const MOST_TABLES: usize = 512 << 20;
/// A word that a rule asks for this far above the stack pointer is no stack's: the rule was wrong.
const LARGEST_STACK: u64 = 64 << 20;
/// Call sites of a file that are remembered to be none of a signal's.
const MOST_SITES: usize = 1 << 16;

/// A stack's memory, as far as it was copied.
#[derive(Debug, Clone, Copy)]
pub struct Copied<'a> {
    /// Address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Copied<'_> {
    /// The word at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(u64::from_le_bytes(self.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }

    /// What it means that the word at an address is not there.
    fn missing(&self, address: u64) -> End {
        let above = address.checked_sub(self.start).is_some_and(|d| d < LARGEST_STACK);
        if above && address % 8 == 0 {
            End::Copy
        } else {
            End::NoRule
        }
    }
}

/// Where a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// An instruction that was interrupted, or comes next.
    Instruction(u64),
    /// Behind a call.
    Return(u64),
}

impl At {
    /// An address inside the instruction that the frame is at.
    pub fn inside(self) -> u64 {
        match self {
            Self::Instruction(address) => address,
            Self::Return(address) => address.saturating_sub(1),
        }
    }
}

/// What a step found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller's frame.
    Frame(At),
    /// None.
    End(End),
}

/// What the code of a frame belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Code<'a> {
    /// Its module's number; its tables are used if they were given.
    pub module: u32,
    /// The frame's address less its offset in the module's file (wraps around).
    pub shift: u64,
    /// The module's file.
    pub file: Option<&'a File>,
}

struct Tables {
    elf: Elf,
    native: Native<Arc<[u8]>>,
    cache: Cache,
    /// Whether the code at an offset that was returned to ends a signal's handler.
    sites: HashMap<u64, bool>,
}

/// Tables of all modules, and the state of one walk.
pub struct Walker {
    tables: HashMap<u32, Tables>,
    bytes: usize,
    plain: Native<Arc<[u8]>>,
    plain_cache: Cache,
    regs: Regs,
    first: bool,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker").field("files", &self.tables.len()).field("bytes", &self.bytes).finish()
    }
}

impl Default for Walker {
    fn default() -> Self {
        Self {
            tables: HashMap::new(),
            bytes: 0,
            plain: Native::new(),
            plain_cache: Cache::new(),
            regs: native(Registers::default()),
            first: true,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn native(r: Registers) -> Regs {
    Regs::new(r.ip, r.sp, r.bp)
}

#[cfg(target_arch = "aarch64")]
fn native(r: Registers) -> Regs {
    // User addresses have 48 bits; above them may lie a return address's signature.
    Regs::new_with_ptr_auth_mask(PtrAuthMask(u64::MAX >> 16), r.lr, r.sp, r.bp)
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(regs: &Regs) -> u64 {
    regs.bp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(regs: &Regs) -> u64 {
    regs.fp()
}

/// What every C library's and runtime's signal trampoline is: mov $15 (rt_sigreturn),%rax; syscall.
/// Debuggers know it by these bytes too: not all have tables.
#[cfg(target_arch = "x86_64")]
const TRAMPOLINE: &[u8] = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05";
#[cfg(target_arch = "aarch64")]
const TRAMPOLINE: &[u8] = &[];

/// The registers that a signal interrupted, from its frame: struct ucontext at `sp`, whose uc_mcontext
/// (at 40: r8..r15, di, si, bp, bx, dx, ax, cx, sp, ip) is ABI.
#[cfg(target_arch = "x86_64")]
fn interrupted(sp: u64, copy: Copied<'_>) -> Result<Registers, u64> {
    let word = |index: u64| {
        let address = sp.wrapping_add(40 + 8 * index);
        copy.word(address).ok_or(address)
    };
    Ok(Registers { ip: word(16)?, sp: word(15)?, bp: word(10)?, lr: 0 })
}

#[cfg(target_arch = "aarch64")]
fn interrupted(sp: u64, _: Copied<'_>) -> Result<Registers, u64> {
    Err(sp)
}

impl Walker {
    /// Begins a walk.
    pub fn begin(&mut self, registers: Registers) {
        self.regs = native(registers);
        self.first = true;
    }

    /// Whether a module's tables are here.
    pub fn knows(&self, module: u32) -> bool {
        self.tables.contains_key(&module)
    }

    /// Takes a module's tables in.
    pub fn add(&mut self, module: u32, mut elf: Elf) {
        if self.bytes.saturating_add(elf.bytes) > MOST_TABLES {
            self.tables.clear();
            self.bytes = 0;
        }
        let mut native = Native::new();
        let low = elf.segments.iter().map(|s| s.address).min().unwrap_or(0);
        let high = elf.segments.iter().map(|s| s.address.saturating_add(s.file.end - s.file.start)).max();
        if let Some(tables) = elf.tables.take() {
            let range: Range<u64> = low..high.unwrap_or(low);
            native.add_module(Module::new(String::new(), range, low, tables));
        }
        self.bytes += elf.bytes;
        self.tables.insert(module, Tables { elf, native, cache: Cache::new(), sites: HashMap::new() });
    }

    /// From the frame at `at` to its caller.
    pub fn step(&mut self, at: At, code: Code<'_>, copy: Copied<'_>) -> Step {
        let first = std::mem::take(&mut self.first);
        let tables = self.tables.get_mut(&code.module);
        if tables.as_ref().is_some_and(|t| t.elf.narrow) {
            return Step::End(End::NoRule);
        }
        let sp = self.regs.sp();
        let offset = at.inside().wrapping_sub(code.shift);
        let inside = tables.as_ref().and_then(|t| t.elf.address(offset));
        let (native, cache, inside, by_table) = match (tables, inside) {
            (Some(t), Some(inside)) => {
                if let (At::Return(_), Some(file)) = (at, code.file) {
                    if t.ends_signal(file, offset + 1) {
                        return self.signal(sp, copy);
                    }
                }
                (&t.native, &mut t.cache, inside, true)
            }
            (_, _) => (&self.plain, &mut self.plain_cache, at.inside(), false),
        };
        let address = match at {
            At::Instruction(_) => FrameAddress::from_instruction_pointer(inside),
            At::Return(_) => match FrameAddress::from_return_address(inside.wrapping_add(1)) {
                Some(address) => address,
                None => return Step::End(End::NoRule),
            },
        };
        let bp = frame_pointer(&self.regs);
        let (mut failed, mut went_on) = (None, false);
        let mut read = |address| {
            went_on |= failed.is_some();
            copy.word(address).ok_or_else(|| {
                failed.get_or_insert(address);
            })
        };
        let result = native.unwind_frame(address, &mut self.regs, cache, &mut read);
        if let Some(missing) = failed.filter(|&a| a >= sp) {
            // A rule that cannot be cached, and fails for want of the copy, leaves the frame pointer's in
            // the cache for that address.
            if went_on || result != Err(Error::CouldNotReadStack(missing)) {
                *cache = Cache::new();
            }
            return Step::End(copy.missing(missing));
        }
        match result {
            Ok(Some(caller)) => {
                let grew =
                    self.regs.sp() > sp || (first && cfg!(target_arch = "aarch64") && self.regs.sp() == sp);
                if grew {
                    Step::Frame(At::Return(caller))
                } else {
                    Step::End(End::NoRule)
                }
            }
            // Without a table only a chain of frame pointers that ends in 0 is a root.
            Ok(None) if by_table || (bp == 0 && !first) => Step::End(End::Root),
            Ok(None) => Step::End(End::NoRule),
            Err(Error::CouldNotReadStack(address)) => Step::End(copy.missing(address)),
            Err(_) => Step::End(End::NoRule),
        }
    }

    /// From a signal's frame to what it interrupted. The stack may be another one from here on.
    fn signal(&mut self, sp: u64, copy: Copied<'_>) -> Step {
        match interrupted(sp, copy) {
            Ok(registers) => {
                self.regs = native(registers);
                self.first = true;
                Step::Frame(At::Instruction(registers.ip))
            }
            Err(address) => Step::End(copy.missing(address)),
        }
    }

    /// Whether the code that a frame returns to ends a signal's handler.
    pub fn ends_signal(&mut self, module: u32, file: &File, offset: u64) -> bool {
        self.tables.get_mut(&module).is_some_and(|t| t.ends_signal(file, offset))
    }
}

impl Tables {
    fn ends_signal(&mut self, file: &File, offset: u64) -> bool {
        use std::os::unix::fs::FileExt;
        if TRAMPOLINE.is_empty() {
            return false;
        }
        if self.sites.len() >= MOST_SITES {
            self.sites.clear();
        }
        *self.sites.entry(offset).or_insert_with(|| {
            let mut bytes = [0u8; TRAMPOLINE.len()];
            file.read_exact_at(&mut bytes, offset).is_ok() && bytes == *TRAMPOLINE
        })
    }
}
