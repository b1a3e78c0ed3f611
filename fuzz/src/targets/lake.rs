// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a lake, which other hosts wrote.

use plumb_report::export::parquet::join::{join, Part};
use plumb_report::export::parquet::Parquet;
use plumb_report::table::{find, Cell, Sink};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A file of one run, one of many rows, and one of two runs.
pub fn files() -> Vec<Vec<u8>> {
    let table = find("account").expect("a table");
    let dir = directory();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, rows: i64| -> PathBuf {
        let mut files = Parquet::of(&path(name), &[table], &[], "x").expect("room");
        for n in 0..rows {
            let (process, category) = (format!("process {}", n % 7), Cell::Text("running"));
            files.row(
                table,
                &["run".into(), Cell::Integer(n), Cell::Text(&process), category, Cell::Integer(n * n)],
            );
        }
        files.finish().expect("room");
        path(name).join("account.parquet")
    };
    let (small, large) = (write("a", 2), write("b", 3000));
    let parts = [Part::open(&small, "one").expect("ours"), Part::open(&large, "two").expect("ours")];
    let both = path("both.parquet");
    join(&parts, &both, &AtomicBool::new(false)).expect("joined");
    [small, large, both].iter().map(|path| std::fs::read(path).expect("written")).collect()
}

/// How many rows there are, what they hold, and what was refused of them.
fn rows(part: &Part) -> (u64, u64, bool) {
    let table = find("account").expect("a table");
    let used: Vec<usize> = (0..table.columns.len()).collect();
    let (mut count, mut sum) = (0, 0);
    let refused = part.rows((table, &used), &|_| true, &mut |cells| {
        count += 1;
        sum ^= crate::driver_hash(format!("{cells:?}").as_bytes());
    });
    (count, sum, refused.is_some())
}

/// Opens a file and reads its rows; what can be opened can be joined, and has the same run's or runs' rows afterwards.
pub fn read(input: &[u8]) -> u64 {
    let dir = directory();
    let at = |name: &str| dir.path().join(name);
    File::create(at("in")).and_then(|mut file| file.write_all(input)).expect("room");
    let open = |path: &Path| Part::open(path, "run");
    let Ok(part) = open(&at("in")) else { return 0 };
    let runs: Vec<String> = part.runs().map(str::to_owned).collect();
    let before = rows(&part);
    let joined = join(&[part], &at("out"), &AtomicBool::new(false));
    if joined.is_err() {
        return 1;
    }
    let again = open(&at("out")).expect("what was joined can be opened");
    assert!(again.runs().eq(runs.iter().map(String::as_str)), "the same runs");
    // A column that the table has with another type is joined, and not read.
    assert!(before.2 || rows(&again) == before, "the same rows");
    2 + runs.len().min(8) as u64 + 16 * u64::from(before.0 > 0) + 32 * u64::from(before.2)
}
