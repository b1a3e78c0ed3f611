// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts: well formed, with what they must show.

use super::*;
use crate::analysis::synthetic::{change, Design};
use crate::file::{PlanFile, Settings};
use crate::state::{Cell, End, Made};
use crate::table::TimeOf;
use plumb_load::job::{Job, Step, Timed};
use plumb_load::log::{Head, LogWriter, Row, DURABLE, WARM_UP};
use plumb_report::palette::Kind;
use plumb_trace::load::OperationKind;

/// Fails where tags do not close in their order, an attribute is not quoted, or an
/// ampersand or a control character stands alone.
fn well_formed(svg: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = svg;
    let mut seen = 0;
    while let Some(at) = rest.find('<') {
        let (text, from) = rest.split_at(at);
        assert!(!text.contains('>'), "a loose >: {text}");
        let end = from.find('>').unwrap_or_else(|| panic!("a tag does not end: {from}"));
        let tag = &from[1..end];
        assert!(!tag.contains('<') && tag.matches('"').count() % 2 == 0, "{tag}");
        let name =
            tag.trim_start_matches('/').split_whitespace().next().expect("a name").trim_end_matches('/');
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in another order");
        } else {
            assert!(!open.is_empty() || seen == 0, "two roots");
            if !tag.ends_with('/') {
                open.push(name.into());
            }
        }
        seen += 1;
        rest = &from[end + 1..];
    }
    assert!(open.is_empty() && seen > 5, "not closed: {open:?}");
    for part in svg.split('&').skip(1) {
        let entity = part.split(';').next().expect("a part");
        assert!(["lt", "gt", "amp", "quot", "apos"].contains(&entity), "&{entity}");
    }
    assert!(svg.chars().all(|c| !c.is_control() || c == '\n'));
    assert!(svg.starts_with("<svg") && svg.contains("role=\"img\"><title>".replace("><", ">\n<").as_str()));
    assert!(svg.contains("<desc>") && !svg.contains("href"), "described, and needs nothing else");
}

pub(super) fn chart(kind: ChartKind, over: Option<&str>, by: Option<&str>) -> Chart {
    let figure = if kind == ChartKind::Operations { "write" } else { "write.mean" };
    Chart {
        name: "chart".into(),
        title: "Title <with> \"marks\" & 'more'".into(),
        kind,
        figure: figure.into(),
        x: None,
        over: over.map(String::from),
        by: by.map(String::from),
        lines: Vec::new(),
        log: false,
    }
}

fn state(charts: Vec<Chart>) -> State {
    let text = "name = 'n'\ntitle = 't'\npurpose = 'p'\nhypothesis = 'h'\ntakes = '1m'\n\
                [device.a]\nmodel = 'atlas10k4'\n[device.dir]\ndirectory = '/tmp'\n[cell]\ndevice = 'a'\n";
    let mut plan: PlanFile = toml::from_str(text).expect("a plan");
    plan.charts = charts;
    State::empty(plan)
}

pub(super) fn drawn(table: &Table, chart: Chart) -> Charts {
    let charts = draw(Path::new("/nonexistent"), &state(vec![chart]), table);
    charts.drawn.iter().for_each(|c| well_formed(&c.svg));
    charts
}

pub(super) fn table() -> Table {
    let mut table = Design::new(&[("size", 3), ("fs", 2), ("disk", 2)], 3)
        .table(|l| 1e6 * (1 + l[0]) as f64 * [1.0, 1.5][l[1]] * [1.0, 8.0][l[2]], 0.05);
    table.factors[0].levels = ["4K", "64K", "1M"].map(String::from).into();
    table.factors[1].levels = vec!["ext4 <&>".into(), "x\u{7}fs".into()];
    table
}

