// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debug info that is kept apart.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// A stripped program, its debug info in `prog.debug`, and where its function `hidden` lies.
fn stripped(bench: &Bench, strip: &[&str]) -> (u64, u64) {
    bench.c(&["-g", "-Wl,--build-id"]);
    let hidden = function(&bench.path("prog"), "hidden");
    assert!(bench.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]));
    assert!(bench.run("objcopy", strip));
    hidden
}

fn ask(module: Module, debug: debug::Finder, hidden: (u64, u64)) -> Named {
    let none = Kallsyms::default();
    name_from(&[module], &all_of(&[hidden]), None, &mut Sources { debug, ..sources(&none) })
}

#[test]
fn a_debug_link_is_followed_if_its_checksum_is_right() {
    let bench = Bench::new();
    let hidden = stripped(&bench, &["-S", "--strip-all", "--add-gnu-debuglink=prog.debug", "prog"]);
    let nowhere = || debug::Finder::in_directory(Path::new("/nonexistent"), None);
    let out = ask(bench.module("prog"), nowhere(), hidden);
    assert!(is(&out.functions[0], &[("hidden", "/prog.c:20")]), "{out:#?}");
    assert!(out.symbols[0].source.ends_with("/prog.debug"), "{:?}", out.symbols);
    let mut other = std::fs::read(bench.path("prog.debug")).expect("debug info");
    other.push(0);
    std::fs::write(bench.path("prog.debug"), other).expect("changed");
    let out = ask(bench.module("prog"), nowhere(), hidden);
    assert!(out.functions.is_empty() && out.symbols[0].lacking.contains("stripped"), "{out:#?}");
}

#[test]
fn debug_info_is_found_by_build_id() {
    let bench = Bench::new();
    let hidden = stripped(&bench, &["--strip-all", "prog"]);
    let id = debug::build_id(&bench.path("prog")).expect("linked with one");
    let dir = bench.path(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&dir).expect("directory");
    let place = dir.join(format!("{}.debug", &id[2..]));
    let other = Bench::new();
    other.make(
        "prog.c",
        &C.replace("hidden", "another"),
        "gcc",
        &["-O2", "-g", "-no-pie", "prog.c", "-o", "prog"],
    );
    std::fs::copy(other.path("prog"), &place).expect("copied");
    let found = || ask(bench.module("prog"), debug::Finder::in_directory(bench.dir.path(), None), hidden);
    assert!(found().functions.is_empty(), "another program's is not taken");
    std::fs::copy(bench.path("prog.debug"), &place).expect("copied");
    let out = found();
    assert_eq!((out.symbols[0].named, out.symbols[0].lacking.as_str()), (hidden.1, ""));
    assert!(is(&out.functions[0], &[("hidden", "/prog.c:20")]), "{out:#?}");
    assert_eq!(out.symbols[0].source, place.display().to_string());
}

#[test]
fn debug_info_is_fetched_and_a_failure_is_told() {
    let bench = Bench::new();
    let hidden = stripped(&bench, &["--strip-all", "prog"]);
    let script = |text: &str| {
        let path = bench.path("find");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("runs");
        path
    };
    let fetch = |program: &Path, limit: u64| {
        let limit = Duration::from_millis(limit);
        let fetcher = debug::Fetcher::with(program.into(), limit, limit);
        ask(
            bench.module("prog"),
            debug::Finder::in_directory(Path::new("/nonexistent"), Some(fetcher)),
            hidden,
        )
    };
    let id = debug::build_id(&bench.path("prog")).expect("linked with one");
    let debug = bench.path("prog.debug");
    let out = fetch(
        &script(&format!(
            "[ \"$1 $2\" = 'debuginfod {id}' ] || [ \"$1 $2\" = 'debuginfo {id}' ] && echo {}",
            debug.display()
        )),
        60_000,
    );
    assert!(is(&out.functions[0], &[("hidden", "/prog.c:20")]), "{out:#?}");
    assert_eq!(out.symbols[0].source, debug.display().to_string());
    let lacking = |out: Named| {
        assert!(out.functions.is_empty(), "{out:#?}");
        out.symbols[0].lacking.clone()
    };
    assert!(lacking(fetch(&script("echo /bin/true"), 60_000)).contains("no server has"));
    assert!(lacking(fetch(&script("exit 1"), 60_000)).contains("no server has"));
    assert!(lacking(fetch(&bench.path("missing"), 60_000)).contains("cannot be run"));
    // Named by its symbols all the same: that fetching was asked for and is not possible is told, no more.
    assert!(bench.run("gcc", &["-O2", "-no-pie", "-Wl,--build-id", "prog.c", "-o", "prog"]));
    let whole = |out: Named| {
        assert_eq!(out.symbols[0].named, hidden.1);
        out.symbols[0].lacking.clone()
    };
    assert!(whole(fetch(&bench.path("missing"), 60_000)).contains("cannot be run"));
    assert_eq!(whole(fetch(&script("exit 1"), 60_000)), "");
    assert!(bench.run("strip", &["prog"]));
    let begin = Instant::now();
    assert!(lacking(fetch(&script("exec sleep 60"), 50)).contains("not fetched in time"));
    assert!(begin.elapsed() < Duration::from_secs(30), "it was not waited for");
}
