// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's throttling of cgroups, of both versions: `blkio.throttle.*_device` of v1, `io.max` of v2
//! (Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst).
//!
//! Traps: v1 has its limits for the one group alone, not for those below it, so each of them is limited. 0 is no
//! limit in v1, `max` in v2. Both count in slices of 100 ms, so that a limit of 5 requests a second lets one pass every
//! 200 ms and one of 1 MB/s pieces of 100 KB.

use crate::cgroup::{Group, Kind};
use crate::rate::Rate;
use anyhow::{Context, Result};
use plumb_machine::DeviceNumber;
use plumb_undo::journal::Journal;
pub use plumb_undo::limit::Limit;
use plumb_undo::limit::{is_gone, line, NONE_V1, NONE_V2};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn none(kind: Kind) -> &'static str {
    match kind {
        Kind::Both => NONE_V2,
        _ => NONE_V1,
    }
}

/// What a file says of a device; nothing set is said, too.
fn held(path: &Path, device: DeviceNumber, kind: Kind) -> io::Result<String> {
    Ok(line(&std::fs::read_to_string(path)?, device).unwrap_or_else(|| none(kind).into()))
}

fn read(path: &Path, device: DeviceNumber, kind: Kind) -> io::Result<Limit> {
    Ok(Limit { path: path.into(), device, before: held(path, device, kind)?, after: None })
}

/// What is written to limit: never more than what was allowed before.
fn narrowed(kind: Kind, before: &str, rate: Rate) -> String {
    let least = |before: Option<u64>, ours: Option<u64>| match (before, ours) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    match kind {
        Kind::Both => {
            let was = |key: &str| {
                let word = before.split_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
                word.and_then(|n| n.parse().ok())
            };
            let word = |key: &str, ours| match least(was(key), ours) {
                Some(n) => format!("{key}={n}"),
                None => format!("{key}=max"),
            };
            [
                word("rbps", rate.bytes),
                word("wbps", rate.bytes),
                word("riops", rate.requests),
                word("wiops", rate.requests),
            ]
            .join(" ")
        }
        Kind::Bytes | Kind::Requests => {
            let was = before.parse().ok().filter(|n| *n > 0);
            let ours = if kind == Kind::Bytes { rate.bytes } else { rate.requests };
            least(was, ours).unwrap_or(0).to_string()
        }
    }
}

/// Is told of each file before it is written for the first time.
pub trait Ledger {
    /// A limit is about to be changed.
    ///
    /// # Errors
    /// It cannot be written down: then nothing is changed.
    fn will(&mut self, limit: &Limit) -> Result<()>;
}

impl Ledger for Journal {
    fn will(&mut self, limit: &Limit) -> Result<()> {
        self.will_limit(limit)
    }
}

/// A limit that was set.
#[derive(Debug)]
struct Set {
    limit: Limit,
    kind: Kind,
    /// Its group's inode: one that is removed and made again has another.
    group: u64,
    /// What the file said when it had been written.
    wrote: Option<String>,
}

/// The limits of one disk in some groups.
#[derive(Debug)]
pub struct Limiter {
    groups: Vec<Group>,
    device: DeviceNumber,
    sets: Vec<Set>,
    /// What holds now; None: what was before.
    rate: Option<Rate>,
    /// The disk is no more.
    gone: bool,
}

impl Limiter {
    pub fn new(groups: Vec<Group>, device: DeviceNumber) -> Limiter {
        Limiter { groups, device, sets: Vec::new(), rate: None, gone: false }
    }

    /// The disk is no more: nothing is written any longer.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Puts back what was before, and writes nothing any longer.
    ///
    /// # Errors
    /// As [`Limiter::apply`].
    pub fn leave(&mut self, ledger: &mut dyn Ledger) -> Result<()> {
        self.apply(None, ledger)?;
        self.gone = true;
        Ok(())
    }

    /// Limits to a rate, or puts back what was before. What somebody else has set meanwhile is what is narrowed and put
    /// back from then on.
    ///
    /// # Errors
    /// A file does not take it; named.
    pub fn apply(&mut self, rate: Option<Rate>, ledger: &mut dyn Ledger) -> Result<()> {
        self.rate = rate;
        let mut at = 0;
        while at < self.sets.len() && !self.gone {
            at += usize::from(self.write(at, ledger)?);
        }
        if rate.is_some() {
            self.follow(ledger)?;
        }
        Ok(())
    }

