// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where in a function the samples lie, address by address.

use anyhow::{bail, Result};
use plumb_model::profile::{Entry, Frame, Frames, Function, Profile};
use plumb_model::Category;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What lies at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// ns.
    pub time: u64,
    /// Samples of the clock.
    pub samples: u64,
}

impl Weight {
    pub fn add(&mut self, other: Self) {
        self.time += other.time;
        self.samples += other.samples;
    }
}

/// A function's time on a CPU by address. The function is one that has code of its own: what the
/// compiler put into it counts as it.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Place in [`Profile::functions`].
    pub function: usize,
    /// By address in its module, as frames name it.
    pub at: BTreeMap<u64, Weight>,
    /// Places in [`Profile::lines`] of the addresses that have one; those of callers too, which lie
    /// inside their call.
    pub lines: BTreeMap<u64, u32>,
    pub all: Weight,
}

/// What a name led to.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The function with the most samples.
    pub histogram: Histogram,
    /// The inlined function that was asked for, with its part of the histogram.
    pub inlined: Option<(String, Weight)>,
    /// Other functions of that name, the one with most samples first.
    pub others: Vec<(usize, Weight)>,
}

/// Whether a part of the account has samples of the sampling clock behind it.
fn on_cpu(category: Category) -> bool {
    matches!(category, Category::Running | Category::Spinning | Category::Interrupted)
}

/// All time on a CPU.
pub fn whole(profile: &Profile) -> Weight {
    let mut all = Weight::default();
    for e in profile.entries.iter().filter(|e| on_cpu(e.category)) {
        all.add(Weight { time: e.time, samples: e.count });
    }
    all
}

/// The place of the frame whose function has the innermost instruction in its own code.
fn physical(frames: Frames<'_>) -> Option<usize> {
    let own = frames.iter().position(|f| !f.inlined);
    own.or_else(|| frames.len().checked_sub(1))
}

/// One function may have several rows, of one start.
fn key(profile: &Profile, function: usize) -> (u32, u64, usize) {
    match profile.functions.get(function) {
        Some(f) if f.start > 0 => (f.module, f.start, 0),
        _ => (0, 0, function),
    }
}

/// The innermost instruction's frames: what was inlined there, and the function last.
fn innermost<'a>(profile: &'a Profile, entry: &Entry) -> Option<(Frames<'a>, &'a Frame)> {
    let frames = profile.frames_of(entry.stack);
    let frames = frames.take(physical(frames)? + 1);
    Some((frames, frames.last()?))
}

/// The histogram of the functions that `wanted` names, by the one that has their code; with each
/// how much of it is wanted itself.
fn gather(profile: &Profile, wanted: &BTreeSet<usize>) -> Vec<(Histogram, Weight)> {
    let mut at = HashMap::new();
    let mut found: Vec<(Histogram, Weight)> = Vec::new();
    for entry in profile.entries.iter().filter(|e| on_cpu(e.category)) {
        let Some((frames, own)) = innermost(profile, entry) else { continue };
        if !frames.iter().any(|f| wanted.contains(&(f.function as usize))) {
            continue;
        }
        let i = *at.entry(key(profile, own.function as usize)).or_insert_with(|| {
            let function = own.function as usize;
            found.push((Histogram { function, ..Histogram::default() }, Weight::default()));
            found.len() - 1
        });
        found[i].1.add(Weight { time: entry.time, samples: entry.count });
    }
    // Once more for the whole of each: only a part of it may be of the inlined function.
    for entry in profile.entries.iter().filter(|e| on_cpu(e.category)) {
        let Some((frames, own)) = innermost(profile, entry) else { continue };
        let Some(i) = at.get(&key(profile, own.function as usize)) else { continue };
        let histogram = &mut found[*i].0;
        let weight = Weight { time: entry.time, samples: entry.count };
        histogram.all.add(weight);
        let address = frames.first().map_or(own.address, |f| f.address);
        histogram.at.entry(address).or_default().add(weight);
    }
    for stack in 0..profile.stacks.len() as u32 {
        let mut inner: Option<&Frame> = None;
        for frame in profile.frames_of(stack).iter() {
            let first = *inner.get_or_insert(frame);
            if frame.inlined {
                continue;
            }
            inner = None;
            if let Some(i) = at.get(&key(profile, frame.function as usize)).filter(|_| first.line != 0) {
                found[*i].0.lines.insert(first.address, first.line);
            }
        }
    }
    found.sort_by_key(|(h, w)| (std::cmp::Reverse((w.samples, w.time)), h.function));
    found
}

