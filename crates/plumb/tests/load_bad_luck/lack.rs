// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel does not give this process: a system call, a file's length,
//! scratch for the log or the result.

use crate::common::scratch::{job, kind, number, reason, refuses, result, Running, Scratch};
use crate::common::{can, must};
use crate::fail::{failure, sums_hold};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs with a limit on the length of files (RLIMIT_FSIZE).
fn limited(scratch: &Scratch, args: &[&str], limit: u64, ignore: bool) -> std::process::Output {
    let mut command = scratch.command(args);
    // SAFETY: setrlimit and signal may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if ignore {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            }
            Ok(())
        })
    };
    Running::of(command).end()
}

#[test]
fn a_write_that_moves_less_is_short_and_no_error() {
    let scratch = Scratch::new();
    let args = ["--layout", "append", "--size", "256K", "--block", "64K", "--json", "--quiet"];
    // Whole, whole, a half, and none.
    let (code, all) = result(&limited(&scratch, &args, 160 << 10, true));
    let write = kind(job(&all), "write");
    let told = ["count", "errors", "short", "bytes"].map(|f| number(write, f));
    assert_eq!((code, told), (3, [4, 1, 1, 160 << 10]), "{write:#}");
    sums_hold(write, 64 << 10);
    assert!(failure(job(&all)).contains("File too large"), "{}", failure(job(&all)));
    assert_eq!(reason(&all, "short-transfers"), Some("suspect"));
    // The signal that comes with it, too, is named; a worker that is gone is no result.
    let died = limited(&scratch, &args, 160 << 10, false);
    refuses(&died, &["worker process", &format!("signal {}", libc::SIGXFSZ)]);
    assert_eq!(std::fs::read_dir(scratch.path()).expect("the scratch").count(), 0);
}

/// `struct sock_filter`s that answer these system calls with an error, and let all others be.
fn forbidding(calls: &[i64], errno: i32) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let (answer, allow) = (libc::SECCOMP_RET_ERRNO | errno as u32, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        program.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        program.push(statement(libc::BPF_RET | libc::BPF_K, answer, 0, 0));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, allow, 0, 0));
    program
}

/// Runs on a kernel that lacks these system calls, as far as the program can see.
fn without(scratch: &Scratch, calls: &[i64], errno: i32, args: &[&str]) -> std::process::Output {
    let mut command = scratch.command(args);
    let filters = forbidding(calls, errno);
    // SAFETY: prctl may be called between fork and exec; the program lives until then.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_ptr().cast_mut() };
            let filter = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, filter, &program as *const libc::sock_fprog, 0, 0) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    };
    Running::of(command).end()
}

#[test]
fn an_engine_that_this_kernel_lacks() {
    let scratch = Scratch::new();
    for (engine, call, errno) in [
        ("io-uring", libc::SYS_io_uring_setup, libc::ENOSYS),
        ("io-uring", libc::SYS_io_uring_setup, libc::EPERM),
        ("io-uring-fixed", libc::SYS_io_uring_register, libc::ENOSYS),
        ("io-uring-sqpoll", libc::SYS_io_uring_setup, libc::EPERM),
        ("libaio", libc::SYS_io_setup, libc::ENOSYS),
    ] {
        let out = without(&scratch, &[call], errno, &["--size", "64K", "--through", engine, "--log", "log"]);
        let why = std::io::Error::from_raw_os_error(errno).to_string();
        let why = why.split(" (os").next().unwrap_or_default();
        refuses(&out, &[if engine == "libaio" { "io_setup" } else { "io_uring" }, why]);
        assert_eq!(
            std::fs::read_dir(scratch.path()).expect("the scratch").count(),
            0,
            "{engine}: left something"
        );
    }
    let listed = without(&scratch, &[libc::SYS_io_uring_setup], libc::EPERM, &["engines", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let is_there = |name: &str| {
        let engine = listed["engines"].as_array().expect("engines").iter().find(|e| e["engine"] == name);
        engine.unwrap_or_else(|| panic!("no {name}"))["available"].as_bool().expect("yes or no")
    };
    assert!(!is_there("io-uring") && is_there("pwrite"), "{listed:#}");
    // Calls that come to fail while it runs are errors of operations.
    let out = without(
        &scratch,
        &[libc::SYS_fdatasync],
        libc::EIO,
        &["--size", "64K", "--sync", "fdatasync", "--json", "-q"],
    );
    let (code, all) = result(&out);
    let (write, sync) = (kind(job(&all), "write"), kind(job(&all), "sync"));
    assert_eq!((code, number(write, "errors"), number(sync, "errors")), (3, 0, 16), "{all:#}");
}

#[test]
fn no_room_for_the_log_or_the_result() {
    if !can("no_room_for_the_log_or_the_result", &["mount"]) {
        return;
    }
    let scratch = Scratch::new();
    let small = scratch.path().join("small");
    std::fs::create_dir(&small).expect("a mount point");
    must(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&small));
    let null = ["--what", "read", "--through", "null", "--operations", "300000", "--size", "1M"];
    let out = scratch.load(&[&null[..], &["--log", "small/log"]].concat());
    refuses(&out, &["small/log", "No space left on device"]);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = scratch.command(&["--size", "64K", "--json", "--quiet"]);
    let out = command.stdout(full).output().expect("started");
    refuses(&out, &["No space left on device"]);
    let names: Vec<_> =
        std::fs::read_dir(scratch.path()).expect("the scratch").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["small"]);
}
