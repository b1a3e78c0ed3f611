// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sheet with a title, a plotting area, axes and a legend, as SVG by plotters.
//!
//! Readable on white and for the colour-blind (Okabe and Ito's colours, 2008); a title and a
//! description stand in it for those who cannot see it.

use super::axis::Axis;
use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
pub use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Okabe and Ito's colours, the light ones last; more levels begin again.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Height of letters, pixels.
const LETTER: u32 = 13;
/// Width of a letter, about.
const LETTER_WIDTH: i32 = 7;
/// Plotters divides a font's size by it.
const POINTS: f64 = 1.24;
const LINE: i32 = 20;

/// The colour of the so-manyth line.
pub fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// What a sheet has besides what is drawn on it.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    pub title: String,
    /// A line below the title; empty: none.
    pub subtitle: String,
    /// What it shows, in words, for those who cannot see it.
    pub description: String,
    /// Height of the plotting area, pixels.
    pub height: i32,
    /// Letters of the longest mark at the left.
    pub left_letters: usize,
    /// Names of colours; empty: no legend.
    pub legend: Vec<String>,
    /// How the areas of the legend's names are filled; empty: they are lines, each with its colour.
    pub fills: Vec<Fill>,
}

/// How an area is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub rgb: [u8; 3],
    /// In stripes, to distinguish it from another one of the same colour.
    pub striped: bool,
}

pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

/// Draws on a sheet; the finished file.
///
/// # Errors
/// The drawing's.
pub fn sheet(sheet: &Sheet, draw: impl FnOnce(&Canvas<'_>) -> Result<()>) -> Result<String> {
    let longest = |names: &[String]| names.iter().map(|n| n.chars().count()).max().unwrap_or(0) as i32;
    let right_margin =
        if sheet.legend.is_empty() { 30 } else { 60 + LETTER_WIDTH * longest(&sheet.legend).min(40) };
    let left = 40 + LETTER_WIDTH * sheet.left_letters.max(4) as i32;
    let right = left + 560;
    let top = if sheet.subtitle.is_empty() { 46 } else { 46 + LINE };
    let bottom = top + sheet.height;
    let width = (right + right_margin).max(2 * left + LETTER_WIDTH * sheet.title.chars().count() as i32 / 2);
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (width as u32, (bottom + 60) as u32)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let canvas = Canvas { area, left, right, top, bottom };
        let bold = ("sans-serif", 16.0 * POINTS).into_font().style(FontStyle::Bold).color(&INK);
        canvas.write(&sheet.title, (16, 24), bold.pos(Pos::new(HPos::Left, VPos::Center)))?;
        canvas.text(&sheet.subtitle, (16, 24 + LINE), HPos::Left)?;
        draw(&canvas)?;
        for (i, name) in sheet.legend.iter().enumerate() {
            let y = top + 10 + LINE * i as i32;
            match sheet.fills.get(i) {
                Some(fill) => canvas.area_of((right + 18, y - 6), (right + 30, y + 6), *fill)?,
                None => canvas.dot((right + 24, y), i)?,
            }
            canvas.text(name, (right + 36, y), HPos::Left)?;
        }
        canvas.area.present().map_err(failed)?;
    }
    Ok(told(&svg, sheet))
}

/// Puts title and description into the file, and leaves out what XML forbids.
fn told(svg: &str, sheet: &Sheet) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words =
        format!("<title>{}</title>\n<desc>{}</desc>\n", escaped(&sheet.title), escaped(&sheet.description));
    let svg = match svg.split_once('>') {
        Some((head, rest)) => format!("{head} role=\"img\">\n{words}{}", rest.trim_start()),
        None => svg.into(),
    };
    let mut svg: String = svg.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    if !svg.trim_end().ends_with("</svg>") {
        svg += "</svg>\n";
    }
    svg
}

