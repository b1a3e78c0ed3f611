// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that change the system, and what removes what a killed one left.

use super::bench::Bench;
use super::calls::Scope;
use super::tracer::Victim;
use anyhow::{Context, Result};
use std::os::unix::fs::symlink;
use std::time::Duration;

pub struct Case {
    pub name: &'static str,
    /// Makes what it works on; its words.
    pub prepare: fn(&mut Bench) -> Result<Vec<String>>,
    /// Commands that name and remove what is left, in their order.
    pub restore: fn(&Bench) -> Vec<Vec<String>>,
    pub scope: fn(&Bench) -> Scope,
    pub victims: &'static [Victim],
    /// It runs until SIGINT, which it gets after that.
    pub interrupt: Option<Duration>,
    /// Survivors are let go of so long after its end.
    pub linger: Option<Duration>,
    /// What it did lasts when nobody kills it.
    pub lasts: bool,
    /// How long those that survive may take to end.
    pub patience: Duration,
    /// Tools without which it cannot run.
    pub tools: &'static [&'static str],
}

const LONG: Duration = Duration::from_secs(60);
/// Of those that have a guardian.
const GUARDED: &[Victim] = &[Victim::Command, Victim::Caller, Victim::All, Victim::Guardian];
const EVERY: &[Victim] = &[Victim::Command, Victim::Caller, Victim::All];

pub const CASES: &[Case] = &[
    Case {
        name: "disk serve",
        prepare: |bench| {
            Ok(words(&[
                "disk",
                "serve",
                "atlas10k4",
                "--size",
                "64M",
                "--no-calibrate",
                "--name",
                &bench.disk_name(),
            ]))
        },
        restore: disks,
        scope: |_| Scope::default(),
        victims: EVERY,
        interrupt: Some(Duration::from_millis(1500)),
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &[],
    },
    Case {
        name: "disk serve --detach",
        prepare: |bench| {
            Ok(words(&[
                "disk",
                "serve",
                "instant",
                "--size",
                "64M",
                "--no-calibrate",
                "--detach",
                "--name",
                &bench.disk_name(),
            ]))
        },
        restore: disks,
        scope: |_| Scope::default(),
        victims: EVERY,
        interrupt: None,
        linger: Some(Duration::from_millis(500)),
        lasts: true,
        // It lives on, and so it should.
        patience: Duration::from_millis(600),
        tools: &[],
    },
    Case {
        name: "disk serve --nbd",
        prepare: |bench| {
            Ok(words(&[
                "disk",
                "serve",
                "instant",
                "--size",
                "64M",
                "--no-device",
                "--nbd",
                "work/nbd.sock",
                "--name",
                &bench.disk_name(),
            ]))
        },
        restore: disks,
        scope: |_| Scope::default(),
        victims: EVERY,
        interrupt: Some(Duration::from_millis(1000)),
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &[],
    },
    Case {
        name: "plan run",
        prepare: plan,
        restore: |_| vec![words(&["plan", "restore", "out"])],
        scope: |bench| Scope { output: Some(bench.dir.join("out")), tree: None },
        victims: GUARDED,
        interrupt: None,
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &["losetup", "mkfs.ext4", "mount", "umount"],
    },
    Case {
        name: "govern",
        prepare: |bench| {
            let device = bench.disk(64)?;
            Ok(words(&["govern", "--protect", &device, "--limit", "1M", "--quiet", "--", "sleep", "0.5"]))
        },
        restore: |_| vec![words(&["govern", "--restore"])],
        scope: |_| Scope::default(),
        victims: GUARDED,
        interrupt: None,
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &["losetup"],
    },
    Case {
        name: "iosched set",
        prepare: |bench| {
            machine(bench)?;
            Ok(words(&["iosched", "set", "sda", "low_depth=4", "--root", "machine"]))
        },
        restore: |_| vec![words(&["iosched", "remove", "sda", "--root", "machine"])],
        scope: tree,
        victims: &[Victim::Command],
        interrupt: None,
        linger: None,
        lasts: true,
        patience: LONG,
        tools: &[],
    },
    Case {
        name: "iosched remove",
        prepare: |bench| {
            machine(bench)?;
            bench.expect(
                ["queue/scheduler", "queue/nr_requests"]
                    .map(|f| bench.dir.join("machine/sys/devices/sda").join(f)),
            );
            let out = bench.command(&words(&["iosched", "set", "sda", "--root", "machine"])).output()?;
            anyhow::ensure!(out.status.success(), "iosched set: {}", String::from_utf8_lossy(&out.stderr));
            let queue = bench.dir.join("machine/sys/devices/sda/queue");
            // As the kernel does it: a choice of all, and defaults of another scheduler.
            std::fs::write(queue.join("scheduler"), "none mq-deadline [lp-deadline]")?;
            std::fs::write(queue.join("nr_requests"), "64")?;
            Ok(words(&["iosched", "remove", "sda", "--root", "machine"]))
        },
        restore: |_| vec![words(&["iosched", "remove", "sda", "--root", "machine"])],
        scope: tree,
        victims: &[Victim::Command],
        interrupt: None,
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &[],
    },
    Case {
        name: "iosched install",
        prepare: |bench| {
            machine(bench)?;
            Ok(words(&[
                "iosched",
                "install",
                "--persistent",
                "--load-early",
                "sda",
                "low_depth=4",
                "--root",
                "machine",
            ]))
        },
        restore: |_| vec![words(&["iosched", "remove", "--persistent", "--root", "machine"])],
        scope: tree,
        victims: &[Victim::Command],
        interrupt: None,
        linger: None,
        lasts: true,
        patience: LONG,
        tools: &[],
    },
    Case {
        name: "load",
        prepare: |_| Ok(words(&["load", "--size", "256K", "--block", "16K", "--time", "200ms", "work"])),
        restore: |_| vec![words(&["load", "clean", "work", "--yes"])],
        scope: |_| Scope::default(),
        victims: EVERY,
        interrupt: None,
        linger: None,
        lasts: false,
        patience: LONG,
        tools: &[],
    },
];

