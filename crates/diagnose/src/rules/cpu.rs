// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time: used, throttled, stolen, waited for.

use crate::case::{Case, Seen};
use crate::places::{Of, Place, MOST};
use crate::Evidence;
use plumb_model::profile::short;
use plumb_model::{At, Category};
use plumb_trace::units;

/// Waiting on the run queue while others run.
const WAIT: &[Category] = &[Category::Woken, Category::Preempted];
const RUNNING: &[Category] = &[Category::Running];
/// From this share of the CPUs' time on another process is named.
const NEIGHBOUR: f64 = 0.1;
/// Below this share of its CPU time stealing is the noise of every guest.
const STOLEN: f64 = 0.1;

/// The kernel's count at a thread's exit may be a tick and the exit's own work old, ns.
const UNCOUNTED: u64 = 6_000_000;

pub fn throttled(case: &mut Case<'_>) -> Option<Seen> {
    let counted = case.counter("cgroup.throttled");
    let periods = case.counter("cgroup.nr_throttled");
    // A machine's services have no counters of their cgroups, but threads leave their CPUs.
    let left = case.result.over_quota;
    if periods == 0 && left == 0 {
        return None;
    }
    let seen = case.take_all(&[Category::Held]);
    // While it may not run others may: then it looks like waiting for them.
    let time = seen + case.take(WAIT, counted.saturating_sub(seen) as f64);
    let quota = case.counter("cgroup.quota");
    let quota = if quota > 0 { format!("; quota {}", units::brief(quota)) } else { String::new() };
    (time > 0).then(|| Seen {
        time,
        words: format!("{} runnable but throttled", units::brief(time)),
        evidence: vec![Evidence::new(
            "throttled",
            match periods {
                0 => format!(
                    "threads left a CPU {} times with the quota of their cgroup used up",
                    units::count(left)
                ),
                _ => format!("in {} periods, for {}{quota}", units::count(periods), units::brief(counted)),
            },
        )],
        ..Seen::default()
    })
}

pub fn stolen(case: &mut Case<'_>) -> Option<Seen> {
    let steal = case.result.counters.iter().filter(|(n, _)| n.ends_with(".steal"));
    // Counters and kernel's sums of a damaged trace are any number.
    let counted = steal.fold(0u64, |sum, (_, v)| sum.saturating_add(*v));
    // The kernel leaves stolen time out of what it counts for a thread; ours is the clock's.
    let both = case.result.processes.iter().filter_map(|p| {
        let late = UNCOUNTED * p.threads.len() as u64;
        Some((p.part(Category::Running) + p.part(Category::Spinning), p.kernel_cpu?, late))
    });
    let (ours, kernels, late) =
        both.fold((0, 0u64, 0), |(a, b, c), (x, y, z)| (a + x, b.saturating_add(y), c + z));
    let taken = ours.saturating_sub(kernels.saturating_add(late)).min(counted);
    let share = taken as f64 / ours.max(1) as f64;
    if share < STOLEN {
        return None;
    }
    let running = case.left(&[Category::Running]);
    let time = case.take(&[Category::Running], running * share);
    Some(Seen {
        time,
        words: format!("{:.0} % of the CPU time stolen", share * 100.0),
        evidence: vec![
            Evidence::new(
                "on CPU",
                format!(
                    "{} by the clock, {} charged by the kernel",
                    units::brief(ours),
                    units::brief(kernels)
                ),
            ),
            Evidence::new("steal", format!("{} on all CPUs (/proc/stat)", units::brief(counted))),
        ],
        ..Seen::default()
    })
}

pub fn interrupts(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let mut time = case.take_all(&[Category::Interrupted]);
    time += case.take(&[Category::Running], running * case.sampled(At::Interrupt));
    let soft: u64 = case
        .result
        .path
        .parts
        .iter()
        .filter(|p| WAIT.contains(&p.category) && p.who.starts_with("ksoftirqd"))
        .map(|p| p.time)
        .sum();
    time += case.take(WAIT, soft as f64);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} lost to interrupts", units::brief(time)),
        evidence: vec![Evidence::new("ksoftirqd", format!("ran for {} of it", units::brief(soft)))],
        ..Seen::default()
    })
}

