// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is formatted or overwritten that the user did not name.
//!
//! - [`device()`]: may this block device be written? Known by its number, never
//!   by its name alone.
//! - [`file()`], [`files()`], [`existing_file()`]: may this file be made, or overwritten?
//! - [`Claim`]: the directory of one run's test files, and how what a killed run
//!   left behind is found and removed.

mod claim;
mod device;
mod file;
mod refusal;
mod signatures;

pub use claim::{made_by_us, sign, Claim, Leftover, CLAIM_PREFIX, SIGN_FILE};
pub use device::{device, swaps, DeviceClaim};
pub use file::{existing_file, file, files};
pub use refusal::{Found, Refusal};
pub use signatures::{recognise, Signature, Where, SIGNATURES, UNKNOWN};
