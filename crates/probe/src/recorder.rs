// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording from beginning to end.

use crate::beside::{self, Beside, Progress as Reading};
use crate::budget::Budget;
use crate::counters::Counters;
use crate::drain::Drain;
use crate::load::{self, Knobs, Loaded};
use crate::privileges;
use crate::sampling::{Clock, Sampling};
use crate::select::Selection;
use crate::span::{Plan, Spans, Texts};
use crate::stack_ring::StackRing;
use crate::target::{self, Command, Target};
use crate::trigger::{Fired, Trigger, Watch};
use anyhow::{Context, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::signals::Stop;
use plumb_machine::{clock, host, open_files, output, process, Root, Sockets};
use plumb_trace::ctf::Metadata;
use plumb_trace::load::cut_torn;
use plumb_trace::reader::Published;
use plumb_trace::schema::{StateEnd, StatePause, StateTrigger};
use plumb_trace::units;
use plumb_trace::writer::{DirectorySink, KeepSink, Sink, TraceWriter};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// PLUMB_MAX_CPUS
const MOST_CPUS: u32 = 512;
/// A reader that is further behind, ns, does not come along: what it has not read fills memory.
const MOST_BEHIND: u64 = 5_000_000_000;
/// Poll interval when little comes in, and when much does.
const POLL_SLOW: Duration = Duration::from_millis(40);
const POLL_FAST: Duration = Duration::from_millis(1);
/// Packets are closed this often, so that a killed recorder leaves what it had, unless somebody wants to know sooner.
pub const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// A command may go into a cgroup of its own within this time; later it is looked for every second.
const SETTLING: Duration = Duration::from_millis(300);
/// What fires again and again is told of no more often.
const REARMED: Duration = Duration::from_secs(1);
/// Clocks are paired this often.
const CLOCKS_EVERY: Duration = Duration::from_secs(5);

/// Flight recorder: only the last while is kept, in memory.
#[derive(Debug, Clone)]
pub struct Keep {
    /// How much, ns.
    pub last: u64,
    /// What freezes it; without one, the end of the recording does.
    pub when: Option<Trigger>,
    /// Most memory that the kept packets may take, bytes.
    pub memory: usize,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub dir: PathBuf,
    /// Which events.
    pub selection: Selection,
    pub target: Target,
    /// System calls and stacks of every process; a command then only says when to end.
    pub everyone: bool,
    /// Waits longer than this get their stacks, ns; 0 takes none.
    pub stack_threshold: u64,
    /// When samples of what the CPUs are at are taken.
    pub sampling: Sampling,
    /// The command's standard output goes to standard error: ours is for machines.
    pub output_apart: bool,
    /// Record only events that the target has a part in.
    pub only_target: bool,
    /// Whole disks whose block events are recorded; empty is all.
    pub devices: Vec<u32>,
    /// Ring memory of each CPU, bytes; 0 chooses.
    pub buffer: u64,
    pub keep: Option<Keep>,
    pub spans: Spans,
    /// Most that it may cost, as a share of the target's CPU time: where it costs more, the recording pauses again and again.
    pub budget: Option<f64>,
    /// End after this long, ns.
    pub duration: Option<u64>,
    /// Close packets this often, at most [`FLUSH_EVERY`]: a reader beside gets them then.
    pub flush: Duration,
    /// Somebody waits for what a reader beside finds: it does not stay behind all others.
    pub eager: bool,
    /// Functions of user code get their names when it ends: that takes a while.
    pub named: bool,
    /// What is told of in the trace each time when it comes true, at most once a second.
    pub triggers: Vec<Trigger>,
}

/// How far a recording is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Events written.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
    /// Fullest ring in the last second, 0 to 1.
    pub fill: f64,
}

/// How a recording went.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    pub dir: PathBuf,
    /// Events in the per-CPU streams.
    pub events: u64,
    /// Events in the streams that the recorder writes itself.
    pub state_events: u64,
    /// Events lost, to full buffers or on the way to a collector.
    pub lost: u64,
    /// Of these, on the way to a collector.
    pub unsent: u64,
    /// Events missed because their program was running on that CPU already.
    pub missed: u64,
    /// Stacks that found no room.
    pub stacks_lost: u64,
    /// Records whose time was moved to keep a closed packet's order.
    pub clamped: u64,
    /// When the target began, ns CLOCK_MONOTONIC.
    pub begin: u64,
    /// When it ended, ns CLOCK_MONOTONIC.
    pub end: u64,
    /// CPU time that the recorder itself took, ns.
    pub recorder_cpu: u64,
    /// The command's exit code; 128 + n for signal n.
    pub exit_code: Option<i32>,
    pub reason: String,
    /// Events that this kernel does not have.
    pub lacking: Vec<String>,
    /// What makes the recording less certain, a sentence each.
    pub notes: Vec<String>,
    /// What went wrong on the way; the trace is readable up to there.
    pub error: Option<String>,
}

