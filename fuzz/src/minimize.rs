// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes an input that fails smaller: leaves out parts of it as long as it fails at the same place.

use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(20);

/// `fails` says whether an input fails as the whole one does.
pub fn minimize(
    input: &[u8],
    parts: fn(&[u8]) -> Vec<Vec<u8>>,
    fails: &mut dyn FnMut(&[u8]) -> bool,
) -> Vec<u8> {
    let until = Instant::now() + LONGEST;
    let mut all = parts(input);
    let mut size = all.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < all.len() && Instant::now() < until {
            let mut fewer = all.clone();
            fewer.drain(at..(at + size).min(all.len()));
            if fails(&fewer.concat()) {
                all = fewer;
            } else {
                at += size;
            }
        }
        if size == 1 {
            break;
        }
        size = size.div_ceil(2);
    }
    all.concat()
}
