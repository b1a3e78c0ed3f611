// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What waits and is under way: bios as a task queues them, requests as a device gets them.
//!
//! Both live in tables whose places are used again, so that a simulation that has warmed up
//! allocates nothing. Several bios that touch each other are one request.

use crate::device::{Ns, Operation};
use plumb_trace::kernel::ioprio;
use serde::{Deserialize, Serialize};

/// No bio, no request.
pub const NONE: u32 = u32::MAX;

/// I/O priority classes (include/uapi/linux/ioprio.h), as ionice(1) sets them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    RealTime,
    #[default]
    BestEffort,
    /// Only when nobody else wants the disk.
    Idle,
}

impl Class {
    /// All, the most urgent first.
    pub const ALL: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];

    /// Its place in [`Class::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// As a request carries it; 4 is the middle level.
    pub fn ioprio(self) -> u32 {
        match self {
            Class::RealTime => ioprio::value(ioprio::REALTIME, 4),
            Class::BestEffort => ioprio::value(ioprio::BEST_EFFORT, 4),
            Class::Idle => ioprio::value(ioprio::IDLE, 0),
        }
    }
}

/// What a task knows of its request besides, as flags of a bio (include/linux/blk_types.h).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Past the page cache, and its task waits for it: REQ_SYNC | REQ_IDLE of a write.
    pub direct: bool,
    /// Somebody waits for it: REQ_SYNC.
    pub sync: bool,
    /// Metadata, journal, urgent: REQ_META, REQ_PRIO.
    pub meta: bool,
}

impl Hints {
    /// What a task does that reads and writes a device without the page cache.
    pub const DIRECT: Hints = Hints { direct: true, sync: true, meta: false };
}

/// A piece of a task's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    pub task: u32,
    /// The operation's slot in that task.
    pub slot: u32,
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    pub fua: bool,
    pub class: Class,
    pub hints: Hints,
    pub queued_at: Ns,
    /// The next bio of its request, [`NONE`] behind the last.
    pub next: u32,
}

impl Bio {
    /// Behind its last byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// What the scheduler orders and the device serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Task of its first bio.
    pub task: u32,
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    pub fua: bool,
    pub class: Class,
    /// What its first bio says besides.
    pub hints: Hints,
    /// Tells it from an earlier one in the same place.
    pub serial: u64,
    pub waiting: bool,
    pub first: u32,
    pub last: u32,
    pub bios: u32,
    /// When it entered the scheduler.
    pub inserted_at: Ns,
    /// When it went to the device.
    pub issued_at: Ns,
}

impl Request {
    /// Behind its last byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// 0 for what brings data from the device, 1 for the rest.
    pub fn direction(&self) -> usize {
        direction(self.operation)
    }
}

/// 0 for what brings data from the device, 1 for the rest.
pub fn direction(operation: Operation) -> usize {
    usize::from(operation != Operation::Read)
}

/// Where a bio joins a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merge {
    pub request: u32,
    /// Before its first byte; else behind its last.
    pub front: bool,
}

#[derive(Debug)]
pub struct Requests {
    bios: Vec<Bio>,
    free_bios: Vec<u32>,
    requests: Vec<Request>,
    free: Vec<u32>,
    serial: u64,
    most: u32,
}

impl Requests {
    /// Empty tables; no merging beyond `most` bytes.
    pub fn new(most: u32) -> Self {
        Self {
            bios: Vec::with_capacity(256),
            free_bios: Vec::with_capacity(256),
            requests: Vec::with_capacity(256),
            free: Vec::with_capacity(256),
            serial: 0,
            most,
        }
    }

    /// Keeps a bio; its number.
    pub fn add_bio(&mut self, bio: Bio) -> u32 {
        match self.free_bios.pop() {
            Some(at) => {
                self.bios[at as usize] = bio;
                at
            }
            None => {
                self.bios.push(bio);
                self.bios.len() as u32 - 1
            }
        }
    }

    pub fn bio(&self, bio: u32) -> &Bio {
        &self.bios[bio as usize]
    }

    pub fn drop_bio(&mut self, bio: u32) {
        self.free_bios.push(bio);
    }

    /// A request for one bio; its number.
    pub fn add(&mut self, number: u32) -> u32 {
        let bio = *self.bio(number);
        self.serial += 1;
        let request = Request {
            task: bio.task,
            operation: bio.operation,
            offset: bio.offset,
            length: bio.length,
            fua: bio.fua,
            class: bio.class,
            hints: bio.hints,
            serial: self.serial,
            waiting: false,
            first: number,
            last: number,
            bios: 1,
            inserted_at: 0,
            issued_at: 0,
        };
        match self.free.pop() {
            Some(at) => {
                self.requests[at as usize] = request;
                at
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        }
    }

    pub fn get(&self, request: u32) -> &Request {
        &self.requests[request as usize]
    }

    /// A request, to change.
    pub fn get_mut(&mut self, request: u32) -> &mut Request {
        &mut self.requests[request as usize]
    }

    /// Whether a number still means the request of that serial, and it waits.
    pub fn waits(&self, request: u32, serial: u64) -> bool {
        self.requests.get(request as usize).is_some_and(|r| r.waiting && r.serial == serial)
    }

    /// Whether a bio may join a waiting request, places aside: block/blk-merge.c, blk_rq_merge_ok() and
    /// REQ_NOMERGE_FLAGS.
    pub fn may_merge(&self, bio: &Bio, request: u32) -> bool {
        let r = self.get(request);
        let data = matches!(bio.operation, Operation::Read | Operation::Write);
        let alike = data && r.operation == bio.operation && r.class == bio.class && !r.fua && !bio.fua;
        alike && r.waiting && r.length.checked_add(bio.length).is_some_and(|sum| sum <= self.most)
    }

    /// Lets a bio join a request.
    pub fn join(&mut self, number: u32, merge: Merge) {
        let bio = self.bios[number as usize];
        let r = &mut self.requests[merge.request as usize];
        r.length += bio.length;
        r.bios += 1;
        if merge.front {
            r.offset = bio.offset;
            self.bios[number as usize].next = r.first;
            r.first = number;
        } else {
            self.bios[r.last as usize].next = number;
            r.last = number;
        }
    }

    /// Forgets a request; its bios stay.
    pub fn drop_request(&mut self, request: u32) {
        self.requests[request as usize].waiting = false;
        self.free.push(request);
    }
}
