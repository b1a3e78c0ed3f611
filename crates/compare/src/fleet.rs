// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of a lake before and after a change, hosts as blocks: what changed on all of them, which hosts changed in another way,
//! and what those have in common.

mod figures;
mod gates;
mod show;

use crate::gate::Verdict;
use anyhow::{bail, Context, Result};
pub use figures::FleetUnit;
use figures::{figures, Figure};
use plumb_machine::json::{formats, Format, Output};
use plumb_report::lake;
use plumb_report::query::{Query, MEMORY};
use plumb_report::table::Cell;
use plumb_stats::blocks::{together, Block, Change, Own, ACCUSED, FEWEST, FEWEST_BLOCKS};
use plumb_stats::repetitions::{false_discovery, mean, LEVEL};
use serde::Serialize;
pub use show::print;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// Changes of all hosts that are smaller are not told: a fleet of hundreds would show ever smaller ones.
const LEAST: f64 = 0.02;
/// Nor those of a host that differ less from the others'.
const LEAST_OF_HOST: f64 = 0.05;
/// Hosts that must stand out for what they have in common to be looked for.
const ENOUGH: usize = 3;
/// Largest probability with which something is said to be in common, among all that was looked at.
const COMMON: f64 = 0.01;

/// Which runs are compared.
#[derive(Debug, Clone, Serialize)]
pub struct Half {
    /// The condition on the table `runs`.
    pub condition: String,
    pub runs: u64,
    pub hosts: u64,
}

/// A figure on all hosts that have it on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct FleetLine {
    pub key: String,
    pub unit: FleetUnit,
    pub hosts: u64,
    /// Of these, those whose change is another than the others'.
    pub apart: u64,
    /// Mean of A's values over the hosts that do not stand apart, the geometric one where `relative`.
    pub a: f64,
    pub b: f64,
    /// Whether changes are parts of A (0.05: 5 % more); else they are in the figure's unit.
    pub relative: bool,
    /// The mean change of those hosts.
    pub change: f64,
    /// 95 % interval of the mean change, lower end; none: one host, whose values do not vary.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Standard deviation of the hosts' own changes around it.
    pub between: f64,
    pub p: Option<f64>,
    /// The same against all figures that were tested (Benjamini and Hochberg).
    pub q: Option<f64>,
    /// The change is large enough to be told, and by chance as large in at most 5 of 100.
    pub found: bool,
}

/// A host that changed in another way than the others.
#[derive(Debug, Clone, Serialize)]
pub struct HostApart {
    pub host: String,
    pub key: String,
    /// As the line's.
    pub change: f64,
    /// The median of all hosts' changes.
    pub others: f64,
    /// Against all hosts and figures that were tested.
    pub q: f64,
}

/// What hosts that stand apart have in common, and the others have not.
#[derive(Debug, Clone, Serialize)]
pub struct Common {
    /// The figure in which they stand apart.
    pub key: String,
    /// What of a run's environment.
    pub what: String,
    /// What it is there; two values with an arrow where it changed.
    pub value: String,
    /// Hosts that stand apart and have it, of how many.
    pub apart: u64,
    pub of_apart: u64,
    /// The same of the others.
    pub others: u64,
    pub of_others: u64,
    pub p: f64,
}

/// All that the comparison found.
#[derive(Debug, Serialize)]
pub struct Fleet {
    /// The answer.
    pub headline: String,
    pub lake: PathBuf,
    pub a: Half,
    pub b: Half,
    /// Hosts with runs on both sides.
    pub hosts: u64,
    /// Largest changes that were found first.
    pub lines: Vec<FleetLine>,
    /// Farthest from the others first.
    pub apart: Vec<HostApart>,
    pub common: Vec<Common>,
    /// What became of each `--fail-above` and `--fail-below`.
    pub gates: Vec<Verdict>,
    /// Rates that hosts of both sides had before the change, and have no more.
    #[serde(skip)]
    gone: BTreeMap<String, Vec<String>>,
    pub doubts: Vec<String>,
    /// No events were lost, and every file could be read.
    pub valid: bool,
}

impl Output for Fleet {
    const FORMAT: &'static Format = &formats::COMPARE_LAKE;
}

