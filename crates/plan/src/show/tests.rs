// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown of a plan and of a run.

use super::super::state::Made;
use super::*;
use crate::program::testing::TestProgram;
use crate::progress::about;

const PLAN: &str = r#"
name = "p"
title = "A title"
purpose = "Whether the words of this purpose, which is a rather long one on purpose, are broken into lines that fit on a terminal."
hypothesis = "They are."
takes = "10m"
repeat = 2
order = "blocked"
blocks = ["fs"]
figures = ["write.mean"]
[device.served]
model = "instant"
size = "64M"
set = ["name=x"]
[device.disk]
path = "/dev/plumb-nowhere"
[cell]
load.what = "write"
sysctl = { "vm.dirty_ratio" = 10 }
[[factor]]
name = "device"
[[factor.level]]
name = "model"
device = "served"
record = []
[[factor.level]]
name = "path"
device = "disk"
queue = { scheduler = "bfq", nr_requests = 32 }
[[factor]]
name = "fs"
[[factor.level]]
name = "ext4"
file-system = { kind = "ext4", mount = "noatime" }
[[factor.level]]
name = "xfs"
file-system = { kind = "xfs" }
write = { "/proc/sys/vm/swappiness" = 1 }
prepare = ["touch", "{dir}/x"]
[[skip]]
when = { device = "model", fs = "xfs" }
why = "because"
"#;

fn parts() -> (PlanFile, Vec<Cell>) {
    let plan = PlanFile::parse(PLAN).expect("a plan");
    let cells = cells::of(&plan, &TestProgram).expect("cells");
    (plan, cells)
}

fn as_text(shown: &Shown<'_>) -> String {
    let mut out = Vec::new();
    write(shown, false, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn text_says_what_is_done_and_fits() {
    let (plan, mut cells) = parts();
    cells[3].skipped = Some("mkfs.xfs is not installed: apt install xfsprogs".into());
    let text = as_text(&shown(&plan, &cells, 4, None));
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    for words in [
        "p: A title",
        "device: model, path",
        "2 of 4 x 2 repetitions = 4 measurements, shuffled within fs (seed 1)",
        "1: because (model xfs)",
        "1: mkfs.xfs is not installed: apt install xfsprogs (path xfs)",
        "about 5 min",
        "served: model instant with name=x, 64.0 MiB, in memory",
        "/dev/plumb-nowhere is formatted (ext4): what it holds is lost",
        "ext4, noatime",
        "nr_requests = 32",
        "scheduler = bfq",
        "vm.dirty_ratio = 10",
        "kernel events of 1 cells",
        "root, up to 64.0 MiB of memory, mkfs.ext4",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "lacks {words}:\n{text}");
    }
    assert!(!text.contains("swappiness") && !text.contains("touch"), "of a cell that is left out:\n{text}");
}

#[test]
fn json_is_read_back() {
    let (plan, cells) = parts();
    let mut out = Vec::new();
    write(&shown(&plan, &cells, 6, None), true, &mut out).expect("memory");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(value["format"], "plumb.plan");
    assert_eq!(value["cells"].as_array().map(Vec::len), Some(4));
    assert_eq!(value["skipped"]["because"][0], "model xfs");
    assert_eq!(value["time"]["takes_ns"], 450_000_000_000_u64);
    assert_eq!(value["effects"]["lost"]["/dev/plumb-nowhere"][1], "xfs");
    assert_eq!(value["effects"]["write"]["/proc/sys/vm/swappiness"][0], "1");
}

#[test]
fn a_run_says_how_far_it_is() {
    let (plan, cells) = parts();
    let made = |cell: usize, repetition: u32, took: u64, end: End| Made {
        cell,
        repetition,
        dir: "x".into(),
        begun: String::new(),
        took_ns: took * 1_000_000_000,
        elapsed_ns: 1,
        end,
        doubts: Vec::new(),
    };
    let state = State {
        plumb: "0".into(),
        arguments: Vec::new(),
        schedule: order::schedule(&plan, &cells),
        made: vec![made(0, 1, 10, End::Measured), made(2, 1, 40, End::Failed("no".into()))],
        plan,
        cells,
        environment: None,
        ended_early: Some("stopped by the user".into()),
    };
    // Left: cell 0 once more, cell 2 once more, cell 3 twice at the mean of all.
    assert_eq!(left(&state), Some((10 + 40 + 2 * 25) * 1_000_000_000));
    let run = progress(&state, "DIR".into());
    let mut shown = shown(&state.plan, &state.cells, state.schedule.len(), Some(run));
    shown.time.left_ns = left(&state).expect("an estimate");
    shown.standing = Some(Standing {
        changed: vec!["/proc/sys/vm/swappiness is 1, was 60".into()],
        running: None,
        back: "plumb plan restore DIR".into(),
    });
    let text = as_text(&shown);
    for words in [
        "DIR: 2 of 6 made, 1 failed",
        "ended early: stopped by the user",
        "about 100 s left; 'plumb plan run DIR' goes on",
        "Pending changes on this system; 'plumb plan restore DIR' puts them back:",
        "changed     /proc/sys/vm/swappiness is 1, was 60",
    ] {
        assert!(text.contains(words), "lacks {words}:\n{text}");
    }
}

#[test]
fn lengths_of_time_are_told_as_people_do() {
    let all = [40, 119, 120, 3600, 7200, 12_000].map(|s| about(s * 1_000_000_000));
    assert_eq!(all, ["40 s", "119 s", "2 min", "60 min", "2 h 0 min", "3 h 20 min"]);
}
