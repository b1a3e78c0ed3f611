// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs whose functions and lines are known, made by the compilers of this machine.

mod files;
mod others;
mod separate;

use super::*;
use object::{Object, ObjectSymbol};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines are counted from 1; `inner` is put into `outer`, whose last instruction is a call.
const C: &str = "\
#include <stdlib.h>
volatile long sink;
static inline __attribute__((always_inline)) void inner(long n)
{
	for (long i = 0; i < n; i++)
		sink += i * n;
}
__attribute__((noinline, visibility(\"default\"))) void outer(long n)
{
	inner(n);
	sink--;
}
static __attribute__((noinline, noreturn)) void leaves(long n)
{
	sink = n;
	abort();
}
static __attribute__((noinline)) void hidden(long n)
{
	sink ^= n;
}
int main(int argc, char **argv)
{
	outer(argc);
	hidden(argc);
	if (argc > 5)
		leaves(argc);
	return 0;
}
";

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a source and runs a tool in the directory. `false`: the tool is not there.
    fn make(&self, source: &str, text: &str, tool: &str, args: &[&str]) -> bool {
        std::fs::write(self.path(source), text).expect("source");
        self.run(tool, args)
    }

    fn run(&self, tool: &str, args: &[&str]) -> bool {
        let home = self.path("home");
        let ran = Command::new(tool).args(args).current_dir(&self.dir).env("XDG_CONFIG_HOME", home).output();
        let Ok(out) = ran else { return false };
        assert!(out.status.success(), "{tool} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        true
    }

    /// The program of [`C`], with more options.
    fn c(&self, options: &[&str]) -> Module {
        let args = [&["-O2", "-no-pie", "prog.c", "-o", "prog"], options].concat();
        assert!(self.make("prog.c", C, "gcc", &args), "gcc is needed to build this");
        self.module("prog")
    }

    fn module(&self, name: &str) -> Module {
        module(&self.path(name))
    }
}

fn module(path: &Path) -> Module {
    Module {
        number: 1,
        kind: Kind::File,
        pid: 0,
        build_id: String::new(),
        path: path.display().to_string(),
        file: Some(Arc::new(File::open(path).expect("program"))),
        lacking: String::new(),
        functions: Vec::new(),
    }
}

/// Offset in the file and bytes of a function, by its symbol.
fn function(path: &Path, symbol: &str) -> (u64, u64) {
    functions(path, |name| name == symbol)
        .first()
        .copied()
        .unwrap_or_else(|| panic!("no {symbol} in {path:?}"))
}

fn functions(path: &Path, wanted: impl Fn(&str) -> bool) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).expect("program");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let layout = layout::Layout::new(&elf);
    let all = elf.symbols().chain(elf.dynamic_symbols());
    all.filter(|s| s.kind() == object::SymbolKind::Text && s.name().is_ok_and(&wanted) && s.size() > 0)
        .map(|s| (layout.offset(s.address()).expect("loaded"), s.size()))
        .collect()
}

/// Every place of functions, one sample each.
fn all_of(ranges: &[(u64, u64)]) -> BTreeMap<(u32, u64), u64> {
    ranges.iter().flat_map(|(start, size)| (*start..start + size).map(|at| ((1, at), 1))).collect()
}

fn sources(kernel: &Kallsyms) -> Sources<'_> {
    Sources {
        kernel,
        vmlinux: Ok(None),
        debug: debug::Finder::in_directory(Path::new("/nonexistent"), None),
        maps: "/nonexistent".into(),
        peek: Box::new(|_, _| Err("not asked for".into())),
    }
}

fn named(module: Module, places: &BTreeMap<(u32, u64), u64>) -> Named {
    name_from(&[module], places, None, &mut sources(&Kallsyms::default()))
}

/// Names and lines of a row, innermost first.
fn frames(f: &StateFunction) -> Vec<(&str, &str)> {
    assert_eq!(f.names.matches('\n').count(), f.lines.matches('\n').count(), "{f:?}");
    f.names.split('\n').zip(f.lines.split('\n')).collect()
}

/// Whether a row has these names, and lines that end so.
fn is(f: &StateFunction, expected: &[(&str, &str)]) -> bool {
    let frames = frames(f);
    frames.len() == expected.len()
        && frames
            .iter()
            .zip(expected)
            .all(|(f, e)| f.0 == e.0 && f.1.ends_with(e.1) && f.1.is_empty() == e.1.is_empty())
}

fn skip(test: &str, tool: &str) {
    println!("SKIP {test}: {tool} is not installed");
}

#[test]
fn what_no_packet_holds_is_counted() {
    let mut too_long = 0;
    let code = |words| StateCode { words: vec![0; words], ..StateCode::default() };
    assert!(fits(&code(8000), &mut too_long));
    assert!(!fits(&code(8192), &mut too_long));
    assert_eq!(too_long, 1);
}
