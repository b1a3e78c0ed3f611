// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's records of mappings and processes (enum perf_event_type).

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Something was mapped, or made executable.
    Map {
        start: u64,
        /// Bytes.
        len: u64,
        offset: u64,
        /// Device of the file system: major << 32 | minor.
        device: u64,
        inode: u64,
        /// The inode's generation: tells who had the number before.
        generation: u64,
        executable: bool,
        /// Path, or `[vdso]`, `//anon`, ...
        path: String,
    },
    /// The process was born of another; its memory is a copy.
    Fork {
        parent: u32,
    },
    /// It runs a new program: nothing is mapped any more.
    Exec,
    Exit,
    /// Records were lost on that CPU.
    Lost(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When: ns, CLOCK_MONOTONIC.
    pub time: u64,
    pub pid: u32,
    pub what: What,
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// PERF_RECORD_MISC_COMM_EXEC
const COMM_EXEC: u16 = 1 << 13;
/// PERF_RECORD_MISC_MMAP_BUILD_ID: no inode is told.
const MMAP_BUILD_ID: u16 = 1 << 14;
/// sample_id of TID, TIME and CPU at a record's end: pid, tid, time, cpu, 0.
const TRAILER: usize = 24;

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

impl Record {
    /// Reads one; `None` for kinds that say nothing of address spaces.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let kind = u32_at(b, 0)?;
        let misc = u16::from_ne_bytes(b.get(4..6)?.try_into().ok()?);
        let end = b.len().checked_sub(TRAILER)?;
        let time = u64_at(b, end + 8)?;
        let pid = u32_at(b, 8)?;
        let what = match kind {
            LOST => What::Lost(u64_at(b, 16)?),
            COMM if misc & COMM_EXEC != 0 => What::Exec,
            // A thread shares its process's memory.
            FORK if u32_at(b, 12)? != pid => What::Fork { parent: u32_at(b, 12)? },
            EXIT if u32_at(b, 16)? == pid => What::Exit,
            MMAP2 => {
                let path = b.get(72..end)?;
                let len = path.iter().position(|&c| c == 0).unwrap_or(path.len());
                let inode = misc & MMAP_BUILD_ID == 0;
                What::Map {
                    start: u64_at(b, 16)?,
                    len: u64_at(b, 24)?,
                    offset: u64_at(b, 32)?,
                    device: u64::from(u32_at(b, 40)?) << 32 | u64::from(u32_at(b, 44)?),
                    inode: if inode { u64_at(b, 48)? } else { 0 },
                    generation: if inode { u64_at(b, 56)? } else { 0 },
                    executable: u32_at(b, 64)? & libc::PROT_EXEC as u32 != 0,
                    path: String::from_utf8_lossy(&path[..len]).into_owned(),
                }
            }
            _ => return None,
        };
        Some(Self { time, pid, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8], time: u64) -> Vec<u8> {
        let size = (8 + body.len() + TRAILER) as u16;
        let mut out = kind.to_ne_bytes().to_vec();
        out.extend(misc.to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.extend(body);
        out.extend([0; 8]);
        out.extend(time.to_ne_bytes());
        out.extend([0; 8]);
        out
    }

    fn words(w: &[u32]) -> Vec<u8> {
        w.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn threads_are_no_processes_and_renaming_is_no_exec() {
        let fork =
            |pid, parent, tid| Record::parse(&record(FORK, 0, &words(&[pid, parent, tid, 1, 0, 0]), 7));
        assert_eq!(fork(5, 4, 5), Some(Record { time: 7, pid: 5, what: What::Fork { parent: 4 } }));
        assert_eq!(fork(5, 5, 6), None);
        let comm = |misc| Record::parse(&record(COMM, misc, &words(&[5, 5, 0x61, 0]), 9));
        assert_eq!(comm(COMM_EXEC).map(|r| r.what), Some(What::Exec));
        assert_eq!(comm(0), None);
        let exit = |tid| Record::parse(&record(EXIT, 0, &words(&[5, 4, tid, 4, 0, 0]), 9));
        assert_eq!(exit(5).map(|r| r.what), Some(What::Exit));
        assert_eq!(exit(6), None);
    }

    #[test]
    fn cut_records_are_none() {
        let whole = record(MMAP2, 0, &[1; 80], 3);
        assert!(Record::parse(&whole).is_some());
        for len in 0..whole.len() - 9 {
            assert_eq!(Record::parse(&whole[..len]).filter(|_| len < 72 + TRAILER), None, "{len}");
        }
    }
}
