// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads whose answer is known, for the tests that hold plumb against them.
//!
//! workload direct-writes N PATH | write-fsync N PATH | getppid N |
//!          spin MILLISECONDS | hogs N MILLISECONDS | sleep MILLISECONDS |
//!          naps MILLISECONDS | hogs-and-sleepers N MILLISECONDS |
//!          same-file-writes THREADS N BYTES PATH | datagrams N |
//!          operations THREADS N PATH | killed-operations N PATH |
//!          proxy PATH UPSTREAM | hand-over PATH | ask PATH |
//!          compute N | rows N PATH |
//!          answer-tcp LISTEN N sleep|spin MILLISECONDS | relay-tcp LISTEN N UPSTREAM | ask-tcp ADDRESS N

use plumb_trace::load::{LoadStream, OperationKind};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[repr(align(4096))]
struct Block([u8; 4096]);

fn spin(ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        std::hint::black_box(0);
    }
}

/// Prints what the kernel says of this process: CPU time and wait for a CPU, ns.
fn schedstat() {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    println!("schedstat {} {}", std::process::id(), text.trim());
}

fn tid() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// CLOCK_MONOTONIC, ns: the trace's clock.
fn now() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Connects, once somebody listens.
fn connect(address: &str) -> TcpStream {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true).expect("option");
                return stream;
            }
            Err(e) => assert!(Instant::now() < until, "{address}: {e}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A request and its answer.
fn exchange(server: &mut TcpStream) {
    server.write_all(&[1; 50]).expect("request");
    server.read_exact(&mut [0; 200]).expect("answer");
}

/// A pthread mutex, as C programs have it.
struct PthreadMutex(std::cell::UnsafeCell<libc::pthread_mutex_t>);
// SAFETY: it is made to be shared between threads.
unsafe impl Sync for PthreadMutex {}
static MUTEX: PthreadMutex = PthreadMutex(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
static ORDER: Mutex<Vec<(u32, u64, u64)>> = Mutex::new(Vec::new());

/// Holds the mutex for a while; logs who held it and when its unlock began and ended.
#[inline(never)]
fn hold_the_mutex(held: Duration) {
    // SAFETY: initialised statically; locked and unlocked by this thread.
    unsafe { libc::pthread_mutex_lock(MUTEX.0.get()) };
    std::thread::sleep(held);
    let begin = now();
    // SAFETY: as above.
    unsafe { libc::pthread_mutex_unlock(MUTEX.0.get()) };
    let end = now();
    ORDER.lock().expect("no thread panicked").push((tid(), begin, end));
}

fn threads(n: u64, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..n {
            scope.spawn(&work);
        }
    });
}

/// Asks N times over one end; another process answers each time after a while.
fn ask(n: u64, answer_after: Duration, mut mine: UnixStream, mut theirs: UnixStream, poll: bool) {
    // SAFETY: one thread so far; the child only reads, sleeps, writes and ends.
    if unsafe { libc::fork() } == 0 {
        let mut byte = [0];
        while matches!(theirs.read(&mut byte), Ok(1)) && byte[0] == 1 {
            std::thread::sleep(answer_after);
            theirs.write_all(&byte).expect("answer");
        }
        // SAFETY: ends the child without destructors.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: plain calls on our own descriptors.
    unsafe {
        let epoll = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, mine.as_raw_fd(), &mut event);
        for _ in 0..n {
            mine.write_all(&[1]).expect("ask");
            if poll {
                libc::epoll_wait(epoll, &mut event, 1, -1);
            }
            mine.read_exact(&mut [0]).expect("answer");
        }
        mine.write_all(&[0]).expect("end");
        libc::wait(std::ptr::null_mut());
    }
}

/// One operation from its begin to its end, told to the recording if there is one.
fn operation(
    told: &mut Option<LoadStream>,
    kind: OperationKind,
    offset: u64,
    work: impl FnOnce() -> std::io::Result<usize>,
) {
    let begin = now();
    let result = work();
    let end = now();
    if let Some(told) = told {
        let result = result.map_or_else(|e| -i64::from(e.raw_os_error().unwrap_or(0)), |n| n as i64);
        told.begin(begin, kind, 0, 0, offset);
        told.end(end, 0, result, 0);
    }
}

