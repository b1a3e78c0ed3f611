// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PostgreSQL, recorded with nothing but --pid: its statements and wait events against its own views.

use crate::common::servers::Postgres as Server;
use crate::common::{self, can, explain, must, plumb, stderr};
use crate::{of, spans};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

impl Server {
    /// Records the server while `work` is at it; the recording ends when that has.
    fn recorded(&self, name: &str, more: &[&str], work: impl FnOnce()) -> Value {
        let trace = self.dir.path().join(name);
        let mut command = plumb();
        command.args(["record", "-q", "--span-text", "--pid", &self.postmaster.id().to_string(), "-o"]);
        command.arg(&trace).args(more);
        let mut recorder = common::start(&mut command, &trace);
        work();
        common::signal(&recorder, libc::SIGINT);
        assert!(recorder.wait().expect("plumb").success());
        common::babeltrace_agrees(&trace);
        explain(&trace)
    }
}

fn can_serve(test: &str) -> Option<PathBuf> {
    if !can(test, &["setpriv", "psql", "babeltrace2"]) {
        return None;
    }
    let bin = Server::programs();
    if bin.is_none() {
        println!("SKIP {test}: no PostgreSQL server in /usr/lib/postgresql (apt-get install postgresql)");
    }
    bin
}

#[test]
fn counts_and_times_agree_with_pg_stat_statements() {
    let Some(bin) = can_serve("counts_and_times_agree_with_pg_stat_statements") else { return };
    let settings = ["shared_preload_libraries=pg_stat_statements", "autovacuum=off"];
    let server = Server::start(&bin, &settings);
    let out = server.psql("create extension pg_stat_statements");
    if !out.status.success() {
        println!("SKIP counts_and_times_agree_with_pg_stat_statements: {}", stderr(&out));
        return;
    }
    server.ask("create table t as select g as id, 0 as v from generate_series(1, 20000) g");
    let script = server.dir.path().join("script");
    // Long enough that parsing and the answer, which the server's view leaves out, are little.
    std::fs::write(
        &script,
        "\\set id random(1, 20000)\n\
         select sum(v + id % 7) from t where id > :id / 100;\n\
         update t set v = v + 1 where id = :id;\n",
    )
    .expect("script");
    server.ask("select pg_stat_statements_reset()");
    let explained = server.recorded("statements", &["--span", "execute=standard_ExecutorRun"], || {
        let mut pgbench = Command::new(bin.join("pgbench"));
        pgbench.arg("-h").arg(server.dir.path()).args(["-U", "postgres", "-n", "-c", "2", "-t", "300", "-f"]);
        must(pgbench.arg(&script).arg("postgres"));
    });
    let result = &explained;
    let view = server
        .ask("select calls, total_exec_time * 1e6, query from pg_stat_statements where query like '% t %'");
    let mut seen = 0;
    for line in view.lines() {
        let words: Vec<&str> = line.splitn(3, '|').collect();
        let (calls, time): (u64, f64) = (words[0].parse().expect("calls"), words[1].parse().expect("ns"));
        // The view numbers its literals.
        let mut key = words[2].to_string();
        (1..9).for_each(|n| key = key.replace(&format!("${n}"), "?"));
        let row = of(result, &key);
        assert_eq!(row["count"], calls, "{key}");
        let total = row["total"].as_u64().expect("ns") as f64;
        println!(
            "{key}: {calls} calls, {total:.0} ns, the view {time:.0} ns: {:+.2} %",
            (total / time - 1.0) * 100.0
        );
        // Parsing, planning, commit and the answer are the statement's too.
        assert!(total >= time * 0.97, "{key}: {total} ns, the view has {time}");
        assert_eq!(common::sum(&row["account"]), row["total"].as_u64().expect("ns"));
        seen += 1;
    }
    assert_eq!(seen, 2, "{view}");
    // What the view measures, and nothing else.
    let sum = "select sum(calls), sum(total_exec_time * 1e6) from pg_stat_statements where query ~* '^(select|update)'";
    let sum = server.ask(&sum.replace("query ~*", "query not like '%pg_stat_statements%' and query ~*"));
    let (calls, time) = sum.split_once('|').expect("two");
    let (calls, time): (u64, f64) = (calls.parse().expect("calls"), time.parse().expect("ns"));
    let run =
        result["spans"].as_array().expect("spans").iter().find(|s| s["name"] == "execute").expect("execute");
    let total = run["total"].as_u64().expect("ns") as f64;
    println!(
        "execution: {calls} calls, {total:.0} ns, the view {time:.0} ns: {:+.2} %",
        (total / time - 1.0) * 100.0
    );
    assert_eq!(run["count"], calls);
    assert!((total / time - 1.0).abs() < 0.03, "{total} ns, the view has {time}");
}

