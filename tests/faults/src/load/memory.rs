// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that use memory.

use super::Ctx;
use crate::sys::Map;
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Reads a file of `fault` MiB `ops` times; the set-up decides how much of it the cache may hold.
pub fn reread(ctx: &Ctx) -> Result<()> {
    let file = File::open(ctx.file("data"))?;
    let mut block = vec![0; 256 << 10];
    for _ in 0..ctx.dose.ops {
        for i in 0..ctx.dose.fault * 4 {
            ctx.work();
            file.read_exact_at(&mut block, i * (256 << 10))?;
        }
    }
    Ok(())
}

/// Walks `ops` times over `fault` MiB of its own; the set-up decides how much may stay in memory.
pub fn walk(ctx: &Ctx) -> Result<()> {
    let pages = (ctx.dose.fault as usize) << 8;
    let map = Map::anonymous(pages << 12)?;
    (0..pages).for_each(|page| map.scramble(page));
    for _ in 0..ctx.dose.ops {
        for page in 0..pages {
            if page % 64 == 0 {
                ctx.work();
            }
            map.touch(page << 12);
        }
    }
    Ok(())
}

/// Uses a buffer in each operation whose pages take `fault` us to come: a new mapping with the
/// fault, else the same.
pub fn new_mappings(ctx: &Ctx) -> Result<()> {
    let len = (ctx.units() as usize) << 12;
    let kept = Map::anonymous(len)?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        if ctx.on {
            touch_all(&Map::anonymous(len)?, len);
        } else {
            touch_all(&kept, len);
        }
    }
    Ok(())
}

/// Uses a buffer in each operation whose pages take `fault` us to come and, with the fault, gives
/// them back.
pub fn given_back(ctx: &Ctx) -> Result<()> {
    let len = (ctx.units() as usize) << 12;
    let map = Map::anonymous(len)?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        touch_all(&map, len);
        if ctx.on {
            map.advise(libc::MADV_DONTNEED);
        }
    }
    Ok(())
}

/// The unit of [`new_mappings`] and [`given_back`], so many times: a page that comes and goes.
pub fn pages(pages: usize) -> Result<()> {
    touch_all(&Map::anonymous(pages << 12)?, pages << 12);
    Ok(())
}

fn touch_all(map: &Map, len: usize) {
    (0..len).step_by(4096).for_each(|at| map.touch(at));
}
