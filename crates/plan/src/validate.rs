// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a plan holds together, before anything runs. What this machine lacks is no mistake of a
//! plan's: see [`super::needs`].

mod cell;
mod made;

pub(super) use cell::Cells;
pub(super) use made::Made;

use super::file::{Chart, ChartKind, DeviceSpec, HostSpec, Order, PlanFile};
use anyhow::{bail, Context, Result};
use plumb_sim::spec::Spec;
use plumb_trace::suggest::nearest;

/// Figures of a kind of operation, see [`super::table`].
const FIGURES: &[&str] = &[
    "rate",
    "bandwidth",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "count",
    "errors",
    "cpu",
    "user",
    "system",
];
/// Least length of a served device: less is no disk that a file system fits on.
const LEAST_SIZE: u64 = 1 << 20;
/// Repetitions of a cell: the schedule of all is in memory.
const MOST_REPETITIONS: u32 = 10_000;

/// Looks through all but the cells.
///
/// # Errors
/// The first mistake: factor, level or key, and what would be right.
pub(super) fn plan(plan: &PlanFile) -> Result<()> {
    if plan.name.is_empty() || plan.name.starts_with(['.', '-']) || !plan.name.chars().all(is_word) {
        bail!("name = \"{}\": must be one word of letters, digits, '_', '-' and '.'", plan.name);
    }
    if plan.repeat == 0 {
        bail!("repeat = 0: every cell needs at least one repetition");
    }
    if plan.repeat > MOST_REPETITIONS {
        bail!("repeat = {}: at most {MOST_REPETITIONS}", plan.repeat);
    }
    if plan.limit.0 == 0 {
        bail!("limit = 0: no repetition could run; leave it out for 10 minutes");
    }
    for (name, device) in &plan.devices {
        self::device(device).with_context(|| format!("device {name}"))?;
        nameable("device", name)?;
    }
    for (name, host) in &plan.hosts {
        self::host(host).with_context(|| format!("host {name}"))?;
        // It names files, and stands before a ':' on the command line.
        if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_word) {
            bail!("host \"{}\": must be one word of letters, digits, '_', '-' and '.'", name.escape_debug());
        }
    }
    for (name, device) in &plan.devices {
        if let Some(host) = &device.host {
            one_of(host, &host_names(plan), "host").with_context(|| format!("device {name}"))?;
        }
    }
    factors(plan)?;
    blocks(plan)?;
    skips(plan)?;
    for (i, chart) in plan.charts.iter().enumerate() {
        self::chart(chart, plan).with_context(|| format!("chart {}", chart.name))?;
        if plan.charts[..i].iter().any(|c| c.name == chart.name) {
            bail!("chart {}: there are two of that name", chart.name);
        }
    }
    for figure in &plan.figures {
        self::figure(figure).context("figures")?;
    }
    Ok(())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// What stands before a '=' on the command line.
fn nameable(what: &str, name: &str) -> Result<()> {
    if name.trim().is_empty() || name.contains(['=', '\n', '\t']) || name.chars().any(char::is_control) {
        bail!(
            "{what} \"{}\": a name must not be empty, and has no '=' and no control characters",
            name.escape_debug()
        );
    }
    Ok(())
}

fn device(device: &DeviceSpec) -> Result<()> {
    let ways = [device.model.is_some(), device.path.is_some(), device.directory.is_some()];
    if ways.iter().filter(|w| **w).count() != 1 {
        bail!("must have one of model, path and directory");
    }
    if device.host.is_some() != device.protocol.is_some() {
        bail!(
            "host and protocol go together: whose it is, and how it comes from there (\"iscsi\", \"nvme\")"
        );
    }
    if device.host.is_some() && device.model.is_none() {
        bail!("another host's device is a model: a path of another host must be exported there, and named as it is here");
    }
    if device.model.is_none() && (device.size.is_some() || !device.set.is_empty()) {
        bail!("size and set belong to a model: leave them out");
    }
    if let Some(size) = device.size {
        if size.0 < LEAST_SIZE || size.0 % 4096 != 0 {
            bail!("size = \"{size}\": must be a multiple of 4096, and 1M or more");
        }
    }
    if let Some(bad) = device.set.iter().find(|s| !s.contains('=')) {
        bail!("set: \"{bad}\" is not KEY=VALUE, as in \"medium.write-cache=true\"");
    }
    if let Some(model) = &device.model {
        Spec::load(model, &device.set)?;
    }
    for path in device.path.iter().chain(&device.directory) {
        if !path.is_absolute() {
            bail!("{}: must be an absolute path", path.display());
        }
    }
    Ok(())
}

