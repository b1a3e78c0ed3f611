// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks by number: told once each, named by it afterwards; and the places that
//! they name.

use crate::stacks::Kallsyms;
use crate::user::{End, UserStack};
use plumb_trace::schema::{StateStack, StateUserStack};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Module number of the kernel in [`Numbers::places`].
const KERNEL: u32 = 0;
/// Frames of a user stack that are told: 32 KiB of it, what is copied at most, hold so many
/// with a frame pointer, and a packet of the trace twice as many.
const MOST_FRAMES: usize = 2048;
/// Frames of stacks that are remembered, some 40 MB at most: of a build every minute brings thousands of stacks. Beyond
/// it all are forgotten, and told again under new numbers where they come again.
const MOST_REMEMBERED: usize = 4 << 20;
/// What a stack takes besides, in frames.
const ENTRY: usize = 8;

/// What is known of a place.
#[derive(Debug, Default)]
struct Place {
    samples: u64,
    /// The innermost frame of some stack: no return address.
    innermost: bool,
}

/// Numbers kernel and user stacks, from 1 on; no two have the same.
#[derive(Debug)]
pub struct Numbers {
    // Hashed at every sample, where the default was an eighth of all that the recorder does.
    kernel: FxHashMap<Vec<u64>, u32>,
    /// By the numbers of its places and, behind them, its end: of a program with deep stacks nearly
    /// every sample is a stack of its own, through the same places.
    user: FxHashMap<Box<[u32]>, u32>,
    /// The last number that was given out.
    told: u32,
    /// Frames of all that is remembered.
    frames: usize,
    symbols: Arc<Kallsyms>,
    /// Number of a place by module and offset, and what is known of it.
    known: FxHashMap<(u32, u64), u32>,
    places: Vec<Place>,
    scratch: Vec<u32>,
}

