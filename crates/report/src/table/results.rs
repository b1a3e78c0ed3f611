// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run itself, its diagnosis, its profile, and everybody else.

use super::account::filled;
use super::{table, Context, Sink};
use crate::document::Quality;
use plumb_analysis::{setup, Analysis};
use plumb_diagnose::{Diagnosis, Evidence, Finding, ServiceDiagnosis};
use plumb_machine::system::cpus_of_list;
use plumb_machine::utc_of;
use plumb_model::profile::{Entry, Origin, Profile};
use plumb_model::{CpuRow, FunctionRow, HotRow, OtherRow, RunResult, UnexplainedRow};
use plumb_trace::ctf::Metadata;
use plumb_trace::reader::Trace;
use std::collections::BTreeMap;

table!(RUNS, Runs, Trace, "runs", "The runs, a row each: on which host, when, what was recorded",
one(r: &Recorded<'_>, c) {
    run_id: Text = filled(&r.of.run_id), "The recording's own id, the same wherever it is copied; none: an older plumb recorded it";
    host: Text = filled(&r.of.host), "Name of the machine";
    machine_id: Text = filled(&r.of.machine_id), "Its machine-id(5); none: it has none";
    boot_id: Text = r.fact("boot_id"), "Id of its boot; none: an older plumb recorded it";
    began: Text = filled(&r.of.began()), "When the run began, UTC as 2026-01-31T12:00:00Z; none: not known";
    began_unix_ns: Integer = r.of.known(), "The same, ns after 1970";
    length_ns: Integer = r.result.end.saturating_sub(r.result.begin), "How long was recorded";
    kernel: Text = filled(&r.of.kernel), "Release of the kernel";
    architecture: Text = r.fact("machine"), "Architecture, as uname(2) has it";
    cpu_model: Text = r.fact("cpu_model"), "Model of the CPUs";
    cpus: Integer = r.cpus(), "CPUs online";
    memory_bytes: Integer = r.memory(), "Memory";
    plumb: Text = filled(&r.of.plumb), "Version of plumb that recorded it";
    target_kind: Text = r.fact("target_kind"), "command, pid, cgroup, everything";
    target: Text = r.fact("target"), "What was recorded";
    events: Integer = r.quality.events, "Events";
    lost: Integer = r.quality.lost + r.quality.operation_events_lost, "Events that were lost";
});

table!(RUN_TABLE, Run, Trace, "run", "What holds for the whole run, a value a row",
value(r: (&str, &str, &str), c) {
    part: Text = r.0, "environment: machine, target and options; quality: how far the trace can be trusted; result: sums";
    key: Text = r.1, "Name";
    value: Text = r.2, "Value; CAST it where it is a number";
});

table!(VERDICT, Verdict, Account, "verdict", "What limits the run, a line a row",
sentence(r: (usize, &str, &str), c) {
    place: Integer = r.0 as u64, "Order; the first line is enough alone";
    kind: Text = filled(r.1), "Kind of limit, see docs/findings.md";
    sentence: Text = r.2, "The line";
});

table!(FINDINGS, Findings, Account, "findings", "Reasons for the target's time, largest first",
finding(f: &Finding, c) {
    finding: Text = &f.id, "Id of the rule, see docs/findings.md";
    title: Text = &f.title, "The rule in words";
    headline: Text = &f.headline, "Cause and place";
    place: Text = filled(&f.place), "Function, device or lock that it is about";
    share: Real = f.share, "Share of the target's time, 0 to 1";
    time_ns: Integer = f.time, "Time";
    speedup: Real = f.speedup.estimate, "Estimated speed-up without it, a factor of at least 1";
    speedup_low: Real = f.speedup.low, "Low end of the estimate's range";
    speedup_high: Real = f.speedup.high, "High end: nine of ten measured speed-ups are between";
    words: Text = &f.words, "What was seen";
    doubt: Text = filled(&f.doubt.join(" ")), "What reduces confidence in it";
    next: Text = &f.next, "The next step";
});

