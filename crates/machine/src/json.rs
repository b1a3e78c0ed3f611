// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documents and streams of JSON for programs: each begins with `format` and `version`, its name and its version in
//! [`formats::ALL`]. `schemas/` has a JSON Schema of each, which `cargo xtask gen` makes of the type that is [`Output`].

pub mod formats;

use serde::Serialize;
use serde_json::Value;
use std::io::{BufWriter, Result, Write};

/// What a document or a stream is called.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// `plumb.NAME`.
    pub name: &'static str,
    /// Rises when a reader of the version before would go wrong.
    pub version: u32,
    about: &'static str,
    /// A stream: its first line has format and version, each other is an item.
    pub lines: bool,
    /// Its JSON Schema; of a stream that of a line.
    pub schema: &'static str,
}

impl Format {
    /// What it holds, and which command prints it.
    pub fn about(&self) -> &'static str {
        self.about.trim()
    }

    /// Its name without `plumb.`.
    pub fn short(&self) -> &'static str {
        self.name.trim_start_matches("plumb.")
    }

    /// The version of a document that was read; none where it is of another format. Before documents had a name, some had
    /// their version in `format`.
    pub fn version_of(&self, document: &Value) -> Option<u64> {
        match document.get("format")? {
            Value::String(name) if name == self.name => document.get("version")?.as_u64(),
            number => number.as_u64(),
        }
    }
}

/// A type that is printed as a document, or as an item of a stream.
pub trait Output: Serialize {
    const FORMAT: &'static Format;
}

#[derive(Serialize)]
struct Headed<'a, T> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    value: Option<&'a T>,
}

/// A document with its format and version in front, for a serializer.
pub fn headed<T: Output>(value: &T) -> impl Serialize + '_ {
    Headed { format: T::FORMAT.name, version: T::FORMAT.version, value: Some(value) }
}

/// Writes a document, indented.
///
/// # Errors
/// The writer's.
pub fn write<T: Output>(out: impl Write, value: &T) -> Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &headed(value))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes a document in one line.
///
/// # Errors
/// The writer's.
pub fn write_in_a_line<T: Output>(out: impl Write, value: &T) -> Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &headed(value))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes the first line of a stream.
///
/// # Errors
/// The writer's.
pub fn begin_lines<T: Output>(mut out: impl Write) -> Result<()> {
    let head = Headed::<T> { format: T::FORMAT.name, version: T::FORMAT.version, value: None };
    out.write_all((serde_json::to_string(&head)? + "\n").as_bytes())
}

/// Writes an item of a stream.
///
/// # Errors
/// The writer's.
pub fn line<T: Output>(mut out: impl Write, item: &T) -> Result<()> {
    out.write_all((serde_json::to_string(item)? + "\n").as_bytes())
}

/// Writes a document with one list up to the list's begin; who calls it writes the items and `]}`. For lists that no memory holds.
///
/// # Errors
/// The writer's.
pub fn begin_list<T: Output>(mut out: impl Write, key: &str) -> Result<()> {
    let head = Headed::<T> { format: T::FORMAT.name, version: T::FORMAT.version, value: None };
    let head = serde_json::to_string(&head)?;
    write!(out, "{},\"{key}\":[", head.trim_end_matches('}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize)]
    struct Findings {
        findings: Vec<u32>,
    }

    impl Output for Findings {
        const FORMAT: &'static Format = &formats::FINDINGS;
    }

    fn text(write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn format_and_version_stand_in_front() {
        let value = Findings { findings: vec![1] };
        let head = "{\"format\":\"plumb.findings\",\"version\":1";
        assert_eq!(text(|out| write_in_a_line(out, &value)), format!("{head},\"findings\":[1]}}\n"));
        assert_eq!(text(|out| begin_lines::<Findings>(out)), format!("{head}}}\n"));
        assert_eq!(text(|out| line(out, &value)), "{\"findings\":[1]}\n");
        assert_eq!(text(|out| begin_list::<Findings>(out, "findings")), format!("{head},\"findings\":["));
        assert!(text(|out| write(out, &value))
            .starts_with("{\n  \"format\": \"plumb.findings\",\n  \"version\": 1,\n"));
    }

    #[test]
    fn names_are_there_once_and_their_schemas_say_them() {
        let mut seen = std::collections::BTreeSet::new();
        for format in formats::ALL {
            assert!(
                format.name == format!("plumb.{}", format.short()) && seen.insert(format.name),
                "{format:?}"
            );
            let schema: Value = serde_json::from_str(format.schema).expect("JSON");
            assert_eq!(schema["title"], json!(format!("{} version {}", format.name, format.version)));
        }
    }

    #[test]
    fn earlier_documents_have_their_version_in_format() {
        let version = |document: Value| formats::REPORT.version_of(&document);
        assert_eq!(version(json!({ "format": 2 })), Some(2));
        assert_eq!(version(json!({ "format": "plumb.report", "version": 3 })), Some(3));
        for other in
            [json!({ "format": "plumb.load", "version": 3 }), json!({}), json!([]), json!({ "format": -1 })]
        {
            assert_eq!(version(other), None);
        }
    }
}
