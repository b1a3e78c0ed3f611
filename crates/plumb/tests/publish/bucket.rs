// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb publish --to s3://...`: what is in the bucket after failures and kills is what a directory would have; asked of a
//! server that fails as it is told, and of SeaweedFS.

#[path = "../../../bucket/tests/server/mod.rs"]
mod server;

use crate::{files, fleet, publish, published, root, states, PLUMB, RUNS};
use serde_json::Value;
use server::{Fault, Faults, Server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A bucket of a server, and the spool before it.
struct Bucket<'a> {
    endpoint: String,
    spool: &'a Path,
}

impl Bucket<'_> {
    fn publish(&self, runs: &[PathBuf], more: &[&str]) -> Command {
        let mut command = publish(Path::new("s3://fleet/the lake"), runs, more);
        command.arg("--spool").arg(self.spool).env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        // What a developer has set leads elsewhere.
        for name in [
            "AWS_ENDPOINT_URL_S3",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "HOME",
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Exit code, what it says as JSON, standard error.
    fn published(&self, runs: &[PathBuf], more: &[&str]) -> (i32, Value, String) {
        let out = self.publish(runs, more).arg("--json").output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code().unwrap_or(-1), serde_json::from_slice(&out.stdout).unwrap_or_default(), said)
    }
}

fn never() -> Faults {
    Box::new(|_, _, _| Fault::None)
}

/// What a directory would have, by the bucket's keys.
fn directory(lake: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = files(lake).into_iter().filter(|(path, _)| !path.starts_with(".incoming"));
    all.map(|(path, bytes)| (format!("fleet/the lake/{}", path.display()), bytes)).collect()
}

fn objects(server: &Server) -> BTreeMap<String, Vec<u8>> {
    server.objects().into_iter().map(|(key, object)| (key, object.body)).collect()
}

#[test]
fn a_bucket_has_what_a_directory_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs, spool) = (dir.path().join("lake"), fleet(dir.path()), dir.path().join("spool"));
    let server = Server::new(never());
    let bucket = Bucket { endpoint: server.endpoint(), spool: &spool };
    let all = RUNS.len() as u64;
    let (code, done, said) = bucket.published(&runs, &[]);
    assert_eq!((code, done["forwarded"]["sent"].as_u64()), (0, Some(all)), "{said}");
    assert_eq!(done["forwarded"]["waiting"], 0);
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    assert!(objects(&server) == directory(&lake), "other files, or other bytes");
    let told: usize = directory(&lake).values().map(Vec::len).sum();
    assert_eq!(done["forwarded"]["bytes"].as_u64(), Some(told as u64));
    // Nothing waits, and what is there is neither read nor sent again.
    let mut kept = files(&spool).into_keys().filter(|p| p.extension().is_some_and(|e| e == "parquet"));
    assert!(kept.all(|path| path.iter().nth(1).is_some_and(|d| d == ".sent")));
    let requests = server.requests();
    let (code, done, said) = bucket.published(&runs, &[]);
    assert_eq!((code, states(&done)), (0, vec!["unchanged"; RUNS.len()]), "{said}");
    assert_eq!(server.requests(), requests);
    // Without its spool, it is found there.
    std::fs::remove_dir_all(&spool).expect("removed");
    let (code, done, said) = bucket.published(&runs, &[]);
    assert_eq!((code, done["forwarded"]["unchanged"].as_u64()), (0, Some(all)), "{said}");
    assert_eq!(server.requests(), requests + all);

    // Other rules: the tables that they leave out are gone, as in a directory.
    let rules = dir.path().join("rules.toml");
    std::fs::write(&rules, "tables = ['account', 'threads']").expect("written");
    let rules = ["--rules", rules.to_str().expect("UTF-8")];
    let (code, done, said) = bucket.published(&runs, &rules);
    assert_eq!((code, states(&done)), (0, vec!["replaced"; RUNS.len()]), "{said}");
    assert_eq!(published(&lake, &runs, &rules).0, 0);
    assert!(objects(&server) == directory(&lake));

    let waits = PathBuf::from(done["forwarded"]["spool"].as_str().expect("a directory"));
    let compact = Command::new(PLUMB).args(["lake", "compact"]).arg(&waits).output().expect("runs");
    let publish = publish(&waits, &runs, &[]).output().expect("runs");
    for out in [compact, publish] {
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains("is a spool"), "{said}");
    }
    let mode = std::fs::metadata(&waits).expect("there").permissions().mode();
    assert_eq!(mode & 0o77, 0, "what waits is its user's alone");

    // Another server's bucket of the same name has nothing of it.
    let other = Server::new(never());
    let (code, done, said) = Bucket { endpoint: other.endpoint(), spool: &spool }.published(&runs, &rules);
    assert_eq!((code, done["forwarded"]["sent"].as_u64()), (0, Some(all)), "{said}");
    assert!(objects(&other) == directory(&lake));
}

