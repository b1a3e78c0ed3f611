// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that belong together. The last one tells that all are there: it is removed before any of them changes, and put behind
//! them all, if nobody else put it meanwhile.

use crate::{sha256, Bucket, When};
use anyhow::{bail, Result};
use std::path::PathBuf;

/// Others that may put the same files in the meantime before it is given up.
const RACES: u32 = 5;

/// Files by their keys.
#[derive(Debug, Clone, Copy)]
pub struct Parcel<'a> {
    pub files: &'a [(String, PathBuf)],
    pub last: &'a (String, PathBuf),
    /// Keys that an older parcel of the same last key may have, and this one has not.
    pub gone: &'a [String],
    /// Whether one was begun, so that `gone` may be there without the last key.
    pub begun: bool,
}

/// What became of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    New,
    Replaced,
    /// It was there, to the end.
    Unchanged,
}

impl Bucket {
    /// Puts a parcel; `begin` is called before anything there is changed. Broken off at any moment, its last key is not there, and it or
    /// another one can be put.
    ///
    /// # Errors
    /// As of [`Bucket::put`], or of `begin`; others put the same files again and again.
    pub fn send(&self, parcel: Parcel<'_>, begin: &dyn Fn() -> Result<()>) -> Result<Sent> {
        let (key, path) = parcel.last;
        let ours = sha256(path)?;
        for _ in 0..RACES {
            let there = self.head(key)?;
            if there.as_ref().and_then(|object| object.sha256.as_ref()) == Some(&ours) {
                return Ok(Sent::Unchanged);
            }
            begin()?;
            if there.is_some() {
                self.remove(key)?;
            }
            if there.is_some() || parcel.begun {
                parcel.gone.iter().try_for_each(|key| self.remove(key))?;
            }
            for (key, path) in parcel.files {
                self.put(key, path, When::Always)?;
            }
            if self.put(key, path, When::New)? {
                return Ok(if there.is_some() { Sent::Replaced } else { Sent::New });
            }
            // Somebody put it, or an answer of our own was lost.
        }
        bail!("{key}: others put it at the same time, {RACES} times")
    }
}