impl Output for Outcome {
    const FORMAT: &'static Format = &formats::RECORD;
}

/// Ring memory for each CPU when none is asked for: 16 MiB, less on many CPUs.
pub(crate) fn default_buffer(cpus: u32) -> u64 {
    (512u64 << 20).checked_div(u64::from(cpus)).unwrap_or(0).clamp(1 << 20, 16 << 20)
}

/// Records until the target ends, the time is over, the trigger fires or
/// somebody asks to stop. `progress` is called about once a second.
///
/// # Errors
/// Nothing could be recorded: no permission, no such command, no room for
/// the directory. An error later is told in the outcome, beside what was saved.
pub fn record(options: &Options, stop: &Stop, progress: impl FnMut(&Progress)) -> Result<Outcome> {
    let outcome = whole(options, stop, progress, None, None);
    privileges::after_recording();
    outcome
}

/// Opens a sink for a trace that begins.
pub type Opens<'a> = &'a mut dyn FnMut(&Metadata) -> Result<Box<dyn Sink>>;

/// The same, into a sink in the place of the directory, which is only named.
///
/// # Errors
/// As [`record`]; those of `open`, before the target begins.
pub fn record_into(
    options: &Options,
    stop: &Stop,
    progress: impl FnMut(&Progress),
    open: Opens<'_>,
) -> Result<Outcome> {
    let outcome = whole(options, stop, progress, None, Some(open));
    privileges::after_recording();
    outcome
}

/// The same; `reader` is called on a thread of its own when the target begins, and reads the trace as it grows.
/// A flight recorder has no reader, for its trace does not grow.
///
/// # Errors
/// As [`record`].
pub fn record_beside<T: Send + 'static>(
    options: &Options,
    stop: &Stop,
    progress: impl FnMut(&Progress),
    reader: impl FnOnce(Beside) -> T + Send + 'static,
) -> Result<(Outcome, Option<T>)> {
    let (mut reader, mut running, eager) = (Some(reader), None, options.eager);
    let mut start = |beside| {
        running = reader.take().map(|reader| thread::spawn(move || beside::run(beside, eager, reader)))
    };
    let outcome = whole(options, stop, progress, Some(&mut start), None);
    privileges::after_recording();
    // Where nothing was recorded, what it waits for has gone, and it ends.
    let read = running.and_then(|thread| thread.join().ok());
    Ok((outcome?, read))
}

