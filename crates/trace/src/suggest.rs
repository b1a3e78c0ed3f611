// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which name a word may be a typing error of.

/// The one of `names` that `word` may be a typing error of: at most two letters amiss, one in a
/// name of fewer than five. Of several as near, the first.
pub fn nearest<'a, N: AsRef<str>>(word: &str, names: &'a [N]) -> Option<&'a str> {
    let near = names.iter().map(|name| (amiss(word, name.as_ref()), name.as_ref()));
    let near = near.filter(|(amiss, name)| *amiss <= if name.len() < 5 { 1 } else { 2 });
    near.min_by_key(|(amiss, _)| *amiss).map(|(_, name)| name)
}

/// Letters to put in, leave out, change, or exchange with their neighbour (optimal string alignment).
fn amiss(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["syncwrite", "log", "meta", "files"];
        assert_eq!(nearest("syncwrit", &names), Some("syncwrite"));
        assert_eq!(nearest("snycwrte", &names), Some("syncwrite"));
        assert_eq!(nearest("mtea", &names), Some("meta"));
        assert_eq!(nearest("file", &names), Some("files"));
        assert_eq!(
            (nearest("foo", &names), nearest("synwrt", &names), nearest("", &names)),
            (None, None, None)
        );
    }

    #[test]
    fn of_several_as_near_it_is_the_first_and_a_nearer_one_goes_before_it() {
        assert_eq!(nearest("gp1", &["gp3", "gp2"]), Some("gp3"));
        assert_eq!(nearest("gp2", &["gp3", "gp2"]), Some("gp2"));
        // A short name that is too far off does not stand in the way of a longer one.
        assert_eq!(nearest("abcdxf", &["abcd", "abcdefg"]), Some("abcdefg"));
        assert_eq!(nearest("abcdxy", &["abcd", "abcdefg"]), None);
    }
}
