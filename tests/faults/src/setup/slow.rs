// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file whose requests take as long as a model says: below a loop device, a slow disk.

use crate::sys::LockedMemory;
use anyhow::Result;
use plumb_sim::serve::fuse::{self, Backing};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that can be in their delay at once.
const WORKERS: usize = 48;

#[derive(Debug, Default, Clone, Copy)]
pub struct Timing {
    /// Each request, however many there are at once, us.
    pub each_us: u64,
    /// Each request, one after the other, us.
    pub serial_us: u64,
    /// Each KiB, one after the other, ns.
    pub serial_ns_per_kib: u64,
    /// Every so many requests one stalls; 0 for never.
    pub stall_every: u64,
    /// That one takes so much longer, us.
    pub stall_us: u64,
    /// A flush, us.
    pub flush_us: u64,
    /// After so many requests it has become slower; 0 for never.
    pub fails_after: u64,
    /// From then on each takes so much longer, us.
    pub fails_us: u64,
}

/// What is in memory, after a while.
struct Slow {
    data: LockedMemory,
    size: u64,
    timing: Mutex<Timing>,
    free_at: Mutex<Instant>,
    requests: AtomicU64,
}

/// The mounted file; unmounted when it is dropped.
pub struct SlowFile {
    slow: Arc<Slow>,
    path: PathBuf,
    workers: Vec<JoinHandle<()>>,
}

impl Slow {
    fn timing(&self) -> Timing {
        *self.timing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the model says for a request of `len` bytes.
    fn delay(&self, len: usize) {
        let t = self.timing();
        let now = Instant::now();
        let number = self.requests.fetch_add(1, Relaxed) + 1;
        let mut due = now + Duration::from_micros(t.each_us);
        let serial = t.serial_us * 1000 + t.serial_ns_per_kib * len as u64 / 1024;
        if serial > 0 {
            let mut free = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(now) + Duration::from_nanos(serial);
            due = due.max(*free);
        }
        if t.stall_every > 0 && number % t.stall_every == 0 {
            due += Duration::from_micros(t.stall_us);
        }
        if t.fails_after > 0 && number > t.fails_after {
            due += Duration::from_micros(t.fails_us);
        }
        sleep_until(due);
    }
}

impl Backing for Slow {
    fn size(&self) -> u64 {
        self.size
    }
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.delay(buffer.len());
        self.data.read_at(buffer, offset)
    }
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.delay(data.len());
        self.data.write_at(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        sleep_until(Instant::now() + Duration::from_micros(self.timing().flush_us));
        Ok(())
    }
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

impl SlowFile {
    /// Mounts a file of `size` zero bytes on the (new) file `path`; fast until told otherwise.
    ///
    /// # Errors
    /// No /dev/fuse, no root, or the kernel refuses the mount.
    pub fn mount(path: &Path, size: u64) -> Result<Self> {
        let device = Arc::new(fuse::open()?);
        let data = LockedMemory::new(size)?;
        fuse::mount(&device, path)?;
        let slow = Arc::new(Slow {
            data,
            size,
            timing: Mutex::default(),
            free_at: Mutex::new(Instant::now()),
            requests: AtomicU64::new(0),
        });
        let work = |_| {
            let (device, slow) = (Arc::clone(&device), Arc::clone(&slow));
            std::thread::spawn(move || fuse::serve(&device, &*slow))
        };
        Ok(Self { path: path.to_owned(), workers: (0..WORKERS).map(work).collect(), slow })
    }

    /// From now on requests take this long, and are counted anew.
    pub fn set(&self, timing: Timing) {
        self.slow.requests.store(0, Relaxed);
        *self.slow.timing.lock().unwrap_or_else(PoisonError::into_inner) = timing;
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        self.set(Timing::default());
        match super::unmount(&self.path) {
            Ok(()) => self.workers.drain(..).for_each(|worker| drop(worker.join())),
            Err(e) => eprintln!("{e:#}"),
        }
    }
}
