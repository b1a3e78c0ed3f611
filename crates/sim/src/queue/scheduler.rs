// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the waiting requests goes to the device next: schedulers of Linux, by its sources.
//!
//! A scheduler is told what is inserted and what has completed, and asked for the next request whenever
//! the device's queue has room. It may give none although some wait (idling, a class that must not run);
//! then it is asked again when something completes or is inserted, or at [`Scheduler::next_timer`].

mod bfq;
mod deadline;
mod ends;
mod fair;
mod kyber;
mod lp_deadline;
mod mq_deadline;
mod noop;
mod sorted;

pub use bfq::{Bfq, BfqKnobs};
pub use deadline::{Deadline, DeadlineKnobs};
pub use fair::{Fair, FairKnobs};
pub use kyber::{Kyber, KyberKnobs};
pub use lp_deadline::{LpDeadline, LpKnobs};
pub use mq_deadline::{MqDeadline, MqDeadlineKnobs};
pub use noop::Noop;

use crate::device::Ns;
use crate::queue::requests::{Bio, Merge, Requests};
use crate::spec::SpecError;

/// An I/O scheduler. It owns the order; the requests lie in a table that it is shown.
pub trait Scheduler: Send {
    /// Its name in the kernel.
    fn name(&self) -> &'static str;

    /// The waiting request that a bio may join; [`Requests::may_merge`] has agreed.
    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge>;

    /// A bio of `length` bytes has joined a request, which has its new extent already.
    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests);

    /// Takes a request; it waits from now on.
    fn insert(&mut self, now: Ns, request: u32, requests: &Requests);

    /// Gives the next request, or none: nothing waits, or what waits must not run now.
    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32>;

    /// A request that it gave has completed.
    fn completed(&mut self, _now: Ns, _request: u32, _requests: &Requests) {}

    /// When to ask again though nothing has happened; asked right behind [`Scheduler::dispatch`].
    fn next_timer(&self, _now: Ns) -> Option<Ns> {
        None
    }

    fn queued(&self) -> usize;

    /// Whether a bio may take one more of the queue's tags.
    fn may_take(&self, _now: Ns, _bio: &Bio, taken: Taken, nr_requests: usize) -> bool {
        taken.all < nr_requests
    }

    /// What it has decided so far, by name; of those that count it.
    fn decisions(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Request slots that are taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub all: usize,
    /// Of those, by tasks of the idle class.
    pub idle: usize,
}

/// A knob by its kernel name, in its kernel unit.
#[derive(Debug)]
pub enum Knob<'a> {
    /// A time that the kernel shows in ms.
    Milliseconds(&'static str, &'a mut Ns),
    /// A time that the kernel shows in ns.
    Nanoseconds(&'static str, &'a mut Ns),
    Count(&'static str, &'a mut u32),
    /// 0 or 1.
    Switch(&'static str, &'a mut bool),
}

impl Knob<'_> {
    fn name(&self) -> &'static str {
        match self {
            Knob::Milliseconds(name, _)
            | Knob::Nanoseconds(name, _)
            | Knob::Count(name, _)
            | Knob::Switch(name, _) => name,
        }
    }

    fn set(&mut self, value: &str) -> Option<()> {
        match self {
            Knob::Milliseconds(_, ns) => **ns = value.parse::<u64>().ok()?.checked_mul(1_000_000)?,
            Knob::Nanoseconds(_, ns) => **ns = value.parse().ok()?,
            Knob::Count(_, n) => **n = value.parse().ok()?,
            Knob::Switch(_, on) => {
                **on = match value {
                    "0" => false,
                    "1" => true,
                    _ => return None,
                }
            }
        }
        Some(())
    }

    fn shown(&self) -> String {
        match self {
            Knob::Milliseconds(name, ns) => format!("{name}={}", **ns / 1_000_000),
            Knob::Nanoseconds(name, ns) => format!("{name}={ns}"),
            Knob::Count(name, n) => format!("{name}={n}"),
            Knob::Switch(name, on) => format!("{name}={}", u8::from(**on)),
        }
    }
}

/// Which scheduler, and how its knobs are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// First come, first served.
    Noop,
    Deadline(DeadlineKnobs),
    /// The multi-queue one, with priority classes.
    MqDeadline(MqDeadlineKnobs),
    /// Time slices for each task, as CFQ has them.
    Fair(FairKnobs),
    /// Deadline with a gate for the idle class.
    LpDeadline(LpKnobs),
    /// Depths of reads, writes and discards that follow their latencies.
    Kyber(KyberKnobs),
    /// Budgets of sectors for each task.
    Bfq(BfqKnobs),
}

pub const NAMES: [&str; 7] = ["noop", "deadline", "mq-deadline", "fair", "lp-deadline", "kyber", "bfq"];

