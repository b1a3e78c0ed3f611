// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is exported is read by other people's programs, and says there what it says here.

mod filled;

use filled::{fill, python, recorded, run_python, Keep, Kept};
use plumb_report::export::csv::Csv;
use plumb_report::export::openmetrics::OpenMetrics;
use plumb_report::export::parquet::Parquet;
use plumb_report::query::{Format, Query, EXAMPLES, MEMORY};
use plumb_report::table::{find, Cell, Sink, Table, TABLES};
use serde_json::{json, Value};
use std::ffi::OsStr;
use std::path::Path;

const TRACE: &str = "appenders";

/// Names that a reader may stumble over.
const HOSTILE: &[&str] = &[
    "a,b",
    "\"quoted\"",
    "two\nlines",
    "carriage\r\nreturn",
    "",
    " blank ",
    "NULL",
    "null",
    "\\N",
    "'",
    "\"",
    "\"\"",
    ",",
    "\u{1}\u{1b}[31m",
    "\u{fffd}",
    "日本語 ✓",
    "𝄞",
    "-1",
    "1e5",
    "true",
    "=1+1",
    "\t",
    "\u{7f}",
    "e\u{301}",
];

/// Every table by pyarrow: columns and rows; by DuckDB: sums.
const READ_PARQUET: &str = r"
import sys, json, os, struct, pyarrow.parquet as pq, duckdb
out = {}
# The bits of a real, since JSON's digits are read back with an error.
exact = lambda v: struct.unpack('<q', struct.pack('<d', v))[0] if isinstance(v, float) else v
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    table = pq.read_table(path)
    duck = duckdb.sql(f'select * from read_parquet(\'{path}\')').fetchall()
    rows = [[exact(v) for v in r.values()] for r in table.to_pylist()]
    assert rows == [[exact(v) for v in r] for r in duck], name
    file = pq.ParquetFile(path)
    out[name] = {'types': [str(f.type) for f in table.schema], 'names': table.column_names, 'rows': rows, 'groups': file.metadata.num_row_groups}
print(json.dumps(out))
";

fn value(kept: &Kept) -> Value {
    match kept {
        Kept::None => Value::Null,
        Kept::Integer(v) => json!(v),
        Kept::Real(v) => json!(v.to_bits() as i64),
        Kept::Text(v) => json!(v),
    }
}

