// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggers that are armed again, and when a run of one is to be written.

use anyhow::{bail, Context, Result};
use plumb_machine::{system, Root};
use plumb_model::SlowRequest;
use plumb_probe::Trigger;
use plumb_trace::schema::StateTrigger;
use plumb_trace::units;

/// Stalls are looked at over so long, ns.
const LOOK: u64 = 1_000_000_000;
/// A run that somebody asks for is written so long behind that, ns; of a name and of all at most so many in so long.
const AFTER: u64 = 5_000_000_000;
const ASKED_EVERY: u64 = 60_000_000_000;
const MOST_ASKED: usize = 4;
/// What is asked for, whatever it is called, among the names of triggers.
pub const ASKED: &str = "asked";
/// What the kernel tells stalls of (Documentation/accounting/psi.rst).
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// What has to be for a trigger to fire.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A system call, a block request or a wait for a CPU: the recorder sees it.
    Recorded(Trigger),
    /// A request that a service with `of` in its name answered later than `limit`, ns.
    Answer { of: String, limit: u64, text: String },
    /// Some task was stalled for a resource for more than a share of a second, 0 to 1.
    Pressure { resource: &'static str, share: f64, text: String },
    /// Somebody asks.
    Asked,
}

impl Condition {
    /// Reads `answer > DURATION`, `answer of SERVICE > DURATION`, `pressure RESOURCE > PERCENT` and what
    /// [`Trigger::parse`] does.
    ///
    /// # Errors
    /// Not of that form.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let (name, limit) = text.split_once('>').unwrap_or((text, ""));
        let words: Vec<&str> = name.split_whitespace().collect();
        let text = text.to_string();
        Ok(match words[..] {
            ["answer"] | ["answer", "of", ..] => {
                let limit = units::parse_duration(limit.trim()).map_err(anyhow::Error::msg)?;
                Self::Answer { of: words.get(2..).unwrap_or_default().join(" "), limit, text }
            }
            ["pressure", resource] => {
                let Some(resource) = RESOURCES.into_iter().find(|r| *r == resource) else {
                    bail!("'{text}': pressure is of cpu, io or memory");
                };
                let percent = limit.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
                let Some(percent) = percent.filter(|n| (0.0..100.0).contains(n)) else {
                    bail!("'{text}': a pressure is a share of the time, as in 'pressure io > 20%'");
                };
                Self::Pressure { resource, share: percent / 100.0, text }
            }
            _ => Self::Recorded(Trigger::parse(&text).context(
                "expected 'answer > 30ms', 'answer of SERVICE > 30ms', 'pressure io > 20%' or NAME > DURATION",
            )?),
        })
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Recorded(trigger) => trigger.text(),
            Self::Answer { text, .. } | Self::Pressure { text, .. } => text,
            Self::Asked => "plumb trigger",
        }
    }
}

/// What a run is written of.
#[derive(Debug, Clone)]
pub struct When {
    /// What the run is called.
    pub name: String,
    pub condition: Condition,
    /// At most one run is written in so long, ns.
    pub every: u64,
    /// It is written so long behind its moment, ns.
    pub after: u64,
}

/// A run that is to be written.
#[derive(Debug, PartialEq)]
pub struct Due {
    pub name: String,
    pub fired: StateTrigger,
    /// How often it fired since the run before.
    pub since: u64,
}

/// All triggers of a recording.
#[derive(Debug)]
pub struct Triggers {
    armed: Vec<Armed>,
    /// How often somebody asked.
    asked: u64,
    /// When stalls were looked at last, ns, and how long there were of each of [`RESOURCES`] until then, ns.
    stalled: Option<(u64, [u64; RESOURCES.len()])>,
}

#[derive(Debug)]
struct Armed {
    when: When,
    /// What a run was begun for last, ns.
    last: Option<u64>,
    /// How often it fired since, and ever.
    since: u64,
    ever: u64,
    /// What a run is to be written for, and when.
    due: Option<(StateTrigger, u64)>,
}

impl Armed {
    fn new(when: When) -> Self {
        Self { when, last: None, since: 0, ever: 0, due: None }
    }

    /// Its condition came true: its name, where a run of it will be written.
    fn fire(&mut self, fired: StateTrigger) -> Option<(String, StateTrigger)> {
        self.ever += 1;
        if self.due.is_some() || self.last.is_some_and(|last| fired.end < last + self.when.every) {
            self.since += 1;
            return None;
        }
        self.last = Some(fired.end);
        let end = fired.end.saturating_add(self.when.after);
        self.due = Some((fired.clone(), end));
        Some((self.when.name.clone(), fired))
    }
}

