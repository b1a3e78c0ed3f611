// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-above` of a fleet: what grew by more than is allowed, on all hosts or on one that stands apart.

use super::show::change;
use super::{Fleet, FleetLine, FleetUnit, HostApart};
use crate::gate::{exit_code, Gate, Verdict};
use crate::measure::ELAPSED;
use anyhow::{bail, Result};
use std::collections::BTreeSet;
use std::process::ExitCode;

impl FleetLine {
    fn is_time(&self) -> bool {
        matches!(self.unit, FleetUnit::Seconds | FleetUnit::Milliseconds)
    }

    /// A change of it, in percent or points.
    fn percent(&self, change: f64) -> f64 {
        if self.relative {
            change * 100.0
        } else {
            change
        }
    }
}

impl Fleet {
    /// As of the comparison of two sides.
    pub fn exit_code(&self) -> ExitCode {
        exit_code(self.valid, &self.gates)
    }

    /// Judges thresholds, `5%` of every time or `KEY=5%`, each by the lower end of the interval, and by the hosts that stand apart.
    ///
    /// # Errors
    /// No threshold; there is no such figure.
    pub fn judge(&mut self, wanted: &[String]) -> Result<()> {
        for text in wanted {
            let gate = Gate::parse(text)?;
            self.gates.push(verdict(&gate, &self.lines, &self.apart)?);
        }
        Ok(())
    }
}

fn verdict(gate: &Gate, lines: &[FleetLine], apart: &[HostApart]) -> Result<Verdict> {
    let every = gate.metric == ELAPSED;
    let judged: Vec<&FleetLine> =
        lines.iter().filter(|l| if every { l.is_time() } else { l.key == gate.metric }).collect();
    if judged.is_empty() && !every {
        let known: Vec<&str> = lines.iter().map(|l| l.key.as_str()).collect();
        bail!("--fail-above: A and B have no figure '{}'; they have: {}", gate.metric, known.join(", "));
    }
    if !judged.is_empty() && judged.iter().all(|l| l.low.is_none()) {
        bail!("--fail-above: no error is known of a change, so none can be judged: that takes several hosts, or several runs on each side of one");
    }
    // Of many figures the interval of one is above by chance: such a one must be found as well.
    let above =
        |l: &&FleetLine| l.low.is_some_and(|low| l.percent(low) > gate.percent) && (l.found || !every);
    let grown: Vec<&FleetLine> = judged.iter().copied().filter(above).collect();
    let hosts: BTreeSet<&str> = apart
        .iter()
        .filter(|a| {
            let line = judged.iter().find(|l| l.key == a.key);
            line.is_some_and(|l| l.percent(a.change) > gate.percent && a.change > a.others)
        })
        .map(|a| a.host.as_str())
        .collect();
    let most = judged.iter().copied().max_by(|x, y| x.percent(x.change).total_cmp(&y.percent(y.change)));
    let first = grown.first().copied().or(most);
    let crossed = !grown.is_empty() || !hosts.is_empty();
    let what = if every { "times" } else { &gate.metric };
    let mut words = match (grown.as_slice(), first) {
        ([], None) => format!("{what}: there is none, so none is above {} %", gate.percent),
        ([], Some(l)) if every => {
            format!(
                "{what}: none of {} is above {} % on all hosts; the largest is {}, {}",
                judged.len(),
                gate.percent,
                l.key,
                change(l.change, l.relative)
            )
        }
        ([], Some(l)) => {
            format!("{what}: {}, not above {} % on all hosts", change(l.change, l.relative), gate.percent)
        }
        (all, Some(l)) if every => {
            format!(
                "{what}: {} of {} are above {} %, first {}, {}",
                all.len(),
                judged.len(),
                gate.percent,
                l.key,
                change(l.change, l.relative)
            )
        }
        (_, Some(l)) => format!("{what}: {}, above {} %", change(l.change, l.relative), gate.percent),
        (_, None) => String::new(),
    };
    if !hosts.is_empty() {
        words += &format!("; above it on {}, which stand apart", super::show::list(&hosts));
    }
    words += ".";
    let growth = first.map(|l| l.percent(l.change));
    let low = first.and_then(|l| Some(l.percent(l.low?)));
    Ok(Verdict { metric: gate.metric.clone(), percent: gate.percent, growth, low, crossed, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, unit: FleetUnit, change: f64, found: bool) -> FleetLine {
        let relative = unit != FleetUnit::Percent;
        let off = if relative { 0.01 } else { 1.0 };
        FleetLine {
            key: key.into(),
            unit,
            hosts: 10,
            apart: 0,
            a: 1.0,
            b: 1.0,
            relative,
            change,
            low: Some(change - off),
            high: Some(change + off),
            between: 0.0,
            p: None,
            q: None,
            found,
        }
    }

    #[test]
    fn what_grew_on_all_hosts_or_on_one_crosses() {
        let lines = [
            line("span.commit.p99", FleetUnit::Milliseconds, 0.10, true),
            line("span.select.p99", FleetUnit::Milliseconds, 0.08, false),
            line("span.commit.rate", FleetUnit::Rate, 0.5, true),
            line("account.running", FleetUnit::Percent, 8.0, true),
        ];
        let host = |change: f64| HostApart {
            host: "web-1".into(),
            key: "span.select.p99".into(),
            change,
            others: 0.08,
            q: 0.0,
        };
        let crossed = |text: &str, apart: &[HostApart]| {
            verdict(&Gate::parse(text).expect("a gate"), &lines, apart).expect("a verdict").crossed
        };
        assert!(crossed("5%", &[]));
        assert!(!crossed("9.5%", &[]), "the interval begins below");
        assert!(!crossed("20%", &[]), "a rate that grew is no time");
        assert!(crossed("20%", &[host(0.3)]));
        assert!(!crossed("20%", &[host(-0.5)]), "faster than the others");
        assert!(crossed("span.select.p99=5%", &[]), "the one that was asked for");
        assert!(crossed("span.commit.rate=20%", &[]) && crossed("account.running=5%", &[]));
        assert!(!crossed("account.running=7.5%", &[]));
        let unsure = FleetLine { low: None, high: None, ..line("elapsed", FleetUnit::Seconds, 0.8, false) };
        verdict(&Gate::parse("5%").expect("a gate"), &[unsure], &[]).expect_err("nothing is known of it");
        let error = verdict(&Gate::parse("x=5%").expect("a gate"), &lines, &[]).expect_err("none");
        assert!(error.to_string().contains("span.commit.p99"), "{error}");
    }
}
