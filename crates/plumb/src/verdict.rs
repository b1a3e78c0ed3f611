// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first verdict in words: which resource the target's time went to, with
//! the share, and how far that can be trusted.

use crate::quality::Quality;
use crate::tables::sum;
use plumb_model::RunResult;
use plumb_trace::units;

/// Resources, and the categories whose time goes to each.
const RESOURCES: &[(&str, &[&str])] = &[
    ("running on a CPU", &["running"]),
    ("interrupts on top of it", &["interrupted"]),
    ("waiting for a CPU", &["runnable", "preempted", "other.runnable"]),
    (
        "waiting for block requests",
        &["block.queue", "block.plug", "block.flush", "block.schedule", "block.device", "block.wakeup"],
    ),
    ("waiting for other threads to run", &["other.running"]),
    ("waiting for locks of the kernel", &["lock.kernel"]),
    ("waiting for user locks", &["lock.user"]),
    ("pausing because it dirtied too many pages", &["writeback.throttle"]),
    ("waiting for memory", &["memory"]),
    ("waiting for pipes and streams", &["pipe"]),
    ("waiting for sockets and the network", &["socket", "network"]),
    ("polling", &["poll"]),
    ("sleeping until a time", &["timer"]),
    ("waiting for signals", &["signal"]),
];

/// Above this share a part is worth a sentence.
const WORTH_TELLING: f64 = 0.05;
/// Unexplained or lost time above this share makes the verdict doubtful.
const DOUBTFUL: f64 = 0.02;

/// Sentences. Waiting for own children is left out: what they did is counted there.
pub fn words(result: &RunResult, quality: &Quality) -> Vec<String> {
    if !quality.no_account.is_empty() {
        let sentence = format!(
            "No account of time: without {} in the trace (see -e); the counts of requests and devices hold.",
            quality.no_account.join(" and ")
        );
        return vec![sentence, trust(result, quality, 0.0, 0.0)];
    }
    let all = sum(result.processes.iter());
    if all.thread_time == 0 {
        return vec![
            "Nothing of the target was seen: it ended before it began, or its events were not recorded."
                .into(),
        ];
    }
    let time = (all.thread_time - all.part("child")).max(1) as f64;
    let share = |names: &[&str]| names.iter().map(|n| all.part(n)).sum::<u64>() as f64 / time;
    let mut parts: Vec<(&str, f64)> = RESOURCES.iter().map(|(name, c)| (*name, share(c))).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let threads: usize = result.processes.iter().map(|p| p.threads.len()).sum();
    let unexplained = share(&["unexplained"]);
    if unexplained > parts[0].1 {
        parts.insert(0, ("waits that the model cannot explain", unexplained));
    }
    let most = if parts[0].1 > 0.5 { "Most" } else { "The largest part" };
    let mut out = vec![format!(
        "{most} of the time went to {}: {:.1} % of {} ({} thread{}, {} elapsed; waiting for children left out).",
        parts[0].0,
        parts[0].1 * 100.0,
        units::duration(time as u64),
        units::count(threads as u64),
        if threads == 1 { "" } else { "s" },
        units::duration(all.elapsed)
    )];
    let others: Vec<String> = parts[1..]
        .iter()
        .filter(|p| p.1 >= WORTH_TELLING)
        .map(|(name, share)| format!("{name} {:.1} %", share * 100.0))
        .collect();
    if !others.is_empty() {
        out.push(format!("Then: {}.", others.join(", ")));
    }
    if share(RESOURCES[3].1) >= WORTH_TELLING {
        out.push(block_words(result, &|c| share(&[c])));
    }
    out.push(trust(result, quality, share(&["unexplained"]), share(&["lost"])));
    out
}

fn block_words(result: &RunResult, share: &dyn Fn(&str) -> f64) -> String {
    let busiest = result.devices.iter().max_by_key(|d| d.busy);
    let device = busiest.map_or(String::new(), |d| {
        let busy = d.busy as f64 * 100.0 / (result.end - result.begin).max(1) as f64;
        format!(
            "; busiest device {} with a request at its driver {busy:.1} % of the time, {:.1} at once",
            d.name, d.mean_in_flight
        )
    });
    format!(
        "Of the requests' time: {:.1} % with the device, {:.1} % behind a flush, {:.1} % in the scheduler's queue, {:.1} % before it, {:.1} % until the wakeup{device}.",
        share("block.device") * 100.0,
        share("block.flush") * 100.0,
        share("block.schedule") * 100.0,
        (share("block.queue") + share("block.plug")) * 100.0,
        share("block.wakeup") * 100.0,
    )
}

fn trust(result: &RunResult, q: &Quality, unexplained: f64, lost: f64) -> String {
    let mut doubts = Vec::new();
    if q.lost > 0 {
        doubts.push(format!("{} events were lost in {} intervals", units::count(q.lost), q.gaps.len()));
    }
    if q.missed > 0 {
        doubts.push(format!("{} events were missed by recursion", units::count(q.missed)));
    }
    if !q.damage.is_empty() {
        doubts.push("parts of the trace cannot be read".into());
    }
    if q.cut_off {
        doubts.push("the recording was cut off".into());
    }
    for (set, n) in &q.thinned {
        doubts.push(format!("only 1 of {n} of the {set} events was kept"));
    }
    if unexplained > DOUBTFUL {
        doubts.push(format!("{:.1} % of the time is unexplained", unexplained * 100.0));
    }
    if lost > DOUBTFUL {
        doubts.push(format!("{:.1} % of the time is lost", lost * 100.0));
    }
    let impossible: u64 = result.impossible.values().sum();
    if impossible * 1000 > result.events {
        doubts.push(format!("{} of {} transitions contradict each other", impossible, result.events));
    }
    if doubts.is_empty() && !q.no_account.is_empty() {
        "No event was lost.".into()
    } else if doubts.is_empty() {
        let untold = if lost >= 0.0001 {
            format!(", {:.2} % is lost because the kernel did not raise a switch", lost * 100.0)
        } else {
            String::new()
        };
        format!("No event was lost; {:.2} % of the time is unexplained{untold}.", unexplained * 100.0)
    } else {
        format!("Take it with doubt: {}.", doubts.join("; "))
    }
}