table!(SERVICES, Services, Account, "services", "Services of a machine that was recorded whole, most CPU time first",
service(s: &ServiceDiagnosis, c) {
    service: Text = &s.name, "Unit, container or program; of an interpreter with its script";
    processes: Integer = s.processes, "Its processes, those that ended included";
    cpu_used_ns: Integer = s.cpu_used, "On a CPU";
    busy_ns: Integer = s.busy, "Time in which its threads ran or waited, but for no request";
    requests: Integer = s.requests, "Requests of clients that it answered";
    kind: Text = filled(s.diagnosis.kind.name()), "Kind of limit, see docs/findings.md";
    verdict: Text = s.diagnosis.verdict.first().map(String::as_str), "First line of its verdict";
    finding: Text = s.diagnosis.findings.first().map(|f| f.id.as_str()), "Id of its largest finding";
    share: Real = s.diagnosis.findings.first().map(|f| f.share), "That one's share of its time, 0 to 1";
});

table!(EVIDENCE, Evidence, Account, "evidence", "What findings rest on",
evidence(r: (&Finding, &Evidence), c) {
    finding: Text = &r.0.id, "See findings";
    label: Text = filled(&r.1.label), "What it is, in one or two words";
    words: Text = &r.1.words, "The fact";
    at_ns: Integer = r.1.at, "When; none for a sum";
    time_ns: Integer = r.1.time, "How long";
    tid: Integer = r.1.tid, "Thread";
});

table!(PROFILE, Profile, Profile, "profile",
"The account once more, by call stack. By category, time_ns adds up to the account",
entry(r: (&Profile, &Entry, &str), c) {
    tid: Integer = r.0.threads.get(r.1.thread as usize).map(|t| t.tid).filter(|t| *t > 0), "Thread; none: several of one name";
    pid: Integer = r.0.threads.get(r.1.thread as usize).map(|t| t.pid).filter(|p| *p > 0), "Its process; none: several";
    thread: Text = r.0.threads.get(r.1.thread as usize).map(|t| t.comm.as_str()), "Its last name";
    process: Text = r.0.threads.get(r.1.thread as usize).map(|t| t.process.as_str()), "Name of its process";
    cpu: Integer = r.1.cpu, "CPU that it was sampled on; none: a wait, or not sampled";
    category: Text = r.1.category.name(), "What the time went to, see categories";
    who: Text = r.0.whos.get(r.1.who as usize).and_then(|w| filled(w)), "Thread's name or disk; none: nobody in particular";
    function: Text = innermost(r.0, r.1).map(|f| r.0.functions[f].name.as_str()), "Innermost function; none: no stack was taken";
    module: Text = innermost(r.0, r.1).and_then(|f| r.0.modules.get(r.0.functions[f].module as usize)).map(|m| m.path.as_str()), "File that it lies in; kernel";
    origin: Text = innermost(r.0, r.1).map(|f| origin(r.0.functions[f].origin)), "user, jit (code that the process made itself), kernel";
    time_ns: Integer = r.1.time, "Time";
    samples: Integer = r.1.count, "Samples, or waits";
    stack: Text = filled(r.2), "Functions, innermost first, separated by `;`";
});

table!(HOT, Hot, Profile, "hot", "A few functions of each category, most time first",
hot(h: &HotRow, c) {
    category: Text = &h.category, "Category of the account";
    who: Text = filled(&h.who), "Thread's name or disk that was waited for; none: nobody in particular";
    function: Text = &h.function, "On a CPU the innermost function; of a wait the code that waits";
    module: Text = &h.module, "File that it lies in; kernel";
    origin: Text = origin(h.origin), "user, jit, kernel";
    under: Text = filled(&h.under.join(";")), "Callers from which most of the time comes, innermost first, separated by `;`";
    call: Text = filled(&h.call), "System call in which most of it was spent";
    samples: Integer = h.count, "Samples, or waits";
    time_ns: Integer = h.time, "Time";
    instruction: Text = h.instruction.as_deref(), "Instruction with most of it, where it was looked for";
});

table!(FUNCTIONS, Functions, Samples, "functions", "Functions of the kernel that samples met, most samples first",
function(f: &FunctionRow, c) {
    function: Text = &f.function, "Name";
    at: Text = &f.at, "What it was called for";
    samples: Integer = f.samples, "Samples in it";
});

