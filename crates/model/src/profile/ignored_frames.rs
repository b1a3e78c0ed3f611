// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that tell nothing of what a program is at: ways into the kernel, libraries, the
//! instrument, and what [`crate::wait_frames`] lists.

use super::{Frames, Function, Origin, Profile};
use crate::wait_frames::{begins, is_runtime, waits};

/// How a program's stack of the kernel begins, whatever it asked for.
const ENTRIES: &[&str] = &[
    "entry_SYSCALL",
    "do_syscall_64",
    "x64_sys_call",
    "do_fast_syscall",
    "invoke_syscall",
    "el0_svc",
    "do_el0_svc",
];
/// A function of a system call's own: the rest is its name.
const CALLS: &[&str] = &["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_", "ksys_"];
/// Other functions of the kernel that only lead to where something is done.
const WAYS: &[&str] = &["asm_", "el0", "el1", "syscall_", "ret_from_fork", "exc_page_fault", "irqentry_"];
/// Modules whose functions stand between a program and what it asks for.
const LIBRARIES: &[&str] = &["libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "libc.musl", "[vdso]"];
/// What lies on top of a sample's stack where the kernel does not begin at the interrupted
/// place: the clock's interrupt, perf and the program that takes the stack.
const INSTRUMENT: &[&str] = &[
    "bpf_",
    "__bpf_",
    "perf_",
    "__perf_",
    "get_perf_callchain",
    "hrtimer_interrupt",
    "__hrtimer_run_queues",
    "local_apic_timer_interrupt",
    "__sysvec_apic_timer_interrupt",
    "sysvec_apic_timer_interrupt",
    "asm_sysvec_apic_timer_interrupt",
    "asm_exc_nmi",
    "exc_nmi",
    "default_do_nmi",
    "nmi_handle",
];

/// How many of the innermost functions are surely the instrument's: a run that begins in
/// BPF or perf themselves. A timer's interrupt alone is the kernel's work.
pub(crate) fn instrument(names: &[&str]) -> usize {
    let takes = names.first().is_some_and(|name| begins(name, &["bpf_", "__bpf_", "perf_", "__perf_"]));
    if !takes {
        return 0;
    }
    let run = names.iter().take_while(|name| begins(name, INSTRUMENT)).count();
    // A stack of nothing else is a BPF program's own work.
    if run == names.len() {
        0
    } else {
        run
    }
}

/// Whether a kernel stack with this function was entered by a system call.
pub(super) fn is_call_entry(name: &str) -> bool {
    begins(name, ENTRIES) || begins(name, CALLS)
}

/// Whether a function tells what a program is at.
pub(super) fn tells(profile: &Profile, function: &Function) -> bool {
    if !function.named {
        return false;
    }
    match function.origin {
        Origin::Kernel => {
            !is_call_entry(&function.name) && !begins(&function.name, WAYS) && !waits(&function.name)
        }
        Origin::User | Origin::Jit => {
            let module = profile.modules.get(function.module as usize);
            let library = module.is_some_and(|m| begins(m.name(), LIBRARIES));
            !library && !is_runtime(&function.name)
        }
    }
}

/// Whether `FILE:LINE` lies in a language's own library: its templates and generics are compiled into the program, so
/// that no module tells.
pub(super) fn is_library_source(place: &str) -> bool {
    let rust = place.split_once("/rustc").is_some_and(|(_, rest)| rest.contains("/library/"));
    rust || place.contains("/include/c++/")
}

/// The system call of a stack: `write(2)`; empty where the kernel's functions do not tell.
pub(super) fn call(profile: &Profile, frames: Frames<'_>) -> String {
    let functions = frames.iter().filter_map(|f| profile.functions.get(f.function as usize));
    let kernel: Vec<&Function> = functions.filter(|f| f.origin == Origin::Kernel).collect();
    let name = kernel.iter().rev().find_map(|f| CALLS.iter().find_map(|c| f.name.strip_prefix(c)));
    // A compiler's variants have a suffix (ksys_read.isra.0), and mmap(2) is ksys_mmap_pgoff.
    let name = name.and_then(|n| n.split('.').next()).map(|n| n.trim_end_matches("_pgoff"));
    name.map_or_else(String::new, |n| format!("{n}(2)"))
}

#[cfg(test)]
mod tests {
    use super::{instrument, is_library_source};

    #[test]
    fn only_the_instrument_is_taken_off() {
        let stack =
            ["bpf_get_stack", "bpf_prog_1_cpu_sample", "perf_swevent_hrtimer", "__hrtimer_run_queues"];
        let below = ["asm_sysvec_apic_timer_interrupt", "vfs_read", "do_syscall_64"];
        assert_eq!(instrument(&[&stack[..], &below[..]].concat()), 5);
        assert_eq!(instrument(&["__hrtimer_run_queues", "asm_sysvec_apic_timer_interrupt", "vfs_read"]), 0);
        assert_eq!(instrument(&["bpf_prog_1_x", "bpf_trace_run2"]), 0);
        assert_eq!(instrument(&[]), 0);
    }

    #[test]
    fn libraries_that_are_compiled_in_tell_nothing() {
        for (place, library) in [
            ("/rustc/59807616/library/core/src/cmp.rs:1411", true),
            ("/usr/src/rustc-1.63.0/library/alloc/src/vec/mod.rs:7", true),
            ("/usr/include/c++/12/bits/stl_algo.h:1950", true),
            ("/home/me/library/src/rustc.rs:3", false),
            ("./src/main.cpp:3", false),
            ("", false),
        ] {
            assert_eq!(is_library_source(place), library, "{place}");
        }
    }
}
