// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison in a few sentences: faster or slower, what grew, and what
//! became of the accesses.

use super::lines::{Line, Mark};
use super::measure::{
    Group, Unit, ELAPSED, PATH, REQUEST, REQUESTS, REQUEST_TIME, REQUEST_UNREAD, THREADS_TIME,
};
use super::side::Side;
use plumb_report::time_parts::PARTS;
use plumb_stats::repetitions;
use plumb_trace::units;

/// Parts whose difference is below this share of the larger side are not told.
const WORTH_TELLING: f64 = 0.02;
/// Parts that are told at most.
const MOST_PARTS: usize = 4;
/// Without an error, a figure that changed by less is called the same.
const SAME: f64 = 0.05;

/// Whether a time, s, is told in milliseconds.
pub fn is_short(seconds: f64) -> bool {
    seconds < 0.1
}

/// Two times in one unit: `0.512 s -> 0.317 s`.
fn times(a: f64, b: f64, short: bool) -> String {
    if short {
        format!("{:.2} ms -> {:.2} ms", a * 1e3, b * 1e3)
    } else {
        format!("{a:.3} s -> {b:.3} s")
    }
}

/// A signed part of a time, in the whole's unit.
pub fn signed_time(seconds: f64, short: bool) -> String {
    if short {
        format!("{:+.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:+.3} s")
    }
}

/// A value as it stands in sentences and tables.
pub fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count if value.fract() == 0.0 && value >= 0.0 => units::count(value as u64),
        Unit::Count | Unit::Rate | Unit::Percent => format!("{value:.1}"),
        Unit::Mean => format!("{value:.2}"),
        Unit::Seconds | Unit::Milliseconds => format!("{value:.3}"),
        Unit::Kib if value.abs() >= 1000.0 => format!("{value:.0}"),
        Unit::Kib => format!("{value:.1}"),
    }
}

/// First sentence, and whether it says that there is a difference.
pub fn headline(lines: &[Line], line: &Line, a: &Side, b: &Side) -> String {
    let from_to = times(line.a, line.b, is_short(line.a.max(line.b)));
    if a.length_given() || b.length_given() {
        return served(lines).unwrap_or_else(|| format!(
            "No speed to compare: how long A and B were recorded ({from_to}) was chosen or cut short; compare the parts."
        ));
    }
    let Some(growth) = line.relative().map(|g| g * 100.0) else {
        return "No speed to compare: A took no time.".into();
    };
    let counts = (a.members.len(), b.members.len());
    let Some(((low, high), smallest)) = line
        .relative_low
        .zip(line.relative_high)
        .map(|(low, high)| (low * 100.0, high * 100.0))
        .zip(line.smallest_detectable.map(|s| s * 100.0 / line.a.abs()))
    else {
        let runs = if counts == (1, 1) {
            "one run each, so no error is known".into()
        } else {
            format!(
                "{} and {} runs: with fewer than {} on a side no error can be known",
                counts.0,
                counts.1,
                repetitions::FEWEST
            )
        };
        return format!("{}: {} elapsed time ({from_to}); {runs}.", faster_or_slower(growth), more(growth));
    };
    let interval = format!("95 % interval {low:+.1} to {high:+.1} %, {} and {} runs", counts.0, counts.1);
    if line.mark == Mark::Found {
        return format!(
            "{}: {} elapsed time ({from_to}; {interval}).",
            faster_or_slower(growth),
            more(growth)
        );
    }
    if !repetitions::can_find(counts.0, counts.1) {
        return format!(
            "No difference can be shown with {} and {} runs, with {fewest} and {fewest} it can: {} elapsed time ({from_to}; {interval}).",
            counts.0,
            counts.1,
            more(growth),
            fewest = repetitions::FEWEST + 1
        );
    }
    format!(
        "No difference found in the elapsed time ({from_to}, {growth:+.1} %; {interval}); smallest detectable: {smallest:.1} %."
    )
}

/// The first sentence on a service that answered requests.
fn served(lines: &[Line]) -> Option<String> {
    let line = |key: &str| lines.iter().find(|l| l.key == key);
    let requests = line(REQUESTS)?;
    let error = match (requests.error_known(), requests.relative_low.zip(requests.relative_high)) {
        (false, _) => "; no error is known".into(),
        (true, None) => String::new(),
        (true, Some((low, high))) => {
            format!("; 95 % interval {:+.1} to {:+.1} %", low * 100.0, high * 100.0)
        }
    };
    let time = line(REQUEST_TIME).map_or(String::new(), |time| {
        let change = change(time, " ms");
        format!(" Mean time of a request, from its arrival to the first bytes sent back: {change}.")
    });
    Some(format!("Requests answered a second: {}{error}.{time}", change(requests, "")))
}

