// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans, workloads and comparisons as documents.

use crate::cli::CompareArgs;
use anyhow::{Context, Result};
use plumb_analysis::Analysis;
use plumb_compare::comparison::Comparison;
use plumb_compare::fleet::Fleet;
use plumb_machine::json::headed;
use plumb_machine::utc;
use plumb_report::document::{Absent, Document, Page};
use plumb_report::document_files::PAGE;
use plumb_report::export::profile;
use plumb_report::run::empty;
use plumb_report::run_directory::MOST_ENTRIES;
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Of what `plumb load --json` printed.
///
/// # Errors
/// The file cannot be read.
pub fn load(file: &Path) -> Result<Document> {
    let name = || file.display().to_string();
    let reader = BufReader::new(File::open(file).with_context(name)?);
    let load: Value = serde_json::from_reader(reader).with_context(name)?;
    let words: Vec<&str> =
        load["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str).skip(1).collect();
    let title = if words.is_empty() { name() } else { format!("plumb {}", words.join(" ")) };
    let made = load["environment"]["utc"].as_str().unwrap_or_default().to_string();
    let mut document = empty("load", &title, &made);
    document.loads = vec![load];
    document.absent.push(Absent {
        part: "account".into(),
        why: "It was not recorded; 'plumb run -- plumb load ...' records it.".into(),
    });
    Ok(document)
}

/// Of two sides, with a profile of each.
///
/// # Errors
/// A trace cannot be read.
pub fn comparison(args: &CompareArgs, found: &Comparison) -> Result<Document> {
    let title = format!("{} and {}", args.a.display(), args.b.display());
    let mut document = empty("comparison", &title, &utc());
    document.comparison = Some(serde_json::to_value(headed(found))?);
    let examples = found.examples();
    if found.a.members.len().max(found.b.members.len()) > 1 {
        eprintln!("profiles are of {} and {}", examples[0].display(), examples[1].display());
    }
    for (name, dir) in ["A", "B"].into_iter().zip(examples) {
        let analysis = Analysis::of(dir, &args.comm)?;
        if analysis.profile.time() > 0 {
            document.profiles.push(profile::document(&analysis.profile.compact(MOST_ENTRIES)));
        } else {
            let why = format!("No time of {name} was seen in {}.", dir.display());
            document.absent.push(Absent { part: "profile".into(), why });
        }
    }
    if document.profiles.len() < 2 {
        // One alone would be taken for the side before.
        document.profiles.clear();
    }
    Ok(document)
}

/// Of the runs of a lake before and after a change.
///
/// # Errors
/// It cannot be written as JSON.
pub fn fleet(found: &Fleet) -> Result<Document> {
    let title = format!("{} and {}", found.a.condition, found.b.condition);
    let mut document = empty("fleet", &title, &utc());
    document.fleet = Some(serde_json::to_value(headed(found))?);
    Ok(document)
}

/// Adds where the pages of a comparison's sides lie, for a page that is written to `file`: of a set its own page.
pub fn link_sides(document: &mut Document, found: &Comparison, file: &Path) {
    for (of, side, example) in [("A", &found.a, found.examples()[0]), ("B", &found.b, found.examples()[1])] {
        let pages = [side.path.join(PAGE), example.join(PAGE)];
        if let Some(href) = pages.iter().find_map(|page| href(file, page)) {
            document.pages.push(Page { of: of.into(), href });
        }
    }
}

/// The way from a page to another that is there, as an address: no path of the machine stands in it.
fn href(from: &Path, to: &Path) -> Option<String> {
    let to = to.canonicalize().ok()?;
    let dir = from.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let from = dir.canonicalize().ok()?;
    let same = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(same).map(|_| "..".to_string());
    let down = to.components().skip(same).map(|c| escaped(&c.as_os_str().to_string_lossy()));
    Some(up.chain(down).collect::<Vec<_>>().join("/"))
}

/// A name in an address: RFC 3986's unreserved characters as they are.
fn escaped(name: &str) -> String {
    let byte = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_from_another() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = |name: &str| temp.path().join(name);
        for dir in ["a b/1", "c"] {
            std::fs::create_dir_all(at(dir)).expect("writable");
        }
        std::fs::write(at("a b/1/report.html"), "").expect("writable");
        let to = at("a b/1/report.html");
        assert_eq!(href(&at("c/x.html"), &to).as_deref(), Some("../a%20b/1/report.html"));
        assert_eq!(href(&at("x.html"), &to).as_deref(), Some("a%20b/1/report.html"));
        assert_eq!(href(&at("a b/1/x.html"), &to).as_deref(), Some("report.html"));
        assert_eq!(href(&at("x.html"), &at("c/report.html")), None, "it is not there");
    }
}
