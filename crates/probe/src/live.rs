// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the BPF programs on the kernel that runs them.

use crate::load::{resolve, Knobs, Loaded};
use crate::sampling::{Clock, Sampling};
use crate::select::Selection;
use crate::stacks::{Kind, RawStack};
use plumb_machine::Root;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const STACK: usize = 128 << 10;
const GUARD: usize = 64 << 10;
const MARK: u64 = 0x706c_756d_625f_6d6b;

/// What the spinning thread and its maker share.
#[derive(Default)]
struct Spinner {
    tid: AtomicU32,
    end: AtomicBool,
}

extern "C" fn spin(shared: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the maker keeps it until the thread is joined.
    let shared = unsafe { &*shared.cast::<Spinner>() };
    let mark = [MARK; 4];
    // SAFETY: no arguments.
    shared.tid.store(unsafe { libc::gettid() } as u32, Ordering::Release);
    while !shared.end.load(Ordering::Relaxed) {
        std::hint::black_box(&mark);
    }
    std::ptr::null_mut()
}

#[test]
fn a_sample_has_the_memory_above_the_stack_pointer_up_to_its_end() {
    let name = "a_sample_has_the_memory_above_the_stack_pointer_up_to_its_end";
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP {name}: needs root");
        return;
    }
    // SAFETY: a new private mapping; its last part is made unreadable.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let all =
            libc::mmap(std::ptr::null_mut(), STACK + GUARD, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(all, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(all.cast::<u8>().add(STACK).cast(), GUARD, libc::PROT_NONE), 0);
        all
    };
    let shared = Spinner::default();
    // SAFETY: all zero is a value of both, which are then initialised; the stack is ours and stays mapped.
    let thread = unsafe {
        let (mut attr, mut thread) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_attr_init(&mut attr);
        assert_eq!(libc::pthread_attr_setstack(&mut attr, stack, STACK), 0);
        let data = (&raw const shared).cast_mut().cast();
        assert_eq!(libc::pthread_create(&mut thread, &attr, spin, data), 0);
        thread
    };
    while shared.tid.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    let tid = shared.tid.load(Ordering::Acquire);

    let cpus = plumb_machine::host::possible_cpus(&Root::real());
    let selection = Selection::parse("sched_switch").expect("events");
    let clock = Clock::choose(Sampling::Rate(199), cpus).expect("a clock");
    let knobs = Knobs { ring_bytes: 1 << 20, stack_threshold: 1_000_000, clock, ..Knobs::default() };
    let (events, _) = resolve(&selection).expect("events of this kernel");
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::load(&mut object, &events, &selection, &knobs, cpus).expect("load");
    loaded.mark(&[tid]);
    loaded.attach().expect("attach");
    let records = RefCell::new(Vec::new());
    let mut ring = loaded.stacks().expect("stacks");
    let mut take = || {
        let taken = ring.drain(|bytes| {
            records.borrow_mut().push(bytes.to_vec());
            Ok(())
        });
        taken.expect("read");
    };
    // The last sample of those that come with a class.
    let until = Instant::now() + Duration::from_secs(60);
    let mut sampled = |loaded: &mut Loaded<'_>, class| {
        loaded.copy_more(tid, class);
        take();
        records.borrow_mut().clear();
        let mut seen = 0;
        while seen < 3 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            take();
            seen = records.borrow().iter().filter(|b| b[20] == 3).count();
        }
        records.borrow().iter().rfind(|b| b[20] == 3).cloned().expect("a sample within a minute")
    };
    let end = stack as u64 + STACK as u64;
    let results: Vec<Vec<u8>> = (0..3).map(|class| sampled(&mut loaded, class)).collect();
    shared.end.store(true, Ordering::Relaxed);
    // SAFETY: the thread is ours and not joined yet; nothing uses its stack behind that.
    unsafe {
        libc::pthread_join(thread, std::ptr::null_mut());
        libc::munmap(stack, STACK + GUARD);
    }
    for (class, bytes) in results.iter().enumerate() {
        let raw = RawStack::parse(bytes).expect("a record");
        assert_eq!((raw.kind, raw.tid, raw.by, raw.pid), (Kind::Sample, tid, tid, std::process::id()));
        let registers = raw.registers.expect("user code");
        assert!((stack as u64..end).contains(&registers.sp), "{registers:x?}");
        let there = (end - registers.sp) as usize;
        let room = [2048, 8192, 32_768][class];
        if there >= room {
            assert_eq!(raw.copy.len(), room);
        } else {
            assert!(raw.copy.len() <= there && there - raw.copy.len() < 128, "{} of {there}", raw.copy.len());
            assert_eq!(raw.next_class(), None);
        }
        let words = raw.copy.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight")));
        assert!(words.filter(|w| *w == MARK).count() >= 4, "its own variables");
    }
    let last = RawStack::parse(&results[2]).expect("a record").copy.len();
    assert!((1..32_768).contains(&last), "the end of its stack was within the largest copy: {last}");
    assert_eq!(loaded.stacks_lost().total(), 0);
}
