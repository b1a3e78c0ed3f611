// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of fio's options: those that are translated, and those that change
//! nothing here.

/// Options that are translated, each behind its name here.
const TRANSLATED: &[(&str, &[&str])] = &[
    ("bs", &["bs", "blocksize"]),
    ("buffer_compress_percentage", &["buffer_compress_percentage"]),
    ("buffered", &["buffered"]),
    ("direct", &["direct"]),
    ("directory", &["directory"]),
    ("end_fsync", &["end_fsync"]),
    ("fallocate", &["fallocate"]),
    ("fdatasync", &["fdatasync"]),
    ("filename", &["filename"]),
    ("filesize", &["filesize"]),
    ("fixedbufs", &["fixedbufs"]),
    ("fsync", &["fsync"]),
    ("fsync_on_close", &["fsync_on_close"]),
    ("invalidate", &["invalidate"]),
    ("io_size", &["io_size", "io_limit"]),
    ("iodepth", &["iodepth"]),
    ("ioengine", &["ioengine"]),
    ("kb_base", &["kb_base"]),
    ("loops", &["loops"]),
    ("name", &["name"]),
    ("norandommap", &["norandommap"]),
    ("nrfiles", &["nrfiles", "nr_files"]),
    ("numjobs", &["numjobs"]),
    ("offset", &["offset", "file_offset"]),
    ("overwrite", &["overwrite"]),
    ("pre_read", &["pre_read"]),
    ("ramp_time", &["ramp_time"]),
    ("random_distribution", &["random_distribution"]),
    ("randseed", &["randseed"]),
    ("rate", &["rate"]),
    ("rate_iops", &["rate_iops"]),
    ("rate_process", &["rate_process"]),
    ("runtime", &["runtime", "timeout"]),
    ("rw", &["rw", "readwrite"]),
    ("rwmixread", &["rwmixread"]),
    ("rwmixwrite", &["rwmixwrite"]),
    ("size", &["size"]),
    ("sqthread_poll", &["sqthread_poll"]),
    ("stonewall", &["stonewall", "wait_for_previous"]),
    ("sync", &["sync"]),
    ("thinktime", &["thinktime"]),
    ("thread", &["thread"]),
    ("time_based", &["time_based"]),
    ("verify", &["verify"]),
];

/// Options that change nothing here, and why.
const HARMLESS: &[(&[&str], &str)] = &[
    (&["description"], "a remark"),
    (
        &["group_reporting", "new_group"],
        "workers of a job are always summed up, and shown one by one as well",
    ),
    (&["unlink", "unlink_each_loop"], "the load's own files are always removed, a file that you name never"),
    (
        &["randrepeat", "allrandrepeat", "random_generator"],
        "the same seed always gives the same places, by generators of this program",
    ),
    (
        &["refill_buffers", "scramble_buffers"],
        "buffers are always filled anew, so that no device can take them for old ones",
    ),
    (&["registerfiles"], "files are registered together with --through io-uring-fixed"),
    (
        &["create_serialize", "create_fsync", "allow_file_create"],
        "files are made one after the other and synchronised",
    ),
    (
        &["file_service_type", "openfiles"],
        "all files stay open; they are gone through one after the other or at random",
    ),
    (
        &[
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "gtod_reduce",
            "gtod_cpu",
            "clocksource",
        ],
        "measuring costs one reading of the clock an operation",
    ),
    (
        &[
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_avg_msec",
            "log_hist_msec",
            "per_job_logs",
        ],
        "--log writes every operation, --json every second",
    ),
    (
        &[
            "percentile_list",
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "significant_figures",
        ],
        "the whole distribution is kept",
    ),
    (
        &["eta", "eta_interval", "output", "output_format", "status_interval", "minimal"],
        "a matter of fio's own output",
    ),
    (
        &["do_verify", "verify_fatal", "verify_backlog", "verify_dump", "verify_pattern", "verify_async"],
        "stamps are checked wherever blocks are read",
    ),
    (
        &["exitall", "exitall_on_error", "continue_on_error"],
        "a worker gives up after a thousand errors; these are counted",
    ),
    (&["iomem", "mem", "iomem_align", "mem_align"], "buffers are aligned to pages"),
];

/// An option's name here, of all its names; `None` when it is not translated.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    TRANSLATED.iter().find(|(_, names)| names.contains(&name)).map(|(key, _)| *key)
}

/// Why an option changes nothing here; `None` when it would.
pub(super) fn harmless(name: &str) -> Option<&'static str> {
    HARMLESS.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
}
