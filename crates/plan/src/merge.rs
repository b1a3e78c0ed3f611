// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings over settings: of two, the later one's keys win; tables are merged key by key.

use super::file::{FileSystem, Server, Settings, Value};
use std::collections::BTreeMap;

/// All of them, the last over the others. What `false` takes away is gone.
pub(super) fn merged<'a>(layers: impl IntoIterator<Item = &'a Settings>) -> Settings {
    let mut all = Settings::default();
    for layer in layers {
        over(&mut all, layer);
    }
    for table in [&mut all.queue, &mut all.sysctl, &mut all.load] {
        table.retain(|_, value| *value != Value::Flag(false));
    }
    all.write.retain(|_, value| *value != Value::Flag(false));
    all
}

fn over(below: &mut Settings, layer: &Settings) {
    let Settings {
        host,
        record_hosts,
        device,
        file_system,
        server,
        memory,
        cpus,
        queue,
        sysctl,
        write,
        prepare,
        neighbour,
        remount,
        preset,
        load,
        command,
        copies,
        record,
    } = layer;
    one(&mut below.host, host);
    one(&mut below.record_hosts, record_hosts);
    one(&mut below.device, device);
    one(&mut below.memory, memory);
    one(&mut below.cpus, cpus);
    one(&mut below.prepare, prepare);
    one(&mut below.neighbour, neighbour);
    one(&mut below.remount, remount);
    one(&mut below.preset, preset);
    one(&mut below.command, command);
    one(&mut below.copies, copies);
    one(&mut below.record, record);
    table(&mut below.queue, queue);
    table(&mut below.sysctl, sysctl);
    table(&mut below.write, write);
    table(&mut below.load, load);
    match (&mut below.file_system, file_system) {
        (Some(below), Some(layer)) => file_system_over(below, layer),
        (None, Some(layer)) => below.file_system = Some(layer.clone()),
        (_, None) => {}
    }
    if let Some(Server { kind, settings, user }) = server {
        let below = below.server.get_or_insert_with(Server::default);
        one(&mut below.kind, kind);
        one(&mut below.user, user);
        table(&mut below.settings, settings);
    }
}

/// An empty key of a file system is one that was not written.
fn file_system_over(below: &mut FileSystem, FileSystem { kind, mkfs, mount }: &FileSystem) {
    if !kind.is_empty() {
        below.kind.clone_from(kind);
    }
    if !mkfs.is_empty() {
        below.mkfs.clone_from(mkfs);
    }
    if !mount.is_empty() {
        below.mount.clone_from(mount);
    }
}

fn one<T: Clone>(below: &mut Option<T>, layer: &Option<T>) {
    if layer.is_some() {
        below.clone_from(layer);
    }
}

fn table<K: Ord + Clone>(below: &mut BTreeMap<K, Value>, layer: &BTreeMap<K, Value>) {
    below.extend(layer.iter().map(|(key, value)| (key.clone(), value.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).expect(text)
    }

    #[test]
    fn the_later_key_wins_and_tables_are_merged() {
        let below = settings(
            "device = \"a\"\ncopies = 2\nprepare = [\"x\", \"y\"]\n\
             file-system = { kind = \"ext4\", mount = \"noatime\" }\n\
             load = { block = \"4K\", direct = true }\nsysctl = { \"vm.swappiness\" = 1 }\n",
        );
        let above = settings(
            "device = [\"b\", \"c\"]\nprepare = [\"z\"]\nfile-system = { kind = \"xfs\" }\n\
             load = { size = \"1M\", block = \"8K\" }\nwrite = { \"/proc/x\" = 1 }\nremount = true\n",
        );
        let wanted = settings(
            "device = [\"b\", \"c\"]\ncopies = 2\nprepare = [\"z\"]\nremount = true\n\
             file-system = { kind = \"xfs\", mount = \"noatime\" }\n\
             load = { block = \"8K\", direct = true, size = \"1M\" }\nsysctl = { \"vm.swappiness\" = 1 }\n\
             write = { \"/proc/x\" = 1 }\n",
        );
        assert_eq!(merged([&below, &above]), wanted);
    }

    #[test]
    fn false_takes_away_and_a_later_value_gives_again() {
        let on = settings("load = { direct = true, block = \"8K\" }\nqueue = { scheduler = \"bfq\" }\n");
        let off = settings("load = { direct = false }\nqueue = { scheduler = false }\n");
        assert_eq!(merged([&on, &off]), settings("load = { block = \"8K\" }"));
        assert_eq!(merged([&on, &off, &on]), on);
        assert_eq!(merged([&off]), Settings::default());
    }

    #[test]
    fn a_level_may_say_a_part_of_a_file_system() {
        let kind = settings("file-system = { kind = \"ext4\", mkfs = [\"-O\", \"^has_journal\"] }");
        let mount = settings("file-system = { mount = \"data=journal\" }");
        let both = settings(
            "file-system = { kind = \"ext4\", mkfs = [\"-O\", \"^has_journal\"], mount = \"data=journal\" }",
        );
        assert_eq!((merged([&kind, &mount]), merged([&mount, &kind])), (both.clone(), both));
    }
}
