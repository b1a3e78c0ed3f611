// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines over one axis.

use super::axis::Axis;
use super::canvas::{colour, sheet, Sheet};
use anyhow::Result;

const HEIGHT: i32 = 320;

/// A chart: lines over one axis.
pub struct Lines<'a> {
    pub title: String,
    /// What goes along, with its unit.
    pub along: String,
    /// What goes up, with its unit.
    pub up: String,
    /// The marks of the axis along; none: round numbers.
    pub marks: Option<&'a [(f64, String)]>,
    /// The axis along is logarithmic.
    pub log: bool,
    /// Lines: name, points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Lines<'_> {
    /// The file.
    ///
    /// # Errors
    /// The drawing's.
    pub fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let up = Axis::linear(self.up.clone(), points().map(|p| p.1));
        let along = match self.marks {
            Some(marks) => Axis::named(self.along.clone(), marks, self.log),
            None => {
                let log = if self.log { Axis::log(self.along.clone(), points().map(|p| p.0)) } else { None };
                log.unwrap_or_else(|| Axis::linear(self.along.clone(), points().map(|p| p.0)))
            }
        };
        let names = self.lines.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let ends = |points: &[(f64, f64)]| match (points.first(), points.last()) {
            (Some(a), Some(b)) => format!("from {:.1} at {} to {:.1} at {}", a.1, a.0, b.1, b.0),
            _ => "nothing".into(),
        };
        let described = self.lines.iter().map(|(name, points)| format!("{name}: {}", ends(points)));
        let page = Sheet {
            title: self.title.clone(),
            description: described.collect::<Vec<_>>().join("; "),
            height: HEIGHT,
            left_letters: up.ticks.iter().map(|t| t.1.chars().count()).max().unwrap_or(0),
            legend: if names.len() > 1 { names } else { Vec::new() },
            ..Sheet::default()
        };
        sheet(&page, |canvas| {
            canvas.vertical(&up)?;
            canvas.horizontal(&along, false)?;
            for (number, (_, points)) in self.lines.iter().enumerate() {
                let place = |(x, y): &(f64, f64)| Some((canvas.x(along.place(*x)?), canvas.y(up.place(*y)?)));
                let path: Vec<_> = points.iter().filter_map(place).collect();
                if path.len() > 1 {
                    canvas.line(&path, colour(number), 2)?;
                }
                if self.marks.is_some() {
                    path.iter().try_for_each(|at| canvas.dot(*at, number))?;
                }
            }
            Ok(())
        })
    }
}
