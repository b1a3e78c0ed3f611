// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server asks of the kernel for its own process: name, priority, memory.

/// Has ps and top call the process `plumb-disk`, and not after /proc/self/exe; by its first thread,
/// whose name is the process's.
pub fn name() {
    // SAFETY: the string ends in NUL and has less than 16 bytes (prctl(2), PR_SET_NAME).
    unsafe { libc::prctl(libc::PR_SET_NAME, c"plumb-disk".as_ptr(), 0, 0, 0) };
}

/// Makes the calling process one that a disk can rely on; before any thread is started.
pub fn prepare() {
    name();
    // A thread that panics would leave others waiting; a process that ends does not.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: calls with plain numbers. Memory that the server asks for must not be made by writing to
    // its own disk (prctl(2), PR_SET_IO_FLUSHER: Linux 5.6); its threads inherit it.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Real-time priority, where that is allowed: a disk does not wait for a CPU.
pub fn soon() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid pointer. Without the right to it the thread stays as it is.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
}