/// A run, as `runs` has it.
struct Run {
    host: String,
    /// Not of A but of B.
    after: bool,
    began: i64,
    machine: String,
}

impl Fleet {
    /// Reads a lake and compares the runs for which the SQL conditions `a` and `b` on its table `runs` hold.
    ///
    /// # Errors
    /// It is no lake; a condition is none, holds for no run, or both hold for one.
    pub fn read(lake: &Path, a: &str, b: &str, stop: &AtomicBool) -> Result<Self> {
        let mut skipped = BTreeSet::new();
        let mut ask = |sql: &str, row: &mut dyn FnMut(&[Cell<'_>])| -> Result<()> {
            let query = Query::new(sql, MEMORY)?;
            let mut loader = query.loader()?;
            let read = lake::read(lake, query.uses(), &mut loader, stop)?;
            loader.finish()?;
            skipped.extend(read.skipped);
            query.each(row)
        };
        for (side, condition) in [("A", a), ("B", b)] {
            let sql = format!("select run from runs where ({condition})");
            Query::new(&sql, MEMORY)
                .with_context(|| format!("{side} is no condition on runs: {condition}"))?;
        }
        let (mut runs, mut twice, mut lossy, mut again) = (HashMap::new(), 0, 0u64, 0);
        let sql = format!(
            "select run, host, coalesce(began_unix_ns, 0), coalesce(machine_id, ''), ({a}), ({b}), lost from runs"
        );
        ask(&sql, &mut |row| {
            let [Cell::Text(run), Cell::Text(host), Cell::Integer(began), Cell::Text(machine), a, b, lost] =
                row
            else {
                return;
            };
            let holds = |c: &Cell<'_>| matches!(c, Cell::Integer(v) if *v != 0);
            twice += u64::from(holds(a) && holds(b));
            if holds(a) || holds(b) {
                lossy += u64::from(matches!(lost, Cell::Integer(1..)));
                let one =
                    Run { host: (*host).into(), after: holds(b), began: *began, machine: (*machine).into() };
                again += u64::from(runs.insert((*run).to_owned(), one).is_some());
            }
        })?;
        if twice > 0 {
            bail!("{twice} runs are of both A and B; a run before a change cannot be after it");
        }
        let [a, b] = [(a, false), (b, true)].map(|(condition, after)| {
            let of = || runs.values().filter(|r| r.after == after);
            let hosts: BTreeSet<&str> = of().map(|r| r.host.as_str()).collect();
            Half { condition: condition.into(), runs: of().count() as u64, hosts: hosts.len() as u64 }
        });
        for (name, side) in [("A", &a), ("B", &b)] {
            if side.runs == 0 {
                bail!(
                    "{name} holds for no run of {}: {}; 'plumb query \"select host, began, kernel from runs\" {}' lists them",
                    lake.display(),
                    side.condition,
                    lake.display()
                );
            }
        }
        let figures = figures(&mut ask, &runs)?;
        let attributes = figures::attributes(&mut ask, &runs)?;
        let hosts = both(&runs);
        let rates = figures.iter().filter(|f| f.unit == FleetUnit::Rate);
        let gone = rates.map(|f| (f.key.clone(), f.gone(&hosts).map(str::to_owned).collect())).collect();
        let mut doubts = doubts(&runs, hosts.len());
        if lossy > 0 {
            doubts.push(format!("{lossy} runs lost events: their sums are too small"));
        }
        if again > 0 {
            doubts
                .push(format!("{again} run ids occur twice: figures of such runs count for one host alone"));
        }
        let valid = lossy == 0 && skipped.is_empty();
        doubts.extend(skipped.into_iter().map(|s| format!("left out: {s}")));
        let hosts = hosts.len() as u64;
        Ok(Self { valid, gone, ..Self::of(lake, (a, b), hosts, &figures, &attributes, doubts) })
    }

    fn of(
        lake: &Path,
        (a, b): (Half, Half),
        hosts: u64,
        figures: &[Figure],
        attributes: &[figures::Attribute],
        doubts: Vec<String>,
    ) -> Self {
        let judged: Vec<(&Figure, Change)> =
            figures.iter().filter_map(|f| Some((f, Change::of(&f.blocks)?))).collect();
        let mut apart = Vec::new();
        let mut lines = Vec::new();
        let accused = accused(&judged);
        for ((figure, change), accused) in judged.iter().zip(accused) {
            let told = |v: f64| if figure.relative { v.exp_m1() } else { v };
            for (place, own, q) in &accused {
                let (host, key) = (figure.hosts[*place].clone(), figure.key.clone());
                apart.push(HostApart {
                    host,
                    key,
                    change: told(own.change),
                    others: told(change.median),
                    q: *q,
                });
            }
            let out: BTreeSet<usize> = accused.iter().map(|a| a.0).collect();
            lines.extend(line(figure, &out));
        }
        let tested: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].p.is_some()).collect();
        let p: Vec<f64> = tested.iter().filter_map(|i| lines[*i].p).collect();
        for (i, q) in tested.iter().zip(false_discovery(&p)) {
            let line = &mut lines[*i];
            line.q = Some(q);
            line.found = q <= LEVEL && line.weight() >= LEAST;
        }
        lines.sort_by(|x, y| {
            (y.found, y.apart > 0)
                .cmp(&(x.found, x.apart > 0))
                .then_with(|| y.weight().total_cmp(&x.weight()))
        });
        apart.sort_by(|x, y| x.q.total_cmp(&y.q).then_with(|| (&x.key, &x.host).cmp(&(&y.key, &y.host))));
        let common = common(&apart, figures, attributes);
        let headline = show::headline(&lines, &apart, hosts);
        Self {
            headline,
            lake: lake.into(),
            a,
            b,
            hosts,
            lines,
            apart,
            common,
            gates: Vec::new(),
            gone: BTreeMap::new(),
            doubts,
            valid: true,
        }
    }
}

