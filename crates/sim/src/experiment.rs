// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is simulated: model, scheduler, and the steps of a workload, of jobs or of what was recorded; and one
//! simulation of it ([`step`], [`measure()`]).

mod measure;
mod notes;
mod step;

pub use measure::{measure, measure_idle_alone, Measured};
pub use notes::of_classes as notes_on_classes;
pub use step::{step, StepOutcome, TIMELINE_STEP};

use crate::queue::scheduler::Kind;
use crate::queue::task::refuse;
use crate::queue::{Class, Cost, Settings};
use crate::replay::Replay;
use crate::spec::Spec;
use anyhow::{bail, Context, Result};
use plumb_load::job::{Bytes, Given, Job, JobFile, Through, Time};
use std::path::PathBuf;

/// Simulated time of a job that nothing else ends, ns.
const END: u64 = 10_000_000_000;

/// What is asked for, as it was said.
#[derive(Debug, Clone)]
pub struct Options {
    /// A preset's name, or a model's file.
    pub model: String,
    /// Changes of the model, `KEY=VALUE`.
    pub set: Vec<String>,
    pub disk_size: Option<Bytes>,
    /// Seed of everything random in the model.
    pub seed: u64,
    /// Knobs of the scheduler, `KEY=VALUE`.
    pub scheduler_set: Vec<String>,
    pub depth_of_device: u32,
    pub nr_requests: Option<u32>,
    pub max_request: Bytes,
    pub cpu_per_operation: Time,
    pub cpu_per_kib: Time,
    pub cpus: Option<u32>,
    /// Numbers of the jobs of the idle class, from 1; 0 is all of them.
    pub idle: Vec<usize>,
    /// What was recorded takes the place of jobs, see [`Experiment::replay`].
    pub recorded: bool,
    pub job: Job,
    /// What of the job was given.
    pub given: Given,
    pub job_file: Option<PathBuf>,
}

pub struct Experiment {
    pub spec: Spec,
    pub size: u64,
    /// Seed of everything random in the model.
    pub seed: u64,
    pub scheduler: Kind,
    pub settings: Settings,
    /// What operations take of a CPU.
    pub cost: Cost,
    /// What was recorded, in place of a job.
    pub replay: Option<Replay>,
    /// Steps: name, jobs with their class; of what was recorded, one without jobs.
    pub steps: Vec<(String, Vec<(Job, Class)>)>,
}

impl Experiment {
    /// The experiment behind the scheduler of this name.
    ///
    /// # Errors
    /// An unknown model, knob or key, or a value that cannot be; named.
    pub fn behind(name: &str, args: &Options) -> Result<Experiment> {
        let spec = Spec::load(&args.model, &args.set)?;
        let size = args.disk_size.unwrap_or(spec.size).0;
        if size < 4096 || size % 4096 != 0 {
            bail!("--disk-size {size}: a disk is a multiple of 4096 bytes long");
        }
        let mut scheduler = Kind::named(name, spec.rotational())?;
        for knob in &args.scheduler_set {
            scheduler.set(knob).context("--scheduler-set")?;
        }
        let most = args.max_request.0;
        if most < 4096 || most % 512 != 0 || most > 1 << 30 {
            bail!("--max-request {}: whole sectors of 512 bytes, from 4K to 1G", args.max_request);
        }
        let depth = args.depth_of_device as usize;
        let nr_requests = args.nr_requests.map_or_else(|| scheduler.nr_requests(depth), |n| n as usize);
        let steps = steps(args)?;
        let most_jobs = steps.iter().map(|(_, jobs)| jobs.len()).max().unwrap_or(0);
        if let Some(n) = args.idle.iter().find(|n| **n > most_jobs) {
            bail!(
                "--idle={n}: a step has at most {most_jobs} {}",
                if most_jobs == 1 { "job" } else { "jobs" }
            );
        }
        let given = &args.given;
        let class = |number: usize| match args.idle.iter().any(|n| *n == 0 || *n == number + 1) {
            true => Class::Idle,
            false => Class::BestEffort,
        };
        let mut with_classes = Vec::new();
        for (label, asked) in steps {
            let several = asked.len() > 1;
            let mut jobs = Vec::new();
            for (n, asked) in asked.into_iter().enumerate() {
                let job = fitted(asked, given, size);
                if let Err(why) = possible(&job, size) {
                    let which = if several { format!(", job {}", n + 1) } else { String::new() };
                    return Err(match &args.job_file {
                        Some(file) => why.context(format!("{}: {label}{which}", file.display())),
                        None => why,
                    });
                }
                jobs.push((job, class(n)));
            }
            with_classes.push((label, jobs));
        }
        let steps = with_classes;
        let settings = Settings { nr_requests, max_bytes: most as u32, depth };
        let cost = Cost {
            operation: args.cpu_per_operation.0,
            per_kib: args.cpu_per_kib.0,
            cpus: args.cpus.map_or(0, |n| n as usize),
        };
        Ok(Experiment { spec, size, seed: args.seed, scheduler, settings, cost, replay: None, steps })
    }

