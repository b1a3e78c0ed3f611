// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sender and a collector: what arrives is what a recorder would have written here, whatever happens on the way, and
//! what does not arrive is told.

use plumb_net::{invite, Address, Collector, Invitation, Limits, News, RemoteSink};
use plumb_trace::ctf::Metadata;
use plumb_trace::reader::{Item, Trace};
use plumb_trace::schema::{StateCpuSample, StateEnd, StateTask};
use plumb_trace::writer::{DirectorySink, Sink, TraceWriter};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BEGIN: u64 = 1_000_000_000;

/// A set in a directory of its own, and who was invited to it.
struct Place {
    dir: tempfile::TempDir,
    invitation: Invitation,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("web1.invitation");
        invite(&dir.path().join("set"), "web1", &file).expect("invited");
        let invitation = Invitation::read(&file).expect("our own");
        Self { dir, invitation }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, name: &str) -> Address {
        Address::Unix(self.path(name))
    }

    fn sink(&self, at: &str, limits: Limits) -> anyhow::Result<RemoteSink> {
        RemoteSink::connect(&self.at(at), &self.invitation, &Metadata::default(), limits)
    }
}

/// A collector that runs until it is dropped.
struct Running {
    stop: Arc<AtomicBool>,
    news: Arc<Mutex<Vec<News>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(place: &Place, at: &str) -> Self {
        let collector = Collector::new(&place.path("set"), &place.at(at)).expect("it listens");
        let (stop, news) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stops, tells) = (stop.clone(), news.clone());
        let run = move || {
            let tell = |n| tells.lock().expect("news").push(n);
            collector.run(&|| stops.load(Ordering::Acquire), &tell);
        };
        Self { stop, news, thread: Some(thread::spawn(run)) }
    }

    fn wait_for(&self, what: impl Fn(&News) -> bool) -> News {
        let begun = Instant::now();
        loop {
            if let Some(found) = self.news.lock().expect("news").iter().find(|n| what(n)) {
                return found.clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "news: {:?}", self.news);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ended(&self) -> PathBuf {
        match self.wait_for(|n| matches!(n, News::Ended { .. })) {
            News::Ended { dir, .. } => dir,
            _ => unreachable!("it was looked for"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the collector ended well");
        }
    }
}

/// Passes bytes on, and cuts each connection after `cut` bytes of the sender's.
fn cutting_proxy(from: PathBuf, to: PathBuf, cut: usize, cuts: Arc<AtomicUsize>) {
    let listener = UnixListener::bind(from).expect("it listens");
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(mut client), Ok(mut server)) = (client, UnixStream::connect(&to)) else { continue };
            let (mut back, mut answers) =
                (client.try_clone().expect("again"), server.try_clone().expect("again"));
            thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
            });
            let (mut left, mut buf) = (cut, [0; 4096]);
            while let Ok(n @ 1..) = client.read(&mut buf) {
                if n >= left {
                    let _ = server.write_all(&buf[..left]);
                    cuts.fetch_add(1, Ordering::AcqRel);
                    break;
                }
                left -= n;
                if server.write_all(&buf[..n]).is_err() {
                    break;
                }
            }
            let _ = (client.shutdown(std::net::Shutdown::Both), server.shutdown(std::net::Shutdown::Both));
        }
    });
}

fn record(n: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(BEGIN + n * 1000).to_le_bytes());
    bytes[8..16].copy_from_slice(&(1u64 | 1 << 16 | (7 + n % 3) << 32).to_le_bytes());
    bytes
}

/// Writes a trace of so many events on two CPUs; `each` is called at every thousandth.
fn write<S: Sink>(sink: S, events: u64, mut each: impl FnMut(u64)) -> std::io::Result<()> {
    let mut w = TraceWriter::new(sink, 2, BEGIN);
    for n in 0..events {
        w.record((n % 2) as u32, &record(n))?;
        if n % 1000 == 0 {
            each(n);
            w.state(BEGIN + n * 1000, &StateTask { tid: n as u32 + 1, ..StateTask::default() })?;
            w.flush()?;
        }
    }
    let end = BEGIN + events * 1000;
    w.state(end, &StateEnd { events, begin: BEGIN, end, ..StateEnd::default() })?;
    w.finish().map(drop)
}

