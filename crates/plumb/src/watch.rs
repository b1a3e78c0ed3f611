// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb watch`: the machine, recorded all the time: a line of each window, and runs of what triggers tell of.

mod asked;
mod config;
mod keep;
mod writer;

use crate::cli::trigger::TriggerArgs;
use crate::cli::watch::WatchArgs;
use anyhow::{anyhow, bail, Context, Error, Result};
use asked::Asked;
use config::{Config, EXAMPLE};
use keep::Store;
use plumb_live::metrics::Metrics;
use plumb_live::otlp::{self, Fired, Otlp, Target};
use plumb_live::shown::Shown;
use plumb_live::triggers::{Due, Triggers, When};
use plumb_live::{Kept, Told, Words};
use plumb_machine::host::Identity;
use plumb_machine::signals::{self, Calls};
use plumb_machine::{clock, output, Root};
use plumb_trace::schema::StateTrigger;
use plumb_trace::units;
use std::env::VarError;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use writer::{Job, Writer};

/// Says something to whoever may read it: a standard error that is closed, or on a full disk, ends nothing.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "plumb: {text}");
}

/// What is done with what is recorded.
struct Keeper {
    writer: Writer,
    kept: Arc<Kept>,
    triggers: Triggers,
    metrics: Metrics,
    /// Behind the writer, which tells of runs to its end.
    otlp: Option<Otlp>,
}

/// Seconds after 1970 of a moment of CLOCK_MONOTONIC.
fn wall(at: u64) -> u64 {
    let clocks = clock::together();
    (clocks.realtime.saturating_sub(clocks.monotonic) + at) / 1_000_000_000
}

/// Says what runs will be written of.
fn say_of(fired: impl IntoIterator<Item = (String, StateTrigger)>) {
    for (name, fired) in fired {
        let took = units::duration(fired.end.saturating_sub(fired.begin));
        let who = match fired.thread {
            0 => format!("in {took}"),
            thread => format!("thread {thread} took {took}"),
        };
        say(&format!("trigger {name}: {}: {who}", fired.condition));
    }
}

impl Keeper {
    fn told(&mut self, told: Told) {
        match told {
            Told::Window(window) => {
                let shown = Shown::of(&window);
                let (begin, end) = (wall(window.begin), wall(window.end));
                self.metrics.window(shown.clone(), end);
                if let Some(otlp) = &self.otlp {
                    otlp.sender().window(&self.metrics);
                }
                self.writer.write(Job::Window { begin, end, shown: Box::new(shown) });
            }
            Told::Trigger(fired) => say_of(self.triggers.fired(&fired)),
            Told::Slow(request) => say_of(self.triggers.answered(&request)),
            Told::Trouble(trouble) => say(&trouble),
            Told::Until(until) => {
                say_of(self.triggers.look(clock::now(), &Root::real()));
                for name in self.writer.asked() {
                    let taken = self.triggers.ask(&name, until.min(clock::now()));
                    say(&format!(
                        "trigger {name}: asked for{}",
                        if taken { "" } else { " too often: no run" }
                    ));
                }
                for due in self.triggers.due(until) {
                    self.take(&due);
                }
                self.metrics.fired(self.triggers.totals());
            }
        }
    }

    /// Has a run written.
    fn take(&self, due: &Due) {
        let more = match due.since {
            0 => String::new(),
            times => format!(", {times} times more since the run before"),
        };
        let reason = format!("trigger '{}'{more}", due.fired.condition);
        match self.kept.take(&reason, Some(&due.fired)) {
            Ok(taken) => {
                let (at, name, what) = (wall(due.fired.end), due.name.clone(), due.fired.clone());
                let fired = Fired { name, what, at, run: String::new() };
                self.writer.write(Job::Run { fired, taken: Box::new(taken) });
            }
            Err(error) => say(&format!("a run of {} is lost: {error:#}", due.name)),
        }
    }
}