impl Numbers {
    /// None yet; kernel frames are named by these symbols.
    pub fn new(symbols: Kallsyms) -> Self {
        Self {
            kernel: FxHashMap::default(),
            user: FxHashMap::default(),
            told: 0,
            frames: 0,
            symbols: Arc::new(symbols),
            known: FxHashMap::default(),
            places: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The number of a new stack; makes room for it.
    fn next(&mut self, frames: usize) -> u32 {
        self.frames += frames + ENTRY;
        if self.frames > MOST_REMEMBERED {
            self.frames = frames + ENTRY;
            self.kernel.clear();
            self.user.clear();
        }
        self.told += 1;
        self.told
    }

    fn place(&mut self, at: (u32, u64)) -> u32 {
        let next = self.places.len() as u32;
        let number = *self.known.entry(at).or_insert(next);
        if number == next {
            self.places.push(Place::default());
        }
        number
    }

    /// The number of a kernel stack, and the event that tells it when it is new.
    pub fn kernel(&mut self, frames: Vec<u64>) -> (u32, Option<StateStack>) {
        if let Some(n) = self.kernel.get(&frames) {
            return (*n, None);
        }
        let stack = self.next(frames.len());
        // A frame is a return address: one back lies inside the call.
        let names: Vec<String> = frames.iter().map(|a| self.symbols.name(a.saturating_sub(1))).collect();
        let event = StateStack { stack, user: 0, frames: frames.clone(), text: names.join(";") };
        self.kernel.insert(frames, stack);
        (stack, Some(event))
    }

    /// The same of a user stack.
    pub fn user(&mut self, walked: &UserStack) -> (u32, Option<StateUserStack>) {
        let (frames, end) = match walked.frames.get(..MOST_FRAMES) {
            Some(first) if walked.frames.len() > MOST_FRAMES => (first, End::Copy),
            _ => (&walked.frames[..], walked.end),
        };
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        key.extend(frames.iter().map(|at| self.place(*at)));
        key.push(end as u32);
        let known = self.user.get(&key[..]).copied();
        let told = known.map_or_else(
            || {
                let stack = self.next(key.len());
                if let Some(place) = self.places.get_mut(key[0] as usize).filter(|_| !frames.is_empty()) {
                    place.innermost = true;
                }
                let event = StateUserStack {
                    stack,
                    cut: end as u8,
                    modules: frames.iter().map(|(module, _)| u64::from(*module)).collect(),
                    offsets: frames.iter().map(|(_, offset)| *offset).collect(),
                };
                self.user.insert(key[..].into(), stack);
                (stack, Some(event))
            },
            |number| (number, None),
        );
        self.scratch = key;
        told
    }

    /// Counts a sample at its innermost frame.
    pub fn sampled(&mut self, kernel: &[u64], user: Option<&UserStack>) {
        let user = || user.and_then(|u| u.frames.first().copied());
        if let Some(at) = kernel.first().map(|a| (KERNEL, *a)).or_else(user) {
            let number = self.place(at);
            let place = &mut self.places[number as usize];
            place.samples += 1;
            place.innermost = true;
        }
    }

    /// Every frame of user stacks and the innermost kernel frame of samples: by module and
    /// offset, how many samples were exactly there. At least 1 where the innermost frame of
    /// any stack is, which is no return address.
    pub fn places(&self) -> BTreeMap<(u32, u64), u64> {
        let samples = |p: &Place| p.samples.max(u64::from(p.innermost));
        self.known.iter().map(|(at, number)| (*at, samples(&self.places[*number as usize]))).collect()
    }

    pub fn symbols(&self) -> &Arc<Kallsyms> {
        &self.symbols
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(frames: &[(u32, u64)]) -> UserStack {
        UserStack { frames: frames.to_vec(), end: End::Root }
    }

    #[test]
    fn a_stack_is_told_once_and_shares_its_number_with_none() {
        let symbols = Kallsyms::parse("1 t f\n4 t g\n");
        let mut numbers = Numbers::new(symbols);
        let (n, event) = numbers.kernel(vec![2, 5]);
        assert_eq!((n, event.expect("new").text.as_str()), (1, "f;g"));
        assert_eq!(numbers.kernel(vec![2, 5]), (1, None));
        let (n, event) = numbers.user(&user(&[(1, 2)]));
        assert_eq!((n, event.expect("new").stack), (2, 2));
        assert_eq!(numbers.user(&user(&[(1, 2)])), (2, None));
        assert_eq!(numbers.kernel(vec![3]).0, 3);
        let cut = UserStack { end: End::Copy, ..user(&[(1, 2)]) };
        assert_eq!(numbers.user(&cut).1.expect("another end").cut, 1);
    }

    #[test]
    fn what_is_remembered_of_stacks_has_a_limit_and_no_number_comes_twice() {
        let mut numbers = Numbers::new(Kallsyms::default());
        let mut last = 0;
        for n in 0..MOST_REMEMBERED as u64 / 8 {
            let (kernel, told) = numbers.kernel(vec![n]);
            let (user, _) = numbers.user(&user(&[(1, n)]));
            assert!(told.is_some() && kernel == last + 1 && user == last + 2, "{n}");
            last = user;
        }
        assert!((numbers.kernel.len() + numbers.user.len()) * ENTRY < MOST_REMEMBERED);
        // One that was forgotten is told again.
        assert!(numbers.kernel(vec![1]).1.is_some() && numbers.kernel(vec![1]).1.is_none());
    }

    #[test]
    fn samples_are_counted_where_they_are() {
        let mut numbers = Numbers::new(Kallsyms::default());
        let stack = user(&[(1, 10), (1, 20)]);
        numbers.user(&stack);
        numbers.sampled(&[], Some(&stack));
        numbers.sampled(&[], Some(&stack));
        numbers.sampled(&[99, 98], Some(&stack));
        numbers.user(&user(&[(2, 5), (1, 20)]));
        let expected = [((0, 99), 1), ((1, 10), 2), ((1, 20), 0), ((2, 5), 1)];
        assert_eq!(numbers.places(), BTreeMap::from(expected));
    }

    #[test]
    fn a_stack_fits_a_packet() {
        use plumb_trace::ctf::{HEAD_BYTES, MAX_PACKET_BYTES};
        use plumb_trace::event::StateEvent;
        let mut bytes = Vec::new();
        let deep: Vec<_> = (0..10_000).map(|at| (1, at)).collect();
        let event = Numbers::new(Kallsyms::default()).user(&user(&deep)).1.expect("new");
        event.encode(&mut bytes);
        assert!(bytes.len() + HEAD_BYTES + 10 <= MAX_PACKET_BYTES, "{}", bytes.len());
        assert_eq!(event.cut, 1);
    }
}