impl FleetLine {
    /// The change's size, of shares in parts of the whole.
    fn weight(&self) -> f64 {
        if self.relative {
            self.change.ln_1p().abs()
        } else {
            self.change.abs() / 100.0
        }
    }
}

/// Of each figure the hosts that stand apart: place, change, q.
fn accused(judged: &[(&Figure, Change)]) -> Vec<Vec<(usize, Own, f64)>> {
    let all: Vec<(usize, usize, Own, f64)> = judged
        .iter()
        .enumerate()
        .flat_map(|(f, (_, change))| {
            let own = change.blocks.iter().enumerate();
            // What cannot be told is a test as well, without a result.
            own.filter_map(move |(place, own)| own.map(|own| (f, place, own, own.p.unwrap_or(1.0))))
        })
        .collect();
    let q = false_discovery(&all.iter().map(|a| a.3).collect::<Vec<_>>());
    let mut out = vec![Vec::new(); judged.len()];
    for ((f, place, own, _), q) in all.into_iter().zip(q) {
        let (figure, change) = &judged[f];
        let off = (own.change - change.median).abs() / if figure.relative { 1.0 } else { 100.0 };
        if q <= ACCUSED && off >= LEAST_OF_HOST {
            out[f].push((place, own, q));
        }
    }
    out
}

/// The figure on the hosts that do not stand apart.
fn line(figure: &Figure, apart: &BTreeSet<usize>) -> Option<FleetLine> {
    let blocks: Vec<Block> = (0..figure.blocks.len())
        .filter(|i| !apart.contains(i) && figure.blocks[*i].has_both())
        .map(|i| figure.blocks[i].clone())
        .collect();
    let change = Change::of(&blocks)?;
    let (told, value) = match figure.relative {
        true => (f64::exp_m1 as fn(f64) -> f64, f64::exp as fn(f64) -> f64),
        false => ((|v| v) as fn(f64) -> f64, (|v| v) as fn(f64) -> f64),
    };
    let side =
        |of: fn(&Block) -> &Vec<f64>| value(mean(&blocks.iter().map(|b| mean(of(b))).collect::<Vec<_>>()));
    Some(FleetLine {
        key: figure.key.clone(),
        unit: figure.unit,
        hosts: (blocks.len() + apart.len()) as u64,
        apart: apart.len() as u64,
        a: side(|b| &b.before),
        b: side(|b| &b.after),
        relative: figure.relative,
        change: told(change.mean),
        low: change.interval.map(|i| told(i.low)),
        high: change.interval.map(|i| told(i.high)),
        between: told(change.between),
        p: change.p,
        q: None,
        found: false,
    })
}