fn whole(
    options: &Options,
    stop: &Stop,
    progress: impl FnMut(&Progress),
    start: Option<&mut dyn FnMut(Beside)>,
    open: Option<Opens<'_>>,
) -> Result<Outcome> {
    let cpus = host::possible_cpus(&Root::real());
    anyhow::ensure!(
        cpus <= MOST_CPUS,
        "this machine may have {cpus} CPUs; plumb records at most {MOST_CPUS}"
    );
    let mut selection = options.selection.clone();
    let triggers: Vec<&Trigger> =
        options.keep.iter().filter_map(|k| k.when.as_ref()).chain(&options.triggers).collect();
    for trigger in &triggers {
        selection.events.extend(trigger.events().iter().copied());
        selection.calls.extend(trigger.call());
    }
    let (events, lacking) = load::resolve(&selection)?;
    let clock = Clock::choose(options.sampling, cpus)?;
    let threads = options.target.threads()?;
    // What a flight recorder keeps lies in memory, what is sent elsewhere: there is no directory to add to.
    let trace = match &options.keep {
        None if open.is_none() => {
            Some(std::path::absolute(&options.dir).context("the present directory is gone")?)
        }
        _ => None,
    };
    let program = match &options.target {
        Target::Command { words, .. } => words.first().and_then(|name| target::find(name)),
        _ => None,
    };
    let mut command = match &options.target {
        Target::Command { words, .. } => Some(Command::fork(words, options.output_apart, trace.as_deref())?),
        _ => None,
    };
    // Behind the fork, so that the command keeps its own.
    let _first = First::come();
    let everyone = options.everyone || options.target == Target::Everything;
    let knobs = Knobs {
        ring_bytes: if options.buffer == 0 { default_buffer(cpus) } else { options.buffer },
        stack_threshold: options.stack_threshold,
        clock,
        everyone,
        apart: false,
        only_target: options.only_target && !everyone,
        devices: options.devices.clone(),
        spans: Plan::make(&options.spans, &options.target, program.as_deref())?,
    };
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::load(&mut object, &events, &selection, &knobs, cpus)?;
    let targets: Vec<u32> = command.iter().map(|c| c.pid).chain(threads).collect();
    loaded.mark(&targets);

    let mut metadata = describe(options, &selection, &events, &lacking, &knobs);
    if let Some(command) = &command {
        metadata.env.insert("command_pid".into(), command.pid.to_string());
    }
    let counters = Counters::new(targets.first().copied());
    let lacking = lacking.into_iter().map(String::from).collect();
    let watches = triggers.into_iter().cloned().map(Watch::new).collect();
    let stacks = knobs.stack_threshold > 0 || knobs.clock.is_some();
    let texts = Texts::new(options.spans.texts);
    let drain = Drain::new(cpus, watches, everyone, &targets, stacks, (texts, &knobs.spans));
    let run = Run {
        options,
        stop,
        progress,
        command: command.as_mut(),
        targets,
        loaded,
        drain,
        counters,
        everyone,
        lacking,
        spans: knobs.spans,
        spans_seen: 0,
        span_cost: 0,
        cpus: thread::available_parallelism().map_or(1, |n| n.get() as u32),
        begun: Instant::now(),
        start: start.filter(|_| options.keep.is_none()).map(|start| start as _),
        reader: None,
        reading: Arc::default(),
        began: 0,
        budget: None,
        pauses: (0, 0),
    };
    match &options.keep {
        None if open.is_some() => {
            let sink = open.map(|open| open(&metadata)).transpose()?.context("no sink")?;
            Ok(run.go(TraceWriter::new(sink, cpus, clock::now()))?.0)
        }
        None => {
            output::directory(&options.dir)?;
            let sink = DirectorySink::create(&options.dir, &metadata).with_context(|| {
                format!("trace directory {}; choose another with -o", options.dir.display())
            })?;
            let writer = TraceWriter::new(sink, cpus, clock::now());
            let (mut outcome, _) = run.go(writer)?;
            if let Err(e) = cut_torn(&options.dir).and_then(|_| output::hand_over_all(&options.dir)) {
                outcome.error.get_or_insert(e.to_string());
            }
            Ok(outcome)
        }
        Some(keep) => {
            check_free(&options.dir)?;
            let writer = TraceWriter::new(KeepSink::new(keep.last, keep.memory), cpus, clock::now());
            let (mut outcome, sink) = run.go(writer)?;
            if let Some(mut kept) = sink {
                let early = kept.dropped_early();
                if early > 0 {
                    outcome.reason = format!(
                        "{}; {early} packets left before their time: give more --keep-memory",
                        outcome.reason
                    );
                }
                output::directory(&options.dir)?;
                let result =
                    DirectorySink::create(&options.dir, &metadata).and_then(|mut s| kept.dump(&mut s));
                let result = result.and_then(|()| output::hand_over_all(&options.dir));
                result.with_context(|| format!("write what was kept to {}", options.dir.display()))?;
            }
            Ok(outcome)
        }
    }
}

/// The calling thread comes before others, as long as this lives: on a busy machine a reader that waits for a CPU
/// loses events. By a real-time policy, for a nice value takes from the target what it gives: both are of one
/// scheduling group (kernel/sched/autogroup.c), whose share of each CPU goes by the weights of its threads there.
struct First {
    /// The nice value that it had, where it has another now.
    nice: Option<i32>,
}

impl First {
    fn come() -> Self {
        let param = libc::sched_param { sched_priority: 1 };
        let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        // SAFETY: plain system calls; where they are refused, the priority stays.
        if unsafe { libc::sched_setscheduler(0, policy, &param) } == 0 {
            return Self { nice: None };
        }
        // SAFETY: as above.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        // SAFETY: as above.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        Self { nice: Some(nice) }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let param = libc::sched_param { sched_priority: 0 };
        match self.nice {
            // SAFETY: a plain system call; the nice value of before holds again.
            None => unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &param) },
            // SAFETY: as above.
            Some(nice) => unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) },
        };
    }
}

