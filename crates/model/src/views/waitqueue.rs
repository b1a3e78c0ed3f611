// SPDX-License-Identifier: Apache-2.0 OR MIT
//! waitqueue: sleeps, from the switch by which a thread gave up its CPU to its wakeup.

use super::names::Names;
use super::offcpu::{OffCpu, Why};
use super::sample::{Key, Sample, NONE};
use super::View;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct WaitQueue(OffCpu);

impl View for WaitQueue {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let Some(a) = self.0.feed(item, names) else { return };
        let Why::Slept(left, _) = a.why else { return };
        let call = names.call(a.tid);
        let site = if a.site == NONE { Names::call_site(call) } else { a.site };
        out(Sample::interval("sleep", left, a.ready)
            .of(a.tid, names)
            .with(Key::Cpu, a.cpu)
            .with(Key::Type, a.kind())
            .with(Key::Call, call)
            .with(Key::Site, site));
    }
}
