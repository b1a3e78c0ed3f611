// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs together on a machine: what is in a systemd unit or container; of the rest a program that waits for
//! connections and what it started, and else the first program below shells, init and the like, with all that it
//! started. An interpreter is named after the script that it runs. Of one name is one service.

use crate::setup::Setup;
use plumb_trace::reader::State;
use plumb_trace::schema::{StateService, StateSocket, StateTask};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Number of a service. 0 is the target where it is not a whole machine, and what belongs to none.
pub type Service = u16;

/// Services that are kept apart; more belong to none.
const MOST: usize = 256;
/// Processes whose next program's unit is kept.
const MOST_COMING: usize = 1 << 16;
/// Names of scripts that are kept.
const MOST_SCRIPTS: usize = 1 << 12;
/// The first process of a machine or container.
const INIT: u32 = 1;
/// Parents that are looked at.
const DEEP: usize = 64;

/// Programs that start others for somebody: what they start is a service of its own.
const LAUNCHERS: &[&str] = &[
    "ash",
    "bash",
    "busybox",
    "catatonit",
    "conmon",
    "containerd-shim",
    "cron",
    "crond",
    "csh",
    "dash",
    "dumb-init",
    "env",
    "fish",
    "init",
    "ksh",
    "login",
    "nice",
    "nohup",
    "runuser",
    "s6-supervise",
    "screen",
    "setpriv",
    "setsid",
    "sh",
    "sshd",
    "sshd-session",
    "su",
    "sudo",
    "supervisord",
    "systemd",
    "taskset",
    "tcsh",
    "timeout",
    "tini",
    "tmux: server",
    "xargs",
    "zsh",
];

/// Whether a name is that of what an interpreter runs, not of a unit or container.
fn is_script(told: &StateService) -> bool {
    told.cgroup.is_empty() && !told.name.is_empty()
}

fn launches(name: &str) -> bool {
    // A name ends after 15 bytes.
    LAUNCHERS.binary_search(&name).is_ok() || name.starts_with("containerd-shim")
}

/// What a process is in while it runs a program.
#[derive(Debug, Clone)]
enum Of {
    /// A unit or container.
    Group(Service),
    /// None of them; it runs a script of this name.
    Script(String),
    Nothing,
}

/// Services of a machine, and which process belongs to which.
#[derive(Debug, Clone, Default)]
pub struct Services {
    names: Vec<String>,
    /// Names of the processes of the only one; empty: programs decide.
    comms: Vec<String>,
    numbers: FxHashMap<String, Service>,
    /// Names of programs that a shell runs.
    scripts: FxHashSet<String>,
    /// Processes that run the script after which their service is named, and how they are called themselves.
    interpreters: FxHashMap<u32, String>,
    /// Whether they are a machine's.
    machine: bool,
    /// Those that are units or containers.
    groups: FxHashSet<Service>,
    /// What was told of programs that processes are yet to run: when they do, ns, and what.
    coming: FxHashMap<u32, VecDeque<(u64, Of)>>,
    /// Processes that are called as the program that they run themselves, and whether something was told of it.
    own: FxHashMap<u32, bool>,
    /// That of the first process, which launches others whatever it is called.
    init: Service,
    /// By process; those that ended included.
    of: FxHashMap<u32, Service>,
}

impl Services {
    /// Those of a target.
    pub fn of(setup: &Setup) -> Self {
        match (setup.comms.is_empty(), setup.everyone) {
            (false, _) => Self::named(&setup.comms, &setup.state),
            (true, true) => Self::of_machine(&setup.state, setup.begin),
            (true, false) => Self::one(),
        }
    }

    /// One for the whole target.
    fn one() -> Self {
        Self { names: vec![String::new()], ..Self::default() }
    }

    /// One of the processes of some names.
    fn named(comms: &[String], state: &State) -> Self {
        let names = vec![String::new(), comms.join(", ")];
        let mut services = Self { names, comms: comms.to_vec(), ..Self::default() };
        for task in state.tasks.iter().filter(|t| t.tid == t.tgid) {
            services.renamed(task.tgid, &task.comm, None);
        }
        services
    }

