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
/// Numbers of functions closer than this stand at the same place of a logarithm.
const NEAR: f64 = 1.02;
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
    #[serde(rename = "functions_ns")]
    pub time_ns: u64,
    /// In the order of the shares.
    pub points: Vec<Point>,
}

/// Times of the functions, the longest first; those without a stack belong to none.
fn times(rows: &[Row]) -> Vec<u64> {
    let own = rows.iter().filter(|r| r.self_ns > 0 && !r.module.is_empty());
    let mut times: Vec<u64> = own.map(|r| r.self_ns).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times
}

/// Of so many functions with most time, what share of the time they have, %. Of many functions not each number: points that a
/// line would not show.
pub fn curve(rows: &[Row]) -> Vec<(f64, f64)> {
    let times = times(rows);
    let whole: u64 = times.iter().sum();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut sum = 0;
    for (i, time) in times.iter().enumerate() {
        sum += time;
        let functions = (i + 1) as f64;
        let far = points.last().is_none_or(|last| functions / last.0 >= NEAR);
        if far || i + 1 == times.len() {
            points.push((functions, 100.0 * share(sum, whole)));
        }
    }
    points
}

impl Coverage {
    /// Of the rows by function; those without a stack belong to none.
    pub fn of(rows: &[Row]) -> Self {
        let times = times(rows);
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

    /// A line about a run of several: `before: of 5 functions 2 cover 80 %, 3 cover 90 %`.
    pub fn line(&self, name: &str) -> String {
        if self.functions == 0 {
            return format!("{name}: no time has a stack");
        }
        let said = self.points.iter().filter(|p| SAID.iter().any(|s| *s as f64 / 100.0 == p.time_share));
        let said = said.map(|p| format!("{} cover {:.0} %", units::count(p.functions), p.time_share * 100.0));
        let all = units::count(self.functions);
        format!("{name}: of {all} functions {}", said.collect::<Vec<_>>().join(", "))
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

    #[test]
    fn a_curve_goes_from_the_first_function_to_all_of_the_time() {
        let p = profile("app;a running 50\napp;b running 30\napp;c running 20\napp timer 100");
        let points = curve(&rows(&p, &Symbols::of(&p), By::Function));
        assert_eq!(points, [(1.0, 50.0), (2.0, 80.0), (3.0, 100.0)]);
        let many: String = (0..1000).map(|i| format!("app;f{i} running 1\n")).collect();
        let p = profile(&many);
        let points = curve(&rows(&p, &Symbols::of(&p), By::Function));
        assert!(points.len() < 300 && points.last() == Some(&(1000.0, 100.0)), "{points:?}");
    }
}
