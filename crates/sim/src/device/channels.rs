// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk of a few figures: channels before one line, a time for each request and each KiB, and a seek and a turn off
//! the sequence.
//!
//! It is the same function of the same figures as the disk that guests of the module's tests have
//! (tests/vm/device/modeldisk.c), rounding included: what differs between a guest and a simulation is not the disk.

use super::agenda::{beyond, Agenda};
use super::check::{self, Wrong};
use super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use crate::spec::SpecError;
use plumb_load::job::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const SECTOR: u64 = 512;
/// A track is one of so many parts of the disk, but has so many sectors at least.
const TRACKS: u64 = 8192;
const LEAST_TRACK: u64 = 64;
/// Longest disk whose distances can be told in 2^20ths without running over, sectors.
const MOST_SECTORS: u64 = 1 << 44;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Channels {
    /// Requests that are served at once; the others wait in the order of their coming.
    pub channels: u32,
    pub fixed: Time,
    /// For each whole KiB of a read or write.
    #[serde(default)]
    pub per_kib: Time,
    /// Off the sequence: the arm's shortest way.
    #[serde(default)]
    pub seek: Time,
    /// What the longest way takes on top; less of it as the root of the distance.
    #[serde(default)]
    pub seek_span: Time,
    /// A turn: off the sequence a request waits for its place on the track; 0: nothing turns.
    #[serde(default)]
    pub rotation: Time,
    /// Whether a flush takes its time (`fixed`); else nobody sends one.
    #[serde(default)]
    pub write_cache: bool,
}

impl Channels {
    /// Whether an arm moves or something turns.
    pub fn rotational(&self) -> bool {
        self.seek.0 > 0 || self.seek_span.0 > 0 || self.rotation.0 > 0
    }

    fn check(&self, size: u64) -> Result<(), Wrong> {
        check::counts(&[("channels", self.channels.into())])?;
        check::times(&[
            ("fixed", self.fixed),
            ("per-kib", self.per_kib),
            ("seek", self.seek),
            ("seek-span", self.seek_span),
            ("rotation", self.rotation),
        ])?;
        if self.channels > 4096 {
            return Err(("channels", format!("{} are more than 4096", self.channels)));
        }
        if size / SECTOR > MOST_SECTORS {
            return Err(("kind", format!("channels is for disks of up to {MOST_SECTORS} sectors")));
        }
        Ok(())
    }
}

/// The disk, `size` bytes long.
///
/// # Errors
/// Figures that cannot be; the key is named.
pub fn build(spec: &Channels, size: u64) -> Result<Box<dyn Device>, SpecError> {
    spec.check(size).map_err(|(key, why)| SpecError(format!("medium.{key}: {why}")))?;
    let sectors = (size / SECTOR).max(1);
    Ok(Box::new(Model {
        spec: spec.clone(),
        size,
        sectors,
        track: (sectors / TRACKS).max(LEAST_TRACK),
        head: 0,
        free: spec.channels,
        line: VecDeque::new(),
        ends: Agenda::new(),
    }))
}

#[derive(Debug)]
struct Model {
    spec: Channels,
    size: u64,
    sectors: u64,
    track: u64,
    /// Where the request that began last ends, sectors.
    head: u64,
    free: u32,
    line: VecDeque<(Ns, Request)>,
    ends: Agenda<Completion>,
}

impl Model {
    /// Until a place comes by, if the arm is there at `at`.
    fn turn(&self, place: u64, at: Ns) -> Ns {
        let rotation = self.spec.rotation.0;
        if rotation == 0 {
            return 0;
        }
        let angle = (u128::from(place % self.track) * u128::from(rotation) / u128::from(self.track)) as Ns;
        let now = at % rotation;
        if angle >= now {
            angle - now
        } else {
            angle + rotation - now
        }
    }

    fn parts(&mut self, request: &Request, now: Ns) -> Parts {
        let spec = &self.spec;
        let mut parts = Parts { overhead: spec.fixed.0, ..Parts::default() };
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return parts;
        }
        parts.medium = u64::from(request.length >> 10) * spec.per_kib.0;
        let place = request.offset / SECTOR;
        if place != self.head && spec.rotational() {
            // The root of a 2^20-th: a 1024-th.
            let way = ((place.abs_diff(self.head) << 20) / self.sectors).isqrt();
            parts.seek = spec.seek.0 + ((u128::from(spec.seek_span.0) * u128::from(way)) >> 10) as Ns;
            parts.rotation = self.turn(place, now + parts.total());
        }
        self.head = place + u64::from(request.length) / SECTOR;
        parts
    }

    fn begin(&mut self, now: Ns, submitted: Ns, request: &Request) {
        self.free -= 1;
        let error = beyond(request, self.size);
        let parts = match error {
            Some(_) => Parts::default(),
            None => self.parts(request, now),
        };
        let parts = Parts { queued: now - submitted, ..parts };
        let at = submitted + parts.total();
        let outcome = error.map_or(Outcome::Done, Outcome::Failed);
        self.ends.push(at, Completion { id: request.id, at, outcome, parts });
    }
}

