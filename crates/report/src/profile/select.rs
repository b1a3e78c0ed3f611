// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which part of the time is asked for.

use super::options::Options;
use super::symbols::on_cpu;
use anyhow::{bail, Result};
use plumb_model::profile::{Entry, Profile};
use plumb_model::{Category, CATEGORIES};
use plumb_trace::units;
use std::collections::BTreeMap;

/// Names that an error lists.
const LISTED: usize = 12;

/// Categories of a name: that one, or those below it.
fn categories(name: &str) -> Result<Vec<Category>> {
    let below = format!("{}.", name.trim_end_matches('.'));
    let fits = |n: &str| n == name || n.starts_with(&below);
    let found: Vec<Category> = CATEGORIES.iter().filter(|(_, n, _)| fits(n)).map(|(c, ..)| *c).collect();
    if found.is_empty() {
        let names: Vec<&str> = CATEGORIES.iter().map(|(_, n, _)| *n).collect();
        bail!("no category is called {name}; there are: {}", names.join(", "));
    }
    Ok(found)
}

/// The longest ones, by name.
fn listed(profile: &Profile, name: &dyn Fn(&Profile, &Entry) -> Option<String>) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &profile.entries {
        if let Some(name) = name(profile, entry) {
            *sums.entry(name).or_default() += entry.time;
        }
    }
    let mut all: Vec<(String, u64)> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let more = all.len().saturating_sub(LISTED);
    let mut words: Vec<String> = all.into_iter().take(LISTED).map(|(n, _)| n).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    if words.is_empty() {
        "none".into()
    } else {
        words.join(", ")
    }
}

type Keep = Box<dyn Fn(&Profile, &Entry) -> bool>;
type Name = Box<dyn Fn(&Profile, &Entry) -> Option<String>>;

/// A filter: what it was given, what it keeps, and what it chooses among.
struct Filter {
    words: String,
    keep: Keep,
    kind: &'static str,
    name: Name,
}

fn thread<T>(p: &Profile, e: &Entry, of: impl Fn(&plumb_model::profile::Thread) -> T) -> Option<T> {
    p.threads.get(e.thread as usize).map(of)
}

fn words<T: ToString>(option: &str, values: &[T]) -> String {
    values.iter().map(|v| format!("{option} {}", v.to_string())).collect::<Vec<_>>().join(" ")
}

fn filters(options: &Options) -> Result<Vec<Filter>> {
    let mut out: Vec<Filter> = Vec::new();
    let mut add = |words: String, kind, keep: Keep, name: Name| out.push(Filter { words, keep, kind, name });
    if !options.comm.is_empty() {
        let comm = options.comm.clone();
        let keep = move |p: &Profile, e: &Entry| {
            thread(p, e, |t| comm.contains(&t.comm) || comm.contains(&t.process)).unwrap_or(false)
        };
        let name = |p: &Profile, e: &Entry| thread(p, e, |t| t.comm.clone());
        add(words("--comm", &options.comm), "threads", Box::new(keep), Box::new(name));
    }
    if !options.pid.is_empty() {
        let pid = options.pid.clone();
        let keep = move |p: &Profile, e: &Entry| thread(p, e, |t| pid.contains(&t.pid)).unwrap_or(false);
        let name = |p: &Profile, e: &Entry| thread(p, e, |t| format!("{} ({})", t.pid, t.process));
        add(words("--pid", &options.pid), "processes", Box::new(keep), Box::new(name));
    }
    if !options.tid.is_empty() {
        let tid = options.tid.clone();
        let keep = move |p: &Profile, e: &Entry| thread(p, e, |t| tid.contains(&t.tid)).unwrap_or(false);
        let name = |p: &Profile, e: &Entry| thread(p, e, |t| format!("{} ({})", t.tid, t.comm));
        add(words("--tid", &options.tid), "threads", Box::new(keep), Box::new(name));
    }
    let category = |_: &Profile, e: &Entry| Some(e.category.name().to_string());
    if options.on_cpu {
        let keep = |_: &Profile, e: &Entry| on_cpu(e.category);
        add("--on-cpu".into(), "categories", Box::new(keep), Box::new(category));
    }
    if options.off_cpu {
        let keep = |_: &Profile, e: &Entry| !on_cpu(e.category) && e.category != Category::Lost;
        add("--off-cpu".into(), "categories", Box::new(keep), Box::new(category));
    }
    if !options.category.is_empty() {
        let mut wanted = Vec::new();
        for name in &options.category {
            wanted.extend(categories(name)?);
        }
        let keep = move |_: &Profile, e: &Entry| wanted.contains(&e.category);
        add(words("--category", &options.category), "categories", Box::new(keep), Box::new(category));
    }
    if !options.cpu.is_empty() {
        let cpu = options.cpu.clone();
        let keep = move |_: &Profile, e: &Entry| e.cpu.is_some_and(|c| cpu.contains(&c));
        let name = |_: &Profile, e: &Entry| e.cpu.map(|c| c.to_string());
        add(words("--cpu", &options.cpu), "CPUs with samples", Box::new(keep), Box::new(name));
    }
    Ok(out)
}

