// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Call stacks of waits: told once each, named by number afterwards.

use plumb_trace::schema::StateStack;
use std::collections::HashMap;

/// Why a stack was taken (enum plumb_stack_kind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its thread slept on it.
    Wait,
    /// User part of the same.
    WaitUser,
    /// Who woke the thread was there.
    Waker,
    /// Its user code: where it is, and the words on top of its stack.
    WakerUser,
    /// The sampling clock ticked.
    Sample,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Wait, Self::WaitUser, Self::Waker, Self::WakerUser, Self::Sample];

    /// Whether the frames are those of user code.
    pub fn user(self) -> bool {
        matches!(self, Self::WaitUser | Self::WakerUser)
    }
}

/// A stack as the BPF program hands it over (struct plumb_stack).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawStack {
    /// When the thread ran again, was woken or was sampled, ns.
    pub end: u64,
    /// Thread that waited or ran.
    pub tid: u32,
    /// CPU of a sample; process whose thread woke `tid`.
    pub other: u32,
    /// Why it was taken.
    pub kind: Kind,
    /// Addresses; user: offsets in the file of the build id.
    pub frames: Vec<u64>,
    /// User: hex build id of each frame, empty where there is none.
    pub build_ids: Vec<String>,
}

const HEAD: usize = 24;
const FRAME: usize = 32;

impl RawStack {
    /// Reads the ring buffer's record; `None` when the stack could not be walked.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let u64_at = |i: usize| Some(u64::from_le_bytes(bytes.get(i..i + 8)?.try_into().ok()?));
        let u32_at = |i: usize| Some(u32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
        let kind = *Kind::ALL.get(u32_at(16)? as usize)?;
        // A sample without kernel frames was taken in user mode.
        let len = match u32_at(12)? as i32 {
            n if n > 0 => n as usize,
            _ if kind == Kind::Sample => 0,
            _ => return None,
        };
        let mut out = Self {
            end: u64_at(0)?,
            tid: u32_at(8)?,
            other: u32_at(20)?,
            kind,
            frames: Vec::new(),
            build_ids: Vec::new(),
        };
        if kind != Kind::WaitUser {
            out.frames = (0..len / 8).filter_map(|i| u64_at(HEAD + i * 8)).collect();
            return Some(out);
        }
        for i in 0..len / FRAME {
            let at = HEAD + i * FRAME;
            match u32_at(at)? {
                0 => break,
                1 => {
                    let id = bytes.get(at + 4..at + 24)?;
                    out.build_ids.push(id.iter().map(|b| format!("{b:02x}")).collect());
                }
                _ => out.build_ids.push(String::new()),
            }
            out.frames.push(u64_at(at + 24)?);
        }
        (!out.frames.is_empty()).then_some(out)
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
    /// Where the function begins.
    pub start: u64,
    /// Bytes to the next symbol, padding included; 0 where the next one is not of the same module.
    pub size: u64,
    /// Its name.
    pub name: &'a str,
    /// Kernel module; `bpf` for BPF programs, empty for the kernel itself.
    pub module: &'a str,
}

/// Kernel symbols by address.
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

/// Numbers stacks.
#[derive(Debug)]
pub struct Stacks {
    known: HashMap<(bool, Vec<u64>, Vec<String>), u32>,
    symbols: Kallsyms,
}

impl Stacks {
    /// Numbers from 1 on, naming kernel frames by these symbols.
    pub fn new(symbols: Kallsyms) -> Self {
        Self { known: HashMap::new(), symbols }
    }

    /// The stack's number, and the event that tells it when it is new.
    pub fn number(&mut self, raw: RawStack) -> (u32, Option<StateStack>) {
        let next = self.known.len() as u32 + 1;
        let key = (raw.kind.user(), raw.frames, raw.build_ids);
        if let Some(n) = self.known.get(&key) {
            return (*n, None);
        }
        let text = if key.0 {
            key.2.join(";")
        } else {
            // A frame is a return address: one back lies inside the call.
            let names: Vec<String> = key.1.iter().map(|a| self.symbols.name(a.saturating_sub(1))).collect();
            names.join(";")
        };
        let event = StateStack { stack: next, user: u8::from(key.0), frames: key.1.clone(), text };
        self.known.insert(key, next);
        (next, Some(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_told_once() {
        let mut bytes = vec![0; HEAD + 16];
        bytes[12] = 16;
        bytes[HEAD] = 1;
        bytes[HEAD + 8] = 2;
        let raw = RawStack::parse(&bytes).expect("two frames");
        assert_eq!(raw.frames, [1, 2]);
        let mut stacks = Stacks::new(Kallsyms::parse("1 t f\n2 t g\n"));
        let (n, event) = stacks.number(raw.clone());
        assert_eq!(event.expect("new").text, "0x0;f");
        assert_eq!(stacks.number(raw), (n, None));
    }

    #[test]
    fn a_failed_walk_is_no_stack() {
        let mut bytes = vec![0; HEAD + 16];
        bytes[12..16].copy_from_slice(&(-14i32).to_le_bytes());
        assert_eq!(RawStack::parse(&bytes), None);
        assert_eq!(RawStack::parse(&bytes[..3]), None);
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
