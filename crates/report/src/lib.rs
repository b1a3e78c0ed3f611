// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown and given away of a run: the versioned report document and the page that is packed
//! around it, the tables that queries and exports read, and the exports themselves.
//!
//! Reads what model and diagnosis made; decides nothing: names, units and colours stand in the
//! document, and the page and every export take them from there.

pub mod chart;
pub mod chart_images;
pub mod collect;
pub mod csv_field;
pub mod document;
pub mod document_files;
pub mod export;
pub mod fill;
pub mod hosts;
pub mod lake;
pub mod pack;
pub mod page;
pub mod palette;
pub mod plain;
pub mod profile;
pub mod query;
pub mod run;
pub mod run_directory;
pub mod staged_output;
pub mod stream;
pub mod table;
pub mod terminal;
pub mod time_parts;
pub mod upgrade;
pub mod words;
