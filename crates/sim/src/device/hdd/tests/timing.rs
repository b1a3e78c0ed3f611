// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts on their own: curve, geometry, angle, crossings.

use super::*;
use crate::device::hdd::arm::{Arm, Mechanics, Run};
use crate::device::hdd::geometry::{Geometry, TURN};
use crate::device::hdd::seek::Curve;
use crate::device::hdd::{Even, Zone, Zones};
use plumb_load::job::Time;
use plumb_stats::random::SplitMix64;

#[test]
fn the_seek_curve_meets_its_three_points_and_never_falls() {
    for (name, _) in PRESETS {
        let hdd = hdd(name);
        let curve = Curve::new(&hdd).unwrap();
        let points = [
            (1, hdd.seek.track_to_track),
            (hdd.cylinders / 3, hdd.seek.average),
            (hdd.cylinders - 1, hdd.seek.full_stroke),
        ];
        for (distance, time) in points {
            near(curve.time(distance) as f64, time.0 as f64, 1.0, &format!("{name} over {distance}"));
        }
        assert_eq!(curve.time(0), 0);
        let (mut last, mut step) = (curve.time(1), u64::MAX);
        for distance in (1..hdd.cylinders - 100).step_by(100) {
            let now = curve.time(distance + 100);
            assert!(now >= last, "{name}: falls at {distance}");
            // A longer way never costs more for each cylinder, but for the kink where the average is the border.
            assert!(now - last <= step.saturating_add(step / 8 + 2), "{name}: bends up at {distance}");
            (last, step) = (now, now - last);
        }
    }
}

#[test]
fn a_curve_that_bends_the_wrong_way_is_refused() {
    let mut hdd = hdd("atlas10k4");
    hdd.seek.average = Time(1_000_000);
    assert!(Curve::new(&hdd).is_err_and(|e| e.0.contains("seek.average = 1ms")));
}

#[test]
fn every_sector_has_one_place_and_tracks_follow_each_other() {
    let mut hdd = hdd("cheetah15k");
    hdd.cylinders = 7;
    hdd.heads = 3;
    hdd.zones = Zones::Table(vec![Zone { cylinders: 2, sectors: 11 }, Zone { cylinders: 5, sectors: 7 }]);
    let geometry = Geometry::new(&hdd, 12_345);
    assert_eq!(geometry.sectors, 2 * 3 * 11 + 5 * 3 * 7);
    let mut expected = 0;
    for cylinder in 0..7_u32 {
        for head in 0..3_u32 {
            let sectors = if cylinder < 2 { 11 } else { 7 };
            for sector in 0..sectors {
                let track = geometry.track(expected);
                assert_eq!((track.cylinder, track.head, track.sectors), (cylinder, head, sectors));
                assert_eq!(track.first + sector, expected);
                expected += 1;
            }
        }
    }
    assert_eq!(expected, geometry.sectors);
}

#[test]
fn zones_fall_evenly_and_hold_all_cylinders() {
    let zones = Zones::Even(Even { outer: 900, inner: 500, count: 5 }).table(1003);
    assert_eq!(zones.iter().map(|z| z.cylinders).sum::<u32>(), 1003);
    assert_eq!(zones.iter().map(|z| z.sectors).collect::<Vec<_>>(), [900, 800, 700, 600, 500]);
    assert_eq!(
        Zones::Even(Even { outer: 9, inner: 9, count: 1 }).table(3),
        [Zone { cylinders: 3, sectors: 9 }]
    );
}

#[test]
fn the_angle_does_not_drift_in_a_year() {
    // 7,200 rpm: a turn is 8,333,333 1/3 ns; 60 s are 7,200 turns exactly.
    let geometry = Geometry::new(&hdd("hdp72503"), 777);
    let track = geometry.track(1_000_000);
    for minutes in [1, 60, 60 * 24 * 365] {
        for now in [0, 1, 4_000_000, 59_999_999_999] {
            for border in [0, 1, TURN / 3, TURN - 1] {
                assert_eq!(
                    geometry.until(now, &track, border),
                    geometry.until(now + minutes * 60_000_000_000, &track, border)
                );
            }
        }
    }
}

#[test]
fn the_wait_ends_exactly_at_the_sector() {
    let geometry = Geometry::new(&hdd("hdp72503"), 31);
    let mut random = SplitMix64::new(2);
    for _ in 0..100_000 {
        let sector = random.below(geometry.sectors);
        let track = geometry.track(sector);
        let (now, border) = (random.below(1 << 60), track.border(sector - track.first));
        let wait = geometry.until(now, &track, border);
        assert!((-7200..TURN as i64).contains(&wait));
        // At the end of the wait the sector has begun, less than 1 ns ago.
        let late = geometry.until(now + geometry.ns(wait), &track, border);
        assert!((-7199..=0).contains(&late), "{late}");
    }
}

