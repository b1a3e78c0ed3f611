// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine is at the beginning of a recording, from /proc and /sys.

use crate::system::{Cpu, Kernel};
use crate::{process, Block, Device, Root};
use plumb_trace::schema::{StateDisk, StateMount, StateTask};
use std::collections::BTreeMap;

/// Facts that stand in the trace's environment.
pub fn environment(root: &Root) -> BTreeMap<String, String> {
    let (kernel, cpu) = (Kernel::read(root), Cpu::read(root));
    let text = |path: &str| root.text(path).unwrap_or_default();
    let memory = text("/proc/meminfo");
    let total = memory.lines().next().and_then(|l| l.split_once(':')).map_or("", |(_, v)| v.trim());
    [
        ("hostname", text("/proc/sys/kernel/hostname")),
        ("boot_id", process::boot(root)),
        ("sysname", "Linux".into()),
        ("kernel_release", kernel.release.unwrap_or_default()),
        ("kernel_version", kernel.version.unwrap_or_default()),
        ("machine", kernel.machine),
        ("cpu_model", cpu.model.unwrap_or_default()),
        ("cpus_online", cpu.online.unwrap_or_default()),
        ("clocksource", crate::system::clocksource(root).unwrap_or_default()),
        ("memory", total.into()),
        ("loadavg", text("/proc/loadavg")),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into()
}

/// A name that nothing else has, from the kernel (random(4)); empty where it cannot be read.
pub fn unique_id(root: &Root) -> String {
    root.text("/proc/sys/kernel/random/uuid").unwrap_or_default()
}

/// The machine's identity; zero where it has none.
pub fn host_id(root: &Root) -> [u8; 16] {
    let mut out = [0; 16];
    let id = root.text("/etc/machine-id").unwrap_or_default();
    for (byte, i) in out.iter_mut().zip((0..id.len().saturating_sub(1)).step_by(2)) {
        *byte = u8::from_str_radix(&id[i..i + 2], 16).unwrap_or(0);
    }
    out
}

/// Whose recordings they are, wherever they are copied.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    pub host: String,
    /// machine-id(5), hexadecimal; empty: there is none.
    pub machine_id: String,
    /// Its release.
    pub kernel: String,
}

impl Identity {
    pub fn read(root: &Root) -> Self {
        let id = host_id(root);
        let machine_id =
            if id == [0; 16] { String::new() } else { id.iter().map(|b| format!("{b:02x}")).collect() };
        let mut facts = environment(root);
        let mut fact = |key: &str| facts.remove(key).unwrap_or_default();
        Self { host: fact("hostname"), machine_id, kernel: fact("kernel_release") }
    }
}

/// Highest CPU number that may come up, plus one.
pub fn possible_cpus(root: &Root) -> u32 {
    let text = root.text("/sys/devices/system/cpu/possible").unwrap_or_default();
    text.rsplit([',', '-']).next().and_then(|n| n.parse::<u32>().ok()).map_or(1, |n| n + 1)
}

/// Time of all CPUs together since boot, ns (/proc/stat, proc_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// In programs, kernel and interrupts.
    pub busy: u64,
    /// With nothing to run, I/O pending or not.
    pub idle: u64,
    /// Taken by other guests of the machine.
    pub stolen: u64,
}

impl CpuTime {
    /// As it is now; `None` where it cannot be read.
    pub fn now(root: &Root) -> Option<Self> {
        let text = root.text("/proc/stat")?;
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks: Vec<u64> =
            text.lines().next()?.split_whitespace().skip(1).map_while(|w| w.parse().ok()).collect();
        // SAFETY: takes a number and gives one.
        let a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|n| *n > 0)?;
        let ns = |i: usize| ticks.get(i).map(|t| t * (1_000_000_000 / a_second));
        let busy = ns(0)? + ns(1)? + ns(2)? + ns(5)? + ns(6)?;
        Some(Self { busy, idle: ns(3)? + ns(4)?, stolen: ns(7)? })
    }
}

/// The threads of a process.
pub fn threads(pid: u32, root: &Root) -> Vec<StateTask> {
    process::threads(pid, root).into_iter().filter_map(|tid| task(pid, tid, root)).collect()
}

/// One thread, unless it is gone.
pub fn task(pid: u32, tid: u32, root: &Root) -> Option<StateTask> {
    let thread = process::Thread::of(pid, tid, root)?;
    let cmdline = if pid == tid { cmdline(pid, root) } else { String::new() };
    let syscall = root.text(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    Some(StateTask {
        tid,
        tgid: pid,
        ppid: thread.parent,
        kernel: u8::from(thread.of_the_kernel),
        target: 0,
        syscall: syscall.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(StateTask::NO_SYSCALL),
        comm: thread.name,
        cmdline,
    })
}

/// Command line of a process, arguments separated by a space.
fn cmdline(pid: u32, root: &Root) -> String {
    let bytes = std::fs::read(root.path(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim_end().chars().take(4096).collect()
}

/// Every block device and partition: of each disk its partitions, then itself.
pub fn disks(root: &Root) -> Vec<StateDisk> {
    let mut out = Vec::new();
    for block in Block::disks(root) {
        let (device, dev) = (Device::read(&block, root), block.number.kernel());
        let backing = device.backing_file.map_or(String::new(), |f| f.to_string_lossy().into_owned());
        let disk = StateDisk {
            dev,
            disk: dev,
            rotational: u8::from(device.rotational == Some(true)),
            nr_requests: device.nr_requests.and_then(|n| n.try_into().ok()).unwrap_or(0),
            name: block.name.clone(),
            scheduler: device.scheduler.unwrap_or_default(),
            backing,
        };
        let parts = block.partitions(root);
        out.extend(parts.into_iter().map(|p| StateDisk {
            dev: p.number.kernel(),
            name: p.name,
            ..disk.clone()
        }));
        out.push(disk);
    }
    out
}

/// Every mount of this process's namespace.
pub fn mounts(root: &Root) -> Vec<StateMount> {
    let shown = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    crate::mounts(root)
        .into_iter()
        .map(|mount| StateMount {
            dev: mount.number.kernel(),
            fstype: mount.kind,
            path: shown(mount.point),
            source: shown(mount.source),
            options: mount.options,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_this_very_process() {
        let (me, root) = (std::process::id(), Root::real());
        let tasks = threads(me, &root);
        let task = tasks.iter().find(|t| t.tid == me).expect("this process");
        assert!(!task.comm.is_empty() && task.kernel == 0);
        assert!(task.cmdline.contains("plumb_machine"), "{}", task.cmdline);
        assert!(mounts(&root).iter().any(|m| m.fstype == "proc"));
        assert!(possible_cpus(&root) >= 1);
    }

    #[test]
    fn partitions_have_their_disks_queue() {
        let fake = crate::Fake::new();
        fake.disk("sda", "8:0").partition("sda", "sda1", "8:1");
        fake.put("/sys/block/sda/queue/scheduler", "none [mq-deadline]\n");
        fake.put("/sys/block/sda/queue/nr_requests", "64\n");
        fake.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        // As the kernel lists disks, not as a glob would.
        std::fs::create_dir_all(fake.path("/sys/block/sda")).unwrap();
        let found = disks(&fake.root());
        let names: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.dev, d.disk)).collect();
        assert_eq!(names, [("sda1", 8 << 20 | 1, 8 << 20), ("sda", 8 << 20, 8 << 20)]);
        assert!(found.iter().all(|d| d.scheduler == "mq-deadline" && d.nr_requests == 64));
        assert_eq!(host_id(&fake.root())[..2], [0x01, 0x23]);
    }
}
