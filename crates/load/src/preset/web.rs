// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A web server under connections that stay open: what each way of waiting for them costs.

use super::figures::{failures, number, per_s, Rounds};
use super::network::{cell, of_clients, of_server, ADDRESS};
use super::{refuse, Classic};
use crate::job::{Bytes, Cell, Given, Job, JobError, Multiplex, Rate, Sharing, Time, What};
use crate::result::{CellResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
A session is a connection with 6 requests, 2 at once, with --think between. Sessions come at a set rate, whether or not \
the server keeps up. The server is plumb's own, with --servers processes that share a socket; with --to HOST:PORT another one \
is asked, and --http names its page.

Examples:
  plumb load web
  plumb load web --models select,epoll --sessions 100 --time 10s --think 2s
  plumb load web --to 127.0.0.1:80 --http /index.html --sessions 50
  plumb load web --paper

Source: the web server test of \"What kernel 2.6 can do\" (NTT Comware): userver with select, poll or epoll in 8 processes; \
httperf with 20 to 320 connections a second, 6 requests a connection in bursts of 2 every 30 s, a page of 500 bytes, 60 s.";

/// Options of web.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct WebArgs {
    /// How the server waits [default: select,poll,epoll,io-uring]
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub models: Vec<Multiplex>,
    /// Sessions a second [default: 20,40,80,160,320]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sessions: Vec<u32>,
    /// Processes of the server [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub servers: Option<u32>,
    /// The paper's times: 30 s between bursts, 60 s for each rate [default: 3 s, 10 s]
    #[arg(long, conflicts_with_all = ["models", "sessions", "servers"])]
    pub paper: bool,
}

const MODELS: [Multiplex; 4] = [Multiplex::Select, Multiplex::Poll, Multiplex::Epoll, Multiplex::IoUring];
const SESSIONS: [u32; 5] = [20, 40, 80, 160, 320];
const REQUESTS: u64 = 6;
const BURST: u64 = 2;

/// Connections that sessions hold open when they come at this rate and the server answers at once.
fn open(job: &Job) -> f64 {
    let sessions = job.rate.map_or(0.0, |r| r.0) / job.per_connection.max(1) as f64;
    let pauses = (job.per_connection.div_ceil(job.burst.max(1)) - 1) as f64;
    let life = (job.think.0 as f64 * pauses).min(job.time.map_or(f64::MAX, |t| t.0 as f64));
    sessions * life / 1e9
}

