// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rooms of a chat: a message goes to everybody in its sender's room. All threads of a server have the same rooms.

use super::{is_later, send_some};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Members = Mutex<Vec<Arc<OwnedFd>>>;

/// All rooms, with where their server listens. A room with a place free takes the next connection.
static ROOMS: Mutex<Vec<(String, Arc<Members>)>> = Mutex::new(Vec::new());

/// Who does not read for so long, ms, is put out.
const PATIENCE: i32 = 5000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection's place in a room; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Members>,
    me: Arc<OwnedFd>,
}

impl Place {
    /// A place in a room of `size` of the server that listens at `listen`.
    pub fn take(listen: &str, size: usize, me: &Arc<OwnedFd>) -> Place {
        let mut rooms = lock(&ROOMS);
        let place = |room: Arc<Members>| Place { room, me: me.clone() };
        for (at, room) in rooms.iter() {
            let mut members = lock(room);
            if at == listen && members.len() < size {
                members.push(me.clone());
                return place(room.clone());
            }
        }
        let room = Arc::new(Mutex::new(vec![me.clone()]));
        rooms.push((listen.into(), room.clone()));
        place(room)
    }

    /// Sends a message to all in the room, to who said it last: what comes back to it has reached the others' sockets.
    /// Returns the bytes that were sent.
    pub fn tell(&self, message: &[u8]) -> i64 {
        let members = lock(&self.room);
        let others = members.iter().filter(|m| !Arc::ptr_eq(m, &self.me));
        let told: usize = others.chain([&self.me]).filter(|member| whole(member, message)).count();
        (told * message.len()) as i64
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.room).retain(|member| !Arc::ptr_eq(member, &self.me));
    }
}

/// Sends all of it, or puts the member out.
pub(super) fn whole(member: &OwnedFd, mut message: &[u8]) -> bool {
    let fd = member.as_raw_fd();
    while !message.is_empty() {
        let sent = send_some(fd, message);
        if sent >= 0 {
            message = &message[sent as usize..];
            continue;
        }
        let mut room = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry.
        if !is_later(sent) || unsafe { libc::poll(&mut room, 1, PATIENCE) } <= 0 {
            // SAFETY: plain call; its own thread reads the end, and closes it.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_goes_to_the_room_and_to_nobody_else() {
        let join = || {
            let (mine, theirs) = UnixStream::pair().expect("sockets");
            theirs.set_nonblocking(true).expect("set");
            let mine = Arc::new(OwnedFd::from(mine));
            (Place::take("here", 2, &mine), theirs)
        };
        let heard = |socket: &mut UnixStream| socket.read(&mut [0; 16]).unwrap_or(0);
        let (first, mut a) = join();
        let (_second, mut b) = join();
        let (third, mut c) = join();
        assert_eq!(first.tell(b"hello"), 10);
        assert_eq!([heard(&mut a), heard(&mut b), heard(&mut c)], [5, 5, 0]);
        assert_eq!(third.tell(b"hello"), 5);
        drop(first);
        let (_fourth, mut d) = join();
        assert_eq!(_fourth.tell(b"x"), 2, "it has the place that was free");
        assert_eq!([heard(&mut b), heard(&mut d)], [1, 1]);
    }
}
