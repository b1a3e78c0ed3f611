// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds to a drawn graph what its library has no place for: a legend and remarks.

use super::labels::plain;
use anyhow::{Context, Result};
use std::fmt::Write;

/// Height of a line, pixels.
const LINE: usize = 18;
/// Width of a character of the legend's font, pixels.
const CHAR: usize = 7;
/// The legend's lines are no longer than this, so that a narrow window has them whole.
const WIDTH: usize = 1_000;

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Cuts a remark into lines at its blanks.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |l| l.chars().count());
        if last > 0 && (last + 1 + word.chars().count()) * CHAR > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// The graph with a legend below it, and a line for each remark.
///
/// # Errors
/// The graph does not look like the library's.
pub fn with_legend(graph: &[u8], legend: &[(String, [u8; 3])], remarks: &[&str]) -> Result<Vec<u8>> {
    let graph = std::str::from_utf8(graph).context("the flame graph is not UTF-8")?;
    let height: usize = graph
        .split_once(" height=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .and_then(|(number, _)| number.parse().ok())
        .context("the flame graph has no height")?;

    let (mut x, mut y) = (10, height + LINE);
    let mut body = String::new();
    for (text, [r, g, b]) in legend {
        let width = 16 + (text.chars().count() + 3) * CHAR;
        if x > 10 && x + width > WIDTH {
            (x, y) = (10, y + LINE);
        }
        let text = escape(text);
        let _ = write!(
            body,
            r##"<rect x="{x}" y="{}" width="11" height="11" fill="rgb({r},{g},{b})" stroke="#808080"/>"##,
            y - 10
        );
        let _ = write!(body, r#"<text x="{}" y="{y}">{text}</text>"#, x + 16);
        x += width;
    }
    for line in remarks.iter().flat_map(|r| wrap(r)) {
        y += LINE;
        let _ = write!(body, r#"<text x="10" y="{y}">{}</text>"#, escape(&line));
    }
    let whole = y + LINE;
    // The library's script looks for its own elements by their names, so that more of them are no harm.
    let group = format!(
        r##"<g id="legend"><rect x="0" y="{height}" width="100%" height="{}" fill="#ffffff"/>{body}</g>"##,
        whole - height
    );
    let (head, rest) = graph.split_once("<defs>").context("the flame graph has no head")?;
    let (rest, tail) = rest.rsplit_once("</svg>").context("the flame graph has no end")?;
    let head = head.replacen(&format!(" height=\"{height}\""), &format!(" height=\"{whole}\""), 1).replacen(
        &format!(" {height}\""),
        &format!(" {whole}\""),
        1,
    );
    Ok(format!("{head}<defs>{rest}{group}</svg>{tail}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_grows_by_the_legend() {
        let graph = r#"<svg width="1200" height="90" viewBox="0 0 1200 90"><defs></defs><svg></svg></svg>"#;
        let out =
            with_legend(graph.as_bytes(), &[("a & b".into(), [1, 2, 3])], &["left <x>"]).expect("drawn");
        let out = String::from_utf8(out).expect("text");
        assert!(out.starts_with(r#"<svg width="1200" height="144" viewBox="0 0 1200 144"><defs>"#), "{out}");
        assert!(out.contains(">a &amp; b</text>") && out.contains(">left &lt;x&gt;</text>"), "{out}");
        assert!(out.ends_with("</g></svg>"), "{out}");
        assert!(with_legend(b"<svg>", &[], &[]).is_err());
    }

    #[test]
    fn remarks_are_wrapped() {
        let long = "word ".repeat(60);
        let lines = wrap(&long);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| l.len() * CHAR <= WIDTH));
    }
}
