// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a device holds data of no known format. It may have terabytes, so that samples of it are read.
//!
//! Empty means: no signature, and all that was read is 0x00 or 0xff (erased flash). Beginning and end are read, and
//! one sample of each of up to [`PARTS`] equal parts, at a place that a fixed seed chooses: a run of data as long as
//! two parts is always met. What is smaller than `PARTS` samples is read as a whole.

use super::signatures::signatures;
use plumb_stats::random::SplitMix64;
use plumb_trace::units::{bytes, count};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How data that no signature names is told.
pub const UNKNOWN: &str = "data of no known format";

/// Bytes of a sample.
const SAMPLE: u64 = 64 << 10;
/// Equal parts of which one sample each is read.
const PARTS: u64 = 4096;
/// How much of the beginning is read, bytes: there most formats have what tells them.
const HEAD: u64 = 256 << 10;
/// Of the end.
const TAIL: u64 = SAMPLE;
/// The parts are read in so many passes from the beginning to the end, each between those of the passes before, so
/// that what was read when the time is over is spread evenly.
const PASSES: u64 = 16;
/// How long samples may be read. A disk of 100 reads per second gives 400.
const TIME: Duration = Duration::from_secs(4);
/// The same device gives the same answer twice.
const SEED: u64 = 0x706c_756d_6221;

/// What was read of a device, and what of it was data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// Pieces of 64 KiB that were read.
    pub read: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The device's bytes.
    pub size: u64,
    /// Whether the time was over before all samples were read.
    pub cut: bool,
    /// The first data that were met, or a place that cannot be read.
    pub data: Option<String>,
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.data {
            Some(data) => write!(f, "{data}, ")?,
            None => write!(f, "no data ")?,
        }
        if self.bytes == self.size {
            return write!(f, "in all of its {}", bytes(self.size));
        }
        let share = 100.0 * self.bytes as f64 / self.size as f64;
        let digits = if share < 0.1 { 3 } else { 1 };
        write!(f, "in {} samples of 64 KiB, {share:.digits$} % of the device", count(self.read))?;
        if self.cut {
            write!(f, " (as many as {} s allow)", TIME.as_secs())?;
        }
        Ok(())
    }
}

/// What a device or image of `size` bytes holds, each with the byte where it stands; empty where nothing was found.
///
/// # Errors
/// When the places of signatures cannot be read.
pub fn recognise(file: &File, size: u64) -> io::Result<Vec<String>> {
    let found = signatures(file, size)?;
    if !found.is_empty() {
        return Ok(found);
    }
    Ok(samples(file, size).data.into_iter().collect())
}

/// Reads samples until one is data.
pub fn samples(file: &File, size: u64) -> Samples {
    within(file, size, TIME)
}

fn within(file: &File, size: u64, limit: Duration) -> Samples {
    let mut samples = ends(file, size);
    // SAFETY: the descriptor is open; the call touches no memory of ours. What lies behind a sample is not asked for.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    let begun = Instant::now();
    'all: for place in places(size) {
        if samples.data.is_some() {
            break 'all;
        }
        if begun.elapsed() > limit {
            samples.cut = true;
            break 'all;
        }
        samples.look(file, place, SAMPLE.min(tail(size) - place));
    }
    // SAFETY: as above.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_NORMAL) };
    samples
}

/// Reads the beginning and the end alone.
pub fn ends(file: &File, size: u64) -> Samples {
    let mut samples = Samples { read: 0, bytes: 0, size, cut: false, data: None };
    samples.look(file, 0, HEAD.min(size));
    let tail = tail(size);
    if samples.data.is_none() && tail < size {
        samples.look(file, tail, size - tail);
    }
    samples
}

/// Where the end that is read begins.
fn tail(size: u64) -> u64 {
    size.saturating_sub(TAIL).max(HEAD.min(size))
}

/// Where the other samples begin, in the order in which they are read.
fn places(size: u64) -> Vec<u64> {
    let (first, end) = (HEAD.min(size), tail(size));
    let pieces = (end - first).div_ceil(SAMPLE);
    let parts = pieces.min(PARTS);
    let mut random = SplitMix64::new(SEED);
    let of_part = |part: u64| (u128::from(part) * u128::from(pieces) / u128::from(parts)) as u64;
    let mut all = Vec::with_capacity(parts as usize);
    for part in 0..parts {
        let (from, to) = (of_part(part), of_part(part + 1));
        all.push(first + (from + random.below(to - from)) * SAMPLE);
    }
    let pass = |part: u64| (part % PASSES).reverse_bits() >> (64 - PASSES.trailing_zeros());
    let mut order: Vec<u64> = (0..parts).collect();
    order.sort_by_key(|part| (pass(*part), *part));
    order.into_iter().map(|part| all[part as usize]).collect()
}

