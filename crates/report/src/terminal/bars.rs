// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The account as a bar for each process, and what the bars' letters stand for.
//!
//! A part is its letter and a filling; neighbours in a bar have different fillings, so that the bars
//! read without colours.

use super::screen::{Look, Screen, COLUMNS};
use super::{middle_out, wrapped_to};
use crate::palette::Kind;
use anyhow::Result;
use plumb_model::{sum, Category, ProcessRow, RunResult, CATEGORIES};
use plumb_trace::units;
use std::io::Write;

/// Bars; the processes with less time share the last.
const MOST: usize = 8;
const CELLS: usize = 42;
/// Characters of a process's name.
const NAME: usize = 15;
/// A part of all time that has a letter, and one of a bar's.
const WORTH: (f64, f64) = (0.01, 0.1);
/// Parts that have letters at most.
const LETTERS: usize = 16;
/// What the parts without letters are drawn with.
const REST: char = '.';
/// What a part is filled with behind its letter, in turn.
const FILLINGS: [char; 2] = ['█', '▒'];

/// A category that has a letter.
struct Part {
    letter: char,
    category: Category,
    name: &'static str,
    about: &'static str,
    color: [u8; 3],
    time: u64,
}

struct Bar<'a> {
    pid: String,
    name: String,
    row: &'a ProcessRow,
}

fn colour(category: Category) -> [u8; 3] {
    // In a profile this time has the colours of its functions.
    let kind = if category == Category::Running { Kind::User } else { Kind::of_state(category) };
    kind.paint().rgb
}

