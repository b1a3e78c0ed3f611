// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two profiles: by how much each function's own time differs.

use super::flat::Row;
use super::limits::{share, Limits, Unit};
use super::options::By;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// One function, or whatever the rows are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Own time in the first; scaled where the difference is normalised.
    pub before_ns: u64,
    /// Own time in the second.
    pub after_ns: u64,
    /// Second minus first.
    pub difference_ns: i128,
    /// Its share of the first's whole.
    pub before_share: f64,
    /// Its share of the second's whole.
    pub after_share: f64,
    /// Difference of the shares in points: 0.01 is one point.
    pub difference_share: f64,
    /// Samples and waits in the first.
    pub before_count: u64,
    /// Samples and waits in the second.
    pub after_count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The first's whole time; scaled where the difference is normalised.
    pub before_ns: u64,
    /// The second's.
    pub after_ns: u64,
    /// What the first's times were multiplied by.
    pub scale: f64,
    /// Largest difference first, whatever its sign.
    pub rows: Vec<Change>,
}

impl Difference {
    /// Second minus first. `normalize` scales the first so that both are equally long.
    pub fn of(before: &[Row], after: &[Row], normalize: bool) -> Self {
        let sum = |rows: &[Row]| rows.iter().map(|r| r.self_ns).sum::<u64>();
        let (first, second) = (sum(before), sum(after));
        let scale = if normalize && first > 0 { second as f64 / first as f64 } else { 1.0 };
        let mut pairs: BTreeMap<(&str, &str), [(u64, u64); 2]> = BTreeMap::new();
        for (side, rows) in [before, after].into_iter().enumerate() {
            for row in rows.iter().filter(|r| r.self_ns > 0) {
                let one = &mut pairs.entry((&row.name, &row.module)).or_default()[side];
                *one = (one.0 + row.self_ns, one.1 + row.count);
            }
        }
        let scaled = |ns: u64| if normalize { (ns as f64 * scale).round() as u64 } else { ns };
        let mut rows: Vec<Change> = pairs
            .into_iter()
            .map(|((name, module), [(a, a_count), (b, b_count)])| {
                let (before_share, after_share) = (share(a, first), share(b, second));
                let a = scaled(a);
                Change {
                    name: name.into(),
                    module: module.into(),
                    before_ns: a,
                    after_ns: b,
                    difference_ns: i128::from(b) - i128::from(a),
                    before_share,
                    after_share,
                    difference_share: after_share - before_share,
                    before_count: a_count,
                    after_count: b_count,
                }
            })
            .collect();
        rows.sort_by(|x, y| {
            let size = |c: &Change| c.difference_ns.unsigned_abs();
            size(y).cmp(&size(x)).then_with(|| (&x.name, &x.module).cmp(&(&y.name, &y.module)))
        });
        Self { before_ns: scaled(first), after_ns: second, scale, rows }
    }

    /// Prints the table; the last row is the sum.
    ///
    /// # Errors
    /// The writer's.
    pub fn print(&self, by: By, ground: &Limits, out: &mut dyn Write) -> Result<()> {
        let unit = Unit::of(self.before_ns.max(self.after_ns));
        let scaled = if self.scale == 1.0 {
            String::new()
        } else {
            format!("; before times {:.3}, so that both are equally long", self.scale)
        };
        ground.fold(
            &format!(
                "Difference of self times, after minus before [{}; points: of each one's whole{scaled}]",
                unit.name
            ),
            "",
            out,
        )?;
        let modules = matches!(by, By::Function | By::Line);
        let mut head = vec!["before", "after", "diff", "points", super::flat::title(by)];
        head.extend(modules.then_some("<module"));
        let cells = |before: u64, after: u64, points: f64, words: [&str; 2]| {
            let difference = i128::from(after) - i128::from(before);
            let mut cells = vec![unit.time(before), unit.time(after), unit.signed(difference)];
            cells.push(format!("{:+.1}", points * 100.0));
            cells.push(words[0].into());
            cells.extend(modules.then(|| words[1].into()));
            cells
        };
        let shown = ground.rows(self.rows.len());
        let mut table: Vec<Vec<String>> = self.rows[..shown]
            .iter()
            .map(|c| cells(c.before_ns, c.after_ns, c.difference_share, [&c.name, &c.module]))
            .collect();
        let rest = &self.rows[shown..];
        if !rest.is_empty() {
            let sum = |of: fn(&Change) -> u64| rest.iter().map(of).sum();
            let points = rest.iter().map(|c| c.difference_share).sum();
            let words = format!("{} others", rest.len());
            table.push(cells(sum(|c| c.before_ns), sum(|c| c.after_ns), points, [&words, ""]));
        }
        table.push(Vec::new());
        table.push(cells(self.before_ns, self.after_ns, 0.0, ["all", ""]));
        ground.table(&head, table, 4, modules.then_some(5), out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::flat::rows;
    use super::super::symbols::Symbols;
    use super::super::testing::profile;
    use super::*;

    fn difference(before: &str, after: &str, normalize: bool) -> Difference {
        let [a, b] = [before, after].map(|text| {
            let p = profile(text);
            rows(&p, &Symbols::of(&p), By::Function)
        });
        Difference::of(&a, &b, normalize)
    }

    const BEFORE: &str = "app;main;f running 60\napp;main;g running 30\napp;main running 10";
    const AFTER: &str = "app;main;f running 20\napp;main;h_[k] running 30";

    #[test]
    fn what_grew_and_what_shrank() {
        let mut out = Vec::new();
        let d = difference(BEFORE, AFTER, false);
        d.print(By::Function, &Limits { limit: 2, ..Limits::default() }, &mut out).expect("memory");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "\
Difference of self times, after minus before [ms; points: of each one's whole]
   before  after    diff points function module
   60.000 20.000 -40.000  -20.0 f        app
   30.000  0.000 -30.000  -30.0 g        app
   10.000 30.000 +20.000  +50.0 2 others
  ---------------------------------------------
  100.000 50.000 -50.000   +0.0 all
"
        );
    }

    #[test]
    fn differences_add_up_to_that_of_the_wholes() {
        for normalize in [false, true] {
            let d = difference(BEFORE, AFTER, normalize);
            let sum: i128 = d.rows.iter().map(|c| c.difference_ns).sum();
            assert_eq!(sum, if normalize { 0 } else { -50_000_000 });
            assert_eq!(i128::from(d.after_ns) - i128::from(d.before_ns), sum);
            assert!(d.rows.iter().map(|c| c.difference_share).sum::<f64>().abs() < 1e-12);
        }
    }

    #[test]
    fn a_profile_does_not_differ_from_itself() {
        let d = difference(BEFORE, BEFORE, false);
        assert!(d.rows.iter().all(|c| c.difference_ns == 0 && c.difference_share == 0.0));
        let nothing = difference("app timer 0", AFTER, true);
        assert_eq!(nothing.before_ns, 0);
    }
}
