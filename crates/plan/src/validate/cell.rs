// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a cell can be: what its settings ask for fits together, and its load or command can be called.

use super::super::arguments;
use super::super::file::{DeviceSpec, PlanFile, Settings, Value};
use super::{one_of, Made};
use crate::program::Program;
use anyhow::{bail, Context, Result};
use plumb_trace::units;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Component, Path};

/// Less than a server or a program takes to begin, bytes.
const LEAST_MEMORY: u64 = 4 << 20;

/// A plan's cells, one after the other; what many of them share is looked at once.
pub(crate) struct Cells<'a> {
    plan: &'a PlanFile,
    program: &'a dyn Program,
    loads: HashSet<Vec<OsString>>,
    records: HashSet<Vec<String>>,
    made: Made,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(plan: &'a PlanFile, program: &'a dyn Program) -> Self {
        Cells { plan, program, loads: HashSet::new(), records: HashSet::new(), made: Made::default() }
    }

    /// Looks at a cell.
    ///
    /// # Errors
    /// What cannot be, with the level that says so.
    pub(crate) fn cell(&mut self, levels: &[usize], cell: &Settings) -> Result<()> {
        let place = |has: &dyn Fn(&Settings) -> bool| place(self.plan, levels, has);
        let devices = devices(self.plan, cell).with_context(|| place(&|s| s.device.is_some()))?;
        hosts(self.plan, cell, &devices).with_context(|| {
            place(&|s| s.host.is_some() || s.record_hosts.is_some() || s.device.is_some())
        })?;
        file_system(cell, &devices).with_context(|| place(&|s| s.file_system.is_some()))?;
        confined(cell).with_context(|| place(&|s| s.cpus.is_some() || s.memory.is_some()))?;
        server(cell, &devices).with_context(|| place(&|s| s.server.is_some()))?;
        measured(cell, &devices).with_context(|| place(&|s| s.copies.is_some() || s.command.is_some()))?;
        kernel(cell, &devices, &place)?;
        for (key, words) in cell.commands() {
            let said_in = || place(&|s| s.commands().any(|(of_level, _)| of_level == key));
            command(words, cell, &devices).with_context(|| key.to_string()).with_context(said_in)?;
        }
        if cell.command.is_none() {
            let words = arguments::load_arguments(cell, &[]);
            if !self.loads.contains(&words) {
                let load = arguments::load_cells(cell, self.program)
                    .with_context(|| self.place_of_load(levels, cell))?;
                self.made.load(&load);
                self.loads.insert(words);
            }
        }
        self.made.recorded |= cell.record.is_some();
        if let Some(options) = cell.record.as_ref().filter(|o| !self.records.contains(*o)) {
            arguments::check_record(options, self.program).with_context(|| place(&|s| s.record.is_some()))?;
            self.records.insert(options.clone());
        }
        Ok(())
    }

    /// The figures that the cells so far make.
    pub(crate) fn made(self) -> Made {
        self.made
    }

    /// Where the option stands that is not known, or else the last one that says something of the load.
    fn place_of_load(&self, levels: &[usize], cell: &Settings) -> String {
        let preset = cell.preset.as_deref();
        let unknown = cell.load.keys().find(|key| !self.program.has_option(preset, key));
        match unknown {
            Some(key) => place(self.plan, levels, &|s| s.load.contains_key(key)),
            None => place(self.plan, levels, &|s| !s.load.is_empty() || s.preset.is_some()),
        }
    }
}

/// Names the place of what a level says.
type Place<'a> = dyn Fn(&dyn Fn(&Settings) -> bool) -> String + 'a;

/// The last of the cell's levels that says something, or `[cell]`.
fn place(plan: &PlanFile, levels: &[usize], has: &dyn Fn(&Settings) -> bool) -> String {
    let of_levels = plan.factors.iter().zip(levels).rev();
    let mut saying = of_levels.map(|(f, &l)| (f, &f.levels[l])).filter(|(_, level)| has(&level.settings));
    saying.next().map_or_else(
        || "[cell]".into(),
        |(factor, level)| format!("factor {}, level {}", factor.name, level.name),
    )
}

