// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk that forgets, behind FUSE: what was written since the last flush is lost in a power cut,
//! all of it or a part, as with the volatile cache of a real disk, which keeps no order between two
//! flushes and does not write a request in one go. The bytes are [`Media`]'s.

use plumb_sim::device::Outcome;
use plumb_sim::serve::fuse::Backing;
use plumb_sim::serve::media::{Contents, Media, Toll};
use std::io;

pub struct Forgetful(Media);

impl Forgetful {
    /// A powered disk of `size` zero bytes, rounded up to whole sectors.
    ///
    /// # Errors
    /// No memory.
    pub fn new(size: u64) -> io::Result<Self> {
        Media::volatile(size).map(Self)
    }

    /// Power is cut, as [`Media::cut`] says. No write is under way: FUSE's are done as they come.
    ///
    /// # Errors
    /// The memory behind the disk cannot be read or written.
    pub fn cut(&self, percent: u64, seed: u64) -> io::Result<Toll> {
        self.0.cut(percent, seed, [])
    }

    /// Power is back: requests are served again, with what survived.
    pub fn power_on(&self) {
        self.0.power_on();
    }

    /// Flushes since the disk was made.
    pub fn flushes(&self) -> u64 {
        self.0.flushes()
    }
}

impl Backing for Forgetful {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        // A file's readers get what there is up to its end.
        let there = self.0.size().saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.0.read(&mut buffer[..there], offset.min(self.0.size()))?;
        Ok(there)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write(Contents::Bytes(data), offset, false, Outcome::Done)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_sim::serve::media::SECTOR;

    #[test]
    fn a_write_survives_a_power_cut_when_it_is_flushed_and_only_then() {
        let disk = Forgetful::new(4 * SECTOR).expect("disk");
        disk.write(&[1; 1024], 0).expect("write");
        disk.flush().expect("flush");
        disk.write(&[2; 1024], 512).expect("write");
        assert_eq!(disk.cut(0, 1).expect("cut"), Toll { lost: 2, kept: 0, torn: 0, flushes: 1 });
        let errors = [disk.read(&mut [0; 512], 0).err(), disk.write(&[0; 512], 0).err(), disk.flush().err()];
        for error in errors {
            assert_eq!(error.and_then(|e| e.raw_os_error()), Some(libc::EIO));
        }
        disk.power_on();
        let mut all = [9; 2048];
        assert_eq!(disk.read(&mut all, 0).expect("read"), 2048);
        assert!(all[..1024].iter().all(|b| *b == 1) && all[1024..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_read_ends_at_the_end_and_a_write_beyond_it_is_refused() {
        let disk = Forgetful::new(1).expect("disk");
        assert_eq!(disk.size(), SECTOR);
        assert!(disk.write(&[1; 513], 0).is_err());
        assert!(disk.write(&[1; 1], u64::MAX).is_err());
        disk.write(&[1; 512], 0).expect("all of it");
        let mut buffer = [9; 1024];
        assert_eq!(disk.read(&mut buffer, 256).expect("read"), 256);
        assert!(buffer[..256].iter().all(|b| *b == 1) && buffer[256..].iter().all(|b| *b == 9));
        for beyond in [512, 513, u64::MAX] {
            assert_eq!(disk.read(&mut buffer, beyond).expect("nothing"), 0);
        }
    }
}
