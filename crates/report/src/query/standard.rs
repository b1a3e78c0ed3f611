// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard SQL that SQLite's parser has only where it is built from its grammar: ordered-set aggregates.

use std::borrow::Cow;
use std::ops::Range;

/// The places of a statement's words, texts and signs; spaces and comments are left out.
fn tokens(sql: &str) -> Vec<Range<usize>> {
    let bytes = sql.as_bytes();
    let behind = |from: usize, end: &str| sql[from..].find(end).map_or(sql.len(), |at| from + at + end.len());
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (end, told) = match bytes[at] {
            b'-' if bytes[at..].starts_with(b"--") => (behind(at, "\n"), false),
            b'/' if bytes[at..].starts_with(b"/*") => (behind(at + 2, "*/"), false),
            b'\'' => (behind(at + 1, "'"), true),
            b'"' => (behind(at + 1, "\""), true),
            b'`' => (behind(at + 1, "`"), true),
            b'[' => (behind(at + 1, "]"), true),
            b if is_word(&b) => (at + bytes[at..].iter().take_while(|b| is_word(b)).count(), true),
            b => (at + 1, !b.is_ascii_whitespace()),
        };
        if told {
            out.push(at..end);
        }
        at = end;
    }
    out
}

/// A statement in which every `f(p) within group (order by x)` is SQLite's `f(x, p)`. One that orders downwards stays
/// as it is, and is refused.
pub fn for_sqlite(sql: &str) -> Cow<'_, str> {
    let mut sql = Cow::Borrowed(sql);
    while let Some(next) = without_the_first(&sql) {
        sql = Cow::Owned(next);
    }
    sql
}

fn without_the_first(sql: &str) -> Option<String> {
    let tokens = tokens(sql);
    let is =
        |at: usize, word: &str| tokens.get(at).is_some_and(|t| sql[t.clone()].eq_ignore_ascii_case(word));
    let words = |at: usize| {
        [")", "within", "group", "(", "order", "by"].iter().enumerate().all(|(i, w)| is(at + i, w))
    };
    // The token at which the bracket that is open at `from` is closed; `step` back or forth.
    let other = |from: usize, (opens, closes): (&str, &str), step: isize| {
        let (mut at, mut open) = (from, 0);
        loop {
            open += i32::from(is(at, opens)) - i32::from(is(at, closes));
            if open == 0 {
                return Some(at);
            }
            at = at.checked_add_signed(step).filter(|at| *at < tokens.len())?;
        }
    };
    (0..tokens.len()).filter(|at| words(*at)).find_map(|at| {
        let open = other(at, (")", "("), -1)?;
        let close = other(at + 3, ("(", ")"), 1)?;
        let last = close - usize::from(is(close - 1, "asc"));
        if last <= at + 6 || is(close - 1, "desc") {
            return None;
        }
        let (argument, value) =
            (tokens[open].end..tokens[at].start, tokens[at + 6].start..tokens[last - 1].end);
        let (before, behind) = (&sql[..tokens[open].end], &sql[tokens[close].start..]);
        Some(format!("{before}{}, {}{behind}", &sql[value], sql[argument].trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::for_sqlite;

    #[test]
    fn ordered_sets_are_written_as_sqlite_has_them() {
        for (standard, sqlite) in [
            ("select percentile_cont(0.9) within group (order by x) from t", "select percentile_cont(x, 0.9) from t"),
            (
                "select a, Percentile_Cont ( 1 - (0.5) ) WITHIN GROUP(ORDER BY max(x, (y)) asc) / 1e6 p from t",
                "select a, Percentile_Cont (max(x, (y)), 1 - (0.5)) / 1e6 p from t",
            ),
            (
                "select f(1) within group (order by x), f(2) /* ) */ within group (order by ')')",
                "select f(x, 1), f(')', 2)",
            ),
        ] {
            assert_eq!(for_sqlite(standard), sqlite);
        }
        for same in [
            "select ') within group (order by x)' from t group by 1 order by 1",
            "select percentile_cont(0.9) within group (order by x desc) from t",
            "select 1 -- f(1) within group (order by x)",
            "f(1) within group (order by",
            ") within group (order by x)",
            "f(1) within group (order by)",
            "'",
            "",
        ] {
            assert_eq!(for_sqlite(same), same);
        }
    }
}
