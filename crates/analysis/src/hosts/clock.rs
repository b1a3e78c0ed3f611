// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the clocks of two hosts stand to each other, from messages that they sent to each other.
//!
//! No message arrives before it was sent. So the difference of the two clocks, as a line over time, lies below every
//! point (sent by A, received by B minus sent by A) and above every point (received by A, sent by B minus received by
//! A). What all lines between the two convex hulls have in common is guaranteed; half the asymmetry of the shortest
//! delays stays unknown to every method. After A. Duda et al., "Estimating Global Time in Distributed Systems" (1987).

/// The most that two clocks may drift apart, ns in a ns: what the kernel may slew each by (500 ppm).
const MOST_DRIFT: f64 = 1e-3;
/// A piece of a recording in which the rate of the clocks is taken to be constant, ns.
const PIECE: i64 = 10_000_000_000;
/// A piece is not cut any shorter where no line fits: a clock was set, ns.
const SHORTEST: i64 = 1_000_000;
/// Steps of a bisection: more than the bits of a number.
const STEPS: usize = 64;

/// A moment on A's clock, and how far B's is ahead of it, ns.
pub type Point = (i64, i64);

/// What is known of a moment on another clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub low: i64,
    pub high: i64,
}

impl Bounds {
    pub fn middle(self) -> i64 {
        i64::midpoint(self.low, self.high)
    }

    /// How far the middle may be off, ns.
    pub fn width(self) -> u64 {
        (self.high.saturating_sub(self.low).max(0) as u64).div_ceil(2)
    }
}

/// A line's worth of time: hulls, relative to `origin`.
#[derive(Debug, Clone)]
struct Piece {
    /// First moment, on A's clock, ns.
    from: i64,
    /// What positions are relative to: a point.
    origin: Point,
    /// The lower hull of the points above the line, and the upper one of those below it.
    above: Vec<(f64, f64)>,
    below: Vec<(f64, f64)>,
    /// Rates that a line between them may have.
    rate: (f64, f64),
}

/// The clock of B as seen from A.
#[derive(Debug, Clone)]
pub struct Alignment {
    /// In the order of time; at least one.
    pieces: Vec<Piece>,
}

/// The hull of points that are in the order of time; `side` 1 the lower, -1 the upper one.
fn hull(points: &[Point], side: i128) -> Vec<Point> {
    let mut hull: Vec<Point> = Vec::new();
    for p in points {
        if let Some(last) = hull.last_mut().filter(|last| last.0 == p.0) {
            if side * i128::from(p.1 - last.1) >= 0 {
                continue;
            }
            hull.pop();
        }
        while let [.., a, b] = hull[..] {
            let wide = |from: Point, to: Point| (i128::from(to.0 - from.0), i128::from(to.1 - from.1));
            let ((bx, by), (px, py)) = (wide(a, b), wide(a, *p));
            if side * (bx * py - by * px) > 0 {
                break;
            }
            hull.pop();
        }
        hull.push(*p);
    }
    hull
}

impl Piece {
    /// `None`: no line lies between them.
    fn of(above: &[Point], below: &[Point]) -> Option<Self> {
        let origin = *above.first()?;
        let from = origin.0.min(below.first()?.0);
        let near = |p: &Point| ((p.0 - origin.0) as f64, (p.1 - origin.1) as f64);
        let above: Vec<_> = hull(above, 1).iter().map(near).collect();
        let below: Vec<_> = hull(below, -1).iter().map(near).collect();
        let mut piece = Self { from, origin, above, below, rate: (-MOST_DRIFT, MOST_DRIFT) };
        // The room between the hulls is concave in the rate: where it is greatest a line fits, or none does.
        let (mut low, mut high) = piece.rate;
        for _ in 0..2 * STEPS {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if piece.room(a) < piece.room(b) {
                low = a;
            } else {
                high = b;
            }
        }
        let best = (low + high) / 2.0;
        if piece.room(best) < 0.0 {
            return None;
        }
        let edge = |mut out: f64| {
            let mut within = best;
            if piece.room(out) >= 0.0 {
                return out;
            }
            for _ in 0..STEPS {
                let middle = (within + out) / 2.0;
                *if piece.room(middle) >= 0.0 { &mut within } else { &mut out } = middle;
            }
            // The one that no longer fits: bounds are never too narrow.
            out
        };
        piece.rate = (edge(piece.rate.0), edge(piece.rate.1));
        Some(piece)
    }

