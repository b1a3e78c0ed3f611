// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A text in comma-separated values, as every sink of plumb writes it.

use std::borrow::Cow;

/// A field as RFC 4180 wants it, and that no spreadsheet takes for a formula.
pub fn text(field: &str) -> String {
    let field = inert(field);
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

/// A text that a spreadsheet shows and does not compute: names of processes, files and commands are whatever their
/// users like, and `=HYPERLINK(...)` in a cell is a formula of theirs. One that begins like a formula and is no number
/// gets a single quote in front, which spreadsheets take for "a text follows".
pub fn inert(field: &str) -> Cow<'_, str> {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    if formula {
        return Cow::Owned(format!("'{field}"));
    }
    Cow::Borrowed(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::csv::line;
    use crate::table::Cell;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(text("plain text"), "plain text");
        assert_eq!(text("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn what_begins_like_a_formula_is_a_text_in_every_sink() {
        let corpus = [
            ("=1+1", "'=1+1"),
            ("+1+1", "'+1+1"),
            ("-bash", "'-bash"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1+1", "'\t=1+1"),
            ("\r=1", "\"'\r=1\""),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            // Numbers, and what begins otherwise, are as they were.
            ("-1", "-1"),
            ("+1.5e3", "+1.5e3"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("a=1", "a=1"),
            ("'quoted'", "'quoted'"),
            ("nginx: worker", "nginx: worker"),
        ];
        for (given, written) in corpus {
            assert_eq!(text(given), written);
            let mut out = Vec::new();
            line([Cell::Text(given), Cell::Integer(-1), Cell::Real(-0.5)], "\n", &mut out);
            let out = String::from_utf8(out).expect("UTF-8");
            assert_eq!(out, format!("{written},-1,-0.5\n"));
        }
    }
}
