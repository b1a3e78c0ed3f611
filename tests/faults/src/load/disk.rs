// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that read and write.

use super::{threads, Ctx};
use crate::sys::{self, Aligned, Map};
use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const KIB: u64 = 1024;

/// A place for operation `i` that no read-ahead foresees, in blocks of `block` bytes within `size`.
fn scatter(i: u64, size: u64, block: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    x % (size / block) * block
}

fn direct(path: &std::path::Path) -> Result<File> {
    Ok(File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?)
}

/// Reads 64 KiB of the device after the other, past the cache, one at a time per thread.
pub fn direct_reads(ctx: &Ctx) -> Result<()> {
    let file = direct(ctx.device()?)?;
    threads(ctx.dose.width, |thread| {
        let mut buffer = Aligned::new(64 << 10);
        for i in 0..ctx.dose.ops {
            ctx.work();
            file.read_exact_at(buffer.bytes(), (thread * ctx.dose.ops + i) * 64 * KIB)?;
        }
        Ok(())
    })
}

/// Writes 64 KiB of the device after the other, past the cache.
pub fn direct_writes(ctx: &Ctx) -> Result<()> {
    let file = File::options().write(true).custom_flags(libc::O_DIRECT).open(ctx.device()?)?;
    let mut buffer = Aligned::new(64 << 10);
    for i in 0..ctx.dose.ops {
        ctx.work();
        file.write_all_at(buffer.bytes(), i * 64 * KIB)?;
    }
    Ok(())
}

/// Reads `ops` files of 64 KiB that are not in the cache.
pub fn many_files(ctx: &Ctx) -> Result<()> {
    for i in 0..ctx.dose.ops {
        ctx.work();
        let data = std::fs::read(ctx.file(&format!("file{i}")))?;
        anyhow::ensure!(data.len() == 64 << 10, "file{i}: {} bytes", data.len());
    }
    Ok(())
}

/// Reads `ops` times 1 MiB of the device past the cache: in 4 KiB with the fault, else at once.
pub fn small_reads(ctx: &Ctx) -> Result<()> {
    let file = direct(ctx.device()?)?;
    let mut buffer = Aligned::new(1 << 20);
    let piece = if ctx.on { 4 << 10 } else { 1 << 20 };
    for i in 0..ctx.dose.ops {
        ctx.work();
        for (part, bytes) in buffer.bytes().chunks_mut(piece).enumerate() {
            file.read_exact_at(bytes, i << 20 | (part * piece) as u64)?;
        }
    }
    Ok(())
}

/// Writes `ops` times 1 MiB of the device past the cache: in 4 KiB with the fault, else at once.
pub fn small_writes(ctx: &Ctx) -> Result<()> {
    let file = File::options().write(true).custom_flags(libc::O_DIRECT).open(ctx.device()?)?;
    let mut buffer = Aligned::new(1 << 20);
    let piece = if ctx.on { 4 << 10 } else { 1 << 20 };
    for i in 0..ctx.dose.ops {
        ctx.work();
        for (part, bytes) in buffer.bytes().chunks(piece).enumerate() {
            file.write_all_at(bytes, i << 20 | (part * piece) as u64)?;
        }
    }
    Ok(())
}

/// Reads `ops` blocks of 16 KiB of a cold file: scattered with the fault, else one after the other.
pub fn random_reads(ctx: &Ctx) -> Result<()> {
    let file = File::open(ctx.file("data"))?;
    let size = file.metadata()?.len();
    let mut block = vec![0; 16 << 10];
    for i in 0..ctx.dose.ops {
        ctx.work();
        let at = if ctx.on { scatter(i, size, 16 * KIB) } else { i * 16 * KIB };
        file.read_exact_at(&mut block, at)?;
    }
    Ok(())
}

/// Scattered reads past the cache; without the fault one after the other through it.
pub fn random_direct(ctx: &Ctx) -> Result<()> {
    let path = ctx.file("data");
    let file = if ctx.on { direct(&path)? } else { File::open(&path)? };
    let size = file.metadata()?.len();
    let mut block = Aligned::new(4 << 10);
    for i in 0..ctx.dose.ops {
        ctx.work();
        let at = if ctx.on { scatter(i, size, 4 * KIB) } else { i * 4 * KIB };
        file.read_exact_at(block.bytes(), at)?;
    }
    Ok(())
}

