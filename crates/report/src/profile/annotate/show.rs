// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listing: head, instructions with their share, source lines between them.

use super::source::{split, Sources};
use super::Options;
use anyhow::Result;
use plumb_analysis::instructions::disassembly::hex;
use plumb_analysis::instructions::histogram::{self, Found, Weight};
use plumb_analysis::instructions::sheet::{share, Sheet};
use plumb_analysis::instructions::words::{self, HotInstruction};
use plumb_machine::json::{formats, Format, Output};
use plumb_model::profile::{Origin, Profile};
use plumb_trace::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// An instruction with this part of its function's time is shown with its neighbours.
const SHOWN: f64 = 0.01;
/// One with this part is marked.
const MARKED: f64 = 0.1;
/// Neighbours shown on each side.
const AROUND: usize = 4;
/// A function of so many instructions is shown whole.
const SHORT: usize = 40;
/// Width of share, time and samples.
const FIGURES: usize = 29;

/// One instruction, or an address that has none.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// In its module: offset in the file, or address.
    pub address: u64,
    /// From the function's start; `None` where that is not known or the address lies before it.
    pub offset: Option<u64>,
    pub bytes: String,
    /// Its text; empty where there is no code.
    pub instruction: String,
    /// Whether a jump of the function leads to it.
    pub jumped_to: bool,
    /// ns.
    pub time_ns: u64,
    pub samples: u64,
    /// Part of the function's time, 0 to 1.
    pub share: f64,
    /// `FILE:LINE` of the samples or calls in it; empty where not known.
    pub line: String,
    /// That line's text, where the file could be read.
    pub source: Option<String>,
}

/// Everything that is shown of a function.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    pub function: String,
    /// Its program, library, or `kernel`.
    pub module: String,
    /// Build id of that, in hex.
    pub build_id: String,
    /// Where it begins in its module.
    pub start: u64,
    /// Its length in bytes, 0 not known.
    pub size: u64,
    /// ns on a CPU in it.
    pub time_ns: u64,
    pub samples: u64,
    /// Part of all time on a CPU, 0 to 1.
    pub share: f64,
    pub hot: Option<HotInstruction>,
    /// The same in words, or of a loop.
    pub words: Option<String>,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// By address; of a function without code only those that have samples.
    pub rows: Vec<Row>,
    /// Addresses outside the code that the trace has.
    pub outside: Vec<Row>,
}

impl Output for Listing {
    const FORMAT: &'static Format = &formats::PROFILE_ANNOTATE;
}

impl Listing {
    /// `None`: the profile has no such function.
    pub fn new(profile: &Profile, found: &Found, options: &Options) -> Option<Self> {
        let sheet = Sheet::new(profile, &found.histogram, &options.machine)?;
        let mut sources = Sources::new(options.source.as_deref());
        let lines = lines(profile, &sheet, &found.histogram.lines);
        let mut row = |address: u64, weight: Weight, line: Option<&str>| Row {
            address,
            offset: address.checked_sub(sheet.function.start).filter(|_| sheet.function.start > 0),
            time_ns: weight.time,
            samples: weight.samples,
            share: share(weight, sheet.all),
            line: line.unwrap_or_default().into(),
            source: line.and_then(|l| sources.line(l)),
            ..Row::default()
        };
        let mut rows = Vec::new();
        for (i, x) in sheet.code.instructions.iter().enumerate() {
            let address = sheet.function.start.saturating_add(x.offset);
            let bytes = sheet.bytes.get(x.offset as usize..(x.offset + x.length) as usize);
            let line = lines.get(&x.offset).copied();
            rows.push(Row {
                bytes: hex(bytes.unwrap_or_default()),
                instruction: x.text.clone(),
                jumped_to: sheet.code.is_target(i),
                ..row(address, sheet.weights[i], line)
            });
        }
        let of = |address: &u64| profile.lines.get(*found.histogram.lines.get(address)? as usize);
        let outside: Vec<Row> =
            sheet.outside.iter().map(|(a, w)| row(*a, *w, of(a).map(String::as_str))).collect();
        let lacking = sheet.lacking(profile);
        let (rows, outside) = if lacking.is_some() { (outside, rows) } else { (rows, outside) };
        let module = profile.modules.get(sheet.function.module as usize);
        let notes = notes(profile, found, &sheet, lacking, &sources, options);
        Some(Self {
            function: sheet.function.name.clone(),
            module: module.map_or_else(String::new, |m| m.path.clone()),
            build_id: module.map_or_else(String::new, |m| m.build_id.clone()),
            start: sheet.function.start,
            size: sheet.function.size,
            time_ns: sheet.all.time,
            samples: sheet.all.samples,
            share: share(sheet.all, histogram::whole(profile)),
            hot: words::instruction(&sheet),
            words: words::of(&sheet),
            notes,
            rows,
            outside,
        })
    }

