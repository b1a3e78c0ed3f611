// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All formats. The version rises when a reader of the version before would go wrong: a field goes, or means or holds
//! something else. New fields leave it. `cargo xtask gen` reads this list.

use super::Format;

macro_rules! formats {
    ($($(#[doc = $about:literal])+ $id:ident = $name:literal, version $version:literal $($lines:ident)?;)*) => {
        $($(#[doc = $about])+
        pub const $id: Format = Format {
            name: concat!("plumb.", $name),
            version: $version,
            about: concat!($($about),+),
            lines: formats!(is $($lines)?),
            schema: include_str!(concat!("../../../../schemas/", $name, ".json")),
        };)*

        /// All of them.
        pub const ALL: &[&Format] = &[$(&$id),*];
    };
    (is lines) => { true };
    (is) => { false };
}

formats! {
    /// The search for a commit: `plumb bisect --json`.
    BISECT = "bisect", version 1;
    /// What lp-deadline, its disks or cgroups were changed to: `plumb iosched set`, `install`, `remove`, `plumb govern --restore --json`.
    CHANGES = "changes", version 1;
    /// What recording needs, and what of it is there: `plumb check --json`.
    CHECKS = "checks", version 1;
    /// What happens to the recordings of other hosts, a line each: `plumb collect --json`.
    COLLECT = "collect", version 1 lines;
    /// Files of a lake that were joined: `plumb lake compact --json`.
    COMPACT = "compact", version 1;
    /// Two runs or sets: `plumb compare A B --json`.
    COMPARE = "compare", version 1;
    /// The runs of a lake before and after a change: `plumb compare --lake LAKE A B --json`.
    COMPARE_LAKE = "compare-lake", version 1;
    /// A disk whose times are a model's: `plumb disk serve --json`.
    DISK = "disk", version 1;
    /// What a power cut did to a served disk: `plumb disk cut --json`.
    DISK_CUT = "disk-cut", version 1;
    /// The served disks: `plumb disk list --json`.
    DISKS = "disks", version 1;
    /// A disk's model: `plumb disk show MODEL --json`.
    DISK_MODEL = "disk-model", version 1;
    /// The shipped models of disks: `plumb disk list --models --json`.
    DISK_MODELS = "disk-models", version 1;
    /// A served disk that has power again: `plumb disk power-on --json`.
    DISK_POWER = "disk-power", version 1;
    /// Served disks that were to end: `plumb disk stop --json`.
    DISK_STOP = "disk-stop", version 1;
    /// Machine, target and options of a run: `environment.json` of a run directory.
    ENVIRONMENT = "environment", version 1;
    /// What can be recorded, and its cost: `plumb events --json`.
    EVENTS = "events", version 1;
    /// Account, tables, findings and verdict of a recording: `plumb explain DIR --json`, `plumb run --json`, `result.json` of a run directory.
    EXPLAIN = "explain", version 1;
    /// The same of several hosts' recordings, and the requests between them: `plumb explain SET --json`.
    EXPLAIN_SET = "explain-set", version 1;
    /// What can be found: `plumb findings --json`.
    FINDINGS = "findings", version 1;
    /// What background I/O got and gave: `plumb govern --json`.
    GOVERN = "govern", version 1;
    /// Changes that were tried, and what each brought: `plumb guide --json`.
    GUIDE = "guide", version 1;
    /// The scheduler lp-deadline, its disks and low-priority processes: `plumb iosched status --json`.
    IOSCHED = "iosched", version 1;
    /// A load's result: `plumb load --json`, `load.json` of a run directory.
    LOAD = "load", version 1;
    /// What loads that were killed left behind: `plumb load clean --json`.
    LOAD_CLEAN = "load-clean", version 1;
    /// Interfaces to the kernel that a load can use here: `plumb load engines --json`.
    LOAD_ENGINES = "load-engines", version 1;
    /// A log of operations, a line each: `plumb load log --json`.
    LOAD_LOG = "load-log", version 1 lines;
    /// Whether what was written is there: `plumb load verify --json`.
    LOAD_VERIFY = "load-verify", version 1;
    /// The tables of DBT-3 that were filled: `plumb load dbt3-fill --json`.
    DBT3_FILL = "dbt3-fill", version 1;
    /// The answers to DBT-3's queries: `plumb load dbt3-check --json`.
    DBT3_CHECK = "dbt3-check", version 1;
    /// What a plan does, or how far its run is: `plumb plan show --json`.
    PLAN = "plan", version 2;
    /// Two runs of a plan: `plumb plan compare --json`.
    PLAN_COMPARE = "plan-compare", version 2;
    /// What a plan's run shows: `plumb plan run`, `plumb plan report --json`, `report.json` of a plan's directory.
    PLAN_REPORT = "plan-report", version 2;
    /// The shipped plans: `plumb plan list --json`.
    PLANS = "plans", version 1;
    /// Where a recording's time went, as rows or as a tree: `plumb profile --json`.
    PROFILE = "profile", version 1;
    /// A function's instructions with the time at each: `plumb profile --annotate FUNCTION --json`.
    PROFILE_ANNOTATE = "profile-annotate", version 1;
    /// A whole profile, as tables: `plumb profile --export json`.
    PROFILE_EXPORT = "profile-export", version 2;
    /// What became of runs that were to go into a lake: `plumb publish --json`.
    PUBLISH = "publish", version 1;
    /// Rows of an SQL statement: `plumb query --json`.
    QUERY = "query", version 1;
    /// How a recording went: `plumb record --json`.
    RECORD = "record", version 1;
    /// Everything that a page shows: `plumb report --json`, `report.json` of a run directory.
    REPORT = "report", version 3;
    /// What was put back: `plumb plan restore`, `plumb guide undo --json`.
    RESTORE = "restore", version 1;
    /// How a run was made: `run.json` of a run directory.
    RUN = "run", version 1;
    /// Repetitions of a run, and the result of the median one: `plumb run --repeat N --json`.
    RUN_SET = "run-set", version 1;
    /// How a set of runs was made, and what became of each: `set.json` of its directory.
    SET = "set", version 1;
    /// A simulated load: `plumb sim --json`.
    SIM = "sim", version 1;
    /// The same for several values of a knob: `plumb sim --sweep KNOB=A,B --json`.
    SIM_SWEEP = "sim-sweep", version 1;
    /// Which environment is enough for a database: `plumb size --json`.
    SIZE = "size", version 2;
    /// What limits the services of the machine, a line a window: `plumb top --json`.
    TOP = "top", version 1 lines;
    /// Settings of the machine that plumb guide tries: `plumb guide list --json`.
    TUNABLES = "tunables", version 1;
    /// Settings of lp-deadline for a target: `plumb tune iosched --json`.
    TUNE = "tune", version 1;
    /// Statistics of a view: `plumb view VIEW DIR --json`.
    VIEW = "view", version 1;
    /// Items of a view, a line each: `plumb view VIEW DIR --log --json`.
    VIEW_LOG = "view-log", version 1 lines;
    /// The same of a machine that is watched, each with its time: `windows/DATE.jsonl` of `plumb watch`.
    WATCH = "watch", version 1 lines;
    /// A run on another machine: `plumb whatif --json`.
    WHATIF = "whatif", version 2;
}
