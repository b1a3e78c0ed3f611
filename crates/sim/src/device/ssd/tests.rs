// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::testing::*;
use super::super::Outcome;
use super::*;
use plumb_stats::random::SplitMix64;

const MIB: u64 = 1 << 20;
const US: Ns = 1000;

/// Four channels of one die; no cache, no spread.
fn plain() -> Ssd {
    Ssd {
        overhead: Time(10 * US),
        read_interval: Time(0),
        write_interval: Time(0),
        interface_rate: Bytes(4_096_000_000),
        full_duplex: false,
        queue_depth: 64,
        channels: 4,
        dies: 1,
        channel_rate: Some(Bytes(819_200_000)),
        page_size: Bytes(4096),
        block_size: Bytes(256 << 10),
        read: Time(60 * US),
        program: Time(400 * US),
        erase: Time(5000 * US),
        spread: 0.0,
        write_cache: Bytes(0),
        power_loss_protection: false,
        over_provisioning: 0.07,
        write_amplification: 3.0,
        fresh: false,
    }
}

/// With everything that there is.
pub(crate) fn small() -> Ssd {
    Ssd {
        write_cache: Bytes(64 << 10),
        page_size: Bytes(16 << 10),
        dies: 2,
        spread: 0.2,
        queue_depth: 8,
        read_interval: Time(3 * US),
        write_interval: Time(2 * US),
        ..plain()
    }
}

fn built(ssd: &Ssd, size: u64) -> Box<dyn Device> {
    build(ssd, size, 1).expect("makes sense")
}

fn near(is: f64, should: f64, part: f64) -> bool {
    (is / should - 1.0).abs() <= part
}

#[test]
fn one_read_takes_overhead_flash_and_transfers() {
    let mut place = places(64 * MIB, 4096, 1);
    let one = closed(built(&plain(), 64 * MIB).as_mut(), 0, 1, 1000, |_| read(place(), 4096));
    // 10 us overhead, 60 us read, 5 us channel, 1 us interface.
    assert_eq!((one.quantile(0.0), one.quantile(1.0)), (76 * US, 76 * US));
    assert_eq!((one.parts.overhead, one.parts.medium, one.parts.queued), (11_000 * US, 65_000 * US, 0));
}

#[test]
fn random_reads_scale_with_depth_up_to_the_dies() {
    let rate = |depth, dies| {
        let mut place = places(64 * MIB, 4096, 1);
        let ssd = Ssd { dies, ..plain() };
        closed(built(&ssd, 64 * MIB).as_mut(), 0, depth, 20_000, |_| read(place(), 4096)).rate()
    };
    let one = rate(1, 1);
    assert!(near(one, 1e9 / 76e3, 0.001), "{one}");
    let (two, all) = (rate(2, 1), rate(64, 1));
    assert!(two > 1.6 * one && two < 2.0 * one, "two {two}, one {one}");
    // Four dies of 60 us each, nearly always all at work.
    assert!(all > 0.9 * 4e9 / 60e3 && all <= 4e9 / 60e3, "{all}");
    assert!(rate(64, 2) > 1.6 * all, "twice as many dies");
}

#[test]
fn a_large_read_goes_to_all_channels_at_once() {
    let ends = run(built(&plain(), MIB).as_mut(), &[(0, read(0, 16 << 10))]);
    assert_eq!((ends[0].at, ends[0].parts.medium), ((10 + 60 + 5 + 4) * US, 65 * US));
    let ends = run(built(&plain(), MIB).as_mut(), &[(0, read(0, 32 << 10))]);
    assert_eq!(ends[0].at, (10 + 2 * 60 + 5 + 8) * US, "two pages a die");
    let ends = run(built(&plain(), MIB).as_mut(), &[(0, read(2048, 4096))]);
    assert_eq!(ends[0].at, (10 + 60 + 1) * US + 2500, "half of each of two pages");
}

