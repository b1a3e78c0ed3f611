// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults that are somebody else's slowness, a network's loss, or a sleep.

use super::{dose, Fault, WORKS};
use crate::load::{ipc, Dose};
use crate::setup::slow::Timing;
use crate::setup::Stage;
use anyhow::Result;

fn nothing(_: &mut Stage, _: Dose, _: bool) -> Result<()> {
    Ok(())
}

/// A neighbour at the other end that takes `fault` us for each message, or answers at once.
fn peer(stage: &mut Stage, kind: &str, dose: Dose, on: bool) -> Result<()> {
    let us = if on { dose.fault } else { 0 };
    stage.neighbour(&[kind, "--us", &us.to_string()])
}

fn slow_reader(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fifo("pipe")?;
    peer(stage, "pipe-reader", dose, on)
}

fn slow_writer(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fifo("pipe")?;
    peer(stage, "pipe-writer", dose, on)
}

fn slow_unix(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    peer(stage, "unix-answers", dose, on)
}

fn slow_tcp(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    peer(stage, "tcp-answers", dose, on)
}

fn slow_opener(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fifo("pipe")?;
    peer(stage, "pipe-opener", dose, on)
}

fn slow_terminal(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    peer(stage, "terminal", dose, on)
}

fn slow_queue(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.queue()?;
    peer(stage, "queue-answers", dose, on)
}

fn slow_signal(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    peer(stage, "signal-answers", dose, on)
}

fn slow_server(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_file(1)?;
    let each_us = if on { dose.fault } else { 0 };
    stage.slow(Timing { each_us, ..Timing::default() });
    Ok(())
}

/// Another process stops whoever's number is in the file `pid`: for `fault` us, and not for `width` us.
fn stopper(stage: &mut Stage, kind: &[&str], dose: Dose, on: bool) -> Result<()> {
    let (us, gap) = (dose.fault.to_string(), dose.width.to_string());
    let words = [kind, &["--us", &us, "--gap", &gap]].concat();
    if on {
        stage.neighbour(&words)?;
    }
    Ok(())
}

fn stopped_peer(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.neighbour(&["unix-answers"])?;
    stopper(stage, &["stops"], dose, on)
}

fn stopped(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stopper(stage, &["stops"], dose, on)
}

fn frozen(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.freezer()?;
    let group = stage.place.cgroup.last().map(|dir| dir.display().to_string()).unwrap_or_default();
    stopper(stage, &["freezes", "--cgroup", &group], dose, on)
}

fn quick_unix(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    stage.neighbour(&["unix-answers", "--us", "100"])
}

/// A message is lost after every `fault`th.
fn losing_tcp(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    let every = if on { dose.fault } else { 0 };
    stage.neighbour(&["tcp-answers", "--width", &every.to_string()])
}

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "slow-pipe-reader",
        words: "writes to a pipe that a neighbour drains slowly",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_reader,
        load: ipc::write_pipe,
        strong: dose(100, 2_000, 7_500, 1),
        weak: dose(100, 6_000, 8_200, 1),
        compare: true,
    },
    Fault {
        name: "slow-pipe-writer",
        words: "reads from a pipe that a neighbour fills slowly",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_writer,
        load: ipc::read_pipe,
        strong: dose(100, 2_000, 7_500, 1),
        weak: dose(100, 6_000, 8_200, 1),
        compare: true,
    },
    Fault {
        name: "slow-unix-peer",
        words: "asks over a unix socket and the neighbour answers late",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_unix,
        load: ipc::ask_unix,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "slow-tcp-peer",
        words: "asks over TCP on the loopback and the neighbour answers late",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_tcp,
        load: ipc::ask_tcp,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "lost-packets",
        words: "TCP segments are dropped at the receiver and retransmitted after 200 ms",
        expect: &["net.retransmit"],
        base: WORKS,
        setup: losing_tcp,
        load: ipc::ask_tcp,
        strong: dose(125, 2_000, 25, 1),
        weak: dose(100, 7_000, 99, 1),
        compare: true,
    },
    Fault {
        name: "late-pipe-opener",
        words: "opens a named pipe whose other end a neighbour opens late",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_opener,
        load: ipc::open_pipe,
        strong: dose(100, 2_000, 7_500, 1),
        weak: dose(100, 6_000, 8_200, 1),
        compare: true,
    },
    Fault {
        name: "slow-terminal",
        words: "writes to a terminal that a neighbour reads slowly",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_terminal,
        load: ipc::write_terminal,
        strong: dose(100, 2_000, 7_500, 1),
        weak: dose(100, 6_000, 8_200, 1),
        compare: true,
    },
    Fault {
        name: "slow-queue-peer",
        words: "asks over a message queue and the neighbour answers late",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_queue,
        load: ipc::ask_queue,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "slow-signal-peer",
        words: "sends a signal and the neighbour sends its own late",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_signal,
        load: ipc::ask_by_signal,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "slow-file-server",
        words: "reads a file that a process serves slowly (FUSE)",
        expect: &["peer.process"],
        base: WORKS,
        setup: slow_server,
        load: ipc::read_served,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "stopped-peer",
        words: "asks a neighbour that somebody stops again and again (SIGSTOP)",
        expect: &["peer.process", "wait.stopped"],
        base: WORKS,
        setup: stopped_peer,
        load: ipc::ask_unix,
        strong: dose(100, 2_000, 9_000, 1_000),
        weak: dose(100, 5_000, 7_000, 5_000),
        compare: true,
    },
    Fault {
        name: "stopped",
        words: "is stopped again and again by another process (SIGSTOP)",
        expect: &["wait.stopped"],
        base: WORKS,
        setup: stopped,
        load: ipc::works,
        strong: dose(100, 2_000, 7_000, 3_000),
        weak: dose(100, 4_000, 3_000, 7_000),
        compare: true,
    },
    Fault {
        name: "frozen",
        words: "its cgroup is frozen again and again",
        expect: &["wait.stopped"],
        base: WORKS,
        setup: frozen,
        load: ipc::works,
        strong: dose(100, 2_000, 7_000, 3_000),
        weak: dose(100, 4_000, 3_000, 7_000),
        compare: true,
    },
    Fault {
        name: "slow-producer",
        words: "takes its work from a thread of its own that sleeps before each piece",
        expect: &["wait.sleep"],
        base: WORKS,
        setup: nothing,
        load: ipc::slow_producer,
        strong: dose(100, 2_000, 7_500, 1),
        weak: dose(100, 6_000, 8_200, 1),
        compare: true,
    },
    Fault {
        name: "sleeps",
        words: "sleeps for no reason in each operation",
        expect: &["wait.sleep"],
        base: WORKS,
        setup: nothing,
        load: ipc::sleeps,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "sleep-polls",
        words: "polls for a quick answer only after a sleep",
        expect: &["wait.sleep"],
        base: WORKS,
        setup: quick_unix,
        load: ipc::sleep_polls,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
];
