// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose system calls and stacks are recorded, and a command that waits until
//! the recording is on before it begins.

use anyhow::{bail, Context, Result};
use plumb_machine::{output, process, service, Root};
use plumb_trace::load::TRACE_VARIABLE;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whom the recording is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A command and its descendants.
    Command {
        words: Vec<OsString>,
        /// Processes that are recorded with it, as the server that it asks.
        beside: Running,
    },
    /// Processes that run, and the descendants that they will have.
    Pids(Running),
    /// The members of a cgroup (a path below its mount), now and later.
    Cgroup(PathBuf),
    Everything,
}

/// Processes that run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Those that were asked for. Where they are the whole target, the recording ends when they have.
    pub named: Vec<u32>,
    /// Descendants that they have already.
    pub children: Vec<u32>,
}

impl Running {
    fn describe(&self) -> String {
        let pids: Vec<_> = self.named.iter().map(u32::to_string).collect();
        let more = match self.children.len() {
            0 => String::new(),
            1 => " and 1 child process".into(),
            n => format!(" and {n} child processes"),
        };
        format!("pid {}{more}", pids.join(", "))
    }

    fn threads(&self) -> Result<Vec<u32>> {
        let mut tids = Vec::new();
        for pid in &self.named {
            let found = threads_of(*pid);
            if found.is_empty() {
                bail!("no process {pid}; 'ps -e' lists those that run");
            }
            tids.extend(found);
        }
        // A child may have ended since.
        tids.extend(self.children.iter().flat_map(|pid| threads_of(*pid)));
        Ok(tids)
    }
}

impl Target {
    /// In words, for the trace's environment.
    pub fn describe(&self) -> String {
        match self {
            Target::Command { words, beside } => {
                let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
                match beside.named.is_empty() {
                    true => words.join(" "),
                    false => format!("{}, with {}", words.join(" "), beside.describe()),
                }
            }
            Target::Pids(running) => running.describe(),
            Target::Cgroup(path) => {
                let service = service::Services::new(Root::real()).at(path);
                service.map_or_else(|| format!("cgroup {}", path.display()), |s| s.name)
            }
            Target::Everything => "everything".into(),
        }
    }

    /// Threads that belong to it now.
    ///
    /// # Errors
    /// A process or cgroup that does not exist.
    pub fn threads(&self) -> Result<Vec<u32>> {
        match self {
            Target::Everything => Ok(Vec::new()),
            Target::Command { beside: running, .. } | Target::Pids(running) => running.threads(),
            Target::Cgroup(path) => {
                let mut tids = Vec::new();
                cgroup_threads(path, &mut tids).with_context(|| {
                    format!("cgroup {}: give the directory below /sys/fs/cgroup", path.display())
                })?;
                Ok(tids)
            }
        }
    }
}

fn threads_of(pid: u32) -> Vec<u32> {
    process::threads(pid, &Root::real())
}

fn cgroup_threads(dir: &Path, tids: &mut Vec<u32>) -> Result<()> {
    let procs = std::fs::read_to_string(dir.join("cgroup.procs"))?;
    tids.extend(procs.lines().filter_map(|l| l.parse().ok()).flat_map(threads_of));
    for entry in std::fs::read_dir(dir)?.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            cgroup_threads(&entry.path(), tids)?;
        }
    }
    Ok(())
}

/// A command that has been forked and waits to be let go.
pub struct Command {
    pub pid: u32,
    go: Option<File>,
    failed: File,
    name: String,
    status: Option<i32>,
}

fn pipe() -> Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: fds has room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(std::io::Error::last_os_error()).context("pipe");
    }
    // SAFETY: fresh descriptors that nobody else owns.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

/// The file that exec would run by this name.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    let runs = |path: &Path| {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: a NUL-terminated string.
        unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
    };
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| runs(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| runs(path))
}

/// Our environment, and where a workload's operations go; that of an outer recording is not the
/// command's.
fn environment(trace: Option<&Path>) -> Result<Vec<CString>> {
    let ours = std::env::vars_os().filter(|(key, _)| key != TRACE_VARIABLE);
    let trace = trace.map(|dir| (OsString::from(TRACE_VARIABLE), dir.as_os_str().to_os_string()));
    ours.chain(trace)
        .map(|(mut pair, value)| {
            pair.push("=");
            pair.push(value);
            CString::new(pair.into_vec()).context("NUL in the environment or in the trace directory's name")
        })
        .collect()
}

