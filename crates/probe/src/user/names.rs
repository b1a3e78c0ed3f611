// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions, source lines and code of places in modules and in the kernel; read when the recording is over, or when a
//! run is taken out of it. One file a source of names.

mod apart;
mod code;
mod debug;
mod demangle;
mod elf;
mod gopclntab;
mod kernel;
mod layout;
mod peek;
mod perfmap;
mod vdso;

#[cfg(test)]
mod tests;

use super::{Kind, Module};
use crate::stacks::Kallsyms;
use apart::Depth;
use plumb_trace::ctf::{HEAD_BYTES, MAX_PACKET_BYTES};
use plumb_trace::event::StateEvent;
use plumb_trace::schema::{StateCode, StateFunction, StateSymbols};
use plumb_trace::writer::{Sink, TraceWriter};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A name is cut behind this many bytes: generated C++ names can be longer than their code.
const LONGEST_NAME: usize = 4096;

#[derive(Debug, Default)]
pub struct Named {
    /// A row for each place that has a function.
    pub functions: Vec<StateFunction>,
    /// A row for each module that was named, and the kernel (0).
    pub symbols: Vec<StateSymbols>,
    /// Code of the functions with most samples.
    pub code: Vec<StateCode>,
}

/// What stacks went through up to a moment, and who has names for it.
#[derive(Debug)]
pub struct Places {
    pub modules: Vec<Module>,
    /// By module (0 the kernel) and offset, how many samples have their innermost frame there (0: it is only a caller,
    /// its offset a return address).
    pub places: BTreeMap<(u32, u64), u64>,
    pub kernel: Arc<Kallsyms>,
}

impl Places {
    /// Names them, when the recording is over: where `DEBUGINFOD_URLS` is set, debug info is fetched, and stderr told of it: up to
    /// 5 min. Needs root for the kernel's code alone.
    pub fn name(&self) -> Named {
        self.named(debug::Fetcher::from_environment(), None)
    }

    /// Names them while others are at work, the most sampled modules first, for so long: fetches nothing, and reads no code.
    pub fn name_within(&self, within: Duration) -> Named {
        self.named(None, Some(within))
    }

    fn named(&self, fetcher: Option<debug::Fetcher>, within: Option<Duration>) -> Named {
        let mut sources = Sources {
            kernel: &self.kernel,
            vmlinux: kernel::running(),
            debug: debug::Finder::new(fetcher),
            maps: "/tmp".into(),
            peek: Box::new(peek::read),
        };
        name_from(&self.modules, &self.places, within, &mut sources)
    }
}

/// Where names are looked for besides the modules' own files.
struct Sources<'a> {
    kernel: &'a Kallsyms,
    /// The kernel's debug info, or why there is none.
    vmlinux: Result<Option<std::path::PathBuf>, String>,
    debug: debug::Finder,
    maps: std::path::PathBuf,
    peek: Box<dyn FnMut(u64, usize) -> Result<Vec<u8>, String>>,
}

/// A place that is to be named.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    /// Samples whose innermost frame it is.
    samples: u64,
}

impl Place {
    /// Where its instruction lies. A return address may be the next function's, or another
    /// line's: one byte back is inside the call.
    fn instruction(self) -> u64 {
        if self.samples == 0 {
            self.offset.saturating_sub(1)
        } else {
            self.offset
        }
    }
}

/// A function at a place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Found {
    /// Where it begins, in the place's own terms.
    start: u64,
    /// Bytes, 0 not known.
    size: u64,
    /// Innermost inlined function first; `FILE:LINE` of each, empty where not known.
    frames: Vec<(String, String)>,
}

/// What a source has of a module.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    found: Vec<Option<Found>>,
    source: String,
    lacking: String,
}

impl Named {
    /// Tells a trace, but for what no packet of it holds: how many rows those are.
    ///
    /// # Errors
    /// The sink's.
    pub fn tell<S: Sink>(&self, now: u64, writer: &mut TraceWriter<S>) -> io::Result<u64> {
        let functions = tell_rows(&self.functions, now, writer)?;
        Ok(functions + tell_rows(&self.symbols, now, writer)? + tell_rows(&self.code, now, writer)?)
    }
}

fn tell_rows<E: StateEvent, S: Sink>(rows: &[E], now: u64, writer: &mut TraceWriter<S>) -> io::Result<u64> {
    let mut too_long = 0;
    for row in rows.iter().filter(|row| fits(*row, &mut too_long)) {
        writer.state(now, row)?;
    }
    Ok(too_long)
}

/// Whether a packet of the trace holds it; counts those that it does not.
fn fits<E: StateEvent>(event: &E, too_long: &mut u64) -> bool {
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    // Its time and its id go before it.
    let fits = HEAD_BYTES + 8 + 2 + bytes.len() <= MAX_PACKET_BYTES;
    *too_long += u64::from(!fits);
    fits
}

impl Answer {
    fn nothing(places: &[Place], lacking: impl Into<String>) -> Self {
        Self { found: vec![None; places.len()], source: String::new(), lacking: lacking.into() }
    }
}

