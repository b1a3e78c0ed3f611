// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device with something wrong, for a time, now and then, or from some time on.
//!
//! Data flows: each [`Fault`] of the list is a layer around the device before it, the
//! first next to the medium. A layer holds requests and their ends back ([`gate`]), slows
//! the device's clock ([`slow`]), or changes how requests end ([`alter`]). What it adds
//! is in [`Parts::fault`](super::Parts::fault); it never loses a request.

mod alter;
mod gate;
mod slow;

use super::chance::Chance;
use super::check::{self, Wrong};
use super::{Device, Ns, Operation, Request};
use crate::spec::SpecError;
use plumb_load::job::{Bytes, Time};
use serde::{Deserialize, Serialize};

/// Operations that a fault is for, as a file says them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Read,
    Write,
    Flush,
    Discard,
}

/// How a write is refused.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Errno {
    /// An I/O error.
    #[default]
    Eio,
    Erofs,
    /// There is no space left.
    Enospc,
    Etimedout,
}

impl Errno {
    fn number(self) -> i32 {
        match self {
            Errno::Eio => libc::EIO,
            Errno::Erofs => libc::EROFS,
            Errno::Enospc => libc::ENOSPC,
            Errno::Etimedout => libc::ETIMEDOUT,
        }
    }
}

/// Each kind of fault with the keys of its window, which all have.
macro_rules! faults {
    ($($(#[$meta:meta])* $name:ident { $($(#[$key:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields, rename_all = "kebab-case")]
            pub struct $name {
                $($(#[$key])* pub $field: $type,)*
                /// Not before this time of the device.
                #[serde(default)]
                pub from: Time,
                /// No more from this time on; none: for ever.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub until: Option<Time>,
                /// So many requests of any kind are let pass first.
                #[serde(default)]
                pub after: u64,
            }
        )*

        /// Something that is wrong with a device.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Fault {
            $($(#[$meta])* $name($name),)*
        }

        impl Fault {
            /// Since when and until when, and after how many requests.
            fn window(&self) -> (Time, Option<Time>, u64) {
                match self {
                    $(Fault::$name(fault) => (fault.from, fault.until, fault.after),)*
                }
            }
        }
    };
}

faults! {
    /// The device stands still: every so often for all requests, or for a request now and then.
    Stall {
        /// Distance of the beginnings of two stalls; the first is so long after `from`.
        /// What ends or arrives in a stall waits for its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Time>,
        /// Probability that a request takes `for` longer, 0 to 1; instead of `every`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
        /// How long a stall is.
        #[serde(rename = "for")]
        duration: Time,
        /// First byte of a range; only requests that touch it stall.
        #[serde(default)]
        offset: Bytes,
        /// Bytes of the range; none: the whole device, and flushes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<Bytes>,
    }

    /// The device becomes slower: all that it does takes so many times as long, what waits in it too.
    FailSlow {
        /// So many times as long at last, 1 to 10,000.
        factor: f64,
        /// How long it takes to become so slow, in 64 steps; 0: at once.
        #[serde(default)]
        over: Time,
    }

    /// Requests fail. Nothing is read or written.
    Error {
        /// Probability that a request fails, 0 to 1.
        #[serde(default = "always")]
        rate: f64,
        /// Which ones: of "read", "write", "flush", "discard".
        #[serde(default = "all_but_discards")]
        operations: Vec<Kind>,
        /// How: "EIO", "EROFS", "ENOSPC", "ETIMEDOUT".
        #[serde(default)]
        errno: Errno,
        /// What the device tries on top before it gives up.
        #[serde(default)]
        retry: Time,
        /// First byte of a range; only requests that touch it fail.
        #[serde(default)]
        offset: Bytes,
        /// Bytes of the range; none: the whole device, and flushes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<Bytes>,
    }

    /// Only the first sectors of a write are written; it says that all were.
    TornWrite {
        /// Probability that a write of more sectors is torn, 0 to 1.
        #[serde(default = "always")]
        rate: f64,
        /// Sectors of 512 bytes that are written; none: any number, even.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sectors: Option<u32>,
    }

    /// A write is not written; it says that it was.
    DroppedWrite {
        /// Probability, 0 to 1.
        #[serde(default = "always")]
        rate: f64,
    }

    /// A flush returns at once and makes nothing durable; it says that it did.
    LyingFlush {
        /// Probability, 0 to 1.
        #[serde(default = "always")]
        rate: f64,
    }

    /// Writes and discards fail at once.
    ReadOnly {
        /// How: "EROFS", "EIO", "ENOSPC", "ETIMEDOUT".
        #[serde(default = "read_only")]
        errno: Errno,
    }
}

fn always() -> f64 {
    1.0
}

fn all_but_discards() -> Vec<Kind> {
    vec![Kind::Read, Kind::Write, Kind::Flush]
}

fn read_only() -> Errno {
    Errno::Erofs
}

/// `inner` with these faults, the first next to it.
///
/// # Errors
/// Figures that contradict each other; the key is named.
pub fn build(faults: &[Fault], inner: Box<dyn Device>, seed: u64) -> Result<Box<dyn Device>, SpecError> {
    let mut device = inner;
    for (i, fault) in faults.iter().enumerate() {
        fault.check().map_err(|(key, why)| SpecError(format!("fault.{i}.{key}: {why}")))?;
        // Streams 1 and 2 are the medium's and the network's.
        let chance = Chance::new(seed, 16 + i as u64);
        let when = When::of(fault);
        device = match fault {
            Fault::Stall(Stall { every: Some(every), .. }) => {
                gate::build(device, when, *every, fault.range(), fault)
            }
            Fault::FailSlow(slow) => slow::build(device, when, slow),
            _ => alter::build(device, when, fault.clone(), chance),
        };
    }
    Ok(device)
}

impl Fault {
    /// The bytes that it is for.
    fn range(&self) -> Range {
        match self {
            Fault::Stall(Stall { offset, length, .. }) | Fault::Error(Error { offset, length, .. }) => {
                Range { from: offset.0, length: length.map(|l| l.0) }
            }
            _ => Range { from: 0, length: None },
        }
    }

    /// How long a stall is.
    fn duration(&self) -> Ns {
        match self {
            Fault::Stall(stall) => stall.duration.0,
            _ => 0,
        }
    }

    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &'static str, why: &str| Err((key, why.to_string()));
        check::times(&[("for", Time(self.duration()))])?;
        if let Fault::Error(error) = self {
            check::times(&[("retry", error.retry)])?;
        }
        let (from, until, _) = self.window();
        if until.is_some_and(|until| until <= from) {
            return wrong("until", "is not after from");
        }
        let rate = match self {
            Fault::Stall(stall) => stall.rate,
            Fault::Error(error) => Some(error.rate),
            Fault::TornWrite(torn) => Some(torn.rate),
            Fault::DroppedWrite(dropped) => Some(dropped.rate),
            Fault::LyingFlush(lying) => Some(lying.rate),
            Fault::FailSlow(_) | Fault::ReadOnly(_) => None,
        };
        if rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
            return wrong("rate", "is a probability, from 0 to 1");
        }
        let range = self.range();
        match range.length {
            None if range.from > 0 => return wrong("length", "offset begins a range, which needs a length"),
            Some(0) => return wrong("length", "must be above 0"),
            Some(length) if range.from.checked_add(length).is_none() => {
                return wrong("length", "the range has no end");
            }
            _ => {}
        }
        match self {
            Fault::Stall(Stall { every: None, rate: None, .. }) => {
                wrong("every", "a stall needs every (a time) or rate (a probability)")
            }
            Fault::Stall(Stall { every: Some(_), rate: Some(_), .. }) => {
                wrong("every", "and rate exclude each other")
            }
            Fault::Stall(Stall { duration: Time(0), .. }) => wrong("for", "must be above 0"),
            Fault::Stall(Stall { every: Some(every), duration, .. }) if every <= duration => {
                wrong("for", "a stall must be shorter than every")
            }
            Fault::FailSlow(slow) if !(1.0..=1e4).contains(&slow.factor) => {
                wrong("factor", "must be from 1 to 10,000")
            }
            Fault::Error(error) if error.operations.is_empty() => {
                wrong("operations", "name one at least: read, write, flush, discard")
            }
            _ => Ok(()),
        }
    }
}

/// A range of bytes.
#[derive(Debug, Clone, Copy)]
struct Range {
    from: u64,
    length: Option<u64>,
}

impl Range {
    /// Whether the request touches it. A flush has no place and touches none but the whole.
    fn touches(&self, request: &Request) -> bool {
        let Some(length) = self.length else { return true };
        let end = request.offset.saturating_add(request.length.into());
        request.operation != Operation::Flush && request.offset < self.from + length && end > self.from
    }
}

/// When a fault is there.
#[derive(Debug, Clone, Copy)]
struct When {
    from: Ns,
    until: Option<Ns>,
    after: u64,
    seen: u64,
}

impl When {
    fn of(fault: &Fault) -> Self {
        let (from, until, after) = fault.window();
        When { from: from.0, until: until.map(|t| t.0), after, seen: 0 }
    }

    /// Counts a request: whether the fault is there for it.
    fn request(&mut self, now: Ns) -> bool {
        self.seen += 1;
        self.seen > self.after && now >= self.from && self.until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests;
