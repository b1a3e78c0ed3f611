// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb top` draws, and what keys do. ASCII only: a terminal without UTF-8 shows it too.

use crate::cli::top::Sort;
use clap::ValueEnum;
use plumb_live::shown::{Service, Shown, PARTS};
use plumb_trace::units;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use ratatui::Frame;
use std::fmt::Write as _;

const KEYS: &str =
    "up/down choose  Enter one service  s sort  / filter  space stand still  w write a run  q end";
const LESS: &str = "up/down scroll  Esc back  space stand still  w write a run  q end";

/// What a key asks for beyond the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    /// Write what is kept as a run.
    Write,
    End,
}

/// What the screen shows, and how.
pub struct Screen {
    pub shown: Shown,
    /// Time of day, and who is looked at.
    pub title: String,
    /// The last line instead of the keys.
    pub message: String,
    sort: Sort,
    filter: String,
    /// Keys go to the filter.
    typing: bool,
    /// New windows do not come.
    still: bool,
    selected: usize,
    /// The one service that is shown, and the first line of it.
    one: Option<(String, u16)>,
}

impl Screen {
    pub fn new(sort: Sort, filter: &str) -> Self {
        Self {
            shown: Shown::default(),
            title: String::new(),
            message: String::new(),
            sort,
            filter: filter.into(),
            typing: false,
            still: false,
            selected: 0,
            one: None,
        }
    }

    /// A window is over.
    pub fn take(&mut self, shown: Shown, title: String) {
        if !self.still {
            (self.shown, self.title) = (shown, title);
        }
    }

    fn chosen(&self) -> Option<&Service> {
        let rows = sorted(&self.shown, self.sort, &self.filter);
        rows.get(self.selected.min(rows.len().saturating_sub(1))).copied()
    }

    pub fn key(&mut self, key: KeyEvent) -> Wish {
        self.message.clear();
        let ends = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if ends {
            return Wish::End;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter | KeyCode::Esc => self.typing = false,
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            return Wish::Nothing;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::End,
            KeyCode::Char('w') => return Wish::Write,
            KeyCode::Char(' ') => self.still = !self.still,
            KeyCode::Char('/') => (self.typing, self.filter) = (true, String::new()),
            KeyCode::Char('s') => {
                let all = Sort::value_variants();
                let at = all.iter().position(|s| *s == self.sort).unwrap_or(0);
                self.sort = all[(at + 1) % all.len()];
            }
            KeyCode::Enter => self.one = self.chosen().map(|s| (s.name.clone(), 0)),
            KeyCode::Esc => self.one = None,
            KeyCode::Down | KeyCode::Char('j') => self.moved(1),
            KeyCode::Up | KeyCode::Char('k') => self.moved(-1),
            KeyCode::PageDown => self.moved(10),
            KeyCode::PageUp => self.moved(-10),
            _ => {}
        }
        Wish::Nothing
    }

    fn moved(&mut self, by: isize) {
        match &mut self.one {
            Some((_, line)) => *line = line.saturating_add_signed(by as i16),
            None => {
                let rows = sorted(&self.shown, self.sort, &self.filter).len();
                self.selected = self.selected.saturating_add_signed(by).min(rows.saturating_sub(1));
            }
        }
    }

