// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that a process has open in a mode that costs time: past the cache, or durable at each write.

use crate::Root;
use plumb_trace::schema::StateOpen;

/// Those of a process that have O_DIRECT, O_SYNC or O_DSYNC (proc_pid_fdinfo(5)); none where it is gone.
pub fn open_files(pid: u32, root: &Root) -> Vec<StateOpen> {
    let wanted = (libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC) as u64;
    let mut fds: Vec<u32> =
        root.names(format!("/proc/{pid}/fdinfo")).into_iter().filter_map(|n| n.parse().ok()).collect();
    fds.sort_unstable();
    let flags = |fd: u32| {
        let text = root.text(format!("/proc/{pid}/fdinfo/{fd}"))?;
        let line = text.lines().find_map(|l| l.strip_prefix("flags:"))?;
        u64::from_str_radix(line.trim(), 8).ok()
    };
    let open = |fd| Some(StateOpen { pid, fd, flags: flags(fd).filter(|f| f & wanted != 0)? });
    fds.into_iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn modes_of_open_files_are_told() {
        let dir = tempfile::tempdir().expect("directory");
        let open = |name: &str, flags| {
            let mut options = std::fs::File::options();
            options.write(true).create(true).custom_flags(flags).open(dir.path().join(name)).expect("file")
        };
        let (durable, plain) = (open("a", libc::O_DSYNC), open("b", 0));
        let found = open_files(std::process::id(), &Root::real());
        let of = |file: &std::fs::File| found.iter().find(|f| f.fd == file.as_raw_fd() as u32);
        assert!(of(&durable).is_some_and(|f| f.flags & libc::O_DSYNC as u64 != 0), "{found:?}");
        assert!(of(&plain).is_none());
        assert!(open_files(0, &Root::real()).is_empty());
    }
}