#[test]
fn reads_of_one_channel_wait_like_m_d_1() {
    let ssd = Ssd { channels: 1, channel_rate: None, ..plain() };
    for load in [0.3, 0.6, 0.8] {
        let (mut random, mut at) = (SplitMix64::new(5), 0.0);
        let requests = (0..60_000).map(|_| {
            at += -(1.0 - random.unit()).ln() * 60e3 / load;
            (at as Ns, read(0, 512))
        });
        let requests: Vec<_> = requests.collect();
        let ends = run(built(&Ssd { queue_depth: 100_000, ..ssd.clone() }, MIB).as_mut(), &requests);
        let wait = ends.iter().map(|end| end.parts.queued as f64).sum::<f64>() / ends.len() as f64;
        let law = 60e3 * load / (2.0 * (1.0 - load));
        assert!(near(wait, law, 0.05), "load {load}: waits {wait:.0} ns, Pollaczek-Khinchine {law:.0}");
    }
}

#[test]
fn limits_of_commands_and_depth_hold() {
    let ssd = Ssd { read_interval: Time(50 * US), ..plain() };
    let mut place = places(64 * MIB, 4096, 1);
    let all = closed(built(&ssd, 64 * MIB).as_mut(), 0, 32, 5000, |_| read(place(), 4096));
    assert!(near(all.rate(), 20_000.0, 0.01), "{}", all.rate());
    let ssd = Ssd { queue_depth: 1, ..plain() };
    let all = closed(built(&ssd, 64 * MIB).as_mut(), 0, 32, 5000, |_| read(place(), 4096));
    assert!(near(all.rate(), 1e9 / 76e3, 0.001), "one at a time");
}

#[test]
fn the_interface_goes_both_ways_at_once_or_not() {
    let protected = Ssd { write_cache: Bytes(64 * MIB), power_loss_protection: true, ..small() };
    let rate = |full_duplex| {
        let ssd = Ssd { full_duplex, interface_rate: Bytes(50_000_000), spread: 0.0, ..protected.clone() };
        let next = |i| if i % 2 == 0 { write(i as u64 * 8192, 8192) } else { read(i as u64 * 8192, 8192) };
        closed(built(&ssd, 64 * MIB).as_mut(), 0, 8, 4000, next).rate() * 8192.0 / 50e6
    };
    let (half, full) = (rate(false), rate(true));
    assert!(near(half, 1.0, 0.01) && full > 1.7, "{half}, {full}");
}

#[test]
fn the_cache_acknowledges_until_it_is_full() {
    let ssd = Ssd { write_cache: Bytes(MIB), over_provisioning: 1.0, ..plain() };
    let all = closed(built(&ssd, 64 * MIB).as_mut(), 0, 1, 4000, |i| write(i as u64 * 4096, 4096));
    let took: Vec<Ns> = all.ends.iter().map(|end| end.parts.total()).collect();
    assert!(took[..250].iter().all(|t| *t == 11 * US), "at the interface's speed: {:?}", &took[..5]);
    let span = (all.ends[3999].at - all.ends[999].at) as f64;
    assert!(near(3000e9 / span, 4e9 / 400e3, 0.02), "then as dies program: {}", 3000e9 / span);
    let late = &all.ends[3000].parts;
    assert!(late.queued > 50 * US, "that is waiting: {late:?}");
}

#[test]
fn a_flush_waits_until_all_is_programmed_and_no_longer() {
    let ssd = Ssd { write_cache: Bytes(MIB), ..plain() };
    let requests = [(0, write(0, 4096)), (0, write(4096, 512)), (20 * US, flush()), (9000 * US, flush())];
    let ends = run(built(&ssd, 64 * MIB).as_mut(), &requests);
    // The page that is not full is programmed for the flush: 30 us, its channel, 400 us.
    assert_eq!((ends[2].at, ends[2].parts.medium), (435 * US, 405 * US));
    assert_eq!(ends[3].at, 9010 * US, "nothing is dirty");
    let one = Ssd { channels: 1, ..ssd };
    let mut requests: Vec<_> = (0..100).map(|i| (0, write(i * 4096, 4096))).collect();
    requests.push((200 * US, flush()));
    requests.push((201 * US, write(0, 4096)));
    let ends = run(built(&one, 64 * MIB).as_mut(), &requests);
    assert!(ends[100].at >= 100 * 400 * US && ends[100].at < 101 * 405 * US + 200 * US, "{:?}", ends[100]);
    assert!(ends[101].at < 300 * US);
}

