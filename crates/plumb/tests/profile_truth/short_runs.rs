// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thousand processes a second, each gone after a third of a millisecond.

use super::common::scratch::text;
use super::programs::Place;
use super::seen::thrice;
use super::seen::{flat, run, unnamed, words, RATE};
use super::served::alone;

/// CPU time of each in `the_work`, ns.
const EACH: f64 = 300_000.0;
/// What the loop adds to it at most: one more turn and the clock.
const MORE: f64 = 30_000.0;

/// Runs `what`, which says how many children it had; their work has its name and its time.
fn short(test: &str, what: &str) {
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let (program, dir) = (place.c("trouble", &[]), place.path("run"));
    let own = program.display().to_string();
    let mut more = vec![what, "1000", "3"];
    if what == "shell" {
        more.push(&own);
    }
    let _alone = alone();
    thrice(test, || {
        let out = run(&dir, &["--sample", RATE], &words(&program, &more));
        let said = text(&out.stdout);
        assert!(out.status.success(), "{}: {}", out.status, text(&out.stderr));
        let children = said.lines().find_map(|l| l.strip_prefix("children ")).expect("children");
        let children: f64 = children.trim().parse().expect("a number");
        let flat = flat(&dir, &["--on-cpu"]);
        let seen = flat.total(|n| n == "the_work") * flat.time();
        let (least, most) = (children * EACH, children * (EACH + MORE));
        // Samples are fewer than children: three errors of their number.
        let chance = 3.0 * (seen * 1e-9 * RATE.parse::<f64>().expect("a rate")).sqrt().recip();
        let user = |r: &&super::seen::Row| !r.module.contains("kernel") && unnamed(r);
        let unnamed: f64 = flat.rows().iter().filter(user).map(|r| r.own).sum();
        println!(
            "{test}: {children} children, the_work {:.1} ms, known {:.1} to {:.1} ms ({:.1} % by chance), \
             {:.2} % of the time without a name",
            seen / 1e6,
            least / 1e6,
            most / 1e6,
            chance * 100.0,
            unnamed * 100.0
        );
        let mut wrong = Vec::new();
        if seen < least * (1.0 - chance) || seen > most * (1.0 + chance) {
            wrong.push(format!("the_work has {seen:.0} ns of {children} children, {least:.0} to {most:.0}"));
        }
        if unnamed > 0.05 {
            wrong.push(format!("{:.1} % of the time has no name", unnamed * 100.0));
        }
        if unnamed > 0.001 && flat.notes().is_empty() {
            wrong.push("nothing is said of what has no name".into());
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("{}\n{}", wrong.join("\n"), flat.shown()))
    });
}

#[test]
fn forked() {
    short("forked", "short");
}

#[test]
fn executed() {
    short("executed", "shell");
}
