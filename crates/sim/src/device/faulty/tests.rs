// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::instant::Instant;
use super::super::testing::*;
use super::super::{ssd, Outcome};
use super::*;

const MIB: u64 = 1 << 20;
const MS: Ns = 1_000_000;

/// As a file says it.
fn fault(text: &str) -> Fault {
    toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn with(texts: &[&str], inner: Box<dyn Device>) -> Box<dyn Device> {
    let faults: Vec<Fault> = texts.iter().map(|text| fault(text)).collect();
    build(&faults, inner, 1).expect("makes sense")
}

fn instant(texts: &[&str]) -> Box<dyn Device> {
    with(texts, Box::new(Instant::new(MIB)))
}

fn flash(texts: &[&str]) -> Box<dyn Device> {
    let spec = ssd::Ssd { spread: 0.0, ..ssd::tests::small() };
    with(texts, ssd::build(&spec, MIB, 1).expect("makes sense"))
}

/// Times and outcomes of these.
fn told(device: &mut dyn Device, requests: &[(Ns, Request)]) -> Vec<(Ns, Outcome)> {
    run(device, requests).iter().map(|end| (end.at, end.outcome)).collect()
}

#[test]
fn all_stands_still_every_so_often() {
    let mut device = instant(&["kind = 'stall'\nevery = '10ms'\nfor = '2ms'\nfrom = '5ms'\nuntil = '30ms'"]);
    let times = [0, 6 * MS, 14 * MS, 15 * MS, 16 * MS, 17 * MS, 25 * MS, 35 * MS];
    let requests = times.map(|at| (at, read(0, 512)));
    let ends = run(device.as_mut(), &requests);
    let late: Vec<Ns> = ends.iter().zip(times).map(|(end, at)| (end.at - at) / MS).collect();
    assert_eq!(late, [0, 0, 0, 2, 1, 0, 2, 0]);
    assert!(ends.iter().zip(times).all(|(end, at)| end.parts.fault == end.at - at));
}

#[test]
fn what_would_end_in_a_stall_ends_behind_it() {
    // A read takes 98 us; the stall begins 50 us after it.
    let alone = told(flash(&[]).as_mut(), &[(0, read(0, 4096))])[0].0;
    let mut device = flash(&["kind = 'stall'\nevery = '1ms'\nfor = '300us'"]);
    let ends = run(device.as_mut(), &[(MS - 50_000, read(0, 4096)), (3 * MS / 2, read(0, 4096))]);
    assert_eq!((ends[0].at, ends[1].at), (MS + 300_000, 3 * MS / 2 + alone));
    assert_eq!(ends[0].parts.fault, 350_000 - alone);
}

#[test]
fn a_stall_may_be_of_a_range_or_of_single_requests() {
    let every = "kind = 'stall'\nevery = '1ms'\nfor = '500us'\noffset = '64K'\nlength = '4K'";
    let at = MS + 1;
    let requests = [read(0, 4096), read(65_536, 512), read(61_440, 4096), read(61_440, 4608), flush()];
    let ends = told(instant(&[every]).as_mut(), &requests.map(|request| (at, request)));
    let late: Vec<bool> = ends.iter().map(|(end, _)| *end > at).collect();
    assert_eq!(late, [false, true, false, true, false]);
    let rate = "kind = 'stall'\nrate = 0.1\nfor = '5ms'\nafter = 1000";
    let all = closed(instant(&[rate]).as_mut(), 0, 1, 11_000, |_| read(0, 512));
    let late = all.ends.iter().filter(|end| end.parts.fault == 5 * MS);
    let late: Vec<u64> = late.map(|end| end.id).collect();
    assert!((900..1100).contains(&late.len()) && late[0] >= 1000, "{} from {}", late.len(), late[0]);
}

#[test]
fn it_becomes_slower_and_recovers() {
    let mut device =
        flash(&["kind = 'fail-slow'\nfrom = '100ms'\nuntil = '900ms'\nover = '400ms'\nfactor = 9.0"]);
    let times = [0, 50, 300, 600, 850, 950].map(|ms| ms * MS);
    let ends = run(device.as_mut(), &times.map(|at| (at, read(0, 4096))));
    let took: Vec<Ns> = ends.iter().zip(times).map(|(end, at)| end.at - at).collect();
    let factor = |i: usize| took[i] as f64 / took[0] as f64;
    assert_eq!((took[1], took[5]), (took[0], took[0]), "before and after");
    assert!((4.9..5.2).contains(&factor(2)), "half way: {}", factor(2));
    assert!((factor(3) - 9.0).abs() < 1e-3 && (factor(4) - 9.0).abs() < 1e-3, "{}", factor(3));
    assert!(ends[3].parts.fault.abs_diff(8 * took[0]) < 9, "{:?}", ends[3].parts);
}

#[test]
fn a_slow_device_is_slow_at_any_depth_and_from_a_request_on() {
    let slow = "kind = 'fail-slow'\nfactor = 4.0";
    let rate = |texts: &[&str]| {
        let mut place = places(MIB, 4096, 1);
        closed(flash(texts).as_mut(), 0, 8, 4000, |_| read(place(), 4096)).rate()
    };
    let slower = rate(&[]) / rate(&[slow]);
    assert!((slower - 4.0).abs() < 0.001, "{slower}");
    let late = format!("{slow}\nafter = 100");
    let all = closed(flash(&[&late]).as_mut(), 0, 1, 200, |_| read(0, 4096));
    let took = |i: usize| all.ends[i].parts.total();
    assert!((0..100).all(|i| took(i) == took(0)) && (100..200).all(|i| took(i) > 3 * took(0)));
}

#[test]
fn errors_come_of_their_operations_in_their_range_and_window() {
    let text = "kind = 'error'\noperations = ['read']\noffset = '8K'\nlength = '4K'\nfrom = '1ms'\nuntil = '3ms'\nretry = '7ms'";
    let requests = [
        (0, read(8192, 512)),
        (MS, read(8192, 512)),
        (MS, write(8192, 512)),
        (MS, read(0, 8192)),
        (3 * MS, read(8192, 512)),
    ];
    let ends = told(instant(&[text]).as_mut(), &requests);
    let done = Outcome::Done;
    let failed = (8 * MS, Outcome::Failed(libc::EIO));
    assert_eq!(ends, [(0, done), failed, (MS, done), (MS, done), (3 * MS, done)]);
    let text = "kind = 'error'\nrate = 0.25\nerrno = 'ETIMEDOUT'\noperations = ['flush']";
    let all =
        closed(instant(&[text]).as_mut(), 0, 4, 8000, |i| if i % 2 == 0 { flush() } else { write(0, 512) });
    let failed = all.ends.iter().filter(|end| end.outcome == Outcome::Failed(libc::ETIMEDOUT));
    let (failed, flushes) = failed.fold((0, 0), |(n, f), end| (n + 1, f + u64::from(end.id % 2 == 0)));
    assert!((900..1100).contains(&failed) && failed == flushes, "{failed}, {flushes}");
}

#[test]
fn writes_are_torn_dropped_or_refused_and_flushes_lie() {
    let requests = [read(0, 4096), write(0, 4096), write(0, 1024), flush(), discard(0, 4096)].map(|r| (5, r));
    let outcomes = |text: &str| -> Vec<Outcome> {
        told(instant(&[text]).as_mut(), &requests).into_iter().map(|(_, outcome)| outcome).collect()
    };
    use Outcome::{Done, Failed, Lied, Torn};
    assert_eq!(outcomes("kind = 'torn-write'\nsectors = 3"), [Done, Torn(1536), Done, Done, Done]);
    assert_eq!(outcomes("kind = 'dropped-write'"), [Done, Lied, Lied, Done, Done]);
    assert_eq!(outcomes("kind = 'lying-flush'"), [Done, Done, Done, Lied, Done]);
    let refused = Failed(libc::EROFS);
    assert_eq!(outcomes("kind = 'read-only'"), [Done, refused, refused, Done, refused]);
    let eio = Failed(libc::EIO);
    assert_eq!(outcomes("kind = 'read-only'\nerrno = 'EIO'\nafter = 2"), [Done, Done, eio, Done, eio]);
    for text in [
        "torn-write'",
        "dropped-write'",
        "lying-flush'",
        "read-only'",
        "error'",
        "stall'\nrate = 1\nfor = '1s'",
    ] {
        let kind = format!("kind = '{text}");
        for window in ["until = '4ns'", "from = '6ns'"] {
            let ends = told(instant(&[&format!("{kind}\n{window}")]).as_mut(), &requests);
            assert_eq!(ends, [(5, Done); 5], "{text}, {window}");
        }
    }
}

#[test]
fn torn_writes_end_anywhere() {
    let all = closed(instant(&["kind = 'torn-write'\nrate = 0.5"]).as_mut(), 0, 1, 8000, |_| write(0, 4096));
    let mut seen = [0; 8];
    let mut torn = 0;
    for end in &all.ends {
        if let Outcome::Torn(bytes) = end.outcome {
            seen[bytes as usize / 512] += 1;
            torn += 1;
        }
    }
    assert!((3800..4200).contains(&torn) && seen.iter().all(|n| (400..600).contains(n)), "{torn}: {seen:?}");
}

#[test]
fn a_lying_flush_does_not_wait() {
    let requests = [(0, write(0, 4096)), (50_000, flush())];
    let honest = told(flash(&[]).as_mut(), &requests);
    assert!(honest[1].0 > 400_000, "{honest:?}");
    assert_eq!(told(flash(&["kind = 'lying-flush'"]).as_mut(), &requests)[1], (50_000, Outcome::Lied));
}

#[test]
fn of_two_faults_the_worse_is_told() {
    let (torn, dropped) = ("kind = 'torn-write'\nsectors = 1", "kind = 'dropped-write'");
    let error = "kind = 'error'";
    for texts in [[torn, dropped], [dropped, torn]] {
        assert_eq!(told(instant(&texts).as_mut(), &[(0, write(0, 4096))])[0].1, Outcome::Lied);
    }
    let failed = Outcome::Failed(libc::EIO);
    assert_eq!(told(instant(&[error, torn]).as_mut(), &[(0, write(0, 4096))])[0].1, failed);
    assert_eq!(told(instant(&[torn, error]).as_mut(), &[(0, write(0, 4096))])[0].1, failed);
}

#[test]
fn contradictions_are_named() {
    let cases = [
        ("every", "kind = 'stall'\nfor = '1ms'"),
        ("every", "kind = 'stall'\nfor = '1ms'\nevery = '1s'\nrate = 0.5"),
        ("for", "kind = 'stall'\nfor = '1s'\nevery = '1ms'"),
        ("for", "kind = 'stall'\nfor = '0'\nevery = '1ms'"),
        ("length", "kind = 'error'\noffset = '4K'"),
        ("rate", "kind = 'error'\nrate = 2.0"),
        ("operations", "kind = 'error'\noperations = []"),
        ("factor", "kind = 'fail-slow'\nfactor = 0.5"),
        ("until", "kind = 'read-only'\nfrom = '2s'\nuntil = '1s'"),
    ];
    for (key, text) in cases {
        let faults = [fault("kind = 'lying-flush'"), fault(text)];
        let why = build(&faults, Box::new(Instant::new(MIB)), 1).err().map_or(String::new(), |e| e.0);
        assert!(why.starts_with(&format!("fault.1.{key}: ")), "{key}: {why}");
    }
    let unknown = toml::from_str::<Fault>("kind = 'read-only'\nrate = 0.5").expect_err("no such key");
    assert!(unknown.to_string().contains("`errno`, `from`, `until`, `after`"), "{unknown}");
}

/// One of each kind, at times that a short load meets.
const ALL: [&str; 8] = [
    "kind = 'stall'\nevery = '3ms'\nfor = '1ms'\nafter = 3",
    "kind = 'stall'\nrate = 0.1\nfor = '777us'\noffset = '4K'\nlength = '512K'",
    "kind = 'fail-slow'\nfactor = 7.3\nover = '5ms'\nfrom = '1ms'\nuntil = '20ms'",
    "kind = 'error'\nrate = 0.1\nretry = '300us'",
    "kind = 'torn-write'\nrate = 0.2",
    "kind = 'dropped-write'\nrate = 0.1",
    "kind = 'lying-flush'\nrate = 0.5",
    "kind = 'fail-slow'\nfactor = 1.7\nover = '2ms'\nafter = 20",
];

proptest::proptest! {
    #[test]
    fn any_load_ends(load in any_load(1 << 20), depth in 1..40_usize, seed: u64, first in 0..8_usize) {
        let faults: Vec<Fault> = (0..8).map(|i| fault(ALL[(first + i) % 8])).collect();
        let built = || {
            let inner = ssd::build(&ssd::tests::small(), 1 << 20, seed).expect("makes sense");
            build(&faults, inner, seed).expect("makes sense")
        };
        same_twice(built, &load, depth);
    }

    #[test]
    fn one_fault_at_a_time(load in any_load(1 << 20), depth in 1..40_usize, which in 0..8_usize) {
        same_twice(|| flash(&[ALL[which]]), &load, depth);
        same_twice(|| instant(&[ALL[which]]), &load, depth);
    }
}
