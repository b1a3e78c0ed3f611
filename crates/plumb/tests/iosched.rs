// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb iosched` on machines that are made up, and what it says to who is not root on this one.

mod common;

use common::schema::is_valid;
use common::{can, output, plumb, stderr};
use plumb_govern::iosched::knobs::KNOBS;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const RULES: &str = "etc/udev/rules.d/60-plumb-iosched.rules";
const MODULES: &str = "etc/modules-load.d/plumb-iosched.conf";

/// A machine with sda, its partition sda1, sdb, and zram0, which has no queue of requests. Its kernel loads modules;
/// lp-deadline is not installed.
struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(TempDir::new().expect("a directory"));
        machine.device("sda", "8:0", "devices/sda");
        machine.device("sda1", "8:1", "devices/sda/sda1");
        machine.device("sdb", "8:16", "devices/sdb");
        machine.device("zram0", "251:0", "devices/zram0");
        machine.put("sys/devices/sda/sda1/partition", "1");
        for disk in ["sda", "sdb"] {
            machine.put(&format!("sys/devices/{disk}/queue/scheduler"), "none [mq-deadline]");
            machine.put(&format!("sys/devices/{disk}/mq/0/cpu_list"), "0");
        }
        machine.put("proc/sys/kernel/osrelease", "6.1.0-56-amd64");
        machine.put("proc/modules", "");
        machine
    }

    fn device(&self, name: &str, number: &str, at: &str) {
        self.put(&format!("sys/{at}/dev"), number);
        self.put(&format!("sys/{at}/size"), "1000");
        self.put(&format!("dev/{name}"), "");
        let mut links = vec![("sys/class/block", name, "../.."), ("sys/dev/block", number, "../..")];
        if !at.contains("sda1") {
            links.push(("sys/block", name, ".."));
        }
        for (dir, link, up) in links {
            let dir = self.0.path().join(dir);
            std::fs::create_dir_all(&dir).expect("made");
            symlink(format!("{up}/{at}"), dir.join(link)).expect("linked");
        }
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path().join(path)).expect(path)
    }

    fn has(&self, path: &str) -> bool {
        self.0.path().join(path).exists()
    }

    /// As if the module were installed for the running kernel.
    fn with_module(self) -> Machine {
        self.put("lib/modules/6.1.0-56-amd64/modules.dep", "updates/dkms/lp-deadline.ko.xz:\n");
        self
    }

    fn run(&self, words: &str) -> Output {
        let root: &Path = self.0.path();
        output(plumb().arg("iosched").args(words.split_whitespace()).arg("--root").arg(root))
    }

    /// Standard output and error of what must succeed.
    fn did(&self, words: &str) -> (String, String) {
        let out = self.run(words);
        assert!(out.status.success(), "{words}: {}", stderr(&out));
        (String::from_utf8_lossy(&out.stdout).into_owned(), stderr(&out))
    }

    fn refused(&self, words: &str) -> String {
        let out = self.run(words);
        assert_eq!(out.status.code(), Some(2), "{words}: {}", stderr(&out));
        stderr(&out)
    }
}

#[test]
fn a_rule_that_is_replaced_is_told() {
    let machine = Machine::new().with_module();
    machine.put("run/udev/data/b8:16", "E:ID_SERIAL=ACME_9\n");
    let (said, _) = machine.did("install --persistent sda sdb low_depth=1 --load-early");
    assert!(said.contains("sda, sdb get lp-deadline") && !said.contains("any more"), "{said}");
    let (said, _) = machine.did("install --persistent sda low_depth=2");
    assert!(said.contains("sda gets lp-deadline"), "{said}");
    assert!(said.contains("no rule for ENV{ID_SERIAL}==\"ACME_9\" any more; name every disk"), "{said}");
    let text = machine.text(RULES);
    assert!(text.contains("low_depth}=\"2\"") && !text.contains("ACME_9"), "{text}");
    assert!(machine.has(MODULES));
    let (said, _) = machine.did("install --persistent sda low_depth=3 --json");
    is_valid("iosched install", &said);
}

#[test]
fn a_rule_without_a_module_warns_and_with_one_does_not() {
    let machine = Machine::new();
    let (said, _) = machine.did("install --persistent sda");
    assert!(said.contains("module lp-deadline is not installed for this kernel"), "{said}");
    assert!(said.contains("docs/iosched.md: Install"), "{said}");
    let (said, _) = Machine::new().with_module().did("install --persistent sda");
    assert!(!said.contains("not installed"), "{said}");
}

