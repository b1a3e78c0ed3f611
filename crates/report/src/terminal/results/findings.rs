// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict, and the findings with their evidence.

use crate::terminal::screen::{Look, Screen, COLUMNS};
use crate::terminal::wrapped_to;
use anyhow::Result;
use plumb_diagnose::{Diagnosis, Finding, Role};
use plumb_trace::units;
use std::io::Write;

/// Columns that share and speed-up take.
const INDENT: usize = 22;

/// Evidence of a finding that a terminal shows without --wide.
const EVIDENCE: usize = 3;

/// The verdict: labels of facts aligned, long lines continued below their text.
///
/// # Errors
/// The writer's.
pub fn verdict(diagnosis: &Diagnosis, out: &mut Screen<'_>) -> Result<()> {
    let facts = diagnosis.lines.iter().filter(|l| l.role == Role::Fact);
    let width = facts.map(|l| l.label.chars().count()).max().unwrap_or(0);
    for line in &diagnosis.lines {
        if line.role == Role::Fact {
            let text = wrapped_to(&line.text, width + 4, COLUMNS);
            writeln!(out, "  {:<width$}  {text}", line.label)?;
            continue;
        }
        let text = wrapped_to(&format!("{}: {}", line.label, line.text), 2, COLUMNS);
        let text = if line.role == Role::Bottleneck { out.paint(&text, Look::Bold) } else { text };
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// What limits each service of a machine.
///
/// # Errors
/// The writer's.
pub fn services(diagnosis: &Diagnosis, out: &mut Screen<'_>) -> Result<()> {
    if diagnosis.services.is_empty() {
        return Ok(());
    }
    out.heading("Services, most CPU time first")?;
    for s in &diagnosis.services {
        let requests = match s.requests {
            0 => String::new(),
            n => format!(", {} requests", units::count(n)),
        };
        let processes = if s.processes == 1 { "process" } else { "processes" };
        writeln!(
            out,
            "  {} ({} {processes}, {} on a CPU, {} busy{requests})",
            out.paint(&s.name, Look::Bold),
            units::count(s.processes),
            units::brief(s.cpu_used),
            units::brief(s.busy)
        )?;
        for line in s.diagnosis.lines.iter().filter(|l| l.role == Role::Bottleneck) {
            let text = wrapped_to(&line.text, 4, COLUMNS);
            writeln!(out, "    {text}")?;
        }
    }
    writeln!(out, "  Of one of them: plumb explain DIR --comm NAME\n")?;
    Ok(())
}

/// Each finding with share, speed-up, evidence, what reduces confidence in it, and the next step.
///
/// # Errors
/// The writer's.
pub fn findings(diagnosis: &Diagnosis, out: &mut Screen<'_>) -> Result<()> {
    if diagnosis.findings.is_empty() {
        return Ok(());
    }
    out.heading("Findings [share of the time; estimated speed-up without it]")?;
    for f in &diagnosis.findings {
        finding(f, out)?;
    }
    writeln!(out)?;
    Ok(())
}

fn finding(f: &Finding, out: &mut Screen<'_>) -> Result<()> {
    let share = out.paint(&format!("{:>5.1} %", f.share * 100.0), Look::Bold);
    let id = out.paint(&f.id, Look::Bold);
    let words = wrapped_to(&format!("{}: {}", f.id, f.headline), INDENT, COLUMNS).replacen(&f.id, &id, 1);
    writeln!(out, "  {share}  {:>9}  {words}", f.speedup.range())?;
    let shown = if out.whole() { f.evidence.len() } else { EVIDENCE.min(f.evidence.len()) };
    let more = f.evidence.len() - shown;
    let mut facts = vec![("time", f.words.as_str())];
    facts.extend(f.evidence.iter().take(shown).map(|e| (e.label.as_str(), e.words.as_str())));
    facts.extend(f.doubt.iter().map(|d| ("caveat", d.as_str())));
    facts.push(("next", f.next.as_str()));
    let width = facts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    for (i, (label, text)) in facts.iter().enumerate() {
        let text = wrapped_to(text, INDENT + width + 2, COLUMNS);
        writeln!(out, "{:INDENT$}{label:<width$}  {text}", "")?;
        if i == shown && more > 0 {
            writeln!(out, "{:INDENT$}{:<width$}  ({more} more with --wide)", "", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_diagnose::{Evidence, Line, Speedup};

    fn text(of: fn(&Diagnosis, &mut Screen<'_>) -> Result<()>, diagnosis: &Diagnosis) -> String {
        let mut out = Vec::new();
        of(diagnosis, &mut Screen::file(&mut out)).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_finding_has_room_in_eighty_columns() {
        let evidence = |label: &str, words: &str| Evidence {
            label: label.into(),
            words: words.repeat(12),
            ..Evidence::default()
        };
        let finding = Finding {
            id: "sync.write".into(),
            headline: "synchronous writes to a file ".repeat(4),
            share: 0.77,
            time: 1,
            speedup: Speedup { estimate: 4.35, low: 2.9, high: 12.2 },
            words: "367 ms in 12 synchronous writes".into(),
            evidence: vec![evidence("called in", "one two "), evidence("", "three four ")],
            doubt: vec!["only 3 CPU samples".into()],
            next: "sync once ".repeat(9),
            ..Finding::default()
        };
        let text = text(findings, &Diagnosis { findings: vec![finding], ..Diagnosis::default() });
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("   77.0 %    2.9-12x  sync.write: synchronous writes"), "{text}");
        for line in [
            "time       367 ms in",
            "called in  one two one",
            "           three four",
            "caveat     only 3 CPU",
            "next       sync once sync",
        ] {
            assert!(text.contains(&format!("\n{:INDENT$}{line}", "")), "{line}: {text}");
        }
    }

    #[test]
    fn labels_of_a_verdict_align_and_long_lines_hang() {
        let line = |role, label: &str, text: &str| Line {
            role,
            label: label.into(),
            text: text.into(),
            ..Line::default()
        };
        let lines = vec![
            line(Role::Bottleneck, "Bottleneck", &"a cause ".repeat(12)),
            line(Role::Fact, "held by", "worker"),
            line(Role::Fact, "acquired in", &"update ".repeat(14)),
            line(Role::Next, "Next", "shorten it"),
        ];
        let text = text(verdict, &Diagnosis { lines, ..Diagnosis::default() });
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
        for part in
            ["\n  cause a", "\n  held by      worker\n", "\n  acquired in  update", "\n               update"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.ends_with("\nNext: shorten it\n"), "{text}");
    }
}
