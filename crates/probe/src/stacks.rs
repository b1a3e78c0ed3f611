// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks as the BPF programs hand them over, and the kernel's symbols.

use crate::skel::types;
use crate::user::Registers;
use std::mem::offset_of;

/// Why a stack was taken (enum plumb_stack_kind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its thread slept on it.
    Wait,
    /// It is the user stack of a system call in which its thread slept.
    Call,
    /// Who woke the thread was there.
    Waker,
    /// The sampling clock ticked.
    Sample,
    /// Its kernel frames are code objects of Python, see PLUMB_STACK_PYTHON.
    Python,
}

/// Bytes of user stack that the classes copy (PLUMB_COPY_0 and on).
const COPIES: [usize; 3] = [2048, 8192, 32_768];
/// Places of threads in the table of classes (PLUMB_COPY_SLOTS).
pub const COPY_SLOTS: usize = 65_536;
/// Bytes before the kernel's frames.
const HEAD: usize = 64;
/// Bytes before the copy.
const FIXED: usize = HEAD + 8 * 64;
/// Bytes that a record takes of the ring buffer at most.
pub const LARGEST: usize = 8 + FIXED + COPIES[COPIES.len() - 1];

type Struct = types::plumb_stack;
const _: () = {
    assert!(offset_of!(Struct, end) == 0);
    assert!(offset_of!(Struct, tid) == 8);
    assert!(offset_of!(Struct, by) == 12);
    assert!(offset_of!(Struct, pid) == 16);
    assert!(offset_of!(Struct, kind) == 20);
    assert!(offset_of!(Struct, cpu) == 22);
    assert!(offset_of!(Struct, bytes) == 24);
    assert!(offset_of!(Struct, copied) == 28);
    assert!(offset_of!(Struct, ip) == 32);
    assert!(offset_of!(Struct, sp) == 40);
    assert!(offset_of!(Struct, bp) == 48);
    assert!(offset_of!(Struct, lr) == 56);
    assert!(offset_of!(Struct, kernel) == HEAD);
    assert!(size_of::<Struct>() == FIXED);
};

/// One record (struct plumb_stack).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawStack<'a> {
    /// When the thread ran again, came back from its call, was woken or was sampled, ns.
    pub at: u64,
    /// Thread that waited, was woken or ran.
    pub tid: u32,
    /// Thread whose stack it is.
    pub by: u32,
    pub pid: u32,
    /// CPU that it was taken on.
    pub cpu: u32,
    pub kind: Kind,
    /// Kernel's return addresses; empty in user mode, and where the kernel could not walk it.
    pub kernel: Vec<u64>,
    /// Of its user code, where that is known.
    pub registers: Option<Registers>,
    /// Memory from the stack pointer on, as far as it could be read.
    pub copy: &'a [u8],
}

impl<'a> RawStack<'a> {
    /// Reads a record; `None` where it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let u16_at = |i: usize| Some(u16::from_le_bytes(bytes.get(i..i + 2)?.try_into().ok()?));
        let u32_at = |i: usize| Some(u32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
        let u64_at = |i: usize| Some(u64::from_le_bytes(bytes.get(i..i + 8)?.try_into().ok()?));
        let kind = match u16_at(20)? {
            0 => Kind::Wait,
            1 => Kind::Call,
            2 => Kind::Waker,
            3 => Kind::Sample,
            5 => Kind::Python,
            _ => return None,
        };
        let frames = usize::try_from(u32_at(24)? as i32).unwrap_or(0) / 8;
        let registers = Registers { ip: u64_at(32)?, sp: u64_at(40)?, bp: u64_at(48)?, lr: u64_at(56)? };
        let kernel = bytes.get(HEAD..FIXED)?.chunks_exact(8).take(frames);
        Some(Self {
            at: u64_at(0)?,
            tid: u32_at(8)?,
            by: u32_at(12)?,
            pid: u32_at(16)?,
            cpu: u16_at(22)?.into(),
            kind,
            kernel: kernel.filter_map(|w| Some(u64::from_le_bytes(w.try_into().ok()?))).collect(),
            registers: (registers.ip != 0).then_some(registers),
            copy: bytes.get(FIXED..FIXED + u32_at(28)? as usize)?,
        })
    }

