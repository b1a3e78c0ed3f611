// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables for the terminal.

use std::io::{self, Write};

/// Columns that a cell of text keeps at least where a table is too wide.
const SHORT: usize = 24;
/// The same where it is too wide although columns were left out.
const SHORTEST: usize = 8;

/// A table whose columns are as wide as what stands in them; numbers to the right.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    least: Vec<&'static str>,
}

/// Which columns of a table are written, and how wide; those that are not have none.
struct Layout(Vec<Option<usize>>);

impl Layout {
    /// Columns of the terminal that a line takes, its indentation included.
    fn width(&self) -> usize {
        self.0.iter().flatten().map(|w| w + 1).sum::<usize>() + 1
    }

    /// Narrows the columns of text, the widest first, until it fits or they are down to `least`.
    fn narrow(&mut self, left: &[bool], least: usize, width: usize) {
        while self.width() > width {
            let columns = self.0.iter_mut().zip(left).filter(|(_, left)| **left);
            let Some(widest) = columns.filter_map(|(w, _)| w.as_mut()).max() else { return };
            if *widest <= least {
                return;
            }
            *widest -= 1;
        }
    }
}

/// Seconds to the millisecond.
pub fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

impl Table {
    /// A table with these column heads; one that begins with '<' is set to the left.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|h| h.to_string()).collect(), ..Self::default() }
    }

    /// Names the columns that may be left out where there is no room, the least important first.
    pub fn least(mut self, columns: &[&'static str]) -> Self {
        self.least = columns.to_vec();
        self
    }

    /// Adds a row; an empty one draws a line.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Which columns are text, set to the left.
    fn left(&self) -> Vec<bool> {
        self.head.iter().map(|h| h.starts_with('<')).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.head.iter().map(|h| h.trim_start_matches('<')).collect()
    }

    fn layout(&self) -> Layout {
        let mut width: Vec<usize> = self.names().iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (w, cell) in width.iter_mut().zip(row) {
                *w = (*w).max(cell.chars().count());
            }
        }
        Layout(width.into_iter().map(Some).collect())
    }

    /// Whether it has room in so many columns of the terminal, and nothing is cut.
    pub fn whole(&self, width: usize) -> bool {
        self.layout().width() <= width
    }

    /// Whether it has room in so many columns of the terminal, with all of its own columns.
    pub fn fits(&self, width: usize) -> bool {
        let mut layout = self.layout();
        layout.narrow(&self.left(), SHORT, width);
        layout.width() <= width
    }

    /// Writes it, every line indented by two blanks.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.lines(&self.layout(), out)
    }

    /// Writes it into so many columns of the terminal: long text is cut in its middle, then columns are
    /// left out, in the order of [`Table::least`]; their names are the answer.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_within(&self, width: usize, out: &mut dyn Write) -> io::Result<Vec<&'static str>> {
        let (mut layout, left, names) = (self.layout(), self.left(), self.names());
        let mut without = Vec::new();
        layout.narrow(&left, SHORT, width);
        for column in &self.least {
            if layout.width() <= width {
                break;
            }
            for (w, _) in layout.0.iter_mut().zip(&names).filter(|(_, name)| *name == column) {
                *w = None;
                without.push(*column);
            }
        }
        layout.narrow(&left, SHORTEST, width);
        if !without.is_empty() {
            // What columns that went had, text may have again.
            let mut again = self.layout();
            again.0.iter_mut().zip(&layout.0).filter(|(_, w)| w.is_none()).for_each(|(a, _)| *a = None);
            again.narrow(&left, SHORTEST, width);
            layout = again;
        }
        self.lines(&layout, out)?;
        Ok(without)
    }

    fn lines(&self, layout: &Layout, out: &mut dyn Write) -> io::Result<()> {
        let left = self.left();
        let line = |cells: &[&str]| {
            let mut text = String::from(" ");
            for (i, cell) in cells.iter().enumerate() {
                let Some(width) = layout.0[i] else { continue };
                let cell = middle_out(cell, width);
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                text += &if left[i] { format!(" {cell}{pad}") } else { format!(" {pad}{cell}") };
            }
            text.trim_end().to_string()
        };
        writeln!(out, "{}", line(&self.names()))?;
        for row in &self.rows {
            if row.is_empty() {
                writeln!(out, "  {}", "-".repeat(layout.width().saturating_sub(2)))?;
            } else {
                writeln!(out, "{}", line(&row.iter().map(String::as_str).collect::<Vec<_>>()))?;
            }
        }
        Ok(())
    }
}

/// A text of at most `most` characters, its middle left out where it is longer: names and command
/// lines are told apart by their ends.
pub fn middle_out(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.into();
    }
    let head = most / 3;
    let tail = letters.len() - (most.saturating_sub(head + 1));
    letters[..head].iter().chain(&['~']).chain(&letters[tail..]).collect()
}

/// Columns of a text that is read as one.
pub const WIDTH: usize = 96;

/// Words in lines; the first begins where the cursor is, `indent` columns from the left.
pub fn wrapped(text: &str, indent: usize) -> String {
    wrapped_to(text, indent, WIDTH)
}

/// The same, in lines of at most `width` columns; a word that is longer has a line of its own.
pub fn wrapped_to(text: &str, indent: usize, width: usize) -> String {
    let mut lines = vec![String::new()];
    let mut used = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let line = lines.len() - 1;
        if !lines[line].is_empty() && used + 1 + length > width {
            lines.push(word.into());
            used = indent + length;
        } else {
            let blank = if lines[line].is_empty() { "" } else { " " };
            lines[line] += &format!("{blank}{word}");
            used += length + blank.len();
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["pid", "<process", "elapsed", "mean"]).least(&["mean", "elapsed"]);
        table.row(vec!["1".into(), "a command with a long name".into(), "0.123".into(), "0.1".into()]);
        table.row(Vec::new());
        table.row(vec!["22".into(), "all".into(), "0.456".into(), "0.4".into()]);
        table
    }

    fn within(width: usize) -> (String, Vec<&'static str>) {
        let mut out = Vec::new();
        let without = table().write_within(width, &mut out).expect("memory");
        (String::from_utf8(out).expect("text"), without)
    }

    #[test]
    fn text_is_cut_before_a_column_goes() {
        let whole = "  pid process                    elapsed mean
    1 a command with a long name   0.123  0.1
  -------------------------------------------
   22 all                          0.456  0.4
";
        assert_eq!(within(45), (whole.to_string(), vec![]));
        let mut all = Vec::new();
        table().write(&mut all).expect("memory");
        assert_eq!(String::from_utf8(all).expect("text"), whole);
        let (text, without) = within(43);
        assert_eq!(text.lines().nth(1), Some("    1 a comman~ith a long name   0.123  0.1"));
        assert!(without.is_empty() && table().fits(43) && !table().fits(42));
        let (text, without) = within(42);
        assert_eq!(without, ["mean"]);
        // What the column had, the text may have again.
        assert!(text.contains(" a command with a long name ") && !text.contains("0.1\n"), "{text}");
        let (text, without) = within(20);
        assert_eq!(without, ["mean", "elapsed"]);
        assert!(text.lines().all(|l| l.chars().count() <= 20) && text.contains("a co"), "{text}");
    }

    #[test]
    fn a_text_keeps_its_ends() {
        assert_eq!(middle_out("abc", 3), "abc");
        assert_eq!(middle_out("abcdefghij", 7), "ab~ghij");
        assert_eq!(middle_out("abcdefghij", 1), "~");
    }
}
