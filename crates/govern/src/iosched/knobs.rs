// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler's knobs, as its files in sysfs show them, and all words about them. Names, limits and defaults are those of
//! iosched/lp_knobs.c, rows of docs/iosched-knobs.md are made of these words; tests compare.

use anyhow::{bail, Result};
use plumb_trace::suggest::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    pub name: &'static str,
    /// Empty for a plain number.
    pub unit: &'static str,
    /// Least and most, in its unit.
    pub least: u64,
    pub most: u64,
    /// On a rotational disk, and on any other.
    pub defaults: [u64; 2],
    /// What it does.
    pub about: &'static str,
    /// When to change it.
    pub when: &'static str,
}

impl Knob {
    pub fn default(&self, rotational: bool) -> u64 {
        self.defaults[usize::from(!rotational)]
    }
}

/// The knobs of the paper, which come first; the rest is for who has measured.
pub const BASIC: usize = 2;

/// All knobs, those of the paper first.
pub const KNOBS: [Knob; 15] = [
    Knob {
        name: "idle_dispatch_interval",
        unit: "us",
        least: 0,
        most: 60_000_000,
        defaults: [1_500_000, 400],
        about: "least time between two low-priority requests, on an HDD between two batches; 0: no limit",
        when: "raise it to protect foreground I/O more, lower it to give background I/O more",
    },
    Knob {
        name: "batch_mode_delay",
        unit: "us",
        least: 0,
        most: 3_600_000_000,
        defaults: [5_000_000, 5_000_000],
        about: "idle period of foreground I/O after which low-priority requests are not throttled",
        when: "raise it if foreground I/O pauses for seconds and must find the disk free afterwards",
    },
    Knob {
        name: "normal_loss",
        unit: "%",
        least: 0,
        most: 100,
        defaults: [0, 2],
        about: "foreground time that may be lost to low-priority requests: up to 64 x the interval, less low_depth; 0: off",
        when: "set 1 to protect foreground I/O more on a disk with one channel, 0 for a fixed interval",
    },
    Knob {
        name: "low_depth",
        unit: "",
        least: 0,
        most: 65_536,
        defaults: [1, 6],
        about: "low-priority requests in flight at most; 0: any number",
        when: "set what plumb tune iosched finds for the disk's model",
    },
    Knob {
        name: "low_batch_kb",
        unit: "KiB",
        least: 0,
        most: 1_048_576,
        defaults: [5120, 0],
        about: "sequential low-priority requests that are dispatched as one batch; 0: one at a time",
        when: "lower it if foreground reads on an HDD must not wait 80 ms for a batch",
    },
    Knob {
        name: "low_batch_time",
        unit: "us",
        least: 0,
        most: 10_000_000,
        defaults: [60_000, 0],
        about: "longest wait of foreground requests for the rest of a batch; 0: the first one ends the batch",
        when: "set 0 if the longest foreground wait on an HDD matters more than a single background reader",
    },
    Knob {
        name: "low_expire",
        unit: "ms",
        least: 0,
        most: 3_600_000,
        defaults: [10_000, 10_000],
        about: "age at which a low-priority request is dispatched despite foreground requests; 0: never",
        when: "lower it if foreground tasks wait for pages or locks that a background task holds",
    },
    Knob {
        name: "low_slots",
        unit: "%",
        least: 1,
        most: 100,
        defaults: [50, 25],
        about: "scheduler tags that low-priority requests may hold",
        when: "lower it if foreground tasks wait for a request (tag)",
    },
    Knob {
        name: "safe_classes",
        unit: "",
        least: 0,
        most: 1,
        defaults: [1, 1],
        about: "1: background writes that may have waiters (buffered, fsync) are held back less; 0: as much as reads",
        when: "set 0 if no foreground task calls fsync on the background writer's file system",
    },
    Knob {
        name: "awaited_expire",
        unit: "ms",
        least: 0,
        most: 3_600_000,
        defaults: [300, 100],
        about: "age at which a background write with waiters is dispatched despite foreground requests; 0: low_expire",
        when: "lower it if fsync of foreground tasks waits for a background writer",
    },
    Knob {
        name: "in_flight_aware",
        unit: "",
        least: 0,
        most: 1,
        defaults: [1, 1],
        about: "1: low-priority requests also wait until no foreground request is in flight",
        when: "set 0 on flash with many channels if foreground I/O never pauses and starves background I/O",
    },
    Knob {
        name: "read_expire",
        unit: "ms",
        least: 0,
        most: 3_600_000,
        defaults: [500, 500],
        about: "as mq-deadline; on an HDD also how long a low-priority read may be passed by others",
        when: "copy the value that mq-deadline was tuned to",
    },
    Knob {
        name: "write_expire",
        unit: "ms",
        least: 0,
        most: 3_600_000,
        defaults: [5_000, 5_000],
        about: "as mq-deadline; on an HDD also how long a low-priority write may be passed by others",
        when: "copy the value that mq-deadline was tuned to",
    },
    Knob {
        name: "writes_starved",
        unit: "",
        least: 0,
        most: 1_000_000,
        defaults: [2, 2],
        about: "as mq-deadline: read batches that may pass waiting writes",
        when: "copy the value that mq-deadline was tuned to",
    },
    Knob {
        name: "fifo_batch",
        unit: "",
        least: 1,
        most: 1_000_000,
        defaults: [16, 16],
        about: "as mq-deadline: requests of a batch",
        when: "copy the value that mq-deadline was tuned to",
    },
];