    /// Prints it; `all`: every instruction.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, all: bool, out: &mut dyn Write) -> Result<()> {
        let size = if self.size > 0 { format!("{} bytes", self.size) } else { "unknown size".into() };
        writeln!(out, "{} of {}, {size} at {:#x}", self.function, self.module, self.start)?;
        writeln!(
            out,
            "  {} in {} samples, {:.1} % of CPU time",
            units::duration(self.time_ns),
            units::count(self.samples),
            100.0 * self.share
        )?;
        for sentence in self.words.iter().chain(&self.notes) {
            writeln!(out, "  {sentence}")?;
        }
        let rows = || self.rows.iter().chain(&self.outside);
        let places: Vec<String> = rows().map(Row::place).collect();
        let width = places.iter().map(String::len).max().unwrap_or(0).max("place".len());
        writeln!(out, "\n    share       time  samples  {:>width$}  instruction", "place")?;
        let shown = self.shown(all);
        let mut line = "";
        let mut left_out = (0, Weight::default());
        for (i, row) in self.rows.iter().enumerate() {
            if !shown[i] {
                left_out.0 += 1;
                left_out.1.add(Weight { time: row.time_ns, samples: row.samples });
                continue;
            }
            self.gap(&mut left_out, width, out)?;
            row.write(width, &mut line, out)?;
        }
        self.gap(&mut left_out, width, out)?;
        if !self.outside.is_empty() {
            writeln!(out, "\n  Outside the recorded code:")?;
            for row in &self.outside {
                row.write(width, &mut line, out)?;
            }
        }
        Ok(())
    }

    fn shown(&self, all: bool) -> Vec<bool> {
        let n = self.rows.len();
        let code = self.rows.iter().any(|r| !r.instruction.is_empty());
        if all || n <= SHORT || !code {
            return vec![true; n];
        }
        let mut shown = vec![false; n];
        for (i, _) in self.rows.iter().enumerate().filter(|(_, r)| r.samples > 0 && r.share >= SHOWN) {
            shown[i.saturating_sub(AROUND)..(i + AROUND + 1).min(n)].fill(true);
        }
        // The line that tells of what was left out must not be longer than that.
        let mut i = 0;
        while i < n {
            let end = shown[i..].iter().position(|s| *s).map_or(n, |next| i + next);
            if end - i <= 2 {
                shown[i..end].fill(true);
            }
            i = end + 1;
        }
        shown
    }

    fn gap(&self, left_out: &mut (usize, Weight), width: usize, out: &mut dyn Write) -> Result<()> {
        let (n, weight) = std::mem::take(left_out);
        if n > 0 {
            let whole = Weight { time: self.time_ns, samples: self.samples };
            let part = 100.0 * share(weight, whole);
            let blank = " ".repeat(FIGURES + 4 + width);
            writeln!(out, "{blank}... {n} instructions with {part:.1} % (--all shows them)")?;
        }
        Ok(())
    }
}

impl Row {
    fn place(&self) -> String {
        self.offset.map_or_else(|| format!("{:#x}", self.address), |o| format!("+{o:#x}"))
    }

