// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result for programs: one document.

use super::{Outcome, PresetResult};
use serde_json::{json, Value};

impl Outcome {
    /// The document; `arguments` are the command line that asked for it.
    pub fn document(
        &self,
        arguments: &[String],
        preset: Option<&PresetResult>,
        warnings: &[String],
    ) -> Value {
        let clock = &self.clock;
        json!({
            "plumb": env!("CARGO_PKG_VERSION"),
            "arguments": arguments,
            "target": self.target,
            "interrupted": self.interrupted,
            "ended": self.ended,
            "error": self.error,
            "warnings": warnings,
            "environment": self.environment,
            "clock": {
                "source": clock.source(),
                "cost_ns": clock.cost_ns(),
                "resolution_ns": clock.resolution_ns(),
                "drift_ppm": clock.drift_ppm_since(),
                "ticks_per_ns": self.ticks_per_ns,
            },
            "orders": self.orders,
            "cells": self.cells,
            "preset": preset,
            "logs": self.logs,
            "kept": self.kept,
        })
    }
}
