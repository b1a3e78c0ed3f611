// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads whose answer is known, for the tests that hold plumb against them.
//!
//! workload direct-writes N PATH | write-fsync N PATH | getppid N |
//!          spin MILLISECONDS | hogs N MILLISECONDS | sleep MILLISECONDS

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

#[repr(align(4096))]
struct Block([u8; 4096]);

fn spin(ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        std::hint::black_box(0);
    }
}

/// Prints what the kernel says of this process: CPU time and wait for a CPU, ns.
fn schedstat() {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    println!("schedstat {} {}", std::process::id(), text.trim());
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<u64>().expect("a number");
    match args[1].as_str() {
        "direct-writes" => {
            let file = File::options().write(true).custom_flags(libc::O_DIRECT).open(&args[3]).expect("open");
            let block = Box::new(Block([7; 4096]));
            for i in 0..number(2) {
                file.write_all_at(&block.0, i * 65536).expect("write");
            }
        }
        "write-fsync" => {
            let mut file = File::create(&args[3]).expect("create");
            for _ in 0..number(2) {
                file.write_all(&[7; 4096]).expect("write");
                file.sync_all().expect("fsync");
            }
            file.rewind().expect("seek");
        }
        "getppid" => {
            for _ in 0..number(2) {
                // SAFETY: a call without arguments.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
        }
        "sleep" => std::thread::sleep(Duration::from_millis(number(2))),
        "spin" => {
            spin(number(2));
            schedstat();
        }
        "hogs" => {
            let me = std::env::current_exe().expect("own path");
            let spawn = |_| std::process::Command::new(&me).args(["spin", &args[3]]).spawn().expect("spawn");
            for mut child in (0..number(2)).map(spawn).collect::<Vec<_>>() {
                child.wait().expect("wait");
            }
        }
        other => panic!("no load '{other}'"),
    }
}
