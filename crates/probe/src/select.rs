// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events a recording takes: sets and events by name, system calls by
//! class or name, thinning.

use anyhow::{bail, Result};
use plumb_trace::{event_by_name, kernel_events, sets, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use syscalls::Sysno;

/// What `--events` means when it is not given: enough for a closed account.
pub const DEFAULT_EVENTS: &str = "sched,irq,block,-block_plug,-block_unplug,-block_bio_remap,lock,syscall,\
     jbd2_start_commit,jbd2_end_commit,balance_dirty_pages,direct_reclaim_begin,direct_reclaim_end,\
     compaction_begin,compaction_end,tcp_retransmit_skb,tcp_retransmit_waiter,tcp_read_waited";

/// Calls that move data or may wait; recorded by default, for the target only.
const IO_CALLS: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "dup",
    "dup2",
    "dup3",
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "sync_file_range",
    "msync",
    "fallocate",
    "ftruncate",
    "truncate",
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
    "getdents64",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "sendfile",
    "splice",
    "copy_file_range",
    "readahead",
    "fadvise64",
    "io_submit",
    "io_getevents",
    "io_pgetevents",
    "io_uring_enter",
    "mount",
    "umount2",
];
const WAIT_CALLS: &[&str] = &[
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "futex",
    "futex_wait",
    "futex_waitv",
    "nanosleep",
    "clock_nanosleep",
    "pause",
    "wait4",
    "waitid",
    "accept",
    "accept4",
    "connect",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
    "flock",
    "fcntl",
    "semop",
    "semtimedop",
    "msgrcv",
    "msgsnd",
    "mq_timedsend",
    "mq_timedreceive",
    "rt_sigtimedwait",
    "rt_sigsuspend",
    "execve",
    "execveat",
];

/// Sets that the state machines are made of: thinned, they would tell lies.
const NEVER_THINNED: &[&str] = &["sched", "irq", "lock"];

/// Sets that may be thinned, in the order of `enum plumb_thin`.
pub const THINNABLE: [&str; 7] = ["syscall", "block", "fs", "pagecache", "mem", "net", "tcp"];

/// The events of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Events by name.
    pub events: BTreeSet<&'static str>,
    /// Events that were asked for by their own name: missing ones are an error.
    pub named: BTreeSet<&'static str>,
    /// System call numbers to record.
    pub calls: BTreeSet<u32>,
    /// Keep one of N, by set.
    pub thin: BTreeMap<String, u32>,
}

fn call_numbers(names: &[&str]) -> impl Iterator<Item = u32> {
    let numbers: Vec<u32> =
        names.iter().filter_map(|n| Sysno::from_str(n).ok()).map(|s| s.id() as u32).collect();
    numbers.into_iter()
}

/// Name of a system call of this architecture.
pub fn call_name(nr: u32) -> String {
    Sysno::new(nr as usize).map_or_else(|| format!("syscall_{nr}"), |s| s.name().to_string())
}

/// Number of a system call of this architecture.
pub fn call_number(name: &str) -> Option<u32> {
    Sysno::from_str(name).ok().map(|s| s.id() as u32)
}

