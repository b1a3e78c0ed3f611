// SPDX-License-Identifier: Apache-2.0 OR MIT
//! cpu: how long each CPU is busy between two idles, who runs meanwhile,
//! and how long it spends in each interrupt.

use super::names::Names;
use super::sample::{Key, Sample, CALL_FUNCTION, LOCAL_TIMER, SOFTIRQ};
use super::View;
use crate::sched::Switch;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;

/// Kind of the items that are interrupts; they have no parts.
pub(super) const INTERRUPT: &str = "interrupt";

/// Deepest nesting that is followed: hard over soft over hard.
const DEPTH: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Frame {
    irq: u64,
    begin: u64,
    /// Time of interrupts on top of it, ns.
    above: u64,
}

/// A moment and the CPU's interrupt time up to it, ns.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: u64,
    interrupts: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    busy: Option<Mark>,
    /// The thread that was switched to last, and when.
    run: Option<(u32, Mark)>,
    frames: Vec<Frame>,
    /// Closed outermost interrupts so far, ns.
    interrupts: u64,
}

#[derive(Debug, Default)]
pub struct CpuTime {
    cpus: Vec<Cpu>,
}

/// An interval of a CPU: how much of it were interrupts, how much was not.
fn spent(kind: &'static str, from: Mark, ts: u64, interrupts: u64) -> Sample {
    let sample = Sample::interval(kind, from.at, ts);
    let inside = (interrupts - from.interrupts).min(sample.value);
    sample.parts([inside, sample.value - inside])
}

impl CpuTime {
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let n = cpu as usize;
        if n >= self.cpus.len() {
            self.cpus.resize_with(n + 1, Cpu::default);
        }
        &mut self.cpus[n]
    }

    fn switch(&mut self, r: &RawRecord<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let next = Switch::read(r).next;
        let cpu = self.cpu(r.cpu);
        // A switch inside an interrupt cannot be: exits are missing.
        cpu.frames.clear();
        let mark = Mark { at: r.ts, interrupts: cpu.interrupts };
        let run = cpu.run.replace((next, mark));
        if r.tid != 0 {
            // Some kernels do not raise every switch: when this thread began is unknown then.
            if let Some((_, from)) = run.filter(|(tid, _)| *tid == r.tid) {
                out(spent("run", from, r.ts, mark.interrupts).of(r.tid, names).with(Key::Cpu, r.cpu));
            }
        }
        if next == 0 {
            if let Some(from) = cpu.busy.take() {
                out(spent("busy", from, r.ts, mark.interrupts).with(Key::Cpu, r.cpu));
            }
        } else if r.tid == 0 {
            cpu.busy = Some(mark);
        }
    }

    fn enter(&mut self, r: &RawRecord<'_>, irq: u64) {
        let frames = &mut self.cpu(r.cpu).frames;
        if frames.len() == DEPTH {
            frames.clear();
        }
        frames.push(Frame { irq, begin: r.ts, above: 0 });
    }

    fn exit(&mut self, r: &RawRecord<'_>, irq: u64, names: &Names, out: &mut dyn FnMut(Sample)) {
        let cpu = self.cpu(r.cpu);
        let Some(at) = cpu.frames.iter().rposition(|f| f.irq == irq) else { return };
        let frame = cpu.frames[at];
        cpu.frames.truncate(at);
        let whole = r.ts.saturating_sub(frame.begin);
        match cpu.frames.last_mut() {
            Some(below) => below.above += whole,
            None => cpu.interrupts += whole,
        }
        let own = whole.saturating_sub(frame.above);
        let mut sample = Sample::interval(INTERRUPT, frame.begin, r.ts);
        sample.value = own;
        out(sample.with(Key::Irq, irq).with(Key::Cpu, r.cpu).of(r.tid, names));
    }
}

impl View for CpuTime {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let r = match item {
            Item::Record(r) => r,
            Item::Gap(gap) => {
                *self.cpu(gap.cpu) = Cpu::default();
                return;
            }
            Item::Told(_) | Item::Operation(_) => return,
        };
        let b = r.bytes;
        match r.id {
            SchedSwitch::ID => self.switch(r, names, out),
            IrqHandlerEntry::ID => self.enter(r, u64::from(IrqHandlerEntry::read(b).irq)),
            IrqHandlerExit::ID => self.exit(r, u64::from(IrqHandlerExit::read(b).irq), names, out),
            SoftirqEntry::ID => self.enter(r, SOFTIRQ | u64::from(SoftirqEntry::read(b).vec)),
            SoftirqExit::ID => self.exit(r, SOFTIRQ | u64::from(SoftirqExit::read(b).vec), names, out),
            LocalTimerEntry::ID => self.enter(r, LOCAL_TIMER),
            LocalTimerExit::ID => self.exit(r, LOCAL_TIMER, names, out),
            CallFunctionSingleEntry::ID => self.enter(r, CALL_FUNCTION),
            CallFunctionSingleExit::ID => self.exit(r, CALL_FUNCTION, names, out),
            _ => {}
        }
    }
}
