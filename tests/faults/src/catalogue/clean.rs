// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy programs: any finding that they do not honestly deserve is a false alarm.

use super::dose;
use crate::load::{healthy, Dose, Load};
use crate::setup::Stage;
use anyhow::{Context, Result};
use std::fmt::Write as _;

pub struct Clean {
    /// Its name on the command line.
    pub name: &'static str,
    /// The findings that are true of it: a compressor does use the CPU.
    pub honest: &'static [&'static str],
    pub setup: fn(&mut Stage) -> Result<()>,
    pub what: What,
}

/// What a clean run does.
pub enum What {
    /// A command for the shell, in the stage's directory.
    Shell(&'static str),
    /// A load of this program.
    Load(Load, Dose),
}

const CPU: &[&str] = &["cpu.user", "cpu.kernel"];
/// It ends with fsync(2), and waits for that.
const SYNCED: &[&str] = &["cpu.kernel", "cpu.user", "device.saturated", "sync.write"];
/// New processes and fresh memory mean page faults.
const PROCESSES: &[&str] = &["cpu.user", "cpu.kernel", "memory.faults", "cpu.wakeup"];
/// Two jobs and their maker on a machine of two CPUs.
const JOBS: &[&str] = &["cpu.user", "cpu.kernel", "memory.faults", "cpu.wakeup", "cpu.crowded"];
/// In a pipeline the quick stages wait for the slowest one.
/// The scheduler puts both ends of a pipe on one CPU, or has the other wake from idle.
const PIPELINE: &[&str] = &["cpu.user", "cpu.kernel", "peer.process", "cpu.crowded", "cpu.wakeup"];
/// A single stream that keeps the disk at work, the copying from the cache and
/// the wakeups of an idle CPU included.
const STREAM: &[&str] = &["cpu.kernel", "cpu.user", "device.saturated", "io.depth", "cpu.wakeup"];

/// Both, with pipes between the processes.
const GIT: &[&str] = &[
    "cpu.user",
    "cpu.kernel",
    "memory.faults",
    "cpu.wakeup",
    "cpu.crowded",
    "peer.process",
    "device.saturated",
    "sync.write",
];

fn nothing(_: &mut Stage) -> Result<()> {
    Ok(())
}

fn data(stage: &mut Stage) -> Result<()> {
    stage.data(64)
}

/// Source and copy in memory: no disk has a part in it.
fn data_in_memory(stage: &mut Stage) -> Result<()> {
    stage.in_memory()?;
    stage.data(64)
}

/// Lines of words, as text is.
fn text(stage: &mut Stage) -> Result<()> {
    lines(stage, 400_000)
}

fn short_text(stage: &mut Stage) -> Result<()> {
    lines(stage, 150_000)
}

fn lines(stage: &Stage, count: u64) -> Result<()> {
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..count {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(text, "{:08x} line {i} of a text with words and numbers {}", x >> 32, x >> 50)?;
    }
    std::fs::write(stage.place.dir.join("text"), text).context("text")
}

/// Twelve hundred small files in forty directories, which stay in the cache.
fn tree(stage: &mut Stage) -> Result<()> {
    for d in 0..40 {
        let dir = stage.place.dir.join(format!("tree/d{d}"));
        std::fs::create_dir_all(&dir)?;
        for f in 0..30 {
            std::fs::write(dir.join(format!("f{f}")), format!("file {f} of {d}\n").repeat(400))?;
        }
    }
    Ok(())
}

fn source(stage: &mut Stage) -> Result<()> {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for i in 0..120 {
        writeln!(
            text,
            "int f{i}(int n) {{ int s = {i}; for (int j = 0; j < n; j++) s += j * s % 7; return s; }}"
        )?;
    }
    text.push_str("int main(void) { printf(\"%d\\n\", f0(3)); return 0; }\n");
    std::fs::write(stage.place.dir.join("program.c"), text).context("program.c")
}

/// A cold file on a quick disk.
fn cold(stage: &mut Stage) -> Result<()> {
    stage.fast_device(384)?;
    stage.ext4("defaults")?;
    stage.cold_data(256)
}

fn disk(stage: &mut Stage) -> Result<()> {
    stage.fast_device(384)?;
    stage.ext4("defaults")
}

fn raw_disk(stage: &mut Stage) -> Result<()> {
    stage.fast_device(384)?;
    let device = stage.place.device.as_deref().context("no device")?;
    Ok(std::os::unix::fs::symlink(device, stage.place.dir.join("raw"))?)
}

fn client(stage: &mut Stage) -> Result<()> {
    stage.neighbour(&["client", "--gap", "20000"])
}

pub const CLEAN: &[Clean] = &[
    Clean { name: "cp-cached", honest: CPU, setup: data_in_memory, what: What::Shell("for i in 1 2 3 4 5 6; do cp data copy$i; done") },
    Clean { name: "tar", honest: PIPELINE, setup: tree, what: What::Shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do tar cf - tree | cat > /dev/null; done") },
    Clean { name: "gzip", honest: &["cpu.user"], setup: short_text, what: What::Shell("exec gzip -c text > /dev/null") },
    Clean { name: "sort", honest: PROCESSES, setup: text, what: What::Shell("LC_ALL=C exec sort --parallel=1 -o /dev/null text") },
    Clean { name: "grep-tree", honest: CPU, setup: tree, what: What::Shell("for i in $(seq 24); do grep -r 'file 7[0-9] of 3x' tree; done; true") },
    Clean { name: "sha256sum", honest: CPU, setup: data, what: What::Shell("exec sha256sum data") },
    Clean { name: "dd-cold", honest: STREAM, setup: cold, what: What::Shell("exec dd if=data of=/dev/null bs=1M") },
    Clean { name: "find", honest: PROCESSES, setup: tree, what: What::Shell("for i in $(seq 30); do find tree -type f -size +1k -newermt 2001-01-01 > /dev/null; done") },
    Clean { name: "short-commands", honest: PROCESSES, setup: nothing, what: What::Shell("i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done") },
    Clean { name: "make", honest: JOBS, setup: source, what: What::Shell("printf 'all: a.o b.o c.o d.o\\na.o b.o c.o d.o: program.c\\n\\tcc -O1 -c -o $@ program.c\\n' > Makefile; exec make -s -r -j2") },
    Clean { name: "python-start", honest: PROCESSES, setup: nothing, what: What::Shell("for i in 1 2 3 4 5 6; do python3 -c 'import json, re, argparse'; done") },
    Clean { name: "pipeline", honest: PIPELINE, setup: text, what: What::Shell("cut -d' ' -f1 text | LC_ALL=C sort --parallel=1 | uniq -c | wc -l > /dev/null") },
    // fio's first process sleeps while its job works.
    Clean { name: "fio-sequential", honest: &["cpu.kernel", "cpu.user", "device.saturated", "wait.sleep", "memory.faults"], setup: raw_disk, what: What::Shell("exec fio --name=j --filename=raw --rw=read --bs=1M --direct=1 --ioengine=libaio --iodepth=8 --size=384M --loops=4 --output=/dev/null") },
    Clean { name: "copy-and-sync", honest: SYNCED, setup: disk, what: What::Shell("exec dd if=/dev/zero of=copy bs=1M count=128 conv=fsync") },
    Clean { name: "thread-pool", honest: &["cpu.user"], setup: nothing, what: What::Load(healthy::pool, dose(300, 2_000, 0, 2)) },
    // It waits for its clients, which is what a service is for.
    Clean { name: "idle-service", honest: &[], setup: client, what: What::Load(healthy::service, dose(40, 300, 0, 1)) },
    Clean { name: "sqlite", honest: SYNCED, setup: disk, what: What::Shell("exec sqlite3 db \"create table t(a integer primary key, b text); begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i, hex(i * 7919) from n; commit; select count(*), max(b) from t;\"") },
    Clean { name: "awk", honest: PROCESSES, setup: text, what: What::Shell("exec awk '{ n[substr($1, 1, 3)] += NF } END { for (i in n) s += n[i]; print s }' text") },
    Clean { name: "sed", honest: CPU, setup: text, what: What::Shell("exec sed -e 's/[0-9]\\+ of/& of/' -e '/7$/d' text") },
    Clean { name: "perl", honest: PROCESSES, setup: short_text, what: What::Shell("exec perl -ne '$n{$_}++ for split; END { print scalar keys %n }' text") },
    Clean { name: "xz", honest: PROCESSES, setup: short_text, what: What::Shell("exec xz -1 -T1 -c text") },
    Clean { name: "copy-tree", honest: PROCESSES, setup: tree, what: What::Shell("for i in 1 2 3 4; do cp -r tree tree$i; done") },
    Clean { name: "untar", honest: PIPELINE, setup: tree, what: What::Shell("tar cf t.tar tree; for i in 1 2 3 4; do mkdir d$i; tar xf t.tar -C d$i; done") },
    Clean { name: "cc", honest: PROCESSES, setup: source, what: What::Shell("exec cc -O2 -o program program.c") },
    // It syncs what it packs, and its steps are processes.
    Clean { name: "git-gc", honest: GIT, setup: tree, what: What::Shell("export HOME=. GIT_CONFIG_NOSYSTEM=1; git init -q; git add tree; git -c user.name=a -c user.email=a@b commit -q -m all; exec git gc -q") },
    Clean { name: "bc", honest: &["cpu.user"], setup: nothing, what: What::Shell("echo 'scale=1200; 4*a(1)' | exec bc -l > /dev/null") },
];
