// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that have no fault, where no tool of the system does.

use super::{threads, Ctx};
use crate::sys::Mutex;
use anyhow::Result;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// As many threads as CPUs take pieces of work from one counter, and a mutex for a moment each.
pub fn pool(ctx: &Ctx) -> Result<()> {
    let next = AtomicU64::new(0);
    let sum = Mutex::new()?;
    let (next, sum) = (&next, &sum);
    threads(ctx.dose.width, |_| {
        while next.fetch_add(1, Relaxed) < ctx.dose.ops {
            ctx.work();
            sum.with(|| ctx.spin(1));
        }
        Ok(())
    })
}

/// Answers `ops` requests as they come, each with `work` us of work; waits in epoll otherwise.
pub fn service(ctx: &Ctx) -> Result<()> {
    let path = ctx.file("service");
    let listener = UnixListener::bind(&path)?;
    let (mut client, _) = listener.accept()?;
    // SAFETY: a call with plain numbers.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: both descriptors are open and the pointer is valid.
    let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, client.as_raw_fd(), &mut event) };
    anyhow::ensure!(added == 0, "epoll_ctl: {}", std::io::Error::last_os_error());
    let mut message = [0; super::ipc::MESSAGE];
    for _ in 0..ctx.dose.ops {
        // SAFETY: one event's room behind the pointer.
        unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) };
        client.read_exact(&mut message)?;
        ctx.work();
        client.write_all(&message)?;
    }
    Ok(())
}