    /// The class that copies more than this one did. `None` when there is none, and when
    /// the copy ended because its memory did.
    pub fn next_class(&self) -> Option<u8> {
        let class = COPIES.iter().position(|n| *n == self.copy.len())?;
        u8::try_from(class + 1).ok().filter(|c| usize::from(*c) < COPIES.len())
    }
}

/// PLUMB_STACK_TEXT
const TEXT: u16 = 4;

const _: () = {
    use types::plumb_text as Text;
    assert!(offset_of!(Text, at) == 0);
    assert!(offset_of!(Text, tid) == 8);
    assert!(offset_of!(Text, kind) == 20);
    assert!(offset_of!(Text, span) == 22);
    assert!(offset_of!(Text, bytes) == 24);
    assert!(offset_of!(Text, text) == 28);
};

/// The text that names a span (struct plumb_text).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawText<'a> {
    /// When the span began, ns.
    pub at: u64,
    /// Thread that began it.
    pub tid: u32,
    pub span: u16,
    pub text: &'a [u8],
}

impl<'a> RawText<'a> {
    /// Reads a record; `None` where it is a stack, or nothing.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let u16_at = |i: usize| Some(u16::from_le_bytes(bytes.get(i..i + 2)?.try_into().ok()?));
        let u32_at = |i: usize| Some(u32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
        (u16_at(20)? == TEXT).then_some(())?;
        let at = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let text = bytes.get(28..28 + u32_at(24)? as usize)?;
        Some(Self { at, tid: u32_at(8)?, span: u16_at(22)?, text })
    }
}

/// A text symbol of the kernel.
#[derive(Debug)]
struct Symbol {
    address: u64,
    name: String,
    /// Place in [`Kallsyms::modules`].
    module: u16,
}

/// What kallsyms tells of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelPlace<'a> {
    pub start: u64,
    /// Bytes to the next symbol, padding included; 0 where the next one is not of the same module.
    pub size: u64,
    pub name: &'a str,
    /// Kernel module; `bpf` for BPF programs, empty for the kernel itself.
    pub module: &'a str,
}

#[derive(Debug, Default)]
pub struct Kallsyms {
    symbols: Vec<Symbol>,
    /// Names of kernel modules; the first is empty, the kernel itself.
    modules: Vec<String>,
}

/// A module's last function is not taken to be longer, bytes: what follows it is not told.
const LONGEST_LAST: u64 = 65_536;

