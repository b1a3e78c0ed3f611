// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan with every key: what is known, written and told of them is the same.

use super::super::file::{
    Chart, ChartKind, DeviceSpec, Factor, FileSystem, HostSpec, Level, OneOrMore, Order, PlanFile, Protocol,
    Server, Settings, Skip, Value,
};
use super::super::{cells, keys};
use crate::program::testing::TestProgram;
use std::collections::BTreeMap;

/// A plan in which every key is written. No `..`: a new key must be added here, and so to all that is tested with it.
fn full() -> PlanFile {
    let settings = Settings {
        host: Some("h".into()),
        record_hosts: Some(OneOrMore::One("i".into())),
        device: Some(OneOrMore::More(vec!["d".into(), "e".into()])),
        file_system: Some(FileSystem {
            kind: "ext4".into(),
            mkfs: vec!["-q".into()],
            mount: "noatime".into(),
        }),
        server: Some(Server {
            kind: Some(plumb_load::database::Dialect::Mariadb),
            settings: BTreeMap::from([("innodb_flush_method".into(), Value::Text("fsync".into()))]),
            user: Some("mysql".into()),
        }),
        memory: Some(plumb_load::job::Bytes(1 << 28)),
        cpus: Some(1),
        queue: BTreeMap::from([("scheduler".into(), Value::Text("none".into()))]),
        sysctl: BTreeMap::from([("vm.dirty_ratio".into(), Value::Whole(10))]),
        write: BTreeMap::from([("/proc/sys/vm/swappiness".into(), Value::Whole(1))]),
        prepare: Some(vec!["touch".into(), "{dir}/\"x\"\n".into()]),
        neighbour: Some(vec!["dd".into(), "if={device}".into()]),
        remount: Some(true),
        preset: Some("syncwrite".into()),
        load: BTreeMap::from([
            ("zipf".into(), Value::Real(0.5)),
            ("direct".into(), Value::Flag(true)),
            ("stamp".into(), Value::Flag(false)),
            ("x".into(), Value::Several(vec!["a".into(), "b".into()])),
        ]),
        command: Some(vec!["fio".into()]),
        copies: Some(2),
        record: Some(Vec::new()),
    };
    let level = |name: &str| Level { name: name.into(), price: Some(1.5), settings: settings.clone() };
    let device = DeviceSpec {
        model: Some("instant".into()),
        set: vec!["a=b".into()],
        size: Some(plumb_load::job::Bytes(1 << 30)),
        seed: 7,
        path: Some("/dev/x".into()),
        directory: Some("/home".into()),
        host: Some("i".into()),
        protocol: Some(Protocol::Nvme),
    };
    let host = HostSpec {
        reach: vec!["ssh".into(), "x".into()],
        guest: Some("6.12".into()),
        memory: Some(plumb_load::job::Bytes(1 << 29)),
        virtual_time: true,
        delay: Some(plumb_load::job::Time(1_000_000)),
        kernel_options: "mitigations=off".into(),
    };
    PlanFile {
        name: "full".into(),
        title: "t".into(),
        purpose: "p".into(),
        hypothesis: "h".into(),
        source: Some("s".into()),
        takes: plumb_load::job::Time(1_500_000_000),
        repeat: 3,
        order: Order::Blocked,
        blocks: vec!["f".into()],
        seed: 5,
        budget: Some(plumb_load::job::Time(7)),
        limit: plumb_load::job::Time(60_000_000_000),
        figures: vec!["write.mean".into()],
        devices: BTreeMap::from([("d".into(), device.clone()), ("e".into(), device)]),
        hosts: BTreeMap::from([("h".into(), host.clone()), ("i".into(), host)]),
        cell: settings.clone(),
        factors: vec![Factor { name: "f".into(), levels: vec![level("a"), level("b, c")] }],
        skips: vec![Skip {
            when: BTreeMap::from([("f".into(), OneOrMore::One("a".into()))]),
            why: "w".into(),
        }],
        charts: vec![Chart {
            name: "c".into(),
            title: "t".into(),
            kind: ChartKind::Lines,
            figure: "write.mean".into(),
            x: Some("a:elapsed".into()),
            over: Some("f".into()),
            by: Some("f".into()),
            lines: vec![1.5, 2.0],
            log: true,
        }],
    }
}

/// Keys of a table in the full plan, as serde writes them.
fn written(value: &serde_json::Value) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().expect("a table").keys().cloned().collect();
    keys.sort();
    keys
}

/// Every table of the full plan, and the keys that are known of it.
fn tables() -> Vec<(serde_json::Value, Vec<&'static str>)> {
    let plan = serde_json::to_value(full()).expect("JSON");
    let at = |path: &str| plan.pointer(path).expect(path).clone();
    vec![
        (plan.clone(), keys::PLAN.to_vec()),
        (at("/device/d"), keys::DEVICE.to_vec()),
        (at("/host/h"), keys::HOST.to_vec()),
        (at("/cell"), keys::SETTINGS.to_vec()),
        (at("/cell/file-system"), keys::FILE_SYSTEM.to_vec()),
        (at("/cell/server"), keys::SERVER.to_vec()),
        (at("/factor/0"), keys::FACTOR.to_vec()),
        (at("/factor/0/level/0"), [keys::LEVEL, keys::SETTINGS].concat()),
        (at("/skip/0"), keys::SKIP.to_vec()),
        (at("/chart/0"), keys::CHART.to_vec()),
    ]
}

#[test]
fn the_keys_that_are_known_are_those_of_the_types() {
    for (table, known) in tables() {
        let mut known: Vec<String> = known.into_iter().map(String::from).collect();
        known.sort();
        assert_eq!(written(&table), known);
    }
}

fn manual() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md");
    std::fs::read_to_string(path).expect("docs/plan.md")
}

#[test]
fn the_manuals_example_is_a_plan() {
    let manual = manual();
    let (_, from) = manual.split_once("\n## A plan\n").expect("its chapter");
    let lines = from.lines().skip_while(|l| l.is_empty());
    let lines = lines.take_while(|l| l.is_empty() || l.starts_with("    "));
    let text: String = lines.map(|l| format!("{}\n", l.trim_start())).collect();
    let plan = PlanFile::parse(&text).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
    assert_eq!(cells::of(&plan, &TestProgram).unwrap_or_else(|e| panic!("{e:#}\n{text}")).len(), 4);
}

#[test]
fn the_manual_has_every_key() {
    let manual = manual();
    for (table, _) in tables() {
        for key in written(&table) {
            assert!(manual.contains(&format!("\n| `{key}` |")), "docs/plan.md has no row for {key}");
        }
    }
    for figure in super::FIGURES {
        assert!(manual.contains(&format!("`{figure}`")), "docs/plan.md lacks the figure {figure}");
    }
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = full();
    let text = plan.text().expect("TOML");
    assert_eq!(PlanFile::parse(&text).unwrap_or_else(|e| panic!("{e:#}\n{text}")), plan, "{text}");
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<PlanFile>(&json).expect("a plan"), plan);
}

#[test]
fn a_level_in_json_refuses_unknown_keys_too() {
    let said =
        serde_json::from_str::<Level>("{\"name\": \"a\", \"moutn\": 1}").expect_err("unknown").to_string();
    assert!(said.contains("level a") && said.contains("moutn"), "{said}");
}