    /// Limits groups that were made since: below the limited ones, or in the place of one of them.
    ///
    /// # Errors
    /// As [`Limiter::apply`].
    pub fn follow(&mut self, ledger: &mut dyn Ledger) -> Result<()> {
        if self.rate.is_none() || self.gone {
            return Ok(());
        }
        let files = |g: &Group| {
            let files = g.files();
            g.all()
                .into_iter()
                .flat_map(move |dir| files.iter().map(move |(name, kind)| (dir.join(name), *kind)))
        };
        let all: Vec<(PathBuf, Kind)> = self.groups.iter().flat_map(files).collect();
        for (path, kind) in all {
            let Some(group) = group_of(&path) else { continue };
            let known = self.sets.iter().position(|s| s.limit.path == path);
            if self.gone || known.is_some_and(|at| self.sets[at].group == group) {
                continue;
            }
            match read(&path, self.device, kind) {
                // A group that went away meanwhile.
                Err(e) if is_gone(&e) => {}
                read => {
                    let limit = read.with_context(|| path.display().to_string())?;
                    ledger.will(&limit)?;
                    if let Some(at) = known {
                        self.sets.swap_remove(at);
                    }
                    self.sets.push(Set { limit, kind, group, wrote: None });
                    self.write(self.sets.len() - 1, ledger)?;
                }
            }
        }
        Ok(())
    }

    /// Writes one; false: it was taken out, since its group is gone.
    fn write(&mut self, at: usize, ledger: &mut dyn Ledger) -> Result<bool> {
        let set = &mut self.sets[at];
        let path = set.limit.path.clone();
        let written = held(&path, self.device, set.kind).and_then(|now| {
            if set.wrote.as_ref().is_some_and(|wrote| *wrote != now) {
                set.limit.before = now;
                if let Err(error) = ledger.will(&set.limit) {
                    return Ok(Err(error));
                }
            }
            let text = match self.rate {
                Some(rate) => narrowed(set.kind, &set.limit.before, rate),
                None => set.limit.before.clone(),
            };
            std::fs::write(&path, format!("{} {text}\n", self.device))?;
            Ok(Ok(()))
        });
        match written {
            // The file of a dying group answers as a disk that is gone.
            Err(e) if is_gone(&e) && group_of(&path).is_none() => {
                self.sets.swap_remove(at);
                return Ok(false);
            }
            Err(e) if is_gone(&e) => self.gone = true,
            done => {
                done.with_context(|| format!("{}: does not take a limit; run as root", path.display()))??;
                self.sets[at].wrote = held(&path, self.device, self.sets[at].kind).ok();
            }
        }
        Ok(true)
    }
}

