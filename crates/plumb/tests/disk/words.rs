// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb disk` says, and refuses.

use super::common::{output, stderr};
use super::registry::{able, bounded, device, devices, queue, DiskRegistry};
use std::io::Read;
use std::time::Duration;

#[test]
fn a_disk_is_served_listed_and_stopped() {
    if !able("a_disk_is_served_listed_and_stopped", &["blockdev"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let said = disks.must(&["serve", "atlas10k4", "--size", "64M", "--name", "one", "--detach"]);
    let path = said.lines().next().expect("a line").to_owned();
    assert!(path.starts_with("/dev/loop"), "{said}");
    assert!(said.contains("model:  atlas10k4") && said.contains("plumb disk stop one ends it"), "{said}");
    let timing = said.lines().find(|l| l.starts_with("timing: ")).expect("timing");
    assert!(
        timing.contains("the way to the device takes ")
            && timing.contains(" us and is taken off;")
            && timing.contains("p99"),
        "{timing}"
    );
    let disk = &disks.list()[0];
    assert_eq!((&disk["name"], device(disk)), (&"one".into(), path.clone()));
    assert!(disk["timing"]["requests"].as_u64().is_some_and(|n| n >= 20), "{disk}");
    assert_eq!(bounded("blockdev", &["--getsize64", &path]).trim(), (64 << 20).to_string());
    assert_eq!(bounded("blockdev", &["--getss", &path]).trim(), "512");
    // As a disk without a write cache: the kernel sends it no flushes.
    assert_eq!(
        (queue(&path, "rotational"), queue(&path, "write_cache")),
        ("1".into(), "write through".into())
    );
    let table = disks.must(&["list"]);
    // Behind them the one that another test has killed and not yet unmounted.
    let listed = table.lines().filter(|l| !l.starts_with("holder: dead, still mounted on "));
    assert!(table.contains("one") && table.contains(&path) && listed.count() == 2, "{table}");
    disks.must(&["stop", "one"]);
    assert_eq!(disks.left(&["one"]), [""; 0]);
    assert_ne!(queue(&path, "max_sectors_kb"), "1024");
    assert_eq!(queue(&path, "write_cache"), "write back");
    disks.refused(&["stop", "one"], &["no disk of that name", "plumb disk list"]);
}

#[test]
fn a_served_disk_holds_no_lock_of_its_callers() {
    if !able("a_served_disk_holds_no_lock_of_its_callers", &["flock"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let lock = disks.path().join("lock");
    let script = "exec 9>\"$0\"; flock -n 9 || exit 1; \"$@\"; exec 9>&-; flock -n \"$0\" true";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).arg(&lock);
    let serve = disks.command(&["serve", "instant", "--size", "64M", "--no-calibrate", "--detach"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(disks.path());
    for (name, value) in serve.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    let out = output(&mut command);
    assert!(out.status.success(), "the lock is held after 'plumb disk serve' has ended: {}", stderr(&out));
    disks.must(&["stop", "instant"]);
}

#[test]
fn two_disks_are_two() {
    if !able("two_disks_are_two", &[]) {
        return;
    }
    let disks = DiskRegistry::new();
    let first = disks.serve(&["instant", "--size", "64M", "--no-calibrate"]);
    let second = disks.serve(&["instant", "--size", "32M", "--no-calibrate"]);
    assert_eq!((&first["name"], &second["name"]), (&"instant".into(), &"instant-2".into()));
    assert_ne!(device(&first), device(&second));
    disks.refused(
        &["serve", "instant", "--size", "64M", "--name", "instant-2"],
        &["instant-2 is taken", "plumb disk stop instant-2", "--name"],
    );
    std::fs::write(device(&first), vec![1; 1 << 20]).expect("write");
    let mut byte = [9];
    std::fs::File::open(device(&second)).and_then(|mut f| f.read_exact(&mut byte)).expect("read");
    assert_eq!(byte, [0], "what is written to one is not read from the other");
    disks.must(&["stop", "instant"]);
    assert_eq!(disks.list().len(), 1);
    disks.must(&["stop", "--all"]);
    disks.empty(&["instant", "instant-2"], Duration::from_secs(5));
}

#[test]
fn one_in_use_is_ended_by_force_only() {
    if !able("one_in_use_is_ended_by_force_only", &["mkfs.ext4"]) {
        return;
    }
    let disks = DiskRegistry::new();
    let disk = disks.serve(&["instant", "--size", "64M", "--name", "busy", "--no-calibrate"]);
    let open = std::fs::File::open(device(&disk)).expect("open");
    let own = format!("open in process {} (", std::process::id());
    disks.refused(&["stop", "busy"], &["busy", "in use", &own, "--force"]);
    drop(open);
    let point = disks.ext4(&device(&disk));
    std::fs::write(point.join("dirty"), vec![1; 8 << 20]).expect("write");
    disks.refused(&["stop", "busy"], &["mounted on", &point.display().to_string()]);
    disks.must(&["stop", "busy", "--force"]);
    disks.empty(&["busy"], Duration::from_secs(10));
}

#[test]
fn what_cannot_be_is_named() {
    let disks = DiskRegistry::new();
    let models = disks.must(&["list", "--models"]);
    for word in ["instant", "atlas10k4"] {
        assert!(models.contains(word), "{models}");
    }
    let text = disks.must(&["show", "atlas10k4"]);
    assert!(text.contains("name = \"atlas10k4\"") && text.contains("[medium]"), "{text}");
    disks.refused(&["show", "atlas10k5"], &["atlas10k5", "atlas10k4"]);
    disks.refused(&["serve", "instant", "--size", "1000"], &["--size 1000", "multiple of 4K"]);
    disks.refused(&["stop", "nobody"], &["nobody", "none is served"]);
    if !able("what_cannot_be_is_named", &[]) {
        return;
    }
    disks.refused(&["serve", "instant", "--name", "a/b"], &["'a/b'", "letters"]);
    disks.refused(
        &["serve", "instant", "--size", "4096G"],
        &["4T", "memory", "available", "--size", "--backing FILE"],
    );
    // A model's file, as show prints it.
    std::fs::write(disks.path().join("mine.toml"), text).expect("write");
    let disk = disks.serve(&["./mine.toml", "--size", "16M", "--name", "mine", "--no-calibrate"]);
    assert_eq!(disk["spec"]["name"], "atlas10k4");
    disks.must(&["stop", "mine"]);
    assert_eq!(disks.left(&["a", "mine", "instant"]), [""; 0]);
}

#[test]
fn without_root_it_says_what_works_without() {
    if !able("without_root_it_says_what_works_without", &["setpriv"]) {
        return;
    }
    let disks = DiskRegistry::new();
    // The program and the registry where anyone may have them.
    let dir = tempfile::Builder::new().prefix("plumb-disk-").tempdir_in("/tmp").expect("directory");
    bounded("chmod", &["777", &dir.path().display().to_string()]);
    let program = dir.path().join("plumb").display().to_string();
    bounded("cp", &[env!("CARGO_BIN_EXE_plumb"), &program]);
    let mut command = std::process::Command::new("timeout");
    command.args(["60", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", &program]);
    command.args(["disk", "serve", "instant", "--size", "16M"]).current_dir(dir.path());
    let out = output(command.env("PLUMB_RUNTIME_DIR", dir.path()));
    let said = stderr(&out);
    assert!(
        out.status.code() == Some(2) && said.contains("needs root") && said.contains("--no-device --nbd"),
        "{said}"
    );
    assert_eq!(disks.left(&["instant"]), [""; 0]);
}

#[test]
fn nbd_alone_is_served() {
    let disks = DiskRegistry::new();
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let address = format!("127.0.0.1:{port}");
    let disk = disks.serve(&["instant", "--size", "16M", "--name", "net", "--no-device", "--nbd", &address]);
    assert!(disk["device"].is_null() && disk["nbd"] == address.as_str(), "{disk}");
    let mut socket = std::net::TcpStream::connect(&address).expect("connect");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
    let mut magic = [0; 16];
    match socket.read_exact(&mut magic) {
        // doc/proto.md of NBD: the newstyle negotiation begins so.
        Ok(()) => assert_eq!(&magic, b"NBDMAGICIHAVEOPT"),
        Err(e) => println!("SKIP the handshake of nbd_alone_is_served: the server says nothing: {e}"),
    }
    disks.must(&["stop", "net"]);
    disks.empty(&["net"], Duration::from_secs(5));
    assert!(devices("net").is_empty());
}
