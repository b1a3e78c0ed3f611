// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler's knobs, as its files in sysfs show them. The table is that of iosched/lp_knobs.c; a test compares.

use anyhow::{bail, Result};
use plumb_load::suggest::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    pub name: &'static str,
    /// Its unit; empty for a number.
    pub unit: &'static str,
    /// Least and most, in its unit.
    pub least: u64,
    pub most: u64,
    pub about: &'static str,
}

const fn knob(name: &'static str, unit: &'static str, least: u64, most: u64, about: &'static str) -> Knob {
    Knob { name, unit, least, most, about }
}

/// All of them, in the order of the scheduler's table.
pub const KNOBS: [Knob; 15] = [
    knob("read_expire", "ms", 0, 3_600_000, "age at which a normal read goes before others, and by how much older a low one does on a disk that turns"),
    knob("write_expire", "ms", 0, 3_600_000, "the same of writes"),
    knob("writes_starved", "", 0, 1_000_000, "batches of reads that may pass waiting writes"),
    knob("fifo_batch", "", 1, 1_000_000, "requests of a batch"),
    knob("idle_dispatch_interval", "us", 0, 60_000_000, "least time between two low requests; 0: no matter"),
    knob(
        "batch_mode_delay",
        "us",
        0,
        3_600_000_000,
        "how long no normal request must have been there before low ones go freely",
    ),
    knob(
        "awaited_expire",
        "ms",
        0,
        3_600_000,
        "age at which a low write that others may wait for goes beside normal requests; 0: low_expire",
    ),
    knob("low_expire", "ms", 0, 3_600_000, "age at which a low request goes beside normal ones; 0: never"),
    knob("low_depth", "", 0, 65_536, "low requests that the device may have at once; 0: any number"),
    knob(
        "low_batch_kb",
        "KiB",
        0,
        1_048_576,
        "low requests that go together if each begins where the one before it ends; 0: one at a time",
    ),
    knob(
        "low_batch_time",
        "us",
        0,
        10_000_000,
        "how long normal requests wait at most for such a batch that has begun; 0: the next one ends it",
    ),
    knob("low_slots", "%", 1, 100, "part of the queue's slots that low requests may take"),
    knob("in_flight_aware", "", 0, 1, "1: low requests wait until the device has no normal one either"),
    knob("safe_classes", "", 0, 1, "1: only reads and direct writes are low, other writes of low tasks are awaited; 0: they are low"),
    knob(
        "normal_loss",
        "%",
        0,
        100,
        "of its time that normal work may wait for low requests: the interval gets longer for it, the depth less; 0: off",
    ),
];

/// All knobs with unit and range, a line each.
pub fn table() -> String {
    let line = |k: &Knob| {
        let unit = if k.unit.is_empty() { String::new() } else { format!(" {}", k.unit) };
        format!("  {}={}..{}{unit}: {}", k.name, k.least, k.most, k.about)
    };
    KNOBS.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Reads `low_depth=4`.
///
/// # Errors
/// There is no such knob, or it does not take that; named with what it may be.
pub fn parse(word: &str) -> Result<(&'static Knob, u64)> {
    let Some((name, value)) = word.split_once('=') else {
        bail!("'{word}' is no KNOB=VALUE; the knobs are\n{}", table());
    };
    if name == "low_cgroups" {
        bail!(
            "'low_cgroups' is a list of cgroups, not a number; write it by hand: echo PATHS > /sys/block/DISK/queue/iosched/low_cgroups"
        );
    }
    let Some(knob) = KNOBS.iter().find(|k| k.name == name) else {
        if let Some(near) = nearest(name, &KNOBS.map(|k| k.name)) {
            bail!("'{name}' is no knob of {}; did you mean {near}?", super::SCHEDULER);
        }
        bail!("'{name}' is no knob of {}; they are\n{}", super::SCHEDULER, table());
    };
    match value.parse() {
        Ok(value) if (knob.least..=knob.most).contains(&value) => Ok((knob, value)),
        _ => bail!(
            "{name}: '{value}' is no number from {} to {}{}: {}",
            knob.least,
            knob.most,
            if knob.unit.is_empty() { String::new() } else { format!(" ({})", knob.unit) },
            knob.about
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `3600000 * MS` in ns; plain numbers as they are.
    fn number(text: &str) -> u64 {
        text.split('*')
            .map(|p| match p.trim() {
                "MS" => 1_000_000,
                "US" => 1000,
                n => n.parse().expect(text),
            })
            .product()
    }

    #[test]
    fn the_table_is_the_schedulers() {
        let source = include_str!("../../../../iosched/lp_knobs.c");
        let lines = source.lines().filter_map(|l| l.trim().strip_prefix("KNOB(")?.strip_suffix("),"));
        let theirs: Vec<(String, &str, u64, u64)> = lines
            .map(|line| {
                let words: Vec<&str> = line.split(',').map(str::trim).collect();
                let scale = number(words[1]);
                let unit = match words[1] {
                    "MS" => "ms",
                    "US" => "us",
                    _ => "",
                };
                (words[0].to_string(), unit, number(words[2]) / scale, number(words[3]) / scale)
            })
            .collect();
        let ours: Vec<(String, &str, u64, u64)> = KNOBS
            .iter()
            .map(|k| {
                (
                    k.name.to_string(),
                    if ["%", "KiB"].contains(&k.unit) { "" } else { k.unit },
                    k.least,
                    k.most,
                )
            })
            .collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_bad_knob_is_answered_with_what_it_may_be() {
        let (knob, value) = parse("low_depth=4").expect("one");
        assert_eq!((knob.name, value), ("low_depth", 4));
        let said = |bad: &str| parse(bad).expect_err(bad).to_string();
        for bad in ["low_depth", "depth_of_all=4"] {
            let said = said(bad);
            assert!(KNOBS.iter().all(|k| said.contains(k.name)), "{said}");
            assert!(said.contains("batch_mode_delay=0..3600000000 us"), "{said}");
        }
        assert!(said("lowdepth=4").ends_with("did you mean low_depth?"), "{}", said("lowdepth=4"));
        for (bad, range) in [
            ("low_depth=-1", "0 to 65536: low requests that"),
            ("low_slots=0", "1 to 100 (%): part of"),
            ("low_slots=101", "1 to 100 (%)"),
            ("fifo_batch=x", "1 to 1000000: requests of a batch"),
        ] {
            assert!(said(bad).contains(range), "{}", said(bad));
        }
    }
}
