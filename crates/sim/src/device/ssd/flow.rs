// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command's way through the device.

use super::super::agenda::{beyond, transfer, Agenda};
use super::super::chance::Chance;
use super::super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use super::cache::Cache;
use super::command::{Command, Event};
use super::die::{Die, Page, Work};
use super::spare::Spare;
use super::Ssd;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Model {
    ssd: Ssd,
    size: u64,
    chance: Chance,
    events: Agenda<Event>,
    commands: Vec<Option<Command>>,
    unused: Vec<u32>,
    /// Commands that wait for a place in the queue.
    outside: VecDeque<u32>,
    inside: u32,
    refused: usize,
    /// Until when reads and writes, are taken.
    taken_until: [Ns; 2],
    /// Until when the interface is busy, to and from the host.
    interface: [Ns; 2],
    channels: Vec<Ns>,
    dies: Vec<Die>,
    next_die: usize,
    cache: Cache,
    /// Writes that wait for room in the cache.
    no_room: VecDeque<u32>,
    /// Flushes, and how far the cache has to be programmed for them.
    flushes: VecDeque<(u32, u64)>,
    spare: Spare,
    ended: Vec<Completion>,
}

impl Model {
    pub fn new(ssd: &Ssd, size: u64, seed: u64) -> Self {
        Model {
            ssd: ssd.clone(),
            size,
            chance: Chance::new(seed, 1),
            events: Agenda::new(),
            commands: Vec::new(),
            unused: Vec::new(),
            outside: VecDeque::new(),
            inside: 0,
            refused: 0,
            taken_until: [0; 2],
            interface: [0; 2],
            channels: vec![0; ssd.channels as usize],
            dies: (0..ssd.units()).map(|_| Die::default()).collect(),
            next_die: 0,
            cache: Cache::new(ssd.write_cache.0),
            no_room: VecDeque::new(),
            flushes: VecDeque::new(),
            spare: Spare::new(size, ssd.over_provisioning, ssd.fresh),
            ended: Vec::new(),
        }
    }

    /// Writes of this kind are acknowledged out of the cache.
    fn cached(&self, request: &Request) -> bool {
        self.ssd.write_cache.0 > 0 && (self.ssd.power_loss_protection || !request.fua)
    }

    fn request(&self, id: u32) -> Option<Request> {
        self.commands.get(id as usize)?.as_ref().map(|command| command.request)
    }

    /// See [`Command::account`].
    fn account(&mut self, id: u32, until: Ns, own: Ns, part: fn(&mut Parts) -> &mut Ns) {
        if let Some(Some(command)) = self.commands.get_mut(id as usize) {
            command.account(until, own, part);
        }
    }

    /// A command gets its place in the queue.
    fn enter(&mut self, now: Ns, id: u32) {
        let Some(request) = self.request(id) else { return };
        self.inside += 1;
        let (kind, interval) = match request.operation {
            Operation::Read => (0, self.ssd.read_interval.0),
            Operation::Write => (1, self.ssd.write_interval.0),
            Operation::Flush | Operation::Discard => (0, 0),
        };
        let mut start = now;
        if interval > 0 {
            start = start.max(self.taken_until[kind]);
            self.taken_until[kind] = start + interval;
        }
        let ready = start + self.ssd.overhead.0;
        self.account(id, ready, self.ssd.overhead.0, |parts| &mut parts.overhead);
        self.events.push(ready, Event::Ready(id));
    }

    fn ready(&mut self, now: Ns, id: u32) {
        let Some(request) = self.request(id) else { return };
        let (offset, length) = (request.offset, u64::from(request.length));
        match request.operation {
            _ if length == 0 && request.operation != Operation::Flush => self.complete(now, id),
            Operation::Read => self.read(now, id, offset, length),
            Operation::Write => {
                let random = if self.spare.write(offset, length) { 0.0 } else { 1.0 };
                if let Some(Some(command)) = self.commands.get_mut(id as usize) {
                    command.random = random;
                }
                if self.cached(&request) {
                    self.no_room.push_back(id);
                    self.admit(now);
                } else {
                    self.send(now, id, 0);
                }
            }
            Operation::Flush => {
                if !self.volatile_cache() || self.cache.programmed() >= self.cache.end() {
                    self.complete(now, id);
                } else {
                    self.flushes.push_back((id, self.cache.end()));
                    self.drain(now);
                }
            }
            Operation::Discard => {
                self.spare.discard(offset, length);
                self.complete(now, id);
            }
        }
    }

