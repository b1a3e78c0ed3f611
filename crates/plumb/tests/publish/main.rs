// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb publish`: a lake of recorded runs of several hosts, what DuckDB finds in it, and what is left when it is killed.

mod bucket;

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Host and kernel of the runs, and the trace that each is a copy of. The clock of a later one is some days ahead.
const RUNS: [(&str, &str, &str); 6] = [
    ("web-1", "6.1.0", "appenders"),
    ("web-1", "6.12.0", "write-fsync"),
    ("web-2", "6.1.0", "cold-read"),
    ("web-2", "6.12.0", "direct-writes"),
    ("db/1 \u{e9}", "6.12.0", "mutex"),
    ("db/1 \u{e9}", "6.12.0", "cpu-quota"),
];

/// The runs in a directory, as if they had been recorded on these hosts.
fn fleet(dir: &Path) -> Vec<PathBuf> {
    let copy = |(i, (host, kernel, trace)): (usize, &(&str, &str, &str))| {
        let (from, to) = (root().join("tests/traces").join(trace), dir.join(format!("run-{i}")));
        std::fs::create_dir(&to).expect("made");
        for entry in std::fs::read_dir(&from).expect("a trace") {
            let path = entry.expect("a file").path();
            std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
        let metadata = std::fs::read(to.join("metadata")).expect("metadata");
        let mut text = String::from_utf8(metadata).expect("UTF-8");
        for (key, value) in [("hostname", *host), ("kernel_release", *kernel)] {
            let at = text.find(&format!("\t{key} = \"")).expect("in the environment");
            let end = at + text[at..].find(";\n").expect("a line");
            text.replace_range(at..end, &format!("\t{key} = \"{value}\""));
        }
        std::fs::write(to.join("metadata"), text).expect("written");
        to
    };
    RUNS.iter().enumerate().map(copy).collect()
}

fn publish(lake: &Path, runs: &[PathBuf], more: &[&str]) -> Command {
    let mut command = Command::new(PLUMB);
    command.arg("publish").args(runs).arg("--to").arg(lake).args(more);
    command.stdin(Stdio::null());
    command
}

/// Exit code, what it says as JSON, standard error.
fn published(lake: &Path, runs: &[PathBuf], more: &[&str]) -> (i32, Value, String) {
    let out = publish(lake, runs, more).arg("--json").output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code().unwrap_or(-1), serde_json::from_slice(&out.stdout).unwrap_or_default(), said)
}

fn states(done: &Value) -> Vec<&str> {
    done["runs"].as_array().expect("runs").iter().map(|r| r["state"].as_str().expect("a state")).collect()
}

/// Each file below a directory by its path, with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir).expect("below").to_path_buf();
                out.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    out
}

