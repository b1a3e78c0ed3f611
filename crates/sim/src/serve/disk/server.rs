// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's process: `plumb disk server`, what to serve as JSON on standard input, what becomes
//! of it as lines of JSON on standard output.
//!
//! It ends when it is told to (control socket, signal), when its owner does, and when the process
//! that holds the device is gone; each time when nobody uses the device any more, or after a while in
//! which users may let go of it. From then on everything fails, so that nobody waits for ever.

use super::super::fuse::{self, Change, Connection};
use super::super::log::Log;
use super::super::loop_device::{backing, Changed};
use super::super::media::Media;
use super::super::realtime::Realtime;
use super::super::registry::{start_of, Entry, Registry};
use super::super::{nbd, Backing, Disk, ServeOptions};
use super::calibrate::{self, Measured};
use super::control::{self, Answer, Order};
use super::holder::{Holder, Leash};
use super::{process, users, Launch, Told};
use anyhow::{bail, Context, Result};
use plumb_machine::process::on_end;
use plumb_machine::signals;
use plumb_machine::system::available_memory;
use plumb_machine::Root;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that take requests from the kernel.
const READERS: usize = 3;
/// How long users may take to let go of a device that is to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long they may take when everything fails.
const FORCED: Duration = Duration::from_secs(3);

enum Event {
    Stop { force: bool, why: String },
    HolderGone,
    File(Change),
}

fn tell(what: &Told) {
    // Who started it may be gone.
    let mut out = std::io::stdout().lock();
    let _ = serde_json::to_writer(&mut out, what).map_err(Into::into).and_then(|()| {
        out.write_all(b"\n")?;
        out.flush()
    });
}

/// Serves until it is over.
///
/// # Errors
/// Standard input says no [`Launch`]. All others are told on standard output.
pub fn main() -> Result<bool> {
    plumb_machine::descriptors::close_inherited();
    let launch: Launch = serde_json::from_reader(std::io::stdin().lock()).context("standard input")?;
    process::prepare();
    let (events, heard) = channel();
    let told = events.clone();
    // The first one asks, the next ones force.
    let mut force = false;
    signals::on_each(move |signal| {
        drop(told.send(Event::Stop { force, why: format!("signal {signal}") }));
        force = true;
    })?;
    match Server::start(launch, &events) {
        Ok(server) => {
            tell(&Told::Ready(Box::new(server.entry.disk.clone())));
            let realtime = Arc::clone(&server.realtime);
            let why = server.run(&heard);
            // Of the whole log, which is written to its end by now.
            let lost = realtime.lines_lost();
            tell(&Told::Ended(if lost == 0 {
                why
            } else {
                format!("{why}; {lost} lines of its log were lost")
            }));
            Ok(true)
        }
        Err(e) => {
            tell(&Told::Failed(format!("{e:#}")));
            Ok(false)
        }
    }
}

fn media(options: &ServeOptions) -> Result<Media> {
    let size = options.size.0;
    let media = match &options.backing {
        Backing::Memory => {
            if let Some(available) = available_memory(&Root::real()).filter(|&available| available < size) {
                bail!(
                    "a disk of {} does not fit into the memory, of which {} MiB are available; choose a smaller --size, or keep it in a file: --backing FILE",
                    options.size,
                    available >> 20
                );
            }
            Media::memory(size).context("memory for the disk")?
        }
        Backing::File(path) => Media::file(path, size).context("the file that the disk is kept in")?,
    };
    Ok(media)
}

/// Of the queue of the loop device: as that of the disk would be. One without a volatile cache gets
/// no flushes, and no request is larger than what goes to the model in one piece.
fn queue(rotational: bool, volatile: bool) -> Vec<(&'static str, &'static str)> {
    let rotational = if rotational { "1" } else { "0" };
    let mut queue = vec![("rotational", rotational), ("max_sectors_kb", "1024")];
    // Either way: whoever had the device before may have left it as it is not.
    queue.push(("write_cache", if volatile { "write back" } else { "write through" }));
    queue
}

/// The block device, and what it is made of.
struct Device {
    connection: Arc<Connection>,
    /// The mount, which nothing else holds but the loop device.
    _mount: OwnedFd,
    leash: Leash,
    holder: u32,
    path: PathBuf,
    changed: Vec<Changed>,
}

struct Server {
    registry: Registry,
    entry: Entry,
    realtime: Arc<Realtime>,
    device: Option<Device>,
    nbd: Option<nbd::Server>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its socket goes, too.
        self.nbd = None;
        self.realtime.stop();
        self.registry.remove(&self.entry);
    }
}

