// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb sim`.

use super::JobOptions;
use clap::Args;
use plumb_load::job::{Bytes, Time};
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
The job's options are those of plumb load; what a bare device cannot do (names, mappings, the page cache) is \
refused. --depth alone is a depth of io_uring. The job has the whole disk unless --size, --offset or --range say \
otherwise, and ends after 10 s of simulated time unless --operations, --bytes or --time do; so does each job of a file. \
Tasks take no CPU time but --cpu-per-operation and --cpu-per-kib.

Exit codes: 0 done, 2 error.

two.toml, a reader and beside it a job with much to do (more in plumb help loads, Job files):
  [[step]]
  what = \"read\"
  order = \"random\"
  think = \"1ms\"
  [[step.also]]
  what = \"read\"
  block = \"128K\"
  depth = 32

Examples:
  plumb sim atlas10k4 --what read --order random --depth 8 --time 60s
  plumb sim atlas10k4 --what read --order random --depth 64 --depth-of-device 1 --scheduler deadline
  plumb sim nvme --what read --order random --think 1ms --time 10s -o t; plumb explain t; plumb view btt t
  plumb sim gp3 --set medium.iops=6000 --block 16K --time 5s --json
  plumb sim atlas10k4 --job two.toml --idle=2 --scheduler mq-deadline --scheduler-set prio_aging_expire=2000
  plumb sim nvme --job two.toml --idle=2 --scheduler lp-deadline --sweep idle_dispatch_interval=100,1000,10000
  plumb sim nvme --from DIR --scheduler lp-deadline";

/// The number of a job; 0 for all of them, which nobody can ask for by that number.
fn idle(text: &str) -> Result<usize, String> {
    match text.parse() {
        _ if text == "all" => Ok(0),
        Ok(0) => Err("jobs count from 1; --idle alone means all of them".into()),
        Ok(number) => Ok(number),
        Err(_) => {
            Err("is no job's number; --idle=2 means the second job of a step, --idle alone all of them"
                .into())
        }
    }
}

/// What to simulate.
#[derive(Debug, Args)]
pub struct Simulated {
    /// Model: a preset's name, or a model's file (with a / or .toml)
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Change the model: a dotted key of its file (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Model")]
    pub set: Vec<String>,
    /// Length of the simulated disk, its outer part if shorter than the real one [default: the real one's]
    #[arg(long, value_name = "SIZE", help_heading = "Model")]
    pub disk_size: Option<Bytes>,
    /// Seed of everything random in the model; the job has its own --seed
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Model")]
    pub sim_seed: u64,

    /// I/O scheduler: noop, deadline (2.6 to 4.x), mq-deadline (with classes), fair (as CFQ), lp-deadline, kyber, bfq
    #[arg(long, value_name = "NAME", default_value = "noop",
        value_parser = plumb_sim::queue::scheduler::NAMES, help_heading = "Queue")]
    pub scheduler: String,
    /// Set a knob of the scheduler, in the kernel's name and unit (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Queue")]
    pub scheduler_set: Vec<String>,
    /// Requests that the device has at once: its tags
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Queue",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth_of_device: u32,
    /// Requests that wait or are in flight [default: the kernel's for this scheduler]
    #[arg(long, value_name = "N", help_heading = "Queue", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub nr_requests: Option<u32>,
    /// Longest request
    #[arg(long, value_name = "SIZE", default_value = "1280K", help_heading = "Queue")]
    pub max_request: Bytes,
    /// What an operation takes of a CPU before it is queued
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "CPU")]
    pub cpu_per_operation: Time,
    /// The same for each KiB of it
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "CPU")]
    pub cpu_per_kib: Time,
    /// CPUs that all tasks share for it [default: each task has its own]
    #[arg(long, value_name = "N", help_heading = "CPU", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub cpus: Option<u32>,
    /// I/O priority class idle: of all jobs, or with =N of the N-th job of a step, from 1 on (repeatable)
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = idle, help_heading = "Queue")]
    pub idle: Vec<usize>,

    /// Do again what the requests of a recorded trace were, each after what it waited for; in place of a job
    #[arg(long, value_name = "DIR", conflicts_with_all = ["job_file", "idle"], help_heading = "Job")]
    pub from: Option<PathBuf>,
    /// The disk of that trace, where requests went to several
    #[arg(long, value_name = "NAME", requires = "from", help_heading = "Job")]
    pub from_disk: Option<String>,
    /// The job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Read the job from a file (TOML; its keys are the options' names); options given go over it
    #[arg(long = "job", value_name = "FILE", help_heading = "Job")]
    pub job_file: Option<PathBuf>,
}

impl Simulated {
    /// Model, queue and job for the simulation.
    pub fn of_experiment(&self) -> plumb_sim::experiment::Options {
        plumb_sim::experiment::Options {
            model: self.model.clone(),
            set: self.set.clone(),
            disk_size: self.disk_size,
            seed: self.sim_seed,
            scheduler_set: self.scheduler_set.clone(),
            depth_of_device: self.depth_of_device,
            nr_requests: self.nr_requests,
            max_request: self.max_request,
            cpu_per_operation: self.cpu_per_operation,
            cpu_per_kib: self.cpu_per_kib,
            cpus: self.cpus,
            idle: self.idle.clone(),
            recorded: self.from.is_some(),
            job: self.job.job.clone(),
            given: self.job.given.clone(),
            job_file: self.job_file.clone(),
        }
    }
}

/// What to simulate, and what to make of it.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// Model, queue and job.
    #[command(flatten)]
    pub of: Simulated,

    /// Write what happens into a trace, which plumb explain and plumb view read
    #[arg(short, long, value_name = "DIR", help_heading = "Result")]
    pub output: Option<PathBuf>,
    /// Simulate for each value of a knob of the scheduler, and print what each class got
    #[arg(long, value_name = "KNOB=A,B,C", conflicts_with = "output", help_heading = "Result")]
    pub sweep: Option<String>,
    /// Write what each class got as CSV and SVG: over time, or with --sweep over the knob's values
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    pub charts: Option<PathBuf>,
    /// Draw figures of this file, which has the columns of the simulation's own CSV, into the charts too, and divide
    /// the simulated ones by them
    #[arg(long, value_name = "FILE", requires = "charts", help_heading = "Result")]
    pub beside: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Result")]
    pub json: bool,
}