#[test]
fn a_run_that_is_published_twice_is_there_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    let (code, done, said) = published(&lake, &runs, &[]);
    assert_eq!((code, states(&done)), (0, vec!["published"; RUNS.len()]), "{said}");
    let first = files(&lake);
    let in_runs: Vec<_> = first.keys().filter(|p| p.starts_with("runs")).collect();
    assert_eq!(in_runs.len(), RUNS.len());
    assert!(in_runs[0].starts_with("runs/host=db%2F1%20%C3%A9/day=2026-11-21"), "{in_runs:?}");
    assert!(!first.keys().any(|p| p.starts_with("intervals") || p.starts_with("samples")), "bulk");
    let told: u64 = done["runs"].as_array().expect("runs").iter().filter_map(|r| r["bytes"].as_u64()).sum();
    assert_eq!(told, first.values().map(|f| f.len() as u64).sum::<u64>());

    let (_, _, said) = published(&dir.path().join("other"), std::slice::from_ref(&lake), &[]);
    assert!(said.contains("is a lake, and no run"), "{said}");
    let asked = Command::new(PLUMB)
        .args(["query", "select 1 from runs"])
        .args([&lake, &lake])
        .output()
        .expect("runs");
    assert!(String::from_utf8_lossy(&asked.stderr).contains("is named twice"), "{asked:?}");
    // A table that was not published has no rows, and that is said.
    let asked = |sql: &str| {
        let out = Command::new(PLUMB).args(["query", sql]).arg(&lake).output().expect("runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = asked("select count(*) from samples, account");
    assert!(code == Some(0) && said.contains("has no file of samples: a bulky table"), "{said}");
    assert!(!said.contains("of account"), "{said}");
    let (code, said) = asked("select count(*) from windows");
    assert!(code == Some(0) && said.contains("has no file of windows: no run in it"), "{said}");

    // What an ended process left is taken away, what another one makes is not.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = |host: &str, number: u32| lake.join(".incoming").join(format!("{host}.1.{number}"));
    let (left, made, others) =
        (name(host.trim(), 1), name(host.trim(), 2), name(&format!("{}.x", host.trim()), 3));
    for dir in [&left, &made, &others] {
        std::fs::create_dir_all(dir.join("0")).expect("made");
        std::fs::write(dir.join("lock"), "").expect("written");
    }
    let mut holder = Command::new("flock");
    holder.arg(made.join("lock")).args(["sh", "-c", "echo locked; cat"]);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("flock(1)");
    let mut line = [0; 7];
    holder.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it is locked");
    let (code, done, said) = published(&lake, &runs, &[]);
    assert_eq!((code, states(&done)), (0, vec!["unchanged"; RUNS.len()]), "{said}");
    assert!(!left.exists() && made.exists() && others.exists());
    drop(holder.stdin.take());
    holder.wait().expect("ended");
    published(&lake, &runs, &[]);
    assert!(!made.exists());
    std::fs::remove_dir_all(&others).expect("there");
    assert!(files(&lake) == first, "changed");
}

#[test]
fn what_is_held_back_is_not_in_any_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    let secret = b"plumb-workload";
    let has = |table: &str| {
        files(&lake)
            .iter()
            .any(|(path, bytes)| path.starts_with(table) && bytes.windows(secret.len()).any(|w| w == secret))
    };
    published(&lake, &runs[..1], &[]);
    assert!(has("runs") && has("threads") && has("findings") | has("verdict"));
    let rules = dir.path().join("rules.toml");
    std::fs::write(&rules, "tables = ['threads']\nwithout = ['runs.target', '*.thread', '*.process']")
        .expect("written");
    let rules = rules.display().to_string();
    let (code, done, said) = published(&lake, &runs[..1], &["--rules", &rules]);
    assert_eq!((code, states(&done)), (0, vec!["replaced"]), "{said}");
    let left: Vec<_> =
        files(&lake).into_keys().filter_map(|p| p.iter().next().map(|t| t.to_owned())).collect();
    assert_eq!(left, ["runs", "threads"], "tables that the rules leave out are gone");
    assert!(!has("runs") && !has("threads"));
}

#[test]
fn the_manuals_rules_are_rules() {
    let manual = std::fs::read_to_string(root().join("docs/lake.md")).expect("the manual");
    let rules = manual.split("```toml\n").nth(1).and_then(|t| t.split("```").next()).expect("rules");
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs, file) = (dir.path().join("lake"), fleet(dir.path()), dir.path().join("rules.toml"));
    std::fs::write(&file, rules).expect("written");
    let (code, done, said) = published(&lake, &runs[..1], &["--rules", &file.display().to_string()]);
    assert_eq!((code, done["runs"][0]["tables"].as_u64()), (0, Some(4)), "{said}");
}

#[test]
fn what_cannot_be_published_is_named_and_the_rest_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, mut runs) = (dir.path().join("lake"), fleet(dir.path()));
    std::fs::write(runs[0].join("metadata"), "no metadata").expect("written");
    std::fs::create_dir(dir.path().join("load")).expect("made");
    std::fs::write(dir.path().join("load/load.json"), "{}").expect("written");
    runs.push(dir.path().join("load"));
    let (code, done, said) = published(&lake, &runs, &[]);
    assert_eq!((code, states(&done).len()), (2, RUNS.len() - 1), "{said}");
    assert_eq!(done["failed"].as_array().map(Vec::len), Some(2), "{said}");
    assert!(said.contains("run-0") && said.contains("load: has no trace"), "{said}");
    assert!(said.contains("2 of 7 runs are not published"), "{said}");
    assert_eq!(std::fs::read_dir(lake.join(".incoming")).expect("there").count(), 0, "nothing is left");

    for (rules, word) in
        [("table = []", "unknown field"), ("tables = ['no']", "no table no"), ("without = ['*.no']", "*.no")]
    {
        let file = dir.path().join("rules.toml");
        std::fs::write(&file, rules).expect("written");
        let (code, _, said) = published(&lake, &runs, &["--rules", &file.display().to_string()]);
        assert!(code == 2 && said.contains(word), "{said}");
    }
}

