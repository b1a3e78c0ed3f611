// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An observer that keeps books: what came in must come out, once, and limits must hold.

use super::super::observer::{Sleep, Woken};
use super::super::requests::{Bio, Merge, Request};
use super::super::task::Op;
use super::*;
use crate::device::{Completion, Operation};
use std::collections::HashMap;

#[derive(Default)]
pub struct Ledger {
    pub settings: Option<Settings>,
    pub begun: u64,
    pub ended: u64,
    /// Bios under way, by number: bytes.
    bios: HashMap<u32, u32>,
    slots: usize,
    waiting: HashMap<u32, u64>,
    device: HashMap<u32, Ns>,
    pub asleep: HashMap<u32, Sleep>,
    now: Ns,
    pub bytes: [u64; 2],
    pub issued: Vec<(u64, u32)>,
    pub queued: Vec<u64>,
    pub ops: Vec<(Op, Ns)>,
}

impl Ledger {
    pub fn new(settings: Settings) -> Self {
        Self { settings: Some(settings), ..Self::default() }
    }

    fn at(&mut self, now: Ns) {
        assert!(now >= self.now, "time went back from {} to {now}", self.now);
        self.now = now;
    }

    pub fn close(&self) {
        assert_eq!(self.begun, self.ended, "operations");
        assert_eq!(self.bytes[0], self.bytes[1], "bytes");
        assert!(self.bios.is_empty() && self.waiting.is_empty() && self.device.is_empty());
        assert_eq!(self.slots, 0);
        assert!(self.asleep.values().all(|why| *why == Sleep::Ended), "{:?}", self.asleep);
    }
}

impl Observer for Ledger {
    fn wakes(&mut self, now: Ns, task: u32, _: Woken) {
        self.at(now);
        assert!(self.asleep.contains_key(&task), "task {task} is woken and was not asleep");
        assert_ne!(self.asleep[&task], Sleep::Ended, "task {task} is woken and has ended");
    }
    fn runs(&mut self, now: Ns, task: u32) {
        self.at(now);
        self.asleep.remove(&task);
    }
    fn operation_begins(&mut self, now: Ns, _: u32, op: &Op) {
        self.at(now);
        self.begun += 1;
        self.bytes[0] += op.length;
    }
    fn queued(&mut self, now: Ns, number: u32, bio: &Bio) {
        self.at(now);
        self.queued.push(bio.offset);
        assert!(self.bios.insert(number, bio.length).is_none(), "bio {number} twice");
    }
    fn got(&mut self, _: Ns, _: u32, bio: &Bio) {
        if bio.operation != Operation::Flush {
            self.slots += 1;
            assert!(self.slots <= self.settings.expect("set").nr_requests, "{} slots", self.slots);
        }
    }
    fn merged(&mut self, _: Ns, _: u32, bio: &Bio, merge: Merge, request: &Request) {
        let touches = if merge.front { bio.end() == request.offset } else { request.end() == bio.offset };
        assert!(touches && request.waiting && request.class == bio.class, "{bio:?} {request:?}");
        assert!(request.length + bio.length <= self.settings.expect("set").max_bytes);
        self.waiting.insert(merge.request, request.serial);
    }
    fn inserted(&mut self, _: Ns, number: u32, request: &Request) {
        assert!(self.waiting.insert(number, request.serial).is_none(), "request {number} twice");
    }
    fn issued(&mut self, now: Ns, number: u32, request: &Request) {
        self.at(now);
        let flush = request.operation == Operation::Flush;
        assert_eq!(self.waiting.remove(&number), (!flush).then_some(request.serial));
        assert!(self.device.insert(number, now).is_none());
        assert!(self.device.len() <= self.settings.expect("set").depth);
        assert!(request.length <= self.settings.expect("set").max_bytes);
        if !flush {
            self.issued.push((request.offset, request.length));
        }
    }
    fn completed(&mut self, now: Ns, number: u32, request: &Request, completion: &Completion) {
        self.at(now);
        assert_eq!(completion.at, now, "it is told when it ends");
        let issued = self.device.remove(&number).expect("it was with the device");
        assert_eq!(completion.parts.total(), now - issued);
        self.slots -= usize::from(request.operation != Operation::Flush);
    }
    fn piece_ends(&mut self, _: Ns, number: u32, bio: &Bio, _: &Request) {
        assert_eq!(self.bios.remove(&number), Some(bio.length));
    }
    fn flushed(&mut self, _: Ns, number: u32, _: &Bio) {
        assert_eq!(self.bios.remove(&number), Some(0));
    }
    fn operation_ends(&mut self, now: Ns, _: u32, op: &Op) {
        self.at(now);
        self.ended += 1;
        self.bytes[1] += op.length;
        self.ops.push((*op, now));
    }
    fn sleeps(&mut self, now: Ns, task: u32, why: Sleep) {
        self.at(now);
        self.asleep.insert(task, why);
    }
}
