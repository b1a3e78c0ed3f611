// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Was it the storage that was measured?

use super::facts::Facts;
use super::Finding::{self, Against, Fine};
use super::Severity::{Invalid, Note, Suspect};
use super::{graded, percent};
use plumb_trace::units::{bytes, count};

/// Below this a comparison of bytes says nothing: superblocks, logs, other
/// processes' odd pages come to as much in a few seconds.
const FEW_BYTES: u64 = 1 << 20;
/// Share of the bytes that may miss at the device: counters are read a little
/// before and after, and the last pages of a file end early.
const MISSING_SUSPECT: f64 = 0.10;
/// More than half missing: the mean is that of something else.
const MISSING_INVALID: f64 = 0.50;
/// Share of the bytes that may come from the device when the cache is measured:
/// a miss costs a hundred times a hit, so that 1 % doubles the mean.
const MISS_SUSPECT: f64 = 0.01;
/// Of this the misses are nearly all of the time.
const MISS_INVALID: f64 = 0.20;
/// What a file system writes for one sync or one file made: journal descriptor,
/// blocks of metadata and commit, later the same in place.
const METADATA_BYTES: u64 = 64 << 10;
/// Others' share of the load's bytes that shifts a mean noticeably.
const OTHERS_SUSPECT: f64 = 0.25;
/// The device worked more for others than for the load.
const OTHERS_INVALID: f64 = 1.0;
/// Less than that is a log or a cron job, whatever the share; bytes.
const OTHERS_FEW_BYTES: u64 = 16 << 20;
/// A page: the least that buffered I/O reads.
const PAGE: u64 = 4096;
/// Data that saves less than this is as good as random to a compressor's block sizes.
const COMPRESSIBLE: f64 = 0.10;
/// ext4 tries other groups after some of them; so many fill the bitmaps of one (8192 inodes a group).
const MANY_DELETES: u64 = 1000;

pub(super) fn read_from_cache(facts: &Facts) -> Option<Finding> {
    let claimed = facts.read_bytes?;
    if claimed < FEW_BYTES {
        return Some(Fine);
    }
    let device = facts.device_read_bytes?;
    let missing = 1.0 - device as f64 / claimed as f64;
    let sentence = || {
        format!(
            "served from the page cache: {} claimed, {} read from the device",
            bytes(claimed),
            bytes(device)
        )
    };
    Some(match facts.cache_is_the_target {
        true if missing >= MISSING_INVALID => Against(Note, sentence()),
        true => Fine,
        false => graded(missing, MISSING_SUSPECT, MISSING_INVALID, sentence),
    })
}

pub(super) fn cache_missed(facts: &Facts) -> Option<Finding> {
    let claimed = facts.read_bytes?;
    // What goes past the cache, or takes it as found, says so elsewhere.
    if !facts.cache_is_the_target || facts.bypasses_cache || claimed < FEW_BYTES {
        return Some(Fine);
    }
    // What others read meanwhile is none of its misses.
    let device = facts.device_read_bytes?.min(facts.own_read_bytes.unwrap_or(u64::MAX));
    if device < FEW_BYTES {
        return Some(Fine);
    }
    let share = device as f64 / claimed as f64;
    Some(graded(share, MISS_SUSPECT, MISS_INVALID, || {
        format!("{} of {} read came from the device, not the cache", bytes(device), bytes(claimed))
    }))
}

pub(super) fn write_not_on_device(facts: &Facts) -> Option<Finding> {
    let claimed = facts.written_bytes?;
    if claimed < FEW_BYTES {
        return Some(Fine);
    }
    let device = facts.device_written_bytes?;
    let missing = 1.0 - device as f64 / claimed as f64;
    let sentence = || {
        format!(
            "only {} of {} written came to the device in the measured time",
            bytes(device),
            bytes(claimed)
        )
    };
    Some(match facts.cache_is_the_target {
        true if missing >= MISSING_INVALID => Against(Note, sentence()),
        true => Fine,
        false => graded(missing, MISSING_SUSPECT, MISSING_INVALID, sentence),
    })
}

pub(super) fn sync_without_flush(facts: &Facts) -> Option<Finding> {
    let syncs = facts.syncs?;
    if !facts.sync_promises || syncs == 0 || !facts.volatile_write_cache? {
        return Some(Fine);
    }
    // A write with forced unit access is durable without one.
    if facts.device_flushes? > 0 || facts.forced_unit_access == Some(true) {
        return Some(Fine);
    }
    let said = format!("{} syncs and no flush at a device whose write cache is volatile", count(syncs));
    Some(Against(Invalid, said))
}

