// SPDX-License-Identifier: Apache-2.0 OR MIT
//! shares.c in Rust, without any crate.

use std::hint::black_box;
use std::os::raw::{c_int, c_long};

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

const PROCESS: c_int = 2;
const THREAD: c_int = 3;
const ROUND: u64 = 100_000_000;

fn cpu(clock: c_int) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: time is valid for writing.
    unsafe { clock_gettime(clock, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

macro_rules! work {
    ($name:ident, $factor:literal) => {
        #[inline(never)]
        fn $name(until: u64, sink: &mut u64) -> u64 {
            loop {
                for _ in 0..40_000 {
                    *sink = black_box(sink.wrapping_mul($factor).wrapping_add(1));
                }
                let now = cpu(THREAD);
                if now >= until {
                    return now;
                }
            }
        }
    };
}

work!(heavy, 6364136223846793005);
work!(medium, 2862933555777941757);
work!(light, 3202034522624059733);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seconds: f64 = args[1].parse().expect("seconds");
    let (mut spent, mut due, mut sink) = ([0; 3], [0; 3], 1);
    let mut now = cpu(THREAD);
    for _ in 0..(seconds * 1e9 / ROUND as f64) as u64 {
        let work: [(fn(u64, &mut u64) -> u64, u64); 3] = [(heavy, 70), (medium, 20), (light, 10)];
        for (i, (work, share)) in work.into_iter().enumerate() {
            let begin = now;
            due[i] += ROUND * share / 100;
            now = work(begin + due[i] - spent[i], &mut sink);
            spent[i] += now - begin;
        }
    }
    let [heavy, medium, light] = spent;
    let truth = format!("heavy {heavy}\nmedium {medium}\nlight {light}\nall {}\n", cpu(PROCESS));
    std::fs::write(&args[2], truth).expect("truth");
}
