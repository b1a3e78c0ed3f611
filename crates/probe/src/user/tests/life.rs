// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are born, run other programs and end, as the kernel tells of them.

use super::stopped::{c, Running};
use super::symbols::{has, names};
use crate::user::{End, Kind, Spaces};
use std::process::{Command, Stdio};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
#define F __attribute__((noinline, noclone))
static volatile long sink;
static F void spin(void) { if (write(1, "x", 1) != 1) _exit(1); for (;;) sink++; }
static F void one(void) { spin(); __asm__ volatile(""); }
int main(int n, char **v) {
  if (n > 1 && !strcmp(v[1], "fork")) { int p = fork(); if (p) { waitpid(p, 0, 0); return 0; } }
  if (n > 1 && !strcmp(v[1], "exec")) { execl(v[2], v[2], "fork", (char *)0); return 1; }
  if (n > 1 && !strcmp(v[1], "end")) return 0;
  one(); return 0;
}
"#;

fn listening(test: &str) -> Option<Spaces> {
    // SAFETY: sysconf has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as u32;
    let spaces = Spaces::start(cpus);
    if spaces.lacking().is_empty() {
        return Some(spaces);
    }
    println!("SKIP {test}: {:?}", spaces.lacking());
    None
}

fn child_of(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    text.split_whitespace().next().and_then(|p| p.parse().ok()).expect("a child")
}

#[test]
fn a_fork_s_stack_after_it_ended_and_exec_s_both_programs() {
    const TEST: &str = "a_fork_s_stack_after_it_ended_and_exec_s_both_programs";
    let Some(mut spaces) = listening(TEST) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = c(dir.path(), "lives", PROGRAM, &[]) else {
        println!("SKIP {TEST}: no gcc");
        return;
    };
    let again = dir.path().join("again");
    std::fs::copy(&program, &again).expect("copy it");
    let before = spaces.now();
    let running = Running::start(Command::new(&program).arg("exec").arg(&again));
    let (pid, child) = (running.pid(), child_of(running.pid()));
    let (registers, copy) = super::stopped::stack_of(child, child, 1 << 16);
    let at = spaces.now();
    // SAFETY: ends a process of this test.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
    drop(running);
    // /proc must have nothing to tell any more.
    while std::fs::read(format!("/proc/{child}/maps")).is_ok_and(|maps| !maps.is_empty()) {
        std::thread::yield_now();
    }
    spaces.update();
    let stack = spaces.walk(at, child, registers, &copy);
    let names = names(&spaces.modules, &stack);
    assert!(has(&names, &["spin", "one", "main"]), "{names:?}");
    assert_eq!(stack.end, End::Root, "{names:?}");
    let path = |s: &Spaces, module: u32| s.modules.get(module).expect("a module").path.clone();
    assert_eq!(path(&spaces, stack.frames[0].0), again.to_str().expect("a path"));
    // Its parent ran two programs; each has its time.
    assert_eq!(spaces.programs(pid), 3, "the test's own copy, then two programs");
    let first = spaces.executable(pid, 1).expect("a program");
    let second = spaces.executable(pid, 2).expect("a program");
    assert_eq!([first, second], [program.to_str().expect("a path"), again.to_str().expect("a path")]);
    assert!(spaces.lacking().is_empty() && before < at);
}

#[test]
fn a_deleted_program_is_opened_while_it_runs_and_told_when_it_does_not() {
    const TEST: &str = "a_deleted_program_is_opened_while_it_runs_and_told_when_it_does_not";
    let Some(mut spaces) = listening(TEST) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = c(dir.path(), "goes", PROGRAM, &[]) else {
        println!("SKIP {TEST}: no gcc");
        return;
    };
    let running = Running::start(&mut Command::new(&program));
    std::fs::remove_file(&program).expect("delete it");
    let (registers, copy) = running.stack(1 << 16);
    for spaces in [&mut Spaces::of_proc(), &mut spaces] {
        spaces.update();
        let stack = spaces.walk(u64::MAX, running.pid(), registers, &copy);
        let names = names(&spaces.modules, &stack);
        assert!(has(&names, &["spin", "one", "main"]), "{names:?}");
        let module = spaces.modules.get(stack.frames[0].0).expect("a module");
        assert_eq!((module.path.as_str(), module.lacking.as_str()), (program.to_str().expect("a path"), ""));
    }
    // Another file has the name by the time the process is gone.
    let mut spaces = listening(TEST).expect("as before");
    let again = c(dir.path(), "goes", PROGRAM, &[]).expect("gcc is there");
    let running = Running::start(&mut Command::new(&again));
    let (registers, copy) = running.stack(1 << 16);
    drop(running);
    std::fs::remove_file(&again).expect("delete it");
    std::fs::write(&again, "another file").expect("write it");
    spaces.update();
    let stack = spaces.walk(u64::MAX, u32::MAX, registers, &copy);
    assert_eq!(stack.frames.len(), 1);
    assert_eq!(spaces.modules.get(stack.frames[0].0).map(|m| m.kind), Some(Kind::Nothing));
    let pid = spaces.process_of(again.to_str().expect("a path")).expect("its process was told");
    let stack = spaces.walk(u64::MAX, pid, registers, &copy);
    let module = spaces.modules.get(stack.frames[0].0).expect("a module");
    assert!(module.file.is_none() && module.lacking.contains("replaced"), "{module:?}");
}

#[test]
fn short_processes_are_known_after_their_end_and_forgotten_later() {
    const TEST: &str = "short_processes_are_known_after_their_end_and_forgotten_later";
    let Some(mut spaces) = listening(TEST) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = c(dir.path(), "short", PROGRAM, &[]) else {
        println!("SKIP {TEST}: no gcc");
        return;
    };
    // arm64 is emulated where it is tried: it does not start 200 before the first is forgotten.
    let most = if cfg!(target_arch = "aarch64") { 20 } else { 200 };
    let pids: Vec<u32> = (0..most)
        .map(|_| {
            let mut child =
                Command::new(&program).arg("end").stdout(Stdio::null()).spawn().expect("start it");
            child.wait().expect("it ends");
            child.id()
        })
        .collect();
    spaces.update();
    for pid in &pids {
        let path = spaces.executable(*pid, usize::MAX);
        assert_eq!(path, program.to_str(), "{pid}");
    }
    assert!(spaces.forget_after(0) >= pids.len());
    assert!(pids.iter().all(|pid| spaces.executable(*pid, usize::MAX).is_none()));
    assert!(spaces.lacking().is_empty(), "{:?}", spaces.lacking());
}

#[test]
#[ignore = "measures: prints the cost of a record, and what it keeps"]
fn burst() {
    let Some(mut spaces) = listening("burst") else { return };
    let from = std::time::Instant::now();
    let mut inside = std::time::Duration::ZERO;
    let mut processes = 0u32;
    while from.elapsed().as_secs() < 5 {
        for _ in 0..50 {
            let _ = Command::new("/bin/true").status();
            processes += 1;
        }
        let update = std::time::Instant::now();
        spaces.update();
        inside += update.elapsed();
    }
    println!(
        "{processes} processes in {:?}: updates {inside:?}, lacking {:?}",
        from.elapsed(),
        spaces.lacking()
    );
}
