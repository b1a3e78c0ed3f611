// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A task that asks for what somebody outside of the simulation asks for, as it comes.

use super::{Next, Op, NOTHING};
use crate::device::{Ns, Operation};
use plumb_trace::load::OperationKind;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Outside {
    /// What is to be queued, with what the caller calls it.
    asked: VecDeque<(u64, Op)>,
    free: Vec<u32>,
    /// What the caller calls the operation in a slot.
    in_slot: Vec<u64>,
    ended: Vec<u64>,
}

impl Outside {
    pub(in crate::queue) fn ask(&mut self, name: u64, op: Op) {
        self.asked.push_back((name, op));
    }

    /// Takes out what has ended, in that order.
    pub(in crate::queue) fn ended(&mut self, into: &mut Vec<u64>) {
        into.append(&mut self.ended);
    }

    pub(super) fn next(&mut self, now: Ns, ops: &mut Vec<Op>) -> Next {
        let Some((name, op)) = self.asked.pop_front() else { return Next::Waits };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.in_slot.push(0);
            self.in_slot.len() as u32 - 1
        });
        if slot as usize >= ops.len() {
            ops.resize(slot as usize + 1, NOTHING);
        }
        self.in_slot[slot as usize] = name;
        ops[slot as usize] = Op { slot, due: now, begin: now, ..op };
        Next::Begin(slot)
    }

    pub(super) fn ends(&mut self, slot: u32) {
        self.ended.push(self.in_slot[slot as usize]);
        self.free.push(slot);
    }
}

impl Op {
    /// What was recorded, to be done again; the flush before it is another operation.
    pub(in crate::queue) fn again(recorded: &super::Recorded) -> Op {
        let kind = match recorded.operation {
            Operation::Read => OperationKind::Read,
            Operation::Flush => OperationKind::Sync,
            Operation::Write | Operation::Discard => OperationKind::Write,
        };
        Op {
            kind,
            operation: recorded.operation,
            offset: recorded.offset,
            length: u64::from(recorded.length),
            fua: recorded.fua,
            class: recorded.class,
            hints: recorded.hints,
            ..NOTHING
        }
    }
}
