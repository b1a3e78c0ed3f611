// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::documents::attribute;
use super::*;
use crate::metrics::tests::shown;
use crate::shown::Shown;
use plumb_trace::schema::StateTrigger;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// The head and the document of a request.
type Asked = (String, Value);

/// A collector that gives these answers, then "200 OK" for ever.
fn collector(answers: &'static [&'static str]) -> (String, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}/otlp/", listener.local_addr().expect("bound"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for (n, client) in listener.incoming().enumerate() {
            let mut client = BufReader::new(client.expect("a client"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(client.read_line(&mut head).expect("a line") > 0, "{head}");
            }
            let length =
                head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.expect("a length")];
            client.read_exact(&mut body).expect("a document");
            let answer = answers.get(n).unwrap_or(&"200 OK\r\n\r\n{}");
            let (head_of, text) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
            let answer = format!(
                "HTTP/1.1 {head_of}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
            client.get_mut().write_all(answer.as_bytes()).expect("it reads");
            if tell.send((head, serde_json::from_slice(&body).expect("JSON"))).is_err() {
                return;
            }
        }
    });
    (endpoint, told)
}

fn machine() -> Identity {
    Identity { host: "db1".into(), machine_id: "0123".into(), kernel: "6.12".into() }
}

fn start(endpoint: &str) -> (Otlp, Arc<Mutex<Vec<String>>>) {
    let headers = headers("authorization=Bearer%20x, tenant = a").expect("headers");
    let target = Target { endpoint: endpoint.into(), headers, tls: TlsConfig::default() };
    let said = Arc::<Mutex<Vec<String>>>::default();
    let hears = Arc::clone(&said);
    let say = move |text: &str| hears.lock().expect("lock").push(text.into());
    (Otlp::start(&target, &machine(), say).expect("a thread"), said)
}

fn next(told: &Receiver<Asked>) -> Asked {
    told.recv_timeout(Duration::from_secs(20)).expect("a request")
}

fn point(document: &Value, name: &str) -> Value {
    let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
    metrics.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("{name}: {document:#}")).clone()
}

