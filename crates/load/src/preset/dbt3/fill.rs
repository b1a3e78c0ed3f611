// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables as [`crate::preset::fill`] makes them.

use super::super::fill::{self, FillError, Observer, Set};
use super::tables::TABLES;
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// What was made.
#[derive(Debug, Serialize)]
pub struct Filled {
    /// `postgresql` or `mariadb`.
    pub database: &'static str,
    pub scale: f64,
    pub rows: u64,
    /// From the connection to the end of the statistics, ns.
    pub time_ns: u64,
    /// What a user may want to know.
    pub notes: Vec<String>,
}

impl Output for Filled {
    const FORMAT: &'static Format = &formats::DBT3_FILL;
}

/// Makes tables, rows, keys and indexes, and has them analyzed.
///
/// # Errors
/// One of the tables is there, `stop` was set, or the database said no.
pub fn fill(url: &str, scale: f64, stop: &AtomicBool, observer: &Observer<'_>) -> Result<Filled, FillError> {
    let set = Set { command: "dbt3-fill", tables: &TABLES, size: scale, after: None };
    let fill::Filled { database, rows, time_ns, notes, .. } = fill::fill(url, &set, stop, observer)?;
    Ok(Filled { database, scale, rows, time_ns, notes })
}
