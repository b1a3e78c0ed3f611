// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flame graphs: one profile's, coloured by what the time was.

use super::labels::{plain, round, Label, Line, Paths};
use super::svg;
use super::tree::{Left, Tree};
use super::words;
use crate::palette::{Kind, PAINTS};
use anyhow::{bail, Result};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{from_lines, Options, TextTruncateDirection};
use plumb_model::profile::Profile;
use std::io::Write;

/// Bytes that the frames may take.
const ROOM: usize = 4_200_000;
/// A frame below this share of the width is not drawn: a tenth of a pixel on a usual screen.
const LEAST: f64 = 1e-4;
/// Characters that a title has room for.
const TITLE: usize = 115;

/// A graph's unit: whole numbers of it tell the time to five digits.
pub struct Unit {
    pub name: &'static str,
    /// ns.
    pub ns: u64,
}

impl Unit {
    /// The one that fits a whole of `ns`.
    pub fn of(ns: u64) -> Self {
        match ns {
            0..=9_999_999 => Self { name: "ns", ns: 1 },
            10_000_000..=99_999_999_999 => Self { name: "us", ns: 1_000 },
            _ => Self { name: "ms", ns: 1_000_000 },
        }
    }
}

/// A graph before it is drawn.
pub struct Graph {
    pub labels: Vec<Label>,
    pub tree: Tree,
    /// Which of them to draw.
    pub drawn: Vec<bool>,
    pub left: Left,
    pub stacks: usize,
    pub unit: Unit,
}

impl Graph {
    /// Of one profile, or of the second of two; `side` tells whose times are the widths.
    pub fn new(profile: &Profile, before: Option<&Profile>, side: usize) -> Self {
        let mut paths = Paths::default();
        if let Some(before) = before {
            paths.add(before, 0);
        }
        paths.add(profile, 1);
        let lines = paths.lines();
        let times = |side: usize| -> Vec<u64> { lines.iter().map(|l: &Line| l.time[side]).collect() };
        let whole: u64 = times(side).iter().fold(0, |a, b| a.saturating_add(*b));
        let unit = Unit::of(whole);
        let (first, second) = (round(&times(0), unit.ns), round(&times(1), unit.ns));
        let tree = Tree::new(&lines, |i| [first[i], second[i]]);
        let least = ((whole / unit.ns) as f64 * LEAST).ceil() as u64;
        let labels = paths.labels;
        // Measured: a frame's tags and numbers, its name once whole and once as far as it fits.
        let cost = |label: u32| 330 + labels[label as usize].text.len() * 5 / 4;
        let (drawn, left) = tree.widest(side, least, ROOM, |n| cost(n.label));
        let stacks = lines.iter().filter(|l| l.time[side] > 0).count();
        Self { labels, tree, drawn, left, stacks, unit }
    }

    /// The lines of the drawn frames for the library, in its order. What is not drawn counts for its
    /// nearest drawn frame outside of it, so that the widths stay.
    pub fn lines(&self, values: impl Fn([u64; 2]) -> Option<String>) -> Vec<String> {
        let nodes = &self.tree.nodes;
        let mut own: Vec<[u64; 2]> = nodes.iter().map(|n| n.own).collect();
        for (i, node) in nodes.iter().enumerate().rev().filter(|(i, _)| !self.drawn[*i]) {
            if let Some(parent) = node.parent {
                let add = own[i];
                own[parent as usize].iter_mut().zip(add).for_each(|(to, add)| *to += add);
            }
        }
        let mut path: Vec<u32> = Vec::new();
        let mut lines = Vec::new();
        for (i, _) in nodes.iter().enumerate().filter(|(i, _)| self.drawn[*i]) {
            while path.last().is_some_and(|last| Some(*last) != nodes[i].parent) {
                path.pop();
            }
            path.push(i as u32);
            let Some(values) = values(own[i]) else { continue };
            let names: Vec<&str> =
                path.iter().map(|n| self.labels[nodes[*n as usize].label as usize].text.as_str()).collect();
            lines.push(format!("{} {values}", names.join(";")));
        }
        // The library sorts by characters, in which a blank in a name stands before the `;` behind
        // another: the same frame would be drawn twice. Its flame charts keep the order, reversed.
        lines.reverse();
        lines
    }

