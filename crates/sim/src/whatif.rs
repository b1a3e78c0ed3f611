// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads of a recording, done again on other CPUs, with another disk, or with more memory.
//!
//! A recording of a run is a graph: each thread works, asks for requests, tells others to go on, and waits for a request, for
//! another thread or for time to pass. What a thread does and in which order stays; when it happens follows from
//! what the machine is said to be. Data flows: [`Recording`] -> [`again`] ([`cpus`] share the threads' work, a queue with a
//! model of a device, or what was recorded, ends the requests) -> when each thread had done its last work.
//!
//! The same idea on recorded messages: J. Labarta and others, "DiP: A parallel program development environment" (Euro-Par 1996).

pub mod cache;
mod cpus;
mod engine;

pub use engine::{again, Outcome, Problem};

use crate::device::Ns;
use crate::queue::task::Recorded;

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It needs a CPU for so long.
    Work(Ns),
    /// It asks for the request of this number.
    Ask(u32),
    /// Those who wait for this event may go on.
    Tell(u32),
    /// It waits for this event; where it had to wait it goes on so long after it.
    Await(u32, Ns),
    /// The same for the end of a request.
    AwaitRequest(u32, Ns),
    /// Time passes.
    Pass(Ns),
}

/// A request, and who ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub recorded: Recorded,
    /// The disk that is simulated; else it takes as long as it took.
    pub simulated: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Thread {
    pub steps: Vec<Step>,
    /// The run ends with the last work of these.
    pub target: bool,
}

/// What a thread tells others.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Event {
    /// It is the end of this request, and nobody tells of it.
    pub request: Option<u32>,
    /// Nobody waits for it before these threads have done these steps: sleeps for time that were over when it was waited for. Who
    /// comes earlier does not have to wait.
    pub only_after: Vec<(u32, u32)>,
}

/// What was recorded.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub threads: Vec<Thread>,
    pub requests: Vec<Asked>,
    pub events: Vec<Event>,
}

impl Recording {
    /// Takes out requests that would not have been made: they end at once, and what their thread did from there until it slept for them, it
    /// does not do.
    pub fn save(&mut self, saved: &[bool]) {
        for (request, _) in self.requests.iter_mut().zip(saved).filter(|(_, saved)| **saved) {
            request.simulated = false;
            request.recorded.ended = request.recorded.queued;
        }
        for thread in &mut self.threads {
            let mut asked = None;
            for n in 0..thread.steps.len() {
                match thread.steps[n] {
                    Step::Ask(request) => asked = saved[request as usize].then_some((request, n)),
                    Step::AwaitRequest(request, _) => {
                        if let Some((_, from)) = asked.take().filter(|(own, _)| *own == request) {
                            let between = thread.steps[from..n].iter_mut();
                            between.filter(|s| matches!(s, Step::Work(_))).for_each(|s| *s = Step::Work(0));
                        }
                    }
                    Step::Work(_) | Step::Tell(_) => {}
                    _ => asked = None,
                }
            }
        }
    }
}
