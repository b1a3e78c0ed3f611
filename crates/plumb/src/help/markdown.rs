// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Markdown as the manuals use it, as text for a terminal: headings, paragraphs, lists, tables,
//! code (indented or fenced), comments. Anything else stays as it is.

use plumb_report::terminal::screen::{Look, Screen};
use plumb_report::terminal::{wrapped_to, Table};
use std::io::{self, Write};

/// A piece of a text.
#[derive(Debug, PartialEq)]
enum Block<'a> {
    Heading(&'a str),
    Paragraph(String),
    /// An item of a list: how far it is indented, its mark, its words.
    Item(usize, &'a str, String),
    Code(Vec<&'a str>),
    /// The head and the rows.
    Table(Vec<Vec<String>>),
}

/// The mark of a list's item, and what stands behind it.
fn item(line: &str) -> Option<(usize, &str, &str)> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let (mark, rest) = text.split_once(' ')?;
    let number =
        mark.strip_suffix('.').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (mark == "-" || number).then_some((indent, mark, rest))
}

/// Words without the marks of links, code and weight: `[a](b.md)` is `a`.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let behind = &rest[open + 1..];
        let link = behind.split_once("](").and_then(|(name, to)| Some((name, to.split_once(')')?.1)));
        // What has half of its code's marks before it stands in code.
        match link.filter(|(name, _)| !name.contains('[') && name.matches('`').count() % 2 == 0) {
            Some((name, left)) => {
                out += &rest[..open];
                out += name;
                rest = left;
            }
            None => {
                out += &rest[..=open];
                rest = behind;
            }
        }
    }
    out += rest;
    out.replace("**", "")
}

/// Words without code's marks too, for places where they only take room.
fn bare(text: &str) -> String {
    plain(text).replace('`', "")
}

/// Cells of a table's row; a `\|` is no edge.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let line = line.strip_suffix('|').unwrap_or(&line);
    line.split('|').map(|cell| bare(cell.trim()).replace('\u{1}', "|")).collect()
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut out: Vec<Block<'_>> = Vec::new();
    let mut comment = false;
    let mut fresh = true;
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            if fenced {
                out.push(Block::Code(Vec::new()));
            }
            fresh = true;
            continue;
        }
        if fenced {
            if let Some(Block::Code(lines)) = out.last_mut() {
                lines.push(line);
            }
            continue;
        }
        comment |= line.trim_start().starts_with("<!--");
        if comment {
            comment = !line.contains("-->");
            continue;
        }
        if line.trim().is_empty() {
            fresh = true;
            continue;
        }
        let is_fresh = std::mem::replace(&mut fresh, false);
        let inside = out.last_mut().filter(|_| !is_fresh);
        match (line, inside) {
            (l, _) if l.starts_with('#') => {
                out.push(Block::Heading(l.trim_start_matches('#').trim()));
                fresh = true;
            }
            (l, Some(Block::Table(rows))) if l.starts_with('|') => rows.push(cells(l)),
            (l, _) if l.starts_with('|') => out.push(Block::Table(vec![cells(l)])),
            (l, Some(Block::Code(lines))) if l.starts_with("    ") => lines.push(&l[4..]),
            // Code of one block goes on behind an empty line.
            (l, None) if l.starts_with("    ") && item(l).is_none() => match out.last_mut() {
                Some(Block::Code(lines)) => lines.extend(["", &l[4..]]),
                _ => out.push(Block::Code(vec![&l[4..]])),
            },
            (l, inside) => match (item(l), inside) {
                (Some((indent, mark, words)), _) => out.push(Block::Item(indent, mark, words.into())),
                (None, Some(Block::Paragraph(words) | Block::Item(_, _, words))) => {
                    words.push(' ');
                    words.push_str(l.trim());
                }
                _ => out.push(Block::Paragraph(l.trim().into())),
            },
        }
    }
    for block in &mut out {
        if let Block::Table(rows) = block {
            rows.retain(|row| !row.iter().all(|c| !c.is_empty() && c.chars().all(|c| "-: ".contains(c))));
        }
    }
    out
}

