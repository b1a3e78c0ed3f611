// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::testing::Fixed;
use super::*;
use crate::device::{Outcome, Parts};
use crate::serve::log;
use plumb_machine::clock::now as monotonic;
use plumb_stats::random::SplitMix64;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Condvar;
use std::time::Duration;

const SIZE: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// An answer, and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reply {
    at: u64,
    answer: Result<Vec<u8>, i32>,
}

#[derive(Default)]
struct Desk {
    replies: Mutex<(HashMap<u64, Reply>, Vec<u64>)>,
    more: Condvar,
}

impl Front for Desk {
    fn reply(&self, token: u64, answer: Answer<'_>) {
        let at = monotonic();
        let answer = match answer {
            Answer::Data(bytes) => Ok(bytes.to_vec()),
            Answer::Done => Ok(Vec::new()),
            Answer::Failed(errno) => Err(errno),
        };
        let mut replies = self.replies.lock().expect("desk");
        assert!(replies.0.insert(token, Reply { at, answer }).is_none(), "answered twice: {token}");
        replies.1.push(token);
        self.more.notify_all();
    }
}

impl Desk {
    fn wait(&self, token: u64) -> Reply {
        let replies = self.replies.lock().expect("desk");
        let patience = Duration::from_secs(20);
        let waited = self.more.wait_timeout_while(replies, patience, |r| !r.0.contains_key(&token));
        // Not while it is locked: others still reply.
        let reply = waited.expect("desk").0 .0.get(&token).cloned();
        reply.expect("an answer")
    }

    fn order(&self) -> Vec<u64> {
        self.replies.lock().expect("desk").1.clone()
    }
}

struct Bench {
    realtime: Arc<Realtime>,
    desk: Arc<Desk>,
    front: Arc<dyn Front>,
}

fn start(device: Fixed, log: Option<Log>) -> Bench {
    let media = Media::memory(device.size).expect("media");
    let realtime = Realtime::start(Box::new(device), media, log).expect("start");
    let desk = Arc::new(Desk::default());
    Bench { realtime, front: Arc::clone(&desk) as Arc<dyn Front>, desk }
}

impl Bench {
    fn submit(&self, job: Job, data: &[u8]) {
        self.realtime.submit(job, data, &self.front);
    }

    fn read(&self, token: u64, offset: u64, length: u32) -> Reply {
        self.submit(job(Operation::Read, offset, length, token), &[]);
        self.desk.wait(token)
    }

    fn write(&self, token: u64, offset: u64, data: &[u8]) -> Reply {
        self.submit(job(Operation::Write, offset, data.len() as u32, token), data);
        self.desk.wait(token)
    }
}

fn job(operation: Operation, offset: u64, length: u32, token: u64) -> Job {
    Job { operation, offset, length, fua: false, token }
}

#[test]
fn replies_come_in_order_and_not_before_the_models_time() {
    let bench = start(Fixed::new(SIZE, 2 * MS).one_by_one(), None);
    let begin = monotonic();
    (0..20).for_each(|token| bench.submit(job(Operation::Read, 512 * token, 512, token), &[]));
    for token in 0..20 {
        let reply = bench.desk.wait(token);
        let due = begin + (token + 1) * 2 * MS;
        assert!(reply.at >= due, "{token}: {} ns early", due - reply.at);
        assert_eq!(reply.answer, Ok(vec![0; 512]));
    }
    assert_eq!(bench.desk.order(), (0..20).collect::<Vec<_>>());
    let services: Vec<_> = bench.realtime.last_service();
    assert_eq!(services.len(), 20);
    for (served, number) in services.iter().zip(0..) {
        assert_eq!(served.offset, 512 * number, "in the order of arrival");
        assert!(served.service > (number * 2 + 1) * MS && served.service <= (number + 1) * 2 * MS);
    }
    assert!(bench.realtime.last_service().is_empty());
}

#[test]
fn the_path_is_taken_off_but_no_more_than_there_is() {
    let bench = start(Fixed::new(SIZE, 50 * MS), None);
    bench.realtime.set_path(20 * MS);
    let mut least = u64::MAX;
    for token in 0..3 {
        let begin = monotonic();
        let took = bench.read(token, 0, 512).at - begin;
        assert!(took >= 30 * MS, "{took}");
        least = least.min(took);
        // The way back, and there again: the model's time does not go back.
        std::thread::sleep(Duration::from_millis(20));
    }
    // Without the path none could come before 50 ms; a busy machine may be late with some.
    assert!(least < 50 * MS, "{least}");
    // Without that way the model is as busy as it says.
    let begin = monotonic();
    (3..6).for_each(|token| drop(bench.read(token, 0, 512)));
    assert!(monotonic() - begin >= 130 * MS);
    std::thread::sleep(Duration::from_millis(20));
    // All of it: at once, by the thread that submits.
    bench.realtime.set_path(60 * MS);
    bench.submit(job(Operation::Read, 0, 512, 10), &[]);
    assert_eq!(bench.desk.order().last(), Some(&10));
    // The model's time is as before, in the sum of several requests too.
    assert!(bench.realtime.last_service().iter().all(|served| served.service == 50 * MS));
}