/// Parquet files that have their names, or that are being made.
fn count(lake: &Path, named: bool) -> usize {
    let (mut out, mut left) = (0, vec![lake.to_path_buf()]);
    while let Some(next) = left.pop() {
        // They come and go.
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_dir && (next != lake || (entry.file_name() != ".incoming") == named) {
                left.push(entry.path());
            }
            out += usize::from(!is_dir && entry.file_name() != "lock");
        }
    }
    out
}

/// Killed at twenty moments, it goes on where it was: nothing is there twice, in part, or missing.
#[test]
fn what_was_killed_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let runs = fleet(dir.path());
    let whole = dir.path().join("whole");
    assert_eq!(published(&whole, &runs, &[]).0, 0);
    let expected = files(&whole);
    let (mut killed, mut seen) = (0, 0);
    for turn in 1..=20 {
        let lake = dir.path().join(format!("lake-{turn}"));
        let mut child = publish(&lake, &runs, &[]).stderr(Stdio::null()).spawn().expect("runs");
        // Ten moments while files are made, and ten while they get their names.
        let (named, until) = (turn > 10, expected.len() * ((turn - 1) % 10) / 10 + 1);
        while child.try_wait().expect("a child").is_none() {
            if count(&lake, named) >= until {
                child.kill().expect("killed");
                killed += 1;
                break;
            }
        }
        child.wait().expect("ended");
        let half: BTreeMap<_, _> = if lake.exists() { files(&lake) } else { BTreeMap::new() };
        for (path, bytes) in half.iter().filter(|(path, _)| !path.starts_with(".incoming")) {
            assert!(bytes == &expected[path], "{} is not whole", path.display());
            seen += 1;
        }
        for run in half.keys().filter(|p| p.starts_with("runs")) {
            let rest: PathBuf = run.iter().skip(1).collect();
            let all = expected.keys().filter(|p| p.iter().skip(1).collect::<PathBuf>() == rest);
            assert!(all.into_iter().all(|p| half.contains_key(p)), "{}: not all of it", run.display());
        }
        assert_eq!(published(&lake, &runs, &[]).0, 0);
        assert!(files(&lake) == expected, "turn {turn}");
    }
    println!("{killed} killed, {seen} files there");
    assert!(killed >= 10 && seen > 0, "{killed} killed, {seen} files there");
}

/// Asks DuckDB each statement of the files that are named, by the views.
const ASK: &str = r"
import sys, json, duckdb
c = duckdb.connect()
c.execute(open(sys.argv[1]).read())
print(json.dumps([[[float(v) if hasattr(v, 'as_tuple') else int(v) if hasattr(v, 'bit_length') else v for v in r]
                   for r in c.execute(open(q).read()).fetchall()] for q in sys.argv[2:]]))
";

/// A Python that has DuckDB: `PLUMB_PYTHON`, or the one that `scripts/deps.sh peers` makes.
fn duckdb() -> Option<PathBuf> {
    let named = std::env::var_os("PLUMB_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        let out = Command::new(python).args(["-c", "import duckdb"]).output();
        out.is_ok_and(|o| o.status.success())
    };
    named.into_iter().chain([root().join("target/peers/bin/python"), "python3".into()]).find(has)
}

