// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combinations that cannot be: found before anything is made.

use super::{Job, Layout, Multiplex, Order, Sharing, SyncMethod, Through, What};
use crate::database::Dialect;
use crate::engine::UDP;
use clap::Args;

/// A job that cannot run, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JobError(pub String);

/// Bytes that a datagram of UDP over IPv4 carries at most.
const DATAGRAM: u64 = 65_507;

/// Whether HTTP can ask for it, and nothing else along with it.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic())
}

impl Job {
    /// Looks for contradictions.
    ///
    /// # Errors
    /// A sentence that names the options and what to change.
    pub fn check(&self) -> Result<(), JobError> {
        self.numbers_are_in_range()?;
        let no = |text: String| Err(JobError(text));
        let (what, through, sync) = (self.what, self.through, self.sync);
        let block = self.block.0;
        if block == 0 && what != What::Create {
            return no("--block 0: an operation needs at least one byte; try --block 4K".into());
        }
        if block > 1 << 30 {
            return no(format!("--block {}: at most 1G", self.block));
        }
        if self.direct {
            if block % 512 != 0 || self.offset.0 % 512 != 0 {
                return no(format!(
                    "--direct needs --block and --offset in whole sectors of 512 bytes; --block is {block}, --offset {}",
                    self.offset.0
                ));
            }
            if matches!(through, Through::Stdio | Through::Char | Through::Mmap) {
                return no(format!(
                    "--direct with --through {through}: that always goes through memory of its own; leave out --direct"
                ));
            }
        }
        let sockets = matches!(what, What::Request | What::Serve);
        if self.depth > 1 && !through.queues() && !sockets {
            return no(format!(
                "--depth {} with --through {through}: that is done when it returns; choose io-uring, libaio or posix-aio, or more --threads",
                self.depth
            ));
        }
        if sync == SyncMethod::Msync && through != Through::Mmap {
            return no("--sync msync writes a mapping back; it needs --through mmap".into());
        }
        if through == Through::Mmap
            && matches!(sync, SyncMethod::OSync | SyncMethod::ODsync | SyncMethod::RwfDsync)
        {
            return no(format!(
                "--sync {sync} has no effect on a mapping; with --through mmap choose msync, fsync or fdatasync"
            ));
        }
        if sync == SyncMethod::RwfDsync
            && !matches!(
                through,
                Through::Pwritev2
                    | Through::Libaio
                    | Through::IoUring
                    | Through::IoUringFixed
                    | Through::IoUringSqpoll
            )
        {
            return no(format!(
                "--sync rwf-dsync is a flag of a write; --through {through} has none: choose pwritev2, libaio or io-uring"
            ));
        }
        if matches!(through, Through::Stdio | Through::Char)
            && (sync.is_flag() && sync == SyncMethod::RwfDsync)
        {
            return no(format!("--sync {sync} with --through {through}: stdio writes with plain write(2)"));
        }
        if what == What::FsyncOnly && !sync.is_call() {
            return no(format!(
                "--what fsync-only needs a call to make: --sync fsync, fdatasync, sync-sync or sync-file-range, not {sync}"
            ));
        }
        let copies = matches!(through, Through::Sendfile | Through::CopyFileRange);
        if (what == What::Copy) != copies {
            return no(format!(
                "--what {what} with --through {through}: copy goes through sendfile or copy-file-range, and only copy does"
            ));
        }
        if (what == What::Request) == self.to.is_empty() {
            return no(match what {
                What::Request => "--what request needs a server: --to HOST:PORT".into(),
                _ => format!("--to {}: --what {what} asks no server; give --what request", self.to),
            });
        }
        self.check_sql()?;
        if sockets || !self.listen.is_empty() {
            self.check_sockets()?;
        }
        if what == What::LockAndUpdate && (sync != SyncMethod::None || self.depth > 1) {
            return no("--what lock-and-update writes no data: leave out --sync and --depth".into());
        }
        if what.names() && self.depth > 1 {
            return no(format!("--what {what} does one name at a time: leave out --depth"));
        }
        if what.names() && matches!(self.places(), Order::Interleave | Order::Zipf | Order::Strided) {
            return no(format!("--what {what}: names go in --order sequential, random or backwards"));
        }
        if self.layout == Layout::Append && self.places() != Order::Sequential && what == What::Write {
            return no(format!(
                "--layout append grows the file block by block, so --order is sequential, not {}",
                self.places()
            ));
        }
        if self.layout == Layout::Append && what == What::Write && through == Through::Mmap {
            return no(
                "--layout append with --through mmap: a mapping cannot grow a file; choose --layout sparse"
                    .into(),
            );
        }
        if self.stamp && (self.compressible > 0 || block % 512 != 0 || copies) {
            return no("--stamp fills whole sectors of 512 bytes itself: --block in whole sectors, no --compressible, no copy".into());
        }
        if !what.names() && !what.without_files() {
            let range = self.span();
            if range < block {
                return no(format!("one block ({}) does not fit into the range ({range} bytes)", self.block));
            }
            if self.places() == Order::Strided && self.stride.0 == 0 {
                return no("--stride 0 stays where it is; give the distance of two places".into());
            }
            if self.places() == Order::Interleave
                && (self.interleave.0 == 0 || self.interleave.0 % block != 0)
            {
                return no(format!(
                    "--interleave {} must be a multiple of --block {}",
                    self.interleave, self.block
                ));
            }
        }
        if self.prefix.is_empty() || self.prefix.starts_with('.') || self.prefix.contains(['/', '\0']) {
            return no(format!("--prefix '{}': a word that a file's name can begin with", self.prefix));
        }
        if !(0.0..=5.0).contains(&self.zipf) {
            return no(format!("--zipf {}: between 0 and 5", self.zipf));
        }
        if self.rate.is_some() && self.think.0 > 0 && self.burst == 0 {
            return no("--think is a pause of a closed loop; --rate sets the times of an open one: leave out one of them".into());
        }
        if self.steady.is_some() && self.time.is_none() {
            return no("--steady needs --time: the longest that it may take to become so".into());
        }
        Ok(())
    }

