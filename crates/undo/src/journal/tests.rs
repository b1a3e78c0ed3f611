// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::devices::PlainFiles;

fn directory(name: &str) -> Change {
    Change::Directory { path: name.into() }
}

#[test]
fn the_last_that_was_said_of_a_limit_is_what_is_put_back() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("io.max");
    let put = |text: &str| std::fs::write(&file, text).expect("written");
    let device = plumb_machine::DeviceNumber { major: 8, minor: 0 };
    let limit = |before: &str| Limit { path: file.clone(), device, before: before.into(), after: None };
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("opened");
    journal.will_limit(&limit("rbps=max wbps=max riops=max wiops=max")).expect("said");
    journal.will_limit(&limit("rbps=7 wbps=max riops=max wiops=max")).expect("said");
    put("8:0 rbps=1 wbps=1 riops=max wiops=max\n");
    assert!(restore(dir.path(), Held::NotSince, &PlainFiles, &mut |_| {}).expect("restored"));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "8:0 rbps=7 wbps=max riops=max wiops=max\n");
}

#[test]
fn a_controller_is_taken_back_unless_somebody_needs_it() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let path = dir.path().join("cgroup.subtree_control");
    let controller = || Change::Controller { path: path.clone(), name: "io".into() };
    let below = dir.path().join("a");
    std::fs::create_dir(&below).expect("made");
    for (limit, kept) in [("8:0 rbps=1 wbps=max riops=max wiops=max\n", true), ("", false)] {
        std::fs::write(&path, "cpu io memory\n").expect("written");
        std::fs::write(below.join("io.max"), limit).expect("written");
        let mut journal = Journal::open(dir.path(), &PlainFiles).expect("opened");
        journal.will(controller()).expect("said");
        let told = journal.undo_since(0);
        assert_eq!(matches!(told[..], [Undone::LeftAlone(_)]), kept, "{told:?}");
        // A plain file takes what is written as it is.
        let now = std::fs::read_to_string(&path).expect("read");
        assert_eq!(now, if kept { "cpu io memory\n" } else { "-io" });
    }
}

fn write(path: &Path, old: &str, new: &str) -> Change {
    Change::Write { path: path.into(), old: Some(old.into()), new: new.into(), instead: None }
}

#[test]
fn a_number_that_no_journal_reaches_is_refused() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let line = r#"{"number":4294967295,"change":"disk","name":"d"}"#;
    std::fs::write(dir.path().join(JOURNAL), format!("{line}\n")).expect("written");
    let said = format!("{:#}", open_in(dir.path()).expect_err("no journal"));
    assert!(said.ends_with("line 1: no journal has 4294967295 changes"), "{said}");
}

#[test]
fn what_is_not_marked_stands_open_in_its_order() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    journal.begin().expect("written");
    let numbers: Vec<u32> = ["a", "b", "c"].map(|n| journal.will(directory(n)).expect("written")).into();
    journal.done(numbers[1]).expect("written");
    drop(journal);
    let journal = Journal::open(dir.path(), &PlainFiles).expect("again");
    let open: Vec<_> = journal.open.iter().map(|o| (o.number, o.change.clone(), o.before_boot)).collect();
    assert_eq!(open, [(2, directory("a"), false), (4, directory("c"), false)]);
    assert_eq!(journal.mark(), 5);
}

#[test]
fn a_torn_last_line_was_not_done_and_does_not_hide_what_follows() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let path = dir.path().join(JOURNAL);
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    journal.will(directory("a")).expect("written");
    journal.will(directory("b")).expect("written");
    let whole = std::fs::read(&path).expect("the journal");
    let second = whole.iter().position(|b| *b == b'\n').expect("two lines") + 1;
    for cut in second..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("torn");
        let mut journal = Journal::open(dir.path(), &PlainFiles).expect("torn");
        assert_eq!(journal.open.len(), 1, "cut at {cut}");
        journal.will(directory("c")).expect("written");
        let again = Journal::open(dir.path(), &PlainFiles).expect("whole");
        let names: Vec<_> = again.open.iter().map(|o| &o.change).collect();
        assert_eq!(names, [&directory("a"), &directory("c")], "cut at {cut}");
    }
}

#[test]
fn a_line_in_the_middle_that_makes_no_sense_is_named() {
    let said = replay("{\"done\":1}\n{\"nonsense\":1}\n{\"done\":2}\n", "").expect_err("nonsense");
    assert!(format!("{said:#}").contains("line 2"), "{said:#}");
}