    /// Those that the recorder saw when it began, `begin`.
    fn of_machine(state: &State, begin: u64) -> Self {
        let mut services = Self { machine: true, ..Self::one() };
        let scripts = state.services.iter().filter(|s| s.at <= begin && is_script(s));
        let scripts: FxHashMap<u32, &str> = scripts.map(|s| (s.pid, s.name.as_str())).collect();
        let first = state.tasks.iter().filter(|t| !t.told_after_exec() && t.kernel == 0);
        let processes: FxHashMap<u32, (&str, u32)> =
            first.filter(|t| t.tid == t.tgid).map(|t| (t.tgid, (t.comm.as_str(), t.ppid))).collect();
        let listens = state.sockets.iter().filter(|s| s.side == StateSocket::LISTENS);
        let listens: FxHashSet<u32> = listens.map(|s| s.pid).collect();
        state.tasks.iter().for_each(|task| services.runs(task));
        for told in &state.services {
            services.told(told, begin);
        }
        let grouped: FxHashSet<u32> = services.of.keys().copied().collect();
        for pid in processes.keys().filter(|pid| !grouped.contains(pid)) {
            // The topmost program that launches nothing, unless one below it waits for connections.
            let (mut at, mut root) = (*pid, *pid);
            for _ in 0..DEEP {
                let Some((comm, parent)) = processes.get(&at) else { break };
                if !services.launches(comm) && at != INIT {
                    root = at;
                }
                // Workers have what their parent listens on; they are called as it is, and run no other script.
                let alike = processes.get(parent).is_some_and(|(name, _)| name == comm)
                    && scripts.get(&at).is_none_or(|script| scripts.get(parent) == Some(script));
                if listens.contains(&at) && !(alike && listens.contains(parent)) {
                    break;
                }
                at = *parent;
                if grouped.contains(&at) {
                    break;
                }
            }
            let comm = processes.get(&root).map_or("", |(comm, _)| *comm);
            let number = match scripts.get(&root) {
                Some(script) => services.of_script(script, comm),
                None => services.number(comm),
            };
            services.of.insert(*pid, number);
            if scripts.contains_key(pid) && scripts.get(pid) == scripts.get(&root) {
                services.interprets(*pid, Some(processes[pid].0));
            }
            if root == *pid {
                services.own.insert(root, true);
            }
        }
        services.init = services.process(INIT);
        services
    }

    fn number(&mut self, name: &str) -> Service {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // Number 0 has no name, and the others once their service has gone.
        let free = self.names.iter().skip(1).position(String::is_empty).map(|at| at + 1);
        let Some(at) = free.or((self.names.len() < MOST).then_some(self.names.len())) else { return 0 };
        self.names.resize(self.names.len().max(at + 1), String::new());
        self.names[at] = name.into();
        self.numbers.insert(name.into(), at as Service);
        at as Service
    }

    /// A process runs a program, or will: whether a shell runs it.
    pub fn runs(&mut self, task: &StateTask) {
        let program = task.cmdline.split(' ').next().unwrap_or_default();
        let by_launcher = launches(program.rsplit('/').next().unwrap_or_default());
        match by_launcher && !launches(&task.comm) {
            true if self.machine && self.scripts.len() < MOST_SCRIPTS => {
                self.scripts.insert(task.comm.clone());
            }
            // A wrapper may be called as the program that it runs in its place.
            false if !task.cmdline.is_empty() => _ = self.scripts.remove(&task.comm),
            _ => {}
        }
    }

    /// That of a program, `comm`, that runs a script. Scripts that come and go do not take the place of other services.
    fn of_script(&mut self, name: &str, comm: &str) -> Service {
        let known = self.numbers.contains_key(name) || self.numbers.len() < MOST / 2;
        self.number(if known { name } else { comm })
    }

    /// A process, called `comm`, runs the script after which its service is named, where that is named after one.
    fn interprets(&mut self, tgid: u32, comm: Option<&str>) {
        let name = self.name(self.process(tgid));
        match comm.filter(|comm| !name.is_empty() && name != *comm) {
            Some(comm) => self.interpreters.insert(tgid, comm.into()),
            None => self.interpreters.remove(&tgid),
        };
    }

    /// The script after which the service of a process is named, if one of its threads is called as the program that runs it.
    pub fn script(&self, tgid: u32, thread: &str) -> Option<&str> {
        self.interpreters.get(&tgid).filter(|comm| *comm == thread).map(|_| self.name(self.process(tgid)))
    }

    fn launches(&self, name: &str) -> bool {
        launches(name) || self.scripts.contains(name)
    }

    /// That of a process.
    pub fn process(&self, tgid: u32) -> Service {
        self.of.get(&tgid).copied().unwrap_or(0)
    }

