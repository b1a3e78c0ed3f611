// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A field of comma-separated values.

/// A field as RFC 4180 wants it.
pub fn text(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(text("plain text"), "plain text");
        assert_eq!(text("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
