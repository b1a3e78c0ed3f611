// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment that a result was made in.

mod block;
#[cfg(test)]
mod fake;
mod mount;
mod root;
mod time;

pub use block::{Block, DeviceNumber};
#[cfg(test)]
pub(crate) use fake::Fake;
pub(crate) use mount::btrfs;
pub use mount::{devices_under, mount_of, mounts, mounts_everywhere, Mount};
pub(crate) use root::unescape;
pub use root::Root;
pub use time::utc;
