// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each lack once, on a machine whose files a test wrote.

use super::super::cells;
use super::*;
use crate::program::testing::TestProgram;
use plumb_machine::Root;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

struct Fake {
    dir: TempDir,
}

impl Fake {
    fn new() -> Fake {
        let fake = Fake { dir: tempfile::tempdir().expect("a directory") };
        for (path, text) in [
            ("proc/filesystems", "nodev\tproc\n\text4\n"),
            ("proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable: 1000000 kB\n"),
            ("proc/sys/kernel/osrelease", "6.0-test\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            (
                "lib/modules/6.0-test/modules.dep",
                "kernel/fs/xfs/xfs.ko.zst: kernel/lib/crc.ko\nkernel/block/bfq.ko:\n",
            ),
            ("lib/modules/6.0-test/modules.builtin", "kernel/fs/f2fs/f2fs.ko\n"),
            ("lib/modules/6.0-test/modules.alias", "alias fs-ext3 ext4\nalias kyber-iosched kyber_iosched\n"),
            ("dev/fuse", ""),
            ("dev/loop-control", ""),
            ("dev/sda", ""),
            ("dev/sda1", ""),
            ("sys/devices/sda/dev", "8:0\n"),
            ("sys/devices/sda/queue/scheduler", "[mq-deadline] none\n"),
            ("sys/devices/sda/queue/nr_requests", "64\n"),
            ("sys/devices/sda/sda1/dev", "8:1\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/devices/loop0/dev", "7:0\n"),
            ("sys/devices/loop0/queue/scheduler", "[none]\n"),
            ("home/x", ""),
        ] {
            fake.write(path, text);
        }
        for (link, to) in [
            ("sys/class/block/sda", "../../devices/sda"),
            ("sys/class/block/sda1", "../../devices/sda/sda1"),
            ("sys/block/sda", "../devices/sda"),
            ("sys/block/loop0", "../devices/loop0"),
            ("sys/dev/block/8:0", "../../devices/sda"),
            ("sys/dev/block/8:1", "../../devices/sda/sda1"),
        ] {
            let link = fake.dir.path().join(link);
            std::fs::create_dir_all(link.parent().expect("a parent")).expect("directory");
            std::os::unix::fs::symlink(to, link).expect("link");
        }
        for tool in ["mkfs.ext4", "mkfs.ext3", "fio"] {
            let path = fake.write(&format!("bin/{tool}"), "");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        }
        fake
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        std::fs::write(&path, text).expect("write");
        path
    }

    fn machine(&self, user: u32) -> Machine {
        Machine::at(Root::at(self.dir.path()), vec![self.dir.path().join("bin")], user)
    }

    /// What it lacks for the first cell of a plan.
    fn lacks(&self, device: &str, cell: &str) -> Option<String> {
        self.lacks_as(0, device, cell)
    }

    fn lacks_as(&self, user: u32, device: &str, cell: &str) -> Option<String> {
        let text = format!(
            "name = \"p\"\ntitle = \"t\"\npurpose = \"p\"\nhypothesis = \"h\"\ntakes = \"1s\"\n\
             [device.d]\n{device}\n[cell]\ndevice = \"d\"\n{cell}\n"
        );
        let plan = PlanFile::parse(&text).unwrap_or_else(|e| panic!("{e:#}: {text}"));
        let cells = cells::of(&plan, &TestProgram).unwrap_or_else(|e| panic!("{e:#}: {text}"));
        self.machine(user).lacks(&cells[0], &plan, &TestProgram)
    }
}

const MODEL: &str = "model = \"instant\"\nsize = \"64M\"";
const LOAD: &str = "load.what = \"write\"";

#[test]
fn what_is_there_is_not_lacking() {
    let fake = Fake::new();
    for (device, cell) in [
        (MODEL, "file-system.kind = \"ext4\""),
        (MODEL, "file-system.kind = \"ext3\""),
        (MODEL, "queue.scheduler = \"none\""),
        (MODEL, "queue.scheduler = \"bfq\""),
        (MODEL, "queue.scheduler = \"kyber\"\nqueue.\"iosched/read_lat_nsec\" = 1"),
        ("path = \"/dev/sda\"", "queue = { scheduler = \"mq-deadline\", nr_requests = 8 }"),
        ("path = \"/dev/sda1\"", "queue = { scheduler = \"mq-deadline\", nr_requests = 8 }"),
        ("directory = \"/home\"", "sysctl.\"vm.dirty_ratio\" = 1"),
        ("directory = \"/home\"", "write.\"/proc/sys/vm/dirty_ratio\" = 1"),
    ] {
        assert_eq!(fake.lacks(device, &format!("{LOAD}\n{cell}")), None, "{device}, {cell}");
    }
    let command = "command = [\"fio\", \"--directory={dir}\"]";
    assert_eq!(fake.lacks("directory = \"/home\"", command), None);
}

