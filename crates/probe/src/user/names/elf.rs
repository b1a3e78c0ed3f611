// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in programs and libraries: debug info where there is any (the file's own, a
//! separate one), symbols where there is not.

use super::apart::Depth;
use super::demangle::demangle;
use super::layout::Layout;
use super::{debug, gopclntab, Answer, Found, Module, Place};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use object::{Object, ReadCache};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Places that are asked for at once: answers borrow from the library's tables and are larger than ours.
const BATCH: usize = 4096;

/// Names a module's places, offsets in its file.
pub(super) fn name(module: &Module, places: &[Place], depth: Depth, finder: &mut debug::Finder) -> Answer {
    let Some(file) = module.file.as_deref() else {
        let why = if module.lacking.is_empty() { "the file could not be opened" } else { &module.lacking };
        return Answer::nothing(places, why);
    };
    // The kept file, though its path may be another's by now; opened anew, for the recorder goes on, and they would share an offset.
    let kept = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let anew = File::open(&kept);
    // Read as needed: of a large file mostly the section headers.
    let cache = ReadCache::new(anew.as_ref().unwrap_or(file));
    let elf = match object::File::parse(&cache) {
        Ok(elf) => elf,
        Err(e) => return Answer::nothing(places, format!("not an ELF file that can be read: {e}")),
    };
    let mut layout = Layout::new(&elf);
    let lines = depth == Depth::Lines;
    let own = lines && elf.has_debug_symbols();
    let (separate, unfound) = if own || !lines { (None, None) } else { finder.find(module, &elf) };
    let mut lacking = Vec::new();
    let mut found = vec![None; places.len()];
    let debug = own || separate.is_some();
    let path = separate.as_deref().unwrap_or(&kept);
    if let Err(why) = ask(path, debug, &layout, places, &mut found) {
        lacking.push(format!(
            "its debug info cannot be read ({why}): no lines and inlined functions of some places"
        ));
        if let Err(why) = ask(&kept, false, &layout, places, &mut found) {
            lacking.push(format!("its symbols cannot be read ({why})"));
        }
    }
    layout.read_functions(&elf);
    let opened = separate.as_ref().and_then(|path| File::open(path).ok()).map(ReadCache::new);
    if let Some(Ok(elf)) = opened.as_ref().map(object::File::parse) {
        layout.read_functions(&elf);
    }
    let bare = elf.symbols().next().is_none() && separate.is_none();
    let mut from = "";
    if let Some(functions) = bare.then(|| gopclntab::functions(&elf)).flatten() {
        layout.add_functions(functions);
        from = " (.gopclntab)";
    }
    let mut last = None;
    for (place, found) in places.iter().zip(&mut found) {
        match found {
            Some(found) => qualify(found, &layout, &mut last),
            None => *found = layout.function(*place),
        }
    }
    let missing = found.iter().filter(|f| f.is_none()).count();
    if missing > 0 {
        lacking.push(match () {
            () if !bare || !from.is_empty() => {
                format!("{missing} places lie in no function that its symbols tell the size of")
            }
            () if elf.section_by_name(".gopclntab").is_some() => {
                "stripped Go program whose .gopclntab is not understood; build it without -ldflags=-s".into()
            }
            () => "stripped: no .symtab; install its debug symbols or set DEBUGINFOD_URLS".into(),
        });
    }
    // A server that does not have it is no news where the symbols name everything.
    lacking.extend(unfound.filter(|_| missing > 0 || finder.is_broken()));
    let source = separate.map_or_else(|| format!("{}{from}", module.path), |p| p.display().to_string());
    Answer { found, source, lacking: lacking.join("; ") }
}

/// Gives a function the path that its debug info may lack (Rust's `line-tables-only`, `-g1`): its symbol has it.
/// `last`: what was found for the place before, mostly the same function.
fn qualify(found: &mut Found, layout: &Layout<'_>, last: &mut Option<(u64, Option<String>)>) {
    let Some((name, _)) = found.frames.last_mut().filter(|(name, _)| !name.contains("::")) else { return };
    if last.as_ref().is_none_or(|(start, _)| *start != found.start) {
        *last = Some((found.start, layout.qualified(found.start)));
    }
    if let Some((_, Some(qualified))) = last {
        name.clone_from(qualified);
    }
}

