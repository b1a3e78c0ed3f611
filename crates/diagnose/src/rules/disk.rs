// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks and file systems.

use crate::case::{Case, Seen};
use crate::places::{Of, Place};
use crate::Evidence;
use plumb_model::profile::short;
use plumb_model::{Category, PatternRow, ProcessRow, SyscallRow};
use plumb_trace::units;

#[cfg(test)]
mod tests;

/// The waiting for block requests.
pub const BLOCK: &[Category] = &[
    Category::BlockQueued,
    Category::BlockPlugged,
    Category::BlockFlush,
    Category::BlockInserted,
    Category::BlockIssued,
    Category::BlockDone,
];
/// The same, and for the threads that make them.
pub(super) const SYNC: &[Category] = &[
    Category::BlockQueued,
    Category::BlockPlugged,
    Category::BlockFlush,
    Category::BlockInserted,
    Category::BlockIssued,
    Category::BlockDone,
    Category::OtherRunning,
    Category::OtherRunnable,
    Category::OtherWaiting,
];

/// Longer than this for one small request is slow, ns: a disk that does not
/// rotate, one that does (a turn of 7,200 rpm is 8.3 ms, a seek as long again).
const SLOW: (f64, f64) = (1.5e6, 25e6);
/// A request's bytes cost this much more, ns: 100 MB/s.
const SLOW_BYTE: f64 = 10.0;
/// So many in flight at once hide the device's latency.
const DEEP: f64 = 3.0;
/// So much more device service time than the target's own makes others its main users.
const OTHERS: u64 = 2;
/// Share of the block time spent waiting for a request (tag): the device's queue is full.
const FULL: f64 = 0.2;
/// From this share of the waiting in syncs on, direct writes go with them.
const WITH_SYNCS: f64 = 0.2;
const SMALL: u64 = 16 << 10;
const RANDOM: u64 = 64 << 10;

fn sum(case: &Case<'_>, part: impl Fn(&ProcessRow) -> u64) -> u64 {
    case.result.processes.iter().map(part).sum()
}

/// Time of a kind that the target's calls of a special kind spent, as a share of all its time of that kind.
fn share_in(
    case: &Case<'_>,
    categories: &[Category],
    map: impl Fn(&ProcessRow) -> &std::collections::BTreeMap<Category, u64>,
) -> f64 {
    let all = sum(case, |p| categories.iter().map(|c| p.part(*c)).sum());
    let special = sum(case, |p| categories.iter().filter_map(|c| map(p).get(c)).sum());
    special as f64 / all.max(1) as f64
}

pub(super) fn describe(p: &PatternRow) -> Evidence {
    Evidence::new(
        if p.write { "writes" } else { "reads" },
        format!(
            "{} on {} by {} ({}): {} mean, {:.0} % sequential, {:.1} in flight; service time {} median, {} p99, {} max",
            units::count(p.requests),
            p.device,
            p.comm,
            p.pid,
            units::bytes(size(p)),
            (p.sequential + p.near) as f64 * 100.0 / p.requests.max(1) as f64,
            p.depth,
            units::brief(p.service_median),
            units::brief(p.service_p99),
            units::brief(p.service_max)
        ),
    )
}

/// Calls that read or write.
const DATA_CALLS: &[&str] =
    &["read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev", "pwritev", "pwritev2"];

/// Calls that return when data is on the disk, as stacks name them.
const SYNC_CALLS: &[&str] =
    &["fsync(2)", "fdatasync(2)", "sync(2)", "syncfs(2)", "msync(2)", "sync_file_range(2)"];

/// Takes what each of many small calls costs besides its request: its time on
/// the CPU, and the wakeup. With one large request instead, that goes too.
fn cost_of_calls(case: &mut Case<'_>, requests: u64) -> u64 {
    let calls = |p: &ProcessRow, what: fn(&SyscallRow) -> u64| -> u64 {
        p.syscalls.iter().filter(|c| DATA_CALLS.contains(&c.name.as_str())).map(what).sum()
    };
    let running = |c: &SyscallRow| c.account.get(&Category::Running).copied().unwrap_or(0);
    let share =
        sum(case, |p| calls(p, running)) as f64 / sum(case, |p| p.part(Category::Running)).max(1) as f64;
    // Calls that were served from the cache made no request.
    let made = requests as f64 / sum(case, |p| calls(p, |c| c.calls)).max(1) as f64;
    let idle = &[Category::WokenIdle, Category::Spinning];
    case.take(&[Category::Running], case.left(&[Category::Running]) * (share * made).min(1.0))
        + case.take(idle, case.left(idle) * made.min(1.0))
}

