// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same process profiled by perf at the same time: both find the same functions.

use super::common::{must, output, plumb, start, stderr};
use super::programs::Place;
use super::seen::{error, flat, Behind, RATE};
use super::served::{alone, thrice, Missed};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Points that the share of a function may differ.
const POINTS: f64 = 2.0;
const TOP: usize = 20;

/// One name for what symbols and debug information call differently: a compiler's clones, and the C
/// library's copying, whose two functions are one.
fn plain(name: &str) -> String {
    name.split('.').next().unwrap_or(name).replace("memmove", "memcpy")
}

/// Self share by function and the number of samples, of `perf record`.
fn perf_report(data: &Path) -> (BTreeMap<String, f64>, f64) {
    let mut command = Command::new("perf");
    command.args([
        "report",
        "--stdio",
        "--no-children",
        "-g",
        "none",
        "--sort",
        "sym",
        "--show-nr-samples",
        "-t",
        ";",
    ]);
    let text = must(command.arg("-i").arg(data).stderr(Stdio::null()));
    let mut shares = BTreeMap::new();
    let mut samples = 0.0;
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let mut fields = line.split(';').map(str::trim);
        let (share, count, symbol) = (fields.next(), fields.next(), fields.next());
        let share: f64 =
            share.and_then(|s| s.strip_suffix('%')?.parse().ok()).unwrap_or_else(|| panic!("perf: {line}"));
        samples += count.and_then(|c| c.parse::<f64>().ok()).unwrap_or_else(|| panic!("perf: {line}"));
        let symbol = symbol.and_then(|s| s.split_once("] ")).unwrap_or_else(|| panic!("perf: {line}")).1;
        *shares.entry(plain(symbol)).or_default() += share / 100.0;
    }
    (shares, samples)
}

#[test]
fn perf_finds_the_same_functions() {
    let test = "perf_finds_the_same_functions";
    let Some(place) = Place::new(test, &["gcc", "perf"]) else { return };
    let (program, dir, data) = (place.c("busy", &[]), place.path("trace"), place.path("perf.data"));
    let _alone = alone();
    thrice(test, || {
        let busy = Behind::new(Command::new(&program).arg("60"));
        let pid = busy.pid().to_string();
        let _ = std::fs::remove_dir_all(&dir);
        let mut record = plumb();
        record.args(["record", "-q", "--sample", RATE, "-p", &pid, "-o"]).arg(&dir);
        let recording = start(&mut record, &dir);
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-F", RATE, "-g", "-p", &pid, "-o"])
            .arg(&data)
            .args(["--", "sleep", "10"]);
        let out = output(&mut perf);
        assert!(out.status.success(), "perf: {}", stderr(&out));
        super::common::signal(&recording, libc::SIGINT);
        let out = recording.wait_with_output().expect("plumb");
        assert!(out.status.success(), "plumb record: {}\n{}", out.status, stderr(&out));
        drop(busy);

        let flat = flat(&dir, &["--on-cpu", "--pid", &pid]);
        let mut ours: BTreeMap<String, f64> = BTreeMap::new();
        flat.rows().into_iter().for_each(|r| *ours.entry(plain(&r.name)).or_default() += r.own);
        let (theirs, samples) = perf_report(&data);
        let n = samples.min(flat.samples());
        if n < 3000.0 {
            return Err(Missed::Late(format!("perf has {samples} samples, plumb {}", flat.samples())));
        }
        let mut top: Vec<_> = theirs.iter().filter(|(name, _)| !name.starts_with("0x")).collect();
        top.sort_by(|a, b| b.1.total_cmp(a.1));
        assert!(top.len() >= TOP, "perf names {} functions", top.len());
        let mut wrong = Vec::new();
        for (name, theirs) in &top[..TOP] {
            let ours = ours.get(*name).copied().unwrap_or(0.0);
            // The difference of two shares of as many samples.
            let chance = error(**theirs, n) * std::f64::consts::SQRT_2;
            println!(
                "{name}: plumb {:.2} %, perf {:.2} % ({chance:.2} by chance)",
                ours * 100.0,
                *theirs * 100.0
            );
            if (ours - **theirs).abs() * 100.0 > POINTS {
                wrong.push(format!("{name}: plumb {:.2} %, perf {:.2} %", ours * 100.0, *theirs * 100.0));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Missed::Wrong(format!("{}\n{}", wrong.join("\n"), flat.shown())))
    });
}
