// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb govern`: limits background I/O during foreground I/O.
//!
//! What is done is [`plumb_govern`]'s. Here are the words, the command, what was asked for ([`whole`]), and the hands that
//! put everything back: [`session`], with the journal and the guardian that plans have. [`end`]: low cgroups that go
//! away meanwhile, and why it ended.

mod ending;
mod session;
mod show;
mod targets;

use crate::cli::GovernArgs;
use anyhow::{bail, Context, Result};
use ending::{End, Present};
use plumb_govern::cgroup::{Group, Version};
use plumb_govern::disks::Disk;
use plumb_govern::governor::{Event, Governor, Outcome};
use plumb_govern::watch::{Events, Source, Sums, Whom};
use plumb_machine::clock::now;
use plumb_machine::{signals, Root};
use plumb_probe::Command;
use plumb_trace::units;
use session::Session;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use targets::Whole;

/// How long a command that was asked to end may take to do so.
const PATIENCE: Duration = Duration::from_secs(10);

struct Came {
    disks: Vec<Outcome>,
    /// Requests were seen, or why they were not.
    watched: Result<(), String>,
    end: End,
    exit_code: Option<i32>,
    elapsed: Duration,
}

/// Runs the command.
///
/// # Errors
/// A sentence that names the cgroup, disk or file, and the next step.
pub fn main(args: &GovernArgs) -> Result<ExitCode> {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        bail!("limits of cgroups are root's to set; run as root: sudo plumb govern ...");
    }
    let left = session::restore_left()?;
    if args.restore {
        return show::restored(&left, args.json);
    }
    for line in &left {
        eprintln!("plumb: an earlier plumb govern was killed; {line}");
    }
    let mut whole = Whole::of(args)?;
    signals::catch_and_wake()?;
    let mut session = Session::begin(&whole.low)?;
    let watched = whole.normal.iter().try_for_each(Group::can_be_limited);
    let came = watched.and_then(|()| govern(args, &mut whole, &mut session));
    let came = match (came, session.close()) {
        (Err(why), Err(left)) => return Err(why.context(format!("and not all is put back: {left:#}"))),
        (came, closed) => closed.and(came)?,
    };
    let failed = came.exit_code.is_some_and(|code| code != 0);
    show::result(args, &whole, &came)?;
    Ok(ExitCode::from(u8::from(failed)))
}

/// Everything between the first change and the last.
fn govern(args: &GovernArgs, whole: &mut Whole, session: &mut Session) -> Result<Came> {
    let mut command = None;
    if !args.command.is_empty() {
        let group = session.make_group(&whole.controller)?;
        let forked = Command::fork(&args.command, args.json, None)?;
        let procs = group.dir.join("cgroup.procs");
        std::fs::write(&procs, forked.pid.to_string()).with_context(|| procs.display().to_string())?;
        whole.low.push(group);
        command = Some(forked);
    }
    let mut not_covered: Vec<String> = whole.low.iter().filter_map(Group::not_covered).collect();
    not_covered.dedup();
    whole.not_covered = not_covered;
    let bare: Vec<Disk> = whole.disks.iter().map(|(d, _)| d.clone()).collect();
    let whom =
        Whom { disks: &bare, low: &whole.low, normal: &whole.normal, target: args.target.unwrap_or(0) };
    let mut object = MaybeUninit::uninit();
    let events = if args.sums {
        Err("as asked for with --sums".to_string())
    } else {
        Events::begin(&mut object, whom).map_err(|e| format!("{e:#}"))
    };
    match events {
        Ok(events) => turn(args, whole, session, events, Ok(()), command),
        Err(why) if args.target.is_some() => {
            bail!("--target needs to see requests, by BPF, and {why}; leave --target out")
        }
        Err(why) => {
            let sums = Sums::begin(&Root::real(), whom)?;
            turn(args, whole, session, sums, Err(why), command)
        }
    }
}

fn turn(
    args: &GovernArgs,
    whole: &Whole,
    session: &mut Session,
    source: impl Source,
    watched: Result<(), String>,
    mut command: Option<Command>,
) -> Result<Came> {
    let begun = Instant::now();
    let say = |line: String| {
        if !args.quiet {
            eprintln!("plumb: {:>7.1} s  {line}", begun.elapsed().as_secs_f64());
        }
    };
    if let (Err(why), false) = (&watched, args.quiet) {
        eprintln!(
            "plumb: cannot watch requests ({why}); plumb detects foreground I/O by byte counters, some 10 ms late"
        );
    }
    for line in &whole.not_covered {
        if !args.quiet {
            eprintln!("plumb: not covered: {line}");
        }
    }
    let mut governor = Governor::begin(source, &whole.disks, &whole.low, now(), &mut session.journal)?;
    for (disk, settings) in &whole.disks {
        let kind = if disk.rotational { "rotational" } else { "not rotational" };
        say(format!(
            "{} ({kind}): background I/O is limited to {}, for reads and for writes each",
            disk.name, settings.limit
        ));
    }
    if let Some(command) = &mut command {
        command.release()?;
    }
    let mut asked: Option<Instant> = None;
    let mut present = Present::of(&whole.low);
    let end = loop {
        for (disk, event) in governor.turn(now(), &mut session.journal)? {
            say(format!("{}: {}", disk.name, words(event, args.delay)));
        }
        present.look().into_iter().for_each(&say);
        let late = args.duration.is_some_and(|d| begun.elapsed().as_nanos() >= u128::from(d));
        let over = match &mut command {
            Some(command) => command.ended().map(|_| End::Command),
            None if signals::stopped() => Some(End::Signal),
            None if governor.is_over() => Some(End::NoDisk),
            None if present.nobody() => Some(End::NoGroup),
            None => late.then_some(End::Time),
        };
        if let Some(end) = over {
            break end;
        }
        if let (Some(command), true) = (&mut command, signals::stopped() || late) {
            match asked {
                None => {
                    asked = Some(Instant::now());
                    say(format!(
                        "{}: sending SIGTERM to the command",
                        if late { "--for is over" } else { "stopped" }
                    ));
                    command.signal(libc::SIGTERM);
                }
                Some(at) if at.elapsed() > PATIENCE => command.signal(libc::SIGKILL),
                Some(_) => {}
            }
        }
        let nap = governor.nap(now());
        let left = args.duration.map(|d| Duration::from_nanos(d).saturating_sub(begun.elapsed()));
        std::thread::sleep(left.map_or(nap, |left| nap.min(left.max(Duration::from_millis(1)))));
    };
    // Nobody asked for this end, so that it is told whatever else is not.
    if let Some(why) = end.unasked() {
        eprintln!("plumb: ended after {:.1} s: {why}", begun.elapsed().as_secs_f64());
    }
    let exit_code = command.as_mut().and_then(Command::ended);
    let disks = governor.end(now(), &mut session.journal)?;
    Ok(Came { disks, watched, end, exit_code, elapsed: begun.elapsed() })
}

fn words(event: Event, delay: u64) -> String {
    match event {
        Event::Limited(rate) => format!("foreground I/O: background I/O is limited to {rate}"),
        Event::Steered(rate) => format!("background I/O is now limited to {rate}"),
        Event::Freed => {
            format!("no foreground I/O for {}: background I/O is unlimited", units::duration(delay))
        }
        Event::Gone => "the disk was removed".into(),
    }
}

/// What the version is called.
fn version(version: Version) -> &'static str {
    match version {
        Version::V1 => "v1",
        Version::V2 => "v2",
    }
}
