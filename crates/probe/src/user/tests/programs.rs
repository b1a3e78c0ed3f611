// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chains of calls that are known, in several languages and kinds of frames.

use super::stopped::{c, compile, stack_of, threads, Running};
use super::symbols::{has, names};
use crate::user::{End, Spaces, UserStack};
use std::process::Command;

/// Functions that call one after the other; nothing is inlined, no frame pointer is kept.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>
#include <pthread.h>
#include <dlfcn.h>
#define F __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("" ::: "memory")
static volatile long sink;
static F void here(void) { if (write(1, "x", 1) != 1) _exit(1); KEEP; }
static F void spin(void) { here(); for (;;) sink++; }
static F void sleeps(void) { here(); for (;;) pause(); KEEP; }
"#;
const CHAIN: &str = r#"
static F long three(long n) { char b[40]; memset(b, n, sizeof b); __asm__ volatile("" :: "r"(b) : "memory"); LEAF(); KEEP; return b[3]; }
static F long two(long n) { long x = three(n + 1); KEEP; return x + n; }
static F long one(long n) { long x = two(n * 3) + two(n); KEEP; return x; }
"#;
const LINE: [&str; 4] = ["three", "two", "one", "main"];

fn source(leaf: &str, rest: &str) -> String {
    format!("{HEAD}\n#define LEAF {leaf}\n{CHAIN}\n{rest}")
}

fn walked(spaces: &mut Spaces, pid: u32, tid: u32, bytes: usize) -> (UserStack, Vec<String>) {
    let (registers, copy) = stack_of(pid, tid, bytes);
    let stack = spaces.walk(u64::MAX, pid, registers, &copy);
    let names = names(&spaces.modules, &stack);
    (stack, names)
}

macro_rules! needs {
    ($made:expr, $test:literal, $what:literal) => {
        match $made {
            Some(made) => made,
            None => {
                println!("SKIP {}: no {}", $test, $what);
                return;
            }
        }
    };
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_chain_without_frame_pointers() {
    let dir = dir();
    for (leaf, options) in [
        ("spin", &[][..]),
        ("sleeps", &[]),
        ("spin", &["-static"]),
        ("spin", &["-no-pie"]),
        ("spin", &["-Wl,--no-eh-frame-hdr"]),
    ] {
        let text = source(leaf, "int main(void) { sink = one(1); return 0; }");
        let program = needs!(c(dir.path(), "chain", &text, options), "a_chain_without_frame_pointers", "gcc");
        let running = Running::start(&mut Command::new(program));
        let mut spaces = Spaces::of_proc();
        let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 16);
        let chain: Vec<&str> = std::iter::once(leaf).chain(LINE).collect();
        assert!(has(&names, &chain), "{options:?} {names:?}");
        assert_eq!(stack.end, End::Root, "{options:?} {names:?}");
        assert_eq!(names.last().map(String::as_str), Some("_start"), "{options:?} {names:?}");
    }
}

#[test]
fn a_copy_that_is_too_short_says_so() {
    let dir = dir();
    let text = source(
        "deep",
        "int main(void) { sink = one(1); return 0; }",
    )
    .replace("static F long three", "static F void deep(void) { char b[60000]; memset(b, 1, sizeof b); __asm__ volatile(\"\" :: \"r\"(b) : \"memory\"); spin(); KEEP; }\nstatic F long three");
    let program = needs!(c(dir.path(), "deep", &text, &[]), "a_copy_that_is_too_short_says_so", "gcc");
    let running = Running::start(&mut Command::new(program));
    let mut spaces = Spaces::of_proc();
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 16 << 10);
    // Where a frame ends that is beyond the copy: arm64 has its caller at the low end of it, x86-64 at the high one.
    let known: &[&str] =
        if cfg!(target_arch = "aarch64") { &["spin", "deep", "three"] } else { &["spin", "deep"] };
    assert_eq!(names, known);
    assert_eq!(stack.end, End::Copy);
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 0);
    assert_eq!((stack.end, names), (End::Registers, vec!["spin".to_owned()]));
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 17);
    assert!(has(&names, &["spin", "deep", "three", "two", "one", "main"]), "{names:?}");
    assert_eq!(stack.end, End::Root);
}

