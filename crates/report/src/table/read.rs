// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over a trace that fills the tables that are asked for.

use super::{account, disks, locks, results, stacks, streamed, workloads, Context, Filler, Sink, Table};
use crate::document::Quality;
use crate::stream::Stream;
use anyhow::{bail, Result};
use plumb_diagnose::Diagnosis;
use plumb_model::profile::{Collector, Profile};
use plumb_model::{
    CpuState, Model, Naming, Observer, Operation, Request, RunResult, Setup, Spent, ThreadState,
};
use plumb_trace::reader::{Summary, Trace};
use plumb_trace::schema::StateCpuSample;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says how far a trace can be trusted and what it shows. The profile is there where a table needs
/// it; the result's hot functions are made from it here.
pub type Judge<'a> = &'a dyn Fn(&Trace, &Summary, &mut RunResult, Option<&Profile>) -> (Quality, Diagnosis);

pub struct Run<'a> {
    /// What the column `run` says.
    pub name: &'a str,
    pub trace: &'a Trace,
    /// The model's setup for it.
    pub setup: Setup,
    /// The sampling clock in words, as a profile's.
    pub clock: &'a str,
    /// See [`Judge`].
    pub judge: Judge<'a>,
    /// Becomes true when somebody wants it to end.
    pub stop: &'a AtomicBool,
}

#[derive(Debug)]
pub struct Seen {
    pub result: RunResult,
    /// How far it can be trusted.
    pub quality: Quality,
    /// What it shows; empty where no table asked for it.
    pub diagnosis: Diagnosis,
}

/// Rows and profile, each only where a table needs it. One type of observer, since each makes the
/// compiler translate the whole model again.
struct Both<'a, 's> {
    rows: Option<Stream<Filler<'a, dyn Sink + 's>>>,
    profile: Option<Collector>,
}

impl Observer for Both<'_, '_> {
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState) {
        if let Some(rows) = &mut self.rows {
            rows.thread(tid, start, end, state);
        }
        if let Some(profile) = &mut self.profile {
            profile.thread(tid, start, end, state);
        }
    }

    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState) {
        if let Some(rows) = &mut self.rows {
            rows.cpu(cpu, start, end, state);
        }
        if let Some(profile) = &mut self.profile {
            profile.cpu(cpu, start, end, state);
        }
    }

    fn spent(&mut self, s: &Spent) {
        if let Some(rows) = &mut self.rows {
            rows.spent(s);
        }
        if let Some(profile) = &mut self.profile {
            profile.spent(s);
        }
    }

    fn told(&mut self, told: &plumb_trace::reader::Told) {
        if let Some(profile) = &mut self.profile {
            profile.told(told);
        }
    }

    fn sampled(&mut self, tgid: u32, target: bool, s: &StateCpuSample) {
        if let Some(rows) = &mut self.rows {
            rows.sampled(tgid, target, s);
        }
        if let Some(profile) = &mut self.profile {
            profile.sampled(tgid, target, s);
        }
    }

    fn request(&mut self, number: u64, request: &Request, counted: bool) {
        if let Some(rows) = &mut self.rows {
            rows.request(number, request, counted);
        }
    }

    fn operation(&mut self, o: &Operation) {
        if let Some(rows) = &mut self.rows {
            rows.operation(o);
        }
    }

    fn named(&mut self, number: u32, name: &str) {
        if let Some(rows) = &mut self.rows {
            rows.named(number, name);
        }
    }

    fn end(&mut self, naming: &dyn Naming) {
        if let Some(rows) = &mut self.rows {
            rows.end(naming);
        }
        if let Some(profile) = &mut self.profile {
            profile.end(naming);
        }
    }
}

/// Reads a trace once and hands the tables that the sink wants to it.
///
/// # Errors
/// A stream of the trace cannot be opened, or it was stopped.
pub fn read<'s>(run: Run<'_>, sink: &mut (dyn Sink + 's)) -> Result<Seen> {
    let Run { name, trace, setup, clock, judge, stop } = run;
    let context = Context::new(name, setup.begin, &trace.state);
    let wants = |tables: &[&'static Table]| tables.iter().any(|t| sink.wants(t));
    let streams = [
        &streamed::INTERVALS,
        &streamed::CPU_INTERVALS,
        &streamed::WAITS,
        &streamed::REQUESTS,
        &streamed::SAMPLES,
        &streamed::OPERATIONS,
        // Threads' names stand in their intervals.
        &account::THREADS,
    ];
    // Findings name functions.
    let diagnosed = [&results::VERDICT, &results::FINDINGS, &results::EVIDENCE];
    let rows = wants(&streams);
    let judged = wants(&diagnosed);
    let profile = judged || wants(&[&results::PROFILE, &results::HOT]);

    let begin = setup.begin;
    let observer = Both {
        rows: rows.then(|| Stream::new(begin, Filler::new(context.clone(), &mut *sink))),
        profile: profile.then(|| Collector::new(0, u64::MAX).clock(clock)),
    };
    let mut model = Model::new(setup, observer);
    let summary = trace.for_each(|item| {
        if !stop.load(Ordering::Relaxed) {
            model.feed(item);
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        bail!("stopped before all of it was read");
    }
    let (mut result, Both { rows, profile }) = model.finish();
    let context = rows.map_or(context, |rows| rows.finish().context);
    let profile = profile.map(|p| p.profile(&trace.state));
    let (quality, diagnosis) = judge(trace, &summary, &mut result, profile.as_ref());

    results::run((&trace.metadata.env, &quality, &result), &context, sink);
    account::tell(&result, &context, sink);
    disks::tell(&result, &context, sink);
    locks::tell(&result, &context, sink);
    workloads::tell(&result, &context, sink);
    results::tell(&result, &diagnosis, &context, sink);
    stacks::tell(&trace.state, &context, sink);
    if let Some(profile) = &profile {
        results::profile(profile, &context, sink);
    }
    Ok(Seen { result, quality, diagnosis })
}
