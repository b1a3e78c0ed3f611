// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a plan's repetitions: what the analysis works on.
//!
//! Names of figures: `elapsed` (ns) of the measured command, of a load without the making of its files; of a load KIND.FIGURE with KIND a kind of
//! operation (`write`, `read`, `fsync`) and FIGURE one of rate, bandwidth, mean, p50, p90, p99, p99.9, max,
//! count, errors, with the step's label before it where there are several (`seek:read.rate`); of several copies rates
//! are summed, times are the largest; of a recorded one `time.CATEGORY` (share of the threads' time).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds; less is better.
    Ns,
    /// A second; more is better.
    PerSecond,
    /// Bytes a second; more is better.
    BytesPerSecond,
    Count,
    /// A part of the whole, 0 to 1.
    Share,
}

impl Unit {
    /// Whether more of it is better; `None` where neither is.
    pub fn more_is_better(self) -> Option<bool> {
        match self {
            Unit::Ns => Some(false),
            Unit::PerSecond | Unit::BytesPerSecond => Some(true),
            Unit::Count | Unit::Share => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorNames {
    pub name: String,
    pub levels: Vec<String>,
    /// Its levels are loads of different kinds: of their times none is a change of another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_work: bool,
    /// Numbers of the levels that measure a command or have a database server, instead of a load by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<usize>,
}

/// One repetition of one cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub cell: usize,
    pub label: String,
    /// Level of each factor, by number.
    pub levels: Vec<usize>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Its place in the order in which all ran, from 0.
    pub place: usize,
    pub figures: BTreeMap<String, f64>,
    /// Things that lower its worth, in sentences; "not steady" among them.
    pub doubts: Vec<String>,
    /// The first sentence of the diagnosis, where it was recorded.
    pub verdict: Option<String>,
    /// The diagnosis' kind of limit, where it was recorded: `CPU busy`, `lock contention`.
    pub kind: Option<String>,
    /// Its directory, within the plan's.
    #[serde(default)]
    pub dir: PathBuf,
    /// Where the time went, where it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<Work>,
    /// The critical path of a recorded command: ns by who ran or was waited for, and by category of the account.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path: BTreeMap<String, BTreeMap<String, f64>>,
    /// The time of each step's operations, by the load's own account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TimeOf>,
    /// The time of the spans of each step, or of each key, where it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<TimeOf>,
}

/// Where the time of operations or spans of one name went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeOf {
    pub name: String,
    /// Operations or spans; 0 where nothing is known of them.
    pub count: u64,
    /// Time in ns, by category of the account, or by part of the load's own.
    pub parts: BTreeMap<String, f64>,
}

impl TimeOf {
    pub fn whole(&self) -> f64 {
        self.parts.values().sum()
    }

    pub fn add(&mut self, other: &TimeOf) {
        self.count += other.count;
        for (part, ns) in &other.parts {
            *self.parts.entry(part.clone()).or_default() += ns;
        }
    }
}

/// What processes did, and where their time went: those that did the same kinds of operations, together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Operations by kind, those of the warm-up among them.
    pub operations: BTreeMap<String, u64>,
    /// Time in ns, by system call (empty: outside of calls) and category of the account.
    pub parts: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub factors: Vec<FactorNames>,
    /// Unit of each figure that occurs.
    pub units: BTreeMap<String, Unit>,
    /// The repetitions that were measured.
    pub rows: Vec<Row>,
    /// Cells without one, and why: label and reason. Also single repetitions without figures of
    /// cells that have others, as `LABEL (repetition N)`.
    pub missing: Vec<(String, String)>,
}