fn faster_or_slower(growth: f64) -> &'static str {
    if growth < 0.0 {
        "B is faster"
    } else if growth > 0.0 {
        "B is slower"
    } else {
        "B is as fast as A"
    }
}

fn more(percent: f64) -> String {
    if percent >= 100.0 {
        format!("{:.1} times the", percent / 100.0 + 1.0)
    } else if percent < 0.0 {
        format!("{:.1} % less", -percent)
    } else {
        format!("{percent:.1} % more")
    }
}

/// What the headline's difference consists of, as far as it can be told.
pub fn sentences(lines: &[Line]) -> Vec<String> {
    // More threads wait longer, whether what they serve is faster or not.
    let of_requests = lines.iter().any(|l| l.key.starts_with(REQUEST));
    let account = || parts(lines, Group::Account).filter(|_| !of_requests);
    [parts(lines, Group::Path), account(), accesses(lines)].into_iter().flatten().collect()
}

/// Signed parts of the account or the path, grouped by what they are to a reader.
fn parts(lines: &[Line], group: Group) -> Option<String> {
    let of_requests = lines.iter().any(|l| l.group == group && l.key.starts_with(REQUEST));
    let (prefix, unit) = match (group == Group::Path, of_requests) {
        (true, true) => (REQUEST, 1e-3),
        (true, false) => (PATH, 1.0),
        (false, _) => ("", 1.0),
    };
    let part = |key: &str| {
        let line = lines.iter().find(|l| l.group == group && l.key.strip_prefix(prefix) == Some(key))?;
        Some((line.a * unit, line.b * unit, line.mark, line.error_known()))
    };
    let names: Vec<&str> = lines
        .iter()
        .filter(|l| l.group == group && l.key != THREADS_TIME)
        .filter_map(|l| l.key.strip_prefix(prefix))
        .filter(|key| *key != "child")
        .collect();
    if names.is_empty() {
        return None;
    }
    let grouped = |key: &str| PARTS.iter().find(|(_, keys)| keys.contains(&key)).map(|(words, _)| *words);
    let mut sums: Vec<(&str, f64, bool)> = Vec::new();
    let (mut a, mut b) = (0.0, 0.0);
    for key in names {
        let Some((in_a, in_b, mark, error_known)) = part(key) else { continue };
        (a, b) = (a + in_a, b + in_b);
        let words = grouped(key).unwrap_or(key);
        let sure = !error_known || mark != Mark::None;
        match sums.iter_mut().find(|s| s.0 == words) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + in_b - in_a, sum.2 || sure),
            None => sums.push((words, in_b - in_a, sure)),
        }
    }
    // Medians of parts need not add up to the median that stands in the table.
    if let Some(total) = lines.iter().find(|l| l.group == group && l.key == THREADS_TIME) {
        let child = lines.iter().find(|l| l.group == group && l.key == "child");
        let (in_a, in_b) = child.map_or((0.0, 0.0), |l| (l.a, l.b));
        (a, b) = ((total.a - in_a).max(0.0), (total.b - in_b).max(0.0));
    }
    let whole = a.max(b);
    // The headline has the requests' time in milliseconds.
    let short = of_requests || is_short(whole);
    sums.retain(|(_, difference, sure)| *sure && difference.abs() >= whole * WORTH_TELLING);
    sums.sort_by(|x, y| y.1.abs().total_cmp(&x.1.abs()));
    let told: Vec<String> = sums
        .iter()
        .take(MOST_PARTS)
        .map(|(words, difference, _)| format!("{} {words}", signed_time(*difference, short)))
        .collect();
    let what = match (group == Group::Path, of_requests) {
        (true, true) => "Of a request",
        (true, false) => "On the critical path",
        (false, _) => "Time of all threads, waiting for children left out",
    };
    let told = if told.is_empty() {
        format!(
            "no part changed {}by more than {} %",
            if lines.iter().any(Line::error_known) { "surely and " } else { "" },
            WORTH_TELLING * 100.0
        )
    } else {
        told.join(", ")
    };
    Some(format!("{what}: {}: {told}.", times(a, b, short)))
}

/// Number, mean size and time of the accesses: changed, or not.
fn accesses(lines: &[Line]) -> Option<String> {
    let line = |key: &str| lines.iter().find(|l| l.key == key);
    let count = line("accesses").filter(|l| l.a > 0.0 && l.b > 0.0)?;
    let mut words = vec![format!("Accesses to disks: {}", change(count, ""))];
    words.extend(line("mean-size").map(|l| format!("mean size {}", change(l, " KiB"))));
    words.extend(line("access-time").map(|l| format!("mean device service time {}", change(l, " ms"))));
    Some(format!("{}.", words.join("; ")))
}