#[test]
fn bars_of_all_cells_or_a_chart_for_each_further_combination() {
    let all = drawn(&table(), chart(ChartKind::Bars, None, None));
    assert_eq!(all.drawn.len(), 1);
    // A bar for each cell, beside the white ground.
    assert_eq!(all.drawn[0].svg.matches("<rect").count(), 13);
    assert!(all.drawn[0].svg.contains("Mean time of a write [ms]"), "{}", all.drawn[0].svg);
    let two = drawn(&table(), chart(ChartKind::Bars, Some("size"), Some("fs")));
    let files: Vec<&str> = two.drawn.iter().map(|c| c.file.as_str()).collect();
    assert_eq!(files, ["chart-disk0.svg", "chart-disk1.svg"]);
    assert!(two.drawn[0].svg.contains("ext4 &lt;&amp;&gt;"), "the legend");
    assert!(two.drawn[0].svg.contains("#0072B2") && two.drawn[0].svg.contains("#D55E00"));
}

#[test]
fn lines_over_numbers_have_one_for_each_level() {
    let got = drawn(&table(), chart(ChartKind::Lines, Some("size"), Some("fs")));
    assert_eq!(got.drawn.len(), 2);
    let svg = &got.drawn[0].svg;
    assert!(svg.contains("64K") && svg.contains("stroke-width=\"2\""), "{svg}");
    assert_eq!(svg.matches("stroke-width=\"2\" points").count(), 2, "{svg}");
    let levels = |l: &[&str]| l.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    assert_eq!(lines::numbers(&levels(&["4K", "1M"])), [4096.0, 1_048_576.0]);
    assert_eq!(lines::numbers(&levels(&["10ms", "1s"])), [1e7, 1e9]);
    assert_eq!(lines::numbers(&levels(&["1", "2.5"])), [1.0, 2.5]);
    assert_eq!(lines::numbers(&levels(&["none", "7"])), [0.0, 1.0]);
}

#[test]
fn what_cannot_be_drawn_is_told() {
    for (asked, why) in [
        (chart(ChartKind::Lines, None, None), "over"),
        (chart(ChartKind::Bars, Some("nothing"), None), "no factor nothing"),
        (Chart { figure: "read.mean".into(), ..chart(ChartKind::Bars, None, None) }, "read.mean"),
        (chart(ChartKind::Operations, None, Some("fs")), "no repetition was measured"),
    ] {
        let got = drawn(&table(), asked);
        assert!(got.drawn.is_empty() && got.notes[0].contains(why), "{why}: {:?}", got.notes);
    }
    let got = draw(Path::new("/nonexistent"), &state(Vec::new()), &table());
    assert_eq!(got.drawn[0].file, "write.mean.svg", "a plan without charts has bars of its main figure");
    let nothing = draw(Path::new("/nonexistent"), &state(Vec::new()), &Table::default());
    assert!(nothing.drawn.is_empty() && nothing.notes.is_empty());
}

#[test]
fn zeros_have_no_place_on_a_logarithm_and_the_rest_is_drawn() {
    let mut table = Design::new(&[("a", 3)], 1).table(|_| 1e6, 0.0);
    change(&mut table, "a1", 1, |_| 0.0);
    let log = |kind, over| Chart { log: true, lines: vec![2e6], ..chart(kind, over, None) };
    for asked in [log(ChartKind::Bars, None), log(ChartKind::Lines, Some("a"))] {
        let got = drawn(&table, asked);
        let svg = &got.drawn[0].svg;
        assert!(svg.contains("1 of 0 have no"), "{svg}");
        assert!(svg.contains("2.00 ms"), "the chart's own line");
    }
    for row in &mut table.rows {
        row.figures.values_mut().for_each(|v| *v = 0.0);
    }
    assert_eq!(drawn(&table, log(ChartKind::Bars, None)).drawn.len(), 1, "all zero: a linear axis");
}

