// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves what the rings hold into the trace writer.

use crate::load::Loaded;
use crate::numbers::Numbers;
use crate::ring::{Piece, Tail};
use crate::select::call_number;
use crate::span::{self, Texts};
use crate::stack_ring::StackRing;
use crate::stacks::{Kallsyms, Kind, RawStack, RawText};
use crate::trigger::{Fired, Trigger, Watch};
use crate::user::{End, Places, Spaces, UserStack};
use plumb_machine::{clock, host, process, service, Root};
use plumb_trace::ctf::MAX_PACKET_BYTES;
use plumb_trace::schema::{
    SchedExec, SchedExit, SchedFork, SpanBegin, StateCpuSample, StateFile, StateService, StateSpanText,
    StateTask, StateWaitStack, StateWakerStack, SysEnter,
};
use plumb_trace::writer::{Sink, TraceWriter};
use plumb_trace::Record;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The same descriptor is not asked for again within this time.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Functions of Python whose stack has not come after so long are of one that was lost, ns.
const PYTHON_STACK: u64 = 1_000_000_000;
/// Descriptors that are remembered as asked for.
const MOST_FILES: usize = 65_536;

/// Reads all rings; keeps what it must remember between two rounds.
pub struct Drain {
    tails: Vec<Tail>,
    scratch: Vec<u8>,
    numbers: Numbers,
    spaces: Spaces,
    /// Names and code that were left out because no packet holds them.
    too_long: u64,
    /// Functions of Python, by thread, when their stack was taken: it comes next.
    pythons: HashMap<u32, (u64, Vec<u64>)>,
    watches: Vec<Watch>,
    texts: Texts,
    /// Of each span, whether its text is SQL.
    sql: Vec<bool>,
    everyone: bool,
    services: service::Services,
    /// Whether a process was in one.
    in_services: bool,
    targets: HashSet<u32>,
    /// Calls whose first argument is a file that is synced.
    syncs: Vec<u32>,
    /// When the file behind a thread's descriptor was asked for last.
    asked: HashMap<(u32, u32), Instant>,
    /// Events lost so far.
    pub lost: u64,
    /// Spans that began.
    pub spans: u64,
}

impl Drain {
    /// Reads from the rings' beginning. With `stacks` it also listens to what processes
    /// map, so it must be made before the command runs.
    pub fn new(
        cpus: u32,
        watches: Vec<Watch>,
        everyone: bool,
        targets: &[u32],
        stacks: bool,
        spans: (Texts, &span::Plan),
    ) -> Self {
        Self {
            tails: vec![Tail::default(); cpus as usize],
            scratch: Vec::new(),
            // Read now: it takes a while, and later the rings would fill meanwhile.
            numbers: Numbers::new(if stacks { Kallsyms::load() } else { Kallsyms::default() }),
            spaces: if stacks { Spaces::start(cpus) } else { Spaces::default() },
            too_long: 0,
            pythons: HashMap::new(),
            watches,
            texts: spans.0,
            sql: spans.1.are_sql(),
            everyone,
            services: service::Services::new(Root::real()),
            in_services: false,
            targets: targets.iter().copied().collect(),
            syncs: ["fsync", "fdatasync", "sync_file_range"].iter().filter_map(|n| call_number(n)).collect(),
            asked: HashMap::new(),
            lost: 0,
            spans: 0,
        }
    }

    /// More threads of the target.
    pub fn follow(&mut self, tids: &[u32]) {
        self.targets.extend(tids);
    }

    /// Processes and threads of the target, as far as they were seen.
    pub fn targets(&self) -> &HashSet<u32> {
        &self.targets
    }