/// The inode of the group that a file is of; None: it is gone.
fn group_of(file: &Path) -> Option<u64> {
    Some(std::fs::metadata(file.parent()?).ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Version, V1_FILES};

    struct Told(Vec<Limit>);

    impl Ledger for Told {
        fn will(&mut self, limit: &Limit) -> Result<()> {
            let now = std::fs::read_to_string(&limit.path)?;
            assert_eq!(
                line(&now, limit.device).unwrap_or_else(|| "0".into()),
                limit.before,
                "told before it is written"
            );
            self.0.push(limit.clone());
            Ok(())
        }
    }

    struct Before(Vec<String>);

    impl Ledger for Before {
        fn will(&mut self, limit: &Limit) -> Result<()> {
            self.0.push(limit.before.clone());
            Ok(())
        }
    }

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    fn v1(dir: &Path) {
        std::fs::create_dir_all(dir).expect("made");
        for (name, _) in V1_FILES {
            std::fs::write(dir.join(name), "").expect("written");
        }
    }

    #[test]
    fn all_groups_below_are_limited_under_v1_and_have_what_they_had_afterwards() {
        let top = tempfile::TempDir::new().expect("a directory");
        let (a, b, c) = (top.path().join("a"), top.path().join("a/b"), top.path().join("a/b/c"));
        v1(&a);
        v1(&b);
        std::fs::write(b.join(V1_FILES[0].0), "8:0 1000\n").expect("written");
        let mut told = Told(Vec::new());
        let mut limiter = Limiter::new(vec![Group { version: Version::V1, dir: a.clone() }], DISK);
        let rate = Rate { bytes: Some(2000), requests: Some(5) };
        limiter.apply(Some(rate), &mut told).expect("applied");
        assert_eq!(told.0.len(), 8);
        let read =
            |dir: &Path, file: usize| std::fs::read_to_string(dir.join(V1_FILES[file].0)).expect("read");
        assert_eq!([read(&a, 0), read(&a, 3)], ["8:0 2000\n", "8:0 5\n"]);
        assert_eq!(read(&b, 0), "8:0 1000\n", "narrower already");
        v1(&c);
        limiter.follow(&mut told).expect("followed");
        assert_eq!(read(&c, 1), "8:0 2000\n");
        limiter.apply(None, &mut told).expect("freed");
        assert_eq!([read(&a, 0), read(&b, 0), read(&b, 1)], ["8:0 0\n", "8:0 1000\n", "8:0 0\n"]);
        std::fs::remove_dir_all(&c).expect("removed");
        limiter.apply(Some(rate), &mut told).expect("the one that is gone is passed over");
        assert_eq!(read(&a, 0), "8:0 2000\n");
        for limit in &told.0 {
            limit.put_back().expect("put back");
        }
        assert_eq!([read(&a, 0), read(&b, 0)], ["8:0 0\n", "8:0 1000\n"]);
    }

    #[test]
    fn what_others_set_meanwhile_is_narrowed_and_stays() {
        let top = tempfile::TempDir::new().expect("a directory");
        let file = top.path().join("io.max");
        let put = |text: &str| std::fs::write(&file, text).expect("written");
        let read = || std::fs::read_to_string(&file).expect("read");
        let rate = |bytes| Some(Rate { bytes: Some(bytes), requests: None });
        put("");
        let mut told = Before(Vec::new());
        let mut limiter = Limiter::new(vec![Group { version: Version::V2, dir: top.path().into() }], DISK);
        limiter.apply(rate(2000), &mut told).expect("applied");
        assert_eq!(read(), "8:0 rbps=2000 wbps=2000 riops=max wiops=max\n");
        let theirs = "8:0 rbps=max wbps=1000 riops=7 wiops=max\n";
        put(theirs);
        limiter.apply(rate(1500), &mut told).expect("steered");
        assert_eq!(read(), "8:0 rbps=1500 wbps=1000 riops=7 wiops=max\n");
        limiter.apply(None, &mut told).expect("freed");
        assert_eq!(read(), theirs);
        assert_eq!(told.0, [none(Kind::Both), "rbps=max wbps=1000 riops=7 wiops=max"]);
    }

    #[test]
    fn a_group_that_is_made_again_is_limited_again_and_one_that_is_gone_is_no_disk() {
        let top = tempfile::TempDir::new().expect("a directory");
        let [a, kept] = ["a", "kept"].map(|n| top.path().join(n));
        v1(&a);
        let group = || Group { version: Version::V1, dir: a.clone() };
        let mut told = Told(Vec::new());
        let mut limiter = Limiter::new(vec![group()], DISK);
        let rate = Rate { bytes: Some(2000), requests: None };
        limiter.apply(Some(rate), &mut told).expect("applied");
        // Kept, so that its inode is not given again.
        std::fs::rename(&a, &kept).expect("moved");
        limiter.apply(Some(rate), &mut told).expect("passed over");
        assert!(!limiter.is_gone());
        v1(&a);
        limiter.follow(&mut told).expect("followed");
        let read = || std::fs::read_to_string(a.join(V1_FILES[0].0)).expect("read");
        assert_eq!(read(), "8:0 2000\n");
        std::fs::remove_dir_all(&kept).expect("removed");
        std::fs::rename(&a, &kept).expect("moved");
        v1(&a);
        limiter.follow(&mut told).expect("followed");
        assert_eq!(read(), "8:0 2000\n", "nobody looked while it was gone");
    }

    #[test]
    fn a_line_of_io_max_is_narrowed_key_by_key() {
        let rate = Rate { bytes: Some(2000), requests: Some(5) };
        assert_eq!(narrowed(Kind::Both, none(Kind::Both), rate), "rbps=2000 wbps=2000 riops=5 wiops=5");
        let before = "rbps=1000 wbps=max riops=max wiops=9";
        assert_eq!(narrowed(Kind::Both, before, rate), "rbps=1000 wbps=2000 riops=5 wiops=5");
        let bytes = Rate { bytes: Some(2000), requests: None };
        assert_eq!(narrowed(Kind::Both, before, bytes), "rbps=1000 wbps=2000 riops=max wiops=9");
        assert_eq!(narrowed(Kind::Requests, "0", bytes), "0");
        assert_eq!(
            line("8:16 rbps=1\n8:1 x\n8:0 rbps=2 wbps=max\n", DISK).as_deref(),
            Some("rbps=2 wbps=max")
        );
        assert_eq!(line("8:16 5\n", DISK), None);
    }
}