/// Files of a trace.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a trace").map(|e| e.expect("entry").path());
    let named = entries.map(|p| (p.file_name().expect("name").to_string_lossy().into_owned(), p));
    named.filter(|(n, _)| !n.starts_with('.')).map(|(n, p)| (n, std::fs::read(p).expect("file"))).collect()
}

fn written_here(place: &Place, events: u64) -> BTreeMap<String, Vec<u8>> {
    let dir = place.path("here");
    let sink = DirectorySink::create(&dir, &Metadata::default()).expect("directory");
    write(sink, events, |_| {}).expect("written");
    files(&dir)
}

/// Events of a trace, and those that it tells were lost.
fn counted(dir: &Path) -> (u64, u64) {
    let trace = Trace::open(dir).expect("it is readable");
    let (mut events, mut lost) = (0, 0);
    trace
        .for_each(|item| match item {
            Item::Record(_) => events += 1,
            Item::Gap(gap) => lost += gap.lost,
            _ => {}
        })
        .expect("it is whole");
    (events, lost)
}

#[test]
fn what_arrives_is_what_would_have_been_written_here() {
    let place = Place::new();
    let here = written_here(&place, 50_000);
    let collector = Running::new(&place, "s");
    let sink = place.sink("s", Limits::default()).expect("connected");
    write(sink, 50_000, |_| {}).expect("sent");
    let dir = collector.ended();
    assert_eq!(dir, place.path("set/web1"));
    assert!(files(&dir) == here, "the same files, byte by byte");
    // The next one of the same sender is a recording of its own.
    let sink = place.sink("s", Limits::default()).expect("connected");
    write(sink, 1000, |_| {}).expect("sent");
    collector.wait_for(|n| matches!(n, News::Ended { dir, .. } if dir.ends_with("web1~2")));
    assert_eq!(counted(&place.path("set/web1~2")), (1000, 0));
}

#[test]
fn nothing_is_lost_or_doubled_by_connections_that_break_at_any_point() {
    for point in 0..20 {
        let place = Place::new();
        let here = written_here(&place, 30_000);
        let collector = Running::new(&place, "s");
        let cuts = Arc::new(AtomicUsize::new(0));
        // A packet has to fit: it is sent again whole.
        cutting_proxy(place.path("p"), place.path("s"), 70_000 + point * 19_937, cuts.clone());
        let sink = place.sink("p", Limits::default()).expect("connected");
        write(sink, 30_000, |_| {}).expect("sent");
        assert!(files(&collector.ended()) == here, "point {point}: the same files");
        assert!(cuts.load(Ordering::Acquire) > 0, "point {point}: it was cut");
    }
}

#[test]
fn a_collector_that_starts_again_goes_on_where_it_was_killed() {
    let place = Place::new();
    let here = written_here(&place, 40_000);
    let mut collector = Some(Running::new(&place, "s"));
    let sink = place.sink("s", Limits::default()).expect("connected");
    let path = place.path("set/web1/cpu_0");
    write(sink, 40_000, |n| {
        if n == 20_000 {
            let begun = Instant::now();
            while std::fs::metadata(&path).map_or(0, |m| m.len()) == 0 {
                assert!(begun.elapsed() < Duration::from_secs(20), "nothing came");
                thread::sleep(Duration::from_millis(5));
            }
            collector = None;
            // As if it had been killed while it wrote a packet.
            let mut file = std::fs::File::options().append(true).open(&path).expect("its file");
            file.write_all(&[0xc1; 100]).expect("torn");
            collector = Some(Running::new(&place, "s"));
        }
    })
    .expect("sent");
    let collector = collector.expect("the second one");
    assert!(files(&collector.ended()) == here, "the same files");
    collector.wait_for(|n| matches!(n, News::Resumed { .. }));
}

