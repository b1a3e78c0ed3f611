// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each way into the kernel: its calls in the log's order, and each block's
//! contents in the end.

use crate::run::{traced, Run};
use crate::strace::Call;
use clap::ValueEnum;
use plumb_load::engine::available;
use plumb_load::job::Through;
use plumb_load::log::Row;

const DATA: &str = "read,write,readv,writev,pread64,pwrite64,preadv2,pwritev2,lseek,mmap,munmap,sendfile,\
                    copy_file_range,openat,io_setup,io_submit,io_getevents,io_uring_setup,io_uring_enter,io_uring_register";
const MOVES: [&str; 12] = [
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv2",
    "pwritev2",
    "preadv",
    "pwritev",
    "sendfile",
    "copy_file_range",
];

/// One pass of reads and writes over a stamped file.
fn mixed(through: Through, more: &[&str]) -> Run {
    let (word, mix) = (through.to_string(), ["--what", "mix", "--mix", "50", "--size", "64K", "--stamp"]);
    let run = Run::new(DATA, &[&mix[..], &["--through", &word], more].concat());
    run.faultless();
    let rows = run.rows();
    assert_eq!(rows.len(), 16, "{through}");
    let reads = rows.iter().filter(|r| kind(r) == "read").count();
    assert!((1..16).contains(&reads), "{through}: {reads} reads");
    assert_eq!(run.count("read"), reads as u64);
    assert!(rows.iter().all(|r| r.result == 4096));
    // Every block has the generation of its write; those that were only read have the one of before.
    let mut expected = vec![0; 16];
    for row in rows.iter().filter(|r| through != Through::Null && kind(r) == "write") {
        assert!(row.generation > 0);
        expected[row.offset as usize / 4096] = row.generation;
    }
    assert_eq!(run.generations("data.0.0"), expected, "{through}");
    run
}

fn kind(row: &Row) -> &'static str {
    row.kind.word()
}

/// Each row is one call: that of its kind, at its place where the call has one.
fn a_call_each(run: &Run, read: &str, write: &str, place: Option<usize>) -> Vec<Call> {
    let calls: Vec<Call> = run.on_data(&MOVES).into_iter().cloned().collect();
    let rows = run.rows();
    let told: Vec<_> =
        calls.iter().map(|c| (c.name.as_str(), c.result, place.map(|p| c.number(p) as u64))).collect();
    let name = |r: &Row| if kind(r) == "read" { read } else { write };
    let expected: Vec<_> = rows.iter().map(|r| (name(r), Some(4096), place.map(|_| r.offset))).collect();
    assert_eq!(told, expected);
    calls
}

/// Seeks to a place. Before them the worker asks for the file's length, goes
/// back, and asks where it stands.
fn seeks(run: &Run) -> Vec<i64> {
    let all = run.on_data(&["lseek"]);
    assert_eq!(all[0].args[2], "SEEK_END");
    assert_eq!((all[1].number(1), all[1].args[2].as_str()), (0, "SEEK_SET"));
    all[2..].iter().filter(|c| c.args[2] == "SEEK_SET").map(|c| c.number(1)).collect()
}

/// At the file's position: no seek where the order is the file's, else one before each jump.
fn at_the_position(through: Through, read: &str, write: &str) -> Vec<Call> {
    let run = mixed(through, &["--vector", "3"]);
    let calls = a_call_each(&run, read, write, None);
    assert_eq!(seeks(&run), [0; 0], "{through}");
    let run = mixed(through, &["--order", "backwards", "--vector", "3"]);
    a_call_each(&run, read, write, None);
    let places: Vec<i64> = run.offsets().iter().map(|&o| o as i64).collect();
    assert_eq!(places, (0..16).rev().map(|i| i * 4096).collect::<Vec<_>>());
    assert_eq!(seeks(&run), places, "{through}");
    calls
}

fn pieces(call: &Call) -> Vec<&str> {
    call.args[1]
        .split("iov_len=")
        .skip(1)
        .map(|p| p.trim_end_matches(|c: char| !c.is_ascii_digit()))
        .map(first_number)
        .collect()
}

fn first_number(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default()
}

