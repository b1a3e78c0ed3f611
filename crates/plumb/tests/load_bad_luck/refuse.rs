// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused, by name, before anything is made or written.

use crate::common::scratch::{job, kind, make_ext4, number, refuses, text, Running, Scratch};
use crate::common::{can, must};
use std::fs::OpenOptions;
use std::os::unix::fs::{symlink, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: &[&str] = &["--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn more_than_there_is_room_for() {
    if !can("more_than_there_is_room_for", &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4(&scratch.disk("image", 32), "mount", &[]);
    scratch.refused(&["--size", "40M", "mount"], &["mount", "40.0 MiB are needed", "free", "smaller"]);
    scratch.refused(
        &["--size", "12M", "--threads", "2", "--what", "copy", "--through", "sendfile", "mount"],
        &["48.0 MiB"],
    );
    scratch.refused(&["--layout", "sparse", "--size", "1G", "mount/new"], &["mount/new", "needed"]);
    scratch.refused(
        &["--what", "create", "--files", "100000", "--block", "1", "mount"],
        &["files are needed", "inodes"],
    );
    let made = scratch.json(&["--size", "12M", "--block", "64K", "mount"]);
    assert_eq!(number(kind(job(&made), "write"), "count"), 192, "what has room is done");
}

/// Every sector's own contents, so that nothing that is written goes unseen.
fn contents(device: &str) -> Vec<u8> {
    std::fs::read(device).expect("the device")
}

#[test]
fn a_mounted_disk_by_whatever_name() {
    if !can("a_mounted_disk_by_whatever_name", &["losetup", "mkfs.ext4", "mknod"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    let point = scratch.ext4(&device, "mount", &[]);
    std::fs::write(point.join("precious"), "x").expect("a file");
    symlink(&device, scratch.path().join("link")).expect("a link");
    let number = std::fs::metadata(&device).expect("a device").rdev();
    let (major, minor) = (libc::major(number).to_string(), libc::minor(number).to_string());
    must(Command::new("mknod").arg(scratch.path().join("node")).args(["b", &major, &minor]));
    for name in [device.as_str(), "link", "node"] {
        for destroy in [&[][..], &["--destroy", name], &["--destroy", &device]] {
            let args = [destroy, &["--size", "1M", name]].concat();
            scratch.refused(&args, &[name, &format!("{major}:{minor}"), "is mounted at", "unmount it first"]);
        }
    }
    // The file that the disk lies in is the disk, too; so is another disk of the same file.
    let why = ["shows", "image", "losetup -d"];
    scratch.refused(&["--destroy", "image", "--size", "1M", "image"], &why);
    let again = scratch.attach(&scratch.path().join("image"), &[]);
    scratch.refused(&["--destroy", &again, "--size", "1M", &again], &why);
    assert_eq!(std::fs::read(point.join("precious")).expect("the file"), b"x");
}

/// An MBR with two Linux partitions of 8 MiB behind the first one.
fn partitioned(image: &Path) {
    let mut table = [0u8; 512];
    for (i, first) in [(0usize, 2048u32), (1, 2048 + 16384)] {
        let entry = &mut table[0x1be + 16 * i..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&16384u32.to_le_bytes());
    }
    table[0x1fe..].copy_from_slice(&[0x55, 0xaa]);
    OpenOptions::new().write(true).open(image).expect("the image").write_all_at(&table, 0).expect("a table");
}

#[test]
fn a_disk_whose_partition_is_mounted() {
    let test = "a_disk_whose_partition_is_mounted";
    if !can(test, &["losetup", "mkfs.ext4"]) {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.image("image", 24);
    partitioned(&image);
    let disk = scratch.attach(&image, &["--partscan"]);
    let parts: Vec<String> = (1..=2).map(|n| format!("{disk}p{n}")).collect();
    if !parts.iter().all(|p| Path::new(p).exists()) {
        println!("SKIP {test}: the kernel makes no nodes of a loop device's partitions here");
        return;
    }
    // Nothing is mounted yet: it is the table that stands against it.
    scratch.refused(&["--size", "1M", &disk], &["an MBR partition table", "partitions (", "--destroy"]);
    let point = scratch.ext4(&parts[0], "mount", &[]);
    std::fs::write(point.join("precious"), "x").expect("a file");
    let (name, whole) = (parts[0].trim_start_matches("/dev/"), ["--destroy", &disk, "--size", "1M", &disk]);
    scratch.refused(&whole, &[&disk, name, "is mounted at"]);
    scratch.refused(&["--destroy", &parts[0], "--size", "1M", &parts[0]], &["is mounted at"]);
    // Its neighbour is nobody's.
    let before = contents(&parts[0]);
    let written = scratch.json(&["--block", "64K", &parts[1]]);
    assert_eq!(number(kind(job(&written), "write"), "count"), 128, "all 8 MiB of the second one");
    assert!(contents(&parts[0]) == before, "the first one was touched");
}

#[test]
fn swap_of_both_kinds() {
    let test = "swap_of_both_kinds";
    if !can(test, &["losetup", "mkfs.ext4", "mkswap", "swapon", "swapoff"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 2);
    must(Command::new("mkswap").arg(&device));
    scratch.refused(&["--size", "1M", &device], &[&device, "a swap area", "--destroy"]);
    let point = scratch.ext4(&scratch.disk("other", 16), "mount", &[]);
    let file = point.join("swapfile");
    std::fs::write(&file, vec![0; 1 << 20]).expect("a file");
    must(Command::new("chmod").arg("600").arg(&file));
    must(Command::new("mkswap").arg(&file));
    // With the least priority, so that the machine does not take it while it can.
    for what in [Path::new(&device), &file] {
        let out = Command::new("swapon").args(["-p", "0"]).arg(what).output().expect("swapon");
        if !out.status.success() {
            println!("SKIP {test}: {}", String::from_utf8_lossy(&out.stderr));
            return;
        }
    }
    scratch
        .refused(&["--destroy", &device, "--size", "1M", &device], &["is active swap", "swapoff it first"]);
    let name = "mount/swapfile";
    scratch
        .refused(&["--destroy", name, "--size", "1M", name], &["is an active swap file", "swapoff it first"]);
}

#[test]
fn data_anywhere_in_a_device_and_what_was_read_of_an_empty_one() {
    if !can("data_anywhere_in_a_device_and_what_was_read_of_an_empty_one", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let node = || OpenOptions::new().write(true).open(&device).expect("the device");
    for at in [300_000, 1 << 20, 32 << 20, (64 << 20) - 70_000] {
        node().write_all_at(b"a letter", at).expect("written");
        scratch.refused(&["--size", "1M", &device], &[&device, "data of no known format", "--destroy"]);
        node().write_all_at(&[0; 8], at).expect("written");
    }
    let out = scratch.load(&["--size", "1M", &device]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("no data in all of its 64.0 MiB"), "{said}");
}

#[test]
fn a_file_that_others_use() {
    if !can("a_file_that_others_use", &[]) {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("disk.img");
    std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
    let args = ["--destroy", "disk.img", "--size", "1M", "disk.img"];
    let serve = || {
        let mut command = crate::common::plumb();
        command.args(["disk", "serve", "instant", "--size", "1M", "--no-device", "--nbd"]);
        command.arg(scratch.path().join("nbd")).arg("--backing").arg(&path);
        text(&command.output().expect("plumb").stderr)
    };
    let writer = OpenOptions::new().append(true).open(&path).expect("the file");
    scratch.refused(&args, &["disk.img", "is open for writing in", "does not overrule"]);
    assert!(serve().contains("is open for writing in"));
    drop(writer);
    let reader = OpenOptions::new().read(true).open(&path).expect("the file");
    // SAFETY: an open descriptor.
    assert_eq!(unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&reader), libc::LOCK_SH) }, 0);
    scratch.refused(&args, &["disk.img", "is locked by", "does not overrule"]);
    assert!(serve().contains("is locked by"));
    assert!(std::fs::read(&path).expect("the file").iter().all(|b| *b == 7), "nothing was written");
    drop(reader);
    scratch.json(&args);
}

#[test]
fn what_others_have_open() {
    if !can("what_others_have_open", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 4);
    let args = ["--destroy", &device, "--size", "1M", &device];
    let open = |write: bool, flags: i32| {
        OpenOptions::new().read(true).write(write).custom_flags(flags).open(&device).expect("the device")
    };
    let exclusive = open(false, libc::O_EXCL);
    scratch.refused(&args, &[&device, "in use", "fuser", "does not overrule"]);
    drop(exclusive);
    let writer = open(true, 0);
    scratch.refused(
        &args,
        &["is open for writing in", &format!("process {}", std::process::id()), "end that process"],
    );
    drop(writer);
    let _reader = open(false, 0);
    assert_eq!(number(kind(job(&scratch.json(&args)), "write"), "count"), 256, "who only reads does no harm");
}

/// Puts something onto a device.
type Maker<'a> = &'a dyn Fn(&str);

#[test]
fn a_device_with_contents_unless_it_is_named() {
    if !can("a_device_with_contents_unless_it_is_named", &["losetup", "mkfs.ext4", "mkswap"]) {
        return;
    }
    let scratch = Scratch::new();
    let other = scratch.disk("other", 1);
    let make: [(&str, Maker); 3] = [
        ("an ext2, ext3 or ext4 file system", &make_ext4),
        ("a swap area", &|device| {
            must(Command::new("mkswap").arg(device));
        }),
        // The label of a physical volume in its second sector: its id, that sector, a sum, where it
        // goes on, its type (LVM2, lib/label/label.h).
        ("an LVM2 physical volume", &|device| {
            let file = OpenOptions::new().write(true).open(device).expect("the device");
            file.write_all_at(b"LABELONE\x01\0\0\0\0\0\0\0\x6f\x4a\xd3\x13\x20\0\0\0LVM2 001", 512)
                .expect("a label");
        }),
    ];
    for (number_, (holds, make)) in make.into_iter().enumerate() {
        let device = scratch.disk(&format!("image{number_}"), 8);
        let link = format!("link{number_}");
        symlink(&device, scratch.path().join(&link)).expect("a link");
        make(&device);
        let before = contents(&device);
        let refused = [&device, holds, "magic at byte", "--destroy"];
        scratch.refused(&["--size", "1M", &device], &refused);
        scratch.refused(&["--size", "1M", &link], &[&refused[1..], &[&link]].concat());
        scratch.refused(&["--destroy", &other, "--size", "1M", &device], &refused);
        scratch.refused(&["--size", "1M", "--sync", "fsync", "--what", "fsync-only", &device], &refused);
        assert!(contents(&device) == before, "{holds}: was touched");
        let read = scratch.json(&["--what", "read", "--block", "64K", &device]);
        assert_eq!(number(kind(job(&read), "read"), "count"), 128, "reading needs no leave");
        assert!(contents(&device) == before, "{holds}: was touched by reading");
        // By whatever name: it is the device that is given up.
        let written = scratch.json(&["--destroy", &link, "--block", "64K", &device]);
        assert_eq!(number(kind(job(&written), "write"), "bytes"), 8 << 20);
        let after = contents(&device);
        let same = before.chunks(4096).zip(after.chunks(4096)).filter(|(a, b)| a == b).count();
        assert_eq!(same, 0, "{holds}: blocks that are as they were");
    }
}

#[test]
fn what_can_only_be_read() {
    if !can("what_can_only_be_read", &["losetup", "mkfs.ext4", "setpriv"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    let point = scratch.ext4(&device, "mount", &[]);
    std::fs::write(point.join("file"), vec![7; 1 << 16]).expect("a file");
    must(Command::new("mount").args(["-o", "remount,ro"]).arg(&point));
    scratch.refused(&["--size", "1M", "mount"], &["mount", "can only be read", "name a place"]);
    scratch.refused(&["--size", "1M", "mount/new"], &["mount/new", "can only be read"]);
    scratch.refused(
        &["--destroy", "mount/file", "--size", "1M", "mount/file"],
        &["mount/file", "can only be read"],
    );
    let read = scratch.json(&["--what", "read", "mount/file"]);
    assert_eq!(number(kind(job(&read), "read"), "count"), 16);

    let fixed = scratch.attach(&scratch.image("fixed", 4), &["--read-only"]);
    scratch.refused(&["--destroy", &fixed, "--size", "1M", &fixed], &[&fixed, "can only be read"]);
    let read = scratch.json(&["--what", "read", "--size", "1M", &fixed]);
    assert_eq!(number(kind(job(&read), "read"), "count"), 256);

    // To somebody who is not root, in a place that he can reach.
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("plumb");
    std::fs::copy(env!("CARGO_BIN_EXE_plumb"), &copy).expect("a copy");
    std::fs::write(dir.path().join("file"), "x").expect("a file");
    must(Command::new("chmod").args(["-R", "a+rX,go-w"]).arg(dir.path()));
    let his = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(&copy).arg("load").args(args).current_dir(dir.path());
        Running::of(command).end()
    };
    refuses(&his(&["--size", "1M"]), &["may not be written", "Permission denied", "another place"]);
    refuses(&his(&["--size", "1M", "--destroy", "file", "file"]), &["file", "may not be written"]);
    refuses(&his(&["--size", "1M", "--destroy", &device, &device]), &[&device]);
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 2, "nothing was made");
}

#[test]
fn what_is_no_place_for_a_load() {
    let scratch = Scratch::new();
    let fifo = scratch.path().join("fifo");
    let name = std::ffi::CString::new(fifo.to_str().expect("a name")).expect("no zero");
    // SAFETY: name ends with a zero and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(std::fs::metadata(&fifo).expect("a fifo").file_type().is_fifo());
    symlink("nowhere", scratch.path().join("dangling")).expect("a link");
    scratch.refused(&["--size", "1M", "fifo"], &["fifo"]);
    scratch.refused(&["--what", "read", "fifo"], &["fifo"]);
    scratch.refused(&["--size", "1M", "/dev/null"], &["/dev/null"]);
    scratch.refused(&["--size", "1M", "dangling"], &["dangling", "does not exist"]);
    scratch.refused(&["--size", "1M", "no/directory/here"], &["no/directory", "is not a directory"]);
}

#[test]
fn a_job_that_nobody_can_read() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &[u8]| -> PathBuf {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    for (name, text, words) in [
        ("key.toml", "size = \"64K\"\n[[step]]\nname = \"a\"\nblokc = \"8K\"\n", &["blokc"][..]),
        ("value.toml", "what = \"wirte\"\n", &["wirte"]),
        ("type.toml", "threads = \"many\"\n", &["threads"]),
        ("size.toml", "block = \"8X\"\n", &["8X"]),
        ("twice.toml", "block = \"8K\"\nblock = \"4K\"\n", &["block"]),
        ("torn.toml", "[[step]\n", &["step"]),
    ] {
        write(name, text.as_bytes());
        scratch.refused(&["--job", name], &[&[name], words].concat());
    }
    // What is wrong with the job itself is told in the options' words: they may have gone over the file's.
    for (text, words) in [
        ("threads = 0\n", &["'--threads", "1..=10000"][..]),
        ("mix = 101\n", &["'--mix", "101"]),
        ("size = \"64K\"\nevery = 0\nsync = \"fsync\"\n", &["'--every"]),
        ("depth = 4\n", &["--depth 4", "io-uring"]),
    ] {
        write("wrong.toml", text.as_bytes());
        scratch.refused(&["--job", "wrong.toml"], words);
    }
    write("binary", &[0xff, 0, 0x80, 7]);
    scratch.refused(&["--job", "binary"], &["binary"]);
    scratch.refused(&["--job", "nowhere.toml"], &["nowhere.toml"]);
    scratch.refused(&["--job", "."], &["."]);
    // Of other tools' files what cannot be translated is named; the rest is run.
    write("alien.fio", b"[global]\nioengine=teleport\nsize=64k\n[job]\nrw=read\n");
    let said = text(&scratch.load(&["--fio", "alien.fio"]).stderr);
    assert!(said.contains("alien.fio") && said.contains("line 2: ioengine=teleport"), "{said}");
    // A log that cannot be is known before the load runs.
    scratch.refused(&["--size", "64K", "--log", "no/such/log"], &["no/such/log"]);
    scratch.refused(&["--size", "64K", "--log", "binary"], &["binary", "already"]);
}