/// Hosts with runs on both sides.
fn both(runs: &HashMap<String, Run>) -> BTreeSet<&str> {
    let of = |after| runs.values().filter(move |r| r.after == after).map(|r| r.host.as_str()).collect();
    let (a, b): (BTreeSet<&str>, BTreeSet<&str>) = (of(false), of(true));
    a.intersection(&b).copied().collect()
}

fn doubts(runs: &HashMap<String, Run>, both: usize) -> Vec<String> {
    let mut out = Vec::new();
    let all: BTreeSet<&str> = runs.values().map(|r| r.host.as_str()).collect();
    if both < all.len() {
        let one = all.len() - both;
        out.push(format!("{one} of {} hosts have runs on one side only, and are not compared", all.len()));
    }
    if both < FEWEST_BLOCKS {
        out.push(format!(
            "{both} hosts have runs on both sides: of fewer than {FEWEST_BLOCKS} none is said to stand apart"
        ));
    }
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    runs.values().for_each(|r| *counts.entry((&r.host, r.after)).or_default() += 1);
    let few = counts.values().filter(|n| **n < FEWEST).count();
    if few > 0 {
        out.push(format!(
            "{few} sides of hosts have fewer than {FEWEST} runs: such hosts cannot be said to stand apart"
        ));
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(i64::MAX, |t| t.as_nanos() as i64);
    // A day, for hosts of another time.
    let ahead: BTreeSet<&str> = runs
        .values()
        .filter(|r| r.began > now.saturating_add(86_400_000_000_000))
        .map(|r| r.host.as_str())
        .collect();
    if !ahead.is_empty() {
        out.push(format!("runs of {} began in the future: its clock is wrong, and a condition on times puts them on a wrong side", show::list(&ahead)));
    }
    let mut machines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in runs.values().filter(|r| !r.machine.is_empty()) {
        machines.entry(&run.machine).or_default().insert(&run.host);
    }
    for hosts in machines.values().filter(|hosts| hosts.len() > 1) {
        out.push(format!(
            "{} have one machine-id: one host of several names, or copies of one disk",
            show::list(hosts)
        ));
    }
    out
}

/// What the hosts that stand apart in a figure have in common.
fn common(apart: &[HostApart], figures: &[Figure], attributes: &[figures::Attribute]) -> Vec<Common> {
    let mut out = Vec::new();
    let keys: BTreeSet<&str> = apart.iter().map(|a| a.key.as_str()).collect();
    for key in keys {
        let Some(figure) = figures.iter().find(|f| f.key == key) else { continue };
        // Of hosts that could have stood apart.
        let judged = |b: &Block| b.before.len().min(b.after.len()) >= FEWEST;
        let hosts = figure.hosts.iter().zip(&figure.blocks).filter(|(_, b)| judged(b));
        let all: BTreeSet<&str> = hosts.map(|(host, _)| host.as_str()).collect();
        let those: BTreeSet<&str> = apart.iter().filter(|a| a.key == key).map(|a| a.host.as_str()).collect();
        if those.len() < ENOUGH {
            continue;
        }
        let mut found = Vec::new();
        for attribute in attributes {
            let with: BTreeSet<&str> =
                attribute.hosts.iter().map(String::as_str).filter(|h| all.contains(h)).collect();
            let n = with.intersection(&those).count();
            let p = together(all.len() as u64, those.len() as u64, with.len() as u64, n as u64);
            if p * attributes.len() as f64 <= COMMON {
                found.push(Common {
                    key: key.into(),
                    what: attribute.what.clone(),
                    value: attribute.value.clone(),
                    apart: n as u64,
                    of_apart: those.len() as u64,
                    others: (with.len() - n) as u64,
                    of_others: (all.len() - those.len()) as u64,
                    p,
                });
            }
        }
        found.sort_by(|x, y| x.p.total_cmp(&y.p));
        out.extend(found);
    }
    out
}
