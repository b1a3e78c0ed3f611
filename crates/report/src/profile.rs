// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run's wall-clock profile: the part of it that is asked for, and its views as text and JSON.

pub mod annotate;
mod calls;
mod coverage;
mod diff;
mod flat;
mod head;
mod limits;
mod options;
mod select;
mod symbols;
#[cfg(test)]
mod testing;
mod tree;

pub use limits::Limits;
pub use options::{By, Options, View};

use crate::chart::lines::Lines;
use anyhow::{bail, Context, Result};
use coverage::Coverage;
use diff::Difference;
use head::{Head, Origin};
use plumb_analysis::{setup, Pass, Wanted};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_model::profile::Profile;
use plumb_trace::reader::Trace;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use symbols::Symbols;
use tree::{Branch, Tree};

/// What gives a recording samples and stacks.
const RECORD: &str = "plumb run --sample 199 --stacks 1ms -- COMMAND";

/// The profile of a directory, as far as it is asked for.
#[derive(Debug)]
pub struct Side {
    pub profile: Profile,
    /// Nothing of the trace was lost.
    pub valid: bool,
    origin: Origin,
    /// Whose code it is, as Rust calls it.
    machine: String,
}

impl Side {
    /// Reads the trace of a run directory, or one that stands alone.
    ///
    /// # Errors
    /// No trace, one without samples and stacks, or a filter that leaves nothing.
    pub fn read(dir: &Path, options: &Options) -> Result<Self> {
        let trace = Trace::open(dir).with_context(|| {
            format!("cannot profile {}: neither a run directory nor a trace", dir.display())
        })?;
        let (begin, end) = setup::span(&trace);
        let (from, to) = setup::window((begin, end), options.from, options.to)?;
        let analysis = Pass::over(&trace).wanted(Wanted::Profile(from, to)).analysis()?;
        let quality = &analysis.quality;
        if !quality.no_account.is_empty() {
            bail!(
                "{}: the trace lacks {}, without which no time is accounted for: record with -e default",
                dir.display(),
                quality.no_account.join(", ")
            );
        }
        let doubts = quality.trust().doubts.into_iter().map(|d| d.words + ".").collect();
        let origin = Origin { directory: dir.display().to_string(), begin, doubts, ..Origin::default() };
        let machine = setup::machine(&analysis.environment).to_string();
        let mut profile = analysis.profile;
        profile.realtime = setup::realtime(&trace, profile.begin);
        let side = Self { valid: analysis.quality.valid(), origin, machine, profile };
        side.selected(options)
    }

    /// Leaves what is asked for.
    fn selected(mut self, options: &Options) -> Result<Self> {
        let name = &self.origin.directory;
        if self.profile.time() == 0 {
            bail!("{name}: no thread of the target spent time in this part of the trace");
        }
        let stacks = self.profile.stacks.iter().any(|s| !s.frames.is_empty());
        if self.profile.samples == 0 && !stacks {
            bail!("{name}: the trace has neither samples nor stacks of waits; record with {RECORD}");
        }
        if self.profile.samples == 0 && options.on_cpu {
            bail!("{name}: the trace has no samples, so nothing tells what ran on the CPUs; record with {RECORD}");
        }
        let (profile, words) =
            select::select(self.profile, options).with_context(|| self.origin.directory.clone())?;
        self.profile = if options.no_inline { symbols::without_inlined(profile) } else { profile };
        self.origin.selected = words;
        Ok(self)
    }
}

/// A view as JSON: what it is of, and its contents.
#[derive(Serialize)]
#[serde(untagged)]
enum Document<'a> {
    Rows {
        /// `flat`.
        view: &'static str,
        #[serde(flatten)]
        head: &'a Head,
        rows: &'a [flat::Row],
    },
    Tree {
        /// `tree`, `callers`, `callees`, `account`.
        view: &'static str,
        #[serde(flatten)]
        head: &'a Head,
        tree: Branch,
    },
    Coverage {
        /// `coverage`.
        view: &'static str,
        #[serde(flatten)]
        head: &'a Head,
        #[serde(flatten)]
        coverage: Coverage,
    },
    Coverages {
        /// `coverages`.
        view: &'static str,
        runs: Vec<Run>,
    },
    Difference {
        /// `difference`.
        view: &'static str,
        before: &'a Head,
        after: &'a Head,
        difference: Difference,
    },
}

