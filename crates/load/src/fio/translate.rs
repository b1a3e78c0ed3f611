// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One section into one job.

use super::options::Options;
use super::parse::Section;
use super::units;
use super::{option_names, FioError, Unknown};
use crate::job::{
    Arrivals, Bytes, Cache, Job, Layout, Order, Rate, Sharing, SyncMethod, Through, Time, What,
};
use std::path::PathBuf;

/// A section, translated.
pub(super) struct Translated {
    pub name: String,
    pub job: Job,
    /// Its target and the line that names it.
    pub target: Option<(PathBuf, usize)>,
    /// Its files have names of their own choice, which other jobs may share.
    pub named: bool,
    /// It begins when the jobs before it have ended.
    pub waits: bool,
    pub unknown: Vec<Unknown>,
    pub ignored: Vec<Unknown>,
}

/// A size that stands for all of a device or file: its end is found when it is opened.
const ALL_OF_IT: u64 = 1 << 60;

pub(super) fn section(section: &Section) -> Result<Translated, FioError> {
    let mut o = Options::new(section);
    for (line, written) in &section.foreign {
        let name = written.split('=').next().unwrap_or_default().trim();
        let (list, why) = match option_names::harmless(name) {
            Some(why) => (&mut o.ignored, why),
            None => (&mut o.unknown, "has no counterpart here"),
        };
        list.push(Unknown { line: *line, option: written.clone(), why: why.into() });
    }
    let mut job = Job::default();
    what(&mut o, &mut job)?;
    engine(&mut o, &mut job)?;
    let target = target(&mut o)?;
    sizes(&mut o, &mut job, target.as_ref())?;
    durability(&mut o, &mut job)?;
    workers(&mut o, &mut job)?;
    pace(&mut o, &mut job)?;
    data(&mut o, &mut job)?;
    end(&mut o, &mut job)?;
    Ok(Translated {
        name: o.text("name").unwrap_or(&section.name).to_string(),
        job,
        target,
        named: o.entry("filename").is_some(),
        waits: o.yes("stonewall")?,
        unknown: o.unknown,
        ignored: o.ignored,
    })
}

fn what(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    let (what, random) = match o.entry("rw") {
        None => (What::Read, false),
        Some(e) => match e.value.as_str() {
            "read" => (What::Read, false),
            "write" => (What::Write, false),
            "rw" | "readwrite" => (What::Mix, false),
            "randread" => (What::Read, true),
            "randwrite" => (What::Write, true),
            "randrw" => (What::Mix, true),
            other => {
                let why = match other {
                    _ if other.contains("trim") => "this program does not discard blocks",
                    _ if other.contains(':') => {
                        "steps between places have no counterpart; see --order strided"
                    }
                    _ => "is not known; choose read, write, rw, randread, randwrite or randrw",
                };
                return Err(FioError { line: e.line, text: format!("{}: {why}", e.written) });
            }
        },
    };
    job.what = what;
    if random {
        // fio goes through every block once unless it is told to keep no map.
        job.order = if o.yes("norandommap")? { Order::Random } else { Order::RandomOnce };
    } else {
        o.ignored("norandommap", "the order is not random");
    }
    match o.text("random_distribution") {
        None | Some("random") => {}
        Some(text) => match text.strip_prefix("zipf:").map(str::parse::<f64>) {
            Some(Ok(theta)) if random => (job.order, job.zipf) = (Order::Zipf, theta),
            Some(Ok(_)) => o.ignored("random_distribution", "the order is not random"),
            _ => o.unknown("random_distribution", "of distributions there are random and zipf:THETA"),
        },
    }
    let percent = |t: &str| match units::whole(t)? {
        n @ 0..=100 => Ok(n as u8),
        _ => Err("must be 0 to 100".to_string()),
    };
    let writes = o.read("rwmixwrite", percent)?.map(|w| 100 - w);
    job.mix = o.read("rwmixread", percent)?.or(writes).unwrap_or(50);
    if let Some(seed) = o.whole("randseed")? {
        job.seed = seed as u32;
        if seed > u64::from(u32::MAX) {
            o.unknown("randseed", "the lower 32 bits are taken");
        }
    }
    Ok(())
}