table!(CPUS, Cpus, Trace, "cpus", "What each CPU did, in sums",
cpu(p: &CpuRow, c) {
    cpu: Integer = p.cpu, "Number";
    busy_ns: Integer = p.busy, "Running threads";
    idle_ns: Integer = p.idle, "Idle";
    interrupts_ns: Integer = p.interrupts, "In interrupts, whatever it ran";
    unseen_ns: Integer = p.unseen, "Before its first event";
    lost_ns: Integer = p.lost, "Events are missing";
    switches: Integer = p.switches, "Switches";
});

table!(OTHERS, Others, Trace, "others", "Threads outside the target, by name",
other(o: &OtherRow, c) {
    thread: Text = &o.comm, "Name";
    threads: Integer = o.threads, "Threads";
    recorder: Integer = o.recorder, "1: the recorder itself";
    cpu_used_ns: Integer = o.cpu_used, "On a CPU";
    cpu_wait_ns: Integer = o.cpu_wait, "Waiting for a CPU";
    accesses: Integer = o.accesses, "Block requests with data";
    bytes: Integer = o.bytes, "Their bytes";
});

table!(UNEXPLAINED, Unexplained, Account, "unexplained", "What the target's unexplained time consists of",
unexplained(u: &UnexplainedRow, c) {
    syscall: Text = (u.syscall != "-").then_some(&u.syscall), "System call; none: outside of any recorded one";
    waits: Integer = u.waits, "Waits";
    time_ns: Integer = u.time, "Their time";
    stack: Text = filled(&u.stack.join(";")), "Kernel stack, innermost first, separated by `;`; none where the wait was below the threshold";
});

table!(COUNTERS, Counters, Trace, "counters", "How far the kernel's counters went from the begin to the end",
counter(r: (&str, u64), c) {
    counter: Text = r.0, "Name";
    value: Integer = r.1, "Difference";
});

/// Place of the innermost frame's function.
fn innermost(profile: &Profile, entry: &Entry) -> Option<usize> {
    let frame = profile.frames_of(entry.stack).first()?;
    Some(frame.function as usize).filter(|f| *f < profile.functions.len())
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::User => "user",
        Origin::Jit => "jit",
        Origin::Kernel => "kernel",
    }
}

/// Sums of a run that no other table has.
fn sums(result: &RunResult) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("begin_ns", result.begin),
        ("end_ns", result.end),
        ("length_ns", result.end.saturating_sub(result.begin)),
        ("path_ns", result.path.time),
        ("samples", result.samples.samples),
        ("retransmits", result.retransmits),
        ("herd_wakeups", result.herds.wakeups),
        ("herd_futile", result.herds.futile),
        ("herd_largest", result.herds.largest.into()),
        ("herd_ns", result.herds.time),
        ("journal_commits", result.journal.commits),
        ("journal_ns", result.journal.time),
    ])
}

/// What tells a run from every other, and what whole fleets are compared by. Empty is not known.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The recording's own.
    pub run_id: String,
    pub host: String,
    /// 32 hexadecimal digits; empty where the machine has none.
    pub machine_id: String,
    pub kernel: String,
    /// Version that recorded it.
    pub plumb: String,
    /// When it began, ns CLOCK_REALTIME, 0 not known.
    pub realtime: u64,
}

impl Identity {
    pub fn of(trace: &Trace) -> Self {
        let Metadata { host, clock_offset, env, .. } = &trace.metadata;
        let fact = |key: &str| env.get(key).cloned().unwrap_or_default();
        let version = env.get("tracer_major").zip(env.get("tracer_minor"));
        Self {
            run_id: fact("run_id"),
            host: fact("hostname"),
            machine_id: host.iter().filter(|_| *host != [0; 16]).map(|b| format!("{b:02x}")).collect(),
            kernel: fact("kernel_release"),
            plumb: version.map_or_else(String::new, |(major, minor)| format!("{major}.{minor}")),
            realtime: if *clock_offset == 0 { 0 } else { setup::realtime(trace, setup::span(trace).0) },
        }
    }

    /// When it began, UTC, as 2026-01-31T12:00:00Z; empty where it is not known.
    pub fn began(&self) -> String {
        self.known().map_or_else(String::new, |ns| utc_of(ns / 1_000_000_000))
    }