fn name_from(
    modules: &[Module],
    places: &BTreeMap<(u32, u64), u64>,
    within: Option<Duration>,
    sources: &mut Sources<'_>,
) -> Named {
    let mut by_module: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
    for (&(module, offset), &samples) in places {
        by_module.entry(module).or_default().push(Place { offset, samples });
    }
    let known: HashMap<u32, &Module> = modules.iter().map(|m| (m.number, m)).collect();
    // What is fetched has a time limit: the modules with most samples have the first go.
    let mut order: Vec<(u32, Vec<Place>)> = by_module.into_iter().collect();
    order.sort_by_key(|(_, places)| Reverse((places.iter().map(|p| p.samples).sum::<u64>(), places.len())));
    let mut out = Named::default();
    let mut heat = code::Heat::default();
    let fetches = sources.debug.fetches();
    let ask = |i: usize, depth: Depth| {
        let (number, places) = &order[i];
        answer(*number, known.get(number).copied(), places, depth, sources)
    };
    let numbers: Vec<usize> = order.iter().map(|(_, places)| places.len()).collect();
    let answers = apart::answers(&numbers, fetches, within, ask);
    for ((number, places), answer) in order.iter().zip(answers) {
        heat.add(*number, places, &answer.found);
        tell(*number, places, answer, &mut out);
    }
    if within.is_none() {
        heat.read(&known, &mut sources.peek, &mut out);
    }
    out.functions.sort_unstable_by_key(|f| (f.module, f.offset));
    out.symbols.sort_unstable_by_key(|s| s.module);
    out
}

/// What is known of a module's places.
fn answer(
    number: u32,
    module: Option<&Module>,
    places: &[Place],
    depth: Depth,
    sources: &mut Sources<'_>,
) -> Answer {
    let Some(module) = module else {
        return match number {
            0 => kernel::name(places, sources.kernel, &sources.vmlinux),
            _ => Answer::nothing(places, format!("module {number} was never told")),
        };
    };
    match module.kind {
        Kind::File => elf::name(module, places, depth, &mut sources.debug),
        Kind::Jit => perfmap::name(module, places, &sources.maps),
        Kind::Vdso => vdso::name(places),
        Kind::Python => python(module, places),
        Kind::Nothing => Answer::nothing(places, "nothing was mapped there any more when it was looked for"),
    }
}

/// What was read from the interpreter's memory: each function's name, and the line that it begins at.
fn python(module: &Module, places: &[Place]) -> Answer {
    let found = |place: &Place| {
        let (name, line) = module.functions.get(usize::try_from(place.offset).ok()?.checked_sub(1)?)?;
        let frames = vec![(name.clone(), format!("{}:{line}", module.path))];
        Some(Found { start: place.offset, size: 0, frames })
    };
    let found = places.iter().map(found).collect();
    Answer { found, source: "the interpreter's memory".into(), lacking: String::new() }
}

/// Puts a module's answer into the rows of the trace.
fn tell(module: u32, places: &[Place], answer: Answer, out: &mut Named) {
    let before = out.functions.len();
    for (place, found) in places.iter().zip(answer.found) {
        let Some(found) = found.filter(|f| !f.frames.is_empty()) else { continue };
        let join = |words: Vec<String>| words.join("\n");
        let (names, lines) = found.frames.into_iter().map(|(n, l)| (clean(&n), clean(&l))).unzip();
        out.functions.push(StateFunction {
            module,
            offset: place.offset,
            start: found.start,
            size: found.size,
            names: join(names),
            lines: join(lines),
        });
    }
    out.symbols.push(StateSymbols {
        module,
        places: places.len() as u64,
        named: (out.functions.len() - before) as u64,
        source: clean(&answer.source),
        lacking: clean(&answer.lacking),
    });
}

/// This process's vdso.
pub(super) fn vdso() -> Option<Vec<u8>> {
    vdso::image()
}

/// Reads bytes as what the number says, for [`super::parsers`]; returns how much was found.
pub(super) fn read(which: u8, bytes: &[u8]) -> usize {
    let places = [0, 0x500, 0x7f0018, 0x7f0048, u64::MAX].map(|offset| Place { offset, samples: offset % 2 });
    match which {
        0 => {
            let Ok(elf) = object::File::parse(bytes) else { return 0 };
            let mut layout = layout::Layout::new(&elf);
            layout.read_functions(&elf);
            layout.add_functions(gopclntab::functions(&elf).unwrap_or_default());
            let offsets = (0..bytes.len() as u64).step_by(64);
            let found = offsets.filter_map(|offset| layout.function(Place { offset, samples: 1 }));
            found.map(|f| layout.qualified(f.start).map_or(1, |name| clean(&name).len())).sum()
        }
        1 => gopclntab::parse(bytes, 0x1000, 0x1000).map_or(0, |f| f.len()),
        2 => perfmap::read(&places, bytes),
        4 => kernel::note_id(bytes).map_or(0, |id| id.len()),
        _ => clean(&demangle::demangle(&String::from_utf8_lossy(bytes))).len(),
    }
}

/// Names come from files that anybody may have made: a newline in one would be one frame more,
/// an escape would reach a terminal.
fn clean(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if out.len() > LONGEST_NAME {
        let end = (0..=LONGEST_NAME).rev().find(|i| out.is_char_boundary(*i)).unwrap_or(0);
        out.truncate(end);
        out.push('…');
    }
    out
}
