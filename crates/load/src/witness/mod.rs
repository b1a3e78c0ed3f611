// SPDX-License-Identifier: Apache-2.0 OR MIT
//! To come.
use serde::Serialize;
/// Stub.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnTimes {
    /// Stub.
    pub user_ns: u64,
    /// Stub.
    pub system_ns: u64,
    /// Stub.
    pub run_queue_ns: u64,
    /// Stub.
    pub voluntary_switches: u64,
    /// Stub.
    pub involuntary_switches: u64,
}
/// Stub.
pub fn own_times() -> OwnTimes {
    OwnTimes::default()
}
/// Stub.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Evidence {}
/// Stub.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Attribution {}
/// Stub.
#[derive(Debug)]
pub struct Witness;
impl Witness {
    /// Stub.
    pub fn begin(_: &[u32], _: &[libc::dev_t]) -> Self {
        Witness
    }
    /// Stub.
    pub fn end(self) -> Evidence {
        Evidence {}
    }
}