/// Looks at `ops` pages of a mapped cold file: scattered with the fault, else one after the other.
pub fn random_mapped(ctx: &Ctx) -> Result<()> {
    let file = File::options().read(true).write(true).open(ctx.file("data"))?;
    let size = file.metadata()?.len();
    let map = Map::shared(&file, size as usize)?;
    if ctx.on {
        map.advise(libc::MADV_RANDOM);
    }
    for i in 0..ctx.dose.ops {
        ctx.work();
        let at = if ctx.on { scatter(i, size, 4 * KIB) } else { i * 4 * KIB };
        std::hint::black_box(map.look(at as usize));
    }
    Ok(())
}

/// Reads a cold file from its begin in blocks of 4 KiB; the fault forbids read-ahead.
pub fn advised_random(ctx: &Ctx) -> Result<()> {
    let file = File::open(ctx.file("data"))?;
    if ctx.on {
        sys::fadvise(&file, libc::POSIX_FADV_RANDOM);
    }
    sequential(ctx, &file, 4 << 10)
}

/// Reads a cold file from its begin in blocks of 16 KiB; the set-up decides on read-ahead.
pub fn sequential_reads(ctx: &Ctx) -> Result<()> {
    sequential(ctx, &File::open(ctx.file("data"))?, 16 << 10)
}

fn sequential(ctx: &Ctx, file: &File, size: usize) -> Result<()> {
    let mut block = vec![0; size];
    for i in 0..ctx.dose.ops {
        ctx.work();
        file.read_exact_at(&mut block, i * size as u64)?;
    }
    Ok(())
}

/// Reads one 16 KiB block at a time past the cache, as a client of a busy disk.
pub fn client_reads(ctx: &Ctx) -> Result<()> {
    let file = direct(ctx.device()?)?;
    let mut buffer = Aligned::new(16 << 10);
    for i in 0..ctx.dose.ops {
        ctx.work();
        file.read_exact_at(buffer.bytes(), i * 16 * KIB)?;
    }
    Ok(())
}

/// Appends 512 bytes and, with the fault, calls fsync each time; without it once at the end.
pub fn fsync_each(ctx: &Ctx) -> Result<()> {
    let mut file = File::create(ctx.file("table"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        file.write_all(&[7; 512])?;
        if ctx.on {
            file.sync_all()?;
        }
    }
    file.sync_all()?;
    Ok(())
}

/// Overwrites blocks of a file; with the fault it is open with O_SYNC, without it there is one
/// fsync at the end.
pub fn synchronous(ctx: &Ctx) -> Result<()> {
    let flags = if ctx.on { libc::O_SYNC } else { 0 };
    let file = File::options().write(true).custom_flags(flags).open(ctx.file("data"))?;
    for i in 0..ctx.dose.ops {
        ctx.work();
        file.write_all_at(&[7; 4096], i % 512 * 4 * KIB)?;
    }
    file.sync_all()?;
    Ok(())
}

/// Works on a data file and, with the fault, makes each operation's line in a log durable.
pub fn log_each(ctx: &Ctx) -> Result<()> {
    let data = File::options().read(true).write(true).open(ctx.file("data"))?;
    let mut log = File::options().append(true).create(true).open(ctx.file("service.log"))?;
    let mut block = vec![0; 8 << 10];
    for i in 0..ctx.dose.ops {
        let at = scatter(i, 4 << 20, 8 * KIB);
        data.read_exact_at(&mut block, at)?;
        ctx.work();
        block[0] = block[0].wrapping_add(1);
        data.write_all_at(&block, at)?;
        writeln!(log, "2026-01-01 00:00:00.000 INFO operation {i} done on block {at}")?;
        if ctx.on {
            log.sync_data()?;
        }
    }
    Ok(())
}

/// Appends a record and makes it durable; with the fault a neighbour does so too, with much more data.
pub fn commits(ctx: &Ctx) -> Result<()> {
    let mut file = File::create(ctx.file("table"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        file.write_all(&[7; 4096])?;
        file.sync_all()?;
    }
    Ok(())
}

/// Writes `ops` MiB into the cache; the set-up decides how much may be dirty.
pub fn buffered_writes(ctx: &Ctx) -> Result<()> {
    let mut file = File::create(ctx.file("copy"))?;
    let block = vec![7; 1 << 20];
    for _ in 0..ctx.dose.ops {
        ctx.work();
        file.write_all(&block)?;
    }
    Ok(())
}
