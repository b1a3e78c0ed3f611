// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that a user edits, and those that an earlier run wrote.

use super::kind;
use crate::elements::Scratch;
use anyhow::Result;
use plumb_load::job::{Cell, Job, JobFile};
use plumb_model::RunResult;
use plumb_plan::file::PlanFile;
use plumb_plan::program::Program;
use plumb_report::{plain as escape, upgrade};
use plumb_trace::ctf::Metadata;
use plumb_undo::devices::NoDevices;
use plumb_undo::journal::{open_in, JOURNAL};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

thread_local! {
    static SCRATCH: Scratch = Scratch::new();
}

/// Files of a directory of the repository.
fn files(dir: &str, ending: &str) -> Vec<Vec<u8>> {
    let dir = crate::root().join(dir);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.to_string_lossy().ends_with(ending));
    paths.sort();
    paths.iter().filter_map(|p| fs::read(p).ok()).collect()
}

/// Job files among the code of a page: blocks that begin with a marker.
fn blocks(page: &str, begins: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(crate::root().join(page)).unwrap_or_default();
    let unindent =
        |block: &str| -> String { block.lines().map(|l| format!("{}\n", l.trim_start())).collect() };
    text.split("\n\n")
        .filter(|b| b.trim_start().starts_with(begins))
        .map(|b| unindent(b).into_bytes())
        .collect()
}

pub fn plans() -> Vec<Vec<u8>> {
    files("plans", ".toml")
}

/// A program of which every cell is one plain job.
struct AnyProgram;

impl Program for AnyProgram {
    fn load_cells(&self, _: Vec<OsString>) -> Result<Vec<Cell>> {
        Ok(vec![Cell::of("job", Job::default())])
    }
    fn presets(&self) -> Vec<String> {
        vec!["fsync".into()]
    }
    fn has_option(&self, _: Option<&str>, _: &str) -> bool {
        true
    }
    fn check_run(&self, _: Vec<OsString>) -> Result<()> {
        Ok(())
    }
    fn write_page(&self, dir: &Path) -> Result<PathBuf> {
        Ok(dir.into())
    }
}

pub fn plan(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    match PlanFile::parse(&text) {
        Err(e) => kind(&format!("{e:#}")),
        Ok(plan) => {
            let written = plan.text().expect("a plan that was read can be written");
            // As text: a number that is none (nan) is not equal to itself.
            let again = PlanFile::parse(&written).expect("its text can be read");
            assert_eq!(again.text().expect("it can be written again"), written, "it reads as it was written");
            match plumb_plan::cells::of(&plan, &AnyProgram) {
                Err(e) => kind(&format!("{e:#}")),
                Ok(cells) => {
                    let _ = plumb_plan::order::schedule(&plan, &cells);
                    1
                }
            }
        }
    }
}

pub fn jobs() -> Vec<Vec<u8>> {
    let job =
        "what = \"write\"\nblock = \"8K\"\nsize = \"1M\"\nsync = \"fdatasync\"\nthreads = 4\ndepth = 1\n\
               rate = 100.5\nsteady = \"5%:10s\"\nruntime = \"10s\"\nseed = 7\n";
    let steps =
        "name = \"two\"\nblock = \"8K\"\nsize = 65536\n[[step]]\nwhat = \"write\"\nsync = \"fdatasync\"\n\
                 [[step]]\nname = \"both\"\nwhat = \"read\"\n[[step.also]]\nwhat = \"write\"\nrate = 100\n";
    // Every key of a job, as it is written.
    let all = serde_json::to_value(Job::default()).expect("a job");
    let keys = all.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null());
    let whole: String = keys.map(|(key, value)| format!("{key} = {value}\n")).collect();
    vec![job.into(), steps.into(), whole.into_bytes()]
}

pub fn job(input: &[u8]) -> u64 {
    match JobFile::parse(&String::from_utf8_lossy(input)) {
        Err(e) => kind(&e.to_string()),
        Ok(file) => {
            let _ = plumb_load::job::text::cell(&file.cell);
            checked(&file.cell)
        }
    }
}

fn checked(cell: &Cell) -> u64 {
    let mut how = 1;
    for job in cell.steps.iter().flat_map(|s| &s.jobs) {
        match job.check() {
            Ok(()) => {
                let _ = (job.span(), job.workers(), job.kinds(), job.prepared());
            }
            Err(e) => how = kind(&e.to_string()),
        }
    }
    how
}

pub fn fio_jobs() -> Vec<Vec<u8>> {
    let mut out = blocks("docs/load.md", "[");
    for job in [
        "[etcd]\nrw=write\nioengine=sync\nfdatasync=1\ndirectory=test-data\nsize=22m\nbs=2300\nname=mytest\n",
        "[global]\nthread\ngroup_reporting\ntime_based\nruntime=2m\nramp_time=5\n\n[mix]\nrw=randrw\nrwmixread=70\n\
         iodepth=16\nioengine=libaio\ndirect=1\nsize=50%\nnumjobs=4\nrate_iops=100,200\nthinktime=3ms\n",
        "[global]\nsize=1m\n[reader]\nrw=randread\nsize=2m\n[writer]\nrw=write\nend_fsync=1\n[after]\nstonewall\n",
        "[d]\nfilename=/dev/null-disk\nrw=randread:8\nruntime=5\noffset=4k\nio_size=1g\nbsrange=1k-16k\nnrfiles=3\n",
        "[f]\nrw=write\nbs=4k\nfilesize=1g\nnrfiles=1000\nnumjobs=2\nloops=3\nfile_service_type=random\n",
    ] {
        out.push(job.into());
    }
    out
}

