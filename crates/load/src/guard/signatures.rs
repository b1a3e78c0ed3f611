// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a block device may hold, by the magic numbers of its formats.
//!
//! Offsets and magics are those of each format's documentation and of the
//! kernel's and util-linux's sources. A false alarm costs the user one option;
//! so even two-byte magics are believed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// At one of these bytes.
    At(&'static [u64]),
    /// At `first`, `first + step` and so on, before `end`.
    Every {
        /// The first byte.
        first: u64,
        /// The distance, bytes.
        step: u64,
        /// The byte after the last that is looked at.
        end: u64,
    },
    /// So many bytes before the end, when the end is first rounded down to a multiple.
    FromEnd {
        /// What the end is rounded down to, bytes.
        align: u64,
        /// How far before it, bytes.
        back: u64,
    },
}

/// One magic number of a format.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// The format, as the user reads it.
    pub name: &'static str,
    pub place: Where,
    /// Its bytes.
    pub magic: &'static [u8],
}

const fn sig(name: &'static str, place: Where, magic: &'static [u8]) -> Signature {
    Signature { name, place, magic }
}

use Where::{At, Every, FromEnd};

/// A page's size less ten, for the page sizes that Linux has.
const SWAP: Where = At(&[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6]);
/// Descriptors of ISO 9660 and UDF, one each 2 KiB from 32 KiB on.
const VOLUME: Where = Every { first: 0x8001, step: 0x800, end: 0x10001 };

