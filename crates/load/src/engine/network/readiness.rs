// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of many descriptors can be read or written: select(2), poll(2), epoll(7).

use super::super::{errno, timespec, Wait};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What happened to a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub fd: RawFd,
    /// There is something to read, or the peer is gone.
    pub input: bool,
    /// There is room for output, or there was an error.
    pub output: bool,
}

/// Waits for descriptors.
pub trait Readiness: Sized {
    /// Only changes are told: who was told must read until nothing is left.
    const EDGE: bool = false;

    /// # Errors
    /// The error number.
    fn new() -> Result<Self, i32>;

    /// Looks at `fd` from now on, for input. `shared`: other processes look at it too.
    ///
    /// # Errors
    /// The error number.
    fn add(&mut self, fd: RawFd, shared: bool) -> Result<(), i32>;

    /// Looks for room for output too, or not any more.
    ///
    /// # Errors
    /// The error number.
    fn output(&mut self, fd: RawFd, on: bool) -> Result<(), i32>;

    /// Looks at `fd` no more; before it is closed.
    fn remove(&mut self, fd: RawFd);

    /// Adds what happened to `events`; waits until something did.
    ///
    /// # Errors
    /// The error number. A signal is none.
    fn wait(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<(), i32>;
}

/// A wait that has no end looks up so often, ns.
const LOOK: u64 = 1_000_000_000;

fn limit(wait: Wait) -> u64 {
    match wait {
        Wait::No => 0,
        Wait::For(ns) => ns,
        Wait::Yes => LOOK,
    }
}

fn none_if_interrupted(result: i64) -> Result<usize, i32> {
    match (result, errno()) {
        (0.., _) => Ok(result as usize),
        (_, libc::EINTR) => Ok(0),
        (_, error) => Err(error),
    }
}

/// select(2): the kernel looks at every descriptor up to the highest, and so does the caller.
///
/// The sets are as long as they must be: glibc's `FD_SETSIZE` is no limit of the kernel's.
#[derive(Debug)]
pub struct Select {
    /// Bits of the descriptors to look at, and of what the last call said: for input and output.
    wanted: [Vec<u64>; 2],
    said: [Vec<u64>; 2],
    /// The highest descriptor and one.
    end: i32,
}

impl Readiness for Select {
    fn new() -> Result<Self, i32> {
        Ok(Select { wanted: [vec![0; 16], vec![0; 16]], said: [vec![0; 16], vec![0; 16]], end: 0 })
    }

    fn add(&mut self, fd: RawFd, _: bool) -> Result<(), i32> {
        let word = fd as usize / 64;
        if word >= self.wanted[0].len() {
            for set in self.wanted.iter_mut().chain(&mut self.said) {
                set.resize((word + 1).next_multiple_of(16), 0);
            }
        }
        self.wanted[0][word] |= 1 << (fd % 64);
        self.end = self.end.max(fd + 1);
        Ok(())
    }

    fn output(&mut self, fd: RawFd, on: bool) -> Result<(), i32> {
        let word = &mut self.wanted[1][fd as usize / 64];
        *word = *word & !(1 << (fd % 64)) | u64::from(on) << (fd % 64);
        Ok(())
    }

    fn remove(&mut self, fd: RawFd) {
        for set in &mut self.wanted {
            set[fd as usize / 64] &= !(1 << (fd % 64));
        }
        while self.end > 0 && self.wanted[0][(self.end as usize - 1) / 64] & 1 << ((self.end - 1) % 64) == 0 {
            self.end -= 1;
        }
    }

    fn wait(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<(), i32> {
        let [input, output] = &mut self.said;
        input.copy_from_slice(&self.wanted[0]);
        output.copy_from_slice(&self.wanted[1]);
        let time = timespec(limit(wait));
        // SAFETY: both sets have room for `end` bits; the kernel reads and writes whole words of them.
        let ready = unsafe {
            let sets = (input.as_mut_ptr().cast(), output.as_mut_ptr().cast());
            libc::pselect(self.end, sets.0, sets.1, std::ptr::null_mut(), &time, std::ptr::null())
        };
        let mut left = none_if_interrupted(i64::from(ready))?;
        for fd in 0..self.end {
            if left == 0 {
                break;
            }
            let bit = |set: &[u64]| set[fd as usize / 64] >> (fd % 64) & 1 != 0;
            let event = Event { fd, input: bit(input), output: bit(output) };
            if event.input || event.output {
                left -= usize::from(event.input) + usize::from(event.output);
                events.push(event);
            }
        }
        Ok(())
    }
}

/// poll(2): the kernel looks at every descriptor of the list, and so does the caller.
#[derive(Debug)]
pub struct Poll {
    list: Vec<libc::pollfd>,
    /// Where in the list a descriptor is.
    places: Vec<u32>,
}

impl Readiness for Poll {
    fn new() -> Result<Self, i32> {
        Ok(Poll { list: Vec::new(), places: Vec::new() })
    }

    fn add(&mut self, fd: RawFd, _: bool) -> Result<(), i32> {
        if self.places.len() <= fd as usize {
            self.places.resize(fd as usize + 1, u32::MAX);
        }
        self.places[fd as usize] = self.list.len() as u32;
        self.list.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        Ok(())
    }

