// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said at the end.

use super::{version, Came, Whole};
use crate::changes::Changes;
use crate::cli::GovernArgs;
use anyhow::Result;
use plumb_govern::account::{Done, Part};
use plumb_govern::governor::Outcome;
use plumb_govern::rate::megabytes;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::plain;
use plumb_report::terminal::Table;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Serialize)]
struct Governed<'a> {
    /// Version of plumb.
    plumb: &'static str,
    /// `v1` or `v2`.
    cgroup: &'static str,
    /// Cgroups whose I/O is in the background.
    low: Vec<String>,
    /// Cgroups whose I/O is in the foreground.
    protected_cgroups: Vec<String>,
    /// Background I/O is unlimited after so long without foreground I/O.
    delay_ns: u64,
    /// Of foreground requests, where the limit is steered by one.
    target_ns: Option<u64>,
    elapsed_ns: u64,
    /// Processor time of plumb itself.
    cpu_s: f64,
    /// `requests`, or `sums` where requests could not be watched.
    watch: &'static str,
    /// Why not.
    watch_why: Option<&'a String>,
    /// What is not limited, a sentence each.
    not_covered: &'a [String],
    ended_by: &'static str,
    exit_code: Option<i32>,
    disks: &'a [Outcome],
}

impl Output for Governed<'_> {
    const FORMAT: &'static Format = &formats::GOVERN;
}

/// What `--restore` found.
pub fn restored(left: &[String], as_json: bool) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if as_json {
        json::write(&mut out, &Changes { done: left })?;
    } else if left.is_empty() {
        writeln!(out, "nothing was left changed")?;
    }
    for line in left.iter().filter(|_| !as_json) {
        writeln!(out, "{}", plain::name(line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Processor time of this process so far, s.
fn cpu_seconds() -> f64 {
    // SAFETY: plain data, and a valid pointer to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

pub fn result(args: &GovernArgs, whole: &Whole, came: &Came) -> Result<()> {
    let mut out = io::stdout().lock();
    let dirs = |groups: &[plumb_govern::cgroup::Group]| -> Vec<String> {
        groups.iter().map(|g| g.dir.display().to_string()).collect()
    };
    if args.json {
        let governed = Governed {
            plumb: env!("CARGO_PKG_VERSION"),
            cgroup: version(whole.controller.version),
            low: dirs(&whole.low),
            protected_cgroups: dirs(&whole.normal),
            delay_ns: args.delay,
            target_ns: args.target,
            elapsed_ns: came.elapsed.as_nanos() as u64,
            cpu_s: cpu_seconds(),
            watch: if came.watched.is_ok() { "requests" } else { "sums" },
            watch_why: came.watched.as_ref().err(),
            not_covered: &whole.not_covered,
            ended_by: came.end.word(),
            exit_code: came.exit_code,
            disks: &came.disks,
        };
        return Ok(json::write(&mut out, &governed)?);
    }
    for disk in &came.disks {
        one(&mut out, disk)?;
    }
    if let Some(code) = came.exit_code.filter(|code| *code != 0) {
        writeln!(out, "the command ended with exit code {code}")?;
    }
    Ok(out.flush()?)
}

fn one(out: &mut dyn Write, disk: &Outcome) -> io::Result<()> {
    let all = (disk.limited.ns + disk.free.ns).max(1);
    let part = |ns: u64| format!("{:.1} s ({:.0} %)", ns as f64 / 1e9, ns as f64 * 100.0 / all as f64);
    writeln!(
        out,
        "{}: background I/O was limited for {} and unlimited for {}; {} switches; last limit: {}",
        disk.disk.name,
        part(disk.limited.ns),
        part(disk.free.ns),
        disk.switches,
        disk.limit
    )?;
    let mut table = Table::new(&["<background", "<I/O", "requests/s", "MB/s", "p50 ms", "p99 ms"]);
    for (name, part) in [("limited", &disk.limited), ("unlimited", &disk.free)] {
        for (class, done) in classes(part) {
            let ms = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.2}", ns as f64 / 1e6));
            table.row(vec![
                name.into(),
                class.into(),
                done.requests_per_s.map_or("-".into(), |n| format!("{n:.1}")),
                format!("{:.2}", done.bytes_per_s / 1e6),
                ms(done.p50_ns),
                ms(done.p99_ns),
            ]);
        }
    }
    table.write(out)?;
    let requests = disk.limited.normal.requests.is_some();
    if requests {
        writeln!(out, "  device service times (error up to 12 %)")?;
    }
    if disk.limited.writeback.bytes + disk.free.writeback.bytes > 0 {
        let bytes = disk.limited.writeback.bytes + disk.free.writeback.bytes;
        writeln!(
            out,
            "  kernel threads also wrote {} (writeback, journals), which belongs to neither class",
            megabytes(bytes)
        )?;
    }
    if disk.gone {
        writeln!(out, "  the disk was removed during the run")?;
    }
    Ok(())
}

fn classes(part: &Part) -> Vec<(&'static str, &Done)> {
    if part.ns == 0 {
        return Vec::new();
    }
    vec![("foreground", &part.normal), ("background", &part.low)]
}
