// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands above every view: what it is of, in words and figures.

use super::limits::{share, Limits};
use super::symbols::{on_cpu, telling, Symbols};
use crate::time_parts::PARTS;
use anyhow::Result;
use plumb_model::profile::{Entry, Profile};
use plumb_model::Category;
use plumb_trace::units;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Parts that the sentence tells at most, and those below it are not told.
const MOST_PARTS: usize = 4;
const WORTH_TELLING: f64 = 0.02;
/// Functions that the sentence names, and those below this share of the part are not named.
const MOST_FUNCTIONS: usize = 2;
const WORTH_NAMING: f64 = 0.1;

/// What a view is of.
#[derive(Debug, Serialize)]
pub struct Head {
    pub directory: String,
    pub words: String,
    pub selected: String,
    /// Begin of the span that was looked at, from the trace's begin.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Time of all threads that is shown.
    pub time_ns: u64,
    /// Threads that have part in it.
    pub threads: usize,
    /// Processes that have part in it.
    pub processes: usize,
    /// The sampling clock.
    pub clock: String,
    pub samples: u64,
    /// Waits; one that had several causes counts at each.
    pub waits: u64,
    /// Share of the time that has no stack.
    pub without_stack_share: f64,
    /// What the reader must know, a sentence each.
    pub notes: Vec<String>,
}