#[test]
fn a_nearer_moment_wakes_the_clock() {
    // The second request ends first.
    let mut times = [300 * MS, MS].into_iter();
    struct Two(Vec<(u64, u64)>, Box<dyn FnMut() -> u64 + Send>);
    impl Device for Two {
        fn size(&self) -> u64 {
            SIZE
        }
        fn submit(&mut self, now: Ns, request: crate::device::Request) {
            let at = now + (self.1)();
            self.0.push((at, request.id));
            self.0.sort_unstable();
        }
        fn next_event(&self) -> Option<Ns> {
            self.0.first().map(|(at, _)| *at)
        }
        fn advance(&mut self, now: Ns, ended: &mut Vec<crate::device::Completion>) {
            while let Some(&(at, id)) = self.0.first().filter(|(at, _)| *at <= now) {
                let parts = Parts::default();
                ended.push(crate::device::Completion { id, at, outcome: Outcome::Done, parts });
                self.0.remove(0);
            }
        }
        fn under_way(&self) -> usize {
            self.0.len()
        }
        fn volatile_cache(&self) -> bool {
            false
        }
    }
    let device = Two(Vec::new(), Box::new(move || times.next().unwrap_or(0)));
    let media = Media::memory(SIZE).expect("media");
    let realtime = Realtime::start(Box::new(device), media, None).expect("start");
    let desk = Arc::new(Desk::default());
    let bench = Bench { realtime, front: Arc::clone(&desk) as Arc<dyn Front>, desk };
    bench.submit(job(Operation::Read, 0, 512, 1), &[]);
    // The clock thread sleeps by now, or the ring finds it awake; either way it must not oversleep.
    std::thread::sleep(Duration::from_millis(20));
    bench.submit(job(Operation::Read, 0, 512, 2), &[]);
    bench.desk.wait(1);
    assert_eq!(bench.desk.order(), [2, 1]);
}

