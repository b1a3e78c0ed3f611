// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts that name spans: what two requests have in common, without what may be private in them.

use plumb_trace::schema::StateText;
use std::collections::HashMap;

/// Texts that are told apart; spans with others have no key.
const MOST: usize = 10_000;
/// A text is told up to so many characters.
const LONGEST: usize = 400;

/// The texts that were seen, each with its number.
#[derive(Debug, Default)]
pub struct Texts {
    numbers: HashMap<String, u32>,
    /// The texts themselves are told.
    whole: bool,
    /// Spans whose text found no place.
    pub left_out: u64,
}

impl Texts {
    pub fn new(whole: bool) -> Self {
        Self { whole, ..Self::default() }
    }

    /// The number of a text, and what the trace is told of it where it is new. `None`: there are too many.
    pub fn number(&mut self, raw: &[u8], sql: bool) -> Option<(u32, Option<StateText>)> {
        let raw = raw.split(|b| *b == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(raw);
        let text = match (sql, self.whole.then(|| name(&text)).flatten()) {
            (true, Some(name)) => format!("{name}: {}", statement(&text)),
            (true, None) => statement(&text),
            (false, _) => text.trim().to_string(),
        };
        if let Some(number) = self.numbers.get(&text) {
            return Some((*number, None));
        }
        if self.numbers.len() >= MOST {
            self.left_out += 1;
            return None;
        }
        let number = self.numbers.len() as u32 + 1;
        let value = if self.whole { text.chars().take(LONGEST).collect() } else { hidden(&text) };
        self.numbers.insert(text, number);
        Some((number, Some(StateText { text: number, value })))
    }
}

/// The first word of a text and a hash of all of it: nobody's data, and the same in every run.
fn hidden(text: &str) -> String {
    let word: String = text.chars().take_while(|c| c.is_ascii_alphabetic()).take(16).collect();
    let hash = crc32fast::hash(text.as_bytes());
    let space = if word.is_empty() { "" } else { " " };
    format!("{}{space}#{hash:08x}", word.to_ascii_uppercase())
}

/// The word that a statement's first comment is, as in `/* Q1 */ select`: its name among statements that are alike.
fn name(text: &str) -> Option<&str> {
    let (name, _) = text.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let name = name.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
    // A number of a request, as tracers write there, is no name: each statement would be of its own kind.
    let digits = name.chars().filter(char::is_ascii_digit).count();
    (is_word && name.len() <= 16 && digits <= 3).then_some(name)
}

/// A statement of SQL without its literals, comments and layout. Lists of values become one, so that
/// statements of one kind are one, however many rows they name.
fn statement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let last = out.bytes().next_back();
        match rest {
            [b'\'', ..] => {
                at += quoted(rest, b'\'');
                value(&mut out);
            }
            [b'"' | b'`', ..] => {
                let length = quoted(rest, rest[0]);
                out.push_str(&text[at..at + length]);
                at += length;
            }
            [b'-', b'-', ..] => {
                at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            }
            [b'/', b'*', ..] => {
                let end = rest.windows(2).skip(2).position(|w| w == b"*/");
                at += end.map_or(rest.len(), |n| n + 4);
            }
            [b'$', b, ..] if b.is_ascii_digit() => {
                at += 1 + rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
                value(&mut out);
            }
            [b'0'..=b'9', ..] if !last.is_some_and(is_word) => {
                at += rest.iter().take_while(|b| is_word(**b) || **b == b'.').count();
                value(&mut out);
            }
            [b, ..] if b.is_ascii_whitespace() => {
                if !matches!(last, None | Some(b' ' | b'(')) {
                    out.push(' ');
                }
                at += 1;
            }
            _ => {
                let c = text[at..].chars().next().unwrap_or(' ');
                if c == ')' && last == Some(b' ') {
                    out.pop();
                }
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    let mut out = out.trim().trim_end_matches(';').trim_end().to_string();
    while out.contains("(?), (?)") || out.contains("(?),(?)") {
        out = out.replace("(?), (?)", "(?)").replace("(?),(?)", "(?)");
    }
    out
}

/// Puts a literal's mark; in a list, one for all, and a sign belongs to its number.
fn value(out: &mut String) {
    if let Some(before) = out.trim_end().strip_suffix('-') {
        if before.trim_end().ends_with(['=', '(', ',', '<', '>', '+', '-', '*', '/', '%']) {
            out.truncate(before.len());
        }
    }
    if out.trim_end().ends_with("?,") {
        out.truncate(out.trim_end().len() - 1);
        return;
    }
    if out.ends_with(',') {
        out.push(' ');
    }
    out.push('?');
}

/// Bytes of a quoted piece, its quotes included; a doubled or escaped quote does not end it.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        if rest[at] == b'\\' && quote == b'\'' {
            at += 2;
        } else if rest[at] == quote {
            if rest.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_kind_are_one() {
        for (text, same) in [
            ("SELECT abalance FROM t WHERE aid = 4711;", "SELECT abalance FROM t WHERE aid = ?"),
            ("SELECT  abalance\n FROM t WHERE aid=-12", "SELECT abalance FROM t WHERE aid=?"),
            ("insert into t values (1, 'a''b', 2.5e3), (2,'c',null)", "insert into t values (?), (?,null)"),
            ("insert into t values (1,2),(3,4),( 5, 6 )", "insert into t values (?)"),
            (
                "select * from t1 where x in (1,2, 3) -- why\n and \"My 1\" = E'\\'x'",
                "select * from t1 where x in (?) and \"My 1\" = E?",
            ),
            ("set a = a + -42, b = b - 1", "set a = a + ?, b = b - ?"),
            ("update t set a = a - 1 /* 5 */ where b = $1", "update t set a = a - ? where b = ?"),
            ("select 'unended", "select ?"),
            ("select 'é', \"ü", "select ?, \"ü"),
        ] {
            assert_eq!(statement(text), same, "{text}");
        }
    }

    #[test]
    fn a_text_stays_private_and_has_one_number() {
        let mut texts = Texts::new(false);
        let (one, told) = texts.number(b"select secret from t where id = 5\0", true).expect("room");
        let value = told.expect("new").value;
        assert!(value.starts_with("SELECT #") && !value.contains("secret"), "{value}");
        assert_eq!(texts.number(b"select secret from t where id = 6", true), Some((one, None)));
        let named = b"/* Q1 */ select 1";
        assert!(!texts.number(named, true).and_then(|t| t.1).expect("new").value.contains("Q1"));
        let mut whole = Texts::new(true);
        let value =
            |texts: &mut Texts, raw: &[u8]| texts.number(raw, true).and_then(|t| t.1).expect("new").value;
        assert_eq!(value(&mut whole, named), "Q1: select ?");
        assert_eq!(value(&mut whole, b" /*Q2*/ select 1"), "Q2: select ?");
        assert_eq!(value(&mut whole, b"/* user 5 */ select 1"), "select ?");
        assert_eq!(whole.number(b"/* a3f80c21d */ select 1", true).map(|t| t.0), Some(3), "as without it");
        let (two, told) = Texts::new(true).number(b"GET /a", false).expect("room");
        assert_eq!((two, told.expect("new").value.as_str()), (1, "GET /a"));
    }

    #[test]
    fn any_bytes_are_a_text() {
        for text in
            [&b"\xff\xfe'\\"[..], b"/*", b"--", b"$", b"$1", b"'", b"\"", b"1", b"-1", b"", b"#", b"(- 1"]
        {
            _ = Texts::new(true).number(text, true);
            _ = statement(&String::from_utf8_lossy(text));
        }
    }
}