#[test]
fn a_window_what_limits_services_and_what_fired_are_told() {
    let (endpoint, told) = collector(&[]);
    let metrics = Metrics::default();
    let (otlp, said) = start(&endpoint);
    metrics.window(shown(), 1_060);
    otlp.sender().window(&metrics);
    let (head, document) = next(&told);
    assert!(head.starts_with("POST /otlp/v1/metrics HTTP/1.1\r\n"), "{head}");
    for line in ["content-type: application/json", "authorization: bearer x", "tenant: a"] {
        assert!(head.to_lowercase().lines().any(|l| l == line), "{line}: {head}");
    }
    let resource = document["resourceMetrics"][0]["resource"]["attributes"].as_array().expect("attributes");
    assert!(resource.contains(&attribute("host.name", "db1")), "{resource:?}");
    let service = point(&document, "plumb_device_service_mean_seconds");
    assert_eq!(
        service["gauge"]["dataPoints"][0],
        json!({"attributes": [attribute("device", "sda")], "timeUnixNano": "1060000000000", "asDouble": 0.001})
    );
    assert_eq!(
        (&service["unit"], point(&document, "plumb_device_bytes_per_second")["unit"].clone()),
        (&json!("s"), json!("By/s"))
    );
    let windows = &point(&document, "plumb_windows_total")["sum"];
    assert_eq!((&windows["aggregationTemporality"], &windows["isMonotonic"]), (&json!(2), &json!(true)));
    assert!(windows["dataPoints"][0]["startTimeUnixNano"].is_string(), "{windows}");
    let record = |document: &Value| document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0].clone();
    let (head, document) = next(&told);
    assert!(head.starts_with("POST /otlp/v1/logs HTTP/1.1\r\n"), "{head}");
    let found = record(&document);
    assert_eq!(found["body"]["stringValue"], "a \"quoted\" name.service: slow device sda: 4.2 ms");
    assert!(
        found["attributes"].as_array().expect("some").contains(&attribute("plumb.finding", "disk.slow")),
        "{found}"
    );
    // What stays is told once, and its end.
    otlp.sender().window(&metrics);
    assert!(next(&told).0.contains("/v1/metrics"));
    let mut other = shown();
    other.services[0].finding = "cpu.quota".into();
    metrics.window(other, 1_090);
    otlp.sender().window(&metrics);
    assert!(next(&told).0.contains("/v1/metrics"));
    let changed = record(&next(&told).1);
    assert!(changed["attributes"]
        .as_array()
        .expect("some")
        .contains(&attribute("plumb.finding", "cpu.quota")));
    let mut well = shown();
    well.services[0].finding.clear();
    metrics.window(well, 1_120);
    otlp.sender().window(&metrics);
    assert!(next(&told).0.contains("/v1/metrics"));
    assert_eq!(
        record(&next(&told).1)["body"]["stringValue"],
        "a \"quoted\" name.service: nothing limits it any more"
    );
    let what = StateTrigger { begin: 5, end: 600_000_005, thread: 7, condition: "fsync > 500ms".into() };
    otlp.sender().fired(Fired { name: "slow".into(), what, at: 1_130, run: "/var/lib/plumb/runs/x".into() });
    let fired = record(&next(&told).1);
    assert_eq!(fired["body"]["stringValue"], "trigger slow: fsync > 500ms: thread 7 took 600.00 ms");
    assert_eq!((&fired["severityNumber"], &fired["eventName"]), (&json!(13), &json!("plumb.trigger")));
    drop(otlp);
    let said = said.lock().expect("lock");
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn what_a_collector_does_not_take_now_is_sent_again() {
    let (endpoint, told) = collector(&[
        "503 Service Unavailable\r\nRetry-After: 0",
        "429 Too Many Requests\r\nRetry-After: 0",
        "200 OK",
        "400 Bad Request\r\n\r\nno such\u{1b} field",
        "200 OK",
        "200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"2\",\"errorMessage\":\"too old\"}}",
    ]);
    let metrics = Metrics::default();
    let (otlp, said) = start(&endpoint);
    // Each window is its own, however late it is sent.
    for at in [60, 120, 180, 240] {
        metrics.window(Shown::default(), at);
        otlp.sender().window(&metrics);
    }
    for at in [60, 60, 60, 120, 180, 240] {
        let end = point(&next(&told).1, "plumb_window_end_timestamp_seconds");
        assert_eq!(end["gauge"]["dataPoints"][0]["asDouble"], f64::from(at));
    }
    drop(otlp);
    let at = format!("{}/v1/metrics", endpoint.trim_end_matches('/'));
    assert_eq!(
        *said.lock().expect("lock"),
        [
            format!("otlp: {at}: 503 Service Unavailable: "),
            format!("otlp: {at} takes it again; 0 documents are lost"),
            format!("otlp: {at}: 400 Bad Request: no such field"),
            format!("otlp: {at} takes it again; 1 documents are lost"),
            format!("otlp: {at}: 2 refused: too old"),
        ]
    );
}

/// A collector that has metrics alone says so of every log record: told once.
#[test]
fn what_is_wrong_with_one_kind_is_told_once() {
    let (endpoint, told) = collector(&["200 OK", "404 Not Found", "200 OK", "404 Not Found", "200 OK"]);
    let metrics = Metrics::default();
    let (otlp, said) = start(&endpoint);
    for (at, limited) in [(60, true), (120, false), (180, false)] {
        let mut shown = shown();
        if !limited {
            shown.services.clear();
        }
        metrics.window(shown, at);
        otlp.sender().window(&metrics);
        next(&told);
    }
    drop(otlp);
    let said = said.lock().expect("lock");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].ends_with("/v1/logs: 404 Not Found: ") && said[1].ends_with(": 2 documents are lost"),
        "{said:?}"
    );
}

