// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask killpoints`: kills plumb behind every system call that changes the system. Afterwards nothing is left,
//! or one command names and removes it.

mod bench;
mod calls;
mod cases;
mod tracer;

use crate::test::{minutes, Session, Task};
use anyhow::{bail, Context, Result};
use bench::{Bench, Left};
use cases::{Case, CASES};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tracer::{Order, Seen, Victim, OF_SCHEDULER};

/// A run that hangs is ended after that.
const STUCK: Duration = Duration::from_secs(90);

/// How many of a command's kill points are tried.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    All,
    /// Evenly spread, so many for each victim.
    Spread(usize),
}

impl Extent {
    /// The numbers of the points, from 1.
    fn choose(self, points: &[String], victim: Victim) -> Vec<usize> {
        let Extent::Spread(most) = self else { return (1..=points.len()).collect() };
        // BPF objects come by the dozen, and end with their process.
        let first = |i: usize| !points[i].starts_with("BPF_") || !points[..i].contains(&points[i]);
        let all: Vec<usize> = (0..points.len()).filter(|i| first(*i)).map(|i| i + 1).collect();
        let most = most.min(all.len());
        // Each victim has points between those of the others.
        (0..most).map(|i| all[(4 * i + victim as usize) * all.len() / (4 * most)]).collect()
    }
}

/// What came of the kill points of a command.
#[derive(Debug, Default)]
struct Tally {
    tried: u32,
    clean: u32,
    removed: u32,
    defects: Vec<String>,
}

/// `cargo xtask killpoints [--program FILE] [--spread N] [COMMAND]`.
///
/// # Errors
/// plumb cannot be built, or something was left.
pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut program, mut extent, mut rest) = (None, Extent::All, words);
    loop {
        match rest {
            ["--program", file, more @ ..] => (program, rest) = (Some(PathBuf::from(file)), more),
            ["--spread", n, more @ ..] => {
                (extent, rest) = (Extent::Spread(n.parse().context("--spread")?), more)
            }
            _ => break,
        }
    }
    let only = rest.join(" ");
    if !only.is_empty() && !CASES.iter().any(|c| c.name.starts_with(&only)) {
        let names: Vec<_> = CASES.iter().map(|c| c.name).collect();
        bail!("no command is called '{only}'; there are {}", names.join(", "));
    }
    let session = Session::new(root, minutes(600), Duration::from_secs(10));
    let program = match program {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => built(&session)?,
    };
    let base = session.target_dir().canonicalize().context("the directory of what is built")?;
    let defects = all(&program, &base, extent, &only, &mut |line| println!("{line}"))?;
    if defects > 0 {
        bail!("{defects} kill points left something that no command names and removes");
    }
    Ok(())
}

/// Builds the workspace's debug programs, as the tests use them.
pub fn built(session: &Session) -> Result<PathBuf> {
    session.alone(&Task::new("build".into(), minutes(25), None, crate::test::build));
    let program = session.target_dir().join("debug/plumb");
    program.canonicalize().with_context(|| program.display().to_string())
}

/// Why the kill points cannot be tried here.
pub fn lacks() -> Option<String> {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Some("needs root".into());
    }
    for node in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(node).exists() {
            return Some(format!("no {node}"));
        }
    }
    None
}

/// Tries them all; the number of defects.
///
/// # Errors
/// A command cannot be run at all.
pub fn all(
    plumb: &Path,
    base: &Path,
    extent: Extent,
    only: &str,
    say: &mut dyn FnMut(&str),
) -> Result<usize> {
    if let Some(why) = lacks() {
        bail!("the kill points cannot be tried: {why}");
    }
    let mut table = Vec::new();
    let mut defects = 0;
    for case in CASES.iter().filter(|c| c.name.starts_with(only)) {
        if let Some(tool) = case.tools.iter().find(|t| !crate::programs::on_path(t)) {
            say(&format!("SKIP {}: no {tool}", case.name));
            continue;
        }
        let points = enumerate(case, plumb, base)?;
        say(&format!("{}: {} kill points", case.name, points.len()));
        if matches!(extent, Extent::All) {
            points.iter().enumerate().for_each(|(i, point)| say(&format!("  {:>3} {point}", i + 1)));
        }
        for victim in case.victims {
            let tally = victims(case, *victim, &extent.choose(&points, *victim), plumb, base, say)?;
            table.push(format!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                case.name,
                points.len(),
                victim.word(),
                tally.tried,
                tally.clean,
                tally.removed,
                tally.defects.len()
            ));
            defects += tally.defects.len();
        }
    }
    say("\n| command | kill points | killed | tried | nothing left | removed by one command | defects |");
    say("|---|---:|---|---:|---:|---:|---:|");
    table.iter().for_each(|line| say(line));
    Ok(defects)
}

