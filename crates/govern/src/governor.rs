// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns watch, policy and throttle, for every disk apart.

use crate::account::{Account, Part};
use crate::cgroup::Group;
use crate::disks::Disk;
use crate::policy::{Decision, Policy, Seen, Settings, State};
use crate::rate::Rate;
use crate::throttle::{Ledger, Limiter};
use crate::watch::{Look, Source};
use anyhow::Result;
use plumb_machine::Root;
use serde::Serialize;
use std::time::Duration;

/// How soon one looks again while background I/O runs unlimited, while it is limited, and while nothing happens.
const FREE: Duration = Duration::from_millis(2);
const LIMITED: Duration = Duration::from_millis(20);
const QUIET: Duration = Duration::from_millis(50);
/// Reading sums takes several files.
const SUMS: Duration = Duration::from_millis(10);
/// Background I/O that was seen so lately runs, ns.
const RUNS: u64 = 1_000_000_000;
/// How often new groups below the background groups are looked for, ns.
const FOLLOW: u64 = 250_000_000;

/// Something that happened on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Background I/O is limited from now on.
    Limited(Rate),
    /// The steering changed the limit.
    Steered(Rate),
    /// Background I/O is unlimited from now on.
    Freed,
    /// The disk is no more.
    Gone,
}

/// What came of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    #[serde(flatten)]
    pub disk: Disk,
    /// How background I/O stood in the end.
    pub state: State,
    /// The limit in the end.
    pub limit: Rate,
    /// How often it was limited or freed.
    pub switches: u64,
    /// What happened while background I/O was limited.
    pub limited: Part,
    /// And while it was free.
    pub free: Part,
    pub gone: bool,
}

struct One {
    disk: Disk,
    policy: Policy,
    limiter: Limiter,
    account: Account,
    low_runs: bool,
    followed: u64,
    told_gone: bool,
}

pub struct Governor<S> {
    source: S,
    disks: Vec<One>,
    followed: u64,
    root: Root,
}

fn seen(look: &Look) -> Seen {
    Seen {
        normal_last: look.normal.last,
        normal_in_flight: look.normal.in_flight > 0,
        requests: look.normal.requests,
        late: look.normal.late,
    }
}

impl<S: Source> Governor<S> {
    /// Limits background I/O of some groups on some disks.
    ///
    /// # Errors
    /// A limit cannot be set; named. Those that were set are in the ledger.
    pub fn begin(
        mut source: S,
        disks: &[(Disk, Settings)],
        low: &[Group],
        now: u64,
        ledger: &mut dyn Ledger,
    ) -> Result<Governor<S>> {
        let mut all = Vec::new();
        for (i, (disk, settings)) in disks.iter().enumerate() {
            let policy = Policy::new(*settings, now);
            let mut limiter = Limiter::new(low.to_vec(), disk.number);
            limiter.apply(Some(policy.rate()), ledger)?;
            let account = Account::new(source.look(i, now), now, source.sees_requests());
            all.push(One {
                disk: disk.clone(),
                policy,
                limiter,
                account,
                low_runs: false,
                followed: now,
                told_gone: false,
            });
        }
        Ok(Governor { source, disks: all, followed: now, root: Root::real() })
    }

    /// Looks once and does what is due. `now` is CLOCK_MONOTONIC, ns.
    ///
    /// # Errors
    /// A limit cannot be changed; named.
    pub fn turn(&mut self, now: u64, ledger: &mut dyn Ledger) -> Result<Vec<(Disk, Event)>> {
        let mut events = Vec::new();
        let follows = now.saturating_sub(self.followed) >= FOLLOW;
        if follows {
            self.followed = now;
            self.source.follow()?;
        }
        for (i, one) in self.disks.iter_mut().enumerate() {
            // A loop device without its file takes limits as before.
            if follows && !one.limiter.is_gone() && one.disk.is_empty(&self.root) {
                one.limiter.leave(ledger)?;
            }
            if one.limiter.is_gone() {
                if !std::mem::replace(&mut one.told_gone, true) {
                    events.push((one.disk.clone(), Event::Gone));
                }
                continue;
            }
            let look = self.source.look(i, now);
            one.low_runs =
                look.low.in_flight > 0 || (look.low.last > 0 && now.saturating_sub(look.low.last) < RUNS);
            let before = one.policy.state();
            let decision = one.policy.step(now, &seen(&look));
            let event = match decision {
                Some(Decision::Limit(rate)) => {
                    one.limiter.apply(Some(rate), ledger)?;
                    Some(if before == State::Limited { Event::Steered(rate) } else { Event::Limited(rate) })
                }
                Some(Decision::Free) => {
                    one.limiter.apply(None, ledger)?;
                    Some(Event::Freed)
                }
                None if before == State::Limited && now.saturating_sub(one.followed) >= FOLLOW => {
                    one.followed = now;
                    one.limiter.follow(ledger)?;
                    None
                }
                None => None,
            };
            if one.policy.state() != before {
                one.account.close(before, &look, now);
                one.account.switches += 1;
            }
            events.extend(event.map(|e| (one.disk.clone(), e)));
        }
        Ok(events)
    }

