// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that others wrote are read in a process of its own, with neither privileges nor much memory: one that is
//! made to break its reader costs its own names and no others.

use super::Answer;
use plumb_machine::child::{Child, Status};
use plumb_machine::confine::{confine, memory, Needs};
use plumb_machine::{signals, Root};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// One module's names take no longer.
const ONE: Duration = Duration::from_secs(60);
/// The same where debug information is fetched for it.
const FETCHED: Duration = Duration::from_secs(400);
/// Readers that may be lost; what is left then has no names.
const MOST_LOST: usize = 32;
/// Bytes of one answer.
const LARGEST: u64 = 1 << 30;

/// Exit code of a reader that reads nothing, since it has privileges.
const NOT_CONFINED: i32 = 3;

/// How a module is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// With its debug information.
    Lines,
    /// Its symbols alone: the reader was lost over the rest.
    Symbols,
}

/// Answers to as many questions as there are `places`, of so many places each. `ask` runs in the other process; when `within` is
/// over, what is left has no names.
pub(super) fn answers(
    places: &[usize],
    fetches: bool,
    within: Option<Duration>,
    mut ask: impl FnMut(usize, Depth) -> Answer,
) -> Vec<Answer> {
    let mut out: Vec<Answer> = Vec::new();
    let (mut depth, mut lost, mut why) = (Depth::Lines, 0, String::new());
    let until = within.map(|within| Instant::now() + within);
    while out.len() < places.len() {
        if let Some(within) = within.filter(|_| until.is_some_and(|until| Instant::now() >= until)) {
            let rest = places[out.len()..].iter();
            out.extend(rest.map(|places| nothing(*places, &format!("{} s were over", within.as_secs()))));
            break;
        }
        let (mut got, ended) = read(out.len(), places, fetches, until, depth, &mut ask);
        if let (Some(first), Depth::Symbols) = (got.first_mut(), depth) {
            let gap = if first.lacking.is_empty() { "" } else { "; " };
            first.lacking.push_str(&format!(
                "{gap}its debug info cannot be read ({why}): no lines and inlined functions"
            ));
        }
        if !got.is_empty() {
            depth = Depth::Lines;
        }
        out.append(&mut got);
        let Some(reason) = ended else { continue };
        why = reason;
        lost += 1;
        if lost == MOST_LOST {
            let rest = places[out.len()..].iter();
            out.extend(rest.map(|places| nothing(*places, "the readers of too many other files were lost")));
        } else if depth == Depth::Lines {
            depth = Depth::Symbols;
        } else {
            out.push(nothing(places[out.len()], &why));
            depth = Depth::Lines;
        }
    }
    out
}

fn nothing(places: usize, why: &str) -> Answer {
    Answer { found: vec![None; places], source: String::new(), lacking: format!("it cannot be read: {why}") }
}

/// Has a process answer from question `from` on, the first at `depth`; returns what it answered, and why it did not go on
/// to the end.
fn read(
    from: usize,
    places: &[usize],
    fetches: bool,
    until: Option<Instant>,
    depth: Depth,
    ask: &mut impl FnMut(usize, Depth) -> Answer,
) -> (Vec<Answer>, Option<String>) {
    let bytes = memory(&Root::real());
    let pipe = signals::pipe(0);
    let (input, output) = match pipe {
        Ok((input, output)) => (File::from(input), File::from(output)),
        Err(e) => return (Vec::new(), Some(e.to_string())),
    };
    let child = Child::fork(|| {
        // Ctrl-C reaches it too; its parent is what ends it.
        // SAFETY: no handler is set.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        if until.is_some() {
            // Nobody waits for it, and others are at work.
            // SAFETY: a plain system call; where it is refused, the priority stays.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        }
        let needs = if fetches { Needs::Programs } else { Needs::Files };
        if !fetches {
            be_silent();
        }
        if confine(needs, bytes, output.as_raw_fd()).is_err() {
            return NOT_CONFINED;
        }
        (from..places.len())
            .for_each(|i| tell(&output, &ask(i, if i == from { depth } else { Depth::Lines })));
        0
    });
    let mut child = match child {
        Ok(child) => child,
        Err(e) => return (Vec::new(), Some(format!("{e:#}"))),
    };
    drop(output);
    let one = if fetches { FETCHED } else { ONE };
    let (mut got, mut reason) = (Vec::new(), None);
    while from + got.len() < places.len() {
        let late = Instant::now() + one;
        let late = until.map_or(late, |until| until.min(late));
        match hear(&input, late, places[from + got.len()]) {
            Ok(answer) => got.push(answer),
            Err(e) => {
                reason = Some(e);
                break;
            }
        }
    }
    // Also where it has told all: it may wait for what a thread held that it is no copy of.
    child.signal(libc::SIGKILL);
    let ended = wait(&mut child);
    let reason = reason.map(|e| match (e.kind(), ended) {
        (io::ErrorKind::TimedOut, _) => format!("it took longer than {} s", one.as_secs()),
        (io::ErrorKind::UnexpectedEof, Status::Killed(libc::SIGABRT | libc::SIGSEGV)) => {
            format!("it takes more than {} MiB of memory, or breaks its reader", bytes >> 20)
        }
        (io::ErrorKind::UnexpectedEof, Status::Exited(NOT_CONFINED)) => {
            "the kernel does not let its reader be confined".into()
        }
        (io::ErrorKind::UnexpectedEof, ended) => format!("its reader ended with {ended}"),
        _ => e.to_string(),
    });
    (got, reason)
}

