// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::Fake;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "5a6b1c2d-0000-4000-8000-0123456789ab";

fn at(path: &str) -> Option<(String, String)> {
    let mut services = Services::new(Fake::new().root());
    services.at(Path::new(path)).map(|s| (s.name, s.cgroup.display().to_string()))
}

fn is(name: &str, cgroup: &str) -> Option<(String, String)> {
    Some((name.into(), cgroup.into()))
}

#[test]
fn units_have_their_names() {
    assert_eq!(at("/system.slice/nginx.service"), is("nginx.service", "/system.slice/nginx.service"));
    assert_eq!(at("/system.slice/a.service/worker/1"), is("a.service", "/system.slice/a.service"));
    let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service";
    assert_eq!(at(user), is("sync.service", user));
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    assert_eq!(at(&format!("{manager}/init.scope")), is("user@1000.service", manager));
    assert_eq!(
        at("/sys/fs/cgroup/system.slice/b.scope"),
        is("b.scope", "/sys/fs/cgroup/system.slice/b.scope")
    );
    for none in ["/", "/init.scope", "/user.slice/user-0.slice/session-3.scope", "/system.slice", "/podium"] {
        assert_eq!(at(none), None, "{none}");
    }
    assert_eq!(at(&format!("/machine.slice/libpod-conmon-{ID}.scope")), None, "the container's monitor");
}

#[test]
fn containers_of_each_runtime_are_found() {
    for path in [
        format!("/system.slice/docker-{ID}.scope"),
        format!("/docker/{ID}"),
        format!("/machine.slice/libpod-{ID}.scope"),
        format!("/libpod_parent/libpod-{ID}"),
        format!("/system.slice/nerdctl-{ID}.scope"),
    ] {
        assert_eq!(at(&path), is("container 0123456789ab", &path));
        // What runs in it may have groups of its own, and units.
        assert_eq!(at(&format!("{path}/system.slice/b.service")), is("container 0123456789ab", &path));
    }
    let slice = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
        UID.replace('-', "_")
    );
    for path in [
        format!("{slice}/cri-containerd-{ID}.scope"),
        format!("{slice}/crio-{ID}.scope"),
        format!("/kubepods/besteffort/pod{UID}/{ID}"),
    ] {
        assert_eq!(at(&path), is("pod 5a6b1c2d/0123456789ab", &path));
    }
    assert_eq!(at("/lxc.payload.web/init.scope"), is("machine web", "/lxc.payload.web"));
    assert_eq!(at("/lxc/web/x"), is("machine web", "/lxc/web"));
    assert_eq!(
        at("/machine.slice/machine-a\\x2db.scope"),
        is("machine a-b", "/machine.slice/machine-a\\x2db.scope")
    );
}

#[test]
fn runtimes_tell_what_a_container_is_called() {
    let name = |file: &str, text: &str| {
        let fake = Fake::new();
        fake.put(file, text);
        let mut services = Services::new(fake.root());
        services.at(Path::new(&format!("/docker/{ID}"))).unwrap().name
    };
    let docker = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    assert_eq!(name(&docker, r#"{"Name":"/web","Config":{"Labels":{}}}"#), "container web");
    assert_eq!(
        name(
            &docker,
            r#"{"Name":"/k8s_x","Config":{"Labels":{"io.kubernetes.container.name":"web","io.kubernetes.pod.name":"cart-0","io.kubernetes.pod.namespace":"shop"}}}"#
        ),
        "pod shop/cart-0/web"
    );
    let task = |namespace: &str| {
        format!("/run/containerd/io.containerd.runtime.v2.task/{namespace}/{ID}/config.json")
    };
    assert_eq!(
        name(
            &task("k8s.io"),
            r#"{"annotations":{"io.kubernetes.cri.container-name":"web","io.kubernetes.cri.sandbox-name":"cart-0","io.kubernetes.cri.sandbox-namespace":"shop"}}"#
        ),
        "pod shop/cart-0/web"
    );
    assert_eq!(name(&task("default"), r#"{"annotations":{"nerdctl/name":"cache"}}"#), "container cache");
    let lib = "/var/lib/containers/storage/overlay-containers/containers.json";
    assert_eq!(name(lib, &format!(r#"[{{"id":"x"}},{{"id":"{ID}","names":["db"]}}]"#)), "container db");
    let crio = format!("/run/containers/storage/overlay-containers/{ID}/userdata/config.json");
    assert_eq!(
        name(
            &crio,
            r#"{"annotations":{"io.kubernetes.pod.name":"cart-0","io.kubernetes.pod.namespace":"shop"}}"#
        ),
        "pod shop/cart-0/sandbox"
    );
    for damaged in ["", "{", "[]", r#"{"Name":7}"#, r#"{"annotations":[]}"#] {
        assert_eq!(name(&docker, damaged), "container 0123456789ab", "{damaged}");
    }
}

#[test]
fn a_service_is_found_by_its_name() {
    let fake = Fake::new();
    fake.mount("self", "0:30", "/sys/fs/cgroup", "cgroup2", "cgroup2");
    fake.put(&format!("/var/lib/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/web"}"#);
    let process =
        |pid: u32, cgroup: &str| fake.put(&format!("/proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
    process(5, "/system.slice/nginx.service");
    process(6, "/system.slice/nginx.service/worker");
    process(7, &format!("/system.slice/docker-{ID}.scope"));
    process(8, "/user.slice/session-1.scope");
    let root = fake.root();
    let names: Vec<String> = found(&root).into_iter().map(|(_, s)| s.name).collect();
    assert_eq!(names, ["container web", "nginx.service"]);
    let unit = |name: &str| {
        directory("unit", name, |s| s.is_unit(name), &root)
            .map(|d| d.display().to_string())
            .map_err(|e| e.to_string())
    };
    let nginx = Ok("/sys/fs/cgroup/system.slice/nginx.service".to_string());
    assert_eq!((unit("nginx"), unit("nginx.service")), (nginx.clone(), nginx));
    assert_eq!(unit("web"), Err("no unit web runs here; there are: container web, nginx.service".into()));
    let container = |name: &str| directory("container", name, |s| s.is_container(name), &root).is_ok();
    assert!(container("web") && container("0123"));
    assert!(!container("012") && !container("eb") && !container("nginx"));
    process(9, "/lxc.payload.web");
    let both = directory("container", "web", |s| s.is_container("web"), &root).unwrap_err().to_string();
    assert_eq!(both, "container web may be any of: container web, machine web");
}

#[test]
fn a_runtime_that_listens_is_asked() {
    let dir = tempfile::TempDir::new().unwrap();
    let socket = dir.path().join("docker.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        // One that answers before it has read all resets the connection.
        while !asked.ends_with(b"\r\n\r\n") {
            let mut some = [0; 256];
            let n = stream.read(&mut some).unwrap();
            assert!(n > 0, "{}", String::from_utf8_lossy(&asked));
            asked.extend_from_slice(&some[..n]);
        }
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{{\"Name\":\"/web\"}}")
            .unwrap();
        String::from_utf8(asked).unwrap()
    });
    assert_eq!(asked(socket.to_str().unwrap(), ID), Some("container web".into()));
    assert!(server.join().unwrap().starts_with(&format!("GET /containers/{ID}/json HTTP/1.0\r\n")));
    assert_eq!(asked("/nowhere", ID), None);
}
