// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every mistake that a plan can have, once, with what is said of it.

use super::super::cells;
use super::super::file::PlanFile;
use crate::program::testing::TestProgram;

const HEAD: &str = "name = \"p\"\ntitle = \"t\"\npurpose = \"p\"\nhypothesis = \"h\"\ntakes = \"1s\"\n";
const BODY: &str = r#"
[device.d]
model = "instant"
[device.e]
model = "instant"
[device.home]
directory = "/home"
[cell]
device = "d"
[[factor]]
name = "fs"
[[factor.level]]
name = "ext4"
file-system.kind = "ext4"
[[factor.level]]
name = "none"
[[factor]]
name = "method"
[[factor.level]]
name = "fsync"
load.sync = "fsync"
[[factor.level]]
name = "none"
load.sync = "none"
"#;

/// What is said of a plan.
fn said(text: &str) -> String {
    let cells = PlanFile::parse(text).and_then(|plan| cells::of(&plan, &TestProgram));
    format!("{:#}", cells.expect_err(text))
}

/// The plan with words in the place of others.
fn with(from: &str, to: &str) -> String {
    assert!(BODY.contains(from), "{from}");
    format!("{HEAD}{}", BODY.replacen(from, to, 1))
}

/// Every mistake: what is put where, and the words that are said.
fn named(cases: &[(&str, &str, &[&str])]) {
    for (from, to, words) in cases {
        let said = said(&with(from, to));
        let lacks: Vec<_> = words.iter().filter(|w| !said.contains(**w)).collect();
        assert!(lacks.is_empty(), "{to}: lacks {lacks:?}: {said}");
    }
}

#[test]
fn the_plan_itself_is_good() {
    let plan = PlanFile::parse(&format!("{HEAD}{BODY}")).expect("a plan");
    assert_eq!(cells::of(&plan, &TestProgram).expect("cells").len(), 4);
}

#[test]
fn unknown_keys_are_named_with_line_and_place() {
    named(&[
        (
            "load.sync = \"fsync\"",
            "moutn = \"x\"",
            &["factor method, level 1: unknown key \"moutn\"; did you mean \"file-system.mount\"?"],
        ),
        (
            "[device.d]\n",
            "[device.d]\nmodle = \"x\"\n",
            &["line 8: device d: unknown key \"modle\"", "did you mean \"model\"", "known: model, set"],
        ),
        ("[cell]\n", "[cell]\nremuont = true\n", &["line 14: cell: unknown key \"remuont\"", "\"remount\""]),
        (
            "file-system.kind = \"ext4\"",
            "file-system.mont = \"x\"",
            &["factor fs, level 1, file-system: unknown key \"mont\"", "\"mount\""],
        ),
        (
            "load.sync = \"fsync\"",
            "laod.sync = \"x\"",
            &[
                "factor method, level 1: unknown key \"laod\"",
                "did you mean \"load\"",
                "known: name, price, device",
            ],
        ),
        (
            "[[factor]]\nname = \"method\"",
            "[[factor]]\nlevles = 1\nname = \"method\"",
            &["factor method: unknown key \"levles\""],
        ),
        ("[cell]", "[[skip]]\nwhne = 1\n[cell]", &["skip 1: unknown key \"whne\"", "\"when\""]),
        (
            "[cell]",
            "[[chart]]\nname = \"c\"\nfigrue = 1\n[cell]",
            &["chart c: unknown key \"figrue\"", "\"figure\""],
        ),
    ]);
    let said = said(&format!("{HEAD}repaet = 2\n{BODY}"));
    assert!(said.starts_with("line 6: unknown key \"repaet\"; did you mean \"repeat\"?"), "{said}");
}

