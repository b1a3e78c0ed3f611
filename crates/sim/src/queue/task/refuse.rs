// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a job a bare device cannot do.

use plumb_load::job::{Cache, Job, JobError, Layout, SyncMethod, Through, What};

/// Looks whether a device of `size` bytes without page cache, names and data can do a job.
///
/// # Errors
/// A sentence that names the option and what to change.
pub fn refuse(job: &Job, size: u64) -> Result<(), JobError> {
    job.check()?;
    let no = |text: String| Err(JobError(text));
    let (what, through) = (job.what, job.through);
    if what.names() || what.without_files() || what == What::Copy {
        return no(format!("--what {what}: a simulated device has blocks alone; choose read, write or mix"));
    }
    if matches!(through, Through::Stdio | Through::Char | Through::Mmap) {
        return no(format!(
            "--through {through} goes through memory, and a simulation has no page cache; choose pwrite, or io-uring with --depth"
        ));
    }
    if job.cache != Cache::AsFound {
        return no(format!("--cache {}: a simulation has no page cache; leave it out", job.cache));
    }
    if job.layout != Layout::Overwrite {
        return no(format!("--layout {}: a simulated device has no files to grow; leave it out", job.layout));
    }
    if job.files > 1 || job.dirs > 0 {
        return no("--files and --dirs: a simulated device is one place; leave them out".into());
    }
    if job.stamp || job.compressible > 0 {
        return no("--stamp and --compressible: a simulation moves no data; leave them out".into());
    }
    if job.sync == SyncMethod::SyncFileRange {
        return no(
            "--sync sync-file-range writes the page cache back, which a simulation has not; choose fdatasync"
                .into(),
        );
    }
    if job.steady.is_some() {
        return no("--steady: a simulation is not measured while it runs; give --time or --operations".into());
    }
    if job.time.is_some_and(|t| t.0 == 0) {
        return no("--time 0s: nothing would be simulated; give a longer time, or --operations".into());
    }
    let block = job.block.0;
    if block % 512 != 0 || job.offset.0 % 512 != 0 {
        return no(format!(
            "a device is read and written in whole sectors of 512 bytes; --block is {block}, --offset {}",
            job.offset.0
        ));
    }
    let strides = [("--stride", job.stride.0), ("--interleave", job.interleave.0)];
    if let Some((option, n)) = strides.into_iter().find(|(_, n)| n % 512 != 0) {
        return no(format!("{option} {n}: a device is read and written in whole sectors of 512 bytes"));
    }
    if job.size.0 > size {
        return no(format!(
            "--size {}: the simulated disk has {size} bytes; give a larger --disk-size or a smaller --size",
            job.size
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_load::job::{Bytes, Time};

    #[test]
    fn what_a_bare_device_cannot_do_is_named() {
        let base = || Job { what: What::Read, size: Bytes(1 << 20), ..Job::default() };
        assert_eq!(refuse(&base(), 1 << 20), Ok(()));
        let cases: Vec<(Job, &str)> = vec![
            (Job { what: What::Create, ..base() }, "--what create"),
            (Job { what: What::LockAndUpdate, ..base() }, "lock-and-update"),
            (Job { through: Through::Mmap, ..base() }, "page cache"),
            (Job { cache: Cache::Drop, ..base() }, "--cache drop"),
            (Job { what: What::Write, layout: Layout::Append, ..base() }, "--layout append"),
            (Job { files: 2, ..base() }, "--files"),
            (Job { stamp: true, ..base() }, "--stamp"),
            (Job { sync: SyncMethod::SyncFileRange, ..base() }, "fdatasync"),
            (Job { block: Bytes(1000), ..base() }, "512"),
            (Job { size: Bytes(2 << 20), ..base() }, "--disk-size"),
            (Job { depth: 4, ..base() }, "--depth 4"),
            (Job { time: Some(Time(0)), ..base() }, "--time 0s"),
        ];
        for (job, word) in cases {
            let said = refuse(&job, 1 << 20).expect_err(word).0;
            assert!(said.contains(word), "{said}: lacks {word}");
        }
    }
}