/// The cell's devices, in its order.
fn devices<'a>(plan: &'a PlanFile, cell: &Settings) -> Result<Vec<&'a DeviceSpec>> {
    let known: Vec<String> = plan.devices.keys().cloned().collect();
    let names = cell.device.as_ref().map(|d| d.all()).unwrap_or_default();
    let mut found = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        one_of(name, &known, "device")?;
        if names[..i].contains(name) {
            bail!("device: \"{name}\" is there twice");
        }
        found.extend(plan.devices.get(*name));
    }
    Ok(found)
}

/// The hosts are there, all of one kind, and as many as there can be.
fn hosts(plan: &PlanFile, cell: &Settings, devices: &[&DeviceSpec]) -> Result<()> {
    let known = super::host_names(plan);
    let also = cell.record_hosts.as_ref().map(|b| b.all()).unwrap_or_default();
    let Some(own) = &cell.host else {
        if !also.is_empty() || devices.iter().any(|d| d.host.is_some()) {
            bail!(
                "record-hosts, and a device of another host, need host: the one that the cell is measured on"
            );
        }
        return Ok(());
    };
    let exported: Vec<&str> = devices.iter().filter_map(|d| d.host.as_deref()).collect();
    for name in std::iter::once(&own.as_str()).chain(&also).chain(&exported) {
        one_of(name, &known, "host")?;
    }
    if let Some(twice) =
        also.iter().enumerate().find_map(|(i, name)| also[..i].contains(name).then_some(name))
    {
        bail!("record-hosts: \"{twice}\" is there twice");
    }
    if also.iter().chain(&exported).any(|name| name == own) {
        bail!("\"{own}\" is the host that the cell is measured on: record-hosts and a device's host name others");
    }
    if !also.is_empty() && cell.record.is_none() {
        bail!("record-hosts: give record too: the cell itself is not recorded");
    }
    if exported.len() > 1 {
        bail!("at most one device of a cell is another host's");
    }
    let guests = |name: &str| plan.hosts.get(name).is_some_and(|h| h.guest.is_some());
    let others: BTreeSet<&str> = also.iter().chain(&exported).copied().collect();
    if others.iter().any(|name| guests(name) != guests(own)) {
        bail!("the hosts of a cell are all guests, or none is");
    }
    if !guests(own) {
        if let Some(device) = exported.first() {
            bail!("host \"{device}\" is no guest: a plan exports devices of guests; export it there, log in, and give its path");
        }
        return Ok(());
    }
    if others.len() > 1 {
        bail!("a cell has at most two guests");
    }
    if others.is_empty() && plan.hosts.get(own).is_some_and(|h| h.delay.is_some()) {
        bail!("host \"{own}\": delay is of the network between two guests, and the cell has one");
    }
    let virtual_time = |name: &&str| plan.hosts.get(*name).is_some_and(|h| h.virtual_time);
    if !others.is_empty() && std::iter::once(&own.as_str()).chain(&others).any(virtual_time) {
        bail!("virtual-time is for a cell of one guest: two have no clock in common");
    }
    if devices.iter().any(|d| d.path.is_some()) {
        bail!("a guest's device is a model, or a directory of the guest (/tmp is in its memory)");
    }
    if virtual_time(&own.as_str()) && devices.iter().any(|d| d.model.is_some()) {
        bail!("virtual-time: a model takes real time; give a directory of the guest, as in directory = \"/tmp\"");
    }
    Ok(())
}

fn is_directory(device: &DeviceSpec) -> bool {
    device.directory.is_some()
}

fn file_system(cell: &Settings, devices: &[&DeviceSpec]) -> Result<()> {
    let Some(made) = &cell.file_system else {
        if cell.remount == Some(true) {
            bail!("remount: there is no file system that is made; give file-system, or leave it out");
        }
        return Ok(());
    };
    if made.kind.is_empty() {
        bail!("file-system: has no kind, as in file-system.kind = \"ext4\"");
    }
    if made.kind.starts_with(['.', '-']) || !made.kind.chars().all(super::is_word) {
        bail!("file-system.kind = \"{}\": must be a word, as in \"ext4\"", made.kind);
    }
    if devices.is_empty() {
        bail!("file-system: there is no device to make it on; give device");
    }
    if let Some(dir) = devices.iter().find_map(|d| d.directory.as_ref()) {
        bail!(
            "file-system: {} is a directory, in which none is made; leave file-system out, or give a model or path",
            dir.display()
        );
    }
    Ok(())
}

