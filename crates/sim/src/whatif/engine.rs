// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lets the threads do again what they did.

use super::cpus::Cpus;
use super::{Recording, Step};
use crate::device::{Ns, Operation};
use crate::queue::task::Recorded;
use crate::queue::{Simulation, SimulationError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When the threads of the target had done all that they did, ns from the recording's begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub end: Ns,
}

/// Why it cannot be done again.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Queue(#[from] SimulationError),
    /// Somebody waits for what never comes.
    #[error("at {0} ns {1} threads of the target wait for what nobody does; this is a defect of plumb")]
    Stuck(Ns, usize),
}

/// What somebody waits for.
#[derive(Debug, Default, Clone)]
struct Happening {
    happened: bool,
    waiting: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    GoesOn(u32),
    Ends(u32),
}

struct Engine<'a> {
    recording: &'a Recording,
    /// Next step of each thread.
    next: Vec<usize>,
    speed: f64,
    cpus: Cpus,
    /// Requests' ends, and behind them the others.
    events: Vec<Happening>,
    alarms: BinaryHeap<Reverse<(Ns, u64, Alarm)>>,
    set: u64,
    queue: Option<Simulation>,
    /// Something was asked of the queue since it was looked at.
    asked: bool,
    /// The flush before it is under way.
    flushing: Vec<bool>,
    now: Ns,
    /// Threads of the target that are not done.
    left: usize,
    end: Ns,
}

/// Does a recording again on so many CPUs that are `speed` times as fast; requests that are simulated go to `queue`, all others
/// take what they took.
///
/// # Errors
/// The queue's, or somebody waits for ever.
pub fn again(
    recording: &Recording,
    cpus: usize,
    speed: f64,
    queue: Option<Simulation>,
) -> Result<Outcome, Problem> {
    let threads = recording.threads.len();
    let mut engine = Engine {
        recording,
        next: vec![0; threads],
        speed,
        cpus: Cpus::new(cpus, threads),
        events: vec![Happening::default(); recording.requests.len() + recording.events.len()],
        alarms: BinaryHeap::new(),
        set: 0,
        queue,
        asked: false,
        flushing: vec![false; recording.requests.len()],
        now: 0,
        left: recording.threads.iter().filter(|t| t.target).count(),
        end: 0,
    };
    engine.run()
}

