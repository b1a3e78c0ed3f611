// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The systemd unit or container that a process is in, by the path of its control group, and what the container's
//! runtime calls it; `script`: of one in neither, what its interpreter runs. Nothing is asked of a runtime that does not
//! stand in its files, but of Docker and Podman where their files lie elsewhere.
//!
//! Paths: systemd's control group API (cgroup names are unit names), Kubernetes' cgroup drivers (`pod` and its UID),
//! runc's `PREFIX-ID.scope`, LXC's `lxc.payload.NAME`, systemd-machined's `machine-NAME.scope`.

mod script;

use crate::{cgroup, Root};
use anyhow::{bail, Result};
use plumb_trace::schema::StateTask;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What runtimes put before a container's id in the name of its scope.
const RUNTIMES: &[&str] = &["cri-containerd-", "crio-", "docker-", "libpod-", "nerdctl-"];
/// What Docker's API listens on, and Podman's, which is the same.
const SOCKETS: &[&str] = &["/run/docker.sock", "/run/podman/podman.sock"];
/// A runtime that does not answer within this time is not asked again for that container.
const ANSWER: Duration = Duration::from_millis(200);
/// Most that is read of an answer or of a command line, bytes.
const MOST: u64 = 1 << 20;
/// Digits of an id that stand for it, as runtimes show them.
const SHORT: usize = 12;

/// A unit or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `nginx.service`, `container web`, `machine web`, `pod NAMESPACE/POD/CONTAINER`.
    pub name: String,
    /// Its control group: path in the hierarchy.
    pub cgroup: PathBuf,
    /// The container's id; empty: none.
    pub id: String,
}

impl Service {
    /// Whether it is the unit of a name, which may lack `.service`.
    pub fn is_unit(&self, name: &str) -> bool {
        self.name == name || self.name.strip_suffix(".service") == Some(name)
    }

    /// Whether it is the container of a name, of the end of a name (`web` of `pod shop/cart-0/web`), or of an id's
    /// begin.
    pub fn is_container(&self, name: &str) -> bool {
        let Some((_, called)) = self.name.split_once(' ') else { return false };
        let whole =
            called.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        whole || (name.len() >= 4 && self.id.starts_with(name))
    }
}

/// What a control group's path tells.
#[derive(Debug, PartialEq, Eq)]
enum Kind<'a> {
    /// A unit, or what another manager calls a container.
    Named(String),
    /// A container of this id, in a pod of this UID.
    Container { id: &'a str, pod: Option<String> },
}

/// What the control group at a path is of, and how many of the path's words that group's own path has.
fn kind(path: &str) -> Option<(Kind<'_>, usize)> {
    let words: Vec<&str> = path.split('/').collect();
    let mut pod = None;
    for (i, word) in words.iter().enumerate() {
        if let Some(id) = container_id(word) {
            return Some((Kind::Container { id, pod }, i + 1));
        }
        pod = pod_uid(word).or(pod);
        let before = i.checked_sub(1).map(|i| words[i]);
        let machine = match before {
            Some("lxc") if !word.is_empty() => Some(*word),
            _ => word.strip_prefix("lxc.payload.").or_else(|| {
                let scope = word.strip_prefix("machine-").and_then(|w| w.strip_suffix(".scope"));
                scope.or_else(|| word.strip_prefix("systemd-nspawn@")?.strip_suffix(".service"))
            }),
        };
        if let Some(name) = machine {
            // systemd writes what a name of a unit cannot hold in hexadecimal.
            return Some((Kind::Named(format!("machine {}", name.replace("\\x2d", "-"))), i + 1));
        }
    }
    for (i, word) in words.iter().enumerate().rev() {
        match word.rsplit_once('.') {
            // Sessions hold what a user started; the program tells more.
            Some((name, "scope")) if name.starts_with("session-") || name.contains("-conmon-") => {
                return None
            }
            Some(("init", "scope")) => {}
            Some((_, "scope" | "service")) => return Some((Kind::Named((*word).into()), i + 1)),
            _ => {}
        }
    }
    None
}