impl Canvas<'_> {
    /// Pixel of a place along the horizontal axis, 0 to 1.
    pub fn x(&self, place: f64) -> i32 {
        self.left + (f64::from(self.right - self.left) * place).round() as i32
    }

    /// Pixel of a place along the vertical axis.
    pub fn y(&self, place: f64) -> i32 {
        self.bottom - (f64::from(self.bottom - self.top) * place).round() as i32
    }

    /// Pixels from the left to the right and from the top to the bottom of the plotting area.
    pub fn ends(&self) -> (i32, i32, i32, i32) {
        (self.left, self.right, self.top, self.bottom)
    }

    fn write(&self, text: &str, at: (i32, i32), style: TextStyle<'_>) -> Result<()> {
        self.area.draw(&Text::new(text.to_string(), at, style)).map_err(failed)
    }

    /// Words, their middle at this height.
    pub fn text(&self, text: &str, at: (i32, i32), side: HPos) -> Result<()> {
        let style = ("sans-serif", f64::from(LETTER) * POINTS).into_font().color(&INK);
        self.write(text, at, style.pos(Pos::new(side, VPos::Center)))
    }

    pub fn line(&self, points: &[(i32, i32)], colour: RGBColor, width: u32) -> Result<()> {
        self.area.draw(&PathElement::new(points.to_vec(), colour.stroke_width(width))).map_err(failed)
    }

    /// A broken line, from the left or from the top.
    pub fn dashed(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Result<()> {
        const DASH: i32 = 6;
        let length = (to.0 - from.0).max(to.1 - from.1).max(1);
        for begin in (0..length).step_by(2 * DASH as usize) {
            let end = (begin + DASH).min(length);
            let at = |d: i32| (from.0 + (to.0 - from.0) * d / length, from.1 + (to.1 - from.1) * d / length);
            self.line(&[at(begin), at(end)], colour, 1)?;
        }
        Ok(())
    }

    pub fn bar(&self, corner: (i32, i32), other: (i32, i32), number: usize) -> Result<()> {
        self.area.draw(&Rectangle::new([corner, other], colour(number).filled())).map_err(failed)
    }

    /// A filled area, from its left upper corner to its right lower one.
    pub fn area_of(&self, from: (i32, i32), to: (i32, i32), fill: Fill) -> Result<()> {
        const STRIPES: usize = 4;
        let [r, g, b] = fill.rgb;
        let whole = RGBColor(r, g, b);
        if !fill.striped {
            return self.area.draw(&Rectangle::new([from, to], whole.filled())).map_err(failed);
        }
        self.area.draw(&Rectangle::new([from, to], whole.mix(0.3).filled())).map_err(failed)?;
        (from.0..to.0).step_by(STRIPES).try_for_each(|x| self.line(&[(x, from.1), (x, to.1)], whole, 2))
    }

    /// A point of the so-manyth line; after the seventh another shape tells them apart.
    pub fn dot(&self, at: (i32, i32), number: usize) -> Result<()> {
        let style = colour(number);
        if number < COLOURS.len() {
            self.area.draw(&Circle::new(at, 4, style.filled())).map_err(failed)
        } else {
            let corners = ((at.0 - 4, at.1 - 4), (at.0 + 4, at.1 + 4));
            self.area.draw(&Rectangle::new([corners.0, corners.1], style.stroke_width(2))).map_err(failed)
        }
    }

    /// A small point, one of many.
    pub fn point(&self, at: (i32, i32), number: usize) -> Result<()> {
        self.area.draw(&Circle::new(at, 1, colour(number).filled())).map_err(failed)
    }

    /// The vertical axis with its grid.
    pub fn vertical(&self, axis: &Axis) -> Result<()> {
        for (value, mark) in &axis.ticks {
            let Some(place) = axis.place(*value) else { continue };
            self.line(&[(self.left, self.y(place)), (self.right, self.y(place))], GRID, 1)?;
            self.text(mark, (self.left - 8, self.y(place)), HPos::Right)?;
        }
        self.frame()?;
        let style = ("sans-serif", f64::from(LETTER) * POINTS).into_font().color(&INK);
        let turned = style.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Center, VPos::Center));
        self.write(&axis.label, (16, (self.top + self.bottom) / 2), turned)
    }

    /// The horizontal axis; `grid`: with lines behind the figures.
    pub fn horizontal(&self, axis: &Axis, grid: bool) -> Result<()> {
        for (value, mark) in &axis.ticks {
            let Some(place) = axis.place(*value) else { continue };
            let x = self.x(place);
            if grid {
                self.line(&[(x, self.top), (x, self.bottom)], GRID, 1)?;
            }
            self.line(&[(x, self.bottom), (x, self.bottom + 5)], INK, 1)?;
            self.text(mark, (x, self.bottom + 16), HPos::Center)?;
        }
        self.frame()?;
        self.text(&axis.label, ((self.left + self.right) / 2, self.bottom + 42), HPos::Center)
    }

    fn frame(&self) -> Result<()> {
        self.line(&[(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], INK, 1)
    }
}