#[test]
fn a_collector_that_is_away_costs_events_that_are_told_and_no_time() {
    let place = Place::new();
    let mut collector = Some(Running::new(&place, "s"));
    let limits = Limits { memory: 400_000, end: Duration::from_secs(20) };
    let sink = place.sink("s", limits).expect("connected");
    let begun = Instant::now();
    write(sink, 60_000, |n| {
        if n == 10_000 {
            collector = None;
        }
        if n == 50_000 {
            assert!(begun.elapsed() < Duration::from_secs(10), "the writer waited");
            collector = Some(Running::new(&place, "s"));
        }
    })
    .expect("sent");
    let dir = collector.expect("it is back").ended();
    let (events, lost) = counted(&dir);
    assert!(lost > 10_000, "{events} events, {lost} lost");
    assert_eq!(events + lost, 60_000);
}

#[test]
fn what_is_lost_last_is_told_too() {
    let place = Place::new();
    let collector = Running::new(&place, "s");
    let limits = Limits { memory: 100_000, end: Duration::from_secs(20) };
    let mut sink = place.sink("s", limits).expect("connected");
    // More than fits, at once: the last packets find no room.
    let mut w = TraceWriter::new(Collected::default(), 1, BEGIN);
    (0..40_000).try_for_each(|n| w.record(0, &record(n))).expect("memory");
    let packets = w.finish().expect("memory").0;
    packets.iter().try_for_each(|(stream, packet)| sink.packet(*stream, packet)).expect("taken");
    let lost = sink.lost();
    assert!(lost > 1000 && sink.notes()[0].contains("were not sent"), "{:?}", sink.notes());
    sink.finish().expect("sent");
    assert_eq!(counted(&collector.ended()), (40_000 - lost, lost));
}

#[derive(Default)]
struct Collected(Vec<(plumb_trace::writer::Stream, Vec<u8>)>);

impl Sink for Collected {
    fn packet(&mut self, stream: plumb_trace::writer::Stream, packet: &[u8]) -> std::io::Result<()> {
        self.0.push((stream, packet.to_vec()));
        Ok(())
    }
}

#[test]
fn a_stream_that_begins_with_a_loss_and_lost_stacks_are_told() {
    let place = Place::new();
    let collector = Running::new(&place, "s");
    let limits = Limits { memory: 1 << 10, end: Duration::from_secs(20) };
    let mut sink = place.sink("s", limits).expect("connected");
    let mut w = TraceWriter::new(Collected::default(), 2, BEGIN);
    (0..3000).try_for_each(|n| w.record(1, &record(n))).expect("memory");
    (0..500u64).for_each(|n| {
        let sample = StateCpuSample { at: BEGIN + n, thread: 7, cpu: 1, kernel: 1, user: 0 };
        w.wait(BEGIN + n, &sample).expect("memory");
    });
    for (stream, packet) in w.finish().expect("memory").0 {
        // Nothing fits.
        sink.packet(stream, &packet).expect("taken");
    }
    assert_eq!((sink.lost(), sink.stacks_lost()), (3000, 500));
    sink.finish().expect("sent");
    let trace = Trace::open(&collector.ended()).expect("it is readable");
    let mut gaps = Vec::new();
    trace
        .for_each(|item| {
            if let Item::Gap(gap) = item {
                gaps.push(gap)
            }
        })
        .expect("whole");
    let [gap] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.cpu, gap.lost, gap.begin), (1, 3000, BEGIN), "{gap:?}");
}

#[test]
fn a_sender_with_a_backlog_hears_why_it_is_refused() {
    let place = Place::new();
    let _collector = Running::new(&place, "s");
    let mut sink = place.sink("s", Limits::default()).expect("connected");
    // What a full disk does: a file that cannot be made.
    std::fs::create_dir(place.path("set/web1/cpu_0")).expect("in the way");
    let mut w = TraceWriter::new(Collected::default(), 1, BEGIN);
    (0..200_000).try_for_each(|n| w.record(0, &record(n))).expect("memory");
    let packets = w.finish().expect("memory").0;
    let taken = packets.iter().try_for_each(|(stream, packet)| sink.packet(*stream, packet));
    let error = taken.and_then(|()| sink.finish()).expect_err("refused").to_string();
    assert!(error.contains("the collector refuses") && error.contains("cpu_0"), "{error}");
}

