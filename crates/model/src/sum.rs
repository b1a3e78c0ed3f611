// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of processes, added up.

use crate::result::ProcessRow;

/// Adds up rows; `elapsed` becomes the span from the first begin to the last end.
pub fn sum<'a>(rows: impl Iterator<Item = &'a ProcessRow>) -> ProcessRow {
    let mut out = ProcessRow::default();
    let (mut begin, mut end) = (u64::MAX, 0);
    for p in rows {
        begin = begin.min(p.begin);
        // The numbers of a result that was changed are any.
        end = end.max(p.begin.saturating_add(p.elapsed));
        out.usage.merge(&p.usage);
        out.thread_time = out.thread_time.saturating_add(p.thread_time);
        for (name, ns) in &p.account {
            let sum = out.account.entry(*name).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    out.begin = begin.min(end);
    out.elapsed = end.saturating_sub(begin);
    out
}
