// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loops with one slow instruction: it is named.

use super::programs::Place;
use super::seen::{profile, sampled, words};
use super::served::{alone, thrice, Missed};
use serde_json::Value;

/// The rows with their instruction and share, in the order of their addresses.
fn rows(document: &Value) -> Vec<(String, f64)> {
    let rows = document["rows"].as_array().unwrap_or_else(|| panic!("rows: {document:#}"));
    let row = |r: &Value| Some((r["instruction"].as_str()?.to_owned(), r["share"].as_f64()?));
    rows.iter().map(|r| row(r).unwrap_or_else(|| panic!("{r:#}"))).collect()
}

/// `what` is slow; most samples lie at it or right behind, and it is named.
fn slow(test: &str, what: &str, is: fn(&str) -> bool) {
    if cfg!(not(target_arch = "x86_64")) {
        println!("SKIP {test}: the loop is written for x86-64");
        return;
    }
    let Some(place) = Place::new(test, &["gcc"]) else { return };
    let (program, dir) = (place.c("slow", &[]), place.path("run"));
    let _alone = alone();
    thrice(test, || {
        sampled(&dir, &words(&program, &[what, "3"]));
        let document = profile(&dir, &["--annotate", &format!("slow_{what}")]);
        let rows = rows(&document);
        let at = rows.iter().position(|(text, _)| is(text)).unwrap_or_else(|| panic!("none in {rows:#?}"));
        let there: f64 = rows[at..(at + 2).min(rows.len())].iter().map(|r| r.1).sum();
        println!("{test}: {:.1} % at '{}' or right behind", there * 100.0, rows[at].0);
        let named = document["hot"]["culprit"]["instruction"].as_str().unwrap_or_default();
        if there < 0.8 || !is(named) {
            return Err(Missed::Wrong(format!("'{named}' is named; {rows:#?}\n{:#}", document["hot"])));
        }
        Ok(())
    });
}

#[test]
fn a_division() {
    slow("a_division", "divide", |text| text.trim_start().starts_with("div"));
}

#[test]
fn a_load_from_memory() {
    // The only one of the loop that reads memory. Intel's syntax has brackets, AT&T's parentheses.
    let load = |text: &str| {
        let operands = text.trim_start().strip_prefix("mov").unwrap_or_default();
        let source =
            |t: &str| t.trim().rsplit_once(',').map(|(_, s)| s.trim().starts_with('[')).unwrap_or(false);
        operands.contains("(%") && operands.contains("),") || source(operands)
    };
    slow("a_load_from_memory", "chase", load);
}
