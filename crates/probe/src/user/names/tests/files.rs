// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What compilers write into their programs.

use super::*;

#[test]
fn an_inlined_function_is_told_with_its_own_line_and_its_callers() {
    let bench = Bench::new();
    let module = bench.c(&["-g"]);
    let outer = function(&bench.path("prog"), "outer");
    let out = named(module, &all_of(&[outer]));
    assert_eq!(out.symbols.len(), 1);
    let s = &out.symbols[0];
    assert_eq!((s.places, s.named, s.lacking.as_str()), (outer.1, outer.1, ""));
    assert!(out.functions.iter().all(|f| (f.start, f.size) == outer));
    let inlined = [("inner", "/prog.c:6"), ("outer", "/prog.c:10")];
    let own = [("outer", "/prog.c:11")];
    assert!(out.functions.iter().any(|f| is(f, &inlined)), "{:#?}", out.functions);
    assert!(out.functions.iter().any(|f| is(f, &own)), "{:#?}", out.functions);
}

#[test]
fn code_of_a_hot_function_is_its_bytes() {
    let bench = Bench::new();
    let module = bench.c(&["-g"]);
    let (start, size) = function(&bench.path("prog"), "outer");
    let out = named(module, &[((1, start + 4), 9), ((1, start + 8), 0)].into());
    let bytes = std::fs::read(bench.path("prog")).expect("program");
    let [code] = &out.code[..] else { panic!("{:?}", out.code) };
    let words: Vec<u8> = code.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!((code.module, code.start, code.bytes), (1, start, size));
    assert_eq!(words[..size as usize], bytes[start as usize..(start + size) as usize]);
}

#[test]
fn a_return_address_belongs_to_the_call_before_it() {
    let bench = Bench::new();
    let module = bench.c(&["-g"]);
    let (start, size) = function(&bench.path("prog"), "leaves");
    // abort() does not return: behind its call is another function, or nothing.
    let out = named(module, &[((1, start + size), 0), ((1, start), 1)].into());
    assert!(is(&out.functions[1], &[("leaves", "/prog.c:16")]), "{out:?}");
    assert_eq!(out.functions[1].offset, start + size, "the place is named as stacks name it");
}

#[test]
fn cpp_names_are_demangled_with_their_templates() {
    let bench = Bench::new();
    let source = "namespace ns { template <class T> struct Box { T v; \
                  __attribute__((noinline)) T twice(T n) { return v = v * n; } }; }\n\
                  int main(int c, char **) { volatile int n = c; ns::Box<ns::Box<int> *> b{}; (void)b; \
                  ns::Box<int> a{3}; return a.twice(n); }\n";
    if !bench.make("prog.cc", source, "g++", &["-O1", "-g", "prog.cc", "-o", "prog"]) {
        return skip("cpp_names_are_demangled_with_their_templates", "g++");
    }
    let prog = bench.path("prog");
    let at = functions(&prog, |n| n.contains("twice"));
    let out = named(bench.module("prog"), &all_of(&at));
    assert!(out.functions.iter().all(|f| f.names.ends_with("ns::Box<int>::twice(int)")), "{out:#?}");
    // Without debug info the same name.
    assert!(bench.run("objcopy", &["-g", "prog", "plain"]));
    let out = named(bench.module("plain"), &all_of(&at));
    assert!(out.functions.iter().all(|f| f.names == "ns::Box<int>::twice(int)"), "{out:#?}");
}

