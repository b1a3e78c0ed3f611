// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: the built program of web/, with a document in it; one file that needs no other.

use crate::document::Document;
use anyhow::{bail, Context, Result};
use plumb_machine::json::headed;
use serde::Serialize;
use std::io::{BufWriter, Write};

/// What `npm run build` in web/ made.
const PAGE: &str = include_str!("../page.html");

/// Where the document stands; a browser neither runs nor shows it.
const BEGIN: &str = r#"<script type="application/json" id="plumb-report">"#;
const END: &str = "</script>";
/// What stands there in a page without a document.
const EMPTY: &str = "PLUMB_REPORT";

/// The page before and behind the document.
fn parts(page: &str) -> Result<(&str, &str)> {
    let marker = format!("{BEGIN}{EMPTY}{END}");
    let Some((before, behind)) = page.split_once(&marker) else {
        bail!("crates/report/page.html has no {marker}; build it anew: npm run build in web/");
    };
    if behind.contains(&marker) {
        bail!("crates/report/page.html has {marker} more than once; build it anew: npm run build in web/");
    }
    Ok((before, behind))
}

/// Writes JSON whose strings have no `<`: in HTML nothing in it ends the element or begins another.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for (n, piece) in bytes.split(|b| *b == b'<').enumerate() {
            if n > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Writes the page of a document.
///
/// # Errors
/// The writer's; the built page has no place for a document.
pub fn write(document: &Document, out: &mut dyn Write) -> Result<()> {
    let (before, behind) = parts(PAGE)?;
    let mut out = BufWriter::new(out);
    out.write_all(before.as_bytes())?;
    out.write_all(BEGIN.as_bytes())?;
    headed(document)
        .serialize(&mut serde_json::Serializer::new(Escaped(&mut out)))
        .context("the document")?;
    out.write_all(END.as_bytes())?;
    out.write_all(behind.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Counts what is written.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes of the page of a document.
///
/// # Errors
/// As [`write`].
pub fn bytes(document: &Document) -> Result<u64> {
    let mut count = Count(0);
    write(document, &mut count)?;
    Ok(count.0)
}

/// Bytes that one more element of a list of the document takes in its page.
///
/// # Errors
/// It cannot be JSON.
pub fn bytes_of(element: &impl Serialize) -> Result<u64> {
    let mut count = Count(0);
    element.serialize(&mut serde_json::Serializer::new(Escaped(&mut count)))?;
    // The comma before it.
    Ok(count.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Run;
    use plumb_model::{ProcessRow, RunResult};

    #[test]
    fn the_built_page_has_one_place_for_a_document() {
        let (before, behind) = parts(PAGE).expect("crates/report/page.html");
        assert!(before.starts_with("<!doctype html>") || before.starts_with("<!DOCTYPE html>"));
        assert!(behind.trim_end().ends_with("</html>"));
        assert!(parts("<html></html>").is_err());
        let marker = format!("{BEGIN}{EMPTY}{END}");
        assert!(parts(&format!("a{marker}b{marker}c")).is_err());
        assert_eq!(parts(&format!("a{marker}b")).expect("one"), ("a", "b"));
    }

    #[test]
    fn hostile_names_are_text() {
        let names =
            ["</script><script>alert(1)</script>", "<!--", "<!-- <script>", "]]>", "a<b", "\u{2028}\"\\"];
        let processes = names.map(|n| ProcessRow { comm: n.into(), ..ProcessRow::default() });
        let result = RunResult { processes: processes.into(), ..RunResult::default() };
        let run = Run { result, ..Run::default() };
        let document = Document { title: names[0].into(), run: Some(run), ..Document::default() };
        let mut page = Vec::new();
        write(&document, &mut page).expect("memory");
        let page = String::from_utf8(page).expect("UTF-8");
        let from = page.find(BEGIN).expect("the place") + BEGIN.len();
        // As a browser does: up to the first end tag.
        let text = &page[from..from + page[from..].find(END).expect("its end")];
        assert!(!text.contains('<'), "{text}");
        let back: Document = serde_json::from_str(text).expect("JSON");
        assert_eq!(back, document);
        let (_, behind) = parts(PAGE).expect("the page");
        assert!(page.ends_with(&format!("{END}{behind}")));
    }
}
