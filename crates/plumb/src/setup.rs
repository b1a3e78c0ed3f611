// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The span of time that a trace accounts for, and what a user asks for of it.

use anyhow::{bail, Result};
use plumb_trace::units;

pub use plumb_report::setup::{of, span};

/// The part of a span that lies `from` to `to` after its begin, ns.
///
/// # Errors
/// It is empty, or lies behind the end.
pub fn window((begin, end): (u64, u64), from: Option<u64>, to: Option<u64>) -> Result<(u64, u64)> {
    let (from, to) = (from.unwrap_or(0), to.unwrap_or(u64::MAX));
    if from >= to {
        bail!("--from {} is not before --to {}", units::duration(from), units::duration(to));
    }
    let length = end.saturating_sub(begin);
    if from > length {
        bail!("--from {} lies behind the trace's end at {}", units::duration(from), units::duration(length));
    }
    Ok((begin.saturating_add(from), begin.saturating_add(to).min(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_in_the_trace() {
        let at = |from, to| window((100, 200), from, to).map_err(|e| e.to_string());
        assert_eq!(at(None, None), Ok((100, 200)));
        assert_eq!(at(Some(10), Some(500)), Ok((110, 200)));
        assert_eq!(at(Some(10), Some(10)), Err("--from 10 ns is not before --to 10 ns".into()));
        assert_eq!(at(Some(101), None), Err("--from 101 ns lies behind the trace's end at 100 ns".into()));
    }
}