    /// Those of clients and servers.
    fn check_sockets(&self) -> Result<(), JobError> {
        let no = |text: String| Err(JobError(text));
        let what = self.what;
        if (what == What::Serve) == self.listen.is_empty() {
            return no(match what {
                What::Serve => {
                    "--what serve needs a place: --listen HOST:PORT, or the path of a Unix socket".into()
                }
                _ => format!("--listen {}: --what {what} is no server; give --what serve", self.listen),
            });
        }
        if !self.http.is_empty() && !is_path(&self.http) {
            return no(format!("--http {:?}: is no path, as in --http /index.html", self.http));
        }
        if self.sync != SyncMethod::None {
            return no(format!("--what {what} writes no file: leave out --sync"));
        }
        if self.reply.0 > 1 << 30 {
            return no(format!("--reply {}: at most 1G", self.reply));
        }
        let many = self.multiplex != Multiplex::None;
        if self.depth > 1 && (what == What::Serve || !many) {
            return no(match what {
                What::Serve => "--depth is the client's: a server takes what comes".into(),
                _ => format!(
                    "--depth {}: requests at once need --multiplex epoll, or more --threads",
                    self.depth
                ),
            });
        }
        if self.room > 0 && (!self.http.is_empty() || !(8..=64 << 10).contains(&self.block.0)) {
            return no(
                "--room: a message begins with 8 bytes that say whose it is: --block 8 to 64K, no --http"
                    .into(),
            );
        }
        if self.to.starts_with(UDP) || self.listen.starts_with(UDP) {
            if self.to.contains('/') || self.listen.contains('/') {
                return no(format!(
                    "a Unix socket takes no datagrams here: give {UDP}HOST:PORT, or the path alone"
                ));
            }
            let others = [
                (many, "multiplex"),
                (!self.http.is_empty(), "http"),
                (self.room > 0, "room"),
                (self.block.0 > DATAGRAM, "block"),
                (self.reply.0 > DATAGRAM, "reply"),
            ];
            if let Some((_, option)) = others.iter().find(|(given, _)| *given) {
                return no(format!(
                    "--{option} with {UDP}: a request and its answer are a datagram each, of at most {DATAGRAM} bytes, and a worker waits for one; \
                     leave out --{option}, and for more at once give --threads"
                ));
            }
        }
        if what == What::Serve {
            return self.check_server(many);
        }
        if many && self.multiplex != Multiplex::Epoll {
            return no(format!("--multiplex {}: a client waits by epoll, or not at all", self.multiplex));
        }
        if many && self.depth > self.connections && self.burst == 0 {
            return no(format!(
                "--depth {}: more requests at once than --connections {}",
                self.depth, self.connections
            ));
        }
        if self.burst > 0 && (self.rate.is_none() || self.per_connection == 0) {
            return no(
                "--burst needs --rate and --per-connection: requests a second, and of a connection".into()
            );
        }
        if self.burst > 0 && self.room > 0 {
            return no("--burst with --room: users of a room stay; leave out --burst".into());
        }
        Ok(())
    }