/// What a category is called in sentences.
pub fn part(category: &'static str) -> &'static str {
    PARTS.iter().find(|(_, names)| names.contains(&category)).map_or(
        match category {
            "child" => "waiting for child processes",
            "rcu" => "waiting for RCU",
            "idle" => "idle",
            "lost" => "not known, as events are missing",
            other => other,
        },
        |(words, _)| words,
    )
}

/// Largest first, the name where they are equal.
fn sorted<K: Ord>(sums: BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// What is to be said within a part: functions of time on a CPU, causes of a wait.
fn within(profile: &Profile, symbols: &Symbols, entries: &[&Entry], time: u64) -> String {
    let running = entries.iter().all(|e| on_cpu(e.category));
    // By number first: there are as many entries as samples, and few functions.
    let mut times: BTreeMap<u32, u64> = BTreeMap::new();
    for entry in entries {
        let number = if running {
            telling(profile, entry).first().map(|f| symbols.id(f.function))
        } else {
            Some(entry.who)
        };
        if let Some(number) = number {
            *times.entry(number).or_default() += entry.time;
        }
    }
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (number, time) in times {
        let name = if running {
            Some(symbols.label(number))
        } else {
            profile.whos.get(number as usize).filter(|w| !w.is_empty()).cloned()
        };
        if let Some(name) = name {
            *sums.entry(name).or_default() += time;
        }
    }
    let told: Vec<String> = sorted(sums)
        .into_iter()
        .take(MOST_FUNCTIONS)
        .filter(|(_, t)| *t as f64 >= WORTH_NAMING * time as f64)
        .map(|(name, t)| match running {
            true => format!("{:.0} % in {name}", share(t, time) * 100.0),
            false => format!("{name} {:.0} %", share(t, time) * 100.0),
        })
        .collect();
    match (told.is_empty(), running) {
        (true, _) => String::new(),
        (false, true) => format!(", of it {}", told.join(" and ")),
        (false, false) => format!(", of it {}", told.join(", ")),
    }
}

/// `Running on a CPU 62.0 % (0.800 s), of it 48 % in copy; waiting for the device 30.0 % (0.390 s).`
pub fn sentence(profile: &Profile, symbols: &Symbols) -> String {
    let whole = profile.time();
    let mut categories: BTreeMap<Category, Vec<&Entry>> = BTreeMap::new();
    for entry in &profile.entries {
        categories.entry(entry.category).or_default().push(entry);
    }
    let mut parts: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for (category, entries) in categories {
        parts.entry(part(category.name())).or_default().extend(entries);
    }
    let sums = parts.iter().map(|(k, v)| (*k, v.iter().map(|e| e.time).sum())).collect();
    let told: Vec<String> = sorted(sums)
        .into_iter()
        .enumerate()
        .filter(|(i, (_, t))| *i == 0 || (*i < MOST_PARTS && *t as f64 >= WORTH_TELLING * whole as f64))
        .map(|(_, (name, time))| {
            let entries = parts.get(name).map_or(&[][..], |e| e);
            let within = within(profile, symbols, entries, time);
            format!("{name} {:.1} % ({}){within}", share(time, whole) * 100.0, units::duration(time))
        })
        .collect();
    let text = told.join("; ");
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => "No time.".into(),
    }
}

impl Head {
    /// Of what a view shows; `span` counts from the trace's begin.
    pub fn of(profile: &Profile, symbols: &Symbols, from: Origin) -> Self {
        let whole = profile.time();
        let parts = || profile.entries.iter();
        let none = parts().filter(|e| telling(profile, e).is_empty()).map(|e| e.time).sum();
        let stacked = |e: &&Entry| on_cpu(e.category) && e.stack != 0;
        let threads: BTreeSet<u32> = parts().map(|e| e.thread).collect();
        let processes: BTreeSet<(u32, &str)> = threads
            .iter()
            .filter_map(|t| profile.threads.get(*t as usize))
            .map(|t| (t.pid, t.process.as_str()))
            .collect();
        // They are the model's, of everything that was recorded.
        let of_all = |note: &String| match from.selected.is_empty() {
            true => note.clone(),
            false => format!("Of all that was recorded: {note}"),
        };
        let mut notes: Vec<String> = profile.notes.iter().map(of_all).collect();
        notes.extend(from.doubts);
        Self {
            directory: from.directory,
            words: sentence(profile, symbols),
            selected: from.selected,
            from_ns: profile.begin.saturating_sub(from.begin),
            to_ns: profile.end.saturating_sub(from.begin),
            time_ns: whole,
            threads: threads.len(),
            processes: processes.len(),
            clock: profile.clock.clone(),
            samples: parts().filter(stacked).map(|e| e.count).sum(),
            waits: parts().filter(|e| !on_cpu(e.category)).map(|e| e.count).sum(),
            without_stack_share: share(none, whole),
            notes,
        }
    }

    /// Prints it.
    ///
    /// # Errors
    /// The writer's.
    pub fn print(&self, ground: &Limits, out: &mut dyn Write) -> Result<()> {
        ground.fold(&self.words, "", out)?;
        let span = if self.from_ns == 0 {
            units::duration(self.to_ns)
        } else {
            format!("{} to {}", units::duration(self.from_ns), units::duration(self.to_ns))
        };
        let plural = |n: u64, one: &str, many: &str| {
            format!("{} {}", units::count(n), if n == 1 { one } else { many })
        };
        let threads = plural(self.threads as u64, "thread", "threads");
        let of = plural(self.processes as u64, "process", "processes");
        let clock = if self.clock.is_empty() { "no sampling clock" } else { &self.clock };
        let selected = if self.selected.is_empty() { String::new() } else { format!(" [{}]", self.selected) };
        let text = format!(
            "{}{selected}: {span}, {threads} of {of}, {} together; {clock}, {}; {}; {:.1} % of the time has no stack.",
            self.directory,
            units::duration(self.time_ns),
            plural(self.samples, "sample", "samples"),
            plural(self.waits, "wait", "waits"),
            self.without_stack_share * 100.0
        );
        ground.fold(&text, "", out)?;
        for note in &self.notes {
            ground.fold(&format!("Note: {note}"), "", out)?;
        }
        Ok(())
    }
}

/// Where a profile is from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub directory: String,
    /// The trace's begin, ns.
    pub begin: u64,
    pub selected: String,
    /// What makes the trace doubtful.
    pub doubts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::super::testing::{profile, READER};
    use super::*;

    #[test]
    fn the_sentence_names_parts_functions_and_causes() {
        let p = profile(READER);
        assert_eq!(
            sentence(&p, &Symbols::of(&p)),
            "Running on a CPU 66.5 % (665.00 ms), of it 60 % in copy and 30 % in parse; \
             waiting for the device 25.0 % (250.00 ms), of it sda 100 %; \
             waiting for user-space locks 8.0 % (80.00 ms), of it app 100 %."
        );
    }

    #[test]
    fn the_head_tells_what_it_is_of() {
        let mut p = profile(READER);
        (p.begin, p.end, p.notes) = (1_500_000_000, 2_500_000_000, vec!["3 samples were lost.".into()]);
        let origin = Origin {
            directory: "run".into(),
            begin: 1_000_000_000,
            selected: "--tid 1".into(),
            doubts: vec![],
        };
        let head = Head::of(&p, &Symbols::of(&p), origin);
        let mut out = Vec::new();
        head.print(&Limits::default(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "run [--tid 1]: 500.00 ms to 1.500 s, 2 threads of 1 process, 1.000 s together; cpu-clock 199 Hz, 130 samples; 32 waits; 2.0 % of the time has no stack.",
                "Note: Of all that was recorded: 3 samples were lost."
            ]
        );
    }

    #[test]
    fn every_category_has_words() {
        for (_, name, _) in plumb_model::CATEGORIES {
            let words = part(name);
            assert!(!words.contains('.'), "{name}");
        }
    }
}
