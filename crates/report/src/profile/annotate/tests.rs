// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listing's text and JSON, and what is missing.

#[path = "../../../../analysis/src/instructions/tests/sampled.rs"]
mod sampled;

use super::{annotate, Options};
use plumb_model::profile::{Frame, Origin, Profile};
use sampled::{frame, function, profile, sample, START};

/// `mov %rdi,%rax; cqto; idiv %rsi; add %rax,%rcx; call 0x2000; jne +0x3; ret`.
const CODE: &[u8] = &[
    0x48, 0x89, 0xf8, 0x48, 0x99, 0x48, 0xf7, 0xfe, 0x48, 0x01, 0xc1, 0xe8, 0xf0, 0x0f, 0x00, 0x00, 0x75,
    0xf1, 0xc3,
];

fn options() -> Options {
    Options { machine: "x86_64".into(), ..Options::default() }
}

fn text(p: &Profile, name: &str, options: &Options) -> String {
    let mut out = Vec::new();
    annotate(p, name, options, &mut out).expect("a listing");
    String::from_utf8(out).expect("text")
}

fn error(p: &Profile, name: &str) -> String {
    format!("{:#}", annotate(p, name, &options(), &mut Vec::new()).expect_err("an error"))
}

#[test]
fn a_function_is_shown_with_shares_targets_and_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("a.c"), "int f() {\n  n += a / b;\n  g();\n").expect("source");
    let mut p = profile(CODE, &[(3, 1), (8, 30)]);
    p.functions.push(function("g", 1, 0x2000, 16));
    p.lines = vec![String::new(), "/build/a.c:2".into(), "/build/a.c:3".into(), "/build/b.c:9".into()];
    let inner = p.stacks[2].frames[0] as usize;
    p.frames[inner].line = 1;
    // A caller's line is known too: the place inside its call.
    sample(&mut p, &[frame(1, 0x2000), Frame { line: 2, ..frame(0, START + 15) }], 9);
    let options = Options { source: Some(dir.path().into()), ..options() };
    let expected = "\
f of /bin/prog, 19 bytes at 0x1000
  31.00 ms in 31 samples, 77.5 % of CPU time
  97 % of f lies at +0x8 (right behind `idiv %rsi`): a division takes many cycles; in a loop of 5 instructions from +0x3 to +0x10 (100 %)
  A sample has the address of the next instruction to run (skid), so most of its time belongs to the instruction before it. Exceptions: jump targets (>) and an interrupted rep. * marks 10 % or more.

    share       time  samples  place  instruction
                                +0x0  mov %rdi,%rax
    3.2 %    1.00 ms        1 > +0x3  cqto
                                +0x5  idiv %rsi
                                      ;   n += a / b;
*  96.8 %   30.00 ms       30   +0x8  add %rax,%rcx                        ; a.c:2
                                      ;   g();
                                +0xb  call g                               ; a.c:3
                               +0x10  jne +0x3
                               +0x12  ret
";
    assert_eq!(text(&p, "f", &options), expected);
}

#[test]
fn json_has_every_instruction_and_its_bytes() {
    let p = profile(CODE, &[(8, 30)]);
    let json = text(&p, "f", &Options { json: true, ..options() });
    let v: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(v["rows"].as_array().map(Vec::len), Some(7));
    assert_eq!(v["rows"][3]["time_ns"], 30_000_000);
    assert_eq!(v["rows"][3]["address"], START + 8);
    assert_eq!(v["rows"][2]["bytes"], "48 f7 fe");
    assert_eq!(v["hot"]["culprit"]["kind"], "divide");
    assert_eq!(v["hot"]["loop"]["instructions"], 5);
}

#[test]
fn of_a_long_function_only_what_is_near_the_time_is_shown() {
    let mut code = vec![0x90; 500];
    code.push(0xc3);
    let p = profile(&code, &[(100, 500), (110, 400), (300, 2)]);
    let short = text(&p, "f", &options());
    assert!(short.contains("... 96 instructions with 0.0 % (--all shows them)"), "{short}");
    assert!(short.contains("... 386 instructions with 0.2 % (--all shows them)"), "{short}");
    // The two between the windows cost less than a line about them.
    assert_eq!(short.lines().filter(|l| l.ends_with("nop")).count(), 19, "{short}");
    let all = text(&p, "f", &Options { all: true, ..options() });
    assert_eq!(all.lines().filter(|l| l.ends_with("nop")).count(), 500);
}

