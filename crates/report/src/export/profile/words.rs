// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences about a profile that its files carry.

use plumb_model::profile::Profile;
use std::collections::BTreeMap;

/// A time for a sentence: `1.234 s`, `56.7 ms`.
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        n if n >= 1e9 => format!("{:.3} s", n / 1e9),
        n if n >= 1e6 => format!("{:.3} ms", n / 1e6),
        n if n >= 1e3 => format!("{:.3} us", n / 1e3),
        n => format!("{n} ns"),
    }
}

/// The processes with the most time: two names at most.
pub fn processes(profile: &Profile) -> String {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in &profile.entries {
        if let Some(thread) = profile.threads.get(entry.thread as usize) {
            let name = if thread.process.is_empty() { &thread.comm } else { &thread.process };
            *times.entry(name).or_default() += entry.time;
        }
    }
    let mut names: Vec<(&str, u64)> = times.into_iter().collect();
    names.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    match &names[..] {
        [] => "nobody".into(),
        [(one, _)] => one.to_string(),
        [(a, _), (b, _)] => format!("{a} and {b}"),
        [(a, _), (b, _), more @ ..] => format!("{a}, {b} and {} more", more.len()),
    }
}

/// What a profile is of: `98.000 us of 2 threads within 60.000 us; 8 samples (cpu-clock 199 Hz)`.
pub fn what(profile: &Profile) -> String {
    let mut threads: Vec<u32> = profile.entries.iter().map(|e| e.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let clock = match (profile.clock.as_str(), profile.samples) {
        ("", _) => "no samples of the CPU were taken".to_string(),
        (clock, samples) => format!("{samples} samples ({clock})"),
    };
    format!(
        "{} of {} thread{} within {}; {clock}",
        time(profile.time()),
        threads.len(),
        if threads.len() == 1 { "" } else { "s" },
        time(profile.end.saturating_sub(profile.begin)),
    )
}

/// Samples a second of the sampling clock: 199 of `cpu-clock 199 Hz`.
pub fn rate(profile: &Profile) -> Option<f64> {
    let rate: f64 = profile.clock.strip_suffix(" Hz")?.rsplit(' ').next()?.parse().ok()?;
    (rate > 0.0 && rate.is_finite()).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn sentences() {
        let p = sample::small();
        assert_eq!(what(&p), "98.000 us of 2 threads within 60.000 us; 8 samples (cpu-clock 199 Hz)");
        assert_eq!(processes(&p), "app");
        assert_eq!(rate(&p), Some(199.0));
        assert_eq!(rate(&Profile::default()), None);
        assert_eq!(time(999), "999 ns");
    }
}