pub fn wait(case: &mut Case<'_>) -> Option<Seen> {
    let categories = &[Category::Woken, Category::Preempted, Category::OtherRunnable];
    let (who, runners) = (case.who(WAIT), case.runners(WAIT));
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("CPU taken by", who));
    }
    evidence.extend(case.longest(WAIT));
    let time = case.take_all(categories);
    (time > 0).then(|| Seen {
        time,
        headline: if runners.is_empty() {
            String::new()
        } else {
            format!("CPU contention: run-queue wait while {runners}")
        },
        words: format!("{} runnable, waiting on the run queue", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

/// Other processes that had a good part of the CPUs: without them its threads would have had more.
fn neighbours(case: &Case<'_>) -> Option<Evidence> {
    let all = case.elapsed() as f64 * case.result.cpus.len().max(1) as f64;
    let share = |used: u64| used as f64 / all;
    let rows = case.result.others.iter().filter(|o| !o.recorder && share(o.cpu_used) >= NEIGHBOUR).take(3);
    let words: Vec<String> = rows.map(|o| format!("{} {:.0} %", o.comm, share(o.cpu_used) * 100.0)).collect();
    let of = format!(" of the time of {} CPUs", case.result.cpus.len());
    (!words.is_empty()).then(|| Evidence::new("other processes", words.join(", ") + &of))
}

pub fn crowded(case: &mut Case<'_>) -> Option<Seen> {
    let categories = &[Category::Crowded];
    let who = case.who(categories);
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("CPU taken by", who));
    }
    evidence.extend(neighbours(case));
    evidence.extend(case.longest(categories));
    let time = case.take_all(categories);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} runnable, waiting on the run queue behind its own threads", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn wakeup(case: &mut Case<'_>) -> Option<Seen> {
    let categories = &[Category::WokenIdle, Category::Held];
    let evidence = case.longest(categories);
    let time = case.take_all(categories);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} runnable on an idle CPU that had yet to wake", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

/// Functions of the kernel with most samples, as evidence.
fn functions(case: &Case<'_>) -> Vec<Evidence> {
    let all = case.result.samples.samples.max(1) as f64;
    case.result
        .samples
        .functions
        .iter()
        .take(5)
        .map(|f| {
            let share = f.samples as f64 * 100.0 / all;
            Evidence::new("kernel", format!("{share:.1} % of the samples in {} ({})", f.function, f.at))
        })
        .collect()
}

fn doubt(case: &Case<'_>) -> Vec<String> {
    if case.has_samples() {
        Vec::new()
    } else {
        let n = case.result.samples.samples;
        vec![format!(
            "only {n} CPU samples: user and kernel time are split by the recorded system calls alone"
        )]
    }
}

/// How user and kernel time were distinguished.
fn split(case: &Case<'_>) -> Vec<Evidence> {
    let n = case.result.samples.samples;
    case.has_samples()
        .then(|| Evidence::new("", format!("user and kernel time split by {} CPU samples", units::count(n))))
        .into_iter()
        .collect()
}

/// Functions that ran; none where a few samples would speak for all the time.
fn sampled_places(case: &Case<'_>, of: Of) -> Vec<Place> {
    if case.has_samples() {
        case.places(RUNNING, of)
    } else {
        Vec::new()
    }
}

pub fn kernel(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let (kernel, user) = (case.sampled(At::Call) + case.sampled(At::Kernel), case.sampled(At::User));
    if kernel <= 0.0 {
        return None;
    }
    let all = case.time(RUNNING);
    let time = case.take(&[Category::Running], running * kernel / (kernel + user));
    let places = sampled_places(case, Of::Kernel);
    let lines = case.place_lines(&places, RUNNING);
    // A function that has little of the time is no place to look at.
    let place =
        places.first().filter(|p| case.place_share(p, RUNNING) * case.share(all as f64) >= crate::LEAST);
    let most = place.filter(|p| case.share_of(p, kernel) >= MOST);
    let mostly = match most {
        Some(p) if !p.call.is_empty() => format!(", mostly {} in {}()", p.call, short(&p.function)),
        Some(_) => case.mostly(place, kernel),
        None => {
            most_called(case).map_or(String::new(), |call| format!(", mostly {call}"))
                + &case.mostly(place, kernel)
        }
    };
    let headline = format!("CPU time in the kernel{mostly}");
    let fact = case.place_fact("function", &places, RUNNING);
    Some(Seen {
        time,
        headline,
        place: place.map_or(String::new(), |p| short(&p.function)),
        words: format!("{} on CPU in the kernel", units::brief(time)),
        evidence: [fact, split(case), if lines.is_empty() { functions(case) } else { lines }].concat(),
        doubt: doubt(case),
        ..Seen::default()
    })
}

/// The system call that most of the samples in the kernel are at: entry and exit are at none.
fn most_called(case: &Case<'_>) -> Option<String> {
    let samples = &case.result.samples;
    let kernel: u64 = [At::Call, At::Kernel].iter().filter_map(|at| samples.at.get(at.name())).sum();
    let most = samples.calls.iter().max_by_key(|(_, n)| **n);
    most.filter(|(_, n)| **n * 2 > kernel).map(|(call, _)| format!("{call}(2)"))
}

pub fn user(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::Running]);
    let time = case.take_all(&[Category::Running]);
    let places = sampled_places(case, Of::User);
    let place = places.first().filter(|p| case.place_share(p, RUNNING) >= crate::LEAST);
    let headline = format!("CPU time in user code{}", case.mostly(place, case.sampled(At::User)));
    let place = place.map(|p| short(&p.function));
    let mut evidence = case.place_fact("function", &places, RUNNING);
    if !who.is_empty() {
        evidence.push(Evidence::new("process", who));
    }
    evidence.extend(split(case));
    evidence.extend(case.place_lines(&places, RUNNING));
    (time > 0).then(|| Seen {
        time,
        headline,
        place: place.map_or(String::new(), |p| format!("{p}()")),
        words: format!("{} on CPU in user code", units::brief(time)),
        evidence,
        doubt: doubt(case),
        ..Seen::default()
    })
}