#[test]
fn a_library_that_is_loaded_later_calls_back() {
    let dir = dir();
    let library = "void (*back)(void); __attribute__((noinline)) void inner(void) { char b[200]; __asm__ volatile(\"\" :: \"r\"(b) : \"memory\"); back(); __asm__ volatile(\"\"); }
        void outer(void (*f)(void)) { back = f; inner(); __asm__ volatile(\"\"); }";
    let made = c(dir.path(), "libback.so", library, &["-shared", "-fPIC"]);
    let library = needs!(made, "a_library_that_is_loaded_later_calls_back", "gcc");
    let text = source(
        "load",
        "int main(int n, char **v) { path = v[1]; sink = one(1); return n; }",
    )
    .replace("static F long three", "static const char *path; static F void load(void) { void *l = dlopen(path, RTLD_NOW); void (*f)(void (*)(void)) = dlsym(l, \"outer\"); f(spin); KEEP; }\nstatic F long three");
    let program = c(dir.path(), "loads", &text, &["-ldl"]).expect("gcc is there");
    let running = Running::start(Command::new(program).arg(library));
    let mut spaces = Spaces::of_proc();
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 16);
    assert!(has(&names, &["spin", "inner", "outer", "load", "three", "two", "one", "main"]), "{names:?}");
    assert_eq!(stack.end, End::Root);
}

#[test]
fn a_thread_has_its_own_root() {
    let dir = dir();
    let text = source(
        "sleeps",
        "static void *body(void *p) { sink = one((long)p); return p; }
        int main(void) { pthread_t t; pthread_create(&t, 0, body, (void *)1); pthread_join(t, 0); return 0; }",
    );
    let program = needs!(c(dir.path(), "thread", &text, &["-pthread"]), "a_thread_has_its_own_root", "gcc");
    let running = Running::start(&mut Command::new(program));
    let tid = threads(running.pid())[0];
    let mut spaces = Spaces::of_proc();
    let (stack, names) = walked(&mut spaces, running.pid(), tid, 1 << 16);
    assert!(has(&names, &["sleeps", "three", "two", "one", "body"]), "{names:?}");
    assert_eq!(stack.end, End::Root, "{names:?}");
    assert_eq!(names.iter().filter(|n| *n == "main").count(), 0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signal_s_handler_shows_what_it_interrupted() {
    let dir = dir();
    let text = source(
        "faulty",
        "static void handler(int s) { sink = s; spin(); KEEP; }
        int main(int n, char **v) { struct sigaction a = { .sa_handler = handler, .sa_flags = n > 1 ? SA_ONSTACK : 0 };
          stack_t s = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 }; sigaltstack(&s, 0);
          sigaction(SIGSEGV, &a, 0); sink = one(1); return v == 0; }",
    )
    .replace("static F long three", "static F void faulty(void) { __asm__ volatile(\"movl $1, 0\"); KEEP; }\nstatic F long three");
    let program =
        needs!(c(dir.path(), "signal", &text, &[]), "a_signal_s_handler_shows_what_it_interrupted", "gcc");
    let running = Running::start(&mut Command::new(&program));
    let mut spaces = Spaces::of_proc();
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 16);
    // `faulty` begins with the instruction that fails: one byte less lies in another function.
    let trampoline = names.iter().position(|n| n == "handler").expect("the handler") + 1;
    assert!(has(&names[trampoline + 1..], &["faulty", "three", "two", "one", "main"]), "{names:?}");
    assert_eq!(stack.end, End::Root);
    // On a stack of its own: what was interrupted is known, what called it was not copied.
    let running = Running::start(Command::new(&program).arg("alone"));
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 14);
    assert_eq!(names[..2], ["spin", "handler"], "{names:?}");
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[3], "faulty");
    assert_ne!(stack.end, End::Root);
}