/// The points of a run that nobody kills, which must leave nothing.
fn enumerate(case: &Case, plumb: &Path, base: &Path) -> Result<Vec<String>> {
    let mut bench = Bench::new(base, plumb)?;
    let (seen, left, said) = once(case, None, &mut bench)?;
    if !left.is_empty() && !case.lasts {
        bench.clear(&seen);
        bail!("{}: left although nobody killed it: {left:#?}\n{said}", case.name);
    }
    let rest = restore(case, &bench, &seen).0;
    if !rest.is_empty() {
        bench.clear(&seen);
        bail!("{}: not removed although nobody killed it: {rest:#?}", case.name);
    }
    let names = |p: &String| p.replace(&bench.dir.display().to_string(), "SCRATCH");
    Ok(seen.points.iter().map(names).collect())
}

/// Kills at the chosen points.
fn victims(
    case: &Case,
    victim: Victim,
    chosen: &[usize],
    plumb: &Path,
    base: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Tally> {
    let mut tally = Tally::default();
    for &number in chosen {
        let mut bench = Bench::new(base, plumb)?;
        let (seen, left, said) = once(case, Some((number, victim)), &mut bench)?;
        if !seen.killed {
            // Calls of several processes do not come in the same number each time.
            restore(case, &bench, &seen);
            bench.clear(&seen);
            continue;
        }
        tally.tried += 1;
        let point = seen.points.last().cloned().unwrap_or_default();
        if left.is_empty() {
            tally.clean += 1;
            continue;
        }
        let (rest, told) = restore(case, &bench, &seen);
        // A disk's name stands for its files and settings.
        let disk =
            told.lines().any(|l| l.contains(&bench.disk_name()) && !l.contains("no disk of that name"));
        // And a scheduler for what the kernel sets with it.
        let scheduler = |l: &Left| OF_SCHEDULER.contains(&&*l.word) && told.contains("queue/scheduler");
        let named =
            |l: &Left| told.contains(&l.word) || (disk && case.name.starts_with("disk")) || scheduler(l);
        let unnamed: Vec<&Left> = left.iter().filter(|l| !named(l)).collect();
        if rest.is_empty() && unnamed.is_empty() {
            tally.removed += 1;
            continue;
        }
        let lines =
            |all: &[&Left]| all.iter().map(|l| format!("    {}", l.what)).collect::<Vec<_>>().join("\n");
        let what = if rest.is_empty() {
            format!("removed, and not named:\n{}", lines(&unnamed))
        } else {
            format!("still there:\n{}", lines(&rest.iter().collect::<Vec<_>>()))
        };
        let defect = format!(
            "DEFECT {}: killed {} behind {number} ({point}): {what}\n    killed: {}\n    restored: {}",
            case.name,
            victim.word(),
            said.trim().replace('\n', "\n      "),
            told.trim().replace('\n', "\n      ")
        )
        .replace(&bench.dir.display().to_string(), "SCRATCH");
        say(&defect);
        tally.defects.push(defect);
        bench.clear(&seen);
    }
    Ok(tally)
}

/// Runs a command once; what it changed, what is left of it, what it said.
fn once(case: &Case, kill: Option<(usize, Victim)>, bench: &mut Bench) -> Result<(Seen, Vec<Left>, String)> {
    let words = (case.prepare)(bench)?;
    bench.begin();
    let mut command = bench.command(&words);
    let said = bench.dir.join("tmp/said");
    let file = File::create(&said)?;
    command.stdout(file.try_clone()?).stderr(file);
    let order = Order { kill, scope: (case.scope)(bench), interrupt: case.interrupt, linger: case.linger };
    let (leave, left) = channel();
    let traced = std::thread::spawn(move || tracer::run(command, order, &left));
    let begun = Instant::now();
    while !traced.is_finished() && begun.elapsed() < STUCK {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = leave.send(());
    let seen = traced.join().map_err(|_| anyhow::anyhow!("the tracer failed"))??;
    if !seen.ended && begun.elapsed() >= STUCK {
        bench.clear(&seen);
        bail!("{}: did not end in {} s: {}", case.name, STUCK.as_secs(), std::fs::read_to_string(&said)?);
    }
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let _ = std::fs::remove_file(&said);
    let left = bench.settled(&seen, case.patience);
    Ok((seen, left, text))
}

/// Calls the commands that name and remove; what is still there, and what they said.
fn restore(case: &Case, bench: &Bench, seen: &Seen) -> (Vec<Left>, String) {
    let mut told = String::new();
    for words in (case.restore)(bench) {
        match bench.command(&words).output() {
            Ok(out) => {
                told += &String::from_utf8_lossy(&out.stdout);
                told += &String::from_utf8_lossy(&out.stderr);
            }
            Err(error) => told += &error.to_string(),
        }
    }
    (bench.settled(seen, Duration::from_secs(15)), told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_other_points_for_each_victim() {
        let mut points: Vec<String> = (0..12).map(|n| format!("make {n}")).collect();
        points.splice(3..3, ["BPF_MAP_CREATE".to_string(), "BPF_MAP_CREATE".into()]);
        let chosen = |victim| Extent::Spread(2).choose(&points, victim);
        assert_eq!(chosen(Victim::Command), [1, 8]);
        assert_eq!(chosen(Victim::Caller), [2, 10]);
        assert_eq!(chosen(Victim::All), [4, 11]);
        assert_eq!(Extent::All.choose(&points, Victim::All).len(), 14);
        assert_eq!(Extent::Spread(9).choose(&points[..2], Victim::All), [1, 2]);
    }
}
