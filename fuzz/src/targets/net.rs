// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What sender and collector tell each other.

use plumb_net::parsers;

pub fn frames() -> Vec<Vec<u8>> {
    vec![parsers::sent()]
}

pub fn read(input: &[u8]) -> u64 {
    parsers::received(input)
}