#[test]
fn a_rust_program() {
    let dir = dir();
    let text = r#"
        use std::io::Write;
        #[inline(never)] fn leaf(v: &mut Vec<u64>) -> u64 { std::io::stdout().write_all(b"x").unwrap(); std::io::stdout().flush().unwrap();
          loop { v[0] = std::hint::black_box(v[0] + 1); if v[0] == u64::MAX { return 1 } } }
        #[inline(never)] fn middle(n: u64) -> u64 { let mut v = vec![0; 40 + n as usize]; leaf(&mut v) + v[3] }
        fn main() { let t = std::thread::spawn(|| std::hint::black_box(middle(std::hint::black_box(2)) + 1)); println!("{}", t.join().unwrap()); }"#;
    std::fs::write(dir.path().join("r.rs"), text).expect("write the source");
    let program = dir.path().join("r");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2021", "-O", "-o"]).arg(&program).arg(dir.path().join("r.rs"));
    let made = compile(&mut rustc).then_some(program);
    let running = Running::start(&mut Command::new(needs!(made, "a_rust_program", "rustc")));
    let tid = threads(running.pid())[0];
    let (stack, names) = walked(&mut Spaces::of_proc(), running.pid(), tid, 1 << 16);
    assert_eq!(names[..2], ["r::leaf", "r::middle"], "{names:?}");
    assert!(names.iter().any(|n| n.contains("__rust_begin_short_backtrace")), "{names:?}");
    assert_eq!(stack.end, End::Root, "{names:?}");
}

