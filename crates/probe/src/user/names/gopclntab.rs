// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of stripped Go programs: `.gopclntab`, which Go's own tracebacks need, stays
//! (src/debug/gosym/pclntab.go and src/runtime/symtab.go in Go's sources; Go 1.18 and later).

use object::{Object, ObjectSection, ReadRef};

/// Magic numbers of Go 1.18 and 1.20; the layout is one.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// More functions than any program has.
const MOST: usize = 1 << 24;

/// Functions: address, end, name. `None`: there is no table, or none that is understood.
pub(super) fn functions<'d, R: ReadRef<'d>>(elf: &object::File<'d, R>) -> Option<Vec<(u64, u64, &'d str)>> {
    let names = [".gopclntab", ".data.rel.ro.gopclntab"];
    let section = names.iter().find_map(|name| elf.section_by_name(name))?;
    let table = section.data().ok()?;
    let text = elf.section_by_name(".text")?.address();
    // Big-endian programs do not run where this does.
    (elf.is_little_endian() && elf.is_64()).then_some(())?;
    parse(table, text, elf.entry())
}

pub(super) fn parse(table: &[u8], text: u64, entry: u64) -> Option<Vec<(u64, u64, &str)>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(table.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let word = |i: usize| Some(u64::from_le_bytes(table.get(8 + i * 8..16 + i * 8)?.try_into().ok()?));
    (MAGIC.contains(&u32_at(0)?) && *table.get(7)? == 8).then_some(())?;
    let (count, start) = (usize::try_from(word(0)?).ok().filter(|n| *n <= MOST)?, word(2)?);
    let (names, list) = (usize::try_from(word(3)?).ok()?, usize::try_from(word(7)?).ok()?);
    // Go 1.26 and later leave it to the runtime: the text's beginning, if Go linked the program itself.
    let base = if start == 0 { text } else { start };
    let mut out = Vec::with_capacity(count.min(table.len() / 8));
    let mut begins = false;
    for i in 0..count {
        let at = list.checked_add(i * 8)?;
        let (from, about, to) = (u32_at(at)?, u32_at(at + 4)? as usize, u32_at(at + 8)?);
        let name = names.checked_add(u32_at(list.checked_add(about)?.checked_add(4)?)? as usize)?;
        let rest = table.get(name..)?;
        let name = std::str::from_utf8(&rest[..rest.iter().position(|b| *b == 0)?]).ok()?;
        let address = base.checked_add(u64::from(from))?;
        begins |= address == entry && name.starts_with("_rt0_");
        if !name.is_empty() && to > from {
            out.push((address, base.checked_add(u64::from(to))?, name));
        }
    }
    // A program that another linker put together begins elsewhere: then nothing tells where its text lies.
    (start != 0 || begins).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One function, `f`, of 16 bytes at the text's beginning.
    fn table(text: u64, name: &[u8]) -> Vec<u8> {
        let mut out = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let (names, list) = (72, 100);
        for word in [1, 0, text, names, 0, 0, 0, list] {
            out.extend(u64::to_le_bytes(word));
        }
        out.extend(name);
        out.resize(list as usize, 0);
        for word in [0u32, 12, 16, 0, 0] {
            out.extend(word.to_le_bytes());
        }
        out
    }

    #[test]
    fn where_the_text_lies_is_told_or_seen_but_not_guessed() {
        assert_eq!(parse(&table(0x4000, b"f"), 0x1000, 0), Some(vec![(0x4000, 0x4010, "f")]));
        assert_eq!(
            parse(&table(0, b"_rt0_amd64"), 0x1000, 0x1000),
            Some(vec![(0x1000, 0x1010, "_rt0_amd64")])
        );
        assert_eq!(parse(&table(0, b"_rt0_amd64"), 0x1000, 0x1008), None, "it begins elsewhere");
        assert_eq!(parse(&table(u64::MAX, b"f"), 0x1000, 0), None);
    }

    #[test]
    fn a_broken_table_is_none() {
        let whole = table(0x4000, b"f");
        (0..whole.len())
            .for_each(|len| assert!(parse(&whole[..len], 0, 0).is_none_or(|f| f.len() == 1), "{len}"));
        for at in 0..whole.len() {
            for bad in [0xff, 0x80, 0x7f] {
                let mut broken = whole.clone();
                broken[at] = bad;
                parse(&broken, 0, 0);
            }
        }
    }
}
