// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listens to what the kernel tells of every process: one perf event a CPU, of the kind
//! that counts nothing, and its ring of records (include/uapi/linux/perf_event.h).

use libbpf_sys::perf_event_attr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// PERF_TYPE_SOFTWARE
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_DUMMY
const DUMMY: u64 = 9;
/// PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU: what ends each record.
const SAMPLE_ID: u64 = 1 << 1 | 1 << 2 | 1 << 7;
/// PERF_FLAG_FD_CLOEXEC
const CLOEXEC: u64 = 8;
/// _IO('$', 0): enable.
const ENABLE: libc::c_ulong = 0x2400;
/// Data of one CPU's ring, bytes, up to [`MANY`] CPUs: some 3000 mappings.
const LARGE: usize = 512 << 10;
/// The same above that, so that the kernel's memory stays in proportion.
const SMALL: usize = 128 << 10;
const MANY: usize = 64;
/// A record's header: type, misc, size.
const HEADER: usize = 8;

/// perf_event_mmap_page: where the positions lie in the ring's first page.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = HEAD_AT + 8;

struct Ring {
    _event: OwnedFd,
    base: *mut u8,
    page: usize,
    data: usize,
}

// SAFETY: the mapping belongs to this ring alone; nothing in it is tied to a thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length, and not used after this.
        unsafe { libc::munmap(self.base.cast(), self.page + self.data) };
    }
}

impl Ring {
    fn open(cpu: u32, data: usize) -> io::Result<Self> {
        let mut attr = perf_event_attr {
            type_: SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_ID,
            clockid: libc::CLOCK_MONOTONIC,
            ..perf_event_attr::default()
        };
        // A wakeup would cost the process that maps something, and nobody sleeps on it.
        attr.__bindgen_anon_2.wakeup_watermark = u32::MAX;
        attr.set_watermark(1);
        attr.set_disabled(1);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        // SAFETY: attr is valid for its size; the call returns a descriptor or -1.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu as i32, -1, CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor of our own, just opened.
        let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + data,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = Self { _event: event, base: base.cast(), page, data };
        // SAFETY: an ioctl without argument on our own descriptor.
        if unsafe { libc::ioctl(ring._event.as_raw_fd(), ENABLE as _, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(ring)
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the first page, aligned to 8, and mapped as long as the ring lives.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Copies bytes out of the ring, across its end.
    fn copy(&self, from: u64, out: &mut [u8]) {
        let at = (from % self.data as u64) as usize;
        let first = out.len().min(self.data - at);
        // SAFETY: both pieces lie in the data area (at < data, len <= data), which the kernel
        // does not write between tail and head.
        unsafe {
            let data = self.base.add(self.page);
            std::ptr::copy_nonoverlapping(data.add(at), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, out.as_mut_ptr().add(first), out.len() - first);
        }
    }

    fn drain(&self, each: &mut impl FnMut(&[u8])) {
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        if head.saturating_sub(tail) < HEADER as u64 {
            return; // as nearly always: the buffer below costs more than all the rest
        }
        let mut record = [0u8; 1 << 16];
        while head.saturating_sub(tail) >= HEADER as u64 {
            let mut header = [0u8; HEADER];
            self.copy(tail, &mut header);
            let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
            if size < HEADER || size as u64 > head - tail {
                tail = head; // not a ring of records: go on at what comes next
                break;
            }
            self.copy(tail, &mut record[..size]);
            each(&record[..size]);
            tail += size as u64;
        }
        self.position(TAIL_AT).store(tail, Ordering::Release);
    }
}

/// The rings of all CPUs that are online.
pub struct Rings(Vec<Ring>);

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rings({})", self.0.len())
    }
}

impl Rings {
    /// Begins to listen.
    ///
    /// # Errors
    /// The kernel refuses perf events (kernel.perf_event_paranoid, a container), or their memory.
    pub fn open(cpus: u32) -> io::Result<Self> {
        let data = if cpus as usize > MANY { SMALL } else { LARGE };
        let mut rings = Vec::new();
        for cpu in 0..cpus {
            match Ring::open(cpu, data) {
                Ok(ring) => rings.push(ring),
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {} // offline
                Err(e) => return Err(e),
            }
        }
        Ok(Self(rings))
    }

    /// Hands over every record that is there, CPU by CPU.
    pub fn drain(&self, mut each: impl FnMut(&[u8])) {
        self.0.iter().for_each(|ring| ring.drain(&mut each));
    }
}
