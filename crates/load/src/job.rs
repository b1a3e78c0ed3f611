// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a load does. A [`Job`]'s fields are the options of `plumb load` and
//! the keys of a job file; each is written once, here.

mod check;
mod overrides;
pub mod text;
mod values;
mod words;

pub use check::JobError;
pub use overrides::{Given, JobFile};
pub use values::{Bytes, Rate, Steady, Time};
pub use words::{Arrivals, Cache, Layout, Lock, Multiplex, Order, Sharing, SyncMethod, Through, Timed, What};

use clap::Args;
use plumb_trace::load::OperationKind;
use serde::{Deserialize, Serialize};

/// One load: what its workers do, how, in which order, how fast and until when.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Job {
    /// What an operation does
    #[arg(long, value_enum, default_value_t = What::Write, help_heading = "Operation")]
    pub what: What,
    /// How it goes into the kernel
    #[arg(long, value_enum, default_value_t = Through::Pwrite, help_heading = "Operation")]
    pub through: Through,
    /// Past the page cache (O_DIRECT)
    #[arg(long, help_heading = "Operation")]
    pub direct: bool,
    /// Share of reads in a mix, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 70, help_heading = "Operation",
        value_parser = clap::value_parser!(u8).range(0..=100))]
    pub mix: u8,
    /// Pieces of a vectored operation
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Operation",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub vector: u32,
    /// What guards the counters of lock-and-update
    #[arg(long, value_enum, default_value_t = Lock::Mutex, help_heading = "Operation")]
    pub lock: Lock,
    /// Counters of lock-and-update
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Operation",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub counters: u32,
    /// Updates that one operation of lock-and-update makes, of one counter after the other, and that are timed together
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Operation",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,

    /// Where requests go: HOST:PORT, udp:HOST:PORT, the path of a Unix socket, or with --sql the URL of a database
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Network"
    )]
    pub to: String,
    /// Where a server takes requests: HOST:PORT, udp:HOST:PORT, or the path of a Unix socket, which is made
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Network"
    )]
    pub listen: String,
    /// How a worker waits for several connections at once
    #[arg(long, value_enum, default_value_t = Multiplex::None, help_heading = "Network")]
    pub multiplex: Multiplex,
    /// Bytes of an answer; a request has --block bytes
    #[arg(long, value_name = "SIZE", default_value = "4K", help_heading = "Network")]
    pub reply: Bytes,
    /// Ask for this path by HTTP/1.1, in place of --block and --reply bytes of nothing; a server answers any path
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        help_heading = "Network"
    )]
    pub http: String,
    /// Send this SQL to the database that --to names, postgresql://... or mariadb://..., and read all rows;
    /// repeatable: a worker sends them in turn
    #[arg(long, value_name = "TEXT", help_heading = "Network")]
    pub sql: Vec<String>,
    /// Connections of each worker, which have its requests in turn
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Requests of a connection, then it is closed and opened anew; 0: as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Network")]
    pub per_connection: u64,
    /// With --rate and --per-connection: a connection's requests come N at once, with --think between; 0: as
    /// they are due
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Network")]
    pub burst: u64,
    /// Connections of a chat room: each message goes to all of its room, and is done when its sender has it back;
    /// 0: no rooms
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Network",
        value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub room: u32,

    /// Which place comes next
    #[arg(long, value_enum, default_value_t = Order::Sequential, help_heading = "Order")]
    pub order: Order,
    /// Seed of everything that is random; the same seed gives the same places on every machine
    #[arg(long, value_name = "N", default_value_t = 123_456, help_heading = "Order")]
    pub seed: u32,
    /// Exponent of Zipf's law
    #[arg(long, value_name = "THETA", default_value_t = 0.99, help_heading = "Order")]
    pub zipf: f64,
    /// Distance of a strided order's places
    #[arg(long, value_name = "SIZE", default_value = "64K", help_heading = "Order")]
    pub stride: Bytes,
    /// Distance of an interleaved order's access points
    #[arg(long, value_name = "SIZE", default_value = "1M", help_heading = "Order")]
    pub interleave: Bytes,

    /// What makes written data last
    #[arg(long, value_enum, default_value_t = SyncMethod::None, help_heading = "Durability")]
    pub sync: SyncMethod,
    /// Synchronise after every N writes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Durability",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// Whether a write's time has the synchronisation behind it in it (it has a row of its own as well)
    #[arg(long, value_enum, default_value_t = Timed::In, help_heading = "Durability")]
    pub time_sync: Timed,
    /// Whether the files are closed inside the elapsed time
    #[arg(long, value_enum, default_value_t = Timed::Out, help_heading = "Durability")]
    pub time_close: Timed,

    /// What a file is like before it is written
    #[arg(long, value_enum, default_value_t = Layout::Overwrite, help_heading = "Files")]
    pub layout: Layout,
    /// Bytes of an operation
    #[arg(long, value_name = "SIZE", default_value = "4K", help_heading = "Files")]
    pub block: Bytes,
    /// Bytes of a file
    #[arg(long, value_name = "SIZE", default_value = "64M", help_heading = "Files")]
    pub size: Bytes,
    /// Where the load begins in its file or device
    #[arg(long, value_name = "SIZE", default_value = "0", help_heading = "Files")]
    pub offset: Bytes,
    /// How far it goes from there [default: to the end]
    #[arg(long, value_name = "SIZE", help_heading = "Files")]
    pub range: Option<Bytes>,
    /// Files (of each worker, unless shared)
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Files",
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub files: u64,
    /// Directories that the files lie in, evenly; 0 puts them all into one
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Files")]
    pub dirs: u64,
    /// First word of the files' names: jobs with the same word work on the same files
    #[arg(long, value_name = "WORD", default_value = "data", help_heading = "Files")]
    pub prefix: String,
    /// Whose the files are
    #[arg(long, value_enum, default_value_t = Sharing::Each, help_heading = "Files")]
    pub sharing: Sharing,
    /// Share of the written data that a compressor takes away, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0, help_heading = "Files",
        value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compressible: u8,
    /// Write where and when each block was written into it, and check that where blocks are read
    #[arg(long, help_heading = "Files")]
    pub stamp: bool,
    /// What the page cache holds of the files when the clock starts
    #[arg(long, value_enum, default_value_t = Cache::AsFound, help_heading = "Files")]
    pub cache: Cache,

    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Concurrency",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub processes: u32,
    /// Threads of each process
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Concurrency",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub threads: u32,
    /// Operations of a worker that are under way at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Concurrency",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// All stop when the first worker is done
    #[arg(long, help_heading = "Concurrency")]
    pub stonewall: bool,

    /// Open loop: operations a second of all workers together, whether those before are done or not;
    /// latency then counts from the moment that each was due
    #[arg(long, value_name = "RATE", help_heading = "Pace")]
    pub rate: Option<Rate>,
    /// When operations of an open loop are due
    #[arg(long, value_enum, default_value_t = Arrivals::Constant, help_heading = "Pace")]
    pub arrivals: Arrivals,
    /// Closed loop: pause behind each operation
    #[arg(long, value_name = "DURATION", default_value = "0", help_heading = "Pace")]
    pub think: Time,

    /// End after so many operations of each worker [default: one pass over its range]
    #[arg(long, value_name = "N", help_heading = "End", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// End after so many bytes of each worker
    #[arg(long, value_name = "SIZE", help_heading = "End")]
    pub bytes: Option<Bytes>,
    /// End after this long
    #[arg(long, value_name = "DURATION", help_heading = "End")]
    pub time: Option<Time>,
    /// End when the rate is steady, as in 5%:10s (every second of the last 10 within 5 % of their mean);
    /// at the latest after --time
    #[arg(long, value_name = "PERCENT:DURATION", help_heading = "End")]
    pub steady: Option<Steady>,
    /// Run this long before anything counts
    #[arg(long, value_name = "DURATION", default_value = "0", help_heading = "End")]
    pub ramp: Time,
}

