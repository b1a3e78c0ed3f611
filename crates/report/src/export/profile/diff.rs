// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Differential flame graphs: two profiles in one, the widths of one of them, coloured by how
//! much more or less time each frame itself has in the second.

use super::flame::{draw, options, Graph};
use super::labels::plain;
use super::{svg, words};
use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use std::io::Write;

/// Whose times the widths are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Widths {
    /// The first's: shows what went away.
    First,
    /// The second's: shows what came.
    Second,
}

/// Writes the graph of two profiles; a sentence comes back if something is not in it.
///
/// # Errors
/// No time in the one whose widths are drawn; the library's; the writer's.
pub fn write(
    before: &Profile,
    profile: &Profile,
    widths: Widths,
    out: &mut dyn Write,
) -> Result<Option<String>> {
    let (side, name, drawn) = match widths {
        Widths::First => (0, "first", before),
        Widths::Second => (1, "second", profile),
    };
    if drawn.time() == 0 {
        bail!("no time in the {name} profile to draw: take a filter away, or a longer span (--from, --to)");
    }
    let graph = Graph::new(profile, Some(before), side);
    let mut options = options(&graph.unit);
    let title = format!(
        "Change of {}'s wall-clock time: width = time of the {name} run; red = more in the second, blue = less",
        words::processes(drawn)
    );
    options.title = plain(&title);
    options.subtitle = Some(plain(&format!("first: {}", words::what(before))));
    // The library takes the second value for the width and the difference from the first for the colour.
    options.negate_differentials = widths == Widths::First;
    let lines = graph.lines(|own| {
        let (of, width) = (own[1 - side], own[side]);
        (of > 0 || width > 0).then(|| format!("{of} {width}"))
    });
    let drawn = draw(&mut options, &lines)?;
    let legend = [
        ("itself more time in the second".to_string(), [255, 100, 100]),
        ("as much, or nothing of its own".to_string(), [250, 250, 250]),
        ("itself less time".to_string(), [100, 100, 255]),
    ];
    let lacking = graph.lacking();
    let gone: u64 = graph.tree.nodes.iter().filter(|n| n.total[side] == 0).map(|n| n.own[1 - side]).sum();
    let other = if side == 1 { "first" } else { "second" };
    let gone = format!(
        "stacks of the {other} run alone, which have no width here: {}",
        words::time(gone.saturating_mul(graph.unit.ns))
    );
    let second = format!("second: {}", words::what(profile));
    let mut remarks = vec![second.as_str(), gone.as_str()];
    remarks.extend(lacking.as_deref());
    out.write_all(&svg::with_legend(&drawn, &legend, &remarks)?)?;
    Ok(lacking)
}