#[test]
fn a_go_program_by_debug_frame_and_by_frame_pointers() {
    let dir = dir();
    let text = r#"package main
        CGO
        import "os"
        //go:noinline
        func leaf(n int) int { os.Stdout.Write([]byte("x")); s := n + ONE; for { s = s*3 + n; if s == 77 && n == 78 { return s } } }
        //go:noinline
        func two(n int) int { var b [300]int; b[n] = leaf(n); return b[n/2] + b[n] }
        //go:noinline
        func one(n int) int { return two(n) + two(n+1) }
        func main() { c := make(chan int); go func() { c <- one(3) }(); println(<-c) }"#;
    // With a part in C the program has .eh_frame too, but not of Go's functions.
    let c = "/*\nstatic int plus(int n) { return n + 1; }\n*/\nimport \"C\"";
    for (flags, part) in [("", ""), ("-s -w", ""), ("", c)] {
        std::fs::write(
            dir.path().join("g.go"),
            text.replace("CGO", part).replace("ONE", if part.is_empty() { "1" } else { "int(C.plus(3))" }),
        )
        .expect("write the source");
        let program = dir.path().join("g");
        let mut go = Command::new("go");
        go.args(["build", "-ldflags", flags, "-o"]).arg(&program).arg(dir.path().join("g.go"));
        go.env("GO111MODULE", "off").env("CGO_ENABLED", if part.is_empty() { "0" } else { "1" });
        let made = compile(&mut go).then_some(program);
        let program = needs!(made, "a_go_program_by_debug_frame_and_by_frame_pointers", "go");
        // The goroutine runs on any thread; without preemption it stays there.
        let running = Running::start(Command::new(program).env("GODEBUG", "asyncpreemptoff=1"));
        let mut spaces = Spaces::of_proc();
        let mut all = vec![running.pid()];
        all.extend(threads(running.pid()));
        let mut seen = Vec::new();
        for tid in all {
            let (stack, names) = walked(&mut spaces, running.pid(), tid, 1 << 16);
            seen.push((stack, names));
        }
        if flags.is_empty() {
            let chain = ["main.leaf", "main.two", "main.one", "main.main.func1", "runtime.goexit.abi0"];
            let spinning =
                seen.iter().find(|(_, names)| has(names, &chain)).unwrap_or_else(|| panic!("{seen:?}"));
            assert_eq!(spinning.0.end, End::Root, "{:?}", spinning.1);
            assert_eq!(spinning.0.frames.len(), 5);
        } else {
            // No symbols, no tables: the frames' number tells.
            assert!(seen.iter().any(|(s, _)| s.frames.len() == 5 && s.end == End::Root), "{seen:?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_a_process_made_itself_is_walked_by_frame_pointers() {
    let dir = dir();
    let text = source(
        "made",
        "int main(void) { sink = one(1); return 0; }",
    )
    .replace("static F long three", "#include <sys/mman.h>
        static F void made(void) { unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
        void *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(p, code, sizeof code); ((void (*)(void (*)(void)))p)(spin); KEEP; }\nstatic F long three");
    let program = c(dir.path(), "made", &text, &[]);
    let program = needs!(program, "code_that_a_process_made_itself_is_walked_by_frame_pointers", "gcc");
    let running = Running::start(&mut Command::new(program));
    let mut spaces = Spaces::of_proc();
    let (stack, names) = walked(&mut spaces, running.pid(), running.pid(), 1 << 16);
    assert!(has(&names, &["spin", "[jit]", "made", "three", "two", "one", "main"]), "{names:?}");
    assert_eq!(stack.end, End::Root);
    let (number, address) = stack.frames[1];
    let module = spaces.modules.get(number).expect("a module");
    assert_eq!((module.pid, address % 4096, module.file.is_none()), (running.pid(), 6, true));
    // Its perf map is found when there is one at last.
    let map = format!("/tmp/perf-{}.map", running.pid());
    std::fs::write(&map, format!("{:x} 8 made_code\n", address - 6)).expect("write its perf map");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    walked(&mut spaces, running.pid(), running.pid(), 1 << 16);
    std::fs::remove_file(&map).expect("remove it");
    let module = spaces.modules.get(number).expect("a module");
    assert!(module.file.is_some() && module.path == map && module.lacking.is_empty(), "{module:?}");
}

#[test]
fn gdb_says_the_same() {
    let dir = dir();
    let text = source(
        "qsorts",
        "int main(void) { sink = one(1); return 0; }",
    )
    .replace("static F long three", "static int order(const void *a, const void *b) { spin(); return a < b; }
        static F void qsorts(void) { long v[9] __attribute__((aligned(64))) = { 3, 1, 2 }; qsort(v, 9, sizeof *v, order); KEEP; }\nstatic F long three");
    let program = needs!(c(dir.path(), "sorts", &text, &[]), "gdb_says_the_same", "gcc");
    let running = Running::start(&mut Command::new(program));
    let (stack, _) = walked(&mut Spaces::of_proc(), running.pid(), running.pid(), 1 << 16);
    let (registers, copy) = running.stack(1 << 16);
    let pid = running.pid().to_string();
    let gdb = Command::new("gdb")
        .args(["-nx", "-p", &pid, "-batch", "-ex", "set backtrace past-main on", "-ex", "bt"])
        .output();
    let Ok(gdb) = gdb else {
        println!("SKIP gdb_says_the_same: no gdb");
        return;
    };
    let text = String::from_utf8_lossy(&gdb.stdout).into_owned();
    let address = |l: &str| u64::from_str_radix(l.split_whitespace().nth(1)?.strip_prefix("0x")?, 16).ok();
    // The innermost spins on: its address is another one each time.
    let theirs: Vec<u64> = text.lines().filter(|l| l.starts_with('#')).skip(1).filter_map(address).collect();
    let mut spaces = Spaces::of_proc();
    let ours = spaces.walk(u64::MAX, running.pid(), registers, &copy);
    let ours = spaces.addresses(running.pid(), &ours);
    assert_eq!(ours[1..], theirs[..], "{text}");
    assert!(stack.frames.len() > 7, "{text}");
}

#[test]
#[ignore = "measures: prints ns a walk and bytes a process"]
fn speed() {
    let dir = dir();
    for depth in [10, 30, 60, 120] {
        let text = format!(
            "{HEAD}\nstatic F long down(long n) {{ char b[72]; memset(b, n, sizeof b); __asm__ volatile(\"\" :: \"r\"(b) : \"memory\"); if (n == 0) spin(); long x = down(n - 1); KEEP; return x + b[1]; }}
            int main(void) {{ sink = down({}); return 0; }}",
            depth - 6
        );
        let program = needs!(c(dir.path(), "down", &text, &[]), "speed", "gcc");
        let running = Running::start(&mut Command::new(program));
        let (registers, copy) = running.stack(1 << 16);
        let mut spaces = Spaces::of_proc();
        let cold = std::time::Instant::now();
        let frames = spaces.walk(u64::MAX, running.pid(), registers, &copy).frames.len();
        let cold = cold.elapsed();
        let warm = std::time::Instant::now();
        const TIMES: u32 = 20_000;
        for _ in 0..TIMES {
            std::hint::black_box(spaces.walk(u64::MAX, running.pid(), registers, &copy));
        }
        println!("{frames} frames: {:?} a walk, the first {cold:?}", warm.elapsed() / TIMES);
    }
}
