// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of runs, as SQL asks for them, and what a run's environment says.

use super::Run;
use anyhow::Result;
use plumb_report::table::Cell;
use plumb_stats::blocks::Block;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a figure is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum FleetUnit {
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Milliseconds,
    /// Things a second.
    #[serde(rename = "1/s")]
    Rate,
    /// Of the threads' time, or of the CPUs'.
    #[serde(rename = "%")]
    Percent,
}

impl FleetUnit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Rate => "1/s",
            Self::Percent => "%",
        }
    }
}

/// Statements whose rows are run, figure, value, with the value's unit. A figure that a run does not have has no row.
const STATEMENTS: &[(FleetUnit, &str)] = &[
    (
        FleetUnit::Seconds,
        "select r.run, 'elapsed ' || t.name, r.length_ns / 1e9
           from (select substr(target, 1, 60) as name, count(*) as n from runs where target_kind = 'command'
                  group by substr(target, 1, 60) order by n desc limit 20) as t
           join runs as r on substr(r.target, 1, 60) = t.name where r.target_kind = 'command'",
    ),
    (
        FleetUnit::Percent,
        "select t.run, 'account.' || c.category, 100.0 * coalesce(sum(a.time_ns), 0) / t.total
           from (select run, sum(time_ns) as total from account group by run having sum(time_ns) > 0) as t
          cross join (select distinct category from account) as c
           left join account as a on a.run = t.run and a.category = c.category
          group by t.run, c.category",
    ),
    (
        FleetUnit::Percent,
        "select run, 'cpu.busy', 100.0 * sum(busy_ns) / sum(busy_ns + idle_ns) from cpus group by run
         having sum(busy_ns + idle_ns) > 0",
    ),
    (
        FleetUnit::Milliseconds,
        "select run, 'device.service-time.p50', percentile(d2c_ns, 50) / 1e6 from requests where d2c_ns > 0 group by run
         union all
         select run, 'device.service-time.p99', percentile(d2c_ns, 99) / 1e6 from requests where d2c_ns > 0 group by run
         union all
         select run, 'device.response-time.p99', percentile(q2c_ns, 99) / 1e6 from requests where q2c_ns > 0 group by run",
    ),
    (
        FleetUnit::Milliseconds,
        "select s.run, 'span.' || t.name || '.p50', s.p50_ns / 1e6
           from (select span || coalesce(' ' || key, '') as name, sum(total_ns) as total from spans
                  group by span || coalesce(' ' || key, '') order by total desc limit 50) as t
           join spans as s on s.span || coalesce(' ' || s.key, '') = t.name where s.count > 0
         union all
         select s.run, 'span.' || t.name || '.p99', s.p99_ns / 1e6
           from (select span || coalesce(' ' || key, '') as name, sum(total_ns) as total from spans
                  group by span || coalesce(' ' || key, '') order by total desc limit 50) as t
           join spans as s on s.span || coalesce(' ' || s.key, '') = t.name where s.count >= 100",
    ),
    (FleetUnit::Milliseconds, "select run, 'load.' || kind || '.p99', avg(p99_ns) / 1e6 from loads group by run, kind"),
    (FleetUnit::Rate, "select run, 'load.' || kind || '.rate', avg(rate) from loads group by run, kind"),
    (
        FleetUnit::Rate,
        "select s.run, 'service.' || s.service || '.requests', sum(s.requests) * 1e9 / r.length_ns
           from services as s join runs as r on r.run = s.run where s.requests > 0 and r.length_ns > 0
          group by s.run, s.service",
    ),
    (
        FleetUnit::Milliseconds,
        "select w.run, 'watch.' || w.service || '.request-time', sum(w.mean_ns * w.requests) / sum(w.requests) / 1e6
           from (select service, sum(requests) as total from window_services group by service order by total desc limit 50) as t
           join window_services as w on w.service = t.service where w.requests > 0 group by w.run, w.service
         union all
         select run, 'watch.device.service-time', sum(service_ns * requests) / sum(requests) / 1e6
           from window_devices where requests > 0 group by run",
    ),
];

/// A figure on the hosts that have it.
#[derive(Debug, Clone)]
pub struct Figure {
    pub key: String,
    pub unit: FleetUnit,
    /// Its values are logarithms: changes are ratios.
    pub relative: bool,
    pub hosts: Vec<String>,
    /// As many as hosts.
    pub blocks: Vec<Block>,
}

