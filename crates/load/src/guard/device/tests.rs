// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use plumb_machine::Fake;
use std::process::Command;

fn refused(fake: &Fake, node: &str) -> Found {
    let path = fake.path(node);
    let refusal = device(&path, std::slice::from_ref(&path), &fake.root()).expect_err(node);
    assert!(!refusal.found.yields_to_destroy(), "{refusal}");
    let said = refusal.to_string();
    assert!(said.contains(path.to_str().unwrap()) && said.contains(refusal.found.next_step()), "{said}");
    refusal.found
}

fn allowed(fake: &Fake, node: &str) -> DeviceClaim {
    device(&fake.path(node), &[], &fake.root()).unwrap_or_else(|r| panic!("{r}"))
}

#[test]
fn a_partition_that_is_mounted_protects_its_disk_and_not_its_neighbour() {
    let fake = Fake::new();
    fake.disk("sda", "8:0").partition("sda", "sda1", "8:1").partition("sda", "sda2", "8:2");
    fake.mount("self", "8:1", "/srv/my\\040data", "ext4", "/dev/root");
    for node in ["/dev/sda", "/dev/sda1"] {
        let found = refused(&fake, node);
        let Found::Mounted { device, point, .. } = &found else { panic!("{found:?}") };
        assert_eq!((device.as_str(), point.as_deref()), ("sda1", Some(Path::new("/srv/my data"))));
        assert!(found.to_string().contains("sda1 (8:1) is mounted at /srv/my data"), "{found}");
    }
    assert_eq!(allowed(&fake, "/dev/sda2").number.to_string(), "8:2");
}

#[test]
fn a_disk_that_is_mounted_whole_protects_its_partitions() {
    let fake = Fake::new();
    fake.disk("sda", "8:0").partition("sda", "sda1", "8:1").mount("1", "8:0", "/", "ext4", "/dev/root");
    assert!(matches!(refused(&fake, "/dev/sda1"), Found::Mounted { .. }));
}

#[test]
fn a_mount_in_a_containers_namespace_counts() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").mount("4711", "8:16", "/inside", "xfs", "/dev/sdb");
    assert!(matches!(refused(&fake, "/dev/sdb"), Found::Mounted { .. }));
}

#[test]
fn names_are_followed_to_the_number() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").mount("self", "8:16", "/data", "ext4", "/dev/whatever");
    fake.link("/dev/disk/by-id/ata-X", "../../sdb");
    fake.link("/dev/mapper/x", "../disk/by-id/ata-X");
    assert!(matches!(refused(&fake, "/dev/mapper/x"), Found::Mounted { .. }));
}

#[test]
fn lvm_on_md_on_partitions_protects_everything_below() {
    let fake = Fake::new();
    fake.disk("sda", "8:0")
        .partition("sda", "sda1", "8:1")
        .disk("sdb", "8:16")
        .partition("sdb", "sdb1", "8:17");
    fake.disk("md0", "9:0").stack("md0", "sda1").stack("md0", "sdb1");
    fake.disk("dm-0", "252:0").stack("dm-0", "md0").put("/sys/block/dm-0/dm/name", "vg-home\n");
    for node in ["/dev/sda", "/dev/sda1", "/dev/sdb1"] {
        let found = refused(&fake, node);
        assert!(matches!(&found, Found::Held { by, .. } if by == "md0"), "{node}: {found:?}");
    }
    assert!(matches!(refused(&fake, "/dev/md0"), Found::Held { by, .. } if by == "dm-0 (vg-home)"));
    allowed(&fake, "/dev/dm-0");
    fake.mount("self", "252:0", "/home", "ext4", "/dev/mapper/vg-home");
    for node in ["/dev/sda", "/dev/sdb1", "/dev/md0", "/dev/dm-0"] {
        let found = refused(&fake, node);
        assert!(found.to_string().contains("dm-0 (vg-home) (252:0) is mounted at /home"), "{node}: {found}");
    }
}

#[test]
fn swap_counts_by_number_also_through_dm() {
    let fake = Fake::new();
    fake.disk("sda", "8:0").partition("sda", "sda3", "8:3").disk("dm-1", "252:1").stack("dm-1", "sda3");
    fake.put("/proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1 partition 8 0 -2\n");
    for node in ["/dev/dm-1", "/dev/sda3", "/dev/sda"] {
        let found = refused(&fake, node);
        assert!(matches!(&found, Found::Swap { device, .. } if device == "dm-1"), "{node}: {found:?}");
    }
}

#[test]
fn btrfs_protects_all_its_devices() {
    let fake = Fake::new();
    for (name, number) in [("sdb", "8:16"), ("sdc", "8:32")] {
        fake.disk(name, number);
        fake.link(&format!("/sys/fs/btrfs/1234-uuid/devices/{name}"), &format!("../../../../block/{name}"));
    }
    let found = refused(&fake, "/dev/sdc");
    assert!(matches!(&found, Found::Mounted { point: None, .. }), "{found:?}");
    fake.mount("self", "0:44", "/pool", "btrfs", "/dev/sdb");
    let found = refused(&fake, "/dev/sdc");
    assert!(matches!(&found, Found::Mounted { point: Some(p), .. } if p == Path::new("/pool")), "{found:?}");
}