fn engine(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    job.through = match o.text("ioengine") {
        None | Some("psync") => Through::Pwrite,
        Some("sync") => Through::Write,
        Some("vsync") => Through::Writev,
        Some("pvsync" | "pvsync2") => Through::Pwritev2,
        Some("mmap") => Through::Mmap,
        Some("libaio") => Through::Libaio,
        Some("posixaio") => Through::PosixAio,
        Some("null") => Through::Null,
        Some("io_uring") if o.yes("sqthread_poll")? => Through::IoUringSqpoll,
        Some("io_uring") if o.yes("fixedbufs")? => Through::IoUringFixed,
        Some("io_uring") => Through::IoUring,
        Some(_) => {
            o.unknown("ioengine", "is no way into the kernel that there is here; pread and pwrite are taken");
            Through::Pwrite
        }
    };
    let depth = o.number("iodepth", 4096)?.unwrap_or(1);
    if job.through.queues() {
        job.depth = depth;
    } else if depth > 1 {
        o.ignored("iodepth", "this engine does one operation at a time, in fio as well");
    }
    job.direct = o.yes("direct")? || o.read("buffered", units::yes)? == Some(false);
    Ok(())
}

fn target(o: &mut Options<'_>) -> Result<Option<(PathBuf, usize)>, FioError> {
    let several = "several places are not taken, only the first";
    let first = |text: &str| text.split(':').next().unwrap_or_default().to_string();
    for key in ["directory", "filename"] {
        if o.text(key).is_some_and(|t| t.contains(':')) {
            o.unknown(key, several);
        }
    }
    let directory = o.entry("directory").map(|e| (PathBuf::from(first(&e.value)), e.line));
    let Some(file) = o.entry("filename") else { return Ok(directory) };
    let path = directory.map_or_else(PathBuf::new, |(d, _)| d).join(first(&file.value));
    Ok(Some((path, file.line)))
}

fn sizes(o: &mut Options<'_>, job: &mut Job, target: Option<&(PathBuf, usize)>) -> Result<(), FioError> {
    let base = o.base;
    if let Some(e) = o.entry("bs") {
        let text = o.same_for_all("bs").unwrap_or_default();
        let read = units::bytes(text, base)
            .map_err(|why| FioError { line: e.line, text: format!("{}: {why}", e.written) });
        job.block = Bytes(read?);
    }
    let named = o.entry("filename").is_some();
    job.files = match o.number("nrfiles", 100_000_000)? {
        Some(_) if named => {
            o.ignored("nrfiles", "the file is named, in fio as well");
            1
        }
        other => other.map_or(1, u64::from),
    };
    job.offset = Bytes(o.bytes("offset")?.unwrap_or(0));
    let all = named && (job.what == What::Read || target.is_some_and(|(path, _)| path.starts_with("/dev")));
    let each = match (o.bytes("filesize")?, o.bytes("size")?) {
        (Some(each), _) => each,
        (None, Some(total)) => total / job.files,
        (None, None) if all => ALL_OF_IT,
        (None, None) => {
            let text = format!("[{}]: size is missing: how long its files are", o.section.name);
            return Err(FioError { line: o.section.line, text });
        }
    };
    // fio's size counts from the offset on.
    job.size = Bytes(each.saturating_add(job.offset.0).min(ALL_OF_IT));
    let overwrite = o.yes("overwrite")?;
    job.layout = match (overwrite, o.text("fallocate")) {
        (true, _) => Layout::Overwrite,
        (_, None | Some("native" | "posix" | "keep" | "1")) => Layout::Preallocated,
        (_, Some("none" | "truncate" | "0")) => Layout::Sparse,
        _ => {
            o.unknown("fallocate", "must be none, native, posix, keep or truncate");
            Layout::Preallocated
        }
    };
    Ok(())
}

/// Operations of one worker that go once through its files; `None` when their end is not known.
fn pass(job: &Job) -> Option<u64> {
    (job.size.0 < ALL_OF_IT).then(|| job.files.saturating_mul(job.span() / job.block.0.max(1)).max(1))
}

fn durability(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    job.time_sync = crate::job::Timed::Out;
    let flag = match o.text("sync") {
        None | Some("0" | "none") => SyncMethod::None,
        Some("1" | "sync") => SyncMethod::OSync,
        Some("dsync") => SyncMethod::ODsync,
        Some(_) => {
            o.unknown("sync", "must be none, sync or dsync");
            SyncMethod::None
        }
    };
    let fsync = o.whole("fsync")?.filter(|&n| n > 0);
    let fdatasync = o.whole("fdatasync")?.filter(|&n| n > 0);
    (job.sync, job.every) = match (flag, fdatasync, fsync) {
        (SyncMethod::None, Some(n), _) => (SyncMethod::Fdatasync, n),
        (SyncMethod::None, None, Some(n)) => (SyncMethod::Fsync, n),
        (flag, ..) => (flag, 1),
    };
    for (key, method) in [("fsync", SyncMethod::Fsync), ("fdatasync", SyncMethod::Fdatasync)] {
        if o.whole(key)?.is_some_and(|n| n > 0) && job.sync != method {
            o.unknown(key, "there is one way to synchronise in a job; another one is taken");
        }
    }
    for key in ["end_fsync", "fsync_on_close"] {
        if !o.yes(key)? || !job.what.writes() {
            continue;
        }
        let time = o.entry("runtime").is_some();
        match (job.sync, pass(job)) {
            (SyncMethod::None, Some(n))
                if job.what == What::Write && !time && o.entry("io_size").is_none() =>
            {
                let loops = o.whole("loops")?.unwrap_or(1).max(1);
                (job.sync, job.every) = (SyncMethod::Fsync, n.saturating_mul(loops));
            }
            (SyncMethod::None, _) => {
                o.unknown(key, "the number of writes is not known before, so none is the last")
            }
            (sync, _) if sync.promises() => o.ignored(key, "the job synchronises anyway"),
            _ => o.unknown(key, "there is one way to synchronise in a job; another one is taken"),
        }
    }
    Ok(())
}

