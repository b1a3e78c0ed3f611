// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording that goes on, analysed window by window: each as if it were all that was recorded, but that what was
//! known at its begin is known.
//!
//! One model accounts for the present window. Towards its end a second one reads the same events, but only learns what
//! is under way (waits, requests, who holds what), and then accounts for the next window. So memory does not grow with the
//! recording, but for what is told once: names, stacks and the places in them.

use crate::pass::{Reading, Wanted};
use crate::{setup, Analysis, Quality};
use anyhow::Result;
use plumb_model::{Setup, SlowRequest};
use plumb_trace::reader::{Following, Item, News, Published, State};
use plumb_trace::schema::StateTrigger;
use std::collections::BTreeMap;
use std::path::Path;

/// So long before a window begins its model learns, ns: that much of a wait or a request that goes on is known in it.
const LEARN: u64 = 10_000_000_000;

/// What happened between two moments.
#[derive(Debug)]
pub struct Window {
    /// First moment, ns CLOCK_MONOTONIC.
    pub begin: u64,
    /// Last moment, ns.
    pub end: u64,
    pub analysis: Analysis,
}

/// The windows of a recording, one behind the other.
pub struct Windows {
    following: Following,
    cut: Cut,
    triggers: Vec<StateTrigger>,
}

impl Windows {
    /// Of the trace in `dir` that is being recorded since `begin`, ns: of `length` ns each, the first at `from`. What the
    /// recorder tells of a moment more than `ahead` ns later is not known in time.
    ///
    /// # Errors
    /// The metadata cannot be read.
    pub fn open(dir: &Path, begin: u64, from: u64, length: u64, ahead: u64) -> Result<Self> {
        let following = Following::near(dir, begin, ahead)?;
        let cut = Cut::new(following.metadata().env.clone(), from, length);
        Ok(Self { following, cut, triggers: Vec::new() })
    }

    /// What triggers told of since this was asked last; no window's verdict is about it.
    pub fn triggers(&mut self) -> Vec<StateTrigger> {
        std::mem::take(&mut self.triggers)
    }

    /// Requests are looked at that take longer than this, ns.
    pub fn watch_requests(&mut self, limit: u64) {
        self.cut.slow_limit = Some(limit);
        self.cut.learn = self.cut.learn.max(limit.saturating_mul(2)).min(self.cut.length);
        self.cut.now.model.watch_requests(Some(limit));
    }

    /// Those that took longer, since this was asked last.
    pub fn slow_requests(&mut self) -> Vec<SlowRequest> {
        let mut slow = std::mem::take(&mut self.cut.slow);
        slow.append(&mut self.cut.now.model.slow_requests());
        slow
    }

    /// Waits until more was recorded, hands out the windows that are over, and tells how far the trace was read.
    ///
    /// # Errors
    /// The recording is over or damaged, or was not read in the order of time.
    pub fn next(&mut self, news: &mut impl News, mut over: impl FnMut(Window)) -> Result<Published> {
        let cut = &mut self.cut;
        let published = self.following.step(news, |item| cut.feed(item))?;
        self.triggers.extend(self.following.take_triggers());
        for window in self.cut.over(self.following.state()) {
            over(window?);
        }
        // A window's counters begin with those before it.
        self.following.forget(self.cut.begin().saturating_sub(self.cut.length));
        Ok(published)
    }
}

/// Cuts what is read into windows.
struct Cut {
    env: BTreeMap<String, String>,
    length: u64,
    /// End of the present window, ns.
    end: u64,
    now: Reading<()>,
    /// That of the next window, from so long before its begin on, ns.
    next: Option<Reading<()>>,
    learn: u64,
    /// Those that are over: end, ns.
    over: Vec<(u64, Reading<()>)>,
    /// Requests longer than this are told of, ns; those of windows that are over.
    slow_limit: Option<u64>,
    slow: Vec<SlowRequest>,
}

impl Cut {
    fn new(env: BTreeMap<String, String>, begin: u64, length: u64) -> Self {
        let end = begin + length;
        let now = Self::reading(&env, begin, None);
        let learn = length.min(LEARN);
        Self {
            env,
            length,
            end,
            now,
            next: None,
            learn,
            over: Vec::new(),
            slow_limit: None,
            slow: Vec::new(),
        }
    }

    fn reading(env: &BTreeMap<String, String>, begin: u64, before: Option<&Reading<()>>) -> Reading<()> {
        let carried = before.map(|reading| Box::new(reading.model.carry()));
        // What a command waits for at its end is no window's business.
        let setup = Setup { carried, root: 0, ..setup::of(env, (begin, u64::MAX)) };
        Reading::new(setup, env, Wanted::Findings, ())
    }

    /// Begin of the present window, ns.
    fn begin(&self) -> u64 {
        self.end - self.length
    }

    fn feed(&mut self, item: Item<'_>) {
        let ts = match &item {
            Item::Record(r) => r.ts,
            Item::Gap(gap) => gap.begin,
            Item::Told(_) | Item::Operation(_) => 0,
        };
        while ts >= self.end {
            self.turn();
        }
        if self.next.is_none() && ts >= self.end - self.learn {
            self.next = Some(self.following());
        }
        self.now.model.feed(item);
        if let Some(next) = &mut self.next {
            next.model.feed(item);
        }
    }

    /// The model of the next window, which knows what that of the present one does.
    fn following(&self) -> Reading<()> {
        Self::reading(&self.env, self.end, Some(&self.now))
    }

