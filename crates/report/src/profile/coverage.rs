// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How few functions have how much of the time: whether a look at the top of the table is enough.

use super::flat::Row;
use super::limits::{share, Limits};
use anyhow::Result;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;

/// Shares of the time that are asked for, %.
const STEPS: &[u64] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100];
/// Those that are said in words.
const SAID: &[u64] = &[50, 80, 90, 95, 99];
/// Length of the longest bar.
const BAR: usize = 40;

/// One point of the curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Share of the time of all functions.
    pub time_share: f64,
    /// Fewest functions that have it.
    pub functions: u64,
    /// Their share of all functions with time of their own.
    pub functions_share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// Functions with time of their own.
    pub functions: u64,
    /// Their time; what has no stack is left out.
    pub time_ns: u64,
    /// In the order of the shares.
    pub points: Vec<Point>,
}

impl Coverage {
    /// Of the rows by function; those without a stack belong to none.
    pub fn of(rows: &[Row]) -> Self {
        let mut times: Vec<u64> =
            rows.iter().filter(|r| r.self_ns > 0 && !r.module.is_empty()).map(|r| r.self_ns).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let whole: u64 = times.iter().sum();
        let all = times.len() as u64;
        let points = STEPS.iter().map(|step| {
            let wanted = u128::from(whole) * u128::from(*step);
            let mut sum = 0u128;
            let short = times.iter().take_while(|t| {
                let before = sum;
                sum += u128::from(**t) * 100;
                before < wanted
            });
            let functions = short.count() as u64;
            Point { time_share: *step as f64 / 100.0, functions, functions_share: share(functions, all) }
        });
        Self { functions: all, time_ns: whole, points: points.collect() }
    }

    /// Prints it.
    ///
    /// # Errors
    /// The writer's.
    pub fn print(&self, ground: &Limits, out: &mut dyn Write) -> Result<()> {
        let all = units::count(self.functions);
        let said = |p: &&Point| SAID.iter().any(|s| *s as f64 / 100.0 == p.time_share);
        for p in self.points.iter().filter(said) {
            ground.fold(
                &format!(
                    "{} of {all} functions ({:.1} %) cover {:.0} % of the {} that have a stack.",
                    units::count(p.functions),
                    p.functions_share * 100.0,
                    p.time_share * 100.0,
                    units::duration(self.time_ns)
                ),
                "",
                out,
            )?;
        }
        writeln!(out, "  time   functions")?;
        let wide = all.len().max(3);
        for p in &self.points {
            let bar = "#".repeat((p.functions_share * BAR as f64).ceil() as usize);
            let line =
                format!("  {:>3.0} %  {:>wide$}  {bar}", p.time_share * 100.0, units::count(p.functions));
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::flat::rows;
    use super::super::options::By;
    use super::super::symbols::Symbols;
    use super::super::testing::profile;
    use super::*;

    fn coverage(text: &str) -> Coverage {
        let p = profile(text);
        Coverage::of(&rows(&p, &Symbols::of(&p), By::Function))
    }

    #[test]
    fn few_functions_have_most_of_the_time() {
        let mut out = Vec::new();
        let c = coverage(
            "app;a running 50\napp;b running 30\napp;c running 10\napp;d running 6\napp;e running 4\napp timer 100\napp running 7",
        );
        c.print(&Limits::default(), &mut out).expect("memory");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "\
1 of 5 functions (20.0 %) cover 50 % of the 100.00 ms that have a stack.
2 of 5 functions (40.0 %) cover 80 % of the 100.00 ms that have a stack.
3 of 5 functions (60.0 %) cover 90 % of the 100.00 ms that have a stack.
4 of 5 functions (80.0 %) cover 95 % of the 100.00 ms that have a stack.
5 of 5 functions (100.0 %) cover 99 % of the 100.00 ms that have a stack.
  time   functions
   10 %    1  ########
   20 %    1  ########
   30 %    1  ########
   40 %    1  ########
   50 %    1  ########
   60 %    2  ################
   70 %    2  ################
   80 %    2  ################
   90 %    3  ########################
   95 %    4  ################################
   99 %    5  ########################################
  100 %    5  ########################################
"
        );
    }

    #[test]
    fn without_stacks_there_is_nothing_to_cover() {
        let c = coverage("app timer 100");
        assert_eq!((c.functions, c.time_ns), (0, 0));
        assert!(c.points.iter().all(|p| p.functions == 0 && p.functions_share == 0.0));
    }
}
