// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading ahead, and the write cache.

use super::*;
use crate::device::Parts;
use plumb_load::job::Bytes;
use plumb_stats::random::SplitMix64;

const MIB: u64 = 1 << 20;

fn submit_and_rest(disk: &mut dyn Device, now: Ns, request: Request) -> Completion {
    let mut ended = Vec::new();
    disk.advance(now, &mut ended);
    disk.submit(now, request);
    while !ended.iter().any(|c| c.id == request.id) {
        let next = disk.next_event().unwrap();
        disk.advance(next, &mut ended);
    }
    ended.into_iter().find(|c| c.id == request.id).unwrap()
}

#[test]
fn what_was_read_ahead_comes_at_the_speed_of_the_wire() {
    let mut disk = device("atlas10k4", 1);
    let first = submit_and_rest(&mut *disk, 0, read(1, 0, 4096));
    assert!(first.parts.medium > 0);
    // Three turns later the segment, 512 KiB, is full.
    let now = first.at + 30_000_000;
    let hit = submit_and_rest(&mut *disk, now, read(2, 4096, 65_536));
    let wire = 65_536 * 1_000_000_000_u64 / 320_000_000;
    assert_eq!((hit.at - now, hit.parts.overhead), (100_000 + wire, 100_000 + wire));
    // What was read before is still there; what the segment could not take is not.
    let again = submit_and_rest(&mut *disk, hit.at, read(3, 8192, 4096));
    assert_eq!(again.parts.medium, 0);
    let beyond = submit_and_rest(&mut *disk, again.at, read(4, 4 * MIB, 4096));
    assert!(beyond.parts.rotation + beyond.parts.seek > 0 && beyond.parts.medium > 0);
}

#[test]
fn what_comes_while_a_request_waits_need_not_be_read_again() {
    let mut disk = device("atlas10k4", 1);
    let block = |i: u64| if i == 0 { read(i, 9000 * MIB, 4096) } else { read(i, 1000 * MIB, 4096) };
    let done = run(&mut *disk, 3, 3, block, |_| 0);
    let media: Vec<_> = done.iter().map(|d| d.completion.parts.medium > 0).collect();
    assert_eq!(media.iter().filter(|&&medium| medium).count(), 2, "{done:?}");
}

/// The wire is faster than the platter: only the last sector comes behind it.
#[test]
fn a_long_read_is_sent_while_it_is_read() {
    let mut disk = device("atlas10k4", 1);
    let long = submit_and_rest(&mut *disk, 0, read(1, 0, 1 << 20));
    assert_eq!(long.parts.overhead, 100_000 + 1600, "the command and 512 bytes at 320 MB/s");
    // A wire that is slower is what it takes.
    let mut hdd = hdd("atlas10k4");
    hdd.interface_rate = Bytes(10_000_000);
    let mut disk = build(&hdd, 1 << 30, 1).unwrap();
    let long = submit_and_rest(&mut *disk, 0, read(1, 0, 1 << 20));
    let Parts { overhead, medium, .. } = long.parts;
    assert_eq!(overhead + medium, 100_000 + (1 << 20) * 100);
}

#[test]
fn another_request_ends_reading_ahead() {
    let mut disk = device("atlas10k4", 1);
    let first = submit_and_rest(&mut *disk, 0, read(1, 0, 4096));
    let far = submit_and_rest(&mut *disk, first.at, read(2, 10_000 * MIB, 4096));
    let back = submit_and_rest(&mut *disk, far.at, read(3, 400 << 10, 4096));
    assert!(back.parts.seek > 0, "{back:?}");
    // What the short time before was enough for is a hit.
    let near = submit_and_rest(&mut *disk, back.at, read(4, 4096, 512));
    assert_eq!((near.parts.seek, near.parts.medium), (0, 0), "{near:?}");
}

#[test]
fn a_written_sector_is_not_read_from_what_was_read_before() {
    let mut disk = device("atlas10k4", 1);
    let first = submit_and_rest(&mut *disk, 0, read(1, 0, 65_536));
    let hit = submit_and_rest(&mut *disk, first.at, read(2, 0, 4096));
    assert_eq!(hit.parts.medium, 0);
    let written = submit_and_rest(&mut *disk, hit.at, write(3, 0, 4096));
    assert!(written.parts.medium > 0);
    let miss = submit_and_rest(&mut *disk, written.at, read(4, 0, 4096));
    assert!(miss.parts.medium > 0);
}

