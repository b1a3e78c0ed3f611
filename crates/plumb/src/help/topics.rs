// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manuals that the program has with it: the files of docs/.

/// A topic of `plumb help`.
pub struct Topic {
    pub name: &'static str,
    pub about: &'static str,
    /// The manual, in Markdown.
    pub text: &'static str,
}

macro_rules! topics {
    ($($name:literal, $about:literal, $file:literal;)*) => {
        /// Every topic, in the order of the list.
        pub const TOPICS: &[Topic] = &[$(Topic {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../../docs/", $file)),
        },)*];
    };
}

topics! {
    "account", "categories that a thread's time is split into, and what each means", "account.md";
    "findings", "what can be found, and what to do next", "findings.md";
    "events", "events that can be recorded, and their fields", "events.md";
    "exit-codes", "what the exit code says", "exit-codes.md";
    "recording", "what to record of whom, and what it costs", "recording.md";
    "live", "what limits this machine's services just now: plumb top", "top.md";
    "watching", "recording a machine all the time: windows, triggers, what is kept", "watch.md";
    "collecting", "recordings of other hosts: invitations, what is sent, what is lost", "collecting.md";
    "hosts", "requests that are followed from host to host, and the clocks of hosts", "hosts.md";
    "spans", "requests, statements and calls: where their time goes", "spans.md";
    "trace-format", "files of a trace, and how others read them", "trace-format.md";
    "views-manual", "views of a trace: items, groups, statistics", "views.md";
    "profiles", "wall-clock profiles: how they are made and read", "profile.md";
    "profile-exports", "formats that a profile can be written in", "profile-exports.md";
    "comparing", "comparing runs and sets of runs, and their error", "compare.md";
    "bisect", "searching the version with which a metric changed", "bisect.md";
    "loads", "the load engine: jobs, presets, checks of validity", "load.md";
    "load-log", "the log of a load's operations", "load-log.md";
    "plans", "files of evaluation plans, what their report says, which machine is enough", "plan.md";
    "guiding", "tuning for a command step by step: method, tunables, undo", "guide.md";
    "disks", "disks that are served, and their power cuts", "disk.md";
    "disk-models", "models of disks, and where their figures come from", "disk-models.md";
    "simulation", "loads in simulated time", "sim.md";
    "what-if", "a recorded run on another machine: disk, CPUs, memory", "what-if.md";
    "report", "the report page and its document", "report.md";
    "json", "JSON for programs: formats, versions, schemas", "json.md";
    "tables", "tables that queries and exports read", "tables.md";
    "lake", "runs of many hosts as tables for other engines, and questions to them", "lake.md";
    "assistants", "runs for assistants: plumb mcp", "mcp.md";
    "exports", "runs in other programs' formats", "exports.md";
    "low-priority", "throttling background I/O: plumb govern, plumb iosched", "govern.md";
    "security", "what plumb trusts, and with which privileges it works", "security.md";
    "limitations", "what plumb cannot see, and where it needs more than a stock kernel", "limitations.md";
    "lp-deadline", "the I/O scheduler: install it, mark background I/O, knobs", "iosched.md";
    "lp-deadline-knobs", "each knob of lp-deadline: default, effect, evidence", "iosched-knobs.md";
}
