// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Job files as people write them.

use super::*;
use crate::job::{Arrivals, Bytes, Cache, Job, Layout, Order, SyncMethod, Through, Time, What};

fn jobs(text: &str) -> (Imported, Vec<Job>) {
    let imported = import(text).unwrap_or_else(|e| panic!("{e}"));
    let jobs = imported.cells[0].steps.iter().flat_map(|s| s.jobs.clone()).collect();
    (imported, jobs)
}

const SSD: &str = "\
# Four patterns, one after the other
[global]
bs=4k
ioengine=libaio
iodepth=4
size=10g
direct=1
runtime=60
directory=/mnt/ssd
filename=ssd.test.file

[seq-read]
rw=read
stonewall

[rand-read]
rw=randread
stonewall

[seq-write]
rw=write
stonewall

[rand-write]
rw=randwrite
stonewall
";

#[test]
fn four_patterns_follow_each_other() {
    let (imported, jobs) = jobs(SSD);
    let labels: Vec<_> = imported.cells[0].steps.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["seq-read", "rand-read", "seq-write", "rand-write"]);
    assert_eq!(imported.target, Some("/mnt/ssd/ssd.test.file".into()));
    assert_eq!((&imported.unknown[..], &imported.ignored[..]), (&[][..], &[][..]));
    for job in &jobs {
        assert_eq!((job.block, job.size, job.depth, job.direct), (Bytes(4096), Bytes(10 << 30), 4, true));
        assert_eq!((job.through, job.cache), (Through::Libaio, Cache::Fadvise));
        // Until the end of the file, but not longer than a minute.
        assert_eq!((job.time, job.operations), (Some(Time(60_000_000_000)), Some(10 << 30 >> 12)));
    }
    assert_eq!((jobs[1].what, jobs[1].order), (What::Read, Order::RandomOnce));
    assert_eq!((jobs[3].what, jobs[3].order), (What::Write, Order::RandomOnce));
}

#[test]
fn a_log_with_fdatasync_behind_every_write() {
    let (imported, jobs) = jobs(
        "[etcd]\nrw=write\nioengine=sync\nfdatasync=1\ndirectory=test-data\nsize=22m\nbs=2300\nname=mytest\n",
    );
    let job = &jobs[0];
    assert_eq!((job.through, job.sync, job.every), (Through::Write, SyncMethod::Fdatasync, 1));
    assert_eq!((job.block, job.size, job.layout), (Bytes(2300), Bytes(22 << 20), Layout::Preallocated));
    assert_eq!(imported.cells[0].steps[0].label, "mytest");
    assert_eq!(imported.target, Some("test-data".into()));
}

#[test]
fn a_random_mix_by_time_with_a_rate() {
    let (imported, jobs) = jobs(
        "[global]\nthread\ngroup_reporting\ntime_based\nruntime=2m\nramp_time=5\n\n[mix]\nrw=randrw\nrwmixread=70\n\
         bs=8k,8k\nnumjobs=4\nsize=1g\nnrfiles=4\nioengine=io_uring\niodepth=16\nrate_iops=250\nrate_process=poisson\n\
         random_distribution=zipf:1.1\nrandseed=42\nnorandommap=1\ninvalidate=0\nlog_avg_msec=500\ncpus_allowed=0-3\n",
    );
    let job = &jobs[0];
    assert_eq!((job.what, job.mix, job.order, job.zipf, job.seed), (What::Mix, 70, Order::Zipf, 1.1, 42));
    assert_eq!((job.threads, job.processes, job.files, job.size), (4, 1, 4, Bytes(256 << 20)));
    assert_eq!(job.rate.map(|r| r.0), Some(1000.0));
    assert_eq!((job.arrivals, job.depth, job.through), (Arrivals::Poisson, 16, Through::IoUring));
    assert_eq!(
        (job.time, job.ramp, job.operations),
        (Some(Time(120_000_000_000)), Time(5_000_000_000), None)
    );
    assert_eq!(job.cache, Cache::AsFound);
    let unknown: Vec<_> = imported.unknown.iter().map(|u| (u.line, u.option.as_str())).collect();
    assert_eq!(unknown, [(24, "cpus_allowed=0-3")]);
    let ignored: Vec<_> = imported.ignored.iter().map(|u| (u.line, u.option.as_str())).collect();
    assert_eq!(ignored, [(3, "group_reporting"), (23, "log_avg_msec=500")]);
    assert!(imported.unknown[0].to_string().starts_with("line 24: cpus_allowed=0-3: "));
}

