// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cells of a plan: every combination of its factors' levels.

use super::file::{PlanFile, Settings, Skip};
use super::merge::merged;
use super::state::Cell;
use super::validate;
use crate::program::Program;
use anyhow::{bail, Context, Result};
use plumb_trace::suggest::nearest;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Cells that a plan may have: more are a mistake in it.
pub const MOST: u64 = 2000;
/// Bytes of a cell's directory name.
const LONGEST_NAME: usize = 80;

/// All cells, the last factor changing fastest; those that the plan leaves out say why. What this machine
/// lacks is looked up by [`super::needs::mark`].
///
/// # Errors
/// The plan does not hold together, has too many cells, or a cell that cannot be; names factor, level and key.
pub fn of(plan: &PlanFile, program: &dyn Program) -> Result<Vec<Cell>> {
    let (cells, made) = with_figures(plan, program)?;
    made.check(plan)?;
    Ok(cells)
}

/// All cells, and the figures that they make; the plan may name others.
///
/// # Errors
/// As [`of`].
pub(super) fn with_figures(plan: &PlanFile, program: &dyn Program) -> Result<(Vec<Cell>, validate::Made)> {
    validate::plan(plan)?;
    few_enough(plan)?;
    let count: usize = plan.factors.iter().map(|f| f.levels.len()).product();
    let mut checked = validate::Cells::new(plan, program);
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    let mut cells = Vec::with_capacity(count);
    for number in 0..count {
        let levels = levels(plan, number);
        let names: Vec<&str> = names(plan, &levels);
        let label = if names.is_empty() { plan.name.clone() } else { names.join(" ") };
        if let Some(other) = labels.insert(label.clone(), number) {
            bail!("cells {} and {} are both called '{label}': rename a level", other + 1, number + 1);
        }
        let skipped =
            plan.skips.iter().find(|skip| applies(skip, plan, &levels)).map(|skip| skip.why.clone());
        let settings = settings(plan, &levels);
        if skipped.is_none() {
            checked.cell(&levels, &settings).with_context(|| format!("cell '{label}'"))?;
        }
        let dir = PathBuf::from("cells").join(directory(number, count, &label));
        cells.push(Cell { label, levels, settings, skipped, dir });
    }
    if cells.iter().all(|c| c.skipped.is_some()) {
        bail!("[[skip]] leaves out every cell: there is nothing to measure");
    }
    Ok((cells, checked.made()))
}

fn few_enough(plan: &PlanFile) -> Result<()> {
    let counts: Vec<u64> = plan.factors.iter().map(|f| f.levels.len() as u64).collect();
    let count = counts.iter().try_fold(1_u64, |all, n| all.checked_mul(*n)).unwrap_or(u64::MAX);
    if count > MOST {
        let product: Vec<String> =
            plan.factors.iter().map(|f| format!("{} {}", f.levels.len(), f.name)).collect();
        bail!(
            "{} = {} cells, and at most {MOST} can be: leave out levels (--only FACTOR=LEVEL), or make several plans",
            product.join(" x "),
            plumb_trace::units::count(count)
        );
    }
    Ok(())
}

/// Level of each factor in the cell of this number.
fn levels(plan: &PlanFile, mut number: usize) -> Vec<usize> {
    let mut levels: Vec<usize> = plan
        .factors
        .iter()
        .rev()
        .map(|factor| {
            let level = number % factor.levels.len();
            number /= factor.levels.len();
            level
        })
        .collect();
    levels.reverse();
    levels
}

fn names<'a>(plan: &'a PlanFile, levels: &[usize]) -> Vec<&'a str> {
    plan.factors.iter().zip(levels).map(|(factor, &l)| factor.levels[l].name.as_str()).collect()
}

fn settings(plan: &PlanFile, levels: &[usize]) -> Settings {
    let of_levels = plan.factors.iter().zip(levels).map(|(factor, &l)| &factor.levels[l].settings);
    merged(std::iter::once(&plan.cell).chain(of_levels))
}

/// Whether a cell has all of the levels that a skip names.
fn applies(skip: &Skip, plan: &PlanFile, levels: &[usize]) -> bool {
    skip.when.iter().all(|(factor, wanted)| {
        let at = plan.factors.iter().position(|f| f.name == *factor);
        at.is_some_and(|i| wanted.all().contains(&plan.factors[i].levels[levels[i]].name.as_str()))
    })
}

