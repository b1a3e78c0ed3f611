// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What LTTng tells of a bio or request with every event, and plumb's records only once.

use std::collections::HashMap;
use std::hash::Hash;

/// Bios and requests that are known at once; beyond, ends must have been lost, and all are forgotten.
const MOST: usize = 1 << 16;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub dev: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub len: u32,
    pub opf: u32,
}

impl Place {
    /// Sectors of 512 bytes.
    pub fn sectors(&self) -> u32 {
        self.len >> 9
    }

    /// The first sector behind it. A flush's own sector is -1.
    fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors().into())
    }
}

/// Those that are known, by address.
#[derive(Debug, Default)]
pub struct Blocks {
    bios: HashMap<u64, Place>,
    requests: HashMap<u64, Place>,
}

fn keep<K: Hash + Eq>(map: &mut HashMap<K, Place>, key: K, place: Place) {
    if map.len() >= MOST {
        map.clear();
    }
    map.insert(key, place);
}

impl Blocks {
    pub fn bio(&mut self, bio: u64, place: Place) {
        keep(&mut self.bios, bio, place);
    }

    /// A bio's place; none where its queueing was not seen.
    pub fn bio_at(&self, bio: u64) -> Option<Place> {
        self.bios.get(&bio).copied()
    }

    /// A request was inserted or issued.
    pub fn request(&mut self, rq: u64, place: Place) {
        keep(&mut self.requests, rq, place);
    }

    /// A request's place; none where neither its insertion nor its issue was seen.
    pub fn request_at(&self, rq: u64) -> Option<Place> {
        self.requests.get(&rq).copied()
    }

    /// A bio joined the request of which it is the end or the front; the request grows.
    pub fn joined(&mut self, bio: &Place, front: bool) {
        let grows = |r: &&mut Place| {
            r.dev == bio.dev && if front { bio.end() == r.sector } else { r.end() == bio.sector }
        };
        if let Some(request) = self.requests.values_mut().find(grows) {
            request.len = request.len.saturating_add(bio.len);
            if front {
                request.sector = bio.sector;
            }
        }
    }

    /// The queued request that another, which is taken off here, was merged into: the one that ends
    /// where that began.
    pub fn merged(&mut self, rq: u64) -> Option<(Place, Place)> {
        let gone = self.requests.remove(&rq)?;
        let kept = self.requests.values_mut().find(|r| r.dev == gone.dev && r.end() == gone.sector)?;
        let before = *kept;
        kept.len = kept.len.saturating_add(gone.len);
        Some((before, gone))
    }

    /// A request and the bio that it began with are done.
    pub fn done(&mut self, rq: u64, bio: u64) {
        self.requests.remove(&rq);
        self.bios.remove(&bio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_grew_is_found_by_its_end() {
        let mut blocks = Blocks::default();
        let place = |sector, len| Place { dev: 1, sector, len, opf: 1 };
        blocks.request(10, place(0, 4096));
        blocks.joined(&place(8, 4096), false);
        blocks.request(11, place(16, 512));
        assert_eq!(blocks.merged(11), Some((place(0, 8192), place(16, 512))));
        assert_eq!(blocks.request_at(10), Some(place(0, 8704)));
        assert_eq!(blocks.merged(11), None, "it is gone");
    }
}