#[test]
fn rust_names_are_demangled_in_both_manglings() {
    let source = "\
#[inline(always)]
fn inner(n: u64) -> u64 {
    std::hint::black_box(n) * 3
}
#[inline(never)]
pub fn outer<T: Into<u64>>(n: T) -> u64 {
    inner(n.into()) + 1
}
fn main() {
    println!(\"{}\", outer(std::env::args().count() as u32));
}
";
    for mangling in ["legacy", "v0"] {
        let bench = Bench::new();
        let option = format!("symbol-mangling-version={mangling}");
        // Old compilers want to be told that the other mangling is not settled yet.
        let args = ["-Copt-level=2", "-g", "-C", &option, "-Zunstable-options", "prog.rs"];
        std::fs::write(bench.path("prog.rs"), source).expect("source");
        let ran =
            Command::new("rustc").args(args).current_dir(&bench.dir).env("RUSTC_BOOTSTRAP", "1").output();
        let Ok(ran) = ran else { return skip("rust_names_are_demangled_in_both_manglings", "rustc") };
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let at = functions(&bench.path("prog"), |n| n.contains("outer"));
        assert_eq!(at.len(), 1, "{mangling}");
        let out = named(bench.module("prog"), &all_of(&at));
        let name = if mangling == "v0" { "prog::outer::<u32>" } else { "prog::outer" };
        assert!(out.functions.iter().all(|f| frames(f).last().is_some_and(|f| f.0 == name)), "{out:#?}");
        let inner = out.functions.iter().find(|f| frames(f).iter().any(|f| f.0 == "prog::inner"));
        let frames = frames(inner.unwrap_or_else(|| panic!("{out:#?}")));
        assert!(frames[frames.len() - 2].1.ends_with("prog.rs:3"), "{frames:?}");
        assert!(frames[frames.len() - 1].1.ends_with("prog.rs:7"), "{frames:?}");
    }
}

/// As the project's own profile has it: names without their paths.
#[test]
fn a_path_that_debug_info_lacks_is_taken_from_the_symbol() {
    let bench = Bench::new();
    // A function without inlined ones is left out of such debug info altogether.
    let source = "\
mod deep {
    #[inline(always)]
    fn inner(n: usize) -> usize {
        std::hint::black_box(n) * 3
    }
    #[inline(never)]
    pub fn outer(n: usize) -> usize {
        inner(n) + 1
    }
}
fn main() {
    std::process::exit(deep::outer(std::env::args().count()) as i32);
}
";
    let args = ["-Copt-level=2", "-Cdebuginfo=line-tables-only", "prog.rs"];
    if !bench.make("prog.rs", source, "rustc", &args) {
        return skip("a_path_that_debug_info_lacks_is_taken_from_the_symbol", "rustc");
    }
    let at = functions(&bench.path("prog"), |n| n.contains("deep") && n.contains("outer"));
    let out = named(bench.module("prog"), &all_of(&at));
    let inlined: Vec<_> = out.functions.iter().map(frames).filter(|f| f.len() > 1).collect();
    assert!(!inlined.is_empty(), "{out:#?}");
    for frames in inlined {
        let [.., inner, outer] = frames[..] else { panic!("{frames:?}") };
        assert!(inner.1.ends_with("prog.rs:4") && outer.1.ends_with("prog.rs:8"), "{frames:?}");
        assert_eq!((inner.0, outer.0), ("inner", "prog::deep::outer"));
    }
}

