// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb disk`: disks whose times are a model's. What serves them is [`plumb_sim::serve`]; here are
//! the words.

use crate::cli::{BackingWord, DiskCommand, DiskListArgs, DiskStopArgs, ServeArgs};
use anyhow::{bail, Context, Result};
use plumb_load::job::Bytes;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_report::terminal::Table;
use plumb_sim::serve::disk::{self, Dead, Running, User};
use plumb_sim::serve::{Backing, Disk, ServeOptions, Timing};
use plumb_sim::spec::{Medium, Spec};
use plumb_trace::units;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};

/// Length of a disk in memory when none is given.
const SIZE: u64 = 1 << 30;
const COLUMNS: usize = 100;
/// Median error of a device's times above which its machine is busy, ns; so is one above a tenth of
/// the model's median time.
const BUSY_P50: i64 = 60_000;
/// Likewise of the 99th percentile.
const BUSY_P99: i64 = 1_000_000;
/// How long a foreground disk waits for its users at its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A disk that was switched on.
#[derive(Serialize)]
struct Power<'n> {
    name: &'n str,
    power: bool,
}

impl Output for Power<'_> {
    const FORMAT: &'static Format = &formats::DISK_POWER;
}

/// Does it.
///
/// # Errors
/// A sentence that names the disk and the next step.
pub fn main(command: DiskCommand) -> Result<ExitCode> {
    match command {
        DiskCommand::Serve(args) => return serve(args),
        DiskCommand::List(args) if args.models => models(&args)?,
        DiskCommand::List(args) => list(&args)?,
        DiskCommand::Show { model, set, json } => {
            let spec = Spec::load(&model, &set)?;
            match json {
                true => json::write(io::stdout(), &spec)?,
                false => io::stdout().write_all(toml::to_string(&spec)?.as_bytes())?,
            }
        }
        DiskCommand::Stop(args) => return stop(&args),
        DiskCommand::Cut { name, keep, seed, json } => {
            let toll = disk::cut(&name, keep, seed)?;
            if json {
                json::write(io::stdout(), &toll)?;
            } else {
                writeln!(
                    io::stdout(),
                    "{name} is without power: {} unflushed sectors lost, {} kept, after {} flushes\nplumb disk power-on {name} switches it on",
                    toll.lost, toll.kept, toll.flushes
                )?;
            }
        }
        DiskCommand::PowerOn { name, force, json } => {
            disk::power_on(&name, force)?;
            if json {
                json::write(io::stdout(), &Power { name: &name, power: true })?;
            }
        }
        DiskCommand::Server => return Ok(ExitCode::from(if disk::server_main()? { 0 } else { 2 })),
        DiskCommand::Holder => disk::holder_main()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The length that is asked for, or that a file has.
fn size(args: &ServeArgs, spec: &Spec) -> Result<Bytes> {
    let BackingWord(backing) = &args.backing;
    let size = match (args.size, backing) {
        (Some(size), _) => size,
        (None, Backing::Memory) => Bytes(SIZE.min(spec.size.0)),
        (None, Backing::File(path)) => match std::fs::metadata(path) {
            Ok(file) if file.len() > 0 => Bytes(file.len()),
            Ok(_) => Bytes(SIZE.min(spec.size.0)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Bytes(SIZE.min(spec.size.0)),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        },
    };
    if size.0 == 0 || size.0 % 4096 != 0 {
        bail!("--size {size}: a disk's length is a multiple of 4K");
    }
    Ok(size)
}

fn serve(args: ServeArgs) -> Result<ExitCode> {
    let spec = Spec::load(&args.model, &args.set)?;
    let options = ServeOptions {
        size: size(&args, &spec)?,
        name: args.name,
        spec,
        backing: args.backing.0,
        seed: args.seed,
        log: args.log,
        nbd: args.nbd,
        no_device: args.no_device,
        owner: (!args.detach).then(std::process::id),
    };
    // From here on a signal ends it in order, whatever has been started.
    signals::catch(Calls::Interrupt);
    let asked = signals::asked();
    let running = disk::launch(options, !args.no_calibrate)?;
    let mut out = io::stdout().lock();
    let shown = if args.json {
        json::write_in_a_line(&mut out, &running.disk)
    } else {
        show(&mut out, &running.disk, args.detach)
    };
    let shown = shown.and_then(|()| out.flush());
    drop(out);
    if args.detach {
        shown?;
        if asked.load(Acquire) {
            disk::stop(&running.disk.name, false)?;
            bail!("interrupted; {} is ended", running.disk.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Who reads what is printed may be gone; the disk is served all the same.
    wait(&running, asked)
}

fn show(out: &mut dyn Write, disk: &Disk, detached: bool) -> io::Result<()> {
    let Disk { name, spec, size, seed, .. } = disk;
    match &disk.device {
        Some(device) => writeln!(out, "{}", device.display())?,
        None => writeln!(out, "no block device")?,
    }
    writeln!(out, "model:  {} ({})", spec.name, spec.about)?;
    let backing = match &disk.backing {
        Backing::Memory => "in memory".to_owned(),
        Backing::File(path) => format!("in {}", path.display()),
    };
    writeln!(out, "disk:   {name}, {size} {backing}, seed {seed}")?;
    if let Some(nbd) = &disk.nbd {
        writeln!(out, "NBD:    {nbd}")?;
    }
    if let Some(log) = &disk.log {
        writeln!(out, "log:    {}", log.display())?;
    }
    match (&disk.timing, &disk.untimed) {
        (Some(timing), _) => {
            writeln!(out, "timing: {}", words(timing))?;
            if let Some(busy) = busy(timing) {
                writeln!(out, "        {busy}")?;
            }
        }
        (None, Some(why)) => writeln!(out, "timing: not measured ({why})")?,
        (None, None) => writeln!(out, "timing: not measured")?,
    }
    if detached {
        writeln!(out, "plumb disk stop {name} ends it")
    } else {
        writeln!(out, "Ctrl-C ends it")
    }
}

/// `38 us`, with its sign where it is a difference.
fn us(ns: i64) -> String {
    let us = (ns as f64 / 1e3).round() as i64;
    format!("{us} us")
}

fn words(timing: &Timing) -> String {
    let signed = |ns: i64| if ns >= 500 { format!("+{}", us(ns)) } else { us(ns) };
    format!(
        "the way to the device takes {} and is taken off; what is left of the error: p50 {}, p99 {} ({} reads)",
        us(i64::try_from(timing.path_p50).unwrap_or(i64::MAX)),
        signed(timing.error_p50),
        signed(timing.error_p99),
        timing.requests
    )
}

/// What is said where the times are too far from the model's.
fn busy(timing: &Timing) -> Option<String> {
    let &Timing { path_p50, model_p50, error_p50, error_p99, .. } = timing;
    // Where the way is longer than the model's time, the error is the way's.
    let half =
        error_p50 > BUSY_P50.min(i64::try_from(model_p50 / 10).unwrap_or(i64::MAX)) && model_p50 > path_p50;
    let what = match (half, error_p99 > BUSY_P99) {
        (true, _) => format!("half of the reads take {} longer than the model says, or more", us(error_p50)),
        (false, true) => {
            format!("one read in a hundred takes {} longer than the model says, or more", us(error_p99))
        }
        (false, false) => return None,
    };
    Some(format!("the machine is busy: {what}; end what else runs on it, and serve the disk again"))
}

/// Waits for a signal, or for the disk's own end.
fn wait(running: &Running, asked: &AtomicBool) -> Result<ExitCode> {
    let name = &running.disk.name;
    let poll = Duration::from_millis(100);
    let died = |why: Option<String>| {
        let why = why.unwrap_or_else(|| "its server was killed".into());
        bail!("{name} has ended: {why}")
    };
    while !asked.swap(false, Acquire) {
        if let Some(why) = running.ended(poll) {
            // A signal for the whole group of processes.
            return if asked.load(Acquire) { Ok(ExitCode::SUCCESS) } else { died(why) };
        }
    }
    let begun = Instant::now();
    let mut said = false;
    loop {
        let users = disk::users(&running.disk);
        let patient = begun.elapsed() < PATIENCE && !asked.load(Acquire);
        if users.is_empty() || !patient {
            let force = !users.is_empty();
            if force {
                eprintln!("plumb: {name}: still in use; what is under way fails");
            }
            return match disk::stop(name, force) {
                Err(_) if disk::find(name).is_none_or(|d| d.pid != running.disk.pid) => Ok(ExitCode::SUCCESS),
                // Somebody came in between.
                Err(_) if !force => {
                    asked.store(true, Release);
                    continue;
                }
                done => done.map(|()| ExitCode::SUCCESS),
            };
        }
        if !std::mem::replace(&mut said, true) {
            let who: Vec<_> = users.iter().map(ToString::to_string).collect();
            eprintln!(
                "plumb: {name} is in use: {}; it ends when that is released, by force in {} s or at the next Ctrl-C",
                who.join(", "),
                PATIENCE.as_secs()
            );
        }
        if let Some(why) = running.ended(poll) {
            return died(why);
        }
    }
}

fn kind(spec: &Spec) -> &'static str {
    match spec.medium {
        Medium::Hdd(_) => "hard disk",
        Medium::Ssd(_) => "flash",
        Medium::Volume(_) => "cloud volume",
        Medium::Channels(_) => "few figures",
        Medium::Instant => "no time",
    }
}

/// A model in a line of the list, cut to [`COLUMNS`].
fn line(spec: &Spec) -> String {
    let size = units::bytes(spec.size.0);
    let line = format!("{:<12} {:<12} {size:>11}  {}", spec.name, kind(spec), spec.about);
    if line.chars().count() <= COLUMNS {
        return line;
    }
    let cut: String = line.chars().take(COLUMNS - 3).collect();
    format!("{}...", cut.trim_end())
}

#[derive(Serialize)]
struct Models {
    models: Vec<Spec>,
}

impl Output for Models {
    const FORMAT: &'static Format = &formats::DISK_MODELS;
}

fn models(args: &DiskListArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    let presets = Models { models: Spec::presets() };
    if args.json {
        return Ok(json::write(&mut out, &presets)?);
    }
    for spec in &presets.models {
        writeln!(out, "{}", line(spec))?;
    }
    writeln!(out, "plumb disk show MODEL prints all of one, and where its figures come from")?;
    Ok(())
}

#[derive(Serialize)]
struct Disks<'d> {
    disks: Vec<Listed<'d>>,
}

impl Output for Disks<'_> {
    const FORMAT: &'static Format = &formats::DISKS;
}

/// A disk, and its state.
#[derive(Serialize)]
struct Listed<'d> {
    #[serde(flatten)]
    disk: &'d Disk,
    /// `served`, `without power`, or `does not answer`.
    state: &'static str,
}

/// How a disk is, in a word of its table.
fn state(disk: &Disk) -> &'static str {
    match disk::powered(&disk.name) {
        Ok(true) => "served",
        Ok(false) => "without power",
        Err(_) => "does not answer",
    }
}

/// Names the disks that have ended and are mounted still.
fn dead(out: &mut dyn Write) -> Result<()> {
    for Dead { name, mounts, .. } in disk::dead() {
        for mount in mounts {
            let User::Mount { point, seen_by } = mount else { continue };
            let point = point.display();
            let enter = seen_by.map_or(String::new(), |pid| format!("nsenter -t {pid} -m "));
            writeln!(out, "{name}: dead, still mounted on {point}: {enter}umount {point}")?;
        }
    }
    Ok(())
}

fn list(args: &DiskListArgs) -> Result<()> {
    let disks = disk::list();
    let mut out = io::stdout().lock();
    if args.json {
        let listed = disks.iter().map(|disk| Listed { state: state(disk), disk }).collect();
        json::write(&mut out, &Disks { disks: listed })?;
        return dead(&mut io::stderr());
    }
    if disks.is_empty() {
        writeln!(out, "no disk is served; plumb disk serve MODEL serves one")?;
        return dead(&mut out);
    }
    let head = [
        "<name", "<state", "<device", "<model", "size", "<backing", "<NBD", "server", "reads", "writes",
        "<used",
    ];
    let mut table = Table::new(&head);
    for disk in &disks {
        let counts = disk::stats(&disk.name).ok();
        let count = |of: fn(&disk::Counts) -> u64| counts.as_ref().map_or("-".into(), |c| of(c).to_string());
        let backing = match &disk.backing {
            Backing::Memory => "memory".to_owned(),
            Backing::File(path) => path.display().to_string(),
        };
        let users: Vec<_> = disk::users(disk).iter().map(ToString::to_string).collect();
        table.row(vec![
            disk.name.clone(),
            state(disk).to_owned(),
            disk.device.as_ref().map_or("-".into(), |d| d.display().to_string()),
            disk.spec.name.clone(),
            disk.size.to_string(),
            backing,
            disk.nbd.clone().unwrap_or_else(|| "-".into()),
            disk.pid.to_string(),
            count(|c| c.reads),
            count(|c| c.writes),
            if users.is_empty() { "no".into() } else { users.join(", ") },
        ]);
    }
    table.write(&mut out)?;
    dead(&mut out)
}

#[derive(Serialize)]
struct Stops<'n> {
    disks: Vec<Stop<'n>>,
}

