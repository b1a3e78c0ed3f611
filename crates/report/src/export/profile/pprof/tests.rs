// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::sample;
use super::*;
use std::process::Command;

fn bytes(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write(profile, &mut out).expect("written");
    out
}

#[test]
fn inlined_functions_share_their_callers_place() {
    let m = message(&sample::small());
    let word = |at: i64| m.string_table[at as usize].as_str();
    let name = |id: u64| word(m.function[id as usize - 1].name);
    let stacks: Vec<Vec<Vec<(&str, i64)>>> = m
        .sample
        .iter()
        .map(|s| {
            let lines = |id: &u64| {
                m.location[*id as usize - 1].line.iter().map(|l| (name(l.function_id), l.line)).collect()
            };
            s.location_id.iter().map(lines).collect()
        })
        .collect();
    assert_eq!(stacks[1], [vec![("fast", 12), ("main", 7)]]);
    assert_eq!(
        stacks[2],
        [vec![("[block.device sda]", 0)], vec![("sys_read", 0)], vec![("read", 0)], vec![("main", 7)]]
    );
    assert_eq!(stacks[3], [vec![("hot", 0)], vec![("[outer frames missing]", 0)]]);
    assert_eq!(word(m.mapping[0].filename), "/usr/bin/app");
    assert_eq!(word(m.mapping[0].build_id), "ab12");
    assert_eq!((m.period, m.duration_nanos), (5_025_126, 60_000));
}

#[test]
fn sums_are_kept_and_bytes_are_the_same() {
    let profile = sample::random(3, 2_000);
    let m = message(&profile);
    assert_eq!(m.sample.iter().map(|s| s.value[1]).sum::<i64>(), profile.time() as i64);
    let counts: u64 = profile.entries.iter().map(|e| e.count).sum();
    assert_eq!(m.sample.iter().map(|s| s.value[0]).sum::<i64>(), counts as i64);
    assert_eq!(bytes(&profile), bytes(&profile.clone()));
}

#[test]
fn go_reads_it() {
    if Command::new("go").arg("version").output().map_or(true, |o| !o.status.success()) {
        println!("SKIP go_reads_it: go is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("profile.pb.gz");
    let pprof = |profile: &Profile, options: &[&str]| {
        std::fs::write(&file, bytes(profile)).expect("file");
        let out = Command::new("go")
            .args([
                "tool",
                "pprof",
                "-symbolize=none",
                "-nodecount=1000000",
                "-nodefraction=0",
                "-edgefraction=0",
            ])
            .args(["-unit=nanoseconds"])
            .args(options)
            .arg(&file)
            .env("PPROF_TMPDIR", dir.path())
            .output()
            .expect("pprof");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    };

    let raw = pprof(&sample::small(), &["-raw"]);
    for line in [
        "PeriodType: cpu nanoseconds",
        "samples/count wall/nanoseconds[dflt]",
        "state:[block.device]",
        "cause:[sda]",
        "tid:[11]",
        "/usr/bin/app ab12 [FN][FL][LN][IN]",
        "fast fast.h:12",
    ] {
        assert!(raw.contains(line), "no '{line}' in\n{raw}");
    }

    // Self times by function, as pprof adds them up and as the profile has them.
    let profile = sample::random(11, 1_000);
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for e in &profile.entries {
        let inner = profile.frames_of(e.stack).first();
        let name =
            profile.state(e).or_else(|| inner.map(|f| profile.functions[f.function as usize].name.clone()));
        *own.entry(name.unwrap_or_else(|| "[not sampled]".into())).or_default() += e.time;
    }
    let top = pprof(&profile, &["-top"]);
    let mut seen = 0;
    for line in top.lines().skip_while(|l| !l.contains("flat%")).skip(1) {
        let mut words = line.split_whitespace();
        let flat: u64 = words.next().and_then(|w| w.trim_end_matches("ns").parse().ok()).expect("a time");
        let name = words.skip(4).collect::<Vec<_>>().join(" ");
        let name = name.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
        assert_eq!(flat, own.get(name).copied().unwrap_or(0), "{name}");
        seen += flat;
    }
    assert_eq!(seen, profile.time());
}