impl Default for Job {
    fn default() -> Self {
        Job {
            what: What::Write,
            through: Through::Pwrite,
            direct: false,
            mix: 70,
            vector: 4,
            lock: Lock::Mutex,
            counters: 5,
            batch: 1,
            to: String::new(),
            listen: String::new(),
            multiplex: Multiplex::None,
            reply: Bytes(4096),
            http: String::new(),
            sql: Vec::new(),
            connections: 1,
            per_connection: 0,
            burst: 0,
            room: 0,
            order: Order::Sequential,
            seed: 123_456,
            zipf: 0.99,
            stride: Bytes(64 << 10),
            interleave: Bytes(1 << 20),
            sync: SyncMethod::None,
            every: 1,
            time_sync: Timed::In,
            time_close: Timed::Out,
            layout: Layout::Overwrite,
            block: Bytes(4096),
            size: Bytes(64 << 20),
            offset: Bytes(0),
            range: None,
            files: 1,
            dirs: 0,
            prefix: "data".into(),
            sharing: Sharing::Each,
            compressible: 0,
            stamp: false,
            cache: Cache::AsFound,
            processes: 1,
            threads: 1,
            depth: 1,
            stonewall: false,
            rate: None,
            arrivals: Arrivals::Constant,
            think: Time(0),
            operations: None,
            bytes: None,
            time: None,
            steady: None,
            ramp: Time(0),
        }
    }
}

