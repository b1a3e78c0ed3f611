// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are put into a bucket over a network that fails: what is there afterwards, and what is told.

mod server;

use plumb_bucket::{sha256, Bucket, Parcel, Sent, When};
use server::{Fault, Server};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn bucket(server: &Server, url: &str) -> Bucket {
    let endpoint = server.endpoint();
    let get = move |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
        "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
        "HOME" => Some("/nowhere".to_owned()),
        _ => None,
    };
    static NEVER: AtomicBool = AtomicBool::new(false);
    Bucket::open(url, &get, &NEVER).expect("a bucket")
}

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_put_is_there_once_whatever_happens_to_its_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = file(dir.path(), "one", "one");
    for fault in [Fault::Lost, Fault::Unanswered, Fault::Status(500), Fault::Status(503), Fault::Status(429)]
    {
        // The first request and the third fail.
        let server =
            Server::new(Box::new(move |n, _, _| if matches!(n, 1 | 3) { fault } else { Fault::None }));
        let bucket = bucket(&server, "s3://b/p/");
        assert!(bucket.put("host=a%2Fb/x y", &one, When::Always).expect("put"), "{fault:?}");
        let there = bucket.head("host=a%2Fb/x y").expect("asked").expect("there");
        assert_eq!(there.sha256, Some(sha256(&one).expect("read")));
        let objects = server.objects();
        assert_eq!(objects.keys().collect::<Vec<_>>(), ["b/p/host=a%2Fb/x y"], "{fault:?}");
        assert_eq!(objects["b/p/host=a%2Fb/x y"].body, b"one");
        assert_eq!(server.requests(), 4, "{fault:?}");
    }
}

#[test]
fn what_a_server_refuses_is_told_and_not_tried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = file(dir.path(), "one", "one");
    for (status, word) in [(403, "s3:PutObject"), (404, "is there a bucket 'b'?"), (400, "Made: to fail")] {
        let server = Server::new(Box::new(move |_, _, _| Fault::Status(status)));
        let error = bucket(&server, "s3://b").put("k", &one, When::Always).expect_err("refused");
        let error = format!("{error:#}");
        assert!(error.contains(word) && error.contains("s3://b/k: 4"), "{error}");
        assert_eq!(server.requests(), 1);
    }
}

#[test]
fn a_condition_holds_or_nothing_is_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (file(dir.path(), "one", "one"), file(dir.path(), "two", "two"));
    let server = Server::new(Box::new(|_, _, _| Fault::None));
    let bucket = bucket(&server, "s3://b");
    assert!(bucket.put("k", &one, When::New).expect("put"));
    assert!(!bucket.put("k", &two, When::New).expect("asked"));
    assert_eq!(server.objects()["b/k"].body, b"one");
    bucket.remove("k").expect("removed");
    bucket.remove("k").expect("is not there");
    assert_eq!(bucket.head("k").expect("asked"), None);
    // A server without conditions gets the object all the same.
    let mut first = true;
    server.set(Box::new(
        move |_, _, _| if std::mem::take(&mut first) { Fault::Status(501) } else { Fault::None },
    ));
    assert!(bucket.put("k", &two, When::New).expect("put"));
    assert_eq!(server.objects()["b/k"].body, b"two");
}