    fn read(&mut self, now: Ns, id: u32, offset: u64, length: u64) {
        let page = self.ssd.page_size.0;
        let end = offset + length;
        let pages = offset / page..end.div_ceil(page);
        self.wait_for(id, pages.end - pages.start);
        for nth in pages {
            let bytes = end.min((nth + 1) * page) - offset.max(nth * page);
            let die = (nth % self.dies.len() as u64) as usize;
            self.dies[die].take(now, Work::Read(Page { command: id, bytes, own: 0, random: 0.0 }));
            self.begin(now, die);
        }
    }

    fn wait_for(&mut self, id: u32, pages: u64) {
        if let Some(Some(command)) = self.commands.get_mut(id as usize) {
            command.pages = pages as u32;
        }
    }

    /// Sends a command's bytes over the interface, to the host (1) or from it (0).
    fn send(&mut self, now: Ns, id: u32, to_host: usize) {
        let Some(request) = self.request(id) else { return };
        let way = if self.ssd.full_duplex { to_host } else { 0 };
        let takes = transfer(request.length.into(), self.ssd.interface_rate.0);
        let end = now.max(self.interface[way]) + takes;
        self.interface[way] = end;
        self.account(id, end, takes, |parts| &mut parts.overhead);
        self.events.push(end, Event::Sent(id));
    }

    fn sent(&mut self, now: Ns, id: u32) {
        let Some(request) = self.request(id) else { return };
        let random = self.commands[id as usize].as_ref().map_or(0.0, |command| command.random);
        if request.operation == Operation::Write && self.cached(&request) {
            self.cache.put(request.length.into(), random > 0.0);
            self.complete(now, id);
            self.drain(now);
        } else if request.operation == Operation::Write {
            let page = self.ssd.page_size.0;
            let pages = u64::from(request.length).div_ceil(page);
            self.wait_for(id, pages);
            for nth in 0..pages {
                let bytes = page.min(u64::from(request.length) - nth * page);
                let own = self.ssd.bus(bytes);
                let die = self.turn();
                self.carry(now, die, own, Work::Program(Page { command: id, bytes, own, random }));
            }
        } else {
            self.complete(now, id);
        }
    }

    /// The die that the log goes on with.
    fn turn(&mut self) -> usize {
        let die = self.next_die;
        self.next_die = (die + 1) % self.dies.len();
        die
    }

    /// Occupies a die's channel: until when.
    fn channel(&mut self, now: Ns, die: usize, takes: Ns) -> Ns {
        let at = die % self.channels.len();
        let channel = &mut self.channels[at];
        *channel = now.max(*channel) + takes;
        *channel
    }

    /// Carries a page to a die.
    fn carry(&mut self, now: Ns, die: usize, takes: Ns, work: Work) {
        let at = self.channel(now, die, takes);
        self.events.push(at, Event::There(die, work));
    }

    fn begin(&mut self, now: Ns, die: usize) {
        if let Some(takes) = self.dies[die].begin(now, &self.ssd, &mut self.chance) {
            self.events.push(now + takes, Event::Die(die));
        }
    }

    fn die_done(&mut self, now: Ns, at: usize) {
        match self.dies[at].end(now) {
            Some(Work::Read(mut page)) => {
                let takes = self.ssd.bus(page.bytes);
                let here = self.channel(now, at, takes);
                page.own += takes;
                self.events.push(here, Event::Here(page));
            }
            Some(Work::Program(page)) => {
                self.programmed(at, page.random);
                self.page_done(now, page);
            }
            Some(Work::Drain(batch)) => {
                self.programmed(at, batch.random);
                self.dies[at].draining = false;
                self.cache.done(&batch);
                self.flushed(now);
                self.admit(now);
                self.drain(now);
            }
            Some(Work::Copy) => self.dies[at].programmed(&self.ssd),
            Some(Work::Erase) | None => {}
        }
        self.begin(now, at);
    }

    /// A page of the host's was programmed.
    fn programmed(&mut self, die: usize, random: f64) {
        if self.spare.program(self.ssd.page_size.0) {
            self.dies[die].collect(&self.ssd, random);
        }
    }