#[test]
fn what_is_protected_flushes_at_once_and_what_is_forced_is_programmed() {
    let volatile = Ssd { write_cache: Bytes(MIB), ..plain() };
    let protected = Ssd { power_loss_protection: true, ..volatile.clone() };
    let loads =
        [(0, write(0, 4096)), (50 * US, fua(4096, 4096)), (9000 * US, write(0, 512)), (9050 * US, flush())];
    let took = |ssd: &Ssd| -> Vec<Ns> {
        let ends = run(built(ssd, MIB).as_mut(), &loads);
        ends.iter().zip(&loads).map(|(end, (at, _))| (end.at - at) / US).collect()
    };
    assert_eq!(took(&volatile), [11, 10 + 1 + 5 + 400, 10, 415]);
    assert_eq!(took(&protected), [11, 11, 10, 10]);
    assert_eq!(took(&plain()), [416, 416, 10 + 400, 10], "without a cache");
    let caches = [&volatile, &protected, &plain()].map(|ssd| built(ssd, MIB).volatile_cache());
    assert_eq!(caches, [true, false, false]);
}

#[test]
fn random_overwrites_use_up_the_spare_area_and_then_collect() {
    let size = 64 * MIB;
    let ssd = Ssd { write_cache: Bytes(MIB), erase: Time(8000 * US), ..plain() };
    let mut device = built(&ssd, size);
    let mut place = places(size, 4096, 1);
    let mut part = |from, count| closed(device.as_mut(), from, 16, count, |_| write(place(), 4096));
    let second = 1_000_000_000;
    // 4.48 MiB of spare area are 1,146 pages.
    let fresh = part(0, 1000);
    let used = part(100 * second, 4000);
    let steady = part(200 * second, 20_000);
    assert!(fresh.rate() > 10_000.0 * 0.99, "{}", fresh.rate());
    // A page costs 400 + 2 x 460 us, and 3/64 of 8 ms.
    let law = 4e9 / (400e3 + 2.0 * 460e3 + 8000e3 * 3.0 / 64.0);
    assert!(near(steady.rate(), law, 0.03), "{} a second, should {law}", steady.rate());
    assert!(used.rate() < 0.5 * fresh.rate());
    assert!(steady.quantile(0.999) > fresh.quantile(0.999) + 4000 * US, "pauses are seen");
}

#[test]
fn reads_beside_collecting_have_a_tail_of_its_pauses() {
    let size = 64 * MIB;
    let ssd = Ssd { write_cache: Bytes(MIB), erase: Time(8000 * US), dies: 4, ..plain() };
    let tail = |spare| {
        let mut place = places(size, 4096, 1);
        let ssd = Ssd { over_provisioning: spare, ..ssd.clone() };
        let next = |i| if i % 8 == 0 { write(place(), 4096) } else { read(place(), 4096) };
        let all = closed(built(&ssd, size).as_mut(), 0, 4, 60_000, next);
        let reads = |end: &&super::super::Completion| end.id % 8 != 0;
        let mut own: Vec<Ns> = all.ends.iter().filter(reads).map(|end| end.parts.medium).collect();
        own.sort_unstable();
        (own[own.len() / 2], own[own.len() * 999 / 1000])
    };
    let ((median, high), (fresh_median, fresh_high)) = (tail(0.0), tail(10.0));
    assert_eq!((fresh_median, fresh_high), (65 * US, 65 * US));
    assert!(median < 70 * US && high > 4000 * US, "{median}, {high}");
}

#[test]
fn sequential_overwrites_are_not_amplified_and_a_discard_makes_spare() {
    let size = 64 * MIB;
    let ssd = Ssd { write_cache: Bytes(MIB), over_provisioning: 0.0, ..plain() };
    let mut device = built(&ssd, size);
    let pages = (size / 4096) as usize;
    let sequential = closed(device.as_mut(), 0, 4, 2 * pages, |i| write((i % pages) as u64 * 4096, 4096));
    let law = 4e9 / (400e3 + 5000e3 / 64.0);
    assert!(near(sequential.rate(), law, 0.02), "{} a second, should {law}", sequential.rate());
    let mut place = places(size, 4096, 1);
    let mut random =
        |from, device: &mut dyn Device| closed(device, from, 4, 4000, |_| write(place(), 4096)).rate();
    let second = 1_000_000_000;
    let collecting = random(100 * second, device.as_mut());
    closed(device.as_mut(), 200 * second, 1, 1, |_| discard(0, 32 << 20));
    let spared = random(300 * second, device.as_mut());
    assert!(collecting < 3500.0 && spared > 9900.0, "{collecting}, {spared}");
    let fresh = Ssd { fresh: true, ..ssd };
    assert!(random(0, built(&fresh, size).as_mut()) > 9900.0);
}