    /// One pass over all rings; how full the fullest one was, 0 to 1.
    ///
    /// # Errors
    /// The sink's; what was read in this pass is lost then.
    pub fn round<S: Sink>(&mut self, loaded: &Loaded<'_>, writer: &mut TraceWriter<S>) -> io::Result<f64> {
        let mut fullest = 0.0f64;
        let mut execs = Vec::new();
        let (mut synced, mut ended) = (Vec::new(), Vec::new());
        for (cpu, tail) in self.tails.iter_mut().enumerate() {
            let cpu = cpu as u32;
            let (mut result, mut missed) = (Ok(()), false);
            let watches = &mut self.watches;
            let targets = &mut self.targets;
            let syncs = &self.syncs;
            let spans = &mut self.spans;
            let drained = loaded.ring(cpu).drain(tail, &mut self.scratch, |piece| {
                if result.is_err() {
                    return;
                }
                result = match piece {
                    Piece::Lost(events) => {
                        missed = true;
                        writer.lost(cpu, events)
                    }
                    Piece::Record(record) => {
                        match u16::from_le_bytes([record[8], record[9]]) {
                            SchedExec::ID => execs.push(SchedExec::read(record)),
                            SchedExit::ID => ended.push(SchedExit::read(record).tid),
                            SpanBegin::ID => *spans += 1,
                            SysEnter::ID => {
                                let enter = SysEnter::read(record);
                                if syncs.contains(&enter.nr) {
                                    synced.push((enter.tid, enter.arg0));
                                }
                            }
                            SchedFork::ID => {
                                let fork = SchedFork::read(record);
                                // An id that is used again is whoever's it is now.
                                match fork.target {
                                    1 => targets.insert(fork.child_tgid),
                                    _ if fork.child_tid == fork.child_tgid => {
                                        targets.remove(&fork.child_tgid)
                                    }
                                    _ => false,
                                };
                            }
                            _ => {}
                        }
                        for watch in watches.iter_mut() {
                            if missed {
                                // What was lost came before it.
                                watch.missed(u64::from_le_bytes(record[..8].try_into().unwrap_or_default()));
                            }
                            watch.look(record);
                        }
                        missed = false;
                        writer.record(cpu, record)
                    }
                };
            });
            result?;
            if missed {
                let now = clock::now();
                self.watches.iter_mut().for_each(|watch| watch.missed(now));
            }
            self.lost += drained.lost;
            let fill = drained.slots as f64 / loaded.slots() as f64;
            fullest = fullest.max(if drained.lost > 0 { 1.0 } else { fill });
        }
        for exec in execs {
            self.note_exec(&exec, writer)?;
        }
        ended.iter().for_each(|tid| _ = self.targets.remove(tid));
        synced.sort_unstable();
        synced.dedup();
        for (tid, fd) in synced {
            self.note_file(tid, fd, writer)?;
        }
        Ok(fullest)
    }

    /// Tells which unit or container a process is in, else what its interpreter runs; `at` is when it began to run its
    /// program, 0 before the recording.
    ///
    /// # Errors
    /// The sink's.
    pub fn note_service<S: Sink>(
        &mut self,
        task: &StateTask,
        at: u64,
        writer: &mut TraceWriter<S>,
    ) -> io::Result<()> {
        let pid = task.tgid;
        let service = self.services.of(pid);
        self.in_services |= service.is_some();
        let (name, cgroup) = match service {
            Some(service) => (service.name, service.cgroup.display().to_string()),
            None => (self.services.script(task).unwrap_or_default(), String::new()),
        };
        // That it is in none says something of one that was started from a service alone.
        match !name.is_empty() || (self.in_services && at > 0) {
            true => writer.state(clock::now(), &StateService { at, pid, name, cgroup }),
            false => Ok(()),
        }
    }

    /// Tells a new program's command line while its process is there to ask.
    fn note_exec<S: Sink>(&mut self, exec: &SchedExec, writer: &mut TraceWriter<S>) -> io::Result<()> {
        if !self.everyone && !self.targets.contains(&exec.tid) {
            return Ok(());
        }
        let task = host::task(exec.tid, exec.tid, &Root::real()).filter(|t| !t.cmdline.is_empty());
        // Asked after it was read: who has the id then had it before.
        if let Some(task) = task.filter(|_| !began_after(exec.tid, exec.ts)) {
            if self.everyone {
                self.note_service(&task, exec.ts, writer)?;
            }
            writer.state(clock::now(), &StateTask { target: 1, syscall: StateTask::AFTER_EXEC, ..task })?;
        }
        Ok(())
    }

    /// Tells which file a descriptor is while its process is there to ask; it may serve another later.
    fn note_file<S: Sink>(&mut self, tid: u32, fd: u32, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = Instant::now();
        if self.asked.get(&(tid, fd)).is_some_and(|at| now - *at < ASK_AGAIN) {
            return Ok(());
        }
        if self.asked.len() >= MOST_FILES {
            self.asked.clear();
        }
        self.asked.insert((tid, fd), now);
        match std::fs::read_link(format!("/proc/{tid}/fd/{fd}")) {
            Ok(path) => {
                let path = path.to_string_lossy().into_owned();
                writer.state(clock::now(), &StateFile { at: clock::now(), thread: tid, fd, path })
            }
            Err(_) => Ok(()),
        }
    }

    /// Writes the stacks that came since the last call, and tells how many bytes they took of the ring.
    ///
    /// # Errors
    /// The sink's.
    pub fn stacks<S: Sink>(
        &mut self,
        ring: &mut StackRing,
        loaded: &mut Loaded<'_>,
        writer: &mut TraceWriter<S>,
    ) -> io::Result<u64> {
        self.spaces.update();
        ring.drain(|bytes| {
            if let Some(text) = RawText::parse(bytes) {
                return self.text(&text, writer);
            }
            let Some(raw) = RawStack::parse(bytes) else { return Ok(()) };
            // It may go through what was mapped since.
            if raw.at > self.spaces.known_until() {
                self.spaces.update();
            }
            self.stack(raw, loaded, writer)
        })
    }

