// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes out of an environment what names the machine, its servers or its user.
//! Installers name volume groups after the host, NFS tells its server's address.

use super::Environment;
use crate::Root;
use std::path::{Path, PathBuf};

/// A shorter host name is part of too many other words.
const SHORTEST: usize = 3;
/// Mount options that tell an address or a user.
const TELLING: [&str; 9] =
    ["addr=", "clientaddr=", "mountaddr=", "srcaddr=", "ip=", "user=", "username=", "domain=", "mon_addr="];

pub(super) fn remove_names(mut environment: Environment, root: &Root) -> Environment {
    let host = root.text("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.split('.').next().unwrap_or_default();
    let hosts = if host.len() < SHORTEST || host == "localhost" {
        Vec::new()
    } else {
        // Device mapper doubles the hyphens of a volume group's name.
        vec![host.replace('-', "--"), host.to_string()]
    };
    let text = |text: &str| hosts.iter().fold(text.to_string(), |text, host| text.replace(host, "HOST"));
    let path = |path: &Path| PathBuf::from(text(&path.to_string_lossy()));
    if let Some(fs) = &mut environment.file_system {
        fs.source = without_server(&path(&fs.source));
        fs.mounted_at = path(&fs.mounted_at);
        let kept = fs.options.split(',').filter(|o| !TELLING.iter().any(|t| o.starts_with(t)));
        fs.options = text(&kept.collect::<Vec<_>>().join(","));
    }
    for device in &mut environment.devices {
        device.name = text(&device.name);
        device.backing_file = device.backing_file.as_deref().map(path);
    }
    environment
}

/// `server:/export` and `//server/share` without the server.
fn without_server(source: &Path) -> PathBuf {
    let text = source.to_string_lossy();
    let export = match text.strip_prefix("//") {
        Some(share) => share.split_once('/').map(|(_, path)| format!("//SERVER/{path}")),
        None if text.starts_with('/') => None,
        None => text.rsplit_once(":/").map(|(_, path)| format!("SERVER:/{path}")),
    };
    export.map_or_else(|| source.to_path_buf(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_out_and_devices_stay() {
        for (source, kept) in [
            ("nas.example:/export/a", "SERVER:/export/a"),
            ("[fe80::1]:/x", "SERVER:/x"),
            ("//nas/share/b", "//SERVER/share/b"),
            ("/dev/sda1", "/dev/sda1"),
            ("/dev/sda:/dev/sdb", "/dev/sda:/dev/sdb"),
            ("tmpfs", "tmpfs"),
        ] {
            assert_eq!(without_server(Path::new(source)), Path::new(kept));
        }
    }
}
