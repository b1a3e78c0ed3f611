// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fio's values. By default its units are the wrong way round, for the sake
//! of old job files: `k` is 1024 and `ki` is 1000 (`kb_base=1000` turns that).

/// Which of `k` and `ki` is 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// `k`: the default.
    Old,
    /// `ki`: kb_base=1000.
    Standard,
}

/// Digits and the rest, in small letters.
fn split(text: &str) -> (String, String) {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..end].to_string(), text[end..].trim().to_string())
}

/// Bytes: `4k`, `22m`, `1g`, `0x1000`, `4KiB`.
pub(super) fn bytes(text: &str, base: Base) -> Result<u64, String> {
    if let Some(hex) = text.trim().strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| "is no number in base 16".into());
    }
    if text.contains('%') {
        return Err("a share of a file or device is not known before the run; write bytes, as in 1g".into());
    }
    let bad = || "is no length; examples: 4k, 22m, 1g".to_string();
    let (number, unit) = split(text);
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, iec) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, true),
        None => (unit, false),
    };
    let power = match prefix {
        "" if !iec => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(bad()),
    };
    let binary = iec == (base == Base::Standard);
    let scale = (if binary { 1024u64 } else { 1000 }).pow(power);
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(bad)
}

/// Time, ns: `30`, `5m` (minutes), `100us`; a number alone is `unit` ns each.
pub(super) fn time(text: &str, unit: u64) -> Result<u64, String> {
    let bad = || "is no time; examples: 30s, 5m, 100us".to_string();
    let (number, word) = split(text);
    let scale = match word.as_str() {
        "" => unit,
        "us" | "usec" => 1000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(bad)
}

pub(super) fn whole(text: &str) -> Result<u64, String> {
    bytes(text, Base::Old).map_err(|_| "is no whole number".into())
}

pub(super) fn yes(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "0" | "false" | "no" => Ok(false),
        "1" | "true" | "yes" => Ok(true),
        _ => Err("must be 0 or 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_fios_units() {
        for (text, old, standard) in [
            ("4096", 4096, 4096),
            ("4k", 4096, 4000),
            ("4Ki", 4000, 4096),
            ("1MiB", 1_000_000, 1 << 20),
            ("1mb", 1 << 20, 1_000_000),
            ("2g", 2 << 30, 2_000_000_000),
            ("1t", 1 << 40, 1_000_000_000_000),
            ("512b", 512, 512),
            ("0x10", 16, 16),
        ] {
            assert_eq!(bytes(text, Base::Old), Ok(old), "{text}");
            assert_eq!(bytes(text, Base::Standard), Ok(standard), "{text}");
        }
        for text in ["", "k", "4q", "4i", "-1", "99999999999t", "10%"] {
            assert!(bytes(text, Base::Old).is_err(), "{text}");
        }
    }

    #[test]
    fn m_is_a_minute_of_time() {
        assert_eq!(time("30", 1_000_000_000), Ok(30_000_000_000));
        assert_eq!(time("2m", 1), Ok(120_000_000_000));
        assert_eq!(time("100us", 1), Ok(100_000));
        assert_eq!(time("50", 1000), Ok(50_000));
        assert!(time("1w", 1).is_err());
    }
}