/// N times a write, a sync and a read of one block, and in the end an open that
/// fails and two operations at once.
fn operations(worker: u32, n: u64, path: &str) {
    let mut told = LoadStream::from_env(worker).expect("stream");
    assert!(told.is_some(), "recorded");
    let path = format!("{path}.{worker}");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("open");
    let mut block = [7; 4096];
    for i in 0..n {
        let at = i * 4096;
        operation(&mut told, OperationKind::Write, at, || file.write_at(&block, at));
        operation(&mut told, OperationKind::Sync, 0, || file.sync_data().map(|()| 0));
        operation(&mut told, OperationKind::Read, at, || file.read_at(&mut block, at));
    }
    operation(&mut told, OperationKind::Open, 0, || File::open("/nowhere/at all").map(|_| 0));
    let mut told = told.expect("seen above");
    told.begin(now(), OperationKind::Copy, 0, 1, 0);
    std::thread::sleep(Duration::from_millis(2));
    told.begin(now(), OperationKind::Other, 1, 1, 0);
    std::thread::sleep(Duration::from_millis(2));
    told.end(now(), 0, 100, 0);
    std::thread::sleep(Duration::from_millis(2));
    told.end(now(), 1, 0, 3_000_000);
    told.begin(now(), OperationKind::Close, 0, 1, 0);
    told.finish().expect("written");
}

fn readable(fd: &impl AsRawFd) {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, -1) }, 1);
}

