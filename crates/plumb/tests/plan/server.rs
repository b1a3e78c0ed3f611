// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Database servers of cells: there for a repetition, with its settings, and gone after it.

use crate::common::can;
use crate::common::plumb;
use crate::common::scratch::{text, until, Running, Scratch};
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
fn clients_find_the_cells_server_whatever_the_environment_says() {
    if !can_serve("clients_find_the_cells_server_whatever_the_environment_says") {
        return;
    }
    let _alone = alone();
    let (scratch, place) = (Scratch::new(), place());
    let rest = r#"
        [[factor]]
        name = "client"
        [[factor.level]]
        name = "psql"
        server = { kind = "postgresql" }
        prepare = ["pgbench", "-i", "-q", "-s", "1", "{server}"]
        command = ["psql", "-c", "select 1", "{server}"]
        [[factor.level]]
        name = "plumb load, PostgreSQL"
        server = { kind = "postgresql" }
        load = { what = "request", to = "{server}", operations = 10, sql = ["select 1"] }
        [[factor.level]]
        name = "plumb load, MariaDB"
        server = { kind = "mariadb" }
        load = { what = "request", to = "{server}", operations = 10, sql = ["select 1"] }
        "#;
    let path = plan(&scratch, "elsewhere", &on(&place, rest)).display().to_string();
    let home = scratch.path().join("home");
    std::fs::create_dir(&home).expect("a directory");
    std::fs::write(home.join(".my.cnf"), "[client]\nprotocol = tcp\nport = 1\n").expect("written");
    let mut command = plumb();
    command.args(["plan", "run", &path, "-o", "out"]).current_dir(scratch.path()).env("HOME", &home);
    command.envs([
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGPORT", "1"),
        ("PGSERVICE", "nowhere"),
        ("MYSQL_TCP_PORT", "1"),
    ]);
    let out = Running::of(command).end();
    for (_, _, end) in made(&scratch.path().join("out")) {
        assert_eq!(end, "measured", "{}", text(&out.stderr));
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
        [[factor]]
        name = "what"
        [[factor.level]]
        name = "ends"
        server = { kind = "postgresql" }
        command = ["sh", "-c", "kill -9 $(head -1 {socket}/data/postmaster.pid); sleep 0.3; psql -c 'select 1' '{server}'"]
        [[factor.level]]
        name = "bad"
        server = { kind = "postgresql", settings = { work_mem = "much" } }
        command = ["true"]
        [[factor.level]]
        name = "good"
        server = { kind = "postgresql" }
        command = ["psql", "-c", "select 1", "{server}"]
        [[factor.level]]
        name = "one of its processes"
        server = { kind = "postgresql" }
        command = ["sh", "-c", '''
            (until kill -9 $(psql -Atc "select pid from pg_stat_activity where query like '%(20)' and pid <> pg_backend_pid()" "$0"); do sleep 0.1; done) &
            psql -c 'select pg_sleep(20)' "$0"; wait; true''', "{server}"]
        [[factor.level]]
        name = "MariaDB"
        server = { kind = "mariadb" }
        command = ["sh", "-c", "kill -9 $(cat $(dirname $0)/pid); sleep 0.3; true", "{socket}"]
        [[factor.level]]
        name = "good again"
        server = { kind = "mariadb" }
        load = { what = "request", to = "{server}", operations = 10, sql = ["select 1"] }
        "#;
    let path = plan(&scratch, "ends", &on(&place, rest)).display().to_string();
    let out = plan_run(&scratch, &["run", &path, "-o", "out"]);
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let ends: Vec<String> =
        made(&scratch.path().join("out")).iter().map(|(_, _, end)| end.to_string()).collect();
    assert!(ends[0].contains("PostgreSQL's server ended (killed by signal 9)"), "{ends:?}");
    assert!(ends[1].contains("work_mem") && ends[1].contains("much"), "{ends:?}");
    assert!(ends[2].contains("measured"), "{ends:?}");
    assert!(ends[3].contains("was terminated by signal 9"), "{ends:?}");
    assert!(ends[4].contains("MariaDB's server ended (killed by signal 9)"), "{ends:?}");
    assert!(ends[5].contains("measured"), "{ends:?}");
    // Others come and go meanwhile.
    assert!(segments().iter().all(|s| before.contains(s)), "{:?}, before {before:?}", segments());
    assert_eq!(left(&place), [""; 0]);
}

#[test]
fn a_query_beyond_the_limit_and_a_disk_that_fills_fail_their_repetitions_alone() {
    if !can_serve("a_query_beyond_the_limit_and_a_disk_that_fills_fail_their_repetitions_alone") {
        return;
    }
    let _alone = alone();
    let (scratch, place) = (Scratch::new(), place());
    let full = r#"
        [[factor]]
        name = "what"
        [[factor.level]]
        name = "fills"
        device = "small"
        file-system = { kind = "ext4" }
        server = { kind = "postgresql" }
        prepare = ["pgbench", "-i", "-q", "-s", "10", "{server}"]
        command = ["true"]
        [[factor.level]]
        name = "good"
        server = { kind = "postgresql" }
        command = ["psql", "-c", "select 1", "{server}"]
        "#;
    let small = "[device.small]\nmodel = \"instant\"\nsize = \"96M\"\n";
    let ends = |name: &str, text: &str| -> Vec<String> {
        let path = plan(&scratch, name, text).display().to_string();
        let out = format!("{name}-out");
        plan_run(&scratch, &["run", &path, "-o", &out]);
        made(&scratch.path().join(out)).iter().map(|(_, _, end)| end.to_string()).collect()
    };
    // The limit is also that of making and starting the server.
    for (name, cell) in [
        ("postgresql", r#"command = ["psql", "-c", "select pg_sleep(300)", "{server}"]"#),
        (
            "mariadb",
            r#"command = ["mariadb", "--no-defaults", "-S", "{socket}", "-u", "root", "-e", "select sleep(300)"]"#,
        ),
    ] {
        let cell = on(&place, &format!("server = {{ kind = \"{name}\" }}\n{cell}\n"));
        assert_eq!(ends(name, &format!("limit = \"25s\"\n{cell}")), ["\"timed-out\""], "{name}");
    }
    let filled = ends("filled", &format!("{small}{}", on(&place, full)));
    assert!(filled[0].contains("No space left on device") && filled[1].contains("measured"), "{filled:?}");
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
