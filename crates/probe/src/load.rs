// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads and attaches the BPF programs of a selection, and maps their memory.

use crate::ring::{Ring, SLOT};
use crate::sampling::{Clock, Clocks};
use crate::select::{Selection, THINNABLE};
use crate::skel::{types, OpenPlumbSkel, PlumbSkel, PlumbSkelBuilder};
use crate::span::{self, Condition, Key, Plan, Probe, Site, Source, SourceFrom, MOST_PLACES};
use crate::stack_ring::StackRing;
use crate::stacks::{COPY_SLOTS, LARGEST};
use anyhow::{bail, Context, Result};
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    KprobeOpts, Link, MapCore, MapFlags, OpenObject, PrintLevel, ProgramInput as Input, UprobeOpts,
};
use plumb_machine::{clock, namespaces, Root};
use plumb_trace::event_by_name;
use plumb_trace::schema::StateProbe;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// PLUMB_CHUNK_BYTES
const CHUNK: usize = 65536;
/// The program that the sampling clocks run; every other one is an event's.
const SAMPLER: &str = "cpu_sample";
/// Births, names and ends of threads: without them whose a thread is would not be known behind a pause.
const LIFE: &[&str] = &["sched_fork", "sched_exec", "sched_rename", "sched_exit"];
/// It says how deep the PID namespace of the recorder lies, where that is not the first.
const WHOAMI: &str = "whoami";
/// It runs at the places where spans begin and end.
const SPAN: &str = "span";
/// Processes that say what they wait for.
const MOST_WORDS: u32 = 65_536;
/// PLUMB_NO_ARG
const NO_ARGUMENT: u8 = 255;
/// PLUMB_TASK_TARGET
const TASK_TARGET: u8 = 1;
/// The stacks' ring buffer is at most so large, bytes: it is the kernel's memory from the begin on.
const MOST_STACKS: u64 = 128 << 20;

const _: () = assert!(size_of::<types::plumb_cursor>() == 128);

/// What is fixed before the programs are loaded.
#[derive(Debug, Clone, Default)]
pub struct Knobs {
    /// Bytes of each CPU's ring; rounded up to a power of two.
    pub ring_bytes: u64,
    /// Waits longer than this get their stacks, ns; 0 takes none.
    pub stack_threshold: u64,
    /// The sampling clock; without one no samples are taken.
    pub clock: Option<Clock>,
    /// System calls and stacks of every thread, not of the target.
    pub everyone: bool,
    /// Every event has a program of its own, so that the kernel counts each.
    pub apart: bool,
    /// Only events that the target has a part in.
    pub only_target: bool,
    /// Whole disks whose block events are recorded; empty is all.
    pub devices: Vec<u32>,
    /// Where spans begin and end, and who says what it waits for.
    pub spans: Plan,
}

/// Events of this kernel, by the tracepoints that its BTF lists.
pub struct Available {
    vmlinux: Btf<'static>,
    modules: Vec<String>,
}

impl Available {
    /// Reads the kernel's BTF.
    ///
    /// # Errors
    /// The kernel has none.
    pub fn new() -> Result<Self> {
        let vmlinux = Btf::from_vmlinux()
            .context("no BTF in /sys/kernel/btf/vmlinux: this kernel was built without CONFIG_DEBUG_INFO_BTF, which every \
                      stock Debian, Ubuntu, Fedora, RHEL 8+ and SUSE kernel has; 'plumb check' tells more")?;
        Ok(Self { vmlinux, modules: module_tracepoints() })
    }

    /// Whether the kernel has a tracepoint, in itself or in a loaded module.
    pub fn has(&self, tracepoint: &str) -> bool {
        let name = format!("btf_trace_{tracepoint}");
        self.vmlinux.type_by_name::<Typedef<'_>>(&name).is_some() || self.modules.contains(&name)
    }
}

/// `btf_trace_*` names in the BTF of loaded modules. Their string sections are
/// searched as text: a name stands there whole, ended by a NUL.
fn module_tracepoints() -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir("/sys/kernel/btf").into_iter().flatten().flatten() {
        if entry.file_name() == "vmlinux" {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        names.extend(
            bytes
                .split(|b| *b == 0)
                .filter(|w| w.starts_with(b"btf_trace_"))
                .filter_map(|w| String::from_utf8(w.to_vec()).ok()),
        );
    }
    names
}

