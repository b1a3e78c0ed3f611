// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables and procedures as [`crate::preset::fill`] makes them.

use super::super::fill::{self, FillError, Filled, Observer, Set};
use super::tables::TABLES;
use super::transactions::procedures;
use crate::database::Dialect;
use std::sync::atomic::AtomicBool;

/// Makes tables, rows, keys, indexes and procedures, and has the tables analyzed.
///
/// # Errors
/// One of the tables is there, `stop` was set, or the database said no.
pub fn fill(
    url: &str,
    warehouses: u32,
    stop: &AtomicBool,
    observer: &Observer<'_>,
) -> Result<Filled, FillError> {
    let dialect = Dialect::of(url).unwrap_or(Dialect::Postgresql);
    let after = Some(procedures(dialect, warehouses));
    fill::fill(url, &Set { command: "tpcc-fill", tables: &TABLES, size: warehouses, after }, stop, observer)
}