impl Server {
    fn start(launch: Launch, events: &Sender<Event>) -> Result<Self> {
        let Launch { options, calibrate } = launch;
        if options.no_device && options.nbd.is_none() {
            bail!("no block device and no NBD is nothing to serve; give --nbd HOST:PORT, or leave --no-device out");
        }
        if options.size.0 == 0 || options.size.0 % 4096 != 0 {
            bail!("a disk of {} bytes: its length must be a multiple of 4096", options.size);
        }
        if let Some(owner) = options.owner {
            let told = events.clone();
            let why = format!("its owner, process {owner}, ended");
            let lost = format!("process {owner}, whose disk it would be, has ended");
            on_end(owner, &lost, move || drop(told.send(Event::Stop { force: false, why })))?;
        }
        let model = options.spec.build(options.size.0, options.seed)?;
        let volatile = model.volatile_cache();
        let pid = std::process::id();
        let disk = Disk {
            name: options.name.clone().unwrap_or_default(),
            device: None,
            // Before it listens there: who is killed behind that leaves a socket.
            nbd: options.nbd.clone(),
            spec: options.spec.clone(),
            size: options.size,
            seed: options.seed,
            backing: options.backing.clone(),
            log: options.log.clone(),
            pid,
            start: start_of(pid).context("/proc/self/stat")?,
            timing: None,
            untimed: None,
        };
        let registry = Registry::find();
        let mut entry = Entry { disk, ready: false, holder: None, changed: Vec::new() };
        registry.claim(&mut entry, &options.spec.name)?;
        let undo = Claimed(&registry, entry.clone());
        let media = media(&options)?;
        let log = options.log.as_ref().map(|path| Log::create(path).context("the log")).transpose()?;
        let realtime = Realtime::start(model, media, log).context("the model's clock")?;
        std::mem::forget(undo);
        let mut server = Self { registry, entry, realtime, device: None, nbd: None };
        if options.no_device {
            server.entry.disk.untimed = Some("no block device".into());
        } else {
            if calibrate {
                server.realtime.hold_log();
            }
            server.attach(&options, calibrate, volatile, events)?;
        }
        if let Some(address) = &options.nbd {
            let export = nbd::Export {
                name: server.entry.disk.name.clone(),
                about: options.spec.about.clone(),
                rotational: options.spec.rotational(),
            };
            let nbd = nbd::serve_as(address, Arc::clone(&server.realtime), export)?;
            server.entry.disk.nbd = Some(nbd.address().to_owned());
            server.nbd = Some(nbd);
        }
        server.listen(events)?;
        server.entry.ready = true;
        server.registry.update(&server.entry)?;
        Ok(server)
    }

    fn attach(
        &mut self,
        options: &ServeOptions,
        calibrate: bool,
        volatile: bool,
        events: &Sender<Event>,
    ) -> Result<()> {
        let fuse = fuse::open()?;
        let mount = fuse::detached(&fuse)?;
        let name = format!("plumb-disk-{}", self.entry.disk.name);
        let connection = Connection::new(fuse, &name, options.size.0);
        for _ in 0..READERS {
            let (connection, realtime) = (Arc::clone(&connection), Arc::clone(&self.realtime));
            let events = events.clone();
            let serve = move || {
                process::soon();
                connection.serve(&realtime, &|change| drop(events.send(Event::File(change))));
            };
            std::thread::Builder::new().name("fuse".into()).spawn(serve).context("thread")?;
        }
        let mut holder = Holder::start()?;
        let file = PathBuf::from(format!("/proc/{}/fd/{}/{name}", std::process::id(), mount.as_raw_fd()));
        let (path, changed) = holder.attach(&file, &queue(options.spec.rotational(), volatile))?;
        self.entry.holder = Some(holder.pid());
        self.entry.changed.clone_from(&changed);
        self.entry.disk.device = Some(path.clone());
        // Before they are made, so that whoever finds the entry of a killed server takes them back.
        self.registry.update(&self.entry)?;
        holder.settle()?;
        if calibrate {
            match self.calibrate(options, &mut holder)? {
                Ok(timing) => self.entry.disk.timing = Some(timing),
                Err(why) => self.entry.disk.untimed = Some(why),
            }
        } else {
            self.entry.disk.untimed = Some("--no-calibrate".into());
        }
        let pid = holder.pid();
        let gone = events.clone();
        let leash = holder.watch(move || drop(gone.send(Event::HolderGone)))?;
        self.device = Some(Device { connection, _mount: mount, leash, holder: pid, path, changed });
        Ok(())
    }

