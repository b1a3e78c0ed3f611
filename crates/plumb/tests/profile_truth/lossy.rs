// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that are hard to profile: stripped, gone, another one in the middle, in a container.

use super::common::{can, must, output, plumb, stderr};
use super::programs::{strip, Place};
use super::seen::{flat, run, sampled, unnamed, words, Flat, RATE};
use super::served::alone;
use std::ffi::OsStr;
use std::process::Command;

fn works(flat: &Flat, share: f64) {
    let seen = flat.total(|n| n == "the_work");
    assert!(seen > share, "the_work has {seen:.3}: {}", flat.shown());
}

#[test]
fn stripped() {
    let Some(place) = Place::new("stripped", &["gcc", "strip", "nm"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    strip(&program);
    let _alone = alone();
    sampled(&dir, &words(&program, &["spin", "1"]));
    let flat = flat(&dir, &["--on-cpu"]);
    // Nothing near is taken for it: neither a symbol of the dynamic table nor the file's name alone.
    let rows = flat.rows();
    let own: Vec<_> = rows.iter().filter(|r| r.module == "trouble" && r.own > 0.0).collect();
    assert!(own.iter().map(|r| r.own).sum::<f64>() > 0.8, "{}", flat.shown());
    assert!(own.iter().all(|r| unnamed(r)), "{}", flat.shown());
    assert!(flat.notes().contains("stripped"), "{}", flat.notes());
}

#[test]
fn deleted_while_it_runs() {
    let Some(place) = Place::new("deleted_while_it_runs", &["gcc"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    let _alone = alone();
    sampled(&dir, &words(&program, &["delete", "1"]));
    assert!(!program.exists());
    works(&flat(&dir, &["--on-cpu"]), 0.95);
}

#[test]
fn another_program_from_the_middle_on() {
    let test = "another_program_from_the_middle_on";
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let (program, other) = (place.c("trouble", &[]), place.c("shares", &[]));
    let (dir, told) = (place.path("run"), place.path("truth"));
    let [other, told] = [other, told].map(|p| p.display().to_string());
    let _alone = alone();
    sampled(&dir, &words(&program, &["exec", "1", &other, "1", &told]));
    let flat = flat(&dir, &["--on-cpu"]);
    for (name, known) in [("the_work", 0.5), ("heavy", 0.35), ("medium", 0.1)] {
        let seen = flat.total(|n| n == name);
        assert!((seen - known).abs() < 0.05, "{name} {seen:.3}, known {known}: {}", flat.shown());
    }
}

#[test]
fn killed_in_the_middle() {
    let Some(place) = Place::new("killed_in_the_middle", &["gcc"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    let _alone = alone();
    let out = run(&dir, &["--sample", RATE], &words(&program, &["kill", "1"]));
    assert!(!stderr(&out).contains("panicked"), "{}", stderr(&out));
    works(&flat(&dir, &["--on-cpu"]), 0.95);
}

#[test]
fn code_that_it_made_itself_without_a_map() {
    let test = "code_that_it_made_itself_without_a_map";
    if cfg!(not(target_arch = "x86_64")) {
        println!("SKIP {test}: the code is x86-64's");
        return;
    }
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    let _alone = alone();
    sampled(&dir, &words(&program, &["code", "1"]));
    let flat = flat(&dir, &["--on-cpu"]);
    // No symbol of the program is taken for it, and who called it is found by its frame pointer.
    let program = flat.rows().iter().filter(|r| r.module == "trouble").map(|r| r.own).sum::<f64>();
    assert!(program < 0.1, "{}", flat.shown());
    assert!(flat.total(|n| n == "own_code") > 0.9, "{}", flat.shown());
    assert!(flat.notes().contains("/tmp/perf-"), "{}", flat.notes());
}

#[test]
fn without_samples_it_says_how_to_take_them() {
    let test = "without_samples_it_says_how_to_take_them";
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    let out = run(&dir, &["--sample", "0", "--stacks", "0ms"], &words(&program, &["spin", "0.3"]));
    assert!(out.status.success(), "{}", stderr(&out));
    for options in [&[][..], &["--on-cpu"], &["--json"]] {
        let out = output(plumb().arg("profile").arg(&dir).args(options));
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &stderr(&out);
        assert!(said.contains("--sample") && !said.contains("panicked"), "{options:?}: {said}");
    }
}

#[test]
fn who_may_not_record_may_read() {
    let test = "who_may_not_record_may_read";
    let Some(place) = Place::new(test, &["gcc", "setpriv", "chmod"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), tempfile::tempdir().expect("directory"));
    let (run, copy) = (dir.path().join("run"), dir.path().join("plumb"));
    sampled(&run, &words(&program, &["spin", "0.5"]));
    std::fs::copy(env!("CARGO_BIN_EXE_plumb"), &copy).expect("copy");
    must(Command::new("chmod").args(["-R", "a+rX"]).arg(dir.path()));
    let nobody = |args: &[&OsStr]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(args);
        output(command.current_dir("/"))
    };
    let out = nobody(&[OsStr::new("profile"), run.as_os_str(), OsStr::new("--on-cpu")]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("the_work"), "{said}\n{}", stderr(&out));
    let again = dir.path().join("again");
    let words = ["run".as_ref(), "-o".as_ref(), again.as_os_str(), "--".as_ref(), "true".as_ref()];
    let out = nobody(&words);
    let said = stderr(&out);
    assert!(out.status.code() == Some(2) && said.contains("root") && !said.contains("panicked"), "{said}");
}

#[test]
fn in_a_container_that_is_gone() {
    let test = "in_a_container_that_is_gone";
    if !can(test, &["gcc"]) {
        return;
    }
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let inside = place.c("trouble", &["-static"]);
    let (program, dir, root) = (place.c("contained", &[]), place.path("run"), place.path("root"));
    std::fs::create_dir(&root).expect("mount point");
    let [inside, root] = [inside, root].map(|p| p.display().to_string());
    let _alone = alone();
    sampled(&dir, &words(&program, &[&root, &inside, "spin", "1"]));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&root), "its mounts are its own");
    let flat = flat(&dir, &["--on-cpu"]);
    works(&flat, 0.95);
    let module = flat.rows().iter().find(|r| r.name == "the_work").map(|r| r.module.clone());
    assert_eq!(module.as_deref(), Some("inside"), "{}", flat.shown());
}
