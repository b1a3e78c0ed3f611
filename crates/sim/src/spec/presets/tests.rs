// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::device::testing::{any_load, same_twice};
use crate::device::{Operation, Request};
use crate::spec::Medium;

fn set(name: &str, edits: &[&str]) -> Result<Spec, String> {
    let edits: Vec<String> = edits.iter().map(|edit| edit.to_string()).collect();
    Spec::load(name, &edits).map_err(|e| e.0)
}

#[test]
fn every_preset_is_read_written_and_built() {
    assert_eq!(all().len(), PRESETS.len());
    for (name, text) in PRESETS {
        let spec: Spec = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(spec.name, *name);
        assert!(spec.about.len() > 20 && !spec.source.is_empty(), "{name}");
        let table = Table::try_from(&spec).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(table.try_into::<Spec>().as_ref(), Ok(&spec), "{name} comes back");
        let device = spec.build(1 << 30, 7).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((device.size(), device.under_way(), device.next_event()), (1 << 30, 0, None), "{name}");
        assert_eq!(named(name).as_ref(), Ok(&spec));
    }
}

/// Mean rate of `depth` requests of `block` bytes under way, sequential or random, after `count` of them.
fn rate(name: &str, operation: Operation, block: u32, random: bool, depth: usize, count: u64) -> f64 {
    let size = 1 << 30;
    let mut device = named(name).and_then(|spec| spec.build(size, 3)).expect("a preset");
    let mut place = plumb_stats::random::SplitMix64::new(9);
    let (mut sent, mut ended, mut now, mut half) = (0, Vec::new(), 0, None);
    while (ended.len() as u64) < count {
        while sent < count && device.under_way() < depth {
            let blocks = size / u64::from(block);
            let nth = if random { place.below(blocks) } else { sent % blocks };
            let offset = nth * u64::from(block);
            device.submit(now, Request { id: sent, operation, offset, length: block, fua: false });
            sent += 1;
        }
        now = device.next_event().expect("something is under way");
        device.advance(now, &mut ended);
        if half.is_none() && ended.len() as u64 >= count / 2 {
            half = Some((ended.len() as u64, now));
        }
    }
    // The second half, when caches are full and spare areas used up.
    let (before, at) = half.expect("half of them ended");
    (ended.len() as u64 - before) as f64 * 1e9 / (now - at) as f64
}

#[test]
fn presets_give_their_sources_figures() {
    let within =
        |is: f64, low: f64, high: f64| assert!((low..high).contains(&is), "{is} not in {low}..{high}");
    let (reads, writes) = (Operation::Read, Operation::Write);
    within(rate("nvme", reads, 4096, true, 256, 100_000), 470e3, 495e3);
    within(rate("nvme", reads, 4096, true, 1, 2000), 1e6 / 88.0, 1e6 / 82.0);
    within(rate("nvme", reads, 131_072, false, 32, 20_000) * 131_072e-9, 3.1, 3.21);
    within(rate("nvme", writes, 131_072, false, 32, 4000) * 131_072e-9, 1.0, 1.1);
    within(rate("nvme", writes, 4096, true, 32, 100_000), 36e3, 40e3);
    within(rate("intel330", reads, 4096, true, 32, 30_000), 22e3, 22.6e3);
    within(rate("intel330", reads, 131_072, false, 32, 8000) * 131_072e-6, 480.0, 550.0);
    within(rate("gp3", reads, 4096, true, 32, 9000), 2970.0, 3030.0);
    within(rate("gp2", reads, 4096, true, 32, 9000), 2970.0, 3030.0);
}

#[test]
fn a_key_is_changed_added_or_made() {
    let spec =
        set("intel330", &["medium.write-cache=2M", "medium.channels=4", "medium.fresh=true", "size=1G"]);
    let spec = spec.expect("makes sense");
    let Medium::Ssd(ssd) = &spec.medium else { panic!("{spec:?}") };
    assert_eq!((ssd.write_cache.0, ssd.channels, ssd.fresh, spec.size.0), (2 << 20, 4, true, 1 << 30));
    let spec = set("failing", &["fault.0.factor=3"]).expect("makes sense");
    let table = Table::try_from(&spec).expect("has a table");
    assert_eq!(table["fault"][0]["factor"].as_float(), Some(3.0));
    let edits = ["fault.0.kind=stall", "fault.0.every=10s", "fault.0.for=1s", "fault.1.kind=lying-flush"];
    assert_eq!(set("instant", &edits).map(|spec| spec.faults.len()), Ok(2));
    let spec = set("gp3", &["network.latency=1ms", "network.bandwidth=1000000", "about=two words"]);
    assert!(spec.is_ok_and(|spec| spec.network.is_some() && spec.about == "two words"));
}

