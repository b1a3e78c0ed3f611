// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use plumb_model::profile::{Frame, Function, Origin, Root, Stack};
use std::process::{Command, Stdio};

fn svg(profile: &Profile, before: Option<&Profile>, kind: Format) -> String {
    let mut out = Vec::new();
    write(kind, profile, before, &mut out).expect("drawn");
    String::from_utf8(out).expect("text")
}

/// Texts of the drawn frames, `NAME (VALUE UNIT, SHARE)`, in the order of the picture.
fn titles(svg: &str) -> Vec<&str> {
    svg.split("<title>").skip(1).filter_map(|t| t.split("</title>").next()).collect()
}

/// Whether Python takes it for XML; says why it did not look.
fn is_xml(svg: &str, test: &str) {
    let script = "import sys, xml.etree.ElementTree as e; e.parse(sys.stdin.buffer)";
    let child =
        Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        println!("SKIP {test}: python3 is not installed");
        return;
    };
    child.stdin.take().expect("pipe").write_all(svg.as_bytes()).expect("written");
    let out = child.wait_with_output().expect("python3");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn flame_graph() {
    let svg = svg(&sample::small(), None, Format::Flame);
    let titles = titles(&svg);
    assert_eq!(
        titles.iter().find(|t| t.starts_with("[block")).copied(),
        Some("[block.device sda] (50,000 ns, 51.02%)")
    );
    for title in ["fast (30,000 ns, 30.61%)", "main (80,000 ns, 81.63%)", "all (98,000 ns, 100%)"] {
        assert!(titles.contains(&title), "no '{title}' in {titles:?}");
    }
    assert_eq!(titles.len(), 12, "{titles:?}");
    assert!(svg.contains(">Wall-clock time of app: width = time; light blue = waiting for I/O, "), "{svg}");
    assert!(svg.contains(">98.000 us of 2 threads within 60.000 us; 8 samples (cpu-clock 199 Hz)<"), "{svg}");
    assert!(svg.contains(">waiting for I/O 51.0 %</text>") && svg.contains(">1 stack is cut</text>"));
    is_xml(&svg, "flame_graph");
}

#[test]
fn names_are_text() {
    let mut profile = sample::small();
    profile.functions[0].name = "<script>alert(\"1\")</script>&'".into();
    profile.threads[0].process = "a\u{1}]]><b>".into();
    profile.threads[1].process = profile.threads[0].process.clone();
    profile.notes.push("<img src=x> & more".into());
    for (before, kind) in [(None, Format::Flame), (Some(sample::small()), Format::Flame)] {
        let svg = svg(&profile, before.as_ref(), kind);
        assert!(svg.contains("&lt;script&gt;alert("), "{svg}");
        assert!(!svg.contains("<script>alert") && !svg.contains("<b>") && !svg.contains("<img"));
        is_xml(&svg, "names_are_text");
    }
}

#[test]
fn a_blank_in_a_name_does_not_split_its_caller() {
    let mut profile = sample::small();
    let function = |name: &str| Function {
        name: name.into(),
        named: true,
        module: 1,
        origin: Origin::User,
        start: 0,
        size: 0,
    };
    profile.functions = ["f", "f b", "g"].into_iter().map(function).collect();
    profile.stacks = vec![Stack::default()];
    for path in [&[0][..], &[2, 1], &[2, 0]] {
        let frame = |f: &u32| Frame { function: *f, address: 0, line: 0, inlined: false };
        profile.push_stack(&path.iter().map(frame).collect::<Vec<_>>(), Root::Whole);
    }
    profile.entries.truncate(3);
    for (i, entry) in profile.entries.iter_mut().enumerate() {
        (entry.thread, entry.category, entry.stack) = (0, plumb_model::Category::Running, i as u32 + 1);
        entry.time = 10;
    }
    let svg = svg(&profile, None, Format::Flame);
    assert!(titles(&svg).contains(&"f (20 ns, 66.67%)"), "{:?}", titles(&svg));
}

#[test]
fn differential_graphs() {
    let (before, mut after) = (sample::small(), sample::small());
    // The device is twice as slow, and the worker's code is gone.
    after.entries[0].time = 100_000;
    after.entries.remove(2);
    let came = svg(&after, Some(&before), Format::Flame);
    let titles_came = titles(&came);
    assert!(titles_came.contains(&"[block.device sda] (100,000 ns, 71.43%; +35.71%)"), "{titles_came:?}");
    assert!(titles_came.contains(&"fast (30,000 ns, 21.43%; 0.00%)"), "{titles_came:?}");
    assert!(titles_came.contains(&"main (130,000 ns, 92.86%; 0.00%)"), "{titles_came:?}");
    assert!(!titles_came.iter().any(|t| t.starts_with("hot")));
    assert!(came.contains("which have no width here: 8.000 us</text>"), "{came}");
    is_xml(&came, "differential_graphs");

    let went = svg(&after, Some(&before), Format::FlameBefore);
    let titles_went = titles(&went);
    assert!(titles_went.contains(&"hot (8,000 ns, 8.16%; -8.16%)"), "{titles_went:?}");
    assert!(titles_went.contains(&"[block.device sda] (50,000 ns, 51.02%; +51.02%)"), "{titles_went:?}");
}

#[test]
fn what_cannot_be_written() {
    let small = sample::small();
    let refused = |kind, profile: &Profile, before| {
        write(kind, profile, before, &mut Vec::new()).map_err(|e| e.to_string())
    };
    assert!(refused(Format::Pprof, &small, Some(&small)).is_err_and(|e| e.contains("one by one")));
    assert!(refused(Format::FlameBefore, &small, None).is_err_and(|e| e.contains("two profiles")));
    let empty = Profile::default();
    assert!(refused(Format::Flame, &empty, None).is_err_and(|e| e.contains("no time in this profile")));
    for kind in [Format::Folded, Format::Pprof, Format::Speedscope, Format::Firefox, Format::Json] {
        assert_eq!(refused(kind, &empty, None), Ok(None));
    }
}

/// Prints what each format takes of 100,000 stacks; asserts on size only.
#[test]
fn a_hundred_thousand_stacks() {
    let profile = sample::random(1, 100_000);
    for kind in
        [Format::Folded, Format::Flame, Format::Pprof, Format::Speedscope, Format::Firefox, Format::Json]
    {
        let (begin, mut out) = (std::time::Instant::now(), Vec::new());
        write(kind, &profile, None, &mut out).expect("written");
        println!("{kind:?}: {} bytes, {:.2} s", out.len(), begin.elapsed().as_secs_f64());
        if kind == Format::Flame {
            assert!((1_000_000..5_000_000).contains(&out.len()), "{}", out.len());
            let text = String::from_utf8(out).expect("text");
            assert!(text.contains(">too narrow to draw: the innermost frames of "));
            assert!(titles(&text).iter().any(|t| t.starts_with("all (") && t.ends_with(", 100%)")));
        }
    }
}