#[test]
fn what_is_no_toml_or_no_value_is_shown_with_its_line() {
    for (text, words) in [
        ("name = \n", &["line 1"][..]),
        (&format!("{HEAD}repeat = \"two\"\n{BODY}"), &["line 6", "repeat = \"two\"", "u32"]),
        (&format!("{HEAD}limit = \"soon\"\n{BODY}"), &["line 6", "'soon' is not a duration"]),
        (
            &with("load.sync = \"fsync\"", "load.sync = { a = 1 }"),
            &["level fsync", "must be true, false, a number"],
        ),
        (&with("device = \"d\"", "device = 7"), &["line 14", "must be a name, or a list of names"]),
        (&with("name = \"fsync\"", "name = 7"), &["must be text"]),
        (&with("name = \"fsync\"\n", ""), &["a level has no name"]),
        (BODY, &["name"]),
    ] {
        let said = said(text);
        assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
    }
}

#[test]
fn what_a_plan_says_of_itself_is_checked() {
    let head = |from: &str, to: &str| format!("{}{BODY}", HEAD.replace(from, to));
    for (text, words) in [
        (head("\"p\"\ntitle", "\"../p\"\ntitle"), &["name = \"../p\"", "one word"][..]),
        (head("takes = \"1s\"", "takes = \"1s\"\nrepeat = 0"), &["repeat = 0", "at least one"]),
        (
            head("takes = \"1s\"", "takes = \"1s\"\nrepeat = 4294967295"),
            &["repeat = 4294967295", "at most 10000"],
        ),
        (head("takes = \"1s\"", "takes = \"1s\"\nlimit = 0"), &["limit = 0"]),
        (head("takes = \"1s\"", "takes = \"1s\"\norder = \"blocked\""), &["blocked", "needs blocks"]),
        (
            head("takes = \"1s\"", "takes = \"1s\"\nblocks = [\"sf\"]"),
            &["blocks", "\"sf\"", "did you mean \"fs\""],
        ),
        (head("takes = \"1s\"", "takes = \"1s\"\nblocks = [\"fs\", \"fs\"]"), &["factor fs is there twice"]),
        (
            head("takes = \"1s\"", "takes = \"1s\"\nfigures = [\"write.maen\"]"),
            &["figures", "write.maen", "p99.9"],
        ),
    ] {
        let said = said(&text);
        assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
    }
}

#[test]
fn figures_may_be_called_as_their_table_says() {
    for good in
        ["elapsed", "time.block.device", "write.mean", "sync.p99.9", "seek:read.rate", "a: b.c:read.max"]
    {
        super::figure(good).unwrap_or_else(|e| panic!("{good}: {e}"));
    }
    for bad in ["", "write", "write.", ".mean", "write.p98", "time.", "mean"] {
        assert!(super::figure(bad).is_err(), "{bad}");
    }
}

#[test]
fn devices_are_checked() {
    named(&[
        (
            "model = \"instant\"\n",
            "model = \"instant\"\npath = \"/dev/x\"\n",
            &["device d", "one of model, path and directory"],
        ),
        ("model = \"instant\"\n", "", &["device d", "one of model"]),
        ("model = \"instant\"\n", "path = \"/dev/x\"\nsize = \"1G\"\n", &["device d", "belong to a model"]),
        (
            "model = \"instant\"\n",
            "model = \"instant\"\nsize = \"5000000\"\n",
            &["device d", "multiple of 4096"],
        ),
        ("model = \"instant\"\n", "model = \"instant\"\nset = [\"x\"]\n", &["device d", "KEY=VALUE"]),
        ("model = \"instant\"\n", "path = \"x\"\n", &["device d", "absolute"]),
        ("[device.d]", "[device.\"a=b\"]\nmodel = \"instant\"\n[device.d]", &["a=b", "no '='"]),
        (
            "device = \"d\"",
            "device = \"dd\"",
            &["cell 'ext4 fsync': [cell]", "no device \"dd\"", "did you mean \"d\"", "d, e, home"],
        ),
        ("device = \"d\"", "device = [\"d\", \"d\"]", &["\"d\" is there twice"]),
        ("device = \"d\"", "copies = 1", &["file-system", "no device"]),
    ]);
}

