// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures one repetition of a cell on its ground, into the repetition's directory.

mod neighbour;

use super::file::{ChartKind, PlanFile, Settings};
use super::server::{stays_here, Running};
use super::state::End;
use super::testbed::Place;
use super::verdict::{of_load, of_run, shares_disk};
use crate::arguments;
use anyhow::{bail, Context, Result};
use plumb_machine::child::{wait_all, Child, Status, Waited, Within};
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal, StoppedByUser};
use plumb_undo::timeout;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// How long the command ran, ns.
    pub elapsed_ns: u64,
    pub end: End,
    /// Things that lower its worth.
    pub doubts: Vec<String>,
}

/// One of the processes that are measured.
#[derive(Debug)]
struct Part {
    words: Vec<OsString>,
    /// Where its result goes, of a load.
    json: Option<PathBuf>,
}

/// What a cell is measured on.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    pub places: &'a [Place],
    pub server: Option<&'a Running>,
    /// The repetition's directory.
    pub dir: &'a Path,
}

/// Runs `prepare` of a cell.
///
/// # Errors
/// It failed, took too long or was stopped.
pub fn prepare(settings: &Settings, ground: Ground<'_>, guarded: &mut GuardedJournal) -> Result<()> {
    let Some(words) = settings.prepare.as_ref().filter(|w| !w.is_empty()) else { return Ok(()) };
    let words = ground.command(words, 0);
    let mut command = ground.program(&words[0]);
    command.args(&words[1..]);
    // It may need more than what is measured: DBT-3's generator holds 300 MB of text.
    let output = ground.dir.join("output.txt");
    guarded.unconfined(|guarded| guarded.tool(command, &output)).context("prepare")
}

/// Measures.
///
/// # Errors
/// It could not be begun, or was stopped; whatever else goes wrong is its end.
pub fn measure(
    plan: &PlanFile,
    settings: &Settings,
    ground: Ground<'_>,
    guarded: &mut GuardedJournal,
) -> Result<Measured> {
    let Ground { places, dir, .. } = ground;
    let parts = parts(plan, settings, ground)?;
    let output = dir.join("output.txt");
    let said = append(&output)?;
    let begin = said.metadata().map_or(0, |m| m.len());
    let mut children = Vec::new();
    match &settings.record {
        Some(options) => {
            // The recorder has what it needs: its script takes the parts in.
            let command = recorded(options, &parts, ground, guarded.within.as_ref(), &said)?;
            children.push(guarded.unconfined(|guarded| guarded.command(command, true))?);
        }
        None => {
            for part in &parts {
                let command = plain(part, ground, &said)?;
                children.push(guarded.command(command, true)?);
            }
        }
    }
    let mut neighbour = neighbour::of(settings, ground, guarded)?;
    let begun = Instant::now();
    neighbour.iter_mut().for_each(Child::go);
    children.iter_mut().for_each(Child::go);
    let waited = wait_all(&mut children, Some(begun + guarded.limit), true);
    let elapsed_ns = begun.elapsed().as_nanos() as u64;
    // Before the neighbour ends: it may be what the others wait for.
    let stacks = (waited == Waited::Late).then(|| timeout::stacks(&children));
    let mut doubts = neighbour::end(&mut neighbour, ground, waited, guarded);
    if let Some(stacks) = stacks {
        let path = dir.join("stuck.txt");
        std::fs::write(&path, stacks).with_context(|| path.display().to_string())?;
    }
    if waited != Waited::Ended {
        doubts.extend(timeout::end(
            &mut children,
            &mounts(places),
            &disks(places),
            guarded.journal.devices(),
        ));
    }
    for child in &children {
        guarded.guardian.ended(child.pid());
    }
    let end = match waited {
        Waited::Stopped => return Err(StoppedByUser.into()),
        Waited::Late => End::TimedOut,
        Waited::Ended => End::Measured,
    };
    let mut measured = Measured { elapsed_ns, end, doubts };
    if measured.end == End::Measured {
        let codes = codes(settings, &children, &parts, dir);
        let why = || last_words(&output, begin);
        if settings.record.is_some() {
            of_run(dir, &mut measured, &why);
        }
        for (i, (part, code)) in parts.iter().zip(codes).enumerate() {
            let which = if parts.len() > 1 { format!("copy {}: ", i + 1) } else { String::new() };
            let shared = shares_disk(settings);
            of_load(part.json.as_deref(), code, &which, shared, &mut measured, &why);
        }
    }
    remove_empty(&parts);
    Ok(measured)
}

/// Where file systems of devices are mounted.
fn mounts(places: &[Place]) -> Vec<&Path> {
    places.iter().filter(|p| p.node.is_some()).filter_map(|p| p.dir.as_deref()).collect()
}

fn disks(places: &[Place]) -> Vec<&str> {
    places.iter().filter_map(|p| p.disk.as_deref()).collect()
}