/// A function by its place.
pub fn of(profile: &Profile, function: usize) -> Option<Histogram> {
    gather(profile, &BTreeSet::from([function])).into_iter().next().map(|(h, _)| h)
}

/// A module's name as users write and read it.
pub fn module(profile: &Profile, function: &Function) -> String {
    profile.modules.get(function.module as usize).map_or_else(String::new, |m| m.name().to_string())
}

/// The functions that a name fits: those that are called exactly so, else those that it is a part of.
/// `MODULE!NAME` asks for one module's.
fn matching(profile: &Profile, name: &str) -> BTreeSet<usize> {
    let fits = |module_of: Option<&str>, name: &str, exact: bool| -> BTreeSet<usize> {
        let all = profile.functions.iter().enumerate();
        let named = all.filter(|(_, f)| if exact { f.name == name } else { f.name.contains(name) });
        let inside = named.filter(|(_, f)| match module_of {
            None => true,
            Some(m) => {
                let module = profile.modules.get(f.module as usize);
                module.is_some_and(|x| x.path == m || x.name() == m)
            }
        });
        inside.map(|(i, _)| i).collect()
    };
    let mut ways: Vec<(Option<&str>, &str)> = vec![(None, name)];
    // A name may hold a '!' itself, so the whole is tried first.
    ways.extend(name.split_once('!').map(|(m, n)| (Some(m.trim_matches(['[', ']'])), n)));
    for exact in [true, false] {
        for (module, name) in ways.iter().filter(|(_, n)| !n.is_empty()) {
            let found = fits(*module, name, exact);
            if !found.is_empty() {
                return found;
            }
        }
    }
    BTreeSet::new()
}

/// The function that a user means by `name`.
///
/// # Errors
/// None is called so; or those that are were never the innermost one at a sample.
pub fn find(profile: &Profile, name: &str) -> Result<Found> {
    let wanted = matching(profile, name);
    if wanted.is_empty() {
        bail!("no function is called {name}{}", most(profile));
    }
    let mut found = gather(profile, &wanted).into_iter();
    let Some((histogram, part)) = found.next() else {
        let first = wanted.first().and_then(|i| profile.functions.get(*i)).map_or(name, |f| &f.name);
        bail!(
            "{first} has no samples of its own: it only called others, or waited; see plumb profile --callees '{first}'{}",
            most(profile)
        );
    };
    let own = key(profile, histogram.function);
    let inlined = if wanted.iter().any(|w| key(profile, *w) == own) {
        None
    } else {
        let first = wanted.first().and_then(|i| profile.functions.get(*i));
        first.map(|f| (f.name.clone(), part))
    };
    let others = found.map(|(h, part)| (h.function, part)).collect();
    Ok(Found { histogram, inlined, others })
}

/// What could have been asked for instead.
fn most(profile: &Profile) -> String {
    let mut by: HashMap<usize, u64> = HashMap::new();
    for e in profile.entries.iter().filter(|e| on_cpu(e.category)) {
        if let Some((_, own)) = innermost(profile, e) {
            *by.entry(own.function as usize).or_default() += e.count;
        }
    }
    let mut by: Vec<(u64, usize)> = by.into_iter().map(|(f, n)| (n, f)).filter(|(n, _)| *n > 0).collect();
    by.sort_by_key(|(n, f)| (std::cmp::Reverse(*n), *f));
    let names = by.iter().filter_map(|(_, f)| profile.functions.get(*f)).map(|f| f.name.as_str());
    let names: Vec<&str> = names.take(5).collect();
    if names.is_empty() {
        return "; and no sample has a stack (record with plumb run --sample 199)".into();
    }
    format!("; most samples have {}", names.join(", "))
}