/// Formats in the order in which they are named: what is specific comes first,
/// since many formats begin with a boot sector that looks like an MBR.
pub const SIGNATURES: &[Signature] = &[
    sig(SCRATCH, At(&[0]), SCRATCH_MAGIC),
    sig("LUKS", At(&[0]), b"LUKS\xba\xbe"),
    sig(
        "LUKS",
        At(&[0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000, 0x100000, 0x200000, 0x400000]),
        b"SKUL\xba\xbe",
    ),
    sig("an LVM2 physical volume", At(&[0, 0x200, 0x400, 0x600]), b"LABELONE"),
    sig("an md RAID member (1.1 or 1.2)", At(&[0, 0x1000]), b"\xfc\x4e\x2b\xa9"),
    sig("an md RAID member (1.0)", FromEnd { align: 0x1000, back: 0x2000 }, b"\xfc\x4e\x2b\xa9"),
    sig("an md RAID member (0.90)", FromEnd { align: 0x10000, back: 0x10000 }, b"\xfc\x4e\x2b\xa9"),
    sig("an md RAID member (0.90)", FromEnd { align: 0x10000, back: 0x10000 }, b"\xa9\x2b\x4e\xfc"),
    sig("an Intel firmware RAID member", FromEnd { align: 0x200, back: 0x400 }, b"Intel Raid ISM Cfg Sig. "),
    sig("a DDF RAID member", FromEnd { align: 0x200, back: 0x200 }, b"\xde\x11\xde\x11"),
    sig("DRBD metadata", FromEnd { align: 0x1000, back: 0x1000 - 60 }, b"\x83\x74\x02\x6b"),
    sig("DRBD metadata", FromEnd { align: 0x1000, back: 0x1000 - 60 }, b"\x83\x74\x02\x6c"),
    sig("DRBD metadata", FromEnd { align: 0x1000, back: 0x1000 - 60 }, b"\x83\x74\x02\x6d"),
    sig("bcache", At(&[0x1018]), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    sig("bcachefs", At(&[0x1018]), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    sig("Ceph BlueStore", At(&[0]), b"bluestore block device"),
    sig("an Oracle ASM disk", At(&[0x20]), b"ORCLDISK"),
    sig("a Stratis block device", At(&[0x204, 0x1204]), b"!Stra0tis\x86\xff\x02^\x41rh"),
    sig("VDO", At(&[0]), b"dmvdo001"),
    sig("dm-integrity", At(&[0]), b"integrt\0"),
    sig("dm-verity", At(&[0]), b"verity\0\0"),
    sig("a swap area", SWAP, b"SWAPSPACE2"),
    sig("a swap area", SWAP, b"SWAP-SPACE"),
    sig("a hibernation image", SWAP, b"S1SUSPEND"),
    sig("a hibernation image", SWAP, b"S2SUSPEND"),
    sig("an ext2, ext3 or ext4 file system", At(&[0x438]), b"\x53\xef"),
    sig("an XFS file system", At(&[0]), b"XFSB"),
    sig("a btrfs file system", At(&[0x10040, 0x400_0040]), b"_BHRfS_M"),
    sig("an F2FS file system", At(&[0x400, 0x1400]), b"\x10\x20\xf5\xf2"),
    sig("a ZFS pool member", Every { first: 0x20000, step: 0x400, end: 0x40000 }, b"\x0c\xb1\xba\0\0\0\0\0"),
    sig("a ZFS pool member", Every { first: 0x20000, step: 0x400, end: 0x40000 }, b"\0\0\0\0\0\xba\xb1\x0c"),
    // Of the two labels at the end the first one's pool configuration (an XDR list) begins 16 KiB in.
    sig(
        "a ZFS pool member",
        FromEnd { align: 0x40000, back: 0x80000 - 0x4000 },
        b"\x01\x01\0\0\0\0\0\0\0\0\0\x01",
    ),
    sig("a ReiserFS file system", At(&[0x2034, 0x10034]), b"ReIsEr"),
    sig("a Reiser4 file system", At(&[0x10000]), b"ReIsEr4"),
    sig("a JFS file system", At(&[0x8000]), b"JFS1"),
    sig("a GFS2 file system", At(&[0x10000]), b"\x01\x16\x19\x70"),
    sig("an OCFS2 file system", At(&[0x400, 0x800, 0x1000, 0x2000]), b"OCFSV2"),
    sig("a NILFS2 file system", At(&[0x406]), b"\x34\x34"),
    sig("a SquashFS image", At(&[0]), b"hsqs"),
    sig("an EROFS image", At(&[0x400]), b"\xe2\xe1\xf5\xe0"),
    sig("a cramfs image", At(&[0]), b"\x45\x3d\xcd\x28"),
    sig("a Minix file system", At(&[0x410]), b"\x7f\x13"),
    sig("a Minix file system", At(&[0x410]), b"\x8f\x13"),
    sig("a Minix file system", At(&[0x410]), b"\x68\x24"),
    sig("a Minix file system", At(&[0x410]), b"\x78\x24"),
    sig("a Minix file system", At(&[0x418]), b"\x5a\x4d"),
    sig("a UFS file system", At(&[0x255c, 0x1055c]), b"\x54\x19\x01\x00"),
    sig("a UFS2 file system", At(&[0x255c, 0x1055c]), b"\x19\x01\x54\x19"),
    sig("an HFS+ file system", At(&[0x400]), b"H+"),
    sig("an HFS+ file system", At(&[0x400]), b"HX"),
    sig("an APFS container", At(&[0x20]), b"NXSB"),
    sig("BitLocker", At(&[3]), b"-FVE-FS-"),
    sig("an NTFS file system", At(&[3]), b"NTFS    "),
    sig("an exFAT file system", At(&[3]), b"EXFAT   "),
    sig("a ReFS file system", At(&[3]), b"ReFS\0"),
    sig("a FAT file system", At(&[0x36]), b"FAT12   "),
    sig("a FAT file system", At(&[0x36]), b"FAT16   "),
    sig("a FAT file system", At(&[0x52]), b"FAT32   "),
    sig("an ISO 9660 image", VOLUME, b"CD001"),
    sig("a UDF file system", VOLUME, b"NSR0"),
    sig("a GPT partition table", At(&[0x200, 0x1000]), b"EFI PART"),
    sig("a GPT partition table (the copy at the end)", FromEnd { align: 0x200, back: 0x200 }, b"EFI PART"),
    sig("a GPT partition table (the copy at the end)", FromEnd { align: 0x1000, back: 0x1000 }, b"EFI PART"),
    sig("an MBR partition table or boot sector", At(&[0x1fe]), b"\x55\xaa"),
];

/// What a plan leaves at the beginning of a device that it wrote without a file system, and that is too large to be
/// made zero as a whole.
pub const SCRATCH: &str = "scratch data of plumb plan";
pub const SCRATCH_MAGIC: &[u8] = b"\0plumb plan's scratch device\n";

/// The formats whose magic numbers a device or image of `size` bytes has, each with the byte where it stands.
///
/// # Errors
/// When it cannot be read.
pub fn signatures(file: &File, size: u64) -> io::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for signature in SIGNATURES {
        if named.contains(&signature.name) {
            continue;
        }
        for offset in offsets(signature.place, size) {
            let mut bytes = [0; 32];
            let bytes = &mut bytes[..signature.magic.len()];
            if offset + bytes.len() as u64 > size {
                continue;
            }
            file.read_exact_at(bytes, offset)?;
            if bytes == signature.magic {
                named.push(signature.name);
                found.push(format!("{} (magic at byte {offset})", signature.name));
                break;
            }
        }
    }
    Ok(found)
}

fn offsets(place: Where, size: u64) -> Vec<u64> {
    match place {
        At(list) => list.to_vec(),
        Every { first, step, end } => (first..end).step_by(step as usize).collect(),
        FromEnd { align, back } => (size / align * align).checked_sub(back).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{recognise, UNKNOWN};
    use super::*;

    const SIZE: u64 = (8 << 20) + 0x2600;

    fn blank() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        file
    }

    #[test]
    fn every_signature_is_found_at_each_of_its_places() {
        for signature in SIGNATURES {
            for offset in
                offsets(signature.place, SIZE).into_iter().filter(|o| o + 32 < SIZE || o + 512 >= SIZE)
            {
                if offset + signature.magic.len() as u64 > SIZE {
                    continue;
                }
                let file = blank();
                file.write_all_at(signature.magic, offset).unwrap();
                let found = recognise(&file, SIZE).unwrap();
                let expected = format!("{} (magic at byte {offset})", signature.name);
                assert!(found.contains(&expected), "{expected}: {found:?}");
            }
        }
    }

    #[test]
    fn nothing_is_seen_in_zeros_or_erased_flash_and_something_in_noise() {
        assert!(recognise(&blank(), SIZE).unwrap().is_empty());
        let erased = tempfile::tempfile().unwrap();
        erased.write_all_at(&vec![0xff; 1 << 20], 0).unwrap();
        assert!(recognise(&erased, 1 << 20).unwrap().is_empty());
        for offset in [70_000, SIZE - 5] {
            let noise = blank();
            noise.write_all_at(b"x", offset).unwrap();
            let found = recognise(&noise, SIZE).unwrap();
            assert!(found[0].starts_with(UNKNOWN), "{found:?}");
        }
    }

    #[test]
    fn a_device_too_small_for_any_format_is_read_without_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        assert!(recognise(&file, 100).unwrap().is_empty());
    }

    #[test]
    fn real_formats_are_recognised() {
        for (tool, args, word) in [
            ("mkfs.ext4", vec!["-q", "-F"], "ext4"),
            ("mkswap", vec!["-q"], "swap area"),
            ("mkfs.xfs", vec!["-q", "-f"], "XFS"),
        ] {
            let image = tempfile::NamedTempFile::new().unwrap();
            image.as_file().set_len(320 << 20).unwrap();
            let made = std::process::Command::new(tool).args(args).arg(image.path()).output();
            let Some(done) = made.ok().filter(|o| o.status.success()) else {
                println!("SKIP real_formats_are_recognised ({tool}): no such program here");
                continue;
            };
            drop(done);
            let found = recognise(image.as_file(), 320 << 20).unwrap();
            assert!(found.iter().any(|f| f.contains(word)), "{tool}: {found:?}");
        }
    }
}