pub fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_string()).collect()
}

fn disks(bench: &Bench) -> Vec<Vec<String>> {
    vec![words(&["disk", "list"]), words(&["disk", "stop", &bench.disk_name(), "--force"])]
}

fn tree(bench: &Bench) -> Scope {
    Scope { output: None, tree: Some(bench.dir.join("machine")) }
}

/// A plan that changes everything that plans can change: a served disk, a file system on it and on a disk of the
/// machine, a queue, a kernel parameter.
fn plan(bench: &mut Bench) -> Result<Vec<String>> {
    let device = bench.disk(64)?;
    let queue = format!("/sys/block/{}/queue/scheduler", device.trim_start_matches("/dev/"));
    let scheduler = std::fs::read_to_string(&queue).context(queue)?;
    let other = scheduler.split_whitespace().find(|w| !w.starts_with('[')).unwrap_or("none");
    let parameter = "/proc/sys/vm/page-cluster";
    let now: u32 = std::fs::read_to_string(parameter)?.trim().parse().context(parameter)?;
    let text = format!(
        r#"name = "killed"
title = "Killed behind every change"
purpose = "Is everything put back?"
hypothesis = "It is."
takes = "10s"
order = "given"
repeat = 1
[device.disk]
path = "{device}"
[device.served]
model = "instant"
size = "64M"
[cell]
device = ["disk", "served"]
file-system = {{ kind = "ext4" }}
queue = {{ scheduler = "{other}", read_ahead_kb = 64, nr_requests = 32 }}
sysctl = {{ "vm.page-cluster" = {} }}
command = ["sh", "-c", "echo x > {{dir}}/new"]
"#,
        now + 1
    );
    std::fs::write(bench.dir.join("killed.toml"), text).context("killed.toml")?;
    Ok(words(&["plan", "run", "killed.toml", "-o", "out"]))
}

/// A tree that stands for a machine with sda, whose kernel has the scheduler: this one need not have it.
fn machine(bench: &Bench) -> Result<()> {
    let root = bench.dir.join("machine");
    let put = |path: &str, text: &str| -> Result<()> {
        let path = root.join(path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    for (path, text) in [
        ("sys/devices/sda/dev", "8:0"),
        ("sys/devices/sda/size", "1000"),
        ("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline"),
        ("sys/devices/sda/queue/nr_requests", "256"),
        ("sys/devices/sda/queue/iosched/low_depth", "1"),
        ("sys/devices/sda/mq/0/cpu_list", "0"),
        ("dev/sda", ""),
        ("proc/sys/kernel/osrelease", "6.1.0"),
        ("proc/modules", ""),
    ] {
        put(path, text)?;
    }
    for (dir, link, up) in
        [("sys/class/block", "sda", "../.."), ("sys/dev/block", "8:0", "../.."), ("sys/block", "sda", "..")]
    {
        std::fs::create_dir_all(root.join(dir))?;
        symlink(format!("{up}/devices/sda"), root.join(dir).join(link))?;
    }
    for dir in ["run/plumb/iosched", "etc/udev/rules.d", "etc/modules-load.d"] {
        std::fs::create_dir_all(root.join(dir))?;
    }
    Ok(())
}
