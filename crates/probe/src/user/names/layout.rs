// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offsets in an ELF file, the addresses that its linker gave, and the functions between.

use super::demangle::demangle;
use super::{Found, Place};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SymbolKind};

/// Where an ELF file's parts lie, and its plain symbols.
#[derive(Debug, Default)]
pub(super) struct Layout<'d> {
    /// Address, file offset, bytes of each loaded segment.
    segments: Vec<(u64, u64, u64)>,
    /// Address and end of each section.
    sections: Vec<(u64, u64)>,
    /// Function symbols that have a size: address, end, mangled name; by address.
    functions: Vec<(u64, u64, &'d str)>,
    /// Longest of them, bytes.
    longest: u64,
}

impl<'d> Layout<'d> {
    pub(super) fn new<R: ReadRef<'d>>(elf: &object::File<'d, R>) -> Self {
        let segments = elf.segments().map(|s| (s.address(), s.file_range().0, s.file_range().1)).collect();
        let sections = elf
            .sections()
            .filter(|s| s.address() != 0)
            .map(|s| (s.address(), s.address().saturating_add(s.size())))
            .collect();
        Self { segments, sections, ..Self::default() }
    }

    /// Reads .symtab and .dynsym, of the file itself or of its separate debug info: what they say of
    /// functions whose size they tell.
    pub(super) fn read_functions<R: ReadRef<'d>>(&mut self, elf: &object::File<'d, R>) {
        self.functions.extend(
            elf.symbols()
                .chain(elf.dynamic_symbols())
                .filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.size() > 0)
                .filter_map(|s| Some((s.address(), s.address().checked_add(s.size())?, s.name().ok()?))),
        );
        self.order();
    }

    /// Takes other functions in: address, end, name.
    pub(super) fn add_functions(&mut self, functions: Vec<(u64, u64, &'d str)>) {
        self.functions.extend(functions);
        self.order();
    }

    fn order(&mut self) {
        // Of several names of one function the first in their order: always the same.
        self.functions.sort_unstable();
        self.functions.dedup_by_key(|f| (f.0, f.1));
        self.longest = self.functions.iter().map(|f| f.1 - f.0).max().unwrap_or(0);
    }

    /// The name with its path of the function that begins at a file offset, where its symbol is mangled.
    pub(super) fn qualified(&self, offset: u64) -> Option<String> {
        let address = self.address(offset)?;
        let from = self.functions.partition_point(|f| f.0 < address);
        let same = self.functions[from..].iter().take_while(|f| f.0 == address);
        same.map(|f| (f.2, demangle(f.2))).find(|(symbol, name)| name != symbol).map(|(_, name)| name)
    }

    /// Address of a file offset.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let (address, from, _) =
            self.segments.iter().find(|(_, from, len)| offset >= *from && offset - from < *len)?;
        (offset - from).checked_add(*address)
    }

    /// File offset of an address.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        let (start, from, _) =
            self.segments.iter().find(|(start, _, len)| address >= *start && address - start < *len)?;
        (address - start).checked_add(*from)
    }

    /// Whether two addresses lie in one section.
    pub(super) fn together(&self, a: u64, b: u64) -> bool {
        self.sections.iter().any(|s| (s.0..s.1).contains(&a) && (s.0..s.1).contains(&b))
    }

    /// The innermost function whose symbol says that it holds the place.
    pub(super) fn function(&self, place: Place) -> Option<Found> {
        let address = self.address(place.instruction())?;
        let behind = self.functions.partition_point(|f| f.0 <= address);
        let (start, end, name) = self.functions[..behind]
            .iter()
            .rev()
            .take_while(|f| address - f.0 < self.longest)
            .find(|f| address < f.1)?;
        let frames = vec![(demangle(name), String::new())];
        Some(Found { start: self.offset(*start)?, size: end - start, frames })
    }
}
