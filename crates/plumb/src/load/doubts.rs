// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What speaks against a result: failures, damage, and the verdicts of its steps.

use anyhow::Result;
use plumb_load::result::{CellResult, StepResult};
use plumb_load::validity::{Reason, Severity, Verdict, Word, CHECKS};
use plumb_report::terminal::similar_messages::{alike, ranged, together};
use plumb_trace::units;
use std::io::{self, Write};

/// What of whole cells does not stand in a table of figures.
///
/// # Errors
/// The writer's.
pub fn told_besides(cells: &[&CellResult], out: &mut dyn Write) -> Result<()> {
    let mut verdicts = Vec::new();
    for cell in cells {
        for (r, step) in
            cell.rounds.iter().enumerate().flat_map(|(r, steps)| steps.iter().map(move |s| (r, s)))
        {
            let mut place = format!("round {}, {}", r + 1, step.label);
            if cells.len() > 1 && step.label != cell.label {
                place = format!("{}, {place}", cell.label);
            }
            remarks(step, &format!("  {place}: "), out)?;
            verdicts.push((place, &step.verdict));
        }
    }
    verdicts_together(&verdicts, out)?;
    Ok(())
}

/// Failures, damage, losses of a step; `begin` stands before each line.
///
/// # Errors
/// The writer's.
pub fn remarks(step: &StepResult, begin: &str, out: &mut dyn Write) -> io::Result<()> {
    let count = units::count;
    let mut lines: Vec<String> = Vec::new();
    for job in &step.jobs {
        lines.extend(job.failures.iter().map(|f| format!("FAILED: {f}")));
        let mut say = |when: bool, line: String| lines.extend(when.then_some(line));
        let short: u64 = job.operations.iter().map(|k| k.short).sum();
        say(short > 0, format!("{} operations moved fewer bytes than asked for", count(short)));
        let damaged =
            format!("DAMAGED: {} blocks that were read are not what was written", count(job.damaged));
        say(job.damaged > 0, damaged);
        if let Some(c) = job.counted.filter(|c| c.counters != c.updates) {
            say(
                true,
                format!("LOST UPDATES: counters at {} after {} updates", count(c.counters), count(c.updates)),
            );
        }
        say(job.steady == Some(false), "it did not become steady within --time".into());
        say(job.log_waits > 0, format!("workers waited {} times for room in the log", count(job.log_waits)));
        say(
            job.events_lost > 0,
            format!("{} operations are missing in the recording", count(job.events_lost)),
        );
        say(job.log_lost > 0, format!("{} operations are missing in the log", count(job.log_lost)));
    }
    // Threads, files and jobs that say the same are a line.
    for (line, times) in together(&lines) {
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        writeln!(out, "{begin}{line}{times}")?;
    }
    Ok(())
}

/// The verdicts of steps, each with its place: every reason once, where it weighs most.
///
/// # Errors
/// The writer's.
pub fn verdicts_together(verdicts: &[(String, &Verdict)], out: &mut dyn Write) -> io::Result<()> {
    let all = verdicts.len();
    let of = |word: Word| verdicts.iter().filter(|(_, v)| v.word == word).count();
    let there = [Word::Valid, Word::Suspect, Word::Invalid].into_iter().filter(|w| of(*w) > 0);
    let words: Vec<String> = match verdicts {
        [(_, one)] => vec![word(one.word).to_string()],
        _ => there.map(|w| format!("{} of {all} {}", of(w), word(w))).collect(),
    };
    let looked = verdicts.iter().map(|(_, v)| CHECKS.len() - v.not_looked_at.len()).min().unwrap_or(0);
    let checks = CHECKS.len();
    writeln!(out, "  Verdict: {} ({looked} of {checks} checks had facts to look at)", words.join(", "))?;
    let mut reasons: Vec<(&str, &Reason)> =
        verdicts.iter().flat_map(|(place, v)| v.reasons.iter().map(|r| (place.as_str(), r))).collect();
    reasons.sort_by_key(|(_, r)| std::cmp::Reverse(r.severity));
    let mut told: Vec<&str> = Vec::new();
    for (place, reason) in &reasons {
        if told.contains(&reason.check.as_str()) {
            continue;
        }
        told.push(&reason.check);
        let same = || reasons.iter().map(|(_, r)| r).filter(|r| r.check == reason.check);
        let times = same().count();
        let alike: Vec<&str> =
            same().map(|r| r.sentence.as_str()).filter(|s| alike(s, &reason.sentence)).collect();
        let times = if all > 1 { format!(" ({place}; {times} of {all} times)") } else { String::new() };
        let weight = match reason.severity {
            Severity::Note => "note",
            Severity::Suspect => "suspect",
            Severity::Invalid => "invalid",
        };
        writeln!(out, "    {weight}: {}{times}", ranged(&alike))?;
        writeln!(out, "      > {}", reason.next_step)?;
    }
    Ok(())
}

fn word(word: Word) -> &'static str {
    match word {
        Word::Valid => "valid",
        Word::Suspect => "SUSPECT",
        Word::Invalid => "INVALID",
    }
}
