// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that cannot keep the test run waiting: neither by taking for ever, nor by a process
//! that cannot be killed, nor by one that it leaves behind with its output open.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a command may take.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub time: Duration,
    /// So long after that, SIGKILL; and so long after its end whoever still holds its output.
    pub grace: Duration,
}

#[derive(Debug)]
pub enum End {
    Exited(ExitStatus),
    /// It was stopped; what was running then, a line each.
    Stopped(Vec<String>),
}

/// The process groups that a signal to this program is passed on to; 0 is a free place.
static GROUPS: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

/// A group in [`GROUPS`] until this is dropped. With all places taken it is in none.
struct Passed(Option<&'static AtomicI32>);

impl Passed {
    fn new(group: i32) -> Self {
        Self(GROUPS.iter().find(|g| g.compare_exchange(0, group, SeqCst, SeqCst).is_ok()))
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, SeqCst);
        }
    }
}

/// Runs a command in a session of its own and hands over its output, line by line.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &mut Command, limit: Limit, mut line: impl FnMut(&str)) -> Result<End> {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: setsid and prctl are plain system calls.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            // Who kills this program by force does not reach that session either.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    pass_signals_on();
    let mut child =
        command.spawn().with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    let session = child.id() as i32;
    let passed = Passed::new(session);
    let lines = follow(&mut child);

    let end = loop {
        let left = limit.time.saturating_sub(start.elapsed());
        if left.is_zero() {
            break stop(session, &mut child, limit.grace, &lines, &mut line);
        }
        take(&lines, left.min(Duration::from_millis(20)), &mut line);
        if let Some(status) = child.try_wait().context("wait")? {
            break End::Exited(status);
        }
    };
    drop(passed);
    if !drain(&lines, limit.grace, &mut line) {
        line("its output is still held open by a process that it left behind; going on without it");
    }
    // Whoever is left of it would disturb what comes next.
    each(session, |pid, _| signal(pid, libc::SIGKILL));
    Ok(end)
}

/// Ends it, and comes back whether or not that worked.
fn stop(
    session: i32,
    child: &mut Child,
    grace: Duration,
    lines: &Receiver<Vec<u8>>,
    line: &mut impl FnMut(&str),
) -> End {
    let running = list(session);
    // Only the group: it takes down itself what it started in groups of their own.
    signal(-session, libc::SIGTERM);
    for attempt in 0..2 {
        let start = Instant::now();
        while start.elapsed() < grace {
            take(lines, Duration::from_millis(20), line);
            if matches!(child.try_wait(), Ok(Some(_))) {
                return End::Stopped(running);
            }
        }
        if attempt == 0 {
            each(session, |pid, _| signal(pid, libc::SIGKILL));
        }
    }
    // Not even by SIGKILL: it waits in the kernel. It is left there.
    End::Stopped(running)
}

/// Starts the readers; they end with the pipes, or when nobody listens any more.
fn follow(child: &mut Child) -> Receiver<Vec<u8>> {
    let (send, lines) = channel();
    if let Some(pipe) = child.stdout.take() {
        reader(pipe, send.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        reader(pipe, send);
    }
    lines
}

fn reader(pipe: impl Read + Send + 'static, send: Sender<Vec<u8>>) {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            let more = pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0);
            if !more || send.send(line).is_err() {
                return;
            }
        }
    });
}

/// Hands over lines until none comes for so long; whether the pipes are still open.
fn take(lines: &Receiver<Vec<u8>>, quiet: Duration, line: &mut impl FnMut(&str)) -> bool {
    match lines.recv_timeout(quiet) {
        Ok(bytes) => {
            line(String::from_utf8_lossy(&bytes).trim_end());
            true
        }
        Err(RecvTimeoutError::Timeout) => true,
        Err(RecvTimeoutError::Disconnected) => {
            // Closed by a program that goes on.
            std::thread::sleep(quiet);
            false
        }
    }
}

/// Hands over what is still in the pipes; whether all writers have closed them in time.
fn drain(lines: &Receiver<Vec<u8>>, grace: Duration, line: &mut impl FnMut(&str)) -> bool {
    let start = Instant::now();
    while start.elapsed() < grace {
        if !take(lines, Duration::from_millis(20).min(grace), line) {
            return true;
        }
    }
    false
}

/// Processes of a session, with what /proc/PID/stat says behind the name (proc_pid_stat(5)).
fn each(session: i32, mut what: impl FnMut(i32, &str)) {
    let Ok(proc) = std::fs::read_dir("/proc") else { return };
    for pid in proc.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // State, parent, group, session.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        if rest.split(' ').nth(3).and_then(|s| s.parse().ok()) == Some(session) {
            what(pid, rest);
        }
    }
}

/// The processes of a session as people read them. In a thread: the kernel gives the command line
/// of a process only under a lock that a stuck one may hold.
fn list(session: i32) -> Vec<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        each(session, |pid, stat| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let text = |file: &str| String::from_utf8_lossy(&read(file)).replace('\0', " ").trim().to_owned();
            let name = format!("{pid} {} {} in {}", &stat[..1], text("comm"), text("wchan"));
            if send.send(name).is_ok() {
                let _ = send.send(format!("{pid}: {}", text("cmdline")));
            }
        });
    });
    let limit = Instant::now() + Duration::from_secs(5);
    let next = || lines.recv_timeout(limit.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).collect()
}