impl Device for Model {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        if self.free > 0 {
            self.begin(now, now, &request);
        } else {
            self.line.push_back((now, request));
        }
    }

    fn next_event(&self) -> Option<Ns> {
        self.ends.next()
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some((at, end)) = self.ends.due(now) {
            self.free += 1;
            if let Some((submitted, request)) = self.line.pop_front() {
                self.begin(at, submitted, &request);
            }
            ended.push(end);
        }
    }

    fn under_way(&self) -> usize {
        self.ends.len() + self.line.len()
    }

    fn volatile_cache(&self) -> bool {
        self.spec.write_cache
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_load, flush, read, run, same_twice, write};
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 512 << 20;

    fn turning() -> Channels {
        Channels {
            channels: 1,
            fixed: Time(100_000),
            per_kib: Time(6_667),
            seek: Time(1_000_000),
            seek_span: Time(14_000_000),
            rotation: Time(8_333_333),
            write_cache: true,
        }
    }

    fn flash() -> Channels {
        let none = Time(0);
        Channels {
            channels: 2,
            fixed: Time(80_000),
            per_kib: Time(16_000),
            seek: none,
            seek_span: none,
            rotation: none,
            ..turning()
        }
    }

    #[test]
    fn channels_serve_one_each_in_the_order_of_coming() {
        let mut device = build(&flash(), SIZE).expect("a disk");
        let ends = run(
            &mut *device,
            &[(0, read(0, 4096)), (5, write(1 << 20, 8192)), (9, flush()), (10, read(512, 512))],
        );
        let told: Vec<_> = ends.iter().map(|c| (c.at, c.parts.queued, c.parts.medium)).collect();
        let first = 80_000 + 64_000;
        let second = 5 + 80_000 + 128_000;
        // The flush waits for the first channel, the last read for it again; half a KiB takes no transfer.
        let expected = [
            (first, 0, 64_000),
            (second, 0, 128_000),
            (first + 80_000, first - 9, 0),
            (second + 80_000, second - 10, 0),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn off_the_sequence_it_seeks_and_waits_for_its_place() {
        let mut device = build(&turning(), SIZE).expect("a disk");
        // The first is at the head; the second follows; the third is a quarter of the disk away, at the beginning of a
        // track; the fourth 32 sectors behind the third's end, at three quarters of the track.
        let ends = run(
            &mut *device,
            &[
                (0, read(0, 65_536)),
                (0, read(65_536, 65_536)),
                (0, read(SIZE / 4 + 131_072, 32_768)),
                (0, read(SIZE / 4 + 131_072 + 32_768 + 16_384, 4096)),
            ],
        );
        let transfer = 64 * 6_667;
        assert_eq!(ends[0].at, 100_000 + transfer);
        assert_eq!(
            ends[1].parts,
            Parts { queued: ends[0].at, overhead: 100_000, medium: transfer, ..Parts::default() }
        );
        // Half of the span for a quarter of the way.
        assert_eq!((ends[2].parts.seek, ends[3].parts.seek), (8_000_000, 1_000_000 + 14_000_000 * 5 / 1024));
        // A place is reached when the sum of everything before it is at its angle; 128 sectors a track.
        assert_eq!((ends[2].at) % 8_333_333, 0);
        assert_eq!((ends[3].at) % 8_333_333, 8_333_333 * 96 / 128);
    }

    #[test]
    fn figures_that_cannot_be_are_told_by_key() {
        for (spec, key) in [
            (Channels { channels: 0, ..flash() }, "medium.channels"),
            (Channels { seek: Time(u64::MAX), ..flash() }, "medium.seek"),
        ] {
            let said = build(&spec, SIZE).err().expect("an error").0;
            assert!(said.starts_with(key), "{said}");
        }
        assert!(build(&flash(), 1 << 60).is_err());
        assert!(turning().rotational() && !flash().rotational());
    }

    proptest! {
        #[test]
        fn any_load_ends_the_same_twice(requests in any_load(1 << 20), depth in 1..9_usize, turns in any::<bool>()) {
            let spec = if turns { turning() } else { flash() };
            same_twice(|| build(&spec, 1 << 20).expect("a disk"), &requests, depth);
        }
    }
}
