// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The dimensions of a job that are a choice of words. Each value's comment
//! is its help; the option, the job file's key and the docs come from here.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $value:ident),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[value(rename_all = "kebab-case")]
        pub enum $name { $($(#[$vmeta])* $value),* }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.to_possible_value() {
                    Some(value) => f.write_str(value.get_name()),
                    None => Ok(()),
                }
            }
        }
    )*};
}

words! {
    /// What an operation does.
    What {
        /// Write blocks (into a new file unless the layout says otherwise)
        #[default]
        Write,
        /// Write blocks that were written before
        Rewrite,
        /// Read blocks
        Read,
        /// Read again what was read before
        Reread,
        /// Reads and writes, --mix percent of them reads
        Mix,
        /// Read from the end to the beginning
        BackwardsRead,
        /// Write the same block over and over
        RecordRewrite,
        /// Read with a --stride between the beginnings of blocks
        StridedRead,
        /// Make files, each with --block bytes in it, and close them
        Create,
        /// Open files and close them
        Open,
        /// Ask for files' attributes
        Stat,
        /// Give files another name
        Rename,
        /// Delete files
        Unlink,
        /// Only synchronise, with --sync's method; nothing is written
        FsyncOnly,
        /// Take a lock and count (--lock, --counters, --batch)
        LockAndUpdate,
        /// Send a request to a server and read its answer (--to)
        Request,
        /// Be a server: answer each request with --reply bytes (--listen)
        Serve,
        /// Send a file into another one (with --through sendfile or copy-file-range)
        Copy,
    }

    /// How an operation goes into the kernel.
    Through {
        /// pread, pwrite
        #[default]
        Pwrite,
        /// read, write at the file's position (lseek when the order asks for it)
        Write,
        /// readv, writev of --vector pieces
        Writev,
        /// preadv2, pwritev2 with flags
        Pwritev2,
        /// fread, fwrite
        Stdio,
        /// getc, putc, a character at a time
        Char,
        /// Memory copied from or to a mapping
        Mmap,
        /// POSIX aio_read, aio_write (glibc's threads)
        PosixAio,
        /// io_submit, io_getevents
        Libaio,
        /// io_uring
        IoUring,
        /// io_uring with registered buffers and file
        IoUringFixed,
        /// io_uring with a kernel thread that polls for submissions
        IoUringSqpoll,
        /// sendfile
        Sendfile,
        /// copy_file_range
        CopyFileRange,
        /// Nothing is called: what the load engine itself costs
        Null,
    }

    /// How a worker waits for several connections at once.
    Multiplex {
        /// It does not: a call that blocks, one connection at a time
        #[default]
        None,
        /// select(2)
        Select,
        /// poll(2)
        Poll,
        /// epoll(7), level-triggered
        Epoll,
        /// epoll(7), edge-triggered (EPOLLET)
        EpollEdge,
        /// epoll(7) that wakes one of several workers for a connection (EPOLLEXCLUSIVE)
        EpollExclusive,
        /// io_uring: accept and recv that go on by themselves, into provided buffers
        IoUring,
    }

    /// Which place comes next.
    Order {
        /// The next block
        #[default]
        Sequential,
        /// --interleave bytes on, coming round to the blocks between
        Interleave,
        /// Any block, each as likely (Mersenne Twister of --seed)
        Random,
        /// Every block once, in a random order (a bijection of --seed)
        RandomOnce,
        /// Any block, some much more often (Zipf's law with --zipf)
        Zipf,
        /// --stride bytes on
        Strided,
        /// The block before
        Backwards,
    }

    /// What makes written data last.
    SyncMethod {
        /// Nothing
        #[default]
        None,
        /// fsync
        Fsync,
        /// fdatasync
        Fdatasync,
        /// sync, twice, as a checkpoint of old databases did
        SyncSync,
        /// sync_file_range: starts and awaits write-back, flushes no device cache
        SyncFileRange,
        /// Files opened with O_SYNC
        OSync,
        /// Files opened with O_DSYNC
        ODsync,
        /// RWF_DSYNC with each write
        RwfDsync,
        /// msync of the mapping (with --through mmap)
        Msync,
    }

    /// What a file is like before it is written.
    Layout {
        /// It grows: blocks are not allocated yet
        Append,
        /// Its blocks were written before
        #[default]
        Overwrite,
        /// Its blocks are allocated (fallocate) but not written
        Preallocated,
        /// It has its length, and no blocks
        Sparse,
    }

    /// When operations of an open loop begin.
    Arrivals {
        /// At equal distances
        #[default]
        Constant,
        /// At random, independently of each other (Poisson)
        Poisson,
    }

    /// What the page cache holds of the files when the clock starts.
    Cache {
        /// Whatever it holds
        #[default]
        AsFound,
        /// Nothing of anything: sync, then /proc/sys/vm/drop_caches (root)
        Drop,
        /// Nothing of these files: posix_fadvise(POSIX_FADV_DONTNEED)
        Fadvise,
        /// Nothing: the file system is unmounted and mounted again (root; it must be unused)
        Remount,
        /// All of these files: they are read first
        Warm,
    }

    /// Whose a file is, or the socket that a server listens on.
    Sharing {
        /// Each worker has its own (sockets: SO_REUSEPORT)
        #[default]
        Each,
        /// All workers have the same
        Shared,
    }

    /// Whether a part of the work is inside an operation's time.
    Timed {
        /// Inside
        #[default]
        In,
        /// Outside
        Out,
    }

    /// What guards the counters of lock-and-update.
    Lock {
        /// pthread_mutex
        #[default]
        Mutex,
        /// A futex word of our own (three states)
        Futex,
        /// The same, which spins for a while before it sleeps
        Adaptive,
        /// A monitor of two futex words: a release wakes one waiter and requeues the others onto the lock's word (FUTEX_CMP_REQUEUE)
        Requeue,
        /// A spinning lock
        Spin,
        /// The writing side of a pthread_rwlock
        Rwlock,
        /// Atomic addition, no lock
        Atomic,
        /// Atomic addition to the part that the CPU has of the counter
        PerCpu,
        /// A record lock of the file (fcntl)
        Fcntl,
    }
}

