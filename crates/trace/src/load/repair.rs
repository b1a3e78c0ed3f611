// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that is killed while it writes a packet leaves a part of it.

use crate::ctf::{PacketHead, HEAD_BYTES};
use crate::schema::LoadBegin;
use crate::writer::{named, Stream, Whole};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Cuts the streams of threads that are gone back to their last whole packet, as
/// every reader of CTF needs it, and tells in a packet without events how many
/// were in the part that was cut. Returns how many that were.
///
/// # Errors
/// A stream cannot be read or written; named.
pub fn cut_torn(dir: &Path) -> io::Result<u64> {
    let mut lost = 0;
    for entry in std::fs::read_dir(dir).map_err(|e| named(dir, e))?.flatten() {
        let stream = entry.file_name().to_str().and_then(Stream::load_of_file);
        let Some(Stream::Load { pid, .. }) = stream else { continue };
        if Path::new(&format!("/proc/{pid}")).exists() {
            // It may be writing now.
            continue;
        }
        let path = entry.path();
        lost += cut(&path).map_err(|e| named(&path, e))?;
    }
    Ok(lost)
}

fn cut(path: &Path) -> io::Result<u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let whole = Whole::of(&file)?;
    if whole.bytes == file.metadata()?.len() {
        return Ok(0);
    }
    file.set_len(whole.bytes)?;
    whole.torn.map_or(Ok(0), |torn| tell(&file, whole.bytes, &whole.last, &torn))
}

/// Appends the packet that tells of the loss.
fn tell(file: &File, at: u64, last: &PacketHead, torn: &PacketHead) -> io::Result<u64> {
    let lost = (torn.content - HEAD_BYTES as u64) / size_of::<LoadBegin>() as u64;
    let head = PacketHead {
        begin: torn.end.max(last.end),
        end: torn.end.max(last.end),
        content: HEAD_BYTES as u64,
        size: HEAD_BYTES as u64,
        discarded: torn.discarded + lost,
        ..*torn
    };
    file.write_all_at(&head.encode(), at)?;
    Ok(lost)
}
