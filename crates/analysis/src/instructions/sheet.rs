// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's instructions with the time at each: its histogram laid on its code.

use super::disassembly::{Code, Names};
use super::histogram::{Histogram, Weight};
use plumb_model::profile::{Function, Origin, Profile};

#[derive(Debug, Clone)]
pub struct Sheet<'a> {
    pub function: &'a Function,
    /// Its bytes; empty where the trace has none.
    pub bytes: &'a [u8],
    /// Its instructions; none where the trace has no code.
    pub code: Code,
    /// What lies at each instruction.
    pub weights: Vec<Weight>,
    /// What lies at addresses without an instruction.
    pub outside: Vec<(u64, Weight)>,
    /// Samples at a byte that is not its instruction's first.
    pub amid: u64,
    pub all: Weight,
}

/// A part of a whole, 0 to 1; by time, and by samples where there is no time.
pub fn share(part: Weight, whole: Weight) -> f64 {
    match (whole.time, whole.samples) {
        (0, 0) => 0.0,
        (0, samples) => part.samples as f64 / samples as f64,
        (time, _) => part.time as f64 / time as f64,
    }
}

impl<'a> Sheet<'a> {
    /// `machine`: whose code it is, as Rust calls it. `None`: the profile has no such function.
    pub fn new(profile: &'a Profile, histogram: &Histogram, machine: &str) -> Option<Self> {
        let function = profile.functions.get(histogram.function)?;
        let bytes = profile.code.get(&(function.module, function.start)).map_or(&[][..], Vec::as_slice);
        let code = Code::new(bytes, function.start, machine, &names(profile, function.module));
        let mut sheet = Self {
            function,
            bytes,
            weights: vec![Weight::default(); code.instructions.len()],
            code,
            outside: Vec::new(),
            amid: 0,
            all: histogram.all,
        };
        for (address, weight) in &histogram.at {
            let offset = address.checked_sub(function.start);
            match offset.and_then(|o| Some((o, sheet.code.at(o)?))) {
                Some((offset, i)) => {
                    sheet.weights[i].add(*weight);
                    if sheet.code.instructions[i].offset != offset {
                        sheet.amid += weight.samples;
                    }
                }
                None => sheet.outside.push((*address, *weight)),
            }
        }
        Some(sheet)
    }

    /// Why there are no instructions; `None` when there are.
    pub fn lacking(&self, profile: &Profile) -> Option<String> {
        if !self.bytes.is_empty() {
            return None;
        }
        Some(match self.function.origin {
            Origin::Jit => "its process made the code itself and has taken it along".into(),
            _ if profile.code.is_empty() => {
                "the trace holds no code at all (an older recording, or one without samples)".into()
            }
            _ if self.function.start == 0 => "where it begins is not known".into(),
            _ => {
                "the trace holds the code of the functions with the most samples, and this is none of them, \
                  or its file could not be read"
                    .into()
            }
        })
    }

    /// An address as bytes from the function's start, `+0x1c`; as it is where that is not known.
    pub fn place(&self, address: u64) -> String {
        match address.checked_sub(self.function.start) {
            Some(offset) if self.function.start > 0 => format!("+{offset:#x}"),
            _ => format!("{address:#x}"),
        }
    }
}

fn names(profile: &Profile, module: u32) -> Names<'_> {
    let inside = profile.functions.iter().filter(|f| f.module == module && f.named && f.start > 0);
    inside.map(|f| (f.start, (f.name.as_str(), f.size))).collect()
}
