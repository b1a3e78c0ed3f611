// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb watch` kept of a day, as a run of a lake: its windows by one kernel and one version of plumb.

use crate::table::{windows, Cell, Identity, Sink, RUNS};
use anyhow::{Context, Result};
use plumb_machine::utc_of;
use serde_json::Value;
use std::path::Path;

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Windows of a day.
#[derive(Debug)]
pub struct Day {
    pub of: Identity,
    lines: String,
    seconds: f64,
    events: f64,
    lost: u64,
}

impl Day {
    /// Those of a file of a watch; and how many windows do not say of which machine they are.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn all(path: &Path) -> Result<(Vec<Self>, u64)> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let (mut days, mut nameless): (Vec<Self>, u64) = (Vec::new(), 0);
        for line in text.lines() {
            // The file's first line is its format, and its last one may be in the writing.
            let Ok(window) = serde_json::from_str::<Value>(line) else { continue };
            if window["at"].is_null() {
                continue;
            }
            let word = |key: &str| window[key].as_str().unwrap_or_default().to_owned();
            let [host, machine_id, kernel, plumb] = ["host", "machine_id", "kernel", "plumb"].map(word);
            let Some(realtime) = window["began_unix_ns"].as_u64().filter(|at| *at != 0 && !host.is_empty())
            else {
                nameless += 1;
                continue;
            };
            let same = |d: &&mut Self| d.of.host == host && d.of.kernel == kernel && d.of.plumb == plumb;
            let day = match days.iter_mut().find(same) {
                Some(day) => day,
                None => {
                    // Machines may share a name, and copies of a disk a machine-id, which rules may hold back.
                    let (date, machine) = (utc_of(realtime / 1_000_000_000), hash(&machine_id));
                    let run_id = format!("{host}-{machine:08x}-watch-{}-{kernel}-{plumb}", &date[..10]);
                    let of = Identity { run_id, host, machine_id, kernel, plumb, realtime };
                    days.push(Self { of, lines: String::new(), seconds: 0.0, events: 0.0, lost: 0 });
                    days.last_mut().context("it was pushed")?
                }
            };
            let seconds = window["seconds"].as_f64().unwrap_or(0.0);
            day.seconds += seconds;
            day.events += seconds * window["events"].as_f64().unwrap_or(0.0);
            day.lost += window["lost"].as_u64().unwrap_or(0);
            day.lines += line;
            day.lines.push('\n');
        }
        Ok((days, nameless))
    }

    /// Bytes of its windows.
    pub fn size(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Hands its rows to a sink: the windows, and one of `runs`.
    pub fn fill(&self, run: &str, sink: &mut dyn Sink) {
        let of = &self.of;
        let began = of.began();
        let day = format!("windows of {}", began.get(..10).unwrap_or_default());
        let cells = RUNS.columns.iter().map(|column| match column.name {
            "run" => Cell::from(run),
            "run_id" => Cell::from(of.run_id.as_str()),
            "host" => Cell::from(of.host.as_str()),
            "machine_id" => Cell::from(Some(of.machine_id.as_str()).filter(|id| !id.is_empty())),
            "began" => Cell::from(began.as_str()),
            "began_unix_ns" => Cell::from(of.known()),
            "length_ns" => Cell::from((self.seconds * 1e9) as u64),
            "kernel" => Cell::from(of.kernel.as_str()),
            "plumb" => Cell::from(of.plumb.as_str()),
            "target_kind" => Cell::from("watch"),
            "target" => Cell::from(day.as_str()),
            "events" => Cell::from(self.events as u64),
            "lost" => Cell::from(self.lost),
            _ => Cell::None,
        });
        sink.row(&RUNS, &cells.collect::<Vec<_>>());
        windows(run, &self.lines, sink);
    }
}
