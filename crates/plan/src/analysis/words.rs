// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures and their names in words.

use crate::table::Unit;
use plumb_trace::units;

/// How figures of a unit are written: all of a table or axis alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Format {
    /// A figure times this is the number that is written.
    pub by: f64,
    /// The unit behind it; empty of a count.
    pub unit: &'static str,
}

const TIMES: &[(f64, f64, &str)] =
    &[(1e9, 1e-9, "s"), (1e6, 1e-6, "ms"), (1e3, 1e-3, "us"), (0.0, 1.0, "ns")];
const BYTES: &[(f64, f64, &str)] = &[
    ((1u64 << 30) as f64, 1.0 / (1u64 << 30) as f64, "GiB/s"),
    ((1u64 << 20) as f64, 1.0 / (1u64 << 20) as f64, "MiB/s"),
    (1024.0, 1.0 / 1024.0, "KiB/s"),
    (0.0, 1.0, "B/s"),
];

impl Format {
    /// The one that suits a figure of about this size.
    pub fn of(unit: Unit, about: f64) -> Format {
        let from = |steps: &[(f64, f64, &'static str)]| {
            let step = steps.iter().find(|(least, _, _)| about.abs() >= *least).or(steps.last());
            step.map_or(Format { by: 1.0, unit: "" }, |(_, by, unit)| Format { by: *by, unit })
        };
        match unit {
            Unit::Ns => from(TIMES),
            Unit::BytesPerSecond => from(BYTES),
            Unit::PerSecond => Format { by: 1.0, unit: "1/s" },
            Unit::Count => Format { by: 1.0, unit: "" },
            Unit::Share => Format { by: 100.0, unit: "%" },
        }
    }

    /// The number alone, with three digits that count.
    pub fn number(&self, value: f64) -> String {
        units::digits(value * self.by)
    }

    /// The number and its unit.
    pub fn text(&self, value: f64) -> String {
        format!("{} {}", self.number(value), self.unit).trim_end().into()
    }
}

/// A figure with its unit: `6.13 ms`.
pub fn value(value: f64, unit: Unit) -> String {
    Format::of(unit, value).text(value)
}

/// A ratio: `3.40`; `-` for none.
pub fn ratio(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v.abs() >= 99.95 => units::digits(v),
        v if v.abs() >= 9.995 => format!("{v:.1}"),
        v if v.abs() < 0.0995 => format!("{v:.3}"),
        v => format!("{v:.2}"),
    }
}

/// A share: `71 %`, small ones with a digit more.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => "-".into(),
        p if p.abs() < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// What a figure is, in words: `write.p99` is the `99 % quantile of the time of a write`.
pub fn title(figure: &str) -> String {
    let (step, name) = match figure.rsplit_once(':') {
        Some((step, name)) => (format!(" ({step})"), name),
        None => (String::new(), figure),
    };
    let words = match name.split_once('.') {
        None if name == "elapsed" => "elapsed time".into(),
        None => name.to_string(),
        Some(("thread", "mean")) => "mean time of a thread from the common start to its end".into(),
        Some(("time", category)) => format!("share of the threads' time: {category}"),
        Some((kind, what)) => match what {
            "mean" => format!("mean time of a {kind}"),
            "max" => format!("longest time of a {kind}"),
            "rate" => format!("rate of operations: {kind}"),
            "bandwidth" => format!("bandwidth of operations: {kind}"),
            "count" => format!("number of operations: {kind}"),
            "errors" => format!("failed operations: {kind}"),
            "user" => format!("CPU time in user mode of a {kind}"),
            "cpu" => format!("CPU time of a {kind}"),
            "system" => format!("CPU time in the kernel of a {kind}"),
            _ => match what.strip_prefix('p') {
                Some("50") => format!("median time of a {kind}"),
                Some(quantile) => format!("{quantile} % quantile of the time of a {kind}"),
                None => name.to_string(),
            },
        },
    };
    words + &step
}

/// The same at the beginning of a sentence.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// `a`, `a and b`, `a, b and c`; beyond `most`, how many more.
pub fn list(names: &[String], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    match (names, more) {
        ([], _) => String::new(),
        ([one], _) => one.clone(),
        (_, 0) => format!("{} and {}", names[..names.len() - 1].join(", "), names[names.len() - 1]),
        (_, more) => format!("{} and {more} more", names[..most].join(", ")),
    }
}

/// `1 cell`, `2 cells`.
pub fn several(n: usize, what: &str) -> String {
    format!("{} {what}{}", units::count(n as u64), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (v, text) in [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (99.96, "100"),
            (9.996, "10.0"),
            (-12.34, "-12.3"),
            (1.0, "1.00"),
            (0.1234, "0.123"),
            (0.016_61, "0.0166"),
            (0.003_336, "0.00334"),
            (0.000_123, "1.23e-4"),
            (-1234.0, "-1,234"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(units::digits(v), text);
        }
        assert_eq!(
            (ratio(3.4), ratio(0.05), ratio(12.34), percent(0.712)),
            ("3.40".into(), "0.050".into(), "12.3".into(), "71 %".into())
        );
    }

    #[test]
    fn figures_carry_the_unit_that_suits() {
        assert_eq!(value(6.13e6, Unit::Ns), "6.13 ms");
        assert_eq!(value(16_600.0, Unit::Ns), "16.6 us");
        assert_eq!(value(0.0, Unit::Ns), "0 ns");
        assert_eq!(value(3.5e6, Unit::BytesPerSecond), "3.34 MiB/s");
        assert_eq!(value(1234.5, Unit::PerSecond), "1,235 1/s");
        assert_eq!(value(0.71, Unit::Share), "71.0 %");
        assert_eq!(value(5.0, Unit::Count), "5.00");
        assert_eq!(Format::of(Unit::Ns, 2e6).number(16_600.0), "0.0166");
    }

    #[test]
    fn names_in_words() {
        assert_eq!(title("write.mean"), "mean time of a write");
        assert_eq!(title("seek:read.p99.9"), "99.9 % quantile of the time of a read (seek)");
        assert_eq!(title("elapsed"), "elapsed time");
        assert_eq!(title("time.block.device"), "share of the threads' time: block.device");
        assert_eq!(title("write.strange"), "write.strange");
        assert_eq!(capital("mean"), "Mean");
        let names = ["a", "b", "c", "d"].map(String::from);
        assert_eq!((list(&names[..2], 3), list(&names, 2)), ("a and b".into(), "a, b and 2 more".into()));
        assert_eq!((several(1, "cell"), several(1200, "cell")), ("1 cell".into(), "1,200 cells".into()));
    }
}