    fn output(&mut self, fd: RawFd, on: bool) -> Result<(), i32> {
        let place = self.places[fd as usize] as usize;
        self.list[place].events = if on { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        Ok(())
    }

    fn remove(&mut self, fd: RawFd) {
        let place = self.places[fd as usize] as usize;
        self.list.swap_remove(place);
        if let Some(moved) = self.list.get(place) {
            self.places[moved.fd as usize] = place as u32;
        }
    }

    fn wait(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<(), i32> {
        let time = timespec(limit(wait));
        let count = self.list.len() as libc::nfds_t;
        // SAFETY: the list has as many entries.
        let ready = unsafe { libc::ppoll(self.list.as_mut_ptr(), count, &time, std::ptr::null()) };
        let mut left = none_if_interrupted(i64::from(ready))?;
        for entry in &self.list {
            if left == 0 {
                break;
            }
            if entry.revents != 0 {
                left -= 1;
                events.push(Event {
                    fd: entry.fd,
                    input: entry.revents & !libc::POLLOUT != 0,
                    output: entry.revents & !libc::POLLIN != 0,
                });
            }
        }
        Ok(())
    }
}

/// Events are told as long as they last.
const LEVEL: u8 = 0;
/// They are told when something changes.
const CHANGES: u8 = 1;
/// Of a descriptor that several processes look at, one of them is told.
const EXCLUSIVE: u8 = 2;

/// epoll(7): the kernel keeps the list, and says only what happened.
#[derive(Debug)]
pub struct EpollAs<const WAY: u8> {
    fd: OwnedFd,
    said: Vec<libc::epoll_event>,
    /// This kernel has epoll_pwait2(2), which takes ns (Linux 5.11).
    fine: bool,
}

pub type Epoll = EpollAs<LEVEL>;
pub type EpollEdge = EpollAs<CHANGES>;
pub type EpollExclusive = EpollAs<EXCLUSIVE>;

/// Events that one call tells.
const BATCH: usize = 256;

impl<const WAY: u8> EpollAs<WAY> {
    fn control(&self, what: i32, fd: RawFd, events: i32) -> Result<(), i32> {
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: the event lives as long as the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    fn call(&mut self, ns: u64) -> i64 {
        let (fd, room) = (self.fd.as_raw_fd(), self.said.as_mut_ptr());
        // SAFETY: there is room for as many events; a mask that is null changes none.
        unsafe {
            if self.fine {
                let (time, mask) = (timespec(ns), std::ptr::null::<libc::sigset_t>());
                let called =
                    libc::syscall(libc::SYS_epoll_pwait2, fd, room, BATCH as i32, &time, mask, 8usize);
                if called >= 0 || errno() != libc::ENOSYS {
                    return called;
                }
                self.fine = false;
            }
            i64::from(libc::epoll_wait(fd, room, BATCH as i32, (ns / 1_000_000) as i32))
        }
    }
}

impl<const WAY: u8> Readiness for EpollAs<WAY> {
    const EDGE: bool = WAY == CHANGES;

    fn new() -> Result<Self, i32> {
        // SAFETY: plain call.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(EpollAs { fd, said: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH], fine: true })
    }

    fn add(&mut self, fd: RawFd, shared: bool) -> Result<(), i32> {
        let how = match WAY {
            CHANGES => libc::EPOLLET | libc::EPOLLRDHUP,
            EXCLUSIVE if shared => libc::EPOLLEXCLUSIVE,
            _ => 0,
        };
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN | how)
    }

    fn output(&mut self, fd: RawFd, on: bool) -> Result<(), i32> {
        let how = if WAY == CHANGES { libc::EPOLLET | libc::EPOLLRDHUP } else { 0 };
        let out = if on { libc::EPOLLOUT } else { 0 };
        self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN | how | out)
    }

    fn remove(&mut self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0);
    }

    fn wait(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<(), i32> {
        let ready = self.call(limit(wait));
        let ready = none_if_interrupted(ready)?;
        events.extend(self.said[..ready].iter().map(|said| {
            let what = said.events as i32;
            Event {
                fd: said.u64 as RawFd,
                input: what & !libc::EPOLLOUT != 0,
                output: what & (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) != 0,
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn told<R: Readiness>(ready: &mut R) -> Vec<Event> {
        let mut events = Vec::new();
        ready.wait(Wait::For(1_000_000), &mut events).expect("waited");
        events.sort_by_key(|e| e.fd);
        events
    }

    fn tells<R: Readiness>() {
        let mut ready = R::new().expect("there is one");
        let mut pairs: Vec<_> = (0..70).map(|_| UnixStream::pair().expect("sockets")).collect();
        for (mine, _) in &pairs {
            mine.set_nonblocking(true).expect("set");
            ready.add(mine.as_raw_fd(), false).expect("added");
        }
        assert_eq!(told(&mut ready), []);
        for n in [3, 69] {
            pairs[n].1.write_all(b"x").expect("written");
        }
        let (third, last) = (pairs[3].0.as_raw_fd(), pairs[69].0.as_raw_fd());
        let is = |events: &[Event]| events.iter().map(|e| (e.fd, e.input, e.output)).collect::<Vec<_>>();
        assert_eq!(is(&told(&mut ready)), [(third, true, false), (last, true, false)]);
        // It lasts until it is read; an edge is told once.
        assert_eq!(told(&mut ready).len(), if R::EDGE { 0 } else { 2 });
        pairs[3].0.read_exact(&mut [0]).expect("read");
        pairs[69].0.read_exact(&mut [0]).expect("read");
        ready.output(third, true).expect("changed");
        assert_eq!(is(&told(&mut ready)), [(third, false, true)]);
        ready.output(third, false).expect("changed");
        ready.remove(last);
        pairs[69].1.write_all(b"x").expect("written");
        let (_kept, closed) = pairs.remove(5);
        drop(closed);
        let gone = told(&mut ready);
        assert!(gone.len() == 1 && gone[0].input, "{gone:?}");
    }

    #[test]
    fn each_tells_what_can_be_read_and_written() {
        tells::<Select>();
        tells::<Poll>();
        tells::<Epoll>();
        tells::<EpollEdge>();
        tells::<EpollExclusive>();
    }
}
