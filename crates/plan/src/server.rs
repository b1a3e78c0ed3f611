// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A database server of a repetition: made in a directory of its own by an unprivileged user, started, and stopped.
//!
//! It listens on a Unix socket in that directory alone, which is removed by undoing [`Change::Tree`].

use super::file::{Server, Value};
use super::testbed::Place;
use anyhow::{bail, Context, Result};
use plumb_load::database::Dialect;
use plumb_machine::child::{wait_all, Child, Waited};
use plumb_machine::signals::stopped;
use plumb_machine::user;
use plumb_undo::change::{Change, SERVER};
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal};
use plumb_undo::timeout;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The database that every server has.
pub const DATABASE: &str = "bench";
/// Between two questions whether it answers.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest path of a socket that the kernel takes (unix(7)), less the name that PostgreSQL gives it.
const SOCKET: usize = 107 - "/.s.PGSQL.5432".len();
/// How long it may take to stop when the user does not want to wait.
const SOON: Duration = Duration::from_secs(10);

/// Where a kind of server has its programs.
///
/// # Errors
/// It is not installed; says what to do.
pub fn programs(kind: Dialect) -> Result<PathBuf> {
    let (found, package) = match kind {
        Dialect::Postgresql => {
            let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
            let version =
                |bin: &PathBuf| -> Option<u32> { bin.parent()?.file_name()?.to_str()?.parse().ok() };
            let all = versions.map(|e| e.path().join("bin")).filter(|bin| bin.join("initdb").exists());
            (all.max_by_key(version), "postgresql")
        }
        Dialect::Mariadb => {
            let all = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/bin"].map(PathBuf::from);
            (all.into_iter().find(|dir| dir.join("mariadbd").exists()), "mariadb-server")
        }
    };
    found.with_context(|| format!("{}'s server is not installed: apt install {package}", kind.name()))
}

/// The user of its package.
fn user_of(kind: Dialect) -> &'static str {
    match kind {
        Dialect::Postgresql => "postgres",
        Dialect::Mariadb => "mysql",
    }
}

/// How [`Running::url`] begins, for whoever reads a plan before it runs.
pub fn sample_url(kind: Dialect) -> &'static str {
    match kind {
        Dialect::Postgresql => "postgresql:///bench?host=/run/server&user=postgres",
        Dialect::Mariadb => "mariadb://root:@localhost/bench?socket=/run/server/socket",
    }
}

/// Settings that say where a server is found, where its data lies and what it says: the plan's own, see [`Running::url`]. In small letters, with
/// `_` for `-`, and without [`PREFIXES`].
const OURS: &[&str] = &[
    "aria_log_dir_path",
    "bind_address",
    "config_file",
    "data_directory",
    "datadir",
    "external_pid_file",
    "extra_port",
    "general_log_file",
    "hba_file",
    "ident_file",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "listen_addresses",
    "log_destination",
    "log_directory",
    "log_error",
    "logging_collector",
    "networking",
    "pid_file",
    "port",
    "slow_query_log_file",
    "socket",
    "tmpdir",
    "unix_socket_directories",
    "user",
];
/// What MariaDB takes before a setting's name.
const PREFIXES: [&str; 5] = ["loose_", "skip_", "disable_", "enable_", "maximum_"];
/// Settings whose names are the beginning of one of ours.
const WHOLE: [&str; 2] = ["general_log", "slow_query_log"];
/// Fewer letters of a name stand for no other one.
const SHORTEST: usize = 4;

/// Whether a setting is the plan's own, however it is written; MariaDB also takes the beginning of a name for it.
pub fn is_ours(setting: &str) -> bool {
    let name = setting.to_ascii_lowercase().replace('-', "_");
    let mut name = name.as_str();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    let begins = |ours: &str| name.len() >= SHORTEST && !WHOLE.contains(&name) && ours.starts_with(name);
    OURS.iter().any(|ours| *ours == name || begins(ours))
}