#[test]
fn duckdb_answers_every_question_as_query_does() {
    let Some(python) = duckdb() else {
        println!("SKIP duckdb_answers_every_question_as_query_does: no Python with duckdb; scripts/deps.sh peers makes one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    let views = Command::new(PLUMB).args(["lake", "views"]).arg(&lake).output().expect("runs");
    assert!(views.status.success(), "{}", String::from_utf8_lossy(&views.stderr));
    let sql = dir.path().join("lake.sql");
    std::fs::write(&sql, views.stdout).expect("written");
    let mut questions: Vec<PathBuf> = std::fs::read_dir(root().join("sql"))
        .expect("questions")
        .map(|e| e.expect("a file").path())
        .collect();
    questions.sort();
    assert!(questions.len() >= 20, "{}", questions.len());
    let out = Command::new(python).args(["-c", ASK]).arg(&sql).args(&questions).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let theirs: Vec<Vec<Vec<Value>>> = serde_json::from_slice(&out.stdout).expect("JSON");
    let mut answered = 0;
    for (question, theirs) in questions.iter().zip(theirs) {
        let name = question.file_stem().expect("a name").to_string_lossy().into_owned();
        let csv = answer(question, &runs);
        let mut lines = csv.lines();
        // The shape is what the file's third line says.
        let text = std::fs::read_to_string(question).expect("a question");
        let shape = text.lines().nth(2).and_then(|l| l.strip_prefix("-- Columns: ")).expect("columns");
        let shape = shape.split([';', '.']).next().expect("names").replace(", ", ",");
        assert_eq!(lines.next(), Some(shape.as_str()), "{name}");
        let own: Vec<&str> = lines.collect();
        let theirs: Vec<String> =
            theirs.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",")).collect();
        assert_eq!(own.len(), theirs.len(), "{name}");
        for (own, theirs) in own.iter().zip(&theirs) {
            assert!(same(own, theirs), "{name}: plumb {own}, DuckDB {theirs}");
        }
        answered += u64::from(!own.is_empty());
    }
    assert!(answered >= 14, "{answered} questions had answers");
}

/// What `plumb query` says, as CSV.
fn answer(question: &Path, of: &[PathBuf]) -> String {
    let out =
        Command::new(PLUMB).args(["query", "--csv", "--file"]).arg(question).args(of).output().expect("runs");
    assert!(out.status.success(), "{}: {}", question.display(), String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

#[test]
fn query_reads_a_lake_as_it_reads_the_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    let joined = dir.path().join("joined");
    assert_eq!(published(&joined, &runs, &[]).0, 0);
    let before = files(&joined);
    assert!(compact(&joined).output().expect("runs").status.success());
    // As it is where joining was broken off: the run is there twice.
    let (single, bytes) = before.iter().find(|(path, _)| path.starts_with("account")).expect("a file");
    std::fs::write(joined.join(single), bytes).expect("written");
    for entry in std::fs::read_dir(root().join("sql")).expect("questions") {
        let question = entry.expect("a file").path();
        let expected = answer(&question, &runs);
        for lake in [&lake, &joined] {
            assert_eq!(answer(&question, std::slice::from_ref(lake)), expected, "{}", question.display());
        }
    }
    // What was not published to the end is not there; what cannot be read is named.
    let count = dir.path().join("count.sql");
    std::fs::write(&count, "select count(distinct run) from account").expect("written");
    let last = |lake: &Path| answer(&count, &[lake.to_path_buf()]).lines().last().map(str::to_owned);
    assert_eq!(last(&lake), Some(RUNS.len().to_string()));
    let of_runs = files(&lake).into_keys().find(|p| p.starts_with("runs")).expect("a file");
    std::fs::remove_file(lake.join(of_runs)).expect("removed");
    assert_eq!(last(&lake), Some((RUNS.len() - 1).to_string()));
    let of_account = files(&joined).into_keys().find(|p| p.starts_with("account")).expect("a file");
    std::fs::write(joined.join(&of_account), "PAR1 and no more").expect("written");
    let out =
        Command::new(PLUMB).args(["query", "select 1 from account"]).arg(&joined).output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(3) && said.contains(&of_account.display().to_string()), "{said}");
}