#[test]
fn every_lack_is_named() {
    let fake = Fake::new();
    for (device, cell, words) in [
        ("path = \"/dev/sdz\"", "", &["/dev/sdz", "does not exist", "--device d=PATH"][..]),
        ("path = \"/home/x\"", "", &["/home/x", "not a block device"]),
        ("directory = \"/away\"", "", &["no directory /away", "--device d=PATH"]),
        ("model = \"instant\"\nsize = \"8G\"", "", &["8.00 GiB", "976.6 MiB", "smaller"]),
        (MODEL, "file-system.kind = \"btrfs\"", &["no file system btrfs"]),
        (MODEL, "file-system.kind = \"xfs\"", &["mkfs.xfs is not installed", "apt install xfsprogs"]),
        (MODEL, "file-system.kind = \"f2fs\"", &["apt install f2fs-tools"]),
        (MODEL, "queue.scheduler = \"cfq\"", &["no I/O scheduler cfq", "none"]),
        (MODEL, "queue.nr_requests = 4", &["queue.nr_requests", "/sys/devices/loop0/queue/nr_requests"]),
        ("path = \"/dev/sda\"", "queue.wbt_lat_usec = 4", &["queue.wbt_lat_usec", "has no"]),
        ("path = \"/dev/sda\"", "queue.nr_request = 4", &["has no", "did you mean nr_requests?"]),
        (MODEL, "sysctl.\"vm.dirty_raito\" = 1", &["sysctl vm.dirty_raito", "did you mean dirty_ratio?"]),
        (MODEL, "sysctl.\"vm.none\" = 1", &["sysctl vm.none", "/proc/sys/vm/none"]),
        (MODEL, "write.\"/sys/kernel/none\" = 1", &["has no /sys/kernel/none"]),
        (MODEL, "write.\"/proc/sys/vm\" = 1", &["is a directory"]),
        ("directory = \"/home\"", "prepare = [\"no-such-tool\"]", &["no-such-tool is not installed"]),
    ] {
        let said =
            fake.lacks(device, &format!("{LOAD}\n{cell}")).unwrap_or_else(|| panic!("{device}, {cell}"));
        assert!(words.iter().all(|w| said.contains(w)), "{device}, {cell}: {said}");
    }
    let said = fake.lacks("directory = \"/home\"", "command = [\"/no/such/tool\"]").expect("a lack");
    assert!(said.contains("/no/such/tool does not exist"), "{said}");
}

#[test]
fn fuse_and_loop_are_needed_to_serve() {
    let fake = Fake::new();
    std::fs::remove_file(fake.dir.path().join("dev/fuse")).expect("gone");
    assert!(fake.lacks(MODEL, LOAD).is_some_and(|said| said.contains("/dev/fuse")));
    assert_eq!(fake.lacks("directory = \"/home\"", LOAD), None);
}

#[test]
fn what_can_only_be_read_is_not_set() {
    let fake = Fake::new();
    let path = fake.write("proc/sys/kernel/random/boot_id", "x\n");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444)).expect("mode");
    let said = fake.lacks(MODEL, &format!("{LOAD}\nsysctl.\"kernel.random.boot_id\" = 1")).expect("a lack");
    assert!(said.contains("can only be read"), "{said}");
}

#[test]
fn others_than_root_are_told_what_needs_it() {
    let fake = Fake::new();
    for (device, cell, what) in [
        (MODEL, "", "serve a device"),
        ("path = \"/dev/sda\"", "file-system.kind = \"ext4\"", "make and mount"),
        ("path = \"/dev/sda\"", "", "write to a device"),
        ("directory = \"/home\"", "sysctl.\"vm.dirty_ratio\" = 1", "settings of the kernel"),
        ("directory = \"/home\"", "record = []", "record events"),
    ] {
        let said = fake.lacks_as(1000, device, &format!("{LOAD}\n{cell}")).expect(what);
        assert!(said.contains("needs root") && said.contains(what), "{said}");
    }
    assert_eq!(fake.lacks_as(1000, "directory = \"/home\"", LOAD), None);
}

#[test]
fn room_is_asked_where_the_directory_will_be() {
    let plan = super::super::library::named("quick").expect("a plan").expect("quick");
    let cells = cells::of(&plan, &TestProgram).expect("cells");
    let dir = tempfile::tempdir().expect("a directory");
    room(&dir.path().join("not/yet"), &plan, &cells).expect("room for some results");
    let much = PlanFile { repeat: u32::MAX, ..plan };
    let said = room(dir.path(), &much, &cells).expect_err("too much").to_string();
    assert!(said.contains("-o") && said.contains("are free"), "{said}");
}
