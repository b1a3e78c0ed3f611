// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a command with all that it starts under ptrace(2), counts the system calls that changed the system, and kills
//! behind the one that is asked for. The call has been made, and nobody of those killed runs another instruction.

use super::calls::{bpf, ioctl, Change, Scope};
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Attributes of a queue that the kernel sets when its scheduler changes.
pub const OF_SCHEDULER: [&str; 3] = ["nr_requests", "async_depth", "wbt_lat_usec"];

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The process that was called.
    Command,
    /// The process that made the call.
    Caller,
    /// Every process of the command, its guardian and its servers too.
    All,
    /// The process that puts back what a killed command changed; the command goes on.
    Guardian,
}

impl Victim {
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "the command",
            Self::Caller => "the caller",
            Self::All => "all",
            Self::Guardian => "the guardian",
        }
    }
}

/// What is to be done with one run.
pub struct Order {
    pub kill: Option<(usize, Victim)>,
    pub scope: Scope,
    /// A command that does not end by itself gets SIGINT after that.
    pub interrupt: Option<Duration>,
    /// How long after the end of the command those are still traced that outlive it; None: until they end.
    pub linger: Option<Duration>,
}

/// What a run changed.
#[derive(Debug, Default)]
pub struct Seen {
    /// The changing calls until the kill, in their order.
    pub points: Vec<String>,
    /// Whether the kill happened.
    pub killed: bool,
    /// What settings held before they were first written.
    pub settings: BTreeMap<PathBuf, String>,
    /// Names that it made and did not remove.
    pub made: BTreeSet<PathBuf>,
    pub mounts: BTreeSet<PathBuf>,
    /// `prog`, `map` or `link`, and the id.
    pub bpf: BTreeSet<(&'static str, u32)>,
    /// No process of it is left.
    pub ended: bool,
    /// The process that was called.
    pub command: i32,
}

/// `struct ptrace_syscall_info` (linux/ptrace.h) at the entry of a call and at its exit.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    /// At the entry the number and six arguments; at the exit the result and whether it is an error.
    data: [u64; 8],
}

const PTRACE_GET_SYSCALL_INFO: libc::c_uint = 0x420e;
/// Looks for the next stop before it sleeps.
const SPINS: u32 = 400;
const ENTRY: u8 = 1;
const EXIT: u8 = 2;

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: requests that write get a pointer to a value that outlives the call; the others take numbers.
    match unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) } {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n),
    }
}

struct Tracer {
    command: i32,
    order: Order,
    seen: Seen,
    /// The call that a thread is in, if it changes something.
    pending: HashMap<i32, Change>,
    known: BTreeSet<i32>,
}

/// Runs it until none of its processes is left, or until `leave` says something. Whoever lives then lives on untraced.
///
/// # Errors
/// It cannot be started or traced.
pub fn run(mut command: Command, order: Order, leave: &Receiver<()>) -> Result<Seen> {
    // SAFETY: ptrace is a plain system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    let child: Child = command.spawn().with_context(|| format!("{:?}", command.get_program()))?;
    let pid = child.id() as i32;
    let mut tracer = Tracer {
        command: pid,
        order,
        seen: Seen { command: pid, ..Seen::default() },
        pending: HashMap::new(),
        known: BTreeSet::from([pid]),
    };
    let mut status = 0;
    // SAFETY: status may be written.
    if unsafe { libc::waitpid(pid, &mut status, libc::__WALL) } != pid || !libc::WIFSTOPPED(status) {
        bail!("process {pid} cannot be traced");
    }
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC;
    ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as usize).context("ptrace")?;
    ptrace(libc::PTRACE_SYSCALL, pid, 0, 0).context("ptrace")?;
    tracer.follow(leave);
    Ok(tracer.seen)
}

