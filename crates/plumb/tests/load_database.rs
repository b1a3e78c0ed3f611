// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to databases, dbt3 and tpcc, against PostgreSQL and MariaDB: what both say of the same data, and what their
//! own clients and logs say.

mod common;

use common::schema::is_valid;
use common::servers::{Mariadb, Postgres};
use common::{can, output, plumb, stderr};
use serde_json::Value;
use std::process::{Command, Output};

const SCALE: &str = "0.01";

fn postgres(test: &str) -> Option<Postgres> {
    let bin = can(test, &["setpriv", "psql"]).then(Postgres::programs).flatten();
    if bin.is_none() {
        println!("SKIP {test}: no PostgreSQL server in /usr/lib/postgresql (apt-get install postgresql)");
    }
    bin.map(|bin| Postgres::start(&bin, &["log_statement=all", "log_connections=on", "autovacuum=off"]))
}

fn mariadb(test: &str) -> Option<Mariadb> {
    can(test, &["setpriv", "mariadbd", "mariadb-install-db", "mariadb"]).then(Mariadb::start)
}

/// A load of SQL whose target, where nothing is written, is a directory of its own.
fn load(words: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("directory");
    output(plumb().arg("load").args(words).arg("-q").arg(dir.path()))
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(out)))
}

fn jobs(result: &Value) -> Vec<&Value> {
    let steps = result["cells"][0]["rounds"][0].as_array().expect("steps");
    steps.iter().map(|step| &step["jobs"][0]).collect()
}

fn request(sql: &str, to: &str, more: &[&str]) -> Value {
    let words = ["--what", "request", "--sql", sql, "--to", to, "--json"];
    json(&load(&[&words[..], more].concat()))
}

/// Requests, their bytes, rows and errors, and what the first failure said.
fn requests_of(to: &str, connected: impl Fn() -> u64) {
    let result = request("select 'abc' as a, 12 as b union all select null, 7", to, &["--operations", "50"]);
    let job = jobs(&result)[0];
    let kind = &job["operations"][0];
    assert_eq!((kind["kind"].as_str(), kind["count"].as_u64()), (Some("request"), Some(50)));
    assert_eq!((kind["bytes"].as_u64(), kind["errors"].as_u64()), (Some(50 * 6), Some(0)), "{kind}");
    assert_eq!(job["answer_rows"], 2);

    let several = request("select 1; select 22; select 333", to, &["--operations", "10"]);
    assert_eq!(jobs(&several)[0]["operations"][0]["bytes"], 60);

    let wrong = request("select 1; select no_such_column", to, &["--operations", "3"]);
    let job = jobs(&wrong)[0];
    assert_eq!((&job["operations"][0]["errors"], &job["operations"][0]["count"]), (&3.into(), &3.into()));
    let said = job["failures"][0].as_str().expect("a failure");
    println!("{said}");
    assert!(said.contains("SQLSTATE 42") && said.contains("no_such_column"), "{said}");

    let turns = ["--operations", "4", "--sql", "select 'bb'"];
    let result = request("select 'a'", to, &turns);
    assert_eq!(jobs(&result)[0]["operations"][0]["bytes"], 2 * (1 + 2), "both texts in turn");

    let before = connected();
    let many = ["--operations", "40", "--threads", "2", "--connections", "3", "--rate", "2000"];
    let result = request("select 1", to, &many);
    let count = |result: &Value| jobs(result)[0]["operations"][0]["count"].as_u64();
    // The server's own count has the question for it, too.
    assert_eq!((count(&result), connected() - before), (Some(80), 6 + 1));
    assert!(jobs(&result)[0]["operations"][0]["response"].is_object());
    let before = connected();
    let result = request("select 1", to, &["--operations", "40", "--per-connection", "10"]);
    // One is tried before the load begins.
    assert_eq!((count(&result), connected() - before), (Some(40), 4 + 1 + 1));
}

