// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's bytes as instructions: their text, where they lead, and which of them
//! are known to be slow.

use iced_x86::{
    Code as Op, ConditionCode, Decoder, DecoderError, DecoderOptions, FlowControl, Formatter, GasFormatter,
    Instruction as Raw, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
    SymbolResolver, SymbolResult,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What about an instruction may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `rep movs`.
    Copy,
    /// `rep stos`.
    Fill,
    /// `rep cmps`, `rep scas`.
    Scan,
    Divide,
    Root,
    /// Reads and writes memory as one, seen by all CPUs.
    Atomic,
    /// `pause`, `tpause`, `umwait`.
    Pause,
    /// Into the kernel and back.
    SystemCall,
    /// A hypervisor may have to do it.
    Hypervisor,
    /// Reads the time stamp counter.
    Clock,
    /// Waits for all before it.
    Serialise,
    Unmask,
    /// Writes a cache line back or drops it.
    Flush,
    /// Reads memory other than the stack.
    Load,
    Call,
    Return,
}

impl Kind {
    /// Whether it takes long by itself; a load does only when it misses, a call does not.
    pub fn slow(self) -> bool {
        !matches!(self, Self::Load | Self::Call | Self::Return)
    }

    /// Whether an interrupt leaves it in its middle, so that a sample names the instruction itself.
    pub fn resumes(self) -> bool {
        matches!(self, Self::Copy | Self::Fill | Self::Scan)
    }
}

/// What comes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next one, perhaps after a call.
    Next,
    /// The next one or another.
    Branch,
    Away,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes from the function's start.
    pub offset: u64,
    /// Its bytes' number.
    pub length: u64,
    /// In the assembler's AT&T syntax, as objdump and perf show it.
    pub text: String,
    pub flow: Flow,
    /// Where in the function it jumps to, bytes from the start.
    pub target: Option<u64>,
    /// What about it may take long.
    pub kind: Option<Kind>,
}

/// A loop: a jump backward and what lies between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// Its first instruction, bytes from the function's start.
    pub from: u64,
    /// The one that jumps back.
    pub to: u64,
    /// Its instructions, both ends with it.
    pub instructions: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// In the order of their addresses.
    pub instructions: Vec<Instruction>,
    /// Offsets that jumps of the function lead to.
    pub targets: BTreeSet<u64>,
    /// Whether they were taken apart; else they are the machine's words in hex.
    pub decoded: bool,
    /// Whether the bytes end inside an instruction.
    pub cut: bool,
}

/// Names of functions by their start in the module that the code is of: name and length, 0 not known.
pub type Names<'a> = BTreeMap<u64, (&'a str, u64)>;

impl Code {
    /// Takes a function's bytes apart. `machine` is as Rust calls it: `x86_64`; of any other the
    /// words are shown in hex. `start` is the function's place in its module.
    pub fn new(bytes: &[u8], start: u64, machine: &str, names: &Names<'_>) -> Self {
        if machine == "x86_64" {
            decode(bytes, start, names)
        } else {
            words(bytes)
        }
    }

    /// The instruction that a byte belongs to.
    pub fn at(&self, offset: u64) -> Option<usize> {
        let i = self.instructions.partition_point(|x| x.offset <= offset).checked_sub(1)?;
        let x = &self.instructions[i];
        (offset < x.offset.saturating_add(x.length)).then_some(i)
    }

    /// The instruction before one in the program's order, if it can lead to it.
    pub fn before(&self, i: usize) -> Option<usize> {
        let before = i.checked_sub(1)?;
        (self.instructions.get(before)?.flow != Flow::Away).then_some(before)
    }

    /// Whether a jump of the function leads to it.
    pub fn is_target(&self, i: usize) -> bool {
        self.instructions.get(i).is_some_and(|x| self.targets.contains(&x.offset))
    }

    /// The shortest loop around an instruction.
    pub fn loop_around(&self, i: usize) -> Option<Loop> {
        let here = self.instructions.get(i)?.offset;
        let last = self.instructions[i..].iter();
        let found = last
            .filter_map(|x| x.target.filter(|t| *t <= here).map(|t| (t, x.offset)))
            .min_by_key(|(from, to)| to - from)?;
        let inside = |x: &&Instruction| (found.0..=found.1).contains(&x.offset);
        Some(Loop {
            from: found.0,
            to: found.1,
            instructions: self.instructions.iter().filter(inside).count(),
        })
    }
}

/// The machine's words, where nothing here takes them apart.
fn words(bytes: &[u8]) -> Code {
    let word = |(i, w): (usize, &[u8])| Instruction {
        offset: 4 * i as u64,
        length: w.len() as u64,
        text: match <[u8; 4]>::try_from(w) {
            Ok(w) => format!(".word {:#010x}", u32::from_le_bytes(w)),
            Err(_) => format!(".byte {}", hex(w)),
        },
        flow: Flow::Next,
        target: None,
        kind: None,
    };
    Code {
        instructions: bytes.chunks(4).enumerate().map(word).collect(),
        cut: !bytes.chunks_exact(4).remainder().is_empty(),
        ..Code::default()
    }
}

/// Bytes as hex, apart by blanks.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Names the targets of direct jumps and calls: `+0x1c` inside the function, a function's name outside.
struct Targets {
    start: u64,
    end: u64,
    names: BTreeMap<u64, (String, u64)>,
}

impl SymbolResolver for Targets {
    fn symbol(
        &mut self,
        instruction: &Raw,
        _operand: u32,
        operand: Option<u32>,
        address: u64,
        _size: u32,
    ) -> Option<SymbolResult<'_>> {
        // The formatter asks for constants and displacements too; a number that happens to be
        // a function's offset is none.
        let branch = |k| matches!(k, OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        if !operand.is_some_and(|o| branch(instruction.op_kind(o))) {
            return None;
        }
        if (self.start..self.end).contains(&address) {
            return Some(SymbolResult::with_string(address, format!("+{:#x}", address - self.start)));
        }
        let (at, (name, size)) = self.names.range(..=address).next_back()?;
        (address == *at || address - at < *size).then(|| SymbolResult::with_str(*at, name))
    }
}

