// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was found, with its evidence.

use anyhow::Result;
use plumb_diagnose::Diagnosis;
use plumb_report::terminal::screen::{Look, Screen, COLUMNS};
use plumb_report::terminal::wrapped_to;
use std::io::Write;

/// Columns that share and bound take.
const INDENT: usize = 20;

/// Each finding with share, bound, evidence, doubts and the next step. A terminal gets the first
/// piece of evidence.
///
/// # Errors
/// The writer's.
pub fn findings(diagnosis: &Diagnosis, out: &mut Screen<'_>) -> Result<()> {
    if diagnosis.findings.is_empty() {
        return Ok(());
    }
    out.heading("Findings [share of the target's time; bound: largest speed-up if it went away]")?;
    let wrapped = |text: &str| wrapped_to(text, INDENT + 2, COLUMNS);
    for f in &diagnosis.findings {
        let share = out.paint(&format!("{:>5.1} %", f.share * 100.0), Look::Bold);
        let id = out.paint(&f.id, Look::Bold);
        let words = wrapped_to(&format!("{}: {}", f.id, f.words), INDENT, COLUMNS).replacen(&f.id, &id, 1);
        writeln!(out, "  {share}  {:>6.2}x  {words}", f.bound)?;
        let evidence = if out.whole() { f.evidence.len() } else { 1 };
        for e in f.evidence.iter().take(evidence) {
            writeln!(out, "{:INDENT$}- {}", "", wrapped(&e.words))?;
        }
        let more = f.evidence.len().saturating_sub(evidence);
        if more > 0 {
            writeln!(out, "{:INDENT$}  ({more} more with --wide)", "")?;
        }
        for doubt in &f.doubt {
            writeln!(out, "{:INDENT$}? {}", "", wrapped(doubt))?;
        }
        writeln!(out, "{:INDENT$}> {}", "", wrapped(&f.next))?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_diagnose::{Evidence, Finding};

    #[test]
    fn a_finding_has_room_in_eighty_columns() {
        let evidence = |words: &str| Evidence { words: words.repeat(12), ..Evidence::default() };
        let finding = Finding {
            id: "sync.write".into(),
            title: String::new(),
            share: 0.77,
            time: 1,
            bound: 4.35,
            words: "waited for a synchronous write ".repeat(4),
            evidence: vec![evidence("one two "), evidence("three four ")],
            doubt: vec!["few samples".into()],
            next: "sync once ".repeat(9),
        };
        let diagnosis = Diagnosis { findings: vec![finding], ..Diagnosis::default() };
        let mut out = Vec::new();
        findings(&diagnosis, &mut Screen::file(&mut out)).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("   77.0 %    4.35x  sync.write: waited for"), "{text}");
        for line in ["- one two one", "- three four", "? few samples", "> sync once sync"] {
            assert!(text.contains(&format!("\n{:INDENT$}{line}", "")), "{line}: {text}");
        }
    }
}