#[test]
fn without_a_collector_the_end_says_so_in_time() {
    let place = Place::new();
    let error = place.sink("s", Limits::default()).expect_err("nobody listens");
    assert!(format!("{error:#}").contains("does 'plumb collect' listen there?"), "{error:#}");
    let mut collector = Some(Running::new(&place, "s"));
    let limits = Limits { end: Duration::from_millis(300), ..Limits::default() };
    let sink = place.sink("s", limits).expect("connected");
    let begun = Instant::now();
    let error = write(sink, 5000, |n| {
        if n == 3000 {
            let begun = Instant::now();
            // The metadata is there since it connected: events must be, too.
            while Trace::open(&place.path("set/web1")).is_err() {
                assert!(begun.elapsed() < Duration::from_secs(20), "nothing came");
                thread::sleep(Duration::from_millis(5));
            }
            collector = None;
        }
    });
    let error = error.expect_err("nobody takes it").to_string();
    assert!(error.contains("the collector has not got the last"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    // What came is readable, as a recording that was cut off.
    let (events, _) = counted(&place.path("set/web1"));
    assert!(events < 5000, "{events}");
    // Whoever does not wait ends at once, whatever its thread waits for.
    let begun = Instant::now();
    drop(Running::new(&place, "s"));
    let collector = Running::new(&place, "s");
    let sink = place.sink("s", Limits::default()).expect("connected");
    drop(collector);
    drop(sink);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn only_those_who_were_invited_come_in_and_only_to_who_invited_them() {
    let (place, other) = (Place::new(), Place::new());
    let collector = Running::new(&place, "s");
    // Another collector's guest.
    let sink =
        RemoteSink::connect(&place.at("s"), &other.invitation, &Metadata::default(), Limits::default());
    let error = format!("{:#}", sink.expect_err("not invited here"));
    assert!(error.contains("is it the collector that invited it?"), "{error}");
    // Our collector's key is known to its guests only, and an invitation can be taken back.
    std::fs::remove_file(place.path("set/.keys/web1.pub")).expect("taken back");
    assert!(place.sink("s", Limits::default()).is_err());
    collector.wait_for(|n| matches!(n, News::Failed { dir: None, .. }));
    // Who is invited while it runs may come.
    let file = place.path("db.invitation");
    invite(&place.path("set"), "db", &file).expect("invited");
    let invitation = Invitation::read(&file).expect("our own");
    let sink = RemoteSink::connect(&place.at("s"), &invitation, &Metadata::default(), Limits::default());
    write(sink.expect("invited"), 1000, |_| {}).expect("sent");
    assert_eq!(counted(&collector.ended()), (1000, 0));
}

#[test]
fn what_strangers_send_ends_their_connection_alone() {
    let place = Place::new();
    let collector = Running::new(&place, "s");
    let sink = place.sink("s", Limits::default()).expect("connected");
    let mut strangers = Vec::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0],
        &[0; 70_000],
        b"\xff\xff\xff\xff",
    ] {
        let mut stranger = UnixStream::connect(place.path("s")).expect("connected");
        let _ = stranger.write_all(bytes);
        strangers.push(stranger);
    }
    // One that says nothing holds nobody up.
    strangers.push(UnixStream::connect(place.path("s")).expect("connected"));
    write(sink, 20_000, |_| {}).expect("sent");
    assert_eq!(counted(&collector.ended()), (20_000, 0));
    assert!(std::fs::read_dir(place.path("set")).expect("set").count() == 2, "web1 and the keys");
}

#[test]
fn packets_that_do_not_follow_are_refused_and_what_came_stays() {
    let place = Place::new();
    let collector = Running::new(&place, "s");
    let mut sink = place.sink("s", Limits::default()).expect("connected");
    let mut w = TraceWriter::new(Collected::default(), 1, BEGIN);
    (0..9000).try_for_each(|n| w.record(0, &record(n))).expect("memory");
    let packets = w.finish().expect("memory").0;
    assert!(packets.len() > 3);
    sink.packet(packets[0].0, &packets[0].1).expect("taken");
    sink.packet(packets[2].0, &packets[2].1).expect("taken");
    let error = sink.finish().expect_err("one is missing").to_string();
    assert!(error.contains("packet 2 of cpu_0 where 1 is next"), "{error}");
    collector.wait_for(|n| matches!(n, News::Failed { dir: Some(_), .. }));
    assert_eq!(files(&place.path("set/web1"))["cpu_0"], packets[0].1);
}