impl Kallsyms {
    /// Reads /proc/kallsyms; empty where addresses are hidden.
    pub fn load() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// A line: address, kind, name and, of a module's, `[module]` (proc(5)).
    pub(crate) fn parse(text: &str) -> Self {
        let mut modules = vec![String::new()];
        let mut symbols: Vec<Symbol> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok().filter(|a| *a != 0)?;
                let kind = words.next()?;
                matches!(kind, "t" | "T" | "w" | "W").then_some(())?;
                let name = words.next()?.to_string();
                let module = words.next().unwrap_or_default().trim_matches(['[', ']']);
                // A module's lines follow each other.
                let known = modules.iter().rposition(|m| m == module);
                let module = known.unwrap_or_else(|| {
                    modules.push(module.into());
                    modules.len() - 1
                });
                Some(Symbol { address, name, module: u16::try_from(module).unwrap_or_default() })
            })
            .collect();
        symbols.sort_unstable_by_key(|s| s.address);
        Self { symbols, modules }
    }

    /// Function that holds the address.
    pub fn name(&self, address: u64) -> String {
        let i = self.symbols.partition_point(|s| s.address <= address);
        match i.checked_sub(1).map(|i| &self.symbols[i]) {
            Some(symbol) => symbol.name.clone(),
            None => format!("{address:#x}"),
        }
    }

    /// The function that holds an address, and how long it is.
    pub fn place(&self, address: u64) -> Option<KernelPlace<'_>> {
        let next = self.symbols.partition_point(|s| s.address <= address);
        let symbol = &self.symbols[next.checked_sub(1)?];
        let size = match self.symbols.get(next) {
            Some(after) if after.module == symbol.module => after.address - symbol.address,
            _ if address - symbol.address >= LONGEST_LAST => return None,
            _ => 0,
        };
        let module = self.modules.get(usize::from(symbol.module)).map_or("", String::as_str);
        Some(KernelPlace { start: symbol.address, size, name: &symbol.name, module })
    }

    /// Address of a symbol of the kernel itself.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|s| s.module == 0 && s.name == name).map(|s| s.address)
    }

    /// Whether there are none: addresses are hidden.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of these kernel frames and this much copied.
    pub(crate) fn record(kind: u16, kernel: &[u64], ip: u64, copied: usize) -> Vec<u8> {
        let mut bytes = vec![0; FIXED + copied];
        let mut put = |at: usize, b: &[u8]| bytes[at..at + b.len()].copy_from_slice(b);
        put(0, &1000u64.to_le_bytes());
        for (i, word) in [7u32, 8, 9].iter().enumerate() {
            put(8 + 4 * i, &word.to_le_bytes());
        }
        put(20, &kind.to_le_bytes());
        put(22, &3u16.to_le_bytes());
        put(24, &(8 * kernel.len() as i32).to_le_bytes());
        put(28, &(copied as u32).to_le_bytes());
        put(32, &ip.to_le_bytes());
        kernel.iter().enumerate().for_each(|(i, f)| put(HEAD + 8 * i, &f.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_record_has_its_kernel_frames_registers_and_copy() {
        let mut bytes = record(2, &[1, 2], 0x4000, 16);
        bytes[FIXED + 15] = 5;
        let raw = RawStack::parse(&bytes).expect("a record");
        assert_eq!((raw.at, raw.tid, raw.by, raw.pid, raw.cpu), (1000, 7, 8, 9, 3));
        assert_eq!((raw.kind, raw.kernel.as_slice()), (Kind::Waker, [1, 2].as_slice()));
        assert_eq!(raw.registers.map(|r| r.ip), Some(0x4000));
        assert_eq!((raw.copy.len(), raw.copy[15]), (16, 5));
        // The ring buffer's records are padded to 8 bytes; what is behind the copy is not of it.
        bytes.extend([9; 8]);
        assert_eq!(RawStack::parse(&bytes).expect("padded").copy.len(), 16);
    }

    #[test]
    fn what_is_missing_is_missing() {
        let mut bytes = record(3, &[], 0, 0);
        bytes[24..28].copy_from_slice(&(-14i32).to_le_bytes());
        let raw = RawStack::parse(&bytes).expect("a record");
        assert!(raw.kernel.is_empty() && raw.registers.is_none() && raw.copy.is_empty());
        bytes[28] = 1;
        assert_eq!(RawStack::parse(&bytes), None, "a copy that is not there");
        assert_eq!(RawStack::parse(&bytes[..3]), None);
        assert_eq!(RawStack::parse(&record(9, &[], 0, 0)), None);
    }

    #[test]
    fn a_full_copy_asks_for_the_next_class() {
        let class = |copied| RawStack::parse(&record(3, &[], 1, copied)).expect("a record").next_class();
        assert_eq!([2048, 8192, 32_768].map(class), [Some(1), Some(2), None]);
        assert_eq!(class(1920), None, "the stack's memory ended");
    }

    #[test]
    fn a_kernel_place_has_its_function_and_module() {
        let k = Kallsyms::parse(
            "0000000000000000 A fixed\nffff0100 t late\t[ext4]\nffff0000 T first\nffff0010 D data\n\
             ffff0020 t second\nffff0100 junk\nbad t line\nffff0200 t prog_1\t[bpf]\n",
        );
        let place = |start, size, name, module| Some(KernelPlace { start, size, name, module });
        assert_eq!(k.place(0xffff_001f), place(0xffff_0000, 0x20, "first", ""));
        assert_eq!(k.place(0xffff_0020), place(0xffff_0020, 0, "second", ""), "the next one is a module's");
        assert_eq!(k.place(0xffff_0123), place(0xffff_0100, 0, "late", "ext4"));
        assert_eq!(k.place(0xffff_0201), place(0xffff_0200, 0, "prog_1", "bpf"));
        assert_eq!(k.place(0xffff_0200 + LONGEST_LAST), None, "far behind the last one is nobody's");
        assert_eq!(k.place(1), None);
        assert_eq!((k.address("second"), k.address("late")), (Some(0xffff_0020), None));
    }
}