impl Tracer {
    fn follow(&mut self, leave: &Receiver<()>) {
        let begun = Instant::now();
        let mut interrupted = false;
        let mut idle = 0;
        let mut ended: Option<Instant> = None;
        loop {
            if let (false, Some(after)) = (interrupted || self.seen.killed, self.order.interrupt) {
                if begun.elapsed() > after {
                    interrupted = true;
                    // SAFETY: a signal to our own child, which nobody has waited for.
                    unsafe { libc::kill(self.command, libc::SIGINT) };
                }
            }
            if !self.known.contains(&self.command) {
                ended.get_or_insert_with(Instant::now);
            }
            let over = ended.zip(self.order.linger).is_some_and(|(at, linger)| at.elapsed() > linger);
            if over || leave.try_recv().is_ok() {
                self.let_go();
                return;
            }
            let mut status = 0;
            // Only this thread's children and tracees: others have children too.
            let flags = libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
            // SAFETY: status may be written.
            match unsafe { libc::waitpid(-1, &mut status, flags) } {
                -1 => {
                    self.seen.ended = true;
                    return;
                }
                0 => {
                    idle += 1;
                    if idle < SPINS {
                        std::thread::yield_now();
                    } else {
                        std::thread::sleep(Duration::from_micros(500));
                    }
                }
                tid if libc::WIFSTOPPED(status) => {
                    idle = 0;
                    let signal = self.stopped(tid, status);
                    // It may have been killed meanwhile.
                    let _ = ptrace(libc::PTRACE_SYSCALL, tid, 0, signal as usize);
                }
                tid => {
                    self.known.remove(&tid);
                    self.pending.remove(&tid);
                }
            }
        }
    }

    /// Detaches from those that still live.
    fn let_go(&mut self) {
        let groups: BTreeSet<i32> = self.known.iter().map(|tid| group_of(*tid)).collect();
        self.known.iter().for_each(|tid| stop(*tid));
        self.detach();
        // Who was let go of before the signal came would stop now.
        for pid in groups {
            // SAFETY: a signal to a process of the command.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
    }

    fn detach(&mut self) {
        let until = Instant::now() + Duration::from_secs(5);
        while !self.known.is_empty() && Instant::now() < until {
            let mut status = 0;
            let flags = libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
            // SAFETY: status may be written.
            match unsafe { libc::waitpid(-1, &mut status, flags) } {
                -1 => return,
                0 => std::thread::sleep(Duration::from_millis(1)),
                tid if libc::WIFSTOPPED(status) => {
                    let signal = libc::WSTOPSIG(status);
                    let ours = signal == libc::SIGSTOP || signal & 0x80 != 0 || status >> 16 != 0;
                    let signal = if ours { 0 } else { signal };
                    if ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize).is_ok() {
                        self.known.remove(&tid);
                    }
                }
                tid => drop(self.known.remove(&tid)),
            }
        }
    }

    /// What is done about a stop; the signal that the thread gets.
    fn stopped(&mut self, tid: i32, status: i32) -> i32 {
        let signal = libc::WSTOPSIG(status);
        let new = self.known.insert(tid);
        if signal == libc::SIGTRAP | 0x80 {
            self.call(tid);
            return 0;
        }
        if status >> 16 != 0 || (new && signal == libc::SIGSTOP) {
            return 0;
        }
        signal
    }