#[test]
fn reads_go_before_programs_and_do_not_starve_them() {
    let ssd = Ssd { write_cache: Bytes(MIB), channels: 1, over_provisioning: 1.0, ..plain() };
    let mut place = places(64 * MIB, 4096, 1);
    let next = |i| if i % 100 == 0 { write(place(), 4096) } else { read(place(), 4096) };
    let mut device = built(&ssd, 64 * MIB);
    let all = closed(device.as_mut(), 0, 16, 40_000, next);
    let longest = all.latency.last().copied();
    // 16 reads before it, with a program or two between.
    assert!(longest < Some(16 * 65 * US + 3 * 405 * US), "{longest:?}");
    let ends = closed(device.as_mut(), 100_000_000_000, 1, 1, |_| flush());
    assert_eq!(ends.took, 10 * US, "all was programmed beside the reads");
}

#[test]
fn what_goes_beyond_the_end_fails() {
    let ends = run(built(&plain(), MIB).as_mut(), &[(0, write(MIB, 512)), (0, read(MIB - 512, 1024))]);
    let told: Vec<_> = ends.iter().map(|end| (end.at, end.outcome)).collect();
    assert_eq!(told, [(10 * US, Outcome::Failed(libc::ENOSPC)), (10 * US, Outcome::Failed(libc::EIO))]);
}

#[test]
fn a_write_longer_than_the_cache_goes_through() {
    let ssd = Ssd { write_cache: Bytes(16 << 10), ..plain() };
    let all = closed(built(&ssd, 64 * MIB).as_mut(), 0, 4, 50, |i| write(i as u64 * MIB, 1 << 20));
    assert!(all.rate() * 256.0 < 10_000.0 * 1.1, "{}", all.rate());
}

#[test]
fn contradictions_are_named() {
    let cases: [(Ssd, &str); 9] = [
        (Ssd { channels: 0, ..plain() }, "channels"),
        (Ssd { channel_rate: Some(Bytes(0)), ..plain() }, "channel-rate"),
        (Ssd { page_size: Bytes(1000), ..plain() }, "page-size"),
        (Ssd { block_size: Bytes(5000), ..plain() }, "block-size"),
        (Ssd { spread: 1.0, ..plain() }, "spread"),
        (Ssd { write_cache: Bytes(512), ..plain() }, "write-cache"),
        (Ssd { power_loss_protection: true, ..plain() }, "power-loss-protection"),
        (Ssd { over_provisioning: -0.1, ..plain() }, "over-provisioning"),
        (Ssd { write_amplification: 0.5, ..plain() }, "write-amplification"),
    ];
    for (ssd, key) in cases {
        let why = build(&ssd, MIB, 1).err().map_or(String::new(), |e| e.0);
        assert!(why.starts_with(&format!("medium.{key}: ")), "{key}: {why}");
    }
}

#[test]
fn another_seed_gives_other_times() {
    let took = |seed| {
        let mut device = build(&small(), MIB, seed).expect("makes sense");
        closed(device.as_mut(), 0, 1, 10, |_| read(0, 4096)).latency
    };
    assert_eq!(took(1), took(1));
    assert_ne!(took(1), took(2));
}

proptest::proptest! {
    #[test]
    fn any_load_ends(
        load in any_load(1 << 20),
        depth in 1..40_usize,
        seed: u64,
        cache in proptest::sample::select(vec![0_u64, 16 << 10, 64 << 10, 1 << 20]),
        protected: bool,
        spare in 0..3_u8,
    ) {
        let power_loss_protection = protected && cache > 0;
        let over_provisioning = f64::from(spare) * 0.1;
        let ssd = Ssd { write_cache: Bytes(cache), power_loss_protection, over_provisioning, ..small() };
        same_twice(|| build(&ssd, 1 << 20, seed).expect("makes sense"), &load, depth);
    }
}
