// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a tunable is now, and which of its candidates are left.

use super::action::Action;
use super::command::{Launch, Observed};
use super::tunables::{Candidates, Setting, Tunable};
use plumb_machine::{mounts, DeviceNumber, Mount, Root};
use plumb_undo::limit;
use plumb_undo::value::value;
use std::path::{Path, PathBuf};

/// v1 writes "no limit" as the largest number of pages; nothing has half of that.
const NO_LIMIT_V1: u64 = 1 << 62;

/// Files that limit devices: of version 2, and of version 1.
const LIMITS: [&str; 5] = [
    "io.max",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// A tunable where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// What it is of: a device, a cgroup, `system`, `command`.
    pub of: String,
    pub value: String,
    /// Files that hold it; none of what the command is started with.
    files: Vec<PathBuf>,
    /// Words that the file offers.
    offers: Vec<String>,
    /// Whose limits the files hold, where they hold those of several devices.
    device: Option<DeviceNumber>,
}

/// Reads a tunable; the reason where this machine does not have it.
pub fn present(
    setting: Setting,
    device: &str,
    observed: &Observed,
    launch: &Launch,
    root: &Root,
) -> Result<Present, String> {
    match setting {
        Setting::Scheduler => of_file(device, queue(device, root)?.join("scheduler"), root),
        Setting::Queue(name) => of_file(device, queue(device, root)?.join(name), root),
        Setting::System(path) => of_file("system", path.into(), root),
        Setting::EachCpu(before, after) => each_cpu(before, after, root),
        Setting::DirtyLimit => dirty_limit(root),
        Setting::Group { controller, v2, v1 } => {
            let dir = observed
                .cgroup(controller)
                .ok_or_else(|| format!("the command's cgroup has no controller {controller}"))?;
            let file = [v2, v1].iter().map(|name| dir.join(name)).find(|p| root.path(p).exists());
            let file = file.ok_or_else(|| {
                format!("{}: neither {v2} nor {v1}: a root cgroup has no limit", dir.display())
            })?;
            of_file(&format!("cgroup {}", dir.display()), file, root)
        }
        Setting::DeviceLimit => device_limit(device, observed, root),
        Setting::Mount(pair) => of_mounts(device, pair, root),
        Setting::Cpus if observed.pinned_itself => Err("the command chooses its CPUs itself".into()),
        Setting::Cpus if launch.cpus.is_none() && observed.cpus.is_empty() => {
            Err("the command ended before its CPUs could be read".into())
        }
        Setting::Cpus => Ok(of_command(launch.cpus.clone().unwrap_or_else(|| observed.cpus.clone()))),
        Setting::Nice => Ok(of_command(launch.nice.unwrap_or(observed.nice).to_string())),
    }
}

fn of_command(value: String) -> Present {
    Present { of: "command".into(), value, files: Vec::new(), offers: Vec::new(), device: None }
}

/// The queue of the disk that a device is, or is a part of.
fn queue(device: &str, root: &Root) -> Result<PathBuf, String> {
    if device.is_empty() {
        return Err("the finding names no device".into());
    }
    // sysfs writes the slash of a name as an exclamation mark.
    let dir = PathBuf::from("/sys/class/block").join(device.replace('/', "!"));
    let dir = root.path(&dir).canonicalize().map_err(|_| format!("{device}: no such block device"))?;
    let disk = if dir.join("partition").exists() { dir.parent().unwrap_or(&dir) } else { &dir };
    // The name that people know, not the place of the controller.
    Ok(Path::new("/sys/block").join(disk.file_name().unwrap_or_default()).join("queue"))
}

fn of_file(of: &str, path: PathBuf, root: &Root) -> Result<Present, String> {
    let real = root.path(&path);
    let now = value(&real).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = std::fs::read_to_string(&real).unwrap_or_default();
    let offers = text.split_whitespace().map(|w| w.trim_matches(['[', ']']).to_string()).collect();
    Ok(Present { of: of.into(), value: now, files: vec![path], offers, device: None })
}