impl Selection {
    /// Reads a list such as `sched,block`, `default,fs`, `all,-net`,
    /// `sched,syscall:all`, `block_rq_issue,syscall:fsync`.
    ///
    /// # Errors
    /// An unknown name, with the names that exist.
    pub fn parse(list: &str) -> Result<Self> {
        let mut out = Self::default();
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            if let Some(name) = word.strip_prefix('-') {
                let before = out.events.len();
                out.events.retain(|e| *e != name && event_by_name(e).is_some_and(|i| i.set != name));
                if out.events.len() == before {
                    bail!("'-{name}' takes nothing away from what stands before it; {}", known());
                }
            } else if let Some(call) = word.strip_prefix("syscall:") {
                out.add_set("syscall");
                match call {
                    "all" => out.calls.extend(0..512),
                    "io" => out.calls.extend(call_numbers(IO_CALLS)),
                    "wait" => out.calls.extend(call_numbers(WAIT_CALLS)),
                    name => match call_number(name) {
                        Some(nr) => drop(out.calls.insert(nr)),
                        None => bail!("no system call '{name}' on this machine; also: syscall:io, syscall:wait, syscall:all"),
                    },
                }
            } else if word == "default" {
                let default = Self::parse(DEFAULT_EVENTS)?;
                out.events.extend(default.events);
                out.calls.extend(default.calls);
            } else if word == "all" {
                sets().iter().for_each(|s| out.add_set(s));
                out.calls.extend(0..512);
            } else if sets().contains(&word) {
                out.add_set(word);
                if word == "syscall" {
                    out.calls.extend(call_numbers(IO_CALLS).chain(call_numbers(WAIT_CALLS)));
                }
            } else if let Some(event) = event_by_name(word).filter(|e| e.origin == Origin::Kernel) {
                out.events.insert(event.name);
                out.named.insert(event.name);
                if event.set == "syscall" {
                    out.calls.extend(0..512);
                }
            } else {
                bail!("no event or set '{word}'; {}", known());
            }
        }
        if out.events.is_empty() {
            bail!("no event is selected; {}", known());
        }
        Ok(out)
    }

    fn add_set(&mut self, set: &str) {
        self.events.extend(kernel_events().filter(|e| e.set == set).map(|e| e.name));
    }

    /// Reads `SET=N`: keep one of N.
    ///
    /// # Errors
    /// A set that cannot be thinned, or N that is not a power of two up to 65536.
    pub fn thin(&mut self, word: &str) -> Result<()> {
        let Some((set, n)) = word.split_once('=') else {
            bail!("'{word}' is not SET=N; example: --thin block=16")
        };
        if NEVER_THINNED.contains(&set) {
            bail!("'{set}' cannot be thinned: the account would no longer add up; use --only-target or fewer events");
        }
        if !THINNABLE.contains(&set) {
            bail!("no set '{set}'; these can be thinned: {}", THINNABLE.join(", "));
        }
        match n.parse::<u32>() {
            Ok(n) if n.is_power_of_two() && n <= 65536 => drop(self.thin.insert(set.into(), n)),
            _ => bail!("'{n}' is not a power of two from 1 to 65536; example: --thin {set}=16"),
        }
        Ok(())
    }

    /// Bits of `plumb_knobs.syscalls`.
    pub fn call_bits(&self) -> [u64; 8] {
        let mut bits = [0; 8];
        for nr in self.calls.iter().filter(|n| **n < 512) {
            bits[*nr as usize / 64] |= 1 << (nr % 64);
        }
        bits
    }
}

fn known() -> String {
    format!("sets: {}, default, all; 'plumb events' lists the events", sets().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_events_and_calls_combine() {
        let s = Selection::parse("sched,block_rq_issue,syscall:fsync").expect("good");
        assert!(s.events.contains("sched_switch") && s.events.contains("block_rq_issue"));
        assert!(s.events.contains("sys_enter") && !s.events.contains("block_bio_queue"));
        assert_eq!(s.calls.len(), 1);
        let less = Selection::parse("all,-net,-sched_migrate").expect("good");
        assert!(!less.events.contains("net_dev_queue") && !less.events.contains("sched_migrate"));
    }

    #[test]
    fn unknown_names_are_named_with_a_way_out() {
        for (list, word) in [
            ("sched,blok", "'blok'"),
            ("syscall:foo", "'foo'"),
            ("", "no event is selected"),
            ("sched,-net", "'-net'"),
            // A workload's own: no program of the kernel raises them.
            ("load_begin", "'load_begin'"),
            ("sched,load", "'load'"),
        ] {
            let err = Selection::parse(list).expect_err(list).to_string();
            assert!(err.contains(word), "{err}");
        }
        let mut s = Selection::parse("default").expect("good");
        assert!(s.thin("sched=4").expect_err("sched").to_string().contains("add up"));
        assert!(s.thin("block=3").expect_err("three").to_string().contains("power of two"));
        s.thin("block=16").expect("good");
    }
}