#[test]
fn plumb_ends_in_time_whatever_a_collector_does() {
    static BUSY: [&str; 64] = ["503 Service Unavailable\r\nRetry-After: 0"; 64];
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let (busy, _told) = collector(&BUSY);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", silent.local_addr().expect("bound"));
    let nobody = format!("http://127.0.0.1:{nobody}");
    let ends = |endpoint: &str| {
        let metrics = Metrics::default();
        let (otlp, said) = start(endpoint);
        metrics.window(Shown::default(), 60);
        otlp.sender().window(&metrics);
        // It is being sent.
        thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        drop(otlp);
        assert!(begun.elapsed() < PATIENCE + LAST + Duration::from_secs(2), "{endpoint}");
        let said = said.lock().expect("lock");
        assert!(
            said.last().is_some_and(|last| last.ends_with(": 1 documents are lost")),
            "{endpoint}: {said:?}"
        );
    };
    let ends = &ends;
    thread::scope(|scope| {
        for endpoint in [&nobody, &busy, &silent] {
            scope.spawn(move || ends(endpoint));
        }
    });
}

#[test]
fn what_waits_is_bounded_and_the_newest_stay() {
    let post = Post {
        agent: Agent::new_with_defaults(),
        endpoint: "http://127.0.0.1:1".into(),
        headers: Vec::new(),
    };
    let said = |_: &str| {};
    let mut work = Work {
        post,
        documents: Documents::new(&machine()),
        waiting: VecDeque::new(),
        bytes: 0,
        missed: Arc::default(),
        troubles: [Trouble::default(), Trouble::default()],
        say: Box::new(said),
    };
    for n in 0..WAITING + 10 {
        work.wait(Kind::Metrics, &json!(n));
    }
    assert_eq!((work.waiting.len(), work.troubles[0].lost), (WAITING, 10));
    assert_eq!(work.waiting.back().expect("some").1, (WAITING + 9).to_string());
    assert_eq!(work.bytes, work.waiting.iter().map(|(_, text)| text.len()).sum::<usize>());
    let large = json!("x".repeat(BYTES / 3));
    for _ in 0..4 {
        work.wait(Kind::Logs, &large);
    }
    assert!(
        work.bytes <= BYTES && work.waiting.iter().all(|(kind, _)| *kind == Kind::Logs),
        "{}",
        work.bytes
    );
    assert_eq!((work.troubles[0].lost, work.troubles[1].lost), (WAITING as u64 + 10, 2));
    // Whoever tells of more than this thread takes is told.
    let (tell, told) = sync_channel(1);
    let sender = Sender { tell, missed: Arc::clone(&work.missed) };
    let metrics = Metrics::default();
    (0..3).for_each(|_| sender.window(&metrics));
    work.take(told.recv().expect("a window"));
    assert_eq!((work.troubles[0].told, work.troubles[0].lost), (true, WAITING as u64 + 12));
}

#[test]
fn endpoints_and_headers_are_what_they_should_be() {
    for (good, here) in [
        ("http://127.0.0.1:4318", true),
        ("http://[::1]:4318/", true),
        ("http://localhost", true),
        ("https://otlp.example.com/v1", false),
        ("http://10.0.0.1:4318", false),
    ] {
        Target::is_endpoint(good).expect(good);
        let target = Target { endpoint: good.into(), headers: Vec::new(), tls: TlsConfig::default() };
        assert_eq!(target.is_here(), here, "{good}");
    }
    for bad in [
        "",
        "127.0.0.1:4318",
        "http://",
        "http://:4318",
        "http://host:99999",
        "http://host:",
        "grpc://host:4317",
        "http://ho st",
        "http://user:secret@host",
        "http://user:se/secret@host",
        "http://host?secret",
    ] {
        let said = Target::is_endpoint(bad).expect_err(bad).to_string();
        assert!(!said.contains("secret"), "{said}");
    }
    assert_eq!(
        headers("a=b%3D, ,c=").expect("good"),
        [("a".into(), "b=".into()), ("c".into(), String::new())]
    );
    for bad in ["secret", "=secret", "a b=secret", "a=secret%0A", "a=secret%x", "a=secret%ff"] {
        let said = format!("{:#}", headers(bad).expect_err(bad));
        assert!(!said.contains("secret"), "a value is told: {said}");
    }
}
