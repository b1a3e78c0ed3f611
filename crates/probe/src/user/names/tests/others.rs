// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code that is in no file: JIT, vdso, kernel.

use super::*;
use std::io::Write;

fn jit(file: Option<File>) -> Module {
    Module {
        number: 1,
        kind: Kind::Jit,
        pid: 4711,
        build_id: String::new(),
        path: String::new(),
        file: file.map(Arc::new),
        lacking: String::new(),
        functions: Vec::new(),
    }
}

fn in_maps(dir: &Path, module: Module, places: &[u64]) -> Named {
    let none = Kallsyms::default();
    let places = places.iter().map(|at| ((1, *at), 1)).collect();
    name_from(&[module], &places, None, &mut Sources { maps: dir.into(), ..sources(&none) })
}

fn names(out: &Named) -> Vec<(u64, &str)> {
    out.functions.iter().map(|f| (f.offset, f.names.as_str())).collect()
}

#[test]
fn a_perf_maps_last_entry_wins() {
    let bench = Bench::new();
    let text = "1000 100 LFoo;::bar(I) with spaces\n1040 20 first\n0x2000 10 prefixed\n1050 8 sec\tond\n\
                junk\n3000 ffffffffffffffff too far\n3000 10\n\n";
    std::fs::write(bench.path("perf-4711.map"), text).expect("map");
    let out = in_maps(
        bench.dir.path(),
        jit(None),
        &[0xfff, 0x1000, 0x1041, 0x1050, 0x10ff, 0x1100, 0x2001, 0x3001],
    );
    let long = "LFoo;::bar(I) with spaces";
    let expected =
        [(0x1000, long), (0x1041, "first"), (0x1050, "sec?ond"), (0x10ff, long), (0x2001, "prefixed")];
    assert_eq!(names(&out), expected);
    assert_eq!((out.functions[0].start, out.functions[0].size), (0x1000, 0x100));
    let s = &out.symbols[0];
    assert_eq!((s.places, s.named), (8, 5));
    assert_eq!(s.lacking, "3 places are in none of the map's 4 entries; 4 lines of the map cannot be read");
    assert!(out.code.is_empty(), "it is gone");
}

#[test]
fn a_map_that_was_kept_and_one_that_came_later_are_both_read() {
    let bench = Bench::new();
    let path = bench.path("perf-4711.map");
    std::fs::write(&path, "1000 10 early\n2000 10 kept\n").expect("map");
    let kept = File::open(&path).expect("map");
    std::fs::remove_file(&path).expect("replaced");
    std::fs::write(&path, "1000 10 late\n").expect("map");
    let out = in_maps(bench.dir.path(), jit(Some(kept)), &[0x1000, 0x2000]);
    assert_eq!(names(&out), [(0x1000, "late"), (0x2000, "kept")]);
    // The same file is read to its end, whatever was read of it before.
    let mut grown = File::options().read(true).append(true).open(&path).expect("map");
    grown.write_all(b"3000 10 grown\n").expect("written");
    let out = in_maps(bench.dir.path(), jit(Some(grown)), &[0x1000, 0x3000]);
    assert_eq!(names(&out), [(0x1000, "late"), (0x3000, "grown")]);
}

#[test]
fn a_process_without_a_map_is_told_how_to_write_one() {
    let bench = Bench::new();
    let out = in_maps(bench.dir.path(), jit(None), &[0x1000]);
    let lacking = &out.symbols[0].lacking;
    assert!(lacking.starts_with("process 4711 made code itself and wrote no "), "{lacking}");
    assert!(lacking.contains("python -X perf"), "{lacking}");
    // A pipe in its place is none, and is not waited for.
    assert!(bench.run("mkfifo", &["perf-4711.map"]));
    assert_eq!(in_maps(bench.dir.path(), jit(None), &[0x1000]).symbols[0].lacking, *lacking);
    std::fs::remove_file(bench.path("perf-4711.map")).expect("removed");
    let mut text = "1000 10 ".to_string() + &"x".repeat(100_000);
    text.push_str("\n1000 10 short\n");
    std::fs::write(bench.path("perf-4711.map"), text).expect("map");
    let out = in_maps(bench.dir.path(), jit(None), &[0x1000]);
    assert_eq!(
        (names(&out), out.symbols[0].lacking.as_str()),
        (vec![(0x1000, "short")], "1 lines of the map cannot be read")
    );
}

#[test]
fn the_vdso_is_named_by_our_own() {
    let Some(image) = vdso::image() else {
        return println!("SKIP the_vdso_is_named_by_our_own: this kernel has none");
    };
    let elf = object::File::parse(&*image).expect("ELF");
    let symbol = elf.dynamic_symbols().find(|s| {
        s.name().is_ok_and(|n| n.ends_with("vdso_clock_gettime") || n.ends_with("kernel_clock_gettime"))
    });
    let symbol = symbol.expect("every vdso has it");
    let at = layout::Layout::new(&elf).offset(symbol.address()).expect("loaded");
    let vdso = Module { kind: Kind::Vdso, pid: 0, ..jit(None) };
    let out = named(vdso, &[((1, at + 1), 5), ((1, 0), 1)].into());
    let [f] = &out.functions[..] else { panic!("{out:#?}") };
    assert!(f.names.ends_with("clock_gettime") && (f.start, f.size) == (at, symbol.size()), "{f:?}");
    assert_eq!((out.symbols[0].places, out.symbols[0].named), (2, 1));
    assert_eq!(out.code[0].words[0].to_le_bytes(), image[at as usize..at as usize + 8]);
}