fn signal(pid: i32, number: libc::c_int) {
    // SAFETY: a call with plain numbers, for processes that this program started.
    unsafe { libc::kill(pid, number) };
}

extern "C" fn pass_on(number: libc::c_int) {
    // SAFETY: all of them may be called in a signal handler (signal-safety(7)).
    unsafe {
        for group in GROUPS.iter().map(|g| g.load(SeqCst)).filter(|g| *g > 0) {
            libc::kill(-group, libc::SIGTERM);
        }
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
}

/// Ctrl-C does not reach another session by itself.
fn pass_signals_on() {
    let handler: extern "C" fn(libc::c_int) = pass_on;
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only does what a handler may do.
        unsafe { libc::signal(number, handler as libc::sighandler_t) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script; how it ended and what it printed.
    fn shell(script: &str, time: u64, grace: u64) -> (End, Vec<String>) {
        let mut said = Vec::new();
        let limit = Limit { time: Duration::from_millis(time), grace: Duration::from_millis(grace) };
        let end = run(Command::new("sh").args(["-c", script]), limit, |l| said.push(l.to_owned()));
        (end.expect("sh"), said)
    }

    /// Whether a process is there and no zombie.
    fn alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    fn assert_ends(pid: &str) {
        let start = Instant::now();
        while alive(pid) {
            assert!(start.elapsed() < Duration::from_secs(20), "process {pid} is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_that_ends_is_not_stopped() {
        let (end, said) = shell("echo out; echo err >&2; exit 3", 60_000, 20_000);
        assert!(matches!(end, End::Exited(status) if status.code() == Some(3)), "{end:?}");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.contains(&"out".to_owned()) && said.contains(&"err".to_owned()), "{said:?}");
    }

    #[test]
    fn one_that_takes_too_long_is_stopped_and_named() {
        let (end, said) = shell("echo $$; echo before; exec sleep 1000", 500, 20_000);
        let End::Stopped(running) = end else { panic!("{end:?}") };
        assert!(running.iter().any(|l| l.contains("sleep 1000")), "{running:?}");
        assert_eq!(said[1], "before");
        assert_ends(&said[0]);
    }

    #[test]
    fn sigterm_leaves_time_to_clear_up() {
        let script = "trap 'echo cleared up; exit' TERM; echo ready; while :; do sleep 0.01; done";
        let (end, said) = shell(script, 500, 20_000);
        assert!(matches!(end, End::Stopped(_)), "{end:?}");
        assert!(said.contains(&"cleared up".to_owned()), "{said:?}");
    }

    #[test]
    fn one_that_ignores_sigterm_is_killed() {
        let (end, said) = shell("trap '' TERM; echo $$; while :; do sleep 0.1; done", 300, 300);
        assert!(matches!(end, End::Stopped(_)), "{end:?}");
        assert_ends(&said[0]);
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_open_is_not_waited_for() {
        let (end, said) = shell("sleep 1000 & echo $!", 60_000, 300);
        assert!(matches!(end, End::Exited(status) if status.success()), "{end:?}");
        assert!(said[1].contains("held open"), "{said:?}");
        assert_ends(&said[0]);
    }

    /// As if it were stuck in the kernel: no signal reaches it, and it holds the pipe.
    #[test]
    fn one_that_no_signal_reaches_is_not_waited_for() {
        let (end, said) = shell("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1001", 500, 300);
        let End::Stopped(running) = end else { panic!("{end:?}") };
        assert!(running.iter().any(|l| l.contains("sleep 1001")), "{running:?}");
        let escaped = said[0].as_str();
        let was_alive = alive(escaped);
        signal(escaped.parse().expect("a process"), libc::SIGKILL);
        assert!(was_alive, "it should have been out of reach: {said:?}");
        assert!(said[1].contains("held open"), "{said:?}");
    }

    #[test]
    fn one_that_closes_its_output_and_goes_on_is_stopped_too() {
        let (end, _) = shell("exec >&- 2>&-; exec sleep 1000", 300, 20_000);
        assert!(matches!(end, End::Stopped(_)), "{end:?}");
    }

    #[test]
    fn a_signal_is_passed_on_to_every_command_that_runs() {
        let groups = || -> Vec<i32> { GROUPS.iter().map(|g| g.load(SeqCst)).collect() };
        // Numbers that no process has.
        let (one, two) = (Passed::new(i32::MAX), Passed::new(i32::MAX - 1));
        assert!(groups().contains(&i32::MAX) && groups().contains(&(i32::MAX - 1)), "{:?}", groups());
        drop(one);
        assert!(!groups().contains(&i32::MAX) && groups().contains(&(i32::MAX - 1)), "{:?}", groups());
        drop(two);
        assert!(!groups().contains(&(i32::MAX - 1)), "{:?}", groups());
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let limit = Limit { time: Duration::from_secs(60), grace: Duration::from_secs(1) };
        let error = run(&mut Command::new("no-such-program"), limit, |_| ()).expect_err("not there");
        assert!(format!("{error:#}").contains("no-such-program"), "{error:#}");
    }
}
