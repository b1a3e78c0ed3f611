// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a trace to what the simulator does again.
//!
//! Data flows: trace -> the model's requests -> [`requests`] (what each thread queued, for `plumb sim --from`); and trace -> one pass,
//! [`seen`] -> [`parts`] (what threads did between two waits) -> [`graph`] (what they do again, for `plumb whatif`); [`timer`] finds runs whose
//! end a timer decides.

pub mod graph;
mod parts;
pub mod requests;
pub mod seen;
pub mod timer;
