// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of one try: time, memory, and an end that nothing can catch (a stack overflow, an abort). Those
//! end the process, but the input is written first.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A try that takes longer has failed. Slow machines and debug builds take a hundredth of it.
const LONGEST: Duration = Duration::from_secs(10);
/// Bytes that a try may hold besides a multiple of its input: buffers of packets, and what is read ahead.
const FREE: usize = 48 << 20;
/// The multiple: a record of 32 bytes becomes rows of several tables.
const TIMES: usize = 256;
/// Bytes at which the process ends before the machine suffers.
const HARD: usize = 3 << 30;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(more: usize) {
    let held = HELD.fetch_add(more, SeqCst) + more;
    PEAK.fetch_max(held, SeqCst);
    if held > HARD {
        give_up("it takes over 3 GiB of memory");
    }
}

// SAFETY: every call is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        HELD.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's pointer, layout and size.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The input of the try that runs, and where it is written when the process ends.
static INPUT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static FILE: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());
static HINT: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());
/// When the try began, ms of this process; 0: none runs.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static GIVING_UP: AtomicBool = AtomicBool::new(false);

/// Watches tries of one target.
pub struct Watch {
    before: usize,
}

/// Begins to watch: handlers and the thread that looks at the clock. Once in a process.
pub fn start() {
    extern "C" fn aborted(_: libc::c_int) {
        give_up("it aborts (stack overflow, or a panic inside of a panic)");
    }
    let handler: extern "C" fn(libc::c_int) = aborted;
    // SAFETY: the handler calls only what signal-safety(7) allows; a zeroed sigaction is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        // A stack overflow arrives here from Rust's own handler, on its alternate stack.
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
    let origin = Instant::now();
    std::thread::spawn(move || loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = origin.elapsed().as_millis() as u64 + 1;
        // A try that began since the last look has no time yet; one that did not move has its own.
        let began = BEGAN.load(SeqCst);
        if began == u64::MAX {
            let _ = BEGAN.compare_exchange(u64::MAX, now, SeqCst, SeqCst);
        } else if began != 0 && now - began > LONGEST.as_millis() as u64 {
            give_up("it takes over 10 s");
        }
    });
}

/// Says where the input of a try that ends the process is written, and how to run it again.
pub fn name(file: &Path, hint: &str) {
    let c = |bytes: &[u8]| CString::new(bytes).unwrap_or_default().into_raw();
    // Both are kept until the process ends: a handler may read them at any moment.
    FILE.store(c(file.as_os_str().as_bytes()), SeqCst);
    HINT.store(c(hint.as_bytes()), SeqCst);
}

impl Watch {
    pub fn begin(input: &[u8]) -> Self {
        INPUT.store(input.as_ptr().cast_mut(), SeqCst);
        LENGTH.store(input.len(), SeqCst);
        let before = HELD.load(SeqCst);
        PEAK.store(before, SeqCst);
        BEGAN.store(u64::MAX, SeqCst);
        Self { before }
    }

    /// Ends the try; says what was too much.
    pub fn end(self, input: &[u8]) -> Result<(), String> {
        BEGAN.store(0, SeqCst);
        let took = PEAK.load(SeqCst).saturating_sub(self.before);
        if took > FREE + TIMES * input.len() {
            return Err(format!("memory: {} MiB for {} bytes of input", took >> 20, input.len()));
        }
        Ok(())
    }
}

/// Writes the input and ends the process; called where nothing may be allocated.
fn give_up(why: &str) -> ! {
    let say = |text: &[u8]| {
        // SAFETY: the bytes are valid for their length. A message that cannot be written is not missed.
        unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    };
    let file = FILE.load(SeqCst);
    if !GIVING_UP.swap(true, SeqCst) && !file.is_null() {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        // SAFETY: path and input live until the process ends.
        unsafe {
            let out = libc::open(file, flags, 0o644);
            libc::write(out, INPUT.load(SeqCst).cast_const().cast(), LENGTH.load(SeqCst));
            say(b"FAILED: ");
            say(why.as_bytes());
            say(b"\n  ");
            let hint = HINT.load(SeqCst);
            say(std::slice::from_raw_parts(hint.cast_const().cast(), libc::strlen(hint)));
            say(b"\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n");
        }
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(1) }
}