/// How the variables begin that lead clients to another server, whatever a URL says (libpq: PGHOSTADDR, PGSERVICE; Connector/C:
/// MYSQL_TCP_PORT).
const ELSEWHERE: [&str; 3] = ["PG", "MYSQL_", "MARIADB_"];

/// Takes from a command what of this process's environment would lead it to another server than the cell's.
pub fn stays_here(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if ELSEWHERE.iter().any(|begin| name.as_encoded_bytes().starts_with(begin.as_bytes())) {
            command.env_remove(name);
        }
    }
}

/// A server that was made.
#[derive(Debug)]
pub struct Running {
    spec: Server,
    programs: PathBuf,
    /// Its directory: data, and the socket.
    dir: PathBuf,
    /// What it says.
    log: PathBuf,
    /// Where in that its work begins: before, it says that it does not answer yet.
    worked: usize,
    /// User and group that it runs as; none: ours.
    ids: Option<(u32, u32)>,
    child: Option<Child>,
}

/// Makes the server of a repetition in `dir`, and starts it.
///
/// # Errors
/// It is not installed, the directory is none that its user can work in, or it does not start: its last words.
pub fn start(spec: &Server, places: &[Place], dir: &Path, guarded: &mut GuardedJournal) -> Result<Running> {
    let kind = spec.kind.context("server: has no kind")?;
    let place = places.iter().find_map(|p| p.dir.as_ref());
    let above = place.context("server: there is no directory for it; give file-system, or a directory")?;
    // In containers numbers of processes are alike, and directories may be shared.
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    let own = above.join(format!("{SERVER}{}-{:05x}", std::process::id(), moment & 0xf_ffff));
    if own.as_os_str().len() > SOCKET {
        bail!("{}: too long for a socket's path; name a shorter directory with -o", own.display());
    }
    if own.symlink_metadata().is_ok() {
        bail!("{}: is there already", own.display());
    }
    let mut server = Running {
        programs: programs(kind)?,
        ids: ids(spec, kind)?,
        spec: spec.clone(),
        log: dir.join("server.log"),
        worked: 0,
        dir: own,
        child: None,
    };
    guarded.journal.will(Change::Tree { path: server.dir.clone() })?;
    server.make(guarded, &dir.join("output.txt"))?;
    server.go(guarded)?;
    server.ask(&format!("create database {DATABASE}"), guarded)?;
    Ok(server)
}

/// The user that it runs as, where we may choose: of the plan, of the package, or nobody.
fn ids(spec: &Server, kind: Dialect) -> Result<Option<(u32, u32)>> {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    if let Some(name) = &spec.user {
        let ids = user::ids(name).with_context(|| format!("server.user: there is no user {name}"))?;
        return Ok(Some(ids));
    }
    let found = user::ids(user_of(kind)).or_else(|| user::ids("nobody"));
    Ok(Some(found.with_context(|| {
        format!("there is no user {} to run the server as; give server.user", user_of(kind))
    })?))
}

impl Running {
    fn kind(&self) -> Dialect {
        self.spec.kind.unwrap_or(Dialect::Postgresql)
    }

    /// Where clients find it: of PostgreSQL a directory, of MariaDB a socket.
    pub fn socket(&self) -> PathBuf {
        match self.kind() {
            Dialect::Postgresql => self.dir.clone(),
            Dialect::Mariadb => self.dir.join("socket"),
        }
    }

    /// The address of its database for `plumb load --to`, and of PostgreSQL for psql and pgbench.
    pub fn url(&self) -> String {
        let socket = self.socket();
        match self.kind() {
            Dialect::Postgresql => {
                format!("postgresql:///{DATABASE}?host={}&user=postgres", socket.display())
            }
            Dialect::Mariadb => {
                format!("mariadb://root:@localhost/{DATABASE}?socket={}", socket.display())
            }
        }
    }

