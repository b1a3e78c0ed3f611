// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pass over a trace that every output is made of.

use crate::{setup, target, Analysis, Quality};
use anyhow::{bail, Result};
use plumb_diagnose::Diagnosis;
use plumb_model::profile::{Collector, Profile};
use plumb_model::{Model, Observer, Setup};
use plumb_trace::reader::{Item, State, Summary, Trace};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is asked for besides the account and the trace's quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// No more: profile and findings stay empty.
    Account,
    /// The profile of the time between two moments, ns (CLOCK_MONOTONIC). There are no findings: they
    /// would name the functions of that part.
    Profile(u64, u64),
    /// The whole profile, and the findings, which name its functions.
    Findings,
}

/// How a trace is read.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    trace: &'a Trace,
    wanted: Wanted,
    comms: &'a [String],
    stop: Option<&'a AtomicBool>,
}

impl<'a> Pass<'a> {
    /// All of a trace, with its findings.
    pub fn over(trace: &'a Trace) -> Self {
        Self { trace, wanted: Wanted::Findings, comms: &[], stop: None }
    }

    #[must_use]
    pub fn wanted(self, wanted: Wanted) -> Self {
        Self { wanted, ..self }
    }

    /// Only of the processes of these names; of all of the target where none is given. One name of a machine's
    /// service is that service (not with an observer).
    #[must_use]
    pub fn only(self, comms: &'a [String]) -> Self {
        Self { comms, ..self }
    }

    /// Ends with an error when `stop` becomes true.
    #[must_use]
    pub fn until(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Reads the trace. Not generic: the compiler translates the model once for all who call it.
    ///
    /// # Errors
    /// A stream of the trace cannot be opened, no process has the name that is asked for, its times are damaged, or it
    /// was stopped.
    pub fn analysis(self) -> Result<Analysis> {
        if let ([name], true) = (self.comms, setup::everyone(&self.trace.metadata.env)) {
            let (mut all, ()) = Self { comms: &[], ..self }.read(())?;
            if target::service(name, &mut all.result, &mut all.profile) {
                if self.wanted == Wanted::Findings {
                    all.judge();
                }
                return Ok(all);
            }
        }
        Ok(self.read(())?.0)
    }

    /// The same; `observer` sees what the model sees.
    ///
    /// # Errors
    /// As [`Pass::analysis`].
    pub fn read<O: Observer>(self, observer: O) -> Result<(Analysis, O)> {
        self.read_with(observer, |_| true)
    }

    /// The same; `each` sees an item before the model does, and the model only those that it says yes to.
    ///
    /// # Errors
    /// As [`Pass::analysis`].
    pub fn read_with<O: Observer>(
        self,
        observer: O,
        mut each: impl FnMut(&Item<'_>) -> bool,
    ) -> Result<(Analysis, O)> {
        let Self { trace, wanted, comms, stop } = self;
        let stopped = || stop.is_some_and(|s| s.load(Ordering::Relaxed));
        let env = &trace.metadata.env;
        let state = setup::named_late(&trace.state);
        let setup = Setup { comms: comms.to_vec(), state, ..setup::of(env, setup::span(trace)) };
        let mut reading = Reading::new(setup, env, wanted, observer);
        let summary = trace.for_each(|item| {
            if !stopped() && each(&item) {
                reading.model.feed(item);
            }
        })?;
        if stopped() {
            bail!("stopped before all of it was read");
        }
        reading.finish(trace, &summary, wanted, comms)
    }
}

/// A trace that is being read.
pub(crate) struct Reading<O: Observer> {
    pub(crate) model: Model<(Option<Collector>, O)>,
}

impl<O: Observer> Reading<O> {
    pub(crate) fn new(setup: Setup, env: &BTreeMap<String, String>, wanted: Wanted, observer: O) -> Self {
        let window = match wanted {
            Wanted::Account => None,
            Wanted::Profile(from, to) => Some((from, to)),
            Wanted::Findings => Some((0, u64::MAX)),
        };
        let clock = setup::sample_clock(env);
        let collector = window.map(|(from, to)| Collector::new(from, to).clock(&clock));
        Self { model: Model::new(setup, (collector, observer)) }
    }

    /// All of the trace was read.
    pub(crate) fn finish(
        self,
        trace: &Trace,
        summary: &Summary,
        wanted: Wanted,
        comms: &[String],
    ) -> Result<(Analysis, O)> {
        let quality = Quality::of(trace, summary);
        let env = trace.metadata.env.clone();
        let (mut analysis, observer) = self.close(env, &trace.state, quality)?;
        if !comms.is_empty() {
            let (result, profile) =
                (std::mem::take(&mut analysis.result), std::mem::take(&mut analysis.profile));
            (analysis.result, analysis.profile) = target::only(comms, result, profile)?;
        }
        if wanted == Wanted::Findings {
            analysis.judge();
        }
        Ok((analysis, observer))
    }

    /// What was found, without findings.
    pub(crate) fn close(
        self,
        environment: BTreeMap<String, String>,
        state: &State,
        quality: Quality,
    ) -> Result<(Analysis, O)> {
        let mut model = self.model;
        if let Some(why) = model.refusal() {
            bail!("{why}");
        }
        model.whole_state(state.clone());
        let (result, (collector, observer)) = model.finish();
        let profile = collector.map_or_else(Profile::default, |c| c.profile(state));
        Ok((Analysis { environment, quality, diagnosis: Diagnosis::default(), result, profile }, observer))
    }
}
