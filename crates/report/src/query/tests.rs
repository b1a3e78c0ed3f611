// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn uses(sql: &str) -> Vec<(String, Vec<String>)> {
    let query = Query::new(sql, MEMORY).expect("a statement");
    let name = |(table, columns): (&usize, &Vec<usize>)| {
        let table = TABLES[*table];
        (table.name.to_string(), columns.iter().map(|c| table.columns[*c].name.to_string()).collect())
    };
    query.uses.iter().map(name).collect()
}

fn wrong(sql: &str) -> String {
    Query::new(sql, MEMORY).expect_err("wrong").to_string()
}

/// Runs a statement over a few rows of an account.
fn ask(sql: &str, format: Format) -> String {
    let query = Query::new(sql, MEMORY).expect("a statement");
    let mut loader = query.loader().expect("room");
    let account = find("account").expect("a table");
    let rows =
        [(1, "ls,\"x\"\n", "running", 10), (1, "ls,\"x\"\n", "block.device", 30), (2, "cp", "running", 2)];
    for (pid, process, category, ns) in rows {
        let texts = ("r", process, category);
        loader.row(
            account,
            &[texts.0.into(), Cell::Integer(pid), texts.1.into(), texts.2.into(), Cell::Integer(ns)],
        );
    }
    loader.finish().expect("room");
    let mut out = Vec::new();
    query.run(format, &mut out).expect("runs");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn only_what_is_used_is_loaded() {
    assert_eq!(uses("select 1"), []);
    assert_eq!(uses("select sum(time_ns) from Account"), [("account".into(), vec!["time_ns".into()])]);
    assert_eq!(uses("select count(*) from waits"), [("waits".into(), vec!["run".into()])]);
    let all = uses("with w as (select * from waits) select w.tid from w join stacks s on s.stack = w.stack");
    assert_eq!(all.len(), 2);
    assert!(all.contains(&("stacks".into(), vec!["stack".into()])), "{all:?}");
}

#[test]
fn tables_that_are_joined_by_the_names_of_their_columns_are_loaded_whole() {
    for sql in [
        "select count(i.time_ns), count(t.thread) from intervals i natural join threads t",
        "select count(*) from intervals join Threads using (run, tid)",
    ] {
        let all = uses(sql);
        let columns = |name: &str| all.iter().find(|(table, _)| table == name).map_or(0, |(_, c)| c.len());
        for name in ["intervals", "threads"] {
            assert_eq!(columns(name), find(name).expect("a table").columns.len(), "{sql}: {all:?}");
        }
    }
    // As SQLite tells it of tables that have all their columns: two accounts by all that they have in common.
    assert_eq!(ask("select count(*) n from account a natural join account b", Format::Csv), "n\n3\n");
    assert_eq!(ask("select count(*) n from account a join account b using (pid)", Format::Csv), "n\n5\n");
}

#[test]
fn a_former_name_of_a_kind_gives_a_hint() {
    let hints = |sql: &str| Query::new(sql, MEMORY).expect("a statement").hints();
    assert_eq!(
        hints("select run from verdict where kind = 'CPU busy'"),
        ["kind 'CPU busy' is now 'CPU-bound'"]
    );
    assert!(hints("select run from verdict where kind = 'CPU-bound'").is_empty());
    assert!(hints("select run from account where process = 'CPU busy'").is_empty());
}

#[test]
fn a_query_that_writes_is_refused() {
    assert_eq!(
        wrong("insert into account values (1)"),
        wrong("INSERT INTO account VALUES (2)"),
        "it is the same one"
    );
    for (sql, what) in [
        ("delete from waits", "delete from waits"),
        ("update waits set tid = 1", "update waits"),
        ("drop table waits", "drop waits"),
        ("create table mine (a)", "create mine"),
        ("attach '/tmp/x' as y", "attach /tmp/x"),
        ("pragma journal_mode = wal", "pragma journal_mode"),
        ("begin", "change the database"),
    ] {
        let error = wrong(sql);
        assert!(error.contains("reads only") && error.contains(what), "{sql}: {error}");
    }
    assert!(wrong("select 1; select 2").contains("several statements"));
    assert!(wrong("").contains("this is no query"));
}

#[test]
fn errors_show_the_place_and_near_names() {
    assert_eq!(
        wrong("select pid,\n  tmie_ns from account"),
        "no such column: tmie_ns; there is time_ns; plumb query --schema account lists its columns\n    tmie_ns from account\n    ^"
    );
    assert!(wrong("select 1 from acount").contains("there is account"));
    assert!(wrong("select device from account").contains("device is a column of requests, devices"));
    for from in ["from locks", "from locks, runs", "from locks join runs using (run)"] {
        let error = wrong(&format!("select waits, name {from} where waits > 1"));
        assert!(
            error.contains("--schema locks") || error.contains("--schema runs"),
            "waits is a table too: {error}"
        );
    }
    assert!(wrong("select medain(pid) from account").contains("there is median"));
    assert!(wrong("select from").contains("syntax error"));
}

#[test]
fn rows_are_shown_in_three_ways() {
    let sql = "select process, pid, sum(time_ns) t, null n, 0.5 h from account group by pid order by pid";
    assert_eq!(
        ask(sql, Format::Table),
        "process   pid   t  n    h\nls,\"x\"\\n    1  40  -  0.5\ncp          2   2  -  0.5\n"
    );
    assert_eq!(ask(sql, Format::Csv), "process,pid,t,n,h\n\"ls,\"\"x\"\"\n\",1,40,,0.5\ncp,2,2,,0.5\n");
    let document: serde_json::Value = serde_json::from_str(&ask(sql, Format::Json)).expect("JSON");
    assert_eq!(document["format"], "plumb.query");
    let json = &document["rows"];
    assert_eq!(json[0]["process"], "ls,\"x\"\n");
    assert_eq!(json[1]["t"], 2);
    assert!(json[1]["n"].is_null());
    assert!(ask("select pid, pid from account where pid > 9", Format::Json).ends_with("\"rows\":[]}\n"));
    assert_eq!(ask("select pid, pid from account where pid > 1", Format::Csv), "pid,pid_2\n2,2\n");
}

#[test]
fn quantiles_lie_on_the_line_between_two_values() {
    let of = |what: &str| {
        ask(&format!("select {what} from account"), Format::Csv).lines().nth(1).map(str::to_string)
    };
    assert_eq!(of("median(time_ns)").as_deref(), Some("10.0"));
    assert_eq!(of("percentile(time_ns, 75)").as_deref(), Some("20.0"));
    assert_eq!(of("percentile(time_ns, 0) + percentile(time_ns, 100)").as_deref(), Some("32.0"));
    assert_eq!(of("percentile_cont(0.75) within group (order by time_ns)").as_deref(), Some("20.0"));
    assert_eq!(of("round(stddev(time_ns), 6)").as_deref(), Some("14.422205"));
    assert_eq!(of("ms(3500000), duration(1234567), size(65536)").as_deref(), Some("3.5,1.23 ms,64.0 KiB"));
}

#[test]
fn what_goes_wrong_in_a_function_is_said() {
    let query = Query::new("select percentile(pid, 101) from account", MEMORY).expect("a statement");
    let mut loader = query.loader().expect("room");
    let account = find("account").expect("a table");
    loader.row(account, &["r".into(), Cell::Integer(1), Cell::None, Cell::None, Cell::Integer(1)]);
    loader.finish().expect("room");
    let error = query.run(Format::Csv, &mut Vec::new()).expect_err("no such percentile").to_string();
    assert!(error.contains("between 0.0 and 100.0"), "{error}");
}

#[test]
fn more_than_fits_the_memory_lies_in_a_file() {
    let query = Query::new("select count(*), sum(time_ns) from account", 1 << 16).expect("a statement");
    let mut loader = query.loader().expect("room");
    let account = find("account").expect("a table");
    for i in 0..50_000 {
        loader.row(account, &["r".into(), Cell::None, Cell::None, Cell::None, Cell::Integer(i)]);
    }
    loader.finish().expect("room");
    let mut out = Vec::new();
    query.run(Format::Csv, &mut out).expect("runs");
    assert_eq!(String::from_utf8_lossy(&out), "count(*),sum(time_ns)\n50000,1249975000\n");
}
