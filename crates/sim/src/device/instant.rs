// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that takes no time: what the way to a device costs.

use super::agenda::{beyond, Agenda};
use super::{Completion, Device, Ns, Outcome, Parts, Request};

/// Everything ends at the time of its submission, at the next [`Device::advance`].
#[derive(Debug)]
pub struct Instant {
    size: u64,
    ends: Agenda<Completion>,
}

impl Instant {
    /// One of `size` bytes.
    pub fn new(size: u64) -> Self {
        Instant { size, ends: Agenda::new() }
    }
}

impl Device for Instant {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        let outcome = beyond(&request, self.size).map_or(Outcome::Done, Outcome::Failed);
        self.ends.push(now, Completion { id: request.id, at: now, outcome, parts: Parts::default() });
    }

    fn next_event(&self) -> Option<Ns> {
        self.ends.next()
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        self.ends.tell(now, ended);
    }

    fn under_way(&self) -> usize {
        self.ends.len()
    }

    fn volatile_cache(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read, run, write};
    use super::*;

    #[test]
    fn everything_ends_when_it_begins() {
        let mut device = Instant::new(8192);
        let ends = run(&mut device, &[(5, read(0, 4096)), (5, write(4096, 4096)), (9, read(8192, 512))]);
        let told: Vec<_> = ends.iter().map(|c| (c.at, c.outcome, c.parts.total())).collect();
        let failed = Outcome::Failed(libc::EIO);
        assert_eq!(told, [(5, Outcome::Done, 0), (5, Outcome::Done, 0), (9, failed, 0)]);
    }
}
