// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls that the standard library does not have, each behind a safe function.

pub mod ipc;

use anyhow::{bail, Context, Result};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs `rounds` rounds of arithmetic that no compiler can leave out.
fn arithmetic(rounds: u64) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        black_box(x);
    }
}

/// The shortest of several tries of the same: whoever takes the CPU away meanwhile only makes a
/// try slower.
///
/// # Errors
/// That of a try.
pub fn shortest(mut once: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        once()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// How many rounds of [`spin`]'s arithmetic this CPU makes in a microsecond.
pub fn calibrate() -> u64 {
    const ROUNDS: u64 = 2_000_000;
    let best = shortest(|| {
        arithmetic(ROUNDS);
        Ok(())
    });
    (ROUNDS as f64 / best.map_or(1e-3, |b| b.as_secs_f64()) / 1e6).round().max(1.0) as u64
}

/// Works on the CPU for `us` microseconds' worth of rounds: a fixed amount of work, not of time,
/// so that it takes longer when the CPU is taken away.
pub fn spin(rate: u64, us: u64) {
    arithmetic(rate * us);
}

/// Works on the CPU until the clock says so, however much gets done.
pub fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        arithmetic(100);
    }
}

/// Sleeps; `0` does not even make the call.
pub fn sleep_us(us: u64) {
    if us > 0 {
        std::thread::sleep(Duration::from_micros(us));
    }
}

fn check(result: libc::c_int, what: &str) -> Result<()> {
    if result == 0 {
        return Ok(());
    }
    bail!("{what}: {}", io::Error::last_os_error())
}

/// CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data, and the call gets its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: every index is below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps the calling thread, and threads that it starts later, on one CPU.
pub fn pin(cpu: usize) -> Result<()> {
    // SAFETY: cpu_set_t is plain data; CPU_SET checks the index; the call gets its size.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    check(done, &format!("CPU {cpu}: sched_setaffinity"))
}

/// Makes the calling thread SCHED_FIFO of the lowest real-time priority.
pub fn fifo() -> Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid pointer.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) }, "sched_setscheduler(SCHED_FIFO)")
}

/// Sets the nice value of the calling thread.
pub fn nice(value: i32) -> Result<()> {
    // SAFETY: a call with plain numbers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }, "setpriority")
}

/// Lets sleeps of the calling thread end on time instead of up to 50 us late.
pub fn sharp_timers() {
    // SAFETY: a call with plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// The kernel kills this process when the thread that started it ends.
pub fn die_with_parent() {
    // SAFETY: a call with plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends a process and its whole group, if it leads one.
pub fn kill_group(pid: u32, signal: libc::c_int) {
    // SAFETY: a call with plain numbers; the group is one that this program started.
    unsafe { libc::kill(-(pid as libc::pid_t), signal) };
}

/// Sends a signal to one process.
pub fn kill(pid: u32, signal: libc::c_int) {
    // SAFETY: a call with plain numbers.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Fills `buffer` with random bytes of the kernel.
pub fn getrandom(buffer: &mut [u8]) {
    // SAFETY: pointer and length are of one live slice.
    unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) };
}

/// Zero bytes that never leave the memory: a disk that is swapped to must not need itself.
pub struct LockedMemory {
    start: *mut u8,
    len: usize,
}

// SAFETY: plain bytes; whoever writes and reads the same at once gets one or the other, as of a disk.
unsafe impl Send for LockedMemory {}
// SAFETY: as above.
unsafe impl Sync for LockedMemory {}

impl LockedMemory {
    /// `len` bytes; the process's own memory stays where it is too.
    pub fn new(len: u64) -> Result<Self> {
        let len = usize::try_from(len).context("size of the memory")?;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping at no given address.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            bail!("mmap: {}", io::Error::last_os_error());
        }
        let memory = Self { start: start.cast(), len };
        // What is touched stays; the rest takes no memory.
        // SAFETY: the mapping above; the second call takes only flags.
        let locked = unsafe {
            libc::mlock2(start, len, libc::MLOCK_ONFAULT) == 0
                && libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) == 0
        };
        if !locked {
            bail!("mlock2: {}", io::Error::last_os_error());
        }
        Ok(memory)
    }

    fn at(&self, offset: u64, len: usize) -> io::Result<*mut u8> {
        let begin =
            usize::try_from(offset).ok().filter(|b| b.checked_add(len).is_some_and(|end| end <= self.len));
        let begin = begin.ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
        Ok(self.start.wrapping_add(begin))
    }

    /// As of a file: fewer bytes at its end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = (self.len as u64).saturating_sub(offset);
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let from = self.at(offset.min(self.len as u64), len)?;
        // SAFETY: the range lies in the mapping; the buffer is not of it.
        unsafe { std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), len) };
        Ok(len)
    }

    pub fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let to = self.at(offset, data.len())?;
        // SAFETY: the range lies in the mapping; the data is not of it.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Ok(())
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a pointer into it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Locks or unlocks a whole file with flock(2).
pub fn flock(file: &File, lock: bool) -> Result<()> {
    let how = if lock { libc::LOCK_EX } else { libc::LOCK_UN };
    // SAFETY: the descriptor is open.
    check(unsafe { libc::flock(file.as_raw_fd(), how) }, "flock")
}