/// Splits a selection into what this kernel has and what it lacks.
///
/// # Errors
/// An event that was asked for by its own name is missing.
pub fn resolve(selection: &Selection) -> Result<(Vec<&'static str>, Vec<&'static str>)> {
    let available = Available::new()?;
    let (have, lack): (Vec<_>, Vec<_>) = selection
        .events
        .iter()
        .copied()
        .partition(|name| event_by_name(name).is_some_and(|e| available.has(e.tracepoint)));
    if let Some(name) = lack.iter().find(|n| selection.named.contains(*n)) {
        let tp = event_by_name(name).map_or("", |e| e.tracepoint);
        bail!("event {name}: this kernel has no tracepoint '{tp}' (is its module loaded?); leave it out of --events");
    }
    if have.is_empty() {
        bail!("this kernel has none of the tracepoints that were asked for; 'plumb check' lists them");
    }
    Ok((have, lack))
}

/// Loaded and attached programs, and their mapped memory.
pub struct Loaded<'obj> {
    skel: PlumbSkel<'obj>,
    /// Those of spans, and of threads' lives.
    links: Vec<Link>,
    /// Those that a pause leaves out.
    events: Vec<Link>,
    /// Those of spans that nobody asked for by name.
    unasked: Vec<Link>,
    clocks: Option<Clocks>,
    clock: Option<Clock>,
    /// Where spans begin and end.
    probes: Vec<Probe>,
    /// What could not be attached and is done without, a sentence each.
    pub notes: Vec<String>,
    cpus: u32,
    memory: *const u8,
    memory_len: usize,
    stacks_bytes: u32,
    shift: u32,
    chunk_shift: u32,
}

/// Stacks that were lost, by cause.
#[derive(Debug, Clone, Copy)]
pub struct StacksLost {
    /// The ring buffer was full.
    full: u64,
    /// It was locked by what the sampling clock interrupted.
    busy: u64,
}

impl StacksLost {
    pub fn total(self) -> u64 {
        self.full + self.busy
    }

    /// What they mean, a sentence each.
    pub fn notes(self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.full > 0 {
            notes.push(format!(
                "{} stacks were lost as their buffer was full: take fewer (--sample) or those of longer waits (--stacks)",
                self.full
            ));
        }
        if self.busy > 0 {
            notes.push(format!("{} samples were lost as their buffer was locked at the time", self.busy));
        }
        notes
    }
}

/// Bytes of the stacks' ring buffer, a power of two. `hz`: samples of a CPU a second.
fn stacks_bytes(cpus: u32, hz: u64) -> u32 {
    let by_cpus = (8 << 20) + (u64::from(cpus).saturating_sub(4) * (2 << 20));
    // 50 ms in which every CPU runs a program with deep stacks: so long the reader may have to wait for
    // a CPU itself. At 20 kHz that is 33 MB a CPU.
    let by_rate = u64::from(cpus).saturating_mul(hz / 20).saturating_mul(LARGEST as u64);
    by_cpus.max(by_rate).min(MOST_STACKS).next_power_of_two() as u32
}

/// Detaches what was attached last first: what ends something is there as long as what begins it.
fn close(links: &mut Vec<Link>) {
    while links.pop().is_some() {}
}

/// Calls by which the cost of a span is measured: some milliseconds.
const GAUGED: u32 = 300;

#[inline(never)]
extern "C" fn gauge(n: u32) {
    std::hint::black_box(n);
}

/// Tells the programs what happens at a place.
fn set_place(place: &mut types::plumb_span_place, probe: &Probe) {
    place.span = probe.span as u16;
    place.ends = u8::from(probe.ends);
    if let Some(Condition { argument, value, equal }) = probe.condition {
        (place.condition_arg, place.value) = (argument, value);
        place.condition = if equal { 1 } else { 2 };
    }
    place.length_arg = NO_ARGUMENT;
    match probe.key {
        None => {}
        Some(Key::Number(n)) => (place.key, place.key_arg) = (1, n),
        Some(Key::Text { argument, length, .. }) => {
            let kernel = matches!(probe.site, Site::Kernel(_));
            (place.key, place.key_arg) = (2 + u8::from(kernel), argument);
            place.length_arg = length.unwrap_or(NO_ARGUMENT);
        }
    }
    if let Some(Source { from, bytes, signed }) = probe.source {
        (place.key_bytes, place.key_signed) = (bytes, u8::from(signed));
        // enum plumb_from
        (place.key_from, place.key_arg, place.key_offset) = match from {
            SourceFrom::Register(n) => (1, n, 0),
            SourceFrom::Memory(n, offset) => (2, n, offset),
            SourceFrom::Constant(value) => (3, 0, value),
        };
    }
}

