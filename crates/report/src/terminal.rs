// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for terminals, files and pipes: tables, wrapped paragraphs, colours.

mod bars;
pub mod evidence_chain;
mod hosts;
mod hot;

mod loss;
pub mod results;
pub mod screen;
pub mod similar_messages;
mod spans;
mod table;
mod unexplained;
mod waypoints;

pub use bars::bars;
pub use hosts::{hosts, slowest};
pub use hot::hot;
pub use loss::loss;
pub use spans::{spans, wait_events};
pub use table::{middle_out, seconds, wrapped, wrapped_to, Table, WIDTH};
pub use unexplained::unexplained;
pub use waypoints::waypoints;
