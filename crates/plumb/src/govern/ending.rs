// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Background cgroups that go away meanwhile, and why it ended.

use plumb_govern::cgroup::Group;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Command,
    /// Ctrl-C, or another signal that asks for it.
    Signal,
    /// `--for` is over.
    Time,
    /// No background cgroup is left.
    NoGroup,
    NoDisk,
}

impl End {
    pub fn word(self) -> &'static str {
        match self {
            End::Command => "command",
            End::Signal => "signal",
            End::Time => "time",
            End::NoGroup => "no low cgroup",
            End::NoDisk => "no disk",
        }
    }

    /// The reason, where it is none that the user has set.
    pub fn unasked(self) -> Option<&'static str> {
        match self {
            End::Command | End::Signal | End::Time => None,
            End::NoGroup => Some("no background cgroup is left, so there is nothing to limit; create it again, then restart plumb govern"),
            End::NoDisk => Some("no disk is left that could be governed"),
        }
    }
}

/// Which background cgroups are there.
pub struct Present<'a> {
    groups: &'a [Group],
    there: Vec<bool>,
}

impl Present<'_> {
    pub fn of(groups: &[Group]) -> Present<'_> {
        Present { groups, there: vec![true; groups.len()] }
    }

    /// Looks again; a sentence on each that went or came since.
    pub fn look(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for (group, there) in self.groups.iter().zip(&mut self.there) {
            let now = group.is_there();
            if std::mem::replace(there, now) != now {
                let what = if now { "was recreated: its I/O is background I/O again" } else { "was removed" };
                said.push(format!("background cgroup {} {what}", group.dir.display()));
            }
        }
        said
    }

    /// None is there any more.
    pub fn nobody(&self) -> bool {
        !self.there.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_govern::cgroup::Version;

    #[test]
    fn groups_that_go_and_come_are_told_once() {
        let top = tempfile::TempDir::new().expect("a directory");
        let group = |name: &str| Group { version: Version::V2, dir: top.path().join(name) };
        let groups = [group("a"), group("b")];
        let make = |group: &Group| {
            std::fs::create_dir(&group.dir).expect("made");
            std::fs::write(group.dir.join("cgroup.procs"), "").expect("written");
        };
        groups.iter().for_each(make);
        let mut present = Present::of(&groups);
        assert_eq!(present.look(), [""; 0]);
        std::fs::remove_dir_all(&groups[0].dir).expect("removed");
        let said = present.look();
        assert!(said.len() == 1 && said[0].contains("/a was removed"), "{said:?}");
        assert!(present.look().is_empty() && !present.nobody());
        std::fs::remove_dir_all(&groups[1].dir).expect("removed");
        assert!(present.look()[0].contains("/b was removed") && present.nobody());
        make(&groups[1]);
        assert!(present.look()[0].contains("/b was recreated") && !present.nobody());
        assert!(End::NoGroup.unasked().is_some() && End::Time.unasked().is_none());
    }
}