fn decode(bytes: &[u8], start: u64, names: &Names<'_>) -> Code {
    let end = start.saturating_add(bytes.len() as u64);
    let owned = names.iter().map(|(at, (name, size))| (*at, ((*name).to_string(), *size))).collect();
    let mut format = GasFormatter::with_options(Some(Box::new(Targets { start, end, names: owned })), None);
    let options = format.options_mut();
    // A displacement is told as it stands: offsets in a file do not add up across its segments.
    options.set_rip_relative_addresses(true);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    let mut info = InstructionInfoFactory::new();
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut code = Code { decoded: true, ..Code::default() };
    let mut raw = Raw::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut raw);
        let length = decoder.position().saturating_sub(at);
        let mut text = String::new();
        if raw.is_invalid() {
            code.cut |= decoder.last_error() == DecoderError::NoMoreBytes;
            text = format!(".byte {}", hex(bytes.get(at..at + length).unwrap_or_default()));
        } else {
            format.format(&raw, &mut text);
        }
        let target = jump(&raw).filter(|t| (start..end).contains(t)).map(|t| t - start);
        code.targets.extend(target);
        code.instructions.push(Instruction {
            offset: at as u64,
            length: length as u64,
            text,
            flow: flow(&raw),
            target,
            kind: kind(&raw, &mut info),
        });
    }
    code
}

/// Where a direct jump leads to; calls come back, so they make no loops.
fn jump(raw: &Raw) -> Option<u64> {
    let jumps = raw.is_jmp_short_or_near()
        || matches!(raw.flow_control(), FlowControl::ConditionalBranch)
        || raw.condition_code() != ConditionCode::None && raw.is_jcc_short_or_near();
    let direct = matches!(raw.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    (jumps && direct).then(|| raw.near_branch_target())
}

fn flow(raw: &Raw) -> Flow {
    match raw.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Flow::Branch,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => Flow::Away,
        // ud2 and invalid bytes.
        FlowControl::Exception => Flow::Away,
        _ => Flow::Next,
    }
}

fn kind(raw: &Raw, info: &mut InstructionInfoFactory) -> Option<Kind> {
    use Mnemonic as M;
    if raw.is_invalid() {
        return None;
    }
    let repeated = raw.has_rep_prefix() || raw.has_repne_prefix();
    let name = raw.mnemonic();
    let known = match name {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq if repeated && raw.is_string_instruction() => Kind::Copy,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq if repeated => Kind::Fill,
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq if repeated && raw.is_string_instruction() => Kind::Scan,
        M::Scasb | M::Scasw | M::Scasd | M::Scasq if repeated => Kind::Scan,
        M::Div | M::Idiv | M::Divss | M::Divsd | M::Divps | M::Divpd => Kind::Divide,
        M::Vdivss | M::Vdivsd | M::Vdivps | M::Vdivpd | M::Fdiv | M::Fdivp | M::Fdivr | M::Fdivrp => {
            Kind::Divide
        }
        M::Sqrtss | M::Sqrtsd | M::Sqrtps | M::Sqrtpd | M::Fsqrt => Kind::Root,
        M::Vsqrtss | M::Vsqrtsd | M::Vsqrtps | M::Vsqrtpd => Kind::Root,
        M::Pause | M::Tpause | M::Umwait => Kind::Pause,
        M::Syscall | M::Sysenter | M::Int => Kind::SystemCall,
        M::Cpuid | M::Hlt | M::Mwait | M::Mwaitx | M::Vmcall | M::Vmmcall | M::Wrmsr | M::Wrmsrns => {
            Kind::Hypervisor
        }
        M::Rdmsr | M::In | M::Out | M::Insb | M::Insw | M::Insd | M::Outsb | M::Outsw | M::Outsd => {
            Kind::Hypervisor
        }
        M::Invlpg | M::Wbinvd | M::Invd | M::Invpcid | M::Xsetbv => Kind::Hypervisor,
        M::Rdtsc | M::Rdtscp | M::Rdpmc => Kind::Clock,
        M::Mfence | M::Lfence | M::Sfence | M::Serialize => Kind::Serialise,
        M::Mov if matches!(raw.code(), Op::Mov_cr_r64 | Op::Mov_dr_r64) => Kind::Serialise,
        M::Sti | M::Popf | M::Popfq | M::Iretq => Kind::Unmask,
        M::Clflush | M::Clflushopt | M::Clwb => Kind::Flush,
        M::Lea | M::Nop => return None,
        // xchg with memory is locked without the prefix.
        M::Xchg if raw.op0_kind() == OpKind::Memory || raw.op1_kind() == OpKind::Memory => Kind::Atomic,
        _ if raw.has_lock_prefix() => Kind::Atomic,
        _ => return by_access(raw, info),
    };
    Some(known)
}

fn by_access(raw: &Raw, info: &mut InstructionInfoFactory) -> Option<Kind> {
    match raw.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => return Some(Kind::Call),
        FlowControl::Return => return Some(Kind::Return),
        _ => {}
    }
    let used = info.info_options(raw, InstructionInfoOptions::NO_REGISTER_USAGE);
    let reads = used.used_memory().iter().any(|m| {
        let reads = matches!(
            m.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        // The stack is in the nearest cache but for its first use.
        reads && !matches!(m.base(), Register::RSP | Register::ESP)
    });
    reads.then_some(Kind::Load)
}
