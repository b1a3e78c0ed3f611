// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What kinds of frames there are, and one colour for each.
//!
//! The colours were chosen so that any two of them differ by a CIE76 distance of at least 16
//! under normal sight, protanopia, deuteranopia and tritanopia (Machado 2009, severity 1), and so
//! that black text stands out from each by 5.5 : 1.

use plumb_model::profile::Origin;
use plumb_model::Category;

/// What a frame stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A process or thread.
    Task,
    /// A function of a program or library.
    User,
    /// A function that the compiler put into its caller.
    Inlined,
    /// A function of the kernel.
    Kernel,
    /// Code that a process made itself.
    Jit,
    /// Waiting for a CPU, or an interrupt had it.
    Cpu,
    /// Waiting for a block device.
    Device,
    /// Waiting for the journal, or paused because of dirty pages.
    Journal,
    /// Waiting for a lock.
    Lock,
    /// Waiting for memory.
    Memory,
    /// Waiting for another thread or program, or the network.
    Other,
    /// Sleeping because the program asked for it.
    Sleep,
    /// Nothing tells.
    Unknown,
}

/// A kind's word in legends, its colour's name and value.
pub struct Paint {
    /// The kind.
    pub kind: Kind,
    /// What a legend calls it.
    pub word: &'static str,
    /// What a sentence calls the colour.
    pub colour: &'static str,
    /// Red, green, blue.
    pub rgb: [u8; 3],
    /// The nearest of the colours that the Firefox profiler has names for.
    pub firefox: &'static str,
}

/// Every kind, in the order of [`Kind`].
#[rustfmt::skip]
pub const PAINTS: [Paint; 13] = [
    Paint { kind: Kind::Task, word: "process, thread", colour: "light grey", rgb: [0xe8, 0xe8, 0xe8], firefox: "grey" },
    Paint { kind: Kind::User, word: "user code", colour: "orange", rgb: [0xff, 0xab, 0x00], firefox: "orange" },
    Paint { kind: Kind::Inlined, word: "inlined code", colour: "pale orange", rgb: [0xf5, 0xcc, 0xa8], firefox: "yellow" },
    Paint { kind: Kind::Kernel, word: "kernel code", colour: "red", rgb: [0xea, 0x4b, 0x0c], firefox: "red" },
    Paint { kind: Kind::Jit, word: "JIT code", colour: "light green", rgb: [0x97, 0xff, 0x81], firefox: "lightred" },
    Paint { kind: Kind::Cpu, word: "waiting for a CPU", colour: "mauve", rgb: [0xaf, 0x6c, 0xa6], firefox: "magenta" },
    Paint { kind: Kind::Device, word: "waiting for a device", colour: "light blue", rgb: [0x4a, 0xbe, 0xff], firefox: "lightblue" },
    Paint { kind: Kind::Journal, word: "waiting for journal or write-back", colour: "dark blue", rgb: [0x3f, 0x7f, 0xd0], firefox: "blue" },
    Paint { kind: Kind::Lock, word: "waiting for a lock", colour: "violet", rgb: [0x8d, 0x69, 0xfd], firefox: "purple" },
    Paint { kind: Kind::Memory, word: "waiting for memory", colour: "olive", rgb: [0x7f, 0xab, 0x4a], firefox: "brown" },
    Paint { kind: Kind::Other, word: "waiting for others", colour: "green", rgb: [0x13, 0x9c, 0x5f], firefox: "green" },
    Paint { kind: Kind::Sleep, word: "sleeping", colour: "pale blue", rgb: [0xbb, 0xda, 0xff], firefox: "transparent" },
    Paint { kind: Kind::Unknown, word: "not known", colour: "grey", rgb: [0xb0, 0xa1, 0xa2], firefox: "darkgrey" },
];

impl Kind {
    /// Its words and colours.
    pub fn paint(self) -> &'static Paint {
        &PAINTS[self as usize]
    }

    /// The kind of code.
    pub fn of_code(origin: Origin, inlined: bool) -> Self {
        match origin {
            _ if inlined => Self::Inlined,
            Origin::User => Self::User,
            Origin::Jit => Self::Jit,
            Origin::Kernel => Self::Kernel,
        }
    }

    /// The kind of a state of the account.
    pub fn of_state(category: Category) -> Self {
        use Category as C;
        match category {
            C::Interrupted | C::Woken | C::Preempted | C::Crowded | C::WokenIdle | C::Held => Self::Cpu,
            C::BlockLimit | C::BlockQueued | C::BlockPlugged | C::BlockFlush => Self::Device,
            C::BlockInserted | C::BlockIssued | C::BlockDone => Self::Device,
            C::Journal | C::Throttle => Self::Journal,
            C::Spinning | C::KernelLock | C::UserLock | C::FileLock | C::Rcu => Self::Lock,
            C::Memory => Self::Memory,
            C::OtherRunning | C::OtherRunnable | C::OtherWaiting | C::Signalled => Self::Other,
            C::Pipe | C::Socket | C::Network | C::Child => Self::Other,
            C::Poll | C::Timer | C::Signal | C::Idle => Self::Sleep,
            // Time on a CPU has a frame of its own only where no sample tells the function.
            C::Running | C::Unexplained | C::Lost => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (i, paint) in PAINTS.iter().enumerate() {
            assert_eq!(paint.kind as usize, i, "{}", paint.word);
            assert!(PAINTS.iter().filter(|p| p.rgb == paint.rgb).count() == 1, "{}", paint.word);
        }
        // The Firefox profiler takes the first grey one as its default.
        assert_eq!(PAINTS[0].firefox, "grey");
    }
}
