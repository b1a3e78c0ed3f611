// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repository chores, called as `cargo xtask NAME`.

mod counts;
mod gen;
mod limit;
mod page;
mod programs;
mod report;
mod schema;
mod test;

use anyhow::{bail, Result};
use std::path::{Path, PathBuf};

const USAGE: &str = "cargo xtask NAME
  gen            write the files that come from include/plumb/event.h and from the report document's types
  gen --check    compare them; fails on a difference
  golden         write anew what the golden tests compare: results of tests/traces, docs/findings.md
  test           run every test; as root also those that record this machine
  page           of those, the tests of the report's page";

fn root() -> PathBuf {
    // Asked for at run time: a path that is compiled in goes stale when the checkout moves.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).parent().expect("xtask lies in the repository").into()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["gen"] => gen::run(&root(), false),
        ["gen", "--check"] => gen::run(&root(), true),
        ["golden"] => test::golden(&root()),
        ["test"] => test::run(&root()),
        ["page"] => test::page(&root()),
        _ => bail!("{USAGE}"),
    }
}
