// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree of times, and how it is printed.

use super::limits::{cut, percent, share, Limits, Unit};
use super::symbols::Symbols;
use anyhow::Result;
use plumb_trace::units;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A function, by its number.
    Function(u32),
    /// Something else, by its name.
    Named(String),
}

#[derive(Debug, Default)]
struct Node {
    children: Vec<(Step, usize)>,
    time: u64,
    own: u64,
    count: u64,
}

/// Times by path; a step that repeats the one before it is the same branch, so a function
/// that calls itself is one level.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    places: HashMap<(usize, Step), usize>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], places: HashMap::new() }
    }
}

/// A branch with its name, as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Branch {
    /// Function, state, process ...
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Its time, that of its branches included.
    pub time_ns: u64,
    /// Share of the root's time.
    pub share: f64,
    /// Time that is in none of its branches.
    pub self_ns: u64,
    pub count: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
    /// Branches that were too small.
    #[serde(skip_serializing_if = "Rest::is_empty")]
    pub others: Rest,
}

/// Branches that are not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rest {
    pub branches: usize,
    pub time_ns: u64,
    pub count: u64,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.branches == 0
    }
}

impl Tree {
    /// Adds time at the end of a path.
    pub fn add(&mut self, path: impl IntoIterator<Item = Step>, time: u64, count: u64) {
        let mut at = 0;
        let mut last = None;
        self.enter(at, time, count);
        for step in path {
            if last.as_ref() == Some(&step) {
                continue;
            }
            let new = self.nodes.len();
            let next = *self.places.entry((at, step.clone())).or_insert(new);
            if next == new {
                self.nodes.push(Node::default());
                self.nodes[at].children.push((step.clone(), new));
            }
            self.enter(next, time, count);
            (at, last) = (next, Some(step));
        }
        self.nodes[at].own += time;
    }

    fn enter(&mut self, at: usize, time: u64, count: u64) {
        self.nodes[at].time += time;
        self.nodes[at].count += count;
    }

    /// The tree with names, without branches below `ground.min` of the root's time and levels below `ground.depth`.
    pub fn named(&self, root: &str, symbols: &Symbols, ground: &Limits) -> Branch {
        self.branch(0, (root.to_string(), String::new()), 0, symbols, ground)
    }

    fn branch(
        &self,
        at: usize,
        (name, module): (String, String),
        level: usize,
        symbols: &Symbols,
        ground: &Limits,
    ) -> Branch {
        let (node, whole) = (&self.nodes[at], self.nodes[0].time);
        let mut out = Branch {
            name,
            module,
            time_ns: node.time,
            share: share(node.time, whole),
            self_ns: node.own,
            count: node.count,
            branches: Vec::new(),
            others: Rest::default(),
        };
        let mut children: Vec<(u64, (String, String), usize)> = node
            .children
            .iter()
            .map(|(step, child)| {
                let name = match step {
                    Step::Function(f) => (symbols.name(*f).to_string(), symbols.module(*f).to_string()),
                    Step::Named(name) => (name.clone(), String::new()),
                };
                (self.nodes[*child].time, name, *child)
            })
            .collect();
        children.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (time, name, child) in children {
            let deep = ground.depth > 0 && level >= ground.depth;
            if deep || (time as f64) < ground.min * whole as f64 {
                out.others.branches += 1;
                out.others.time_ns += time;
                out.others.count += self.nodes[child].count;
            } else {
                out.branches.push(self.branch(child, name, level + 1, symbols, ground));
            }
        }
        out
    }
}

