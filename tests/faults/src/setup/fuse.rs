// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file served over /dev/fuse whose requests take as long as a model says: what a loop device
//! needs below it to be a slow disk. Speaks the protocol itself (version 7.31 of it, one regular
//! file as the root of the mount), because no library is needed for nine requests.

use crate::sys;
use anyhow::{bail, Context, Result};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Largest request, bytes.
const MAX: usize = 1 << 20;
/// Requests that can be in their delay at once.
const WORKERS: usize = 48;

/// How long requests take.
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
}

struct Server {
    device: File,
    data: File,
    size: u64,
    timing: Mutex<Timing>,
    free_at: Mutex<Instant>,
    requests: AtomicU64,
}

/// The mounted file; unmounted when it is dropped.
pub struct SlowFile {
    server: Arc<Server>,
    path: PathBuf,
    workers: Vec<JoinHandle<()>>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

impl Server {
    /// `struct fuse_attr`.
    fn attr(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(88);
        for long in [1, self.size, self.size / 512, 0, 0, 0] {
            out.extend(u64::to_ne_bytes(long));
        }
        for word in [0, 0, 0, libc::S_IFREG | 0o600, 1, 0, 0, 0, 4096, 0] {
            out.extend(u32::to_ne_bytes(word));
        }
        out
    }

    /// Waits as long as the model says for a request of `len` bytes.
    fn delay(&self, len: usize) {
        let t = *self.timing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        let number = self.requests.fetch_add(1, Relaxed) + 1;
        let mut due = now + Duration::from_micros(t.each_us);
        let serial = t.serial_us * 1000 + t.serial_ns_per_kib * len as u64 / 1024;
        if serial > 0 {
            let mut free = self.free_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *free = (*free).max(now) + Duration::from_nanos(serial);
            due = due.max(*free);
        }
        if t.stall_every > 0 && number % t.stall_every == 0 {
            due += Duration::from_micros(t.stall_us);
        }
        sleep_until(due);
    }

    /// Answers requests until the file is unmounted.
    fn serve(&self) {
        sys::sharp_timers();
        let mut request = vec![0; MAX + 4096];
        let mut reply = vec![0; MAX];
        loop {
            let len = match (&self.device).read(&mut request) {
                Ok(len) => len,
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return,
                // ENOENT: the request was taken back; EINTR, EAGAIN: none was taken.
                Err(_) => continue,
            };
            let (head, body) = request[..len].split_at(40);
            let unique = long(head, 8);
            let answer = self.answer(word(head, 4), body, &mut reply);
            let (error, data): (i32, &[u8]) = match answer {
                Some(Ok(len)) => (0, &reply[..len]),
                Some(Err(errno)) => (-errno, &[]),
                None => continue,
            };
            let mut out = Vec::with_capacity(16 + data.len());
            out.extend(u32::to_ne_bytes(16 + data.len() as u32));
            out.extend(i32::to_ne_bytes(error));
            out.extend(u64::to_ne_bytes(unique));
            out.extend(data);
            // ENOENT here: whoever asked was interrupted and waits no more.
            let _ = (&self.device).write(&out);
        }
    }

    /// Does a request; the length of its answer in `reply`, an errno, or nothing to answer.
    fn answer(&self, opcode: u32, body: &[u8], reply: &mut Vec<u8>) -> Option<Result<usize, i32>> {
        let put = |reply: &mut Vec<u8>, bytes: &[u8]| {
            reply[..bytes.len()].copy_from_slice(bytes);
            Some(Ok(bytes.len()))
        };
        match opcode {
            // FORGET, INTERRUPT, BATCH_FORGET are not answered.
            2 | 36 | 42 => None,
            // GETATTR, SETATTR: 16 bytes of validity (an hour), then the attributes.
            3 | 4 => {
                let mut out = u64::to_ne_bytes(3600).to_vec();
                out.extend([0; 8]);
                out.extend(self.attr());
                put(reply, &out)
            }
            // OPEN: a handle and flags that nobody uses.
            14 => put(reply, &[0; 16]),
            // READ
            15 => {
                let size = (word(body, 16) as usize).min(MAX);
                self.delay(size);
                Some(self.data.read_at(&mut reply[..size], long(body, 8)).map_err(errno))
            }
            // WRITE
            16 => {
                let size = word(body, 16);
                self.delay(size as usize);
                let data = &body[40..40 + size as usize];
                match self.data.write_all_at(data, long(body, 8)) {
                    Ok(()) => put(reply, &u64::to_ne_bytes(size.into())),
                    Err(e) => Some(Err(errno(e))),
                }
            }
            // RELEASE, FLUSH
            18 | 25 => Some(Ok(0)),
            // FSYNC
            20 => {
                let us = self.timing.lock().unwrap_or_else(std::sync::PoisonError::into_inner).flush_us;
                sleep_until(Instant::now() + Duration::from_micros(us));
                Some(Ok(0))
            }
            // INIT: version, no read-ahead, ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES, then how
            // much may be outstanding (256, congested at 192) and the largest write.
            26 => {
                let flags = (1 << 0) | (1 << 5) | (1 << 15) | (1 << 22);
                let mut out = Vec::new();
                for word in [7_u32, 31, 0, flags, 256 | (192 << 16), MAX as u32, 1, (MAX / 4096) as u32] {
                    out.extend(word.to_ne_bytes());
                }
                out.resize(64, 0);
                put(reply, &out)
            }
            _ => Some(Err(libc::ENOSYS)),
        }
    }
}

fn errno(e: io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
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
        let device = File::options().read(true).write(true).open("/dev/fuse").context("/dev/fuse")?;
        // SAFETY: a valid name; the descriptor is new and belongs to the File.
        let data = unsafe {
            let fd = libc::memfd_create(c"plumb-faults".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                bail!("memfd_create: {}", io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        data.set_len(size)?;
        File::create(path).with_context(|| path.display().to_string())?;
        let target = CString::new(path.as_os_str().as_encoded_bytes())?;
        let options = format!(
            "fd={},rootmode=100600,user_id=0,group_id=0,allow_other,max_read={MAX}",
            device.as_raw_fd()
        );
        let options = CString::new(options)?;
        // SAFETY: all strings end in NUL and live long enough.
        let done = unsafe {
            libc::mount(
                c"plumb-faults".as_ptr(),
                target.as_ptr(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        if done != 0 {
            bail!("{}: mount as fuse: {} (this needs root)", path.display(), io::Error::last_os_error());
        }
        let server = Arc::new(Server {
            device,
            data,
            size,
            timing: Mutex::default(),
            free_at: Mutex::new(Instant::now()),
            requests: AtomicU64::new(0),
        });
        let work = |_| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || server.serve())
        };
        Ok(Self { path: path.to_owned(), workers: (0..WORKERS).map(work).collect(), server })
    }

    /// From now on requests take this long.
    pub fn set(&self, timing: Timing) {
        *self.server.timing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = timing;
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
