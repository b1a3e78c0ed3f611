// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack of 150 frames: whole, or said to be cut.

use super::programs::Place;
use super::seen::{flat, sampled, words, Flat};
use super::served::alone;

/// The profile of the program with a frame of so many bytes in the middle, and the part of its time
/// whose stack is said to be cut. All of its time, as the notes are about all.
fn deep(test: &str, bytes: &str) -> Option<(Flat, f64)> {
    let place = Place::new(test, &["gcc"])?;
    let (program, dir) = (place.c("deep", &[]), place.path("run"));
    let _alone = alone();
    sampled(&dir, &words(&program, &[bytes, "2"]));
    let on_cpu = flat(&dir, &["--on-cpu"]);
    // Where the time is spent is known however little of the stack is.
    assert!(on_cpu.total(|n| n == "at_the_bottom") > 0.97, "{}", on_cpu.shown());
    // Each is on the stack 75 times.
    for name in ["go_down", "go_down_too"] {
        let total = on_cpu.total(|n| n == name);
        assert!((0.97..=1.0 + 1e-9).contains(&total), "{name} {total}: {}", on_cpu.shown());
    }
    let all = flat(&dir, &[]);
    let cut = all.notes().lines().find_map(|line| {
        let (share, _) = line.split_once(" % of the time has a stack whose outer frames are missing")?;
        share.parse::<f64>().ok()
    });
    let cut = cut.unwrap_or(0.0) / 100.0;
    let (bottom, main) = (all.total(|n| n == "at_the_bottom"), all.total(|n| n == "main"));
    println!("{test}: {bottom:.3} of the time at the bottom, {main:.3} of it below main, {cut:.3} cut");
    // What is not whole is said to be cut, and the other way round.
    assert!((main + cut - bottom).abs() < 0.03, "main {main}, cut {cut}, all {bottom}: {}", all.shown());
    Some((on_cpu, cut))
}

#[test]
fn of_frames_of_a_hundred_bytes() {
    let Some((flat, _)) = deep("of_frames_of_a_hundred_bytes", "0") else { return };
    assert!(flat.total(|n| n == "main") > 0.97, "{}", flat.shown());
}

#[test]
fn with_40_kib_in_the_middle() {
    deep("with_40_kib_in_the_middle", "40960");
}

#[test]
fn with_a_megabyte_in_the_middle_it_is_cut() {
    let Some((flat, cut)) = deep("with_a_megabyte_in_the_middle_it_is_cut", "1048576") else { return };
    assert!(cut > 0.0 && flat.total(|n| n == "main") < 0.5, "{}", flat.shown());
}