fn check_free(dir: &Path) -> Result<()> {
    anyhow::ensure!(
        !dir.join("metadata").exists(),
        "{}: holds a trace already; choose another with -o",
        dir.display()
    );
    Ok(())
}

fn describe(
    options: &Options,
    selection: &Selection,
    events: &[&str],
    lacking: &[&str],
    knobs: &Knobs,
) -> Metadata {
    let mut env: BTreeMap<String, String> = host::environment(&Root::real());
    env.insert("run_id".into(), host::unique_id(&Root::real()));
    env.insert("target".into(), options.target.describe());
    env.insert(
        "target_kind".into(),
        match options.target {
            Target::Command { .. } => "command".into(),
            Target::Pids(_) => "pid".into(),
            Target::Cgroup(_) => "cgroup".into(),
            Target::Everything => "everything".into(),
        },
    );
    env.insert("events".into(), events.join(","));
    env.insert("events_lacking".into(), lacking.join(","));
    env.insert("everyone".into(), u8::from(knobs.everyone).to_string());
    env.insert("only_target".into(), u8::from(knobs.only_target).to_string());
    env.insert("stack_threshold_ns".into(), knobs.stack_threshold.to_string());
    env.insert("sample_hz".into(), options.sampling.hz().to_string());
    env.insert("sample_clock".into(), knobs.clock.map(|c| c.to_string()).unwrap_or_default());
    env.insert("recorder_pid".into(), std::process::id().to_string());
    if let Some(keep) = &options.keep {
        env.insert("keep_ns".into(), keep.last.to_string());
    }
    for (set, n) in &selection.thin {
        env.insert(format!("thin_{set}"), n.to_string());
    }
    if !knobs.devices.is_empty() {
        let devices: Vec<_> = knobs.devices.iter().map(|d| units::device(*d)).collect();
        env.insert("devices".into(), devices.join(","));
    }
    let clock = clock::together();
    Metadata { host: host::host_id(&Root::real()), clock_offset: clock.realtime - clock.monotonic, env }
}

/// The clocks, and how they are steered: the rate of two hosts' clocks is constant only as long as theirs is.
fn tell_clocks<S: Sink>(writer: &mut TraceWriter<S>) -> io::Result<()> {
    let now = clock::now();
    writer.state(now, &clock::together())?;
    clock::steered().map_or(Ok(()), |timex| writer.state(now, &timex))
}

/// Share of the CPUs that probes may take which a program's profile places.
const MOST_OF_SPANS: f64 = 0.1;

/// How often threads that were born meanwhile are looked for.
const NEWBORN: usize = 8;

struct Run<'a, 'obj, P> {
    options: &'a Options,
    stop: &'a Stop,
    progress: P,
    command: Option<&'a mut Command>,
    targets: Vec<u32>,
    loaded: Loaded<'obj>,
    drain: Drain,
    counters: Counters,
    everyone: bool,
    lacking: Vec<String>,
    spans: Plan,
    /// Spans that had begun when their rate was looked at last.
    spans_seen: u64,
    /// What one costs the program, ns; 0 where none is recorded.
    span_cost: u64,
    cpus: u32,
    begun: Instant,
    /// Starts who reads the trace as it grows.
    start: Option<&'a mut (dyn FnMut(Beside) + 'a)>,
    reader: Option<Sender<Published>>,
    /// Of who reads it meanwhile.
    reading: Arc<Reading>,
    /// When the target began, ns.
    began: u64,
    budget: Option<Budget>,
    /// Pauses so far, and their time, ns.
    pauses: (u64, u64),
}

