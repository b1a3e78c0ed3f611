// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the view waypoints: the way of each system call, and its functions.

use super::table::Table;
use plumb_model::views::{waypoints, Group, Groups, Key, Names};
use plumb_trace::units;
use std::io::{self, Write};

/// Rows that a table shows, those with most time; in the order of the way.
const MOST: usize = 60;
/// System calls that are shown, those with most time.
const MOST_CALLS: usize = 12;

type Row<'a> = (u64, &'a Group);

/// The rows of a kind, most time first.
fn rows<'a>(tables: &'a [Groups], kind: &str) -> Vec<Row<'a>> {
    let table = tables.iter().filter(|t| t.by.kind == kind);
    let rows = table.flat_map(|t| t.rows()).filter(|r| !r.2.rest);
    rows.map(|(_, key, group)| (key, group)).collect()
}

fn sum(rows: &[Row<'_>]) -> u128 {
    rows.iter().map(|r| r.1.values.sum).sum()
}

fn time(ns: u128) -> String {
    units::duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn share(part: u128, whole: u128) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn mean(sum: u128, group: &Group) -> u128 {
    sum / u128::from(group.values.count.max(1))
}

fn ways(rows: &[Row<'_>], names: &Names, whole: u128, out: &mut dyn Write) -> io::Result<()> {
    let mut shown = rows[..rows.len().min(MOST)].to_vec();
    shown.sort_by_key(|(key, g)| (mean(g.parts[0], g), *key));
    let mut table = Table::new(&["after", "<from", "<to", "count", "mean", "p99", "total", "share"]);
    for (key, g) in shown {
        let [_, from, to] = waypoints::way(key, names);
        table.row(vec![
            time(mean(g.parts[0], g)),
            from,
            to,
            units::count(g.values.count),
            time(mean(g.values.sum, g)),
            time(g.values.quantile(0.99).into()),
            time(g.values.sum),
            share(g.values.sum, whole),
        ]);
    }
    if let Some(rest) = rows.get(MOST..).filter(|rest| !rest.is_empty()) {
        let name = format!("{} other pairs", rest.len());
        let count = rest.iter().map(|r| r.1.values.count).sum();
        let (none, all) = (String::new, sum(rest));
        let cells =
            vec![none(), name, none(), units::count(count), none(), none(), time(all), share(all, whole)];
        table.row(cells);
    }
    table.write(out)
}

fn functions(rows: &[Row<'_>], names: &Names, whole: u128, out: &mut dyn Write) -> io::Result<()> {
    let mut table =
        Table::new(&["<function", "calls", "mean", "total", "share", "mean self", "self", "share"]);
    for (key, g) in rows.iter().take(MOST) {
        table.row(vec![
            waypoints::function(*key, names)[1].clone(),
            units::count(g.values.count),
            time(mean(g.values.sum, g)),
            time(g.values.sum),
            share(g.values.sum, whole),
            time(mean(g.parts[0], g)),
            time(g.parts[0]),
            share(g.parts[0], whole),
        ]);
    }
    table.write(out)
}

/// Those of a system call.
fn of<'a>(rows: &[Row<'a>], by: Key, call: u64) -> Vec<Row<'a>> {
    rows.iter().copied().filter(|(key, _)| waypoints::call_of(by, *key) == call).collect()
}

/// The way of each system call, most time first.
///
/// # Errors
/// The writer's.
pub fn waypoints(tables: &[Groups], names: &Names, out: &mut dyn Write) -> io::Result<()> {
    let (all_ways, all_functions) = (rows(tables, waypoints::WAY), rows(tables, waypoints::FUNCTION));
    let calls = rows(tables, waypoints::CALL);
    for (call, g) in calls.iter().take(MOST_CALLS) {
        let name = Key::Call.label(*call, names);
        let ways = of(&all_ways, Key::Way, *call);
        let whole = sum(&ways);
        let (n, total, per_call) =
            (units::count(g.values.count), time(g.values.sum), time(mean(g.values.sum, g)));
        writeln!(out, "waypoints: {name}, {n} calls, {total}, mean {per_call}")?;
        self::ways(&ways, names, whole, out)?;
        writeln!(out, "\nwaypoints: functions in {name}")?;
        functions(&of(&all_functions, Key::Function, *call), names, whole, out)?;
        writeln!(out)?;
    }
    if calls.len() > MOST_CALLS {
        writeln!(out, "{} other system calls: --by call\n", calls.len() - MOST_CALLS)?;
    }
    let outside = of(&all_functions, Key::Function, waypoints::NO_CALL);
    if !outside.is_empty() {
        writeln!(out, "waypoints: functions outside of any recorded system call")?;
        functions(&outside, names, sum(&outside), out)?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::views::{Filter, Spec, Viewer};
    use plumb_trace::reader::{Item, RawRecord, State};
    use plumb_trace::schema::{SpanBegin, SpanEnd, StateSpan, SysEnter, SysExit};
    use plumb_trace::Record;

    #[test]
    fn the_way_stands_in_its_order_and_adds_up() {
        let (name, place) = ("lookup".into(), "kernel: ext4_lookup (kprobe)".into());
        let spans = vec![StateSpan { span: 0, nests: 1, numbered: 0, name, place }];
        let state = State { spans, ..State::default() };
        let spec = Spec::find("waypoints").expect("view");
        let mut viewer = Viewer::new(spec, &state, Filter { to: u64::MAX, ..Filter::default() });
        let mut tables: Vec<Groups> = spec.tables.iter().copied().map(Groups::new).collect();
        let mut at = |ts, id, bytes: &[u8]| {
            let record = Item::Record(RawRecord { ts, id, cpu: 0, tid: 7, bytes });
            viewer.feed(&record, &mut |s, _| tables.iter_mut().for_each(|t| t.add(s)));
        };
        let creat = 85;
        for begin in [1_000, 2_000] {
            at(begin, SysEnter::ID, SysEnter { nr: creat, ..SysEnter::default() }.bytes());
            at(begin + 5, SpanBegin::ID, SpanBegin::default().bytes());
            at(begin + 65, SpanEnd::ID, SpanEnd::default().bytes());
            at(begin + 100, SysExit::ID, SysExit { nr: creat, ..SysExit::default() }.bytes());
        }
        let mut out = Vec::new();
        waypoints(&tables, &viewer.names, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        let want = [
            "waypoints: creat, 2 calls, 200 ns, mean 100 ns",
            "after from to count mean p99 total share",
            "0 ns enter lookup 2 5 ns 5 ns 10 ns 5.0 %",
            "5 ns lookup lookup ends 2 60 ns 60 ns 120 ns 60.0 %",
            "65 ns lookup ends exit 2 35 ns 35 ns 70 ns 35.0 %",
            "",
            "waypoints: functions in creat",
            "function calls mean total share mean self self share",
            "lookup 2 60 ns 120 ns 60.0 % 60 ns 120 ns 60.0 %",
            "",
        ];
        assert_eq!(lines.iter().map(|l| l.join(" ")).collect::<Vec<_>>(), want);
    }
}
