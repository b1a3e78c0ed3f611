// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that use the CPU.

use super::{threads, Ctx};
use crate::sys;
use anyhow::Result;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

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

/// Reads `fault` KiB of zeroes that nobody needs.
pub fn read_zero(ctx: &Ctx) -> Result<()> {
    let mut zero = File::open("/dev/zero")?;
    let mut buffer = vec![0; 64 << 10];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        for _ in 0..if ctx.on { ctx.dose.fault / 64 } else { 0 } {
            zero.read_exact(&mut buffer)?;
        }
    }
    Ok(())
}

/// Asks the kernel for `fault` KiB of random numbers.
pub fn random_numbers(ctx: &Ctx) -> Result<()> {
    let mut buffer = vec![0; 4 << 10];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        for _ in 0..if ctx.on { ctx.dose.fault / 4 } else { 0 } {
            sys::getrandom(&mut buffer);
        }
    }
    Ok(())
}

/// Reads the same cached blocks `fault` times.
pub fn cached_reads(ctx: &Ctx) -> Result<()> {
    let file = File::open(ctx.file("data"))?;
    let mut block = vec![0; 16 << 10];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        for i in 0..if ctx.on { ctx.dose.fault } else { 0 } {
            file.read_exact_at(&mut block, i % 64 * (16 << 10))?;
        }
    }
    Ok(())
}