impl<P: FnMut(&Progress)> Run<'_, '_, P> {
    fn go<S: Sink>(mut self, mut writer: TraceWriter<S>) -> Result<(Outcome, Option<S>)> {
        let mut error = self.dump_devices(&mut writer).err();
        self.loaded.attach()?;
        if self.spans.probes.iter().any(|p| p.unasked) {
            self.span_cost = self.loaded.span_cost().unwrap_or(0);
        }
        self.mark_newborn();
        error = error.or_else(|| self.dump_tasks(&mut writer).err());
        error = error.or_else(|| self.count(&mut writer).err());
        let begin = clock::now();
        if let Some(command) = self.command.as_deref_mut() {
            command.release()?;
        }
        let mut stacks = self.loaded.stacks()?;
        privileges::after_attachment();
        let (targets, everyone) = (self.drain.targets(), self.everyone);
        // Who reads must come along, whatever it costs.
        let share = self.options.budget.or(self.options.eager.then_some(f64::INFINITY));
        self.budget = share.map(|share| Budget::of(share, begin, targets, everyone));
        self.began = begin;
        if let Some(start) = &mut self.start {
            let (news, reads) = channel();
            start(Beside::new(self.options.dir.clone(), begin, reads, Arc::clone(&self.reading)));
            self.reader = Some(news);
        }
        let mut reason = String::from("the trace could not be written");
        if error.is_none() {
            match self.watch_target(&mut writer, &mut stacks, begin) {
                Ok(why) => reason = why,
                Err(e) => error = Some(e),
            }
        }
        let end = clock::now();
        let counters = self.counters.read(end);
        if let Some((begin, _)) = self.budget.as_mut().and_then(|b| b.pause.take()) {
            error = error.or_else(|| self.paused(begin, end, &mut writer).err());
        }
        self.loaded.detach();
        let probes = self.loaded.probes();
        let missed = probes.iter().map(|p| p.missed).sum();
        let exit_code = self.command.as_deref_mut().and_then(Command::ended);
        let stacks_lost = self.loaded.stacks_lost();
        let mut finish = || -> io::Result<()> {
            self.drain.round(&self.loaded, &mut writer)?;
            self.drain.stacks(&mut stacks, &mut self.loaded, &mut writer)?;
            let now = clock::now();
            tell_clocks(&mut writer)?;
            for counter in &counters {
                writer.state(now, counter)?;
            }
            self.reading.leave(|| self.drain.places());
            if self.options.named {
                self.drain.names(&mut writer)?;
            }
            for probe in &probes {
                writer.state(now, probe)?;
            }
            // What finds no room now is lost, too.
            writer.flush()?;
            let state = StateEnd {
                events: writer.records() - writer.sink().lost(),
                lost: self.drain.lost + writer.sink().lost(),
                missed,
                stacks_lost: stacks_lost.total() + writer.sink().stacks_lost(),
                begin,
                end,
                exit_code: exit_code.unwrap_or(-1),
                reason: reason.clone(),
            };
            writer.state(now, &state)?;
            writer.flush()
        };
        if error.is_none() {
            error = finish().err();
        }
        if error.is_none() {
            self.publish(&writer, u64::MAX, true);
        }
        let mut notes = std::mem::take(&mut self.spans.notes);
        notes.append(&mut self.loaded.notes);
        if let (Some(share), (1.., time)) = (self.options.budget, self.pauses) {
            notes.push(format!(
                "the recording paused {} times, for {} of {}, to take at most {:.1} % of the target's CPU time",
                units::count(self.pauses.0),
                units::duration(time),
                units::duration(end - begin),
                share * 100.0
            ));
        }
        notes.extend(self.drain.notes());
        notes.extend(stacks_lost.notes());
        notes.extend(writer.sink().notes());
        let (state_events, clamped) = (writer.state_events(), writer.clamped());
        let unsent = writer.sink().lost();
        let (events, lost) = (writer.records() - unsent, self.drain.lost + unsent);
        let stacks_lost = stacks_lost.total() + writer.sink().stacks_lost();
        let sink = match writer.finish() {
            Ok(sink) => Some(sink),
            Err(e) => {
                error = error.or(Some(e));
                None
            }
        };
        let outcome = Outcome {
            dir: self.options.dir.clone(),
            events,
            state_events,
            lost,
            unsent,
            missed,
            stacks_lost,
            clamped,
            begin,
            end,
            recorder_cpu: clock::of(libc::CLOCK_PROCESS_CPUTIME_ID),
            exit_code,
            reason,
            lacking: self.lacking,
            notes,
            error: error.map(|e| e.to_string()),
        };
        Ok((outcome, sink))
    }

    /// Marks the target's threads that were born while the programs were attached: nothing told of their birth.
    /// They may have had others meanwhile, so until no more are found.
    fn mark_newborn(&mut self) {
        for _ in 0..NEWBORN {
            // A target that has ended meanwhile has no more.
            let mut born = self.options.target.threads().unwrap_or_default();
            born.retain(|tid| !self.targets.contains(tid));
            if born.is_empty() {
                return;
            }
            self.loaded.mark(&born);
            self.drain.follow(&born);
            self.targets.extend(born);
        }
    }