    /// The highest line of a rate below all of `above`, at `x`; and the lowest above all of `below`.
    fn highest(&self, x: f64, rate: f64) -> f64 {
        self.above.iter().map(|p| p.1 + rate * (x - p.0)).fold(f64::INFINITY, f64::min)
    }

    fn lowest(&self, x: f64, rate: f64) -> f64 {
        self.below.iter().map(|p| p.1 + rate * (x - p.0)).fold(f64::NEG_INFINITY, f64::max)
    }

    fn room(&self, rate: f64) -> f64 {
        self.highest(0.0, rate) - self.lowest(0.0, rate)
    }

    /// B's clock at `t`.
    fn at(&self, t: i64) -> Bounds {
        let x = t.saturating_sub(self.origin.0) as f64;
        // The bound is the hull itself where its slope is a rate that fits, else the line of the nearest such rate.
        let clamp = |hull: &[(f64, f64)]| {
            let after = hull.partition_point(|p| p.0 < x);
            let slope = match (after.checked_sub(1).and_then(|i| hull.get(i)), hull.get(after)) {
                (Some(a), Some(b)) => Some((b.1 - a.1) / (b.0 - a.0)),
                _ => None,
            };
            slope.filter(|s| (self.rate.0..=self.rate.1).contains(s))
        };
        let ends = [self.rate.0, self.rate.1];
        let highs = clamp(&self.above).into_iter().chain(ends).map(|r| self.highest(x, r));
        let lows = clamp(&self.below).into_iter().chain(ends).map(|r| self.lowest(x, r));
        let (high, low) = (highs.fold(f64::NEG_INFINITY, f64::max), lows.fold(f64::INFINITY, f64::min));
        // A damaged end of a recording is any moment.
        let on_b = |ahead: f64| t.saturating_add(self.origin.1).saturating_add(ahead as i64);
        Bounds { low: on_b(low.floor()), high: on_b(high.ceil()) }
    }
}

/// Those of `points` from `from` on and before `to`, which are in the order of time.
fn within(points: &[Point], from: i64, to: i64) -> &[Point] {
    let at = |t| points.partition_point(|p| p.0 < t);
    &points[at(from)..at(to)]
}

impl Alignment {
    /// `above`: for each message from A to B, when A sent it and how much later B's clock was when it came. `below`: for
    /// each from B to A, when it came to A and how much later B's clock was when it was sent. `None` where the two
    /// did not both send, or no clocks could have seen it so.
    pub fn of(mut above: Vec<Point>, mut below: Vec<Point>) -> Option<Self> {
        above.sort_unstable();
        below.sort_unstable();
        let mut pieces = Vec::new();
        let begin = above.first()?.0.min(below.first()?.0);
        let end = above.last()?.0.max(below.last()?.0) + 1;
        let mut from = begin;
        while from < end {
            // Over what is silent at once.
            let next =
                |points: &[Point]| points.get(points.partition_point(|p| p.0 < from)).map_or(end, |p| p.0);
            from = next(&above).min(next(&below));
            let mut to = (from + PIECE).min(end);
            // What is left at the end may hold too little for a piece of its own.
            if end - to < PIECE / 2 {
                to = end;
            }
            Self::cut(&above, &below, from, to, &mut pieces);
            from = to;
        }
        (!pieces.is_empty()).then_some(Self { pieces })
    }

    fn cut(above: &[Point], below: &[Point], from: i64, to: i64, pieces: &mut Vec<Piece>) {
        let (a, b) = (within(above, from, to), within(below, from, to));
        if a.is_empty() || b.is_empty() {
            // No bound of its own: the neighbours' lines go on.
            return;
        }
        match Piece::of(a, b) {
            Some(piece) => pieces.push(piece),
            None if to - from > SHORTEST => {
                let middle = from + (to - from) / 2;
                Self::cut(above, below, from, middle, pieces);
                Self::cut(above, below, middle, to, pieces);
            }
            None => {}
        }
    }

    /// B's clock when A's is `t`, ns.
    pub fn at(&self, t: i64) -> Bounds {
        let at = self.pieces.partition_point(|p| p.from <= t).saturating_sub(1);
        self.pieces[at].at(t)
    }

    /// How much faster B's clock runs, as a share: what is known of it over the first piece.
    pub fn drift(&self) -> (f64, f64) {
        self.pieces[0].rate
    }

    /// How many lines it took.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests;