#[test]
fn go_programs_are_named_stripped_or_not() {
    let bench = Bench::new();
    let source = "package main\n\nvar sink int\n\n//go:noinline\nfunc work(n int) {\n\tsink += n\n}\n\n\
                  func main() {\n\twork(3)\n}\n";
    std::fs::write(bench.path("main.go"), source).expect("source");
    std::fs::write(bench.path("go.mod"), "module known\n").expect("module");
    let build = |args: &[&str]| {
        Command::new("go")
            .args(args)
            .current_dir(&bench.dir)
            .env("GOFLAGS", "-mod=mod")
            .env("GOPROXY", "off")
            .output()
    };
    let Ok(ran) = build(&["build", "-o", "prog", "."]) else {
        return skip("go_programs_are_named_stripped_or_not", "go");
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let at = function(&bench.path("prog"), "main.work");
    let out = named(bench.module("prog"), &all_of(&[at]));
    assert_eq!((out.symbols[0].named, out.symbols[0].lacking.as_str()), (at.1, ""));
    assert!(out.functions.iter().any(|f| is(f, &[("main.work", "/main.go:7")])), "{out:#?}");
    let everything = functions(&bench.path("prog"), |n| n.starts_with("runtime."));
    assert!(bench.run("strip", &["-o", "stripped", "prog"]));
    let out = named(bench.module("stripped"), &all_of(&[at]));
    assert_eq!((out.symbols[0].named, out.symbols[0].lacking.as_str()), (at.1, ""));
    assert!(out.functions.iter().all(|f| f.names == "main.work" && f.start == at.0), "{out:#?}");
    assert!(out.symbols[0].source.ends_with("/stripped (.gopclntab)"), "{:?}", out.symbols);
    // The table has every function where the symbols have it; ABI wrappers are named otherwise.
    let starts: BTreeMap<_, _> = everything.iter().map(|(start, _)| ((1, *start), 1)).collect();
    let (whole, bare) = (named(bench.module("prog"), &starts), named(bench.module("stripped"), &starts));
    let mut same = 0;
    for (a, b) in whole.functions.iter().zip(&bare.functions) {
        assert_eq!((a.offset, a.start), (b.offset, b.start));
        same += usize::from(a.names.split('\n').next_back() == Some(&b.names));
    }
    assert!(same * 10 > starts.len() * 9 && starts.len() > 500, "{same} of {}", starts.len());
}

#[test]
fn a_stripped_programs_places_are_named_only_inside_of_a_dynamic_symbol() {
    let bench = Bench::new();
    bench.c(&["-g", "-rdynamic"]);
    let prog = bench.path("prog");
    let (outer, hidden) = (function(&prog, "outer"), function(&prog, "hidden"));
    assert!(bench.run("strip", &["prog"]));
    let out = named(bench.module("prog"), &all_of(&[outer, hidden]));
    let s = &out.symbols[0];
    assert_eq!((s.places, s.named), (outer.1 + hidden.1, outer.1), "{out:#?}");
    assert!(s.lacking.starts_with("stripped: no .symtab; install its debug symbols"), "{}", s.lacking);
    assert!(out.functions.iter().all(|f| f.names == "outer" && f.lines.is_empty()), "{out:#?}");
}

#[test]
fn a_program_that_was_deleted_or_replaced_is_read_all_the_same() {
    let bench = Bench::new();
    let module = bench.c(&["-g"]);
    let outer = function(&bench.path("prog"), "outer");
    std::fs::remove_file(bench.path("prog")).expect("deleted");
    std::fs::copy("/bin/true", bench.path("prog")).expect("replaced");
    let out = named(module, &all_of(&[outer]));
    assert_eq!(out.symbols[0].named, outer.1);
    assert!(out.functions[0].lines.contains("prog.c:"), "{out:#?}");
}

#[test]
fn a_file_that_was_never_open_has_its_reason() {
    let bench = Bench::new();
    let module = Module { file: None, lacking: "no such file".into(), ..bench.c(&[]) };
    let out = named(module, &[((1, 5), 1), ((7, 5), 1)].into());
    assert_eq!((out.functions.len(), out.symbols[0].lacking.as_str()), (0, "no such file"));
    assert_eq!(out.symbols[1].lacking, "module 7 was never told");
    std::fs::write(bench.path("text"), "no program").expect("written");
    let out = named(bench.module("text"), &[((1, 5), 1)].into());
    assert!(out.symbols[0].lacking.starts_with("not an ELF file"), "{:?}", out.symbols);
}

#[test]
fn a_newline_in_a_name_makes_no_frame() {
    let bench = Bench::new();
    bench.c(&[]);
    let prog = bench.path("prog");
    let outer = function(&prog, "outer");
    let mut bytes = std::fs::read(&prog).expect("program");
    let mut patched = 0;
    for at in 0..bytes.len() - 7 {
        if &bytes[at..at + 7] == b"\0outer\0" {
            bytes[at + 3] = b'\n';
            patched += 1;
        }
    }
    assert!(patched > 0);
    std::fs::write(&prog, bytes).expect("written");
    let out = named(bench.module("prog"), &all_of(&[outer]));
    assert!(out.functions.iter().all(|f| f.names == "ou?er" && f.lines.is_empty()), "{out:#?}");
    assert_eq!(out.functions.len() as u64, outer.1);
}

#[test]
fn compressed_debug_info_is_read_or_said_to_be_missing() {
    let bench = Bench::new();
    bench.c(&["-g"]);
    let outer = function(&bench.path("prog"), "outer");
    assert!(bench.run("objcopy", &["--compress-debug-sections=zlib", "prog", "zlib"]));
    let out = named(bench.module("zlib"), &all_of(&[outer]));
    assert!(out.functions.iter().any(|f| f.names == "inner\nouter"), "{out:#?}");
    let zstd = Command::new("objcopy")
        .args(["--compress-debug-sections=zstd", "prog", "zstd"])
        .current_dir(&bench.dir)
        .status();
    if !zstd.is_ok_and(|s| s.success()) {
        return println!("SKIP compressed_debug_info_is_read_or_said_to_be_missing: objcopy knows no zstd");
    }
    let out = named(bench.module("zstd"), &all_of(&[outer]));
    assert_eq!(out.symbols[0].named, outer.1);
    assert!(out.functions.iter().all(|f| f.names == "outer" && f.lines.is_empty()), "{out:#?}");
    assert!(out.symbols[0].lacking.contains("zstd"), "{:?}", out.symbols);
}

/// Every section of the debug info in turn, filled with noise: names are left, and nothing panics.
#[test]
fn broken_debug_info_leaves_the_symbols() {
    use object::ObjectSection;
    let bench = Bench::new();
    bench.c(&["-g"]);
    let prog = bench.path("prog");
    let outer = function(&prog, "outer");
    let whole = std::fs::read(&prog).expect("program");
    let elf = object::File::parse(&*whole).expect("ELF");
    let mut noise = 0x2545_f491_u32;
    let mut told = 0;
    for section in elf.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".debug"))) {
        let (from, len) = section.file_range().expect("in the file");
        for step in [1, 7, 61] {
            let mut bytes = whole.clone();
            for at in (from..from + len).step_by(step) {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                bytes[at as usize] = noise as u8;
            }
            std::fs::write(bench.path("broken"), bytes).expect("written");
            let out = named(bench.module("broken"), &all_of(&[outer]));
            assert_eq!(out.symbols[0].named, outer.1, "{:?} {step}", section.name());
            told += usize::from(out.symbols[0].lacking.contains("debug info cannot be read"));
        }
    }
    assert!(told > 3, "{told}");
}

