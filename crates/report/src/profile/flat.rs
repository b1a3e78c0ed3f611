// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flat table: time by function, or by something else.

use super::limits::{percent, share, Limits, Unit};
use super::options::By;
use super::symbols::{count, telling, Symbols};
use anyhow::Result;
use plumb_model::profile::{Entry, Frame, Profile};
use plumb_trace::units;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// What a row is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A function, by its number.
    Function(u32),
    /// A line of a function.
    Line(u32, u32),
    Module(String),
    /// Something else, by its name.
    Named(String),
    Bare(String),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Function, line, thread ...
    pub name: String,
    /// Its module, `[kernel]`; empty where it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Time in it and not in what it called.
    pub self_ns: u64,
    /// Share of the whole.
    pub self_share: f64,
    /// Share of the whole of this row and those before it.
    pub cumulative_share: f64,
    /// Time in it and in what it called; a function that calls itself counts once.
    pub total_ns: u64,
    /// Share of the whole.
    pub total_share: f64,
    /// Samples and waits of `self_ns`.
    pub count: u64,
    /// `self_ns` by category.
    pub categories_ns: BTreeMap<&'static str, u64>,
}

impl Row {
    /// What its own time mostly was; empty for running.
    fn state(&self) -> &'static str {
        let most = self.categories_ns.iter().max_by_key(|(_, ns)| **ns);
        most.map(|(name, _)| *name).filter(|n| *n != "running").unwrap_or("")
    }
}

#[derive(Default)]
struct Sum {
    own: u64,
    total: u64,
    count: u64,
    categories: BTreeMap<&'static str, u64>,
    /// The last entry that was added to `total`, from 1 on: a function counts once a stack.
    seen: usize,
}

#[derive(Default)]
struct Sums {
    all: Vec<(Key, Sum)>,
    rows: HashMap<Key, usize>,
}

impl Sums {
    /// The place of a key's sum.
    fn row(&mut self, key: Key) -> usize {
        let next = self.all.len();
        let row = *self.rows.entry(key).or_insert_with_key(|key| {
            self.all.push((key.clone(), Sum::default()));
            next
        });
        row
    }

    fn of(&mut self, key: Key) -> &mut Sum {
        let row = self.row(key);
        &mut self.all[row].1
    }
}

/// Whether a row's time can lie in what it called.
pub fn has_total(by: By) -> bool {
    matches!(by, By::Function | By::Module | By::Line)
}

fn bare(entry: &Entry) -> Key {
    Key::Bare(match entry.category.name() {
        "running" => "[running, not sampled]".into(),
        name => format!("[{name}, no stack]"),
    })
}

fn frame_key(symbols: &Symbols, by: By, f: &Frame) -> Key {
    match by {
        By::Module => Key::Module(symbols.module(f.function).to_string()),
        By::Line => Key::Line(f.line, symbols.id(f.function)),
        _ => Key::Function(symbols.id(f.function)),
    }
}

fn own_key(profile: &Profile, symbols: &Symbols, by: By, entry: &Entry) -> Key {
    let several = |n: u32| if n == 0 { "several".to_string() } else { n.to_string() };
    let thread = profile.threads.get(entry.thread as usize);
    let who = profile.whos.get(entry.who as usize).map_or("", String::as_str);
    Key::Named(match by {
        By::Function | By::Module | By::Line => {
            return match telling(profile, entry).first() {
                Some(f) => frame_key(symbols, by, f),
                None => bare(entry),
            }
        }
        By::Process => thread.map_or(String::new(), |t| format!("{} ({})", t.process, several(t.pid))),
        By::Thread => thread.map_or(String::new(), |t| format!("{} ({})", t.comm, several(t.tid))),
        By::Cpu => match entry.cpu {
            Some(cpu) => format!("CPU {cpu}"),
            None if super::symbols::on_cpu(entry.category) => "[on a CPU, not sampled]".into(),
            None => "[off the CPU]".into(),
        },
        By::Category => entry.category.name().into(),
        By::Cause if who.is_empty() => entry.category.name().into(),
        By::Cause => format!("{} {who}", entry.category.name()),
    })
}

fn words(profile: &Profile, symbols: &Symbols, key: Key) -> (String, String) {
    let module = |f: u32| symbols.module(f).to_string();
    match key {
        Key::Function(f) => (symbols.name(f).to_string(), module(f)),
        Key::Line(line, f) => {
            let place = match profile.lines.get(line as usize).map_or("", String::as_str) {
                "" => "?",
                place => place,
            };
            (format!("{place} {}", symbols.name(f)), module(f))
        }
        Key::Module(name) | Key::Named(name) | Key::Bare(name) => (name, String::new()),
    }
}