pub fn fio(input: &[u8]) -> u64 {
    match plumb_load::fio::import(&String::from_utf8_lossy(input)) {
        Err(e) => kind(&e.to_string()),
        Ok(made) => made.cells.iter().map(checked).fold(made.unknown.len().min(3) as u64, u64::wrapping_add),
    }
}

pub fn results() -> Vec<Vec<u8>> {
    let mut out = files("tests/golden", "p.json");
    out.extend(files("tests/golden", "x.json"));
    out
}

pub fn result(input: &[u8]) -> u64 {
    match serde_json::from_slice::<RunResult>(input) {
        Err(e) => kind(&e.to_string()),
        Ok(result) => {
            let _ = plumb_model::sum(result.processes.iter());
            let _ = escape::all(&result);
            1
        }
    }
}

pub fn documents() -> Vec<Vec<u8>> {
    let empty = plumb_report::run::empty("run", "dd", "");
    let mut out = files("tests/golden/report", "sync.json");
    out.extend(files("tests/golden/report", "pipe.json"));
    let mut text = Vec::new();
    plumb_report::document_files::write_json(&empty, &mut text).expect("memory");
    out.push(text);
    out
}

pub fn document(input: &[u8]) -> u64 {
    match upgrade::parse(input) {
        Err(e) => kind(&format!("{e:#}")),
        Ok(document) => {
            let mut out = Vec::new();
            plumb_report::document_files::write_json(&document, &mut out).expect("memory");
            let again = upgrade::parse(&out).expect("what is written can be read");
            // A number that is none (NaN) is not equal to itself, but is written as the same text.
            let mut second = Vec::new();
            plumb_report::document_files::write_json(&again, &mut second).expect("memory");
            assert_eq!(out, second, "it reads as it was written");
            1
        }
    }
}

pub fn journals() -> Vec<Vec<u8>> {
    let text = r#"{"number":1,"change":"began","boot":"b","pid":7,"utc":"2026-01-01T00:00:00Z"}
{"number":2,"change":"disk","name":"d"}
{"number":3,"change":"mount","point":"/mnt/a","device":"/dev/loop0","disk":"d"}
{"number":4,"change":"write","path":"/proc/sys/vm/dirty_ratio","old":"20","new":"5","instead":null}
{"took":4,"value":"5"}
{"number":5,"change":"queue","dir":"/sys/block/loop0/queue","values":{"scheduler":"none","nr_requests":"64"}}
{"number":6,"change":"limit","path":"/sys/fs/cgroup/a/io.max","device":"7:0","before":"rbps=max wbps=1 riops=max wiops=max"}
{"number":7,"change":"processes","group":1234567,"start":99}
{"number":8,"change":"write","path":"/proc/sys/vm/dirty_bytes","old":"0","new":"1","instead":["/proc/sys/vm/dirty_ratio","20"]}
{"number":9,"change":"controller","path":"/sys/fs/cgroup/cgroup.subtree_control","name":"io"}
{"number":10,"change":"formatted","device":"/dev/loop0","kind":"ext4"}
{"done":9}
{"done":2}
"#;
    vec![text.into(), text.lines().take(4).flat_map(|l| [l, "\n"]).collect::<String>().into_bytes()]
}

/// Reads a journal. It is never obeyed: that would change this machine.
pub fn journal(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        scratch.write(JOURNAL, input);
        match open_in(scratch.path()) {
            Err(e) => kind(&format!("{e:#}")),
            Ok(open) => {
                let foreign = open.iter().filter(|o| o.change.is_foreign(&NoDevices).is_some()).count();
                let _ = plumb_undo::pending_changes::Standing::of(scratch.path(), &NoDevices);
                // Opened to be continued: it cuts off half a line, and undoes nothing by itself.
                let journal = plumb_undo::journal::Journal::open(scratch.path(), &NoDevices);
                assert_eq!(
                    journal.map(|j| j.open_changes().to_vec()).ok(),
                    Some(open.clone()),
                    "both readers agree"
                );
                (open.len() * 100 + foreign) as u64
            }
        }
    })
}

pub fn metadata() -> Vec<Vec<u8>> {
    let all = crate::elements::traces();
    all.iter().take(4).filter_map(|dir| fs::read(dir.join("metadata")).ok()).collect()
}

pub fn read_metadata(input: &[u8]) -> u64 {
    match Metadata::decode(&String::from_utf8_lossy(input)) {
        Err(e) => kind(&e),
        Ok(metadata) => {
            let env = &metadata.env;
            let _ = (plumb_analysis::setup::sample_clock(env), plumb_analysis::setup::everyone(env));
            env.len() as u64
        }
    }
}

pub fn names() -> Vec<Vec<u8>> {
    vec![
        b"a\x1b]0;x\x07\n\xe2\x80\xaecba\xe2\x81\xa9\x7f".to_vec(),
        "größe 名前 🙂 é\r\n\u{200b}\u{feff}\u{ad}\u{9b}2J\n".into(),
    ]
}

/// What reaches a terminal: nothing in it acts.
pub fn plain(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let (name, lines) = (escape::name(&text), escape::lines(&text));
    assert!(!name.chars().any(char::is_control), "a control in a name");
    assert!(!lines.chars().any(|c| c.is_control() && c != '\n'), "a control in text");
    for acts in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{2028}'] {
        assert!(!name.contains(acts) && !lines.contains(acts), "{acts:?} is shown as it is");
    }
    assert_eq!(escape::name(&name), name, "what is plain stays as it is");
    (name.len() - text.len()).min(64) as u64
}
