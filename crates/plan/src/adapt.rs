// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan with what the command line changes in it. What comes out is a plan again: it is kept in
//! the run's directory, and a resumed run needs no options.

use super::file::{DeviceSpec, OneOrMore, Order, PlanFile};
use super::validate::one_of;
use crate::program::Program;
use anyhow::{bail, Context, Result};
use plumb_load::job::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What the command line changes in a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// `NAME=PATH`: a block device or directory for the plan's device.
    pub device: Vec<String>,
    /// `FACTOR=LEVEL[,LEVEL]`: only these levels.
    pub only: Vec<String>,
    pub repeat: Option<u32>,
    pub budget: Option<Time>,
    pub limit: Option<Time>,
    pub order: Option<Order>,
    pub seed: Option<u32>,
    /// Record every cell.
    pub record: bool,
    /// Record none.
    pub no_record: bool,
}

/// The plan with the changes.
///
/// # Errors
/// A device, factor or level that the plan does not have, or a path that is neither block device nor directory.
pub fn changed(plan: &PlanFile, changes: &Changes, program: &dyn Program) -> Result<PlanFile> {
    let mut plan = plan.clone();
    for given in &changes.device {
        device(&mut plan, given).with_context(|| format!("--device {given}"))?;
    }
    only(&mut plan, &changes.only)?;
    plan.repeat = changes.repeat.unwrap_or(plan.repeat);
    plan.budget = changes.budget.or(plan.budget);
    plan.limit = changes.limit.unwrap_or(plan.limit);
    plan.order = changes.order.unwrap_or(plan.order);
    plan.seed = changes.seed.unwrap_or(plan.seed);
    if changes.no_record {
        let levels = plan.factors.iter_mut().flat_map(|f| &mut f.levels).map(|level| &mut level.settings);
        for settings in levels.chain([&mut plan.cell]) {
            (settings.record, settings.record_hosts) = (None, None);
        }
    }
    if changes.record {
        plan.cell.record.get_or_insert_with(Vec::new);
    }
    if changes.no_record || !changes.only.is_empty() {
        // Figures of what was left out are no mistake of the plan's. Other mistakes are told where it is used.
        if let Ok((_, made)) = super::cells::with_figures(&plan, program) {
            made.retain(&mut plan);
        }
    }
    Ok(plan)
}

fn device(plan: &mut PlanFile, given: &str) -> Result<()> {
    let Some((name, path)) = given.split_once('=') else {
        bail!("is not NAME=PATH, as in --device disk=/dev/sdb");
    };
    one_of(name, &plan.devices.keys().cloned().collect::<Vec<_>>(), "device")?;
    let kind = std::fs::metadata(path).with_context(|| path.to_string())?.file_type();
    // Not resolved: a name under /dev/disk/by-id stays the same disk after the next boot.
    let path = std::path::absolute(Path::new(path))?;
    let seed = plan.devices.get(name).map_or(1, |d| d.seed);
    let spec = match () {
        () if kind.is_block_device() => DeviceSpec { path: Some(path), seed, ..DeviceSpec::default() },
        () if kind.is_dir() => DeviceSpec { directory: Some(path), seed, ..DeviceSpec::default() },
        () => bail!("{}: is neither a block device nor a directory", path.display()),
    };
    plan.devices.insert(name.to_string(), spec);
    Ok(())
}

/// Levels in a list that is separated by commas, of which a level's name may have some itself: the longest
/// name that stands there is meant. A word that is no name is given back as it is.
fn parts<'a>(list: &'a str, known: &[String]) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut rest = list;
    loop {
        let here = |name: &&String| {
            rest.strip_prefix(name.as_str())
                .is_some_and(|behind| behind.is_empty() || behind.starts_with(','))
        };
        let name = known.iter().filter(here).map(String::len).max();
        let length = name.unwrap_or_else(|| rest.find(',').unwrap_or(rest.len()));
        out.push(&rest[..length]);
        match rest[length..].strip_prefix(',') {
            // A blank behind a comma is no part of a name, unless one begins so.
            Some(behind) if known.iter().any(|name| behind.starts_with(name.as_str())) => rest = behind,
            Some(behind) => rest = behind.trim_start(),
            None => return out,
        }
    }
}