impl Triggers {
    pub fn new(all: impl IntoIterator<Item = When>) -> Self {
        Self { armed: all.into_iter().map(Armed::new).collect(), asked: 0, stalled: None }
    }

    /// What the recorder looks out for.
    pub fn recorded(&self) -> Vec<Trigger> {
        let one = |armed: &Armed| match &armed.when.condition {
            Condition::Recorded(trigger) => Some(trigger.clone()),
            _ => None,
        };
        self.armed.iter().filter_map(one).collect()
    }

    /// Requests that took longer than this may interest, ns.
    pub fn slow_requests(&self) -> Option<u64> {
        let one = |armed: &Armed| match armed.when.condition {
            Condition::Answer { limit, .. } => Some(limit),
            _ => None,
        };
        self.armed.iter().filter_map(one).min()
    }

    /// The recorder saw a condition come true: what a run will be written of, and its name.
    pub fn fired(&mut self, fired: &StateTrigger) -> Option<(String, StateTrigger)> {
        let of = self.armed.iter_mut().find(|armed| armed.when.condition.text() == fired.condition)?;
        of.fire(fired.clone())
    }

    /// The same of a slow request, which may be of several triggers' interest.
    pub fn answered(&mut self, request: &SlowRequest) -> Vec<(String, StateTrigger)> {
        let (begin, end, thread) = (request.begin, request.end, request.thread);
        let of = |armed: &&mut Armed| match &armed.when.condition {
            Condition::Answer { of, limit, .. } => {
                end.saturating_sub(begin) > *limit && request.service.contains(of.as_str())
            }
            _ => false,
        };
        let fire = |armed: &mut Armed| {
            let condition = armed.when.condition.text().to_string();
            armed.fire(StateTrigger { begin, end, thread, condition })
        };
        self.armed.iter_mut().filter(of).filter_map(fire).collect()
    }

    /// The same of stalls, as the kernel tells of them now, ns CLOCK_MONOTONIC.
    pub fn look(&mut self, now: u64, root: &Root) -> Vec<(String, StateTrigger)> {
        let wanted = |armed: &Armed| matches!(armed.when.condition, Condition::Pressure { .. });
        let early = self.stalled.is_some_and(|(at, _)| now < at + LOOK);
        if early || !self.armed.iter().any(wanted) {
            return Vec::new();
        }
        let total = RESOURCES.map(|resource| system::stalled(resource, root).unwrap_or(0));
        let Some((begin, before)) = self.stalled.replace((now, total)) else { return Vec::new() };
        let fire = |armed: &mut Armed| {
            let Condition::Pressure { resource, share, text } = &armed.when.condition else { return None };
            let at = RESOURCES.iter().position(|r| r == resource)?;
            let stalled = total[at].saturating_sub(before[at]) as f64 / (now - begin) as f64;
            let condition = text.clone();
            (stalled > *share).then(|| armed.fire(StateTrigger { begin, end: now, thread: 0, condition }))?
        };
        self.armed.iter_mut().filter_map(fire).collect()
    }

    /// Somebody asks for a run of that name at `now`, ns; whether one will be written.
    pub fn ask(&mut self, name: &str, now: u64) -> bool {
        self.asked += 1;
        let asked = |armed: &&mut Armed| armed.when.condition == Condition::Asked;
        let fired =
            StateTrigger { begin: now, end: now, thread: 0, condition: Condition::Asked.text().into() };
        if let Some(armed) = self.armed.iter_mut().filter(asked).find(|armed| armed.when.name == name) {
            return armed.fire(fired).is_some();
        }
        if self.armed.iter_mut().filter(asked).count() >= MOST_ASKED {
            return false;
        }
        let when = When { name: name.into(), condition: Condition::Asked, every: ASKED_EVERY, after: AFTER };
        let mut armed = Armed::new(when);
        armed.fire(fired);
        self.armed.push(armed);
        true
    }

