// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences about the instruction that has most of a function's samples.
//!
//! The clock's interrupt is taken between two instructions, and names the one that would come
//! next; so what took the time is mostly the one before it. Where jumps lead to the named one,
//! what ran before it is not known.

use super::disassembly::{Code, Kind, Loop};
use super::histogram::{self, Weight};
use super::sheet::{share, Sheet};
use plumb_model::profile::{Origin, Profile};
use serde::Serialize;

/// One instruction must have this part of its function's samples to be named.
const PART: f64 = 0.25;
/// And at least so many.
const SAMPLES: u64 = 10;
/// A loop must have this part of its function's samples to be named.
const LOOP_PART: f64 = 0.5;
/// How far before the sampled instruction one is looked for that is known to be slow.
const BACK: usize = 3;

/// Where the likely culprit lies, seen from the sampled instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It is the sampled one.
    At,
    Before,
    Near,
}

/// The instruction that likely took the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Culprit {
    /// Bytes from the function's start.
    pub offset: u64,
    pub instruction: String,
    /// What about it is slow.
    pub kind: Kind,
    pub side: Side,
    /// How many instructions before the sampled one.
    pub distance: usize,
}

/// The instruction with most of a function's samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotInstruction {
    pub function: String,
    /// Bytes from its start.
    pub offset: u64,
    pub instruction: String,
    /// Part of the function's samples, 0 to 1.
    pub share: f64,
    pub samples: u64,
    pub function_samples: u64,
    /// What likely took the time; `None`: nothing near is known to be slow.
    pub culprit: Option<Culprit>,
    /// Jumps lead to it, so that what ran before it is not known.
    pub jumped_to: bool,
    /// The shortest loop around it.
    pub r#loop: Option<HotLoop>,
    /// All of it in words.
    pub sentence: String,
}

/// A loop and what lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HotLoop {
    #[serde(flatten)]
    pub place: Loop,
    /// Part of the function's samples, 0 to 1.
    pub share: f64,
}

impl HotLoop {
    fn words(&self) -> String {
        let l = self.place;
        format!("a loop of {} instructions from +{:#x} to +{:#x}", l.instructions, l.from, l.to)
    }
}

fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "memory is copied there",
        Kind::Fill => "memory is filled or cleared there",
        Kind::Scan => "memory is compared or searched there",
        Kind::Divide => "a division takes many cycles",
        Kind::Root => "a square root takes many cycles",
        Kind::Atomic => "an atomic operation, slow where other CPUs use the same cache line",
        Kind::Pause => "it spins until another CPU is done",
        Kind::SystemCall => "the way into the kernel and back",
        Kind::Hypervisor => "a virtual machine's hypervisor may have to do it",
        Kind::Clock => "it reads the time stamp counter",
        Kind::Serialise => "it waits until all before it is done",
        Kind::Unmask => "interrupts are let in there, so the time before it, without them, is counted here",
        Kind::Flush => "a cache line is written back or dropped",
        Kind::Load => "a load from memory, slow where it misses the caches or the TLB",
        Kind::Call => "the way back from that call, or this instruction itself",
        Kind::Return => "the way back to the caller",
    }
}

/// Who likely took the time that is counted at `i`.
fn culprit(code: &Code, i: usize) -> Option<Culprit> {
    let make = |at: usize, side| {
        let x = code.instructions.get(at)?;
        let kind = x.kind?;
        // A string instruction's operands go without saying.
        let text = if kind.resumes() { x.text.split(" (").next() } else { None };
        let instruction = text.unwrap_or(&x.text).to_string();
        Some(Culprit { offset: x.offset, instruction, kind, side, distance: i - at })
    };
    let kind = |at: usize| code.instructions.get(at).and_then(|x| x.kind);
    let before = code.before(i);
    let slow = |at: &usize| kind(*at).is_some_and(Kind::slow);
    if kind(i).is_some_and(Kind::resumes) {
        return make(i, Side::At);
    }
    if let Some(at) = before.filter(slow) {
        return make(at, Side::Before);
    }
    if slow(&i) {
        return make(i, Side::At);
    }
    if let Some(at) = before.filter(|at| kind(*at) == Some(Kind::Load)) {
        return make(at, Side::Before);
    }
    let mut at = before;
    for _ in 1..BACK {
        // A called function ran between.
        at = at.filter(|at| kind(*at) != Some(Kind::Call)).and_then(|at| code.before(at));
        if let Some(at) = at.filter(slow) {
            return make(at, Side::Near);
        }
    }
    if kind(i) == Some(Kind::Load) {
        return make(i, Side::At);
    }
    before.filter(|at| kind(*at) == Some(Kind::Call)).and_then(|at| make(at, Side::Before))
}

fn of_loop(sheet: &Sheet<'_>, place: Loop) -> HotLoop {
    let mut inside = Weight::default();
    for (x, w) in sheet.code.instructions.iter().zip(&sheet.weights) {
        if (place.from..=place.to).contains(&x.offset) {
            inside.add(*w);
        }
    }
    HotLoop { place, share: by_samples(inside, sheet.all) }
}

fn by_samples(part: Weight, whole: Weight) -> f64 {
    share(Weight { time: 0, ..part }, Weight { time: 0, ..whole })
}

