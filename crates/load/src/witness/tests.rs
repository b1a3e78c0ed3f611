// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use plumb_machine::Fake;

fn number(text: &str) -> DeviceNumber {
    DeviceNumber::parse(text).unwrap()
}

fn stat(fake: &Fake, disk: &str, text: &str) {
    fake.put(&format!("/sys/block/{disk}/stat"), text);
}

#[test]
fn counters_of_a_written_machine_are_told_as_differences() {
    let fake = Fake::new();
    fake.disk("sda", "8:0").disk("dm-0", "252:0").stack("dm-0", "sda");
    stat(&fake, "sda", " 1 0 8 5 2 0 16 6 0 9 11 0 0 0 0 3 4\n");
    stat(&fake, "dm-0", " 1 0 8 5 2 0 16 6 0 9 11\n");
    fake.put("/proc/7/task/7/schedstat", "1000 200 3\n");
    fake.put("/proc/vmstat", "pgpgin 5\npswpout 1\nnr_free_pages 77\nworkingset_refault_file 2\n");
    fake.put("/proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\nfull total=3\n");
    fake.put("/proc/stat", "cpu  100 0 50 900 5 1 2 10 0 0\ncpu0 1 1 1\n");
    fake.mount("self", "0:31", "/sys/fs/cgroup/cpu", "cgroup", "cgroup rw,cpu,");
    fake.put("/proc/self/cgroup", "1:cpu:/\n");
    fake.put("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 500\n");
    let netstat = |overflows: u64| {
        format!("TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 7 {overflows}\nIpExt: InOctets\nIpExt: 9\n")
    };
    fake.put("/proc/net/netstat", &netstat(5));
    let mut witness = Witness::begin_in(&[7], vec![number("252:0"), number("8:0")], fake.root());

    fake.put("/proc/7/task/8/schedstat", "40 4 1\n");
    fake.put("/proc/7/task/7/schedstat", "1500 900 5\n");
    witness.sample();
    std::fs::remove_dir_all(fake.path("/proc/7")).unwrap();
    stat(&fake, "sda", " 11 0 2056 25 4 0 4112 16 0 29 31 0 0 0 0 5 9\n");
    stat(&fake, "dm-0", " 11 0 2056 25 4 0 4112 16 0 29 31\n");
    fake.put("/proc/vmstat", "pgpgin 25\npswpout 1\nnr_free_pages 1\nworkingset_refault_file 9\n");
    fake.put("/proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=30\nfull total=3\n");
    fake.put("/proc/stat", "cpu  200 0 50 900 5 1 2 30 0 0\n");
    fake.put("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 700\n");
    fake.put("/proc/net/netstat", &netstat(8));
    fake.put("/proc/net/sockstat", "sockets: used 9\nTCP: inuse 5 orphan 0 tw 31 alloc 9 mem 0\n");
    fake.put("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    let evidence = witness.end();

    let d = &evidence.delta;
    assert_eq!(d.network, [("ListenOverflows".to_string(), 3)].into());
    assert_eq!((evidence.end.time_wait, evidence.end.local_ports), (Some(31), Some(28_232)));
    assert_eq!((d.threads, d.on_cpu_ns, d.run_queue_ns, d.slices), (2, Some(540), Some(704), Some(3)));
    assert_eq!((d.device_read_bytes(), d.device_written_bytes()), (Some(1 << 20), Some(2 << 20)));
    assert_eq!((d.flushes(), d.flush_ns()), (Some(2), Some(5_000_000)));
    assert_eq!(d.devices.iter().map(|d| d.below).collect::<Vec<_>>(), [false, true]);
    assert_eq!(d.others_written_bytes(1 << 20), Some(1 << 20));
    assert_eq!(d.memory.get("pgpgin"), Some(&20));
    assert_eq!(d.memory.get("workingset_refault_file"), Some(&7));
    assert!(!d.memory.contains_key("nr_free_pages"));
    assert_eq!((d.stalled_io_ns, d.stalled_cpu_ns), (Some(20_000), None));
    assert_eq!((d.throttled_periods, d.throttled_ns), (Some(3), Some(200)));
    assert_eq!(d.steal_ns.zip(d.machine_busy_ns).map(|(s, b)| b / s), Some(5));
    let text = serde_json::to_string(&evidence).unwrap();
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence);
}

#[test]
fn what_threads_know_of_themselves_replaces_what_was_seen_from_beside() {
    let snapshot = Snapshot::take(&[], &[], &Fake::new().root());
    let mut evidence = Evidence::between(snapshot.clone(), snapshot);
    assert_eq!(evidence.delta.on_cpu_ns, None);
    let blind = OwnTimes { known: OwnTimes::USAGE, user_ns: 5, ..OwnTimes::default() };
    evidence.add_own_times(&[blind]);
    assert_eq!((evidence.delta.on_cpu_ns, evidence.delta.own.map(|o| o.user_ns)), (None, Some(5)));
    let seeing = OwnTimes { known: 7, on_cpu_ns: 30, run_queue_ns: 4, ..OwnTimes::default() };
    evidence.add_own_times(&[seeing, seeing]);
    assert_eq!((evidence.delta.threads, evidence.delta.run_queue_ns), (2, Some(8)));
}

#[test]
fn group_bytes_are_those_of_the_devices_watched() {
    let fake = Fake::new();
    fake.disk("sda", "8:0");
    stat(&fake, "sda", "0 0 0 0 0 0 0 0 0 0 0\n");
    fake.mount("self", "0:30", "/sys/fs/cgroup", "cgroup2", "cgroup2");
    fake.put("/proc/self/cgroup", "0::/a\n");
    fake.put("/sys/fs/cgroup/a/io.stat", "8:0 rbytes=100 wbytes=7 rios=1\n8:16 rbytes=9 wbytes=9\n");
    let v2 = Snapshot::take(&[], &[number("8:0")], &fake.root()).cgroup;
    assert_eq!((v2.read_bytes, v2.written_bytes), (Some(100), Some(7)));
    let fake = Fake::new();
    fake.mount("self", "0:33", "/sys/fs/cgroup/blkio", "cgroup", "cgroup rw,blkio,");
    fake.put("/proc/self/cgroup", "1:blkio:/\n");
    let text = "8:0 Read 50\n8:0 Write 3\n8:16 Read 9\nTotal 62\n";
    fake.put("/sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes", text);
    let v1 = Snapshot::take(&[], &[number("8:0")], &fake.root()).cgroup;
    assert_eq!((v1.read_bytes, v1.written_bytes), (Some(50), Some(3)));
}

#[test]
fn this_machine_answers() {
    let dir = tempfile::TempDir::new().unwrap();
    let devices = plumb_machine::devices_under(dir.path(), &Root::real());
    let devices: Vec<_> = devices.iter().map(|b| b.number.dev_t()).collect();
    let witness = Witness::begin(&[std::process::id()], &devices);
    let mut sum = 0u64;
    for i in 0..20_000_000u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31) ^ i);
    }
    let evidence = witness.end();
    assert!(evidence.delta.elapsed_ns > 0 && evidence.delta.threads >= 1);
    assert!(evidence.delta.on_cpu_ns > Some(0), "{:?}", evidence.delta);
    assert_eq!(evidence.delta.devices.len(), devices.len());
}