/// `007-ext4-fsync`: what any file system and shell takes, whatever the levels are called. The number makes
/// it unique.
fn directory(number: usize, count: usize, label: &str) -> String {
    let width = count.to_string().len().max(3);
    let mut name = format!("{:0width$}-", number + 1);
    for c in label.chars() {
        let safe = c.is_ascii_alphanumeric() || "._+=".contains(c);
        if safe {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(LONGEST_NAME);
    name.trim_end_matches(['-', '.']).to_string()
}

/// The cell that a user names: its label, its number (from 1), or its directory's name.
///
/// # Errors
/// There is none; the nearest is told.
pub fn find(cells: &[Cell], word: &str) -> Result<usize> {
    let by_number = word.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < cells.len());
    let named = |cell: &Cell| cell.label == word || cell.dir.file_name().is_some_and(|name| name == word);
    if let Some(found) = cells.iter().position(named).or(by_number) {
        return Ok(found);
    }
    let labels: Vec<String> = cells.iter().map(|c| c.label.clone()).collect();
    let near = nearest(word, &labels).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    bail!("there is no cell '{word}'{near}; a cell is named by its label or its number, 1 to {}", cells.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::testing::TestProgram;

    const HEAD: &str = "name = \"p\"\ntitle = \"t\"\npurpose = \"p\"\nhypothesis = \"h\"\ntakes = \"1s\"\n";

    fn plan(rest: &str) -> PlanFile {
        let text = format!("{HEAD}{rest}");
        PlanFile::parse(&text).unwrap_or_else(|e| panic!("{e:#}: {text}"))
    }

    fn factors(names: &[&[&str]]) -> String {
        let level = |name: &&str| {
            format!("[[factor.level]]\nname = {}\nload.prefix = \"x\"\n", toml::Value::from(*name))
        };
        let factor = |(i, levels): (usize, &&[&str])| {
            format!("[[factor]]\nname = \"f{i}\"\n{}", levels.iter().map(level).collect::<String>())
        };
        let all: String = names.iter().enumerate().map(factor).collect();
        format!("[device.d]\ndirectory = \"/tmp\"\n[cell]\ndevice = \"d\"\nload.what = \"write\"\n{all}")
    }

    #[test]
    fn the_last_factor_changes_fastest() {
        let cells = of(&plan(&factors(&[&["a", "b"], &["x", "y", "z"]])), &TestProgram).expect("cells");
        let labels: Vec<&str> = cells.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(labels, ["a x", "a y", "a z", "b x", "b y", "b z"]);
        assert_eq!(cells[4].levels, [1, 1]);
        assert_eq!(cells[4].dir, PathBuf::from("cells/005-b-y"));
    }

    #[test]
    fn a_plan_without_factors_is_one_cell() {
        let cells = of(&plan(&factors(&[])), &TestProgram).expect("cells");
        assert_eq!((cells.len(), cells[0].label.as_str(), cells[0].levels.len()), (1, "p", 0));
    }

    #[test]
    fn hostile_level_names_make_safe_directories() {
        let long = "x".repeat(300);
        let bad = ["../../etc/passwd", "/", "..", "a b\\c$(reboot)", "-rf", "ümlaut", &long, "tab\u{a0}"];
        let cells = of(&plan(&factors(&[&bad])), &TestProgram).expect("cells");
        let mut names = std::collections::BTreeSet::new();
        for cell in &cells {
            let name = cell.dir.strip_prefix("cells").expect("within").to_str().expect("text").to_string();
            assert!(!name.contains('/') && name.len() <= 80 && !name.starts_with(['.', '-']), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+=-".contains(&b)), "{name}");
            assert!(names.insert(name.to_ascii_lowercase()), "twice: {name}");
        }
        assert!(names.contains("001-..-..-etc-passwd"), "{names:?}");
    }

    #[test]
    fn skips_say_why_and_are_not_checked() {
        // Nothing can be remounted in a directory.
        let text =
            factors(&[&["a", "b"], &["x", "y", "z"]]).replace("name = \"z\"", "name = \"z\"\nremount = true");
        let said = format!("{:#}", of(&plan(&text), &TestProgram).expect_err("remount"));
        assert!(said.contains("cell 'a z'") && said.contains("remount"), "{said}");
        let skips = "[[skip]]\nwhen = { f0 = \"a\", f1 = [\"x\", \"z\"] }\nwhy = \"cannot be\"\n\
                     [[skip]]\nwhen = { f1 = \"z\" }\nwhy = \"no remount\"\n";
        let cells = of(&plan(&(text + skips)), &TestProgram).expect("cells");
        let why: Vec<Option<&str>> = cells.iter().map(|c| c.skipped.as_deref()).collect();
        assert_eq!(why, [Some("cannot be"), None, Some("cannot be"), None, None, Some("no remount")]);
    }

    #[test]
    fn too_many_cells_are_refused_with_the_arithmetic() {
        let many: Vec<String> = (0..50).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let said = of(&plan(&factors(&[&many, &many])), &TestProgram).expect_err("too many").to_string();
        assert!(said.contains("50 f0 x 50 f1 = 2,500 cells") && said.contains("2000"), "{said}");
    }

    #[test]
    fn labels_that_look_alike_and_skipping_all_are_refused() {
        let said = of(&plan(&factors(&[&["a", "a b"], &["c", "b c"]])), &TestProgram)
            .expect_err("twice")
            .to_string();
        assert!(said.contains("cells 2 and 3") && said.contains("'a b c'"), "{said}");
        let text = factors(&[&["a", "b"]]) + "[[skip]]\nwhen = { f0 = [\"a\", \"b\"] }\nwhy = \"no\"\n";
        let said = of(&plan(&text), &TestProgram).expect_err("nothing").to_string();
        assert!(said.contains("every cell"), "{said}");
    }

    #[test]
    fn a_cell_is_found_by_what_it_is_called() {
        let cells = of(&plan(&factors(&[&["a", "b"], &["x", "y"]])), &TestProgram).expect("cells");
        for word in ["b x", "3", "003-b-x"] {
            assert_eq!(find(&cells, word).expect(word), 2);
        }
        for word in ["0", "5", "b q"] {
            let said = find(&cells, word).expect_err(word).to_string();
            assert!(said.contains(word) && said.contains("1 to 4"), "{said}");
        }
    }
}
