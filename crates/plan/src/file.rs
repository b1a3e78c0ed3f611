// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan as its file says it. An unknown key is an error.
//!
//! What a cell is, is said by [`Settings`]: the plan's `[cell]` has those of all cells, each
//! level of a factor has those that it changes. [`PlanFile::parse`] reads the text
//! (`keys` names what is not known, with its line), `validate` looks whether it holds together,
//! `merge` puts settings over each other.

use super::keys;
use anyhow::{anyhow, Result};
use plumb_load::database::Dialect;
use plumb_load::job::{Bytes, Time};
use serde::{de, Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PlanFile {
    /// One word: what `plumb plan run NAME` knows it by.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// The question that it answers.
    pub purpose: String,
    /// What is expected to come out.
    pub hypothesis: String,
    /// Paper or tool that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How long all of it takes, about.
    pub takes: Time,
    /// Repetitions of every cell.
    #[serde(default = "one")]
    pub repeat: u32,
    /// In which order cells run.
    #[serde(default)]
    pub order: Order,
    /// Factors whose levels stay together in a blocked order, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
    /// Seed of the order.
    #[serde(default = "one")]
    pub seed: u32,
    /// No repetition is begun that would not end within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Time>,
    /// A repetition that takes longer is ended, and named.
    #[serde(default = "ten_minutes")]
    pub limit: Time,
    /// Figures that the report is about, the first is the main one, as in `write.mean`; all that there are
    /// when it is empty. See [`super::table`] for their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<String>,
    /// Devices by name.
    #[serde(default, rename = "device", skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, DeviceSpec>,
    /// Hosts by name.
    #[serde(default, rename = "host", skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostSpec>,
    /// What every cell has.
    #[serde(default)]
    pub cell: Settings,
    /// What is varied.
    #[serde(default, rename = "factor", skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
    /// Combinations that are left out.
    #[serde(default, rename = "skip", skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Skip>,
    /// Charts of the report.
    #[serde(default, rename = "chart", skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
}

impl PlanFile {
    /// Reads a plan's text.
    ///
    /// # Errors
    /// What is no TOML, no key of a plan, or no value of its key; with the line.
    pub fn parse(text: &str) -> Result<PlanFile> {
        let said = |e: toml::de::Error| anyhow!("{}", e.to_string().trim());
        let table = toml::de::DeTable::parse(text).map_err(said)?;
        keys::known(text, table.get_ref())?;
        toml::from_str(text).map_err(said)
    }

    /// The plan as a file that says the same.
    ///
    /// # Errors
    /// A number that TOML has no words for.
    pub fn text(&self) -> Result<String> {
        Ok(toml::to_string(self)?)
    }

    /// The factor of that name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|f| f.name == name)
    }
}

fn one() -> u32 {
    1
}

fn ten_minutes() -> Time {
    Time(600_000_000_000)
}

/// In which order cells run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All cells shuffled, anew in each repetition.
    #[default]
    Random,
    /// Shuffled within each combination of the `blocks` factors; those in shuffled order too.
    Blocked,
    /// As the file has them, the last factor changing fastest.
    Given,
}

/// A device of a plan: one of the three.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DeviceSpec {
    /// A model that is served meanwhile (`plumb disk list --models`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Changes to the model, `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Length of a served device [1G].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Seed of a served device.
    #[serde(default = "one")]
    pub seed: u32,
    /// A block device of this machine. It must be empty, unless `--destroy` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A directory that is there: no file system is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The host whose device it is, if that is not the one that the cell is measured on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How it comes from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// A host on which cells are measured, or that is recorded meanwhile: one that is there, or a guest.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostSpec {
    /// Words before those of a command that is to run there: `["ssh", "root@db1"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<String>,
    /// A guest that each repetition boots: the version of a Debian kernel (`"6.12"`), or the path of a kernel's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Memory of a guest [1G].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// A guest with one CPU whose clock counts instructions: its times do not depend on this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_time: bool,
    /// What leaves a guest's network device is held back so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// More words of a guest's kernel command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel_options: String,
}

/// How a host has another one's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// iSCSI, with the kernel's own target and initiator.
    Iscsi,
    /// NVMe over TCP.
    Nvme,
}

impl Protocol {
    /// As a plan writes it.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Iscsi => "iscsi",
            Protocol::Nvme => "nvme",
        }
    }
}

/// A factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels, two or more.
    #[serde(rename = "level")]
    pub levels: Vec<Level>,
}

/// A level of a factor: in a file its name stands among its settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Level {
    /// Its name; also its value for a figure over a number.
    pub name: String,
    /// What it costs, in any unit; an environment's price is the sum over its levels. None: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// What it changes in the cell.
    #[serde(flatten)]
    pub settings: Settings,
}

// By hand: beside `flatten` serde lets every unknown key pass.
impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        let mut all = toml::Table::deserialize(deserializer)?;
        let name = match all.remove("name") {
            Some(toml::Value::String(name)) => name,
            Some(_) => return Err(de::Error::custom("a level's name must be text: write it in quotes")),
            None => return Err(de::Error::custom("a level has no name")),
        };
        let price = match all.remove("price") {
            Some(toml::Value::Float(price)) => Some(price),
            Some(toml::Value::Integer(price)) => Some(price as f64),
            Some(_) => return Err(de::Error::custom(format!("level {name}: its price must be a number"))),
            None => None,
        };
        let said = |e: toml::de::Error| {
            de::Error::custom(format!("level {name}: {}", e.to_string().trim().replace('\n', " ")))
        };
        let settings = Settings::deserialize(toml::Value::Table(all)).map_err(said)?;
        Ok(Level { name, price, settings })
    }
}

