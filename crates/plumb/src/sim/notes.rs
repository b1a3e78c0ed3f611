// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the options made no difference, and why.

use super::plan::Plan;
use plumb_load::job::Job;
use plumb_sim::queue::figures::DeviceReport;
use plumb_sim::queue::scheduler::Kind;
use plumb_trace::units;

/// Notes of a step that was simulated.
pub fn of(plan: &Plan, step: usize, device: &DeviceReport) -> Vec<String> {
    let jobs = &plan.steps[step].1;
    let idle = plan.has(true);
    let jobs: Vec<&Job> = jobs.iter().map(|(job, _)| job).collect();
    let notes = [
        (idle && !plan.scheduler.has_classes()).then(|| {
            format!(
                "the idle class: {} knows no classes, it makes no difference here; mq-deadline, fair, bfq and lp-deadline do",
                plan.scheduler.name()
            )
        }),
        held_nothing(&plan.scheduler, device),
        never_so_deep(&jobs, plan.settings.nr_requests, device),
    ];
    notes.into_iter().flatten().collect()
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
fn never_so_deep(jobs: &[&Job], nr_requests: usize, device: &DeviceReport) -> Option<String> {
    let asked: u64 = jobs.iter().map(|j| u64::from(j.workers()) * u64::from(j.depth.max(1))).sum();
    if jobs.iter().all(|j| j.depth <= 1) || device.most_in_system >= asked {
        return None;
    }
    let why = if device.without_slot > 0.0 {
        format!(": {nr_requests} request slots (--nr-requests)")
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
    use plumb_load::job::Rate;
    use plumb_sim::queue::figures::Figures;

    fn device() -> DeviceReport {
        DeviceReport { reads: 100, most_in_system: 3, in_system: 2.7, ..Figures::new(&[]).report().device }
    }

    #[test]
    fn a_depth_that_is_never_reached_is_told_with_its_reason() {
        let deep = Job { depth: 64, ..Job::default() };
        let slots = DeviceReport { without_slot: 0.7, ..device() };
        let said = never_so_deep(&[&deep], 2, &slots).expect("a note");
        assert_eq!(
            said,
            "depth: 64 asked for, 2.7 in flight on average, 3 at most: 2 request slots (--nr-requests)"
        );
        let open = Job { rate: Some(Rate(80.0)), ..deep.clone() };
        let said = never_so_deep(&[&open], 64, &device()).expect("a note");
        assert!(said.ends_with("the rate asks for no more"), "{said}");
        assert_eq!(never_so_deep(&[&deep], 64, &DeviceReport { most_in_system: 64, ..device() }), None);
        assert_eq!(never_so_deep(&[&Job { threads: 8, ..Job::default() }], 64, &device()), None);
    }

    #[test]
    fn a_scheduler_in_which_nothing_waits_is_told() {
        let deadline = Kind::named("deadline", true).expect("a scheduler");
        assert!(held_nothing(&deadline, &device()).is_some_and(|s| s.contains("held no request")));
        assert_eq!(held_nothing(&deadline, &DeviceReport { in_scheduler: 0.1, ..device() }), None);
        assert_eq!(held_nothing(&Kind::Noop, &device()), None);
    }
}