/// A whole cylinder and more in one way costs its turns and its skews, not a turn more.
#[test]
fn a_transfer_crosses_tracks_and_cylinders_without_losing_a_turn() {
    for (name, _) in PRESETS {
        for write in [false, true] {
            let hdd = hdd(name);
            let mechanics = Mechanics::new(&hdd, 99).unwrap();
            let geometry = &mechanics.geometry;
            let tracks = u64::from(hdd.heads) * 100;
            let sectors = geometry.track(0).sectors;
            let run = Run { first: 0, end: tracks * sectors, write };
            let start = mechanics.travel(Arm::default(), 0, Run { end: 1, ..run }, u64::MAX);
            let travel = mechanics.travel(Arm::default(), 0, run, u64::MAX);
            let skews = 99 * hdd.cylinder_skew_ns() + (tracks - 100) * hdd.track_skew_ns();
            let expected = tracks as f64 * 60e9 / f64::from(hdd.rpm) + skews as f64;
            let found = (travel.end - start.seek - start.rotation) as f64;
            near(found, expected, 0.001, &format!("{name} write {write}"));
            assert_eq!(travel.total(), travel.end);
        }
    }
}

/// A way that is stopped anywhere has come as far as the whole way had by then.
#[test]
fn a_way_that_is_stopped_is_the_beginning_of_the_whole_way() {
    let mechanics = Mechanics::new(&hdd("atlas10k4"), 5).unwrap();
    let run = Run { first: 700, end: 5000, write: false };
    let whole = mechanics.travel(Arm::default(), 1000, run, u64::MAX);
    let mut last = 700;
    for until in (1000..whole.end + 100_000).step_by(9_973) {
        let part = mechanics.travel(Arm::default(), 1000, run, until);
        assert_eq!(part.total(), until.min(whole.end) - 1000);
        assert!(part.reached >= last && part.reached <= 5000);
        assert!(part.seek <= whole.seek && part.rotation <= whole.rotation && part.medium <= whole.medium);
        if part.reached > 700 {
            let reached = mechanics.travel(Arm::default(), 1000, Run { end: part.reached, ..run }, u64::MAX);
            assert!(reached.end <= until, "{} was not reached at {until}", part.reached);
        }
        if part.reached < 5000 {
            let more = mechanics.travel(Arm::default(), 1000, Run { end: part.reached + 1, ..run }, u64::MAX);
            assert!(more.end >= until, "{} was reached at {until}", part.reached);
        }
        // From its last track on it can be told again.
        let leg = part.last;
        let again = mechanics.travel(leg.arm, leg.at, Run { first: leg.sector, ..run }, u64::MAX);
        assert_eq!(again.end, whole.end);
        last = part.reached;
    }
}

#[test]
fn contradictions_are_named() {
    let wrong = |change: fn(&mut Hdd), word: &str| {
        let mut hdd = hdd("hdp72503");
        change(&mut hdd);
        let error = build(&hdd, 1 << 30, 1).err().unwrap_or_else(|| panic!("{word}: taken"));
        assert!(error.0.contains(word), "{word}: {error}");
    };
    wrong(|h| h.rpm = 0, "rpm = 0");
    wrong(|h| h.heads = 0, "heads = 0");
    wrong(|h| h.cylinders = 1, "cylinders = 1");
    wrong(|h| h.zones = Zones::Even(Even { outer: 5, inner: 6, count: 1 }), "zones.inner = 6");
    wrong(|h| h.zones = Zones::Even(Even { outer: 5, inner: 5, count: 0 }), "zones.count = 0");
    wrong(|h| h.zones = Zones::Table(vec![Zone { cylinders: 1, sectors: 1 }]), "1 cylinders");
    wrong(|h| h.seek.average = Time(99_000_000), "seek.average 99ms");
    wrong(|h| h.track_skew = Some(Time(9_000_000)), "track-skew = 9ms");
    wrong(|h| h.queue_depth = 0, "queue-depth = 0");
    wrong(|h| h.segments = 0, "segments = 0");
    wrong(|h| h.interface_rate.0 = 0, "interface-rate = 0");
    wrong(|h| h.write_room = Some(plumb_load::job::Bytes(1 << 30)), "write-room = 1G");
    assert!(build(&hdd("atlas10k4"), 1 << 40, 1).is_err_and(|e| e.0.contains("size = 1099511627776")));
    assert!(build(&hdd("atlas10k4"), 513, 1).is_err_and(|e| e.0.contains("size = 513")));
}

#[test]
fn typing_errors_in_a_file_are_named() {
    let text = PRESETS[0].1;
    for (from, to, word) in [
        ("rpm = ", "rmp = ", "rmp"),
        ("outer = ", "outter = ", "outter"),
        ("average = ", "avrage = ", "avrage"),
        ("zones = {", "zones = 3 # {", "zones as {outer, inner, count}"),
    ] {
        let error = toml::from_str::<Spec>(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    let table = text.replace(
        "zones = { outer = 962, inner = 561, count = 16 }",
        "zones = [{cylinders = 47139, sectors = 600}]",
    );
    assert_ne!(table, text);
    let spec: Spec = toml::from_str(&table).unwrap();
    let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
    assert!(spec.build(1 << 30, 1).is_ok());
}
