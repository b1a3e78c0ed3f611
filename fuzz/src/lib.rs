// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds mutated input to every reader of bytes that others wrote, in this process and with stable Rust.
//!
//! A target is a function, seeds and a mutator; [`TARGETS`] lists them. It fails when it panics (overflow
//! checks are on), breaks an invariant that it asserts, takes too long or allocates far more than its input.
//! Coverage of code is not measured while it runs. Instead a target returns a number for how the input was
//! read (which damage, which categories of time); an input with a new number joins the corpus.

mod driver;
mod elements;
mod minimize;
mod mutate;
mod targets;
mod watch;

pub use driver::{fixed, long, reproduce};

use driver::hash as driver_hash;
pub use targets::{Target, TARGETS};

use std::path::PathBuf;

/// The repository.
fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(here).join("..")
}
