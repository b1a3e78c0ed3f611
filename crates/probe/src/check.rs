// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording needs, what was found, what a lack costs, how to mend it.
//! Changes nothing: it reads files and loads one program that it never attaches.

use crate::load::{Available, Knobs, Loaded};
use crate::select::{Selection, DEFAULT_EVENTS};
use crate::span;
use plumb_machine::system::available_memory;
use plumb_machine::{host, namespaces, Root};
use plumb_trace::{event_by_name, kernel_events, sets};
use serde::Serialize;
use std::mem::MaybeUninit;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Recording works, with less.
    Less,
    Missing,
}

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: String,
    pub status: Status,
    pub found: String,
    /// What its lack costs; empty when nothing lacks.
    pub cost: String,
    /// Command or step that mends it; empty when nothing lacks.
    pub fix: String,
}

fn check(name: &str, status: Status, found: impl Into<String>, cost: &str, fix: &str) -> Check {
    let (cost, fix) = if status == Status::Ok { ("", "") } else { (cost, fix) };
    Check { name: name.into(), status, found: found.into(), cost: cost.into(), fix: fix.into() }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|s| s.trim().to_string())
}

pub fn run() -> Vec<Check> {
    let mut out = vec![kernel(), architecture(), capabilities(), lockdown()];
    match Available::new() {
        Err(e) => out.push(check(
            "BTF",
            Status::Missing,
            format!("{e:#}").split(':').next().unwrap_or_default(),
            "no event can be recorded: BTF tells where the kernel's fields lie",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (stock Debian 11+, Ubuntu 20.10+, Fedora, RHEL 8.2+ have it)",
        )),
        Ok(available) => {
            let size = std::fs::metadata("/sys/kernel/btf/vmlinux").map_or(0, |m| m.len());
            out.push(check("BTF", Status::Ok, format!("/sys/kernel/btf/vmlinux, {} KiB", size / 1024), "", ""));
            out.push(program());
            out.extend(sets().iter().map(|set| tracepoints(set, &available)));
        }
    }
    out.extend([namespaces(), spans(), jit(), symbols(), memory(), clock()]);
    out
}

fn kernel() -> Check {
    let (release, version) = span::kernel_version();
    let status = if version >= (5, 18) { Status::Ok } else { Status::Missing };
    check(
        "kernel",
        status,
        release,
        "sched_switch carries prev_state only since 5.18, and the BPF features used came before it",
        "boot a kernel from 5.18 on; 6.1, 6.12 and 6.18 are tested",
    )
}

fn architecture() -> Check {
    let known = std::env::consts::ARCH;
    check(
        "architecture",
        if known == "x86_64" { Status::Ok } else { Status::Less },
        known,
        "machine code is shown as words, loads take their time from clock_gettime(2), and there are no events of page faults, \
         local timers and calls between CPUs",
        "none is needed for the account: these are for x86-64 alone",
    )
}