/// All rows, most self time first.
pub fn rows(profile: &Profile, symbols: &Symbols, by: By) -> Vec<Row> {
    let mut sums = Sums::default();
    // Rows of frames: each is looked for once, however many stacks have it.
    let mut known = vec![usize::MAX; profile.frames.len()];
    for (at, entry) in profile.entries.iter().enumerate() {
        let own = sums.of(own_key(profile, symbols, by, entry));
        own.own += entry.time;
        own.count += count(entry);
        *own.categories.entry(entry.category.name()).or_default() += entry.time;
        let frames = telling(profile, entry);
        if !has_total(by) || frames.is_empty() {
            own.total += entry.time;
            continue;
        }
        for (frame, place) in frames.iter().zip(frames.places()) {
            let mut row = known.get(*place as usize).copied().unwrap_or(usize::MAX);
            if row == usize::MAX {
                row = sums.row(frame_key(symbols, by, frame));
                if let Some(known) = known.get_mut(*place as usize) {
                    *known = row;
                }
            }
            let sum = &mut sums.all[row].1;
            if sum.seen != at + 1 {
                sum.seen = at + 1;
                sum.total += entry.time;
            }
        }
    }
    let whole = profile.time();
    let mut rows: Vec<Row> = sums
        .all
        .into_iter()
        .map(|(key, sum)| {
            let (name, module) = words(profile, symbols, key);
            Row {
                name,
                module,
                self_ns: sum.own,
                self_share: share(sum.own, whole),
                cumulative_share: 0.0,
                total_ns: sum.total,
                total_share: share(sum.total, whole),
                count: sum.count,
                categories_ns: sum.categories,
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.self_ns, b.total_ns)
            .cmp(&(a.self_ns, a.total_ns))
            .then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    let mut sum = 0;
    for row in &mut rows {
        sum += row.self_ns;
        row.cumulative_share = share(sum, whole);
    }
    rows
}

/// What the name column is headed.
pub fn title(by: By) -> &'static str {
    match by {
        By::Function => "<function",
        By::Process => "<process",
        By::Thread => "<thread",
        By::Cpu => "<CPU",
        By::Category => "<category",
        By::Module => "<module",
        By::Line => "<line and function",
        By::Cause => "<category and cause",
    }
}

/// Prints the table. Rows without time of their own come behind the limit, so they are told as a number.
///
/// # Errors
/// The writer's.
pub fn print(profile: &Profile, rows: &[Row], by: By, ground: &Limits, out: &mut dyn Write) -> Result<()> {
    let whole = profile.time();
    let unit = Unit::of(whole);
    let total = if has_total(by) { "; total: with what it called" } else { "" };
    ground.fold(
        &format!(
            "Time by self time [self in {}; %: share of the {}{total}]",
            unit.name,
            units::duration(whole)
        ),
        "",
        out,
    )?;
    let modules = matches!(by, By::Function | By::Line);
    let states = has_total(by);
    let mut head = vec!["self", "%", "cumul %"];
    head.extend(has_total(by).then_some("total %"));
    head.push("samples");
    let name = head.len();
    head.push(title(by));
    head.extend(modules.then_some("<module"));
    head.extend(states.then_some("<state"));
    let cells = |own: u64, cumulative: f64, total: Option<u64>, count: u64, words: [&str; 3]| {
        let mut cells = vec![unit.time(own), percent(own, whole), format!("{:.1}", cumulative * 100.0)];
        if has_total(by) {
            cells.push(total.map(|t| percent(t, whole)).unwrap_or_default());
        }
        cells.push(units::count(count));
        cells.push(words[0].into());
        cells.extend(modules.then(|| words[1].into()));
        cells.extend(states.then(|| words[2].into()));
        cells
    };
    let with_time = rows.iter().filter(|r| r.self_ns > 0).count();
    let shown = ground.rows(if ground.limit == 0 { rows.len() } else { with_time });
    let mut table: Vec<Vec<String>> = rows[..shown]
        .iter()
        .map(|r| {
            let words = [r.name.as_str(), r.module.as_str(), r.state()];
            cells(r.self_ns, r.cumulative_share, Some(r.total_ns), r.count, words)
        })
        .collect();
    let rest = &rows[shown..with_time.max(shown)];
    if !rest.is_empty() {
        let words = format!("{} others", units::count(rest.len() as u64));
        let (own, count) = (rest.iter().map(|r| r.self_ns).sum(), rest.iter().map(|r| r.count).sum());
        table.push(cells(own, 1.0, None, count, [&words, "", ""]));
    }
    ground.table(&head, table, name, modules.then_some(name + 1), out)?;
    let callers = rows.len() - with_time.max(shown);
    if callers > 0 {
        writeln!(out, "  {} more only called others (--limit 0 shows all)", units::count(callers as u64))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{profile, READER, RECURSIVE};
    use super::*;

    fn text(p: &Profile, by: By, limit: usize) -> String {
        let rows = rows(p, &Symbols::of(p), by);
        let mut out = Vec::new();
        print(p, &rows, by, &Limits { limit, ..Limits::default() }, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn functions_by_self_time() {
        assert_eq!(
            text(&profile(READER), By::Function, 40),
            "\
Time by self time [self in s; %: share of the 1.000 s; total: with what it called]
   self    % cumul % total % samples function               module   state
  0.400 40.0    40.0    40.0      80 copy                   [kernel]
  0.250 25.0    65.0    25.0      25 folio_wait             [kernel] block.device
  0.200 20.0    85.0    65.0      40 parse                  app
  0.080  8.0    93.0     8.0       4 do_futex               [kernel] lock.user
  0.050  5.0    98.0     5.0      10 hash                   app
  0.015  1.5    99.5     1.5       0 [running, not sampled]
  0.005  0.5   100.0     0.5       3 [runnable, no stack]            runnable
  5 more only called others (--limit 0 shows all)
"
        );
    }

    #[test]
    fn a_limit_adds_up_the_rest() {
        let text = text(&profile(READER), By::Category, 1);
        assert_eq!(
            text,
            "\
Time by self time [self in s; %: share of the 1.000 s]
   self    % cumul % samples category
  0.665 66.5    66.5     130 running
  0.335 33.5   100.0      32 3 others
"
        );
    }

    #[test]
    fn other_keys() {
        let p = profile(READER);
        let names = |by| -> Vec<(String, u64)> {
            rows(&p, &Symbols::of(&p), by).into_iter().map(|r| (r.name, r.self_ns / 1_000_000)).collect()
        };
        assert_eq!(names(By::Thread), [("app (1)".into(), 900), ("app (2)".into(), 100)]);
        assert_eq!(names(By::Process), [("app (1)".into(), 1000)]);
        assert_eq!(
            names(By::Cpu),
            [("CPU 0".into(), 650), ("[off the CPU]".into(), 335), ("[on a CPU, not sampled]".into(), 15)]
        );
        assert_eq!(names(By::Module)[..2], [("[kernel]".into(), 730), ("app".into(), 250)]);
        assert_eq!(names(By::Cause)[1], ("block.device sda".into(), 250));
        let lines =
            profile("app;main@a.c:3;f@a.c:9 running 10\napp;main@a.c:4 running 5\napp;main running 1");
        let lines: Vec<(String, u64, u64)> = rows(&lines, &Symbols::of(&lines), By::Line)
            .into_iter()
            .map(|r| (r.name, r.self_ns / 1_000_000, r.total_ns / 1_000_000))
            .collect();
        assert_eq!(
            lines,
            [
                ("a.c:9 f".into(), 10, 10),
                ("a.c:4 main".into(), 5, 5),
                ("? main".into(), 1, 1),
                ("a.c:3 main".into(), 0, 10)
            ]
        );
    }

    #[test]
    fn recursion_counts_once() {
        let p = profile(RECURSIVE);
        let rows = rows(&p, &Symbols::of(&p), By::Function);
        let of = |name: &str| {
            let row = rows.iter().find(|r| r.name == name).expect("row");
            (row.self_ns / 1_000_000, row.total_ns / 1_000_000)
        };
        assert_eq!(of("walk"), (10, 35));
        assert_eq!(of("visit"), (5, 25));
        assert_eq!(of("leaf"), (85, 85));
        assert_eq!(of("main"), (0, 100));
    }

    #[test]
    fn times_add_up_whatever_the_rows_are() {
        for text in [READER, RECURSIVE] {
            let p = profile(text);
            for by in [
                By::Function,
                By::Process,
                By::Thread,
                By::Cpu,
                By::Category,
                By::Module,
                By::Line,
                By::Cause,
            ] {
                let rows = rows(&p, &Symbols::of(&p), by);
                assert_eq!(rows.iter().map(|r| r.self_ns).sum::<u64>(), p.time(), "{by:?}");
                assert!(rows.iter().all(|r| r.total_ns >= r.self_ns && r.total_ns <= p.time()), "{by:?}");
                assert_eq!(rows.last().map(|r| r.cumulative_share), Some(1.0), "{by:?}");
                assert!(rows.windows(2).all(|w| w[0].cumulative_share <= w[1].cumulative_share), "{by:?}");
            }
        }
    }

    #[test]
    fn an_empty_profile_has_no_rows() {
        assert!(rows(&Profile::default(), &Symbols::of(&Profile::default()), By::Function).is_empty());
    }
}
