// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every target: what it reads, its seeds, how they are mutated. Seeds are files of the repository.

mod code;
mod lake;
mod net;
mod text;
mod trace;

use crate::elements;
use crate::mutate::{self, Random};

pub struct Target {
    pub name: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub mutate: fn(&mut Vec<u8>, &[u8], &mut Random),
    /// What the minimizer leaves out one by one.
    pub parts: fn(&[u8]) -> Vec<Vec<u8>>,
    /// Reads an input; the number says how it was read.
    pub read: fn(&[u8]) -> u64,
    /// Mutants of the fixed count: about 40 s for all targets together.
    pub count: u32,
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "trace",
        seeds: trace::files,
        mutate: trace::spoil,
        parts: elements::parts,
        read: trace::read,
        count: 4000,
    },
    Target {
        name: "state",
        seeds: trace::states,
        mutate: trace::spoil_state,
        parts: elements::parts,
        read: trace::analyze,
        count: 4000,
    },
    Target {
        name: "model",
        seeds: trace::windows,
        mutate: elements::mutate,
        parts: elements::parts,
        read: trace::analyze,
        count: 4000,
    },
    Target {
        name: "hosts",
        seeds: trace::windows,
        mutate: elements::mutate,
        parts: elements::parts,
        read: trace::hosts,
        count: 2000,
    },
    Target {
        name: "views",
        seeds: trace::windows,
        mutate: elements::mutate,
        parts: elements::parts,
        read: trace::view,
        count: 3000,
    },
    Target {
        name: "report",
        seeds: trace::windows,
        mutate: elements::mutate,
        parts: elements::parts,
        read: trace::report,
        count: 1000,
    },
    Target {
        name: "whatif",
        seeds: trace::windows,
        mutate: elements::mutate,
        parts: elements::parts,
        read: trace::again,
        count: 1500,
    },
    text("plan", text::plans, text::plan, 20000),
    text("job", text::jobs, text::job, 20000),
    text("fio", text::fio_jobs, text::fio, 20000),
    text("result", text::results, text::result, 2000),
    text("document", text::documents, text::document, 1500),
    text("journal", text::journals, text::journal, 10000),
    text("metadata", text::metadata, text::read_metadata, 5000),
    text("plain", text::names, text::plain, 20000),
    Target {
        name: "stacks",
        seeds: code::stacks,
        mutate: mutate::bytes,
        parts: bytes,
        read: code::stack,
        count: 60000,
    },
    Target {
        name: "names",
        seeds: code::names,
        mutate: mutate::bytes,
        parts: bytes,
        read: code::name,
        count: 60000,
    },
    Target {
        name: "frames",
        seeds: net::frames,
        mutate: mutate::bytes,
        parts: bytes,
        read: net::read,
        count: 60000,
    },
    Target {
        name: "parquet",
        seeds: lake::files,
        mutate: mutate::bytes,
        parts: bytes,
        read: lake::read,
        count: 10000,
    },
];

const fn text(name: &'static str, seeds: fn() -> Vec<Vec<u8>>, read: fn(&[u8]) -> u64, count: u32) -> Target {
    Target { name, seeds, mutate: mutate::text, parts: lines, read, count }
}

fn lines(input: &[u8]) -> Vec<Vec<u8>> {
    input.split_inclusive(|b| *b == b'\n' || *b == b',').map(<[u8]>::to_vec).collect()
}

fn bytes(input: &[u8]) -> Vec<Vec<u8>> {
    input.iter().map(|b| vec![*b]).collect()
}

/// How a text was refused: the first words of the reason, without names and figures, which differ from one input to
/// the next.
fn kind(said: &str) -> u64 {
    let words = said.split_whitespace().filter(|w| w.bytes().all(|b| b.is_ascii_alphabetic()));
    crate::driver_hash(words.take(5).collect::<Vec<_>>().join(" ").as_bytes())
}
