// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::Fake;

fn machine() -> Fake {
    let fake = Fake::new();
    fake.put("/proc/sys/kernel/osrelease", "6.1.0\n");
    fake.put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor\n");
    fake.put("/sys/devices/system/cpu/online", "0-1\n");
    fake.put("/proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\nSwapTotal: 0 kB\n");
    fake.put("/proc/loadavg", "1.50 0.20 0.05 3/100 4711\n");
    fake.put("/proc/pressure/io", "some avg10=12.50 avg60=0.00 avg300=0.00 total=5\n");
    fake.put("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n");
    fake.put("/sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n");
    fake.put("/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action", "pageout\n");
    fake.disk("sda", "8:0").partition("sda", "sda1", "8:1").disk("dm-0", "252:0").stack("dm-0", "sda1");
    fake.put("/sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n");
    fake.put("/sys/block/sda/queue/write_cache", "write back\n");
    fake.put("/sys/block/sda/queue/nr_requests", "256\n");
    fake.put("/sys/block/sda/device/model", "A DISK        \n");
    fake.put("/sys/block/sda/device/serial", "SECRET-SERIAL\n");
    fake.put("/proc/sys/kernel/hostname", "secret-host\n");
    fake.put("/proc/cmdline", "secret=argument\n");
    fake.put("/sys/block/sda/sda1/size", "2048\n");
    fake
}

fn capture(fake: &Fake) -> Environment {
    let target = fake.path("/target");
    std::fs::create_dir_all(&target).unwrap();
    fake.put("/proc/self/mountinfo", "");
    fake.mount("self", "252:0", target.to_str().unwrap(), "ext4", "/dev/mapper/vg-data");
    Environment::capture_in(&target.join("file to be made"), &fake.root())
}

#[test]
fn a_written_machine_is_read_from_the_file_system_to_the_disk() {
    let e = capture(&machine());
    assert_eq!(e.kernel.release.as_deref(), Some("6.1.0"));
    assert_eq!(
        (e.cpu.model.as_deref(), e.cpu.count, e.virtual_machine),
        (Some("Some CPU"), Some(2), Some(true))
    );
    assert_eq!((e.memory.total, e.memory.swap_total, e.memory.swap_free), (Some(1 << 30), Some(0), None));
    assert_eq!(e.memory.damon_pageout, Some(vec!["kdamond 0".to_string()]));
    assert_eq!((e.pressure.io, e.pressure.cpu, e.load), (Some(12.5), None, Some([1.5, 0.2, 0.05])));
    assert_eq!(e.file_system.as_ref().unwrap().kind, "ext4");
    let names: Vec<_> = e.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["dm-0", "sda1", "sda"]);
    assert_eq!(e.devices[0].scheduler, None);
    let (part, disk) = (&e.devices[1], &e.devices[2]);
    assert_eq!(
        (part.partition, part.size, part.scheduler.as_deref()),
        (true, Some(1 << 20), Some("mq-deadline"))
    );
    assert_eq!((disk.model.as_deref(), disk.write_cache.as_deref()), (Some("A DISK"), Some("write back")));
    assert_eq!((disk.size, disk.fua), (None, None));
}

#[test]
fn nothing_that_names_the_machine_is_kept() {
    let fake = machine();
    // As Debian's installer names a volume group.
    fake.put("/sys/block/dm-0/dm/name", "secret--host--vg-root\n");
    let target = fake.path("/target");
    std::fs::create_dir_all(&target).unwrap();
    let source = "/dev/mapper/secret--host--vg-root";
    fake.mount("self", "252:0", target.to_str().unwrap(), "ext4", source);
    let e = Environment::capture_in(&target, &fake.root());
    assert_eq!(e.devices[0].name, "dm-0 (HOST--vg-root)");
    let kept = serde_json::to_string(&e).unwrap() + &format!("{:?}", e.lines());
    assert!(!kept.to_lowercase().contains("secret"), "{kept}");
}

#[test]
fn it_survives_json_and_differs_only_where_something_was_changed() {
    let fake = machine();
    let a = capture(&fake);
    let again: Environment = serde_json::from_str(&serde_json::to_string(&a).unwrap()).unwrap();
    assert_eq!(a, again);
    fake.put("/sys/block/sda/queue/scheduler", "[none] mq-deadline bfq\n");
    fake.put("/proc/loadavg", "9.00 9.00 9.00 3/100 4711\n");
    fake.put("/sys/devices/system/cpu/smt/control", "on\n");
    let b = capture(&fake);
    let found = Environment::differences(&a, &b);
    let found: Vec<_> = found.iter().map(|d| (d.what.as_str(), d.a.as_str(), d.b.as_str())).collect();
    assert_eq!(
        found,
        [
            ("cpu.smt", "not known", "on"),
            ("devices.1.scheduler", "mq-deadline", "none"),
            ("devices.2.scheduler", "mq-deadline", "none"),
        ]
    );
}

#[test]
fn another_kernel_or_much_less_memory_is_another_machine_and_another_scheduler_is_not() {
    let fake = machine();
    let a = capture(&fake);
    fake.put("/sys/block/sda/queue/scheduler", "[none] mq-deadline bfq\n");
    assert_eq!(Environment::other_machine(&a, &capture(&fake)), None);
    let (mut near, mut far) = (a.clone(), a.clone());
    near.memory.total = a.memory.total.map(|total| total - total / 200);
    assert_eq!(Environment::other_machine(&a, &near), None);
    far.memory.total = a.memory.total.map(|total| total / 2);
    assert!(Environment::other_machine(&a, &far).is_some_and(|said| said.starts_with("memory.total ")));
    fake.put("/proc/sys/kernel/osrelease", "9.9.9-test\n");
    let said = Environment::other_machine(&a, &capture(&fake)).expect("another kernel");
    assert!(said.starts_with("kernel.release 9.9.9-test instead of "), "{said}");
}

#[test]
fn the_table_says_what_is_known_with_its_unit() {
    let lines = capture(&machine()).lines();
    let line = |name: &str| lines.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
    assert_eq!(
        line("memory"),
        Some("1.00 GiB in all, 512.0 MiB available, no swap, DAMON pages out (kdamond 0)")
    );
    assert_eq!(line("dirty pages"), None);
    assert!(line("device").unwrap().contains("dm-0 (252:0)"));
}

#[test]
fn an_empty_tree_gives_nothing_and_guesses_nothing() {
    let dir = tempfile::TempDir::new().unwrap();
    let e = Environment::capture_in(dir.path(), &Root::at(dir.path()));
    assert!(e.kernel.release.is_none() && e.memory.damon_pageout.is_none() && e.cgroup.is_none());
    assert!(e.devices.is_empty() && e.file_system.is_none() && e.virtual_machine.is_none());
}

#[test]
fn this_machine_is_read() {
    let dir = tempfile::TempDir::new().unwrap();
    let e = Environment::capture(dir.path());
    assert!(e.kernel.release.is_some() && e.memory.total > Some(0) && e.cpu.count >= Some(1));
    assert!(e.file_system.is_some() && e.lines().len() > 5);
    if let (Some(limits), Some(total)) = (&e.cgroup, e.memory.total) {
        assert!(limits.memory.is_none_or(|m| m > 0) && total > 0);
    }
}
