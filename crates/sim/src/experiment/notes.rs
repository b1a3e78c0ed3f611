// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the options made no difference, and why.

use super::Experiment;
use crate::queue::figures::DeviceReport;
use crate::queue::scheduler::Kind;
use plumb_load::job::Job;
use plumb_trace::units;

/// Notes of a step that was simulated.
pub fn of(experiment: &Experiment, step: usize, device: &DeviceReport) -> Vec<String> {
    let jobs: Vec<&Job> = experiment.steps[step].1.iter().map(|(job, _)| job).collect();
    let mut notes = of_classes(experiment);
    notes.extend(held_nothing(&experiment.scheduler, device));
    notes.extend(never_so_deep(&jobs, &slots(experiment), device));
    notes
}

/// Notes that hold for every simulation of an experiment.
pub fn of_classes(experiment: &Experiment) -> Vec<String> {
    let scheduler = experiment.scheduler.name();
    if experiment.has(true) && !experiment.scheduler.has_classes() {
        return vec![format!(
            "the idle class: {scheduler} knows no classes, it makes no difference here; mq-deadline, fair, bfq and lp-deadline do"
        )];
    }
    if scheduler == "lp-deadline" && !experiment.has(true) {
        return vec![format!(
            "no job has the idle class (--idle), so {scheduler}'s gate makes no difference here"
        )];
    }
    Vec::new()
}

/// The tags in words, and what of them the idle class may have.
fn slots(experiment: &Experiment) -> String {
    let all = format!("{} tags (--nr-requests)", experiment.settings.nr_requests);
    let knobs = experiment.scheduler.shown();
    match knobs.iter().find_map(|knob| knob.strip_prefix("low_slots=")) {
        Some(percent) if experiment.has(true) => {
            format!("{all}, of which the idle class has {percent} % (low_slots)")
        }
        _ => all,
    }
}

/// All requests went through the scheduler at the moment at which they came.
fn held_nothing(scheduler: &Kind, device: &DeviceReport) -> Option<String> {
    let held = device.in_scheduler > 0.0 || device.merges > 0 || device.reads + device.writes == 0;
    (!held && *scheduler != Kind::Noop).then(|| {
        "the scheduler held no request: it makes no difference here (where --depth-of-device is lower, requests wait)"
            .into()
    })
}

/// Fewer were under way at every moment than the jobs have users.
fn never_so_deep(jobs: &[&Job], slots: &str, device: &DeviceReport) -> Option<String> {
    let asked: u64 = jobs.iter().map(|j| u64::from(j.workers()) * u64::from(j.depth.max(1))).sum();
    if jobs.iter().all(|j| j.depth <= 1) || device.most_in_system >= asked {
        return None;
    }
    let why = if device.without_slot > 0.0 {
        format!(": {slots}")
    } else if jobs.iter().any(|j| j.rate.is_some()) {
        ": the rate asks for no more".into()
    } else if jobs.iter().any(|j| j.think.0 > 0) {
        ": users think meanwhile".into()
    } else {
        String::new()
    };
    Some(format!(
        "depth: {} asked for, {:.1} in flight on average, {} at most{why}",
        units::count(asked),
        device.in_system,
        units::count(device.most_in_system)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::figures::Figures;
    use plumb_load::job::Rate;

    fn device() -> DeviceReport {
        DeviceReport { reads: 100, most_in_system: 3, in_system: 2.7, ..Figures::new(&[]).report().device }
    }

    #[test]
    fn a_depth_that_is_never_reached_is_told_with_its_reason() {
        let deep = Job { depth: 64, ..Job::default() };
        let slots = DeviceReport { without_slot: 0.7, ..device() };
        let said = never_so_deep(&[&deep], "2 tags (--nr-requests)", &slots).expect("a note");
        assert_eq!(said, "depth: 64 asked for, 2.7 in flight on average, 3 at most: 2 tags (--nr-requests)");
        let open = Job { rate: Some(Rate(80.0)), ..deep.clone() };
        let said = never_so_deep(&[&open], "64", &device()).expect("a note");
        assert!(said.ends_with("the rate asks for no more"), "{said}");
        assert_eq!(never_so_deep(&[&deep], "64", &DeviceReport { most_in_system: 64, ..device() }), None);
        assert_eq!(never_so_deep(&[&Job { threads: 8, ..Job::default() }], "64", &device()), None);
    }

    #[test]
    fn a_scheduler_in_which_nothing_waits_is_told() {
        let deadline = Kind::named("deadline", true).expect("a scheduler");
        assert!(held_nothing(&deadline, &device()).is_some_and(|s| s.contains("held no request")));
        assert_eq!(held_nothing(&deadline, &DeviceReport { in_scheduler: 0.1, ..device() }), None);
        assert_eq!(held_nothing(&Kind::Noop, &device()), None);
    }
}
