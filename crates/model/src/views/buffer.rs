// SPDX-License-Identifier: Apache-2.0 OR MIT
//! buffer: the life of a block request from the arrival of its first bio (Q) to
//! its completion (C), by device and operation.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use crate::requests::{Requests, Step};
use plumb_trace::reader::Item;

#[derive(Debug, Default)]
pub struct Buffer(Requests);

impl View for Buffer {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let Step::Completed(r, ..) = self.0.feed(item) else { return };
        // A flush of the kernel's own, or a request from before the trace: no arrival.
        let (Some(arrival), Some(owner)) = (r.arrival(), r.owner()) else { return };
        let sample = Sample::interval("arrival to completion", arrival, r.c);
        let with_device = if r.d == 0 { 0 } else { r.c.saturating_sub(r.d) };
        out(sample
            .parts([sample.value.saturating_sub(with_device), with_device])
            .of(owner, names)
            .with(Key::Device, r.dev)
            .with(Key::Operation, r.operation()));
    }
}
