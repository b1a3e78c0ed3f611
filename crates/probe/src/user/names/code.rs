// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The code of the functions in which most samples lie.

use super::{vdso, Found, Kind, Module, Named, Place};
use plumb_trace::schema::StateCode;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;

/// Functions whose code is kept.
const MOST: usize = 64;
/// One sample in so many must be in a function: 0.5 %.
const SHARE: u64 = 200;
/// Bytes of a function.
const LONGEST: u64 = 16_384;

#[derive(Debug, Default)]
pub(super) struct Heat {
    /// Module and start; samples and bytes.
    functions: BTreeMap<(u32, u64), (u64, u64)>,
    total: u64,
}

impl Heat {
    pub(super) fn add(&mut self, module: u32, places: &[Place], found: &[Option<Found>]) {
        for (place, found) in places.iter().zip(found) {
            self.total += place.samples;
            if let Some(found) = found.as_ref().filter(|f| f.size > 0 && place.samples > 0) {
                let entry = self.functions.entry((module, found.start)).or_default();
                *entry = (entry.0 + place.samples, entry.1.max(found.size));
            }
        }
    }

    /// Those that are worth their code: most samples first.
    fn hot(&self) -> Vec<(u32, u64, u64)> {
        let mut hot: Vec<_> =
            self.functions.iter().filter(|(_, (samples, _))| samples * SHARE >= self.total).collect();
        hot.sort_by_key(|(_, (samples, _))| Reverse(*samples));
        hot.into_iter().map(|((module, start), (_, size))| (*module, *start, (*size).min(LONGEST))).collect()
    }

    /// Reads the code. What a process made itself is gone, and has none.
    pub(super) fn read(
        &self,
        modules: &HashMap<u32, &Module>,
        peek: &mut dyn FnMut(u64, usize) -> Result<Vec<u8>, String>,
        out: &mut Named,
    ) {
        let mut refused = None;
        for (module, start, size) in self.hot() {
            if out.code.len() == MOST {
                break;
            }
            let bytes = match modules.get(&module) {
                None if module == 0 => match peek(start, size as usize) {
                    Ok(bytes) => Some(bytes),
                    Err(why) => {
                        refused.get_or_insert(why);
                        None
                    }
                },
                Some(Module { kind: Kind::File, file: Some(file), .. }) => {
                    let mut bytes = vec![0; size as usize];
                    file.read_exact_at(&mut bytes, start).ok().map(|()| bytes)
                }
                Some(Module { kind: Kind::Vdso, .. }) => vdso::image()
                    .and_then(|image| image.get(start as usize..(start + size) as usize).map(<[u8]>::to_vec)),
                _ => None,
            };
            out.code.extend(bytes.map(|bytes| row(module, start, &bytes)));
        }
        let kernel = out.symbols.iter_mut().find(|s| s.module == 0);
        if let (Some(why), Some(kernel)) = (refused, kernel) {
            let gap = if kernel.lacking.is_empty() { "" } else { "; " };
            kernel.lacking.push_str(&format!("{gap}code of its functions is not shown: {why}"));
        }
    }
}

/// A row of the trace; the last word is filled up with zeros.
fn row(module: u32, start: u64, bytes: &[u8]) -> StateCode {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    StateCode { module, start, bytes: bytes.len() as u64, words: bytes.chunks(8).map(word).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(start: u64, size: u64) -> Option<Found> {
        Some(Found { start, size, frames: vec![("f".into(), String::new())] })
    }

    #[test]
    fn hot_functions_are_those_with_a_share_of_the_samples() {
        let mut heat = Heat::default();
        let places = [(0x10, 3), (0x18, 2), (0x40, 1), (0x80, 994), (0x90, 0)];
        let places = places.map(|(offset, samples)| Place { offset, samples });
        let f = [found(0x10, 32), found(0x10, 32), found(0x40, 8), found(0x80, 1 << 20), found(0x90, 8)];
        heat.add(1, &places, &f);
        // 5 and 994 of 1000; the largest is cut.
        assert_eq!(heat.hot(), [(1, 0x80, LONGEST), (1, 0x10, 32)]);
        heat.add(2, &[Place { offset: 1, samples: 1 }], &[None]);
        assert_eq!(heat.hot(), [(1, 0x80, LONGEST)], "5 of 1001 is below the share");
    }

    #[test]
    fn kernel_code_is_asked_for_and_a_refusal_is_told() {
        let mut heat = Heat::default();
        heat.add(0, &[Place { offset: 0xff05, samples: 1 }], &[found(0xff00, 9)]);
        let mut out = Named::default();
        let mut bytes = |at: u64, n: usize| Ok((0..n).map(|i| at as u8 + i as u8 + 1).collect());
        heat.read(&HashMap::new(), &mut bytes, &mut out);
        assert_eq!(
            out.code,
            [StateCode { module: 0, start: 0xff00, bytes: 9, words: vec![0x0807_0605_0403_0201, 9] }]
        );
        let mut out = Named::default();
        out.symbols.push(plumb_trace::schema::StateSymbols::default());
        heat.read(&HashMap::new(), &mut |_, _| Err("not today".into()), &mut out);
        assert!(out.code.is_empty() && out.symbols[0].lacking.ends_with("not shown: not today"));
    }
}
