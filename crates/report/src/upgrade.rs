// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading `report.json` of this version and of earlier ones.

use crate::document::Document;
use anyhow::{bail, Context, Result};
use plumb_machine::json::formats::REPORT;
use serde_json::{json, Value};
use std::path::Path;

/// Makes a document of one version one of the next.
type Step = fn(&mut Value) -> Result<()>;

/// The first makes version 2 of version 1, and so on; there is one less than there are versions.
const STEPS: &[Step] = &[to_2, to_3];

/// Words that the page decided itself before: what a wait was for, CPUs' states; the verdict's lines.
fn to_2(value: &mut Value) -> Result<()> {
    if let Some(words) = value.get_mut("words") {
        *words = serde_json::to_value(crate::words::words())?;
    }
    let Some(diagnosis) = value.pointer_mut("/run/diagnosis") else { return Ok(()) };
    let verdict = diagnosis.get("verdict").and_then(Value::as_array).cloned().unwrap_or_default();
    let line = |(i, text): (usize, Value)| {
        json!({
            "role": if i == 0 { "bottleneck" } else { "fact" }, "label": "", "text": text,
        })
    };
    diagnosis["lines"] = verdict.into_iter().enumerate().map(line).collect();
    for finding in diagnosis.get_mut("findings").and_then(Value::as_array_mut).into_iter().flatten() {
        finding["headline"] = finding.get("title").cloned().unwrap_or_default();
    }
    Ok(())
}

/// `format` was the version's number, also of profiles and plans in the document; these have neither now.
fn to_3(_: &mut Value) -> Result<()> {
    Ok(())
}

const _: () = assert!(STEPS.len() + 1 == REPORT.version as usize, "every version needs a step to the next");

/// Reads a document; an older one is brought up to this version.
///
/// # Errors
/// The file cannot be read, is cut off or no report; its version is newer. Named, with the next step.
pub fn read(path: &Path) -> Result<Document> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

/// Reads a document from the text of a `report.json`.
///
/// # Errors
/// It is cut off, damaged or no report; its version is newer.
pub fn parse(text: &[u8]) -> Result<Document> {
    let value: Value = serde_json::from_slice(text).map_err(|e| told(&e))?;
    let value = upgraded(value, STEPS)?;
    serde_json::from_value(value).context("is not a report of plumb; recreate it: plumb report DIR")
}

fn told(error: &serde_json::Error) -> anyhow::Error {
    let next = "recreate it from the run directory: plumb report DIR";
    if error.is_eof() {
        anyhow::anyhow!("is cut off at line {}: {next}", error.line())
    } else {
        anyhow::anyhow!("is no report: {error}; {next}")
    }
}

fn upgraded(mut value: Value, steps: &[Step]) -> Result<Value> {
    let newest = steps.len() as u64 + 1;
    let Some(version) = REPORT.version_of(&value).filter(|v| *v > 0) else {
        bail!("is no report: it has no \"format\" of one; plumb report DIR makes one");
    };
    if version > newest {
        let writer = value.get("plumb").and_then(Value::as_str).unwrap_or("of another version");
        bail!(
            "has version {version}, written by plumb {writer}; this is plumb {}, which knows versions up to {newest}: read it with the plumb that wrote it, or recreate it with this one: plumb report DIR",
            env!("CARGO_PKG_VERSION")
        );
    }
    for (n, step) in steps.iter().enumerate().skip(version as usize - 1) {
        let next = n as u64 + 2;
        step(&mut value).with_context(|| format!("cannot be brought from version {} to {next}", next - 1))?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use plumb_machine::json;

    fn text() -> Vec<u8> {
        let mut text = Vec::new();
        json::write(&mut text, &run::empty("run", "dd", "")).expect("written");
        text.pop();
        text
    }

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(parse(&text()).expect("whole"), run::empty("run", "dd", ""));
        // Fields of later versions of the same format are no trouble, nor are those that are new here.
        let mut value: Value = serde_json::from_slice(&text()).expect("JSON");
        value["later"] = json!([1]);
        value.as_object_mut().expect("an object").remove("absent");
        assert_eq!(parse(value.to_string().as_bytes()).expect("whole"), run::empty("run", "dd", ""));
    }

    #[test]
    fn older_ones_go_step_by_step() {
        let steps: [Step; 2] = [
            |v| {
                v["title"] = json!(v["name"].as_str().context("it has no name")?);
                Ok(())
            },
            |v| {
                v["title"] = json!(format!("{} in version 3", v["title"].as_str().unwrap_or_default()));
                Ok(())
            },
        ];
        let up = |v: Value| upgraded(v, &steps);
        let first = up(json!({ "format": 1, "name": "dd" })).expect("two steps");
        assert_eq!(first["title"], "dd in version 3");
        let second = up(json!({ "format": 2, "title": "dd" })).expect("one step");
        assert_eq!(second["title"], "dd in version 3");
        let third = json!({ "format": "plumb.report", "version": 3, "title": "dd" });
        assert_eq!(up(third.clone()).expect("none"), third);
        let error = format!("{:#}", up(json!({ "format": 1 })).expect_err("no name"));
        assert_eq!(error, "cannot be brought from version 1 to 2: it has no name");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let error = |text: &[u8]| format!("{:#}", parse(text).expect_err("bad"));
        let newer =
            json!({ "format": REPORT.name, "version": REPORT.version + 1, "plumb": "9.1" }).to_string();
        let told = error(newer.as_bytes());
        assert!(
            told.contains("version 4, written by plumb 9.1") && told.contains("plumb report DIR"),
            "{told}"
        );
        let whole = text();
        for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
            assert!(
                error(&whole[..cut]).starts_with("is cut off at line"),
                "{cut}: {}",
                error(&whole[..cut])
            );
        }
        for no_report in ["{}", "[]", "7", "{\"format\": 0}", "{\"format\": \"plumb.load\"}"] {
            let told = error(no_report.as_bytes());
            assert!(told.starts_with("is no report: it has no \"format\""), "{told}");
        }
        assert!(error(b"no JSON").starts_with("is no report: "), "{}", error(b"no JSON"));
        let told = error(b"{\"format\": 1, \"plumb\": 7}");
        assert!(told.starts_with("is not a report of plumb"), "{told}");
    }
}