impl Job {
    /// Worker threads of all processes.
    pub fn workers(&self) -> u32 {
        self.processes * self.threads
    }

    /// The kind of its operations; of a mix, of its reads.
    pub fn kind(&self) -> OperationKind {
        match self.what {
            What::Write => OperationKind::Write,
            What::Rewrite | What::RecordRewrite => OperationKind::Rewrite,
            What::Read | What::Mix | What::BackwardsRead | What::StridedRead => OperationKind::Read,
            What::Reread => OperationKind::Reread,
            What::Create => OperationKind::Create,
            What::Open => OperationKind::Open,
            What::Stat => OperationKind::Stat,
            What::Rename => OperationKind::Rename,
            What::Unlink => OperationKind::Unlink,
            What::FsyncOnly => OperationKind::Sync,
            What::LockAndUpdate => OperationKind::Lock,
            What::Request => OperationKind::Request,
            What::Serve => OperationKind::Serve,
            What::Copy => OperationKind::Copy,
        }
    }

    /// All kinds that its result may have: also a mix's writes, synchronisations and closes.
    pub fn kinds(&self) -> Vec<OperationKind> {
        let mut all = vec![self.kind()];
        if self.what == What::Mix {
            all.push(OperationKind::Write);
        }
        if self.sync.is_call() && self.what != What::FsyncOnly {
            all.push(OperationKind::Sync);
        }
        if self.time_close == Timed::In {
            all.push(OperationKind::Close);
        }
        all
    }

    /// Whether operations of this kind are what the job is about: its rate counts
    /// them, and not the synchronisations behind its writes.
    pub fn is_own(&self, kind: OperationKind) -> bool {
        match kind {
            OperationKind::Close => false,
            OperationKind::Sync => self.what == What::FsyncOnly,
            _ => true,
        }
    }

    /// The order that operations follow: some kinds of operation have their own.
    pub fn places(&self) -> Order {
        match self.what {
            What::BackwardsRead => Order::Backwards,
            What::StridedRead => Order::Strided,
            _ => self.order,
        }
    }

    /// What a file must be like when the load begins: what is read was written before.
    pub fn prepared(&self) -> Layout {
        match self.what {
            What::Write => self.layout,
            _ => Layout::Overwrite,
        }
    }
}

/// Jobs on one set of files, one after the other: each step's jobs run at
/// once; the files stay from step to step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What tells this cell from the others.
    pub label: String,
    /// Steps, in order; the jobs of a step run at the same time.
    pub steps: Vec<Step>,
}

/// Jobs that run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name in the result.
    pub label: String,
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl Cell {
    /// A cell of one step with one job.
    pub fn of(label: impl Into<String>, job: Job) -> Self {
        let label = label.into();
        Cell { steps: vec![Step { label: label.clone(), jobs: vec![job] }], label }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        job: Job,
    }

    #[test]
    fn options_and_default_and_keys_are_the_same() {
        let line = Line::parse_from(["load"]).job;
        assert_eq!(line, Job::default());
        let keys = serde_json::to_value(&line).expect("a job is JSON");
        let keys: Vec<_> = keys.as_object().expect("an object").keys().cloned().collect();
        use clap::CommandFactory;
        let command = Line::command();
        let options: Vec<_> = command.get_arguments().filter_map(|a| a.get_long()).collect();
        for key in &keys {
            assert!(options.contains(&key.as_str()), "{key} is no option");
        }
        assert_eq!(keys.len(), options.len());
    }
}