fn change(line: &Line, unit: &str) -> String {
    let (a, b) = (number(line.a, line.unit), number(line.b, line.unit));
    let from_to = format!("({a} -> {b}{unit})");
    let relative = line.relative().unwrap_or(0.0);
    let same = if line.error_known() { line.mark == Mark::None } else { relative.abs() < SAME };
    if same {
        return format!("the same {from_to}");
    }
    match line.ratio {
        Some(ratio) if ratio >= 1.95 => format!("{ratio:.1} times {from_to}"),
        Some(ratio) if ratio > 0.0 && ratio <= 1.0 / 1.95 => format!("1/{:.1} of it {from_to}", 1.0 / ratio),
        _ => format!("{:+.1} % {from_to}", relative * 100.0),
    }
}

/// Requests of a recording that does not tell how long data was in its socket begin later than those of one that does.
pub fn arrivals(a: &Side, b: &Side) -> Option<String> {
    let has = |side: &Side, key: &str| side.members.iter().any(|m| m.measures.iter().any(|x| x.key == key));
    let both = has(a, REQUESTS) && has(b, REQUESTS);
    let (later, earlier) = match (has(a, REQUEST_UNREAD), has(b, REQUEST_UNREAD)) {
        (false, true) if both => ("A", "B"),
        (true, false) if both => ("B", "A"),
        _ => return None,
    };
    Some(format!("requests of {later} begin when they were read, those of {earlier} when their data came: tcp_read_waited was recorded of {earlier} alone"))
}

/// The line of the elapsed time; every run has one.
pub fn elapsed(lines: &[Line]) -> Option<&Line> {
    lines.iter().find(|l| l.key == ELAPSED)
}

#[cfg(test)]
mod tests {
    use super::super::lines::from_measures;
    use super::super::measure::{measures, Measure};
    use super::super::side::Kind;
    use super::*;
    use plumb_model::RunResult;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;
    use std::path::PathBuf;

    /// A recorded row; what it does not have, because later versions added it, is empty.
    fn filled<T: Default + Serialize + for<'a> Deserialize<'a>>(row: &Value) -> T {
        let mut all = serde_json::to_value(T::default()).expect("JSON");
        for (key, value) in row.as_object().expect("a row") {
            if key != "threads" && key != "syscalls" {
                all[key] = value.clone();
            }
        }
        serde_json::from_value(all).expect("a row")
    }