#[test]
fn what_was_written_is_read() {
    for time in [0, 50_000] {
        let bench = start(Fixed::new(SIZE, time), None);
        let threads = 4;
        let part = SIZE / threads;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let bench = &bench;
                scope.spawn(move || {
                    let mut random = SplitMix64::new(thread);
                    let mut model = vec![0_u8; part as usize];
                    for i in 0..300 {
                        let token = thread << 32 | i;
                        let first = random.below(part / 512);
                        let count = 1 + random.below((part / 512 - first).min(32));
                        let (begin, end) = ((first * 512) as usize, ((first + count) * 512) as usize);
                        let at = thread * part + first * 512;
                        match random.below(8) {
                            0..4 => {
                                let byte = random.next_u64() as u8;
                                model[begin..end].fill(byte);
                                assert_eq!(bench.write(token, at, &model[begin..end]).answer, Ok(vec![]));
                            }
                            4 => {
                                model[begin..end].fill(0);
                                bench.submit(job(Operation::Discard, at, (count * 512) as u32, token), &[]);
                                assert_eq!(bench.desk.wait(token).answer, Ok(vec![]));
                            }
                            5 => {
                                model[begin..end].fill(0);
                                bench.submit(job(Operation::Write, at, (count * 512) as u32, token), &[]);
                                assert_eq!(bench.desk.wait(token).answer, Ok(vec![]));
                            }
                            _ => {
                                let reply = bench.read(token, at, (count * 512) as u32);
                                assert_eq!(reply.answer.as_deref(), Ok(&model[begin..end]));
                            }
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_write_is_not_seen_before_it_ends() {
    let bench = start(Fixed::new(SIZE, 100 * MS).one_by_one(), None);
    let mut data = vec![7; 4096];
    bench.submit(job(Operation::Write, 0, 4096, 1), &data);
    // The server has a copy.
    data.fill(9);
    assert!(bench.read(2, 0, 4096).answer == Ok(vec![7; 4096]));
    bench.realtime.without_model(true);
    bench.submit(job(Operation::Read, 0, 4096, 3), &[]);
    assert_eq!(bench.desk.order(), [1, 2, 3]);
}

#[test]
fn when_it_stops_all_are_answered() {
    for how in [Realtime::stop, Realtime::fail_everything] {
        let bench = start(Fixed::new(SIZE, 60_000 * MS), None);
        (0..50).for_each(|token| bench.submit(job(Operation::Write, 0, 512, token), &[1; 512]));
        how(&bench.realtime);
        (0..50).for_each(|token| assert_eq!(bench.desk.wait(token).answer, Err(libc::EIO)));
        bench.submit(job(Operation::Read, 0, 512, 50), &[]);
        assert_eq!(bench.desk.wait(50).answer, Err(libc::EIO));
        how(&bench.realtime);
    }
}

#[test]
fn dropping_it_answers_all_and_ends_the_thread() {
    let bench = start(Fixed::new(SIZE, 60_000 * MS), None);
    bench.submit(job(Operation::Flush, 0, 0, 1), &[]);
    let inner = Arc::downgrade(&bench.realtime.inner);
    drop(bench.realtime);
    assert_eq!(bench.desk.wait(1).answer, Err(libc::EIO));
    assert!(inner.upgrade().is_none(), "the clock thread has ended");
}

#[test]
fn a_model_that_panics_fails_its_requests_and_hangs_none() {
    let device = Fixed::new(SIZE, MS).ends(|request| {
        assert!(request.offset != 4096, "on purpose");
        Outcome::Done
    });
    let bench = start(device, None);
    bench.submit(job(Operation::Read, 0, 512, 1), &[]);
    bench.submit(job(Operation::Read, 4096, 512, 2), &[]);
    bench.submit(job(Operation::Read, 0, 512, 3), &[]);
    assert_eq!([2, 3].map(|token| bench.desk.wait(token).answer), [Err(libc::EIO), Err(libc::EIO)]);
    bench.desk.wait(1);
}

#[test]
fn a_power_cut_takes_what_was_not_flushed() {
    let bench = start(Fixed::new(SIZE, 0).volatile(), None);
    bench.write(1, 0, &[1; 4096]);
    bench.submit(job(Operation::Flush, 0, 0, 2), &[]);
    bench.write(3, 0, &[2; 8192]);
    bench.submit(Job { fua: true, ..job(Operation::Write, 8192, 512, 4) }, &[3; 512]);
    let toll = bench.realtime.cut_power(0, 1).expect("cut");
    assert_eq!(toll, Toll { lost: 16, kept: 0, torn: 0, flushes: 1 });
    assert_eq!(bench.read(5, 0, 512).answer, Err(libc::EIO));
    bench.realtime.power_on();
    let all = bench.read(6, 0, 9216).answer.expect("read");
    let expected = [vec![1; 4096], vec![0; 4096], vec![3; 512], vec![0; 512]].concat();
    assert!(all == expected);
}

#[test]
fn a_power_cut_tears_what_is_under_way() {
    let bench = start(Fixed::new(SIZE, 60_000 * MS), None);
    bench.submit(job(Operation::Write, 0, SIZE as u32, 1), &vec![5; SIZE as usize]);
    bench.submit(job(Operation::Read, 0, 512, 2), &[]);
    let toll = bench.realtime.cut_power(50, 1).expect("cut");
    assert_eq!([1, 2].map(|token| bench.desk.wait(token).answer), [Err(libc::EIO), Err(libc::EIO)]);
    bench.realtime.power_on();
    bench.realtime.reset(Box::new(Fixed::new(SIZE, 0)));
    let all = bench.read(3, 0, SIZE as u32).answer.expect("read");
    assert_eq!(all.iter().filter(|&&b| b == 5).count() as u64, toll.torn * 512);
    assert!((900..1150).contains(&toll.torn), "half of 2048, nearly: {toll:?}");
}

#[test]
fn the_end_of_a_request_that_was_given_up_is_no_others() {
    let bench = start(Fixed::new(SIZE, 60 * MS), None);
    bench.submit(job(Operation::Write, 0, 512, 1), &[1; 512]);
    bench.realtime.cut_power(0, 1).expect("cut");
    bench.realtime.power_on();
    std::thread::sleep(Duration::from_millis(30));
    // In the place of the first, whose end comes in 30 ms.
    let begin = monotonic();
    let reply = bench.write(2, 512, &[2; 512]);
    assert_eq!(reply.answer, Ok(vec![]));
    assert!(reply.at - begin >= 60 * MS, "{}", reply.at - begin);
    assert_eq!(bench.desk.wait(1).answer, Err(libc::EIO));
}

#[test]
fn outcomes_reach_the_user_and_the_bytes() {
    let device = Fixed::new(SIZE, 0).volatile().ends(|request| match (request.operation, request.offset) {
        (Operation::Flush, _) | (_, 0) => Outcome::Lied,
        (_, 4096) => Outcome::Torn(512),
        (_, 8192) => Outcome::Failed(libc::EROFS),
        _ => Outcome::Done,
    });
    let bench = start(device, None);
    for (token, answer) in [(0, Ok(vec![])), (1, Ok(vec![])), (2, Err(libc::EROFS)), (3, Ok(vec![]))] {
        assert_eq!(bench.write(token, token * 4096, &[9; 1024]).answer, answer);
    }
    bench.submit(job(Operation::Flush, 0, 0, 4), &[]);
    assert_eq!(bench.desk.wait(4).answer, Ok(vec![]));
    bench.realtime.without_model(true);
    let nines = |token, offset| {
        let bytes = bench.read(token, offset, 1024).answer.expect("read");
        bytes.iter().filter(|&&b| b == 9).count()
    };
    assert_eq!([nines(10, 0), nines(11, 4096), nines(12, 8192), nines(13, 12288)], [0, 512, 0, 1024]);
    // The flush was a lie.
    assert_eq!(bench.realtime.cut_power(0, 1).expect("cut").lost, 3);
}

#[test]
fn odd_requests_are_refused_or_rounded() {
    let bench = start(Fixed::new(SIZE, 0), None);
    assert_eq!(bench.read(1, SIZE, 512).answer, Err(libc::EIO));
    assert_eq!(bench.read(2, u64::MAX, u32::MAX).answer, Err(libc::EIO));
    assert_eq!(bench.write(3, SIZE - 512, &[0; 1024]).answer, Err(libc::ENOSPC));
    bench.submit(job(Operation::Write, 0, 1024, 4), &[0; 512]);
    assert_eq!(bench.desk.wait(4).answer, Err(libc::EINVAL));
    assert_eq!(bench.read(5, 0, 0).answer, Ok(vec![]));
    // Not whole sectors: the model sees those around it (or panics), the bytes are exact.
    assert_eq!(bench.write(6, 510, &[1, 2, 3, 4]).answer, Ok(vec![]));
    assert_eq!(bench.read(7, 509, 6).answer, Ok(vec![0, 1, 2, 3, 4, 0]));
}

#[test]
fn the_log_has_a_line_for_each_request() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("log");
    let device = Fixed::new(SIZE, MS).one_by_one().ends(|request| match request.offset {
        4096 => Outcome::Failed(libc::EIO),
        _ => Outcome::Done,
    });
    let bench = start(device, Some(Log::create(&path).expect("log")));
    let begin = monotonic();
    for token in 0..30 {
        let operation = if token % 2 == 0 { Operation::Read } else { Operation::Write };
        bench.submit(job(operation, token % 10 * 4096, 4096, token), &[]);
    }
    (0..30).for_each(|token| drop(bench.desk.wait(token)));
    bench.realtime.without_model(true);
    bench.read(100, 0, 512);
    bench.realtime.stop();
    check_log(&path, begin);
    assert_eq!(bench.realtime.lines_lost(), 0);
}

#[test]
fn a_log_that_was_held_begins_with_the_fresh_model() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("log");
    let bench = start(Fixed::new(SIZE, 0), Some(Log::create(&path).expect("log")));
    bench.realtime.hold_log();
    bench.read(1, 0, 512).answer.expect("read");
    bench.realtime.reset(Box::new(Fixed::new(SIZE, 0)));
    bench.read(2, 4096, 512).answer.expect("read");
    bench.realtime.stop();
    let lines: Vec<_> = log::read(&path).expect("log").map(|l| l.expect("line").offset).collect();
    assert_eq!(lines, [4096]);
}

fn check_log(path: &Path, begin: u64) {
    let lines: Vec<_> = log::read(path).expect("log").map(|l| l.expect("line")).collect();
    assert_eq!(lines.len(), 30, "without a model there is no line");
    for (line, number) in lines.iter().zip(0..) {
        assert_eq!(line.offset, number % 10 * 4096);
        assert_eq!(line.operation, if number % 2 == 0 { Operation::Read } else { Operation::Write });
        assert_eq!(line.outcome, if number % 10 == 1 { Outcome::Failed(libc::EIO) } else { Outcome::Done });
        assert_eq!(line.parts.total(), line.model);
        assert_eq!(line.parts.medium, MS);
        assert!(line.arrival >= begin && line.sent >= line.arrival + line.model, "{line:?}");
    }
}
