// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stages that run concurrently. Each shows its output when it ends, as one block.

use super::{Session, Task};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct Running {
    name: String,
    holds: Option<&'static str>,
    since: Instant,
}

#[derive(Default)]
struct State<'a> {
    waiting: VecDeque<Task<'a>>,
    running: Vec<Running>,
}

struct Lanes<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
}

/// Runs all tasks, at most so many at a time and in their order, but never two that hold the same thing. A line tells
/// every `beat` what still runs.
pub fn run(session: &Session, tasks: Vec<Task>, lanes: usize, beat: Duration) {
    let all = Lanes {
        state: Mutex::new(State { waiting: tasks.into(), running: Vec::new() }),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..lanes).map(|_| scope.spawn(|| all.work(session))).collect();
        let mut last = Instant::now();
        while !workers.iter().all(|w| w.is_finished()) {
            std::thread::sleep(Duration::from_millis(50).min(beat));
            if last.elapsed() >= beat {
                last = Instant::now();
                session.print(&all.lock().beat());
            }
        }
    });
}

impl<'a> Lanes<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, session: &Session) {
        while let Some(task) = self.next() {
            let _ends = Ends { lanes: self, name: &task.name };
            let text = session.perform(&task, session.held(&task.name));
            session.print(&text);
        }
    }

    /// The next task that may run now; waits for one. None: all are taken.
    fn next(&self) -> Option<Task<'a>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.take() {
                return Some(task);
            }
            if state.waiting.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<'a> State<'a> {
    fn take(&mut self) -> Option<Task<'a>> {
        let held = |what: Option<&str>| what.is_some() && self.running.iter().any(|r| r.holds == what);
        let place = self.waiting.iter().position(|task| !held(task.holds))?;
        let task = self.waiting.remove(place)?;
        self.running.push(Running { name: task.name.clone(), holds: task.holds, since: Instant::now() });
        Some(task)
    }

    fn beat(&self) -> String {
        let running: Vec<_> = self
            .running
            .iter()
            .map(|r| format!("{} ({:.0} s)", r.name, r.since.elapsed().as_secs_f64()))
            .collect();
        format!("-- running: {}; waiting: {}\n", running.join(", "), self.waiting.len())
    }
}

/// Takes a task out of those that run, however it ends.
struct Ends<'a, 'b> {
    lanes: &'a Lanes<'b>,
    name: &'a str,
}

impl Drop for Ends<'_, '_> {
    fn drop(&mut self) {
        self.lanes.lock().running.retain(|r| r.name != self.name);
        self.lanes.changed.notify_all();
    }
}