    fn turn(&mut self) {
        let now = self.next.take().unwrap_or_else(|| self.following());
        let end = self.end;
        self.end += self.length;
        let mut over = std::mem::replace(&mut self.now, now);
        self.slow.append(&mut over.model.slow_requests());
        self.now.model.watch_requests(self.slow_limit);
        over.model.ends_at(end);
        self.over.push((end, over));
    }

    fn over(&mut self, state: &State) -> Vec<Result<Window>> {
        let length = self.length;
        let window = |(end, reading): (u64, Reading<()>)| {
            let (mut analysis, ()) = reading.close(self.env.clone(), state, Quality::default())?;
            analysis.quality.events = analysis.result.events;
            analysis.quality.lost = analysis.result.lost_events;
            analysis.judge();
            Ok(Window { begin: end - length, end, analysis })
        };
        self.over.drain(..).map(window).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::reader::Trace;
    use std::path::PathBuf;

    /// A trace, whole, and cut into so many windows.
    fn windows(name: &str, parts: u64) -> (Analysis, Vec<Window>) {
        windows_that_learn(name, parts, 1)
    }

    /// The same, each learned for a part of its length.
    fn windows_that_learn(name: &str, parts: u64, part: u64) -> (Analysis, Vec<Window>) {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name);
        let trace = Trace::open(&dir).expect(name);
        let whole = Analysis::of(&dir, &[]).expect(name);
        let (begin, end) = setup::span(&trace);
        let length = (end - begin) / parts;
        let mut cut = Cut::new(trace.metadata.env.clone(), begin, length);
        cut.learn = length / part;
        trace.for_each(|item| cut.feed(item)).expect(name);
        while cut.end <= end {
            cut.turn();
        }
        let windows = cut.over(&trace.state).into_iter().collect::<Result<_>>().expect(name);
        (whole, windows)
    }

    fn time(analysis: &Analysis, category: &str) -> u64 {
        let named = |p: &plumb_model::ProcessRow| -> u64 {
            p.account.iter().filter(|(c, _)| c.name().starts_with(category)).map(|(_, ns)| *ns).sum()
        };
        analysis.result.processes.iter().map(named).sum()
    }

    #[test]
    fn what_all_windows_tell_is_what_the_whole_does() {
        // What a thread slept for is told at the end of its sleep: the windows in between know less of it.
        // Behind whom a thread waited for its CPU is known at the end of that, too.
        let groups: [(&str, &[&[&str]]); 2] = [
            ("mutex", &[&["running"], &["lock.user"]]),
            ("hogs", &[&["running"], &["runnable", "preempted"]]),
        ];
        for (name, groups) in groups {
            let (whole, windows) = windows(name, 6);
            assert!(windows.len() >= 6, "{name}: {}", windows.len());
            for group in groups {
                let sum = |analysis: &Analysis| group.iter().map(|c| time(analysis, c)).sum::<u64>();
                let all: u64 = windows.iter().map(|w| sum(&w.analysis)).sum();
                let expected = sum(&whole) as f64;
                assert!((all as f64 / expected - 1.0).abs() < 0.02, "{name} {group:?}: {all} of {expected}");
            }
        }
    }

    #[test]
    fn nothing_is_counted_in_two_windows() {
        let names = ["mutex", "appenders", "row-lock", "tcp-peer", "epoll", "direct-writes"];
        for (name, part) in names.into_iter().flat_map(|name| [(name, 1), (name, 4)]) {
            let (whole, windows) = windows_that_learn(name, 6, part);
            let counts = |analysis: &Analysis| {
                let r = &analysis.result;
                let calls: u64 = r.processes.iter().flat_map(|p| &p.syscalls).map(|c| c.calls).sum();
                let requests: u64 = r.devices.iter().map(|d| d.reads + d.writes).sum();
                let switches: u64 = r.processes.iter().flat_map(|p| p.switches).sum();
                [calls, requests, switches, r.service.requests]
            };
            let mut all = [0; 4];
            for window in &windows {
                counts(&window.analysis).iter().zip(&mut all).for_each(|(n, sum)| *sum += n);
            }
            let expected = counts(&whole);
            // The call in which a command's end is waited for is no window's; nor is one that began before a
            // window's model learned.
            let unknown = if part == 1 { 1 } else { expected[0] / 5 };
            let near = expected[0] - all[0] <= unknown && expected[1..] == all[1..];
            assert!(near, "{name}, learned for 1/{part}: {all:?} of {expected:?}");
        }
    }

    #[test]
    fn time_is_conserved_in_each_window() {
        let (_, windows) = windows("hogs", 6);
        for window in &windows {
            for p in &window.analysis.result.processes {
                let all: u64 = p.account.values().sum();
                assert_eq!(all, p.thread_time, "{} at {}", p.comm, window.begin);
                assert!(p.elapsed <= window.end - window.begin);
            }
        }
    }

    #[test]
    fn each_window_has_the_verdict_of_its_time() {
        let (whole, windows) = windows("mutex", 3);
        assert_eq!(whole.diagnosis.findings[0].id, "lock.user");
        for window in windows {
            let findings = &window.analysis.diagnosis.findings;
            let ids: Vec<(&str, f64)> = findings.iter().map(|f| (f.id.as_str(), f.share)).collect();
            assert!(ids.iter().any(|(id, share)| id.starts_with("lock.") && *share > 0.15), "{ids:?}");
            // The load has four threads, whichever windows its waits lie in.
            let most = window.analysis.result.locks.iter().map(|lock| lock.most_waiting).max();
            assert!(most <= Some(4), "{most:?} wait");
        }
    }
}