#[test]
fn changes_are_undone_the_last_first_and_once() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("value");
    std::fs::write(&file, "3").expect("a value");
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    for (old, new) in [("1", "2"), ("2", "3")] {
        let number = journal.will(write(&file, old, new)).expect("written");
        journal.took(number, new).expect("written");
    }
    // Undone in the other order, the first would find a value that is not its own.
    let mut said = Vec::new();
    drop(journal);
    assert!(restore(dir.path(), Held::NotSince, &PlainFiles, &mut |line| said.push(line.to_string()))
        .expect("restored"));
    assert_eq!(std::fs::read_to_string(&file).expect("the value"), "1", "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
    std::fs::write(&file, "9").expect("somebody else's");
    assert!(restore(dir.path(), Held::NotSince, &PlainFiles, &mut |line| panic!("{line}")).expect("again"));
    assert_eq!(std::fs::read_to_string(&file).expect("the value"), "9");
}

#[test]
fn what_somebody_else_changed_is_left_alone_and_named() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("value");
    std::fs::write(&file, "7").expect("a value");
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    let number = journal.will(write(&file, "1", "2")).expect("written");
    journal.took(number, "2").expect("written");
    let told = journal.undo_since(0);
    assert!(matches!(&told[..], [Undone::LeftAlone(s)] if s.contains("value")), "{told:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("the value"), "7");
}

#[test]
fn a_write_that_a_kill_cut_short_is_undone_whatever_it_left() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("value");
    // The kernel may round what it is told: 2 became 4, and nobody came to note it.
    std::fs::write(&file, "4").expect("a value");
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    journal.will(write(&file, "1", "2")).expect("written");
    journal.undo_since(0);
    assert_eq!(std::fs::read_to_string(&file).expect("the value"), "1");
}

#[test]
fn after_a_boot_only_directories_are_left_to_remove() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let (file, made) = (dir.path().join("value"), dir.path().join("made"));
    std::fs::write(&file, "2").expect("a value");
    std::fs::create_dir(&made).expect("a directory");
    let began = Change::Began { boot: "another".into(), pid: 1, utc: utc() };
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
    journal.will(began).expect("written");
    journal.will(directory(&made.display().to_string())).expect("written");
    journal.will(write(&file, "1", "2")).expect("written");
    drop(journal);
    assert!(restore(dir.path(), Held::NotSince, &PlainFiles, &mut |_| {}).expect("restored"));
    assert_eq!(std::fs::read_to_string(&file).expect("the value"), "2");
    assert!(!made.exists());
}

/// A journal with every change, as plumb 0.1.0 wrote it: a killed run of it must be undone by this version.
#[test]
fn journals_of_older_versions_are_read() {
    let text = r#"{"number":1,"change":"began","boot":"b","pid":7,"utc":"2026-01-02T03:04:05Z"}
{"number":2,"change":"disk","name":"plumb-x"}
{"number":3,"change":"directory","path":"/p/mount"}
{"number":4,"change":"formatted","device":"/dev/sdb","kind":"none"}
{"number":5,"change":"mount","point":"/p/mount/d","device":"/dev/sdb","disk":null}
{"number":6,"change":"write","path":"/proc/sys/vm/dirty_bytes","old":"0","new":"4096","instead":["/proc/sys/vm/dirty_ratio","20"]}
{"took":6,"value":"4096"}
{"number":7,"change":"write","path":"/proc/sys/vm/drop_caches","old":null,"new":"3","instead":null}
{"number":8,"change":"queue","dir":"/sys/block/sdb/queue","values":{"nr_requests":"64","scheduler":"none"}}
{"number":9,"change":"cgroup","path":"/sys/fs/cgroup/plumb-govern-7"}
{"number":10,"change":"controller","path":"/sys/fs/cgroup/cgroup.subtree_control","name":"io"}
{"number":11,"change":"limit","path":"/sys/fs/cgroup/a/io.max","device":"8:16","before":"rbps=max wbps=max riops=max wiops=max"}
{"number":12,"change":"processes","group":99,"start":12345}
{"done":3}
"#;
    let device = plumb_machine::DeviceNumber { major: 8, minor: 16 };
    let write = |path: &str, old: Option<&str>, new: &str, instead| Change::Write {
        path: path.into(),
        old: old.map(String::from),
        new: new.into(),
        instead,
    };
    let dirty = ("/proc/sys/vm/dirty_ratio".into(), "20".to_string());
    let want = [
        Change::Disk { name: "plumb-x".into() },
        Change::Formatted { device: "/dev/sdb".into(), kind: "none".into() },
        Change::Mount { point: "/p/mount/d".into(), device: "/dev/sdb".into(), disk: None },
        write("/proc/sys/vm/dirty_bytes", Some("0"), "4096", Some(dirty)),
        write("/proc/sys/vm/drop_caches", None, "3", None),
        Change::Queue {
            dir: "/sys/block/sdb/queue".into(),
            values: [("nr_requests".into(), "64".into()), ("scheduler".into(), "none".into())].into(),
        },
        Change::Cgroup { path: "/sys/fs/cgroup/plumb-govern-7".into() },
        Change::Controller { path: "/sys/fs/cgroup/cgroup.subtree_control".into(), name: "io".into() },
        Change::Limit(Limit {
            path: "/sys/fs/cgroup/a/io.max".into(),
            device,
            before: "rbps=max wbps=max riops=max wiops=max".into(),
            after: None,
        }),
        Change::Processes { group: 99, start: 12345 },
    ];
    let (open, next) = replay(text, "b").expect("readable");
    assert_eq!(open.iter().map(|o| o.change.clone()).collect::<Vec<_>>(), want);
    assert_eq!(open[3].took.as_deref(), Some("4096"));
    assert_eq!(next, 13);
    // And it is written as it was.
    let lines: Vec<serde_json::Value> =
        text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    for one in open {
        let line = Line::Will { number: one.number, change: one.change };
        let written = serde_json::to_value(&line).expect("JSON");
        assert!(lines.contains(&written), "{written}");
    }
}

