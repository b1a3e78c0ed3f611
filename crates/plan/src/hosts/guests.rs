// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that a repetition boots: one, or two that are joined by a network. `guest/guests.sh` boots them; a disk is
//! served here and is a virtio device there.

use super::{HostTask, FIRST_DEVICE};
use crate::file::Settings;
use crate::testbed;
use anyhow::{bail, Result};
use plumb_machine::child::{wait_all, Status, Waited};
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal, StoppedByUser};
use plumb_undo::timeout;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What boots guests, and what they begin with.
const FILES: [(&str, &str); 3] = [
    ("guests.sh", include_str!("../../guest/guests.sh")),
    ("guest.sh", include_str!("../../guest/guest.sh")),
    ("init", include_str!("../../guest/init")),
];
/// Memory of a guest, MiB.
const MEMORY: u64 = 1024;
/// What booting, and packing what was recorded, may take, s.
const AROUND: u64 = 300;

/// Runs the tasks, each in its guest.
pub(super) fn run(
    tasks: &[HostTask<'_>],
    settings: &Settings,
    work: &Path,
    output: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Vec<String>> {
    for (name, text) in FILES {
        super::put(work, name, text)?;
    }
    let mut tools: Vec<String> =
        settings.commands().filter_map(|(_, words)| words.first()).cloned().collect();
    tools.extend(settings.file_system.as_ref().map(|fs| format!("mkfs.{}", fs.kind)));
    let file_system = settings.file_system.as_ref().map_or("ext4", |fs| fs.kind.as_str());
    for (number, task) in tasks.iter().enumerate() {
        let spec = task.spec;
        let mut text = String::new();
        let mut say = |key: &str, value: &str| writeln!(text, "{key}={}", super::quoted(value));
        say("name", task.name)?;
        say("number", &number.to_string())?;
        say("kernel", spec.guest.as_deref().unwrap_or_default())?;
        say("memory", &spec.memory.map_or(MEMORY, |m| m.0 >> 20).to_string())?;
        let mode = if spec.virtual_time { "virtual" } else { "single" };
        say("mode", mode)?;
        say("delay_us", &spec.delay.map_or(0, |d| d.0 / 1000).to_string())?;
        say("kernel_options", &spec.kernel_options)?;
        say("others", &(tasks.len() - 1).to_string())?;
        say("tools", &tools.join(" "))?;
        say("file_system", file_system)?;
        let mut drives = Vec::new();
        for (name, device) in &task.devices {
            drives.push(testbed::serve_for_guest(name, device, guarded)?);
            let of_other = device.host.is_some().then(|| char::from(FIRST_DEVICE + drives.len() as u8 - 1));
            if let (Some(letter), Some(protocol)) = (of_other, device.protocol) {
                say("serve", protocol.word())?;
                say("disk", &format!("/dev/vd{letter}"))?;
            }
        }
        if let Some(protocol) = tasks[1..].iter().flat_map(|e| &e.devices).find_map(|(_, d)| d.protocol) {
            say("join", protocol.word())?;
        }
        say("drives", &drives.join(" "))?;
        super::put(&task.dir, "conf", &text)?;
    }
    boot(tasks, work, output, guarded)?;
    let failed = |task: &&HostTask<'_>| {
        std::fs::read_to_string(task.out().join("code")).is_ok_and(|c| c.trim() != "0")
    };
    let doubt = |task: &HostTask<'_>| {
        format!("host {}: its recording failed{}", task.name, last_words(&task.out().join("said"), 0))
    };
    Ok(tasks.iter().skip(1).filter(|t| t.recorded).filter(failed).map(doubt).collect())
}

fn boot(tasks: &[HostTask<'_>], work: &Path, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let said = append(output)?;
    let begin = said.metadata().map_or(0, |m| m.len());
    // Its own plan has the limit, for each of its steps.
    let limit = guarded.limit * 4 + Duration::from_secs(AROUND);
    let mut command = Command::new("bash");
    command.arg(work.join("guests.sh")).arg(work).arg(tasks.len().to_string());
    command.env("TIMEOUT", limit.as_secs().to_string()).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    let mut child = [guarded.command(command, true)?];
    child[0].go();
    let waited = wait_all(&mut child, Some(Instant::now() + limit), true);
    if waited != Waited::Ended {
        timeout::end(&mut child, &[], &[], guarded.journal.devices());
    }
    guarded.guardian.ended(child[0].pid());
    match (waited, child[0].status()) {
        (Waited::Stopped, _) => Err(StoppedByUser.into()),
        (Waited::Late, _) => bail!("the guests did not end in {} s", limit.as_secs()),
        (Waited::Ended, Some(Status::Exited(0))) => Ok(()),
        (Waited::Ended, _) => bail!("a guest failed{}", last_words(output, begin)),
    }
}
