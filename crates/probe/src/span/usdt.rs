// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Static probes that a program has compiled in (USDT, SystemTap's sys/sdt.h): their places, the semaphores that switch
//! them on, and where their arguments lie. After the section .note.stapsdt as SystemTap's wiki describes it
//! (UserSpaceProbeImplementation).

use anyhow::{bail, Context, Result};
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, ReadRef};

/// What a probe's name begins with in a span's words.
pub const SIGN: char = '%';
const SECTION: &[u8] = b".note.stapsdt";
/// The address that this section has where the file was linked tells how far it was moved since (prelink).
const BASE: &[u8] = b".stapsdt.base";
const TYPE: u32 = 3;
/// A section of notes above this size is left alone, bytes.
const LARGEST: u64 = 16 << 20;
/// In the order of `register_of` in bpf/span.bpf.c.
const REGISTERS: [&str; 16] =
    ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// A place of a probe; one that is compiled in several times has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub provider: String,
    pub name: String,
    /// Addresses that the file states: of the probe, and of its semaphore, 0 for none.
    pub address: u64,
    pub semaphore: u64,
    /// Where its arguments are, as the assembler was told: `8@%rdi -4@$3`.
    pub arguments: String,
}

/// Where an argument lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    pub from: From,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    pub signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// Index of the register.
    Register(u8),
    /// Behind what that register holds, so many bytes on.
    Memory(u8, i32),
    Constant(i32),
}

/// The probes of an ELF file of 64 bits.
///
/// # Errors
/// The file cannot be read as one.
pub fn notes<'d, R: ReadRef<'d>>(data: R) -> Result<Vec<Note>> {
    let header =
        object::elf::FileHeader64::<LittleEndian>::parse(data).context("its ELF header cannot be read")?;
    let sections = header.sections(LittleEndian, data).context("its sections cannot be read")?;
    let named = |wanted: &[u8]| {
        sections.iter().find(|s| sections.section_name(LittleEndian, s).is_ok_and(|name| name == wanted))
    };
    let Some(section) = named(SECTION).filter(|s| s.sh_size(LittleEndian) <= LARGEST) else {
        return Ok(Vec::new());
    };
    let base = named(BASE).map_or(0, |s| s.sh_addr(LittleEndian));
    let bytes = section.data(LittleEndian, data).context("its notes cannot be read")?;
    Ok(parse(bytes, base))
}

/// The notes of a section; what is damaged ends them.
fn parse(mut bytes: &[u8], base: u64) -> Vec<Note> {
    let mut found = Vec::new();
    let word = |bytes: &mut &[u8]| {
        let (head, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*head))
    };
    let long = |bytes: &mut &[u8]| {
        let (head, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*head))
    };
    let text = |bytes: &mut &[u8]| {
        let end = bytes.iter().position(|b| *b == 0)?;
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        *bytes = &bytes[end + 1..];
        Some(text)
    };
    let mut next = || {
        let (name, content, kind) = (word(&mut bytes)?, word(&mut bytes)?, word(&mut bytes)?);
        let padded = |n: u32| (n as usize).checked_next_multiple_of(4);
        let (owner, rest) = bytes.split_at_checked(padded(name)?)?;
        let (mut content, rest) = rest.split_at_checked(padded(content)?)?;
        bytes = rest;
        if kind != TYPE || !owner.starts_with(b"stapsdt\0") {
            return Some(None);
        }
        let (address, linked, semaphore) = (long(&mut content)?, long(&mut content)?, long(&mut content)?);
        let moved = if base == 0 { 0 } else { base.wrapping_sub(linked) };
        Some(Some(Note {
            address: address.wrapping_add(moved),
            semaphore: if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) },
            provider: text(&mut content)?,
            name: text(&mut content)?,
            arguments: text(&mut content)?,
        }))
    };
    while let Some(note) = next() {
        found.extend(note);
    }
    found
}

