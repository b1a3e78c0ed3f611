// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that spend 70, 20 and 10 % of their time in three functions, in six languages.

use super::programs::{forget_map, python, pythons, source, truth, Place};
use super::seen::thrice;
use super::seen::{called, differs, error, flat, sampled, words, Flat};
use super::served::alone;
use std::ffi::OsStr;
use std::path::Path;

/// Points that a share may differ.
const POINTS: f64 = 2.0;
const SECONDS: &str = "3";
/// What the three have of all time, at least, beside the work of a runtime for itself.
const NAMED: f64 = 0.7;

const WORDS: [&str; 3] = ["heavy", "medium", "light"];

/// Runs `command SECONDS TRUTH` and compares; `also` looks at the same profile for more.
fn spends(test: &str, place: &Place, command: &[&OsStr], also: impl Fn(&Flat) -> Vec<Option<String>>) {
    spends_of(test, place, command, false, also);
}

/// The same; with `runtime` the three functions' shares of what they have together, because the
/// program's runtime works for itself where no clock of the program sees it.
fn spends_of(
    test: &str,
    place: &Place,
    command: &[&OsStr],
    runtime: bool,
    also: impl Fn(&Flat) -> Vec<Option<String>>,
) {
    let _alone = alone();
    let (dir, told) = (place.path("run"), place.path("truth"));
    thrice(test, || {
        sampled(&dir, &[command, &[OsStr::new(SECONDS), told.as_os_str()]].concat());
        let (flat, truth) = (flat(&dir, &["--on-cpu"]), truth(&told));
        truth.get("pid").into_iter().for_each(|pid| forget_map(*pid as u32));
        let mut wrong: Vec<String> = also(&flat).into_iter().flatten().collect();
        let share = |word: &str| flat.total(|name| called(name, word));
        let three = || (WORDS.iter().map(|w| share(w)).sum(), WORDS.iter().map(|w| truth[*w]).sum());
        let (seen_of, known_of): (f64, f64) = if runtime { three() } else { (1.0, truth["all"]) };
        if seen_of < NAMED {
            wrong.push(format!("the three functions have {:.1} % of the time", seen_of * 100.0));
        }
        for word in WORDS {
            let (seen, known) = (share(word) / seen_of, truth[word] / known_of);
            let chance = error(known, flat.samples());
            println!(
                "{test}: {word} {:.2} %, known {:.2} % ({chance:.2} by chance)",
                seen * 100.0,
                known * 100.0
            );
            wrong.extend(differs(word, seen, known, POINTS));
        }
        // The whole as well: shares of a part of the time would do for the shares alone.
        let whole = (flat.time() / truth["all"] - 1.0).abs();
        if whole > if runtime { 0.15 } else { 0.05 } {
            wrong.push(format!("{} ns on a CPU, by its own clock {}", flat.time(), truth["all"]));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("{}\n{}", wrong.join("\n"), flat.shown()))
    });
}

/// The stacks end where the program began: `name` is below nearly all of the time.
fn to_the_root(flat: &Flat, name: &str) -> Option<String> {
    let seen = flat.total(|n| n == name);
    (seen < 0.97).then(|| format!("{name} is below {:.2} % of the time only", seen * 100.0))
}

#[test]
fn in_c() {
    let Some(place) = Place::new("in_c", &["gcc"]) else { return };
    let program = place.c("shares", &[]);
    spends("in_c", &place, &words(&program, &[]), |flat| vec![to_the_root(flat, "main")]);
}

#[test]
fn in_cpp_with_a_template_and_an_inlined_function() {
    let test = "in_cpp_with_a_template_and_an_inlined_function";
    let Some(place) = Place::new(test, &["g++"]) else { return };
    let program = place.cc("shares");
    spends(test, &place, &words(&program, &[]), |flat| {
        let template = flat.total(|n| n.contains("known::Worker<unsigned long>::heavy"));
        vec![
            to_the_root(flat, "main"),
            differs("the template's", template, 0.7, POINTS),
            // All of heavy but its clock is inlined.
            differs("churn, inlined", flat.total(|n| called(n, "churn")), 0.7, POINTS),
        ]
    });
}