    fn call(&mut self, tid: i32) {
        let mut info = Info::default();
        let size = std::mem::size_of::<Info>();
        if ptrace(PTRACE_GET_SYSCALL_INFO, tid, size, std::ptr::from_mut(&mut info) as usize).is_err() {
            return;
        }
        match info.op {
            ENTRY => {
                let found = self.begins(tid, info.data[0] as i64, &info.data[1..7]);
                if let Some(Change::Setting(path)) = &found {
                    self.remember(path);
                }
                match found {
                    Some(change) => drop(self.pending.insert(tid, change)),
                    None => drop(self.pending.remove(&tid)),
                }
            }
            EXIT => {
                let Some(change) = self.pending.remove(&tid) else { return };
                let result = info.data[0] as i64;
                if result >= 0 {
                    self.changed(tid, change, result);
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self, tid: i32, number: i64, args: &[u64]) -> Option<Change> {
        let scope = self.order.scope.clone();
        let here = libc::AT_FDCWD as u64;
        let at = |dir: u64, name: u64| path_at(tid, dir, name);
        match number {
            libc::SYS_mount => Some(Change::Mount(at(here, args[1])?)),
            libc::SYS_umount2 => Some(Change::Unmount(at(here, args[0])?)),
            libc::SYS_move_mount => Some(Change::Mount(at(args[2], args[3])?)),
            libc::SYS_fsmount => Some(Change::Order("fsmount")),
            libc::SYS_swapon => Some(Change::Order("swapon")),
            libc::SYS_swapoff => Some(Change::Order("swapoff")),
            libc::SYS_init_module | libc::SYS_finit_module => Some(Change::Order("init_module")),
            libc::SYS_ioctl => ioctl(args[1] as u32),
            libc::SYS_bpf => bpf(args[0]),
            libc::SYS_mkdirat => scope.make(at(args[0], args[1])?),
            libc::SYS_mknodat => scope.make(at(args[0], args[1])?),
            libc::SYS_symlinkat => scope.make(at(args[1], args[2])?),
            libc::SYS_linkat => scope.make(at(args[2], args[3])?),
            libc::SYS_unlinkat => scope.remove(at(args[0], args[1])?),
            libc::SYS_renameat2 | libc::SYS_renameat => {
                scope.rename(at(args[0], args[1])?, at(args[2], args[3])?)
            }
            libc::SYS_openat => self.opens(at(args[0], args[1])?, args[2]),
            libc::SYS_bind => scope.make(socket(tid, args[1], args[2])?),
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev => {
                let link = std::fs::read_link(format!("/proc/{tid}/fd/{}", args[0])).ok()?;
                scope.write(&link)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_mknod => scope.make(at(here, args[0])?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink | libc::SYS_link => scope.make(at(here, args[1])?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir | libc::SYS_unlink => scope.remove(at(here, args[0])?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => scope.rename(at(here, args[0])?, at(here, args[1])?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.opens(at(here, args[0])?, args[1]),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => self.opens(at(here, args[0])?, (libc::O_CREAT | libc::O_TRUNC) as u64),
            _ => None,
        }
    }

    fn opens(&mut self, path: PathBuf, flags: u64) -> Option<Change> {
        let has = |flag: i32| flags & flag as u64 != 0;
        if !has(libc::O_CREAT | libc::O_TRUNC) || flags & libc::O_TMPFILE as u64 == libc::O_TMPFILE as u64 {
            return None;
        }
        if let Some(Change::Setting(path)) = self.order.scope.write(&path) {
            // A file that stands for a setting is empty when it is written.
            self.remember(&path.canonicalize().unwrap_or(path));
            return None;
        }
        // Nobody looks into a file system whose server may be stopped: what makes none is not looked at.
        let made = self.order.scope.make(path.clone());
        match (made, has(libc::O_CREAT)) {
            (Some(made), true) if path.symlink_metadata().is_err() => Some(made),
            _ if has(libc::O_TRUNC) => self.order.scope.truncate(path),
            _ => None,
        }
    }

    /// What a setting held before it was first written.
    fn remember(&mut self, path: &Path) {
        let mut all = vec![path.to_path_buf()];
        if path.ends_with("queue/scheduler") {
            all.extend(OF_SCHEDULER.map(|name| path.with_file_name(name)));
        }
        for path in all {
            if let (false, Ok(value)) =
                (self.seen.settings.contains_key(&path), std::fs::read_to_string(&path))
            {
                self.seen.settings.insert(path, value);
            }
        }
    }

    fn changed(&mut self, tid: i32, change: Change, result: i64) {
        let seen = &mut self.seen;
        match &change {
            Change::Mount(path) => drop(seen.mounts.insert(path.clone())),
            Change::Make(path) => drop(seen.made.insert(path.clone())),
            Change::Remove(path) => drop(seen.made.remove(path)),
            Change::Rename(from, to) => {
                seen.made.remove(from);
                seen.made.insert(to.clone());
            }
            Change::Bpf(_) => seen.bpf.extend(bpf_id(tid, result)),
            _ => {}
        }
        if seen.killed {
            return;
        }
        seen.points.push(change.to_string());
        let Some((number, victim)) = self.order.kill else { return };
        if seen.points.len() == number {
            let comm = |tid: &i32| std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            let guardian = self.known.iter().find(|tid| comm(tid).trim() == "plumb-guardian");
            // Before it is there, and behind its end, there is nobody to kill.
            seen.killed = victim != Victim::Guardian || guardian.is_some();
            match victim {
                Victim::Command => kill(self.command),
                Victim::Caller => kill(group_of(tid)),
                Victim::Guardian => guardian.iter().for_each(|pid| kill(**pid)),
                Victim::All => self.known.iter().for_each(|tid| kill(group_of(*tid))),
            }
        }
    }
}

/// The process of a thread.
fn group_of(tid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse().ok());
    group.unwrap_or(tid)
}

fn kill(pid: i32) {
    // SAFETY: a signal to a process that we trace, so that its number is its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn stop(tid: i32) {
    // SAFETY: a signal to a thread that we trace.
    unsafe { libc::syscall(libc::SYS_tgkill, group_of(tid), tid, libc::SIGSTOP) };
}

/// Reads the memory of a stopped thread.
fn memory(tid: i32, address: u64, bytes: &mut [u8]) -> usize {
    use std::os::unix::fs::FileExt;
    let Ok(file) = std::fs::File::open(format!("/proc/{tid}/mem")) else { return 0 };
    file.read_at(bytes, address).unwrap_or(0)
}

/// The path that a call names.
fn path_at(tid: i32, dir: u64, name: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut bytes = [0; 4096];
    // A string may end just before a page that is not there.
    let first = (4096 - (name & 4095)) as usize;
    let mut have = memory(tid, name, &mut bytes[..first]);
    if !bytes[..have].contains(&0) && have == first {
        have += memory(tid, name + first as u64, &mut bytes[first..]);
    }
    let end = bytes[..have].iter().position(|b| *b == 0)?;
    let name = Path::new(std::ffi::OsStr::from_bytes(&bytes[..end]));
    if name.is_absolute() {
        return Some(plain(name));
    }
    let dir = match dir as i32 {
        libc::AT_FDCWD => format!("/proc/{tid}/cwd"),
        fd => format!("/proc/{tid}/fd/{fd}"),
    };
    Some(plain(&std::fs::read_link(dir).ok()?.join(name)))
}

/// Without `.` and `..`, and without a look at the file system.
fn plain(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(all.pop()),
            part => all.push(part),
        }
    }
    all
}

/// The path of a Unix socket's address.
fn socket(tid: i32, address: u64, length: u64) -> Option<PathBuf> {
    let mut bytes = [0; 110];
    let have = memory(tid, address, &mut bytes[..(length as usize).min(110)]);
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    if have < 4 || i32::from(family) != libc::AF_UNIX || bytes[2] == 0 {
        return None;
    }
    let name = bytes[2..have].split(|b| *b == 0).next()?;
    Some(plain(Path::new(std::str::from_utf8(name).ok()?)))
}

/// The kernel's id of what a descriptor of bpf(2) is.
fn bpf_id(tid: i32, descriptor: i64) -> Option<(&'static str, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    ["link", "prog", "map"].into_iter().find_map(|kind| {
        let name = format!("{kind}_id:");
        Some((kind, text.lines().find_map(|l| l.strip_prefix(&name))?.trim().parse().ok()?))
    })
}