fn host_names(plan: &PlanFile) -> Vec<String> {
    plan.hosts.keys().cloned().collect()
}

fn host(host: &HostSpec) -> Result<()> {
    let HostSpec { reach, guest, memory, virtual_time, delay, kernel_options } = host;
    let Some(guest) = guest else {
        if reach.first().is_none_or(|word| word.trim().is_empty()) {
            bail!("must have reach, as in [\"ssh\", \"root@db1\"], or guest, as in \"6.12\"");
        }
        if memory.is_some() || *virtual_time || delay.is_some() || !kernel_options.is_empty() {
            bail!("memory, virtual-time, delay and kernel-options belong to a guest: leave them out");
        }
        return Ok(());
    };
    if !reach.is_empty() {
        bail!("must have one of reach and guest");
    }
    let version = guest.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()));
    if !version && !guest.starts_with('/') {
        bail!("guest = \"{guest}\": must be a version of Debian's kernel, as in \"6.12\", or the absolute path of an image");
    }
    if memory.is_some_and(|m| m.0 < 512 << 20) {
        bail!("memory: a guest needs 512M");
    }
    Ok(())
}

fn factors(plan: &PlanFile) -> Result<()> {
    for (i, factor) in plan.factors.iter().enumerate() {
        nameable("factor", &factor.name)?;
        if plan.factors[..i].iter().any(|f| f.name == factor.name) {
            bail!("factor {}: there are two of that name", factor.name);
        }
        if factor.levels.is_empty() {
            bail!("factor {}: has no level; give it two or more [[factor.level]]", factor.name);
        }
        for (k, level) in factor.levels.iter().enumerate() {
            let place = || format!("factor {}, level {}", factor.name, k + 1);
            if level.name.trim().is_empty() || level.name.chars().any(char::is_control) {
                bail!("{}: its name must not be empty, and has no control characters", place());
            }
            if factor.levels[..k].iter().any(|l| l.name == level.name) {
                bail!("{}: there are two levels called \"{}\"", place(), level.name);
            }
            if level.price.is_some_and(|price| !price.is_finite() || price < 0.0) {
                bail!("{}: its price must be 0 or more", place());
            }
        }
    }
    Ok(())
}

fn blocks(plan: &PlanFile) -> Result<()> {
    for (i, name) in plan.blocks.iter().enumerate() {
        is_factor(name, plan).context("blocks")?;
        if plan.blocks[..i].contains(name) {
            bail!("blocks: factor {name} is there twice");
        }
    }
    if plan.order == Order::Blocked && plan.blocks.is_empty() {
        bail!("order = \"blocked\" needs blocks = [FACTOR, ...]: those whose levels stay together");
    }
    Ok(())
}

fn skips(plan: &PlanFile) -> Result<()> {
    for (i, skip) in plan.skips.iter().enumerate() {
        let place = || format!("skip {}", i + 1);
        if skip.when.is_empty() || skip.why.trim().is_empty() {
            bail!("{}: needs when = {{ FACTOR = LEVEL }} and why", place());
        }
        for (name, levels) in &skip.when {
            is_factor(name, plan).with_context(place)?;
            let known: Vec<String> =
                plan.factor(name).iter().flat_map(|f| &f.levels).map(|l| l.name.clone()).collect();
            for level in levels.all() {
                one_of(level, &known, &format!("level of factor {name}")).with_context(place)?;
            }
        }
    }
    Ok(())
}