/// The reader of debug info takes it for granted that a line's file exists.
#[test]
fn a_line_of_a_file_that_there_is_not_is_no_end() {
    let bench = Bench::new();
    let text = C.replace("\tsink--;", "#line 50 \"other.h\"\n\tsink--;");
    assert!(bench.make("prog.c", &text, "gcc", &["-O2", "-g", "-no-pie", "prog.c", "-o", "prog"]));
    let prog = bench.path("prog");
    let outer = function(&prog, "outer");
    let mut bytes = std::fs::read(&prog).expect("program");
    let (from, len) = {
        let elf = object::File::parse(&*bytes).expect("ELF");
        object::ObjectSection::file_range(&elf.section_by_name(".debug_line").expect("lines"))
            .expect("in the file")
    };
    // DW_LNS_set_file 2 and more; the table has fewer than 100.
    let lines = &mut bytes[from as usize..(from + len) as usize];
    let ops: Vec<usize> =
        (0..lines.len() - 1).filter(|i| lines[*i] == 4 && (2..9).contains(&lines[i + 1])).collect();
    assert!(!ops.is_empty());
    ops.iter().for_each(|i| lines[i + 1] = 100);
    std::fs::write(&prog, bytes).expect("written");
    let out = named(bench.module("prog"), &all_of(&[outer]));
    assert_eq!(out.symbols[0].named, outer.1);
    assert!(out.symbols[0].lacking.contains("gave up"), "{:?}", out.symbols);
}

#[test]
fn a_section_that_claims_a_terabyte_costs_its_lines_alone() {
    use object::ObjectSection;
    let bench = Bench::new();
    let module = bench.c(&["-g", "-gz=zlib"]);
    let path = bench.path("prog");
    let outer = function(&path, "outer");
    let mut bytes = std::fs::read(&path).expect("program");
    let at = {
        let elf = object::File::parse(&*bytes).expect("ELF");
        let section = elf.section_by_name(".debug_info").expect("debug info");
        section.compressed_file_range().expect("a range").offset as usize
    };
    // Elf64_Chdr lies before the data: type, 0, size, alignment.
    let size = at - 24 + 8;
    bytes[size..size + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    std::fs::write(bench.path("huge"), bytes).expect("written");
    let whole = named(module, &all_of(&[outer]));
    assert!(
        whole.functions.iter().all(|f| !f.lines.is_empty()),
        "its debug info is of use: {:?}",
        whole.symbols
    );
    let out = named(bench.module("huge"), &all_of(&[outer]));
    assert_eq!(out.functions.len(), outer.1 as usize, "{:?}", out.symbols);
    assert!(out.functions.iter().all(|f| f.names.ends_with("outer")), "{:?}", out.functions[0]);
    assert!(out.symbols[0].lacking.contains("memory"), "{}", out.symbols[0].lacking);
}

#[test]
fn a_short_name_is_no_mangled_type() {
    let bench = Bench::new();
    let text = "volatile long sink;\n__attribute__((noinline)) void f(void)\n{\n\tsink++;\n}\nint main(void)\n{\n\tf();\n\treturn 0;\n}\n";
    assert!(bench.make("short.c", text, "gcc", &["-O1", "-g", "short.c", "-o", "short"]), "gcc is needed");
    let out = named(bench.module("short"), &all_of(&[function(&bench.path("short"), "f")]));
    assert!(
        !out.functions.is_empty() && out.functions.iter().all(|row| row.names == "f"),
        "{:?}",
        out.functions
    );
}