/// Those of a name, `PROBE` or `PROVIDER.PROBE`.
///
/// # Errors
/// There is none, with those that are like it; or two providers have it.
pub fn find<'a>(notes: &'a [Note], wanted: &str, file: &str) -> Result<Vec<&'a Note>> {
    let wanted = wanted.trim_start_matches(SIGN);
    let (provider, name) = wanted.split_once('.').map_or((None, wanted), |(p, n)| (Some(p), n));
    let found: Vec<&Note> =
        notes.iter().filter(|n| n.name == name && provider.is_none_or(|p| p == n.provider)).collect();
    let Some(first) = found.first() else {
        let mut near: Vec<&str> =
            notes.iter().map(|n| n.name.as_str()).filter(|n| n.contains(name) || name.contains(n)).collect();
        near.sort_unstable();
        near.dedup();
        near.truncate(3);
        let near = if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) };
        bail!("{file} has no USDT probe '{name}'{near} ('readelf -n {file}' lists those that it has)");
    };
    if let Some(other) = found.iter().find(|n| n.provider != first.provider) {
        bail!(
            "{file} has two USDT probes '{name}': say {}.{name} or {}.{name}",
            first.provider,
            other.provider
        );
    }
    Ok(found)
}

impl Note {
    /// Where an argument lies, from 0 on.
    ///
    /// # Errors
    /// It has no so many, or it lies where plumb does not look.
    pub fn argument(&self, n: u8) -> Result<Source> {
        // arm64's `[sp, 16]` is one word.
        let words = self.arguments.replace(", ", ",");
        let Some(word) = words.split(' ').filter(|w| !w.is_empty()).nth(usize::from(n)) else {
            bail!("USDT probe '{}' has no argument {n}", self.name);
        };
        source(word).with_context(|| {
            format!("argument {n} of USDT probe '{}' is at '{word}', which plumb does not read", self.name)
        })
    }
}

/// `8@%rdi`, `-4@$3`, `8@-16(%rbp)`, on arm64 `8@x0`, `-4@3`, `8@[sp,16]`: size, negative where it has a sign, and operand.
fn source(word: &str) -> Option<Source> {
    let (size, operand) = word.split_once('@')?;
    let (signed, size) = size.strip_prefix('-').map_or((false, size), |size| (true, size));
    let bytes: u8 = size.parse().ok().filter(|n| [1, 2, 4, 8].contains(n))?;
    let from = if cfg!(target_arch = "aarch64") { arm64_operand(operand) } else { x86_operand(operand) }?;
    Some(Source { from, bytes, signed })
}

fn arm64_operand(operand: &str) -> Option<From> {
    let register = |name: &str| match name.strip_prefix(['x', 'w']) {
        Some(n) => n.parse().ok().filter(|n| *n < 31),
        None => (name == "sp").then_some(31),
    };
    if let Some(inner) = operand.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        let (name, offset) = inner.split_once(',').unwrap_or((inner, "0"));
        return Some(From::Memory(register(name)?, offset.parse().ok()?));
    }
    operand.parse().ok().map(From::Constant).or_else(|| register(operand).map(From::Register))
}

fn x86_operand(operand: &str) -> Option<From> {
    Some(if let Some(constant) = operand.strip_prefix('$') {
        From::Constant(constant.parse().ok()?)
    } else if let Some(name) = operand.strip_prefix('%') {
        From::Register(register(name)?)
    } else {
        let (offset, name) = operand.strip_suffix(')')?.split_once("(%")?;
        let offset = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        From::Memory(register(name)?, offset)
    })
}