/// A reader that takes less than the disk could give loses no turn to it.
#[test]
fn a_slow_sequential_reader_is_served_from_the_buffer() {
    let mut disk = device("atlas10k4", 2);
    // 64 KiB each 4 ms: 16 MB/s of 72.
    let done = run(&mut *disk, 1, 1000, |i| read(i, i * 65_536, 65_536), |_| 3_500_000);
    let hits = done.iter().filter(|d| d.completion.parts.medium == 0).count();
    assert!(hits >= 950, "{hits} of 1000 were hits");
}

#[test]
fn a_write_cache_acknowledges_at_once_until_it_is_full_and_a_flush_waits() {
    let mut disk = device("hdp72503", 4);
    let mut random = SplitMix64::new(3);
    let size = disk.size();
    let place = |random: &mut SplitMix64| random.below(size / 4096) * 4096;
    // 8 MiB of room: 2,048 blocks; some go to the platter meanwhile.
    let done = in_turn(&mut *disk, 2000, |i| write(i, place(&mut random), 4096));
    assert!(
        done.iter().all(|d| d.latency() < 1_000_000),
        "slowest: {:?}",
        done.iter().map(Done::latency).max()
    );

    let mut disk = device("hdp72503", 4);
    let done = in_turn(&mut *disk, 4000, |i| write(i, place(&mut random), 4096));
    let slow = done[3000..].iter().filter(|d| d.latency() > 1_000_000).count();
    assert!(slow > 500, "the cache is full: {slow} of 1000 were slow");
    assert!(done[3999].completion.parts.queued > 0);

    let mut disk = device("hdp72503", 4);
    for i in 0..200 {
        disk.submit(0, write(i, place(&mut random), 4096));
    }
    let mut ended = Vec::new();
    while ended.len() < 200 {
        let next = disk.next_event().unwrap();
        disk.advance(next, &mut ended);
    }
    let start = ended[199].at;
    let flushed = submit_and_rest(&mut *disk, start, flush(999));
    let took = flushed.at - start;
    // 200 random places at some ms each; what was written while the others arrived is little.
    assert!((300_000_000..2_000_000_000).contains(&took), "{took}");
    let parts = flushed.parts;
    assert!(
        parts.seek > 0 && parts.rotation > 0 && parts.medium > 0 && parts.queued < took / 100,
        "{parts:?}"
    );
    let idle = submit_and_rest(&mut *disk, flushed.at, flush(1000));
    assert_eq!((idle.at - flushed.at, idle.parts.overhead), (100_000, 100_000));
    rest(&mut *disk);
}

#[test]
fn a_flush_does_not_wait_for_what_is_written_after_it() {
    let mut disk = device("hdp72503", 4);
    let mut random = SplitMix64::new(8);
    let size = disk.size();
    let (mut ended, mut id) = (Vec::new(), 0);
    let mut next_write = |disk: &mut dyn Device, now| {
        id += 1;
        disk.submit(now, write(id, random.below(size / 4096) * 4096, 4096));
    };
    for _ in 0..20 {
        next_write(&mut *disk, 0);
    }
    while ended.len() < 20 {
        let next = disk.next_event().unwrap();
        disk.advance(next, &mut ended);
    }
    let start = ended[19].at;
    disk.submit(start, flush(1_000_000));
    // A write at each completion, without end: the flush still ends.
    next_write(&mut *disk, start);
    loop {
        let now = disk.next_event().unwrap();
        let before = ended.len();
        disk.advance(now, &mut ended);
        if ended.iter().any(|c| c.id == 1_000_000) {
            break;
        }
        for _ in before..ended.len() {
            next_write(&mut *disk, now);
        }
        assert!(now - start < 2_000_000_000, "the flush starves");
    }
    rest(&mut *disk);
}