    /// When it began, ns after 1970, where that is known.
    pub fn known(&self) -> Option<u64> {
        (self.realtime != 0).then_some(self.realtime)
    }
}

/// Which run it is, and how much of it there is.
pub(super) struct Recorded<'a> {
    of: Identity,
    environment: &'a BTreeMap<String, String>,
    quality: &'a Quality,
    result: &'a RunResult,
}

impl Recorded<'_> {
    fn fact(&self, key: &str) -> Option<&str> {
        filled(self.environment.get(key)?)
    }

    fn cpus(&self) -> Option<u64> {
        cpus_of_list(self.fact("cpus_online")?)
    }

    /// Bytes; /proc/meminfo has it as `24589132 kB`.
    fn memory(&self) -> Option<u64> {
        let (kib, unit) = self.fact("memory")?.split_once(' ')?;
        (unit == "kB").then_some(kib.parse::<u64>().ok()?.checked_mul(1024)?)
    }
}

/// Hands what holds for the whole run to a sink.
pub(super) fn run<S: Sink + ?Sized>(
    Analysis { environment, quality, result, .. }: &Analysis,
    trace: &Trace,
    c: &Context,
    sink: &mut S,
) {
    one(sink, c, &Recorded { of: Identity::of(trace), environment, quality, result });
    environment.iter().for_each(|(k, v)| value(sink, c, ("environment", k, v)));
    let counts = [
        ("events", quality.events),
        ("state_events", quality.state_events),
        ("lost", quality.lost),
        ("gaps", quality.gaps.len() as u64),
        ("operation_events", quality.operation_events),
        ("operation_events_lost", quality.operation_events_lost),
        ("missed", quality.missed),
        ("cut_off", quality.cut_off.into()),
    ];
    counts.iter().for_each(|(k, v)| value(sink, c, ("quality", k, &v.to_string())));
    quality.damage.iter().for_each(|d| value(sink, c, ("quality", "damage", d)));
    quality.no_account.iter().for_each(|e| value(sink, c, ("quality", "no_account", e)));
    for (set, n) in &quality.thinned {
        value(sink, c, ("quality", &format!("thinned.{set}"), n));
    }
    sums(result).iter().for_each(|(k, v)| value(sink, c, ("result", k, &v.to_string())));
    for (what, n) in &result.impossible {
        value(sink, c, ("result", &format!("impossible: {what}"), &n.to_string()));
    }
}

/// Hands diagnosis and everybody else to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, diagnosis: &Diagnosis, c: &Context, sink: &mut S) {
    for (i, words) in diagnosis.verdict.iter().enumerate() {
        sentence(sink, c, (i + 1, if i == 0 { diagnosis.kind.name() } else { "" }, words));
    }
    for f in &diagnosis.findings {
        finding(sink, c, f);
        f.evidence.iter().for_each(|e| evidence(sink, c, (f, e)));
    }
    diagnosis.services.iter().for_each(|s| service(sink, c, s));
    result.hot.iter().for_each(|h| hot(sink, c, h));
    result.samples.functions.iter().for_each(|f| function(sink, c, f));
    result.cpus.iter().for_each(|p| cpu(sink, c, p));
    result.others.iter().for_each(|o| other(sink, c, o));
    result.unexplained.iter().for_each(|u| unexplained(sink, c, u));
    result.counters.iter().for_each(|(k, v)| counter(sink, c, (k, *v)));
}

/// Hands a profile to a sink.
pub(super) fn profile<S: Sink + ?Sized>(profile: &Profile, c: &Context, sink: &mut S) {
    if !sink.wants(&PROFILE) {
        return;
    }
    let mut words: Vec<Option<String>> = vec![None; profile.stacks.len()];
    for e in &profile.entries {
        let at = e.stack as usize;
        let text = words.get_mut(at).map(|w| w.get_or_insert_with(|| functions(profile, e.stack)).as_str());
        entry(sink, c, (profile, e, text.unwrap_or_default()));
    }
}

fn functions(profile: &Profile, stack: u32) -> String {
    let names = profile.frames_of(stack).iter().filter_map(|f| profile.functions.get(f.function as usize));
    names.map(|f| f.name.replace(';', ":")).collect::<Vec<_>>().join(";")
}
