// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MariaDB, recorded with nothing but --pid: its statements against its performance schema.

use crate::common::servers::Mariadb as Server;
use crate::common::{self, can, explain, plumb};
use crate::of;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

impl Server {
    fn recorded(&self, name: &str, work: impl FnOnce()) -> Value {
        let trace = self.dir.path().join(name);
        let mut command = plumb();
        command.args(["record", "-q", "--span-text", "--pid", &self.child.id().to_string(), "-o"]);
        let mut recorder = common::start(command.arg(&trace), &trace);
        work();
        common::signal(&recorder, libc::SIGINT);
        assert!(recorder.wait().expect("plumb").success());
        explain(&trace)
    }
}

#[test]
fn counts_and_times_agree_with_the_performance_schema() {
    let test = "counts_and_times_agree_with_the_performance_schema";
    if !can(test, &["setpriv", "mariadbd", "mariadb-install-db", "mariadb"]) {
        return;
    }
    let server = Server::start();
    server.ask("create database d; use d; create table d.t (id int primary key, v int); insert into d.t select seq, 0 from seq_1_to_20000");
    let statements =
        "select sum(v + id % 7) from d.t where id > 100; update d.t set v = v + 1 where id = 7; ".repeat(200);
    server.ask("truncate table performance_schema.events_statements_summary_by_digest");
    let explained = server.recorded("statements", || drop(server.ask(&statements)));
    let view = server.ask(
        "select count_star, sum_timer_wait / 1000, if(digest_text like 'SELECT SUM%', 's', 'u') from \
         performance_schema.events_statements_summary_by_digest where digest_text like '%`t` %' and \
         (digest_text like 'SELECT SUM%' or digest_text like 'UPDATE%')",
    );
    let mut seen = 0;
    for line in view.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let (calls, time): (u64, f64) = (words[0].parse().expect("calls"), words[1].parse().expect("ns"));
        let key = match words[2] {
            "s" => "select sum(v + id % ?) from d.t where id > ?",
            _ => "update d.t set v = v + ? where id = ?",
        };
        let row = of(&explained, key);
        let total = row["total"].as_u64().expect("ns") as f64;
        println!(
            "{key}: {calls} calls, {total:.0} ns, the schema {time:.0} ns: {:+.2} %",
            (total / time - 1.0) * 100.0
        );
        assert_eq!(row["count"], calls, "{key}");
        assert_eq!(common::sum(&row["account"]), row["total"].as_u64().expect("ns"));
        // Ours has the probe's own time and the end of the command too.
        assert!(
            total > time * 0.97 && total < time * 1.1 + 30_000.0 * calls as f64,
            "{key}: {total} ns, the schema has {time}"
        );
        seen += 1;
    }
    assert_eq!(seen, 2, "{view}");
}

#[test]
fn a_row_lock_names_the_thread_that_held_it() {
    if !can(
        "a_row_lock_names_the_thread_that_held_it",
        &["setpriv", "mariadbd", "mariadb-install-db", "mariadb"],
    ) {
        return;
    }
    let server = Server::start();
    server.ask("create database d; create table d.account (id int primary key, v int); insert into d.account values (1, 0)");
    let mut holder = String::new();
    let explained = server.recorded("row", || {
        let hold = "begin; update d.account set v = v + 1 where id = 1; select tid from information_schema.processlist where id = connection_id(); select sleep(1); commit";
        let hold = server.client(hold).stdout(Stdio::piped()).spawn().expect("mariadb");
        std::thread::sleep(Duration::from_millis(300));
        server.ask("update d.account set v = v + 2 where id = 1");
        let out = hold.wait_with_output().expect("mariadb");
        holder = String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_string();
    });
    let update = of(&explained, "update d.account set v = v + ? where id = ?");
    assert_eq!(update["count"], 2);
    let cause = &update["causes"][0];
    println!("{cause}; held by thread {holder}");
    assert!(cause["time"].as_u64() > Some(400_000_000), "{update}");
    let blockers = explained["service"]["blockers"].as_array().expect("blockers");
    assert_eq!(blockers[0]["tid"].to_string(), holder, "{blockers:?}");
}
