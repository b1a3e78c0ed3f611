// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The namespaces that this process is in, where they change what the kernel's events mean to it.

use crate::Root;
use std::path::Path;

/// Inode of the first PID namespace: PROC_PID_INIT_INO, include/linux/proc_ns.h.
const FIRST_PID: u32 = 0xEFFF_FFFC;

fn inode(root: &Root, name: &str) -> Option<u32> {
    let link = std::fs::read_link(root.path(format!("/proc/self/ns/{name}"))).ok()?;
    let text = link.to_str()?;
    text.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// The PID namespace of this process where it is not the first, in which ids are the kernel's own.
pub fn pid_namespace(root: &Root) -> Option<u32> {
    inode(root, "pid").filter(|inode| *inode != FIRST_PID)
}

/// Whether /proc has the ids of this process's namespace: it may have been mounted in another.
pub fn proc_is_own(root: &Root) -> bool {
    let own = std::fs::read_link(root.path("/proc/self")).ok();
    own.is_some_and(|link| link == Path::new(&std::process::id().to_string()))
}

/// How far CLOCK_MONOTONIC is ahead of the kernel's here, ns: a time namespace's offset, time_namespaces(7).
pub fn monotonic_ahead(root: &Root) -> i64 {
    // It tells of the namespace that children get: this process's own, but between unshare(2) and fork(2).
    let text = root.text("/proc/self/timens_offsets").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("monotonic"));
    let mut numbers = line.unwrap_or_default().split_whitespace().map(|n| n.parse::<i64>().unwrap_or(0));
    let (seconds, ns) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fake;

    #[test]
    fn a_time_namespace_has_its_offset() {
        let fake = Fake::new();
        assert_eq!(monotonic_ahead(&fake.root()), 0);
        fake.put(
            "/proc/self/timens_offsets",
            "monotonic           7         5\nboottime            0         0\n",
        );
        assert_eq!(monotonic_ahead(&fake.root()), 7_000_000_005);
        fake.put("/proc/self/timens_offsets", "monotonic          -1 500000000\nboottime 0 0\n");
        assert_eq!(monotonic_ahead(&fake.root()), -500_000_000);
    }
}
