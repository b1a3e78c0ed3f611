// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb top`: what the machine's services do now, window by window. The recorder writes into memory, a thread beside it
//! analyses each window when it is over, and this one draws it.

mod screen;

use crate::cli::top::TopArgs;
use crate::run::stamp;
use anyhow::{anyhow, bail, Context, Result};
use plumb_live::shown::{Shown, PARTS};
use plumb_live::{Kept, Told, Words};
use plumb_machine::signals::{self, Calls};
use plumb_machine::{json, output, utc, Root};
use plumb_report::plain::Plain;
use plumb_trace::units;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use screen::{cells, sorted, Screen, Wish};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A key waits no longer.
const KEYS: Duration = Duration::from_millis(50);
/// What holds for all of a recording grows with it.
const RESTART: u64 = 3_600_000_000_000;
/// Shorter windows tell nothing.
const SHORTEST: u64 = 100_000_000;

/// The recording, and its windows as they are over.
struct Live {
    kept: Arc<Kept>,
    windows: Receiver<Shown>,
    recording: JoinHandle<Result<()>>,
}

impl Live {
    fn start(args: &TopArgs) -> Result<Self> {
        let kept = Arc::new(Kept::default());
        let (told, windows) = channel();
        let words = Words {
            window: args.window,
            events: "default".into(),
            triggers: Vec::new(),
            slow: None,
            budget: None,
            keep: args.keep,
            memory: args.keep_memory,
            restart: RESTART,
            duration: args.duration,
        };
        let of = Arc::clone(&kept);
        let record = move || {
            plumb_live::record(&words, &of, move |what| {
                if let Told::Window(window) = what {
                    told.send(Shown::of(&window)).context("nobody looks")?;
                }
                Ok(())
            })
        };
        let recording = thread::Builder::new().name("recorder".into()).spawn(record);
        Ok(Self { kept, windows, recording: recording.context("a thread for the recorder")? })
    }

    /// Waits for its end; what went wrong.
    fn end(self) -> Result<()> {
        signals::stop().ask();
        // What comes yet is for nobody, and no error.
        let all = self.windows;
        let drained = thread::spawn(move || all.iter().for_each(drop));
        let Ok(recorded) = self.recording.join() else { bail!("the recorder ended") };
        let _ = drained.join();
        recorded
    }
}

/// Writes what is kept as a run.
fn write(kept: &Kept) -> Result<PathBuf> {
    let dir = PathBuf::from(format!("plumb-run-{}", stamp()));
    if dir.exists() {
        bail!("{}: is there already", dir.display());
    }
    kept.take("written by plumb top", None)?.write(&dir.join("trace"))?;
    Ok(dir)
}

/// Name of the host, and the time.
fn title() -> String {
    let host = Root::real().text("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{host}  {}", utc())
}

/// Waits for a key; whether the terminal is still there.
fn is_there(terminal: &impl AsRawFd, patience: Duration) -> bool {
    let mut asked = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor that is open.
    unsafe { libc::poll(&raw mut asked, 1, patience.as_millis() as libc::c_int) };
    asked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0
}

/// What is said from now on is for nobody: the terminal has gone, and who fails to say so ends before the recording does.
fn silence() -> Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: both are open, and the copy lives as long as the program.
        unsafe { libc::dup2(nowhere.as_raw_fd(), fd) };
    }
    Ok(())
}

/// A run that is being written.
type Writing = Option<JoinHandle<Result<PathBuf>>>;

fn on_screen(live: &Live, args: &TopArgs, terminal: &mut ratatui::DefaultTerminal) -> Result<()> {
    let mut writing = None;
    let shown = show(live, args, terminal, &mut writing);
    // What was asked for is written to the end.
    let _ = writing.map(JoinHandle::join);
    shown
}

/// What is said of a run when it is written; nothing before.
fn written(writing: &mut Writing) -> Option<String> {
    let done = writing.take_if(|writing| writing.is_finished())?.join();
    Some(match done.unwrap_or_else(|_| Err(anyhow!("the thread that writes has failed"))) {
        Ok(dir) => format!("written: plumb explain {}", dir.display()),
        Err(error) => format!("cannot write a run: {error:#}"),
    })
}

