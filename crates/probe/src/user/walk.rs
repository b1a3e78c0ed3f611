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

use super::elf::{Elf, Sections};
use super::{End, Registers};
use framehop::{Error, FrameAddress, Module, Unwinder};
use std::fs::File;
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
/// Places that a file's stacks return to, of which it is remembered whether a signal's handler ends
/// there. A prime: they are found by their remainder.
const SITES: usize = 1021;
/// Rules that a cache of framehop's keeps, and such caches of a file's tables: 32,576 rules in 0.8 MB
/// where all are needed.
const CACHED: u64 = 509;
const CACHES: usize = 64;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// An instruction that was interrupted, or comes next.
    Instruction(u64),
    Return(u64),
}

impl At {
    pub fn address(self) -> u64 {
        match self {
            Self::Instruction(address) | Self::Return(address) => address,
        }
    }

    /// An address inside the instruction that the frame is at.
    pub fn inside(self) -> u64 {
        match self {
            Self::Instruction(address) => address,
            Self::Return(address) => address.saturating_sub(1),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Frame(At),
    End(End),
}

/// What the code of a frame belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// Its module's number; its tables are used if they were given.
    pub module: u32,
    /// The frame's address less its offset in the module's file (wraps around).
    pub shift: u64,
    /// It ends a signal's handler: [`Walker::ends_signal`].
    pub trampoline: bool,
}

/// Rules by address. One cache of framehop's keeps 509 of them, each at its address's remainder; a
/// compiler's stacks go through a hundred thousand places, and a rule that is not kept is read from
/// the tables again, which takes longer than all the rest of a frame.
#[derive(Default)]
struct Caches(Vec<Option<Cache>>);

impl Caches {
    fn of(&mut self, address: u64) -> &mut Option<Cache> {
        if self.0.is_empty() {
            self.0.resize_with(CACHES, || None);
        }
        // What lies between two addresses of one place in a cache is the cache's size.
        let at = (address / CACHED % CACHES as u64) as usize;
        &mut self.0[at]
    }
}

struct Tables {
    elf: Elf,
    native: Native<Arc<[u8]>>,
    caches: Caches,
    /// Readers of the second tables, where there are some.
    second: Option<(Native<Arc<[u8]>>, Caches)>,
    /// Offset << 1 | whether it is a trampoline.
    sites: Vec<u64>,
}

/// Tables of all modules, and the state of one walk.
pub struct Walker {
    tables: Vec<Option<Tables>>,
    bytes: usize,
    plain: Native<Arc<[u8]>>,
    plain_caches: Caches,
    regs: Regs,
    first: bool,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker")
            .field("files", &self.tables.iter().flatten().count())
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl Default for Walker {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            bytes: 0,
            plain: Native::new(),
            plain_caches: Caches::default(),
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
    pub fn begin(&mut self, registers: Registers) {
        self.regs = native(registers);
        self.first = true;
    }

    fn tables(&mut self, module: u32) -> Option<&mut Tables> {
        self.tables.get_mut(module as usize)?.as_mut()
    }

    /// Whether a module's tables are here.
    pub fn knows(&self, module: u32) -> bool {
        self.tables.get(module as usize).is_some_and(Option::is_some)
    }

    /// Takes a module's tables in.
    pub fn add(&mut self, module: u32, mut elf: Elf) {
        if self.bytes.saturating_add(elf.bytes) > MOST_TABLES {
            self.tables.clear();
            self.bytes = 0;
        }
        let low = elf.segments.iter().map(|s| s.address).min().unwrap_or(0);
        let high = elf.segments.iter().map(|s| s.address.saturating_add(s.file.end - s.file.start)).max();
        let range = low..high.unwrap_or(low);
        let reader = |sections: Option<Sections>| {
            let mut native = Native::new();
            if let Some(sections) = sections {
                native.add_module(Module::new(String::new(), range.clone(), low, sections));
            }
            native
        };
        let native = reader(elf.tables.take());
        let second = elf.second.take().map(|s| (reader(Some(s)), Caches::default()));
        self.bytes += elf.bytes;
        let at = module as usize;
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, || None);
        }
        let sites = vec![u64::MAX; SITES];
        self.tables[at] = Some(Tables { elf, native, caches: Caches::default(), second, sites });
    }

    /// From the frame at `at` to its caller.
    pub fn step(&mut self, at: At, code: Code, copy: Copied<'_>) -> Step {
        let first = std::mem::take(&mut self.first);
        let sp = self.regs.sp();
        if code.trampoline {
            return self.signal(sp, copy);
        }
        let tables = self.tables.get_mut(code.module as usize).and_then(Option::as_mut);
        if tables.as_ref().is_some_and(|t| t.elf.narrow) {
            return Step::End(End::NoRule);
        }
        let offset = at.inside().wrapping_sub(code.shift);
        let inside = tables.as_ref().and_then(|t| t.elf.address(offset));
        let (native, caches, inside, by_table) = match (tables, inside) {
            (Some(Tables { elf, second: Some((native, caches)), .. }), Some(inside))
                if elf.second_has(inside) =>
            {
                (&*native, caches, inside, true)
            }
            (Some(t), Some(inside)) => (&t.native, &mut t.caches, inside, true),
            (_, _) => (&self.plain, &mut self.plain_caches, at.inside(), false),
        };
        let address = match at {
            At::Instruction(_) => FrameAddress::from_instruction_pointer(inside),
            At::Return(_) => match FrameAddress::from_return_address(inside.wrapping_add(1)) {
                Some(address) => address,
                None => return Step::End(End::NoRule),
            },
        };
        let bp = frame_pointer(&self.regs);
        let kept = caches.of(inside);
        let cache = kept.get_or_insert_with(Cache::new);
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
                *kept = None;
            }
            return Step::End(copy.missing(missing));
        }
        match result {
            Ok(Some(caller)) => {
                let now = self.regs.sp();
                // A leaf of arm64 may have no frame: its caller is in a register.
                if now > sp || (cfg!(target_arch = "aarch64") && first && now == sp) {
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

    /// Whether the code at `offset`, to which a frame returns, ends a signal's handler.
    pub fn ends_signal(&mut self, module: u32, file: &File, offset: u64) -> bool {
        use std::os::unix::fs::FileExt;
        if TRAMPOLINE.is_empty() {
            return false;
        }
        let Some(tables) = self.tables(module) else { return false };
        let site = &mut tables.sites[(offset % SITES as u64) as usize];
        if *site >> 1 != offset {
            let mut bytes = [0u8; TRAMPOLINE.len()];
            let is = file.read_exact_at(&mut bytes, offset).is_ok() && bytes == *TRAMPOLINE;
            *site = offset << 1 | u64::from(is);
        }
        *site & 1 != 0
    }
}