/// Locks or unlocks `len` bytes of a file with fcntl(2) (open file description locks).
pub fn record_lock(file: &File, lock: bool, start: u64, len: u64) -> Result<()> {
    // SAFETY: flock is plain data.
    let mut what: libc::flock = unsafe { std::mem::zeroed() };
    what.l_type = if lock { libc::F_WRLCK } else { libc::F_UNLCK } as libc::c_short;
    what.l_whence = libc::SEEK_SET as libc::c_short;
    what.l_start = start as libc::off_t;
    what.l_len = len as libc::off_t;
    // SAFETY: the descriptor is open and the pointer valid.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &what) };
    check(done, "fcntl(F_OFD_SETLKW)")
}

/// Tells the kernel how a file will be read: `libc::POSIX_FADV_*`.
pub fn fadvise(file: &File, advice: libc::c_int) {
    // SAFETY: the descriptor is open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}

/// Writes a file's pages and drops them from the cache.
pub fn evict(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    fadvise(&file, libc::POSIX_FADV_DONTNEED);
    Ok(())
}

/// A buffer that O_DIRECT accepts.
pub struct Aligned(Vec<Page>);

#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page([u8; 4096]);

impl Aligned {
    /// `len` is rounded up to whole pages.
    pub fn new(len: usize) -> Self {
        Self(vec![Page([0x5a; 4096]); len.div_ceil(4096)])
    }
    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let len = self.0.len() * 4096;
        debug_assert_eq!(size_of_val(&self.0[0].0), 4096);
        // SAFETY: pages have no padding and lie one after the other.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}

/// A mapping, unmapped when it is dropped.
pub struct Map {
    start: *mut u8,
    len: usize,
}

// SAFETY: memory belongs to no thread; its users bring their own order.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(len: usize, flags: libc::c_int, fd: libc::c_int) -> Result<Self> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            bail!("mmap of {len} bytes: {}", io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }
    /// Anonymous memory, no page of it present.
    pub fn anonymous(len: usize) -> Result<Self> {
        let map = Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        // Huge pages would make one fault of 512.
        map.advise(libc::MADV_NOHUGEPAGE);
        Ok(map)
    }
    /// A file, shared with everybody who maps it.
    pub fn shared(file: &File, len: usize) -> Result<Self> {
        Self::new(len, libc::MAP_SHARED, file.as_raw_fd())
    }
    /// madvise(2) on the whole mapping.
    pub fn advise(&self, advice: libc::c_int) {
        // SAFETY: the mapping is ours; private anonymous pages that go away read as zero.
        unsafe { libc::madvise(self.start.cast(), self.len, advice) };
    }
    /// Writes to the page at `offset` (modulo the length).
    pub fn touch(&self, offset: usize) {
        // SAFETY: within the mapping.
        unsafe {
            let at = self.start.add(offset % self.len);
            at.write_volatile(at.read_volatile().wrapping_add(1));
        }
    }
    /// Reads the byte at `offset` (modulo the length).
    pub fn look(&self, offset: usize) -> u8 {
        // SAFETY: within the mapping.
        unsafe { self.start.add(offset % self.len).read_volatile() }
    }
    /// Fills a page so that it does not compress to nothing.
    pub fn scramble(&self, page: usize) {
        let mut x = page as u64 | 1;
        for word in 0..512 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // SAFETY: within the mapping, aligned to 8.
            unsafe { self.start.add(page * 4096 % self.len).cast::<u64>().add(word).write_volatile(x) };
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody borrows from it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// A pthread mutex at the start of a mapping, so that processes can share it.
pub struct Mutex(Map);

impl Mutex {
    /// Makes one in memory of this process.
    pub fn new() -> Result<Self> {
        let mutex = Self(Map::anonymous(4096)?);
        mutex.init(libc::PTHREAD_PRIO_NONE)?;
        Ok(mutex)
    }
    /// One whose holder inherits the priority of who waits for it.
    pub fn inheriting() -> Result<Self> {
        let mutex = Self(Map::anonymous(4096)?);
        mutex.init(libc::PTHREAD_PRIO_INHERIT)?;
        Ok(mutex)
    }
    /// One in a file of at least 4096 bytes; `init` by the first user only.
    pub fn in_file(file: &File, init: bool) -> Result<Self> {
        let mutex = Self(Map::shared(file, 4096)?);
        if init {
            mutex.init(libc::PTHREAD_PRIO_NONE)?;
        }
        Ok(mutex)
    }
    fn init(&self, protocol: libc::c_int) -> Result<()> {
        // SAFETY: the attribute lives on the stack; the mapping is large enough and aligned.
        let done = unsafe {
            let mut attr: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attr);
            libc::pthread_mutexattr_setpshared(&mut attr, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setprotocol(&mut attr, protocol);
            libc::pthread_mutex_init(self.0.start.cast(), &attr)
        };
        check(done, "pthread_mutex_init")
    }
    /// Locks, does it, unlocks.
    pub fn with<T>(&self, what: impl FnOnce() -> T) -> T {
        // SAFETY: the mutex was initialised by `init` of this or another process.
        unsafe { libc::pthread_mutex_lock(self.0.start.cast()) };
        let out = what();
        // SAFETY: locked above by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.start.cast()) };
        out
    }
}

/// A pthread read-write lock at the start of a mapping.
pub struct ReadWriteLock(Map);

impl ReadWriteLock {
    pub fn new() -> Result<Self> {
        let lock = Self(Map::anonymous(4096)?);
        // SAFETY: the mapping is large enough and aligned.
        let done = unsafe { libc::pthread_rwlock_init(lock.0.start.cast(), std::ptr::null()) };
        check(done, "pthread_rwlock_init")?;
        Ok(lock)
    }
    /// Locks to read or to write, does it, unlocks.
    pub fn with<T>(&self, write: bool, what: impl FnOnce() -> T) -> T {
        let lock = self.0.start.cast();
        // SAFETY: initialised in `new`.
        unsafe {
            if write {
                libc::pthread_rwlock_wrlock(lock)
            } else {
                libc::pthread_rwlock_rdlock(lock)
            }
        };
        let out = what();
        // SAFETY: locked above by this thread.
        unsafe { libc::pthread_rwlock_unlock(lock) };
        out
    }
}

const fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Keep 0 bytes, which is to drop the packet.
const DROP: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0);

fn attach(socket: &impl AsRawFd, code: &mut [libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "SO_ATTACH_FILTER")
}

fn set_option<T>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
    what: &str,
) -> Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: value and length are of one live object.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) };
    check(done, &format!("setsockopt({what})"))
}

/// Drops every packet that arrives at a socket from now on, or none any more.
pub fn deafen(socket: &impl AsRawFd, deaf: bool) -> Result<()> {
    if deaf {
        return attach(socket, &mut [DROP]);
    }
    let none: libc::c_int = 0;
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &none, "SO_DETACH_FILTER")
}

/// Drops every packet too, after as many instructions as a classic BPF filter may have.
pub fn slow_filter(socket: &impl AsRawFd) -> Result<()> {
    let mut code = vec![instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, 1); 4095];
    code.push(DROP);
    attach(socket, &mut code)
}

/// Lets one send call carry many datagrams of `size` bytes.
pub fn segment(socket: &std::net::UdpSocket, size: libc::c_int) -> Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &size, "UDP_SEGMENT")
}
