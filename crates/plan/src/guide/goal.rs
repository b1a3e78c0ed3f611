// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The goal of a guide: how much less time the command is to take.

use anyhow::{bail, Context, Result};
use plumb_trace::units;
use serde::{Deserialize, Serialize};

/// Elapsed time of the command, median of the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// So much of the first measurement's median less, 0 to 1.
    Less(f64),
    /// Below so many ns.
    Below(u64),
}

impl Default for Goal {
    fn default() -> Self {
        Goal::Less(0.0)
    }
}

impl Goal {
    /// `elapsed -30%` or `elapsed < 2s`.
    ///
    /// # Errors
    /// It is neither; says what is.
    pub fn parse(text: &str) -> Result<Goal> {
        const EXAMPLES: &str = "examples: 'elapsed -30%', 'elapsed < 2s'";
        let rest = text.trim().strip_prefix("elapsed").map(str::trim);
        let Some(rest) = rest else { bail!("goal '{text}': the goal is of the elapsed time; {EXAMPLES}") };
        if let Some(time) = rest.strip_prefix('<') {
            let ns = units::parse_duration(time.trim()).map_err(|e| anyhow::anyhow!("goal '{text}': {e}"))?;
            return Ok(Goal::Below(ns));
        }
        let percent = rest.strip_prefix('-').and_then(|r| r.strip_suffix('%')).map(str::trim);
        let percent = percent.and_then(|p| p.parse::<f64>().ok()).filter(|p| *p > 0.0 && *p < 100.0);
        let percent = percent.with_context(|| format!("goal '{text}': {EXAMPLES}"))?;
        Ok(Goal::Less(percent / 100.0))
    }

    /// The median that meets it, ns, where the first measurement's is `first`.
    pub fn limit(&self, first: f64) -> f64 {
        match self {
            Goal::Less(part) => first * (1.0 - part),
            Goal::Below(ns) => *ns as f64,
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Goal::Less(part) => write!(f, "elapsed -{}%", units::digits(part * 100.0)),
            Goal::Below(ns) => write!(f, "elapsed < {}", units::duration(*ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_refused() {
        assert_eq!(Goal::parse("elapsed -30%").expect("a goal"), Goal::Less(0.3));
        assert_eq!(Goal::parse(" elapsed<2s ").expect("a goal"), Goal::Below(2_000_000_000));
        for bad in [
            "",
            "faster",
            "elapsed",
            "elapsed 30%",
            "elapsed -0%",
            "elapsed -100%",
            "elapsed < 2",
            "elapsed -x%",
        ] {
            let said = Goal::parse(bad).expect_err(bad).to_string();
            assert!(said.starts_with(&format!("goal '{bad}'")), "{said}");
        }
    }

    #[test]
    fn a_relative_goal_is_of_the_first_measurement() {
        assert_eq!(Goal::Less(0.25).limit(8e9), 6e9);
        assert_eq!(Goal::Below(2_000_000_000).limit(8e9), 2e9);
    }
}
