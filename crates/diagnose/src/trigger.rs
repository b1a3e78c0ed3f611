// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What froze a flight recorder leads the verdict: that one call, request or wait is what was asked about.

use crate::case::Case;
use crate::spans::Lead;
use crate::Finding;
use plumb_model::TriggerRow;
use plumb_trace::units;

/// Parts of its time that are named.
const PARTS: usize = 3;
/// Where the thread has no account.
const OUTSIDE: &str = "it was no thread of the target, so that it has no account";

/// The line on it, its moment, and the next step.
pub fn leads(case: &Case<'_>, findings: &[Finding]) -> Option<Lead> {
    let t = case.result.trigger.as_ref()?;
    let first = t.parts.iter().max_by_key(|p| p.time).map(|p| p.category);
    let about =
        |f: &&Finding| first.is_some_and(|c| case.took.get(f.id.as_str()).is_some_and(|t| t.contains(&c)));
    let next = match findings.iter().find(about) {
        Some(f) => f.next.clone(),
        None if what(t).is_none() => findings
            .first()
            .map_or_else(|| "see the account: plumb explain DIR --json".into(), |f| f.next.clone()),
        None if t.parts.is_empty() && t.condition.starts_with("request") => {
            "see the layers of the requests: plumb view btt DIR".into()
        }
        None if t.parts.is_empty() => "see the waits for CPUs: plumb view runqueue DIR".into(),
        None => format!(
            "see what it did: plumb profile DIR --tid {} --from {}us --to {}us",
            t.tid,
            t.at / 1000,
            (t.at + within(t)).div_ceil(1000)
        ),
    };
    Some(Lead { text: text(t, findings), next, at: Some(t.at), tid: Some(t.tid).filter(|tid| *tid != 0) })
}

/// What is of no thread: somebody asked, or the machine was stalled. What limits it then is what was asked about.
fn of_no_thread(t: &TriggerRow, findings: &[Finding]) -> String {
    let first = findings.first().map_or("nothing that was recorded", |f| f.headline.as_str());
    let when = match t.condition.contains('>') {
        true => format!("'{}' in the {} from", t.condition, units::brief(t.time)),
        false => format!("by {} at", t.condition),
    };
    format!("{first}, asked for {when} {}", units::duration(t.at))
}

/// The part of it that was kept, ns.
fn within(t: &TriggerRow) -> u64 {
    t.time.saturating_sub(t.before)
}

/// What took too long; nothing where the condition is of no thread.
fn what(t: &TriggerRow) -> Option<String> {
    let name = t.condition.split('>').next().unwrap_or_default().trim();
    match name.split(' ').next().unwrap_or_default() {
        "request" => Some("a block request".into()),
        "runqueue" => Some("the wait for a CPU".into()),
        "answer" => Some("the answer to a request".into()),
        "pressure" | "plumb" => None,
        call => Some(format!("{call}(2)")),
    }
}

fn text(t: &TriggerRow, findings: &[Finding]) -> String {
    let Some(what) = what(t) else { return of_no_thread(t, findings) };
    let share = |time: u64| time as f64 * 100.0 / within(t).max(1) as f64;
    let parts = t.parts.iter().filter(|p| share(p.time) >= 1.0).take(PARTS).map(|p| {
        let who = if p.who.is_empty() || p.who == t.comm { String::new() } else { format!(" ({})", p.who) };
        format!("{}{who} {:.0} %", p.category.activity(), share(p.time))
    });
    let parts: Vec<String> = parts.collect();
    let parts = if parts.is_empty() { OUTSIDE.to_string() } else { parts.join(", ") };
    let kept = match t.before {
        0 => String::new(),
        _ => format!(", of which {} were kept", units::brief(within(t))),
    };
    let whose = if t.comm.is_empty() { String::new() } else { format!(" of {} ({})", t.comm, t.tid) };
    format!(
        "{what}{whose} took {} at {}{kept}, asked for '{}': {parts}",
        units::brief(t.time),
        units::duration(t.at),
        t.condition
    )
}
