// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root-only room: checks what the kernel offers, loads the BPF programs,
//! drains their buffers into a trace. Knows nothing of what events mean.

mod beside;
mod budget;
pub mod check;
pub mod classes;
mod costs;
mod counters;
mod drain;
#[cfg(test)]
mod live;
mod load;
mod numbers;
mod privileges;
pub mod recorder;
mod ring;
mod sampling;
pub mod select;
mod span;
mod stack_ring;
mod stacks;
mod tape;
mod target;
mod trigger;
mod user;

pub use beside::{Asks, Beside};
pub use costs::measure_costs;
pub use recorder::{record, record_beside, record_into, Keep, Opens, Options, Outcome, Progress};
pub use sampling::Sampling;
pub use select::Selection;
pub use span::{Spans, Spec as SpanSpec};
pub use tape::{Taken, Tape};
pub use target::{Command, Running, Target};
pub use trigger::Trigger;
#[doc(hidden)]
pub use user::parsers;

#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/plumb.skel.rs"));
}
