// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open files: how a process opened them decides what its reads and writes wait for.

use crate::services::Service;
use plumb_trace::calls;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Open descriptors that are remembered of one process.
const MOST: usize = 65_536;

/// Flag of open(2), as readers get it of every machine.
const O_DIRECT: u64 = 0o40000;
/// The same; O_SYNC contains it.
const O_DSYNC: u64 = 0o10000;

/// What a call does with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Opens one: openat(2).
    Open,
    Close,
    Duplicate,
    Read,
    Write,
    /// Waits until data is on the medium.
    Sync,
    /// Changes names or sizes: journalled.
    Names,
    /// Tells the kernel how it will read: fadvise64(2).
    Advise,
    /// Returns a new connection.
    Accept,
    Connect,
    /// Receives from a socket.
    Receive,
    /// Sends to a socket.
    Send,
    /// Waits for any of several descriptors.
    Poll,
}

const CALLS: &[(Kind, &[&str])] = &[
    (Kind::Open, &["openat"]),
    (Kind::Close, &["close"]),
    (Kind::Duplicate, &["dup", "dup2", "dup3"]),
    (Kind::Read, &["read", "pread64", "readv", "preadv", "preadv2"]),
    (Kind::Write, &["write", "pwrite64", "writev", "pwritev", "pwritev2"]),
    (Kind::Sync, &["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"]),
    (
        Kind::Names,
        &[
            "rename",
            "renameat",
            "renameat2",
            "unlink",
            "unlinkat",
            "mkdir",
            "mkdirat",
            "rmdir",
            "link",
            "linkat",
            "symlink",
            "creat",
            "truncate",
            "ftruncate",
            "fallocate",
        ],
    ),
    (Kind::Advise, &["fadvise64"]),
    (Kind::Accept, &["accept", "accept4"]),
    (Kind::Connect, &["connect"]),
    (Kind::Receive, &["recvfrom", "recvmsg", "recvmmsg"]),
    (Kind::Send, &["sendto", "sendmsg", "sendmmsg", "sendfile"]),
    (Kind::Poll, &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"]),
];

/// Kinds by system call number.
#[derive(Debug)]
pub struct Kinds(Vec<Option<Kind>>);

impl Default for Kinds {
    fn default() -> Self {
        let mut table = vec![None; 512];
        for (kind, names) in CALLS {
            for nr in names.iter().filter_map(|n| calls::number(n)) {
                if let Some(entry) = table.get_mut(nr as usize) {
                    *entry = Some(*kind);
                }
            }
        }
        Self(table)
    }
}

impl Kinds {
    /// What the call does, if it concerns files.
    pub fn of(&self, nr: u32) -> Option<Kind> {
        self.0.get(nr as usize).copied().flatten()
    }
}

/// How a file was opened, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Past the page cache.
    pub direct: bool,
    /// Every write waits for the medium.
    pub sync: bool,
}

/// Descriptors of one process that were opened in a special way.
#[derive(Debug, Clone, Default)]
pub struct Files(FxHashMap<u32, Mode>);

impl Files {
    pub fn open(&mut self, fd: u32, flags: u64) {
        let mode = Mode { direct: flags & O_DIRECT != 0, sync: flags & O_DSYNC != 0 };
        if mode == Mode::default() || self.0.len() >= MOST {
            self.0.remove(&fd);
        } else {
            self.0.insert(fd, mode);
        }
    }

    /// A descriptor was given another number.
    pub fn duplicate(&mut self, old: u32, new: u32) {
        match self.0.get(&old).copied() {
            Some(mode) if self.0.len() < MOST => drop(self.0.insert(new, mode)),
            _ => drop(self.0.remove(&new)),
        }
    }

    pub fn close(&mut self, fd: u32) {
        self.0.remove(&fd);
    }

    /// How a descriptor was opened.
    pub fn mode(&self, fd: u32) -> Mode {
        self.0.get(&fd).copied().unwrap_or_default()
    }
}

/// Files that were synced: which, how often, how long.
#[derive(Debug, Default)]
pub struct Synced {
    /// What the recorder asked, by thread and descriptor, in the order of time.
    told: FxHashMap<(u32, u32), Vec<(u64, String)>>,
    sums: FxHashMap<(Service, String), (u64, u64)>,
}

impl Synced {
    /// The recorder asked for a descriptor.
    pub fn told(&mut self, tid: u32, fd: u32, at: u64, path: &str) {
        self.told.entry((tid, fd)).or_default().push((at, path.into()));
    }

    /// A call of a service's thread that synced a descriptor, from its beginning; ns.
    pub fn call(&mut self, service: Service, tid: u32, fd: u32, (start, time): (u64, u64)) {
        // It was asked soon after the first call that named it.
        let Some(told) = self.told.get(&(tid, fd)) else { return };
        let Some((_, path)) = told.iter().find(|(at, _)| *at >= start).or(told.last()) else { return };
        let (calls, sum) = self.sums.entry((service, path.clone())).or_default();
        *calls += 1;
        *sum += time;
    }

    /// Path, calls, time of a service, or of all; most time first.
    pub fn rows(&self, service: Option<Service>) -> Vec<(String, u64, u64)> {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for ((_, path), (calls, ns)) in
            self.sums.iter().filter(|((s, _), _)| service.is_none_or(|of| of == *s))
        {
            let sum = sums.entry(path).or_default();
            *sum = (sum.0 + calls, sum.1 + ns);
        }
        let mut rows: Vec<_> = sums.into_iter().map(|(p, (n, ns))| (p.to_string(), n, ns)).collect();
        rows.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_opening_is_remembered_until_the_close() {
        let mut files = Files::default();
        files.open(3, O_DIRECT | 2);
        files.open(4, 0o4010000);
        assert_eq!((files.mode(3).direct, files.mode(3).sync), (true, false));
        assert_eq!((files.mode(4).direct, files.mode(4).sync), (false, true));
        files.duplicate(3, 1);
        assert!(files.mode(1).direct);
        files.close(3);
        files.open(4, 0);
        assert_eq!((files.mode(3), files.mode(4)), (Mode::default(), Mode::default()));
    }
}