/// The instruction with most samples, where it has enough of them to be named.
pub fn instruction(sheet: &Sheet<'_>) -> Option<HotInstruction> {
    if !sheet.code.decoded {
        return None;
    }
    let (i, weight) = sheet.weights.iter().enumerate().max_by_key(|(i, w)| (w.samples, usize::MAX - i))?;
    let part = by_samples(*weight, sheet.all);
    if part < PART || weight.samples < SAMPLES {
        return None;
    }
    let at = sheet.code.instructions.get(i)?;
    let culprit = culprit(&sheet.code, i);
    let around = sheet.code.loop_around(i).or_else(|| {
        // The sample after a loop's end may be its last instruction's.
        let before = culprit.as_ref().filter(|c| c.side == Side::Before)?;
        sheet.code.loop_around(sheet.code.at(before.offset)?)
    });
    let mut hot = HotInstruction {
        function: sheet.function.name.clone(),
        offset: at.offset,
        instruction: at.text.clone(),
        share: part,
        samples: weight.samples,
        function_samples: sheet.all.samples,
        culprit,
        jumped_to: sheet.code.is_target(i),
        r#loop: around.map(|l| of_loop(sheet, l)),
        sentence: String::new(),
    };
    hot.sentence = sentence(&hot, sheet.code.before(i).map(|b| sheet.code.instructions[b].text.as_str()));
    Some(hot)
}

fn sentence(hot: &HotInstruction, before: Option<&str>) -> String {
    let place = format!("+{:#x}", hot.offset);
    let mut text = format!("{:.0} % of {} lies at {place}", 100.0 * hot.share, hot.function);
    match &hot.culprit {
        Some(c) => {
            let distance = c.distance;
            let (instruction, what) = (&c.instruction, meaning(c.kind));
            text += &match c.side {
                Side::At => format!(" (`{instruction}`): {what}"),
                Side::Before => format!(" (right behind `{instruction}`): {what}"),
                Side::Near => format!(" ({distance} instructions behind `{instruction}`): perhaps {what}"),
            };
        }
        None if hot.offset == 0 => {
            text += &format!(" (`{}`): the call into it, or its code missed the caches", hot.instruction);
        }
        None => {
            let behind = before.map_or_else(String::new, |b| format!(", behind `{b}`"));
            text += &format!(" (`{}`{behind}): nothing there is known to be slow", hot.instruction);
        }
    }
    if let Some(l) = &hot.r#loop {
        text += &format!("; in {} ({:.0} %)", l.words(), 100.0 * l.share);
    }
    let resumes = hot.culprit.as_ref().is_some_and(|c| c.side == Side::At && c.kind.resumes());
    if hot.jumped_to && hot.offset > 0 && !resumes {
        text += &format!("; jumps lead to {place}, so it may be the time of what ran before them");
    }
    text
}

/// The shortest loop that most of a function's samples lie in.
fn hot_loop(sheet: &Sheet<'_>) -> Option<HotLoop> {
    let jumps = sheet.code.instructions.iter().filter(|x| x.target.is_some_and(|t| t <= x.offset));
    let loops = jumps.filter_map(|x| sheet.code.loop_around(sheet.code.at(x.offset)?));
    let mut seen: Vec<Loop> = loops.collect();
    seen.sort_by_key(|l| (l.to - l.from, l.from));
    seen.dedup();
    seen.into_iter().map(|l| of_loop(sheet, l)).find(|l| l.share >= LOOP_PART)
}

/// What is to be said of a function's instructions: the one with most samples, or the loop.
pub fn of(sheet: &Sheet<'_>) -> Option<String> {
    if let Some(hot) = instruction(sheet) {
        return Some(hot.sentence);
    }
    let l = hot_loop(sheet).filter(|_| sheet.all.samples >= SAMPLES)?;
    let (part, name) = (100.0 * l.share, &sheet.function.name);
    Some(format!("{part:.0} % of {name} lies in {}; no single instruction stands out", l.words()))
}

/// Which function of a profile is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    pub function: &'a str,
    /// Its module's file name; `kernel`.
    pub module: &'a str,
    pub origin: Origin,
}

/// Of several functions of one name, module and origin the one with most samples.
fn with<T>(
    profile: &Profile,
    machine: &str,
    named: Named<'_>,
    then: impl Fn(&Sheet<'_>) -> Option<T>,
) -> Option<T> {
    let fits = |f: &plumb_model::profile::Function| {
        f.name == named.function
            && f.origin == named.origin
            && profile.modules.get(f.module as usize).is_some_and(|m| m.name() == named.module)
    };
    let at = (0..profile.functions.len()).filter(|i| fits(&profile.functions[*i]));
    let most = at.filter_map(|i| histogram::of(profile, i)).max_by_key(|h| h.all.samples)?;
    then(&Sheet::new(profile, &most, machine)?)
}

/// The instruction with most of a function's samples: at least a quarter of them, and ten.
/// `machine` is whose code it is, as Rust calls it. `None` where no instruction stands out or the
/// profile has not the function's code.
#[cfg(test)]
pub fn hot_instruction(profile: &Profile, machine: &str, named: Named<'_>) -> Option<HotInstruction> {
    with(profile, machine, named, instruction)
}

/// The same in words, or the loop that the samples lie in.
pub fn hot_words(profile: &Profile, machine: &str, named: Named<'_>) -> Option<String> {
    with(profile, machine, named, of)
}