impl Samples {
    fn look(&mut self, file: &File, from: u64, length: u64) {
        let mut data = vec![0; length as usize];
        match file.read_exact_at(&mut data, from) {
            Ok(()) => {
                self.read += length.div_ceil(SAMPLE);
                self.bytes += length;
                let blank = |value: u8| data.iter().all(|b| *b == value);
                if !blank(0) && !blank(0xff) {
                    self.data = Some(format!("{UNKNOWN} (within {length} bytes from byte {from})"));
                }
            }
            Err(e) => {
                self.data = Some(format!("a part that cannot be read ({length} bytes from byte {from}: {e})"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(size: u64) -> File {
        let file = tempfile::tempfile().expect("file");
        file.set_len(size).expect("length");
        file
    }

    #[test]
    fn data_in_the_middle_is_met_and_a_small_device_is_read_whole() {
        // Wherever it stands: the byte lies between what beginning and end show.
        let size = (64 << 20) + 4096;
        let file = sparse(size);
        let empty = samples(&file, size);
        assert_eq!((empty.bytes, empty.cut, empty.data.clone()), (size, false, None), "{empty}");
        assert_eq!(empty.to_string(), "no data in all of its 64.0 MiB");
        for at in [HEAD, 1 << 20, 32 << 20, size - TAIL - 1, size - TAIL] {
            file.write_all_at(b"x", at).expect("written");
            let found = recognise(&file, size).expect("read");
            assert!(found.len() == 1 && found[0].starts_with(UNKNOWN), "{at}: {found:?}");
            file.write_all_at(b"\0", at).expect("written");
        }
        assert!(recognise(&file, size).expect("read").is_empty());
    }

    #[test]
    fn a_run_as_long_as_two_parts_is_met_wherever_it_stands() {
        let size = 1 << 40;
        let part = size / PARTS;
        let places: std::collections::BTreeSet<u64> = places(size).into_iter().collect();
        assert_eq!(places.len() as u64, PARTS);
        let mut random = SplitMix64::new(1);
        for _ in 0..100_000 {
            let from = HEAD + random.below(size - 2 * part - HEAD);
            assert!(places.range(from..from + 2 * part).next().is_some(), "{from}");
        }
        let file = sparse(size);
        let said = samples(&file, size).to_string();
        assert_eq!(said, "no data in 4,101 samples of 64 KiB, 0.024 % of the device");
        let middle = size / 2;
        for at in (middle..middle + 2 * part).step_by(SAMPLE as usize) {
            file.write_all_at(b"x", at).expect("written");
        }
        assert!(samples(&file, size).data.is_some_and(|d| d.starts_with(UNKNOWN)));
    }

    #[test]
    fn what_is_read_when_the_time_is_over_is_spread_evenly() {
        let size = 1 << 40;
        let first: Vec<u64> = places(size)[..PARTS as usize / 8].to_vec();
        for eighth in 0..8 {
            let within = first.iter().filter(|at| **at * 8 / size == eighth).count();
            assert_eq!(within, first.len() / 8, "of eighth {eighth}");
        }
        let said = within(&sparse(size), size, Duration::ZERO).to_string();
        assert!(said.starts_with("no data in ") && said.ends_with("(as many as 4 s allow)"), "{said}");
    }

    #[test]
    fn one_value_repeated_is_data_unless_it_is_that_of_erased_flash() {
        let file = sparse(8 << 20);
        let fill = |value: u8| file.write_all_at(&vec![value; 1 << 20], 4 << 20).expect("written");
        fill(0xff);
        assert_eq!(samples(&file, 8 << 20).data, None);
        fill(0x55);
        assert!(samples(&file, 8 << 20).data.is_some());
    }

    #[test]
    fn sizes_around_those_of_the_ends_are_read_without_gap() {
        for size in
            [0, 1, 4096, HEAD - 1, HEAD, HEAD + 1, HEAD + TAIL, HEAD + TAIL + 1, HEAD + TAIL + SAMPLE + 1]
        {
            assert_eq!(samples(&sparse(size), size).bytes, size, "{size}");
        }
    }
}
