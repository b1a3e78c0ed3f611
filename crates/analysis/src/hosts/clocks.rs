// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One clock for all recordings of a set: what each pair saw of the other, and pairs without traffic over a third.

use super::clock::{Alignment, Bounds, Point};
use super::segments::{Seen, Way};
use super::turns::Places;
use std::collections::{HashMap, VecDeque};

/// When a message was sent and when it came, each on its host's clock, ns.
type Message = (u64, u64);

/// How the clocks of the recordings stand to each other.
#[derive(Debug, Default)]
pub struct Clocks {
    direct: HashMap<(usize, usize), Alignment>,
    /// The recording over which the way to another begins.
    next: HashMap<(usize, usize), usize>,
    /// Segments that were matched, by pair.
    pub matched: HashMap<(usize, usize), u64>,
}

/// The messages of one way of a connection: of each segment that came, the last one sent that it has bytes of.
fn messages(out: &Way, came: &Way, round: i64, to: &mut Vec<Message>) {
    let mut at = 0;
    for c in &came.came {
        let (begin, end) = (c.begin.wrapping_add_signed(round), c.end.wrapping_add_signed(round));
        while out.out.get(at).is_some_and(|o| o.end <= begin) {
            at += 1;
        }
        let those = out.out[at..].iter().take_while(|o| o.begin < end);
        if let Some(sent) = those.map(|o| o.ts).max() {
            to.push((sent, c.ts));
        }
    }
}

impl Clocks {
    /// From the connections between them.
    pub fn of<'a>(seen: &[Seen], flows: impl Iterator<Item = (&'a u64, &'a Places)>) -> Self {
        let mut sent: HashMap<(usize, usize), Vec<Message>> = HashMap::new();
        for (flow, places) in flows {
            let (Some(client), Some(server)) = (places.client, places.server) else { continue };
            let ends = (seen[client].flows.get(flow), seen[server].flows.get(flow));
            let (true, (Some(at_client), Some(at_server))) = (client != server, ends) else { continue };
            let (there, back) = (usize::from(places.higher), usize::from(!places.higher));
            let (from, to) = (&at_client.ways[there], &at_server.ways[there]);
            messages(from, to, from.round(to), sent.entry((client, server)).or_default());
            let (from, to) = (&at_server.ways[back], &at_client.ways[back]);
            messages(from, to, from.round(to), sent.entry((server, client)).or_default());
        }
        let mut clocks = Self::default();
        let none = Vec::new();
        for ((a, b), there) in &sent {
            let back = sent.get(&(*b, *a)).unwrap_or(&none);
            let ahead = |theirs: u64, ours: u64| theirs as i64 - ours as i64;
            let above: Vec<Point> = there.iter().map(|(s, c)| (*s as i64, ahead(*c, *s))).collect();
            let below: Vec<Point> = back.iter().map(|(s, c)| (*c as i64, ahead(*s, *c))).collect();
            clocks.matched.insert((*a, *b), there.len() as u64);
            if let Some(alignment) = Alignment::of(above, below) {
                clocks.direct.insert((*a, *b), alignment);
            }
        }
        clocks.routes(seen.len());
        clocks
    }

    /// The way with fewest hosts between each two.
    fn routes(&mut self, hosts: usize) {
        for to in 0..hosts {
            let mut waiting = VecDeque::from([to]);
            while let Some(at) = waiting.pop_front() {
                for from in (0..hosts).filter(|from| *from != to) {
                    if self.direct.contains_key(&(from, at)) && !self.next.contains_key(&(from, to)) {
                        self.next.insert((from, to), at);
                        waiting.push_back(from);
                    }
                }
            }
        }
    }

    /// The alignment of two that sent each other something.
    pub fn between(&self, from: usize, to: usize) -> Option<&Alignment> {
        self.direct.get(&(from, to))
    }

    /// A moment of one recording on the clock of another, ns; `None` where nothing joins them.
    pub fn convert(&self, from: usize, to: usize, t: u64) -> Option<Bounds> {
        let (mut at, mut bounds) = (from, Bounds { low: t as i64, high: t as i64 });
        while at != to {
            let next = *self.next.get(&(at, to))?;
            let alignment = self.direct.get(&(at, next))?;
            bounds = Bounds { low: alignment.at(bounds.low).low, high: alignment.at(bounds.high).high };
            at = next;
        }
        Some(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(ahead: i64) -> Alignment {
        Alignment::of(vec![(0, ahead + 10), (100, ahead + 10)], vec![(0, ahead - 10), (100, ahead - 10)])
            .expect("both sent")
    }

    #[test]
    fn two_without_traffic_are_joined_over_a_third() {
        let mut clocks = Clocks::default();
        for (a, b, ahead) in [(0, 1, 1_000), (1, 2, 500)] {
            clocks.direct.insert((a, b), constant(ahead));
            clocks.direct.insert((b, a), constant(-ahead));
        }
        clocks.routes(4);
        let bounds = clocks.convert(0, 2, 50).expect("over 1");
        assert!(bounds.low <= 1_550 && 1_550 <= bounds.high && bounds.width() <= 25, "{bounds:?}");
        let home = clocks.convert(2, 0, 1_550).expect("over 1");
        assert!(home.low <= 50 && 50 <= home.high, "{home:?}");
        assert_eq!(clocks.convert(1, 1, 7), Some(Bounds { low: 7, high: 7 }));
        assert_eq!(clocks.convert(0, 3, 7), None);
    }
}