/// Keys and contents below `b/t/`.
fn there(server: &Server) -> Vec<(String, String)> {
    let text = |body: Vec<u8>| String::from_utf8(body).expect("text");
    server.objects().into_iter().map(|(key, object)| (key.replace("b/t/", ""), text(object.body))).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_parcel_is_there_to_the_end_or_its_last_file_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let named = |name: &str, text: &str| {
        let path = dir.path().join(format!("{name}-{text}"));
        std::fs::write(&path, text).expect("written");
        (format!("t/{name}"), path)
    };
    let server = Server::new(Box::new(|_, _, _| Fault::None));
    let to = bucket(&server, "s3://b");
    let (first_files, first_last) = ([named("a", "a1"), named("b", "b1")], named("runs", "first"));
    let (second_files, second_last) = ([named("a", "a2")], named("runs", "second"));
    let gone = ["t/b".to_owned()];
    let first = Parcel { files: &first_files, last: &first_last, gone: &[], begun: false };
    let second = Parcel { files: &second_files, last: &second_last, gone: &gone, begun: false };
    let none = || Ok(());
    let (of_first, of_second) =
        (pairs(&[("a", "a1"), ("b", "b1"), ("runs", "first")]), pairs(&[("a", "a2"), ("runs", "second")]));
    assert_eq!(to.send(first, &none).expect("sent"), Sent::New);
    assert_eq!(to.send(first, &|| panic!("nothing changes")).expect("sent"), Sent::Unchanged);
    assert_eq!(there(&server), of_first);
    assert_eq!(to.send(second, &none).expect("sent"), Sent::Replaced);
    assert_eq!(there(&server), of_second);

    // A replacement is broken off behind each of its requests: the last file is not there, or all is; then either is sent.
    for until in 1..20 {
        for again in [first, second] {
            server.set(Box::new(|_, _, _| Fault::None));
            to.send(first, &none).expect("sent");
            let begin = server.requests();
            server.set(Box::new(
                move |n, _, _| if n - begin > until { Fault::Status(403) } else { Fault::None },
            ));
            let broken = to.send(second, &none).is_err();
            let seen = there(&server);
            let whole = seen == of_first || seen == of_second;
            assert!(whole || seen.iter().all(|(key, _)| key != "runs"), "{until}: {seen:?}");
            assert!(!broken || until < 6, "it takes five requests");
            server.set(Box::new(|_, _, _| Fault::None));
            to.send(Parcel { begun: true, ..again }, &none).expect("sent");
            let wanted = if again.last == first.last { &of_first } else { &of_second };
            assert_eq!(&there(&server), wanted, "{until}");
        }
    }

    // One that was begun without a last file leaves nothing of it to the next.
    to.remove("t/runs").expect("removed");
    to.send(Parcel { begun: true, ..second }, &none).expect("sent");
    assert_eq!(there(&server), of_second);

    // The answer to its last put is lost: it is there, and the next try finds it so.
    let mut lose = true;
    server.set(Box::new(move |_, method, key| match (method, key) {
        ("PUT", "b/t/runs") if std::mem::take(&mut lose) => Fault::Unanswered,
        _ => Fault::None,
    }));
    assert_eq!(to.send(first, &none).expect("sent"), Sent::Unchanged);
    assert_eq!(there(&server), of_first);
}

#[test]
fn what_is_asked_to_end_ends_between_tries() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let dir = tempfile::tempdir().expect("a directory");
    let one = file(dir.path(), "one", "one");
    let server = Server::new(Box::new(|n, _, _| {
        STOP.store(n == 2, Ordering::Relaxed);
        Fault::Lost
    }));
    let endpoint = server.endpoint();
    let get = move |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
        "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
        _ => None,
    };
    let begin = Instant::now();
    let error = Bucket::open("s3://b", &get, &STOP).expect("a bucket").put("k", &one, When::Always);
    assert!(format!("{:#}", error.expect_err("ended")).contains("ended"));
    assert_eq!(server.requests(), 2);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn directories_are_listed_page_by_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = file(dir.path(), "one", "one");
    let server = Server::new(Box::new(|_, _, _| Fault::None));
    let to = bucket(&server, "s3://b/p q/");
    assert_eq!(to.directories().expect("listed"), Vec::<String>::new());
    for key in ["account/host=a%2F/x", "account/y", "runs/x", "threads/x", "windows/x", "file"] {
        to.put(key, &one, When::Always).expect("put");
    }
    bucket(&server, "s3://b").put("other/x", &one, When::Always).expect("put");
    assert_eq!(to.directories().expect("listed"), ["account", "runs", "threads", "windows"]);
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let get =
        |name: &str| matches!(name, "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY").then(|| "x".to_owned());
    for (url, word) in [
        ("s3://", "'' is no bucket's name"),
        ("s3:///x", "'' is no bucket's name"),
        ("s3://a b/c", "'a b' is no bucket's name"),
        ("s3://user@host/c", "is no bucket's name"),
        ("s3://a/../b/x", "'.' or '..'"),
        ("s3://../b", "'.' or '..'"),
        ("http://b/c", "does not begin with s3://"),
    ] {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let error = Bucket::open(url, &get, &NEVER).err().expect("refused");
        assert!(format!("{error:#}").contains(word), "{error:#}");
    }
}