pub(super) fn promise_without_sync(facts: &Facts) -> Option<Finding> {
    if !facts.sync_promises || facts.syncs? > 0 {
        return Some(Fine);
    }
    let written = facts.written_bytes.map_or(String::new(), |n| format!(" for {} written", bytes(n)));
    Some(Against(Invalid, format!("durability is promised and 0 syncs were made{written}")))
}

pub(super) fn volatile_cache(facts: &Facts) -> Option<Finding> {
    let written = facts.written_bytes?;
    if facts.sync_promises
        || facts.cache_is_the_target
        || written < FEW_BYTES
        || !facts.volatile_write_cache?
    {
        return Some(Fine);
    }
    if facts.device_flushes? > 0 {
        return Some(Fine);
    }
    let said =
        format!("{} were written to a volatile write cache with 0 flushes: not durable", bytes(written));
    Some(Against(Note, said))
}

pub(super) fn file_fits_memory(facts: &Facts) -> Option<Finding> {
    if facts.cache_is_the_target || facts.bypasses_cache {
        return Some(Fine);
    }
    let (file, memory) = (facts.file_bytes?, facts.memory_available?);
    if file >= memory {
        return Some(Fine);
    }
    // The device's own count, where there is one, tells what the cache served.
    let severity = if facts.device_read_bytes.is_some() { Note } else { Suspect };
    Some(Against(severity, format!("files of {} fit into {} of memory", bytes(file), bytes(memory))))
}

pub(super) fn compressible_data(facts: &Facts) -> Option<Finding> {
    if facts.cache_is_the_target || facts.written_bytes? < FEW_BYTES {
        return Some(Fine);
    }
    let share = facts.compressible?;
    if share < COMPRESSIBLE || facts.storage_compresses == Some(false) {
        return Some(Fine);
    }
    let (severity, may) = match facts.storage_compresses {
        Some(true) => (Suspect, "and the storage does that"),
        _ => (Note, "if the storage can do that"),
    };
    Some(Against(severity, format!("{} of the data can be compressed away, {may}", percent(share))))
}

pub(super) fn other_writers(facts: &Facts) -> Option<Finding> {
    if facts.asks_a_database {
        return Some(Fine);
    }
    let (ours, device) = (facts.written_bytes?, facts.device_written_bytes?);
    let times = facts.syncs.unwrap_or(0).saturating_add(facts.files_created.unwrap_or(0));
    let explained = ours.saturating_add(times.saturating_mul(METADATA_BYTES));
    Some(others(device, ours, explained, facts.read_bytes.unwrap_or(0), "wrote"))
}

pub(super) fn other_readers(facts: &Facts) -> Option<Finding> {
    if facts.asks_a_database {
        return Some(Fine);
    }
    let (ours, device) = (facts.read_bytes?, facts.device_read_bytes?);
    let pages = facts.operations.unwrap_or(0).saturating_mul(PAGE);
    Some(others(device, ours, ours.max(pages), facts.written_bytes.unwrap_or(0), "read"))
}

/// Others' traffic in one direction weighs by the load's own in both.
fn others(device: u64, ours: u64, explained: u64, other_way: u64, did: &str) -> Finding {
    let more = device.saturating_sub(explained);
    if more < OTHERS_FEW_BYTES {
        return Fine;
    }
    let share = more as f64 / explained.saturating_add(other_way).max(1) as f64;
    graded(share, OTHERS_SUSPECT, OTHERS_INVALID, || {
        format!("the device {did} {}, the load {} of it", bytes(device), bytes(ours.min(device)))
    })
}

pub(super) fn recent_deletes(facts: &Facts) -> Option<Finding> {
    if !facts.creates_files {
        return Some(Fine);
    }
    if !facts.file_system.as_ref()?.starts_with("ext") {
        return Some(Fine);
    }
    let deleted = facts.recently_deleted?;
    let said = || format!("{} files were deleted here in the last five minutes", count(deleted));
    Some(match deleted {
        0 => Fine,
        1..MANY_DELETES => Against(Note, said()),
        _ => Against(Suspect, said()),
    })
}
