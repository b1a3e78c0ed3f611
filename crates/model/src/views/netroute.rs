// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netroute: a packet's way in: the device's interrupt, the soft interrupt, the
//! receive path, the wakeup of the receiver, the receiver on a CPU.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use crate::sched::Switch;
use plumb_trace::kernel::softirq::NET_RX;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;
use std::collections::HashMap;

/// Steps in the order of a packet's way; each is an item of its own.
pub const STEPS: &[&str] =
    &["interrupt to softirq", "softirq to receive", "receive to wakeup", "wakeup to running"];

#[derive(Debug, Default)]
struct Cpu {
    /// Begin of the last device interrupt that no receive followed yet, ns.
    interrupt: Option<u64>,
    /// Present run of the receive soft interrupt: begin, ns.
    softirq: Option<u64>,
    /// The interrupt that led to it, ns.
    raised: Option<u64>,
    /// Packet received last in it: when, ns, and interface.
    packet: Option<(u64, u32)>,
}

#[derive(Debug, Default)]
pub struct NetRoute {
    cpus: Vec<Cpu>,
    /// Receivers that were woken: when, ns, by a packet of which interface.
    woken: HashMap<u32, (u64, u32)>,
}

impl NetRoute {
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let n = cpu as usize;
        if n >= self.cpus.len() {
            self.cpus.resize_with(n + 1, Cpu::default);
        }
        &mut self.cpus[n]
    }

    fn receive(&mut self, r: &RawRecord<'_>, out: &mut dyn FnMut(Sample)) {
        let e = NetifReceiveSkb::read(r.bytes);
        let cpu = self.cpu(r.cpu);
        let item = |kind, from| {
            Sample::interval(kind, from, r.ts).with(Key::Cpu, r.cpu).with(Key::Interface, e.ifindex)
        };
        if let Some(begin) = cpu.softirq {
            if let Some(raised) = cpu.raised.take() {
                // Its first packet tells which interface raised it.
                let mut sample = item(STEPS[0], raised);
                (sample.end, sample.value) = (begin, begin.saturating_sub(raised));
                out(sample);
            }
            out(item(STEPS[1], cpu.packet.map_or(begin, |(at, _)| at.max(begin))));
            cpu.packet = Some((r.ts, e.ifindex));
        }
    }
}

impl View for NetRoute {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let r = match item {
            Item::Record(r) => r,
            Item::Gap(gap) => {
                *self.cpu(gap.cpu) = Cpu::default();
                self.woken.clear();
                return;
            }
            Item::Told(_) | Item::Operation(_) => return,
        };
        match r.id {
            IrqHandlerEntry::ID => self.cpu(r.cpu).interrupt = Some(r.ts),
            SoftirqEntry::ID if SoftirqEntry::read(r.bytes).vec == NET_RX => {
                let cpu = self.cpu(r.cpu);
                (cpu.softirq, cpu.raised, cpu.packet) = (Some(r.ts), cpu.interrupt.take(), None);
            }
            SoftirqExit::ID if SoftirqExit::read(r.bytes).vec == NET_RX => {
                let cpu = self.cpu(r.cpu);
                (cpu.softirq, cpu.raised, cpu.packet) = (None, None, None);
            }
            NetifReceiveSkb::ID => self.receive(r, out),
            SchedWaking::ID => {
                let Some((at, interface)) = self.cpu(r.cpu).packet else { return };
                let wakee = SchedWaking::read(r.bytes).wakee;
                out(Sample::interval(STEPS[2], at, r.ts)
                    .of(wakee, names)
                    .with(Key::Cpu, r.cpu)
                    .with(Key::Interface, interface));
                self.woken.insert(wakee, (r.ts, interface));
            }
            SchedSwitch::ID => {
                let next = Switch::read(r).next;
                // What the handler raised has run by now, or is ksoftirqd's.
                self.cpu(r.cpu).interrupt = None;
                // It was on a CPU still as it was woken: it never waited for one.
                self.woken.remove(&r.tid);
                if let Some((at, interface)) = self.woken.remove(&next) {
                    out(Sample::interval(STEPS[3], at, r.ts)
                        .of(next, names)
                        .with(Key::Cpu, r.cpu)
                        .with(Key::Interface, interface));
                }
            }
            _ => {}
        }
    }
}