#[test]
fn models_and_their_changes_are_checked() {
    named(&[
        ("model = \"instant\"", "model = \"instatn\"", &["device d", "instatn", "did you mean instant?"]),
        ("model = \"instant\"", "model = \"gp3\"\nset = [\"medium.x=1\"]", &["device d", "x"]),
    ]);
}

#[test]
fn factors_skips_and_charts_are_checked() {
    let chart = |rest: &str| format!("[[chart]]\nname = \"c\"\ntitle = \"t\"\n{rest}\n[cell]");
    named(&[
        ("name = \"method\"", "name = \"fs\"", &["factor fs: there are two"]),
        ("name = \"method\"", "name = \"a=b\"", &["factor", "a=b"]),
        ("name = \"fsync\"", "name = \"none\"", &["factor method, level 2", "two levels called \"none\""]),
        (
            "name = \"fsync\"",
            "name = \"fsync\"\nprice = -1",
            &["factor method, level 1", "price must be 0 or more"],
        ),
        ("name = \"fsync\"", "name = \"fsync\"\nprice = nan", &["factor method, level 1", "price"]),
        ("name = \"fsync\"", "name = \"fsync\"\nprice = \"1\"", &["fsync", "price must be a number"]),
        ("device = \"d\"", "device = \"d\"\nprice = 1", &["cell", "unknown key \"price\""]),
        ("name = \"fsync\"", "name = \" \"", &["factor method, level 1", "must not be empty"]),
        (
            "[[factor]]\nname = \"fs\"",
            "[[factor]]\nname = \"x\"\nlevel = []\n[[factor]]\nname = \"fs\"",
            &["factor x", "no level"],
        ),
        ("[cell]", "[[skip]]\nwhen = {}\nwhy = \"w\"\n[cell]", &["skip 1", "needs when"]),
        ("[cell]", "[[skip]]\nwhen = { sf = \"ext4\" }\nwhy = \"w\"\n[cell]", &["skip 1", "factor \"sf\""]),
        (
            "[cell]",
            "[[skip]]\nwhen = { fs = [\"ext4\", \"xfs\"] }\nwhy = \"w\"\n[cell]",
            &["skip 1", "level of factor fs \"xfs\"", "ext4, none"],
        ),
        ("[cell]", "[[skip]]\nwhen = { fs = \"ext4\" }\nwhy = \"\"\n[cell]", &["skip 1", "why"]),
        (
            "[cell]",
            &chart("kind = \"bars\"\nfigure = \"write.mean\"\nover = \"sf\""),
            &["chart c", "over", "\"sf\""],
        ),
        ("[cell]", &chart("kind = \"lines\"\nfigure = \"write.mean\""), &["chart c", "needs over"]),
        ("[cell]", &chart("kind = \"bars\"\nfigure = \"wirte\""), &["chart c", "\"wirte\" is no figure"]),
        ("[cell]", &chart("kind = \"operations\"\nfigure = \"\""), &["chart c", "kind of operation"]),
        (
            "[cell]",
            &chart("kind = \"bars\"\nfigure = \"elapsed\"\nx = \"ext4:elapsed\""),
            &["chart c", "scatter"],
        ),
        (
            "[cell]",
            &chart("kind = \"scatter\"\nfigure = \"ext4:elapsed\"\nby = \"fs\""),
            &["chart c", "needs by"],
        ),
        (
            "[cell]",
            &chart("kind = \"surface\"\nfigure = \"elapsed\"\nby = \"fs\""),
            &["chart c", "needs over"],
        ),
        (
            "[cell]",
            &chart("kind = \"account\"\nfigure = \"elapsed\""),
            &["chart c", "\"spans\"", "\"steps\""],
        ),
        ("[cell]", &chart("kind = \"account\"\nfigure = \"steps\"\nlog = true"), &["chart c", "leave out"]),
        (
            "[cell]",
            &chart("kind = \"account\"\nfigure = \"steps\"\nover = \"fs\""),
            &["chart c", "leave out"],
        ),
        (
            "[cell]",
            &chart("kind = \"bars\"\nfigure = \"elapsed\"").replace("\"c\"", "\"a/b\""),
            &["chart a/b", "a file's"],
        ),
    ]);
    let twice = chart("kind = \"bars\"\nfigure = \"elapsed\"").replace("[cell]", "").repeat(2) + "[cell]";
    named(&[("[cell]", &twice, &["chart c", "two of that name"])]);
}

