// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb profile`: the views of a wall-clock profile.

pub(crate) mod annotate;
mod calls;
mod coverage;
mod diff;
pub mod export;
mod flat;
mod head;
mod limits;
mod select;
mod symbols;
#[cfg(test)]
mod testing;
mod tree;

pub use export::json::document;

use crate::cli::{Export, ProfileArgs};
use crate::quality::Quality;
use crate::{explain, repeat, setup};
use anyhow::{bail, Context, Result};
use coverage::Coverage;
use diff::Difference;
use head::{Head, Origin};
use limits::Limits;
use plumb_model::profile::{Collector, Profile};
use plumb_model::Model;
use plumb_report::plain::Plain;
use plumb_trace::reader::Trace;
use plumb_trace::units;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::Symbols;
use tree::Tree;

/// What gives a recording samples and stacks.
const RECORD: &str = "plumb run --sample 199 --stacks 1ms -- COMMAND";

/// The profile of a directory, as far as it is asked for.
struct Side {
    profile: Profile,
    origin: Origin,
    valid: bool,
}

impl Side {
    fn read(dir: &Path, args: &ProfileArgs) -> Result<Self> {
        let dir = repeat::run_of(dir.to_path_buf())?;
        let trace = Trace::open(&dir)
            .with_context(|| format!("{}: no run and no trace to make a profile of", dir.display()))?;
        let setup = setup::of(&trace);
        let begin = setup.begin;
        let (from, to) = setup::window((begin, setup.end), args.from, args.to)?;
        let clock = explain::sample_clock(&trace.metadata.env);
        let mut model = Model::new(setup, Collector::new(from, to).clock(&clock));
        let summary = trace.for_each(|item| model.feed(item))?;
        let (_, collector) = model.finish();
        let quality = Quality::of(&trace, &summary);
        if !quality.no_account.is_empty() {
            bail!(
                "{}: the trace lacks {}, without which no time is accounted for: record with -e default",
                dir.display(),
                quality.no_account.join(", ")
            );
        }
        let mut doubts = quality.trust().doubts;
        doubts.iter_mut().for_each(|d| d.push('.'));
        let origin = Origin { directory: dir.display().to_string(), begin, doubts, ..Origin::default() };
        let side = Self { profile: collector.profile(&trace.state), origin, valid: quality.valid() };
        side.selected(args)
    }

    /// Leaves what is asked for.
    fn selected(mut self, args: &ProfileArgs) -> Result<Self> {
        let name = &self.origin.directory;
        if self.profile.time() == 0 {
            bail!("{name}: no thread of the target spent time in this part of the trace");
        }
        let stacks = self.profile.stacks.iter().any(|s| !s.frames.is_empty());
        if self.profile.samples == 0 && !stacks {
            bail!("{name}: the trace has neither samples nor stacks of waits; record with {RECORD}");
        }
        if self.profile.samples == 0 && args.on_cpu {
            bail!("{name}: the trace has no samples, so nothing tells what ran on the CPUs; record with {RECORD}");
        }
        let (profile, words) =
            select::select(self.profile, args).with_context(|| self.origin.directory.clone())?;
        self.profile = if args.no_inline { symbols::without_inlined(profile) } else { profile };
        self.origin.selected = words;
        Ok(self)
    }
}

/// A whole profile that is written for other programs.
pub struct Exported(Side);

impl Exported {
    /// Reads a trace.
    ///
    /// # Errors
    /// No trace, or one without samples and stacks.
    pub fn read(dir: &Path) -> Result<Self> {
        Side::read(dir, &ProfileArgs::of(dir)?).map(Self)
    }

    /// Whether no events were lost.
    pub fn valid(&self) -> bool {
        self.0.valid
    }

    /// Writes it in a format.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, kind: Export, out: &mut dyn Write) -> Result<()> {
        export::write(kind, &self.0.profile, None, out)
    }
}

/// A view as JSON: what it is of, and its contents.
#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    view: &'static str,
    #[serde(flatten)]
    head: &'a Head,
    #[serde(flatten)]
    contents: T,
}

#[derive(Serialize)]
struct Rows<T: Serialize> {
    rows: T,
}

#[derive(Serialize)]
struct Root<T: Serialize> {
    tree: T,
}

fn json(document: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)?;
    Ok(())
}

