// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb record`: the first stage alone.

use crate::cli::{ExitCodeOf, Programs, RecordArgs, What};
use crate::collect;
use crate::quality::NOT_VALID;
use anyhow::{bail, Context, Result};
use plumb_machine::signals::{self, Calls};
use plumb_machine::{json, output};
use plumb_machine::{process, service, Root};
use plumb_probe::{
    recorder, Beside, Keep, Opens, Options, Outcome, Progress, Running, Selection, Spans, Target, Trigger,
};
use plumb_trace::units;
use std::io::IsTerminal;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// Bad options, or nothing could be recorded.
pub fn main(args: &RecordArgs) -> Result<ExitCode> {
    let mut options = options(&args.what, &args.output)?;
    if args.to.is_some() && args.what.events == "default" {
        // A set is read as one: by the segments that its hosts sent each other.
        options.selection.events.extend(Selection::parse("tcp")?.events);
    }
    options.keep = keep(args)?;
    options.output_apart = args.json;
    let holds_a_run = args.output.join("run.json").exists() || args.output.join("trace").exists();
    if args.to.is_none() && holds_a_run {
        bail!("{}: holds a run already; choose another directory with -o", args.output.display());
    }
    output::private_unless(args.what.share);
    let outcome = match collect::record(args, &options)? {
        Some(sent) => sent,
        None => record(&options, args.what.quiet)?,
    };
    if args.json {
        json::write(std::io::stdout(), &outcome)?;
    }
    Ok(exit_code(&outcome, args.what.exit_code))
}

fn keep(args: &RecordArgs) -> Result<Option<Keep>> {
    let Some(last) = args.keep else { return Ok(None) };
    if args.what.budget.is_some() {
        bail!("--keep and --budget exclude each other: what fires the trigger may lie in a pause");
    }
    let when = args.when.as_deref().map(Trigger::parse).transpose()?;
    Ok(Some(Keep { last, when, memory: args.keep_memory as usize }))
}

/// Turns the words into a recording's options.
///
/// # Errors
/// Unknown events, devices or processes; no target.
pub fn options(what: &What, dir: &Path) -> Result<Options> {
    let mut selection = Selection::parse(&what.events)?;
    for word in &what.thin {
        selection.thin(word)?;
    }
    let target = target(what)?;
    let devices = what.device.iter().map(|d| whole_disk(d)).collect::<Result<_>>()?;
    Ok(Options {
        dir: dir.to_path_buf(),
        selection,
        everyone: what.all,
        target,
        stack_threshold: what.stacks,
        sampling: what.sample,
        output_apart: false,
        only_target: what.only_target,
        devices,
        buffer: what.buffer.unwrap_or(0),
        keep: None,
        spans: Spans {
            asked: what.span.clone(),
            programs: what.programs == Programs::All,
            waits: what.programs != Programs::None,
            texts: what.span_text,
        },
        budget: what.budget,
        duration: what.duration,
        flush: recorder::FLUSH_EVERY,
        eager: false,
        named: true,
        triggers: Vec::new(),
    })
}

/// Who is recorded.
fn target(what: &What) -> Result<Target> {
    let root = Root::real();
    let running = || {
        let mut named = what.pid.clone();
        for name in &what.name {
            let found = process::named(name, &root);
            if found.is_empty() {
                bail!("no process is called {name}; 'ps -e' lists those that run");
            }
            named.extend(found);
        }
        let none = what.no_children || named.is_empty();
        let children = if none { Vec::new() } else { process::descendants(&named, &root) };
        Ok(Running { named, children })
    };
    let unit = |name: &String| service::directory("unit", name, |s| s.is_unit(name), &root);
    let container = |name: &String| service::directory("container", name, |s| s.is_container(name), &root);
    Ok(match (&what.cgroup, &what.unit, &what.container) {
        _ if !what.command.is_empty() => {
            Target::Command { words: what.command.clone(), beside: running()? }
        }
        (Some(dir), _, _) => Target::Cgroup(dir.clone()),
        (_, Some(name), _) => Target::Cgroup(unit(name)?),
        (_, _, Some(name)) => Target::Cgroup(container(name)?),
        _ if what.all => Target::Everything,
        _ => match running()? {
            running if running.named.is_empty() => bail!(
                "whom to record? Give a command after --, or --pid PID, --name NAME, --unit UNIT, --container NAME, \
                 --cgroup DIR or -a for everything"
            ),
            running => Target::Pids(running),
        },
    })
}

