// SPDX-License-Identifier: Apache-2.0 OR MIT
//! With which flags files are opened and written.

use crate::job::{Job, Lock, SyncMethod, What};

/// open(2)'s flags for a job's files. A job that only reads gets descriptors
/// that nothing can be written through.
pub fn open_flags(job: &Job) -> i32 {
    let access = match job.what {
        // What a copy is made of is only read: see `copy_flags`.
        What::Copy => libc::O_RDONLY,
        // A record lock that excludes needs a descriptor open for writing.
        What::LockAndUpdate if job.lock == Lock::Fcntl => libc::O_RDWR,
        what if what.writes() => libc::O_RDWR,
        _ => libc::O_RDONLY,
    };
    access | libc::O_CLOEXEC | direct(job) | if access == libc::O_RDONLY { 0 } else { durable(job) }
}

/// open(2)'s flags for the files that a copy goes to.
pub fn copy_flags(job: &Job) -> i32 {
    libc::O_WRONLY | libc::O_CLOEXEC | direct(job) | durable(job)
}

fn direct(job: &Job) -> i32 {
    if job.direct {
        libc::O_DIRECT
    } else {
        0
    }
}

/// The flags of a file each write into which is durable when it returns.
pub(super) fn durable(job: &Job) -> i32 {
    match job.sync {
        SyncMethod::OSync => libc::O_SYNC,
        SyncMethod::ODsync => libc::O_DSYNC,
        _ => 0,
    }
}

/// The RWF_ flags of a write.
pub(super) fn write_flags(method: SyncMethod) -> i32 {
    match method {
        SyncMethod::RwfDsync => libc::RWF_DSYNC,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn only_jobs_that_write_can_write() {
        for &what in What::value_variants() {
            let job = Job { what, direct: true, sync: SyncMethod::OSync, ..Job::default() };
            let flags = open_flags(&job);
            let writes = matches!(what, What::Write | What::Rewrite | What::Mix | What::RecordRewrite);
            let access = if writes { libc::O_RDWR } else { libc::O_RDONLY };
            assert_eq!(flags & libc::O_ACCMODE, access, "{what}");
            assert_eq!(flags & libc::O_SYNC == libc::O_SYNC, writes, "{what}");
            assert_ne!(flags & libc::O_DIRECT, 0);
            assert_eq!(flags & (libc::O_CREAT | libc::O_TRUNC), 0);
        }
    }

    #[test]
    fn a_method_is_one_flag() {
        let flags = |sync| open_flags(&Job { sync, ..Job::default() });
        assert_eq!(flags(SyncMethod::ODsync) & libc::O_SYNC, libc::O_DSYNC);
        assert_eq!(flags(SyncMethod::Fsync) & libc::O_SYNC, 0);
        assert_eq!(
            copy_flags(&Job { sync: SyncMethod::ODsync, ..Job::default() }) & libc::O_SYNC,
            libc::O_DSYNC
        );
        let fcntl = Job { what: What::LockAndUpdate, lock: Lock::Fcntl, ..Job::default() };
        assert_eq!(open_flags(&fcntl) & libc::O_ACCMODE, libc::O_RDWR);
    }
}
