// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An axis: from figures to places between 0 and 1, and round numbers along it.

use plumb_trace::units::digits;

/// Ticks that a linear axis has, about.
const TICKS: f64 = 6.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    low: f64,
    high: f64,
    log: bool,
    /// Where it is marked, and how.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 (or the smallest below it) to at least the largest.
    pub fn linear(label: String, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) =
            values.filter(|v| v.is_finite()).fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low == high { (0.0, 1.0) } else { (low, high) };
        let step = round((high - low) / TICKS);
        let (from, to) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let ticks: Vec<f64> = (0..=(to - from) as usize).map(|i| (from + i as f64) * step).collect();
        Axis {
            label,
            low: from * step,
            high: to * step,
            log: false,
            ticks: ticks.into_iter().map(|v| (v, mark(v))).collect(),
        }
    }

    /// A logarithmic one, from below the smallest to above the largest of the values above 0; none where
    /// there are none.
    pub fn log(label: String, values: impl Iterator<Item = f64>) -> Option<Axis> {
        let (low, high) = values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        let steps = |from: i32, to: i32, cuts: &[f64]| -> Vec<f64> {
            (from..=to).flat_map(|d| cuts.iter().map(move |c| c * 10f64.powi(d))).collect()
        };
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let cuts = steps(from, to, &[1.0, 2.0, 5.0]);
        let bottom = cuts.iter().rev().find(|c| **c <= low * (1.0 + 1e-9)).copied().unwrap_or(low);
        let top = cuts.iter().find(|c| **c >= high * (1.0 - 1e-9) && **c > bottom).copied();
        let top = top.unwrap_or(bottom * 10.0);
        let cuts = if to - from > 4 { steps(from, to, &[1.0]) } else { cuts };
        let inside = cuts.into_iter().filter(|c| *c >= bottom * 0.999 && *c <= top * 1.001);
        Some(Axis { label, low: bottom, high: top, log: true, ticks: inside.map(|v| (v, mark(v))).collect() })
    }

    /// Marked at these values alone, with a little room on both sides.
    pub fn named(label: String, marks: &[(f64, String)], log: bool) -> Axis {
        let low = marks.iter().map(|m| m.0).fold(f64::INFINITY, f64::min);
        let high = marks.iter().map(|m| m.0).fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (log, high - low) {
            (true, d) if d > 0.0 => (low / (high / low).powf(0.05), high * (high / low).powf(0.05)),
            (false, d) if d > 0.0 => (low - d * 0.05, high + d * 0.05),
            (true, _) => (low / 2.0, high * 2.0),
            _ => (low - 1.0, high + 1.0),
        };
        Axis { label, low, high, log, ticks: marks.to_vec() }
    }

    /// So many fields of the same width, each named in its middle.
    pub fn fields(label: String, names: &[(f64, String)]) -> Axis {
        let high = names.len() as f64 - 0.5;
        Axis { label, low: -0.5, high, log: false, ticks: names.to_vec() }
    }

    /// Where a value lies, 0 to 1; none where it has no place: 0 on a logarithm, no number.
    pub fn place(&self, value: f64) -> Option<f64> {
        let place = match self.log {
            true if value <= 0.0 => return None,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }
}

/// 1, 2 or 5 times a power of ten, at least so large.
fn round(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * (1.0 - 1e-9)).unwrap_or(rough)
}

/// A round number without zeros behind it.
fn mark(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn round_numbers_from_zero_on() {
        let axis = Axis::linear("x".into(), [3.0, 23.0].into_iter());
        assert_eq!(marks(&axis), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!((axis.place(12.5), axis.place(0.0)), (Some(0.5), Some(0.0)));
        assert_eq!(
            marks(&Axis::linear("x".into(), [0.25].into_iter())),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25"]
        );
        assert_eq!(marks(&Axis::linear("x".into(), std::iter::empty())).first(), Some(&"0"));
        assert_eq!(Axis::linear("x".into(), [0.0, f64::NAN].into_iter()).place(0.0), Some(0.0));
        assert_eq!(Axis::linear("x".into(), [-5.0, 5.0].into_iter()).place(0.0), Some(0.5));
    }

    #[test]
    fn zeros_have_no_place_on_a_logarithm() {
        let axis = Axis::log("x".into(), [0.0, 0.3, 30.0, f64::NAN].into_iter()).expect("two above 0");
        assert_eq!(marks(&axis), ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]);
        assert_eq!((axis.place(0.0), axis.place(f64::NAN)), (None, None));
        assert!((axis.place(1.0).expect("inside") - (5.0f64).ln() / (250.0f64).ln()).abs() < 1e-9);
        assert_eq!(Axis::log("x".into(), [0.0].into_iter()), None);
        assert!(marks(&Axis::log("x".into(), [1.0, 1e9].into_iter()).expect("two")).len() <= 10);
        let one = Axis::log("x".into(), [1.0].into_iter()).expect("one");
        assert!(one.place(1.0).is_some_and(f64::is_finite));
    }

    #[test]
    fn named_marks_have_room_beside_them() {
        let marks = [(1.0, "1".to_string()), (4.0, "4".into()), (16.0, "16".into())];
        let axis = Axis::named("x".into(), &marks, true);
        assert!((axis.place(4.0).expect("inside") - 0.5).abs() < 1e-9);
        assert!(axis.place(1.0) > Some(0.0) && axis.place(16.0) < Some(1.0));
        assert!(Axis::named("x".into(), &marks[..1], false).place(1.0) == Some(0.5));
    }
}
