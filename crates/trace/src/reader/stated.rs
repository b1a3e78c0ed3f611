// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of the state stream: what holds for the whole trace.

use super::{State, Told};
use crate::event::{Decode, StateEvent};
use crate::schema::{
    StateClock, StateCode, StateCounter, StateDisk, StateEnd, StateFile, StateFunction, StateModule,
    StateMount, StateOpen, StatePause, StateProbe, StateService, StateSocket, StateSpan, StateStack,
    StateSymbol, StateSymbols, StateTask, StateText, StateTimex, StateTrigger, StateUserStack,
    StateWaitEvent,
};
use std::sync::Arc;

/// One event of the state stream; those of a kind are a list of [`State`].
macro_rules! stated {
    ($($variant:ident $event:ident $list:ident,)*) => {
        pub(super) enum Stated {
            $($variant($event),)*
            UserStack(StateUserStack),
            End(StateEnd),
        }

        impl Stated {
            /// Takes the next one, with the time at which it was told.
            pub(super) fn take(input: &mut &[u8]) -> Option<(u64, Self)> {
                let ts = u64::take(input)?;
                let event = match u16::take(input)? {
                    $($event::ID => Self::$variant($event::decode(input)?),)*
                    StateUserStack::ID => Self::UserStack(StateUserStack::decode(input)?),
                    StateEnd::ID => Self::End(StateEnd::decode(input)?),
                    _ => return None,
                };
                Some((ts, event))
            }
        }

        impl State {
            pub(super) fn push(&mut self, event: Stated) {
                match event {
                    $(Stated::$variant(event) => self.$list.push(event),)*
                    Stated::UserStack(stack) => Arc::make_mut(&mut self.user_stacks).push(&stack),
                    Stated::End(end) => self.end = Some(end),
                }
                self.events += 1;
            }
        }
    };
}
stated! {
    Task StateTask tasks,
    Disk StateDisk disks,
    Mount StateMount mounts,
    Clock StateClock clocks,
    Stack StateStack stacks,
    Probe StateProbe probes,
    Counter StateCounter counters,
    File StateFile files,
    Open StateOpen open,
    Socket StateSocket sockets,
    Symbol StateSymbol symbols,
    Module StateModule modules,
    Function StateFunction functions,
    Symbols StateSymbols named,
    Code StateCode code,
    Span StateSpan spans,
    Text StateText texts,
    WaitEvent StateWaitEvent wait_events,
    Trigger StateTrigger triggers,
    Pause StatePause pauses,
    Timex StateTimex timex,
    Service StateService services,
}

impl Stated {
    /// What a reader needs on the way.
    pub(super) fn told(&self) -> Option<Told> {
        Some(match self {
            Self::Task(e) => Told::Task(e.clone()),
            Self::Stack(e) if e.user == 0 => Told::Stack(e.clone()),
            Self::File(e) => Told::File(e.clone()),
            Self::Open(e) => Told::Open(e.clone()),
            Self::Socket(e) => Told::Socket(e.clone()),
            Self::Service(e) => Told::Service(e.clone()),
            Self::Span(e) => Told::Span(e.clone()),
            Self::Pause(e) => Told::Pause(e.clone()),
            _ => return None,
        })
    }
}
