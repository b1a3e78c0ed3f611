// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy in C (iosched/), through shim.c. What crosses are numbers alone.

use crate::device::Ns;
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

/// The policy with its requests; only C knows what is in it.
#[repr(C)]
struct Opaque {
    _nothing: [u8; 0],
}

const NONE: u32 = u32::MAX;
const NEVER: Ns = Ns::MAX;

/// Classes of requests: normal, low, awaited (enum lp_class).
pub const CLASSES: usize = 3;

/// What [`Policy::decisions`] gives, in this order: what has happened since the start, and, last, the
/// interval (ns) and depth in force.
pub const DECISIONS: [&str; 10] = [
    "aged",
    "followed",
    "preceded",
    "batched",
    "batches",
    "held",
    "narrowed",
    "widened",
    "interval_ns",
    "depth",
];

extern "C" {
    fn sim_lp_knob_count() -> u32;
    fn sim_lp_knob_name(row: u32) -> *const c_char;
    fn sim_lp_knob_limits(row: u32, limits: *mut [u64; 3]) -> bool;
    fn sim_lp_defaults(values: *mut u64, rotational: bool);
    fn sim_lp_new(values: *const u64, rotational: bool, now: Ns) -> *mut Opaque;
    fn sim_lp_free(p: *mut Opaque);
    fn sim_lp_class(
        p: *const Opaque,
        idle: bool,
        write: bool,
        direct: bool,
        sync: bool,
        meta: bool,
        flush: bool,
        other: bool,
    ) -> u32;
    fn sim_lp_insert(p: *mut Opaque, number: u32, sector: u64, end: u64, write: bool, class: u32, now: Ns);
    fn sim_lp_extent(p: *mut Opaque, number: u32, sector: u64, end: u64);
    fn sim_lp_find_front(p: *mut Opaque, class: u32, write: bool, sector: u64) -> u32;
    fn sim_lp_may_grow(p: *const Opaque, class: u32, sectors: u64) -> bool;
    fn sim_lp_dispatch(p: *mut Opaque, now: Ns) -> u32;
    fn sim_lp_finished(p: *mut Opaque, number: u32, now: Ns);
    fn sim_lp_opens(p: *const Opaque, now: Ns) -> Ns;
    fn sim_lp_low_slots(p: *const Opaque, class: u32, all: u32, now: Ns) -> u32;
    fn sim_lp_decisions(p: *const Opaque, out: *mut [u64; 10]);
}

/// A row of the policy's table of knobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub name: &'static str,
    /// One of what sysfs shows: of a time, so many ns.
    pub unit: u64,
    /// In ns or as a number.
    pub least: u64,
    /// In ns or as a number.
    pub most: u64,
    pub time: bool,
}

pub fn rows() -> Vec<Row> {
    // SAFETY: a constant of the policy.
    let count = unsafe { sim_lp_knob_count() };
    let row = |row: u32| {
        let mut limits = [0; 3];
        // SAFETY: `row` is below the count; `limits` holds what is written.
        let time = unsafe { sim_lp_knob_limits(row, &mut limits) };
        // SAFETY: names are string constants of the policy.
        let name = unsafe { CStr::from_ptr(sim_lp_knob_name(row)) };
        let [unit, least, most] = limits;
        Row { name: name.to_str().unwrap_or("?"), unit, least, most, time }
    };
    (0..count).map(row).collect()
}

/// The policy's defaults, a value for each row, in ns or as a number; for a disk that turns or one that does not.
pub fn defaults(rotational: bool) -> Vec<u64> {
    let mut values = vec![0; rows().len()];
    // SAFETY: as many values as the table has rows.
    unsafe { sim_lp_defaults(values.as_mut_ptr(), rotational) };
    values
}

/// What a request's class follows from.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// I/O priority class idle.
    pub idle: bool,
    /// Brings data to the device.
    pub write: bool,
    /// A write that its task waits for without the page cache between.
    pub direct: bool,
    /// A write that somebody waits for.
    pub sync: bool,
    pub meta: bool,
    pub flush: bool,
    pub other: bool,
}