/// Something is left of the machine.
fn confined(cell: &Settings) -> Result<()> {
    if cell.cpus == Some(0) {
        bail!("cpus = 0: nothing would run");
    }
    if cell.memory.is_some_and(|most| most.0 < LEAST_MEMORY) {
        bail!("memory: below {}, nothing would run", units::bytes(LEAST_MEMORY));
    }
    Ok(())
}

/// A server has a directory to work in, which its user reaches: on another host a cell's directory is root's alone.
fn server(cell: &Settings, devices: &[&DeviceSpec]) -> Result<()> {
    let Some(server) = &cell.server else { return Ok(()) };
    if server.kind.is_none() {
        bail!("server: has no kind, as in server.kind = \"postgresql\"");
    }
    if !devices.iter().any(|d| is_directory(d)) && (devices.is_empty() || cell.file_system.is_none()) {
        bail!("server: there is no place for its data; give device, with file-system or a directory");
    }
    if cell.host.is_some() {
        bail!("server: runs on this machine alone; leave host out");
    }
    for (name, value) in &server.settings {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if name.starts_with('-') || !name.chars().all(plain) {
            bail!("server.settings: \"{name}\" is no name of a setting");
        }
        if crate::server::is_ours(name) {
            bail!("server.settings: \"{name}\" is the plan's own: a server works in a directory of its own, and listens there alone");
        }
        if value.words().iter().any(|word| word.contains('\n')) {
            bail!("server.settings.{name}: its value is one line");
        }
    }
    Ok(())
}

/// There is one thing to measure, and every device has its part in it.
fn measured(cell: &Settings, devices: &[&DeviceSpec]) -> Result<()> {
    let load = !cell.load.is_empty() || cell.preset.is_some();
    match (load, cell.command.is_some()) {
        (false, false) => bail!("there is nothing to measure: give load, preset or command"),
        (true, true) => bail!("there are a load and a command: a cell measures one of them"),
        _ => {}
    }
    let copies = cell.copies.unwrap_or(1) as usize;
    if copies == 0 {
        bail!("copies = 0: nothing would run");
    }
    if !load {
        return Ok(());
    }
    if devices.is_empty() {
        bail!("a load needs a device to work on; give device");
    }
    let bare = cell.file_system.is_none() && devices.iter().any(|d| !is_directory(d));
    if cell.copies.is_none() && devices.len() > 1 && bare {
        bail!(
            "{} devices without a file system, and one load: give file-system, so that its workers lie on them in \
             turn, or copies = {0}",
            devices.len()
        );
    }
    if copies > devices.len() && bare {
        bail!(
            "copies = {copies} on {} without a file system: two loads do not share a device; give file-system, or load.threads",
            if devices.len() == 1 { "one device".into() } else { format!("{} devices", devices.len()) }
        );
    }
    Ok(())
}

/// Queue attributes, kernel parameters, files of /proc and /sys.
fn kernel(cell: &Settings, devices: &[&DeviceSpec], place: &Place<'_>) -> Result<()> {
    for (key, value) in &cell.queue {
        let good = || -> Result<()> {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = key.strip_prefix("iosched/").unwrap_or(key);
            if name.is_empty() || !name.chars().all(plain) {
                bail!("is no file in a device's queue directory; examples: scheduler, nr_requests, iosched/read_expire");
            }
            if devices.is_empty() || devices.iter().any(|d| is_directory(d)) {
                bail!("only a model or a path has a queue of its own: a directory's device is not changed");
            }
            one_value(value)
        };
        good()
            .with_context(|| format!("queue.{key}"))
            .with_context(|| place(&|s| s.queue.contains_key(key)))?;
    }
    for (key, value) in &cell.sysctl {
        let good = || -> Result<()> {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c);
            if key.split('.').any(|part| part.is_empty() || part.starts_with('/') || !part.chars().all(plain))
            {
                bail!("is no kernel parameter; example: \"vm.dirty_ratio\"");
            }
            one_value(value)
        };
        good()
            .with_context(|| format!("sysctl.\"{key}\""))
            .with_context(|| place(&|s| s.sysctl.contains_key(key)))?;
    }
    for (path, value) in &cell.write {
        let good = || may_be_set(path).and_then(|()| one_value(value));
        good()
            .with_context(|| format!("write.\"{}\"", path.display()))
            .with_context(|| place(&|s| s.write.contains_key(path)))?;
    }
    Ok(())
}