fn workers(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    let workers = o.number("numjobs", 4096)?.unwrap_or(1);
    match o.yes("thread")? {
        true => job.threads = workers,
        false => job.processes = workers,
    }
    // Each goes through all of a named file by itself, as in fio.
    job.sharing = Sharing::Each;
    Ok(())
}

fn pace(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    let base = o.base;
    let read = |o: &mut Options<'_>, key: &str| -> Result<Option<f64>, FioError> {
        let Some(e) = o.entry(key) else { return Ok(None) };
        let text = o.same_for_all(key).unwrap_or_default();
        let n = units::bytes(text, base)
            .map_err(|why| FioError { line: e.line, text: format!("{}: {why}", e.written) })?;
        Ok((n > 0).then_some(n as f64))
    };
    let operations = read(o, "rate_iops")?;
    let by_bytes = read(o, "rate")?.map(|bytes| bytes / job.block.0.max(1) as f64);
    // fio's rate is each worker's, ours that of all.
    job.rate = operations.or(by_bytes).map(|each| Rate(each * f64::from(job.workers())));
    if operations.is_some() {
        o.ignored("rate", "rate_iops says it already");
    }
    job.arrivals = match o.text("rate_process") {
        Some("poisson") => Arrivals::Poisson,
        None | Some("linear") => Arrivals::Constant,
        Some(_) => {
            o.unknown("rate_process", "must be linear or poisson");
            Arrivals::Constant
        }
    };
    let pause = |t: &str| units::time(t, 1000);
    job.think = Time(o.read("thinktime", pause)?.unwrap_or(0));
    Ok(())
}

fn data(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    if let Some(n) = o.read("buffer_compress_percentage", units::whole)? {
        job.compressible = n.min(100) as u8;
    }
    match o.text("verify") {
        None | Some("0" | "none" | "null") => {}
        Some(_) if job.block.0 % 512 != 0 || job.compressible > 0 => {
            o.unknown("verify", "stamps need blocks of whole sectors (512 bytes) and no compressible data")
        }
        Some(_) => {
            job.stamp = true;
            o.ignored("verify", "every sector gets a stamp with its place instead; what is read is checked, nothing is read again at the end");
        }
    }
    job.cache = match (o.yes("pre_read")?, o.read("invalidate", units::yes)?) {
        (true, _) => Cache::Warm,
        (false, Some(false)) => Cache::AsFound,
        (false, _) => Cache::Fadvise,
    };
    if job.through == Through::Null {
        job.cache = Cache::AsFound;
    }
    Ok(())
}

fn end(o: &mut Options<'_>, job: &mut Job) -> Result<(), FioError> {
    let second = |t: &str| units::time(t, 1_000_000_000);
    job.time = o.read("runtime", second)?.filter(|&t| t > 0).map(Time);
    job.ramp = Time(o.read("ramp_time", second)?.unwrap_or(0));
    let loops = o.whole("loops")?.unwrap_or(1).max(1);
    let io_size = o.bytes("io_size")?;
    if o.yes("time_based")? {
        if job.time.is_none() {
            let e = o.entry("time_based").map_or(o.section.line, |e| e.line);
            return Err(FioError {
                line: e,
                text: "time_based: runtime is missing: how long it goes on".into(),
            });
        }
        o.ignored("loops", "it goes on until its time is over");
        o.ignored("io_size", "it goes on until its time is over");
        return Ok(());
    }
    match (io_size, pass(job)) {
        (Some(bytes), _) => job.bytes = Some(Bytes(bytes.saturating_mul(loops))),
        (None, Some(n)) if loops > 1 || job.time.is_some() => job.operations = Some(n.saturating_mul(loops)),
        (None, None) if job.time.is_some() => {
            o.ignored("runtime", "it goes on until then even when it comes to the end")
        }
        _ => {}
    }
    Ok(())
}