#[test]
fn inlined_functions_are_folded_when_asked() {
    let test = "inlined_functions_are_folded_when_asked";
    let Some(place) = Place::new(test, &["g++"]) else { return };
    let (program, dir, told) = (place.cc("shares"), place.path("run"), place.path("truth"));
    let _alone = alone();
    sampled(&dir, &[program.as_os_str(), OsStr::new("1"), told.as_os_str()]);
    let [with, without] = [&["--on-cpu"][..], &["--on-cpu", "--no-inline"]].map(|o| flat(&dir, o));
    let own = |flat: &Flat, word| -> f64 {
        flat.rows().iter().filter(|r| called(&r.name, word)).map(|r| r.own).sum()
    };
    assert!(own(&with, "churn") > 0.6 && own(&with, "heavy") < 0.1, "{}", with.shown());
    assert!(own(&without, "churn") == 0.0 && own(&without, "heavy") > 0.6, "{}", without.shown());
    let sums = own(&with, "churn") + own(&with, "heavy") - own(&without, "heavy");
    assert!(sums.abs() < 1e-3, "folding keeps the time: {sums}");
}

#[test]
fn in_rust() {
    let Some(place) = Place::new("in_rust", &["rustc"]) else { return };
    let program = place.rust("shares");
    spends("in_rust", &place, &words(&program, &[]), |flat| vec![to_the_root(flat, "shares::main")]);
}

#[test]
fn in_go() {
    let Some(place) = Place::new("in_go", &["go"]) else { return };
    let program = place.go("shares");
    spends("in_go", &place, &words(&program, &[]), |flat| vec![to_the_root(flat, "main.main")]);
}

#[test]
fn in_python() {
    let Some(place) = Place::new("in_python", &[]) else { return };
    let Some(python) = python() else {
        println!("SKIP in_python: no Python from 3.12 on that has -X perf, in PATH or ~/.pyenv/versions");
        return;
    };
    let script = source("shares.py");
    let script = script.to_str().expect("UTF-8");
    spends("in_python", &place, &words(&python, &["-X", "perf", script]), |_| Vec::new());
}

/// In each Python that is installed.
fn in_pythons(test: &str, script: &str) {
    let Some(place) = Place::new(test, &[]) else { return };
    let pythons = pythons();
    if pythons.is_empty() {
        println!("SKIP {test}: no Python from 3.8 to 3.13, in PATH or ~/.pyenv/versions");
    }
    let script = source(script);
    let script = script.to_str().expect("UTF-8");
    for (minor, python) in pythons {
        // The first stacks of a process have no functions of Python.
        spends_of(&format!("{test}, 3.{minor}"), &place, &words(&python, &[script]), true, |_| Vec::new());
    }
}

#[test]
fn in_python_without_a_map() {
    in_pythons("in_python_without_a_map", "shares.py");
}

#[test]
fn in_python_whose_code_comes_and_goes() {
    in_pythons("in_python_whose_code_comes_and_goes", "reused.py");
}

#[test]
fn in_java() {
    let Some(place) = Place::new("in_java", &["java", "javac"]) else { return };
    place.java("Shares");
    let class = place.path("");
    let options = [
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-XX:+PreserveFramePointer",
        "-cp",
        class.to_str().expect("UTF-8"),
        "Shares",
    ];
    // It compiles before, and writes its map after the program's clock is read.
    spends_of("in_java", &place, &words(Path::new("java"), &options), true, |_| Vec::new());
}

#[test]
fn java_without_its_map_says_what_to_do() {
    let test = "java_without_its_map_says_what_to_do";
    let Some(place) = Place::new(test, &["java", "javac"]) else { return };
    place.java("Shares");
    let (dir, told, class) = (place.path("run"), place.path("truth"), place.path(""));
    let _alone = alone();
    let command = [OsStr::new("java"), OsStr::new("-cp"), class.as_os_str(), OsStr::new("Shares")];
    sampled(&dir, &[&command[..], &[OsStr::new("1"), told.as_os_str()]].concat());
    let flat = flat(&dir, &["--on-cpu"]);
    assert!(flat.total(|n| called(n, "heavy")) < 0.01, "{}", flat.shown());
    assert!(flat.notes().contains("DumpPerfMapAtExit"), "{}", flat.notes());
}