/// What a reader says as it breaks is nothing to the user: its file gets a sentence.
fn be_silent() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
}

/// How it ended; it does so at once.
fn wait(child: &mut Child) -> Status {
    while !child.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.status().unwrap_or(Status::Exited(2))
}

/// Length and text of an answer.
fn tell(mut output: &File, answer: &Answer) {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    // A parent that is gone needs none.
    let _ = output.write_all(&(text.len() as u64).to_le_bytes()).and_then(|()| output.write_all(&text));
}

/// The next answer, which must be one to so many places.
fn hear(input: &File, until: Instant, places: usize) -> io::Result<Answer> {
    let mut length = [0; 8];
    fill(input, &mut length, until)?;
    let length = u64::from_le_bytes(length);
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its reader told nonsense");
    if length > LARGEST {
        return Err(damaged());
    }
    let mut text = vec![0; length as usize];
    fill(input, &mut text, until)?;
    let answer: Answer = serde_json::from_slice(&text).map_err(|_| damaged())?;
    if answer.found.len() == places {
        Ok(answer)
    } else {
        Err(damaged())
    }
}

fn fill(mut input: &File, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: input.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, valid through the call.
        match unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as libc::c_int) } {
            0 if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            1.. => {}
            _ => continue,
        }
        match input.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes = &mut bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;

    fn named(name: &str) -> Answer {
        let found = Found { start: 1, size: 2, frames: vec![(name.into(), "a.c:3".into())] };
        Answer { found: vec![Some(found), None], source: "file".into(), lacking: String::new() }
    }

    #[test]
    fn who_breaks_its_reader_loses_its_own_names_alone() {
        let ask = |i: usize, depth: Depth| match (i, depth) {
            (1, _) => std::process::abort(),
            (2, Depth::Lines) => {
                // What a section's stated size makes its reader ask for.
                let huge: Vec<u8> = vec![1; 1 << 40];
                named(&huge.len().to_string())
            }
            _ => named(&format!("f{i}")),
        };
        let got = answers(&[2; 4], false, None, ask);
        let first = |a: &Answer| a.found[0].as_ref().map(|f| f.frames[0].0.clone());
        let names: Vec<_> = got.iter().map(first).collect();
        assert_eq!(names, [Some("f0".into()), None, Some("f2".into()), Some("f3".into())]);
        assert!(got[1].lacking.starts_with("it cannot be read: "), "{}", got[1].lacking);
        assert!(got[2].lacking.contains("no lines and inlined functions"), "{}", got[2].lacking);
        assert_eq!((got[0].lacking.as_str(), got[3].lacking.as_str()), ("", ""));
        assert_eq!(got[3].found[0], named("f3").found[0]);
    }

    #[test]
    fn nonsense_is_no_answer() {
        let ask = |i: usize, _: Depth| Answer { found: vec![None; i], ..Answer::default() };
        let got = answers(&[0, 5], false, None, ask);
        assert_eq!(got.iter().map(|a| a.found.len()).collect::<Vec<_>>(), [0, 5]);
        assert!(got[1].lacking.contains("nonsense"), "{}", got[1].lacking);
    }
}
