// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netsend: a packet's time in its interface's queue, from the hand-over to the
//! device layer to the driver.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use plumb_trace::reader::Item;
use plumb_trace::schema::{NetDevQueue, NetDevStartXmit};
use plumb_trace::Record;
use std::collections::HashMap;

/// Packets that no driver took (dropped, or cut into segments) are forgotten beyond this.
const MOST_PACKETS: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct NetSend {
    /// Queued at (ns) by thread: by packet and interface, for stacked interfaces queue it again.
    queued: HashMap<(u64, u32), (u64, u32)>,
}

impl View for NetSend {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let r = match item {
            Item::Record(r) => r,
            Item::Gap(_) => return self.queued.clear(),
            Item::Told(_) | Item::Operation(_) => return,
        };
        match r.id {
            NetDevQueue::ID => {
                let e = NetDevQueue::read(r.bytes);
                if self.queued.len() >= MOST_PACKETS {
                    let mut ages: Vec<u64> = self.queued.values().map(|(at, _)| *at).collect();
                    let middle = ages.len() / 2;
                    let median = *ages.select_nth_unstable(middle).1;
                    self.queued.retain(|_, (at, _)| *at > median);
                }
                self.queued.insert((e.skb, e.ifindex), (r.ts, r.tid));
            }
            NetDevStartXmit::ID => {
                let e = NetDevStartXmit::read(r.bytes);
                if let Some((at, tid)) = self.queued.remove(&(e.skb, e.ifindex)) {
                    out(Sample::interval("queue to driver", at, r.ts)
                        .of(tid, names)
                        .with(Key::Cpu, r.cpu)
                        .with(Key::Interface, e.ifindex));
                }
            }
            _ => {}
        }
    }
}
