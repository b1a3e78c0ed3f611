// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a wait was for, as far as call, state and stack tell.

use crate::account::Category;
use crate::thread::Sleep;
use plumb_trace::calls;
use plumb_trace::kernel::task_state;

/// System calls that wait for one kind of thing.
const CALLS: &[(&str, Category)] = &[
    ("futex", Category::Signalled),
    ("futex_wait", Category::Signalled),
    ("futex_waitv", Category::Signalled),
    ("flock", Category::FileLock),
    ("fcntl", Category::FileLock),
    ("semop", Category::Signalled),
    ("semtimedop", Category::Signalled),
    ("nanosleep", Category::Timer),
    ("clock_nanosleep", Category::Timer),
    ("wait4", Category::Child),
    ("waitid", Category::Child),
    ("vfork", Category::Child),
    ("clone", Category::Child),
    ("clone3", Category::Child),
    ("pause", Category::Signal),
    ("rt_sigsuspend", Category::Signal),
    ("rt_sigtimedwait", Category::Signal),
    ("accept", Category::Socket),
    ("accept4", Category::Socket),
    ("connect", Category::Socket),
    ("sendto", Category::Socket),
    ("recvfrom", Category::Socket),
    ("sendmsg", Category::Socket),
    ("recvmsg", Category::Socket),
    ("sendmmsg", Category::Socket),
    ("recvmmsg", Category::Socket),
    ("poll", Category::Poll),
    ("ppoll", Category::Poll),
    ("select", Category::Poll),
    ("pselect6", Category::Poll),
    ("epoll_wait", Category::Poll),
    ("epoll_pwait", Category::Poll),
    ("epoll_pwait2", Category::Poll),
    ("io_getevents", Category::Poll),
    ("io_pgetevents", Category::Poll),
    ("io_uring_enter", Category::Poll),
    ("read", Category::Pipe),
    ("write", Category::Pipe),
    ("readv", Category::Pipe),
    ("writev", Category::Pipe),
    ("splice", Category::Pipe),
    ("sendfile", Category::Pipe),
    ("msgsnd", Category::Pipe),
    ("msgrcv", Category::Pipe),
    ("mq_timedsend", Category::Pipe),
    ("mq_timedreceive", Category::Pipe),
];

/// What calls wait on, where their names do not say it.
const OBJECTS: &[(&str, &str)] = &[
    ("semop", "System V semaphore"),
    ("semtimedop", "System V semaphore"),
    ("msgsnd", "System V message queue"),
    ("msgrcv", "System V message queue"),
    ("mq_timedsend", "POSIX message queue"),
    ("mq_timedreceive", "POSIX message queue"),
    ("rt_sigtimedwait", "signal"),
    ("rt_sigsuspend", "signal"),
    ("pause", "signal"),
    ("wait4", "child process"),
    ("waitid", "child process"),
    ("open", "FIFO, lease or file system"),
    ("openat", "FIFO, lease or file system"),
];