    fn write<'a>(&'a self, width: usize, before: &mut &'a str, out: &mut dyn Write) -> Result<()> {
        let new = !self.line.is_empty() && self.line != *before;
        if let Some(source) = self.source.as_ref().filter(|_| new) {
            writeln!(out, "{}; {}", " ".repeat(FIGURES + 4 + width), source.trim_end())?;
        }
        let figures = if self.samples == 0 && self.time_ns == 0 {
            " ".repeat(FIGURES)
        } else {
            let mark = if self.share >= MARKED { '*' } else { ' ' };
            let time = units::duration(self.time_ns);
            format!("{mark} {:>5.1} % {time:>10} {:>8}", 100.0 * self.share, units::count(self.samples))
        };
        let jumped = if self.jumped_to { '>' } else { ' ' };
        let text = format!("{figures} {jumped}{:>width$}  {}", self.place(), self.instruction);
        if new {
            let (file, line) = split(&self.line);
            let name = file.rsplit('/').next().unwrap_or(file);
            writeln!(out, "{text:<length$} ; {name}:{line}", length = FIGURES + 40 + width)?;
            *before = &self.line;
        } else {
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// The line of each instruction that a stack names, by offset.
fn lines<'a>(profile: &'a Profile, sheet: &Sheet<'_>, by: &BTreeMap<u64, u32>) -> BTreeMap<u64, &'a str> {
    let mut out = BTreeMap::new();
    for (address, line) in by {
        let i = address.checked_sub(sheet.function.start).and_then(|o| sheet.code.at(o));
        if let (Some(i), Some(line)) = (i, profile.lines.get(*line as usize)) {
            out.insert(sheet.code.instructions[i].offset, line.as_str());
        }
    }
    out
}

/// What the reader must know, a sentence each.
fn notes(
    profile: &Profile,
    found: &Found,
    sheet: &Sheet<'_>,
    lacking: Option<String>,
    sources: &Sources,
    options: &Options,
) -> Vec<String> {
    let mut out = Vec::new();
    let name = &sheet.function.name;
    if let Some((inlined, part)) = &found.inlined {
        out.push(format!(
            "The compiler inlined {inlined} into {name}: {} of the {} samples belong to {inlined}.",
            units::count(part.samples),
            units::count(sheet.all.samples)
        ));
    }
    if !found.others.is_empty() {
        out.push(format!("{} Select one with MODULE!NAME.", others(profile, found)));
    }
    if let Some(why) = lacking {
        out.push(format!("No instructions: {why}."));
    } else {
        code_notes(sheet, options, &mut out);
        out.push(
            "A sample has the address of the next instruction to run (skid), so most of its time belongs to the instruction \
             before it. Exceptions: jump targets (>) and an interrupted rep. * marks 10 % or more."
                .into(),
        );
    }
    if sheet.function.origin == Origin::Kernel && profile.clock.starts_with("cpu-clock") {
        out.push(
            "This clock does not sample code that runs with interrupts disabled: its time is counted where interrupts are enabled again."
                .into(),
        );
    }
    let missing = sources.missing();
    if let Some(first) = missing.first() {
        let more = if missing.len() > 1 { format!(" and {} more", missing.len() - 1) } else { String::new() };
        let next = if options.source.is_some() {
            "not in --source either"
        } else {
            "set its directory with --source DIR"
        };
        out.push(format!("Source not found: {first}{more} ({next})."));
    }
    out
}

fn others(profile: &Profile, found: &Found) -> String {
    let name = |(i, w): &(usize, Weight)| {
        let f = profile.functions.get(*i)?;
        let module = histogram::module(profile, f);
        Some(format!("{module}!{} ({} samples)", f.name, units::count(w.samples)))
    };
    let names: Vec<String> = found.others.iter().filter_map(name).take(4).collect();
    let more = found.others.len() - names.len().min(found.others.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("The name also matches {}{more}.", names.join(", "))
}

fn code_notes(sheet: &Sheet<'_>, options: &Options, out: &mut Vec<String>) {
    let (have, size) = (sheet.bytes.len() as u64, sheet.function.size);
    if have < size {
        out.push(format!("The trace has only the first {have} of {size} bytes of the function."));
    }
    if !sheet.code.decoded {
        out.push(format!(
            "plumb disassembles x86_64 only: code of {} is shown as machine words.",
            options.machine
        ));
    }
    if sheet.code.cut {
        out.push("The code ends inside an instruction.".into());
    }
    if sheet.amid > 0 {
        let n = units::count(sheet.amid);
        out.push(format!(
            "{n} samples have an address inside an instruction: the code changed while it ran, or it contains data."
        ));
    }
    let mut lost = Weight::default();
    sheet.outside.iter().for_each(|(_, w)| lost.add(*w));
    if lost.samples > 0 {
        let first = sheet.outside.first().map_or_else(String::new, |(a, _)| sheet.place(*a));
        out.push(format!(
            "{} samples are outside the recorded code, the first at {first}.",
            units::count(lost.samples)
        ));
    }
}
