// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests by their end, for merging behind them: the elevator's hash (block/elevator.c, elv_rqhash_find()).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Ends of requests are multiples of 512 and come from nobody who wants to do harm.
#[derive(Debug, Default)]
struct Places(u64);

impl Hasher for Places {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, word: u64) {
        // Knuth's multiplicative hash; the upper half folded, since a table looks at both ends of the word.
        let wide = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = wide ^ wide >> 32;
    }
}

/// The last request that ends at each place.
#[derive(Debug, Default)]
pub struct Ends(HashMap<u64, u32, BuildHasherDefault<Places>>);

impl Ends {
    pub fn put(&mut self, end: u64, request: u32) {
        self.0.insert(end, request);
    }

    pub fn forget(&mut self, end: u64, request: u32) {
        if self.0.get(&end) == Some(&request) {
            self.0.remove(&end);
        }
    }

    /// The request that ends there.
    pub fn at(&self, end: u64) -> Option<u32> {
        self.0.get(&end).copied()
    }
}