/// The id in the name of a container's control group: `ID`, `libpod-ID`, `docker-ID.scope`.
fn container_id(word: &str) -> Option<&str> {
    let word = word.strip_suffix(".scope").unwrap_or(word);
    let id = RUNTIMES.iter().find_map(|r| word.strip_prefix(r)).unwrap_or(word);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

/// The UID in the name of a pod's control group: `podUID`, `kubepods-burstable-podUID.slice` with `_` for `-`.
fn pod_uid(word: &str) -> Option<String> {
    let slice = word.strip_prefix("kubepods").and_then(|w| w.strip_suffix(".slice"));
    let uid = match slice {
        Some(rest) => rest.rsplit_once("-pod")?.1.replace('_', "-"),
        None => word.strip_prefix("pod")?.into(),
    };
    (uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')).then_some(uid)
}

/// Services of processes; remembers what runtimes told.
#[derive(Debug)]
pub struct Services {
    root: Root,
    /// Names of containers, by id.
    called: HashMap<String, String>,
}

impl Services {
    /// Of the processes under a root.
    pub fn new(root: Root) -> Self {
        Self { root, called: HashMap::new() }
    }

    /// The service that a process is in; none where it is in none, or gone.
    pub fn of(&mut self, pid: u32) -> Option<Service> {
        let groups = cgroup::groups(pid, &self.root);
        // Version 2 and systemd's own hierarchy come last, and are the ones that units and runtimes always make.
        groups.iter().rev().find_map(|group| self.at(&group.path))
    }

    /// What the interpreter that a process is runs, such as `python3 shop.py`; none where it is none, or gone.
    pub fn script(&self, task: &StateTask) -> Option<String> {
        let program = task.cmdline.split(' ').next().unwrap_or_default();
        if !script::is_interpreter(program) {
            return None;
        }
        // Its words may have spaces in them, and be more than a trace holds: a class behind a class path.
        let mut words = Vec::new();
        let file = std::fs::File::open(self.root.path(format!("/proc/{}/cmdline", task.tgid))).ok()?;
        file.take(MOST).read_to_end(&mut words).ok()?;
        let words = String::from_utf8_lossy(&words);
        script::name(&task.comm, words.trim_end_matches('\0').split('\0'))
    }

    /// The service whose control group a path leads to or into, in a hierarchy or with its mount point before it.
    pub fn at(&mut self, path: &Path) -> Option<Service> {
        let path = path.to_str()?;
        let (kind, words) = kind(path)?;
        let cgroup = PathBuf::from(path.split('/').take(words).collect::<Vec<_>>().join("/"));
        match kind {
            Kind::Named(name) => Some(Service { name, cgroup, id: String::new() }),
            Kind::Container { id, pod } => {
                let name = match self.called.get(id) {
                    Some(name) => name.clone(),
                    None => {
                        let name = called(id, &self.root).unwrap_or_else(|| unnamed(id, pod.as_deref()));
                        self.called.insert(id.into(), name.clone());
                        name
                    }
                };
                Some(Service { name, cgroup, id: id.into() })
            }
        }
    }
}

/// A container that no runtime tells the name of.
fn unnamed(id: &str, pod: Option<&str>) -> String {
    let short = &id[..SHORT];
    pod.map_or(format!("container {short}"), |uid| format!("pod {}/{short}", &uid[..8]))
}

/// What the runtime calls a container, in the words of [`Service::name`].
fn called(id: &str, root: &Root) -> Option<String> {
    of_docker(&format!("/var/lib/docker/containers/{id}/config.v2.json"), root)
        .or_else(|| of_containerd(id, root))
        .or_else(|| of_storage(id, root))
        .or_else(|| SOCKETS.iter().filter(|_| root.is_real()).find_map(|socket| asked(socket, id)))
}

fn json(path: &str, root: &Root) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(root.path(path)).ok()?).ok()
}

/// Of a file that dockerd keeps of a container.
fn of_docker(path: &str, root: &Root) -> Option<String> {
    docker(&json(path, root)?)
}

fn docker(told: &Value) -> Option<String> {
    let pod = told.get("Config").and_then(|c| in_pod(c.get("Labels")?));
    pod.or_else(|| Some(format!("container {}", told.get("Name")?.as_str()?.trim_start_matches('/'))))
}

/// Of the OCI bundle that containerd's shim runs, in whatever namespace of containerd.
fn of_containerd(id: &str, root: &Root) -> Option<String> {
    let tasks = "/run/containerd/io.containerd.runtime.v2.task";
    root.names(tasks).iter().find_map(|namespace| {
        let told = json(&format!("{tasks}/{namespace}/{id}/config.json"), root)?;
        let notes = told.get("annotations")?;
        in_pod(notes).or_else(|| Some(format!("container {}", notes.get("nerdctl/name")?.as_str()?)))
    })
}

