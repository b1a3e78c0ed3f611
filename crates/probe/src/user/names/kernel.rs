// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in the kernel: functions from kallsyms; lines and inlined functions where the
//! kernel's debug info is installed.

use super::{debug, elf, Answer, Found, Place};
use crate::stacks::Kallsyms;
use object::{Object, ObjectSymbol, ReadCache};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Debug info of the running kernel.
///
/// # Errors
/// There is a file, but of another build.
pub(super) fn running() -> Result<Option<PathBuf>, String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let places = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/boot/vmlinux-{release}"),
        format!("/lib/modules/{release}/build/vmlinux"),
    ];
    let Some(path) = places.iter().map(PathBuf::from).find(|p| p.is_file()) else { return Ok(None) };
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    match (note_id(&notes), debug::build_id(&path)) {
        (Some(runs), Some(found)) if runs == found => Ok(Some(path)),
        _ => Err(format!("{} is not of the kernel that runs (build id): no lines", path.display())),
    }
}

/// The GNU build id among ELF notes (elf(5)), in hex.
pub(super) fn note_id(notes: &[u8]) -> Option<String> {
    let mut rest = notes;
    loop {
        let word = |i: usize| Some(u32::from_ne_bytes(rest.get(i..i + 4)?.try_into().ok()?));
        let (name, value, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let data = 12 + name.next_multiple_of(4);
        if kind == object::elf::NT_GNU_BUILD_ID && rest.get(12..16)? == b"GNU\0" {
            return Some(rest.get(data..data + value)?.iter().map(|b| format!("{b:02x}")).collect());
        }
        rest = rest.get(data + value.next_multiple_of(4)..)?;
    }
}

/// Names places, addresses.
pub(super) fn name(
    places: &[Place],
    symbols: &Kallsyms,
    vmlinux: &Result<Option<PathBuf>, String>,
) -> Answer {
    if symbols.is_empty() {
        return Answer::nothing(
            places,
            "/proc/kallsyms hides its addresses; record as root, with kernel.kptr_restrict below 2",
        );
    }
    let mut found: Vec<Option<Found>> = places.iter().map(|p| function(symbols, *p)).collect();
    let mut source = "/proc/kallsyms".to_string();
    let mut lacking = Vec::new();
    if found.iter().any(Option::is_none) {
        lacking.push("some addresses lie in nothing that /proc/kallsyms names".to_string());
    }
    match vmlinux {
        Ok(None) => {}
        Err(why) => lacking.push(why.clone()),
        Ok(Some(path)) => match lines(path, symbols, places, &mut found) {
            Ok(()) => source = format!("/proc/kallsyms, {}", path.display()),
            Err(why) => lacking.push(format!("{}: {why}: no lines of some places", path.display())),
        },
    }
    Answer { found, source, lacking: lacking.join("; ") }
}

fn function(symbols: &Kallsyms, place: Place) -> Option<Found> {
    let at = symbols.place(place.instruction())?;
    let name = match at.module {
        "" => at.name.to_string(),
        module => format!("{} [{module}]", at.name),
    };
    Some(Found { start: at.start, size: at.size, frames: vec![(name, String::new())] })
}

/// Adds lines and inlined functions to what kallsyms told.
fn lines(
    vmlinux: &Path,
    symbols: &Kallsyms,
    places: &[Place],
    found: &mut [Option<Found>],
) -> Result<(), String> {
    // The kernel lies elsewhere at every boot, all of it by the same distance.
    let linked = address_of(vmlinux, "_stext").ok_or("it has no symbol _stext")?;
    let runs = symbols.address("_stext").ok_or("/proc/kallsyms has no _stext")?;
    let distance = runs.wrapping_sub(linked);
    let inside = |p: &Place| symbols.place(p.instruction()).is_some_and(|at| at.module.is_empty());
    let asked: Vec<usize> = (0..places.len()).filter(|i| inside(&places[*i])).collect();
    let addresses: Vec<u64> = asked.iter().map(|i| places[*i].instruction().wrapping_sub(distance)).collect();
    elf::symbolize(vmlinux, true, &addresses, &mut |n, sym| {
        let Some(found) = &mut found[asked[n]] else { return };
        // kallsyms has the last word on the function: it is what runs.
        if let (Some(own), mut frames) = (found.frames.pop(), elf::frames(&sym)) {
            if let Some(last) = frames.last_mut() {
                last.0 = own.0;
            }
            found.frames = frames;
        }
    })
}

fn address_of(vmlinux: &Path, name: &str) -> Option<u64> {
    let file = File::open(vmlinux).ok()?;
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).ok()?;
    let found = elf.symbols().find(|s| s.name() == Ok(name)).map(|s| s.address());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernels_build_id_is_read() {
        let notes = std::fs::read("/sys/kernel/notes").expect("every kernel has them");
        let id = note_id(&notes).expect("a build id");
        assert!(id.len() >= 16 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        assert_eq!(note_id(&notes[..notes.len().min(10)]), None);
        assert_eq!(note_id(&[0xff; 64]), None);
    }
}