#[test]
fn a_file_that_was_changed_by_hand_keeps_all_that_install_wrote() {
    for changed in [RULES, MODULES] {
        let machine = Machine::new().with_module();
        machine.did("install --persistent sda --load-early");
        machine.put(changed, &(machine.text(changed) + "# mine\n"));
        let both = [machine.text(RULES), machine.text(MODULES)];
        let said = machine.refused("remove --persistent");
        assert!(said.contains(changed) && said.contains("nothing is deleted"), "{said}");
        assert!(machine.has(RULES) && machine.has(MODULES), "{changed}");
        machine.refused("install --persistent sdb --load-early");
        assert_eq!([machine.text(RULES), machine.text(MODULES)], both, "{changed}");
    }
}

#[test]
fn a_partition_is_said_to_be_one() {
    let machine = Machine::new().with_module();
    machine.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
    for words in ["status sda1", "set sda1", "install --persistent sda1", "remove sda1"] {
        let (_, said) = machine.did(words);
        assert!(said.contains("sda1 is a partition of sda, whose queue it is"), "{words}: {said}");
        if words != "remove sda1" {
            let (_, said) = machine.did(&words.replace("sda1", "sda"));
            assert_eq!(said, "", "{words}");
        }
    }
}

#[test]
fn who_is_not_root_is_told_that_first() {
    if !can("who_is_not_root_is_told_that_first", &[]) {
        return;
    }
    let is_node = |name: &String| Path::new("/dev").join(name).exists();
    let disks = std::fs::read_dir("/sys/block").expect("sysfs").flatten();
    let Some(disk) = disks.map(|d| d.file_name().to_string_lossy().into_owned()).find(is_node) else {
        println!("SKIP who_is_not_root_is_told_that_first: no disk here");
        return;
    };
    // The checkout may lie where only root can go.
    let dir = TempDir::new_in("/tmp").expect("a directory");
    let program = dir.path().join("plumb");
    std::fs::copy(env!("CARGO_BIN_EXE_plumb"), &program).expect("copied");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), all).expect("readable");
    for words in [["iosched", "set"], ["iosched", "remove"]] {
        let out = output(std::process::Command::new(&program).args(words).arg(&disk).uid(65534).gid(65534));
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("needs root"), "{words:?}: {said}");
        assert!(!said.contains("modprobe") && !said.contains("install"), "{words:?}: {said}");
    }
}

#[test]
fn low_cgroups_is_no_knob_but_how_it_is_written_is_said() {
    let machine = Machine::new().with_module();
    for words in ["set sda low_cgroups=/x", "install --persistent sda low_cgroups=/x"] {
        let said = machine.refused(words);
        assert!(said.contains("echo PATHS > /sys/block/DISK/queue/iosched/low_cgroups"), "{words}: {said}");
        assert!(!machine.has(RULES), "{words}");
    }
}

#[test]
fn a_device_without_a_queue_is_told_where_to_look() {
    let said = Machine::new().with_module().refused("set zram0");
    assert!(
        said.contains("zram0: has no queue of requests") && said.contains("lsblk -s /dev/zram0"),
        "{said}"
    );
}

#[test]
fn status_shows_two_knobs_and_the_others_under_advanced() {
    let machine = Machine::new().with_module();
    machine.put("sys/devices/sda/queue/scheduler", "none mq-deadline [lp-deadline]");
    for knob in KNOBS {
        machine
            .put(&format!("sys/devices/sda/queue/iosched/{}", knob.name), &knob.default(false).to_string());
    }
    let named =
        |said: &str| KNOBS.iter().filter(|k| said.contains(k.name)).map(|k| k.name).collect::<Vec<_>>();
    let (said, _) = machine.did("status sda");
    assert_eq!(named(&said), ["idle_dispatch_interval", "batch_mode_delay"], "{said}");
    assert!(said.contains("advanced: 13 knobs, all at their defaults"), "{said}");
    machine.put("sys/devices/sda/queue/iosched/low_slots", "60");
    let (said, _) = machine.did("status sda");
    assert_eq!(named(&said), ["idle_dispatch_interval", "batch_mode_delay", "low_slots"], "{said}");
    let (said, _) = machine.did("status sda --advanced");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(KNOBS[2..].iter().all(|k| said.contains(&format!("{}: {}", k.name, k.when))), "{said}");
    let (said, _) = machine.did("status sda --json");
    assert_eq!(named(&said).len(), KNOBS.len(), "{said}");
    is_valid("iosched status", &said);
    for (help, all) in [("-h", false), ("--help", true)] {
        let out = output(plumb().args(["iosched", "set", help]));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(KNOBS[0].about) && said.contains(KNOBS[2].when) == all, "{said}");
    }
}