/// A table in columns where it has room, else a row after the other: its first cell, then what the
/// others say of it.
fn table(rows: &[Vec<String>], width: usize, out: &mut Screen<'_>) -> io::Result<()> {
    let Some((head, rows)) = rows.split_first() else { return Ok(()) };
    let left: Vec<String> = head.iter().map(|h| format!("<{h}")).collect();
    let mut table = Table::new(&left.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        let mut row = row.clone();
        row.resize(head.len(), String::new());
        table.row(row);
    }
    if table.whole(width) {
        return table.write(out);
    }
    for row in rows {
        let Some((first, others)) = row.split_first() else { continue };
        let name = out.paint(&wrapped_to(first, 2, width), Look::Bold);
        writeln!(out, "  {name}")?;
        for (title, cell) in head.iter().skip(1).zip(others).filter(|(_, c)| !c.is_empty() && *c != "-") {
            let words =
                if head.len() == 2 || title == "meaning" { cell.clone() } else { format!("{title}: {cell}") };
            writeln!(out, "      {}", wrapped_to(&words, 6, width))?;
        }
    }
    Ok(())
}

/// Writes a manual in lines of at most `width` columns, code as long as it is.
///
/// # Errors
/// The writer's.
pub fn write(text: &str, width: usize, out: &mut Screen<'_>) -> io::Result<()> {
    let blocks = blocks(text);
    for (i, block) in blocks.iter().enumerate() {
        let list = matches!(block, Block::Item(..)) && i > 0 && matches!(blocks[i - 1], Block::Item(..));
        if i > 0 && !list {
            writeln!(out)?;
        }
        match block {
            Block::Heading(words) => {
                let words = out.paint(&bare(words).to_uppercase(), Look::Bold);
                writeln!(out, "{words}")?;
            }
            Block::Paragraph(words) => writeln!(out, "{}", wrapped_to(&plain(words), 0, width))?,
            Block::Item(indent, mark, words) => {
                let at = indent + 2 + mark.len() + 1;
                let words = wrapped_to(&plain(words), at, width);
                writeln!(out, "{mark:>0$} {words}", at - 1)?;
            }
            Block::Code(lines) => {
                for line in lines {
                    writeln!(out, "{}", format!("    {line}").trim_end())?;
                }
            }
            Block::Table(rows) => table(rows, width, out)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::topics::TOPICS;
    use super::*;
    use plumb_report::terminal::screen::COLUMNS;

    fn text(markdown: &str) -> String {
        let mut out = Vec::new();
        write(markdown, COLUMNS, &mut Screen::file(&mut out)).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_manual_reads_as_text() {
        let markdown = "\
<!-- nothing
of this -->
# The `x` of it

One
**two** [three](four.md), [5].

- first
  goes on
- second
  1. inner

    code  --x

    more

| a | b |
|---|---|
| `c` | d \\| e |
";
        let wanted = "\
THE X OF IT

One two three, [5].

  - first goes on
  - second
    1. inner

    code  --x

    more

  a b
  c d | e
";
        assert_eq!(text(markdown), wanted);
    }

    #[test]
    fn a_table_without_room_is_a_list() {
        let long = "words and ".repeat(12);
        let two = text(&format!("| a | b |\n|---|---|\n| x | {long} |\n"));
        assert!(two.starts_with("  x\n      words and words"), "{two}");
        let three = text(&format!("| a | b | c |\n|---|---|---|\n| x | {long} | - |\n| y | | z |\n"));
        assert!(three.contains("  x\n      b: words and"), "{three}");
        assert!(three.ends_with("  y\n      c: z\n"), "{three}");
    }

    #[test]
    fn every_manual_is_text_of_eighty_columns() {
        for topic in TOPICS {
            let text = text(topic.text);
            assert!(text.lines().count() > 10, "{}", topic.name);
            for line in text.lines() {
                let code = line.starts_with("    ");
                let word = line.split_whitespace().count() == 1;
                let wide = line.chars().count() > COLUMNS && !code && !word;
                let marks = line.contains("<!--") || line.contains("|--") || line.contains("](");
                assert!(!wide, "{}: too wide: {line}", topic.name);
                assert!(!marks || code, "{}: marks of Markdown: {line}", topic.name);
            }
        }
    }
}