/// Leaves only the levels that were named; of a factor that is named twice, all that were.
fn only(plan: &mut PlanFile, given: &[String]) -> Result<()> {
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for given in given {
        let place = || format!("--only {given}");
        let Some((name, levels)) = given.split_once('=') else {
            bail!("--only {given}: is not FACTOR=LEVEL, as in --only fs=ext4,xfs");
        };
        let factors: Vec<String> = plan.factors.iter().map(|f| f.name.clone()).collect();
        one_of(name, &factors, "factor").with_context(place)?;
        let known: Vec<String> =
            plan.factor(name).iter().flat_map(|f| &f.levels).map(|l| l.name.clone()).collect();
        for level in parts(levels, &known) {
            one_of(level, &known, &format!("level of factor {name}")).with_context(place)?;
            wanted.entry(name.to_string()).or_default().insert(level.to_string());
        }
    }
    for factor in &mut plan.factors {
        if let Some(levels) = wanted.get(&factor.name) {
            factor.levels.retain(|l| levels.contains(&l.name));
        }
    }
    // A skip of a level that is gone has nothing to say; what is left must be there.
    plan.skips.retain_mut(|skip| {
        skip.when.iter_mut().all(|(name, levels)| {
            let Some(left) = wanted.get(name) else { return true };
            let there: Vec<String> =
                levels.all().into_iter().filter(|l| left.contains(*l)).map(String::from).collect();
            let some = !there.is_empty();
            *levels = OneOrMore::More(there);
            some
        })
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use crate::program::testing::TestProgram;

    fn plan() -> PlanFile {
        let text = r#"
            name = "p"
            title = "t"
            purpose = "p"
            hypothesis = "h"
            takes = "1s"
            [device.d]
            model = "instant"
            size = "64M"
            [cell]
            device = "d"
            load.what = "write"
            [[factor]]
            name = "fs"
            [[factor.level]]
            name = "ext4"
            file-system.kind = "ext4"
            [[factor.level]]
            name = "xfs, big"
            file-system.kind = "xfs"
            [[factor.level]]
            name = "none"
            record = ["--events", "all"]
            [[factor]]
            name = "size"
            [[factor.level]]
            name = "1M"
            load.size = "1M"
            [[factor.level]]
            name = "2M"
            load.size = "2M"
            [[skip]]
            when = { fs = ["ext4", "none"], size = "2M" }
            why = "too long"
        "#;
        PlanFile::parse(text).expect(text)
    }

    fn with(change: impl FnOnce(&mut Changes)) -> Result<PlanFile> {
        let mut changes = Changes::default();
        change(&mut changes);
        changed(&plan(), &changes, &TestProgram)
    }

    fn labels(plan: &PlanFile) -> Vec<String> {
        let cells = cells::of(plan, &TestProgram).expect("cells");
        cells.into_iter().filter(|c| c.skipped.is_none()).map(|c| c.label).collect()
    }

    #[test]
    fn nothing_given_changes_nothing() {
        assert_eq!(with(|_| ()).expect("the plan"), plan());
    }

    #[test]
    fn only_some_levels_stay_and_skips_with_them() {
        let some = with(|c| c.only = vec!["fs=xfs, big".into(), "fs=ext4".into()]).expect("two levels");
        assert_eq!(labels(&some), ["ext4 1M", "xfs, big 1M", "xfs, big 2M"]);
        assert_eq!(some.skips[0].when["fs"].all(), ["ext4"]);
        let one = with(|c| c.only = vec!["size=2M".into(), "fs=xfs, big".into()]).expect("one cell");
        assert_eq!((labels(&one), one.skips.len()), (vec!["xfs, big 2M".to_string()], 0));
        let two = with(|c| c.only = vec!["fs=ext4,none".into(), "size=1M".into()]).expect("two cells");
        assert_eq!((labels(&two).len(), two.skips.len()), (2, 0));
    }

    #[test]
    fn levels_with_commas_stand_among_others() {
        let known = ["a", "b", "a,b", "big, cold", "big"].map(String::from);
        for (list, wanted) in [
            ("a", &["a"][..]),
            ("a,b", &["a,b"]),
            ("b,a", &["b", "a"]),
            ("a, big", &["a", "big"]),
            ("big, cold,a", &["big, cold", "a"]),
            ("a,big, cold", &["a", "big, cold"]),
            ("big,a,b", &["big", "a,b"]),
            ("big, warm", &["big", "warm"]),
            ("x,,a", &["x", "", "a"]),
        ] {
            assert_eq!(parts(list, &known), wanted, "{list}");
        }
        let three = with(|c| c.only = vec!["fs=xfs, big,ext4".into()]).expect("two levels");
        assert_eq!(labels(&three), ["ext4 1M", "xfs, big 1M", "xfs, big 2M"]);
        let said = format!("{:#}", with(|c| c.only = vec!["fs=xfs, bug".into()]).expect_err("no level"));
        assert!(said.contains("level of factor fs \"xfs\""), "{said}");
    }

    #[test]
    fn names_that_are_not_there_are_told() {
        for (only, words) in [
            ("fs", &["FACTOR=LEVEL"][..]),
            ("sf=ext4", &["factor \"sf\"", "did you mean \"fs\"", "size"]),
            ("fs=ext5", &["level of factor fs", "\"ext5\"", "did you mean \"ext4\""]),
        ] {
            let said = format!("{:#}", with(|c| c.only = vec![only.into()]).expect_err(only));
            assert!(words.iter().all(|w| said.contains(w)), "{only}: {said}");
        }
        for (device, words) in [
            ("d", &["NAME=PATH"][..]),
            ("e=/tmp", &["device \"e\"", "there are: d"]),
            ("d=/nowhere/at/all", &["/nowhere/at/all", "No such file"]),
            ("d=/dev/null", &["neither a block device nor a directory"]),
        ] {
            let said = format!("{:#}", with(|c| c.device = vec![device.into()]).expect_err(device));
            assert!(words.iter().all(|w| said.contains(w)), "{device}: {said}");
        }
    }

    #[test]
    fn a_directory_stands_for_a_device() {
        let plan = with(|c| c.device = vec!["d=/tmp".into()]).expect("a directory");
        let wanted = DeviceSpec { directory: Some("/tmp".into()), seed: 1, ..DeviceSpec::default() };
        assert_eq!(plan.devices["d"], wanted);
        let said = format!("{:#}", cells::of(&plan, &TestProgram).expect_err("a file system in it"));
        assert!(said.contains("factor fs, level ext4") && said.contains("/tmp is a directory"), "{said}");
    }

    #[test]
    fn recording_is_switched_off_and_on() {
        let off = with(|c| c.no_record = true).expect("off");
        assert!(off.factors.iter().flat_map(|f| &f.levels).all(|l| l.settings.record.is_none()));
        let on = with(|c| c.record = true).expect("on");
        assert_eq!(on.cell.record, Some(Vec::new()));
        let cells = cells::of(&on, &TestProgram).expect("cells");
        assert_eq!(cells[4].settings.record.as_deref(), Some(&["--events".to_string(), "all".into()][..]));
    }

    #[test]
    fn plain_values_go_over_the_plans() {
        let plan = with(|c| {
            c.repeat = Some(9);
            c.seed = Some(3);
            c.order = Some(Order::Given);
            c.limit = "5s".parse().ok();
            c.budget = "1m".parse().ok();
        })
        .expect("a plan");
        assert_eq!((plan.repeat, plan.seed, plan.limit.0), (9, 3, 5_000_000_000));
        assert_eq!(plan.budget.map(|b| b.0), Some(60_000_000_000));
    }
}