/// A log of a warm-up write and `n` writes, each taking `ns`, with a synchronisation of 1 ms behind it.
fn write_log(dir: &Path, n: u64, ns: u64, time_sync: Timed) {
    std::fs::create_dir_all(dir).expect("a directory");
    // As the engine writes it.
    let step = Step { label: "write".into(), jobs: vec![Job { time_sync, ..Job::default() }] };
    let head = Head { job: serde_json::to_value(step).expect("JSON"), ..Head::default() };
    let mut log = LogWriter::create(&dir.join("log"), &head).expect("a log");
    let mut rows = Vec::new();
    for i in 0..=n {
        let begin = 1_000_000 + i * 50_000_000;
        let flags = if i == 0 { WARM_UP } else { 0 };
        let write =
            Row { kind: OperationKind::Write, flags, intended_ns: begin, begin_ns: begin, ..Row::default() };
        rows.push(Row { end_ns: begin + ns, result: 8192, ..write });
        let sync = Row {
            kind: OperationKind::Sync,
            flags: flags | DURABLE,
            intended_ns: begin + ns,
            ..Row::default()
        };
        rows.push(Row { begin_ns: begin + ns, end_ns: begin + ns + 1_000_000, ..sync });
    }
    log.append(0, &rows).expect("rows");
    log.finish().expect("an end");
}

#[test]
fn a_write_has_its_synchronisation_where_the_load_counts_it_so() {
    let dir = tempfile::tempdir().expect("a directory");
    for (word, timed, want) in [("in", Timed::In, 6e6), ("out", Timed::Out, 5e6)] {
        let own = dir.path().join(word);
        write_log(&own, 3, 5_000_000, timed);
        assert_eq!(operations::latencies(&own.join("log"), "write").expect("a log"), [want; 3]);
        assert_eq!(operations::latencies(&own.join("log"), "sync").expect("a log"), [1e6; 3]);
    }
    assert!(operations::latencies(&dir.path().join("log"), "write").is_err());
}

#[test]
fn operations_have_the_turns_of_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let table = Design::new(&[("a", 2)], 2).table(|_| 1e6, 0.0);
    let mut state = state(vec![chart(ChartKind::Operations, None, Some("a"))]);
    for cell in 0..2 {
        for repetition in [2, 1] {
            let path = format!("cells/{cell}/{repetition}").into();
            // The second repetition takes longer: it must not be shown.
            write_log(&dir.path().join(&path), 40, 10_000_000 * u64::from(repetition), Timed::In);
            state.made.push(Made {
                cell,
                repetition,
                dir: path,
                begun: String::new(),
                took_ns: 0,
                elapsed_ns: 0,
                end: End::Measured,
                doubts: Vec::new(),
            });
        }
        let settings = state.plan.cell.clone();
        let label = format!("a{cell}");
        state.cells.push(Cell { label, levels: vec![cell], settings, skipped: None, dir: "".into() });
    }
    let got = draw(dir.path(), &state, &table);
    assert!(got.notes.is_empty(), "{:?}", got.notes);
    let svg = &got.drawn[0].svg;
    well_formed(svg);
    for words in
        ["1 turn (6.00 ms)", "2 turns (12.0 ms)", "line at 1 turn", "a0: 40 operations, median 11.0 ms"]
    {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    assert!(!svg.contains("3 turns"), "far above the longest");
    assert!(svg.matches("r=\"1\"").count() >= 80, "a point for each operation");
    // What the load was told counts before the model.
    for cell in 0..2 {
        std::fs::write(dir.path().join(format!("cells/{cell}/1/load.json")), "{\"turn_ns\": 5000000}")
            .expect("a file");
    }
    let svg = draw(dir.path(), &state, &table).drawn[0].svg.clone();
    assert!(svg.contains("1 turn (5.00 ms)") && !svg.contains("6.00 ms"), "{svg}");
    // Two disks have no common turn.
    std::fs::write(dir.path().join("cells/0/1/load.json"), "{\"turn_ns\": 4000000}").expect("a file");
    assert!(!draw(dir.path(), &state, &table).drawn[0].svg.contains(" turn"));
    let settings =
        |device: &str| -> Settings { toml::from_str(&format!("device = '{device}'")).expect("settings") };
    assert_eq!(operations::turn(&state.plan, &settings("a")), Some(6e6));
    assert_eq!(operations::turn(&state.plan, &settings("dir")), None, "nothing turns there");
    state.plan.devices.get_mut("a").expect("there").model = Some("cheetah15k".into());
    assert_eq!(operations::turn(&state.plan, &settings("a")), Some(4e6));
}