#[test]
fn what_a_dead_network_holds_back_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs, spool) = (dir.path().join("lake"), fleet(dir.path()), dir.path().join("spool"));
    let server = Server::new(Box::new(|_, _, _| Fault::Lost));
    let bucket = Bucket { endpoint: server.endpoint(), spool: &spool };
    let (code, done, said) = bucket.published(&runs, &[]);
    assert_eq!((code, done["forwarded"]["waiting"].as_u64()), (2, Some(RUNS.len() as u64)), "{said}");
    assert!(said.contains("6 runs wait; plumb publish --to s3://fleet/the lake sends them"), "{said}");
    assert!(
        said.contains(&server.endpoint()["http://".len()..]),
        "it does not say who did not answer: {said}"
    );
    assert!(objects(&server).is_empty());
    // A machine that is refused is told so, and what waits stays.
    server.set(Box::new(|_, _, _| Fault::Status(403)));
    let (code, done, said) = bucket.published(&[], &[]);
    assert_eq!((code, done["forwarded"]["waiting"].as_u64()), (2, Some(RUNS.len() as u64)), "{said}");
    assert!(said.contains("allow s3:ListBucket"), "{said}");
    // The network is back: no run has to be named.
    server.set(never());
    let (code, done, said) = bucket.published(&[], &[]);
    assert_eq!((code, done["forwarded"]["sent"].as_u64()), (0, Some(RUNS.len() as u64)), "{said}");
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    assert!(objects(&server) == directory(&lake));
}

#[test]
fn a_full_spool_takes_no_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs, spool) = (dir.path().join("lake"), fleet(dir.path()), dir.path().join("spool"));
    let server = Server::new(Box::new(|_, _, _| Fault::Lost));
    let bucket = Bucket { endpoint: server.endpoint(), spool: &spool };
    let waiting = |done: &Value| done["forwarded"]["waiting"].as_u64();
    let (_, done, said) = bucket.published(&runs[..2], &[]);
    assert_eq!(waiting(&done), Some(2), "{said}");
    let (code, done, said) = bucket.published(&runs[2..], &["--spool-size", "1K"]);
    assert_eq!((code, waiting(&done)), (2, Some(2)), "{said}");
    assert!(said.contains("4 runs are not taken") && said.contains("--spool-size is 1.0 KiB"), "{said}");
    assert_eq!(done["failed"].as_array().map(Vec::len), Some(4), "{done}");
    // What was not taken is where it was.
    server.set(never());
    let (code, done, said) = bucket.published(&runs, &["--spool-size", "1K"]);
    assert_eq!((code, waiting(&done)), (0, Some(0)), "{said}");
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    assert!(objects(&server) == directory(&lake));
}

