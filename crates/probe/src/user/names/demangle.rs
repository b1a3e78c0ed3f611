// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Symbols as their programs' sources have them.

/// A symbol's name: Rust's (legacy and v0, without its hash), C++'s, or as it is.
pub(super) fn demangle(symbol: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return format!("{name:#}");
    }
    if !symbol.starts_with("_Z") {
        return symbol.into();
    }
    cpp_demangle::Symbol::new(symbol).ok().and_then(|s| s.demangle().ok()).unwrap_or_else(|| symbol.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mangling_is_undone() {
        for (symbol, name) in [
            ("main", "main"),
            ("_ZN2ns3BoxIiE5twiceEi", "ns::Box<int>::twice(int)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Zbroken", "_Zbroken"),
            ("_RbrokenX", "_RbrokenX"),
        ] {
            assert_eq!(demangle(symbol), name);
        }
    }
}
