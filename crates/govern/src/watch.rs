// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who used a disk, and when: by block events, or where there is no BPF by what the kernel counts anyway.

use crate::cgroup::Group;
use crate::disks::Disk;
use anyhow::{Context, Result};
use libbpf_rs::OpenObject;
use plumb_machine::Root;
use plumb_probe::classes::{Class, Classes, Counts, Knobs};
use std::mem::MaybeUninit;

/// What has happened on a disk since the watch began, by class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// What others must not disturb.
    pub normal: Counts,
    pub low: Counts,
    /// What the kernel's threads write for everybody; neither.
    pub writeback: Counts,
}

#[derive(Debug, Clone, Copy)]
pub struct Whom<'a> {
    pub disks: &'a [Disk],
    pub low: &'a [Group],
    /// Groups whose I/O alone is normal; none: all that is not low is.
    pub normal: &'a [Group],
    /// Longest device service time of a foreground request, ns; 0: any.
    pub target: u64,
}

/// Something that sees I/O.
pub trait Source {
    /// What has happened on a disk, numbered as in [`Whom::disks`]; `now` is CLOCK_MONOTONIC, ns.
    fn look(&mut self, disk: usize, now: u64) -> Look;

    /// It sees each request, with its time, and not only sums of bytes.
    fn sees_requests(&self) -> bool;

    /// Groups may have been removed and made again: those have another number.
    ///
    /// # Errors
    /// There are too many.
    fn follow(&mut self) -> Result<()>;
}

/// Block events.
pub struct Events<'obj> {
    classes: Classes<'obj>,
    groups: Vec<(Group, u64, Class)>,
}

impl<'obj> Events<'obj> {
    /// Begins to count.
    ///
    /// # Errors
    /// The kernel has no BPF for us, or a group is gone.
    pub fn begin(object: &'obj mut MaybeUninit<OpenObject>, whom: Whom<'_>) -> Result<Events<'obj>> {
        let knobs = Knobs {
            devices: whom.disks.iter().map(Disk::kernel_number).collect(),
            others_normal: whom.normal.is_empty(),
            target: whom.target,
        };
        let mut classes = Classes::load(object, &knobs)?;
        let mut groups = Vec::new();
        for (of, class) in [(whom.low, Class::Low), (whom.normal, Class::Normal)] {
            for group in of {
                let id = group.id()?;
                classes.set(id, class)?;
                groups.push((group.clone(), id, class));
            }
        }
        classes.attach()?;
        Ok(Events { classes, groups })
    }
}

impl Source for Events<'_> {
    fn look(&mut self, disk: usize, _: u64) -> Look {
        let of = |class| self.classes.counts(disk, class);
        Look { normal: of(Class::Normal), low: of(Class::Low), writeback: of(Class::Writeback) }
    }

    fn sees_requests(&self) -> bool {
        true
    }

    fn follow(&mut self) -> Result<()> {
        for (group, known, class) in &mut self.groups {
            match group.id() {
                Ok(id) if id != *known => {
                    self.classes.forget(*known);
                    self.classes.set(id, *class)?;
                    *known = id;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Sums of bytes that the kernel keeps for disks and groups.
#[derive(Debug)]
pub struct Sums {
    root: Root,
    disks: Vec<(Disk, SumsOf)>,
    low: Vec<Group>,
    normal: Vec<Group>,
    /// The group of everybody, where it counts as the background groups do: when requests come.
    everybody: Option<Group>,
}

#[derive(Debug, Clone, Default)]
struct SumsOf {
    began: Option<[u64; 2]>,
    look: Look,
}

impl Sums {
    /// Begins to look.
    ///
    /// # Errors
    /// A disk has no counters.
    pub fn begin(root: &Root, whom: Whom<'_>) -> Result<Sums> {
        for disk in whom.disks {
            total(root, disk).with_context(|| format!("{}: sysfs has no counters of it", disk.name))?;
        }
        Ok(Sums {
            root: root.clone(),
            disks: whom.disks.iter().map(|d| (d.clone(), SumsOf::default())).collect(),
            low: whom.low.to_vec(),
            normal: whom.normal.to_vec(),
            everybody: whom.low.first().and_then(Group::top),
        })
    }
}

impl Source for Sums {
    fn look(&mut self, disk: usize, now: u64) -> Look {
        let Some((disk, of)) = self.disks.get_mut(disk) else { return Look::default() };
        let sum = |groups: &[Group]| -> u64 { groups.iter().filter_map(|g| g.bytes(disk.number)).sum() };
        // Of the disk's own sum, which counts what is done, what background requests have under way is missing:
        // only a new highest difference tells of foreground requests then.
        let all = match &self.everybody {
            Some(group) => group.bytes(disk.number).unwrap_or(0),
            None => total(&self.root, disk).unwrap_or(0),
        };
        let low = sum(&self.low);
        let normal = if self.normal.is_empty() { all.saturating_sub(low) } else { sum(&self.normal) };
        let [normal_began, low_began] = *of.began.get_or_insert([normal, low]);
        for (counts, bytes) in [
            (&mut of.look.normal, normal.saturating_sub(normal_began)),
            (&mut of.look.low, low.saturating_sub(low_began)),
        ] {
            if bytes > counts.bytes {
                (counts.bytes, counts.last) = (bytes, now);
            }
        }
        of.look.clone()
    }

    fn sees_requests(&self) -> bool {
        false
    }

    /// Files are found by their names each time.
    fn follow(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Bytes that a disk has read and written (Documentation/admin-guide/iostats.rst).
fn total(root: &Root, disk: &Disk) -> Option<u64> {
    let text = root.text(format!("/sys/dev/block/{}/stat", disk.number))?;
    let number = |at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some((number(2)? + number(6)?) * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;
    use plumb_machine::DeviceNumber;

    #[test]
    fn without_events_normal_io_is_what_the_disk_did_and_low_groups_did_not() {
        let top = tempfile::TempDir::new().expect("a directory");
        let put = |path: &str, text: String| {
            let path = top.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let disk = |sectors: u64| put("sys/dev/block/8:0/stat", format!(" 1 0 {sectors} 0 0 0 0 0 0 0 0"));
        let low = |bytes: u64| {
            put("g/blkio.throttle.io_service_bytes_recursive", format!("8:0 Read {bytes}\n8:0 Write 0\n"))
        };
        disk(100);
        low(0);
        let whom_disk =
            [Disk { name: "sda".into(), number: DeviceNumber { major: 8, minor: 0 }, rotational: true }];
        let groups = [Group { version: Version::V1, dir: top.path().join("g") }];
        let whom = Whom { disks: &whom_disk, low: &groups, normal: &[], target: 0 };
        let mut sums = Sums::begin(&Root::at(top.path()), whom).expect("begun");
        assert_eq!(sums.look(0, 10), Look::default(), "what was before does not count");
        low(4096);
        disk(108);
        let look = sums.look(0, 20);
        assert_eq!(
            (look.normal.last, look.low.last, look.low.bytes),
            (0, 20, 4096),
            "a low read that is done"
        );
        low(8192);
        let look = sums.look(0, 30);
        assert_eq!((look.normal.last, look.low.last), (0, 30), "one under way");
        disk(117);
        let look = sums.look(0, 40);
        assert_eq!((look.normal.last, look.normal.bytes), (40, 512), "it is done, and a normal one");
        assert!(!sums.sees_requests());
    }
}