    fn page_done(&mut self, now: Ns, page: Page) {
        let Some(Some(command)) = self.commands.get_mut(page.command as usize) else { return };
        command.pages -= 1;
        if command.pages > 0 {
            return;
        }
        let reads = command.request.operation == Operation::Read;
        self.account(page.command, now, page.own, |parts| &mut parts.medium);
        if reads {
            self.send(now, page.command, 1);
        } else {
            self.complete(now, page.command);
        }
    }

    /// Lets writes into the cache that have room.
    fn admit(&mut self, now: Ns) {
        while let Some(id) = self.no_room.front().copied() {
            let length = self.request(id).map_or(0, |request| request.length.into());
            if !self.cache.reserve(length) {
                return self.drain(now);
            }
            self.no_room.pop_front();
            self.account(id, now, 0, |parts| &mut parts.queued);
            self.send(now, id, 0);
        }
    }

    /// Programs what the cache has, whole pages unless somebody waits.
    fn drain(&mut self, now: Ns) {
        let page = self.ssd.page_size.0;
        loop {
            // With pages under way there will be room without a page that is not full.
            let wanted = (!self.no_room.is_empty() && self.cache.idle())
                || self.flushes.back().is_some_and(|(_, place)| *place > self.cache.taken());
            let waiting = self.cache.waiting();
            if waiting == 0 || (waiting < page && !wanted) {
                return;
            }
            let dies = self.dies.len();
            let free = (0..dies).map(|i| (self.next_die + i) % dies).find(|die| !self.dies[*die].draining);
            let Some(die) = free else { return };
            self.next_die = (die + 1) % dies;
            self.dies[die].draining = true;
            let batch = self.cache.take(page);
            let takes = self.ssd.bus(page);
            self.carry(now, die, takes, Work::Drain(batch));
        }
    }

    /// Ends the flushes whose bytes are programmed.
    fn flushed(&mut self, now: Ns) {
        let programmed = self.cache.programmed();
        while let Some((id, _)) = self.flushes.front().copied().filter(|(_, place)| *place <= programmed) {
            self.flushes.pop_front();
            self.account(id, now, Ns::MAX, |parts| &mut parts.medium);
            self.complete(now, id);
        }
    }

    fn complete(&mut self, now: Ns, id: u32) {
        let Some(command) = self.commands.get_mut(id as usize).and_then(Option::take) else { return };
        self.unused.push(id);
        debug_assert_eq!((command.mark, command.parts.total()), (now, now - command.submitted));
        let Command { request, parts, .. } = command;
        self.ended.push(Completion { id: request.id, at: now, outcome: Outcome::Done, parts });
        self.inside -= 1;
        if let Some(next) = self.outside.pop_front() {
            self.enter(now, next);
        }
    }
}

impl Device for Model {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        if let Some(errno) = beyond(&request, self.size) {
            let overhead = self.ssd.overhead.0;
            let parts = Parts { overhead, ..Parts::default() };
            let (at, outcome) = (now + overhead, Outcome::Failed(errno));
            self.refused += 1;
            self.events.push(at, Event::Refused(Completion { id: request.id, at, outcome, parts }));
            return;
        }
        let command = Command::new(now, request);
        let id = self.unused.pop().unwrap_or_else(|| {
            self.commands.push(None);
            (self.commands.len() - 1) as u32
        });
        self.commands[id as usize] = Some(command);
        if self.inside < self.ssd.queue_depth {
            self.enter(now, id);
        } else {
            self.outside.push_back(id);
        }
    }

    fn next_event(&self) -> Option<Ns> {
        self.events.next()
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some((at, event)) = self.events.due(now) {
            match event {
                Event::Ready(id) => self.ready(at, id),
                Event::Sent(id) => self.sent(at, id),
                Event::Here(page) => self.page_done(at, page),
                Event::There(die, work) => {
                    self.dies[die].take(at, work);
                    self.begin(at, die);
                }
                Event::Die(die) => self.die_done(at, die),
                Event::Refused(completion) => {
                    self.refused -= 1;
                    self.ended.push(completion);
                }
            }
        }
        ended.append(&mut self.ended);
    }

    fn under_way(&self) -> usize {
        self.inside as usize + self.outside.len() + self.refused
    }

    fn volatile_cache(&self) -> bool {
        self.ssd.write_cache.0 > 0 && !self.ssd.power_loss_protection
    }
}
