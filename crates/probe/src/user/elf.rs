// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What walking and naming need of an ELF file: its build id, where its segments lie and
//! its unwind tables.
//!
//! The tables are read into memory, not mapped: a file that is cut off while it is
//! mapped kills its reader (SIGBUS).

use framehop::ExplicitModuleSectionInfo;
use object::elf::{
    FileHeader32, FileHeader64, NT_GNU_BUILD_ID, PT_LOAD, SHF_COMPRESSED, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, ReadCache, ReadRef};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// A section above this size is left alone, bytes.
const LARGEST: u64 = 64 << 20;
/// A file with a larger table of symbols is not searched, bytes.
const LARGEST_SYMBOLS: u64 = 4 << 20;
/// Where distributions put debug information of stripped files.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug/.build-id";

/// A part of the file that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its bytes in the file.
    pub file: Range<u64>,
    /// The address that the file states for the first one.
    pub address: u64,
}

/// Sections' bytes and stated addresses, as framehop takes them.
pub type Sections = ExplicitModuleSectionInfo<Arc<[u8]>>;

#[derive(Debug, Default)]
pub struct Elf {
    /// GNU build id in hex, empty where there is none.
    pub build_id: String,
    /// Its code is of 32 bits: of another machine than the tables' readers.
    pub narrow: bool,
    /// Loaded parts, as the file lists them.
    pub segments: Vec<Segment>,
    /// Unwind tables; `None` without any.
    pub tables: Option<Sections>,
    /// A second kind: Go's linker puts its own functions into .debug_frame, and those of C
    /// that they call have .eh_frame.
    pub second: Option<Sections>,
    /// What the second has, by first address; stated addresses.
    covered: Vec<Range<u64>>,
    /// Bytes that they hold in memory.
    pub bytes: usize,
}

fn note<'d, H: FileHeader<Endian = LittleEndian>, R: ReadRef<'d>>(header: &H, data: R) -> String {
    let segments = header.program_headers(LittleEndian, data).unwrap_or_default();
    for segment in segments {
        let size: u64 = segment.p_filesz(LittleEndian).into();
        if size > 1 << 20 {
            continue;
        }
        let Ok(Some(mut notes)) = segment.notes(LittleEndian, data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(LittleEndian) == NT_GNU_BUILD_ID {
                return note.desc().iter().map(|b| format!("{b:02x}")).collect();
            }
        }
    }
    String::new()
}

/// Where a file states that some of its symbols lie; none of those that its tables do not have.
pub fn symbols<'d, R: ReadRef<'d>>(data: R, wanted: &[&str]) -> Vec<Option<Range<u64>>> {
    let mut out = vec![None; wanted.len()];
    let Ok(header) = FileHeader64::<LittleEndian>::parse(data) else { return out };
    let Ok(sections) = header.sections(LittleEndian, data) else { return out };
    let symbols = [SHT_DYNSYM, SHT_SYMTAB, SHT_SYMTAB_SHNDX];
    let mut tables = sections.iter().filter(|s| symbols.contains(&s.sh_type(LittleEndian)));
    if tables.any(|s| s.sh_size(LittleEndian) > LARGEST_SYMBOLS) {
        return out;
    }
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        let Ok(table) = sections.symbols(LittleEndian, data, kind) else { continue };
        for symbol in table.iter() {
            let Ok(name) = table.symbol_name(LittleEndian, symbol) else { continue };
            let Some(at) = wanted.iter().position(|w| w.as_bytes() == name) else { continue };
            let start = symbol.st_value(LittleEndian);
            out[at].get_or_insert(start..start.saturating_add(symbol.st_size(LittleEndian).max(1)));
        }
    }
    out
}

impl Elf {
    /// Reads a file's build id and segments, no tables. `None` if it is no ELF file of this byte order.
    pub fn head<'d, R: ReadRef<'d>>(data: R) -> Option<Self> {
        if let Ok(header) = FileHeader32::<LittleEndian>::parse(data) {
            return Some(Self { build_id: note(header, data), narrow: true, ..Self::default() });
        }
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let segments = header.program_headers(LittleEndian, data).unwrap_or_default();
        let segments = segments
            .iter()
            .filter(|s| s.p_type(LittleEndian) == PT_LOAD)
            .map(|s| {
                let at = s.p_offset(LittleEndian);
                let size = s.p_filesz(LittleEndian);
                Segment { file: at..at.saturating_add(size), address: s.p_vaddr(LittleEndian) }
            })
            .collect();
        Some(Self { build_id: note(header, data), segments, ..Self::default() })
    }

