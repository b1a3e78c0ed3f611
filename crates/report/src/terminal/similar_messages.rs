// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences that say the same with other numbers, as one with their range.

/// A number within a word: where it begins and ends.
fn numbers(word: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(begin) = word[at..].find(|c: char| c.is_ascii_digit()).map(|i| at + i) {
        let rest = &word[begin..];
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(rest.len());
        // A point or comma behind it is the sentence's.
        let length = rest[..length].trim_end_matches(['.', ',']).len();
        out.push((begin, begin + length));
        at = begin + length;
    }
    out
}

/// A word apart from its numbers.
fn word_shape(word: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    for (begin, end) in numbers(word) {
        out += &word[at..begin];
        out.push('#');
        at = end;
    }
    out + &word[at..]
}

/// What a sentence says apart from its numbers; a range is as one number.
fn shape(sentence: &str) -> String {
    words(sentence).iter().map(|(least, _)| word_shape(least)).collect::<Vec<_>>().join(" ")
}

/// The words of a sentence, each twice; a range that stands in it is one word, its ends are the two. `from 256 to 64` is a
/// change, no range.
fn words(sentence: &str) -> Vec<(&str, &str)> {
    let numeric = |word: &str| word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
    let changes = |before: &Vec<(&str, &str)>| before.last().is_some_and(|w| w.0 == "from");
    let all: Vec<&str> = sentence.split(' ').collect();
    let mut rest = &all[..];
    let mut out = Vec::new();
    while let [word, after @ ..] = rest {
        rest = after;
        match after {
            ["to", most, after @ ..] if numeric(word) && numeric(most) && !changes(&out) => {
                out.push((*word, *most));
                rest = after;
            }
            _ => out.push((*word, *word)),
        }
    }
    out
}

/// A word's numbers, to compare it with others of its shape.
fn size(word: &str) -> Vec<f64> {
    let number = |(begin, end): (usize, usize)| word[begin..end].replace(',', "").parse().unwrap_or(0.0);
    numbers(word).into_iter().map(number).collect()
}

/// Whether two sentences differ in numbers alone.
pub fn alike(a: &str, b: &str) -> bool {
    shape(a) == shape(b)
}

/// Sentences that are [`alike`] as one: a word that is not the same in all reaches from the least to the
/// largest, as in `32.2 to 33.1 % of it`.
pub fn ranged(sentences: &[&str]) -> String {
    let rows: Vec<Vec<(&str, &str)>> = sentences.iter().map(|s| words(s)).collect();
    let Some(first) = rows.first() else { return String::new() };
    let word = |at: usize| {
        let mut words: Vec<&str> =
            rows.iter().filter_map(|row| row.get(at)).flat_map(|w| [w.0, w.1]).collect();
        words.sort_by(|a, b| size(a).partial_cmp(&size(b)).unwrap_or(std::cmp::Ordering::Equal));
        match words[..] {
            [least, .., most] if least != most => {
                format!(
                    "{} to {}",
                    least.trim_end_matches([',', ';', ':', '.']),
                    most.trim_start_matches('(')
                )
            }
            _ => words.first().copied().unwrap_or_default().to_string(),
        }
    };
    (0..first.len()).map(word).collect::<Vec<_>>().join(" ")
}

/// Sentences, those that are [`alike`] as one, with how many each was; in the order of the first of each.
pub fn together(sentences: &[String]) -> Vec<(String, usize)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for sentence in sentences {
        let shape = shape(sentence);
        match groups.iter_mut().find(|(s, _)| *s == shape) {
            Some((_, group)) => group.push(sentence),
            None => groups.push((shape, vec![sentence])),
        }
    }
    groups.into_iter().map(|(_, group)| (ranged(&group), group.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sentences: &[&str]) -> Vec<(String, usize)> {
        together(&sentences.iter().map(|s| s.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn what_differs_in_numbers_has_their_range() {
        assert_eq!(
            of(&[
                "33.1 % of the latency is waiting",
                "nothing else",
                "4.5 % of the latency is waiting",
                "32.2 % of the latency is waiting"
            ]),
            [("4.5 to 33.1 % of the latency is waiting".to_string(), 3), ("nothing else".to_string(), 1)]
        );
        assert_eq!(of(&["the same, 3 times", "the same, 3 times"]), [("the same, 3 times".to_string(), 2)]);
        assert_eq!(
            ranged(&["1,310 in all, 9 left.", "999 in all, 10 left."]),
            "999 to 1,310 in all, 9 to 10 left."
        );
        assert_eq!(
            ranged(&[
                "for 22 to 36 ms (1.5 %) only",
                "for 40 ms (2.5 %) only",
                "for 9 to 30 ms (1 to 2 %) only"
            ]),
            "for 9 to 40 ms (1 to 2.5 %) only"
        );
        assert!(alike("for 22 to 36 ms", "for 9 ms"));
        assert_eq!(ranged(&["nr_requests from 256 to 64"]), "nr_requests from 256 to 64");
        assert_eq!(ranged(&["from 256 to 64", "from 128 to 32"]), "from 128 to 256 to 32 to 64");
        assert!(!alike("-5 to 3", "-5") && !alike("from 2 to 3", "from 2"));
    }

    #[test]
    fn workers_and_files_are_a_range_too() {
        let failure =
            |w: u32| format!("worker {w}: {} failed, the first: write /x/f.{w}.0 at 0: no space", w + 1);
        let all: Vec<String> = [2, 0, 1].map(failure).to_vec();
        assert_eq!(
            together(&all),
            [(
                "worker 0 to 2: 1 to 3 failed, the first: write /x/f.0.0 to /x/f.2.0 at 0: no space"
                    .to_string(),
                3
            )]
        );
    }

    #[test]
    fn other_units_and_words_are_not_the_same() {
        assert!(!alike("measured for 999 ms", "measured for 1 s"));
        assert!(!alike("a", "a 1") && alike("a 1.", "a 22."));
        assert_eq!(ranged(&[]), "");
    }
}