    /// How long one may wait until the next turn.
    pub fn nap(&self, now: u64) -> Duration {
        let of = |one: &One| match one.policy.frees_at() {
            Some(at) => LIMITED.min(Duration::from_nanos(at.saturating_sub(now)).max(FREE)),
            None if one.low_runs => FREE,
            None => QUIET,
        };
        let soonest = self.disks.iter().filter(|one| !one.limiter.is_gone()).map(of).min().unwrap_or(QUIET);
        if self.source.sees_requests() {
            soonest
        } else {
            soonest.max(SUMS)
        }
    }

    pub fn is_over(&self) -> bool {
        self.disks.iter().all(|one| one.limiter.is_gone())
    }

    /// Puts back what was before, and says what came of it.
    ///
    /// # Errors
    /// A limit cannot be put back; named. It is in the ledger.
    pub fn end(mut self, now: u64, ledger: &mut dyn Ledger) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for (i, mut one) in self.disks.drain(..).enumerate() {
            one.limiter.apply(None, ledger)?;
            let look = self.source.look(i, now);
            one.account.close(one.policy.state(), &look, now);
            outcomes.push(Outcome {
                state: one.policy.state(),
                limit: one.policy.rate(),
                switches: one.account.switches,
                limited: one.account.part(State::Limited),
                free: one.account.part(State::Free),
                gone: one.limiter.is_gone(),
                disk: one.disk,
            });
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;
    use crate::throttle::Limit;
    use plumb_machine::DeviceNumber;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Told;

    impl Ledger for Told {
        fn will(&mut self, _: &Limit) -> Result<()> {
            Ok(())
        }
    }

    struct Fake(Rc<RefCell<Look>>);

    impl Source for Fake {
        fn look(&mut self, _: usize, _: u64) -> Look {
            self.0.borrow().clone()
        }
        fn sees_requests(&self) -> bool {
            true
        }
        fn follow(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn files_follow_what_is_seen() {
        const S: u64 = 1_000_000_000;
        let dir = tempfile::TempDir::new().expect("a directory");
        let file = dir.path().join("io.max");
        std::fs::write(&file, "").expect("written");
        let read = || std::fs::read_to_string(&file).expect("read");
        let disk = Disk { name: "sda".into(), number: DeviceNumber { major: 8, minor: 0 }, rotational: true };
        let limit = Rate { bytes: Some(1000), requests: None };
        let settings = Settings { limit, delay: 5 * S, steered: false };
        let low = [Group { version: Version::V2, dir: dir.path().into() }];
        let look = Rc::new(RefCell::new(Look::default()));
        let mut g =
            Governor::begin(Fake(look.clone()), &[(disk, settings)], &low, 0, &mut Told).expect("begun");
        let limited = "8:0 rbps=1000 wbps=1000 riops=max wiops=max\n";
        assert_eq!(read(), limited);
        assert_eq!(g.nap(0), LIMITED);
        let events = |g: &mut Governor<Fake>, now| -> Vec<Event> {
            g.turn(now, &mut Told).expect("turned").into_iter().map(|(_, e)| e).collect()
        };
        assert_eq!(events(&mut g, 4 * S), []);
        assert_eq!(events(&mut g, 5 * S), [Event::Freed]);
        assert_eq!(read(), "8:0 rbps=max wbps=max riops=max wiops=max\n");
        assert_eq!(g.nap(5 * S), QUIET);
        (look.borrow_mut().low.last, look.borrow_mut().low.bytes) = (6 * S, 1 << 20);
        assert_eq!(events(&mut g, 6 * S), []);
        assert_eq!(g.nap(6 * S), FREE);
        look.borrow_mut().normal.last = 7 * S;
        assert_eq!(events(&mut g, 7 * S), [Event::Limited(limit)]);
        assert_eq!(read(), limited);
        let outcome = g.end(8 * S, &mut Told).expect("ended").remove(0);
        assert_eq!((outcome.switches, outcome.limited.ns, outcome.free.ns), (2, 6 * S, 2 * S));
        assert_eq!(outcome.free.low.bytes, 1 << 20);
        assert_eq!(read(), "8:0 rbps=max wbps=max riops=max wiops=max\n", "as before");
    }
}