const _: () = assert!(size_of::<types::wait_word>() == 16);
/// Bytes of a value of the table of interpreters.
const PYTHON: usize = size_of::<types::plumb_python>();
const _: () = assert!(PYTHON == 8 + 12 * 2);
const _: () = assert!(size_of::<[types::plumb_span_place; MOST_PLACES]>() == 20 * MOST_PLACES);

/// Has the programs find the recorder's PID namespace, and makes sure that /proc is of the same one.
fn find_level(skel: &PlumbSkel<'_>) -> Result<()> {
    if !namespaces::proc_is_own(&Root::real()) {
        bail!(
            "this process is in a PID namespace of its own, but /proc is of another: threads could not be told apart; \
             mount one, as with 'unshare --fork --pid --mount-proc'"
        );
    }
    let prog = &skel.progs.whoami;
    prog.test_run(Input::default()).map_err(|e| named("find the PID namespace", &e))?;
    let level = skel.maps.data_pid_level_data.as_deref().map_or(0, |d| d.pid_level);
    if level == 0 {
        bail!(
            "this process is in a PID namespace of its own that the kernel's events do not show: run plumb in the \
             first one (of a container: --pid=host, or hostPID: true)"
        );
    }
    Ok(())
}

fn is_end(event: &str) -> bool {
    ["_complete", "_exit", "_end", "_waking", "_wakeup_new"].iter().any(|tail| event.ends_with(tail))
}

fn named(what: &str, e: &libbpf_rs::Error) -> anyhow::Error {
    let hint = match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => "; run as root, or with CAP_BPF and CAP_PERFMON ('plumb check' tells more, PLUMB_LIBBPF_LOG=1 shows the kernel's own words)",
        libbpf_rs::ErrorKind::OutOfMemory => "; give less --buffer",
        _ => "; 'plumb check' tells what is missing, PLUMB_LIBBPF_LOG=1 shows the kernel's own words",
    };
    anyhow::anyhow!("{what}: {e}{hint}")
}