#[test]
fn bcachefs_names_its_devices_in_its_source() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").disk("sdc", "8:32");
    fake.mount("self", "0:45", "/b", "bcachefs", "/dev/sdb:/dev/sdc");
    assert!(matches!(refused(&fake, "/dev/sdc"), Found::Mounted { .. }));
}

#[test]
fn a_loop_device_protects_what_it_shows_and_is_told_by_what_is_below() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").partition("sdb", "sdb1", "8:17").disk("loop0", "7:0").disk("loop1", "7:1");
    fake.put("/sys/block/loop0/loop/backing_file", "/dev/sdb1\n");
    for node in ["/dev/sdb", "/dev/sdb1"] {
        assert!(matches!(refused(&fake, node), Found::Loop { by, .. } if by == "loop0"));
    }
    allowed(&fake, "/dev/loop0");
    fake.put("/sys/block/loop1/loop/backing_file", "/dev/sdb1\n");
    assert!(matches!(refused(&fake, "/dev/loop0"), Found::Loop { by, .. } if by == "loop1"));
    fake.mount("self", "8:17", "/d", "ext4", "/dev/sdb1");
    assert!(matches!(refused(&fake, "/dev/loop0"), Found::Mounted { device, .. } if device == "sdb1"));
}

#[test]
fn a_loop_device_over_a_swap_file_is_refused() {
    let fake = Fake::new();
    fake.disk("loop0", "7:0").put("/sys/block/loop0/loop/backing_file", "/swapfile\n");
    fake.put("/swapfile", "x");
    fake.put("/proc/swaps", "Filename Type Size Used Priority\n/swapfile file 8 0 -2\n");
    assert!(matches!(refused(&fake, "/dev/loop0"), Found::SwapFile(_)));
}

#[test]
fn a_disk_that_a_virtual_machine_writes_is_refused_and_a_reader_is_not_minded() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").partition("sdb", "sdb1", "8:17");
    fake.link("/proc/4711/fd/5", "../../../dev/sdb1");
    fake.put("/proc/4711/comm", "qemu\n");
    fake.put("/proc/4711/fdinfo/5", "pos:\t0\nflags:\t02100000\n");
    assert!(device(&fake.path("/dev/sdb1"), &[], &fake.root()).is_ok());
    fake.put("/proc/4711/fdinfo/5", "pos:\t0\nflags:\t02100002\n");
    for node in ["/dev/sdb", "/dev/sdb1"] {
        let found = refused(&fake, node);
        assert!(matches!(&found, Found::Opened { by, pid: 4711, .. } if by == "qemu"), "{found:?}");
    }
}

#[test]
fn content_yields_only_to_the_very_device_being_named() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").disk("sdc", "8:32");
    fake.link("/dev/disk/by-id/x", "../../sdb");
    let node = fake.path("/dev/sdb");
    std::os::unix::fs::FileExt::write_all_at(
        &OpenOptions::new().write(true).open(&node).unwrap(),
        b"XFSB",
        0,
    )
    .unwrap();
    for destroy in [vec![], vec![fake.path("/dev/sdc")], vec![fake.path("/dev/gone")]] {
        let refusal = device(&node, &destroy, &fake.root()).expect_err("holds XFS");
        assert!(refusal.found.yields_to_destroy());
        assert!(
            refusal.to_string().contains("XFS") && refusal.to_string().contains("--destroy"),
            "{refusal}"
        );
    }
    let claim = device(&node, &[fake.path("/dev/disk/by-id/x")], &fake.root()).unwrap();
    assert_eq!((claim.size, claim.content.len(), claim.node.as_path()), (1 << 20, 1, node.as_path()));
}

#[test]
fn data_in_the_middle_of_a_device_is_content() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16");
    let node = fake.path("/dev/sdb");
    let claim = device(&node, &[], &fake.root()).unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(
        claim.samples.as_ref().map(ToString::to_string).as_deref(),
        Some("no data in all of its 1.0 MiB")
    );
    let file = OpenOptions::new().write(true).open(&node).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"a letter", 600 << 10).unwrap();
    drop((claim, file));
    let refusal = device(&node, &[], &fake.root()).expect_err("holds a letter");
    assert!(refusal.to_string().contains("holds data of no known format"), "{refusal}");
    assert!(refusal.found.yields_to_destroy());
    device(&node, std::slice::from_ref(&node), &fake.root()).unwrap_or_else(|r| panic!("{r}"));
}

