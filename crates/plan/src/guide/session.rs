// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guide from its begin, or from where it was interrupted, to its end.

use super::command::Launch;
use super::effect::Effect;
use super::measure::{measure, observe};
use super::options;
use super::propose::proposals;
use super::report;
use super::state::{self, End, Measured, Proposal, State, Step, Verdict};
use super::text;
use crate::own_devices::GUIDE;
use crate::progress::Progress;
use anyhow::{bail, Context, Result};
use plumb_analysis::NOT_VALID;
use plumb_machine::signals::{self, stopped};
use plumb_machine::Environment;
use plumb_probe::check::{self, Status};
use plumb_undo::change::Held;
use plumb_undo::guarded_journal::{GuardedJournal, StoppedByUser};
use plumb_undo::guardian::Guardian;
use plumb_undo::journal::{self, Journal, JOURNAL};
use plumb_undo::lock::Locks;
use plumb_undo::undone::Undone;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Longest that one run of the command may take.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Exit code when the goal is not reached.
const NOT_REACHED: u8 = 1;

/// Begins a guide, or goes on with one.
///
/// # Errors
/// The command cannot be measured, or the system cannot be put back; nothing is left changed but what is named.
pub fn main(args: &options::Guide) -> Result<ExitCode> {
    signals::catch_and_wake()?;
    let progress = Progress::new(args.quiet);
    let is_new = !args.dir.exists();
    if args.new.is_none() && is_new {
        bail!(
            "cannot go on with {}: no such directory; begin with: plumb guide -o DIR --goal GOAL -- COMMAND",
            args.dir.display()
        );
    }
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let dir = args.dir.canonicalize().with_context(|| args.dir.display().to_string())?;
    let mut locks = Locks::default();
    locks.run(&dir)?;
    let ready = ready(args, &dir);
    if ready.is_err() && is_new {
        // Nothing was begun: leave nothing. Only an empty directory goes.
        let _ = std::fs::remove_dir(&dir);
    }
    let mut state = ready?;
    if state.end.is_some() && args.keep.is_some() {
        bail!(
            "cannot go on with {0}: its guide has ended\nhint: plumb guide undo {0} puts back what it kept",
            dir.display()
        );
    }
    if state.end.is_some() && state.keep {
        return end(&state, &dir, args.json, &progress);
    }
    let whole = journal::restore(&dir, Held::NotSince, GUIDE.devices, &mut |line| {
        progress.must(&format!("left by an interrupted guide: {line}"));
    })?;
    if !whole {
        bail!("what an interrupted guide changed could not all be put back, see above; mend it, then call this again");
    }
    if state.end.is_some() {
        return end(&state, &dir, args.json, &progress);
    }
    std::env::set_current_dir(&state.directory).with_context(|| {
        format!("cannot run the command in {}, where it was run before", state.directory.display())
    })?;
    locks.machine()?;
    state::write(&dir, &state)?;
    let mut journal = Journal::open(&dir, GUIDE.devices)?;
    journal.begin()?;
    let guardian = Guardian::start(&dir, GUIDE)?;
    let mut guarded = GuardedJournal {
        journal,
        guardian,
        dir: dir.clone(),
        destroy: Vec::new(),
        limit: LIMIT,
        within: None,
    };
    let came = steps(&mut state, &mut guarded, &progress);
    let interrupted = came.as_ref().is_err_and(|e| e.is::<StoppedByUser>() || stopped());
    if came.is_err() || !state.keep {
        state.put_back = put_back(&mut guarded)?;
    }
    state::write(&dir, &state)?;
    guarded.guardian.goodbye();
    if interrupted {
        progress.must(&format!("stopped by the user; to go on: plumb guide {}", dir.display()));
        return Ok(ExitCode::from(NOT_VALID));
    }
    came?;
    end(&state, &dir, args.json, &progress)
}

/// The state of the directory's guide, or of a new one.
fn ready(args: &options::Guide, dir: &Path) -> Result<State> {
    let shown = dir.display();
    let found = state::read(dir)?;
    let mut state = match (found, &args.new) {
        (Some(_), Some(_)) => bail!("cannot begin in {shown}: it holds a guide; go on with 'plumb guide {shown}', or name another directory with -o"),
        (None, None) => bail!("cannot go on with {shown}: it holds no guide; begin with: plumb guide -o DIR --goal GOAL -- COMMAND"),
        (Some(state), None) => state,
        (None, Some(new)) => fresh(new, dir)?,
    };
    state.keep = args.keep.unwrap_or(state.keep);
    Ok(state)
}

fn fresh(new: &options::New, dir: &Path) -> Result<State> {
    let foreign =
        |entry: std::io::Result<std::fs::DirEntry>| entry.map_or(true, |e| e.file_name() != JOURNAL);
    if std::fs::read_dir(dir).with_context(|| dir.display().to_string())?.any(foreign) {
        bail!(
            "cannot begin in {}: it is not empty and holds no guide; name another directory with -o",
            dir.display()
        );
    }
    let checks = check::run();
    if let Some(missing) = checks.iter().find(|c| c.status == Status::Missing) {
        bail!("cannot record here: {}: {}; see 'plumb check'", missing.name, missing.found);
    }
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let less = checks.iter().filter(|c| c.status == Status::Less);
    Ok(State {
        plumb: env!("CARGO_PKG_VERSION").into(),
        arguments: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        goal: new.goal,
        may: new.may.clone(),
        trials: new.trials.clone(),
        most: new.steps,
        repeat: new.repeat,
        prepare: new.prepare.clone(),
        command: new.command.clone(),
        keep: false,
        preconditions: Environment::capture(&directory),
        directory,
        checks: less.map(|c| format!("{}: {} ({})", c.name, c.found, c.cost)).collect(),
        observed: None,
        steps: Vec::new(),
        untried: Vec::new(),
        end: None,
        put_back: Vec::new(),
    })
}

