// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue and its device alone: somebody else has the clock, asks, and is told what ended.

use super::{Settings, Simulation, SimulationError};
use crate::device::{Device, Ns};
use crate::queue::scheduler::Scheduler;
use crate::queue::task::{Op, Recorded, Task};

impl Simulation {
    /// A queue that is asked from outside, from moment 0 on.
    pub fn outside(device: Box<dyn Device>, scheduler: Box<dyn Scheduler>, settings: Settings) -> Self {
        Self::new(device, scheduler, settings, vec![Task::outside()], vec![false], 0)
    }

    /// Asks for an operation, without the flush before it; it is queued by the next [`Simulation::at`].
    pub fn ask(&mut self, name: u64, operation: &Recorded) {
        let task = &mut self.tasks[0];
        task.outsider().ask(name, Op::again(operation));
        if !task.blocked && !std::mem::replace(&mut task.runnable, true) {
            self.runnable.push(0);
        }
    }

    /// Lets time pass up to `now`, ns, queues what was asked for, and appends the names of what has ended. Returns when
    /// something happens next; `None` where nothing does before more is asked for.
    ///
    /// # Errors
    /// Time stands still.
    pub fn at(&mut self, now: Ns, ended: &mut Vec<u64>) -> Result<Option<Ns>, SimulationError> {
        self.now = self.now.max(now);
        self.moment(&mut ())?;
        self.tasks[0].outsider().ended(ended);
        let timer = self.scheduler.next_timer(self.now).filter(|t| *t > self.now && self.has_tags());
        let alarm = self.next_alarm();
        Ok([self.device.next_event(), timer, alarm].into_iter().flatten().min())
    }
}
