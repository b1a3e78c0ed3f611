// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts as SVG that needs nothing else: a sheet with axes, drawn by plotters.

pub mod axis;
pub mod canvas;
pub mod lines;
pub mod scale;