/// Kernel functions that wait for one kind of thing; the innermost that is
/// known decides. A name stands for all functions that begin with it.
const SITES: &[(&str, Category)] = &[
    ("balance_dirty_pages", Category::Throttle),
    ("try_to_free_pages", Category::Memory),
    ("do_try_to_free_pages", Category::Memory),
    ("shrink_", Category::Memory),
    ("reclaim_throttle", Category::Memory),
    ("do_swap_page", Category::Memory),
    ("compact_zone", Category::Memory),
    ("pipe_read", Category::Pipe),
    ("pipe_write", Category::Pipe),
    ("anon_pipe_", Category::Pipe),
    ("pipe_wait", Category::Pipe),
    ("n_tty_", Category::Pipe),
    ("unix_stream_", Category::Socket),
    ("unix_wait_for_peer", Category::Socket),
    ("sk_wait_data", Category::Socket),
    ("sk_stream_wait", Category::Socket),
    ("inet_csk_accept", Category::Socket),
    ("inet_stream_connect", Category::Socket),
    ("__skb_wait_for_more_packets", Category::Socket),
    ("futex_", Category::Signalled),
    ("do_futex", Category::Signalled),
    ("ep_poll", Category::Poll),
    ("do_poll", Category::Poll),
    ("do_sys_poll", Category::Poll),
    ("poll_schedule_timeout", Category::Poll),
    ("do_select", Category::Poll),
    ("do_wait", Category::Child),
    ("wait_for_vfork_done", Category::Child),
    ("kernel_clone", Category::Child),
    ("do_nanosleep", Category::Timer),
    ("hrtimer_nanosleep", Category::Timer),
    ("msleep", Category::Timer),
    ("do_sigtimedwait", Category::Signal),
    ("sigsuspend", Category::Signal),
    ("do_signal_stop", Category::Stopped),
    ("do_freezer_trap", Category::Stopped),
    ("flock_lock_inode_wait", Category::FileLock),
    ("__flock_lock", Category::FileLock),
    ("ptrace_stop", Category::Stopped),
    ("rwsem_down_", Category::KernelLock),
    ("__mutex_lock", Category::KernelLock),
    ("mutex_lock", Category::KernelLock),
    ("percpu_rwsem_wait", Category::KernelLock),
];

/// Lookup from system call number to what it waits for.
#[derive(Debug)]
pub struct Calls(Vec<Option<Category>>);

impl Default for Calls {
    fn default() -> Self {
        let mut table = vec![None; 1024];
        for (name, category) in CALLS {
            if let Some(entry) = calls::number(name).and_then(|nr| table.get_mut(nr as usize)) {
                *entry = Some(*category);
            }
        }
        Self(table)
    }
}

impl Calls {
    /// Whether a call is futex(2) or one of its kind.
    pub fn is_futex(&self, nr: u32) -> bool {
        self.0.get(nr as usize).is_some_and(|kind| *kind == Some(Category::Signalled))
    }

    /// What a sleep in the call waits for. A file's I/O sleeps uninterruptibly,
    /// so there a call such as read says nothing.
    pub fn kind(&self, nr: Option<u32>, sleep: &Sleep) -> Option<Category> {
        let kind = (*self.0.get(nr? as usize)?)?;
        let deep = sleep.state & task_state::UNINTERRUPTIBLE != 0;
        let child = kind == Category::Child;
        (!deep || child).then_some(kind)
    }
}

/// Kinds of waits that another thread ends: what that one did is the reason. A shell's `wait` sleeps in
/// rt_sigsuspend until SIGCHLD comes.
pub fn passes_on(kind: Category) -> bool {
    use Category::{Child, Pipe, Poll, Signal, Signalled, Socket};
    matches!(kind, Signalled | Signal | Child | Pipe | Socket | Poll)
}

/// Whether a wait of this kind may be ended by a block request.
pub fn may_be_request(kind: Option<Category>) -> bool {
    matches!(kind, None | Some(Category::Poll | Category::Pipe))
}

/// What a kernel stack (symbols, innermost first, separated by ';') waits for.
pub fn site(stack: &str) -> Option<Category> {
    stack.split(';').find_map(|f| SITES.iter().find(|(name, _)| f.starts_with(name)).map(|(_, c)| *c))
}

/// What a call of this name waits on, where the name does not say it.
pub fn waits_on(call: &str) -> Option<&'static str> {
    OBJECTS.iter().find(|(name, _)| *name == call).map(|(_, on)| *on)
}

/// Name of a system call.
pub fn call_name(nr: u32) -> String {
    calls::name(nr).map_or_else(|| format!("syscall_{nr}"), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_function_decides() {
        assert_eq!(
            site("__schedule;schedule;io_schedule_timeout;balance_dirty_pages;ext4_write"),
            Some(Category::Throttle)
        );
        assert_eq!(site("__schedule;schedule;folio_wait_bit"), None);
    }
}
