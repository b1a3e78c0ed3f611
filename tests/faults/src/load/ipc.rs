// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that wait for somebody else, or for a time.

use super::Ctx;
use crate::sys::ipc::{self, Awaited, Queue};
use crate::sys::{self, Aligned};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;

/// Bytes of a piece that goes through a pipe: as many as a pipe holds.
pub const PIECE: usize = 64 << 10;
/// Bytes of a request and of its answer.
pub const MESSAGE: usize = 64;

/// Writes 64 KiB in each operation to a pipe that a neighbour reads.
pub fn write_pipe(ctx: &Ctx) -> Result<()> {
    let mut pipe = File::options().write(true).open(ctx.file("pipe"))?;
    let piece = vec![7; PIECE];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        pipe.write_all(&piece)?;
    }
    Ok(())
}

/// Reads 64 KiB in each operation from a pipe that a neighbour writes.
pub fn read_pipe(ctx: &Ctx) -> Result<()> {
    let mut pipe = File::open(ctx.file("pipe"))?;
    let mut piece = vec![0; PIECE];
    for _ in 0..ctx.dose.ops {
        pipe.read_exact(&mut piece)?;
        ctx.work();
    }
    Ok(())
}

fn converse(ctx: &Ctx, mut stream: impl Read + Write) -> Result<()> {
    let mut message = [7; MESSAGE];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    Ok(())
}

/// Asks a neighbour over a unix socket and waits for its answer.
pub fn ask_unix(ctx: &Ctx) -> Result<()> {
    let path = ctx.file("socket");
    converse(ctx, UnixStream::connect(&path).with_context(|| path.display().to_string())?)
}

/// Asks a neighbour over TCP and waits for its answer.
pub fn ask_tcp(ctx: &Ctx) -> Result<()> {
    let path = ctx.file("port");
    let port: u16 = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.parse()?;
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    converse(ctx, stream)
}

/// Asks a neighbour over a System V message queue and waits for its answer.
pub fn ask_queue(ctx: &Ctx) -> Result<()> {
    let queue = Queue::open(&ctx.file("queue"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        queue.send(1)?;
        queue.receive(2)?;
    }
    Ok(())
}

/// Sends a neighbour a signal and waits for its own.
pub fn ask_by_signal(ctx: &Ctx) -> Result<()> {
    let (peer, answer) = (ipc::pid_in(&ctx.file("pid")), Awaited::new(libc::SIGUSR1));
    for _ in 0..ctx.dose.ops {
        ctx.work();
        sys::kill(peer, libc::SIGUSR1);
        answer.wait()?;
    }
    Ok(())
}

/// Writes 4 KiB in each operation to a terminal that a neighbour reads.
pub fn write_terminal(ctx: &Ctx) -> Result<()> {
    let mut terminal = File::options().write(true).custom_flags(libc::O_NOCTTY).open(ctx.file("terminal"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        terminal.write_all(&[b'x'; 4096])?;
    }
    Ok(())
}

/// Opens a named pipe in each operation, which waits until a neighbour opens the other end.
pub fn open_pipe(ctx: &Ctx) -> Result<()> {
    for _ in 0..ctx.dose.ops {
        ctx.work();
        drop(File::open(ctx.file("pipe"))?);
    }
    Ok(())
}

/// Reads 4 KiB in each operation from a file that a process of user space serves (FUSE).
pub fn read_served(ctx: &Ctx) -> Result<()> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(ctx.file("disk"))?;
    let mut block = Aligned::new(4096);
    for i in 0..ctx.dose.ops {
        ctx.work();
        file.read_exact_at(block.bytes(), (i << 12) % (1 << 20))?;
    }
    Ok(())
}

/// Only works; somebody stops it meanwhile.
pub fn works(ctx: &Ctx) -> Result<()> {
    std::fs::write(ctx.file("pid"), std::process::id().to_string())?;
    (0..ctx.dose.ops).for_each(|_| ctx.work());
    Ok(())
}

/// Takes each piece of work from a thread of its own that sleeps `fault` us before it hands one over.
pub fn slow_producer(ctx: &Ctx) -> Result<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in 0..ctx.dose.ops {
                if ctx.on {
                    sys::sleep_us(ctx.dose.fault);
                }
                if sender.send(piece).is_err() {
                    return;
                }
            }
        });
        receiver.iter().for_each(|_| ctx.work());
    });
    Ok(())
}

/// Sleeps `fault` us in each operation, for no reason.
pub fn sleeps(ctx: &Ctx) -> Result<()> {
    for _ in 0..ctx.dose.ops {
        ctx.work();
        if ctx.on {
            sys::sleep_us(ctx.dose.fault);
        }
    }
    Ok(())
}

/// Asks a neighbour that answers at once, but looks for the answer only every `fault` us.
pub fn sleep_polls(ctx: &Ctx) -> Result<()> {
    let mut stream = UnixStream::connect(ctx.file("socket"))?;
    if !ctx.on {
        return converse(ctx, stream);
    }
    stream.set_nonblocking(true)?;
    let mut message = [7; MESSAGE];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        stream.write_all(&message)?;
        loop {
            match stream.read_exact(&mut message) {
                Ok(()) => break,
                Err(e) if e.kind() == ErrorKind::WouldBlock => sys::sleep_us(ctx.dose.fault),
                Err(e) => return Err(e.into()),
            }
        }
    }
    Ok(())
}