    /// Those of a database's clients.
    fn check_sql(&self) -> Result<(), JobError> {
        let no = |text: String| Err(JobError(text));
        let database = Dialect::of(&self.to).is_some();
        if self.sql.is_empty() {
            return match database {
                true => no("--to names a database: --sql TEXT says what it is asked".into()),
                false => Ok(()),
            };
        }
        if self.what != What::Request {
            return no(format!("--sql: --what {} asks no database; give --what request", self.what));
        }
        if !database {
            return no("--sql needs a database: --to postgresql://... or mariadb://...".into());
        }
        if self.sql.iter().any(|sql| sql.trim().is_empty() || sql.contains('\0')) {
            return no("--sql: a text is empty or has a NUL byte".into());
        }
        let plain = Job::default();
        let others = [
            (self.multiplex != plain.multiplex, "multiplex"),
            (!self.http.is_empty(), "http"),
            (self.depth != plain.depth, "depth"),
            (self.burst != plain.burst, "burst"),
            (self.room != plain.room, "room"),
            (self.block != plain.block, "block"),
            (self.reply != plain.reply, "reply"),
        ];
        match others.iter().find(|(given, _)| *given) {
            Some((_, option)) => no(format!(
                "--{option} with --sql: a request is the text, one at a time on each worker's connections; leave out --{option}, and for more at once give --threads"
            )),
            None => Ok(()),
        }
    }

    fn check_server(&self, many: bool) -> Result<(), JobError> {
        let no = |text: String| Err(JobError(text));
        if self.through != Through::Pwrite {
            return no(format!(
                "--through {}: a server receives and sends; leave it out, and choose --multiplex",
                self.through
            ));
        }
        if self.workers() > 1 && self.sharing == Sharing::Each {
            if self.listen.contains('/') {
                return no(format!(
                    "--listen {}: a Unix socket is all workers': give --sharing shared",
                    self.listen
                ));
            }
            if !many && !self.listen.starts_with(UDP) {
                return no(
                    "--multiplex none: a worker has one connection, and with --sharing each others wait behind it: give --sharing shared"
                        .into(),
                );
            }
        }
        if self.room > 0 && (self.processes > 1 || self.multiplex == Multiplex::IoUring) {
            return no("--room: all of a room are in one process, and not by io-uring: give --threads".into());
        }
        if self.rate.is_some() || self.think.0 > 0 {
            return no("--what serve answers when it is asked: --rate and --think are the client's".into());
        }
        Ok(())
    }

    /// A job file's numbers have the ranges of the options, which are written there alone.
    fn numbers_are_in_range(&self) -> Result<(), JobError> {
        let Ok(serde_json::Value::Object(all)) = serde_json::to_value(self) else { return Ok(()) };
        let numbers = all.iter().filter(|(_, v)| v.is_number()).map(|(key, v)| format!("--{key}={v}"));
        let command = Job::augment_args(clap::Command::new("job")).no_binary_name(true);
        match command.try_get_matches_from(numbers) {
            Ok(_) => Ok(()),
            Err(e) => {
                let said = e.to_string();
                let said = said.lines().next().unwrap_or_default();
                Err(JobError(said.trim_start_matches("error: ").to_string()))
            }
        }
    }

