// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Low-priority I/O on kernels as they are: maintenance in a cgroup is limited by the kernel's own throttling
//! during foreground I/O, and unlimited after an idle period of it.
//!
//! Data flows one way: [`watch`] (who used the disk, and when) -> [`policy`] (limited or free, pure) ->
//! [`throttle`] (limits in the files of a [`cgroup`]), all of it turned by [`governor`]; [`account`] adds up what
//! came of it.
//!
//! Apart from that: [`iosched`], settings of the I/O scheduler lp-deadline (kmod/).
//!
//!
//! What is changed is told to a [`throttle::Ledger`] before it is changed.

pub mod account;
pub mod cgroup;
pub mod disks;
pub mod governor;
pub mod iosched;
pub mod policy;
pub mod rate;
pub mod throttle;
pub mod watch;