    /// What a reader of the graph must be told of what it lacks.
    pub fn lacking(&self) -> Option<String> {
        if self.left.stacks == 0 {
            return None;
        }
        Some(format!(
            "too narrow to draw: the innermost frames of {} of {} stacks, together {}; their width counts for the frame below",
            self.left.stacks,
            self.stacks,
            words::time(self.left.value.saturating_mul(self.unit.ns)),
        ))
    }

    /// Own values by kind of the innermost frame, largest first.
    fn kinds(&self) -> Vec<(Kind, u64)> {
        let mut sums: Vec<(Kind, u64)> = PAINTS.iter().map(|p| (p.kind, 0)).collect();
        for node in &self.tree.nodes {
            sums[self.labels[node.label as usize].kind as usize].1 += node.own[1];
        }
        sums.retain(|(_, value)| *value > 0);
        sums.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
        sums
    }
}

/// What all graphs share.
pub fn options(unit: &Unit) -> Options<'static> {
    let mut options = Options::default();
    options.count_name = unit.name.to_string();
    options.name_type = String::new();
    options.flame_chart = true;
    options.min_width = 0.0;
    options.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    options.text_truncate_direction = TextTruncateDirection::Right;
    options
}

/// Draws the lines.
///
/// # Errors
/// The library's.
pub fn draw(options: &mut Options<'_>, lines: &[String]) -> Result<Vec<u8>> {
    let mut svg = Vec::new();
    from_lines(options, lines.iter().map(String::as_str), &mut svg)?;
    Ok(svg)
}

/// A kind's colour, a little lighter or darker by the name, so that neighbours can be told apart.
fn shade(label: &Label) -> Color {
    let hash = label
        .text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let change = ((hash >> 32) % 17) as i16 - 8;
    let [r, g, b] = label.kind.paint().rgb.map(|c| (i16::from(c) + change).clamp(0, 255) as u8);
    Color { r, g, b }
}

/// The first line: whose time, and what the most of it was.
fn title(profile: &Profile, kinds: &[(Kind, u64)]) -> String {
    let mut title = format!("Wall-clock time of {}: width = time", words::processes(profile));
    for (i, (kind, _)) in kinds.iter().filter(|(k, _)| *k != Kind::Task).enumerate() {
        let paint = kind.paint();
        let more = format!("{} {} = {}", if i == 0 { ";" } else { "," }, paint.colour, paint.word);
        if title.chars().count() + more.chars().count() > TITLE {
            break;
        }
        title += &more;
    }
    title
}

/// Writes the graph; a sentence comes back if something is not in it.
///
/// # Errors
/// No time in the profile; the library's; the writer's.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<Option<String>> {
    if profile.time() == 0 {
        bail!("no time in this profile to draw: take a filter away, or a longer span (--from, --to)");
    }
    let graph = Graph::new(profile, None, 1);
    let kinds = graph.kinds();
    let mut colours = PaletteMap::default();
    colours.insert("", shade(&Label { text: String::new(), kind: Kind::Task }));
    // Of a process and a function with one name the function's colour says more.
    let mut by_kind: Vec<&Label> = graph.labels.iter().collect();
    by_kind.sort_by_key(|l| (l.kind != Kind::Task, l.kind, l.text.as_str()));
    for label in by_kind {
        colours.insert(&label.text, shade(label));
    }

    let mut options = options(&graph.unit);
    options.title = plain(&title(profile, &kinds));
    options.subtitle = Some(plain(&words::what(profile)));
    options.palette_map = Some(&mut colours);
    let lines = graph.lines(|[_, value]| (value > 0).then(|| value.to_string()));
    let svg = draw(&mut options, &lines)?;

    let whole = kinds.iter().map(|(_, v)| *v).sum::<u64>().max(1) as f64;
    let legend: Vec<(String, [u8; 3])> = kinds
        .iter()
        .map(|(kind, value)| {
            let paint = kind.paint();
            (format!("{} {:.1} %", paint.word, *value as f64 * 100.0 / whole), paint.rgb)
        })
        .collect();
    let lacking = graph.lacking();
    let notes: Vec<&str> = profile.notes.iter().map(String::as_str).chain(lacking.as_deref()).collect();
    out.write_all(&svg::with_legend(&svg, &legend, &notes)?)?;
    Ok(lacking)
}
