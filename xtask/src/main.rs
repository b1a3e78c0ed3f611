// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repository chores, called as `cargo xtask NAME`.

mod counts;
mod fuzz;
mod gen;
mod killpoints;
mod leaks;
mod limit;
mod notices;
mod page;
mod programs;
mod quick;
mod report;
mod schema;
mod soak;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

  quick             check what changed since main, in under a minute: formatting, generated files,
                    clippy and unit tests of the changed crates, the I/O scheduler's policy
  test              run every test; as root also those that record this machine
  test STAGE...     run single stages and what they need; 'test list' names the stages
  fuzz --hours N [TARGET...]
                    mutated inputs for every reader of bytes that others wrote, for N hours (0.1 will do)
  killpoints [--program FILE] [--spread N] [COMMAND]
                    kill plumb behind every system call that changes the system (as root)
  soak --hours N [--program FILE]
                    every command again and again for N hours (0.1 will do), and what leaks (as root)
  gen               write the files generated from include/plumb/event.h, the report document's types and
                    Cargo.lock (third-party notices; fails on a licence that is not allowed)
  gen --check       compare the generated files; fail on a difference
  sbom CREATED      print what the program consists of as SPDX 2.3 (JSON); CREATED as 2026-01-31T00:00:00Z
  copyright         print debian/copyright of its package
  golden            rewrite the expected results of the golden tests and the generated manual pages";

fn root() -> PathBuf {
    // Asked for at run time: a path that is compiled in goes stale when the checkout moves.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).parent().expect("xtask lies in the repository").into()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["gen"] => gen::run(&root(), false),
        ["gen", "--check"] => gen::run(&root(), true),
        ["fuzz", "--hours", hours, targets @ ..] => fuzz::run(&root(), hours, targets),
        ["killpoints", words @ ..] => killpoints::run(&root(), words),
        ["soak", "--hours", hours, words @ ..] => soak::run(&root(), hours, words),
        ["sbom", created] => notices::sbom::text(&root(), created).map(|text| println!("{text}")),
        ["copyright"] => notices::copyright::text(&root()).map(|text| print!("{text}")),
        ["golden"] => test::golden(&root()),
        ["quick"] => quick::run(&root()),
        ["test", "list"] => {
            print!("{}", test::list());
            Ok(())
        }
        ["test", names @ ..] => test::run(&root(), names),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}
