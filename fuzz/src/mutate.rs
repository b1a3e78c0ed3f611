// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutations of bytes and of text. Those of traces are in `elements.rs`.

pub use plumb_stats::random::SplitMix64 as Random;

/// Numbers at which arithmetic ends.
pub const EDGES: [u64; 22] = [
    0,
    1,
    2,
    7,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 53,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1_000_000_000,
    u64::MAX - 1,
    u64::MAX,
];

/// Numbers as text has them.
const WORDS: [&str; 26] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-320",
    "-0.0",
    "0.1",
    "nan",
    "99999999999999999999999999999999",
    "100000000",
    "1t",
    "1p",
    "16E",
    "1000000h",
    "4096",
    "",
];

/// Longest input that a mutator makes, bytes.
pub const LONGEST: usize = 1 << 20;

pub fn pick<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

fn range(len: usize, most: u64, random: &mut Random) -> std::ops::Range<usize> {
    let at = random.below(len as u64 + 1) as usize;
    at..(at + random.below(most) as usize + 1).min(len)
}

/// Changes a number of 1, 2, 4 or 8 bytes, little-endian: to an edge, or by a little.
pub fn number(bytes: &mut [u8], random: &mut Random) {
    let size = 1usize << random.below(4);
    if bytes.len() < size {
        return;
    }
    let at = random.below((bytes.len() - size + 1) as u64) as usize;
    let place = &mut bytes[at..at + size];
    let mut word = [0; 8];
    word[..size].copy_from_slice(place);
    let old = u64::from_le_bytes(word);
    let new = match random.below(4) {
        0 => old.wrapping_add(random.below(16)),
        1 => old.wrapping_sub(random.below(16)),
        2 => pick(&EDGES, random).wrapping_add(random.below(3)).wrapping_sub(1),
        _ => *pick(&EDGES, random),
    };
    place.copy_from_slice(&new.to_le_bytes()[..size]);
}

/// A few changes of bytes.
pub fn bytes(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let len = input.len();
        match random.below(10) {
            0 if len > 0 => input[random.below(len as u64) as usize] ^= 1 << random.below(8),
            1 if len > 0 => input[random.below(len as u64) as usize] = random.next_u64() as u8,
            2..=4 => number(input, random),
            5 => drop(input.drain(range(len, 64, random))),
            6 => {
                let block = input[range(len, 256, random)].to_vec();
                let at = random.below(len as u64 + 1) as usize;
                input.splice(at..at, block);
            }
            7 => {
                let from = range(other.len(), 512, random);
                let to = range(len, 512, random);
                input.splice(to, other[from].iter().copied());
            }
            8 => {
                let more: Vec<u8> = (0..=random.below(16)).map(|_| random.next_u64() as u8).collect();
                let at = random.below(len as u64 + 1) as usize;
                input.splice(at..at, more);
            }
            _ if random.below(4) == 0 => input.truncate(random.below(len as u64 + 1) as usize),
            _ => {}
        }
    }
    input.truncate(LONGEST);
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// A few changes of text: its lines, numbers and words; sometimes its bytes.
pub fn text(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(3) {
        match random.below(8) {
            0 => bytes(input, other, random),
            1..=3 => token(input, &|b| b.is_ascii_digit(), |r| pick(&WORDS, r).as_bytes().to_vec(), random),
            4 => {
                let words: Vec<&[u8]> = other
                    .split(|b| !b.is_ascii_alphanumeric() && !b"-_.".contains(b))
                    .filter(|w| !w.is_empty())
                    .collect();
                if !words.is_empty() {
                    let new = pick(&words, random).to_vec();
                    token(
                        input,
                        &|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b),
                        |_| new.clone(),
                        random,
                    );
                }
            }
            _ => {
                let mut all = lines(input);
                let more = lines(other);
                let at = random.below(all.len() as u64 + 1) as usize;
                match random.below(4) {
                    0 if at < all.len() => drop(all.remove(at)),
                    1 if at < all.len() => all.insert(at, all[at].clone()),
                    2 if !more.is_empty() => all.insert(at, pick(&more, random).clone()),
                    _ if at < all.len() => {
                        let with = random.below(all.len() as u64) as usize;
                        all.swap(at, with);
                    }
                    _ => {}
                }
                *input = all.concat();
            }
        }
    }
    input.truncate(LONGEST);
}

/// Replaces one run of bytes of a kind.
fn token(
    input: &mut Vec<u8>,
    is: &dyn Fn(u8) -> bool,
    new: impl Fn(&mut Random) -> Vec<u8>,
    random: &mut Random,
) {
    if input.is_empty() {
        return;
    }
    let from = random.below(input.len() as u64) as usize;
    let Some(start) = (from..input.len()).find(|i| is(input[*i])) else { return };
    let start = (0..=start).rev().take_while(|i| is(input[*i])).last().unwrap_or(start);
    let end = (start..input.len()).find(|i| !is(input[*i])).unwrap_or(input.len());
    let word = new(random);
    input.splice(start..end, word);
}
