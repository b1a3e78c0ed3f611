// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's vdso: the same image in every 64-bit process, so this process's own.

use super::layout::Layout;
use super::{Answer, Place};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The image. `None`: this process has none (vdso=0).
pub(super) fn image() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]"))?.split_whitespace().next()?;
    let (start, end) = range.split_once('-')?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    // Some pages; a line that says more is not believed.
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok().filter(|n| *n <= 1 << 20)?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

/// Names places in the vdso, offsets in its image.
pub(super) fn name(places: &[Place]) -> Answer {
    let Some(bytes) = image() else {
        return Answer::nothing(places, "this process has no vdso to read symbols from");
    };
    let elf = match object::File::parse(&*bytes) {
        Ok(elf) => elf,
        Err(e) => return Answer::nothing(places, format!("the vdso's image: {e}")),
    };
    let mut layout = Layout::new(&elf);
    layout.read_functions(&elf);
    let found: Vec<_> = places.iter().map(|p| layout.function(*p)).collect();
    let lacking = match found.iter().all(Option::is_some) {
        true => String::new(),
        false => "the vdso names only the functions that programs call".into(),
    };
    Answer { found, source: "[vdso]".into(), lacking }
}
