// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reader and model on arbitrary streams: no panic, and time is conserved.
//!
//! `cargo +nightly fuzz run read_trace` (cargo install cargo-fuzz). The first
//! byte says how the rest is shared between two CPUs, state, waits and a workload's thread.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plumb_model::{Model, Setup};
use plumb_trace::ctf::Metadata;
use plumb_trace::reader::Trace;

fuzz_target!(|data: &[u8]| {
    let Some((share, rest)) = data.split_first() else { return };
    let dir = tempfile::tempdir().expect("directory");
    std::fs::write(dir.path().join("metadata"), Metadata::default().encode()).expect("metadata");
    let cut = rest.len() * usize::from(share & 15) / 16;
    let (first, second) = rest.split_at(cut);
    std::fs::write(dir.path().join("cpu_0"), first).expect("stream");
    let name = ["cpu_1", "state", "waits", "load_1_0"][usize::from(share >> 4) % 4];
    std::fs::write(dir.path().join(name), second).expect("stream");
    let Ok(trace) = Trace::open(dir.path()) else { return };
    let (begin, end) = trace.state.end.as_ref().map_or((0, u64::MAX), |e| (e.begin, e.end));
    let setup = Setup { begin, end, everyone: share & 1 == 1, state: trace.state.clone(), ..Default::default() };
    let mut model = Model::new(setup, ());
    let _ = trace.for_each(|item| model.feed(item));
    let (result, ()) = model.finish();
    for p in &result.processes {
        assert_eq!(p.account.values().sum::<u64>(), p.thread_time);
        for o in &p.operations {
            assert!(o.overlapping || o.account.values().sum::<u64>() == o.total);
        }
    }
});
