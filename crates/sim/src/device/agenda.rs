// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is going to happen, in the order of time; what is due at one time, in the order
//! in which it was put in. Every model's events and known ends lie in one of these.

use super::{Completion, Ns, Operation, Request};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Debug)]
pub(super) struct Agenda<T> {
    heap: BinaryHeap<Entry<T>>,
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Ns,
    nth: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub fn new() -> Self {
        Agenda { heap: BinaryHeap::new(), count: 0 }
    }

    /// `what` happens at `at`.
    pub fn push(&mut self, at: Ns, what: T) {
        self.heap.push(Entry { at, nth: self.count, what });
        self.count += 1;
    }

    /// The time of the next.
    pub fn next(&self) -> Option<Ns> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// The next, if it is due until `now`.
    pub fn due(&mut self, now: Ns) -> Option<(Ns, T)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Agenda<Completion> {
    /// Tells all ends that are due until `now`.
    pub fn tell(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        ended.extend(std::iter::from_fn(|| self.due(now)).map(|(_, end)| end));
    }
}

// The heap gives its greatest first: the earliest is the greatest.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

/// The errno of a request that goes beyond a device of `size` bytes; none if it does not.
pub(super) fn beyond(request: &Request, size: u64) -> Option<i32> {
    let end = request.offset.checked_add(u64::from(request.length));
    match request.operation {
        Operation::Flush => None,
        _ if end.is_some_and(|end| end <= size) => None,
        Operation::Write => Some(libc::ENOSPC),
        Operation::Read | Operation::Discard => Some(libc::EIO),
    }
}

/// The time that `bytes` take at `rate` bytes a second, rounded up.
pub(super) fn transfer(bytes: u64, rate: u64) -> Ns {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The earlier of two times, either of which may not be.
pub(super) fn earlier(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_not_before() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            agenda.push(at, what);
        }
        assert_eq!((agenda.next(), agenda.len()), (Some(3), 5));
        let due: String = std::iter::from_fn(|| agenda.due(8)).map(|(_, what)| what).collect();
        assert_eq!((due.as_str(), agenda.next()), ("abcd", Some(9)));
    }

    #[test]
    fn only_what_crosses_the_end_is_beyond() {
        let request = |operation, offset, length| Request { id: 0, operation, offset, length, fua: false };
        assert_eq!(beyond(&request(Operation::Write, 512, 512), 1024), None);
        assert_eq!(beyond(&request(Operation::Write, 512, 1024), 1024), Some(libc::ENOSPC));
        assert_eq!(beyond(&request(Operation::Read, 1024, 512), 1024), Some(libc::EIO));
        assert_eq!(beyond(&request(Operation::Discard, u64::MAX, 512), 1024), Some(libc::EIO));
        assert_eq!(beyond(&request(Operation::Flush, u64::MAX, 0), 1024), None);
    }

    #[test]
    fn a_transfer_is_rounded_up() {
        assert_eq!((transfer(4096, 4_096_000_000), transfer(1, 3), transfer(0, 3)), (1000, 333_333_334, 0));
    }
}
