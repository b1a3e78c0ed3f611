// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Foreground and background I/O of a few disks, counted apart as it happens (bpf/classes.bpf.c). The programs only
//! count; who wants to know looks into memory that they share with the kernel.

use anyhow::{bail, Context, Result};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, PrintLevel};
use skel::types;
use std::mem::MaybeUninit;

#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/classes.skel.rs"));
}

/// Disks that can be looked at at once.
pub const DEVICES: usize = 16;
/// Buckets of the histogram of device service times.
pub const BUCKETS: usize = 128;
/// Shift of the lowest bucket, see [`bucket_begins`].
const LOWEST: u32 = 8;
/// A class that is not counted.
const NONE: u32 = 3;

/// Whose I/O it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Somebody's whom others must not disturb.
    Normal = 0,
    Low = 1,
    /// Writes of the root group that nobody waits for, or of a file system's metadata: what the kernel's threads
    /// write back and commit for everybody. On cgroup v1 that is all write-back.
    Writeback = 2,
}

/// What is fixed before the programs are loaded.
#[derive(Debug, Clone, Default)]
pub struct Knobs {
    /// Whole disks, numbered as the kernel does inside: major << 20 | minor.
    pub devices: Vec<u32>,
    /// What is in no group that has a class is normal; else it is not counted.
    pub others_normal: bool,
    /// Longest device service time, ns, above which a request is late; 0: none is.
    pub target: u64,
}

/// What has happened on a disk in a class since the programs were loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    pub queued: u64,
    /// When one came, or a request was sent or done; CLOCK_MONOTONIC, ns; 0: never.
    pub last: u64,
    /// Requests that the device has.
    pub in_flight: u64,
    pub done: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their device service times, ns.
    pub took: u64,
    /// Those that had no background request concurrent with them, and those that had one.
    pub requests: [u64; 2],
    /// Those of them that were late.
    pub late: [u64; 2],
    /// Those whose time lies between [`bucket_begins`] of a number and of the next one.
    pub buckets: [u64; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            queued: 0,
            last: 0,
            in_flight: 0,
            done: 0,
            bytes: 0,
            took: 0,
            requests: [0; 2],
            late: [0; 2],
            buckets: [0; BUCKETS],
        }
    }
}

/// Where a bucket of the histogram begins, ns; four to a doubling.
pub fn bucket_begins(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket as u32 / 4, bucket as u64 % 4);
    if bucket == 0 {
        return 0;
    }
    (4 + quarter) << (octave + LOWEST - 2)
}

/// The programs, loaded; they run from [`Classes::attach`] until this is dropped.
pub struct Classes<'obj> {
    skel: skel::ClassesSkel<'obj>,
    links: Vec<Link>,
    devices: usize,
}

impl<'obj> Classes<'obj> {
    /// Loads the programs.
    ///
    /// # Errors
    /// No permission, no BTF, or a kernel that refuses a program.
    pub fn load(object: &'obj mut MaybeUninit<OpenObject>, knobs: &Knobs) -> Result<Self> {
        if knobs.devices.len() > DEVICES {
            bail!("{} disks: at most {DEVICES} can be looked at at once", knobs.devices.len());
        }
        if std::env::var_os("PLUMB_LIBBPF_LOG").is_none() {
            libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
        }
        let refused = |e: libbpf_rs::Error| {
            anyhow::anyhow!("the kernel rejected the BPF programs ({e}); 'plumb check' shows what is missing")
        };
        let mut open = skel::ClassesSkelBuilder::default().open(object).map_err(refused)?;
        let data = open.maps.rodata_knobs_data.as_deref_mut().context("BPF object without knobs")?;
        let k = &mut data.class_knobs;
        k.devices = knobs.devices.len() as u32;
        k.device[..knobs.devices.len()].copy_from_slice(&knobs.devices);
        k.others = if knobs.others_normal { Class::Normal as u32 } else { NONE };
        k.target = knobs.target;
        let skel = open.load().map_err(refused)?;
        Ok(Self { skel, links: Vec::new(), devices: knobs.devices.len() })
    }

    /// From now on a cgroup (by the inode of its directory) and all below it are of a class.
    ///
    /// # Errors
    /// There are too many.
    pub fn set(&mut self, cgroup: u64, class: Class) -> Result<()> {
        let value = (class as u32).to_ne_bytes();
        self.skel
            .maps
            .classes
            .update(&cgroup.to_ne_bytes(), &value, MapFlags::ANY)
            .context("more than 256 cgroups with a class")
    }

    /// A cgroup that is gone has no class any more: its place is another's.
    pub fn forget(&mut self, cgroup: u64) {
        // It may never have had one.
        let _ = self.skel.maps.classes.delete(&cgroup.to_ne_bytes());
    }

    /// Begins to count. What the devices have already is not seen.
    ///
    /// # Errors
    /// The kernel refuses to attach.
    pub fn attach(&mut self) -> Result<()> {
        // Ends first: a request that is seen to be sent is then seen to end.
        let mut progs: Vec<_> = self.skel.object().progs_mut().collect();
        progs.sort_by_key(|p| !p.name().to_string_lossy().ends_with("_complete"));
        for prog in progs {
            let link = prog
                .attach()
                .with_context(|| format!("attach {}; run as root", prog.name().to_string_lossy()))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// What has happened on a disk, numbered as in [`Knobs::devices`], in a class.
    pub fn counts(&self, device: usize, class: Class) -> Counts {
        let all = match self.skel.maps.data_counts_data.as_deref() {
            Some(data) if device < self.devices => &data.counts[device],
            _ => return Counts::default(),
        };
        let place = &raw const all.of[class as usize];
        // SAFETY: the memory is mapped as long as the skeleton lives, and holds plain numbers that the kernel
        // changes meanwhile; read in one go, so that nothing is assumed to stay.
        let c: types::class_counts = unsafe { std::ptr::read_volatile(place) };
        Counts {
            queued: c.queued,
            last: c.last,
            in_flight: c.sent.saturating_sub(c.done),
            done: c.requests[0] + c.requests[1],
            bytes: c.bytes,
            took: c.took,
            requests: c.requests,
            late: c.late,
            buckets: c.buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        assert_eq!(bucket_begins(0), 0);
        assert_eq!([1, 2, 3, 4, 5, 8].map(bucket_begins), [320, 384, 448, 512, 640, 1024]);
        for b in 1..BUCKETS {
            let (here, before) = (bucket_begins(b), bucket_begins(b - 1));
            assert!(here > before, "{b}");
        }
    }
}