/// The parts that matter in all or in one of the bars, most time first. What nothing explains always
/// does.
fn parts(all: &ProcessRow, bars: &[Bar<'_>]) -> Vec<Part> {
    let share =
        |row: &ProcessRow, category: Category| row.part(category) as f64 / row.thread_time.max(1) as f64;
    let matters = |c: Category| share(all, c) >= WORTH.0 || bars.iter().any(|b| share(b.row, c) >= WORTH.1);
    let mut known: Vec<_> = CATEGORIES.iter().filter(|(category, ..)| matters(*category)).collect();
    known.sort_by_key(|(category, ..)| std::cmp::Reverse(all.part(*category)));
    known.truncate(LETTERS);
    let part = |(i, (category, name, about)): (usize, &&(Category, &'static str, &'static str))| Part {
        letter: match category {
            Category::Unexplained => '?',
            Category::Lost => '!',
            _ => char::from(b'A' + i as u8),
        },
        category: *category,
        name,
        about,
        color: colour(*category),
        time: all.part(*category),
    };
    known.iter().enumerate().map(part).collect()
}

/// Splits `cells` as the times are, to the nearest; the largest remainders get what is left over.
fn split(times: &[u64], cells: usize) -> Vec<usize> {
    let whole: u128 = times.iter().map(|t| u128::from(*t)).sum();
    if whole == 0 {
        return vec![0; times.len()];
    }
    let exact = |t: u64| u128::from(t) * cells as u128;
    let mut out: Vec<usize> = times.iter().map(|t| (exact(*t) / whole) as usize).collect();
    let mut by_rest: Vec<usize> = (0..times.len()).collect();
    by_rest.sort_by_key(|i| std::cmp::Reverse(exact(times[*i]) % whole));
    let left = cells - out.iter().sum::<usize>();
    by_rest.into_iter().take(left).for_each(|i| out[i] += 1);
    out
}

fn drawn(row: &ProcessRow, parts: &[Part], out: &Screen<'_>) -> String {
    let mut times: Vec<u64> = parts.iter().map(|p| row.part(p.category)).collect();
    times.push(row.thread_time.saturating_sub(times.iter().sum()));
    let cells = split(&times, CELLS);
    let there = parts.iter().zip(&cells).filter(|(_, n)| **n > 0);
    let text = there.zip(FILLINGS.iter().cycle()).map(|((part, n), filling)| {
        let cells: String =
            std::iter::once(part.letter).chain(std::iter::repeat_n(*filling, n - 1)).collect();
        out.paint(&cells, Look::Rgb(part.color))
    });
    let rest = cells.last().copied().unwrap_or(0);
    text.chain([REST.to_string().repeat(rest)]).collect()
}

/// The account as bars, then what their letters stand for.
///
/// # Errors
/// The writer's.
pub fn bars(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let all = sum(result.processes.iter());
    if all.thread_time == 0 {
        return Ok(());
    }
    let mut rows: Vec<&ProcessRow> = result.processes.iter().filter(|p| p.thread_time > 0).collect();
    rows.sort_by_key(|p| (std::cmp::Reverse(p.thread_time), p.pid));
    let others = if rows.len() > MOST { rows.split_off(MOST - 1) } else { Vec::new() };
    let rest = sum(others.iter().copied());
    let mut bars: Vec<Bar<'_>> =
        rows.into_iter().map(|row| Bar { pid: row.pid.to_string(), name: row.comm.clone(), row }).collect();
    if !others.is_empty() {
        let name = format!("{} others", units::count(others.len() as u64));
        bars.push(Bar { pid: String::new(), name, row: &rest });
    }
    if bars.len() > 1 {
        bars.push(Bar { pid: String::new(), name: "all".into(), row: &all });
    }
    let parts = parts(&all, &bars);
    out.heading("Account of each process [a bar is 100 % of its thread time]")?;
    for bar in &bars {
        let drawn = drawn(bar.row, &parts, out);
        let (name, time) = (middle_out(&bar.name, NAME), units::duration(bar.row.thread_time));
        writeln!(out, "{:>9} {name:<NAME$} {time:>9} |{drawn}|", bar.pid)?;
    }
    let percent = |time: u64| format!("{:.1} %", time as f64 * 100.0 / all.thread_time as f64);
    let widest = parts.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for part in &parts {
        let letter = out.paint(&part.letter.to_string(), Look::Rgb(part.color));
        let about = wrapped_to(part.about, 15 + widest, COLUMNS);
        writeln!(out, "  {letter} {:>7}  {:<widest$}  {about}", percent(part.time), part.name)?;
    }
    let named: u64 = parts.iter().map(|p| p.time).sum();
    if all.thread_time > named {
        writeln!(out, "  {REST} {:>7}  smaller", percent(all.thread_time - named))?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, account: &[(&str, u64)]) -> ProcessRow {
        ProcessRow {
            pid,
            comm: format!("process-{pid}"),
            thread_time: account.iter().map(|(_, ns)| ns).sum(),
            account: account.iter().map(|(name, ns)| (name.parse().expect("a category"), *ns)).collect(),
            ..ProcessRow::default()
        }
    }

    fn text(processes: Vec<ProcessRow>) -> String {
        let result = RunResult { processes, ..RunResult::default() };
        let mut out = Vec::new();
        bars(&result, &mut Screen::file(&mut out)).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn cells_are_split_to_the_last_one() {
        assert_eq!(split(&[1, 1, 1], 10), [4, 3, 3]);
        assert_eq!(split(&[999, 1], 10), [10, 0]);
        assert_eq!(split(&[0, u64::MAX, u64::MAX], 42), [0, 21, 21]);
        assert_eq!(split(&[0, 0], 42), [0, 0]);
    }

    #[test]
    fn a_bar_is_all_of_a_process_and_its_letters_are_explained() {
        let ms = 1_000_000;
        let text = text(vec![
            process(
                7,
                &[
                    ("running", 250 * ms),
                    ("block.device", 723 * ms),
                    ("timer", 9 * ms),
                    ("signal", 9 * ms),
                    ("socket", 9 * ms),
                ],
            ),
            process(8, &[("pipe", 5 * ms), ("unexplained", 4 * ms), ("running", ms)]),
        ]);
        let bars: Vec<&str> = text.lines().filter_map(|l| l.split('|').nth(1)).collect();
        assert_eq!(bars.len(), 3, "two processes and all: {text}");
        assert!(bars.iter().all(|b| b.chars().count() == CELLS), "{text}");
        assert!(bars[0].starts_with(&format!("A{}B▒▒", "█".repeat(29))), "{text}");
        assert!(bars[0].ends_with("▒.") && bars[1].contains('?'), "{text}");
        for line in ["  A  71.6 %  block.device  block request: in flight", "  ?   0.4 %  unexplained"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("  .   2.7 %  smaller\n"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn many_processes_share_a_bar() {
        let text = text((1..=3000).map(|pid| process(pid, &[("running", u64::from(pid))])).collect());
        assert_eq!(text.lines().filter(|l| l.contains('|')).count(), MOST + 1);
        assert!(text.contains(" 2,993 others "), "{text}");
        assert_eq!(super::tests::text(Vec::new()), "");
    }
}
