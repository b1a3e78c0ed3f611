// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Database servers of a test's own: unprivileged, in a temporary directory, stopped when dropped.

use super::{must, output, signal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Servers of databases refuse to run as root.
pub fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).current_dir("/");
    command
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("directory");
    must(Command::new("chown").arg("65534:65534").arg(dir.path()));
    dir
}

fn await_answer(mut answers: impl FnMut() -> bool, name: &str) {
    let begin = Instant::now();
    while !answers() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{name} does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub struct Postgres {
    pub dir: tempfile::TempDir,
    pub postmaster: Child,
}

impl Postgres {
    /// The directory of the newest version's programs, where Debian puts them.
    pub fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|e| e.path().join("bin"));
        versions.filter(|bin| bin.join("initdb").exists() && bin.join("pgbench").exists()).max()
    }

    pub fn start(bin: &Path, settings: &[&str]) -> Self {
        Self::with_log(bin, settings, None)
    }

    /// With its write-ahead log in a directory that does not exist yet.
    pub fn with_log(bin: &Path, settings: &[&str], log: Option<&Path>) -> Self {
        let dir = directory();
        let data = dir.path().join("data");
        let mut initdb = unprivileged(&bin.join("initdb"));
        initdb.args(["-U", "postgres", "-A", "trust", "-D"]).arg(&data);
        log.map(|log| initdb.arg("--waldir").arg(log));
        must(&mut initdb);
        let mut command = unprivileged(&bin.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(dir.path()).args(["-c", "listen_addresses="]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let said = std::fs::File::create(dir.path().join("said")).expect("a file");
        let postmaster = command.stdout(Stdio::null()).stderr(said).spawn().expect("postgres");
        let server = Self { dir, postmaster };
        await_answer(|| server.psql("select 1").status.success(), "postgres");
        server
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-h").arg(self.dir.path()).args(["-U", "postgres"]);
        command
    }

    pub fn psql(&self, sql: &str) -> Output {
        output(self.command("psql").args(["-X", "-q", "-A", "-t", "-c", sql, "postgres"]))
    }

    pub fn ask(&self, sql: &str) -> String {
        let out = self.psql(sql);
        assert!(out.status.success(), "{sql}: {}", stderr(&out));
        String::from_utf8_lossy(&out.stdout).trim().into()
    }

    pub fn url(&self) -> String {
        format!("postgresql:///postgres?host={}&user=postgres", self.dir.path().display())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Fast shutdown.
        signal(&self.postmaster, libc::SIGINT);
        let _ = self.postmaster.wait();
    }
}

pub struct Mariadb {
    pub dir: tempfile::TempDir,
    pub child: Child,
}

impl Mariadb {
    pub fn start() -> Self {
        let dir = directory();
        let data = dir.path().join("data");
        must(
            unprivileged(Path::new("mariadb-install-db"))
                // Two that start in one directory take each other's temporary tables for their own of last time.
                .env("TMPDIR", dir.path())
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .arg(format!("--datadir={}", data.display())),
        );
        let mut command = unprivileged(Path::new("mariadbd"));
        command.env("TMPDIR", dir.path());
        command.args(["--no-defaults", "--skip-networking", "--performance-schema=ON"]);
        command.arg(format!("--datadir={}", data.display()));
        command.arg(format!("--socket={}", dir.path().join("socket").display()));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mariadbd");
        let server = Self { dir, child };
        await_answer(|| output(&mut server.client("select 1")).status.success(), "mariadbd");
        server
    }

    pub fn client(&self, sql: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", "-N", "-B", "-S"]).arg(self.dir.path().join("socket"));
        command.args(["-e", sql]);
        command
    }

    pub fn ask(&self, sql: &str) -> String {
        must(&mut self.client(sql))
    }

    pub fn url(&self, database: &str) -> String {
        format!("mariadb://root@localhost/{database}?socket={}", self.dir.path().join("socket").display())
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        signal(&self.child, libc::SIGTERM);
        let _ = self.child.wait();
    }
}
