// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of the Common Trace Format 1.8: packet head and metadata.
//!
//! Source: "Common Trace Format (CTF) Specification", version 1.8.3. Readers
//! in use: babeltrace2 and Trace Compass.

mod metadata;
mod packet;

pub use metadata::Metadata;
pub use packet::{PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU, STREAM_LOAD, STREAM_STATE};
