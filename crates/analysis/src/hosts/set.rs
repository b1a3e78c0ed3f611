// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of recordings, read from its directories: what limits each, and the requests between them.

use super::{read, Hosts, Recording};
use crate::{open, setup, Analysis, NOT_VALID};
use anyhow::{Context, Result};
use plumb_trace::reader::Trace;
use std::path::PathBuf;

/// Of rows that a page has: clocks, causes of a part, ends of the time, slow commands.
const CLOCKS: usize = 256;
const CAUSES: usize = 6;
const LEAVES: usize = 12;
const SLOW: usize = 10;

/// Recordings of several hosts, each by itself and all together.
#[derive(Debug)]
pub struct Set {
    /// In the order in which they were given.
    pub members: Vec<Member>,
    pub hosts: Hosts,
}

/// A recording of a set.
#[derive(Debug)]
pub struct Member {
    /// Its directory's name.
    pub name: String,
    /// When it was recorded, in seconds after 1970; 0 not known.
    pub recorded: u64,
    /// One that cannot be read is an error of its own.
    pub analysis: Result<Analysis>,
}

impl Set {
    /// Reads the recordings in these directories; of the processes of some names where those are given.
    pub fn read(dirs: &[PathBuf], comms: &[String]) -> Self {
        let name = |dir: &PathBuf| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let opened: Vec<(String, Result<Trace>)> = dirs.iter().map(|dir| (name(dir), open(dir))).collect();
        let whole = opened.iter().filter_map(|(name, trace)| Some((name.clone(), trace.as_ref().ok()?)));
        let recordings: Vec<_> = whole.map(|(name, trace)| Recording { name, trace }).collect();
        let (analyses, hosts) = read(&recordings, comms);
        let mut analyses = analyses.into_iter();
        let member = |(name, trace): (String, Result<Trace>)| {
            let recorded = trace.as_ref().map_or(0, setup::recorded);
            // There are as many as were opened, in their order.
            let analysis = trace.and_then(|_| analyses.next().context("it was not read")?);
            Member { name, recorded, analysis }
        };
        Self { members: opened.into_iter().map(member).collect(), hosts }
    }

    /// The exit code: a recording that cannot be read is an error, whatever the others are.
    pub fn exit_code(&self) -> u8 {
        let code = |member: &Member| match &member.analysis {
            Ok(analysis) if analysis.quality.valid() => 0,
            Ok(_) => NOT_VALID,
            Err(_) => 2,
        };
        let codes: Vec<u8> = self.members.iter().map(code).collect();
        if codes.contains(&2) {
            2
        } else {
            codes.into_iter().max().unwrap_or(0)
        }
    }
}

/// One trace as a set of one: the services of its machine that send each other requests.
pub fn alone(trace: &Trace, comms: &[String]) -> (Result<Analysis>, Hosts) {
    let name = trace.metadata.env.get("hostname").cloned().unwrap_or_default();
    let (mut analyses, hosts) = read(&[Recording { name, trace }], comms);
    (analyses.remove(0), hosts)
}

impl Hosts {
    /// As much of it as a page has; [`read`] bounds the rows of requests and commands.
    pub fn bounded(mut self) -> Self {
        self.clocks.truncate(CLOCKS);
        self.steering.truncate(CLOCKS);
        for row in &mut self.requests {
            row.parts.iter_mut().for_each(|part| part.causes.truncate(CAUSES));
            row.followed.truncate(LEAVES);
        }
        self.commands.iter_mut().for_each(|row| row.slow.truncate(SLOW));
        self
    }

    /// Neither requests nor commands were followed.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.commands.is_empty()
    }
}