impl Branch {
    /// Prints the tree: a branch begins with `-`; what follows it alone stands below it without one.
    ///
    /// # Errors
    /// The writer's.
    pub fn print(&self, ground: &Limits, out: &mut dyn Write) -> Result<()> {
        let unit = Unit::of(self.time_ns);
        let lines = self.lines(0, true);
        let time = |ns: u64| if ns == 0 { String::new() } else { unit.time(ns) };
        let total = lines.iter().map(|l| time(l.time).len()).max().unwrap_or(0).max(5);
        let own = lines.iter().map(|l| time(l.own).len()).max().unwrap_or(0).max(4);
        let left = ground.width.map(|w| w.saturating_sub(13 + total + own));
        writeln!(
            out,
            "  {:>5}  {:>total$}  {:>own$}  [total and self in {}]",
            "%", "total", "self", unit.name
        )?;
        for line in lines {
            let text = match left {
                // The indent is kept: it is what the tree is made of.
                Some(left) => {
                    let indent = line.text.len() - line.text.trim_start_matches([' ', '-']).len();
                    let (marks, name) = line.text.split_at(indent);
                    format!("{marks}{}", cut(name, left.saturating_sub(indent).max(12)))
                }
                None => line.text.clone(),
            };
            let (percent, whole, self_time) =
                (percent(line.time, self.time_ns), time(line.time), time(line.own));
            writeln!(out, "  {percent:>5}  {whole:>total$}  {self_time:>own$}  {text}")?;
        }
        Ok(())
    }

    fn lines(&self, indent: usize, first: bool) -> Vec<Line> {
        let mark = if indent == 0 {
            String::new()
        } else {
            "  ".repeat(indent - 1) + if first { "- " } else { "  " }
        };
        let module = match self.module.as_str() {
            "[kernel]" => " [kernel]",
            _ => "",
        };
        let name = match self.name.as_str() {
            "(no symbol)" => format!("(no symbol in {})", self.module),
            name => format!("{name}{module}"),
        };
        let mut out = vec![Line { text: format!("{mark}{name}"), time: self.time_ns, own: self.self_ns }];
        let alone = indent > 0 && self.branches.len() == 1 && self.self_ns == 0 && self.others.is_empty();
        for branch in &self.branches {
            let indent = if alone { indent } else { indent + 1 };
            out.extend(branch.lines(indent, !alone));
        }
        if !self.others.is_empty() {
            let n = units::count(self.others.branches as u64);
            let words = if self.others.branches == 1 { "other" } else { "others" };
            let text = format!("{}- {n} {words}", "  ".repeat(indent));
            out.push(Line { text, time: self.others.time_ns, own: 0 });
        }
        out
    }
}

struct Line {
    text: String,
    time: u64,
    own: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::profile::Profile;

    fn path(words: &str) -> Vec<Step> {
        words.split(' ').filter(|w| !w.is_empty()).map(|w| Step::Named(w.into())).collect()
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        for (words, time) in [("a b c", 40), ("a b d", 30), ("a b", 10), ("e", 15), ("f", 3), ("g g g", 2)] {
            tree.add(path(words), time * 1_000_000, 1);
        }
        tree
    }

    fn text(ground: &Limits) -> String {
        let symbols = Symbols::of(&Profile::default());
        let mut out = Vec::new();
        tree().named("all", &symbols, ground).print(ground, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_tree_with_its_small_branches_added_up() {
        assert_eq!(
            text(&Limits { min: 0.05, ..Limits::default() }),
            "
      %    total    self  [total and self in ms]
  100.0  100.000          all
   80.0   80.000          - a
   80.0   80.000  10.000    b
   40.0   40.000  40.000    - c
   30.0   30.000  30.000    - d
   15.0   15.000  15.000  - e
    5.0    5.000          - 2 others
"
            .trim_start_matches('\n')
        );
    }

    #[test]
    fn a_depth_cuts_levels_and_tells_their_time() {
        let text = text(&Limits { depth: 1, ..Limits::default() });
        let names: Vec<&str> = text.lines().skip(1).map(|l| l[26..].trim_end()).collect();
        assert_eq!(names, ["all", "- a", "  - 1 other", "- e", "- f", "- g"]);
    }

    #[test]
    fn branches_and_rest_add_up_to_their_root() {
        fn check(b: &Branch) {
            let parts: u64 = b.branches.iter().map(|b| b.time_ns).sum();
            assert_eq!(parts + b.others.time_ns + b.self_ns, b.time_ns, "{}", b.name);
            b.branches.iter().for_each(check);
        }
        let symbols = Symbols::of(&Profile::default());
        for (min, depth) in [(0.0, 0), (0.05, 0), (0.5, 0), (0.0, 1), (0.1, 2)] {
            check(&tree().named("all", &symbols, &Limits { min, depth, ..Limits::default() }));
        }
    }
}