    /// Its first process; none while it is stopped.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(Child::pid)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        self.as_user(&mut command);
        command
    }

    fn as_user(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.ids {
            command.uid(uid).gid(gid);
        }
        stays_here(command);
        // MariaDB removes what it takes for its temporary tables of last time: those of another server, in a directory of both.
        command.current_dir("/").env("TMPDIR", &self.dir);
    }

    /// Makes its directory and data. Nothing is synchronised: [`Running::settle`] does, once.
    fn make(&self, guarded: &mut GuardedJournal, output: &Path) -> Result<()> {
        let shown = self.dir.display();
        // Whoever reaches its socket may do all that the server's user may.
        std::fs::DirBuilder::new().mode(0o700).create(&self.dir).with_context(|| shown.to_string())?;
        if let Some((uid, gid)) = self.ids {
            std::os::unix::fs::lchown(&self.dir, Some(uid), Some(gid)).with_context(|| shown.to_string())?;
        }
        let mut reach = Command::new("test");
        self.as_user(reach.arg("-w").arg(&self.dir));
        guarded.tool(reach, output).with_context(|| {
            format!("{shown}: the server's user cannot work there; name another directory with -o, as below /var/tmp")
        })?;
        let data = self.dir.join("data");
        let tool = match self.kind() {
            Dialect::Postgresql => {
                let mut tool = self.command("initdb");
                tool.args(["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8", "-D"])
                    .arg(&data);
                tool
            }
            Dialect::Mariadb => {
                let mut tool = Command::new("mariadb-install-db");
                self.as_user(&mut tool);
                tool.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                tool.arg(format!("--datadir={}", data.display()));
                tool
            }
        };
        guarded.tool(tool, output).with_context(|| format!("making {}'s data", self.kind().name()))
    }

    fn server_command(&self) -> Command {
        let data = self.dir.join("data");
        let settings = self.spec.settings.iter();
        match self.kind() {
            Dialect::Postgresql => {
                let mut command = self.command("postgres");
                for (name, value) in settings {
                    command.arg("-c").arg(format!("{name}={}", word(value)));
                }
                // Of two the last one holds.
                command.arg("-D").arg(data).arg("-k").arg(&self.dir).args(["-c", "listen_addresses="]);
                command
            }
            Dialect::Mariadb => {
                let mut command = self.command("mariadbd");
                command.args(["--no-defaults", "--skip-log-bin"]);
                command.args(settings.map(|(name, value)| format!("--{name}={}", word(value))));
                // Of two the last one holds.
                command.arg("--skip-networking");
                command.arg(format!("--datadir={}", data.display()));
                command.arg(format!("--socket={}", self.socket().display()));
                command.arg(format!("--pid-file={}", self.dir.join("pid").display()));
                command
            }
        }
    }

    /// Starts it, and waits until it answers.
    fn go(&mut self, guarded: &mut GuardedJournal) -> Result<()> {
        let said = append(&self.log)?;
        let mut command = self.server_command();
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let mut child = guarded.command(command, true)?;
        child.go();
        self.child = Some(child);
        let until = Instant::now() + guarded.limit;
        while !self.answers(guarded)? {
            if let Some(why) = self.ended() {
                bail!("{why}");
            }
            if Instant::now() > until {
                bail!(
                    "{} does not answer after {} s{}",
                    self.kind().name(),
                    guarded.limit.as_secs(),
                    last_words(&self.log, 0)
                );
            }
            std::thread::sleep(PAUSE);
        }
        self.worked = std::fs::metadata(&self.log).map_or(0, |log| log.len() as usize);
        Ok(())
    }

    /// Why it runs no more, if it was started and does not.
    pub fn ended(&mut self) -> Option<String> {
        let child = self.child.as_mut()?;
        if !child.has_ended() {
            return None;
        }
        let how = child.status().map_or(String::new(), |status| format!(" ({status})"));
        Some(format!("{}'s server ended{how}{}", self.kind().name(), last_words(&self.log, 0)))
    }

    /// What its log says of a process of its own that died: the others go on, and the query of that one is lost.
    pub fn crashed(&self) -> Option<String> {
        self.said(|line| line.contains(" was terminated by signal "))
    }

    /// The last error in its log: a client may say less of it.
    pub fn complaint(&self) -> Option<String> {
        let marks = ["ERROR:  ", "FATAL:  ", "PANIC:  ", "[ERROR]"];
        self.said(|line| marks.iter().any(|mark| line.contains(mark)))
    }

    /// The last line of its log since it answered that is one, without its time.
    fn said(&self, is_it: impl Fn(&str) -> bool) -> Option<String> {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(self.worked..).unwrap_or_default());
        let line = log.lines().rfind(|line| is_it(line))?;
        // `2026-01-31 12:00:00.000 UTC [77] LOG:  text`, `2026-01-31 12:00:00 0 [ERROR] text`.
        let said = line.split_once("] ").map_or(line, |(_, said)| said);
        let said = said.strip_prefix("LOG:").unwrap_or(said).trim();
        Some(format!("{}: {said}", self.kind().name()))
    }

    fn client(&self, sql: &str) -> Command {
        match self.kind() {
            Dialect::Postgresql => {
                let mut command = Command::new("psql");
                stays_here(&mut command);
                command.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-h"]).arg(self.socket());
                command.args(["-c", sql, "postgres"]);
                command
            }
            Dialect::Mariadb => {
                let mut command = Command::new("mariadb");
                stays_here(&mut command);
                command
                    .args(["--no-defaults", "-u", "root", "-B", "-N", "-S"])
                    .arg(self.socket())
                    .args(["-e", sql]);
                command
            }
        }
    }

    fn answers(&self, guarded: &mut GuardedJournal) -> Result<bool> {
        let status =
            guarded.status_of(self.client("select 1"), Path::new("/dev/null"), Stdio::null(), None)?;
        Ok(status.success())
    }

    fn ask(&self, sql: &str, guarded: &mut GuardedJournal) -> Result<()> {
        guarded.tool(self.client(sql), &self.log).with_context(|| format!("{}: {sql}", self.kind().name()))
    }

    /// Writes out what `prepare` left in the caches, so that the measurement does not pay for it. MariaDB keeps changed pages in
    /// its buffer pool, and writes them when it likes.
    ///
    /// # Errors
    /// It does not answer, or the device fails.
    pub fn settle(&self, guarded: &mut GuardedJournal) -> Result<()> {
        if self.kind() == Dialect::Postgresql {
            self.ask("checkpoint", guarded)?;
        }
        let dir = std::fs::File::open(&self.dir).with_context(|| self.dir.display().to_string())?;
        // SAFETY: the descriptor is open through the call.
        match unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&dir)) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error())
                .with_context(|| format!("{}: syncfs", self.dir.display())),
        }
    }

    /// Starts it again after [`Running::stop`].
    ///
    /// # Errors
    /// It does not start.
    pub fn again(&mut self, guarded: &mut GuardedJournal) -> Result<()> {
        self.go(guarded)
    }

    /// Stops it in good order, with everything written; by force where that takes longer than the limit. What had to be done.
    pub fn stop(&mut self, guarded: &mut GuardedJournal) -> Vec<String> {
        let Some(child) = self.child.take() else { return Vec::new() };
        let pid = child.pid();
        // Of PostgreSQL: fast shutdown, which does not wait for clients.
        child.signal(match self.kind() {
            Dialect::Postgresql => libc::SIGINT,
            Dialect::Mariadb => libc::SIGTERM,
        });
        let mut all = [child];
        // Undoing ends it in any case.
        let limit = if stopped() { guarded.limit.min(SOON) } else { guarded.limit };
        let mut told = Vec::new();
        let name = self.kind().name();
        if wait_all(&mut all, Some(Instant::now() + limit), false) != Waited::Ended {
            told = timeout::end(&mut all, &[], &[], guarded.journal.devices());
            told.insert(0, format!("{name}'s server did not stop in {} s and was killed", limit.as_secs()));
        } else if let Some(status) = all[0].status().filter(|status| !status.success()) {
            told.push(format!("{name}'s server stopped with {status}"));
        }
        guarded.guardian.ended(pid);
        told
    }
}

/// A setting as it is given to the server.
fn word(value: &Value) -> String {
    match value {
        Value::Flag(flag) => if *flag { "on" } else { "off" }.into(),
        value => value.words().join(","),
    }
}
