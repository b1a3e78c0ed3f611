// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::cells;
use crate::program::testing::TestProgram;
use std::time::Duration;

const HEAD: &str = "name = \"t\"\ntitle = \"t\"\npurpose = \"t\"\nhypothesis = \"t\"\ntakes = \"1s\"\n";
const LIMIT: Duration = Duration::from_secs(600);
const GUESTS: &str = r#"
    [host.a]
    guest = "6.1"
    [host.b]
    guest = "6.12"
    delay = "5ms"
    [host.c]
    reach = ["ssh", "c"]
    [host.v]
    guest = "6.1"
    virtual-time = true
    [device.far]
    model = "instant"
    host = "b"
    protocol = "nvme"
    [device.near]
    model = "instant"
    [device.path]
    path = "/dev/sdz"
    [cell]
    command = ["true"]
"#;

fn plan(cell: &str) -> Result<(PlanFile, Vec<Cell>)> {
    let plan = PlanFile::parse(&format!("{HEAD}{GUESTS}{cell}"))?;
    let cells = cells::of(&plan, &TestProgram)?;
    Ok((plan, cells))
}

#[test]
fn the_plan_of_a_guest_has_its_devices_by_the_names_that_they_have_there() {
    let (plan, cells) =
        plan("host = \"a\"\nrecord-hosts = \"b\"\ndevice = [\"near\", \"far\"]\nrecord = []\n")
            .expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let destroy = ["a:/dev/it's", "/dev/here", "b:/dev/other"].map(PathBuf::from);
    let tasks = tasks(&plan, &cells[0].settings, "a", dir.path(), (&destroy, LIMIT)).expect("tasks");
    let told: Vec<_> = tasks.iter().map(|e| (e.name, e.recorded, e.devices.len())).collect();
    assert_eq!(told, [("a", true, 1), ("b", true, 1)]);
    let inner = std::fs::read_to_string(tasks[0].dir.join("cell.toml")).expect("a plan");
    let inner = PlanFile::parse(&inner).expect("a plan that is read");
    let path = |name: &str| inner.devices[name].path.clone().expect("a path");
    assert_eq!((path("near"), path("far")), ("/dev/vdb".into(), "/dev/plumb-disk".into()));
    assert_eq!((inner.cell.host.as_ref(), inner.repeat, inner.hosts.len()), (None, 1, 0));
    assert_eq!(cells::of(&inner, &TestProgram).expect("cells").len(), 1);
    let script = |n: usize| std::fs::read_to_string(tasks[n].dir.join("run")).expect("a script");
    assert!(script(0).contains("--json --destroy '/dev/it'\\''s' </dev/null"), "{}", script(0));
    assert!(script(1).contains("record -a -e default,tcp"), "{}", script(1));
}

