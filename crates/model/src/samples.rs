// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the target's CPU time went to, as the sampling clock saw it: user code,
//! or a function of the kernel under a system call, a fault or an interrupt.

use crate::profile::instrument;
use crate::wait_frames::is_probe;
use rustc_hash::FxHashMap;

/// What a sample of the kernel was at, by the outermost function that tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    User,
    Call,
    /// A page fault.
    Fault,
    Reclaim,
    /// Busy with getting a lock of the kernel.
    Spin,
    /// Busy with getting a lock of user code: the kernel spins while the holder of a priority inheritance futex runs.
    UserSpin,
    /// An interrupt on top, hard or soft.
    Interrupt,
    /// A tracepoint: what the recording itself takes.
    Probe,
    Kernel,
}

impl At {
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user code",
            Self::Call => "system calls",
            Self::Fault => "page faults",
            Self::Reclaim => "memory reclaim",
            Self::Spin => "spinning for locks",
            Self::UserSpin => "spinning for user-space locks",
            Self::Interrupt => "interrupts",
            Self::Probe => "tracepoints of the recording",
            Self::Kernel => "kernel, else",
        }
    }
}

/// Functions that tell what a stack is at; the first line that fits any frame decides.
const PLACES: &[(&[&str], At)] = &[
    (
        &[
            "native_queued_spin_lock_slowpath",
            "queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "osq_lock",
            "rwsem_spin_on_owner",
            "mutex_spin_on_owner",
            "rwsem_optimistic_spin",
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
        ],
        At::Spin,
    ),
    (
        &[
            "try_to_free_pages",
            "do_try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node",
            "shrink_lruvec",
        ],
        At::Reclaim,
    ),
    (
        &[
            "handle_softirqs",
            "__do_softirq",
            "__irq_exit_rcu",
            "sysvec_call_function_single",
            "common_interrupt",
        ],
        At::Interrupt,
    ),
    (
        &["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault"],
        At::Fault,
    ),
    (&["futex_lock_pi", "futex_wait_requeue_pi"], At::UserSpin),
    (
        &["do_syscall_64", "el0_svc", "invoke_syscall", "entry_SYSCALL_64_after_hwframe", "__x64_sys_"],
        At::Call,
    ),
];

/// A kernel stack, made ready for counting.
#[derive(Debug, Clone)]
struct Place {
    at: At,
    function: String,
    /// System call, where the stack has one.
    call: String,
}

/// What a kernel stack (symbols, innermost first, separated by ';') is at.
pub fn at(text: &str) -> At {
    place(text).at
}

fn place(text: &str) -> Place {
    let frames: Vec<&str> = text.split(';').collect();
    let recorded = &frames[instrument(&frames)..];
    let has = |names: &[&str]| frames.iter().any(|f| names.iter().any(|n| f.starts_with(n)));
    // A call that sends to its own host receives there too, in a softirq that no interrupt began.
    let own = has(&["__local_bh_enable_ip"])
        && !has(&["__irq_exit_rcu", "irq_exit_rcu", "irq_exit", "el1_interrupt"]);
    let fits = |at: At| !(own && at == At::Interrupt);
    let place = PLACES.iter().find(|(names, at)| fits(*at) && has(names)).map_or(At::Kernel, |(_, at)| *at);
    let at = if is_probe(recorded) { At::Probe } else { place };
    let call = frames.iter().find_map(|f| {
        f.strip_prefix("__x64_sys_").or_else(|| f.strip_prefix("__arm64_sys_")).map(String::from)
    });
    let function = (*frames.first().unwrap_or(&"")).to_string();
    Place { at, function, call: call.unwrap_or_default() }
}

/// Samples of one process or of all.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub samples: u64,
    /// By what they were at.
    pub at: FxHashMap<At, u64>,
    /// Kernel functions, by place and innermost function.
    pub functions: FxHashMap<(At, String), u64>,
    pub calls: FxHashMap<String, u64>,
}

#[derive(Debug, Default)]
pub struct Samples {
    places: FxHashMap<u32, Place>,
    pub processes: FxHashMap<u32, Counts>,
}

impl Samples {
    /// The places of stacks, without what was sampled there.
    pub fn carried(&self) -> Self {
        Self { places: self.places.clone(), ..Self::default() }
    }

    /// A kernel stack that samples may name.
    pub fn stack(&mut self, number: u32, text: &str) {
        self.places.insert(number, place(text));
    }

    /// A thread of this process was seen there; stack 0 is user mode.
    pub fn sample(&mut self, tgid: u32, stack: u32) {
        let counts = self.processes.entry(tgid).or_default();
        counts.samples += 1;
        let Some(place) = self.places.get(&stack).filter(|_| stack != 0) else {
            *counts.at.entry(if stack == 0 { At::User } else { At::Kernel }).or_default() += 1;
            return;
        };
        *counts.at.entry(place.at).or_default() += 1;
        if let Some(n) = counts.functions.get_mut(&(place.at, place.function.clone())) {
            *n += 1;
        } else {
            counts.functions.insert((place.at, place.function.clone()), 1);
        }
        if !place.call.is_empty() {
            *counts.calls.entry(place.call.clone()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_tells_what_it_is_at() {
        let at = |text| place(text).at;
        assert_eq!(at("clear_page_erms;do_anonymous_page;handle_mm_fault;asm_exc_page_fault"), At::Fault);
        assert_eq!(at("copy_folio;generic_perform_write;__x64_sys_write;do_syscall_64"), At::Call);
        assert_eq!(place("a;__x64_sys_write;do_syscall_64").call, "write");
        let probe =
            "bpf_prog_27b2_sys_exit;bpf_trace_run2;__bpf_trace_sys_exit;syscall_exit_work;do_syscall_64";
        assert_eq!(at(probe), At::Probe);
        assert_eq!(at("syscall_trace_enter;do_syscall_64"), At::Probe);
        assert_eq!(at("__secure_computing;syscall_trace_enter;do_syscall_64"), At::Call);
        // The program that takes the sample lies on top of what is sampled.
        let sample = "bpf_prog_1_cpu_sample;perf_swevent_hrtimer;hrtimer_interrupt;copy_folio;do_syscall_64";
        assert_eq!(at(sample), At::Call);
        let pi = "rt_mutex_slowlock_block;rt_mutex_wait_proxy_lock;futex_lock_pi;do_futex;__x64_sys_futex";
        assert_eq!(at(pi), At::UserSpin);
        assert_eq!(at("osq_lock;__mutex_lock;__x64_sys_rename;do_syscall_64"), At::Spin);
        assert_eq!(
            at("net_rx_action;handle_softirqs;do_softirq;__x64_sys_sendto;do_syscall_64"),
            At::Interrupt
        );
    }
}