/// The knobs with unit and range, a line each; `when` adds when to change one.
fn lines(knobs: &[Knob], when: bool) -> String {
    let line = |k: &Knob| {
        let unit = if k.unit.is_empty() { String::new() } else { format!(" {}", k.unit) };
        let when = if when { format!("\n      {}", k.when) } else { String::new() };
        format!("  {}={}..{}{unit}: {}{when}", k.name, k.least, k.most, k.about)
    };
    knobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The knobs of the paper.
pub fn basic() -> String {
    lines(&KNOBS[..BASIC], false)
}

/// All knobs: those of the paper, then the advanced ones with when to change them.
pub fn all() -> String {
    format!("{}\nAdvanced:\n{}", basic(), lines(&KNOBS[BASIC..], true))
}

/// Reads `low_depth=4`.
///
/// # Errors
/// There is no such knob, or it does not take that; named with what it may be.
pub fn parse(word: &str) -> Result<(&'static Knob, u64)> {
    let Some((name, value)) = word.split_once('=') else {
        bail!("'{word}' is no KNOB=VALUE; the knobs are\n{}", all());
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
        bail!("'{name}' is no knob of {}; they are\n{}", super::SCHEDULER, all());
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
    use std::collections::BTreeMap;

    const SOURCE: &str = include_str!("../../../../iosched/lp_knobs.c");
    const PAGE: &str = include_str!("../../../../docs/iosched-knobs.md");

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

    /// Name: unit of sysfs in ns or 1, least, most, and the defaults, in that unit.
    fn theirs() -> BTreeMap<&'static str, (u64, u64, u64, [u64; 2])> {
        let lines = || SOURCE.lines().map(str::trim);
        let defaults: BTreeMap<&str, [u64; 2]> = lines()
            .filter_map(|l| l.strip_prefix('.')?.strip_suffix(',')?.split_once(" = "))
            .map(|(name, value)| {
                let both = value.strip_prefix("rotational ? ").and_then(|v| v.split_once(" : "));
                let (rotational, other) = both.unwrap_or((value, value));
                (name, [number(rotational), number(other)])
            })
            .collect();
        let knobs = lines().filter_map(|l| l.strip_prefix("KNOB(")?.strip_suffix("),"));
        knobs
            .map(|line| {
                let words: Vec<&str> = line.split(',').map(str::trim).collect();
                let scale = number(words[1]);
                let value = |ns: u64| ns / scale;
                let row =
                    (scale, value(number(words[2])), value(number(words[3])), defaults[words[0]].map(value));
                (words[0], row)
            })
            .collect()
    }

    #[test]
    fn the_table_is_the_schedulers() {
        let ours: BTreeMap<&str, _> = KNOBS
            .iter()
            .map(|k| {
                let scale = match k.unit {
                    "ms" => 1_000_000,
                    "us" => 1000,
                    _ => 1,
                };
                (k.name, (scale, k.least, k.most, k.defaults))
            })
            .collect();
        assert_eq!(ours, theirs());
        assert_eq!(ours.len(), KNOBS.len(), "each once");
        assert_eq!(KNOBS[..BASIC].len(), BASIC);
        assert_eq!([KNOBS[0].name, KNOBS[1].name], ["idle_dispatch_interval", "batch_mode_delay"]);
    }

    /// Each row has the table's words, and names evidence that is there.
    #[test]
    fn the_page_has_the_tables_words_and_evidence() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for knob in KNOBS {
            let [hdd, other] = knob.defaults;
            let defaults = if hdd == other { hdd.to_string() } else { format!("{hdd}; {other}") };
            let unit = if knob.unit.is_empty() { "-" } else { knob.unit };
            let begins =
                format!("| `{}` | {unit} | {defaults} | {} | {} | ", knob.name, knob.about, knob.when);
            let row = PAGE.lines().find_map(|l| l.strip_prefix(&begins));
            let evidence = row.unwrap_or_else(|| panic!("no row begins '{begins}'"));
            let paths: Vec<&str> = evidence.split('`').filter(|w| w.starts_with("results/")).collect();
            assert!(!paths.is_empty(), "{}: {evidence}", knob.name);
            // The file may be in the set's archive: the documentation's own test opens it.
            for set in paths.iter().filter_map(|path| path.split('/').nth(1)) {
                assert!(
                    std::path::Path::new(root).join("results").join(set).is_dir(),
                    "{}: {set}",
                    knob.name
                );
            }
        }
        assert_eq!(PAGE.lines().filter(|l| l.starts_with("| `")).count(), KNOBS.len(), "no other rows");
    }

    #[test]
    fn a_bad_knob_is_answered_with_what_it_may_be() {
        let (knob, value) = parse("low_depth=4").expect("one");
        assert_eq!((knob.name, value), ("low_depth", 4));
        let said = |bad: &str| parse(bad).expect_err(bad).to_string();
        for bad in ["low_depth", "depth_of_all=4"] {
            let said = said(bad);
            assert!(KNOBS.iter().all(|k| said.contains(k.name) && said.contains(k.about)), "{said}");
            assert!(said.contains("batch_mode_delay=0..3600000000 us"), "{said}");
            let advanced = said.find("Advanced:").expect("a heading");
            assert!(said.find(KNOBS[1].name) < Some(advanced) && said.find("low_depth=") > Some(advanced));
        }
        assert!(said("lowdepth=4").ends_with("did you mean low_depth?"), "{}", said("lowdepth=4"));
        for (bad, range) in [
            ("low_depth=-1", "0 to 65536: low-priority requests in flight"),
            ("low_slots=0", "1 to 100 (%): scheduler tags"),
            ("low_slots=101", "1 to 100 (%)"),
            ("fifo_batch=x", "1 to 1000000: as mq-deadline"),
        ] {
            assert!(said(bad).contains(range), "{}", said(bad));
        }
    }
}