impl<'obj> Loaded<'obj> {
    /// Loads the programs of `events`; none is attached yet.
    ///
    /// # Errors
    /// No permission, no memory, or a kernel that refuses a program.
    pub fn load(
        object: &'obj mut MaybeUninit<OpenObject>,
        events: &[&'static str],
        selection: &Selection,
        knobs: &Knobs,
        cpus: u32,
    ) -> Result<Self> {
        if std::env::var_os("PLUMB_LIBBPF_LOG").is_none() {
            // Pages of verifier output; our error names the way to them.
            libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
        }
        let mut open: OpenPlumbSkel<'_> =
            PlumbSkelBuilder::default().open(object).map_err(|e| named("BPF object", &e))?;
        let slots = (knobs.ring_bytes / SLOT as u64).next_power_of_two().max((CHUNK / SLOT) as u64);
        let shift = slots.trailing_zeros();
        let chunk_shift = shift - (CHUNK / SLOT).trailing_zeros();
        let k = &mut open.maps.rodata_knobs_data.as_deref_mut().context("BPF object without knobs")?.knobs;
        k.slot_mask = slots - 1;
        k.slot_shift = shift;
        k.chunk_shift = chunk_shift;
        k.stack_threshold = knobs.stack_threshold;
        k.syscalls = selection.call_bits();
        for (thin, set) in k.thin.iter_mut().zip(THINNABLE) {
            *thin = selection.thin.get(set).map_or(0, |n| n - 1);
        }
        k.emit_fork = u32::from(events.contains(&"sched_fork"));
        k.emit_exec = u32::from(events.contains(&"sched_exec"));
        k.emit_flow = u32::from(events.contains(&"tcp_flow"));
        k.emit_message = u32::from(events.contains(&"tcp_message"));
        let together = !knobs.apart && events.contains(&"sys_enter") && events.contains(&"futex");
        k.futex_at_enter = u32::from(together);
        let pid_namespace = namespaces::pid_namespace(&Root::real());
        k.pid_namespace = pid_namespace.unwrap_or(0);
        k.everyone = u32::from(knobs.everyone);
        // It wakes all the time, and walking its own stacks would be a good part of its work. In another PID
        // namespace it does not know its id in the first.
        k.recorder = if knobs.everyone && pid_namespace.is_none() { std::process::id() } else { 0 };
        k.only_target = u32::from(knobs.only_target);
        if knobs.devices.len() > k.device.len() {
            bail!("at most {} devices can be named with --device", k.device.len());
        }
        k.devices = knobs.devices.len() as u32;
        k.device[..knobs.devices.len()].copy_from_slice(&knobs.devices);
        let spans = &knobs.spans;
        k.rethook_warns = u32::from(span::kernel_version().1 < (6, 10));
        k.packet_reads = u32::from(span::kernel_version().1 >= (6, 11));
        k.tick = clock::tick();
        k.wait_words = u32::from(!spans.words.is_empty());
        for (place, probe) in k.place.iter_mut().zip(&spans.probes) {
            set_place(place, probe);
        }
        let words = if spans.words.is_empty() { 1 } else { MOST_WORDS };
        open.maps.wait_words.set_max_entries(words).map_err(|e| named("wait_words", &e))?;
        let chunks = cpus << chunk_shift;
        open.maps.ring.set_max_entries(chunks).map_err(|e| named("ring", &e))?;
        let texts = spans.probes.iter().any(|p| matches!(p.key, Some(Key::Text { .. })));
        let stacks_bytes = stacks_bytes(cpus, knobs.clock.map_or(0, Clock::most_hz)) << u32::from(texts);
        open.maps.stacks.set_max_entries(stacks_bytes).map_err(|e| named("stacks", &e))?;
        for mut prog in open.open_object_mut().progs_mut() {
            // A target's descendants are found by these two, whether they are recorded or not.
            let inherits = !knobs.everyone || !spans.words.is_empty();
            let marks = inherits && (prog.name() == "sched_fork" || prog.name() == "sched_exec");
            let bounds = !spans.probes.is_empty() && prog.name() == SPAN;
            let wanted = events.iter().any(|e| prog.name() == *e) && !(together && prog.name() == "futex");
            let samples = knobs.clock.is_some() && prog.name() == SAMPLER;
            let asks = pid_namespace.is_some() && prog.name() == WHOAMI;
            prog.set_autoload(wanted || marks || bounds || samples || asks);
        }
        let skel = open.load().map_err(|e| named("the kernel rejected the BPF programs", &e))?;
        if pid_namespace.is_some() {
            find_level(&skel)?;
        }
        for word in &spans.words {
            let mut value = [0; 16];
            value[..8].copy_from_slice(&word.address.to_ne_bytes());
            value[8..12].copy_from_slice(&word.program.to_ne_bytes());
            let put = skel.maps.wait_words.update(&word.pid.to_ne_bytes(), &value, MapFlags::ANY);
            put.map_err(|e| named("wait_words", &e))?;
        }
        let memory_len = chunks as usize * CHUNK;
        let memory = map(skel.maps.ring.as_fd(), memory_len)?;
        let (links, clock) = (Vec::new(), knobs.clock);
        Ok(Self {
            skel,
            links,
            events: Vec::new(),
            unasked: Vec::new(),
            clocks: None,
            clock,
            probes: knobs.spans.probes.clone(),
            notes: Vec::new(),
            cpus,
            memory,
            memory_len,
            stacks_bytes,
            shift,
            chunk_shift,
        })
    }

    /// Marks threads as the target's.
    pub fn mark(&mut self, tids: &[u32]) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            for tid in tids {
                if let Some(flags) = bss.task_flags.get_mut(*tid as usize) {
                    *flags |= TASK_TARGET;
                }
            }
        }
    }

    /// Starts recording. The programs are attached one after the other, so
    /// those that end something come first: an end without its beginning is
    /// known to be one, a beginning without its end looks as if it went on.
    ///
    /// # Errors
    /// The kernel refuses to attach.
    pub fn attach(&mut self) -> Result<()> {
        self.attach_spans()?;
        self.attach_programs(true)?;
        self.attach_programs(false)
    }

    /// Attaches those of threads' lives, or the others.
    fn attach_programs(&mut self, life: bool) -> Result<()> {
        for ends in [true, false] {
            for prog in self.skel.object().progs_mut() {
                let name = prog.name().to_string_lossy();
                if prog.autoload() && name == SAMPLER {
                    if let (Some(clock), None) = (self.clock, &self.clocks) {
                        self.clocks = Some(Clocks::start(&prog, clock, self.cpus)?);
                    }
                    continue;
                }
                let wanted = prog.autoload() && ![SAMPLER, WHOAMI, SPAN].contains(&&*name);
                if wanted && is_end(&name) == ends && LIFE.contains(&&*name) == life {
                    let link = prog.attach().map_err(|e| named(&format!("attach {name}"), &e))?;
                    if life { &mut self.links } else { &mut self.events }.push(link);
                }
            }
        }
        Ok(())
    }

    /// Stops samples and events, but for those of threads' lives; what is recorded meanwhile is not whole.
    pub fn pause(&mut self) {
        self.clocks.iter().for_each(|clocks| clocks.tick(false));
        close(&mut self.events);
    }

    /// Goes on with them.
    ///
    /// # Errors
    /// The kernel refuses to attach them again.
    pub fn resume(&mut self) -> Result<()> {
        self.clocks.iter().for_each(|clocks| clocks.tick(true));
        self.attach_programs(false).inspect_err(|_| close(&mut self.events))
    }

    /// Places the probes of spans, ends first. One that nobody asked for is left out where it cannot be: its process
    /// may have ended meanwhile.
    fn attach_spans(&mut self) -> Result<()> {
        let mut without_end = Vec::new();
        for ends in [true, false] {
            for (n, probe) in self.probes.iter().enumerate().filter(|(_, p)| p.ends == ends) {
                let (program, cookie, retprobe) = (&self.skel.progs.span, n as u64, probe.returns);
                let attached = match &probe.site {
                    Site::File(file, offset, semaphore) => {
                        let ref_ctr_offset = *semaphore as usize;
                        let opts = UprobeOpts { cookie, retprobe, ref_ctr_offset, ..UprobeOpts::default() };
                        program.attach_uprobe_with_opts(-1, file, *offset as usize, opts)
                    }
                    Site::Kernel(function) => {
                        let opts = KprobeOpts { cookie, ..KprobeOpts::default() };
                        program.attach_kprobe_with_opts(retprobe, function, opts)
                    }
                };
                match attached {
                    Ok(_) if without_end.contains(&probe.span) => {}
                    Ok(link) if probe.unasked => self.unasked.push(link),
                    Ok(link) => self.links.push(link),
                    Err(e) if probe.unasked => {
                        self.notes.push(named(&format!("no spans of {}", probe.site), &e).to_string());
                        without_end.push(probe.span);
                    }
                    Err(e) => return Err(named(&format!("attach to {}", probe.site), &e)),
                }
            }
        }
        Ok(())
    }

    /// What a span costs the program on this machine, ns: the traps of two probes, measured on a function of ours.
    pub fn span_cost(&self) -> Option<u64> {
        let offset = span::own_offset(gauge as *const () as u64)?;
        let time = || {
            let begin = Instant::now();
            (0..GAUGED).for_each(|n| gauge(std::hint::black_box(n)));
            begin.elapsed().as_nanos() as u64 / u64::from(GAUGED)
        };
        let bare = time();
        let mut links = Vec::new();
        for retprobe in [false, true] {
            // A place that is none: the program returns at once.
            let opts = UprobeOpts { cookie: u64::from(u32::MAX), retprobe, ..UprobeOpts::default() };
            let own = std::process::id() as i32;
            links.push(
                self.skel
                    .progs
                    .span
                    .attach_uprobe_with_opts(own, "/proc/self/exe", offset as usize, opts)
                    .ok()?,
            );
        }
        Some(time().saturating_sub(bare))
    }

    /// Stops the spans that nobody asked for by name; tells whether there were any.
    pub fn detach_unasked(&mut self) -> bool {
        let any = !self.unasked.is_empty();
        close(&mut self.unasked);
        any
    }

    /// Stops recording. Returns when no program runs any more.
    pub fn detach(&mut self) {
        self.clocks = None;
        close(&mut self.unasked);
        close(&mut self.events);
        close(&mut self.links);
        // A program that was entered before its link closed ends within a grace period.
        // SAFETY: a system call without arguments in memory.
        unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) };
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    pub fn ring(&self, cpu: u32) -> Ring<'_> {
        let cursors = self.skel.maps.data_cursors_data.as_deref().expect("mapped at load");
        let head = &raw const cursors.cursors[cpu as usize].head;
        let base = (cpu as usize) << self.chunk_shift;
        // SAFETY: the head lives in memory that libbpf mapped as long as the skeleton lives,
        // 8-aligned; the ring's memory was mapped for all CPUs and is unmapped only in drop.
        unsafe { Ring::new(AtomicU64::from_ptr(head.cast_mut()), self.memory.add(base * CHUNK), self.shift) }
    }

    pub fn slots(&self) -> u64 {
        1 << self.shift
    }

    /// Reader of the stacks; there must be only one.
    ///
    /// # Errors
    /// The ring buffer cannot be mapped.
    pub fn stacks(&self) -> Result<StackRing> {
        let size = self.stacks_bytes as usize;
        StackRing::open(self.skel.maps.stacks.as_fd(), size)
            .with_context(|| format!("map {} MiB of stacks", size >> 20))
    }

    /// Stacks that were lost so far.
    pub fn stacks_lost(&self) -> StacksLost {
        let [full, busy] = self.skel.maps.data_counts_data.as_deref().map_or([0; 2], |c| c.stacks_lost);
        StacksLost { full, busy }
    }

    /// From its next stack on, a thread's user stacks are copied by this class.
    pub fn copy_more(&mut self, tid: u32, class: u8) {
        let classes = self.skel.maps.data_copy_class_data.as_deref_mut();
        if let Some(place) = classes.and_then(|c| c.copy_class.get_mut(tid as usize % COPY_SLOTS)) {
            *place = class.max(*place);
        }
    }

    /// Tells where a process's interpreter has its threads' frames, or that it ended. Where the table is full,
    /// its stacks have none of them.
    pub fn python(&mut self, pid: u32, python: Option<&types::plumb_python>) {
        let (pythons, key) = (&self.skel.maps.pythons, pid.to_ne_bytes());
        let _ = match python {
            Some(value) => {
                // SAFETY: plain integers without padding, of the size that the map has (asserted above).
                let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), PYTHON) };
                pythons.update(&key, bytes, MapFlags::ANY)
            }
            None => pythons.delete(&key),
        };
    }

    /// Runs and misses of every program.
    pub fn probes(&self) -> Vec<StateProbe> {
        let progs = self.skel.object().progs();
        progs
            .filter(|p| p.autoload() && p.name() != WHOAMI)
            .map(|p| {
                let (runs, missed) = prog_counts(p.as_fd());
                StateProbe { runs, missed, name: p.name().to_string_lossy().into_owned() }
            })
            .collect()
    }

    /// Run time and runs of every program, ns; zero unless the kernel counts them.
    pub fn costs(&self) -> Vec<(String, u64, u64)> {
        let progs = self.skel.object().progs();
        progs
            .filter(|p| p.autoload())
            .map(|p| {
                let info = prog_info(p.as_fd());
                (p.name().to_string_lossy().into_owned(), info.run_time_ns, info.run_cnt)
            })
            .collect()
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        self.clocks = None;
        self.events.clear();
        self.links.clear();
        // SAFETY: mapped in load with this length, and no Ring outlives self.
        unsafe { libc::munmap(self.memory.cast_mut().cast(), self.memory_len) };
    }
}

