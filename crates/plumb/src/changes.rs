// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was changed on this system, as JSON.

use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;

#[derive(Serialize)]
pub struct Changes<'a> {
    /// A sentence each; none: all was so already.
    pub done: &'a [String],
}

impl Output for Changes<'_> {
    const FORMAT: &'static Format = &formats::CHANGES;
}