/// The loop: measure, judge, change one thing, measure again.
fn steps(state: &mut State, guarded: &mut GuardedJournal, progress: &Progress) -> Result<()> {
    let mut launch = Launch::default();
    let observed = match state.observed.clone() {
        Some(observed) => observed,
        None => {
            progress.say("running the command once without a recording");
            let observed = observe(state, &launch, guarded)?;
            state.observed = Some(observed.clone());
            state::write(&guarded.dir, state)?;
            observed
        }
    };
    let accepted: Vec<Proposal> = state.accepted().cloned().collect();
    for proposal in accepted {
        progress.say(&format!("again: {}", text::change(&proposal)));
        proposal.action.make(guarded, &mut launch)?;
    }
    if state.steps.is_empty() {
        progress.say(&format!("measuring, {} repetitions", state.repeat));
        let measured = measure(state, "0", &launch, guarded, &|line| progress.say(line))?;
        progress.say(&text::judgement(&measured));
        let step = Step {
            number: 0,
            change: None,
            measured: Some(measured),
            verdict: Verdict::First,
            effect: None,
            confirmed: None,
        };
        state.steps.push(step);
        state::write(&guarded.dir, state)?;
    }
    loop {
        if guarded.guardian.renew()? {
            progress.must("the guide's guardian was killed; another one watches from now on");
        }
        let current = state.current().and_then(|s| s.measured.clone()).context("the first measurement")?;
        if state.meets(&current) {
            state.untried.clear();
            state.end = Some(End::GoalReached);
            return Ok(());
        }
        let all = proposals(&guarded.dir, state, &current, &observed, &launch)?;
        let next = all.iter().find(|p| p.allowed).cloned();
        state.untried = all;
        match next {
            None => {
                state.end = Some(End::NothingLeft);
                return Ok(());
            }
            Some(_) if state.tried() >= state.most => {
                state.end = Some(End::StepsUsed);
                return Ok(());
            }
            Some(next) => one(state, next, &current, &mut launch, guarded, progress)?,
        }
    }
}

/// Tries one change; it stays where it helps.
fn one(
    state: &mut State,
    change: Proposal,
    current: &Measured,
    launch: &mut Launch,
    guarded: &mut GuardedJournal,
    progress: &Progress,
) -> Result<()> {
    let number = state.steps.len() as u32;
    progress.say(&format!("change {number}: {} ({})", text::change(&change), change.finding.id));
    let mark = guarded.journal.mark();
    let mut with = launch.clone();
    let say = |line: &str| progress.say(line);
    let came = change
        .action
        .make(guarded, &mut with)
        .and_then(|()| measure(state, &number.to_string(), &with, guarded, &say));
    let (measured, effect, mut verdict) = match came {
        Ok(measured) => {
            let effect = Effect::of(&current.elapsed, &measured.elapsed);
            let verdict = effect.as_ref().map_or(Verdict::Noise, Effect::verdict);
            (Some(measured), effect, verdict)
        }
        Err(error) if error.is::<StoppedByUser>() || stopped() => return Err(error),
        Err(error) => (None, None, Verdict::Failed(format!("{error:#}"))),
    };
    let small = verdict == Verdict::Accepted && effect.is_some_and(|e| e.is_small());
    if small || verdict != Verdict::Accepted {
        undone(guarded.journal.undo_since(mark))?;
    }
    let mut confirmed = None;
    if let (true, Some(measured)) = (small, &measured) {
        progress.say("  a small gain: measuring without the change again");
        let before = measure(state, &format!("{number}-without"), launch, guarded, &say)?;
        confirmed = Effect::of(&before.elapsed, &measured.elapsed);
        verdict = confirmed.as_ref().map_or(Verdict::Noise, Effect::verdict);
        if verdict == Verdict::Accepted {
            change.action.make(guarded, &mut with)?;
        }
    }
    if verdict == Verdict::Accepted {
        *launch = with;
    }
    let step = Step { number, change: Some(change), measured, verdict, effect, confirmed };
    progress.say(&format!("  {}", text::outcome(&step)));
    if let (true, Some(measured)) = (step.is_accepted(), &step.measured) {
        progress.say(&text::judgement(measured));
    }
    state.steps.push(step);
    state::write(&guarded.dir, state)
}

/// Undoes all that is open, and says what.
fn put_back(guarded: &mut GuardedJournal) -> Result<Vec<String>> {
    undone(guarded.journal.undo_since(0))
}

fn undone(told: Vec<Undone>) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for one in told {
        match one {
            Undone::Nothing => {}
            Undone::Did(what) | Undone::Forced(what) => said.push(what),
            Undone::LeftAlone(what) => said.push(format!("left alone: {what}")),
            Undone::Failed(what) => bail!("cannot put the system back as it was: {what}"),
        }
    }
    Ok(said)
}

/// The report, and the exit code.
fn end(state: &State, dir: &Path, as_json: bool, progress: &Progress) -> Result<ExitCode> {
    report::write(state, dir)?;
    report::print(state, dir, as_json)?;
    progress.say(&format!("report: {}", dir.join(report::FILE).display()));
    Ok(match state.end {
        Some(End::GoalReached) => ExitCode::SUCCESS,
        _ => ExitCode::from(NOT_REACHED),
    })
}
