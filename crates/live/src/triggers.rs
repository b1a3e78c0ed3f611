// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggers that are armed again, and when a run of one is to be written.

use plumb_probe::Trigger;
use plumb_trace::schema::StateTrigger;

/// What a run is written of.
#[derive(Debug, Clone)]
pub struct When {
    /// What the run is called.
    pub name: String,
    pub trigger: Trigger,
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
pub struct Triggers(Vec<Armed>);

#[derive(Debug)]
struct Armed {
    when: When,
    /// What a run was begun for last, ns.
    last: Option<u64>,
    /// How often it fired since.
    since: u64,
    /// What a run is to be written for, and when.
    due: Option<(StateTrigger, u64)>,
}

impl Triggers {
    pub fn new(all: impl IntoIterator<Item = When>) -> Self {
        Self(all.into_iter().map(|when| Armed { when, last: None, since: 0, due: None }).collect())
    }

    /// What the recorder looks out for.
    pub fn conditions(&self) -> Vec<Trigger> {
        self.0.iter().map(|armed| armed.when.trigger.clone()).collect()
    }

    /// A condition came true: the name of its trigger, where a run of it will be written.
    pub fn fired(&mut self, fired: &StateTrigger) -> Option<&str> {
        let armed = self.0.iter_mut().find(|armed| armed.when.trigger.text() == fired.condition)?;
        if armed.due.is_some() || armed.last.is_some_and(|last| fired.end < last + armed.when.every) {
            armed.since += 1;
            return None;
        }
        armed.last = Some(fired.end);
        armed.due = Some((fired.clone(), fired.end + armed.when.after));
        Some(&armed.when.name)
    }

    /// The runs whose time is over at `until`, ns.
    pub fn due(&mut self, until: u64) -> Vec<Due> {
        let one = |armed: &mut Armed| {
            let (fired, _) = armed.due.take_if(|(_, end)| *end <= until)?;
            Some(Due { name: armed.when.name.clone(), fired, since: std::mem::take(&mut armed.since) })
        };
        self.0.iter_mut().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_written_once_in_a_while_and_says_how_often_it_fired() {
        let trigger = Trigger::parse("fsync > 1ms").expect("a trigger");
        let condition = trigger.text().to_string();
        let mut all = Triggers::new([When { name: "slow".into(), trigger, every: 1000, after: 50 }]);
        let at = |end: u64| StateTrigger { begin: end - 1, end, thread: 7, condition: condition.clone() };
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
}
