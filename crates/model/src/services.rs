// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs together on a machine: what is in a systemd unit or container; of the rest a program that waits for
//! connections and what it started, and else the first program below shells, init and the like, with all that it
//! started. Of one name is one service.

use crate::setup::Setup;
use plumb_trace::reader::State;
use plumb_trace::schema::{StateService, StateSocket};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Number of a service. 0 is the target where it is not a whole machine, and what belongs to none.
pub type Service = u16;

/// Services that are kept apart; more belong to none.
const MOST: usize = 256;
/// Processes whose next program's unit is kept.
const MOST_COMING: usize = 1 << 16;
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

fn launches(name: &str) -> bool {
    // A name ends after 15 bytes.
    LAUNCHERS.binary_search(&name).is_ok() || name.starts_with("containerd-shim")
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
    /// Whether they are a machine's.
    machine: bool,
    /// Those that are units or containers.
    groups: FxHashSet<Service>,
    /// What programs will be in that processes are yet to run: when they do, ns, and which.
    coming: FxHashMap<u32, VecDeque<(u64, Option<Service>)>>,
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
        let first = state.tasks.iter().filter(|t| !t.told_after_exec() && t.kernel == 0);
        let processes: FxHashMap<u32, (&str, u32)> =
            first.filter(|t| t.tid == t.tgid).map(|t| (t.tgid, (t.comm.as_str(), t.ppid))).collect();
        let listens = state.sockets.iter().filter(|s| s.side == StateSocket::LISTENS);
        let listens: FxHashSet<u32> = listens.map(|s| s.pid).collect();
        for task in state.tasks.iter().filter(|t| !launches(&t.comm)) {
            let program = task.cmdline.split(' ').next().unwrap_or_default();
            if launches(program.rsplit('/').next().unwrap_or_default()) {
                services.scripts.insert(task.comm.clone());
            }
        }
        for told in &state.services {
            services.told(told, begin);
        }
        let grouped: FxHashSet<u32> = services.of.keys().copied().collect();
        for (pid, (comm, _)) in processes.iter().filter(|(pid, _)| !grouped.contains(pid)) {
            // The topmost program that launches nothing, unless one below it waits for connections.
            let (mut at, mut root) = (*pid, *comm);
            for _ in 0..DEEP {
                let Some((comm, parent)) = processes.get(&at) else { break };
                if !services.launches(comm) && at != INIT {
                    root = comm;
                }
                // Workers have what their parent listens on; they are called as it is.
                let alike = processes.get(parent).is_some_and(|(name, _)| name == comm);
                if listens.contains(&at) && !(alike && listens.contains(parent)) {
                    break;
                }
                at = *parent;
                if grouped.contains(&at) {
                    break;
                }
            }
            let number = services.number(root);
            services.of.insert(*pid, number);
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

    fn launches(&self, name: &str) -> bool {
        launches(name) || self.scripts.contains(name)
    }

    /// That of a process.
    pub fn process(&self, tgid: u32) -> Service {
        self.of.get(&tgid).copied().unwrap_or(0)
    }

    /// The recorder told which unit or container a process is in, none where the name is empty; whether that holds now:
    /// it may be of a program that the process will run.
    pub fn told(&mut self, told: &StateService, now: u64) -> bool {
        if !self.machine {
            return false;
        }
        let service = (!told.name.is_empty()).then(|| self.number(&told.name)).filter(|s| *s != 0);
        self.groups.extend(service);
        if told.at > now {
            if self.coming.len() >= MOST_COMING {
                // Of those whose time is over the record was lost.
                self.coming.retain(|_, all| all.back().is_some_and(|(at, _)| *at > now));
            }
            self.coming.entry(told.pid).or_default().push_back((told.at, service));
            return false;
        }
        service.is_some_and(|service| self.of.insert(told.pid, service) != Some(service))
    }

    /// A process belongs to its parent's service until it runs another program.
    pub fn forked(&mut self, child: u32, parent: u32) {
        if self.names.len() > 1 && child != parent {
            self.of.insert(child, self.process(parent));
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
        let grouped = self.groups.contains(&had);
        let number = match self.ran(tgid, ts) {
            Some(Some(group)) => group,
            // It left the unit that started it, as a user's session leaves that of sshd.
            Some(None) if grouped => self.number(comm),
            _ if grouped => return,
            _ if had == 0 || had == self.init || self.launches(&self.names[had as usize]) => {
                self.number(comm)
            }
            _ => return,
        };
        self.of.insert(tgid, number);
    }

    /// What was told of the program that a process runs since `ts`.
    fn ran(&mut self, tgid: u32, ts: u64) -> Option<Option<Service>> {
        let coming = self.coming.get_mut(&tgid)?;
        let mut found = None;
        while let Some((_, service)) = coming.front().filter(|(at, _)| *at <= ts) {
            found = Some(*service);
            coming.pop_front();
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
        let coming = next.coming.values().flatten().filter_map(|(_, service)| *service);
        let held: FxHashSet<Service> = next.of.values().copied().chain(coming).chain([next.init]).collect();
        for (n, name) in next.names.iter_mut().enumerate().skip(1) {
            let number = n as Service;
            if next.machine && !held.contains(&number) {
                next.numbers.remove(name);
                next.groups.remove(&number);
                name.clear();
            }
        }
        next
    }

    /// Processes of one.
    pub fn processes(&self, service: Service) -> impl Iterator<Item = u32> + '_ {
        self.of.iter().filter(move |(_, s)| **s == service).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::schema::StateTask;

    fn task(pid: u32, ppid: u32, comm: &str) -> StateTask {
        StateTask { tid: pid, tgid: pid, ppid, comm: comm.into(), syscall: -1, ..StateTask::default() }
    }

    #[test]
    fn launchers_are_sorted() {
        assert!(LAUNCHERS.is_sorted());
    }

    #[test]
    fn a_service_is_a_program_with_what_it_started() {
        let state = State {
            tasks: vec![
                task(1, 0, "the-init"),
                task(10, 1, "bash"),
                StateTask { cmdline: "/bin/bash -e ./build.sh".into(), ..task(14, 10, "build.sh") },
                task(11, 14, "make"),
                task(12, 11, "sh"),
                task(13, 12, "cc1"),
                task(20, 1, "nginx"),
                task(21, 20, "nginx"),
                task(30, 10, "python3"),
                task(31, 30, "postgres"),
                task(32, 31, "postgres"),
                task(33, 30, "pgbench"),
            ],
            sockets: [20, 21, 30, 31, 32]
                .map(|pid| StateSocket { pid, side: StateSocket::LISTENS, ..StateSocket::default() })
                .into(),
            ..State::default()
        };
        let mut s = Services::of_machine(&state, 0);
        let name = |s: &Services, pid| s.names[s.process(pid) as usize].clone();
        let all = [10, 14, 13, 12, 11, 21, 30, 32, 33].map(|pid| name(&s, pid));
        assert_eq!(
            all,
            ["bash", "build.sh", "make", "make", "make", "nginx", "python3", "postgres", "python3"]
        );
        // The shell starts another program, and make a compiler; the first process one of its own.
        s.forked(43, 1);
        s.renamed(43, "cron-job", Some(50));
        assert_eq!((name(&s, 1), name(&s, 43)), ("the-init".into(), "cron-job".into()));
        s.forked(40, 10);
        assert_eq!(name(&s, 40), "bash");
        s.renamed(40, "redis-server", Some(50));
        s.forked(41, 11);
        s.renamed(41, "sh", Some(50));
        s.forked(42, 41);
        s.renamed(42, "cc1", Some(50));
        assert_eq!(
            (name(&s, 40), name(&s, 41), name(&s, 42)),
            ("redis-server".into(), "make".into(), "make".into())
        );
    }

    #[test]
    fn units_and_containers_are_services() {
        let told =
            |at, pid, name: &str| StateService { at, pid, name: name.into(), ..StateService::default() };
        let state = State {
            tasks: vec![
                task(1, 0, "systemd"),
                task(20, 1, "sshd"),
                task(21, 20, "sshd"),
                task(22, 21, "bash"),
                task(23, 22, "make"),
                task(30, 1, "nginx"),
                task(31, 30, "nginx"),
                task(40, 1, "containerd-shim"),
                task(41, 40, "nginx"),
                task(42, 30, "helper"),
            ],
            services: vec![
                told(0, 20, "ssh.service"),
                told(0, 30, "nginx.service"),
                told(0, 31, "nginx.service"),
                told(0, 40, "containerd.service"),
                told(0, 41, "container web"),
                // Told ahead, of a program that is run later.
                told(90, 51, "container web"),
                told(95, 60, ""),
            ],
            ..State::default()
        };
        let mut s = Services::of_machine(&state, 10);
        let name = |s: &Services, pid| s.names[s.process(pid) as usize].clone();
        let all = [20, 22, 23, 31, 40, 41, 42].map(|pid| name(&s, pid));
        let as_told =
            ["ssh.service", "bash", "make", "nginx.service", "containerd.service", "container web", "helper"];
        assert_eq!(all, as_told, "the rest by its program, not by what is in a unit");
        // A container begins: its runtime runs another program in its place.
        s.forked(50, 40);
        s.forked(51, 50);
        s.renamed(50, "runc", Some(80));
        assert_eq!((name(&s, 50), name(&s, 51)), ("containerd.service".into(), "containerd.service".into()));
        s.renamed(51, "nginx", Some(90));
        assert_eq!(name(&s, 51), "container web");
        // Somebody logs in: the session is no unit of sshd.
        s.forked(60, 20);
        s.renamed(60, "redis-server", Some(95));
        assert_eq!(name(&s, 60), "redis-server");
        // A unit's own program runs others.
        s.forked(61, 30);
        s.renamed(61, "sh", Some(96));
        assert_eq!(name(&s, 61), "nginx.service");
        // What a flight recorder kept of one that it forgot the begin of, and one that is told too late.
        assert!(s.told(&told(97, 61, "container db"), 98));
        assert_eq!((name(&s, 61), s.coming.len()), ("container db".into(), 0));
        assert!(!s.told(&told(97, 61, "container db"), 98), "nothing new");
    }

    #[test]
    fn of_services_that_come_and_go_each_is_known_while_it_lives() {
        let state = State { tasks: vec![task(1, 0, "systemd"), task(5, 1, "sshd")], ..State::default() };
        let mut s = Services::of_machine(&state, 0);
        let name = |s: &Services, pid| s.name(s.process(pid)).to_string();
        for n in 0..5000 {
            let pid = 1000 + n;
            s.forked(pid, 1);
            s.renamed(pid, &format!("job-{n}"), Some(50));
            assert_eq!(name(&s, pid), format!("job-{n}"));
            s = s.carried(|p| p == 5 || p == pid);
            assert!(s.names().count() <= 3 && s.of.len() <= 2, "those before are forgotten");
        }
        assert_eq!((name(&s, 5), name(&s, 5999)), ("sshd".into(), "job-4999".into()));
    }

    #[test]
    fn processes_of_a_name_are_one() {
        let state =
            State { tasks: vec![task(1, 0, "a"), task(2, 0, "b"), task(3, 0, "c")], ..State::default() };
        let mut s = Services::named(&["a".into(), "c".into()], &state);
        s.forked(4, 1);
        s.forked(5, 1);
        s.renamed(5, "b", None);
        assert_eq!([1, 2, 3, 4, 5].map(|pid| s.process(pid)), [1, 0, 1, 1, 0]);
    }

    #[test]
    fn a_target_that_is_no_machine_is_one() {
        let mut s = Services::one();
        s.forked(5, 4);
        s.renamed(5, "bash", Some(50));
        assert_eq!((s.process(5), s.names().count()), (0, 0));
    }
}