#[derive(Debug)]
pub struct Policy(NonNull<Opaque>);

// SAFETY: it points to memory that nobody else has; of threads the policy knows only a thread-local random state.
unsafe impl Send for Policy {}

impl Policy {
    /// With these knobs, in the order of the table; those that are left out, and what is no knob, as the kind of disk has it.
    pub fn new(values: &[u64], rotational: bool, now: Ns) -> Policy {
        let mut all = defaults(rotational);
        all.iter_mut().zip(values).for_each(|(all, value)| *all = *value);
        // SAFETY: as many values as the table has rows; without memory it ends the process, so no null.
        Policy(unsafe { NonNull::new_unchecked(sim_lp_new(all.as_ptr(), rotational, now)) })
    }

    /// The class of such a request, below [`CLASSES`].
    pub fn class(&self, t: Traits) -> u32 {
        // SAFETY: the pointer is the policy's as long as `self` lives; so in all functions below.
        unsafe { sim_lp_class(self.0.as_ptr(), t.idle, t.write, t.direct, t.sync, t.meta, t.flush, t.other) }
    }

    /// Queues the request of this number, which is not queued.
    pub fn insert(&mut self, number: u32, [sector, end]: [u64; 2], write: bool, class: u32, now: Ns) {
        // SAFETY: as in class(); the simulator inserts a number again only when its request has gone.
        unsafe { sim_lp_insert(self.0.as_ptr(), number, sector, end, write, class, now) };
    }

    /// Says where a queued request begins and ends now.
    pub fn extent(&mut self, number: u32, [sector, end]: [u64; 2]) {
        // SAFETY: as in class().
        unsafe { sim_lp_extent(self.0.as_ptr(), number, sector, end) };
    }

    /// The queued request that begins at `sector`.
    pub fn find_front(&self, class: u32, write: bool, sector: u64) -> Option<u32> {
        // SAFETY: as in class(); it changes nothing.
        let number = unsafe { sim_lp_find_front(self.0.as_ptr(), class, write, sector) };
        (number != NONE).then_some(number)
    }

    /// Whether a request may become so many sectors long by a merge.
    pub fn may_grow(&self, class: u32, sectors: u64) -> bool {
        // SAFETY: as in class().
        unsafe { sim_lp_may_grow(self.0.as_ptr(), class, sectors) }
    }

    pub fn dispatch(&mut self, now: Ns) -> Option<u32> {
        // SAFETY: as in class().
        let number = unsafe { sim_lp_dispatch(self.0.as_ptr(), now) };
        (number != NONE).then_some(number)
    }

    /// A request that was dispatched has left the device.
    pub fn finished(&mut self, number: u32, now: Ns) {
        // SAFETY: as in class().
        unsafe { sim_lp_finished(self.0.as_ptr(), number, now) };
    }

    /// When a queued request may go; none: not before something is inserted or ends.
    pub fn opens(&self, now: Ns) -> Option<Ns> {
        // SAFETY: as in class().
        let at = unsafe { sim_lp_opens(self.0.as_ptr(), now) };
        (at != NEVER).then_some(at)
    }

    /// Slots of `all` that requests of a class that is not normal may have.
    pub fn low_slots(&self, class: u32, all: usize, now: Ns) -> usize {
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // SAFETY: as in class().
        unsafe { sim_lp_low_slots(self.0.as_ptr(), class, all, now) as usize }
    }

    /// What it has decided, by the names of [`DECISIONS`].
    pub fn decisions(&self) -> [u64; 10] {
        let mut out = [0; 10];
        // SAFETY: as in class(); `out` holds what is written.
        unsafe { sim_lp_decisions(self.0.as_ptr(), &mut out) };
        out
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // SAFETY: it came from sim_lp_new() and nobody uses it any more.
        unsafe { sim_lp_free(self.0.as_ptr()) };
    }
}
