// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-above` and `--fail-below` of a fleet: what changed by more than is allowed, on all hosts or on one that stands
//! apart.

use super::show::change;
use super::{Fleet, FleetLine, FleetUnit, HostApart};
use crate::gate::{exit_code, Gate, Verdict, Way};
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

    /// Judges thresholds, `5%` of every time or `KEY=5%`, each by the near end of the interval, and by the hosts that stand apart.
    ///
    /// # Errors
    /// There is no such figure, or no error is known of it.
    pub fn judge(&mut self, gates: &[Gate]) -> Result<()> {
        for gate in gates {
            // What is not there is no change of any host, and the most that a rate can fall by.
            let gone = self.gone.get(&gate.metric).filter(|_| gate.way == Way::Below);
            let gone = gone.map_or(&[][..], Vec::as_slice);
            self.gates.push(verdict(gate, &self.lines, &self.apart, gone)?);
        }
        Ok(())
    }
}

fn verdict(gate: &Gate, lines: &[FleetLine], apart: &[HostApart], gone: &[String]) -> Result<Verdict> {
    let every = gate.metric == ELAPSED;
    let judged: Vec<&FleetLine> =
        lines.iter().filter(|l| if every { l.is_time() } else { l.key == gate.metric }).collect();
    if judged.is_empty() && !every && gone.is_empty() {
        let known: Vec<&str> = lines.iter().map(|l| l.key.as_str()).collect();
        let (option, metric) = (gate.way.option(), &gate.metric);
        bail!("{option}: A and B have no figure '{metric}'; they have: {}", known.join(", "));
    }
    if !judged.is_empty() && judged.iter().all(|l| l.low.is_none()) && gone.is_empty() {
        bail!("{}: no error is known of a change, so none can be judged: that takes several hosts, or several runs on each side of one", gate.way.option());
    }
    // Of many figures the interval of one is above by chance: such a one must be found as well.
    let (way, limit) = (gate.way, gate.limit());
    let exceeds = |l: &FleetLine, change: f64| way.up(l.percent(change)) > gate.percent;
    let above =
        |l: &&FleetLine| way.near(l.low, l.high).is_some_and(|near| exceeds(l, near)) && (l.found || !every);
    let grown: Vec<&FleetLine> = judged.iter().copied().filter(above).collect();
    let hosts: BTreeSet<&str> = apart
        .iter()
        .filter(|a| {
            let line = judged.iter().find(|l| l.key == a.key);
            line.is_some_and(|l| exceeds(l, a.change) && way.up(a.change) > way.up(a.others))
        })
        .map(|a| a.host.as_str())
        .collect();
    let change_of = |l: &FleetLine| way.up(l.percent(l.change));
    let most = judged.iter().copied().max_by(|x, y| change_of(x).total_cmp(&change_of(y)));
    let first = grown.first().copied().or(most);
    let crossed = !grown.is_empty() || !hosts.is_empty() || !gone.is_empty();
    let what = if every { "times" } else { &gate.metric };
    let mut words = match (grown.as_slice(), first) {
        ([], None) if every => format!("{what}: there is none, so none is {limit}"),
        ([], None) => format!("{what}: no host has it on both sides"),
        ([], Some(l)) if every => {
            format!(
                "{what}: none of {} is {limit} on all hosts; the largest is {}, {}",
                judged.len(),
                l.key,
                change(l.change, l.relative)
            )
        }
        ([], Some(l)) => {
            format!("{what}: {}, not {limit} on all hosts", change(l.change, l.relative))
        }
        (all, Some(l)) if every => {
            format!(
                "{what}: {} of {} are {limit}, first {}, {}",
                all.len(),
                judged.len(),
                l.key,
                change(l.change, l.relative)
            )
        }
        (_, Some(l)) => format!("{what}: {}, {limit}", change(l.change, l.relative)),
        (_, None) => String::new(),
    };
    if !hosts.is_empty() {
        words += &format!("; {} it on {}, which stand apart", way.word(), super::show::list(&hosts));
    }
    if !gone.is_empty() {
        words +=
            &format!("; none any more on {}", super::show::list(&gone.iter().map(String::as_str).collect()));
    }
    words += ".";
    let growth = first.map(|l| l.percent(l.change));
    let low = first.and_then(|l| Some(l.percent(way.near(l.low, l.high)?)));
    Ok(gate.verdict((growth, low), crossed, words))
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
        let gate = |text: &str| Gate::parse(Way::Above, text).expect("a gate");
        let crossed = |text: &str, apart: &[HostApart]| {
            verdict(&gate(text), &lines, apart, &[]).expect("a verdict").crossed
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
        verdict(&gate("5%"), &[unsure], &[], &[]).expect_err("nothing is known of it");
        let error = verdict(&gate("x=5%"), &lines, &[], &[]).expect_err("none");
        assert!(error.to_string().contains("span.commit.p99"), "{error}");
    }

    #[test]
    fn what_fell_on_all_hosts_or_on_one_crosses() {
        let lines = [line("span.commit.rate", FleetUnit::Rate, -0.10, true)];
        let host = |change: f64| HostApart {
            host: "web-1".into(),
            key: "span.commit.rate".into(),
            change,
            others: -0.10,
            q: 0.0,
        };
        let below = |text: &str, lines: &[FleetLine], apart: &[HostApart], gone: &[String]| {
            verdict(&Gate::parse(Way::Below, text).expect("a gate"), lines, apart, gone)
        };
        let judged = |text: &str, apart: &[HostApart]| below(text, &lines, apart, &[]).expect("a verdict");
        let fell = judged("span.commit.rate=5%", &[]);
        assert!(fell.crossed && fell.words.contains("below -5 %"), "{}", fell.words);
        assert!(!judged("span.commit.rate=9.5%", &[]).crossed, "the interval ends above");
        assert!(judged("span.commit.rate=20%", &[host(-0.3)]).crossed);
        assert!(!judged("span.commit.rate=20%", &[host(0.5)]).crossed, "faster than the others");
        for lines in [&lines[..], &[]] {
            let dead = below("span.commit.rate=20%", lines, &[], &["web-3".into()]).expect("a verdict");
            assert!(dead.crossed && dead.words.ends_with("; none any more on web-3."), "{}", dead.words);
        }
        below("span.commit.rate=20%", &[], &[], &[]).expect_err("none");
    }
}