/// The capabilities in force, include/uapi/linux/capability.h.
fn capabilities() -> Check {
    let status = read("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|l| l.strip_prefix("CapEff:")).unwrap_or("0").trim().to_string();
    let caps = u64::from_str_radix(&hex, 16).unwrap_or(0);
    let lacking: Vec<&str> = [(21, "CAP_SYS_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")]
        .into_iter()
        .filter(|(bit, _)| caps >> bit & 1 == 0)
        .map(|(_, name)| name)
        .collect();
    let enough = !lacking.contains(&"CAP_SYS_ADMIN") || lacking == ["CAP_SYS_ADMIN"];
    let found = if lacking.is_empty() {
        "all that are needed".into()
    } else {
        format!("lacking {}", lacking.join(", "))
    };
    check(
        "capabilities",
        if enough { Status::Ok } else { Status::Missing },
        found,
        "BPF programs cannot be loaded",
        "run as root: sudo plumb ...; or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep plumb",
    )
}

fn lockdown() -> Check {
    match read("/sys/kernel/security/lockdown") {
        None => check(
            "lockdown",
            Status::Ok,
            "not told (securityfs is not mounted, or the kernel has none)",
            "",
            "",
        ),
        Some(text) if text.contains("[confidentiality]") => check(
            "lockdown",
            Status::Missing,
            "confidentiality",
            "the kernel forbids BPF programs to read its memory",
            "boot with lockdown=integrity; 'integrity' does not hinder recording",
        ),
        Some(text) => check("lockdown", Status::Ok, text, "", ""),
    }
}

/// Loads the switch program, which uses every feature that the others use.
fn program() -> Check {
    let load = || -> anyhow::Result<()> {
        let selection = Selection::parse("sched_switch")?;
        let knobs = Knobs { ring_bytes: 1 << 16, stack_threshold: 1, ..Default::default() };
        let mut object = MaybeUninit::uninit();
        Loaded::load(&mut object, &["sched_switch"], &selection, &knobs, 1).map(drop)
    };
    match load() {
        Ok(()) => check("load a program", Status::Ok, "sched_switch loads", "", ""),
        Err(e) => check(
            "load a program",
            Status::Missing,
            format!("{e:#}"),
            "nothing can be recorded",
            "see capabilities above; as root, 'PLUMB_LIBBPF_LOG=1 plumb check' shows the kernel's own words",
        ),
    }
}

fn tracepoints(set: &str, available: &Available) -> Check {
    let of_set = || kernel_events().filter(|e| e.set == set);
    let lacking: Vec<&str> =
        of_set().filter(|e| !available.has(e.tracepoint)).map(|e| e.tracepoint).collect();
    let by_default = Selection::parse(DEFAULT_EVENTS).is_ok_and(|s| {
        lacking.iter().any(|l| s.events.iter().any(|e| event_by_name(e).is_some_and(|i| i.tracepoint == *l)))
    });
    let status = if lacking.is_empty() { Status::Ok } else { Status::Less };
    let found = if lacking.is_empty() {
        format!("all {} tracepoints", of_set().count())
    } else {
        format!("lacking {}", lacking.join(", "))
    };
    let cost = if by_default {
        "events of the default account: what they would tell becomes unexplained time"
    } else {
        "these events are left out; the default account does not need them"
    };
    check(
        &format!("set {set}"),
        status,
        found,
        cost,
        "load the module that has them (ext4, xfs, btrfs), or do without",
    )
}

/// Where spans can begin and end.
fn spans() -> Check {
    let (user, kernel) = (span::has_uprobes(), span::has_kprobes());
    let found = [(user, "functions of programs (uprobes)"), (kernel, "functions of the kernel (kprobes)")];
    let told = found.map(|(has, what)| if has { what.to_string() } else { format!("no {what}") });
    check(
        "spans",
        if user && kernel { Status::Ok } else { Status::Less },
        told.join("; "),
        "--span cannot name what is lacking; no other recording needs it",
        match (user, kernel) {
            (true, _) => "boot a kernel with CONFIG_KPROBE_EVENTS, as distributions ship",
            (false, true) => "boot a kernel with CONFIG_UPROBE_EVENTS, as distributions ship",
            (false, false) => {
                "boot a kernel with CONFIG_UPROBE_EVENTS and CONFIG_KPROBE_EVENTS, as distributions ship"
            }
        },
    )
}

/// Those of this process, which the kernel's events know nothing of.
fn namespaces() -> Check {
    let root = Root::real();
    let pid = namespaces::pid_namespace(&root);
    let ahead = namespaces::monotonic_ahead(&root);
    let mut found = match pid {
        None => "the first PID namespace".to_string(),
        Some(_) => {
            "a PID namespace of its own: processes outside of it have neither pid nor arguments".into()
        }
    };
    if ahead != 0 {
        found += "; a time namespace, whose clock is translated";
    }
    let own = pid.is_none() || namespaces::proc_is_own(&root);
    check(
        "namespaces",
        if own { Status::Ok } else { Status::Missing },
        found,
        "/proc is of another PID namespace: threads cannot be told apart",
        "unshare --mount-proc, or mount -t proc proc /proc",
    )
}

fn jit() -> Check {
    let on = read("/proc/sys/net/core/bpf_jit_enable");
    let status = if on.as_deref() == Some("0") { Status::Less } else { Status::Ok };
    check(
        "BPF JIT",
        status,
        format!("bpf_jit_enable = {}", on.as_deref().unwrap_or("not told")),
        "programs are interpreted: an event costs several times as much",
        "sysctl net.core.bpf_jit_enable=1",
    )
}

fn symbols() -> Check {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let hidden = text.lines().take(64).all(|l| l.starts_with("0000000000000000"));
    check(
        "kernel symbols",
        if hidden { Status::Less } else { Status::Ok },
        format!(
            "/proc/kallsyms, {} symbols{}",
            text.lines().count(),
            if hidden { ", addresses hidden" } else { "" }
        ),
        "stacks of waits are told as addresses, and fewer waits are understood",
        "run as root, or sysctl kernel.kptr_restrict=0",
    )
}

fn memory() -> Check {
    let root = Root::real();
    let cpus = host::possible_cpus(&root);
    let need = (crate::recorder::default_buffer(cpus) * u64::from(cpus)) >> 20;
    let have = available_memory(&root).unwrap_or(0) >> 20;
    check(
        "memory",
        if have > 2 * need { Status::Ok } else { Status::Less },
        format!("{have} MiB available, rings take {need} MiB"),
        "the rings may not be granted, or press on the workload",
        "give less: plumb record --buffer 1M ...",
    )
}

fn clock() -> Check {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    let fast =
        matches!(source.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page");
    check(
        "clock",
        if fast || !Path::new("/sys/devices/system/clocksource").exists() {
            Status::Ok
        } else {
            Status::Less
        },
        source,
        "reading this clock takes microseconds, for every event",
        "boot with tsc=reliable if the machine's TSC is sound",
    )
}