    /// Puts what was recorded in the place of jobs.
    ///
    /// # Errors
    /// It reaches behind the disk's end; named.
    pub fn replay(&mut self, replay: Replay) -> Result<()> {
        if replay.end() > self.size {
            bail!(
                "--from {}: requests of {} reach to byte {}, and the simulated disk has {}; choose a larger model or --disk-size",
                replay.dir,
                replay.disk,
                replay.end(),
                self.size
            );
        }
        self.replay = Some(replay);
        Ok(())
    }

    /// Whether anybody of the idle class, or anybody else, takes part.
    pub fn has(&self, idle: bool) -> bool {
        match &self.replay {
            Some(replay) => replay.has(idle),
            None => self.steps.iter().flat_map(|s| &s.1).any(|(_, class)| (*class == Class::Idle) == idle),
        }
    }
}

/// A job as it was asked for.
struct Asked {
    job: Job,
    /// Nobody said how large its place is: its size is no more than a default.
    whole: bool,
}

fn steps(args: &Options) -> Result<Vec<(String, Vec<Asked>)>> {
    if args.recorded {
        return Ok(vec![("recorded".into(), Vec::new())]);
    }
    let given = &args.given;
    let Some(path) = &args.job_file else {
        let job = args.job.clone();
        return Ok(vec![(job.what.to_string(), vec![Asked { job, whole: !given.has("size") }])]);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("job file {}", path.display()))?;
    let file = JobFile::parse(&text).with_context(|| path.display().to_string())?;
    let whole = |step, job| !file.says(step, job, "size") && !given.has("size");
    let steps = file.cell.steps.iter().enumerate().map(|(at, step)| {
        let jobs = step.jobs.iter().enumerate();
        let asked = jobs.map(|(n, job)| Asked { job: given.over(job), whole: whole(at, n) }).collect();
        (step.label.clone(), asked)
    });
    Ok(steps.collect())
}

/// A job with what a simulation takes for granted: the whole disk, a queue where there is a depth, an end.
fn fitted(asked: Asked, given: &Given, size: u64) -> Job {
    let (plain, mut job) = (Job::default(), asked.job);
    if asked.whole {
        job.size.0 = size;
    }
    if job.depth > 1 && job.through == plain.through && !given.has("through") {
        job.through = Through::IoUring;
    }
    let ends = job.operations.is_some() || job.bytes.is_some() || job.time.is_some();
    if !ends && asked.whole && job.range.is_none() {
        job.time = Some(Time(END));
    }
    job
}

/// Looks whether the disk can do it.
fn possible(job: &Job, size: u64) -> Result<()> {
    // Of a range of 0 bytes nobody knows which key made it.
    if !job.what.names() && job.span() < job.block.0 && job.size.0 <= size {
        match job.range.filter(|r| r.0 < job.block.0) {
            Some(range) => bail!("--range {range}: shorter than one --block {}", job.block),
            None if job.size.0 == size => bail!(
                "--offset {}: no --block {} lies behind it, since the simulated disk has {size} bytes; give a smaller --offset or a larger --disk-size",
                job.offset,
                job.block
            ),
            None => bail!(
                "--size {}: no --block {} lies in it from --offset {} on; --size counts from the disk's beginning: give a larger one, or leave it out",
                job.size,
                job.block,
                job.offset
            ),
        }
    }
    Ok(refuse(job, size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_has_no_room_names_the_key() {
        let disk = 1 << 30;
        let job = |size: u64, offset: u64, range| Job {
            size: Bytes(size),
            offset: Bytes(offset),
            range,
            ..Job::default()
        };
        assert!(possible(&job(disk, 0, None), disk).is_ok());
        for (job, words) in [
            (job(disk, disk, None), "--offset 1G: no --block 4K lies behind it"),
            (job(1 << 20, 2 << 20, None), "--size 1M: no --block 4K lies in it from --offset 2M on"),
            (job(disk, 0, Some(Bytes(512))), "--range 512: shorter"),
            (job(2 * disk, 0, None), "--disk-size"),
        ] {
            let said = possible(&job, disk).expect_err(words).to_string();
            assert!(said.contains(words), "{said}: lacks {words}");
        }
    }
}
