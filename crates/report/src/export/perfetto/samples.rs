// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples, with stacks whose parts are written once.

use super::packets::{Packets, Sequence};
use super::proto::{
    self, Callstack, Data, Frame, InternedData, InternedString, Mapping, PerfSample, TracePacket,
};
use crate::stream::SampleRow;
use plumb_model::profile::Resolver;
use std::collections::{HashMap, HashSet};
use std::io::Write;

const KERNEL: i32 = 1;
const USER: i32 = 2;

/// What of stacks was written.
#[derive(Debug, Default)]
pub struct Samples {
    stacks: HashSet<u32>,
    functions: HashSet<u32>,
    modules: HashSet<u32>,
    files: HashMap<String, u64>,
    /// Function, address, place of the line.
    frames: HashMap<(u32, u64, u32), u64>,
    pub count: u64,
    /// Of those, with a stack.
    pub with_stack: u64,
}

/// Places count from 0, what is interned from 1.
fn iid(place: u32) -> u64 {
    u64::from(place) + 1
}

impl Samples {
    /// Writes a sample that was taken at `ts`, ns.
    pub fn sample<W: Write>(
        &mut self,
        ts: u64,
        row: &SampleRow,
        stacks: &mut Resolver<'_>,
        out: &mut Packets<W>,
    ) {
        let place = stacks.sample(row.kernel, row.user);
        let mut new = InternedData::default();
        let some = !stacks.frames_at(place).is_empty();
        if some && self.stacks.insert(place) {
            self.intern(place, stacks, &mut new);
        }
        self.count += 1;
        self.with_stack += u64::from(some);
        let sample = PerfSample {
            cpu: Some(row.cpu),
            pid: row.pid,
            tid: row.tid,
            cpu_mode: if row.kernel == 0 { USER } else { KERNEL },
            callstack_iid: some.then(|| iid(place)),
        };
        out.whole(TracePacket {
            timestamp: Some(ts),
            trusted_packet_sequence_id: Some(Sequence::Samples as u32),
            sequence_flags: Some(proto::NEEDS_INCREMENTAL_STATE),
            interned_data: (new != InternedData::default()).then(|| Box::new(new)),
            data: Some(Data::PerfSample(sample)),
            ..TracePacket::default()
        });
    }

    fn intern(&mut self, place: u32, stacks: &Resolver<'_>, new: &mut InternedData) {
        let mut frame_ids = Vec::new();
        for frame in stacks.frames_at(place).iter().rev() {
            let key = (frame.function, frame.address, frame.line);
            if let Some(known) = self.frames.get(&key) {
                frame_ids.push(*known);
                continue;
            }
            let Some(function) = stacks.function_at(frame.function) else { continue };
            if self.functions.insert(frame.function) {
                let str = function.name.clone().into_bytes();
                new.function_names.push(InternedString { iid: iid(frame.function), str });
            }
            if self.modules.insert(function.module) {
                let number = iid(function.module);
                let module = stacks.module_at(function.module).cloned().unwrap_or_default();
                // Parts of a path are joined with a slash before each; the kernel becomes /kernel, as
                // Perfetto's own profiler calls it.
                let path = module.path.trim_start_matches('/').to_string();
                new.mapping_paths.push(InternedString { iid: number, str: path.into_bytes() });
                let build_id = unhex(&module.build_id);
                let known = !build_id.is_empty();
                if known {
                    new.build_ids.push(InternedString { iid: number, str: build_id });
                }
                let build_id = if known { number } else { 0 };
                new.mappings.push(Mapping { iid: number, build_id, path_string_ids: vec![number] });
            }
            let (source_path_iid, line_number) = self.source(stacks.line_at(frame.line), new);
            let frame_iid = self.frames.len() as u64 + 1;
            self.frames.insert(key, frame_iid);
            new.frames.push(Frame {
                iid: frame_iid,
                function_name_id: iid(frame.function),
                mapping_id: iid(function.module),
                rel_pc: frame.address,
                source_path_iid,
                line_number,
            });
            frame_ids.push(frame_iid);
        }
        new.callstacks.push(Callstack { iid: iid(place), frame_ids });
    }

    /// Number of the file and line of `FILE:LINE`; 0 where it is not known.
    fn source(&mut self, line: &str, new: &mut InternedData) -> (u64, u32) {
        let Some((file, line)) = line.rsplit_once(':') else { return (0, 0) };
        let Ok(line) = line.parse() else { return (0, 0) };
        let next = self.files.len() as u64 + 1;
        let number = *self.files.entry(file.into()).or_insert_with(|| {
            new.source_paths.push(InternedString { iid: next, str: file.as_bytes().to_vec() });
            next
        });
        (number, line)
    }
}

/// Bytes of a build id that is told in hex; none where it is not one.
fn unhex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks_exact(2).map(byte).collect::<Option<Vec<u8>>>().unwrap_or_default()
}