#[test]
fn a_durable_write_waits_for_the_platter() {
    let mut disk = device("hdp72503", 4);
    let size = disk.size();
    let mut random = SplitMix64::new(6);
    let done = in_turn(&mut *disk, 500, |i| Request {
        fua: true,
        ..write(i, random.below(size / 4096) * 4096, 4096)
    });
    assert!(done.iter().all(|d| d.completion.parts.medium > 0));
    let turn = 60e9 / 7200.0;
    let all = mean(done.iter().map(Done::latency));
    assert!(all > 8.2e6 * 0.8 + turn / 2.0, "{all}");
    // Nothing is left for a flush.
    let last = done[499].completion.at;
    assert_eq!(submit_and_rest(&mut *disk, last, flush(9999)).at - last, 100_000);
}

#[test]
fn dirty_data_is_read_from_the_buffer_and_written_once() {
    let mut disk = device("hdp72503", 4);
    let written = submit_and_rest(&mut *disk, 0, write(1, 1000 * MIB, 65_536));
    assert!(written.at < 1_000_000);
    let back = submit_and_rest(&mut *disk, written.at, read(2, 1000 * MIB + 4096, 4096));
    assert_eq!((back.parts.seek, back.parts.rotation, back.parts.medium), (0, 0, 0));
    rest(&mut *disk);
}

#[test]
fn a_write_larger_than_the_room_goes_to_the_platter() {
    let mut hdd = hdd("hdp72503");
    hdd.write_room = Some(Bytes(65_536));
    let mut disk = build(&hdd, 1 << 30, 1).unwrap();
    let large = submit_and_rest(&mut *disk, 0, write(1, 0, 131_072));
    assert!(large.parts.medium > 0);
    let small = submit_and_rest(&mut *disk, large.at, write(2, 0, 65_536));
    assert_eq!(small.parts.medium, 0);
    rest(&mut *disk);
}

#[test]
fn a_discard_and_a_flush_without_a_cache_cost_the_command() {
    let mut disk = device("atlas10k4", 4);
    let discard = Request { operation: Operation::Discard, ..write(1, 0, 1 << 20) };
    assert_eq!(submit_and_rest(&mut *disk, 0, discard).at, 100_000);
    let written = submit_and_rest(&mut *disk, 100_000, write(2, 0, 4096));
    assert_eq!(submit_and_rest(&mut *disk, written.at, flush(3)).at - written.at, 100_000);
}

/// What was read before a write is not valid after it, though the write came by way of the write cache.
#[test]
fn what_was_read_is_forgotten_when_the_write_cache_takes_a_write() {
    let mut disk = device("hdp72503", 4);
    let first = submit_and_rest(&mut *disk, 0, read(1, 0, 65_536));
    let written = submit_and_rest(&mut *disk, first.at, write(2, 0, 4096));
    let hit = submit_and_rest(&mut *disk, written.at, read(3, 0, 4096));
    assert_eq!(hit.parts.medium, 0, "from what waits");
    rest(&mut *disk);
    let now = hit.at + 1_000_000_000;
    assert!(submit_and_rest(&mut *disk, now, read(4, 0, 4096)).parts.medium > 0);
}

/// Readers keep the arm busy; the flush gets its share of it, and they get theirs.
#[test]
fn a_flush_ends_although_readers_keep_coming() {
    let mut disk = device("hdp72503", 4);
    let size = disk.size();
    let mut random = SplitMix64::new(6);
    let mut request = |i: u64| match i {
        0..=19 => write(i, random.below(size / 4096) * 4096, 4096),
        20 => flush(i),
        _ => read(i, random.below(size / 4096) * 4096, 4096),
    };
    for i in 0..20 {
        submit_and_rest(&mut *disk, i * 200_000, request(i));
    }
    let done = run(&mut *disk, 16, 1000, |i| request(i + 20), |_| 0);
    let flushed = done.iter().find(|d| d.request.operation == Operation::Flush).unwrap();
    // 20 places and as many reads between them, each about 8 ms.
    assert!(flushed.latency() < 40 * 16_000_000, "{}", flushed.latency());
    let meanwhile = done.iter().filter(|d| d.completion.at < flushed.completion.at).count();
    assert!(meanwhile >= 10, "the readers got {meanwhile}");
}
