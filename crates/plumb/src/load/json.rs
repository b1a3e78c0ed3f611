// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result for programs: one document.

use super::classic::Classic;
use super::session::Outcome;
use anyhow::Result;
use serde_json::json;
use std::io::Write;

/// Writes it.
///
/// # Errors
/// The writer's.
pub fn write(
    outcome: &Outcome,
    classic: Option<&Classic>,
    warnings: &[String],
    out: &mut dyn Write,
) -> Result<()> {
    let clock = &outcome.clock;
    let all = json!({
        "plumb": env!("CARGO_PKG_VERSION"),
        "arguments": std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "target": outcome.target,
        "interrupted": outcome.interrupted,
        "ended": outcome.ended,
        "error": outcome.error,
        "warnings": warnings,
        "environment": outcome.environment,
        "clock": {
            "source": clock.source(),
            "cost_ns": clock.cost_ns(),
            "resolution_ns": clock.resolution_ns(),
            "drift_ppm": clock.drift_ppm_since(),
            "ticks_per_ns": outcome.ticks_per_ns,
        },
        "orders": outcome.orders,
        "cells": outcome.cells,
        "preset": classic,
        "logs": outcome.logs,
        "kept": outcome.kept,
    });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)?;
    Ok(())
}
