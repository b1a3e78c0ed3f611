// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How exact real time is on this machine, and what it costs: the way of a request through
//! [`Realtime`] with a model that takes no time, how late replies come with models that take
//! 100 us, 1 ms and 6 ms, and requests a second of several threads.
//!
//! `cargo run --release -p plumb-sim --example realtime`

use plumb_machine::clock::now as monotonic;
use plumb_sim::device::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use plumb_sim::serve::log::Log;
use plumb_sim::serve::media::Media;
use plumb_sim::serve::realtime::{Answer, Front, Job, Realtime};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Arc;

const SIZE: u64 = 64 << 20;

/// Each request takes so long, however many there are.
struct Fixed(Ns, VecDeque<(Ns, u64)>);

impl Device for Fixed {
    fn size(&self) -> u64 {
        SIZE
    }
    fn submit(&mut self, now: Ns, request: Request) {
        self.1.push_back((now + self.0, request.id));
    }
    fn next_event(&self) -> Option<Ns> {
        self.1.front().map(|(at, _)| *at)
    }
    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some(&(at, id)) = self.1.front().filter(|(at, _)| *at <= now) {
            let parts = Parts { medium: self.0, ..Parts::default() };
            ended.push(Completion { id, at, outcome: Outcome::Done, parts });
            self.1.pop_front();
        }
    }
    fn under_way(&self) -> usize {
        self.1.len()
    }
    fn volatile_cache(&self) -> bool {
        true
    }
}

#[derive(Default)]
struct Desk {
    at: AtomicU64,
    count: AtomicU64,
}

impl Front for Desk {
    fn reply(&self, _: u64, answer: Answer<'_>) {
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        self.at.store(monotonic(), SeqCst);
        self.count.fetch_add(1, SeqCst);
    }
}

fn start(time: Ns, log: Option<Log>) -> std::io::Result<Arc<Realtime>> {
    Realtime::start(Box::new(Fixed(time, VecDeque::new())), Media::memory(SIZE)?, log)
}

fn print(what: &str, mut times: Vec<i64>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "{what}: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, worst {:.1} us ({} requests)",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        times.len()
    );
}

/// One after the other: what each took beyond the model's time.
fn alone(time: Ns, count: u64, operation: Operation) -> std::io::Result<Vec<i64>> {
    let realtime = start(time, None)?;
    let desk = Arc::new(Desk::default());
    let front: Arc<dyn Front> = Arc::clone(&desk) as _;
    let data = [1; 4096];
    let data = if operation == Operation::Write { &data[..] } else { &[] };
    let mut over = Vec::new();
    for i in 0..count {
        let job = Job { operation, offset: i * 4096 % SIZE, length: 4096, fua: false, token: i };
        let begin = monotonic();
        realtime.submit(job, data, &front);
        while desk.count.load(SeqCst) <= i {
            // Asleep, as a user would be.
            std::thread::sleep(std::time::Duration::from_micros(if time == 0 { 0 } else { 20 }));
        }
        over.push(desk.at.load(SeqCst) as i64 - (begin + time) as i64);
    }
    Ok(over)
}

/// Threads that each keep `depth` requests under way: requests a second.
fn together(time: Ns, threads: u64, depth: u64, log: bool) -> std::io::Result<f64> {
    let dir = tempfile::tempdir()?;
    let log = if log { Some(Log::create(&dir.path().join("log"))?) } else { None };
    let realtime = start(time, log)?;
    const EACH: u64 = 100_000;
    let begin = monotonic();
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (realtime, sent) = (&realtime, &sent);
            scope.spawn(move || {
                let desk = Arc::new(Desk::default());
                let front: Arc<dyn Front> = Arc::clone(&desk) as _;
                let each = if time == 0 { EACH } else { EACH / 4 };
                for i in 0..each {
                    while desk.count.load(SeqCst) + depth <= i {
                        std::thread::yield_now();
                    }
                    let operation = if i % 4 == 0 { Operation::Write } else { Operation::Read };
                    let offset = (thread * EACH + i) * 4096 % SIZE;
                    let job = Job { operation, offset, length: 4096, fua: false, token: i };
                    realtime.submit(job, if i % 4 == 0 { &[2; 4096] } else { &[] }, &front);
                }
                while desk.count.load(SeqCst) < each {
                    std::thread::yield_now();
                }
                sent.fetch_add(each, Relaxed);
            });
        }
    });
    let rate = sent.load(Relaxed) as f64 / ((monotonic() - begin) as f64 / 1e9);
    realtime.stop();
    if realtime.lines_lost() > 0 {
        println!("  lines of the log lost: {}", realtime.lines_lost());
    }
    Ok(rate)
}

fn main() -> std::io::Result<()> {
    print("no time, 4 KiB read", alone(0, 100_000, Operation::Read)?);
    print("no time, 4 KiB write", alone(0, 100_000, Operation::Write)?);
    for (name, time, count) in
        [("100 us", 100_000, 5000), ("1 ms", 1_000_000, 2000), ("6 ms", 6_000_000, 500)]
    {
        print(&format!("{name}, 4 KiB read, later than the model"), alone(time, count, Operation::Read)?);
    }
    for threads in [1, 2, 4] {
        println!("no time, {threads} threads: {:.0} requests/s", together(0, threads, 1, false)?);
        println!("no time, {threads} threads, log: {:.0} requests/s", together(0, threads, 1, true)?);
        println!(
            "100 us, {threads} threads of depth 32: {:.0} requests/s",
            together(100_000, threads, 32, false)?
        );
    }
    Ok(())
}
