// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask fuzz` calls this: long runs, and one input again.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str = "plumb-fuzz --seconds N [TARGET...]   mutate for N seconds, shared among the targets
plumb-fuzz run TARGET FILE             one input again
plumb-fuzz list                        names of the targets";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let known = |name: &&str| plumb_fuzz::TARGETS.iter().any(|t| t.name == *name);
    let passed = match args.as_slice() {
        ["list"] => {
            plumb_fuzz::TARGETS.iter().for_each(|t| println!("{}", t.name));
            true
        }
        ["run", target, file] if known(target) => plumb_fuzz::reproduce(target, Path::new(file)),
        ["--seconds", seconds, names @ ..] if names.iter().all(known) && seconds.parse::<f64>().is_ok() => {
            let time = Duration::try_from_secs_f64(seconds.parse().unwrap_or(0.0)).unwrap_or_default();
            let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
            plumb_fuzz::long(time, seed, names)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
