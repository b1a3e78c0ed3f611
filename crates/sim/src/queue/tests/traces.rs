// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same simulation is the same trace.

use super::super::trace::{About, Tracer, BEGIN};
use super::*;
use plumb_load::job::{Arrivals, Rate, SyncMethod};
use plumb_trace::reader::{Item, Trace};
use plumb_trace::schema::{BlockRqComplete, BlockRqIssue};
use plumb_trace::Record;
use std::collections::BTreeMap;
use std::path::Path;

fn trace(dir: &Path, seed: u64) -> Figures {
    let cached = Server::new(SIZE, 2, Service::Exponential(MS), seed).with_cache();
    let open =
        Job { rate: Some(Rate(800.0)), arrivals: Arrivals::Poisson, what: What::Mix, ..deep(reads(), 16) };
    let synced = Job { what: What::Write, sync: SyncMethod::Fsync, think: Time(MS), threads: 2, ..reads() };
    let jobs = [for_time(open, 300 * MS), for_time(synced, 300 * MS)];
    let classes: Vec<_> = jobs.iter().map(|job| (job.clone(), Class::BestEffort)).collect();
    let tasks = Task::of(&classes, SIZE, true, 0).expect("jobs that a device can do");
    let about = About { model: "server".into(), scheduler: "deadline".into(), ..About::default() };
    let mut tracer = Tracer::create(dir, &about, &jobs, &tasks).expect("a new directory");
    let mut figures = Figures::new(&tasks);
    let settings = Settings { nr_requests: 6, ..settings(4) };
    let kind = named("deadline", &[]).build(0);
    let mut simulation = Simulation::new(Box::new(cached), kind, settings, tasks, vec![false; 2], 0);
    let end = simulation.run(&mut (&mut figures, &mut tracer)).expect("an end");
    tracer.finish(end).expect("room on the disk");
    figures.finish(end);
    figures
}

fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path());
    let name = |p: &Path| p.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|p| (name(&p), std::fs::read(&p).expect("a file"))).collect()
}

#[test]
fn one_seed_is_one_trace_byte_for_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
    let figures = trace(&a, 1);
    trace(&b, 1);
    trace(&c, 2);
    let (first, second, third) = (bytes(&a), bytes(&b), bytes(&c));
    assert!(first["cpu_0"].len() > 10_000);
    assert!(first == second, "two runs of one seed differ");
    assert!(first["cpu_0"] != third["cpu_0"], "two seeds give the same");
    // Times of requests in the trace are those of the simulator.
    let trace = Trace::open(&a).expect("a trace");
    let (mut issued, mut sum, mut count) = (BTreeMap::new(), 0, 0);
    let summary = trace
        .for_each(|item| {
            let Item::Record(r) = item else { return };
            match r.id {
                BlockRqIssue::ID => drop(issued.insert(BlockRqIssue::read(r.bytes).rq, r.ts)),
                BlockRqComplete::ID if BlockRqComplete::read(r.bytes).len > 0 => {
                    sum += u128::from(r.ts - issued[&BlockRqComplete::read(r.bytes).rq]);
                    count += 1;
                }
                _ => {}
            }
        })
        .expect("readable");
    assert!(summary.damage.is_empty() && summary.lost() == 0, "{summary:?}");
    assert_eq!((count, sum), (figures.device.d2c.count(), figures.device.d2c.sum()));
    assert_eq!(trace.state.end.as_ref().map(|e| (e.begin, e.end)), Some((BEGIN, BEGIN + figures.until)));
}

#[test]
fn a_directory_that_holds_a_trace_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("t");
    trace(&path, 1);
    let before = bytes(&path);
    let said = Tracer::create(&path, &About::default(), &[], &[]).err().expect("refused").to_string();
    assert!(said.contains("metadata"), "{said}");
    assert!(bytes(&path) == before);
}
