// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each order's places as the kernel sees them, computed here once more.

use crate::common::must;
use crate::run::{dir, traced, Run};
use clap::ValueEnum;
use plumb_load::job::Order;
use std::process::Command;

/// The order in which the 16 blocks of a file are written.
fn blocks(more: &[&str]) -> Vec<u64> {
    blocks_of("64K", more)
}

/// The order in which the blocks of a file of `size`, of 4 KiB each, are written.
fn blocks_of(size: &str, more: &[&str]) -> Vec<u64> {
    let run = Run::new("pwrite64", &[&["--size", size], more].concat());
    run.faultless();
    let calls = run.on_data(&["pwrite64"]);
    let places: Vec<u64> = calls.iter().map(|c| c.number(3) as u64).collect();
    assert_eq!(places, run.offsets(), "the log tells the same");
    assert!(calls.iter().all(|c| c.number(2) == 4096));
    places.iter().map(|p| p / 4096).collect()
}

fn ordered(order: Order, more: &[&str]) -> Vec<u64> {
    blocks(&[&["--order", &order.to_string()], more].concat())
}

/// How often each of 16 blocks comes, most often first, in 20000 operations that call nothing.
fn frequencies(more: &[&str]) -> Vec<u64> {
    let all = ["--size", "64K", "--through", "null", "--operations", "20000"];
    let run = Run::new("pwrite64", &[&all[..], more].concat());
    let mut counts = vec![0; 16];
    run.offsets().iter().for_each(|o| counts[*o as usize / 4096] += 1);
    counts.sort_unstable();
    counts.reverse();
    counts
}

/// The counts that a law gives, within five times the deviation of each.
fn follow(counts: &[u64], weight: impl Fn(usize) -> f64) {
    let sum: f64 = (0..16).map(&weight).sum();
    let total: u64 = counts.iter().sum();
    assert_eq!(total, 20_000);
    for (i, &count) in counts.iter().enumerate() {
        let share = weight(i) / sum;
        let (mean, deviation) = (share * total as f64, (share * (1.0 - share) * total as f64).sqrt());
        assert!((count as f64 - mean).abs() < 5.0 * deviation, "{i}: {count}, expected {mean}: {counts:?}");
    }
}

/// The same seed gives the same places, another one others.
fn seeded(order: Order) -> Vec<u64> {
    let one = ordered(order, &["--seed", "7"]);
    assert_eq!(ordered(order, &["--seed", "7"]), one, "{order}");
    assert_ne!(ordered(order, &["--seed", "8"]), one, "{order}");
    one
}

#[test]
fn every_order() {
    if !traced("every_order") {
        return;
    }
    for &order in Order::value_variants() {
        match order {
            Order::Sequential => {
                let twice: Vec<u64> = (0..16).chain(0..4).collect();
                assert_eq!(ordered(order, &["--operations", "20"]), twice, "from the beginning again");
            }
            Order::Backwards => assert_eq!(ordered(order, &[]), (0..16).rev().collect::<Vec<_>>()),
            Order::Interleave => {
                let of_five = [0, 5, 10, 15, 1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14];
                assert_eq!(ordered(order, &["--interleave", "20K"]), of_five);
            }
            Order::Strided => {
                let of_eight = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];
                assert_eq!(ordered(order, &["--stride", "32K"]), of_eight);
            }
            Order::Random => {
                let one = seeded(order);
                assert!(one.iter().all(|&b| b < 16));
                follow(&frequencies(&["--order", "random"]), |_| 1.0);
            }
            Order::RandomOnce => {
                let mut one = seeded(order);
                assert_ne!(one, (0..16).collect::<Vec<_>>());
                one.sort_unstable();
                assert_eq!(one, (0..16).collect::<Vec<_>>(), "every block once");
            }
            Order::Zipf => {
                seeded(order);
                for theta in [0.99, 0.5] {
                    let word = theta.to_string();
                    let counts = frequencies(&["--order", "zipf", "--zipf", &word]);
                    follow(&counts, |rank| (rank as f64 + 1.0).powf(-theta));
                }
            }
        }
    }
}

#[test]
fn a_range_is_kept_to() {
    if !traced("a_range_is_kept_to") {
        return;
    }
    let range = ["--offset", "16K", "--range", "32K"];
    assert_eq!(blocks(&range), (4..12).collect::<Vec<_>>());
    assert_eq!(blocks(&["--offset", "40K"]), (10..16).collect::<Vec<_>>(), "to the end");
    for order in ["random", "zipf", "random-once", "backwards"] {
        let all = blocks(&[&range[..], &["--order", order, "--operations", "40"]].concat());
        assert_eq!(all.len(), 40);
        assert!(all.iter().all(|b| (4..12).contains(b)), "{order}: {all:?}");
    }
}

/// The rule by which words become places, written down a second time: of two
/// words the first is the upper half, and the upper 64 bits of the product
/// with the number of blocks are the block (Lemire, without the rare division).
const TWISTER: &str = r#"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
int main(int, char **args) {
    std::mt19937 twister(std::strtoul(args[1], nullptr, 10));
    uint64_t blocks = std::strtoull(args[2], nullptr, 10);
    for (int i = 0; i < std::atoi(args[3]); i++) {
        uint64_t high = twister(), low = twister();
        auto product = static_cast<unsigned __int128>(high << 32 | low) * blocks;
        if (static_cast<uint64_t>(product) < blocks) return 1; // the rare case
        std::printf("%llu\n", static_cast<unsigned long long>(product >> 64));
    }
}
"#;

#[test]
fn random_places_are_those_of_the_cpp_library() {
    let name = "random_places_are_those_of_the_cpp_library";
    if !traced(name) {
        return;
    }
    if Command::new("g++").arg("--version").output().is_err() {
        println!("SKIP {name}: g++ is not installed");
        return;
    }
    let dir = dir();
    let (source, program) = (dir.path().join("twister.cpp"), dir.path().join("twister"));
    std::fs::write(&source, TWISTER).expect("the source");
    must(Command::new("g++").args(["-O1", "-o"]).args([&program, &source]));
    for (seed, size, blocks) in [("123456", "64K", "16"), ("1", "4000K", "1000"), ("4294967295", "28K", "7")]
    {
        let told = must(Command::new(&program).args([seed, blocks, "64"]));
        let expected: Vec<u64> = told.lines().map(|l| l.parse().expect("a number")).collect();
        let written = blocks_of(size, &["--order", "random", "--operations", "64", "--seed", seed]);
        assert_eq!(written, expected, "seed {seed}, {blocks} blocks");
    }
}