fn show(
    live: &Live,
    args: &TopArgs,
    terminal: &mut ratatui::DefaultTerminal,
    writing: &mut Writing,
) -> Result<()> {
    let mut screen = Screen::new(args.sort, &args.filter);
    screen.message = "recording; the first window is shown when it is over".into();
    let mut first = true;
    let terminal_of_keys = match std::io::stdin().is_terminal() {
        true => std::io::stdin().as_fd().try_clone_to_owned()?,
        false => File::open("/dev/tty").context("/dev/tty, for keys")?.into(),
    };
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let mut news = false;
        while !news {
            if signals::stopped() || live.recording.is_finished() {
                return Ok(());
            }
            loop {
                match live.windows.try_recv() {
                    Ok(shown) => {
                        if std::mem::take(&mut first) {
                            screen.message.clear();
                        }
                        screen.take(shown, title());
                        news = true;
                    }
                    Err(TryRecvError::Empty) => break,
                    // Who reads the recording has given up, and says why at the end.
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            if let Some(message) = written(writing) {
                screen.message = message;
                news = true;
            }
            // Whose terminal has gone would read its end for ever.
            if !is_there(&terminal_of_keys, KEYS) {
                return Ok(());
            }
            if !event::poll(Duration::ZERO)? {
                continue;
            }
            news = true;
            let Event::Key(key) = event::read()? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match screen.key(key) {
                Wish::Nothing => {}
                Wish::End => return Ok(()),
                Wish::Write if writing.is_none() => {
                    let kept = Arc::clone(&live.kept);
                    let write = thread::Builder::new().name("writer".into()).spawn(move || write(&kept));
                    *writing = Some(write.context("a thread that writes")?);
                    screen.message = "writing the last seconds, with the names of functions ...".into();
                }
                Wish::Write => {}
            }
        }
    }
}

fn as_text(live: &Live, args: &TopArgs, out: &mut dyn Write) -> Result<()> {
    if args.json {
        json::begin_lines::<Shown>(&mut *out)?;
        out.flush()?;
    }
    let mut none = true;
    for shown in &live.windows {
        none = false;
        if args.json {
            json::line(&mut *out, &shown)?;
        } else {
            let out = &mut Plain(&mut *out);
            writeln!(out, "{}  {:.1} of {:.0} CPUs busy", title(), shown.cpus[0], shown.cpus[1])?;
            writeln!(out, "{}", shown.bottleneck)?;
            let heads =
                ["service"].into_iter().chain(PARTS).chain(["req/s", "mean", "longest", "limited by"]);
            line(heads.map(String::from), out)?;
            for service in sorted(&shown, args.sort, &args.filter) {
                line(cells(service).into_iter(), out)?;
            }
            writeln!(out)?;
        }
        out.flush()?;
    }
    if let Some(duration) = args.duration.filter(|_| none && !signals::stopped()) {
        let (duration, window) = (units::duration(duration), units::duration(args.window));
        eprintln!("no window of {window} was over in {duration}; record for longer (--for)");
    }
    Ok(())
}

fn line(cells: impl Iterator<Item = String>, out: &mut dyn Write) -> Result<()> {
    for (i, cell) in cells.enumerate() {
        match i {
            0 => write!(out, "{cell:<26}")?,
            1..=9 => write!(out, " {cell:>9}")?,
            _ => write!(out, "  {cell}")?,
        }
    }
    Ok(writeln!(out)?)
}

/// Runs the command.
///
/// # Errors
/// Nothing can be recorded, or nothing be drawn.
pub fn main(args: &TopArgs) -> Result<ExitCode> {
    if args.window < SHORTEST {
        bail!("--window {}: at least {}", units::duration(args.window), units::duration(SHORTEST));
    }
    if let Some(duration) = args.duration.filter(|d| *d <= args.window) {
        let (duration, window) = (units::duration(duration), units::duration(args.window));
        bail!("--for {duration}: nothing is shown before a window of {window} is over (--window); record for longer");
    }
    // What is recorded is everybody's.
    output::private_unless(false);
    signals::catch(Calls::Restart);
    let live = Live::start(args)?;
    let shown = if args.json || !std::io::stdout().is_terminal() {
        // Not locked: the recorder's thread forks, and empties it before.
        as_text(&live, args, &mut std::io::stdout())
    } else {
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let shown = on_screen(&live, args, &mut terminal);
        if !is_there(&std::io::stdout(), Duration::ZERO) {
            silence()?;
        }
        drop(terminal);
        ratatui::restore();
        shown
    };
    let ended = live.end();
    shown?;
    ended?;
    Ok(ExitCode::SUCCESS)
}
