// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack of 150 frames: whole, or said to be cut.

use super::programs::Place;
use super::seen::{flat, sampled, words, Flat};
use super::served::alone;

/// The profile of the program with a frame of so many bytes in the middle.
fn deep(test: &str, bytes: &str) -> Option<Flat> {
    let place = Place::new(test, &["gcc"])?;
    let (program, dir) = (place.c("deep", &[]), place.path("run"));
    let _alone = alone();
    sampled(&dir, &words(&program, &[bytes, "2"]));
    let flat = flat(&dir, &["--on-cpu", "--comm", "deep"]);
    println!("{test}: main {:.4}\n{}", flat.total(|n| n == "main"), flat.notes());
    // Where the time is spent is known however little of the stack is.
    assert!(flat.total(|n| n == "at_the_bottom") > 0.97, "{}", flat.shown());
    // Each is on the stack 75 times.
    for name in ["go_down", "go_down_too"] {
        let total = flat.total(|n| n == name);
        assert!((0.97..=1.0 + 1e-9).contains(&total), "{name} {total}: {}", flat.shown());
    }
    Some(flat)
}

#[test]
fn of_frames_of_a_hundred_bytes() {
    let Some(flat) = deep("of_frames_of_a_hundred_bytes", "0") else { return };
    assert!(flat.total(|n| n == "main") > 0.97, "{}", flat.shown());
}

#[test]
fn with_40_kib_in_the_middle() {
    let Some(flat) = deep("with_40_kib_in_the_middle", "40960") else { return };
    let whole = flat.total(|n| n == "main");
    assert!(whole > 0.97 || flat.notes().contains("cut"), "main {whole}: {}", flat.shown());
}

#[test]
fn with_a_megabyte_in_the_middle_it_is_said_to_be_cut() {
    let test = "with_a_megabyte_in_the_middle_it_is_said_to_be_cut";
    let Some(flat) = deep(test, "1048576") else { return };
    let whole = flat.total(|n| n == "main");
    assert!(whole < 0.5 && flat.notes().contains("cut"), "main {whole}: {}", flat.shown());
}