    pub fn draw(&self, frame: &mut Frame<'_>) {
        let rows = (self.shown.devices.len().max(self.shown.locks.len()) + 2) as u16;
        let below = if frame.area().height >= 16 { rows } else { 0 };
        let [head, verdict, main, below, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(below),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let s = &self.shown;
        let still = if self.still { "STANDING STILL  " } else { "" };
        let lost = if s.lost > 0 { format!("  {} EVENTS LOST", units::count(s.lost)) } else { String::new() };
        let text = format!(
            "{still}plumb top  {}  {:.1} of {:.0} CPUs busy  {} events/s{lost}",
            self.title,
            s.cpus[0],
            s.cpus[1],
            units::count(s.events as u64)
        );
        frame.render_widget(Line::styled(text, Style::new().add_modifier(Modifier::REVERSED)), head);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(
            Paragraph::new(s.bottleneck.as_str()).style(bold).wrap(Wrap { trim: true }),
            verdict,
        );
        match &self.one {
            Some((name, line)) => self.service(name, *line, frame, main),
            None => self.services(frame, main),
        }
        let [devices, locks] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(below);
        self.devices(frame, devices);
        self.locks(frame, locks);
        let foot_text = match (self.typing, self.message.is_empty()) {
            (true, _) => format!("only names with: {}_", self.filter),
            (false, false) => self.message.clone(),
            (false, true) if self.one.is_some() => LESS.into(),
            (false, true) => KEYS.into(),
        };
        frame.render_widget(Line::raw(foot_text), foot);
    }

    fn services(&self, frame: &mut Frame<'_>, area: Rect) {
        let head = ["service"].into_iter().chain(PARTS).chain(["req/s", "mean", "longest", "limited by"]);
        let head = Row::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED));
        let rows = sorted(&self.shown, self.sort, &self.filter);
        let cells = rows.iter().map(|s| Row::new(cells(s).into_iter().map(Cell::from)));
        let widths =
            [Constraint::Length(26)].into_iter().chain(PARTS.map(|_| Constraint::Length(6))).chain([
                Constraint::Length(8),
                Constraint::Length(9),
                Constraint::Length(9),
                Constraint::Fill(1),
            ]);
        let table = Table::new(cells, widths)
            .header(head)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let selected = self.selected.min(rows.len().saturating_sub(1));
        let mut state = TableState::new().with_selected((!rows.is_empty()).then_some(selected));
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn service(&self, name: &str, line: u16, frame: &mut Frame<'_>, area: Rect) {
        let text = match self.shown.services.iter().find(|s| s.name == name) {
            None => Text::raw(format!("{name} did nothing in this window")),
            Some(service) => Text::raw(details(service)),
        };
        frame.render_widget(Paragraph::new(text).scroll((line, 0)), area);
    }

    fn devices(&self, frame: &mut Frame<'_>, area: Rect) {
        let head = Row::new(["device", "req/s", "rate", "busy", "queued", "service"])
            .style(Style::new().add_modifier(Modifier::UNDERLINED));
        let rows = self.shown.devices.iter().map(|d| {
            Row::new([
                d.name.clone(),
                format!("{:.0}", d.requests),
                format!("{}/s", units::bytes(d.bytes as u64)),
                format!("{:.0} %", d.busy * 100.0),
                units::duration(d.before as u64),
                units::duration(d.service as u64),
            ])
        });
        let widths = [10, 7, 12, 6, 9, 9].map(Constraint::Length);
        frame.render_widget(Table::new(rows, widths).header(head), area);
    }

    fn locks(&self, frame: &mut Frame<'_>, area: Rect) {
        let head = Row::new(["waiting", "longest", "held by", "lock"])
            .style(Style::new().add_modifier(Modifier::UNDERLINED));
        let rows = self.shown.locks.iter().map(|l| {
            Row::new([
                format!("{:.2}", l.waiting),
                units::duration(l.longest),
                l.holder.clone(),
                l.name.clone(),
            ])
        });
        let widths =
            [Constraint::Length(7), Constraint::Length(9), Constraint::Length(15), Constraint::Fill(1)];
        frame.render_widget(Table::new(rows, widths).header(head), area);
    }
}

/// A service's row.
pub fn cells(s: &Service) -> Vec<String> {
    let threads = s.threads.map(|n| if n < 0.005 { "-".into() } else { format!("{n:.2}") });
    let time = |ns: u64| if ns == 0 { "-".into() } else { units::duration(ns) };
    let requests = if s.requests == 0.0 { "-".into() } else { format!("{:.0}", s.requests) };
    let mut cells = vec![s.name.clone()];
    cells.extend(threads);
    cells.extend([requests, time(s.mean), time(s.longest), s.limit.clone()]);
    cells
}

/// All of a service.
fn details(s: &Service) -> String {
    let are = if s.processes == 1 { "process" } else { "processes" };
    let mut text = format!("{} [{} {are}]\n", s.name, s.processes);
    s.verdict.iter().for_each(|line| _ = writeln!(text, "{line}"));
    text.push_str("\nThreads on average, and what they did\n");
    s.account.iter().for_each(|(what, n)| _ = writeln!(text, "{n:>8.2}  {what}"));
    if !s.findings.is_empty() {
        text.push_str("\nFindings, and their evidence\n");
        s.findings.iter().for_each(|line| _ = writeln!(text, "{line}"));
    }
    if !s.waits.is_empty() {
        text.push_str("\nLongest waits: who, for what, whose\n");
        s.waits.iter().for_each(|line| _ = writeln!(text, "{line}"));
    }
    text
}

