// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A section's options while they are read, and what is said of them.

use super::parse::{Entry, Section};
use super::units::{self, Base};
use super::{option_names, FioError, Unknown};

/// A section's options while they are read; each is looked up by its name here.
pub(super) struct Options<'a> {
    pub(super) section: &'a Section,
    pub(super) base: Base,
    pub(super) unknown: Vec<Unknown>,
    pub(super) ignored: Vec<Unknown>,
}

impl<'a> Options<'a> {
    /// The options of a section.
    pub(super) fn new(section: &'a Section) -> Self {
        let mut options = Options { section, base: Base::Old, unknown: Vec::new(), ignored: Vec::new() };
        if options.text("kb_base") == Some("1000") {
            options.base = Base::Standard;
        }
        options
    }

    /// The option as it is written.
    pub(super) fn entry(&self, key: &str) -> Option<&'a Entry> {
        debug_assert_eq!(option_names::canonical(key), Some(key));
        self.section.entries.iter().find(|e| e.key == key)
    }

    /// Its value as it is written.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.entry(key).map(|e| e.value.as_str())
    }

    /// Its value, read; an error names the line.
    pub(super) fn read<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, FioError> {
        let one = |e: &Entry| {
            read(&e.value).map_err(|why| FioError { line: e.line, text: format!("{}: {why}", e.written) })
        };
        self.entry(key).map(one).transpose()
    }

    pub(super) fn bytes(&self, key: &str) -> Result<Option<u64>, FioError> {
        self.read(key, |t| units::bytes(t, self.base))
    }

    pub(super) fn whole(&self, key: &str) -> Result<Option<u64>, FioError> {
        self.read(key, units::whole)
    }

    /// Whether it is there and says yes.
    pub(super) fn yes(&self, key: &str) -> Result<bool, FioError> {
        Ok(self.read(key, units::yes)?.unwrap_or(false))
    }

    /// A number between 1 and the most that a job takes.
    pub(super) fn number(&self, key: &str, most: u64) -> Result<Option<u32>, FioError> {
        self.read(key, |t| match units::whole(t)? {
            n if (1..=most).contains(&n) => Ok(n as u32),
            _ => Err(format!("must be 1 to {most}")),
        })
    }

    fn remark(&self, key: &str, why: &str) -> Option<Unknown> {
        self.entry(key).map(|e| Unknown { line: e.line, option: e.written.clone(), why: why.into() })
    }

    /// Names the option, if it is there, as one without a counterpart.
    pub(super) fn unknown(&mut self, key: &str, why: &str) {
        let remark = self.remark(key, why);
        self.unknown.extend(remark);
    }

    /// Names the option, if it is there, as one that changes nothing.
    pub(super) fn ignored(&mut self, key: &str, why: &str) {
        let remark = self.remark(key, why);
        self.ignored.extend(remark);
    }

    /// A value that may differ between reads, writes and trims, where it does not.
    pub(super) fn same_for_all(&mut self, key: &str) -> Option<&'a str> {
        let text = self.text(key)?;
        let mut parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        let first = parts.next()?;
        if parts.any(|p| p != first) {
            self.unknown(key, "reads and writes have the same value here; the first one is taken");
        }
        Some(first)
    }
}
