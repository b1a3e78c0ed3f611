// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process of ours that reads bytes which others control: it can read files, and harm nobody.

use crate::{capabilities, system, Root};
use std::io;
use std::os::fd::RawFd;

/// User and group that own nothing: overflowuid, overflowgid.
const NOBODY: u32 = 65534;

/// What a confined process still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// To read files.
    Files,
    /// To start programs that write to the user's own cache and talk to a network: it keeps its user.
    Programs,
}

/// Memory that a confined process may take for itself, bytes: a quarter of what is there, 512 MiB to 4 GiB.
pub fn memory(root: &Root) -> u64 {
    (system::available_memory(root).unwrap_or(0) / 4).clamp(512 << 20, 4 << 30)
}

/// Confines the calling process for good: no new privileges, no capability but that to read files, no user of its own,
/// no system call that changes a file, starts a program or reaches another process; so much memory, no core file. Of its
/// descriptors it keeps the standard ones, files that it can only read, and `answers`. For a process of one thread.
///
/// # Errors
/// The kernel refuses. The process must end then.
pub fn confine(needs: Needs, memory: u64, answers: RawFd) -> io::Result<()> {
    close_others(answers)?;
    let own = own_memory();
    limit(libc::RLIMIT_DATA, own.saturating_add(memory))?;
    limit(libc::RLIMIT_CORE, 0)?;
    // SAFETY: plain system calls on this process.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::geteuid() == 0 && needs == Needs::Files {
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 1))?;
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
            check(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
            // A change of user forgets it.
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        }
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
    }
    let files = [capabilities::DAC_READ_SEARCH];
    capabilities::keep(&files, &files)?;
    if needs == Needs::Files {
        forbid()?;
    }
    Ok(())
}

/// Closes what was inherited and could be written to: the trace, BPF maps, sockets.
fn close_others(answers: RawFd) -> io::Result<()> {
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd")?.flatten().map(|e| e.file_name()).collect();
    let all = names.iter().filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for fd in all.filter(|fd| *fd > libc::STDERR_FILENO && *fd != answers) {
        // SAFETY: reads flags and facts of a descriptor, or fails; what is closed has no other user in this process,
        // which ends without its destructors.
        unsafe {
            let mut facts: libc::stat = std::mem::zeroed();
            let flags = libc::fcntl(fd, libc::F_GETFL);
            let read_only = flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDONLY;
            let regular =
                libc::fstat(fd, &raw mut facts) == 0 && facts.st_mode & libc::S_IFMT == libc::S_IFREG;
            if !(read_only && regular) {
                libc::close(fd);
            }
        }
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Private memory that the process has, bytes: what RLIMIT_DATA counts.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmData:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads the structure.
    check(unsafe { libc::setrlimit(what, &raw const limit) })
}

/// System calls that a reader of files does not need: those that change files, processes or the machine.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchmodat,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_ftruncate,
    libc::SYS_openat2,
    libc::SYS_renameat,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    libc::SYS_ioctl,
    libc::SYS_io_uring_setup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_keyctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    // As openat(2) is meant to be called.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// What the kernel calls this machine's system calls: AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 of linux/audit.h. Others' numbers
/// mean other calls.
const ARCHITECTURE: u32 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };
/// __X32_SYSCALL_BIT: from here on they are those of x32.
const X32: u32 = 0x4000_0000;

/// Has the kernel answer EPERM to [`FORBIDDEN`] and to openat(2) for writing: seccomp(2) with a classic BPF program over
/// struct seccomp_data: number at 0, architecture at 4, third argument at 32.
fn forbid() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const HAS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let refuse = step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let allow = step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![step(LOAD, 0, 0, 4), step(IS, 1, 0, ARCHITECTURE), refuse, step(LOAD, 0, 0, 0)];
    if cfg!(target_arch = "x86_64") {
        program.extend([step(AT_LEAST, 0, 1, X32), refuse]);
    }
    for call in FORBIDDEN {
        program.extend([step(IS, 0, 1, *call as u32), refuse]);
    }
    program.extend([step(IS, 1, 0, libc::SYS_openat as u32), allow, step(LOAD, 0, 0, 32)]);
    program.extend([step(HAS, 0, 1, WRITES), refuse, allow]);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through the call.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Status};

    /// What a confined process ends with.
    fn ends(body: impl FnOnce() -> i32) -> Status {
        let confined = || match confine(Needs::Files, 64 << 20, -1) {
            Ok(()) => body(),
            Err(_) => 99,
        };
        Child::fork(confined).expect("a process").wait()
    }

    #[test]
    fn a_confined_process_reads_and_does_nothing_else() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "text").expect("written");
        let (read, gone) = (file.clone(), file.clone());
        assert_eq!(ends(move || i32::from(std::fs::read(read).is_err())), Status::Exited(0));
        assert_eq!(ends(move || i32::from(std::fs::remove_file(gone).is_ok())), Status::Exited(0));
        assert!(file.exists());
        // Where everybody may make files, too, and where a descriptor for writing was inherited.
        let open = std::fs::OpenOptions::new().append(true).open(&file).expect("open");
        let everywhere = std::env::temp_dir().join(format!("plumb-confined-{}", std::process::id()));
        let made = everywhere.clone();
        assert_eq!(ends(move || i32::from(std::fs::write(made, "").is_ok())), Status::Exited(0));
        assert!(!everywhere.exists());
        let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
        // SAFETY: writes a byte, or fails.
        let writes = move || i32::from(unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) } == 1);
        assert_eq!(ends(writes), Status::Exited(0));
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "text");
        let new = dir.path().join("new");
        // SAFETY: a call without arguments.
        if unsafe { libc::geteuid() } == 0 {
            assert_eq!(ends(move || i32::from(std::fs::write(new, "").is_ok())), Status::Exited(0));
            let status = || {
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                let has =
                    |line: &str| status.lines().any(|l| l.split_whitespace().eq(line.split_whitespace()));
                let all = has("CapEff: 0000000000000004") && has("CapPrm: 0000000000000004");
                i32::from(
                    !(all
                        && has("NoNewPrivs: 1")
                        && has("Seccomp: 2")
                        && has("Uid: 65534 65534 65534 65534")),
                )
            };
            assert_eq!(ends(status), Status::Exited(0));
        }
        // SAFETY: signals this process's group, or fails.
        assert_eq!(ends(|| i32::from(unsafe { libc::kill(libc::getppid(), 0) } == 0)), Status::Exited(0));
    }

    #[test]
    fn its_memory_is_bounded() {
        let take = |mib: usize| {
            ends(move || {
                let mut bytes: Vec<u8> = Vec::new();
                i32::from(bytes.try_reserve_exact(mib << 20).is_err())
            })
        };
        assert_eq!((take(16), take(4096)), (Status::Exited(0), Status::Exited(1)));
    }
}
