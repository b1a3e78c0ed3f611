// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of source files, where they can be found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Larger files are no source of a program; they are left alone.
const LARGEST: u64 = 16 << 20;

/// Reads source files, each once.
#[derive(Debug, Default)]
pub struct Sources {
    root: Option<PathBuf>,
    files: BTreeMap<String, Option<Vec<String>>>,
}

/// `FILE:LINE` in its two parts; line 0 where there is none.
pub fn split(place: &str) -> (&str, usize) {
    match place.rsplit_once(':') {
        Some((file, line)) => match line.parse() {
            Ok(line) => (file, line),
            Err(_) => (place, 0),
        },
        None => (place, 0),
    }
}

impl Sources {
    /// `root`: a directory in which to look too.
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map(Path::to_path_buf), files: BTreeMap::new() }
    }

    /// The text of `FILE:LINE`, without what would move a terminal's cursor.
    pub fn line(&mut self, place: &str) -> Option<String> {
        let (file, line) = split(place);
        if !self.files.contains_key(file) {
            let lines = self.read(file);
            self.files.insert(file.to_string(), lines);
        }
        let lines = self.files.get(file)?.as_ref()?;
        lines.get(line.checked_sub(1)?).cloned()
    }

    /// Files that were asked for and not found.
    pub fn missing(&self) -> BTreeSet<&str> {
        self.files.iter().filter(|(_, f)| f.is_none()).map(|(name, _)| name.as_str()).collect()
    }

    fn read(&self, file: &str) -> Option<Vec<String>> {
        let path = self.places(file).into_iter().find(|p| {
            // A name in debug information may be that of a pipe or device, which would not end.
            p.metadata().is_ok_and(|m| m.is_file() && m.len() <= LARGEST)
        })?;
        let bytes = std::fs::read(path).ok()?;
        let clean = |l: &str| {
            let tabs = l.replace('\t', "    ");
            tabs.chars().filter(|c| !c.is_control()).collect()
        };
        Some(String::from_utf8_lossy(&bytes).lines().map(clean).collect())
    }

    /// Where a file may lie: in the user's directory under as much of its path as is there, then
    /// where debug information says.
    fn places(&self, file: &str) -> Vec<PathBuf> {
        let path = Path::new(file);
        let mut out = Vec::new();
        if let Some(root) = &self.root {
            let parts: Vec<Component<'_>> =
                path.components().filter(|c| matches!(c, Component::Normal(_))).collect();
            out.extend((0..parts.len()).map(|from| root.join(parts[from..].iter().collect::<PathBuf>())));
        }
        if path.is_absolute() {
            out.push(path.to_path_buf());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_under_the_users_directory_by_the_end_of_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("src")).expect("src");
        std::fs::write(dir.path().join("src/a.c"), "one\n\ttwo\x1b[2J\n").expect("file");
        let mut sources = Sources::new(Some(dir.path()));
        assert_eq!(sources.line("/build/x/src/a.c:2").as_deref(), Some("    two[2J"));
        assert_eq!(sources.line("/build/x/src/a.c:3"), None);
        assert_eq!(sources.line("/build/x/src/b.c:1"), None);
        assert_eq!(sources.missing().into_iter().collect::<Vec<_>>(), ["/build/x/src/b.c"]);
        let mut without = Sources::new(None);
        assert_eq!(without.line("src/a.c:1"), None);
    }

    #[test]
    fn places_without_a_line_and_devices_are_no_source() {
        let mut sources = Sources::new(None);
        assert_eq!(sources.line("/dev/zero:1"), None);
        assert_eq!(sources.line("/proc/self/status"), None);
        assert_eq!(sources.line("/etc/passwd:0"), None);
        assert_eq!(split("C:x"), ("C:x", 0));
        assert_eq!(split("a:b.c:7"), ("a:b.c", 7));
    }
}
