// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb whatif` prints.

use super::{Machine, Outcome};
use anyhow::Result;
use plumb_report::terminal::wrapped;
use plumb_trace::units;
use std::io::Write;

/// A larger share of the time on timers is told.
const SLEEPS: f64 = 0.5;

pub fn write(outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let ns = units::duration;
    let (recorded, asked) = (&outcome.recorded, &outcome.asked);
    let of = |m: &Machine| {
        let speed =
            if m.cpu_speed == 1.0 { String::new() } else { format!(" {} times as fast", m.cpu_speed) };
        let disk = if m.disk.is_empty() { String::new() } else { format!(", disk {}", m.disk) };
        let scheduler = m.scheduler.as_ref().map_or(String::new(), |name| format!(", scheduler {name}"));
        format!("{} CPU{}{speed}{disk}{scheduler}", m.cpus, if m.cpus == 1 { "" } else { "s" })
    };
    let words = match outcome.speedup {
        s if outcome.by_timer && (s - 1.0).abs() >= 0.005 => format!("{s:.2}x the throughput"),
        _ if outcome.by_timer => "the same throughput".into(),
        s if s >= 1.005 => format!("{s:.2}x as fast"),
        s if s <= 0.995 => format!("{:.2}x slower", 1.0 / s),
        _ => "no difference".into(),
    };
    if !outcome.reliable {
        writeln!(
            out,
            "Do not rely on this: done again as it was recorded, with nothing changed, the run takes {} instead of {}.",
            ns(outcome.again_ns),
            ns(recorded.elapsed_ns)
        )?;
    }
    writeln!(
        out,
        "{} would take {} ({} to {}){} instead of {}: {words}.\n",
        outcome.target,
        ns(asked.elapsed_ns),
        ns(outcome.low_ns),
        ns(outcome.high_ns),
        if outcome.by_timer { " for the same work" } else { "" },
        ns(recorded.elapsed_ns)
    )?;
    writeln!(out, "recorded    {} ({})", ns(recorded.elapsed_ns), of(recorded))?;
    let off = (outcome.again_ns as f64 / recorded.elapsed_ns as f64 - 1.0) * 100.0;
    writeln!(
        out,
        "done again  {} ({off:+.1} %): as recorded, to show how well this works",
        ns(outcome.again_ns)
    )?;
    writeln!(out, "what if     {} ({})", ns(asked.elapsed_ns), of(asked))?;
    if let Some(t) = &outcome.throughput {
        let (was, is) = (units::digits(t.recorded), units::digits(t.asked));
        writeln!(out, "throughput  {is}/s instead of {was}/s ({} {}s)", units::count(t.count), t.of)?;
    }
    if let Some(cache) = &outcome.cache {
        let held = cache.held.map_or("not known".into(), units::bytes);
        writeln!(
            out,
            "page cache  {} more; held {held}; {} of {} reads saved",
            units::bytes(cache.more),
            cache.saved,
            cache.reads
        )?;
    }
    if outcome.kept >= 0.01 {
        let kept = format!(
            "{:.0} % of the target's time is kept as it was: nothing tells what ended those sleeps.",
            outcome.kept * 100.0
        );
        writeln!(out, "  {}", wrapped(&kept, 2))?;
    }
    if outcome.slept > SLEEPS && !outcome.by_timer {
        let sleeps = format!(
            "{:.0} % of the command's time is sleeping on timers, which takes as long on any machine.",
            outcome.slept * 100.0
        );
        writeln!(out, "  {}", wrapped(&sleeps, 2))?;
    }
    for note in &outcome.notes {
        writeln!(out, "  {}", wrapped(note, 2))?;
    }
    Ok(())
}
