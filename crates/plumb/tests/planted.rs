// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories and links that another user put where root is about to write.

mod common;
use common::{can, must, output, plumb, stderr};
use std::os::unix::fs::{lchown, symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const OTHER: u32 = 4711;

fn record(dir: &Path) -> Command {
    let mut command = plumb();
    command.args(["run", "-q", "-e", "sched", "--sample", "off", "-o"]).arg(dir).args(["--", "true"]);
    command
}

fn refused(command: &mut Command, words: &str) {
    let out = output(command);
    assert_eq!(out.status.code(), Some(2), "{command:?}: {}", stderr(&out));
    assert!(stderr(&out).contains(words), "{}", stderr(&out));
}

/// A directory in which anybody may make anything, as /tmp.
fn sticky() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).expect("changed");
    dir
}

#[test]
fn a_directory_that_another_made_is_refused() {
    if !can("a_directory_that_another_made_is_refused", &[]) {
        return;
    }
    let dir = sticky();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("made");
    lchown(&run, Some(OTHER), Some(OTHER)).expect("given");
    refused(&mut record(&run), "belongs to user 4711");
    refused(plumb().args(["record", "-q", "-o"]).arg(&run).args(["--", "true"]), "belongs to user 4711");
    refused(
        plumb().args(["run", "-q", "--repeat", "2", "-o"]).arg(&run).args(["--", "true"]),
        "belongs to user 4711",
    );
    assert_eq!(std::fs::read_dir(&run).expect("there").count(), 0);
    refused(&mut record(dir.path()), "everybody may write there");
}

#[test]
fn what_is_recorded_is_its_users_alone() {
    if !can("what_is_recorded_is_its_users_alone", &[]) {
        return;
    }
    let dir = sticky();
    let (run, made) = (dir.path().join("run"), dir.path().join("made"));
    let made_by_the_command = made.to_str().expect("text");
    let sudo = [("SUDO_UID", "4711"), ("SUDO_GID", "4712")];
    let mut command = plumb();
    command.args(["run", "-q", "-o"]).arg(&run).args(["--", "touch", made_by_the_command]).envs(sudo);
    // SAFETY: changes a number of the process that is to be plumb.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            libc::umask(0o022);
            Ok(())
        })
    };
    must(&mut command);
    let facts = |path: &Path| {
        let meta = std::fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (meta.mode() & 0o777, meta.uid(), meta.gid())
    };
    assert_eq!(facts(&run), (0o700, OTHER, 4712));
    for name in [
        "run.json",
        "result.json",
        "result.txt",
        "report.html",
        "trace/metadata",
        "trace/state",
        "trace/cpu_0",
    ] {
        assert_eq!(facts(&run.join(name)), (0o600, OTHER, 4712), "{name}");
    }
    assert_eq!(facts(&made).0, 0o644, "the command's own files are as ever");
    let open = dir.path().join("open");
    must(plumb().args(["run", "-q", "--share", "-e", "sched", "-o"]).arg(&open).args(["--", "true"]));
    assert_ne!(facts(&open).0 & 0o055, 0, "{:o}", facts(&open).0);
}

#[test]
fn a_page_replaces_neither_a_users_file_nor_what_a_link_names() {
    if !can("a_page_replaces_neither_a_users_file_nor_what_a_link_names", &[]) {
        return;
    }
    let dir = sticky();
    let (run, page, precious) =
        (dir.path().join("run"), dir.path().join("page.html"), dir.path().join("precious"));
    must(&mut record(&run));
    std::fs::write(&precious, "mine").expect("written");
    let report = |to: &Path, more: &[&str]| {
        let mut command = plumb();
        command.arg("report").arg(&run).arg("-o").arg(to).args(more);
        command
    };
    refused(&mut report(&precious, &[]), "--force");
    symlink(&precious, &page).expect("linked");
    lchown(&page, Some(OTHER), None).expect("given");
    refused(&mut report(&page, &["--force"]), "another user's link");
    assert_eq!(std::fs::read_to_string(&precious).expect("there"), "mine");
    std::fs::remove_file(&page).expect("removed");
    must(&mut report(&page, &[]));
    must(&mut report(&page, &[]));
    must(&mut report(&precious, &["--force"]));
    assert!(std::fs::read_to_string(&precious).expect("there").starts_with("<!doctype html>"));
}
