// SPDX-License-Identifier: Apache-2.0 OR MIT
//! busywait: how long CPUs are busy with nothing but getting a kernel lock, by
//! call site: the part of the waits of `spinlock` that is spent on the CPU.

use super::names::Names;
use super::sample::Sample;
use super::spinlock::SpinLock;
use super::View;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct BusyWait(SpinLock);

impl View for BusyWait {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        self.0.feed(item, names, &mut |mut wait| {
            let [_, on_cpu] = wait.parts;
            if on_cpu > 0 {
                (wait.kind, wait.value, wait.parts) = ("busy wait for a lock", on_cpu, [0; 2]);
                out(wait);
            }
        });
    }
}
