// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables for the terminal.

use std::io::{self, Write};

/// A table whose columns are as wide as what stands in them; numbers to the right.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads; one that begins with '<' is set to the left.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|h| h.to_string()).collect(), rows: Vec::new() }
    }

    /// Adds a row; an empty one draws a line.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes it, every line indented by two blanks.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let left: Vec<bool> = self.head.iter().map(|h| h.starts_with('<')).collect();
        let head: Vec<&str> = self.head.iter().map(|h| h.trim_start_matches('<')).collect();
        let mut width: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (w, cell) in width.iter_mut().zip(row) {
                *w = (*w).max(cell.chars().count());
            }
        }
        let line = |cells: &[&str]| {
            let mut text = String::from(" ");
            for (i, cell) in cells.iter().enumerate() {
                let pad = " ".repeat(width[i].saturating_sub(cell.chars().count()));
                text += &if left[i] { format!(" {cell}{pad}") } else { format!(" {pad}{cell}") };
            }
            text.trim_end().to_string()
        };
        writeln!(out, "{}", line(&head))?;
        for row in &self.rows {
            if row.is_empty() {
                writeln!(out, "  {}", "-".repeat(width.iter().sum::<usize>() + width.len() - 1))?;
            } else {
                writeln!(out, "{}", line(&row.iter().map(String::as_str).collect::<Vec<_>>()))?;
            }
        }
        Ok(())
    }
}

/// Columns of a text that is read as one.
pub const WIDTH: usize = 96;

/// Words in lines; the first begins where the cursor is, `indent` columns from the left.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    let mut used = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let line = lines.len() - 1;
        if !lines[line].is_empty() && used + 1 + length > WIDTH {
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
