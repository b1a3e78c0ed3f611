// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recorder may still do in each of its phases (docs/security.md).

use plumb_machine::capabilities;

/// What is needed from the attachment on, where it is there: to read and stop processes of others (SYS_PTRACE,
/// DAC_READ_SEARCH, KILL) and their mapped files (CHECKPOINT_RESTORE); to read the kernel's symbols (SYSLOG) and code
/// (BPF, PERFMON); to make a reader of symbols nobody's (SETUID, SETGID); to give the real-time policy back
/// (SYS_NICE); and [`RESULTS`].
const ATTACHED: &[u32] = &[
    capabilities::SYS_PTRACE,
    capabilities::DAC_READ_SEARCH,
    capabilities::KILL,
    capabilities::SYSLOG,
    capabilities::PERFMON,
    capabilities::BPF,
    capabilities::CHECKPOINT_RESTORE,
    capabilities::SETUID,
    capabilities::SETGID,
    capabilities::SYS_NICE,
    capabilities::CHOWN,
    capabilities::DAC_OVERRIDE,
    capabilities::FOWNER,
];
/// What is needed when the recording has ended: to write into a directory of the user whom sudo runs plumb for, and
/// to give him what is written.
const RESULTS: &[u32] = &[capabilities::CHOWN, capabilities::DAC_OVERRIDE, capabilities::FOWNER];
/// What a program that it starts may have: debuginfod-find reads files.
const PROGRAMS: &[u32] =
    &[capabilities::CHOWN, capabilities::DAC_OVERRIDE, capabilities::DAC_READ_SEARCH, capabilities::FOWNER];

/// What a thread needs that only reads the trace: it may be another user's by then. SYS_NICE, to come behind no more.
const READS: &[u32] = &[capabilities::DAC_READ_SEARCH, capabilities::SYS_NICE];

/// Gives up, for the calling thread, all that reading a trace does not need.
pub fn reads() {
    // Where the kernel refuses, it goes on with what it has.
    let _ = capabilities::keep(READS, &[]);
}

/// Gives up what only loading and attaching need. The command was forked before, and keeps all that plumb was given.
pub fn after_attachment() {
    let mut kept = ATTACHED.to_vec();
    if !capabilities::is_known(capabilities::CHECKPOINT_RESTORE) {
        kept.push(capabilities::SYS_ADMIN);
    }
    // Where the kernel refuses, it goes on with what it has.
    let _ = capabilities::keep(&kept, PROGRAMS);
}

/// Gives up what only recording needs.
pub fn after_recording() {
    // Where the kernel refuses, it goes on with what it has.
    let _ = capabilities::keep(RESULTS, PROGRAMS);
}