/// Of the storage that Podman and CRI-O share, root's.
fn of_storage(id: &str, root: &Root) -> Option<String> {
    let (run, lib) = ("/run/containers/storage", "/var/lib/containers/storage");
    let dirs = |of: &'static str| {
        let names = root.names(of).into_iter().filter(|name| name.ends_with("-containers"));
        names.map(move |name| format!("{of}/{name}"))
    };
    let pod = dirs(run)
        .chain(dirs(lib))
        .find_map(|dir| in_pod(json(&format!("{dir}/{id}/userdata/config.json"), root)?.get("annotations")?));
    pod.or_else(|| {
        dirs(lib).find_map(|dir| {
            let all = json(&format!("{dir}/containers.json"), root)?;
            let one = all.as_array()?.iter().find(|c| c.get("id").and_then(Value::as_str) == Some(id))?;
            Some(format!("container {}", one.get("names")?.get(0)?.as_str()?))
        })
    })
}

/// A container of a pod, by the labels or annotations that the kubelet's runtimes give it.
fn in_pod(notes: &Value) -> Option<String> {
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| notes.get(*key)?.as_str());
    let pod = text(["io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name"])?;
    let namespace = text(["io.kubernetes.pod.namespace", "io.kubernetes.cri.sandbox-namespace"]);
    let container = text(["io.kubernetes.container.name", "io.kubernetes.cri.container-name"]);
    // What holds the pod's namespaces has no name of its own.
    Some(format!("pod {}/{pod}/{}", namespace.unwrap_or("default"), container.unwrap_or("sandbox")))
}

/// What a runtime with Docker's API says of a container (Docker Engine API, GET /containers/ID/json).
fn asked(socket: &str, id: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.set_write_timeout(Some(ANSWER)).ok()?;
    let asks = format!("GET /containers/{id}/json HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(asks.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let good = head.split(' ').nth(1) == Some("200");
    good.then(|| docker(&serde_json::from_str(body).ok()?)).flatten()
}

/// One process of each service under a root, and the service, by their names.
fn found(root: &Root) -> Vec<(u32, Service)> {
    let mut services = Services::new(root.clone());
    let mut found: Vec<(u32, Service)> =
        crate::process::all(root).into_iter().filter_map(|pid| Some((pid, services.of(pid)?))).collect();
    found.sort_by(|a, b| (&a.1.name, &a.1.cgroup).cmp(&(&b.1.name, &b.1.cgroup)));
    found.dedup_by(|a, b| a.1.cgroup == b.1.cgroup);
    found
}

/// The directory of the control group of the one service that `is` says yes to; `what` and `name` are for the error.
///
/// # Errors
/// None, or several, run; they are named.
pub fn directory(what: &str, name: &str, is: impl Fn(&Service) -> bool, root: &Root) -> Result<PathBuf> {
    let all = found(root);
    let these: Vec<&(u32, Service)> = all.iter().filter(|(_, service)| is(service)).collect();
    let names = |of: &mut dyn Iterator<Item = &Service>| {
        let names: Vec<&str> = of.map(|s| s.name.as_str()).collect();
        match names.is_empty() {
            true => "none".into(),
            false => names.join(", "),
        }
    };
    match these[..] {
        [] => bail!("no {what} {name} runs here; there are: {}", names(&mut all.iter().map(|(_, s)| s))),
        [(pid, service)] => {
            let of = |group: &cgroup::Group| group.path.starts_with(&service.cgroup);
            let group = cgroup::groups(pid, root).into_iter().rev().find(of);
            let own = group.map(|group| cgroup::Group { path: service.cgroup.clone(), ..group });
            match own.and_then(|own| own.directory(root)) {
                Some(dir) => Ok(dir),
                None => bail!(
                    "{}: its cgroup {} cannot be seen from here; mount the cgroup file system, or give --pid",
                    service.name,
                    service.cgroup.display()
                ),
            }
        }
        _ => bail!("{what} {name} may be any of: {}", names(&mut these.iter().map(|(_, s)| s))),
    }
}

#[cfg(test)]
mod tests;
