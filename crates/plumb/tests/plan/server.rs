// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Database servers of cells: there for a repetition, with its settings, and gone after it.

use crate::common::can;
use crate::common::scratch::{text, until, Scratch};
use crate::{alone, code, made, plan, plan_run, read, start, state};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// Whether the servers' programs are here; a skip says what is missing.
fn can_serve(test: &str) -> bool {
    let bin = |dir: &str, program: &str| Path::new(dir).join(program).exists();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let postgres = versions.into_iter().any(|e| e.path().join("bin/initdb").exists());
    if !postgres || !bin("/usr/sbin", "mariadbd") {
        println!("SKIP {test}: needs both servers (apt-get install postgresql mariadb-server)");
        return false;
    }
    can(test, &["psql", "mariadb", "mariadb-install-db"])
}

/// A directory that servers of other users reach, as a build's may not be.
fn place() -> TempDir {
    let dir = TempDir::new_in("/var/tmp").expect("a directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    dir
}

fn on(place: &TempDir, rest: &str) -> String {
    format!("[device.here]\ndirectory = \"{}\"\n[cell]\ndevice = \"here\"\n{rest}", place.path().display())
}

/// Directories of servers, and processes that work in one.
fn left(place: &TempDir) -> Vec<String> {
    let dirs = std::fs::read_dir(place.path()).expect("a directory").flatten();
    let dirs = dirs.map(|e| e.file_name().to_string_lossy().into_owned());
    let mut all: Vec<String> = dirs.filter(|name| name.starts_with("plumb-server-")).collect();
    let here = place.path().display().to_string();
    for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = String::from_utf8_lossy(&words).replace('\0', " ");
        // Those that answer requests have another title, and work in the server's directory.
        let works = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
        words += &format!(" in {}", works.display());
        if words.contains(&format!("{here}/plumb-server-")) {
            all.push(words);
        }
    }
    all
}

/// Segments of shared memory that nobody uses (/proc/sysvipc/shm: number in the second column, users in the seventh).
fn segments() -> Vec<String> {
    let text = read("/proc/sysvipc/shm");
    let rows = text.lines().skip(1).map(|l| l.split_whitespace().map(String::from).collect::<Vec<_>>());
    rows.filter(|r| r.get(6).is_some_and(|n| n == "0")).filter_map(|r| r.get(1).cloned()).collect()
}

#[test]
fn a_server_has_its_cells_settings_and_is_gone_after_it() {
    if !can_serve("a_server_has_its_cells_settings_and_is_gone_after_it") {
        return;
    }
    let _alone = alone();
    let (scratch, place) = (Scratch::new(), place());
    let rest = r#"
        [[factor]]
        name = "server"
        [[factor.level]]
        name = "PostgreSQL"
        server = { kind = "postgresql", settings = { work_mem = "1MB", fsync = true } }
        prepare = ["psql", "-c", "create table t as select 7 as n", "{server}"]
        command = ["psql", "-Atc", "select n, current_setting('work_mem'), current_setting('fsync') from t", "{server}"]
        [[factor.level]]
        name = "MariaDB"
        server = { kind = "mariadb", settings = { sort_buffer_size = 1048576 } }
        prepare = ["mariadb", "-S", "{socket}", "-u", "root", "-e", "create table t as select 7 as n", "bench"]
        command = ["mariadb", "-S", "{socket}", "-u", "root", "-BNe", "select n, @@sort_buffer_size from t", "bench"]
        [[factor]]
        name = "memory"
        level = [{ name = "little" }, { name = "more", server = { settings = { work_mem = "2MB" } } }]
        [[skip]]
        when = { server = "MariaDB", memory = "more" }
        why = "work_mem is PostgreSQL's"
        "#;
    let path = plan(&scratch, "settings", &on(&place, rest)).display().to_string();
    let out = plan_run(&scratch, &["run", &path, "-o", "out"]);
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    let dir = scratch.path().join("out");
    let of = |made: &serde_json::Value| dir.join(made["dir"].as_str().expect("a directory"));
    let said: Vec<String> = state(&dir)["made"]
        .as_array()
        .expect("made")
        .iter()
        .map(|m| read(of(m).join("output.txt")))
        .collect();
    for wanted in ["7|1MB|on", "7|2MB|on", "7\t1048576"] {
        assert!(said.iter().any(|s| s.lines().any(|line| line == wanted)), "{wanted}: {said:?}");
    }
    for made in state(&dir)["made"].as_array().expect("made") {
        assert!(!read(of(made).join("server.log")).is_empty());
    }
    assert_eq!(left(&place), [""; 0]);
}

#[test]
fn a_server_that_ends_or_does_not_start_fails_the_repetition_with_its_last_words() {
    if !can_serve("a_server_that_ends_or_does_not_start_fails_the_repetition_with_its_last_words") {
        return;
    }
    let _alone = alone();
    let before = segments();
    let (scratch, place) = (Scratch::new(), place());
    let rest = r#"
        command = ["sh", "-c", "kill -9 $(head -1 {socket}/data/postmaster.pid); sleep 0.3; psql -c 'select 1' '{server}'"]
        [[factor]]
        name = "what"
        level = [
            { name = "ends", server = { kind = "postgresql" } },
            { name = "bad", server = { kind = "postgresql", settings = { work_mem = "much" } } },
            { name = "good", server = { kind = "postgresql" }, command = ["psql", "-c", "select 1", "{server}"] },
        ]
        "#;
    let path = plan(&scratch, "ends", &on(&place, rest)).display().to_string();
    let out = plan_run(&scratch, &["run", &path, "-o", "out"]);
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let ends: Vec<String> =
        made(&scratch.path().join("out")).iter().map(|(_, _, end)| end.to_string()).collect();
    assert!(ends[0].contains("PostgreSQL's server ended (killed by signal 9)"), "{ends:?}");
    assert!(ends[1].contains("work_mem") && ends[1].contains("much"), "{ends:?}");
    assert!(ends[2].contains("measured"), "{ends:?}");
    // Others come and go meanwhile.
    assert!(segments().iter().all(|s| before.contains(s)), "{:?}, before {before:?}", segments());
    assert_eq!(left(&place), [""; 0]);
}

#[test]
fn a_killed_plan_leaves_no_server() {
    if !can_serve("a_killed_plan_leaves_no_server") {
        return;
    }
    let _alone = alone();
    let before = segments();
    let (scratch, place) = (Scratch::new(), place());
    let rest = r#"
        command = ["sh", "-c", "touch {out}/../../../begun; psql -c 'select count(*) from generate_series(1, 1000000000)' '{server}'"]
        server = { kind = "postgresql" }
        "#;
    let path = plan(&scratch, "killed", &on(&place, rest)).display().to_string();
    let going = start(&scratch, &["run", &path, "-o", "out"]);
    until("the query runs", || scratch.path().join("out/begun").exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(left(&place).len() > 5, "the server is not seen: {:?}", left(&place));
    let dir = left(&place).into_iter().find(|name| name.starts_with("plumb-server-")).expect("its directory");
    let mode = std::fs::metadata(place.path().join(dir)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "its socket is open to others");
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(going.pid(), libc::SIGKILL) };
    let out = going.end();
    assert_eq!(left(&place), [""; 0], "{}", text(&out.stderr));
    // Others come and go meanwhile.
    assert!(segments().iter().all(|s| before.contains(s)), "{:?}, before {before:?}", segments());
}