/// The part of a profile that the options ask for, and their words.
///
/// # Errors
/// An unknown category, or a filter that leaves nothing: names it, and what there was.
pub fn select(mut profile: Profile, options: &Options) -> Result<(Profile, String)> {
    let filters = filters(options)?;
    let mut all: Vec<String> = Vec::new();
    for filter in filters {
        let (before, there) = (profile.time(), listed(&profile, &*filter.name));
        profile = profile.filtered(filter.keep);
        if profile.time() == 0 {
            let behind = if all.is_empty() { String::new() } else { format!(" behind {}", all.join(" ")) };
            bail!(
                "{}{behind} leaves nothing of {}; {}: {there}",
                filter.words,
                units::duration(before),
                filter.kind
            );
        }
        all.push(filter.words);
    }
    Ok((profile, all.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{profile, READER};
    use super::*;

    /// `--comm app -p 1` as options.
    fn options(words: &str) -> Options {
        let mut options = Options::default();
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("a value");
            match word {
                "--on-cpu" => options.on_cpu = true,
                "--off-cpu" => options.off_cpu = true,
                "--category" => options.category.push(value().into()),
                "--comm" => options.comm.push(value().into()),
                "-p" | "--pid" => options.pid.push(value().parse().expect("a number")),
                "--tid" => options.tid.push(value().parse().expect("a number")),
                "--cpu" => options.cpu.push(value().parse().expect("a number")),
                other => panic!("{other}"),
            }
        }
        options
    }

    fn time(words: &str) -> Result<u64, String> {
        let (p, told) = select(profile(READER), &options(words)).map_err(|e| e.to_string())?;
        assert_eq!(told, words.replace("-p ", "--pid "));
        Ok(p.time() / 1_000_000)
    }

    #[test]
    fn the_parts_of_the_time_exclude_each_other() {
        assert_eq!(time(""), Ok(1000));
        assert_eq!(time("--on-cpu"), Ok(665));
        assert_eq!(time("--off-cpu"), Ok(335));
        assert_eq!(time("--category block"), Ok(250));
        assert_eq!(time("--category lock.user --category runnable"), Ok(85));
        assert_eq!(time("--tid 2"), Ok(100));
        assert_eq!(time("-p 1 --tid 2 --on-cpu"), Ok(15));
        assert_eq!(time("--cpu 0"), Ok(650));
    }

    #[test]
    fn a_filter_that_leaves_nothing_is_named_with_what_there_is() {
        assert_eq!(time("--comm dd"), Err("--comm dd leaves nothing of 1.000 s; threads: app".into()));
        assert_eq!(
            time("--tid 2 --category block"),
            Err("--category block behind --tid 2 leaves nothing of 100.00 ms; categories: lock.user, running, runnable".into())
        );
        assert_eq!(time("--pid 9"), Err("--pid 9 leaves nothing of 1.000 s; processes: 1 (app)".into()));
        assert_eq!(
            time("--off-cpu --cpu 0"),
            Err("--cpu 0 behind --off-cpu leaves nothing of 335.00 ms; CPUs with samples: none".into())
        );
        assert!(time("--category bloc").expect_err("no such category").contains("block.device"));
    }
}