/// Numbers without pattern, the same each time (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The objects of each run, by its path below a table.
fn by_run(objects: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, BTreeMap<&str, &[u8]>> {
    let mut out: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (key, bytes) in objects {
        let (table, run) = key["fleet/the lake/".len()..].split_once('/').expect("a table");
        out.entry(run.to_owned()).or_default().insert(table, bytes.as_slice());
    }
    out
}

/// Killed at twenty moments, over a network that loses one of twenty requests and answers: half of them while other rules replace
/// what was sent, or half sent, before.
#[test]
fn what_was_killed_on_its_way_arrives_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs) = (dir.path().join("lake"), fleet(dir.path()));
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    let (full, rules) = (directory(&lake), dir.path().join("rules.toml"));
    std::fs::write(&rules, "tables = ['account', 'threads']").expect("written");
    let rules = ["--rules", rules.to_str().expect("UTF-8")];
    assert_eq!(published(&lake, &runs, &rules).0, 0);
    let narrow = directory(&lake);
    let (mut killed, mut half) = (0, 0);
    for turn in 1..=10u64 {
        let spool = dir.path().join(format!("spool-{turn}"));
        let mut random = Random(turn);
        // Of some 170 requests, and some 100 where all is replaced.
        let moments = [random.below(150) + 1, random.below(90) + 1];
        let server = Server::new(Box::new(move |_, _, _| match random.below(60) {
            0 => Fault::Lost,
            1 => Fault::Unanswered,
            2 => Fault::Status(503),
            _ => Fault::None,
        }));
        let bucket = Bucket { endpoint: server.endpoint(), spool: &spool };
        for (moment, more) in moments.iter().zip([&[][..], &rules]) {
            let until = server.requests() + moment;
            let mut child = bucket.publish(&runs, more).stderr(Stdio::null()).spawn().expect("runs");
            while child.try_wait().expect("a child").is_none() {
                if server.requests() >= until {
                    child.kill().expect("killed");
                    killed += 1;
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            child.wait().expect("ended");
            let there = objects(&server);
            let [of_full, of_narrow] = [&full, &narrow].map(by_run);
            for (run, tables) in by_run(&there).iter().filter(|(_, tables)| tables.contains_key("runs")) {
                assert!(
                    *tables == of_full[run] || *tables == of_narrow[run],
                    "turn {turn}: {run} is not whole"
                );
            }
            half += u64::from(!there.is_empty() && there != full && there != narrow);
        }
        let (more, expected) = if turn % 2 == 0 { (&[][..], &full) } else { (&rules[..], &narrow) };
        let (code, _, said) = bucket.published(&runs, more);
        assert_eq!(code, 0, "{said}");
        assert!(objects(&server) == *expected, "turn {turn}");
    }
    println!("{killed} killed, {half} halfway");
    assert!(killed >= 14 && half >= 7, "{killed} killed, {half} halfway");
}

#[test]
fn one_process_at_a_time_has_a_spool() {
    let dir = tempfile::tempdir().expect("a directory");
    let (runs, spool) = (fleet(dir.path()), dir.path().join("spool"));
    let server = Server::new(Box::new(|_, _, _| {
        std::thread::sleep(Duration::from_millis(30));
        Fault::None
    }));
    let bucket = Bucket { endpoint: server.endpoint(), spool: &spool };
    let mut first = bucket.publish(&runs[..1], &[]).stderr(Stdio::null()).spawn().expect("runs");
    while server.requests() == 0 {
        assert!(first.try_wait().expect("a child").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, _, said) = bucket.published(&runs, &[]);
    assert!(code == 2 && said.contains("another plumb publish is at it"), "{said}");
    assert!(first.wait().expect("ended").success());

    for (words, word) in [
        (&["--to", "s3://x"][..], "there are no credentials for S3"),
        (&["--to", "/tmp/x"], "which runs?"),
        (&["--to", "/tmp/x", "--spool", "/tmp/y"], "--spool is for a bucket"),
    ] {
        let mut command = Command::new(PLUMB);
        let out = command
            .arg("publish")
            .args(words)
            .env("HOME", dir.path())
            .env_remove("AWS_ACCESS_KEY_ID")
            .output();
        let out = out.expect("runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(word), "{said}");
    }
}

/// SeaweedFS, all of it in one process.
struct Weed {
    program: PathBuf,
    dir: PathBuf,
    ports: [u16; 4],
    child: Option<Child>,
}

impl Weed {
    /// `PLUMB_WEED`, or what `scripts/deps.sh peers` installs.
    fn program() -> Option<PathBuf> {
        let named = std::env::var_os("PLUMB_WEED").map(PathBuf::from);
        let runs = |program: &PathBuf| {
            let out = Command::new(program).arg("version").output();
            out.is_ok_and(|o| o.status.success())
        };
        named.into_iter().chain([root().join("target/peers/bin/weed"), "weed".into()]).find(runs)
    }

    fn new(program: PathBuf, dir: PathBuf, ports: [u16; 4]) -> Self {
        let mut weed = Self { program, dir, ports, child: None };
        weed.start();
        weed
    }

    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("server").arg(format!("-dir={}", self.dir.display()));
        command.args(["-ip=127.0.0.1", "-filer", "-s3", "-master.telemetry=false"]);
        command.args([
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=20",
            "-master.volumeSizeLimitMB=64",
        ]);
        for (name, port) in ["master.port", "volume.port", "filer.port", "s3.port"].iter().zip(self.ports) {
            command.arg(format!("-{name}={port}"));
        }
        command.arg(format!("-s3.config={}", self.dir.join("s3.json").display()));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("weed starts"));
        let until = Instant::now() + Duration::from_secs(60);
        // A bucket is a directory of the filer.
        let bucket =
            |weed: &Self| weed.filer("POST", "/buckets/fleet/").is_some_and(|(s, _)| matches!(s, 201 | 409));
        while !bucket(self) || TcpStream::connect(("127.0.0.1", self.ports[3])).is_err() {
            assert!(Instant::now() < until, "SeaweedFS does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
        // Its sockets stay.
        for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours =
                |port: &u16| [*port, port + 10_000].iter().any(|p| name.ends_with(&format!("-{p}.sock")));
            if name.starts_with("seaweedfs-") && self.ports.iter().any(ours) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Status and body of a request to the filer, which asks for no signature.
    fn filer(&self, method: &str, path: &str) -> Option<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[2])).ok()?;
        let path = path.replace('%', "%25").replace(' ', "%20");
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: filer\r\nContent-Length: 0\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let head = answer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        let status = std::str::from_utf8(&answer[..head]).ok()?.split_whitespace().nth(1)?.parse().ok()?;
        Some((status, answer.split_off(head)))
    }
}

impl Drop for Weed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports that nobody listens at, nor 10,000 above, where SeaweedFS has others.
fn ports() -> [u16; 4] {
    let free = |port: u16| {
        let both = [port, port + 10_000].map(|port| TcpListener::bind(("127.0.0.1", port)));
        both.iter().all(Result::is_ok)
    };
    let mut all = (12_000..22_000).filter(|port| free(*port));
    std::array::from_fn(|_| all.next().expect("a free port"))
}

/// A real server, which checks signatures, killed while runs go there.
#[test]
fn seaweedfs_has_what_a_directory_has() {
    let Some(program) = Weed::program() else {
        println!("SKIP seaweedfs_has_what_a_directory_has: no weed(1) of SeaweedFS; scripts/deps.sh peers installs one");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (lake, runs, spool) = (dir.path().join("lake"), fleet(dir.path()), dir.path().join("spool"));
    assert_eq!(published(&lake, &runs, &[]).0, 0);
    let data = dir.path().join("weed");
    std::fs::create_dir(&data).expect("made");
    let keys = r#"{"identities": [{"name": "plumb", "credentials": [{"accessKey": "key", "secretKey": "secret"}], "actions": ["Read:fleet", "Write:fleet", "List:fleet"]}]}"#;
    std::fs::write(data.join("s3.json"), keys).expect("written");
    let mut weed = Weed::new(program, data, ports());
    let bucket = Bucket { endpoint: format!("http://127.0.0.1:{}", weed.ports[3]), spool: &spool };

    // Who signs with another key is refused.
    let out = bucket.publish(&runs[..1], &[]).env("AWS_SECRET_ACCESS_KEY", "other").output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("the key and its secret must be right"), "{said}");

    let mut child = bucket.publish(&runs, &[]).stderr(Stdio::null()).spawn().expect("runs");
    let is_sent = |path: &&PathBuf| {
        path.iter().any(|part| part == ".sent") && path.extension().is_some_and(|e| e == "parquet")
    };
    let sent = || files(&spool).keys().filter(is_sent).count();
    while sent() == 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended, and nothing is there");
        std::thread::sleep(Duration::from_millis(1));
    }
    weed.kill();
    // It tries for a while; what it could not send waits.
    let code = child.wait().expect("ended").code();
    let before = sent();
    assert!(code == Some(2) && before < RUNS.len() || code == Some(0), "exit code {code:?}, {before} sent");
    weed.start();
    // It answers 500 until its volumes are found again.
    let until = Instant::now() + Duration::from_secs(90);
    loop {
        let (code, done, said) = bucket.published(&[], &[]);
        if code == 0 && done["forwarded"]["waiting"] == 0 {
            break;
        }
        assert!(Instant::now() < until, "{said}");
    }
    assert_eq!(sent(), RUNS.len());
    for (key, bytes) in directory(&lake) {
        let (status, body) = weed.filer("GET", &format!("/buckets/{key}")).expect("it answers");
        assert!(status == 200 && body == bytes, "{key}: {status}, {} bytes", body.len());
    }
    for (engine, of_account) in [
        ("duckdb", "read_parquet('s3://fleet/the lake/account/*/*/*.parquet'".to_owned()),
        ("clickhouse", format!("from s3('{}/fleet/the%20lake/account/*/*/*.parquet'", bucket.endpoint)),
        ("spark", "options (path 's3a://fleet/the lake/account')".to_owned()),
    ] {
        let mut views = Command::new(PLUMB);
        views
            .args(["lake", "views", "s3://fleet/the lake/", "--engine", engine])
            .envs(bucket.publish(&[], &[]).get_envs().filter_map(|(k, v)| Some((k, v?))));
        let views = views.output().expect("runs");
        let text = String::from_utf8_lossy(&views.stdout);
        assert!(views.status.success(), "{}", String::from_utf8_lossy(&views.stderr));
        assert!(text.contains(&of_account), "{engine}: {text}");
        assert!(!text.contains("lake/samples"), "{engine}: no run has rows of it");
    }
    // Conditions of a real server: other rules replace what is there.
    let rules = dir.path().join("rules.toml");
    std::fs::write(&rules, "tables = ['account']").expect("written");
    let (code, done, said) = bucket.published(&runs, &["--rules", rules.to_str().expect("UTF-8")]);
    assert_eq!((code, done["forwarded"]["sent"].as_u64()), (0, Some(RUNS.len() as u64)), "{said}");
    let gone =
        directory(&lake).into_keys().find(|key| key.starts_with("fleet/the lake/threads/")).expect("a file");
    assert_eq!(weed.filer("GET", &format!("/buckets/{gone}")).map(|(status, _)| status), Some(404));
}
