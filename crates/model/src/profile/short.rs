// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Function names for sentences.

/// A function's name without the types that it was made for: `sort<int, std::less<int>>(..)`
/// is `sort(..)`, `<std::fs::File as std::io::Read>::read` is `std::fs::File::read`. The names in
/// tables and exports stay whole.
pub fn short(name: &str) -> String {
    // operator<, operator->: what looks like a bracket is the name.
    if name.contains("operator") {
        return name.into();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    // `<Type as Trait>::f` and `<impl Trait for Type>::f`: the type stands for it.
    if let Some((inner, after)) = name.strip_prefix('<').and_then(|_| group(name)) {
        let of = inner.split(" as ").next().unwrap_or(inner);
        let of = of.rsplit(" for ").next().unwrap_or(of);
        out.push_str(&short(of.trim_start_matches(['&', '*']).trim_start_matches("mut ")));
        rest = after;
    }
    while let Some(at) = rest.find('<') {
        out.push_str(rest[..at].trim_end_matches("::"));
        match group(&rest[at..]) {
            Some((_, after)) => rest = after,
            None => {
                out.push_str(&rest[at..]);
                return out;
            }
        }
    }
    out + rest
}

/// What stands in the brackets at the head of a text, and what behind them.
fn group(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function's type.
            '>' if before != '-' && before != '=' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[1..at], &text[at + 1..]));
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn types_are_left_out_and_names_stay() {
        for (name, expected) in [
            ("main", "main"),
            ("copy_folio_from_iter_atomic", "copy_folio_from_iter_atomic"),
            ("start", "start"),
            ("one<plumb_load::engine::pwrite::Pwrite>", "one"),
            ("<std::fs::File>::sync_all", "std::fs::File::sync_all"),
            ("<std::fs::ReadDir as core::iter::Iterator>::next", "std::fs::ReadDir::next"),
            ("<&mut std::fs::File as std::io::Write>::write", "std::fs::File::write"),
            ("call_mut<fn(a::Claim) -> core::result::Result<(), b::Error>>", "call_mut"),
            ("core::slice::sort::<u8>::go", "core::slice::sort::go"),
            (
                "unsigned long known::medium<unsigned long>(std::vector<unsigned long>&, int)",
                "unsigned long known::medium(std::vector&, int)",
            ),
            ("std::operator<< <char>(std::ostream&)", "std::operator<< <char>(std::ostream&)"),
            ("torn<of<a", "torn<of<a"),
            ("a->b", "a->b"),
            ("x>y<z>", "x>y"),
            ("", ""),
        ] {
            assert_eq!(short(name), expected, "{name}");
        }
    }
}
