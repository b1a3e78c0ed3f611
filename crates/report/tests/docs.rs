// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/tables.md has every table, column and function, and examples that run.
//! `PLUMB_GOLDEN=1 cargo test -p plumb-report --test docs` writes those parts anew.

mod filled;

use filled::{fill, recorded};
use plumb_report::query::{Format, Query, EXAMPLES, FUNCTIONS, MEMORY};
use plumb_report::table::markdown;
use std::path::Path;

fn functions() -> String {
    let rows = FUNCTIONS.iter().map(|(name, about)| format!("| `{name}` | {about} |\n"));
    format!("\n| function | what it gives |\n|---|---|\n{}", rows.collect::<String>())
}

fn examples() -> String {
    let example = |(question, sql, runs): &(&str, &str, &str)| {
        format!("\n{question}:\n\n```sh\nplumb query \"{sql}\" {runs}\n```\n")
    };
    EXAMPLES.iter().map(example).collect()
}

#[test]
fn the_manual_has_every_table_and_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tables.md");
    let text = std::fs::read_to_string(&path).expect("docs/tables.md");
    let mut wanted = text.clone();
    for (name, part) in [("examples", examples()), ("functions", functions()), ("tables", markdown())] {
        let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("\n<!-- {name}: end -->"));
        let from =
            wanted.find(&begin).unwrap_or_else(|| panic!("docs/tables.md lacks {begin}")) + begin.len();
        let to = from + wanted[from..].find(&end).unwrap_or_else(|| panic!("docs/tables.md lacks {end}"));
        wanted.replace_range(from..to, &part);
    }
    if std::env::var_os("PLUMB_GOLDEN").is_some() {
        std::fs::write(&path, &wanted).expect("docs is writable");
        return;
    }
    let different = text.lines().zip(wanted.lines()).find(|(is, should)| is != should);
    assert!(
        text == wanted,
        "docs/tables.md is not as the program is; PLUMB_GOLDEN=1 cargo test -p plumb-report --test docs writes it anew: {different:?}"
    );
}

/// A window of a watch with a slow request.
const WINDOW: &str = r#"{"at":"2026-11-28T13:01:53Z","services":[{"name":"postgresql.service","requests":9.5,"longest":200000000}]}"#;

#[test]
fn every_example_finds_something() {
    for (question, sql, runs) in EXAMPLES {
        let query = Query::new(sql, MEMORY).unwrap_or_else(|e| panic!("{question}: {e}"));
        let mut loader = query.loader().expect("room");
        let names = if runs.contains(' ') { runs.split(' ').collect() } else { vec!["mutex"] };
        for (name, trace) in names.iter().zip(["mutex", "appenders"]) {
            fill(&recorded(trace), name, &mut loader);
        }
        if names.len() == 1 {
            fill(&recorded("appenders"), "appenders", &mut loader);
        }
        if runs.starts_with("/var") {
            plumb_report::table::windows(runs, WINDOW, &mut loader);
        }
        loader.finish().expect("room");
        let mut out = Vec::new();
        let rows = query.run(Format::Table, &mut out).unwrap_or_else(|e| panic!("{question}: {e}"));
        assert!(rows > 0, "{question}");
    }
}