impl Output for Document<'_> {
    const FORMAT: &'static Format = &formats::PROFILE;
}

/// How few functions have how much of a run's time.
#[derive(Serialize)]
struct Run {
    name: String,
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    coverage: Coverage,
}

/// One of the trees, with its head.
fn tree(
    options: &Options,
    ground: &Limits,
    head: &Head,
    (view, title, root): (&'static str, &str, &str),
    symbols: &Symbols,
    tree: &Tree,
    out: &mut dyn Write,
) -> Result<()> {
    let branch = tree.named(root, symbols, ground);
    if options.json {
        return Ok(json::write(out, &Document::Tree { view, head, tree: branch })?);
    }
    head.print(ground, out)?;
    let whole = limits::percent(branch.time_ns, head.time_ns);
    ground.fold(
        &format!("{title} [100 % is {}, {whole} % of the whole]", units::duration(branch.time_ns)),
        "",
        out,
    )?;
    branch.print(ground, out)
}

/// Makes the tree around some functions.
type Build = fn(&Profile, &Symbols, &[u32]) -> Tree;

/// Who calls a function, or what it calls.
fn around(
    options: &Options,
    (view, name, build): (&'static str, &str, Build),
    ground: &Limits,
    mut head: Head,
    profile: &Profile,
    symbols: &Symbols,
    out: &mut dyn Write,
) -> Result<()> {
    let found = symbols.find(profile, name)?;
    let several = symbols.several(name, &found);
    let root = match found[..] {
        [one] => symbols.label(one),
        _ => format!("{} functions with {name}", found.len()),
    };
    if !several.is_empty() {
        head.notes.push(format!("{several}."));
    }
    let title = match (view, found.len()) {
        ("callers", _) => format!("Who calls {root}"),
        (_, 1) => format!("What {root} calls"),
        _ => format!("What {root} call"),
    };
    let built = build(profile, symbols, &found);
    tree(options, ground, &head, (view, &title, &root), symbols, &built, out)
}

/// Writes one of the views of one profile.
///
/// # Errors
/// No function has the name that is asked for; the writer's.
pub fn view(side: Side, options: &Options, ground: &Limits, out: &mut dyn Write) -> Result<()> {
    let profile = &side.profile;
    let symbols = &Symbols::of(profile);
    let head = Head::of(profile, symbols, side.origin);
    let by = match &options.view {
        View::Annotate { function, all, source } => {
            let listing = annotate::Options {
                all: *all,
                source: source.clone(),
                json: options.json,
                machine: side.machine,
            };
            return annotate::annotate(profile, function, &listing, out);
        }
        View::Callers(name) => {
            let callers = ("callers", name.as_str(), calls::callers as Build);
            return around(options, callers, ground, head, profile, symbols, out);
        }
        View::Callees(name) => {
            let callees = ("callees", name.as_str(), calls::callees as Build);
            return around(options, callees, ground, head, profile, symbols, out);
        }
        View::Tree => {
            let built = calls::whole(profile, symbols);
            return tree(options, ground, &head, ("tree", "Call tree", "all"), symbols, &built, out);
        }
        View::Account => {
            let built = calls::account(profile, symbols);
            let words = ("account", "Account by category, cause and function", "all");
            return tree(options, ground, &head, words, symbols, &built, out);
        }
        View::Coverage => By::Function,
        View::Flat(by) => *by,
    };
    let rows = flat::rows(profile, symbols, by);
    if options.view == View::Coverage {
        let coverage = Coverage::of(&rows);
        if options.json {
            return Ok(json::write(out, &Document::Coverage { view: "coverage", head: &head, coverage })?);
        }
        head.print(ground, out)?;
        return coverage.print(ground, out);
    }
    if options.json {
        let rows = &rows[..ground.rows(rows.len())];
        return Ok(json::write(out, &Document::Rows { view: "flat", head: &head, rows })?);
    }
    head.print(ground, out)?;
    flat::print(profile, &rows, by, ground, out)
}

/// The runs' names: of directories with different names those, else their paths.
fn names(sides: &[Side]) -> Vec<String> {
    let paths: Vec<&str> = sides.iter().map(|side| side.origin.directory.as_str()).collect();
    let last = |path: &&str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let short: Vec<String> = paths.iter().filter_map(last).collect();
    let differ = short.iter().collect::<std::collections::BTreeSet<_>>().len() == paths.len();
    if differ {
        short
    } else {
        paths.into_iter().map(String::from).collect()
    }
}

fn functions(side: &Side) -> Vec<flat::Row> {
    flat::rows(&side.profile, &Symbols::of(&side.profile), By::Function)
}

/// Writes how few functions have how much of the time, of several runs.
///
/// # Errors
/// The writer's.
pub fn coverages(sides: Vec<Side>, options: &Options, ground: &Limits, out: &mut dyn Write) -> Result<()> {
    let named = names(&sides).into_iter().zip(sides);
    let runs = named.map(|(name, side)| {
        let coverage = Coverage::of(&functions(&side));
        Run { name, head: Head::of(&side.profile, &Symbols::of(&side.profile), side.origin), coverage }
    });
    let runs: Vec<Run> = runs.collect();
    if options.json {
        return Ok(json::write(out, &Document::Coverages { view: "coverages", runs })?);
    }
    for run in &runs {
        run.head.print(ground, out)?;
        ground.fold(&format!("{}.", run.coverage.line(&run.name)), "", out)?;
    }
    Ok(())
}

/// The same as a chart: a line for each run.
///
/// # Errors
/// A run without stacks; the drawing's.
pub fn coverage_chart(sides: &[Side]) -> Result<String> {
    let lines: Vec<(String, Vec<(f64, f64)>)> = names(sides)
        .into_iter()
        .zip(sides)
        .map(|(name, side)| (name, coverage::curve(&functions(side))))
        .collect();
    if let Some((name, _)) = lines.iter().find(|(_, points)| points.is_empty()) {
        bail!("{name}: no time has a stack, so no function covers any; record with {RECORD}");
    }
    let of = match &lines[..] {
        [(name, _)] => format!(": {name}"),
        _ => String::new(),
    };
    let chart = Lines {
        title: format!("Share of the time that the hottest functions cover{of}"),
        along: "Functions, those with most time first".into(),
        up: "Share of the time that has a stack [%]".into(),
        marks: None,
        log: true,
        lines,
    };
    chart.svg()
}

/// Writes how the times of one profile differ from another's.
///
/// # Errors
/// The view takes one profile; the writer's.
pub fn difference(
    before: Side,
    after: Side,
    options: &Options,
    ground: &Limits,
    out: &mut dyn Write,
) -> Result<()> {
    let View::Flat(by) = options.view else {
        bail!(
            "of two directories there are the table (--by), --flame and --flame-before; this view takes one"
        );
    };
    let [a, b] = [&before, &after].map(|side| {
        let symbols = Symbols::of(&side.profile);
        (flat::rows(&side.profile, &symbols, by), Head::of(&side.profile, &symbols, side.origin.clone()))
    });
    let mut difference = Difference::of(&a.0, &b.0, options.normalize);
    if options.json {
        difference.rows.truncate(ground.rows(difference.rows.len()));
        let (before, after) = (&a.1, &b.1);
        return Ok(json::write(
            out,
            &Document::Difference { view: "difference", before, after, difference },
        )?);
    }
    writeln!(out, "Before:")?;
    a.1.print(ground, out)?;
    writeln!(out, "After:")?;
    b.1.print(ground, out)?;
    difference.print(by, ground, out)
}
