// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers that a cgroup v2 gives to those below it (Documentation/admin-guide/cgroup-v2.rst, `cgroup.subtree_control`).
//! Who takes one away takes every setting with it that anybody made by it.

use std::path::Path;

/// Files that are set by hand, with what they say when they are not.
const SETTINGS: [(&str, &str); 14] = [
    ("io.max", ""),
    ("io.latency", ""),
    ("io.low", ""),
    ("io.weight", "default 100"),
    ("io.bfq.weight", "default 100"),
    ("io.prio.class", "no-change"),
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "max"),
    ("memory.max", "max"),
    ("memory.swap.high", "max"),
    ("memory.swap.max", "max"),
    ("memory.zswap.max", "max"),
    ("memory.oom.group", "0"),
];

/// Words on somebody below a group who would lose something if it took the controller back; None: nobody.
pub fn who_needs(controller: &str, group: &Path) -> Option<String> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    let mut below: Vec<_> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    below.sort();
    below.iter().find_map(|dir| {
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).ok().map(|t| t.trim().to_string());
        if text("cgroup.subtree_control").is_some_and(|c| c.split_whitespace().any(|c| c == controller)) {
            return Some(format!("{} gives it to those below it", dir.display()));
        }
        let own = SETTINGS.iter().filter(|(name, _)| name.split('.').next() == Some(controller));
        own.filter_map(|(name, unset)| Some((name, text(name)?, unset)))
            .find(|(_, now, unset)| now != *unset)
            .map(|(name, now, _)| format!("{} is '{}'", dir.join(name).display(), now.replace('\n', "; ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_setting_of_its_own_needs_it() {
        let top = tempfile::TempDir::new().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = top.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        put("a/io.max", "");
        put("a/io.weight", "default 100\n");
        put("a/memory.max", "max\n");
        put("b/memory.max", "1048576\n");
        put("b/cgroup.subtree_control", "cpu pids\n");
        assert_eq!(who_needs("io", top.path()), None);
        let said = who_needs("memory", top.path()).expect("b does");
        assert!(said.ends_with("b/memory.max is '1048576'"), "{said}");
        put(
            "a/io.max",
            "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=2 wbps=max riops=max wiops=max\n",
        );
        assert!(who_needs("io", top.path()).expect("a does").contains("rbps=1"));
        put("a/io.max", "");
        put("b/cgroup.subtree_control", "io\n");
        assert!(who_needs("io", top.path()).expect("b does").contains("those below"));
    }
}