    /// Tells the text that names a span.
    fn text<S: Sink>(&mut self, raw: &RawText<'_>, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let sql = self.sql.get(usize::from(raw.span)).is_some_and(|sql| *sql);
        let Some((text, new)) = self.texts.number(raw.text, sql) else { return Ok(()) };
        let now = clock::now();
        new.map_or(Ok(()), |event| writer.state(now, &event))?;
        writer.wait(now, &StateSpanText { at: raw.at, thread: raw.tid, text })
    }

    fn stack<S: Sink>(
        &mut self,
        raw: RawStack<'_>,
        loaded: &mut Loaded<'_>,
        writer: &mut TraceWriter<S>,
    ) -> io::Result<()> {
        if raw.kind == Kind::Python {
            // Of a stack that was lost they stay behind, one a thread.
            self.pythons.retain(|_, (at, _)| raw.at.saturating_sub(*at) < PYTHON_STACK);
            self.pythons.insert(raw.by, (raw.at, raw.kernel));
            return Ok(());
        }
        let walked = self.walk(&raw, loaded);
        let (at, tid, kind) = (raw.at, raw.tid, raw.kind);
        if kind == Kind::Sample {
            self.numbers.sampled(&raw.kernel, walked.as_ref());
        }
        let now = clock::now();
        let (mut kernel, mut user) = (0, 0);
        if !raw.kernel.is_empty() {
            let (number, new) = self.numbers.kernel(raw.kernel);
            kernel = number;
            new.map_or(Ok(()), |event| writer.state(now, &event))?;
        }
        if let Some(walked) = walked {
            for module in self.spaces.modules.news() {
                writer.state(now, &module)?;
            }
            let (number, new) = self.numbers.user(&walked);
            user = number;
            new.map_or(Ok(()), |event| writer.state(now, &event))?;
        }
        if kind == Kind::Sample {
            return writer.wait(now, &StateCpuSample { at, thread: tid, cpu: raw.cpu, kernel, user });
        }
        for (stack, user) in [(kernel, 0), (user, 1)].into_iter().filter(|(stack, _)| *stack != 0) {
            match kind {
                Kind::Waker => writer.wait(now, &StateWakerStack { at, wakee: tid, stack, user })?,
                _ => writer.wait(now, &StateWaitStack { end: at, waiter: tid, stack })?,
            }
        }
        Ok(())
    }

    /// Its user stack. Where the copy was too short, the thread's next ones will be longer.
    fn walk(&mut self, raw: &RawStack<'_>, loaded: &mut Loaded<'_>) -> Option<UserStack> {
        let walked = self.spaces.walk(raw.at, raw.pid, raw.registers?, raw.copy);
        if let Some(class) = raw.next_class().filter(|_| walked.end == End::Copy) {
            loaded.copy_more(raw.by, class);
        }
        for (pid, python) in self.spaces.pythons() {
            loaded.python(pid, python.as_ref());
        }
        let python = self.pythons.remove(&raw.by).filter(|(at, _)| *at == raw.at);
        let walked = match python {
            Some((_, codes)) => self.spaces.with_python(raw.pid, walked, &codes),
            None => walked,
        };
        (!walked.frames.is_empty()).then_some(walked)
    }

    /// Names the places of all stacks; reads programs and libraries, so it is left to the end.
    ///
    /// # Errors
    /// The sink's.
    pub fn names<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        self.too_long += self.places().name().tell(clock::now(), writer)?;
        Ok(())
    }

    /// The places of all stacks so far.
    pub fn places(&self) -> Places {
        let modules = self.spaces.modules.all().to_vec();
        Places { modules, places: self.numbers.places(), kernel: Arc::clone(self.numbers.symbols()) }
    }

    /// What makes stacks less certain, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.spaces.lacking();
        if self.texts.left_out > 0 {
            notes.push(format!("{} spans have no name: there were too many texts", self.texts.left_out));
        }
        if self.too_long > 0 {
            notes.push(format!(
                "{} functions' names or code are longer than the {} KiB that a packet of the trace holds, and were left out",
                self.too_long,
                MAX_PACKET_BYTES >> 10
            ));
        }
        notes
    }

    /// Which triggers' conditions came true until `until`, ns; nothing of before will be drained any more.
    pub fn fired(&mut self, until: u64) -> Vec<(Trigger, Fired)> {
        let one = |watch: &mut Watch| watch.settle(until).map(|fired| (watch.trigger().clone(), fired));
        self.watches.iter_mut().filter_map(one).collect()
    }

    /// Events up to now were not recorded.
    pub fn missed(&mut self) {
        let now = clock::now();
        self.watches.iter_mut().for_each(|watch| watch.missed(now));
    }
}

/// Whether the process that has an id began after `ts` (ns, CLOCK_MONOTONIC): it is another one then.
fn began_after(pid: u32, ts: u64) -> bool {
    // SAFETY: a call without memory.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let Some(start) = i32::try_from(pid).ok().and_then(process::start_of) else { return true };
    let clocks = clock::together();
    let asleep = clocks.boottime.saturating_sub(clocks.monotonic);
    // Its start is rounded down to a tick.
    (start * (1_000_000_000 / hertz)).saturating_sub(asleep) > ts
}
