// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each kind of operation: its calls, how they are counted, and what they leave.

use crate::run::{traced, Run};
use crate::strace::Call;
use clap::ValueEnum;
use plumb_load::job::What;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

const CALLS: &str =
    "openat,close,read,write,pread64,pwrite64,fsync,stat,newfstatat,statx,rename,renameat,renameat2,\
                     unlink,unlinkat,copy_file_range";
const DATA: [&str; 2] = ["pread64", "pwrite64"];

/// A run of 16 operations and the calls on its files.
fn run(what: What, more: &[&str]) -> Run {
    let word = what.to_string();
    let run = Run::new(CALLS, &[&["--what", &word, "--size", "64K"], more].concat());
    run.faultless();
    run
}

/// Names and places of the calls on data.
fn places(run: &Run) -> Vec<(&str, i64)> {
    run.on_data(&DATA).into_iter().map(|c| (c.name.as_str(), c.number(3))).collect()
}

fn one_after_the_other(call: &str) -> Vec<(&str, i64)> {
    (0..16).map(|i| (call, i * 4096)).collect()
}

/// Files of a run's directory of names.
fn names(run: &Run) -> Vec<String> {
    let all = std::fs::read_dir(run.file("names")).expect("names");
    let mut names: Vec<_> =
        all.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn all_names(end: &str) -> Vec<String> {
    (0..16).map(|i| format!("{i:010}.{end}")).collect()
}

/// The workers' calls whose argument is a name of the load, and which name.
fn on_names(run: &Run, calls: &[&str]) -> Vec<(Call, Vec<String>)> {
    let inside = |arg: &String| {
        let path = arg.trim_matches('"');
        path.contains("/names/").then(|| path.rsplit('/').next().unwrap_or_default().to_string())
    };
    let found =
        run.workers(calls).into_iter().map(|c| (c.clone(), c.args.iter().filter_map(inside).collect()));
    found.filter(|(_, names): &(Call, Vec<String>)| !names.is_empty()).collect()
}

/// A call a name, in their order.
fn named(run: &Run, calls: &[&str]) -> Vec<Call> {
    let found = on_names(run, calls);
    let names: Vec<&String> = found.iter().map(|(_, names)| &names[0]).collect();
    assert_eq!(names, all_names("txt").iter().collect::<Vec<_>>());
    assert!(found.iter().all(|(c, _)| c.result.is_some_and(|r| r >= 0)), "{found:?}");
    found.into_iter().map(|(c, _)| c).collect()
}

#[test]
fn every_kind_of_operation() {
    if !traced("every_kind_of_operation") {
        return;
    }
    let files = ["--files", "16"];
    for &what in What::value_variants() {
        match what {
            What::Write | What::Rewrite => {
                let run = run(what, &[]);
                assert_eq!(
                    (run.count(&what.to_string()), places(&run)),
                    (16, one_after_the_other("pwrite64"))
                );
            }
            What::Read | What::Reread => {
                let run = run(what, &[]);
                assert_eq!(
                    (run.count(&what.to_string()), places(&run)),
                    (16, one_after_the_other("pread64"))
                );
                assert!(run.opened().iter().all(|c| c.has("O_RDONLY")), "nothing can be written through it");
            }
            What::Mix => {
                let run = run(what, &["--mix", "70", "--operations", "400"]);
                let reads = run.on_data(&["pread64"]).len();
                assert_eq!((run.count("read"), run.count("write")), (reads as u64, 400 - reads as u64));
                // 280 of 400, five times their deviation (sqrt(400 * 0.7 * 0.3) = 9.2).
                assert!(reads.abs_diff(280) < 46, "{reads}");
                for (mix, reads) in [("0", 0), ("100", 16)] {
                    assert_eq!(
                        self::run(what, &["--mix", mix]).on_data(&["pread64"]).len(),
                        reads,
                        "--mix {mix}"
                    );
                }
            }
            What::BackwardsRead => {
                let mut expected = one_after_the_other("pread64");
                expected.reverse();
                assert_eq!(places(&run(what, &[])), expected);
            }
            What::RecordRewrite => assert_eq!(places(&run(what, &[])), [("pwrite64", 0); 16]),
            What::StridedRead => {
                let of_four =
                    [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15].map(|i| ("pread64", i * 4096));
                assert_eq!(places(&run(what, &["--stride", "16K"])), of_four);
            }
            What::Create => {
                let run = run(what, &[&files[..], &["--block", "1000"]].concat());
                for call in named(&run, &["openat"]) {
                    assert!(call.has("O_CREAT") && call.has("O_EXCL"), "{call:?}");
                }
                let written = run.workers(&["write"]);
                let written =
                    written.iter().filter(|c| c.path(0).contains("/names/") && c.result == Some(1000));
                assert_eq!((written.count(), run.count("create")), (16, 16));
                assert_eq!(names(&run), all_names("txt"));
                for name in names(&run) {
                    assert_eq!(std::fs::metadata(run.file("names").join(name)).expect("a file").len(), 1000);
                }
            }
            What::Open => {
                let run = run(what, &files);
                assert!(named(&run, &["openat"]).iter().all(|c| c.has("O_RDONLY")));
                let closed = run.workers(&["close"]);
                assert_eq!(closed.iter().filter(|c| c.path(0).contains("/names/")).count(), 16);
            }
            What::Stat => {
                named(&run(what, &files), &["stat", "newfstatat", "statx"]);
            }
            What::Rename => {
                let run = run(what, &files);
                let found = on_names(&run, &["rename", "renameat", "renameat2"]);
                let pairs: Vec<Vec<String>> = found.into_iter().map(|(_, names)| names).collect();
                let both = |i| vec![format!("{i:010}.txt"), format!("{i:010}.new")];
                assert_eq!(pairs, (0..16).map(both).collect::<Vec<_>>());
                assert_eq!(names(&run), all_names("new"));
            }
            What::Unlink => {
                let run = run(what, &files);
                named(&run, &["unlink", "unlinkat"]);
                assert_eq!((run.count("unlink"), names(&run)), (16, Vec::new()));
            }
            What::FsyncOnly => {
                let run = run(what, &["--sync", "fsync"]);
                assert_eq!((run.on_data(&["fsync"]).len(), run.count("sync")), (16, 16));
                assert_eq!(places(&run), []);
            }
            What::LockAndUpdate => {
                let run = run(what, &["--operations", "1000", "--counters", "7"]);
                assert_eq!((&run.job()["counted"]["counters"], run.count("lock")), (&1000.into(), 1000));
                assert!(!run.file("data.0.0").exists(), "only a record lock needs a file");
            }
            What::Request => {
                let (address, asked) = server();
                let words = ["--to", &address, "--block", "100", "--reply", "300", "--connections", "2"];
                let run = run(what, &[&words[..], &["--per-connection", "4", "--operations", "16"]].concat());
                assert_eq!((run.count("request"), asked.load(Ordering::Relaxed)), (16, 16));
                assert!(!run.file("data.0.0").exists(), "a request needs no file");
                // Sessions of four, two at once: two of them are one burst's worth apart.
                let words = ["--to", &address, "--block", "100", "--reply", "300", "--connections", "9"];
                let bursts = ["--per-connection", "4", "--burst", "2", "--think", "100ms", "--rate", "80"];
                let events = ["--multiplex", "epoll", "--depth", "9", "--time", "400ms"];
                let run = self::run(what, &[&words[..], &bursts, &events].concat());
                // 20 a second for 0.4 s: 8 with a first burst, 6 with a second.
                assert_eq!(run.count("request"), 28);
            }
            What::Serve => {
                // Nobody asks: it waits where it was told to, and ends in time.
                let socket = std::env::temp_dir().join(format!("plumb-serve-{}", std::process::id()));
                let listen = socket.to_str().expect("text");
                let run = run(what, &["--listen", listen, "--time", "300ms"]);
                assert_eq!((run.count("serve"), socket.exists()), (0, false));
            }
            What::Copy => {
                let run = run(what, &["--through", "copy-file-range"]);
                let copied = run.on_data(&["copy_file_range"]);
                assert_eq!(copied.iter().filter(|c| c.result == Some(4096)).count(), 16);
                assert!(copied
                    .iter()
                    .all(|c| c.path(0).ends_with("data.0.0") && c.path(2).ends_with("data-copy.0.0")));
            }
        }
    }
}

/// Answers 100 bytes with 300, and counts; its address.
fn server() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut stream = stream;
                while stream.read_exact(&mut [0; 100]).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                    if stream.write_all(&[0; 300]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, asked)
}