#[test]
fn a_node_that_is_replaced_after_it_was_checked_is_told() {
    let fake = Fake::new();
    fake.disk("sdb", "8:16").disk("sdc", "8:32");
    let node = fake.path("/dev/sdb");
    let claim = device(&node, &[], &fake.root()).unwrap_or_else(|r| panic!("{r}"));
    claim.still_there(&fake.root()).unwrap_or_else(|r| panic!("{r}"));
    std::fs::remove_file(&node).unwrap();
    fake.link("/dev/sdb", "sdc");
    assert_eq!(claim.still_there(&fake.root()).expect_err("a link").found, Found::Replaced);
}

#[test]
fn partitions_that_the_kernel_knows_are_content() {
    let fake = Fake::new();
    fake.disk("dasda", "94:0").partition("dasda", "dasda1", "94:1");
    let found = device(&fake.path("/dev/dasda"), &[], &fake.root()).expect_err("has a partition").found;
    assert_eq!(found, Found::Content(vec!["partitions (dasda1)".into()]));
}

#[test]
fn what_cannot_be_written_is_refused() {
    let fake = Fake::new();
    fake.disk("sr0", "11:0").put("/sys/block/sr0/ro", "1\n");
    assert_eq!(refused(&fake, "/dev/sr0"), Found::ReadOnly);
    assert_eq!(refused(&fake, "/dev/none"), Found::Missing);
    let null = device(Path::new("/dev/null"), &[], &Root::real()).expect_err("not a disk");
    assert_eq!(null.found, Found::NotBlockDevice("character device"));
}

/// A loop device over an image, detached when dropped; None where it cannot be had.
struct Loop {
    node: PathBuf,
    image: tempfile::NamedTempFile,
}

impl Loop {
    fn new(test: &str) -> Option<Loop> {
        // SAFETY: takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIP {test}: needs root");
            return None;
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(32 << 20).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(image.path()).output().ok();
        let Some(made) = made.filter(|o| o.status.success()) else {
            println!("SKIP {test}: losetup makes no loop device here");
            return None;
        };
        let node = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        Some(Loop { node, image })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

#[test]
fn a_real_loop_device_is_claimed_exclusively_and_its_content_seen() {
    let Some(disk) = Loop::new("a_real_loop_device_is_claimed_exclusively_and_its_content_seen") else {
        return;
    };
    let root = Root::real();
    let claim = device(&disk.node, &[], &root).unwrap_or_else(|r| panic!("{r}"));
    assert_eq!((claim.size, claim.content.is_empty()), (32 << 20, true));
    let second = device(&disk.node, &[], &root).expect_err("claimed already");
    assert_eq!(second.found, Found::Busy);
    assert_eq!(std::fs::metadata(claim.path()).unwrap().rdev(), claim.number.dev_t());
    // Workers open it again by that path, with flags of their own.
    let again = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(claim.path());
    assert_eq!(again.unwrap().metadata().unwrap().rdev(), claim.number.dev_t());
    drop(claim);
    let image = super::super::existing_file(disk.image.path(), &[disk.image.path().into()]);
    assert!(matches!(image.expect_err("shown by a loop device").found, Found::Loop { .. }));
    let made = Command::new("mkfs.ext4").arg("-q").arg(&disk.node).status();
    if !made.is_ok_and(|s| s.success()) {
        println!("SKIP the second half of a_real_loop_device: no mkfs.ext4");
        return;
    }
    let refusal = device(&disk.node, &[], &root).expect_err("holds ext4");
    assert!(refusal.to_string().contains("ext4"), "{refusal}");
    let dir = tempfile::TempDir::new().unwrap();
    let mount = |args: &[&std::ffi::OsStr]| {
        Command::new(args[0]).args(&args[1..]).status().is_ok_and(|s| s.success())
    };
    if !mount(&["mount".as_ref(), disk.node.as_ref(), dir.path().as_ref()]) {
        println!("SKIP the third part of a_real_loop_device: may not mount");
        return;
    }
    let refusal = device(&disk.node, std::slice::from_ref(&disk.node), &root);
    assert!(mount(&["umount".as_ref(), dir.path().as_ref()]));
    let refusal = refusal.expect_err("is mounted");
    assert!(matches!(&refusal.found, Found::Mounted { point: Some(p), .. } if p == dir.path()), "{refusal}");
    let claim = device(&disk.node, std::slice::from_ref(&disk.node), &root).unwrap();
    assert!(!claim.content.is_empty());
}

#[test]
fn the_disk_under_the_root_file_system_is_refused() {
    let root = Root::real();
    let Some(disk) = plumb_machine::devices_under(Path::new("/"), &root).pop() else {
        println!("SKIP the_disk_under_the_root_file_system_is_refused: / has no block device");
        return;
    };
    let node = PathBuf::from("/dev").join(&disk.name);
    if !node.exists() {
        println!("SKIP the_disk_under_the_root_file_system_is_refused: no node for {}", disk.name);
        return;
    }
    let refusal = device(&node, std::slice::from_ref(&node), &root).expect_err("carries /");
    assert!(matches!(refusal.found, Found::Mounted { .. }), "{refusal}");
}