    /// Reads its tables too; from the separate debug file where it has none itself.
    pub fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let mut elf = Self::head(&cache)?;
        elf.tables = elf.sections(&cache);
        if elf.tables.is_none() && elf.build_id.len() > 2 && !elf.narrow {
            let (directory, name) = elf.build_id.split_at(2);
            if let Ok(debug) = File::open(format!("{DEBUG_DIRECTORY}/{directory}/{name}.debug")) {
                let cache = ReadCache::new(&debug);
                if Self::head(&cache).is_some_and(|d| d.build_id == elf.build_id) {
                    elf.tables = elf.sections(&cache);
                }
            }
        }
        if elf.tables.as_ref().is_some_and(|t| t.eh_frame.is_some()) {
            elf.second = elf.go_tables(&cache);
            elf.covered = elf.second.as_ref().map(covered).unwrap_or_default();
        }
        elf.bytes = elf.tables.as_ref().map_or(0, size) + elf.second.as_ref().map_or(0, size);
        Some(elf)
    }

    /// The same of a file that lies in memory.
    pub fn of_memory(bytes: &[u8]) -> Option<Self> {
        let mut elf = Self::head(bytes)?;
        elf.tables = elf.sections(bytes);
        elf.bytes = elf.tables.as_ref().map_or(0, size);
        Some(elf)
    }

    /// The address that the file states for the byte at `offset`.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let s = self.segments.iter().find(|s| s.file.contains(&offset))?;
        Some(s.address.wrapping_add(offset - s.file.start))
    }

    /// Where in the file the byte lies for which it states an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let s = self
            .segments
            .iter()
            .find(|s| (s.address..s.address.saturating_add(s.file.end - s.file.start)).contains(&address))?;
        Some(s.file.start + (address - s.address))
    }

    /// Whether the second tables have an address.
    pub fn second_has(&self, address: u64) -> bool {
        let at = self.covered.partition_point(|r| r.end <= address);
        self.covered.get(at).is_some_and(|r| r.contains(&address))
    }

    fn sections<'d, R: ReadRef<'d>>(&self, data: R) -> Option<Sections> {
        self.of_kind(data, false)
    }

    fn go_tables<'d, R: ReadRef<'d>>(&self, data: R) -> Option<Sections> {
        self.of_kind(data, true)
    }

    fn of_kind<'d, R: ReadRef<'d>>(&self, data: R, go: bool) -> Option<Sections> {
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let table = header.sections(LittleEndian, data).ok()?;
        if go {
            table.section_by_name(LittleEndian, b".gopclntab")?;
        }
        let named = |name: &[u8]| {
            let (_, section) = table.section_by_name(LittleEndian, name)?;
            let (start, size) = (section.sh_addr(LittleEndian), section.sh_size(LittleEndian));
            Some((section, start..start.saturating_add(size)))
        };
        let range = |name: &[u8]| named(name).map(|(_, range)| range);
        let bytes = |name: &[u8]| -> Option<Arc<[u8]>> {
            let (section, range) = named(name)?;
            let empty = section.sh_type(LittleEndian) == SHT_NOBITS || range.is_empty();
            if empty || range.end - range.start > LARGEST {
                return None;
            }
            let bytes = section.data(LittleEndian, data).ok()?;
            if section.sh_flags(LittleEndian) & u64::from(SHF_COMPRESSED) != 0 {
                return inflate(bytes).map(Arc::from);
            }
            Some(Arc::from(bytes))
        };
        let eh_frame = if go { None } else { bytes(b".eh_frame").filter(|b| b.len() > 4) };
        let debug_frame = if eh_frame.is_none() { bytes(b".debug_frame") } else { None };
        if eh_frame.is_none() && debug_frame.is_none() {
            return None;
        }
        Some(Sections {
            base_svma: self.segments.iter().map(|s| s.address).min().unwrap_or(0),
            text_svma: range(b".text"),
            got_svma: range(b".got"),
            eh_frame_svma: range(b".eh_frame"),
            eh_frame_hdr_svma: range(b".eh_frame_hdr"),
            eh_frame_hdr: eh_frame.as_ref().and_then(|_| bytes(b".eh_frame_hdr")),
            eh_frame,
            debug_frame,
            ..Sections::default()
        })
    }
}

/// Ranges of the functions that a .debug_frame has.
fn covered(s: &Sections) -> Vec<Range<u64>> {
    use gimli::UnwindSection;
    let Some(bytes) = &s.debug_frame else { return Vec::new() };
    let mut frame = gimli::DebugFrame::new(bytes, gimli::LittleEndian);
    frame.set_address_size(8);
    let bases = gimli::BaseAddresses::default();
    let mut out = Vec::new();
    let mut entries = frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(fde) = entry else { continue };
        if let Ok(fde) = fde.parse(gimli::DebugFrame::cie_from_offset) {
            out.push(fde.initial_address()..fde.end_address());
        }
    }
    out.sort_unstable_by_key(|r| r.start);
    out
}

fn size(s: &Sections) -> usize {
    [&s.eh_frame, &s.eh_frame_hdr, &s.debug_frame].into_iter().flatten().map(|b| b.len()).sum()
}

/// A compressed section: Elf64_Chdr (type, 0, size, alignment), then the data. Go's linker writes zlib.
fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    const ZLIB: u32 = 1; // ELFCOMPRESS_ZLIB
    let kind = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    if kind != ZLIB {
        return None;
    }
    miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes.get(24..)?, LARGEST as usize).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_refused_without_a_panic() {
        let whole = std::fs::read("/proc/self/exe").expect("own program");
        let head = &whole[..whole.len().min(1 << 16)];
        assert!(Elf::of_memory(head).is_some());
        for at in 0..256 {
            let mut bytes = head.to_vec();
            bytes[at] = !bytes[at];
            let _ = Elf::of_memory(&bytes);
            let _ = Elf::of_memory(&head[..at]);
        }
    }

    #[test]
    fn own_program_has_tables() {
        let file = File::open("/proc/self/exe").expect("own program");
        let elf = Elf::read(&file).expect("an ELF file");
        assert!(elf.tables.is_some_and(|t| t.eh_frame.is_some() && t.eh_frame_hdr.is_some()));
        assert!(!elf.narrow && elf.bytes > 1000 && !elf.segments.is_empty());
    }
}