/// Takes the waiting for block requests; the main pattern is its evidence.
fn whole(case: &mut Case<'_>, p: &PatternRow, headline: String) -> Option<Seen> {
    let mut evidence = vec![describe(p)];
    evidence.extend(case.place_lines(&case.places(BLOCK, Of::User), BLOCK));
    evidence.extend(case.longest(BLOCK));
    let time = case.take_all(BLOCK);
    (time > 0).then(|| Seen {
        time,
        headline,
        place: p.device.clone(),
        device: p.device.clone(),
        words: format!("{} waiting for block requests", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn dirty(case: &mut Case<'_>) -> Option<Seen> {
    let evidence = case.longest(&[Category::Throttle]);
    let time = case.take_all(&[Category::Throttle]);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} throttled in balance_dirty_pages", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn limit(case: &mut Case<'_>) -> Option<Seen> {
    let (who, device) = (case.who(&[Category::BlockLimit]), case.most(&[Category::BlockLimit]));
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("device", who));
    }
    evidence.extend(case.longest(&[Category::BlockLimit]));
    let time = case.take_all(&[Category::BlockLimit]);
    (time > 0).then(|| Seen {
        time,
        place: device.clone(),
        device,
        words: format!("{} waiting for bios that blk-throttle held back", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn journal(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::Journal]);
    // A neighbour that syncs much through the same journal: then what the
    // target's small syncs wait for is that one's data, commit by commit.
    let shared = case.main_pattern().filter(|p| p.write).and_then(|p| {
        let (theirs, ours, others) = users(case, &p.device);
        let neighbour = others.iter().find(|o| o.write && o.sync * 2 > o.requests)?;
        (theirs > ours * OTHERS && share_in(case, SYNC, |p| &p.synced) > 0.5).then(|| (*neighbour).clone())
    });
    let commits = case.result.journal.commits > 0;
    let mut evidence = case.longest(&[Category::Journal]);
    evidence.insert(
        0,
        Evidence::new(
            "commits",
            format!(
                "{} in {} total; the target synced {} times",
                units::count(case.result.journal.commits),
                units::brief(case.result.journal.time),
                units::count(sum(case, |p| p.syncs))
            ),
        ),
    );
    let mut time = case.take_all(&[Category::Journal]);
    let mut who = if who.is_empty() { "other processes".to_string() } else { who };
    if let Some(neighbour) = shared.filter(|_| commits) {
        time += case.take_all(SYNC);
        evidence.insert(0, describe(&neighbour));
        who = format!("{} ({}), whose data the commits carry", neighbour.comm, neighbour.pid);
    }
    (time > 0).then(|| Seen {
        time,
        words: format!("{} waiting for journal commits", units::brief(time)),
        evidence: [vec![Evidence::new("requested by", who)], evidence].concat(),
        ..Seen::default()
    })
}

pub fn slow(case: &mut Case<'_>) -> Option<Seen> {
    let p = case.main_pattern()?;
    let limit = if case.rotates(&p.device) { SLOW.1 } else { SLOW.0 };
    let limit = limit + p.bytes as f64 / p.requests.max(1) as f64 * SLOW_BYTE;
    if p.depth > DEEP || full(case) || (p.service_median as f64) < limit {
        return None;
    }
    let headline = format!(
        "slow device {}: {} median service time per {} request",
        p.device,
        units::brief(p.service_median),
        units::bytes(size(&p))
    );
    let evidence = [vec![describe(&p)], case.longest(BLOCK)].concat();
    let time = case.take_all(SYNC);
    (time > 0).then(|| Seen {
        time,
        headline,
        place: p.device.clone(),
        device: p.device.clone(),
        words: format!("{} waiting for the device, {:.1} requests in flight", units::brief(time), p.depth),
        evidence,
        ..Seen::default()
    })
}

/// The use of a disk that the target's waiting is about; none where it waited for others' requests.
fn main(case: &Case<'_>) -> Option<PatternRow> {
    // Several requests of clients may wait for one of the disk.
    let at_once = match case.result.path.of.as_str() {
        "requests" => (case.whole as f64 / case.elapsed() as f64).max(1.0),
        _ => 1.0,
    };
    case.main_pattern().filter(|p| p.service as f64 * at_once >= case.time(BLOCK) as f64 * 0.3)
}

/// Share of the waiting for block requests in calls that make data durable. Direct writes that go with such calls
/// are of them: a database's log is written past the cache and then synced.
fn durable(case: &Case<'_>) -> f64 {
    let synced = share_in(case, SYNC, |p| &p.synced);
    let writes = main(case).is_some_and(|p| p.write);
    if synced >= WITH_SYNCS && writes {
        (synced + share_in(case, BLOCK, |p| &p.direct)).min(1.0)
    } else {
        synced
    }
}

/// Whether bios wait for a request (tag) of the device's queue.
fn full(case: &Case<'_>) -> bool {
    case.time(&[Category::BlockQueued]) as f64 > case.time(BLOCK) as f64 * FULL
}

/// Time of others and of the target with a disk, ns, and the others, most time first.
fn users<'a>(case: &Case<'a>, device: &str) -> (u64, u64, Vec<&'a PatternRow>) {
    let on = |target: bool| {
        let rows = case.result.patterns.iter().filter(move |p| p.target == target && p.device == device);
        let mut rows: Vec<&PatternRow> = rows.collect();
        rows.sort_by_key(|p| std::cmp::Reverse(p.service));
        rows
    };
    // What the journal and the flushers write may be the target's own.
    let mut others = on(false);
    others.retain(|p| !p.comm.starts_with("jbd2/") && !p.comm.starts_with("kworker/"));
    let time = |rows: &[&PatternRow]| rows.iter().map(|p| p.service).sum();
    (time(&others), time(&on(true)), others)
}

pub fn scheduler(case: &mut Case<'_>) -> Option<Seen> {
    let main = case.main_pattern()?;
    let device = main.device;
    let (theirs, ours, others) = users(case, &device);
    if let Some(seen) = among_its_own(case, &device) {
        return Some(seen);
    }
    let queued = case.time(&[Category::BlockInserted, Category::BlockQueued]);
    // Few requests do not wait in the scheduler for each other.
    let behind = queued * 2 > case.time(BLOCK) && main.depth <= DEEP && theirs > ours;
    let users = theirs >= ours * OTHERS || behind;
    if !users || (queued * 10 < case.time(BLOCK) && others.iter().all(|p| p.depth < DEEP)) {
        return None;
    }
    let name = others.first().map_or(String::new(), |p| p.comm.clone());
    let in_flight = case.time(&[Category::BlockIssued]);
    let mut evidence: Vec<Evidence> = others.iter().take(2).map(|p| describe(p)).collect();
    evidence.extend(case.longest(&[Category::BlockInserted, Category::BlockQueued, Category::BlockIssued]));
    let time = case.take_all(BLOCK);
    (time > 0).then(|| Seen {
        time,
        headline: format!("requests to {device} queue behind those of {name}"),
        place: device.clone(),
        device: device.clone(),
        words: format!(
            "{} in the I/O scheduler, {} in flight; {device} spent {:.0}x as long on {name}",
            units::brief(queued),
            units::brief(in_flight),
            theirs as f64 / ours.max(1) as f64
        ),
        evidence,
        ..Seen::default()
    })
}

/// Processes of the target that hold each other up in the scheduler: that time alone, the device's is left.
fn among_its_own(case: &mut Case<'_>, device: &str) -> Option<Seen> {
    const HELD: &[Category] = &[Category::BlockInserted];
    let (theirs, ours, _) = users(case, device);
    let mut rows: Vec<PatternRow> =
        case.result.patterns.iter().filter(|p| p.target && p.device == device).cloned().collect();
    rows.sort_by_key(|p| std::cmp::Reverse(p.service));
    let first = rows.first()?;
    let alone = rows.iter().all(|p| p.pid == first.pid);
    let held = case.time(HELD) as f64 > case.time(BLOCK) as f64 * FULL;
    if alone || !held || full(case) || theirs >= ours * OTHERS || case.main_pattern()?.depth > DEEP {
        return None;
    }
    let evidence = [rows.iter().take(2).map(describe).collect(), case.longest(HELD)].concat();
    let time = case.take_all(HELD);
    let had: u64 = rows.iter().filter(|p| p.pid == first.pid).map(|p| p.service).sum();
    (time > 0).then(|| Seen {
        time,
        headline: format!(
            "its own processes' requests queue behind each other in the I/O scheduler of {device}"
        ),
        place: device.into(),
        device: device.into(),
        words: format!(
            "{} in the I/O scheduler; {} ({}) had {:.0} % of their device time",
            units::brief(time),
            first.comm,
            first.pid,
            had as f64 * 100.0 / ours.max(1) as f64
        ),
        evidence,
        ..Seen::default()
    })
}

/// Files that were synced, most time first.
fn files(case: &Case<'_>) -> Vec<(String, u64, u64)> {
    let mut files: Vec<(String, u64, u64)> =
        case.result.synced_files.iter().map(|f| (f.path.clone(), f.calls, f.time)).collect();
    files.sort_by_key(|f| std::cmp::Reverse(f.2));
    files
}

pub fn log(case: &mut Case<'_>) -> Option<Seen> {
    let files = files(case);
    let all: u64 = files.iter().map(|f| f.2).sum();
    let is_log =
        |path: &str| path.rsplit('/').next().is_some_and(|n| n.contains("log") || n.contains("journal"));
    let logs: u64 = files.iter().filter(|f| is_log(&f.0)).map(|f| f.2).sum();
    if all == 0 || logs * 2 < all {
        return None;
    }
    let file = files.iter().find(|f| is_log(&f.0)).map(|f| f.0.clone()).unwrap_or_default();
    let share = durable(case) * logs as f64 / all as f64;
    let time = case.take(SYNC, case.left(SYNC) * share.min(1.0));
    let evidence = sync_evidence(case, &files);
    let device = main(case).map_or(String::new(), |p| p.device);
    (time > 0).then(|| Seen {
        time,
        headline: format!("synchronous logging to {file}"),
        device,
        words: format!("{} waiting for the log to reach the disk", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

fn sync_evidence(case: &Case<'_>, files: &[(String, u64, u64)]) -> Vec<Evidence> {
    let syncs = sum(case, |p| p.syncs).max(1);
    let per_call = |n: u64| n as f64 / syncs as f64;
    let others: u64 = sum(case, |p| p.syscalls.iter().map(|c| c.other_requests).sum());
    let mut out: Vec<Evidence> = files
        .iter()
        .take(2)
        .map(|(path, calls, time)| {
            let words = format!("{path}: {} calls, {} in them", units::count(*calls), units::brief(*time));
            Evidence::new("synced file", words)
        })
        .collect();
    // A flush of a stacked device (loop, dm, md) is sent on to the one below: a sum would count it twice.
    let mut flushing: Vec<_> = case.result.devices.iter().filter(|d| d.flushes > 0).collect();
    flushing.sort_by_key(|d| std::cmp::Reverse(d.flushes));
    let device = |name: &str| match case.backing(name) {
        Some(file) => format!("{name} (a loop device of {file})"),
        None => name.to_string(),
    };
    let flushes: Vec<String> = flushing
        .iter()
        .take(3)
        .map(|d| format!("{:.1} on {}", per_call(d.flushes), device(&d.name)))
        .collect();
    let mut words = Vec::new();
    if !flushes.is_empty() {
        words.push(format!("flushes {}", flushes.join(", ")));
    }
    if others > 0 {
        words.push(format!("{:.1} requests by the journal or writeback", per_call(others)));
    }
    if !words.is_empty() {
        out.push(Evidence::new("per call", words.join("; ")));
    }
    if let Some(p) = main(case).filter(|p| p.write) {
        out.insert(out.len().min(1), describe(&p));
    }
    out
}

/// User code that waits for its data to be on the disk.
fn syncing(case: &Case<'_>) -> Vec<Place> {
    let mut places = case.places(SYNC, Of::User);
    places.retain(|p| SYNC_CALLS.contains(&p.call.as_str()));
    places
}

pub fn sync(case: &mut Case<'_>) -> Option<Seen> {
    let share = durable(case);
    let calls = sum(case, |p| p.syncs);
    if calls == 0 {
        return None;
    }
    let files = files(case);
    let places = syncing(case);
    let lines = case.place_lines(&places, SYNC);
    let fact = case.place_fact("called in", &places, SYNC);
    let evidence = [fact, sync_evidence(case, &files), lines, case.longest(SYNC)].concat();
    let device = main(case).map_or(String::new(), |p| p.device);
    let place = places.first();
    let call = place.map_or("fsync or O_SYNC", |p| p.call.as_str());
    let time = case.take(SYNC, case.left(SYNC) * share.min(1.0));
    let file = files.first().map_or(String::new(), |f| format!(" to {}", f.0));
    (time > 0).then(|| Seen {
        time,
        headline: format!("synchronous writes{file} by {call}"),
        device,
        place: place.map_or(String::new(), |p| short(&p.function)),
        words: format!(
            "{} in {} synchronous writes, {} mean",
            units::brief(time),
            units::count(calls),
            units::brief(time / calls)
        ),
        evidence,
        ..Seen::default()
    })
}

fn direct(case: &Case<'_>) -> f64 {
    share_in(case, BLOCK, |p| &p.direct)
}

fn sequential(p: &PatternRow) -> f64 {
    (p.sequential + p.near) as f64 / p.requests.saturating_sub(1).max(1) as f64
}

fn size(p: &PatternRow) -> u64 {
    p.bytes / p.requests.max(1)
}

pub fn readahead(case: &mut Case<'_>) -> Option<Seen> {
    let p = main(case)?;
    let advised = sum(case, |p| p.advised);
    let ahead = p.ahead as f64 / p.requests.max(1) as f64;
    if p.write || direct(case) > 0.5 || sequential(&p) < 0.6 || ahead > 0.3 || size(&p) > 128 << 10 {
        return None;
    }
    let headline =
        format!("sequential {} reads from {} without read-ahead", units::bytes(size(&p)), p.device);
    let mut seen = whole(case, &p, headline)?;
    if advised > 0 {
        seen.evidence.insert(1, Evidence::new("fadvise", format!("called {} times", units::count(advised))));
    }
    seen.time += cost_of_calls(case, p.requests);
    Some(seen)
}

pub fn small(case: &mut Case<'_>) -> Option<Seen> {
    let p = main(case)?;
    if size(&p) > SMALL || sequential(&p) < 0.6 || p.depth > DEEP {
        return None;
    }
    let headline = format!(
        "small sequential {} of {} on {}",
        if p.write { "writes" } else { "reads" },
        units::bytes(size(&p)),
        p.device
    );
    let mut seen = whole(case, &p, headline)?;
    seen.time += cost_of_calls(case, p.requests);
    Some(seen)
}

pub fn random(case: &mut Case<'_>) -> Option<Seen> {
    let p = main(case)?;
    if size(&p) > RANDOM || sequential(&p) > 0.4 || p.depth > DEEP {
        return None;
    }
    let headline = format!(
        "random {} {} on {}, {:.1} in flight",
        units::bytes(size(&p)),
        if p.write { "writes" } else { "reads" },
        p.device,
        p.depth
    );
    whole(case, &p, headline)
}

pub fn saturated(case: &mut Case<'_>) -> Option<Seen> {
    let p = case.main_pattern()?;
    let device = case.result.devices.iter().find(|d| d.name == p.device)?;
    let busy = device.busy as f64 / case.elapsed() as f64;
    if p.depth < DEEP && !full(case) && (busy < 0.85 || size(&p) < RANDOM) {
        return None;
    }
    let headline = format!(
        "saturated device {}: {:.0} % busy, {:.1} requests in flight",
        p.device,
        busy * 100.0,
        device.mean_in_flight
    );
    whole(case, &p, headline)
}

pub fn depth(case: &mut Case<'_>) -> Option<Seen> {
    let p = case.main_pattern();
    let evidence = [p.as_ref().map(describe).into_iter().collect(), case.longest(BLOCK)].concat();
    let time = case.take_all(BLOCK);
    let device = p.as_ref().map_or(String::new(), |p| p.device.clone());
    (time > 0).then(|| Seen {
        time,
        headline: p.as_ref().map_or(String::new(), |p| {
            format!("I/O wait on {}, {:.1} requests in flight", p.device, p.depth)
        }),
        place: device.clone(),
        device,
        words: format!("{} waiting for block requests", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}
