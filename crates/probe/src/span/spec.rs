// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words that describe a span: `NAME=[FILE:]BEGIN[(KEY)][ if CONDITION][..END[ if CONDITION]]`.

use super::usdt;
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// A span as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    /// The program or library, or [`KERNEL`]; `None`: the target's own program.
    pub file: Option<PathBuf>,
    pub begin: Place,
    pub end: End,
    pub key: Option<Key>,
    /// As it was written.
    pub text: String,
}

/// A function, and when its call counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub symbol: String,
    pub condition: Option<Condition>,
}

/// Where a span ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At the return of the function that began it.
    Return,
    /// At another call.
    At(Place),
}

/// What an argument's low 32 bits must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// From 0 on.
    pub argument: u8,
    pub value: u32,
    /// Equal, or not.
    pub equal: bool,
}

/// The argument that names a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// An integer.
    Number(u8),
    /// A text that ends with a NUL, or is as long as another argument says.
    Text {
        argument: u8,
        length: Option<u8>,
        /// SQL: its literals are replaced.
        sql: bool,
    },
}

/// In the place of a file: the kernel.
pub const KERNEL: &str = "kernel";
const FORM: &str = "NAME=[FILE:]FUNCTION[(argN[:string|:sql])][..FUNCTION], or with %PROBE for FUNCTION";
/// Arguments that come in registers.
const MOST_ARGUMENTS: u8 = 6;

impl Spec {
    /// Reads one, such as `query=exec_simple_query(arg0:sql)`.
    ///
    /// # Errors
    /// Not of that form; what is wrong with it.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).with_context(|| format!("'{text}' is not {FORM}"))
    }

    fn read(text: &str) -> Result<Self> {
        let (name, rest) = match text.strip_prefix("kernel:") {
            // A kernel function is its own name.
            Some(function) => (function.split(['(', ' ', '.']).next().unwrap_or_default(), text),
            None => text.split_once('=').context("there is no '='")?,
        };
        let named = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if !named {
            bail!("a span's name has letters, digits, '-', '_' and '.'");
        }
        // Conditions have colons in no place, a key has one behind its parenthesis.
        let head = rest.split(['(', ' ']).next().unwrap_or_default();
        let (file, places) = match head.rfind(':') {
            Some(at) => (Some(PathBuf::from(&rest[..at])), &rest[at + 1..]),
            None => (None, rest),
        };
        let (begin, end) = match places.split_once("..") {
            Some((begin, end)) => (begin, End::At(Place::parse(end)?)),
            None => (places, End::Return),
        };
        let (begin, key) = take_key(begin)?;
        let begin = Place::parse(&begin)?;
        let probe = |place: &Place| place.symbol.starts_with(usdt::SIGN);
        let probes = match &end {
            End::At(end) => (probe(&begin), probe(end)),
            End::Return => (probe(&begin), false),
        };
        if probes.0 && end == End::Return {
            bail!("a USDT probe does not return: say where the span ends, as in NAME=%begin..%end");
        }
        let conditions = begin.condition.filter(|_| probes.0).or(match &end {
            End::At(end) => end.condition.filter(|_| probes.1),
            End::Return => None,
        });
        if conditions.is_some() || (probes.0 && matches!(key, Some(Key::Text { length: Some(_), .. }))) {
            bail!("conditions and lengths are read from the arguments of functions, not of USDT probes");
        }
        Ok(Self { name: name.into(), file, begin, end, key, text: text.into() })
    }

    /// From the words of a program's profile.
    ///
    /// # Errors
    /// As of [`Spec::parse`].
    pub fn of_program(name: &str, begin: &str, end: &str, key: Option<&str>) -> Result<Self> {
        let end = if end == "return" { End::Return } else { End::At(Place::parse(end)?) };
        let key = key.map(Key::parse).transpose()?;
        Ok(Self { name: name.into(), file: None, begin: Place::parse(begin)?, end, key, text: begin.into() })
    }

    /// Whether its places are functions of the kernel.
    pub fn of_kernel(&self) -> bool {
        self.file.as_deref() == Some(Path::new(KERNEL))
    }

    /// The places, for people.
    pub fn places(&self) -> String {
        match &self.end {
            End::Return => self.begin.symbol.clone(),
            End::At(place) if place.symbol == self.begin.symbol => self.begin.symbol.clone(),
            End::At(place) => format!("{} to {}", self.begin.symbol, place.symbol),
        }
    }
}