/// One of the trees, with its head.
fn tree(
    args: &ProfileArgs,
    ground: &Limits,
    head: &Head,
    (view, title, root): (&'static str, &str, &str),
    symbols: &Symbols,
    tree: &Tree,
    out: &mut dyn Write,
) -> Result<()> {
    let branch = tree.named(root, symbols, ground);
    if args.json {
        return json(&Document { view, head, contents: Root { tree: branch } }, out);
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
    args: &ProfileArgs,
    ground: &Limits,
    mut head: Head,
    profile: &Profile,
    symbols: &Symbols,
    out: &mut dyn Write,
) -> Result<()> {
    let (view, name, build): (_, _, Build) = match (&args.callers, &args.callees) {
        (Some(name), _) => ("callers", name, calls::callers),
        (None, Some(name)) => ("callees", name, calls::callees),
        (None, None) => bail!("neither --callers nor --callees"),
    };
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
    tree(args, ground, &head, (view, &title, &root), symbols, &built, out)
}

/// One of the views of one profile.
fn view(side: Side, args: &ProfileArgs, ground: &Limits, out: &mut dyn Write) -> Result<()> {
    let profile = &side.profile;
    let symbols = &Symbols::of(profile);
    let head = Head::of(profile, symbols, side.origin);
    if args.annotate.is_some() {
        return annotate::main(profile, args, out);
    }
    if args.callers.is_some() || args.callees.is_some() {
        return around(args, ground, head, profile, symbols, out);
    }
    if args.tree {
        let built = calls::whole(profile, symbols);
        return tree(args, ground, &head, ("tree", "Call tree", "all"), symbols, &built, out);
    }
    if args.account {
        let built = calls::account(profile, symbols);
        let words = ("account", "Account by category, cause and function", "all");
        return tree(args, ground, &head, words, symbols, &built, out);
    }
    let by = if args.coverage { crate::cli::By::Function } else { args.by };
    let rows = flat::rows(profile, symbols, by);
    if args.coverage {
        let coverage = Coverage::of(&rows);
        if args.json {
            return json(&Document { view: "coverage", head: &head, contents: coverage }, out);
        }
        head.print(ground, out)?;
        return coverage.print(ground, out);
    }
    if args.json {
        let rows = &rows[..ground.rows(rows.len())];
        return json(&Document { view: "flat", head: &head, contents: Rows { rows } }, out);
    }
    head.print(ground, out)?;
    flat::print(profile, &rows, by, ground, out)
}

fn difference(
    before: Side,
    after: Side,
    args: &ProfileArgs,
    ground: &Limits,
    out: &mut dyn Write,
) -> Result<()> {
    let one_only = args.annotate.is_some() || args.callers.is_some() || args.callees.is_some();
    if one_only || args.tree || args.coverage || args.account {
        bail!(
            "of two directories there are the table (--by), --flame and --flame-before; this view takes one"
        );
    }
    let [a, b] = [&before, &after].map(|side| {
        let symbols = Symbols::of(&side.profile);
        (flat::rows(&side.profile, &symbols, args.by), Head::of(&side.profile, &symbols, side.origin.clone()))
    });
    let mut difference = Difference::of(&a.0, &b.0, args.normalize);
    if args.json {
        difference.rows.truncate(ground.rows(difference.rows.len()));
        #[derive(Serialize)]
        struct Two<'a> {
            view: &'static str,
            before: &'a Head,
            after: &'a Head,
            difference: Difference,
        }
        return json(&Two { view: "difference", before: &a.1, after: &b.1, difference }, out);
    }
    writeln!(out, "Before:")?;
    a.1.print(ground, out)?;
    writeln!(out, "After:")?;
    b.1.print(ground, out)?;
    difference.print(args.by, ground, out)
}

/// The file that is to be written, and in which format.
fn file(args: &ProfileArgs) -> Option<(Export, Option<&PathBuf>)> {
    let flame = args.flame.as_ref().map(|f| (Export::Flame, Some(f)));
    let before = args.flame_before.as_ref().map(|f| (Export::FlameBefore, Some(f)));
    flame.or(before).or_else(|| args.export.map(|kind| (kind, args.output.as_ref())))
}

/// Writes a file only when all of it is there.
fn write(
    kind: Export,
    path: Option<&PathBuf>,
    profile: &Profile,
    before: Option<&Profile>,
    out: &mut dyn Write,
) -> Result<()> {
    if kind == Export::FlameBefore && before.is_none() {
        bail!(
            "--flame-before shows what went away between two directories; name a second one, or use --flame"
        );
    }
    let Some(path) = path else {
        return export::write(kind, profile, before, out);
    };
    let mut text = Vec::new();
    export::write(kind, profile, before, &mut text)?;
    std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    eprintln!("{}: written", path.display());
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// No trace, one without samples and stacks, or a filter or name that nothing fits.
pub fn main(args: &ProfileArgs) -> Result<ExitCode> {
    let other = args.other.as_ref().or(args.diff.as_ref());
    if args.normalize && other.is_none() {
        bail!("--normalize scales the first of two directories to the second; name a second one");
    }
    let first = Side::read(&args.dir, args)?;
    let second = other.map(|dir| Side::read(dir, args)).transpose()?;
    let valid = first.valid && second.as_ref().is_none_or(|s| s.valid);
    let ground = Limits::of(args);
    let mut out = BufWriter::new(std::io::stdout().lock());
    match (file(args), second) {
        (Some((kind, path)), None) => write(kind, path, &first.profile, None, &mut out)?,
        (Some((kind, path)), Some(second)) => {
            write(kind, path, &second.profile, Some(&first.profile), &mut out)?;
        }
        (None, second) => {
            // JSON has its own escapes; in text no name may act on a terminal.
            let mut text = Plain(&mut out);
            let out: &mut dyn Write = if args.json { &mut text.0 } else { &mut text };
            match second {
                None => view(first, args, &ground, out)?,
                Some(second) => difference(first, second, args, &ground, out)?,
            }
        }
    }
    out.flush()?;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(crate::quality::NOT_VALID) })
}