/// A file of /proc or /sys whose old value can be put back.
fn may_be_set(path: &Path) -> Result<()> {
    let within = path.starts_with("/proc") || path.starts_with("/sys");
    if !within || path.components().any(|c| c == Component::ParentDir) {
        bail!("only files of /proc and /sys are set");
    }
    if path == Path::new("/proc/sysrq-trigger") {
        bail!("what it does cannot be put back");
    }
    Ok(())
}

fn one_value(value: &Value) -> Result<()> {
    match value {
        Value::Flag(_) => bail!("true is not what is written there: give 1"),
        Value::Several(_) => bail!("has one value, not several"),
        Value::Text(text) if text.is_empty() || text.contains('\n') => {
            bail!("its value is a line that is not empty")
        }
        _ => Ok(()),
    }
}

/// A command's words: its placeholders stand for something that the cell has.
fn command(words: &[String], cell: &Settings, devices: &[&DeviceSpec]) -> Result<()> {
    if words.first().is_none_or(|w| w.trim().is_empty()) {
        bail!("is empty: its first word is the program");
    }
    if let Some(unknown) = words.iter().find_map(|w| unknown_placeholder(w)) {
        bail!(
            "{unknown}: there is no such placeholder; there are {{dir}}, {{device}}, {{dir2}}, {{device2}}, ..., \
             {{server}}, {{socket}} and {{out}}. Braces of the command's own have blanks, as in {}",
            unknown.replace('{', "{ ").replace('}', " }")
        );
    }
    if cell.server.is_none() && words.iter().any(|w| w.contains("{server}") || w.contains("{socket}")) {
        bail!("{{server}}: the cell has no server; give server.kind");
    }
    for placeholder in words.iter().flat_map(|w| placeholders(w)) {
        let (what, number) = placeholder;
        let Some(device) = number.checked_sub(1).and_then(|i| devices.get(i)) else {
            bail!("{{{what}{number}}}: the cell has {} devices", devices.len());
        };
        match what {
            "dir" if !is_directory(device) && cell.file_system.is_none() => {
                bail!("{{dir}}: the device has no file system; give file-system, or write {{device}}")
            }
            "device" if is_directory(device) => {
                bail!("{{device}}: the plan's device is a directory; write {{dir}}")
            }
            _ => {}
        }
    }
    Ok(())
}

/// One word in braces that stands for nothing; `${x}` is the shell's.
fn unknown_placeholder(word: &str) -> Option<String> {
    let known = |inner: &str| {
        let number = ["dir", "device"].iter().find_map(|what| inner.strip_prefix(what));
        matches!(inner, "out" | "server" | "socket")
            || number.is_some_and(|n| n.is_empty() || n.parse::<u32>().is_ok())
    };
    let plain = |inner: &&str| {
        inner.starts_with(|c: char| c.is_ascii_lowercase())
            && inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let braces = word.match_indices('{').filter(|(at, _)| !word[..*at].ends_with('$'));
    let mut inner = braces.filter_map(|(at, _)| word[at + 1..].split_once('}').map(|(inner, _)| inner));
    inner.find(|inner| plain(inner) && !known(inner)).map(|inner| format!("{{{inner}}}"))
}

/// `{dir}`, `{device}`, `{dir2}`, ...: which, and of which device from 1. Other braces are the command's own.
fn placeholders(word: &str) -> Vec<(&'static str, usize)> {
    let mut all = Vec::new();
    for part in word.split('{').skip(1) {
        let Some((inner, _)) = part.split_once('}') else { continue };
        for what in ["dir", "device"] {
            match inner.strip_prefix(what) {
                Some("") => all.push((what, 1)),
                Some(number) => all.extend(number.parse().ok().map(|n| (what, n))),
                None => {}
            }
        }
    }
    all
}
