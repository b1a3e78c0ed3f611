// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is not touched, and not begun.

use crate::common::scratch::{refuses, text, until, Scratch};
use crate::common::{can, must};
use crate::{alone, busy, code, nothing_left, plan, plan_run, read, start, Restore, TOOLS};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn two_plans_do_not_meet_on_one_device_or_in_one_directory() {
    if !can("two_plans_do_not_meet_on_one_device_or_in_one_directory", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("one");
    let _restore = Restore(&dir);
    let plan =
        plan(&scratch, "two", &busy(&device, "echo ran > {out}/ran; sleep 4", 1)).display().to_string();
    let first = start(&scratch, &["run", &plan, "-o", "one"]);
    until("the first one runs", || dir.join("cells/001-one/1/ran").exists());
    let who = format!("process {}", first.pid());
    refuses(&plan_run(&scratch, &["run", &plan, "-o", "two"]), &[&device, &who]);
    assert!(!scratch.path().join("two").exists(), "nothing was made");
    refuses(&plan_run(&scratch, &["run", &plan, "-o", "one"]), &["one", &who]);
    refuses(&plan_run(&scratch, &["restore", "one"]), &["one", &who]);
    first.signal(libc::SIGTERM);
    assert_eq!(code(&first.end()), 3);
    nothing_left(&scratch, &dir);
}

/// Devices that must not be touched, by whatever is on them; the same bytes stand there afterwards.
#[test]
fn precious_devices_are_not_touched() {
    if !can("precious_devices_are_not_touched", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let magic = |name: &str, at: u64, magic: &[u8]| {
        let image = scratch.image(name, 96);
        std::fs::File::options()
            .write(true)
            .open(&image)
            .expect("it")
            .write_all_at(magic, at)
            .expect("written");
        image
    };
    let made = |name: &str, tool: &str, options: &[&str]| {
        let image = scratch.image(name, 320);
        let done = Command::new(tool).args(options).arg(&image).output();
        done.is_ok_and(|o| o.status.success()).then_some(image)
    };
    let mut precious: Vec<(&str, PathBuf, &str)> = vec![
        ("LVM", magic("lvm", 512, b"LABELONE"), "LVM2"),
        ("btrfs", magic("btrfs", 0x1_0040, b"_BHRfS_M"), "btrfs"),
        ("LUKS", magic("luks", 0, b"LUKS\xba\xbe"), "LUKS"),
        ("partitions", magic("mbr", 510, b"\x55\xaa"), "partition table"),
        ("noise", magic("noise", 70_000, b"a letter to my grandchildren"), "no known format"),
    ];
    let tools: [(&str, &str, &[&str], &str); 4] = [
        ("swap", "mkswap", &["-q"], "swap"),
        ("ext4", "mkfs.ext4", &["-q", "-F"], "ext4"),
        ("labelled", "mkfs.ext4", &["-q", "-F", "-L", "plumb-plans"], "ext4"),
        ("xfs", "mkfs.xfs", &["-q", "-f"], "XFS"),
    ];
    for (name, tool, options, word) in tools {
        match made(name, tool, options) {
            Some(image) => precious.push((name, image, word)),
            None => println!("SKIP precious_devices_are_not_touched ({name}): no {tool} here"),
        }
    }
    let sum = |image: &Path| must(Command::new("sha256sum").arg(image));
    let cell = |fs: &str| format!("[cell]\ndevice = \"d\"\n{fs}\nload = {{ size = \"1M\" }}\n");
    let kinds = [cell("file-system = { kind = \"ext4\" }"), cell("")];
    let refused = |rest: &str, words: &[&str]| {
        let plan = plan(&scratch, "precious", rest).display().to_string();
        refuses(&plan_run(&scratch, &["run", &plan, "-o", "out"]), words);
        assert!(!scratch.path().join("out").exists(), "nothing was made");
    };
    for (name, image, word) in &precious {
        let before = sum(image);
        let device = scratch.attach(image, &[]);
        for kind in &kinds {
            refused(&format!("[device.d]\npath = \"{device}\"\n{kind}"), &[&device, word, "--destroy"]);
        }
        must(Command::new("losetup").args(["-d", &device]));
        until("it is detached", || !read("/proc/self/mountinfo").contains(&device));
        assert_eq!(sum(image), before, "{name}");
    }
    // Mounted, held open for writing, used twice: neither --destroy nor a plan's label helps.
    let image = made("ours", "mkfs.ext4", &["-q", "-F", "-L", "plumb-plan"]).expect("mkfs.ext4");
    let device = scratch.attach(&image, &[]);
    let rest = format!("[device.d]\npath = \"{device}\"\n{}", kinds[0]);
    let point = scratch.mount(&device, "mounted", &["-o", "ro,noload"]);
    let before = sum(&image);
    let plan_file = plan(&scratch, "precious", &rest).display().to_string();
    refused(&rest, &["is mounted at"]);
    refuses(&plan_run(&scratch, &["run", &plan_file, "-o", "out", "--destroy", &device]), &["is mounted at"]);
    must(Command::new("umount").arg(&point));
    let held = std::fs::File::options().write(true).open(&device).expect("open");
    refused(&rest, &["open for writing"]);
    drop(held);
    std::os::unix::fs::symlink(&device, scratch.path().join("link")).expect("a link");
    let twice = format!(
        "[device.d]\npath = \"{device}\"\n[device.e]\npath = \"{}\"\n{}",
        scratch.path().join("link").display(),
        kinds[0].replace("\"d\"", "[\"d\", \"e\"]")
    );
    refused(&twice, &["devices d and e are one device"]);
    assert_eq!(sum(&image), before);
    // What carries a plan's label alone is a plan's own.
    let plan_file = plan(&scratch, "precious", &rest).display().to_string();
    let out = plan_run(&scratch, &["run", &plan_file, "-o", "out"]);
    assert!([0, 3].contains(&code(&out)), "{}", text(&out.stderr));
    nothing_left(&scratch, &scratch.path().join("out"));
}