#[test]
fn what_no_plumb_can_have_written_is_refused_and_stays_open() {
    use crate::devices::NoDevices;
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("passwd");
    std::fs::write(&file, "root").expect("written");
    let mut journal = Journal::open(dir.path(), &NoDevices).expect("new");
    journal.will(write(&file, "mine", "root")).expect("written");
    journal.will(Change::Cgroup { path: dir.path().join("passwd") }).expect("written");
    let instead = Some((file.clone(), "mine".into()));
    let path = "/proc/sys/vm/swappiness".into();
    journal.will(Change::Write { path, old: Some("-1".into()), new: "1".into(), instead }).expect("written");
    let values = [("../../../tmp/x".to_string(), "1".to_string())].into();
    journal.will(Change::Queue { dir: "/sys/block".into(), values }).expect("written");
    drop(journal);
    let mut said = Vec::new();
    let whole = restore(dir.path(), Held::NotSince, &NoDevices, &mut |line| said.push(line.to_string()));
    assert!(!whole.expect("read"));
    assert_eq!(said.iter().filter(|line| line.contains("it is refused")).count(), 4, "{said:#?}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "root");
    assert_eq!(open_in(dir.path()).expect("read").len(), 4, "it is told again");
}

#[test]
fn a_journal_that_others_may_have_written_is_not_obeyed() {
    use std::os::unix::fs::{chown, symlink, PermissionsExt};
    let dir = tempfile::TempDir::new().expect("a directory");
    drop(Journal::open(dir.path(), &PlainFiles).expect("new"));
    let journal = dir.path().join(JOURNAL);
    let refused = || format!("{:#}", Journal::open(dir.path(), &PlainFiles).expect_err("refused"));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    mode(&journal, 0o666);
    assert!(refused().contains("everybody may write to the journal"), "{}", refused());
    mode(&journal, 0o600);
    mode(dir.path(), 0o777);
    assert!(refused().contains("everybody may write to the directory"), "{}", refused());
    mode(dir.path(), 0o700);
    let other = dir.path().join("other");
    std::fs::rename(&journal, &other).expect("renamed");
    symlink(&other, &journal).expect("linked");
    refused();
    std::fs::rename(&other, &journal).expect("renamed");
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP a_journal_that_others_may_have_written_is_not_obeyed: needs root for the rest");
        return;
    }
    chown(&journal, Some(4711), None).expect("given");
    assert!(refused().contains("the journal belongs to user 4711"), "{}", refused());
}

#[derive(Debug)]
struct Commands;

impl crate::devices::Devices for Commands {
    fn is_served(&self, _: &str) -> bool {
        false
    }

    fn stop(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn is_unfinished(&self, _: &Path) -> bool {
        false
    }

    fn clear_unfinished(&self, _: &Path) -> Result<bool> {
        Ok(false)
    }
}

#[test]
fn a_command_is_run_by_a_journal_that_has_commands_alone() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let made = dir.path().join("made");
    let undo = ["touch".to_string(), "made".into()].to_vec();
    let command =
        || Change::Command { name: "a".into(), undo: undo.clone(), directory: Some(dir.path().into()) };
    let mut journal = Journal::open(dir.path(), &PlainFiles).expect("opened");
    journal.will(command()).expect("said");
    assert!(matches!(journal.undo_since(0)[..], [Undone::Failed(_)]));
    assert!(!made.exists());
    let mut journal = Journal::open(dir.path(), &Commands).expect("opened");
    assert!(matches!(journal.undo_since(0)[..], [Undone::Did(_)]));
    assert!(made.exists());
    let failing = Change::Command { name: "b".into(), undo: vec!["false".into()], directory: None };
    journal.will(failing).expect("said");
    assert!(matches!(journal.undo_since(0)[..], [Undone::Failed(_)]));
    assert_eq!(journal.open_changes().len(), 1, "it stands");
}