fn codes(settings: &Settings, children: &[Child], parts: &[Part], dir: &Path) -> Vec<Option<Status>> {
    if settings.record.is_none() {
        return children.iter().map(Child::status).collect();
    }
    let path = dir.join("codes");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    let told: Vec<Option<Status>> = text.lines().map(|l| l.trim().parse().ok().map(shell_status)).collect();
    parts.iter().enumerate().map(|(i, _)| told.get(i).copied().flatten()).collect()
}

/// What the shell's `$?` says.
fn shell_status(code: i32) -> Status {
    if code > 128 {
        Status::Killed(code - 128)
    } else {
        Status::Exited(code)
    }
}

/// A result that a load did not come to write is none.
fn remove_empty(parts: &[Part]) {
    for path in parts.iter().filter_map(|p| p.json.as_ref()) {
        if std::fs::metadata(path).is_ok_and(|m| m.len() == 0) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The processes that are measured, each on its device.
fn parts(plan: &PlanFile, settings: &Settings, ground: Ground<'_>) -> Result<Vec<Part>> {
    let copies = settings.copies.unwrap_or(1).max(1) as usize;
    let chart = plan.charts.iter().any(|c| c.kind == ChartKind::Operations);
    (0..copies)
        .map(|i| match &settings.command {
            Some(words) if !words.is_empty() => Ok(Part { words: ground.command(words, i), json: None }),
            Some(_) => bail!("the command is empty"),
            None => load(settings, ground, i, chart),
        })
        .collect()
}

fn load(settings: &Settings, ground: Ground<'_>, i: usize, chart: bool) -> Result<Part> {
    let Ground { places, dir, .. } = ground;
    let all =
        if settings.copies.is_some() { std::slice::from_ref(&places[i % places.len()]) } else { places };
    let targets = all.iter().map(|place| place.target().map(Path::to_path_buf)).collect::<Option<Vec<_>>>();
    let targets = targets.context("the device has neither a node nor a directory")?;
    let (place, target) = (&all[0], targets[0].clone());
    // The words begin with `plumb`, whose place the program itself takes.
    let mut words = vec![program()];
    words.extend(ground.filled(&arguments::load_arguments(settings, &targets)[1..], i));
    let file = |first: &str, other: String| dir.join(if i == 0 { first.to_string() } else { other });
    let mut add = |option: &str, value: Option<&Path>| {
        let is_it = |w: &OsString| {
            w == option
                || w.as_bytes().strip_prefix(option.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        if !words.iter().any(is_it) {
            words.push(option.into());
            words.extend(value.map(|v| v.as_os_str().to_owned()));
        }
    };
    add("--json", None);
    add("--quiet", None);
    if chart {
        add("--log", Some(&file("log", format!("copy{}.log", i + 1))));
    }
    if place.is_bare() {
        // The plan's own guard has passed it; `prepare` may have filled it since.
        words.push("--destroy".into());
        words.push(target.into_os_string());
    }
    Ok(Part { words, json: Some(file("load.json", format!("load.{}.json", i + 1))) })
}

/// This program, by a path that other processes can use and that names it.
fn program() -> OsString {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path.into_os_string(),
        _ => format!("/proc/{}/exe", std::process::id()).into(),
    }
}

impl Ground<'_> {
    /// A command of the plan's, for copy `i`; the word `plumb` at its beginning is this program.
    fn command(&self, words: &[String], i: usize) -> Vec<OsString> {
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        if let Some(first) = words.first_mut().filter(|first| *first == "plumb") {
            *first = program();
        }
        self.filled(&words, i)
    }

    /// A program that finds the cell's server, where there is one, and no other.
    fn program(self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        if self.server.is_some() {
            stays_here(&mut command);
        }
        command
    }

    /// Words with their placeholders filled for copy `i`: the devices are those from the `i`th on, in a circle.
    fn filled(&self, words: &[OsString], i: usize) -> Vec<OsString> {
        let Ground { places, server, dir } = *self;
        let mut names: Vec<(String, OsString)> = vec![("{out}".into(), dir.into())];
        for n in 0..places.len() {
            let place = &places[(i + n) % places.len()];
            let number = if n == 0 { String::new() } else { (n + 1).to_string() };
            names.extend(place.dir.as_ref().map(|d| (format!("{{dir{number}}}"), d.into())));
            names.extend(place.node.as_ref().map(|d| (format!("{{device{number}}}"), d.into())));
        }
        if let Some(server) = server {
            names.extend([
                ("{server}".into(), server.url().into()),
                ("{socket}".into(), server.socket().into()),
            ]);
        }
        words.iter().map(|word| fill(word, &names)).collect()
    }
}

fn fill(word: &OsStr, names: &[(String, OsString)]) -> OsString {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some(first) = rest.first() {
        let known = names.iter().find(|(name, _)| rest.starts_with(name.as_bytes()));
        let taken = match known {
            Some((name, text)) => {
                out.extend_from_slice(text.as_bytes());
                name.len()
            }
            None => {
                out.push(*first);
                1
            }
        };
        rest = &rest[taken..];
    }
    OsString::from_vec(out)
}

fn plain(part: &Part, ground: Ground<'_>, said: &File) -> Result<Command> {
    let mut command = ground.program(&part.words[0]);
    command.args(&part.words[1..]).stdin(Stdio::null()).stderr(said.try_clone()?);
    match &part.json {
        Some(path) => command.stdout(File::create(path).with_context(|| path.display().to_string())?),
        None => command.stdout(said.try_clone()?),
    };
    Ok(command)
}

/// `plumb run` of all parts at once. A shell starts them, since each has files of its own.
fn recorded(
    options: &[String],
    parts: &[Part],
    ground: Ground<'_>,
    within: Option<&Within>,
    said: &File,
) -> Result<Command> {
    let dir = ground.dir;
    let mut command = ground.program(OsStr::new("/proc/self/exe"));
    // With --json its words go to standard output, and standard error is the command's.
    command.arg0("plumb").args(["run", "--quiet", "--json", "--no-report", "-o"]).arg(dir).args(options);
    if let Some(pid) = ground.server.and_then(Running::pid) {
        command.args(["--pid", &pid.to_string()]);
    }
    command.args(["--", "sh", "-c"]).arg(script(parts, within, dir));
    // What it prints lies in the run directory as well.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    Ok(command)
}

/// A script of sh that starts all parts, waits for them, and tells each one's exit code in `codes`.
fn script(parts: &[Part], within: Option<&Within>, dir: &Path) -> OsString {
    let mut text = within.map(confined).unwrap_or_default();
    let output = quoted(dir.join("output.txt").as_os_str());
    for (i, part) in parts.iter().enumerate() {
        for word in &part.words {
            text.extend(quoted(word));
            text.push(b' ');
        }
        match &part.json {
            Some(path) => text.extend([b">".to_vec(), quoted(path.as_os_str())].concat()),
            None => text.extend([b">>".to_vec(), output.clone()].concat()),
        }
        text.extend([b" 2>>".to_vec(), output.clone(), format!(" & p{i}=$!\n").into_bytes()].concat());
    }
    let codes = quoted(dir.join("codes").as_os_str());
    for i in 0..parts.len() {
        text.extend(
            [format!("wait \"$p{i}\"; echo $? >>").into_bytes(), codes.clone(), b"\n".to_vec()].concat(),
        );
    }
    OsString::from_vec(text)
}

/// Lines that confine the shell that runs them as [`Within::take`] does, or end it.
fn confined(within: &Within) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(group) = &within.group {
        let procs = quoted(group.join("cgroup.procs").as_os_str());
        text.extend([b"echo $$ >".to_vec(), procs, b" || exit 126\n".to_vec()].concat());
    }
    if !within.cpus.is_empty() {
        let cpus: Vec<String> = within.cpus.iter().map(usize::to_string).collect();
        text.extend(format!("taskset -pc {} $$ >/dev/null || exit 126\n", cpus.join(",")).into_bytes());
    }
    text
}

/// A word as sh reads it back, whatever bytes are in it.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut out = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let hostile = ["a b", "it's", "$HOME `id` \\ \"", "", "*", "-n", "new\nline"];
        let words = ["printf", "%s|"].iter().chain(hostile.iter()).map(OsString::from).collect();
        let json = Some(dir.path().join("it's here.json"));
        let part = Part { words, json };
        let status =
            Command::new("sh").arg("-c").arg(script(&[part], None, dir.path())).status().expect("sh");
        assert!(status.success());
        let said = std::fs::read_to_string(dir.path().join("it's here.json")).expect("output");
        assert_eq!(said, hostile.map(|w| format!("{w}|")).concat());
    }

    #[test]
    fn exit_codes_of_parts_are_told_in_their_order() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let part = |script: &str| Part { words: ["sh", "-c", script].map(OsString::from).into(), json: None };
        let parts = [part("sleep 0.1; exit 3"), part("echo said; exit 0"), part("kill -9 $$")];
        let status = Command::new("sh").arg("-c").arg(script(&parts, None, dir.path())).status().expect("sh");
        assert!(status.success());
        let settings = Settings { record: Some(Vec::new()), ..Settings::default() };
        let told = codes(&settings, &[], &parts, dir.path());
        let expected = [Status::Exited(3), Status::Exited(0), Status::Killed(9)].map(Some);
        assert_eq!(told, expected);
        assert!(!dir.path().join("codes").exists());
        assert_eq!(std::fs::read_to_string(dir.path().join("output.txt")).expect("output"), "said\n");
    }

    #[test]
    fn placeholders_are_filled_once_and_others_stay() {
        let (a, b) = (OsString::from("/a{out}"), OsString::from("/b"));
        let names = [("{dir}".to_string(), a), ("{dir2}".to_string(), b.clone()), ("{out}".to_string(), b)];
        let filled = fill(OsStr::new("of={dir}/x {dir2} {dir3} ${HOME} ü"), &names);
        assert_eq!(filled, "of=/a{out}/x /b {dir3} ${HOME} ü");
    }
}