    /// Tells the reader how far it can read.
    fn publish<S: Sink>(&self, writer: &TraceWriter<S>, until: u64, last: bool) {
        if let Some(reader) = &self.reader {
            // One that gave up has gone.
            let _ = reader.send(Published { until, sizes: writer.sink().sizes(), last });
        }
    }

    /// What does not change while it is read.
    fn dump_devices<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = clock::now();
        tell_clocks(writer)?;
        for disk in host::disks(&Root::real()) {
            writer.state(now, &disk)?;
        }
        for mount in host::mounts(&Root::real()) {
            writer.state(now, &mount)?;
        }
        for span in &self.spans.spans {
            writer.state(now, span)?;
        }
        for event in &self.spans.events {
            writer.state(now, event)?;
        }
        Ok(())
    }

    /// Every thread, and the target's sockets and files. Events come in already, so that none is born unseen, and
    /// the rings must not fill meanwhile.
    fn dump_tasks<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = clock::now();
        let mut drained = Instant::now();
        let mut sockets = Sockets::default();
        for pid in process::all(&Root::real()) {
            if self.everyone || self.targets.contains(&pid) {
                for socket in sockets.of(pid, &Root::real()) {
                    writer.state(now, &socket)?;
                }
                for file in open_files(pid, &Root::real()) {
                    writer.state(now, &file)?;
                }
            }
            for mut task in host::threads(pid, &Root::real()) {
                if task.tid == pid && self.everyone {
                    self.drain.note_service(&task, 0, writer)?;
                }
                task.target = u8::from(self.targets.contains(&task.tid));
                if task.target == 0 && !self.everyone {
                    // Others' arguments are none of the trace's business: they may hold secrets.
                    task.cmdline.clear();
                }
                writer.state(now, &task)?;
            }
            if drained.elapsed() > POLL_FAST {
                self.drain.round(&self.loaded, writer)?;
                drained = Instant::now();
            }
        }
        writer.flush()
    }

    /// The main loop; returns why it ended.
    fn watch_target<S: Sink>(
        &mut self,
        writer: &mut TraceWriter<S>,
        stacks: &mut StackRing,
        begin: u64,
    ) -> io::Result<String> {
        let started = Instant::now();
        let mut poll = POLL_FAST;
        let (mut flushed, mut counted, mut clocked, mut told) = (started, started, started, started);
        let mut fill = 0.0f64;
        let mut stops_seen = 0;
        let (mut drained, mut before) = (0, 0);
        let mut rearmed = HashMap::new();
        loop {
            let next = self.budget.as_ref().map_or(u64::MAX, |b| b.left(clock::now()));
            thread::sleep(poll.min(Duration::from_nanos(next)));
            // Asked before the drain: what the target did last is then in the rings.
            let ended = self.ended(begin, &mut stops_seen);
            let draining = clock::now();
            let filled = self.drain.round(&self.loaded, writer)?;
            if started.elapsed() < SETTLING {
                self.counters.follow();
            }
            let copied = self.drain.stacks(stacks, &mut self.loaded, writer)? as f64 / stacks.size() as f64;
            fill = fill.max(filled);
            poll = if filled.max(copied) > 1.0 / 16.0 { POLL_FAST } else { (poll * 5 / 4).min(POLL_SLOW) };
            // A record may be late by one round, where its program was interrupted.
            let settled = if ended.is_some() { u64::MAX } else { before };
            before = draining;
            for (trigger, fired) in self.drain.fired(settled) {
                let condition = trigger.text().to_string();
                let rests = rearmed.get(&condition).is_some_and(|at: &Instant| at.elapsed() < REARMED);
                // That the recorder waits, or a report that it makes, is no reason for a run.
                let own = || process::is_of(fired.tid, std::process::id(), &Root::real());
                if rests || (self.command.is_none() && own()) {
                    continue;
                }
                let reason =
                    format!("trigger '{condition}' fired: it took {}", units::duration(fired.took()));
                let Fired { begin, end, tid: thread } = fired;
                rearmed.insert(condition.clone(), Instant::now());
                writer.state(clock::now(), &StateTrigger { begin, end, thread, condition })?;
                if self.options.keep.is_some() {
                    return Ok(reason);
                }
            }
            if let Some(why) = ended {
                return Ok(why);
            }
            self.reading.answer(|| self.drain.places());
            self.keep_within_budget(writer)?;
            let now = Instant::now();
            if now - counted >= FLUSH_EVERY {
                counted = now;
                self.count(writer)?;
                self.follow_cgroup();
            }
            if now - flushed >= self.options.flush {
                flushed = now;
                writer.flush()?;
                self.publish(writer, drained, false);
                drained = draining;
            }
            if now - clocked >= CLOCKS_EVERY {
                clocked = now;
                tell_clocks(writer)?;
            }
            if now - told >= Duration::from_secs(1) {
                self.limit_spans(now - told);
                told = now;
                let events = writer.records();
                let lost = self.drain.lost + writer.sink().lost();
                (self.progress)(&Progress { elapsed: now - started, events, lost, fill });
                fill = 0.0;
            }
        }
    }

    /// Pauses where the recording costs more than it may, and goes on behind a pause.
    fn keep_within_budget<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let Some(mut budget) = self.budget.take() else { return Ok(()) };
        let (now, events) = (clock::now(), writer.records());
        let mut done = Ok(());
        match budget.pause {
            Some((begin, until)) if now >= until => {
                let resumed = self.loaded.resume();
                let end = clock::now();
                budget.goes_on(end, events);
                done = self.paused(begin, end, writer).and(resumed.map_err(io::Error::other));
            }
            None if budget.is_over(now) => {
                let used = budget.used(self.drain.targets(), self.everyone);
                let read = self.reading.taken.load(Ordering::Relaxed);
                let behind = now.saturating_sub(self.reading.until.load(Ordering::Relaxed).max(self.began));
                let pause = match self.options.eager && behind > MOST_BEHIND {
                    true => budget.pause_for_reader(now, events),
                    false => budget.pause_for(now, events, used, read),
                };
                if pause > 0 {
                    budget.pause = Some((clock::now(), now + pause));
                    self.loaded.pause();
                    self.drain.missed();
                }
            }
            _ => {}
        }
        self.budget = Some(budget);
        done
    }

    /// Tells of a pause that is over.
    fn paused<S: Sink>(&mut self, begin: u64, end: u64, writer: &mut TraceWriter<S>) -> io::Result<()> {
        self.pauses = (self.pauses.0 + 1, self.pauses.1 + (end - begin));
        writer.state(end, &StatePause { begin, end })
    }

    /// Takes the probes of programs' profiles away where they cost too much.
    fn limit_spans(&mut self, time: Duration) {
        let rate = (self.drain.spans - self.spans_seen) as f64 / time.as_secs_f64();
        self.spans_seen = self.drain.spans;
        let costs = rate * self.span_cost as f64 / 1e9 / f64::from(self.cpus);
        if costs > MOST_OF_SPANS && self.loaded.detach_unasked() {
            self.spans.notes.push(format!(
                "spans of the target's program were recorded for the first {:.0} s only: {} a second, {} each, took {:.0} % \
                 of the CPUs (name them with --span to record all)",
                self.begun.elapsed().as_secs_f64(),
                units::count(rate as u64),
                units::duration(self.span_cost),
                costs * 100.0
            ));
        }
    }

    fn count<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = clock::now();
        self.counters.read(now).iter().try_for_each(|counter| writer.state(now, counter))
    }

    /// Members that came into a cgroup from outside; those born inside are marked at birth.
    fn follow_cgroup(&mut self) {
        if let Target::Cgroup(_) = self.options.target {
            if let Ok(tids) = self.options.target.threads() {
                self.loaded.mark(&tids);
            }
        }
    }

    fn ended(&mut self, begin: u64, stops_seen: &mut u32) -> Option<String> {
        let asked = self.stop.times();
        if let Some(command) = self.command.as_deref_mut() {
            if let Some(code) = command.ended() {
                return Some(format!("the command ended with exit code {code}"));
            }
            // The command gets what plumb got, and the time that it needs to end.
            if asked > *stops_seen {
                *stops_seen = asked;
                if asked == 1 {
                    command.signal(self.stop.signal());
                } else {
                    return Some("stopped by the user while the command still ran".into());
                }
            }
        } else if asked > 0 {
            return Some("stopped by the user".into());
        }
        if let Target::Pids(running) = &self.options.target {
            if running.named.iter().all(|p| process::is_over(*p, &Root::real())) {
                return Some("the target ended".into());
            }
        }
        let over = self.options.duration.is_some_and(|d| clock::now() >= begin + d);
        over.then(|| "the time was over".into())
    }
}
