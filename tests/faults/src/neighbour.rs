// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes beside the target that make its life hard. Each prints `ready` and goes on until it is killed.

use crate::load::ipc::{MESSAGE, PIECE};
use crate::load::Place;
use crate::setup::cgroup::freeze;
use crate::sys::ipc::{self, Awaited, Queue, Semaphore};
use crate::sys::{self, Aligned, Mutex};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// What a neighbour does.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
    /// Uses its CPU.
    Spin,
    /// Uses its CPU with real-time priority for `us`, then leaves it for `gap`.
    Fifo,
    /// Holds flock on `lock` for `us`, then not for `gap`.
    Flock,
    /// Holds the mutex in the file `mutex` for `us`, then not for `gap`.
    Mutex,
    /// Holds the semaphore for `us`, then not for `gap`.
    Semaphore,
    /// Has a lease on the file `leased`, and gives it back `us` after somebody wants to open it.
    Lease,
    /// Writes `us` KiB of new data and calls fsync, then rests for `gap`.
    Commits,
    /// Reads the device with `width` threads, 16 KiB each.
    Reads,
    /// Reads 64 KiB from the pipe, then rests for `us`.
    PipeReader,
    /// Rests for `us`, then writes 64 KiB to the pipe.
    PipeWriter,
    /// Opens the pipe to write after `us`, and closes it.
    PipeOpener,
    /// Reads what is written to a terminal, then rests for `us`.
    Terminal,
    /// Answers over a message queue after `us`.
    QueueAnswers,
    /// Answers a signal with one after `us`.
    SignalAnswers,
    /// Stops the process in `pid` for `us`, then not for `gap`.
    Stops,
    /// Freezes the cgroup for `us`, then not for `gap`.
    Freezes,
    /// Answers over a unix socket after `us`.
    UnixAnswers,
    /// Answers over TCP after `us`; with `width` N it hears nothing for a moment after every N answers.
    TcpAnswers,
    /// Sends 64 datagrams at once to itself, then rests for `gap`.
    Flood,
    /// Asks the service each `gap`.
    Client,
}

/// How it does that.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// What it does.
    kind: Kind,
    /// Time (us) or size.
    #[arg(long, default_value_t = 0)]
    us: u64,
    /// Rest, us.
    #[arg(long, default_value_t = 0)]
    gap: u64,
    /// Nice value.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    nice: i32,
    /// Threads, or what the kind says.
    #[arg(long, default_value_t = 0)]
    width: u64,
    #[command(flatten)]
    place: Place,
}

fn ready() -> Result<()> {
    println!("ready");
    std::io::stdout().flush().context("stdout")
}

/// Goes on until it is killed, or the target closes its end.
pub fn run(words: &Words) -> Result<()> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let over = |e: &anyhow::Error| {
        e.downcast_ref::<std::io::Error>()
            .is_some_and(|e| matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof))
    };
    match act(words) {
        Err(e) if over(&e) => Ok(()),
        done => done,
    }
}