/// Files that limit a disk in the command's cgroup and those above it (blk-throttle); none where nothing limits it.
fn device_limit(device: &str, observed: &Observed, root: &Root) -> Result<Present, String> {
    let queue = queue(device, root)?;
    let number = root.text(queue.with_file_name("dev")).unwrap_or_default();
    let number = DeviceNumber::parse(&number).ok_or_else(|| format!("{device}: has no number"))?;
    // Where both hierarchies are mounted, either may have the limit.
    let groups: Vec<&Path> = ["io", "blkio"].into_iter().filter_map(|c| observed.cgroup(c)).collect();
    let group = groups.first().ok_or("the command's cgroup has no controller io or blkio")?;
    let (mut files, mut lines) = (Vec::new(), Vec::new());
    let tops = [Path::new("/sys/fs/cgroup"), Path::new("/")];
    let above = groups.iter().flat_map(|group| group.ancestors().take_while(|dir| !tops.contains(dir)));
    for dir in above {
        for name in LIMITS {
            let path = dir.join(name);
            let text = root.text(&path).unwrap_or_default();
            let line = limit::line(&text, number).filter(|l| l != limit::none(&path));
            if let Some(line) = line.filter(|_| !files.contains(&path)) {
                files.push(path);
                lines.push(line);
            }
        }
    }
    if files.is_empty() {
        return Err(format!("{}: nothing limits {device} there", group.display()));
    }
    let of = format!("{device} in cgroup {}", group.display());
    Ok(Present { of, value: lines.join(", "), files, offers: Vec::new(), device: Some(number) })
}

/// Mount points of the device, and of partitions of it, at which the first word of a pair holds.
fn of_mounts(device: &str, pair: [&str; 2], root: &Root) -> Result<Present, String> {
    queue(device, root)?;
    let dir = Path::new("/sys/class/block").join(device.replace('/', "!"));
    let parts = root
        .names(&dir)
        .into_iter()
        .map(|name| dir.join(name))
        .filter(|d| root.path(d.join("partition")).exists());
    let numbers: Vec<DeviceNumber> = std::iter::once(dir.clone())
        .chain(parts)
        .filter_map(|d| DeviceNumber::parse(&root.text(d.join("dev"))?))
        .collect();
    let has = |m: &Mount| numbers.contains(&m.number) && m.options.split(',').any(|word| word == pair[0]);
    let files: Vec<PathBuf> = mounts(root).into_iter().filter(has).map(|m| m.point).collect();
    let Some(first) = files.first() else {
        return Err(format!("{device}: nothing on it is mounted {}", pair[0]));
    };
    let of = first.display().to_string();
    let offers = vec![pair[1].to_string()];
    Ok(Present { of, value: pair[0].into(), files, offers, device: None })
}

fn each_cpu(before: &str, after: &str, root: &Root) -> Result<Present, String> {
    let top = Path::new(before).parent().unwrap_or(Path::new("/"));
    let numbers = root.names(top).into_iter().filter_map(|n| n.strip_prefix("cpu")?.parse::<u32>().ok());
    let files: Vec<PathBuf> = numbers
        .map(|n| PathBuf::from(format!("{before}{n}{after}")))
        .filter(|p| root.path(p).exists())
        .collect();
    let first = files.first().ok_or_else(|| format!("{before}N{after}: this machine has no such file"))?;
    let mut present = of_file("system", first.clone(), root)?;
    // The file itself has the present word alone.
    let words = std::fs::read_to_string(root.path(first.with_file_name("scaling_available_governors")));
    present.offers.extend(words.unwrap_or_default().split_whitespace().map(String::from));
    present.files.clone_from(&files);
    if let Some(other) = files.iter().filter_map(|f| value(&root.path(f)).ok()).find(|v| *v != present.value)
    {
        present.value = format!("{}, {other}", present.value);
    }
    Ok(present)
}

/// The limit in bytes; where it is a share of memory, what that comes to.
fn dirty_limit(root: &Root) -> Result<Present, String> {
    let mut present = of_file("system", "/proc/sys/vm/dirty_bytes".into(), root)?;
    if present.value == "0" {
        let number = |path: &str| root.text(path).and_then(|t| t.trim().parse::<u64>().ok());
        let ratio = number("/proc/sys/vm/dirty_ratio").ok_or("/proc/sys/vm/dirty_ratio: no number")?;
        let memory = root.text("/proc/meminfo").unwrap_or_default();
        let line = memory.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        present.value = (kib.ok_or("/proc/meminfo: no MemAvailable")? * 1024 * ratio / 100).to_string();
    }
    Ok(present)
}