#[test]
fn jobs_without_a_stonewall_run_at_once() {
    let (imported, jobs) =
        jobs("[global]\nsize=1m\n[reader]\nrw=randread\nsize=2m\n[writer]\nrw=write\nend_fsync=1\n[after]\nwait_for_previous\n");
    let steps = &imported.cells[0].steps;
    assert_eq!(
        (steps.len(), steps[0].label.as_str(), steps[1].label.as_str()),
        (2, "reader + writer", "after")
    );
    assert_eq!((jobs[1].sync, jobs[1].every), (SyncMethod::Fsync, 256));
    assert_eq!(
        (jobs[0].prefix.as_str(), jobs[1].prefix.as_str()),
        ("reader", "writer"),
        "files of its own each"
    );
    assert_eq!((jobs[1].size, jobs[1].range), (Bytes(1 << 20), None));
    assert_eq!(imported.unknown, []);
}

#[test]
fn jobs_that_name_the_same_file_share_it() {
    let (_, jobs) =
        jobs("[global]\nfilename=f\nsize=1m\n[reader]\nrw=randread\nsize=2m\n[writer]\nrw=write\n");
    assert_eq!(jobs[0].prefix, jobs[1].prefix);
    // What one reads is there although the other writes; neither cuts the file short.
    assert_eq!((jobs[1].layout, jobs[1].size, jobs[1].span()), (Layout::Overwrite, Bytes(2 << 20), 1 << 20));
}

#[test]
fn options_become_those_of_a_job() {
    let base = "[j]\nsize=1m\nrw=write\n";
    let of = |more: &str| jobs(&format!("{base}{more}")).1.remove(0);
    assert_eq!(of("sync=1\n").sync, SyncMethod::OSync);
    assert_eq!(of("sync=dsync\n").sync, SyncMethod::ODsync);
    assert_eq!((of("fsync=32\n").sync, of("fsync=32\n").every), (SyncMethod::Fsync, 32));
    assert_eq!(of("overwrite=1\n").layout, Layout::Overwrite);
    assert_eq!(of("fallocate=none\n").layout, Layout::Sparse);
    assert!(of("verify=crc32c\n").stamp);
    assert_eq!(of("buffer_compress_percentage=50\n").compressible, 50);
    assert_eq!(of("thinktime=100\n").think, Time(100_000));
    assert_eq!(of("loops=3\n").operations, Some(768));
    assert_eq!(of("io_size=8k\n").bytes, Some(Bytes(8192)));
    assert!(of("buffered=0\n").direct);
    assert_eq!(of("rate=1m\nnumjobs=2\n").rate.map(|r| r.0), Some(512.0));
    assert_eq!(of("iodepth=32\n").depth, 1);
    assert_eq!(of("ioengine=io_uring\nsqthread_poll=1\n").through, Through::IoUringSqpoll);
    let offset = of("offset=4k\n");
    assert_eq!((offset.offset, offset.size, offset.span()), (Bytes(4096), Bytes((1 << 20) + 4096), 1 << 20));
    let kb = of("kb_base=1000\nbs=4ki\n");
    assert_eq!((kb.block, kb.size), (Bytes(4096), Bytes(1_000_000)));
    let device = jobs("[d]\nfilename=/dev/null-disk\nrw=randread\nruntime=5\n").1.remove(0);
    assert_eq!((device.operations, device.time), (None, Some(Time(5_000_000_000))));
}

#[test]
fn what_cannot_be_is_said_with_its_line() {
    for (text, line, word) in [
        ("", 1, "no job"),
        ("[global]\nbs=4k\n", 2, "no job"),
        ("[a]\nrw=trim\nsize=1m\n", 2, "discard"),
        ("[a]\nrw=read:8k\nsize=1m\n", 2, "strided"),
        ("[a]\nrw=read\n", 1, "size is missing"),
        ("[a]\nsize=50%\n", 2, "share"),
        ("[a]\nsize=1m\nbs=4q\n", 3, "4q"),
        ("[a]\nsize=1m\nnumjobs=0\n", 3, "1 to 4096"),
        ("[a]\nsize=1m\ntime_based\n", 3, "runtime"),
        ("[a]\nsize=1m\n\n[b]\ndirect=1\nbs=100\n size=1m\n", 4, "[b]"),
    ] {
        let said = import(text).expect_err(text);
        assert_eq!(said.line, line, "{said}");
        assert!(said.text.contains(word), "{said}");
    }
}

#[test]
fn a_file_that_says_nonsense_is_no_panic() {
    let words = [
        "[",
        "]",
        "=",
        "bs",
        "size",
        "1m",
        "\n",
        "rw",
        "99999999999999999999p",
        "rate",
        "0x",
        ",",
        ":",
        "[a]",
        "loops",
    ];
    let mut random = plumb_stats::random::SplitMix64::new(7);
    for _ in 0..2000 {
        let mut text = String::from("[a]\n");
        for _ in 0..12 {
            text += words[random.next_u64() as usize % words.len()];
        }
        if let Err(e) = import(&text) {
            assert!(e.line >= 1);
        }
    }
}
