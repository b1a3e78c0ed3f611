// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results are written, and how: a terminal gets what has room in its lines, in colours; a file
//! or pipe gets everything, without them, whatever the terminal is like.

use super::{wrapped_to, Table};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Columns of sentences, everywhere; of a table on a terminal at least.
pub const COLUMNS: usize = 80;

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Also in files and pipes.
    Always,
    /// Nowhere.
    Never,
}

static COLOR: OnceLock<Color> = OnceLock::new();

/// Says once when colours are wanted; before, and without, it is [`Color::Auto`].
pub fn choose(color: Color) {
    // Twice in a process it is the same.
    let _ = COLOR.set(color);
}

/// Whether colours are used: `no_color` and `term` are the variables NO_COLOR and TERM.
fn colored(color: Color, terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org: any value but an empty one.
        Color::Auto => terminal && no_color.is_none_or(str::is_empty) && term != Some("dumb"),
    }
}

/// Columns of the terminal; none when there is no terminal.
pub fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Bold,
    /// In one of the colours that kinds of time have.
    Rgb([u8; 3]),
}

/// A writer that knows how wide its lines may be and whether it shows colours.
pub struct Screen<'a> {
    out: &'a mut dyn Write,
    /// None: as wide as it is.
    width: Option<usize>,
    color: bool,
    /// 24 bits a colour, not the 256 that every terminal has.
    exact: bool,
}

impl<'a> Screen<'a> {
    /// A file: everything, without colours.
    pub fn file(out: &'a mut dyn Write) -> Self {
        Self { out, width: None, color: false, exact: false }
    }

    /// Standard output, whose lock `out` is; with `wide` a terminal gets everything too.
    pub fn stdout(out: &'a mut dyn Write, wide: bool) -> Self {
        Self::of(out, io::stdout().is_terminal(), wide)
    }

    /// Standard error, in the same way.
    pub fn stderr(out: &'a mut dyn Write, wide: bool) -> Self {
        Self::of(out, io::stderr().is_terminal(), wide)
    }

    fn of(out: &'a mut dyn Write, terminal: bool, wide: bool) -> Self {
        let variable = |name| std::env::var(name).ok();
        let chosen = COLOR.get().copied().unwrap_or_default();
        let color = colored(chosen, terminal, variable("NO_COLOR").as_deref(), variable("TERM").as_deref());
        let columns = || terminal_columns().unwrap_or(COLUMNS);
        let width = (terminal && !wide).then(|| columns().max(COLUMNS));
        let exact = matches!(variable("COLORTERM").as_deref(), Some("truecolor" | "24bit"));
        Self { out, width, color, exact }
    }

    /// Whether everything is written, however wide.
    pub fn whole(&self) -> bool {
        self.width.is_none()
    }

    /// Whether a table has room with all of its columns.
    pub fn fits(&self, table: &Table) -> bool {
        self.width.is_none_or(|width| table.fits(width))
    }

    /// The text as it is written to look so.
    pub fn paint(&self, text: &str, look: Look) -> String {
        match look {
            _ if !self.color || text.is_empty() => text.into(),
            Look::Bold => format!("\x1b[1m{text}\x1b[0m"),
            Look::Rgb([r, g, b]) if self.exact => format!("\x1b[38;2;{r};{g};{b}m{text}\x1b[0m"),
            Look::Rgb(rgb) => format!("\x1b[38;5;{}m{text}\x1b[0m", of_256(rgb)),
        }
    }

    /// A line over a table or list.
    ///
    /// # Errors
    /// The writer's.
    pub fn heading(&mut self, text: &str) -> io::Result<()> {
        let (title, note) = text.split_once(" [").unwrap_or((text, ""));
        let lines = wrapped_to(text, 2, COLUMNS);
        let painted = match note {
            "" => self.paint(&lines, Look::Bold),
            _ => lines.replacen(title, &self.paint(title, Look::Bold), 1),
        };
        writeln!(self.out, "{painted}")
    }

    /// A table, with all that has room; what has not is named.
    ///
    /// # Errors
    /// The writer's.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.table_less(table, &[])
    }

    /// The same, of a table that the caller has left something out of for want of room.
    ///
    /// # Errors
    /// The writer's.
    pub fn table_less(&mut self, table: &Table, less: &[&'static str]) -> io::Result<()> {
        let Some(width) = self.width else { return table.write(self.out) };
        let without = [less, &table.write_within(width, self.out)?].concat();
        if !without.is_empty() {
            self.left_out(&format!("without {}", without.join(", ")))?;
        }
        Ok(())
    }

    /// Says what is not shown for want of room.
    ///
    /// # Errors
    /// The writer's.
    pub fn left_out(&mut self, what: &str) -> io::Result<()> {
        writeln!(self.out, "  ({})", wrapped_to(&format!("{what}; --wide shows all"), 3, COLUMNS - 1))
    }
}

impl Write for Screen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The nearest of the 6 x 6 x 6 colours that terminals number from 16 on.
fn of_256(rgb: [u8; 3]) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let near = |c: u8| (0..6u8).min_by_key(|i| STEPS[usize::from(*i)].abs_diff(c)).unwrap_or(0);
    let [r, g, b] = rgb.map(near);
    16 + 36 * r + 6 * g + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let auto = |terminal, no_color, term| colored(Color::Auto, terminal, no_color, term);
        assert!(auto(true, None, Some("xterm")) && auto(true, None, None));
        assert!(auto(true, Some(""), Some("xterm")), "an empty NO_COLOR says nothing");
        assert!(!auto(true, Some("0"), Some("xterm")) && !auto(true, Some("1"), Some("xterm")));
        assert!(!auto(true, None, Some("dumb")) && !auto(false, None, Some("xterm")));
        assert!(colored(Color::Always, false, Some("1"), Some("dumb")));
        assert!(!colored(Color::Never, true, None, Some("xterm")));
    }

    #[test]
    fn a_file_has_everything_and_no_colours() {
        let mut out = Vec::new();
        let mut screen = Screen::file(&mut out);
        assert_eq!(screen.paint("x", Look::Bold), "x");
        let mut table = Table::new(&["<a", "b"]).least(&["b"]);
        table.row(vec!["x".repeat(70), "y".repeat(70)]);
        screen.table(&table).expect("memory");
        assert_eq!(String::from_utf8(out).expect("text").lines().last().map(str::len), Some(143));
        let mut out = Vec::new();
        let mut screen = Screen { out: &mut out, width: Some(80), color: true, exact: false };
        assert_eq!(screen.paint("x", Look::Rgb([0xff, 0xab, 0])), "\x1b[38;5;214mx\x1b[0m");
        screen.table(&table).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.ends_with("  (without b; --wide shows all)\n"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}