fn whole_disk(path: &Path) -> Result<u32> {
    let meta = std::fs::metadata(path).with_context(|| format!("device {}", path.display()))?;
    if !meta.file_type().is_block_device() {
        bail!("{} is not a block device; 'lsblk -p' lists them", path.display());
    }
    let rdev = meta.rdev();
    let dev = format!("{}:{}", libc::major(rdev), libc::minor(rdev));
    let sys = PathBuf::from("/sys/dev/block").join(&dev);
    if sys.join("partition").exists() {
        bail!("{} is a partition; give its whole disk", path.display());
    }
    Ok(plumb_trace::kernel::dev::new(libc::major(rdev), libc::minor(rdev)))
}

/// Records with progress on standard error, and says how it went.
///
/// # Errors
/// Nothing could be recorded.
pub fn record(options: &Options, quiet: bool) -> Result<Outcome> {
    shown(options, quiet, |show| plumb_probe::record(options, signals::stop(), show).map(|o| (o, ())))
        .map(|(outcome, ())| outcome)
}

/// The same, into a sink in the place of a directory.
///
/// # Errors
/// As [`record`], and those of the sink.
pub fn record_into(options: &Options, quiet: bool, open: Opens<'_>) -> Result<Outcome> {
    shown(options, quiet, |show| {
        plumb_probe::record_into(options, signals::stop(), show, open).map(|o| (o, ()))
    })
    .map(|(outcome, ())| outcome)
}

/// The same, with a reader of the trace as it grows.
///
/// # Errors
/// As [`record`].
pub fn record_beside<T: Send + 'static>(
    options: &Options,
    quiet: bool,
    reader: impl FnOnce(Beside) -> T + Send + 'static,
) -> Result<(Outcome, Option<T>)> {
    shown(options, quiet, |show| plumb_probe::record_beside(options, signals::stop(), show, reader))
}

fn shown<T>(
    options: &Options,
    quiet: bool,
    record: impl FnOnce(&dyn Fn(&Progress)) -> Result<(Outcome, T)>,
) -> Result<(Outcome, T)> {
    signals::catch(Calls::Restart);
    let terminal = std::io::stderr().is_terminal();
    let show = |p: &Progress| {
        if !quiet && terminal {
            eprint!(
                "\r\x1b[K{:.0} s: {} events, {} lost, buffers up to {:.0} % full",
                p.elapsed.as_secs_f64(),
                units::count(p.events),
                units::count(p.lost),
                p.fill * 100.0
            );
        }
    };
    if let (Target::Pids(running), false) = (&options.target, quiet) {
        if !running.children.is_empty() {
            let target = options.target.describe();
            eprintln!("plumb: recording {target} (--no-children: without those that run now)");
        }
    }
    let (outcome, read) = record(&show)?;
    if !quiet {
        if terminal {
            eprint!("\r\x1b[K");
        }
        tell(&outcome);
    }
    if let Some(error) = &outcome.error {
        eprintln!("plumb: the recording ended early: {error}; what came before is readable");
    }
    Ok((outcome, read))
}

fn tell(o: &Outcome) {
    let seconds = (o.end - o.begin) as f64 / 1e9;
    eprintln!(
        "recorded {} events in {seconds:.3} s ({} a second), {} lost, {} missed; trace in {}; {}",
        units::count(o.events),
        units::count((o.events as f64 / seconds.max(1e-9)) as u64),
        units::count(o.lost),
        units::count(o.missed),
        o.dir.display(),
        o.reason,
    );
    if o.lost > o.unsent {
        eprintln!(
            "plumb: {} events were lost: give more --buffer, fewer --events, or --thin",
            units::count(o.lost - o.unsent)
        );
    }
    for note in &o.notes {
        eprintln!("plumb: {note}");
    }
    // A file system's or protocol's are missing where its module is not loaded: nothing happens there either.
    let always = |e: &&String| {
        plumb_trace::event_by_name(e)
            .is_some_and(|i| ["sched", "irq", "block", "lock", "syscall"].contains(&i.set))
    };
    let lacking: Vec<&str> = o.lacking.iter().filter(always).map(String::as_str).collect();
    if !lacking.is_empty() {
        eprintln!("plumb: this kernel lacks {}; 'plumb check' says what that costs", lacking.join(", "));
    }
}

/// The exit code of a recording. A command that still ran at the end has none: then it is plumb's.
pub fn exit_code(outcome: &Outcome, whose: ExitCodeOf) -> ExitCode {
    let command = outcome.exit_code.and_then(|code| u8::try_from(code).ok());
    if let (ExitCodeOf::Command, Some(code)) = (whose, command) {
        return ExitCode::from(code);
    }
    if outcome.error.is_some() {
        ExitCode::from(2)
    } else if outcome.lost > 0 {
        ExitCode::from(NOT_VALID)
    } else {
        ExitCode::SUCCESS
    }
}
