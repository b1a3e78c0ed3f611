// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data come back as they were written, and a power cut takes what was not flushed.

use super::registry::{able, bounded, device, DiskRegistry};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

#[repr(align(4096))]
struct Blocks([u8; 1 << 16]);

fn direct(device: &str) -> File {
    File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(device).expect("open")
}

#[test]
fn what_was_written_is_read() {
    if !able("what_was_written_is_read", &["fio", "blockdev"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let disk = disks.serve(&["instant", "--size", "64M", "--name", "data", "--no-calibrate"]);
    let device = device(&disk);
    let job = |more: &[&str]| {
        let fixed = [
            "--name=x",
            &format!("--filename={device}"),
            "--bs=512-128k",
            "--size=48M",
            "--ioengine=libaio",
            "--iodepth=16",
            "--rw=randwrite",
            "--verify=crc32c",
            "--randseed=7",
            "--direct=1",
            "--verify_state_save=0",
        ];
        bounded("fio", &[&fixed[..], more].concat());
    };
    // Written and looked at past the cache, then looked at once more through it.
    job(&["--do_verify=1", "--verify_fatal=1"]);
    bounded("blockdev", &["--flushbufs", &device]);
    job(&["--verify_only", "--direct=0", "--verify_fatal=1"]);
    disks.must(&["stop", "data"]);
    disks.empty(&["data"], std::time::Duration::from_secs(5));
}

#[test]
fn a_file_system_survives_and_a_file_keeps_it() {
    if !able("a_file_system_survives_and_a_file_keeps_it", &["mkfs.ext4", "fsck.ext4", "cmp"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let image = disks.path().join("image").display().to_string();
    let serve = ["instant", "--backing", &image, "--name", "kept", "--no-calibrate"];
    let disk = disks.serve(&[&serve[..], &["--size", "96M"]].concat());
    assert_eq!(disk["size"], "96M");
    let point = disks.ext4(&device(&disk));
    let data: Vec<u8> = (0..24_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(point.join("data"), &data).expect("write");
    // In use: refused, with where.
    disks.refused(&["stop", "kept"], &["mounted on", &point.display().to_string(), "--force"]);
    disks.umount();
    bounded("fsck.ext4", &["-fn", &device(&disk)]);
    disks.must(&["stop", "kept"]);

    // The file is as long as it is; another length is refused.
    disks.refused(&[&["serve"][..], &serve, &["--size", "64M"]].concat(), &["image"]);
    let disk = disks.serve(&serve);
    assert_eq!(disk["size"], "96M");
    disks.refused(
        &["serve", "instant", "--backing", &image, "--name", "second"],
        &["image", "plumb disk stop kept"],
    );
    let point = disks.mount(&device(&disk));
    assert!(std::fs::read(point.join("data")).expect("read") == data, "the data are others");
    disks.umount();
    disks.must(&["stop", "kept"]);
    disks.empty(&["kept", "second"], std::time::Duration::from_secs(5));
}

#[test]
fn a_discard_reads_as_zeroes() {
    if !able("a_discard_reads_as_zeroes", &["blkdiscard"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let device = device(&disks.serve(&["instant", "--size", "64M", "--name", "holes", "--no-calibrate"]));
    let file = direct(&device);
    file.write_all_at(&Blocks([5; 1 << 16]).0, 0).expect("write");
    bounded("blkdiscard", &["--offset", "4096", "--length", "8192", &device]);
    let mut read = Box::new(Blocks([1; 1 << 16]));
    file.read_exact_at(&mut read.0, 0).expect("read");
    for (block, bytes) in read.0.chunks(4096).enumerate() {
        let expected = if block == 1 || block == 2 { 0 } else { 5 };
        assert!(bytes.iter().all(|&b| b == expected), "block {block}: {}", bytes[0]);
    }
}

#[test]
fn a_power_cut_takes_what_was_not_flushed() {
    if !able("a_power_cut_takes_what_was_not_flushed", &[]) {
        return;
    }
    let disks = DiskRegistry::new();
    // A disk with a volatile cache.
    let device = device(&disks.serve(&["hdp72503", "--size", "64M", "--name", "cut", "--no-calibrate"]));
    assert_eq!(super::registry::queue(&device, "write_cache"), "write back");
    let file = direct(&device);
    file.write_all_at(&Blocks([1; 1 << 16]).0, 0).expect("write");
    file.sync_all().expect("fsync");
    file.write_all_at(&Blocks([2; 1 << 16]).0, 0).expect("write");
    let toll: serde_json::Value =
        serde_json::from_str(&disks.must(&["cut", "cut", "--keep", "50", "--seed", "3", "--json"]))
            .expect("JSON");
    let (lost, kept) = (toll["lost"].as_u64().expect("lost"), toll["kept"].as_u64().expect("kept"));
    // 128 sectors of 512 bytes; half of them, give or take more than five standard deviations.
    assert!(lost + kept == 128 && (30..=98).contains(&kept), "{toll}");
    let mut read = Box::new(Blocks([0; 1 << 16]));
    assert!(file.read_exact_at(&mut read.0, 0).is_err(), "no power, no data");
    disks.refused(&["cut", "cut"], &["cut", "is without power already"]);
    assert_eq!(disks.list()[0]["state"], "without power");
    // This test has it open.
    disks.refused(&["power-on", "cut"], &["open in process", "page cache", "--force"]);
    disks.must(&["power-on", "cut", "--force"]);
    assert_eq!(disks.list()[0]["state"], "served");
    disks.refused(&["power-on", "cut"], &["has power already"]);
    file.read_exact_at(&mut read.0, 0).expect("read");
    let new = read.0.chunks(512).filter(|s| s.iter().all(|&b| b == 2)).count() as u64;
    let old = read.0.chunks(512).filter(|s| s.iter().all(|&b| b == 1)).count() as u64;
    assert_eq!((new, old), (kept, lost));
}
