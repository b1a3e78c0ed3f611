// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that becomes slower: its own clock goes slower than the world's, so that
//! everything in it takes longer, whatever it is and however many wait.

use super::super::{Completion, Device, Ns, Request};
use super::{FailSlow, When};
use std::collections::HashMap;

/// Steps from a factor of 1 to the last.
const STEPS: u64 = 64;

/// The layer of a device that fails slow.
pub(super) fn build(inner: Box<dyn Device>, when: When, spec: &FailSlow) -> Box<dyn Device> {
    let mut slow = Slow {
        inner,
        when,
        factor: spec.factor,
        over: spec.over.0,
        pieces: vec![Piece { world: 0, own: 0, millionths: MILLION }],
        now: 0,
        under_way: HashMap::new(),
    };
    if when.after == 0 {
        slow.begin(when.from);
    }
    Box::new(slow)
}

const MILLION: u64 = 1_000_000;

/// From a moment on the device's clock needs so many millionths of the world's time.
#[derive(Debug, Clone, Copy)]
struct Piece {
    world: Ns,
    own: Ns,
    millionths: u64,
}

struct Slow {
    inner: Box<dyn Device>,
    when: When,
    factor: f64,
    over: Ns,
    /// In order; the first begins at 0.
    pieces: Vec<Piece>,
    /// The last time that the caller told.
    now: Ns,
    /// Requests by id: world's and own time of their submission.
    under_way: HashMap<u64, (Ns, Ns)>,
}

fn scaled(n: u64, times: u64, by: u64, up: bool) -> u64 {
    let product = u128::from(n) * u128::from(times);
    let by = u128::from(by);
    u64::try_from(if up { product.div_ceil(by) } else { product / by }).unwrap_or(u64::MAX)
}

impl Slow {
    /// It begins to fail at `from`.
    fn begin(&mut self, from: Ns) {
        let until = self.when.until.unwrap_or(u64::MAX);
        let steps = if self.over == 0 { 1 } else { STEPS };
        for step in 0..steps {
            let at = from.saturating_add(scaled(self.over, step, steps, false));
            if at >= until {
                break;
            }
            let share = (step + 1) as f64 / steps as f64;
            let factor = 1.0 + (self.factor - 1.0) * share;
            self.turn(at, (factor * MILLION as f64).round() as u64);
        }
        if until > from && until < u64::MAX {
            self.turn(until, MILLION);
        }
    }

    fn turn(&mut self, world: Ns, millionths: u64) {
        let own = self.own(world);
        self.pieces.push(Piece { world, own, millionths });
    }

    /// The device's time at a time of the world.
    fn own(&self, world: Ns) -> Ns {
        let i = self.pieces.partition_point(|piece| piece.world <= world).saturating_sub(1);
        let piece = &self.pieces[i];
        piece.own + scaled(world - piece.world, MILLION, piece.millionths, false)
    }

    /// The first time of the world at which the device's is `own`.
    fn world(&self, own: Ns) -> Ns {
        let i = self.pieces.partition_point(|piece| piece.own < own).saturating_sub(1);
        let piece = &self.pieces[i];
        piece.world.saturating_add(scaled(own - piece.own, piece.millionths, MILLION, true))
    }
}

impl Device for Slow {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn submit(&mut self, now: Ns, request: Request) {
        self.now = now;
        self.when.seen += 1;
        if self.when.after > 0 && self.when.seen == self.when.after + 1 {
            self.begin(self.when.from.max(now));
        }
        let own = self.own(now);
        self.under_way.insert(request.id, (now, own));
        self.inner.submit(own, request);
    }

    fn next_event(&self) -> Option<Ns> {
        self.inner.next_event().map(|own| self.world(own).max(self.now))
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        let before = ended.len();
        self.inner.advance(self.own(now), ended);
        for done in ended.iter_mut().skip(before) {
            let Some((submitted, own)) = self.under_way.remove(&done.id) else { continue };
            let at = self.world(done.at).max(submitted);
            // The device's clock is never faster than the world's.
            done.parts.fault += (at - submitted).saturating_sub(done.at - own);
            done.at = at;
        }
        self.now = now;
    }

    fn under_way(&self) -> usize {
        self.inner.under_way()
    }

    fn volatile_cache(&self) -> bool {
        self.inner.volatile_cache()
    }
}
