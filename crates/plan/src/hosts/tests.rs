// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::cells;
use crate::program::testing::TestProgram;

const HEAD: &str = "name = \"t\"\ntitle = \"t\"\npurpose = \"t\"\nhypothesis = \"t\"\ntakes = \"1s\"\n";
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
    let (plan, cells) = plan("host = \"a\"\nbeside = \"b\"\ndevice = [\"near\", \"far\"]\nrecord = []\n").expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let destroy = [PathBuf::from("/dev/it's")];
    let errands = errands(&plan, &cells[0].settings, "a", dir.path(), &destroy).expect("errands");
    let told: Vec<_> = errands.iter().map(|e| (e.name, e.recorded, e.devices.len())).collect();
    assert_eq!(told, [("a", true, 1), ("b", true, 1)]);
    let inner = std::fs::read_to_string(errands[0].dir.join("cell.toml")).expect("a plan");
    let inner = PlanFile::parse(&inner).expect("a plan that is read");
    let path = |name: &str| inner.devices[name].path.clone().expect("a path");
    assert_eq!((path("near"), path("far")), ("/dev/vdb".into(), "/dev/plumb-disk".into()));
    assert_eq!((inner.cell.host.as_ref(), inner.repeat, inner.hosts.len()), (None, 1, 0));
    assert_eq!(cells::of(&inner, &TestProgram).expect("cells").len(), 1);
    let script = |n: usize| std::fs::read_to_string(errands[n].dir.join("run")).expect("a script");
    assert!(script(0).contains("--destroy '/dev/it'\\''s'"), "{}", script(0));
    assert!(script(1).contains("record -a -e default,tcp"), "{}", script(1));
}

#[test]
fn a_host_that_only_has_a_disk_is_not_recorded() {
    let (plan, cells) = plan("host = \"a\"\ndevice = \"far\"\n").expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let errands = errands(&plan, &cells[0].settings, "a", dir.path(), &[]).expect("errands");
    let script = std::fs::read_to_string(errands[1].dir.join("run")).expect("a script");
    assert!(!errands[1].recorded && !script.contains("record"), "{script}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (cell, said) in [
        ("host = \"d\"\n", "no host \"d\""),
        ("beside = \"b\"\n", "need host"),
        ("device = \"far\"\n", "need host"),
        ("host = \"b\"\ndevice = \"far\"\n", "\"b\" is the host that the cell is measured on"),
        ("host = \"a\"\nbeside = \"b\"\n", "give record"),
        ("host = \"a\"\nbeside = \"c\"\nrecord = []\n", "all guests, or none"),
        ("host = \"a\"\ndevice = \"path\"\n", "a guest's device is a model"),
        ("host = \"v\"\ndevice = \"near\"\n", "a model takes real time"),
        ("host = \"c\"\ndevice = \"far\"\n", "all guests, or none"),
    ] {
        let error = plan(cell).map(drop).expect_err(cell);
        assert!(format!("{error:#}").contains(said), "{cell}: {error:#}");
    }
    for (host, said) in [
        ("guest = \"6.1\"\nreach = [\"x\"]", "one of reach and guest"),
        ("guest = \"six\"", "must be a version"),
        ("reach = []", "must have reach"),
        ("reach = [\"x\"]\nmemory = \"1G\"", "belong to a guest"),
        ("guest = \"6.1\"\nmemory = \"1M\"", "256M"),
    ] {
        let text = format!("{HEAD}[host.a]\n{host}\n[cell]\ncommand = [\"true\"]\n");
        let error = PlanFile::parse(&text).and_then(|p| cells::of(&p, &TestProgram).map(drop)).expect_err(host);
        assert!(format!("{error:#}").contains(said), "{host}: {error:#}");
    }
}

#[test]
fn a_result_that_names_a_place_outside_is_refused() {
    let (plan, cells) = plan("host = \"a\"\n").expect("a plan");
    let dir = tempfile::TempDir::new().expect("a directory");
    let errands = errands(&plan, &cells[0].settings, "a", dir.path(), &[]).expect("errands");
    let there = errands[0].out().join("plan");
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
        let error = taken(&errands[0], dir.path()).expect_err(bad);
        assert!(format!("{error:#}").contains("its result lies in"), "{error:#}");
    }
    let repetition = there.join("cells/1");
    std::fs::create_dir_all(&repetition).expect("a directory");
    for file in ["load.json", "cell.json"] {
        std::fs::write(repetition.join(file), "{}").expect("written");
    }
    state.made = vec![made("cells/1")];
    store::write(&there, &state).expect("written");
    let to = tempfile::TempDir::new().expect("a directory");
    let measured = taken(&errands[0], to.path()).expect("taken");
    assert_eq!((measured.elapsed_ns, measured.doubts.len()), (7, 1));
    assert!(to.path().join("load.json").exists() && !to.path().join("cell.json").exists());
}