#[test]
fn what_is_measured_is_checked() {
    named(&[
        ("load.sync = \"none\"", "", &["cell 'ext4 none'", "nothing to measure"]),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\ncommand = [\"true\"]",
            &["factor method, level none", "a load and a command"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\ncopies = 0",
            &["factor method, level none", "copies = 0"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\ncopies = 3",
            &["cell 'none none'", "copies = 3 on one device", "file-system"],
        ),
        (
            "load.sync = \"none\"",
            "load.sycn = \"none\"",
            &["factor method, level none: load", "--sycn", "--sync"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"nnoe\"",
            &["factor method, level none: load", "nnoe", "fdatasync"],
        ),
        ("load.sync = \"none\"", "load.depth = 8", &["factor method, level none: load", "depth"]),
        (
            "load.sync = \"none\"",
            "preset = \"syncwirte\"",
            &["factor method, level none", "syncwirte", "\"syncwrite\""],
        ),
        (
            "load.sync = \"none\"",
            "load.what = \"read\"\nrecord = [\"--evnets\"]",
            &["factor method, level none: record", "--evnets"],
        ),
        ("load.sync = \"none\"", "command = []", &["factor method, level none: command", "is empty"]),
        ("load.sync = \"none\"", "command = [\"ls\", \"{dir2}\"]", &["{dir2}", "1 devices"]),
        (
            "load.sync = \"none\"",
            "command = [\"ls\", \"${HOME} {} {a,b} {foo}\"]",
            &["level none: command", "{foo}: there is no such placeholder", "{out}", "{ foo }"],
        ),
        (
            "load.sync = \"none\"",
            "command = [\"ls\", \"{dir}\"]",
            &["cell 'none none'", "{dir}", "no file system", "{device}"],
        ),
        (
            "load.sync = \"none\"",
            "load.what = \"read\"\nprepare = [\"ls\", \"x={dir9}\"]",
            &["factor method, level none: prepare", "{dir9}"],
        ),
        (
            "load.sync = \"none\"",
            "load.what = \"read\"\nneighbour = [\"ls\", \"x={dir9}\"]",
            &["factor method, level none: neighbour", "{dir9}"],
        ),
    ]);
}

#[test]
fn file_systems_and_settings_of_the_kernel_are_checked() {
    named(&[
        (
            "file-system.kind = \"ext4\"",
            "file-system.mount = \"noatime\"",
            &["factor fs, level ext4", "no kind"],
        ),
        (
            "file-system.kind = \"ext4\"",
            "file-system.kind = \"../x\"",
            &["factor fs, level ext4", "must be a word"],
        ),
        ("device = \"d\"", "device = \"home\"", &["factor fs, level ext4", "/home is a directory"]),
        (
            "device = \"d\"",
            "device = \"d\"\nremount = true",
            &["cell 'none fsync'", "remount", "no file system"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nqueue.\"../x\" = 1",
            &["factor method, level none: queue.../x", "iosched/read_expire"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nqueue.nr_requests = [\"1\"]",
            &["queue.nr_requests", "one value"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nserver = { kind = \"postgresql\", settings = { listen_addresses = \"*\" } }",
            &["factor method, level none", "listen_addresses", "the plan's own"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nserver = { kind = \"mariadb\", settings = { skip-networking = false } }",
            &["skip-networking", "the plan's own"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nserver = { kind = \"mariadb\", settings = { loose-bind-addr = \"*\" } }",
            &["loose-bind-addr", "the plan's own"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nserver = { kind = \"postgresql\", settings = { Data_Directory = \"/\" } }",
            &["Data_Directory", "the plan's own"],
        ),
        ("load.sync = \"none\"", "load.sync = \"none\"\ncpus = 0", &["factor method, level none", "cpus = 0"]),
        ("load.sync = \"none\"", "load.sync = \"none\"\nmemory = \"1M\"", &["level none", "below 4.0 MiB"]),
        ("load.sync = \"none\"", "load.sync = \"none\"\nsysctl.vm = true", &["sysctl.\"vm\"", "give 1"]),
        ("load.sync = \"none\"", "load.sync = \"none\"\nsysctl.\"vm..x\" = 1", &["no kernel parameter"]),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nwrite.\"/etc/passwd\" = 1",
            &["factor method, level none: write.\"/etc/passwd\"", "only files of /proc and /sys"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nwrite.\"/proc/../etc/x\" = 1",
            &["only files of /proc and /sys"],
        ),
        (
            "load.sync = \"none\"",
            "load.sync = \"none\"\nwrite.\"/proc/sysrq-trigger\" = \"b\"",
            &["cannot be put back"],
        ),
        ("load.sync = \"none\"", "load.sync = \"none\"\nwrite.\"/proc/sys/x\" = \"\"", &["not empty"]),
    ]);
    let text = with(
        "[[factor]]\nname = \"fs\"\n[[factor.level]]\nname = \"ext4\"\nfile-system.kind = \"ext4\"",
        "[[factor]]\nname = \"fs\"\n[[factor.level]]\nname = \"ext4\"\nqueue.scheduler = \"none\"",
    )
    .replace("device = \"d\"", "device = \"home\"");
    let said = said(&text);
    assert!(said.contains("factor fs, level ext4: queue.scheduler") && said.contains("directory"), "{said}");
}

#[test]
fn a_figure_that_no_load_makes_is_named_with_those_there_are() {
    let head = |more: &str| format!("{HEAD}{more}\n{BODY}");
    let chart = |kind: &str, figure: &str| {
        let more = if kind == "bars" { "" } else { "by = \"fs\"\n" };
        let chart = format!(
            "[[chart]]\nname = \"c\"\ntitle = \"t\"\nkind = \"{kind}\"\nfigure = \"{figure}\"\n{more}"
        );
        format!("{HEAD}{BODY}{chart}")
    };
    for (text, words) in [
        (
            head("figures = [\"write.mean\", \"read.p99\"]"),
            &["figures: \"read.p99\": no load", "elapsed", "of sync, write one of rate"][..],
        ),
        (head("figures = [\"seeks:write.mean\"]"), &["\"seeks:write.mean\": no load"]),
        (
            head("figures = [\"time.disk\"]"),
            &["\"time.disk\": no cell of the plan is recorded", "record = []"],
        ),
        (chart("bars", "lock.mean"), &["chart c: \"lock.mean\": no load"]),
        (chart("operations", "raed"), &["chart c: \"raed\": no load"]),
        (chart("scatter\"\nx = \"ext3:elapsed", "none:elapsed"), &["chart c: x and figure", "ext4, none"]),
        (chart("scatter\"\nx = \"ext4:elapsed", "none:read.p50"), &["chart c: \"read.p50\": no load"]),
        (chart("account", "spans"), &["chart c: \"spans\": no cell of the plan is recorded"]),
    ] {
        let said = said(&text);
        assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
    }
    for good in [
        head("figures = [\"elapsed\", \"write.p99.9\", \"sync.count\"]"),
        head("figures = [\"time.disk\"]").replace("[cell]", "[cell]\nrecord = []"),
        head("figures = [\"elapsed\"]"),
        chart("bars", "write.mean"),
        chart("operations", "write"),
        chart("account", "steps"),
        chart("scatter\"\nx = \"ext4:elapsed", "none:write.p50"),
    ] {
        let cells = PlanFile::parse(&good).and_then(|plan| cells::of(&plan, &TestProgram));
        assert!(cells.is_ok(), "{good}: {:#}", cells.expect_err("bad"));
    }
}