/// Asks the library for the places that have no function yet.
///
/// # Errors
/// Why some could not be answered; the others are.
fn ask(
    path: &Path,
    debug: bool,
    layout: &Layout<'_>,
    places: &[Place],
    found: &mut [Option<Found>],
) -> Result<(), String> {
    let asked: Vec<(usize, u64)> = (places.iter().enumerate())
        .filter(|(i, _)| found[*i].is_none())
        .filter_map(|(i, p)| Some((i, layout.address(p.instruction())?)))
        .collect();
    let addresses: Vec<u64> = asked.iter().map(|(_, address)| *address).collect();
    symbolize(path, debug, &addresses, &mut |n, sym| {
        let (place, address) = asked[n];
        let start = layout.offset(sym.addr).filter(|_| has(&sym, address, layout));
        found[place] = start.map(|start| {
            let size = sym.size.unwrap_or(0) as u64;
            Found { start, size, frames: frames(&sym) }
        });
    })
}

/// Whether a symbol says that it holds an address. One without a size (assembly, linker's marks)
/// does so up to the next symbol, but not in the next section.
fn has(sym: &Sym<'_>, address: u64, layout: &Layout<'_>) -> bool {
    // $x and the like mark code and data on arm64, and are no functions.
    let mark = sym.size.is_none() && sym.name.starts_with('$');
    !mark && !sym.name.is_empty() && (sym.size.is_some() || layout.together(sym.addr, address))
}

/// Asks the library for functions at addresses; `each` gets those that it knows, by their place in
/// `addresses`.
///
/// # Errors
/// Why some could not be answered.
pub(super) fn symbolize(
    path: &Path,
    debug: bool,
    addresses: &[u64],
    each: &mut dyn FnMut(usize, Sym<'_>),
) -> Result<(), String> {
    // It takes any name for a mangled one: a C function called f became "float".
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).enable_demangling(false).build();
    let mut elf = Elf::new(path);
    elf.debug_syms = debug;
    let source = Source::Elf(elf);
    let mut failed = None;
    for (batch, addresses) in addresses.chunks(BATCH).enumerate() {
        // It is careful, but files can be broken in more ways than it knows: a line table that names a file
        // which is not in it ends in a panic.
        let answer =
            catch_unwind(AssertUnwindSafe(|| symbolizer.symbolize(&source, Input::VirtOffset(addresses))));
        match answer {
            Ok(Ok(symbols)) => {
                for (i, symbol) in symbols.into_iter().enumerate() {
                    match symbol {
                        Symbolized::Sym(sym) => each(batch * BATCH + i, sym),
                        Symbolized::Unknown(blazesym::symbolize::Reason::IgnoredError) => {
                            failed.get_or_insert_with(|| why(&symbolizer, &source, addresses[i]));
                        }
                        Symbolized::Unknown(_) => {}
                    }
                }
            }
            Ok(Err(e)) => return Err(format!("{e:#}")),
            Err(_) => return Err("the reader gave up on it".into()),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The error behind an address that a batch left out.
fn why(symbolizer: &Symbolizer, source: &Source<'_>, address: u64) -> String {
    match catch_unwind(AssertUnwindSafe(|| symbolizer.symbolize_single(source, Input::VirtOffset(address)))) {
        Ok(Err(e)) => format!("{e:#}"),
        _ => "no reason told".into(),
    }
}

/// Names and lines, innermost first.
pub(super) fn frames(sym: &Sym<'_>) -> Vec<(String, String)> {
    let inlined = sym.inlined.iter().rev().map(|f| (f.name.as_ref(), f.code_info.as_ref()));
    let own = (sym.name.as_ref(), sym.code_info.as_deref());
    // An inlined function's name can be in a supplementary file (dwz) that is not followed.
    inlined.filter(|(name, _)| !name.is_empty()).chain([own]).map(|(n, l)| (demangle(n), line(l))).collect()
}

fn line(info: Option<&CodeInfo<'_>>) -> String {
    match info.and_then(|i| Some((i.to_path(), i.line?))) {
        // Build systems that call compilers with -I./include leave that in every path.
        Some((path, line)) => format!("{}:{line}", path.display()).replace("/./", "/"),
        None => String::new(),
    }
}