impl Kind {
    /// The scheduler of that name, with the kernel's defaults for a rotational disk, or any other.
    ///
    /// # Errors
    /// There is none; all names are told.
    pub fn named(name: &str, rotational: bool) -> Result<Kind, SpecError> {
        Ok(match name {
            "noop" => Kind::Noop,
            "deadline" => Kind::Deadline(DeadlineKnobs::default()),
            "mq-deadline" => Kind::MqDeadline(MqDeadlineKnobs::default()),
            "fair" => Kind::Fair(FairKnobs::default()),
            "lp-deadline" => Kind::LpDeadline(LpKnobs::new(rotational)),
            "kyber" => Kind::Kyber(KyberKnobs::default()),
            "bfq" => Kind::Bfq(BfqKnobs::default()),
            _ => {
                return Err(SpecError(format!(
                    "no scheduler is called '{name}'; there are {}",
                    NAMES.join(", ")
                )))
            }
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Kind::Noop => NAMES[0],
            Kind::Deadline(_) => NAMES[1],
            Kind::MqDeadline(_) => NAMES[2],
            Kind::Fair(_) => NAMES[3],
            Kind::LpDeadline(_) => NAMES[4],
            Kind::Kyber(_) => NAMES[5],
            Kind::Bfq(_) => NAMES[6],
        }
    }

    /// Whether it tells the classes of tasks apart.
    pub fn has_classes(&self) -> bool {
        matches!(self, Kind::MqDeadline(_) | Kind::Fair(_) | Kind::LpDeadline(_) | Kind::Bfq(_))
    }

    fn knobs(&mut self) -> Vec<Knob<'_>> {
        match self {
            // lp-deadline's are the policy's own, see LpKnobs.
            Kind::Noop | Kind::LpDeadline(_) => Vec::new(),
            Kind::Deadline(knobs) => knobs.knobs().into(),
            Kind::MqDeadline(knobs) => knobs.knobs().into(),
            Kind::Fair(knobs) => knobs.knobs().into(),
            Kind::Kyber(knobs) => knobs.knobs().into(),
            Kind::Bfq(knobs) => knobs.knobs().into(),
        }
    }

    /// Every knob as `name=value`, in the units of the kernel.
    pub fn shown(&self) -> Vec<String> {
        if let Kind::LpDeadline(knobs) = self {
            return knobs.shown();
        }
        let mut own = self.clone();
        own.knobs().iter().map(Knob::shown).collect()
    }

    /// Sets a knob: `name=value`, in the unit of /sys/block/DISK/queue/iosched.
    ///
    /// # Errors
    /// No such knob (all are told), or a value that it cannot have.
    pub fn set(&mut self, text: &str) -> Result<(), SpecError> {
        let scheduler = self.name();
        let Some((name, value)) = text.split_once('=') else {
            return Err(SpecError(format!("'{text}' sets no knob; example: fifo_batch=1")));
        };
        if let Kind::LpDeadline(knobs) = self {
            return knobs.set(name.trim(), value.trim());
        }
        let mut knobs = self.knobs();
        let all = knobs.iter().map(Knob::name).collect::<Vec<_>>().join(", ");
        let Some(knob) = knobs.iter_mut().find(|k| k.name() == name.trim()) else {
            let all = if all.is_empty() { "none".to_string() } else { all };
            return Err(SpecError(format!("{scheduler} has no knob '{name}'; it has {all}")));
        };
        let unit = match knob {
            Knob::Milliseconds(..) => "whole milliseconds",
            Knob::Nanoseconds(..) => "whole nanoseconds",
            Knob::Count(..) => "a whole number",
            Knob::Switch(..) => "0 or 1",
        };
        let (name, set) = (knob.name(), knob.set(value.trim()));
        set.ok_or_else(|| SpecError(format!("{name}={value}: {name} is {unit}")))
    }

    /// Request slots of a queue that nobody set: BLKDEV_DEFAULT_RQ of a single queue (which had so many for
    /// each direction), twice the device's depth of a multi-queue one (block/blk-mq-sched.c,
    /// blk_mq_init_sched()).
    pub fn nr_requests(&self, depth: usize) -> usize {
        match self {
            Kind::MqDeadline(_) | Kind::LpDeadline(_) | Kind::Kyber(_) | Kind::Bfq(_) => 2 * depth.min(128),
            _ => 256,
        }
    }

    /// The scheduler, empty, at `now`.
    pub fn build(&self, now: Ns) -> Box<dyn Scheduler> {
        match self {
            Kind::Noop => Box::new(Noop::default()),
            Kind::Deadline(knobs) => Box::new(Deadline::new(*knobs)),
            Kind::MqDeadline(knobs) => Box::new(MqDeadline::new(*knobs)),
            Kind::Fair(knobs) => Box::new(Fair::new(*knobs)),
            Kind::Kyber(knobs) => Box::new(Kyber::new(*knobs)),
            Kind::Bfq(knobs) => Box::new(Bfq::new(*knobs)),
            Kind::LpDeadline(knobs) => Box::new(LpDeadline::new(knobs, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_have_the_units_of_the_kernel() {
        let mut kind = Kind::named("mq-deadline", false).expect("is one");
        kind.set("read_expire=20").expect("a knob");
        assert!(matches!(&kind, Kind::MqDeadline(k) if k.read_expire == 20_000_000));
        assert!(kind.shown().contains(&"read_expire=20".to_string()), "{:?}", kind.shown());
        for (text, word) in [
            ("read_expire", "fifo_batch=1"),
            ("reed_expire=1", "read_expire, write_expire"),
            ("fifo_batch=many", "a whole number"),
            ("front_merges=2", "0 or 1"),
        ] {
            let said = kind.set(text).expect_err(text).0;
            assert!(said.contains(word), "{said}");
        }
        assert!(Kind::Noop.set("a=1").is_err_and(|e| e.0.contains("it has none")));
        assert!(Kind::named("cfq", false).is_err_and(|e| e.0.contains("fair")));
    }
}
