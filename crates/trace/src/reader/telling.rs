// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the recorder told beside the kernel's records, in the order in which it did.

use super::cursor::Packets;
use super::stated::Stated;
use super::{Damage, State, Told};
use crate::ctf::HEAD_BYTES;
use crate::event::{Decode, StateEvent};
use crate::schema::{StateCpuSample, StateSample, StateSpanText, StateWaitStack, StateWakerStack};
use crate::writer::Stream;
use std::collections::VecDeque;
use std::path::Path;

/// What was read of a stream and not handed out: when it was told, and what.
pub(super) type Ready = VecDeque<(u64, Told)>;

/// A place in the streams that the recorder writes itself.
#[derive(Default)]
pub(super) struct Telling {
    pub(super) state: Option<Packets>,
    pub(super) waits: Option<Packets>,
    pub(super) ready: [Ready; 2],
    /// All that the state stream told, where nobody has read it before.
    pub(super) keeps: Option<State>,
}

/// Takes the next event of the stream of waits, with the time at which it was told.
pub(super) fn moment(input: &mut &[u8]) -> Option<(u64, Told)> {
    let ts = u64::take(input)?;
    let told = match u16::take(input)? {
        StateWaitStack::ID => Told::Wait(StateWaitStack::decode(input)?),
        StateWakerStack::ID => Told::Waker(StateWakerStack::decode(input)?),
        StateCpuSample::ID => Told::Sample(StateCpuSample::decode(input)?),
        StateSpanText::ID => Told::SpanText(StateSpanText::decode(input)?),
        // Of traces before samples had user stacks.
        StateSample::ID => {
            let StateSample { at, thread, cpu, stack } = StateSample::decode(input)?;
            Told::Sample(StateCpuSample { at, thread, cpu, kernel: stack, user: 0 })
        }
        _ => return None,
    };
    Some((ts, told))
}

impl Telling {
    pub(super) fn open(dir: &Path) -> Self {
        let packets = |stream| Packets::open(dir, stream).ok();
        Self { state: packets(Stream::State), waits: packets(Stream::Waits), ..Self::default() }
    }

    /// The next that was told until `ts`. What holds from then on comes before moments that were told at the same time.
    pub(super) fn next_until(&mut self, ts: u64) -> Option<Told> {
        if self.ready[0].is_empty() {
            self.fill_state();
        }
        if self.ready[1].is_empty() {
            self.fill_waits();
        }
        let at = |ready: &Ready| ready.front().map_or(u64::MAX, |(at, _)| *at);
        let (state, wait) = (at(&self.ready[0]), at(&self.ready[1]));
        let from = usize::from(wait < state);
        let next = self.ready[from].front().is_some_and(|(at, _)| *at <= ts);
        next.then(|| self.ready[from].pop_front()).flatten().map(|(_, told)| told)
    }

    /// Reads on until something is ready that a reader needs on the way.
    fn fill_state(&mut self) {
        while self.ready[0].is_empty() {
            if !self.next_state() {
                return;
            }
        }
    }

    /// Reads all that the state stream tells; what is needed on the way is still handed out in its order.
    pub(super) fn read_state(&mut self) {
        while self.next_state() {}
    }

    /// Reads the next packet of the state stream.
    fn next_state(&mut self) -> bool {
        let Some(packets) = &mut self.state else { return false };
        let Some(head) = packets.next() else { return false };
        let mut input = &packets.buf[HEAD_BYTES..head.content as usize];
        while !input.is_empty() {
            let Some((ts, event)) = Stated::take(&mut input) else {
                packets.damaged("state event cut off or unknown");
                break;
            };
            self.ready[0].extend(event.told().map(|told| (ts, told)));
            if let Some(state) = &mut self.keeps {
                state.push(event);
            }
        }
        true
    }

    fn fill_waits(&mut self) {
        let Some(packets) = &mut self.waits else { return };
        let Some(head) = packets.next() else { return };
        let mut input = &packets.buf[HEAD_BYTES..head.content as usize];
        while !input.is_empty() {
            let Some(event) = moment(&mut input) else {
                packets.damaged("wait stack cut off or unknown");
                break;
            };
            self.ready[1].push_back(event);
        }
    }

    /// What could not be read: of the state stream where it was not read before.
    pub(super) fn damage(&mut self) -> Vec<Damage> {
        let state = self.state.as_mut().filter(|_| self.keeps.is_some());
        let waits = self.waits.as_mut();
        state.into_iter().chain(waits).flat_map(|p| std::mem::take(&mut p.damage)).collect()
    }
}

impl Told {
    /// Whether it is of one moment; else it is of what holds from then on.
    pub(super) fn is_moment(&self) -> bool {
        matches!(self, Self::Wait(_) | Self::Waker(_) | Self::Sample(_) | Self::SpanText(_))
    }
}