/// Spans of two steps in each row: Q1 runs 30 ms and waits 10 ms for the device, Q2 waits for its queue and for a lock; the second
/// level of the second factor has no Q2.
fn with_spans() -> Table {
    let mut table = Design::new(&[("db", 2), ("memory", 2)], 2).table(|_| 1e6, 0.0);
    let time = |name: &str, count: u64, parts: &[(&str, f64)]| TimeOf {
        name: name.into(),
        count,
        parts: parts.iter().map(|(part, ns)| (part.to_string(), *ns)).collect(),
    };
    for row in &mut table.rows {
        row.steps = vec![time("Q2", 1, &[("on a CPU", 1e6)]), time("Q1", 1, &[("on a CPU", 1e6)])];
        row.spans = vec![time("Q1", 2, &[("running", 60e6), ("block.device", 20e6)])];
        if row.levels[1] == 0 {
            row.spans.push(time("Q2", 1, &[("block.queue", 5e6), ("lock.user", 5e6)]));
        }
    }
    table
}

#[test]
fn an_account_has_a_bar_of_parts_for_each_step() {
    let asked = |figure: &str, by| Chart { figure: figure.into(), ..chart(ChartKind::Account, None, by) };
    let got = drawn(&with_spans(), asked("spans", None));
    let files: Vec<&str> = got.drawn.iter().map(|c| c.file.as_str()).collect();
    assert_eq!(
        files,
        ["chart-db0-memory0.svg", "chart-db0-memory1.svg", "chart-db1-memory0.svg", "chart-db1-memory1.svg"]
    );
    let svg = &got.drawn[0].svg;
    // In the order of the load's steps, each part of a span's mean.
    let words = "Q2: 10.0 ms: 5.00 ms block device: queue, 5.00 ms locks; \
                 Q1: 40.0 ms: 30.0 ms on a CPU, 10.0 ms block device: service";
    assert!(svg.contains(words), "{svg}");
    for kind in [Kind::User, Kind::Device, Kind::Lock] {
        let [r, g, b] = kind.paint().rgb;
        assert!(svg.contains(&format!("#{r:02X}{g:02X}{b:02X}")), "{kind:?}: {svg}");
    }
    // The ground, two parts in each of two bars, four in the legend.
    assert_eq!(svg.matches("<rect").count(), 9);
    let without = &got.drawn[1].svg;
    assert!(without.contains("Q2: no span was recorded"), "absent is told, not drawn as 0");
    assert_eq!(without.matches("<rect").count(), 5, "{without}");
    let by = drawn(&with_spans(), asked("spans", Some("memory")));
    assert_eq!(by.drawn.len(), 2);
    assert!(by.drawn[0].svg.contains("Q1 memory1: 40.0 ms"), "{}", by.drawn[0].svg);
    assert_eq!(drawn(&with_spans(), asked("steps", None)).drawn.len(), 4);
    let got = drawn(&table(), asked("spans", None));
    assert!(got.drawn.is_empty() && got.notes[0].contains("no repetition has an account"), "{:?}", got.notes);
}

#[test]
fn every_category_and_every_part_of_a_load_has_a_place_in_an_account() {
    for (category, name, _) in plumb_model::CATEGORIES {
        let unknown = ["unexplained", "paused", "lost"].contains(name);
        assert_eq!(account::part(name) == account::part("lost"), unknown, "{category:?}");
    }
    for (part, _) in plumb_load::witness::Attribution::default().parts() {
        let other = account::part(part) == account::part("lost");
        assert_eq!(other, part == "other waits", "{part}");
    }
}
