// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What it costs to send recordings to a collector, beside writing them to files.
//!
//! `plumb-bench-net PLUMB RESULTS SENDERS RATE SECONDS ROUNDS`: so many threads write so many events a second each, as a
//! recorder does, to directories and to `plumb collect` on this machine (TCP, loopback), in turn.

use anyhow::{ensure, Context, Result};
use plumb_net::{invite, Address, Invitation, Limits, RemoteSink};
use plumb_trace::ctf::Metadata;
use plumb_trace::writer::{DirectorySink, Sink, TraceWriter};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(10);
const CPUS: u32 = 2;

/// CPU time of this process, s.
fn own_cpu() -> f64 {
    // SAFETY: plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// CPU time of a process so far, s, and its largest resident memory, MiB.
fn of_process(pid: u32) -> Result<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime are the 14th and 15th; the first two were cut off.
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // SAFETY: a call without memory.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok((ticks / hertz, peak.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0))
}

/// Writes events at a rate, as a recorder does: a packet for each 64 KiB, all of them closed each second. Returns how
/// many.
fn write(sink: impl Sink, rate: u64, time: Duration) -> Result<u64> {
    let begin = Instant::now();
    let mut w = TraceWriter::new(sink, CPUS, 1);
    let (mut tick, mut flushed, mut n) = (0, begin, 0u64);
    while begin.elapsed() < time {
        tick += 1;
        let until = rate * tick / 100;
        while n < until {
            let mut record = [0; 32];
            record[..8].copy_from_slice(&(1_000_000 + n * 1_000_000_000 / rate).to_le_bytes());
            record[8..16].copy_from_slice(&(1u64 | 1 << 16 | (7 + n % 5) << 32).to_le_bytes());
            record[16..24].copy_from_slice(&n.to_le_bytes());
            w.record((n % u64::from(CPUS)) as u32, &record)?;
            n += 1;
        }
        if flushed.elapsed() >= Duration::from_secs(1) {
            flushed = Instant::now();
            w.flush()?;
        }
        thread::sleep((TICK * tick as u32).saturating_sub(begin.elapsed()));
    }
    w.flush()?;
    ensure!(w.sink().lost() == 0, "{} events were not sent", w.sink().lost());
    w.finish()?;
    Ok(n)
}

struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn collector(plumb: &str, set: &Path) -> Result<(Collector, Address)> {
    let mut command = Command::new(plumb);
    command
        .arg("collect")
        .arg(set)
        .args(["--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stderr.take().context("its words")?);
    let mut said = String::new();
    lines.read_line(&mut said)?;
    thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let port = said.split_once(", port ").and_then(|(_, rest)| rest.split_once(' ')).context("no port")?.0;
    Ok((Collector(child), format!("127.0.0.1:{port}").parse()?))
}

/// One round: events and this process's CPU time; with `to`, they are sent.
fn round(dir: &Path, senders: usize, rate: u64, time: Duration, to: Option<&Address>) -> Result<(u64, f64)> {
    let before = own_cpu();
    let one = |n: usize| -> Result<u64> {
        let meta = Metadata::default();
        let Some(to) = to else {
            return write(DirectorySink::create(&dir.join(n.to_string()), &meta)?, rate, time);
        };
        let invitation = Invitation::read(&dir.join(format!("h{n}.invitation")))?;
        write(RemoteSink::connect(to, &invitation, &meta, Limits::default())?, rate, time)
    };
    let one = &one;
    let events = thread::scope(|scope| -> Result<u64> {
        let all: Vec<_> = (0..senders).map(|n| scope.spawn(move || one(n))).collect();
        all.into_iter().map(|t| t.join().map_err(|_| anyhow::anyhow!("a sender panicked"))?).sum()
    })?;
    Ok((events, own_cpu() - before))
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1}-{:.1})", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [plumb, results, numbers @ ..] = args.as_slice() else { anyhow::bail!("see the head of this file") };
    let numbers: Vec<u64> = numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>()?;
    let [senders, rate, seconds, rounds] = numbers[..] else { anyhow::bail!("see the head of this file") };
    let (senders, time) = (senders as usize, Duration::from_secs(seconds));
    let mut rows: Vec<Value> = Vec::new();
    for n in 0..rounds {
        for sends in if n % 2 == 0 { [false, true] } else { [true, false] } {
            let dir = tempfile::tempdir()?;
            let set = dir.path().join("set");
            let mut collector_used = (0.0, 0.0);
            let (events, cpu) = if sends {
                for n in 0..senders {
                    invite(&set, &format!("h{n}"), &dir.path().join(format!("h{n}.invitation")))?;
                }
                let (child, address) = collector(plumb, &set)?;
                let done = round(dir.path(), senders, rate, time, Some(&address))?;
                collector_used = of_process(child.0.id())?;
                done
            } else {
                round(dir.path(), senders, rate, time, None)?
            };
            rows.push(json!({"round": n, "sent": sends, "events": events, "cpu_s": cpu,
                "collector_cpu_s": collector_used.0, "collector_peak_mib": collector_used.1}));
            eprintln!("round {n}: {}", rows[rows.len() - 1]);
        }
    }
    let of = |sent: bool, name: &str, scale: f64, by: &dyn Fn(&Value) -> f64| {
        let mine = rows.iter().filter(|r| r["sent"] == sent);
        spread(mine.map(|r| r[name].as_f64().unwrap_or(0.0) * scale / by(r)).collect())
    };
    let events = |r: &Value| r["events"].as_f64().unwrap_or(1.0);
    let span = |_: &Value| time.as_secs_f64();
    let whole = |_: &Value| 1.0;
    let page = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# Sending recordings, beside writing them to files\n\n\
         {senders} senders of {rate} events a second each, for {seconds} s, {rounds} rounds, to files and to a collector in turn; all \
         on one machine, by TCP over loopback (TLS 1.3).\nMedian (least-most). No event was lost.\n\n\
         | | to files | to the collector |\n|---|---|---|\n\
         | the senders' CPU time, ns an event | {} | {} |\n\
         | the collector's CPU time, % of a CPU | - | {} |\n\
         | the collector's largest resident memory, MiB | - | {} |\n",
        of(false, "cpu_s", 1e9, &events),
        of(true, "cpu_s", 1e9, &events),
        of(true, "collector_cpu_s", 100.0, &span),
        of(true, "collector_peak_mib", 1.0, &whole),
    );
    std::fs::create_dir_all(results)?;
    std::fs::write(Path::new(results).join("summary.md"), &page)?;
    std::fs::write(Path::new(results).join("rows.json"), serde_json::to_string_pretty(&rows)?)?;
    print!("{page}");
    Ok(())
}
