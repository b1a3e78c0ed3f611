// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities of a thread (capabilities(7)), which it can give up and not get back.

use std::io;

const VERSION_3: u32 = 0x2008_0522;

// include/uapi/linux/capability.h
pub const CHOWN: u32 = 0;
pub const DAC_OVERRIDE: u32 = 1;
pub const DAC_READ_SEARCH: u32 = 2;
pub const FOWNER: u32 = 3;
pub const KILL: u32 = 5;
pub const SETGID: u32 = 6;
pub const SETUID: u32 = 7;
pub const SYS_PTRACE: u32 = 19;
pub const SYS_ADMIN: u32 = 21;
pub const SYS_NICE: u32 = 23;
pub const SYSLOG: u32 = 34;
pub const PERFMON: u32 = 38;
pub const BPF: u32 = 39;
/// The kernel's last but few; before Linux 5.9 [`SYS_ADMIN`] stands for it.
pub const CHECKPOINT_RESTORE: u32 = 40;

/// What is effective or may become it, and what is inherited by programs: bits of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sets {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Sets {
    fn get() -> io::Result<Sets> {
        let mut head = [VERSION_3, 0];
        let mut words = [[0u32; 3]; 2];
        // SAFETY: the kernel's layout: version and pid; effective, permitted and inheritable, low words first.
        check(unsafe { libc::syscall(libc::SYS_capget, head.as_mut_ptr(), words.as_mut_ptr()) })?;
        let both = |i: usize| u64::from(words[0][i]) | u64::from(words[1][i]) << 32;
        Ok(Sets { effective: both(0), permitted: both(1), inheritable: both(2) })
    }

    fn set(self) -> io::Result<()> {
        let head = [VERSION_3, 0];
        let all = [self.effective, self.permitted, self.inheritable];
        let words = [all.map(|set| set as u32), all.map(|set| (set >> 32) as u32)];
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), words.as_ptr()) })
    }
}

fn bits(capabilities: &[u32]) -> u64 {
    capabilities.iter().fold(0, |set, capability| set | 1 << capability)
}

/// Whether the kernel knows a capability.
pub fn is_known(capability: u32) -> bool {
    // SAFETY: asks for a bit of this thread.
    unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(capability), 0, 0, 0) >= 0 }
}

/// Gives up every capability of the calling thread but these, which are kept where they are there, and makes them
/// effective. Threads that it makes from now on cannot have others either, and programs that it starts as root only
/// those of `programs` (the bounding set, which can be made smaller once, as long as CAP_SETPCAP is there).
///
/// # Errors
/// The kernel refuses.
pub fn keep(capabilities: &[u32], programs: &[u32]) -> io::Result<()> {
    let (kept, bound) = (bits(capabilities), bits(programs));
    for capability in (0..64).filter(|c| bound & 1 << c == 0) {
        // SAFETY: takes a bit from this thread, or fails.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0) };
    }
    let sets = Sets::get()?;
    let permitted = sets.permitted & kept;
    Sets { effective: permitted, permitted, inheritable: sets.inheritable & kept }.set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Status};

    #[test]
    fn what_is_given_up_does_not_come_back() {
        let ends = |body: fn() -> bool| Child::fork(move || i32::from(!body())).expect("a process").wait();
        // SAFETY: a call without arguments.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIP what_is_given_up_does_not_come_back: needs root");
            return;
        }
        let kept = || {
            let before = Sets::get().unwrap_or_default();
            let done = keep(&[KILL, DAC_READ_SEARCH], &[]).is_ok();
            let now = Sets::get().unwrap_or_default();
            done && now.permitted == before.permitted & bits(&[KILL, DAC_READ_SEARCH])
                && now.effective == now.permitted
                && before.set().is_err()
        };
        assert_eq!(ends(kept), Status::Exited(0));
        let programs = || {
            let status = |out: Vec<u8>| String::from_utf8_lossy(&out).into_owned();
            let read = || std::process::Command::new("cat").arg("/proc/self/status").output();
            keep(&[KILL, CHOWN], &[KILL]).is_ok()
                && read().is_ok_and(|out| {
                    let text = status(out.stdout);
                    let line = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
                    line("CapEff:") == Some("0000000000000020") && line("CapBnd:") == Some("0000000000000020")
                })
        };
        assert_eq!(ends(programs), Status::Exited(0));
    }
}
