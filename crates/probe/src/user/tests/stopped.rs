// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that are compiled, run and stopped.

use crate::user::Registers;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that is killed at the end.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a compiler; `false` if there is none. Its errors are the test's.
pub fn compile(command: &mut Command) -> bool {
    match command.output() {
        Ok(out) => {
            assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
            true
        }
        Err(_) => false,
    }
}

/// Compiles a C program without frame pointers; `None` where there is no compiler.
pub fn c(dir: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&from, source).expect("write the source");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-g0", "-o"]).arg(&to).arg(&from);
    compile(gcc.args(options)).then_some(to)
}

fn state(pid: u32, tid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    text.rsplit(") ").next().and_then(|s| s.chars().next()).unwrap_or('X')
}

impl Running {
    /// Starts a program; it says by a byte on its stdout that it is where it is to be looked at.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start the program");
        let mut byte = [0u8];
        child.stdout.as_mut().expect("its stdout").read_exact(&mut byte).expect("it says that it is there");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Registers of its first thread, and `bytes` of its stack.
    pub fn stack(&self, bytes: usize) -> (Registers, Vec<u8>) {
        stack_of(self.pid(), self.pid(), bytes)
    }
}

/// Threads of a process but the first.
pub fn threads(pid: u32) -> Vec<u32> {
    let dir = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let tids = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    tids.filter(|&tid| tid != pid).collect()
}

/// Registers and stack of a thread, which goes on afterwards.
pub fn stack_of(pid: u32, tid: u32, bytes: usize) -> (Registers, Vec<u8>) {
    // It said that it is there an instruction before it sleeps or spins.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let id = tid as libc::pid_t;
    // SAFETY: attaches to a thread of a program of this test, and waits until it stopped.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, id, 0, 0), 0, "seize {tid} ({})", state(pid, tid));
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, id, 0, 0), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(id, &raw mut status, libc::__WALL), id);
    }
    let registers = registers(id);
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut copy = vec![0u8; bytes];
    let mut len = 0;
    while len < bytes {
        // The stack may end before.
        match memory.read_at(&mut copy[len..bytes.min(len + 4096)], registers.sp + len as u64) {
            Ok(n) if n > 0 => len += n,
            _ => break,
        }
    }
    copy.truncate(len);
    // SAFETY: lets the thread go on.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, id, 0, 0) };
    (registers, copy)
}

#[cfg(target_arch = "x86_64")]
fn registers(id: libc::pid_t) -> Registers {
    // SAFETY: all zeros are a valid value of it.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure of a thread that is stopped by this one.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGS, id, 0, &raw mut regs) }, 0);
    Registers { ip: regs.rip, sp: regs.rsp, bp: regs.rbp, lr: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers(id: libc::pid_t) -> Registers {
    // SAFETY: all zeros are a valid value of it.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut io = libc::iovec { iov_base: (&raw mut regs).cast(), iov_len: size_of_val(&regs) };
    // SAFETY: fills the structure (1: NT_PRSTATUS) of a thread that is stopped by this one.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, id, 1, &raw mut io) }, 0);
    Registers { ip: regs.pc, sp: regs.sp, bp: regs.regs[29], lr: regs.regs[30] }
}