/// The services with that in their names, in that order.
pub fn sorted<'a>(shown: &'a Shown, by: Sort, filter: &str) -> Vec<&'a Service> {
    let mut rows: Vec<&Service> = shown.services.iter().filter(|s| s.name.contains(filter)).collect();
    match by {
        Sort::Busy => {}
        Sort::Cpu => rows.sort_by(|a, b| b.threads[0].total_cmp(&a.threads[0])),
        Sort::Requests => rows.sort_by(|a, b| b.requests.total_cmp(&a.requests)),
        Sort::Longest => rows.sort_by_key(|s| std::cmp::Reverse(s.longest)),
        Sort::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    fn drawn(screen: &Screen, columns: u16, lines: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..lines).map(line).collect::<Vec<_>>().join("\n")
    }

    fn shown() -> Shown {
        let db = Service {
            name: "container db".into(),
            processes: 2,
            threads: [0.25, 0.0, 0.0, 1.5, 0.0, 0.0],
            requests: 20.0,
            longest: 360_000_000,
            limit: "slow device sda".into(),
            ..Service::default()
        };
        let nginx = Service {
            name: "nginx.service".into(),
            processes: 2,
            threads: [0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
            account: vec![("idle: no request".into(), 3.5)],
            ..Service::default()
        };
        let bottleneck = "container db: Bottleneck: slow device sda".into();
        Shown { seconds: 2.0, bottleneck, services: vec![db, nginx], ..Shown::default() }
    }

    fn screen() -> Screen {
        let mut screen = Screen::new(Sort::Busy, "");
        screen.take(shown(), "12:00:00".into());
        screen
    }

    #[test]
    fn services_come_in_the_order_that_was_asked_for() {
        let shown = shown();
        let first = |by, filter| sorted(&shown, by, filter)[0].name.clone();
        assert_eq!(
            (first(Sort::Cpu, ""), first(Sort::Requests, ""), first(Sort::Busy, "nginx")),
            ("nginx.service".into(), "container db".into(), "nginx.service".into())
        );
        assert!(sorted(&shown, Sort::Name, "nothing").is_empty());
    }

    fn press(screen: &mut Screen, keys: &[KeyCode]) -> Wish {
        keys.iter().map(|k| screen.key(KeyEvent::new(*k, KeyModifiers::NONE))).last().expect("a key")
    }

    #[test]
    fn services_and_their_limits_are_drawn() {
        let text = drawn(&screen(), 120, 24);
        for words in
            ["container db: Bottleneck: slow device sda", "nginx.service", "1.50", "360.00 ms", "12:00:00"]
        {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        assert!(text.is_ascii(), "{text}");
        // A terminal of any size.
        for (columns, lines) in [(20, 5), (1, 1), (20, 40), (300, 3)] {
            let _ = drawn(&screen(), columns, lines);
        }
    }

    #[test]
    fn keys_choose_sort_filter_and_stand_still() {
        let mut screen = screen();
        press(&mut screen, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
        let text = drawn(&screen, 100, 30);
        assert!(text.contains("nginx.service [2 processes]") && text.contains("idle: no request"), "{text}");
        press(
            &mut screen,
            &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('d'), KeyCode::Char('b'), KeyCode::Enter],
        );
        let text = drawn(&screen, 100, 30);
        assert!(!text.contains("nginx") && text.contains("container db"), "{text}");
        press(&mut screen, &[KeyCode::Char(' ')]);
        screen.take(Shown::default(), "later".into());
        assert!(drawn(&screen, 100, 30).contains("STANDING STILL  plumb top  12:00:00"));
        press(&mut screen, &[KeyCode::Char(' ')]);
        screen.take(Shown::default(), "later".into());
        assert!(drawn(&screen, 100, 30).contains("plumb top  later"));
        assert_eq!(press(&mut screen, &[KeyCode::Char('w')]), Wish::Write);
        assert_eq!(press(&mut screen, &[KeyCode::Char('q')]), Wish::End);
        let c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(c), Wish::End);
    }
}
