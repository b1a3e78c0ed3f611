// SPDX-License-Identifier: Apache-2.0 OR MIT
//! POSIX extended regular expressions, those of `grep -E`, as the C library has them.

use anyhow::{bail, Context, Result};
use std::ffi::CString;
use std::mem::MaybeUninit;

/// A compiled expression with one group.
pub struct Pattern(Box<libc::regex_t>);

impl Pattern {
    /// # Errors
    /// It is no regular expression, or has not exactly one group; the C library's reason.
    pub fn new(text: &str) -> Result<Pattern> {
        let name = || format!("cannot use --figure '{text}'");
        let words = CString::new(text).with_context(name)?;
        let mut compiled = Box::new(MaybeUninit::<libc::regex_t>::zeroed());
        // SAFETY: both pointers are valid; regcomp fills what the first one names.
        let code = unsafe { libc::regcomp(compiled.as_mut_ptr(), words.as_ptr(), libc::REG_EXTENDED) };
        if code != 0 {
            let mut said = [0_u8; 128];
            // SAFETY: the buffer is as long as is said.
            unsafe { libc::regerror(code, compiled.as_ptr(), said.as_mut_ptr().cast(), said.len()) };
            let said = String::from_utf8_lossy(&said);
            bail!(
                "{}: {} (a POSIX extended regular expression is needed)",
                name(),
                said.trim_end_matches('\0')
            );
        }
        // SAFETY: regcomp succeeded.
        let pattern = Pattern(unsafe { compiled.assume_init() });
        let groups = group_count(text);
        if groups != 1 {
            bail!(
                "{}: it has {groups} groups; give it one, around the number: 'requests/s: ([0-9.]+)', or use 'elapsed' or 'cpu'",
                name()
            );
        }
        Ok(pattern)
    }

    /// What the group matches in the last line that has it.
    pub fn last_match<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.lines().rev().find_map(|line| self.group(line))
    }

    fn group<'a>(&self, line: &'a str) -> Option<&'a str> {
        let words = CString::new(line).ok()?;
        let mut found = [libc::regmatch_t { rm_so: -1, rm_eo: -1 }; 2];
        // SAFETY: the expression is compiled, the line ends with 0, and there is room for two places.
        let code = unsafe { libc::regexec(&*self.0, words.as_ptr(), 2, found.as_mut_ptr(), 0) };
        let place = usize::try_from(found[1].rm_so).ok().zip(usize::try_from(found[1].rm_eo).ok());
        place.filter(|_| code == 0).and_then(|(from, to)| line.get(from..to))
    }
}

/// Opening parentheses that are neither escaped nor within brackets.
fn group_count(text: &str) -> usize {
    let (mut count, mut escaped, mut bracket) = (0, false, None::<usize>);
    for (at, c) in text.char_indices() {
        match (c, bracket) {
            _ if escaped => escaped = false,
            // The first character of a bracket expression, also behind ^, is itself.
            (']', Some(begin)) if !["[", "[^"].contains(&&text[begin..at]) => bracket = None,
            (_, Some(_)) => {}
            ('\\', None) => escaped = true,
            ('[', None) => bracket = Some(at),
            ('(', None) => count += 1,
            _ => {}
        }
    }
    count
}

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: compiled by regcomp, freed once.
        unsafe { libc::regfree(&mut *self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_last_line_that_has_it() {
        let pattern = Pattern::new(r"rate: ([0-9.]+) \(mean\)").expect("a pattern");
        let text = "rate: 1.5 (mean)\nrate: 22.25 (mean) and more\nrate: x\n";
        assert_eq!(pattern.last_match(text), Some("22.25"));
        assert_eq!(pattern.last_match("none"), None);
        assert_eq!(Pattern::new("[]()]=([0-9]+)").expect("one group").last_match(")=7"), Some("7"));
    }

    #[test]
    fn what_is_no_pattern_with_one_group_is_refused() {
        for (text, word) in
            [("a(b", "cannot use"), ("abc", "0 groups"), ("(a)(b)", "2 groups"), ("time", "'elapsed'")]
        {
            let said = Pattern::new(text).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(said.contains(word), "{text}: {said}");
        }
    }
}
