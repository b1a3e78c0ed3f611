// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words for figures: a number that a user reads carries its unit.

use crate::kernel;

/// A duration in the unit that suits it: `1.23 ms`.
pub fn duration(ns: u64) -> String {
    let v = ns as f64;
    match ns {
        0..=999 => format!("{ns} ns"),
        1_000..=999_999 => format!("{:.1} us", v / 1e3),
        1_000_000..=999_999_999 => format!("{:.2} ms", v / 1e6),
        _ => format!("{:.3} s", v / 1e9),
    }
}

/// A duration in a sentence, two or three digits: `477 ms`, `59.7 ms`, `3.9 us`.
pub fn brief(ns: u64) -> String {
    let v = ns as f64;
    let (v, unit) = match ns {
        0..=999 => return format!("{ns} ns"),
        1_000..=999_499 => (v / 1e3, "us"),
        999_500..=999_499_999 => (v / 1e6, "ms"),
        _ => (v / 1e9, "s"),
    };
    if v < 99.95 {
        format!("{v:.1} {unit}")
    } else {
        format!("{v:.0} {unit}")
    }
}

/// A length in the binary unit that suits it: `64.0 KiB`.
pub fn bytes(n: u64) -> String {
    let v = n as f64;
    match n {
        0..=1023 => format!("{n} B"),
        1024..=1_048_575 => format!("{:.1} KiB", v / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", v / 1_048_576.0),
        _ => format!("{:.2} GiB", v / 1_073_741_824.0),
    }
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Parses `250ms`, `10s`, `50us`, `100ns`, `2m` to nanoseconds.
///
/// # Errors
/// A sentence that names the text and shows an example.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a duration; examples: 250ms, 10s, 50us, 1h");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
    let (number, unit) = text.split_at(split);
    let value: f64 = number.parse().map_err(|_| bad())?;
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(bad()),
    };
    Ok((value * scale) as u64)
}

/// Parses `64K`, `16M`, `1G`, `2T`, `4096` (binary multiples) to bytes.
///
/// # Errors
/// A sentence that names the text and shows an example.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a size; examples: 4096, 64K, 16M, 1G, 2T");
    let t = text.trim().trim_end_matches("iB").trim_end_matches('B');
    let (number, shift) = match t.chars().last() {
        Some('k' | 'K') => (&t[..t.len() - 1], 10),
        Some('m' | 'M') => (&t[..t.len() - 1], 20),
        Some('g' | 'G') => (&t[..t.len() - 1], 30),
        Some('t' | 'T') => (&t[..t.len() - 1], 40),
        _ => (t, 0),
    };
    let value: u64 = number.trim().parse().map_err(|_| bad())?;
    value.checked_mul(1 << shift).ok_or_else(bad)
}

/// `major:minor` of a kernel device number.
pub fn device(dev: u32) -> String {
    format!("{}:{}", kernel::dev::major(dev), kernel::dev::minor(dev))
}

/// A number with three significant digits; `-` for none.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    // Rounding may carry into another digit: 9.996 is 10.0.
    match size {
        0.0 => "0".into(),
        s if s >= 99.95 => format!("{sign}{}", count(s.round() as u64)),
        s if s >= 9.995 => format!("{value:.1}"),
        s if s >= 0.9995 => format!("{value:.2}"),
        s if s >= 0.099_95 => format!("{value:.3}"),
        s if s >= 0.009_995 => format!("{value:.4}"),
        s if s >= 0.000_999_5 => format!("{value:.5}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_carry_units() {
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_234_567), "1.23 ms");
        assert_eq!(bytes(65536), "64.0 KiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(100), "100");
    }

    #[test]
    fn durations_and_sizes_are_read_and_bad_ones_named() {
        assert_eq!(parse_duration("1.5ms"), Ok(1_500_000));
        assert_eq!(parse_duration("10s"), Ok(10_000_000_000));
        assert!(parse_duration("10").expect_err("no unit").contains("250ms"));
        assert_eq!(parse_bytes("16M"), Ok(16 << 20));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("2T"), Ok(2 << 40));
        assert_eq!(parse_bytes("1TiB"), Ok(1 << 40));
        assert!(parse_bytes("16777216T").is_err());
        assert!(parse_bytes("99999999999999G").is_err());
    }
}
