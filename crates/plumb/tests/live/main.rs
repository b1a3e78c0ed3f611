// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown and kept while the machine is recorded: `plumb top` and `plumb watch`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/groups.rs"]
mod groups;
mod told;
use common::schema::is_valid;
use common::{can, output, plumb, signal, stderr, workload};
use groups::Groups;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A load in a unit of its own, and in another group.
fn fault(unit: &Path, group: Option<&Path>, words: &str) -> Running {
    let enter = |group: &Path| format!("echo $$ > {}/cgroup.procs; ", group.display());
    let groups: String = [unit].into_iter().chain(group).map(enter).collect();
    let script = format!("{groups}exec {} {words}", workload());
    Running(Command::new("sh").args(["-c", &script]).spawn().expect("sh"))
}

/// Ends a unit's processes.
fn end(unit: &Path) {
    while let Some(pid) = std::fs::read_to_string(unit.join("cgroup.procs"))
        .ok()
        .and_then(|all| all.lines().next()?.parse().ok())
    {
        // SAFETY: a call with numbers; the process is one of ours.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How many tapes of a process lie in memory.
fn left_in_memory(pid: u32) -> usize {
    let tape = format!("plumb-{pid}-");
    let names = std::fs::read_dir("/dev/shm").expect("memory").flatten();
    names.filter(|e| e.file_name().to_string_lossy().starts_with(&tape)).count()
}

/// A terminal that nobody looks at, with a program in it; it ends with this.
struct Terminal(String);

impl Terminal {
    /// None where there is no tmux.
    fn start(command: &str) -> Option<Self> {
        let terminal = Self(format!("plumb-test-{}", std::process::id()));
        let words = ["-f", "/dev/null", "new-session", "-d", "-x", "180", "-y", "40", command];
        let begun = Command::new("tmux").args(["-L", &terminal.0]).args(words).status().ok()?;
        begun.success().then_some(terminal)
    }

    /// What tmux answers; none when its session is over.
    fn ask(&self, words: &[&str]) -> Option<String> {
        let out = output(Command::new("tmux").args(["-L", &self.0]).args(words));
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn text(&self) -> String {
        self.ask(&["capture-pane", "-p"]).unwrap_or_default()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.ask(&["kill-server"]);
    }
}

/// A group whose members may take a quarter of a CPU; none where no group can be limited.
fn limited(groups: &mut Groups, unit: &Path) -> Option<PathBuf> {
    if std::fs::write(unit.join("cpu.max"), "25000 100000").is_ok() {
        return Some(unit.into());
    }
    let dir = groups.beside("cpu", &format!("plumb-fault-{}", std::process::id()))?;
    std::fs::write(dir.join("cpu.cfs_quota_us"), "25000").ok()?;
    Some(dir)
}

/// Each cause is named on the screen, in the unit that has it, soon after it begins.
#[test]
fn top_names_what_limits_a_service_now() {
    let name = "top_names_what_limits_a_service_now";
    if !can(name, &[]) {
        return;
    }
    let Some(mut groups) = Groups::new() else {
        println!("SKIP {name}: no cgroup can be made");
        return;
    };
    let own = format!("fault-{}.service", std::process::id());
    let unit = groups.make(&format!("plumb.slice/{own}"));
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("file").display().to_string();
    // Other services of the machine may be busier.
    let command = format!("exec {} top --filter {own}", env!("CARGO_BIN_EXE_plumb"));
    let Some(top) = Terminal::start(&command) else {
        println!("SKIP {name}: tmux is not there");
        return;
    };
    let pid =
        top.ask(&["list-panes", "-F", "#{pane_pid}"]).expect("a program").trim().parse().expect("its number");
    let mut causes: Vec<(String, &[&str])> = vec![
        ("mutex 4 1000000 1".into(), &["mutex", "lock"]),
        ("hogs 8 60000".into(), &["CPU"]),
        (format!("write-fsync 10000000 {file}"), &["device", "flush", "journal", "sync", "I/O"]),
        (format!("same-file-writes 8 1000000 65536 {file}"), &["lock", "kernel"]),
        ("spin 60000".into(), &["CPU time"]),
    ];
    // The last: the limit stays.
    causes.push(("hogs 1 60000".into(), &["quota", "limited to"]));
    for (n, (words, expected)) in causes.iter().enumerate() {
        let mut more = None;
        if n == 5 {
            more = limited(&mut groups, &unit);
            if more.is_none() {
                println!("SKIP {name}: {words}: no group can be limited");
                continue;
            }
        }
        let begun = Instant::now();
        let running = fault(&unit, more.as_deref(), words);
        let found = loop {
            let text = top.text();
            let said = text.lines().filter(|line| line.starts_with(&own));
            if let Some(row) = said.clone().find(|row| expected.iter().any(|word| row.contains(word))) {
                break row.trim_start_matches(&own).trim().to_string();
            }
            assert!(begun.elapsed() < Duration::from_secs(8), "{words}:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        };
        println!("{words}: after {:.1} s: {found}", begun.elapsed().as_secs_f64());
        end(&unit);
        drop(running);
        // Its windows end.
        std::thread::sleep(Duration::from_millis(2500));
    }
    top.ask(&["send-keys", "q"]).expect("it is there");
    until("its end", || top.ask(&["has-session"]).is_none().then_some(()));
    assert_eq!(left_in_memory(pid), 0);
    // Its terminal is closed.
    let top = Terminal::start(&command).expect("again");
    let pid: u32 =
        top.ask(&["list-panes", "-F", "#{pane_pid}"]).expect("a program").trim().parse().expect("its number");
    until("a window", || top.text().contains("CPUs busy").then_some(()));
    drop(top);
    until("its end", || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    assert_eq!(left_in_memory(pid), 0);
}

#[test]
fn top_without_a_terminal_prints_text_and_ends_in_time() {
    if !can("top_without_a_terminal_prints_text_and_ends_in_time", &[]) {
        return;
    }
    let out = output(plumb().args(["top", "--for", "3s"]));
    assert!(out.status.success(), "{}", stderr(&out));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.matches("limited by").count() >= 1, "{text}");
    let out = output(plumb().args(["top", "--json", "--for", "3s"]));
    is_valid("top", &String::from_utf8_lossy(&out.stdout));
    assert!(String::from_utf8_lossy(&out.stdout).lines().count() > 1, "a head and windows");
    let out = output(plumb().args(["top", "--window", "1ms"]));
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("--window 1.00 ms: at least 100.00 ms"), "{}", stderr(&out));
    let out = output(plumb().args(["top", "--window", "2s", "--for", "2s"]));
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("record for longer"), "{}", stderr(&out));
}

/// Of a time as in 2026-11-28T13:01:53Z.
fn second_of_day(utc: &str) -> u64 {
    utc[11..19].split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().expect("a number"))
}

/// As by sudo: what it makes belongs to another user.
fn watch_command(config: &Path) -> Command {
    let mut command = plumb();
    command.arg("watch").arg(config).envs([("SUDO_UID", "65534"), ("SUDO_GID", "65534")]);
    // As a daemon, which has no terminal.
    // SAFETY: an async-signal-safe call without arguments.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) })
    };
    command
}

fn watching(config: &Path) -> Running {
    Running(watch_command(config).stderr(Stdio::piped()).spawn().expect("watch"))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Waits for something for at most half a minute.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What Prometheus would fetch; promtool(1) has nothing to say against it, where there is one.
fn metrics(port: u16) -> String {
    let mut server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    server.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    server.read_to_string(&mut answer).expect("it answers");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match check {
        Ok(mut check) => {
            check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
            let said = check.wait_with_output().expect("promtool");
            assert!(said.status.success() && said.stderr.is_empty(), "{}", stderr(&said));
        }
        Err(_) => println!("promtool is not installed: the format of metrics is not checked by it"),
    }
    text.into()
}

#[test]
fn watch_keeps_windows_and_writes_a_run_of_what_was_too_slow() {
    if !can("watch_keeps_windows_and_writes_a_run_of_what_was_too_slow", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let kept = dir.path().join("kept");
    let config = dir.path().join("watch.toml");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let text = format!(
        "directory = '{}'\nmetrics = '127.0.0.1:{port}'\nwindow = '1s'\nkeep = '3s'\nrestart = '4s'\n[[trigger]]\nname = 'flock'\nwhen = 'flock > 400ms'\n\
         every = '1h'\nafter = '1s'\n",
        kept.display()
    );
    std::fs::write(&config, &text).expect("its file");
    assert!(output(plumb().args(["watch", "--check"]).arg(&config)).status.success());
    let mut watch = watching(&config);
    let windows = kept.join("windows");
    let nobody = output(plumb().args(["trigger", "--name", "oom"]).arg(dir.path()));
    assert!(stderr(&nobody).contains("no plumb watch"), "{}", stderr(&nobody));
    let lines = || -> Vec<Value> {
        let texts =
            names(&windows).into_iter().map(|n| std::fs::read_to_string(windows.join(n)).expect("a file"));
        let lines: Vec<String> =
            texts.flat_map(|t| t.lines().map(String::from).collect::<Vec<_>>()).collect();
        let lines = lines.iter().map(|l| serde_json::from_str::<Value>(l).expect("whole lines"));
        lines.filter(|line| line["format"].is_null()).collect()
    };
    until("a window", || (!lines().is_empty()).then_some(()));
    // One that computes holds a file's lock for half a second, and another waits: twice, and one run is written.
    let locked = dir.path().join("lock");
    for _ in 0..2 {
        let script =
            format!("flock {0} {1} spin 600 & sleep 0.1; flock {0} true; wait", locked.display(), workload());
        assert!(output(Command::new("sh").args(["-c", &script])).status.success());
    }
    let run = until("a run", || names(&kept.join("runs")).into_iter().find(|n| n.ends_with("-flock")));
    let run = kept.join("runs").join(run);
    until("its page", || run.join("report.html").exists().then_some(()));
    let out = output(plumb().arg("explain").arg(&run));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", stderr(&out));
    // A line ends where the page does.
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ");
    let leads = said.starts_with("Bottleneck: flock(2) of flock (")
        && said.contains("asked for 'flock > 400ms': waiting for a file lock");
    assert!(leads, "{said}");
    let profile = output(plumb().args(["profile", "--limit", "0"]).arg(&run));
    let said = String::from_utf8_lossy(&profile.stdout).into_owned();
    assert!(said.contains("plumb_workload::spin"), "{said}");
    // Two watches of a directory there are not, and who asks gets a run.
    let second = output(&mut watch_command(&config));
    assert!(stderr(&second).contains("another plumb watch"), "{}", stderr(&second));
    let asked = output(plumb().args(["trigger", "--name", "oom"]).arg(&kept));
    assert!(asked.status.success(), "{}", stderr(&asked));
    until("a run", || names(&kept.join("runs")).into_iter().find(|n| n.ends_with("-oom")));
    // Recordings have followed one another meanwhile; no second is missing or there twice.
    let before = lines().len();
    until("windows of several recordings", || (lines().len() > before + 14).then_some(()));
    let seconds: Vec<u64> = lines().iter().map(|l| second_of_day(l["at"].as_str().expect("when"))).collect();
    let (first, all) = (seconds[0], seconds.len() as u64);
    assert_eq!(seconds, (first..first + all).map(|s| s % 86_400).collect::<Vec<u64>>());
    let told = metrics(port);
    for line in
        ["plumb_trigger_runs_total{trigger=\"flock\"} 1", "plumb_trigger_runs_total{trigger=\"asked\"} 1"]
    {
        assert!(told.lines().any(|l| l == line), "{line}: {told}");
    }
    let counted = told.lines().find_map(|l| l.strip_prefix("plumb_windows_total ")?.parse::<usize>().ok());
    assert!(counted.is_some_and(|n| n >= all as usize), "{counted:?} of {all}");
    assert_eq!(run.metadata().expect("a run").uid(), 65534);
    // Killed, it leaves whole lines.
    let pid = watch.0.id();
    watch.0.kill().expect("killed");
    watch.0.wait().expect("killed");
    let before = lines().len();
    assert!(left_in_memory(pid) > 0, "it was killed");
    let mut watch = watching(&config);
    until("windows of another", || (lines().len() > before).then_some(()));
    assert_eq!(left_in_memory(pid), 0, "the next one cleans up");
    assert_eq!(names(&kept.join("runs")).len(), 2, "one of flock in an hour, and the one that was asked for");
    // A file with an error changes nothing; another one holds from then on, in the same process.
    let last = || lines().last().map(|l| (lines().len(), l["seconds"].as_f64().expect("a length")));
    std::fs::write(&config, "windw = '1s'").expect("its file");
    signal(&watch.0, libc::SIGHUP);
    let before = lines().len();
    until("windows after a wrong file", || last().filter(|(n, length)| *n > before + 2 && *length < 1.5));
    std::fs::write(&config, text.replace("window = '1s'", "window = '2s'")).expect("its file");
    signal(&watch.0, libc::SIGHUP);
    until("longer windows", || last().filter(|(_, length)| *length > 1.5));
    assert!(watch.0.try_wait().expect("it is there").is_none());
    for name in names(&windows) {
        is_valid("watch", &std::fs::read_to_string(windows.join(name)).expect("a file"));
    }
    signal(&watch.0, libc::SIGTERM);
    assert!(watch.0.wait().expect("it ends").success());
}

#[test]
fn a_wrong_file_is_told_before_anything_is_recorded() {
    let dir = tempfile::tempdir().expect("directory");
    let config = dir.path().join("watch.toml");
    std::fs::write(&config, "windw = '1s'").expect("its file");
    for words in [vec!["watch", "--check"], vec!["watch"]] {
        let out = output(plumb().args(words).arg(&config));
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains("windw") && stderr(&out).contains("watch.toml"), "{}", stderr(&out));
    }
    let example = output(plumb().args(["watch", "--example"]));
    std::fs::write(&config, &example.stdout).expect("its file");
    assert!(output(plumb().args(["watch", "--check"]).arg(&config)).status.success());
}
