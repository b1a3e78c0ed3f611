// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who and where: the process and the name of each thread, the system call that
//! it is in, the stacks of its waits. Every view asks here.

use super::sample::NONE;
use crate::tasks::{At, Step, Tasks};
use crate::wait::call_name;
use crate::wait_frames::is_lock;
use plumb_trace::reader::{Item, RawRecord, State, Told};
use plumb_trace::schema::*;
use plumb_trace::{units, Record};
use std::collections::HashMap;

/// Stacks of waits that are remembered until their wait ends.
const MOST_STACKS: usize = 1 << 16;
/// How long one is remembered at least, ns.
const STACK_AGE: u64 = 10_000_000_000;
/// Marks a site that is a system call, for want of a stack.
const CALL_SITE: u64 = 1 << 32;

/// Names of everything that a number in a trace stands for.
#[derive(Debug, Default)]
pub struct Names {
    tasks: Tasks,
    disks: HashMap<u32, String>,
    /// Call site by stack number: where the wait came from, below scheduler and lock code.
    sites: HashMap<u32, u32>,
    site_texts: Vec<String>,
    stacks: HashMap<(u32, u64), u32>,
    /// Names of spans of kernel functions.
    functions: HashMap<u32, String>,
}

impl Names {
    /// What the trace's state tells.
    pub fn new(state: &State) -> Self {
        let mut names = Self { tasks: Tasks::new(state, At::End), ..Self::default() };
        let mut ids: HashMap<String, u32> = HashMap::new();
        for stack in state.stacks.iter().filter(|s| s.user == 0) {
            let text = site(&stack.text);
            let next = ids.len() as u32;
            let id = *ids.entry(text.clone()).or_insert(next);
            if id == next {
                names.site_texts.push(text);
            }
            names.sites.insert(stack.stack, id);
        }
        names.functions =
            state.spans.iter().filter(|s| s.of_kernel()).map(|s| (s.span, s.name.clone())).collect();
        names.disks = state.disks.iter().map(|d| (d.dev, d.name.clone())).collect();
        names
    }

    /// Takes the next item; before the views do.
    pub fn feed(&mut self, item: &Item<'_>) {
        match item {
            Item::Record(r) => self.record(r),
            Item::Told(Told::Wait(w)) => {
                if self.sites.contains_key(&w.stack) {
                    if self.stacks.len() > MOST_STACKS {
                        let old = w.end.saturating_sub(STACK_AGE);
                        self.stacks.retain(|(_, end), _| *end > old);
                    }
                    self.stacks.insert((w.waiter, w.end), w.stack);
                }
            }
            Item::Told(_) | Item::Gap(_) | Item::Operation(_) => {}
        }
    }

    fn record(&mut self, r: &RawRecord<'_>) {
        match r.id {
            SysEnter::ID => self.tasks.entry(r.tid).call = SysEnter::read(r.bytes).nr as i32,
            SysExit::ID => self.tasks.entry(r.tid).call = StateTask::NO_SYSCALL,
            _ => {
                if let Some(step) = Step::read(r) {
                    self.tasks.learn(&step);
                }
            }
        }
    }

    /// Process of a thread; the thread itself where nothing is known.
    pub fn process(&self, tid: u32) -> u32 {
        match self.tasks.tgid(tid) {
            0 => tid,
            tgid => tgid,
        }
    }

    /// Number of a thread's name, for [`Names::comm_label`].
    pub fn comm_of(&self, tid: u32) -> u64 {
        self.tasks.number(tid).map_or(NONE, u64::from)
    }

    /// A thread's name; empty where it is not known.
    pub fn comm(&self, tid: u32) -> &str {
        self.tasks.number(tid).and_then(|n| self.tasks.name(n)).unwrap_or("")
    }

    /// Names of processes, each once, sorted.
    pub fn all_comms(&self) -> Vec<String> {
        let mut all: Vec<String> = self.tasks.names().filter(|c| !c.is_empty()).map(String::from).collect();
        all.sort();
        all
    }

    /// System call that a thread is in, [`NONE`] outside of any recorded one.
    pub fn call(&self, tid: u32) -> u64 {
        self.tasks.get(tid).and_then(|t| u64::try_from(t.call).ok()).unwrap_or(NONE)
    }

    /// Site of the wait of `tid` that ends at `end`, where its stack was recorded.
    pub fn stack(&self, tid: u32, end: u64) -> Option<u64> {
        if self.stacks.is_empty() {
            return None;
        }
        let stack = self.stacks.get(&(tid, end))?;
        self.sites.get(stack).map(|s| u64::from(*s))
    }

    /// The site of a wait without a stack: its system call.
    pub fn call_site(call: u64) -> u64 {
        if call == NONE {
            NONE
        } else {
            CALL_SITE | call
        }
    }

    /// Device numbers that a kernel name stands for: the disk's, or a partition's disk's.
    pub fn disk(&self, name: &str) -> Option<u32> {
        self.disks.iter().find(|(_, n)| *n == name).map(|(dev, _)| *dev)
    }

    pub fn site_label(&self, site: u64) -> String {
        match site {
            NONE => "unknown (no stack, no system call)".into(),
            s if s & CALL_SITE != 0 => format!("in {}, no stack", call_name((s & !CALL_SITE) as u32)),
            s => self.site_texts.get(s as usize).cloned().unwrap_or_default(),
        }
    }

    /// Name of a span of a kernel function, where it is one.
    pub fn function(&self, span: u32) -> Option<&str> {
        self.functions.get(&span).map(String::as_str)
    }

    /// Words for a thread: name and number.
    pub fn thread_label(&self, tid: u32) -> String {
        match (tid, self.comm(tid)) {
            (0, _) => "idle".into(),
            (_, "") => tid.to_string(),
            (_, comm) => format!("{comm} ({tid})"),
        }
    }

    /// A name by its number.
    pub fn comm_label(&self, id: u64) -> String {
        let name = u32::try_from(id).ok().and_then(|id| self.tasks.name(id)).filter(|c| !c.is_empty());
        name.unwrap_or("unknown").into()
    }

    /// Kernel name of a disk, or major:minor.
    pub fn disk_label(&self, dev: u32) -> String {
        self.disks.get(&dev).cloned().unwrap_or_else(|| units::device(dev))
    }
}

/// The first three functions that tell where a wait came from, innermost first.
fn site(stack: &str) -> String {
    let frames: Vec<&str> = stack.split(';').collect();
    let skip = frames.iter().take_while(|f| is_lock(f)).count();
    let skip = if skip == frames.len() { 0 } else { skip };
    frames[skip..].iter().take(3).copied().collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_lies_below_scheduler_and_lock() {
        let stack = "__schedule;schedule;schedule_preempt_disabled;rwsem_down_write_slowpath;down_write;ext4_rename;vfs_rename;do_renameat2;x";
        assert_eq!(site(stack), "ext4_rename < vfs_rename < do_renameat2");
        assert_eq!(site("schedule;do_nanosleep"), "do_nanosleep");
        assert_eq!(site("schedule"), "schedule");
    }
}
