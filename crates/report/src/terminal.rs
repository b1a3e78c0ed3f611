// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for terminals, files and pipes: tables, wrapped paragraphs, colours.

pub mod screen;
pub mod similar_messages;
mod table;

pub use table::{middle_out, wrapped, wrapped_to, Table, WIDTH};