#[test]
fn a_row_lock_names_the_statement_and_who_held_it() {
    let Some(bin) = can_serve("a_row_lock_names_the_statement_and_who_held_it") else { return };
    let server = Server::start(&bin, &["autovacuum=off"]);
    server.ask("create table account (id int primary key, v int); insert into account values (1, 0)");
    let mut holder = String::new();
    let explained = server.recorded("row", &[], || {
        let hold = "select pg_backend_pid(); begin; update account set v = v + 1 where id = 1;\n\\! sleep 1\ncommit;";
        let mut first = server.command("psql");
        first.args(["-X", "-q", "-A", "-t", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut first = first.spawn().expect("psql");
        // One statement a time: as one string they would be one.
        std::io::Write::write_all(first.stdin.as_mut().expect("a pipe"), hold.as_bytes()).expect("psql");
        drop(first.stdin.take());
        std::thread::sleep(Duration::from_millis(300));
        server.ask("update account set v = v + 2 where id = 1");
        let out = first.wait_with_output().expect("psql");
        holder = String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_string();
    });
    let result = &explained;
    let update = of(result, "update account set v = v + ? where id = ?");
    let cause = &update["causes"][0];
    assert_eq!((&cause["event"], update["count"].as_u64()), (&Value::from("Lock:transactionid"), Some(2)));
    assert!(cause["time"].as_u64() > Some(400_000_000), "{cause}");
    let events = result["wait_events"].as_array().expect("events");
    let lock = events.iter().find(|w| w["name"] == "Lock:transactionid").expect("the lock");
    let ender = &lock["ended_by"][0];
    assert_eq!((ender["thread"].to_string(), &ender["span"]), (holder, &Value::from("commit")));
    let verdict = explained["verdict"].to_string();
    assert!(verdict.contains("Lock:transactionid"), "{verdict}");
}

#[test]
fn a_slow_log_is_named_with_its_disk() {
    let test = "a_slow_log_is_named_with_its_disk";
    let Some(bin) = can_serve(test).filter(|_| can(test, &["losetup", "mkfs.ext4"])) else { return };
    let mut disk = common::Loop::new(1024);
    let mount = disk.ext4();
    must(Command::new("chown").arg("65534:65534").arg(&mount));
    let server = Server::with_log(&bin, &["autovacuum=off"], Some(&mount.join("log")));
    let pgbench = |more: &[&str]| {
        let mut pgbench = Command::new(bin.join("pgbench"));
        must(pgbench.arg("-h").arg(server.dir.path()).args(["-U", "postgres"]).args(more).arg("postgres"));
    };
    pgbench(&["-i", "-q"]);
    let explained =
        server.recorded("log", &[], || pgbench(&["-n", "-N", "-c", "8", "-t", "300", "-M", "simple"]));
    let events = explained["wait_events"].as_array().expect("events");
    let event = |name: &str| {
        events.iter().find(|w| w["name"] == name).unwrap_or_else(|| panic!("{name}: {events:?}"))
    };
    let commit = of(&explained, "END");
    let cause = |name: &str| {
        let causes = commit["causes"].as_array().expect("causes");
        causes.iter().find(|c| c["event"] == name).unwrap_or_else(|| panic!("{name}: {causes:?}")).clone()
    };
    // One backend syncs, the others wait for it.
    let sync = cause("IO:WALSync");
    assert_eq!(sync["who"], disk.name(), "{commit}");
    let wait = cause("LWLock:WALWrite");
    assert_eq!(wait["who"], "postgres", "{commit}");
    assert!(!event("LWLock:WALWrite")["ended_by"].as_array().expect("enders").is_empty());
    let verdict = explained["verdict"].to_string();
    println!("{verdict}");
    assert!(verdict.contains("WALSync") || verdict.contains("WALWrite"), "{verdict}");
}

#[test]
fn without_programs_sockets_alone_tell_of_requests() {
    let Some(bin) = can_serve("without_programs_sockets_alone_tell_of_requests") else { return };
    let server = Server::start(&bin, &[]);
    let trace = server.dir.path().join("none");
    let pid = server.postmaster.id().to_string();
    let mut recorder = common::start(
        plumb().args(["record", "-q", "--programs", "none", "--pid", &pid, "-o"]).arg(&trace),
        &trace,
    );
    server.ask("select count(*) from pg_class");
    common::signal(&recorder, libc::SIGINT);
    assert!(recorder.wait().expect("plumb").success());
    let explained = explain(&trace);
    let places: Vec<&Value> = spans(&explained).iter().map(|s| &s["place"]).collect();
    assert!(places.iter().all(|p| p.as_str().is_some_and(|p| p.starts_with("sockets:"))), "{places:?}");
    assert!(explained.get("wait_events").is_none());
    let text = common::must(Command::new("babeltrace2").arg(&trace));
    assert!(!text.contains(" span_"), "no probe was placed");
    let counted =
        spans(&server.recorded("some", &[], || drop(server.ask("select count(*) from pg_class")))).len();
    assert!(counted > 0);
}
