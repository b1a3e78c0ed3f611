// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is formatted or overwritten that the user did not name.
//!
//! - [`device()`]: may this block device be written? Known by its number, never
//!   by its name alone.
//! - [`file()`], [`files()`], [`existing_file()`]: may this file be made, or overwritten?
//!
//! Both answer with a claim: what was checked, open. All access goes through its descriptor, so that a name that is
//! given to something else meanwhile leads nobody astray.
//!
//! - [`Claim`]: the directory of one run's test files, and how what a killed run
//!   left behind is found and removed.

mod claim;
mod device;
mod file;
mod refusal;
mod samples;
mod signatures;

pub use claim::{made_by_us, sign, Claim, Leftover, CLAIM_PREFIX, SIGN_FILE};
pub use device::{device, swaps, unused_device, DeviceClaim};
pub use file::{existing_file, file, files, new_file, unused_file, CheckedFile, FileClaim};
pub use refusal::{Found, Refusal};
pub use samples::{recognise, Samples, UNKNOWN};
pub use signatures::{Signature, Where, SCRATCH, SCRATCH_MAGIC, SIGNATURES};