impl Output for Stops<'_> {
    const FORMAT: &'static Format = &formats::DISK_STOP;
}

#[derive(Serialize)]
struct Stop<'n> {
    name: &'n str,
    stopped: bool,
    /// Why it goes on.
    error: Option<String>,
}

fn stop(args: &DiskStopArgs) -> Result<ExitCode> {
    let names: Vec<String> =
        if args.all { disk::list().into_iter().map(|d| d.name).collect() } else { args.name.clone() };
    let mut failed = false;
    let mut disks = Vec::new();
    for name in &names {
        let why = disk::stop(name, args.force).err().map(|e| format!("{e:#}"));
        if let Some(why) = &why {
            failed = true;
            eprintln!("plumb: {why}");
        }
        disks.push(Stop { name, stopped: why.is_none(), error: why });
    }
    if args.json {
        json::write(io::stdout(), &Stops { disks })?;
    }
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timing_is_said_in_words() {
        let timing = Timing {
            requests: 200,
            path_p50: 38_100,
            model_p50: 5_000_000,
            error_p50: 2_000,
            error_p99: 35_400,
        };
        assert_eq!(
            words(&timing),
            "the way to the device takes 38 us and is taken off; what is left of the error: p50 +2 us, p99 +35 us (200 reads)"
        );
        let timing = Timing { error_p50: -1_600, error_p99: 0, ..timing };
        assert!(words(&timing).contains("p50 -2 us, p99 0 us"), "{}", words(&timing));
    }

    #[test]
    fn a_model_is_a_line_of_a_terminal() {
        for spec in Spec::presets() {
            let line = line(&spec);
            assert!(line.starts_with(&spec.name) && line.chars().count() <= COLUMNS, "{line}");
        }
        let mut spec = Spec::preset("nvme").expect("a preset");
        spec.about = "two words ".repeat(20);
        let line = line(&spec);
        assert!(line.contains(" GiB  two words") && line.ends_with("..."), "{line}");
    }

    #[test]
    fn a_busy_machine_is_told_from_one_that_is_not() {
        let said = |model_p50, error_p50, error_p99| {
            busy(&Timing { requests: 200, path_p50: 38_000, model_p50, error_p50, error_p99 })
        };
        assert_eq!(said(5_000_000, 59_000, 900_000), None);
        assert!(said(5_000_000, 61_000, 0).is_some_and(|s| s.contains("busy: half of the reads take 61 us")));
        assert!(said(80_000, 9_000, 0).is_some(), "more than a tenth of the model's time");
        assert!(said(5_000_000, 0, 1_001_000).is_some_and(|s| s.contains("one read in a hundred")));
        assert_eq!(said(0, 38_000, 50_000), None, "the way is longer than the model's time");
    }
}
