// SPDX-License-Identifier: Apache-2.0 OR MIT
//! blkqueue: how many requests (tags) of a device are in use as a request arrives,
//! its own included.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use crate::requests::{Requests, Step};
use plumb_trace::kernel::req;
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct BlkQueue(Requests);

impl View for BlkQueue {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let Step::Got(Some(bio), queue) = self.0.feed(item) else { return };
        out(Sample::count("requests", bio.g, queue.slots.into())
            .parts([queue.in_flight.into(), queue.waiting.into()])
            .of(bio.owner, names)
            .with(Key::Device, bio.dev)
            .with(Key::Operation, req::op(bio.opf)));
    }
}