/// The index of an x86-64 register by any of its names: `%rdi`, `%edi`, `%di`, `%dil`, `%r9d`.
fn register(name: &str) -> Option<u8> {
    let numbered =
        name.strip_prefix('r').and_then(|n| n.trim_end_matches(['d', 'w', 'b']).parse::<u8>().ok());
    if let Some(n) = numbered {
        return (8..16).contains(&n).then_some(n);
    }
    let short = name.strip_prefix(['r', 'e']).unwrap_or(name);
    let full = match short {
        "al" | "bl" | "cl" | "dl" => format!("{}x", &short[..1]),
        "sil" | "dil" | "bpl" | "spl" => short[..2].into(),
        _ => short.into(),
    };
    REGISTERS.iter().position(|r| *r == full).map(|n| n as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_arm64() {
        assert_eq!(arm64_operand("x19"), Some(From::Register(19)));
        assert_eq!(arm64_operand("w0"), Some(From::Register(0)));
        assert_eq!(arm64_operand("sp"), Some(From::Register(31)));
        assert_eq!(arm64_operand("-3"), Some(From::Constant(-3)));
        assert_eq!(arm64_operand("[x1]"), Some(From::Memory(1, 0)));
        assert_eq!(arm64_operand("[sp,-16]"), Some(From::Memory(31, -16)));
        for word in ["x31", "[x1,x2]", "[x1", "s0", "", "[x1,]"] {
            assert_eq!(arm64_operand(word), None, "{word}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn operands_of_the_assembler() {
        let at = |word| source(word).map(|s| (s.from, s.bytes, s.signed));
        assert_eq!(at("8@%rdi"), Some((From::Register(5), 8, false)));
        assert_eq!(at("-4@%r9d"), Some((From::Register(9), 4, true)));
        assert_eq!(at("1@%al"), Some((From::Register(0), 1, false)));
        assert_eq!(at("2@%si"), Some((From::Register(4), 2, false)));
        assert_eq!(at("1@%dil"), Some((From::Register(5), 1, false)));
        assert_eq!(at("-4@$-3"), Some((From::Constant(-3), 4, true)));
        assert_eq!(at("8@-16(%rbp)"), Some((From::Memory(6, -16), 8, false)));
        assert_eq!(at("8@(%rax)"), Some((From::Memory(0, 0), 8, false)));
        for word in ["8@foo(%rip)", "8@(%rax,%rbx,8)", "8@%xmm0", "3@%rax", "8", "8@%", "8@$x", "8@(%rax"] {
            assert_eq!(at(word), None, "{word}");
        }
    }

    fn note(owner: &str, address: u64, semaphore: u64, texts: &str) -> Vec<u8> {
        let mut content: Vec<u8> =
            [address, 0x1000, semaphore].iter().flat_map(|w| w.to_le_bytes()).collect();
        content.extend(texts.as_bytes());
        let mut bytes: Vec<u8> =
            [8, content.len() as u32, TYPE].iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend(owner.as_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn notes_are_found_where_the_file_was_moved_to() {
        let mut bytes = note("stapsdt\0", 0x2000, 0x5000, "postgresql\0query__start\x008@%rdi\0");
        bytes.extend(note("other\0\0\0", 1, 2, "a\0b\0c\0"));
        bytes.extend(note("stapsdt\0", 0x2100, 0, "mine\0query__start\0\0"));
        let all = parse(&bytes, 0x1800);
        let shown: Vec<_> = all.iter().map(|n| (n.provider.as_str(), n.address, n.semaphore)).collect();
        assert_eq!(shown, [("postgresql", 0x2800, 0x5800), ("mine", 0x2900, 0)]);
        assert_eq!(parse(&bytes, 0)[0].address, 0x2000);
        let error = find(&all, "%query__start", "f").expect_err("two").to_string();
        assert!(error.contains("postgresql.query__start or mine.query__start"), "{error}");
        assert_eq!(find(&all, "%mine.query__start", "f").expect("one"), [&all[1]]);
        let error = find(&all, "%query", "f").expect_err("none").to_string();
        assert!(error.contains("it has query__start"), "{error}");
        let error = all[1].argument(0).expect_err("none").to_string();
        assert!(error.contains("no argument 0"), "{error}");
        for cut in 0..bytes.len() {
            parse(&bytes[..cut], 0);
        }
    }
}
