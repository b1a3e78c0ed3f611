// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts that lie as SVG in a directory, in a document: its page shows them without the files.

use crate::document::{Absent, ChartImage, Document};
use crate::page;
use anyhow::{ensure, Context, Result};
use plumb_trace::units;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a page with charts.
pub const MOST_PAGE: u64 = 5 << 20;

/// Part of a document's `absent` that they are.
const PART: &str = "charts";

/// Puts files of a directory into a document, in their order, as far as its page has at most [`MOST_PAGE`] bytes. `absent` names the
/// others.
///
/// # Errors
/// The document cannot be written.
pub fn put(document: &mut Document, dir: &Path, files: &[PathBuf]) -> Result<()> {
    put_up_to(MOST_PAGE, document, dir, files)
}

fn put_up_to(most: u64, document: &mut Document, dir: &Path, files: &[PathBuf]) -> Result<()> {
    let mut bytes = page::bytes(document)? + r#","charts":[]"#.len() as u64;
    for file in files {
        let name = file.display();
        let why = match read(dir, file) {
            Ok(image) => {
                let more = page::bytes_of(&image)?;
                if bytes + more <= most {
                    bytes += more;
                    document.charts.push(image);
                    continue;
                }
                let (own, most) = (units::bytes(image.svg.len() as u64), units::bytes(most));
                format!("{name} ({own}) is left out: a page with charts has at most {most}. The plan's directory has the file.")
            }
            Err(e) => format!("{name} cannot be shown: {e:#}."),
        };
        let absent = Absent { part: PART.into(), why };
        bytes += page::bytes_of(&absent)?;
        document.absent.push(absent);
    }
    Ok(())
}

fn read(dir: &Path, file: &Path) -> Result<ChartImage> {
    let path = dir.join(file);
    // To open a pipe is to wait for its writer; where a link leads may be anything that this user can read.
    ensure!(path.symlink_metadata()?.is_file(), "it is no file");
    let open = std::fs::File::open(&path)?;
    let facts = open.metadata()?;
    ensure!(facts.len() <= MOST_PAGE, "it has {}", units::bytes(facts.len()));
    let mut svg = String::new();
    open.take(MOST_PAGE).read_to_string(&mut svg)?;
    ensure!(svg.starts_with("<svg "), "it is no SVG of plumb's");
    let stem = file.file_stem().context("it has no name")?.to_string_lossy();
    Ok(ChartImage {
        file: file.display().to_string(),
        title: text_of(&svg, "title").unwrap_or_else(|| stem.into_owned()),
        description: text_of(&svg, "desc").unwrap_or_default(),
        svg,
    })
}

/// Text of the first element of this name, as [`crate::chart::canvas`] writes it.
fn text_of(svg: &str, element: &str) -> Option<String> {
    let (_, behind) = svg.split_once(&format!("<{element}>"))?;
    let (text, _) = behind.split_once(&format!("</{element}>"))?;
    Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::canvas::{sheet, Sheet};
    use crate::run::empty;

    fn directory(charts: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, svg) in charts {
            std::fs::write(dir.path().join(name), svg).expect("a file");
        }
        (dir, charts.iter().map(|c| c.0.into()).collect())
    }

    fn drawn(title: &str, description: &str) -> String {
        let page = Sheet { title: title.into(), description: description.into(), ..Sheet::default() };
        sheet(&page, |_| Ok(())).expect("drawn")
    }

    #[test]
    fn a_chart_has_the_words_that_it_was_drawn_with() {
        let svg = drawn("a < b & c", "1: 2 s; <desc>");
        let (dir, files) = directory(&[("x.svg", &svg), ("bare.svg", "<svg width=\"1\"></svg>")]);
        let mut document = empty("plan", "p", "");
        put(&mut document, dir.path(), &files).expect("read");
        let image = &document.charts[0];
        assert_eq!((image.file.as_str(), image.title.as_str()), ("x.svg", "a < b & c"));
        assert_eq!((image.description.as_str(), &image.svg), ("1: 2 s; <desc>", &svg));
        assert_eq!(
            (document.charts[1].title.as_str(), document.charts[1].description.as_str()),
            ("bare", "")
        );
        assert_eq!(document.absent, []);
    }

    #[test]
    fn what_is_no_chart_is_named_with_the_reason() {
        let (dir, mut files) = directory(&[("secret.svg", "root:x:0:0"), ("x.svg", "<svg ></svg>")]);
        std::fs::create_dir(dir.path().join("d.svg")).expect("a directory");
        files.extend(["d.svg".into(), "gone.svg".into()]);
        let mut document = empty("plan", "p", "");
        put(&mut document, dir.path(), &files).expect("read");
        assert_eq!(document.charts.len(), 1);
        let told: Vec<&str> = document.absent.iter().map(|a| a.why.as_str()).collect();
        let begins =
            ["secret.svg cannot be shown: it is no SVG", "d.svg cannot be shown: it is no file", "gone.svg"];
        assert!(told.len() == 3 && told.iter().zip(begins).all(|(t, b)| t.starts_with(b)), "{told:?}");
    }

    #[test]
    fn a_page_has_room_for_so_many_bytes_as_it_is_written() {
        // Brackets take six bytes in a page, and a quotation mark two.
        let large = format!("<svg >{}</svg>", "<\"".repeat(1000));
        let (dir, files) = directory(&[("a.svg", &large), ("b.svg", &large), ("c.svg", "<svg ></svg>")]);
        let mut document = empty("plan", "p", "");
        let most = page::bytes(&document).expect("memory") + 12_000;
        put_up_to(most, &mut document, dir.path(), &files).expect("read");
        let names: Vec<&str> = document.charts.iter().map(|c| c.file.as_str()).collect();
        assert_eq!(names, ["a.svg", "c.svg"], "a small one may fit behind one that does not");
        assert_eq!(document.absent.len(), 1);
        let why = &document.absent[0].why;
        assert!(why.starts_with("b.svg (2.0 KiB) is left out: a page with charts has at most "), "{why}");
        assert!(page::bytes(&document).expect("memory") <= most);
    }
}