#[test]
fn a_host_that_only_has_a_disk_is_not_recorded() {
    let (plan, cells) = plan("host = \"a\"\ndevice = \"far\"\n").expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let tasks = tasks(&plan, &cells[0].settings, "a", dir.path(), (&[], LIMIT)).expect("tasks");
    let script = std::fs::read_to_string(tasks[1].dir.join("run")).expect("a script");
    assert!(!tasks[1].recorded && !script.contains("record"), "{script}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (cell, said) in [
        ("host = \"d\"\n", "no host \"d\""),
        ("record-hosts = \"b\"\n", "need host"),
        ("device = \"far\"\n", "need host"),
        ("host = \"b\"\ndevice = \"far\"\n", "\"b\" is the host that the cell is measured on"),
        ("host = \"a\"\nrecord-hosts = [\"b\", \"b\"]\nrecord = []\n", "twice"),
        ("host = \"b\"\n", "delay is of the network"),
        ("host = \"a\"\nrecord-hosts = \"b\"\n", "give record"),
        ("host = \"a\"\nrecord-hosts = \"c\"\nrecord = []\n", "all guests, or none"),
        ("host = \"a\"\ndevice = \"path\"\n", "a guest's device is a model"),
        ("host = \"v\"\ndevice = \"near\"\n", "a model takes real time"),
        ("host = \"c\"\ndevice = \"far\"\n", "all guests, or none"),
    ] {
        let error = plan(cell).map(drop).expect_err(cell);
        assert!(format!("{error:#}").contains(said), "{cell}: {error:#}");
    }
    let named = format!("{HEAD}[host.\"../x\"]\nguest = \"6.1\"\n[cell]\ncommand = [\"true\"]\n");
    let error =
        PlanFile::parse(&named).and_then(|p| cells::of(&p, &TestProgram).map(drop)).expect_err("a path");
    assert!(format!("{error:#}").contains("must be one word"), "{error:#}");
    for (host, said) in [
        ("guest = \"6.1\"\nreach = [\"x\"]", "one of reach and guest"),
        ("guest = \"six\"", "must be a version"),
        ("reach = []", "must have reach"),
        ("reach = [\"x\"]\nmemory = \"1G\"", "belong to a guest"),
        ("guest = \"6.1\"\nmemory = \"1M\"", "512M"),
    ] {
        let text = format!("{HEAD}[host.a]\n{host}\n[cell]\ncommand = [\"true\"]\n");
        let error =
            PlanFile::parse(&text).and_then(|p| cells::of(&p, &TestProgram).map(drop)).expect_err(host);
        assert!(format!("{error:#}").contains(said), "{host}: {error:#}");
    }
}

#[test]
fn a_result_that_names_a_place_outside_is_refused() {
    let (plan, cells) = plan("host = \"a\"\n").expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let tasks = tasks(&plan, &cells[0].settings, "a", dir.path(), (&[], LIMIT)).expect("tasks");
    let there = tasks[0].out().join("plan");
    std::fs::create_dir_all(&there).expect("a directory");
    let mut state = State::empty(plan.clone());
    let made = |dir: &str| crate::state::Made {
        cell: 0,
        repetition: 1,
        dir: dir.into(),
        begun: String::new(),
        took_ns: 1,
        elapsed_ns: 7,
        end: crate::state::End::Measured,
        doubts: vec!["a doubt".into()],
    };
    for bad in ["../../..", "/etc"] {
        state.made = vec![made(bad)];
        store::write(&there, &state).expect("written");
        let error = taken(&tasks[0], dir.path()).expect_err(bad);
        assert!(format!("{error:#}").contains("rejects the result's path"), "{error:#}");
    }
    let repetition = there.join("cells/1");
    std::fs::create_dir_all(&repetition).expect("a directory");
    for file in ["load.json", "cell.json"] {
        std::fs::write(repetition.join(file), "{}").expect("written");
    }
    state.made = vec![made("cells/1")];
    store::write(&there, &state).expect("written");
    let to = tempfile::TempDir::new().expect("a directory");
    let measured = taken(&tasks[0], to.path()).expect("taken");
    assert_eq!((measured.elapsed_ns, measured.doubts.len()), (7, 1));
    assert!(to.path().join("load.json").exists() && !to.path().join("cell.json").exists());
}

#[test]
fn only_plain_files_of_another_host_are_kept() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let outside = dir.path().join("outside");
    std::fs::write(&outside, "mine").expect("written");
    let out = dir.path().join("out");
    std::fs::create_dir_all(out.join("plan/cells/1")).expect("directories");
    let link = |name: &str| std::os::unix::fs::symlink(&outside, out.join(name)).expect("a link");
    link("plan/cells/1/output.txt");
    link("plan/cells/away");
    std::fs::hard_link(&outside, out.join("hard")).expect("a link");
    must_make_fifo(&out.join("plan/plan.json"));
    let file = out.join("plan/cells/1/load.json");
    std::fs::write(&file, "{}").expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o4755)).expect("set");
    keep_files(&out).expect("kept");
    for gone in ["plan/cells/1/output.txt", "plan/cells/away", "hard", "plan/plan.json"] {
        assert!(out.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    assert_eq!(file.metadata().expect("kept").permissions().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::read_to_string(&outside).expect("mine"), "mine");
}

fn must_make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}