impl Present {
    /// The candidates that are left, in their order, each as its value and the change to it.
    pub fn candidates(&self, tunable: &Tunable) -> Vec<(String, Action)> {
        let number = self.value.parse::<i64>().ok();
        let values: Vec<String> = match tunable.candidates {
            Candidates::Larger(all) => {
                let larger = all.iter().filter(|n| number.is_some_and(|now| now < **n as i64));
                larger.map(u64::to_string).collect()
            }
            Candidates::Smaller(all) => {
                let smaller = all.iter().filter(|n| number.is_some_and(|now| now > **n));
                smaller.map(i64::to_string).collect()
            }
            Candidates::Words(all) => {
                let offered = all.iter().filter(|w| self.offers.iter().any(|o| o == *w) && self.value != **w);
                offered.map(|w| w.to_string()).collect()
            }
            Candidates::Unlimited => self.unlimited().into_iter().collect(),
            Candidates::AllCpus => {
                let online = Root::real().text("/sys/devices/system/cpu/online").unwrap_or_default();
                Some(online.trim().to_string())
                    .filter(|all| !all.is_empty() && *all != self.value)
                    .into_iter()
                    .collect()
            }
        };
        values.into_iter().filter_map(|v| Some((v.clone(), self.action(tunable.setting, &v)?))).collect()
    }

    /// The value without a limit, where there is a limit.
    fn unlimited(&self) -> Option<String> {
        if self.device.is_some() {
            return Some("max".into());
        }
        let name = self.files.first()?.file_name()?.to_str()?;
        match name {
            "cpu.max" => self
                .value
                .strip_prefix("max ")
                .is_none()
                .then(|| format!("max {}", self.value.split(' ').nth(1).unwrap_or("100000"))),
            "cpu.cfs_quota_us" => (!self.value.starts_with('-')).then(|| "-1".into()),
            "memory.limit_in_bytes" => {
                self.value.parse::<u64>().ok().filter(|n| *n < NO_LIMIT_V1).map(|_| "-1".into())
            }
            _ => (self.value != "max").then(|| "max".into()),
        }
    }

