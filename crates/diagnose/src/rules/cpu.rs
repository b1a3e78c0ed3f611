// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU: used, waited for, held back, taken away.

use crate::case::{Case, Seen};
use crate::places::{Of, Place};
use crate::Evidence;
use plumb_model::profile::short;
use plumb_model::Category;
use plumb_trace::units;

/// Waiting for a CPU that others have.
const WAIT: &[Category] = &[Category::Woken, Category::Preempted];
const RUNNING: &[Category] = &[Category::Running];
/// Below this share of its CPU time stealing is the noise of every guest.
const STOLEN: f64 = 0.1;

/// The kernel's count at a thread's exit may be a tick and the exit's own work old, ns.
const UNCOUNTED: u64 = 6_000_000;

pub fn throttled(case: &mut Case<'_>) -> Option<Seen> {
    let counted = case.counter("cgroup.throttled");
    let periods = case.counter("cgroup.nr_throttled");
    if periods == 0 {
        return None;
    }
    let seen = case.take_all(&[Category::Held]);
    // While it may not run others may: then it looks like waiting for them.
    let time = seen + case.take(WAIT, counted.saturating_sub(seen) as f64);
    let quota = case.counter("cgroup.quota");
    let quota = if quota > 0 { format!(", quota {}", units::duration(quota)) } else { String::new() };
    (time > 0).then(|| Seen {
        time,
        words: format!("ready for {} without being allowed to run", units::duration(time)),
        evidence: vec![Evidence {
            words: format!(
                "its cgroup was throttled in {periods} periods, for {}{quota}",
                units::duration(counted)
            ),
            ..Evidence::default()
        }],
        ..Seen::default()
    })
}

pub fn stolen(case: &mut Case<'_>) -> Option<Seen> {
    let counted: u64 =
        case.result.counters.iter().filter(|(n, _)| n.ends_with(".steal")).map(|(_, v)| v).sum();
    // The kernel leaves stolen time out of what it counts for a thread; ours is the clock's.
    let both = case.result.processes.iter().filter_map(|p| {
        let late = UNCOUNTED * p.threads.len() as u64;
        Some((p.part(Category::Running) + p.part(Category::Spinning), p.kernel_cpu?, late))
    });
    let (ours, kernels, late) = both.fold((0, 0, 0), |(a, b, c), (x, y, z)| (a + x, b + y, c + z));
    let taken = ours.saturating_sub(kernels + late).min(counted);
    let share = taken as f64 / ours.max(1) as f64;
    if share < STOLEN {
        return None;
    }
    let running = case.left(&[Category::Running]);
    let time = case.take(&[Category::Running], running * share);
    Some(Seen {
        time,
        words: format!("the hypervisor took {:.0} % of the time that it was on a CPU", share * 100.0),
        evidence: vec![Evidence {
            words: format!(
                "on a CPU for {}, of which the kernel counts {} for its threads; /proc/stat counts {} stolen on all CPUs",
                units::duration(ours),
                units::duration(kernels),
                units::duration(counted)
            ),
            ..Evidence::default()
        }],
        ..Seen::default()
    })
}

pub fn interrupts(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let mut time = case.take_all(&[Category::Interrupted]);
    time += case.take(&[Category::Running], running * case.sampled("interrupts"));
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
        words: format!("interrupts had its CPU for {}", units::duration(time)),
        evidence: vec![Evidence {
            words: format!("{} of it in ksoftirqd", units::duration(soft)),
            ..Evidence::default()
        }],
        ..Seen::default()
    })
}

pub fn wait(case: &mut Case<'_>) -> Option<Seen> {
    let categories = &[Category::Woken, Category::Preempted, Category::OtherRunnable];
    let who = case.who(WAIT);
    let evidence = case.longest(WAIT);
    let time = case.take_all(categories);
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "waited {} for a CPU{}",
            units::duration(time),
            if who.is_empty() { String::new() } else { format!("; there ran {who}") }
        ),
        evidence,
        ..Seen::default()
    })
}

pub fn crowded(case: &mut Case<'_>) -> Option<Seen> {
    let categories = &[Category::Crowded];
    let who = case.who(categories);
    let evidence = case.longest(categories);
    let time = case.take_all(categories);
    (time > 0).then(|| Seen {
        time,
        words: format!("waited {} for a CPU that its own threads had: {who}", units::duration(time)),
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
        words: format!(
            "{} passed between its wakeups and its idle CPU's taking it up",
            units::duration(time)
        ),
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
        .map(|f| Evidence {
            words: format!(
                "{:.1} % of the samples in {} ({})",
                f.samples as f64 * 100.0 / all,
                f.function,
                f.at
            ),
            ..Evidence::default()
        })
        .collect()
}

fn doubt(case: &Case<'_>) -> Vec<String> {
    if case.has_samples() {
        vec![format!("the split is from {} samples", case.result.samples.samples)]
    } else {
        vec!["too few samples: user and kernel are told apart by the recorded system calls alone".into()]
    }
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
    let (kernel, user) =
        (case.sampled("system calls") + case.sampled("kernel, else"), case.sampled("user code"));
    if kernel <= 0.0 {
        return None;
    }
    let all = case.time(RUNNING);
    let time = case.take(&[Category::Running], running * kernel / (kernel + user));
    let calls = &case.result.samples.calls;
    let call = calls.iter().max_by_key(|(_, n)| **n).map(|(c, _)| format!(", most in {c}(2)"));
    let places = sampled_places(case, Of::Kernel);
    let lines = case.place_lines(&places, RUNNING);
    let place = places.first().map(|p| (p, case.place_share(p, RUNNING) * case.share(all as f64)));
    let place = place.filter(|(_, share)| *share >= crate::LEAST).map(|(p, share)| {
        let under = p.under.first().map_or(String::new(), |caller| format!(" under {}", short(caller)));
        let call = if p.call.is_empty() { String::new() } else { format!(" ({})", p.call) };
        format!(": {:.0} % of the wall time in {}{under}{call}", share * 100.0, short(&p.function))
    });
    let call = call.filter(|_| place.is_none());
    Some(Seen {
        time,
        words: format!(
            "ran {} in the kernel{}{}",
            units::duration(time),
            call.unwrap_or_default(),
            place.unwrap_or_default()
        ),
        evidence: if lines.is_empty() { functions(case) } else { lines },
        doubt: doubt(case),
    })
}

pub fn user(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::Running]);
    let time = case.take_all(&[Category::Running]);
    let places = sampled_places(case, Of::User);
    let words = case.place_words(&places, RUNNING);
    let words = if words.is_empty() { words } else { format!("; of its CPU time {words}") };
    (time > 0).then(|| Seen {
        time,
        words: format!("ran {} of its own code ({who}){words}", units::duration(time)),
        evidence: case.place_lines(&places, RUNNING),
        doubt: doubt(case),
    })
}
