// SPDX-License-Identifier: Apache-2.0 OR MIT
//! blkqueue: how many request slots of a device are in use as a request arrives,
//! its own included.

use super::names::Names;
use super::requests::{Requests, Step};
use super::sample::{Key, Sample};
use super::View;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct BlkQueue(Requests);

impl View for BlkQueue {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        self.0.feed(item, &mut |step| {
            let Step::Got(bio, queue) = step else { return };
            out(Sample::count("requests", bio.g, u64::from(queue.slots) + 1)
                .parts([queue.in_flight.into(), queue.waiting.into()])
                .of(bio.owner, names)
                .with(Key::Device, bio.dev)
                .with(Key::Operation, bio.opf & 0xff));
        });
    }
}