    /// The change to a value; None where it is none.
    pub fn action(&self, setting: Setting, value: &str) -> Option<Action> {
        Some(match setting {
            Setting::Scheduler => {
                Action::Scheduler { queue: self.files.first()?.parent()?.into(), name: value.into() }
            }
            Setting::Cpus => Action::Cpus(value.into()),
            Setting::Nice => Action::Nice(value.parse().ok()?),
            Setting::Mount(_) => Action::Mount { points: self.files.clone(), word: value.into() },
            Setting::DeviceLimit => {
                let files = self.files.iter().map(|path| (path.clone(), limit::none(path).into())).collect();
                Action::Limits { device: self.device?, files }
            }
            _ => Action::Write(self.files.iter().map(|path| (path.clone(), value.to_string())).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tunables::by_key;
    use super::*;
    use plumb_machine::Fake;

    fn tunable(key: &str) -> &'static Tunable {
        by_key(key).expect(key)
    }

    fn values(fake: &Fake, key: &str, observed: &Observed) -> Vec<String> {
        let now = present(tunable(key).setting, "sda", observed, &Launch::default(), &fake.root());
        now.expect("a value").candidates(tunable(key)).into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn candidates_are_those_beyond_the_present_value() {
        let fake = Fake::new();
        fake.put("/proc/sys/vm/swappiness", "10\n");
        fake.put("/proc/sys/vm/dirty_bytes", "300000000\n");
        fake.put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
        let nobody = Observed::default();
        assert_eq!(values(&fake, "swappiness", &nobody), ["1"]);
        assert_eq!(values(&fake, "dirty-bytes", &nobody), ["1073741824"]);
        assert!(values(&fake, "thp", &nobody).is_empty());
    }

    #[test]
    fn a_share_of_memory_is_a_limit_in_bytes() {
        let fake = Fake::new();
        fake.put("/proc/sys/vm/dirty_bytes", "0\n");
        fake.put("/proc/sys/vm/dirty_ratio", "20\n");
        fake.put("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    4194304 kB\n");
        let now = present(Setting::DirtyLimit, "", &Observed::default(), &Launch::default(), &fake.root());
        let now = now.expect("a value");
        assert_eq!(now.value, (4194304u64 * 1024 / 5).to_string());
        let left: Vec<String> = now.candidates(tunable("dirty-bytes")).into_iter().map(|(v, _)| v).collect();
        assert_eq!(left, ["1073741824"]);
    }

    #[test]
    fn a_quota_is_lifted_in_either_version_where_there_is_one() {
        let fake = Fake::new();
        let mut seen = Observed { cgroups: vec![("cpu".into(), "/c".into())], ..Observed::default() };
        fake.put("/c/cpu.max", "20000 100000\n");
        assert_eq!(values(&fake, "cpu-max", &seen), ["max 100000"]);
        fake.put("/c/cpu.max", "max 100000\n");
        assert!(values(&fake, "cpu-max", &seen).is_empty());
        seen.cgroups[0].1 = "/d".into();
        fake.put("/d/cpu.cfs_quota_us", "20000\n");
        assert_eq!(values(&fake, "cpu-max", &seen), ["-1"]);
        fake.put("/d/cpu.cfs_quota_us", "-1\n");
        assert!(values(&fake, "cpu-max", &seen).is_empty());
    }

    #[test]
    fn a_limit_of_a_device_is_lifted_wherever_it_stands() {
        let fake = Fake::new();
        fake.disk("sda", "8:0");
        let group = |controller: &str, dir: &str| Observed {
            cgroups: vec![(controller.into(), dir.into())],
            ..Observed::default()
        };
        let now =
            |seen: &Observed| present(Setting::DeviceLimit, "sda", seen, &Launch::default(), &fake.root());
        let seen = group("io", "/sys/fs/cgroup/a/b");
        fake.put("/sys/fs/cgroup/a/b/io.max", "8:16 rbps=1 wbps=max riops=max wiops=max\n");
        assert!(now(&seen).expect_err("of another disk").contains("nothing limits sda"));
        fake.put("/sys/fs/cgroup/a/io.max", "8:0 rbps=max wbps=1048576 riops=max wiops=max\n");
        let limits = |action: &Action| match action {
            Action::Limits { device, files } => (device.to_string(), files.clone()),
            _ => panic!("{action:?}"),
        };
        let found = now(&seen).expect("a limit").candidates(tunable("io-max"));
        let lifted = (PathBuf::from("/sys/fs/cgroup/a/io.max"), limit::NONE_V2.to_string());
        assert_eq!(limits(&found[0].1), ("8:0".into(), vec![lifted]));
        let seen = group("blkio", "/sys/fs/cgroup/blkio/a");
        fake.put("/sys/fs/cgroup/blkio/a/blkio.throttle.read_bps_device", "8:0 1000\n");
        let found = now(&seen).expect("a limit").candidates(tunable("io-max"));
        assert_eq!(limits(&found[0].1).1[0].1, "0");
    }

    #[test]
    fn a_mount_is_that_of_the_device_or_of_its_partition() {
        let fake = Fake::new();
        fake.disk("sda", "8:0").partition("sda", "sda1", "8:1").disk("sdb", "8:16");
        let pair = Setting::Mount(["sync", "async"]);
        let now = || present(pair, "sda", &Observed::default(), &Launch::default(), &fake.root());
        fake.mount("self", "8:16", "/other", "ext4", "/dev/sdb rw,sync");
        assert!(now().expect_err("of another disk").contains("nothing on it is mounted sync"));
        fake.mount("self", "8:1", "/data", "ext4", "/dev/sda1 rw,sync");
        let found = now().expect("a mount").candidates(tunable("mount-sync"));
        let expected = Action::Mount { points: vec!["/data".into()], word: "async".into() };
        assert_eq!(found, [("async".to_string(), expected)]);
    }

    #[test]
    fn what_this_machine_does_not_have_is_told() {
        let fake = Fake::new();
        let now = |setting| present(setting, "", &Observed::default(), &Launch::default(), &fake.root());
        assert!(now(Setting::Scheduler).expect_err("no device").contains("no device"));
        assert!(now(tunable("governor").setting).expect_err("no cpufreq").contains("no such file"));
        assert!(now(tunable("cpu-max").setting).expect_err("no group").contains("no controller cpu"));
    }
}