impl Classic for WebArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        refuse(
            given,
            &[
                ("what", "it serves and asks"),
                ("rate", "choose with --sessions"),
                ("multiplex", "choose with --models"),
                ("connections", "as many as the sessions need"),
                ("processes", "choose with --servers"),
                ("threads", "choose with --servers"),
            ],
        )?;
        let models = match (given.has("to"), self.models.is_empty()) {
            (true, false) => {
                return Err(JobError("--models: the server that --to names waits in its own way".into()))
            }
            (true, true) => vec![Multiplex::None],
            (false, true) => MODELS.to_vec(),
            (false, false) => self.models.clone(),
        };
        let sessions = if self.sessions.is_empty() { SESSIONS.to_vec() } else { self.sessions.clone() };
        let (pause, time) = if self.paper { (30, 60) } else { (3, 10) };
        let mut cells = Vec::new();
        for &multiplex in &models {
            for &rate in &sessions {
                let (http, reply) = ("/".to_string(), Bytes(500));
                let server = Job {
                    what: What::Serve,
                    listen: ADDRESS.into(),
                    multiplex,
                    http: http.clone(),
                    reply,
                    processes: self.servers.unwrap_or(8),
                    sharing: Sharing::Shared,
                    ..Job::default()
                };
                let client = Job {
                    what: What::Request,
                    multiplex: Multiplex::Epoll,
                    http,
                    reply,
                    per_connection: REQUESTS,
                    burst: BURST,
                    think: Time(pause * 1_000_000_000),
                    time: Some(Time(time * 1_000_000_000)),
                    ..Job::default()
                };
                let mut client = given.over_except(&client, &["listen", "sharing"]);
                if !self.paper && !given.has("ramp") {
                    // Until sessions end as fast as they come.
                    client.ramp =
                        Time(client.think.0 * (client.per_connection.div_ceil(client.burst.max(1)) - 1));
                }
                let server = Job { ramp: client.ramp, ..server };
                client.rate = Some(Rate(f64::from(rate) * client.per_connection as f64));
                // Half as many again, and a second's sessions: a slow server keeps them longer.
                client.connections = (1.5 * open(&client)) as u32 + 2 * rate + 16;
                client.depth = client.connections.min(4096);
                let how =
                    if given.has("to") { given.over(&Job::default()).to } else { multiplex.to_string() };
                let made =
                    ["rate", "connections", "depth", "think", "time", "burst", "per-connection", "ramp"];
                cells.push(cell(format!("{how}, {rate} sessions/s"), given, &server, &client, &made));
            }
        }
        Ok(cells)
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            let Some(client) = cell.step(&cell.label).find_map(|s| s.jobs.last()).map(|j| &j.job) else {
                continue;
            };
            let request = |figure: &dyn Fn(&crate::result::KindResult, u64) -> f64| {
                of_clients(cell, |j| j.kind("request").map_or(f64::NAN, |k| figure(k, j.elapsed_ns)))
                    .collect::<Vec<_>>()
            };
            let cpu = |part: fn(&crate::result::JobResult) -> u64| {
                Rounds::default().median("", of_server(cell, |j| part(j) as f64 / 1e9))
            };
            let each = of_server(cell, |j| {
                let served = j.kind("serve").map_or(0, |k| k.count).max(1) as f64;
                (j.cpu.user_ns + j.cpu.system_ns) as f64 / 1e3 / served
            });
            let (how, _) = cell.label.split_once(", ").unwrap_or((&cell.label, ""));
            let sessions = client.rate.map_or(f64::NAN, |r| r.0) / client.per_connection.max(1) as f64;
            rows.push(vec![
                how.to_string(),
                number(Some(sessions), 0),
                number(
                    rounds.median(
                        &cell.label,
                        request(&|k, ns| per_s((k.count - k.errors.min(k.count)) as f64, ns)),
                    ),
                    1,
                ),
                number(Rounds::default().median("", request(&|k, _| k.latency().mean_ns / 1e6)), 3),
                number(
                    Rounds::default().median("", request(&|k, _| k.latencies().quantile(0.99) as f64 / 1e6)),
                    3,
                ),
                number(Some(open(client)), 0),
                number(cpu(|j| j.cpu.user_ns), 3),
                number(cpu(|j| j.cpu.system_ns), 3),
                number(Rounds::default().median("", each), 1),
            ]);
        }
        let mut notes = vec![rounds.note("replies/s")];
        notes.push("Connections open: by arithmetic, sessions a second and how long one stays. CPU: of all processes of the server.".into());
        notes.extend(failures(cells));
        let head = [
            "<server waits by",
            "sessions/s",
            "replies/s",
            "mean ms",
            "p99 ms",
            "connections open",
            "user s",
            "system s",
            "CPU us a reply",
        ];
        vec![Table {
            title: "A web server under open connections".into(),
            head: head.map(String::from).to_vec(),
            rows,
            notes,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{given, parse};
    use super::*;

    #[test]
    fn the_papers_rates_pages_and_bursts() {
        let cells = parse(&["web", "--paper"]).cells(&Given::default()).expect("cells");
        assert_eq!(cells.len(), 20);
        let [server, client] = &cells[4].steps[0].jobs[..] else { panic!("a server and a client") };
        assert_eq!((server.processes, server.multiplex, server.reply), (8, Multiplex::Select, Bytes(500)));
        assert_eq!((client.rate, client.per_connection, client.burst), (Some(Rate(1920.0)), 6, 2));
        assert_eq!((client.think, client.time), (Time(30_000_000_000), Some(Time(60_000_000_000))));
        // 320 a second, each for 60 s.
        assert_eq!(open(client), 19_200.0);
        assert!(client.connections > 19_200);
        assert_eq!(server.listen, client.to);
    }

    #[test]
    fn another_server_is_asked_where_it_is() {
        let line = given(Job { to: "x:80".into(), http: "/a".into(), ..Job::default() }, &["to", "http"]);
        let cells = parse(&["web", "--sessions", "7"]).cells(&line).expect("cells");
        let [client] = &cells[0].steps[0].jobs[..] else { panic!("a client alone") };
        assert_eq!((client.to.as_str(), client.http.as_str(), cells.len()), ("x:80", "/a", 1));
        assert!(parse(&["web", "--models", "poll"]).cells(&line).is_err());
    }
}
