// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that only serve to wait, to lock and to wake, by the beginnings of their names: what a
//! thread is at stands outward of them. One list a role; who asks for several says so here.

/// The scheduler, at the innermost end of each wait's stack.
const SCHEDULER: &[&str] =
    &["__schedule", "schedule", "io_schedule", "preempt_schedule", "__cond_resched", "finish_task_switch"];
/// The recorder on top of what it records.
const RECORDER: &[&str] = &["bpf_", "__bpf_", "trace_", "__traceiter", "__probestub"];
/// How a tracepoint calls its programs.
const TRACEPOINT: &[&str] = &["__traceiter_", "__bpf_trace_", "bpf_trace_run"];
/// The way of a system call that has tracepoints.
const TRACED_CALL: &[&str] = &["syscall_trace_enter", "syscall_exit_work", "syscall_trace_exit"];
/// Slow paths of the kernel's locks.
const LOCKS: &[&str] = &[
    "__mutex",
    "mutex_",
    "ww_mutex_",
    "osq_lock",
    "rwsem_",
    "down_",
    "__down",
    "rt_mutex",
    "rt_spin_",
    "rt_read_",
    "rt_write_",
    "rtlock",
    "__rt_",
    "rwbase",
    "percpu_",
    "__percpu",
    "queued_",
    "__pv_queued",
    "native_queued",
    "_raw_",
];
/// Waits for a bit, a completion.
const WAITS: &[&str] = &[
    "bit_wait",
    "out_of_line_wait",
    "__wait_on_bit",
    "wait_on_bit",
    "wait_for_completion",
    "__wait_for_common",
];
const WAKEUPS: &[&str] = &[
    "up_",
    "__up",
    "try_to_wake_up",
    "wake_up",
    "__wake_up",
    "wake_q",
    "default_wake_function",
    "autoremove_wake",
    "ttwu",
];
/// The system call of user locks.
const FUTEX: &[&str] = &["futex_", "do_futex", "__x64_sys_futex", "__se_sys_futex", "__do_sys_futex"];
/// Functions of user code that lead to the kernel's, or to the program's own, where they are linked
/// into the program: the C library, runtimes, the beginnings of programs and threads.
const USER: &[&str] = &[
    "_start",
    "__libc_start",
    "start_thread",
    "__clone",
    "clone3",
    "__lll_",
    "lll_",
    "___pthread",
    "__pthread",
    "pthread_",
    "__futex_abstimed",
    "futex_wait",
    "futex_wake",
    "__GI_",
    "syscall",
    "std::sys",
    "<std::sys",
    "std::sync",
    "<std::sync",
    "{closure",
    "call_once",
    "call_mut",
    "do_call",
    "catch_unwind",
    "lang_start",
    "__rust_",
    "std::rt::",
    "std::panic",
    "std::thread::",
    "<std::thread::",
    "core::ops::function",
    "<core::ops::function",
    "<alloc::boxed::Box<",
    "core::ptr::drop_in_place",
    "parking_lot",
    "execute_native_thread_function",
    "std::mutex::",
    "std::condition_variable::",
    "std::__",
    "runtime.",
    "internal/runtime/",
    "internal/poll.",
    "syscall.",
    "sync.(*",
    // How CPython calls functions, its own and those of Python, and hands on its lock.
    "_PyEval_Vector",
    "_PyEval_EvalCode",
    "_PyFunction_Vectorcall",
    "_PyObject_Call",
    "_PyObject_MakeTpCall",
    "_PyObject_Vectorcall",
    "PyObject_Call",
    "PyObject_Vectorcall",
    "function_code_fastcall",
    "cfunction_vectorcall",
    "method_vectorcall",
    "drop_gil",
    "take_gil",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyEval_ReleaseThread",
    "PyGILState_",
    "PyThread_",
];

/// Whether a kernel stack, innermost function first, is at a tracepoint: time that recording takes.
pub fn is_probe(names: &[&str]) -> bool {
    let innermost = names.first().is_some_and(|n| begins(n, TRACED_CALL) || begins(n, &["bpf_prog_"]));
    innermost || names.iter().any(|n| begins(n, TRACEPOINT))
}

/// Whether a name begins with one of these.
pub(crate) fn begins(name: &str, with: &[&str]) -> bool {
    with.iter().any(|w| name.starts_with(w))
}

fn any(name: &str, lists: &[&[&str]]) -> bool {
    lists.iter().any(|list| begins(name, list))
}

/// Whether a function of the kernel is the scheduler's, or the recorder's own on top of it.
pub fn is_scheduler(name: &str) -> bool {
    any(name, &[SCHEDULER, RECORDER])
}

/// Whether a function of the kernel is a lock's, or innermost of it: who waits there came from further
/// outward.
pub(crate) fn is_lock(name: &str) -> bool {
    any(name, &[SCHEDULER, RECORDER, LOCKS])
}

/// Whether a function of the kernel only waits or locks.
pub(crate) fn waits(name: &str) -> bool {
    any(name, &[SCHEDULER, LOCKS, WAITS])
}

/// Whether a function of the kernel only locks, lets go or wakes, for user locks too.
pub(crate) fn lets_go(name: &str) -> bool {
    any(name, &[SCHEDULER, RECORDER, LOCKS, WAKEUPS, FUTEX])
}

/// Whether a function of user code tells nothing of the program.
pub(crate) fn is_runtime(name: &str) -> bool {
    begins(name, USER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_own_functions() {
        for (name, roles) in [
            ("schedule_hrtimeout", [true, true, true, true]),
            ("bpf_trace_run2", [true, true, false, true]),
            ("mutex_lock", [false, true, true, true]),
            ("bit_wait_io", [false, false, true, false]),
            ("up_write", [false, false, false, true]),
            ("futex_wait", [false, false, false, true]),
            ("ext4_rename", [false; 4]),
        ] {
            assert_eq!([is_scheduler(name), is_lock(name), waits(name), lets_go(name)], roles, "{name}");
        }
        assert!(is_runtime("__pthread_mutex_lock") && !is_runtime("main"));
    }
}