fn act(words: &Words) -> Result<()> {
    let &Words { kind, us, gap, nice, width, ref place } = words;
    sys::die_with_parent();
    if let Some(cpu) = place.cpu {
        sys::pin(cpu)?;
    }
    if nice != 0 {
        sys::nice(nice)?;
    }
    sys::sharp_timers();
    let file = |name: &str| place.dir.join(name);
    match kind {
        Kind::Spin => {
            ready()?;
            loop {
                sys::spin(place.rate, 10_000);
            }
        }
        Kind::Fifo => {
            sys::fifo()?;
            ready()?;
            loop {
                sys::burn(Duration::from_micros(us));
                sys::sleep_us(gap);
            }
        }
        Kind::Flock => {
            let lock = File::create(file("lock"))?;
            ready()?;
            loop {
                sys::flock(&lock, true)?;
                sys::sleep_us(us);
                sys::flock(&lock, false)?;
                sys::sleep_us(gap);
            }
        }
        Kind::Mutex => {
            let file = File::options().read(true).write(true).create_new(true).open(file("mutex"))?;
            file.set_len(4096)?;
            let mutex = Mutex::in_file(&file, true)?;
            ready()?;
            loop {
                mutex.with(|| sys::sleep_us(us));
                sys::sleep_us(gap);
            }
        }
        Kind::Semaphore => {
            let semaphore = Semaphore::open(&file("semaphore"))?;
            ready()?;
            loop {
                semaphore.add(-1)?;
                sys::sleep_us(us);
                semaphore.add(1)?;
                sys::sleep_us(gap);
            }
        }
        Kind::Lease => {
            let (leased, wanted) = (File::create(file("leased"))?, Awaited::new(libc::SIGIO));
            ready()?;
            loop {
                if ipc::lease(&leased, true) {
                    wanted.wait()?;
                    sys::sleep_us(us);
                    ipc::lease(&leased, false);
                }
                sys::sleep_us(gap);
            }
        }
        Kind::Commits => {
            let mut file = File::create(file("bulk"))?;
            let data = vec![7; (us as usize) << 10];
            ready()?;
            loop {
                // New blocks each time: only those must be written before the journal's commit.
                file.set_len(0)?;
                file.rewind()?;
                file.write_all(&data)?;
                file.sync_all()?;
                sys::sleep_us(gap);
            }
        }
        Kind::Reads => {
            let path = place.device.as_deref().context("--device is missing")?;
            let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
            ready()?;
            crate::load::threads(width, |thread| {
                let mut block = Aligned::new(16 << 10);
                for i in 0.. {
                    // The upper half of the device; the victim reads the lower.
                    let at = (128 << 20) + ((thread << 22) + (i << 14)) % (64 << 20);
                    file.read_exact_at(block.bytes(), at)?;
                }
                Ok(())
            })
        }
        Kind::PipeReader => {
            ready()?;
            let mut pipe = File::open(file("pipe"))?;
            let mut piece = vec![0; PIECE];
            loop {
                pipe.read_exact(&mut piece)?;
                sys::sleep_us(us);
            }
        }
        Kind::PipeWriter => {
            ready()?;
            let mut pipe = File::options().write(true).open(file("pipe"))?;
            loop {
                sys::sleep_us(us);
                pipe.write_all(&[7; PIECE])?;
            }
        }
        Kind::PipeOpener => {
            ready()?;
            loop {
                sys::sleep_us(us);
                drop(File::options().write(true).open(file("pipe"))?);
            }
        }
        Kind::Terminal => {
            let (mut master, slave) = ipc::terminal()?;
            // As long as one end is open the other can be read.
            let _slave = File::options().write(true).custom_flags(libc::O_NOCTTY).open(&slave)?;
            std::os::unix::fs::symlink(slave, file("terminal"))?;
            ready()?;
            let mut piece = [0; 4096];
            loop {
                let _ = master.read(&mut piece)?;
                sys::sleep_us(us);
            }
        }
        Kind::QueueAnswers => {
            let queue = Queue::open(&file("queue"))?;
            ready()?;
            loop {
                queue.receive(1)?;
                sys::sleep_us(us);
                queue.send(2)?;
            }
        }
        Kind::SignalAnswers => {
            let asked = Awaited::new(libc::SIGUSR1);
            std::fs::write(file("pid"), std::process::id().to_string())?;
            ready()?;
            loop {
                let who = asked.wait()?;
                sys::sleep_us(us);
                sys::kill(who, libc::SIGUSR1);
            }
        }
        Kind::Stops => {
            ready()?;
            let pid = ipc::pid_in(&file("pid"));
            loop {
                sys::kill(pid, libc::SIGSTOP);
                sys::sleep_us(us);
                sys::kill(pid, libc::SIGCONT);
                sys::sleep_us(gap);
            }
        }
        Kind::Freezes => {
            let group = place.cgroup.first().context("--cgroup is missing")?;
            ready()?;
            loop {
                freeze(group, true)?;
                sys::sleep_us(us);
                freeze(group, false)?;
                sys::sleep_us(gap);
            }
        }
        Kind::UnixAnswers => {
            let listener = UnixListener::bind(file("socket"))?;
            std::fs::write(file("pid"), std::process::id().to_string())?;
            ready()?;
            answer(listener.accept()?.0, us, |_| Ok(()))
        }
        Kind::TcpAnswers => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            std::fs::write(file("port"), listener.local_addr()?.port().to_string())?;
            ready()?;
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let ears = stream.try_clone()?;
            answer(stream, us, |count| lose(&ears, width, count))
        }
        Kind::Flood => flood(gap),
        Kind::Client => {
            ready()?;
            let mut stream = loop {
                match UnixStream::connect(file("service")) {
                    Ok(stream) => break stream,
                    Err(_) => sys::sleep_us(1000),
                }
            };
            let mut message = [7; MESSAGE];
            loop {
                sys::sleep_us(gap);
                stream.write_all(&message)?;
                stream.read_exact(&mut message)?;
            }
        }
    }
}

/// Answers each message after `us`; `after` is told how many were answered.
fn answer(mut stream: impl Read + Write, us: u64, after: impl Fn(u64) -> Result<()>) -> Result<()> {
    let mut message = [0; MESSAGE];
    for count in 1.. {
        stream.read_exact(&mut message)?;
        sys::sleep_us(us);
        stream.write_all(&message)?;
        after(count)?;
    }
    Ok(())
}

/// Loses what arrives within 20 ms after every `every`th answer: the sender must send it again.
fn lose(ears: &TcpStream, every: u64, count: u64) -> Result<()> {
    if every > 0 && count % every == 0 {
        sys::deafen(ears, true)?;
        sys::sleep_us(20_000);
        sys::deafen(ears, false)?;
    }
    Ok(())
}

/// Many small datagrams in one call to send; the receiver's filter makes each of them a long work for
/// the softirq. The next batch is sent when the last one is done: a backlog would call ksoftirqd,
/// and the victim would wait for a thread, not for interrupts.
fn flood(gap: u64) -> Result<()> {
    let connected = || -> Result<(UdpSocket, UdpSocket)> {
        let (receiver, sender) = (UdpSocket::bind(("127.0.0.1", 0))?, UdpSocket::bind(("127.0.0.1", 0))?);
        sender.connect(receiver.local_addr()?)?;
        Ok((receiver, sender))
    };
    let (receiver, sender) = connected()?;
    sys::slow_filter(&receiver)?;
    sys::segment(&sender, 64)?;
    // What comes after the batch in the same queue says that the batch is done.
    let (done, last) = connected()?;
    done.set_read_timeout(Some(Duration::from_millis(100)))?;
    let batch = vec![7; 64 * 64];
    ready()?;
    loop {
        sender.send(&batch)?;
        last.send(&[0])?;
        // A lost one only costs the time-out.
        let _ = done.recv(&mut [0]);
        sys::sleep_us(gap);
    }
}
