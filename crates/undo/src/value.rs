// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of files of /proc and /sys.

use std::io;
use std::path::Path;

/// A file of /proc or /sys as it is compared and written back: of a choice (`none [kyber]`) the
/// word that is chosen, blanks as one.
///
/// # Errors
/// It cannot be read.
pub fn value(path: &Path) -> io::Result<String> {
    let bytes = std::fs::read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let chosen = |word: &&str| word.starts_with('[') && word.ends_with(']') && word.len() > 2;
    Ok(match text.split_whitespace().find(chosen) {
        Some(word) => word[1..word.len() - 1].to_string(),
        None => text.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_the_word_that_is_chosen() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("scheduler");
        for (text, read) in [
            ("none [mq-deadline] kyber\n", "mq-deadline"),
            ("[none]\n", "none"),
            ("4096\t131072\t6291456\n", "4096 131072 6291456"),
            ("128\n", "128"),
        ] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(value(&path).expect("read"), read);
        }
    }
}