/// A line that `plumb watch` writes.
fn window(minute: u32, kernel: &str) -> String {
    let began = 1_767_312_000_000_000_000u64 + u64::from(minute) * 60_000_000_000;
    format!(
        "{{\"at\":\"2026-01-02T00:{minute:02}:00Z\",\"began_unix_ns\":{began},\"host\":\"web-1\",\"machine_id\":\"\",\
         \"kernel\":\"{kernel}\",\"plumb\":\"0.1\",\"seconds\":60.0,\"events\":10.0,\"paused\":0.0,\"lost\":0,\"cpus\":[0.5,2.0],\
         \"bottleneck\":\"\",\"services\":[{{\"name\":\"db\",\"requests\":7.0,\"mean\":{minute}000000}}],\"devices\":[],\"locks\":[]}}\n"
    )
}

#[test]
fn windows_of_a_watch_are_a_run_for_each_day_and_kernel() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, watch) = (dir.path().join("lake"), dir.path().join("watch"));
    std::fs::create_dir_all(watch.join("windows")).expect("made");
    let day = watch.join("windows/2026-01-02.jsonl");
    let first = "{\"format\":\"plumb.watch\",\"version\":1}\n".to_owned();
    let mut lines =
        first.clone() + &window(1, "6.1") + &window(2, "6.1") + &window(3, "6.12") + "{\"at\":\"cut o";
    std::fs::write(&day, &lines).expect("written");
    let runs = [watch.clone()];
    let (code, done, said) = published(&lake, &runs, &[]);
    assert_eq!((code, states(&done)), (0, vec!["published"; 2]), "{said}");
    assert_eq!(done["runs"][0]["run"], "web-1-811c9dc5-watch-2026-01-02-6.1-0.1");
    let question = dir.path().join("question.sql");
    let sql = "select r.kernel, r.target_kind, r.events, count(*), sum(s.mean_ns) from runs r join window_services s on s.run = r.run group by 1";
    std::fs::write(&question, sql).expect("written");
    let rows = |lake: &Path| {
        answer(&question, &[lake.to_path_buf()]).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows(&lake), ["6.1,watch,1200,2,3000000", "6.12,watch,600,1,3000000"]);
    // The day goes on.
    lines = first + &window(1, "6.1") + &window(2, "6.1") + &window(3, "6.12") + &window(4, "6.12");
    std::fs::write(&day, &lines).expect("written");
    let (_, done, said) = published(&lake, &runs, &[]);
    assert_eq!(states(&done), ["unchanged", "replaced"], "{said}");
    assert_eq!(rows(&lake), ["6.1,watch,1200,2,3000000", "6.12,watch,1200,2,7000000"]);
    // What it wrote on a trigger goes with them.
    std::fs::create_dir_all(watch.join("runs")).expect("made");
    let (_, done, said) = published(&lake, &runs, &[]);
    assert_eq!(states(&done).len(), 2, "{said}");
    let written = fleet(dir.path());
    std::fs::rename(&written[0], watch.join("runs/one")).expect("moved");
    let (code, done, said) = published(&lake, &runs, &[]);
    assert_eq!((code, states(&done)), (0, vec!["unchanged", "unchanged", "published"]), "{said}");
    std::fs::remove_dir_all(watch.join("runs")).expect("removed");
    // Those of an older plumb.
    std::fs::write(&day, "{\"at\":\"2026-01-02T00:01:00Z\",\"seconds\":60.0}\n").expect("written");
    let (code, _, said) = published(&lake, &runs, &[]);
    assert!(code == 2 && said.contains("1 windows of an older plumb"), "{said}");
}

/// As CSV has it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

/// Whether two lines are the same but for how reals are written.
fn same(a: &str, b: &str) -> bool {
    let (a, b): (Vec<_>, Vec<_>) = (a.split(',').collect(), b.split(',').collect());
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 1e-6 * a.abs().max(1.0),
            _ => a == b,
        })
}