/// Serves one client at a time: its request is answered with what `answer` makes of it.
fn serve(path: &str, mut answer: impl FnMut(u8) -> u8) {
    let listening = UnixListener::bind(path).expect("bind");
    loop {
        let (mut client, _) = listening.accept().expect("accept");
        let mut byte = [0];
        loop {
            readable(&client);
            if client.read(&mut byte).expect("read") == 0 {
                break;
            }
            let answer = [answer(byte[0])];
            client.write_all(&answer).expect("write");
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<u64>().expect("a number");
    match args[1].as_str() {
        "direct-writes" => {
            let file = File::options().write(true).custom_flags(libc::O_DIRECT).open(&args[3]).expect("open");
            let block = Box::new(Block([7; 4096]));
            for i in 0..number(2) {
                file.write_all_at(&block.0, i * 65536).expect("write");
            }
        }
        "write-fsync" => {
            let mut file = File::create(&args[3]).expect("create");
            for _ in 0..number(2) {
                file.write_all(&[7; 4096]).expect("write");
                file.sync_all().expect("fsync");
            }
            file.rewind().expect("seek");
        }
        "getppid" => {
            for _ in 0..number(2) {
                // SAFETY: a call without arguments.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
        }
        "mutex" => {
            threads(number(2), || {
                (0..number(3)).for_each(|_| hold_the_mutex(Duration::from_millis(number(4))))
            });
            let mut order = ORDER.lock().expect("no thread panicked");
            order.sort_by_key(|o| o.1);
            order.iter().for_each(|(tid, begin, end)| println!("unlock {tid} {begin} {end}"));
        }
        "appenders" => {
            let open =
                || File::options().append(true).create(true).custom_flags(libc::O_DSYNC).open(&args[4]);
            threads(number(2), || {
                let mut file = open().expect("open");
                let mut line = vec![b' '; 4096];
                line[..8].copy_from_slice(format!("{:08}", tid()).as_bytes());
                (0..number(3)).for_each(|_| file.write_all(&line).expect("append"));
            });
        }
        "pipe" => {
            let mut child = std::process::Command::new("cat")
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("cat");
            let (mut to, mut from) = (child.stdin.take().expect("pipe"), child.stdout.take().expect("pipe"));
            for _ in 0..number(2) {
                to.write_all(&[1]).expect("write");
                from.read_exact(&mut [0]).expect("read");
                std::thread::sleep(Duration::from_millis(number(3)));
            }
            drop(to);
            child.wait().expect("wait");
        }
        word @ ("unix" | "epoll") => {
            let (mine, theirs) = UnixStream::pair().expect("socket pair");
            ask(number(2), Duration::from_millis(number(3)), mine, theirs, word == "epoll");
        }
        // Asks another server for each answer.
        "proxy" => {
            let mut upstream = UnixStream::connect(&args[3]).expect("connect");
            serve(&args[2], |byte| {
                let mut byte = [byte];
                upstream.write_all(&byte).expect("write");
                readable(&upstream);
                upstream.read_exact(&mut byte).expect("read");
                byte[0]
            });
        }
        // Lets a thread of its own make each answer, which sleeps 20 ms over it.
        "hand-over" => {
            let (mut to, from) = UnixStream::pair().expect("socket pair");
            std::thread::spawn(move || {
                let (mut from, mut byte) = (from, [0]);
                loop {
                    from.read_exact(&mut byte).expect("read");
                    std::thread::sleep(Duration::from_millis(20));
                    from.write_all(&byte).expect("write");
                }
            });
            serve(&args[2], |byte| {
                let mut byte = [byte];
                to.write_all(&byte).expect("write");
                readable(&to);
                to.read_exact(&mut byte).expect("read");
                byte[0]
            });
        }
        // A client that polls for each reply.
        "ask" => {
            let mut server = UnixStream::connect(&args[2]).expect("connect");
            loop {
                server.write_all(&[1]).expect("write");
                readable(&server);
                server.read_exact(&mut [0]).expect("read");
            }
        }
        "join" => {
            std::thread::spawn({
                let ms = number(2);
                move || spin(ms)
            })
            .join()
            .expect("join");
        }
        "compute" => {
            let sum = (0..number(2))
                .fold(1u64, |x, i| std::hint::black_box(x.wrapping_mul(6364136223846793005) ^ i));
            println!("{sum}");
        }
        // Rows of a log, synced every $SYNC_EVERY rows: an application with a setting.
        "rows" => {
            let every = std::env::var("SYNC_EVERY").map_or(1, |n| n.parse().expect("SYNC_EVERY"));
            let mut file = File::create(&args[3]).expect("the file");
            for row in 1..=number(2) {
                file.write_all(&[b'r'; 100]).expect("a row");
                if row % every == 0 {
                    file.sync_data().expect("synced");
                }
            }
        }
        "sleep" => std::thread::sleep(Duration::from_millis(number(2))),
        "spin" => {
            spin(number(2));
            schedstat();
        }
        // Sleeps 3 ms and computes for 1 ms, by turns.
        "naps" => {
            let until = Instant::now() + Duration::from_millis(number(2));
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(3));
                spin(1);
            }
            schedstat();
        }
        "hogs-and-sleepers" => {
            let me = std::env::current_exe().expect("own path");
            let spawn = |i| {
                let load = if i % 2 == 0 { "spin" } else { "naps" };
                std::process::Command::new(&me).args([load, &args[3]]).spawn().expect("spawn")
            };
            for mut child in (0..2 * number(2)).map(spawn).collect::<Vec<_>>() {
                child.wait().expect("wait");
            }
        }
        // Every write holds the file's lock while it copies, and the others wait for it.
        "same-file-writes" => {
            let file = File::create(&args[5]).expect("create");
            let piece = vec![7; number(4) as usize];
            std::thread::scope(|scope| {
                for _ in 0..number(2) {
                    scope.spawn(|| (0..number(3)).for_each(|_| file.write_all_at(&piece, 0).expect("write")));
                }
            });
            println!("process {}", std::process::id());
        }
        "operations" => {
            let (n, path) = (number(3), &args[4]);
            std::thread::scope(|scope| {
                for worker in 0..number(2) as u32 {
                    scope.spawn(move || operations(worker, n, path));
                }
            });
        }
        // The last packet is still with the thread when it is killed.
        "killed-operations" => {
            let mut told = LoadStream::from_env(0).expect("stream");
            let file = File::create(&args[3]).expect("create");
            for _ in 0..number(2) {
                operation(&mut told, OperationKind::Rewrite, 0, || file.write_at(&[7; 512], 0));
            }
            // SAFETY: a signal to ourselves.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        // To itself over the loopback interface, each received before the next is sent.
        "datagrams" => {
            let bind = || std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
            let (from, to) = (bind(), bind());
            let mut received = [0; 100];
            for _ in 0..number(2) {
                from.send_to(&[7; 100], to.local_addr().expect("address")).expect("send");
                assert_eq!(to.recv(&mut received).expect("receive"), 100);
            }
            println!("process {}", std::process::id());
        }
        // A server of one client: N requests of 50 bytes, each answered by 200.
        "answer-tcp" | "relay-tcp" => {
            let listener = std::net::TcpListener::bind(&args[2]).expect("bind");
            let mut upstream = (args[1] == "relay-tcp").then(|| connect(&args[4]));
            let (mut client, _) = listener.accept().expect("accept");
            client.set_nodelay(true).expect("option");
            for _ in 0..number(3) {
                client.read_exact(&mut [0; 50]).expect("request");
                match &mut upstream {
                    Some(upstream) => exchange(upstream),
                    None if args[4] == "spin" => spin(number(5)),
                    None => std::thread::sleep(Duration::from_millis(number(5))),
                }
                client.write_all(&[7; 200]).expect("answer");
            }
            // The client ends the connection.
            let _ = client.read(&mut [0]);
        }
        // Its client.
        "ask-tcp" => {
            let mut server = connect(&args[2]);
            (0..number(3)).for_each(|_| exchange(&mut server));
        }
        "hogs" => {
            let me = std::env::current_exe().expect("own path");
            let spawn = |_| std::process::Command::new(&me).args(["spin", &args[3]]).spawn().expect("spawn");
            for mut child in (0..number(2)).map(spawn).collect::<Vec<_>>() {
                child.wait().expect("wait");
            }
        }
        other => panic!("no load '{other}'"),
    }
}