    /// Bytes that the load's places lie in.
    pub fn span(&self) -> u64 {
        let rest = self.size.0.saturating_sub(self.offset.0);
        self.range.map_or(rest, |r| r.0.min(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bytes;
    use super::*;

    #[test]
    fn a_plain_job_is_right() {
        assert_eq!(Job::default().check(), Ok(()));
    }

    #[test]
    fn contradictions_name_their_options() {
        let base = Job::default;
        let with = |mut job: Job, change: fn(&mut Job)| {
            change(&mut job);
            job
        };
        let serve = |change| with(Job { what: What::Serve, listen: "x:1".into(), ..base() }, change);
        let asks = |change: fn(&mut Job)| {
            let multiplex = Multiplex::Epoll;
            with(Job { what: What::Request, to: "x:1".into(), multiplex, ..base() }, change)
        };
        let sql = |change: fn(&mut Job)| {
            let (to, sql) = ("postgresql:///x".into(), vec!["select 1".into()]);
            with(Job { what: What::Request, to, sql, ..base() }, change)
        };
        assert_eq!(sql(|job| (job.threads, job.connections) = (2, 3)).check(), Ok(()));
        let cases: Vec<(Job, &str)> = vec![
            (sql(|job| job.sql.clear()), "--sql TEXT"),
            (sql(|job| job.to = "x:1".into()), "postgresql://"),
            (sql(|job| job.sql.push(" ".into())), "empty"),
            (sql(|job| job.sql.push("select 1\0".into())), "NUL"),
            (sql(|job| job.multiplex = Multiplex::Epoll), "--multiplex"),
            (sql(|job| job.http = "/".into()), "--http"),
            (sql(|job| job.depth = 2), "--depth"),
            (sql(|job| job.burst = 2), "--burst"),
            (sql(|job| job.block = Bytes(8192)), "--block"),
            (sql(|job| job.reply = Bytes(1)), "--reply"),
            (Job { sql: vec!["select 1".into()], ..base() }, "--what request"),
            (Job { direct: true, block: Bytes(100), ..base() }, "512"),
            (Job { depth: 4, ..base() }, "--depth 4"),
            (Job { sync: SyncMethod::Msync, ..base() }, "mmap"),
            (Job { sync: SyncMethod::RwfDsync, ..base() }, "pwritev2"),
            (Job { what: What::FsyncOnly, ..base() }, "fsync-only"),
            (Job { what: What::Request, ..base() }, "--to"),
            (Job { to: "x:1".into(), ..base() }, "--what request"),
            (Job { what: What::Request, to: "x:1".into(), http: "/a b".into(), ..base() }, "--http"),
            (Job { what: What::Request, to: "x:1".into(), depth: 2, ..base() }, "--threads"),
            (Job { what: What::Serve, ..base() }, "--listen"),
            (
                asks(|job| (job.to, job.multiplex) = ("udp:x:1".into(), Multiplex::Epoll)),
                "--multiplex with udp:",
            ),
            (serve(|job| (job.listen, job.reply) = ("udp:x:1".into(), Bytes(70_000))), "--reply with udp:"),
            (Job { listen: "x:1".into(), ..base() }, "--what serve"),
            (serve(|job| job.threads = 2), "--sharing shared"),
            (serve(|job| (job.threads, job.listen) = (2, "/s".into())), "--sharing shared"),
            (serve(|job| job.depth = 2), "--depth"),
            (serve(|job| job.through = Through::IoUring), "--multiplex"),
            (asks(|job| (job.room, job.block) = (2, Bytes(1 << 20))), "64K"),
            (serve(|job| (job.room, job.multiplex) = (3, Multiplex::IoUring)), "--room"),
            (asks(|job| job.multiplex = Multiplex::Select), "--multiplex select"),
            (asks(|job| job.depth = 2), "--connections 1"),
            (asks(|job| job.burst = 2), "--rate"),
            (asks(|job| (job.room, job.block) = (2, Bytes(7))), "--block 8"),
            (Job { what: What::Copy, ..base() }, "sendfile"),
            (Job { order: Order::Random, layout: Layout::Append, ..base() }, "append"),
            (Job { size: Bytes(100), ..base() }, "does not fit"),
            (Job { prefix: "../etc".into(), ..base() }, "--prefix"),
            (Job { through: Through::Mmap, sync: SyncMethod::ODsync, ..base() }, "mapping"),
            (Job { threads: 0, ..base() }, "--threads"),
            (Job { mix: 101, ..base() }, "101"),
            (Job { every: 0, ..base() }, "--every"),
            (Job { what: What::Unlink, depth: 2, through: Through::IoUring, ..base() }, "unlink"),
        ];
        for (job, word) in cases {
            let said = job.check().expect_err(word).0;
            assert!(said.contains(word), "{said}: lacks {word}");
        }
    }
}
