// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine is at the beginning of a recording, from /proc and /sys.

use plumb_trace::schema::{StateClock, StateDisk, StateMount, StateTask};
use std::collections::BTreeMap;
use std::path::Path;

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

/// Reads one clock, ns.
pub fn clock(id: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is valid for writing.
    unsafe { libc::clock_gettime(id, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// CLOCK_MONOTONIC, the trace's clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The three clocks together: of five tries the one with the least time between
/// the two MONOTONIC readings around it.
pub fn clocks() -> StateClock {
    (0..5)
        .map(|_| {
            let before = now();
            let (boottime, realtime) = (clock(libc::CLOCK_BOOTTIME), clock(libc::CLOCK_REALTIME));
            let after = now();
            (after - before, StateClock { monotonic: before + (after - before) / 2, boottime, realtime })
        })
        .min_by_key(|(width, _)| *width)
        .expect("five tries")
        .1
}

/// Facts that stand in the trace's environment.
pub fn environment() -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let mut put = |key: &str, value: String| drop(env.insert(key.into(), value));
    put("hostname", read("/proc/sys/kernel/hostname"));
    put("sysname", "Linux".into());
    put("kernel_release", read("/proc/sys/kernel/osrelease"));
    put("kernel_version", read("/proc/sys/kernel/version"));
    put("machine", std::env::consts::ARCH.into());
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        cpuinfo
            .lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_once(':'))
            .map(|(_, v)| v.trim().to_string())
    };
    put("cpu_model", field("model name").unwrap_or_default());
    put("cpus_online", read("/sys/devices/system/cpu/online"));
    put("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    let memory = read("/proc/meminfo");
    put(
        "memory",
        memory.lines().next().and_then(|l| l.split_once(':')).map_or(String::new(), |(_, v)| v.trim().into()),
    );
    put("loadavg", read("/proc/loadavg"));
    env
}

/// The machine's identity; zero where it has none.
pub fn host_id() -> [u8; 16] {
    let mut out = [0; 16];
    let id = read("/etc/machine-id");
    for (byte, i) in out.iter_mut().zip((0..id.len().saturating_sub(1)).step_by(2)) {
        *byte = u8::from_str_radix(&id[i..i + 2], 16).unwrap_or(0);
    }
    out
}

/// Highest CPU number that may come up, plus one.
pub fn possible_cpus() -> u32 {
    let text = read("/sys/devices/system/cpu/possible");
    text.rsplit([',', '-']).next().and_then(|n| n.parse::<u32>().ok()).map_or(1, |n| n + 1)
}

pub fn processes() -> Vec<u32> {
    let Ok(procs) = std::fs::read_dir("/proc") else { return Vec::new() };
    procs.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<StateTask> {
    let Ok(tids) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tids = tids.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    tids.filter_map(|tid| task(pid, tid)).collect()
}

/// One thread, unless it is gone.
pub fn task(pid: u32, tid: u32) -> Option<StateTask> {
    let dir = format!("/proc/{pid}/task/{tid}");
    let stat = std::fs::read_to_string(format!("{dir}/stat")).ok()?;
    // The name may hold blanks and parentheses, so it ends at the last one.
    let (head, tail) = stat.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_string();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let cmdline = if pid == tid { cmdline(pid) } else { String::new() };
    let syscall = read(format!("{dir}/syscall"));
    Some(StateTask {
        tid,
        tgid: pid,
        ppid: fields.get(1)?.parse().ok()?,
        kernel: u8::from(flags & 0x0020_0000 != 0),
        target: 0,
        syscall: syscall.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(-1),
        comm,
        cmdline,
    })
}

/// Command line of a process, arguments separated by a space.
pub fn cmdline(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim_end().chars().take(4096).collect()
}

fn device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// Every block device and partition.
pub fn disks() -> Vec<StateDisk> {
    let mut out = Vec::new();
    let Ok(blocks) = std::fs::read_dir("/sys/block") else { return out };
    for entry in blocks.flatten() {
        let (dir, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let Some(dev) = device_number(&read(dir.join("dev"))) else { continue };
        let scheduler = read(dir.join("queue/scheduler"));
        let scheduler = scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler).to_string();
        let disk = StateDisk {
            dev,
            disk: dev,
            rotational: u8::from(read(dir.join("queue/rotational")) == "1"),
            nr_requests: read(dir.join("queue/nr_requests")).parse().unwrap_or(0),
            name: name.clone(),
            scheduler,
            backing: read(dir.join("loop/backing_file")),
        };
        let parts = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        for part in parts.filter(|p| p.path().join("partition").exists()) {
            if let Some(dev) = device_number(&read(part.path().join("dev"))) {
                let name = part.file_name().to_string_lossy().into_owned();
                out.push(StateDisk { dev, name, ..disk.clone() });
            }
        }
        out.push(disk);
    }
    out
}

/// Every mount of this process's namespace.
pub fn mounts() -> Vec<StateMount> {
    read("/proc/self/mountinfo")
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            Some(StateMount {
                dev: device_number(left.get(2)?)?,
                fstype: (*right.first()?).into(),
                path: (*left.get(4)?).into(),
                source: (*right.get(1)?).into(),
                options: format!("{},{}", left.get(5)?, right.get(2)?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_this_very_process() {
        let me = std::process::id();
        assert!(processes().contains(&me));
        let tasks = threads(me);
        let task = tasks.iter().find(|t| t.tid == me).expect("this process");
        assert!(!task.comm.is_empty() && task.kernel == 0);
        assert!(task.cmdline.contains("plumb_probe"), "{}", task.cmdline);
        assert!(mounts().iter().any(|m| m.fstype == "proc"));
        assert!(possible_cpus() >= 1);
    }

    #[test]
    fn the_clocks_agree() {
        let c = clocks();
        assert!(c.boottime >= c.monotonic - 1_000_000 && c.realtime > c.boottime);
    }
}
