// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated job asks for what `plumb load` asks for.

use super::ledger::Ledger;
use super::*;
use plumb_load::buffers::Buffers;
use plumb_load::worker::{Source, Who};

#[test]
fn operations_are_those_of_the_load_engine() {
    for order in [Order::Random, Order::Zipf, Order::Strided, Order::RandomOnce, Order::Backwards] {
        let job = Job {
            what: What::Mix,
            mix: 30,
            order,
            offset: Bytes(1 << 20),
            size: Bytes(64 << 20),
            operations: Some(500),
            ..Job::default()
        };
        let who = Who { seat: 0, job: 0, worker: 0, first_file: 0 };
        let mut source = Source::new(&job, who, 1, None, Buffers::new(1, 4096).expect("memory"), 0);
        let settings = settings(1);
        let mut ledger = Ledger::new(settings);
        let jobs = [(job, Class::BestEffort)];
        watched(fixed(1, MS), Kind::Noop, settings, &jobs, &mut ledger).expect("an end");
        assert_eq!(ledger.ops.len(), 500);
        for (op, _) in &ledger.ops {
            let (wanted, _) = source.next(0);
            assert_eq!((op.kind, op.offset, op.length), (wanted.kind, wanted.offset, u64::from(wanted.len)));
        }
    }
}
