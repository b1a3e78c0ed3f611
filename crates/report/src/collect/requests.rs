// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of block requests.

use super::keep::Keep;
use super::{unnamed, LaneIndex, Texts};
use crate::document::{RequestKind, Requests};
use crate::pack::Table;
use anyhow::Result;
use plumb_trace::kernel::req;
use std::collections::HashMap;

/// What of a request stands in the table.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub number: u64,
    pub steps: [u64; 6],
    pub dev: u32,
    pub write: bool,
    /// Data went to or from the device.
    pub data: bool,
    pub opf: u32,
    pub len: u32,
    pub sector: u64,
    pub owner: u32,
    pub owner_name: u32,
    pub depth: u32,
}

/// The requests without what is counted of all of them (heat, depth), and their rows by number and one.
pub fn requests<'n>(
    kept: Keep<Asked>,
    lane_of: &LaneIndex,
    disk: &impl Fn(u32) -> String,
    name: &impl Fn(u32) -> Option<&'n String>,
) -> Result<(Requests, HashMap<u64, u64>)> {
    let (mut rows, sampled) = kept.finish("requests");
    rows.sort_unstable_by_key(|(r, _)| (r.steps[0], r.number));
    let (mut devices, mut whos, mut operations) = (Vec::new(), Texts::default(), Vec::new());
    let mut table = Table::new(&[
        "queued",
        "q2g",
        "g2f",
        "f2i",
        "i2d",
        "d2c",
        "device",
        "write",
        "flags",
        "bytes",
        "sector",
        "owner",
        "owner_name",
        "depth",
        "operation",
        "slow",
    ]);
    let (mut at, mut numbers) = (0, HashMap::with_capacity(rows.len()));
    for (r, slow) in &rows {
        let [q, _, _, _, _, c] = r.steps;
        let layer = |n: usize| r.steps[n + 1] - r.steps[n];
        let device = devices.iter().position(|d| *d == r.dev).unwrap_or_else(|| {
            devices.push(r.dev);
            devices.len() - 1
        });
        let kind = RequestKind { word: req::word_of(r.opf, r.len).into(), write: r.write, data: r.data };
        let operation = operations.iter().position(|k| *k == kind).unwrap_or_else(|| {
            operations.push(kind);
            operations.len() - 1
        });
        let owner_name = match (r.owner, name(r.owner_name)) {
            (0, _) => 0,
            (_, Some(name)) => whos.place(name),
            (tid, None) => whos.place(&unnamed(tid)),
        };
        table.push(&[
            q - at,
            layer(0),
            layer(1),
            layer(2),
            layer(3),
            layer(4),
            device as u64,
            r.write.into(),
            r.opf.into(),
            r.len.into(),
            // What has no data has no place; the kernel says -1 of a flush.
            if r.len > 0 { r.sector } else { 0 },
            lane_of.at(r.owner, (q, c)),
            owner_name,
            r.depth.into(),
            operation as u64,
            (*slow).into(),
        ]);
        at = q;
        numbers.insert(r.number, table.rows());
    }
    let devices = devices.into_iter().map(disk).collect();
    let table = table.pack()?;
    let (heat, depth) = (Vec::new(), Vec::new());
    Ok((Requests { devices, operations, whos: whos.all, table, sampled, heat, depth }, numbers))
}
