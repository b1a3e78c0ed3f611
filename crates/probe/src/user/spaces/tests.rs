// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests see of address spaces, and records that are made up.

use super::*;
use plumb_machine::clock::now;

impl Spaces {
    pub fn of_proc() -> Self {
        Self { refused: Some("not asked".into()), ..Self::default() }
    }

    /// The time that stacks are told with.
    pub fn now(&self) -> u64 {
        now()
    }

    /// How many programs are known that a process ran.
    pub fn programs(&self, pid: u32) -> usize {
        self.processes.get(&pid).map_or(0, |p| p.spaces.len())
    }

    /// The first file that one of them had mapped, by the order of time; the last with a large number.
    pub fn executable(&self, pid: u32, program: usize) -> Option<&str> {
        let spaces = &self.processes.get(&pid)?.spaces;
        let space = spaces.get(program.min(spaces.len().checked_sub(1)?))?;
        space.maps.iter().find(|m| m.source.stuff == Stuff::File).map(|m| m.source.path.as_str())
    }

    /// A process that has a file mapped.
    pub fn process_of(&self, path: &str) -> Option<u32> {
        let has = |p: &Process| p.spaces.iter().any(|s| s.maps.iter().any(|m| m.source.path == path));
        self.processes.iter().find(|(_, p)| has(p)).map(|(pid, _)| *pid)
    }

    /// Forgets what ended, as if so many ns had gone by; how many went.
    pub fn forget_after(&mut self, ns: u64) -> usize {
        let before = self.processes.len();
        self.sweep(now() + LATE + 1 + ns);
        before - self.processes.len()
    }

    /// Addresses of a stack's frames.
    pub fn addresses(&mut self, pid: u32, stack: &UserStack) -> Vec<u64> {
        let maps = &self.processes[&pid].spaces[0].maps;
        let of = |&(module, offset): &(u32, u64)| {
            let mut all = maps.iter().filter(|m| m.source.module() == module);
            let m = all.find(|m| (m.offset..=m.offset + (m.end - m.start)).contains(&offset));
            m.map_or(offset, |m| offset - m.offset + m.start)
        };
        stack.frames.iter().map(of).collect()
    }
}

fn at(time: u64, pid: u32, what: What) -> Record {
    Record { time, pid, what }
}

fn map(path: &str, start: u64) -> What {
    let path = path.to_owned();
    What::Map { start, len: 0x1000, offset: 0, device: 1, inode: 7, generation: 3, executable: true, path }
}

fn apply(spaces: &mut Spaces, records: impl IntoIterator<Item = Record>) {
    records.into_iter().for_each(|r| spaces.apply(r, SystemTime::now()));
}

#[test]
fn a_stack_is_walked_in_the_program_that_ran_then() {
    let mut spaces = Spaces::of_proc();
    const PID: u32 = u32::MAX - 1; // nobody has it: /proc tells nothing
    let second = 1_000_000_000;
    apply(
        &mut spaces,
        [
            at(10, PID, What::Exec),
            at(11, PID, map("/first", 0x10000)),
            at(second, PID, What::Exec),
            at(second + 1, PID, map("/second", 0x10000)),
        ],
    );
    let registers = Registers { ip: 0x10010, sp: 0x7000, ..Registers::default() };
    let mut path = |at| {
        let stack = spaces.walk(at, PID, registers, &[]);
        assert_eq!((stack.frames.len(), stack.frames[0].1, stack.end), (1, 0x10, End::Registers));
        spaces.modules.get(stack.frames[0].0).expect("a module").path.clone()
    };
    assert_eq!([path(500), path(second + 5), path(500)], ["/first", "/second", "/first"]);
    // A child has its parent's code, and what it maps is its own.
    apply(
        &mut spaces,
        [at(second + 9, 5, What::Fork { parent: PID }), at(second + 10, 5, map("/third", 0x20000))],
    );
    assert_eq!(spaces.processes[&5].spaces[0].maps.len(), 2);
    assert_eq!(spaces.processes[&PID].spaces[1].maps.len(), 1);
    // Programs of long ago are forgotten.
    apply(&mut spaces, [at(second + 2 * LATE, PID, What::Exec), at(second + 4 * LATE, PID, What::Exec)]);
    assert_eq!(spaces.programs(PID), 2);
    apply(&mut spaces, (0..99).map(|i| at(second + 4 * LATE + i, PID, What::Exec)));
    assert_eq!(spaces.programs(PID), MOST_PROGRAMS);
}

#[test]
fn an_hour_of_short_processes_does_not_grow() {
    let mut spaces = Spaces::of_proc();
    let mut most = (0, 0);
    // Each runs a file of its own, as tests of a compiler do.
    for i in 0..60_000u64 {
        let (time, pid) = (i * 1_000_000, 100 + i as u32);
        let file = map(&format!("/tmp/{i}"), 0x10000);
        let life = [What::Fork { parent: 1 }, What::Exec, file, What::Exit];
        apply(&mut spaces, life.map(|what| at(time, pid, what)));
        if i % 1000 == 0 {
            spaces.sweep(time);
            most = (most.0.max(spaces.processes.len()), most.1.max(spaces.sources.len()));
        }
    }
    assert!(most.0 > 9_000 && most.0 < 13_000, "{most:?}");
    assert!(most.1 < 40_000, "{most:?}");
}

#[test]
fn lost_records_are_told_and_proc_is_asked() {
    let mut spaces = Spaces::of_proc();
    spaces.refused = None;
    let me = std::process::id();
    apply(&mut spaces, [at(10, me, What::Exec), at(11, 0, What::Lost(3))]);
    assert!(
        spaces.lacking().len() == 1 && spaces.lacking()[0].starts_with("3 records"),
        "{:?}",
        spaces.lacking()
    );
    let ip = lost_records_are_told_and_proc_is_asked as *const () as u64;
    let stack = spaces.walk(20, me, Registers { ip, sp: 8, ..Registers::default() }, &[]);
    let module = spaces.modules.get(stack.frames[0].0).expect("a module");
    assert_eq!(module.path, std::env::current_exe().expect("own path").to_str().expect("text"));
}
