// SPDX-License-Identifier: Apache-2.0 OR MIT
//! waittime: every time off the CPU, from switch-out to switch-in, sleeping and
//! runnable together. A new thread's time counts from its birth.

use super::names::Names;
use super::offcpu::OffCpu;
use super::sample::{Key, Sample, NONE};
use super::View;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct WaitTime(OffCpu);

impl View for WaitTime {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let Some(a) = self.0.feed(item, names) else { return };
        let call = names.call(a.tid);
        let site = if a.site == NONE { Names::call_site(call) } else { a.site };
        out(Sample::interval("off the CPU", a.left(), a.back)
            .parts([a.ready - a.left(), a.back - a.ready])
            .of(a.tid, names)
            .with(Key::Cpu, a.cpu)
            .with(Key::Priority, a.priority)
            .with(Key::Type, a.kind())
            .with(Key::Call, call)
            .with(Key::Site, site));
    }
}
