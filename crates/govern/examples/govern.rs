// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `govern DEVICE CGROUP SECONDS [DELAY_MS]`: the governor without the program around it, and so without what puts
//! limits back when it is killed.

use anyhow::{Context, Result};
use plumb_govern::cgroup::Controller;
use plumb_govern::disks;
use plumb_govern::governor::Governor;
use plumb_govern::policy::Settings;
use plumb_govern::rate::Rate;
use plumb_govern::throttle::{Ledger, Limit};
use plumb_govern::watch::{Events, Whom};
use plumb_machine::clock::now;
use plumb_machine::Root;
use std::mem::MaybeUninit;

struct Told;

impl Ledger for Told {
    fn will(&mut self, limit: &Limit) -> Result<()> {
        eprintln!("will change {} of {}", limit.path.display(), limit.device);
        Ok(())
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [device, group, seconds] = [1, 2, 3].map(|i| words.get(i).cloned().unwrap_or_default());
    let seconds: u64 = seconds.parse().context("govern DEVICE CGROUP SECONDS [DELAY_MS]")?;
    let delay: u64 = words.get(4).map_or(Ok(5000), |w| w.parse())?;
    let root = Root::real();
    let low = [Controller::find(&root)?.group(&group)?];
    let found = disks::below(&device, &root)?;
    let settings =
        |rotational| Settings { limit: Rate::of_disk(rotational), delay: delay * 1_000_000, steered: false };
    let all: Vec<_> = found.iter().map(|d| (d.clone(), settings(d.rotational))).collect();
    let mut object = MaybeUninit::uninit();
    let whom = Whom { disks: &found, low: &low, normal: &[], target: 0 };
    let events = Events::begin(&mut object, whom)?;
    let mut governor = Governor::begin(events, &all, &low, now(), &mut Told)?;
    let end = now() + seconds * 1_000_000_000;
    while now() < end {
        for (disk, event) in governor.turn(now(), &mut Told)? {
            eprintln!("{} ms: {}: {event:?}", now() / 1_000_000, disk.name);
        }
        std::thread::sleep(governor.nap(now()));
    }
    for outcome in governor.end(now(), &mut Told)? {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    }
    Ok(())
}