fn chart(chart: &Chart, plan: &PlanFile) -> Result<()> {
    if chart.name.is_empty() || chart.name.starts_with(['.', '-']) || !chart.name.chars().all(is_word) {
        bail!("its name is a file's: one word of letters, digits, '_', '-' and '.'");
    }
    for (key, name) in [("over", &chart.over), ("by", &chart.by)] {
        if let Some(name) = name {
            is_factor(name, plan).context(key)?;
        }
    }
    if chart.x.is_some() && chart.kind != ChartKind::Scatter {
        bail!("x belongs to kind = \"scatter\"; a factor on the horizontal axis is over = FACTOR");
    }
    match chart.kind {
        ChartKind::Lines if chart.over.is_none() => {
            bail!("kind = \"lines\" needs over = FACTOR: the one on the horizontal axis")
        }
        ChartKind::Bars | ChartKind::Lines => figure(&chart.figure).context("figure"),
        ChartKind::Operations if chart.figure.trim().is_empty() => {
            bail!("figure: name the kind of operation, as in figure = \"write\"")
        }
        ChartKind::Operations => Ok(()),
        ChartKind::Account => account(chart),
        ChartKind::Scatter if chart.by.is_none() || chart.x.is_none() => {
            bail!(
                "kind = \"scatter\" needs by = FACTOR, and x and figure = \"LEVEL:FIGURE\" with levels of it"
            )
        }
        ChartKind::Scatter if chart.over.is_some() || chart.log || !chart.lines.is_empty() => {
            bail!("kind = \"scatter\" has logarithmic axes and a point for each environment: leave out over, lines and log")
        }
        ChartKind::Surface if chart.over.is_none() || chart.by.is_none() || chart.over == chart.by => {
            bail!("kind = \"surface\" needs over = FACTOR and by = FACTOR: the two on its axes")
        }
        ChartKind::Surface if !chart.lines.is_empty() => bail!("kind = \"surface\": leave out lines"),
        ChartKind::Surface => figure(&chart.figure).context("figure"),
        // Its levels are looked at with the figures: `--only` may leave some of them out.
        ChartKind::Scatter => Ok(()),
    }
}

fn account(chart: &Chart) -> Result<()> {
    if !["spans", "steps"].contains(&chart.figure.as_str()) {
        bail!("figure of kind = \"account\": \"spans\" of a recording, or \"steps\" of a load");
    }
    if chart.over.is_some() || chart.log || !chart.lines.is_empty() {
        bail!(
            "kind = \"account\" has a bar for each step and parts that add up: leave out over, lines and log"
        );
    }
    Ok(())
}

/// Whether a figure may be called so; whether a load makes it: see [`Made`].
fn figure(name: &str) -> Result<()> {
    let of_operation = |name: &str| {
        let rest = name.rsplit_once(':').map_or(name, |(_, rest)| rest);
        rest.split_once('.').is_some_and(|(kind, figure)| !kind.is_empty() && FIGURES.contains(&figure))
    };
    let of_recording = |head| name.strip_prefix(head).is_some_and(|rest: &str| !rest.is_empty());
    if name == "elapsed" || of_recording("time.") || of_recording("span.") || of_operation(name) {
        return Ok(());
    }
    bail!(
        "\"{name}\" is no figure: there are elapsed, time.CATEGORY, span.NAME, and KIND.FIGURE as in write.mean, with FIGURE one of {}",
        FIGURES.join(", ")
    )
}

fn is_factor(name: &str, plan: &PlanFile) -> Result<()> {
    let all: Vec<String> = plan.factors.iter().map(|f| f.name.clone()).collect();
    one_of(name, &all, "factor")
}

/// Refuses a name that is not there; tells the nearest, and all.
pub(super) fn one_of(name: &str, known: &[String], what: &str) -> Result<()> {
    if known.iter().any(|k| k == name) {
        return Ok(());
    }
    let near = nearest(name, known).map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default();
    let there =
        if known.is_empty() { "there is none".into() } else { format!("there are: {}", known.join(", ")) };
    bail!("there is no {what} \"{name}\"{near}; {there}")
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod every_key;