    fn calibrate(&self, options: &ServeOptions, holder: &mut Holder) -> Result<Measured> {
        let timing = calibrate::calibrate(&self.realtime, holder)?;
        // The user's first request finds a new disk.
        self.realtime.reset(options.spec.build(options.size.0, options.seed)?);
        Ok(timing)
    }

    fn listen(&self, events: &Sender<Event>) -> Result<()> {
        let path = self.registry.socket(&self.entry.disk.name);
        let listener = UnixListener::bind(&path).with_context(|| path.display().to_string())?;
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).with_context(|| path.display().to_string())?;
        let (realtime, events) = (Arc::clone(&self.realtime), events.clone());
        let connection = self.device.as_ref().map(|d| Arc::clone(&d.connection));
        let obey = move |order| match order {
            Order::Stop { force } => {
                let _ = events.send(Event::Stop { force, why: "it was told to".into() });
                Answer::Done
            }
            Order::Cut { percent, .. } if percent > 100 => Answer::Failed("more than 100 percent".into()),
            Order::Cut { .. } if !realtime.powered() => Answer::Failed("is without power already".into()),
            Order::Cut { percent, seed } => {
                realtime.cut_power(percent, seed).map_or_else(|e| Answer::Failed(e.to_string()), Into::into)
            }
            Order::Power => Answer::Power(realtime.powered()),
            Order::PowerOn => {
                realtime.power_on();
                Answer::Done
            }
            Order::Stats => match &connection {
                Some(connection) => Answer::Stats(connection.counts()),
                None => Answer::Failed("it has no block device".into()),
            },
        };
        let listen = move || control::listen(&listener, &obey);
        std::thread::Builder::new().name("control".into()).spawn(listen).context("thread")?;
        Ok(())
    }

    /// Serves until it is over; why it is.
    fn run(mut self, heard: &Receiver<Event>) -> String {
        let mut end: Option<(Instant, String)> = None;
        let mut forced = false;
        loop {
            let event = match &end {
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((when, _)) => heard.recv_timeout(when.saturating_duration_since(Instant::now())),
            };
            let why = match event {
                Ok(Event::Stop { force, why }) => {
                    if force {
                        self.realtime.fail_everything();
                    }
                    let first = end.is_none();
                    if let (true, Some(device)) = (first || force, &mut self.device) {
                        // What nobody but the kernel waits for needs no model.
                        let others = users::of(&device.path, &[device.holder, std::process::id()]);
                        self.realtime.without_model(others.is_empty());
                        device.leash.let_go();
                    }
                    if self.device.is_none() {
                        return why;
                    }
                    if force && !forced {
                        forced = true;
                        end = Some((Instant::now() + FORCED, why));
                    } else if first {
                        end = Some((Instant::now() + GRACE, why));
                    }
                    continue;
                }
                Ok(Event::HolderGone) if end.is_some() => continue,
                Ok(Event::HolderGone) => {
                    if let Some(device) = &self.device {
                        let file = format!("plumb-disk-{}", self.entry.disk.name);
                        device.changed.iter().for_each(|change| change.restore_after(&file));
                    }
                    let why = "the process that held its device ended".to_owned();
                    if self.device.as_ref().is_none_or(|d| d.connection.opened() == 0) {
                        return why;
                    }
                    end = Some((Instant::now() + GRACE, why));
                    continue;
                }
                Ok(Event::File(Change::Released)) => "its device was detached",
                Ok(Event::File(Change::Ended)) => "its FUSE connection was aborted",
                Err(RecvTimeoutError::Disconnected) => "nobody can tell it anything",
                Err(RecvTimeoutError::Timeout) if !forced => {
                    forced = true;
                    self.realtime.fail_everything();
                    end = end.map(|(_, why)| (Instant::now() + FORCED, why));
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => "its device was still in use",
            };
            self.release();
            return end.map_or_else(|| why.to_owned(), |(_, why)| why);
        }
    }

    /// The kernel tells of the file's release a moment before the device is free.
    fn release(&mut self) {
        if let Some(device) = &self.device {
            let name = format!("plumb-disk-{}", self.entry.disk.name);
            let gone = || backing(&device.path).is_none_or(|b| !b.ends_with(&name));
            super::super::loop_device::within(Duration::from_millis(500), gone);
        }
    }
}

/// A name that was taken is given back when nothing comes of it.
struct Claimed<'a>(&'a Registry, Entry);

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}