#[test]
fn kernel_functions_have_their_module_and_are_refused_without_symbols() {
    let k = Kallsyms::parse("f000 t one\nf010 t two\nf100 t three\t[ext4]\nf200 t four\t[bpf]\n");
    let places = [((0, 0xf010), 0), ((0, 0xf011), 2), ((0, 0xf108), 1), ((0, 0xf208), 1), ((0, 5), 1)].into();
    let out = name_from(&[], &places, None, &mut sources(&k));
    // A return address at the very beginning of `two` is the end of `one`.
    assert_eq!(
        names(&out),
        [(0xf010, "one"), (0xf011, "two"), (0xf108, "three [ext4]"), (0xf208, "four [bpf]")]
    );
    assert_eq!((out.symbols[0].places, out.symbols[0].named), (5, 4));
    let hidden = name_from(&[], &places, None, &mut sources(&Kallsyms::default()));
    assert!(hidden.functions.is_empty() && hidden.symbols[0].lacking.contains("kptr_restrict"));
}

#[test]
fn kernel_lines_come_from_a_vmlinux_wherever_the_kernel_lies() {
    let bench = Bench::new();
    // _stext before everything, and a distance as KASLR makes it.
    let stext = "__asm__(\".globl _stext\\n.set _stext, main\\n\");\n";
    let source = format!("{C}{stext}");
    assert!(bench.make("prog.c", &source, "gcc", &["-O2", "-g", "-no-pie", "prog.c", "-o", "vmlinux"]));
    let bytes = std::fs::read(bench.path("vmlinux")).expect("program");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let symbol = |name: &str| {
        elf.symbols().find(|s| s.name() == Ok(name)).map(|s| (s.address(), s.size())).expect("there")
    };
    let (main, outer) = (symbol("main").0, symbol("outer"));
    let distance = 0x7fff_1234_0000;
    let mut lines: Vec<(u64, &str)> =
        vec![(main, "_stext"), (outer.0, "outer_as_it_runs"), (outer.0 + outer.1, "next")];
    lines.sort_unstable();
    let text: String = lines.iter().map(|(at, n)| format!("{:x} T {n}\n", at + distance)).collect();
    let k = Kallsyms::parse(&text);
    let places = (0..outer.1).map(|i| ((0, outer.0 + distance + i), 1)).collect();
    let mut with = Sources { vmlinux: Ok(Some(bench.path("vmlinux"))), ..sources(&k) };
    let out = name_from(&[], &places, None, &mut with);
    let inlined = [("inner", "/prog.c:6"), ("outer_as_it_runs", "/prog.c:10")];
    assert!(out.functions.iter().any(|f| is(f, &inlined)), "{out:#?}");
    assert!(out.functions.iter().all(|f| (f.start, f.size) == (outer.0 + distance, outer.1)));
    assert!(out.symbols[0].source.ends_with("/vmlinux") && out.symbols[0].named == outer.1);
}

#[test]
fn the_kernels_code_is_read_as_it_runs() {
    const TEST: &str = "the_kernels_code_is_read_as_it_runs";
    let k = Kallsyms::load();
    let Some(at) = k.address("schedule") else {
        return println!("SKIP {TEST}: /proc/kallsyms hides its addresses, be root");
    };
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return println!("SKIP {TEST}: not root");
    }
    let bytes = peek::read(at, 10_000).expect("root may read it");
    assert_eq!(bytes.len(), 10_000);
    assert_eq!(
        bytes[4096 * 2 - 8..4096 * 2 + 8],
        peek::read(at + 4096 * 2 - 8, 16).expect("again"),
        "chunks join"
    );
    if cfg!(target_arch = "x86_64") {
        // endbr64, a call of __fentry__, the nop of 5 bytes that it is patched to, or pushed registers.
        let head = &bytes[..16];
        let plausible = head.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa])
            || head[0] == 0xe8
            || head.starts_with(&[0x0f, 0x1f, 0x44])
            || matches!(head[0], 0x41 | 0x53 | 0x55);
        assert!(plausible, "{head:02x?}");
    }
    assert!(peek::read(8, 16).is_err(), "nothing is mapped there");
    // And in the rows, by the symbol's own length.
    let size = k.place(at).expect("named").size;
    let mut real = Sources { peek: Box::new(peek::read), ..sources(&k) };
    let out = name_from(&[], &[((0, at + 1), 1)].into(), None, &mut real);
    assert_eq!((out.functions[0].names.as_str(), out.code[0].bytes), ("schedule", size));
    assert_eq!(out.code[0].words[0].to_le_bytes(), bytes[..8]);
}