fn map(fd: BorrowedFd<'_>, len: usize) -> Result<*const u8> {
    // SAFETY: a new read-only mapping of a descriptor that is open.
    let p = unsafe {
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
    };
    if p == libc::MAP_FAILED {
        let e = std::io::Error::last_os_error();
        return Err(e).with_context(|| format!("map {} MiB of ring memory", len >> 20));
    }
    Ok(p.cast())
}

fn prog_info(fd: BorrowedFd<'_>) -> libbpf_sys::bpf_prog_info {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: info is plain data of the length that is passed.
    let ret = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), (&raw mut info).cast(), &mut len) };
    if ret != 0 {
        return libbpf_sys::bpf_prog_info::default();
    }
    info
}

fn prog_counts(fd: BorrowedFd<'_>) -> (u64, u64) {
    let info = prog_info(fd);
    (info.run_cnt, info.recursion_misses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stacks_buffer_grows_with_the_cpus_and_the_rate() {
        let mib = |cpus| stacks_bytes(cpus, 199) >> 20;
        assert_eq!([1, 4, 5, 8, 9, 32, 64, 512].map(mib), [8, 8, 16, 16, 32, 64, 128, 128]);
        let mib = |hz| stacks_bytes(2, hz) >> 20;
        assert_eq!([0, 999, 4_000, 10_000, 20_000, u64::MAX].map(mib), [8, 8, 16, 32, 64, 128]);
    }
}
