// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors that the program's caller left open. A recorded command gets them (a jobserver's pipe, a
//! socket of systemd); a process that outlives the command line must not keep them open.

use std::os::fd::RawFd;
use std::sync::OnceLock;

static INHERITED: OnceLock<Vec<RawFd>> = OnceLock::new();

/// Open descriptors above standard error.
fn open() -> Vec<RawFd> {
    let Ok(dir) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let all: Vec<RawFd> = dir.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    // The directory's own was among them, and is closed by now.
    // SAFETY: F_GETFD reads flags of a descriptor, or fails.
    all.into_iter().filter(|fd| *fd > 2 && unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0).collect()
}

/// Remembers what is open now. The program calls it first of all, before it opens anything.
pub fn remember_inherited() {
    let _ = INHERITED.set(open());
}

/// Closes what [`remember_inherited`] found, in a process that serves or guards after its caller is gone: a
/// lock file or pipe of the caller's would stay held. Once, before anything of the caller's is in use.
pub fn close_inherited() {
    for fd in INHERITED.get().map_or(&[][..], Vec::as_slice) {
        // SAFETY: open since before main, so that nothing of this program owns it.
        unsafe { libc::close(*fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn open_descriptors_are_found_and_the_look_itself_is_not() {
        let file = std::fs::File::open("/dev/null").expect("a file");
        let found = open();
        assert!(found.contains(&file.as_raw_fd()), "{found:?}");
        assert!(found.iter().all(|fd| *fd > 2), "{found:?}");
    }
}
