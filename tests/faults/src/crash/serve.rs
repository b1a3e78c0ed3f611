// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that serves the disk, and clears up behind a checker that is gone.
//!
//! Words of the control socket, a line each, and the answers:
//! `serve`, `on`, `end`: `ok`; `flushes`: `ok N`; `cut PERCENT SEED`: `ok LOST KEPT FLUSHES`; or
//! `error WHY`.

use super::{namespace, within};
use crate::setup::forgetful::Forgetful;
use anyhow::{Context, Result};
use plumb_sim::serve::fuse;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Requests served at once.
const WORKERS: usize = 8;
/// How long the namespace of a checker that is gone may take to come down. The process ends then
/// in any case, and the kernel aborts the connection.
const GRACE: Duration = Duration::from_secs(7);

/// What the checker tells it.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// The disk's size, bytes.
    #[arg(long)]
    size: u64,
    /// The checker's directory; the disk will be mounted on the file `disk` in it. Removed at the end.
    #[arg(long)]
    home: PathBuf,
    /// A checker that says nothing for so many seconds is taken for gone.
    #[arg(long)]
    patience: u64,
}

struct Server {
    disk: Arc<Forgetful>,
    device: Arc<File>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Does what a line says; the answer.
    fn obey(&mut self, line: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("serve") => {
                for _ in 0..WORKERS {
                    let (device, disk) = (Arc::clone(&self.device), Arc::clone(&self.disk));
                    self.workers.push(std::thread::spawn(move || fuse::serve(&device, &*disk)));
                }
                Ok(String::new())
            }
            Some("flushes") => Ok(self.disk.flushes().to_string()),
            Some("cut") => {
                let mut number = || words.next().and_then(|w| w.parse().ok()).ok_or("cut: two numbers");
                let toll = self.disk.cut(number()?, number()?).map_err(|e| e.to_string())?;
                Ok(format!("{} {} {}", toll.lost, toll.kept, toll.flushes))
            }
            Some("on") => {
                self.disk.power_on();
                Ok(String::new())
            }
            Some("end") => Ok(String::new()),
            _ => Err(format!("{line}: not a word of this socket")),
        }
    }

    fn idle(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }
}

/// Serves until the checker says `end`, or is gone, and the disk has been unmounted.
///
/// # Errors
/// Standard input is no socket, no memory.
pub fn main(words: &Words) -> Result<()> {
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().context("control socket")?);
    let device = File::from(std::io::stdout().as_fd().try_clone_to_owned().context("/dev/fuse")?);
    control.set_read_timeout(Some(Duration::from_secs(words.patience.max(1)))).context("control socket")?;
    let disk = Arc::new(Forgetful::new(words.size)?);
    let mut server = Server { disk, device: Arc::new(device), workers: Vec::new() };
    let ordered = converse(&mut server, control);
    // From here on nobody may wait for this disk: all that comes fails at once.
    let _ = server.disk.cut(0, 0);
    let mount = words.home.join("disk");
    within(GRACE, || {
        // An orderly checker has unmounted it all, and only tells what it found.
        if !ordered {
            namespace::evacuate(&mount, std::process::id());
        }
        server.idle()
    });
    // This process sees none of the checker's mounts: only empty directories go.
    let _ = std::fs::remove_dir_all(&words.home);
    // Workers of a disk that is still mounted end here, and the connection with them.
    std::process::exit(0)
}

/// Obeys until `end`, and whether that came.
fn converse(server: &mut Server, control: UnixStream) -> bool {
    let Ok(mut answers) = control.try_clone() else { return false };
    for line in BufReader::new(control).lines() {
        let Ok(line) = line else { return false };
        let answer = match server.obey(&line) {
            Ok(words) => format!("ok {words}\n"),
            Err(why) => format!("error {why}\n"),
        };
        if answers.write_all(answer.as_bytes()).is_err() {
            return false;
        }
        if line == "end" {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_sim::serve::fuse::Backing;

    #[test]
    fn lines_are_obeyed_and_answered() {
        let device = Arc::new(File::open("/dev/null").expect("/dev/null"));
        let disk = Arc::new(Forgetful::new(4096).expect("disk"));
        let mut server = Server { disk, device, workers: Vec::new() };
        server.disk.write(&[1; 1024], 0).expect("write");
        server.disk.flush().expect("flush");
        server.disk.write(&[2; 1024], 0).expect("write");
        assert_eq!(server.obey("flushes"), Ok("1".to_owned()));
        assert_eq!(server.obey("cut 0 1"), Ok("2 0 1".to_owned()));
        assert!(server.disk.read(&mut [0; 512], 0).is_err());
        assert_eq!(server.obey("on"), Ok(String::new()));
        assert!(server.disk.read(&mut [0; 512], 0).is_ok());
        for wrong in ["", "cut", "cut 1", "cut x 1", "nonsense"] {
            assert!(server.obey(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_end_of_the_socket_is_no_orderly_end() {
        let device = Arc::new(File::open("/dev/null").expect("/dev/null"));
        let disk = Arc::new(Forgetful::new(4096).expect("disk"));
        let mut server = Server { disk, device, workers: Vec::new() };
        for (said, ordered) in [("flushes\nend\n", true), ("flushes\n", false)] {
            let (mut checker, served) = UnixStream::pair().expect("socket");
            checker.write_all(said.as_bytes()).expect("write");
            checker.shutdown(std::net::Shutdown::Write).expect("shutdown");
            assert_eq!(converse(&mut server, served), ordered);
        }
    }
}
