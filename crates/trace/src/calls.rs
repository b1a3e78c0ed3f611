// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls: their numbers differ between architectures. Whoever reads a trace gets the numbers of x86-64 whatever
//! machine it is of, for all names of the others are among its own; the recorder and its files have the machine's own.

use crate::event::Record;
use crate::schema::{SysEnter, SysExit};
use std::str::FromStr;
use syscalls::{aarch64, x86_64};

/// A system call as readers number it.
pub use x86_64::Sysno as Call;

/// Of a number that the machine's table does not have.
const UNKNOWN: u32 = 10_000;

/// Bits of open(2)'s flags that mean something else on arm64, and what they are on x86-64
/// (include/uapi/asm-generic/fcntl.h, arch/arm64/include/uapi/asm/fcntl.h).
const OPEN_FLAGS: [(u64, u64); 4] =
    [(0o40_000, 0o200_000), (0o100_000, 0o400_000), (0o200_000, 0o40_000), (0o400_000, 0o100_000)];

/// Name of the call with this number, as readers number them.
pub fn name(nr: u32) -> Option<&'static str> {
    Call::new(nr as usize).map(|call| call.name())
}

/// Number of the call of this name, as readers number them.
pub fn number(name: &str) -> Option<u32> {
    Call::from_str(name).ok().map(|call| call as u32)
}

/// The call's number on the machine that uname(2) names so; `None` where it has no such call.
pub fn number_on(machine: &str, nr: u32) -> Option<u32> {
    if machine != "aarch64" {
        return Some(nr);
    }
    let name = match name(nr)? {
        "newfstatat" => "fstatat",
        name => name,
    };
    aarch64::Sysno::from_str(name).ok().map(|call| call as u32)
}

/// Turns the records of a machine with other numbers into those that readers get.
#[derive(Debug, Clone)]
pub(crate) struct Translation(Vec<u32>);

impl Translation {
    /// For traces of the machine that uname(2) names so; `None` where there is nothing to be done.
    pub(crate) fn of(machine: &str) -> Option<Self> {
        (machine == "aarch64").then(|| {
            let last = aarch64::Sysno::iter().map(|call| call as u32).max().unwrap_or(0);
            let mut numbers: Vec<u32> = (0..=last).map(|nr| UNKNOWN + nr).collect();
            for call in aarch64::Sysno::iter() {
                let name = match call.name() {
                    "fstatat" => "newfstatat",
                    name => name,
                };
                if let Some(nr) = number(name) {
                    numbers[call as usize] = nr;
                }
            }
            Self(numbers)
        })
    }

    fn number(&self, nr: u32) -> u32 {
        self.0.get(nr as usize).copied().unwrap_or(UNKNOWN.saturating_add(nr))
    }

    /// Changes one record.
    pub(crate) fn apply(&self, id: u16, record: &mut [u8]) {
        if id == SysEnter::ID {
            let mut e = SysEnter::read(record);
            e.nr = self.number(e.nr);
            if e.nr == Call::openat as u32 {
                let moved = OPEN_FLAGS.iter().filter(|(theirs, _)| e.arg2 & theirs != 0);
                let (gone, come) =
                    moved.fold((0, 0), |(gone, come), (theirs, ours)| (gone | theirs, come | ours));
                e.arg2 = e.arg2 & !gone | come;
            }
            record[..e.bytes().len()].copy_from_slice(e.bytes());
        } else if id == SysExit::ID {
            let mut e = SysExit::read(record);
            e.nr = self.number(e.nr);
            record[..e.bytes().len()].copy_from_slice(e.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_arm64_is_one_of_x86() {
        let all = Translation::of("aarch64").expect("other numbers");
        // Those for programs of 32 bits are in the crate's table, but no call of arm64 (include/uapi/asm-generic/unistd.h).
        let lacking: Vec<&str> = aarch64::Sysno::iter()
            .filter(|call| all.number(*call as u32) >= UNKNOWN)
            .map(|call| call.name())
            .filter(|name| {
                !name.contains("time64") && !name.ends_with("gettime64") && !name.ends_with("settime64")
            })
            .collect();
        assert_eq!(lacking, ["sync_file_range2"]);
        for (theirs, name) in
            [(56, "openat"), (63, "read"), (98, "futex"), (79, "newfstatat"), (441, "epoll_pwait2")]
        {
            assert_eq!(super::name(all.number(theirs)), Some(name));
            assert_eq!(number_on("aarch64", number(name).expect("a call")), Some(theirs), "{name}");
        }
        assert_eq!(number_on("aarch64", Call::open as u32), None, "it has openat alone");
        assert_eq!(number_on("x86_64", 2), Some(2));
        assert!(Translation::of("x86_64").is_none());
        assert_eq!(all.number(9_999), 19_999);
    }

    #[test]
    fn a_record_has_this_number_and_these_flags() {
        let all = Translation::of("aarch64").expect("other numbers");
        let mut e = SysEnter {
            id: SysEnter::ID,
            nr: 56,
            arg0: 5,
            arg2: 0o200_000 | 0o40_000 | 0o1102,
            ..SysEnter::default()
        };
        let mut bytes = e.bytes().to_vec();
        all.apply(SysEnter::ID, &mut bytes);
        (e.nr, e.arg2) = (257, 0o40_000 | 0o200_000 | 0o1102);
        assert_eq!(bytes, e.bytes());
        let mut bytes =
            SysEnter { id: SysEnter::ID, nr: 56, arg2: 0o200_000, ..SysEnter::default() }.bytes().to_vec();
        all.apply(SysEnter::ID, &mut bytes);
        assert_eq!(SysEnter::read(&bytes).arg2, 0o40_000, "O_DIRECT");
        let exit = SysExit { id: SysExit::ID, nr: 63, ret: -5, ..SysExit::default() };
        let mut bytes = exit.bytes().to_vec();
        all.apply(SysExit::ID, &mut bytes);
        assert_eq!(bytes, SysExit { nr: 0, ..exit }.bytes());
    }
}