impl Engine<'_> {
    fn run(&mut self) -> Result<Outcome, Problem> {
        for thread in 0..self.recording.threads.len() as u32 {
            self.goes_on(thread, None);
        }
        let (mut ended, mut queue_next) = (Vec::new(), None);
        loop {
            if let Some(queue) = self.queue.as_mut().filter(|_| self.asked || queue_next == Some(self.now)) {
                self.asked = false;
                queue_next = queue.at(self.now, &mut ended)?;
                for request in ended.drain(..) {
                    self.queue_ended(request as u32);
                }
                if self.asked {
                    continue;
                }
            }
            if self.left == 0 {
                return Ok(Outcome { end: self.end });
            }
            let alarm = self.alarms.peek().map(|Reverse((at, ..))| *at);
            let cpu = self.cpus.next();
            let Some(now) = [alarm, cpu.map(|c| c.0), queue_next].into_iter().flatten().min() else {
                return Err(Problem::Stuck(self.now, self.left));
            };
            self.now = self.now.max(now);
            if alarm == Some(now) {
                match self.alarms.pop() {
                    Some(Reverse((_, _, Alarm::GoesOn(thread)))) => self.goes_on(thread, None),
                    Some(Reverse((_, _, Alarm::Ends(request)))) => self.happens(request),
                    None => {}
                }
            } else if let Some((_, cpu)) = cpu.filter(|c| c.0 == now) {
                // A turn that has ended ends when somebody else comes.
                if let Some(thread) = self.cpus.at(self.now, cpu) {
                    self.goes_on(thread, Some(cpu));
                }
            }
        }
    }

    fn alarm(&mut self, after: Ns, alarm: Alarm) {
        self.set += 1;
        self.alarms.push(Reverse((self.now.saturating_add(after), self.set, alarm)));
    }

    /// Lets a thread do what it can do now; `cpu` is the one that it has.
    fn goes_on(&mut self, thread: u32, cpu: Option<usize>) {
        let at = thread as usize;
        let recording = self.recording;
        let requests = recording.requests.len() as u32;
        loop {
            let step = recording.threads[at].steps.get(self.next[at]).copied();
            self.next[at] += 1;
            match step {
                Some(Step::Work(time)) => {
                    let time = (time as f64 / self.speed) as Ns;
                    match cpu {
                        Some(cpu) => self.cpus.goes_on(self.now, cpu, time),
                        None => self.cpus.wants(self.now, thread, time),
                    }
                    return;
                }
                Some(Step::Ask(request)) => self.ask(request),
                Some(Step::Tell(event)) => self.happens(requests + event),
                Some(Step::Await(event, _))
                    if self.counts(event) && self.waits(thread, self.place(event)) =>
                {
                    break
                }
                Some(Step::AwaitRequest(request, _)) if self.waits(thread, request) => break,
                Some(Step::Await(..) | Step::AwaitRequest(..)) => {}
                Some(Step::Pass(time)) => {
                    self.alarm(time, Alarm::GoesOn(thread));
                    break;
                }
                None => {
                    if recording.threads[at].target {
                        self.left -= 1;
                        self.end = self.now;
                    }
                    break;
                }
            }
        }
        if let Some(cpu) = cpu {
            self.cpus.sleeps(self.now, cpu);
        }
    }

    /// Where an event is among requests' ends and events.
    fn place(&self, event: u32) -> u32 {
        self.recording.events[event as usize].request.unwrap_or(self.recording.requests.len() as u32 + event)
    }

    /// Whether all that was over when it was waited for is over.
    fn counts(&self, event: u32) -> bool {
        let after = &self.recording.events[event as usize].only_after;
        after.iter().all(|(thread, step)| self.next[*thread as usize] > *step as usize + 1)
    }

    /// Whether a thread must wait for an event.
    fn waits(&mut self, thread: u32, event: u32) -> bool {
        let event = &mut self.events[event as usize];
        if event.happened {
            return false;
        }
        event.waiting.push(thread);
        true
    }

    fn happens(&mut self, event: u32) {
        let event = &mut self.events[event as usize];
        event.happened = true;
        let waiting = std::mem::take(&mut event.waiting);
        for thread in waiting {
            // The step that it waits in is the one before its next.
            let late = match self.recording.threads[thread as usize].steps[self.next[thread as usize] - 1] {
                Step::Await(_, late) | Step::AwaitRequest(_, late) => late,
                _ => 0,
            };
            self.alarm(late, Alarm::GoesOn(thread));
        }
    }

    fn ask(&mut self, request: u32) {
        let asked = &self.recording.requests[request as usize];
        let Some(queue) = self.queue.as_mut().filter(|_| asked.simulated) else {
            match asked.recorded.ended.saturating_sub(asked.recorded.queued) {
                0 => self.happens(request),
                took => self.alarm(took, Alarm::Ends(request)),
            }
            return;
        };
        let flush = asked.recorded.flush_before && asked.recorded.operation != Operation::Flush;
        self.flushing[request as usize] = flush;
        match flush {
            true => queue.ask(
                u64::from(request),
                &Recorded { operation: Operation::Flush, length: 0, offset: 0, fua: false, ..asked.recorded },
            ),
            false => queue.ask(u64::from(request), &asked.recorded),
        }
        self.asked = true;
    }

    fn queue_ended(&mut self, request: u32) {
        if !std::mem::take(&mut self.flushing[request as usize]) {
            self.happens(request);
            return;
        }
        if let Some(queue) = &mut self.queue {
            queue.ask(u64::from(request), &self.recording.requests[request as usize].recorded);
            self.asked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Event, Thread};
    use super::*;
    use crate::queue::scheduler::Kind;
    use crate::queue::{Class, Hints, Settings};
    use crate::spec::Spec;

    const MS: Ns = 1_000_000;

    fn read(number: u64, took: Ns) -> Asked {
        let recorded = Recorded {
            owner: 1,
            operation: Operation::Read,
            offset: number * 4096,
            length: 4096,
            fua: false,
            flush_before: false,
            class: Class::BestEffort,
            hints: Hints::DIRECT,
            queued: 0,
            ended: took,
        };
        Asked { recorded, simulated: true }
    }

    fn threads(of: &[(&[Step], bool)]) -> Vec<Thread> {
        of.iter().map(|(steps, target)| Thread { steps: steps.to_vec(), target: *target }).collect()
    }

    fn end(recording: &Recording, cpus: usize, speed: f64) -> Ns {
        again(recording, cpus, speed, None).expect("ends").end
    }

    #[test]
    fn work_waits_and_requests_take_what_they_took() {
        let steps =
            [Step::Work(4 * MS), Step::Ask(0), Step::AwaitRequest(0, MS), Step::Work(2 * MS), Step::Pass(MS)];
        let recording = Recording {
            threads: threads(&[(&steps, true)]),
            requests: vec![read(0, 5 * MS)],
            events: Vec::new(),
        };
        assert_eq!(end(&recording, 1, 1.0), 13 * MS);
        assert_eq!(end(&recording, 1, 2.0), 10 * MS, "the CPU's part is halved");
    }

    #[test]
    fn a_request_that_is_saved_takes_neither_time_nor_work() {
        let steps =
            [Step::Work(4 * MS), Step::Ask(0), Step::Work(MS), Step::AwaitRequest(0, MS), Step::Work(2 * MS)];
        let mut recording = Recording {
            threads: threads(&[(&steps, true)]),
            requests: vec![read(0, 5 * MS)],
            events: Vec::new(),
        };
        assert_eq!(end(&recording, 1, 1.0), 12 * MS);
        recording.save(&[true]);
        assert_eq!(end(&recording, 1, 1.0), 6 * MS);
    }

    #[test]
    fn who_waits_for_another_goes_on_with_it() {
        let first = [Step::Work(10 * MS), Step::Tell(0), Step::Work(30 * MS)];
        let second = [Step::Work(MS), Step::Await(0, 2 * MS), Step::Work(5 * MS)];
        let recording = Recording {
            threads: threads(&[(&first, false), (&second, true)]),
            requests: Vec::new(),
            events: vec![Event::default()],
        };
        assert_eq!(end(&recording, 2, 1.0), 17 * MS);
        let late = end(&recording, 1, 1.0);
        assert!((18 * MS..=24 * MS).contains(&late), "they share one CPU: {late}");
    }

    #[test]
    fn who_is_in_the_way_by_chance_is_waited_for_only_while_it_is() {
        // The second holds what the first wants, for 5 ms every 100 ms.
        let first = [Step::Work(102 * MS), Step::Await(0, 0), Step::Work(MS)];
        let second = [Step::Pass(100 * MS), Step::Work(5 * MS), Step::Tell(0)];
        let events = vec![Event { request: None, only_after: vec![(1, 0)] }];
        let recording =
            Recording { threads: threads(&[(&first, true), (&second, false)]), requests: Vec::new(), events };
        assert_eq!(end(&recording, 2, 1.0), 106 * MS);
        assert_eq!(end(&recording, 2, 2.0), 52 * MS - MS / 2, "it comes before the other wakes up");
    }

    #[test]
    fn who_waits_for_anothers_request_by_chance_waits_while_it_is_asked_for() {
        // The second writes for 5 ms every 100 ms, and the first waits for it once.
        let first = [Step::Work(102 * MS), Step::Await(0, 0), Step::Work(MS)];
        let second = [Step::Pass(100 * MS), Step::Work(MS), Step::Ask(0), Step::AwaitRequest(0, 0)];
        let recording = Recording {
            threads: threads(&[(&first, true), (&second, false)]),
            requests: vec![read(0, 4 * MS)],
            events: vec![Event { request: Some(0), only_after: vec![(1, 0)] }],
        };
        assert_eq!(end(&recording, 2, 1.0), 106 * MS);
        assert_eq!(end(&recording, 2, 2.0), 52 * MS - MS / 2, "it comes before the other wakes up");
    }

    #[test]
    fn more_cpus_help_as_far_as_there_are_threads() {
        let work = [Step::Work(40 * MS)];
        let recording = Recording {
            threads: threads(&[(&work, true), (&work, true), (&work, true)]),
            requests: Vec::new(),
            events: Vec::new(),
        };
        let ends = [1, 2, 3, 4].map(|cpus| end(&recording, cpus, 1.0) / MS);
        assert_eq!((ends[0], ends[2], ends[3]), (120, 40, 40));
        assert!((60..=70).contains(&ends[1]), "{ends:?}");
    }

    #[test]
    fn another_disk_ends_the_requests() {
        let spec = Spec::preset("intel330").expect("a preset");
        let settings = Settings { nr_requests: 64, max_bytes: 1 << 20, depth: 16 };
        let queue = || {
            let scheduler = Kind::named("noop", false).expect("known").build(0);
            Simulation::outside(spec.build(spec.size.0, 1).expect("a device"), scheduler, settings)
        };
        let steps: Vec<Step> =
            (0..100).flat_map(|n| [Step::Ask(n), Step::AwaitRequest(n, 0), Step::Work(MS / 10)]).collect();
        let requests: Vec<Asked> = (0..100).map(|n| read(n * 1000, 8 * MS)).collect();
        let mut recording = Recording { threads: threads(&[(&steps, true)]), requests, events: Vec::new() };
        assert_eq!(end(&recording, 1, 1.0), 810 * MS);
        let flash = again(&recording, 1, 1.0, Some(queue())).expect("ends").end;
        assert!((12 * MS..100 * MS).contains(&flash), "{flash}");
        // A write with a flush before it has ended when both have.
        for r in &mut recording.requests {
            (r.recorded.operation, r.recorded.flush_before) = (Operation::Write, true);
        }
        let flushed = again(&recording, 1, 1.0, Some(queue())).expect("ends").end;
        recording.requests.iter_mut().for_each(|r| r.recorded.flush_before = false);
        let plain = again(&recording, 1, 1.0, Some(queue())).expect("ends").end;
        assert!(flushed > plain, "{flushed} {plain}");
    }

    #[test]
    fn who_waits_for_nobody_is_told() {
        let steps = [Step::Work(MS), Step::Await(0, 0)];
        let recording = Recording {
            threads: threads(&[(&steps, true)]),
            requests: Vec::new(),
            events: vec![Event::default()],
        };
        assert!(matches!(again(&recording, 1, 1.0, None), Err(Problem::Stuck(_, 1))));
    }
}