#[test]
fn postgresql_answers_requests() {
    let test = "postgresql_answers_requests";
    let Some(server) = postgres(test) else { return };
    let said = server.dir.path().join("said");
    // The question itself is a connection.
    let connected = || {
        server.ask("select 1");
        let text = std::fs::read_to_string(&said).expect("the server's log");
        text.lines().filter(|line| line.contains("connection authorized")).count() as u64
    };
    requests_of(&server.url(), connected);
    let copy = request("copy pg_class to stdout", &server.url(), &["--operations", "1"]);
    let failure = jobs(&copy)[0]["failures"][0].to_string();
    assert!(failure.contains("COPY"), "{failure}");
    let out = load(&["--what", "request", "--sql", "select 1", "--to", "postgresql:///x?host=/nowhere"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        stderr(&out).contains("/nowhere") && stderr(&out).contains("that the server is up"),
        "{}",
        stderr(&out)
    );
}

#[test]
fn mariadb_answers_requests() {
    let Some(server) = mariadb("mariadb_answers_requests") else { return };
    let connected = || {
        let said = server.ask("show global status like 'Connections'");
        said.split_whitespace().last().and_then(|n| n.parse().ok()).expect("a number")
    };
    requests_of(&server.url(""), connected);
    // The client gives no file to a server that asks for one.
    server.ask("create database d; create table d.t (a text)");
    let file = request(
        "load data local infile '/etc/hostname' into table d.t",
        &server.url("d"),
        &["--operations", "1"],
    );
    let failure = jobs(&file)[0]["failures"][0].to_string();
    assert!(failure.contains("does not get"), "{failure}");
    assert_eq!(server.ask("select count(*) from d.t").trim(), "0");
    let out =
        load(&["--what", "request", "--sql", "select 1", "--to", "mariadb://no:secret@h/?socket=/nowhere"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(!stderr(&out).contains("secret"), "{}", stderr(&out));
}

fn fill(to: &str) -> Output {
    output(plumb().args(["load", "dbt3-fill", "--json", "--scale", SCALE, "--to", to]))
}

/// Fills it, once only; returns each query's rows and checksum.
fn filled_and_checked(to: &str) -> Vec<(String, u64, String)> {
    let out = fill(to);
    assert!(out.status.success(), "{}", stderr(&out));
    is_valid("load dbt3-fill", &String::from_utf8_lossy(&out.stdout));
    assert!(stderr(&out).contains("region"), "progress: {}", stderr(&out));
    let again = fill(to);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("customer is there already"), "{}", stderr(&again));
    let out = output(plumb().args(["load", "dbt3-check", "--json", "--to", to]));
    assert!(out.status.success(), "{}", stderr(&out));
    let checked = json(&out);
    is_valid("load dbt3-check", &String::from_utf8_lossy(&out.stdout));
    assert_eq!((checked["scale"].as_f64(), checked["compared"].as_bool()), (Some(0.01), Some(false)));
    let queries = checked["queries"].as_array().expect("queries");
    let text = |query: &Value, key: &str| query[key].as_str().expect(key).to_string();
    let row = |q: &Value| (text(q, "query"), q["rows"].as_u64().expect("rows"), text(q, "checksum"));
    let other = output(plumb().args(["load", "dbt3-check", "--scale", "1", "--to", to]));
    assert!(stderr(&other).contains("rows of scale 0.01"), "{}", stderr(&other));
    queries.iter().map(row).collect()
}

/// Runs the preset; its steps are the queries, and what they say of rows is what was checked.
fn run_all(to: &str, checked: &[(String, u64, String)]) {
    let out = load(&["dbt3", "--scale", SCALE, "--to", to, "--json"]);
    let result = json(&out);
    let steps = result["cells"][0]["rounds"][0].as_array().expect("steps");
    assert_eq!((steps.len(), checked.len()), (22, 22));
    for (step, (query, rows, _)) in steps.iter().zip(checked) {
        let job = &step["jobs"][0];
        assert_eq!(step["label"], **query);
        assert_eq!(
            (&job["answer_rows"], &job["operations"][0]["errors"]),
            (&(*rows).into(), &0.into()),
            "{query}"
        );
    }
    let table = &result["preset"]["tables"][0];
    assert_eq!((table["rows"].as_array().map(Vec::len), &table["rows"][23][0]), (Some(24), &"sum".into()));
    let out = load(&["dbt3", "--scale", SCALE, "--to", to, "--streams", "2", "--json"]);
    let result = json(&out);
    let job = jobs(&result)[0];
    assert_eq!(result["cells"][0]["rounds"][0][0]["label"], "throughput");
    assert_eq!((&job["operations"][0]["count"], &job["operations"][0]["errors"]), (&44.into(), &0.into()));
}

#[test]
fn both_databases_answer_dbt3_alike() {
    let test = "both_databases_answer_dbt3_alike";
    let (Some(postgres), Some(mariadb)) = (postgres(test), mariadb(test)) else { return };
    mariadb.ask("create database bench; set global log_output = 'TABLE'; set global general_log = on");
    let (to_postgres, to_mariadb) = (postgres.url(), mariadb.url("bench"));
    let (of_postgres, of_mariadb) = (filled_and_checked(&to_postgres), filled_and_checked(&to_mariadb));
    for (one, other) in of_postgres.iter().zip(&of_mariadb) {
        println!("{} {} {}", one.0, one.1, one.2);
        assert_eq!(one, other);
    }
    // What is in the tables, by the servers' own clients.
    for (table, rows) in [("lineitem", 60_175), ("orders", 15_000), ("supplier", 100), ("nation", 25)] {
        let sql = format!("select count(*) from {table}");
        assert_eq!(postgres.ask(&sql), rows.to_string());
        assert_eq!(mariadb.ask(&format!("use bench; {sql}")).trim(), rows.to_string());
    }
    run_all(&to_postgres, &of_postgres);
    run_all(&to_mariadb, &of_mariadb);
    // The servers know the queries by their first line.
    let said = std::fs::read_to_string(postgres.dir.path().join("said")).expect("the server's log");
    // Of check, of the preset, and of two streams.
    assert_eq!(said.matches("statement: /* Q15 */").count(), 4);
    let logged = mariadb.ask("select count(*) from mysql.general_log where argument like '/* Q15 */%'");
    assert_eq!(logged.trim(), "4");
}

/// What TPC-C demands of its tables at any time (3.3.2), as how many break it.
const CONSISTENCY: &[(&str, &str)] = &[
    (
        "w_ytd is the sum of d_ytd",
        "select count(*) from warehouse where w_ytd <> (select sum(d_ytd) from district where d_w_id = w_id)",
    ),
    (
        "d_next_o_id follows the last order",
        "select count(*) from district \
         where d_next_o_id - 1 <> (select max(o_id) from orders where o_w_id = d_w_id and o_d_id = d_id) \
         or d_next_o_id - 1 <> (select max(no_o_id) from new_order where no_w_id = d_w_id and no_d_id = d_id)",
    ),
    (
        "new orders have no gaps",
        "select count(*) from (select count(*) as there, max(no_o_id) - min(no_o_id) + 1 as range_of \
         from new_order group by no_w_id, no_d_id) as districts where there <> range_of",
    ),
    (
        "o_ol_cnt counts the order's lines",
        "select count(*) from orders where o_ol_cnt <> (select count(*) from order_line \
         where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id)",
    ),
    (
        "an order has a carrier when it is not new",
        "select count(*) from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
         where (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        "a line is delivered when its order has a carrier",
        "select count(*) from order_line join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id \
         where (ol_delivery_d is null) <> (o_carrier_id is null)",
    ),
    (
        "w_ytd is the sum of payments",
        "select count(*) from warehouse where w_ytd <> (select sum(h_amount) from history where h_w_id = w_id)",
    ),
];

/// Fills it, sends two decks of transactions at once, and counts in the server what they did.
fn orders_of(to: &str, ask: &dyn Fn(&str) -> String) {
    let number = |sql: &str| -> u64 {
        let said = ask(sql);
        said.trim().parse().unwrap_or_else(|e| panic!("{e}: {sql}: {said}"))
    };
    let count = |table: &str| number(&format!("select count(*) from {table}"));
    let fill = || output(plumb().args(["load", "tpcc-fill", "--to", to]));
    let out = fill();
    assert!(out.status.success(), "{}", stderr(&out));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("rows of 1 warehouse in 9 tables"), "{said}");
    assert!(stderr(&out).contains("item"), "progress: {}", stderr(&out));
    for (table, rows) in [
        ("item", 100_000),
        ("warehouse", 1),
        ("stock", 100_000),
        ("district", 10),
        ("customer", 30_000),
        ("history", 30_000),
        ("orders", 30_000),
        ("new_order", 9_000),
    ] {
        assert_eq!(count(table), rows, "{table}");
    }
    let lines = count("order_line");
    assert_eq!(lines, number("select sum(o_ol_cnt) from orders"));
    assert!((280_000..320_000).contains(&lines), "{lines}");
    let again = fill();
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("customer is there already"), "{}", stderr(&again));

    let result = json(&load(&["tpcc", "--to", to, "--threads", "4", "--operations", "100", "--json"]));
    let job = jobs(&result)[0];
    let kind = &job["operations"][0];
    assert_eq!((&kind["count"], &kind["errors"]), (&400.into(), &0.into()), "{}", job["failures"]);
    // Each worker had the deck once: of 100 requests 45 new orders, 43 payments and 4 deliveries, of 10 districts each.
    assert_eq!(count("history"), 30_000 + 4 * 43);
    let made = count("orders") - 30_000;
    println!("{made} of 180 new orders were not rolled back");
    assert!((160..=180).contains(&made), "{made}: one of 100 is rolled back");
    assert_eq!(count("new_order"), 9_000 + made - 4 * 4 * 10);
    assert_eq!(number("select sum(s_order_cnt) from stock"), count("order_line") - lines);
    for (what, sql) in CONSISTENCY {
        assert_eq!(number(sql), 0, "{what}");
    }
    // They find what is wrong.
    for (what, sql, breaks) in [
        (0, "a payment that its district lacks", "update warehouse set w_ytd = w_ytd + 1"),
        (
            1,
            "an order that was not counted",
            "update district set d_next_o_id = d_next_o_id + 1 where d_id = 7",
        ),
        (
            3,
            "a line that is lost",
            "delete from order_line where ol_d_id = 3 and ol_o_id = 2500 and ol_number = 1",
        ),
    ]
    .map(|(i, what, breaks)| (what, CONSISTENCY[i].1, breaks))
    {
        ask(breaks);
        assert_eq!(number(sql), 1, "{what}");
    }
}

#[test]
fn postgresql_keeps_the_books_of_tpcc() {
    let Some(server) = postgres("postgresql_keeps_the_books_of_tpcc") else { return };
    orders_of(&server.url(), &|sql| server.ask(sql));
    // The server knows the transactions by their first line.
    let said = std::fs::read_to_string(server.dir.path().join("said")).expect("the server's log");
    for (name, sent) in
        [("new_order", 180), ("payment", 172), ("order_status", 16), ("delivery", 16), ("stock_level", 16)]
    {
        assert_eq!(said.matches(&format!("statement: /* {name} */")).count(), sent, "{name}");
    }
}

#[test]
fn mariadb_keeps_the_books_of_tpcc() {
    let Some(server) = mariadb("mariadb_keeps_the_books_of_tpcc") else { return };
    server.ask("create database bench; set global log_output = 'TABLE'; set global general_log = on");
    orders_of(&server.url("bench"), &|sql| server.ask(&format!("use bench; {sql}")));
    for (name, sent) in
        [("new_order", 180), ("payment", 172), ("order_status", 16), ("delivery", 16), ("stock_level", 16)]
    {
        let logged = format!(
            "select count(*) from mysql.general_log where command_type = 'Query' and argument like '/* {name} */%'"
        );
        assert_eq!(server.ask(&logged).trim(), sent.to_string(), "{name}");
    }
}

#[test]
fn an_interrupted_fill_says_what_it_left() {
    let test = "an_interrupted_fill_says_what_it_left";
    let (Some(postgres), Some(mariadb)) = (postgres(test), mariadb(test)) else { return };
    mariadb.ask("create database bench");
    let interrupted = |fill: &[&str], to: &str| {
        let mut command = plumb();
        command.arg("load").args(fill).args(["--to", to]);
        let child = command.stderr(std::process::Stdio::piped()).spawn().expect("plumb");
        std::thread::sleep(std::time::Duration::from_secs(2));
        common::signal(&child, libc::SIGINT);
        let out = child.wait_with_output().expect("plumb");
        assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
        stderr(&out)
    };
    for (fill, first) in
        [(["dbt3-fill", "--scale", "10"], "region"), (["tpcc-fill", "--warehouses", "100"], "item")]
    {
        let said = interrupted(&fill, &postgres.url());
        assert!(
            said.contains("stopped by a signal; its transaction was rolled back: no table was made"),
            "{said}"
        );
        let there = format!("select count(*) from pg_class where relname = '{first}'");
        assert_eq!(postgres.ask(&there), "0");
        let said = interrupted(&fill, &mariadb.url("bench"));
        let drop = said.split("drop them: ").nth(1).expect("what to drop").trim();
        assert!(drop.starts_with(&format!("drop table if exists {first}")), "{said}");
        mariadb.ask(&format!("use bench; {drop}"));
        assert_eq!(mariadb.ask("use bench; show tables").trim(), "");
    }
}

#[test]
fn a_library_that_is_not_there_is_named_with_its_package() {
    // The loader looks into the libraries' directory by its cache, which this namespace does not have.
    let test = "a_library_that_is_not_there_is_named_with_its_package";
    if !can(test, &["unshare", "mount"]) {
        return;
    }
    let library = "/usr/lib/x86_64-linux-gnu/libpq.so.5";
    if !std::path::Path::new(library).exists() {
        println!("SKIP {test}: no {library} to hide");
        return;
    }
    let script = "mount --bind /dev/null \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", library, env!("CARGO_BIN_EXE_plumb"), "load", "--what"]);
    let out = output(command.args(["request", "--sql", "select 1", "--to", "postgresql:///x", "/tmp"]));
    assert_eq!(out.status.code(), Some(2));
    let said = stderr(&out);
    assert!(said.contains("libpq.so.5") && said.contains("apt-get install libpq5"), "{said}");
}