/// Splits `f(arg0:sql) if ...` into `f if ...` and the key.
fn take_key(text: &str) -> Result<(String, Option<Key>)> {
    let Some((symbol, rest)) = text.split_once('(') else { return Ok((text.into(), None)) };
    let (key, rest) = rest.split_once(')').context("there is no ')' behind the key")?;
    Ok((format!("{symbol}{rest}"), Some(Key::parse(key)?)))
}

fn argument(word: &str) -> Result<u8> {
    let n = word.trim().strip_prefix("arg").and_then(|n| n.parse().ok());
    n.filter(|n| *n < MOST_ARGUMENTS).with_context(|| {
        format!(
            "'{word}' is no argument: arg0 is the first, arg{} the last that can be read",
            MOST_ARGUMENTS - 1
        )
    })
}

impl Key {
    fn parse(text: &str) -> Result<Self> {
        let mut words = text.split(':');
        let n = argument(words.next().unwrap_or_default())?;
        let kind = words.next();
        let length = words.next().map(argument).transpose()?;
        match kind {
            None => Ok(Key::Number(n)),
            Some("string") => Ok(Key::Text { argument: n, length, sql: false }),
            Some("sql") => Ok(Key::Text { argument: n, length, sql: true }),
            Some(other) => bail!("'{other}' is no kind of key: string or sql, or nothing for a number"),
        }
    }
}

impl Place {
    fn parse(text: &str) -> Result<Self> {
        let (symbol, condition) = match text.split_once(" if ") {
            Some((symbol, condition)) => (symbol, Some(Condition::parse(condition)?)),
            None => (text, None),
        };
        let symbol = symbol.trim();
        if symbol.is_empty() || symbol.contains([' ', '/', ':']) {
            bail!("'{symbol}' is no function's name");
        }
        Ok(Self { symbol: symbol.into(), condition })
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Self> {
        let (words, equal) = match (text.split_once("=="), text.split_once("!=")) {
            (Some(words), _) => (words, true),
            (None, Some(words)) => (words, false),
            (None, None) => bail!("'{text}' is no condition; example: arg0 == 2"),
        };
        let value = words.1.trim().parse().with_context(|| format!("'{}' is no number", words.1.trim()))?;
        Ok(Self { argument: argument(words.0)?, value, equal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Spec {
        Spec::parse(text).expect(text)
    }

    #[test]
    fn forms_that_the_help_names() {
        let plain = parse("request=handle_request");
        assert_eq!((plain.file, plain.end, plain.key), (None, End::Return, None));
        let sql = parse("query=/usr/lib/postgresql/15/bin/postgres:exec_simple_query(arg0:sql)");
        assert_eq!(sql.file, Some("/usr/lib/postgresql/15/bin/postgres".into()));
        assert_eq!(sql.begin.symbol, "exec_simple_query");
        assert_eq!(sql.key, Some(Key::Text { argument: 0, length: None, sql: true }));
        let pair = parse("job=./worker:take(arg1)..finish if arg0 != 3");
        assert_eq!(pair.key, Some(Key::Number(1)));
        let condition = Condition { argument: 0, value: 3, equal: false };
        assert_eq!(pair.end, End::At(Place { symbol: "finish".into(), condition: Some(condition) }));
        let kernel = parse("lookup=kernel:ext4_lookup(arg1)");
        assert!(kernel.of_kernel() && !pair.of_kernel() && !parse("a=./kernel:f").of_kernel());
        let short = parse("kernel:ext4_lookup.isra.0(arg1)");
        assert_eq!((short.name.as_str(), short.begin.symbol.as_str()), ("ext4_lookup", "ext4_lookup.isra.0"));
        assert!(short.of_kernel());
        let probes = parse("query=/bin/p:%query__start(arg0:sql)..%postgresql.query__done");
        assert_eq!((probes.begin.symbol.as_str(), probes.key), ("%query__start", sql.key));
        let length = parse("command=dispatch(arg2:sql:arg3) if arg0 == 3");
        assert_eq!(length.key, Some(Key::Text { argument: 2, length: Some(3), sql: true }));
        assert_eq!(length.begin.condition.map(|c| (c.value, c.equal)), Some((3, true)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("handle_request", "no '='"),
            ("=f", "name"),
            ("a b=f", "name"),
            ("q=f(arg6)", "arg5"),
            ("q=f(arg0:json)", "'json'"),
            ("q=f(arg0", "')'"),
            ("q=", "''"),
            ("q=f if arg0 > 3", "no condition"),
            ("q=f if arg0 == x", "'x'"),
            ("q=f..", "''"),
            ("q=%f", "does not return"),
            ("q=%f(arg0:sql:arg1)..%g", "lengths"),
            ("q=%f if arg0 == 1..%g", "conditions"),
        ] {
            let error = format!("{:#}", Spec::parse(text).expect_err(text));
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
