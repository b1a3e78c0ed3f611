// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chat server: every message of a user goes to all users of the room.

use super::figures::{failures, number, per_s, Rounds};
use super::network::{cell, of_clients, of_server, ADDRESS};
use super::{refuse, Classic};
use crate::job::{Bytes, Cell, Given, Job, JobError, Multiplex, Sharing, What};
use crate::result::{CellResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Each user sends --operations messages of --block bytes, the next one when the one before came back, and reads those of the others. \
With --multiplex none (the default) server and clients have a thread for each user; with --multiplex epoll one each for all. \
Fewer CPUs: taskset -c 0 plumb load chat.

Examples:
  plumb load chat
  plumb load chat --rooms 1,10 --users 20 --operations 1000
  plumb load chat --rooms 10 --multiplex epoll

Source: VolanoMark in \"What kernel 2.6 can do\" (NTT Comware): rooms of 20 users, messages a second against CPUs.";

/// Options of chat.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ChatArgs {
    /// Numbers of rooms [default: 1,2,5,10]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rooms: Vec<u32>,
    /// Users of a room [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub users: Option<u32>,
}

const ROOMS: [u32; 4] = [1, 2, 5, 10];

impl Classic for ChatArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "choose with --rooms and --users";
        refuse(
            given,
            &[
                ("what", "it serves and sends"),
                ("threads", own),
                ("processes", own),
                ("room", own),
                ("connections", own),
                ("depth", own),
            ],
        )?;
        let rooms = if self.rooms.is_empty() { ROOMS.to_vec() } else { self.rooms.clone() };
        let room = self.users.unwrap_or(20);
        let line = given.over(&Job { operations: Some(200), block: Bytes(200), ..Job::default() });
        let one = line.multiplex != Multiplex::None;
        let of = |rooms: u32| {
            let all = rooms * room;
            let threads = if one { 1 } else { all };
            let base = Job { multiplex: line.multiplex, block: line.block, room, threads, ..Job::default() };
            let server =
                Job { what: What::Serve, listen: ADDRESS.into(), sharing: Sharing::Shared, ..base.clone() };
            // One worker for all of them sends as much as they would.
            let operations = line.operations.map(|n| if one { n * u64::from(all) } else { n });
            let connections = if one { all } else { 1 };
            let client = Job { what: What::Request, operations, connections, depth: connections, ..base };
            cell(format!("{rooms} rooms of {room}"), given, &server, &client, &["operations"])
        };
        Ok(rooms.into_iter().map(of).collect())
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            let Some(job) = cell.step(&cell.label).find_map(|s| s.jobs.last()).map(|j| &j.job) else {
                continue;
            };
            let latency = |figure: &dyn Fn(&crate::result::KindResult) -> f64| {
                let all = of_clients(cell, |j| j.kind("request").map_or(f64::NAN, figure));
                number(Rounds::default().median("", all.collect::<Vec<_>>()), 3)
            };
            let told = |j: &crate::result::JobResult| {
                j.kind("serve").map_or(0, |k| k.bytes) as f64 / j.job.block.0 as f64
            };
            let cpu = |j: &crate::result::JobResult| (j.cpu.user_ns + j.cpu.system_ns) as f64 / 1e3;
            rows.push(vec![
                cell.label.clone(),
                (job.workers().max(job.connections)).to_string(),
                number(
                    Rounds::default().median(
                        "",
                        of_clients(cell, |j| {
                            j.kind("request").map_or(f64::NAN, |k| per_s(k.count as f64, j.elapsed_ns))
                        }),
                    ),
                    0,
                ),
                number(rounds.median(&cell.label, of_server(cell, |j| per_s(told(j), j.elapsed_ns))), 0),
                latency(&|k| k.latency().mean_ns / 1e6),
                latency(&|k| k.latencies().quantile(0.99) as f64 / 1e6),
                number(Rounds::default().median("", of_server(cell, |j| cpu(j) / told(j))), 2),
                number(Rounds::default().median("", of_server(cell, |j| j.cpu.parallelism)), 2),
            ]);
        }
        let mut notes = vec![rounds.note("messages/s")];
        notes.push("A message that was sent is delivered to all users of its room who are still there. Latency: until its sender has it back, which is after the server gave it to all.".into());
        notes.extend(failures(cells));
        let head = [
            "<rooms",
            "users",
            "sent/s",
            "delivered/s",
            "mean ms",
            "p99 ms",
            "server's CPU us a delivery",
            "server's CPUs busy",
        ];
        vec![Table { title: "A chat server".into(), head: head.map(String::from).to_vec(), rows, notes }]
    }

    fn rounds(&self) -> Option<u32> {
        Some(3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{given, parse};
    use super::*;

    #[test]
    fn a_thread_for_each_user_or_one_for_all() {
        let cells = parse(&["chat"]).cells(&Given::default()).expect("cells");
        let [server, client] = &cells[3].steps[0].jobs[..] else { panic!("a server and clients") };
        assert_eq!(
            (server.threads, client.threads, client.operations, client.room),
            (200, 200, Some(200), 20)
        );
        let epoll = given(Job { multiplex: Multiplex::Epoll, ..Job::default() }, &["multiplex"]);
        let cells = parse(&["chat", "--rooms", "2", "--users", "5"]).cells(&epoll).expect("cells");
        let [server, client] = &cells[0].steps[0].jobs[..] else { panic!("a server and clients") };
        assert_eq!(
            (server.threads, client.threads, client.connections, client.operations),
            (1, 1, 10, Some(2000))
        );
    }
}