impl Lock {
    /// Whether a thread that does not get it may sleep in the kernel.
    pub fn sleeps(self) -> bool {
        !matches!(self, Lock::Spin | Lock::Atomic | Lock::PerCpu)
    }
}

impl What {
    /// Whether it writes data blocks.
    pub fn writes(self) -> bool {
        matches!(self, What::Write | What::Rewrite | What::Mix | What::RecordRewrite | What::Copy)
    }

    /// Whether it reads data blocks that must be there before.
    pub fn reads(self) -> bool {
        matches!(
            self,
            What::Read | What::Reread | What::Mix | What::BackwardsRead | What::StridedRead | What::Copy
        )
    }

    /// Whether it needs no file.
    pub fn without_files(self) -> bool {
        matches!(self, What::LockAndUpdate | What::Request | What::Serve)
    }

    /// Whether it works on names, not on blocks.
    pub fn names(self) -> bool {
        matches!(self, What::Create | What::Open | What::Stat | What::Rename | What::Unlink)
    }
}

impl Through {
    /// Whether several operations can be under way at once.
    pub fn queues(self) -> bool {
        matches!(
            self,
            Through::PosixAio
                | Through::Libaio
                | Through::IoUring
                | Through::IoUringFixed
                | Through::IoUringSqpoll
                | Through::Null
        )
    }
}

impl SyncMethod {
    /// Whether it is a call after the write (and not a flag of the file or the write).
    pub fn is_call(self) -> bool {
        matches!(
            self,
            SyncMethod::Fsync
                | SyncMethod::Fdatasync
                | SyncMethod::SyncSync
                | SyncMethod::SyncFileRange
                | SyncMethod::Msync
        )
    }

    /// Whether data that it covered must survive a loss of power.
    pub fn promises(self) -> bool {
        !matches!(self, SyncMethod::None | SyncMethod::SyncFileRange)
    }

    /// Whether each write with it is durable by itself when it returns.
    pub fn is_flag(self) -> bool {
        matches!(self, SyncMethod::OSync | SyncMethod::ODsync | SyncMethod::RwfDsync)
    }
}
