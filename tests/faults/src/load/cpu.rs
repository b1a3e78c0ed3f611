// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that use the CPU.

use super::{threads, Ctx};
use crate::sys;
use anyhow::Result;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Useful work and nothing else; what disturbs it comes from outside.
pub fn work(ctx: &Ctx) -> Result<()> {
    threads(ctx.dose.width, |_| {
        (0..ctx.dose.ops).for_each(|_| ctx.work());
        Ok(())
    })
}

/// Sleeps for `work`, then burns the CPU in user code for `fault` us.
pub fn user(ctx: &Ctx) -> Result<()> {
    for _ in 0..ctx.dose.ops {
        sys::sleep_us(ctx.dose.work);
        ctx.spin(ctx.dose.fault);
    }
    Ok(())
}

/// Has the kernel do `units` of something that nobody needs after each piece of useful work.
fn besides(ctx: &Ctx, mut unit: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..ctx.dose.ops {
        ctx.work();
        for _ in 0..if ctx.on { ctx.units() } else { 0 } {
            unit()?;
        }
    }
    Ok(())
}

/// Reads zeroes that nobody needs, for `fault` us.
pub fn read_zero(ctx: &Ctx) -> Result<()> {
    besides(ctx, zeroes()?)
}

/// Asks the kernel for random numbers, for `fault` us.
pub fn random_numbers(ctx: &Ctx) -> Result<()> {
    besides(ctx, numbers())
}

/// Reads the same cached blocks, for `fault` us.
pub fn cached_reads(ctx: &Ctx) -> Result<()> {
    besides(ctx, blocks(&ctx.file("data"))?)
}

/// The unit of [`read_zero`]: 64 KiB.
pub fn zeroes() -> Result<impl FnMut() -> Result<()>> {
    let mut zero = File::open("/dev/zero")?;
    let mut buffer = vec![0; 64 << 10];
    Ok(move || Ok(zero.read_exact(&mut buffer)?))
}

/// The unit of [`random_numbers`]: 4 KiB.
pub fn numbers() -> impl FnMut() -> Result<()> {
    let mut buffer = vec![0; 4 << 10];
    move || {
        sys::getrandom(&mut buffer);
        Ok(())
    }
}

/// The unit of [`cached_reads`]: the next of 64 blocks of 16 KiB.
pub fn blocks(path: &Path) -> Result<impl FnMut() -> Result<()>> {
    let file = File::open(path)?;
    let mut block = vec![0; 16 << 10];
    let mut next = 0;
    Ok(move || {
        next = (next + 1) % 64;
        Ok(file.read_exact_at(&mut block, next * (16 << 10))?)
    })
}