impl Figure {
    /// Hosts of `both` sides that have it before the change alone.
    pub fn gone<'a>(&'a self, both: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
        let sides = self.hosts.iter().zip(&self.blocks);
        let gone = sides.filter(|(_, block)| !block.before.is_empty() && block.after.is_empty());
        gone.map(|(host, _)| host.as_str()).filter(|host| both.contains(host))
    }
}

/// What of a run's environment is one value on some hosts.
#[derive(Debug)]
pub struct Attribute {
    pub what: String,
    pub value: String,
    pub hosts: Vec<String>,
}

/// Asks a statement and hands its rows on.
type Ask<'a> = &'a mut dyn FnMut(&str, &mut dyn FnMut(&[Cell<'_>])) -> Result<()>;

pub fn figures(ask: Ask<'_>, runs: &HashMap<String, Run>) -> Result<Vec<Figure>> {
    let mut out = Vec::new();
    for (unit, sql) in STATEMENTS {
        let relative = *unit != FleetUnit::Percent;
        let mut all: BTreeMap<String, BTreeMap<&str, Block>> = BTreeMap::new();
        ask(sql, &mut |row| {
            let [Cell::Text(run), Cell::Text(key), value] = row else { return };
            let value = match value {
                Cell::Real(v) => *v,
                Cell::Integer(v) => *v as f64,
                _ => return,
            };
            let Some(run) = runs.get(*run) else { return };
            if relative && value <= 0.0 {
                return;
            }
            let block = all.entry((*key).to_owned()).or_default().entry(&run.host).or_default();
            let side = if run.after { &mut block.after } else { &mut block.before };
            side.push(if relative { value.ln() } else { value });
        })?;
        for (key, blocks) in all {
            let (hosts, blocks) = blocks.into_iter().map(|(h, b)| (h.to_owned(), b)).unzip();
            out.push(Figure { key, unit: *unit, relative, hosts, blocks });
        }
    }
    Ok(out)
}

/// Values of the environment that hosts have in all their runs of B, and those that they had in all of A and have no more.
pub fn attributes(ask: Ask<'_>, runs: &HashMap<String, Run>) -> Result<Vec<Attribute>> {
    // By host and key: the values of both sides.
    let mut seen: BTreeMap<(String, &str), [BTreeSet<String>; 2]> = BTreeMap::new();
    ask("select run, key, value from run where part = 'environment'", &mut |row| {
        let [Cell::Text(run), Cell::Text(key), Cell::Text(value)] = row else { return };
        let Some(run) = runs.get(*run) else { return };
        let values = &mut seen.entry(((*key).to_owned(), &run.host)).or_default()[usize::from(run.after)];
        // Two say as much as many: it is not one.
        if values.len() < 2 {
            values.insert((*value).to_owned());
        }
    })?;
    let mut hosts: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for ((key, host), sides) in seen {
        let [before, after] =
            sides.map(|values| if values.len() == 1 { values.into_iter().next() } else { None });
        let Some(after) = after else { continue };
        if let Some(before) = before.filter(|b| *b != after) {
            hosts.entry((key.clone(), format!("{before} -> {after}"))).or_default().push(host.into());
        }
        hosts.entry((key, after)).or_default().push(host.into());
    }
    // What one host alone has is common to none.
    let several = hosts.into_iter().filter(|(_, hosts)| hosts.len() > 1);
    Ok(several.map(|((what, value), hosts)| Attribute { what, value, hosts }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_figure_after_the_change_is_gone() {
        let block = |before: &[f64], after: &[f64]| Block { before: before.into(), after: after.into() };
        let figure = Figure {
            key: "service.shop.requests".into(),
            unit: FleetUnit::Rate,
            relative: true,
            hosts: ["both", "gone", "new", "left"].map(str::to_owned).into(),
            blocks: vec![block(&[1.0], &[1.0]), block(&[1.0], &[]), block(&[], &[1.0]), block(&[1.0], &[])],
        };
        // A host that has no runs after the change has not lost anything.
        let both = BTreeSet::from(["both", "gone", "new"]);
        assert_eq!(figure.gone(&both).collect::<Vec<_>>(), ["gone"]);
    }
}