    /// The recorder told which unit or container a process is in, or what its interpreter runs, nothing where the name
    /// is empty; whether it belongs to another service now: it may be of a program that the process will run.
    pub fn told(&mut self, told: &StateService, now: u64) -> bool {
        if !self.machine {
            return false;
        }
        let of = match is_script(told) {
            true => Of::Script(told.name.clone()),
            false if told.name.is_empty() => Of::Nothing,
            false => match self.number(&told.name) {
                0 => Of::Nothing,
                group => Of::Group(group),
            },
        };
        if let Of::Group(group) = of {
            self.groups.insert(group);
        }
        if told.at > now {
            if self.coming.len() >= MOST_COMING {
                // Of those whose time is over the record was lost.
                self.coming.retain(|_, all| all.back().is_some_and(|(at, _)| *at > now));
            }
            self.coming.entry(told.pid).or_default().push_back((told.at, of));
            return false;
        }
        let nameless = self.own.get_mut(&told.pid).is_some_and(|told| !std::mem::replace(told, true));
        let (service, comm) = match of {
            Of::Group(group) => (group, None),
            Of::Script(name) if nameless => {
                let comm = self.name(self.process(told.pid)).to_owned();
                (self.of_script(&name, &comm), Some(comm))
            }
            _ => return false,
        };
        let moved = self.of.insert(told.pid, service) != Some(service);
        self.interprets(told.pid, comm.as_deref());
        moved
    }

    /// A process belongs to its parent's service until it runs another program.
    pub fn forked(&mut self, child: u32, parent: u32) {
        if self.names.len() > 1 && child != parent {
            self.own.remove(&child);
            self.of.insert(child, self.process(parent));
            match self.interpreters.get(&parent).cloned() {
                Some(comm) => self.interpreters.insert(child, comm),
                None => self.interpreters.remove(&child),
            };
        }
    }

    /// A process has another name; `program`: since when it runs another program.
    pub fn renamed(&mut self, tgid: u32, comm: &str, program: Option<u64>) {
        if !self.comms.is_empty() {
            self.of.insert(tgid, Service::from(self.comms.iter().any(|c| c == comm)));
            return;
        }
        let Some(ts) = program.filter(|_| self.names.len() > 1) else { return };
        let had = self.process(tgid);
        let of = self.ran(tgid, ts);
        let told = of.is_some();
        let runs = matches!(of, Some(Of::Script(_))).then_some(comm);
        self.interpreters.remove(&tgid);
        // Another program is another service where it left the unit that started it, as a user's session leaves that of
        // sshd, where it was started by what starts others for somebody, and where it takes the place of the first of its service.
        let own = match self.groups.contains(&had) {
            true => of.is_some(),
            false => {
                let launched = had == 0 || had == self.init || self.launches(&self.names[had as usize]);
                launched || self.own.contains_key(&tgid)
            }
        };
        let number = match of {
            Some(Of::Group(group)) => group,
            _ if !own => return,
            Some(Of::Script(name)) => self.of_script(&name, comm),
            Some(Of::Nothing) | None => self.number(comm),
        };
        match self.groups.contains(&number) {
            true => self.own.remove(&tgid),
            false => self.own.insert(tgid, told),
        };
        self.of.insert(tgid, number);
        self.interprets(tgid, runs);
    }

    /// What was told of the program that a process runs since `ts`.
    fn ran(&mut self, tgid: u32, ts: u64) -> Option<Of> {
        let coming = self.coming.get_mut(&tgid)?;
        let mut found = None;
        while coming.front().is_some_and(|(at, _)| *at <= ts) {
            found = coming.pop_front().map(|(_, of)| of);
        }
        if coming.is_empty() {
            self.coming.remove(&tgid);
        }
        found
    }

    /// The name of one; empty where it has none.
    pub fn name(&self, service: Service) -> &str {
        self.names.get(usize::from(service)).map_or("", String::as_str)
    }

    /// Their numbers and names.
    pub fn names(&self) -> impl Iterator<Item = (Service, &str)> {
        let all = self.names.iter().enumerate().skip(1).filter(|(_, name)| !name.is_empty());
        all.map(|(n, name)| (n as Service, name.as_str()))
    }

    /// What goes on of them: of processes that live. A service without one is forgotten, so that others find room.
    pub fn carried(&self, lives: impl Fn(u32) -> bool) -> Self {
        let mut next = self.clone();
        next.of.retain(|pid, _| lives(*pid));
        next.own.retain(|pid, _| lives(*pid));
        next.interpreters.retain(|pid, _| lives(*pid));
        let coming = next.coming.values().flatten().filter_map(|(_, of)| match of {
            Of::Group(group) => Some(*group),
            _ => None,
        });
        let held: FxHashSet<Service> = next.of.values().copied().chain(coming).chain([next.init]).collect();
        for (n, name) in next.names.iter_mut().enumerate().skip(1) {
            let number = n as Service;
            if next.machine && !held.contains(&number) {
                next.numbers.remove(name);
                next.groups.remove(&number);
                name.clear();
            }
        }
        next.scripts.retain(|name| next.numbers.contains_key(name));
        next
    }

    /// Processes of one.
    pub fn processes(&self, service: Service) -> impl Iterator<Item = u32> + '_ {
        self.of.iter().filter(move |(_, s)| **s == service).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests;