impl Command {
    /// Forks; the child waits before exec. Call it while the process has one thread.
    /// `apart`: its standard output goes to standard error. `trace` is the directory
    /// to which a workload may add its operations, see [`plumb_trace::load`].
    ///
    /// # Errors
    /// The program cannot be found in PATH, or fork fails.
    pub fn fork(words: &[OsString], apart: bool, trace: Option<&Path>) -> Result<Self> {
        let name = words
            .first()
            .context("no command is given; example: plumb run -- dd if=/dev/zero of=f bs=1M count=100")?;
        // Fails where exec would, before anything has begun.
        let found = find(name).is_some();
        let name = name.to_string_lossy().into_owned();
        anyhow::ensure!(
            found,
            "cannot run '{name}': no such program, or not executable; check the name and PATH"
        );
        let args: Vec<CString> = words
            .iter()
            .map(|w| CString::new(w.as_bytes()))
            .collect::<Result<_, _>>()
            .context("NUL in a word of the command")?;
        let mut argv: Vec<*const libc::c_char> = args.iter().map(|a| a.as_ptr()).collect();
        argv.push(std::ptr::null());
        // Made before the fork: between fork and exec nothing may take memory.
        let environment = environment(trace)?;
        let mut env: Vec<*const libc::c_char> = environment.iter().map(|e| e.as_ptr()).collect();
        env.push(std::ptr::null());
        let (mut wait, go) = pipe()?;
        let (failed, mut tell) = pipe()?;
        // SAFETY: the child only calls read, write, sigprocmask-free libc functions and exec.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error()).context("fork"),
            0 => {
                drop(go);
                let mut byte = [0];
                if !matches!(wait.read(&mut byte), Ok(1)) {
                    // SAFETY: ends the child without running the parent's destructors.
                    unsafe { libc::_exit(0) }
                }
                // SAFETY: argv and env are NUL-terminated strings with a null behind the last; the
                // signals that the recorder catches or ignores are the child's defaults again.
                unsafe {
                    libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                    output::give_mask_back();
                    if apart {
                        libc::dup2(2, 1);
                    }
                    libc::execvpe(argv[0], argv.as_ptr(), env.as_ptr());
                }
                let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                let _ = tell.write_all(&errno.to_le_bytes());
                // SAFETY: as above.
                unsafe { libc::_exit(127) }
            }
            pid => Ok(Self { pid: pid as u32, go: Some(go), failed, name, status: None }),
        }
    }

    /// Lets the command begin.
    ///
    /// # Errors
    /// The program cannot be run; named with the reason.
    pub fn release(&mut self) -> Result<()> {
        if let Some(mut go) = self.go.take() {
            go.write_all(&[1]).context("the command ended before it began")?;
        }
        // The child's ends close at exec, so this returns at once either way.
        let mut errno = [0; 4];
        // SAFETY: closes nothing; only the parent's copy of the writing end was dropped at fork.
        if self.failed.read_exact(&mut errno).is_ok() {
            let e = std::io::Error::from_raw_os_error(i32::from_le_bytes(errno));
            self.reap();
            bail!("cannot run '{}': {e}; check the name and PATH", self.name);
        }
        Ok(())
    }

    fn reap(&mut self) {
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.pid as i32, &mut status, 0) };
    }

    /// Its exit code when it has ended; 128 + n for signal n.
    pub fn ended(&mut self) -> Option<i32> {
        if self.status.is_none() {
            let mut status = 0;
            // SAFETY: our own child; does not wait.
            if unsafe { libc::waitpid(self.pid as i32, &mut status, libc::WNOHANG) } == self.pid as i32 {
                self.status = Some(if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    128 + libc::WTERMSIG(status)
                });
            }
        }
        self.status
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.ended().is_none() {
            // SAFETY: our own child, not yet reaped, so the id is still its own.
            unsafe { libc::kill(self.pid as i32, signal) };
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        // Never let go: it ends by itself when the pipe closes.
        if self.go.take().is_some() {
            self.reap();
        }
    }
}
