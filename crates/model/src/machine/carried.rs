// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a model hands to the one that goes on in its place: what a recorder would tell that began at that moment, and
//! what it cannot ask, as the call that a thread is in.

use super::Model;
use crate::account::Category;
use crate::journal::Commits;
use crate::process::Processes;
use crate::samples::Samples;
use crate::services::Services;
use crate::{Observer, SlowRequest};
use plumb_trace::reader::State;
use plumb_trace::schema::StateTask;
use rustc_hash::{FxHashMap, FxHashSet};

/// What is known of a machine at a moment, without what happened before.
#[derive(Debug)]
pub struct Carried {
    services: Services,
    processes: Processes,
    samples: Samples,
    /// What each kernel stack waits for.
    sites: FxHashMap<u32, Option<Category>>,
    state: State,
}

impl<O: Observer> Model<O> {
    /// Keeps requests that take longer than this from now on, ns; none where nobody looks.
    pub fn watch_requests(&mut self, limit: Option<u64>) {
        self.slow.limit = limit;
    }

    /// Those, since this was asked last.
    pub fn slow_requests(&mut self) -> Vec<SlowRequest> {
        std::mem::take(&mut self.slow.seen)
    }

    /// The first moment that is accounted has come: what was counted until then is forgotten, for events before only set states.
    pub(super) fn count_from_here(&mut self) {
        self.counting = true;
        (self.events, self.retransmits) = (0, 0);
        self.impossible.clear();
        self.cpus.iter_mut().for_each(|cpu| cpu.totals.switches = 0);
        self.threads.iter_mut().for_each(|thread| thread.switches = [0; 2]);
        self.processes.count_from_here();
        self.wait_events.count_from_here();
        self.journals.totals = Commits::default();
    }

    /// What it knows now.
    pub fn carry(&self) -> Carried {
        let task = |at: usize| {
            let t = &self.threads[at];
            StateTask {
                tid: t.tid,
                tgid: t.tgid,
                // Who belongs to which service is handed over.
                ppid: 0,
                kernel: u8::from(t.kernel),
                target: u8::from(t.target),
                syscall: t.call.and_then(|call| i32::try_from(call.nr).ok()).unwrap_or(t.first_call),
                comm: self.names.name(t.name).into(),
                cmdline: String::new(),
            }
        };
        let state = &self.setup.state;
        let places = self.index.places();
        let living: FxHashSet<u32> = places.iter().map(|at| self.threads[*at].tgid).collect();
        Carried {
            services: self.services.carried(|pid| living.contains(&pid)),
            processes: self.processes.carried(),
            samples: self.samples.carried(),
            sites: self.sites.clone(),
            state: State {
                tasks: places.into_iter().map(task).collect(),
                spans: state.spans.clone(),
                ..State::default()
            },
        }
    }

    /// Goes on in another's place.
    pub(super) fn take_over(&mut self, carried: Carried) {
        let Carried { services, processes, samples, sites, state } = carried;
        (self.services, self.processes, self.samples, self.sites) = (services, processes, samples, sites);
        self.setup.state = state;
        self.took_over = true;
    }
}