/// What a cell is. Of two, the later one's keys win; tables are merged key by key.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The host that it is measured on; none: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Hosts that are recorded concurrently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_hosts: Option<OneOrMore>,
    /// Names of the devices that it works on; one or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<OneOrMore>,
    /// The file system that is made on each; none: the device itself is the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// The database server that runs meanwhile, with its data on the first device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Most memory of the server and what is measured together, with the page cache that they fill (a cgroup).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// So many CPUs run these, the first ones of those that plumb itself may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Attributes of the devices' queues (`/sys/block/*/queue/`): scheduler first, then the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue: BTreeMap<String, Value>,
    /// Kernel parameters, as in `"vm.dirty_ratio" = 10`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, Value>,
    /// Files of /proc or /sys that are set, path and value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub write: BTreeMap<PathBuf, Value>,
    /// A command that runs on the mounted file system before the measurement, untimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Vec<String>>,
    /// A command that runs concurrently with the measurement, and is ended when that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Vec<String>>,
    /// Unmount and mount between `prepare` and the measurement, so that nothing is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remount: Option<bool>,
    /// Preset of `plumb load`, if the load is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Options of `plumb load`, long names; `true` for one without a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub load: BTreeMap<String, Value>,
    /// A command that is measured instead of a load. `{dir}` and `{device}` stand for the (first) device's
    /// mount point and node, `{dir2}` for the second one's, `{out}` for the repetition's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// So many of the load or command at once, as processes of their own, each on the next device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Record it: options of `plumb run`; an empty list for its defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Vec<String>>,
}

/// One name or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a name, or a list of names")]
pub enum OneOrMore {
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}

impl Settings {
    /// Its commands with their keys.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        let all = [("prepare", &self.prepare), ("neighbour", &self.neighbour), ("command", &self.command)];
        all.into_iter().filter_map(|(key, words)| Some((key, words.as_ref()?)))
    }
}

impl OneOrMore {
    /// All of them.
    pub fn all(&self) -> Vec<&str> {
        match self {
            OneOrMore::One(name) => vec![name],
            OneOrMore::More(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// A value that is written in any of TOML's ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be true, false, a number, text, or a list of texts")]
pub enum Value {
    /// `true` of an option without a value; `false` takes it away again.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// Words.
    Text(String),
    /// An option that is given several times, or a list of words.
    Several(Vec<String>),
}

impl Value {
    /// Its words as they are written into a file of /proc or /sys, or behind an option; none of `true` and `false`.
    pub fn words(&self) -> Vec<String> {
        match self {
            Value::Flag(_) => Vec::new(),
            Value::Whole(n) => vec![n.to_string()],
            Value::Real(n) => vec![n.to_string()],
            Value::Text(text) => vec![text.clone()],
            Value::Several(all) => all.clone(),
        }
    }
}

/// How a file system is made and mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSystem {
    /// `ext4`, `ext3`, `ext2`, `xfs`, `btrfs`, ...: mkfs.KIND makes it, mount -t KIND mounts it. Empty only in a
    /// level that changes something else of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Options of mkfs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// Options of mount, comma-separated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mount: String,
}

/// A database server of the cell's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Which; none only in a level that changes something else of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Dialect>,
    /// Its settings by name, as in `shared_buffers = "128MB"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
    /// The user that it runs as; none: the one of its package, or `nobody`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Combinations that are left out: those that have all of these levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Skip {
    /// Level of each factor; of several, any of them.
    pub when: BTreeMap<String, OneOrMore>,
    /// Why.
    pub why: String,
}

/// A chart of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Chart {
    /// File name, without its ending.
    pub name: String,
    /// What it shows, in words.
    pub title: String,
    /// What is drawn.
    pub kind: ChartKind,
    /// The figure; for operations the kind of operation; for an account `spans` or `steps`.
    pub figure: String,
    /// Of a scatter, what is on the horizontal axis, as in `fsync:elapsed`: a level of `by`, and its figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Factor on the horizontal axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Factor whose levels are lines or groups of bars; each further combination is a chart of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Horizontal lines, in the figure's unit; of operations, turns of the disk are drawn where the model has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<f64>,
    /// Logarithmic vertical axis.
    #[serde(default)]
    pub log: bool,
}

/// `fsync:elapsed`: a level of a factor, and a figure of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Number of the level.
    pub level: usize,
    pub name: &'a str,
    pub figure: &'a str,
}

impl Chart {
    /// What a scatter has on its horizontal and its vertical axis, with these levels of `by`.
    pub fn places<'a>(&'a self, levels: &'a [String]) -> Option<[Place<'a>; 2]> {
        let place = |text: &'a str| {
            let known = levels.iter().enumerate().filter_map(|(level, name)| {
                let figure = text.strip_prefix(name.as_str())?.strip_prefix(':')?;
                Some(Place { level, name, figure })
            });
            // A level's name may have a colon in it.
            known.max_by_key(|place| place.name.len())
        };
        Some([place(self.x.as_deref()?)?, place(&self.figure)?])
    }
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// A figure of each cell with its interval.
    Bars,
    /// A figure over a factor of numbers.
    Lines,
    /// Every operation of a cell's first repetition, by its number.
    Operations,
    /// Where the time of each of a load's steps went: stacked bars.
    Account,
    /// A figure of one load against a figure of another one, over environments.
    Scatter,
    /// A figure over two factors of numbers: a heat map.
    Surface,
}
