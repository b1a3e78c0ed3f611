// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model itself costs: `cargo test --release -p plumb-sim hdd::tests::speed -- --ignored --nocapture`.

use super::*;
use plumb_stats::random::SplitMix64;

/// CPU time of this thread, ns: other programs run beside it.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which writes nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
#[ignore = "measures; in a release build"]
fn cost_of_a_request() {
    for (name, depth, sequential) in
        [("atlas10k4", 1, false), ("atlas10k4", 1, true), ("hdp72503", 1, false), ("hdp72503", 32, false)]
    {
        let mut disk = device(name, 1);
        let blocks = disk.size() / 4096;
        let (mut random, mut ended) = (SplitMix64::new(1), Vec::new());
        let count = 1_000_000;
        let mut place = |i: u64| if sequential { i % blocks } else { random.below(blocks) } * 4096;
        let start = cpu_time();
        for i in 0..depth {
            disk.submit(0, read(i, place(i), 4096));
        }
        let mut next = depth;
        while let Some(now) = disk.next_event().filter(|_| next < count) {
            disk.advance(now, &mut ended);
            for _ in ended.drain(..) {
                disk.submit(now, read(next, place(next), 4096));
                next += 1;
            }
        }
        let each = (cpu_time() - start) as f64 / count as f64;
        println!("{name} depth {depth} sequential {sequential}: {each:.0} ns of CPU time a request");
    }
}