#[test]
fn without_code_there_is_a_histogram_and_a_reason() {
    let mut p = profile(&[], &[(8, 30), (3, 1)]);
    let shown = text(&p, "f", &options());
    assert!(shown.contains("No instructions: the trace holds no code at all"), "{shown}");
    let (low, high) = (shown.find("+0x3"), shown.find("+0x8"));
    assert!(low.is_some() && low < high, "{shown}");
    p.code.insert((2, 0x10), vec![0x90]);
    assert!(text(&p, "f", &options()).contains("this is none of them"));
    p.functions[0].start = 0;
    let shown = text(&p, "f", &options());
    assert!(shown.contains("where it begins is not known") && shown.contains("0x1008"), "{shown}");
    p.functions[0].origin = Origin::Jit;
    assert!(text(&p, "f", &options()).contains("made the code itself"));
}

#[test]
fn what_does_not_fit_the_code_is_told() {
    // Cut inside the call; samples inside idiv, behind the code, and before the function.
    let mut p = profile(&CODE[..13], &[(6, 20), (40, 3)]);
    sample(&mut p, &[frame(0, START - 16)], 2);
    p.functions[0].size = 19;
    let shown = text(&p, "f", &options());
    for part in [
        "The trace has only the first 13 of 19 bytes of the function.",
        "The code ends inside an instruction.",
        "20 samples have an address inside an instruction",
        "5 samples are outside the recorded code, the first at 0xff0.",
        "+0xb  .byte e8 f0",
        "0xff0",
        "+0x28",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let other = text(&p, "f", &Options { machine: "aarch64".into(), ..options() });
    assert!(other.contains("code of aarch64 is shown as machine words"), "{other}");
    assert!(other.contains(".word 0x48f88948") && other.contains(".byte f0"), "{other}");
}

#[test]
fn every_cut_and_every_byte_is_survived() {
    for n in 1..CODE.len() {
        text(&profile(&CODE[..n], &[(0, 30), (n as u64, 1), (u64::MAX - START, 1)]), "f", &options());
    }
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut p = profile(&noise, &[(1, 30), (4000, 30)]);
    text(&p, "f", &Options { all: true, ..options() });
    p.functions[0].start = u64::MAX - 8;
    p.code = [((1, u64::MAX - 8), noise)].into();
    sample(&mut p, &[frame(0, u64::MAX - 1)], 40);
    text(&p, "f", &Options { all: true, ..options() });
}

#[test]
fn functions_are_found_by_name_part_and_module() {
    let mut p = profile(CODE, &[(8, 30)]);
    p.functions.extend([
        function("parse_row", 1, 0x3000, 8),
        function("parse", 2, 0x100, 8),
        function("parse_row", 2, 0x200, 8),
        function("caller", 1, 0x4000, 8),
    ]);
    sample(&mut p, &[frame(1, 0x3001), frame(4, 0x4001)], 5);
    sample(&mut p, &[frame(2, 0x101)], 1);
    sample(&mut p, &[frame(3, 0x201)], 7);
    let first = |name: &str| text(&p, name, &options()).lines().next().unwrap_or("").to_string();
    // Exact before parts, though others have more samples.
    assert!(first("parse").starts_with("parse of /lib/libx.so"));
    assert!(first("parse_row").starts_with("parse_row of /lib/libx.so, 8 bytes at 0x200"));
    assert!(text(&p, "parse_row", &options()).contains("The name also matches prog!parse_row (5 samples)."));
    assert!(first("prog!parse_row").starts_with("parse_row of /bin/prog"));
    assert!(first("prog!parse").starts_with("parse_row of /bin/prog"));
    assert!(first("/lib/libx.so!row").starts_with("parse_row of /lib/libx.so"));
    assert_eq!(
        error(&p, "nothing"),
        "no function is called nothing; most samples have f, parse_row, parse_row, parse"
    );
    assert!(error(&p, "caller").starts_with("caller has no samples of its own: it only called others"));
    assert!(error(&p, "libx.so!f").starts_with("no function is called"));
    assert!(error(&Profile::default(), "f").contains("no sample has a stack"));
}

#[test]
fn an_inlined_function_is_shown_in_the_one_that_has_its_code() {
    let mut p = profile(CODE, &[(8, 10)]);
    p.functions.push(function("small", 1, 0, 0));
    p.lines.push("a.h:3".into());
    let inlined = Frame { inlined: true, line: 1, ..frame(1, START + 3) };
    sample(&mut p, &[inlined, frame(0, START + 3)], 4);
    let shown = text(&p, "small", &options());
    assert!(shown.starts_with("f of /bin/prog"), "{shown}");
    assert!(shown.contains("The compiler inlined small into f: 4 of the 14 samples"));
    assert!(
        shown.contains("; a.h:3")
            && shown.contains("Source not found: a.h (set its directory with --source DIR"),
        "{shown}"
    );
}