#[test]
fn a_typing_error_is_named_with_what_there_is() {
    let cases: [(&str, &[&str], &[&str]); 15] = [
        ("intel331", &[], &["'intel331'", "did you mean intel330?", "gp3", "instant"]),
        ("atlas", &[], &["'atlas'", "did you mean atlas10k4? There are: "]),
        ("zzzzzz", &[], &["no disk model 'zzzzzz'; there are: atlas10k4"]),
        ("none.such.toml", &[], &["none.such.toml: cannot be read"]),
        (
            "nvme",
            &["medium.pagesize=4K"],
            &["--set medium.pagesize=4K: ", "`pagesize`", "`page-size`", "`dies`"],
        ),
        ("nvme", &["medium.dies=2", "medium.read=slow"], &["--set medium.read=slow: ", "'slow'"]),
        ("nvme", &["sise=1G"], &["--set sise=1G: ", "`sise`", "`size`", "`network`"]),
        ("nvme", &["medium.page-size"], &["--set medium.page-size: is not KEY=VALUE"]),
        (
            "hdp72503",
            &["medium.write-cache=maybe"],
            &["--set medium.write-cache=maybe: ", "expected true or false"],
        ),
        (
            "nvme",
            &["medium.kind=tape"],
            &["--set medium.kind=tape: there is no value `tape`", "`hdd`", "`ssd`"],
        ),
        ("nvme", &["sise=1G", "medium.read=slow"], &["--set sise=1G: "]),
        ("stalling", &["fault.2.rate=1"], &["--set fault.2.rate=1: there are 1"]),
        ("stalling", &["fault.0.rat=1"], &["`rat`", "`every`", "`rate`", "`for`", "`until`"]),
        ("instant", &["medium.dies=1"], &["`dies`", "instant"]),
        ("gp2", &["medium.credits-at-start=6000000"], &["gp2: medium.credits-at-start: "]),
    ];
    for (name, edits, words) in cases {
        let why = set(name, edits).expect_err("there is an error");
        assert!(words.iter().all(|word| why.contains(word)), "{name} {edits:?}: {why}");
    }
}

#[test]
fn a_file_is_read_and_its_error_has_its_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.toml");
    let name = path.to_str().expect("a name");
    let text = "name = 'mine'\nabout = 'a'\nsource = 'b'\nsize = '1G'\n[medium]\nkind = 'instant'\n";
    std::fs::write(&path, text).expect("written");
    assert_eq!(set(name, &[]).map(|spec| spec.medium), Ok(Medium::Instant));
    std::fs::write(&path, text.replace("size =", "sise =")).expect("written");
    let why = set(name, &[]).expect_err("no such key");
    assert!(why.starts_with(name) && why.contains("line 4") && why.contains("`size`"), "{why}");
    std::fs::write(&path, "name = \n").expect("written");
    assert!(set(name, &[]).is_err_and(|why| why.contains("line 1")));
}

/// The keys that a table of this text may have, as serde tells them to who gives another one.
fn keys<T: serde::de::DeserializeOwned>(text: &str) -> Vec<String> {
    let table: Table = format!("{text}\nno-such-key = 1").parse().expect("is TOML");
    let why = table.try_into::<T>().map(|_| ()).expect_err("there is no such key").to_string();
    let listed = why.split_once("expected ").expect("the keys are listed").1;
    listed.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn the_manual_has_every_key() {
    use crate::device::{faulty::Fault, network::Network};
    let manual = include_str!("../../../../../docs/disk-models.md");
    let section = |heading: &str| {
        let start = manual.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no '{heading}'"));
        let text = &manual[start + 1 + heading.len()..];
        text.split("\n##").next().unwrap_or_default()
    };
    let has = |text: &str, heading: &str, keys: &[String]| {
        assert!(keys.len() > 2, "{heading}: {keys:?}");
        let missing: Vec<_> = keys.iter().filter(|key| !text.contains(&format!("| `{key}` |"))).collect();
        assert!(missing.is_empty(), "docs/disk-models.md, {heading}: no {missing:?}");
    };
    has(section("## The model"), "the model", &keys::<Spec>(""));
    has(section("## [network]"), "network", &keys::<Network>(""));
    for kind in ["hdd", "ssd", "volume", "channels"] {
        let text = format!("kind = \"{kind}\"");
        has(section(&format!("## [medium] {text}")), kind, &keys::<Medium>(&text));
    }
    let common = section("## [[fault]]");
    let kinds = ["stall", "fail-slow", "error", "torn-write", "dropped-write", "lying-flush", "read-only"];
    for text in kinds.map(|kind| format!("kind = \"{kind}\"")) {
        let own = format!("{common}{}", section(&format!("### {text}")));
        has(&own, &text, &keys::<Fault>(&text));
    }
}

proptest::proptest! {
    #[test]
    fn any_load_ends_on_any_preset(load in any_load(1 << 20), depth in 1..40_usize, seed: u64) {
        for spec in all() {
            same_twice(|| spec.build(1 << 20, seed).expect("makes sense"), &load, depth);
        }
    }
}