    /// One of the recorded nine readers, its `dd` alone.
    fn readers(name: &str) -> Vec<Measure> {
        let path = format!("{}/../../tests/runs/nine-readers/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(&path);
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let rows = |key: &str| all[key].as_array().expect(key).iter();
        let result = RunResult {
            begin: all["begin"].as_u64().expect("ns"),
            end: all["end"].as_u64().expect("ns"),
            processes: rows("processes").filter(|p| p["comm"] == "dd").map(filled).collect(),
            devices: rows("devices").map(filled).collect(),
            ..RunResult::default()
        };
        measures(&result, true, &all)
    }

    fn side(runs: usize) -> Side {
        let member = super::super::side::Member {
            dir: PathBuf::from("1"),
            exit_code: Some(0),
            length_given: false,
            not_valid: Vec::new(),
            doubts: Vec::new(),
            cut_off: false,
            no_account: Vec::new(),
            environment: Default::default(),
            measures: Vec::new(),
        };
        let kind = if runs == 1 { Kind::Run } else { Kind::Set };
        Side { path: PathBuf::from("side"), kind, members: vec![member; runs], left_out: Vec::new() }
    }

    #[test]
    fn the_nine_readers_are_told_in_three_sentences() {
        let lines = from_measures(&[readers("one-by-one")], &[readers("at-once")]);
        let first = headline(&lines, elapsed(&lines).expect("a line"), &side(1), &side(1));
        assert_eq!(
            first,
            "B is faster: 38.1 % less elapsed time (0.512 s -> 0.317 s); one run each, so no error is known."
        );
        let want = [
            "Time of all threads, waiting for children left out: 0.510 s -> 2.795 s: +1.830 s waiting for the device, \
             +0.549 s waiting for a CPU, -0.093 s running on a CPU.",
            "Accesses to disks: the same (755 -> 757); mean size the same (1221 -> 1218 KiB); \
             mean device service time 8.3 times (1.322 -> 10.949 ms).",
        ];
        assert_eq!(sentences(&lines), want);
    }

    fn timed(a: &[f64], b: &[f64]) -> String {
        let runs = |values: &[f64]| -> Vec<Vec<Measure>> {
            let measure = |v: &f64| Measure {
                group: Group::Elapsed,
                key: ELAPSED.into(),
                name: ELAPSED.into(),
                unit: Unit::Seconds,
                value: Some(*v),
                absent_is_zero: true,
            };
            values.iter().map(|v| vec![measure(v)]).collect()
        };
        let lines = from_measures(&runs(a), &runs(b));
        headline(&lines, elapsed(&lines).expect("a line"), &side(a.len()), &side(b.len()))
    }

    #[test]
    fn a_service_is_compared_by_what_it_answers() {
        let ran = |of: &str, requests, waits: u64, runs: u64| {
            let service = plumb_model::ServiceResult { requests, time: waits + runs, ..Default::default() };
            let result = RunResult { end: 10_000_000_000, service, ..RunResult::default() };
            // As many were not answered.
            let part = |category: &str, ns: u64| serde_json::json!({"category": category, "time": 2 * ns});
            let path = serde_json::json!({"of": of, "parts": [part("socket", waits), part("running", runs)]});
            let service = serde_json::json!({"requests": requests, "time": waits + runs});
            measures(&result, true, &serde_json::json!({"path": path, "service": service}))
        };
        let mut given = side(1);
        given.members[0].length_given = true;
        let said = |a: Vec<Measure>, b: Vec<Measure>| {
            let lines = from_measures(&[a], &[b]);
            let mut said = vec![headline(&lines, elapsed(&lines).expect("a line"), &given, &given)];
            said.extend(sentences(&lines));
            said
        };
        let before = || ran("requests", 1_000, 30_000_000_000, 1_000_000_000);
        assert_eq!(
            said(before(), ran("requests", 4_000, 8_000_000_000, 4_000_000_000)),
            [
                "Requests answered a second: 4.0 times (100.0 -> 400.0); no error is known. Mean time of a request, from its \
                 arrival to the first bytes sent back: 1/10.3 of it (31.000 -> 3.000 ms).",
                "Of a request: 31.00 ms -> 3.00 ms: -28.00 ms waiting for sockets and the network."
            ]
        );
        let slow = said(ran("requests", 100, 30_000_000_000, 1_000_000_000), before());
        assert!(slow[1].starts_with("Of a request: 310.00 ms -> 31.00 ms"), "the headline's unit: {slow:?}");
        // One that hardly has to work has no path of requests, and one that answers nothing no time of one.
        let idle = said(before(), ran("threads", 4_000, 8_000_000, 4_000_000));
        assert!(idle[0].starts_with("Requests answered a second: 4.0 times"), "{idle:?}");
        assert!(!idle.iter().any(|s| s.starts_with("Of a request")), "{idle:?}");
        let dead = said(before(), ran("requests", 0, 30_000_000_000, 0));
        assert_eq!(dead[0], "Requests answered a second: -100.0 % (100.0 -> 0.0); no error is known.");
    }

    #[test]
    fn requests_that_begin_at_another_moment_are_a_doubt() {
        let side = |requests, unread| {
            let service = plumb_model::ServiceResult { requests, time: 9, unread, ..Default::default() };
            let result = RunResult { service, ..RunResult::default() };
            let mut side = side(1);
            side.members[0].measures = measures(&result, true, &Value::Null);
            side
        };
        let (read, came) = (side(3, None), side(3, Some(0)));
        let said = |a, b| arrivals(a, b).unwrap_or_default();
        assert!(said(&read, &came).starts_with("requests of A begin when they were read, those of B when"));
        assert!(said(&came, &read).starts_with("requests of B begin when they were read, those of A when"));
        for (a, b) in [(&read, &read), (&came, &came), (&side(0, None), &came)] {
            assert_eq!(arrivals(a, b), None);
        }
    }

    #[test]
    fn the_headline_says_no_more_than_the_runs_can_tell() {
        let (a, b) = ([1.0, 1.01, 0.99, 1.02, 0.98], [1.2, 1.21, 1.19, 1.22, 1.18]);
        assert!(timed(&a, &b).starts_with("B is slower: 20.0 % more elapsed time (1.000 s -> 1.200 s; 95 %"));
        assert!(timed(&b, &a).starts_with("B is faster: 16.7 % less elapsed time"));
        let same = timed(&a, &a);
        assert!(same.starts_with("No difference found") && same.contains("smallest detectable: "), "{same}");
        let few = timed(&a[..3], &b[..3]);
        assert!(few.starts_with("No difference can be shown with 3 and 3 runs"), "{few}");
        let fewer = timed(&a[..2], &b);
        assert!(fewer.contains("2 and 5 runs: with fewer than 3 on a side no error can be known"), "{fewer}");
        assert!(timed(&[0.1], &[1.0]).contains("10.0 times the elapsed time"));
        let mut cut = side(1);
        cut.members[0].length_given = true;
        let lines = from_measures(&[readers("one-by-one")], &[readers("at-once")]);
        assert!(headline(&lines, elapsed(&lines).expect("a line"), &cut, &side(1))
            .starts_with("No speed to compare"));
    }
}
