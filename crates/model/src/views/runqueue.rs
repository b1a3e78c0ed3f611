// SPDX-License-Identifier: Apache-2.0 OR MIT
//! runqueue: runnable and not running, from the wakeup, the preemption or
//! the birth to the switch.

use super::names::Names;
use super::offcpu::{OffCpu, Why};
use super::sample::{type_of, Key, Sample};
use super::View;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct RunQueue(OffCpu);

impl View for RunQueue {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let Some(a) = self.0.feed(item, names) else { return };
        let why = match a.why {
            Why::Slept(..) => "woken",
            Why::Born => "new",
            Why::Preempted => "preempted",
            Why::GaveWay => "gave way",
        };
        out(Sample::interval("wait for a CPU", a.ready, a.back)
            .of(a.tid, names)
            .with(Key::Cpu, a.cpu)
            .with(Key::Priority, a.priority)
            .with(Key::Instead, a.instead)
            .with(Key::Type, type_of(why)));
    }
}