    /// How often each fired until now; whatever somebody asked for is one.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u64)> {
        let armed = self.armed.iter().filter(|armed| armed.when.condition != Condition::Asked);
        let asked = std::iter::once((ASKED, self.asked)).filter(|(_, n)| *n > 0);
        armed.map(|armed| (armed.when.name.as_str(), armed.ever)).chain(asked)
    }

    /// The runs whose time is over at `until`, ns.
    pub fn due(&mut self, until: u64) -> Vec<Due> {
        let one = |armed: &mut Armed| {
            let (fired, _) = armed.due.take_if(|(_, end)| *end <= until)?;
            let since = std::mem::take(&mut armed.since);
            Some(Due { name: armed.when.name.clone(), fired, since })
        };
        let due = self.armed.iter_mut().filter_map(one).collect();
        let rests =
            |armed: &Armed| armed.last.is_some_and(|last| last.saturating_add(armed.when.every) > until);
        self.armed
            .retain(|armed| armed.when.condition != Condition::Asked || armed.due.is_some() || rests(armed));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_machine::Fake;

    fn one(condition: &str) -> Triggers {
        let condition = Condition::parse(condition).expect("a condition");
        Triggers::new([When { name: "slow".into(), condition, every: 1000, after: 50 }])
    }

    #[test]
    fn a_run_is_written_once_in_a_while_and_says_how_often_it_fired() {
        let mut all = one("fsync > 1ms");
        let at = |end| StateTrigger { begin: end - 1, end, thread: 7, condition: "fsync > 1ms".into() };
        let fire = |all: &mut Triggers, end| all.fired(&at(end)).is_some();
        assert!(fire(&mut all, 100));
        assert!(!fire(&mut all, 120) && !fire(&mut all, 1099), "in the same while");
        assert_eq!(all.due(149), []);
        assert_eq!(all.due(150), [Due { name: "slow".into(), fired: at(100), since: 2 }]);
        assert_eq!(all.due(u64::MAX), [], "once");
        assert!(fire(&mut all, 1100));
        assert_eq!(all.due(u64::MAX).len(), 1, "at the end nobody waits");
        let other = StateTrigger { condition: "request > 1s".into(), ..at(5000) };
        assert_eq!(all.fired(&other), None);
    }

    #[test]
    fn a_slow_request_fires_the_triggers_of_its_service() {
        let request = |service: &str, took: u64| SlowRequest {
            service: service.into(),
            thread: 7,
            begin: 10,
            end: 10 + took,
        };
        let mut all = one("answer of postgresql > 1ms");
        assert_eq!(all.slow_requests(), Some(1_000_000));
        assert!(all.answered(&request("nginx.service", 2_000_000)).is_empty());
        assert!(all.answered(&request("postgresql@15.service", 1_000_000)).is_empty(), "not longer");
        let fired = all.answered(&request("postgresql@15.service", 1_000_001));
        assert_eq!((fired[0].1.thread, fired[0].1.condition.as_str()), (7, "answer of postgresql > 1ms"));
        assert!(!one("answer > 1ms").answered(&request("", 2_000_000)).is_empty(), "of any");
    }

    #[test]
    fn what_somebody_asks_for_is_written_once() {
        let mut all = one("fsync > 1ms");
        let taken = [0, 1, 2].map(|n| all.ask("oom", 100 + n));
        assert_eq!(taken, [true, false, false]);
        assert!(all.due(100 + AFTER - 1).is_empty());
        let due = all.due(100 + AFTER);
        assert_eq!((due.len(), due[0].name.as_str(), due[0].fired.end, due[0].since), (1, "oom", 100, 2));
        assert!(!all.ask("oom", 99 + ASKED_EVERY), "soon");
        assert!(all.due(99 + ASKED_EVERY).is_empty());
        assert!(all.ask("oom", 100 + ASKED_EVERY));
        assert_eq!(all.due(u64::MAX).len(), 1, "again");
        assert_eq!(all.armed.len(), 1);
        let taken = ["a", "b", "c", "d", "e"].map(|name| all.ask(name, u64::MAX));
        assert_eq!(taken, [true, true, true, true, false], "not everything at once");
        assert_eq!(all.totals().collect::<Vec<_>>(), [("slow", 0), ("asked", 10)]);
    }

    #[test]
    fn stalls_are_a_share_of_the_time_between_two_looks() {
        let fake = Fake::new();
        let mut all = one("pressure io > 20%");
        let mut look = |ms: u64, us: u64| {
            fake.put("/proc/pressure/io", &format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n"));
            all.look(ms * 1_000_000, &fake.root()).len()
        };
        assert_eq!(look(1000, 5_000_000), 0, "since when?");
        assert_eq!(look(1900, 6_000_000), 0, "too early");
        assert_eq!(look(2000, 5_200_000), 0, "20 %");
        assert_eq!(look(3000, 5_400_001), 1);
    }

    #[test]
    fn what_is_no_condition_is_told() {
        for (text, says) in [
            ("answer", "duration"),
            ("pressure disk > 20%", "cpu, io or memory"),
            ("pressure io > 2s", "'pressure io > 20%'"),
            ("nothing > 1s", "no system call"),
            ("answers > 1s", "'answer of SERVICE > 30ms'"),
        ] {
            let error = format!("{:#}", Condition::parse(text).expect_err(text));
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
