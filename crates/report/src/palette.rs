// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What kinds of frames and states there are, and one colour for each.
//!
//! The colours were chosen so that any two of them differ by a CIE76 distance of at least 16
//! under normal sight, protanopia, deuteranopia and tritanopia (Machado 2009, severity 1), and so
//! that black text stands out from each by 5 : 1.

use plumb_model::profile::Origin;
use plumb_model::Category;

/// What a frame stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
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
    Lock,
    Memory,
    /// Waiting for another thread or program, or the network.
    Other,
    /// Sleeping because the program asked for it.
    Sleep,
    Unknown,
}

/// A kind's word in legends, its colour's name and value.
#[derive(Debug)]
pub struct Paint {
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
    Paint { kind: Kind::Cpu, word: "runnable", colour: "mauve", rgb: [0xaf, 0x6c, 0xa6], firefox: "magenta" },
    Paint { kind: Kind::Device, word: "waiting for I/O", colour: "light blue", rgb: [0x4a, 0xbe, 0xff], firefox: "lightblue" },
    Paint { kind: Kind::Journal, word: "journal, write-back", colour: "dark blue", rgb: [0x3f, 0x7f, 0xd0], firefox: "blue" },
    Paint { kind: Kind::Lock, word: "waiting for a lock", colour: "violet", rgb: [0x8d, 0x69, 0xfd], firefox: "purple" },
    Paint { kind: Kind::Memory, word: "waiting for memory", colour: "olive", rgb: [0x7f, 0xab, 0x4a], firefox: "brown" },
    Paint { kind: Kind::Other, word: "waiting for peers", colour: "green", rgb: [0x13, 0x9c, 0x5f], firefox: "green" },
    Paint { kind: Kind::Sleep, word: "sleeping", colour: "pale blue", rgb: [0xbb, 0xda, 0xff], firefox: "transparent" },
    Paint { kind: Kind::Unknown, word: "unknown", colour: "grey", rgb: [0xb0, 0xa1, 0xa2], firefox: "darkgrey" },
];

impl Kind {
    pub fn paint(self) -> &'static Paint {
        &PAINTS[self as usize]
    }

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
            C::Interrupted | C::Woken | C::Preempted | C::Crowded => Self::Cpu,
            C::WokenIdle | C::Held | C::Overhead => Self::Cpu,
            C::BlockLimit | C::BlockQueued | C::BlockPlugged | C::BlockFlush => Self::Device,
            C::BlockInserted | C::BlockIssued | C::BlockDone => Self::Device,
            C::Journal | C::Throttle => Self::Journal,
            C::Spinning | C::KernelLock | C::UserLock | C::FileLock | C::Rcu => Self::Lock,
            C::Memory => Self::Memory,
            C::OtherRunning | C::OtherRunnable | C::OtherWaiting => Self::Other,
            C::Signalled | C::InRequest => Self::Other,
            C::Pipe | C::Socket | C::Network | C::Child => Self::Other,
            C::Poll | C::Timer | C::Signal | C::Stopped | C::Idle => Self::Sleep,
            // Time on a CPU has a frame of its own only where no sample tells the function.
            C::Running | C::Unexplained | C::Paused | C::Lost => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness and two axes of colour (CIELAB, D65) of a linear colour.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let sum = |m: [f64; 3]| rgb.iter().zip(m).map(|(c, m)| c * m).sum::<f64>();
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f(sum([0.4124, 0.3576, 0.1805]) / 0.9505);
        let y = f(sum([0.2126, 0.7152, 0.0722]));
        let z = f(sum([0.0193, 0.1192, 0.9505]) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn linear(paint: &Paint) -> [f64; 3] {
        paint.rgb.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    #[test]
    #[rustfmt::skip]
    fn colours_differ_for_every_eye() {
        let eyes = [
            ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
            ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
            ("deuteranopia", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
            ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
        ];
        for (eye, matrix) in eyes {
            let seen = |p: &Paint| {
                let rgb = linear(p);
                lab(matrix.map(|row| row.iter().zip(rgb).map(|(m, c)| m * c).sum::<f64>().clamp(0.0, 1.0)))
            };
            for (i, a) in PAINTS.iter().enumerate() {
                for b in &PAINTS[i + 1..] {
                    let distance = seen(a).iter().zip(seen(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(distance >= 16.0, "{eye}: {} and {}: {distance}", a.word, b.word);
                }
            }
        }
        for paint in &PAINTS {
            let [r, g, b] = linear(paint);
            let contrast = (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) / 0.05;
            assert!(contrast >= 5.0, "{}: {contrast}", paint.word);
        }
    }

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