/// Rows of every table, and of each run in `requests` and `account`, by DuckDB.
const SUMS: &str = r"
import sys, json, duckdb
c = duckdb.connect()
c.execute(open(sys.argv[1]).read())
views = [r[0] for r in c.execute('select view_name from duckdb_views() where not internal order by 1').fetchall()]
out = {v: c.execute(f'select count(*), count(distinct run), count(distinct host) from {v}').fetchone() for v in views}
out['times'] = [[str(v) for v in r] for r in c.execute('select run, kernel, sum(time_ns) from account group by all order by all').fetchall()]
print(json.dumps(out))
";

fn sums(python: &Path, lake: &Path) -> Value {
    let views = Command::new(PLUMB).args(["lake", "views"]).arg(lake).output().expect("runs");
    let sql = lake.with_extension("sql");
    std::fs::write(&sql, views.stdout).expect("written");
    let out = Command::new(python).args(["-c", SUMS]).arg(&sql).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn compact(lake: &Path) -> Command {
    let mut command = Command::new(PLUMB);
    command.args(["lake", "compact", "--json"]).arg(lake);
    command
}

#[test]
fn joined_files_have_the_same_rows() {
    let Some(python) = duckdb() else {
        println!(
            "SKIP joined_files_have_the_same_rows: no Python with duckdb; scripts/deps.sh peers makes one"
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    assert_eq!(published(&lake, &runs[..5], &[]).0, 0);
    let out = compact(&lake).output().expect("runs");
    let done: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(done["before"].as_u64() > done["after"].as_u64(), "{done}");
    // One that comes later is joined to the others, and one that is there is not read again.
    let (_, done, said) = published(&lake, &runs, &[]);
    assert_eq!(states(&done), ["joined", "joined", "joined", "joined", "unchanged", "published"], "{said}");
    assert!(compact(&lake).output().expect("runs").status.success());
    let whole = dir.path().join("whole");
    assert_eq!(published(&whole, &runs, &[]).0, 0);
    let expected = sums(&python, &whole);
    assert!(expected["account"][0].as_u64() > Some(20) && expected["runs"][0] == RUNS.len(), "{expected}");
    assert_eq!(sums(&python, &lake), expected);
    let joined = files(&lake);
    assert!(joined.keys().filter(|p| p.starts_with("runs")).count() == 3, "a file for each host and day");
    assert!(compact(&lake).output().expect("runs").status.success());
    assert!(files(&lake) == joined, "there was nothing to join");

    // Killed at any moment, it is completed by the next.
    let mut took = Duration::ZERO;
    let mut killed = 0;
    for turn in 0..=20u32 {
        let lake = dir.path().join(format!("lake-{turn}"));
        assert_eq!(published(&lake, &runs, &[]).0, 0);
        let begin = std::time::Instant::now();
        let mut child = compact(&lake).stdout(Stdio::null()).spawn().expect("runs");
        if turn == 0 {
            assert!(child.wait().expect("ended").success());
            took = begin.elapsed();
        } else {
            std::thread::sleep(took * turn / 20);
            killed += u32::from(child.try_wait().expect("a child").is_none());
            let _ = child.kill();
            child.wait().expect("ended");
        }
        assert!(compact(&lake).output().expect("runs").status.success(), "turn {turn}");
        assert_eq!(sums(&python, &lake), expected, "turn {turn}");
        let left: Vec<_> = files(&lake.join(".incoming")).into_keys().collect();
        assert_eq!(left, [Path::new("lock")], "turn {turn}");
    }
    assert!(killed >= 5, "{killed} killed");
}

#[test]
fn a_file_that_cannot_be_read_stays_and_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    let day = lake.join("account/host=web-1/day=2026-11-21");
    let all: Vec<_> = files(&day).into_keys().collect();
    std::fs::write(day.join(&all[0]), "no Parquet file at all").expect("written");
    // A footer whose columns lie behind the file's end.
    let bytes = std::fs::read(day.join(&all[1])).expect("a file");
    // As many columns, and another table's name.
    let other = bytes.windows(7).position(|w| w == b"account").expect("its name");
    let renamed = [&bytes[..other], b"another", &bytes[other + 7..]].concat();
    std::fs::write(day.join("other.parquet"), renamed).expect("written");
    std::fs::write(day.join("cut.parquet"), [b"PAR1", &bytes[60..]].concat()).expect("written");
    std::fs::write(day.join("more.parquet"), &bytes).expect("written");
    // Its footer is right, and its first column is none.
    std::fs::write(day.join("pages.parquet"), [b"PAR1", &[0; 30][..], &bytes[34..]].concat())
        .expect("written");
    let out = compact(&lake).output().expect("runs");
    let done: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert_eq!(done["skipped"].as_array().map(Vec::len), Some(4), "{said}");
    assert!(
        said.contains("does not end as a Parquet file")
            && said.contains("outside of the file")
            && said.contains("has other columns")
            && said.contains("pages.parquet: column run"),
        "{said}"
    );
    let there = |lake: &Path| files(lake).len() as u64;
    assert_eq!(done["after"].as_u64(), Some(there(&lake) - there(&lake.join(".incoming"))), "{said}");
    assert!(["cut.parquet", "pages.parquet"].iter().all(|name| day.join(name).exists()));
    assert!(day.join(&all[0]).exists() && !day.join(&all[1]).exists());
    // One of many runs that cannot be read is not replaced by one of those that came later.
    let joined =
        files(&day).into_keys().find(|name| name.to_string_lossy().starts_with("all+")).expect("joined");
    std::fs::write(day.join(&joined), "no Parquet file any more").expect("written");
    for name in ["later.parquet", "latest.parquet"] {
        std::fs::write(day.join(name), &bytes).expect("written");
    }
    let before = files(&day);
    assert_eq!(compact(&lake).output().expect("runs").status.code(), Some(2));
    assert!(files(&day) == before, "nothing is joined");
    // As another call would hold it.
    let mut held = Command::new("flock");
    held.arg(lake.join(".incoming/lock")).args([PLUMB, "lake", "compact"]).arg(&lake);
    let out = held.output().expect("flock(1)");
    assert!(String::from_utf8_lossy(&out.stderr).contains("another plumb lake compact"), "{out:?}");
    let out = compact(dir.path()).output().expect("runs");
    assert!(String::from_utf8_lossy(&out.stderr).contains("is no lake"));
}

#[test]
fn a_run_that_cannot_be_read_any_more_stays_in_what_was_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, whole) = (dir.path().join("lake"), dir.path().join("whole"));
    // Of one host and day.
    let runs = ["mutex", "pipe", "sleep"].map(|name| root().join("tests/traces").join(name));
    assert_eq!(published(&whole, &runs, &[]).0, 0);
    assert_eq!(published(&lake, &runs[..2], &[]).0, 0);
    let day = lake.join("account/host=vm/day=2026-11-21");
    let (name, bytes) = files(&day).into_iter().next().expect("a file");
    assert!(compact(&lake).output().expect("runs").status.success());
    assert_eq!(published(&lake, &runs[2..], &[]).0, 0);
    // Its footer is right, and its first column is none.
    std::fs::write(day.join(&name), [&bytes[..4], &[0; 30], &bytes[34..]].concat()).expect("written");
    let out = compact(&lake).output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && said.contains("column run"), "{said}");
    assert_eq!(files(&day).len(), 2, "the damaged one, and the others");
    std::fs::remove_file(day.join(&name)).expect("there");
    let rows = |lake: &Path| {
        let mut query = Command::new(PLUMB);
        query.args([
            "query",
            "--csv",
            "select run, count(*), sum(time_ns) from account group by 1 order by 1",
        ]);
        String::from_utf8(query.arg(lake).output().expect("runs").stdout).expect("UTF-8")
    };
    let all = rows(&whole);
    assert_eq!(rows(&lake), all);
    assert_eq!(all.lines().count(), 4);
    // What is called as joined files are, and has other columns than its name says, is nobody's to replace.
    let day = whole.join("account/host=vm/day=2026-11-21");
    std::fs::write(day.join("all+7.parquet"), &bytes).expect("written");
    let out = compact(&whole).output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && said.contains("not what its name says"), "{said}");
    assert!(files(&day).get(Path::new("all+7.parquet")) == Some(&bytes) && files(&day).len() == 2, "{said}");
    assert_eq!(rows(&whole), all);
}