/// Streams: what was written in the sizes that reach the kernel, and read again in those that leave it.
fn streamed(through: Through) -> Vec<i64> {
    let word = through.to_string();
    let job = ["--size", "40000", "--block", "10000", "--through", &word];
    let run = Run::new(DATA, &job);
    run.faultless();
    assert_eq!(run.count("write"), 4);
    let calls = run.on_data(&MOVES);
    assert!(calls.iter().all(|c| c.name == "write"), "{calls:?}");
    let sizes: Vec<i64> = calls.iter().map(|c| c.result.expect("written")).collect();
    assert_eq!(sizes.iter().sum::<i64>(), 40_000);
    let read = Run::new(DATA, &[&job[..], &["--what", "read"]].concat());
    read.faultless();
    let calls = read.on_data(&MOVES);
    assert!(calls.iter().all(|c| c.name == "read"), "{calls:?}");
    assert_eq!(calls.iter().filter_map(|c| c.result).sum::<i64>(), 40_000);
    sizes
}

fn queued(through: Through, call: &str, more: &[&str]) -> Option<Run> {
    if let Err(e) = available(through) {
        println!("SKIP {call} of {through}: {e}");
        return None;
    }
    Some(mixed(through, &[&["--depth", "4"], more].concat()))
}

/// What the kernel was handed over by io_uring, with the flags that the ring was made with.
fn ring(run: &Run) -> (i64, &Call) {
    assert_eq!(run.on_data(&MOVES), Vec::<&Call>::new());
    let [setup] = run.workers(&["io_uring_setup"])[..] else { panic!("one ring: {:?}", run.calls) };
    assert_eq!(setup.number(0), 4, "entries of the ring");
    let enters = run.workers(&["io_uring_enter"]);
    (enters.iter().filter_map(|c| c.result).sum(), setup)
}

fn copied(through: Through, call: &str, places: &[usize]) {
    let word = through.to_string();
    let run = Run::new(DATA, &["--what", "copy", "--size", "64K", "--through", &word]);
    run.faultless();
    assert_eq!(run.count("copy"), 16);
    // The first, of no bytes, asks whether it can be.
    let calls: Vec<_> = run.on_data(&MOVES).into_iter().filter(|c| c.result != Some(0)).collect();
    assert_eq!(calls.len(), 16);
    for (i, c) in calls.iter().enumerate() {
        assert_eq!((c.name.as_str(), c.result), (call, Some(4096)), "{c:?}");
        for &place in places {
            let at = Some(first_number(c.args[place].trim_start_matches('[')));
            assert_eq!(at, Some((i * 4096).to_string().as_str()), "{c:?}");
        }
    }
    let (from, to) = (std::fs::read(run.file("data.0.0")), std::fs::read(run.file("data-copy.0.0")));
    assert!(from.expect("source") == to.expect("copy"), "{through}: the copy is another");
}

