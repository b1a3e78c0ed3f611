// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that wait for somebody else, or for a time.

use super::Ctx;
use crate::sys;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
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