/// Has SIGHUP read the file again: a wrong one is told and changes nothing, for another one the recording ends, and
/// [`main`] begins anew. On a terminal SIGHUP ends the watch, as it does everything else there.
fn reload(file: Option<&Path>, again: &Arc<AtomicBool>) -> Result<()> {
    if File::open("/dev/tty").is_ok() {
        return Ok(());
    }
    let (file, again) = (file.map(Path::to_path_buf), Arc::clone(again));
    signals::on_hangup(move || match Config::read(file.as_deref()).and_then(|config| collector(&config)) {
        Ok(_) => {
            say("SIGHUP: the present window ends, and the file's words hold from now on");
            again.store(true, Ordering::Release);
            signals::stop().ask();
        }
        Err(error) => say(&format!("SIGHUP: nothing changes: {error:#}")),
    })
}

/// This command once more in this process, by the program that has its name now: it may be a newer one.
fn begin_anew() -> Error {
    let mut words = std::env::args_os();
    let Some(program) = words.next() else { return anyhow!("this process has no name") };
    Error::from(Command::new(&program).args(words).exec()).context(format!("{}", program.display()))
}

/// The collector that a file names, if it names one; the environment says the rest, as it does to the SDKs of OpenTelemetry.
fn collector(config: &Config) -> Result<Option<Target>> {
    const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    let endpoint = config.otlp.clone();
    if endpoint.is_empty() {
        return Ok(None);
    }
    let headers = match std::env::var(HEADERS) {
        Ok(text) => otlp::headers(&text).context(HEADERS)?,
        Err(VarError::NotPresent) => Vec::new(),
        Err(VarError::NotUnicode(_)) => bail!("{HEADERS}: is not UTF-8"),
    };
    let named = std::env::var_os(CERTIFICATE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let tls = plumb_bucket::tls(endpoint.starts_with("https:"), named.as_deref(), CERTIFICATE)?;
    Ok(Some(Target { endpoint, headers, tls }))
}

/// Who sends there.
fn sends(target: &Target) -> Result<Otlp> {
    Otlp::start(target, &Identity::read(&Root::real()), say)
}

/// Runs the command.
///
/// # Errors
/// The file is wrong, or nothing can be recorded.
pub fn main(args: &WatchArgs) -> Result<ExitCode> {
    if args.example {
        write!(std::io::stdout(), "{EXAMPLE}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::read(args.file.as_deref())?;
    let target = collector(&config)?;
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    // What is recorded is everybody's.
    output::private_unless(false);
    signals::catch(Calls::Restart);
    let again = Arc::default();
    reload(args.file.as_deref(), &again)?;
    let when = |when: &config::When| {
        let condition = when.parsed()?;
        Ok(When { name: when.name.clone(), condition, every: when.every, after: when.after })
    };
    let triggers = Triggers::new(config.triggers.iter().map(when).collect::<Result<Vec<_>>>()?);
    let store = Store::open(&config.directory, config.retention.clone())?;
    let asked = Asked::open(&config.directory)?;
    let metrics = Metrics::default();
    if !config.metrics.is_empty() {
        say(&format!("metrics at http://{}/metrics", metrics.serve(&config.metrics)?));
    }
    let otlp = target.as_ref().map(sends).transpose()?;
    say(&format!(
        "watching: windows of {} in {}, {} triggers",
        units::duration(config.window),
        config.directory.display(),
        config.triggers.len()
    ));
    let words = Words {
        window: config.window,
        events: config.events.clone(),
        triggers: triggers.recorded(),
        slow: triggers.slow_requests(),
        budget: Some(config.budget),
        keep: config.keep,
        memory: config.memory,
        restart: config.restart,
        duration: args.duration,
    };
    let kept = Arc::new(Kept::default());
    let writer = Writer::start(store, asked, metrics.clone(), otlp.as_ref().map(|o| o.sender().clone()))?;
    let mut keeper = Keeper { writer, kept: Arc::clone(&kept), triggers, metrics, otlp };
    plumb_live::record(&words, &kept, move |what| {
        keeper.told(what);
        Ok(())
    })?;
    // Not where somebody asked it to end meanwhile.
    if again.load(Ordering::Acquire) && signals::stop().times() == 1 {
        return Err(begin_anew());
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a watch for a run.
///
/// # Errors
/// Nobody watches there.
pub fn trigger(args: &TriggerArgs) -> Result<ExitCode> {
    asked::ask(&args.dir, &args.name)?;
    eprintln!("plumb: a run comes to {}", args.dir.join("runs").display());
    Ok(ExitCode::SUCCESS)
}