#[test]
fn every_way_into_the_kernel() {
    if !traced("every_way_into_the_kernel") {
        return;
    }
    for &through in Through::value_variants() {
        match through {
            Through::Pwrite => {
                for call in a_call_each(&mixed(through, &[]), "pread64", "pwrite64", Some(3)) {
                    assert_eq!(call.number(2), 4096);
                }
            }
            Through::Write => {
                at_the_position(through, "read", "write");
            }
            Through::Writev => {
                for call in at_the_position(through, "readv", "writev") {
                    assert_eq!(pieces(&call), ["1365", "1365", "1366"], "{call:?}");
                }
            }
            Through::Pwritev2 => {
                let run = mixed(through, &["--vector", "2"]);
                for call in a_call_each(&run, "preadv2", "pwritev2", Some(3)) {
                    assert_eq!((pieces(&call), call.number(4)), (vec!["2048", "2048"], 0), "{call:?}");
                }
            }
            // fwrite hands over whole buffers past the stream's own; putc fills that one character by character.
            Through::Stdio => assert_eq!(streamed(through)[..2], [8192, 4096]),
            Through::Char => {
                let sizes = streamed(through);
                assert_eq!(sizes.len(), 10);
                assert!(sizes[..9].iter().all(|&s| s == 4096), "{sizes:?}");
            }
            Through::Mmap => {
                let run = mixed(through, &[]);
                assert_eq!(run.on_data(&MOVES), Vec::<&Call>::new());
                let [map] = run.on_data(&["mmap"])[..] else { panic!("one mapping") };
                assert_eq!((map.number(1), map.args[3].as_str()), (65536, "MAP_SHARED"), "{map:?}");
                let unmapped = run.workers(&["munmap"]);
                assert!(unmapped.iter().any(|c| c.args[0] == format!("{:#x}", map.result.expect("a place"))));
            }
            Through::PosixAio => {
                let Some(run) = queued(through, "aio_write", &[]) else { continue };
                let calls = run.on_data(&MOVES);
                assert_eq!(calls.len(), 16);
                for call in calls {
                    assert!(["pread64", "pwrite64"].contains(&call.name.as_str()), "{call:?}");
                    assert_ne!(run.threads()[&call.tid], call.tid, "by a thread of the C library");
                }
            }
            Through::Libaio => {
                let Some(run) = queued(through, "io_submit", &["--direct"]) else { continue };
                assert_eq!(run.on_data(&MOVES), Vec::<&Call>::new());
                assert_eq!(run.workers(&["io_setup"])[0].number(0), 4);
                let submitted = run.workers(&["io_submit"]);
                assert_eq!(submitted[0].number(1), 4, "as many at once as --depth says");
                let words = |word: &str| -> Vec<String> {
                    let all = submitted.iter().flat_map(|c| c.args[2].split(word).skip(1));
                    all.map(|w| w.split([',', '}']).next().unwrap_or_default().to_string()).collect()
                };
                let places: Vec<String> = (0..16).map(|i| (i * 4096).to_string()).collect();
                assert_eq!(words("aio_offset="), places);
                assert_eq!(words("aio_nbytes="), vec!["4096"; 16]);
                let written = words("aio_lio_opcode=").iter().filter(|w| *w == "IOCB_CMD_PWRITE").count();
                assert_eq!(written as u64, run.count("write"));
                assert_eq!(run.workers(&["io_getevents"]).iter().filter_map(|c| c.result).sum::<i64>(), 16);
            }
            Through::IoUring => {
                let Some(run) = queued(through, "io_uring_enter", &[]) else { continue };
                let (handed_over, setup) = ring(&run);
                assert_eq!(handed_over, 16);
                assert!(!setup.has("IORING_SETUP_SQPOLL"));
                assert!(run
                    .workers(&["io_uring_register"])
                    .iter()
                    .all(|c| !c.has("IORING_REGISTER_BUFFERS")));
                assert_eq!(
                    run.workers(&["io_uring_enter"])[0].number(1),
                    4,
                    "as many at once as --depth says"
                );
            }
            Through::IoUringFixed => {
                let Some(run) = queued(through, "io_uring_register", &[]) else { continue };
                assert_eq!(ring(&run).0, 16);
                let registered = run.workers(&["io_uring_register"]);
                for (what, how_many) in [("IORING_REGISTER_BUFFERS", 4), ("IORING_REGISTER_FILES", 1)] {
                    let call = registered.iter().find(|c| c.has(what)).unwrap_or_else(|| panic!("{what}"));
                    assert_eq!((call.number(3), call.result), (how_many, Some(0)), "{call:?}");
                }
            }
            Through::IoUringSqpoll => {
                let Some(run) = queued(through, "io_uring_enter", &[]) else { continue };
                assert!(ring(&run).1.has("IORING_SETUP_SQPOLL"));
            }
            Through::Sendfile => copied(through, "sendfile", &[2]),
            Through::CopyFileRange => copied(through, "copy_file_range", &[1, 3]),
            Through::Null => assert_eq!(mixed(through, &[]).on_data(&MOVES), Vec::<&Call>::new()),
        }
    }
}

#[test]
fn blocks_have_their_size_and_direct_goes_past_the_page_cache() {
    if !traced("blocks_have_their_size_and_direct_goes_past_the_page_cache") {
        return;
    }
    let opened = |run: &Run, word: &str| run.opened().iter().all(|c| c.has(word)) && !run.opened().is_empty();
    for block in [512, 65_536] {
        let (block_word, size) = (block.to_string(), (4 * block).to_string());
        let run = Run::new(DATA, &["--block", &block_word, "--size", &size]);
        assert!(opened(&run, "O_RDWR") && !opened(&run, "O_DIRECT"));
        let sizes: Vec<i64> = run.on_data(&["pwrite64"]).iter().map(|c| c.number(2)).collect();
        assert_eq!(sizes, [block; 4]);
        assert_eq!(run.kind("write").map(|k| k["bytes"].as_i64()), Some(Some(4 * block)));
    }
    let run = Run::new(DATA, &["--direct", "--size", "16K", "--what", "read"]);
    run.faultless();
    assert!(opened(&run, "O_DIRECT") && opened(&run, "O_RDONLY"));
    assert_eq!(run.on_data(&["pread64"]).len(), 4);
}