#[test]
fn parquet_is_read_by_pyarrow_and_duckdb_row_by_row() {
    let Some(python) = python("pyarrow.parquet, duckdb") else {
        println!("SKIP parquet_is_read_by_pyarrow_and_duckdb_row_by_row: no Python with pyarrow and duckdb; scripts/deps.sh peers makes one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut rows = Keep::default();
    fill(&recorded(TRACE), TRACE, &mut rows);
    let mut parquet = Parquet::create(dir.path()).expect("room");
    fill(&recorded(TRACE), TRACE, &mut parquet);
    let counts = parquet.finish().expect("room");
    let read = run_python(&python, READ_PARQUET, &[dir.path().as_os_str()]);
    let read: Value = serde_json::from_str(&read).expect("JSON");
    let mut cells = 0;
    for table in TABLES {
        let got = &read[format!("{}.parquet", table.name)];
        let (_, own) = rows.of(table.name);
        let names: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
        assert_eq!(got["names"], json!(names), "{}", table.name);
        let types = table.columns.iter().map(|c| match c.kind.name() {
            "INTEGER" => "int64",
            "REAL" => "double",
            _ => "string",
        });
        assert_eq!(got["types"], json!(types.collect::<Vec<_>>()), "{}", table.name);
        assert_eq!(counts[table.place as usize], own.len() as u64, "{}", table.name);
        let got = got["rows"].as_array().expect("rows");
        assert_eq!(got.len(), own.len(), "{}", table.name);
        for (got, own) in got.iter().zip(own) {
            let own: Vec<Value> = own.iter().map(value).collect();
            assert_eq!(got, &json!(own), "{}", table.name);
            cells += own.len();
        }
    }
    assert!(cells > 10_000, "{cells} cells");
}

/// Rows of hostile names beside numbers at the ends of their range.
fn hostile(sink: &mut dyn Sink) {
    let account = find("account").expect("a table");
    let numbers = [0, i64::MIN, i64::MAX, -1, 1 << 53 | 1];
    for (i, name) in HOSTILE.iter().enumerate() {
        let number = numbers[i % numbers.len()];
        let pid = if i % 3 == 0 { Cell::None } else { Cell::Integer(i as i64) };
        let category = if i % 4 == 0 { Cell::None } else { Cell::Text(name) };
        sink.row(account, &["r".into(), pid, Cell::Text(name), category, Cell::Integer(number)]);
    }
}

#[test]
fn hostile_names_survive() {
    let Some(python) = python("pyarrow.parquet, duckdb") else {
        println!(
            "SKIP hostile_names_survive: no Python with pyarrow and duckdb; scripts/deps.sh peers makes one"
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("csv"), dir.path().join("parquet"));
    let mut rows = Keep::default();
    hostile(&mut rows);
    let mut csv = Csv::create(&a).expect("room");
    hostile(&mut csv);
    csv.finish().expect("room");
    let mut parquet = Parquet::create(&b).expect("room");
    hostile(&mut parquet);
    parquet.finish().expect("room");
    let program = r"
import sys, json, csv, duckdb, pyarrow.parquet as pq
a, b = sys.argv[1] + '/account.csv', sys.argv[2] + '/account.parquet'
by_csv = duckdb.sql(f'''select * from read_csv('{a}', header=true, quote='\x22', escape='\x22', nullstr='', allow_quoted_nulls=false,
  columns={{'run':'VARCHAR','pid':'BIGINT','process':'VARCHAR','category':'VARCHAR','time_ns':'BIGINT'}})''').fetchall()
plain = list(csv.reader(open(a, newline=''), strict=True))
print(json.dumps([
  [list(r) for r in by_csv],
  [list(r.values()) for r in pq.read_table(b).to_pylist()],
  [list(r) for r in duckdb.sql(f'''from read_parquet('{b}')''').fetchall()],
  plain[1:],
]))
";
    let read = run_python(&python, program, &[a.as_os_str(), b.as_os_str()]);
    let read: Vec<Vec<Vec<Value>>> = serde_json::from_str(&read).expect("JSON");
    let own: Vec<Vec<Value>> = rows.of("account").1.iter().map(|r| r.iter().map(value).collect()).collect();
    // In CSV, and there alone, what a spreadsheet would take for a formula has a quote in front.
    let inert = |v: &Value| match v.as_str() {
        Some("=1+1") => json!("'=1+1"),
        Some("\t") => json!("'\t"),
        _ => v.clone(),
    };
    let in_csv: Vec<Vec<Value>> = own.iter().map(|row| row.iter().map(inert).collect()).collect();
    assert_ne!(in_csv, own);
    let expected = [("DuckDB on CSV", &in_csv), ("pyarrow", &own), ("DuckDB on Parquet", &own)];
    for ((reader, own), got) in expected.iter().zip(&read) {
        for (got, own) in got.iter().zip(*own) {
            assert_eq!(got, own, "{reader}");
        }
        assert_eq!(got.len(), own.len(), "{reader}");
    }
    // Python's csv module has texts only.
    for (got, own) in read[3].iter().zip(&in_csv) {
        let text = |v: &Value| {
            v.as_str().map_or_else(|| if v.is_null() { String::new() } else { v.to_string() }, str::to_string)
        };
        assert_eq!(got, &own.iter().map(|v| json!(text(v))).collect::<Vec<_>>());
    }
}

/// A table of many rows: several row groups and pages, a dictionary that does not pay.
fn many(sink: &mut dyn Sink) {
    let profile = find("stacks").expect("a table");
    for i in 0..600_000i64 {
        let text = format!("function_{:09};called_by_{}", i * 7919 % 600_000, i);
        let side = if i % 100_000 < 50_000 { Cell::Text("kernel") } else { Cell::Text("user") };
        let frames = if i < 300_000 { Cell::None } else { Cell::Integer(i * i) };
        let row = [Cell::Text("r"), Cell::Integer(-i), side, frames, Cell::Integer(i % 2), Cell::Text(&text)];
        sink.row(profile, &row);
    }
}

#[test]
fn parquet_of_many_rows_has_true_ranges() {
    let Some(python) = python("pyarrow.parquet, duckdb") else {
        println!("SKIP parquet_of_many_rows_has_true_ranges: no Python with pyarrow and duckdb; scripts/deps.sh peers makes one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut parquet = Parquet::create(dir.path()).expect("room");
    many(&mut parquet);
    parquet.finish().expect("room");
    let program = r"
import sys, json, duckdb, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
path = sys.argv[1] + '/stacks.parquet'
file = pq.ParquetFile(path)
n = 0
for g in range(file.num_row_groups):
    rows, group = file.read_row_group(g), file.metadata.row_group(g)
    assert rows.num_rows == group.num_rows
    for c in range(group.num_columns):
        column, s = rows.column(c), group.column(c).statistics
        assert s.null_count == column.null_count
        least, most = pc.min_max(column).as_py().values()
        if s.has_min_max:
            assert (s.min, s.max) == (least, most), (c, s, least, most)
            n += 1
        else:
            assert least is None, (g, c)
duck = duckdb.sql(f'''select count(*), sum(stack), sum(frames), count(frames), count(distinct functions), sum(length(functions)), count_if(side = 'kernel') from read_parquet('{path}')''').fetchall()[0]
some = duckdb.sql(f'''select functions from read_parquet('{path}') where stack = -299999''').fetchall()
print(json.dumps([file.num_row_groups, n, [int(d) for d in duck], some]))
";
    let read: Value =
        serde_json::from_str(&run_python(&python, program, &[dir.path().as_os_str()])).expect("JSON");
    let n = 600_000i64;
    let squares: i64 = (300_000..n).map(|i| i * i).sum();
    let lengths: i64 = (0..n).map(|i| "function_".len() as i64 + 9 + 11 + i.to_string().len() as i64).sum();
    assert!(read[0].as_i64() >= Some(3), "{read}");
    assert!(read[1].as_i64() >= Some(15), "{read}");
    assert_eq!(read[2], json!([n, -n * (n - 1) / 2, squares, 300_000, n, lengths, n / 2]));
    assert_eq!(read[3][0][0], json!(format!("function_{:09};called_by_299999", 299_999i64 * 7919 % n)));
}

/// The same questions to SQLite here and to DuckDB on Parquet.
const QUESTIONS: &[&str] = &[
    "select category, sum(time_ns) as t from account group by category order by category",
    "select category, sum(time_ns) as t from intervals group by category order by category",
    "select count(*), sum(to_ns - from_ns), count(stack) from waits",
    "select device, operation, count(*), sum(bytes), sum(q2c_ns), max(d2c_ns) from requests group by 1, 2 order by 1, 2",
    "select r.request, sum(i.time_ns) from intervals i join requests r on r.request = i.request group by 1 order by 1",
    "select s.functions, count(*), sum(w.to_ns - w.from_ns) from waits w join stacks s on s.stack = w.stack and s.side = 'kernel' group by 1 order by 1",
    "select p.process, a.category, sum(a.time_ns) from account a join processes p on p.pid = a.pid group by 1, 2 order by 1, 2",
    "select host, machine_id, began, began_unix_ns, length_ns, kernel, cpus, memory_bytes, plumb, events, lost from runs",
    "select pid, parent, process from processes order by pid",
    "select r.kernel, q.device, round(percentile_cont(0.9) within group (order by q.d2c_ns), 3) as p90, round(median(q.d2c_ns), 3) as p50 from runs as r join requests as q on q.run = r.run group by r.kernel, q.device order by q.device",
    "select from_ns / 100000000 as bin, count(*) from intervals where category = 'running' group by 1 order by 1",
];

#[test]
fn query_duckdb_and_the_model_give_the_same_numbers() {
    let Some(python) = python("pyarrow.parquet, duckdb") else {
        println!("SKIP query_duckdb_and_the_model_give_the_same_numbers: no Python with pyarrow and duckdb; scripts/deps.sh peers makes one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut parquet = Parquet::create(dir.path()).expect("room");
    let seen = fill(&recorded(TRACE), TRACE, &mut parquet);
    parquet.finish().expect("room");
    let program = r"
import sys, json, os, duckdb
c = duckdb.connect()
c.execute('set integer_division = true')
for name in os.listdir(sys.argv[1]):
    c.execute(f'''create view {name.split('.')[0]} as from read_parquet('{sys.argv[1]}/{name}')''')
print(json.dumps([[[int(v) if hasattr(v, 'bit_length') else v for v in r] for r in c.execute(q).fetchall()] for q in sys.argv[2:]]))
";
    let mut arguments: Vec<&OsStr> = vec![dir.path().as_os_str()];
    // What the manual says of an example is tried with that.
    let portable = EXAMPLES.iter().find(|(title, ..)| title.ends_with("SQL that DuckDB runs too"));
    let portable = portable.map(|(_, sql, _)| *sql).expect("an example");
    let questions: Vec<&str> = QUESTIONS.iter().copied().chain([portable]).collect();
    arguments.extend(questions.iter().map(OsStr::new));
    let duck: Vec<Vec<Vec<Value>>> =
        serde_json::from_str(&run_python(&python, program, &arguments)).expect("JSON");
    let mut answers = 0;
    for (question, duck) in questions.iter().zip(duck) {
        let own = ask(question);
        assert_eq!(own.len(), duck.len(), "{question}");
        for (own, duck) in own.iter().zip(&duck) {
            // An object's keys come in the order of the alphabet.
            let mut own: Vec<String> =
                own.as_object().expect("an object").values().map(Value::to_string).collect();
            let mut duck: Vec<String> = duck.iter().map(Value::to_string).collect();
            own.sort();
            duck.sort();
            assert_eq!(own, duck, "{question}");
            answers += 1;
        }
    }
    assert!(answers > 100, "{answers} answers");
    let account: u64 = seen.result.processes.iter().flat_map(|p| p.account.values()).sum();
    assert_eq!(ask("select sum(time_ns) as t from account"), [json!({"t": account})]);
    let with_data: u64 = seen.result.devices.iter().map(|d| d.reads + d.writes).sum();
    let asked = ask("select count(*) as n from requests where bytes > 0");
    assert_eq!(asked, [json!({"n": with_data})]);
}

/// The rows of an answer.
fn ask(sql: &str) -> Vec<Value> {
    let query = Query::new(sql, MEMORY).expect("a statement");
    let mut loader = query.loader().expect("room");
    fill(&recorded(TRACE), TRACE, &mut loader);
    loader.finish().expect("room");
    let mut out = Vec::new();
    query.run(Format::Json, &mut out).expect("runs");
    let mut document: Value = serde_json::from_slice(&out).expect("JSON");
    serde_json::from_value(document["rows"].take()).expect("rows")
}

#[test]
fn openmetrics_is_read_by_prometheus() {
    let Some(python) = python("prometheus_client") else {
        println!("SKIP openmetrics_is_read_by_prometheus: no Python with prometheus_client; scripts/deps.sh peers makes one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("metrics");
    let mut metrics = OpenMetrics::default();
    let seen = fill(&recorded(TRACE), "a \"run\"\\with\nall", &mut metrics);
    let load: Value = serde_json::from_str(LOAD).expect("JSON");
    plumb_report::table::load("r", &load, 1, &mut metrics);
    std::fs::write(&path, metrics.text()).expect("room");
    let program = r"
import sys, json
from decimal import Decimal
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
text = open(sys.argv[1], newline='').read()
out = {}
for family in parse(text):
    assert family.type == 'gauge', family
    for s in family.samples:
        out.setdefault(s.name, []).append([s.labels, s.value])
exact = sum(Decimal(l.rsplit(' ', 1)[1]) for l in text.splitlines() if l.startswith('plumb_account_seconds{'))
print(json.dumps([out, str(exact)]))
";
    let read: Value = serde_json::from_str(&run_python(&python, program, &[path.as_os_str()])).expect("JSON");
    let account: u64 = seen.result.processes.iter().flat_map(|p| p.account.values()).sum();
    assert_eq!(read[1], json!(format!("{}.{:09}", account / 1_000_000_000, account % 1_000_000_000)));
    let families = &read[0];
    assert_eq!(families["plumb_account_seconds"][0][0]["run"], "a \"run\"\\with\nall");
    assert_eq!(
        families["plumb_device_requests"].as_array().map(Vec::len),
        Some(seen.result.devices.len() * 3)
    );
    assert_eq!(
        families["plumb_finding_share_ratio"].as_array().map(Vec::len),
        Some(seen.diagnosis.findings.len())
    );
    let quantiles: Vec<&Value> =
        families["plumb_load_service_seconds"].as_array().expect("samples").iter().collect();
    assert_eq!(quantiles.len(), 5);
    assert!(quantiles.iter().any(|q| q[0]["quantile"] == "0.99" && q[1] == 0.000_7), "{quantiles:?}");
    assert_eq!(families["plumb_load_rate_hertz"][0][1], 12.5);
}

/// What of a load.json the tables read.
const LOAD: &str = r#"{"cells": [{"label": "write", "rounds": [[{"label": "fill", "verdict": {"word": "valid"}, "jobs": [
  {"operations": [{"kind": "write", "count": 40, "errors": 1, "short": 0, "bytes": 4096, "rate": 12.5, "bandwidth": 1e6,
    "service": {"mean_ns": 5.5, "stddev_ns": 1.5, "min": 1, "p50": 2, "p90": 3, "p95": 4, "p99": 700000, "p99_9": 6, "p99_99": 7, "max": 8},
    "response": null}],
   "series": [{"at_ns": 1000000000, "length_ns": 1000000000, "operations": 40, "bytes": 4096, "longest_ns": 8}]}]}]]}]}"#;

#[test]
fn figures_of_a_load_become_rows() {
    let load: Value = serde_json::from_str(LOAD).expect("JSON");
    let mut rows = Keep::default();
    plumb_report::table::load("r", &load, 2, &mut rows);
    assert_eq!(rows.sum("loads", "p99_ns", Some(("kind", "write"))), 700_000);
    assert_eq!(rows.sum("loads", "job", Some(("verdict", "valid"))), 1);
    assert_eq!(rows.sum("load_seconds", "operations", Some(("step", "fill"))), 40);
    let (table, loads) = rows.of("loads");
    assert_eq!(loads[0][table.column("response_p99_ns").expect("a column")], Kept::None);
    // A file of another form gives no rows, and no panic.
    for other in
        ["{}", "[]", r#"{"cells": 3}"#, r#"{"cells": [{"rounds": [[{"jobs": [{"operations": [7]}]}]]}]}"#]
    {
        let mut rows = Keep::default();
        let other: Value = serde_json::from_str(other).expect("JSON");
        plumb_report::table::load("r", &other, 1, &mut rows);
    }
}

struct One(&'static Table, u64);

impl Sink for One {
    fn wants(&self, table: &'static Table) -> bool {
        std::ptr::eq(self.0, table)
    }
    fn row(&mut self, table: &'static Table, _: &[Cell<'_>]) {
        self.1 += u64::from(std::ptr::eq(self.0, table));
    }
}

#[test]
fn a_table_alone_has_the_rows_that_it_has_among_all() {
    let mut all = Keep::default();
    fill(&recorded(TRACE), TRACE, &mut all);
    for table in TABLES {
        let mut one = One(table, 0);
        fill(&recorded(TRACE), TRACE, &mut one);
        assert_eq!(one.1, all.of(table.name).1.len() as u64, "{}", table.name);
    }
}

#[test]
fn a_torn_trace_has_the_rows_up_to_the_tear() {
    let dir = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(recorded(TRACE)).expect("a trace") {
        let entry = entry.expect("a file");
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("room");
    }
    let cut = |path: &Path, share: f64| {
        let bytes = std::fs::read(path).expect("a file");
        std::fs::write(path, &bytes[..(bytes.len() as f64 * share) as usize]).expect("room");
    };
    cut(&dir.path().join("cpu_0"), 0.6);
    cut(&dir.path().join("cpu_1"), 0.7);
    cut(&dir.path().join("state"), 0.9);
    let (mut whole, mut torn) = (Keep::default(), Keep::default());
    fill(&recorded(TRACE), TRACE, &mut whole);
    let seen = fill(dir.path(), TRACE, &mut torn);
    assert!(!seen.quality.damage.is_empty());
    let account: u64 = seen.result.processes.iter().flat_map(|p| p.account.values()).sum();
    assert_eq!(torn.sum("account", "time_ns", None), account as i64);
    let (fewer, more) = (torn.of("requests").1.len(), whole.of("requests").1.len());
    assert!(0 < fewer && fewer < more, "{fewer} of {more} requests");
}
