// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown and given away of a run: the versioned report document and the page that is packed
//! around it, the tables that queries and exports read, and the exports themselves.
//!
//! Reads what model and diagnosis made; decides nothing: names, units and colours stand in the
//! document, and the page and every export take them from there.

pub mod document;
pub mod export;
pub mod stream;
