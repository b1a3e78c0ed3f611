// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block requests over events made by hand.

mod common;

use common::{Bench, SHELL, SLEEPS};
use plumb_trace::schema::{BlockRqComplete, BlockRqIssue};

const DEV: u32 = 8 << 20;

fn issue(rq: u64, sector: u64) -> BlockRqIssue {
    BlockRqIssue { dev: DEV, rq, bio: rq + sector, sector, len: 4096, ..Default::default() }
}

fn complete(rq: u64, sector: u64) -> BlockRqComplete {
    BlockRqComplete { dev: DEV, rq, sector, len: 4096, ..Default::default() }
}

#[test]
fn a_disk_is_not_used_for_ever_by_a_request_whose_end_was_not_seen() {
    let mut b = Bench::command();
    // The end of the first is not seen; its slot serves the second.
    b.at(10_000, SHELL, issue(1, 0)).at(20_000, SHELL, issue(1, 64)).at(25_000, SHELL, complete(1, 64));
    b.at(50_000, SHELL, issue(1, 128)).at(53_000, SHELL, complete(1, 128));
    b.leaves(54_000, SHELL, SLEEPS);
    let result = b.finish();
    let shell = result.processes.iter().find(|p| p.pid == SHELL).expect("the process");
    assert_eq!((shell.usage.accesses, shell.usage.disk_used), (2, 10_000 + 5_000 + 3_000));
}
