// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names as a terminal may have them. Processes, files and locks are called as a program pleases: an escape
//! in a name would write elsewhere on the screen, and a change of direction would read as another name.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character does something other than be seen: controls, those that change the direction of text or end a
/// line (Unicode's Bidi_Control, U+2028, U+2029), and those of no width, with which two names look like one.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return text.into();
    }
    let shown = text.chars().map(|c| match c {
        '\n' | '\r' | '\t' if acts(c) => c.escape_default().to_string(),
        _ if !acts(c) => c.to_string(),
        _ if (c as u32) < 0x100 => format!("\\x{:02x}", c as u32),
        _ => c.escape_unicode().to_string(),
    });
    Cow::Owned(shown.collect())
}

/// A name whose characters are all seen: `\x1b` for an escape, `\n` for an end of line.
pub fn name(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// Text of several lines, whose characters are all seen.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && acts(c))
}

fn walk(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = name(text) {
                *text = shown;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(walk),
        Value::Object(fields) => {
            if fields.keys().any(|key| key.contains(acts)) {
                let old = std::mem::take(fields);
                fields.extend(old.into_iter().map(|(key, value)| (name(&key).into_owned(), value)));
            }
            fields.values_mut().for_each(walk);
        }
        _ => {}
    }
}

/// The same figures with all of their names so.
///
/// # Errors
/// A number that JSON has not.
pub fn all<T: Serialize + DeserializeOwned>(figures: &T) -> serde_json::Result<T> {
    let mut value = serde_json::to_value(figures)?;
    walk(&mut value);
    serde_json::from_value(value)
}

/// Writes text of whose names nothing is known: all but its ends of lines is made so. Each write must be of
/// whole characters, as those of `write!` are.
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(lines(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::{OtherRow, RunResult};

    const HOSTILE: &str = "a\x1b]0;x\x07\u{9b}2J\nverdict:\r\u{202e}cba\u{2069}\u{7f}";
    const SHOWN: &str = "a\\x1b]0;x\\x07\\x9b2J\\nverdict:\\r\\u{202e}cba\\u{2069}\\x7f";

    #[test]
    fn a_hostile_name_does_nothing() {
        assert_eq!(name(HOSTILE), SHOWN);
        assert_eq!(name("root\u{200b}\u{feff}\u{ad}"), "root\\u{200b}\\u{feff}\\xad");
        for good in ["dd", "größe 名前 🙂 é", "a\\n b"] {
            assert!(matches!(name(good), Cow::Borrowed(same) if same == good));
        }
    }

    #[test]
    fn names_of_figures_are_all_shown_so() {
        let mut result = RunResult { events: u64::MAX, ..RunResult::default() };
        result.others.push(OtherRow { comm: HOSTILE.into(), ..OtherRow::default() });
        result.counters.insert(HOSTILE.into(), 7);
        let plain = all(&result).expect("figures");
        assert_eq!((plain.others[0].comm.as_str(), plain.counters[SHOWN]), (SHOWN, 7));
        assert_eq!(plain.events, u64::MAX);
    }

    #[test]
    fn text_keeps_its_lines() {
        let mut out = Plain(Vec::new());
        write!(out, "one\n{HOSTILE}\n").expect("memory");
        let text = String::from_utf8(out.0).expect("UTF-8");
        assert_eq!(text, format!("one\n{}\n", SHOWN.replace("\\n", "\n")));
    }
}
