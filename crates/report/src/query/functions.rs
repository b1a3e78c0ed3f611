// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions beside SQLite's own: the standard deviation, times in other units. Quantiles are SQLite's, which
//! LIBSQLITE3_FLAGS in .cargo/config.toml asks for.

use plumb_trace::units;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

/// Their names, for help and errors.
pub const NAMES: &[&str] =
    &["median", "percentile", "percentile_cont", "stddev", "us", "ms", "s", "duration", "size"];

/// What they do, for help and manual.
pub const ABOUT: &[(&str, &str)] = &[
    ("median(x)", "the 50th percentile"),
    ("percentile(x, p)", "p from 0 to 100; between two values the straight line, as NumPy's default"),
    ("percentile_cont(p) within group (order by x)", "the same as standard SQL has it, p from 0 to 1"),
    ("stddev(x)", "standard deviation of a sample; none of fewer than two values"),
    ("us(ns), ms(ns), s(ns)", "a time in that unit, a real number"),
    ("duration(ns)", "a time in words, in the unit that suits it: 1.23 ms"),
    ("size(bytes)", "a length in words: 64.0 KiB"),
];

fn wrong(text: &str) -> Error {
    Error::UserFunctionError(text.into())
}

/// A number; `None` for none.
fn number(context: &Context<'_>, at: usize) -> Result<Option<f64>> {
    match context.get_raw(at) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(v) => Ok(Some(v as f64)),
        ValueRef::Real(v) => Ok(Some(v)),
        ValueRef::Text(_) | ValueRef::Blob(_) => Err(wrong("a number is needed, and this is a text")),
    }
}

/// Welford's sums: count, mean, squares.
struct Stddev;

impl Aggregate<(f64, f64, f64), Option<f64>> for Stddev {
    fn init(&self, _: &mut Context<'_>) -> Result<(f64, f64, f64)> {
        Ok((0.0, 0.0, 0.0))
    }

    fn step(&self, context: &mut Context<'_>, (n, mean, squares): &mut (f64, f64, f64)) -> Result<()> {
        if let Some(v) = number(context, 0)? {
            *n += 1.0;
            let off = v - *mean;
            *mean += off / *n;
            *squares += off * (v - *mean);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sums: Option<(f64, f64, f64)>) -> Result<Option<f64>> {
        Ok(sums.filter(|(n, ..)| *n >= 2.0).map(|(n, _, squares)| (squares / (n - 1.0)).sqrt()))
    }
}

/// Makes them known to a connection.
pub fn add(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function("stddev", 1, flags, Stddev)?;
    for (name, ns) in [("us", 1e3), ("ms", 1e6), ("s", 1e9)] {
        connection.create_scalar_function(name, 1, flags, move |c| Ok(number(c, 0)?.map(|v| v / ns)))?;
    }
    connection.create_scalar_function("duration", 1, flags, |c| words(c, units::duration))?;
    connection.create_scalar_function("size", 1, flags, |c| words(c, units::bytes))
}

fn words(context: &Context<'_>, say: fn(u64) -> String) -> Result<Option<String>> {
    Ok(number(context, 0)?.map(|v| {
        let sign = if v < 0.0 { "-" } else { "" };
        format!("{sign}{}", say(v.abs().round() as u64))
    }))
}
