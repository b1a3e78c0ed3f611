// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about the machine, from /proc, /sys and /dev or from a tree that a test wrote in their place,
//! and what a program asks of the kernel about processes and signals.
//!
//! - [`Root`]: where all of it is read from; [`DeviceNumber`], [`Block`], [`mount`], [`cgroup`]: how the
//!   kernel relates devices, file systems and control groups.
//! - [`Environment`]: what a figure depends on, of the parts in [`system`] and [`Device`]; nothing that names
//!   the machine or its user. What cannot be read is None, never a guess.
//! - [`host`]: the machine at the beginning of a recording, as a trace holds it; [`clock`]: its clocks.
//! - [`service`]: the systemd unit or container that a process is in; [`namespaces`]: those of this process, where they change what events mean.
//! - [`process`]: which process is meant, whatever becomes of its number; [`child`]: processes of our own;
//!   [`capabilities`]: which are given up; [`confine`]: one that reads what others wrote; [`output`]: files and directories for results;
//!   [`json`]: documents for programs;
//!   [`signals`]: what SIGINT, SIGTERM and SIGHUP do; [`user`]: numbers of users.

mod block;
mod calendar;
pub mod capabilities;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod confine;
pub mod descriptors;
mod device;
mod device_number;
mod environment;
#[cfg(any(test, feature = "fake"))]
mod fake;
pub mod host;
pub mod json;
pub mod mount;
pub mod namespaces;
mod open_files;
pub mod output;
pub mod process;
mod root;
pub mod service;
pub mod signals;
mod sockets;
mod space;
pub mod system;
pub mod user;

pub use block::Block;
pub use calendar::{utc, utc_of};
pub use device::Device;
pub use device_number::DeviceNumber;
pub use environment::{Difference, Environment, FileSystem};
#[cfg(any(test, feature = "fake"))]
pub use fake::Fake;
pub use mount::{devices_under, mount_of, mounts, mounts_everywhere, mounts_of, Mount};
pub use open_files::{lock, open_files, writer, writer_of, FileUser, LockError};
pub use process::Process;
pub use root::{unescape, Root};
pub use sockets::Sockets;
pub use space::Space;
